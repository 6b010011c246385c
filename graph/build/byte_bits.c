/* SPDX-License-Identifier: Apache-2.0 */
/* Products with weights of few bits (graph/ops/few_bits.c) whose accuracy_level permits operands of
 * int8, as dot products of four bytes where they are faster. Each block of a row of the first
 * operand gets a scale, the largest magnitude divided by 127, and becomes bytes.
 *
 * Weights of 4 bits, for example, are stored as two in a byte, the first in the low bits. Four
 * bytes are a word, and its numbers at one place of each byte are operands of one dot product:
 *
 *     bits   31..28 27..24 23..20 19..16 15..12 11..8  7..4   3..0
 *     number      7      6      5      4      3     2     1      0
 *     place       1      0      1      0      1     0     1      0
 *
 * So a row of the first operand has, for each word, a word of its numbers 0, 2, 4 and 6, and one of
 * its numbers 1, 3, 5 and 7. */
#include "graph/build/build.h"
#include "graph/ops/op.h"

/* The accuracy_level that permits int8. */
#define ACCURACY_INT8 4
/* The least byte_dot: with fewer, a product of many rows takes longer than in float32. */
#define LEAST_BYTE_DOT 2
/* The most dot products of a term. */
#define MOST_DOTS 8

typedef struct Product {
  BpGraph *graph;
  const BpGraphNode *node;
  int64_t each;       /* numbers of a byte */
  int64_t rows;       /* of the first operand, an extent */
  int64_t num_blocks; /* of a row */
  int64_t block;      /* numbers of a block */
  int64_t words;      /* words of a block of weights */
  int64_t step;       /* words of a term */
} Product;

/* Reads a product; returns whether it can be computed with dot products. */
static int read_product(const BpTarget *target, BpGraph *graph, const BpGraphNode *node,
                        Product *product) {
  if (node->op != bp__op_find("backplane", "MatMulBits") || node->num_inputs != 4)
    return 0; /* without offsets the weights are codes of a table */
  const BpGraphValue *a = node->inputs[0], *weights = node->inputs[1];
  if (bp_target_get_int(target, BP_TARGET_BYTE_DOT, 0) < LEAST_BYTE_DOT ||
      bp__node_int(node, "accuracy_level", 0) != ACCURACY_INT8 || !weights->data)
    return 0;
  int64_t each = 8 / bp__node_int(node, "bits", 4), num_blocks = node->inputs[2]->shape[1];
  int64_t bytes = weights->shape[1] / num_blocks, most = MOST_DOTS / each, step = most;
  while (bytes / 4 % step)
    step--;
  *product = (Product){graph, node, each, 1, num_blocks, bytes * each, bytes / 4, step};
  for (int32_t i = 0; i < a->ndim - 1 && product->rows != BP_EXTENT_NONE; i++)
    product->rows = bp__extent_multiply(&graph->extents, product->rows, a->shape[i]);
  return bytes % 4 == 0 && product->rows != BP_EXTENT_NONE;
}

static BpGraphValue *binary(const Product *p, const char *op, BpGraphValue *a, BpGraphValue *b) {
  return bp__op_binary(p->graph, p->node, op, a, b);
}

/* The reduction along the last axis, which stays. */
static BpGraphValue *along_last(const Product *p, const char *op, BpGraphValue *x) {
  static const int64_t last = -1;
  return binary(p, op, x, bp__graph_int_vector(p->graph, &last, 1));
}

static BpGraphValue *words_of(const Product *p, BpGraphValue *bytes) {
  return bp__op_apply(p->graph, "backplane", "Words", p->node->name, &bytes, 1, NULL, 0);
}

/* The scale of each block, (rows, blocks, 1). */
static BpGraphValue *scales_of(const Product *p, BpGraphValue *blocks) {
  BpGraphValue *most = along_last(p, "ReduceMax", bp__op_unary(p->graph, p->node, "Abs", blocks));
  return binary(p, "Div", most, bp__graph_float_scalar(p->graph, INT8_MAX));
}

/* The blocks as bytes. Blocks of zeros have the scale 0. */
static BpGraphValue *quantised(const Product *p, BpGraphValue *blocks, BpGraphValue *scales) {
  BpGraphValue *zero = bp__graph_float_scalar(p->graph, 0), *whole;
  BpGraphValue *inputs[] = {binary(p, "Equal", scales, zero), bp__graph_float_scalar(p->graph, 1),
                            scales};
  scales =
      inputs[0] ? bp__op_apply(p->graph, "", "Where", p->node->name, inputs, 3, NULL, 0) : NULL;
  whole = bp__op_unary(p->graph, p->node, "Round", binary(p, "Div", blocks, scales));
  return bp__op_cast(p->graph, p->node, whole, BP__INT8);
}

