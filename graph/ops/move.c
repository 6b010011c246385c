/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements: each element of the output is an element of an input, or a
 * constant. */
#include <stdlib.h>
#include <string.h>

#include <backplane/object.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

static int set_output_like(BpGraph *graph, BpGraphNode *node, const int64_t *shape, int32_t ndim) {
  return bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, ndim);
}

/* ---- Transpose --------------------------------------------------------------------------- */

static int read_permutation(const BpGraphNode *node, int64_t *perm) {
  int32_t ndim = node->inputs[0]->ndim, seen = 0;
  int32_t count = bp__op_ints(node, -1, "perm", perm, BP_GRAPH_MAX_NDIM);
  if (count == -1)
    return -1;
  for (int32_t i = 0; count == -2 && i < ndim; i++)
    perm[i] = ndim - 1 - i;
  for (int32_t i = 0; i < ndim && count != -2; i++) {
    if (count != ndim || perm[i] < 0 || perm[i] >= ndim || (seen & 1 << perm[i]))
      return bp__op_bad(node, "perm is no permutation of %d axes", ndim);
    seen |= 1 << perm[i];
  }
  return 0;
}

BP_ROW_INFER(transpose) {
  int64_t perm[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM];
  if (read_permutation(node, perm))
    return -1;
  for (int32_t i = 0; i < node->inputs[0]->ndim; i++)
    shape[i] = node->inputs[0]->shape[perm[i]];
  return set_output_like(graph, node, shape, node->inputs[0]->ndim);
}

static const BpIrNode *transpose_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  int64_t perm[BP_GRAPH_MAX_NDIM];
  if (read_permutation(op->node, perm))
    return NULL;
  for (int32_t i = 0; i < op->node->inputs[0]->ndim; i++)
    indices[perm[i]] = axes[i];
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(transpose) {
  return bp__op_give_body(op, op->node->op->name, transpose_body, outputs);
}

/* Weights are often stored transposed, and are too many elements for the interpreter. */
BP_ROW_FOLD(transpose) {
  const BpGraphValue *in = node->inputs[0], *out = node->outputs[0];
  int64_t perm[BP_GRAPH_MAX_NDIM], strides[BP_GRAPH_MAX_NDIM], index[BP_GRAPH_MAX_NDIM] = {0};
  size_t size = bp_dtype_bytes(in->dtype), from = 0;
  char *data;
  if (!in->data)
    return 1;
  data = bp__graph_new_data(graph, out);
  if (!data || read_permutation(node, perm))
    return -1;
  for (int32_t i = 0; i < out->ndim; i++) {
    strides[i] = 1;
    for (int32_t k = (int32_t)perm[i] + 1; k < in->ndim; k++)
      strides[i] *= in->shape[k];
  }
  for (int64_t i = 0, n = bp__value_num_elements(out); i < n; i++) {
    memcpy(data + (size_t)i * size, (const char *)in->data + from * size, size);
    for (int32_t d = out->ndim - 1; d >= 0; d--) {
      from += (size_t)strides[d];
      if (++index[d] < out->shape[d])
        break;
      from -= (size_t)(strides[d] * index[d]);
      index[d] = 0;
    }
  }
  node->outputs[0]->data = data;
  return 0;
}

/* ---- Concat ------------------------------------------------------------------------------ */

static int concat_axis(const BpGraphNode *node, int32_t *axis) {
  return bp__op_axis(node, bp__node_int(node, "axis", 1), node->inputs[0]->ndim, axis);
}

BP_ROW_INFER(concat) {
  const BpGraphValue *first = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t axis;
  if (concat_axis(node, &axis))
    return -1;
  memcpy(shape, first->shape, sizeof(shape));
  for (int32_t i = 1; i < node->num_inputs; i++) {
    const BpGraphValue *in = node->inputs[i];
    if (!in || in->ndim != first->ndim || !bp__dtype_equal(in->dtype, first->dtype))
      return bp__op_bad(node, "input %d has another type or number of dimensions than the first",
                        i);
    for (int32_t d = 0; d < in->ndim; d++)
      if (d != axis && in->shape[d] != first->shape[d])
        return bp__extent_is_open(in->shape[d]) || bp__extent_is_open(first->shape[d])
                   ? bp__op_error(node,
                                  "extent %d of input %d or of the first is open, and whether they "
                                  "are equal is known only in a run",
                                  d, i)
                   : bp__op_bad(node, "input %d differs from the first in extent %d", i, d);
    shape[axis] = bp__extent_add(&graph->extents, shape[axis], in->shape[axis]);
    if (shape[axis] == BP_EXTENT_NONE)
      return -1;
  }
  return set_output_like(graph, node, shape, first->ndim);
}

