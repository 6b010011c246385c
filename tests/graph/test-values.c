/* SPDX-License-Identifier: Apache-2.0 */
/* Results of operators at the limits of numbers: for NaN, infinities, the largest integers, and
 * sizes that a float rounds. Every target gives the same results, and so does onnxruntime or ONNX's
 * own evaluator. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/compile_check.h"

static const char *const target_texts[] = {"llvm -opt=1", "c -options=-O1", "opencl",
                                           "opencl -thread_warp_size=8", "vulkan"};

enum { FLOAT = 1, UINT8 = 2, INT64 = 7, UINT32 = 12, UINT64 = 13 };

/* A node: its operator and attributes, its input, and its expected output. */
typedef struct Case {
  const char *op, *attrs, *shape;
  int32_t type;
  double x[6], wanted[6];
} Case;

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

/* ---- Running ----------------------------------------------------------------------------- */

static void put(void *data, BpDataType dtype, int64_t i, double value) {
  if (dtype.code == BP_DTYPE_FLOAT)
    ((float *)data)[i] = (float)value;
  else if (dtype.bits == 64)
    ((uint64_t *)data)[i] = (uint64_t)value;
  else if (dtype.bits == 32)
    ((uint32_t *)data)[i] = (uint32_t)value;
  else
    ((uint8_t *)data)[i] = (uint8_t)value;
}

static double element(const void *data, BpDataType dtype, int64_t i) {
  if (dtype.code == BP_DTYPE_FLOAT)
    return (double)((const float *)data)[i];
  if (dtype.bits == 64)
    return dtype.code == BP_DTYPE_UINT ? (double)((const uint64_t *)data)[i]
                                       : (double)((const int64_t *)data)[i];
  return dtype.bits == 32 ? ((const uint32_t *)data)[i] : ((const uint8_t *)data)[i];
}

static void set_input(BpModelContext *context, const BpModelTensorInfo *info, const double *x) {
  double data[6];
  BpTensor *tensor =
      bp_tensor_create(info->shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!tensor)
    g_error("%s", bp_error_message());
  g_assert_cmpint(bp_view_num_elements(&tensor->view), <=, COUNT(data));
  for (int64_t i = 0; i < bp_view_num_elements(&tensor->view); i++)
    put(data, info->dtype, i, x[i]);
  if (bp_tensor_copy_from_host(&tensor->view, data, (uint64_t)bp_view_num_bytes(&tensor->view)) ||
      bp_model_set_input(context, info->name, &tensor->view))
    g_error("%s", bp_error_message());
  bp_object_release(tensor);
}

static void check_output(BpModelContext *context, int32_t index, const Case *c,
                         const char *target) {
  BpTensor *output = bp_model_get_output(context, index);
  double data[6];
  if (!output || (uint64_t)bp_view_num_bytes(&output->view) > sizeof(data) ||
      bp_tensor_copy_to_host(&output->view, data, (uint64_t)bp_view_num_bytes(&output->view)))
    g_error("%s", bp_error_message());
  for (int64_t i = 0; i < bp_view_num_elements(&output->view); i++) {
    double got = element(data, output->view.dtype, i), wanted = c->wanted[i];
    if (isnan(wanted) ? !isnan(got) : got != wanted && !(fabs(got - wanted) <= 1e-6 * fabs(wanted)))
      g_error("target %s: element %d of %s %s is %.9g, not %.9g", target, (int)i, c->op, c->attrs,
              got, wanted);
  }
}

