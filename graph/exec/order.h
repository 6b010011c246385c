/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the operators of a graph on a device and the host are called. */
#ifndef BACKPLANE_GRAPH_EXEC_ORDER_H
#define BACKPLANE_GRAPH_EXEC_ORDER_H

#include "graph/exec/graph_json.h"

/* What a call is, and in this order which of several that may come next does: a copy to the host is
 * queued early, and the host works once the device has all that it can have. */
typedef enum BpCallKind {
  BP_CALL_COPY_TO_HOST,
  BP_CALL_ON_DEVICE,
  BP_CALL_COPY_TO_DEVICE,
  BP_CALL_ON_HOST,
  BP_NUM_CALL_KINDS
} BpCallKind;

/* Reorders operators: `nodes` are `count` nodes of the graph in its order, `kinds` what each is;
 * both are permuted. What one writes and another reads or writes, by storage, stays in order, and
 * so do the functions of a place. -1 with an error: there is no memory. */
int bp__order_calls(const BpGraph *graph, uint32_t *nodes, BpCallKind *kinds, uint32_t count);

#endif
