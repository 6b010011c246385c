/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of the IR as LLVM values. Integer arithmetic wraps, like LLVM's without flags. A sum
 * or difference with a product becomes a fused multiply-add if the CPU has one. */
#include "llvm_gen.h"

#include <math.h>
#include <string.h>

#define DEEPEST 4000

static int is_float(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
}

static int is_signed(BpDataType dtype) {
  return dtype.code == BP_DTYPE_INT;
}

static int same_dtype(BpDataType a, BpDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

static BpDataType with_lanes(BpDataType dtype, int32_t lanes) {
  return (BpDataType){dtype.code, dtype.bits, (uint16_t)lanes};
}

BpDataType bp_gen_compute_dtype(BpDataType dtype) {
  int is_half = is_float(dtype) && dtype.bits == 16;
  return is_half ? (BpDataType){BP_DTYPE_FLOAT, 32, dtype.lanes} : dtype;
}

/* ---- Conversion -------------------------------------------------------------------------- */

static LLVMValueRef cast_float(BpGen *g, BpDataType to, BpDataType from, LLVMValueRef value) {
  LLVMTypeRef type = bp_gen_type(g, to);
  if (is_float(to))
    return to.bits > from.bits ? LLVMBuildFPExt(g->builder, value, type, "")
                               : LLVMBuildFPTrunc(g->builder, value, type, "");
  return is_signed(to) ? LLVMBuildFPToSI(g->builder, value, type, "")
                       : LLVMBuildFPToUI(g->builder, value, type, "");
}

static LLVMValueRef cast_int(BpGen *g, BpDataType to, BpDataType from, LLVMValueRef value) {
  LLVMTypeRef type = bp_gen_type(g, to);
  if (is_float(to))
    return is_signed(from) ? LLVMBuildSIToFP(g->builder, value, type, "")
                           : LLVMBuildUIToFP(g->builder, value, type, "");
  int32_t from_bits = from.code == BP_DTYPE_BOOL ? 1 : from.bits;
  if (to.bits < from_bits)
    return LLVMBuildTrunc(g->builder, value, type, "");
  if (to.bits == from_bits)
    return value;
  return is_signed(from) ? LLVMBuildSExt(g->builder, value, type, "")
                         : LLVMBuildZExt(g->builder, value, type, "");
}

LLVMValueRef bp_gen_cast(BpGen *g, BpDataType to, BpDataType from, LLVMValueRef value) {
  if (same_dtype(to, from))
    return value;
  BpDataType from_compute = bp_gen_compute_dtype(from);
  if (!same_dtype(from_compute, from))
    return bp_gen_cast(g, to, from_compute, bp_gen_widen(g, from, value));
  BpDataType to_compute = bp_gen_compute_dtype(to);
  if (!same_dtype(to_compute, to))
    return bp_gen_narrow(g, to, bp_gen_cast(g, to_compute, from, value));
  if (to.code == BP_DTYPE_BOOL) {
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(value));
    return is_float(from) ? LLVMBuildFCmp(g->builder, LLVMRealUNE, value, zero, "")
                          : LLVMBuildICmp(g->builder, LLVMIntNE, value, zero, "");
  }
  return is_float(from) ? cast_float(g, to, from, value) : cast_int(g, to, from, value);
}

/* ---- Integer division -------------------------------------------------------------------- */

/* Returns the divisor of a division of vectors, with 1 for 0. A lane outside the mask may have any
 * divisor; in LLVM a division by zero or by an undefined value in one lane makes the behaviour of
 * the whole program undefined. */
static LLVMValueRef defined_divisor(BpGen *g, BpDataType dtype, LLVMValueRef b) {
  if (dtype.lanes == 1)
    return b;
  LLVMValueRef known = LLVMIsConstant(b) ? b : LLVMBuildFreeze(g->builder, b, "");
  LLVMValueRef is_zero = LLVMBuildICmp(g->builder, LLVMIntEQ, known, bp_gen_const(g, dtype, 0), "");
  return LLVMBuildSelect(g->builder, is_zero, bp_gen_const(g, dtype, 1), known, "");
}

