/* SPDX-License-Identifier: Apache-2.0 */
/* libdnnl, opened when a graph compiler or a module first needs it, and its engine. */
#include "dnnl.h"

BpDnnlLibrary bp_dnnl;
dnnl_engine_t bp_dnnl_engine;

static const BpLibrarySymbol symbols[] = {
#define SYMBOL(name) {#name, (void **)&bp_dnnl.name},
    BP_DNNL_FUNCTIONS(SYMBOL)};

static BpLibrary library = {
    .option = "BACKPLANE_DNNL_LIBRARY",
    .names = {"libdnnl.so.2"},
    .what = "the oneDNN library",
    .install = "install libdnnl2",
    .upgrade = "oneDNN 2.6 is needed",
    .symbols = symbols,
    .num_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

static const char *problem;

static void open_library(void) {
  problem = bp_library_open(&bp_dnnl_host, &library);
  if (!problem && bp_dnnl.dnnl_engine_create(&bp_dnnl_engine, dnnl_cpu, 0) != dnnl_success)
    problem = bp_library_refuse(&library, "oneDNN has no engine for this CPU");
}

const char *bp_dnnl_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_library);
  return problem;
}

int32_t bp_dnnl_raise(dnnl_status_t status, const char *call) {
  if (status == dnnl_out_of_memory)
    return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_MEMORY, "dnnl: %s: no memory", call);
  return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_RUNTIME, "dnnl: %s: %s (%d)", call,
                         status == dnnl_unimplemented       ? "not implemented for this"
                         : status == dnnl_invalid_arguments ? "invalid arguments"
                                                            : "it failed",
                         status);
}
