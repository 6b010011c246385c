/* SPDX-License-Identifier: Apache-2.0 */
/* Data space and copies.
 *
 * Host memory belongs to the core: device cpu:0 needs no plugin, so that a machine with the core
 * and one device plugin can hold inputs and outputs, and run host code, without plugins/cpu.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <backplane/error.h>

#include "core/device/device.h"
#include "core/device/layers.h"
#include "core/device/tensor.h"
#include "core/registry/argument.h"

/* The most host memory that a copy between two kinds of device uses. */
#define STAGING_SIZE ((uint64_t)16 << 20)
/* The huge page of most processors; a multiple of the page size of the others. */
#define HUGE_PAGE (UINT64_C(2) << 20)

int bp__device_is_host(BpDevice device) {
  return device.device_type == BP_DEVICE_CPU && device.device_id == 0;
}

/* ---- Memory ------------------------------------------------------------------------------ */

static int check_alignment(uint64_t alignment) {
  if (alignment && !(alignment & (alignment - 1)))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "an alignment of %" PRIu64 " bytes is no power of two",
                        alignment);
}

void *bp__host_alloc(uint64_t size, uint64_t alignment) {
  void *data = NULL;
  if (alignment < sizeof(void *))
    alignment = sizeof(void *);
  if (check_alignment(alignment))
    return NULL;
  if (size >= HUGE_PAGE && alignment < HUGE_PAGE)
    alignment = HUGE_PAGE;
  if (size > PTRDIFF_MAX || posix_memalign(&data, alignment, size ? size : 1) != 0) {
    bp_error_raise(BP_ERROR_MEMORY, "no host memory for %" PRIu64 " bytes", size);
    return NULL;
  }
  /* Scattered small pages slow down the reading of large weights. A kernel without huge pages is no
   * error. */
  if (size >= HUGE_PAGE)
    madvise(data, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
  return data;
}

void bp__host_free(void *data) {
  free(data);
}

static int alloc_on_host(const BpAllocation *allocation, void **handle) {
  const BpDeviceApi *layered;
  if (bp__layers_host(&layered))
    return -1;
  if (layered)
    return layered->alloc_data_space(layered->context, 0, allocation, handle);
  if (allocation->scope && *allocation->scope && strcmp(allocation->scope, "global") != 0)
    return bp_error_raise(BP_ERROR_VALUE, "host memory has no scope \"%.64s\"; it has \"global\"",
                          allocation->scope);
  *handle = bp__host_alloc(allocation->size, allocation->alignment);
  return *handle ? 0 : -1;
}

/* The size of BpAllocation in the first version that has it. */
#define LEAST_ALLOCATION (offsetof(BpAllocation, scope) + sizeof(const char *))

int bp__allocation_read(const BpAllocation *given, BpAllocation *own) {
  if (!BP_NOT_NULL(given) ||
      bp__sized_read(own, sizeof *own, LEAST_ALLOCATION, given, "BpAllocation") ||
      check_alignment(own->alignment))
    return -1;
  return own->flags ? bp_error_raise(BP_ERROR_VALUE, "BpAllocation: unknown flags 0x%x", own->flags)
                    : 0;
}

int bp_device_alloc(BpDevice device, const BpAllocation *allocation, void **handle) {
  BpAllocation known;
  if (!BP_NOT_NULL(handle))
    return -1;
  *handle = NULL;
  if (bp__device_check_fork() || bp__allocation_read(allocation, &known))
    return -1;
  if (bp__device_is_host(device))
    return alloc_on_host(&known, handle);
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  return api->alloc_data_space(api->context, device.device_id, &known, handle)
             ? bp__device_failed(device, "allocating memory")
             : 0;
}

static int free_on_host(void *handle) {
  const BpDeviceApi *layered;
  if (bp__layers_host(&layered))
    return -1;
  if (layered && handle)
    return layered->free_data_space(layered->context, 0, handle);
  bp__host_free(handle);
  return 0;
}

int bp_device_free(BpDevice device, void *handle) {
  if (bp__device_is_host(device))
    return free_on_host(handle);
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  return handle && api->free_data_space(api->context, device.device_id, handle)
             ? bp__device_failed(device, "freeing memory")
             : 0;
}

static int check_copy(const BpCopy *copy) {
  uint64_t end;
  if (copy->flags)
    return bp_error_raise(BP_ERROR_VALUE, "BpCopy: unknown flags 0x%" PRIx64, copy->flags);
  if (copy->size && (!copy->from || !copy->to))
    return bp_error_raise(BP_ERROR_VALUE, "a copy of %" PRIu64 " bytes %s NULL", copy->size,
                          copy->from ? "to" : "from");
  if (__builtin_add_overflow(copy->from_offset, copy->size, &end) ||
      __builtin_add_overflow(copy->to_offset, copy->size, &end))
    return bp_error_raise(BP_ERROR_VALUE, "a copy whose offset and size overflow");
  return 0;
}

static int copy_on_host(const BpCopy *copy, void *stream) {
  const BpDeviceApi *layered;
  if (bp__stream_check(copy->to_device, stream) || bp__layers_host(&layered))
    return -1;
  if (layered)
    return layered->copy(layered->context, copy, NULL);
  memmove((char *)copy->to + copy->to_offset, (const char *)copy->from + copy->from_offset,
          copy->size);
  return 0;
}

/* Copies between two devices of one kind, or between a device and the host. */
static int copy_by_device(const BpCopy *copy, void *stream) {
  BpDevice device = bp__device_is_host(copy->from_device) ? copy->to_device : copy->from_device;
  const BpDeviceApi *api = bp__device_get(device);
  if (!api || (!bp__device_is_host(copy->to_device) && !bp__device_get(copy->to_device)) ||
      bp__stream_check(device, stream))
    return -1;
  return api->copy(api->context, copy, stream) ? bp__device_failed(device, "copying") : 0;
}

static void *get_current_stream(BpDevice device) {
  int32_t device_id;
  void *stream;
  bp_device_get_current(device.device_type, &device_id, &stream);
  return device_id == device.device_id ? stream : NULL;
}

/* Copies between devices of two kinds, which cannot access each other's memory. A copy from the
 * host returns after the device has read its source, so one staging buffer is reused for all
 * parts. */
static int copy_through_host(const BpCopy *copy, void *stream) {
  const BpDevice host = {BP_DEVICE_CPU, 0};
  uint64_t most = copy->size < STAGING_SIZE ? copy->size : STAGING_SIZE;
  void *staging = bp__host_alloc(most, BP_TENSOR_ALIGNMENT);
  void *from_stream = get_current_stream(copy->from_device);
  int rc = staging ? 0 : -1;
  for (uint64_t at = 0; !rc && at < copy->size; at += most) {
    uint64_t size = copy->size - at < most ? copy->size - at : most;
    const BpCopy out = {
        sizeof(BpCopy), copy->from, copy->from_offset + at, copy->from_device, staging, 0, host,
        size,           0};
    const BpCopy in = {sizeof(BpCopy),       staging,         0,    host, copy->to,
                       copy->to_offset + at, copy->to_device, size, 0};
    if (copy_by_device(&out, from_stream) || bp_stream_sync(copy->from_device, from_stream) ||
        copy_by_device(&in, stream))
      rc = -1;
  }
  bp__host_free(staging);
  return rc;
}

/* The size of BpCopy in the first version that has a size. */
#define LEAST_COPY (offsetof(BpCopy, flags) + sizeof(uint64_t))

int bp__copy_read(const BpCopy *given, BpCopy *own) {
  if (!BP_NOT_NULL(given) || bp__device_check_fork() ||
      bp__sized_read(own, sizeof *own, LEAST_COPY, given, "BpCopy"))
    return -1;
  return check_copy(own);
}

int bp_device_copy(const BpCopy *given, void *stream) {
  BpCopy known;
  const BpCopy *copy = &known;
  if (bp__copy_read(given, &known))
    return -1;
  if (copy->size == 0)
    return 0;
  if (bp__device_is_host(copy->from_device) && bp__device_is_host(copy->to_device))
    return copy_on_host(copy, stream);
  int is_direct = bp__device_is_host(copy->from_device) || bp__device_is_host(copy->to_device) ||
                  copy->from_device.device_type == copy->to_device.device_type;
  return is_direct ? copy_by_device(copy, stream) : copy_through_host(copy, stream);
}
