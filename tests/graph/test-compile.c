/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled models give the results that the operators define: each model is compiled, run on every
 * device and compared with plain loops. Sizes are odd on purpose: channels that fill no block,
 * edges that fill no tile. */
#include <locale.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/compile_check.h"

/* ---- Other operators --------------------------------------------------------------------- */

static void test_pool(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(3 * 7 * 7), y[3 * 16];
  onnx_input(builder, "x", ONNX_FLOAT, "1x3x7x7");
  onnx_node(builder, "MaxPool", "x", "m", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1");
  onnx_node(builder, "AveragePool", "x", "a", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1");
  onnx_node(builder, "Sub", "m,a", "y", "");
  onnx_output(builder, "y");
  for (int o = 0; o < 3 * 16; o++) {
    float most = -INFINITY, sum = 0;
    int count = 0;
    for (int k = 0; k < 9; k++) {
      int i = o % 16 / 4 * 2 + k / 3 - 1, j = o % 4 * 2 + k % 3 - 1;
      if (i < 0 || i > 6 || j < 0 || j > 6)
        continue;
      most = fmaxf(most, x[(o / 16 * 7 + i) * 7 + j]);
      sum += x[(o / 16 * 7 + i) * 7 + j];
      count++;
    }
    y[o] = most - sum / (float)count;
  }
  check_model(builder, x, y, 3 * 16);
  g_free(x);
}

static void test_device_is_one_that_there_is_code_for(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  onnx_node(builder, "Relu", "x", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), *report;
  BpTarget *target = bp_target_parse("c");
  BpModule *module = compile_for(path, target), *code = bp_module_get_import(module, 0);
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  size_t count;
  g_assert_cmpint(bp_model_select_devices(module, "opencl,cpu", devices, 2, &count, &report), ==,
                  0);
  g_assert_cmpuint(count, ==, 1);
  g_assert_cmpint(devices[0].device_type, ==, BP_DEVICE_CPU);
  g_assert_nonnull(strstr(report, "opencl: there is no code for it"));
  bp_str_free(report);
  g_assert_cmpint(bp_model_select_devices(module, "opencl", devices, 2, &count, &report), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_NOT_FOUND);
  g_assert_nonnull(strstr(bp_error_message(), "among the kinds that the code is for (cpu)"));
  g_assert_null(report);
  g_assert_cmpint(bp_model_select_devices(code, NULL, devices, 2, &count, NULL), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_TYPE);
  bp_error_clear();
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  bp_object_release(module);
  bp_object_release(target);
}

/* Windows over every other column, when there is only one: windows with the column, and windows
 * with only padding. */
static void test_pool_of_padding(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(5), y[10];
  onnx_input(builder, "x", ONNX_FLOAT, "1x1x5x1");
  onnx_node(builder, "AveragePool", "x", "y",
            "kernel_shape=1,2 dilations=1,2 pads=0,2,0,1 count_include_pad=0");
  onnx_output(builder, "y");
  builder->version = 19;
  for (int i = 0; i < 10; i++)
    y[i] = i % 2 ? 0 : x[i / 2];
  check_model(builder, x, y, 10);
  g_free(x);
}

static void test_product(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(5 * 19), *w = onnx_float_values(37 * 19), *b = onnx_float_values(37);
  float y[5 * 37];
  onnx_input(builder, "x", ONNX_FLOAT, "5x19");
  onnx_floats(builder, "w", "37x19");
  onnx_floats(builder, "b", "37");
  onnx_node(builder, "Gemm", "x,w,b", "y", "transB=1 alpha=0.5 beta=2.0");
  onnx_output(builder, "y");
  for (int i = 0; i < 5 * 37; i++) {
    y[i] = 2 * b[i % 37];
    for (int k = 0; k < 19; k++)
      y[i] += 0.5f * x[i / 37 * 19 + k] * w[i % 37 * 19 + k];
  }
  check_model(builder, x, y, 5 * 37);
  g_free(x);
  g_free(w);
  g_free(b);
}

/* batch x rows x inner by inner x columns, with a constant or computed second operand; and the
 * operators fused after it. */
static void check_product(int batch, int rows, int inner, int columns, int is_constant) {
  OnnxBuilder *builder = onnx_builder_new();
  char left[48], right[32], width[16];
  int count = batch * rows * columns;
  g_snprintf(left, sizeof left, "%dx%dx%d", batch, rows, inner);
  g_snprintf(right, sizeof right, "%dx%d", inner, columns);
  g_snprintf(width, sizeof width, "%d", columns);
  float *x = onnx_float_values(batch * rows * inner), *w = onnx_float_values(inner * columns);
  float *b = onnx_float_values(columns), *y = g_new(float, (gsize)count);
  onnx_input(builder, "x", ONNX_FLOAT, left);
  onnx_floats(builder, "w", right);
  onnx_floats(builder, "b", width);
  if (!is_constant) {
    onnx_ints(builder, "begin", "0,0,0");
    onnx_ints(builder, "end", "1,1,1");
    onnx_node(builder, "Slice", "x,begin,end", "s", "");
    onnx_node(builder, "Sub", "s,s", "zero", "");
    onnx_node(builder, "Add", "w,zero", "v", "");
  }
  onnx_node(builder, "MatMul", is_constant ? "x,w" : "x,v", "p", "");
  onnx_node(builder, "Add", "p,b", "q", "");
  onnx_node(builder, "Relu", "q", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < count; i++) {
    double sum = (double)b[i % columns];
    for (int k = 0; k < inner; k++)
      sum += (double)x[i / columns * inner + k] * (double)w[k * columns + i % columns];
    y[i] = sum > 0 ? (float)sum : 0;
  }
  check_model(builder, x, y, count);
  g_free(x);
  g_free(w);
  g_free(b);
  g_free(y);
}

/* Sizes with and without whole tiles, panels and blocks. */
static void test_constant_product(void) {
  check_product(1, 1, 130, 77, TRUE);
  check_product(2, 7, 65, 333, TRUE);
  check_product(3, 33, 16, 96, TRUE);
  check_product(1, 50, 700, 1030, TRUE);
}

static void test_computed_product(void) {
  check_product(1, 1, 130, 77, FALSE);
  check_product(2, 7, 65, 333, FALSE);
  check_product(1, 64, 300, 1024, FALSE);
  check_product(2, 70, 37, 90, FALSE);
  check_product(1, 130, 50, 140, FALSE);
}

static void test_softmax(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(2 * 3 * 10), y[60];
  onnx_input(builder, "x", ONNX_FLOAT, "2x3x10");
  onnx_node(builder, "Softmax", "x", "y", "axis=1");
  onnx_output(builder, "y");
  for (int i = 0; i < 60; i++) {
    float sum = 0;
    for (int k = 0; k < 3; k++)
      sum += expf(x[i / 30 * 30 + k * 10 + i % 10]);
    y[i] = expf(x[i]) / sum;
  }
  check_model(builder, x, y, 60);
  g_free(x);
}

/* Rows long enough for vectors, and for a block of threads each. */
static void test_softmax_of_rows(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(3 * 300), y[900];
  onnx_input(builder, "x", ONNX_FLOAT, "3x300");
  onnx_node(builder, "Softmax", "x", "y", "axis=1");
  onnx_output(builder, "y");
  for (int i = 0; i < 900; i++) {
    float sum = 0;
    for (int k = 0; k < 300; k++)
      sum += expf(x[i / 300 * 300 + k]);
    y[i] = expf(x[i]) / sum;
  }
  check_model(builder, x, y, 900);
  g_free(x);
}

/* Reduces all elements, by a reduction alone or with operators fused before and after it. */
static void test_reduction_of_everything(gconstpointer op) {
  for (int keep = 0; keep < 2; keep++) {
    OnnxBuilder *builder = onnx_builder_new();
    float *x = onnx_float_values(23 * 100), sum = 0, squares = 0, powers = 0, y;
    onnx_input(builder, "x", ONNX_FLOAT, "23x100");
    onnx_node(builder, op, "x", "y", keep ? "keepdims=1" : "keepdims=0");
    onnx_output(builder, "y");
    for (int i = 0; i < 23 * 100; i++) {
      sum += x[i];
      squares += x[i] * x[i];
      powers += expf(x[i]);
    }
    y = !strcmp(op, "ReduceSum")    ? sum
        : !strcmp(op, "ReduceMean") ? sum / (23 * 100)
        : !strcmp(op, "ReduceL2")   ? sqrtf(squares)
                                    : logf(powers);
    check_model(builder, x, &y, 1);
    g_free(x);
  }
}

/* A reduction of a transposed tensor, with operators fused before and after it. */
static void test_reduction(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(2 * 3 * 5 * 7), y[6] = {0};
  onnx_input(builder, "x", ONNX_FLOAT, "2x3x5x7");
  onnx_node(builder, "Transpose", "x", "t", "perm=0,2,3,1");
  onnx_node(builder, "Mul", "t,t", "s", "");
  onnx_node(builder, "ReduceMean", "s", "r", "axes=1,2 keepdims=0");
  onnx_node(builder, "Sqrt", "r", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < 210; i++)
    y[i / 35] += x[i] * x[i] / 35;
  for (int i = 0; i < 6; i++)
    y[i] = sqrtf(y[i]);
  check_model(builder, x, y, 6);
  g_free(x);
}

/* Shape arithmetic is folded, and moves of elements are composed. */
static void test_shapes(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(24), y[24];
  onnx_input(builder, "x", ONNX_FLOAT, "2x3x4");
  onnx_ints(builder, "zero", "0");
  onnx_ints(builder, "rest", "-1");
  onnx_node(builder, "Shape", "x", "s", "");
  onnx_node(builder, "Gather", "s,zero", "n", "axis=0");
  onnx_node(builder, "Concat", "n,rest", "target", "axis=0");
  onnx_node(builder, "Transpose", "x", "t", "perm=0,2,1");
  onnx_node(builder, "Reshape", "t,target", "r", "");
  onnx_node(builder, "Split", "r", "a,b", "axis=1");
  onnx_node(builder, "Concat", "b,a", "y", "axis=1");
  onnx_output(builder, "y");
  for (int i = 0; i < 24; i++) {
    int from = i % 12 < 6 ? i + 6 : i - 6, row = from % 12;
    y[i] = x[from / 12 * 12 + row % 3 * 4 + row / 3];
  }
  check_model(builder, x, y, 24);
  g_free(x);
}

static void test_resize(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(2 * 3 * 4), y[2 * 6 * 8];
  onnx_input(builder, "x", ONNX_FLOAT, "1x2x3x4");
  onnx_ints(builder, "sizes", "1,2,6,8");
  onnx_node(builder, "Resize", "x,,,sizes", "y",
            "mode=linear coordinate_transformation_mode=half_pixel");
  onnx_output(builder, "y");
  for (int i = 0; i < 96; i++) {
    float v = fminf(fmaxf((float)(i / 8 % 6) / 2 - 0.25f, 0), 2);
    float h = fminf(fmaxf((float)(i % 8) / 2 - 0.25f, 0), 3);
    int a = (int)v, b = (int)h, c = a < 2 ? a + 1 : 2, d = b < 3 ? b + 1 : 3;
    const float *p = x + i / 48 * 12;
    float fv = v - (float)a, fh = h - (float)b;
    y[i] = (1 - fv) * ((1 - fh) * p[a * 4 + b] + fh * p[a * 4 + d]) +
           fv * ((1 - fh) * p[c * 4 + b] + fh * p[c * 4 + d]);
  }
  check_model(builder, x, y, 96);
  g_free(x);
}

/* An output that is an input, and an output that is a constant. */
static void test_constant_factors(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(6), *f = onnx_float_values(1), y[6];
  onnx_input(builder, "x", ONNX_FLOAT, "6");
  onnx_floats(builder, "f", "1");
  onnx_node(builder, "Div", "x,f", "a", "");
  onnx_node(builder, "Mul", "f,a", "b", "");
  onnx_node(builder, "Div", "b,f", "c", "");
  onnx_node(builder, "Mul", "c,a", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < 6; i++)
    y[i] = x[i] / f[0] * (x[i] / f[0]);
  check_model(builder, x, y, 6);
  g_free(x);
  g_free(f);
}

/* The product of the factors is infinite, but the results are finite. */
static void test_large_factors(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float x[6], y[6];
  onnx_input(builder, "x", ONNX_FLOAT, "6");
  onnx_node(builder, "Constant", "", "f", "value_float=1e30f");
  onnx_node(builder, "Mul", "x,f", "a", "");
  onnx_node(builder, "Mul", "a,f", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < 6; i++) {
    x[i] = 1e-36f * (float)(i + 1);
    y[i] = x[i] * 1e30f * 1e30f;
  }
  check_model(builder, x, y, 6);
}

/* Quotients that are not exact as floats, and divisions by infinite numbers. */
static void test_remainders(void) {
  float x[6] = {1e10f, -5163.265f, 3.666414e11f, 7, -1e20f, 2.5f};
  const struct {
    const char *divisor, *attribute;
    float value;
  } cases[] = {{"value_float=3f", "fmod=1", 3},
               {"value_float=0.1f", "fmod=1", 0.1f},
               {"value_float=-0.7f", "fmod=0", -0.7f},
               {"value_float=1e30f", "fmod=1", 1e30f}};
  for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
    OnnxBuilder *builder = onnx_builder_new();
    float y[6];
    onnx_input(builder, "x", ONNX_FLOAT, "6");
    onnx_node(builder, "Constant", "", "f", cases[c].divisor);
    onnx_node(builder, "Mod", "x,f", "y", cases[c].attribute);
    onnx_output(builder, "y");
    for (int i = 0; i < 6; i++) {
      y[i] = fmodf(x[i], cases[c].value);
      if (!strcmp(cases[c].attribute, "fmod=0") && y[i] > 0)
        y[i] += cases[c].value;
    }
    check_model(builder, x, y, 6);
  }
}

/* 100 operands, for operators with any number of operands: a device's kernel takes fewer. */
static void test_many_operands(void) {
  enum { COUNT = 100 };
  OnnxBuilder *builder = onnx_builder_new();
  GString *parts = g_string_new(NULL), *backwards = g_string_new(NULL);
  float *x = onnx_float_values(COUNT), y[COUNT], most = -1, least = 1, sum = 0;
  for (int i = 0; i < COUNT; i++) {
    g_string_append_printf(parts, "%ss%d", i ? "," : "", i);
    g_string_append_printf(backwards, "%ss%d", i ? "," : "", COUNT - 1 - i);
    most = fmaxf(most, x[i]);
    least = fminf(least, x[i]);
    sum += x[i];
  }
  onnx_input(builder, "x", ONNX_FLOAT, "100");
  onnx_node(builder, "Split", "x", parts->str, "axis=0");
  onnx_node(builder, "Concat", backwards->str, "c", "axis=0");
  onnx_node(builder, "Max", parts->str, "most", "");
  onnx_node(builder, "Min", parts->str, "least", "");
  onnx_node(builder, "Sum", parts->str, "sum", "");
  onnx_node(builder, "Sub", "most,least", "range", "");
  onnx_node(builder, "Mul", "c,range", "m", "");
  onnx_node(builder, "Add", "m,sum", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < COUNT; i++)
    y[i] = x[COUNT - 1 - i] * (most - least) + sum;
  check_model(builder, x, y, COUNT);
  g_string_free(parts, TRUE);
  g_string_free(backwards, TRUE);
  g_free(x);
}

/* No code reads the input that determines CastLike's type, although the input is no constant. */
static void test_type_of_a_value(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float x[] = {1, -2, 3, -4, 5, 6}, y[] = {1, 1, 1, 1, 1, 1};
  builder->version = 19;
  onnx_input(builder, "x", ONNX_FLOAT, "6x1");
  onnx_node(builder, "Softmax", "x", "s", "");
  onnx_node(builder, "CastLike", "s,x", "y", "");
  onnx_output(builder, "y");
  check_model(builder, x, y, 6);
}

static void test_places_of_half(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float x[] = {3, 1, 2, 2, 0, 5}, y[] = {0, 2, 5};
  builder->version = 13;
  onnx_input(builder, "x", ONNX_FLOAT, "1x1x6");
  onnx_node(builder, "Cast", "x", "h", "to=10");
  onnx_node(builder, "MaxPool", "h", "p,i", "kernel_shape=2, strides=2,");
  onnx_node(builder, "Cast", "i", "y", "to=1");
  onnx_output(builder, "y");
  check_model(builder, x, y, 3);
}

static void test_outputs_without_nodes(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(6), *w = onnx_float_values(6);
  onnx_input(builder, "x", ONNX_FLOAT, "2x3");
  onnx_node(builder, "Identity", "x", "y", "");
  onnx_output(builder, "y");
  check_model(builder, x, x, 6);
  builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2x3");
  onnx_floats(builder, "w", "2x3");
  onnx_output(builder, "w");
  check_model(builder, x, w, 6);
  g_free(x);
  g_free(w);
}

/* As a reference, each operator is computed as defined: quotients do not become products, and a
 * function contains one operator. */
static void test_reference(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(20), *f = onnx_float_values(1);
  int64_t count;
  onnx_input(builder, "x", ONNX_FLOAT, "4x5");
  onnx_floats(builder, "f", "1");
  onnx_node(builder, "Div", "x,f", "d", "");
  onnx_node(builder, "Relu", "d", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  const BpTarget *target = bp_target_parse("c");
  const BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = &target, .num_targets = 1, .is_reference = 1};
  BpModule *module = bp_model_compile(path, &options);
  BpModel *model = module ? bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1) : NULL;
  char *json = model ? bp_model_graph_json(model) : NULL;
  if (!json)
    g_error("%s", bp_error_message());
  g_assert_nonnull(strstr(json, "\"fused_div_0\""));
  g_assert_nonnull(strstr(json, "\"fused_relu_1\""));
  float *got = run_model(model, x, &count);
  g_assert_cmpint(count, ==, 20);
  for (int i = 0; i < 20; i++)
    g_assert_true(got[i] == fmaxf(x[i] / f[0], 0));
  g_free(got);
  g_free(x);
  g_free(f);
  bp_str_free(json);
  bp_object_release(module);
  bp_object_release((void *)(uintptr_t)target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* ---- Artifacts --------------------------------------------------------------------------- */

/* One library contains the code for several targets, and runs on the device of each. */
static void test_one_library_for_all(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(4 * 5), *w = onnx_float_values(4 * 5);
  onnx_input(builder, "x", ONNX_FLOAT, "4x5");
  onnx_floats(builder, "w", "4x5");
  onnx_node(builder, "Mul", "x,w", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), *library = g_strconcat(path, ".so", NULL);
  const BpTarget *targets[] = {bp_target_parse("c"), bp_target_parse("opencl")};
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = targets, .num_targets = 2};
  BpModule *module = bp_model_compile(path, &options);
  if (!module || bp_module_export_library(module, library))
    g_error("%s", bp_error_message());
  bp_object_release(module);
  for (size_t t = 0; t < G_N_ELEMENTS(targets); t++) {
    int32_t device_type = bp_target_device_type(targets[t]);
    int64_t count;
    bp_object_release((void *)(uintptr_t)targets[t]);
    if (!has_device(device_type))
      continue;
    float *y = run_model(bp_model_load(library, &(BpDevice){device_type, 0}, 1), x, &count);
    g_assert_cmpint(count, ==, 20);
    for (int i = 0; i < 20; i++)
      g_assert_cmpfloat(y[i], ==, x[i] * w[i]);
    g_free(y);
  }
  unlink(library);
  unlink(path);
  g_free(library);
  g_free(path);
  g_free(x);
  g_free(w);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* ---- Two devices ------------------------------------------------------------------------- */

typedef struct PlacedNodes {
  int count;
  gboolean are_told;
} PlacedNodes;

static int note_placed(void *context, const char *node, const char *target, const char *why) {
  PlacedNodes *placed = context;
  placed->count++;
  placed->are_told &=
      *node && strstr(why, "float64") && (strstr(target, "opencl") || strstr(target, "vulkan"));
  return 0;
}

static int cancel_placed(void *context, const char *node, const char *target, const char *why) {
  (void)context, (void)node, (void)target, (void)why;
  return 1;
}

/* exp, then a square in double precision, then tanh; a weight that both devices read. */
static OnnxBuilder *two_devices_model(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "3x5");
  onnx_floats(builder, "w", "3x5");
  onnx_node(builder, "Exp", "x", "e", "");
  onnx_node(builder, "Mul", "e,w", "f", "");
  onnx_node(builder, "Cast", "f", "d", "to=11");
  onnx_node(builder, "Cast", "w", "v", "to=11");
  onnx_node(builder, "Mul", "d,d", "s", "");
  onnx_node(builder, "Add", "s,v", "p", "");
  onnx_node(builder, "Cast", "p", "g", "to=1");
  onnx_node(builder, "Tanh", "g", "y", "");
  onnx_output(builder, "y");
  return builder;
}

static void run_two_devices(BpModel *model, float *x, const float *w) {
  int64_t count;
  float *y = run_model(model, x, &count);
  for (int i = 0; i < 15; i++) {
    float f = expf(x[i]) * w[i];
    g_assert_cmpfloat_with_epsilon(y[i], tanhf(f * f + w[i]), 1e-5f);
  }
  g_free(y);
}

/* Returns the last device of a type: with several devices, one that is not the default. */
static BpDevice last_device(int32_t device_type) {
  int32_t count = 0;
  if (bp_device_count(device_type, &count, NULL))
    g_error("%s", bp_error_message());
  return (BpDevice){device_type, count - 1};
}

/* A list of preferences such as "opencl:1,cpu:0" (transfer full). */
static char *list_devices(const BpDevice *devices, size_t count) {
  GString *list = g_string_new(NULL);
  char text[64];
  for (size_t i = 0; i < count; i++) {
    bp_device_format(devices[i], text, sizeof text);
    g_string_append_printf(list, "%s%s", i ? "," : "", text);
  }
  return g_string_free(list, FALSE);
}

static void check_devices(const BpModel *model, const BpDevice *devices) {
  size_t count;
  const BpDevice *used = model ? bp_model_devices(model, &count) : NULL;
  if (!used)
    g_error("%s", bp_error_message());
  g_assert_cmpmem(used, count * sizeof(*used), devices, 2 * sizeof(*devices));
}

/* The model runs on any device, including another one of the model's kind. */
static void test_input_from_elsewhere(void) {
  OnnxBuilder *builder = onnx_builder_new();
  GByteArray *bytes;
  float *x = onnx_float_values(15);
  onnx_input(builder, "x", ONNX_FLOAT, "3x5");
  onnx_node(builder, "Exp", "x", "y", "");
  onnx_output(builder, "y");
  bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("opencl");
  BpModule *module = compile_for(path, target);
  const BpDevice places[] = {
      {BP_DEVICE_OPENCL, 0}, last_device(BP_DEVICE_OPENCL), last_device(BP_DEVICE_VULKAN)};
  for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
    int64_t count;
    BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_OPENCL, 0}, 1);
    float *y = run_model_from(model, places[i], x, &count);
    for (int64_t k = 0; k < 15; k++)
      g_assert_cmpfloat_with_epsilon(y[k], expf(x[k]), 1e-5f);
    g_free(y);
  }
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_free(x);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* With room for one device, no device is written beyond it. */
static void check_room(BpModule *module, const char *list) {
  BpDevice devices[2] = {{0, 0}, {-7, -7}};
  size_t count;
  g_assert_cmpint(bp_model_select_devices(module, list, devices, 1, &count, NULL), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "runs on more devices than the 1 that"));
  bp_error_clear();
  g_assert_cmpint(devices[1].device_type, ==, -7);
  g_assert_cmpint(bp_model_select_devices(module, list, devices, 0, &count, NULL), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
}

