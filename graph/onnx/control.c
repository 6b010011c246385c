/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow: If, Loop and Scan become nodes with bodies (graph/ops/control.h). If the condition
 * of an If is a constant, the nodes of the chosen branch replace the If. A body sees the names
 * around it, and captures the values that it reads, as further inputs of its node. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"
#include "graph/ops/control.h"

/* ---- Bodies ------------------------------------------------------------------------------ */

/* Makes a value in a body with the type and shape of a value outside it. */
static BpGraphValue *twin(BpGraph *graph, const BpGraphValue *value) {
  BpGraphValue *copy = bp__graph_value(graph, value->name, value->dtype, value->shape, value->ndim);
  if (copy) {
    copy->data = value->data;
    copy->extents = value->extents;
    copy->sequence = value->sequence;
  }
  return copy;
}

/* Captures a settled sequence: makes a sequence of the body's values that capture the tensors of
 * the given sequence. */
static BpGraphValue *capture_sequence(Body *body, const BpGraphValue *value) {
  const BpGraphSequence *from = value->sequence;
  BpGraphValue *copy = bp__graph_sequence(body->graph, value->name, from->count);
  if (!copy)
    return NULL;
  copy->sequence->is_none = from->is_none;
  copy->sequence->dtype = from->dtype;
  for (int32_t i = 0; i < from->count; i++)
    if (!(copy->sequence->items[i] = bp__body_capture(body, from->items[i])))
      return NULL;
  return copy;
}

BpGraphValue *bp__body_capture(Body *body, BpGraphValue *value) {
  BpGraphValue *known = g_hash_table_lookup(body->known, value);
  if (known)
    return known;
  bool is_settled = value->sequence && !value->sequence->is_open;
  known = is_settled ? capture_sequence(body, value) : twin(body->graph, value);
  if (!known)
    return NULL;
  if (!known->data && !is_settled &&
      (bp__list_push(&body->captured, value) || bp__list_push(&body->graph->inputs, known)))
    return NULL;
  g_hash_table_insert(body->known, value, known);
  return known;
}

static void clear_body(Body *body) {
  bp__list_free(&body->captured);
  g_hash_table_destroy(body->known);
}

/* Begins a body of a node of the graph to which the scope adds nodes. */
static int begin_body(const Scope *scope, Body *body) {
  *body = (Body){.graph = bp__graph_body(scope->import->graph)};
  body->known = g_hash_table_new(NULL, NULL);
  return body->graph ? 0 : -1;
}

static BpGraphValue *add_body_input(Body *body, const char *name, BpDataType dtype,
                                    const int64_t *shape, int32_t ndim) {
  BpGraphValue *value = bp__graph_value(body->graph, name, dtype, shape, ndim);
  return value && !bp__list_push(&body->graph->inputs, value) ? value : NULL;
}

