/* SPDX-License-Identifier: Apache-2.0 */
/* Graph compilers claim parts of a graph as the model has it (backplane/graph_compiler.h). A
 * compiled part becomes one node that replaces the part's nodes. The remaining nodes are compiled
 * as without graph compilers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

#include "graph/build/build.h"
#include "graph/build/view.h"
#include "graph/ops/control.h"

/* ---- Finding graph compilers ------------------------------------------------------------- */

static int raise_absent(const char *name) {
  char *why = bp_plugin_explain_absence(name);
  bp_error_raise(BP_ERROR_NOT_FOUND,
                 "no installed plugin has a graph compiler \"%s\" (graph_compiler.%s)%s%s", name,
                 name, why && *why ? "; " : "", why ? why : "");
  bp_str_free(why);
  return -1;
}

static int check_table(const char *name, const BpGraphCompilerApi *api) {
  if (!api)
    return bp_error_raise(BP_ERROR_PLUGIN, "graph_compiler.%s has no table of version %d", name,
                          BP_GRAPH_COMPILER_VERSION);
  if (!BP_TABLE_HAS(api, compile) || !api->claim || !api->name)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "graph_compiler.%s gives a table of %" PRIu64
                          " bytes that lacks a slot which has to be there; this is a defect of the "
                          "plugin",
                          name, api->struct_size);
  if (strcmp(api->name, name))
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "graph_compiler.%s gives the table of another graph compiler, \"%s\"",
                          name, api->name);
  if (api->reserved)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "the table of graph_compiler.%s has %d in `reserved`, which has to be 0; "
                          "this is a defect of the plugin",
                          name, api->reserved);
  return 0;
}

const BpGraphCompilerApi *bp__graph_compiler_find(const char *name) {
  char *registry_name = g_strconcat("graph_compiler.", name, NULL);
  BpFunction *function = NULL;
  BpValue version = {.type_index = BP_TYPE_INT, .v_int64 = BP_GRAPH_COMPILER_VERSION}, answer;
  int status = bp__view_register() ? -1 : bp_registry_get(registry_name, &function);
  g_free(registry_name);
  if (!status)
    status = function ? bp_function_call(function, &version, 1, &answer) : raise_absent(name);
  bp_object_release(function);
  if (status)
    return NULL;
  const BpGraphCompilerApi *api = answer.type_index == BP_TYPE_POINTER ? answer.v_ptr : NULL;
  bp_value_clear(&answer);
  return check_table(name, api) ? NULL : api;
}

/* ---- Units that can be claimed ----------------------------------------------------------- */

/* A node of the model that is offered to graph compilers, or a single node of the graph that is not
 * offered. */
typedef struct Unit {
  const BpGraphNode *node; /* node as the model has it, or the single node */
  size_t begin, end;       /* range of its nodes in the graph's list */
  int32_t is_offered;
  int32_t is_bound; /* not offered, because a run determines its extents */
  int32_t shown;    /* number in the view of the compiler that is asked, or -1 */
  int32_t compiler; /* compiler that takes the unit, or -1 */
  double cost;      /* cost that the compiler states; 0: none */
  int32_t level;
  int32_t part;         /* first unit of its part; the unit itself if it is alone */
  int32_t next;         /* next unit of the part, or -1 */
  const char *function; /* function of the compiled part, or NULL */
  const char *why;      /* reasons of the compilers that declined it, or NULL */
} Unit;

typedef struct Claiming {
  const BpBuild *build;
  BpGraph *graph;
  Unit *units;
  int32_t num_units;
  int32_t *maker;     /* unit that makes a value, by value id, or -1 */
  uint8_t *is_read;   /* whether another unit or the graph's outputs read a value, by value id */
  uint8_t *is_output; /* whether another part or the graph's outputs read a value, by value id */
} Claiming;

/* The numbers of all nodes and of claimed nodes, in the graph and in the bodies. */
typedef struct Tally {
  int32_t total, claimed;
  int32_t num_listed;
  GString *unclaimed; /* the first few nodes that are not claimed, with the reasons */
} Tally;

static int is_in_list(const BpGraph *graph, const BpGraphNode *node) {
  return node->id >= 0 && (size_t)node->id < graph->nodes.size &&
         graph->nodes.items[node->id] == node;
}

/* Whether a run binds extents at a node: by a check of shapes, by data, or by the outputs of a
 * body. */
