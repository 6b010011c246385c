/* SPDX-License-Identifier: Apache-2.0 */
/* TopK: the first `k` elements, in order, of each row along an axis, and their positions. The
 * outputs hold a heap of the best elements so far, with the worst of them at its root; at the end
 * the heap is sorted in place. Equal elements keep their order. NaN counts as the largest
 * number. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* Reads `k` and the axis; later versions have `k` as an input. */
static int read_topk(const BpGraphNode *node, int32_t *axis, int64_t *k) {
  const BpGraphValue *in = node->inputs[0];
  int32_t count = bp__node_input(node, 1) ? bp__op_const_extents(node, 1, k, 1)
                                          : bp__op_ints(node, -1, "k", k, 1);
  if (count == -1 || bp__op_axis(node, bp__node_int(node, "axis", -1), in->ndim, axis))
    return -1;
  bool is_closed = !bp__extent_is_open(*k) && !bp__extent_is_open(in->shape[*axis]);
  if (count != 1 || (!bp__extent_is_open(*k) && *k < 0) || (is_closed && *k > in->shape[*axis]))
    return bp__op_bad(node, "k is missing, or it is more than the %lld elements along axis %d",
                      (long long)in->shape[*axis], *axis);
  return 0;
}

BP_ROW_INFER(topk) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM], k;
  int32_t axis;
  if (read_topk(node, &axis, &k))
    return -1;
  if (in->dtype.code == BP_DTYPE_BOOL)
    return bp__op_bad(node, "its input is bool, which has no order");
  if (bp__op_require(graph, node, bp__extent_subtract(&graph->extents, in->shape[axis], k),
                     "its k is more than the number of elements"))
    return -1;
  memcpy(shape, in->shape, sizeof(shape));
  shape[axis] = k;
  if (bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim))
    return -1;
  return node->num_outputs > 1 ? bp__node_set_output(graph, node, 1, BP__INT64, shape, in->ndim)
                               : 0;
}

typedef struct TopK {
  const BpOpCompute *op;
  BpIrModule *ir;
  BpIrBlock *block;
  const BpIrNode *const *rows;
  BpTeTensor *const *heap; /* elements of the heap, and their positions */
  int32_t axis;
  const BpIrNode *k, *all; /* numbers of elements of the heap and of the row */
} TopK;

/* An element and its position in the row. */
typedef struct Entry {
  const BpIrNode *value, *place;
} Entry;

static void indices_of(const TopK *top, const BpIrNode *index, const BpIrNode **indices) {
  for (int32_t i = 0, row = 0; i < top->op->node->inputs[0]->ndim; i++)
    indices[i] = i == top->axis ? index : top->rows[row++];
}

static const BpIrNode *read_at(const TopK *top, BpTeTensor *tensor, const BpIrNode *index) {
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  indices_of(top, index, indices);
  return bp_te_read(top->op->te, tensor, indices);
}

static Entry heap_at(const TopK *top, const BpIrNode *index) {
  return (Entry){read_at(top, top->heap[0], index), read_at(top, top->heap[1], index)};
}

/* Reads the entry into variables, so that later stores to the heap do not change it. */
static Entry hold(const TopK *top, Entry entry) {
  return (Entry){bp_ir_block_let(top->block, "value", entry.value),
                 bp_ir_block_let(top->block, "place", entry.place)};
}

static void put(const TopK *top, const BpIrNode *index, Entry entry) {
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  indices_of(top, index, indices);
  bp_ir_block_add(top->block, bp_te_write(top->op->te, top->heap[0], indices, entry.value));
  bp_ir_block_add(top->block, bp_te_write(top->op->te, top->heap[1], indices, entry.place));
}

static const BpIrNode *is_less(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  const BpIrNode *less = x_lt(ir, a, b);
  if (!bp__dtype_is_float(x_dtype(a)))
    return less;
  return bp_ir_binary(
      ir, BP_IR_OR, less,
      x_and(ir, bp_ir_binary(ir, BP_IR_EQ, a, a), bp_ir_binary(ir, BP_IR_NE, b, b)));
}

/* Whether `a` comes before `b` in the result. */
static const BpIrNode *is_before(const TopK *top, Entry a, Entry b) {
  BpIrModule *ir = top->ir;
  const BpIrNode *x = x_wide(ir, a.value), *y = x_wide(ir, b.value);
  const BpIrNode *less = is_less(ir, x, y), *more = is_less(ir, y, x);
  int is_largest = bp__node_int(top->op->node, "largest", 1) != 0;
  const BpIrNode *is_tie = bp_ir_not(ir, bp_ir_binary(ir, BP_IR_OR, less, more));
  return bp_ir_binary(ir, BP_IR_OR, is_largest ? more : less,
                      x_and(ir, is_tie, x_lt(ir, a.place, b.place)));
}