/* A concatenation is a chain of selects; each input is read where the index is in its part. */
static const BpIrNode *concat_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *starts[BP_OP_MAX_INPUTS + 1], *result = NULL;
  int32_t axis;
  if (concat_axis(op->node, &axis))
    return NULL;
  memcpy(indices, axes, (size_t)op->node->outputs[0]->ndim * sizeof(*indices));
  starts[0] = x_index(ir, 0);
  for (int32_t i = 0; i < op->node->num_inputs; i++)
    starts[i + 1] = x_add(ir, starts[i], bp__op_extent(op, op->node->inputs[i]->shape[axis]));
  for (int32_t i = op->node->num_inputs - 1; i >= 0; i--) {
    const BpIrNode *inside = x_lt(ir, axes[axis], starts[i + 1]), *value;
    indices[axis] = x_sub(ir, axes[axis], starts[i]);
    if (i > 0)
      inside = x_and(ir, inside, x_ge(ir, axes[axis], starts[i]));
    value = bp_te_read(te, op->inputs[i], indices);
    result = result ? bp_ir_select(ir, inside, value, result) : value;
    if (!result)
      return NULL;
  }
  return result;
}

BP_ROW_COMPUTE(concat) {
  return bp__op_give_body(op, op->node->op->name, concat_body, outputs);
}

/* The maximum number of parts of one concatenation along open extents: its kernel takes each extent
 * as a scalar, and devices may limit scalars to 128 bytes. */
#define MAX_OPEN_PARTS 12

/* The maximum number of inputs that one node concatenates; -1 if an input is missing. */
static int32_t most_parts(const BpGraphNode *node) {
  int32_t most = BP_OP_MAX_INPUTS;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    if (!node->inputs[i])
      return bp__op_bad(node, "input %d is missing", i);
    if (bp__value_is_open(node->inputs[i]))
      most = MAX_OPEN_PARTS;
  }
  return most;
}

/* A part of a concatenation. An open extent along the axis gets a symbol: a sum of several terms
 * would cost every function that reads it a scalar for each term. */
static BpGraphValue *concat_part(BpGraph *graph, const BpGraphNode *node, int32_t first,
                                 int32_t count) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t axis;
  BpGraphValue *part = bp__op_apply(graph, "", "Concat", node->name, node->inputs + first, count,
                                    node->attrs, node->num_attrs);
  if (!part || concat_axis(node, &axis) || !bp__extent_is_open(part->shape[axis]))
    return part;
  memcpy(shape, part->shape, sizeof(shape));
  shape[axis] = bp__extent_name(&graph->extents, shape[axis]);
  return bp__op_apply(graph, "backplane", "ViewIn", node->name,
                      (BpGraphValue *[]){part, bp__graph_int_vector(graph, shape, part->ndim)}, 2,
                      NULL, 0);
}

BP_ROW_EXPAND(concat) {
  int32_t most = node->num_inputs > MAX_OPEN_PARTS ? most_parts(node) : MAX_OPEN_PARTS;
  if (most < 0 || node->num_inputs <= most)
    return most < 0 ? -1 : 1;
  int32_t parts = (node->num_inputs + most - 1) / most;
  BpGraphValue **inputs = bp__arena_alloc_array(&graph->arena, (size_t)parts, sizeof(*inputs));
  for (int32_t i = 0; inputs && i < parts; i++) {
    int32_t first = i * most, rest = node->num_inputs - first;
    inputs[i] = concat_part(graph, node, first, rest < most ? rest : most);
    if (!inputs[i])
      return -1;
  }
  if (inputs)
    node->outputs[0] =
        bp__op_apply(graph, "", "Concat", node->name, inputs, parts, node->attrs, node->num_attrs);
  return node->outputs[0] ? 0 : -1;
}

/* ---- Slice and Split --------------------------------------------------------------------- */

typedef struct Slices {
  int64_t start[BP_GRAPH_MAX_NDIM];
  int64_t step[BP_GRAPH_MAX_NDIM];
  int64_t extent[BP_GRAPH_MAX_NDIM];
} Slices;

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

/* A bound of a slice clamped to [0, extent], where the bound or the extent is open. */
static int64_t open_bound(BpExtents *extents, int64_t bound, int64_t extent) {
  if (!bp__extent_is_open(bound) && bound >= INT32_MAX)
    return extent; /* exporters write the greatest integer as the end */
  if (!bp__extent_is_open(bound) && bound < -INT32_MAX)
    return 0; /* the sum with an extent could overflow */
  if (!bp__extent_is_open(bound) && bound < 0)
    return bp__extent_max(extents, bp__extent_add(extents, extent, bound), 0);
  return bp__extent_min(extents, bound, extent);
}

static int open_slice_axis(BpExtents *extents, const BpGraphNode *node, Slices *slices,
                           int32_t axis, const int64_t bounds[2], int64_t step) {
  int64_t extent = node->inputs[0]->shape[axis], inside[2];
  if (step != 1)
    return bp__op_error(node, "a step of %lld along axis %d, whose extent is open", (long long)step,
                        axis);
  for (int32_t i = 0; i < 2; i++) {
    if (bp__extent_is_open(bounds[i]) && !bp__extent_at_least(extents, bounds[i], 0))
      return bp__op_error(node, "a bound along axis %d is open, and may be negative", axis);
    inside[i] = open_bound(extents, bounds[i], extent);
  }
  int64_t count = bp__extent_subtract(extents, inside[1], inside[0]);
  slices->start[axis] = inside[0];
  slices->step[axis] = step;
  slices->extent[axis] = bp__extent_max(extents, count, 0);
  return slices->extent[axis] == BP_EXTENT_NONE ? -1 : 0;
}

