/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin simdev: its descriptor, which the host reads without loading the plugin, and its entry
 * point, the only symbol that it exports. */

/* The least ABI whose slots and tables this plugin needs: hosts of 1.0 and later load it,
 * regardless of the headers it is built with. Raise this number when the plugin uses slots or
 * tables that a later version appended. */
#define BP_ABI_NEEDED_MINOR 0
#include "simdev_plugin.h"

#include "simdev.h"

BP_PLUGIN_DESCRIPTOR(SIMDEV_DESCRIPTOR);

BpPluginTables simdev_host;

/* Registers all names in the descriptor's `provides`. The function accesses no hardware, which is
 * the task of get_device_count: on a machine without the device the plugin has no devices, and
 * there is no error. */
static int32_t initialize(void *context) {
  (void)context;
  if (bp_plugin_register_device_api(&simdev_host, "device_api.simdev", &simdev_device_api) ||
      simdev_host.target->register_kind(&simdev_target_kind) ||
      bp_plugin_register(&simdev_host, "target.build.simdev", simdev_build, NULL))
    return -1;
  return bp_plugin_register(&simdev_host, "runtime.module.loadbinary_simdev",
                            bp_kernel_module_loadbinary, (void *)(uintptr_t)&simdev_module_kind);
}

int32_t bp_plugin_entry_simdev(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(host, &simdev_host);
}
