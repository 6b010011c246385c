/* SPDX-License-Identifier: Apache-2.0 */
/* Intrinsics as arithmetic, for machines whose vector units have no instructions for them.
 *
 * The arithmetic is float32; narrower floats are widened first, and float64 is left to the C
 * library. Sines, cosines and powers are computed in float64, which most CPUs and few GPUs have
 * vectors of. Polynomials and quotients are near-minimax fits of the relative error (Lawson's
 * weights over Chebyshev nodes, in 50 digits). The largest errors over all arguments, in units of
 * the last place, are: exp 1, log 1, sigmoid 3, tanh 6, erf 8, sin and cos 0.51, pow 0.55; tests
 * check the limits. NaN, infinities, zeros, subnormal results and the ends of the range are as in
 * the C library. The forms need only IEEE arithmetic, and break if a compiler may reorder it
 * (-ffast-math). */

#include <math.h>

#include "compiler/lower/passes.h"

/* Makes expressions of one floating-point type. */
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

/* The polynomial c[0] + c[1] x + c[2] x^2 ... by Horner's rule. */
static const BpIrNode *polynomial(const Maker *m, const BpIrNode *x, const double *c, int count) {
  const BpIrNode *sum = number(m, c[count - 1]);
  for (int i = count - 2; i >= 0; i--)
    sum = add(m, mul(m, sum, x), number(m, c[i]));
  return sum;
}

/* Lower and upper limits of a float; NaN stays NaN. */
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

/* exp(x) = (1 + rest) * high * low, with powers of two high and low: their product may be beyond
 * the format if the result is infinite or subnormal. */
typedef struct Exponential {
  const BpIrNode *rest, *high, *low;
} Exponential;

/* With x = k ln 2 + r and |r| <= ln 2 / 2, exp(x) = 2^k (1 + r + r^2 q(r)). Adding 1.5 * 2^23
 * rounds k to an integer and leaves the integer in the low bits. Adding 254 as well biases both
 * halves of k, so that each half, shifted, is the exponent of a float. |x| is at most 104. */
static Exponential expand_exponential(const Maker *m, const BpIrNode *x) {
  static const double q[] = {0.499999934123, 0.166665201055, 0.0416683942592, 0.00836878062223,
                             0.00138144647522};
  const BpIrNode *magic = number(m, 12582912 + 254);
  const BpIrNode *rounded = add(m, mul(m, x, number(m, 1.44269504088896)), magic);
  const BpIrNode *n = sub(m, rounded, magic);
  const BpIrNode *r = sub(m, x, mul(m, n, number(m, LN2_HIGH)));
  r = sub(m, r, mul(m, n, number(m, LN2_LOW)));
  const BpIrNode *rest = add(m, mul(m, mul(m, polynomial(m, r, q, COUNT(q)), r), r), r);
  const BpIrNode *k = bits_of(m, rounded), *half = shift(m, BP_IR_SHR, k, 1);
  return (Exponential){rest, float_of(m, shift(m, BP_IR_SHL, half, 23)),
                       float_of(m, shift(m, BP_IR_SHL, sub(m, k, half), 23))};
}

static const BpIrNode *expand_exp(const Maker *m, const BpIrNode *x) {
  Exponential e = expand_exponential(m, at_least(m, at_most(m, x, 89), -104));
  return mul(m, add(m, mul(m, e.rest, e.high), e.high), e.low);
}

/* The sigmoid is 1 / (1 + exp(-x)). Numerator and denominator are divided by `high`, which keeps
 * small results exact. */
static const BpIrNode *expand_sigmoid(const Maker *m, const BpIrNode *x) {
  x = mul(m, at_least(m, at_most(m, x, 104), -104), number(m, -1));
  Exponential e = expand_exponential(m, x);
  const BpIrNode *one = float_of(m, sub(m, integer(m, 254 << 23), bits_of(m, e.high)));
  return divide(m, one, add(m, one, add(m, mul(m, e.rest, e.low), e.low)));
}

/* An odd function as x P(x^2) / Q(x^2), at most 1. At `limit` the quotient exceeds 1 by several
 * units of the last place, so that from `limit` on the result is exactly 1 for any rounding: 1 +
 * erf(x) must be 0 for large negative x, because gelu multiplies by it. */
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

