/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest layer: it counts the launches of each kind of device, and logs the number when the
 * process ends (BACKPLANE_LAYERS=count). The layer leaves the kind's table in force. A layer that
 * sees other slots too sets BpLayered::api to a table of its own, whose slots call those of
 * `next`. */

#define BP_ABI_NEEDED_MINOR 0
#include <backplane/device_layer.h>
#include <backplane/plugin_helpers.h>

#include <stdatomic.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=count\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=A layer that counts the launches on devices\n"
                     "entry=bp_plugin_entry_count\n"
                     "provides=device_layer.count\n");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_count(const BpHost *given, BpPlugin *plugin);

static BpPluginTables host;

/* The layer around one kind of device; lives for ever. */
typedef struct Count {
  const char *kind; /* name in the host's table: valid for ever */
  _Atomic uint64_t launches;
} Count;

static int32_t launch(void *context, const BpLaunch *launch) {
  Count *count = context;
  atomic_fetch_add(&count->launches, 1);
  return launch->proceed(launch);
}

static void finish(void *context) {
  Count *count = context;
  bp_plugin_log(&host, BP_LOG_WARNING, "%s: %llu launches", count->kind,
                (unsigned long long)atomic_load(&count->launches));
}

static int32_t wrap(void *context, const BpDeviceApi *next, BpLayered *layered) {
  Count *count = bp_plugin_calloc(&host, sizeof *count);
  (void)context;
  if (!count)
    return -1;
  count->kind = next->name;
  layered->context = count;
  layered->launch = launch;
  layered->finish = finish;
  return 0;
}

static const BpDeviceLayer layer = {.struct_size = sizeof(BpDeviceLayer),
                                    .version = BP_DEVICE_LAYER_VERSION,
                                    .name = "count",
                                    .wrap = wrap};

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register(&host, "device_layer.count", bp_plugin_answer_context,
                            (void *)(uintptr_t)&layer);
}

int32_t bp_plugin_entry_count(const BpHost *given, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(given, &host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
