/* SPDX-License-Identifier: Apache-2.0 */
/* Loops: Loop, Scan, and SequenceMap over an open sequence become nodes with a body
 * (graph/ops/control.h).
 *
 * Each node is computed for one number of dimensions. If that of a carried value changes in the
 * first iteration, the nodes of this iteration come before a loop of the others. If only a run
 * knows whether there is a first iteration, they are in a branch (branch.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/onnx/scope.h"
#include "graph/ops/control.h"

static int check_can_control(const Scope *scope, const OnnxNode *node, const char *name) {
  if (bp__graph_can_control(scope->import->graph))
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "node '%s' (%s): control flow needs one --target; compile the model for "
                        "each target by itself",
                        name, node->op_type);
}

/* ---- Loops ------------------------------------------------------------------------------- */

/* The common parts of Loop, Scan and SequenceMap. */
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
  BpGraphValue **scanned;
  size_t num_scanned;
  int64_t *axes, *are_backward; /* axes and directions of the scanned tensors */
  int is_scan;                  /* whether the node is a Scan or SequenceMap */
  int is_map;
  int32_t count; /* number of expressions before the body */
  /* For Loop: the iterations before those of the loop. */
  int64_t num_before;
  BpGraphValue **elements;      /* their elements of the stacks, iteration by iteration */
  BpGraphSequence *stack_types; /* types of the elements, as far as they are known */
  bool is_begun;                /* whether the first iteration of the loop is sure to come */
  bool is_first_apart;          /* whether the first iteration cannot be one of the loop */
} Looping;

static const char *input_name(const Looping *l, size_t index) {
  const char *name = l->onnx->input[index]->name;
  return is_empty(name) ? l->name : name;
}

static BpGraphValue *add_body_input(Body *body, const char *name, BpDataType dtype,
                                    const int64_t *shape, int32_t ndim) {
  BpGraphValue *value = bp__graph_value(body->graph, name, dtype, shape, ndim);
  return value && !bp__list_push(&body->graph->inputs, value) ? value : NULL;
}

static BpGraphValue *number(BpGraph *graph, int64_t value) {
  BpGraphValue *constant = bp__graph_constant(graph, "number", BP__INT64, NULL, 0, NULL);
  if (constant)
    *(int64_t *)bp__graph_constant_data(constant) = value;
  return constant;
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
               ? bp__sequence_at(body->graph, bp__onnx_name_node(&map, l->node, l->name), in,
                                 iteration)
               : in;
  }
  if (in && in->shape[l->axes[index]] == 0)
    return no_element(l, body, in, l->axes[index]);
  BpGraphAttr axis = bp__attr_int(body->graph, "axis", l->axes[index]);
  if (l->are_backward[index]) {
    last = number(body->graph, -1);
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
    inputs[0] = l->num_before ? bp__op_binary(body->graph, &(BpGraphNode){.name = l->name}, "Add",
                                              iteration, number(body->graph, l->num_before))
                              : iteration;
    inputs[1] = bp__graph_value(body->graph, input_name(l, 1), BP__BOOL, NULL, 0);
    if (!inputs[0] || !inputs[1])
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
  bp__onnx_name_node(&named, l->node, l->name);
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
  bp__onnx_name_node(&named, l->node, l->name);
  if (l->types[index].is_optional && !bp__is_optional(*next))
    *next = bp__sequence_make_optional(body->graph, &named.node, *next);
  if (!*next)
    return -1;
  if (!(*next)->sequence || !l->initial[index]->sequence)
    return bp__op_bad(&named.node,
                      "carried value %zu is a sequence or an optional at first or after an "
                      "iteration, and a tensor in the other case",
                      index);
  const BpGraphSequence type = bp__body_outer_type(l->scope->import->graph, *next, l->count);
  return bp__sequence_join(&named.node, &l->types[index], &type);
}

/* Compares the body's outputs with the carried values that the iteration got: extents that may
 * change become symbols. Returns the number of changed extents, or -1 with an error. */
