/* SPDX-License-Identifier: Apache-2.0 */
/* Several devices: a node that the target's generator refuses runs on the device of the first
 * fallback whose generator takes it, and a value that another device reads is copied to that
 * device. Inputs and outputs of the model are on the target's device. */
#include <stdlib.h>

#include <backplane/device.h>
#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/ops/control.h"

/* ---- Placing nodes ----------------------------------------------------------------------- */

/* Whether a node needs a placement. A view is on the device of its input, and a node with bodies on
 * the device of its inputs and outputs; the part of a graph compiler is compiled already. */
static bool needs_place(const BpGraphNode *node) {
  return node->op->fusion != BP_FUSE_VIEW && !bp__op_is_control(node) &&
         !bp__build_part_function(node);
}

static int report_refused(const BpBuild *build, const BpGraphNode *node, const char *why) {
  const BpCompileOptions *options = build->options;
  char *target = bp_target_format(build->target);
  int is_cancelled = target && options->placed &&
                     options->placed(options->placed_context, node->name, target, why);
  int status = target ? 0 : -1;
  bp_str_free(target);
  return is_cancelled
             ? bp_error_raise(BP_ERROR_RUNTIME,
                              "BpCompileOptions::placed cancelled the compilation (node '%s')",
                              node->name)
             : status;
}

/* Places a node on the first target of the chain that takes it; the last target gets the nodes that
 * all others refuse. */
static int place_node(const BpBuild *build, const BpGraph *graph, BpGraphNode *node) {
  char why[1024];
  for (; node->place < build->num_places - 1; node->place++) {
    BpBuild own = *build;
    own.target = build->chain[node->place];
    int can_run = bp__build_can_run(&own, graph, node, why, sizeof(why));
    if (can_run < 0)
      return bp_error_add_context("node '%s' (%s)", node->name, node->op->name);
    if (can_run > 0)
      break;
    if (report_refused(&own, node, why))
      return -1;
  }
  build->is_used[node->place] = true;
  return 0;
}

/* Places the listed nodes. All nodes are compiled at once, and each node alone only if that fails:
 * starting the target's compiler may take longer than compiling a node. */
static int place_listed(const BpBuild *build, const BpGraph *graph, const BpList *nodes) {
  int can_run = nodes->size > 1 ? bp__build_can_run_all(build, graph, nodes) : 0;
  int status = can_run < 0 ? -1 : 0;
  for (size_t i = 0; i < nodes->size && !can_run && !status; i++)
    status = place_node(build, graph, nodes->items[i]);
  return status;
}

/* Places nodes, and those of bodies. */
static int place_nodes(const BpBuild *build, BpGraph *graph) {
  BpList listed = {0};
  int status = 0;
  for (size_t i = 0; i < graph->nodes.size && !status; i++)
    if (needs_place(graph->nodes.items[i]))
      status = bp__list_push(&listed, graph->nodes.items[i]);
  status = status ? status : place_listed(build, graph, &listed);
  bp__list_free(&listed);
  for (size_t i = 0; i < graph->nodes.size && !status; i++) {
    const BpGraphNode *node = graph->nodes.items[i];
    for (int32_t b = 0; b < node->num_bodies && !status; b++)
      status = place_nodes(build, node->bodies[b]);
  }
  return status;
}

int bp__build_place(const BpBuild *build, BpGraph *graph) {
  return build->num_places > 1 ? place_nodes(build, graph) : 0;
}

static bool has_ordinal(const BpBuild *build, int32_t place) {
  return build->ordinals && build->ordinals[place] >= 0;
}

/* Returns the ordinal of a place's device. Specialised code runs on the devices of the general
 * code; a fallback that only the specialised code uses has an ordinal after those of the general
 * code's devices. */
int32_t bp__build_ordinal(const BpBuild *build, int32_t place) {
  int32_t type = bp_target_device_type(build->chain[place]), ordinal = 0;
  if (has_ordinal(build, place))
    return build->ordinals[place];
  for (int32_t i = 0; i < build->num_places && type != BP_DEVICE_CPU; i++) {
    bool is_before = has_ordinal(build, i) || (i < place && build->is_used[i]);
    ordinal += is_before && bp_target_device_type(build->chain[i]) == type;
  }
  return ordinal;
}

