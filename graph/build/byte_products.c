/* SPDX-License-Identifier: Apache-2.0 */
/* Products and convolutions of bytes minus their zero points, which quantised operators are built
 * from in int32 (graph/ops/quantize.c). They become dot products of four bytes where the target has
 * byte_dot. Other products become products of float32, in parts whose sums are exact. */
#include <stdlib.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/build/byte_products.h"
#include "graph/ops/op.h"
#include "graph/ops/rows.h"

/* The magnitude up to which every integer is a float32. */
#define EXACT_FLOAT (INT64_C(1) << 24)
/* The maximum number of parts into which the terms of a product are divided. */
#define MAX_PARTS 8

static int is_byte(BpDataType dtype) {
  return dtype.bits == 8 && (dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT);
}

/* ---- Operands ---------------------------------------------------------------------------- */

/* An operand: bytes minus a zero point, which may be NULL, of int32. */
typedef struct Bytes {
  BpGraphValue *x, *zero;
} Bytes;

/* Whether a value is bytes converted to int32. */
static int is_wide_byte(const BpGraphValue *value) {
  return bp__op_is(value->producer, "Cast") && bp__dtype_equal(value->dtype, BP__INT32) &&
         is_byte(value->producer->inputs[0]->dtype);
}

/* Whether a zero point is of a type of bytes. */
static int is_zero_of(const BpGraphValue *zero, BpDataType dtype) {
  int64_t least = dtype.code == BP_DTYPE_INT ? -128 : 0;
  if (!zero->data)
    return is_wide_byte(zero) && bp__dtype_equal(zero->producer->inputs[0]->dtype, dtype);
  for (int64_t i = 0; i < bp__value_num_elements(zero); i++)
    if (bp__value_get_int(zero, i) < least || bp__value_get_int(zero, i) > least + UINT8_MAX)
      return 0;
  return 1;
}

/* Whether a value of int32 is bytes minus a zero point. */
static int read_bytes(const BpGraphValue *value, Bytes *bytes) {
  bytes->zero = NULL;
  if (bp__op_is(value->producer, "Sub")) {
    const BpGraphNode *sub = value->producer;
    if (!bp__value_same_shape(value, sub->inputs[0]))
      return 0;
    value = sub->inputs[0];
    bytes->zero = sub->inputs[1];
  }
  if (!is_wide_byte(value))
    return 0;
  bytes->x = value->producer->inputs[0];
  return !bytes->zero || is_zero_of(bytes->zero, bytes->x->dtype);
}

/* Whether all bytes of a row have one zero point. */
static int has_rows(const Bytes *bytes) {
  const BpGraphValue *zero = bytes->zero;
  return !zero || zero->ndim == 0 || zero->shape[zero->ndim - 1] == 1;
}

int bp__bytes_are_centred(const BpGraphValue *value) {
  Bytes bytes;
  return read_bytes(value, &bytes) && has_rows(&bytes);
}

/* A constant second operand, as matrices of `terms` rows and `columns` columns. */
typedef struct Weights {
  const BpGraphValue *value;
  int64_t matrices, terms, columns;
} Weights;

static Weights weights_of(const BpGraphValue *b) {
  int64_t terms = b->shape[b->ndim - 2], columns = b->shape[b->ndim - 1];
  int64_t count = bp__value_num_elements(b);
  return (Weights){b, count > 0 ? count / (terms * columns) : 0, terms, columns};
}

static int32_t weight(const Weights *w, int64_t matrix, int64_t term, int64_t column) {
  int64_t index = (matrix * w->terms + term) * w->columns + column;
  int32_t number;
  memcpy(&number, (const char *)w->value->data + index * (int64_t)sizeof(number), sizeof(number));
  return number;
}

/* ---- As float32 -------------------------------------------------------------------------- */

/* The number of columns whose sums are added up together. */
#define COLUMNS_TOGETHER 64

/* The largest sum, over the terms [first, end) and for any column, of the magnitudes of weights. */
static int64_t largest_sum(const Weights *w, int64_t first, int64_t end) {
  int64_t largest = 0;
  for (int64_t m = 0; m < w->matrices; m++)
    for (int64_t begin = 0; begin < w->columns; begin += COLUMNS_TOGETHER) {
      int64_t sums[COLUMNS_TOGETHER] = {0};
      int64_t left = w->columns - begin, count = left < COLUMNS_TOGETHER ? left : COLUMNS_TOGETHER;
      for (int64_t k = first; k < end; k++)
        for (int64_t i = 0; i < count; i++)
          sums[i] += llabs((int64_t)weight(w, m, k, begin + i));
      for (int64_t i = 0; i < count; i++)
        largest = sums[i] > largest ? sums[i] : largest;
    }
  return largest;
}

