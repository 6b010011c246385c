/* SPDX-License-Identifier: Apache-2.0 */
/* Models of float16, bfloat16 and float64 compute as precisely as their types allow, on every
 * device: sums are computed in a wider type and rounded once. Each model casts its input to the
 * type and its output back, so that values can be written as numbers. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/onnx_builder.h"

/* Optimising would take most of the test's time. */
static const char *const target_texts[] = {
    "c -options=-O0", "c -vector_bits=0 -options=-O0", "llvm -opt=0", "opencl", "vulkan", "cuda",
};

/* A type, ONNX's number of it, and the bits of its significand, including the hidden bit. */
typedef struct Type {
  const char *name;
  int32_t number, precision;
} Type;

static const Type types[] = {{"float16", 10, 11}, {"bfloat16", 16, 8}, {"float64", 11, 53}};

static double rounded(const Type *type, double value) {
  int exponent;
  if (value == 0)
    return 0;
  frexp(value, &exponent);
  double unit = ldexp(1, exponent - type->precision);
  return nearbyint(value / unit) * unit;
}

/* ---- Models ------------------------------------------------------------------------------ */

/* An operator with one or two operands, the second a constant. */
typedef struct Case {
  const char *op, *attrs;
  const char *shape;   /* of x */
  const char *weights; /* shape of the constant, or NULL */
  /* Computes an element of the output, by sums and the like of elements of x and weights. */
  double (*element)(const Type *type, const float *x, const float *w, int64_t index);
  float scale, offset; /* x is random numbers from -1 to 1, times scale, plus offset */
} Case;

static GByteArray *model_of(const Type *type, const Case *c) {
  OnnxBuilder *builder = onnx_builder_new();
  char *to = g_strdup_printf("to=%d", type->number);
  builder->version = 20;
  onnx_input(builder, "x", ONNX_FLOAT, c->shape);
  onnx_node(builder, "Cast", "x", "a", to);
  if (c->weights) {
    onnx_floats(builder, "w", c->weights);
    onnx_node(builder, "Cast", "w", "b", to);
  }
  onnx_node(builder, c->op, c->weights ? "a,b" : "a", "c", c->attrs);
  onnx_node(builder, "Cast", "c", "y", "to=1");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  g_free(to);
  onnx_builder_free(builder);
  return bytes;
}

static int64_t count_of(const char *shape) {
  char **parts = g_strsplit(shape, "x", -1);
  int64_t count = 1;
  for (char **part = parts; *part; part++)
    count *= g_ascii_strtoll(*part, NULL, 10);
  g_strfreev(parts);
  return count;
}

/* ---- Running ----------------------------------------------------------------------------- */

/* NULL if there is no device for the target, or the device lacks float64. */
static float *run(const char *path, const char *target_text, const float *x, int64_t *count) {
  const BpTarget *target = bp_target_parse(target_text);
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = &target, .num_targets = 1};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  BpDevice device = {target ? bp_target_device_type(target) : 0, 0};
  int32_t devices = 0;
  const char *why;
  if (target && !module && bp_error_is(BP_ERROR_NOT_IMPLEMENTED) &&
      strstr(bp_error_message(), "no type float64"))
    bp_error_clear();
  else if (!module || bp_device_count(device.device_type, &devices, &why))
    g_error("%s: %s", target_text, bp_error_message());
  float *result = NULL;
  if (devices > 0) {
    BpModel *model = bp_model_create(module, &device, 1);
    BpModelContext *context = model ? bp_model_context_create(model) : NULL;
    const BpModelTensorInfo *info = context ? bp_model_input_info(model, 0) : NULL;
    BpTensor *input = NULL, *output = NULL;
    if (info)
      input = bp_tensor_create(info->shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0},
                               NULL);
    if (!input ||
        bp_tensor_copy_from_host(&input->view, x, (uint64_t)bp_view_num_bytes(&input->view)) ||
        bp_model_set_input(context, info->name, &input->view) || bp_model_run(context) ||
        !(output = bp_model_get_output(context, 0)))
      g_error("%s: %s", target_text, bp_error_message());
    *count = bp_view_num_elements(&output->view);
    result = g_new(float, (gsize)*count);
    if (bp_tensor_copy_to_host(&output->view, result, (uint64_t)*count * sizeof(float)))
      g_error("%s", bp_error_message());
    bp_object_release(input);
    bp_model_context_free(context);
    bp_model_release(model);
  }
  bp_object_release(module);
  bp_object_release((BpTarget *)(uintptr_t)target);
  return result;
}

