/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule primitives that change the loops of one stage, or the place where a stage runs. */

#include "compiler/ir/argument.h"
#include "compiler/te/te_private.h"

#include <stdio.h>
#include <string.h>

BpTeStage *bp_te_stage(BpTe *te, BpTeTensor *tensor) {
  (void)te;
  if (!BP_OPERAND(tensor))
    return NULL;
  if (!tensor->stage)
    bp_error_raise(BP_ERROR_VALUE, "tensor %s is a placeholder and has no schedule", tensor->name);
  return tensor->stage;
}

int32_t bp_te_stage_num_tensors(const BpTeStage *stage) {
  return stage ? stage->num_tensors : 0;
}

BpTeTensor *bp_te_stage_tensor(BpTeStage *stage, int32_t index) {
  if (!BP_OPERAND(stage))
    return NULL;
  if (index < 0 || index >= stage->num_tensors) {
    bp_error_raise(BP_ERROR_INDEX, "tensor %d of the stage of %s, which has %d", index,
                   stage->tensor->name, stage->num_tensors);
    return NULL;
  }
  return stage->tensors[index];
}

static BpTeAxis *root_axis(BpTeStage *stage, int32_t index, int32_t first, int32_t count,
                           const char *what) {
  if (!BP_OPERAND(stage))
    return NULL;
  if (index < 0 || index >= count) {
    bp_error_raise(BP_ERROR_INDEX, "%s %d of tensor %s, which has %d", what, index,
                   stage->tensor->name, count);
    return NULL;
  }
  return stage->axes[first + index];
}

BpTeAxis *bp_te_stage_axis(BpTeStage *stage, int32_t index) {
  return root_axis(stage, index, 0, stage ? stage->ndim + stage->num_reduce_axes : 0, "axis");
}

BpTeAxis *bp_te_stage_reduce_axis(BpTeStage *stage, int32_t index) {
  return root_axis(stage, index, stage ? stage->ndim : 0, stage ? stage->num_reduce_axes : 0,
                   "reduction axis");
}

int32_t bp_te_stage_num_reduce_axes(const BpTeStage *stage) {
  return stage ? stage->num_reduce_axes : 0;
}

int64_t bp_te_axis_extent(const BpTeAxis *axis) {
  return axis ? axis->extent : 0;
}

/* The position of a leaf axis of the stage, or -1 with an error. */
static int32_t leaf_position(const BpTeStage *stage, const BpTeAxis *axis) {
  if (!BP_OPERAND(stage) || !BP_OPERAND(axis))
    return -1;
  for (int32_t i = 0; i < stage->num_leaves; i++)
    if (stage->leaves[i] == axis)
      return i;
  if (axis->stage != stage)
    return bp_error_raise(BP_ERROR_VALUE, "axis %s is one of tensor %s, not of %s", axis->name,
                          axis->stage->tensor->name, stage->tensor->name);
  return bp_error_raise(BP_ERROR_VALUE,
                        "axis %s of tensor %s was split or fused; use the axes that this made",
                        axis->name, stage->tensor->name);
}

/* The position of a leaf axis that is still an ordinary serial loop; primitives transform and
 * annotate only serial loops. */
static int32_t plain_leaf_position(const BpTeStage *stage, const BpTeAxis *axis) {
  int32_t position = leaf_position(stage, axis);
  if (position >= 0 && axis->for_kind != BP_IR_FOR_SERIAL)
    return bp_error_raise(BP_ERROR_VALUE,
                          "axis %s of tensor %s is already parallel, vectorized, unrolled or bound",
                          axis->name, stage->tensor->name);
  return position;
}

static BpTeAxis *derive_axis(BpTeStage *stage, const BpTeAxis *from, const char *suffix,
                             int64_t extent, BpTeRelation *relation) {
  char name[64];
  snprintf(name, sizeof name, "%.48s%s", from->name, suffix);
  BpTeAxis *axis = bp__te_new_axis(stage, name, extent, from->is_reduce, NULL);
  if (axis) {
    axis->made_by = relation;
    axis->is_scan = from->is_scan;
  }
  return axis;
}

const BpIrNode *bp__te_num_tiles(BpIrModule *module, const BpIrNode *extent, int64_t factor) {
  const BpIrNode *sum = bp_ir_binary(module, BP_IR_ADD, extent, bp__ir_int64(module, factor - 1));
  return bp_ir_binary(module, BP_IR_FLOORDIV, sum, bp__ir_int64(module, factor));
}

/* The product of two extents if at least one is open; else NULL. */
static int fuse_open(BpIrModule *module, const BpTeAxis *outer, const BpTeAxis *inner,
                     const BpIrNode **open) {
  const BpIrNode *a = outer->open ? outer->open : bp__ir_int64(module, outer->extent);
  const BpIrNode *b = inner->open ? inner->open : bp__ir_int64(module, inner->extent);
  *open = outer->open || inner->open ? bp_ir_binary(module, BP_IR_MUL, a, b) : NULL;
  return (outer->open || inner->open) && !*open ? -1 : 0;
}