static int binds_extents(const BpGraphNode *node) {
  return bp__op_is_bind(node) || bp__op_is_control(node);
}

/* Whether a node of the model can be offered: its outputs are computed, only by its own nodes, and
 * all its inputs exist. */
static int can_offer(const BpGraph *graph, const BpGraphNode *source, int32_t number) {
  for (int32_t i = 0; i < source->num_outputs; i++) {
    const BpGraphValue *value = source->outputs[i];
    if (value && (value->data || !value->producer || value->producer->source != number))
      return 0;
  }
  for (int32_t i = 0; i < source->num_inputs; i++) {
    const BpGraphValue *value = source->inputs[i];
    if (value && !value->data && value->producer && !is_in_list(graph, value->producer))
      return 0;
  }
  return 1;
}

static void add_unit(Claiming *claiming, const Unit *like) {
  const BpGraph *graph = claiming->graph;
  Unit *unit = &claiming->units[claiming->num_units];
  *unit = *like;
  unit->shown = unit->compiler = unit->next = -1;
  unit->part = claiming->num_units++;
  for (size_t i = unit->begin; i < unit->end; i++) {
    const BpGraphNode *node = graph->nodes.items[i];
    for (int32_t k = 0; k < node->num_outputs; k++)
      claiming->maker[node->outputs[k]->id] = unit->part;
  }
}

/* Adds the unit of a node of the model or, if the node cannot be claimed, a unit for each node that
 * it became. */
static void add_units(Claiming *claiming, size_t *at) {
  const BpGraph *graph = claiming->graph;
  const BpGraphNode *first = graph->nodes.items[*at];
  const BpGraphNode *source = first->source > 0 ? graph->sources.items[first->source - 1] : NULL;
  size_t end = *at;
  int is_bound = 0;
  while (end < graph->nodes.size &&
         (end == *at ||
          (source && ((const BpGraphNode *)graph->nodes.items[end])->source == first->source)))
    is_bound |= binds_extents(graph->nodes.items[end++]);
  if (source && !is_bound && can_offer(graph, source, first->source))
    add_unit(claiming, &(Unit){.node = source, .begin = *at, .end = end, .is_offered = 1});
  else
    for (size_t i = *at; i < end; i++)
      add_unit(
          claiming,
          &(Unit){.node = graph->nodes.items[i], .begin = i, .end = i + 1, .is_bound = is_bound});
  *at = end;
}

/* The unit that makes an input; -1 if the input comes from outside the units, or is absent. */
static int32_t maker_of(const Claiming *claiming, const BpGraphNode *node, int32_t input) {
  const BpGraphValue *value = node->inputs[input];
  return value ? claiming->maker[value->id] : -1;
}

/* Marks, by value id, the values that a unit of another group than the maker's reads, and outputs
 * of the graph (free). `group_of` returns a unit's group. */
static uint8_t *mark_outside(const Claiming *claiming, int32_t (*group_of)(const Unit *unit)) {
  uint8_t *marks = calloc((size_t)claiming->graph->num_values + 1, 1);
  if (!marks) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory for %d nodes", claiming->num_units);
    return NULL;
  }
  for (int32_t u = 0; u < claiming->num_units; u++) {
    const Unit *unit = &claiming->units[u];
    for (int32_t k = 0; k < unit->node->num_inputs; k++) {
      int32_t maker = maker_of(claiming, unit->node, k);
      if (maker >= 0 && group_of(&claiming->units[maker]) != group_of(unit))
        marks[unit->node->inputs[k]->id] = 1;
    }
  }
  for (size_t i = 0; i < claiming->graph->outputs.size; i++)
    marks[((const BpGraphValue *)claiming->graph->outputs.items[i])->id] = 1;
  return marks;
}

static int32_t own_group(const Unit *unit) {
  return (int32_t)unit->begin;
}

static int32_t shown_group(const Unit *unit) {
  return unit->shown >= 0 ? 0 : -1;
}

static int32_t part_group(const Unit *unit) {
  return unit->part;
}

