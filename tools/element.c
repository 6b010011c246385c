/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers, for people and for JSON. */
#include "tools/command.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Encodes a 16-bit float by the rules of IEEE 754, with the given number of exponent bits: rounded
 * to nearest, ties to even; a number that is too large becomes infinite. */
static uint16_t encode_short_float(double value, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, largest = (1 << exponent_bits) - 1, exponent;
  uint16_t sign = (uint16_t)(signbit(value) ? 0x8000 : 0);
  uint16_t infinity = (uint16_t)(largest << fraction_bits);
  if (isnan(value))
    return sign | infinity | (uint16_t)(1 << (fraction_bits - 1));
  if (isinf(value))
    return sign | infinity;
  frexp(value, &exponent); /* |value| is 0.5 to 1 times 2^exponent */
  int biased = value != 0 ? MAX(exponent - 1 + largest / 2, 1) : 1;
  double fraction = nearbyint(ldexp(fabs(value), largest / 2 + fraction_bits - biased));
  double bits = fraction + ldexp(biased - 1, fraction_bits); /* a carry raises the exponent */
  return sign | (bits < infinity ? (uint16_t)bits : infinity);
}

static double read_float(const char *data, BpDataType dtype) {
  double value = 0; /* callers have checked that the type is numeric */
  bp_dtype_decode(dtype, data, 0, &value);
  return value;
}

/* Sign extension by shifts; hosts are little-endian. */
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

/* Below this number a double has each whole number, and is the rounded form of no other one. */
#define ALL_WHOLE ldexp(1, 53)

/* Converts a whole number to the type's bits in *out; FALSE if the type does not have the number,
 * or if the double may be a rounded one. */
static gboolean to_integer(double value, BpDataType dtype, uint64_t *out) {
  gboolean is_signed = dtype.code == BP_DTYPE_INT;
  int bits = dtype.code == BP_DTYPE_BOOL ? 1 : dtype.bits - is_signed;
  if (value != floor(value) || value < (is_signed ? -ldexp(1, bits) : 0) ||
      value >= ldexp(1, bits) || fabs(value) >= ALL_WHOLE)
    return FALSE;
  *out = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
  return TRUE;
}

/* to_integer for text that is a whole number: a double cannot hold all 64-bit integers. */
static gboolean parse_integer(const char *text, BpDataType dtype, uint64_t *out) {
  char *end;
  errno = 0;
  if (dtype.code == BP_DTYPE_INT)
    *out = (uint64_t)g_ascii_strtoll(text, &end, 10);
  else
    *out = *text == '-' ? (errno = ERANGE, 0) : g_ascii_strtoull(text, &end, 10);
  if (errno || dtype.bits != 64)
    return FALSE;
  return end != text && !*end;
}

gboolean element_parse(const char *text, char *data, BpDataType dtype) {
  gboolean is_true = strcmp(text, "true") == 0, is_word = is_true || strcmp(text, "false") == 0;
  char *end = NULL;
  double value = is_word ? is_true : g_ascii_strtod(text, &end);
  uint64_t whole;
  if ((!is_word && (end == text || *end)) || !element_is_number(dtype))
    return FALSE;
  if (!is_integer(dtype))
    return element_write_float(data, dtype, value);
  if ((is_word || !parse_integer(text, dtype, &whole)) && !to_integer(value, dtype, &whole))
    return FALSE;
  memcpy(data, &whole, dtype.bits / 8); /* hosts are little-endian */
  return TRUE;
}

double element_number(const char *data, BpDataType dtype) {
  if (!is_integer(dtype))
    return read_float(data, dtype);
  int64_t whole = read_int(data, dtype);
  return dtype.code == BP_DTYPE_INT ? (double)whole : (double)(uint64_t)whole;
}

/* Returns the distance of two integers, exact if a double can be. */
static double integer_distance(const char *a, BpDataType a_type, const char *b, BpDataType b_type) {
  int64_t x = read_int(a, a_type), y = read_int(b, b_type);
  gboolean x_negative = a_type.code == BP_DTYPE_INT && x < 0;
  gboolean y_negative = b_type.code == BP_DTYPE_INT && y < 0;
  gboolean x_less = x_negative == y_negative ? (uint64_t)x < (uint64_t)y : x_negative;
  if (x_negative != y_negative) /* the difference may need 65 bits */
    return fabs(element_number(a, a_type) - element_number(b, b_type));
  return (double)(x_less ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y);
}

double element_distance(const char *a, BpDataType a_type, const char *b, BpDataType b_type) {
  if (is_integer(a_type) && is_integer(b_type))
    return integer_distance(a, a_type, b, b_type);
  double x = element_number(a, a_type), y = element_number(b, b_type);
  if (isnan(x) || isnan(y))
    return isnan(x) && isnan(y) ? 0 : (double)INFINITY;
  return x == y ? 0 : fabs(x - y); /* the difference of equal infinities would be NaN */
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
             : json_real((double)(uint64_t)whole); /* outside the range of jansson's integers */
}