/* a / b or a % b, towards zero. In LLVM the lowest integer divided by -1 is undefined; here it
 * wraps. */
static LLVMValueRef divide(BpGen *g, int is_div, BpDataType dtype, LLVMValueRef a, LLVMValueRef b) {
  LLVMBuilderRef B = g->builder;
  b = defined_divisor(g, dtype, b);
  if (!is_signed(dtype))
    return is_div ? LLVMBuildUDiv(B, a, b, "") : LLVMBuildURem(B, a, b, "");
  LLVMValueRef is_minus = LLVMBuildICmp(B, LLVMIntEQ, b, bp_gen_const(g, dtype, -1), "");
  LLVMValueRef safe = LLVMBuildSelect(B, is_minus, bp_gen_const(g, dtype, 1), b, "");
  LLVMValueRef result = is_div ? LLVMBuildSDiv(B, a, safe, "") : LLVMBuildSRem(B, a, safe, "");
  LLVMValueRef other = is_div ? LLVMBuildNeg(B, a, "") : bp_gen_const(g, dtype, 0);
  return LLVMBuildSelect(B, is_minus, other, result, "");
}

static LLVMValueRef floor_divide(BpGen *g, int is_div, BpDataType dtype, LLVMValueRef a,
                                 LLVMValueRef b) {
  LLVMBuilderRef B = g->builder;
  if (!is_signed(dtype))
    return divide(g, is_div, dtype, a, b);
  LLVMValueRef zero = bp_gen_const(g, dtype, 0);
  LLVMValueRef mod = divide(g, 0, dtype, a, b);
  LLVMValueRef differ = LLVMBuildICmp(B, LLVMIntSLT, LLVMBuildXor(B, mod, b, ""), zero, "");
  LLVMValueRef inexact = LLVMBuildICmp(B, LLVMIntNE, mod, zero, "");
  LLVMValueRef wrong = LLVMBuildAnd(B, differ, inexact, "");
  if (!is_div)
    return LLVMBuildSelect(B, wrong, LLVMBuildAdd(B, mod, b, ""), mod, "");
  LLVMValueRef quotient = divide(g, 1, dtype, a, b);
  LLVMValueRef less = LLVMBuildSub(B, quotient, bp_gen_const(g, dtype, 1), "");
  return LLVMBuildSelect(B, wrong, less, quotient, "");
}

/* ---- Minimum and maximum ----------------------------------------------------------------- */

/* Whether the node is a float constant, or a broadcast of one, and not NaN. */
static int is_number(BpGen *g, const BpIrNode *node) {
  while (node && g->ir->kind(node) == BP_IR_BROADCAST)
    node = g->ir->operand(node, 0);
  return node && g->ir->kind(node) == BP_IR_FLOAT_IMM && !isnan(g->ir->float_value(node));
}

/* If either operand is NaN, so is the result. Comparing with an operand that is known not to be NaN
 * first keeps the other's NaN. */
static LLVMValueRef extremum(BpGen *g, int is_min, BpDataType dtype, LLVMValueRef a, LLVMValueRef b,
                             const BpIrNode *b_node) {
  LLVMBuilderRef B = g->builder;
  if (!is_float(dtype)) {
    LLVMIntPredicate less =
        is_signed(dtype) ? (is_min ? LLVMIntSLT : LLVMIntSGT) : (is_min ? LLVMIntULT : LLVMIntUGT);
    return LLVMBuildSelect(B, LLVMBuildICmp(B, less, a, b, ""), a, b, "");
  }
  LLVMRealPredicate less = is_min ? LLVMRealOLT : LLVMRealOGT;
  if (is_number(g, b_node))
    return LLVMBuildSelect(B, LLVMBuildFCmp(B, less, b, a, ""), b, a, "");
  LLVMValueRef best = LLVMBuildSelect(B, LLVMBuildFCmp(B, less, a, b, ""), a, b, "");
  LLVMValueRef is_nan = LLVMBuildFCmp(B, LLVMRealUNO, a, a, "");
  return LLVMBuildSelect(B, is_nan, a, best, "");
}

