/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms, built from products with small matrices. The last axis of a signal contains
 * the real and, if the signal is complex, the imaginary parts. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

#define PI 3.14159265358979323846

/* ---- Transforms -------------------------------------------------------------------------- */

#define DENSE_LENGTH  64   /* maximum length of a transform that is a single product */
#define LONGEST_PRIME 1024 /* maximum size of a prime factor */

typedef struct Transform {
  BpGraph *graph;
  const BpGraphNode *node;
  BpDataType dtype; /* type in which it is computed */
  int is_inverse;   /* inverse transform, without the division by its length */
} Transform;

/* The angle of the product of two indices, where `length` indices make a full circle. */
static double angle_of(const Transform *t, int64_t a, int64_t b, int64_t length) {
  double turn = 2 * PI * (double)(a * b % length) / (double)length;
  return t->is_inverse ? turn : -turn;
}

/* The matrix from the `parts` parts (1: real, 2: complex) of `length` elements to both parts of the
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

/* The real and imaginary parts of the factors that rotate the results of the first step. */
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

/* The complex products of x, (batch, rows, columns, 2), with the rotation factors. */
static BpGraphValue *turned(const Transform *t, BpGraphValue *x, int64_t rows, int64_t columns) {
  BpGraphValue *cosines = turns(t, rows, columns, 0), *sines = turns(t, rows, columns, 1);
  BpGraphValue *real = bp__op_slice(t->graph, t->node, x, 3, 0, 1);
  BpGraphValue *imaginary = bp__op_slice(t->graph, t->node, x, 3, 1, 2);
  return concat(
      t, binary(t, "Sub", binary(t, "Mul", real, cosines), binary(t, "Mul", imaginary, sines)),
      binary(t, "Add", binary(t, "Mul", real, sines), binary(t, "Mul", imaginary, cosines)), 3);
}

/* The largest factor that a single product can transform, else the least prime factor. */
static int64_t factor_of(int64_t length) {
  for (int64_t factor = DENSE_LENGTH / 2; factor > 1; factor--)
    if (length % factor == 0)
      return factor;
  for (int64_t factor = DENSE_LENGTH / 2; factor * factor <= length; factor++)
    if (length % factor == 0)
      return factor;
  return length;
}

/* Computes the cosines and sines of transform_matrix, (length, bins, 1), for a length that only a
 * run knows. Integer arithmetic subtracts whole quarters of the circle, so that the remaining angle
 * is at most an eighth of the circle, and the numbers are as exact as in a constant matrix. */
static int waves_in(const Transform *t, int64_t length, int64_t bins, BpGraphValue *waves[2]) {
  BpVectorMaker m = {t->graph, t->node};
  int64_t shape[] = {length, bins, 1};
  BpGraphValue *number = v_extents(m, &length, 1), *two = v_number(m, 2), *four = v_number(m, 4);
  BpGraphValue *index = v_binary(m, "Mul", v_column(m, bp__op_counting(t->graph, t->node, length)),
                                 bp__op_counting(t->graph, t->node, bins));
  index = v_binary(m, "Mul", v_binary(m, "Mod", index, number), four);
  BpGraphValue *quarter = v_binary(m, "Add", v_binary(m, "Mul", index, two), number);
  quarter = v_binary(m, "Div", quarter, v_binary(m, "Mul", number, two));
  BpGraphValue *rest = v_binary(m, "Sub", index, v_binary(m, "Mul", quarter, number));
  BpGraphValue *angle = v_binary(m, "Div", bp__op_cast(t->graph, t->node, rest, t->dtype),
                                 bp__op_cast(t->graph, t->node, number, t->dtype));
  int64_t one = 1;
  BpGraphValue *right = bp__graph_constant(t->graph, t->node->name, t->dtype, &one, 1, NULL);
  if (!right)
    return -1;
  bp__value_put_float(right, 0, PI / 2);
  angle = v_binary(m, "Mul", angle, right);
  BpGraphValue *cosine = bp__op_unary(t->graph, t->node, "Cos", angle);
  BpGraphValue *sine = bp__op_unary(t->graph, t->node, "Sin", angle);
  BpGraphValue *is_odd = v_binary(m, "Equal", v_binary(m, "Mod", quarter, two), v_number(m, 1));
  for (int i = 0; i < 2; i++) { /* i is 0 for a cosine, which is negative in quarters 1 and 2 */
    BpGraphValue *place = v_binary(m, "Mod", v_binary(m, "Add", quarter, v_number(m, 1 - i)), four);
    BpGraphValue *is_negative = v_binary(m, "GreaterOrEqual", place, two);
    if (i == 1 && !t->is_inverse)
      is_negative = bp__op_unary(t->graph, t->node, "Not", is_negative);
    BpGraphValue *wave = v_choose(m, is_odd, i == 0 ? sine : cosine, i == 0 ? cosine : sine);
    wave = v_choose(m, is_negative, bp__op_unary(t->graph, t->node, "Neg", wave), wave);
    waves[i] = bp__op_reshape(t->graph, t->node, wave, shape, 3);
  }
  return waves[0] && waves[1] ? 0 : -1;
}

