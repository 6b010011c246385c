/* SPDX-License-Identifier: Apache-2.0 */
/* Makes expressions, folds constants and applies simple identities.
 *
 * An identity on floats is applied only if it holds for every value, including NaN, infinities and
 * -0. */

#include <math.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/syntax.h"
#include "compiler/ir/types.h"

/* ---- Errors ------------------------------------------------------------------------------ */

/* Raises an error: an operand does not have the required type. Returns NULL. */
static const BpIrNode *refuse(int32_t kind, const char *wanted, BpDataType dtype) {
  char found[32];
  bp__ir_format_dtype(dtype, found);
  bp_error_raise(BP_ERROR_TYPE, "%s takes %s, not %s", bp__ir_kind_name(kind), wanted, found);
  return NULL;
}

static const BpIrNode *refuse_pair(int32_t kind, const BpIrNode *a, const BpIrNode *b) {
  char first[32], second[32];
  bp__ir_format_dtype(a->dtype, first);
  bp__ir_format_dtype(b->dtype, second);
  bp_error_raise(BP_ERROR_TYPE, "operands of %s have different types: %s and %s; cast one",
                 bp__ir_kind_name(kind), first, second);
  return NULL;
}

/* ---- Constants --------------------------------------------------------------------------- */

static const BpIrNode *splat(BpIrModule *module, const BpIrNode *scalar, uint16_t lanes) {
  if (lanes == 1 || !scalar)
    return scalar;
  return bp__ir_node1(module, BP_IR_BROADCAST, bp__dtype_with_lanes(scalar->dtype, lanes), scalar);
}

const BpIrNode *bp_ir_int(BpIrModule *module, BpDataType dtype, int64_t value) {
  if (!bp__dtype_is_number(dtype) || bp__dtype_is_float(dtype))
    return refuse(BP_IR_INT_IMM, "an integer type or bool", dtype);
  const BpIrNode *scalar = bp_ir_make(module, BP_IR_INT_IMM, bp__dtype_element(dtype), NULL, 0,
                                      bp__scalar_wrap(dtype, value), 0, NULL);
  return splat(module, scalar, dtype.lanes);
}

const BpIrNode *bp_ir_float(BpIrModule *module, BpDataType dtype, double value) {
  if (!bp__dtype_is_number(dtype) || !bp__dtype_is_float(dtype))
    return refuse(BP_IR_FLOAT_IMM, "a float type", dtype);
  double held = isnan(value) ? (double)NAN : bp__scalar_round(dtype, value);
  const BpIrNode *scalar =
      bp_ir_make(module, BP_IR_FLOAT_IMM, bp__dtype_element(dtype), NULL, 0, 0, held, NULL);
  return splat(module, scalar, dtype.lanes);
}

static bool is_constant(const BpIrNode *node) {
  return node->kind == BP_IR_INT_IMM || node->kind == BP_IR_FLOAT_IMM;
}

static BpIrScalar constant_value(const BpIrNode *node) {
  if (node->kind == BP_IR_FLOAT_IMM)
    return (BpIrScalar){.f = node->float_value};
  return (BpIrScalar){.i = node->int_value};
}

static const BpIrNode *make_constant(BpIrModule *module, BpDataType dtype, BpIrScalar value) {
  return bp__dtype_is_float(dtype) ? bp_ir_float(module, dtype, value.f)
                                   : bp_ir_int(module, dtype, value.i);
}

/* ---- Two operands ------------------------------------------------------------------------ */

static bool is_comparison(int32_t kind) {
  return kind >= BP_IR_EQ && kind <= BP_IR_GE;
}

/* min and max of floats do not commute: given zeros of different sign, they may return either
 * zero. */
static bool commutes(int32_t kind, BpDataType dtype) {
  if (kind == BP_IR_MIN || kind == BP_IR_MAX)
    return !bp__dtype_is_float(dtype);
  return kind == BP_IR_ADD || kind == BP_IR_MUL || kind == BP_IR_EQ || kind == BP_IR_NE ||
         kind == BP_IR_AND || kind == BP_IR_OR || (kind >= BP_IR_BIT_AND && kind <= BP_IR_BIT_XOR);
}

