/* SPDX-License-Identifier: Apache-2.0 */
/* Axes that depend on the data. The number of axes is known, and so is the rank of the result: a
 * run computes for each axis of the input whether it is chosen. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* Chosen axes among `ndim` axes, which a run knows. */
typedef struct Chosen {
  int64_t count;
  BpGraphValue *is_chosen; /* 1 or 0 for each axis */
  BpGraphValue *is_valid;  /* one bool: whether each number is an axis, and none occurs twice */
} Chosen;

static int read_chosen(BpVectorMaker m, int32_t ndim, Chosen *chosen) {
  BpGraphValue *axes = bp__vector_read(m, 1, BP_GRAPH_MAX_NDIM, &chosen->count);
  BpGraphValue *zero = v_number(m, 0), *one = v_number(m, 1);
  if (!axes)
    return -1;
  if (chosen->count > ndim || ndim == 0)
    return bp__op_bad(m.node, "it has %d axes for %d dimensions", (int)chosen->count, ndim);
  axes = v_choose(m, v_binary(m, "Less", axes, zero), v_binary(m, "Add", axes, v_number(m, ndim)),
                  axes);
  BpGraphValue *is_at = v_binary(m, "Equal", v_column(m, v_places(m, ndim)), axes);
  BpGraphValue *times = v_sum_rows(m, v_choose(m, is_at, one, zero));
  chosen->is_chosen = v_least(m, times, one);
  chosen->is_valid =
      v_binary(m, "Equal", v_reduce(m, "ReduceSum", chosen->is_chosen), v_number(m, chosen->count));
  return chosen->is_valid ? 0 : -1;
}

static BpGraphValue *pick(BpVectorMaker m, const Chosen *chosen, BpGraphValue *then,
                          BpGraphValue *otherwise) {
  return v_choose(m, v_binary(m, "Equal", chosen->is_chosen, v_number(m, 1)), then, otherwise);
}

/* Returns the vector, or -1 in every element if the axes are not valid. */
static BpGraphValue *valid(BpVectorMaker m, const Chosen *chosen, BpGraphValue *vector) {
  return v_choose(m, chosen->is_valid, vector, v_number(m, -1));
}

/* For each axis, the number of earlier axes that are not chosen. */
static BpGraphValue *places_of_rest(BpVectorMaker m, const Chosen *chosen) {
  BpGraphValue *rest = v_binary(m, "Sub", v_number(m, 1), chosen->is_chosen);
  BpGraphAttr exclusive = bp__attr_int(m.graph, "exclusive", 1);
  return bp__op_apply(m.graph, "", "CumSum", m.node->name, (BpGraphValue *[]){rest, v_number(m, 0)},
                      2, &exclusive, 1);
}

/* The extents of the axes that are not chosen, in order. */
static BpGraphValue *rest_of(BpVectorMaker m, const Chosen *chosen, BpGraphValue *extents,
                             int32_t ndim) {
  BpGraphValue *zero = v_number(m, 0);
  BpGraphValue *row = pick(m, chosen, v_number(m, -1), places_of_rest(m, chosen));
  BpGraphValue *column = v_column(m, v_places(m, ndim - (int32_t)chosen->count));
  return v_sum_rows(m, v_choose(m, v_binary(m, "Equal", column, row), extents, zero));
}

static const char *const bad_axes = "its axes are out of range or repeated";

/* Sets the extents of the node's first output to the extents of the axes that are not chosen. */
static int drop_axes(BpVectorMaker m, BpGraphNode *node, const Chosen *chosen, BpGraphValue *from,
                     BpGraphValue *extents, const char *complaint) {
  BpGraphValue *shape;
  int32_t ndim = from ? from->ndim : 0;
  if (chosen->count == ndim)
    shape = bp__graph_int_vector(m.graph, NULL, 0);
  else
    shape = bp__op_bind(m.graph, node, rest_of(m, chosen, extents, ndim), NULL, complaint);
  node->outputs[0] = bp__op_apply(m.graph, "backplane", "ViewIn", node->name,
                                  (BpGraphValue *[]){from, shape}, 2, NULL, 0);
  return node->outputs[0] ? 1 : -1;
}

/* ---- Squeeze and Unsqueeze --------------------------------------------------------------- */

