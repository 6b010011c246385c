/* SPDX-License-Identifier: Apache-2.0 */
/* NonMaxSuppression keeps, of the boxes of each class, those that do not overlap a better box by
 * much. The boxes are sorted by their scores; statements decide about each box in turn, and NonZero
 * finds the kept boxes. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* ---- Which are kept ---------------------------------------------------------------------- */

/* KeepBoxes: whether each box is kept, in the order of the scores. The inputs are the boxes, the
 * sorted scores and their original positions, the maximum number of kept boxes, the maximum
 * overlap, and the minimum score. */
enum { BOXES, SCORES, ORDER, MOST, OVERLAP, LEAST };

BP_ROW_INFER(keep_boxes) {
  const BpGraphValue *scores = node->inputs[SCORES];
  return bp__node_set_output(graph, node, 0, BP__BOOL, scores->shape, scores->ndim);
}

typedef struct Suppression {
  const BpOpCompute *op;
  BpIrModule *ir;
  const BpIrNode *batch, *class;
} Suppression;

typedef struct Box {
  const BpIrNode *low[2], *high[2];
} Box;

static const BpIrNode *read_number(const Suppression *s, int32_t input) {
  const BpIrNode *zero = x_index(s->ir, 0);
  return bp_te_read(s->op->te, s->op->inputs[input], &zero);
}

static const BpIrNode *read_at(const Suppression *s, BpTeTensor *tensor, const BpIrNode *place) {
  return bp_te_read(s->op->te, tensor, (const BpIrNode *[]){s->batch, s->class, place});
}

/* Reads the box at a position of the order: its corners, in any order, or its centre and its
 * size. */
static Box read_box(const Suppression *s, BpIrBlock *block, const BpIrNode *place) {
  const BpIrNode *index = bp_ir_block_let(
      block, "box", bp_ir_cast(s->ir, BP__INT64, read_at(s, s->op->inputs[ORDER], place)));
  const BpIrNode *numbers[4], *half = x_number(s->ir, BP__FLOAT32, 0.5);
  Box box;
  for (int32_t i = 0; i < 4; i++)
    numbers[i] = bp_te_read(s->op->te, s->op->inputs[BOXES],
                            (const BpIrNode *[]){s->batch, index, x_index(s->ir, i)});
  for (int32_t i = 0; i < 2; i++) {
    const BpIrNode *a = numbers[i], *b = numbers[i + 2];
    if (bp__node_int(s->op->node, "center_point_box", 0)) {
      b = x_mul(s->ir, b, half);
      box.low[i] = bp_ir_block_let(block, "low", x_sub(s->ir, a, b));
      box.high[i] = bp_ir_block_let(block, "high", x_add(s->ir, a, b));
    } else {
      box.low[i] = bp_ir_block_let(block, "low", x_min(s->ir, a, b));
      box.high[i] = bp_ir_block_let(block, "high", x_max(s->ir, a, b));
    }
  }
  return box;
}

static const BpIrNode *area(BpIrModule *ir, const BpIrNode *const *low,
                            const BpIrNode *const *high) {
  return x_mul(ir, x_sub(ir, high[0], low[0]), x_sub(ir, high[1], low[1]));
}

/* Whether the intersection of two boxes divided by their union exceeds a number. Boxes without an
 * area do not overlap. */
static const BpIrNode *overlap(BpIrModule *ir, Box a, Box b, const BpIrNode *most) {
  const BpIrNode *low[2], *high[2], *zero = x_number(ir, BP__FLOAT32, 0);
  for (int32_t i = 0; i < 2; i++) {
    low[i] = x_max(ir, a.low[i], b.low[i]);
    high[i] = x_max(ir, x_min(ir, a.high[i], b.high[i]), low[i]);
  }
  const BpIrNode *shared = area(ir, low, high);
  const BpIrNode *areas[] = {area(ir, a.low, a.high), area(ir, b.low, b.high)};
  const BpIrNode *covered = x_sub(ir, x_add(ir, areas[0], areas[1]), shared);
  const BpIrNode *are_boxes =
      x_and(ir, x_and(ir, x_lt(ir, zero, areas[0]), x_lt(ir, zero, areas[1])),
            x_and(ir, x_lt(ir, zero, shared), x_lt(ir, zero, covered)));
  return x_and(ir, are_boxes, x_lt(ir, most, x_div(ir, shared, covered)));
}