static int open_changing(Looping *l, const Body *body) {
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
    bool is_of_type = bp__dtype_equal(next->dtype, from->dtype);
    l->is_first_apart = !l->is_scan && is_of_type && next->ndim != from->ndim;
    if (!is_of_type || next->ndim != from->ndim)
      return bp_error_raise(
          BP_ERROR_NOT_IMPLEMENTED,
          "node '%s' (%s): carried value %zu is %s at first and %s after an "
          "iteration; its type must not change, and its number of dimensions only in a "
          "Loop's first 8 iterations",
          l->name, l->node->op_type, i, bp__value_format(from, a), bp__value_format(next, b));
    for (int32_t d = 0; d < next->ndim; d++) {
      if (next->shape[d] == l->shapes[i][d] || bp__body_is_local(graph, l->shapes[i][d], l->count))
        continue;
      l->shapes[i][d] = bp__body_new_symbol(graph, l->name);
      if (l->shapes[i][d] == BP_EXTENT_NONE)
        return -1;
      changed++;
    }
  }
  return changed;
}

static bool is_in_branch(const Scope *scope) {
  const Body *body = scope->body;
  while (body && !body->is_branch)
    body = body->outer;
  return body != NULL;
}

/* Notes whether the body fails in each run of its first iteration. An operator that does not take
 * open extents is an error now, unless maybe no run gets to the loop. */
static void note_failing(Looping *l) {
  Import *import = l->scope->import;
  if (l->is_map || (!bp_error_is(BP_ERROR_FORMAT) && !is_in_branch(l->scope)))
    import->failing = NULL;
  l->is_first_apart = import->failing && !l->is_scan;
}

/* Imports the body again until the extents of carried values no longer change. */
static int fill_body(Looping *l, Body *body) {
  BpGraphValue **inputs = g_new0(BpGraphValue *, l->onnx->n_input + 1);
  int changed = 1;
  for (int32_t pass = 0; changed > 0; pass++) {
    changed = -1;
    bp__body_clear(body);
    l->scope->import->failing = NULL;
    if (bp__body_begin(l->scope, body) == 0 && make_body_inputs(l, body, inputs) == 0 &&
        bp__scope_add_subgraph(l->scope, l->node, l->name, l->onnx, body, inputs, false,
                               &body->graph->outputs) == 0 &&
        (!l->is_map || insert_elements(l, body) == 0))
      changed = open_changing(l, body);
    else if (pass == 0)
      note_failing(l);
    else
      l->scope->import->failing = NULL;
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
    Named named;
    condition = bp__onnx_single(body->graph, bp__onnx_name_node(&named, l->node, l->name),
                                outputs->items[0], BP__BOOL,
                                "the condition that its body gives is no bool of one element");
    if (!condition)
      return -1;
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
    return bp__body_new_symbol(graph, l->name);
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
      if (bp__body_set_sequence(graph, node, i, &l->types[i]))
        return -1;
      continue;
    }
    if (is_stack && value->dtype.bits < 8)
      return bp__op_error(node, "output %d has elements of less than a byte, which do not stack",
                          i);
    if (is_stack)
      shape[0] = count_of(l, has_condition);
    for (int32_t d = 0; d < value->ndim; d++)
      shape[is_stack + d] = bp__body_outer_extent(
          graph, l->name, is_stack ? value->shape[d] : l->shapes[i][d], l->count);
    if (bp__node_set_output(graph, node, i, value->dtype, shape, value->ndim + is_stack))
      return -1;
  }
  bp__body_keep_measured(graph, node, l->count);
  return 0;
}

