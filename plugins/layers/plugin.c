/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and entry point of the plugin layers. */
#include "config.h"

#include "layers.h"

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=layers\n"
                     "version=" PACKAGE_VERSION "\n"
                     "license=Apache-2.0\n"
                     "description=Layers that check, trace and fail the calls of any device\n"
                     "entry=bp_plugin_entry_layers\n"
                     "provides=device_layer.validate device_layer.trace device_layer.fault\n");

BpPluginTables bp_layers_host;

#define LAYER(text, hooks)                                                                         \
  {                                                                                                \
    .struct_size = sizeof(BpDeviceLayer), .version = BP_DEVICE_LAYER_VERSION, .name = (text),      \
    .context = (void *)(uintptr_t) & (hooks), .wrap = bp_layers_wrap                               \
  }

static int32_t initialize(void *context) {
  static const BpDeviceLayer validate = LAYER("validate", bp_layers_validate);
  static const BpDeviceLayer trace = LAYER("trace", bp_layers_trace);
  static const BpDeviceLayer fault = LAYER("fault", bp_layers_fault);
  (void)context;
  if (bp_plugin_register(&bp_layers_host, "device_layer.validate", bp_plugin_answer_context,
                         (void *)(uintptr_t)&validate) ||
      bp_plugin_register(&bp_layers_host, "device_layer.trace", bp_plugin_answer_context,
                         (void *)(uintptr_t)&trace))
    return -1;
  return bp_plugin_register(&bp_layers_host, "device_layer.fault", bp_plugin_answer_context,
                            (void *)(uintptr_t)&fault);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_layers(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_layers(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_layers_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
