/* SPDX-License-Identifier: Apache-2.0 */
/* The intrinsics and the functions that compute them. Narrow floats are computed in double and
 * rounded once. */

#include <math.h>
#include <stdio.h>

#include "compiler/ir/intrinsics.h"
#include "compiler/ir/syntax.h"

#define UNARY(name, expression)                                                                    \
  static double eval_##name(double a, double b, double c) {                                        \
    (void)b;                                                                                       \
    (void)c;                                                                                       \
    return expression;                                                                             \
  }
#define BINARY(name, expression)                                                                   \
  static double eval_##name(double a, double b, double c) {                                        \
    (void)c;                                                                                       \
    return expression;                                                                             \
  }

UNARY(exp, exp(a))
UNARY(exp2, exp2(a))
UNARY(expm1, expm1(a))
UNARY(log, log(a))
UNARY(log2, log2(a))
UNARY(log10, log10(a))
UNARY(log1p, log1p(a))
UNARY(sqrt, sqrt(a))
UNARY(rsqrt, 1 / sqrt(a))
UNARY(sin, sin(a))
UNARY(cos, cos(a))
UNARY(tan, tan(a))
UNARY(asin, asin(a))
UNARY(acos, acos(a))
UNARY(atan, atan(a))
UNARY(sinh, sinh(a))
UNARY(cosh, cosh(a))
UNARY(tanh, tanh(a))
UNARY(asinh, asinh(a))
UNARY(acosh, acosh(a))
UNARY(atanh, atanh(a))
UNARY(erf, erf(a))
UNARY(sigmoid, 1 / (1 + exp(-a)))
UNARY(floor, floor(a))
UNARY(ceil, ceil(a))
UNARY(trunc, trunc(a))
UNARY(round, rint(a))
UNARY(abs, fabs(a))
UNARY(isnan, isnan(a) != 0)
UNARY(isinf, isinf(a) != 0)
BINARY(pow, pow(a, b))
BINARY(atan2, atan2(a, b))
BINARY(fmod, fmod(a, b))
BINARY(copysign, copysign(a, b))

static double eval_fma(double a, double b, double c) {
  return fma(a, b, c);
}

/* An int64 holds a uint64 by its bits, so a large uint64 looks negative. */
static int64_t int_abs(const int64_t *args, BpDataType dtype) {
  int64_t a = args[0];
  return dtype.code == BP_DTYPE_INT && a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
}

static int64_t int_popcount(const int64_t *args, BpDataType dtype) {
  uint64_t a = (uint64_t)args[0];
  return __builtin_popcountll(dtype.bits < 64 ? a & (((uint64_t)1 << dtype.bits) - 1) : a);
}

static int64_t int_dot4_us(const int64_t *args, BpDataType dtype) {
  (void)dtype;
  int64_t sum = args[2];
  for (int i = 0; i < 32; i += 8)
    sum += (uint8_t)(args[0] >> i) * (int8_t)(args[1] >> i);
  return sum;
}

