/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on one lane.
 *
 * Every float format here is narrow enough that one operation in double, rounded once more to the
 * format, gives the correctly rounded result: 53 >= 2 * 24 + 2 bits. */

#include <float.h>
#include <math.h>
#include <string.h>

#include <backplane/ir_api.h>

#include "compiler/ir/scalar.h"

/* ---- Formats ----------------------------------------------------------------------------- */

int64_t bp__scalar_wrap(BpDataType dtype, int64_t value) {
  if (dtype.code == BP_DTYPE_BOOL)
    return value != 0;
  if (dtype.bits == 0 || dtype.bits >= 64)
    return value;
  int unused = 64 - dtype.bits;
  uint64_t shifted = (uint64_t)value << unused;
  return dtype.code == BP_DTYPE_UINT ? (int64_t)(shifted >> unused) : (int64_t)shifted >> unused;
}

/* To `precision` significant bits, the smallest normal number being 2^min_exponent. */
static double round_to(double value, int precision, int min_exponent, double largest) {
  if (!isfinite(value) || value == 0)
    return value;
  int exponent;
  frexp(value, &exponent);
  int unit = exponent - precision;
  if (unit < min_exponent - precision + 1)
    unit = min_exponent - precision + 1;
  double rounded = ldexp(rint(ldexp(value, -unit)), unit);
  return fabs(rounded) > largest ? copysign(INFINITY, value) : rounded;
}

double bp__scalar_round(BpDataType dtype, double value) {
  if (dtype.code == BP_DTYPE_BFLOAT)
    return round_to(value, 8, -126, 0x1.fep127);
  if (dtype.bits == 16)
    return round_to(value, 11, -14, 65504.0);
  return dtype.bits == 32 ? (double)(float)value : value;
}

double bp__scalar_from_half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude;
  if (exponent == 31)
    magnitude = fraction ? NAN : INFINITY;
  else
    magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t bp__scalar_to_half(double value) {
  unsigned sign = signbit(value) ? 0x8000 : 0;
  if (isnan(value))
    return (uint16_t)(sign | 0x7e00);
  double magnitude = fabs(round_to(value, 11, -14, 65504.0));
  if (isinf(magnitude))
    return (uint16_t)(sign | 0x7c00);
  if (magnitude < 0x1p-14)
    return (uint16_t)(sign | (unsigned)(magnitude * 0x1p24));
  int exponent;
  double fraction = frexp(magnitude, &exponent);
  return (uint16_t)(sign | ((unsigned)(exponent + 14) << 10) |
                    ((unsigned)(fraction * 2048) & 1023));
}