static int keep_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                     BpTeTensor *const *tensors, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  Suppression s = {op, ir, rows[0], rows[1]};
  const BpIrNode *zero = x_index(ir, 0), *one = x_index(ir, 1);
  const BpIrNode *extent = bp__op_extent(op, op->node->inputs[SCORES]->shape[2]);
  const BpIrNode *count = bp_ir_block_variable(block, "count", zero);
  const BpIrNode *no = bp_ir_int(ir, BP__BOOL, 0), *yes = bp_ir_int(ir, BP__BOOL, 1);
  const BpIrNode *most = bp_ir_block_let(block, "most", read_number(&s, MOST));
  const BpIrNode *share = bp_ir_block_let(block, "share", read_number(&s, OVERLAP));
  const BpIrNode *least = bp_ir_block_let(block, "least", read_number(&s, LEAST));
  const BpIrNode *i = bp_ir_block_for(block, "i", zero, extent);
  const BpIrNode *at[] = {s.batch, s.class, i};
  bp_ir_block_add(block, bp_te_write(te, tensors[0], at, no));
  bp_ir_block_if(block, x_and(ir, x_lt(ir, bp_ir_block_value(block, count), most),
                              x_lt(ir, least, read_at(&s, op->inputs[SCORES], i))));
  Box box = read_box(&s, block, i);
  const BpIrNode *before = bp_ir_block_variable(block, "before", zero);
  const BpIrNode *is_free = bp_ir_block_variable(block, "is_free", one);
  const BpIrNode *end = x_min(ir, x_mul(ir, i, bp_ir_block_value(block, is_free)), i);
  bp_ir_block_while(block, x_lt(ir, bp_ir_block_value(block, before), end));
  const BpIrNode *other = bp_ir_block_let(block, "other", bp_ir_block_value(block, before));
  bp_ir_block_assign(block, before, x_add(ir, other, one));
  bp_ir_block_if(block, read_at(&s, tensors[0], other));
  bp_ir_block_if(block, overlap(ir, box, read_box(&s, block, other), share));
  bp_ir_block_assign(block, is_free, zero);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  bp_ir_block_if(block, bp_ir_binary(ir, BP_IR_EQ, bp_ir_block_value(block, is_free), one));
  bp_ir_block_add(block, bp_te_write(te, tensors[0], at, yes));
  bp_ir_block_assign(block, count, x_add(ir, bp_ir_block_value(block, count), one));
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  return 0;
}

BP_ROW_COMPUTE(keep_boxes) {
  const BpGraphValue *out = op->node->outputs[0];
  BpTeResult result = {out->dtype, out->shape, out->ndim};
  BpOpCompute copy = *op;
  return bp__op_statements(op, out->shape, 2, &result, 1, keep_body, &copy, outputs);
}

/* ---- The operator ------------------------------------------------------------------------ */

/* Input `index` as a vector of one element, or a constant if the input is absent. */
static BpGraphValue *number_of(BpVectorMaker m, int32_t index, BpDataType dtype, double otherwise) {
  BpGraphValue *value = bp__node_input(m.node, index);
  int64_t one = 1;
  if (!value) {
    value = bp__graph_constant(m.graph, m.node->name, BP__FLOAT32, &one, 1, NULL);
    if (value)
      bp__value_put_float(value, 0, otherwise);
  } else if (bp__value_num_elements(value) != 1) {
    bp__op_bad(m.node, "input %d is no scalar", index);
    return NULL;
  }
  return bp__op_cast(m.graph, m.node, bp__op_reshape(m.graph, m.node, value, &one, 1), dtype);
}

