/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of large constants, which is released as soon as no constant lies in it. */
#include <stdlib.h>
#include <string.h>

#include <backplane/object.h>

#include "graph/ir/graph.h"

/* ---- Constants that are read ------------------------------------------------------------- */

int bp__live_add(BpList *live, const BpGraphValue *value) {
  if (value && value->data && bp__list_push(live, (void *)(uintptr_t)value->data))
    return -1;
  if (value && value->extents && bp__list_push(live, (void *)(uintptr_t)value->extents))
    return -1;
  for (int32_t i = 0; value && value->sequence && i < value->sequence->count; i++)
    if (bp__live_add(live, value->sequence->items[i]))
      return -1;
  return 0;
}

static int add_all(BpList *live, BpGraphValue *const *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bp__live_add(live, values[i]))
      return -1;
  return 0;
}

static int add_graph(BpList *live, const BpGraph *graph);

static int add_node(BpList *live, const BpGraphNode *node) {
  if (add_all(live, node->inputs, (size_t)node->num_inputs) ||
      add_all(live, node->outputs, (size_t)node->num_outputs))
    return -1;
  for (int32_t i = 0; i < node->num_attrs; i++)
    if (bp__live_add(live, node->attrs[i].tensor))
      return -1;
  for (int32_t i = 0; i < node->num_bodies; i++)
    if (add_graph(live, node->bodies[i]))
      return -1;
  return 0;
}

static int add_graph(BpList *live, const BpGraph *graph) {
  const BpList *lists[] = {&graph->nodes, &graph->sources};
  if (add_all(live, (BpGraphValue *const *)graph->inputs.items, graph->inputs.size) ||
      add_all(live, (BpGraphValue *const *)graph->outputs.items, graph->outputs.size))
    return -1;
  for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
    for (size_t i = 0; i < lists[l]->size; i++)
      if (add_node(live, lists[l]->items[i]))
        return -1;
  return 0;
}

static int compare_addresses(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
  return (x > y) - (x < y);
}

void bp__live_sort(BpList *live) {
  if (live->size > 1)
    qsort(live->items, live->size, sizeof(live->items[0]), compare_addresses);
}

int bp__live_of_graph(const BpGraph *graph, BpList *live) {
  int status = add_graph(live, graph);
  bp__live_sort(live);
  return status;
}

bool bp__live_has(const BpList *live, const void *memory, size_t size) {
  size_t low = 0, high = live->size;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)live->items[middle] < (uintptr_t)memory)
      low = middle + 1;
    else
      high = middle;
  }
  return low < live->size && (uintptr_t)live->items[low] - (uintptr_t)memory < size;
}

/* ---- Blocks ------------------------------------------------------------------------------ */

void *bp__graph_new_block(BpGraph *graph, int64_t bytes) {
  BpTensor *block = bp_tensor_create(&bytes, 1, BP__UINT8, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  while (graph->outer)
    graph = graph->outer;
  if (!block || bp__list_push(&graph->blocks, block)) {
    bp_tensor_release(block);
    return NULL;
  }
  return memset(block->view.data, 0, (size_t)bytes);
}

BpTensor *bp__graph_block(const BpGraph *graph, const BpGraphValue *constant) {
  for (size_t i = 0; i < graph->blocks.size; i++) {
    BpTensor *block = graph->blocks.items[i];
    if (block->view.data == constant->data && block->view.shape[0] == bp__value_num_bytes(constant))
      return block;
  }
  return NULL;
}

void bp__graph_release(BpGraph *graph, const BpList *live) {
  size_t kept = 0;
  for (size_t i = 0; i < graph->blocks.size; i++) {
    BpTensor *block = graph->blocks.items[i];
    if (bp__live_has(live, block->view.data, (size_t)block->view.shape[0]))
      graph->blocks.items[kept++] = block;
    else
      bp_tensor_release(block);
  }
  graph->blocks.size = kept;
}