/* ---- Copies ------------------------------------------------------------------------------ */

typedef struct Copies {
  BpGraph *graph;
  BpGroups *groups;
  BpList list; /* the groups with the copies among them */
  int32_t num_places;
  BpGraphValue **twins; /* copy of a value at a place, by the value's old id and place */
} Copies;

static BpGraphValue **twin_at(const Copies *copies, const BpGraphValue *value, int32_t place) {
  return &copies->twins[(size_t)value->id * (size_t)copies->num_places + (size_t)place];
}

/* A constant is stored at each place, anything else is copied before its first reader there. */
static BpGraphValue *make_twin(Copies *copies, BpGraphValue *value, int32_t place,
                               BpGraphNode *reader) {
  BpGraphValue *twin = value->data ? bp__graph_constant(copies->graph, value->name, value->dtype,
                                                        value->shape, value->ndim, value->data)
                                   : bp__graph_value(copies->graph, value->name, value->dtype,
                                                     value->shape, value->ndim);
  if (!twin)
    return NULL;
  twin->place = place;
  *twin_at(copies, value, place) = twin;
  if (value->data)
    return twin;
  twin->producer = value->producer ? value->producer : reader;
  BpGroup *group = bp__arena_alloc(&copies->groups->arena, sizeof(*group));
  if (!group || bp__list_push(&copies->list, group))
    return NULL;
  group->is_copy = 1;
  group->place = place;
  return bp__list_push(&group->outputs, twin) || bp__list_push(&group->args, value) ? NULL : twin;
}

/* Returns the value on a device: the value itself, or its copy there; NULL with an error. */
static BpGraphValue *at_place(Copies *copies, BpGraphValue *value, int32_t place,
                              BpGraphNode *reader) {
  if (value->place == place)
    return value;
  BpGraphValue *twin = *twin_at(copies, value, place);
  return twin ? twin : make_twin(copies, value, place, reader);
}

static int visit_group(Copies *copies, BpGroup *group) {
  if (group->view_of)
    group->place = group->view_of->place;
  for (size_t i = 0; i < group->outputs.size; i++)
    ((BpGraphValue *)group->outputs.items[i])->place = group->place;
  const BpGraphValue *first = group->outputs.items[0];
  for (size_t i = 0; i < group->args.size; i++) {
    BpGraphValue *value = at_place(copies, group->args.items[i], group->place, first->producer);
    if (!value)
      return -1;
    group->args.items[i] = value;
  }
  return bp__list_push(&copies->list, group);
}

static int visit_outputs(Copies *copies) {
  BpList *outputs = &copies->graph->outputs;
  for (size_t i = 0; i < outputs->size; i++) {
    BpGraphValue *value = outputs->items[i];
    outputs->items[i] = at_place(copies, value, BP_PLACE_TARGET, value->producer);
    if (!outputs->items[i])
      return -1;
  }
  return 0;
}

int bp__build_copies(const BpBuild *build, BpGraph *graph, BpGroups *groups) {
  Copies copies = {.graph = graph, .groups = groups, .num_places = build->num_places};
  int status = 0;
  copies.twins =
      calloc(((size_t)graph->num_values + 1) * (size_t)build->num_places, sizeof(*copies.twins));
  if (!copies.twins)
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory while placing copies");
  for (size_t i = 0; i < groups->groups.size && !status; i++)
    status = visit_group(&copies, groups->groups.items[i]);
  if (!status)
    status = visit_outputs(&copies);
  free(copies.twins);
  for (size_t i = 0; status && i < copies.list.size; i++) {
    BpGroup *group = copies.list.items[i];
    if (group->is_copy)
      bp__group_clear(group);
  }
  if (!status) {
    BpList old = groups->groups;
    groups->groups = copies.list;
    copies.list = old;
  }
  bp__list_free(&copies.list);
  return status;
}