/* Runs a model on each target that has a device. Output i is that of case i. */
static void check(OnnxBuilder *builder, const Case *cases, int32_t num_cases) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  for (size_t t = 0; t < G_N_ELEMENTS(target_texts); t++) {
    BpTarget *target = bp_target_parse(target_texts[t]);
    if (!target || !has_device(bp_target_device_type(target))) {
      g_test_message("not run for %s", target_texts[t]);
      bp_error_clear();
      bp_object_release(target);
      continue;
    }
    BpModule *module = compile_for(path, target);
    BpModel *model = bp_model_create(module, &(BpDevice){bp_target_device_type(target), 0}, 1);
    BpModelContext *context = model ? bp_model_context_create(model) : NULL;
    if (!context)
      g_error("%s", bp_error_message());
    for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
      const BpModelTensorInfo *info = bp_model_input_info(model, i);
      if (!info)
        g_error("%s", bp_error_message());
      set_input(context, info, cases[i].x);
    }
    if (bp_model_run(context))
      g_error("%s", bp_error_message());
    for (int32_t i = 0; i < num_cases; i++)
      check_output(context, i, &cases[i], target_texts[t]);
    bp_model_context_free(context);
    bp_model_release(model);
    bp_object_release(module);
    bp_object_release(target);
  }
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static void check_nodes(const Case *cases, int32_t num_cases) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 13;
  for (int32_t i = 0; i < num_cases; i++) {
    char *x = g_strdup_printf("x%d", i), *y = g_strdup_printf("y%d", i);
    builder->version = strcmp(cases[i].op, "Gelu") ? builder->version : 20;
    onnx_input(builder, x, cases[i].type, cases[i].shape);
    onnx_node(builder, cases[i].op, x, y, cases[i].attrs);
    onnx_output(builder, y);
    g_free(x);
    g_free(y);
  }
  check(builder, cases, num_cases);
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void test_ends(void) {
  static const Case cases[] = {
      {"Erf", "", "6", FLOAT, {-INFINITY, -1e6, -5, 5, INFINITY, NAN}, {-1, -1, -1, 1, 1, NAN}},
      {"Tanh", "", "6", FLOAT, {-INFINITY, -1e6, -10, 10, 99, NAN}, {-1, -1, -1, 1, 1, NAN}},
      {"Gelu", "", "6", FLOAT, {-INFINITY, -1e6, -5.9, 0, 1e6, NAN}, {NAN, 0, 0, 0, 1e6, NAN}},
      {"Acosh",
       "",
       "6",
       FLOAT,
       {-1e5, -1e20, 0.5, 1, INFINITY, NAN},
       {NAN, NAN, NAN, 0, INFINITY, NAN}},
  };
  check_nodes(cases, COUNT(cases));
}

static void test_sign(void) {
  static const Case cases[] = {
      {"Sign", "", "6", FLOAT, {NAN, -INFINITY, -0.5, 0, 2, INFINITY}, {NAN, -1, -1, 0, 1, 1}},
      {"Sign", "", "3", UINT8, {0, 1, 255}, {0, 1, 1}},
  };
  check_nodes(cases, COUNT(cases));
}

static void test_extreme_nan(void) {
  static const Case cases[] = {
      {"ArgMax", "axis=0", "5", FLOAT, {1, NAN, 7, NAN, 3}, {1}},
      {"ArgMin", "axis=0", "5", FLOAT, {1, NAN, 7, NAN, 3}, {1}},
      {"ArgMax", "axis=0 select_last_index=1", "5", FLOAT, {1, NAN, 7, NAN, 3}, {3}},
      {"ArgMin", "axis=0 select_last_index=1", "5", FLOAT, {1, NAN, 7, NAN, 3}, {3}},
      {"ArgMax", "axis=0", "4", FLOAT, {-INFINITY, 2, 2, -1}, {1}},
      {"ArgMax", "axis=0 select_last_index=1", "4", FLOAT, {-INFINITY, 2, 2, -1}, {2}},
      {"ArgMin", "axis=0", "2", FLOAT, {INFINITY, INFINITY}, {0}},
  };
  check_nodes(cases, COUNT(cases));
}

