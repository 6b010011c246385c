/* SPDX-License-Identifier: Apache-2.0 */
/* What a module of kind "backplane.graph" holds. */
#ifndef BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H
#define BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H

#include <stdatomic.h>

#include "graph/exec/artifact.h"
#include "graph/exec/graph_json.h"

#define BP_GRAPH_KIND "backplane.graph"

/* The graph as compiled for one target. */
typedef struct BpGraphVariant {
  char *target;
  char *graph_json;
  char **param_names;
  uint32_t *param_tensors;
  uint32_t num_params;
  int32_t device_type;
  _Atomic(BpGraph *) graph; /* NULL until it is asked for */
} BpGraphVariant;

typedef struct BpGraphContent {
  BpGraphVariant *targets; /* import i of the module is the code of target i */
  BpTensor **tensors;
  uint32_t num_targets;
  uint32_t num_tensors;
} BpGraphContent;

/* The content of such a module; NULL (no error raised) for any other. */
const BpGraphContent *bp__graph_module_content(BpModule *module);

/* The graph behind a target's JSON, parsed with the first question; borrowed from the module. NULL
 * with an error. Any thread. */
const BpGraph *bp__graph_variant_graph(BpGraphVariant *variant);

/* Registers the loader of this kind; called once, by bp_graph_initialize. */
int bp__graph_module_register(void);

#endif
