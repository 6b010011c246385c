/* SPDX-License-Identifier: Apache-2.0 */
/* Operators with a state that one run passes to the next: a cache of a fixed length, the end of a
 * sequence. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* ---- TensorScatter ----------------------------------------------------------------------- */

static int is_circular(const BpGraphNode *node) {
  return !strcmp(bp__node_str(node, "mode", "linear"), "circular");
}

static int read_tensor_scatter(const BpGraphNode *node, int32_t *result) {
  const BpGraphValue *cache = node->inputs[0], *update = node->inputs[1];
  const BpGraphValue *places = bp__node_input(node, 2);
  char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
  int32_t axis;
  if (bp__op_axis(node, bp__node_int(node, "axis", -2), cache->ndim, &axis))
    return -1;
  *result = axis;
  if (!is_circular(node) && strcmp(bp__node_str(node, "mode", "linear"), "linear"))
    return bp__op_bad(node, "its mode is neither linear nor circular");
  if (axis == 0 || cache->ndim != update->ndim || !bp__dtype_equal(cache->dtype, update->dtype))
    return bp__op_bad(node, "its update, %s, does not fit its cache, %s, along axis %d",
                      bp__value_format(update, a), bp__value_format(cache, b), axis);
  if (places && (places->ndim != 1 || places->dtype.code != BP_DTYPE_INT))
    return bp__op_bad(node, "its write_indices are %s, not a vector of integers",
                      bp__value_format(places, a));
  return 0;
}

/* Checks that the update is at most as long as the cache along the axis, and has the cache's other
 * extents. */
BP_ROW_EXPAND(tensor_scatter) {
  const BpGraphValue *cache = node->inputs[0], *update = node->inputs[1];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t axis;
  if (read_tensor_scatter(node, &axis))
    return -1;
  memcpy(shape, cache->shape, sizeof(shape));
  shape[axis] = update->shape[axis];
  if (bp__op_at_most(graph, node, &update->shape[axis], &cache->shape[axis], 1,
                     "its update is longer than its cache") ||
      !(node->inputs[1] = bp__op_as_shape(graph, node, node->inputs[1], shape,
                                          "its update does not fit its cache")))
    return -1;
  if (bp__node_input(node, 2) &&
      !(node->inputs[2] = bp__op_as_shape(graph, node, node->inputs[2], cache->shape,
                                          "it lacks a write index for each batch")))
    return -1;
  return 1;
}

BP_ROW_INFER(tensor_scatter) {
  const BpGraphValue *cache = node->inputs[0];
  return bp__node_set_output(graph, node, 0, cache->dtype, cache->shape, cache->ndim);
}

/* The element of the update that is written at a position of the cache, or else the element of the
 * cache. */
static const BpIrNode *tensor_scatter_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *cache = op->node->inputs[0], *update = op->node->inputs[1];
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *at, *is_new, *old;
  int32_t axis;
  if (bp__op_axis(op->node, bp__node_int(op->node, "axis", -2), cache->ndim, &axis))
    return NULL;
  old = bp_te_read(te, op->inputs[0], axes);
  if (update->shape[axis] == 0)
    return old;
  at = axes[axis];
  if (bp__node_input(op->node, 2)) {
    const BpIrNode *start = bp_te_read(te, op->inputs[2], axes);
    at = start ? x_sub(ir, at, bp_ir_cast(ir, BP__INT64, start)) : NULL;
  }
  if (is_circular(op->node))
    at = bp_ir_binary(ir, BP_IR_FLOORMOD, at, bp__op_extent(op, cache->shape[axis]));
  is_new =
      x_and(ir, x_ge(ir, at, x_index(ir, 0)), x_lt(ir, at, bp__op_extent(op, update->shape[axis])));
  memcpy(indices, axes, (size_t)cache->ndim * sizeof(*indices));
  indices[axis] = at;
  return x_choose(ir, is_new, bp_te_read_if(te, op->inputs[1], indices, is_new), old);
}

