/* SPDX-License-Identifier: Apache-2.0 */
/* Splits groups into kernels: on a target with thread axes the executor launches a group's kernels
 * one by one. A buffer that one kernel writes and another reads becomes a value of the graph, so
 * that the memory plan allocates it. */
#include <stdbool.h>
#include <stdlib.h>

#include <backplane/error.h>

#include "graph/build/build.h"

/* The value that an argument of a kernel stands for: an argument of the group, one of its outputs,
 * or a value between two kernels. */
static BpGraphValue *value_of(const BpGroup *group, BpGraphValue *const *between, int32_t arg) {
  if (arg < 0)
    return between[-1 - arg];
  size_t index = (size_t)arg, count = group->args.size;
  return index < count ? group->args.items[index] : group->outputs.items[index - count];
}

static int add_kernel(BpGroups *groups, const BpGroup *whole, const BpKernelLaunch *kernel,
                      BpGraphValue *const *between, BpList *expanded) {
  BpGroup *group = bp__arena_alloc(&groups->arena, sizeof(*group));
  if (!group || bp__list_push(expanded, group))
    return -1;
  group->anchor = whole->anchor;
  group->function = kernel->name;
  group->kernel = kernel;
  group->place = whole->place;
  group->work = whole->kernels->num_kernels == 1 ? whole->work : 0;
  for (size_t i = 0; i < whole->nodes.size; i++)
    if (bp__list_push(&group->nodes, whole->nodes.items[i]))
      return -1;
  for (int32_t i = 0; i < kernel->num_args; i++) {
    bool is_read = i < kernel->num_args - kernel->num_outputs;
    if (bp__list_push(is_read ? &group->args : &group->outputs,
                      value_of(whole, between, kernel->args[i])))
      return -1;
  }
  return 0;
}

/* Makes the values that the kernels of a group pass to each other. */
static BpGraphValue **values_between(BpGraph *graph, const BpGroup *group) {
  const BpKernelList *list = group->kernels;
  const BpGraphValue *first = group->outputs.items[0];
  size_t count = (size_t)list->num_buffers + 1;
  BpGraphValue **values = bp__arena_alloc_array(&graph->arena, count, sizeof(BpGraphValue *));
  for (int32_t i = 0; values && i < list->num_buffers; i++) {
    int64_t elements = bp_ir_table()->int_value(list->buffer_elements[i]);
    values[i] = bp__graph_value(graph, first->name, list->buffer_dtypes[i], &elements, 1);
    if (!values[i])
      return NULL;
    values[i]->producer = first->producer;
    values[i]->place = group->place;
  }
  return values;
}

static int expand(BpGraph *graph, BpGroups *groups, BpGroup *group, BpList *expanded) {
  if (!group->kernels)
    return bp__list_push(expanded, group);
  BpGraphValue **between = values_between(graph, group);
  int status = between ? 0 : -1;
  for (int32_t i = 0; i < group->kernels->num_kernels && !status; i++)
    status = add_kernel(groups, group, bp_kernel_list_get(group->kernels, i), between, expanded);
  return status;
}

/* Frees the groups of one kind: kernels, or the groups that kernels replaced. */
static void free_groups(const BpList *list, int are_kernels) {
  for (size_t i = 0; i < list->size; i++) {
    BpGroup *group = list->items[i];
    if (are_kernels ? !group->kernel : !group->kernels)
      continue;
    bp__group_clear(group);
  }
}

int bp__build_kernels(BpGraph *graph, BpGroups *groups) {
  BpList expanded = {0};
  int status = 0;
  for (size_t i = 0; i < groups->groups.size && !status; i++)
    status = expand(graph, groups, groups->groups.items[i], &expanded);
  free_groups(status ? &expanded : &groups->groups, status != 0);
  if (!status) {
    BpList old = groups->groups;
    groups->groups = expanded;
    expanded = old;
  }
  bp__list_free(&expanded);
  return status;
}
