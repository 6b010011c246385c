/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies: graphs that nodes run. A body sees the names around it, and captures the values that it
 * reads, as further inputs of its node. */
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"
#include "graph/ops/control.h"

/* ---- Making ------------------------------------------------------------------------------ */

int bp__body_begin(const Scope *scope, Body *body) {
  *body = (Body){.graph = bp__graph_body(scope->import->graph), .outer = scope->body};
  body->known = g_hash_table_new(NULL, NULL);
  return body->graph ? 0 : -1;
}

void bp__body_clear(Body *body) {
  if (!body->known)
    return;
  for (size_t i = 0; i < body->twins.size; i++)
    bp__scope_close(body->twins.items[i]);
  bp__list_free(&body->twins);
  bp__list_free(&body->captured);
  g_hash_table_destroy(body->known);
  *body = (Body){0};
}

void bp__body_forget_unused(Body *body) {
  BpGraph *graph = body->graph;
  size_t kept = 0, first = graph->inputs.size - body->captured.size;
  bp__graph_remove_dead(graph);
  for (size_t i = 0; i < body->captured.size; i++) {
    BpGraphValue *inner = graph->inputs.items[first + i];
    if (inner->num_uses == 0)
      continue;
    graph->inputs.items[first + kept] = inner;
    body->captured.items[kept++] = body->captured.items[i];
  }
  graph->inputs.size = first + kept;
  body->captured.size = kept;
}

int bp__body_list_output(const Body *body, const BpGraphNode *named, BpGraphValue *value,
                         BpList *outputs) {
  if (value->sequence)
    value = bp__sequence_open(body->graph, named, value);
  return value ? bp__list_push(outputs, value) : -1;
}

/* ---- Types outside ----------------------------------------------------------------------- */

int64_t bp__body_new_symbol(BpGraph *graph, const char *name) {
  return bp__op_new_symbol(graph, &(BpGraphNode){.name = name});
}

int bp__body_is_local(const BpGraph *graph, int64_t extent, int32_t count) {
  int32_t now = bp__extents_count(&graph->extents);
  bool *marked = bp__extent_is_open(extent) ? g_new0(bool, (gsize)now + 1) : NULL;
  int found = 0;
  if (marked)
    bp__extent_mark_symbols(&graph->extents, extent, marked);
  for (int32_t i = count; i < now && marked; i++)
    found |= marked[i];
  g_free(marked);
  return found;
}

int64_t bp__body_outer_extent(BpGraph *graph, const char *name, int64_t extent, int32_t count) {
  return bp__body_is_local(graph, extent, count) ? bp__body_new_symbol(graph, name) : extent;
}