/* The model runs on the named devices; if the second one is missing, making the model fails. */
static void run_on(BpModule *module, const char *library, const BpDevice *devices) {
  float *x = onnx_float_values(15), *w = onnx_float_values(15);
  char *list = list_devices(devices, 2), *first = list_devices(devices, 1);
  BpDevice chosen[BP_MODEL_MAX_DEVICES];
  size_t count;
  BpModel *model = bp_model_create(module, devices, 2);
  check_devices(model, devices);
  run_two_devices(model, x, w);
  g_assert_cmpint(bp_model_select_devices(module, list, chosen, 2, &count, NULL), ==, 0);
  g_assert_cmpuint(count, ==, 2);
  g_assert_cmpmem(chosen, count * sizeof(*chosen), devices, 2 * sizeof(*devices));
  model = bp_model_load(library, chosen, count);
  check_devices(model, devices);
  check_room(module, list);
  run_two_devices(model, x, w);
  g_assert_null(bp_model_create(module, devices, 1));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "needs 1 device of kind"));
  g_assert_cmpint(bp_model_select_devices(module, first, chosen, 2, &count, NULL), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  g_assert_nonnull(strstr(bp_error_message(), "name its devices in order, as in \""));
  bp_error_clear();
  g_free(list);
  g_free(first);
  g_free(x);
  g_free(w);
}

