/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms, said as products with small matrices, and the constants that go with them:
 * windows and the weights of mel bands. The last axis of a signal holds its real and, if it is
 * complex, its imaginary parts. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

#define PI 3.14159265358979323846

/* A constant scalar of an integer type; `otherwise` if it is absent. */
static int read_whole(const BpGraphNode *node, int32_t input, int64_t otherwise, int64_t *value) {
  *value = otherwise;
  if (!bp__node_input(node, input))
    return 0;
  int32_t count = bp__op_const_ints(node, input, value, 1);
  if (count == 0)
    return bp__op_bad(node, "input %d is empty, not a number", input);
  return count < 0 ? -1 : 0;
}

static int output_dtype(const BpGraphNode *node, BpDataType *dtype) {
  int64_t number = bp__node_int(node, "output_datatype", 1);
  if (bp__dtype_from_onnx(number, dtype) || !bp__dtype_is_float(*dtype))
    return bp__op_error(node, "its output_datatype is number %lld, not a float type that works",
                        (long long)number);
  return 0;
}

/* ---- Windows ----------------------------------------------------------------------------- */

/* Sums of cosines of multiples of the angle. */
static const struct {
  const char *name;
  double factors[3];
} windows[] = {
    {"HannWindow", {0.5, -0.5, 0}},
    {"HammingWindow", {25.0 / 46, -21.0 / 46, 0}},
    {"BlackmanWindow", {0.42, -0.5, 0.08}},
};

static BpGraphValue *float_number(BpGraph *graph, double value) {
  return bp__graph_float_scalar(graph, (float)value);
}

/* The window whose size a run knows, by nodes. */
static BpGraphValue *window_in(BpGraph *graph, const BpGraphNode *node, const double *factors) {
  BpGraphValue *size = node->inputs[0], *zero, *one;
  zero = bp__op_cast(graph, node, float_number(graph, 0), size->dtype);
  one = bp__op_cast(graph, node, float_number(graph, 1), size->dtype);
  size = bp__op_reshape(graph, node, size, NULL, 0);
  BpGraphValue *places =
      bp__op_apply(graph, "", "Range", node->name, (BpGraphValue *[]){zero, size, one}, 3, NULL, 0);
  BpGraphValue *last =
      bp__node_int(node, "periodic", 1) ? size : bp__op_binary(graph, node, "Sub", size, one);
  if (!places || !last)
    return NULL;
  BpGraphValue *angle = bp__op_binary(graph, node, "Mul", float_number(graph, 2 * PI),
                                      bp__op_cast(graph, node, places, BP__FLOAT32));
  angle = bp__op_binary(graph, node, "Div", angle, bp__op_cast(graph, node, last, BP__FLOAT32));
  BpGraphValue *sum = float_number(graph, factors[0]);
  for (int i = 1; i < 3; i++) {
    BpGraphValue *turned = bp__op_binary(graph, node, "Mul", angle, float_number(graph, i));
    BpGraphValue *wave = bp__op_unary(graph, node, "Cos", turned);
    sum = bp__op_binary(graph, node, "Add", sum,
                        bp__op_binary(graph, node, "Mul", wave, float_number(graph, factors[i])));
  }
  return sum;
}

BP_ROW_EXPAND(window) {
  const double *factors = windows[0].factors;
  const BpGraphValue *given = node->inputs[0];
  BpDataType dtype;
  int64_t size;
  for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
    if (!strcmp(node->op->name, windows[i].name))
      factors = windows[i].factors;
  if (output_dtype(node, &dtype))
    return -1;
  if (!given->data) {
    if (bp__value_is_open(given) || bp__value_num_elements(given) != 1)
      return bp__op_bad(node, "its size is not one number");
    BpGraphValue *out = window_in(graph, node, factors);
    node->outputs[0] = out ? bp__op_cast(graph, node, out, dtype) : NULL;
    return node->outputs[0] ? 0 : -1;
  }
  if (read_whole(node, 0, 0, &size))
    return -1;
  if (size < 0)
    return bp__op_bad(node, "its size is %lld", (long long)size);
  BpGraphValue *out = bp__graph_constant(graph, node->name, dtype, &size, 1, NULL);
  double step = 2 * PI / (double)(bp__node_int(node, "periodic", 1) ? size : size - 1);
  for (int64_t i = 0; out && i < size; i++)
    bp__value_put_float(out, i,
                        factors[0] + factors[1] * cos(step * (double)i) +
                            factors[2] * cos(2 * step * (double)i));
  node->outputs[0] = out;
  return out ? 0 : -1;
}

