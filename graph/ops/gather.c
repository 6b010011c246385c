/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, GatherElements and GatherND, which read elements of one input at the indices in
 * another. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* ---- Gather ------------------------------------------------------------------------------ */

static int check_indices(const BpGraphNode *node) {
  const BpGraphValue *indices = node->inputs[1];
  if (indices->dtype.code != BP_DTYPE_INT)
    return bp__op_bad(node, "its indices are not integers");
  return 0;
}

BP_ROW_INFER(gather) {
  const BpGraphValue *in = node->inputs[0], *indices = node->inputs[1];
  int64_t shape[2 * BP_GRAPH_MAX_NDIM];
  int32_t axis, ndim = 0;
  if (check_indices(node) || bp__op_axis(node, bp__node_int(node, "axis", 0), in->ndim, &axis))
    return -1;
  for (int32_t i = 0; i < axis; i++)
    shape[ndim++] = in->shape[i];
  for (int32_t i = 0; i < indices->ndim; i++)
    shape[ndim++] = indices->shape[i];
  for (int32_t i = axis + 1; i < in->ndim; i++)
    shape[ndim++] = in->shape[i];
  if (bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, ndim))
    return -1;
  if (in->shape[axis] == 0 && bp__value_num_elements(node->outputs[0]) > 0)
    return bp__op_bad(node, "it gathers from an axis that is empty");
  return 0;
}

/* Reads the element of input 0; zero if one of `count` axes is empty in a run and so has no nearest
 * element. */
static const BpIrNode *read_nearest(const BpOpCompute *op, const BpIrNode *const *indices,
                                    int32_t first, int32_t count) {
  BpIrModule *ir = bp_te_ir(op->te);
  const int64_t *shape = op->node->inputs[0]->shape + first;
  const BpIrNode *is_there = NULL;
  for (int32_t i = 0; i < count; i++) {
    const BpIrNode *has_any = x_lt(ir, x_index(ir, 0), bp__op_extent(op, shape[i]));
    if (bp__extent_is_open(shape[i]) || shape[i] == 0)
      is_there = is_there ? x_and(ir, is_there, has_any) : has_any;
  }
  return is_there ? bp_te_read_if(op->te, op->inputs[0], indices, is_there)
                  : bp_te_read(op->te, op->inputs[0], indices);
}

static const BpIrNode *gather_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *in = op->node->inputs[0];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *index;
  int32_t axis, inner = op->node->inputs[1]->ndim;
  if (bp__op_axis(op->node, bp__node_int(op->node, "axis", 0), in->ndim, &axis))
    return NULL;
  index = bp_te_read(te, op->inputs[1], axes + axis);
  if (!index)
    return NULL;
  for (int32_t i = 0; i < in->ndim; i++)
    indices[i] = i < axis   ? axes[i]
                 : i > axis ? axes[i - 1 + inner]
                            : x_inside(bp_te_ir(te), index, bp__op_extent(op, in->shape[axis]));
  return read_nearest(op, indices, axis, 1);
}

BP_ROW_COMPUTE(gather) {
  return bp__op_give_body(op, op->node->op->name, gather_body, outputs);
}

/* Checks that the extents of the indices, except along the axis, are at most those of the data. */
BP_ROW_EXPAND(gather_elements) {
  const BpGraphValue *in = node->inputs[0], *indices = node->inputs[1];
  int64_t most[BP_GRAPH_MAX_NDIM];
  int32_t axis;
  if (check_indices(node) || bp__op_axis(node, bp__node_int(node, "axis", 0), in->ndim, &axis))
    return -1;
  if (indices->ndim != in->ndim)
    return bp__op_bad(node, "its inputs differ in their number of dimensions");
  memcpy(most, in->shape, sizeof(most));
  most[axis] = indices->shape[axis];
  return bp__op_at_most(graph, node, indices->shape, most, in->ndim,
                        "its indices are larger than its data")
             ? -1
             : 1;
}

BP_ROW_INFER(gather_elements) {
  const BpGraphValue *in = node->inputs[0], *indices = node->inputs[1];
  int32_t axis;
  if (bp__op_axis(node, bp__node_int(node, "axis", 0), in->ndim, &axis))
    return -1;
  if (in->shape[axis] == 0 && bp__value_num_elements(indices) > 0)
    return bp__op_bad(node, "its indices are larger than its data along axis %d", axis);
  return bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, indices->shape, indices->ndim);
}

