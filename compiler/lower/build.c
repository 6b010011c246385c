/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the loops of every stage from its schedule, with bounds inference.
 *
 * The loops of a stage are made from the outside in. A leaf axis that has no loop yet is a free
 * variable, so that the value of any axis is an expression at any time, and a producer must provide
 * the interval over which the index expression of a read ranges. As soon as the values of the axes
 * concerned are known, the build pass branches a split with unequal pieces into one version of the
 * inner code for each piece, wraps the inner code in the condition of a guard, computes an attached
 * stage, and initialises a reduction. */

#include "compiler/lower/nest.h"

#define NO_PIECE (-1)

static const BpIrNode *build_from(const BpNest *nest, int32_t position);

static const BpIrNode *simplified(const BpNest *nest, const BpIrNode *node) {
  return bp__index_simplify(&nest->lowering->index, node);
}

/* ---- Extents ----------------------------------------------------------------------------- */

/* A run of outer iterations of a split that have the same number of inner iterations. For an open
 * extent the constants are bounds, and the nodes give the run's beginning and length. */
typedef struct Piece {
  int64_t first, count, inner_extent;
  const BpIrNode *open_first, *open_count;
  const BpTeRelation *full; /* the split, if the piece has only full tiles, or NULL */
} Piece;

static Piece piece(int64_t first, int64_t count, int64_t inner_extent) {
  return (Piece){first, count, inner_extent, NULL, NULL, NULL};
}

static int64_t ceiling(int64_t extent, int64_t factor) {
  return extent / factor + (extent % factor != 0);
}

static int32_t add_piece(Piece *pieces, int32_t count, Piece piece) {
  if (piece.count > 0)
    pieces[count++] = piece;
  return count;
}

/* Whether some loop of an axis has the kind BP_IR_FOR_*. */
static bool has_kind(const BpTeAxis *axis, int32_t kind) {
  const BpTeRelation *use = axis->used_by;
  if (!use)
    return axis->for_kind == kind;
  if (use->kind == BP__TE_FUSE)
    return has_kind(use->parent, kind);
  return has_kind(use->outer, kind) || has_kind(use->inner, kind);
}

static bool has_threads(const BpTeAxis *axis) {
  return has_kind(axis, BP_IR_FOR_PARALLEL) || has_kind(axis, BP_IR_FOR_BOUND);
}

/* The BP_TE_TAIL_* rule that a split's tail follows: work that accumulates must not be repeated,
 * and the tail of an open extent is as long as a tile. */
static int32_t tail_of(const BpNest *nest, const BpTeRelation *split) {
  const BpTeStage *stage = split->parent->stage;
  bool accumulates = stage->reduce_op >= 0 || stage->scan;
  if (!nest->open[split->parent->index])
    return split->tail == BP_TE_TAIL_OVERLAP && accumulates ? BP_TE_TAIL_PEEL : split->tail;
  if (split->tail == BP_TE_TAIL_GUARD || split->tail == BP_TE_TAIL_PEEL)
    return split->tail;
  bool may_repeat = !accumulates && !stage->is_statements && !has_threads(split->inner);
  return may_repeat ? BP_TE_TAIL_OVERLAP : BP_TE_TAIL_PEEL;
}

/* Whether the last tile of an open extent is moved back. */
static bool overlaps_open(const BpNest *nest, const BpTeRelation *split) {
  return nest->open[split->parent->index] && tail_of(nest, split) == BP_TE_TAIL_OVERLAP;
}

/* The pieces of a split of an open extent. A tail that cannot be moved back is a full tile that
 * skips the elements beyond the end. The nodes of a piece are NULL if memory is exhausted. */
static int32_t open_pieces_of(const BpNest *nest, const BpTeRelation *split, Piece *pieces) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *extent = nest->open[split->parent->index];
  int64_t factor = split->factor, tiles = ceiling(nest->extent[split->parent->index], factor);
  const BpIrNode *all = simplified(nest, bp__te_num_tiles(module, extent, factor));
  const BpIrNode *full =
      simplified(nest, bp_ir_binary(module, BP_IR_FLOORDIV, extent, bp__ir_int64(module, factor)));
  const BpIrNode *zero = bp__ir_int64(module, 0);
  if (tail_of(nest, split) != BP_TE_TAIL_PEEL) {
    pieces[0] = (Piece){0, tiles, factor, zero, all, NULL};
    return 1;
  }
  pieces[0] = (Piece){0, tiles, factor, zero, full, split};
  pieces[1] = (Piece){0, tiles, factor, full, bp_ir_binary(module, BP_IR_SUB, all, full), NULL};
  return 2;
}

/* The pieces of a split; one piece if the tail needs no code of its own. */
static int32_t pieces_of(const BpNest *nest, const BpTeRelation *split, Piece *pieces) {
  int64_t factor = split->factor, extent = nest->extent[split->parent->index];
  int32_t tail = tail_of(nest, split);
  int64_t tiles = ceiling(extent, factor);
  int32_t count = 0;
  if (nest->open[split->parent->index])
    return open_pieces_of(nest, split, pieces);
  if (tail == BP_TE_TAIL_PEEL && extent > 0) {
    count = add_piece(pieces, count, piece(0, extent / factor, factor));
    return add_piece(pieces, count, piece(extent / factor, extent % factor != 0, extent % factor));
  }
  if (tail == BP_TE_TAIL_BALANCE && extent > 0) {
    int64_t least = extent / tiles, longer = extent % tiles;
    count = add_piece(pieces, count, piece(0, longer, least + 1));
    return add_piece(pieces, count, piece(longer, tiles - longer, least));
  }
  pieces[0] = piece(0, tiles, extent < factor ? extent : factor);
  return 1;
}

/* The range of an axis in the nest of loops. */
static BpInterval interval_of(const BpNest *nest, const BpTeAxis *axis) {
  return (BpInterval){NULL, nest->extent[axis->index], nest->open[axis->index]};
}

static const BpIrNode *extent_node(const BpNest *nest, const BpTeAxis *axis) {
  BpInterval interval = interval_of(nest, axis);
  return bp__lower_extent_node(nest->lowering, &interval);
}

static int set_leaf_value(BpNest *nest, const BpTeAxis *axis) {
  BpLowering *lowering = nest->lowering;
  BpInterval swept = interval_of(nest, axis);
  const BpIrNode *value;
  if (swept.extent == 1 && !swept.open) {
    value = bp__ir_int64(lowering->module, 0);
  } else {
    /* An empty axis still gets a non-empty range, otherwise simplification would replace it by a
     * constant. */
    if (swept.extent <= 0)
      swept.extent = INT64_C(1) + INT32_MAX;
    value = bp_ir_var(lowering->module, axis->name, bp__dtype_int64());
    if (!value || bp__lower_set_free(lowering, value, &swept) != 0)
      return -1;
  }
  nest->value[axis->index] = value;
  return value ? 0 : -1;
}

static int set_extent(BpNest *nest, const BpTeAxis *axis, int64_t extent, const BpIrNode *open);

/* The product of the extents of two axes that were fused. */
static int set_fused_extent(BpNest *nest, const BpTeRelation *fuse) {
  const BpTeAxis *outer = fuse->outer, *inner = fuse->inner;
  const BpIrNode *open = NULL;
  if (nest->open[outer->index] || nest->open[inner->index]) {
    open = bp_ir_binary(nest->lowering->module, BP_IR_MUL, extent_node(nest, outer),
                        extent_node(nest, inner));
    if (!open)
      return -1;
  }
  int64_t extent;
  if (__builtin_mul_overflow(nest->extent[outer->index], nest->extent[inner->index], &extent) ||
      extent > BP__RANGE_MAX)
    extent = BP__RANGE_MAX;
  return set_extent(nest, fuse->parent, extent, open);
}

static int set_split_extents(BpNest *nest, const BpTeRelation *split) {
  const BpTeAxis *axis = split->parent;
  const BpIrNode *tiles = NULL;
  Piece pieces[2];
  int32_t count = pieces_of(nest, split, pieces);
  nest->piece[axis->index] = count == 1 && !overlaps_open(nest, split) ? 0 : NO_PIECE;
  int64_t last = pieces[count - 1].first + pieces[count - 1].count;
  if (nest->open[axis->index]) {
    tiles = bp__te_num_tiles(nest->lowering->module, nest->open[axis->index], split->factor);
    if (!(tiles = simplified(nest, tiles)))
      return -1;
  }
  return set_extent(nest, split->outer, last, tiles) == 0
             ? set_extent(nest, split->inner, pieces[0].inner_extent, NULL)
             : -1;
}

/* Sets the extent of an axis and the extents of the axes derived from it. */
static int set_extent(BpNest *nest, const BpTeAxis *axis, int64_t extent, const BpIrNode *open) {
  const BpTeRelation *use = axis->used_by;
  nest->extent[axis->index] = extent;
  nest->open[axis->index] = open;
  if (!use)
    return set_leaf_value(nest, axis);
  return use->kind == BP__TE_FUSE ? set_fused_extent(nest, use) : set_split_extents(nest, use);
}

/* ---- Values ------------------------------------------------------------------------------ */

