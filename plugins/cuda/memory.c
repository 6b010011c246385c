/* SPDX-License-Identifier: Apache-2.0 */
/* Data space, workspace and copies.
 *
 * Data space is the driver's plain memory, which may be used on every stream; freeing it waits for
 * queued work. Workspace comes from the driver's pool: it is allocated and freed in the order of
 * the current stream, so that it never waits and is never reused too early. */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

static CUdeviceptr address_of(const void *handle) {
  return (CUdeviceptr)(uintptr_t)handle;
}

/* ---- Data space -------------------------------------------------------------------------- */

/* Smaller allocations share a page of this size; larger ones begin with a page of their own. */
#define PAGE_BYTES ((size_t)2 << 20)

/* Allocates memory. If memory is short, releases the pool's reserve and tries again. */
static CUresult alloc_or_trim(const BpCudaDevice *device, CUdeviceptr *data, size_t size) {
  CUresult status = bp_cu.cuMemAlloc_v2(data, size);
  if (status != CUDA_ERROR_OUT_OF_MEMORY || !device->pool)
    return status;
  bp_cu.cuMemPoolTrimTo(device->pool, 0);
  return bp_cu.cuMemAlloc_v2(data, size);
}

static int32_t raise_alloc(BpCudaDevice *device, CUresult status, const char *call, uint64_t size) {
  bp_cuda_raise(device, status, call);
  return bp_plugin_add_context(&bp_cuda_host, "%llu bytes", (unsigned long long)size);
}

int32_t bp_cuda_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                      void **handle) {
  (void)context;
  CUdeviceptr data = 0;
  uint64_t size = allocation->size, alignment = allocation->alignment;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device || bp_plugin_check_allocation(&bp_cuda_host, "cuda", allocation))
    return -1;
  CUresult status = alloc_or_trim(device, &data, size ? size : 1);
  if (status == CUDA_SUCCESS && alignment > 1 && data % alignment != 0 && size < PAGE_BYTES) {
    bp_cu.cuMemFree_v2(data);
    status = alloc_or_trim(device, &data, PAGE_BYTES);
  }
  if (status != CUDA_SUCCESS)
    return raise_alloc(device, status, "cuMemAlloc", size);
  if (alignment > 1 && data % alignment != 0) {
    bp_cu.cuMemFree_v2(data);
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE,
                           "cuda: the driver allocates no memory aligned to %llu bytes",
                           (unsigned long long)alignment);
  }
  *handle = (void *)(uintptr_t)data;
  return 0;
}

static int32_t raise_unknown(const BpCudaDevice *device, CUdeviceptr data) {
  return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE,
                         "cuda:%d: %#llx is not the beginning of memory of a GPU, or was freed",
                         device->index, data);
}

/* Raises an error unless `data` belongs to this device, according to the driver. */
static int32_t check_owner(BpCudaDevice *device, CUdeviceptr data) {
  int owner = -1;
  CUresult status = bp_cu.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, data);
  if (status == CUDA_SUCCESS && owner == device->id)
    return 0;
  if (status == CUDA_SUCCESS)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE, "cuda:%d: %#llx is memory of cuda:%d",
                           device->index, data, owner);
  return status == CUDA_ERROR_INVALID_VALUE
             ? raise_unknown(device, data)
             : bp_cuda_raise(device, status, "cuPointerGetAttribute");
}

int32_t bp_cuda_free(void *context, int32_t device_id, void *handle) {
  (void)context;
  if (!handle)
    return 0;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device || check_owner(device, address_of(handle)) != 0)
    return -1;
  CUresult status = bp_cu.cuMemFree_v2(address_of(handle));
  if (status == CUDA_ERROR_INVALID_VALUE)
    return raise_unknown(device, address_of(handle));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuMemFree");
}

/* ---- Workspace --------------------------------------------------------------------------- */

/* Returns this thread's current stream, if it is a stream of this device. */
static CUstream current_stream(const BpCudaDevice *device) {
  int32_t current = 0;
  void *stream = NULL;
  bp_cuda_host.runtime->get_current(BP_DEVICE_CUDA, &current, &stream);
  return bp_cuda_stream(device, current == device->index ? stream : NULL);
}

