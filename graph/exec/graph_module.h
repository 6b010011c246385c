/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a module of kind "backplane.graph", or of a graph that TVM compiled. */
#ifndef BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H
#define BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H

#include <stdatomic.h>

#include "graph/exec/artifact.h"
#include "graph/exec/graph_json.h"

#define BP_GRAPH_KIND   "backplane.graph"
#define BP_FACTORY_KIND "GraphExecutorFactory"

/* A graph compiled for one target. */
typedef struct BpGraphVariant {
  char *target;
  char *graph_json;
  char **param_names;
  uint32_t *param_tensors;
  uint32_t num_params;
  int32_t device_type;
  _Atomic(BpCallGraph *) graph; /* NULL until bp__graph_variant_graph parses it */
} BpGraphVariant;

typedef struct BpGraphContent {
  BpGraphVariant *targets; /* import i of the module is the code of target i */
  BpTensor **tensors;
  uint32_t num_targets;
  uint32_t num_tensors;
  /* The function that makes an executor, for a graph that TVM compiled; else NULL. A graph that TVM
   * compiled has one target, without text and device, which the modules of its code determine.
   * Parameters that the graph lacks are ignored, because folding removes some parameters. */
  char *factory_name;
  BpModule *factory; /* borrowed, because the module owns the content; or NULL */
} BpGraphContent;

/* Allocates a zeroed content for `num_targets` targets and `num_tensors` tensors; NULL with an
 * error. */
BpGraphContent *bp__graph_content_create(uint32_t num_targets, uint32_t num_tensors);
void bp__graph_content_free(BpGraphContent *content);
/* Allocates zeroed parameters of a target. */
int bp__graph_variant_create_params(BpGraphVariant *target, uint32_t count);

/* The content of a module of kind BP_GRAPH_KIND or BP_FACTORY_KIND; NULL without an error for other
 * modules. */
const BpGraphContent *bp__graph_module_content(BpModule *module);
/* The content of a module of BP_FACTORY_KIND; NULL without an error for other modules. */
const BpGraphContent *bp__factory_content(BpModule *module);

/* The graph of a target's JSON, which the first call parses; borrowed from the module. NULL with an
 * error. Thread-safe. */
const BpCallGraph *bp__graph_variant_graph(BpGraphVariant *variant);

/* Register the functions that create executors, and the loaders of the kinds of graph modules.
 * bp_graph_initialize calls each function once. */
int bp__executor_register(void);
int bp__graph_module_register(void);
int bp__factory_register(void);
/* Registers a global function. */
int bp__graph_register(const char *name, BpPackedCall call);

/* Makes an executor as bp_graph_executor_create does, or a debug executor. */
BpModule *bp__graph_executor_create(const char *graph_json, BpModule *code, const BpDevice *devices,
                                    size_t num_devices, int is_debug);
/* Copies a parameter into an executor; a name that the graph lacks is ignored. */
int bp__graph_executor_load(BpModule *executor, const char *name, BpTensor *tensor);
/* Reads the devices that a function is given: 1 to BP_PLACES_MAX. */
int bp__graph_read_devices(const BpValue *args, int32_t num_args, BpDevice *devices,
                           size_t *num_devices);

#endif