/* ---- Operators --------------------------------------------------------------------------- */

static LLVMValueRef compare(BpGen *g, int32_t kind, BpDataType dtype, LLVMValueRef a,
                            LLVMValueRef b) {
  static const LLVMRealPredicate of_floats[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                                LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate of_signed[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT,
                                               LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static const LLVMIntPredicate of_unsigned[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntULT,
                                                 LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  int32_t i = kind - BP_IR_EQ;
  if (is_float(dtype))
    return LLVMBuildFCmp(g->builder, of_floats[i], a, b, "");
  return LLVMBuildICmp(g->builder, is_signed(dtype) ? of_signed[i] : of_unsigned[i], a, b, "");
}

static LLVMValueRef float_operator(BpGen *g, int32_t kind, BpDataType dtype, LLVMValueRef a,
                                   LLVMValueRef b, const BpIrNode *b_node) {
  switch (kind) {
  case BP_IR_ADD:
    return LLVMBuildFAdd(g->builder, a, b, "");
  case BP_IR_SUB:
    return LLVMBuildFSub(g->builder, a, b, "");
  case BP_IR_MUL:
    return LLVMBuildFMul(g->builder, a, b, "");
  case BP_IR_DIV:
    return LLVMBuildFDiv(g->builder, a, b, "");
  case BP_IR_MIN:
  case BP_IR_MAX:
    return extremum(g, kind == BP_IR_MIN, dtype, a, b, b_node);
  default:
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "%s of floats", g->ir->kind_name(kind));
    return a;
  }
}

static LLVMValueRef int_operator(BpGen *g, int32_t kind, BpDataType dtype, LLVMValueRef a,
                                 LLVMValueRef b) {
  LLVMBuilderRef B = g->builder;
  switch (kind) {
  case BP_IR_ADD:
    return LLVMBuildAdd(B, a, b, "");
  case BP_IR_SUB:
    return LLVMBuildSub(B, a, b, "");
  case BP_IR_MUL:
    return LLVMBuildMul(B, a, b, "");
  case BP_IR_DIV:
  case BP_IR_MOD:
    return divide(g, kind == BP_IR_DIV, dtype, a, b);
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
    return floor_divide(g, kind == BP_IR_FLOORDIV, dtype, a, b);
  case BP_IR_MIN:
  case BP_IR_MAX:
    return extremum(g, kind == BP_IR_MIN, dtype, a, b, NULL);
  case BP_IR_AND:
  case BP_IR_BIT_AND:
    return LLVMBuildAnd(B, a, b, "");
  case BP_IR_OR:
  case BP_IR_BIT_OR:
    return LLVMBuildOr(B, a, b, "");
  case BP_IR_BIT_XOR:
    return LLVMBuildXor(B, a, b, "");
  case BP_IR_SHL:
    return LLVMBuildShl(B, a, b, "");
  default:
    return is_signed(dtype) ? LLVMBuildAShr(B, a, b, "") : LLVMBuildLShr(B, a, b, "");
  }
}

static LLVMValueRef operate(BpGen *g, int32_t kind, BpDataType dtype, LLVMValueRef a,
                            LLVMValueRef b, const BpIrNode *b_node) {
  BpDataType compute = bp_gen_compute_dtype(dtype);
  int is_comparison = kind >= BP_IR_EQ && kind <= BP_IR_GE;
  if (!same_dtype(compute, dtype)) {
    LLVMValueRef result =
        operate(g, kind, compute, bp_gen_widen(g, dtype, a), bp_gen_widen(g, dtype, b), b_node);
    return is_comparison ? result : bp_gen_narrow(g, dtype, result);
  }
  if (is_comparison)
    return compare(g, kind, dtype, a, b);
  return is_float(dtype) ? float_operator(g, kind, dtype, a, b, b_node)
                         : int_operator(g, kind, dtype, a, b);
}

/* Whether `product` is a * b, so that a * b + c can be fused, in floats that are computed in their
 * own type. */
static int is_product(BpGen *g, const BpIrNode *node) {
  BpDataType dtype = g->ir->dtype(node);
  return g->ir->kind(node) == BP_IR_MUL && dtype.code == BP_DTYPE_FLOAT && dtype.bits >= 32;
}

/* Generates a fused multiply-add for an addition or subtraction of a product; NULL if the node is
 * neither. */
static LLVMValueRef fused(BpGen *g, const BpIrNode *node) {
  int32_t kind = g->ir->kind(node);
  const BpIrNode *a = g->ir->operand(node, 0);
  const BpIrNode *b = g->ir->operand(node, 1);
  if (kind != BP_IR_ADD && kind != BP_IR_SUB)
    return NULL;
  int is_second = is_product(g, b);
  if (!is_second && !is_product(g, a))
    return NULL;
  const BpIrNode *product = is_second ? b : a;
  LLVMValueRef args[] = {bp_gen_expr(g, g->ir->operand(product, 0)),
                         bp_gen_expr(g, g->ir->operand(product, 1)),
                         bp_gen_expr(g, is_second ? a : b)};
  if (kind == BP_IR_SUB) {
    int negated = is_second ? 0 : 2;
    args[negated] = LLVMBuildFNeg(g->builder, args[negated], "");
  }
  return bp_gen_intrinsic(g, "llvm.fmuladd", bp_gen_type(g, g->ir->dtype(node)), args, 3);
}

static LLVMValueRef binary(BpGen *g, const BpIrNode *node) {
  const BpIrNode *a = g->ir->operand(node, 0);
  const BpIrNode *b = g->ir->operand(node, 1);
  int32_t kind = g->ir->kind(node);
  LLVMValueRef result = fused(g, node);
  if (result)
    return result;
  if ((kind == BP_IR_MIN || kind == BP_IR_MAX) && is_number(g, a)) {
    const BpIrNode *swapped = a;
    a = b;
    b = swapped;
  }
  LLVMValueRef x = bp_gen_expr(g, a);
  return operate(g, kind, g->ir->dtype(a), x, bp_gen_expr(g, b), b);
}

/* ---- Vectors ----------------------------------------------------------------------------- */

static LLVMValueRef ramp(BpGen *g, const BpIrNode *node) {
  BpDataType dtype = g->ir->dtype(node);
  LLVMValueRef steps = LLVMGetPoison(bp_gen_type(g, dtype));
  LLVMTypeRef scalar = bp_gen_type(g, with_lanes(dtype, 1));
  for (int32_t i = 0; i < dtype.lanes; i++)
    steps = LLVMBuildInsertElement(
        g->builder, steps, LLVMConstInt(scalar, (unsigned long long)i, 0), bp_gen_i32(g, i), "");
  LLVMValueRef stride = bp_gen_splat(g, bp_gen_expr(g, g->ir->operand(node, 1)), dtype.lanes);
  LLVMValueRef base = bp_gen_splat(g, bp_gen_expr(g, g->ir->operand(node, 0)), dtype.lanes);
  return LLVMBuildAdd(g->builder, base, LLVMBuildMul(g->builder, steps, stride, ""), "");
}

static LLVMValueRef lane(BpGen *g, LLVMValueRef vector, int64_t index) {
  if (LLVMGetTypeKind(LLVMTypeOf(vector)) != LLVMVectorTypeKind)
    return vector;
  return LLVMBuildExtractElement(g->builder, vector, bp_gen_i32(g, index), "");
}

static LLVMValueRef picked_lane(BpGen *g, const BpIrNode *node, int64_t index) {
  for (int32_t i = 0; i < g->ir->int_value(node); i++) {
    const BpIrNode *vector = g->ir->operand(node, i);
    if (index < g->ir->dtype(vector).lanes)
      return lane(g, bp_gen_expr(g, vector), index);
    index -= g->ir->dtype(vector).lanes;
  }
  bp_gen_fail(g, BP_ERROR_VALUE, "a shuffle picks a lane that does not exist");
  return bp_gen_poison(g, with_lanes(g->ir->dtype(node), 1));
}

static LLVMValueRef shuffle(BpGen *g, const BpIrNode *node) {
  int32_t count = (int32_t)g->ir->int_value(node);
  BpDataType dtype = g->ir->dtype(node);
  LLVMValueRef result = LLVMGetPoison(bp_gen_type(g, dtype));
  for (int32_t i = 0; i < dtype.lanes; i++) {
    LLVMValueRef value = picked_lane(g, node, g->ir->int_value(g->ir->operand(node, count + i)));
    if (dtype.lanes == 1)
      return value;
    result = LLVMBuildInsertElement(g->builder, result, value, bp_gen_i32(g, i), "");
  }
  return result;
}

static int32_t reduction_kind(BpGen *g, const BpIrNode *node) {
  static const struct {
    const char *name;
    int32_t kind;
  } kinds[] = {{"add", BP_IR_ADD}, {"mul", BP_IR_MUL}, {"min", BP_IR_MIN}, {"max", BP_IR_MAX}};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (strcmp(kinds[i].name, g->ir->str_value(node)) == 0)
      return kinds[i].kind;
  }
  bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "reduction \"%s\"", g->ir->str_value(node));
  return BP_IR_ADD;
}