/* Removes unused nodes and unused captured inputs of a body; the other inputs stay. */
static void forget_unused(Body *body) {
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

/* A stand-in for a node of the model in errors. */
typedef struct Named {
  BpOp op;
  BpGraphNode node;
} Named;

static const BpGraphNode *name_node(Named *named, const OnnxNode *node, const char *name) {
  *named = (Named){.op = {.name = node->op_type}, .node = {.name = name}};
  named->node.op = &named->op;
  return &named->node;
}

/* Lists an output of a body. A sequence becomes open. */
static int list_output(Scope *inner, const char *output, const OnnxNode *node, const char *name,
                       const Body *body, BpList *outputs) {
  Named named;
  if (!bp__onnx_check_name(output, "an output of a body"))
    return -1;
  BpGraphValue *value = bp__scope_find(inner, output);
  if (!value)
    return bp_error_raise(BP_ERROR_FORMAT, "node '%s' (%s): its body does not give '%s'", name,
                          node->op_type, output);
  if (value->sequence && body)
    value = bp__sequence_open(body->graph, name_node(&named, node, name), value);
  return value ? bp__list_push(outputs, value) : -1;
}

/* Adds the nodes of a subgraph whose inputs are already named, and lists the subgraph's outputs.
 * Nodes inside a body produce open sequences. */
static int add_contents(Scope *inner, const OnnxGraph *onnx, const OnnxNode *node, const char *name,
                        const Body *body, BpList *outputs) {
  if (bp__scope_check_operators(inner) || bp__scope_add_initializers(inner, onnx) ||
      bp__scope_add_nodes(inner))
    return -1;
  for (size_t i = 0; i < onnx->n_output; i++)
    if (list_output(inner, onnx->output[i]->name, node, name, body, outputs))
      return -1;
  return 0;
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

int bp__scope_add_subgraph(Scope *scope, const OnnxNode *node, const char *name,
                           const OnnxGraph *onnx, Body *body, BpGraphValue *const *inputs,
                           BpList *outputs) {
  BpGraph *before = scope->import->graph;
  Scope inner;
  if (bp__scope_enter(scope, name, &inner))
    return -1;
  inner.outer = scope;
  inner.nodes = onnx->node;
  inner.num_nodes = onnx->n_node;
  inner.onnx = onnx;
  if (bp__scope_create_names(&inner, onnx->n_initializer + onnx->n_input))
    return -1;
  if (body) {
    inner.body = body;
    scope->import->graph = body->graph;
  }
  int status = name_inputs(&inner, onnx, node, name, inputs);
  if (!status)
    status = add_contents(&inner, onnx, node, name, body, outputs);
  scope->import->graph = before;
  hdestroy_r(&inner.values);
  return status;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

static int64_t new_symbol(BpGraph *graph, const char *name) {
  return bp__op_new_symbol(graph, &(BpGraphNode){.name = name});
}

/* Whether an extent contains a symbol that is newer than the first `count` expressions: an extent
 * with a new symbol has no meaning outside the body that was imported since. */
static int is_local(const BpGraph *graph, int64_t extent, int32_t count) {
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

/* Keeps a node if symbols get their values from the shapes of its outputs. */
static void keep_measured(const BpGraph *graph, BpGraphNode *node, int32_t count) {
  for (int32_t i = 0; i < node->num_outputs; i++)
    for (int32_t d = 0; d < node->outputs[i]->ndim && !node->outputs[i]->sequence; d++)
      if (is_local(graph, node->outputs[i]->shape[d], count))
        node->is_kept = 1;
}

/* The extent outside the body; an extent without meaning there is bound to a new symbol. */
static int64_t outer_extent(BpGraph *graph, const char *name, int64_t extent, int32_t count) {
  return is_local(graph, extent, count) ? new_symbol(graph, name) : extent;
}

static int check_can_control(const Scope *scope, const OnnxNode *node, const char *name) {
  if (bp__graph_can_control(scope->import->graph))
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "node '%s' (%s): control flow needs one --target; compile the model for "
                        "each target by itself",
                        name, node->op_type);
}

static int add_values(Scope *scope, const OnnxNode *node, BpGraphValue *const *values) {
  for (size_t i = 0; i < node->n_output; i++)
    if (!is_empty(node->output[i]) && bp__scope_add(scope, node->output[i], values[i]))
      return -1;
  return 0;
}

/* Makes a node whose inputs are the listed inputs and the values that its bodies capture. */
static BpGraphNode *make_control(BpGraph *graph, const BpOp *op, const char *name, BpList *inputs,
                                 Body *bodies, int32_t num_bodies, int32_t num_outputs,
                                 const BpGraphAttr *attrs, int32_t num_attrs) {
  BpGraph **graphs = bp__arena_alloc_array(&graph->arena, (size_t)num_bodies, sizeof(*graphs));
  for (int32_t b = 0; b < num_bodies; b++) {
    if (!graphs)
      return NULL;
    graphs[b] = bodies[b].graph;
    for (size_t i = 0; i < bodies[b].captured.size; i++)
      if (bp__list_push(inputs, bodies[b].captured.items[i]))
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

/* ---- If ---------------------------------------------------------------------------------- */

static const OnnxGraph *read_branch(const Scope *scope, const OnnxNode *node, const char *name,
                                    int is_then) {
  const OnnxGraph *onnx =
      bp__scope_read_graph(scope, node, name, is_then ? "then_branch" : "else_branch");
  if (!onnx || (onnx->n_input == 0 && onnx->n_output == node->n_output))
    return onnx;
  bp_error_raise(BP_ERROR_FORMAT,
                 "node '%s' (If): a branch has %zu inputs and %zu outputs instead of 0 and %zu",
                 name, onnx->n_input, onnx->n_output, node->n_output);
  return NULL;
}

static int add_branch(Scope *scope, const OnnxNode *node, const char *name, int is_then, Body *body,
                      BpList *outputs) {
  const OnnxGraph *onnx = read_branch(scope, node, name, is_then);
  return onnx ? bp__scope_add_subgraph(scope, node, name, onnx, body, NULL, outputs) : -1;
}

/* Computes both branches and selects the outputs of one, for an artifact of several targets. */
static BpGraphValue *select_output(BpGraph *graph, const char *name, BpGraphValue *condition,
                                   BpGraphValue *then, BpGraphValue *otherwise) {
  char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
  if (then->sequence || otherwise->sequence) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "node '%s' (If): its condition depends on the data, and its branches give a "
                   "sequence or an optional, which needs one --target",
                   name);
    return NULL;
  }
  if (!bp__dtype_equal(then->dtype, otherwise->dtype) || !bp__value_same_shape(then, otherwise)) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "node '%s' (If): its condition depends on the data, and its branches give %s "
                   "and %s, which differ in type or shape; that needs one --target",
                   name, bp__value_format(then, a), bp__value_format(otherwise, b));
    return NULL;
  }
  return bp__op_apply(graph, "", "Where", name, (BpGraphValue *[]){condition, then, otherwise}, 3,
                      NULL, 0);
}

static int add_both(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue *condition,
                    BpList *outputs, BpList *others) {
  BpGraph *graph = scope->import->graph;
  BpGraphValue *shape[] = {condition, bp__graph_int_vector(graph, NULL, 0)};
  if (add_branch(scope, node, name, 1, NULL, outputs) ||
      add_branch(scope, node, name, 0, NULL, others))
    return bp_error_add_context("node '%s' (If) has a condition that depends on the data, so both "
                                "of its branches have to work",
                                name);
  condition = bp__op_apply(graph, "", "Reshape", name, shape, 2, NULL, 0);
  for (size_t i = 0; condition && i < outputs->size; i++)
    if (!(outputs->items[i] =
              select_output(graph, name, condition, outputs->items[i], others->items[i])))
      return -1;
  return condition ? 0 : -1;
}

/* The type of a sequence or tensor outside a body; an extent without meaning there may have any
 * value. */
static BpGraphSequence outer_type(BpGraph *graph, const BpGraphValue *value, int32_t count) {
  BpGraphSequence type = {.is_open = true, .dtype = value->dtype, .ndim = value->ndim};
  if (value->sequence)
    type = *value->sequence;
  else
    memcpy(type.shape, value->shape, sizeof(type.shape));
  for (int32_t d = 0; d < type.ndim; d++)
    if (type.shape[d] != BP_EXTENT_NONE && is_local(graph, type.shape[d], count))
      type.shape[d] = BP_EXTENT_NONE;
  return type;
}

/* Makes an output of a node a sequence of a given type. */
static int set_sequence_output(BpGraph *graph, BpGraphNode *node, int32_t index,
                               const BpGraphSequence *type) {
  BpGraphSequence *copy = bp__arena_alloc(&graph->arena, sizeof(*copy));
  if (!copy || bp__node_set_output(graph, node, index, BP__INT64, NULL, 0))
    return -1;
  *copy = *type;
  node->outputs[index]->sequence = copy;
  return 0;
}

/* Makes an output of If that is a sequence or an optional in both branches. */
static int set_branch_sequence(BpGraph *graph, BpGraphNode *node, int32_t index, int32_t count) {
  BpGraphSequence type = outer_type(graph, node->bodies[0]->outputs.items[index], count);
  BpGraphSequence other = outer_type(graph, node->bodies[1]->outputs.items[index], count);
  return bp__sequence_join(node, &type, &other) < 0
             ? -1
             : set_sequence_output(graph, node, index, &type);
}

/* If an output is an optional in one branch, makes the other branch's output an optional, too. */
static int open_optionals(const BpGraphNode *named, const Body *bodies) {
  BpList *outputs[] = {&bodies[0].graph->outputs, &bodies[1].graph->outputs};
  for (size_t i = 0; i < outputs[0]->size; i++)
    for (int32_t b = 0; b < 2; b++) {
      const BpGraphValue *one = outputs[b]->items[i];
      BpGraphValue **other = (BpGraphValue **)&outputs[1 - b]->items[i];
      if (bp__is_optional(one) && !bp__is_optional(*other) &&
          !(*other = bp__sequence_make_optional(bodies[1 - b].graph, named, *other)))
        return -1;
    }
  return 0;
}

/* Makes an output of If whose type holds for both branches: extents that differ between the
 * branches are bound after the branch has run. */
static int set_branch_output(BpGraph *graph, BpGraphNode *node, int32_t index, int32_t count) {
  const BpGraphValue *then = node->bodies[0]->outputs.items[index];
  const BpGraphValue *otherwise = node->bodies[1]->outputs.items[index];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
  if (!then->sequence != !otherwise->sequence)
    return bp__op_bad(node, "it gives a tensor in one case and a sequence in another");
  if (then->sequence)
    return set_branch_sequence(graph, node, index, count);
  if (!bp__dtype_equal(then->dtype, otherwise->dtype) || then->ndim != otherwise->ndim)
    return bp__op_error(node,
                        "its condition depends on the data, and its branches give %s and %s, which "
                        "differ in type or number of dimensions",
                        bp__value_format(then, a), bp__value_format(otherwise, b));
  for (int32_t d = 0; d < then->ndim; d++)
    shape[d] = then->shape[d] == otherwise->shape[d]
                   ? outer_extent(graph, node->name, then->shape[d], count)
                   : new_symbol(graph, node->name);
  return bp__node_set_output(graph, node, index, then->dtype, shape, then->ndim);
}

/* Replaces a branch by one that fails. The new branch's outputs have the types of the other
 * branch's outputs. */
static int make_failing(const Scope *scope, const BpGraphNode *named, const char *error, Body *body,
                        const Body *other, int32_t count) {
  BpGraph *graph = scope->import->graph;
  const BpList *outputs = &other->graph->outputs;
  clear_body(body);
  if (begin_body(scope, body))
    return -1;
  for (size_t i = 0; i < outputs->size; i++) {
    const BpGraphValue *like = outputs->items[i];
    const BpGraphSequence type = outer_type(graph, like, count);
    BpGraphValue *value =
        bp__sequence_fail(body->graph, named, error, &type, like->sequence != NULL);
    if (!value || bp__list_push(&body->graph->outputs, value))
      return -1;
  }
  return 0;
}

/* An If whose condition depends on the data. */
typedef struct Branching {
  Scope *scope;
  const OnnxNode *node;
  const char *name;
  BpGraphValue *condition;
  int32_t count;  /* of the expressions of extents before it */
  bool has_rest;  /* whether the branches contain the rest of the scope's nodes */
  BpList results; /* names of the outputs */
  Body bodies[2];
} Branching;

/* Lists the names that a scope has to give, and that it does not know yet. */
static int list_results(Branching *b) {
  const OnnxGraph *onnx = b->scope->onnx;
  const OnnxFunction *function = b->scope->function;
  size_t count = onnx ? onnx->n_output : function ? function->n_output : 0;
  b->results.size = 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = onnx ? onnx->output[i]->name : function->output[i];
    bool is_known = is_empty(name) || bp__scope_find(b->scope, name);
    for (size_t k = 0; k < b->results.size && !is_known; k++)
      is_known = !strcmp(b->results.items[k], name);
    if (!is_known && bp__list_push(&b->results, (char *)(uintptr_t)name))
      return -1;
  }
  return 0;
}

