/* SPDX-License-Identifier: Apache-2.0 */
/* Data space, copies, streams, and what is current in a thread.
 *
 * Host memory is the core's own: for device cpu:0 no plugin is asked, so that a machine with the
 * core and one device plugin can hold inputs and outputs, and run host code, without plugins/cpu.
 */
#include <inttypes.h>
#include <string.h>

#include <backplane/error.h>

#include "core/device/device.h"
#include "core/device/tensor.h"

/* Host memory that a copy between two kinds of device takes at most. */
#define STAGING_SIZE ((uint64_t)16 << 20)

static int is_host(BpDevice device) {
  return device.device_type == BP_DEVICE_CPU && device.device_id == 0;
}

/* ---- Memory ------------------------------------------------------------------------------ */

static int check_alignment(uint64_t alignment) {
  if (alignment && !(alignment & (alignment - 1)))
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "an alignment of %" PRIu64 " bytes is no power of two",
                        alignment);
}

static int alloc_on_host(uint64_t size, uint64_t alignment, const char *mem_scope, void **handle) {
  if (mem_scope && strcmp(mem_scope, "global") != 0)
    return bp_error_raise(BP_ERROR_VALUE, "host memory has no scope \"%.64s\"; it has \"global\"",
                          mem_scope);
  *handle = bp__host_alloc(size, alignment);
  return *handle ? 0 : -1;
}

int bp_device_alloc(BpDevice device, uint64_t size, uint64_t alignment, BpDataType hint,
                    const char *mem_scope, void **handle) {
  *handle = NULL;
  if (bp__device_check_fork() || check_alignment(alignment))
    return -1;
  if (is_host(device))
    return alloc_on_host(size, alignment, mem_scope, handle);
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (api->alloc_data_space(device.device_id, size, alignment, hint, mem_scope, handle))
    return bp__device_failed(device, "allocating memory");
  return 0;
}

int bp_device_free(BpDevice device, void *handle) {
  if (is_host(device)) {
    bp__host_free(handle);
    return 0;
  }
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  return handle && api->free_data_space(device.device_id, handle)
             ? bp__device_failed(device, "freeing memory")
             : 0;
}

static int check_copy(const BpCopy *copy) {
  uint64_t end;
  if (!copy->from || !copy->to)
    return bp_error_raise(BP_ERROR_VALUE, "a copy of %" PRIu64 " bytes %s NULL", copy->size,
                          copy->from ? "to" : "from");
  if (__builtin_add_overflow(copy->from_offset, copy->size, &end) ||
      __builtin_add_overflow(copy->to_offset, copy->size, &end))
    return bp_error_raise(BP_ERROR_VALUE, "a copy whose offset and size overflow");
  return 0;
}

/* Does what stands between two devices of one kind, or a device and the host. */
static int copy_by_device(const BpCopy *copy, void *stream) {
  BpDevice device = is_host(copy->from_device) ? copy->to_device : copy->from_device;
  const BpDeviceApi *api = bp__device_get(device);
  if (!api || (!is_host(copy->to_device) && !bp__device_get(copy->to_device)))
    return -1;
  return api->copy(copy, stream) ? bp__device_failed(device, "copying") : 0;
}

static void *get_current_stream(BpDevice device) {
  int32_t device_id;
  void *stream;
  bp_device_get_current(device.device_type, &device_id, &stream);
  return device_id == device.device_id ? stream : NULL;
}

/* Neither of two kinds of device can reach the other's memory. A device has consumed what comes
 * from the host when its copy returns, so one piece of host memory serves for all. */
