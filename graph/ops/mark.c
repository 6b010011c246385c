/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that distinguish positions by their indices: OneHot, Hardmax, EyeLike, NonZero,
 * Compress, ReverseSequence. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* ---- Marks ------------------------------------------------------------------------------- */

BpGraphValue *bp__op_counting(BpGraph *graph, const BpGraphNode *node, int64_t count) {
  BpGraphAttr attrs[] = {bp__attr_int(graph, "start", 0), bp__attr_int(graph, "step", 1),
                         bp__attr_int(graph, "count", count)};
  return bp__op_apply(graph, "backplane", "Counting", node->name, NULL, 0, attrs, 3);
}

/* Whether the index in each row equals the position along `axis` of the result; `rows` has extent 1
 * along the axis. */
static BpGraphValue *marks(BpGraph *graph, const BpGraphNode *node, BpGraphValue *rows,
                           int32_t axis, int64_t extent) {
  int64_t shape[BP_GRAPH_MAX_NDIM] = {extent};
  for (int32_t i = axis + 1; rows && i < rows->ndim; i++)
    shape[i - axis] = 1;
  BpGraphValue *places = rows ? bp__op_reshape(graph, node, bp__op_counting(graph, node, extent),
                                               shape, rows->ndim - axis)
                              : NULL;
  return bp__op_binary(graph, node, "Equal", rows, places);
}

/* The depth as a vector of one element, which becomes an extent. */
static BpGraphValue *read_depth(BpGraph *graph, const BpGraphNode *node, int64_t *depth) {
  BpGraphValue *value = node->inputs[1];
  BpVectorMaker m = {graph, node};
  int64_t one = 1;
  if (bp__value_is_open(value) || bp__value_num_elements(value) != 1) {
    bp__op_bad(node, "input 1, its depth, is not one number");
    return NULL;
  }
  value = bp__op_reshape(graph, node, bp__op_cast(graph, node, value, BP__INT64), &one, 1);
  if (!value)
    return NULL;
  if (value->data && (bp__value_get_int(value, 0) < 1 || bp__value_get_int(value, 0) > INT32_MAX)) {
    bp__op_bad(node, "its depth is %lld", (long long)bp__value_get_int(value, 0));
    return NULL;
  }
  if (!value->data && !value->extents) {
    BpGraphValue *fits = v_binary(m, "And", v_binary(m, "GreaterOrEqual", value, v_number(m, 1)),
                                  v_binary(m, "LessOrEqual", value, v_number(m, INT32_MAX)));
    value = bp__op_bind(graph, node, v_choose(m, fits, value, v_number(m, -1)), NULL,
                        "its depth is not positive, or more than an int32");
  }
  if (value)
    *depth = value->data ? bp__value_get_int(value, 0) : value->extents[0];
  return value;
}

/* OneHot: negative indices count from the depth; indices outside the depth set no element. */
BP_ROW_EXPAND(one_hot) {
  BpGraphValue *indices = node->inputs[0], *values = node->inputs[2], *wide, *rows;
  int64_t shape[BP_GRAPH_MAX_NDIM + 1], zero = 0, extent = 0;
  int32_t axis, ndim = indices->ndim + 1;
  BpGraphValue *depth = read_depth(graph, node, &extent);
  if (!depth || bp__op_axis(node, bp__node_int(node, "axis", -1), ndim, &axis))
    return -1;
  if (values->ndim != 1 || values->shape[0] != 2)
    return bp__op_bad(node, "its values are not a pair");
  if (ndim > BP_GRAPH_MAX_NDIM)
    return bp__op_error(node, "its output has more than %d dimensions", BP_GRAPH_MAX_NDIM);
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = i == axis ? 1 : indices->shape[i - (i > axis)];
  wide = bp__op_reshape(graph, node, bp__op_cast(graph, node, indices, BP__INT64), shape, ndim);
  rows = bp__op_binary(graph, node, "Less", wide, bp__graph_int_vector(graph, &zero, 1));
  rows = bp__op_apply(
      graph, "", "Where", node->name,
      (BpGraphValue *[]){rows, bp__op_binary(graph, node, "Add", wide, depth), wide}, 3, NULL, 0);
  node->outputs[0] = bp__op_apply(graph, "", "Where", node->name,
                                  (BpGraphValue *[]){marks(graph, node, rows, axis, extent),
                                                     bp__op_slice(graph, node, values, 0, 1, 2),
                                                     bp__op_slice(graph, node, values, 0, 0, 1)},
                                  3, NULL, 0);
  return node->outputs[0] ? 0 : -1;
}

