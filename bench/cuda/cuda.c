/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin cuda adds to the driver: launches, copies and a graph of small kernels, beside
 * the same calls of the driver's own API in the same process; the sum of two vectors beside the
 * driver's copy, byte by byte; a matrix product beside cuBLAS, where that is installed. The two
 * take turns; printed are the least time of each and the ratio of the two, ours first.
 *
 *   bench-cuda [ROUNDS [SIZE]]    SIZE: of the matrices, 4096 */

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/chain.h"
#include "plugins/cuda/driver_api.h"
#include "tests/graph/onnx_builder.h"

#define LAUNCHES   100 /* in a batch */
#define GRAPH_RUNS 10  /* in a batch */
#define KERNELS    50  /* of the graph */
#define ELEMENTS   256 /* of each of its tensors */
#define COPY_BYTES ((size_t)64 << 20)

static const BpDevice device = {BP_DEVICE_CUDA, 0};

#define MEMBER(name, parameters) CUresult(*name) parameters;
static struct { BP_CUDA_FUNCTIONS(MEMBER) } cu;

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "bench-cuda: %s: %s\n", what, bp_error_message());
  exit(1);
}

static void must(int failed, const char *what) {
  if (failed)
    fail(what);
}

/* ---- The driver's own API ---------------------------------------------------------------- */

static struct {
  CUstream stream;
  CUfunction empty, step;
  CUdeviceptr small, large, other, values[KERNELS + 1];
} raw;