static int slice_axis(BpExtents *extents, const BpGraphNode *node, Slices *slices, int32_t axis,
                      int64_t start, int64_t end, int64_t step) {
  int64_t extent = node->inputs[0]->shape[axis], count;
  if (step == 0 || step == INT64_MIN)
    return bp__op_bad(node, "its step along axis %d is %lld", axis, (long long)step);
  if (bp__extents_any_open((const int64_t[]){start, end, extent}, 3))
    return open_slice_axis(extents, node, slices, axis, (const int64_t[]){start, end}, step);
  start = start < 0 ? start + extent : start;
  end = end < 0 ? end + extent : end;
  start = clamp(start, 0, step > 0 || extent == 0 ? extent : extent - 1);
  end = step > 0 ? clamp(end, 0, extent) : clamp(end, -1, extent - 1);
  count = extent == 0 ? 0 : step > 0 ? end - start : start - end;
  slices->start[axis] = start;
  slices->step[axis] = step;
  slices->extent[axis] = count > 0 ? (count - 1) / llabs(step) + 1 : 0;
  return 0;
}

/* Reads the bounds along the axes. The least int64 numbers, which exporters write for the
 * beginning, are replaced, because they would stand for open extents. */
static int32_t slice_bounds(const BpGraphNode *node, int32_t input, const char *attr,
                            int64_t *bounds) {
  const BpGraphValue *given = bp__node_input(node, input);
  if (given && given->extents)
    return bp__op_const_extents(node, input, bounds, BP_GRAPH_MAX_NDIM);
  int32_t count = bp__op_ints(node, given ? input : -1, attr, bounds, BP_GRAPH_MAX_NDIM);
  for (int32_t i = 0; i < count; i++)
    if (bp__extent_is_open(bounds[i]))
      bounds[i] = BP_EXTENT_LAST_OPEN + 1;
  return count;
}

static int read_slices(BpExtents *extents, const BpGraphNode *node, Slices *slices) {
  const BpGraphValue *in = node->inputs[0];
  int64_t starts[BP_GRAPH_MAX_NDIM], ends[BP_GRAPH_MAX_NDIM], axes[BP_GRAPH_MAX_NDIM],
      steps[BP_GRAPH_MAX_NDIM];
  int32_t count = slice_bounds(node, 1, "starts", starts);
  int32_t num_ends = slice_bounds(node, 2, "ends", ends);
  int32_t num_axes = bp__op_ints(node, 3, "axes", axes, BP_GRAPH_MAX_NDIM);
  int32_t num_steps = bp__op_ints(node, 4, NULL, steps, BP_GRAPH_MAX_NDIM);
  if (count == -1 || num_ends == -1 || num_axes == -1 || num_steps == -1)
    return -1;
  if (count < 0 || count != num_ends || (num_axes >= 0 && num_axes != count) ||
      (num_steps >= 0 && num_steps != count))
    return bp__op_bad(node, "its starts, ends, axes and steps differ in number");
  for (int32_t i = 0; i < in->ndim; i++) {
    slices->start[i] = 0;
    slices->step[i] = 1;
    slices->extent[i] = in->shape[i];
  }
  for (int32_t i = 0; i < count; i++) {
    int32_t axis;
    if (bp__op_axis(node, num_axes < 0 ? i : axes[i], in->ndim, &axis) ||
        slice_axis(extents, node, slices, axis, starts[i], ends[i], num_steps < 0 ? 1 : steps[i]))
      return -1;
  }
  return 0;
}

BP_ROW_INFER(slice) {
  Slices slices;
  if (read_slices(&graph->extents, node, &slices))
    return -1;
  return set_output_like(graph, node, slices.extent, node->inputs[0]->ndim);
}

static const BpIrNode *slice_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  Slices slices;
  if (read_slices(op->extents, op->node, &slices))
    return NULL;
  for (int32_t i = 0; i < op->node->inputs[0]->ndim; i++)
    indices[i] = x_add(ir, x_mul(ir, axes[i], x_index(ir, slices.step[i])),
                       bp__op_extent(op, slices.start[i]));
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(slice) {
  return bp__op_give_body(op, op->node->op->name, slice_body, outputs);
}

/* A slice whose elements are contiguous in a constant shares the constant's memory, so any size is
 * folded. */