static int check_split(const BpTeStage *stage, const BpTeAxis *axis, int64_t factor, int32_t tail) {
  if (factor < 1)
    return bp_error_raise(BP_ERROR_VALUE, "axis %s of tensor %s is split by %lld; at least 1",
                          axis->name, stage->tensor->name, (long long)factor);
  if (tail < BP_TE_TAIL_GUARD || tail > BP_TE_TAIL_BALANCE)
    return bp_error_raise(BP_ERROR_VALUE, "%d is not a way to treat a tail (BP_TE_TAIL_GUARD ...)",
                          tail);
  if (tail == BP_TE_TAIL_OVERLAP && (axis->is_reduce || axis->is_scan || axis->extent < factor))
    return bp_error_raise(BP_ERROR_VALUE,
                          "axis %s of tensor %s (extent %lld) is split by %lld with overlap, which "
                          "needs a data axis with at least that extent, and not that of a scan",
                          axis->name, stage->tensor->name, (long long)axis->extent,
                          (long long)factor);
  return 0;
}

int bp_te_split(BpTeStage *stage, BpTeAxis *axis, int64_t factor, int32_t tail, BpTeAxis **outer,
                BpTeAxis **inner) {
  if (!BP_NOT_NULL(outer) || !BP_NOT_NULL(inner))
    return -1;
  int32_t position = plain_leaf_position(stage, axis);
  if (position < 0 || check_split(stage, axis, factor, tail) != 0)
    return -1;
  if (stage->num_leaves == BP__TE_MAX_AXES)
    return bp_error_raise(BP_ERROR_VALUE, "the stage of %s has too many axes", stage->tensor->name);
  BpTeRelation *relation = bp__te_alloc(stage->te, sizeof *relation);
  if (!relation)
    return -1;
  int64_t tiles = axis->extent / factor + (axis->extent % factor != 0);
  const BpIrNode *open = axis->open ? bp__te_num_tiles(stage->te->ir, axis->open, factor) : NULL;
  if (axis->open && !open)
    return -1;
  *relation = (BpTeRelation){.kind = BP__TE_SPLIT, .tail = tail, .factor = factor, .parent = axis};
  relation->outer = derive_axis(stage, axis, "_o", tiles, relation);
  relation->inner = relation->outer ? derive_axis(stage, axis, "_i", factor, relation) : NULL;
  if (!relation->inner)
    return -1;
  relation->outer->open = open;
  axis->used_by = relation;
  memmove(stage->leaves + position + 1, stage->leaves + position,
          (size_t)(stage->num_leaves - position) * sizeof *stage->leaves);
  stage->num_leaves++;
  stage->leaves[position] = *outer = relation->outer;
  stage->leaves[position + 1] = *inner = relation->inner;
  return 0;
}

int bp_te_fuse(BpTeStage *stage, BpTeAxis *outer, BpTeAxis *inner, BpTeAxis **fused) {
  if (!BP_NOT_NULL(fused))
    return -1;
  int32_t position = plain_leaf_position(stage, outer);
  int32_t inner_position = plain_leaf_position(stage, inner);
  if (position < 0 || inner_position < 0)
    return -1;
  if (inner_position != position + 1 || outer->is_reduce != inner->is_reduce ||
      outer->is_scan != inner->is_scan)
    return bp_error_raise(
        BP_ERROR_VALUE,
        "axes %s and %s of tensor %s cannot be fused: the second must lie directly "
        "inside the first, and both be data axes, or both reduction axes, or both of the scan",
        outer->name, inner->name, stage->tensor->name);
  BpTeRelation *relation = bp__te_alloc(stage->te, sizeof *relation);
  if (!relation)
    return -1;
  *relation = (BpTeRelation){.kind = BP__TE_FUSE, .outer = outer, .inner = inner};
  relation->parent = derive_axis(stage, outer, "_f", outer->extent * inner->extent, relation);
  if (!relation->parent || fuse_open(stage->te->ir, outer, inner, &relation->parent->open) != 0)
    return -1;
  outer->used_by = inner->used_by = relation;
  stage->leaves[position] = *fused = relation->parent;
  stage->num_leaves--;
  memmove(stage->leaves + position + 1, stage->leaves + position + 2,
          (size_t)(stage->num_leaves - position - 1) * sizeof *stage->leaves);
  return 0;
}

int bp_te_reorder(BpTeStage *stage, BpTeAxis *const *axes, int32_t num_axes) {
  if (!BP_OPERAND(stage) || !BP_IS_LIST(axes, num_axes))
    return -1;
  char chosen[BP__TE_MAX_AXES] = {0};
  for (int32_t i = 0; i < num_axes; i++) {
    int32_t position = leaf_position(stage, axes[i]);
    if (position < 0)
      return -1;
    if (chosen[position])
      return bp_error_raise(BP_ERROR_VALUE, "axis %s of tensor %s stands twice in a reordering",
                            axes[i]->name, stage->tensor->name);
    chosen[position] = 1;
  }
  for (int32_t position = 0, next = 0; next < num_axes; position++)
    if (chosen[position])
      stage->leaves[position] = axes[next++];
  return 0;
}

