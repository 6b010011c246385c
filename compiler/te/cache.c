/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule primitives that add stages: cached copies of tensors, and partial reductions. */

#include "compiler/ir/argument.h"
#include "compiler/te/te_private.h"

#include <stdio.h>

/* ---- Rewriting the reads of a body ------------------------------------------------------- */

/* Replaces each occurrence of one node in the stage's body by another node. */
static int replace_in_body(BpTeStage *stage, const BpIrNode *from, const BpIrNode *to) {
  const BpIrNode *body = bp__ir_substitute_one(stage->te->ir, stage->body, from, to);
  if (!body)
    return -1;
  stage->body = body;
  if (!stage->scan)
    return 0;
  BpTeScan *scan = stage->scan;
  scan->before = bp__ir_substitute_one(stage->te->ir, scan->before, from, to);
  return scan->before ? 0 : -1;
}

/* Makes the tensors of `stage` copies of the tensors of `source`: source[i0, i1, ...]. */
static int set_copy_body(BpTeStage *stage, const BpTeStage *source) {
  const BpIrNode *indices[BP_TE_MAX_NDIM], *values[BP_TE_MAX_VALUES];
  for (int32_t i = 0; i < stage->ndim; i++)
    indices[i] = stage->axes[i]->var;
  for (int32_t i = 0; i < stage->num_tensors; i++)
    values[i] = bp_te_read(stage->te, source->tensors[i], indices);
  const BpIrNode *body = bp__te_tuple(stage->te->ir, values, stage->num_tensors);
  return body ? bp__te_set_body(stage, body) : -1;
}

/* A new stage of `count` tensors with the shapes and types of `tensors`. */
static BpTeStage *new_stage_like(BpTeTensor *const *tensors, int32_t count, const char *suffix,
                                 int32_t scope) {
  BpTeTensor *tensor = tensors[0];
  const BpIrNode *vars[BP_TE_MAX_NDIM];
  BpDataType dtypes[BP_TE_MAX_VALUES];
  char name[128];
  snprintf(name, sizeof name, "%.100s_%s", tensor->name, suffix);
  if (scope < BP_IR_SCOPE_GLOBAL || scope > BP_IR_SCOPE_LOCAL) {
    bp_error_raise(BP_ERROR_VALUE, "%d is not a storage scope (BP_IR_SCOPE_*)", scope);
    return NULL;
  }
  if (bp__te_make_vars(tensor->te, tensor->ndim, vars) != 0)
    return NULL;
  for (int32_t i = 0; i < count; i++)
    dtypes[i] = tensors[i]->dtype;
  BpTeShape shape = {tensor->shape, tensor->open, tensor->ndim};
  BpTeStage *made = bp__te_new_stage(tensor->te, name, dtypes, count, shape, vars);
  if (made)
    made->scope = scope;
  return made;
}

static const char *scope_name(int32_t scope) {
  return scope == BP_IR_SCOPE_LOCAL ? "local" : scope == BP_IR_SCOPE_SHARED ? "shared" : "global";
}

BpTeTensor *bp_te_cache_read(BpTe *te, BpTeTensor *tensor, int32_t scope,
                             BpTeTensor *const *readers, int32_t num_readers) {
  if (!BP_NOT_NULL(te) || !BP_OPERAND(tensor) || !BP_IS_LIST(readers, num_readers))
    return NULL;
  for (int32_t i = 0; i < num_readers; i++)
    if (!bp_te_stage(te, readers[i]))
      return NULL;
  BpTeStage *copy = new_stage_like(&tensor, 1, scope_name(scope), scope);
  BpTeTensor *cache = copy ? copy->tensor : NULL;
  const BpIrNode *indices[BP_TE_MAX_NDIM];
  for (int32_t i = 0; cache && i < tensor->ndim; i++)
    indices[i] = copy->axes[i]->var;
  const BpIrNode *read = cache ? bp_te_read(te, tensor, indices) : NULL;
  if (!read || bp__te_set_body(copy, read) != 0)
    return NULL;
  for (int32_t i = 0; i < num_readers; i++)
    if (replace_in_body(readers[i]->stage, tensor->buffer, cache->buffer) != 0)
      return NULL;
  return cache;
}

typedef struct Copying {
  const BpTeTensor *tensor, *copy;
} Copying;

