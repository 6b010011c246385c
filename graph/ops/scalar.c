/* SPDX-License-Identifier: Apache-2.0 */
/* Computes one element of each element-wise operator. docs/ir.md documents the names of
 * intrinsics. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* A constant of the type of `like`. */
static const BpIrNode *number(BpIrModule *ir, const BpIrNode *like, double value) {
  return like ? x_number(ir, x_dtype(like), value) : NULL;
}

static const BpIrNode *attr_number(BpIrModule *ir, const BpGraphNode *node, const BpIrNode *like,
                                   const char *name, float otherwise) {
  return number(ir, like, (double)bp__node_float(node, name, otherwise));
}

static int is_float(const BpIrNode *a) {
  return bp__dtype_is_float(x_dtype(a));
}

/* ---- One operand ------------------------------------------------------------------------- */

#define INTRINSIC(row, name)                                                                       \
  BP_ROW_SCALAR(row) {                                                                             \
    (void)node;                                                                                    \
    return x_call1(ir, name, args[0]);                                                             \
  }
INTRINSIC(sqrt, "sqrt")
INTRINSIC(exp, "exp")
INTRINSIC(log, "log")
INTRINSIC(sin, "sin")
INTRINSIC(cos, "cos")
INTRINSIC(tan, "tan")
INTRINSIC(asin, "asin")
INTRINSIC(acos, "acos")
INTRINSIC(atan, "atan")
INTRINSIC(sinh, "sinh")
INTRINSIC(cosh, "cosh")
INTRINSIC(tanh, "tanh")
INTRINSIC(asinh, "asinh")
INTRINSIC(acosh, "acosh")
INTRINSIC(atanh, "atanh")
INTRINSIC(erf, "erf")
INTRINSIC(sigmoid, "sigmoid")
INTRINSIC(floor, "floor")
INTRINSIC(ceil, "ceil")

BP_ROW_SCALAR(identity) {
  (void)ir;
  (void)node;
  return args[0];
}

BP_ROW_SCALAR(abs) {
  (void)node;
  return x_abs(ir, args[0]);
}

BP_ROW_SCALAR(neg) {
  (void)node;
  if (is_float(args[0]))
    return x_mul(ir, args[0], number(ir, args[0], -1));
  return x_sub(ir, number(ir, args[0], 0), args[0]);
}

/* Rounds to the nearest integer, halves to even. */
INTRINSIC(round, "round")

/* The sign of NaN or zero is the number itself. */
BP_ROW_SCALAR(sign) {
  const BpIrNode *x = args[0], *zero = number(ir, x, 0);
  (void)node;
  return x_choose(ir, x_lt(ir, zero, x), number(ir, x, 1),
                  x_choose(ir, x_lt(ir, x, zero), number(ir, x, -1), x));
}

BP_ROW_SCALAR(reciprocal) {
  (void)node;
  return x_div(ir, number(ir, args[0], 1), args[0]);
}

BP_ROW_SCALAR(relu) {
  (void)node;
  return x_max(ir, args[0], number(ir, args[0], 0));
}

/* x if it is not negative, else `otherwise`. */
static const BpIrNode *unless_negative(BpIrModule *ir, const BpIrNode *x,
                                       const BpIrNode *otherwise) {
  return x_choose(ir, x_lt(ir, x, number(ir, x, 0)), otherwise, x);
}

BP_ROW_SCALAR(leaky_relu) {
  return unless_negative(ir, args[0],
                         x_mul(ir, args[0], attr_number(ir, node, args[0], "alpha", 0.01f)));
}

BP_ROW_SCALAR(prelu) {
  (void)node;
  return unless_negative(ir, args[0], x_mul(ir, args[0], args[1]));
}

BP_ROW_SCALAR(thresholded_relu) {
  const BpIrNode *alpha = attr_number(ir, node, args[0], "alpha", 1.0f);
  return x_choose(ir, x_lt(ir, alpha, args[0]), args[0], number(ir, args[0], 0));
}

static const BpIrNode *exp_minus_one(BpIrModule *ir, const BpIrNode *x) {
  return x_sub(ir, x_call1(ir, "exp", x), number(ir, x, 1));
}