/* The sums of the bytes of each term, times the scale: (rows, terms). */
static BpGraphValue *sums_of(const Product *p, BpGraphValue *bytes, BpGraphValue *scales) {
  int64_t terms = p->words / p->step, split[] = {p->rows, p->num_blocks, terms, p->block / terms};
  const int64_t by_block[] = {p->rows, p->num_blocks, terms};
  const int64_t flat[] = {p->rows, p->num_blocks * terms};
  BpGraphValue *sums = bp__op_reshape(p->graph, p->node, bytes, split, 4);
  sums = along_last(p, "ReduceSum", bp__op_cast(p->graph, p->node, sums, BP__INT32));
  sums = bp__op_cast(p->graph, p->node, sums, BP__FLOAT32);
  sums = binary(p, "Mul", bp__op_reshape(p->graph, p->node, sums, by_block, 3), scales);
  return bp__op_reshape(p->graph, p->node, sums, flat, 2);
}

/* The words of the first operand, (rows, words, places of a byte). */
static BpGraphValue *words_of_rows(const Product *p, BpGraphValue *bytes) {
  static const int64_t perm[] = {0, 1, 3, 2};
  int64_t words = p->num_blocks * p->words;
  const int64_t split[] = {p->rows, words, 4, p->each}, whole[] = {p->rows, words, p->each};
  bytes = bp__op_reshape(p->graph, p->node, bytes, split, 4);
  bytes = bytes ? words_of(p, bp__op_transpose(p->graph, p->node, bytes, perm, 4)) : NULL;
  return bp__op_reshape(p->graph, p->node, bytes, whole, 3);
}

/* The words of the weights, (panels, words, columns of a panel). */
static BpGraphValue *words_of_weights(const Product *p) {
  static const int64_t perm[] = {0, 1, 3, 2};
  BpGraphValue *weights = p->node->inputs[1];
  const int64_t panels = weights->shape[0], columns = weights->shape[2];
  const int64_t split[] = {panels, p->num_blocks * p->words, 4, columns};
  const int64_t whole[] = {panels, split[1], columns};
  weights = bp__op_reshape(p->graph, p->node, weights, split, 4);
  weights = weights ? words_of(p, bp__op_transpose(p->graph, p->node, weights, perm, 4)) : NULL;
  return bp__op_reshape(p->graph, p->node, weights, whole, 3);
}

static BpGraphValue *dot_product(const Product *p) {
  const BpGraphNode *node = p->node;
  const int64_t split[] = {p->rows, p->num_blocks, p->block}, flat[] = {p->rows, p->num_blocks};
  const BpGraphAttr attrs[] = {bp__attr_int(p->graph, "bits", 8 / p->each),
                               bp__attr_int(p->graph, "step", p->step)};
  BpGraphValue *blocks = bp__op_reshape(p->graph, node, node->inputs[0], split, 3);
  BpGraphValue *scales = blocks ? scales_of(p, blocks) : NULL;
  BpGraphValue *bytes = scales ? quantised(p, blocks, scales) : NULL;
  BpGraphValue *inputs[] = {bytes ? words_of_rows(p, bytes) : NULL,
                            bp__op_reshape(p->graph, node, scales, flat, 2),
                            bytes ? sums_of(p, bytes, scales) : NULL,
                            words_of_weights(p),
                            node->inputs[2],
                            node->inputs[3]};
  for (int i = 0; i < 4; i++)
    if (!inputs[i])
      return NULL;
  BpGraphValue *product =
      bp__op_apply(p->graph, "backplane", "MatMulBitsDot", node->name, inputs, 6, attrs, 2);
  return bp__op_reshape(p->graph, node, product, node->outputs[0]->shape, node->outputs[0]->ndim);
}

static int bits_rule(BpRewrite *rewrite, BpGraphNode *node) {
  Product product;
  if (!read_product(rewrite->context, rewrite->graph, node, &product))
    return 0;
  return bp__rewrite_replace(rewrite, node->outputs[0], dot_product(&product)) ? -1 : 1;
}

int bp__build_byte_bits(const BpBuild *build, BpGraph *graph) {
  return bp__graph_rewrite(graph, bits_rule, (void *)(uintptr_t)build->target);
}
