/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers. The functions that decode elements are in the core, not in a
 * part: a number that a part's missing file would turn into 0 is a wrong answer. */
#ifndef BACKPLANE_CORE_REGISTRY_ELEMENT_H
#define BACKPLANE_CORE_REGISTRY_ELEMENT_H

#include "core/system/shared.h"

#include <backplane/value.h>

typedef struct FloatFormat {
  int fraction_bits;
  int least_exponent; /* exponent of 2 of the smallest normal number */
} FloatFormat;

/* Gets the format of a type with sign, exponent and fraction; -1, without an error, for other
 * types. */
BP__SHARED int bp__dtype_float_format(BpDataType dtype, FloatFormat *format);

/* Whether the type is a signed or unsigned integer or bool of up to 64 bits. */
BP__SHARED int bp__dtype_is_integer(BpDataType dtype);

/* Returns element `index` of an integer type; an unsigned element has the same bits. */
BP__SHARED int64_t bp__dtype_read_integer(BpDataType dtype, const void *elements, uint64_t index);

#endif
