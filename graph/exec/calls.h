/* SPDX-License-Identifier: Apache-2.0 */
/* The prepared graph, which executor.c makes and run.c runs. */
#ifndef BACKPLANE_GRAPH_EXEC_CALLS_H
#define BACKPLANE_GRAPH_EXEC_CALLS_H

#include <backplane/device.h>

#include "graph/exec/crossing.h"
#include "graph/exec/executor.h"
#include "graph/exec/second_thread.h"

/* One call of an operator: the function and its arguments, which are the views of its inputs, of
 * its outputs, and the extents of its launch if it is a kernel. */
typedef struct Call {
  BpFunction *function;
  const BpValue *args;
  int32_t num_args;
  uint32_t node;
  BpEvent *copied;                /* event recorded after a copy to the host; else NULL */
  uint32_t first_wait, last_wait; /* range in executor->waits: copies to wait for before the call */
  int hands_over;                 /* whether executor->handed_over is recorded before the waits */
  uint32_t crossing;              /* index in executor->crossings, or NO_CROSSING */
  uint32_t place;                 /* index in plan.devices: the device that works or is copied to */
} Call;

#define NO_CROSSING UINT32_MAX

struct BpExecutor {
  BpExecutorPlan plan;
  void *streams[BP_GRAPH_MOST_DEVICES]; /* stream of each of plan.devices */
  uint32_t num_streams;
  void *own_stream;      /* of the first device; streams[0] may be the caller's */
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
  BpEvent *handed_over;   /* event of the device beside the host, for which no thread waits */
  BpCrossings *crossings; /* NULL if no value crosses between two devices */
  BpSecondThread *second; /* thread of runs in two threads; NULL until the first of them */
  uint32_t *orders[2];    /* order of the calls of each device, if values cross */
};

static inline const char *arg_name(const BpExecutor *executor, uint32_t arg) {
  const BpCallGraph *graph = executor->plan.graph;
  return graph->nodes[graph->arg_nodes[arg]].name;
}

/* The index of the device beside the host, if one of two devices is the host. */
static inline uint32_t beside_host(const BpExecutorPlan *plan) {
  return plan->devices[0].device_type == BP_DEVICE_CPU ? 1 : 0;
}

static inline void *stream_of(const BpExecutor *executor, const BpTensorView *view) {
  int is_main = view->device.device_type == executor->plan.devices[0].device_type;
  return executor->streams[is_main ? 0 : 1];
}

#endif