static void test_log_sum_exp(void) {
  static const Case cases[] = {
      {"ReduceLogSumExp", "", "3", FLOAT, {INFINITY, 1, -INFINITY}, {INFINITY}},
      {"ReduceLogSumExp", "", "2", FLOAT, {-INFINITY, -INFINITY}, {-INFINITY}},
      {"ReduceLogSumExp", "", "3", FLOAT, {1, NAN, INFINITY}, {NAN}},
      {"ReduceLogSumExp", "", "2", FLOAT, {1000, 1000}, {1000.6931472}},
  };
  check_nodes(cases, COUNT(cases));
}

static void test_unsigned(void) {
  static const Case cases[] = {
      {"Abs", "", "3", UINT8, {1, 127, 200}, {1, 127, 200}},
      {"Abs", "", "2", UINT32, {1, 4e9}, {1, 4e9}},
      {"ReduceL1", "", "2", UINT32, {3, 4}, {7}},
      {"Shrink",
       "lambd=4611686018427387904.0",
       "4",
       UINT64,
       {0, 0x1p62, 0x1.0000000000001p62, 0x1p63},
       {0, 0, 0x1.0000000000001p62, 0x1p63}},
      {"Shrink",
       "lambd=13835058055282163712.0",
       "4",
       UINT64,
       {0x1p63, 0x1.8p63, 0x1.8000000000001p63, 0x1.fffffffffffffp63},
       {0, 0, 0x1.8000000000001p63, 0x1.fffffffffffffp63}},
  };
  check_nodes(cases, COUNT(cases));
}

/* A vector of PoCL, with any number of lanes of a target, contains large and small angles. */
static void test_large_angles(void) {
  static const Case cases[] = {
      {"Sin",
       "",
       "6",
       FLOAT,
       {1e-6, 1e10, INFINITY, -3e38, 8193, 0.5},
       {1e-6, -0.4875060251, NAN, -0.8749048878, -0.2702383293, 0.4794255386}},
      {"Cos",
       "",
       "6",
       FLOAT,
       {1e-6, 1e10, -INFINITY, -3e38, 1e5, NAN},
       {1, 0.8731196227, NAN, -0.4842947835, -0.9993608074, NAN}},
  };
  check_nodes(cases, COUNT(cases));
}

/* No pass may conclude that a product with 0 is 0, or drop a division by it. */
static void test_zero_factors(void) {
  static const float zero = 0, half = 0.5f;
  static const Case cases[] = {
      {"Mul by 0", "", "6", FLOAT, {NAN, INFINITY, -INFINITY, 1, -2, 0}, {NAN, NAN, NAN, 0, 0, 0}},
      {"Div by 0",
       "",
       "6",
       FLOAT,
       {NAN, INFINITY, -INFINITY, 1, -2, 0},
       {NAN, INFINITY, -INFINITY, INFINITY, -INFINITY, NAN}},
      {"Mul by 0, Add", "", "4", FLOAT, {NAN, INFINITY, 1, 2}, {NAN, NAN, 0.5, 0.5}},
      {"Pow 0.5",
       "",
       "5",
       FLOAT,
       {-INFINITY, 4, -1, INFINITY, NAN},
       {INFINITY, 2, NAN, INFINITY, NAN}},
  };
  OnnxBuilder *builder = onnx_builder_new();
  for (int32_t i = 0; i < COUNT(cases); i++) {
    char *x = g_strdup_printf("x%d", i), *y = g_strdup_printf("y%d", i);
    onnx_input(builder, x, FLOAT, cases[i].shape);
    onnx_output(builder, y);
    g_free(x);
    g_free(y);
  }
  onnx_data(builder, "zero", FLOAT, NULL, 0, &zero, sizeof(zero));
  onnx_data(builder, "half", FLOAT, NULL, 0, &half, sizeof(half));
  onnx_node(builder, "Mul", "x0,zero", "y0", "");
  onnx_node(builder, "Div", "x1,zero", "y1", "");
  onnx_node(builder, "Mul", "x2,zero", "product", "");
  onnx_node(builder, "Add", "product,half", "y2", "");
  onnx_node(builder, "Pow", "x3,half", "y3", "");
  check(builder, cases, COUNT(cases));
}