#define FLOAT(name, num_args)                                                                      \
  { #name, num_args, BP__INTRINSIC_FLOAT, eval_##name, NULL }

static const BpIntrinsic intrinsics[] = {
    FLOAT(exp, 1),
    FLOAT(exp2, 1),
    FLOAT(expm1, 1),
    FLOAT(log, 1),
    FLOAT(log2, 1),
    FLOAT(log10, 1),
    FLOAT(log1p, 1),
    FLOAT(sqrt, 1),
    FLOAT(rsqrt, 1),
    FLOAT(sin, 1),
    FLOAT(cos, 1),
    FLOAT(tan, 1),
    FLOAT(asin, 1),
    FLOAT(acos, 1),
    FLOAT(atan, 1),
    FLOAT(sinh, 1),
    FLOAT(cosh, 1),
    FLOAT(tanh, 1),
    FLOAT(asinh, 1),
    FLOAT(acosh, 1),
    FLOAT(atanh, 1),
    FLOAT(erf, 1),
    FLOAT(sigmoid, 1),
    FLOAT(floor, 1),
    FLOAT(ceil, 1),
    FLOAT(trunc, 1),
    FLOAT(round, 1),
    FLOAT(pow, 2),
    FLOAT(atan2, 2),
    FLOAT(fmod, 2),
    FLOAT(copysign, 2),
    FLOAT(fma, 3),
    {"abs", 1, BP__INTRINSIC_NUMBER, eval_abs, int_abs},
    {"isnan", 1, BP__INTRINSIC_TEST, eval_isnan, NULL},
    {"isinf", 1, BP__INTRINSIC_TEST, eval_isinf, NULL},
    {"popcount", 1, BP__INTRINSIC_INT, NULL, int_popcount},
    {"dot4_us", 3, BP__INTRINSIC_INT32, NULL, int_dot4_us},
    {"prefetch", 1, BP__INTRINSIC_PREFETCH, NULL, NULL},
};

#define NUM_INTRINSICS (sizeof intrinsics / sizeof *intrinsics)

const char *bp_ir_intrinsic_name(int32_t index) {
  return index >= 0 && (size_t)index < NUM_INTRINSICS ? intrinsics[index].name : NULL;
}

const BpIntrinsic *bp__intrinsic_find(const char *name) {
  for (size_t i = 0; i < NUM_INTRINSICS; i++)
    if (!strcmp(intrinsics[i].name, name))
      return &intrinsics[i];
  return NULL;
}

static const char *wanted_type(const BpIntrinsic *intrinsic, BpDataType dtype) {
  bool is_float = bp__dtype_is_float(dtype), is_int = bp__dtype_is_int(dtype);
  switch (intrinsic->types) {
  case BP__INTRINSIC_NUMBER:
    return is_float || is_int ? NULL : "numbers";
  case BP__INTRINSIC_INT:
    return is_int ? NULL : "integers";
  case BP__INTRINSIC_INT32:
    return dtype.code == BP_DTYPE_INT && dtype.bits == 32 ? NULL : "int32";
  default:
    return is_float ? NULL : "floats";
  }
}

/* Checks the types of a call of an intrinsic; if they are wrong, returns false and writes the
 * reason. */
static bool check_types(const BpIntrinsic *intrinsic, BpDataType dtype, const BpIrNode *const *args,
                        char *why, size_t size) {
  BpDataType first = args[0]->dtype;
  const char *wanted = wanted_type(intrinsic, first);
  char found[32];
  if (wanted) {
    bp__ir_format_dtype(first, found);
    snprintf(why, size, "intrinsic %s takes %s, not %s", intrinsic->name, wanted, found);
    return false;
  }
  for (int32_t i = 1; i < intrinsic->num_args; i++)
    if (!bp__dtype_equal(args[i]->dtype, first)) {
      snprintf(why, size, "the arguments of intrinsic %s have different types", intrinsic->name);
      return false;
    }
  bool is_test = intrinsic->types == BP__INTRINSIC_TEST;
  if (bp__dtype_equal(dtype, is_test ? bp__dtype_bool(first.lanes) : first))
    return true;
  snprintf(why, size, "intrinsic %s gives %s", intrinsic->name,
           is_test ? "bool" : "the type of its arguments");
  return false;
}

bool bp__intrinsic_check(const char *name, BpDataType dtype, const BpIrNode *const *args,
                         int32_t num_args, char *why, size_t size) {
  const BpIntrinsic *intrinsic = bp__intrinsic_find(name);
  if (!intrinsic) {
    snprintf(why, size, "there is no intrinsic '%.40s'", name);
    return false;
  }
  if (num_args != intrinsic->num_args) {
    snprintf(why, size, "intrinsic %s takes %d arguments, not %d", name, intrinsic->num_args,
             num_args);
    return false;
  }
  if (intrinsic->types != BP__INTRINSIC_PREFETCH)
    return check_types(intrinsic, dtype, args, why, size);
  if (args[0]->kind == BP_IR_ADDRESS && bp__dtype_is_void(dtype))
    return true;
  snprintf(why, size, "prefetch takes an address and has type void");
  return false;
}
