/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as the executors use it: read from TVM's JSON form, every index checked once. */
#ifndef BACKPLANE_GRAPH_EXEC_GRAPH_JSON_H
#define BACKPLANE_GRAPH_EXEC_GRAPH_JSON_H

#include <stddef.h>
#include <stdint.h>

#include <backplane/value.h>

/* One value of the graph: an output of a node. */
typedef struct BpCallEntry {
  uint32_t node;
  int32_t storage_id;
  BpDataType dtype;
  int32_t ndim;
  int64_t *shape;
  uint64_t bytes;
  int32_t device_type; /* 0: that of the model's device */
  uint32_t previous;   /* another entry of its storage, BP_NO_ENTRY for the first */
} BpCallEntry;

#define BP_NO_ENTRY UINT32_MAX

/* One block of memory, in which entries take turns. */
typedef struct BpCallStorage {
  uint64_t bytes;      /* of the largest entry */
  uint32_t last_entry; /* the others follow by `previous`; BP_NO_ENTRY: the id is not used */
} BpCallStorage;

#define BP_GRAPH_MAX_LAUNCH   6 /* BP_KERNEL_MAX_LAUNCH of the compiler, which a run has not */
#define BP_GRAPH_MOST_DEVICES 2

typedef struct BpCallNode {
  char *name;
  char *function;   /* NULL: an input or a parameter; "" for `__nop`, a view */
  int is_copy;      /* `__copy`: from one device to another */
  int flattens;     /* its function takes tensors of one dimension */
  uint32_t *inputs; /* entries */
  uint32_t num_inputs;
  uint32_t first_entry;
  uint32_t num_outputs;
  uint32_t num_launch; /* of a kernel: the extents of its launch, which follow its arguments */
  int64_t launch[BP_GRAPH_MAX_LAUNCH];
} BpCallNode;

/* Not the compiler's BpGraph (graph/ir), of operators: here a node is a call of a function. */
typedef struct BpCallGraph {
  BpCallNode *nodes;
  BpCallEntry *entries;
  uint32_t *arg_nodes; /* inputs and parameters, as nodes */
  uint32_t *heads;     /* outputs, as entries */
  char **output_names; /* one a head */
  BpCallStorage *storages;
  uint32_t num_nodes;
  uint32_t num_entries;
  uint32_t num_args;
  uint32_t num_heads;
  uint32_t num_storages;
  int32_t device_types[BP_GRAPH_MOST_DEVICES]; /* those that entries name, in the order of these */
  uint32_t num_device_types;                   /* 0: all is on the model's device */
} BpCallGraph;

/* Parses and checks a graph (transfer full). Untrusted input: whatever is wrong is an error that
 * says where. Freed with bp__graph_free. */
BpCallGraph *bp__graph_parse(const char *json);
void bp__graph_free(BpCallGraph *graph);

/* The index in arg_nodes of the input or parameter with that name; -1, with no error: none. */
int64_t bp__graph_find_arg(const BpCallGraph *graph, const char *name, size_t size);

#endif
