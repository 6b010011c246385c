/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled convolutions, and operators that follow in the same layout, give the defined results.
 * Sizes are odd on purpose: channels that fill no block, edges that fill no tile. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/compile_check.h"

/* ---- Convolutions ------------------------------------------------------------------------ */

static void test_conv(void) {
  static const Conv cases[] = {
      {3, 16, 13, 17, 3, 2, 1, 1, 1},   /* the first layer of a network */
      {24, 40, 9, 11, 1, 1, 0, 1, 1},   /* pointwise, with partial blocks */
      {5, 7, 6, 6, 3, 1, 1, 1, 1},      /* few channels */
      {32, 32, 7, 7, 3, 1, 1, 1, 1},    /* whole blocks */
      {20, 20, 10, 9, 5, 2, 2, 1, 20},  /* depthwise */
      {16, 16, 12, 14, 7, 1, 3, 1, 16}, /* with many taps */
      {40, 40, 19, 33, 3, 1, 1, 1, 40}, /* rows of several tiles */
      {12, 18, 8, 8, 3, 1, 1, 1, 3},    /* grouped */
      {16, 16, 12, 12, 3, 1, 2, 2, 1},  /* dilated */
      {1, 1, 5, 5, 3, 1, 1, 1, 1},
      {40, 24, 30, 37, 3, 1, 1, 1, 1}, /* Winograd's algorithm, with tiles that the edges cut */
      {32, 48, 16, 12, 3, 1, 0, 1, 1}, /* Winograd's algorithm: whole tiles */
      {32, 32, 13, 14, 5, 1, 2, 1, 1}, /* Winograd's algorithm: taps of 5x5 */
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Conv *c = &cases[i];
    OnnxBuilder *builder = conv_model(c);
    float *x = onnx_float_values(c->in * c->height * c->width);
    float *w = onnx_float_values(c->out * (c->in / c->groups) * c->kernel * c->kernel);
    int64_t count;
    float *y = conv_reference(c, x, w, &count);
    onnx_output(builder, "c");
    check_model(builder, x, y, count);
    g_free(x);
    g_free(w);
    g_free(y);
  }
}

/* Rows shorter than a vector, with padding of one row before the first and after the last, and
 * padding columns on one side only. */
static void test_conv_of_narrow_image(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(8 * 3), *w = onnx_float_values(16 * 5), y[16 * 10] = {0};
  onnx_input(builder, "x", ONNX_FLOAT, "1x1x8x3");
  onnx_floats(builder, "w", "16x1x1x5");
  onnx_node(builder, "Conv", "x,w", "y", "pads=1,0,1,2");
  onnx_output(builder, "y");
  for (int i = 0; i < 16 * 10; i++)
    for (int k = 0; k < 3 && i % 10 > 0 && i % 10 < 9; k++)
      y[i] += x[(i % 10 - 1) * 3 + k] * w[i / 10 * 5 + k];
  check_model(builder, x, y, 16 * 10);
  g_free(x);
  g_free(w);
}

/* Builds the graph of a convolution for a Vulkan device with a limit on the bytes of a tensor. */
static char *conv_graph(const Conv *c, int32_t most_bytes) {
  OnnxBuilder *builder = conv_model(c);
  char *text = g_strdup_printf("vulkan -winograd -max_buffer_bytes=%d", most_bytes);
  BpTarget *target = bp_target_parse(text);
  if (!target)
    g_error("%s", bp_error_message());
  onnx_output(builder, "c");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpModule *module = compile_for(path, target);
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_VULKAN, 0}, 1);
  char *json = model ? bp_model_graph_json(model) : NULL;
  if (!json)
    g_error("%s", bp_error_message());
  bp_model_release(model);
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_free(text);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return json;
}

/* Transforms beyond the limit are done for a part of the rows at a time, unless there are too many
 * parts; test_conv() compares the results. */
static void test_conv_slices(void) {
  static const Conv c = {40, 24, 30, 37, 3, 1, 1, 1, 1};
  static const struct {
    int32_t most_bytes;
    gboolean is_transformed, is_sliced;
  } cases[] = {{1 << 20, TRUE, FALSE}, {200000, TRUE, TRUE}, {50000, FALSE, FALSE}};
  if (!has_device(BP_DEVICE_VULKAN)) {
    g_test_skip("there is no Vulkan device");
    return;
  }
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *json = conv_graph(&c, cases[i].most_bytes);
    g_assert_cmpint(strstr(json, "convwinograd") != NULL, ==, cases[i].is_transformed);
    g_assert_cmpint(strstr(json, "concat") != NULL, ==, cases[i].is_sliced);
    bp_str_free(json);
  }
}