static const BpIrNode *plain(BpIrModule *module, int32_t kind, const BpIrNode *a,
                             const BpIrNode *b) {
  BpDataType dtype = is_comparison(kind) ? bp__dtype_bool(a->dtype.lanes) : a->dtype;
  return bp__ir_node2(module, kind, dtype, a, b);
}

/* Applies an identity of x with a float constant; NULL if none applies. */
static const BpIrNode *float_identity(int32_t kind, const BpIrNode *x, double c) {
  switch (kind) {
  case BP_IR_ADD:
    return c == 0 && signbit(c) ? x : NULL;
  case BP_IR_SUB:
    return c == 0 && !signbit(c) ? x : NULL;
  case BP_IR_MUL:
  case BP_IR_DIV:
    return c == 1 ? x : NULL;
  default:
    return NULL;
  }
}

/* Combines the constants of (y op d) op c, where x is y op d; *found tells whether x has that
 * form. */
static const BpIrNode *regroup(BpIrModule *module, int32_t kind, const BpIrNode *x, int64_t c,
                               bool *found) {
  int64_t d, product;
  *found = false;
  if (x->kind != kind || !bp__ir_const_int(x->operands[1], &d))
    return NULL;
  BpIrScalar both;
  BpDataType element = bp__dtype_element(x->dtype);
  switch (kind) {
  case BP_IR_ADD:
  case BP_IR_MUL:
  case BP_IR_MIN:
  case BP_IR_MAX:
  case BP_IR_BIT_AND:
  case BP_IR_BIT_OR:
  case BP_IR_BIT_XOR:
    both = bp__scalar_binary(kind, element, (BpIrScalar){.i = d}, (BpIrScalar){.i = c});
    break;
  case BP_IR_FLOORDIV:
    if (c <= 0 || d <= 0 || __builtin_mul_overflow(c, d, &product) ||
        bp__scalar_wrap(element, product) != product)
      return NULL;
    both.i = product;
    break;
  default:
    return NULL;
  }
  *found = true;
  return bp_ir_binary(module, kind, x->operands[0], bp_ir_int(module, x->dtype, both.i));
}

/* Applies an identity of an integer or bool x with a constant; NULL if none applies. */
static const BpIrNode *int_identity(BpIrModule *module, int32_t kind, const BpIrNode *x,
                                    int64_t c) {
  switch (kind) {
  case BP_IR_ADD:
  case BP_IR_SUB:
  case BP_IR_BIT_OR:
  case BP_IR_BIT_XOR:
  case BP_IR_SHL:
  case BP_IR_SHR:
    return c == 0 ? x : NULL;
  case BP_IR_MUL:
    if (c == 1)
      return x;
    return c == 0 ? bp_ir_int(module, x->dtype, 0) : NULL;
  case BP_IR_DIV:
  case BP_IR_FLOORDIV:
    return c == 1 ? x : NULL;
  case BP_IR_MOD:
  case BP_IR_FLOORMOD:
    return c == 1 ? bp_ir_int(module, x->dtype, 0) : NULL;
  case BP_IR_BIT_AND:
    return c == 0 ? bp_ir_int(module, x->dtype, 0) : NULL;
  case BP_IR_AND:
    return c ? x : bp_ir_int(module, x->dtype, 0);
  case BP_IR_OR:
    return c ? bp_ir_int(module, x->dtype, 1) : x;
  default:
    return NULL;
  }
}

/* Applies an identity of an integer or bool with itself; NULL if none applies. */
static const BpIrNode *same_identity(BpIrModule *module, int32_t kind, const BpIrNode *x) {
  switch (kind) {
  case BP_IR_SUB:
  case BP_IR_BIT_XOR:
    return bp_ir_int(module, x->dtype, 0);
  case BP_IR_MIN:
  case BP_IR_MAX:
  case BP_IR_AND:
  case BP_IR_OR:
  case BP_IR_BIT_AND:
  case BP_IR_BIT_OR:
    return x;
  case BP_IR_EQ:
  case BP_IR_LE:
  case BP_IR_GE:
    return bp_ir_int(module, bp__dtype_bool(x->dtype.lanes), 1);
  case BP_IR_NE:
  case BP_IR_LT:
  case BP_IR_GT:
    return bp_ir_int(module, bp__dtype_bool(x->dtype.lanes), 0);
  default:
    return NULL;
  }
}