/* Adds the rest of the scope's nodes to a branch, behind its own nodes, which give `values`. */
static int add_rest(const Branching *b, Body *body, const BpList *values) {
  Scope *scope = b->scope, rest;
  BpGraph *before = scope->import->graph;
  if (bp__scope_enter(scope, b->name, &rest))
    return -1;
  rest.path = scope->path;
  rest.outer = scope;
  rest.body = body;
  rest.nodes = scope->rest;
  rest.num_nodes = scope->num_rest;
  rest.onnx = scope->onnx;
  rest.function = scope->function;
  if (bp__scope_create_names(&rest, b->node->n_output))
    return -1;
  scope->import->graph = body->graph;
  int status =
      add_values(&rest, b->node, (BpGraphValue **)values->items) || bp__scope_add_nodes(&rest) ? -1
                                                                                               : 0;
  for (size_t i = 0; i < b->results.size && !status; i++)
    status = list_output(&rest, b->results.items[i], b->node, b->name, body, &body->graph->outputs);
  scope->import->graph = before;
  hdestroy_r(&rest.values);
  return status;
}

static int add_body(Branching *b, int32_t index) {
  Body *body = &b->bodies[index];
  BpList values = {0}, *outputs = b->has_rest ? &values : &body->graph->outputs;
  int status = add_branch(b->scope, b->node, b->name, index == 0, body, outputs);
  if (!status && b->has_rest)
    status = add_rest(b, body, &values);
  bp__list_free(&values);
  return status;
}

/* Imports both branches. One of them may contain nodes that fail in each run, because no run takes
 * it, for example behind an OptionalHasElement: the run that takes the branch fails. */
static int add_bodies(Branching *b) {
  Import *import = b->scope->import;
  const char *failing = NULL;
  int32_t failed = -1;
  Named named;
  for (int32_t i = 0; i < 2; i++) {
    import->failing = NULL;
    if (begin_body(b->scope, &b->bodies[i]))
      return -1;
    if (!add_body(b, i))
      continue;
    if (bp_error_is(BP_ERROR_VALUE) || bp_error_is(BP_ERROR_MEMORY))
      return -1; /* a limit, which no branch is to blame for */
    if (!import->failing || failed >= 0)
      return bp_error_add_context("node '%s' (If) has a condition that depends on the data, so "
                                  "both of its branches have to work",
                                  b->name);
    failing = import->failing;
    failed = i;
    bp_error_clear();
  }
  import->failing = NULL;
  return failed < 0 ? 0
                    : make_failing(b->scope, name_node(&named, b->node, b->name), failing,
                                   &b->bodies[failed], &b->bodies[1 - failed], b->count);
}