/* A convolution, a batch normalisation, hard swish as single operators, a squeeze-and-excitation
 * branch and a residual: a test of fusion. */
static void test_block(void) {
  enum { CHANNELS = 24, AREA = 10 * 11, SIZE = CHANNELS * AREA };
  static const Conv c = {CHANNELS, CHANNELS, 10, 11, 3, 1, 1, 1, 1};
  OnnxBuilder *builder = conv_model(&c);
  float *x = onnx_float_values(SIZE), *w = onnx_float_values(CHANNELS * CHANNELS * 9);
  float *v = onnx_float_values(CHANNELS), *e = onnx_float_values(CHANNELS * CHANNELS);
  float mean[CHANNELS] = {0};
  int64_t count;
  float *y = conv_reference(&c, x, w, &count);
  onnx_floats(builder, "v", "24");
  onnx_floats(builder, "e", "24x24x1x1");
  onnx_node(builder, "Abs", "v", "var", "");
  onnx_node(builder, "BatchNormalization", "c,v,v,v,var", "n", "epsilon=0.5");
  onnx_node(builder, "HardSigmoid", "n", "s", "alpha=0.1666667 beta=0.5");
  onnx_node(builder, "Mul", "n,s", "h", "");
  onnx_node(builder, "GlobalAveragePool", "h", "g", "");
  onnx_node(builder, "Conv", "g,e", "f", "");
  onnx_node(builder, "Sigmoid", "f", "a", "");
  onnx_node(builder, "Mul", "h,a", "m", "");
  onnx_node(builder, "Add", "m,x", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < SIZE; i++) {
    float k = v[i / AREA], n = (y[i] - k) * k / sqrtf(fabsf(k) + 0.5f) + k;
    y[i] = n * fminf(fmaxf(n / 6 + 0.5f, 0), 1);
    mean[i / AREA] += y[i] / AREA;
  }
  for (int i = 0; i < SIZE; i++) {
    float sum = 0;
    for (int k = 0; k < CHANNELS; k++)
      sum += mean[k] * e[i / AREA * CHANNELS + k];
    y[i] = y[i] / (1 + expf(-sum)) + x[i];
  }
  check_model(builder, x, y, SIZE);
  g_free(x);
  g_free(w);
  g_free(v);
  g_free(e);
  g_free(y);
}

/* A ConvTranspose without overlap after a pointwise convolution, whose layout it may use. */
static void check_conv_transpose(int64_t in, int64_t out, int64_t k) {
  enum { HEIGHT = 5, WIDTH = 4 };
  const Conv c = {in, in, HEIGHT, WIDTH, 1, 1, 0, 1, 1};
  OnnxBuilder *builder = conv_model(&c);
  char *shape = g_strdup_printf("%dx%dx%dx%d", (int)in, (int)out, (int)k, (int)k);
  char *channels = g_strdup_printf("%d", (int)out);
  char *attrs = g_strdup_printf("strides=%d,%d", (int)k, (int)k);
  float *x = onnx_float_values(in * HEIGHT * WIDTH), *first = onnx_float_values(in * in);
  float *w = onnx_float_values(in * out * k * k), *b = onnx_float_values(out);
  int64_t count, width = WIDTH * k, area = HEIGHT * k * width;
  float *before = conv_reference(&c, x, first, &count), *y = g_new(float, (gsize)(out * area));
  onnx_floats(builder, "v", shape);
  onnx_floats(builder, "b", channels);
  onnx_node(builder, "ConvTranspose", "c,v,b", "t", attrs);
  onnx_node(builder, "Relu", "t", "y", "");
  onnx_output(builder, "y");
  for (int64_t i = 0; i < out * area; i++) {
    int64_t o = i / area, row = i % area / width, column = i % width;
    float sum = b[o];
    for (int64_t ic = 0; ic < in; ic++)
      sum += before[(ic * HEIGHT + row / k) * WIDTH + column / k] *
             w[((ic * out + o) * k + row % k) * k + column % k];
    y[i] = fmaxf(sum, 0);
  }
  check_model(builder, x, y, out * area);
  g_free(shape);
  g_free(channels);
  g_free(attrs);
  g_free(x);
  g_free(first);
  g_free(w);
  g_free(b);
  g_free(before);
  g_free(y);
}

