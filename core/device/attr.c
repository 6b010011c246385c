/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of devices, and their names. */
#include <string.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "core/device/device.h"
#include "core/registry/given.h"

/* The names are arrays of characters, not pointers, here and in the other tables of the core, so
 * that they need no relocation when the library is loaded. */
static const char names[][28] = {
    [BP_ATTR_EXIST] = "exist",
    [BP_ATTR_MAX_THREADS_PER_BLOCK] = "max_threads_per_block",
    [BP_ATTR_WARP_SIZE] = "warp_size",
    [BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK] = "max_shared_memory_per_block",
    [BP_ATTR_COMPUTE_VERSION] = "compute_version",
    [BP_ATTR_DEVICE_NAME] = "device_name",
    [BP_ATTR_MAX_CLOCK_RATE] = "max_clock_rate",
    [BP_ATTR_MULTI_PROCESSOR_COUNT] = "multi_processor_count",
    [BP_ATTR_MAX_THREAD_DIMENSIONS] = "max_thread_dimensions",
    [BP_ATTR_MAX_REGISTERS_PER_BLOCK] = "max_registers_per_block",
    [BP_ATTR_ARCH_NAME] = "arch_name",
    [BP_ATTR_API_VERSION] = "api_version",
    [BP_ATTR_DRIVER_VERSION] = "driver_version",
    [BP_ATTR_L2_CACHE_SIZE] = "l2_cache_size",
    [BP_ATTR_TOTAL_GLOBAL_MEMORY] = "total_global_memory",
    [BP_ATTR_AVAILABLE_GLOBAL_MEMORY] = "available_global_memory",
    [BP_ATTR_IMAGE_PITCH_ALIGNMENT] = "image_pitch_alignment",
    [BP_ATTR_MAX_GRID_DIMENSIONS] = "max_grid_dimensions",
    [BP_ATTR_MAX_ALLOCATION] = "max_allocation",
    [BP_ATTR_DATA_ALIGNMENT] = "data_alignment",
    [BP_ATTR_VENDOR] = "vendor",
    [BP_ATTR_UUID] = "uuid",
    [BP_ATTR_PCI_ADDRESS] = "pci_address",
    [BP_ATTR_HOST_ACCESSIBLE] = "host_accessible",
    [BP_ATTR_TARGET] = "target",
    [BP_ATTR_RANK] = "rank",
};

const char *bp_device_attr_name(int32_t attr) {
  return attr >= 0 && attr < (int32_t)G_N_ELEMENTS(names) ? names[attr] : NULL;
}

int32_t bp_device_attr_by_name(const char *name) {
  for (int32_t i = 0; name && i < (int32_t)G_N_ELEMENTS(names); i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

/* BP_ATTR_EXIST never fails: for an unknown device the answer is false. */
static int get_exist(BpDevice device, BpValue *value) {
  const BpDeviceApi *api = bp__device_get(device);
  int answered = api && !api->get_attr(api->context, device.device_id, BP_ATTR_EXIST, value);
  int exists = answered && (value->type_index != BP_TYPE_BOOL || value->v_int64);
  bp_value_clear(value);
  bp_error_clear();
  *value = (BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = exists};
  return 0;
}

int bp_device_get_attr(BpDevice device, int32_t attr, BpValue *value) {
  if (!BP_GIVEN(value))
    return -1;
  *value = (BpValue){.type_index = BP_TYPE_NONE};
  if (attr < 0)
    return bp_error_raise(BP_ERROR_VALUE, "device attribute %d: numbers are 0 or more", attr);
  if (attr == BP_ATTR_EXIST)
    return get_exist(device, value);
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (!api->get_attr(api->context, device.device_id, attr, value))
    return 0;
  *value = (BpValue){.type_index = BP_TYPE_NONE};
  const char *name = bp_device_attr_name(attr);
  char number[32];
  g_snprintf(number, sizeof number, "attribute %d", attr);
  return bp__device_failed(device, name ? name : number);
}
