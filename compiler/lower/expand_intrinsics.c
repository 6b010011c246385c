/* SPDX-License-Identifier: Apache-2.0 */
/* Intrinsics as arithmetic, for machines whose vector unit has no such instruction.
 *
 * All in float32; narrower floats are widened first, float64 is left to the C library. Polynomials
 * and quotients are near-minimax fits of the relative error (Lawson's weights over Chebyshev nodes,
 * in 50 digits). The largest errors over all arguments, in units of the last place: exp 1, log 1,
 * sigmoid 3, tanh 6, erf 8; tests hold them. NaN, infinities, zeros, subnormal results and the ends
 * of the range are those of the C library. No form relies on more than IEEE arithmetic, and none
 * survives options that let a compiler reorder it (-ffast-math). */

#include <math.h>

#include "compiler/lower/passes.h"

/* Makes expressions of one type. */
typedef struct Maker {
  BpIrModule *module;
  BpDataType type, bits; /* float32 and int32 with the same lanes */
} Maker;

static const BpIrNode *add(const Maker *m, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(m->module, BP_IR_ADD, a, b);
}
static const BpIrNode *sub(const Maker *m, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(m->module, BP_IR_SUB, a, b);
}
static const BpIrNode *mul(const Maker *m, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(m->module, BP_IR_MUL, a, b);
}
static const BpIrNode *divide(const Maker *m, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(m->module, BP_IR_DIV, a, b);
}
static const BpIrNode *less(const Maker *m, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(m->module, BP_IR_LT, a, b);
}
static const BpIrNode *pick(const Maker *m, const BpIrNode *condition, const BpIrNode *a,
                            const BpIrNode *b) {
  return bp_ir_select(m->module, condition, a, b);
}
static const BpIrNode *number(const Maker *m, double value) {
  return bp_ir_float(m->module, m->type, value);
}
static const BpIrNode *integer(const Maker *m, int64_t value) {
  return bp_ir_int(m->module, m->bits, value);
}
static const BpIrNode *bits_of(const Maker *m, const BpIrNode *a) {
  return bp__ir_reinterpret(m->module, m->bits, a);
}
static const BpIrNode *float_of(const Maker *m, const BpIrNode *a) {
  return bp__ir_reinterpret(m->module, m->type, a);
}
static const BpIrNode *shift(const Maker *m, int32_t kind, const BpIrNode *a, int64_t by) {
  return bp_ir_binary(m->module, kind, a, integer(m, by));
}

/* c[0] + c[1] x + c[2] x^2 ... by Horner's rule. */
static const BpIrNode *polynomial(const Maker *m, const BpIrNode *x, const double *c, int count) {
  const BpIrNode *sum = number(m, c[count - 1]);
  for (int i = count - 2; i >= 0; i--)
    sum = add(m, mul(m, sum, x), number(m, c[i]));
  return sum;
}

/* Not below and not above; NaN stays NaN. */
static const BpIrNode *at_least(const Maker *m, const BpIrNode *x, double limit) {
  return pick(m, less(m, x, number(m, limit)), number(m, limit), x);
}
static const BpIrNode *at_most(const Maker *m, const BpIrNode *x, double limit) {
  return pick(m, less(m, number(m, limit), x), number(m, limit), x);
}

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

/* ln 2 in two parts; the first has so few bits that small multiples of it are exact. */
#define LN2_HIGH 0.693359375
#define LN2_LOW  -2.12194440e-4

/* 2^k for an integer -126 <= k <= 127, by its exponent's bits. */
static const BpIrNode *power_of_two(const Maker *m, const BpIrNode *k) {
  return float_of(m, shift(m, BP_IR_SHL, add(m, k, integer(m, 127)), 23));
}

/* x = k ln 2 + r, |r| <= ln 2 / 2: exp(x) = 2^k (1 + r + r^2 q(r)). Adding 1.5 * 2^23 rounds to an
 * integer, and leaves it in the low bits. 2^k goes in two halves: it may be beyond the format where
 * the result is infinite or subnormal. `x` is not above 89. */
