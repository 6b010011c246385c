/* SPDX-License-Identifier: Apache-2.0 */
/* The view that graph compilers have of a graph: a copy, made on request, of the model's nodes that
 * the importer kept. */
#include "graph/build/view.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

#include "graph/build/build.h"
#include "graph/ops/op.h"

/* ---- Making one -------------------------------------------------------------------------- */

typedef struct Maker {
  BpArena *arena;
  const BpViewPlan *plan;
  BpOnnxGraph *view;
  int32_t *number; /* number of a value in the view, from 1 on, by value id; 0: none yet */
} Maker;

/* The text of an open extent. The extent's number makes a text that is cut unique. */
static const char *extent_text(const Maker *maker, int64_t extent) {
  char text[256];
  bp__extent_format(&maker->plan->graph->extents, extent, text, sizeof(text));
  return strlen(text) + 1 < sizeof(text)
             ? bp__arena_strdup(maker->arena, text)
             : bp__arena_printf(maker->arena, "%s#%" PRId64, text, extent - bp__extents_at(0));
}

/* Sets the shape of a value with open extents, which become -1, and the texts of the open
 * extents. */
static int show_open_shape(const Maker *maker, BpOnnxValue *to, const BpGraphValue *from) {
  size_t count = (size_t)from->ndim;
  int64_t *shape = bp__arena_alloc_array(maker->arena, count, sizeof(*shape));
  const char **symbols = bp__arena_alloc_array(maker->arena, count, sizeof(*symbols));
  for (size_t i = 0; i < count && shape && symbols; i++) {
    bool is_open = bp__extent_is_open(from->shape[i]);
    shape[i] = is_open ? -1 : from->shape[i];
    if (is_open && !(symbols[i] = extent_text(maker, from->shape[i])))
      return -1;
  }
  to->shape = shape;
  to->symbols = symbols;
  return shape && symbols ? 0 : -1;
}

static int fill_value(const Maker *maker, BpOnnxValue *to, const BpGraphValue *from,
                      int32_t producer) {
  *to = (BpOnnxValue){.struct_size = sizeof(*to),
                      .name = from->name,
                      .dtype = from->dtype,
                      .ndim = from->ndim,
                      .producer = producer,
                      .shape = from->shape,
                      .data = from->data};
  return bp__value_is_open(from) ? show_open_shape(maker, to, from) : 0;
}

/* Stores the number of a value at `to`; a value that no node has read or made before gets a new
 * number. */
static int number_value(Maker *maker, BpGraphValue *value, int32_t producer, int32_t *to) {
  BpOnnxGraph *view = maker->view;
  int32_t *number = &maker->number[value->id];
  if (*number) {
    *to = *number - 1;
    return 0;
  }
  if (fill_value(maker, &view->values[view->num_values], value, producer))
    return -1;
  view->origins[view->num_values] = value;
  if (producer < 0 && !value->data)
    view->inputs[view->num_inputs++] = view->num_values;
  if (producer >= 0 && maker->plan->is_output[value->id])
    view->outputs[view->num_outputs++] = view->num_values;
  *to = view->num_values;
  *number = ++view->num_values;
  return 0;
}

static int copy_attrs(Maker *maker, const BpGraphNode *from, BpOnnxNode *to) {
  BpOnnxAttr *attrs = bp__arena_alloc_array(maker->arena, (size_t)from->num_attrs, sizeof(*attrs));
  for (int32_t i = 0; attrs && i < from->num_attrs; i++) {
    const BpGraphAttr *attr = &from->attrs[i];
    BpOnnxValue *value = NULL;
    if (attr->tensor) {
      value = bp__arena_alloc(maker->arena, sizeof(*value));
      if (!value || fill_value(maker, value, attr->tensor, -1))
        return -1;
    }
    attrs[i] = (BpOnnxAttr){.name = attr->name,
                            .type = attr->type,
                            .count = attr->count,
                            .ints = attr->ints,
                            .floats = attr->floats,
                            .strs = attr->str ? &attr->str : attr->strs,
                            .value = value};
  }
  to->attrs = attrs;
  to->attr_size = sizeof(*attrs);
  to->num_attrs = from->num_attrs;
  return attrs ? 0 : -1;
}

static int add_node(Maker *maker, const BpGraphNode *from) {
  BpOnnxGraph *view = maker->view;
  BpOnnxNode *node = &view->nodes[view->num_nodes];
  int32_t *inputs = bp__arena_alloc_array(maker->arena, (size_t)from->num_inputs, sizeof(*inputs));
  int32_t *outputs =
      bp__arena_alloc_array(maker->arena, (size_t)from->num_outputs, sizeof(*outputs));
  if (!inputs || !outputs)
    return -1;
  for (int32_t i = 0; i < from->num_inputs; i++) {
    inputs[i] = -1;
    if (from->inputs[i] && number_value(maker, from->inputs[i], -1, &inputs[i]))
      return -1;
  }
  for (int32_t i = 0; i < from->num_outputs; i++) {
    BpGraphValue *output = from->outputs[i];
    outputs[i] = -1;
    if (output && maker->plan->is_read[output->id] &&
        number_value(maker, output, view->num_nodes, &outputs[i]))
      return -1;
  }
  *node = (BpOnnxNode){.struct_size = sizeof(*node),
                       .name = from->name,
                       .op = from->op->name,
                       .domain = from->op->domain,
                       .opset = from->version,
                       .num_inputs = from->num_inputs,
                       .num_outputs = from->num_outputs,
                       .inputs = inputs,
                       .outputs = outputs};
  view->num_nodes++;
  return copy_attrs(maker, from, node);
}

