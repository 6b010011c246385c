/* SPDX-License-Identifier: Apache-2.0 */
/* A small network as TVM up to 0.19 would have compiled it. */

#include "tests/tvm/network.h"

#include <string.h>

#define INPUT(name) "{\"op\":\"null\",\"name\":\"" name "\",\"inputs\":[]}"
#define NODE(name, flatten, num_inputs, num_outputs, inputs)                                       \
  "{\"op\":\"tvm_op\",\"name\":\"" name "\",\"attrs\":{\"num_outputs\":\"" num_outputs             \
  "\",\"num_inputs\":\"" num_inputs "\",\"flatten_data\":\"" flatten "\",\"func_name\":\"" name    \
  "\",\"hash\":\"c93f3d3d1d2f4a2e\"},\"inputs\":[" inputs "]}"
#define VIEW(name, inputs)                                                                         \
  "{\"op\":\"tvm_op\",\"name\":\"" name "\",\"attrs\":{\"num_outputs\":\"1\",\"num_inputs\":\"1\"" \
  ",\"flatten_data\":\"0\",\"func_name\":\"__nop\"},\"inputs\":[" inputs "]}"
#define COPY(name, inputs)                                                                         \
  "{\"op\":\"tvm_op\",\"name\":\"" name "\",\"attrs\":{\"num_outputs\":\"1\",\"num_inputs\":\"1\"" \
  ",\"flatten_data\":\"0\",\"func_name\":\"__copy\"},\"inputs\":[" inputs "]}"

const char network_json[] = "{\"nodes\":[" INPUT("x") "," INPUT("p0") "," NODE(
    "tvmgen_default_fused_add", "0", "2", "1",
    "[0,0,0],[1,0,0]") "," VIEW("reshape_nop",
                                "[2,0,0]") "," NODE("tvmgen_default_fused_multiply", "1", "1", "1",
                                                    "[3,0,0]") "," NODE("tvmgen_default_fused_sum_"
                                                                        "greater",
                                                                        "0", "1", "2",
                                                                        "[4,0,0]") "],\"arg_"
                                                                                   "nodes\":[0,1],"
                                                                                   "\"heads\":[[4,"
                                                                                   "0,0],[5,0,0],["
                                                                                   "5,1,0]],"
                                                                                   "\"attrs\":{"
                                                                                   "\"dltype\":["
                                                                                   "\"list_str\",["
                                                                                   "\"float32\","
                                                                                   "\"float32\","
                                                                                   "\"float32\","
                                                                                   "\"float32\","
                                                                                   "\"float32\","
                                                                                   "\"float32\","
                                                                                   "\"uint1\"]],"
                                                                                   "\"shape\":["
                                                                                   "\"list_shape\","
                                                                                   "[[4],[4],[4],["
                                                                                   "2,2],[2,2],[],["
                                                                                   "2,2]]],"
                                                                                   "\"storage_id\":"
                                                                                   "[\"list_int\",["
                                                                                   "0,1,2,2,3,2,4]]"
                                                                                   "},"
                                                                                   "\"node_row_"
                                                                                   "ptr\":[0,1,2,3,"
                                                                                   "4,5,7]}";

char *network_json_on_two(int device_type) {
  return g_strdup_printf(
      "{\"nodes\":[" INPUT("x") "," INPUT("p0") "," COPY("x_copy", "[0,0,0]") "," NODE(
          "tvmgen_default_fused_add_device", "0", "2", "1",
          "[2,0,0],[1,0,0]") "," COPY("sum_copy",
                                      "[3,0,0]") "," VIEW("reshape_nop",
                                                          "[4,0,0]") "," NODE("tvmgen_default_"
                                                                              "fused_multiply",
                                                                              "1", "1", "1",
                                                                              "[5,0,0]") "," NODE("tvmgen_default_fused_sum_greater",
                                                                                                  "0",
                                                                                                  "1",
                                                                                                  "2",
                                                                                                  "[6,0,0]") "],\"arg_nodes\":[0,1],\"heads\":[[6,0,0],[7,0,0],[7,1,0]],"
                                                                                                             "\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"float32\",\"float32\",\"float32\","
                                                                                                             "\"float32\",\"float32\",\"float32\",\"float32\",\"uint1\"]],"
                                                                                                             "\"device_index\":[\"list_int\",[1,%d,%d,%d,1,1,1,1,1]],"
                                                                                                             "\"shape\":[\"list_shape\",[[4],[4],[4],[4],[4],[2,2],[2,2],[],[2,2]]],"
                                                                                                             "\"storage_id\":[\"list_int\",[0,1,2,3,4,4,5,4,6]]},"
                                                                                                             "\"node_row_ptr\":[0,1,2,3,4,5,6,7,9]}",
      device_type, device_type, device_type);
}

