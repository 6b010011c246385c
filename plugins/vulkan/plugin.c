/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and entry point of the plugin vulkan. */
#include "config.h"

#include "vulkan.h"

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=vulkan\n"
                     "version=" PACKAGE_VERSION "\n"
                     "license=Apache-2.0\n"
                     "description=Vulkan devices, and code generation for them\n"
                     "entry=bp_plugin_entry_vulkan\n"
                     "provides=device_api.vulkan target.build.vulkan "
                     "runtime.module.loadbinary_vulkan\n"
                     "devices=vulkan\n"
                     "targets=vulkan\n"
                     "libraries=libvulkan.so.1\n"
                     "package=libvulkan1\n"
                     "files=/etc/vulkan/icd.d /usr/share/vulkan/icd.d /etc/vulkan/implicit_layer.d "
                     "/usr/share/vulkan/implicit_layer.d /dev/dri/renderD* /dev/nvidiactl\n"
                     "variables=VK_DRIVER_FILES VK_ADD_DRIVER_FILES VK_ICD_FILENAMES "
                     "VK_LOADER_DRIVERS_SELECT VK_LOADER_DRIVERS_DISABLE VK_INSTANCE_LAYERS "
                     "VK_LAYER_PATH BACKPLANE_VULKAN_LIBRARY\n");

BP_PLUGIN_DLOPEN_NOTE("[{\"feature\":\"vulkan\",\"description\":\"Vulkan devices\","
                      "\"priority\":\"recommended\",\"soname\":[\"libvulkan.so.1\"]}]");

BpPluginTables bp_vulkan_host;

static int32_t initialize(void *context) {
  (void)context;
  const BpPluginTables *host = &bp_vulkan_host;
  if (host->target->register_kind(&bp_vulkan_kind) ||
      bp_plugin_register_device_api(host, "device_api.vulkan", &bp_vulkan_device_api) ||
      bp_plugin_register(host, "target.build.vulkan", bp_vulkan_build, NULL))
    return -1;
  return bp_plugin_register(host, "runtime.module.loadbinary_vulkan", bp_kernel_module_loadbinary,
                            (void *)(uintptr_t)&bp_vulkan_module_kind);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_vulkan(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_vulkan(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_vulkan_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