static int list_units(Claiming *claiming) {
  const BpGraph *graph = claiming->graph;
  claiming->units = calloc(graph->nodes.size + 1, sizeof(*claiming->units));
  claiming->maker = malloc(((size_t)graph->num_values + 1) * sizeof(*claiming->maker));
  if (!claiming->units || !claiming->maker)
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory for %zu nodes", graph->nodes.size);
  for (int32_t i = 0; i < graph->num_values; i++)
    claiming->maker[i] = -1;
  for (size_t at = 0; at < graph->nodes.size;)
    add_units(claiming, &at);
  claiming->is_read = mark_outside(claiming, own_group);
  return claiming->is_read ? 0 : -1;
}

/* The first value of a node with an open extent, or NULL. */
static const BpGraphValue *find_open(const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs + node->num_outputs; i++) {
    const BpGraphValue *value =
        i < node->num_inputs ? node->inputs[i] : node->outputs[i - node->num_inputs];
    if (value && bp__value_is_open(value))
      return value;
  }
  return NULL;
}

static int takes_open(const BpGraphCompilerApi *api) {
  return BP_TABLE_HAS(api, flags) && api->flags & BP_GRAPH_COMPILER_OPEN_EXTENTS;
}

/* Makes a view of the graph for one graph compiler. */
static const BpOnnxGraph *view_all(Claiming *claiming, const BpGraphCompilerApi *api) {
  BpArena *arena = &claiming->graph->arena;
  const BpGraphNode **nodes =
      bp__arena_alloc_array(arena, (size_t)claiming->num_units, sizeof(*nodes));
  int32_t num_shown = 0;
  for (int32_t u = 0; nodes && u < claiming->num_units; u++) {
    Unit *unit = &claiming->units[u];
    int is_shown = unit->is_offered && (takes_open(api) || !find_open(unit->node));
    unit->shown = is_shown ? num_shown : -1;
    if (is_shown)
      nodes[num_shown++] = unit->node;
  }
  uint8_t *is_output = nodes ? mark_outside(claiming, shown_group) : NULL;
  BpViewPlan plan = {claiming->graph, nodes, num_shown, claiming->is_read, is_output};
  const BpOnnxGraph *view = is_output ? bp__view_create(arena, &plan) : NULL;
  free(is_output);
  return view;
}

static const BpOnnxGraph *view_part(const Claiming *claiming, int32_t first) {
  const Unit *units = claiming->units;
  BpArena *arena = &claiming->graph->arena;
  int32_t count = 0;
  for (int32_t u = first; u >= 0; u = units[u].next)
    count++;
  const BpGraphNode **nodes = bp__arena_alloc_array(arena, (size_t)count, sizeof(*nodes));
  if (!nodes)
    return NULL;
  BpViewPlan plan = {claiming->graph, nodes, 0, claiming->is_read, claiming->is_output};
  for (int32_t u = first; u >= 0; u = units[u].next)
    nodes[plan.num_nodes++] = units[u].node;
  return bp__view_create(arena, &plan);
}

/* ---- Asking ------------------------------------------------------------------------------ */

static int fits_target(const BpBuild *build, const BpGraphCompilerApi *api) {
  return api->device_type == bp_target_device_type(build->target);
}

/* The best graph compiler for a node so far. */
typedef struct Best {
  double cost;      /* least cost; 0: a compiler stated none, so the first one gets the node */
  int32_t compiler; /* compiler with the least cost */
  int32_t first;    /* first compiler that takes the node; -1: none does */
} Best;

static void enter_claim(Best *best, int32_t compiler, double cost) {
  if (best->first < 0)
    *best = (Best){cost, compiler, compiler};
  else if (best->cost > 0 && cost < best->cost)
    *best = (Best){cost, cost > 0 ? compiler : best->first, best->first};
}

static int add_reason(const Claiming *claiming, Unit *unit, const char *compiler,
                      const char *reason) {
  unit->why = bp__arena_printf(&claiming->graph->arena, "%s%s%s: %s", unit->why ? unit->why : "",
                               unit->why ? "; " : "", compiler, reason);
  return unit->why ? 0 : -1;
}

/* Adds to the reasons that a node was not shown to a graph compiler because of an open extent. */
static int add_open_reason(const Claiming *claiming, Unit *unit, const BpGraphCompilerApi *api) {
  const BpGraphValue *value = find_open(unit->node);
  char extent[128], reason[512];
  int32_t d = 0;
  while (!bp__extent_is_open(value->shape[d]))
    d++;
  bp__extent_format(&claiming->graph->extents, value->shape[d], extent, sizeof(extent));
  snprintf(reason, sizeof(reason),
           "it takes known extents alone, and dimension %d of value '%s' has the open extent %s; "
           "give shapes with --shape (BpCompileOptions::shapes)",
           d, value->name ? value->name : "", extent);
  return add_reason(claiming, unit, api->name, reason);
}