/* The largest sum of magnitudes of the second operand over the terms [first, end). */
static int64_t bound(const BpGraphValue *b, int64_t first, int64_t end) {
  Weights w;
  if (!b->data)
    return (end - first) * UINT8_MAX;
  w = weights_of(b);
  return largest_sum(&w, first, end);
}

/* The least number of parts of equal size of the terms of a product with bytes, such that all sums
 * of each part are exact in float32; 0 if they are more than MAX_PARTS. */
static int64_t exact_parts(const BpGraphValue *b) {
  int64_t terms = b->shape[b->ndim - 2];
  for (int64_t parts = 1; parts <= MAX_PARTS; parts++) {
    int64_t size = (terms + parts - 1) / parts, first = 0;
    while (first < terms &&
           bound(b, first, first + size < terms ? first + size : terms) <= EXACT_FLOAT / UINT8_MAX)
      first += size;
    if (first >= terms)
      return parts;
  }
  return 0;
}

/* The product computed in float32 in parts of the terms. */
static BpGraphValue *float_product(BpGraph *graph, const BpGraphNode *node, int64_t parts) {
  BpGraphValue *a = bp__op_cast(graph, node, node->inputs[0], BP__FLOAT32);
  BpGraphValue *b = bp__op_cast(graph, node, node->inputs[1], BP__FLOAT32);
  if (parts == 1)
    return bp__op_cast(graph, node, bp__op_binary(graph, node, "MatMul", a, b), BP__INT32);
  int64_t terms = node->inputs[1]->shape[node->inputs[1]->ndim - 2];
  int64_t size = (terms + parts - 1) / parts;
  BpGraphValue *sum = NULL;
  for (int64_t first = 0; a && b && first < terms; first += size) {
    int64_t end = first + size < terms ? first + size : terms;
    BpGraphValue *part =
        bp__op_binary(graph, node, "MatMul", bp__op_slice(graph, node, a, a->ndim - 1, first, end),
                      bp__op_slice(graph, node, b, b->ndim - 2, first, end));
    part = bp__op_cast(graph, node, part, BP__INT32);
    sum = first > 0 ? bp__op_binary(graph, node, "Add", sum, part) : part;
  }
  return sum;
}

/* ---- As dot products --------------------------------------------------------------------- */

/* A dot product multiplies unsigned bytes of the first operand by signed bytes of the second
 * (byte_products.h). */

/* The value to subtract from a column, so that it fits in signed bytes: as small as possible. */
static int32_t shift_of(int32_t least, int32_t most) {
  return most > INT8_MAX ? most - INT8_MAX : least < INT8_MIN ? least - INT8_MIN : 0;
}

/* Finds the sums and shifts of the columns of one matrix; returns 0 if the range of a column is
 * larger than that of bytes. */
static int measure_columns(const Weights *w, int64_t m, int32_t *sums, int32_t *shifts,
                           int *has_shifts) {
  for (int64_t n = 0; n < w->columns; n++) {
    int32_t least = INT32_MAX, most = INT32_MIN;
    uint32_t sum = 0;
    for (int64_t k = 0; k < w->terms; k++) {
      int32_t number = weight(w, m, k, n);
      least = number < least ? number : least;
      most = number > most ? number : most;
      sum += (uint32_t)number;
    }
    if ((int64_t)most - least > UINT8_MAX)
      return 0;
    sums[n] = (int32_t)sum;
    shifts[n] = shift_of(least, most);
    *has_shifts |= shifts[n] != 0;
  }
  return 1;
}

static void pack_matrix(const Weights *w, int64_t m, const int32_t *shifts, int32_t *words) {
  for (int64_t k = 0; k < w->terms; k++)
    for (int64_t n = 0; n < w->columns; n++) {
      uint32_t byte = (uint8_t)(weight(w, m, k, n) - shifts[n]);
      words[k / 4 * w->columns + n] |= (int32_t)(byte << k % 4 * 8);
    }
}

/* Packs the second operand. Returns 1 if its columns have ranges of bytes, 0 if not, -1 with an
 * error. */
