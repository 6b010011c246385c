/* SPDX-License-Identifier: Apache-2.0 */
/* Adds a copying node for each output of the graph that no node computes, and for outputs of nodes
 * that run bodies, which may return their inputs. */
#include <string.h>

#include "graph/build/build.h"
#include "graph/ops/control.h"

/* The value whose bytes a value uses. */
static const BpGraphValue *root(const BpGraphValue *value) {
  while (value->producer && value->producer->op->fusion == BP_FUSE_VIEW)
    value = value->producer->inputs[0];
  return value;
}

int bp__build_own_outputs(const BpBuild *build, BpGraph *graph) {
  (void)build;
  for (size_t i = 0; i < graph->outputs.size; i++) {
    BpGraphValue *value = graph->outputs.items[i];
    BpGraphNode *copy;
    BpDataType dtype = value->dtype;
    const BpGraphNode *producer = root(value)->producer;
    if (value->sequence || (producer && !bp__op_is_control(producer)))
      continue;
    BpGraphNode named = {.name = graph->output_names[i]};
    int64_t bytes = bp__value_num_bytes(value), shape[BP_GRAPH_MAX_NDIM];
    int32_t ndim = value->ndim;
    memcpy(shape, value->shape, sizeof(shape));
    if (bp__dtype_is_narrow(dtype))
      value = bp__op_view_as(graph, &named, value, BP__UINT8, &bytes, 1);
    if (!value)
      return -1;
    copy = bp__graph_node(graph, bp__op_find("backplane", "Copy"), graph->output_names[i], &value,
                          1, 1, NULL, 0);
    if (!copy || copy->op->infer(graph, copy) || bp__list_push(&graph->nodes, copy))
      return -1;
    value = copy->outputs[0];
    if (bp__dtype_is_narrow(dtype))
      value = bp__op_view_as(graph, &named, value, dtype, shape, ndim);
    if (!value)
      return -1;
    graph->outputs.items[i] = value;
  }
  bp__graph_remove_dead(graph);
  return 0;
}