BP_ROW_SCALAR(elu) {
  const BpIrNode *alpha = attr_number(ir, node, args[0], "alpha", 1.0f);
  return unless_negative(ir, args[0], x_mul(ir, alpha, exp_minus_one(ir, args[0])));
}

BP_ROW_SCALAR(selu) {
  const BpIrNode *alpha = attr_number(ir, node, args[0], "alpha", 1.67326319f);
  const BpIrNode *gamma = attr_number(ir, node, args[0], "gamma", 1.05070102f);
  return x_mul(ir, gamma,
               unless_negative(ir, args[0], x_mul(ir, alpha, exp_minus_one(ir, args[0]))));
}

BP_ROW_SCALAR(celu) {
  const BpIrNode *alpha = attr_number(ir, node, args[0], "alpha", 1.0f);
  return unless_negative(ir, args[0],
                         x_mul(ir, alpha, exp_minus_one(ir, x_div(ir, args[0], alpha))));
}

static const BpIrNode *clamp01(BpIrModule *ir, const BpIrNode *x) {
  return x_min(ir, x_max(ir, x, number(ir, x, 0)), number(ir, x, 1));
}

BP_ROW_SCALAR(hard_sigmoid) {
  const BpIrNode *alpha = attr_number(ir, node, args[0], "alpha", 0.2f);
  const BpIrNode *beta = attr_number(ir, node, args[0], "beta", 0.5f);
  return clamp01(ir, x_add(ir, x_mul(ir, args[0], alpha), beta));
}

BP_ROW_SCALAR(hard_swish) {
  const BpIrNode *x = args[0];
  const BpIrNode *scaled = x_mul(ir, x, number(ir, x, 1.0 / 6.0));
  (void)node;
  return x_mul(ir, x, clamp01(ir, x_add(ir, scaled, number(ir, x, 0.5))));
}

/* Softplus: log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which does not overflow. */
static const BpIrNode *softplus(BpIrModule *ir, const BpIrNode *x) {
  const BpIrNode *zero = number(ir, x, 0), *one = number(ir, x, 1);
  const BpIrNode *decay = x_call1(ir, "exp", x_sub(ir, zero, x_call1(ir, "abs", x)));
  return x_add(ir, x_max(ir, x, zero), x_call1(ir, "log", x_add(ir, one, decay)));
}

BP_ROW_SCALAR(softplus) {
  (void)node;
  return softplus(ir, args[0]);
}

BP_ROW_SCALAR(softsign) {
  (void)node;
  return x_div(ir, args[0], x_add(ir, number(ir, args[0], 1), x_call1(ir, "abs", args[0])));
}

BP_ROW_SCALAR(mish) {
  (void)node;
  return x_mul(ir, args[0], x_call1(ir, "tanh", softplus(ir, args[0])));
}

BP_ROW_SCALAR(swish) {
  const BpIrNode *x = args[0];
  return x_mul(ir, x,
               x_call1(ir, "sigmoid", x_mul(ir, x, attr_number(ir, node, x, "alpha", 1.0f))));
}

BP_ROW_SCALAR(gelu) {
  const BpIrNode *x = args[0], *inner;
  if (!strcmp(bp__node_str(node, "approximate", "none"), "tanh")) {
    const BpIrNode *cube = x_mul(ir, x_mul(ir, x, x), x_mul(ir, x, number(ir, x, 0.044715)));
    inner = x_call1(ir, "tanh", x_mul(ir, x_add(ir, x, cube), number(ir, x, 0.7978845608028654)));
  } else {
    inner = x_call1(ir, "erf", x_mul(ir, x, number(ir, x, 0.70710678118654752)));
  }
  return x_mul(ir, x_mul(ir, x, number(ir, x, 0.5)), x_add(ir, inner, number(ir, x, 1)));
}