/* ---- MelWeightMatrix --------------------------------------------------------------------- */

typedef struct Mel {
  int64_t bands, length, rate;
  double low, high; /* ends in mel */
} Mel;

static int read_mel(const BpGraphNode *node, Mel *mel) {
  double edges[2];
  if (read_whole(node, 0, 0, &mel->bands) || read_whole(node, 1, 0, &mel->length) ||
      read_whole(node, 2, 0, &mel->rate))
    return -1;
  for (int32_t i = 0; i < 2; i++) {
    const BpGraphValue *edge = node->inputs[3 + i];
    if (!edge->data || bp__value_num_elements(edge) != 1)
      return bp__op_error(node, "input %d must be a constant number", 3 + i);
    edges[i] = bp__value_get_float(edge, 0);
  }
  if (mel->bands < 1 || mel->length < 1 || mel->rate < 1 || !(edges[0] >= 0) ||
      !(edges[1] >= edges[0]) || edges[1] > (double)mel->rate / 2)
    return bp__op_bad(
        node, "%lld bands from %g to %g of a transform of %lld at a rate of %lld are none",
        (long long)mel->bands, edges[0], edges[1], (long long)mel->length, (long long)mel->rate);
  mel->low = log10(1 + edges[0] / 700);
  mel->high = log10(1 + edges[1] / 700);
  return 0;
}

/* The bin in which edge `i` of the bands lies. */
static int64_t mel_bin(const Mel *mel, int64_t i) {
  double at = mel->low + (mel->high - mel->low) * (double)i / (double)(mel->bands + 2);
  double bin = (double)(mel->length + 1) * 700 * (pow(10, at) - 1) / (double)mel->rate;
  return bin < (double)mel->length / 2 ? (int64_t)bin : mel->length / 2;
}

/* A triangle for each band, over the bins between three edges. */
BP_ROW_EXPAND(mel_weight_matrix) {
  BpDataType dtype;
  Mel mel;
  if (output_dtype(node, &dtype) || read_mel(node, &mel))
    return -1;
  int64_t shape[2] = {mel.length / 2 + 1, mel.bands};
  BpGraphValue *out = bp__graph_constant(graph, node->name, dtype, shape, 2, NULL);
  for (int64_t i = 0; out && i < mel.bands; i++) {
    int64_t left = mel_bin(&mel, i), top = mel_bin(&mel, i + 1), right = mel_bin(&mel, i + 2);
    for (int64_t j = left; j < top; j++)
      bp__value_put_float(out, j * mel.bands + i, (double)(j - left) / (double)(top - left));
    bp__value_put_float(out, top * mel.bands + i, 1);
    for (int64_t j = top + 1; j < right; j++)
      bp__value_put_float(out, j * mel.bands + i, (double)(right - j) / (double)(right - top));
  }
  node->outputs[0] = out;
  return out ? 0 : -1;
}

/* ---- Transforms -------------------------------------------------------------------------- */

#define DENSE_LENGTH  64   /* at most so long, a transform is one product */
#define LONGEST_PRIME 1024 /* of a factor that cannot be taken apart */

typedef struct Transform {
  BpGraph *graph;
  const BpGraphNode *node;
  BpDataType dtype; /* in which it is computed */
  int is_inverse;   /* not divided by its length */
} Transform;

/* The angle of the product of two indices, of so many in a circle. */
static double angle_of(const Transform *t, int64_t a, int64_t b, int64_t length) {
  double turn = 2 * PI * (double)(a * b % length) / (double)length;
  return t->is_inverse ? turn : -turn;
}

/* The matrix from `parts` (1: real, 2: complex) of each of `length` elements to both parts of the
 * first `bins` results. */
static BpGraphValue *transform_matrix(const Transform *t, int64_t length, int64_t parts,
                                      int64_t bins) {
  int64_t shape[2] = {length * parts, 2 * bins};
  BpGraphValue *matrix = bp__graph_constant(t->graph, t->node->name, t->dtype, shape, 2, NULL);
  for (int64_t i = 0; matrix && i < length * bins; i++) {
    int64_t n = i / bins, k = i % bins, at = n * parts * shape[1] + 2 * k;
    double angle = angle_of(t, n, k, length);
    bp__value_put_float(matrix, at, cos(angle));
    bp__value_put_float(matrix, at + 1, sin(angle));
    if (parts == 2) {
      bp__value_put_float(matrix, at + shape[1], -sin(angle));
      bp__value_put_float(matrix, at + shape[1] + 1, cos(angle));
    }
  }
  return matrix;
}