/* Checks an output. One rounding to the type is permitted; earlier float32 sums add a little,
 * relative to the largest sum. */
static void check_output(const Type *type, const Case *c, const char *target, const float *x,
                         const float *w, const float *got, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; i++)
    largest = fmax(largest, fabs(c->element(type, x, w, i)));
  for (int64_t i = 0; i < count; i++) {
    double want = c->element(type, x, w, i);
    double most = fabs(want) * (ldexp(1, -type->precision) + 4e-6) + largest * 8e-6 + 0x1p-24;
    if (!(fabs((double)got[i] - want) <= most))
      g_error("%s of %s, target %s, element %d: %.9g instead of %.9g, which is more than %.3g off",
              c->op, type->name, target, (int)i, (double)got[i], want, most);
  }
}

static void check(const Case *c) {
  for (size_t t = 0; t < G_N_ELEMENTS(types); t++) {
    GByteArray *bytes = model_of(&types[t], c);
    char *path = onnx_write(bytes);
    int64_t size = count_of(c->shape);
    float *x = onnx_float_values(size),
          *w = c->weights ? onnx_float_values(count_of(c->weights)) : NULL;
    for (int64_t i = 0; i < size; i++)
      x[i] = x[i] * c->scale + c->offset;
    for (size_t k = 0; k < G_N_ELEMENTS(target_texts); k++) {
      int64_t count = 0;
      float *got = run(path, target_texts[k], x, &count);
      if (got)
        check_output(&types[t], c, target_texts[k], x, w, got, count);
      else
        g_test_message("%s is not run on %s", types[t].name, target_texts[k]);
      g_free(got);
    }
    unlink(path);
    g_free(path);
    g_free(w);
    g_free(x);
    g_byte_array_unref(bytes);
  }
}

/* ---- Reductions -------------------------------------------------------------------------- */

static double mean_of_row(const Type *type, const float *x, const float *w, int64_t index) {
  double sum = 0;
  (void)w;
  for (int64_t i = 0; i < 4096; i++)
    sum += rounded(type, (double)x[index * 4096 + i]);
  return sum / 4096;
}

static void test_mean(void) {
  static const Case mean = {"ReduceMean", "keepdims=0", "1x4096", NULL, mean_of_row, 1, 20};
  check(&mean);
}

static void test_global_average_pool(void) {
  static const Case pool = {"GlobalAveragePool", "", "1x4x64x64", NULL, mean_of_row, 1, 20};
  check(&pool);
}

static double norm_of_row(const Type *type, const float *x, const float *w, int64_t index) {
  double sum = 0;
  (void)w;
  for (int64_t i = 0; i < 300; i++)
    sum += pow(rounded(type, (double)x[index * 300 + i]), 2);
  return sqrt(sum);
}

static void test_norm(void) {
  static const Case norm = {"ReduceL2", "axes=1, keepdims=0", "5x300", NULL, norm_of_row, 100, 300};
  check(&norm);
}

static double equal_share(const Type *type, const float *x, const float *w, int64_t index) {
  (void)type, (void)x, (void)w, (void)index;
  return 1.0 / 70000;
}

static void test_softmax(void) {
  static const Case softmax = {"Softmax", "", "1x70000", NULL, equal_share, 0, 1};
  check(&softmax);
}

static double average_of_window(const Type *type, const float *x, const float *w, int64_t index) {
  int64_t row = index / 5 % 5, column = index % 5, channel = index / 25;
  double sum = 0;
  (void)w;
  for (int64_t y = row; y < row + 9; y++)
    for (int64_t i = column; i < column + 9; i++)
      sum += rounded(type, (double)x[(channel * 13 + y) * 13 + i]);
  return sum / 81;
}

static void test_average_pool(void) {
  static const Case pool = {
      "AveragePool", "kernel_shape=9,9", "1x3x13x13", NULL, average_of_window, 100, 2000};
  check(&pool);
}

/* ---- Products ---------------------------------------------------------------------------- */

static double product_element(const Type *type, const float *x, const float *w, int64_t index) {
  double sum = 0;
  for (int64_t k = 0; k < 512; k++)
    sum += rounded(type, (double)x[index / 40 * 512 + k]) *
           rounded(type, (double)w[k * 40 + index % 40]);
  return sum;
}

static void test_product(void) {
  static const Case product = {"MatMul", "", "17x512", "512x40", product_element, 1, 0.5f};
  check(&product);
}

