/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's descriptor, and the names that the plugin registers. */
#include "config.h"

#include "cudalibs.h"

BP_PLUGIN_DESCRIPTOR(
    "abi=" BP_ABI_NEEDED_TEXT "\n"
    "name=cudalibs\n"
    "version=" PACKAGE_VERSION "\n"
    "license=Apache-2.0\n"
    "description=Products of cuBLAS; convolutions, pooling and softmax of cuDNN\n"
    "entry=bp_plugin_entry_cudalibs\n"
    "provides=graph_compiler.cudalibs runtime.module.loadbinary_cudalibs\n"
    "libraries=libcublas.so.12|libcublas.so.13 libcudnn.so.9\n"
    "package=libcublas12 libcudnn9-cuda-12\n"
    "variables=BACKPLANE_CUBLAS_LIBRARY BACKPLANE_CUDNN_LIBRARY BACKPLANE_CUDA_LIBRARY "
    "BACKPLANE_CUDALIBS_TF32\n");

BP_PLUGIN_DLOPEN_NOTE("[{\"feature\":\"cublas\",\"description\":\"Products of matrices\","
                      "\"priority\":\"suggested\","
                      "\"soname\":[\"libcublas.so.12\",\"libcublas.so.13\"]},"
                      "{\"feature\":\"cudnn\",\"description\":\"Convolutions and pooling\","
                      "\"priority\":\"suggested\",\"soname\":[\"libcudnn.so.9\"]}]");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_cudalibs(const BpHost *host, BpPlugin *plugin);

BpPluginTables bp_cudalibs_host;

static const BpGraphCompilerApi api = {.struct_size = sizeof(BpGraphCompilerApi),
                                       .name = "cudalibs",
                                       .device_type = BP_DEVICE_CUDA,
                                       .claim = bp_cudalibs_claim,
                                       .compile = bp_cudalibs_compile};

/* Answers graph_compiler.cudalibs: the table of the requested version, or None. */
static int answer_api(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  if (num_args != 1 || args[0].type_index != BP_TYPE_INT ||
      args[0].v_int64 != BP_GRAPH_COMPILER_VERSION)
    return 0;
  result->type_index = BP_TYPE_POINTER;
  result->v_ptr = (void *)(uintptr_t)&api;
  return 0;
}

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register(&bp_cudalibs_host, "graph_compiler.cudalibs", answer_api, NULL) ||
                 bp_plugin_register(&bp_cudalibs_host, "runtime.module.loadbinary_cudalibs",
                                    bp_cudalibs_loadbinary, NULL)
             ? -1
             : 0;
}

int32_t bp_plugin_entry_cudalibs(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_cudalibs_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
