/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the operators of a graph on a device and the host are called. Of two devices,
 * the one that is not to be kept busy takes the place of the host. */
#ifndef BACKPLANE_GRAPH_EXEC_ORDER_H
#define BACKPLANE_GRAPH_EXEC_ORDER_H

#include "graph/exec/graph_json.h"

/* The kinds of calls. Of several calls that may come next, the one with the first of these kinds
 * does: a copy to the host is queued early, and the host works once the device has all the work
 * that it can have. */
typedef enum BpCallKind {
  BP_CALL_COPY_TO_HOST,
  BP_CALL_ON_DEVICE,
  BP_CALL_COPY_TO_DEVICE,
  BP_CALL_ON_HOST,
  BP_NUM_CALL_KINDS
} BpCallKind;

/* Reorders operators: `nodes` are `count` nodes of the graph in its order, `kinds` the kind of
 * each; both are permuted. Two nodes keep their order if one writes a storage that the other reads
 * or writes, or if both are functions of the same device. -1 with an error: there is no memory. */
int bp__order_calls(const BpCallGraph *graph, uint32_t *nodes, BpCallKind *kinds, uint32_t count);

#endif
