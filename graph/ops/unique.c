/* SPDX-License-Identifier: Apache-2.0 */
/* Unique: the different rows of a matrix, or elements of a tensor. Statements sort the indices of
 * the rows (heap sort) and find the groups of equal rows; a run binds the number of groups. NaN is
 * equal to NaN, and larger than other numbers. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

/* Rows of the table that the statements fill: the first row and the size of each group; the group
 * of each row; memory for the sort, and for the order of the groups. */
enum { FIRST, COUNT, GROUP, ORDER, NUMBER, NUM_TABLE };

BP_ROW_INFER(uniques) {
  int64_t one = 1, table[] = {NUM_TABLE, node->inputs[0]->shape[0]};
  return bp__node_set_output(graph, node, 0, BP__INT64, &one, 1) ||
         bp__node_set_output(graph, node, 1, BP__INT64, table, 2);
}

typedef struct Uniques {
  const BpOpCompute *op;
  BpIrModule *ir;
  BpIrBlock *block;
  BpTeTensor *table;
  const BpIrNode *rows, *columns; /* numbers of rows and columns of the matrix */
} Uniques;

static const BpIrNode *read_table(const Uniques *u, int64_t row, const BpIrNode *place) {
  return bp_te_read(u->op->te, u->table, (const BpIrNode *[]){x_index(u->ir, row), place});
}

static void put(const Uniques *u, int64_t row, const BpIrNode *place, const BpIrNode *value) {
  bp_ir_block_add(u->block, bp_te_write(u->op->te, u->table,
                                        (const BpIrNode *[]){x_index(u->ir, row), place}, value));
}

static const BpIrNode *let(const Uniques *u, const char *name, const BpIrNode *value) {
  return bp_ir_block_let(u->block, name, value);
}

static const BpIrNode *variable(const Uniques *u, const char *name, const BpIrNode *value) {
  return bp_ir_block_variable(u->block, name, value);
}

static const BpIrNode *value_of(const Uniques *u, const BpIrNode *variable) {
  return bp_ir_block_value(u->block, variable);
}

static const BpIrNode *loop(const Uniques *u, const char *name, const BpIrNode *count) {
  return bp_ir_block_for(u->block, name, x_index(u->ir, 0), count);
}

static const BpIrNode *is_less(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  const BpIrNode *less = x_lt(ir, a, b);
  if (!bp__dtype_is_float(x_dtype(a)))
    return less;
  const BpIrNode *is_number = bp_ir_binary(ir, BP_IR_EQ, a, a);
  return bp_ir_binary(ir, BP_IR_OR, less, x_and(ir, is_number, bp_ir_binary(ir, BP_IR_NE, b, b)));
}

/* Compares two rows of the matrix: -1, 0 or 1. */
static const BpIrNode *compare(const Uniques *u, const BpIrNode *a, const BpIrNode *b) {
  BpIrModule *ir = u->ir;
  BpTeTensor *matrix = u->op->inputs[0];
  const BpIrNode *sign = variable(u, "sign", x_index(ir, 0));
  const BpIrNode *column = variable(u, "column", x_index(ir, 0));
  bp_ir_block_while(u->block, x_lt(ir, value_of(u, column), u->columns));
  const BpIrNode *at = let(u, "at", value_of(u, column)), *x, *y;
  x = x_wide(ir, bp_te_read(u->op->te, matrix, (const BpIrNode *[]){a, at}));
  y = x_wide(ir, bp_te_read(u->op->te, matrix, (const BpIrNode *[]){b, at}));
  x = let(u, "x", x);
  y = let(u, "y", y);
  bp_ir_block_assign(u->block, column, u->columns);
  bp_ir_block_if(u->block, is_less(ir, x, y));
  bp_ir_block_assign(u->block, sign, x_index(ir, -1));
  bp_ir_block_else(u->block);
  bp_ir_block_if(u->block, is_less(ir, y, x));
  bp_ir_block_assign(u->block, sign, x_index(ir, 1));
  bp_ir_block_else(u->block);
  bp_ir_block_assign(u->block, column, x_add(ir, at, x_index(ir, 1)));
  bp_ir_block_close(u->block);
  bp_ir_block_close(u->block);
  bp_ir_block_close(u->block);
  return let(u, "order", value_of(u, sign));
}

/* Whether row `a` is sorted before row `b`; of equal rows the first one is. */
static const BpIrNode *is_before(const Uniques *u, const BpIrNode *a, const BpIrNode *b) {
  const BpIrNode *sign = compare(u, a, b), *zero = x_index(u->ir, 0);
  const BpIrNode *is_tie = bp_ir_binary(u->ir, BP_IR_EQ, sign, zero);
  return bp_ir_binary(u->ir, BP_IR_OR, x_lt(u->ir, sign, zero),
                      x_and(u->ir, is_tie, x_lt(u->ir, a, b)));
}

/* Puts a row index into the heap of `end` indices, whose root is the last row in the order; element
 * `start` is free and is the root of a valid heap. */