static double conv_element(const Type *type, const float *x, const float *w, int64_t index) {
  int64_t out = index / 81, row = index / 9 % 9, column = index % 9;
  double sum = 0;
  for (int64_t c = 0; c < 20; c++)
    for (int64_t y = 0; y < 3; y++)
      for (int64_t i = 0; i < 3; i++) {
        int64_t at_y = row + y - 1, at_x = column + i - 1;
        if (at_y >= 0 && at_y < 9 && at_x >= 0 && at_x < 9)
          sum += rounded(type, (double)x[(c * 9 + at_y) * 9 + at_x]) *
                 rounded(type, (double)w[((out * 20 + c) * 3 + y) * 3 + i]);
      }
  return sum;
}

static void test_convolution(void) {
  static const Case conv = {"Conv", "pads=1,1,1,1", "1x20x9x9", "27x20x3x3", conv_element, 1, 0.5f};
  check(&conv);
}

/* ---- Networks ---------------------------------------------------------------------------- */

/* Operators whose layouts and weights are rewritten when compiling: convolutions by Winograd's
 * algorithm, with strides, depthwise, and transposed; a factor and an addend per channel after a
 * convolution; pooling, concatenation. The network is in float32, or between casts to a type. */
static GByteArray *network_of(const Type *type) {
  static const char *const weights[][2] = {
      {"w1", "18x3x3x3"},  {"w2", "18x18x3x3"},  {"w3", "20x36x3x3"}, {"w4", "20x1x3x3"},
      {"w5", "20x13x2x2"}, {"factor", "18x1x1"}, {"bias", "18"},      {"addend", "18x1x1"}};
  OnnxBuilder *builder = onnx_builder_new();
  char *to = g_strdup_printf("to=%d", type ? type->number : 1);
  onnx_input(builder, "x", ONNX_FLOAT, "1x3x18x22");
  onnx_node(builder, "Cast", "x", "a", to);
  for (size_t i = 0; i < G_N_ELEMENTS(weights); i++) {
    char *given = g_strconcat(weights[i][0], "_given", NULL);
    onnx_floats(builder, given, weights[i][1]);
    onnx_node(builder, "Cast", given, weights[i][0], to);
    g_free(given);
  }
  onnx_node(builder, "Conv", "a,w1,bias", "b", "pads=1,1,1,1");
  onnx_node(builder, "Mul", "b,factor", "b1", "");
  onnx_node(builder, "Add", "b1,addend", "b2", "");
  onnx_node(builder, "Relu", "b2", "c", "");
  onnx_node(builder, "Conv", "c,w2", "d", "pads=1,1,1,1");
  onnx_node(builder, "Concat", "c,d", "e", "axis=1");
  onnx_node(builder, "Conv", "e,w3", "f", "pads=1,1,1,1 strides=2,2");
  onnx_node(builder, "Conv", "f,w4", "g", "pads=1,1,1,1 group=20");
  onnx_node(builder, "MaxPool", "g", "h", "kernel_shape=3,3 pads=1,1,1,1");
  onnx_node(builder, "AveragePool", "h", "i", "kernel_shape=2,2");
  onnx_node(builder, "ConvTranspose", "i,w5", "j", "strides=2,2");
  onnx_node(builder, "Cast", "j", "y", "to=1");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  g_free(to);
  onnx_builder_free(builder);
  return bytes;
}

static float *run_network(const Type *type, const char *target, const float *x, int64_t *count) {
  GByteArray *bytes = network_of(type);
  char *path = onnx_write(bytes);
  float *result = run(path, target, x, count);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  return result;
}

/* Each of about ten operators rounds; their errors add up. */
static void check_network(const Type *type, const char *target, const float *x,
                          const float *expected, int64_t count) {
  int64_t got_count = 0;
  float *got = run_network(type, target, x, &got_count), largest = 0;
  if (!got)
    return;
  g_assert_cmpint(got_count, ==, count);
  for (int64_t i = 0; i < count; i++)
    largest = fmaxf(largest, fabsf(expected[i]));
  double most = (double)largest * (16 * ldexp(1, -type->precision) + 1e-4);
  for (int64_t i = 0; i < count; i++)
    if (!(fabs((double)got[i] - (double)expected[i]) <= most))
      g_error("a network of %s, target %s, element %d: %g instead of %g", type->name, target,
              (int)i, (double)got[i], (double)expected[i]);
  g_free(got);
}