BP_ROW_FOLD(slice) {
  const BpGraphValue *in = node->inputs[0], *out = node->outputs[0];
  int64_t from = 0, is_cut = 0;
  Slices slices;
  if (!in->data || bp__value_num_elements(out) == 0)
    return 1;
  if (read_slices(&graph->extents, node, &slices))
    return -1;
  for (int32_t i = 0; i < in->ndim; i++) {
    if ((out->shape[i] > 1 && slices.step[i] != 1) || (is_cut && out->shape[i] != in->shape[i]))
      return 1;
    from = from * in->shape[i] + slices.start[i];
    is_cut |= out->shape[i] != 1;
  }
  node->outputs[0]->data = (const char *)in->data + (size_t)from * bp_dtype_bytes(in->dtype);
  return 0;
}

static int split_lengths(const BpGraphNode *node, int64_t extent, int64_t *lengths) {
  int32_t outputs = node->num_outputs, count = bp__op_ints(node, 1, "split", lengths, outputs);
  int64_t chunk = (extent + outputs - 1) / outputs, total = 0;
  if (count == -1)
    return -1;
  if (count >= 0 && count != outputs)
    return bp__op_bad(node, "it names %d lengths for %d outputs", count, outputs);
  if (count == -2 && node->version < 18 && extent % outputs != 0)
    return bp__op_bad(node, "%lld elements do not split into %d equal parts", (long long)extent,
                      outputs);
  for (int32_t i = 0; i < outputs; i++) {
    if (count == -2)
      lengths[i] = total + chunk > extent ? extent - total : chunk;
    if (lengths[i] < 0 || lengths[i] > extent - total)
      return bp__op_bad(node, "its lengths do not add up to %lld", (long long)extent);
    total += lengths[i];
  }
  return total == extent ? 0 : bp__op_bad(node, "its lengths do not add up to the extent");
}

BP_ROW_EXPAND(split) {
  int64_t *lengths =
      bp__arena_alloc_array(&graph->arena, (size_t)node->num_outputs, sizeof(*lengths));
  int64_t start = 0;
  int32_t axis;
  if (!lengths || bp__op_axis(node, bp__node_int(node, "axis", 0), node->inputs[0]->ndim, &axis))
    return -1;
  if (bp__extent_is_open(node->inputs[0]->shape[axis]))
    return bp__bind_split((BpVectorMaker){graph, node}, node) < 0 ? -1 : 0;
  if (split_lengths(node, node->inputs[0]->shape[axis], lengths))
    return -1;
  for (int32_t i = 0; i < node->num_outputs; i++) {
    node->outputs[i] = bp__op_slice(graph, node, node->inputs[0], axis, start, start + lengths[i]);
    if (!node->outputs[i])
      return -1;
    start += lengths[i];
  }
  return 0;
}

/* ---- Pad --------------------------------------------------------------------------------- */

static int read_pads(const BpGraphNode *node, int64_t *begin, int64_t *end) {
  int64_t pads[2 * BP_GRAPH_MAX_NDIM], axes[BP_GRAPH_MAX_NDIM];
  int32_t ndim = node->inputs[0]->ndim;
  int32_t count = bp__op_ints(node, 1, "pads", pads, 2 * BP_GRAPH_MAX_NDIM);
  int32_t num_axes = bp__op_ints(node, 3, NULL, axes, BP_GRAPH_MAX_NDIM);
  if (count == -1 || num_axes == -1)
    return -1;
  if (num_axes == -2) {
    num_axes = ndim;
    for (int32_t i = 0; i < ndim; i++)
      axes[i] = i;
  }
  if (count != 2 * num_axes)
    return bp__op_bad(node, "it has %d pads for %d axes", count, num_axes);
  memset(begin, 0, BP_GRAPH_MAX_NDIM * sizeof(*begin));
  memset(end, 0, BP_GRAPH_MAX_NDIM * sizeof(*end));
  for (int32_t i = 0; i < num_axes; i++) {
    int32_t axis;
    if (bp__op_axis(node, axes[i], ndim, &axis))
      return -1;
    begin[axis] = pads[i];
    end[axis] = pads[num_axes + i];
    if (llabs(pads[i]) > INT32_MAX || llabs(pads[num_axes + i]) > INT32_MAX)
      return bp__op_bad(node, "a pad of axis %d is out of range", axis);
  }
  return 0;
}

/* The number of elements that a negative pad removes, and the number of elements of an axis that
 * two pads leave. */
static int64_t removed(int64_t pad) {
  return pad < 0 ? -pad : 0;
}
static int64_t left_of(int64_t extent, int64_t begin, int64_t end) {
  return extent - removed(begin) - removed(end);
}

