/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and entry point of the plugin cpu-llvm: target kind `llvm`. */
#include "config.h"

#include "llvm_gen.h"

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=cpu-llvm\n"
                     "version=" PACKAGE_VERSION "\n"
                     "license=Apache-2.0\n"
                     "description=Code generation for CPUs with LLVM\n"
                     "entry=bp_plugin_entry_cpu_llvm\n"
                     "provides=target.build.llvm runtime.module.loadbinary_llvm\n"
                     "devices=\n"
                     "targets=llvm\n");

BpPluginTables bp_cpu_host;

static int32_t initialize(void *context) {
  (void)context;
  if (bp_cpu_host.target->register_kind(&bp_cpu_llvm_kind) ||
      bp_plugin_register(&bp_cpu_host, "target.build.llvm", bp_cpu_build_llvm, NULL))
    return -1;
  return bp_plugin_register(&bp_cpu_host, "runtime.module.loadbinary_llvm", bp_cpu_loadbinary_llvm,
                            NULL);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_cpu_llvm(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_cpu_llvm(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_cpu_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