static void test_network(void) {
  const char *native = target_texts[0];
  int64_t count = 0;
  float *x = onnx_float_values(3 * 18 * 22), *expected = run_network(NULL, native, x, &count);
  for (size_t t = 0; t < G_N_ELEMENTS(types); t++)
    check_network(&types[t], native, x, expected, count);
  check_network(&types[0], "c -vector_bits=128 -options=-O0", x, expected, count);
  check_network(&types[0], "opencl", x, expected, count);
  g_free(expected);
  g_free(x);
}

/* ---- Element by element ------------------------------------------------------------------ */

static double gelu(const Type *type, const float *x, const float *w, int64_t index) {
  double value = rounded(type, (double)x[index]);
  (void)w;
  return 0.5 * value * (1 + erf(value * sqrt(0.5)));
}

static void test_gelu(void) {
  static const Case c = {"Gelu", "", "1000", NULL, gelu, 4, 0};
  check(&c);
}

/* ---- Chains ------------------------------------------------------------------------------ */

/* An operator that reads a + b, and its result "r" for the number a that is the first one whose
 * distance to the next number of the type is 2, and b = 1. */
typedef struct Reader {
  const char *op, *operands, *attrs;
  double (*result)(double a);
  const char *other; /* another operator that reads the sum, and gives "t"; or NULL */
} Reader;

static double one(double a) {
  (void)a;
  return 1;
}

static double zero(double a) {
  (void)a;
  return 0;
}

static double itself(double a) {
  return a;
}

static float *run_chain(const Type *type, const Reader *reader, const char *target, float a) {
  OnnxBuilder *builder = onnx_builder_new();
  char *to = g_strdup_printf("to=%d", type->number);
  const float x[] = {a, 1};
  int64_t count = 0;
  onnx_input(builder, "x", ONNX_FLOAT, "2");
  onnx_node(builder, "Cast", "x", "ab", to);
  onnx_node(builder, "Split", "ab", "a,b", "num_outputs=2");
  builder->version = 18;
  onnx_node(builder, "Add", "a,b", "s", "");
  if (reader->other)
    onnx_node(builder, reader->other, "s", "t", "");
  onnx_node(builder, reader->op, reader->operands, "r", reader->attrs);
  onnx_node(builder, "Cast", "r", "y", "to=1");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  float *result = run(path, target, x, &count);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  g_free(to);
  onnx_builder_free(builder);
  return result;
}

static void check_chain(const Reader *reader) {
  for (size_t t = 0; t < 2; t++)
    for (size_t k = 0; k < G_N_ELEMENTS(target_texts); k++) {
      double a = ldexp(1, types[t].precision);
      float *got = run_chain(&types[t], reader, target_texts[k], (float)a);
      if (got && !((double)got[0] == reader->result(a)))
        g_error("%s of a sum of %s, target %s: %g instead of %g", reader->op, types[t].name,
                target_texts[k], (double)got[0], reader->result(a));
      g_free(got);
    }
}

static void test_continuous(void) {
  static const Reader readers[] = {{"Sub", "s,a", "", one, NULL}, {"Relu", "s", "", itself, NULL}};
  for (size_t i = 0; i < G_N_ELEMENTS(readers); i++)
    check_chain(&readers[i]);
}

static void test_steps(void) {
  static const Reader readers[] = {
      {"Floor", "s", "", itself, NULL},    {"Greater", "s,a", "", zero, NULL},
      {"Equal", "s,a", "", one, NULL},     {"Cast", "s", "to=1", itself, NULL},
      {"Cast", "s", "to=7", itself, NULL}, {"Mod", "s,b", "fmod=1", zero, NULL},
      {"Identity", "s", "", itself, NULL}};
  for (size_t i = 0; i < G_N_ELEMENTS(readers); i++)
    check_chain(&readers[i]);
}

/* A value that a step reads is rounded for its other readers, too. */
static void test_shared(void) {
  static const Reader readers[] = {{"Sub", "s,t", "", zero, "Floor"},
                                   {"Div", "s,t", "", one, "Ceil"},
                                   {"Max", "s,t", "", itself, "Round"}};
  for (size_t i = 0; i < G_N_ELEMENTS(readers); i++)
    check_chain(&readers[i]);
}

/* ---- Normalisation ----------------------------------------------------------------------- */

/* y is x as the type, normalised with the mean 128, the variance 2, the factor 3 and the addend 1.
 */