static int copy_through_host(const BpCopy *copy, void *stream) {
  const BpDevice host = {BP_DEVICE_CPU, 0};
  uint64_t most = copy->size < STAGING_SIZE ? copy->size : STAGING_SIZE;
  void *staging = bp__host_alloc(most, BP_TENSOR_ALIGNMENT);
  void *from_stream = get_current_stream(copy->from_device);
  int rc = staging ? 0 : -1;
  for (uint64_t at = 0; !rc && at < copy->size; at += most) {
    uint64_t size = copy->size - at < most ? copy->size - at : most;
    const BpCopy out = {copy->from, copy->from_offset + at, copy->from_device, staging, 0, host,
                        size};
    const BpCopy in = {staging, 0, host, copy->to, copy->to_offset + at, copy->to_device, size};
    if (copy_by_device(&out, from_stream) || bp_stream_sync(copy->from_device, from_stream) ||
        copy_by_device(&in, stream))
      rc = -1;
  }
  bp__host_free(staging);
  return rc;
}

int bp_device_copy(const BpCopy *copy, void *stream) {
  if (bp__device_check_fork())
    return -1;
  if (copy->size == 0)
    return 0;
  if (check_copy(copy))
    return -1;
  if (is_host(copy->from_device) && is_host(copy->to_device)) {
    memmove((char *)copy->to + copy->to_offset, (const char *)copy->from + copy->from_offset,
            copy->size);
    return 0;
  }
  int is_direct = is_host(copy->from_device) || is_host(copy->to_device) ||
                  copy->from_device.device_type == copy->to_device.device_type;
  return is_direct ? copy_by_device(copy, stream) : copy_through_host(copy, stream);
}

/* ---- Streams ----------------------------------------------------------------------------- */

int bp_stream_create(BpDevice device, void **stream) {
  *stream = NULL;
  if (is_host(device))
    return bp__device_check_fork();
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  return api->create_stream && api->create_stream(device.device_id, stream)
             ? bp__device_failed(device, "making a stream")
             : 0;
}

int bp_stream_free(BpDevice device, void *stream) {
  if (is_host(device))
    return bp__device_check_fork();
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  return stream && api->free_stream && api->free_stream(device.device_id, stream)
             ? bp__device_failed(device, "freeing a stream")
             : 0;
}

int bp_stream_sync(BpDevice device, void *stream) {
  if (is_host(device))
    return bp__device_check_fork();
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  return api->stream_sync(device.device_id, stream) ? bp__device_failed(device, "a stream") : 0;
}

int bp_stream_sync_from_to(BpDevice device, void *from, void *to) {
  if (is_host(device))
    return bp__device_check_fork();
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (from == to || !api->sync_stream_from_to)
    return 0;
  return api->sync_stream_from_to(device.device_id, from, to)
             ? bp__device_failed(device, "ordering two streams")
             : 0;
}

/* ---- Current device and stream ----------------------------------------------------------- */

#define MAX_CURRENT 16

/* Of this thread, by device type; few kinds are ever used at once. */
typedef struct Current {
  int32_t device_type;
  int32_t device_id;
  void *stream;
} Current;

static _Thread_local Current current[MAX_CURRENT];
static _Thread_local size_t num_current;

static Current *find_current(int32_t device_type) {
  for (size_t i = 0; i < num_current; i++)
    if (current[i].device_type == device_type)
      return &current[i];
  return NULL;
}

static int tell_device(BpDevice device) {
  const BpDeviceApi *api = is_host(device) ? NULL : bp__device_get(device);
  if (!api)
    return is_host(device) ? 0 : -1;
  return api->set_device && api->set_device(device.device_id)
             ? bp__device_failed(device, "making it the thread's current device")
             : 0;
}

int bp_device_set_current(BpDevice device, void *stream) {
  if (bp__device_check_fork())
    return -1;
  Current *entry = find_current(device.device_type);
  if (!entry && num_current == MAX_CURRENT)
    return bp_error_raise(BP_ERROR_RUNTIME, "more than %d kinds of device in one thread",
                          MAX_CURRENT);
  if ((!entry || entry->device_id != device.device_id) && tell_device(device))
    return -1;
  if (!entry)
    entry = &current[num_current++];
  *entry = (Current){device.device_type, device.device_id, stream};
  return 0;
}

void bp_device_get_current(int32_t device_type, int32_t *device_id, void **stream) {
  const Current *entry = find_current(device_type);
  *device_id = entry ? entry->device_id : 0;
  *stream = entry ? entry->stream : NULL;
}