/* Whether tiles of a split may begin at places that are not multiples of its factor. */
static bool moves_tiles(const BpNest *nest, const BpTeRelation *split) {
  int64_t extent = nest->extent[split->parent->index];
  int32_t tail = tail_of(nest, split);
  return extent > split->factor && extent % split->factor != 0 &&
         (tail == BP_TE_TAIL_BALANCE || tail == BP_TE_TAIL_OVERLAP);
}

/* The first value of a split axis in iteration `outer` of its outer axis. */
static const BpIrNode *tile_start(const BpNest *nest, const BpTeRelation *split,
                                  const BpIrNode *outer) {
  BpIrModule *module = nest->lowering->module;
  int64_t extent = nest->extent[split->parent->index];
  int64_t factor = split->factor;
  int32_t tail = tail_of(nest, split);
  if (tail == BP_TE_TAIL_BALANCE && extent > 0) {
    int64_t tiles = ceiling(extent, factor);
    const BpIrNode *longer = bp__ir_int64(module, extent % tiles);
    const BpIrNode *start =
        bp_ir_binary(module, BP_IR_MUL, outer, bp__ir_int64(module, extent / tiles));
    return bp_ir_binary(module, BP_IR_ADD, start, bp_ir_binary(module, BP_IR_MIN, outer, longer));
  }
  const BpIrNode *start = bp_ir_binary(module, BP_IR_MUL, outer, bp__ir_int64(module, factor));
  if (tail == BP_TE_TAIL_OVERLAP && extent > factor && !nest->open[split->parent->index])
    start = bp_ir_binary(module, BP_IR_MIN, start, bp__ir_int64(module, extent - factor));
  return start;
}

/* The value of any axis, computed from the values of the leaf axes. */
static const BpIrNode *axis_value(const BpNest *nest, const BpTeAxis *axis) {
  BpIrModule *module = nest->lowering->module;
  const BpTeRelation *use = axis->used_by;
  if (nest->name[axis->index])
    return nest->name[axis->index];
  if (!use)
    return nest->value[axis->index];
  if (use->kind == BP__TE_SPLIT) {
    const BpIrNode *start = nest->start[axis->index];
    if (!start)
      start = tile_start(nest, use, axis_value(nest, use->outer));
    return simplified(nest, bp_ir_binary(module, BP_IR_ADD, start, axis_value(nest, use->inner)));
  }
  const BpIrNode *fused = axis_value(nest, use->parent);
  if (nest->extent[use->inner->index] == 0)
    return fused; /* unknown until the fused loop is made, then the value of that loop */
  if (nest->extent[axis->index] == 1 && !nest->open[axis->index])
    return bp__ir_int64(module, 0);
  if (axis == use->inner && nest->extent[use->outer->index] == 1 && !nest->open[use->outer->index])
    return fused;
  return simplified(nest, bp_ir_binary(module, axis == use->outer ? BP_IR_DIV : BP_IR_MOD, fused,
                                       extent_node(nest, use->inner)));
}

static bool is_begun(const BpNest *nest, const BpTeAxis *axis);

/* The value of an axis for bounds inference: an axis none of whose loops exists yet ranges over its
 * extent only, although full tiles would go beyond it. */
static const BpIrNode *swept_value(const BpNest *nest, const BpTeAxis *axis) {
  BpLowering *lowering = nest->lowering;
  const BpTeRelation *use = axis->used_by;
  BpInterval swept = interval_of(nest, axis);
  if (nest->name[axis->index] || !use || (swept.extent < 2 && !swept.open))
    return axis_value(nest, axis);
  if (!is_begun(nest, axis)) {
    const BpIrNode *var = bp_ir_var(lowering->module, axis->name, bp__dtype_int64());
    return var && bp__lower_set_free(lowering, var, &swept) == 0 ? var : NULL;
  }
  if (use->kind == BP__TE_FUSE)
    return axis_value(nest, axis);
  const BpIrNode *start = nest->start[axis->index];
  if (!start)
    start = tile_start(nest, use, swept_value(nest, use->outer));
  return bp_ir_binary(lowering->module, BP_IR_ADD, start, swept_value(nest, use->inner));
}

static int32_t num_roots(const BpTeStage *stage) {
  return stage->ndim + stage->num_reduce_axes;
}

/* The index of a data axis in its region: the steps of a backward scan count from the end. */
static const BpIrNode *place_of(const BpNest *nest, int32_t dimension, const BpIrNode *value) {
  BpIrModule *module = nest->lowering->module;
  const BpTeScan *scan = nest->stage->scan;
  if (!scan || !scan->is_reverse || dimension != scan->axis)
    return value;
  const BpIrNode *last = bp_ir_binary(
      module, BP_IR_SUB, extent_node(nest, nest->stage->axes[dimension]), bp__ir_int64(module, 1));
  return bp_ir_binary(module, BP_IR_SUB, last, value);
}

/* The values of the body's variables: values of root axes, relative to the region's beginning. */
int bp__nest_roots(const BpNest *nest, bool is_swept, const BpIrNode **roots) {
  const BpLowerStage *s = nest->s;
  for (int32_t i = 0; i < num_roots(nest->stage); i++) {
    const BpTeAxis *axis = nest->stage->axes[i];
    const BpIrNode *value = is_swept ? swept_value(nest, axis) : axis_value(nest, axis);
    if (i < nest->stage->ndim)
      value = place_of(nest, i, value);
    if (i < nest->stage->ndim && s->mins[i])
      value = bp_ir_binary(nest->lowering->module, BP_IR_ADD, s->mins[i], value);
    roots[i] = simplified(nest, value);
    if (!roots[i])
      return -1;
  }
  return 0;
}

/* Whether all loops on which the axis depends exist: 1, 0, or -1 with an error. */
static int is_known(const BpNest *nest, const BpTeAxis *axis) {
  const BpIrNode *value = axis_value(nest, axis);
  int is_free = value ? bp__index_has_free(&nest->lowering->index, value) : -1;
  return is_free < 0 ? -1 : !is_free;
}

/* Whether any loop below an axis exists already. */
static bool is_begun(const BpNest *nest, const BpTeAxis *axis) {
  const BpTeRelation *use = axis->used_by;
  if (!use)
    return nest->is_bound[axis->index];
  if (use->kind == BP__TE_FUSE)
    return is_begun(nest, use->parent);
  return is_begun(nest, use->outer) || is_begun(nest, use->inner);
}

/* ---- Statements of the innermost level --------------------------------------------------- */

typedef struct Substitution {
  const BpNest *nest;
  BpIrMap values; /* values of the root axes' variables */
} Substitution;

static int substitute_var(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  const Substitution *substitution = rewriter->context;
  *result = node->kind == BP_IR_VAR ? bp__ir_map_get(&substitution->values, node) : NULL;
  return *result != NULL;
}

const BpIrNode *bp__nest_relocate(const BpNest *nest, const BpIrNode *read) {
  BpIrModule *module = nest->lowering->module;
  const BpLowerTensor *tensor = bp__lower_tensor_of(nest->lowering, read->operands[0]);
  const BpIrNode *operands[1 + BP_TE_MAX_NDIM] = {read->operands[0]};
  if (tensor)
    operands[0] = tensor->storage;
  for (int32_t i = 1; i < read->num_operands; i++) {
    const BpIrNode *min =
        tensor ? tensor->mins[bp__lower_domain_dimension(tensor->tensor, i - 1)] : NULL;
    operands[i] = read->operands[i];
    if (min)
      operands[i] = bp_ir_binary(module, BP_IR_SUB, operands[i], min);
    operands[i] = simplified(nest, operands[i]);
    if (!operands[i])
      return NULL;
  }
  if (tensor && tensor->tensor->state_of && bp__scan_check_read(nest, tensor, read) != 0)
    return NULL;
  return bp__ir_with_operands(module, read, operands);
}

static bool nest_writes(const BpNest *nest, const BpIrNode *node) {
  return nest->stage->is_statements && node->kind == BP_IR_CALL &&
         strcmp(node->str_value, BP__TE_WRITE) == 0;
}

/* Replaces a statement's write to a tensor by a write to the tensor's storage. */
static const BpIrNode *relocate_write(const BpNest *nest, const BpIrNode *write) {
  const BpLowerTensor *tensor = bp__lower_tensor_of(nest->lowering, write->operands[0]);
  const BpIrNode *operands[2 + BP_TE_MAX_NDIM];
  for (int32_t i = 0; i < write->num_operands; i++)
    operands[i] = i < 2 ? write->operands[i] : simplified(nest, write->operands[i]);
  operands[0] = tensor->storage;
  return bp__ir_with_operands(nest->lowering->module, write, operands);
}

static const BpIrNode *finish_node(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Substitution *substitution = rewriter->context;
  if (nest_writes(substitution->nest, node))
    return relocate_write(substitution->nest, node);
  if (bp__te_is_read(node))
    return bp__lower_in_lanes(substitution->nest->lowering, substitution->nest->lanes,
                              bp__nest_relocate(substitution->nest, node));
  if (bp__dtype_is_bool(node->dtype) && node->dtype.lanes == 1) {
    int known = bp__index_decide(&substitution->nest->lowering->index, node);
    if (known >= 0)
      return bp__ir_bool(rewriter->module, known);
  }
  return node;
}