static BpGraphNode *make_loop(Looping *l, Body *body, BpList *inputs) {
  BpGraph *graph = l->scope->import->graph;
  int has_condition, status = 0;
  if (fill_body(l, body) || move_condition(l, body, &has_condition))
    return NULL;
  bp__body_forget_unused(body);
  const BpGraphAttr attrs[] = {bp__attr_int(graph, "carried", (int64_t)l->num_carried),
                               bp__attr_int(graph, "condition", has_condition),
                               bp__attr_int(graph, "counted", l->trip && !has_condition),
                               bp__attr_ints("backward", l->is_backward, (int32_t)l->num_stacks)};
  status |= bp__list_push(inputs, l->trip);
  status |= bp__list_push(inputs, has_condition && !is_surely(l->condition) ? l->condition : NULL);
  for (size_t i = 0; i < l->num_carried; i++)
    status |= bp__list_push(inputs, l->initial[i]);
  BpGraphNode *node = status
                          ? NULL
                          : bp__body_make_node(graph, &bp__op_loop, l->name, inputs, &body, 1,
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
  bp__body_clear(&body);
  bp__list_free(&inputs);
  return node;
}

/* ---- Loop -------------------------------------------------------------------------------- */

/* The maximum number of iterations whose nodes come before a loop: carried values may change their
 * numbers of dimensions as often. */
#define MAX_BEFORE BP_GRAPH_MAX_NDIM

static int add_iterations(Looping *l);

static int never_runs(const Looping *l) {
  return (l->trip && l->trip->data && bp__value_get_int(l->trip, 0) <= 0) ||
         (l->condition && l->condition->data && !bp__value_get_int(l->condition, 0));
}

/* Opens the sequences among the initial values. */
static int open_initial(const Looping *l, BpGraphValue **initial) {
  Named named;
  bp__onnx_name_node(&named, l->node, l->name);
  for (size_t i = 0; i < l->num_carried; i++)
    if (initial[i]->sequence &&
        !(initial[i] = bp__sequence_open(l->scope->import->graph, &named.node, initial[i])))
      return -1;
  return 0;
}

/* The type of a stack's elements that the body declares: without iterations, extents that only the
 * body knows are 0. */
static int declared_type(const Looping *l, size_t index, BpGraphSequence *type) {
  OnnxType declared;
  const OnnxValueInfo *info = l->onnx->output[1 + l->num_carried + index];
  if (bp__onnx_read_type(info, "output", &declared))
    return -1;
  if (declared.kind || declared.ndim < 0)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "node '%s' (Loop): its body does not declare the shape of its output "
                          "'%s', which a run without iterations takes",
                          l->name, info->name);
  *type = (BpGraphSequence){.dtype = declared.dtype, .ndim = declared.ndim};
  for (int32_t d = 0; d < type->ndim; d++)
    type->shape[d] = MAX(declared.shape[d], 0);
  return 0;
}

/* A stack without elements. */
static BpGraphValue *no_elements(const Looping *l, size_t index) {
  BpGraph *graph = l->scope->import->graph;
  BpGraphSequence *type = &l->stack_types[index];
  if (!type->dtype.bits && declared_type(l, index, type))
    return NULL;
  int64_t shape[BP_GRAPH_MAX_NDIM + 1] = {0};
  for (int32_t d = 0; d < type->ndim; d++)
    shape[1 + d] = type->shape[d] == BP_EXTENT_NONE ? 0 : type->shape[d];
  BpGraphValue *parts[] = {bp__graph_constant(graph, l->name, type->dtype, NULL, 0, NULL),
                           bp__graph_int_vector(graph, shape, type->ndim + 1)};
  return bp__op_apply(graph, "", "Expand", l->name, parts, 2, NULL, 0);
}

/* Joins the elements of the iterations before the loop and the loop's stack, which may be NULL. */
static BpGraphValue *join_stack(const Looping *l, size_t index, BpGraphValue *stack) {
  BpGraph *graph = l->scope->import->graph;
  BpGraphAttr axis = bp__attr_int(graph, "axis", 0);
  int64_t zero = 0;
  BpList parts = {0};
  int status = 0;
  for (int64_t i = 0; i < l->num_before && !status; i++) {
    BpGraphValue *element = l->elements[(size_t)i * l->num_stacks + index];
    element = bp__op_binary(graph, &(BpGraphNode){.name = l->name}, "Unsqueeze", element,
                            bp__graph_int_vector(graph, &zero, 1));
    status = !element || bp__list_push(&parts, element);
  }
  if (!status && (stack || parts.size == 0)) {
    stack = stack ? stack : no_elements(l, index);
    status = !stack || bp__list_push(&parts, stack);
  }
  const BpGraphNode join = {.inputs = (BpGraphValue **)parts.items,
                            .num_inputs = (int32_t)parts.size};
  BpGraphValue *whole = status ? NULL : parts.items[0];
  if (whole && parts.size > 1)
    whole = bp__op_apply(graph, "", "Concat", l->name, join.inputs, join.num_inputs, &axis, 1);
  if (!status && !whole)
    bp__scope_note_unfit(l->scope, &join);
  bp__list_free(&parts);
  return whole;
}

