/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms for expressions of operators. A NULL operand gives NULL. */
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
/* An index constant. */
static inline const BpIrNode *x_index(BpIrModule *ir, int64_t value) {
  return bp_ir_int(ir, BP__INT64, value);
}
/* The bits of a whole number. A magnitude of 2^64 or more becomes the largest smaller one, and NaN
 * becomes 0. */
static inline int64_t x_bits(double value) {
  double size = value < 0 ? -value : value;
  uint64_t magnitude = size < 0x1p64 ? (uint64_t)size : value != value ? 0 : UINT64_MAX;
  return (int64_t)(value < 0 ? 0 - magnitude : magnitude);
}
/* A constant number of any type. */
static inline const BpIrNode *x_number(BpIrModule *ir, BpDataType dtype, double value) {
  if (bp__dtype_is_float(dtype))
    return bp_ir_float(ir, dtype, value);
  return bp_ir_int(ir, dtype, x_bits(value));
}
/* A select of branches that are both defined whatever the condition is, so that what they read is
 * read without a mask. */
static inline const BpIrNode *x_choose(BpIrModule *ir, const BpIrNode *condition, const BpIrNode *a,
                                       const BpIrNode *b) {
  const BpIrTable *table = bp_ir_table();
  const BpIrNode *select = bp_ir_select(ir, condition, a, b);
  if (!select || select == a || select == b || table->kind(select) != BP_IR_SELECT)
    return select;
  const BpIrNode *operands[] = {table->operand(select, 0), table->operand(select, 1),
                                table->operand(select, 2)};
  return bp_ir_make(ir, BP_IR_SELECT, table->dtype(select), operands, 3, 1, 0, NULL);
}
static inline const BpIrNode *x_call1(BpIrModule *ir, const char *name, const BpIrNode *a) {
  return a ? bp_ir_call(ir, bp_ir_table()->dtype(a), BP_IR_CALL_INTRINSIC, name, &a, 1) : NULL;
}
/* A term of the sum of a product or convolution: the products of four bytes if the node's attribute
 * is_dot is set. */
static inline const BpIrNode *x_term(const BpGraphNode *node, BpIrModule *ir, const BpIrNode *a,
                                     const BpIrNode *b) {
  const BpDataType type = {BP_DTYPE_INT, 32, 1};
  const BpIrNode *args[] = {a, b, x_number(ir, type, 0)};
  if (!bp__node_int(node, "is_dot", 0))
    return x_mul(ir, a, b);
  return a && b ? bp_ir_call(ir, type, BP_IR_CALL_INTRINSIC, "dot4_us", args, 3) : NULL;
}
/* The type of an expression; a type without bits for NULL, which stands for exhausted memory. */
static inline BpDataType x_dtype(const BpIrNode *a) {
  return a ? bp_ir_table()->dtype(a) : (BpDataType){0, 0, 0};
}
/* The magnitude of a number of any type; the magnitude of the least integer is the integer
 * itself. */
static inline const BpIrNode *x_abs(BpIrModule *ir, const BpIrNode *a) {
  BpDataType dtype = x_dtype(a);
  if (bp__dtype_is_float(dtype))
    return x_call1(ir, "abs", a);
  return dtype.code == BP_DTYPE_UINT ? a : x_max(ir, a, x_sub(ir, x_number(ir, dtype, 0), a));
}
/* Divides by a constant count. A multiplication is faster, but is used only if it is exact: 41
 * times the reciprocal of 41 is less than 1 in float32. A float divided by 0 is multiplied by
 * infinity. */
static inline const BpIrNode *x_divide(BpIrModule *ir, const BpIrNode *a, double count) {
  BpDataType dtype = x_dtype(a);
  bool is_exact = count == 0 || bp__is_power_of_two(count);
  return bp__dtype_is_float(dtype) && is_exact ? x_mul(ir, a, x_number(ir, dtype, 1 / count))
                                               : x_div(ir, a, x_number(ir, dtype, count));
}
/* The value in the type in which values of its type are computed: float32 for float16 and
 * bfloat16. */
static inline const BpIrNode *x_wide(BpIrModule *ir, const BpIrNode *a) {
  return a ? bp_ir_cast(ir, bp_te_accumulator(x_dtype(a)), a) : NULL;
}

/* An index into `extent` elements, as int64; a negative index counts from the end. */
static inline const BpIrNode *x_from_end(BpIrModule *ir, const BpIrNode *index,
                                         const BpIrNode *extent) {
  const BpIrNode *wide = index ? bp_ir_cast(ir, BP__INT64, index) : NULL;
  return bp_ir_select(ir, x_lt(ir, wide, x_index(ir, 0)), x_add(ir, wide, extent), wide);
}
/* An index as in x_from_end, clamped to the elements. */
static inline const BpIrNode *x_inside(BpIrModule *ir, const BpIrNode *index,
                                       const BpIrNode *extent) {
  return x_min(ir, x_max(ir, x_from_end(ir, index, extent), x_index(ir, 0)),
               x_sub(ir, extent, x_index(ir, 1)));
}

/* Makes reduction axes over the `channels` of a blocked tensor (blocked.c), and sets `at` to the
 * block and the channel in the block. Spare channels are never read: if the last block has any, a
 * single axis runs over the channels, which schedules split into whole blocks and a rest. Returns
 * the number of axes; the second axis is the innermost. */
int32_t bp__reduce_channels(BpTe *te, int64_t channels, int64_t block, const BpIrNode *axes[2],
                            const BpIrNode *at[2]);

#endif