/* Whether x is less than `bound`, which may lie outside the range of x's integer type. */
static const BpIrNode *is_below(BpIrModule *ir, const BpIrNode *x, double bound) {
  BpDataType dtype = x_dtype(x);
  int is_signed = dtype.code == BP_DTYPE_INT;
  if (is_float(x))
    return x_lt(ir, x, number(ir, x, bound));
  bound = ceil(bound);
  if (bound >= ldexp(1, dtype.bits - is_signed))
    return bp_ir_int(ir, BP__BOOL, 1);
  return bound <= (is_signed ? -ldexp(1, dtype.bits - 1) : 0) ? bp_ir_int(ir, BP__BOOL, 0)
                                                              : x_lt(ir, x, number(ir, x, bound));
}

/* Whether x is greater than `bound`, which may lie outside the range of x's integer type. */
static const BpIrNode *is_above(BpIrModule *ir, const BpIrNode *x, double bound) {
  BpDataType dtype = x_dtype(x);
  int is_signed = dtype.code == BP_DTYPE_INT;
  if (is_float(x))
    return x_lt(ir, number(ir, x, bound), x);
  bound = floor(bound);
  if (bound >= ldexp(1, dtype.bits - is_signed))
    return bp_ir_int(ir, BP__BOOL, 0);
  return bound < (is_signed ? -ldexp(1, dtype.bits - 1) : 0) ? bp_ir_int(ir, BP__BOOL, 1)
                                                             : x_lt(ir, number(ir, x, bound), x);
}

/* x plus a number. The sum of an integer and a fraction is rounded toward zero. */
static const BpIrNode *plus(BpIrModule *ir, const BpIrNode *x, double addend) {
  double whole = is_float(x) ? addend : floor(addend);
  const BpIrNode *sum = x_add(ir, x, number(ir, x, whole));
  if (whole == addend)
    return sum;
  return x_choose(ir, is_below(ir, x, -whole), x_add(ir, sum, number(ir, x, 1)), sum);
}

BP_ROW_SCALAR(shrink) {
  const BpIrNode *x = args[0], *zero = number(ir, x, 0);
  double bias = (double)bp__node_float(node, "bias", 0.0f);
  double lambda = (double)bp__node_float(node, "lambd", 0.5f);
  return x_choose(ir, is_below(ir, x, -lambda), plus(ir, x, bias),
                  x_choose(ir, is_above(ir, x, lambda), plus(ir, x, -bias), zero));
}

BP_ROW_SCALAR(clip) {
  const BpIrNode *x = args[0];
  const BpIrNode *low = bp__node_attr(node, "min") ? attr_number(ir, node, x, "min", 0) : NULL;
  const BpIrNode *high = bp__node_attr(node, "max") ? attr_number(ir, node, x, "max", 0) : NULL;
  low = bp__node_input(node, 1) ? args[1] : low;
  high = bp__node_input(node, 2) ? args[2] : high;
  x = low ? x_max(ir, x, low) : x;
  return high ? x_min(ir, x, high) : x;
}

BP_ROW_SCALAR(cast) {
  BpDataType to = node->outputs[0]->dtype;
  if (to.code == BP_DTYPE_BOOL)
    return bp_ir_binary(ir, BP_IR_NE, args[0], number(ir, args[0], 0));
  return bp_ir_cast(ir, to, args[0]);
}

BP_ROW_SCALAR(not ) {
  (void)node;
  return bp_ir_not(ir, args[0]);
}

BP_ROW_SCALAR(bit_not) {
  (void)node;
  return bp_ir_binary(ir, BP_IR_BIT_XOR, args[0], number(ir, args[0], -1));
}

BP_ROW_SCALAR(is_nan) {
  (void)node;
  return bp_ir_binary(ir, BP_IR_NE, args[0], args[0]);
}

BP_ROW_SCALAR(is_inf) {
  const BpIrNode *x = args[0], *infinite = number(ir, x, HUGE_VAL);
  const BpIrNode *up = bp_ir_binary(ir, BP_IR_EQ, x, infinite);
  const BpIrNode *down = bp_ir_binary(ir, BP_IR_EQ, x, number(ir, x, -HUGE_VAL));
  const BpIrNode *none = bp_ir_int(ir, BP__BOOL, 0);
  up = bp__node_int(node, "detect_positive", 1) ? up : none;
  down = bp__node_int(node, "detect_negative", 1) ? down : none;
  return bp_ir_binary(ir, BP_IR_OR, up, down);
}

