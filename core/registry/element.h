/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers: what formatting needs besides bp_dtype_decode. */
#ifndef BACKPLANE_CORE_REGISTRY_ELEMENT_H
#define BACKPLANE_CORE_REGISTRY_ELEMENT_H

#include "core/system/shared.h"

#include <backplane/value.h>

#define BP_MAX_NDIM 64 /* numpy's limit */

typedef struct FloatFormat {
  int fraction_bits;
  int least_exponent; /* of two, of the smallest normal number */
} FloatFormat;

/* Fills in the format of a type with sign, exponent and fraction; -1, and no error, for others. */
BP__SHARED int bp__dtype_float_format(BpDataType dtype, FloatFormat *format);

/* Whether the type is a signed or unsigned integer or bool of up to 64 bits. */
BP__SHARED int bp__dtype_is_integer(BpDataType dtype);

/* Element `index` of such a type; unsigned ones are in the same bits. */
BP__SHARED int64_t bp__dtype_read_integer(BpDataType dtype, const void *elements, uint64_t index);

#endif