/* Splits x = 2^n (1 + f) with 2/3 <= 1 + f < 4/3, and returns f. A subnormal x is multiplied by
 * 2^23 first. */
static const BpIrNode *take_apart(const Maker *m, const BpIrNode *x, const BpIrNode **n) {
  const BpIrNode *is_small = less(m, x, number(m, 0x1p-126));
  const BpIrNode *raised = pick(m, is_small, mul(m, x, number(m, 0x1p23)), x);
  const BpIrNode *bits = bits_of(m, raised);
  const BpIrNode *k = shift(m, BP_IR_SHR, sub(m, bits, integer(m, 0x3f2aaaab)), 23);
  const BpIrNode *f = float_of(m, sub(m, bits, shift(m, BP_IR_SHL, k, 23)));
  *n = add(m, bp_ir_cast(m->module, m->type, k), pick(m, is_small, number(m, -23), number(m, 0)));
  return sub(m, f, number(m, 1));
}

/* The logarithm of any x, given the logarithm `finite` of a positive and finite x. */
static const BpIrNode *with_limits(const Maker *m, const BpIrNode *x, const BpIrNode *finite) {
  const BpIrNode *zero = number(m, 0), *infinity = number(m, INFINITY);
  const BpIrNode *is_zero = bp_ir_binary(m->module, BP_IR_EQ, x, zero);
  return pick(m, less(m, zero, x), pick(m, less(m, x, infinity), finite, x),
              pick(m, is_zero, number(m, -INFINITY), number(m, NAN)));
}

/* log(x) = n ln 2 + f - f^2 / 2 + f^3 r(f). */
static const BpIrNode *expand_log(const Maker *m, const BpIrNode *x) {
  static const double r[] = {0.333332159767, -0.24999797689,  0.200104062604, -0.166804860524,
                             0.14005863591,  -0.121842838157, 0.13984462175,  -0.128915721593};
  const BpIrNode *n, *f = take_apart(m, x, &n);
  const BpIrNode *square = mul(m, f, f);
  const BpIrNode *low = sub(m, mul(m, mul(m, f, square), polynomial(m, f, r, COUNT(r))),
                            mul(m, number(m, 0.5), square));
  low = add(m, mul(m, n, number(m, LN2_LOW)), low);
  return with_limits(m, x, add(m, mul(m, n, number(m, LN2_HIGH)), add(m, f, low)));
}

/* The square root as pow defines it: unlike sqrt, pow(-inf, 0.5) is inf and pow(-0, 0.5) is 0. */
static const BpIrNode *expand_root(const Maker *m, const BpIrNode *x) {
  const BpIrNode *positive_zero = add(m, x, number(m, 0));
  const BpIrNode *root = bp__ir_intrinsic(m->module, "sqrt", &positive_zero, 1);
  const BpIrNode *is_lowest = bp_ir_binary(m->module, BP_IR_EQ, x, number(m, -INFINITY));
  return pick(m, is_lowest, number(m, INFINITY), root);
}

static bool is_known_exponent(double exponent) {
  return exponent == -1 || exponent == 0.5 || exponent == 0.75 || exponent == 1 || exponent == 2 ||
         exponent == 3 || exponent == 4;
}

/* pow with an exponent for which a few multiplications suffice; *result is NULL for any other
 * exponent. */
static int expand_known_pow(const Maker *m, const BpIrNode *x, const BpIrNode *y,
                            const BpIrNode **result) {
  double exponent;
  *result = NULL;
  if (!bp__ir_const_float(y, &exponent) || !is_known_exponent(exponent))
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
  else { /* exponent 0.75, used by LRN */
    const BpIrNode *root = expand_root(m, x);
    *result = mul(m, root, bp__ir_intrinsic(m->module, "sqrt", &root, 1));
  }
  return *result ? 0 : -1;
}

/* ---- In float64 -------------------------------------------------------------------------- */

static Maker wide_maker(const Maker *m) {
  uint16_t lanes = m->type.lanes;
  return (Maker){m->module, bp__dtype(BP_DTYPE_FLOAT, 64, lanes),
                 bp__dtype(BP_DTYPE_INT, 64, lanes)};
}

/* The integer nearest to x if |x| < 2^51; the low bits of *sum contain it. For a positive x up to
 * 2^53 the integer differs from x by a few units. */
