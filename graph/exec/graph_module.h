/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a module of kind "backplane.graph", or of a graph that TVM compiled. */
#ifndef BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H
#define BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H

#include <stdatomic.h>

#include "graph/exec/artifact.h"
#include "graph/exec/graph_json.h"

#define BP_GRAPH_KIND   "backplane.graph"
#define BP_FACTORY_KIND "GraphExecutorFactory"

/* The graph as compiled for one target. */
typedef struct BpGraphVariant {
  char *target;
  char *graph_json;
  char **param_names;
  uint32_t *param_tensors;
  uint32_t num_params;
  int32_t device_type;
  _Atomic(BpCallGraph *) graph; /* NULL until it is asked for */
} BpGraphVariant;

typedef struct BpGraphContent {
  BpGraphVariant *targets; /* import i of the module is the code of target i */
  BpTensor **tensors;
  uint32_t num_targets;
  uint32_t num_tensors;
  /* Of a graph that TVM compiled, else NULL: the function that makes an executor. It has one
   * target, without text and device: the modules of its code tell these. Parameters that its graph
   * has not are ignored, as folding removes some. */
  char *factory_name;
  BpModule *factory; /* borrowed: it owns this; or NULL */
} BpGraphContent;

/* A content with room for so many, all zero; NULL with an error. NULL may be freed. */
BpGraphContent *bp__graph_content_create(uint32_t num_targets, uint32_t num_tensors);
void bp__graph_content_free(BpGraphContent *content);
/* Makes room for the parameters of a target, all zero. */
int bp__graph_variant_create_params(BpGraphVariant *target, uint32_t count);

/* The content of such a module; NULL (no error raised) for any other. */
const BpGraphContent *bp__graph_module_content(BpModule *module);
/* Of BP_FACTORY_KIND alone. */
const BpGraphContent *bp__factory_content(BpModule *module);

/* The graph behind a target's JSON, parsed with the first question; borrowed from the module. NULL
 * with an error. Any thread. */
const BpCallGraph *bp__graph_variant_graph(BpGraphVariant *variant);

/* Register the functions that create executors, and the loaders of these kinds; called once, by
 * bp_graph_initialize. */
int bp__executor_register(void);
int bp__graph_module_register(void);
int bp__factory_register(void);
/* Makes a function global. */
int bp__graph_register(const char *name, BpPackedCall call);

/* An executor as bp_graph_executor_create makes it, or a debug executor. */
BpModule *bp__graph_executor_create(const char *graph_json, BpModule *code, const BpDevice *devices,
                                    size_t num_devices, int is_debug);
/* Copies a parameter into an executor; a name that its graph has not is passed over. */
int bp__graph_executor_load(BpModule *executor, const char *name, BpTensor *tensor);
/* Reads the devices that a function is given: 1 to BP_GRAPH_MOST_DEVICES. */
int bp__graph_read_devices(const BpValue *args, int32_t num_args, BpDevice *devices,
                           size_t *num_devices);

#endif