static int pack_weights(BpGraph *graph, const BpGraphValue *b, BpByteWeights *dot) {
  if (!b)
    return -1;
  Weights w = weights_of(b);
  int64_t shape[BP_GRAPH_MAX_NDIM], rows = (w.terms + 3) / 4;
  int has_shifts = 0;
  memcpy(shape, b->shape, sizeof(shape));
  shape[b->ndim - 2] = rows;
  dot->words = bp__graph_constant(graph, b->name, BP__INT32, shape, b->ndim, NULL);
  shape[b->ndim - 2] = 1;
  dot->sums = bp__graph_constant(graph, b->name, BP__INT32, shape, b->ndim, NULL);
  dot->shifts = bp__graph_constant(graph, b->name, BP__INT32, shape, b->ndim, NULL);
  if (!dot->words || !dot->sums || !dot->shifts)
    return -1;
  int32_t *words = bp__graph_constant_data(dot->words), *sums = bp__graph_constant_data(dot->sums);
  int32_t *shifts = bp__graph_constant_data(dot->shifts);
  for (int64_t m = 0; m < w.matrices; m++) {
    if (!measure_columns(&w, m, sums + m * w.columns, shifts + m * w.columns, &has_shifts))
      return 0;
    pack_matrix(&w, m, shifts + m * w.columns, words + m * rows * w.columns);
  }
  if (!has_shifts)
    dot->shifts = NULL;
  return 1;
}

static BpGraphValue *int_scalar(BpGraph *graph, int32_t number) {
  BpGraphValue *value = bp__graph_constant(graph, "offset", BP__INT32, NULL, 0, NULL);
  if (value)
    memcpy(bp__graph_constant_data(value), &number, sizeof(number));
  return value;
}

BpGraphValue *bp__bytes_unsigned(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x) {
  if (!x || x->dtype.code == BP_DTYPE_UINT)
    return x;
  x = bp__op_binary(graph, node, "Add", bp__op_cast(graph, node, x, BP__INT32),
                    int_scalar(graph, -INT8_MIN));
  return bp__op_cast(graph, node, x, BP__UINT8);
}

/* x', in rows of a multiple of four bytes: the bytes after the end meet weights of 0. */
static BpGraphValue *unsigned_rows(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x) {
  int64_t pads[2 * BP_GRAPH_MAX_NDIM] = {0}, terms = x->shape[x->ndim - 1];
  x = bp__bytes_unsigned(graph, node, x);
  if (!x || terms % 4 == 0)
    return x;
  pads[2 * x->ndim - 1] = 4 - terms % 4;
  BpGraphValue *inputs[2] = {x, bp__graph_int_vector(graph, pads, 2 * x->ndim)};
  return bp__op_apply(graph, "", "Pad", node->name, inputs, 2, NULL, 0);
}

static BpGraphValue *sum_of_rows(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x) {
  const int64_t last = -1;
  BpGraphValue *inputs[2] = {bp__op_cast(graph, node, x, BP__INT32),
                             bp__graph_int_vector(graph, &last, 1)};
  return bp__op_apply(graph, "", "ReduceSum", node->name, inputs, 2, NULL, 0);
}

BpGraphValue *bp__bytes_product(BpGraph *graph, const BpGraphNode *node, const BpGraphValue *a,
                                const BpByteWeights *weights) {
  Bytes bytes = {NULL, NULL};
  if (!read_bytes(a, &bytes))
    return NULL;
  BpGraphValue *rows = unsigned_rows(graph, node, bytes.x), *zero = bytes.zero, *sum;
  BpGraphAttr is_dot = bp__attr_int(graph, "is_dot", 1);
  BpGraphValue *operands[2] = {
      bp__op_apply(graph, "backplane", "Words", node->name, &rows, 1, NULL, 0), weights->words};
  sum = bp__op_apply(graph, "backplane", "MatMulDot", node->name, operands, 2, &is_dot, 1);
  if (bytes.x->dtype.code == BP_DTYPE_INT) {
    BpGraphValue *offset = int_scalar(graph, -INT8_MIN);
    zero = zero ? bp__op_binary(graph, node, "Add", zero, offset) : offset;
  }
  if (zero)
    sum = bp__op_binary(graph, node, "Sub", sum,
                        bp__op_binary(graph, node, "Mul", zero, weights->sums));
  if (weights->shifts)
    sum = bp__op_binary(
        graph, node, "Add", sum,
        bp__op_binary(graph, node, "Mul", sum_of_rows(graph, node, rows), weights->shifts));
  return sum;
}