/* A tensor too small for tiles, with a bias. */
static void test_small_conv_transpose(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float *x = onnx_float_values(9), *w = onnx_float_values(8 * 15), *b = onnx_float_values(8);
  float y[8 * 50];
  onnx_input(builder, "x", ONNX_FLOAT, "1x1x3x3");
  onnx_floats(builder, "w", "1x8x5x3");
  onnx_floats(builder, "b", "8");
  onnx_node(builder, "ConvTranspose", "x,w,b", "y", "strides=1,2 dilations=2,2 pads=0,2,1,2");
  onnx_output(builder, "y");
  for (int i = 0; i < 8 * 50; i++)
    y[i] = b[i / 50];
  for (int i = 0; i < 8 * 15 * 9; i++) {
    int o = i / 135, tap = i / 9 % 15, from = i % 9;
    int row = from / 3 + tap / 3 * 2, column = from % 3 * 2 + tap % 3 * 2 - 2;
    if (row < 10 && column >= 0 && column < 5)
      y[o * 50 + row * 5 + column] += x[from] * w[o * 15 + tap];
  }
  check_model(builder, x, y, 8 * 50);
  g_free(x);
  g_free(w);
  g_free(b);
}

/* Computes a square transposed convolution of 5x4 inputs; of one dimension if kernel and stride
 * have height 1. */
typedef struct Transposed {
  int64_t in, out, kernel[2], stride[2], begin[2], end[2], extra[2], group;
} Transposed;

static float *transposed_reference(const Transposed *c, const float *x, const float *w,
                                   const float *b, int64_t *size) {
  const int64_t in[2] = {5, 4};
  int64_t out[2];
  for (int i = 0; i < 2; i++)
    out[i] = (in[i] - 1) * c->stride[i] + c->extra[i] + c->kernel[i] - c->begin[i] - c->end[i];
  size[0] = out[0];
  size[1] = out[1];
  float *y = g_new(float, (gsize)(c->out * out[0] * out[1]));
  for (int64_t i = 0; i < c->out * out[0] * out[1]; i++)
    y[i] = b[i / (out[0] * out[1])];
  const int64_t of_group = c->out / c->group;
  for (int64_t i = 0; i < c->in * of_group * c->kernel[0] * c->kernel[1] * in[0] * in[1]; i++) {
    int64_t from = i % (in[0] * in[1]), weight = i / (in[0] * in[1]);
    int64_t tap = weight % (c->kernel[0] * c->kernel[1]);
    int64_t pair = weight / (c->kernel[0] * c->kernel[1]), channel = pair / of_group;
    int64_t o = channel / (c->in / c->group) * of_group + pair % of_group;
    int64_t row = from / in[1] * c->stride[0] + tap / c->kernel[1] - c->begin[0];
    int64_t column = from % in[1] * c->stride[1] + tap % c->kernel[1] - c->begin[1];
    if (row >= 0 && row < out[0] && column >= 0 && column < out[1])
      y[(o * out[0] + row) * out[1] + column] += x[channel * in[0] * in[1] + from] * w[weight];
  }
  return y;
}

/* Windows that overlap or leave gaps, at all edges: each output is computed; a window with a tap
 * for every output is computed by convolutions. */
