/* SPDX-License-Identifier: Apache-2.0 */
/* A graph for the executors: read from TVM's JSON form, with every index checked once. */
#ifndef BACKPLANE_GRAPH_EXEC_GRAPH_JSON_H
#define BACKPLANE_GRAPH_EXEC_GRAPH_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "graph/io/places.h"

/* One value of the graph: an output of a node. */
typedef struct BpCallEntry {
  uint32_t node;
  int32_t storage_id;
  BpDataType dtype;
  int32_t ndim;
  int64_t *shape;
  uint64_t bytes;
  uint32_t place;    /* index among the graph's places */
  uint32_t previous; /* another entry of the storage, BP_NO_ENTRY for the first */
} BpCallEntry;

#define BP_NO_ENTRY UINT32_MAX

/* One block of memory, which entries share in turns. */
typedef struct BpCallStorage {
  uint64_t bytes;      /* bytes of the largest entry */
  uint32_t last_entry; /* last entry, linked by `previous`; BP_NO_ENTRY: the id is unused */
} BpCallStorage;

#define BP_GRAPH_MAX_LAUNCH 6 /* equals the compiler's BP_KERNEL_MAX_LAUNCH */

typedef struct BpCallNode {
  char *name;
  char *function;   /* function name; NULL: an input or a parameter; "" for `__nop`, a view */
  int is_copy;      /* `__copy`: copies from one device to another */
  int flattens;     /* the node's function takes tensors of one dimension */
  uint32_t *inputs; /* entries */
  uint32_t num_inputs;
  uint32_t first_entry;
  uint32_t num_outputs;
  uint32_t num_launch; /* extents of a kernel's launch, which follow its arguments */
  int64_t launch[BP_GRAPH_MAX_LAUNCH];
} BpCallNode;

/* A graph of calls: a node is a call of a function. The compiler's BpGraph (graph/ir) is a graph of
 * operators. */
typedef struct BpCallGraph {
  BpCallNode *nodes;
  BpCallEntry *entries;
  uint32_t *arg_nodes; /* nodes that are inputs and parameters */
  uint32_t *heads;     /* entries that are outputs */
  char **output_names; /* name of each head */
  BpCallStorage *storages;
  uint32_t num_nodes;
  uint32_t num_entries;
  uint32_t num_args;
  uint32_t num_heads;
  uint32_t num_storages;
  BpPlaces places; /* the places of the entries, in order; at least one */
} BpCallGraph;

/* Parses and checks a graph (transfer full, bp__graph_free). The input is untrusted: an error tells
 * the place of any fault. */
BpCallGraph *bp__graph_parse(const char *json);
void bp__graph_free(BpCallGraph *graph);

/* The index in arg_nodes of an input or parameter by its name; -1 without an error if no argument
 * has the name. */
int64_t bp__graph_find_arg(const BpCallGraph *graph, const char *name, size_t size);

#endif