/* ---- Two operands and more --------------------------------------------------------------- */

#define BINARY(row, kind)                                                                          \
  BP_ROW_SCALAR(row) {                                                                             \
    (void)node;                                                                                    \
    return bp_ir_binary(ir, kind, args[0], args[1]);                                               \
  }
BINARY(add, BP_IR_ADD)
BINARY(sub, BP_IR_SUB)
BINARY(mul, BP_IR_MUL)
BINARY(div, BP_IR_DIV)
BINARY(min, BP_IR_MIN)
BINARY(max, BP_IR_MAX)
BINARY(equal, BP_IR_EQ)
BINARY(less, BP_IR_LT)
BINARY(less_or_equal, BP_IR_LE)
BINARY(greater, BP_IR_GT)
BINARY(greater_or_equal, BP_IR_GE)
BINARY(and, BP_IR_AND)
BINARY(or, BP_IR_OR)
BINARY(xor, BP_IR_NE)
BINARY(bit_and, BP_IR_BIT_AND)
BINARY(bit_or, BP_IR_BIT_OR)
BINARY(bit_xor, BP_IR_BIT_XOR)

/* Mod: with fmod 0 the result has the sign of the divisor; with fmod 1 the sign of the dividend, as
 * in C. */
BP_ROW_SCALAR(mod) {
  int like_c = bp__node_int(node, "fmod", 0) != 0;
  const BpIrNode *rest, *zero;
  if (!is_float(args[0]))
    return bp_ir_binary(ir, like_c ? BP_IR_MOD : BP_IR_FLOORMOD, args[0], args[1]);
  rest = bp_ir_call(ir, x_dtype(args[0]), BP_IR_CALL_INTRINSIC, "fmod", args, 2);
  if (like_c || !rest)
    return rest;
  zero = number(ir, rest, 0);
  return x_choose(ir,
                  x_choose(ir, x_lt(ir, args[1], zero), x_lt(ir, zero, rest), x_lt(ir, rest, zero)),
                  x_add(ir, rest, args[1]), rest);
}

/* pow(x, 0.5), which unlike the square root gives 0 for -0 and infinity for minus infinity. */
static const BpIrNode *root(BpIrModule *ir, const BpIrNode *x) {
  const BpIrNode *is_lowest = bp_ir_binary(ir, BP_IR_EQ, x, number(ir, x, -HUGE_VAL));
  return x_choose(ir, is_lowest, number(ir, x, HUGE_VAL),
                  x_call1(ir, "sqrt", x_add(ir, x, number(ir, x, 0))));
}

/* Small powers, the most frequent ones in models, are computed without the intrinsic. */
BP_ROW_SCALAR(pow) {
  const BpIrNode *x = args[0], *pair[2];
  const BpGraphValue *exponent = node->inputs[1];
  double value = exponent->data && bp__value_num_elements(exponent) == 1
                     ? bp__value_get_float(exponent, 0)
                     : (double)NAN;
  if (value == 1.0)
    return x;
  if (value == 2.0)
    return x_mul(ir, x, x);
  if (value == 3.0)
    return x_mul(ir, x_mul(ir, x, x), x);
  if (value == 0.5 && is_float(x))
    return root(ir, x);
  pair[0] = is_float(x) ? x : bp_ir_cast(ir, BP__FLOAT64, x);
  pair[1] = pair[0] ? bp_ir_cast(ir, x_dtype(pair[0]), args[1]) : NULL;
  if (!pair[1])
    return NULL;
  return bp_ir_cast(ir, x_dtype(x),
                    bp_ir_call(ir, x_dtype(pair[0]), BP_IR_CALL_INTRINSIC, "pow", pair, 2));
}

BP_ROW_SCALAR(bit_shift) {
  int left = !strcmp(bp__node_str(node, "direction", "LEFT"), "LEFT");
  return bp_ir_binary(ir, left ? BP_IR_SHL : BP_IR_SHR, args[0], args[1]);
}

BP_ROW_SCALAR(where) {
  (void)node;
  return x_choose(ir, args[0], args[1], args[2]);
}