/* Powers in rows of equal numbers, so that vectors of a target contain them. The last two cases are
 * the exponents of the first two. */
static void test_powers(void) {
  static const Case cases[] = {
      {"Pow", "", "6x1", FLOAT, {-1, -1, 1, -1, -INFINITY, 0}, {1, NAN, 1, -1, -INFINITY, 1}},
      {"Pow", "", "6x1", FLOAT, {-2, -2, -8, 0, -0.0, 0.5}, {-8, 4, NAN, INFINITY, -INFINITY, 0}},
      {.x = {INFINITY, NAN, NAN, 3, 3, 0}},
      {.x = {3, 2, 0.5, -2, -3, INFINITY}},
  };
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 13;
  for (int32_t i = 0; i < COUNT(cases); i++) {
    g_autofree char *x = g_strdup_printf("x%d", i);
    onnx_input(builder, x, FLOAT, "6x1");
  }
  onnx_ints(builder, "shape", "6,32");
  for (int32_t i = 0; i < 2; i++) {
    g_autofree char *inputs = g_strdup_printf("x%d,shape", i), *wide = g_strdup_printf("w%d", i);
    g_autofree char *operands = g_strdup_printf("w%d,x%d", i, i + 2);
    g_autofree char *power = g_strdup_printf("p%d", i), *y = g_strdup_printf("y%d", i);
    onnx_node(builder, "Expand", inputs, wide, "");
    onnx_node(builder, "Pow", operands, power, "");
    onnx_node(builder, "ReduceMax", power, y, "axes=1, keepdims=0");
    onnx_output(builder, y);
  }
  check(builder, cases, 2);
}

/* The numbers of a column cancel in an element's own sum, beside an earlier element of 0.25. */
static void test_cancelled_terms(void) {
  static const Case cases[] = {
      {"ReduceSum", "axes=0", "3x2", FLOAT, {0.25, 0.5, 1e8, 3e38, 0.25, 0.5}, {0.5, 1}},
      {.x = {0, 0, 1e8, 3e38, 0, 0}},
      {.x = {-1, -1, -1, -1, -1, -1}},
  };
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 11;
  onnx_input(builder, "x", FLOAT, "3x2");
  onnx_input(builder, "y", FLOAT, "3x2");
  onnx_input(builder, "z", FLOAT, "3x2");
  onnx_node(builder, "Mul", "y,z", "product", "");
  onnx_node(builder, "Add", "x,product", "sum", "");
  onnx_node(builder, "ReduceSum", "sum", "result", "axes=0, keepdims=0");
  onnx_output(builder, "result");
  check(builder, cases, 1);
}

/* Doubles cannot hold the integers of the range. */
static void test_long_ranges(void) {
  static const int64_t bounds[][3] = {{((int64_t)1 << 53) + 1, ((int64_t)1 << 53) + 4, 1},
                                      {5, -4, -3},
                                      {INT64_MIN, INT64_MAX, INT64_MAX},
                                      {3, 3, 1}};
  static const int64_t firsts[] = {((int64_t)1 << 53) + 1, 5, INT64_MIN, 0};
  Case cases[4] = {{"Range", "", "", INT64, {0}, {0, 1, 2}},
                   {"Range", "", "", INT64, {0}, {0, -3, -6}},
                   {"Range", "", "", INT64, {0}, {0, (double)INT64_MAX, -2}},
                   {"Range", "", "", INT64, {0}, {0}}};
  OnnxBuilder *builder = onnx_builder_new();
  for (int32_t i = 0; i < COUNT(bounds); i++) {
    char *y = g_strdup_printf("y%d", i), *inputs = g_strdup_printf("a%d,b%d,c%d", i, i, i);
    char *sums = g_strdup_printf("r%d,f%d", i, i), *range = g_strdup_printf("r%d", i);
    char **names = g_strsplit(inputs, ",", -1), *first = g_strdup_printf("f%d", i);
    for (int32_t k = 0; k < 3; k++)
      onnx_data(builder, names[k], INT64, NULL, 0, &bounds[i][k], sizeof(int64_t));
    onnx_data(builder, first, INT64, NULL, 0, &firsts[i], sizeof(int64_t));
    onnx_node(builder, "Range", inputs, range, "");
    onnx_node(builder, "Sub", sums, y, "");
    onnx_output(builder, y);
    g_strfreev(names);
    g_free(first);
    g_free(range);
    g_free(sums);
    g_free(inputs);
    g_free(y);
  }
  check(builder, cases, COUNT(cases));
}