/* The parts of the factors by which the results of the first step are turned. */
static BpGraphValue *turns(const Transform *t, int64_t rows, int64_t columns, int is_sine) {
  int64_t shape[3] = {rows, columns, 1};
  BpGraphValue *value = bp__graph_constant(t->graph, t->node->name, t->dtype, shape, 3, NULL);
  for (int64_t i = 0; value && i < rows * columns; i++) {
    double angle = angle_of(t, i / columns, i % columns, rows * columns);
    bp__value_put_float(value, i, is_sine ? sin(angle) : cos(angle));
  }
  return value;
}

static BpGraphValue *binary(const Transform *t, const char *op, BpGraphValue *a, BpGraphValue *b) {
  return bp__op_binary(t->graph, t->node, op, a, b);
}

static BpGraphValue *concat(const Transform *t, BpGraphValue *a, BpGraphValue *b, int64_t axis) {
  BpGraphAttr attr = bp__attr_int(t->graph, "axis", axis);
  return bp__op_apply(t->graph, "", "Concat", t->node->name, (BpGraphValue *[]){a, b}, 2, &attr, 1);
}

/* Complex products of x, (batch, rows, columns, 2), with its turns. */
static BpGraphValue *turned(const Transform *t, BpGraphValue *x, int64_t rows, int64_t columns) {
  BpGraphValue *cosines = turns(t, rows, columns, 0), *sines = turns(t, rows, columns, 1);
  BpGraphValue *real = bp__op_slice(t->graph, t->node, x, 3, 0, 1);
  BpGraphValue *imaginary = bp__op_slice(t->graph, t->node, x, 3, 1, 2);
  return concat(
      t, binary(t, "Sub", binary(t, "Mul", real, cosines), binary(t, "Mul", imaginary, sines)),
      binary(t, "Add", binary(t, "Mul", real, sines), binary(t, "Mul", imaginary, cosines)), 3);
}

/* The largest factor of a dense step, else the least prime one. */
static int64_t factor_of(int64_t length) {
  for (int64_t factor = DENSE_LENGTH / 2; factor > 1; factor--)
    if (length % factor == 0)
      return factor;
  for (int64_t factor = DENSE_LENGTH / 2; factor * factor <= length; factor++)
    if (length % factor == 0)
      return factor;
  return length;
}

/* The first `bins` or more results of a transform along axis 1 of x, (batch, length, parts):
 * Cooley and Tukey's, where with length = r * m element m * a + b and result c + r * d are found by
 * a transform of r over a, a turn, and one of m over b. */
static BpGraphValue *transformed(const Transform *t, BpGraphValue *x, int64_t bins) {
  static const int64_t swap[] = {0, 2, 1, 3};
  if (!x)
    return NULL;
  int64_t batch = x->shape[0], length = x->shape[1], parts = x->shape[2];
  int64_t r = length <= DENSE_LENGTH ? length : factor_of(length), m = length / r;
  if (r > LONGEST_PRIME) {
    bp__op_error(t->node, "its length has the prime factor %lld, which is above %d", (long long)r,
                 LONGEST_PRIME);
    return NULL;
  }
  int64_t rows[] = {batch, m, r * parts}, both[] = {batch, m, r, 2};
  int64_t inner[] = {batch * r, m, 2}, outer[] = {batch, r, m, 2}, last[] = {batch, bins, 2};
  if (m == 1)
    return bp__op_reshape(t->graph, t->node,
                          binary(t, "MatMul", bp__op_reshape(t->graph, t->node, x, rows, 3),
                                 transform_matrix(t, r, parts, bins)),
                          last, 3);
  int64_t taken[] = {batch, r, m, parts};
  last[1] = length;
  x = bp__op_transpose(t->graph, t->node, bp__op_reshape(t->graph, t->node, x, taken, 4), swap, 4);
  x = binary(t, "MatMul", bp__op_reshape(t->graph, t->node, x, rows, 3),
             transform_matrix(t, r, parts, r));
  x = turned(t, bp__op_reshape(t->graph, t->node, x, both, 4), m, r);
  x = bp__op_transpose(t->graph, t->node, x, swap, 4);
  x = transformed(t, bp__op_reshape(t->graph, t->node, x, inner, 3), m);
  x = bp__op_transpose(t->graph, t->node, bp__op_reshape(t->graph, t->node, x, outer, 4), swap, 4);
  return bp__op_reshape(t->graph, t->node, x, last, 3);
}