static void clear_bodies(Branching *b) {
  for (int32_t i = 0; i < 2; i++) {
    if (b->bodies[i].known)
      clear_body(&b->bodies[i]);
    b->bodies[i] = (Body){0};
  }
}

/* Whether an output is a tensor with another number of dimensions in each branch. */
static bool differ_in_rank(const Branching *b) {
  const BpList *thens = &b->bodies[0].graph->outputs, *others = &b->bodies[1].graph->outputs;
  for (size_t i = 0; i < thens->size; i++) {
    const BpGraphValue *then = thens->items[i], *otherwise = others->items[i];
    if (!then->sequence && !otherwise->sequence && then->ndim != otherwise->ndim)
      return true;
  }
  return false;
}

/* Imports both branches. Each node is computed for one number of dimensions, so if that of an
 * output depends on the branch, the nodes behind the If move into both branches. */
static int import_branches(Branching *b) {
  for (size_t i = 0; i < b->node->n_output; i++)
    if (bp__list_push(&b->results, b->node->output[i]))
      return -1;
  if (add_bodies(b))
    return -1;
  if (!differ_in_rank(b) || b->scope->num_rest == 0)
    return 0;
  clear_bodies(b);
  b->has_rest = true;
  return list_results(b) || add_bodies(b) ? -1 : 0;
}

/* Makes the node of both branches. */
static BpGraphNode *join_branches(Branching *b) {
  BpGraph *graph = b->scope->import->graph;
  int32_t num_outputs = (int32_t)b->results.size;
  BpList inputs = {0};
  BpGraphNode *branch = NULL;
  Named named;
  if (!open_optionals(name_node(&named, b->node, b->name), b->bodies)) {
    forget_unused(&b->bodies[0]);
    forget_unused(&b->bodies[1]);
    if (!bp__list_push(&inputs, b->condition))
      branch =
          make_control(graph, &bp__op_branch, b->name, &inputs, b->bodies, 2, num_outputs, NULL, 0);
  }
  bp__list_free(&inputs);
  for (int32_t i = 0; branch && i < num_outputs; i++)
    if (set_branch_output(graph, branch, i, b->count))
      return NULL;
  if (branch)
    keep_measured(graph, branch, b->count);
  return branch;
}

/* Adds a node with both branches, for a condition that depends on the data. Returns 1 if they
 * contain the rest of the scope's nodes, too. */
static int add_branches(Scope *scope, const OnnxNode *node, const char *name,
                        BpGraphValue *condition) {
  Branching b = {.scope = scope,
                 .node = node,
                 .name = name,
                 .condition = condition,
                 .count = bp__extents_count(&scope->import->graph->extents)};
  BpGraphNode *branch = import_branches(&b) ? NULL : join_branches(&b);
  int status = branch ? b.has_rest : -1;
  for (size_t i = 0; status >= 0 && i < b.results.size; i++)
    if (!is_empty(b.results.items[i]) &&
        bp__scope_add(scope, b.results.items[i], branch->outputs[i]))
      status = -1;
  clear_bodies(&b);
  bp__list_free(&b.results);
  return status;
}

static int add_if(Scope *scope, const OnnxNode *node, const char *name) {
  BpGraphValue *condition = NULL;
  BpList outputs = {0}, others = {0};
  int status;
  if (node->n_input == 1 && bp__scope_read_inputs(scope, node, name, &condition))
    return -1;
  if (!condition || !bp__dtype_equal(condition->dtype, BP__BOOL) ||
      bp__value_num_elements(condition) != 1)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "node '%s' (If): its condition is no bool of one element", name);
  if (!condition->data && bp__graph_can_control(scope->import->graph))
    return add_branches(scope, node, name, condition);
  if (condition->data)
    status = add_branch(scope, node, name, bp__value_get_int(condition, 0) != 0, NULL, &outputs);
  else
    status = add_both(scope, node, name, condition, &outputs, &others);
  if (!status)
    status = add_values(scope, node, (BpGraphValue **)outputs.items);
  bp__list_free(&outputs);
  bp__list_free(&others);
  return status;
}

/* ---- Loops ------------------------------------------------------------------------------- */

/* The common parts of Loop and Scan. */
typedef struct Looping {
  Scope *scope;
  const OnnxNode *node;
  const char *name;
  const OnnxGraph *onnx;
  BpGraphValue *trip, *condition; /* NULL if absent */
  BpGraphValue *const *initial;   /* initial values of the carried values */
  size_t num_carried, num_stacks;
  int64_t (*shapes)[BP_GRAPH_MAX_NDIM]; /* shapes that the carried values have in any iteration */
  BpGraphSequence *types;               /* types that carried sequences have in any iteration */
  int64_t *is_backward;                 /* whether each stack is filled backwards */
  /* For Scan: the tensors; the body gets one element of each in each iteration. */
  BpGraphValue *const *scanned;
  size_t num_scanned;
  int64_t *axes, *are_backward; /* axes and directions of the scanned tensors */
  int is_scan;                  /* whether the node is a Scan or SequenceMap */
  int is_map;
  int32_t count; /* number of expressions before the body */
} Looping;

static const char *input_name(const Looping *l, size_t index) {
  const char *name = l->onnx->input[index]->name;
  return is_empty(name) ? l->name : name;
}

/* Zeros of the shape of an element of a tensor. */
static BpGraphValue *no_element(const Looping *l, Body *body, const BpGraphValue *in,
                                int64_t axis) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim = 0;
  for (int32_t i = 0; i < in->ndim; i++)
    if (i != axis)
      shape[ndim++] = in->shape[i];
  BpGraphValue *parts[] = {bp__graph_constant(body->graph, l->name, in->dtype, NULL, 0, NULL),
                           bp__graph_int_vector(body->graph, shape, ndim)};
  return bp__op_apply(body->graph, "", "Expand", l->name, parts, 2, NULL, 0);
}

/* The element of a scanned tensor in an iteration. The body of a scan over a tensor without
 * elements never runs. */
