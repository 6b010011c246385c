/* SPDX-License-Identifier: Apache-2.0 */
/* Memory planning: assigns values to shared storage. Groups run in order; a storage is free again
 * after the last reader of its value, or of a view of the value, has run. The best fit is taken,
 * and enlarged if none is large enough. */
#include <stdlib.h>

#include <backplane/error.h>

#include "graph/build/build.h"

#define NEVER INT32_MAX

typedef struct Planner {
  BpMemoryPlan *plan;
  int32_t *root;    /* value whose storage a value uses, by value id */
  int32_t *last;    /* last group that reads a root value */
  uint8_t *is_free; /* whether a storage is free */
} Planner;

static int32_t new_storage(Planner *planner, int64_t size, int32_t place) {
  planner->plan->places[planner->plan->num_storages] = place;
  planner->plan->sizes[planner->plan->num_storages] = size;
  return planner->plan->num_storages++;
}

/* Takes the smallest free storage of the device that is large enough, else the largest one. */
static int32_t take_storage(Planner *planner, int64_t size, int32_t place) {
  const int64_t *sizes = planner->plan->sizes;
  int32_t best = -1;
  for (int32_t i = 0; i < planner->plan->num_storages; i++) {
    if (!planner->is_free[i] || planner->plan->places[i] != place)
      continue;
    if (best < 0 ||
        (sizes[best] < size ? sizes[i] > sizes[best] : sizes[i] >= size && sizes[i] < sizes[best]))
      best = i;
  }
  if (best < 0)
    return new_storage(planner, size, place);
  planner->is_free[best] = 0;
  if (sizes[best] < size)
    planner->plan->sizes[best] = size;
  return best;
}

static void find_lifetimes(const BpGraph *graph, const BpGroups *groups, Planner *planner) {
  for (int32_t i = 0; i < graph->num_values; i++) {
    planner->root[i] = i;
    planner->last[i] = -1;
    planner->plan->storage[i] = -1;
  }
  for (size_t g = 0; g < groups->groups.size; g++) {
    const BpGroup *group = groups->groups.items[g];
    if (group->view_of)
      planner->root[((const BpGraphValue *)group->outputs.items[0])->id] =
          planner->root[group->view_of->id];
    for (size_t i = 0; i < group->args.size; i++) {
      const BpGraphValue *value = group->args.items[i];
      int32_t root = planner->root[value->id];
      planner->last[root] = value->producer ? (int32_t)g : NEVER;
    }
  }
  for (size_t i = 0; i < graph->inputs.size; i++)
    planner->last[((BpGraphValue *)graph->inputs.items[i])->id] = NEVER;
  for (size_t i = 0; i < graph->outputs.size; i++)
    planner->last[planner->root[((BpGraphValue *)graph->outputs.items[i])->id]] = NEVER;
}

/* Gives an input or parameter a storage of its own. */
static void give_own(Planner *planner, const BpGraphValue *value) {
  int32_t *storage = &planner->plan->storage[value->id];
  if (*storage < 0)
    *storage = new_storage(planner, bp__value_num_bytes(value), value->place);
}

/* Frees an output that no group reads, usually memory between the threads of a kernel, after its
 * group. */
static void free_unread(Planner *planner, const BpGraphValue *output) {
  if (planner->last[planner->root[output->id]] < 0)
    planner->is_free[planner->plan->storage[output->id]] = 1;
}

static void plan_group(Planner *planner, const BpGroup *group, int32_t index) {
  int32_t *storage = planner->plan->storage;
  for (size_t i = 0; i < group->args.size; i++)
    if (!((const BpGraphValue *)group->args.items[i])->producer)
      give_own(planner, group->args.items[i]);
  for (size_t i = 0; i < group->outputs.size; i++) {
    const BpGraphValue *output = group->outputs.items[i];
    storage[output->id] = group->view_of
                              ? storage[group->view_of->id]
                              : take_storage(planner, bp__value_num_bytes(output), output->place);
  }
  for (size_t i = 0; i < group->args.size; i++) {
    int32_t root = planner->root[((const BpGraphValue *)group->args.items[i])->id];
    if (planner->last[root] == index)
      planner->is_free[storage[root]] = 1;
  }
  for (size_t i = 0; i < group->outputs.size && !group->view_of; i++)
    free_unread(planner, group->outputs.items[i]);
}

int bp__build_plan(const BpGraph *graph, const BpGroups *groups, BpMemoryPlan *plan) {
  size_t count = (size_t)graph->num_values;
  Planner planner = {.plan = plan};
  int32_t *memory = calloc(count + 1, 2 * sizeof(*memory));
  plan->storage = calloc(count + 1, sizeof(*plan->storage));
  plan->sizes = calloc(count + 1, sizeof(*plan->sizes));
  plan->places = calloc(count + 1, sizeof(*plan->places));
  planner.is_free = calloc(count + 1, 1);
  if (memory && plan->storage && plan->sizes && plan->places && planner.is_free) {
    planner.root = memory;
    planner.last = memory + count;
    find_lifetimes(graph, groups, &planner);
    for (size_t i = 0; i < graph->inputs.size; i++)
      give_own(&planner, graph->inputs.items[i]);
    for (size_t i = 0; i < groups->groups.size; i++)
      plan_group(&planner, groups->groups.items[i], (int32_t)i);
    free(memory);
    free(planner.is_free);
    return 0;
  }
  free(memory);
  free(planner.is_free);
  return bp_error_raise(BP_ERROR_MEMORY, "out of memory while planning the storage of %zu values",
                        count);
}

void bp__plan_clear(BpMemoryPlan *plan) {
  free(plan->storage);
  free(plan->sizes);
  free(plan->places);
  *plan = (BpMemoryPlan){0};
}