const BpIrNode *bp__nest_rewrite(const BpNest *nest, const BpIrNode *const *roots,
                                 const BpIrNode *body) {
  Substitution substitution = {.nest = nest};
  BpIrRewriter rewriter = {.module = nest->lowering->module,
                           .context = &substitution,
                           .enter = substitute_var,
                           .leave = finish_node};
  int failed = 0;
  for (int32_t i = 0; i < num_roots(nest->stage) && !failed; i++)
    failed = bp__ir_map_set(&substitution.values, nest->s->vars[i], roots[i]);
  const BpIrNode *value = failed ? NULL : bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  bp__ir_map_clear(&substitution.values);
  return value;
}

/* The CALL that reads or writes a tensor's stored element in the current iteration. */
static const BpIrNode *access_storage(const BpNest *nest, const BpLowerTensor *tensor,
                                      const BpIrNode *written) {
  const BpIrNode *operands[2 + BP_TE_MAX_NDIM] = {tensor->storage};
  int32_t count = 1;
  if (written)
    operands[count++] = written;
  for (int32_t i = 0; i < tensor->tensor->ndim; i++) {
    int32_t dimension = bp__lower_domain_dimension(tensor->tensor, i);
    operands[count] = place_of(nest, dimension, axis_value(nest, nest->stage->axes[dimension]));
    if (!operands[count++])
      return NULL;
  }
  return bp_ir_make(nest->lowering->module, BP_IR_CALL, tensor->tensor->dtype, operands, count,
                    BP_IR_CALL_INTRINSIC, 0, written ? BP__TE_WRITE : BP__TE_READ);
}

const BpIrNode *bp__nest_write(const BpNest *nest, const BpLowerTensor *tensor,
                               const BpIrNode *value) {
  const BpIrNode *write = value ? access_storage(nest, tensor, value) : NULL;
  return write ? bp__ir_evaluate(nest->lowering->module, write) : NULL;
}

/* Writes a value to each tensor of the stage that is needed. */
static const BpIrNode *write_values(const BpNest *nest, const BpIrNode *const *values) {
  const BpIrNode *writes[BP_TE_MAX_VALUES];
  int32_t count = 0;
  for (int32_t i = 0; i < nest->stage->num_values; i++)
    if (nest->s->tensors[i].is_needed &&
        !(writes[count++] = bp__nest_write(nest, &nest->s->tensors[i], values[i])))
      return NULL;
  return bp_ir_seq(nest->lowering->module, writes, count);
}

static const BpIrNode *write_body(const BpNest *nest, const BpIrNode *body) {
  const BpIrNode *values[BP_TE_MAX_VALUES];
  for (int32_t i = 0; body && i < nest->stage->num_values; i++)
    values[i] = bp__te_value(nest->stage, body, i);
  return body ? write_values(nest, values) : NULL;
}

static const BpIrNode *write_identities(const BpNest *nest) {
  const BpIrNode *values[BP_TE_MAX_VALUES];
  for (int32_t i = 0; i < nest->stage->num_tensors; i++)
    values[i] = bp__ir_copy(nest->lowering->module, bp__te_stage_identity(nest->stage, i),
                            &nest->lowering->copied);
  return write_values(nest, values);
}

const BpIrNode *bp__nest_name(const BpNest *nest, BpNames *names, const char *text,
                              const BpIrNode *value) {
  const BpIrNode *var = value ? bp_ir_var(nest->lowering->module, text, value->dtype) : NULL;
  names->vars[names->count] = var;
  names->values[names->count++] = value;
  return var;
}

const BpIrNode *bp__nest_wrap_names(const BpNest *nest, const BpNames *names,
                                    const BpIrNode *body) {
  for (int32_t i = names->count - 1; i >= 0; i--)
    body = bp_ir_let(nest->lowering->module, names->vars[i], names->values[i], body);
  return body;
}

/* The results of a fold, with the values of both operands substituted for its variables. */
static const BpIrNode *fold_results(const BpNest *nest, const BpIrNode *const *sums,
                                    const BpIrNode *const *terms) {
  BpLowering *lowering = nest->lowering;
  const BpTeFold *fold = nest->stage->fold;
  BpIrMap map = {0};
  int failed = 0;
  for (int32_t i = 0; i < fold->num_values && !failed; i++) {
    const BpIrNode *a = bp__ir_copy(lowering->module, fold->a[i], &lowering->copied);
    const BpIrNode *b = bp__ir_copy(lowering->module, fold->b[i], &lowering->copied);
    failed = !a || !b || bp__ir_map_set(&map, a, sums[i]) || bp__ir_map_set(&map, b, terms[i]);
  }
  const BpIrNode *results = bp__ir_copy(lowering->module, fold->results, &lowering->copied);
  if (results)
    results = failed ? NULL : bp__ir_substitute(lowering->module, results, &map);
  bp__ir_map_clear(&map);
  return results;
}

/* Combines several values at once: all old values are read before any is stored. */
static const BpIrNode *accumulate_fold(const BpNest *nest, const BpIrNode *body) {
  const BpTeStage *stage = nest->stage;
  const BpIrNode *sums[BP_TE_MAX_VALUES], *terms[BP_TE_MAX_VALUES], *values[BP_TE_MAX_VALUES];
  BpNames names = {.count = 0};
  for (int32_t i = 0; i < stage->num_tensors; i++) {
    sums[i] = bp__nest_name(nest, &names, "a", access_storage(nest, &nest->s->tensors[i], NULL));
    terms[i] = bp__nest_name(nest, &names, "b", bp__te_value(stage, body, i));
    if (!sums[i] || !terms[i])
      return NULL;
  }
  const BpIrNode *results = fold_results(nest, sums, terms);
  for (int32_t i = 0; results && i < stage->num_tensors; i++)
    values[i] = bp__nest_name(nest, &names, "c", bp__te_value(stage, results, i));
  return results ? bp__nest_wrap_names(nest, &names, write_values(nest, values)) : NULL;
}

/* Adds the `count` products of a body to a sum one after the other, so that each addition is a
 * multiply-add. */
static const BpIrNode *add_products(BpIrModule *module, const BpIrNode *sum, const BpIrNode *body,
                                    int32_t count) {
  if (count < 2 || body->kind != BP_IR_ADD)
    return bp_ir_binary(module, BP_IR_ADD, sum, body);
  sum = add_products(module, sum, body->operands[0], count - 1);
  return bp_ir_binary(module, BP_IR_ADD, sum, body->operands[1]);
}

/* Adds a term to a sum. A term that was inlined into the sum is added as a whole, because its own
 * summands may cancel. */
static const BpIrNode *accumulate(const BpNest *nest, const BpIrNode *body) {
  const BpTeStage *stage = nest->stage;
  if (stage->fold)
    return accumulate_fold(nest, body);
  BpIrModule *module = nest->lowering->module;
  const BpLowerTensor *tensor = nest->s->tensors;
  const BpIrNode *sum = access_storage(nest, tensor, NULL);
  bool has_products = body && stage->num_products > 1 && bp__dtype_is_float(body->dtype);
  return bp__nest_write(
      nest, tensor,
      has_products ? add_products(module, sum, body, stage->num_products)
                   : bp_ir_binary(module, bp__te_reduce_kind(stage->reduce_op), sum, body));
}

/* The condition that the current iteration is the first one of the reduction. */
static const BpIrNode *is_first(const BpNest *nest) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *all = bp__ir_bool(module, true);
  for (int32_t i = 0; i < nest->stage->num_leaves; i++) {
    const BpTeAxis *leaf = nest->stage->leaves[i];
    if (leaf->is_reduce)
      all = bp_ir_binary(
          module, BP_IR_AND, all,
          bp_ir_binary(module, BP_IR_EQ, nest->value[leaf->index], bp__ir_int64(module, 0)));
  }
  return all;
}

/* Whether the first iteration of a reduction stores; an empty reduction has no iteration and needs
 * the identity. */
static bool starts_with_first(const BpNest *nest) {
  const BpTeStage *stage = nest->stage;
  for (int32_t i = 0; i < stage->num_reduce_axes; i++)
    if (stage->axes[stage->ndim + i]->extent == 0 || stage->axes[stage->ndim + i]->open)
      return false;
  return stage->starts_with_first;
}

static const BpIrNode *build_innermost(const BpNest *nest) {
  const BpTeStage *stage = nest->stage;
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *roots[BP__TE_MAX_AXES];
  if (stage->scan)
    return bp__scan_innermost(nest);
  if (nest->phase == BP__NEST_INIT)
    return write_identities(nest);
  if (bp__nest_roots(nest, false, roots) != 0)
    return NULL;
  const BpIrNode *body = bp__nest_rewrite(nest, roots, nest->s->body);
  if (stage->is_statements)
    return body;
  if (!body || stage->reduce_op < 0)
    return write_body(nest, body);
  if (!starts_with_first(nest))
    return accumulate(nest, body);
  const BpIrNode *first = is_first(nest);
  int known = first ? bp__index_decide(&nest->lowering->index, first) : -1;
  if (known >= 0)
    return known ? write_body(nest, body) : accumulate(nest, body);
  return bp_ir_if(module, first, write_body(nest, body), accumulate(nest, body));
}

