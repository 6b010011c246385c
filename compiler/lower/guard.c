/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that the IR defines but machines do not: division by zero, shifts by the width or
 * more, conversion of floats beyond the range of an integer type.
 *
 * The pass replaces each by an operation on operands that every machine accepts, inside a select,
 * unless its operands are provably harmless. So generators see only defined operations. */

#include <math.h>

#include "compiler/ir/scalar.h"
#include "compiler/lower/passes.h"

/* The depth to which an operand is examined; deeper parts may have any value. */
#define MAX_LEVELS 8

/* A constant in every lane of the operation's type. */
static const BpIrNode *like(BpIrModule *module, const BpIrNode *node, int64_t value) {
  return bp_ir_int(module, node->dtype, value);
}

/* ---- Division ---------------------------------------------------------------------------- */

/* Whether an integer is never zero: one of its bits is always set, or a select excludes zero. */
static bool is_never_zero(const BpIrNode *node, int levels) {
  const BpIrNode *const *x = node->operands;
  int64_t value;
  if (bp__ir_const_int(node, &value))
    return value != 0;
  if (levels == 0)
    return false;
  switch (node->kind) {
  case BP_IR_BIT_OR:
    return is_never_zero(x[0], levels - 1) || is_never_zero(x[1], levels - 1);
  case BP_IR_MAX:
    return bp__ir_const_int(x[1], &value) && value > 0;
  case BP_IR_SELECT:
    return is_never_zero(x[1], levels - 1) && is_never_zero(x[2], levels - 1);
  case BP_IR_BROADCAST:
    return is_never_zero(x[0], levels - 1);
  default:
    return false;
  }
}

static const BpIrNode *guard_division(BpIrModule *module, const BpIrNode *node) {
  const BpIrNode *a = node->operands[0], *b = node->operands[1];
  if (!bp__dtype_is_int(node->dtype) || is_never_zero(b, MAX_LEVELS))
    return node;
  const BpIrNode *zero = like(module, node, 0);
  const BpIrNode *by_zero = bp_ir_binary(module, BP_IR_EQ, b, zero);
  const BpIrNode *divisor = bp_ir_select(module, by_zero, like(module, node, 1), b);
  return bp_ir_select(module, by_zero, zero, bp_ir_binary(module, node->kind, a, divisor));
}

/* ---- Shifts ------------------------------------------------------------------------------ */

static bool is_count(const BpIrNode *node, int64_t bits, int levels) {
  const BpIrNode *const *x = node->operands;
  int64_t value;
  if (bp__ir_const_int(node, &value))
    return value >= 0 && value < bits;
  if (levels > 0 && node->kind == BP_IR_BIT_AND)
    return is_count(x[0], bits, levels - 1) || is_count(x[1], bits, levels - 1);
  return levels > 0 && node->kind == BP_IR_BROADCAST && is_count(x[0], bits, levels - 1);
}

/* Guards a shift: a count beyond the width shifts all bits out, and a negative count is a large
 * unsigned count. */
static const BpIrNode *guard_shift(BpIrModule *module, const BpIrNode *node) {
  const BpIrNode *a = node->operands[0], *b = node->operands[1];
  int64_t bits = node->dtype.bits;
  bool is_signed = node->dtype.code == BP_DTYPE_INT;
  if (is_count(b, bits, MAX_LEVELS))
    return node;
  const BpIrNode *zero = like(module, node, 0);
  const BpIrNode *inside = bp_ir_binary(module, BP_IR_LT, b, like(module, node, bits));
  if (is_signed)
    inside = bp_ir_binary(module, BP_IR_AND, bp_ir_binary(module, BP_IR_GE, b, zero), inside);
  if (node->kind == BP_IR_SHR && is_signed)
    return bp_ir_binary(module, BP_IR_SHR, a,
                        bp_ir_select(module, inside, b, like(module, node, bits - 1)));
  const BpIrNode *count = bp_ir_select(module, inside, b, zero);
  return bp_ir_select(module, inside, bp_ir_binary(module, node->kind, a, count), zero);
}

/* ---- Floats to integers ------------------------------------------------------------------ */

/* The possible values of a float. */
typedef struct FloatRange {
  double min, max;
  bool may_be_nan;
} FloatRange;

static FloatRange range_of(const BpIrNode *node, int levels);

static FloatRange range_of_int(BpDataType dtype) {
  bool is_signed = dtype.code == BP_DTYPE_INT;
  int bits = dtype.code == BP_DTYPE_BOOL ? 1 : dtype.bits;
  double limit = ldexp(1, is_signed ? bits - 1 : bits);
  return (FloatRange){is_signed ? -limit : 0, limit - 1, false};
}

/* The range of a MIN, MAX or SELECT of floats. */
static FloatRange range_of_choice(int32_t kind, const BpIrNode *a, const BpIrNode *b, int levels) {
  FloatRange x = range_of(a, levels), y = range_of(b, levels);
  FloatRange range = {fmin(x.min, y.min), fmax(x.max, y.max), x.may_be_nan || y.may_be_nan};
  if (kind == BP_IR_MIN)
    range.max = fmin(x.max, y.max);
  if (kind == BP_IR_MAX)
    range.min = fmax(x.min, y.min);
  return range;
}

/* The range of a cast to a float: the ends are rounded like the values between them. In float32 the
 * ends of int32 move outwards by one. */