static void test_conv_transpose_with_overlap(void) {
  static const Transposed cases[] = {
      {6, 5, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 1}, /* each dimension has two kinds of outputs
                                                          */
      {20, 17, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1}, /* outputs with one and two taps */
      {3, 4, {3, 3}, {2, 2}, {0, 1}, {1, 0}, {0, 0}, 1},   /* an odd number of outputs */
      {4, 3, {4, 4}, {2, 2}, {0, 0}, {0, 0}, {0, 0}, 1},   /* one kind of outputs, with two taps */
      {4, 3, {5, 7}, {3, 2}, {2, 3}, {1, 2}, {2, 1}, 1},   /* three kinds, strides that differ */
      {4, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1},   /* a stride of one */
      {4, 3, {2, 2}, {2, 2}, {1, 1}, {3, 3}, {0, 0}, 1},   /* inputs without effect on outputs */
      {4, 3, {2, 2}, {3, 3}, {0, 0}, {0, 0}, {2, 2}, 1},   /* outputs without a tap */
      {4, 3, {3, 3}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, 1},   /* a first tap beyond the first input */
      {6, 8, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 2}, /* two groups, with two kinds of outputs */
      {5, 5, {4, 4}, {2, 2}, {0, 0}, {0, 0}, {0, 0}, 5}, /* depthwise, with one kind of outputs */
      {4, 6, {3, 5}, {1, 3}, {0, 1}, {1, 2}, {0, 1}, 2}, /* strides that differ */
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Transposed *c = &cases[i];
    OnnxBuilder *builder = onnx_builder_new();
    char *in = g_strdup_printf("1x%dx5x4", (int)c->in);
    char *weights = g_strdup_printf("%dx%dx%dx%d", (int)c->in, (int)(c->out / c->group),
                                    (int)c->kernel[0], (int)c->kernel[1]);
    char *bias = g_strdup_printf("%d", (int)c->out);
    char *attrs = g_strdup_printf("strides=%d,%d pads=%d,%d,%d,%d output_padding=%d,%d group=%d",
                                  (int)c->stride[0], (int)c->stride[1], (int)c->begin[0],
                                  (int)c->begin[1], (int)c->end[0], (int)c->end[1],
                                  (int)c->extra[0], (int)c->extra[1], (int)c->group);
    float *x = onnx_float_values(c->in * 20), *b = onnx_float_values(c->out);
    float *w = onnx_float_values(c->in * (c->out / c->group) * c->kernel[0] * c->kernel[1]);
    int64_t size[2];
    float *y = transposed_reference(c, x, w, b, size);
    onnx_input(builder, "x", ONNX_FLOAT, in);
    onnx_floats(builder, "w", weights);
    onnx_floats(builder, "b", bias);
    onnx_node(builder, "ConvTranspose", "x,w,b", "y", attrs);
    onnx_output(builder, "y");
    check_model(builder, x, y, c->out * size[0] * size[1]);
    g_free(in);
    g_free(weights);
    g_free(bias);
    g_free(attrs);
    g_free(x);
    g_free(w);
    g_free(b);
    g_free(y);
  }
}

/* Inputs outside of all windows have no effect: infinity does not spread. */
static void test_conv_transpose_of_infinity(void) {
  OnnxBuilder *builder = onnx_builder_new();
  float x[3] = {1, INFINITY, 2}, w[3], y[5];
  float *values = onnx_float_values(3);
  memcpy(w, values, sizeof w);
  onnx_input(builder, "x", ONNX_FLOAT, "1x1x1x3");
  onnx_floats(builder, "w", "1x1x1x3");
  onnx_node(builder, "ConvTranspose", "x,w", "y", "strides=1,2 pads=0,1,0,1");
  onnx_output(builder, "y");
  y[0] = x[0] * w[1];
  y[1] = x[0] * w[2] + x[1] * w[0];
  y[2] = x[1] * w[1];
  y[3] = x[1] * w[2] + x[2] * w[0];
  y[4] = x[2] * w[1];
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("c");
  BpModule *module = compile_for(path, target);
  int64_t count;
  float *found = run_module(module, BP_DEVICE_CPU, x, &count);
  g_assert_cmpint(count, ==, 5);
  for (int i = 0; i < 5; i++)
    if (isinf(y[i]) ? found[i] != y[i] : !(fabsf(found[i] - y[i]) < 1e-5f))
      g_error("element %d is %g, not %g", i, (double)found[i], (double)y[i]);
  g_free(found);
  g_free(values);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  bp_object_release(target);
  bp_object_release(module);
}

static void test_conv_transpose(void) {
  check_conv_transpose(6, 3, 2);
  check_conv_transpose(20, 24, 2);
  check_conv_transpose(16, 9, 3);
}

