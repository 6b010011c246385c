/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries of TVM up to 0.19 as modules: their functions, the host functions that they call, their
 * blob. */

#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "tests/tvm/artifact.h"

static char *folder;

/* Opens a library compiled from C and a blob; NULL with an error. */
static BpModule *open_artifact(const char *header, const char *source, const GByteArray *blob) {
  char *path = g_build_filename(folder, "lib.so", NULL);
  build_artifact(path, header, source, blob);
  BpModule *module = bp_module_load(path);
  g_free(path);
  return module;
}

static BpModule *open_or_fail(const char *header, const char *source, const GByteArray *blob) {
  BpModule *module = open_artifact(header, source, blob);
  if (!module)
    g_error("%s", bp_error_message());
  return module;
}

static int call(BpModule *module, const char *name, const BpValue *args, int32_t num_args,
                BpValue *result) {
  BpFunction *function;
  if (bp_module_get_function(module, name, 1, &function) || !function)
    g_error("no function %s: %s", name, bp_error_message());
  *result = (BpValue){.type_index = BP_TYPE_NONE};
  int rc = bp_function_call(function, args, num_args, result);
  bp_object_release(function);
  return rc;
}

static int64_t call_int(BpModule *module, const char *name, const BpValue *args, int32_t num_args) {
  BpValue result;
  if (call(module, name, args, num_args, &result))
    g_error("%s: %s", name, bp_error_message());
  g_assert_cmpint(result.type_index, ==, BP_TYPE_INT);
  return result.v_int64;
}

static BpTensor *make_tensor(int64_t count, BpDataType dtype) {
  BpTensor *tensor = bp_tensor_create(&count, 1, dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!tensor)
    g_error("%s", bp_error_message());
  memset(tensor->view.data, 0, (size_t)bp_view_num_bytes(&tensor->view));
  return tensor;
}

static BpValue view_arg(BpTensorView *view) {
  return (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = view};
}

static const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1};

#define ADD_SOURCE                                                                                 \
  "FN(fused_add) {\n"                                                                              \
  "  CHECK(num_args == 3, \"num_args == 3\") CHECK(!resource && *ret_code == 4, \"fresh\")\n"      \
  "  CHECK_TENSOR(0, 4) CHECK_TENSOR(1, 4) CHECK_TENSOR(2, 4)\n"                                   \
  "  for (int i = 0; i < 4; i++) FLOATS(2)[i] = FLOATS(0)[i] + FLOATS(1)[i];\n"                    \
  "  return 0;\n"                                                                                  \
  "}\n"

/* ---- Calls ------------------------------------------------------------------------------- */

static void test_functions_are_called(void) {
  BpModule *module = open_or_fail(artifact_llvm_header, ADD_SOURCE, NULL);
  BpTensor *tensors[3];
  BpValue args[3], result;
  for (int i = 0; i < 3; i++) {
    tensors[i] = make_tensor(4, float32);
    args[i] = i ? view_arg(&tensors[i]->view)
                : (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensors[i]->header};
    for (int k = 0; k < 4; k++)
      ((float *)tensors[i]->view.data)[k] = (float)(10 * i + k);
  }
  g_assert_cmpint(call(module, "fused_add", args, 3, &result), ==, 0);
  g_assert_cmpint(result.type_index, ==, BP_TYPE_NONE);
  for (int k = 0; k < 4; k++)
    g_assert_true(((float *)tensors[2]->view.data)[k] == (float)(10 + 2 * k));
  size_t count;
  char **names = bp_module_list_functions(module, &count);
  g_assert_cmpuint(count, ==, 1);
  g_assert_cmpstr(names[0], ==, "fused_add");
  g_assert_cmpstr(bp_module_kind(module), ==, "packed_c_library");
  bp_names_free(names);
  bp_object_release(module);
  for (int i = 0; i < 3; i++)
    bp_object_release(tensors[i]);
}

static void test_errors_have_the_text_of_the_library(void) {
  BpModule *module =
      open_or_fail(artifact_llvm_header, ADD_SOURCE "FN(silent) { return -1; }\n", NULL);
  BpTensor *tensor = make_tensor(5, float32);
  BpValue args[] = {view_arg(&tensor->view), view_arg(&tensor->view), view_arg(&tensor->view)};
  BpValue result;
  g_assert_cmpint(call(module, "fused_add", args, 2, &result), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_RUNTIME));
  g_assert_cmpstr(bp_error_message(), ==, "Assert fail: num_args == 3");
  g_assert_cmpint(call(module, "fused_add", args, 3, &result), ==, -1);
  g_assert_cmpstr(bp_error_message(), ==, "Assert fail: arg0.shape[0] == 4");
  /* An earlier error is not taken for the reason. */
  g_assert_cmpint(call(module, "silent", NULL, 0, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "without a message"));
  bp_object_release(tensor);
  bp_object_release(module);
}