BpGraphSequence bp__body_outer_type(BpGraph *graph, const BpGraphValue *value, int32_t count) {
  BpGraphSequence type = {.is_open = true, .dtype = value->dtype, .ndim = value->ndim};
  if (value->sequence)
    type = *value->sequence;
  else
    memcpy(type.shape, value->shape, sizeof(type.shape));
  for (int32_t d = 0; d < type.ndim; d++)
    if (type.shape[d] != BP_EXTENT_NONE && bp__body_is_local(graph, type.shape[d], count))
      type.shape[d] = BP_EXTENT_NONE;
  return type;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

BpGraphNode *bp__body_make_node(BpGraph *graph, const BpOp *op, const char *name, BpList *inputs,
                                Body *const *bodies, int32_t num_bodies, int32_t num_outputs,
                                const BpGraphAttr *attrs, int32_t num_attrs) {
  BpGraph **graphs = bp__arena_alloc_array(&graph->arena, (size_t)num_bodies, sizeof(*graphs));
  for (int32_t b = 0; b < num_bodies; b++) {
    if (!graphs)
      return NULL;
    graphs[b] = bodies[b]->graph;
    for (size_t i = 0; i < bodies[b]->captured.size; i++)
      if (bp__list_push(inputs, bodies[b]->captured.items[i]))
        return NULL;
  }
  BpGraphNode *node = bp__graph_node(graph, op, name, (BpGraphValue **)inputs->items,
                                     (int32_t)inputs->size, num_outputs, attrs, num_attrs);
  if (!node || bp__list_push(&graph->nodes, node))
    return NULL;
  node->is_control = 1;
  node->bodies = graphs;
  node->num_bodies = num_bodies;
  return node;
}

void bp__body_keep_measured(const BpGraph *graph, BpGraphNode *node, int32_t count) {
  for (int32_t i = 0; i < node->num_outputs; i++)
    for (int32_t d = 0; d < node->outputs[i]->ndim && !node->outputs[i]->sequence; d++)
      if (bp__body_is_local(graph, node->outputs[i]->shape[d], count))
        node->is_kept = 1;
}

int bp__body_set_sequence(BpGraph *graph, BpGraphNode *node, int32_t index,
                          const BpGraphSequence *type) {
  BpGraphSequence *copy = bp__arena_alloc(&graph->arena, sizeof(*copy));
  if (!copy || bp__node_set_output(graph, node, index, BP__INT64, NULL, 0))
    return -1;
  *copy = *type;
  node->outputs[index]->sequence = copy;
  return 0;
}

BpGraphValue *bp__onnx_single(BpGraph *graph, const BpGraphNode *named, BpGraphValue *value,
                              BpDataType dtype, const char *complaint) {
  static const int64_t ones[BP_GRAPH_MAX_NDIM] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (value && !value->sequence && bp__dtype_equal(value->dtype, dtype))
    return bp__op_as_shape(graph, named, value, ones, complaint);
  bp__op_bad(named, "%s", complaint);
  return NULL;
}

/* ---- Subgraphs --------------------------------------------------------------------------- */

const OnnxGraph *bp__scope_read_graph(const Scope *scope, const OnnxNode *node, const char *name,
                                      const char *attribute_name) {
  const OnnxAttribute *attribute =
      bp__onnx_find_attribute(node->attribute, node->n_attribute, attribute_name);
  const OnnxGraph *graph = NULL;
  if (attribute && bp__scope_find_body(scope, attribute, &graph))
    return NULL;
  if (!graph)
    bp_error_raise(BP_ERROR_FORMAT, "node '%s' (%s) has no %s", name, node->op_type,
                   attribute_name);
  return graph;
}

const BpGraphNode *bp__onnx_name_node(Named *named, const OnnxNode *node, const char *name) {
  *named = (Named){.op = {.name = node->op_type}, .node = {.name = name}};
  named->node.op = &named->op;
  return &named->node;
}

static int name_inputs(Scope *inner, const OnnxGraph *onnx, const OnnxNode *node, const char *name,
                       BpGraphValue *const *inputs) {
  for (size_t i = 0; i < onnx->n_input; i++) {
    const OnnxValueInfo *info = onnx->input[i];
    if (!bp__onnx_check_name(info->name, "an input of a body"))
      return -1;
    if (inputs[i] && bp__onnx_check_type(info, inputs[i], "its body's input"))
      return bp_error_add_context("node '%s' (%s)", name, node->op_type);
    if (bp__scope_set(inner, info->name, inputs[i]))
      return -1;
  }
  return 0;
}

/* Lists the outputs of a subgraph. Sequences that a body outputs become open. */
static int list_outputs(Scope *inner, const OnnxNode *node, const char *name, const Body *body,
                        BpList *outputs) {
  Named named;
  bp__onnx_name_node(&named, node, name);
  for (size_t i = 0; i < inner->onnx->n_output; i++) {
    const char *output = bp__onnx_check_name(bp__scope_output(inner, i), "an output of a body");
    BpGraphValue *value = output ? bp__scope_find(inner, output) : NULL;
    if (!output)
      return -1;
    if (!value)
      return bp_error_raise(BP_ERROR_FORMAT, "node '%s' (%s): its body does not give '%s'", name,
                            node->op_type, output);
    if (body ? bp__body_list_output(body, &named.node, value, outputs)
             : bp__list_push(outputs, value))
      return -1;
  }
  return 0;
}

/* Adds the nodes of a subgraph, and lists its outputs. */
static int add_contents(Scope *inner, const OnnxNode *node, const char *name, const Body *body,
                        BpGraphValue *const *inputs, BpList *outputs) {
  if (name_inputs(inner, inner->onnx, node, name, inputs) || bp__scope_check_operators(inner) ||
      bp__scope_add_initializers(inner, inner->onnx))
    return -1;
  int status = bp__scope_add_nodes(inner);
  return status ? status : list_outputs(inner, node, name, body, outputs);
}

int bp__scope_add_subgraph(Scope *scope, const OnnxNode *node, const char *name,
                           const OnnxGraph *onnx, Body *body, BpGraphValue *const *inputs,
                           bool returns, BpList *outputs) {
  BpGraph *before = scope->import->graph;
  Scope inner;
  if (bp__scope_enter(scope, name, &inner))
    return -1;
  inner.outer = scope;
  inner.nodes = onnx->node;
  inner.num_nodes = onnx->n_node;
  inner.onnx = onnx;
  if (returns) {
    inner.caller = scope;
    inner.level = scope->level + 1;
  }
  if (body) {
    inner.body = body;
    scope->import->graph = body->graph;
  }
  bp__scope_open(&inner);
  int status = add_contents(&inner, node, name, body, inputs, outputs);
  scope->import->graph = before;
  bp__scope_close(&inner);
  return status;
}