/* A constant is cast when the model is read. */
static void test_constant_casts(void) {
  static const uint64_t wide[] = {UINT64_MAX, (uint64_t)1 << 63, 1};
  static const int64_t between[] = {((int64_t)1 << 54) + ((int64_t)1 << 30) + 1};
  static const Case cases[] = {{"Cast", "", "", 0, {0}, {0x1p64, 0x1p63, 1}},
                               {"Sub", "", "", 0, {0}, {0x1p31}}};
  static const float base = 0x1p54f;
  OnnxBuilder *builder = onnx_builder_new();
  onnx_data(builder, "a", UINT64, (int64_t[]){3}, 1, wide, sizeof(wide));
  onnx_data(builder, "b", INT64, (int64_t[]){1}, 1, between, sizeof(between));
  onnx_data(builder, "base", FLOAT, NULL, 0, &base, sizeof(base));
  onnx_node(builder, "Cast", "a", "y", "to=1");
  onnx_node(builder, "Cast", "b", "c", "to=1");
  onnx_node(builder, "Sub", "c,base", "z", "");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  check(builder, cases, COUNT(cases));
}

/* 41 * (1 / 41.0F) is less than 1, and 40 * 0.01F * 100 less than 40. The step may follow other
 * nodes. */
static void test_divisors_before_steps(void) {
  static const float divisor = 41, factors[] = {0.01F, 100};
  static const Case cases[] = {
      {"Floor", "", "", FLOAT, {41, 82, 164, 40, 3, -41}, {1, 2, 4, 0, 0, -1}},
      {"Cast", "", "", 0, {0}, {1, 2, 4, 0, 0, -1}},
      {"GreaterOrEqual", "", "", 0, {0}, {1, 1, 1, 0, 0, 0}},
      {"Floor", "", "", 0, {0}, {41, 82, 164, 39, 3, -41}}};
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 13;
  onnx_data(builder, "divisor", FLOAT, NULL, 0, &divisor, sizeof(divisor));
  onnx_data(builder, "one", FLOAT, NULL, 0, &(float){1}, sizeof(float));
  onnx_data(builder, "hundredth", FLOAT, NULL, 0, &factors[0], sizeof(float));
  onnx_data(builder, "hundred", FLOAT, NULL, 0, &factors[1], sizeof(float));
  onnx_input(builder, "x", FLOAT, "2x3");
  onnx_node(builder, "Div", "x,divisor", "a", "");
  onnx_node(builder, "Floor", "a", "y", "");
  onnx_node(builder, "Div", "x,divisor", "b", "");
  onnx_node(builder, "Transpose", "b", "c", "perm=1,0");
  onnx_node(builder, "Transpose", "c", "d", "perm=1,0");
  onnx_node(builder, "Cast", "d", "z", "to=7");
  onnx_node(builder, "Div", "x,divisor", "e", "");
  onnx_node(builder, "GreaterOrEqual", "e,one", "f", "");
  onnx_node(builder, "Cast", "f", "w", "to=2");
  onnx_node(builder, "Mul", "x,hundredth", "g", "");
  onnx_node(builder, "Mul", "g,hundred", "h", "");
  onnx_node(builder, "Floor", "h", "v", "");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  onnx_output(builder, "w");
  onnx_output(builder, "v");
  check(builder, cases, COUNT(cases));
}

