/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the product of two square matrices on Vulkan, compiled as a model, with kernels written
 * by hand in GLSL and launched through the driver's own API. All kernels take turns in one process.
 * The program prints the shortest time of each kernel, and the ratio of the best hand-written
 * kernel's time to Backplane's. Exits with 1 if a result is wrong. For devices whose memory the
 * host maps, such as lavapipe.
 *
 *   bench-vulkan-products SOURCES [ROUNDS [SIZE...]]
 *
 * SOURCES is the folder bench/vulkan of the sources; a SIZE is a multiple of 64. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "bench/beside_driver.h"
#include "bench/vulkan/raw.h"
#include "tests/graph/onnx_builder.h"

#define STORAGE VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
#define TEXELS  VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER

/* Three buffers: two operands, and the result. */
static const struct {
  const char *name;
  VkDescriptorType types[3];
  uint32_t columns, rows; /* size of a block */
} sources[] = {
    {"register_tile", {STORAGE, STORAGE, STORAGE}, 64, 8},
    {"shared_tile", {STORAGE, STORAGE, STORAGE}, 64, 64},
    {"texel_tile", {TEXELS, TEXELS, STORAGE}, 64, 16},
};

#define NUM_SOURCES (sizeof(sources) / sizeof(sources[0]))

/* ---- Hand-written kernels ---------------------------------------------------------------- */

typedef struct Theirs {
  RawKernel kernels[NUM_SOURCES];
  RawBuffer buffers[3];
  double least[NUM_SOURCES];
} Theirs;

/* Compiles a source file; returns its SPIR-V (transfer full). */
static char *compile(const char *folder, const char *name, size_t *size) {
  char *command =
      g_strdup_printf("glslc -O --target-env=vulkan1.2 -o - '%s/%s.comp'", folder, name);
  FILE *output = popen(command, "r");
  GByteArray *binary = g_byte_array_new();
  guint8 bytes[4096];
  must(!output, command);
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, output)) > 0;)
    g_byte_array_append(binary, bytes, (guint)n);
  must(pclose(output) != 0 || binary->len == 0, command);
  g_free(command);
  *size = binary->len;
  return (char *)g_byte_array_free(binary, FALSE);
}

static void open_theirs(Theirs *theirs, const char *folder, int size) {
  for (int i = 0; i < 3; i++)
    theirs->buffers[i] = raw_buffer(sizeof(float) * (size_t)size * (size_t)size,
                                    i < 2 ? VK_FORMAT_R32G32B32A32_SFLOAT : VK_FORMAT_UNDEFINED);
  for (size_t i = 0; i < NUM_SOURCES; i++) {
    size_t bytes;
    char *binary = compile(folder, sources[i].name, &bytes);
    theirs->kernels[i] = raw_kernel(binary, bytes, sources[i].types, 3, size);
    theirs->least[i] = INFINITY;
    g_free(binary);
  }
}

static double run_theirs(const Theirs *theirs, size_t i, int size) {
  const RawBuffer *buffers[3];
  for (int k = 0; k < 3; k++)
    buffers[k] = &theirs->buffers[k];
  double began = now();
  raw_begin();
  raw_launch(&theirs->kernels[i], buffers, (uint32_t)size / sources[i].columns,
             (uint32_t)size / sources[i].rows);
  raw_submit_and_wait();
  return now() - began;
}

/* ---- Ours -------------------------------------------------------------------------------- */

typedef struct Product {
  BpModel *model;
  BpModelContext *context;
  BpTensor *inputs[2];
} Product;

static BpTensor *tensor_of(int size, const float *values) {
  const int64_t shape[] = {size, size};
  BpTensor *tensor =
      bp_tensor_create(shape, 2, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, ours.device, NULL);
  must(!tensor || bp_tensor_copy_from_host(&tensor->view, values,
                                           sizeof(float) * (size_t)size * (size_t)size),
       "tensor");
  return tensor;
}

static Product open_product(int size, const float *a, const float *b) {
  Product product = {.inputs = {tensor_of(size, a), tensor_of(size, b)}};
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
  product.model = module ? bp_model_create(module, &ours.device, 1) : NULL;
  product.context = product.model ? bp_model_context_create(product.model) : NULL;
  must(!product.context || bp_model_bind_input(product.context, "a", product.inputs[0]) ||
           bp_model_bind_input(product.context, "b", product.inputs[1]),
       "model");
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_free(shape);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return product;
}

