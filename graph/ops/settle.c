/* SPDX-License-Identifier: Apache-2.0 */
/* Extents as values: Shape of a tensor with open extents, and the values that models compute from
 * it to reshape other tensors. When the model is compiled, each element of a value of extents is
 * known as an expression. If a node needs the value as data, the run computes it. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

#define MAX_ELEMENTS 64

/* ---- As data ----------------------------------------------------------------------------- */

int bp__op_give_extents(BpGraph *graph, BpGraphNode *node, const int64_t *elements) {
  BpGraphValue *out = node->outputs[0];
  int64_t count = bp__value_num_elements(out);
  for (int64_t i = 0; i < count; i++)
    if (elements[i] == BP_EXTENT_NONE)
      return -1;
  if (!bp__extents_any_open(elements, (int32_t)count)) {
    out->data = elements;
    return 0;
  }
  BpGraphNode *maker =
      bp__graph_node(graph, bp__op_find("backplane", "Extents"), node->name, NULL, 0, 1, NULL, 0);
  if (!maker || bp__node_set_output(graph, maker, 0, BP__INT64, out->shape, out->ndim))
    return -1;
  maker->outputs[0]->extents = elements;
  node->outputs[0] = maker->outputs[0];
  return bp__list_push(&graph->nodes, maker);
}

BpGraphValue *bp__op_extents(BpGraph *graph, const BpGraphNode *node, const int64_t *extents,
                             int64_t count) {
  BpGraphNode vector = {.name = node->name};
  BpGraphValue *output = bp__graph_value(graph, node->name, BP__INT64, &count, 1);
  int64_t *elements = bp__arena_alloc_array(&graph->arena, (size_t)count + 1, sizeof(*elements));
  if (!output || !elements)
    return NULL;
  memcpy(elements, extents, (size_t)count * sizeof(*elements));
  vector.outputs = &output;
  return bp__op_give_extents(graph, &vector, elements) ? NULL : output;
}

BP_ROW_INFER(extents) {
  (void)graph;
  return bp__op_bad(node, "passes make this operator, and models do not have it");
}

/* The element at a position from `first` up to `end`, by selects that are not nested deeply. */
static const BpIrNode *extent_at(const BpOpCompute *op, const BpIrNode *place, int64_t first,
                                 int64_t end) {
  BpIrModule *ir = bp_te_ir(op->te);
  if (end - first == 1)
    return bp__op_extent(op, op->node->outputs[0]->extents[first]);
  int64_t middle = first + (end - first) / 2;
  return bp_ir_select(ir, x_lt(ir, place, x_index(ir, middle)), extent_at(op, place, first, middle),
                      extent_at(op, place, middle, end));
}

static const BpIrNode *extents_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *out = op->node->outputs[0];
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *place = x_index(ir, 0);
  int64_t count = bp__value_num_elements(out);
  for (int32_t d = 0; d < out->ndim; d++)
    place = x_add(ir, x_mul(ir, place, x_index(ir, out->shape[d])), axes[d]);
  return count > 0 ? extent_at(op, place, 0, count) : x_index(ir, 0);
}

BP_ROW_COMPUTE(extents) {
  return bp__op_give_body(op, "extents", extents_body, outputs);
}

/* ---- As expressions ---------------------------------------------------------------------- */

/* Element i of an input that is broadcast to `count` elements. */
static int64_t element_of(const BpGraphValue *value, int64_t i) {
  int64_t at = bp__value_num_elements(value) == 1 ? 0 : i;
  return value->extents ? value->extents[at] : bp__value_get_int(value, at);
}

/* Whether a constant contains integers that stand for open extents. */
static bool has_least_integers(const BpGraphValue *value) {
  if (!value->data || !bp__dtype_equal(value->dtype, BP__INT64))
    return false;
  for (int64_t i = 0; i < bp__value_num_elements(value); i++)
    if (bp__extent_is_open(bp__value_get_int(value, i)))
      return true;
  return false;
}

/* Whether the elements of an input are known, and at the same positions as those of the output. */
static bool is_known(const BpGraphValue *value, const BpGraphValue *out) {
  if (!value || (!value->extents && !value->data) || has_least_integers(value))
    return false;
  int64_t own = bp__value_num_elements(value);
  return own == 1 || (own == bp__value_num_elements(out) && value->ndim == out->ndim);
}

static bool are_known(const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (!is_known(node->inputs[i], node->outputs[0]) ||
        !bp__dtype_equal(node->inputs[i]->dtype, BP__INT64))
      return false;
  return true;
}

/* The quotient of two extents. ONNX rounds to zero, which is the floor if no operand is negative.
 * Returns BP_EXTENT_NONE without an error if the quotient is unknown. */
static int64_t quotient(BpExtents *extents, int64_t a, int64_t b) {
  bool rounds_down = bp__extent_at_least(extents, a, 0) && bp__extent_at_least(extents, b, 1);
  return rounds_down ? bp__extent_divide(extents, a, b) : BP_EXTENT_NONE;
}