/* Returns the link to a workspace in the list; the link holds NULL if the workspace is not in the
 * list. Called with the lock held. */
static BpCudaWorkspace **find_workspace(BpCudaDevice *device, CUdeviceptr data) {
  BpCudaWorkspace **place = &device->workspaces;
  while (*place && (*place)->data != data)
    place = &(*place)->next;
  return place;
}

/* Removes a workspace from the list. Returns 0 if the list had the workspace. */
static int forget_workspace(BpCudaDevice *device, CUdeviceptr data) {
  pthread_mutex_lock(&device->lock);
  BpCudaWorkspace **place = find_workspace(device, data), *known = *place;
  if (known)
    *place = known->next;
  pthread_mutex_unlock(&device->lock);
  free(known);
  return known ? 0 : -1;
}

static int32_t alloc_pooled(BpCudaDevice *device, uint64_t size, void **handle) {
  BpCudaWorkspace *workspace = calloc(1, sizeof(*workspace));
  if (!workspace)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_MEMORY, "cuda: no memory for a workspace");
  CUresult status =
      bp_cu.cuMemAllocAsync(&workspace->data, size ? size : 1, current_stream(device));
  if (status != CUDA_SUCCESS) {
    free(workspace);
    return raise_alloc(device, status, "cuMemAllocAsync", size);
  }
  *handle = (void *)(uintptr_t)workspace->data;
  pthread_mutex_lock(&device->lock);
  workspace->next = device->workspaces;
  device->workspaces = workspace;
  pthread_mutex_unlock(&device->lock);
  return 0;
}

int32_t bp_cuda_alloc_workspace(void *context, int32_t device_id, uint64_t size, BpDataType hint,
                                void **handle) {
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  return device->pool
             ? alloc_pooled(device, size, handle)
             : bp_cuda_alloc(context, device_id,
                             &(BpAllocation){sizeof(BpAllocation), size, 1, hint, 0, NULL}, handle);
}

int32_t bp_cuda_free_workspace(void *context, int32_t device_id, void *handle) {
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  if (!device->pool)
    return bp_cuda_free(context, device_id, handle);
  if (forget_workspace(device, address_of(handle)) != 0)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE,
                           "cuda:%d: %p is not a workspace, or was freed", device_id, handle);
  CUresult status = bp_cu.cuMemFreeAsync(address_of(handle), current_stream(device));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuMemFreeAsync");
}

/* ---- Copies from the host ---------------------------------------------------------------- */

/* Creates the pinned memory and the event of a stage, with its lock held. */
static int32_t open_stage(BpCudaDevice *device, BpCudaStage *stage) {
  CUresult status = bp_cu.cuEventCreate(&stage->copied, CU_EVENT_DISABLE_TIMING);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuEventCreate");
  status = bp_cu.cuMemHostAlloc(&stage->data, BP_CUDA_STAGE_BYTES, 0);
  if (status == CUDA_SUCCESS)
    return 0;
  bp_cu.cuEventDestroy_v2(stage->copied);
  stage->data = NULL;
  return bp_cuda_raise(device, status, "cuMemHostAlloc");
}

/* Copies through a stage, with the stage's lock held. */
static int32_t queue_stage(BpCudaDevice *device, BpCudaStage *stage, CUdeviceptr to,
                           const void *from, size_t size, CUstream stream) {
  if (!stage->data && open_stage(device, stage) != 0)
    return -1;
  CUresult status = bp_cu.cuEventSynchronize(stage->copied); /* earlier copy from the stage */
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuEventSynchronize");
  memcpy(stage->data, from, size);
  status = bp_cu.cuMemcpyHtoDAsync_v2(to, stage->data, size, stream);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuMemcpyHtoDAsync");
  status = bp_cu.cuEventRecord(stage->copied, stream);
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuEventRecord");
}

/* A small copy goes through pinned memory and does not wait for its stream. */
static int32_t copy_staged(BpCudaDevice *device, CUdeviceptr to, const void *from, size_t size,
                           CUstream stream) {
  BpCudaStage *stage = &device->stages[atomic_fetch_add(&device->next_stage, 1) % BP_CUDA_STAGES];
  pthread_mutex_lock(&stage->lock);
  int32_t rc = queue_stage(device, stage, to, from, size, stream);
  pthread_mutex_unlock(&stage->lock);
  return rc;
}

