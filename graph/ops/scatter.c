/* SPDX-License-Identifier: Apache-2.0 */
/* Scattering: a copy of the data in which updates replace some elements, or are combined with them.
 * Rows whose updates never reach another row run in parallel. The updates of a row are applied in
 * order, so an element keeps its last update. An update with an index outside the data is
 * ignored. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* Reads the operation that combines an element with its update; BP_IR_NONE replaces the element. */
static int read_reduction(const BpGraphNode *node, int32_t *kind) {
  static const struct {
    const char *name;
    int32_t kind;
  } reductions[] = {{"none", BP_IR_NONE},
                    {"add", BP_IR_ADD},
                    {"mul", BP_IR_MUL},
                    {"max", BP_IR_MAX},
                    {"min", BP_IR_MIN}};
  const char *name = bp__node_str(node, "reduction", "none");
  for (size_t i = 0; i < sizeof(reductions) / sizeof(reductions[0]); i++)
    if (!strcmp(name, reductions[i].name)) {
      *kind = reductions[i].kind;
      return *kind == BP_IR_NONE || node->inputs[0]->dtype.code != BP_DTYPE_BOOL
                 ? 0
                 : bp__op_error(node, "reduction %s of bool is not supported", name);
    }
  return bp__op_bad(node, "reduction '%s' is not one of none, add, mul, max and min", name);
}

static int check_types(const BpGraphNode *node) {
  int32_t kind;
  if (node->inputs[1]->dtype.code != BP_DTYPE_INT)
    return bp__op_bad(node, "its indices are not integers");
  if (!bp__dtype_equal(node->inputs[0]->dtype, node->inputs[2]->dtype))
    return bp__op_bad(node, "its data and its updates differ in type");
  return read_reduction(node, &kind);
}

typedef struct Scatter {
  const BpOpCompute *op;
  BpIrModule *ir;
  BpIrBlock *block;
  BpTeTensor *out;
  const BpGraphValue *data, *indices;
  int32_t axis;      /* axis of ScatterElements */
  int32_t reduction; /* BP_IR_* */
} Scatter;

static int begin_scatter(Scatter *scatter, const BpOpCompute *op) {
  *scatter = (Scatter){.op = op,
                       .ir = bp_te_ir(op->te),
                       .data = op->node->inputs[0],
                       .indices = op->node->inputs[1]};
  return read_reduction(op->node, &scatter->reduction);
}

static const BpIrNode *loop(const Scatter *scatter, const char *name, int64_t extent) {
  return bp_ir_block_for(scatter->block, name, x_index(scatter->ir, 0),
                         bp__op_extent(scatter->op, extent));
}

static void copy_element(const Scatter *scatter, const BpIrNode *const *at) {
  bp_ir_block_add(scatter->block,
                  bp_te_write(scatter->op->te, scatter->out, at,
                              bp_te_read(scatter->op->te, scatter->op->inputs[0], at)));
}

/* Updates element `at` of the output with the update at `from`. */
static void update_element(const Scatter *scatter, const BpIrNode *const *at,
                           const BpIrNode *const *from) {
  BpTe *te = scatter->op->te;
  const BpIrNode *value = bp_te_read(te, scatter->op->inputs[2], from);
  if (scatter->reduction != BP_IR_NONE)
    value = bp_ir_cast(
        scatter->ir, scatter->data->dtype,
        bp_ir_binary(scatter->ir, scatter->reduction, bp_te_read(te, scatter->out, at), value));
  bp_ir_block_add(scatter->block, bp_te_write(te, scatter->out, at, value));
}

/* Reads the index at `from`, counted from the start, of an axis of the data; `inside` is set to
 * whether the index and all earlier ones are inside the data. */
static const BpIrNode *read_index(const Scatter *scatter, const BpIrNode *const *from, int32_t axis,
                                  const BpIrNode **inside) {
  BpIrModule *ir = scatter->ir;
  const BpIrNode *extent = bp__op_extent(scatter->op, scatter->data->shape[axis]);
  const BpIrNode *index = bp_te_read(scatter->op->te, scatter->op->inputs[1], from);
  index = x_from_end(ir, index, extent);
  const BpIrNode *within = x_and(ir, x_ge(ir, index, x_index(ir, 0)), x_lt(ir, index, extent));
  *inside = *inside ? x_and(ir, *inside, within) : within;
  return index;
}