static BpGraphValue *scanned_element(const Looping *l, Body *body, BpGraphValue *iteration,
                                     size_t index) {
  BpGraphNode named = {.name = l->name};
  BpGraphValue *in = bp__body_capture(body, l->scanned[index]), *last = NULL;
  if (l->is_map) {
    Named map;
    return in && in->sequence
               ? bp__sequence_at(body->graph, name_node(&map, l->node, l->name), in, iteration)
               : in;
  }
  if (in && in->shape[l->axes[index]] == 0)
    return no_element(l, body, in, l->axes[index]);
  BpGraphAttr axis = bp__attr_int(body->graph, "axis", l->axes[index]);
  if (l->are_backward[index]) {
    last = bp__graph_constant(body->graph, "last", BP__INT64, NULL, 0, NULL);
    if (last)
      *(int64_t *)bp__graph_constant_data(last) = -1;
    iteration = bp__op_binary(body->graph, &named, "Sub", last, iteration);
  }
  return bp__op_apply(body->graph, "", "Gather", l->name, (BpGraphValue *[]){in, iteration}, 2,
                      &axis, 1);
}

/* Makes the values of the body's inputs; one is NULL after an error. The body runs only while the
 * condition is true, so the condition is the constant true in the body. */
static int make_body_inputs(const Looping *l, Body *body, BpGraphValue **inputs) {
  static const uint8_t holds = 1;
  BpGraphValue *iteration = add_body_input(body, l->name, BP__INT64, NULL, 0);
  size_t first = l->is_scan ? 0 : 2;
  if (!iteration)
    return -1;
  if (!l->is_scan) {
    inputs[0] = iteration;
    inputs[1] = bp__graph_value(body->graph, input_name(l, 1), BP__BOOL, NULL, 0);
    if (!inputs[1])
      return -1;
    inputs[1]->data = &holds;
  }
  for (size_t i = 0; i < l->num_carried; i++) {
    const char *name = l->is_map ? l->name : input_name(l, first + i);
    BpGraphValue *value = l->initial[i]->sequence
                              ? bp__sequence_value(body->graph, name, &l->types[i])
                              : bp__graph_value(body->graph, name, l->initial[i]->dtype,
                                                l->shapes[i], l->initial[i]->ndim);
    if (!value || bp__list_push(&body->graph->inputs, value))
      return -1;
    if (!l->is_map)
      inputs[first + i] = value;
  }
  first += l->is_map ? 0 : l->num_carried;
  for (size_t i = 0; i < l->num_scanned; i++)
    if (!(inputs[first + i] = scanned_element(l, body, iteration, i)))
      return -1;
  return 0;
}

/* For SequenceMap: inserts the outputs of an iteration into the sequences that the iteration
 * got. */
static int insert_elements(const Looping *l, const Body *body) {
  Named named;
  name_node(&named, l->node, l->name);
  for (size_t i = 0; i < l->num_carried; i++) {
    BpGraphValue **output = (BpGraphValue **)&body->graph->outputs.items[i];
    if ((*output)->sequence)
      return bp__op_error(&named.node, "its body gives a sequence");
    if (!(*output = bp__sequence_insert(body->graph, &named.node, body->graph->inputs.items[1 + i],
                                        *output, NULL)))
      return -1;
  }
  return 0;
}

/* Widens the type of a carried sequence to the type of the body's output, as open_changing does for
 * tensors. */
static int widen_type(const Looping *l, const Body *body, size_t index, BpGraphValue **next) {
  Named named;
  name_node(&named, l->node, l->name);
  if (l->types[index].is_optional && !bp__is_optional(*next))
    *next = bp__sequence_make_optional(body->graph, &named.node, *next);
  if (!*next)
    return -1;
  if (!(*next)->sequence || !l->initial[index]->sequence)
    return bp__op_bad(&named.node,
                      "carried value %zu is a sequence or an optional at first or after an "
                      "iteration, and a tensor in the other case",
                      index);
  const BpGraphSequence type = outer_type(l->scope->import->graph, *next, l->count);
  return bp__sequence_join(&named.node, &l->types[index], &type);
}

/* Compares the body's outputs with the carried values that the iteration got: extents that may
 * change become symbols. Returns the number of changed extents, or -1 with an error. */
static int open_changing(const Looping *l, const Body *body) {
  BpGraph *graph = l->scope->import->graph;
  size_t first = l->is_scan ? 0 : 1;
  int changed = 0;
  for (size_t i = 0; i < l->num_carried; i++) {
    const BpGraphValue *next = body->graph->outputs.items[first + i], *from = l->initial[i];
    char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
    if (next->sequence || from->sequence) {
      int widened = widen_type(l, body, i, (BpGraphValue **)&body->graph->outputs.items[first + i]);
      if (widened < 0)
        return -1;
      changed += widened;
      continue;
    }
    if (!bp__dtype_equal(next->dtype, from->dtype) || next->ndim != from->ndim)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "node '%s' (%s): carried value %zu is %s at first and %s after an "
                            "iteration; its type and number of dimensions must not change",
                            l->name, l->node->op_type, i, bp__value_format(from, a),
                            bp__value_format(next, b));
    for (int32_t d = 0; d < next->ndim; d++) {
      if (next->shape[d] == l->shapes[i][d] || is_local(graph, l->shapes[i][d], l->count))
        continue;
      l->shapes[i][d] = new_symbol(graph, l->name);
      if (l->shapes[i][d] == BP_EXTENT_NONE)
        return -1;
      changed++;
    }
  }
  return changed;
}

/* Imports the body again until the extents of carried values no longer change. */
static int fill_body(const Looping *l, Body *body) {
  BpGraphValue **inputs = g_new0(BpGraphValue *, l->onnx->n_input + 1);
  int changed = 1;
  while (changed > 0) {
    changed = -1;
    if (begin_body(l->scope, body) == 0 && make_body_inputs(l, body, inputs) == 0 &&
        bp__scope_add_subgraph(l->scope, l->node, l->name, l->onnx, body, inputs,
                               &body->graph->outputs) == 0 &&
        (!l->is_map || insert_elements(l, body) == 0))
      changed = open_changing(l, body);
    if (changed > 0)
      clear_body(body);
  }
  g_free(inputs);
  return changed;
}

