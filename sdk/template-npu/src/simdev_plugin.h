/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin simdev, for a program that links it:
 *
 *   bp_plugin_register_static(SIMDEV_DESCRIPTOR, bp_plugin_entry_simdev);
 */
#ifndef SIMDEV_PLUGIN_H
#define SIMDEV_PLUGIN_H

#include <backplane/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SIMDEV_VERSION
#define SIMDEV_VERSION "0.1.0"
#endif

/* The descriptor; plugin.h explains its keys. A plugin for a vendor's library has these keys as
 * well: "libraries=libvendor.so.1\n" "package=libvendor1\n" "nodes=/dev/vendor*\n". */
#define SIMDEV_DESCRIPTOR                                                                          \
  "abi=" BP_ABI_NEEDED_TEXT "\n"                                                                   \
  "name=simdev\n"                                                                                  \
  "version=" SIMDEV_VERSION "\n"                                                                   \
  "license=Apache-2.0\n"                                                                           \
  "description=Simulated accelerator of the plugin simdev\n"                                       \
  "entry=bp_plugin_entry_simdev\n"                                                                 \
  "provides=device_api.simdev target.build.simdev runtime.module.loadbinary_simdev "               \
  "graph_compiler.simdev\n"                                                                        \
  "devices=simdev\n"                                                                               \
  "targets=simdev\n"                                                                               \
  "variables=BACKPLANE_SIMDEV_CHIP\n"

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_simdev(const BpHost *host, BpPlugin *plugin);

#ifdef __cplusplus
}
#endif

#endif
