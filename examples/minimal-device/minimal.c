/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest whole device plugin: memory, copies, synchronisation. The plugin generates no code,
 * so models do not run on its device; `backplane verify --conformance` checks what it does. The
 * device is 64 MiB of host memory, and all work has ended when a slot returns. Replace the bodies
 * of the slots by calls of a driver. `backplane new-plugin` writes a plugin with streams, kernels
 * and a target. */

#define BP_ABI_NEEDED_MINOR 0
#include <backplane/plugin_helpers.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_TYPE (BP_DEVICE_PRIVATE_FIRST + 77)
#define MEMORY_SIZE ((uint64_t)64 << 20)

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=minimal\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=Memory that is a device\n"
                     "entry=bp_plugin_entry_minimal\n"
                     "provides=device_api.minimal\n"
                     "devices=minimal\n");

static BpPluginTables host;
static _Atomic uint64_t used;

/* A buffer of the device. A handle is the address of a Memory. */
typedef struct Memory {
  uint64_t size;
  char *bytes; /* the first at the alignment that was asked for */
} Memory;

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 1;
  *why = "";
  return 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context, (void)device_id;
  switch (attr) {
  case BP_ATTR_EXIST:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 1);
  case BP_ATTR_DEVICE_NAME:
    return bp_plugin_answer_str(&host, result, "Minimal device");
  case BP_ATTR_TOTAL_GLOBAL_MEMORY:
  case BP_ATTR_MAX_ALLOCATION:
    return bp_plugin_answer_int(result, BP_TYPE_INT, (int64_t)MEMORY_SIZE);
  case BP_ATTR_AVAILABLE_GLOBAL_MEMORY:
    return bp_plugin_answer_int(result, BP_TYPE_INT, (int64_t)(MEMORY_SIZE - used));
  default:
    return 0; /* None */
  }
}

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  (void)context, (void)device_id;
  uint64_t size = allocation->size, before = used;
  if (bp_plugin_check_allocation(&host, "minimal", allocation) != 0)
    return -1;
  do {
    if (size > MEMORY_SIZE - before)
      return bp_plugin_raise(&host, BP_ERROR_MEMORY,
                             "minimal: no room for %llu bytes: %llu of "
                             "%llu are in use",
                             (unsigned long long)size, (unsigned long long)before,
                             (unsigned long long)MEMORY_SIZE);
  } while (!atomic_compare_exchange_weak(&used, &before, before + size));
  Memory *memory = bp_plugin_calloc(&host, sizeof *memory);
  if (memory && (memory->bytes = host.runtime->host_alloc(size, allocation->alignment))) {
    memory->size = size;
    *handle = memory;
    return 0;
  }
  free(memory);
  used -= size;
  return -1;
}

static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  Memory *memory = handle;
  (void)context, (void)device_id;
  used -= memory->size;
  host.runtime->host_free(memory->bytes);
  free(memory);
  return 0;
}

/* The bytes of one end of a copy: `data` is an address on the host, a handle on the device. */
static char *find_bytes(BpDevice device, const void *data, uint64_t offset) {
  return (device.device_type == DEVICE_TYPE ? ((const Memory *)data)->bytes
                                            : (char *)(uintptr_t)data) +
         offset;
}

static int32_t copy(void *context, const BpCopy *what, void *stream) {
  (void)context, (void)stream;
  if (bp_plugin_check_flags(&host, "minimal", "copy", what->flags) != 0)
    return -1;
  memmove(find_bytes(what->to_device, what->to, what->to_offset),
          find_bytes(what->from_device, what->from, what->from_offset), what->size);
  return 0;
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  (void)context, (void)device_id, (void)stream;
  return 0;
}

static const BpDeviceApi device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = DEVICE_TYPE,
    .name = "minimal",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = alloc_data_space,
    .free_data_space = free_data_space,
    .copy = copy,
    .stream_sync = stream_sync,
};

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register_device_api(&host, "device_api.minimal", &device_api);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_minimal(const BpHost *from, BpPlugin *plugin);
BP_PLUGIN_EXPORT int32_t bp_plugin_entry_minimal(const BpHost *from, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(from, &host);
}