/* Whether a product can be a dot product if its weights allow it. */
static int has_dot_rows(const BpTarget *target, const Bytes *a, const BpGraphValue *b) {
  return bp_target_get_int(target, BP_TARGET_BYTE_DOT, 0) && b->data &&
         bp__value_num_elements(b) > 0 && has_rows(a);
}

/* ---- Convolutions ------------------------------------------------------------------------ */

static int are_signed_bytes(const BpGraphValue *weights) {
  for (int64_t i = 0; i < bp__value_num_elements(weights); i++) {
    int64_t number = bp__value_get_int(weights, i);
    if (number < INT8_MIN || number > INT8_MAX)
      return 0;
  }
  return 1;
}

/* Reads the input of a convolution of int32, if that is bytes with one constant zero point, and the
 * weights are constant. */
static int read_conv(const BpGraphNode *node, BpByteConv *conv) {
  const BpGraphValue *weights = node->inputs[1], *bias = bp__node_input(node, 2);
  Bytes bytes;
  if (!bp__dtype_equal(node->outputs[0]->dtype, BP__INT32) || node->inputs[0]->ndim != 4 ||
      bp__value_num_elements(node->outputs[0]) == 0 || !weights->data || (bias && !bias->data) ||
      !read_bytes(node->inputs[0], &bytes) ||
      (bytes.zero && (!bytes.zero->data || bp__value_num_elements(bytes.zero) != 1)))
    return 0;
  *conv = (BpByteConv){bytes.x, bytes.zero ? (int32_t)bp__value_get_int(bytes.zero, 0) : 0};
  return 1;
}

int bp__bytes_read_conv(const BpTarget *target, const BpGraphNode *node, BpByteConv *conv) {
  return bp_target_get_int(target, BP_TARGET_BYTE_DOT, 0) && bp__node_int(node, "group", 1) == 1 &&
         read_conv(node, conv) && are_signed_bytes(node->inputs[1]);
}

int bp__bytes_read_depthwise(const BpGraphNode *node, BpByteConv *conv) {
  const BpGraphValue *weights = node->inputs[1], *bias = bp__node_input(node, 2);
  int64_t channels = weights->shape[0], groups = bp__node_int(node, "group", 1);
  if (groups == 1 || groups != channels || !read_conv(node, conv) || weights->shape[1] != 1)
    return 0;
  int64_t taps = bp__value_num_elements(weights) / channels;
  for (int64_t c = 0; c < channels; c++) {
    int64_t most = bias ? llabs(bp__value_get_int(bias, c)) : 0;
    for (int64_t t = 0; t < taps; t++)
      most += UINT8_MAX * llabs(bp__value_get_int(weights, c * taps + t));
    if (most > EXACT_FLOAT)
      return 0;
  }
  return 1;
}

uint8_t bp__bytes_unsigned_zero(const BpByteConv *conv) {
  return (uint8_t)(conv->zero + (conv->x->dtype.code == BP_DTYPE_INT ? -INT8_MIN : 0));
}

BpGraphValue *bp__bytes_conv_weights(BpGraph *graph, const BpGraphNode *node, int64_t a,
                                     int64_t b) {
  const BpGraphValue *from = node->inputs[1];
  const int64_t *s = from->shape;
  int64_t shape[6] = {bp__build_blocks(s[0], b), bp__build_blocks(s[1], a), s[2], s[3], a / 4, b},
          taps = s[2] * s[3];
  BpGraphValue *to = bp__graph_constant(graph, from->name, BP__INT32, shape, 6, NULL);
  int8_t *bytes = to ? bp__graph_constant_data(to) : NULL;
  for (int64_t o = 0; to && o < s[0]; o++)
    for (int64_t i = 0; i < s[1]; i++)
      for (int64_t t = 0; t < taps; t++) {
        int64_t word = ((o / b * shape[1] + i / a) * taps + t) * (a / 4) + i % a / 4;
        bytes[(word * b + o % b) * 4 + i % 4] =
            (int8_t)bp__value_get_int(from, (o * s[1] + i) * taps + t);
      }
  return to;
}