static int nothing(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return 0;
}

/* Returns the type of the argument if the argument is true, else -1. */
static int truth(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  g_assert_cmpint(num_args, ==, 1);
  *result = (BpValue){.type_index = BP_TYPE_INT,
                      .v_int64 = args[0].v_int64 == 1 ? args[0].type_index : -1};
  return 0;
}

static void test_each_type_of_value_has_its_code(void) {
  static const char source[] =
      "FN(code) { ret->v_int64 = codes[0]; *ret_code = 0; return 0; }\n"
      "FN(byte) { ret->v_int64 = args[0].v_str[0]; *ret_code = 0; return 0; }\n"
      "FN(bits) { *ret = args[0]; *ret_code = codes[0]; return 0; }\n"
      "FN(odd) { *ret_code = 8; return 0; }\n"
      "FN(truth) { ret->v_int64 = args[0].v_int64 > 2; *ret_code = 15; return 0; }\n"
      "FN(pass_truth) { static void *kept; Value yes = {1}; int code = 15;\n"
      "  return find(&kept, \"test.truth\") ? -1\n"
      "    : __TVMFuncCall(kept, &yes, &code, 1, ret, ret_code); }\n";
  BpModule *module = open_or_fail(artifact_llvm_header, source, NULL);
  BpFunction *function = bp_function_create(nothing, NULL, NULL);
  BpTensor *tensor = make_tensor(1, float32);
  BpByteArray bytes = {"xy", 2};
  BpValue large, result;
  g_assert_cmpint(bp_value_make_str(&large, "x and more than seven", 21), ==, 0);
  const BpValue small = {.type_index = BP_TYPE_SMALL_STR, {.small_len = 7}, .v_bytes = "xxxxxxx"};
  const struct {
    BpValue value;
    int code;
  } cases[] = {
      {{.type_index = BP_TYPE_INT, .v_int64 = -1}, 0},
      {{.type_index = BP_TYPE_BOOL, .v_int64 = 1}, 0},
      {{.type_index = BP_TYPE_FLOAT, .v_float64 = 0.5}, 2},
      {{.type_index = BP_TYPE_POINTER, .v_ptr = &bytes}, 3},
      {{.type_index = BP_TYPE_NONE}, 4},
      {{.type_index = BP_TYPE_DTYPE, .v_dtype = {2, 16, 4}}, 5},
      {{.type_index = BP_TYPE_DEVICE, .v_device = {4, 3}}, 6},
      {view_arg(&tensor->view), 7},
      {{.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header}, 7},
      {{.type_index = BP_TYPE_FUNCTION, .v_obj = (BpObject *)function}, 10},
      {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"}, 11},
      {small, 11},
      {large, 11},
      {{.type_index = BP_TYPE_BYTE_ARRAY, .v_ptr = &bytes}, 12},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_assert_cmpint(call_int(module, "code", &cases[i].value, 1), ==, cases[i].code);
    if (cases[i].code == 11)
      g_assert_cmpint(call_int(module, "byte", &cases[i].value, 1), ==, 'x');
    if (cases[i].code >= 7)
      continue;
    g_assert_cmpint(call(module, "bits", &cases[i].value, 1, &result), ==, 0);
    g_assert_cmpint(result.v_int64, ==, cases[i].value.v_int64);
    int32_t type = cases[i].value.type_index;
    g_assert_cmpint(result.type_index, ==, type == BP_TYPE_BOOL ? BP_TYPE_INT : type);
  }
  BpValue three = {.type_index = BP_TYPE_INT, .v_int64 = 3};
  g_assert_cmpint(call(module, "truth", &three, 1, &result), ==, 0);
  g_assert_cmpint(result.type_index, ==, BP_TYPE_BOOL);
  g_assert_cmpint(result.v_int64, ==, 1);
  g_assert_cmpint(call_int(module, "pass_truth", NULL, 0), ==, BP_TYPE_BOOL);
  BpValue wrong = {.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)module};
  g_assert_cmpint(call(module, "code", &wrong, 1, &result), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_TYPE));
  g_assert_cmpint(call(module, "odd", NULL, 0, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "type code 8"));
  bp_value_clear(&large);
  bp_object_release(function);
  bp_object_release(tensor);
  bp_object_release(module);
}