static const float p0[] = {1, 2, 3, 4}, unused[] = {5};
const ArtifactParam network_params[2] = {{"p0", p0, 4}, {"folded_away", unused, 1}};

/* ---- Code -------------------------------------------------------------------------------- */

const char network_cpu_source[] =
    "FN(tvmgen_default_fused_add) {\n"
    "  CHECK(num_args == 3, \"num_args should be 3\")\n"
    "  CHECK_TENSOR(0, 4) CHECK_TENSOR(1, 4) CHECK_TENSOR(2, 4)\n"
    "  for (int i = 0; i < 4; i++) FLOATS(2)[i] = FLOATS(0)[i] + FLOATS(1)[i];\n"
    "  return 0;\n"
    "}\n"
    /* Runs in parallel; each task has a workspace of its own. */
    "static int twice(int id, Env *env, void *data) {\n"
    "  float **of = data, *mine = HOST(TVMBackendAllocWorkspace)(1, 0, 4, 2, 32);\n"
    "  if (!mine) return -1;\n"
    "  for (int i = id; i < 4; i += env->num_task) { *mine = of[0][i]; of[1][i] = 2 * *mine; }\n"
    "  return HOST(TVMBackendFreeWorkspace)(1, 0, mine);\n"
    "}\n"
    "FN(tvmgen_default_fused_multiply) {\n"
    "  CHECK_TENSOR(0, 4) CHECK_TENSOR(1, 4)\n"
    "  float *of[] = {FLOATS(0), FLOATS(1)};\n"
    "  return HOST(TVMBackendParallelLaunch)(twice, of, 0);\n"
    "}\n"
    "FN(tvmgen_default_fused_sum_greater) {\n"
    "  CHECK(TENSOR(0)->ndim == 2, \"arg0.ndim is expected to equal 2\")\n"
    "  CHECK(TENSOR(1)->ndim == 0, \"arg1.ndim is expected to equal 0\")\n"
    "  CHECK(TENSOR(2)->dtype.code == 1 && TENSOR(2)->dtype.bits == 1, \"arg2.dtype is bool\")\n"
    "  *FLOATS(1) = 0;\n"
    "  for (int i = 0; i < 4; i++) {\n"
    "    *FLOATS(1) += FLOATS(0)[i];\n"
    "    ((char *)TENSOR(2)->data)[i] = FLOATS(0)[i] > 10;\n"
    "  }\n"
    "  return 0;\n"
    "}\n";

/* Kernels get handles, then numbers, then one size for each launch tag. */
const char network_device_source[] =
    "#define HANDLE(i) {.v_handle = TENSOR(i)->data}\n"
    "#define LAUNCH(name, handles, ...) do {"
    " static void *kept; Value values[] = {__VA_ARGS__};"
    " int n = sizeof values / sizeof *values, kinds[8];"
    " for (int i = 0; i < n; i++) kinds[i] = i < handles ? 3 : 0;"
    " if (find(&kept, name) || HOST(TVMFuncCall)(kept, values, kinds, n, ret, ret_code))"
    " return -1;"
    " } while (0)\n"
    "#define DEVICE TENSOR(0)->device\n"
    "FN(tvmgen_default_fused_add) {\n"
    "  CHECK_TENSOR(0, 4) CHECK_TENSOR(1, 4) CHECK_TENSOR(2, 4)\n"
    "  if (set_device(DEVICE.type, DEVICE.id)) return -1;\n"
    "  LAUNCH(\"tvmgen_default_fused_add_kernel0\", 3, HANDLE(2), HANDLE(0), HANDLE(1), {4}, {1},"
    " {4});\n"
    "  return 0;\n"
    "}\n"
    "FN(tvmgen_default_fused_add_device) {\n"
    "  return tvmgen_default_fused_add(args, codes, num_args, ret, ret_code, resource);\n"
    "}\n"
    "FN(tvmgen_default_fused_multiply) {\n"
    "  CHECK_TENSOR(0, 4) CHECK_TENSOR(1, 4)\n"
    "  if (set_device(DEVICE.type, DEVICE.id)) return -1;\n"
    "  LAUNCH(\"tvmgen_default_fused_multiply_kernel0\", 2, HANDLE(1), HANDLE(0), {4}, {0});\n"
    "  return 0;\n"
    "}\n"
    /* Computes through a workspace of the device. */
    "FN(tvmgen_default_fused_sum_greater) {\n"
    "  CHECK(TENSOR(1)->ndim == 0, \"arg1.ndim is expected to equal 0\")\n"
    "  if (set_device(DEVICE.type, DEVICE.id)) return -1;\n"
    "  void *space = HOST(TVMBackendAllocWorkspace)(DEVICE.type, DEVICE.id, 8, 2, 32);\n"
    "  if (!space) return -1;\n"
    "  LAUNCH(\"tvmgen_default_fused_sum_greater_kernel0\", 2, {.v_handle = space}, HANDLE(0), {1},"
    " {2});\n"
    "  LAUNCH(\"tvmgen_default_fused_sum_greater_kernel1\", 4, HANDLE(1), HANDLE(2),"
    " {.v_handle = space}, HANDLE(0), {1}, {1});\n"
    "  return HOST(TVMBackendFreeWorkspace)(DEVICE.type, DEVICE.id, space);\n"
    "}\n";

