/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers. */
#ifndef BACKPLANE_PARTS_TEXT_ELEMENT_H
#define BACKPLANE_PARTS_TEXT_ELEMENT_H

#include <backplane/value.h>

typedef struct FloatFormat {
  int fraction_bits;
  int least_exponent; /* of two, of the smallest normal number */
} FloatFormat;

/* Fills in the format of a type with sign, exponent and fraction; -1, and no error, for others. */
int bp__dtype_float_format(BpDataType dtype, FloatFormat *format);

/* Whether the type is a signed or unsigned integer or bool of up to 64 bits. */
int bp__dtype_is_integer(BpDataType dtype);

/* Element `index` of such a type; unsigned ones are in the same bits. */
int64_t bp__dtype_read_integer(BpDataType dtype, const void *elements, uint64_t index);

/* bp_dtype_decode. */
int bp__dtype_decode(BpDataType dtype, const void *elements, uint64_t index, double *value);

#endif