static const struct {
  const char *op;
  int64_t (*compute)(BpExtents *extents, int64_t a, int64_t b);
} arithmetic[] = {
    {"Add", bp__extent_add}, {"Sub", bp__extent_subtract}, {"Mul", bp__extent_multiply},
    {"Div", quotient},       {"Min", bp__extent_min},      {"Max", bp__extent_max},
};

static int64_t *new_elements(BpGraph *graph, const BpGraphNode *node) {
  return bp__arena_alloc_array(&graph->arena, (size_t)bp__value_num_elements(node->outputs[0]) + 1,
                               sizeof(int64_t));
}

/* Settles sums, differences, products, quotients and the like of elements. */
static int settle_arithmetic(BpGraph *graph, BpGraphNode *node) {
  int64_t count = bp__value_num_elements(node->outputs[0]);
  for (size_t k = 0; k < sizeof(arithmetic) / sizeof(arithmetic[0]); k++) {
    if (strcmp(arithmetic[k].op, node->op->name) || node->num_inputs != 2 || !are_known(node))
      continue;
    int64_t *elements = new_elements(graph, node);
    if (!elements)
      return -1;
    for (int64_t i = 0; i < count; i++) {
      elements[i] = arithmetic[k].compute(&graph->extents, element_of(node->inputs[0], i),
                                          element_of(node->inputs[1], i));
      if (elements[i] == BP_EXTENT_NONE)
        return arithmetic[k].compute == quotient ? 1 : -1;
    }
    return bp__op_give_extents(graph, node, elements);
  }
  return 1;
}

/* Settles comparisons that can be decided: exporters test whether an extent is -1. */
static int settle_equal(BpGraph *graph, BpGraphNode *node) {
  int64_t count = bp__value_num_elements(node->outputs[0]);
  if (strcmp(node->op->name, "Equal") || !are_known(node))
    return 1;
  uint8_t *answers = bp__arena_alloc(&graph->arena, (size_t)count + 1);
  for (int64_t i = 0; i < count && answers; i++) {
    int64_t a = element_of(node->inputs[0], i), b = element_of(node->inputs[1], i);
    answers[i] = a == b;
    if (a != b && !bp__extent_differs(&graph->extents, a, b))
      return 1;
  }
  node->outputs[0]->data = answers;
  return answers ? 0 : -1;
}

/* Settles a choice by a constant; inputs that are not chosen may be unknown. */
static int settle_where(BpGraph *graph, BpGraphNode *node) {
  const BpGraphValue *out = node->outputs[0];
  int64_t count = bp__value_num_elements(out);
  if (strcmp(node->op->name, "Where") || !node->inputs[0]->data ||
      !is_known(node->inputs[0], out) || !bp__dtype_equal(out->dtype, BP__INT64))
    return 1;
  int64_t *elements = new_elements(graph, node);
  for (int64_t i = 0; i < count && elements; i++) {
    const BpGraphValue *chosen = node->inputs[element_of(node->inputs[0], i) ? 1 : 2];
    if (!is_known(chosen, out))
      return 1;
    elements[i] = element_of(chosen, i);
  }
  return elements ? bp__op_give_extents(graph, node, elements) : -1;
}

/* Whether a row only moves elements of its inputs to its output, whatever their values: elements of
 * the first input, or of all inputs of a variadic operator. */
static bool is_moving(const BpGraphNode *node) {
  bool is_any = !strcmp(node->op->name, "Cast") || !strcmp(node->op->name, "Concat");
  if (!is_any && node->op->fusion != BP_FUSE_INJECTIVE && node->op->fusion != BP_FUSE_VIEW)
    return false;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpGraphValue *value = node->inputs[i];
    if (value && (value->extents ? i > 0 && node->op->max_inputs >= 0 : !value->data))
      return false;
    if (bp__op_argument(node, i) && has_least_integers(value))
      return false;
  }
  return bp__dtype_equal(node->outputs[0]->dtype, BP__INT64) && node->num_outputs == 1;
}

/* Folds the node as if the integers of extents were data. */
static int settle_moving(BpGraph *graph, BpGraphNode *node) {
  if (!is_moving(node))
    return 1;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->extents)
      node->inputs[i]->data = node->inputs[i]->extents;
  int left = bp__op_fold(graph, node);
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->extents)
      node->inputs[i]->data = NULL;
  if (left != 0)
    return left;
  const int64_t *elements = node->outputs[0]->data;
  node->outputs[0]->data = NULL;
  return bp__op_give_extents(graph, node, elements);
}

int bp__op_settle(BpGraph *graph, BpGraphNode *node) {
  bool has_extents = !strcmp(node->op->name, "Where"); /* of a constant condition, perhaps */
  for (int32_t i = 0; i < node->num_inputs; i++)
    has_extents |= node->inputs[i] && node->inputs[i]->extents;
  if (!has_extents || bp__value_is_open(node->outputs[0]) ||
      bp__value_num_elements(node->outputs[0]) > MAX_ELEMENTS)
    return 1;
  int left = settle_arithmetic(graph, node);
  left = left > 0 ? settle_equal(graph, node) : left;
  left = left > 0 ? settle_where(graph, node) : left;
  left = left > 0 ? settle_moving(graph, node) : left;
  if (left == 0 && node->outputs[0]->data)
    node->outputs[0]->producer = NULL;
  return left;
}