BP_ROW_INFER(pad) {
  int64_t begin[BP_GRAPH_MAX_NDIM], end[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM];
  const char *mode = bp__node_str(node, "mode", "constant");
  const BpGraphValue *in = node->inputs[0], *fill = bp__node_input(node, 2);
  if (read_pads(node, begin, end))
    return -1;
  if (fill && (bp__value_num_elements(fill) != 1 || !bp__dtype_equal(fill->dtype, in->dtype)))
    return bp__op_bad(node, "its fill value is not a scalar of the input's type");
  if (strcmp(mode, "constant") && strcmp(mode, "reflect") && strcmp(mode, "edge") &&
      strcmp(mode, "wrap"))
    return bp__op_bad(node, "mode '%s' is not one of constant, reflect, edge and wrap", mode);
  for (int32_t i = 0; i < in->ndim; i++) {
    shape[i] = bp__extent_add(&graph->extents, in->shape[i], begin[i] + end[i]);
    if (shape[i] == BP_EXTENT_NONE)
      return -1;
    if (bp__extent_is_open(in->shape[i]) && (begin[i] || end[i]) &&
        (strcmp(mode, "constant") || begin[i] < 0 || end[i] < 0))
      return bp__op_error(node,
                          "axis %d is open, and takes pads of a constant that are not negative", i);
    if (bp__extent_is_open(shape[i]))
      continue;
    if (shape[i] < 0)
      return bp__op_bad(node, "it removes more than axis %d has", i);
    int64_t left = left_of(in->shape[i], begin[i], end[i]);
    if (!strcmp(mode, "reflect") && left > 0 && (begin[i] >= left || end[i] >= left))
      return bp__op_error(node, "mode reflect pads axis %d by as much as it has or more", i);
    if (strcmp(mode, "constant") && shape[i] > 0 && left <= 0)
      return bp__op_bad(node, "mode %s has nothing of axis %d to copy", mode, i);
  }
  return set_output_like(graph, node, shape, in->ndim);
}

/* The position modulo `left`. Pads of at most `left` elements need a comparison, where lowering
 * divides loops, instead of a division for each element. */
static const BpIrNode *wrapped_index(BpIrModule *ir, const BpIrNode *i, int64_t left,
                                     bool is_once) {
  const BpIrNode *extent = x_index(ir, left);
  if (!is_once)
    return bp_ir_binary(ir, BP_IR_FLOORMOD, i, extent);
  return bp_ir_select(ir, x_lt(ir, i, x_index(ir, 0)), x_add(ir, i, extent),
                      bp_ir_select(ir, x_lt(ir, i, extent), i, x_sub(ir, i, extent)));
}

/* The index in the remaining part of an axis from which a padded axis copies element `i`; negative
 * pads cut the ends off. */
static const BpIrNode *reflected_index(BpIrModule *ir, const char *mode, const BpIrNode *i,
                                       int64_t extent, int64_t begin, int64_t end) {
  int64_t first = removed(begin), left = left_of(extent, begin, end);
  const BpIrNode *zero = x_index(ir, 0), *last = x_index(ir, left - 1);
  if (left <= 0)
    return i; /* the result has no elements */
  i = x_sub(ir, i, x_index(ir, first));
  if (!strcmp(mode, "edge")) {
    i = x_min(ir, x_max(ir, i, zero), last);
  } else if (!strcmp(mode, "wrap")) {
    i = wrapped_index(ir, i, left, begin <= left && end <= left);
  } else {
    i = x_max(ir, i, x_sub(ir, zero, i));
    i = x_min(ir, i, x_sub(ir, x_index(ir, 2 * (left - 1)), i));
  }
  return x_add(ir, i, x_index(ir, first));
}

/* Reads the only element of a tensor of any rank. */
static const BpIrNode *read_single(BpTe *te, BpTeTensor *tensor) {
  const BpIrNode *zeros[BP_GRAPH_MAX_NDIM];
  for (int32_t i = 0; i < BP_GRAPH_MAX_NDIM; i++)
    zeros[i] = x_index(bp_te_ir(te), 0);
  return bp_te_read(te, tensor, zeros);
}

static const BpIrNode *pad_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *in = op->node->inputs[0];
  const char *mode = bp__node_str(op->node, "mode", "constant");
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *inside = NULL, *fill, *value;
  int64_t begin[BP_GRAPH_MAX_NDIM], end[BP_GRAPH_MAX_NDIM];
  if (read_pads(op->node, begin, end))
    return NULL;
  for (int32_t i = 0; i < in->ndim; i++) {
    const BpIrNode *within;
    indices[i] = x_sub(ir, axes[i], x_index(ir, begin[i]));
    if (begin[i] == 0 && end[i] == 0)
      continue;
    if (strcmp(mode, "constant")) {
      indices[i] = reflected_index(ir, mode, indices[i], in->shape[i], begin[i], end[i]);
      continue;
    }
    within = x_and(ir, x_ge(ir, indices[i], x_index(ir, 0)),
                   x_lt(ir, indices[i], bp__op_extent(op, in->shape[i])));
    inside = inside ? x_and(ir, inside, within) : within;
  }
  value = bp_te_read(te, op->inputs[0], indices);
  if (!inside)
    return value;
  if (bp__node_input(op->node, 2))
    fill = read_single(te, op->inputs[2]);
  else
    fill = x_number(ir, in->dtype, (double)bp__node_float(op->node, "value", 0.0f));
  return bp_ir_select(ir, inside, value, fill);
}

BP_ROW_COMPUTE(pad) {
  return bp__op_give_body(op, op->node->op->name, pad_body, outputs);
}