static void sift(const Uniques *u, const BpIrNode *start, const BpIrNode *end,
                 const BpIrNode *entry) {
  BpIrModule *ir = u->ir;
  const BpIrNode *one = x_index(ir, 1), *two = x_index(ir, 2);
  const BpIrNode *hole = variable(u, "hole", start);
  const BpIrNode *child = variable(u, "child", x_add(ir, x_mul(ir, start, two), one));
  bp_ir_block_while(u->block, x_lt(ir, value_of(u, child), end));
  const BpIrNode *left = let(u, "left", value_of(u, child));
  const BpIrNode *right = let(u, "right", x_min(ir, x_add(ir, left, one), x_sub(ir, end, one)));
  const BpIrNode *a = let(u, "a", read_table(u, ORDER, left));
  const BpIrNode *b = let(u, "b", read_table(u, ORDER, right));
  const BpIrNode *last = let(u, "last", bp_ir_select(ir, is_before(u, a, b), right, left));
  const BpIrNode *larger = let(u, "larger", read_table(u, ORDER, last));
  bp_ir_block_if(u->block, is_before(u, entry, larger));
  put(u, ORDER, value_of(u, hole), larger);
  bp_ir_block_assign(u->block, hole, last);
  bp_ir_block_assign(u->block, child, x_add(ir, x_mul(ir, last, two), one));
  bp_ir_block_else(u->block);
  bp_ir_block_assign(u->block, child, end);
  bp_ir_block_close(u->block);
  bp_ir_block_close(u->block);
  put(u, ORDER, value_of(u, hole), entry);
}

static void sort(const Uniques *u) {
  BpIrModule *ir = u->ir;
  const BpIrNode *zero = x_index(ir, 0), *one = x_index(ir, 1);
  const BpIrNode *half = bp_ir_binary(ir, BP_IR_FLOORDIV, u->rows, x_index(ir, 2));
  const BpIrNode *up = loop(u, "up", half);
  const BpIrNode *start = let(u, "start", x_sub(ir, x_sub(ir, half, one), up));
  sift(u, start, u->rows, let(u, "entry", read_table(u, ORDER, start)));
  bp_ir_block_close(u->block);
  const BpIrNode *down =
      bp_ir_block_for(u->block, "down", one, x_max(ir, x_sub(ir, u->rows, one), zero));
  const BpIrNode *end = let(u, "end", x_sub(ir, u->rows, down));
  const BpIrNode *entry = let(u, "entry", read_table(u, ORDER, end));
  put(u, ORDER, end, read_table(u, ORDER, zero));
  sift(u, zero, end, entry);
  bp_ir_block_close(u->block);
}

/* Numbers the groups of equal rows in their order; returns the number of groups. */
static const BpIrNode *find_groups(const Uniques *u) {
  BpIrModule *ir = u->ir;
  const BpIrNode *zero = x_index(ir, 0), *one = x_index(ir, 1);
  const BpIrNode *count = variable(u, "count", zero);
  const BpIrNode *i = loop(u, "i", u->rows);
  const BpIrNode *place = let(u, "place", read_table(u, ORDER, i));
  const BpIrNode *before =
      let(u, "before", read_table(u, ORDER, x_max(ir, x_sub(ir, i, one), zero)));
  const BpIrNode *is_new =
      bp_ir_binary(ir, BP_IR_OR, bp_ir_binary(ir, BP_IR_EQ, i, zero),
                   bp_ir_binary(ir, BP_IR_NE, compare(u, before, place), zero));
  bp_ir_block_if(u->block, is_new);
  put(u, FIRST, value_of(u, count), place);
  bp_ir_block_assign(u->block, count, x_add(ir, value_of(u, count), one));
  bp_ir_block_close(u->block);
  const BpIrNode *group = let(u, "group", x_sub(ir, value_of(u, count), one));
  put(u, GROUP, place, group);
  put(u, COUNT, group, x_add(ir, read_table(u, COUNT, group), one));
  bp_ir_block_close(u->block);
  return let(u, "all", x_min(ir, value_of(u, count), u->rows));
}

/* Sorts the groups by their first rows. */
static void order_by_place(const Uniques *u, const BpIrNode *count) {
  BpIrModule *ir = u->ir;
  const BpIrNode *found = variable(u, "found", x_index(ir, 0));
  const BpIrNode *i = loop(u, "i", u->rows);
  const BpIrNode *group = let(u, "group", read_table(u, GROUP, i));
  bp_ir_block_if(u->block, bp_ir_binary(ir, BP_IR_EQ, read_table(u, FIRST, group), i));
  const BpIrNode *number = let(u, "number", value_of(u, found));
  put(u, NUMBER, group, number);
  put(u, ORDER, number, i);
  bp_ir_block_assign(u->block, found, x_add(ir, number, x_index(ir, 1)));
  bp_ir_block_close(u->block);
  bp_ir_block_close(u->block);
  i = loop(u, "i", count); /* moves the counts to row FIRST, whose contents ORDER has as well */
  put(u, FIRST, i, read_table(u, COUNT, read_table(u, GROUP, read_table(u, ORDER, i))));
  bp_ir_block_close(u->block);
  i = loop(u, "i", count);
  put(u, COUNT, i, read_table(u, FIRST, i));
  put(u, FIRST, i, read_table(u, ORDER, i));
  bp_ir_block_close(u->block);
  i = loop(u, "i", u->rows);
  put(u, GROUP, i, read_table(u, NUMBER, read_table(u, GROUP, i)));
  bp_ir_block_close(u->block);
}