static void test_many_arguments_are_passed(void) {
  BpModule *module = open_or_fail(
      artifact_llvm_header,
      "FN(sum) { ret->v_int64 = 0; *ret_code = 0;\n"
      "  for (int i = 0; i < num_args; i++) ret->v_int64 += args[i].v_int64;\n  return 0; }\n"
      "FN(pass) { void *kept = 0; return find(&kept, \"test.count\") ? -1\n"
      "  : __TVMFuncCall(kept, args, codes, num_args, ret, ret_code); }\n",
      NULL);
  BpValue args[100], result;
  for (int i = 0; i < 100; i++)
    args[i] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = i};
  g_assert_cmpint(call_int(module, "sum", args, 100), ==, 4950);
  g_assert_cmpint(call(module, "pass", args, 100, &result), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  g_assert_nonnull(strstr(bp_error_message(), "test.count"));
  bp_object_release(module);
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static void test_old_booleans_are_integers_of_one_bit(void) {
  static const char source[] =
      "FN(type) { ret->v_int64 = TENSOR(0)->dtype.code * 100 + TENSOR(0)->dtype.bits;\n"
      "  *ret_code = 0; return 0; }\n"
      "FN(pass) { static void *kept; return find(&kept, \"test.dtype\") ? -1\n"
      "  : __TVMFuncCall(kept, args, codes, num_args, ret, ret_code); }\n";
  BpModule *module = open_or_fail(artifact_llvm_header, source, NULL);
  BpTensor *tensor = make_tensor(3, (BpDataType){BP_DTYPE_BOOL, 8, 1});
  BpValue arg = view_arg(&tensor->view);
  g_assert_cmpint(call_int(module, "type", &arg, 1), ==, 101);
  g_assert_cmpint(tensor->view.dtype.code, ==, BP_DTYPE_BOOL);
  BpValue result;
  g_assert_cmpint(call(module, "pass", &arg, 1, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, BP_DTYPE_BOOL * 100 + 8);
  bp_object_release(tensor);
  bp_object_release(module);
}

static void test_tensors_begin_where_their_view_does(void) {
  BpModule *module = open_or_fail(artifact_llvm_header, ADD_SOURCE, NULL);
  BpTensor *tensor = make_tensor(64, float32);
  int64_t four = 4, two = 2;
  ((float *)tensor->view.data)[16] = 3;
  BpTensorView part = tensor->view;
  part.shape = &four;
  part.byte_offset = 64;
  BpValue args[] = {view_arg(&part), view_arg(&part), view_arg(&part)}, result;
  g_assert_cmpint(call(module, "fused_add", args, 3, &result), ==, 0);
  g_assert_true(((float *)tensor->view.data)[16] == 6);
  g_assert_cmpuint(part.byte_offset, ==, 64);
  part.byte_offset = 4;
  g_assert_cmpint(call(module, "fused_add", args, 3, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "aligned to 64 bytes"));
  part.byte_offset = 0;
  part.strides = &two;
  g_assert_cmpint(call(module, "fused_add", args, 3, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "strides"));
  part.strides = NULL;
  part.byte_offset = 64;
  part.device = (BpDevice){BP_DEVICE_OPENCL, 0};
  g_assert_cmpint(call(module, "fused_add", args, 3, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "begins within its memory"));
  bp_object_release(tensor);
  bp_object_release(module);
}

/* Code that is generated as C does not look at the device. */
static void test_tensors_of_another_machine_are_refused(void) {
  BpModule *module = open_or_fail(artifact_llvm_header, ADD_SOURCE, NULL);
  BpTensor *tensor = make_tensor(4, float32);
  BpTensorView there = tensor->view;
  BpValue args[] = {view_arg(&there), view_arg(&there), view_arg(&there)}, result;
  there.device = (BpDevice){BP_DEVICE_OPENCL + 0x10000, 0};
  g_assert_cmpint(call(module, "fused_add", args, 3, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "host code runs on devices of this machine alone"));
  bp_object_release(tensor);
  bp_object_release(module);
}

/* ---- Host functions that libraries call -------------------------------------------------- */

static int times_seen;

/* Returns the type of a tensor, or the first number doubled; other names fail. */
static int answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  times_seen++;
  if (num_args < 1 || args[0].type_index == BP_TYPE_RAW_STR)
    return bp_error_raise("OddError", "odd: %s", num_args ? args[0].v_cstr : "nothing");
  if (args[0].type_index == BP_TYPE_TENSOR_VIEW)
    *result = (BpValue){.type_index = BP_TYPE_INT,
                        .v_int64 = args[0].v_view->dtype.code * 100 + args[0].v_view->dtype.bits};
  else if (args[0].type_index == BP_TYPE_FLOAT)
    *result = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = 2 * args[0].v_float64};
  else
    return bp_value_make_str(result, "an object of its own", 20);
  return 0;
}