static void close_product(Product *product) {
  bp_model_context_free(product->context);
  bp_model_release(product->model);
  bp_object_release(product->inputs[0]);
  bp_object_release(product->inputs[1]);
}

static double run_product(const Product *product) {
  double began = now();
  must(bp_model_run(product->context) || !bp_model_get_output(product->context, 0), "run");
  return now() - began;
}

/* ---- Comparing --------------------------------------------------------------------------- */

/* Returns the largest difference, relative to the largest of `expected`. */
static double difference_of(const float *got, const float *expected, int size) {
  double most = 0, difference = 0;
  for (int i = 0; i < size * size; i++) {
    most = fmax(most, fabs((double)expected[i]));
    difference = fmax(difference, fabs((double)got[i] - (double)expected[i]));
    if (isnan(got[i]))
      return INFINITY;
  }
  return difference / most;
}

/* Whether all results agree with Backplane's result, which is compared with sums in double
 * precision. */
static int are_right(const Product *product, Theirs *theirs, int size) {
  size_t bytes = sizeof(float) * (size_t)size * (size_t)size;
  const float *a = (const float *)(const void *)theirs->buffers[0].mapped;
  const float *b = (const float *)(const void *)theirs->buffers[1].mapped;
  float *result = g_malloc(bytes), *row = g_new(float, (gsize)size);
  run_product(product);
  must(bp_tensor_copy_to_host(&bp_model_get_output(product->context, 0)->view, result, bytes),
       "result");
  for (int j = 0; j < size; j++) {
    double sum = 0;
    for (int k = 0; k < size; k++)
      sum += (double)a[k] * (double)b[(size_t)k * (size_t)size + (size_t)j];
    row[j] = (float)sum;
  }
  double worst = 0;
  for (int j = 0; j < size; j++)
    worst = fmax(worst, fabs((double)result[j] - (double)row[j]));
  int are_right = worst < 1e-3;
  for (size_t i = 0; i < NUM_SOURCES; i++) {
    run_theirs(theirs, i, size);
    const float *got = (const float *)(const void *)theirs->buffers[2].mapped;
    are_right &= difference_of(got, result, size) < 1e-5;
  }
  g_free(row);
  g_free(result);
  return are_right;
}

static int compare_products(const char *folder, int size, int rounds) {
  float *a = onnx_float_values((int64_t)size * size), *b = onnx_float_values((int64_t)size * size);
  Product product = open_product(size, a, b);
  Theirs theirs;
  open_theirs(&theirs, folder, size);
  memcpy(theirs.buffers[0].mapped, a, sizeof(float) * (size_t)size * (size_t)size);
  memcpy(theirs.buffers[1].mapped, b, sizeof(float) * (size_t)size * (size_t)size);
  int is_right = are_right(&product, &theirs, size);
  double least = INFINITY, best = INFINITY, work = 2e-9 * pow(size, 3);
  for (int round = 0; round < rounds; round++) {
    least = fmin(least, run_product(&product));
    for (size_t i = 0; i < NUM_SOURCES; i++)
      theirs.least[i] = fmin(theirs.least[i], run_theirs(&theirs, i, size));
  }
  printf("%d: ours %.1f GF/s", size, work / least);
  for (size_t i = 0; i < NUM_SOURCES; i++) {
    printf(", %s %.1f", sources[i].name, work / theirs.least[i]);
    best = fmin(best, theirs.least[i]);
  }
  printf("; ratio %.2f  at least 1.00%s\n", best / least, is_right ? "" : "  WRONG");
  close_product(&product);
  g_free(a);
  g_free(b);
  return is_right;
}

int main(int argc, char **argv) {
  static char *const usual[] = {"512", "1024"};
  int32_t count = 0;
  const char *why = "";
  int rounds = argc > 2 ? atoi(argv[2]) : 20, is_right = 1;
  ours.program = "bench-vulkan-products";
  ours.device = (BpDevice){BP_DEVICE_VULKAN, 0};
  if (argc < 2)
    return 2;
  if (bp_device_count(BP_DEVICE_VULKAN, &count, &why) || count == 0) {
    printf("skipped: %s\n", why);
    return 0;
  }
  raw_open(1);
  char *const *sizes = argc > 3 ? argv + 3 : usual;
  for (int i = 0; i < (argc > 3 ? argc - 3 : 2); i++)
    is_right &= compare_products(argv[1], atoi(sizes[i]), rounds);
  return is_right ? 0 : 1;
}