static int compute_rows(Scatter *scatter, const int64_t *rows, int32_t num_rows,
                        BpTeStatements body, BpTeTensor **outputs) {
  const BpGraphValue *out = scatter->op->node->outputs[0];
  BpTeResult result = {out->dtype, out->shape, out->ndim};
  return bp__op_statements(scatter->op, rows, num_rows, &result, 1, body, scatter, outputs);
}

/* ---- Along an axis ----------------------------------------------------------------------- */

#define SHAPES_DIFFER                                                                              \
  "its indices and updates differ in shape, or from the data in their number of dimensions"

static int scatter_axis(const BpGraphNode *node, int32_t *axis) {
  return bp__op_axis(node, bp__node_int(node, "axis", 0), node->inputs[0]->ndim, axis);
}

/* Checks that indices and updates have one shape, whose extents, except along the axis, are at most
 * those of the data. */
BP_ROW_EXPAND(scatter_elements) {
  const BpGraphValue *in = node->inputs[0], *indices = node->inputs[1];
  int64_t most[BP_GRAPH_MAX_NDIM];
  int32_t axis;
  if (check_types(node) || scatter_axis(node, &axis))
    return -1;
  if (indices->ndim != in->ndim || node->inputs[2]->ndim != in->ndim)
    return bp__op_bad(node, "%s", SHAPES_DIFFER);
  memcpy(most, in->shape, sizeof(most));
  most[axis] = indices->shape[axis];
  node->inputs[2] = bp__op_as_shape(graph, node, node->inputs[2], indices->shape, SHAPES_DIFFER);
  return node->inputs[2] && !bp__op_at_most(graph, node, indices->shape, most, in->ndim,
                                            "its indices are larger than its data")
             ? 1
             : -1;
}

BP_ROW_INFER(scatter_elements) {
  const BpGraphValue *in = node->inputs[0];
  return bp__node_set_output(graph, node, 0, in->dtype, in->shape, in->ndim);
}

/* Whether the data may be longer than the indices along an axis. */
static bool has_more(const Scatter *scatter, int32_t axis) {
  return axis != scatter->axis && scatter->indices->shape[axis] != scatter->data->shape[axis];
}

/* A row of ScatterElements contains all elements along the axis. */
static int scatter_elements_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                                 BpTeTensor *const *tensors, void *context) {
  Scatter *scatter = context;
  const BpIrNode *at[BP_GRAPH_MAX_NDIM], *from[BP_GRAPH_MAX_NDIM], *inside = NULL;
  (void)te;
  scatter->block = block;
  scatter->out = tensors[0];
  for (int32_t i = 0, row = 0; i < scatter->data->ndim; i++)
    at[i] = i == scatter->axis ? loop(scatter, "k", scatter->data->shape[i]) : rows[row++];
  copy_element(scatter, at);
  bp_ir_block_close(block);
  for (int32_t i = 0; i < scatter->data->ndim; i++)
    if (has_more(scatter, i))
      bp_ir_block_if(
          block, x_lt(scatter->ir, at[i], bp__op_extent(scatter->op, scatter->indices->shape[i])));
  memcpy(from, at, sizeof(from));
  from[scatter->axis] = loop(scatter, "update", scatter->indices->shape[scatter->axis]);
  at[scatter->axis] = read_index(scatter, from, scatter->axis, &inside);
  bp_ir_block_if(block, inside);
  update_element(scatter, at, from);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  for (int32_t i = 0; i < scatter->data->ndim; i++)
    if (has_more(scatter, i))
      bp_ir_block_close(block);
  return 0;
}

BP_ROW_COMPUTE(scatter_elements) {
  int64_t rows[BP_GRAPH_MAX_NDIM];
  int32_t num_rows = 0;
  Scatter scatter;
  if (begin_scatter(&scatter, op) || scatter_axis(op->node, &scatter.axis))
    return -1;
  for (int32_t i = 0; i < scatter.data->ndim; i++)
    if (i != scatter.axis)
      rows[num_rows++] = scatter.data->shape[i];
  return compute_rows(&scatter, rows, num_rows, scatter_elements_body, outputs);
}

