/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and entry point of the plugin cpu: device `cpu`, target kind `c`. */
#include "config.h"

#include "cpu.h"

BP_PLUGIN_DESCRIPTOR(
    "abi=" BP_ABI_NEEDED_TEXT "\n"
    "name=cpu\n"
    "version=" PACKAGE_VERSION "\n"
    "license=Apache-2.0\n"
    "description=The CPU as a device; code generation through the system's C compiler\n"
    "entry=bp_plugin_entry_cpu\n"
    "provides=device_api.cpu target.build.c runtime.module.loadbinary_c\n"
    "devices=cpu\n"
    "targets=c\n"
    "libraries=\n");

BpPluginTables bp_cpu_host;

static int32_t initialize(void *context) {
  (void)context;
  if (bp_cpu_host.target->register_kind(&bp_cpu_c_kind) ||
      bp_plugin_register_device_api(&bp_cpu_host, "device_api.cpu", &bp_cpu_device_api) ||
      bp_plugin_register(&bp_cpu_host, "target.build.c", bp_cpu_build_c, NULL))
    return -1;
  return bp_plugin_register(&bp_cpu_host, "runtime.module.loadbinary_c", bp_cpu_loadbinary_c, NULL);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_cpu(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_cpu(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_cpu_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
