/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a graph that graph compilers get (backplane/graph_compiler.h), and their answers. */
#ifndef BACKPLANE_GRAPH_BUILD_VIEW_H
#define BACKPLANE_GRAPH_BUILD_VIEW_H

#include <backplane/graph_compiler.h>

#include "graph/ir/graph.h"

struct BpOnnxGraph {
  BpOnnxNode *nodes;
  BpOnnxValue *values;
  BpGraphValue **origins; /* value of the graph, by value of the view */
  int32_t *inputs;
  int32_t *outputs;
  int32_t num_nodes, num_values, num_inputs, num_outputs;
};

/* The nodes that a view shows. */
typedef struct BpViewPlan {
  const BpGraph *graph;
  const BpGraphNode *const *nodes; /* nodes as the model has them */
  int32_t num_nodes;
  const uint8_t *is_read;   /* whether another node reads a value or it is an output, by id */
  const uint8_t *is_output; /* whether a node outside the view reads a value, by value id */
} BpViewPlan;

/* Makes a view in the arena; NULL with an error. */
const BpOnnxGraph *bp__view_create(BpArena *arena, const BpViewPlan *plan);

struct BpClaims {
  BpArena *arena;
  int32_t num_nodes;
  double *costs;       /* cost of each node; < 0 if it was not taken */
  const char **why;    /* reason of each node that was declined; else NULL */
  const char *failure; /* error of the first invalid call, or NULL */
};

/* Makes claims of a view's nodes, with no node taken; NULL with an error. */
BpClaims *bp__claims_create(BpArena *arena, const BpOnnxGraph *view);

/* Adds the table "graph" to the host's tables, unless the host has it already. */
int bp__view_register(void);

#endif