static void test_libraries_call_global_functions(void) {
  static const char source[] =
      "FN(pass) { static void *kept; return find(&kept, \"test.dtype\") ? -1\n"
      "  : __TVMFuncCall(kept, args, codes, num_args, ret, ret_code); }\n";
  BpModule *module = open_or_fail(artifact_llvm_header, source, NULL);
  BpValue arg = {.type_index = BP_TYPE_FLOAT, .v_float64 = 1.25}, result;
  times_seen = 0;
  g_assert_cmpint(call(module, "pass", &arg, 1, &result), ==, 0);
  g_assert_true(result.v_float64 == 2.5);
  arg = (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = "a name"};
  g_assert_cmpint(call(module, "pass", &arg, 1, &result), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, "OddError");
  g_assert_cmpstr(bp_error_message(), ==, "odd: a name");
  arg = (BpValue){.type_index = BP_TYPE_INT};
  g_assert_cmpint(call(module, "pass", &arg, 1, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "cannot take a result"));
  g_assert_cmpint(times_seen, ==, 3);
  bp_object_release(module);
}

#define SUM_SOURCE(prefix)                                                                         \
  "static int task(int id, Env *env, void *data) {\n"                                              \
  "  int *mine = " prefix "TVMBackendAllocWorkspace(1, 0, 64, 0, 32);\n"                           \
  "  if (!mine || ((uintptr_t)mine & 63)) return -1;\n"                                            \
  "  *mine = env->num_task * 10 + id; ((int *)data)[id] = *mine;\n"                                \
  "  return " prefix "TVMBackendFreeWorkspace(1, 0, mine);\n"                                      \
  "}\n"                                                                                            \
  "FN(sum) {\n"                                                                                    \
  "  static int of[4];\n"                                                                          \
  "  if (" prefix "TVMBackendParallelLaunch(task, of, 4)) return -1;\n"                            \
  "  ret->v_int64 = of[0] + of[1] + of[2] + of[3]; *ret_code = 0; return 0;\n"                     \
  "}\n"

static void test_loops_run_in_parallel_with_workspace(void) {
  BpModule *module = open_or_fail(artifact_llvm_header,
                                  SUM_SOURCE("__") "static int fail(int id, Env *env, void *d) {\n"
                                                   "  CHECK(id != 2, \"task 2\") return 0;\n}\n"
                                                   "FN(failing) { return "
                                                   "__TVMBackendParallelLaunch(fail, 0, 4); }\n",
                                  NULL);
  g_assert_cmpint(bp_threads_set(4), ==, 0);
  g_assert_cmpint(call_int(module, "sum", NULL, 0), ==, 166);
  BpValue result;
  g_assert_cmpint(call(module, "failing", NULL, 0, &result), ==, -1);
  g_assert_cmpstr(bp_error_message(), ==, "Assert fail: task 2");
  g_assert_cmpint(bp_threads_set(1), ==, 0);
  g_assert_cmpint(call_int(module, "sum", NULL, 0), ==, 166);
  bp_object_release(module);
}

static void test_code_made_as_c_calls_the_host_by_name(void) {
  BpModule *module =
      open_or_fail(artifact_c_header,
                   SUM_SOURCE("") "FN(pass) { static void *kept; return find(&kept, \"test.dtype\")"
                                  " ? -1 : TVMFuncCall(kept, args, codes, num_args, ret, ret_code);"
                                  " }\nFN(device) { return set_device(1, 0); }\n",
                   NULL);
  BpValue arg = {.type_index = BP_TYPE_FLOAT, .v_float64 = 3}, result;
  g_assert_cmpint(call_int(module, "sum", NULL, 0), ==, 166);
  g_assert_cmpint(call(module, "pass", &arg, 1, &result), ==, 0);
  g_assert_true(result.v_float64 == 6);
  g_assert_cmpint(call(module, "device", NULL, 0, &result), ==, 0);
  g_assert_null(dlsym(RTLD_DEFAULT, "TVMFuncCall"));
  bp_object_release(module);
}