int bp__bind_squeeze(BpVectorMaker m, BpGraphNode *node) {
  BpGraphValue *in = node->inputs[0];
  Chosen chosen;
  if (read_chosen(m, in->ndim, &chosen))
    return -1;
  BpGraphValue *extents = v_extents(m, in->shape, in->ndim);
  BpGraphValue *is_one = v_binary(m, "Equal", extents, v_number(m, 1));
  BpGraphValue *ones = v_reduce(
      m, "ReduceSum",
      pick(m, &chosen, v_choose(m, is_one, v_number(m, 1), v_number(m, 0)), v_number(m, 0)));
  BpGraphValue *fits = v_binary(m, "Equal", ones, v_number(m, chosen.count));
  chosen.is_valid = v_binary(m, "And", chosen.is_valid, fits);
  /* The axes are checked even if no extent is left to bind. */
  if (!bp__op_bind(m.graph, node, valid(m, &chosen, v_number(m, 0)), (int64_t[]){0},
                   "an axis does not exist, occurs twice, or has another extent than 1"))
    return -1;
  return drop_axes(m, node, &chosen, in, extents, bad_axes);
}

int bp__bind_unsqueeze(BpVectorMaker m, BpGraphNode *node) {
  BpGraphValue *in = node->inputs[0], *axes = node->inputs[1];
  int64_t added = bp__value_num_elements(axes);
  Chosen chosen;
  if (added < 0 || in->ndim + added > BP_GRAPH_MAX_NDIM)
    return bp__op_error(node, "its output has more than %d dimensions", BP_GRAPH_MAX_NDIM);
  if (read_chosen(m, in->ndim + (int32_t)added, &chosen))
    return -1;
  BpGraphValue *shape = v_number(m, 1);
  if (in->ndim > 0) {
    BpGraphValue *place = v_least(m, places_of_rest(m, &chosen), v_number(m, in->ndim - 1));
    shape = v_binary(m, "Gather", v_extents(m, in->shape, in->ndim), place);
  }
  shape = valid(m, &chosen, pick(m, &chosen, v_number(m, 1), shape));
  return bp__vector_replace(m, node, "ViewIn", bp__op_bind(m.graph, node, shape, NULL, bad_axes),
                            NULL, 0);
}

/* ---- Reductions -------------------------------------------------------------------------- */

/* Reduces over axes that only a run knows. Each axis is doubled: it occurs once with its extent,
 * and once with extent 1. The order of the two tells whether the axis is reduced; the
 * reduction over the second half of the axes gives the result. */
int bp__bind_reduce(BpVectorMaker m, BpGraphNode *node) {
  BpGraphValue *in = node->inputs[0], *inputs[2];
  int32_t ndim = in->ndim;
  Chosen chosen;
  if (bp__value_num_elements(node->inputs[1]) == 0) {
    node->inputs[1] = bp__graph_int_vector(m.graph, NULL, 0);
    return node->inputs[1] ? 0 : -1;
  }
  if (2 * ndim > BP_GRAPH_MAX_NDIM)
    return bp__op_error(node, "its axes depend on the data, which %d dimensions at most may have",
                        BP_GRAPH_MAX_NDIM / 2);
  if (read_chosen(m, ndim, &chosen))
    return -1;
  BpGraphValue *extents = v_extents(m, in->shape, ndim), *one = v_number(m, 1);
  BpGraphValue *kept = pick(m, &chosen, one, extents), *reduced = pick(m, &chosen, extents, one);
  BpGraphValue *both = valid(m, &chosen, v_join(m, (BpGraphValue *[]){kept, reduced}, 2));
  inputs[0] = bp__op_apply(m.graph, "backplane", "TwiceIn", node->name,
                           (BpGraphValue *[]){in, bp__op_bind(m.graph, node, both, NULL, bad_axes)},
                           2, NULL, 0);
  int64_t axes[BP_GRAPH_MAX_NDIM];
  for (int32_t i = 0; i < ndim; i++)
    axes[i] = ndim + i;
  inputs[1] = bp__graph_int_vector(m.graph, axes, ndim);
  BpGraphAttr keepdims = bp__attr_int(m.graph, "keepdims", 0);
  BpGraphNode *reduction = inputs[0] && inputs[1] ? bp__graph_node(m.graph, node->op, node->name,
                                                                   inputs, 2, 1, &keepdims, 1)
                                                  : NULL;
  if (!reduction)
    return -1;
  reduction->version = node->version;
  if (bp__op_append(m.graph, reduction))
    return -1;
  node->outputs[0] = reduction->outputs[0];
  if (bp__node_int(node, "keepdims", 1))
    return 1;
  return drop_axes(m, node, &chosen, reduction->outputs[0], extents, bad_axes);
}

/* One of the two indices of a doubled axis is 0, so their sum is the index. */
static const BpIrNode *twice_in_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  int32_t ndim = op->node->inputs[0]->ndim;
  for (int32_t i = 0; i < ndim; i++)
    indices[i] = x_add(bp_te_ir(te), axes[i], axes[ndim + i]);
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(twice_in) {
  return bp__op_give_body(op, "twice", twice_in_body, outputs);
}