/* A large copy leaves the staging to the driver and waits: whether the driver has read the source
 * on return depends on the kind of memory and on the machine. */
static int32_t copy_waiting(BpCudaDevice *device, CUdeviceptr to, const void *from, size_t size,
                            CUstream stream) {
  CUresult status = bp_cu.cuMemcpyHtoDAsync_v2(to, from, size, stream);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuMemcpyHtoDAsync");
  status = bp_cu.cuStreamSynchronize(stream);
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuStreamSynchronize");
}

static int32_t to_device(const BpCopy *copy, void *handle) {
  int capturing = 0;
  BpCudaDevice *device = bp_cuda_device(copy->to_device.device_id);
  if (!device)
    return -1;
  CUstream stream = bp_cuda_stream(device, handle);
  CUresult status = bp_cu.cuStreamIsCapturing(stream, &capturing);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuStreamIsCapturing");
  if (capturing)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_NOT_IMPLEMENTED,
                           "cuda:%d: a copy from the host cannot be recorded, for its "
                           "source is consumed at once; copy before the recording",
                           device->index);
  const char *from = (const char *)copy->from + copy->from_offset;
  CUdeviceptr to = address_of(copy->to) + copy->to_offset;
  return copy->size <= BP_CUDA_STAGE_BYTES ? copy_staged(device, to, from, copy->size, stream)
                                           : copy_waiting(device, to, from, copy->size, stream);
}

/* ---- Other copies ------------------------------------------------------------------------ */

static int32_t from_device(const BpCopy *copy, void *stream) {
  BpCudaDevice *device = bp_cuda_device(copy->from_device.device_id);
  if (!device)
    return -1;
  CUresult status = bp_cu.cuMemcpyDtoHAsync_v2((char *)copy->to + copy->to_offset,
                                               address_of(copy->from) + copy->from_offset,
                                               copy->size, bp_cuda_stream(device, stream));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuMemcpyDtoHAsync");
}

static int32_t within_device(const BpCopy *copy, void *stream) {
  BpCudaDevice *device = bp_cuda_device(copy->to_device.device_id);
  if (!device || bp_argument_check_overlap(&bp_cuda_host, &bp_cuda_device_api, copy) != 0)
    return -1;
  CUresult status = bp_cu.cuMemcpyDtoDAsync_v2(address_of(copy->to) + copy->to_offset,
                                               address_of(copy->from) + copy->from_offset,
                                               copy->size, bp_cuda_stream(device, stream));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuMemcpyDtoDAsync");
}

/* Copies between two devices on a stream of the source, ordered with the target's default
 * stream. */
static int32_t between_devices(const BpCopy *copy, void *handle) {
  BpCudaDevice *to = bp_cuda_device(copy->to_device.device_id);
  BpCudaDevice *from = to ? bp_cuda_device(copy->from_device.device_id) : NULL;
  if (!from)
    return -1;
  CUstream stream = bp_cuda_stream(from, handle);
  CUresult status = bp_cuda_order(to, to->stream, stream);
  if (status == CUDA_SUCCESS)
    status = bp_cu.cuCtxSetCurrent(from->context);
  if (status == CUDA_SUCCESS)
    status = bp_cu.cuMemcpyPeerAsync(address_of(copy->to) + copy->to_offset, to->context,
                                     address_of(copy->from) + copy->from_offset, from->context,
                                     copy->size, stream);
  if (status == CUDA_SUCCESS)
    status = bp_cuda_order(from, stream, to->stream);
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(from, status, "cuMemcpyPeerAsync");
}

int32_t bp_cuda_copy(void *context, const BpCopy *copy, void *stream) {
  (void)context;
  if (bp_plugin_check_flags(&bp_cuda_host, "cuda", "copy", copy->flags) != 0)
    return -1;
  if (copy->size == 0)
    return 0;
  if (copy->from_device.device_type != BP_DEVICE_CUDA)
    return to_device(copy, stream);
  if (copy->to_device.device_type != BP_DEVICE_CUDA)
    return from_device(copy, stream);
  return copy->from_device.device_id == copy->to_device.device_id ? within_device(copy, stream)
                                                                  : between_devices(copy, stream);
}