/* Records the answer of a graph compiler for a node. */
static int enter_answer(Claiming *claiming, Unit *unit, int32_t index, const BpClaims *claims,
                        Best *best) {
  const BpGraphCompilerApi *api = claiming->build->compilers[index];
  if (unit->shown < 0)
    return add_open_reason(claiming, unit, api);
  double cost = claims->costs[unit->shown];
  if (cost < 0) {
    const char *why = claims->why[unit->shown];
    return add_reason(claiming, unit, api->name, why ? why : "it gave no reason");
  }
  enter_claim(best, index, cost);
  if (unit->compiler != best->compiler) {
    unit->compiler = best->compiler;
    unit->cost = unit->compiler == index ? cost : 0;
  }
  return 0;
}

/* Asks graph compiler `index`, and records the nodes that it takes; `best` is by unit. */
static int ask(Claiming *claiming, int32_t index, Best *best) {
  const BpGraphCompilerApi *api = claiming->build->compilers[index];
  const BpOnnxGraph *view = view_all(claiming, api);
  BpClaims *claims = view ? bp__claims_create(&claiming->graph->arena, view) : NULL;
  if (!claims)
    return -1;
  int status = api->claim(api->context, view, claiming->build->target, claims);
  if (claims->failure)
    status = bp_error_raise(BP_ERROR_PLUGIN, "its claim is invalid: %s", claims->failure);
  if (status)
    return bp_error_add_context("graph compiler %s", api->name);
  for (int32_t u = 0; u < claiming->num_units; u++)
    if (claiming->units[u].is_offered &&
        enter_answer(claiming, &claiming->units[u], index, claims, &best[u]))
      return -1;
  return 0;
}

static int ask_all(Claiming *claiming) {
  const BpBuild *build = claiming->build;
  Best *best = bp__arena_alloc_array(&claiming->graph->arena, (size_t)claiming->num_units + 1,
                                     sizeof(*best));
  int status = best ? 0 : -1;
  for (int32_t u = 0; u < claiming->num_units && best; u++)
    best[u].first = -1;
  for (int32_t i = 0; i < build->num_compilers && !status; i++)
    if (fits_target(build, build->compilers[i]))
      status = ask(claiming, i, best);
  return status;
}

/* ---- Parts ------------------------------------------------------------------------------- */

static int32_t find_part(Claiming *claiming, int32_t unit) {
  Unit *units = claiming->units;
  while (units[unit].part != unit) {
    units[unit].part = units[units[unit].part].part;
    unit = units[unit].part;
  }
  return unit;
}

/* Makes parts of connected units with the same compiler and level. The level grows where a path
 * goes from one compiler's units, or the host's, to another's, and never falls: so no path that
 * leaves a part returns to it, even through other parts, and parts can run in the order of their
 * levels. The level grows after each unit that binds extents, too, because later units may compute
 * with bound extents. */
static int make_parts(Claiming *claiming) {
  Unit *units = claiming->units;
  int32_t least = 0;
  for (int32_t u = 0; u < claiming->num_units; u++) {
    units[u].level = least;
    for (int32_t k = 0; k < units[u].node->num_inputs; k++) {
      int32_t maker = maker_of(claiming, units[u].node, k);
      if (maker < 0)
        continue;
      int32_t level = units[maker].level + (units[maker].compiler != units[u].compiler);
      units[u].level = level > units[u].level ? level : units[u].level;
    }
    if (!units[u].is_offered && binds_extents(units[u].node))
      least = units[u].level + 1;
    for (int32_t k = 0; units[u].compiler >= 0 && k < units[u].node->num_inputs; k++) {
      int32_t maker = maker_of(claiming, units[u].node, k);
      if (maker < 0 || units[maker].compiler != units[u].compiler ||
          units[maker].level != units[u].level)
        continue;
      int32_t a = find_part(claiming, maker), b = find_part(claiming, u);
      units[a > b ? a : b].part = a > b ? b : a;
    }
  }
  for (int32_t u = claiming->num_units - 1; u >= 0; u--) {
    int32_t first = find_part(claiming, u);
    units[u].part = first;
    units[u].next = u == first ? units[u].next : units[first].next;
    if (u != first)
      units[first].next = u;
  }
  claiming->is_output = mark_outside(claiming, part_group);
  return claiming->is_output ? 0 : -1;
}

