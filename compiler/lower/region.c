/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds inference: finds the part of a tensor that the loops not built yet will read. */

#include "compiler/lower/lowering.h"

#include <string.h>

/* The maximum distance of two regions of one open dimension that are merged to one of constant
 * size. */
#define MAX_APART 64

int bp__lower_index_interval(BpLowering *lowering, const BpLowerStage *reader,
                             const BpIrNode *const *roots, const BpIrNode *index,
                             BpInterval *interval, bool *is_bounded) {
  const BpTeStage *stage = reader->stage;
  BpIrMap map = {0};
  int failed = 0;
  for (int32_t i = 0; i < stage->ndim + stage->num_reduce_axes && !failed; i++)
    failed = bp__ir_map_set(&map, reader->vars[i], roots[i]);
  const BpIrNode *value = failed ? NULL : bp__ir_substitute(lowering->module, index, &map);
  bp__ir_map_clear(&map);
  return value ? bp__index_interval(&lowering->index, value, interval, is_bounded) : -1;
}

int bp__lower_whole(BpLowering *lowering, int64_t extent, const BpIrNode *open,
                    BpInterval *interval) {
  *interval = bp__interval(bp__ir_int64(lowering->module, 0), extent);
  if (open) {
    const BpIrNode *copy = bp__ir_copy(lowering->module, open, &lowering->copied);
    interval->open = copy ? bp__index_simplify(&lowering->index, copy) : NULL;
    if (!interval->open)
      return -1;
    interval->extent = bp__index_range(&lowering->index, interval->open).max;
  }
  return interval->min ? 0 : -1;
}

/* Extends `all` to contain `more`. */
static int add_interval(BpLowering *lowering, BpInterval *all, const BpInterval *more,
                        const BpInterval *whole) {
  BpIndexContext *index = &lowering->index;
  BpIrModule *module = lowering->module;
  int64_t distance;
  if (all->open || more->open) {
    *all = *whole;
    return 0;
  }
  if (bp__index_difference(index, more->min, all->min, &distance)) {
    int64_t end = distance + more->extent > all->extent ? distance + more->extent : all->extent;
    if (distance < 0)
      all->min = more->min;
    all->extent = distance < 0 ? end - distance : end;
    return 0;
  }
  BpRange range = bp__index_range(index, bp_ir_binary(module, BP_IR_SUB, more->min, all->min));
  int64_t apart = -range.min > range.max ? -range.min : range.max;
  if (apart >= whole->extent || (whole->open && apart >= MAX_APART)) {
    *all = *whole;
    return 0;
  }
  all->extent = (more->extent > all->extent ? more->extent : all->extent) + apart;
  all->min = bp__index_simplify(index, bp_ir_binary(module, BP_IR_MIN, all->min, more->min));
  return all->min ? 0 : -1;
}

/* Limits a region to a whole extent that is open. A region of constant size keeps its size, on
 * which the loops over the region rely; if the whole extent is smaller, the loops skip the elements
 * beyond it. */
static int clamp_open(BpLowering *lowering, BpInterval *interval, const BpInterval *whole) {
  if (interval->open || interval->extent >= whole->extent) {
    *interval = *whole;
    return 0;
  }
  const BpIrNode *is_inside = bp_ir_binary(lowering->module, BP_IR_GE, interval->min, whole->min);
  if (!is_inside)
    return -1;
  if (bp__index_decide(&lowering->index, is_inside) == 1)
    return 0;
  const BpIrNode *min = bp_ir_binary(lowering->module, BP_IR_MAX, interval->min, whole->min);
  interval->min = min ? bp__index_simplify(&lowering->index, min) : NULL;
  return interval->min ? 0 : -1;
}

/* Limits a region to a bound of constant size. */
static int clamp_closed(BpLowering *lowering, BpInterval *region, const BpInterval *bound) {
  BpIrModule *module = lowering->module;
  if (region->open || region->extent >= bound->extent) {
    *region = *bound;
    return 0;
  }
  const BpIrNode *first = bound->min, *min = region->min;
  const BpIrNode *last =
      bp_ir_binary(module, BP_IR_ADD, first, bp__ir_int64(module, bound->extent - region->extent));
  const BpIrNode *is_below = bp_ir_binary(module, BP_IR_LE, min, last);
  const BpIrNode *is_above = bp_ir_binary(module, BP_IR_GE, min, first);
  if (!is_below || !is_above)
    return -1;
  if (bp__index_decide(&lowering->index, is_below) != 1)
    min = bp_ir_binary(module, BP_IR_MIN, min, last);
  if (bp__index_decide(&lowering->index, is_above) != 1)
    min = bp_ir_binary(module, BP_IR_MAX, min, first);
  region->min = min == region->min ? min : bp__index_simplify(&lowering->index, min);
  return region->min ? 0 : -1;
}