/* A transform as one product, of a length that only a run knows. */
static BpGraphValue *transformed_open(const Transform *t, BpGraphValue *x, int64_t bins) {
  BpExtents *extents = &t->graph->extents;
  int64_t length = x->shape[1], parts = x->shape[2];
  int64_t row[] = {length, 1, bp__extent_multiply(extents, bins, 2)};
  int64_t shape[] = {bp__extent_multiply(extents, length, parts), row[2]};
  int64_t flat[] = {x->shape[0], shape[0]}, last[] = {x->shape[0], bins, 2};
  if (shape[0] == BP_EXTENT_NONE || row[2] == BP_EXTENT_NONE)
    return NULL;
  BpGraphValue *waves[2], *matrix;
  if (waves_in(t, length, bins, waves))
    return NULL;
  matrix = bp__op_reshape(t->graph, t->node, concat(t, waves[0], waves[1], 2), row, 3);
  if (parts == 2) {
    BpGraphValue *negative = bp__op_unary(t->graph, t->node, "Neg", waves[1]);
    BpGraphValue *crossed = concat(t, negative, waves[0], 2);
    matrix = concat(t, matrix, bp__op_reshape(t->graph, t->node, crossed, row, 3), 1);
  }
  matrix = bp__op_reshape(t->graph, t->node, matrix, shape, 2);
  x = binary(t, "MatMul", bp__op_reshape(t->graph, t->node, x, flat, 2), matrix);
  return bp__op_reshape(t->graph, t->node, x, last, 3);
}

/* The first `bins` or more results of a transform along axis 1 of x, (batch, length, parts), by
 * Cooley and Tukey's algorithm: with length = r * m, elements m * a + b give results c + r * d by a
 * transform of length r over a, a rotation, and a transform of length m over b. */