/* ---- Loops ------------------------------------------------------------------------------- */

/* Records that in a stage that the whole block computes together a thread's number ranges over all
 * threads. */
static int note_thread(BpLowering *lowering, const BpTeAxis *leaf, const BpIrNode *var,
                       int64_t first, int64_t count) {
  if (leaf->for_kind != BP_IR_FOR_BOUND || strncmp(leaf->thread_axis, "threadIdx", 9) != 0)
    return 0;
  const BpIrNode *all = bp_ir_var(lowering->module, leaf->name, bp__dtype_int64());
  return all && bp__index_set_range(&lowering->index, all, first, first + count - 1, true) == 0
             ? bp__ir_map_set(&lowering->of_block, var, all)
             : -1;
}

/* The value of an expression with thread numbers that range over the whole block. */
static const BpIrNode *seen_by_block(BpLowering *lowering, const BpIrNode *node) {
  if (lowering->of_block.size == 0)
    return node;
  return bp__index_simplify(&lowering->index,
                            bp__ir_substitute(lowering->module, node, &lowering->of_block));
}

static const BpThreadLoop *thread_loop_around(const BpLowering *lowering, const BpTeAxis *leaf) {
  const BpThreadLoop *loop = leaf->for_kind == BP_IR_FOR_BOUND ? lowering->thread_loops : NULL;
  while (loop && strcmp(loop->axis, leaf->thread_axis) != 0)
    loop = loop->outer;
  return loop;
}

/* Makes a loop inside another loop on the same thread axis: the same threads run its iterations. */
static const BpIrNode *build_inner_threads(BpNest *nest, const BpTeAxis *leaf,
                                           const BpThreadLoop *around, int64_t count,
                                           int32_t position) {
  BpLowering *lowering = nest->lowering;
  if (count > around->count) {
    bp_error_raise(BP_ERROR_VALUE,
                   "axis %s of tensor %s has %lld threads on %s, inside of a loop of %lld",
                   leaf->name, nest->stage->tensor->name, (long long)count, leaf->thread_axis,
                   (long long)around->count);
    return NULL;
  }
  nest->value[leaf->index] = around->var;
  if (count == around->count)
    return build_from(nest, position + 1);
  const BpIrNode *var = bp_ir_var(lowering->module, leaf->name, bp__dtype_int64());
  const BpIrNode *has_work =
      bp_ir_binary(lowering->module, BP_IR_LT, around->var, bp__ir_int64(lowering->module, count));
  if (!var || bp__index_set_range(&lowering->index, var, 0, count - 1, false) != 0 ||
      note_thread(lowering, leaf, var, 0, count) != 0)
    return NULL;
  nest->value[leaf->index] = var;
  const BpIrNode *body = build_from(nest, position + 1);
  return bp_ir_if(lowering->module, has_work, bp_ir_let(lowering->module, var, around->var, body),
                  NULL);
}

/* Assumes that an integer is below another integer and, if the tiles of a split are full, the
 * resulting bound of the split's outer axis. */
static void assume_below(const BpNest *nest, const BpIrNode *value, const BpIrNode *bound) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *rest = bp_ir_binary(module, BP_IR_SUB, bound, value);
  bp__index_assume(&nest->lowering->index,
                   bp_ir_binary(module, BP_IR_SUB, rest, bp__ir_int64(module, 1)));
}

static void assume_full(const BpNest *nest, const BpTeRelation *split, const BpIrNode *outer) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *factor = bp__ir_int64(module, split->factor);
  const BpIrNode *last = bp_ir_binary(module, BP_IR_MUL, outer, factor);
  last = bp_ir_binary(module, BP_IR_ADD, last, bp__ir_int64(module, split->factor - 1));
  assume_below(nest, last, nest->open[split->parent->index]);
}

/* Makes a loop with an open extent. */
static const BpIrNode *build_open_loop(const BpNest *outer, const BpTeAxis *leaf, const Piece *run,
                                       int32_t position) {
  BpLowering *lowering = outer->lowering;
  BpNest nest = *outer;
  bool is_parallel = leaf->for_kind == BP_IR_FOR_PARALLEL && !nest.is_serial;
  bool is_block = leaf->for_kind == BP_IR_FOR_BOUND && !nest.is_serial;
  if (is_block && strncmp(leaf->thread_axis, "threadIdx", 9) == 0) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "axis %s of tensor %s is bound to %s, and its extent is open; blocks have a "
                   "fixed number of threads, so split it",
                   leaf->name, nest.stage->tensor->name, leaf->thread_axis);
    return NULL;
  }
  const BpIrNode *var = bp_ir_var(lowering->module, leaf->name, bp__dtype_int64());
  if (!var || bp__index_set_range(&lowering->index, var, run->first, run->first + run->count - 1,
                                  false) != 0)
    return NULL;
  nest.is_bound[leaf->index] = true;
  nest.value[leaf->index] = var;
  bool was_in_parallel = lowering->is_in_parallel;
  int32_t num_assumed = lowering->index.num_assumed;
  lowering->is_in_parallel |= is_parallel;
  assume_below(&nest, var,
               bp_ir_binary(lowering->module, BP_IR_ADD, run->open_first, run->open_count));
  if (run->full)
    assume_full(&nest, run->full, var);
  const BpIrNode *body = build_from(&nest, position + 1);
  lowering->is_in_parallel = was_in_parallel;
  bp__index_reset(&lowering->index, num_assumed);
  int32_t for_kind = is_block                          ? BP_IR_FOR_BOUND
                     : is_parallel && !was_in_parallel ? BP_IR_FOR_PARALLEL
                                                       : BP_IR_FOR_SERIAL;
  return bp_ir_for(lowering->module, var, run->open_first, run->open_count, for_kind,
                   is_block ? leaf->thread_axis : "", body);
}

static const BpIrNode *build_loop(const BpNest *outer, const BpTeAxis *leaf, const Piece *run,
                                  int32_t position) {
  BpLowering *lowering = outer->lowering;
  BpNest nest = *outer;
  int64_t first = run->first, count = run->count;
  if (run->open_count)
    return build_open_loop(outer, leaf, run, position);
  if (count == 0)
    return bp__ir_nothing(lowering->module);
  nest.is_bound[leaf->index] = true;
  if (count == 1) {
    nest.value[leaf->index] = bp__ir_int64(lowering->module, first);
    return nest.value[leaf->index] ? build_from(&nest, position + 1) : NULL;
  }
  const BpThreadLoop *around = nest.is_serial ? NULL : thread_loop_around(lowering, leaf);
  if (around)
    return build_inner_threads(&nest, leaf, around, count, position);
  int32_t for_kind = nest.is_serial ? BP_IR_FOR_SERIAL : leaf->for_kind;
  bool is_parallel = for_kind == BP_IR_FOR_PARALLEL;
  if (is_parallel && lowering->is_in_parallel)
    for_kind = BP_IR_FOR_SERIAL;
  const BpIrNode *var = bp_ir_var(lowering->module, leaf->name, bp__dtype_int64());
  if (!var || bp__index_set_range(&lowering->index, var, first, first + count - 1, false) != 0)
    return NULL;
  nest.value[leaf->index] = var;
  if (!nest.is_serial && note_thread(lowering, leaf, var, first, count) != 0)
    return NULL;
  bool was_in_parallel = lowering->is_in_parallel;
  BpThreadLoop loop = {leaf->thread_axis, var, count, lowering->thread_loops};
  lowering->is_in_parallel |= is_parallel;
  if (for_kind == BP_IR_FOR_BOUND)
    lowering->thread_loops = &loop;
  const BpIrNode *body = build_from(&nest, position + 1);
  lowering->is_in_parallel = was_in_parallel;
  lowering->thread_loops = loop.outer;
  if (leaf->is_sunk)
    return bp__lower_sink(lowering, &(BpRowLoop){leaf->name, var, first, count, for_kind}, body);
  return bp_ir_for(lowering->module, var, bp__ir_int64(lowering->module, first),
                   bp__ir_int64(lowering->module, count), for_kind,
                   for_kind == BP_IR_FOR_BOUND ? leaf->thread_axis : "", body);
}

/* ---- Guards ------------------------------------------------------------------------------ */

/* Returns 1 for an axis made by a split with two pieces whose outer axis is known, so that a piece
 * can be chosen. */
static int can_branch(const BpNest *nest, const BpTeAxis *axis) {
  const BpTeRelation *use = axis->used_by;
  if (!use || use->kind != BP__TE_SPLIT || nest->piece[axis->index] != NO_PIECE ||
      is_begun(nest, use->inner))
    return 0;
  return is_known(nest, use->outer);
}

static bool is_split(const BpTeAxis *axis) {
  return axis->used_by && axis->used_by->kind == BP__TE_SPLIT;
}

static int add_guard(const BpNest *nest, const BpIrNode *guard, const BpIrNode **guards) {
  if (guard)
    *guards = *guards ? bp_ir_binary(nest->lowering->module, BP_IR_AND, *guards, guard) : guard;
  return guard && !*guards ? -1 : 0;
}

