/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of graphs, for faults of passes. */
#include <stdlib.h>

#include <backplane/error.h>

#include "graph/ir/graph.h"

typedef struct Verifier {
  const BpGraph *graph;
  bool *is_known; /* by id: the value is an input, or a node before gives it */
} Verifier;

static int fault(const char *what, const BpGraphNode *node) {
  return bp_error_raise(BP_ERROR_RUNTIME, "node '%s': %s", node ? node->name : "", what);
}

/* Whether a value can be read here. Constants and vectors of extents come from no node. */
static bool is_readable(const Verifier *verifier, const BpGraphValue *value) {
  return value->id >= 0 && value->id < verifier->graph->num_values &&
         (value->data || verifier->is_known[value->id] || (value->extents && !value->producer));
}

static int verify_node(const Verifier *verifier, BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && !is_readable(verifier, node->inputs[i]))
      return fault("an input comes from no node before it", node);
  for (int32_t i = 0; i < node->num_outputs; i++) {
    const BpGraphValue *output = node->outputs[i];
    if (!output || output->id < 0 || output->id >= verifier->graph->num_values)
      return fault("an output is not a value of the graph", node);
    if (output->producer != node)
      return fault("an output says that another node gives it", node);
    if (verifier->is_known[output->id])
      return fault("an output was given before", node);
    verifier->is_known[output->id] = true;
  }
  for (int32_t b = 0; b < node->num_bodies; b++)
    if (bp__graph_verify(node->bodies[b]))
      return bp_error_add_context("body %d of node '%s'", b, node->name);
  return 0;
}

static int verify(const Verifier *verifier) {
  const BpGraph *graph = verifier->graph;
  for (size_t i = 0; i < graph->inputs.size; i++) {
    const BpGraphValue *input = graph->inputs.items[i];
    if (input->id < 0 || input->id >= graph->num_values)
      return fault("an input of the graph is not a value of it", NULL);
    verifier->is_known[input->id] = true;
  }
  for (size_t i = 0; i < graph->nodes.size; i++)
    if (verify_node(verifier, graph->nodes.items[i]))
      return -1;
  for (size_t i = 0; i < graph->outputs.size; i++)
    if (!is_readable(verifier, graph->outputs.items[i]))
      return fault("no node gives an output of the graph", NULL);
  return 0;
}

int bp__graph_verify(const BpGraph *graph) {
  Verifier verifier = {graph, calloc((size_t)graph->num_values + 1, sizeof(bool))};
  if (!verifier.is_known)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to verify a graph");
  int status = verify(&verifier);
  free(verifier.is_known);
  return status;
}
