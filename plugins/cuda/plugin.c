/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and entry point of the plugin cuda. */
#include "config.h"

#include "cuda.h"

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=cuda\n"
                     "version=" PACKAGE_VERSION "\n"
                     "license=Apache-2.0\n"
                     "description=NVIDIA GPUs through CUDA, and code generation for them\n"
                     "entry=bp_plugin_entry_cuda\n"
                     "provides=device_api.cuda target.build.cuda "
                     "runtime.module.loadbinary_cuda\n"
                     "devices=cuda\n"
                     "targets=cuda\n"
                     "libraries=libcuda.so.1 libnvrtc.so.12|libnvrtc.so.13\n"
                     "package=libcuda1 libnvrtc12\n"
                     "files=/dev/nvidiactl /dev/nvidia[0-9]* /dev/nvidia-uvm /dev/dxg\n"
                     "variables=CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER BACKPLANE_CUDA_LIBRARY "
                     "BACKPLANE_NVRTC_LIBRARY\n");

BP_PLUGIN_DLOPEN_NOTE("[{\"feature\":\"cuda\",\"description\":\"NVIDIA GPUs\","
                      "\"priority\":\"recommended\",\"soname\":[\"libcuda.so.1\"]},"
                      "{\"feature\":\"nvrtc\",\"description\":\"Compiling for NVIDIA GPUs\","
                      "\"priority\":\"suggested\","
                      "\"soname\":[\"libnvrtc.so.12\",\"libnvrtc.so.13\"]}]");

BpPluginTables bp_cuda_host;

static int32_t initialize(void *context) {
  (void)context;
  const BpPluginTables *host = &bp_cuda_host;
  if (host->target->register_kind(&bp_cuda_kind) ||
      bp_plugin_register_device_api(host, "device_api.cuda", &bp_cuda_device_api) ||
      bp_plugin_register(host, "target.build.cuda", bp_cuda_build, NULL))
    return -1;
  return bp_plugin_register(host, "runtime.module.loadbinary_cuda", bp_kernel_module_loadbinary,
                            (void *)(uintptr_t)&bp_cuda_module_kind);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_cuda(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_cuda(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_cuda_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
