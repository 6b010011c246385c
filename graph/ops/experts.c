/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts (com.microsoft's MoE and QMoE), built from ONNX's operators. Source:
 * onnxruntime's docs/ContribOperators.md.
 *
 * Every expert is computed for every row, by two products: the first has the inner elements of all
 * experts as columns, the second as rows. Between the products each expert's elements are
 * multiplied by the expert's weight in the row, which is 0 unless the router chose the expert. If
 * there is one row, only its chosen experts are computed. */
#include <string.h>

#include "graph/ops/op.h"
#include "graph/ops/rows.h"

/* The positions of a projection's inputs; -1: the operator has no such input. */
typedef struct Projection {
  int32_t weights, scales, zeros, bias;
} Projection;

static const Projection plain[] = {{2, -1, -1, 3}, {4, -1, -1, 5}};
static const Projection quantized[] = {{2, 3, 11, 4}, {5, 6, 12, 7}};

typedef struct Experts {
  BpGraph *graph;
  BpGraphNode *node;
  bool is_quantized, is_gated;
  int64_t rows;                 /* an extent */
  int64_t count, width, inner;  /* experts; elements of a row; inner elements of an expert */
  int64_t bits, block;          /* of quantised weights; 0: a block is a row of weights */
  const Projection *projection; /* two */
} Experts;

static BpGraphValue *input(const Experts *e, int32_t index) {
  return index < 0 ? NULL : bp__node_input(e->node, index);
}

static BpGraphValue *binary(const Experts *e, const char *op, BpGraphValue *a, BpGraphValue *b) {
  return a && b ? bp__op_binary(e->graph, e->node, op, a, b) : NULL;
}

static BpGraphValue *apply(const Experts *e, const char *op, BpGraphValue *a, BpGraphValue *b,
                           BpGraphAttr attr) {
  BpGraphValue *inputs[] = {a, b};
  return a ? bp__op_apply(e->graph, "", op, e->node->name, inputs, b ? 2 : 1, &attr, 1) : NULL;
}

static BpGraphValue *choose(const Experts *e, BpGraphValue *condition, BpGraphValue *a,
                            BpGraphValue *b) {
  BpGraphValue *inputs[] = {condition, a, b};
  return condition && a && b
             ? bp__op_apply(e->graph, "", "Where", e->node->name, inputs, 3, NULL, 0)
             : NULL;
}

static BpGraphValue *reshaped(const Experts *e, BpGraphValue *value, int64_t a, int64_t b,
                              int64_t c) {
  const int64_t shape[] = {a, b, c};
  return value ? bp__op_reshape(e->graph, e->node, value, shape, c ? 3 : 2) : NULL;
}

static BpGraphValue *turned(const Experts *e, BpGraphValue *value, int64_t a, int64_t b,
                            int64_t c) {
  const int64_t perm[] = {a, b, c};
  return value ? bp__op_transpose(e->graph, e->node, value, perm, 3) : NULL;
}

static BpGraphValue *as_floats(const Experts *e, BpGraphValue *value) {
  return value ? bp__op_cast(e->graph, e->node, value, BP__FLOAT32) : NULL;
}

static BpGraphValue *number(const Experts *e, float value) {
  return bp__graph_float_scalar(e->graph, value);
}

/* ---- Inputs ------------------------------------------------------------------------------ */

static int check_attributes(const Experts *e) {
  static const char *const none[] = {"use_sparse_mixer", "swiglu_limit_after_activation"};
  static const char *const own_bits[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits"};
  for (int32_t i = 0; i < 2; i++)
    if (bp__node_int(e->node, none[i], 0))
      return bp__op_error(e->node, "%s is not supported", none[i]);
  for (int32_t i = 0; i < 2; i++)
    if (bp__node_int(e->node, own_bits[i], e->bits) != e->bits)
      return bp__op_error(e->node, "%s other than expert_weight_bits is not supported",
                          own_bits[i]);
  if (e->is_gated != (bp__node_int(e->node, "swiglu_fusion", 0) == 1))
    return bp__op_error(e->node, "swiglu_fusion of %d is not supported with this activation_type",
                        (int)bp__node_int(e->node, "swiglu_fusion", 0));
  if (e->is_quantized && e->bits != 2 && e->bits != 4 && e->bits != 8)
    return bp__op_error(e->node, "weights of %d bits are not supported; 2, 4 and 8 are",
                        (int)e->bits);
  if (strcmp(bp__node_str(e->node, "quant_type", "int"), "int") != 0 ||
      bp__node_int(e->node, "weights_prepacked", 0) > 0)
    return bp__op_error(e->node, "other quant_types than int, and prepacked weights, are not "
                                 "supported");
  return 0;
}

/* Checks a tensor of all experts: its extents must be numbers, and the given ones. */
static int check_tensor(const Experts *e, int32_t index, int64_t rows, int64_t columns) {
  const BpGraphValue *value = input(e, index);
  const int64_t shape[] = {e->count, rows, columns};
  int32_t ndim = columns ? 3 : 2;
  char text[BP_VALUE_TEXT];
  if (!value)
    return 0;
  if (value->ndim == ndim && !memcmp(value->shape, shape, (size_t)ndim * sizeof(*shape)))
    return 0;
  return bp__op_bad(e->node, "input %d is %s; expected %lldx%lld%s%.0lld", index,
                    bp__value_format(value, text), (long long)e->count, (long long)rows,
                    columns ? "x" : "", (long long)columns);
}

static int64_t num_blocks(const Experts *e, int64_t columns) {
  return e->block ? columns / e->block : 1;
}

static int64_t packed(const Experts *e, int64_t numbers) {
  return (numbers * e->bits + 7) / 8;
}

/* Checks the inputs of a projection from `columns` elements to `rows`. */
static int check_projection(const Experts *e, int32_t index, int64_t rows, int64_t columns) {
  const Projection *p = &e->projection[index];
  const BpGraphValue *weights = input(e, p->weights), *zeros = input(e, p->zeros);
  int64_t blocks = num_blocks(e, columns);
  if (!e->is_quantized && !bp__dtype_is_float(weights->dtype))
    return bp__op_bad(e->node, "its weights are no floats");
  if (!e->is_quantized)
    return check_tensor(e, p->weights, rows, columns) || check_tensor(e, p->bias, rows, 0) ? -1 : 0;
  if (!bp__dtype_equal(weights->dtype, BP__UINT8) ||
      (zeros && !bp__dtype_equal(zeros->dtype, BP__UINT8)))
    return bp__op_bad(e->node, "its weights or zero points are not of bytes");
  if (!input(e, p->scales) || columns % 8 || (e->block && columns % e->block))
    return bp__op_bad(e->node, "rows of %lld weights have no scales, or no whole blocks of %lld",
                      (long long)columns, (long long)e->block);
  return check_tensor(e, p->weights, rows, packed(e, columns)) ||
                 check_tensor(e, p->scales, rows, e->block ? blocks : 0) ||
                 (e->block ? check_tensor(e, p->zeros, rows, packed(e, blocks))
                           : check_tensor(e, p->zeros, packed(e, rows), 0)) ||
                 check_tensor(e, p->bias, rows, 0)
             ? -1
             : 0;
}

static int read_experts(Experts *e) {
  static const int32_t third[2][4] = {{6, 7}, {8, 9, 10, 13}};
  const BpGraphValue *x = e->node->inputs[0], *first = input(e, 2), *second;
  e->projection = e->is_quantized ? quantized : plain;
  e->is_gated = !strcmp(bp__node_str(e->node, "activation_type", "relu"), "swiglu");
  e->bits = bp__node_int(e->node, "expert_weight_bits", 4);
  e->block = e->is_quantized ? bp__node_int(e->node, "block_size", 0) : 0;
  second = input(e, e->projection[1].weights);
  if (check_attributes(e))
    return -1;
  for (int32_t i = 0; i < (e->is_quantized ? 4 : 2); i++)
    if (input(e, third[e->is_quantized][i]))
      return bp__op_error(e->node, "input %d is not supported", third[e->is_quantized][i]);
  if (x->ndim < 2 || x->ndim > 3 || !bp__dtype_is_float(x->dtype) ||
      bp__extent_is_open(x->shape[x->ndim - 1]) || !first || first->ndim != 3 || !second ||
      e->block < 0 || bp__extents_any_open(first->shape, 3))
    return bp__op_bad(e->node, "its input is no matrix of floats, or it lacks weights");
  e->count = first->shape[0];
  e->width = x->shape[x->ndim - 1];
  e->inner = first->shape[1] / (e->is_gated ? 2 : 1);
  e->rows = bp__extent_product(&e->graph->extents, x->shape, x->ndim - 1);
  if (e->rows == BP_EXTENT_NONE)
    return -1;
  return check_projection(e, 0, (e->is_gated ? 2 : 1) * e->inner, e->width) ||
                 check_projection(e, 1, e->width, e->inner)
             ? -1
             : 0;
}

/* ---- The router -------------------------------------------------------------------------- */

/* The scores or weights of each expert in each row, an input. */
static BpGraphValue *of_router(const Experts *e, int32_t index) {
  const int64_t shape[] = {e->rows, e->count};
  static const char complaint[] = "its router does not give a number for each row and expert";
  BpGraphValue *value = input(e, index);
  if (value && value->ndim != 2) {
    bp__op_bad(e->node, "%s", complaint);
    return NULL;
  }
  return as_floats(e, bp__op_as_shape(e->graph, e->node, value, shape, complaint));
}

/* The `k` highest scores of each row and, in *experts, their experts. */
static BpGraphValue *highest(const Experts *e, BpGraphValue *scores, int64_t k,
                             BpGraphValue **experts) {
  BpGraphValue *inputs[] = {scores, bp__graph_int_vector(e->graph, &k, 1)};
  BpGraphNode *best = scores && inputs[1] ? bp__graph_node(e->graph, bp__op_find("", "TopK"),
                                                           e->node->name, inputs, 2, 2, NULL, 0)
                                          : NULL;
  if (!best)
    return NULL;
  best->version = BP_OP_NEWEST_VERSION;
  if (bp__op_append(e->graph, best))
    return NULL;
  *experts = best->outputs[1];
  return best->outputs[0];
}

/* The weights of the chosen experts, by the given scores of all and the highest scores. */
static BpGraphValue *weights_of_chosen(const Experts *e, BpGraphValue *scores, BpGraphValue *best,
                                       BpGraphValue *experts) {
  const BpGraphAttr axis = bp__attr_int(e->graph, "axis", 1);
  bool is_normal = bp__node_int(e->node, "normalize_routing_weights", 0) != 0;
  if (e->is_quantized && input(e, 14)) {
    BpGraphValue *given = apply(e, "GatherElements", of_router(e, 14), experts, axis);
    return is_normal ? binary(e, "Div", given,
                              binary(e, "ReduceSum", given,
                                     bp__graph_int_vector(e->graph, (int64_t[]){1}, 1)))
                     : given;
  }
  return e->is_quantized || is_normal
             ? apply(e, "Softmax", best, NULL, axis)
             : apply(e, "GatherElements", apply(e, "Softmax", scores, NULL, axis), experts, axis);
}

/* The number of experts for each chosen one from which the chosen ones are gathered. */
#define EXPERTS_WORTH_GATHERING 4

/* Leaves the experts of the only row, (1, k), as all experts. */
static int keep_chosen(Experts *e, BpGraphValue *experts, int64_t k) {
  BpGraphValue **inputs = e->node->inputs;
  experts = experts ? bp__op_reshape(e->graph, e->node, experts, &k, 1) : NULL;
  for (int32_t i = 0; i < 2; i++) {
    const Projection *p = &e->projection[i];
    const int32_t places[] = {p->weights, p->scales, p->zeros, p->bias};
    for (int32_t j = 0; j < 4; j++) {
      if (!input(e, places[j]))
        continue;
      inputs[places[j]] = binary(e, "Gather", inputs[places[j]], experts);
      if (!inputs[places[j]])
        return -1;
    }
  }
  e->count = k;
  return 0;
}

/* The weight of each expert in each row, (rows, count); 0 if the expert is not chosen. */
static BpGraphValue *weights_of_all(Experts *e) {
  int64_t k = bp__node_int(e->node, "k", 1);
  BpGraphAttr keepdims = bp__attr_int(e->graph, "keepdims", 0);
  BpGraphValue *scores = of_router(e, 1), *experts = NULL;
  if (scores && (k < 1 || k > e->count)) {
    bp__op_bad(e->node, "k is %lld, for %lld experts", (long long)k, (long long)e->count);
    return NULL;
  }
  BpGraphValue *best = highest(e, scores, k, &experts);
  BpGraphValue *weights = best ? weights_of_chosen(e, scores, best, experts) : NULL;
  if (e->rows == 1 && k * EXPERTS_WORTH_GATHERING <= e->count)
    return keep_chosen(e, experts, k) ? NULL : weights;
  BpGraphValue *is_chosen = binary(e, "Equal", reshaped(e, experts, e->rows, k, 1),
                                   bp__op_counting(e->graph, e->node, e->count));
  weights = choose(e, is_chosen, reshaped(e, weights, e->rows, k, 1), number(e, 0));
  return apply(e, "ReduceSum", weights, bp__graph_int_vector(e->graph, (int64_t[]){1}, 1),
               keepdims);
}

/* ---- Products ---------------------------------------------------------------------------- */

/* A tensor (count, rows, columns) of the weights of a projection, or of their bytes, scales or zero
 * points, as the transposed operand of the product: (count * rows, columns) for the first
 * projection, (rows, count * columns) for the second. */
static BpGraphValue *joined(const Experts *e, int32_t index, BpGraphValue *value) {
  if (!value)
    return NULL;
  const int64_t *shape = value->shape, columns = shape[2];
  return index == 0 ? reshaped(e, value, e->count * shape[1], columns, 0)
                    : reshaped(e, turned(e, value, 1, 0, 2), shape[1], e->count * columns, 0);
}

/* The zero points of a projection as floats, (count, rows, blocks). */
static BpGraphValue *zeros_of(const Experts *e, int32_t index, int64_t rows, int64_t blocks) {
  BpGraphValue *value = input(e, e->projection[index].zeros);
  int64_t used = e->block ? blocks : rows, each = 8 / e->bits;
  int64_t all = bp__value_num_elements(value), lines = e->block ? e->count * rows : e->count;
  const BpGraphAttr attrs[] = {bp__attr_int(e->graph, "bits", e->bits),
                               bp__attr_int(e->graph, "is_signed", 0),
                               bp__attr_int(e->graph, "count", all * each)};
  value = bp__op_reshape(e->graph, e->node, value, &all, 1);
  if (value && each > 1)
    value = bp__op_apply(e->graph, "backplane", "Unpack", e->node->name, &value, 1, attrs, 3);
  value = reshaped(e, value, lines, all / lines * each, 0);
  value = value ? bp__op_slice(e->graph, e->node, value, 1, 0, used) : NULL;
  return as_floats(e, reshaped(e, value, e->count, rows, blocks));
}

/* Multiplies x (e->rows, columns of all experts) by the quantised weights of a projection. */
static BpGraphValue *packed_product(const Experts *e, int32_t index, BpGraphValue *x) {
  const Projection *p = &e->projection[index];
  int64_t rows = index ? e->width : (e->is_gated ? 2 : 1) * e->inner;
  int64_t columns = index ? e->inner : e->width, blocks = num_blocks(e, columns);
  const BpGraphAttr attrs[] = {bp__attr_int(e->graph, "K", index ? e->count * columns : columns),
                               bp__attr_int(e->graph, "N", index ? rows : e->count * rows),
                               bp__attr_int(e->graph, "bits", e->bits),
                               bp__attr_int(e->graph, "block_size", e->block ? e->block : columns)};
  BpGraphValue *scales = reshaped(e, as_floats(e, input(e, p->scales)), e->count, rows, blocks);
  BpGraphValue *inputs[] = {x, joined(e, index, input(e, p->weights)), joined(e, index, scales),
                            NULL};
  bool has_zeros = input(e, p->zeros) != NULL;
  if (has_zeros)
    inputs[3] = joined(e, index, zeros_of(e, index, rows, blocks));
  if (!x || !inputs[1] || !inputs[2] || (has_zeros && !inputs[3]))
    return NULL;
  return bp__op_apply(e->graph, "com.microsoft", "MatMulNBits", e->node->name, inputs,
                      has_zeros ? 4 : 3, attrs, 4);
}

static BpGraphValue *product(const Experts *e, int32_t index, BpGraphValue *x) {
  static const int64_t turn[] = {1, 0};
  if (e->is_quantized)
    return packed_product(e, index, x);
  BpGraphValue *weights = joined(e, index, as_floats(e, input(e, e->projection[index].weights)));
  return weights ? binary(e, "MatMul", x, bp__op_transpose(e->graph, e->node, weights, turn, 2))
                 : NULL;
}

/* ---- The activation ---------------------------------------------------------------------- */

/* The gated activation of pairs (rows, all inner elements, 2). */
static BpGraphValue *gated(const Experts *e, BpGraphValue *x, int64_t all) {
  BpGraphAttr alpha = {.name = "alpha", .type = BP_GRAPH_ATTR_FLOAT, .count = 1};
  float *value = bp__arena_alloc(&e->graph->arena, sizeof(*value));
  BpGraphValue *pairs = reshaped(e, x, e->rows, all, 2), *halves[2];
  if (!value || !pairs)
    return NULL;
  *value = bp__node_float(e->node, "activation_alpha", 1);
  alpha.floats = value;
  for (int32_t i = 0; i < 2; i++)
    halves[i] = reshaped(e, bp__op_slice(e->graph, e->node, pairs, 2, i, i + 1), e->rows, all, 0);
  if (bp__node_attr(e->node, "swiglu_limit")) {
    float limit = bp__node_float(e->node, "swiglu_limit", 0);
    for (int32_t i = 0; i < 2; i++)
      halves[i] = binary(e, "Min", halves[i], number(e, limit));
    halves[1] = binary(e, "Max", halves[1], number(e, -limit));
  }
  return binary(
      e, "Mul", apply(e, "Swish", halves[0], NULL, alpha),
      binary(e, "Add", halves[1], number(e, bp__node_float(e->node, "activation_beta", 0))));
}

static BpGraphValue *activated(const Experts *e, BpGraphValue *x, int64_t all) {
  const char *kind = bp__node_str(e->node, "activation_type", "relu");
  if (e->is_gated)
    return gated(e, x, all);
  if (!strcmp(kind, "identity") || !x)
    return x;
  if (!strcmp(kind, "relu"))
    return bp__op_unary(e->graph, e->node, "Relu", x);
  if (!strcmp(kind, "silu"))
    return bp__op_apply(e->graph, "", "Swish", e->node->name, &x, 1, NULL, 0);
  if (!strcmp(kind, "gelu")) /* onnxruntime computes the approximation */
    return apply(e, "Gelu", x, NULL,
                 (BpGraphAttr){.name = "approximate", .type = BP_GRAPH_ATTR_STRING, .str = "tanh"});
  bp__op_error(e->node, "activation_type '%s' is not supported", kind);
  return NULL;
}

/* ---- The operators ----------------------------------------------------------------------- */

static int expand(BpGraph *graph, BpGraphNode *node, bool is_quantized) {
  Experts e = {.graph = graph, .node = node, .is_quantized = is_quantized};
  const BpGraphValue *in = node->inputs[0];
  if (read_experts(&e))
    return -1;
  BpGraphValue *weights = weights_of_all(&e);
  const int64_t all = e.count * e.inner, columns[] = {(e.is_gated ? 2 : 1) * all};
  BpGraphValue *first = as_floats(&e, input(&e, e.projection[0].bias));
  BpGraphValue *second = as_floats(&e, input(&e, e.projection[1].bias));
  BpGraphValue *x = as_floats(&e, reshaped(&e, node->inputs[0], e.rows, e.width, 0));
  x = weights ? product(&e, 0, x) : NULL;
  if (first)
    x = binary(&e, "Add", x, bp__op_reshape(graph, node, first, columns, 1));
  x = reshaped(&e, activated(&e, x, all), e.rows, e.count, e.inner);
  BpGraphValue *each = reshaped(&e, weights, e.rows, e.count, 1);
  /* A choice, because 0 times infinity is NaN. */
  x = choose(&e, binary(&e, "Equal", each, number(&e, 0)), number(&e, 0),
             binary(&e, "Mul", x, each));
  x = product(&e, 1, reshaped(&e, x, e.rows, all, 0));
  if (second)
    x = binary(&e, "Add", x, binary(&e, "MatMul", weights, second));
  x = x ? bp__op_reshape(graph, node, x, in->shape, in->ndim) : NULL;
  node->outputs[0] = bp__op_cast(graph, node, x, in->dtype);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(moe) {
  return expand(graph, node, false);
}

BP_ROW_EXPAND(qmoe) {
  return expand(graph, node, true);
}