/* Why a compiled module cannot be used (g_free), or NULL. */
static char *find_fault(BpModule *module, const char *function) {
  BpFunction *found = NULL;
  if (!(bp_module_get_property(module) & BP_MODULE_BINARY_SERIALIZABLE))
    return g_strdup_printf("its module of kind %s cannot be saved", bp_module_kind(module));
  if (bp_module_get_function(module, function, 0, &found)) {
    char *fault = g_strdup(bp_error_message());
    bp_error_clear();
    return fault;
  }
  bp_object_release(found);
  return found ? NULL : g_strdup_printf("its module has no function \"%s\"", function);
}

/* Compiles the part of a view. Returns 0 if the module was added to the build, or was handed back
 * with the reason in *fault (g_free); -1 with an error. */
static int compile_view(const Claiming *claiming, const BpGraphCompilerApi *api,
                        const BpOnnxGraph *view, const char *function, char **fault) {
  BpModule *module = NULL;
  *fault = NULL;
  if (api->compile(api->context, view, claiming->build->target, function, &module)) {
    *fault = g_strdup(bp_error_message());
    bp_error_clear();
    bp_object_release(module);
    return 0;
  }
  *fault = module ? find_fault(module, function) : g_strdup("it gave no module");
  if (!*fault && !bp__list_push(claiming->build->parts, module))
    return 0;
  bp_object_release(module);
  return *fault ? 0 : -1;
}

/* Joins the names of the part's nodes with line breaks, as graph JSON lists the nodes of a
 * function. */
static const char *join_names(BpArena *arena, const BpOnnxGraph *view) {
  size_t size = 1;
  for (int32_t i = 0; i < view->num_nodes; i++)
    size += strlen(view->nodes[i].name) + 1;
  char *names = bp__arena_alloc(arena, size), *at = names;
  for (int32_t i = 0; names && i < view->num_nodes; i++)
    at = stpcpy(stpcpy(at, i ? "\n" : ""), view->nodes[i].name);
  return names;
}

/* Makes the node that replaces the part: it reads the part's inputs and makes its outputs. */
static BpGraphNode *make_node(const Claiming *claiming, const BpOnnxGraph *view,
                              const char *function) {
  BpGraph *graph = claiming->graph;
  size_t count = (size_t)view->num_inputs;
  BpGraphValue **inputs = bp__arena_alloc_array(&graph->arena, count, sizeof(BpGraphValue *));
  BpGraphAttr attr = {
      .name = "function", .type = BP_GRAPH_ATTR_STRING, .count = 1, .str = function};
  for (size_t i = 0; inputs && i < count; i++)
    inputs[i] = view->origins[view->inputs[i]];
  const char *names = join_names(&graph->arena, view);
  BpGraphNode *node = inputs && names
                          ? bp__graph_node(graph, bp__op_find("backplane", "Part"), names, inputs,
                                           view->num_inputs, view->num_outputs, &attr, 1)
                          : NULL;
  for (int32_t i = 0; node && i < view->num_outputs; i++) {
    node->outputs[i] = view->origins[view->outputs[i]];
    node->outputs[i]->producer = node;
  }
  return node;
}

/* "part_0_dnnl". */
static const char *function_name(const Claiming *claiming, const BpGraphCompilerApi *api,
                                 int32_t number) {
  char *name = bp__arena_printf(&claiming->graph->arena, "part_%" PRId32 "_%s", number, api->name);
  for (char *at = name; at && *at; at++)
    *at = g_ascii_isalnum(*at) ? *at : '_';
  return name;
}

/* The time of a part that is not kept, or NULL. */
static const BpPartTime *find_loss(const BpBuild *build, int32_t number) {
  const BpPartChoice *choice = build->choice;
  return choice && number < choice->num_parts && !choice->parts[number].is_kept
             ? &choice->parts[number]
             : NULL;
}

/* Formats the reason why a part is not kept. */
static char *explain_loss(const BpPartTime *time) {
  return g_strdup_printf("generated code is as fast: %.1f us, and the part that it claims %.1f us",
                         (double)time->generated_ns / 1e3, (double)time->claimed_ns / 1e3);
}

