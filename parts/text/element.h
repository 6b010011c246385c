/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers, and the names of devices' attributes. */
#ifndef BACKPLANE_PARTS_TEXT_ELEMENT_H
#define BACKPLANE_PARTS_TEXT_ELEMENT_H

#include <backplane/value.h>

typedef struct FloatFormat {
  int fraction_bits;
  int least_exponent; /* exponent of 2 of the smallest normal number */
} FloatFormat;

/* Gets the format of a type with sign, exponent and fraction; -1, without an error, for other
 * types. */
int bp__dtype_float_format(BpDataType dtype, FloatFormat *format);

/* Whether the type is a signed or unsigned integer or bool of up to 64 bits. */
int bp__dtype_is_integer(BpDataType dtype);

/* Returns element `index` of an integer type; an unsigned element has the same bits. */
int64_t bp__dtype_read_integer(BpDataType dtype, const void *elements, uint64_t index);

/* bp_dtype_decode. */
int bp__dtype_decode(BpDataType dtype, const void *elements, uint64_t index, double *value);

/* bp_device_attr_name. */
const char *bp__attr_name(int32_t attr);

#endif
