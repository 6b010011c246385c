/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as arguments. Layers of a model often differ only in numbers, as scales of quantised
 * values do: their groups share a function that has these numbers as arguments. Numbers that are
 * equal in all the groups, and numbers that are not only added or multiplied, stay in the code. */
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/ops/op.h"

/* Groups that are equal but for numbers. */
typedef struct Kind {
  const BpGroup *first;
  int32_t num_different; /* the number of inputs in which groups differ */
  bool is_different[];   /* by node and input: whether a group has another number than the first */
} Kind;

static size_t count_inputs(const BpGroup *group) {
  size_t count = 0;
  for (size_t i = 0; i < group->nodes.size; i++)
    count += (size_t)((const BpGraphNode *)group->nodes.items[i])->num_inputs;
  return count;
}

/* Whether the numbers of a group may be arguments: a launch of a kernel costs more with each. */
static bool is_shared(const BpBuild *build, const BpGroup *group) {
  return !group->view_of && !bp__group_control(group) && !bp__group_append(group) &&
         group->place < build->num_places && !bp__build_has_kernels(build->chain[group->place]);
}

static void compare(Kind *kind, const BpGroup *group) {
  size_t at = 0;
  for (size_t i = 0; i < group->nodes.size; i++) {
    const BpGraphNode *first = kind->first->nodes.items[i], *node = group->nodes.items[i];
    for (int32_t k = 0; k < node->num_inputs; k++, at++)
      if (!kind->is_different[at] && bp__group_has_number(group, node, k) &&
          !bp__value_same_data(first->inputs[k], node->inputs[k])) {
        kind->is_different[at] = true;
        kind->num_different++;
      }
  }
}

/* The kind of a group; NULL with an error. */
static Kind *find_kind(BpGroups *groups, GHashTable *kinds, const BpGroup *group) {
  Kind *kind = g_hash_table_lookup(kinds, group);
  if (!kind) {
    kind = bp__arena_alloc(&groups->arena, sizeof(*kind) + count_inputs(group));
    if (!kind)
      return NULL;
    kind->first = group;
    g_hash_table_insert(kinds, (void *)(uintptr_t)group, kind);
  }
  compare(kind, group);
  return kind;
}

/* Makes an input an argument of the group, as a value of its own: another input of the group may
 * have the same number where other groups have another. */
static int add_number(BpGraph *graph, BpGroup *group, BpGraphNode *node, int32_t input) {
  const BpGraphValue *old = node->inputs[input];
  BpGraphValue *own = bp__graph_constant(graph, old->name, old->dtype, old->shape, old->ndim, NULL);
  if (!own)
    return -1;
  memcpy(bp__graph_constant_data(own), old->data, (size_t)bp__value_num_bytes(old));
  node->inputs[input] = own;
  return bp__list_push(&group->args, own);
}

static int add_numbers(BpGraph *graph, const Kind *kind, BpGroup *group) {
  size_t at = 0;
  for (size_t i = 0; i < group->nodes.size; i++) {
    BpGraphNode *node = group->nodes.items[i];
    for (int32_t k = 0; k < node->num_inputs; k++, at++)
      if (kind->is_different[at] && add_number(graph, group, node, k))
        return -1;
  }
  return 0;
}

int bp__build_share_numbers(const BpBuild *build, BpGraph *graph, BpGroups *groups) {
  size_t count = groups->groups.size;
  const Kind **kinds = calloc(count + 1, sizeof(*kinds));
  GHashTable *known = g_hash_table_new(bp__group_hash, bp__group_alike);
  int status = kinds ? 0 : bp_error_raise(BP_ERROR_MEMORY, "out of memory while sharing functions");
  for (size_t i = 0; i < count && !status; i++)
    if (is_shared(build, groups->groups.items[i]) &&
        !(kinds[i] = find_kind(groups, known, groups->groups.items[i])))
      status = -1;
  g_hash_table_destroy(known); /* before groups change */
  for (size_t i = 0; i < count && !status; i++) {
    BpGroup *group = groups->groups.items[i];
    if (kinds[i] && (int32_t)group->args.size + kinds[i]->num_different <=
                        bp__build_most_arguments(build->chain[group->place]))
      status = add_numbers(graph, kinds[i], group);
  }
  free(kinds);
  return status;
}
