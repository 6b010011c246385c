/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the operators of a graph on several devices are called, so that the device of
 * one place is kept busy. */
#ifndef BACKPLANE_GRAPH_EXEC_ORDER_H
#define BACKPLANE_GRAPH_EXEC_ORDER_H

#include "graph/exec/graph_json.h"

/* The kinds of calls, for the device that is to be kept busy. Of several calls that may come next,
 * the call of the first kind in the enumeration does: a copy to another device is queued early, and
 * others work once the device has all the work that it can have. */
typedef enum BpCallKind {
  BP_CALL_COPY_OUT,
  BP_CALL_ON_DEVICE,
  BP_CALL_COPY_IN,
  BP_CALL_ELSEWHERE,
  BP_NUM_CALL_KINDS
} BpCallKind;

/* The place whose device does a call, or is copied to. */
uint32_t bp__call_place(const BpCallGraph *graph, const BpCallNode *node);
/* The kind of a call for the device of a place. */
BpCallKind bp__call_kind(const BpCallGraph *graph, const BpCallNode *node, uint32_t place);

/* Reorders operators, `count` nodes of the graph in its order, for the device of a place. Two nodes
 * keep their order if one writes a storage that the other reads or writes, or if both are functions
 * of the same place. -1 with an error: there is no memory. */
int bp__order_calls(const BpCallGraph *graph, uint32_t *nodes, uint32_t count, uint32_t place);

#endif
