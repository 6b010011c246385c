/* SPDX-License-Identifier: Apache-2.0 */
/* Making tensors, and the table of parts/text, the part of the core for tensors as text. */
#ifndef BACKPLANE_CORE_DEVICE_TENSOR_H
#define BACKPLANE_CORE_DEVICE_TENSOR_H

#include "core/system/shared.h"

#include <backplane/tensor.h>

#define BP_MAX_NDIM 64 /* numpy's limit */

/* Tensors start at multiples of this many bytes: planned storage and vector loads rely on it. */
#define BP_TENSOR_ALIGNMENT 256

/* Computes the strides of a compact tensor of the view's shape. The strides of a tensor without
 * elements may overflow: they are never used. */
BP__SHARED void bp__view_fill_strides(const BpTensorView *view, int64_t *strides);

/* Makes bp_tensor_is_read_only return true for the tensor. */
BP__SHARED void bp__tensor_set_read_only(BpTensor *tensor);

typedef struct Text {
  char *(*format_tensor)(const BpTensorView *tensor, int64_t threshold);
  /* bp_device_attr_name. */
  const char *(*attr_name)(int32_t attr);
} Text;

#endif
