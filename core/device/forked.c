/* SPDX-License-Identifier: Apache-2.0 */
/* The DeviceAPI of a device that was in use when the process forked. Vendor libraries do not
 * survive a fork: their threads are gone and their locks may be held for ever. */

#include "core/device/forked.h"

#include <backplane/error.h>

/* Every slot ignores its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

int bp__device_raise_forked(void) {
  return bp_error_raise(BP_ERROR_DEVICE,
                        "this process was forked from one that used the device, and devices do not "
                        "survive that; fork before the first use, or start a new program (exec, "
                        "posix_spawn, Python's \"spawn\")");
}

#define FORKED(slot, ...)                                                                          \
  static int32_t forked_##slot(__VA_ARGS__) {                                                      \
    return bp__device_raise_forked();                                                              \
  }

FORKED(get_device_count, void *context, int32_t *count, const char **why)
FORKED(get_attr, void *context, int32_t device_id, int32_t attr, BpValue *result)
FORKED(set_device, void *context, int32_t device_id)
FORKED(alloc_data_space, void *context, int32_t device_id, const BpAllocation *allocation,
       void **handle)
FORKED(free_data_space, void *context, int32_t device_id, void *handle)
FORKED(alloc_workspace, void *context, int32_t device_id, uint64_t size, BpDataType dtype_hint,
       void **handle)
FORKED(copy, void *context, const BpCopy *copy, void *stream)
FORKED(create_stream, void *context, int32_t device_id, void **stream)
FORKED(use_stream, void *context, int32_t device_id, void *stream)
FORKED(sync_stream_from_to, void *context, int32_t device_id, void *from, void *to)
FORKED(visit_properties, void *context, int32_t device_id,
       int32_t (*visit)(void *visitor, const char *name, const BpValue *value), void *visitor)

void bp__device_api_make_forked(BpDeviceApi *api) {
  *api = (BpDeviceApi){
      .struct_size = api->struct_size,
      .device_type = api->device_type,
      .name = api->name,
      .context = api->context,
      .get_device_count = forked_get_device_count,
      .get_attr = forked_get_attr,
      .set_device = forked_set_device,
      .alloc_data_space = forked_alloc_data_space,
      .free_data_space = forked_free_data_space,
      .alloc_workspace = forked_alloc_workspace,
      .free_workspace = forked_free_data_space,
      .copy = forked_copy,
      .create_stream = forked_create_stream,
      .free_stream = forked_use_stream,
      .sync_stream_from_to = forked_sync_stream_from_to,
      .stream_sync = forked_use_stream,
      .visit_properties = forked_visit_properties,
  };
}
