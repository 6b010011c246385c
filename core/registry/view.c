/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of tensor views; every product is checked for overflow. */
#include <inttypes.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "core/registry/given.h"
#include "core/registry/part.h"
#include "core/registry/text.h"

int64_t bp_view_num_elements(const BpTensorView *view) {
  int64_t count = 1;
  int empty = 0;
  if (!BP_GIVEN(view))
    return -1;
  if (view->ndim < 0 || view->ndim > BP_MAX_NDIM)
    return bp_error_raise(BP_ERROR_VALUE, "a tensor of %d dimensions; 0 to %d are possible",
                          view->ndim, BP_MAX_NDIM);
  if (view->ndim && !view->shape)
    return bp_error_raise(BP_ERROR_VALUE, "a tensor of %d dimensions without a shape", view->ndim);
  for (int32_t i = 0; i < view->ndim; i++) {
    if (view->shape[i] < 0)
      return bp_error_raise(BP_ERROR_VALUE, "dimension %d of a tensor has the extent %" PRId64, i,
                            view->shape[i]);
    empty |= view->shape[i] == 0;
    if (!empty && __builtin_mul_overflow(count, view->shape[i], &count))
      return bp_error_raise(BP_ERROR_VALUE, "a tensor's shape has more elements than 2^63");
  }
  return empty ? 0 : count;
}

int64_t bp_view_num_bytes(const BpTensorView *view) {
  int64_t count = bp_view_num_elements(view);
  uint64_t bytes;
  if (count < 0)
    return -1;
  if (bp_dtype_array_bytes(view->dtype, (uint64_t)count, &bytes) || bytes > INT64_MAX)
    return bp_error_raise(BP_ERROR_VALUE, "a tensor's shape has more bytes than 2^63");
  return (int64_t)bytes;
}

int bp_view_is_compact(const BpTensorView *view) {
  int64_t stride = 1;
  if (!view->strides)
    return 1;
  for (int32_t i = 0; i < view->ndim; i++)
    if (view->shape[i] == 0)
      return 1;
  for (int32_t i = view->ndim - 1; i >= 0; i--) {
    if (view->shape[i] != 1 && view->strides[i] != stride)
      return 0;
    if (__builtin_mul_overflow(stride, view->shape[i], &stride))
      return 0;
  }
  return 1;
}

const BpTensorView *bp_value_view_tensor(const BpValue *value) {
  if (value->type_index == BP_TYPE_TENSOR)
    return &((const BpTensor *)value->v_obj)->view;
  return value->type_index == BP_TYPE_TENSOR_VIEW ? value->v_view : NULL;
}

int bp_dtype_decode(BpDataType dtype, const void *elements, uint64_t index, double *value) {
  const Text *text = bp__part_table(BP_PART_TEXT);
  return text ? text->decode_element(dtype, elements, index, value) : -1;
}