/* Hardmax: one at the first of the largest elements, else zero. Before version 13 all axes from
 * `axis` on count as one axis. */
BP_ROW_EXPAND(hardmax) {
  BpGraphValue *x = node->inputs[0];
  const BpGraphValue *in = x;
  int64_t flat[2] = {1, 1};
  int32_t axis;
  if (bp__op_axis(node, bp__node_int(node, "axis", node->version < 13 ? 1 : -1), x->ndim, &axis))
    return -1;
  if (node->version < 13) {
    for (int32_t i = 0; i < in->ndim; i++)
      flat[i >= axis] = bp__extent_multiply(&graph->extents, flat[i >= axis], in->shape[i]);
    if (flat[0] == BP_EXTENT_NONE || flat[1] == BP_EXTENT_NONE)
      return -1;
    x = bp__op_reshape(graph, node, x, flat, 2);
    axis = 1;
  }
  if (!x)
    return -1;
  int64_t extent = x->shape[axis];
  BpGraphAttr attr = bp__attr_int(graph, "axis", axis);
  BpGraphValue *largest = bp__op_apply(graph, "backplane", "ArgMax", node->name, &x, 1, &attr, 1);
  BpGraphValue *found = marks(graph, node, largest, axis, extent);
  found = bp__op_cast(graph, node, found, in->dtype);
  node->outputs[0] = bp__op_reshape(graph, node, found, in->shape, in->ndim);
  return node->outputs[0] ? 0 : -1;
}

/* ---- Constants --------------------------------------------------------------------------- */

/* An identity matrix with open extents: one where the column minus the row is `k`. */
static BpGraphValue *open_eye(BpGraph *graph, const BpGraphNode *node, BpDataType dtype,
                              int64_t k) {
  const int64_t *shape = node->inputs[0]->shape, column[] = {shape[0], 1};
  BpGraphValue *rows = bp__op_counting(graph, node, shape[0]);
  rows = bp__op_binary(graph, node, "Add", rows, bp__graph_int_vector(graph, &k, 1));
  rows = rows ? bp__op_reshape(graph, node, rows, column, 2) : NULL;
  return bp__op_cast(
      graph, node,
      bp__op_binary(graph, node, "Equal", rows, bp__op_counting(graph, node, shape[1])), dtype);
}

BP_ROW_EXPAND(eye_like) {
  const BpGraphValue *in = node->inputs[0];
  BpGraphValue *eye, *one;
  BpDataType dtype = in->dtype;
  int64_t k = bp__node_int(node, "k", 0);
  if (in->ndim != 2)
    return bp__op_bad(node, "its input has %d dimensions, not 2", in->ndim);
  if (bp__node_attr(node, "dtype") &&
      (bp__dtype_from_onnx(bp__node_int(node, "dtype", 1), &dtype) || dtype.bits < 8))
    return bp__op_error(node, "type number %lld is not supported",
                        (long long)bp__node_int(node, "dtype", 1));
  if (bp__value_is_open(in)) {
    node->outputs[0] = open_eye(graph, node, dtype, k);
    return node->outputs[0] ? 0 : -1;
  }
  eye = bp__graph_constant(graph, node->name, dtype, in->shape, 2, NULL);
  one = bp__op_cast(graph, node, bp__graph_float_scalar(graph, 1.0f), dtype);
  if (!eye || !one)
    return -1;
  for (int64_t row = 0; row < in->shape[0]; row++)
    if (k >= -row && k < in->shape[1] - row)
      bp__value_copy_element(eye, row * in->shape[1] + row + k, one, 0);
  node->outputs[0] = eye;
  return 0;
}

/* The number of elements of a constant that are not zero. */
static int64_t count_marked(const BpGraphValue *value) {
  int64_t count = 0;
  for (int64_t i = 0, n = bp__value_num_elements(value); i < n; i++)
    count += bp__value_get_float(value, i) != 0;
  return count;
}

static BpGraphValue *constant_places(BpGraph *graph, const BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[2] = {in->ndim, count_marked(in)}, found = 0;
  BpGraphValue *places = bp__graph_constant(graph, node->name, BP__INT64, shape, 2, NULL);
  int64_t *data = places ? bp__graph_constant_data(places) : NULL;
  for (int64_t i = 0, n = bp__value_num_elements(in); i < n && data; i++) {
    if (bp__value_get_float(in, i) == 0)
      continue;
    int64_t rest = i;
    for (int32_t d = in->ndim - 1; d >= 0; d--) {
      data[d * shape[1] + found] = rest % in->shape[d];
      rest /= in->shape[d];
    }
    found++;
  }
  return places;
}

