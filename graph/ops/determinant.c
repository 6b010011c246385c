/* SPDX-License-Identifier: Apache-2.0 */
/* Det: the determinant of each matrix, by elimination with the largest pivot of each column. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

BP_ROW_INFER(det) {
  const BpGraphValue *in = node->inputs[0];
  if (!bp__dtype_is_float(in->dtype))
    return bp__op_error(node, "its input is not of floats");
  if (in->ndim < 2 || in->shape[in->ndim - 1] != in->shape[in->ndim - 2])
    return bp__op_bad(node, "its input does not hold square matrices");
  return bp__node_set_output(graph, node, 0, in->dtype, in->shape, in->ndim - 2);
}

typedef struct Elimination {
  BpTe *te;
  BpIrModule *ir;
  BpIrBlock *block;
  BpTeTensor *matrix; /* a copy of the matrix, which elimination turns into an upper triangle */
  const BpIrNode *const *rows;
  int32_t num_rows;
  const BpIrNode *size;
} Elimination;

static void indices_of(const Elimination *e, const BpIrNode *row, const BpIrNode *column,
                       const BpIrNode **at) {
  if (e->num_rows > 0)
    memcpy(at, e->rows, (size_t)e->num_rows * sizeof(*at));
  at[e->num_rows] = row;
  at[e->num_rows + 1] = column;
}

static const BpIrNode *element(const Elimination *e, const BpIrNode *row, const BpIrNode *column) {
  const BpIrNode *at[BP_GRAPH_MAX_NDIM];
  indices_of(e, row, column, at);
  return bp_te_read(e->te, e->matrix, at);
}

static void put(const Elimination *e, const BpIrNode *row, const BpIrNode *column,
                const BpIrNode *value) {
  const BpIrNode *at[BP_GRAPH_MAX_NDIM];
  indices_of(e, row, column, at);
  bp_ir_block_add(e->block, bp_te_write(e->te, e->matrix, at, value));
}

/* A loop from `first` to the end of the matrix. */
static const BpIrNode *rest(const Elimination *e, const char *name, const BpIrNode *first) {
  return bp_ir_block_for(e->block, name, first,
                         x_max(e->ir, x_sub(e->ir, e->size, first), x_index(e->ir, 0)));
}

static void copy_matrix(const Elimination *e, BpTeTensor *in) {
  const BpIrNode *zero = x_index(e->ir, 0), *at[BP_GRAPH_MAX_NDIM];
  const BpIrNode *row = rest(e, "row", zero), *column = rest(e, "column", zero);
  indices_of(e, row, column, at);
  put(e, row, column, x_wide(e->ir, bp_te_read(e->te, in, at)));
  bp_ir_block_close(e->block);
  bp_ir_block_close(e->block);
}

/* Exchanges rows so that the largest element of the column, at and below the diagonal, is on the
 * diagonal. A NaN counts as larger than all elements before it, so that it reaches the product. */
static void bring_pivot(const Elimination *e, const BpIrNode *step, const BpIrNode *product) {
  BpIrModule *ir = e->ir;
  const BpIrNode *next = x_add(ir, step, x_index(ir, 1));
  const BpIrNode *best = bp_ir_block_variable(e->block, "best", step);
  const BpIrNode *row = rest(e, "row", next);
  const BpIrNode *is_largest =
      x_ge(ir, x_abs(ir, element(e, bp_ir_block_value(e->block, best), step)),
           x_abs(ir, element(e, row, step)));
  bp_ir_block_if(e->block, bp_ir_not(ir, is_largest));
  bp_ir_block_assign(e->block, best, row);
  bp_ir_block_close(e->block);
  bp_ir_block_close(e->block);
  const BpIrNode *found = bp_ir_block_let(e->block, "found", bp_ir_block_value(e->block, best));
  bp_ir_block_if(e->block, bp_ir_binary(ir, BP_IR_NE, found, step));
  const BpIrNode *old = bp_ir_block_value(e->block, product);
  bp_ir_block_assign(e->block, product, x_sub(ir, x_number(ir, x_dtype(old), 0), old));
  const BpIrNode *column = rest(e, "column", step);
  const BpIrNode *upper = bp_ir_block_let(e->block, "upper", element(e, step, column));
  put(e, step, column, element(e, found, column));
  put(e, found, column, upper);
  bp_ir_block_close(e->block);
  bp_ir_block_close(e->block);
}

static void eliminate(const Elimination *e, const BpIrNode *step, const BpIrNode *pivot) {
  BpIrModule *ir = e->ir;
  const BpIrNode *next = x_add(ir, step, x_index(ir, 1));
  bp_ir_block_if(e->block, bp_ir_binary(ir, BP_IR_NE, pivot, x_number(ir, x_dtype(pivot), 0)));
  const BpIrNode *row = rest(e, "row", next);
  const BpIrNode *part = bp_ir_block_let(e->block, "part", x_div(ir, element(e, row, step), pivot));
  const BpIrNode *column = rest(e, "column", next);
  put(e, row, column,
      x_sub(ir, element(e, row, column), x_mul(ir, part, element(e, step, column))));
  bp_ir_block_close(e->block);
  bp_ir_block_close(e->block);
  bp_ir_block_close(e->block);
}

static int det_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                    BpTeTensor *const *tensors, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *in = op->node->inputs[0];
  BpIrModule *ir = bp_te_ir(te);
  Elimination e = {
      te, ir, block, tensors[1], rows, in->ndim - 2, bp__op_extent(op, in->shape[in->ndim - 1])};
  copy_matrix(&e, op->inputs[0]);
  const BpIrNode *product =
      bp_ir_block_variable(block, "product", x_number(ir, bp_te_tensor_dtype(tensors[0]), 1));
  const BpIrNode *step = rest(&e, "step", x_index(ir, 0));
  bring_pivot(&e, step, product);
  const BpIrNode *pivot = bp_ir_block_let(block, "pivot", element(&e, step, step));
  bp_ir_block_assign(block, product, x_mul(ir, bp_ir_block_value(block, product), pivot));
  eliminate(&e, step, pivot);
  bp_ir_block_close(block);
  bp_ir_block_add(block, bp_te_write(te, tensors[0], rows, bp_ir_block_value(block, product)));
  return 0;
}

BP_ROW_COMPUTE(det) {
  const BpGraphValue *in = op->node->inputs[0], *out = op->node->outputs[0];
  BpDataType wide = bp_te_accumulator(in->dtype);
  BpTeResult results[] = {{wide, out->shape, out->ndim}, {wide, in->shape, in->ndim}};
  BpOpCompute copy = *op;
  BpTeTensor *tensors[2];
  if (bp__op_statements(op, out->shape, out->ndim, results, 2, det_body, &copy, tensors))
    return -1;
  return bp__op_give(outputs, tensors[0]);
}
