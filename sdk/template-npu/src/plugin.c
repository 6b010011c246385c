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

static const BpGraphCompilerApi graph_compiler = {
    .struct_size = sizeof(BpGraphCompilerApi),
    .name = "simdev",
    .device_type = SIMDEV_DEVICE_TYPE,
    .claim = simdev_claim,
    .compile = simdev_compile,
};

/* Answers with the table of the version that the host requests, or None. */
static int get_graph_compiler(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  if (num_args != 1 || args[0].type_index != BP_TYPE_INT)
    return bp_plugin_raise(&simdev_host, BP_ERROR_TYPE, "graph_compiler.simdev takes a version");
  return args[0].v_int64 == BP_GRAPH_COMPILER_VERSION
             ? bp_plugin_answer_context(self, args, num_args, result)
             : 0;
}

/* Registers all names in the descriptor's `provides`. The function accesses no hardware, which is
 * the task of get_device_count: on a machine without the device the plugin has no devices, and
 * there is no error. */
static int32_t initialize(void *context) {
  (void)context;
  if (bp_plugin_register_device_api(&simdev_host, "device_api.simdev", &simdev_device_api) ||
      simdev_host.target->register_kind(&simdev_target_kind) ||
      bp_plugin_register(&simdev_host, "target.build.simdev", simdev_build, NULL) ||
      bp_plugin_register(&simdev_host, "runtime.module.loadbinary_simdev", simdev_loadbinary, NULL))
    return -1;
  return bp_plugin_register(&simdev_host, "graph_compiler.simdev", get_graph_compiler,
                            (void *)(uintptr_t)&graph_compiler);
}

int32_t bp_plugin_entry_simdev(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(host, &simdev_host);
}