/* Adds the condition that an axis is below a bound, unless the ranges of variables prove it. */
static int add_bound(const BpNest *nest, const BpTeAxis *axis, const BpIrNode *bound,
                     const BpIrNode **guards) {
  const BpIrNode *guard =
      bp_ir_binary(nest->lowering->module, BP_IR_LT, axis_value(nest, axis), bound);
  if (!guard)
    return -1;
  return bp__index_decide(&nest->lowering->index, guard) == 1 ? 0 : add_guard(nest, guard, guards);
}

/* Whether lanes of the axis beyond its limit compute elements, which nothing reads. */
static bool passes_limit(const BpNest *nest, const BpTeAxis *axis) {
  return nest->passes_limits && nest->limit[axis->index] && !nest->open[axis->index];
}

/* The condition that keeps an axis with a known value inside its bounds; NULL if no condition is
 * needed. */
static int guard_of(const BpNest *nest, const BpTeAxis *axis, const BpIrNode **guard) {
  const BpIrNode *limit = nest->limit[axis->index];
  *guard = NULL;
  if (is_split(axis) && !nest->is_full[axis->index] &&
      add_bound(nest, axis, extent_node(nest, axis), guard) != 0)
    return -1;
  return limit && !passes_limit(nest, axis) ? add_bound(nest, axis, limit, guard) : 0;
}

/* Returns 1 for an axis whose value is known and whose bounds were not checked yet. */
static int can_check(const BpNest *nest, const BpTeAxis *axis) {
  if ((!is_split(axis) && !nest->limit[axis->index]) || nest->is_checked[axis->index])
    return 0;
  int known = is_known(nest, axis), branches = can_branch(nest, axis);
  return known < 0 || branches < 0 ? -1 : known && !branches;
}

/* Returns 1 if an axis from which a fused axis is computed will have a guard. */
static int waits_for_guard(const BpNest *nest, const BpTeAxis *axis) {
  const BpIrNode *guard;
  while (axis->used_by && axis->used_by->kind == BP__TE_FUSE)
    axis = axis->used_by->parent;
  int checks = can_check(nest, axis);
  if (checks <= 0)
    return checks;
  return guard_of(nest, axis, &guard) != 0 ? -1 : guard != NULL;
}

/* ---- Names for nonlinear values ---------------------------------------------------------- */

#define MAX_LETS 16

/* Variables to define around a statement, the outermost first. */
typedef struct Lets {
  int32_t count;
  const BpIrNode *vars[MAX_LETS], *values[MAX_LETS];
} Lets;

static bool is_linear(const BpIrNode *node) {
  if (node->kind == BP_IR_VAR || node->kind == BP_IR_INT_IMM)
    return true;
  return (node->kind == BP_IR_ADD || node->kind == BP_IR_SUB || node->kind == BP_IR_MUL) &&
         is_linear(node->operands[0]) && is_linear(node->operands[1]);
}

/* Sets *name to a new variable that has the given value. */
static int add_let(const BpNest *nest, Lets *lets, const char *text, const BpIrNode *value,
                   BpRange range, const BpIrNode **name) {
  BpIndexContext *index = &nest->lowering->index;
  *name = bp_ir_var(nest->lowering->module, text, bp__dtype_int64());
  if (!*name || bp__index_set_range(index, *name, range.min, range.max, false) != 0)
    return -1;
  lets->vars[lets->count] = *name;
  lets->values[lets->count++] = value;
  const BpIrNode *seen = seen_by_block(nest->lowering, value);
  if (!seen)
    return -1;
  int differs = bp__index_has_free(index, seen);
  return differs > 0 ? bp__ir_map_set(&nest->lowering->of_block, *name, seen) : differs;
}

/* Makes a variable for a known nonlinear value, unless all names are used. */
static int name_value(const BpNest *nest, Lets *lets, const char *text, const BpIrNode *value,
                      const BpIrNode **name) {
  BpIndexContext *index = &nest->lowering->index;
  value = simplified(nest, value);
  int is_free = value ? bp__index_has_free(index, value) : -1;
  if (is_free < 0)
    return -1;
  if (is_free || is_linear(value) || lets->count == MAX_LETS)
    return 0;
  return add_let(nest, lets, text, value, bp__index_range(index, value), name);
}

/* Names the quotients and remainders of fused axes and the starts of moved tiles as soon as they
 * are known, so that they are computed once and differences of indices cancel. If the axis will
 * have a guard, the names are defined inside the guard, because the ranges hold only there. Tiles
 * that do not move start at multiples of the factor, which a name would hide. */
static int name_known_values(BpNest *nest, Lets *lets) {
  const BpTeStage *stage = nest->stage;
  for (int32_t i = 0; i < stage->num_axes; i++) {
    const BpTeAxis *axis = stage->axes[i];
    if (!axis->used_by || axis->used_by->kind != BP__TE_FUSE || nest->name[i])
      continue;
    int waits = waits_for_guard(nest, axis);
    if (waits < 0 ||
        (!waits && name_value(nest, lets, axis->name, axis_value(nest, axis), &nest->name[i]) != 0))
      return -1;
    if (nest->name[i] && nest->open[i])
      assume_below(nest, nest->name[i], nest->open[i]);
  }
  for (int32_t i = 0; i < stage->num_axes; i++) {
    const BpTeAxis *axis = stage->axes[i];
    const BpTeRelation *use = axis->used_by;
    if (use && use->kind == BP__TE_SPLIT && moves_tiles(nest, use) && !nest->start[i] &&
        nest->piece[i] != NO_PIECE &&
        name_value(nest, lets, axis->name, tile_start(nest, use, axis_value(nest, use->outer)),
                   &nest->start[i]) != 0)
      return -1;
  }
  return 0;
}

static const BpIrNode *wrap_lets(const BpNest *nest, const Lets *lets, const BpIrNode *body) {
  for (int32_t i = lets->count - 1; i >= 0; i--)
    body = bp_ir_let(nest->lowering->module, lets->vars[i], lets->values[i], body);
  return body;
}

/* ---- Versions ---------------------------------------------------------------------------- */

/* Makes the version of the inner code for one piece of a split. */
static int choose_piece(BpNest *nest, const BpTeRelation *split, int32_t piece, Piece *chosen) {
  Piece pieces[2];
  pieces_of(nest, split, pieces);
  nest->piece[split->parent->index] = (int8_t)piece;
  nest->is_full[split->parent->index] = piece == 0;
  *chosen = pieces[piece];
  return set_extent(nest, split->inner, chosen->inner_extent, NULL);
}

/* Makes the inner code for a full tile of an open extent that has at least one. */
static const BpIrNode *build_moved_tile(const BpNest *nest, const BpTeRelation *split,
                                        int32_t position) {
  BpIrModule *module = nest->lowering->module;
  BpNest version = *nest;
  Lets lets = {0};
  int32_t axis = split->parent->index;
  int64_t most = nest->extent[axis] - split->factor;
  const BpIrNode **start = &version.start[axis], *extent = nest->open[axis];
  const BpIrNode *last =
      bp_ir_binary(module, BP_IR_SUB, extent, bp__ir_int64(module, split->factor));
  const BpIrNode *next = tile_start(nest, split, axis_value(nest, split->outer));
  version.piece[axis] = 0;
  version.is_full[axis] = true;
  if (most < 0)
    return bp__ir_nothing(module);
  if (set_extent(&version, split->inner, split->factor, NULL) != 0 ||
      add_let(nest, &lets, split->parent->name, bp_ir_binary(module, BP_IR_MIN, next, last),
              (BpRange){0, most}, start) != 0)
    return NULL;
  assume_below(nest, *start, bp_ir_binary(module, BP_IR_ADD, last, bp__ir_int64(module, 1)));
  return wrap_lets(nest, &lets, build_from(&version, position));
}

/* The length of the vectors in which the elements of an axis are computed, or 0. */
static int64_t lanes_of(const BpTeAxis *axis) {
  while (axis->used_by && axis->used_by->kind == BP__TE_SPLIT)
    axis = axis->used_by->inner;
  return !axis->used_by && axis->for_kind == BP_IR_FOR_VECTORIZED ? axis->extent : 0;
}

/* Makes the inner code for an open extent of at most `size` elements as one tile with vectors,
 * which skips the elements beyond the end. If half of the vectors may be enough, that is another
 * version. */
static const BpIrNode *build_short_vectors(const BpNest *nest, const BpTeRelation *split,
                                           int64_t size, int32_t position) {
  BpLowering *lowering = nest->lowering;
  BpIrModule *module = lowering->module;
  BpNest version = *nest;
  int32_t axis = split->parent->index, num_assumed = lowering->index.num_assumed;
  int64_t lanes = lanes_of(split->inner), vectors = lanes > 0 ? size / lanes : 0;
  int64_t half = (vectors + 1) / 2 * lanes;
  bool has_half = vectors > 1 && size % lanes == 0;
  const BpIrNode *extent = nest->open[axis], *few = NULL;
  const BpIrNode *most = bp__ir_int64(module, half);
  version.start[axis] = bp__ir_int64(module, 0);
  if (!version.start[axis] || !most || set_extent(&version, split->inner, size, NULL) != 0)
    return NULL;
  if (has_half) {
    assume_below(nest, extent, bp__ir_int64(module, half + 1));
    few = build_short_vectors(nest, split, half, position);
    bp__index_reset(&lowering->index, num_assumed);
    assume_below(nest, most, extent);
  }
  const BpIrNode *tile = build_from(&version, position);
  bp__index_reset(&lowering->index, num_assumed);
  if (!has_half || !few || !tile)
    return has_half && !few ? NULL : tile;
  return bp_ir_if(module, bp_ir_binary(module, BP_IR_LE, extent, most), few, tile);
}