BP_ROW_COMPUTE(tensor_scatter) {
  return bp__op_give_body(op, "TensorScatter", tensor_scatter_body, outputs);
}

/* ---- CausalConvWithState ----------------------------------------------------------------- */

#define NO_KERNELS "its weights are not a kernel for each of its channels"
#define NO_PAST                                                                                    \
  "its past_state does not have the batch, the channels and one element fewer than the kernel"

/* Checks that there is a kernel for each channel, and the past of each batch and channel. */
static int check_causal(BpGraph *graph, BpGraphNode *node) {
  const BpGraphValue *weights = node->inputs[1], *past = bp__node_input(node, 3);
  if (bp__extents_any_open(weights->shape, weights->ndim))
    return bp__op_error(node, "weights of an open shape are not supported");
  if (node->inputs[0]->ndim != 3 || weights->ndim != 3 || weights->shape[1] != 1 ||
      weights->shape[2] < 1)
    return bp__op_bad(node, "%s", NO_KERNELS);
  const int64_t *in = node->inputs[0]->shape, channels = weights->shape[0];
  const int64_t shape[] = {in[0], channels, in[2]},
                state[] = {in[0], channels, weights->shape[2] - 1};
  node->inputs[0] = bp__op_as_shape(graph, node, node->inputs[0], shape, NO_KERNELS);
  if (past && past->ndim != 3)
    return bp__op_bad(node, "%s", NO_PAST);
  if (past)
    node->inputs[3] = bp__op_as_shape(graph, node, node->inputs[3], state, NO_PAST);
  return node->inputs[0] && (!past || node->inputs[3]) ? 0 : -1;
}

/* The sequence with its past before it: the state, or zeros. */
static BpGraphValue *with_past(BpGraph *graph, const BpGraphNode *node) {
  BpGraphValue *past = bp__node_input(node, 3);
  int64_t pads[6] = {0, 0, node->inputs[1]->shape[2] - 1};
  BpGraphAttr axis = bp__attr_int(graph, "axis", 2);
  if (pads[2] == 0)
    return node->inputs[0];
  if (!past)
    return bp__op_binary(graph, node, "Pad", node->inputs[0], bp__graph_int_vector(graph, pads, 6));
  return bp__op_apply(graph, "", "Concat", node->name, (BpGraphValue *[]){past, node->inputs[0]}, 2,
                      &axis, 1);
}

/* CausalConvWithState: a convolution of each channel over its current and past elements. */
BP_ROW_EXPAND(causal_conv) {
  const char *activation = bp__node_str(node, "activation", "none");
  const BpGraphValue *weights = node->inputs[1];
  if (check_causal(graph, node))
    return -1;
  if (strcmp(activation, "none") && strcmp(activation, "silu") && strcmp(activation, "swish"))
    return bp__op_bad(node, "its activation '%s' is not one of none, silu and swish", activation);
  BpGraphAttr group = bp__attr_int(graph, "group", weights->shape[0]);
  BpGraphValue *padded = with_past(graph, node);
  BpGraphValue *inputs[] = {padded, node->inputs[1], bp__node_input(node, 2)};
  BpGraphValue *out =
      bp__op_apply(graph, "", "Conv", node->name, inputs, inputs[2] ? 3 : 2, &group, 1);
  node->outputs[0] = strcmp(activation, "none") ? bp__op_unary(graph, node, "Swish", out) : out;
  if (!node->outputs[0] || node->num_outputs == 1)
    return node->outputs[0] ? 0 : -1;
  int64_t end = padded->shape[2];
  int64_t start = bp__extent_subtract(&graph->extents, end, weights->shape[2] - 1);
  node->outputs[1] =
      start == BP_EXTENT_NONE ? NULL : bp__op_slice(graph, node, padded, 2, start, end);
  return node->outputs[1] ? 0 : -1;
}