BpGraphValue *bp__bytes_conv_bias(BpGraph *graph, const BpGraphNode *node, uint8_t zero,
                                  int64_t b) {
  const BpGraphValue *weights = node->inputs[1], *bias = bp__node_input(node, 2);
  int64_t channels = weights->shape[0], shape[2] = {bp__build_blocks(channels, b), b};
  int64_t terms = bp__value_num_elements(weights) / channels;
  BpGraphValue *to = bp__graph_constant(graph, weights->name, BP__INT32, shape, 2, NULL);
  int32_t *sums = to ? bp__graph_constant_data(to) : NULL;
  for (int64_t o = 0; to && o < channels; o++) {
    uint32_t sum = bias ? (uint32_t)bp__value_get_int(bias, o) : 0;
    for (int64_t k = 0; k < terms; k++)
      sum -= (uint32_t)(zero * bp__value_get_int(weights, o * terms + k));
    sums[o] = (int32_t)sum;
  }
  return to;
}

/* ---- The pass ---------------------------------------------------------------------------- */

/* Packs the weights of a quantised state as words (graph/ops/recurrent.h). */
static int state_rule(BpRewrite *rewrite, BpGraphNode *node) {
  enum { SUMS = 7, SHIFTS, NUM_INPUTS, MOST_ATTRS = 16 };
  BpGraph *graph = rewrite->graph;
  BpGraphAttr attrs[MOST_ATTRS];
  BpByteWeights dot;
  if (node->op->compute != bp__compute_lstm_steps || !bp__node_input(node, 6) ||
      bp__node_input(node, SUMS) || !node->inputs[1]->data || node->num_attrs + 2 > MOST_ATTRS ||
      !bp_target_get_int(rewrite->context, BP_TARGET_BYTE_DOT, 0))
    return 0;
  BpGraphValue *inputs[NUM_INPUTS] = {NULL}, *weights = node->inputs[1];
  const int64_t columns = weights->shape[1];
  BpGraphValue *wide = bp__op_cast(graph, node, weights, BP__INT32);
  int fits = !wide ? -1 : wide->data ? pack_weights(graph, wide, &dot) : 0;
  if (fits <= 0)
    return fits;
  memcpy(inputs, node->inputs, (size_t)node->num_inputs * sizeof(*inputs));
  inputs[1] = dot.words;
  inputs[SUMS] = bp__op_reshape(graph, node, dot.sums, &columns, 1);
  inputs[SHIFTS] = dot.shifts ? bp__op_reshape(graph, node, dot.shifts, &columns, 1) : NULL;
  if (!inputs[SUMS] || (dot.shifts && !inputs[SHIFTS]))
    return -1;
  memcpy(attrs, node->attrs, (size_t)node->num_attrs * sizeof(*attrs));
  attrs[node->num_attrs] = bp__attr_int(graph, "hidden", weights->shape[0]);
  attrs[node->num_attrs + 1] = bp__attr_int(graph, "is_dot", 1);
  BpGraphNode *steps = bp__graph_node(graph, node->op, node->name, inputs, NUM_INPUTS,
                                      node->num_outputs, attrs, node->num_attrs + 2);
  if (!steps || bp__op_append(graph, steps))
    return -1;
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (bp__rewrite_replace(rewrite, node->outputs[i], steps->outputs[i]))
      return -1;
  return 1;
}

static int product_rule(BpRewrite *rewrite, BpGraphNode *node) {
  BpGraph *graph = rewrite->graph;
  BpGraphValue *b, *product = NULL;
  Bytes a, unused;
  BpByteWeights dot;
  if (!bp__op_is(node, "MatMul") || !bp__dtype_equal(node->outputs[0]->dtype, BP__INT32) ||
      node->inputs[0]->ndim < 2 || node->inputs[1]->ndim < 2 || !read_bytes(node->inputs[0], &a))
    return 0;
  b = node->inputs[1];
  if (bp__extent_is_open(b->shape[b->ndim - 2]) || (!b->data && !read_bytes(b, &unused)))
    return 0;
  int fits = has_dot_rows(rewrite->context, &a, b) ? pack_weights(graph, b, &dot) : 0;
  if (fits > 0) {
    product = bp__bytes_product(graph, node, node->inputs[0], &dot);
  } else if (fits == 0) {
    int64_t parts = exact_parts(b);
    if (parts == 0)
      return 0;
    product = float_product(graph, node, parts);
  }
  return bp__rewrite_replace(rewrite, node->outputs[0], product) ? -1 : 1;
}

int bp__build_byte_products(const BpBuild *build, BpGraph *graph) {
  void *target = (void *)(uintptr_t)build->target;
  return bp__graph_rewrite(graph, product_rule, target) ||
                 bp__graph_rewrite(graph, state_rule, target)
             ? -1
             : 0;
}