/* Makes the inner code for an open extent of at least `size` elements as tiles of that size; the
 * last tile is moved back. */
static const BpIrNode *build_small_tiles(const BpNest *nest, const BpTeRelation *split,
                                         int64_t size, int32_t position) {
  BpLowering *lowering = nest->lowering;
  BpIrModule *module = lowering->module;
  BpNest version = *nest;
  Lets lets = {0};
  int32_t axis = split->parent->index, num_assumed = lowering->index.num_assumed;
  const BpIrNode *extent = nest->open[axis], *length = bp__ir_int64(module, size);
  const BpIrNode *last = bp_ir_binary(module, BP_IR_SUB, extent, length);
  const BpIrNode *tiles = simplified(nest, bp__te_num_tiles(module, extent, size));
  const BpIrNode *var = bp_ir_var(module, split->outer->name, bp__dtype_int64());
  const BpIrNode *next = bp_ir_binary(module, BP_IR_MUL, var, length);
  if (!last || !tiles || !next ||
      bp__index_set_range(&lowering->index, var, 0, split->factor / size, false) != 0 ||
      set_extent(&version, split->inner, size, NULL) != 0)
    return NULL;
  version.is_full[axis] = true;
  version.start[axis] = var;
  if (size > 1 &&
      add_let(nest, &lets, split->parent->name, bp_ir_binary(module, BP_IR_MIN, next, last),
              (BpRange){0, split->factor - size}, &version.start[axis]) != 0)
    return NULL;
  bp__index_assume(&lowering->index, last);
  assume_below(nest, version.start[axis],
               bp_ir_binary(module, BP_IR_ADD, last, bp__ir_int64(module, 1)));
  const BpIrNode *body = wrap_lets(nest, &lets, build_from(&version, position));
  bp__index_reset(&lowering->index, num_assumed);
  return bp_ir_for(module, var, bp__ir_int64(module, 0), tiles, BP_IR_FOR_SERIAL, "", body);
}

/* An extent shorter than a tile is computed in tiles of the factor divided by this number. */
#define SHORT_TILE_DIVISOR 3

/* Makes the inner code for an open extent shorter than a tile: a tile with vectors; or tiles of a
 * third, or of one element if the extent is shorter still. */
static const BpIrNode *build_short_tiles(const BpNest *nest, const BpTeRelation *split,
                                         int32_t position) {
  BpIrModule *module = nest->lowering->module;
  BpNest version = *nest;
  int64_t size = split->factor / SHORT_TILE_DIVISOR;
  version.piece[split->parent->index] = 1;
  if (has_kind(split->inner, BP_IR_FOR_VECTORIZED))
    return build_short_vectors(&version, split, split->factor, position);
  const BpIrNode *single = build_small_tiles(&version, split, 1, position);
  if (!single || size < 2)
    return single;
  const BpIrNode *has_tile =
      bp_ir_binary(module, BP_IR_GE, nest->open[split->parent->index], bp__ir_int64(module, size));
  return bp_ir_if(module, has_tile, build_small_tiles(&version, split, size, position), single);
}

/* Branches on the length of an open extent whose last tile is moved back. */
static const BpIrNode *branch_on_length(const BpNest *nest, const BpTeRelation *split,
                                        int32_t position) {
  BpLowering *lowering = nest->lowering;
  int32_t num_assumed = lowering->index.num_assumed;
  const BpIrNode *extent = nest->open[split->parent->index];
  const BpIrNode *factor = bp__ir_int64(lowering->module, split->factor);
  const BpIrNode *has_tile = bp_ir_binary(lowering->module, BP_IR_GE, extent, factor);
  int known = has_tile ? bp__index_decide(&lowering->index, has_tile) : -1;
  bp__index_assume(&lowering->index, bp_ir_binary(lowering->module, BP_IR_SUB, extent, factor));
  const BpIrNode *moved = known == 0 ? NULL : build_moved_tile(nest, split, position);
  bp__index_reset(&lowering->index, num_assumed);
  if (known == 1 || (known < 0 && !moved))
    return moved;
  assume_below(nest, extent, factor);
  const BpIrNode *tiles = build_short_tiles(nest, split, position);
  bp__index_reset(&lowering->index, num_assumed);
  return known == 0 || !tiles ? tiles : bp_ir_if(lowering->module, has_tile, moved, tiles);
}

/* Makes the loop over the leaf at `position`, or one loop for each piece of the split that made the
 * leaf. */
static const BpIrNode *build_leaf(const BpNest *nest, int32_t position) {
  const BpTeAxis *leaf = nest->stage->leaves[position];
  const BpTeRelation *split = leaf->made_by;
  if (nest->steps && leaf->is_scan)
    return bp__scan_loop(nest, position);
  bool is_plain = leaf->for_kind == BP_IR_FOR_SERIAL || leaf->for_kind == BP_IR_FOR_UNROLLED;
  if (!is_plain || !split || split->outer != leaf || is_begun(nest, split->inner) ||
      nest->piece[split->parent->index] != NO_PIECE || overlaps_open(nest, split))
    return build_loop(nest, leaf,
                      &(Piece){0, nest->extent[leaf->index], 1,
                               bp__ir_int64(nest->lowering->module, 0), nest->open[leaf->index],
                               NULL},
                      position);
  const BpIrNode *loops[2];
  for (int32_t i = 0; i < 2; i++) {
    BpNest version = *nest;
    Piece chosen;
    if (choose_piece(&version, split, i, &chosen) != 0)
      return NULL;
    loops[i] = build_loop(&version, leaf, &chosen, position);
  }
  return bp_ir_seq(nest->lowering->module, loops, 2);
}

/* Makes the inner code for one piece of the outer axis, whose value is `outer`. A name for the
 * value has the range of the piece. */
static const BpIrNode *build_version(const BpNest *nest, const BpTeRelation *split, int32_t piece,
                                     const BpIrNode *outer, int32_t position) {
  BpNest version = *nest;
  Lets lets = {0};
  Piece chosen;
  const BpIrNode **name = &version.name[split->outer->index];
  if (choose_piece(&version, split, piece, &chosen) != 0)
    return NULL;
  if (chosen.count == 1 && !chosen.open_count)
    *name = bp__ir_int64(nest->lowering->module, chosen.first);
  else if (add_let(nest, &lets, split->outer->name, outer,
                   (BpRange){chosen.first, chosen.first + chosen.count - 1}, name) != 0)
    return NULL;
  int32_t num_assumed = nest->lowering->index.num_assumed;
  if (chosen.full)
    assume_full(&version, chosen.full, *name);
  const BpIrNode *rest = *name ? build_from(&version, position) : NULL;
  bp__index_reset(&nest->lowering->index, num_assumed);
  return rest ? wrap_lets(nest, &lets, rest) : NULL;
}

/* Branches on the piece of a split with two pieces whose outer axis is known: one version of the
 * inner code for each piece. */
static const BpIrNode *branch_on_piece(const BpNest *nest, const BpTeRelation *split,
                                       int32_t position) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *outer = axis_value(nest, split->outer);
  const BpIrNode *versions[2] = {NULL, NULL};
  Piece pieces[2];
  if (overlaps_open(nest, split))
    return branch_on_length(nest, split, position);
  pieces_of(nest, split, pieces);
  const BpIrNode *second =
      pieces[1].open_count ? pieces[1].open_first : bp__ir_int64(module, pieces[1].first);
  const BpIrNode *is_earlier = bp_ir_binary(module, BP_IR_LT, outer, second);
  int known = is_earlier ? bp__index_decide(&nest->lowering->index, is_earlier) : -1;
  for (int32_t i = 0; i < 2; i++)
    if ((known < 0 || known != i) &&
        !(versions[i] = build_version(nest, split, i, outer, position)))
      return NULL;
  if (known >= 0)
    return versions[!known];
  return bp_ir_if(module, is_earlier, versions[0], versions[1]);
}

/* ---- Attached stages and initialisation -------------------------------------------------- */

/* Keeps a data axis inside the whole extent; the axis' region may go beyond the end. */
static int set_limit(BpNest *nest, int32_t dimension) {
  const BpLowerStage *s = nest->s;
  nest->limit[dimension] =
      simplified(nest, bp_ir_binary(nest->lowering->module, BP_IR_SUB, s->whole[dimension],
                                    s->region[dimension].min));
  return nest->limit[dimension] ? 0 : -1;
}