/* Poolings of convolution results, with channels that end inside of blocks. */
static void test_concat(void) {
  enum { AREA = 5 * 6, MOST = 24 };
  static const int64_t channels[] = {MOST, 20, MOST}, starts[] = {0, MOST, MOST + 20};
  float *x = onnx_float_values(8 * AREA), *w = onnx_float_values(MOST * 8);
  float y[(2 * MOST + 20) * AREA];
  Conv c = {8, MOST, 5, 6, 1, 1, 0, 1, 1};
  OnnxBuilder *builder = conv_model(&c);
  onnx_floats(builder, "v", "20x8x1x1");
  onnx_node(builder, "Conv", "x,v", "d", "");
  onnx_node(builder, "Concat", "c,d,c", "j", "axis=1");
  onnx_node(builder, "Relu", "j", "y", "");
  onnx_output(builder, "y");
  for (size_t i = 0; i < G_N_ELEMENTS(channels); i++) {
    int64_t count;
    c.out = channels[i];
    float *part = conv_reference(&c, x, w, &count);
    for (int64_t k = 0; k < count; k++)
      y[starts[i] * AREA + k] = fmaxf(part[k], 0);
    g_free(part);
  }
  check_model(builder, x, y, G_N_ELEMENTS(y));
  g_free(x);
  g_free(w);
}

/* ---- Spare channels of blocks ------------------------------------------------------------ */

/* An element of a tensor x with values from 1 to 2, as nodes from "x" to "e" (with "v", a matrix of
 * weights) and as a number. If x is 0, as in the padding channels of a block, the element is not
 * finite. */
typedef struct Chain {
  void (*add)(OnnxBuilder *builder);
  float (*value)(float x);
} Chain;

static void add_root(OnnxBuilder *builder) {
  onnx_node(builder, "Sub", "x,half", "d", "");
  onnx_node(builder, "Sqrt", "d", "e", "");
}

static float root_value(float x) {
  return sqrtf(x - 0.5f);
}

static void add_decay(OnnxBuilder *builder) {
  onnx_node(builder, "Mul", "x,sixty", "d", "");
  onnx_node(builder, "Sub", "hundred,d", "f", "");
  onnx_node(builder, "Exp", "f", "e", "");
}

static float decay_value(float x) {
  return expf(100 - 60 * x);
}

/* Every channel is infinite, and so are sums of it; sums of padding channels would be NaN, because
 * their weights are 0. */
static void add_infinite_sums(OnnxBuilder *builder) {
  onnx_node(builder, "Sub", "x,x", "d", "");
  onnx_node(builder, "Reciprocal", "d", "f", "");
  onnx_node(builder, "Abs", "v", "positive", "");
  onnx_node(builder, "Conv", "f,positive", "g", "");
  onnx_node(builder, "Reciprocal", "g", "e", "");
}

static float infinite_sums_value(float x) {
  return 0 * x;
}

static const Chain chains[] = {
    {add_root, root_value}, {add_decay, decay_value}, {add_infinite_sums, infinite_sums_value}};

/* A convolution of x, so that x is in blocks; and a convolution of the chain's result, whose
 * padding channels must not contribute. */
static void check_spare_channels(const Chain *chain, const Conv *c) {
  OnnxBuilder *builder = conv_model(c);
  int64_t size = c->in * c->height * c->width, count;
  char *shape = g_strdup_printf("%dx%dx1x1", (int)c->in, (int)c->in);
  char *attrs =
      g_strdup_printf("pads=%d,%d,%d,%d", (int)c->pad, (int)c->pad, (int)c->pad, (int)c->pad);
  float *x = onnx_float_values(size), *e = g_new(float, (gsize)size);
  float *w = onnx_float_values(c->out * c->in * c->kernel * c->kernel);
  for (int64_t i = 0; i < size; i++) {
    x[i] = 1.5f + x[i] / 2;
    e[i] = chain->value(x[i]);
  }
  onnx_floats(builder, "v", shape);
  onnx_node(builder, "Constant", "", "half", "value_float=0.5f");
  onnx_node(builder, "Constant", "", "sixty", "value_float=60f");
  onnx_node(builder, "Constant", "", "hundred", "value_float=100f");
  chain->add(builder);
  onnx_node(builder, "Conv", "e,w", "h", attrs);
  onnx_node(builder, "Add", "c,h", "y", "");
  onnx_output(builder, "y");
  float *y = conv_reference(c, x, w, &count), *other = conv_reference(c, e, w, &count);
  for (int64_t i = 0; i < count; i++)
    y[i] += other[i];
  check_model(builder, x, y, count);
  g_free(shape);
  g_free(attrs);
  g_free(x);
  g_free(e);
  g_free(w);
  g_free(y);
  g_free(other);
}