/* BpCompileOptions with a member that a later version may add. */
typedef struct LaterOptions {
  BpCompileOptions options;
  int64_t precision;
} LaterOptions;

static void test_unknown_options(void) {
  OnnxBuilder *builder = two_devices_model();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  LaterOptions later = {
      {.struct_size = sizeof later, .targets = targets, .num_targets = 1, .is_reference = 1}, 0};
  BpModule *module = bp_model_compile(path, &later.options);
  if (!module)
    g_error("%s", bp_error_message());
  bp_module_release(module);
  later.precision = 16;
  g_assert_null(bp_model_compile(path, &later.options));
  g_assert_nonnull(strstr(bp_error_message(), "has a member set at byte "));
  g_assert_null(bp_model_load_for(path, "cpu", &later.options, NULL));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  later.options.struct_size = 0;
  g_assert_null(bp_model_compile(path, &later.options));
  g_assert_nonnull(strstr(bp_error_message(), "BpCompileOptions::struct_size is 0"));
  bp_error_clear();
  bp_target_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* Nodes that one device's generator refuses run on the other, node by node, if a fallback was
 * requested. */
static void test_two_devices(gconstpointer texts) {
  OnnxBuilder *builder = two_devices_model();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), *library = g_strconcat(path, ".so", NULL);
  const char *const *names = texts;
  BpTarget *target = bp_target_parse(names[0]), *fallback = bp_target_parse(names[1]);
  const BpTarget *targets[] = {target};
  PlacedNodes placed = {0, TRUE};
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = targets, .num_targets = 1};
  g_assert_null(bp_model_compile(path, &options));
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "another target may run as the fallback"));
  bp_error_clear();
  options.fallback = fallback;
  options.placed = cancel_placed;
  g_assert_null(bp_model_compile(path, &options));
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_RUNTIME);
  g_assert_nonnull(strstr(bp_error_message(), "placed cancelled the compilation (node '"));
  bp_error_clear();
  options.placed = note_placed;
  options.placed_context = &placed;
  BpModule *module = bp_model_compile(path, &options);
  if (!module || bp_module_export_library(module, library))
    g_error("%s", bp_error_message());
  g_assert_cmpint(placed.count, >=, 4);
  g_assert_true(placed.are_told);
  const BpDevice devices[] = {last_device(bp_target_device_type(target)),
                              last_device(bp_target_device_type(fallback))};
  if (devices[0].device_id >= 0 && devices[1].device_id >= 0)
    run_on(module, library, devices);
  unlink(library);
  unlink(path);
  g_free(library);
  g_free(path);
  bp_object_release(module);
  bp_object_release(target);
  bp_object_release(fallback);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static BpFunction *true_generator;