/* Allocates memory for all values that the nodes read and make. */
static int make_room(Maker *maker) {
  const BpViewPlan *plan = maker->plan;
  size_t count = 0;
  for (int32_t i = 0; i < plan->num_nodes; i++)
    count += (size_t)plan->nodes[i]->num_inputs + (size_t)plan->nodes[i]->num_outputs;
  BpOnnxGraph *view = bp__arena_alloc(maker->arena, sizeof(*view));
  if (!view)
    return -1;
  maker->view = view;
  view->nodes = bp__arena_alloc_array(maker->arena, (size_t)plan->num_nodes, sizeof(*view->nodes));
  view->values = bp__arena_alloc_array(maker->arena, count, sizeof(*view->values));
  view->origins = bp__arena_alloc_array(maker->arena, count, sizeof(*view->origins));
  view->inputs = bp__arena_alloc_array(maker->arena, count, sizeof(*view->inputs));
  view->outputs = bp__arena_alloc_array(maker->arena, count, sizeof(*view->outputs));
  return view->nodes && view->values && view->origins && view->inputs && view->outputs ? 0 : -1;
}

const BpOnnxGraph *bp__view_create(BpArena *arena, const BpViewPlan *plan) {
  Maker maker = {.arena = arena, .plan = plan};
  maker.number = calloc((size_t)plan->graph->num_values + 1, sizeof(*maker.number));
  if (!maker.number) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory for a view of %d nodes", plan->num_nodes);
    return NULL;
  }
  int status = make_room(&maker);
  for (int32_t i = 0; i < plan->num_nodes && !status; i++)
    status = add_node(&maker, plan->nodes[i]);
  free(maker.number);
  return status ? NULL : maker.view;
}

BpClaims *bp__claims_create(BpArena *arena, const BpOnnxGraph *view) {
  size_t count = (size_t)view->num_nodes;
  BpClaims *claims = bp__arena_alloc(arena, sizeof(*claims));
  if (!claims)
    return NULL;
  *claims = (BpClaims){.arena = arena,
                       .num_nodes = view->num_nodes,
                       .costs = bp__arena_alloc_array(arena, count, sizeof(*claims->costs)),
                       .why = bp__arena_alloc_array(arena, count, sizeof(*claims->why))};
  for (size_t i = 0; claims->costs && i < count; i++)
    claims->costs[i] = -1;
  return claims->costs && claims->why ? claims : NULL;
}

const char *bp__build_part_function(const BpGraphNode *node) {
  int is_part = !strcmp(node->op->domain, "backplane") && !strcmp(node->op->name, "Part");
  return is_part ? bp__node_str(node, "function", NULL) : NULL;
}

/* ---- The table --------------------------------------------------------------------------- */

static int32_t num_nodes(const BpOnnxGraph *graph) {
  return graph->num_nodes;
}

static const BpOnnxNode *get_node(const BpOnnxGraph *graph, int32_t node) {
  return node >= 0 && node < graph->num_nodes ? &graph->nodes[node] : NULL;
}

static int32_t num_values(const BpOnnxGraph *graph) {
  return graph->num_values;
}

static const BpOnnxValue *get_value(const BpOnnxGraph *graph, int32_t value) {
  return value >= 0 && value < graph->num_values ? &graph->values[value] : NULL;
}

static const int32_t *get_inputs(const BpOnnxGraph *graph, int32_t *count) {
  *count = graph->num_inputs;
  return graph->inputs;
}

static const int32_t *get_outputs(const BpOnnxGraph *graph, int32_t *count) {
  *count = graph->num_outputs;
  return graph->outputs;
}

/* Raises the error of a call and records it: `claim` fails even if the plugin goes on. */
static int32_t fail(BpClaims *claims, int32_t node, const char *complaint) {
  if (!claims->failure)
    claims->failure =
        bp__arena_printf(claims->arena, "node %d of %d: %s", node, claims->num_nodes, complaint);
  return bp_error_raise(BP_ERROR_VALUE, "node %d of %d: %s", node, claims->num_nodes, complaint);
}

static int32_t check_node(BpClaims *claims, int32_t node) {
  if (node < 0 || node >= claims->num_nodes)
    return fail(claims, node, "there is no such node");
  if (claims->costs[node] >= 0 || claims->why[node])
    return fail(claims, node, "it was taken or declined before");
  return 0;
}

static int32_t take(BpClaims *claims, int32_t node, double cost) {
  if (check_node(claims, node))
    return -1;
  if (!isfinite(cost) || cost < 0)
    return fail(claims, node, "its cost is not a number of nanoseconds, or 0");
  claims->costs[node] = cost;
  return 0;
}

static int32_t decline(BpClaims *claims, int32_t node, const char *reason) {
  if (check_node(claims, node))
    return -1;
  if (!reason)
    return fail(claims, node, "it was declined without a reason");
  claims->why[node] = bp__arena_strdup(claims->arena, reason);
  return claims->why[node] ? 0 : -1;
}

static const BpGraphTable table = {sizeof(BpGraphTable), num_nodes, get_node,
                                   num_values,           get_value, get_inputs,
                                   get_outputs,          take,      decline};

/* The error of a failed registration; NULL after success. */
static BpError *failure;

static void add_table(void) {
  if (bp_host_add_table(BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION, &table))
    failure = bp_error_take();
}

int bp__view_register(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, add_table);
  if (!failure)
    return 0;
  bp_error_put(bp_object_retain(failure));
  return -1;
}
