/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and entry point of the plugin opencl. */
#include "config.h"

#include "opencl.h"

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=opencl\n"
                     "version=" PACKAGE_VERSION "\n"
                     "license=Apache-2.0\n"
                     "description=OpenCL devices, and code generation for them\n"
                     "entry=bp_plugin_entry_opencl\n"
                     "provides=device_api.opencl target.build.opencl "
                     "runtime.module.loadbinary_opencl\n"
                     "devices=opencl\n"
                     "targets=opencl\n"
                     "libraries=libOpenCL.so.1\n"
                     "package=ocl-icd-libopencl1\n"
                     "files=/etc/OpenCL/vendors /dev/dri/renderD* /dev/kfd /dev/nvidiactl\n"
                     "variables=OCL_ICD_VENDORS OCL_ICD_FILENAMES OPENCL_VENDOR_PATH POCL_DEVICES "
                     "POCL_CACHE_DIR CUDA_VISIBLE_DEVICES BACKPLANE_OPENCL_LIBRARY\n");

BP_PLUGIN_DLOPEN_NOTE("[{\"feature\":\"opencl\",\"description\":\"OpenCL devices\","
                      "\"priority\":\"recommended\",\"soname\":[\"libOpenCL.so.1\"]}]");

BpPluginTables bp_opencl_host;

static int32_t initialize(void *context) {
  (void)context;
  const BpPluginTables *host = &bp_opencl_host;
  if (host->target->register_kind(&bp_opencl_kind) ||
      bp_plugin_register_device_api(host, "device_api.opencl", &bp_opencl_device_api) ||
      bp_plugin_register(host, "target.build.opencl", bp_opencl_build, NULL))
    return -1;
  return bp_plugin_register(host, "runtime.module.loadbinary_opencl", bp_kernel_module_loadbinary,
                            (void *)(uintptr_t)&bp_opencl_module_kind);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_opencl(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_opencl(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_opencl_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