/* A generator that accepts each operation, but no function that contains both. */
static int refuse_fused(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const BpIrTable *ir = bp_ir_table();
  const BpIrModule *module = (const void *)args[0].v_obj;
  (void)self;
  for (int32_t i = 0; i < ir->num_functions(module); i++)
    if (strstr(ir->str_value(ir->get_function(module, i)), "relu_exp"))
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "not in the library");
  return bp_function_call(true_generator, args, num_args, result);
}

/* If a generator refuses a function made from several nodes, it may accept the nodes one by one. */
static void test_refused_after_fusion(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(15);
  int64_t count;
  onnx_input(builder, "x", ONNX_FLOAT, "3x5");
  onnx_node(builder, "Relu", "x", "r", "");
  onnx_node(builder, "Exp", "r", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("c");
  g_assert_cmpint(bp_registry_get("target.build.c", &true_generator), ==, 0);
  BpFunction *picky = bp_function_create(refuse_fused, NULL, NULL);
  g_assert_cmpint(bp_registry_set("target.build.c", picky, 1), ==, 0);
  BpModule *module = compile_for(path, target);
  g_assert_cmpint(bp_registry_set("target.build.c", true_generator, 1), ==, 0);
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  float *y = run_model(model, x, &count);
  for (int64_t i = 0; i < 15; i++)
    g_assert_cmpfloat_with_epsilon(y[i], expf(x[i] > 0 ? x[i] : 0), 1e-5f);
  g_free(y);
  g_free(x);
  bp_object_release(picky);
  bp_object_release(true_generator);
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static int functions_built;

/* A generator that counts the functions of the modules that it generates code for. */
static int count_functions(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  functions_built = bp_ir_table()->num_functions((const void *)args[0].v_obj);
  return bp_function_call(true_generator, args, num_args, result);
}

/* Returns the number of functions that a model is compiled to for the target "c". */
static int functions_of(OnnxBuilder *builder) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("c");
  g_assert_cmpint(bp_registry_get("target.build.c", &true_generator), ==, 0);
  BpFunction *counter = bp_function_create(count_functions, NULL, NULL);
  g_assert_cmpint(bp_registry_set("target.build.c", counter, 1), ==, 0);
  functions_built = 0;
  bp_object_release(compile_for(path, target));
  g_assert_cmpint(bp_registry_set("target.build.c", true_generator, 1), ==, 0);
  bp_object_release(counter);
  bp_object_release(true_generator);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  return functions_built;
}

/* A normalisation of rows and the powers of a softmax, written out, and a last reduction. */
static OnnxBuilder *model_of_rows(const char *shape) {
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 17;
  onnx_input(builder, "x", ONNX_FLOAT, shape);
  onnx_node(builder, "ReduceMean", "x", "mean", "axes=1,");
  onnx_node(builder, "Sub", "x,mean", "centred", "");
  onnx_node(builder, "Mul", "centred,centred", "squares", "");
  onnx_node(builder, "ReduceMean", "squares", "variance", "axes=1,");
  onnx_node(builder, "Sqrt", "variance", "deviation", "");
  onnx_node(builder, "Div", "centred,deviation", "normal", "");
  onnx_node(builder, "ReduceMax", "normal", "most", "axes=1,");
  onnx_node(builder, "Sub", "normal,most", "below", "");
  onnx_node(builder, "Exp", "below", "powers", "");
  onnx_node(builder, "ReduceL2", "powers", "y", "axes=1, keepdims=0");
  onnx_output(builder, "y");
  return builder;
}

/* The last reduction is a second function, since no row is computed from it. */
static void test_rows_share_a_function(void) {
  OnnxBuilder *builder = model_of_rows("20x37");
  float *x = onnx_float_values(20 * 37), y[20];
  for (int i = 0; i < 20; i++) {
    const float *row = x + i * 37;
    float sum = 0, squares = 0, most = row[0], powers = 0;
    for (int k = 0; k < 37; k++)
      sum += row[k];
    for (int k = 0; k < 37; k++) {
      squares += powf(row[k] - sum / 37, 2);
      most = fmaxf(most, row[k]);
    }
    for (int k = 0; k < 37; k++)
      powers += expf(2 * (row[k] - most) / sqrtf(squares / 37));
    y[i] = sqrtf(powers);
  }
  g_assert_cmpint(functions_of(builder), ==, 2);
  check_model(builder, x, y, 20);
  g_free(x);
}

static void test_open_rows_share_a_function(void) {
  OnnxBuilder *builder = model_of_rows("rowsxcolumns");
  g_assert_cmpint(functions_of(builder), ==, 2);
  onnx_builder_free(builder);
}

/* Appends a layer to a model, and computes it: x = op(relu(x w), number) / divisor. */
static void add_layer(OnnxBuilder *builder, int layer, const char *op, double number,
                      double divisor, float x[5][16]) {
  char *text = g_strdup_printf("x%d w%d p%d r%d n%d d%d o%d x%d", layer, layer, layer, layer, layer,
                               layer, layer, layer + 1);
  char **names = g_strsplit(text, " ", -1);
  float *w = onnx_float_values(256), sums[5][16] = {{0}};
  struct {
    const char *op;
    int a, b, to;
  } nodes[] = {{"MatMul", 0, 1, 2}, {"Relu", 2, -1, 3}, {op, 3, 4, 6}, {"Div", 6, 5, 7}};
  onnx_floats(builder, names[1], "16x16");
  for (int i = 4; i < 6; i++) {
    char *value = g_strdup_printf("value_float=%gf", i == 4 ? number : divisor);
    onnx_node(builder, "Constant", "", names[i], value);
    g_free(value);
  }
  for (size_t i = 0; i < G_N_ELEMENTS(nodes); i++) {
    char *inputs =
        g_strjoin(",", names[nodes[i].a], nodes[i].b < 0 ? NULL : names[nodes[i].b], NULL);
    onnx_node(builder, nodes[i].op, inputs, names[nodes[i].to], "");
    g_free(inputs);
  }
  for (int i = 0; i < 5 * 16 * 16; i++)
    sums[i / 256][i % 16] += x[i / 256][i / 16 % 16] * w[i % 256];
  for (int i = 0; i < 5 * 16; i++) {
    float value = fmaxf(sums[i / 16][i % 16], 0), n = (float)number;
    value = !strcmp(op, "Add") ? value + n : !strcmp(op, "Mul") ? value * n : powf(value, n);
    x[i / 16][i % 16] = value / (float)divisor;
  }
  g_free(w);
  g_strfreev(names);
  g_free(text);
}

/* Layers that differ only in an addend, a factor or a divisor share a function, and compute with
 * their own numbers. Layers with other exponents have functions of their own. */
static void test_layers_with_other_numbers_share_a_function(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(80), y[5][16];
  memcpy(y, x, sizeof(y));
  onnx_input(builder, "x0", ONNX_FLOAT, "5x16");
  add_layer(builder, 0, "Add", 0.5, 3, y);
  add_layer(builder, 1, "Add", -0.25, 7, y);
  add_layer(builder, 2, "Mul", 1.5, 3, y);
  add_layer(builder, 3, "Add", 0.5, 0.1, y);
  add_layer(builder, 4, "Mul", -2.5, 3, y);
  add_layer(builder, 5, "Pow", 2, 3, y);
  add_layer(builder, 6, "Pow", 3, 5, y);
  onnx_output(builder, "x7");
  g_assert_cmpint(functions_of(builder), ==, 4);
  check_model(builder, x, *y, 80);
  g_free(x);
}

/* Runs the command on a model with a list of devices; returns its output (transfer full). */
static char *inspect(const char *path, const char *devices, const char *target) {
  char *program = g_build_filename(g_getenv("top_builddir"), "backplane", NULL), *output;
  const char *argv[] = {program, "inspect", "model", path, "-d", devices, target ? "-t" : NULL,
                        target,  NULL};
  GError *error = NULL;
  int status;
  if (!g_spawn_sync(NULL, (char **)(uintptr_t)argv, NULL, G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
                    &output, NULL, &status, &error))
    g_error("%s", error->message);
  g_assert_true(g_spawn_check_wait_status(status, NULL));
  g_free(program);
  return output;
}

/* The command uses the devices of its list, for a model compiled now or before. */
static void test_command_line(void) {
  BpDevice opencl = last_device(BP_DEVICE_OPENCL);
  if (opencl.device_id < 1) {
    g_test_skip("needs two OpenCL devices");
    return;
  }
  OnnxBuilder *builder = two_devices_model();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), *library = g_strconcat(path, ".so", NULL);
  char *list = list_devices((BpDevice[]){opencl, {BP_DEVICE_CPU, 0}}, 2);
  char *found = inspect(path, list, "opencl -fp64=false");
  g_assert_nonnull(strstr(found, "opencl:1 and cpu:0"));
  g_free(found);
  BpTarget *target = bp_target_parse("opencl -fp64=false"), *fallback = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = targets, .num_targets = 1, .fallback = fallback};
  BpModule *module = bp_model_compile(path, &options);
  if (!module || bp_module_export_library(module, library))
    g_error("%s", bp_error_message());
  found = inspect(library, "vulkan,opencl:1,opencl:0,cpu", NULL);
  g_assert_nonnull(strstr(found, "opencl:1 and cpu:0"));
  g_free(found);
  unlink(library);
  unlink(path);
  g_free(list);
  g_free(library);
  g_free(path);
  bp_object_release(module);
  bp_object_release(target);
  bp_object_release(fallback);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* The mean and the inverse deviation of each row, which the layer returns besides its result. */
