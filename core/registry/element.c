/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers: every type that has a numeric value, including sub-byte types. */
#include "core/registry/element.h"

#include <math.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "core/registry/argument.h"

/* ---- Floats ------------------------------------------------------------------------------ */

/* The meaning of bit patterns with all exponent bits set. */
enum Specials {
  SPECIALS_IEEE, /* infinity if the fraction is 0, else NaN */
  SPECIALS_NAN,  /* NaN if all fraction bits are set, else a number */
  SPECIALS_ZERO, /* a number; negative zero is NaN */
  SPECIALS_NONE, /* a number */
};

/* The formats of IEEE 754 for 16 to 64 bits; of OCP 8-bit Floating Point and Microscaling Formats
 * 1.0, and of ml_dtypes for the other narrow types. */
static const struct {
  uint8_t code, bits, exponent_bits, specials;
  int16_t bias;
} formats[] = {
    {BP_DTYPE_FLOAT, 16, 5, SPECIALS_IEEE, 15},
    {BP_DTYPE_FLOAT, 32, 8, SPECIALS_IEEE, 127},
    {BP_DTYPE_FLOAT, 64, 11, SPECIALS_IEEE, 1023},
    {BP_DTYPE_BFLOAT, 16, 8, SPECIALS_IEEE, 127},
    {BP_DTYPE_FLOAT8_E3M4, 8, 3, SPECIALS_IEEE, 3},
    {BP_DTYPE_FLOAT8_E4M3, 8, 4, SPECIALS_IEEE, 7},
    {BP_DTYPE_FLOAT8_E4M3B11FNUZ, 8, 4, SPECIALS_ZERO, 11},
    {BP_DTYPE_FLOAT8_E4M3FN, 8, 4, SPECIALS_NAN, 7},
    {BP_DTYPE_FLOAT8_E4M3FNUZ, 8, 4, SPECIALS_ZERO, 8},
    {BP_DTYPE_FLOAT8_E5M2, 8, 5, SPECIALS_IEEE, 15},
    {BP_DTYPE_FLOAT8_E5M2FNUZ, 8, 5, SPECIALS_ZERO, 16},
    {BP_DTYPE_FLOAT6_E2M3FN, 6, 2, SPECIALS_NONE, 1},
    {BP_DTYPE_FLOAT6_E3M2FN, 6, 3, SPECIALS_NONE, 3},
    {BP_DTYPE_FLOAT4_E2M1FN, 4, 2, SPECIALS_NONE, 1},
};

int bp__dtype_float_format(BpDataType dtype, FloatFormat *format) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].code == dtype.code && formats[i].bits == dtype.bits) {
      *format = (FloatFormat){.fraction_bits = dtype.bits - 1 - formats[i].exponent_bits,
                              .least_exponent = 1 - formats[i].bias};
      return (int)i;
    }
  return -1;
}

/* 2^exponent, a normal number of float64. */
static double power_of_two(int exponent) {
  uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/* Decodes a float of at most 32 bits. */
static double decode_float(uint64_t bits, int row, const FloatFormat *format) {
  int exponent_bits = formats[row].exponent_bits, largest = (1 << exponent_bits) - 1;
  int exponent = (int)(bits >> format->fraction_bits) & largest;
  uint64_t ones = ((uint64_t)1 << format->fraction_bits) - 1, fraction = bits & ones;
  int is_negative = (int)(bits >> (formats[row].bits - 1)) & 1;
  double sign = is_negative ? -1.0 : 1.0;
  if (exponent == largest && formats[row].specials == SPECIALS_IEEE)
    return fraction ? (double)NAN : sign * (double)INFINITY;
  if ((exponent == largest && fraction == ones && formats[row].specials == SPECIALS_NAN) ||
      (is_negative && !exponent && !fraction && formats[row].specials == SPECIALS_ZERO))
    return (double)NAN;
  if (exponent)
    fraction |= ones + 1;
  else
    exponent = 1;
  exponent += format->least_exponent - 1 - format->fraction_bits;
  return sign * (double)fraction * power_of_two(exponent);
}

/* Reads a float32 or float64, which the compiler has as well; returns whether it is one. */
static int read_native(BpDataType dtype, const void *elements, uint64_t index, double *value) {
  float single;
  if (dtype.code != BP_DTYPE_FLOAT || dtype.lanes != 1 || (dtype.bits != 32 && dtype.bits != 64))
    return 0;
  if (dtype.bits == 32) {
    memcpy(&single, (const char *)elements + index * sizeof single, sizeof single);
    *value = (double)single;
  } else {
    memcpy(value, (const char *)elements + index * sizeof *value, sizeof *value);
  }
  if (isnan(*value))
    *value = (double)NAN;
  return 1;
}

/* ---- All elements ------------------------------------------------------------------------ */

/* Returns element `index` of packed elements, in the lowest bits. */
static uint64_t read_bits(const void *elements, int bits, uint64_t index) {
  uint64_t value = 0, first = index * (uint64_t)bits;
  if (bits % 8 == 0) {
    memcpy(&value, (const char *)elements + first / 8, (size_t)bits / 8);
    return value;
  }
  for (int i = 0; i < bits; i++, first++)
    value |= (uint64_t)(((const uint8_t *)elements)[first / 8] >> first % 8 & 1) << i;
  return value;
}

int bp__dtype_is_integer(BpDataType dtype) {
  return (dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT ||
          dtype.code == BP_DTYPE_BOOL) &&
         dtype.bits >= 1 && dtype.bits <= 64 && dtype.lanes == 1 &&
         (dtype.bits < 8 || (dtype.bits & (dtype.bits - 1)) == 0);
}

int64_t bp__dtype_read_integer(BpDataType dtype, const void *elements, uint64_t index) {
  uint64_t value = read_bits(elements, dtype.bits, index);
  int shift = 64 - dtype.bits;
  return dtype.code == BP_DTYPE_INT ? (int64_t)(value << shift) >> shift : (int64_t)value;
}

int bp_dtype_decode(BpDataType dtype, const void *elements, uint64_t index, double *value) {
  char name[32];
  FloatFormat format;
  if (!BP_NOT_NULL(elements) || !BP_NOT_NULL(value))
    return -1;
  if (read_native(dtype, elements, index, value))
    return 0;
  if (bp__dtype_is_integer(dtype)) {
    int64_t whole = bp__dtype_read_integer(dtype, elements, index);
    *value = dtype.code == BP_DTYPE_INT ? (double)whole : (double)(uint64_t)whole;
    return 0;
  }
  if (dtype.code == BP_DTYPE_FLOAT8_E8M0FNU && dtype.bits == 8 && dtype.lanes == 1) {
    uint64_t exponent = read_bits(elements, 8, index);
    *value = exponent == 255 ? (double)NAN : power_of_two((int)exponent - 127);
    return 0;
  }
  int row = dtype.lanes == 1 ? bp__dtype_float_format(dtype, &format) : -1;
  if (row < 0) {
    bp_dtype_format(dtype, name, sizeof name);
    return bp_error_raise(BP_ERROR_TYPE, "an element of %s is not one real number", name);
  }
  *value = decode_float(read_bits(elements, dtype.bits, index), row, &format);
  return 0;
}