/* Adds the outputs of the node: carried values, and stacks of the loop, or NULL if no iteration is
 * left. */
static int give_outputs(const Looping *l, BpGraphValue *const *carried,
                        BpGraphValue *const *stacks) {
  size_t count = l->num_carried + l->num_stacks;
  BpGraphValue **values =
      bp__arena_alloc_array(&l->scope->import->graph->arena, count + 1, sizeof(*values));
  if (!values)
    return -1;
  for (size_t i = 0; i < count; i++) {
    size_t k = i - l->num_carried;
    values[i] = i < l->num_carried ? carried[i] : join_stack(l, k, stacks ? stacks[k] : NULL);
    if (!values[i])
      return -1;
  }
  return bp__scope_add_values(l->scope, l->node, values);
}

/* Notes the types of the last iteration's elements, for a run without iterations. */
static int note_types(const Looping *l) {
  BpGraph *graph = l->scope->import->graph;
  BpGraphValue *const *elements = l->elements + (size_t)(l->num_before - 1) * l->num_stacks;
  Named named;
  for (size_t i = 0; i < l->num_stacks; i++) {
    if (elements[i]->sequence)
      return bp__op_bad(bp__onnx_name_node(&named, l->node, l->name),
                        "output %zu would be a stack of sequences", l->num_carried + i);
    l->stack_types[i] = bp__body_outer_type(graph, elements[i], l->count);
  }
  return 0;
}

/* Adds the nodes of the first iteration, and the loop of the others. */
static int add_first(const Looping *l) {
  static const uint8_t holds = 1;
  BpGraph *graph = l->scope->import->graph;
  Looping rest = *l;
  BpList outputs = {0};
  Named named;
  size_t num_elements = (size_t)l->num_before * l->num_stacks;
  BpGraphValue **inputs = bp__arena_alloc_array(&graph->arena, l->num_carried + 2, sizeof(*inputs));
  rest.elements = bp__arena_alloc_array(&graph->arena, num_elements + l->num_stacks + 1,
                                        sizeof(*rest.elements));
  if (!inputs || !rest.elements)
    return -1;
  inputs[0] = number(graph, l->num_before);
  inputs[1] = bp__graph_constant(graph, l->name, BP__BOOL, NULL, 0, &holds);
  memcpy(inputs + 2, l->initial, l->num_carried * sizeof(*inputs));
  int status =
      !inputs[0] || !inputs[1] ||
      bp__scope_add_subgraph(l->scope, l->node, l->name, l->onnx, NULL, inputs, false, &outputs);
  if (!status) {
    bp__onnx_name_node(&named, l->node, l->name);
    rest.initial = inputs + 2;
    memcpy(inputs + 2, outputs.items + 1, l->num_carried * sizeof(*inputs));
    if (num_elements > 0)
      memcpy(rest.elements, l->elements, num_elements * sizeof(*inputs));
    memcpy(rest.elements + num_elements, outputs.items + 1 + l->num_carried,
           l->num_stacks * sizeof(*inputs));
    rest.num_before++;
    rest.is_begun = false;
    rest.trip =
        l->trip ? bp__op_binary(graph, &named.node, "Sub", l->trip, number(graph, 1)) : NULL;
    rest.condition = bp__onnx_single(graph, &named.node, outputs.items[0], BP__BOOL,
                                     "the condition that its body gives is no bool of one element");
    status = (l->trip && !rest.trip) || !rest.condition || open_initial(&rest, inputs + 2) ||
             note_types(&rest);
  }
  bp__list_free(&outputs);
  return status ? -1 : add_iterations(&rest);
}

