/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices: nodes that the target's generator rejects run on the fallback's device, and values
 * that the other device reads are copied. Inputs and outputs of the model are on the target's
 * device. */
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

static int place_node(const BpBuild *build, const BpGraph *graph, BpGraphNode *node,
                      const char *target) {
  const BpCompileOptions *options = build->options;
  char why[1024];
  int can_run = bp__build_can_run(build, graph, node, why, sizeof(why));
  if (can_run != 0)
    return can_run < 0 ? bp_error_add_context("node '%s' (%s)", node->name, node->op->name) : 0;
  node->place = BP_PLACE_FALLBACK;
  if (!options->placed || !options->placed(options->placed_context, node->name, target, why))
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME,
                        "BpCompileOptions::placed cancelled the compilation (node '%s')",
                        node->name);
}

/* Places the listed nodes. All nodes are compiled at once, and one by one only if that fails:
 * starting the target's compiler may take longer than compiling a node. */
static int place_listed(const BpBuild *build, const BpGraph *graph, const BpList *nodes,
                        const char *target) {
  int can_run = nodes->size > 1 ? bp__build_can_run_all(build, graph, nodes) : 0;
  int status = can_run < 0 ? -1 : 0;
  for (size_t i = 0; i < nodes->size && !can_run && !status; i++)
    status = place_node(build, graph, nodes->items[i], target);
  return status;
}

/* Places the nodes of the graph and of bodies. */
static int place_nodes(const BpBuild *build, BpGraph *graph, const char *target) {
  BpList listed = {0};
  int status = 0;
  for (size_t i = 0; i < graph->nodes.size && !status; i++)
    if (needs_place(graph->nodes.items[i]))
      status = bp__list_push(&listed, graph->nodes.items[i]);
  status = status ? status : place_listed(build, graph, &listed, target);
  bp__list_free(&listed);
  for (size_t i = 0; i < graph->nodes.size && !status; i++) {
    const BpGraphNode *node = graph->nodes.items[i];
    for (int32_t b = 0; b < node->num_bodies && !status; b++)
      status = place_nodes(build, node->bodies[b], target);
  }
  return status;
}

int bp__build_place(const BpBuild *build, BpGraph *graph) {
  if (!build->fallback)
    return 0;
  char *target = bp_target_format(build->target);
  int status = target ? place_nodes(build, graph, target) : -1;
  bp_str_free(target);
  return status;
}

/* ---- Copies ------------------------------------------------------------------------------ */

typedef struct Copies {
  BpGraph *graph;
  BpGroups *groups;
  BpList list;         /* the groups, including the copies */
  BpGraphValue **twin; /* copy of a value on the other device, by the value's id before the pass */
} Copies;

/* Makes a value's copy on the other device. A constant is stored twice; any other value is copied
 * before its first reader on the other device. */
static BpGraphValue *make_twin(Copies *copies, BpGraphValue *value, BpGraphNode *reader) {
  int32_t place = value->place == BP_PLACE_TARGET ? BP_PLACE_FALLBACK : BP_PLACE_TARGET;
  BpGraphValue *twin = value->data ? bp__graph_constant(copies->graph, value->name, value->dtype,
                                                        value->shape, value->ndim, value->data)
                                   : bp__graph_value(copies->graph, value->name, value->dtype,
                                                     value->shape, value->ndim);
  if (!twin)
    return NULL;
  twin->place = place;
  copies->twin[value->id] = twin;
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

/* The value as it is on a device; NULL with an error. */
static BpGraphValue *at_place(Copies *copies, BpGraphValue *value, int32_t place,
                              BpGraphNode *reader) {
  if (value->place == place)
    return value;
  return copies->twin[value->id] ? copies->twin[value->id] : make_twin(copies, value, reader);
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

int bp__build_copies(BpGraph *graph, BpGroups *groups) {
  Copies copies = {.graph = graph, .groups = groups};
  int status = 0;
  copies.twin = calloc((size_t)graph->num_values + 1, sizeof(*copies.twin));
  if (!copies.twin)
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory while placing copies");
  for (size_t i = 0; i < groups->groups.size && !status; i++)
    status = visit_group(&copies, groups->groups.items[i]);
  if (!status)
    status = visit_outputs(&copies);
  free(copies.twin);
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