static void test_moments(gconstpointer output) {
  OnnxBuilder *builder = onnx_builder_new();
  int is_mean = !strcmp(output, "mean");
  float *x = onnx_float_values(5 * 37), y[5];
  builder->version = 17;
  onnx_input(builder, "x", ONNX_FLOAT, "5x37");
  onnx_floats(builder, "s", "37");
  onnx_node(builder, "LayerNormalization", "x,s", "z,mean,inverse", "epsilon=0.125");
  onnx_output(builder, output);
  for (int i = 0; i < 5; i++) {
    float sum = 0, squares = 0;
    for (int k = 0; k < 37; k++)
      sum += x[i * 37 + k];
    for (int k = 0; k < 37; k++)
      squares += powf(x[i * 37 + k] - sum / 37, 2);
    y[i] = is_mean ? sum / 37 : 1 / sqrtf(squares / 37 + 0.125f);
  }
  check_model(builder, x, y, 5);
  g_free(x);
}

/* Operators that contain a constant, in float16: for rows of 512, -512, 512, -512, whose squares
 * overflow float16, the result is `factor` times the row plus `offset`. */
typedef struct Halves {
  const char *op, *inputs, *attrs;
  float factor, offset;
} Halves;

static const Halves halves_cases[] = {
    {"Gemm", "signs,signs", "transB=1 alpha=0.25", 0, 1},
    {"Mean", "half,half,half", "", 1, 0},
    {"BatchNormalization", "half,one,zero,zero,three", "epsilon=1.0", 0.5f, 0},
    {"LayerNormalization", "half,one", "", 1 / 512.0f, 0},
    {"InstanceNormalization", "half,one,zero", "", 1 / 512.0f, 0},
    {"GroupNormalization", "half,one,zero", "num_groups=2", 1 / 512.0f, 0},
    {"LpNormalization", "half", "p=1", 1 / 2048.0f, 0},
};

