/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack's managed tensors, the legacy form and that of 1.x, out and in. */
#include <stdlib.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "core/device/tensor.h"

#define VERSION_MAJOR 1
#define VERSION_MINOR 0

/* ---- Out ---------------------------------------------------------------------------------- */

static void delete_legacy(BpManagedTensor *managed) {
  bp_object_release(managed->manager_context);
  free(managed);
}

static void delete_versioned(BpManagedTensorVersioned *managed) {
  bp_object_release(managed->manager_context);
  free(managed);
}

BpManagedTensor *bp_tensor_to_dlpack(BpTensor *tensor) {
  BpManagedTensor *managed = malloc(sizeof(*managed));
  if (!managed) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a DLPack tensor");
    return NULL;
  }
  *managed = (BpManagedTensor){tensor->view, bp_object_retain(tensor), delete_legacy};
  return managed;
}

BpManagedTensorVersioned *bp_tensor_to_dlpack_versioned(BpTensor *tensor) {
  BpManagedTensorVersioned *managed = malloc(sizeof(*managed));
  if (!managed) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a DLPack tensor");
    return NULL;
  }
  *managed = (BpManagedTensorVersioned){
      VERSION_MAJOR, VERSION_MINOR, bp_object_retain(tensor), delete_versioned, 0, tensor->view};
  return managed;
}

/* ---- In ----------------------------------------------------------------------------------- */

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

BpTensor *bp_tensor_from_dlpack(BpManagedTensor *managed) {
  return bp_tensor_wrap(&managed->view, release_legacy, managed);
}

BpTensor *bp_tensor_from_dlpack_versioned(BpManagedTensorVersioned *managed) {
  if (managed->version_major != VERSION_MAJOR) {
    bp_error_raise(
        BP_ERROR_VALUE,
        "a DLPack tensor of version %u.%u, and this library knows %d.x; ask its maker for "
        "that version",
        managed->version_major, managed->version_minor, VERSION_MAJOR);
    return NULL;
  }
  return bp_tensor_wrap(&managed->view, release_versioned, managed);
}