/* Reduces a vector by adding its halves; the remaining lane of an odd number is added at the
 * end. */
static LLVMValueRef reduce(BpGen *g, const BpIrNode *node) {
  const BpIrNode *operand = g->ir->operand(node, 0);
  BpDataType given = g->ir->dtype(operand);
  BpDataType dtype = bp_gen_compute_dtype(given);
  BpDataType scalar = with_lanes(dtype, 1);
  int32_t kind = reduction_kind(g, node);
  int32_t indices[2][512];
  LLVMValueRef vector = bp_gen_cast(g, dtype, given, bp_gen_expr(g, operand));
  LLVMValueRef rest = NULL;
  while (dtype.lanes > 1 && dtype.lanes <= 1024) {
    int32_t half = dtype.lanes / 2;
    if (dtype.lanes % 2) {
      LLVMValueRef last = lane(g, vector, dtype.lanes - 1);
      rest = rest ? operate(g, kind, scalar, rest, last, NULL) : last;
    }
    for (int32_t i = 0; i < half; i++) {
      indices[0][i] = i;
      indices[1][i] = half + i;
    }
    LLVMValueRef low = bp_gen_shuffle(g, vector, vector, indices[0], half);
    LLVMValueRef high = bp_gen_shuffle(g, vector, vector, indices[1], half);
    dtype = with_lanes(dtype, half);
    vector = operate(g, kind, dtype, low, high, NULL);
  }
  if (dtype.lanes > 1)
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "a reduction of more than 1024 lanes");
  LLVMValueRef result = lane(g, vector, 0);
  if (rest)
    result = operate(g, kind, scalar, result, rest, NULL);
  return bp_gen_cast(g, with_lanes(given, 1), scalar, result);
}