const ArtifactKernel network_kernels[4] = {
    {"tvmgen_default_fused_add_kernel0", "", 3, 1, "blockIdx.x threadIdx.x"},
    {"tvmgen_default_fused_multiply_kernel0", "tvmgen_default_fused_multiply_kernel0", 2, 0,
     "blockIdx.x threadIdx.x"},
    {"tvmgen_default_fused_sum_greater_kernel0", "", 2, 0, "blockIdx.x threadIdx.x"},
    {"tvmgen_default_fused_sum_greater_kernel1", "", 4, 0, "threadIdx.x blockIdx.x"},
};

char *network_device_code(const char *kind) {
  static const char kernels[] =
      "// Function: tvmgen_default_fused_add_kernel0\n"
      "KERNEL tvmgen_default_fused_add_kernel0(BUFFER float *out, BUFFER float *a,\n"
      "    BUFFER float *b, int n) {\n"
      "  if (ID < n) out[ID] = a[ID] + b[ID];\n"
      "}\n"
      "// Function: tvmgen_default_fused_multiply_kernel0\n"
      "KERNEL tvmgen_default_fused_multiply_kernel0(BUFFER float *out, BUFFER float *in) {\n"
      "  out[ID] = 2 * in[ID];\n"
      "}\n"
      "// Function: tvmgen_default_fused_sum_greater_kernel0\n"
      "KERNEL tvmgen_default_fused_sum_greater_kernel0(BUFFER float *out, BUFFER float *in) {\n"
      "  out[ID] = in[2 * ID] + in[2 * ID + 1];\n"
      "}\n"
      "// Function: tvmgen_default_fused_sum_greater_kernel1\n"
      "KERNEL tvmgen_default_fused_sum_greater_kernel1(BUFFER float *out, BUFFER char *greater,\n"
      "    BUFFER float *halves, BUFFER float *in) {\n"
      "  out[0] = halves[0] + halves[1];\n"
      "  for (int i = 0; i < 4; i++) greater[i] = in[i] > 10;\n"
      "}\n";
  int is_opencl = !strcmp(kind, "opencl");
  GString *code = g_string_new(kernels);
  g_string_replace(code, "KERNEL", is_opencl ? "__kernel void" : "extern \"C\" __global__ void", 0);
  g_string_replace(code, "BUFFER", is_opencl ? "__global" : "", 0);
  g_string_replace(code, "ID",
                   is_opencl ? "(int)get_global_id(0)"
                             : "((int)blockIdx.x * (int)blockDim.x + (int)threadIdx.x)",
                   0);
  return g_string_free(code, FALSE);
}

GByteArray *network_blob(const char *graph_json, const char *kind, const char *format,
                         const char *code, size_t code_size) {
  GByteArray *blob = g_byte_array_new();
  put_u64(blob, (guint64)(2 + (graph_json ? 1 : 0) + (kind ? 1 : 0)));
  if (graph_json)
    put_factory(blob, NETWORK_NAME, graph_json, network_params, G_N_ELEMENTS(network_params));
  put_str(blob, "_lib");
  if (kind)
    put_device_module(blob, kind, format, network_kernels, G_N_ELEMENTS(network_kernels), code,
                      code_size);
  if (graph_json)
    put_import_tree(blob, kind ? "0 1 2 2" : "0 1 1", kind ? "1 2" : "1");
  else
    put_import_tree(blob, kind ? "0 1 1" : "0 0", kind ? "1" : "");
  return blob;
}