/* The first `count` elements along axis 1, with zeros after those that are there. */
static BpGraphValue *resized(const Transform *t, BpGraphValue *x, int64_t count) {
  int64_t pads[6] = {0};
  if (!x || x->shape[1] == count)
    return x;
  if (x->shape[1] > count)
    return bp__op_slice(t->graph, t->node, x, 1, 0, count);
  pads[4] = count - x->shape[1];
  return binary(t, "Pad", x, bp__graph_int_vector(t->graph, pads, 6));
}

/* All `length` results from the first half of them, as those of a real signal have them: the rest
 * are their mirrored conjugates. */
static BpGraphValue *mirrored(const Transform *t, BpGraphValue *x, int64_t length) {
  int64_t start = (length - 1) / 2, end = 0, axis = 1, step = -1, pair[] = {1, 1, 2};
  if (!x || start == 0)
    return x;
  BpGraphValue *inputs[] = {
      x, bp__graph_int_vector(t->graph, &start, 1), bp__graph_int_vector(t->graph, &end, 1),
      bp__graph_int_vector(t->graph, &axis, 1), bp__graph_int_vector(t->graph, &step, 1)};
  BpGraphValue *rest = bp__op_apply(t->graph, "", "Slice", t->node->name, inputs, 5, NULL, 0);
  BpGraphValue *signs = bp__graph_constant(t->graph, t->node->name, t->dtype, pair, 3, NULL);
  if (!signs)
    return NULL;
  bp__value_put_float(signs, 0, 1);
  bp__value_put_float(signs, 1, -1);
  return concat(t, x, binary(t, "Mul", rest, signs), 1);
}

/* The results of x, (batch, elements, parts), padded or cut to `length`. */
static BpGraphValue *spectrum(const Transform *t, BpGraphValue *x, int64_t length, int is_half) {
  int64_t bins = is_half ? length / 2 + 1 : length;
  if (!t->is_inverse)
    return resized(t, transformed(t, resized(t, x, length), bins), bins);
  x = resized(t, x, bins);
  x = transformed(t, is_half ? mirrored(t, x, length) : x, length);
  if (is_half && x)
    x = bp__op_slice(t->graph, t->node, x, 2, 0, 1);
  return binary(t, "Div", x, bp__op_scalar(t->graph, t->node, x, (float)length));
}

static int check_signal(const BpGraphNode *node, int32_t min_ndim) {
  const BpGraphValue *in = node->inputs[0];
  char text[BP_VALUE_TEXT];
  if (in->ndim < min_ndim || in->shape[in->ndim - 1] < 1 || in->shape[in->ndim - 1] > 2 ||
      !bp__dtype_is_float(in->dtype) || bp__value_num_elements(in) == 0)
    return bp__op_bad(node,
                      "its signal is %s, not floats with one or two parts along the last axis",
                      bp__value_format(in, text));
  return 0;
}

/* Version 17 has the axis as an attribute, 1 by default. */
static int transform_axis(const BpGraphNode *node, int32_t *axis) {
  int64_t given = node->version < 20 ? bp__node_int(node, "axis", 1) : -2;
  int32_t ndim = node->inputs[0]->ndim;
  if ((node->version >= 20 && read_whole(node, 2, given, &given)) ||
      bp__op_axis(node, given, ndim, axis))
    return -1;
  return *axis == ndim - 1 ? bp__op_bad(node, "its axis is that of the parts") : 0;
}