/* Whether a condition is certainly true; NULL is an absent condition, which is true. */
static int is_surely(const BpGraphValue *condition) {
  return !condition || (condition->data && bp__value_get_int(condition, 0) != 0);
}

/* Moves the condition behind the body's other outputs; removes it if it is always true. */
static int move_condition(const Looping *l, Body *body, int *has_condition) {
  BpList *outputs = &body->graph->outputs;
  BpGraphValue *condition = NULL;
  if (!l->is_scan) {
    condition = outputs->items[0];
    if (condition->sequence || !bp__dtype_equal(condition->dtype, BP__BOOL) ||
        bp__value_num_elements(condition) != 1)
      return bp_error_raise(BP_ERROR_FORMAT,
                            "node '%s' (Loop): the condition that its body gives is no bool of one "
                            "element",
                            l->name);
    memmove(outputs->items, outputs->items + 1, (outputs->size - 1) * sizeof(*outputs->items));
    outputs->size--;
  }
  *has_condition = !is_surely(condition) || !is_surely(l->condition);
  return *has_condition ? bp__list_push(outputs, condition) : 0;
}

/* The number of elements of a stack. */
static int64_t count_of(const Looping *l, int has_condition) {
  BpGraph *graph = l->scope->import->graph;
  const BpGraphValue *trip = l->trip;
  if (has_condition || !trip || (!trip->data && !trip->extents))
    return new_symbol(graph, l->name);
  int64_t count = trip->data ? bp__value_get_int(trip, 0) : trip->extents[0];
  return bp__extent_max(&graph->extents, count, 0);
}

static int set_loop_outputs(const Looping *l, const Body *body, BpGraphNode *node,
                            int has_condition) {
  BpGraph *graph = l->scope->import->graph;
  for (int32_t i = 0; i < node->num_outputs; i++) {
    const BpGraphValue *value = body->graph->outputs.items[i];
    int64_t shape[BP_GRAPH_MAX_NDIM + 1];
    int32_t is_stack = (size_t)i >= l->num_carried;
    if (is_stack && value->sequence)
      return bp__op_bad(node, "output %d would be a stack of sequences", i);
    if (value->sequence) {
      if (set_sequence_output(graph, node, i, &l->types[i]))
        return -1;
      continue;
    }
    if (is_stack && value->dtype.bits < 8)
      return bp__op_error(node, "output %d has elements of less than a byte, which do not stack",
                          i);
    if (is_stack)
      shape[0] = count_of(l, has_condition);
    for (int32_t d = 0; d < value->ndim; d++)
      shape[is_stack + d] =
          outer_extent(graph, l->name, is_stack ? value->shape[d] : l->shapes[i][d], l->count);
    if (bp__node_set_output(graph, node, i, value->dtype, shape, value->ndim + is_stack))
      return -1;
  }
  keep_measured(graph, node, l->count);
  return 0;
}

static BpGraphNode *make_loop(const Looping *l, Body *body, BpList *inputs) {
  BpGraph *graph = l->scope->import->graph;
  int has_condition, status = 0;
  if (fill_body(l, body) || move_condition(l, body, &has_condition))
    return NULL;
  forget_unused(body);
  const BpGraphAttr attrs[] = {bp__attr_int(graph, "carried", (int64_t)l->num_carried),
                               bp__attr_int(graph, "condition", has_condition),
                               bp__attr_int(graph, "counted", l->trip && !has_condition),
                               bp__attr_ints("backward", l->is_backward, (int32_t)l->num_stacks)};
  status |= bp__list_push(inputs, l->trip);
  status |= bp__list_push(inputs, has_condition && !is_surely(l->condition) ? l->condition : NULL);
  for (size_t i = 0; i < l->num_carried; i++)
    status |= bp__list_push(inputs, l->initial[i]);
  BpGraphNode *node = status ? NULL
                             : make_control(graph, &bp__op_loop, l->name, inputs, body, 1,
                                            (int32_t)(l->num_carried + l->num_stacks), attrs, 4);
  return node && !set_loop_outputs(l, body, node, has_condition) ? node : NULL;
}

static int check_initial(const Looping *l) {
  for (size_t i = 0; i < l->num_carried; i++)
    if (!l->initial[i])
      return bp_error_raise(BP_ERROR_FORMAT, "node '%s' (%s): carried value %zu is missing",
                            l->name, l->node->op_type, i);
  return 0;
}

/* Adds the node of a loop after importing its body. */
static BpGraphNode *add_looping(Looping *l) {
  BpArena *arena = &l->scope->import->graph->arena;
  BpList inputs = {0};
  Body body = {0};
  l->count = bp__extents_count(&l->scope->import->graph->extents);
  l->shapes = bp__arena_alloc_array(arena, l->num_carried + 1, sizeof(*l->shapes));
  l->types = bp__arena_alloc_array(arena, l->num_carried + 1, sizeof(*l->types));
  for (size_t i = 0; l->shapes && l->types && i < l->num_carried; i++) {
    memcpy(l->shapes[i], l->initial[i]->shape, sizeof(l->shapes[i]));
    if (l->initial[i]->sequence)
      l->types[i] = *l->initial[i]->sequence;
  }
  BpGraphNode *node = l->shapes && l->types ? make_loop(l, &body, &inputs) : NULL;
  if (!node) /* a node of the body runs in each iteration, of which there may be none */
    l->scope->import->failing = NULL;
  if (body.known)
    clear_body(&body);
  bp__list_free(&inputs);
  return node;
}

/* ---- Loop -------------------------------------------------------------------------------- */

static int check_single(const Looping *l, const BpGraphValue *value, BpDataType dtype,
                        const char *what) {
  if (!value || (!value->sequence && bp__dtype_equal(value->dtype, dtype) &&
                 bp__value_num_elements(value) == 1))
    return 0;
  return bp_error_raise(BP_ERROR_FORMAT, "node '%s' (Loop): its %s is no %s of one element",
                        l->name, what, dtype.code == BP_DTYPE_BOOL ? "bool" : "int64");
}

static int never_runs(const Looping *l) {
  return (l->trip && l->trip->data && bp__value_get_int(l->trip, 0) <= 0) ||
         (l->condition && l->condition->data && !bp__value_get_int(l->condition, 0));
}