/* ---- Running sums ------------------------------------------------------------------------ */

/* The product of the extents of the axes whose comparison with the axis is true. */
static BpGraphValue *product_where(BpVectorMaker m, const char *compare, BpGraphValue *axis,
                                   BpGraphValue *extents, int32_t ndim) {
  BpGraphValue *holds = v_binary(m, compare, v_places(m, ndim), axis);
  return v_reduce(m, "ReduceProd", v_choose(m, holds, extents, v_number(m, 1)));
}

BpGraphValue *bp__vector_around(BpVectorMaker m, BpGraphValue *axis, int32_t ndim) {
  const BpGraphValue *in = m.node->inputs[0];
  BpGraphValue *zero = v_number(m, 0), *all = v_number(m, in->ndim);
  axis = v_choose(m, v_binary(m, "Less", axis, zero), v_binary(m, "Add", axis, all), axis);
  BpGraphValue *is_axis = v_binary(m, "And", v_binary(m, "GreaterOrEqual", axis, zero),
                                   v_binary(m, "Less", axis, v_number(m, ndim)));
  BpGraphValue *extents = v_extents(m, in->shape, ndim);
  BpGraphValue *parts[] = {product_where(m, "Less", axis, extents, ndim),
                           product_where(m, "Equal", axis, extents, ndim),
                           product_where(m, "Greater", axis, extents, ndim)};
  BpGraphValue *shape = v_choose(m, is_axis, v_join(m, parts, 3), v_number(m, -1));
  return bp__op_bind(m.graph, m.node, shape, NULL, "its axis is not an axis of its input");
}

/* Binds CumSum and CumProd with an axis that only a run knows: the axes before it and the axes
 * after it are fused, so that the operator runs along the middle one of three axes. */
int bp__bind_running(BpVectorMaker m, BpGraphNode *node) {
  BpGraphValue *in = node->inputs[0];
  int64_t count;
  BpGraphValue *axis = bp__vector_read(m, 1, 1, &count);
  if (!axis)
    return -1;
  if (count != 1 || in->ndim == 0)
    return bp__op_bad(node, "its axis is no scalar, or its input is one");
  BpGraphValue *shape = bp__vector_around(m, axis, in->ndim);
  BpGraphValue *rows = bp__op_apply(m.graph, "backplane", "ViewIn", node->name,
                                    (BpGraphValue *[]){in, shape}, 2, NULL, 0);
  BpGraphValue *sums =
      bp__op_apply(m.graph, "", node->op->name, node->name,
                   (BpGraphValue *[]){rows, v_number(m, 1)}, 2, node->attrs, node->num_attrs);
  node->outputs[0] = bp__op_apply(
      m.graph, "backplane", "ViewIn", node->name,
      (BpGraphValue *[]){sums, bp__graph_int_vector(m.graph, in->shape, in->ndim)}, 2, NULL, 0);
  return node->outputs[0] ? 1 : -1;
}

/* ---- Trilu ------------------------------------------------------------------------------- */

/* The vector 0, 1, 2 and so on up to an extent. */
static BpGraphValue *counting(BpVectorMaker m, int64_t extent) {
  BpGraphAttr attrs[] = {bp__attr_int(m.graph, "start", 0), bp__attr_int(m.graph, "step", 1),
                         bp__attr_int(m.graph, "count", extent)};
  return bp__op_apply(m.graph, "backplane", "Counting", m.node->name, NULL, 0, attrs, 3);
}

int bp__bind_trilu(BpVectorMaker m, BpGraphNode *node) {
  BpGraphValue *in = node->inputs[0];
  int64_t count;
  BpGraphValue *k = bp__vector_read(m, 1, 1, &count);
  if (!k)
    return -1;
  if (count != 1 || in->ndim < 2)
    return bp__op_bad(node, "it takes at least 2 dimensions and a diagonal");
  BpGraphValue *rows = v_column(m, counting(m, in->shape[in->ndim - 2]));
  BpGraphValue *places = v_binary(m, "Sub", counting(m, in->shape[in->ndim - 1]), rows);
  BpGraphValue *keeps =
      v_binary(m, bp__node_int(node, "upper", 1) ? "GreaterOrEqual" : "LessOrEqual", places, k);
  BpGraphValue *none = bp__graph_constant(m.graph, node->name, in->dtype, NULL, 0, NULL);
  node->outputs[0] = v_choose(m, keeps, in, none);
  return node->outputs[0] ? 1 : -1;
}