static int start_nest(BpNest *nest, BpLowering *lowering, BpLowerStage *s) {
  memset(nest, 0, sizeof *nest);
  nest->lowering = lowering;
  nest->s = s;
  nest->stage = s->stage;
  for (int32_t i = 0; i < num_roots(s->stage); i++) {
    const BpTeAxis *axis = s->stage->axes[i];
    BpInterval extent;
    if (s->attached_to && !axis->is_reduce)
      extent = s->region[i];
    else if (bp__lower_whole(lowering, axis->extent, axis->open, &extent) != 0)
      return -1;
    if (set_extent(nest, axis, extent.extent, extent.open) != 0 ||
        (s->attached_to && !axis->is_reduce && s->whole[i] && set_limit(nest, i) != 0))
      return -1;
  }
  return 0;
}

/* The memory scope of the tensors of a stage that sets no scope. */
static int32_t scope_of(const BpLowerStage *s) {
  if (s->stage->scope >= 0 && !s->stage->scan)
    return s->stage->scope;
  return s->attached_to ? BP_IR_SCOPE_LOCAL : BP_IR_SCOPE_GLOBAL;
}

/* Makes the buffer for the region of a tensor that is not an output. */
static int make_buffer(BpLowering *lowering, const BpLowerStage *s, BpLowerTensor *t) {
  const BpTeTensor *tensor = t->tensor;
  const BpIrNode *extents[BP_TE_MAX_NDIM];
  int32_t scope = scope_of(s);
  for (int32_t i = 0; i < tensor->ndim; i++) {
    const BpInterval *region = &s->region[bp__lower_domain_dimension(tensor, i)];
    extents[i] = s->attached_to ? bp__lower_extent_node(lowering, region) : t->buffer->operands[i];
  }
  const BpIrNode *valid = tensor->ndim > 0 ? extents[tensor->ndim - 1] : NULL;
  if (valid && valid->kind != BP_IR_INT_IMM)
    valid = NULL;
  int64_t row = valid ? bp__lower_row_extent(s->stage, scope, valid->int_value) : 0;
  if (valid && row != valid->int_value)
    extents[tensor->ndim - 1] = bp__ir_int64(lowering->module, row);
  t->storage =
      bp_ir_buffer(lowering->module, tensor->name, tensor->dtype, scope, extents, tensor->ndim);
  if (!t->storage || !valid || row == valid->int_value)
    return t->storage ? 0 : -1;
  return bp__ir_map_set(&lowering->valid, t->storage, valid);
}

static int make_storage(BpLowering *lowering, BpLowerStage *s) {
  for (int32_t i = 0; i < s->stage->ndim; i++)
    s->mins[i] = s->attached_to ? s->region[i].min : NULL;
  for (int32_t i = 0; i < s->stage->num_tensors; i++) {
    BpLowerTensor *t = &s->tensors[i];
    if (!t->is_output && t->is_needed && make_buffer(lowering, s, t) != 0)
      return -1;
  }
  return 0;
}

/* Whether the region has no elements; a scan without steps still has its states. */
static bool is_empty(const BpNest *nest) {
  for (int32_t i = 0; i < nest->stage->ndim; i++)
    if (nest->extent[i] == 0 && !nest->open[i] && !nest->stage->axes[i]->is_scan)
      return true;
  return false;
}

/* Builds the statements that follow a stage and may read it. */
typedef const BpIrNode *(*Rest)(void *context);

/* Whether an attached stage is inside a loop that is not bound to threads or blocks. */
static bool is_repeated(const BpLowerStage *s) {
  for (; s->attached_to; s = s->attached_to) {
    const BpTeStage *consumer = s->attached_to->stage;
    for (int32_t i = 0; i <= s->attach_position; i++)
      if (consumer->leaves[i]->for_kind != BP_IR_FOR_BOUND &&
          (consumer->leaves[i]->extent > 1 || consumer->leaves[i]->open))
        return true;
  }
  return false;
}

/* Whether a statement uses the storage of a stage's tensors: 1, 0 or -1. */
static int uses_storage(const BpIrNode *statement, const BpLowerStage *s) {
  for (int32_t i = 0; i < s->stage->num_tensors; i++) {
    int uses = s->tensors[i].storage ? bp__ir_uses(statement, s->tensors[i].storage) : 0;
    if (uses != 0)
      return uses;
  }
  return 0;
}

/* Removes the barrier with which `rest` begins before a stage that the block shares, if that stage
 * does not read the storage of `s`: the barriers around `s` serve both stages. Returns NULL if
 * `rest` is unchanged. */
static const BpIrNode *joined(BpLowering *lowering, const BpLowerStage *s, const BpIrNode *rest) {
  if (rest->kind != BP_IR_ALLOCATE || rest->operands[0]->int_value != BP_IR_SCOPE_SHARED)
    return NULL;
  const BpIrNode *body = rest->operands[1];
  if (body->kind != BP_IR_SEQ || body->num_operands != 4 ||
      body->operands[0]->kind != BP_IR_BARRIER || body->operands[2]->kind != BP_IR_BARRIER ||
      uses_storage(body->operands[1], s) != 0)
    return NULL;
  body = bp_ir_seq(lowering->module, body->operands + 1, 3);
  return body ? bp_ir_allocate(lowering->module, rest->operands[0], body) : NULL;
}

/* A stage, followed by `rest`. Barriers ensure that the storage that a block shares is complete
 * before it is read, and is not overwritten before all threads have read it. */
static const BpIrNode *in_turn(BpLowering *lowering, const BpLowerStage *s, const BpIrNode *stage,
                               const BpIrNode *rest) {
  const BpIrNode *parts[4];
  int32_t count = 0;
  bool is_shared = !bp__lower_is_output(s) && scope_of(s) == BP_IR_SCOPE_SHARED;
  bool needs_turn = is_shared && is_repeated(s);
  const BpIrNode *both = needs_turn ? joined(lowering, s, rest) : NULL;
  if (needs_turn)
    parts[count++] = bp__ir_barrier(lowering->module, "shared");
  parts[count++] = stage;
  if (is_shared && !both)
    parts[count++] = bp__ir_barrier(lowering->module, "shared");
  parts[count++] = both ? both : rest;
  return bp_ir_seq(lowering->module, parts, count);
}

/* Allocates the storage of a stage's tensors around a statement. */
static const BpIrNode *in_storage(BpLowering *lowering, const BpLowerStage *s,
                                  const BpIrNode *statement) {
  for (int32_t i = s->stage->num_tensors - 1; i >= 0; i--) {
    const BpLowerTensor *t = &s->tensors[i];
    if (!t->is_output && t->is_needed)
      statement = bp_ir_allocate(lowering->module, t->storage, statement);
  }
  return statement;
}

static const BpIrNode *realize(BpLowering *lowering, BpLowerStage *s, Rest rest, void *context) {
  BpNest nest;
  if (make_storage(lowering, s) != 0 || start_nest(&nest, lowering, s) != 0)
    return NULL;
  if (is_empty(&nest)) {
    /* Loops with open extents may name the storage although they read nothing from it. */
    const BpIrNode *others = rest(context);
    int uses = others ? uses_storage(others, s) : -1;
    return uses <= 0 ? (uses < 0 ? NULL : others) : in_storage(lowering, s, others);
  }
  const BpIrNode *parts[2] = {build_from(&nest, 0), NULL};
  if (!parts[0] || !(parts[1] = rest(context)))
    return NULL;
  return in_storage(lowering, s, in_turn(lowering, s, parts[0], parts[1]));
}

static const BpIrNode *build_rest(const BpNest *nest, int32_t position);

typedef struct AttachedRest {
  const BpNest *nest;
  int32_t position; /* position of the leaf axis whose loop is the innermost so far */
  int32_t next;     /* index of the first stage not yet examined */
} AttachedRest;

/* Extends the root values of one thread to the ranges of all threads of its block. */
static int widen_to_block(const BpNest *nest, const BpIrNode **roots) {
  for (int32_t i = 0; i < num_roots(nest->stage); i++)
    if (!(roots[i] = seen_by_block(nest->lowering, roots[i])))
      return -1;
  return 0;
}

/* Computes the stages attached at a position, beginning with stage `next`, then continues
 * inwards. */
static const BpIrNode *build_attached(void *context) {
  AttachedRest rest = *(const AttachedRest *)context;
  BpLowering *lowering = rest.nest->lowering;
  for (; rest.next < lowering->num_stages; rest.next++) {
    BpLowerStage *s = &lowering->stages[rest.next];
    const BpIrNode *roots[BP__TE_MAX_AXES];
    if (s->attached_to != rest.nest->s || s->attach_position != rest.position)
      continue;
    if (bp__nest_roots(rest.nest, true, roots) != 0 ||
        (s->stage->scope == BP_IR_SCOPE_SHARED && widen_to_block(rest.nest, roots) != 0) ||
        bp__lower_region(lowering, s, rest.nest->s, roots) != 0)
      return NULL;
    if (!s->is_wanted)
      continue;
    rest.next++;
    const BpLowerBound *before = bp__lower_bind(lowering, s, rest.nest->s);
    const BpIrNode *both = before ? realize(lowering, s, build_attached, &rest) : NULL;
    if (before)
      bp__lower_unbind(lowering, before);
    return both;
  }
  return build_rest(rest.nest, rest.position + 1);
}

