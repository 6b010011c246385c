/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a graph that graph compilers get (backplane/graph_compiler.h), and their answers. */
#ifndef BACKPLANE_GRAPH_BUILD_VIEW_H
#define BACKPLANE_GRAPH_BUILD_VIEW_H

#include <backplane/graph_compiler.h>

#include "graph/ir/graph.h"

struct BpOnnxGraph {
  BpOnnxNode *nodes;
  BpOnnxValue *values;
  BpGraphValue **origins; /* by value: that of the graph */
  int32_t *inputs;
  int32_t *outputs;
  int32_t num_nodes, num_values, num_inputs, num_outputs;
};

/* The nodes that a view shows. */
typedef struct BpViewPlan {
  const BpGraph *graph;
  const BpGraphNode *const *nodes; /* as the model has them */
  int32_t num_nodes;
  const uint8_t *is_read;   /* by value id: another node reads it, or it is an output */
  const uint8_t *is_output; /* by value id: a node outside of the view reads it */
} BpViewPlan;

/* A view in the arena; NULL with an error. */
const BpOnnxGraph *bp__view_create(BpArena *arena, const BpViewPlan *plan);

struct BpClaims {
  BpArena *arena;
  int32_t num_nodes;
  double *costs;       /* by node: < 0 where it was not taken */
  const char **why;    /* by node: the reason of one that was declined; else NULL */
  const char *failure; /* of the first call that was wrong, or NULL */
};

/* Claims of a view's nodes, none taken; NULL with an error. */
BpClaims *bp__claims_create(BpArena *arena, const BpOnnxGraph *view);

/* Adds the table "graph" to those of the host, where it is not there yet. */
int bp__view_register(void);

#endif