/* ---- Nodes ------------------------------------------------------------------------------- */

static LLVMValueRef immediate(BpGen *g, const BpIrNode *node) {
  BpDataType dtype = g->ir->dtype(node);
  if (g->ir->kind(node) == BP_IR_INT_IMM)
    return bp_gen_const(g, dtype, g->ir->int_value(node));
  BpDataType scalar = with_lanes(dtype, 1);
  BpDataType compute = bp_gen_compute_dtype(scalar);
  LLVMValueRef value = LLVMConstReal(bp_gen_type(g, compute), g->ir->float_value(node));
  value = bp_gen_cast(g, scalar, compute, value);
  return dtype.lanes > 1 ? bp_gen_splat(g, value, dtype.lanes) : value;
}

static LLVMValueRef spell_vector_or_memory(BpGen *g, const BpIrNode *node) {
  int32_t kind = g->ir->kind(node);
  switch (kind) {
  case BP_IR_LOAD:
    return bp_gen_load_node(g, node);
  case BP_IR_ADDRESS:
    return bp_gen_address(g, g->ir->operand(node, 0), bp_gen_expr(g, g->ir->operand(node, 1)));
  case BP_IR_RAMP:
    return ramp(g, node);
  case BP_IR_BROADCAST:
    return bp_gen_splat(g, bp_gen_expr(g, g->ir->operand(node, 0)), g->ir->dtype(node).lanes);
  case BP_IR_SHUFFLE:
    return shuffle(g, node);
  case BP_IR_REDUCE:
    return reduce(g, node);
  case BP_IR_CALL:
    return bp_gen_call(g, node);
  default:
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "construct %s (kind %d) as an expression",
                g->ir->kind_name(kind) ? g->ir->kind_name(kind) : "unknown", kind);
    return bp_gen_poison(g, g->ir->dtype(node));
  }
}

