/* SPDX-License-Identifier: Apache-2.0 */
/* Making tensors, for core/device and the part exchange. */
#ifndef BACKPLANE_CORE_DEVICE_TENSOR_H
#define BACKPLANE_CORE_DEVICE_TENSOR_H

#include "core/system/shared.h"

#include <backplane/tensor.h>

/* Tensors start at multiples of this many bytes: planned storage and vector loads rely on it. */
#define BP_TENSOR_ALIGNMENT 256

/* Computes the strides of a compact tensor of the view's shape. The strides of a tensor without
 * elements may overflow: they are never used. */
BP__SHARED void bp__view_fill_strides(const BpTensorView *view, int64_t *strides);

/* Makes bp_tensor_is_read_only return true for the tensor. */
BP__SHARED void bp__tensor_set_read_only(BpTensor *tensor);

#endif
