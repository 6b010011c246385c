/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: reference-counted arrays on a device, DLPack in and out. Any thread may read a tensor;
 * the writer is responsible for synchronisation. In functions that can fail, a NULL tensor or view
 * is BP_ERROR_VALUE. */
#ifndef BACKPLANE_TENSOR_H
#define BACKPLANE_TENSOR_H

#include <stdio.h>

#include <backplane/api.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an uninitialised, compact tensor (transfer full). Extents are >= 0; an overflow of their
 * product is an error. mem_scope: NULL or a scope of the device. */
BP_API BpTensor *bp_tensor_create(const int64_t *shape, int32_t ndim, BpDataType dtype,
                                  BpDevice device, const char *mem_scope);
/* Drops a reference to a tensor; dropping the last one frees the tensor. NULL is ignored. Any
 * thread. */
static inline void bp_tensor_release(BpTensor *tensor) {
  bp_object_release(tensor);
}
/* Makes a view of part of `base` (transfer full) that keeps `base` alive. A part out of bounds is
 * an error. */
BP_API BpTensor *bp_tensor_create_view(BpTensor *base, const int64_t *shape, int32_t ndim,
                                       BpDataType dtype, uint64_t byte_offset);
/* Wraps memory of the caller (transfer full); `release` (or NULL) is called with `context` when the
 * last reference is dropped. Only shape and strides are copied. */
BP_API BpTensor *bp_tensor_wrap(const BpTensorView *view, void (*release)(void *), void *context);

/* Return the number of elements, and the bytes of a compact tensor of the view's shape, whose
 * elements are packed (bp_dtype_array_bytes); -1 with an error on overflow or a negative extent. */
BP_API int64_t bp_view_num_elements(const BpTensorView *view);
BP_API int64_t bp_view_num_bytes(const BpTensorView *view);
/* Whether the elements are contiguous in row-major order: strides are NULL or have that order. The
 * stride of a dimension of extent 1 is ignored, and a view without elements is compact. Never
 * fails. */
BP_API int bp_view_is_compact(const BpTensorView *view);

/* Return the view of a tensor, or the view in a value (borrowed); NULL, and no error raised, for a
 * value of another type. */
BP_API const BpTensorView *bp_value_view_tensor(const BpValue *value);

/* Queue copies between compact tensors of one element type and shape, or tensors and host memory of
 * `size` bytes, which must be the tensor's. DeviceAPI's copy slot says when memory may be reused;
 * to_host returns when the bytes have arrived. */
BP_API int bp_tensor_copy(const BpTensorView *from, const BpTensorView *to, void *stream);
/* Copies between compact tensors on two devices, in the order of a stream of each, by
 * bp_device_copy_between. Any thread. Since 1.0. */
BP_API int bp_tensor_copy_between(const BpTensorView *from, const BpTensorView *to,
                                  void *from_stream, void *to_stream);
BP_API int bp_tensor_copy_from_host(const BpTensorView *to, const void *data, uint64_t size);
BP_API int bp_tensor_copy_to_host(const BpTensorView *from, void *data, uint64_t size);

/* Formats the elements as text (transfer full, bp_str_free), in the form of numpy.array2string:
 * "[[1. 2.5]", and so on. A tensor of more than `threshold` elements (0: numpy's 1000) shows 3 at
 * each end of a dimension. Supports the types of bp_dtype_decode. A tensor that is not in host
 * memory is copied, after all work on its device's default stream, and must be compact. NULL with
 * an error. Any thread. Since 1.0. */
BP_API char *bp_tensor_format(const BpTensorView *tensor, int64_t threshold);
/* Writes the text of bp_tensor_format and a newline to a file. 0, or -1 with an error of
 * bp_tensor_format, or BP_ERROR_IO. Any thread. Since 1.0. */
static inline int bp_tensor_print(const BpTensorView *tensor, FILE *file) {
  char *text = bp_tensor_format(tensor, 0);
  int status = text ? 0 : -1;
  if (text && fprintf(file, "%s\n", text) < 0)
    status = bp_error_raise(BP_ERROR_IO, "cannot write the text of a tensor");
  bp_str_free(text);
  return status;
}

/* Whether the tensor is read-only: it was imported as read-only through DLPack, or is a view of
 * such a tensor. For a tensor that another library made the result is always 0. Never fails. */
BP_API int bp_tensor_is_read_only(const BpTensor *tensor);

/* ---- DLPack ------------------------------------------------------------------------------ */

/* DLPack's managed tensors, by their published layouts: the legacy one and the one of DLPack
 * 1.x. */
typedef struct BpManagedTensor {
  BpTensorView view;
  void *manager_context;
  void (*deleter)(struct BpManagedTensor *self);
} BpManagedTensor;

#define BP_DLPACK_READ_ONLY      1u
#define BP_DLPACK_COPIED         2u
#define BP_DLPACK_SUBBYTE_PADDED 4u /* elements smaller than a byte take whole bytes */

/* A tensor that is passed on together with its owner's deleter (DLManagedTensorVersioned). */
typedef struct BpManagedTensorVersioned {
  uint32_t version_major; /* 1 */
  uint32_t version_minor;
  void *manager_context;
  void (*deleter)(struct BpManagedTensorVersioned *self);
  uint64_t flags; /* BP_DLPACK_* */
  BpTensorView view;
} BpManagedTensorVersioned;

/* Exports a tensor as a managed tensor, which keeps the tensor alive; its consumer calls the
 * deleter. */
BP_API BpManagedTensor *bp_tensor_to_dlpack(BpTensor *tensor);
BP_API BpManagedTensorVersioned *bp_tensor_to_dlpack_versioned(BpTensor *tensor);
/* Imports a managed tensor: on success the tensor (transfer full) owns the managed tensor; on
 * failure the caller still owns it. A major version other than 1, an unknown device type, or
 * sub-byte elements that are padded to whole bytes, is an error. */
BP_API BpTensor *bp_tensor_from_dlpack(BpManagedTensor *managed);
BP_API BpTensor *bp_tensor_from_dlpack_versioned(BpManagedTensorVersioned *managed);

#ifdef __cplusplus
}
#endif

#endif