#define ROUND_MAGIC 0x1.8p52
static const BpIrNode *nearest(const Maker *w, const BpIrNode *x, const BpIrNode **sum) {
  *sum = add(w, x, number(w, ROUND_MAGIC));
  return sub(w, *sum, number(w, ROUND_MAGIC));
}

/* The fractional part of the turns in an angle x >= 0, give or take a few whole turns. 1 / (2 pi)
 * is split into parts of 29 bits, whose products with a float32 are exact, and whole turns are
 * subtracted from each product. So no argument is too large, and the remainder is exact to
 * float32's last bit and 14 more. */
static const BpIrNode *expand_turns(const Maker *w, const BpIrNode *x) {
  static const double parts[] = {0x1.45f306dp-3,  0x1.9391054p-32,  0x1.4fe13abp-61,
                                 0x1.d1f534dp-90, 0x1.b81b6c5p-119, 0x1.5993c4p-150,
                                 0x1.c820ff2p-177};
  const BpIrNode *turns = NULL, *unused;
  for (int i = 0; i < COUNT(parts); i++) {
    const BpIrNode *part = mul(w, x, number(w, parts[i])), *whole = part;
    if (i < 5) /* no product of a later part reaches a turn */
      part = sub(w, part, nearest(w, part, &unused));
    if (i < 3) /* some products of the first parts are so large that they are whole turns */
      part = pick(w, less(w, whole, number(w, 0x1p53)), part, number(w, 0));
    turns = turns ? add(w, turns, part) : part;
  }
  return turns;
}

/* |x|, computed from its bits. */
static const BpIrNode *size_of(const Maker *m, const BpIrNode *x) {
  return float_of(m, bp_ir_binary(m->module, BP_IR_BIT_AND, bits_of(m, x), integer(m, INT32_MAX)));
}

/* Flips the sign of x if bit `bit` of `flags` is set. */
static const BpIrNode *flip(const Maker *m, const BpIrNode *x, const BpIrNode *flags, int bit) {
  const BpIrNode *flag =
      bp_ir_binary(m->module, BP_IR_BIT_AND, flags, integer(m, (int32_t)(1U << bit)));
  return float_of(m, bp_ir_binary(m->module, BP_IR_BIT_XOR, bits_of(m, x),
                                  bit == 31 ? flag : shift(m, BP_IR_SHL, flag, 31 - bit)));
}

/* The sine of |x| plus `quarters` quarters of a turn: the angle is split into whole quarters and a
 * rest within pi / 4 of 0. */
static const BpIrNode *expand_wave(const Maker *m, const BpIrNode *x, int64_t quarters) {
  static const double sine[] = {-0.1666666664162645, 0.008333329385898232, -0.00019839334842208068,
                                2.7183115725572e-06};
  static const double cosine[] = {-0.49999999725102307, 0.04166662332383814, -0.0013886763781418066,
                                  2.439044967472956e-05};
  Maker wide = wide_maker(m), *w = &wide;
  const BpIrNode *size = size_of(m, x), *unused;
  const BpIrNode *turns = expand_turns(w, bp_ir_cast(m->module, w->type, size));
  const BpIrNode *k = nearest(w, mul(w, turns, number(w, 4)), &unused);
  const BpIrNode *a = mul(w, sub(w, turns, mul(w, k, number(w, 0.25))), number(w, 2 * M_PI));
  const BpIrNode *u = mul(w, a, a), *one = number(w, 1);
  const BpIrNode *by_sine = mul(w, a, add(w, one, mul(w, u, polynomial(w, u, sine, COUNT(sine)))));
  const BpIrNode *by_cosine = add(w, one, mul(w, u, polynomial(w, u, cosine, COUNT(cosine))));
  const BpIrNode *is_number = less(w, number(w, -1), u); /* NaN must not become an integer */
  const BpIrNode *q = bp_ir_cast(m->module, m->bits, pick(w, is_number, k, number(w, 0)));
  q = add(m, q, integer(m, quarters));
  const BpIrNode *is_even = bp_ir_binary(
      m->module, BP_IR_EQ, bp_ir_binary(m->module, BP_IR_BIT_AND, q, integer(m, 1)), integer(m, 0));
  const BpIrNode *value = pick(m, is_even, bp_ir_cast(m->module, m->type, by_sine),
                               bp_ir_cast(m->module, m->type, by_cosine));
  return flip(m, value, q, 1);
}

