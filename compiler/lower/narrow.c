/* SPDX-License-Identifier: Apache-2.0 */
/* Index arithmetic in 32 bits, for machines on which 64 bits are slow or missing.
 *
 * An int64 expression whose range fits, according to the ranges of its loop variables, is computed
 * in int32, and so are its parts whose ranges fit; other parts are cast. Loop variables and names
 * become int32 if all their values fit. A vector is narrowed if all its lanes fit. */

#include "compiler/lower/linear.h"
#include "compiler/lower/passes.h"

typedef struct Narrower {
  BpIrRewriter rewriter; /* first member, because callbacks cast the rewriter to a Narrower */
  BpIndexContext index;
  BpIrMap vars; /* int64 VAR -> its int32 replacement */
  BpIrMap done; /* int64 expression -> the same expression in int32 */
} Narrower;

static BpDataType narrow_type(const BpIrNode *node) {
  return bp__dtype(BP_DTYPE_INT, 32, node->dtype.lanes);
}

static bool is_wide(const BpIrNode *node) {
  return bp__dtype_equal(bp__dtype_element(node->dtype), bp__dtype_int64()) &&
         node->kind < BP_IR_SEQ;
}

/* Whether an integer or bool type can be converted to int32 without changing any value that fits in
 * int32. */
static bool is_shorter(BpDataType dtype) {
  return dtype.bits <= 32 && !bp__dtype_is_float(dtype);
}

static bool fits(Narrower *n, const BpIrNode *node) {
  BpRange range = bp__index_range(&n->index, node);
  return range.min >= INT32_MIN && range.max <= INT32_MAX;
}

static bool is_arithmetic(int32_t kind) {
  return kind >= BP_IR_ADD && kind <= BP_IR_MAX;
}

static const BpIrNode *narrowed(Narrower *n, const BpIrNode *node);

/* Narrows only the operands of the node; narrowing the node itself would recurse without end. */
static const BpIrNode *cast_narrow(Narrower *n, const BpIrNode *node) {
  BpIrModule *module = n->rewriter.module;
  const BpIrNode **operands =
      bp__ir_alloc(module, (size_t)(node->num_operands + 1) * sizeof *operands);
  if (!operands)
    return NULL;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!(operands[i] = bp__ir_rewrite(&n->rewriter, node->operands[i])))
      return NULL;
  return bp_ir_cast(module, narrow_type(node), bp__ir_with_operands(module, node, operands));
}

/* A shuffle of narrowed vectors: if the whole result fits, so does each vector. */
static const BpIrNode *narrow_shuffle(Narrower *n, const BpIrNode *node) {
  BpIrModule *module = n->rewriter.module;
  const BpIrNode **operands = bp__ir_alloc(module, (size_t)node->num_operands * sizeof *operands);
  if (!operands)
    return NULL;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!(operands[i] = i < node->int_value ? narrowed(n, node->operands[i]) : node->operands[i]))
      return NULL;
  return bp_ir_make(module, BP_IR_SHUFFLE, narrow_type(node), operands, node->num_operands,
                    node->int_value, 0, NULL);
}

/* The int32 variable in place of a variable; NULL if it stays as it is. */
static const BpIrNode *narrow_var(Narrower *n, const BpIrNode *var) {
  const BpIrNode *narrow = bp__ir_map_get(&n->vars, var);
  return narrow == var ? NULL : narrow;
}

static const BpIrNode *make_narrow(Narrower *n, const BpIrNode *node) {
  BpIrModule *module = n->rewriter.module;
  const BpIrNode *const *x = node->operands;
  if (node->kind == BP_IR_INT_IMM)
    return bp_ir_int(module, narrow_type(node), node->int_value);
  if (node->kind == BP_IR_VAR) {
    const BpIrNode *var = narrow_var(n, node);
    return var ? var : bp_ir_cast(module, narrow_type(node), node);
  }
  if (is_arithmetic(node->kind) && fits(n, x[0]) && fits(n, x[1]))
    return bp_ir_binary(module, node->kind, narrowed(n, x[0]), narrowed(n, x[1]));
  if (node->kind == BP_IR_CAST && is_shorter(x[0]->dtype))
    return bp_ir_cast(module, narrow_type(node), bp__ir_rewrite(&n->rewriter, x[0]));
  if (node->kind == BP_IR_SELECT && fits(n, x[1]) && fits(n, x[2]))
    return bp_ir_select(module, bp__ir_rewrite(&n->rewriter, x[0]), narrowed(n, x[1]),
                        narrowed(n, x[2]));
  if (node->kind == BP_IR_BROADCAST)
    return bp_ir_broadcast(module, narrowed(n, x[0]), node->dtype.lanes);
  if (node->kind == BP_IR_RAMP && fits(n, x[0]) && fits(n, x[1]))
    return bp_ir_ramp(module, narrowed(n, x[0]), narrowed(n, x[1]), node->dtype.lanes);
  if (node->kind == BP_IR_SHUFFLE)
    return narrow_shuffle(n, node);
  return cast_narrow(n, node);
}

/* An int64 expression that fits in int32, as an int32. */
static const BpIrNode *narrowed(Narrower *n, const BpIrNode *node) {
  const BpIrNode *known = bp__ir_map_get(&n->done, node);
  if (known)
    return known;
  const BpIrNode *made = make_narrow(n, node);
  return made && !bp__ir_map_set(&n->done, node, made) ? made : NULL;
}

/* ---- Names ------------------------------------------------------------------------------- */

/* Replaces a variable from now on, and drops the results that were found while the variable had
 * another value. */
