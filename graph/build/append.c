/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a model passes from one run to the next and that gain rows in each run, such as the
 * keys and values of a language model: present = Concat(past, new), where the past is an input that
 * no other node reads and the present is an output. A Concat that appends rows needs no function:
 * the machine copies the rows (graph/relax/append.c). If the caller keeps memory with room for
 * further rows, the machine only writes the new rows after the past ones. So nodes that read the
 * present use the extent of the memory, its room, instead of the number of rows. The room is a
 * symbol; tensors with the same number of rows have the same room. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/ops/control.h"

typedef struct Appends {
  BpGraph *graph;
  bool *bound; /* whether an input of the graph binds a symbol, by the symbol's place */
  int32_t num_bound;
} Appends;

static void mark_bound(Appends *appends) {
  const BpExtents *extents = &appends->graph->extents;
  for (size_t i = 0; i < appends->graph->inputs.size; i++) {
    const BpGraphValue *input = appends->graph->inputs.items[i];
    for (int32_t d = 0; d < input->ndim; d++)
      if (bp__extent_is_open(input->shape[d]))
        bp__extent_mark_symbols(extents, input->shape[d], appends->bound);
  }
}

/* Whether the extent is open, and is known as soon as the inputs are. */
static bool is_known_first(const Appends *appends, int64_t extent) {
  bool *marked = g_new0(bool, (gsize)appends->num_bound + 1);
  bool is_known = bp__extent_is_open(extent);
  if (is_known)
    bp__extent_mark_symbols(&appends->graph->extents, extent, marked);
  for (int32_t i = 0; i < appends->num_bound; i++)
    is_known &= !marked[i] || appends->bound[i];
  g_free(marked);
  return is_known;
}

/* Whether a tensor may have room: all its readers must compute each index, so no view, body or part
 * of a plugin may read it. */
static bool can_have_room(const Appends *appends, const BpGraphValue *value) {
  int32_t as_output = 0;
  for (size_t i = 0; i < appends->graph->outputs.size; i++)
    as_output += appends->graph->outputs.items[i] == value;
  for (size_t n = 0; n < appends->graph->nodes.size; n++) {
    const BpGraphNode *node = appends->graph->nodes.items[n];
    for (int32_t k = 0; k < node->num_inputs; k++)
      if (node->inputs[k] == value && (node->op->fusion == BP_FUSE_VIEW ||
                                       bp__op_is_control(node) || bp__build_part_function(node)))
        return false;
  }
  return as_output == 1;
}

static bool is_append(const Appends *appends, const BpGraphNode *node, int32_t *axis) {
  if (node->op->domain[0] || strcmp(node->op->name, "Concat") || node->num_inputs != 2 ||
      node->inputs[0] == node->inputs[1])
    return false;
  const BpGraphValue *past = node->inputs[0], *present = node->outputs[0];
  int64_t given = bp__node_int(node, "axis", 0);
  *axis = (int32_t)(given < 0 ? given + present->ndim : given);
  return bp__list_index(&appends->graph->inputs, past) >= 0 && past->num_uses == 1 &&
         !bp__dtype_is_narrow(present->dtype) && is_known_first(appends, present->shape[*axis]) &&
         can_have_room(appends, present);
}

/* The symbol for the room of tensors with `rows` rows, an open extent. */
static int64_t room_of(Appends *appends, int64_t rows) {
  BpExtents *extents = &appends->graph->extents;
  char text[64], key[128];
  bp__extent_format(extents, rows, text, sizeof(text));
  /* Texts of different extents may be equal, and may be cut; the integer makes the key unique. */
  snprintf(key, sizeof(key), "room for %s#%" PRId64, text, rows - bp__extents_at(0));
  return bp__extent_make_symbol(extents, key, bp__extent_likely(extents, rows));
}

int bp__build_appends(const BpBuild *build, BpGraph *graph) {
  (void)build;
  if (!bp__graph_is_open(graph))
    return 0;
  int32_t count = bp__extents_count(&graph->extents), axis;
  Appends appends = {graph, g_new0(bool, (gsize)count + 1), count};
  int status = 0;
  bp__graph_count_uses(graph);
  mark_bound(&appends);
  for (size_t i = 0; i < graph->nodes.size && !status; i++) {
    BpGraphNode *node = graph->nodes.items[i];
    if (!is_append(&appends, node, &axis))
      continue;
    BpGraphValue *present = node->outputs[0];
    present->room = room_of(&appends, present->shape[axis]);
    present->room_axis = axis;
    node->is_append = 1;
    status = present->room == BP_EXTENT_NONE ? -1 : 0;
  }
  g_free(appends.bound);
  return status;
}