BpGraphValue *bp__op_places_of(BpGraph *graph, const BpGraphNode *node, BpGraphValue *vector) {
  BpGraphNode *marked = vector ? bp__graph_node(graph, bp__op_find("backplane", "Marked"),
                                                node->name, &vector, 1, 2, NULL, 0)
                               : NULL;
  if (!marked || bp__op_append(graph, marked))
    return NULL;
  BpGraphValue *count = bp__op_bind(graph, node, marked->outputs[1], NULL,
                                    "its number of found elements is negative");
  return bp__op_apply(graph, "backplane", "First", node->name,
                      (BpGraphValue *[]){marked->outputs[0], count}, 2, NULL, 0);
}

/* The indices, one row for each dimension, of positions that are given as row-major numbers. The
 * positions of a scalar have no row, as ONNX says; numpy and onnxruntime give them one. */
static BpGraphValue *indices_of(BpGraph *graph, const BpGraphNode *node, BpGraphValue *places) {
  const BpGraphValue *in = node->inputs[0];
  BpGraphValue *rows[BP_GRAPH_MAX_NDIM];
  int64_t row[2] = {1, -1};
  places = bp__op_reshape(graph, node, places, row, 2);
  if (in->ndim == 0)
    return bp__op_slice(graph, node, places, 0, 0, 0);
  for (int32_t d = in->ndim - 1; d >= 0; d--) {
    BpGraphValue *extent = bp__op_extents(graph, node, &in->shape[d], 1);
    rows[d] = d > 0 ? bp__op_binary(graph, node, "Mod", places, extent) : places;
    places = d > 0 ? bp__op_binary(graph, node, "Div", places, extent) : places;
    if (!rows[d])
      return NULL;
  }
  BpGraphAttr axis = bp__attr_int(graph, "axis", 0);
  return bp__op_apply(graph, "", "Concat", node->name, rows, in->ndim, &axis, 1);
}

BP_ROW_EXPAND(non_zero) {
  BpGraphValue *in = node->inputs[0];
  if (in->data) {
    node->outputs[0] = constant_places(graph, node);
    return node->outputs[0] ? 0 : -1;
  }
  int64_t all = -1;
  BpGraphValue *vector =
      bp__op_reshape(graph, node, bp__op_cast(graph, node, in, BP__BOOL), &all, 1);
  node->outputs[0] = indices_of(graph, node, bp__op_places_of(graph, node, vector));
  return node->outputs[0] ? 0 : -1;
}

/* Marked: a list of the positions that are true, followed by zeros, and the number of these
 * positions. */
BP_ROW_INFER(marked) {
  int64_t one = 1;
  return bp__node_set_output(graph, node, 0, BP__INT64, node->inputs[0]->shape, 1) ||
         bp__node_set_output(graph, node, 1, BP__INT64, &one, 1);
}

static int marked_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                       BpTeTensor *const *tensors, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *zero = x_index(ir, 0), *extent = bp__op_extent(op, op->node->inputs[0]->shape[0]);
  const BpIrNode *count = bp_ir_block_variable(block, "count", zero);
  (void)rows;
  const BpIrNode *i = bp_ir_block_for(block, "i", zero, extent);
  bp_ir_block_add(block, bp_te_write(te, tensors[0], &i, zero));
  bp_ir_block_if(block, bp_te_read(te, op->inputs[0], &i));
  const BpIrNode *place = bp_ir_block_let(block, "place", bp_ir_block_value(block, count));
  bp_ir_block_add(block, bp_te_write(te, tensors[0], &place, i));
  bp_ir_block_assign(block, count, x_add(ir, place, x_index(ir, 1)));
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  bp_ir_block_add(block, bp_te_write(te, tensors[1], &zero, bp_ir_block_value(block, count)));
  return 0;
}

BP_ROW_COMPUTE(marked) {
  const BpGraphValue *list = op->node->outputs[0], *count = op->node->outputs[1];
  BpTeResult results[] = {{list->dtype, list->shape, 1}, {count->dtype, count->shape, 1}};
  BpOpCompute copy = *op;
  return bp__op_statements(op, NULL, 0, results, 2, marked_body, &copy, outputs);
}

/* The first elements of a vector, as many as a vector of extents states. */
static const BpIrNode *first_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  return bp_te_read(te, op->inputs[0], axes);
}