static const BpIrNode *gather_elements_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *in = op->node->inputs[0];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *index = bp_te_read(te, op->inputs[1], axes);
  int32_t axis;
  if (!index || bp__op_axis(op->node, bp__node_int(op->node, "axis", 0), in->ndim, &axis))
    return NULL;
  memcpy(indices, axes, (size_t)in->ndim * sizeof(*indices));
  indices[axis] = x_inside(bp_te_ir(te), index, bp__op_extent(op, in->shape[axis]));
  return read_nearest(op, indices, axis, 1);
}

BP_ROW_COMPUTE(gather_elements) {
  return bp__op_give_body(op, op->node->op->name, gather_elements_body, outputs);
}

/* ---- GatherND ---------------------------------------------------------------------------- */

/* The dimensions of GatherND's output: the first `batch` are the batch of both inputs, the
 * dimensions up to `outer` are those of the indices, whose last dimension holds `depth` indices. */
typedef struct GatherNd {
  int32_t batch, outer, depth;
} GatherNd;

static int read_gather_nd(const BpGraphNode *node, GatherNd *at) {
  const BpGraphValue *in = node->inputs[0], *indices = node->inputs[1];
  int64_t batch = bp__node_int(node, "batch_dims", 0);
  if (check_indices(node))
    return -1;
  if (in->ndim < 1 || indices->ndim < 1 || batch < 0 || batch >= in->ndim || batch >= indices->ndim)
    return bp__op_bad(node, "batch_dims %lld does not fit tensors of %d and %d dimensions",
                      (long long)batch, in->ndim, indices->ndim);
  int64_t depth = indices->shape[indices->ndim - 1];
  if (bp__extent_is_open(depth))
    return bp__op_error(node, "the last extent of its indices is open");
  if (depth < 1 || depth > in->ndim - batch)
    return bp__op_bad(node, "its indices are rows of %lld, for data of %d dimensions",
                      (long long)depth, in->ndim);
  *at = (GatherNd){(int32_t)batch, indices->ndim - 1, (int32_t)depth};
  return 0;
}

/* Checks that the batch extents of the indices equal those of the data. */
BP_ROW_EXPAND(gather_nd) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  GatherNd at;
  if (read_gather_nd(node, &at))
    return -1;
  memcpy(shape, node->inputs[1]->shape, sizeof(shape));
  memcpy(shape, node->inputs[0]->shape, (size_t)at.batch * sizeof(*shape));
  node->inputs[1] = bp__op_as_shape(graph, node, node->inputs[1], shape,
                                    "its inputs differ in the extent of a batch dimension");
  return node->inputs[1] ? 1 : -1;
}

BP_ROW_INFER(gather_nd) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[2 * BP_GRAPH_MAX_NDIM];
  GatherNd at;
  if (read_gather_nd(node, &at))
    return -1;
  int32_t ndim = at.outer, first = at.batch + at.depth;
  memcpy(shape, node->inputs[1]->shape, (size_t)ndim * sizeof(*shape));
  for (int32_t i = first; i < in->ndim; i++)
    shape[ndim++] = in->shape[i];
  if (bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, ndim))
    return -1;
  if (bp__value_num_elements(in) == 0 && bp__value_num_elements(node->outputs[0]) > 0)
    return bp__op_bad(node, "it gathers from data that is empty");
  return 0;
}

static const BpIrNode *gather_nd_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *in = op->node->inputs[0];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *place[BP_GRAPH_MAX_NDIM];
  GatherNd at;
  if (read_gather_nd(op->node, &at))
    return NULL;
  memcpy(place, axes, (size_t)at.outer * sizeof(*place));
  for (int32_t i = 0; i < in->ndim; i++) {
    int32_t k = i - at.batch;
    if (k < 0)
      indices[i] = axes[i];
    else if (k >= at.depth)
      indices[i] = axes[at.outer + k - at.depth];
    else {
      place[at.outer] = x_index(ir, k);
      indices[i] =
          x_inside(ir, bp_te_read(te, op->inputs[1], place), bp__op_extent(op, in->shape[i]));
    }
  }
  return read_nearest(op, indices, at.batch, at.depth);
}

BP_ROW_COMPUTE(gather_nd) {
  return bp__op_give_body(op, op->node->op->name, gather_nd_body, outputs);
}