/* Captures the values of a loop that moves into a branch. */
static int capture_values(Looping *l, Scope *scope) {
  BpArena *arena = &scope->import->graph->arena;
  size_t num_elements = (size_t)l->num_before * l->num_stacks;
  BpGraphValue **list =
      bp__arena_alloc_array(arena, l->num_carried + num_elements + 1, sizeof(*list));
  if (!list)
    return -1;
  for (size_t i = 0; i < l->num_carried + num_elements; i++) {
    BpGraphValue *value = i < l->num_carried ? l->initial[i] : l->elements[i - l->num_carried];
    if (!(list[i] = bp__body_capture(scope->body, value)))
      return -1;
  }
  if (l->trip && !(l->trip = bp__body_capture(scope->body, l->trip)))
    return -1;
  if (l->condition && !(l->condition = bp__body_capture(scope->body, l->condition)))
    return -1;
  l->scope = scope;
  l->initial = list;
  l->elements = list + l->num_carried;
  return 0;
}

static int begin(const Looping *l) {
  Looping begun = *l;
  begun.is_begun = true;
  return l->is_first_apart ? add_first(&begun) : add_iterations(&begun);
}

static int add_case(Scope *scope, const OnnxNode *node, const char *name, bool is_true,
                    const void *context) {
  Looping l = *(const Looping *)context;
  (void)node;
  (void)name;
  if (capture_values(&l, scope))
    return -1;
  return is_true ? begin(&l) : give_outputs(&l, l.initial, NULL);
}

/* Adds the first iteration and the others, in a branch if only a run knows whether they come. */
static int begin_in_branch(const Looping *l) {
  BpGraph *graph = l->scope->import->graph;
  const BpGraphNode named = {.name = l->name};
  BpGraphValue *runs = NULL;
  if (l->is_begun)
    return begin(l);
  if (l->trip) {
    runs = bp__op_binary(graph, &named, "Greater", l->trip, number(graph, 0));
    if (!(runs = bp__op_reshape(graph, &named, runs, NULL, 0)))
      return -1;
  }
  if (!is_surely(l->condition)) {
    BpGraphValue *holds = bp__op_reshape(graph, &named, l->condition, NULL, 0);
    runs = runs && !runs->data ? bp__op_binary(graph, &named, "And", runs, holds) : holds;
    if (!runs)
      return -1;
  }
  return is_surely(runs) ? begin(l)
                         : bp__scope_branch(l->scope, l->node, l->name, runs, add_case, l);
}

/* Adds the loop or, if this cannot be, its first iteration and a loop of the others. A loop that
 * does not run does not know the shapes of its stacks' elements, which then are joined with no
 * others. */
static int add_iterations(Looping *l) {
  if ((l->num_stacks == 0 || l->num_before > 0) && never_runs(l))
    return give_outputs(l, l->initial, NULL);
  l->is_first_apart = false;
  if (l->num_stacks > 0 && l->num_before > 0 && !l->is_begun)
    return begin_in_branch(l);
  BpGraphNode *loop = add_looping(l);
  if (loop)
    return give_outputs(l, loop->outputs, loop->outputs + l->num_carried);
  l->scope->import->failing = NULL; /* no run may get to the failing iteration */
  if (!l->is_first_apart || l->num_before == MAX_BEFORE)
    return -1;
  bp_error_clear();
  return never_runs(l) ? give_outputs(l, l->initial, NULL) : begin_in_branch(l);
}

static int check_loop(const Looping *l) {
  const OnnxNode *node = l->node;
  if (l->onnx->n_input == l->num_carried + 2 && l->onnx->n_output > l->num_carried &&
      node->n_output < l->onnx->n_output)
    return check_initial(l);
  return bp_error_raise(BP_ERROR_FORMAT,
                        "node '%s' (Loop): its body has %zu inputs and %zu outputs, the node "
                        "carries %zu values and has %zu outputs",
                        l->name, l->onnx->n_input, l->onnx->n_output, l->num_carried,
                        node->n_output);
}