static const BpIrNode *fold_int(BpIrModule *module, int32_t kind, const BpIrNode *a,
                                const BpIrNode *b) {
  if (bp__ir_equal(a, b)) {
    const BpIrNode *same = same_identity(module, kind, a);
    if (same)
      return same;
  }
  int64_t c;
  if (!bp__ir_const_int(b, &c))
    return plain(module, kind, a, b);
  /* x - c becomes x + -c, so that later constants can be combined. */
  if (kind == BP_IR_SUB && a->dtype.code == BP_DTYPE_INT && c != 0)
    return bp_ir_binary(module, BP_IR_ADD, a,
                        bp_ir_int(module, a->dtype, (int64_t)(0 - (uint64_t)c)));
  const BpIrNode *identity = int_identity(module, kind, a, c);
  if (identity)
    return identity;
  bool found;
  const BpIrNode *grouped = regroup(module, kind, a, c, &found);
  return found ? grouped : plain(module, kind, a, b);
}

/* Combines a ramp with a broadcast operand or with another ramp to one ramp; NULL if the operands
 * have other forms. */
static const BpIrNode *fold_ramp(BpIrModule *module, int32_t kind, const BpIrNode *a,
                                 const BpIrNode *b, bool *found) {
  bool additive = kind == BP_IR_ADD || kind == BP_IR_SUB;
  *found = false;
  if (a->kind == BP_IR_BROADCAST && b->kind == BP_IR_RAMP &&
      (kind == BP_IR_ADD || kind == BP_IR_MUL)) {
    const BpIrNode *swap = a;
    a = b;
    b = swap;
  }
  if (a->kind != BP_IR_RAMP || (!additive && kind != BP_IR_MUL))
    return NULL;
  const BpIrNode *base = a->operands[0], *stride = a->operands[1];
  if (b->kind == BP_IR_BROADCAST) {
    base = bp_ir_binary(module, kind, base, b->operands[0]);
    if (kind == BP_IR_MUL)
      stride = bp_ir_binary(module, kind, stride, b->operands[0]);
  } else if (b->kind == BP_IR_RAMP && additive) {
    base = bp_ir_binary(module, kind, base, b->operands[0]);
    stride = bp_ir_binary(module, kind, stride, b->operands[1]);
  } else {
    return NULL;
  }
  *found = true;
  return bp_ir_ramp(module, base, stride, a->dtype.lanes);
}

static bool is_dot_alone(const BpIrNode *node) {
  return node->kind == BP_IR_CALL && node->int_value == BP_IR_CALL_INTRINSIC &&
         !strcmp(node->str_value, "dot4_us") && bp__ir_is_int_value(node->operands[2], 0);
}

/* Adds x to a dot product that adds its products to 0. */
static const BpIrNode *fold_dot(BpIrModule *module, const BpIrNode *dot, const BpIrNode *x) {
  const BpIrNode *args[] = {dot->operands[0], dot->operands[1], x};
  return bp__ir_intrinsic(module, dot->str_value, args, 3);
}

