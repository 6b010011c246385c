/* SPDX-License-Identifier: Apache-2.0 */
/* The names of scopes, values that bodies capture, and twins of scopes. */
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"

void bp__scope_open(Scope *scope) {
  scope->values = g_hash_table_new(g_str_hash, g_str_equal);
}

void bp__scope_close(Scope *scope) {
  g_hash_table_destroy(scope->values);
  if (scope->is_twin)
    return;
  g_clear_pointer(&scope->declared, g_hash_table_destroy);
  g_clear_pointer(&scope->last_uses, g_hash_table_destroy);
}

BpGraphValue *bp__graph_sequence(BpGraph *graph, const char *name, int32_t count) {
  int64_t length = count;
  BpGraphValue *value = bp__graph_value(graph, name, BP__INT64, &length, 1);
  BpGraphSequence *sequence = bp__arena_alloc(&graph->arena, sizeof(*sequence));
  if (!value || !sequence)
    return NULL;
  sequence->count = count;
  sequence->items = bp__graph_new_data(graph, value); /* the memory counts in the budget */
  value->sequence = sequence;
  return sequence->items ? value : NULL;
}

/* ---- Captured values --------------------------------------------------------------------- */

/* Makes a value in a body with the type and shape of a value outside it. */
static BpGraphValue *copy_value(BpGraph *graph, const BpGraphValue *value) {
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
  known = is_settled ? capture_sequence(body, value) : copy_value(body->graph, value);
  if (!known)
    return NULL;
  if (!known->data && !is_settled &&
      (bp__list_push(&body->captured, value) || bp__list_push(&body->graph->inputs, known)))
    return NULL;
  g_hash_table_insert(body->known, value, known);
  return known;
}

BpGraphValue *bp__body_see(Body *body, const Body *from, BpGraphValue *value) {
  if (body == from)
    return value;
  value = bp__body_see(body->outer, from, value);
  return value ? bp__body_capture(body, value) : NULL;
}

/* ---- Names ------------------------------------------------------------------------------- */

int bp__scope_look_up(Scope *scope, const char *name, BpGraphValue **value) {
  *value = NULL;
  if (g_hash_table_lookup_extended(scope->values, name, NULL, (gpointer *)value))
    return 1;
  int status = scope->outer ? bp__scope_look_up(scope->outer, name, value) : 0;
  if (status != 1 || !*value)
    return status;
  *value = bp__body_see(scope->body, scope->outer->body, *value);
  return *value ? 1 : -1;
}

BpGraphValue *bp__scope_find(Scope *scope, const char *name) {
  BpGraphValue *value;
  bp__scope_look_up(scope, name, &value);
  return value;
}

static int raise_twice(const char *name) {
  return bp_error_raise(BP_ERROR_FORMAT, "the model gives the name '%s' to two values", name);
}

int bp__scope_set(Scope *scope, const char *name, BpGraphValue *value) {
  gpointer known;
  if (g_hash_table_lookup_extended(scope->values, name, NULL, &known))
    return known == value ? 0 : raise_twice(name);
  g_hash_table_insert(scope->values, (char *)(uintptr_t)name, value);
  return 0;
}

int bp__scope_add(Scope *scope, const char *name, BpGraphValue *value) {
  if (!value)
    return -1;
  for (const Scope *outer = scope->outer; outer; outer = outer->outer)
    if (g_hash_table_contains(outer->values, name))
      return raise_twice(name);
  return bp__scope_set(scope, name, value);
}

int bp__scope_add_values(Scope *scope, const OnnxNode *node, BpGraphValue *const *values) {
  for (size_t i = 0; i < node->n_output; i++)
    if (!is_empty(node->output[i]) && bp__scope_add(scope, node->output[i], values[i]))
      return -1;
  return 0;
}

int bp__scope_return(Scope *inner, Scope *scope, const OnnxNode *node, const char *name) {
  for (size_t i = 0; i < node->n_output; i++) {
    if (is_empty(node->output[i]))
      continue;
    const char *output = bp__scope_output(inner, i);
    BpGraphValue *value = is_empty(output) ? NULL : bp__scope_find(inner, output);
    if (!value)
      return bp_error_raise(BP_ERROR_FORMAT, "node '%s' (%s): its %s does not give output %zu '%s'",
                            name, node->op_type, inner->onnx ? "body" : "function", i,
                            is_empty(output) ? "" : output);
    if (bp__scope_add(scope, node->output[i], value))
      return -1;
  }
  return 0;
}

/* ---- Twins ------------------------------------------------------------------------------- */

Scope *bp__scope_twin(Scope *of, Body *body) {
  Scope *twin = bp__arena_alloc(&of->import->graph->arena, sizeof(*twin));
  if (!twin || bp__list_push(&body->twins, twin))
    return NULL;
  if (!of->last_uses)
    of->last_uses = bp__scope_last_uses(of);
  *twin = *of;
  twin->depth += of->is_twin; /* nodes behind an If are in its branches */
  twin->is_twin = true;
  twin->outer = of;
  twin->body = body;
  bp__scope_open(twin);
  return twin;
}

bool bp__scope_is_live(const Scope *scope, const char *name) {
  return (scope->import->is_query && !scope->caller) ||
         GPOINTER_TO_SIZE(g_hash_table_lookup(scope->last_uses, name)) > scope->next;
}