int bp__lower_clamp(BpLowering *lowering, BpInterval *interval, const BpInterval *whole) {
  return whole->open ? clamp_open(lowering, interval, whole)
                     : clamp_closed(lowering, interval, whole);
}

/* A scan computes all of its steps, even if only the values of some steps are read. */
static int want_all_steps(BpLowering *lowering, BpLowerStage *producer) {
  const BpTeStage *stage = producer->stage;
  if (!stage->scan)
    return 0;
  const BpTeAxis *axis = stage->axes[stage->scan->axis];
  BpInterval *steps = &producer->region[stage->scan->axis];
  producer->whole[stage->scan->axis] = NULL;
  return bp__lower_whole(lowering, axis->extent, axis->open, steps);
}

static int add_read(BpLowering *lowering, BpLowerStage *producer, const BpLowerStage *reader,
                    const BpIrNode *const *roots, const BpIrNode *read) {
  const BpTeTensor *tensor = bp__lower_tensor_of(lowering, read->operands[0])->tensor;
  for (int32_t i = 0; i < tensor->ndim; i++) {
    int32_t dimension = bp__lower_domain_dimension(tensor, i);
    BpInterval *region = &producer->region[dimension];
    BpInterval interval = {0}, whole;
    bool is_bounded;
    if (bp__lower_whole(lowering, tensor->shape[i], tensor->open[i], &whole) != 0)
      return -1;
    if (bp__lower_index_interval(lowering, reader, roots, read->operands[1 + i], &interval,
                                 &is_bounded) != 0)
      return -1;
    if (!is_bounded)
      interval = whole;
    if (bp__lower_clamp(lowering, &interval, &whole) != 0)
      return -1;
    if (!producer->is_wanted)
      *region = interval;
    else if (add_interval(lowering, region, &interval, &whole) != 0 ||
             bp__lower_clamp(lowering, region, &whole) != 0)
      return -1;
    producer->whole[dimension] = region->open ? NULL : whole.open;
  }
  producer->is_wanted = true;
  return want_all_steps(lowering, producer);
}

static int add_reads(BpLowering *lowering, BpLowerStage *producer, const BpLowerStage *reader,
                     const BpIrNode *const *roots) {
  for (int32_t i = 0; i < reader->num_reads; i++)
    if (bp__lower_stage_of(lowering, reader->reads[i]->operands[0]) == producer &&
        add_read(lowering, producer, reader, roots, reader->reads[i]) != 0)
      return -1;
  return 0;
}

static bool reads_any(const BpLowering *lowering, const BpLowerStage *reader,
                      const BpLowerStage *producer) {
  for (int32_t i = 0; i < reader->num_reads; i++)
    if (bp__lower_stage_of(lowering, reader->reads[i]->operands[0]) == producer)
      return true;
  return false;
}

int bp__lower_set_free(BpLowering *lowering, const BpIrNode *var, const BpInterval *swept) {
  int64_t last = swept->extent > 0 ? swept->extent - 1 : 0;
  return swept->open ? bp__index_set_open(&lowering->index, var, last)
                     : bp__index_set_range(&lowering->index, var, 0, last, true);
}

/* The root axes of a stage that computes its region, as sums that contain free variables. */
static int free_roots(BpLowering *lowering, const BpLowerStage *s, const BpIrNode **roots) {
  const BpTeStage *stage = s->stage;
  for (int32_t i = 0; i < stage->ndim + stage->num_reduce_axes; i++) {
    const BpTeAxis *axis = stage->axes[i];
    bool is_data = i < stage->ndim;
    BpInterval swept;
    const BpIrNode *var = bp_ir_var(lowering->module, "free", bp__dtype_int64());
    if (is_data)
      swept = s->region[i];
    else if (bp__lower_whole(lowering, axis->extent, axis->open, &swept) != 0)
      return -1;
    if (!var || bp__lower_set_free(lowering, var, &swept) != 0)
      return -1;
    roots[i] = is_data ? bp_ir_binary(lowering->module, BP_IR_ADD, s->region[i].min, var) : var;
    if (!roots[i])
      return -1;
  }
  return 0;
}

