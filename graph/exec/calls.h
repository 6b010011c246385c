/* SPDX-License-Identifier: Apache-2.0 */
/* The prepared graph, which executor.c makes and run.c runs. */
#ifndef BACKPLANE_GRAPH_EXEC_CALLS_H
#define BACKPLANE_GRAPH_EXEC_CALLS_H

#include <stdbool.h>

#include <backplane/device.h>

#include "graph/exec/crossing.h"
#include "graph/exec/executor.h"
#include "graph/exec/queue_thread.h"

/* One call of an operator: the function and its arguments, which are the views of its inputs, of
 * its outputs, and the extents of its launch if it is a kernel. */
typedef struct Call {
  BpFunction *function;
  const BpValue *args;
  int32_t num_args;
  uint32_t node;
  BpEvent *copied;                /* recorded after a copy to the host; else NULL */
  uint32_t first_wait, last_wait; /* range of executor->waits: copies that the call needs */
  int hands_over;                 /* records executor->handed_over before these waits */
  uint32_t crossing;              /* index in executor->crossings, or NO_CROSSING */
  uint32_t place;                 /* place of the device that works or gets the copy */
} Call;

#define NO_CROSSING UINT32_MAX

struct BpExecutor {
  BpExecutorPlan plan;
  void *streams[BP_PLACES_MAX]; /* of plan.devices */
  uint32_t num_streams;
  void *own_stream;      /* stream of the first device; streams[0] may be the caller's stream */
  int is_switching;      /* two places have devices of one type */
  BpTensorView *views;   /* by entry */
  BpTensorView *flat;    /* the views as vectors if a node flattens; else NULL */
  int64_t *num_elements; /* the extents that `flat` points to, by entry */
  BpTensor **storage;    /* by storage id; NULL where a parameter or bound input is used instead */
  BpTensor **bound;      /* the caller's tensor in use, or NULL, by argument */
  unsigned char *ready;  /* whether the argument has a value, by argument */
  BpTensor **outputs;    /* by head; of the last run */
  bool is_moved; /* whether memory of an argument that is an output has changed since then */
  BpValue *args; /* arguments of all calls */
  Call *calls;
  uint32_t num_calls;
  uint32_t *waits; /* calls that copy to the host, in the order in which the host waits for them */
  uint32_t num_waits;
  BpEvent *handed_over;   /* event of the device beside the host; no caller waits for it */
  BpCrossings *crossings; /* NULL: no value crosses between devices that queue work */
  /* If values cross between devices: a thread for each place but the caller's, from the first run
   * on; and the order of each place's calls. */
  BpQueueThread *threads[BP_PLACES_MAX];
  uint32_t *orders[BP_PLACES_MAX];
};

/* Makes new tensors of the outputs that are arguments with other memory than in the last run. */
int bp__executor_renew_outputs(BpExecutor *executor);

static inline const char *arg_name(const BpExecutor *executor, uint32_t arg) {
  const BpCallGraph *graph = executor->plan.graph;
  return graph->nodes[graph->arg_nodes[arg]].name;
}

/* In a graph on several devices, the first place that is not the host's. */
static inline uint32_t beside_host(const BpExecutorPlan *plan) {
  return plan->devices[0].device_type == BP_DEVICE_CPU ? 1 : 0;
}

/* The place that a call copies from. */
static inline uint32_t source_place(const BpExecutor *executor, const Call *call) {
  const BpCallGraph *graph = executor->plan.graph;
  return graph->entries[graph->nodes[call->node].inputs[0]].place;
}

#endif
