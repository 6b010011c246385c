/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of programs, whose sizes are expressions: values that are not needed at the same time
 * share a part of an arena, and in a run a part is as large as its largest value. The builder
 * assigns values to parts once, by likely sizes; a run computes the sizes of the parts.
 *
 * Values are assigned from the largest to the smallest, as in "greedy by size for shared objects"
 * (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). Of the
 * parts that are free during a value's lifetime the value takes the one that is in use soonest
 * before or after that lifetime. This choice of a part leaves long intervals of the other parts
 * free. An arena is allocated as soon as its sizes are known, so values whose extents are known
 * later have an arena of their own. */
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "graph/build/build.h"
#include "graph/ops/control.h"

typedef struct Planned {
  const BpGraphValue *value;
  BpSpan span;
  int32_t place, stage;
  double likely; /* bytes */
} Planned;

typedef struct Planner {
  const BpGraph *graph;
  const BpGroups *groups;
  const int32_t *stages;
  BpProgramPlan *plan;
  int32_t *root;  /* value whose memory a value is in, by value id */
  int32_t *last;  /* last group that reads a root value */
  GArray *values; /* Planned */
} Planner;

static const BpGraphValue *value_at(const BpList *values, size_t index) {
  return values->items[index];
}

/* Extends the lifetime of inputs that are outputs of a node which the machine executes, beyond that
 * node. */
static void keep_handed_on(Planner *planner, const BpGraphNode *node) {
  for (int32_t k = 0; k < node->num_inputs && bp__op_is_control(node); k++)
    if (node->inputs[k] && bp__control_hands_on(node, k))
      planner->last[planner->root[node->inputs[k]->id]] = INT32_MAX;
}

static void find_lifetimes(Planner *planner) {
  const BpGroups *groups = planner->groups;
  for (int32_t i = 0; i < planner->graph->num_values; i++) {
    planner->root[i] = i;
    planner->last[i] = -1;
  }
  for (size_t g = 0; g < groups->groups.size; g++) {
    const BpGroup *group = groups->groups.items[g];
    if (group->view_of)
      planner->root[value_at(&group->outputs, 0)->id] = planner->root[group->view_of->id];
    for (size_t i = 0; i < group->args.size; i++)
      planner->last[planner->root[value_at(&group->args, i)->id]] = (int32_t)g;
    if (group->view_of)
      planner->last[planner->root[group->view_of->id]] = (int32_t)g;
  }
  for (size_t n = 0; n < planner->graph->nodes.size; n++)
    keep_handed_on(planner, planner->graph->nodes.items[n]);
  for (size_t i = 0; i < planner->graph->outputs.size; i++)
    planner->last[planner->root[value_at(&planner->graph->outputs, i)->id]] = INT32_MAX;
}

/* The stage in which the last of a value's extents is known; -1 if one is never known. */
static int32_t stage_of(const Planner *planner, const BpGraphValue *value) {
  int32_t stage = 0;
  for (int32_t i = 0; i < value->ndim && stage >= 0; i++) {
    if (!bp__extent_is_open(value->shape[i]))
      continue;
    int32_t known = planner->stages[value->shape[i] - bp__extents_at(0)];
    stage = known < 0 || known > stage ? known : stage;
  }
  return stage;
}

static double likely_bytes(const Planner *planner, const BpGraphValue *value) {
  double bytes = (double)value->dtype.bits * value->dtype.lanes / 8;
  for (int32_t i = 0; i < value->ndim; i++)
    bytes *= (double)bp__extent_likely(&planner->graph->extents, value->shape[i]);
  return bytes;
}

/* Collects the values to plan. Outputs of the graph, and values that control flow passes on, are
 * left out: they outlive the run, or the node that runs the body. */
static void collect_values(Planner *planner) {
  for (size_t g = 0; g < planner->groups->groups.size; g++) {
    const BpGroup *group = planner->groups->groups.items[g];
    for (size_t i = 0; i < group->outputs.size && group->function; i++) {
      const BpGraphValue *value = value_at(&group->outputs, i);
      Planned planned = {value,
                         {(int32_t)g, planner->last[value->id]},
                         group->place,
                         stage_of(planner, value),
                         likely_bytes(planner, value)};
      if (planned.span.last < (int32_t)g)
        planned.span.last = (int32_t)g;
      if (planned.span.last != INT32_MAX && planned.stage >= 0)
        g_array_append_val(planner->values, planned);
    }
  }
}

static gint compare_sizes(gconstpointer a, gconstpointer b) {
  const Planned *first = a, *second = b;
  if (first->likely > second->likely || first->likely < second->likely)
    return first->likely > second->likely ? -1 : 1;
  return first->span.first - second->span.first;
}

static bool has_shape(const BpGraphValue *a, const BpGraphValue *b) {
  return a->ndim == b->ndim && !memcmp(&a->dtype, &b->dtype, sizeof(a->dtype)) &&
         (a->ndim == 0 || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)));
}

static int32_t arena_for(BpProgramPlan *plan, int32_t place, int32_t stage) {
  for (guint i = 0; i < plan->arenas->len; i++) {
    const BpProgramArena *arena = &g_array_index(plan->arenas, BpProgramArena, i);
    if (arena->place == place && arena->stage == stage)
      return (int32_t)i;
  }
  const BpProgramArena arena = {.place = place, .stage = stage, .entry = -1};
  g_array_append_val(plan->arenas, arena);
  return (int32_t)plan->arenas->len - 1;
}