/* C code for the CPU that only calls workspace functions has no other sign of TVM. */
static void test_a_library_is_recognised_by_the_functions_it_needs(void) {
  static const char header[] = "#include <stdint.h>\n"
                               "void *TVMBackendAllocWorkspace(int, int, uint64_t, int, int);\n"
                               "int TVMBackendFreeWorkspace(int, int, void *);\n";
  BpModule *module = open_or_fail(
      header,
      "int32_t f(void *args, int *codes, int num_args, int64_t *ret, int *ret_code) {\n"
      "  int64_t *space = TVMBackendAllocWorkspace(1, 0, 8, 0, 64);\n"
      "  if (!space) return -1;\n"
      "  *space = 7; *ret = *space; *ret_code = 0;\n"
      "  return TVMBackendFreeWorkspace(1, 0, space);\n}\n",
      NULL);
  g_assert_cmpint(call_int(module, "f", NULL, 0), ==, 7);
  bp_object_release(module);
}

static void test_a_library_without_functions_is_refused(void) {
  g_assert_null(open_artifact(artifact_llvm_header, "", NULL));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "exports no function and embeds no modules"));
  g_assert_null(open_artifact("", "int number;\n", NULL));
  g_assert_nonnull(strstr(bp_error_message(), "exports no function __tvm_ffi_NAME and embeds"));
}

static void test_unknown_names_are_refused(void) {
  g_assert_null(open_artifact(artifact_llvm_header,
                              "SLOT void *__TVMBrandNewService;\nFN(f) { return 0; }\n", NULL));
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "__TVMBrandNewService"));
  g_assert_null(open_artifact(artifact_c_header,
                              "int TVMBrandNewService(void);\n"
                              "FN(f) { return TVMBrandNewService(); }\n",
                              NULL));
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "TVMBrandNewService"));
}

static void test_two_conventions_in_one_library_are_refused(void) {
  g_assert_null(open_artifact(artifact_llvm_header,
                              "FN(f) { return 0; }\nFN(__tvm_ffi_g) "
                              "{ return 0; }\n",
                              NULL));
  g_assert_true(bp_error_is(BP_ERROR_FORMAT));
  g_assert_nonnull(strstr(bp_error_message(), "TVM 0.19 or older"));
  g_assert_nonnull(strstr(bp_error_message(), "TVM 0.20 or newer"));
}

static void test_the_entry_is_found_by_its_variable(void) {
  BpModule *module = open_or_fail(artifact_llvm_header,
                                  "const char __tvm_main__[] = \"the_one\";\n"
                                  "FN(the_one) { ret->v_int64 = 5; *ret_code = 0; return 0; }\n",
                                  NULL);
  g_assert_cmpint(call_int(module, "__tvm_main__", NULL, 0), ==, 5);
  bp_object_release(module);
  module = open_or_fail(artifact_c_header,
                        "FN(__tvm_main__) { ret->v_int64 = 6; *ret_code = 0; return 0; }\n", NULL);
  g_assert_cmpint(call_int(module, "__tvm_main__", NULL, 0), ==, 6);
  bp_object_release(module);
}

/* ---- Half precision ---------------------------------------------------------------------- */