static int add_loop(Scope *scope, const OnnxNode *node, const char *name) {
  BpGraph *graph = scope->import->graph;
  BpGraphValue **inputs = bp__arena_alloc_array(&graph->arena, node->n_input + 2, sizeof(*inputs));
  Looping l = {.scope = scope, .node = node, .name = name};
  Named named;
  if (check_can_control(scope, node, name) || !inputs ||
      bp__scope_read_names(scope, node, name, inputs) ||
      !(l.onnx = bp__scope_read_graph(scope, node, name, "body")))
    return -1;
  l.initial = inputs + 2;
  l.num_carried = node->n_input > 2 ? node->n_input - 2 : 0;
  if (check_loop(&l))
    return -1;
  bp__onnx_name_node(&named, node, name);
  if (inputs[0] && !(l.trip = bp__onnx_single(graph, &named.node, inputs[0], BP__INT64,
                                              "its number of iterations is no int64 of one "
                                              "element")))
    return bp__scope_note_failing(scope);
  if (inputs[1] && !(l.condition = bp__onnx_single(graph, &named.node, inputs[1], BP__BOOL,
                                                   "its condition is no bool of one element")))
    return bp__scope_note_failing(scope);
  l.num_stacks = l.onnx->n_output - 1 - l.num_carried;
  if (l.num_stacks == 0 && never_runs(&l))
    return bp__scope_add_values(scope, node, l.initial);
  l.is_backward = bp__arena_alloc_array(&graph->arena, l.num_stacks + 1, sizeof(*l.is_backward));
  l.stack_types = bp__arena_alloc_array(&graph->arena, l.num_stacks + 1, sizeof(*l.stack_types));
  return l.is_backward && l.stack_types && !open_initial(&l, inputs + 2) ? add_iterations(&l) : -1;
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
  if (*axis < -(int64_t)ndim || *axis >= ndim) {
    bp_error_raise(BP_ERROR_FORMAT,
                   "node '%s' (Scan): axis %" PRId64 " is outside a tensor of %d dimensions",
                   l->name, *axis, ndim);
    return bp__scope_note_failing(l->scope);
  }
  *axis += *axis < 0 ? ndim : 0;
  return 0;
}

/* Gives a scan input the length of the first one, which a run checks if only it knows. */
static BpGraphValue *as_long(const Looping *l, BpGraphValue *in, int64_t axis, int64_t count) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  Named named;
  if (!bp__extent_is_open(count) && !bp__extent_is_open(in->shape[axis])) {
    bp_error_raise(BP_ERROR_FORMAT,
                   "node '%s' (Scan): its scan inputs have %" PRId64 " and %" PRId64 " elements",
                   l->name, count, in->shape[axis]);
    bp__scope_note_failing(l->scope);
    return NULL;
  }
  memcpy(shape, in->shape, sizeof(shape));
  shape[axis] = count;
  return bp__op_as_shape(l->scope->import->graph, bp__onnx_name_node(&named, l->node, l->name), in,
                         shape, "its scan inputs differ in length");
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
    BpGraphValue *in = l->scanned[i];
    if (!in)
      return bp_error_raise(BP_ERROR_FORMAT, "node '%s' (Scan): scan input %zu is missing", l->name,
                            i);
    if (read_axis(l, &l->axes[i], in->ndim))
      return -1;
    int64_t extent = in->shape[l->axes[i]];
    if (i == 0)
      count = extent;
    else if (extent != count && !(l->scanned[i] = as_long(l, l->scanned[i], l->axes[i], count)))
      return -1;
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
  return values ? bp__scope_add_values(l->scope, l->node, values) : -1;
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
  bp__onnx_name_node(&named, node, name);
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
} controls[] = {{"If", bp__scope_add_if}, {"Loop", add_loop}, {"Scan", add_scan}};

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