static const BpIrNode *read_copy(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Copying *copying = rewriter->context;
  const BpIrNode *operands[1 + BP_TE_MAX_NDIM] = {copying->copy->buffer};
  if (node->kind != BP_IR_CAST || !bp__dtype_equal(node->dtype, copying->copy->dtype) ||
      !bp__te_is_read(node->operands[0]) ||
      node->operands[0]->operands[0] != copying->tensor->buffer)
    return node;
  const BpIrNode *read = node->operands[0];
  for (int32_t i = 1; i < read->num_operands; i++)
    operands[i] = read->operands[i];
  return bp_ir_make(rewriter->module, BP_IR_CALL, node->dtype, operands, read->num_operands,
                    BP_IR_CALL_INTRINSIC, 0, BP__TE_READ);
}

int bp__te_read_copy(BpTeStage *reader, const BpTeTensor *tensor, const BpTeTensor *copy) {
  Copying copying = {tensor, copy};
  BpIrRewriter rewriter = {.module = reader->te->ir, .context = &copying, .leave = read_copy};
  const BpIrNode *body = bp__ir_rewrite(&rewriter, reader->body);
  bp__ir_rewriter_clear(&rewriter);
  if (!body)
    return -1;
  reader->body = body;
  return 0;
}

/* A stage whose reads are replaced by its expressions unless `condition` holds. */
typedef struct Choosing {
  const BpTeStage *producer;
  const BpIrNode *condition;
} Choosing;

static const BpIrNode *choose_value(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Choosing *choosing = rewriter->context;
  const BpTeStage *producer = choosing->producer;
  BpIrMap map = {0};
  int32_t index = 0;
  int failed = 0;
  if (!bp__te_reads_stage(node, producer))
    return node;
  while (producer->tensors[index]->buffer != node->operands[0])
    index++;
  for (int32_t i = 0; i < producer->ndim && !failed; i++)
    failed = bp__ir_map_set(&map, producer->axes[i]->var, node->operands[1 + i]);
  const BpIrNode *value = bp__te_value(producer, producer->body, index);
  value = failed ? NULL : bp__ir_substitute(rewriter->module, value, &map);
  bp__ir_map_clear(&map);
  return bp_ir_select(rewriter->module, choosing->condition, node, value);
}

int bp__te_inline_unless(BpTeStage *reader, const BpTeStage *producer, const BpIrNode *condition) {
  Choosing choosing = {producer, condition};
  BpIrRewriter rewriter = {.module = reader->te->ir, .context = &choosing, .leave = choose_value};
  const BpIrNode *body = condition ? bp__ir_rewrite(&rewriter, reader->body) : NULL;
  bp__ir_rewriter_clear(&rewriter);
  if (!body)
    return -1;
  reader->body = body;
  return 0;
}

static int check_unscheduled(const BpTeStage *stage, const char *what) {
  if (stage->scan || stage->is_statements)
    return bp_error_raise(BP_ERROR_VALUE, "%s of tensor %s, which is computed by %s", what,
                          stage->tensor->name, stage->scan ? "a scan" : "statements");
  if (stage->num_axes == stage->ndim + stage->num_reduce_axes && !stage->is_inlined)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "%s of tensor %s comes before its schedule is changed",
                        what, stage->tensor->name);
}

/* The tensor of the stage `stage` at the index that `tensor` has in its own stage. */
static BpTeTensor *same_place(const BpTeStage *stage, const BpTeTensor *tensor,
                              const BpTeStage *other) {
  int32_t place = 0;
  while (stage->tensors[place] != tensor)
    place++;
  return other->tensors[place];
}

BpTeTensor *bp_te_cache_write(BpTe *te, BpTeTensor *tensor, int32_t scope) {
  if (!BP_NOT_NULL(te))
    return NULL;
  BpTeStage *stage = bp_te_stage(te, tensor);
  if (!stage || check_unscheduled(stage, "cache_write") != 0)
    return NULL;
  BpTeStage *inner = new_stage_like(stage->tensors, stage->num_tensors, scope_name(scope), scope);
  if (!inner)
    return NULL;
  /* The cache takes over the body and its variables; the stage gets new variables. */
  for (int32_t i = 0; i < stage->ndim; i++) {
    const BpIrNode *var = stage->axes[i]->var;
    stage->axes[i]->var = inner->axes[i]->var;
    inner->axes[i]->var = var;
  }
  for (int32_t i = 0; i < stage->num_reduce_axes; i++) {
    const BpTeAxis *axis = stage->axes[stage->ndim + i];
    BpTeAxis *copy = bp__te_new_axis(inner, axis->name, axis->extent, 1, axis->var);
    if (!copy)
      return NULL;
    copy->open = axis->open;
  }
  inner->body = stage->body;
  inner->reduce_op = stage->reduce_op;
  inner->num_products = stage->num_products;
  inner->fold = stage->fold;
  inner->inside = stage->inside;
  inner->num_reduce_axes = stage->num_reduce_axes;
  bp__te_reset_leaves(inner);
  stage->reduce_op = -1;
  stage->fold = NULL;
  stage->num_reduce_axes = 0;
  bp__te_reset_leaves(stage);
  return set_copy_body(stage, inner) == 0 ? same_place(stage, tensor, inner) : NULL;
}