/* Compiles the part that begins with unit `first`, unless it is not kept. */
static int compile_part(Claiming *claiming, int32_t first, BpGraphNode **node) {
  Unit *units = claiming->units;
  const BpGraphCompilerApi *api = claiming->build->compilers[units[first].compiler];
  int32_t number = (*claiming->build->num_claimed)++;
  const BpPartTime *loss = find_loss(claiming->build, number);
  const BpOnnxGraph *view = view_part(claiming, first);
  const char *function = function_name(claiming, api, number);
  char *fault = loss ? explain_loss(loss) : NULL;
  if (!view || !function || (!loss && compile_view(claiming, api, view, function, &fault)))
    return -1;
  if (!fault)
    *node = make_node(claiming, view, function);
  int status = fault || *node ? 0 : -1;
  for (int32_t u = first; u >= 0 && !status; u = units[u].next) {
    units[u].function = fault ? NULL : function;
    status = fault ? add_reason(claiming, &units[u], api->name, fault) : 0;
  }
  g_free(fault);
  return status;
}

/* ---- The graph with parts ---------------------------------------------------------------- */

static int push_unit(BpGraph *graph, const Unit *unit, const BpList *old) {
  for (size_t i = unit->begin; i < unit->end; i++)
    if (bp__list_push(&graph->nodes, old->items[i]))
      return -1;
  return 0;
}

/* Sorts the units by level and, within a level, in their original order (free). */
static int32_t *sort_units(const Claiming *claiming) {
  size_t count = (size_t)claiming->num_units;
  int32_t *order = calloc(count + 1, sizeof(*order));
  size_t *place = calloc(count + 2, sizeof(*place));
  if (!order || !place) {
    free(order);
    free(place);
    bp_error_raise(BP_ERROR_MEMORY, "out of memory for %zu nodes", count);
    return NULL;
  }
  for (size_t u = 0; u < count; u++)
    place[claiming->units[u].level + 1]++;
  for (size_t level = 1; level <= count; level++)
    place[level] += place[level - 1];
  for (size_t u = 0; u < count; u++)
    order[place[claiming->units[u].level]++] = (int32_t)u;
  free(place);
  return order;
}

/* Rebuilds the list of nodes, with the node in `nodes` of each part's first unit in place of the
 * part. */
static int replace_nodes(const Claiming *claiming, BpGraphNode *const *nodes) {
  BpGraph *graph = claiming->graph;
  BpList old = graph->nodes;
  int32_t *order = sort_units(claiming);
  int status = order ? 0 : -1;
  if (status)
    return -1;
  graph->nodes = (BpList){0};
  for (int32_t i = 0; i < claiming->num_units && !status; i++) {
    const Unit *unit = &claiming->units[order[i]];
    if (!unit->function)
      status = push_unit(graph, unit, &old);
    else if (unit->part == order[i])
      status = bp__list_push(&graph->nodes, nodes[order[i]]);
  }
  free(order);
  bp__list_free(&old);
  if (!status)
    bp__graph_remove_dead(graph);
  return status;
}

static int compile_parts(Claiming *claiming) {
  BpGraphNode **nodes = calloc((size_t)claiming->num_units + 1, sizeof(BpGraphNode *));
  int status = nodes ? 0 : bp_error_raise(BP_ERROR_MEMORY, "out of memory for parts");
  int32_t num_parts = 0;
  for (int32_t u = 0; u < claiming->num_units && !status; u++) {
    if (claiming->units[u].compiler < 0 || claiming->units[u].part != u)
      continue;
    status = compile_part(claiming, u, &nodes[u]);
    num_parts += !status && nodes[u];
  }
  if (!status && num_parts > 0)
    status = replace_nodes(claiming, nodes);
  free(nodes);
  return status;
}

/* ---- Reports ----------------------------------------------------------------------------- */

static const char *reason_of(const Unit *unit) {
  if (unit->is_offered)
    return unit->why;
  if (bp__op_is_control(unit->node))
    return "it is not offered: it runs bodies, whose nodes are offered";
  return unit->is_bound
             ? "it is not offered: its shapes depend on data, or a run checks whether "
               "they fit"
             : "it is not offered: a value that it reads or gives was settled while it was "
               "imported";
}