/* Rejects the axis of a scan, whose steps run one after the other. */
static int check_not_scan(const BpTeStage *stage, const BpTeAxis *axis) {
  if (!stage || !axis || !axis->is_scan)
    return 0;
  return bp_error_raise(
      BP_ERROR_VALUE, "axis %s of tensor %s is that of a scan, whose steps run one after the other",
      axis->name, stage->tensor->name);
}

static int annotate(BpTeStage *stage, BpTeAxis *axis, int32_t for_kind, const char *thread_axis) {
  if (plain_leaf_position(stage, axis) < 0)
    return -1;
  axis->for_kind = for_kind;
  axis->thread_axis = thread_axis;
  return 0;
}

int bp_te_parallel(BpTeStage *stage, BpTeAxis *axis) {
  if (stage && axis && axis->is_reduce)
    return bp_error_raise(BP_ERROR_VALUE,
                          "axis %s of tensor %s is a reduction and cannot run in parallel; "
                          "rfactor makes a data axis of it",
                          axis->name, stage->tensor->name);
  return check_not_scan(stage, axis) ? -1 : annotate(stage, axis, BP_IR_FOR_PARALLEL, "");
}

int bp_te_vectorize(BpTeStage *stage, BpTeAxis *axis) {
  return check_not_scan(stage, axis) ? -1 : annotate(stage, axis, BP_IR_FOR_VECTORIZED, "");
}

int bp_te_unroll(BpTeStage *stage, BpTeAxis *axis) {
  return annotate(stage, axis, BP_IR_FOR_UNROLLED, "");
}

int bp_te_bind(BpTeStage *stage, BpTeAxis *axis, const char *thread_axis) {
  if (!BP_NOT_NULL(thread_axis))
    return -1;
  static const char *const known[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                      "threadIdx.x", "threadIdx.y", "threadIdx.z"};
  if (stage && axis && axis->is_reduce)
    return bp_error_raise(BP_ERROR_VALUE,
                          "axis %s of tensor %s is a reduction and cannot be bound to threads",
                          axis->name, stage->tensor->name);
  if (check_not_scan(stage, axis) != 0)
    return -1;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(thread_axis, known[i]) == 0)
      return annotate(stage, axis, BP_IR_FOR_BOUND, known[i]);
  return bp_error_raise(BP_ERROR_VALUE, "%s is not a thread axis (blockIdx.x|y|z, threadIdx.x|y|z)",
                        thread_axis);
}

int bp_te_compute_at(BpTeStage *stage, BpTeStage *consumer, BpTeAxis *axis) {
  if (!BP_OPERAND(stage) || leaf_position(consumer, axis) < 0)
    return -1;
  if (stage->is_statements)
    return bp_error_raise(BP_ERROR_VALUE,
                          "tensor %s is computed by statements, which run at the root",
                          stage->tensor->name);
  for (const BpTeStage *s = consumer; s; s = s->attach_stage)
    if (s == stage)
      return bp_error_raise(BP_ERROR_VALUE, "tensor %s cannot be computed inside itself",
                            stage->tensor->name);
  stage->attach_stage = consumer;
  stage->attach_axis = axis;
  return 0;
}

int bp_te_compute_inline(BpTeStage *stage) {
  if (!BP_OPERAND(stage))
    return -1;
  if (!bp__te_is_pointwise(stage))
    return bp_error_raise(BP_ERROR_VALUE, "tensor %s is a %s and cannot be inlined",
                          stage->tensor->name,
                          stage->is_statements ? "computation by statements"
                          : stage->scan        ? "scan"
                                               : "reduction");
  stage->is_inlined = 1;
  return 0;
}

int bp_te_store_first(BpTeStage *stage) {
  if (!BP_OPERAND(stage))
    return -1;
  if (stage->reduce_op < 0)
    return bp_error_raise(BP_ERROR_VALUE, "tensor %s is no reduction", stage->tensor->name);
  stage->starts_with_first = 1;
  return 0;
}

int bp_te_stream(BpTeStage *stage) {
  if (!BP_OPERAND(stage))
    return -1;
  stage->is_streamed = 1;
  return 0;
}

int bp_te_set_scope(BpTeStage *stage, int32_t scope) {
  if (!BP_OPERAND(stage))
    return -1;
  if (scope < BP_IR_SCOPE_GLOBAL || scope > BP_IR_SCOPE_LOCAL)
    return bp_error_raise(BP_ERROR_VALUE, "%d is not a storage scope (BP_IR_SCOPE_*)", scope);
  stage->scope = scope;
  return 0;
}

int bp_te_prefetch(BpTeStage *stage, BpTeTensor *tensor, BpTeAxis *axis, int64_t distance) {
  if (!BP_OPERAND(tensor) || leaf_position(stage, axis) < 0)
    return -1;
  BpTePrefetch *prefetch = bp__te_alloc(stage->te, sizeof *prefetch);
  if (!prefetch)
    return -1;
  *prefetch = (BpTePrefetch){tensor, axis, distance, stage->prefetches};
  stage->prefetches = prefetch;
  return 0;
}
