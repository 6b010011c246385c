/* SPDX-License-Identifier: Apache-2.0 */
/* The prepared graph that executor.c makes and run.c runs. */
#ifndef BACKPLANE_GRAPH_EXEC_CALLS_H
#define BACKPLANE_GRAPH_EXEC_CALLS_H

#include <backplane/device.h>

#include "graph/exec/crossing.h"
#include "graph/exec/executor.h"
#include "graph/exec/second_thread.h"

/* One operator: the function and its arguments, the views of its inputs, then of its outputs, then
 * the extents of its launch if it is a kernel. */
typedef struct Call {
  BpFunction *function;
  const BpValue *args;
  int32_t num_args;
  uint32_t node;
  BpEvent *copied;                /* recorded after a copy to the host; else NULL */
  uint32_t first_wait, last_wait; /* of executor->waits: the copies that are waited for before */
  int hands_over;                 /* before them: records executor->handed_over */
  uint32_t crossing;              /* of executor->crossings, or NO_CROSSING */
  uint32_t place;                 /* of plan.devices: the device that works, or that is copied to */
} Call;

#define NO_CROSSING UINT32_MAX

struct BpExecutor {
  BpExecutorPlan plan;
  void *streams[BP_GRAPH_MOST_DEVICES]; /* of plan.devices */
  uint32_t num_streams;
  BpTensorView *views;   /* by entry */
  BpTensorView *flat;    /* the same as vectors, where a node flattens; else NULL */
  int64_t *num_elements; /* by entry, the shapes behind `flat` */
  void **storage;        /* by storage id; NULL where a parameter or bound input is used instead */
  BpTensor **bound;      /* by argument: the caller's tensor in use, or NULL */
  unsigned char *ready;  /* by argument: it has a value */
  BpTensor **outputs;    /* by head */
  BpValue *args;         /* of all calls */
  Call *calls;
  uint32_t num_calls;
  uint32_t *waits; /* calls that copy to the host, in the order in which the host waits for them */
  uint32_t num_waits;
  BpEvent *handed_over;   /* of the device beside the host; nobody waits for it */
  BpCrossings *crossings; /* NULL: no value crosses between two devices */
  BpSecondThread *second; /* of runs in two threads, from the first one on; NULL: none */
  uint32_t *orders[2];    /* of the calls, by device, if values cross */
};

static inline const char *arg_name(const BpExecutor *executor, uint32_t arg) {
  const BpCallGraph *graph = executor->plan.graph;
  return graph->nodes[graph->arg_nodes[arg]].name;
}

/* The place of the device beside the host, where one of two devices is the host. */
static inline uint32_t beside_host(const BpExecutorPlan *plan) {
  return plan->devices[0].device_type == BP_DEVICE_CPU ? 1 : 0;
}

static inline void *stream_of(const BpExecutor *executor, const BpTensorView *view) {
  int is_main = view->device.device_type == executor->plan.devices[0].device_type;
  return executor->streams[is_main ? 0 : 1];
}

#endif