/* The value of a half-precision number, by the definition of the format. */
static double half_value(unsigned bits) {
  double magnitude;
  unsigned exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31)
    magnitude = mantissa ? (double)NAN : (double)INFINITY;
  else
    magnitude = exponent ? ldexp(1024 + mantissa, (int)exponent - 25) : ldexp(mantissa, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static void test_half_precision_is_converted(void) {
  static const char source[] =
      "float __gnu_h2f_ieee(uint16_t); uint16_t __gnu_f2h_ieee(float);\n"
      "FN(widen) { ret->v_float64 = __gnu_h2f_ieee(args[0].v_int64); *ret_code = 2; return 0; }\n"
      "FN(narrow) { ret->v_int64 = __gnu_f2h_ieee(args[0].v_float64); *ret_code = 0; return 0; }\n";
  BpModule *module = open_or_fail(artifact_llvm_header, source, NULL);
  for (unsigned bits = 0; bits < 0x10000; bits++) {
    BpValue half = {.type_index = BP_TYPE_INT, .v_int64 = bits}, wide;
    double value = half_value(bits), next = half_value(bits + 1);
    g_assert_cmpint(call(module, "widen", &half, 1, &wide), ==, 0);
    g_assert_true(isnan(value)
                      ? isnan(wide.v_float64)
                      : wide.v_float64 == value && !signbit(wide.v_float64) == !signbit(value));
    int64_t back = call_int(module, "narrow", &wide, 1);
    g_assert_true(isnan(value) ? (back & 0x7c00) == 0x7c00 && back & 0x3ff : back == bits);
    /* A value halfway to the next one, and values slightly below and above. */
    if ((bits & 0x7c00) == 0x7c00)
      continue;
    if (isinf(next))
      next = copysign(65536, value);
    float half_way = (float)((value + next) / 2);
    const struct {
      float number;
      unsigned expected;
    } near[] = {{half_way, bits + (bits & 1)},
                {nextafterf(half_way, 0), bits},
                {nextafterf(half_way, copysignf(INFINITY, half_way)), bits + 1}};
    for (int i = 0; i < 3; i++) {
      BpValue number = {.type_index = BP_TYPE_FLOAT, .v_float64 = (double)near[i].number};
      g_assert_cmpint(call_int(module, "narrow", &number, 1), ==, near[i].expected);
    }
  }
  bp_object_release(module);
}

/* ---- The blob ---------------------------------------------------------------------------- */

/* The loader of kind "test_gpu": it makes a module whose function "bytes" returns the bytes that it
 * was loaded from. */
static char *gpu_bytes;

static int load_gpu(void *self, const BpValue *args, int32_t num_args, BpValue *result);

static int32_t gpu_get_function(void *context, const char *name, BpFunction **function) {
  (void)context;
  *function = strcmp(name, "test.kernel") ? NULL : bp_function_create(answer, NULL, NULL);
  return 0;
}

static void gpu_destroy(void *context) {
  g_free(context);
}

static const BpModuleApi gpu_api = {.struct_size = sizeof gpu_api,
                                    .kind = "test_gpu",
                                    .get_function = gpu_get_function,
                                    .destroy = gpu_destroy};

static int load_gpu(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  (void)self;
  g_assert_cmpint(num_args, >=, 1);
  g_assert_cmpint(bp_value_view_str(&args[0], &bytes), ==, 0);
  g_free(gpu_bytes);
  gpu_bytes = g_memdup2(bytes.data, bytes.size + !bytes.size);
  *result = (BpValue){.type_index = BP_TYPE_MODULE,
                      .v_obj = (BpObject *)bp_module_create(&gpu_api, NULL)};
  return 0;
}

#define KERNEL_SOURCE                                                                              \
  "FN(launch) { static void *kept; return find(&kept, \"test.kernel\") ? -1\n"                     \
  "  : __TVMFuncCall(kept, args, codes, num_args, ret, ret_code); }\n"

static const ArtifactKernel kernel = {"test.kernel", "", 2, 1, "blockIdx.x threadIdx.x"};

static GByteArray *device_blob(int with_tree) {
  GByteArray *blob = g_byte_array_new();
  put_u64(blob, with_tree ? 3 : 1);
  if (with_tree)
    put_str(blob, "_lib");
  put_device_module(blob, "test_gpu", "cl", &kernel, 1, "// Function: test.kernel\n", 25);
  if (with_tree)
    put_import_tree(blob, "0 1 1", "1");
  return blob;
}

static void test_device_modules_are_imports_of_the_library(void) {
  for (int with_tree = 0; with_tree < 2; with_tree++) {
    GByteArray *blob = device_blob(with_tree);
    BpModule *module = open_or_fail(artifact_llvm_header, KERNEL_SOURCE, blob);
    g_assert_cmpstr(bp_module_kind(module), ==, "packed_c_library");
    g_assert_cmpuint(bp_module_num_imports(module), ==, 1);
    g_assert_cmpstr(bp_module_kind(bp_module_get_import(module, 0)), ==, "test_gpu");
    BpValue arg = {.type_index = BP_TYPE_FLOAT, .v_float64 = 2}, result;
    g_assert_cmpint(call(module, "launch", &arg, 1, &result), ==, 0);
    g_assert_true(result.v_float64 == 4);
    bp_object_release(module);
    g_byte_array_unref(blob);
  }
}

static void test_device_code_reaches_its_loader_in_the_current_form(void) {
  GByteArray *blob = device_blob(1), *expected = g_byte_array_new();
  bp_object_release(open_or_fail(artifact_llvm_header, KERNEL_SOURCE, blob));
  const BpDataType handle = {BP_DTYPE_HANDLE, 64, 1}, int32 = {BP_DTYPE_INT, 32, 1};
  put_str(expected, "cl");
  put_u64(expected, 1);
  put_str(expected, "test.kernel");
  put_str(expected, "test.kernel");
  put_u64(expected, 3);
  g_byte_array_append(expected, (const guint8 *)&handle, sizeof handle);
  g_byte_array_append(expected, (const guint8 *)&handle, sizeof handle);
  g_byte_array_append(expected, (const guint8 *)&int32, sizeof int32);
  put_words(expected, "blockIdx.x threadIdx.x");
  put_u64(expected, 0);
  put_str(expected, "// Function: test.kernel\n");
  g_assert_cmpmem(gpu_bytes, expected->len, expected->data, expected->len);
  g_byte_array_unref(expected);
  g_byte_array_unref(blob);
}

static GByteArray *constants_blob(const char *names) {
  const float numbers[] = {1, 2};
  GByteArray *blob = g_byte_array_new();
  put_u64(blob, 3);
  put_str(blob, "const_loader");
  put_words(blob, names);
  put_u64(blob, *names ? 1 : 0);
  if (*names)
    put_floats(blob, numbers, 2);
  put_words(blob, *names ? "subgraph" : "");
  put_u64(blob, *names ? 1 : 0);
  if (*names)
    put_words(blob, names);
  put_str(blob, "_lib");
  put_import_tree(blob, "0 1 1", "1");
  return blob;
}

static void test_constants_of_external_code_are_refused(void) {
  GByteArray *blob = constants_blob("");
  BpModule *module = open_or_fail(artifact_llvm_header, ADD_SOURCE, blob);
  g_assert_cmpstr(bp_module_kind(module), ==, "const_loader");
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(module, "fused_add", 1, &function), ==, 0);
  g_assert_nonnull(function);
  bp_object_release(function);
  bp_object_release(module);
  g_byte_array_unref(blob);
  blob = constants_blob("weights");
  g_assert_null(open_artifact(artifact_llvm_header, ADD_SOURCE, blob));
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "weights"));
  g_byte_array_unref(blob);
}