/* The sum of 41 ones, divided by 41, is 1; the sum of 41 quotients is less. */
static void test_sums_before_steps(void) {
  static const Case cases[] = {{"Conv", "", "", FLOAT, {1, 2, 41}, {1, 2, 41}},
                               {"Resize", "", "", 0, {0}, {1, 1, 2, 2, 41, 41}}};
  static const int64_t shape[] = {3, 1, 1, 41}, filter[] = {1, 1, 1, 41};
  static const float divisor = 41, scales[] = {1, 1, 1, 2};
  float ones[41];
  for (size_t i = 0; i < G_N_ELEMENTS(ones); i++)
    ones[i] = 1;
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 13;
  onnx_data(builder, "shape", INT64, (int64_t[]){4}, 1, shape, sizeof(shape));
  onnx_data(builder, "filter", FLOAT, filter, 4, ones, sizeof(ones));
  onnx_data(builder, "divisor", FLOAT, NULL, 0, &divisor, sizeof(divisor));
  onnx_data(builder, "scales", FLOAT, (int64_t[]){4}, 1, scales, sizeof(scales));
  onnx_input(builder, "x", FLOAT, "3x1x1x1");
  onnx_node(builder, "Expand", "x,shape", "wide", "");
  onnx_node(builder, "Conv", "wide,filter", "sum", "");
  onnx_node(builder, "Div", "sum,divisor", "mean", "");
  onnx_node(builder, "Floor", "mean", "y", "");
  onnx_node(builder, "Mul", "x,divisor", "multiple", "");
  onnx_node(builder, "Div", "multiple,divisor", "same", "");
  onnx_node(builder, "Resize", "same,,scales", "twice", "mode=nearest");
  onnx_node(builder, "Floor", "twice", "z", "");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  check(builder, cases, COUNT(cases));
}

/* The mean of equal integers is that integer. */
static void test_means_of_integers(void) {
  static const Case cases[] = {{"Floor", "", "", FLOAT, {1}, {1}}, {"Floor", "", "", 0, {0}, {1}}};
  static const int64_t shape[] = {1, 1, 1, 41};
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 13;
  onnx_data(builder, "shape", INT64, (int64_t[]){4}, 1, shape, sizeof(shape));
  onnx_input(builder, "x", FLOAT, "1");
  onnx_node(builder, "Expand", "x,shape", "wide", "");
  onnx_node(builder, "ReduceMean", "wide", "mean", "");
  onnx_node(builder, "Floor", "mean", "y", "");
  onnx_node(builder, "AveragePool", "wide", "pooled", "kernel_shape=1,41");
  onnx_node(builder, "Floor", "pooled", "z", "");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  check(builder, cases, COUNT(cases));
}

/* 10 * 0.7f is 7 in float32, in which the extent is computed, and less than 7 in float64. */
static void test_resized_extent(void) {
  static const float scales[] = {1, 1, 1, 0.7f};
  OnnxBuilder *builder = onnx_builder_new();
  const Case extent = {"Resize", "", "", 0, {0}, {1, 1, 1, 7}};
  onnx_data(builder, "scales", FLOAT, (int64_t[]){4}, 1, scales, sizeof(scales));
  onnx_floats(builder, "x", "1x1x1x10");
  onnx_node(builder, "Resize", "x,,scales", "y", "mode=linear");
  onnx_node(builder, "Shape", "y", "shape", "");
  onnx_output(builder, "shape");
  check(builder, &extent, 1);
}

/* (4 + 0.5) / (6 / 20) - 0.5 is 14.5, but less if 6 / 20 is rounded. */
static void test_nearest_of_two(void) {
  static const int64_t sizes[] = {1, 1, 1, 6};
  const Case c = {"Resize", "", "", 0, {0}, {1, 5, 8, 11, 15, 18}};
  float x[20];
  OnnxBuilder *builder = onnx_builder_new();
  for (int32_t i = 0; i < COUNT(x); i++)
    x[i] = (float)i;
  onnx_data(builder, "sizes", INT64, (int64_t[]){4}, 1, sizes, sizeof(sizes));
  onnx_data(builder, "x", FLOAT, (int64_t[]){1, 1, 1, 20}, 4, x, sizeof(x));
  onnx_node(builder, "Resize", "x,,,sizes", "y", "mode=nearest nearest_mode=round_prefer_ceil");
  onnx_output(builder, "y");
  check(builder, &c, 1);
}

