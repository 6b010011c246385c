/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms for writing expressions of operators. A NULL operand gives NULL. */
#ifndef BACKPLANE_GRAPH_OPS_EXPR_H
#define BACKPLANE_GRAPH_OPS_EXPR_H

#include <backplane/compiler/te.h>

#include "graph/ir/graph.h"

static inline const BpIrNode *x_add(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_ADD, a, b);
}
static inline const BpIrNode *x_sub(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_SUB, a, b);
}
static inline const BpIrNode *x_mul(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_MUL, a, b);
}
static inline const BpIrNode *x_div(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_DIV, a, b);
}
static inline const BpIrNode *x_min(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_MIN, a, b);
}
static inline const BpIrNode *x_max(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_MAX, a, b);
}
static inline const BpIrNode *x_lt(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_LT, a, b);
}
static inline const BpIrNode *x_ge(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_GE, a, b);
}
static inline const BpIrNode *x_and(BpIrModule *ir, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(ir, BP_IR_AND, a, b);
}
/* An index. */
static inline const BpIrNode *x_index(BpIrModule *ir, int64_t value) {
  return bp_ir_int(ir, (BpDataType){BP_DTYPE_INT, 64, 1}, value);
}
/* A number of any type. */
static inline const BpIrNode *x_number(BpIrModule *ir, BpDataType dtype, double value) {
  if (bp__dtype_is_float(dtype))
    return bp_ir_float(ir, dtype, value);
  return bp_ir_int(ir, dtype, (int64_t)value);
}
static inline const BpIrNode *x_call1(BpIrModule *ir, const char *name, const BpIrNode *a) {
  return a ? bp_ir_call(ir, bp_ir_table()->dtype(a), BP_IR_CALL_INTRINSIC, name, &a, 1) : NULL;
}
/* No type of nothing, which is what there was no memory for. */
static inline BpDataType x_dtype(const BpIrNode *a) {
  return a ? bp_ir_table()->dtype(a) : (BpDataType){0, 0, 0};
}
/* The magnitude of a number of any type; that of the least integer is itself. */
static inline const BpIrNode *x_abs(BpIrModule *ir, const BpIrNode *a) {
  BpDataType dtype = x_dtype(a);
  if (bp__dtype_is_float(dtype))
    return x_call1(ir, "abs", a);
  return dtype.code == BP_DTYPE_UINT ? a : x_max(ir, a, x_sub(ir, x_number(ir, dtype, 0), a));
}
/* In the type in which values of its type are computed: float32 for float16 and bfloat16. */
static inline const BpIrNode *x_wide(BpIrModule *ir, const BpIrNode *a) {
  return a ? bp_ir_cast(ir, bp_te_accumulator(x_dtype(a)), a) : NULL;
}

/* An index into `extent` elements, as int64: one below zero counts from the end. */
static inline const BpIrNode *x_from_end(BpIrModule *ir, const BpIrNode *index,
                                         const BpIrNode *extent) {
  const BpIrNode *wide = index ? bp_ir_cast(ir, (BpDataType){BP_DTYPE_INT, 64, 1}, index) : NULL;
  return bp_ir_select(ir, x_lt(ir, wide, x_index(ir, 0)), x_add(ir, wide, extent), wide);
}
/* Like x_from_end; an index outside of the elements becomes the nearest one inside. */
static inline const BpIrNode *x_inside(BpIrModule *ir, const BpIrNode *index,
                                       const BpIrNode *extent) {
  return x_min(ir, x_max(ir, x_from_end(ir, index, extent), x_index(ir, 0)),
               x_sub(ir, extent, x_index(ir, 1)));
}

/* Reduction axes over the `channels` of a tensor in blocks (blocked.c), and in `at` the block and
 * the place in it that they stand for. Spare channels are never read: where the last block has any,
 * the one axis runs over the channels, and schedules take it in whole blocks and a rest. Returns
 * the number of axes; the second one is the innermost. */
int32_t bp__reduce_channels(BpTe *te, int64_t channels, int64_t block, const BpIrNode *axes[2],
                            const BpIrNode *at[2]);

#endif