static GByteArray *model_of_normalisation(const Type *type) {
  static const char *const numbers[] = {"3", "1", "128", "2"};
  OnnxBuilder *builder = onnx_builder_new();
  char *to = g_strdup_printf("to=%d", type->number);
  builder->version = 20;
  onnx_input(builder, "x", ONNX_FLOAT, "6x1");
  onnx_node(builder, "Cast", "x", "a", to);
  for (int i = 0; i < 4; i++) {
    char name[] = {'n', (char)('0' + i), 0}, cast[] = {'c', (char)('0' + i), 0};
    onnx_ints(builder, name, numbers[i]);
    onnx_node(builder, "Cast", name, cast, to);
  }
  onnx_node(builder, "BatchNormalization", "a,c0,c1,c2,c3", "b", "");
  onnx_node(builder, "Cast", "b", "y", "to=1");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  g_free(to);
  onnx_builder_free(builder);
  return bytes;
}

/* The product and the mean's product with the factor are large, and their difference is small. */
static void test_normalisation(void) {
  static const float x[] = {126, 127, 128, 129, 130, 140};
  for (size_t t = 0; t < G_N_ELEMENTS(types); t++) {
    GByteArray *bytes = model_of_normalisation(&types[t]);
    char *path = onnx_write(bytes);
    for (size_t k = 0; k < G_N_ELEMENTS(target_texts); k++) {
      int64_t count = 0;
      float *y = run(path, target_texts[k], x, &count);
      for (int64_t i = 0; y && i < count; i++) {
        double want = ((double)x[i] - 128) * 3 / sqrt(2 + 1e-5) + 1;
        if (!(fabs((double)y[i] - want) <= fabs(want) * ldexp(1, -types[t].precision) + 1e-4))
          g_error("%s, target %s, element %d: %.9g instead of %.9g", types[t].name, target_texts[k],
                  (int)i, (double)y[i], want);
      }
      g_free(y);
    }
    unlink(path);
    g_free(path);
    g_byte_array_unref(bytes);
  }
}

/* The mean and the reciprocal of the deviation have the type of stash_type, by default float32. */
static void check_moments(const char *attrs, BpDataType dtype) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 17;
  onnx_input(builder, "x", ONNX_FLOAT, "3x8");
  onnx_floats(builder, "s", "8");
  onnx_node(builder, "Cast", "x", "a", "to=11");
  onnx_node(builder, "Cast", "s", "b", "to=11");
  onnx_node(builder, "LayerNormalization", "a,b", "y,mean,inverse", attrs);
  onnx_output(builder, "y");
  onnx_output(builder, "mean");
  onnx_output(builder, "inverse");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  const BpTarget *target = bp_target_parse(target_texts[0]);
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = &target, .num_targets = 1};
  BpModule *module = bp_model_compile(path, &options);
  BpModel *model = module ? bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1) : NULL;
  if (!model)
    g_error("%s", bp_error_message());
  for (int32_t i = 0; i < 3; i++) {
    BpDataType found = bp_model_output_info(model, i)->dtype;
    BpDataType wanted = i ? dtype : (BpDataType){BP_DTYPE_FLOAT, 64, 1};
    if (found.code != wanted.code || found.bits != wanted.bits)
      g_error("%s: output %d has code %d and %d bits", attrs, i, found.code, found.bits);
  }
  bp_model_release(model);
  bp_object_release(module);
  bp_object_release((BpTarget *)(uintptr_t)target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static void test_moments(void) {
  check_moments("", (BpDataType){BP_DTYPE_FLOAT, 32, 1});
  check_moments("stash_type=1", (BpDataType){BP_DTYPE_FLOAT, 32, 1});
  check_moments("stash_type=10", (BpDataType){BP_DTYPE_FLOAT, 16, 1});
  check_moments("stash_type=11", (BpDataType){BP_DTYPE_FLOAT, 64, 1});
  check_moments("stash_type=16", (BpDataType){BP_DTYPE_BFLOAT, 16, 1});
}

/* ---- Numbers that wrap ------------------------------------------------------------------- */

#define STEP (INT64_C(1) << 62)

/* y is, for x as int64: whether x is less than x plus STEP, the remainder of 3 x by 3, whether STEP
 * plus the larger one of x and 0 is at least STEP, whether STEP times the remainder of x by 4 is at
 * least 0, and 2 (1 - (INT64_MIN - x)). */
static GByteArray *model_of_wrapping(void) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 20;
  onnx_input(builder, "x", ONNX_FLOAT, "5");
  onnx_ints(builder, "step", "4611686018427387904");
  onnx_ints(builder, "zero", "0");
  onnx_ints(builder, "one", "1");
  onnx_ints(builder, "two", "2");
  onnx_ints(builder, "least", "-9223372036854775808");
  onnx_ints(builder, "three", "3");
  onnx_ints(builder, "four", "4");
  onnx_node(builder, "Cast", "x", "a", "to=7");
  onnx_node(builder, "Add", "a,step", "next", "");
  onnx_node(builder, "Less", "a,next", "is_less", "");
  onnx_node(builder, "Mul", "a,three", "thrice", "");
  onnx_node(builder, "Mod", "thrice,three", "rest", "");
  onnx_node(builder, "Max", "a,zero", "size", "");
  onnx_node(builder, "Add", "size,step", "far", "");
  onnx_node(builder, "GreaterOrEqual", "far,step", "is_far", "");
  onnx_node(builder, "Mod", "a,four", "few", "");
  onnx_node(builder, "Mul", "few,step", "many", "");
  onnx_node(builder, "GreaterOrEqual", "many,zero", "is_many", "");
  onnx_node(builder, "Sub", "least,a", "above", "");
  onnx_node(builder, "Sub", "one,above", "below", "");
  onnx_node(builder, "Mul", "below,two", "twice", "");
  onnx_node(builder, "Cast", "is_less", "y0", "to=1");
  onnx_node(builder, "Cast", "rest", "y1", "to=1");
  onnx_node(builder, "Cast", "is_far", "y2", "to=1");
  onnx_node(builder, "Cast", "is_many", "y3", "to=1");
  onnx_node(builder, "Cast", "twice", "y4", "to=1");
  onnx_node(builder, "Concat", "y0,y1,y2,y3,y4", "y", "axis=0");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  onnx_builder_free(builder);
  return bytes;
}