/* A third of 3e9 is 1e9; with a weight of float32 the result is off by 30. */
static void test_wide_resize(void) {
  static const double ends[] = {0, 3e9}, thirds[] = {0, 1e9, 2e9, 3e9};
  static const int64_t sizes[] = {4};
  const Case c = {"Resize", "", "", 0, {0}, {0, 0, 0, 0}};
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 19;
  onnx_data(builder, "sizes", INT64, (int64_t[]){1}, 1, sizes, sizeof(sizes));
  onnx_data(builder, "x", ONNX_DOUBLE, (int64_t[]){2}, 1, ends, sizeof(ends));
  onnx_data(builder, "thirds", ONNX_DOUBLE, (int64_t[]){4}, 1, thirds, sizeof(thirds));
  onnx_node(builder, "Resize", "x,,,sizes", "wide",
            "mode=linear coordinate_transformation_mode=align_corners");
  onnx_node(builder, "Sub", "wide,thirds", "apart", "");
  onnx_node(builder, "Cast", "apart", "less", "to=1");
  onnx_node(builder, "Round", "less", "y", "");
  onnx_output(builder, "y");
  check(builder, &c, 1);
}

/* Operator set 10 does not define how nearest positions are rounded; the test expects onnxruntime's
 * result. */
static void test_old_resize(void) {
  static const float scales[] = {1, 1, 0.6f, 1}, x[] = {1, 2, 3, 4, 5};
  const Case c = {"Resize", "", "", 0, {0}, {1, 3, 5}};
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 10;
  onnx_data(builder, "scales", FLOAT, (int64_t[]){4}, 1, scales, sizeof(scales));
  onnx_data(builder, "x", FLOAT, (int64_t[]){1, 1, 5, 1}, 4, x, sizeof(x));
  onnx_node(builder, "Resize", "x,scales", "y", "mode=nearest");
  onnx_output(builder, "y");
  check(builder, &c, 1);
}

static void add_half(OnnxBuilder *builder, const char *name, int32_t ndim, uint16_t bits) {
  static const int64_t ones[] = {1, 1, 1, 1};
  onnx_data(builder, name, ONNX_FLOAT16, ones, ndim, &bits, sizeof(bits));
}

/* A factor of 2^-14 that became part of a weight of 2^-11 would leave nothing of the weight in
 * float16, and an addend of 60000 no bias of 60000. */
static void test_scaled_halves(void) {
  static const Case cases[] = {{"Conv", "", "", FLOAT, {16384, 16000}, {0x1p-11, 0x1.f4p-12}},
                               {"Conv", "", "", 0, {0}, {54464, 56000}}};
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 13;
  add_half(builder, "weight", 4, 0x1000);
  add_half(builder, "factor", 0, 0x0400);
  add_half(builder, "minus_four", 4, 0xc400);
  add_half(builder, "many", 1, 0x7b53);
  onnx_input(builder, "x", FLOAT, "1x1x1x2");
  onnx_node(builder, "Cast", "x", "half", "to=10");
  onnx_node(builder, "Conv", "half,weight", "small", "");
  onnx_node(builder, "Mul", "small,factor", "smaller", "");
  onnx_node(builder, "Cast", "smaller", "y", "to=1");
  onnx_node(builder, "Conv", "half,minus_four,many", "large", "");
  onnx_node(builder, "Add", "large,many", "larger", "");
  onnx_node(builder, "Cast", "larger", "z", "to=1");
  onnx_output(builder, "y");
  onnx_output(builder, "z");
  check(builder, cases, COUNT(cases));
}