/* Makes a two-operand node, folded; both operands have the same type. */
static const BpIrNode *fold_binary(BpIrModule *module, int32_t kind, const BpIrNode *a,
                                   const BpIrNode *b) {
  if (is_constant(a) && is_constant(b))
    return make_constant(module, is_comparison(kind) ? bp__dtype_bool(1) : a->dtype,
                         bp__scalar_binary(kind, a->dtype, constant_value(a), constant_value(b)));
  if (a->kind == BP_IR_BROADCAST && b->kind == BP_IR_BROADCAST)
    return bp_ir_broadcast(module, bp_ir_binary(module, kind, a->operands[0], b->operands[0]),
                           a->dtype.lanes);
  bool found;
  const BpIrNode *ramp = fold_ramp(module, kind, a, b, &found);
  if (found)
    return ramp;
  double unused;
  int64_t unused_int;
  if (commutes(kind, a->dtype) &&
      (bp__ir_const_float(a, &unused) || bp__ir_const_int(a, &unused_int))) {
    const BpIrNode *swap = a;
    a = b;
    b = swap;
  }
  if (kind == BP_IR_ADD && is_dot_alone(b))
    return fold_dot(module, b, a);
  if (!bp__dtype_is_float(a->dtype))
    return fold_int(module, kind, a, b);
  double c;
  const BpIrNode *identity = bp__ir_const_float(b, &c) ? float_identity(kind, a, c) : NULL;
  return identity ? identity : plain(module, kind, a, b);
}

const BpIrNode *bp_ir_binary(BpIrModule *module, int32_t kind, const BpIrNode *a,
                             const BpIrNode *b) {
  if (!BP_OPERAND(a) || !BP_OPERAND(b))
    return NULL;
  if (a->dtype.lanes == 1 && b->dtype.lanes > 1)
    a = bp_ir_broadcast(module, a, b->dtype.lanes);
  else if (b->dtype.lanes == 1 && a->dtype.lanes > 1)
    b = bp_ir_broadcast(module, b, a->dtype.lanes);
  if (!a || !b)
    return NULL;
  if (!bp__dtype_equal(a->dtype, b->dtype))
    return refuse_pair(kind, a, b);
  const char *wanted = bp__ir_wanted_type(kind, a->dtype);
  return wanted ? refuse(kind, wanted, a->dtype) : fold_binary(module, kind, a, b);
}

/* ---- Choice ------------------------------------------------------------------------------ */

/* The comparison that is true exactly where `kind` is false. Because of NaN, only EQ and NE have
 * opposites on floats. */
static int32_t opposite(int32_t kind, bool is_float) {
  switch (kind) {
  case BP_IR_EQ:
    return BP_IR_NE;
  case BP_IR_NE:
    return BP_IR_EQ;
  case BP_IR_LT:
    return is_float ? BP_IR_NONE : BP_IR_GE;
  case BP_IR_LE:
    return is_float ? BP_IR_NONE : BP_IR_GT;
  case BP_IR_GT:
    return is_float ? BP_IR_NONE : BP_IR_LE;
  case BP_IR_GE:
    return is_float ? BP_IR_NONE : BP_IR_LT;
  default:
    return BP_IR_NONE;
  }
}

const BpIrNode *bp_ir_not(BpIrModule *module, const BpIrNode *a) {
  if (!BP_NOT_NULL(module) || !BP_OPERAND(a))
    return NULL;
  if (bp__ir_wanted_type(BP_IR_NOT, a->dtype))
    return refuse(BP_IR_NOT, "bool", a->dtype);
  int64_t known;
  if (bp__ir_const_int(a, &known))
    return bp_ir_int(module, a->dtype, !known);
  if (a->kind == BP_IR_NOT)
    return a->operands[0];
  if (is_comparison(a->kind)) {
    int32_t kind = opposite(a->kind, bp__dtype_is_float(a->operands[0]->dtype));
    if (kind != BP_IR_NONE)
      return bp_ir_binary(module, kind, a->operands[0], a->operands[1]);
  }
  return bp__ir_node1(module, BP_IR_NOT, a->dtype, a);
}