/* A library with a module of that kind is refused, and the error names the kind. */
static void refuse_module(const char *module_kind, const char *error_kind, const char *text) {
  GByteArray *blob = g_byte_array_new();
  put_u64(blob, 3);
  put_str(blob, module_kind);
  put_u64(blob, 0xD225DE2F4214151Dull);
  put_str(blob, "_lib");
  put_import_tree(blob, "0 1 1", "1");
  g_assert_null(open_artifact(artifact_llvm_header, ADD_SOURCE, blob));
  g_assert_cmpstr(bp_error_kind(), ==, error_kind);
  g_assert_nonnull(strstr(bp_error_message(), module_kind));
  g_assert_nonnull(strstr(bp_error_message(), text));
  g_byte_array_unref(blob);
}

static void test_what_is_no_device_code_is_named(void) {
  refuse_module("dnnl_json", BP_ERROR_FORMAT, "build the model without partitioning");
  refuse_module("VMExecutable", BP_ERROR_NOT_IMPLEMENTED, "compile it with relay.build");
  refuse_module("AotExecutorFactory", BP_ERROR_NOT_IMPLEMENTED, "executor=Executor(\"graph\")");
  refuse_module("relax.Executable", BP_ERROR_NOT_IMPLEMENTED, "TVM 0.20 or newer");
}

static void test_wrong_import_trees_are_refused(void) {
  static const struct {
    const char *rows, *children;
  } trees[] = {{"0 1", "0"},  {"0 1 1 1", "1"}, {"0 1 2", "1 0"}, {"0 1 1", "2"},  {"1 1 1", "1"},
               {"0 1 1", ""}, {"", ""},         {"0 2 1", "1"},   {"0 1 1", "1 1"}};
  for (size_t i = 0; i < G_N_ELEMENTS(trees); i++) {
    GByteArray *blob = g_byte_array_new();
    put_u64(blob, 3);
    put_str(blob, "_lib");
    put_device_module(blob, "test_gpu", "cl", &kernel, 1, "code", 4);
    put_import_tree(blob, trees[i].rows, trees[i].children);
    g_assert_null(open_artifact(artifact_llvm_header, ADD_SOURCE, blob));
    g_assert_true(bp_error_is(BP_ERROR_FORMAT));
    g_byte_array_unref(blob);
  }
}

