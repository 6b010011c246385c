/* SPDX-License-Identifier: Apache-2.0 */
/* What a module of kind "backplane.graph" holds. */
#ifndef BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H
#define BACKPLANE_GRAPH_EXEC_GRAPH_MODULE_H

#include "graph/exec/artifact.h"

#define BP_GRAPH_KIND "backplane.graph"

/* The graph as compiled for one target. */
typedef struct BpGraphVariant {
  char *target;
  char *graph_json;
  char **param_names;
  uint32_t *param_tensors;
  uint32_t num_params;
  int32_t device_type;
} BpGraphVariant;

typedef struct BpGraphContent {
  BpGraphVariant *targets; /* import i of the module is the code of target i */
  BpTensor **tensors;
  uint32_t num_targets;
  uint32_t num_tensors;
} BpGraphContent;

/* The content of such a module; NULL (no error raised) for any other. */
const BpGraphContent *bp__graph_module_content(BpModule *module);

/* Registers the loader of this kind; called once, by bp_graph_initialize. */
int bp__graph_module_register(void);

#endif