/* The node of the model of a unit, or NULL if the importer read none. */
static const BpGraphNode *node_of_model(const Claiming *claiming, const Unit *unit) {
  int32_t source = unit->is_offered ? 0 : unit->node->source;
  return source > 0 ? claiming->graph->sources.items[source - 1] : unit->node;
}

static int report_unit(const Claiming *claiming, const Unit *unit) {
  const BpCompileOptions *options = claiming->build->options;
  const BpGraphNode *as_read = node_of_model(claiming, unit);
  BpClaimedNode node = {
      .struct_size = sizeof(node), .node = as_read->name, .op = as_read->op->name};
  if (unit->function) {
    node.compiler = claiming->build->compilers[unit->compiler]->name;
    node.function = unit->function;
    node.cost = unit->cost;
  } else {
    node.why = reason_of(unit);
  }
  if (!options->claimed || !options->claimed(options->claimed_context, &node))
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME,
                        "BpCompileOptions::claimed cancelled the compilation (node '%s')",
                        unit->node->name);
}

/* Whether a unit counts: of the several units of a node that is not offered only one counts. */
static int is_counted(const Claiming *claiming, int32_t u) {
  const Unit *unit = &claiming->units[u];
  return unit->is_offered || unit->node->source == 0 || u == 0 || unit[-1].is_offered ||
         unit[-1].node->source != unit->node->source;
}

#define MOST_LISTED 8

/* Reports which compiler computes each node, and counts the node. */
static int report(const Claiming *claiming, Tally *tally) {
  for (int32_t u = 0; u < claiming->num_units; u++) {
    const Unit *unit = &claiming->units[u];
    if (!is_counted(claiming, u))
      continue;
    tally->total++;
    tally->claimed += unit->function != NULL;
    if (!unit->function && tally->num_listed++ < MOST_LISTED)
      g_string_append_printf(tally->unclaimed, "%s'%s' (%s): %s", tally->unclaimed->len ? "; " : "",
                             node_of_model(claiming, unit)->name,
                             node_of_model(claiming, unit)->op->name, reason_of(unit));
    if (report_unit(claiming, unit))
      return -1;
  }
  return 0;
}

/* Fails if too few nodes are claimed. */
static int check_share(const BpBuild *build, const Tally *tally) {
  double least = build->options->least_claimed;
  if (tally->claimed >= least * tally->total)
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "graph compilers claim %d of %d nodes, and the share that is required is "
                        "%g (BpCompileOptions.least_claimed, --require): %s",
                        tally->claimed, tally->total, least, tally->unclaimed->str);
}

/* ---- The pass ---------------------------------------------------------------------------- */

/* Whether any graph compiler makes code for the target. */
static int any_fits(const BpBuild *build) {
  for (int32_t i = 0; i < build->num_compilers; i++)
    if (fits_target(build, build->compilers[i]))
      return 1;
  return 0;
}

static int claim_bodies(const BpBuild *build, const BpGraph *graph, Tally *tally);

/* Claims parts of a graph, and then of the bodies of its nodes. */
static int claim_graph(const BpBuild *build, BpGraph *graph, Tally *tally) {
  Claiming claiming = {.build = build, .graph = graph};
  bp__graph_count_uses(graph);
  int status = list_units(&claiming);
  if (!status)
    status = ask_all(&claiming);
  if (!status)
    status = make_parts(&claiming);
  if (!status)
    status = compile_parts(&claiming);
  if (!status)
    status = report(&claiming, tally);
  free(claiming.units);
  free(claiming.maker);
  free(claiming.is_read);
  free(claiming.is_output);
  return status ? -1 : claim_bodies(build, graph, tally);
}

static int claim_bodies(const BpBuild *build, const BpGraph *graph, Tally *tally) {
  for (size_t i = 0; i < graph->nodes.size; i++) {
    const BpGraphNode *node = graph->nodes.items[i];
    for (int32_t b = 0; b < node->num_bodies; b++)
      if (claim_graph(build, node->bodies[b], tally))
        return -1;
  }
  return 0;
}

int bp__build_claim(const BpBuild *build, BpGraph *graph) {
  if (!any_fits(build))
    return 0;
  Tally tally = {.unclaimed = g_string_new(NULL)};
  int status = claim_graph(build, graph, &tally);
  if (!status)
    status = check_share(build, &tally);
  g_string_free(tally.unclaimed, TRUE);
  return status;
}