/* ---- Partial reductions ------------------------------------------------------------------ */

typedef struct Factoring {
  BpTe *te;
  BpTeStage *stage, *partial;
  const BpIrNode *value[BP__TE_MAX_AXES]; /* value of each old reduction leaf in the new stage */
  const BpIrNode *guard;                  /* NULL if all iterations belong to old loops */
} Factoring;

static const BpIrNode *extent_node(const Factoring *f, const BpTeAxis *axis) {
  return axis->open ? axis->open : bp__ir_int64(f->te->ir, axis->extent);
}

/* An extent as a divisor: 0 becomes 1, because a loop of extent 0 computes nothing. */
static const BpIrNode *divisor_of(const Factoring *f, const BpTeAxis *axis) {
  return bp_ir_binary(f->te->ir, BP_IR_MAX, extent_node(f, axis), bp__ir_int64(f->te->ir, 1));
}

/* The value of an old reduction axis, from the values of its leaves, with the guards of split
 * axes. */
static const BpIrNode *factored_value(Factoring *f, const BpTeAxis *axis) {
  BpIrModule *ir = f->te->ir;
  const BpTeRelation *use = axis->used_by;
  if (!use)
    return f->value[axis->index];
  if (use->kind == BP__TE_FUSE)
    return bp_ir_binary(ir, axis == use->outer ? BP_IR_DIV : BP_IR_MOD,
                        factored_value(f, use->parent), divisor_of(f, use->inner));
  const BpIrNode *start =
      bp_ir_binary(ir, BP_IR_MUL, factored_value(f, use->outer), bp__ir_int64(ir, use->factor));
  const BpIrNode *value = bp_ir_binary(ir, BP_IR_ADD, start, factored_value(f, use->inner));
  if (axis->open || axis->extent % use->factor != 0) {
    const BpIrNode *inside = bp_ir_binary(ir, BP_IR_LT, value, extent_node(f, axis));
    f->guard = f->guard ? bp_ir_binary(ir, BP_IR_AND, f->guard, inside) : inside;
    if (!f->guard)
      return NULL;
  }
  return value;
}

/* The term of a reduction, or the identity outside the extent of a split axis. */
static const BpIrNode *guarded(const Factoring *f, const BpIrNode *body, int32_t index) {
  BpIrModule *ir = f->te->ir;
  const BpIrNode *value = bp__te_value(f->stage, body, index);
  return f->guard ? bp_ir_select(ir, f->guard, value, bp__te_stage_identity(f->stage, index))
                  : value;
}

/* The body of the partial reduction: the old body over the new axes. */
static const BpIrNode *factored_body(Factoring *f) {
  BpIrModule *ir = f->te->ir;
  const BpTeStage *stage = f->stage;
  const BpIrNode *values[BP_TE_MAX_VALUES];
  BpIrMap map = {0};
  int failed = 0;
  for (int32_t i = 0; i < stage->ndim + stage->num_reduce_axes && !failed; i++) {
    const BpTeAxis *axis = stage->axes[i];
    const BpIrNode *value = axis->is_reduce ? factored_value(f, axis) : f->partial->axes[i]->var;
    failed = value ? bp__ir_map_set(&map, axis->var, value) : -1;
  }
  const BpIrNode *body = failed ? NULL : bp__ir_substitute(ir, stage->body, &map);
  bp__ir_map_clear(&map);
  for (int32_t i = 0; body && i < stage->num_tensors; i++)
    values[i] = guarded(f, body, i);
  return body ? bp__te_tuple(ir, values, stage->num_tensors) : NULL;
}

