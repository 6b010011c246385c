/* SPDX-License-Identifier: Apache-2.0 */
/* A layer, kept as it is: it counts allocations and hands every call on. `frozen-layer.count`
 * answers the number. */
#include <backplane/device_layer.h>
#include <backplane/plugin_helpers.h>

#include <stdlib.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=frozen-layer\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=A layer that does not change\n"
                     "entry=bp_plugin_entry_frozen_layer\n"
                     "provides=device_layer.frozen-layer frozen-layer.count\n");

static BpPluginTables host;
static int64_t allocations;

typedef struct Wrapped {
  BpDeviceApi api;
  const BpDeviceApi *next;
} Wrapped;

#define NEXT(context) (((const Wrapped *)(context))->next)

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  return NEXT(context)->get_device_count(NEXT(context)->context, count, why);
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  return NEXT(context)->get_attr(NEXT(context)->context, device_id, attr, result);
}

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  return NEXT(context)->alloc_data_space(NEXT(context)->context, device_id, allocation, handle);
}

static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  return NEXT(context)->free_data_space(NEXT(context)->context, device_id, handle);
}

static int32_t copy(void *context, const BpCopy *what, void *stream) {
  return NEXT(context)->copy(NEXT(context)->context, what, stream);
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  return NEXT(context)->stream_sync(NEXT(context)->context, device_id, stream);
}

static int32_t wrap(void *context, const BpDeviceApi *next, BpLayered *layered) {
  Wrapped *wrapped = (Wrapped *)bp_plugin_calloc(&host, sizeof *wrapped);
  (void)context;
  if (!wrapped)
    return -1;
  wrapped->next = next;
  wrapped->api = (BpDeviceApi){.struct_size = sizeof(BpDeviceApi),
                               .device_type = next->device_type,
                               .name = next->name,
                               .context = wrapped,
                               .get_device_count = get_device_count,
                               .get_attr = get_attr,
                               .alloc_data_space = alloc_data_space,
                               .free_data_space = free_data_space,
                               .copy = copy,
                               .stream_sync = stream_sync};
  layered->api = &wrapped->api;
  return 0;
}

static const BpDeviceLayer layer = {.struct_size = sizeof(BpDeviceLayer),
                                    .version = BP_DEVICE_LAYER_VERSION,
                                    .name = "frozen-layer",
                                    .wrap = wrap};

static int answer_count(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self, (void)args, (void)num_args;
  return bp_plugin_answer_int(result, BP_TYPE_INT, __atomic_load_n(&allocations, __ATOMIC_RELAXED));
}

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register(&host, "device_layer.frozen-layer", bp_plugin_answer_context,
                            (void *)(uintptr_t)&layer) ||
                 bp_plugin_register(&host, "frozen-layer.count", answer_count, NULL)
             ? -1
             : 0;
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_frozen_layer(const BpHost *from, BpPlugin *plugin);
BP_PLUGIN_EXPORT int32_t bp_plugin_entry_frozen_layer(const BpHost *from, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(from, &host);
}
