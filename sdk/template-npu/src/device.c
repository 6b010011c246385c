/* SPDX-License-Identifier: Apache-2.0 */
/* The device for the host: attributes, and the table of all slots. */
#include "simdev.h"

#include <string.h>

/* A real plugin opens its vendor's library here, at the first call. If there is no device, the
 * count is 0 and `why` says what to install. A count of 0 is no error: the host goes on. */
static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  const char *problem = simdev_link_problem();
  (void)context;
  *count = !problem;
  *why = problem ? problem : "";
  return 0;
}

/* Attributes that are constant numbers. An attribute that is neither here nor in get_attr is
 * None. */
static const BpPluginNumber numbers[] = {
    {BP_ATTR_HOST_ACCESSIBLE, BP_TYPE_BOOL, 0},
    {BP_ATTR_MULTI_PROCESSOR_COUNT, BP_TYPE_INT, 1},
    {BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK, BP_TYPE_INT, CHIP_SCRATCHPAD},
    {BP_ATTR_TOTAL_GLOBAL_MEMORY, BP_TYPE_INT, CHIP_MEMORY},
    {BP_ATTR_MAX_ALLOCATION, BP_TYPE_INT, CHIP_MEMORY},
    {BP_ATTR_DATA_ALIGNMENT, BP_TYPE_INT, CHIP_LINE},
    {BP_ATTR_RANK, BP_TYPE_INT, -1000}, /* the last choice; device_api.h says more */
};

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  (void)device_id;
  switch (attr) {
  case BP_ATTR_EXIST:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, !simdev_link_is_lost());
  case BP_ATTR_AVAILABLE_GLOBAL_MEMORY:
    return bp_plugin_answer_int(result, BP_TYPE_INT, CHIP_MEMORY - simdev_memory_in_use());
  case BP_ATTR_DEVICE_NAME:
    return bp_plugin_answer_str(&simdev_host, result, "Simulated accelerator simdev:0");
  case BP_ATTR_UUID: /* the UUID of hardware must be stable and unique */
    return bp_plugin_answer_str(&simdev_host, result, "simdev-0");
  case BP_ATTR_TARGET:
    return bp_plugin_answer_str(&simdev_host, result, "simdev");
  default:
    return bp_plugin_answer_number(result, numbers, sizeof numbers / sizeof *numbers, attr);
  }
}

/* Each call of link.c returns when the chip has done its work, so stream_sync has nothing to wait
 * for. */
static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  (void)stream;
  return 0;
}

/* The table omits slots that device_api.h marks optional: the host emulates them. */
const BpDeviceApi simdev_device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = SIMDEV_DEVICE_TYPE,
    .name = "simdev",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = simdev_alloc,
    .free_data_space = simdev_free,
    .copy = simdev_copy,
    .stream_sync = stream_sync,
};