BP_ROW_COMPUTE(first) {
  return bp__op_give_body(op, "First", first_body, outputs);
}

/* The positions that a constant condition selects. */
static BpGraphValue *constant_choice(BpGraph *graph, const BpGraphNode *node) {
  const BpGraphValue *condition = node->inputs[1];
  int64_t count = count_marked(condition), found = 0;
  BpGraphValue *chosen = bp__graph_constant(graph, node->name, BP__INT64, &count, 1, NULL);
  for (int64_t i = 0; i < condition->shape[0] && chosen; i++)
    if (bp__value_get_int(condition, i))
      ((int64_t *)bp__graph_constant_data(chosen))[found++] = i;
  return chosen;
}

/* Compress: gathers the elements that a condition selects, along an axis or from all elements. */
BP_ROW_EXPAND(compress) {
  BpGraphValue *in = node->inputs[0], *condition = node->inputs[1];
  int64_t all = -1;
  int32_t axis = 0;
  if (!bp__node_attr(node, "axis"))
    in = bp__op_reshape(graph, node, in, &all, 1);
  else if (bp__op_axis(node, bp__node_int(node, "axis", 0), in->ndim, &axis))
    return -1;
  if (!in)
    return -1;
  if (!bp__dtype_equal(condition->dtype, BP__BOOL) || condition->ndim != 1)
    return bp__op_bad(node, "its condition is no vector of bool");
  int64_t behind = bp__extent_subtract(&graph->extents, in->shape[axis], condition->shape[0]);
  if (behind < 0 && !bp__extent_is_open(behind))
    return bp__op_bad(node, "its condition is longer than axis %d", axis);
  if (!bp__op_bind(graph, node, bp__op_extents(graph, node, &behind, 1), NULL,
                   "its condition is longer than the axis"))
    return -1;
  BpGraphValue *chosen =
      condition->data ? constant_choice(graph, node) : bp__op_places_of(graph, node, condition);
  BpGraphAttr attr = bp__attr_int(graph, "axis", axis);
  node->outputs[0] =
      bp__op_apply(graph, "", "Gather", node->name, (BpGraphValue *[]){in, chosen}, 2, &attr, 1);
  return node->outputs[0] ? 0 : -1;
}

/* ---- ReverseSequence --------------------------------------------------------------------- */

static int read_sequence(const BpGraphNode *node, int32_t *batch, int32_t *time) {
  const BpGraphValue *in = node->inputs[0], *lengths = node->inputs[1];
  if (bp__op_axis(node, bp__node_int(node, "batch_axis", 1), in->ndim, batch) ||
      bp__op_axis(node, bp__node_int(node, "time_axis", 0), in->ndim, time))
    return -1;
  if (*batch == *time || lengths->dtype.code != BP_DTYPE_INT || lengths->ndim != 1)
    return bp__op_bad(node, "its axes are one, or its lengths are no vector of integers");
  return 0;
}

BP_ROW_EXPAND(reverse_sequence) {
  int32_t batch, time;
  if (read_sequence(node, &batch, &time))
    return -1;
  node->inputs[1] = bp__op_as_shape(graph, node, node->inputs[1], &node->inputs[0]->shape[batch],
                                    "it has not one length for each of its sequences");
  return node->inputs[1] ? 1 : -1;
}

BP_ROW_INFER(reverse_sequence) {
  const BpGraphValue *in = node->inputs[0];
  int32_t batch, time;
  if (read_sequence(node, &batch, &time))
    return -1;
  return bp__node_set_output(graph, node, 0, in->dtype, in->shape, in->ndim);
}

static const BpIrNode *reverse_sequence_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *in = op->node->inputs[0];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *length, *turned;
  int32_t batch, time;
  if (read_sequence(op->node, &batch, &time))
    return NULL;
  memcpy(indices, axes, (size_t)in->ndim * sizeof(*indices));
  length = bp_te_read(te, op->inputs[1], &axes[batch]);
  length = length ? x_min(ir, bp_ir_cast(ir, BP__INT64, length), bp__op_extent(op, in->shape[time]))
                  : NULL;
  turned = x_sub(ir, x_sub(ir, length, x_index(ir, 1)), axes[time]);
  indices[time] = bp_ir_select(ir, x_lt(ir, axes[time], length), turned, axes[time]);
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(reverse_sequence) {
  return bp__op_give_body(op, "ReverseSequence", reverse_sequence_body, outputs);
}