/* The blob's bytes in a library's file, to be overwritten. */
static void test_every_cut_of_a_blob_is_an_error(void) {
  GByteArray *blob = device_blob(1);
  char *path = g_build_filename(folder, "lib.so", NULL), *file;
  gsize size;
  build_artifact(path, artifact_llvm_header, ADD_SOURCE, blob);
  g_assert_true(g_file_get_contents(path, &file, &size, NULL));
  char *at = memmem(file, size, blob->data, blob->len);
  g_assert_nonnull(at);
  for (guint64 length = 0; length < blob->len; length++) {
    memcpy(at - 8, &length, sizeof length);
    g_assert_true(g_file_set_contents(path, file, (gssize)size, NULL));
    g_assert_null(bp_module_load(path));
    g_assert_true(bp_error_is(BP_ERROR_FORMAT));
  }
  guint64 long_one = G_MAXUINT64;
  memcpy(at - 8, &long_one, sizeof long_one);
  g_assert_true(g_file_set_contents(path, file, (gssize)size, NULL));
  g_assert_null(bp_module_load(path));
  g_assert_true(bp_error_is(BP_ERROR_FORMAT));
  g_free(file);
  g_free(path);
  g_byte_array_unref(blob);
}

static void set_global(const char *name, BpPackedCall function) {
  BpFunction *made = bp_function_create(function, NULL, NULL);
  if (bp_registry_set(name, made, 0))
    g_error("%s", bp_error_message());
  bp_object_release(made);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  folder = artifact_folder();
  set_global("test.dtype", answer);
  set_global("test.truth", truth);
  set_global("runtime.module.loadbinary_test_gpu", load_gpu);
  g_test_add_func("/tvm/packed-c/functions-are-called", test_functions_are_called);
  g_test_add_func("/tvm/packed-c/errors-have-the-text-of-the-library",
                  test_errors_have_the_text_of_the_library);
  g_test_add_func("/tvm/packed-c/each-type-of-value-has-its-code",
                  test_each_type_of_value_has_its_code);
  g_test_add_func("/tvm/packed-c/many-arguments-are-passed", test_many_arguments_are_passed);
  g_test_add_func("/tvm/packed-c/old-booleans-are-integers-of-one-bit",
                  test_old_booleans_are_integers_of_one_bit);
  g_test_add_func("/tvm/packed-c/tensors-begin-where-their-view-does",
                  test_tensors_begin_where_their_view_does);
  g_test_add_func("/tvm/packed-c/tensors-of-another-machine-are-refused",
                  test_tensors_of_another_machine_are_refused);
  g_test_add_func("/tvm/packed-c/libraries-call-global-functions",
                  test_libraries_call_global_functions);
  g_test_add_func("/tvm/packed-c/loops-run-in-parallel-with-workspace",
                  test_loops_run_in_parallel_with_workspace);
  g_test_add_func("/tvm/packed-c/code-made-as-c-calls-the-host-by-name",
                  test_code_made_as_c_calls_the_host_by_name);
  g_test_add_func("/tvm/packed-c/a-library-is-recognised-by-the-functions-it-needs",
                  test_a_library_is_recognised_by_the_functions_it_needs);
  g_test_add_func("/tvm/packed-c/a-library-without-functions-is-refused",
                  test_a_library_without_functions_is_refused);
  g_test_add_func("/tvm/packed-c/unknown-names-are-refused", test_unknown_names_are_refused);
  g_test_add_func("/tvm/packed-c/two-conventions-in-one-library-are-refused",
                  test_two_conventions_in_one_library_are_refused);
  g_test_add_func("/tvm/packed-c/the-entry-is-found-by-its-variable",
                  test_the_entry_is_found_by_its_variable);
  g_test_add_func("/tvm/packed-c/half-precision-is-converted", test_half_precision_is_converted);
  g_test_add_func("/tvm/packed-c/device-modules-are-imports-of-the-library",
                  test_device_modules_are_imports_of_the_library);
  g_test_add_func("/tvm/packed-c/device-code-reaches-its-loader-in-the-current-form",
                  test_device_code_reaches_its_loader_in_the_current_form);
  g_test_add_func("/tvm/packed-c/constants-of-external-code-are-refused",
                  test_constants_of_external_code_are_refused);
  g_test_add_func("/tvm/packed-c/what-is-no-device-code-is-named",
                  test_what_is_no_device_code_is_named);
  g_test_add_func("/tvm/packed-c/wrong-import-trees-are-refused",
                  test_wrong_import_trees_are_refused);
  g_test_add_func("/tvm/packed-c/every-cut-of-a-blob-is-an-error",
                  test_every_cut_of_a_blob_is_an_error);
  int status = g_test_run();
  g_free(gpu_bytes);
  remove_artifact_folder(folder);
  return status;
}