static void test_halves(gconstpointer context) {
  const Halves *halves = context;
  OnnxBuilder *builder = onnx_builder_new();
  float x[16], y[16];
  builder->version = 21;
  onnx_input(builder, "x", ONNX_FLOAT, "1x4x4");
  onnx_ints(builder, "ones", "1,1,1,1");
  onnx_ints(builder, "zeros", "0,0,0,0");
  onnx_ints(builder, "threes", "3,3,3,3");
  onnx_node(builder, "Cast", "x", "half", "to=10");
  onnx_node(builder, "Cast", "ones", "one", "to=10");
  onnx_node(builder, "Cast", "zeros", "zero", "to=10");
  onnx_node(builder, "Cast", "threes", "three", "to=10");
  onnx_node(builder, "Flatten", "half", "rows", "axis=2");
  onnx_node(builder, "Sign", "rows", "signs", "");
  onnx_node(builder, halves->op, halves->inputs, "result", halves->attrs);
  onnx_node(builder, "Cast", "result", "y", "to=1");
  onnx_output(builder, "y");
  for (int i = 0; i < 16; i++) {
    x[i] = i % 2 ? -512 : 512;
    y[i] = halves->factor * x[i] + halves->offset;
  }
  check_model(builder, x, y, 16);
}

/* A constant that scales the channels of a convolution stays behind the convolution if it would
 * make weights infinite: the pads, zeros times infinity, are NaN. */
static void test_infinite_scale(gconstpointer op) {
  const float scales[] = {!strcmp(op, "Div") ? 0 : INFINITY, 2};
  const int64_t shape[] = {2, 1, 1};
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(16), *w = onnx_float_values(18), y[32];
  onnx_input(builder, "x", ONNX_FLOAT, "1x1x4x4");
  onnx_floats(builder, "w", "2x1x3x3");
  onnx_data(builder, "scales", ONNX_FLOAT, shape, 3, scales, sizeof(scales));
  onnx_node(builder, "Conv", "x,w", "sums", "pads=1,1,1,1");
  onnx_node(builder, op, "sums,scales", "scaled", "");
  onnx_node(builder, "Reciprocal", "scaled", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < 32; i++) {
    float sum = 0;
    for (int k = 0; k < 9; k++) {
      int row = i % 16 / 4 + k / 3 - 1, column = i % 4 + k % 3 - 1;
      if (row >= 0 && row < 4 && column >= 0 && column < 4)
        sum += x[row * 4 + column] * w[i / 16 * 9 + k];
    }
    y[i] = i < 16 ? 0 : 1 / (!strcmp(op, "Div") ? sum / 2 : sum * 2);
  }
  check_model(builder, x, y, 32);
  g_free(x);
  g_free(w);
}

/* ---- Recurrent layers -------------------------------------------------------------------- */

#define STEPS  19
#define BATCH  2
#define INPUT  3
#define HIDDEN 5

/* The weights of one direction, as ONNX stores them. */
typedef struct Recurrence {
  const float *w, *r, *b, *p;
  int gates;
} Recurrence;

static float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

/* Returns gate `gate` of element k: from the input, and from the state. */
static float of_input(const Recurrence *c, const float *x, int gate, int k) {
  int row = gate * HIDDEN + k;
  float sum = c->b[row];
  for (int i = 0; i < INPUT; i++)
    sum += c->w[row * INPUT + i] * x[i];
  return sum;
}

static float of_state(const Recurrence *c, const float *h, int gate, int k) {
  int row = gate * HIDDEN + k;
  float sum = c->b[c->gates * HIDDEN + row];
  for (int i = 0; i < HIDDEN; i++)
    sum += c->r[row * HIDDEN + i] * h[i];
  return sum;
}

/* Updates h and c to the states after the step. */
static void step_lstm(const Recurrence *l, const float *x, float *h, float *c) {
  float gates[4][HIDDEN];
  for (int g = 0; g < 4; g++)
    for (int k = 0; k < HIDDEN; k++)
      gates[g][k] = of_input(l, x, g, k) + of_state(l, h, g, k);
  for (int k = 0; k < HIDDEN; k++) {
    float in = sigmoid(gates[0][k] + l->p[k] * c[k]);
    float forget = sigmoid(gates[2][k] + l->p[2 * HIDDEN + k] * c[k]);
    c[k] = forget * c[k] + in * tanhf(gates[3][k]);
    h[k] = sigmoid(gates[1][k] + l->p[HIDDEN + k] * c[k]) * tanhf(c[k]);
  }
}

static void step_gru(const Recurrence *l, const float *x, float *h, int is_reset_last) {
  float update[HIDDEN], reset[HIDDEN], scaled[HIDDEN], fresh[HIDDEN];
  for (int k = 0; k < HIDDEN; k++) {
    update[k] = sigmoid(of_input(l, x, 0, k) + of_state(l, h, 0, k));
    reset[k] = sigmoid(of_input(l, x, 1, k) + of_state(l, h, 1, k));
    scaled[k] = reset[k] * h[k];
  }
  for (int k = 0; k < HIDDEN; k++) {
    float state = is_reset_last ? reset[k] * of_state(l, h, 2, k) : of_state(l, scaled, 2, k);
    float sum = of_input(l, x, 2, k) + state;
    fresh[k] = sum > 0 ? sum : 0; /* the second activation is Relu */
  }
  for (int k = 0; k < HIDDEN; k++)
    h[k] = (1 - update[k]) * fresh[k] + update[k] * h[k];
}

/* Computes both directions and all steps; the states are (steps, directions, batch, hidden). */
static void test_lstm(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(STEPS * BATCH * INPUT), *w = onnx_float_values(8 * HIDDEN * INPUT);
  float *r = onnx_float_values(8 * HIDDEN * HIDDEN), *b = onnx_float_values(16 * HIDDEN);
  float *p = onnx_float_values(6 * HIDDEN), y[STEPS * 2 * BATCH * HIDDEN];
  onnx_input(builder, "x", ONNX_FLOAT, "19x2x3");
  onnx_floats(builder, "w", "2x20x3");
  onnx_floats(builder, "r", "2x20x5");
  onnx_floats(builder, "b", "2x40");
  onnx_floats(builder, "p", "2x15");
  onnx_node(builder, "LSTM", "x,w,r,b,,,,p", "y,,", "direction=bidirectional hidden_size=5");
  onnx_output(builder, "y");
  for (int d = 0; d < 2; d++) {
    Recurrence l = {w + d * 4 * HIDDEN * INPUT, r + d * 4 * HIDDEN * HIDDEN, b + d * 8 * HIDDEN,
                    p + d * 3 * HIDDEN, 4};
    for (int n = 0; n < BATCH; n++) {
      float h[HIDDEN] = {0}, c[HIDDEN] = {0};
      for (int i = 0; i < STEPS; i++) {
        int t = d ? STEPS - 1 - i : i;
        step_lstm(&l, x + (t * BATCH + n) * INPUT, h, c);
        memcpy(y + ((t * 2 + d) * BATCH + n) * HIDDEN, h, sizeof(h));
      }
    }
  }
  check_model(builder, x, y, G_N_ELEMENTS(y));
  g_free(x);
  g_free(w);
  g_free(r);
  g_free(b);
  g_free(p);
}

