/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the operators of a graph on a device and the host are called. If a graph has
 * two devices, the device that is not kept busy takes the role of the host. */
#ifndef BACKPLANE_GRAPH_EXEC_ORDER_H
#define BACKPLANE_GRAPH_EXEC_ORDER_H

#include "graph/exec/graph_json.h"

/* The kinds of calls. Of several calls that may be next, the one with the first kind is: a copy to
 * the host is queued early, and the host works after the device has got all possible work. */
typedef enum BpCallKind {
  BP_CALL_COPY_TO_HOST,
  BP_CALL_ON_DEVICE,
  BP_CALL_COPY_TO_DEVICE,
  BP_CALL_ON_HOST,
  BP_NUM_CALL_KINDS
} BpCallKind;

/* Reorders operators: `nodes` are `count` nodes of the graph in its order, `kinds` the kind of
 * each; both lists are permuted. Two nodes keep their order if one writes a storage that the other
 * reads or writes, or if both are functions of the same device. Returns -1 with an error if memory
 * is exhausted. */
int bp__order_calls(const BpCallGraph *graph, uint32_t *nodes, BpCallKind *kinds, uint32_t count);

#endif