/* ---- Expand and Tile --------------------------------------------------------------------- */

BP_ROW_INFER(expand) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM], wanted[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_const_extents(node, 1, wanted, BP_GRAPH_MAX_NDIM), ndim;
  if (count < 0)
    return -1;
  ndim = count > in->ndim ? count : in->ndim;
  for (int32_t d = 0; d < ndim; d++) {
    int64_t a = d < ndim - in->ndim ? 1 : in->shape[d - (ndim - in->ndim)];
    int64_t b = d < ndim - count ? 1 : wanted[d - (ndim - count)];
    if (a != b && a != 1 && b != 1 && (bp__extent_is_open(a) || bp__extent_is_open(b)))
      return bp__op_error(
          node,
          "extent %d of its input or of its shape is open: only a run knows whether the "
          "input expands",
          d);
    if (a != b && a != 1 && b != 1)
      return bp__op_bad(node, "extent %lld does not expand to %lld", (long long)a, (long long)b);
    shape[d] = a == 1 ? b : a;
  }
  return set_output_like(graph, node, shape, ndim);
}

/* Expand: repeats dimensions of extent 1, and adds leading dimensions. */
static const BpIrNode *expand_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *in = op->node->inputs[0];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  int32_t added = op->node->outputs[0]->ndim - in->ndim;
  for (int32_t i = 0; i < in->ndim; i++)
    indices[i] = in->shape[i] == 1 ? x_index(bp_te_ir(te), 0) : axes[added + i];
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(expand) {
  return bp__op_give_body(op, op->node->op->name, expand_body, outputs);
}

BP_ROW_INFER(tile) {
  int64_t repeats[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_const_extents(node, 1, repeats, BP_GRAPH_MAX_NDIM);
  if (count < 0)
    return -1;
  if (count != node->inputs[0]->ndim)
    return bp__op_bad(node, "it has %d repeats for %d dimensions", count, node->inputs[0]->ndim);
  for (int32_t i = 0; i < count; i++) {
    int64_t extent = node->inputs[0]->shape[i];
    bool is_counted = !bp__extent_is_open(repeats[i]);
    if ((is_counted && repeats[i] < 0) || (is_counted && !bp__extent_is_open(extent) &&
                                           __builtin_mul_overflow(extent, repeats[i], &shape[i])))
      return bp__op_bad(node, "repeat %d is %lld", i, (long long)repeats[i]);
    shape[i] = bp__extent_multiply(&graph->extents, extent, repeats[i]);
    if (shape[i] == BP_EXTENT_NONE)
      return -1;
  }
  return set_output_like(graph, node, shape, count);
}

/* Tile: repeating a dimension of extent e expands [1, e] to [repeats, e], which reads without
 * divisions and in long runs. */
BP_ROW_EXPAND(tile) {
  BpGraphValue *in = node->inputs[0], *inputs[2];
  int64_t repeats[BP_GRAPH_MAX_NDIM], from[2 * BP_GRAPH_MAX_NDIM], to[2 * BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_const_extents(node, 1, repeats, BP_GRAPH_MAX_NDIM), ndim = 0;
  if (count < 0)
    return -1;
  for (int32_t i = 0; i < count && count == in->ndim; i++) {
    if (repeats[i] != 1) {
      from[ndim] = 1;
      to[ndim++] = repeats[i];
    }
    from[ndim] = to[ndim] = in->shape[i];
    ndim++;
  }
  if (ndim == count || ndim > BP_GRAPH_MAX_NDIM || count != in->ndim || in->extents)
    return 1;
  if (bp__infer_tile(graph, node))
    return -1;
  const BpGraphValue *out = node->outputs[0];
  inputs[0] = bp__op_reshape(graph, node, in, from, ndim);
  inputs[1] = bp__op_extents(graph, node, to, ndim);
  inputs[0] = bp__op_apply(graph, "", "Expand", node->name, inputs, 2, NULL, 0);
  node->outputs[0] = bp__op_reshape(graph, node, inputs[0], out->shape, out->ndim);
  return node->outputs[0] ? 0 : -1;
}

static const BpIrNode *tile_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  const BpGraphValue *in = op->node->inputs[0], *out = op->node->outputs[0];
  for (int32_t i = 0; i < in->ndim; i++)
    indices[i] = in->shape[i] == out->shape[i]
                     ? axes[i]
                     : bp_ir_binary(ir, BP_IR_FLOORMOD, axes[i], bp__op_extent(op, in->shape[i]));
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(tile) {
  return bp__op_give_body(op, op->node->op->name, tile_body, outputs);
}

/* ---- Between depth and space ------------------------------------------------------------- */

static int block_size(const BpGraphNode *node, int64_t *block) {
  *block = bp__node_int(node, "blocksize", 0);
  if (node->inputs[0]->ndim != 4 || *block < 1 || *block > INT16_MAX)
    return bp__op_bad(node, "it takes 4 dimensions and a positive blocksize");
  return 0;
}

BP_ROW_INFER(depth_to_space) {
  const int64_t *in = node->inputs[0]->shape;
  const char *mode = bp__node_str(node, "mode", "DCR");
  int64_t b;
  if (block_size(node, &b))
    return -1;
  if (bp__extent_is_open(in[1]) || in[1] % (b * b) != 0 ||
      (strcmp(mode, "DCR") && strcmp(mode, "CRD")))
    return bp__op_bad(node, "its channels or mode %s do not fit a blocksize of %lld", mode,
                      (long long)b);
  int64_t shape[4] = {in[0], in[1] / (b * b), bp__extent_multiply(&graph->extents, in[2], b),
                      bp__extent_multiply(&graph->extents, in[3], b)};
  if (shape[2] == BP_EXTENT_NONE || shape[3] == BP_EXTENT_NONE)
    return -1;
  return set_output_like(graph, node, shape, 4);
}

static const BpIrNode *depth_to_space_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *b, *cell, *indices[4] = {axes[0]};
  int64_t block;
  if (block_size(op->node, &block))
    return NULL;
  b = x_index(ir, block);
  cell = x_add(ir, x_mul(ir, bp_ir_binary(ir, BP_IR_FLOORMOD, axes[2], b), b),
               bp_ir_binary(ir, BP_IR_FLOORMOD, axes[3], b));
  if (!strcmp(bp__node_str(op->node, "mode", "DCR"), "DCR"))
    indices[1] = x_add(ir, x_mul(ir, cell, x_index(ir, op->node->outputs[0]->shape[1])), axes[1]);
  else
    indices[1] = x_add(ir, x_mul(ir, axes[1], x_index(ir, block * block)), cell);
  indices[2] = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[2], b);
  indices[3] = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[3], b);
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(depth_to_space) {
  return bp__op_give_body(op, op->node->op->name, depth_to_space_body, outputs);
}