static const BpIrNode *expand_sin(const Maker *m, const BpIrNode *x) {
  return flip(m, expand_wave(m, x, 0), bits_of(m, x), 31);
}

static const BpIrNode *expand_cos(const Maker *m, const BpIrNode *x) {
  return expand_wave(m, x, 1);
}

/* log2(x) = n + s l(s^2) with s = f / (2 + f); take_apart gives n and f. */
static const BpIrNode *wide_log2(const Maker *m, const Maker *w, const BpIrNode *x) {
  static const double l[] = {2.885390081836836, 0.961796620976424, 0.5770924579015024,
                             0.4112011120915362, 0.348466567318254};
  const BpIrNode *n, *f = take_apart(m, x, &n);
  n = bp_ir_cast(m->module, w->type, n);
  f = bp_ir_cast(m->module, w->type, f);
  const BpIrNode *s = divide(w, f, add(w, number(w, 2), f));
  const BpIrNode *log = add(w, n, mul(w, s, polynomial(w, mul(w, s, s), l, COUNT(l))));
  return with_limits(w, bp_ir_cast(m->module, w->type, x), log);
}

/* With t = k + r and |r| <= 1/2, 2^t = 2^k (1 + r e(r)). For |t| > 200 the result is outside
 * float32's range. */
static const BpIrNode *wide_exp2(const Maker *w, const BpIrNode *t) {
  static const double e[] = {0.6931471807045371,   0.24022651066567782,  0.05550410365978254,
                             0.009618038131280579, 0.001333393506456788, 0.00015466756527418978,
                             1.519615473163076e-05};
  const BpIrNode *sum;
  t = at_most(w, at_least(w, t, -200), 200);
  const BpIrNode *r = sub(w, t, nearest(w, t, &sum));
  const BpIrNode *p = add(w, number(w, 1), mul(w, r, polynomial(w, r, e, COUNT(e))));
  const BpIrNode *k = sub(w, bits_of(w, sum), integer(w, 0x4338000000000000));
  return mul(w, p, float_of(w, shift(w, BP_IR_SHL, add(w, k, integer(w, 1023)), 52)));
}

/* |x|^y, with the sign of x if y is odd; special cases are as in C's pow. */
static const BpIrNode *expand_any_pow(const Maker *m, const BpIrNode *x, const BpIrNode *y) {
  Maker wide = wide_maker(m), *w = &wide;
  BpIrModule *module = m->module;
  const BpIrNode *zero = number(m, 0), *one = number(m, 1), *half = mul(m, y, number(m, 0.5));
  const BpIrNode *size = size_of(m, x);
  const BpIrNode *t = mul(w, bp_ir_cast(module, w->type, y), wide_log2(m, w, size));
  const BpIrNode *power = bp_ir_cast(module, m->type, wide_exp2(w, t));
  const BpIrNode *is_one = bp_ir_binary(module, BP_IR_EQ, size, one);
  power = pick(m, is_one, one, power); /* -1 to the power of an infinity, too */
  const BpIrNode *is_whole =
      bp_ir_binary(module, BP_IR_EQ, bp__ir_intrinsic(module, "floor", &y, 1), y);
  const BpIrNode *is_even =
      bp_ir_binary(module, BP_IR_EQ, bp__ir_intrinsic(module, "floor", &half, 1), half);
  const BpIrNode *is_negative =
      bp_ir_binary(module, BP_IR_LT, bits_of(m, x), integer(m, 0)); /* -0 has the sign bit, too */
  const BpIrNode *signed_power = pick(m, is_negative, mul(m, power, number(m, -1)), power);
  const BpIrNode *has_root =
      bp_ir_binary(module, BP_IR_OR, bp_ir_binary(module, BP_IR_EQ, x, number(m, -INFINITY)),
                   bp_ir_binary(module, BP_IR_GE, x, zero));
  const BpIrNode *result = pick(m, is_whole, pick(m, is_even, power, signed_power),
                                pick(m, has_root, power, number(m, NAN)));
  const BpIrNode *is_always_one =
      bp_ir_binary(module, BP_IR_OR, bp_ir_binary(module, BP_IR_EQ, x, one),
                   bp_ir_binary(module, BP_IR_EQ, y, zero));
  return pick(m, is_always_one, one, result);
}

