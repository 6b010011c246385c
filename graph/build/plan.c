/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of graphs whose shapes are known: assigns values to shared storage. Groups run in order;
 * a storage is free again after the last reader of its value, or of a view of the value, has run.
 *
 * Values are assigned from the largest to the smallest, so no storage grows. Of the storages that
 * are free during a value's lifetime the value takes the one that is in use soonest before or after
 * that lifetime. The choice leaves long intervals of other storages free for values that live
 * long. */
#include <stdlib.h>

#include <backplane/error.h>

#include "graph/build/build.h"

#define NEVER INT32_MAX

typedef struct Planned {
  const BpGraphValue *value;
  BpSpan span;
  int64_t size; /* bytes */
} Planned;

typedef struct Planner {
  BpMemoryPlan *plan;
  int32_t *root;   /* value whose storage a value uses, by value id */
  int32_t *last;   /* last group that reads a root value */
  Planned *values; /* the values that share storages */
  size_t num_values;
  GArray **spans; /* BpSpan: when a storage is in use, by storage id; NULL: it is not shared */
} Planner;

static int32_t new_storage(Planner *planner, int64_t size, int32_t place) {
  planner->plan->places[planner->plan->num_storages] = place;
  planner->plan->sizes[planner->plan->num_storages] = size;
  return planner->plan->num_storages++;
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

/* Collects the values that groups compute, except for views. An output that no group reads, usually
 * memory between the threads of a kernel, is in use while its group runs. */
static void collect_values(Planner *planner, const BpGroup *group, int32_t index) {
  for (size_t i = 0; i < group->outputs.size && !group->view_of; i++) {
    const BpGraphValue *value = group->outputs.items[i];
    int32_t last = planner->last[planner->root[value->id]];
    planner->values[planner->num_values++] =
        (Planned){value, {index, MAX(last, index)}, bp__value_num_bytes(value)};
  }
}

static int compare_sizes(const void *a, const void *b) {
  const Planned *first = a, *second = b;
  if (first->size != second->size)
    return first->size > second->size ? -1 : 1;
  int32_t later = first->span.first - second->span.first;
  return later ? later : first->value->id - second->value->id;
}

/* The free storage of the device with the least gap; a new one if none is free. */
static int32_t storage_for(Planner *planner, const Planned *planned) {
  const BpMemoryPlan *plan = planner->plan;
  int32_t best = -1, least = INT32_MAX;
  for (int32_t i = 0; i < plan->num_storages; i++) {
    if (!planner->spans[i] || plan->places[i] != planned->value->place)
      continue;
    int32_t gap = bp__span_gap(planner->spans[i], planned->span);
    if (gap >= 0 && gap < least) {
      best = i;
      least = gap;
    }
  }
  if (best >= 0)
    return best;
  best = new_storage(planner, planned->size, planned->value->place);
  planner->spans[best] = g_array_new(FALSE, FALSE, sizeof(BpSpan));
  return best;
}

static void assign_storage(Planner *planner, const Planned *planned) {
  int32_t storage = storage_for(planner, planned);
  planner->plan->storage[planned->value->id] = storage;
  g_array_append_val(planner->spans[storage], planned->span);
}

/* Gives views the storage of their values. Views follow the values that they are made of. */
static void assign_view(Planner *planner, const BpGroup *group) {
  int32_t *storage = planner->plan->storage;
  for (size_t i = 0; i < group->outputs.size && group->view_of; i++)
    storage[((const BpGraphValue *)group->outputs.items[i])->id] = storage[group->view_of->id];
}

static void plan_groups(Planner *planner, const BpGraph *graph, const BpGroups *groups) {
  for (size_t i = 0; i < graph->inputs.size; i++)
    give_own(planner, graph->inputs.items[i]);
  for (size_t g = 0; g < groups->groups.size; g++) {
    const BpGroup *group = groups->groups.items[g];
    for (size_t i = 0; i < group->args.size; i++)
      if (!((const BpGraphValue *)group->args.items[i])->producer)
        give_own(planner, group->args.items[i]);
    collect_values(planner, group, (int32_t)g);
  }
  qsort(planner->values, planner->num_values, sizeof(*planner->values), compare_sizes);
  for (size_t i = 0; i < planner->num_values; i++)
    assign_storage(planner, &planner->values[i]);
  for (size_t g = 0; g < groups->groups.size; g++)
    assign_view(planner, groups->groups.items[g]);
}

static void planner_clear(Planner *planner) {
  for (int32_t i = 0; i < planner->plan->num_storages; i++)
    if (planner->spans[i])
      g_array_free(planner->spans[i], TRUE);
  free(planner->spans);
  free(planner->values);
  free(planner->root);
  free(planner->last);
}

int bp__build_plan(const BpGraph *graph, const BpGroups *groups, BpMemoryPlan *plan) {
  size_t count = (size_t)graph->num_values;
  Planner planner = {.plan = plan};
  planner.root = calloc(count + 1, sizeof(*planner.root));
  planner.last = calloc(count + 1, sizeof(*planner.last));
  planner.values = calloc(count + 1, sizeof(*planner.values));
  planner.spans = calloc(count + 1, sizeof(*planner.spans));
  plan->storage = calloc(count + 1, sizeof(*plan->storage));
  plan->sizes = calloc(count + 1, sizeof(*plan->sizes));
  plan->places = calloc(count + 1, sizeof(*plan->places));
  bool has_memory = planner.root && planner.last && planner.values && planner.spans &&
                    plan->storage && plan->sizes && plan->places;
  if (has_memory) {
    find_lifetimes(graph, groups, &planner);
    plan_groups(&planner, graph, groups);
  }
  planner_clear(&planner);
  if (has_memory)
    return 0;
  return bp_error_raise(BP_ERROR_MEMORY, "out of memory while planning the storage of %zu values",
                        count);
}

void bp__plan_clear(BpMemoryPlan *plan) {
  free(plan->storage);
  free(plan->sizes);
  free(plan->places);
  *plan = (BpMemoryPlan){0};
}
