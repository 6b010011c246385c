/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on one lane.
 *
 * Every supported float format is narrow enough that one operation in double, rounded once more to
 * the format, gives the correctly rounded result: 53 >= 2 * 24 + 2 bits. */

#include <float.h>
#include <math.h>
#include <string.h>

#include <backplane/ir_api.h>

#include "compiler/ir/ir.h"
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

/* Rounds a double to `precision` significant bits; the smallest normal number is 2^min_exponent. */
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

static bool compare_ints(int32_t kind, BpDataType dtype, int64_t a, int64_t b) {
  bool less = dtype.code == BP_DTYPE_UINT ? (uint64_t)a < (uint64_t)b : a < b;
  return compare(kind, less, a == b, !less && a != b);
}

static double float_arithmetic(int32_t kind, double a, double b) {
  switch (kind) {
  case BP_IR_ADD:
    return a + b;
  case BP_IR_SUB:
    return a - b;
  case BP_IR_MUL:
    return a * b;
  case BP_IR_DIV:
    return a / b;
  case BP_IR_MIN:
    return isnan(a) || a < b ? a : b;
  default: /* MAX */
    return isnan(a) || a > b ? a : b;
  }
}

static int64_t divide(int32_t kind, bool is_unsigned, int64_t a, int64_t b) {
  bool is_quotient = bp__ir_kind_is_quotient(kind);
  if (b == 0)
    return 0;
  if (is_unsigned)
    return (int64_t)(is_quotient ? (uint64_t)a / (uint64_t)b : (uint64_t)a % (uint64_t)b);
  /* division by -1 is separate: INT64_MIN / -1 traps, but must wrap */
  int64_t quotient = b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
  int64_t remainder = b == -1 ? 0 : a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0) &&
      (kind == BP_IR_FLOORDIV || kind == BP_IR_FLOORMOD)) {
    quotient--;
    remainder += b;
  }
  return is_quotient ? quotient : remainder;
}

/* Shifts a lane: a count beyond the width shifts all bits out, and a negative count is a large
 * unsigned count. */
static int64_t shift(int32_t kind, BpDataType dtype, int64_t a, int64_t b) {
  bool is_outside = b < 0 || b >= dtype.bits;
  if (kind == BP_IR_SHR && dtype.code == BP_DTYPE_INT)
    return a >> (is_outside ? dtype.bits - 1 : b);
  if (is_outside)
    return 0;
  return (int64_t)(kind == BP_IR_SHL ? (uint64_t)a << b : (uint64_t)a >> b);
}

static int64_t int_arithmetic(int32_t kind, BpDataType dtype, int64_t a, int64_t b) {
  bool is_unsigned = dtype.code == BP_DTYPE_UINT;
  bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
  switch (kind) {
  case BP_IR_ADD:
    return (int64_t)((uint64_t)a + (uint64_t)b);
  case BP_IR_SUB:
    return (int64_t)((uint64_t)a - (uint64_t)b);
  case BP_IR_MUL:
    return (int64_t)((uint64_t)a * (uint64_t)b);
  case BP_IR_MIN:
    return less ? a : b;
  case BP_IR_MAX:
    return less ? b : a;
  case BP_IR_AND:
  case BP_IR_BIT_AND:
    return a & b;
  case BP_IR_OR:
  case BP_IR_BIT_OR:
    return a | b;
  case BP_IR_BIT_XOR:
    return a ^ b;
  case BP_IR_DIV:
  case BP_IR_MOD:
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
    return divide(kind, is_unsigned, a, b);
  default: /* SHL, SHR */
    return shift(kind, dtype, a, b);
  }
}

BpIrScalar bp__scalar_binary(int32_t kind, BpDataType dtype, BpIrScalar a, BpIrScalar b) {
  bool is_float = dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
  if (kind >= BP_IR_EQ && kind <= BP_IR_GE)
    return (BpIrScalar){.i = is_float ? compare(kind, a.f<b.f, a.f == b.f, a.f> b.f)
                                      : compare_ints(kind, dtype, a.i, b.i)};
  if (is_float)
    return (BpIrScalar){.f = bp__scalar_round(dtype, float_arithmetic(kind, a.f, b.f))};
  return (BpIrScalar){.i = bp__scalar_wrap(dtype, int_arithmetic(kind, dtype, a.i, b.i))};
}

/* Converts a float to an integer: values beyond the type's range become the least or largest value,
 * NaN becomes 0. */
static int64_t float_to_int(BpDataType to, double value) {
  if (to.code == BP_DTYPE_BOOL)
    return value != 0;
  if (isnan(value))
    return 0;
  bool is_signed = to.code == BP_DTYPE_INT;
  double limit = ldexp(1, is_signed ? to.bits - 1 : to.bits);
  uint64_t largest = UINT64_MAX >> (is_signed ? 65 - to.bits : 64 - to.bits);
  if (value >= limit)
    return (int64_t)largest;
  if (value <= (is_signed ? -limit : 0))
    return is_signed ? -(int64_t)largest - 1 : 0;
  return is_signed ? (int64_t)value : (int64_t)(uint64_t)value;
}

/* Converts an integer to float64, or directly to float32. */
static double int_to_float(BpDataType to, BpDataType from, int64_t value) {
  bool is_unsigned = from.code == BP_DTYPE_UINT;
  if (to.bits < 64)
    return is_unsigned ? (double)(float)(uint64_t)value : (double)(float)value;
  return is_unsigned ? (double)(uint64_t)value : (double)value;
}

BpIrScalar bp__scalar_cast(BpDataType to, BpDataType from, BpIrScalar value) {
  bool from_float = from.code == BP_DTYPE_FLOAT || from.code == BP_DTYPE_BFLOAT;
  bool to_float = to.code == BP_DTYPE_FLOAT || to.code == BP_DTYPE_BFLOAT;
  if (!to_float)
    return (BpIrScalar){.i = from_float ? float_to_int(to, value.f) : bp__scalar_wrap(to, value.i)};
  double number = from_float ? value.f : int_to_float(to, from, value.i);
  /* Narrow floats are rounded to float32 first, then to their format. */
  return (BpIrScalar){.f = bp__scalar_round(to, to.bits < 64 ? (double)(float)number : number)};
}
