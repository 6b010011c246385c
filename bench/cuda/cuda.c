/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the plugin cuda adds to the driver: launches, copies and a graph of small kernels,
 * beside the same calls of the driver's own API in the same process; the sum of two vectors beside
 * the driver's copy, byte by byte; a matrix product beside cuBLAS, if that is installed. The two
 * sides take turns; the program prints the shortest time of each and the ratio of Backplane's time
 * to the other.
 *
 *   bench-cuda [ROUNDS [SIZE]]    SIZE of the matrices: 4096 */

#include <backplane/graph/model.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/beside_driver.h"
#include "plugins/cuda/driver_api.h"
#include "tests/graph/onnx_builder.h"

#define MEMBER(name, parameters) CUresult(*name) parameters;
static struct { BP_CUDA_FUNCTIONS(MEMBER) } cu;

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

/* The driver's API uses the same primary context as the plugin, and the code that the plugin
 * generated. */
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

static double raw_launch_and_wait(void) {
  void *params[] = {&raw.small};
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    raw_launch(raw.empty, 1, params);
    raw_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double raw_copy_in(void) {
  double began = now();
  must(cu.cuMemcpyHtoDAsync_v2(raw.large, host, COPY_BYTES, raw.stream), "cuMemcpyHtoDAsync");
  raw_wait();
  return now() - began;
}

static double raw_copy_out(void) {
  double began = now();
  must(cu.cuMemcpyDtoHAsync_v2(host, raw.large, COPY_BYTES, raw.stream), "cuMemcpyDtoHAsync");
  raw_wait();
  return now() - began;
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

static const Driver driver = {
    {1, 0.5e-6}, raw_launch_and_wait, raw_copy_in, raw_copy_out, raw_graph};

/* ---- The sum of two vectors -------------------------------------------------------------- */

static const char ir_text[] =
    "(module " EMPTY_IR ADD_ONE_IR
    " (function \"sum\" (buffer A float32 global 16777216) (buffer B float32 global 16777216)"
    "  (buffer C float32 global 16777216) (for b:int64 0 16384 bound \"blockIdx.x\""
    "  (for t:int64 0 256 bound \"threadIdx.x\""
    "  (store C (ramp (add (mul b 1024) (mul t 4)) 1 4)"
    "  (add (load A (ramp (add (mul b 1024) (mul t 4)) 1 4))"
    "  (load B (ramp (add (mul b 1024) (mul t 4)) 1 4))))))))";

static struct {
  BpFunction *function;
  BpTensor *b, *c;
} sum;

static void open_sum(void) {
  sum.function = our_function(ours.code, "sum");
  sum.b = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
  sum.c = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
}

static void close_sum(void) {
  bp_object_release(sum.function);
  bp_object_release(sum.b);
  bp_object_release(sum.c);
}

static BpValue tensor_value(BpTensor *tensor) {
  BpValue value = {.type_index = BP_TYPE_TENSOR};
  value.v_obj = (BpObject *)(void *)tensor;
  return value;
}

/* Returns the seconds for 64 MiB moved, counted like a copy, which moves two bytes for each byte:
 * the sum moves three. */
static double our_sum(void) {
  BpValue result, args[] = {tensor_value(ours.large),
                            tensor_value(sum.b),
                            tensor_value(sum.c),
                            {.type_index = BP_TYPE_INT, .v_int64 = 16384},
                            {.type_index = BP_TYPE_INT, .v_int64 = 256}};
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++)
    must(bp_function_call(sum.function, args, 5, &result), "sum");
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
  BpTensor *tensor =
      bp_tensor_create(shape, 2, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, ours.device, NULL);
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
  BpTarget *target = bp_target_from_device(ours.device);
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = targets, .num_targets = 1};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  product.size = size;
  product.model = module ? bp_model_create(module, &ours.device, 1) : NULL;
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

/* cuBLAS, by the functions of its published manual; returns 0 if cuBLAS is not installed. */
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

/* The row-major product a b is the column-major product b a. */
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

static void read_back(float *values, CUdeviceptr from, size_t bytes) {
  must(cu.cuMemcpyDtoHAsync_v2(values, from, bytes, raw.stream), "cuMemcpyDtoHAsync");
  raw_wait();
}

/* Compares the results of Backplane and cuBLAS. */
static void check_product(void) {
  size_t count = (size_t)product.size * (size_t)product.size, bytes = count * sizeof(float);
  float *our = malloc(bytes), *their = malloc(bytes);
  double difference = 0, largest = 0;
  BpTensor *output = bp_model_get_output(product.context, 0);
  must(!our || !their || !output, "the products");
  read_back(our, (CUdeviceptr)(uintptr_t)output->view.data, bytes);
  read_back(their, product.result, bytes);
  for (size_t i = 0; i < count; i++) {
    double apart = fabs((double)our[i] - (double)their[i]);
    difference = fmax(difference, isnan(apart) ? (double)INFINITY : apart);
    largest = fmax(largest, fabs((double)their[i]));
  }
  printf("%-28s %.1e of %.1e\n", "  largest difference", difference, largest);
  must(difference > 1e-3 * largest, "the product is WRONG");
  free(our);
  free(their);
}

static void compare_products(int rounds, int size) {
  open_product(size);
  if (open_cublas()) {
    compare("matrix product f32", rounds, (Bar){1 / 0.6, 0}, our_product, cublas_product);
    check_product();
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
  BpOwnedBytes cubin;
  if (!open_ours("bench-cuda", BP_DEVICE_CUDA, ir_text))
    return 0;
  open_library();
  open_sum();
  must(bp_module_get_source(ours.code, "cubin", &cubin), "cubin");
  open_raw(cubin.data);
  compare_with_driver(rounds, &driver);
  compare("vector sum, per byte", rounds / 5 + 1, (Bar){1.1, 0}, our_sum, raw_copy);
  compare_products(rounds / 5 + 1, size);
  bp_owned_bytes_clear(&cubin);
  close_sum();
  close_ours();
  return 0;
}