static bool is_inside(const BpLowerStage *s, const BpLowerStage *outer) {
  while (s && s != outer)
    s = s->attached_to;
  return s != NULL;
}

/* An inner loop may want more than all iterations of an outer loop do, because the range of an
 * index such as i / 4 is rounded up. */
static int apply_bound(BpLowering *lowering, BpLowerStage *s) {
  for (int32_t i = 0; s->bound.is_set && s->is_wanted && i < s->stage->ndim; i++) {
    const BpTeAxis *axis = s->stage->axes[i];
    BpInterval whole;
    if (s->bound.region[i].open || axis->is_scan)
      continue;
    if (bp__lower_whole(lowering, axis->extent, axis->open, &whole) != 0 ||
        clamp_closed(lowering, &s->region[i], &s->bound.region[i]) != 0)
      return -1;
    s->whole[i] = whole.open;
  }
  return 0;
}

const BpLowerBound *bp__lower_bind(BpLowering *lowering, const BpLowerStage *producer,
                                   const BpLowerStage *consumer) {
  size_t count = (size_t)lowering->num_stages;
  BpLowerStage *stages = lowering->stages;
  BpLowerBound *before = bp__ir_alloc(lowering->module, count * sizeof *before);
  bool *reads = bp__ir_alloc(lowering->module, count * sizeof *reads);
  for (size_t i = 0; before && i < count; i++)
    before[i] = stages[i].bound;
  for (size_t i = (size_t)(producer - stages); before && reads && i < count; i++) {
    BpLowerStage *reader = &stages[i];
    reads[i] = reader == producer;
    for (const BpLowerStage *s = producer; s < reader && !reads[i]; s++)
      reads[i] = reads[s - stages] && reader != consumer && is_inside(reader, consumer) &&
                 reads_any(lowering, reader, s);
    if (reader == producer || !reads[i] || !reader->is_wanted)
      continue;
    reader->bound.is_set = true;
    memcpy(reader->bound.region, reader->region, sizeof reader->region);
  }
  return reads ? before : NULL;
}

void bp__lower_unbind(BpLowering *lowering, const BpLowerBound *before) {
  for (int32_t i = 0; i < lowering->num_stages; i++)
    lowering->stages[i].bound = before[i];
}

int bp__lower_region(BpLowering *lowering, BpLowerStage *producer, BpLowerStage *consumer,
                     const BpIrNode *const *roots) {
  producer->is_wanted = false;
  if (add_reads(lowering, producer, consumer, roots) != 0)
    return -1;
  for (BpLowerStage *reader = producer + 1; reader < lowering->stages + lowering->num_stages;
       reader++) {
    const BpIrNode *reader_roots[BP__TE_MAX_AXES];
    if (reader == consumer || !is_inside(reader, consumer) ||
        !reads_any(lowering, reader, producer))
      continue;
    if (bp__lower_region(lowering, reader, consumer, roots) != 0)
      return -1;
    if (reader->is_wanted && (free_roots(lowering, reader, reader_roots) != 0 ||
                              add_reads(lowering, producer, reader, reader_roots) != 0))
      return -1;
  }
  return apply_bound(lowering, producer);
}

/* ---- Rows of buffers --------------------------------------------------------------------- */

/* The vectorised leaf at the end of the last dimension's splits, or NULL. */
static const BpTeAxis *vector_leaf_of(const BpTeStage *stage) {
  int32_t ndim = stage->ndim;
  const BpTeAxis *axis = ndim > 0 ? stage->axes[ndim - 1] : NULL;
  while (axis && axis->used_by)
    axis = axis->used_by->kind == BP__TE_SPLIT ? axis->used_by->inner : NULL;
  return axis && axis->for_kind == BP_IR_FOR_VECTORIZED && !axis->open ? axis : NULL;
}

int64_t bp__lower_row_extent(const BpTeStage *stage, int32_t scope, int64_t extent) {
  const BpTeAxis *leaf = vector_leaf_of(stage);
  if (scope != BP_IR_SCOPE_LOCAL || !leaf)
    return extent;
  bool is_power = (leaf->extent & (leaf->extent - 1)) == 0;
  int64_t rest = extent <= leaf->extent ? extent : is_power ? extent % leaf->extent : 0;
  int64_t rounded = 1;
  while (rounded < rest)
    rounded *= 2;
  return rest ? extent - rest + rounded : extent;
}