static const BpIrNode *expand_bounded_exp(const Maker *m, const BpIrNode *x) {
  static const double q[] = {0.499999934123, 0.166665201055, 0.0416683942592, 0.00836878062223,
                             0.00138144647522};
  x = at_least(m, x, -104);
  const BpIrNode *magic = number(m, 12582912);
  const BpIrNode *rounded = add(m, mul(m, x, number(m, 1.44269504088896)), magic);
  const BpIrNode *n = sub(m, rounded, magic);
  const BpIrNode *r = sub(m, x, mul(m, n, number(m, LN2_HIGH)));
  r = sub(m, r, mul(m, n, number(m, LN2_LOW)));
  const BpIrNode *p = mul(m, mul(m, r, r), polynomial(m, r, q, COUNT(q)));
  p = add(m, add(m, p, r), number(m, 1));
  const BpIrNode *k = sub(m, bits_of(m, rounded), integer(m, 0x4b400000));
  const BpIrNode *half = shift(m, BP_IR_SHR, k, 1);
  return mul(m, mul(m, p, power_of_two(m, half)), power_of_two(m, sub(m, k, half)));
}

static const BpIrNode *expand_exp(const Maker *m, const BpIrNode *x) {
  return expand_bounded_exp(m, at_most(m, x, 89));
}

/* By e = exp(-|x|), which keeps small results exact: 1 / (1 + e) or e / (1 + e). */
static const BpIrNode *expand_sigmoid(const Maker *m, const BpIrNode *x) {
  const BpIrNode *is_negative = less(m, x, number(m, 0));
  const BpIrNode *e = expand_bounded_exp(m, pick(m, is_negative, x, mul(m, x, number(m, -1))));
  const BpIrNode *one = number(m, 1);
  return divide(m, pick(m, is_negative, e, one), add(m, one, e));
}

/* x P(x^2) / Q(x^2), never beyond 1. At `limit` the quotient exceeds 1 by several units of the last
 * place, so that from there on the result is 1 exactly however the arithmetic is rounded: 1 +
 * erf(x) has to be 0 for large negative x, which gelu multiplies by it. */
static const BpIrNode *odd_quotient(const Maker *m, const BpIrNode *x, double limit,
                                    const double *p, int p_count, const double *q, int q_count) {
  x = at_most(m, at_least(m, x, -limit), limit);
  const BpIrNode *u = mul(m, x, x);
  const BpIrNode *above = mul(m, x, polynomial(m, u, p, p_count));
  const BpIrNode *ratio = divide(m, above, polynomial(m, u, q, q_count));
  return at_most(m, at_least(m, ratio, -1), 1);
}

static const BpIrNode *expand_tanh(const Maker *m, const BpIrNode *x) {
  static const double p[] = {1, 0.133839922714, 0.00349900819163, 2.06613800565e-5,
                             1.34198408836e-8};
  static const double q[] = {1, 0.46717313817, 0.0258902579935, 0.000329105458509,
                             7.80476704243e-7};
  return odd_quotient(m, x, 9.5, p, COUNT(p), q, COUNT(q));
}

static const BpIrNode *expand_erf(const Maker *m, const BpIrNode *x) {
  static const double p[] = {1.12837914392,    0.191539934699,    0.0528736745148,
                             0.00380760038793, 0.000284656091868, 2.02574588401e-6};
  static const double q[] = {
      1, 0.503080527304, 0.114554971591, 0.0150539892754, 0.00117055357868, 3.78284474345e-5};
  return odd_quotient(m, x, 4.2, p, COUNT(p), q, COUNT(q));
}

/* x = 2^n (1 + f), 2/3 <= 1 + f < 4/3: log(x) = n ln 2 + f - f^2 / 2 + f^3 r(f). Subnormal x is
 * raised by 2^23 first. */