static FloatRange range_of_cast(BpDataType to, const BpIrNode *x, int levels) {
  FloatRange range = bp__dtype_is_float(x->dtype) ? range_of(x, levels) : range_of_int(x->dtype);
  range.min = bp__scalar_round(to, range.min);
  range.max = bp__scalar_round(to, range.max);
  return range;
}

static bool is_rounding(const BpIrNode *node) {
  static const char *const names[] = {"round", "floor", "ceil", "trunc"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (node->int_value == BP_IR_CALL_INTRINSIC && !strcmp(node->str_value, names[i]))
      return true;
  return false;
}

static FloatRange range_of(const BpIrNode *node, int levels) {
  static const FloatRange anything = {-(double)INFINITY, (double)INFINITY, true};
  const BpIrNode *const *x = node->operands;
  double value;
  if (bp__ir_const_float(node, &value))
    return isnan(value) ? anything : (FloatRange){value, value, false};
  if (levels-- == 0)
    return anything;
  switch (node->kind) {
  case BP_IR_MIN:
  case BP_IR_MAX:
    return range_of_choice(node->kind, x[0], x[1], levels);
  case BP_IR_SELECT:
    return range_of_choice(node->kind, x[1], x[2], levels);
  case BP_IR_BROADCAST:
    return range_of(x[0], levels);
  case BP_IR_CAST: /* a narrower float may become infinite */
    if (node->dtype.bits < 32 && x[0]->dtype.bits > 8)
      return anything;
    return range_of_cast(node->dtype, x[0], levels);
  case BP_IR_CALL:
    if (is_rounding(node)) {
      FloatRange range = range_of(x[0], levels);
      return (FloatRange){floor(range.min), ceil(range.max), range.may_be_nan};
    }
    return anything;
  default:
    return anything;
  }
}

/* Whether a node casts to int32 what was cast from a float to a narrower integer, as when a
 * quantised value is dequantised. The inner cast is guarded, so that one cast gives the same. */
static bool is_cast_twice(const BpIrNode *node) {
  const BpIrNode *inner = node->operands[0];
  return node->dtype.code == BP_DTYPE_INT && node->dtype.bits == 32 && inner->kind == BP_IR_CAST &&
         bp__dtype_is_int(inner->dtype) && inner->dtype.bits < 32 &&
         bp__dtype_is_float(inner->operands[0]->dtype);
}

/* Guards a cast to an integer: NaN becomes 0, and values out of range become the least or largest
 * integer. */
static const BpIrNode *guard_cast(BpIrModule *module, const BpIrNode *node) {
  const BpIrNode *x = node->operands[0];
  BpDataType to = node->dtype;
  if (!bp__dtype_is_int(to) || !bp__dtype_is_float(x->dtype))
    return node;
  if (x->dtype.bits < 32) /* float16 cannot represent the limits of 32-bit and wider integers */
    x = bp_ir_cast(module, bp__dtype(BP_DTYPE_FLOAT, 32, to.lanes), x);
  if (!x)
    return NULL;
  FloatRange range = range_of(x, MAX_LEVELS), limits = range_of_int(to);
  double beyond = ldexp(1, to.code == BP_DTYPE_INT ? to.bits - 1 : to.bits);
  const BpIrNode *least = bp_ir_float(module, x->dtype, limits.min);
  const BpIrNode *end = bp_ir_float(module, x->dtype, beyond);
  const BpIrNode *zero = bp_ir_float(module, x->dtype, 0), *inside = x;
  bool may_be_large = range.max >= beyond;
  if (range.min < limits.min)
    inside = bp_ir_select(module, bp_ir_binary(module, BP_IR_LT, x, least), least, inside);
  if (may_be_large)
    inside = bp_ir_select(module, bp_ir_binary(module, BP_IR_LT, x, end), inside, zero);
  else if (range.may_be_nan)
    inside = bp_ir_select(module, bp_ir_binary(module, BP_IR_EQ, x, x), inside, zero);
  const BpIrNode *result = bp_ir_cast(module, to, inside);
  if (!may_be_large)
    return result;
  int64_t largest = to.code == BP_DTYPE_INT ? (int64_t)(UINT64_MAX >> (65 - to.bits))
                                            : (int64_t)(UINT64_MAX >> (64 - to.bits));
  return bp_ir_select(module, bp_ir_binary(module, BP_IR_GE, x, end),
                      bp_ir_int(module, to, largest), result);
}

/* ---- All --------------------------------------------------------------------------------- */

static const BpIrNode *leave(BpIrRewriter *rewriter, const BpIrNode *node) {
  switch (node->kind) {
  case BP_IR_BROADCAST: { /* operations on broadcasts that folding moved inside */
    const BpIrNode *scalar = leave(rewriter, node->operands[0]);
    return scalar == node->operands[0]
               ? node
               : bp_ir_broadcast(rewriter->module, scalar, node->dtype.lanes);
  }
  case BP_IR_DIV:
  case BP_IR_MOD:
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
    return guard_division(rewriter->module, node);
  case BP_IR_SHL:
  case BP_IR_SHR:
    return guard_shift(rewriter->module, node);
  case BP_IR_CAST:
    return is_cast_twice(node)
               ? bp_ir_cast(rewriter->module, node->dtype, node->operands[0]->operands[0])
               : guard_cast(rewriter->module, node);
  default:
    return node;
  }
}

const BpIrNode *bp__pass_guard(BpIrModule *module, const BpIrNode *function) {
  BpIrRewriter rewriter = {.module = module, .leave = leave};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