/* Opens the sequences among the initial values. */
static int open_initial(const Looping *l, BpGraphValue **initial) {
  Named named;
  name_node(&named, l->node, l->name);
  for (size_t i = 0; i < l->num_carried; i++)
    if (initial[i]->sequence &&
        !(initial[i] = bp__sequence_open(l->scope->import->graph, &named.node, initial[i])))
      return -1;
  return 0;
}

static int add_loop(Scope *scope, const OnnxNode *node, const char *name) {
  BpArena *arena = &scope->import->graph->arena;
  BpGraphValue **inputs = bp__arena_alloc_array(arena, node->n_input + 2, sizeof(*inputs));
  Looping l = {.scope = scope, .node = node, .name = name};
  if (check_can_control(scope, node, name) || !inputs ||
      bp__scope_read_names(scope, node, name, inputs) ||
      !(l.onnx = bp__scope_read_graph(scope, node, name, "body")))
    return -1;
  l.trip = inputs[0];
  l.condition = inputs[1];
  l.initial = inputs + 2;
  l.num_carried = node->n_input > 2 ? node->n_input - 2 : 0;
  if (l.onnx->n_input != l.num_carried + 2 || l.onnx->n_output < l.num_carried + 1 ||
      node->n_output > l.onnx->n_output - 1)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "node '%s' (Loop): its body has %zu inputs and %zu outputs, the node "
                          "carries %zu values and has %zu outputs",
                          name, l.onnx->n_input, l.onnx->n_output, l.num_carried, node->n_output);
  if (check_initial(&l) || check_single(&l, l.trip, BP__INT64, "number of iterations") ||
      check_single(&l, l.condition, BP__BOOL, "condition"))
    return -1;
  l.num_stacks = l.onnx->n_output - 1 - l.num_carried;
  if (l.num_stacks == 0 && never_runs(&l))
    return add_values(scope, node, l.initial);
  l.is_backward = bp__arena_alloc_array(arena, l.num_stacks + 1, sizeof(*l.is_backward));
  BpGraphNode *loop = l.is_backward && !open_initial(&l, inputs + 2) ? add_looping(&l) : NULL;
  return loop ? add_values(scope, node, loop->outputs) : -1;
}

/* ---- Scan -------------------------------------------------------------------------------- */

/* Reads an attribute of `count` integers; an absent attribute gives zeros. NULL with an error. */
static int64_t *read_list(const Looping *l, const char *attribute_name, size_t count) {
  const OnnxAttribute *attribute =
      bp__onnx_find_attribute(l->node->attribute, l->node->n_attribute, attribute_name);
  int64_t *list = bp__arena_alloc_array(&l->scope->import->graph->arena, count + 1, sizeof(*list));
  if (!list || (attribute && bp__scope_resolve_attribute(l->scope, attribute, &attribute)))
    return NULL;
  if (attribute && attribute->n_ints != count) {
    bp_error_raise(BP_ERROR_FORMAT,
                   "node '%s' (Scan): attribute %s has %zu elements instead of %zu", l->name,
                   attribute_name, attribute->n_ints, count);
    return NULL;
  }
  if (attribute && count > 0)
    memcpy(list, attribute->ints, count * sizeof(*list));
  return list;
}

/* Converts an axis that may be negative to one in [0, ndim); -1 with an error. */
static int read_axis(const Looping *l, int64_t *axis, int32_t ndim) {
  if (*axis < -(int64_t)ndim || *axis >= ndim)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "node '%s' (Scan): axis %" PRId64 " is outside a tensor of %d dimensions",
                          l->name, *axis, ndim);
  *axis += *axis < 0 ? ndim : 0;
  return 0;
}

/* Reads the scanned tensors, their axes, and the number of iterations. */
static int read_scanned(Looping *l) {
  BpGraph *graph = l->scope->import->graph;
  int64_t count = 0;
  l->axes = read_list(l, "scan_input_axes", l->num_scanned);
  l->are_backward = l->axes ? read_list(l, "scan_input_directions", l->num_scanned) : NULL;
  if (!l->are_backward)
    return -1;
  for (size_t i = 0; i < l->num_scanned; i++) {
    const BpGraphValue *in = l->scanned[i];
    if (!in)
      return bp_error_raise(BP_ERROR_FORMAT, "node '%s' (Scan): scan input %zu is missing", l->name,
                            i);
    if (read_axis(l, &l->axes[i], in->ndim))
      return -1;
    int64_t extent = in->shape[l->axes[i]];
    if (i > 0 && extent != count)
      return bp__extent_is_open(extent) || bp__extent_is_open(count)
                 ? bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                                  "node '%s' (Scan): only a run knows whether its scan inputs "
                                  "have one length",
                                  l->name)
                 : bp_error_raise(BP_ERROR_FORMAT,
                                  "node '%s' (Scan): its scan inputs have %" PRId64 " and %" PRId64
                                  " elements",
                                  l->name, count, extent);
    count = extent;
  }
  l->trip = bp__op_extents(graph, &(BpGraphNode){.name = l->name}, &count, 1);
  return l->trip ? 0 : -1;
}

/* Moves the first dimension of a stack to the axis that an attribute states. */
static BpGraphValue *turn_stack(const Looping *l, BpGraphValue *stack, int64_t axis) {
  int64_t perm[BP_GRAPH_MAX_NDIM];
  if (read_axis(l, &axis, stack->ndim))
    return NULL;
  for (int32_t i = 0; i < stack->ndim; i++)
    perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
  return axis == 0 ? stack
                   : bp__op_transpose(l->scope->import->graph, &(BpGraphNode){.name = l->name},
                                      stack, perm, stack->ndim);
}

static int check_scan(const Looping *l, int64_t num_scanned) {
  const OnnxNode *node = l->node;
  if (l->scope->version < 9)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "node '%s' (Scan): operator set 8 scans batches, which is not supported; "
                          "convert the model to 9 or later with onnx.version_converter",
                          l->name);
  if (num_scanned < 1 || (uint64_t)num_scanned > node->n_input)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "node '%s' (Scan): num_scan_inputs is %" PRId64 " of %zu inputs", l->name,
                          num_scanned, node->n_input);
  if (l->onnx->n_input != node->n_input ||
      l->onnx->n_output < node->n_input - (size_t)num_scanned || node->n_output > l->onnx->n_output)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "node '%s' (Scan): its body has %zu inputs and %zu outputs, the node %zu "
                          "and %zu",
                          l->name, l->onnx->n_input, l->onnx->n_output, node->n_input,
                          node->n_output);
  return 0;
}