/* Puts an entry into the heap of `end` elements, whose element `start` is free and is the root of a
 * valid heap. */
static void sift(const TopK *top, const BpIrNode *start, const BpIrNode *end, Entry entry) {
  BpIrModule *ir = top->ir;
  BpIrBlock *block = top->block;
  const BpIrNode *one = x_index(ir, 1), *two = x_index(ir, 2);
  const BpIrNode *hole = bp_ir_block_variable(block, "hole", start);
  const BpIrNode *child =
      bp_ir_block_variable(block, "child", x_add(ir, x_mul(ir, start, two), one));
  bp_ir_block_while(block, x_lt(ir, bp_ir_block_value(block, child), end));
  const BpIrNode *left = bp_ir_block_let(block, "left", bp_ir_block_value(block, child));
  const BpIrNode *right =
      bp_ir_block_let(block, "right", x_min(ir, x_add(ir, left, one), x_sub(ir, end, one)));
  const BpIrNode *last = bp_ir_block_let(
      block, "last",
      bp_ir_select(ir, is_before(top, heap_at(top, left), heap_at(top, right)), right, left));
  bp_ir_block_if(block, is_before(top, entry, heap_at(top, last)));
  put(top, bp_ir_block_value(block, hole), heap_at(top, last));
  bp_ir_block_assign(block, hole, last);
  bp_ir_block_assign(block, child, x_add(ir, x_mul(ir, last, two), one));
  bp_ir_block_else(block);
  bp_ir_block_assign(block, child, end);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  put(top, bp_ir_block_value(block, hole), entry);
}

static const BpIrNode *loop(const TopK *top, const char *name, const BpIrNode *min,
                            const BpIrNode *extent) {
  return bp_ir_block_for(top->block, name, min, extent);
}

/* Makes a heap of the first `k` elements. */
static void fill_heap(const TopK *top) {
  BpIrModule *ir = top->ir;
  const BpIrNode *zero = x_index(ir, 0), *half = x_div(ir, top->k, x_index(ir, 2));
  const BpIrNode *i = loop(top, "i", zero, top->k);
  put(top, i, (Entry){read_at(top, top->op->inputs[0], i), i});
  bp_ir_block_close(top->block);
  const BpIrNode *up = loop(top, "up", zero, half);
  const BpIrNode *start = x_sub(ir, x_sub(ir, half, x_index(ir, 1)), up);
  sift(top, start, top->k, hold(top, heap_at(top, start)));
  bp_ir_block_close(top->block);
}

static int topk_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                     BpTeTensor *const *tensors, void *context) {
  TopK *top = context;
  BpIrModule *ir = top->ir;
  const BpIrNode *zero = x_index(ir, 0), *one = x_index(ir, 1);
  (void)te;
  top->block = block;
  top->rows = rows;
  top->heap = tensors;
  fill_heap(top);
  bp_ir_block_if(block, x_lt(ir, zero, top->k));
  const BpIrNode *i = loop(top, "i", top->k, x_sub(ir, top->all, top->k));
  Entry entry = {bp_ir_block_let(block, "element", read_at(top, top->op->inputs[0], i)), i};
  bp_ir_block_if(block, is_before(top, entry, heap_at(top, zero)));
  sift(top, zero, top->k, entry);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  const BpIrNode *down = loop(top, "down", one, x_max(ir, x_sub(ir, top->k, one), zero));
  const BpIrNode *end = x_sub(ir, top->k, down);
  entry = hold(top, heap_at(top, end));
  put(top, end, heap_at(top, zero));
  sift(top, zero, end, entry);
  bp_ir_block_close(block);
  return 0;
}

BP_ROW_COMPUTE(topk) {
  const BpGraphValue *in = op->node->inputs[0], *out = op->node->outputs[0];
  BpTeResult results[] = {{out->dtype, out->shape, out->ndim}, {BP__INT64, out->shape, out->ndim}};
  BpTeTensor *tensors[2];
  int64_t rows[BP_GRAPH_MAX_NDIM];
  int32_t num_rows = 0;
  TopK top = {.op = op, .ir = bp_te_ir(op->te)};
  int64_t k;
  if (read_topk(op->node, &top.axis, &k))
    return -1;
  top.k = bp__op_extent(op, k);
  top.all = bp__op_extent(op, in->shape[top.axis]);
  for (int32_t i = 0; i < in->ndim; i++)
    if (i != top.axis)
      rows[num_rows++] = in->shape[i];
  if (bp__op_statements(op, rows, num_rows, results, 2, topk_body, &top, tensors))
    return -1;
  memcpy(outputs, tensors, (size_t)op->node->num_outputs * sizeof(*outputs));
  return 0;
}
