/* SPDX-License-Identifier: Apache-2.0 */
/* Import and export of DLPack's managed tensors, in the legacy form and in the form of DLPack
 * 1.x. */
#include <stdlib.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "core/device/device.h"
#include "core/device/tensor.h"
#include "parts/exchange/exchange.h"

#define VERSION_MAJOR 1
#define VERSION_MINOR 1 /* the first version in which narrow floats have names and are packed */

/* ---- Export ------------------------------------------------------------------------------ */

static void delete_legacy(BpManagedTensor *managed) {
  bp_object_release(managed->manager_context);
  free(managed);
}

static void delete_versioned(BpManagedTensorVersioned *managed) {
  bp_object_release(managed->manager_context);
  free(managed);
}

BpManagedTensor *bp__to_dlpack(BpTensor *tensor) {
  if (bp_tensor_is_read_only(tensor)) {
    bp_error_raise(BP_ERROR_VALUE, "a read-only tensor cannot go out as a legacy DLPack tensor, "
                                   "which cannot say so; use the versioned form");
    return NULL;
  }
  BpManagedTensor *managed = malloc(sizeof(*managed));
  if (!managed) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a DLPack tensor");
    return NULL;
  }
  *managed = (BpManagedTensor){tensor->view, bp_object_retain(tensor), delete_legacy};
  return managed;
}

BpManagedTensorVersioned *bp__to_dlpack_versioned(BpTensor *tensor) {
  BpManagedTensorVersioned *managed = malloc(sizeof(*managed));
  if (!managed) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a DLPack tensor");
    return NULL;
  }
  *managed = (BpManagedTensorVersioned){
      .version_major = VERSION_MAJOR,
      .version_minor = VERSION_MINOR,
      .manager_context = bp_object_retain(tensor),
      .deleter = delete_versioned,
      .flags = bp_tensor_is_read_only(tensor) ? BP_DLPACK_READ_ONLY : 0,
      .view = tensor->view,
  };
  return managed;
}

/* ---- Import ------------------------------------------------------------------------------ */

static void release_legacy(void *context) {
  BpManagedTensor *managed = context;
  if (managed->deleter)
    managed->deleter(managed);
}

static void release_versioned(void *context) {
  BpManagedTensorVersioned *managed = context;
  if (managed->deleter)
    managed->deleter(managed);
}

static int check_view(const BpTensorView *view) {
  int64_t bytes = bp_view_num_bytes(view);
  if (bytes < 0)
    return -1;
  if (bytes > 0 && !view->data)
    return bp_error_raise(BP_ERROR_VALUE, "a DLPack tensor without data");
  if (!bp__device_type_name(view->device.device_type))
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "a DLPack tensor on a device of type %d, which no plugin in use has",
                          view->device.device_type);
  return 0;
}

/* Backplane packs sub-byte elements; padded elements would be read wrongly. */
static int check_packed(const BpManagedTensorVersioned *managed) {
  char name[32];
  BpDataType dtype = managed->view.dtype;
  if (!(managed->flags & BP_DLPACK_SUBBYTE_PADDED) || dtype.bits % 8 == 0)
    return 0;
  bp_dtype_format(dtype, name, sizeof name);
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "a DLPack tensor of %s whose elements are padded to whole bytes; export it "
                        "packed, or as uint8",
                        name);
}

BpTensor *bp__from_dlpack(BpManagedTensor *managed) {
  if (check_view(&managed->view))
    return NULL;
  return bp_tensor_wrap(&managed->view, release_legacy, managed);
}

BpTensor *bp__from_dlpack_versioned(BpManagedTensorVersioned *managed) {
  if (managed->version_major != VERSION_MAJOR) {
    bp_error_raise(
        BP_ERROR_VALUE,
        "a DLPack tensor of version %u.%u, and this library knows %d.x; ask its maker for "
        "that version",
        managed->version_major, managed->version_minor, VERSION_MAJOR);
    return NULL;
  }
  if (check_view(&managed->view) || check_packed(managed))
    return NULL;
  BpTensor *tensor = bp_tensor_wrap(&managed->view, release_versioned, managed);
  if (tensor && managed->flags & BP_DLPACK_READ_ONLY)
    bp__tensor_set_read_only(tensor);
  return tensor;
}