static const BpIrNode *expand_log(const Maker *m, const BpIrNode *x) {
  static const double r[] = {0.333332159767, -0.24999797689,  0.200104062604, -0.166804860524,
                             0.14005863591,  -0.121842838157, 0.13984462175,  -0.128915721593};
  const BpIrNode *is_small = less(m, x, number(m, 0x1p-126));
  const BpIrNode *raised = pick(m, is_small, mul(m, x, number(m, 0x1p23)), x);
  const BpIrNode *bits = bits_of(m, raised);
  const BpIrNode *k = shift(m, BP_IR_SHR, sub(m, bits, integer(m, 0x3f2aaaab)), 23);
  const BpIrNode *f = float_of(m, sub(m, bits, shift(m, BP_IR_SHL, k, 23)));
  f = sub(m, f, number(m, 1));
  const BpIrNode *n =
      add(m, bp_ir_cast(m->module, m->type, k), pick(m, is_small, number(m, -23), number(m, 0)));
  const BpIrNode *square = mul(m, f, f);
  const BpIrNode *low = sub(m, mul(m, mul(m, f, square), polynomial(m, f, r, COUNT(r))),
                            mul(m, number(m, 0.5), square));
  low = add(m, mul(m, n, number(m, LN2_LOW)), low);
  const BpIrNode *result = add(m, mul(m, n, number(m, LN2_HIGH)), add(m, f, low));
  const BpIrNode *zero = number(m, 0), *infinity = number(m, INFINITY);
  const BpIrNode *is_zero = bp_ir_binary(m->module, BP_IR_EQ, x, zero);
  return pick(m, less(m, zero, x), pick(m, less(m, x, infinity), result, x),
              pick(m, is_zero, number(m, -INFINITY), number(m, NAN)));
}

/* pow(-inf, 0.5) is inf and pow(-0, 0.5) is 0, unlike the square roots. */
static const BpIrNode *expand_root(const Maker *m, const BpIrNode *x) {
  const BpIrNode *positive_zero = add(m, x, number(m, 0));
  const BpIrNode *root = bp__ir_intrinsic(m->module, "sqrt", &positive_zero, 1);
  const BpIrNode *is_lowest = bp_ir_binary(m->module, BP_IR_EQ, x, number(m, -INFINITY));
  return pick(m, is_lowest, number(m, INFINITY), root);
}

/* pow with an exponent that a few multiplications give; NULL in *result: not one of them. */
static int expand_pow(const Maker *m, const BpIrNode *x, const BpIrNode *y,
                      const BpIrNode **result) {
  double exponent;
  *result = NULL;
  if (!bp__ir_const_float(y, &exponent))
    return 0;
  if (exponent == 1)
    *result = x;
  else if (exponent == 2)
    *result = mul(m, x, x);
  else if (exponent == 3)
    *result = mul(m, mul(m, x, x), x);
  else if (exponent == 4)
    *result = mul(m, mul(m, x, x), mul(m, x, x));
  else if (exponent == -1)
    *result = divide(m, number(m, 1), x);
  else if (exponent == 0.5)
    *result = expand_root(m, x);
  else
    return 0;
  return *result ? 0 : -1;
}

/* ---- The pass ---------------------------------------------------------------------------- */

static const struct {
  const char *name;
  const BpIrNode *(*expand)(const Maker *m, const BpIrNode *x);
} expansions[] = {
    {"exp", expand_exp},   {"log", expand_log}, {"sigmoid", expand_sigmoid},
    {"tanh", expand_tanh}, {"erf", expand_erf},
};

static const BpIrNode *expand_call(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpIrModule *module = rewriter->module;
  if (node->kind != BP_IR_CALL || node->int_value != BP_IR_CALL_INTRINSIC ||
      !bp__dtype_is_float(node->dtype) || node->dtype.bits > 32)
    return node;
  uint16_t lanes = node->dtype.lanes;
  Maker m = {module, bp__dtype(BP_DTYPE_FLOAT, 32, lanes), bp__dtype(BP_DTYPE_INT, 32, lanes)};
  const BpIrNode *x = bp_ir_cast(module, m.type, node->operands[0]);
  if (!strcmp(node->str_value, "pow")) {
    const BpIrNode *result;
    if (expand_pow(&m, x, node->operands[1], &result))
      return NULL;
    return result ? bp_ir_cast(module, node->dtype, result) : node;
  }
  for (size_t i = 0; i < sizeof expansions / sizeof *expansions; i++)
    if (!strcmp(node->str_value, expansions[i].name))
      return bp_ir_cast(module, node->dtype, expansions[i].expand(&m, x));
  return node;
}

const BpIrNode *bp__pass_expand_intrinsics(BpIrModule *module, const BpIrNode *function) {
  BpIrRewriter rewriter = {.module = module, .leave = expand_call};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