static void open_library(void) {
  const char *path = getenv("BACKPLANE_CUDA_LIBRARY");
  void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(dlerror());
#define RESOLVE(name, parameters)                                                                  \
  *(void **)&cu.name = dlsym(library, #name);                                                      \
  must(!cu.name, #name);
  BP_CUDA_FUNCTIONS(RESOLVE)
}

/* On the same primary context as the plugin, with the code that it generated. */
static void open_raw(const char *cubin) {
  CUcontext context;
  CUmodule module;
  must(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  must(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  must(cu.cuStreamCreate(&raw.stream, CU_STREAM_DEFAULT), "cuStreamCreate");
  must(cu.cuModuleLoadDataEx(&module, cubin, 0, NULL, NULL), "cuModuleLoadDataEx");
  must(cu.cuModuleGetFunction(&raw.empty, module, "empty"), "cuModuleGetFunction");
  must(cu.cuModuleGetFunction(&raw.step, module, "add_one"), "cuModuleGetFunction");
  must(cu.cuMemAlloc_v2(&raw.small, 4), "cuMemAlloc");
  must(cu.cuMemAlloc_v2(&raw.large, COPY_BYTES), "cuMemAlloc");
  must(cu.cuMemAlloc_v2(&raw.other, COPY_BYTES), "cuMemAlloc");
  for (int i = 0; i <= KERNELS; i++)
    must(cu.cuMemAlloc_v2(&raw.values[i], ELEMENTS * sizeof(float)), "cuMemAlloc");
}

static void raw_launch(CUfunction kernel, unsigned blocks, void **params) {
  must(cu.cuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, 0, raw.stream, params, NULL),
       "cuLaunchKernel");
}

static void raw_wait(void) {
  must(cu.cuStreamSynchronize(raw.stream), "cuStreamSynchronize");
}

/* ---- Ours -------------------------------------------------------------------------------- */

static const char ir_text[] =
    "(module (function \"empty\" (buffer A float32 global 1) (seq))"
    " (function \"add_one\" (buffer A float32 global 256) (buffer B float32 global 256)"
    "  (for i:int64 0 4 parallel (for j:int64 0 4 serial (store B (ramp (add (mul i 64) (mul j 16))"
    "  1 16) (add (load A (ramp (add (mul i 64) (mul j 16)) 1 16)) (broadcast 1:float32 16))))))"
    " (function \"sum\" (buffer A float32 global 16777216) (buffer B float32 global 16777216)"
    "  (buffer C float32 global 16777216) (for b:int64 0 16384 bound \"blockIdx.x\""
    "  (for t:int64 0 256 bound \"threadIdx.x\""
    "  (store C (ramp (add (mul b 1024) (mul t 4)) 1 4)"
    "  (add (load A (ramp (add (mul b 1024) (mul t 4)) 1 4))"
    "  (load B (ramp (add (mul b 1024) (mul t 4)) 1 4))))))))";

static struct {
  BpModule *code, *graph;
  BpFunction *empty, *sum, *run, *get_output;
  BpTensor *small, *large, *second, *third;
} ours;

static char *host; /* COPY_BYTES of the host's memory */

static BpTensor *our_tensor(int64_t floats) {
  BpTensor *tensor =
      bp_tensor_create(&floats, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, device, NULL);
  must(!tensor, "tensor");
  return tensor;
}

static void open_graph(void) {
  char *json = chain_json(KERNELS, ELEMENTS);
  BpFunction *set_input;
  must(!json, "memory");
  BpTensor *input = our_tensor(ELEMENTS);
  BpValue result,
      args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"}, {.type_index = BP_TYPE_TENSOR}};
  args[1].v_obj = (BpObject *)(void *)input;
  must(bp_tensor_copy_from_host(&input->view, host, ELEMENTS * sizeof(float)), "input");
  ours.graph = bp_graph_executor_create(json, ours.code, device);
  must(!ours.graph, "graph");
  must(bp_module_get_function(ours.graph, "set_input", 0, &set_input) || !set_input ||
           bp_function_call(set_input, args, 2, &result),
       "set_input");
  must(bp_module_get_function(ours.graph, "run", 0, &ours.run) || !ours.run, "run");
  must(bp_module_get_function(ours.graph, "get_output", 0, &ours.get_output) || !ours.get_output,
       "get_output");
  bp_object_release(set_input);
  bp_object_release(input);
  free(json);
}

static void open_ours(void) {
  BpTarget *target = bp_target_from_device(device);
  BpIrModule *ir = bp_ir_parse(ir_text, strlen(ir_text));
  ours.code = target && ir ? bp_target_build(ir, target) : NULL;
  must(!ours.code, "code");
  must(bp_module_get_function(ours.code, "empty", 0, &ours.empty) || !ours.empty, "kernel");
  must(bp_module_get_function(ours.code, "sum", 0, &ours.sum) || !ours.sum, "kernel");
  ours.small = our_tensor(1);
  ours.large = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
  ours.second = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
  ours.third = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
  bp_object_release(ir);
  bp_object_release(target);
}

static void close_ours(void) {
  void *objects[] = {ours.get_output, ours.run,   ours.graph,  ours.empty, ours.sum,
                     ours.small,      ours.large, ours.second, ours.third, ours.code};
  for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
    bp_object_release(objects[i]);
}

static BpValue tensor_value(BpTensor *tensor) {
  BpValue value = {.type_index = BP_TYPE_TENSOR};
  value.v_obj = (BpObject *)(void *)tensor;
  return value;
}

static void our_wait(void) {
  must(bp_stream_sync(device, NULL), "sync");
}

/* ---- What is compared: seconds for one operation ----------------------------------------- */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double our_launch(void) {
  BpValue result, arg = tensor_value(ours.small);
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    must(bp_function_call(ours.empty, &arg, 1, &result), "launch");
    our_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double raw_launch_and_wait(void) {
  void *params[] = {&raw.small};
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    raw_launch(raw.empty, 1, params);
    raw_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double our_copy_in(void) {
  double began = now();
  must(bp_tensor_copy_from_host(&ours.large->view, host, COPY_BYTES), "copy");
  our_wait();
  return now() - began;
}

static double raw_copy_in(void) {
  double began = now();
  must(cu.cuMemcpyHtoDAsync_v2(raw.large, host, COPY_BYTES, raw.stream), "cuMemcpyHtoDAsync");
  raw_wait();
  return now() - began;
}

static double our_copy_out(void) {
  double began = now();
  must(bp_tensor_copy_to_host(&ours.large->view, host, COPY_BYTES), "copy");
  return now() - began;
}

static double raw_copy_out(void) {
  double began = now();
  must(cu.cuMemcpyDtoHAsync_v2(host, raw.large, COPY_BYTES, raw.stream), "cuMemcpyDtoHAsync");
  raw_wait();
  return now() - began;
}

static double our_graph(void) {
  const BpValue index = {.type_index = BP_TYPE_INT};
  BpValue result;
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    must(bp_function_call(ours.run, NULL, 0, &result), "run");
    must(bp_function_call(ours.get_output, &index, 1, &result), "get_output"); /* waits */
    bp_value_clear(&result);
  }
  return (now() - began) / GRAPH_RUNS;
}

static double raw_graph(void) {
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    for (int k = 0; k < KERNELS; k++) {
      void *params[] = {&raw.values[k], &raw.values[k + 1]};
      raw_launch(raw.step, 4, params);
    }
    raw_wait();
  }
  return (now() - began) / GRAPH_RUNS;
}

/* Seconds for 64 MiB moved, as the two bytes of a copy: the sum moves three. */
static double our_sum(void) {
  BpValue result, args[] = {tensor_value(ours.large),
                            tensor_value(ours.second),
                            tensor_value(ours.third),
                            {.type_index = BP_TYPE_INT, .v_int64 = 16384},
                            {.type_index = BP_TYPE_INT, .v_int64 = 256}};
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++)
    must(bp_function_call(ours.sum, args, 5, &result), "sum");
  our_wait();
  return (now() - began) / GRAPH_RUNS * 2 / 3;
}

static double raw_copy(void) {
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++)
    must(cu.cuMemcpyDtoDAsync_v2(raw.other, raw.large, COPY_BYTES, raw.stream),
         "cuMemcpyDtoDAsync");
  raw_wait();
  return (now() - began) / GRAPH_RUNS;
}

static void compare(const char *what, int rounds, double bar, double (*our)(void),
                    double (*their)(void)) {
  double our_least = 1e9, their_least = 1e9;
  our(), their(); /* code is loaded with the first launch */
  for (int i = 0; i < rounds; i++) {
    double took = our();
    our_least = took < our_least ? took : our_least;
    took = their();
    their_least = took < their_least ? took : their_least;
  }
  printf("%-28s %12.2f us  driver %12.2f us  ratio %.2f  at most %.2f\n", what, our_least * 1e6,
         their_least * 1e6, our_least / their_least, bar);
}

/* ---- A matrix product -------------------------------------------------------------------- */

static struct {
  int size;
  BpModel *model;
  BpModelContext *context;
  BpTensor *a, *b;
  void *cublas;
  int (*sgemm)(void *handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha,
               const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
               int ldc);
  CUdeviceptr result;
} product;

static BpTensor *square(int size) {
  int64_t shape[] = {size, size};
  size_t bytes = (size_t)size * (size_t)size * sizeof(float);
  float *values = malloc(bytes);
  BpTensor *tensor = bp_tensor_create(shape, 2, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, device, NULL);
  must(!tensor || !values, "memory");
  for (size_t i = 0; i < bytes / sizeof(float); i++)
    values[i] = (float)(i * 7 % 31) / 31 - 0.5f;
  must(bp_tensor_copy_from_host(&tensor->view, values, bytes), "copy");
  free(values);
  return tensor;
}

static void open_product(int size) {
  OnnxBuilder *builder = onnx_builder_new();
  char *shape = g_strdup_printf("%dx%d", size, size);
  onnx_input(builder, "a", ONNX_FLOAT, shape);
  onnx_input(builder, "b", ONNX_FLOAT, shape);
  onnx_node(builder, "MatMul", "a,b", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_from_device(device);
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = targets, .num_targets = 1};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  product.size = size;
  product.model = module ? bp_model_create(module, device) : NULL;
  product.context = product.model ? bp_model_context_create(product.model) : NULL;
  must(!product.context, "the matrix product's code");
  product.a = square(size);
  product.b = square(size);
  must(bp_model_bind_input(product.context, "a", product.a) ||
           bp_model_bind_input(product.context, "b", product.b),
       "inputs");
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_free(shape);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* cuBLAS, by the functions of its published manual; 0 where it is not installed. */
static int open_cublas(void) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  void *library = NULL;
  for (size_t i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return 0;
  int (*create)(void **) = (int (*)(void **))(uintptr_t)dlsym(library, "cublasCreate_v2");
  int (*set_stream)(void *, void *) =
      (int (*)(void *, void *))(uintptr_t)dlsym(library, "cublasSetStream_v2");
  *(void **)&product.sgemm = dlsym(library, "cublasSgemm_v2");
  size_t bytes = (size_t)product.size * (size_t)product.size * sizeof(float);
  return create && set_stream && product.sgemm && create(&product.cublas) == 0 &&
         set_stream(product.cublas, raw.stream) == 0 &&
         cu.cuMemAlloc_v2(&product.result, bytes) == CUDA_SUCCESS;
}

static double our_product(void) {
  double began = now();
  must(bp_model_run(product.context), "run");
  our_wait();
  return now() - began;
}

/* Row-major a b is column-major b a. */
static double cublas_product(void) {
  const float one = 1, zero = 0;
  int n = product.size;
  double began = now();
  must(product.sgemm(product.cublas, 0, 0, n, n, n, &one, product.b->view.data, n,
                     product.a->view.data, n, &zero, (float *)(uintptr_t)product.result, n),
       "cublasSgemm");
  raw_wait();
  return now() - began;
}

static void compare_products(int rounds, int size) {
  open_product(size);
  if (open_cublas()) {
    compare("matrix product f32", rounds, 1 / 0.6, our_product, cublas_product);
  } else {
    double least = 1e9;
    for (int i = 0; i < rounds; i++) {
      double took = our_product();
      least = took < least ? took : least;
    }
    printf("%-28s %12.2f us  cuBLAS is not installed\n", "matrix product f32", least * 1e6);
  }
  bp_model_context_free(product.context);
  bp_model_release(product.model);
  bp_object_release(product.a);
  bp_object_release(product.b);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 50, size = argc > 2 ? atoi(argv[2]) : 4096;
  int32_t count = 0;
  const char *why = "";
  BpOwnedBytes cubin;
  if (bp_device_count(BP_DEVICE_CUDA, &count, &why) || count == 0) {
    printf("skipped: %s\n", why);
    return 0;
  }
  host = malloc(COPY_BYTES);
  must(!host, "memory");
  memset(host, 1, COPY_BYTES);
  open_library();
  open_ours();
  open_graph();
  must(bp_module_get_source(ours.code, "cubin", &cubin), "cubin");
  open_raw(cubin.data);
  compare("empty kernel and wait", rounds, 1.1, our_launch, raw_launch_and_wait);
  compare("64 MiB to the device", rounds / 5 + 1, 1.05, our_copy_in, raw_copy_in);
  compare("64 MiB from the device", rounds / 5 + 1, 1.05, our_copy_out, raw_copy_out);
  compare("graph of 50 small kernels", rounds, 1.15, our_graph, raw_graph);
  compare("vector sum, per byte", rounds / 5 + 1, 1.1, our_sum, raw_copy);
  compare_products(rounds / 5 + 1, size);
  bp_owned_bytes_clear(&cubin);
  close_ours();
  free(host);
  return 0;
}
