/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of the graph that no node computes get a node that copies. */
#include "graph/build/build.h"
#include "graph/ops/op.h"

/* The value whose bytes this one is. */
static const BpGraphValue *root(const BpGraphValue *value) {
  while (value->producer && value->producer->op->fusion == BP_FUSE_VIEW)
    value = value->producer->inputs[0];
  return value;
}

int bp__build_own_outputs(BpGraph *graph) {
  for (size_t i = 0; i < graph->outputs.size; i++) {
    BpGraphValue *value = graph->outputs.items[i];
    BpGraphNode *copy;
    if (root(value)->producer)
      continue;
    copy = bp__graph_node(graph, bp__op_find("backplane", "Copy"), graph->output_names[i], &value,
                          1, 1, NULL, 0);
    if (!copy || copy->op->infer(graph, copy) || bp__list_push(&graph->nodes, copy))
      return -1;
    graph->outputs.items[i] = copy->outputs[0];
  }
  bp__graph_remove_dead(graph);
  return 0;
}