double bp__scalar_from_bfloat(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

uint16_t bp__scalar_to_bfloat(double value) {
  if (isnan(value))
    return signbit(value) ? 0xffc0 : 0x7fc0;
  float rounded = (float)round_to(value, 8, -126, 0x1.fep127);
  uint32_t bits;
  memcpy(&bits, &rounded, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static double load_float(BpDataType dtype, const void *from) {
  uint16_t half;
  float single;
  double value;
  switch (dtype.bits) {
  case 16:
    memcpy(&half, from, sizeof half);
    return dtype.code == BP_DTYPE_BFLOAT ? bp__scalar_from_bfloat(half)
                                         : bp__scalar_from_half(half);
  case 32:
    memcpy(&single, from, sizeof single);
    return (double)single;
  default:
    memcpy(&value, from, sizeof value);
    return value;
  }
}

BpIrScalar bp__scalar_load(BpDataType dtype, const void *from) {
  if (dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT)
    return (BpIrScalar){.f = load_float(dtype, from)};
  int64_t value = 0;
  memcpy(&value, from, dtype.bits / 8);
  return (BpIrScalar){.i = bp__scalar_wrap(dtype, value)};
}

void bp__scalar_store(BpDataType dtype, void *to, BpIrScalar value) {
  if (dtype.code != BP_DTYPE_FLOAT && dtype.code != BP_DTYPE_BFLOAT) {
    memcpy(to, &value.i, dtype.bits / 8);
  } else if (dtype.bits == 16) {
    uint16_t half =
        dtype.code == BP_DTYPE_BFLOAT ? bp__scalar_to_bfloat(value.f) : bp__scalar_to_half(value.f);
    memcpy(to, &half, sizeof half);
  } else if (dtype.bits == 32) {
    float single = (float)value.f;
    memcpy(to, &single, sizeof single);
  } else {
    memcpy(to, &value.f, sizeof value.f);
  }
}

/* ---- Arithmetic -------------------------------------------------------------------------- */

static bool compare(int32_t kind, bool less, bool equal, bool greater) {
  switch (kind) {
  case BP_IR_EQ:
    return equal;
  case BP_IR_NE:
    return !equal;
  case BP_IR_LT:
    return less;
  case BP_IR_LE:
    return less || equal;
  case BP_IR_GT:
    return greater;
  default:
    return greater || equal;
  }
}

static bool float_binary(int32_t kind, BpDataType dtype, double a, double b, BpIrScalar *result) {
  switch (kind) {
  case BP_IR_ADD:
    result->f = a + b;
    break;
  case BP_IR_SUB:
    result->f = a - b;
    break;
  case BP_IR_MUL:
    result->f = a * b;
    break;
  case BP_IR_DIV:
    result->f = a / b;
    break;
  case BP_IR_MIN:
    result->f = isnan(a) || a < b ? a : b;
    break;
  case BP_IR_MAX:
    result->f = isnan(a) || a > b ? a : b;
    break;
  default:
    if (kind < BP_IR_EQ || kind > BP_IR_GE)
      return false;
    result->i = compare(kind, a<b, a == b, a> b);
    return true;
  }
  result->f = bp__scalar_round(dtype, result->f);
  return true;
}

static bool divide(int32_t kind, bool is_unsigned, int64_t a, int64_t b, int64_t *result) {
  if (b == 0)
    return false;
  if (is_unsigned) {
    bool quotient = kind == BP_IR_DIV || kind == BP_IR_FLOORDIV;
    *result = (int64_t)(quotient ? (uint64_t)a / (uint64_t)b : (uint64_t)a % (uint64_t)b);
    return true;
  }
  /* -1 apart, because INT64_MIN / -1 traps; it wraps here. */
  int64_t quotient = b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
  int64_t remainder = b == -1 ? 0 : a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0) &&
      (kind == BP_IR_FLOORDIV || kind == BP_IR_FLOORMOD)) {
    quotient--;
    remainder += b;
  }
  *result = kind == BP_IR_DIV || kind == BP_IR_FLOORDIV ? quotient : remainder;
  return true;
}

static bool shift(int32_t kind, BpDataType dtype, int64_t a, int64_t b, int64_t *result) {
  if (b < 0 || b >= dtype.bits)
    return false;
  if (kind == BP_IR_SHL)
    *result = (int64_t)((uint64_t)a << b);
  else
    *result = dtype.code == BP_DTYPE_UINT ? (int64_t)((uint64_t)a >> b) : a >> b;
  return true;
}

static bool int_binary(int32_t kind, BpDataType dtype, int64_t a, int64_t b, BpIrScalar *result) {
  bool is_unsigned = dtype.code == BP_DTYPE_UINT;
  bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
  switch (kind) {
  case BP_IR_ADD:
    result->i = (int64_t)((uint64_t)a + (uint64_t)b);
    break;
  case BP_IR_SUB:
    result->i = (int64_t)((uint64_t)a - (uint64_t)b);
    break;
  case BP_IR_MUL:
    result->i = (int64_t)((uint64_t)a * (uint64_t)b);
    break;
  case BP_IR_MIN:
    result->i = less ? a : b;
    break;
  case BP_IR_MAX:
    result->i = less ? b : a;
    break;
  case BP_IR_AND:
  case BP_IR_BIT_AND:
    result->i = a & b;
    break;
  case BP_IR_OR:
  case BP_IR_BIT_OR:
    result->i = a | b;
    break;
  case BP_IR_BIT_XOR:
    result->i = a ^ b;
    break;
  case BP_IR_DIV:
  case BP_IR_MOD:
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
    if (!divide(kind, is_unsigned, a, b, &result->i))
      return false;
    break;
  case BP_IR_SHL:
  case BP_IR_SHR:
    if (!shift(kind, dtype, a, b, &result->i))
      return false;
    break;
  default:
    result->i = compare(kind, less, a == b, !less && a != b);
    return true;
  }
  result->i = bp__scalar_wrap(dtype, result->i);
  return true;
}

bool bp__scalar_binary(int32_t kind, BpDataType dtype, BpIrScalar a, BpIrScalar b,
                       BpIrScalar *result) {
  if (dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT)
    return float_binary(kind, dtype, a.f, b.f, result);
  return int_binary(kind, dtype, a.i, b.i, result);
}

static bool float_to_int(BpDataType to, double value, int64_t *result) {
  if (to.code == BP_DTYPE_BOOL) {
    *result = value != 0;
    return true;
  }
  bool is_signed = to.code == BP_DTYPE_INT;
  double limit = ldexp(1, is_signed ? to.bits - 1 : to.bits);
  double truncated = trunc(value);
  if (!(truncated < limit && truncated >= (is_signed ? -limit : 0)))
    return false;
  *result = is_signed ? (int64_t)truncated : (int64_t)(uint64_t)truncated;
  return true;
}

bool bp__scalar_cast(BpDataType to, BpDataType from, BpIrScalar value, BpIrScalar *result) {
  bool from_float = from.code == BP_DTYPE_FLOAT || from.code == BP_DTYPE_BFLOAT;
  bool to_float = to.code == BP_DTYPE_FLOAT || to.code == BP_DTYPE_BFLOAT;
  if (from_float && to_float) {
    result->f = bp__scalar_round(to, value.f);
    return true;
  }
  if (from_float)
    return float_to_int(to, value.f, &result->i);
  if (!to_float) {
    result->i = bp__scalar_wrap(to, value.i);
    return true;
  }
  /* Straight from the integer: through double, a 64-bit one would be rounded twice. */
  bool is_unsigned = from.code == BP_DTYPE_UINT;
  if (to.bits == 32 && to.code == BP_DTYPE_FLOAT)
    result->f = is_unsigned ? (double)(float)(uint64_t)value.i : (double)(float)value.i;
  else
    result->f = bp__scalar_round(to, is_unsigned ? (double)(uint64_t)value.i : (double)value.i);
  return true;
}