static int64_t wrapped_sum(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t wrapped_product(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

static void check_wrapping(const char *target, const float *x, const float *y) {
  for (int64_t i = 0; i < 5; i++) {
    int64_t a = (int64_t)x[i], rest = wrapped_product(a, 3) % 3;
    const int64_t want[] = {a < wrapped_sum(a, STEP), rest < 0 ? rest + 3 : rest,
                            wrapped_sum(a < 0 ? 0 : a, STEP) >= STEP,
                            wrapped_product(a & 3, STEP) >= 0,
                            (int64_t)(float)wrapped_product(wrapped_sum(a, 1), 2)};
    for (int64_t k = 0; k < 5; k++)
      if ((int64_t)y[5 * k + i] != want[k])
        g_error("target %s, result %d of %.9g: %.9g instead of %d", target, (int)k, (double)x[i],
                (double)y[5 * k + i], (int)want[k]);
  }
}

/* Arithmetic of indices never wraps, but arithmetic of data does: no pass may conclude that a sum
 * is larger than its terms, or that a product is divisible. */
static void test_wrapping(void) {
  static const float x[] = {0x1.fffffep62f, 0x1.555556p61f, -0x1p63f, -7, 6};
  GByteArray *bytes = model_of_wrapping();
  char *path = onnx_write(bytes);
  for (size_t k = 0; k < G_N_ELEMENTS(target_texts); k++) {
    int64_t count = 0;
    float *y = run(path, target_texts[k], x, &count);
    if (y)
      check_wrapping(target_texts[k], x, y);
    g_free(y);
  }
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
}

/* y is, for x as int64: whether the larger one of x and STEP is more than STEP, whether the smaller
 * one of x and -STEP is less than -STEP, whether the larger one of x and 0 has no quotient by STEP;
 * for x as int32: whether 5 - x and 5 - (2^31 - 1) have the same remainder by 10^12, and whether x
 * - 7 has the remainder 2^31 - 8 by 2^63 - 1. */
static GByteArray *model_of_far_numbers(void) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 20;
  onnx_input(builder, "x", ONNX_FLOAT, "5");
  onnx_ints(builder, "step", "4611686018427387904");
  onnx_ints(builder, "back", "-4611686018427387904");
  onnx_ints(builder, "zero", "0");
  onnx_ints(builder, "five", "5");
  onnx_ints(builder, "divisor", "1000000000000");
  onnx_ints(builder, "rest", "997852516358");
  onnx_ints(builder, "seven", "7");
  onnx_ints(builder, "most", "9223372036854775807");
  onnx_ints(builder, "short_rest", "2147483640");
  onnx_node(builder, "Cast", "x", "a", "to=7");
  onnx_node(builder, "Max", "a,step", "larger", "");
  onnx_node(builder, "Greater", "larger,step", "is_more", "");
  onnx_node(builder, "Min", "a,back", "smaller", "");
  onnx_node(builder, "Less", "smaller,back", "is_less", "");
  onnx_node(builder, "Max", "a,zero", "size", "");
  onnx_node(builder, "Div", "size,step", "steps", "");
  onnx_node(builder, "Equal", "steps,zero", "is_none", "");
  onnx_node(builder, "Cast", "x", "short", "to=6");
  onnx_node(builder, "Cast", "short", "b", "to=7");
  onnx_node(builder, "Sub", "five,b", "below", "");
  onnx_node(builder, "Mod", "below,divisor", "left", "");
  onnx_node(builder, "Equal", "left,rest", "is_rest", "");
  onnx_node(builder, "Cast", "x", "other", "to=6");
  onnx_node(builder, "Cast", "other", "other_b", "to=7");
  onnx_node(builder, "Sub", "other_b,seven", "less", "");
  onnx_node(builder, "Mod", "less,most", "whole", "");
  onnx_node(builder, "Equal", "whole,short_rest", "is_whole", "");
  onnx_node(builder, "Cast", "is_more", "y0", "to=1");
  onnx_node(builder, "Cast", "is_less", "y1", "to=1");
  onnx_node(builder, "Cast", "is_none", "y2", "to=1");
  onnx_node(builder, "Cast", "is_rest", "y3", "to=1");
  onnx_node(builder, "Cast", "is_whole", "y4", "to=1");
  onnx_node(builder, "Concat", "y0,y1,y2,y3,y4", "y", "axis=0");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  onnx_builder_free(builder);
  return bytes;
}

/* The ranges that passes know end far from the limits of int64: no pass may conclude that a number
 * is inside of them, nor make products that exceed int64. */
static void test_far_numbers(void) {
  static const float x[] = {0x1.fffffep62f, 0x1p62f, -0x1p63f, -7, 0x1.4p62f};
  static const float want[] = {1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1,
                               1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1};
  GByteArray *bytes = model_of_far_numbers();
  char *path = onnx_write(bytes);
  for (size_t k = 0; k < G_N_ELEMENTS(target_texts); k++) {
    int64_t count = 0;
    float *y = run(path, target_texts[k], x, &count);
    for (size_t i = 0; y && i < G_N_ELEMENTS(want); i++)
      if (y[i] != want[i])
        g_error("target %s, result %zu of %.9g: %.9g", target_texts[k], i / 5, (double)x[i % 5],
                (double)y[i]);
    g_free(y);
  }
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
}

/* y is the last digits of powers of x as int64, then x as a float to the same exponents. */
static GByteArray *model_of_powers(void) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 20;
  onnx_input(builder, "x", ONNX_FLOAT, "6");
  onnx_ints(builder, "exponents", "39,27,65,-1,-3,16777217");
  onnx_ints(builder, "thousand", "1000");
  onnx_node(builder, "Cast", "x", "a", "to=7");
  onnx_node(builder, "Pow", "a,exponents", "powers", "");
  onnx_node(builder, "Mod", "powers,thousand", "digits", "fmod=1");
  onnx_node(builder, "Cast", "digits", "y0", "to=1");
  onnx_node(builder, "Pow", "x,exponents", "y1", "");
  onnx_node(builder, "Concat", "y0,y1", "y", "axis=0");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  onnx_builder_free(builder);
  return bytes;
}