static int uniques_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                        BpTeTensor *const *tensors, void *context) {
  Uniques *u = context;
  BpIrModule *ir = u->ir;
  const BpIrNode *zero = x_index(ir, 0);
  (void)rows;
  u->block = block;
  u->table = tensors[1];
  const BpIrNode *i = loop(u, "i", u->rows);
  for (int64_t row = 0; row < NUM_TABLE; row++)
    put(u, row, i, row == ORDER ? i : zero);
  bp_ir_block_close(block);
  sort(u);
  const BpIrNode *count = find_groups(u);
  if (!bp__node_int(u->op->node, "sorted", 1))
    order_by_place(u, count);
  bp_ir_block_add(block, bp_te_write(te, tensors[0], &zero, count));
  return 0;
}

BP_ROW_COMPUTE(uniques) {
  const BpGraphValue *in = op->node->inputs[0], *table = op->node->outputs[1];
  int64_t one = 1;
  BpTeResult results[] = {{BP__INT64, &one, 1}, {BP__INT64, table->shape, 2}};
  Uniques uniques = {.op = op,
                     .ir = bp_te_ir(op->te),
                     .rows = bp__op_extent(op, in->shape[0]),
                     .columns = bp__op_extent(op, in->shape[1])};
  return bp__op_statements(op, NULL, 0, results, 2, uniques_body, &uniques, outputs);
}

/* ---- The operator ------------------------------------------------------------------------ */

/* The matrix whose rows are compared: the elements, or the slices along an axis. */
static BpGraphValue *matrix_of(BpGraph *graph, const BpGraphNode *node, BpGraphValue *in,
                               int32_t axis) {
  int64_t perm[BP_GRAPH_MAX_NDIM] = {axis}, shape[] = {in->shape[axis], 1};
  for (int32_t i = 0, count = 1; i < in->ndim; i++)
    if (i != axis) {
      perm[count++] = i;
      shape[1] = bp__extent_multiply(&graph->extents, shape[1], in->shape[i]);
    }
  if (shape[1] == BP_EXTENT_NONE)
    return NULL;
  if (in->dtype.code == BP_DTYPE_BOOL)
    in = bp__op_cast(graph, node, in, BP__UINT8);
  return bp__op_reshape(graph, node, bp__op_transpose(graph, node, in, perm, in ? in->ndim : 0),
                        shape, 2);
}

/* A row of the table as a vector. */
static BpGraphValue *row_of(BpVectorMaker m, BpGraphValue *table, int64_t row) {
  int64_t all = -1;
  BpGraphValue *part = bp__op_slice(m.graph, m.node, table, 0, row, row + 1);
  return part ? bp__op_reshape(m.graph, m.node, part, &all, 1) : NULL;
}

BP_ROW_EXPAND(unique) {
  static const int32_t rows[] = {FIRST, FIRST, GROUP, COUNT};
  BpVectorMaker m = {graph, node};
  BpGraphValue *in = node->inputs[0];
  int64_t all = -1, is_sorted = bp__node_int(node, "sorted", 1);
  int32_t axis = 0;
  if (bp__dtype_is_narrow(in->dtype))
    return bp__op_error(node, "types that only store are not supported");
  if (is_sorted != 0 && is_sorted != 1)
    return bp__op_bad(node, "its sorted is %lld, neither 0 nor 1", (long long)is_sorted);
  if (!bp__node_attr(node, "axis"))
    in = bp__op_reshape(graph, node, in, &all, 1);
  else if (bp__op_axis(node, bp__node_int(node, "axis", 0), in->ndim, &axis))
    return -1;
  BpGraphValue *matrix = in ? matrix_of(graph, node, in, axis) : NULL;
  if (!matrix)
    return -1;
  BpGraphAttr sorted = bp__attr_int(graph, "sorted", is_sorted);
  BpGraphNode *found = bp__graph_node(graph, bp__op_find("backplane", "Uniques"), node->name,
                                      &matrix, 1, 2, &sorted, 1);
  if (!found || bp__op_append(graph, found))
    return -1;
  BpGraphValue *count =
      bp__op_bind(graph, node, found->outputs[0], NULL, "its number of found elements is negative");
  for (int32_t i = 0; i < node->num_outputs; i++) {
    BpGraphValue *row = row_of(m, found->outputs[1], rows[i]);
    if (row && rows[i] != GROUP)
      row = bp__op_apply(graph, "backplane", "First", node->name, (BpGraphValue *[]){row, count}, 2,
                         NULL, 0);
    BpGraphAttr along = bp__attr_int(graph, "axis", axis);
    if (i == 0)
      row =
          bp__op_apply(graph, "", "Gather", node->name, (BpGraphValue *[]){in, row}, 2, &along, 1);
    node->outputs[i] = row;
    if (!row)
      return -1;
  }
  return 0;
}
