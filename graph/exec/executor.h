/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph: storage planned by id, every call prepared beforehand. */
#ifndef BACKPLANE_GRAPH_EXEC_EXECUTOR_H
#define BACKPLANE_GRAPH_EXEC_EXECUTOR_H

#include <backplane/module.h>
#include <backplane/tensor.h>

#include "graph/exec/graph_json.h"

/* The graph and the resources that an executor runs; borrowed for its life. Entries of the graph
 * that name no kind of device are on the first device; a graph that names kinds has one device of
 * each. A parameter is a tensor for an argument node, on the node's device; NULL where the node is
 * an input. */
typedef struct BpExecutorPlan {
  const BpCallGraph *graph;
  BpModule *code;
  BpTensor *const *params; /* one for each of graph->arg_nodes */
  BpDevice devices[BP_GRAPH_MOST_DEVICES];
  uint32_t num_devices;
} BpExecutorPlan;

/* Which of a plan's devices an entry is on: num_devices if none of them is of its kind. */
uint32_t bp__executor_place(const BpExecutorPlan *plan, uint32_t entry);

/* One thread at a time. */
typedef struct BpExecutor BpExecutor;

/* Allocates storage and finds all functions (transfer full). */
BpExecutor *bp__executor_create(const BpExecutorPlan *plan);
/* Waits for what is queued, then frees. NULL is ignored. */
void bp__executor_free(BpExecutor *executor);

/* `arg` indexes graph->arg_nodes. Copies in, or uses the caller's tensor until it is set again. */
int bp__executor_set_input(BpExecutor *executor, uint32_t arg, const BpTensorView *value);
int bp__executor_bind_input(BpExecutor *executor, uint32_t arg, BpTensor *value);
/* The view behind an argument node or a head: borrowed. */
const BpTensorView *bp__executor_arg(const BpExecutor *executor, uint32_t arg);

/* Queues the whole graph. Allocates nothing, looks nothing up. */
int bp__executor_run(BpExecutor *executor);
/* Waits for what is queued. */
int bp__executor_sync(BpExecutor *executor);
/* A head as a tensor (transfer none), after bp__executor_sync. */
BpTensor *bp__executor_output(BpExecutor *executor, uint32_t head);

/* Called after each node of a profiled run, the device idle; 1 ends the run there, -1 with an error
 * makes it fail. Times in nanoseconds since the run began. */
typedef int (*BpNodeVisitor)(void *visitor, const BpCallNode *node, const BpTensorView *outputs,
                             int64_t start_ns, int64_t duration_ns);
int bp__executor_profile(BpExecutor *executor, BpNodeVisitor visit, void *visitor);

#endif