/* Checks boxes and scores; a run checks extents that are open. */
static int check_boxes(BpGraph *graph, BpGraphNode *node) {
  static const char complaint[] = "its boxes are not batches of boxes of 4 numbers, or its scores "
                                  "not batches of classes of as many";
  const BpGraphValue *boxes = node->inputs[0], *scores = node->inputs[1];
  if (boxes->ndim != 3 || scores->ndim != 3)
    return bp__op_bad(node, "%s", complaint);
  int64_t batch = bp__extent_is_open(boxes->shape[0]) ? scores->shape[0] : boxes->shape[0];
  int64_t count = bp__extent_is_open(boxes->shape[1]) ? scores->shape[2] : boxes->shape[1];
  int64_t shapes[2][3] = {{batch, count, 4}, {batch, scores->shape[1], count}};
  for (int32_t i = 0; i < 2; i++)
    if (!(node->inputs[i] = bp__op_as_shape(graph, node, node->inputs[i], shapes[i], complaint)))
      return -1;
  if (!bp__dtype_equal(boxes->dtype, BP__FLOAT32) || !bp__dtype_equal(scores->dtype, BP__FLOAT32))
    return bp__op_error(node, "its boxes and scores are not float32");
  return 0;
}

/* Sorts each class' boxes by their scores, and computes which of them are kept. */
static BpGraphValue *keep(BpVectorMaker m, BpGraphValue **order) {
  BpGraphValue *boxes = m.node->inputs[0], *scores = m.node->inputs[1];
  BpGraphValue *inputs[] = {scores, bp__graph_int_vector(m.graph, &scores->shape[2], 1)};
  BpGraphNode *sorted = inputs[1] ? bp__graph_node(m.graph, bp__op_find("", "TopK"), m.node->name,
                                                   inputs, 2, 2, NULL, 0)
                                  : NULL;
  if (!sorted)
    return NULL;
  sorted->version = BP_OP_NEWEST_VERSION;
  if (bp__op_append(m.graph, sorted))
    return NULL;
  *order = sorted->outputs[1];
  BpGraphAttr center =
      bp__attr_int(m.graph, "center_point_box", bp__node_int(m.node, "center_point_box", 0));
  BpGraphValue *parts[] = {[BOXES] = boxes,
                           [SCORES] = sorted->outputs[0],
                           [ORDER] = *order,
                           [MOST] = number_of(m, 2, BP__INT64, 0),
                           [OVERLAP] = number_of(m, 3, BP__FLOAT32, 0),
                           [LEAST] = number_of(m, 4, BP__FLOAT32, -INFINITY)};
  return bp__op_apply(m.graph, "backplane", "KeepBoxes", m.node->name, parts, 6, &center, 1);
}

BP_ROW_EXPAND(non_max_suppression) {
  BpVectorMaker m = {graph, node};
  BpGraphValue *order = NULL, *kept;
  int64_t all = -1;
  if (check_boxes(graph, node) || !(kept = keep(m, &order)))
    return -1;
  BpGraphValue *places = bp__op_places_of(graph, node, bp__op_reshape(graph, node, kept, &all, 1));
  BpGraphValue *classes = v_extents(m, &kept->shape[1], 1);
  BpGraphValue *boxes = v_extents(m, &kept->shape[2], 1);
  BpGraphValue *rows = v_binary(m, "Div", places, boxes);
  BpGraphValue *columns[] = {
      v_column(m, v_binary(m, "Div", rows, classes)),
      v_column(m, v_binary(m, "Mod", rows, classes)),
      v_column(m, v_binary(m, "Gather", bp__op_reshape(graph, node, order, &all, 1), places))};
  BpGraphAttr axis = bp__attr_int(graph, "axis", 1);
  node->outputs[0] = bp__op_apply(graph, "", "Concat", node->name, columns, 3, &axis, 1);
  return node->outputs[0] ? 0 : -1;
}