const BpIrNode *bp_ir_select(BpIrModule *module, const BpIrNode *condition, const BpIrNode *a,
                             const BpIrNode *b) {
  if (!BP_NOT_NULL(module) || !BP_OPERAND(condition) || !BP_OPERAND(a) || !BP_OPERAND(b))
    return NULL;
  if (!bp__dtype_is_bool(condition->dtype))
    return refuse(BP_IR_SELECT, "a condition of bool", condition->dtype);
  if (!bp__dtype_equal(bp__dtype_element(a->dtype), bp__dtype_element(b->dtype)))
    return refuse_pair(BP_IR_SELECT, a, b);
  uint16_t lanes = condition->dtype.lanes;
  if (a->dtype.lanes > lanes)
    lanes = a->dtype.lanes;
  if (b->dtype.lanes > lanes)
    lanes = b->dtype.lanes;
  condition = bp_ir_broadcast(module, condition, lanes);
  a = bp_ir_broadcast(module, a, lanes);
  b = bp_ir_broadcast(module, b, lanes);
  if (!condition || !a || !b)
    return NULL;
  int64_t known;
  if (bp__ir_const_int(condition, &known))
    return known ? a : b;
  if (bp__ir_equal(a, b))
    return a;
  const BpIrNode *operands[] = {condition, a, b};
  return bp_ir_make(module, BP_IR_SELECT, a->dtype, operands, 3, 0, 0, NULL);
}

const BpIrNode *bp__ir_select_like(BpIrModule *module, const BpIrNode *node,
                                   const BpIrNode *condition, const BpIrNode *a,
                                   const BpIrNode *b) {
  const BpIrNode *select = bp_ir_select(module, condition, a, b);
  if (!select || !node->int_value || select->kind != BP_IR_SELECT || select == a || select == b)
    return select;
  return bp_ir_make(module, BP_IR_SELECT, select->dtype, select->operands, 3, node->int_value, 0,
                    NULL);
}

/* ---- Conversion and vectors -------------------------------------------------------------- */

/* Whether the type `wide` can represent every value of the type `narrow`. */
static bool holds_all(BpDataType wide, BpDataType narrow) {
  if (bp__dtype_is_float(wide) && bp__dtype_is_float(narrow))
    return wide.bits > narrow.bits;
  return bp__dtype_is_int(wide) && wide.code == narrow.code && wide.bits >= narrow.bits;
}

const BpIrNode *bp_ir_cast(BpIrModule *module, BpDataType dtype, const BpIrNode *a) {
  if (!BP_NOT_NULL(module) || !BP_OPERAND(a))
    return NULL;
  if (bp__dtype_equal(dtype, a->dtype))
    return a;
  if (!bp__dtype_is_number(a->dtype) || !bp__dtype_is_number(dtype))
    return refuse(BP_IR_CAST, "and gives numbers", bp__dtype_is_number(dtype) ? a->dtype : dtype);
  if (is_constant(a))
    return make_constant(module, dtype, bp__scalar_cast(dtype, a->dtype, constant_value(a)));
  if (a->kind == BP_IR_BROADCAST)
    return bp_ir_broadcast(module, bp_ir_cast(module, bp__dtype_element(dtype), a->operands[0]),
                           a->dtype.lanes);
  if (a->kind == BP_IR_CAST && holds_all(a->dtype, a->operands[0]->dtype) &&
      bp__dtype_equal(bp__dtype_element(dtype), bp__dtype_element(a->operands[0]->dtype)))
    return a->operands[0];
  return bp__ir_node1(module, BP_IR_CAST, bp__dtype_with_lanes(dtype, a->dtype.lanes), a);
}

const BpIrNode *bp_ir_ramp(BpIrModule *module, const BpIrNode *base, const BpIrNode *stride,
                           uint16_t lanes) {
  if (!BP_NOT_NULL(module) || !BP_OPERAND(base) || !BP_OPERAND(stride))
    return NULL;
  if (lanes == 1)
    return base;
  if (bp__ir_is_int_value(stride, 0))
    return bp_ir_broadcast(module, base, lanes);
  return bp__ir_node2(module, BP_IR_RAMP, bp__dtype_with_lanes(base->dtype, lanes), base, stride);
}

const BpIrNode *bp_ir_broadcast(BpIrModule *module, const BpIrNode *a, uint16_t lanes) {
  if (!BP_NOT_NULL(module) || !BP_OPERAND(a))
    return NULL;
  if (a->dtype.lanes == lanes)
    return a;
  return splat(module, a, lanes);
}
