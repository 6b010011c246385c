/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin simdev: two simulated devices that are as unlike the CPU as a device can be. Memory is
 * reached through handles, and work is done later, by threads of streams. */

#include "tests/mock/simdev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_TEXT "\n"
                     "name=simdev\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=Simulated devices, for tests\n"
                     "entry=bp_plugin_entry_simdev\n"
                     "provides=device_api.simdev runtime.module.loadbinary_simdev\n"
                     "devices=simdev\n");

BpPluginTables sim_host;

static int32_t get_device_count(int32_t *count, const char **why) {
  *count = SIM_DEVICES;
  *why = "";
  return 0;
}

/* ---- Attributes -------------------------------------------------------------------------- */

static int32_t answer_int(BpValue *result, int32_t type, int64_t number) {
  result->type_index = type;
  result->v_int64 = number;
  return 0;
}

static int32_t answer_name(BpValue *result, int32_t device_id) {
  char name[64];
  int size = snprintf(name, sizeof name, "Simulated device %d", device_id);
  return sim_host.object->make_str(name, (size_t)size, result);
}

static int32_t answer_dimensions(BpValue *result) {
  static const int64_t extents[] = {1024, 1, 1};
  BpShape *shape = sim_host.object->shape_create(extents, 3);
  if (!shape)
    return -1;
  result->type_index = BP_TYPE_SHAPE;
  result->v_obj = &shape->header;
  return 0;
}

static int32_t get_attr(int32_t device_id, int32_t attr, BpValue *result) {
  switch (attr) {
  case BP_ATTR_EXIST:
    return answer_int(result, BP_TYPE_BOOL, 1);
  case BP_ATTR_HOST_ACCESSIBLE:
    return answer_int(result, BP_TYPE_BOOL, 0);
  case BP_ATTR_DEVICE_NAME:
    return answer_name(result, device_id);
  case BP_ATTR_MAX_THREAD_DIMENSIONS:
    return answer_dimensions(result);
  case BP_ATTR_TOTAL_GLOBAL_MEMORY:
    return answer_int(result, BP_TYPE_INT, SIM_MEMORY);
  case BP_ATTR_AVAILABLE_GLOBAL_MEMORY:
    return answer_int(result, BP_TYPE_INT,
                      (int64_t)SIM_MEMORY - (int64_t)sim_memory_in_use(device_id));
  case BP_ATTR_DATA_ALIGNMENT:
    return answer_int(result, BP_TYPE_INT, 64);
  case BP_ATTR_RANK:
    return answer_int(result, BP_TYPE_INT, -1000 + device_id);
  default:
    return 0;
  }
}

/* ---- Copies ------------------------------------------------------------------------------ */

/* One end of a copy: a buffer, or host memory when there is none. */
static char *end_of(const SimCommand *command, int end) {
  char *base = command->buffers[end] ? command->buffers[end]->memory : command->data;
  return base + command->offsets[end];
}

static const char *run_copy(SimCommand *command) {
  memmove(end_of(command, 1), end_of(command, 0), command->size);
  return NULL;
}

static void free_staging(SimCommand *command) {
  free(command->data);
}

static int32_t use_end(SimCommand *command, int end, BpDevice device, const void *handle,
                       uint64_t offset) {
  command->offsets[end] = offset;
  if (device.device_type != SIM_DEVICE_TYPE) {
    command->data = (void *)(uintptr_t)handle;
    return 0;
  }
  SimBuffer *buffer = sim_use(device.device_id, handle);
  command->buffers[end] = buffer;
  if (!buffer)
    return -1;
  if (offset <= buffer->size && command->size <= buffer->size - offset)
    return 0;
  return sim_host.error->raise(BP_ERROR_INDEX, "a copy beyond the end of a buffer");
}

/* The source has been consumed when the call returns: it is staged. */
static int32_t stage(SimCommand *command, const void *from, uint64_t offset) {
  char *staging = malloc(command->size);
  if (!staging)
    return sim_host.error->raise(BP_ERROR_MEMORY, "no memory to stage a copy");
  memcpy(staging, (const char *)from + offset, command->size);
  command->data = staging;
  command->offsets[0] = 0;
  command->destroy = free_staging;
  return 0;
}

static int32_t copy(const BpCopy *what, void *stream) {
  SimCommand *command = sim_command_create(run_copy);
  if (!command)
    return -1;
  command->size = what->size;
  int is_upload = what->from_device.device_type != SIM_DEVICE_TYPE;
  if (use_end(command, 0, what->from_device, what->from, what->from_offset) ||
      use_end(command, 1, what->to_device, what->to, what->to_offset) ||
      (is_upload && stage(command, what->from, what->from_offset))) {
    sim_command_destroy(command);
    return -1;
  }
  return sim_submit(is_upload ? what->to_device.device_id : what->from_device.device_id, stream,
                    command);
}

/* ---- The plugin -------------------------------------------------------------------------- */

static const BpDeviceApi device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = SIM_DEVICE_TYPE,
    .name = "simdev",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = sim_alloc,
    .free_data_space = sim_free,
    .copy = copy,
    .create_stream = sim_create_stream,
    .free_stream = sim_free_stream,
    .sync_stream_from_to = sim_sync_from_to,
    .stream_sync = sim_stream_sync,
};

static int32_t initialize(void) {
  if (bp_plugin_register_device_api(&sim_host, "device_api.simdev", &device_api))
    return -1;
  return bp_plugin_register(&sim_host, "runtime.module.loadbinary_simdev", sim_loadbinary, NULL);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_simdev(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_simdev(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_VERSION;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(host, &sim_host);
}