static void test_spare_channels(void) {
  static const Conv cases[] = {{10, 12, 5, 6, 1, 1, 0, 1, 1},    /* one block, not full */
                               {17, 7, 5, 6, 3, 1, 1, 1, 1},     /* one channel in the last block */
                               {24, 40, 30, 37, 3, 1, 1, 1, 1}}; /* by transforms */
  for (size_t i = 0; i < G_N_ELEMENTS(chains); i++)
    for (size_t k = 0; k < G_N_ELEMENTS(cases); k++)
      check_spare_channels(&chains[i], &cases[k]);
}

/* The convolution is one function with the pooling that follows it; and its channels become
 * pixels. */
static void test_spare_channels_of_other_operators(void) {
  enum { CHANNELS = 20, OUT = 18, WIDTH = 6, AREA = WIDTH * WIDTH };
  const Conv c = {CHANNELS, CHANNELS, WIDTH, WIDTH, 1, 1, 0, 1, 1};
  const Conv last = {CHANNELS, OUT, WIDTH, WIDTH, 1, 1, 0, 1, 1};
  float *x = onnx_float_values(CHANNELS * AREA), e[CHANNELS * AREA], y[OUT * AREA / 4];
  float *w = onnx_float_values(OUT * CHANNELS), *v = onnx_float_values(CHANNELS * OUT * 4);
  float spread[OUT * AREA * 4];
  int64_t count;
  for (int i = 0; i < CHANNELS * AREA; i++) {
    x[i] = 1.5f + x[i] / 2;
    e[i] = root_value(x[i]);
  }
  for (int is_pool = 0; is_pool < 2; is_pool++) {
    OnnxBuilder *builder = conv_model(&c);
    onnx_node(builder, "Constant", "", "half", "value_float=0.5f");
    add_root(builder);
    onnx_output(builder, "y");
    onnx_output(builder, "c"); /* keeps the convolution, and so x in blocks */
    if (is_pool) {
      onnx_floats(builder, "v", "18x20x1x1");
      onnx_node(builder, "Conv", "e,v", "p", "");
      onnx_node(builder, "MaxPool", "p", "y", "kernel_shape=2,2 strides=2,2");
      float *all = conv_reference(&last, e, w, &count);
      for (int i = 0; i < OUT * AREA / 4; i++) {
        const float *at = all + i / (AREA / 4) * AREA + i % (AREA / 4) / (WIDTH / 2) * 2 * WIDTH +
                          i % (WIDTH / 2) * 2;
        y[i] = fmaxf(fmaxf(at[0], at[1]), fmaxf(at[WIDTH], at[WIDTH + 1]));
      }
      check_model(builder, x, y, OUT * AREA / 4);
      g_free(all);
      continue;
    }
    onnx_floats(builder, "v", "20x18x2x2");
    onnx_node(builder, "ConvTranspose", "e,v", "y", "strides=2,2");
    for (int i = 0; i < OUT * AREA * 4; i++) {
      int o = i / (AREA * 4), row = i % (AREA * 4) / (WIDTH * 2), column = i % (WIDTH * 2);
      float sum = 0;
      for (int k = 0; k < CHANNELS; k++)
        sum += e[k * AREA + row / 2 * WIDTH + column / 2] *
               v[((k * OUT + o) * 2 + row % 2) * 2 + column % 2];
      spread[i] = sum;
    }
    check_model(builder, x, spread, OUT * AREA * 4);
  }
  g_free(x);
  g_free(w);
  g_free(v);
}

/* ---- Pooling ----------------------------------------------------------------------------- */