BP_ROW_INFER(space_to_depth) {
  const int64_t *in = node->inputs[0]->shape;
  const char *mode = bp__node_str(node, "mode", "DCR");
  BpExtents *e = &graph->extents;
  int64_t b, shape[4] = {in[0]};
  if (block_size(node, &b))
    return -1;
  if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
    return bp__op_bad(node, "mode %s is neither DCR nor CRD", mode);
  shape[1] = bp__extent_multiply(e, in[1], b * b);
  for (int32_t i = 2; i < 4; i++) {
    shape[i] = bp__extent_divide(e, in[i], b);
    int64_t whole = bp__extent_multiply(e, shape[i], b);
    if (bp__op_require(graph, node, bp__extent_subtract(e, whole, in[i]),
                       "its blocksize does not divide its height and width"))
      return -1;
    shape[i] = bp__extent_define(e, shape[i]);
  }
  return set_output_like(graph, node, shape, 4);
}

static const BpIrNode *space_to_depth_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  int is_cell_first = !strcmp(bp__node_str(op->node, "mode", "DCR"), "DCR");
  const BpIrNode *b, *inner, *major, *minor, *cell, *indices[4] = {axes[0]};
  int64_t block;
  if (block_size(op->node, &block))
    return NULL;
  b = x_index(ir, block);
  inner = bp__op_extent(op, is_cell_first ? op->node->inputs[0]->shape[1] : block * block);
  major = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[1], inner);
  minor = bp_ir_binary(ir, BP_IR_FLOORMOD, axes[1], inner);
  cell = is_cell_first ? major : minor;
  indices[1] = is_cell_first ? minor : major;
  indices[2] = x_add(ir, x_mul(ir, axes[2], b), bp_ir_binary(ir, BP_IR_FLOORDIV, cell, b));
  indices[3] = x_add(ir, x_mul(ir, axes[3], b), bp_ir_binary(ir, BP_IR_FLOORMOD, cell, b));
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(space_to_depth) {
  return bp__op_give_body(op, op->node->op->name, space_to_depth_body, outputs);
}

/* ---- Trilu ------------------------------------------------------------------------------- */

static int trilu_diagonal(const BpGraphNode *node, int64_t *k) {
  *k = 0;
  return bp__node_input(node, 1) && bp__op_const_ints(node, 1, k, 1) != 1
             ? bp__op_error(node, "its diagonal must be a constant scalar")
             : 0;
}

BP_ROW_INFER(trilu) {
  const BpGraphValue *in = node->inputs[0];
  int64_t k;
  if (trilu_diagonal(node, &k))
    return -1;
  if (in->ndim < 2 || k > INT32_MAX || k < -(int64_t)INT32_MAX)
    return bp__op_bad(node, "it takes at least 2 dimensions and a small diagonal");
  return set_output_like(graph, node, in->shape, in->ndim);
}

