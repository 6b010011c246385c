/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's descriptor, and the names that the plugin registers. */
#include "config.h"

#include "dnnl.h"

#define PROVIDED(op, read, least) " operator.dnnl." #op

BP_PLUGIN_DESCRIPTOR(
    "abi=" BP_ABI_NEEDED_TEXT "\n"
    "name=dnnl\n"
    "version=" PACKAGE_VERSION "\n"
    "license=Apache-2.0\n"
    "description=Convolutions, products, pooling and softmax of oneDNN\n"
    "entry=bp_plugin_entry_dnnl\n"
    "provides=graph_compiler.dnnl runtime.module.loadbinary_dnnl" BP_DNNL_OPERATORS(
        PROVIDED) "\n"
                  "libraries=libdnnl.so.2\n"
                  "package=libdnnl2\n"
                  "variables=BACKPLANE_DNNL_LIBRARY\n");

BP_PLUGIN_DLOPEN_NOTE("[{\"feature\":\"dnnl\",\"description\":\"oneDNN's operators\","
                      "\"priority\":\"recommended\",\"soname\":[\"libdnnl.so.2\"]}]");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_dnnl(const BpHost *host, BpPlugin *plugin);

BpPluginTables bp_dnnl_host;

static const BpGraphCompilerApi api = {.struct_size = sizeof(BpGraphCompilerApi),
                                       .name = "dnnl",
                                       .device_type = BP_DEVICE_CPU,
                                       .claim = bp_dnnl_claim,
                                       .compile = bp_dnnl_compile,
                                       .flags = BP_GRAPH_COMPILER_OPEN_EXTENTS};

/* Answers graph_compiler.dnnl: the table of the requested version, or None. */
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
  return bp_plugin_register(&bp_dnnl_host, "graph_compiler.dnnl", answer_api, NULL) ||
                 bp_plugin_register(&bp_dnnl_host, "runtime.module.loadbinary_dnnl",
                                    bp_dnnl_loadbinary, NULL) ||
                 bp_dnnl_register_operators()
             ? -1
             : 0;
}

int32_t bp_plugin_entry_dnnl(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_dnnl_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