static int fill_partial(Factoring *f, const BpTeAxis *factored) {
  BpTeStage *stage = f->stage, *partial = f->partial;
  for (int32_t i = 0; i < stage->num_leaves; i++) {
    const BpTeAxis *leaf = stage->leaves[i];
    if (!leaf->is_reduce || leaf == factored)
      continue;
    const BpIrNode *var = bp_ir_var(f->te->ir, leaf->name, bp__dtype_int64());
    BpTeAxis *axis = var ? bp__te_new_axis(partial, leaf->name, leaf->extent, 1, var) : NULL;
    if (!axis)
      return -1;
    axis->open = leaf->open;
    partial->num_reduce_axes++;
    f->value[leaf->index] = var;
  }
  f->value[factored->index] = partial->axes[stage->ndim]->var;
  partial->reduce_op = stage->reduce_op;
  partial->num_products = stage->num_products;
  partial->fold = stage->fold;
  partial->inside = stage->inside;
  partial->body = factored_body(f);
  bp__te_reset_leaves(partial);
  return partial->body ? 0 : -1;
}

/* Makes the old stage reduce the partial stage over the partial stage's last dimension. */
static int reduce_partial(Factoring *f, const BpTeAxis *factored) {
  BpTeStage *stage = f->stage;
  const BpIrNode *indices[BP_TE_MAX_NDIM], *values[BP_TE_MAX_VALUES];
  int32_t ndim = stage->ndim;
  const BpIrNode *var = bp_ir_var(f->te->ir, factored->name, bp__dtype_int64());
  for (int32_t i = 0; i < ndim; i++)
    indices[i] = stage->axes[i]->var;
  indices[ndim] = var;
  stage->num_axes = ndim;
  stage->num_reduce_axes = 1;
  stage->num_products = 0;
  BpTeAxis *axis = var ? bp__te_new_axis(stage, factored->name, factored->extent, 1, var) : NULL;
  if (!axis)
    return -1;
  axis->open = factored->open;
  bp__te_reset_leaves(stage);
  for (int32_t i = 0; i < stage->num_tensors; i++)
    values[i] = bp_te_read(f->te, f->partial->tensors[i], indices);
  stage->body = bp__te_tuple(f->te->ir, values, stage->num_tensors);
  return stage->body ? 0 : -1;
}

static int check_rfactor(const BpTeStage *stage, const BpTeAxis *axis) {
  bool is_leaf = false;
  for (int32_t i = 0; i < stage->num_leaves; i++)
    is_leaf |= stage->leaves[i] == axis;
  if (!is_leaf || !axis->is_reduce)
    return bp_error_raise(BP_ERROR_VALUE, "rfactor needs a reduction leaf of tensor %s",
                          stage->tensor->name);
  if (stage->ndim == BP_TE_MAX_NDIM)
    return bp_error_raise(BP_ERROR_VALUE, "tensor %s has no room for one more dimension",
                          stage->tensor->name);
  for (int32_t i = 0; i < stage->ndim; i++)
    if (stage->axes[i]->used_by)
      return bp_error_raise(BP_ERROR_VALUE,
                            "rfactor of tensor %s comes before its data axes are split or fused",
                            stage->tensor->name);
  return 0;
}

BpTeTensor *bp_te_rfactor(BpTe *te, BpTeTensor *tensor, BpTeAxis *axis) {
  BpTeStage *stage = bp_te_stage(te, tensor);
  const BpIrNode *vars[BP_TE_MAX_NDIM];
  BpDataType dtypes[BP_TE_MAX_VALUES];
  int64_t shape[BP_TE_MAX_NDIM];
  const BpIrNode *open[BP_TE_MAX_NDIM];
  char name[128];
  if (!stage || !BP_OPERAND(axis) || check_rfactor(stage, axis) != 0)
    return NULL;
  memcpy(shape, tensor->shape, (size_t)tensor->ndim * sizeof *shape);
  memcpy(open, tensor->open, (size_t)tensor->ndim * sizeof *open);
  shape[tensor->ndim] = axis->extent;
  open[tensor->ndim] = axis->open;
  snprintf(name, sizeof name, "%.100s_partial", stage->tensor->name);
  for (int32_t i = 0; i < stage->num_tensors; i++)
    dtypes[i] = stage->tensors[i]->dtype;
  if (bp__te_make_vars(te, tensor->ndim + 1, vars) != 0)
    return NULL;
  BpTeShape whole = {shape, open, tensor->ndim + 1};
  BpTeStage *partial = bp__te_new_stage(te, name, dtypes, stage->num_tensors, whole, vars);
  if (!partial)
    return NULL;
  Factoring f = {.te = te, .stage = stage, .partial = partial};
  return fill_partial(&f, axis) == 0 && reduce_partial(&f, axis) == 0
             ? same_place(stage, tensor, partial)
             : NULL;
}