static const BpIrNode *trilu_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *in = op->node->inputs[0];
  const BpIrNode *row = axes[in->ndim - 2], *column = axes[in->ndim - 1], *keep;
  int64_t k;
  if (trilu_diagonal(op->node, &k))
    return NULL;
  row = x_add(ir, row, x_index(ir, k));
  keep = bp__node_int(op->node, "upper", 1) ? x_ge(ir, column, row) : x_ge(ir, row, column);
  return x_choose(ir, keep, bp_te_read(te, op->inputs[0], axes), x_number(ir, in->dtype, 0));
}

BP_ROW_COMPUTE(trilu) {
  return bp__op_give_body(op, op->node->op->name, trilu_body, outputs);
}

/* ---- CenterCropPad ----------------------------------------------------------------------- */

/* Gives the axis an extent: takes its middle, or pads it with zeros at both ends. */
static BpGraphValue *center_along(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x,
                                  int32_t axis, int64_t extent) {
  int64_t pads[2 * BP_GRAPH_MAX_NDIM] = {0}, more = x ? extent - x->shape[axis] : 0;
  if (more == 0)
    return x;
  if (more < 0)
    return bp__op_slice(graph, node, x, axis, -more / 2, -more / 2 + extent);
  pads[axis] = more / 2;
  pads[x->ndim + axis] = more - more / 2;
  return bp__op_binary(graph, node, "Pad", x, bp__graph_int_vector(graph, pads, 2 * x->ndim));
}

/* CenterCropPad by a slice and by pads that a run computes. A negative extent makes pads that are
 * impossible, so that the run fails. */
static int center_in(BpVectorMaker m, BpGraphNode *node, const int64_t *axes, int32_t count) {
  const BpGraphValue *in = node->inputs[0];
  int64_t own[BP_GRAPH_MAX_NDIM], dims[BP_GRAPH_MAX_NDIM], given;
  int32_t axis;
  for (int32_t i = 0; i < count; i++) {
    if (bp__op_axis(node, axes[i], in->ndim, &axis))
      return -1;
    dims[i] = axis;
    own[i] = in->shape[axis];
  }
  BpGraphValue *wanted = bp__vector_read(m, 1, BP_GRAPH_MAX_NDIM, &given), *zero = v_number(m, 0);
  if (!wanted)
    return -1;
  if (given != count)
    return bp__op_bad(node, "its shape has %d extents for %d axes", (int)given, count);
  BpGraphValue *extents = v_extents(m, own, count), *two = v_number(m, 2);
  BpGraphValue *more = v_binary(m, "Sub", wanted, extents);
  BpGraphValue *start =
      v_binary(m, "Div", v_greatest(m, v_binary(m, "Sub", zero, more), zero), two);
  BpGraphValue *end = v_binary(m, "Add", start, v_least(m, wanted, extents));
  BpGraphValue *added = v_greatest(m, more, zero);
  BpGraphValue *before = v_binary(m, "Div", added, two);
  before = v_choose(m, v_binary(m, "Less", wanted, zero), v_number(m, -(INT64_C(1) << 40)), before);
  BpGraphValue *pads[] = {before, v_binary(m, "Sub", added, v_binary(m, "Div", added, two))};
  BpGraphValue *none = bp__graph_constant(m.graph, node->name, in->dtype, NULL, 0, NULL);
  BpGraphValue *places = bp__graph_int_vector(m.graph, dims, count);
  BpGraphValue *x =
      bp__op_apply(m.graph, "", "Slice", node->name,
                   (BpGraphValue *[]){node->inputs[0], start, end, places}, 4, NULL, 0);
  node->outputs[0] =
      bp__op_apply(m.graph, "", "Pad", node->name,
                   (BpGraphValue *[]){x, v_join(m, pads, 2), none, places}, 4, NULL, 0);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(center_crop_pad) {
  BpGraphValue *x = node->inputs[0];
  int64_t axes[BP_GRAPH_MAX_NDIM], extents[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, -1, "axes", axes, BP_GRAPH_MAX_NDIM), axis, ndim = x->ndim;
  if (count == -1)
    return -1;
  for (int32_t i = 0; count == -2 && i < ndim; i++)
    axes[i] = i;
  count = count == -2 ? ndim : count;
  /* Slices and pads by expressions of open extents would produce thousands of lines of code. */
  if (bp__value_is_open(x) && !bp__vector_is_of_data(node, 1))
    return bp__op_error(node, "its input has open extents, and its shape is known when compiling");
  if (!node->inputs[1]->data)
    return center_in((BpVectorMaker){graph, node}, node, axes, count);
  int32_t given = bp__op_const_ints(node, 1, extents, BP_GRAPH_MAX_NDIM);
  if (given < 0)
    return -1;
  if (given != count)
    return bp__op_bad(node, "its shape has %d extents for %d axes", given, count);
  for (int32_t i = 0; i < count; i++) {
    if (bp__op_axis(node, axes[i], ndim, &axis))
      return -1;
    if (extents[i] < 0)
      return bp__op_bad(node, "its extent %lld is below 0", (long long)extents[i]);
    x = center_along(graph, node, x, axis, extents[i]);
  }
  node->outputs[0] = x;
  return x ? 0 : -1;
}