/* Max pooling of a convolution's result, in any layout. */
static void check_pool_of_conv(const Conv *c, int64_t kernel, int64_t pad) {
  const Conv pool = {c->out, c->out, c->height, c->width, kernel, 2, pad, 1, c->out};
  int64_t height = conv_extent(&pool, c->height), width = conv_extent(&pool, c->width), count;
  OnnxBuilder *builder = conv_model(c);
  char *attrs = g_strdup_printf("kernel_shape=%d,%d strides=2,2 pads=%d,%d,%d,%d", (int)kernel,
                                (int)kernel, (int)pad, (int)pad, (int)pad, (int)pad);
  float *x = onnx_float_values(c->in * c->height * c->width);
  float *w = onnx_float_values(c->out * c->in * c->kernel * c->kernel);
  float *z = conv_reference(c, x, w, &count), *y = g_new(float, (gsize)(c->out * height * width));
  onnx_node(builder, "Relu", "c", "r", "");
  onnx_node(builder, "MaxPool", "r", "y", attrs);
  onnx_output(builder, "y");
  for (int64_t o = 0; o < c->out * height * width; o++) {
    y[o] = 0;
    for (int64_t k = 0; k < kernel * kernel; k++) {
      int64_t i = o % (height * width) / width * 2 + k / kernel - pad;
      int64_t j = o % width * 2 + k % kernel - pad;
      if (i >= 0 && i < c->height && j >= 0 && j < c->width)
        y[o] = fmaxf(y[o], z[(o / (height * width) * c->height + i) * c->width + j]);
    }
  }
  check_model(builder, x, y, c->out * height * width);
  g_free(attrs);
  g_free(x);
  g_free(w);
  g_free(y);
  g_free(z);
}

static void test_pool_of_conv(void) {
  static const Conv first = {3, 36, 17, 15, 3, 1, 1, 1, 1}, next = {32, 20, 18, 16, 3, 1, 1, 1, 1};
  check_pool_of_conv(&first, 3, 1);
  check_pool_of_conv(&first, 2, 0);
  check_pool_of_conv(&next, 3, 1);
  check_pool_of_conv(&next, 2, 0);
}

/* The indices of the largest elements are outputs, too: the blocked layout has no such second
 * output. */
static void test_pool_of_conv_with_places(void) {
  static const Conv c = {8, 32, 6, 6, 3, 1, 1, 1, 1};
  int64_t count;
  OnnxBuilder *builder = conv_model(&c);
  float *x = onnx_float_values(c.in * c.height * c.width);
  float *w = onnx_float_values(c.out * c.in * c.kernel * c.kernel);
  float *z = conv_reference(&c, x, w, &count), y[32 * 3 * 3];
  onnx_node(builder, "MaxPool", "c", "m,p", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Cast", "p", "f", "to=1");
  onnx_node(builder, "Sub", "f,f", "zero", "");
  onnx_node(builder, "Add", "m,zero", "y", "");
  onnx_output(builder, "y");
  for (int i = 0; i < 32 * 3 * 3; i++) {
    const float *first = z + i / 9 * 36 + i % 9 / 3 * 12 + i % 3 * 2;
    y[i] = fmaxf(fmaxf(first[0], first[1]), fmaxf(first[6], first[7]));
  }
  check_model(builder, x, y, 32 * 3 * 3);
  g_free(x);
  g_free(w);
  g_free(z);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/compile/convolution/is-that-of-plain-loops", test_conv);
  g_test_add_func("/compile/convolution/of-a-narrow-image-agrees-with-plain-loops",
                  test_conv_of_narrow_image);
  g_test_add_func("/compile/convolution/takes-slices-where-tensors-would-be-too-large",
                  test_conv_slices);
  g_test_add_func("/compile/convolution/block-of-a-network-agrees-with-plain-loops", test_block);
  g_test_add_func("/compile/convolution/transposed-agrees-with-plain-loops", test_conv_transpose);
  g_test_add_func("/compile/convolution/transposed-with-overlap-agrees-with-plain-loops",
                  test_conv_transpose_with_overlap);
  g_test_add_func("/compile/convolution/transposed-infinity-agrees-with-plain-loops",
                  test_conv_transpose_of_infinity);
  g_test_add_func("/compile/convolution/transposed-and-small-agrees-with-plain-loops",
                  test_small_conv_transpose);
  g_test_add_func("/compile/concatenation/of-channels-agrees-with-plain-loops", test_concat);
  g_test_add_func("/compile/spare-channels/reach-no-convolution", test_spare_channels);
  g_test_add_func("/compile/spare-channels/reach-no-pooling-and-no-pixels",
                  test_spare_channels_of_other_operators);
  g_test_add_func("/compile/pool/of-a-convolution-agrees-with-plain-loops", test_pool_of_conv);
  g_test_add_func("/compile/pool/of-a-convolution-with-places-agrees-with-plain-loops",
                  test_pool_of_conv_with_places);
  return g_test_run();
}