static LLVMValueRef spell(BpGen *g, const BpIrNode *node) {
  int32_t kind = g->ir->kind(node);
  const BpIrNode *first = g->ir->operand(node, 0);
  if ((kind >= BP_IR_ADD && kind <= BP_IR_OR) || (kind >= BP_IR_BIT_AND && kind <= BP_IR_SHR))
    return binary(g, node);
  switch (kind) {
  case BP_IR_INT_IMM:
  case BP_IR_FLOAT_IMM:
    return immediate(g, node);
  case BP_IR_STR_IMM:
    return bp_gen_str(g, g->ir->str_value(node));
  case BP_IR_VAR:
  case BP_IR_BUFFER:
    return bp_gen_symbol(g, node);
  case BP_IR_NOT:
    return LLVMBuildNot(g->builder, bp_gen_expr(g, first), "");
  case BP_IR_SELECT: {
    LLVMValueRef condition = bp_gen_expr(g, first);
    LLVMValueRef a = bp_gen_expr(g, g->ir->operand(node, 1));
    return LLVMBuildSelect(g->builder, condition, a, bp_gen_expr(g, g->ir->operand(node, 2)), "");
  }
  case BP_IR_CAST:
    return bp_gen_cast(g, g->ir->dtype(node), g->ir->dtype(first), bp_gen_expr(g, first));
  case BP_IR_REINTERPRET:
    return LLVMBuildBitCast(g->builder, bp_gen_expr(g, first), bp_gen_type(g, g->ir->dtype(node)),
                            "");
  default:
    return spell_vector_or_memory(g, node);
  }
}

LLVMValueRef bp_gen_expr(BpGen *g, const BpIrNode *node) {
  LLVMValueRef value = bp_pointer_map_get(&g->known, node);
  if (value)
    return value;
  if (g->failed)
    return bp_gen_poison(g, g->ir->dtype(node));
  if (g->depth > DEEPEST) {
    bp_gen_fail(g, BP_ERROR_VALUE, "an expression is nested deeper than %d", DEEPEST);
    return bp_gen_poison(g, g->ir->dtype(node));
  }
  g->depth++;
  value = spell(g, node);
  g->depth--;
  if (bp_pointer_map_set(&g->known, node, value) != 0)
    bp_gen_fail(g, BP_ERROR_MEMORY, "out of memory");
  return value;
}