static int bind(Narrower *n, const BpIrNode *var, const BpIrNode *narrow) {
  bp__ir_map_clear(&n->rewriter.done);
  bp__ir_map_clear(&n->done);
  return bp__ir_map_set(&n->vars, var, narrow);
}

static BpRange loop_range(BpRange start, BpRange count) {
  BpRange range = {start.min, BP__RANGE_MAX};
  if (count.max < BP__RANGE_MAX && start.max <= BP__RANGE_MAX - count.max)
    range.max = start.max + count.max; /* one more value, for the comparison that ends the loop */
  return range;
}

static const BpIrNode *narrow_for(Narrower *n, const BpIrNode *node) {
  BpIrModule *module = n->rewriter.module;
  const BpIrNode *const *x = node->operands;
  BpRange range = loop_range(bp__index_range(&n->index, x[1]), bp__index_range(&n->index, x[2]));
  bool is_narrow = range.min >= INT32_MIN && range.max <= INT32_MAX && fits(n, x[2]);
  const BpIrNode *var = is_narrow ? bp_ir_var(module, x[0]->str_value, narrow_type(x[0])) : x[0];
  const BpIrNode *min = is_narrow ? narrowed(n, x[1]) : bp__ir_rewrite(&n->rewriter, x[1]);
  const BpIrNode *extent = is_narrow ? narrowed(n, x[2]) : bp__ir_rewrite(&n->rewriter, x[2]);
  if (!var || !min || !extent || bind(n, x[0], var) ||
      bp__index_set_range(&n->index, x[0], range.min, range.max, false))
    return NULL;
  const BpIrNode *body = bp__ir_rewrite(&n->rewriter, x[3]);
  return body ? bp_ir_for(module, var, min, extent, (int32_t)node->int_value, node->str_value, body)
              : NULL;
}

static const BpIrNode *narrow_let(Narrower *n, const BpIrNode *node) {
  BpIrModule *module = n->rewriter.module;
  const BpIrNode *const *x = node->operands;
  bool is_narrow = fits(n, x[1]);
  const BpIrNode *var = is_narrow ? bp_ir_var(module, x[0]->str_value, narrow_type(x[0])) : x[0];
  const BpIrNode *value = is_narrow ? narrowed(n, x[1]) : bp__ir_rewrite(&n->rewriter, x[1]);
  if (!var || !value || bind(n, x[0], var) || bp__index_set_name(&n->index, x[0], x[1]) < 0)
    return NULL;
  const BpIrNode *body = bp__ir_rewrite(&n->rewriter, x[2]);
  return body ? bp_ir_let(module, var, value, body) : NULL;
}

/* ---- Walking ----------------------------------------------------------------------------- */

/* An access with its index in int32, if the index fits. */
static const BpIrNode *narrow_access(Narrower *n, const BpIrNode *node) {
  const BpIrNode *operands[4];
  for (int32_t i = 0; i < node->num_operands; i++) {
    const BpIrNode *x = node->operands[i];
    operands[i] =
        i == 1 && is_wide(x) && fits(n, x) ? narrowed(n, x) : bp__ir_rewrite(&n->rewriter, x);
    if (!operands[i])
      return NULL;
  }
  return bp__ir_with_operands(n->rewriter.module, node, operands);
}

/* Whether the node converts an int64 that fits in int32 to another type. */
static bool is_wide_cast(Narrower *n, const BpIrNode *node) {
  return node->kind == BP_IR_CAST && is_wide(node->operands[0]) && fits(n, node->operands[0]);
}

static bool is_wide_comparison(Narrower *n, const BpIrNode *node) {
  return node->kind >= BP_IR_EQ && node->kind <= BP_IR_GE && is_wide(node->operands[0]) &&
         fits(n, node->operands[0]) && fits(n, node->operands[1]);
}

static int enter(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  Narrower *n = (Narrower *)rewriter;
  BpIrModule *module = rewriter->module;
  if (node->kind == BP_IR_BUFFER || node->kind == BP_IR_ATTR || node->kind == BP_IR_INT_IMM)
    *result = node; /* buffers have identity; a launch keeps its stated extents */
  else if (node->kind == BP_IR_FOR && is_wide(node->operands[0]))
    *result = narrow_for(n, node);
  else if (node->kind == BP_IR_LET && is_wide(node->operands[0]))
    *result = narrow_let(n, node);
  else if (node->kind == BP_IR_LOAD || node->kind == BP_IR_STORE || node->kind == BP_IR_ADDRESS)
    *result = narrow_access(n, node);
  else if (is_wide_comparison(n, node))
    *result = bp_ir_binary(module, node->kind, narrowed(n, node->operands[0]),
                           narrowed(n, node->operands[1]));
  else if (!is_wide(node) && is_wide_cast(n, node))
    *result = bp_ir_cast(module, node->dtype, narrowed(n, node->operands[0]));
  else if (is_wide(node) && fits(n, node) && (node->kind != BP_IR_VAR || narrow_var(n, node)))
    *result = bp_ir_cast(module, node->dtype, narrowed(n, node));
  else
    return 0;
  return *result ? 1 : -1;
}

const BpIrNode *bp__pass_narrow(BpIrModule *module, const BpIrNode *function) {
  Narrower narrower = {.rewriter = {.module = module, .enter = enter},
                       .index = {.module = module, .wraps = true}};
  const BpIrNode *result = bp__index_set_params(&narrower.index, function) == 0
                               ? bp__ir_rewrite(&narrower.rewriter, function)
                               : NULL;
  bp__ir_rewriter_clear(&narrower.rewriter);
  bp__index_clear(&narrower.index);
  bp__ir_map_clear(&narrower.vars);
  bp__ir_map_clear(&narrower.done);
  return result;
}
