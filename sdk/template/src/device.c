/* SPDX-License-Identifier: Apache-2.0 */
/* The devices for the host: attributes, copies, and the table of all slots. */
#include "simdev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A real plugin opens its vendor's library here, at the first call. If there is no device, the
 * count is 0 and `why` says what to install. A count of 0 is no error: the host goes on. */
static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = SIMDEV_DEVICES;
  *why = "";
  return 0;
}

/* Attributes that are constant numbers. An attribute that is neither here nor in get_attr is
 * None. */
static const BpPluginNumber numbers[] = {
    {BP_ATTR_EXIST, BP_TYPE_BOOL, 1},
    {BP_ATTR_HOST_ACCESSIBLE, BP_TYPE_BOOL, 0},
    {BP_ATTR_MAX_THREADS_PER_BLOCK, BP_TYPE_INT, SIMDEV_MOST_THREADS},
    {BP_ATTR_WARP_SIZE, BP_TYPE_INT, 1},
    {BP_ATTR_MULTI_PROCESSOR_COUNT, BP_TYPE_INT, 1},
    {BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK, BP_TYPE_INT, SIMDEV_SHARED_MEMORY},
    {BP_ATTR_TOTAL_GLOBAL_MEMORY, BP_TYPE_INT, SIMDEV_MEMORY},
    {BP_ATTR_MAX_ALLOCATION, BP_TYPE_INT, SIMDEV_MEMORY},
    {BP_ATTR_DATA_ALIGNMENT, BP_TYPE_INT, SIMDEV_ALIGNMENT},
    {BP_ATTR_RANK, BP_TYPE_INT, -1000}, /* the last choice; device_api.h says more */
};

const BpKernelLimits simdev_limits = {
    .blocks = {65535, 65535, 65535},
    .threads = {SIMDEV_MOST_THREADS, SIMDEV_MOST_THREADS, SIMDEV_MOST_THREADS},
    .block_threads = SIMDEV_MOST_THREADS,
};

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  char text[64];
  switch (attr) {
  case BP_ATTR_AVAILABLE_GLOBAL_MEMORY:
    return bp_plugin_answer_int(result, BP_TYPE_INT,
                                SIMDEV_MEMORY - (int64_t)simdev_memory_in_use(device_id));
  case BP_ATTR_MAX_THREAD_DIMENSIONS:
    return bp_plugin_answer_extents(&simdev_host, result, simdev_limits.threads);
  case BP_ATTR_MAX_GRID_DIMENSIONS:
    return bp_plugin_answer_extents(&simdev_host, result, simdev_limits.blocks);
  case BP_ATTR_DEVICE_NAME:
    snprintf(text, sizeof text, "Simulated device simdev:%d", device_id);
    return bp_plugin_answer_str(&simdev_host, result, text);
  case BP_ATTR_UUID: /* the UUID of hardware must be stable and unique */
    snprintf(text, sizeof text, "simdev-%d", device_id);
    return bp_plugin_answer_str(&simdev_host, result, text);
  case BP_ATTR_TARGET:
    return bp_plugin_answer_str(&simdev_host, result, "simdev");
  default:
    return bp_plugin_answer_number(result, numbers, sizeof numbers / sizeof *numbers, attr);
  }
}

static int32_t visit_properties(void *context, int32_t device_id,
                                int32_t (*visit)(void *context, const char *name,
                                                 const BpValue *value),
                                void *visitor) {
  (void)context;
  BpValue bytes = {.type_index = BP_TYPE_INT, .v_int64 = (int64_t)simdev_memory_in_use(device_id)};
  visit(visitor, "memory in use", &bytes);
  return 0;
}

/* Slot for vendors' libraries whose calls depend on the thread's current device. */
static int32_t set_device(void *context, int32_t device_id) {
  (void)context;
  (void)device_id;
  return 0;
}

/* Slots for devices with a workspace pool of their own. Without slots for workspace the host keeps
 * a pool. */
static int32_t alloc_workspace(void *context, int32_t device_id, uint64_t size,
                               BpDataType dtype_hint, void **handle) {
  const BpAllocation allocation = {.struct_size = sizeof allocation,
                                   .size = size,
                                   .alignment = SIMDEV_ALIGNMENT,
                                   .dtype = dtype_hint};
  return simdev_alloc(context, device_id, &allocation, handle);
}

/* ---- Copies ------------------------------------------------------------------------------ */

typedef struct Copy {
  char *to;
  const char *from;
  size_t size;
  SimdevBuffer *buffers[2]; /* buffers of source and destination; NULL for host memory */
  char staged[];            /* the source, if it is host memory */
} Copy;

static int32_t run_copy(void *data) {
  const Copy *copy = data;
  memmove(copy->to, copy->from, copy->size);
  return 0;
}

static void destroy_copy(void *data) {
  Copy *copy = data;
  simdev_unuse(copy->buffers[0]);
  simdev_unuse(copy->buffers[1]);
  free(copy);
}

/* The source in host memory is staged: the caller may change it as soon as the call returns. A copy
 * of imported host memory to its own address has nothing to move. */
static int32_t copy_data(void *context, const BpCopy *what, void *stream) {
  (void)context;
  if (bp_plugin_check_flags(&simdev_host, "simdev", "copy", what->flags) != 0)
    return -1;
  int is_upload = what->from_device.device_type != SIMDEV_DEVICE_TYPE;
  BpDevice device = is_upload ? what->to_device : what->from_device;
  Copy *copy = bp_plugin_calloc(&simdev_host, sizeof *copy + (is_upload ? what->size : 0));
  if (!copy)
    return -1;
  copy->size = what->size;
  copy->from =
      simdev_use(what->from_device, what->from, what->from_offset, what->size, &copy->buffers[0]);
  if (copy->from)
    copy->to =
        simdev_use(what->to_device, what->to, what->to_offset, what->size, &copy->buffers[1]);
  if (!copy->to) {
    destroy_copy(copy);
    return -1;
  }
  if (is_upload && copy->from != copy->to)
    copy->from = memcpy(copy->staged, copy->from, what->size);
  return simdev_submit(device.device_id, stream, (SimdevWork){run_copy, destroy_copy, copy, 0});
}

/* ---- The table --------------------------------------------------------------------------- */

/* The table may omit slots that device_api.h marks optional. */
static const void *get_extension(void *context, const char *name, uint32_t version) {
  (void)context;
  if (!strcmp(name, BP_EXTENSION_TIMER) && version == BP_EXTENSION_TIMER_VERSION)
    return &simdev_timers;
  if (!strcmp(name, BP_EXTENSION_RECORDING) && version == BP_EXTENSION_RECORDING_VERSION)
    return &simdev_recordings;
  if (!strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION)
    return &simdev_events;
  if (!strcmp(name, BP_EXTENSION_EXTERNAL_MEMORY) &&
      version == BP_EXTENSION_EXTERNAL_MEMORY_VERSION)
    return &simdev_external_memory;
  return NULL;
}

const BpDeviceApi simdev_device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = SIMDEV_DEVICE_TYPE,
    .name = "simdev",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .set_device = set_device,
    .alloc_data_space = simdev_alloc,
    .free_data_space = simdev_free,
    .alloc_workspace = alloc_workspace,
    .free_workspace = simdev_free,
    .copy = copy_data,
    .create_stream = simdev_create_stream,
    .free_stream = simdev_free_stream,
    .sync_stream_from_to = simdev_sync_from_to,
    .stream_sync = simdev_stream_sync,
    .visit_properties = visit_properties,
    .get_extension = get_extension,
};