/* ---- The pass ---------------------------------------------------------------------------- */

static const struct {
  const char *name;
  const BpIrNode *(*expand)(const Maker *m, const BpIrNode *x);
  bool is_wide; /* whether the expansion computes in float64 */
} expansions[] = {
    {"exp", expand_exp, false},   {"log", expand_log, false}, {"sigmoid", expand_sigmoid, false},
    {"tanh", expand_tanh, false}, {"erf", expand_erf, false}, {"sin", expand_sin, true},
    {"cos", expand_cos, true},
};

bool bp__expands_by_doubles(const BpIrNode *node) {
  double exponent;
  if (node->kind != BP_IR_CALL || node->int_value != BP_IR_CALL_INTRINSIC ||
      !bp__dtype_is_float(node->dtype) || node->dtype.bits > 32)
    return false;
  if (!strcmp(node->str_value, "pow"))
    return !bp__ir_const_float(node->operands[1], &exponent) || !is_known_exponent(exponent);
  for (size_t i = 0; i < sizeof expansions / sizeof *expansions; i++)
    if (!strcmp(node->str_value, expansions[i].name))
      return expansions[i].is_wide;
  return false;
}

static const BpIrNode *expand_call(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpIrModule *module = rewriter->module;
  if (node->kind != BP_IR_CALL || node->int_value != BP_IR_CALL_INTRINSIC ||
      !bp__dtype_is_float(node->dtype) || node->dtype.bits > 32)
    return node;
  uint16_t lanes = node->dtype.lanes;
  Maker m = {module, bp__dtype(BP_DTYPE_FLOAT, 32, lanes), bp__dtype(BP_DTYPE_INT, 32, lanes)};
  const BpIrNode *x = bp_ir_cast(module, m.type, node->operands[0]);
  bool is_wide = rewriter->context;
  if (!strcmp(node->str_value, "pow")) {
    const BpIrNode *result;
    if (expand_known_pow(&m, x, node->operands[1], &result))
      return NULL;
    if (!result && is_wide)
      result = expand_any_pow(&m, x, bp_ir_cast(module, m.type, node->operands[1]));
    return result ? bp_ir_cast(module, node->dtype, result) : node;
  }
  for (size_t i = 0; i < sizeof expansions / sizeof *expansions; i++)
    if (!strcmp(node->str_value, expansions[i].name) && (is_wide || !expansions[i].is_wide))
      return bp_ir_cast(module, node->dtype, expansions[i].expand(&m, x));
  return node;
}

/* Expands dot4_us: c plus four products of an unsigned byte of a and a signed byte of b. */
static const BpIrNode *expand_dot(BpIrRewriter *rewriter, const BpIrNode *node) {
  if (node->kind != BP_IR_CALL || node->int_value != BP_IR_CALL_INTRINSIC ||
      strcmp(node->str_value, "dot4_us"))
    return node;
  BpIrModule *module = rewriter->module;
  const Maker m = {module, node->dtype, node->dtype};
  const BpIrNode *sum = node->operands[2];
  for (int i = 0; i < 32; i += 8) {
    const BpIrNode *a = bp_ir_binary(module, BP_IR_BIT_AND,
                                     shift(&m, BP_IR_SHR, node->operands[0], i), integer(&m, 0xff));
    const BpIrNode *b = shift(&m, BP_IR_SHL, node->operands[1], 24 - i);
    sum = add(&m, sum, mul(&m, a, shift(&m, BP_IR_SHR, b, 24)));
  }
  return sum;
}

static const BpIrNode *expand(BpIrModule *module, const BpIrNode *function,
                              const BpIrNode *(*one)(BpIrRewriter *rewriter, const BpIrNode *node),
                              bool is_wide) {
  BpIrRewriter rewriter = {.module = module, .context = is_wide ? &is_wide : NULL, .leave = one};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

const BpIrNode *bp__pass_expand_intrinsics(BpIrModule *module, const BpIrNode *function) {
  return expand(module, function, expand_call, false);
}

const BpIrNode *bp__pass_expand_by_doubles(BpIrModule *module, const BpIrNode *function) {
  return expand(module, function, expand_call, true);
}

const BpIrNode *bp__pass_expand_dots(BpIrModule *module, const BpIrNode *function) {
  return expand(module, function, expand_dot, false);
}