/* Powers of integers have all digits that int64 has, and wrap as products do. The sign of a power
 * depends on the last bit of an exponent that float32 does not represent. */
static void test_powers(void) {
  static const float x[] = {3, 5, 2, -1, 7, -1};
  static const float want[] = {267, 125, 0, -1, 0, -1},
                     real[] = {0x1.c1ec8cp61f, 0x1.9d971ep62f, 0x1p65f, -1, 0x1.7e2256p-9f, -1};
  GByteArray *bytes = model_of_powers();
  char *path = onnx_write(bytes);
  for (size_t k = 0; k < G_N_ELEMENTS(target_texts); k++) {
    int64_t count = 0;
    float *y = run(path, target_texts[k], x, &count);
    for (int64_t i = 0; y && i < 6; i++)
      if (y[i] != want[i] || !(fabsf(y[6 + i] - real[i]) <= 1e-6f * fabsf(real[i])))
        g_error("target %s, power %d: %.9g and %.9g instead of %.9g and %.9g", target_texts[k],
                (int)i, (double)y[i], (double)y[6 + i], (double)want[i], (double)real[i]);
    g_free(y);
  }
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
}

/* ---- Devices without int64 --------------------------------------------------------------- */

/* y is x as int64, times 100,000 and divided by 100,000: the products exceed int32. */
static GByteArray *model_of_long_products(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  onnx_ints(builder, "factor", "100000");
  onnx_node(builder, "Cast", "x", "a", "to=7");
  onnx_node(builder, "Mul", "a,factor", "b", "");
  onnx_node(builder, "Div", "b,factor", "c", "");
  onnx_node(builder, "Cast", "c", "y", "to=1");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  onnx_builder_free(builder);
  return bytes;
}

