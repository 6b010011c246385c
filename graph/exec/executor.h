/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph with planned storage and prepared calls. */
#ifndef BACKPLANE_GRAPH_EXEC_EXECUTOR_H
#define BACKPLANE_GRAPH_EXEC_EXECUTOR_H

#include <stdbool.h>

#include <backplane/module.h>
#include <backplane/tensor.h>

#include "graph/exec/graph_json.h"

/* The graph and the resources that an executor runs; borrowed for its life. A parameter is a tensor
 * for an argument node, on the node's device; NULL where the node is an input. */
typedef struct BpExecutorPlan {
  const BpCallGraph *graph;
  BpModule *code;
  BpTensor *const *params;         /* a parameter for each of arg_nodes */
  BpDevice devices[BP_PLACES_MAX]; /* devices of the graph's places */
} BpExecutorPlan;

/* Only one thread at a time may use an executor. */
typedef struct BpExecutor BpExecutor;

/* Makes an executor (transfer full): allocates storage and finds all functions. */
BpExecutor *bp__executor_create(const BpExecutorPlan *plan);
/* Waits for queued work, then frees the executor. NULL is ignored. */
void bp__executor_free(BpExecutor *executor);

/* Queues later work on a stream of the first device, after the work that was queued before. The
 * caller keeps the stream. */
int bp__executor_set_stream(BpExecutor *executor, void *stream);

/* `arg` indexes graph->arg_nodes. set_input copies the value; bind_input uses the caller's tensor
 * until the input is set again, but copies an output of the executor. */
int bp__executor_set_input(BpExecutor *executor, uint32_t arg, const BpTensorView *value);
int bp__executor_bind_input(BpExecutor *executor, uint32_t arg, BpTensor *value);
/* Returns the view of an argument node (borrowed). */
const BpTensorView *bp__executor_arg(const BpExecutor *executor, uint32_t arg);
/* Returns the tensor whose memory an argument uses (borrowed); NULL if the memory is the executor's
 * or the plan's. */
BpTensor *bp__executor_bound(const BpExecutor *executor, uint32_t arg);

/* Queues the whole graph. A run looks up no names, and allocates no memory, except after the memory
 * of an argument that is an output has changed. */
int bp__executor_run(BpExecutor *executor);
/* Waits for queued work. */
int bp__executor_sync(BpExecutor *executor);
/* Returns a head of the last run as a tensor (transfer none), which keeps its memory alive. The
 * next run overwrites the elements, which are valid after bp__executor_sync. */
BpTensor *bp__executor_output(const BpExecutor *executor, uint32_t head);

/* A callback after each node of a profiled run, when the device is idle. Returns 0 to continue, 1
 * to end the run, or -1 with an error to make it fail. Times are nanoseconds since the run
 * began. */
typedef int (*BpNodeVisitor)(void *visitor, const BpCallNode *node, const BpTensorView *outputs,
                             int64_t start_ns, int64_t duration_ns);
int bp__executor_profile(BpExecutor *executor, BpNodeVisitor visit, void *visitor);

#endif