static int add_turned(const Looping *l, const BpGraphNode *loop, const int64_t *axes) {
  BpGraphValue **values = bp__arena_alloc_array(&l->scope->import->graph->arena,
                                                (size_t)loop->num_outputs + 1, sizeof(*values));
  for (size_t i = 0; values && i < (size_t)loop->num_outputs; i++) {
    values[i] = i < l->num_carried ? loop->outputs[i]
                                   : turn_stack(l, loop->outputs[i], axes[i - l->num_carried]);
    if (!values[i])
      return -1;
  }
  return values ? add_values(l->scope, l->node, values) : -1;
}

static int add_scan(Scope *scope, const OnnxNode *node, const char *name) {
  BpGraphValue **inputs =
      bp__arena_alloc_array(&scope->import->graph->arena, node->n_input + 1, sizeof(*inputs));
  const OnnxAttribute *count =
      bp__onnx_find_attribute(node->attribute, node->n_attribute, "num_scan_inputs");
  Looping l = {.scope = scope, .node = node, .name = name, .is_scan = 1};
  if (check_can_control(scope, node, name) || !inputs ||
      bp__scope_read_inputs(scope, node, name, inputs) ||
      !(l.onnx = bp__scope_read_graph(scope, node, name, "body")) ||
      (count && bp__scope_resolve_attribute(scope, count, &count)) ||
      check_scan(&l, count ? count->i : 0))
    return -1;
  l.num_scanned = (size_t)count->i;
  l.num_carried = node->n_input - l.num_scanned;
  l.num_stacks = l.onnx->n_output - l.num_carried;
  l.initial = inputs;
  l.scanned = inputs + l.num_carried;
  int64_t *axes = read_list(&l, "scan_output_axes", l.num_stacks);
  l.is_backward = axes ? read_list(&l, "scan_output_directions", l.num_stacks) : NULL;
  if (!l.is_backward || check_initial(&l) || read_scanned(&l))
    return -1;
  BpGraphNode *loop = add_looping(&l);
  return loop ? add_turned(&l, loop, axes) : -1;
}

/* ---- SequenceMap ------------------------------------------------------------------------- */

/* Makes an empty sequence for each output. */
static BpGraphValue **make_empty(const Looping *l, const BpGraphNode *named) {
  BpGraph *graph = l->scope->import->graph;
  BpGraphValue **values = bp__arena_alloc_array(&graph->arena, l->num_carried + 1, sizeof(*values));
  for (size_t i = 0; values && i < l->num_carried; i++) {
    BpGraphValue *empty = bp__graph_sequence(graph, l->name, 0);
    values[i] = empty ? bp__sequence_open(graph, named, empty) : NULL;
    if (!values[i])
      return NULL;
  }
  return values;
}

/* Makes a run fail if the length of a sequence is not `count`, the length of the first sequence. */
static int check_lengths(BpGraph *graph, const BpGraphNode *named, BpGraphValue *const *sequences,
                         size_t num_inputs, BpGraphValue *count) {
  const int64_t zero = 0, one = 1;
  for (size_t i = 1; i < num_inputs; i++) {
    if (!sequences[i]->sequence)
      continue;
    BpGraphValue *length = bp__sequence_length(graph, named, sequences[i]);
    BpGraphValue *distance =
        bp__op_unary(graph, named, "Abs", bp__op_binary(graph, named, "Sub", count, length));
    distance = bp__op_unary(graph, named, "Neg", distance);
    if (!bp__op_bind(graph, named, bp__op_reshape(graph, named, distance, &one, 1), &zero,
                     "its sequences differ in length"))
      return -1;
  }
  return 0;
}

/* Adds a loop over the positions of the first sequence; it carries the output sequences. */
int bp__scope_add_map(Scope *scope, const OnnxNode *node, const char *name, BpGraphValue **inputs,
                      BpGraphValue **results) {
  BpGraph *graph = scope->import->graph;
  Named named;
  Looping l = {.scope = scope, .node = node, .name = name, .is_scan = 1, .is_map = 1};
  name_node(&named, node, name);
  if (!inputs[0]->sequence)
    return bp__op_bad(&named.node, "input 0 is no sequence");
  if (!(l.onnx = bp__scope_read_graph(scope, node, name, "body")))
    return -1;
  if (l.onnx->n_input != node->n_input || l.onnx->n_output != node->n_output)
    return bp__op_bad(&named.node, "its body has %zu inputs and %zu outputs, the node %zu and %zu",
                      l.onnx->n_input, l.onnx->n_output, node->n_input, node->n_output);
  l.scanned = inputs;
  l.num_scanned = node->n_input;
  l.num_carried = node->n_output;
  l.initial = make_empty(&l, &named.node);
  l.trip = l.initial ? bp__sequence_length(graph, &named.node, inputs[0]) : NULL;
  BpGraphNode *loop = l.trip && !check_lengths(graph, &named.node, inputs, node->n_input, l.trip)
                          ? add_looping(&l)
                          : NULL;
  if (loop)
    memcpy(results, loop->outputs, node->n_output * sizeof(*results));
  return loop ? 0 : -1;
}

/* ---- The three --------------------------------------------------------------------------- */

static const struct {
  const char *op_type;
  int (*add)(Scope *scope, const OnnxNode *node, const char *name);
} controls[] = {{"If", add_if}, {"Loop", add_loop}, {"Scan", add_scan}};

int bp__onnx_is_control(const char *op_type) {
  for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
    if (!strcmp(controls[i].op_type, op_type))
      return 1;
  return 0;
}

int bp__scope_add_control(Scope *scope, const OnnxNode *node, const char *name) {
  size_t i = 0;
  while (strcmp(controls[i].op_type, node->op_type))
    i++;
  return controls[i].add(scope, node, name);
}