/* ---- Whole parts ------------------------------------------------------------------------- */

/* Checks that the updates have the shape of the indices, followed by the shape of the updated parts
 * of the data. */
BP_ROW_EXPAND(scatter_nd) {
  static const char complaint[] = "the shape of its updates is not the shape of its indices "
                                  "followed by the shape of the parts of its data";
  const BpGraphValue *in = node->inputs[0], *indices = node->inputs[1], *updates = node->inputs[2];
  int64_t shape[2 * BP_GRAPH_MAX_NDIM];
  if (check_types(node))
    return -1;
  if (indices->ndim < 1 || in->ndim < 1)
    return bp__op_bad(node, "its indices or its data have no dimensions");
  int32_t outer = indices->ndim - 1;
  int64_t depth = indices->shape[outer];
  memcpy(shape, indices->shape, sizeof(indices->shape));
  if (bp__extent_is_open(depth)) /* the updates tell the depth, and a run checks it */
    depth = shape[outer] = (int64_t)outer + in->ndim - updates->ndim;
  if (depth < 1 || depth > in->ndim)
    return bp__op_bad(node, "its indices are rows of %lld, for data of %d dimensions",
                      (long long)depth, in->ndim);
  node->inputs[1] = bp__op_as_shape(graph, node, node->inputs[1], shape,
                                    "its indices are not rows of as many as its updates ask for");
  if (!node->inputs[1])
    return -1;
  memcpy(shape + outer, in->shape + depth, (size_t)(in->ndim - depth) * sizeof(*shape));
  if (updates->ndim != outer + in->ndim - depth)
    return bp__op_bad(node, "%s", complaint);
  node->inputs[2] = bp__op_as_shape(graph, node, node->inputs[2], shape, complaint);
  return node->inputs[2] ? 1 : -1;
}

BP_ROW_INFER(scatter_nd) {
  const BpGraphValue *in = node->inputs[0];
  return bp__node_set_output(graph, node, 0, in->dtype, in->shape, in->ndim);
}

/* A row of ScatterND is one position of the updated parts, in all parts. */
static int scatter_nd_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                           BpTeTensor *const *tensors, void *context) {
  Scatter *scatter = context;
  const BpIrNode *at[BP_GRAPH_MAX_NDIM] = {NULL}, *place[BP_GRAPH_MAX_NDIM],
                 *from[BP_GRAPH_MAX_NDIM];
  const BpIrNode *inside = NULL;
  int32_t outer = scatter->indices->ndim - 1, depth = (int32_t)scatter->indices->shape[outer];
  int32_t inner = scatter->data->ndim - depth;
  (void)te;
  scatter->block = block;
  scatter->out = tensors[0];
  for (int32_t i = 0; i < depth; i++)
    at[i] = loop(scatter, "k", scatter->data->shape[i]);
  if (inner > 0)
    memcpy(at + depth, rows, (size_t)inner * sizeof(*at));
  copy_element(scatter, at);
  for (int32_t i = 0; i < depth; i++)
    bp_ir_block_close(block);
  for (int32_t i = 0; i < outer; i++)
    from[i] = place[i] = loop(scatter, "update", scatter->indices->shape[i]);
  if (inner > 0)
    memcpy(from + outer, rows, (size_t)inner * sizeof(*from));
  for (int32_t i = 0; i < depth; i++) {
    place[outer] = x_index(scatter->ir, i);
    at[i] = read_index(scatter, place, i, &inside);
  }
  bp_ir_block_if(block, inside);
  update_element(scatter, at, from);
  bp_ir_block_close(block);
  for (int32_t i = 0; i < outer; i++)
    bp_ir_block_close(block);
  return 0;
}

BP_ROW_COMPUTE(scatter_nd) {
  Scatter scatter;
  if (begin_scatter(&scatter, op))
    return -1;
  int32_t depth = (int32_t)scatter.indices->shape[scatter.indices->ndim - 1];
  return compute_rows(&scatter, scatter.data->shape + depth, scatter.data->ndim - depth,
                      scatter_nd_body, outputs);
}