static void run_long_products(BpModule *module, int32_t device_type) {
  static const float x[] = {100000, 200000, 3, -100000};
  const BpDevice devices[] = {{device_type, 0}, {BP_DEVICE_CPU, 0}};
  BpModel *model = bp_model_create(module, devices, 2);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  BpTensor *input =
      bp_tensor_create((int64_t[]){4}, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, devices[1], NULL);
  BpTensor *output = NULL;
  float y[4];
  if (!context || !input || bp_tensor_copy_from_host(&input->view, x, sizeof x) ||
      bp_model_set_input(context, "x", &input->view) || bp_model_run(context) ||
      !(output = bp_model_get_output(context, 0)) ||
      bp_tensor_copy_to_host(&output->view, y, sizeof y))
    g_error("%s", bp_error_message());
  g_assert_cmpmem(x, sizeof x, y, sizeof y);
  bp_object_release(input);
  bp_model_context_free(context);
  bp_model_release(model);
}

static void test_without_int64(void) {
  GByteArray *bytes = model_of_long_products();
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("vulkan -supports_int64=false"), *c = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = targets, .num_targets = 1};
  int32_t devices = 0;
  const char *why;
  g_assert_null(bp_model_compile(path, &options));
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "the target has no 64-bit integers"));
  bp_error_clear();
  options.fallback = c;
  BpModule *module = bp_model_compile(path, &options);
  if (!module || bp_device_count(BP_DEVICE_VULKAN, &devices, &why))
    g_error("%s", bp_error_message());
  if (devices > 0)
    run_long_products(module, BP_DEVICE_VULKAN);
  unlink(path);
  g_free(path);
  bp_object_release(module);
  bp_object_release(target);
  bp_object_release(c);
  g_byte_array_unref(bytes);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/types/mean_beyond_the_range_of_a_sum_is_right", test_mean);
  g_test_add_func("/types/pool_beyond_the_range_of_a_sum_is_right", test_global_average_pool);
  g_test_add_func("/types/norm_beyond_the_range_of_squares_is_right", test_norm);
  g_test_add_func("/types/softmax_of_a_long_row_sums_to_one", test_softmax);
  g_test_add_func("/types/window_beyond_the_range_of_a_sum_is_right", test_average_pool);
  g_test_add_func("/types/product_is_rounded_once", test_product);
  g_test_add_func("/types/convolution_is_rounded_once", test_convolution);
  g_test_add_func("/types/network_of_each_type_agrees_with_float32", test_network);
  g_test_add_func("/types/activation_is_rounded_once", test_gelu);
  g_test_add_func("/types/continuous_operators_read_results_before_they_are_rounded",
                  test_continuous);
  g_test_add_func("/types/readers_of_one_result_read_the_same_number", test_shared);
  g_test_add_func("/types/comparisons_casts_and_steps_read_rounded_results", test_steps);
  g_test_add_func("/types/normalisation_with_a_large_mean_is_rounded_once", test_normalisation);
  g_test_add_func("/types/moments_have_the_type_of_stash_type", test_moments);
  g_test_add_func("/types/int64_wraps_before_it_is_compared_or_divided", test_wrapping);
  g_test_add_func("/types/ranges_do_not_hold_for_far_numbers", test_far_numbers);
  g_test_add_func("/types/powers_of_integers_have_all_digits", test_powers);
  g_test_add_func("/types/int64_is_refused_or_left_to_the_fallback", test_without_int64);
  return g_test_run();
}