BP_ROW_EXPAND(dft) {
  BpGraphValue *x = node->inputs[0];
  int is_half = bp__node_int(node, "onesided", 0) != 0;
  Transform t = {graph, node, bp_te_accumulator(x->dtype), bp__node_int(node, "inverse", 0) != 0};
  int64_t perm[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM], length;
  int32_t axis, ndim = x->ndim;
  if (check_signal(node, 2) || transform_axis(node, &axis))
    return -1;
  int64_t usual = is_half && t.is_inverse ? 2 * (x->shape[axis] - 1) : x->shape[axis];
  if (read_whole(node, 1, usual, &length))
    return -1;
  if (length < 1 || length > INT32_MAX)
    return bp__op_bad(node, "its length is %lld", (long long)length);
  if (is_half && x->shape[ndim - 1] != (t.is_inverse ? 2 : 1))
    return bp__op_bad(node, "its signal has %lld parts, which does not go with onesided",
                      (long long)x->shape[ndim - 1]);
  for (int32_t i = 0; i < ndim; i++)
    perm[i] = i;
  perm[axis] = ndim - 2; /* its own inverse: the axis and the last but one change places */
  perm[ndim - 2] = axis;
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = x->shape[perm[i]];
  int64_t flat[] = {bp__value_num_elements(x) / (shape[ndim - 2] * shape[ndim - 1]),
                    shape[ndim - 2], shape[ndim - 1]};
  x = bp__op_transpose(graph, node, bp__op_cast(graph, node, x, t.dtype), perm, ndim);
  x = spectrum(&t, bp__op_reshape(graph, node, x, flat, 3), length, is_half);
  if (!x)
    return -1;
  shape[ndim - 2] = x->shape[1];
  shape[ndim - 1] = x->shape[2];
  x = bp__op_transpose(graph, node, bp__op_reshape(graph, node, x, shape, ndim), perm, ndim);
  node->outputs[0] = bp__op_cast(graph, node, x, node->inputs[0]->dtype);
  return node->outputs[0] ? 0 : -1;
}

/* ---- STFT -------------------------------------------------------------------------------- */

/* Parts of a signal, (batch, elements, parts), that begin `step` after each other, as
 * (batch, frames, length, parts). */
BP_ROW_INFER(frames) {
  const BpGraphValue *in = node->inputs[0];
  int64_t step = bp__node_int(node, "step", 1), length = bp__node_int(node, "length", 1);
  int64_t shape[] = {in->shape[0], (in->shape[1] - length) / step + 1, length, in->shape[2]};
  return bp__node_set_output(graph, node, 0, in->dtype, shape, 4);
}

static const BpIrNode *frames_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *step = x_index(ir, bp__node_int(op->node, "step", 1));
  const BpIrNode *indices[] = {axes[0], x_add(ir, x_mul(ir, axes[1], step), axes[2]), axes[3]};
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(frames) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpCompute copy = *op;
  return bp__op_give(outputs, bp__op_tensor(op, "Frames", out->shape, 4, frames_body, &copy));
}

static int read_frames(const BpGraphNode *node, int64_t *step, int64_t *length) {
  const BpGraphValue *x = node->inputs[0], *window = bp__node_input(node, 2);
  if (check_signal(node, 3))
    return -1;
  if (x->ndim != 3)
    return bp__op_bad(node, "its signal has %d dimensions, not 3", x->ndim);
  int64_t usual = window && window->ndim == 1 ? window->shape[0] : x->shape[1];
  if (read_whole(node, 1, 1, step) || read_whole(node, 3, usual, length))
    return -1;
  if (*step < 1 || *length < 1 || *length > x->shape[1] ||
      (window && (window->ndim != 1 || window->shape[0] != *length)))
    return bp__op_bad(node,
                      "its frames of %lld, %lld after each other, do not fit its signal of "
                      "%lld or its window",
                      (long long)*length, (long long)*step, (long long)x->shape[1]);
  return 0;
}

BP_ROW_EXPAND(stft) {
  BpGraphValue *x = node->inputs[0], *window = bp__node_input(node, 2);
  int is_half = bp__node_int(node, "onesided", 1) != 0;
  Transform t = {graph, node, bp_te_accumulator(x->dtype), 0};
  int64_t step, length, along[] = {-1, 1};
  if (read_frames(node, &step, &length))
    return -1;
  if (is_half && x->shape[2] == 2)
    return bp__op_bad(node, "its signal is complex, which does not go with onesided");
  BpGraphAttr attrs[] = {bp__attr_int(graph, "step", step), bp__attr_int(graph, "length", length)};
  x = bp__op_cast(graph, node, x, t.dtype);
  x = bp__op_apply(graph, "backplane", "Frames", node->name, &x, 1, attrs, 2);
  if (x && window)
    x = binary(&t, "Mul", x,
               bp__op_reshape(graph, node, bp__op_cast(graph, node, window, t.dtype), along, 2));
  if (!x)
    return -1;
  int64_t frames = x->shape[1], flat[] = {x->shape[0] * frames, length, x->shape[3]};
  x = spectrum(&t, bp__op_reshape(graph, node, x, flat, 3), length, is_half);
  if (!x)
    return -1;
  int64_t shape[] = {node->inputs[0]->shape[0], frames, x->shape[1], 2};
  x = bp__op_reshape(graph, node, x, shape, 4);
  node->outputs[0] = bp__op_cast(graph, node, x, node->inputs[0]->dtype);
  return node->outputs[0] ? 0 : -1;
}
