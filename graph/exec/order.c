/* SPDX-License-Identifier: Apache-2.0 */
/* The order of calls: dependences between calls, then the calls one after the other, with the kind
 * that keeps the device busy first. */
#include "graph/exec/order.h"

#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#define NONE UINT32_MAX

/* A list of calls; many lists share one array of links. */
typedef struct Link {
  uint32_t call, next;
} Link;

typedef struct Order {
  const BpCallGraph *graph;
  const uint32_t *nodes;
  uint32_t count, place;
  Link *links;
  uint32_t num_links, capacity;
  uint32_t *after;      /* list of the calls that come after a call, by call */
  uint32_t *num_before; /* number of unplaced calls before a call, by call */
  uint32_t *writer;     /* last call that writes a storage, by storage */
  uint32_t *readers;    /* list of the calls that read the storage since that write, by storage */
  uint32_t function[BP_PLACES_MAX];   /* last call of a function, by place */
  uint32_t *ready[BP_NUM_CALL_KINDS]; /* calls that may be next */
  uint32_t num_ready[BP_NUM_CALL_KINDS];
} Order;

static int push(Order *order, uint32_t *list, uint32_t call) {
  if (order->num_links == order->capacity) {
    uint32_t capacity = order->capacity ? order->capacity * 2 : 64;
    Link *grown = realloc(order->links, capacity * sizeof(*grown));
    if (!grown)
      return -1;
    order->links = grown;
    order->capacity = capacity;
  }
  order->links[order->num_links] = (Link){call, *list};
  *list = order->num_links++;
  return 0;
}

static int add_edge(Order *order, uint32_t before, uint32_t after) {
  if (before == NONE || before == after)
    return 0;
  order->num_before[after]++;
  return push(order, &order->after[before], after);
}

static int add_read(Order *order, uint32_t call, uint32_t entry) {
  int32_t storage = order->graph->entries[entry].storage_id;
  return add_edge(order, order->writer[storage], call) ||
         push(order, &order->readers[storage], call);
}

static int add_write(Order *order, uint32_t call, uint32_t entry) {
  int32_t storage = order->graph->entries[entry].storage_id;
  int status = add_edge(order, order->writer[storage], call);
  for (uint32_t at = order->readers[storage]; at != NONE && !status; at = order->links[at].next)
    status = add_edge(order, order->links[at].call, call);
  order->readers[storage] = NONE;
  order->writer[storage] = call;
  return status;
}

uint32_t bp__call_place(const BpCallGraph *graph, const BpCallNode *node) {
  return node->num_outputs  ? graph->entries[node->first_entry].place
         : node->num_inputs ? graph->entries[node->inputs[0]].place
                            : 0;
}

BpCallKind bp__call_kind(const BpCallGraph *graph, const BpCallNode *node, uint32_t place) {
  int is_here = bp__call_place(graph, node) == place;
  if (!node->is_copy)
    return is_here ? BP_CALL_ON_DEVICE : BP_CALL_ELSEWHERE;
  if (is_here)
    return BP_CALL_COPY_IN;
  return graph->entries[node->inputs[0]].place == place ? BP_CALL_COPY_OUT : BP_CALL_ELSEWHERE;
}

static int add_call(Order *order, uint32_t call) {
  const BpCallNode *node = &order->graph->nodes[order->nodes[call]];
  int status = 0;
  for (uint32_t i = 0; i < node->num_inputs && !status; i++)
    status = add_read(order, call, node->inputs[i]);
  for (uint32_t i = 0; i < node->num_outputs && !status; i++)
    status = add_write(order, call, node->first_entry + i);
  if (!status && !node->is_copy) {
    uint32_t *last = &order->function[bp__call_place(order->graph, node)];
    status = add_edge(order, *last, call);
    *last = call;
  }
  return status;
}

static void make_ready(Order *order, uint32_t call) {
  const BpCallNode *node = &order->graph->nodes[order->nodes[call]];
  BpCallKind kind = bp__call_kind(order->graph, node, order->place);
  order->ready[kind][order->num_ready[kind]++] = call;
}

/* Takes the first call, in the graph's order, of the first kind that has a ready call; one always
 * exists. */
static uint32_t take_next(Order *order) {
  uint32_t kind = 0, best = 0;
  while (order->num_ready[kind] == 0)
    kind++;
  uint32_t *ready = order->ready[kind];
  for (uint32_t i = 1; i < order->num_ready[kind]; i++)
    if (ready[i] < ready[best])
      best = i;
  uint32_t call = ready[best];
  ready[best] = ready[--order->num_ready[kind]];
  return call;
}

static void place_calls(Order *order, uint32_t *sequence) {
  for (uint32_t i = 0; i < order->count; i++)
    if (order->num_before[i] == 0)
      make_ready(order, i);
  for (uint32_t i = 0; i < order->count; i++) {
    sequence[i] = take_next(order);
    for (uint32_t at = order->after[sequence[i]]; at != NONE; at = order->links[at].next)
      if (--order->num_before[order->links[at].call] == 0)
        make_ready(order, order->links[at].call);
  }
}

static void apply(const uint32_t *sequence, uint32_t count, uint32_t *nodes, uint32_t *old) {
  memcpy(old, nodes, count * sizeof(*old));
  for (uint32_t i = 0; i < count; i++)
    nodes[i] = old[sequence[i]];
}

int bp__order_calls(const BpCallGraph *graph, uint32_t *nodes, uint32_t count, uint32_t place) {
  Order order = {.graph = graph, .nodes = nodes, .count = count, .place = place};
  size_t num_storages = graph->num_storages;
  uint32_t *tables =
      malloc(((BP_NUM_CALL_KINDS + 3) * (size_t)count + 2 * num_storages + 1) * sizeof(*tables));
  if (!tables)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the order of %u calls", count);
  uint32_t *next = tables;
  memset(tables, 0xff, (count + 2 * num_storages) * sizeof(*tables)); /* NONE */
  order.after = next, next += count;
  order.writer = next, next += num_storages;
  order.readers = next, next += num_storages;
  order.num_before = memset(next, 0, count * sizeof(*next)), next += count;
  memset(order.function, 0xff, sizeof order.function); /* NONE */
  for (int i = 0; i < BP_NUM_CALL_KINDS; i++)
    order.ready[i] = next, next += count;
  int status = 0;
  for (uint32_t i = 0; i < count && !status; i++)
    status = add_call(&order, i);
  if (status) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the order of %u calls", count);
  } else {
    uint32_t *sequence = next;
    place_calls(&order, sequence);
    apply(sequence, count, nodes, order.num_before);
  }
  free(order.links);
  free(tables);
  return status;
}