/* Whether the outermost loop of a reduction or scan starts at a position. */
static bool is_first_in_order(const BpNest *nest, int32_t position) {
  for (int32_t i = 0; i < position; i++)
    if (bp__lower_is_in_order(nest->stage->leaves[i]))
      return false;
  return position == nest->stage->num_leaves ||
         bp__lower_is_in_order(nest->stage->leaves[position]);
}

const BpIrNode *bp__nest_loops(const BpNest *nest, int32_t position) {
  if (position == nest->stage->num_leaves)
    return build_innermost(nest);
  if (nest->is_around && bp__lower_is_in_order(nest->stage->leaves[position]))
    return build_from(nest, position + 1);
  return build_leaf(nest, position);
}

const BpIrNode *bp__nest_from(const BpNest *nest, int32_t position) {
  return build_from(nest, position);
}

/* Makes a reduction: the statements that store the identities, then the loops. */
static const BpIrNode *build_reduction(const BpNest *nest, int32_t position) {
  BpNest init = *nest;
  init.phase = BP__NEST_INIT;
  init.is_around = true;
  const BpIrNode *parts[2] = {bp__nest_loops(&init, position), bp__nest_loops(nest, position)};
  return bp_ir_seq(nest->lowering->module, parts, 2);
}

static const BpIrNode *build_rest(const BpNest *nest, int32_t position) {
  const BpTeStage *stage = nest->stage;
  if (nest->phase != BP__NEST_MAIN)
    return bp__nest_loops(nest, position);
  if (stage->scan && is_first_in_order(nest, position))
    return bp__scan_begin(nest, position);
  if (stage->scan && position == bp__scan_position(stage) + 1)
    return bp__scan_step(nest, position);
  if (stage->reduce_op >= 0 && !starts_with_first(nest) && is_first_in_order(nest, position))
    return build_reduction(nest, position);
  return bp__nest_loops(nest, position);
}

/* ---- Axes that become known -------------------------------------------------------------- */

/* Sets *split to a split that can branch, or NULL. */
static int find_branch(const BpNest *nest, const BpTeRelation **split) {
  *split = NULL;
  for (int32_t i = 0; i < nest->stage->num_axes; i++) {
    int found = can_branch(nest, nest->stage->axes[i]);
    if (found < 0)
      return -1;
    if (found) {
      *split = nest->stage->axes[i]->used_by;
      return 0;
    }
  }
  return 0;
}

/* For a split into tiles of two sizes without a chosen piece: the guard that ends a shorter tile at
 * the start of the next tile. */
static int piece_guard_of(const BpNest *nest, const BpTeRelation *split, const BpIrNode **guard) {
  BpIrModule *module = nest->lowering->module;
  const BpIrNode *outer = axis_value(nest, split->outer);
  const BpIrNode *next =
      tile_start(nest, split, bp_ir_binary(module, BP_IR_ADD, outer, bp__ir_int64(module, 1)));
  *guard = bp_ir_binary(module, BP_IR_LT, axis_value(nest, split->parent), simplified(nest, next));
  if (!*guard)
    return -1;
  if (bp__index_decide(&nest->lowering->index, *guard) == 1)
    *guard = NULL;
  return 0;
}

/* Whether the innermost loop so far exists in the generated code. */
static bool is_in_loop(const BpNest *nest, int32_t position) {
  int32_t kind = position > 0 ? nest->stage->leaves[position - 1]->for_kind : BP_IR_FOR_SERIAL;
  return kind == BP_IR_FOR_SERIAL || kind == BP_IR_FOR_PARALLEL || kind == BP_IR_FOR_BOUND;
}

/* Sets *guards to the conditions of all axes whose values became known, or to NULL, and marks the
 * axes with a condition. */
static int take_guards(BpNest *nest, const BpIrNode **guards, bool *is_guarded) {
  *guards = NULL;
  for (int32_t i = 0; i < nest->stage->num_axes; i++) {
    const BpTeAxis *axis = nest->stage->axes[i];
    const BpIrNode *guard;
    is_guarded[i] = false;
    int checks = can_check(nest, axis);
    if (checks < 0)
      return -1;
    if (!checks)
      continue;
    nest->is_checked[i] = true;
    if (guard_of(nest, axis, &guard) != 0 || add_guard(nest, guard, guards) != 0)
      return -1;
    is_guarded[i] = guard != NULL;
    if (passes_limit(nest, axis) && add_bound(nest, axis, nest->limit[i], &nest->lanes) != 0)
      return -1;
    if (nest->piece[i] == NO_PIECE && tail_of(nest, axis->used_by) == BP_TE_TAIL_BALANCE &&
        (piece_guard_of(nest, axis->used_by, &guard) != 0 || add_guard(nest, guard, guards) != 0))
      return -1;
  }
  return 0;
}

/* Names the guarded axes, so that their ranges are known inside the condition. */
static int name_guarded_values(BpNest *nest, const bool *is_guarded, Lets *lets) {
  for (int32_t i = 0; i < nest->stage->num_axes && lets->count < MAX_LETS; i++) {
    const BpTeAxis *axis = nest->stage->axes[i];
    BpRange inside = {0, nest->extent[i] - 1};
    if (is_guarded[i] && !nest->name[i] &&
        add_let(nest, lets, axis->name, axis_value(nest, axis), inside, &nest->name[i]) != 0)
      return -1;
  }
  return 0;
}

/* Assumes that the conditions of guards hold. */
static void assume_guards(const BpNest *nest, const BpIrNode *guards) {
  if (guards->kind == BP_IR_AND) {
    assume_guards(nest, guards->operands[0]);
    assume_guards(nest, guards->operands[1]);
  } else if (guards->kind == BP_IR_LT) {
    assume_below(nest, guards->operands[0], guards->operands[1]);
  }
}

/* Whether lanes of a vector beyond limits compute: a local tensor's tile is written without a mask,
 * so that it can be in registers. The names of fused axes would hide that reads differ by lane. */
static bool may_pass_limits(const BpNest *nest, int32_t position) {
  const BpTeStage *stage = nest->stage;
  bool may = position > 0 && stage->leaves[position - 1]->for_kind == BP_IR_FOR_VECTORIZED &&
             nest->s->attached_to && scope_of(nest->s) == BP_IR_SCOPE_LOCAL && !stage->scan;
  for (int32_t i = 0; i < stage->num_axes; i++)
    may &= !stage->axes[i]->used_by || stage->axes[i]->used_by->kind != BP__TE_FUSE;
  return may && !stage->is_statements;
}

/* Does the work of build_from, which afterwards removes the assumptions that build_inside makes. */
static const BpIrNode *build_inside(const BpNest *outer, int32_t position);

/* Makes everything inside the loops of the leaves before `position`. */
static const BpIrNode *build_from(const BpNest *outer, int32_t position) {
  int32_t num_assumed = outer->lowering->index.num_assumed;
  const BpIrNode *inside = build_inside(outer, position);
  bp__index_reset(&outer->lowering->index, num_assumed);
  return inside;
}

/* Guards come first: an axis' range is valid only inside its extent. */
static const BpIrNode *build_inside(const BpNest *outer, int32_t position) {
  BpNest nest = *outer;
  const BpTeRelation *split;
  const BpIrNode *guards, *rest;
  Lets lets = {0}, guarded = {0};
  bool is_guarded[BP__TE_MAX_AXES];
  nest.passes_limits = may_pass_limits(&nest, position);
  if (name_known_values(&nest, &lets) != 0 || take_guards(&nest, &guards, is_guarded) != 0 ||
      find_branch(&nest, &split) != 0)
    return NULL;
  if (guards)
    assume_guards(&nest, guards);
  if (is_in_loop(&nest, position) && name_guarded_values(&nest, is_guarded, &guarded) != 0)
    return NULL;
  if (guards && name_known_values(&nest, &guarded) != 0)
    return NULL;
  if (nest.stage->scan && nest.phase == BP__NEST_MAIN &&
      position == bp__scan_position(nest.stage) + 1 && bp__scan_enter(&nest) != 0)
    return NULL;
  AttachedRest attached = {&nest, position - 1, 0};
  if (split)
    rest = branch_on_piece(&nest, split, position);
  else if (nest.phase != BP__NEST_MAIN || position == 0)
    rest = build_rest(&nest, position);
  else
    rest = bp__nest_prefetch(&nest, position - 1, build_attached(&attached));
  if (guards)
    rest = bp_ir_if(nest.lowering->module, guards, wrap_lets(&nest, &guarded, rest), NULL);
  return wrap_lets(&nest, &lets, rest);
}

/* ---- All stages -------------------------------------------------------------------------- */

typedef struct RootRest {
  BpLowering *lowering;
  int32_t next;
} RootRest;

static const BpIrNode *build_roots(void *context) {
  RootRest rest = *(const RootRest *)context;
  BpLowering *lowering = rest.lowering;
  for (; rest.next < lowering->num_stages; rest.next++)
    if (!lowering->stages[rest.next].attached_to)
      return realize(lowering, &lowering->stages[rest.next++], build_roots, &rest);
  return bp__ir_nothing(lowering->module);
}

const BpIrNode *bp__lower_build(BpLowering *lowering, const BpIrNode *body) {
  RootRest rest = {lowering, 0};
  (void)body;
  return build_roots(&rest);
}
