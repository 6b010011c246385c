/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: an object with a view, and the owner of its memory. */
#include "core/device/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "core/registry/argument.h"
#include "core/registry/part.h"
#include "core/registry/object.h"

/* One allocation contains the object, the release hook, and then shape and strides. */
typedef struct OwnedTensor {
  BpTensor tensor;
  void (*release)(void *context);
  void *context;
  int is_read_only;
  int64_t extents[];
} OwnedTensor;

/* ---- Sizes: every product is checked for overflow --------------------------------------- */

int64_t bp_view_num_elements(const BpTensorView *view) {
  int64_t count = 1;
  int is_empty = 0, overflows = 0;
  if (!BP_NOT_NULL(view))
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
    is_empty |= view->shape[i] == 0;
    overflows |= __builtin_mul_overflow(count, view->shape[i], &count);
  }
  if (overflows && !is_empty)
    return bp_error_raise(BP_ERROR_VALUE, "a tensor's shape has more elements than 2^63");
  return is_empty ? 0 : count;
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
  if (!view)
    return 0;
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

/* ---- The object -------------------------------------------------------------------------- */

static void delete_tensor(void *object, int flags) {
  OwnedTensor *self = object;
  if (flags & BP_DELETER_STRONG && self->release)
    self->release(self->context);
  if (flags & BP_DELETER_WEAK)
    free(self);
}

int bp_tensor_is_read_only(const BpTensor *tensor) {
  return tensor && tensor->header.deleter == delete_tensor &&
         ((const OwnedTensor *)tensor)->is_read_only;
}

void bp__tensor_set_read_only(BpTensor *tensor) {
  ((OwnedTensor *)tensor)->is_read_only = 1;
}

void bp__view_fill_strides(const BpTensorView *view, int64_t *strides) {
  uint64_t stride = 1;
  for (int32_t i = view->ndim - 1; i >= 0; i--) {
    strides[i] = (int64_t)stride;
    stride *= view->shape[i] > 0 ? (uint64_t)view->shape[i] : 1;
  }
}

/* Makes a tensor (transfer full) over existing memory; `view` was checked; its shape is copied. On
 * failure `release` is not called. */
static BpTensor *make(const BpTensorView *view, void (*release)(void *), void *context) {
  size_t ndim = view->ndim > 0 ? (size_t)view->ndim : 0;
  OwnedTensor *self = calloc(1, sizeof(*self) + 2 * ndim * sizeof(int64_t));
  if (!self) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a tensor of %zu dimensions", ndim);
    return NULL;
  }
  bp__object_init(&self->tensor.header, BP_TYPE_TENSOR, delete_tensor);
  self->release = release;
  self->context = context;
  self->tensor.view = *view;
  self->tensor.view.shape = self->extents;
  self->tensor.view.strides = self->extents + ndim;
  if (ndim)
    memcpy(self->extents, view->shape, ndim * sizeof(int64_t));
  if (ndim && view->strides)
    memcpy(self->extents + ndim, view->strides, ndim * sizeof(int64_t));
  else
    bp__view_fill_strides(&self->tensor.view, self->tensor.view.strides);
  return &self->tensor;
}

BpTensor *bp_tensor_wrap(const BpTensorView *view, void (*release)(void *), void *context) {
  if (bp_view_num_bytes(view) < 0)
    return NULL;
  return make(view, release, context);
}

/* ---- Creation ---------------------------------------------------------------------------- */

/* A tensor's device memory, which its release frees. */
typedef struct Allocation {
  BpDevice device;
  void *handle;
} Allocation;

static void free_allocation(void *context) {
  Allocation *allocation = context;
  BpError *pending = bp_error_take();
  if (bp_device_free(allocation->device, allocation->handle) < 0)
    bp_error_clear();
  if (pending)
    bp_error_put(pending);
  free(allocation);
}

static BpTensor *create_on_device(BpTensorView *view, uint64_t bytes, const char *mem_scope) {
  Allocation *allocation = malloc(sizeof(*allocation));
  if (!allocation) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a tensor");
    return NULL;
  }
  allocation->device = view->device;
  if (bp_device_alloc(view->device,
                      &(BpAllocation){sizeof(BpAllocation), bytes, BP_TENSOR_ALIGNMENT, view->dtype,
                                      0, mem_scope},
                      &allocation->handle) < 0) {
    free(allocation);
    return NULL;
  }
  view->data = allocation->handle;
  BpTensor *tensor = make(view, free_allocation, allocation);
  if (!tensor)
    free_allocation(allocation);
  return tensor;
}

BpTensor *bp_tensor_create(const int64_t *shape, int32_t ndim, BpDataType dtype, BpDevice device,
                           const char *mem_scope) {
  BpTensorView view = {
      .device = device, .ndim = ndim, .dtype = dtype, .shape = (int64_t *)(uintptr_t)shape};
  int64_t bytes = bp_view_num_bytes(&view);
  if (bytes < 0)
    return NULL;
  if (bp_dtype_bytes(dtype) == 0) {
    bp_error_raise(BP_ERROR_TYPE, "a tensor of elements without a size");
    return NULL;
  }
  return create_on_device(&view, (uint64_t)bytes, mem_scope);
}

/* If `data` is known to be an address, the offset is added to the address: some kernels, including
 * TVM's, require byte_offset 0. */
static void advance(BpTensorView *view, uint64_t byte_offset) {
  if (view->device.device_type == BP_DEVICE_CPU && view->data)
    view->data = (char *)view->data + byte_offset;
  else
    view->byte_offset += byte_offset;
}