/* Returns the last state, from a given initial state, of a layer with the batch first. */
static void test_gru(gconstpointer reset_last) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(BATCH * STEPS * INPUT), *w = onnx_float_values(3 * HIDDEN * INPUT);
  float *r = onnx_float_values(3 * HIDDEN * HIDDEN), *b = onnx_float_values(6 * HIDDEN);
  float *first = onnx_float_values(BATCH * HIDDEN), y[BATCH * HIDDEN];
  Recurrence l = {w, r, b, NULL, 3};
  onnx_input(builder, "x", ONNX_FLOAT, "2x19x3");
  onnx_floats(builder, "w", "1x15x3");
  onnx_floats(builder, "r", "1x15x5");
  onnx_floats(builder, "b", "1x30");
  onnx_floats(builder, "h", "2x1x5");
  onnx_node(builder, "GRU", "x,w,r,b,,h", ",y",
            reset_last ? "layout=1 direction=reverse activations=Sigmoid,Relu linear_before_reset=1"
                       : "layout=1 direction=reverse activations=sigmoid,relu");
  onnx_output(builder, "y");
  memcpy(y, first, sizeof(y));
  for (int n = 0; n < BATCH; n++)
    for (int t = STEPS - 1; t >= 0; t--)
      step_gru(&l, x + (n * STEPS + t) * INPUT, y + n * HIDDEN, reset_last != NULL);
  check_model(builder, x, y, G_N_ELEMENTS(y));
  g_free(x);
  g_free(w);
  g_free(r);
  g_free(b);
  g_free(first);
}

/* ---- Shifts and blocks ------------------------------------------------------------------- */

/* Signed numbers keep their sign; a shift by the width or more clears all bits. */
static void test_shifts(void) {
  float x[6] = {-7, 7, -1, 1, -128, 100}, y[6] = {-4, 3, -1, 0, -1, 0};
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 28;
  onnx_input(builder, "x", ONNX_FLOAT, "6");
  onnx_ints(builder, "by", "1,1,63,1,64,-1");
  onnx_node(builder, "Cast", "x", "i", "to=7");
  onnx_node(builder, "BitShift", "i,by", "s", "direction=RIGHT");
  onnx_node(builder, "Cast", "s", "y", "to=1");
  onnx_output(builder, "y");
  check_model(builder, x, y, 6);
}

/* Blocks of 2 by 2 become channels: ordered by cell, or by channel. */
static void test_space_to_depth(gconstpointer channel_first) {
  float *x = onnx_float_values(3 * 4 * 6), y[72];
  OnnxBuilder *builder = onnx_builder_new();
  builder->version = 28;
  onnx_input(builder, "x", ONNX_FLOAT, "1x3x4x6");
  onnx_node(builder, "SpaceToDepth", "x", "y",
            channel_first ? "blocksize=2 mode=CRD" : "blocksize=2 mode=DCR");
  onnx_output(builder, "y");
  for (int c = 0; c < 3; c++)
    for (int i = 0; i < 4; i++)
      for (int k = 0; k < 6; k++) {
        int cell = i % 2 * 2 + k % 2, channel = channel_first ? c * 4 + cell : cell * 3 + c;
        y[(channel * 2 + i / 2) * 3 + k / 2] = x[(c * 4 + i) * 6 + k];
      }
  check_model(builder, x, y, 72);
  g_free(x);
}

/* Two rows of a constant: unchanged, with the columns reversed, and every other column. */
static void test_slices_of_a_constant(gconstpointer columns) {
  int first = columns ? 5 : 0, step = columns ? -1 : 1, count = 6;
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(2 * 6), *w = onnx_float_values(4 * 6), y[12];
  if (columns && !strcmp(columns, "every-other"))
    first = 1, step = 2, count = 3;
  char *starts = g_strdup_printf("1,%" G_GINT64_FORMAT, first ? first : G_MININT64),
       *steps = g_strdup_printf("1,%d", step);
  onnx_input(builder, "x", ONNX_FLOAT, count == 6 ? "2x6" : "2x3");
  onnx_floats(builder, "w", "4x6");
  onnx_ints(builder, "starts", starts);
  onnx_ints(builder, "ends", step < 0 ? "3,-9223372036854775808" : "3,6");
  onnx_ints(builder, "axes", "0,1");
  onnx_ints(builder, "steps", steps);
  onnx_node(builder, "Slice", "w,starts,ends,axes,steps", "s", "");
  onnx_node(builder, "Add", "x,s", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < count; k++)
      y[i * count + k] = x[i * count + k] + w[(1 + i) * 6 + first + k * step];
  check_model(builder, x, y, 2 * count);
  g_free(starts);
  g_free(steps);
  g_free(x);
  g_free(w);
}

/* Threads in lock-step load unpacked rows and use shared memory, for which a packed operand is
 * unsuitable; they load and store consecutive elements together. */
static void test_lock_step(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "a", ONNX_FLOAT, "1024x1024");
  onnx_input(builder, "b", ONNX_FLOAT, "1024x1024");
  onnx_node(builder, "MatMul", "a,b", "p", "");
  onnx_node(builder, "Softmax", "p", "s", "axis=0");
  onnx_node(builder, "Add", "a,b", "t", "");
  onnx_output(builder, "s");
  onnx_output(builder, "t");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("cuda -num_cores=16");
  if (!target)
    g_error("%s", bp_error_message());
  BpModule *module = compile_for(path, target);
  BpOwnedBytes code = {0};
  g_assert_cmpuint(bp_module_num_imports(module), ==, 1);
  g_assert_cmpint(bp_module_get_source(bp_module_get_import(module, 0), "cu", &code), ==, 0);
  g_assert_null(strstr(code.data, "panels"));
  g_assert_nonnull(strstr(code.data, "__shared__"));
  const char *sum = strstr(code.data, "fused_add");
  g_assert_nonnull(sum);
  g_assert_nonnull(strstr(sum, "bp_store_aligned<bp_f32x4>"));
  bp_owned_bytes_clear(&code);
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* ---- Cancelling -------------------------------------------------------------------------- */

typedef struct Steps {
  int calls;
  int last; /* the call that cancels; none if negative */
} Steps;

static int count_step(void *context, const char *stage, int32_t done, int32_t total) {
  Steps *steps = context;
  g_assert_cmpstr(stage, !=, "");
  g_assert_cmpint(done, <=, total);
  return steps->calls++ == steps->last;
}

static void test_compilation_ends_at_the_step_that_cancels(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "3x5");
  onnx_node(builder, "Exp", "x", "e", "");
  onnx_node(builder, "ReduceSum", "e", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  Steps whole = {0, -1};
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = targets,
                              .num_targets = 1,
                              .progress = count_step,
                              .progress_context = &whole};
  BpModule *module = bp_model_compile(path, &options);
  if (!module)
    g_error("%s", bp_error_message());
  bp_object_release(module);
  g_assert_cmpint(whole.calls, >=, 3);
  for (int last = 0; last < whole.calls; last++) {
    Steps some = {0, last};
    options.progress_context = &some;
    g_assert_null(bp_model_compile(path, &options));
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_RUNTIME);
    g_assert_nonnull(strstr(bp_error_message(), "progress cancelled the compilation ("));
    g_assert_cmpint(some.calls, ==, last + 1);
    bp_error_clear();
  }
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* ---- The application's locale ------------------------------------------------------------ */

static int run_program(const char *const *arguments) {
  int status = -1;
  return g_spawn_sync(NULL, (char **)(uintptr_t)arguments, NULL,
                      G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL,
                      NULL, NULL, NULL, NULL, &status, NULL) &&
         status == 0;
}

/* Makes a locale in a new folder and sets it, as an application does at its start. Returns the
 * folder (transfer full); NULL: the test is skipped. */
static char *begin_locale(const char *language, const char *charset) {
  char *folder = g_dir_make_tmp("backplane-locale-XXXXXX", NULL);
  g_autofree char *name = g_strconcat(language, ".", charset, NULL);
  g_autofree char *path = g_build_filename(folder, name, NULL);
  const char *const make[] = {"localedef", "-i", language, "-f", charset, path, NULL};
  const char *const remove[] = {"rm", "-r", folder, NULL};
  if (run_program(make)) {
    g_setenv("LOCPATH", folder, TRUE);
    if (setlocale(LC_ALL, name))
      return folder;
  }
  g_test_skip("localedef made no locale");
  run_program(remove);
  g_free(folder);
  return NULL;
}