static BpGraphValue *transformed(const Transform *t, BpGraphValue *x, int64_t bins) {
  static const int64_t swap[] = {0, 2, 1, 3};
  if (!x)
    return NULL;
  int64_t batch = x->shape[0], length = x->shape[1], parts = x->shape[2];
  BpExtents *extents = &t->graph->extents; /* the batch may be an open extent */
  if (bp__extent_is_open(length))
    return transformed_open(t, x, bins);
  int64_t r = length <= DENSE_LENGTH ? length : factor_of(length), m = length / r;
  if (r > LONGEST_PRIME) {
    bp__op_error(t->node, "its length has the prime factor %lld, which is above %d", (long long)r,
                 LONGEST_PRIME);
    return NULL;
  }
  int64_t rows[] = {batch, m, r * parts}, both[] = {batch, m, r, 2};
  int64_t inner[] = {bp__extent_multiply(extents, batch, r), m, 2};
  int64_t outer[] = {batch, r, m, 2}, last[] = {batch, bins, 2};
  if (inner[0] == BP_EXTENT_NONE)
    return NULL;
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

/* The first `count` elements along axis 1, padded with zeros. */
static BpGraphValue *resized(const Transform *t, BpGraphValue *x, int64_t count) {
  int64_t pads[6] = {0};
  if (x && x->shape[1] != count &&
      (bp__extent_is_open(x->shape[1]) || bp__extent_is_open(count) || x->shape[1] > count))
    x = bp__op_slice(t->graph, t->node, x, 1, 0, count);
  if (!x || x->shape[1] == count)
    return x;
  int64_t shape[] = {x->shape[0], count, x->shape[2]};
  pads[4] = bp__extent_subtract(&t->graph->extents, count, x->shape[1]);
  if (pads[4] == BP_EXTENT_NONE)
    return NULL;
  x = binary(t, "Pad", x, bp__graph_int_vector(t->graph, pads, 6));
  return bp__op_as_shape(t->graph, t->node, x, shape, "its padded signal has another length");
}

/* All `length` results of a real signal from the first half: the others are the mirrored
 * conjugates. */
static BpGraphValue *mirrored(const Transform *t, BpGraphValue *x, int64_t length) {
  BpExtents *extents = &t->graph->extents;
  int64_t start = bp__extent_divide(extents, bp__extent_add(extents, length, -1), 2);
  int64_t end = 0, axis = 1, step = -1, pair[] = {1, 1, 2};
  if (!x || start == 0)
    return x;
  if (start == BP_EXTENT_NONE)
    return NULL;
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

/* The transform of x, (batch, elements, parts), padded or cut to `length`. */
static BpGraphValue *spectrum(const Transform *t, BpGraphValue *x, int64_t length, int is_half) {
  BpExtents *extents = &t->graph->extents;
  int64_t bins =
      is_half ? bp__extent_add(extents, bp__extent_divide(extents, length, 2), 1) : length;
  if (bins == BP_EXTENT_NONE)
    return NULL;
  if (!t->is_inverse)
    return resized(t, transformed(t, resized(t, x, length), bins), bins);
  x = resized(t, x, bins);
  x = transformed(t, is_half ? mirrored(t, x, length) : x, length);
  if (is_half && x)
    x = bp__op_slice(t->graph, t->node, x, 2, 0, 1);
  BpGraphValue *number = bp__op_extents(t->graph, t->node, &length, 1);
  return binary(t, "Div", x, bp__op_cast(t->graph, t->node, number, t->dtype));
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

/* The extents of the output before its parts; the extent along the axis becomes `length`. */
static BpGraphValue *extents_around(BpVectorMaker m, BpGraphValue *axis, int64_t length) {
  const BpGraphValue *x = m.node->inputs[0];
  int32_t ndim = x->ndim - 1;
  BpGraphValue *all = v_number(m, x->ndim), *zero = v_number(m, 0);
  axis = v_choose(m, v_binary(m, "Less", axis, zero), v_binary(m, "Add", axis, all), axis);
  BpGraphValue *extents = v_choose(m, v_binary(m, "Equal", v_places(m, ndim), axis),
                                   v_extents(m, &length, 1), v_extents(m, x->shape, ndim));
  return bp__op_bind(m.graph, m.node, extents, NULL, "its axis is not an axis of its input");
}

/* Transforms along an axis that only a run knows: the middle one of three fused axes. */
static int transform_around(BpVectorMaker m, BpGraphNode *node, BpGraphValue *axis) {
  BpGraphValue *x = node->inputs[0], *inputs[3] = {NULL, bp__node_input(node, 1), v_number(m, 1)};
  int64_t shape[BP_GRAPH_MAX_NDIM];
  BpGraphValue *around = bp__vector_around(m, axis, x->ndim - 1), *bound;
  if (!around)
    return -1;
  for (int32_t i = 0; i < 3; i++)
    shape[i] = v_extent(around, i);
  int64_t length = shape[1];
  shape[3] = x->shape[x->ndim - 1];
  inputs[0] =
      bp__op_apply(m.graph, "backplane", "ViewIn", node->name,
                   (BpGraphValue *[]){x, bp__graph_int_vector(m.graph, shape, 4)}, 2, NULL, 0);
  BpGraphNode *inner = inputs[0] && inputs[2]
                           ? bp__graph_node(m.graph, node->op, node->name, inputs, 3, 1,
                                            node->attrs, node->num_attrs)
                           : NULL;
  if (!inner)
    return -1;
  inner->version = node->version;
  if (bp__op_append(m.graph, inner))
    return -1;
  const BpGraphValue *out = inner->outputs[0];
  memcpy(shape, x->shape, sizeof(shape));
  if (out->shape[1] != length) {
    if (!(bound = extents_around(m, axis, out->shape[1])))
      return -1;
    for (int32_t i = 0; i < x->ndim - 1; i++)
      shape[i] = v_extent(bound, i);
  }
  shape[x->ndim - 1] = out->shape[3];
  BpGraphValue *parts[] = {inner->outputs[0], bp__graph_int_vector(m.graph, shape, x->ndim)};
  node->outputs[0] = bp__op_apply(m.graph, "backplane", "ViewIn", node->name, parts, 2, NULL, 0);
  return node->outputs[0] ? 0 : -1;
}

/* Makes a number of at least 1 an extent if only a run knows it. */
static int bind_whole(BpVectorMaker m, BpGraphNode *node, int32_t input, const char *complaint) {
  int64_t count;
  if (!bp__vector_is_of_data(node, input))
    return 0;
  BpGraphValue *number = bp__vector_read(m, input, 1, &count);
  if (!number)
    return -1;
  if (count != 1)
    return bp__op_bad(node, "input %d is no scalar", input);
  number = v_choose(m, v_binary(m, "Less", number, v_number(m, 1)), v_number(m, -1), number);
  node->inputs[input] = bp__op_bind(m.graph, node, number, NULL, complaint);
  return node->inputs[input] ? 0 : -1;
}

/* Binds the inputs of DFT that only a run knows: the length becomes an extent, and the axis the
 * middle one of three, followed by the parts. */
int bp__bind_dft(BpVectorMaker m, BpGraphNode *node) {
  BpGraphValue *axis;
  int64_t count;
  if (check_signal(node, 2) || bind_whole(m, node, 1, "its dft_length is below 1"))
    return -1;
  if (!bp__vector_is_of_data(node, 2))
    return 0;
  if (!(axis = bp__vector_read(m, 2, 1, &count)))
    return -1;
  if (count != 1)
    return bp__op_bad(node, "its axis is no scalar");
  return transform_around(m, node, axis) ? -1 : 1;
}

/* The axis of a DFT; version 17 has it as an attribute, 1 by default. */
static int transform_axis(const BpGraphNode *node, int32_t *axis) {
  int64_t given = node->version < 20 ? bp__node_int(node, "axis", 1) : -2;
  int32_t ndim = node->inputs[0]->ndim;
  if ((node->version >= 20 && bp__op_const_extent(node, 2, given, &given)) ||
      bp__op_axis(node, given, ndim, axis))
    return -1;
  return *axis == ndim - 1
             ? bp__op_bad(node, "its axis is the last one, of real and imaginary parts")
             : 0;
}

BP_ROW_EXPAND(dft) {
  BpGraphValue *x = node->inputs[0];
  int is_half = bp__node_int(node, "onesided", 0) != 0;
  Transform t = {graph, node, bp_te_accumulator(x->dtype), bp__node_int(node, "inverse", 0) != 0};
  int64_t perm[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM], length;
  int32_t axis, ndim = x->ndim;
  if (check_signal(node, 2) || transform_axis(node, &axis))
    return -1;
  BpExtents *extents = &graph->extents;
  int64_t usual = is_half && t.is_inverse
                      ? bp__extent_multiply(extents, bp__extent_add(extents, x->shape[axis], -1), 2)
                      : x->shape[axis];
  if (usual == BP_EXTENT_NONE || bp__op_const_extent(node, 1, usual, &length) ||
      bp__op_require(graph, node, bp__extent_add(extents, length, -1), "its length is below 1"))
    return -1;
  if (!bp__extent_is_open(length) && (length < 1 || length > INT32_MAX))
    return bp__op_bad(node, "its length is %lld", (long long)length);
  if (is_half && x->shape[ndim - 1] != (t.is_inverse ? 2 : 1))
    return bp__op_bad(node, "its signal has %lld parts, which does not go with onesided",
                      (long long)x->shape[ndim - 1]);
  for (int32_t i = 0; i < ndim; i++)
    perm[i] = i;
  perm[axis] = ndim - 2; /* exchanges the last axis but one with the axis: its own inverse */
  perm[ndim - 2] = axis;
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = x->shape[perm[i]];
  int64_t flat[] = {bp__extent_product(&graph->extents, shape, ndim - 2), shape[ndim - 2],
                    shape[ndim - 1]};
  if (flat[0] == BP_EXTENT_NONE)
    return -1;
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

/* Frames: cuts a signal, (batch, elements, parts), into frames that begin `step` elements apart:
 * (batch, frames, length, parts). */
BP_ROW_INFER(frames) {
  const BpGraphValue *in = node->inputs[0];
  BpExtents *extents = &graph->extents;
  int64_t step = bp__node_int(node, "step", 1), length = bp__node_int(node, "length", 1);
  int64_t room = bp__extent_subtract(extents, in->shape[1], length);
  if (room == BP_EXTENT_NONE ||
      bp__op_require(graph, node, room, "its signal is shorter than a frame"))
    return -1;
  int64_t frames = bp__extent_add(extents, bp__extent_divide(extents, room, step), 1);
  int64_t shape[] = {in->shape[0], bp__extent_define(extents, frames), length, in->shape[2]};
  if (shape[1] == BP_EXTENT_NONE)
    return -1;
  return bp__node_set_output(graph, node, 0, in->dtype, shape, 4);
}

static const BpIrNode *frames_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *step = bp__op_extent(op, bp__node_int(op->node, "step", 1));
  const BpIrNode *indices[] = {axes[0], x_add(ir, x_mul(ir, axes[1], step), axes[2]), axes[3]};
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(frames) {
  return bp__op_give_body(op, "Frames", frames_body, outputs);
}

/* Reads the distance of frames and their length; the window, or NULL, becomes a window of that
 * length. */
static int read_frames(BpGraph *graph, const BpGraphNode *node, int64_t *step, int64_t *length,
                       BpGraphValue **window) {
  const BpGraphValue *x = node->inputs[0];
  *window = bp__node_input(node, 2);
  if (check_signal(node, 3))
    return -1;
  if (x->ndim != 3 || (*window && (*window)->ndim != 1))
    return bp__op_bad(node, "its signal has %d dimensions, not 3, or its window not 1", x->ndim);
  int64_t usual = *window ? (*window)->shape[0] : x->shape[1];
  if (bp__op_const_extent(node, 1, 1, step) || bp__op_const_extent(node, 3, usual, length))
    return -1;
  bool is_open = bp__extent_is_open(*length), is_signal_open = bp__extent_is_open(x->shape[1]);
  if ((!bp__extent_is_open(*step) && *step < 1) || (!is_open && *length < 1) ||
      (!is_open && !is_signal_open && *length > x->shape[1]))
    return bp__op_bad(node,
                      "its frames of %lld, %lld after each other, do not fit its signal of %lld",
                      (long long)*length, (long long)*step, (long long)x->shape[1]);
  if (bp__op_require(graph, node, bp__extent_add(&graph->extents, *length, -1),
                     "its frames are empty"))
    return -1;
  if (*window)
    *window = bp__op_as_shape(graph, node, *window, length, "its window is not as long as a frame");
  return bp__node_input(node, 2) && !*window ? -1 : 0;
}

/* Makes extents of the inputs of STFT that only a run knows. */
int bp__bind_stft(BpVectorMaker m, BpGraphNode *node) {
  return bind_whole(m, node, 1, "its frame_step is below 1") ||
                 bind_whole(m, node, 3, "its frame_length is below 1")
             ? -1
             : 0;
}

BP_ROW_EXPAND(stft) {
  BpGraphValue *x = node->inputs[0], *window;
  int is_half = bp__node_int(node, "onesided", 1) != 0;
  /* PyTorch exports real signals without the axis of parts. */
  if (x->ndim == 2)
    x = node->inputs[0] =
        bp__op_reshape(graph, node, x, (int64_t[]){x->shape[0], x->shape[1], 1}, 3);
  if (!x)
    return -1;
  Transform t = {graph, node, bp_te_accumulator(x->dtype), 0};
  int64_t step, length;
  if (read_frames(graph, node, &step, &length, &window))
    return -1;
  if (is_half && x->shape[2] == 2)
    return bp__op_bad(node, "its signal is complex, which does not go with onesided");
  BpGraphAttr attrs[] = {bp__attr_int(graph, "step", step), bp__attr_int(graph, "length", length)};
  x = bp__op_cast(graph, node, x, t.dtype);
  x = bp__op_apply(graph, "backplane", "Frames", node->name, &x, 1, attrs, 2);
  if (x && window)
    x = binary(&t, "Mul", x,
               bp__op_reshape(graph, node, bp__op_cast(graph, node, window, t.dtype),
                              (int64_t[]){length, 1}, 2));
  if (!x)
    return -1;
  int64_t frames = x->shape[1];
  int64_t flat[] = {bp__extent_product(&graph->extents, x->shape, 2), length, x->shape[3]};
  if (flat[0] == BP_EXTENT_NONE)
    return -1;
  x = spectrum(&t, bp__op_reshape(graph, node, x, flat, 3), length, is_half);
  if (!x)
    return -1;
  int64_t shape[] = {node->inputs[0]->shape[0], frames, x->shape[1], 2};
  x = bp__op_reshape(graph, node, x, shape, 4);
  node->outputs[0] = bp__op_cast(graph, node, x, node->inputs[0]->dtype);
  return node->outputs[0] ? 0 : -1;
}