BpTensor *bp_tensor_create_view(BpTensor *base, const int64_t *shape, int32_t ndim,
                                BpDataType dtype, uint64_t byte_offset) {
  if (!BP_NOT_NULL(base))
    return NULL;
  BpTensorView view = base->view;
  view.ndim = ndim;
  view.dtype = dtype;
  view.shape = (int64_t *)(uintptr_t)shape;
  view.strides = NULL;
  advance(&view, byte_offset);
  int64_t bytes = bp_view_num_bytes(&view);
  int64_t base_bytes = bp_view_num_bytes(&base->view);
  if (bytes < 0 || base_bytes < 0)
    return NULL;
  if (!bp_view_is_compact(&base->view)) {
    bp_error_raise(BP_ERROR_VALUE, "a view into a tensor that is not compact");
    return NULL;
  }
  if (byte_offset > (uint64_t)base_bytes || (uint64_t)bytes > (uint64_t)base_bytes - byte_offset) {
    bp_error_raise(BP_ERROR_INDEX,
                   "a view of %" PRId64 " bytes from byte %" PRIu64 " of a tensor of %" PRId64
                   " bytes",
                   bytes, byte_offset, base_bytes);
    return NULL;
  }
  BpTensor *tensor = make(&view, bp_object_release, base);
  if (!tensor)
    return NULL;
  bp_object_retain(base);
  if (bp_tensor_is_read_only(base))
    bp__tensor_set_read_only(tensor);
  return tensor;
}

/* ---- Copies ------------------------------------------------------------------------------ */

static int check_compact(const BpTensorView *view, const char *role) {
  if (bp_view_is_compact(view))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "the %s of a copy has strides; copies are between compact "
                        "tensors",
                        role);
}

/* Bytes are copied, so tensors of different types or shapes are refused: their elements would be
 * misread. */
static int check_alike(const BpTensorView *from, const BpTensorView *to) {
  if (memcmp(&from->dtype, &to->dtype, sizeof(from->dtype)) != 0) {
    char have[32], want[32];
    bp_dtype_format(from->dtype, have, sizeof have);
    bp_dtype_format(to->dtype, want, sizeof want);
    return bp_error_raise(BP_ERROR_TYPE,
                          "a copy from a tensor of %s to one of %s; a copy converts nothing", have,
                          want);
  }
  if (from->ndim != to->ndim)
    return bp_error_raise(BP_ERROR_VALUE,
                          "a copy from a tensor of %d dimensions to one of %d; make a view of the "
                          "same shape",
                          from->ndim, to->ndim);
  for (int32_t i = 0; i < from->ndim; i++)
    if (from->shape[i] != to->shape[i])
      return bp_error_raise(BP_ERROR_VALUE,
                            "a copy from a tensor whose dimension %d has the extent %" PRId64
                            " to one where it has %" PRId64,
                            i, from->shape[i], to->shape[i]);
  return 0;
}

/* Makes the BpCopy of one tensor to another. 0, or -1 with an error. */
static int prepare_copy(const BpTensorView *from, const BpTensorView *to, BpCopy *copy) {
  int64_t bytes = bp_view_num_bytes(from);
  if (bytes < 0 || bp_view_num_bytes(to) < 0 || check_alike(from, to) < 0 ||
      check_compact(from, "source") < 0 || check_compact(to, "destination") < 0)
    return -1;
  *copy = (BpCopy){sizeof(BpCopy), from->data,      from->byte_offset,
                   from->device,   to->data,        to->byte_offset,
                   to->device,     (uint64_t)bytes, 0};
  return 0;
}

int bp_tensor_copy(const BpTensorView *from, const BpTensorView *to, void *stream) {
  BpCopy copy;
  return prepare_copy(from, to, &copy) ? -1 : bp_device_copy(&copy, stream);
}

int bp_tensor_copy_between(const BpTensorView *from, const BpTensorView *to, void *from_stream,
                           void *to_stream) {
  BpCopy copy;
  return prepare_copy(from, to, &copy) ? -1 : bp_device_copy_between(&copy, from_stream, to_stream);
}

/* Makes a view of host bytes with the shape and type of `like`. */
static int host_view(const BpTensorView *like, void *data, uint64_t size, BpTensorView *view) {
  int64_t bytes = bp_view_num_bytes(like);
  if (bytes < 0)
    return -1;
  if ((uint64_t)bytes != size)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%" PRIu64 " bytes of host memory for a tensor of %" PRId64, size, bytes);
  *view = *like;
  view->data = data;
  view->byte_offset = 0;
  view->strides = NULL;
  view->device = (BpDevice){BP_DEVICE_CPU, 0};
  return 0;
}

int bp_tensor_copy_from_host(const BpTensorView *to, const void *data, uint64_t size) {
  BpTensorView from;
  if (host_view(to, (void *)(uintptr_t)data, size, &from) < 0)
    return -1;
  return bp_tensor_copy(&from, to, NULL);
}

int bp_tensor_copy_to_host(const BpTensorView *from, void *data, uint64_t size) {
  BpTensorView to;
  if (host_view(from, data, size, &to) < 0 || bp_tensor_copy(from, &to, NULL) < 0)
    return -1;
  return bp_stream_sync(from->device, NULL);
}

char *bp_tensor_format(const BpTensorView *tensor, int64_t threshold) {
  const Text *text = bp__part_table(BP_PART_TEXT);
  return text ? text->format_tensor(tensor, threshold) : NULL;
}
