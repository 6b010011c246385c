/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers, for people and as JSON. */
#include "tools/command.h"

#include <math.h>
#include <string.h>

/* A float of 16 bits by the rules of IEEE 754, of which so many are the exponent's. */
static double decode_short_float(uint16_t bits, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, largest = (1 << exponent_bits) - 1;
  int exponent = bits >> fraction_bits & largest;
  int fraction = bits & ((1 << fraction_bits) - 1);
  double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == largest)
    return fraction ? (double)NAN : sign * (double)INFINITY;
  if (exponent)
    fraction |= 1 << fraction_bits;
  return sign * ldexp(fraction, MAX(exponent, 1) - largest / 2 - fraction_bits);
}

/* The other way, for numbers from 0 to 1, cut off: less than the smallest normal one is 0. */
static uint16_t encode_short_float(double value, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, exponent;
  double fraction = 2 * frexp(value, &exponent) - 1; /* 1.xxx is 0.1xxx times two */
  exponent += (1 << (exponent_bits - 1)) - 2;
  return value > 0 && exponent > 0
             ? (uint16_t)(exponent << fraction_bits | (int)ldexp(fraction, fraction_bits))
             : 0;
}

static double read_float(const char *data, BpDataType dtype) {
  double wide;
  float narrow;
  uint16_t bits;
  if (dtype.bits == 64)
    return memcpy(&wide, data, sizeof wide), wide;
  if (dtype.bits == 32)
    return memcpy(&narrow, data, sizeof narrow), (double)narrow;
  memcpy(&bits, data, sizeof bits);
  return decode_short_float(bits, dtype.code == BP_DTYPE_BFLOAT ? 8 : 5);
}

/* The sign is carried to the left; hosts are little-endian. */
static int64_t read_int(const char *data, BpDataType dtype) {
  uint64_t value = 0;
  memcpy(&value, data, dtype.bits / 8);
  int shift = 64 - dtype.bits;
  return dtype.code == BP_DTYPE_INT ? (int64_t)(value << shift) >> shift : (int64_t)value;
}

static gboolean is_integer(BpDataType dtype) {
  int is_wide = dtype.bits == 8 || dtype.bits == 16 || dtype.bits == 32 || dtype.bits == 64;
  return ((dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT) && is_wide) ||
         (dtype.code == BP_DTYPE_BOOL && dtype.bits == 8);
}

static gboolean is_float(BpDataType dtype) {
  int is_wide = dtype.bits == 16 || dtype.bits == 32 || dtype.bits == 64;
  return (dtype.code == BP_DTYPE_FLOAT && is_wide) ||
         (dtype.code == BP_DTYPE_BFLOAT && dtype.bits == 16);
}

gboolean element_write_float(char *data, BpDataType dtype, double value) {
  float narrow = (float)value;
  if (!is_float(dtype) || dtype.lanes != 1)
    return FALSE;
  uint16_t bits = encode_short_float(value, dtype.code == BP_DTYPE_BFLOAT ? 8 : 5);
  if (dtype.bits == 64)
    memcpy(data, &value, sizeof value);
  else if (dtype.bits == 32)
    memcpy(data, &narrow, sizeof narrow);
  else
    memcpy(data, &bits, sizeof bits);
  return TRUE;
}

gboolean element_is_number(BpDataType dtype) {
  return dtype.lanes == 1 && (is_integer(dtype) || is_float(dtype));
}

void element_append(GString *text, const char *data, BpDataType dtype) {
  if (!is_integer(dtype))
    g_string_append_printf(text, "%g", read_float(data, dtype));
  else if (dtype.code == BP_DTYPE_INT)
    g_string_append_printf(text, "%" G_GINT64_FORMAT, (gint64)read_int(data, dtype));
  else
    g_string_append_printf(text, "%" G_GUINT64_FORMAT, (guint64)read_int(data, dtype));
}

json_t *element_json(const char *data, BpDataType dtype) {
  if (!is_integer(dtype))
    return number_json(read_float(data, dtype));
  int64_t whole = read_int(data, dtype);
  return dtype.code == BP_DTYPE_INT || whole >= 0
             ? json_integer(whole)
             : json_real((double)(uint64_t)whole); /* beyond the integers of jansson */
}