static void end_locale(char *folder) {
  const char *const remove[] = {"rm", "-r", folder, NULL};
  setlocale(LC_ALL, "C");
  g_unsetenv("LOCPATH");
  g_assert_true(run_program(remove));
  g_free(folder);
}

/* German writes one half as 0,5. */
static void test_comma(void) {
  float x[4] = {-3, -1, 0, 1}, y[4];
  char *folder = begin_locale("de_DE", "UTF-8");
  if (!folder)
    return;
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  onnx_node(builder, "HardSigmoid", "x", "y", "alpha=0.3f beta=0.6f");
  onnx_output(builder, "y");
  for (int i = 0; i < 4; i++)
    y[i] = fmaxf(0, fminf(1, 0.3f * x[i] + 0.6f));
  check_model(builder, x, y, 4);
  end_locale(folder);
}

/* The lower case of I is a letter without a dot in Turkish, which is not ASCII. */
static void test_dotless(void) {
  float x[2] = {1, NAN}, y[2] = {0, 1};
  char *folder = begin_locale("tr_TR", "ISO-8859-9");
  if (!folder)
    return;
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "2");
  onnx_node(builder, "IsNaN", "x", "is", "");
  onnx_node(builder, "Cast", "is", "y", "to=1");
  onnx_output(builder, "y");
  check_model(builder, x, y, 2);
  end_locale(folder);
}

static void add_tests_of_functions(void) {
  g_test_add_func("/compile/reduction/and-its-rows-share-a-function", test_rows_share_a_function);
  g_test_add_func("/compile/reduction/and-its-open-rows-share-a-function",
                  test_open_rows_share_a_function);
  g_test_add_func("/compile/function/layers-with-other-numbers-share-one",
                  test_layers_with_other_numbers_share_a_function);
}

int main(int argc, char **argv) {
  static const char *const beside_host[] = {"opencl -fp64=false", "c"};
  static const char *const beside_another[] = {"vulkan", "opencl"};
  g_setenv("POCL_DEVICES", "pthread basic", FALSE); /* two devices of one kind */
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/compile/options/of-a-later-version-are-not-ignored", test_unknown_options);
  g_test_add_func("/compile/pool/max-and-average-with-pads-agrees-with-loops", test_pool);
  g_test_add_func("/compile/pool/average-of-padding-agrees-with-loops", test_pool_of_padding);
  g_test_add_func("/compile/product/gemm-agrees-with-loops", test_product);
  g_test_add_func("/compile/product/with-a-constant-matrix-agrees-with-loops",
                  test_constant_product);
  g_test_add_func("/compile/product/with-a-computed-matrix-agrees-with-loops",
                  test_computed_product);
  g_test_add_func("/compile/lock-step/nothing-is-packed", test_lock_step);
  g_test_add_func("/compile/reduction/softmax-agrees-with-loops", test_softmax);
  g_test_add_func("/compile/reduction/softmax-of-rows-agrees-with-loops", test_softmax_of_rows);
  g_test_add_data_func("/compile/reduction/sum-of-everything-agrees-with-loops", "ReduceSum",
                       test_reduction_of_everything);
  g_test_add_data_func("/compile/reduction/mean-of-everything-agrees-with-loops", "ReduceMean",
                       test_reduction_of_everything);
  g_test_add_data_func("/compile/reduction/norm-of-everything-agrees-with-loops", "ReduceL2",
                       test_reduction_of_everything);
  g_test_add_data_func("/compile/reduction/log-sum-exp-of-everything-agrees-with-loops",
                       "ReduceLogSumExp", test_reduction_of_everything);
  g_test_add_func("/compile/reduction/of-a-transposed-tensor-agrees-with-loops", test_reduction);
  add_tests_of_functions();
  g_test_add_func("/compile/shapes/fold-away", test_shapes);
  g_test_add_func("/compile/resize/linear-agrees-with-loops", test_resize);
  g_test_add_func("/compile/factors/of-one-element-agrees-with-loops", test_constant_factors);
  g_test_add_func("/compile/factors/whose-product-is-infinite", test_large_factors);
  g_test_add_func("/compile/remainders/are-exact", test_remainders);
  g_test_add_data_func("/compile/normalization/mean-of-a-layer-agrees-with-loops", "mean",
                       test_moments);
  g_test_add_data_func("/compile/normalization/deviation-of-a-layer-agrees-with-loops", "inverse",
                       test_moments);
  g_test_add_data_func("/compile/convolution/quotient-by-zero-is-not-in-the-weights", "Div",
                       test_infinite_scale);
  g_test_add_data_func("/compile/convolution/infinite-factor-is-not-in-the-weights", "Mul",
                       test_infinite_scale);
  for (size_t i = 0; i < G_N_ELEMENTS(halves_cases); i++) {
    gchar *name = g_strdup_printf("/compile/halves/%s", halves_cases[i].op);
    g_test_add_data_func(name, &halves_cases[i], test_halves);
    g_free(name);
  }
  g_test_add_func("/compile/locale/numbers-have-points-despite-a-locale-with-commas", test_comma);
  g_test_add_func("/compile/locale/names-of-functions-are-ascii-in-turkish", test_dotless);
  g_test_add_func("/compile/recurrent/lstm-agrees-with-loops", test_lstm);
  g_test_add_data_func("/compile/recurrent/gru-agrees-with-loops", NULL, test_gru);
  g_test_add_data_func("/compile/recurrent/gru-that-resets-last-agrees-with-loops", "yes",
                       test_gru);
  g_test_add_func("/compile/shifts/of-signed-numbers-agrees-with-loops", test_shifts);
  g_test_add_data_func("/compile/blocks/space-to-depth-agrees-with-loops", NULL,
                       test_space_to_depth);
  g_test_add_data_func("/compile/blocks/space-to-depth-by-channels-agrees-with-loops", "yes",
                       test_space_to_depth);
  g_test_add_data_func("/compile/slices/of-a-constant-agrees-with-loops", NULL,
                       test_slices_of_a_constant);
  g_test_add_data_func("/compile/slices/of-a-constant-backwards-agrees-with-loops", "backwards",
                       test_slices_of_a_constant);
  g_test_add_data_func("/compile/slices/of-a-constant-every-other-agrees-with-loops", "every-other",
                       test_slices_of_a_constant);
  g_test_add_func("/compile/operands/are-any-number", test_many_operands);
  g_test_add_func("/compile/types/are-those-of-a-value-that-is-not-read", test_type_of_a_value);
  g_test_add_func("/compile/pool/places-of-float16-agrees-with-loops", test_places_of_half);
  g_test_add_func("/compile/outputs/without-nodes-agrees-with-loops", test_outputs_without_nodes);
  g_test_add_func("/compile/progress/ends-at-the-step-that-cancels",
                  test_compilation_ends_at_the_step_that_cancels);
  g_test_add_func("/compile/reference/computes-operators-one-by-one", test_reference);
  g_test_add_func("/compile/two-devices/an-input-may-be-on-another", test_input_from_elsewhere);
  g_test_add_data_func("/compile/two-devices/node-that-one-device-refuses-runs-on-the-host",
                       beside_host, test_two_devices);
  g_test_add_data_func("/compile/two-devices/node-that-one-device-refuses-runs-on-another-device",
                       beside_another, test_two_devices);
  g_test_add_func("/compile/target/takes-alone-nodes-that-it-refuses-fused",
                  test_refused_after_fusion);
  g_test_add_func("/compile/two-devices/are-those-of-the-command's-list", test_command_line);
  g_test_add_func("/compile/artifact/one-library-runs-on-all", test_one_library_for_all);
  g_test_add_func("/compile/device/is-one-with-code", test_device_is_one_that_there_is_code_for);
  return g_test_run();
}
