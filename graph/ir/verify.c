/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of graphs, which finds faults of passes. */
#include <stdlib.h>

#include <backplane/error.h>

#include "graph/ir/graph.h"

typedef struct Verifier {
  const BpGraph *graph;
  const BpGraphValue **known; /* inputs, constants and outputs of the nodes so far, by id */
} Verifier;

static int fault(const char *what, const BpGraphNode *node) {
  return bp_error_raise(BP_ERROR_RUNTIME, "node '%s': %s", node ? node->name : "", what);
}

static bool is_in_graph(const Verifier *verifier, const BpGraphValue *value) {
  return value && value->id >= 0 && value->id < verifier->graph->num_values;
}

/* Records a value; false if it, or another value with the same id, was recorded before. */
static bool add(const Verifier *verifier, const BpGraphValue *value) {
  if (verifier->known[value->id])
    return false;
  verifier->known[value->id] = value;
  return true;
}

/* Whether a node may read a value at its position. No node produces constants, whose shapes are
 * known, and vectors of extents. */
static bool is_readable(const Verifier *verifier, const BpGraphValue *value) {
  if (!is_in_graph(verifier, value))
    return false;
  bool is_constant = value->data && !bp__value_is_open(value);
  return verifier->known[value->id] == value ||
         ((is_constant || (value->extents && !value->producer)) && add(verifier, value));
}

static int verify_node(const Verifier *verifier, BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && !is_readable(verifier, node->inputs[i]))
      return fault("an input comes from no node before it", node);
  for (int32_t i = 0; i < node->num_outputs; i++) {
    const BpGraphValue *output = node->outputs[i];
    if (!is_in_graph(verifier, output))
      return fault("an output is not a value of the graph", node);
    if (output->producer != node)
      return fault("an output says that another node gives it", node);
    if (!add(verifier, output))
      return fault("an output was given before", node);
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
    if (!is_in_graph(verifier, input))
      return fault("an input of the graph is not a value of it", NULL);
    if (!add(verifier, input))
      return fault("an input of the graph was given before", NULL);
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
  Verifier verifier = {graph, calloc((size_t)graph->num_values + 1, sizeof(BpGraphValue *))};
  if (!verifier.known)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to verify a graph");
  int status = verify(&verifier);
  free(verifier.known);
  return status;
}