int32_t bp__span_gap(const GArray *spans, BpSpan span) {
  int32_t gap = INT32_MAX - 1;
  for (guint i = 0; i < spans->len; i++) {
    const BpSpan *other = &g_array_index(spans, BpSpan, i);
    int32_t distance =
        span.first > other->last ? span.first - other->last : other->first - span.last;
    if (distance <= 0)
      return -1;
    gap = MIN(gap, distance);
  }
  return gap;
}

/* The free part with the least gap; a new part if none is free. */
static int32_t part_for(BpProgramPlan *plan, const Planned *planned) {
  int32_t arena = arena_for(plan, planned->place, planned->stage), best = -1, least = INT32_MAX;
  for (guint i = 0; i < plan->parts->len; i++) {
    const BpProgramPart *part = &g_array_index(plan->parts, BpProgramPart, i);
    int32_t gap = part->arena == arena ? bp__span_gap(part->spans, planned->span) : -1;
    if (gap >= 0 && gap < least) {
      best = (int32_t)i;
      least = gap;
    }
  }
  if (best >= 0)
    return best;
  const BpProgramPart part = {
      .arena = arena,
      .number = g_array_index(plan->arenas, BpProgramArena, (guint)arena).num_parts++,
      .spans = g_array_new(FALSE, FALSE, sizeof(BpSpan)),
      .values = g_ptr_array_new()};
  g_array_append_val(plan->parts, part);
  return (int32_t)plan->parts->len - 1;
}

static void assign(BpProgramPlan *plan, const Planned *planned) {
  int32_t index = part_for(plan, planned);
  BpProgramPart *part = &g_array_index(plan->parts, BpProgramPart, (guint)index);
  plan->part[planned->value->id] = index;
  g_array_append_val(part->spans, planned->span);
  for (guint i = 0; i < part->values->len; i++)
    if (has_shape(part->values->pdata[i], planned->value))
      return;
  g_ptr_array_add(part->values, (gpointer)(uintptr_t)planned->value);
}

void bp__build_plan_program(const BpGraph *graph, const BpGroups *groups, const int32_t *stages,
                            BpProgramPlan *plan) {
  size_t count = (size_t)graph->num_values + 1;
  Planner planner = {graph,
                     groups,
                     stages,
                     plan,
                     g_new0(int32_t, count),
                     g_new0(int32_t, count),
                     g_array_new(FALSE, FALSE, sizeof(Planned))};
  *plan = (BpProgramPlan){g_new(int32_t, count), planner.root,
                          g_array_new(FALSE, FALSE, sizeof(BpProgramPart)),
                          g_array_new(FALSE, FALSE, sizeof(BpProgramArena))};
  memset(plan->part, -1, count * sizeof(*plan->part));
  find_lifetimes(&planner);
  collect_values(&planner);
  g_array_sort(planner.values, compare_sizes);
  for (guint i = 0; i < planner.values->len; i++)
    assign(plan, &g_array_index(planner.values, Planned, i));
  g_array_free(planner.values, TRUE);
  g_free(planner.last);
}

void bp__program_plan_clear(BpProgramPlan *plan) {
  for (guint i = 0; i < plan->parts->len; i++) {
    g_array_free(g_array_index(plan->parts, BpProgramPart, i).spans, TRUE);
    g_ptr_array_unref(g_array_index(plan->parts, BpProgramPart, i).values);
  }
  g_array_free(plan->parts, TRUE);
  g_array_free(plan->arenas, TRUE);
  g_free(plan->part);
  g_free(plan->root);
}

/* ---- The memory of a run ----------------------------------------------------------------- */

static int64_t bytes_of(BpExtents *extents, const BpGraphValue *value) {
  int64_t elements = bp__extent_product(extents, value->shape, value->ndim);
  int64_t bits = (int64_t)value->dtype.bits * value->dtype.lanes;
  if (bits % 8 == 0)
    return bp__extent_multiply(extents, elements, bits / 8);
  return bp__extent_divide(
      extents, bp__extent_add(extents, bp__extent_multiply(extents, elements, bits), 7), 8);
}

int64_t bp__program_bytes(const BpGraph *graph, const GPtrArray *parts, BpExtents *extents) {
  int64_t total = 0;
  for (guint i = 0; i < parts->len; i++) {
    const GPtrArray *values = parts->pdata[i];
    int64_t largest = 0;
    for (guint k = 0; k < values->len; k++)
      largest = bp__extent_max(extents, largest, bytes_of(extents, values->pdata[k]));
    total = bp__extent_add(extents, total, largest);
  }
  const BpList *lists[] = {&graph->inputs, &graph->outputs};
  for (size_t l = 0; l < G_N_ELEMENTS(lists); l++)
    for (size_t i = 0; i < lists[l]->size; i++)
      if (!value_at(lists[l], i)->sequence)
        total = bp__extent_add(extents, total, bytes_of(extents, value_at(lists[l], i)));
  return total;
}

void bp__write_likely(const BpExtents *extents, int64_t extent, char *text, size_t size) {
  int32_t count = bp__extents_count(extents);
  bool *marked = g_new0(bool, (gsize)count + 1);
  size_t used = 0;
  *text = '\0';
  if (bp__extent_is_open(extent))
    bp__extent_mark_symbols(extents, extent, marked);
  for (int32_t i = 0; i < count && used < size; i++)
    if (marked[i])
      used +=
          (size_t)g_snprintf(text + used, size - used, "%s%s=%" G_GINT64_FORMAT, used ? ", " : "",
                             bp__extents_symbol_name(extents, i), bp__extents_likely(extents, i));
  g_free(marked);
}