/* A factor of 1e-20 that became part of a weight of 1e-20 would leave a subnormal number of
 * float32, which counts as 0. */
static void test_scaled_floats(void) {
  static const Case cases[] = {{"Conv", "", "", FLOAT, {1e20f, 3e20f}, {1e-20f, 3e-20f}}};
  static const int64_t weight_shape[] = {1, 1, 1, 1};
  const float least = 1e-20f;
  OnnxBuilder *builder = onnx_builder_new();
  onnx_data(builder, "weight", FLOAT, weight_shape, 4, &least, sizeof(least));
  onnx_data(builder, "factor", FLOAT, NULL, 0, &least, sizeof(least));
  onnx_input(builder, "x", FLOAT, "1x1x1x2");
  onnx_node(builder, "Conv", "x,weight", "small", "");
  onnx_node(builder, "Mul", "small,factor", "y", "");
  onnx_output(builder, "y");
  check(builder, cases, COUNT(cases));
}

/* The scale 1 / 3 in float16 would move a mean of 1900 by half a deviation. */
static void test_normalised_halves(void) {
  static const Case cases[] = {{"Concat", "", "", FLOAT, {1903, 1897}, {1, -1, 1903, 1897}}};
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 13;
  add_half(builder, "one", 4, 0x3c00);
  add_half(builder, "scale", 1, 0x3c00);
  add_half(builder, "zero", 1, 0);
  add_half(builder, "mean", 1, 0x676c);
  add_half(builder, "variance", 1, 0x4880);
  onnx_input(builder, "x", FLOAT, "1x1x1x2");
  onnx_node(builder, "Cast", "x", "half", "to=10");
  onnx_node(builder, "Conv", "half,one", "a", "");
  onnx_node(builder, "BatchNormalization", "a,scale,zero,mean,variance", "b", "epsilon=0f");
  onnx_node(builder, "Concat", "b,a", "c", "axis=3");
  onnx_node(builder, "Cast", "c", "y", "to=1");
  onnx_output(builder, "y");
  check(builder, cases, COUNT(cases));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/values/functions_reach_their_limits", test_ends);
  g_test_add_func("/values/sign_of_nan_is_nan", test_sign);
  g_test_add_func("/values/nan_is_the_largest_and_the_least", test_extreme_nan);
  g_test_add_func("/values/log_sum_exp_takes_infinities", test_log_sum_exp);
  g_test_add_func("/values/unsigned_numbers_are_their_magnitude", test_unsigned);
  g_test_add_func("/values/large_angles_leave_their_neighbours_alone", test_large_angles);
  g_test_add_func("/values/zero_as_a_factor_keeps_nan", test_zero_factors);
  g_test_add_func("/values/powers_have_the_values_of_c", test_powers);
  g_test_add_func("/values/terms_of_a_sum_cancel_first", test_cancelled_terms);
  g_test_add_func("/values/long_ranges_are_exact", test_long_ranges);
  g_test_add_func("/values/constants_of_64_bits_are_rounded_once", test_constant_casts);
  g_test_add_func("/values/division_before_a_step_is_exact", test_divisors_before_steps);
  g_test_add_func("/values/sums_are_divided_before_a_step", test_sums_before_steps);
  g_test_add_func("/values/means_of_integers_are_exact", test_means_of_integers);
  g_test_add_func("/values/extents_are_resized_in_float32", test_resized_extent);
  g_test_add_func("/values/nearest_of_two_equally_near_elements_is_exact", test_nearest_of_two);
  g_test_add_func("/values/float64_is_resized_with_weights_of_float64", test_wide_resize);
  g_test_add_func("/values/old_resize_rounds_up_where_it_shrinks", test_old_resize);
  g_test_add_func("/values/factors_leave_the_digits_of_weights_of_float16", test_scaled_halves);
  g_test_add_func("/values/factors_leave_weights_that_would_become_zero", test_scaled_floats);
  g_test_add_func("/values/normalised_float16_keeps_its_digits", test_normalised_halves);
  return g_test_run();
}
