/* SPDX-License-Identifier: Apache-2.0 */
/* Data types as text, in the spelling of numpy and tvm-ffi: a name, the bits, "x" and the lanes. */

#include "core/registry/argument.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types whose name includes their width. */
static const struct {
  uint8_t code;
  uint8_t bits;
  char name[20];
} whole_names[] = {
    {BP_DTYPE_BOOL, 8, "bool"},
    {BP_DTYPE_HANDLE, 64, "handle"},
    {BP_DTYPE_FLOAT8_E3M4, 8, "float8_e3m4"},
    {BP_DTYPE_FLOAT8_E4M3, 8, "float8_e4m3"},
    {BP_DTYPE_FLOAT8_E4M3B11FNUZ, 8, "float8_e4m3b11fnuz"},
    {BP_DTYPE_FLOAT8_E4M3FN, 8, "float8_e4m3fn"},
    {BP_DTYPE_FLOAT8_E4M3FNUZ, 8, "float8_e4m3fnuz"},
    {BP_DTYPE_FLOAT8_E5M2, 8, "float8_e5m2"},
    {BP_DTYPE_FLOAT8_E5M2FNUZ, 8, "float8_e5m2fnuz"},
    {BP_DTYPE_FLOAT8_E8M0FNU, 8, "float8_e8m0fnu"},
    {BP_DTYPE_FLOAT6_E2M3FN, 6, "float6_e2m3fn"},
    {BP_DTYPE_FLOAT6_E3M2FN, 6, "float6_e3m2fn"},
    {BP_DTYPE_FLOAT4_E2M1FN, 4, "float4_e2m1fn"},
};

/* Types whose name is followed by their bits. */
static const struct {
  uint8_t code;
  char name[8];
} sized_names[] = {
    {BP_DTYPE_INT, "int"},       {BP_DTYPE_UINT, "uint"},       {BP_DTYPE_FLOAT, "float"},
    {BP_DTYPE_BFLOAT, "bfloat"}, {BP_DTYPE_COMPLEX, "complex"}, {BP_DTYPE_HANDLE, "handle"},
    {BP_DTYPE_BOOL, "bool"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TEXT_SIZE    32

static void format_scalar(BpDataType dtype, char *text) {
  for (size_t i = 0; i < COUNT(whole_names); ++i)
    if (whole_names[i].code == dtype.code && whole_names[i].bits == dtype.bits) {
      snprintf(text, TEXT_SIZE, "%s", whole_names[i].name);
      return;
    }
  for (size_t i = 0; i < COUNT(sized_names); ++i)
    if (sized_names[i].code == dtype.code) {
      snprintf(text, TEXT_SIZE, "%s%u", sized_names[i].name, dtype.bits);
      return;
    }
  snprintf(text, TEXT_SIZE, "custom[%u]%u", dtype.code, dtype.bits);
}

size_t bp_dtype_format(BpDataType dtype, char *text, size_t capacity) {
  char scalar[TEXT_SIZE];
  if (!text)
    capacity = 0;
  if (dtype.code == BP_DTYPE_HANDLE && dtype.bits == 0 && dtype.lanes == 0)
    return (size_t)snprintf(text, capacity, "void");
  format_scalar(dtype, scalar);
  if (dtype.lanes == 1)
    return (size_t)snprintf(text, capacity, "%s", scalar);
  return (size_t)snprintf(text, capacity, "%sx%u", scalar, dtype.lanes);
}

/* Reads decimal digits at *text, at least one, without sign or leading zero; 0 on failure. */
static unsigned parse_number(const char **text, unsigned max) {
  unsigned number = 0;
  if (**text == '0')
    return 0;
  for (; **text >= '0' && **text <= '9'; ++*text) {
    number = number * 10 + (unsigned)(**text - '0');
    if (number > max)
      return 0;
  }
  return number;
}

/* Reads the rest of a name after its scalar type: empty, or "x" and the lanes. */
static int parse_lanes(const char *rest, BpDataType *dtype) {
  dtype->lanes = 1;
  if (*rest == 'x') {
    ++rest;
    dtype->lanes = (uint16_t)parse_number(&rest, UINT16_MAX);
  }
  return *rest == '\0' && dtype->lanes ? 0 : -1;
}

static int parse_scalar(const char *text, BpDataType *dtype) {
  for (size_t i = 0; i < COUNT(whole_names); ++i) {
    size_t size = strlen(whole_names[i].name);
    *dtype = (BpDataType){whole_names[i].code, whole_names[i].bits, 1};
    if (!strncmp(text, whole_names[i].name, size) && !parse_lanes(text + size, dtype))
      return 0;
  }
  for (size_t i = 0; i < COUNT(sized_names); ++i) {
    size_t size = strlen(sized_names[i].name);
    const char *rest = text + size;
    if (strncmp(text, sized_names[i].name, size))
      continue;
    *dtype = (BpDataType){sized_names[i].code, (uint8_t)parse_number(&rest, UINT8_MAX), 1};
    if (dtype->bits && !parse_lanes(rest, dtype))
      return 0;
  }
  return -1;
}

int bp_dtype_parse(const char *text, BpDataType *dtype) {
  if (!text)
    return bp_error_raise(BP_ERROR_VALUE, "a data type needs a name, such as \"float32\"");
  if (!BP_NOT_NULL(dtype))
    return -1;
  if (!strcmp(text, "void")) {
    *dtype = (BpDataType){BP_DTYPE_HANDLE, 0, 0};
    return 0;
  }
  if (!parse_scalar(text, dtype))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "\"%.64s\" is not a data type; write one as \"float32\", \"int8x4\" or "
                        "\"bool\"",
                        text);
}

size_t bp_dtype_bytes(BpDataType dtype) {
  return ((size_t)dtype.bits * dtype.lanes + 7) / 8;
}
