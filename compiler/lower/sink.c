/* SPDX-License-Identifier: Apache-2.0 */
/* Moves loops over rows of statements into the statements. Rows are independent, so a loop over
 * rows may run inside loops and branches that are the same for all rows: a scatter then copies and
 * updates runs of neighbouring rows instead of one vector of each row at a time. */

#include "compiler/lower/nest.h"

/* Wraps one part of the statements in the loop, with a variable of its own, and in the condition of
 * the row, if there is one. */
static const BpIrNode *wrap(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *condition,
                            const BpIrNode *part) {
  BpIrModule *module = lowering->module;
  const BpIrNode *var = bp_ir_var(module, loop->name, bp__dtype_int64());
  if (!var || bp__index_set_range(&lowering->index, var, loop->first, loop->first + loop->count - 1,
                                  false) != 0)
    return NULL;
  if (condition)
    part = bp_ir_if(module, condition, part, NULL);
  return bp_ir_for(module, var, bp__ir_int64(module, loop->first),
                   bp__ir_int64(module, loop->count), loop->for_kind, "",
                   part ? bp__ir_substitute_one(module, part, loop->var, var) : NULL);
}

/* ---- Buffers of a row -------------------------------------------------------------------- */

/* The maximum size of a buffer for all rows: a larger one would leave the first-level cache. */
#define MOST_BYTES 8192

typedef struct Widened {
  const BpIrNode *old, *wide;
  const BpIrNode *first; /* the first element of a row */
} Widened;

static const BpIrNode *rewrite_access(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Widened *w = rewriter->context;
  const BpIrNode *operands[4] = {w->wide};
  bool is_access =
      node->kind == BP_IR_LOAD || node->kind == BP_IR_STORE || node->kind == BP_IR_ADDRESS;
  if (!is_access || node->operands[0] != w->old)
    return node;
  memcpy(operands + 1, node->operands + 1, (size_t)(node->num_operands - 1) * sizeof *operands);
  operands[1] = bp_ir_binary(rewriter->module, BP_IR_ADD, w->first, operands[1]);
  return operands[1] ? bp__ir_with_operands(rewriter->module, node, operands) : NULL;
}

/* Gives a buffer of a row elements for each row of the loop: the buffer then stands outside of the
 * loop. Returns the ALLOCATE, which is the given one if the buffer would be large or its size is
 * open; NULL with an error. */
static const BpIrNode *widen(BpLowering *lowering, const BpRowLoop *loop,
                             const BpIrNode *allocate) {
  BpIrModule *module = lowering->module;
  const BpIrNode *old = allocate->operands[0], *row, *size;
  int64_t count = 1, extent;
  for (int32_t i = 0; i < old->num_operands; i++) {
    if (!bp__ir_const_int(old->operands[i], &extent) || extent > MOST_BYTES)
      return allocate;
    count *= extent;
    if (count * loop->count * old->dtype.bits > MOST_BYTES * 8)
      return allocate;
  }
  if (old->int_value != BP_IR_SCOPE_LOCAL || count == 0)
    return allocate;
  size = bp__ir_int64(module, count * loop->count);
  row = bp_ir_binary(module, BP_IR_SUB, loop->var, bp__ir_int64(module, loop->first));
  Widened w = {old, bp_ir_buffer(module, old->str_value, old->dtype, BP_IR_SCOPE_LOCAL, &size, 1),
               row ? bp_ir_binary(module, BP_IR_MUL, row, bp__ir_int64(module, count)) : NULL};
  if (!w.wide || !w.first)
    return NULL;
  BpIrRewriter rewriter = {.module = module, .context = &w, .leave = rewrite_access};
  const BpIrNode *body = bp__ir_rewrite(&rewriter, allocate->operands[1]);
  bp__ir_rewriter_clear(&rewriter);
  return body ? bp_ir_allocate(module, w.wide, body) : NULL;
}

/* ---- Statements -------------------------------------------------------------------------- */

/* The number of operands of a statement that must not depend on the row if the loop moves inside
 * it. */
static int32_t num_fixed(const BpIrNode *node) {
  bool is_serial = node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_SERIAL;
  return is_serial ? 3 : node->kind == BP_IR_LET ? 2 : node->kind == BP_IR_IF ? 1 : 0;
}

/* Returns 1 if the loop moves inside the statement, whose first operands are the same for all rows.
 * If rows have a condition, these operands must not read memory, which may be valid only where the
 * condition holds. */
static int goes_inside(const BpRowLoop *loop, const BpIrNode *condition, const BpIrNode *node) {
  int32_t count = num_fixed(node);
  int found = 0;
  for (int32_t i = 0; i < count && found == 0; i++) {
    found = bp__ir_uses(node->operands[i], loop->var);
    if (found == 0 && condition)
      found = bp__lower_has_data(node->operands[i]);
  }
  return found < 0 ? -1 : !found && (count > 0 || node->kind == BP_IR_SEQ);
}

/* Returns 1 if the statement is a branch that rows take by their number alone. */
static int is_condition(const BpIrNode *node) {
  int has_data =
      node->kind == BP_IR_IF && node->num_operands == 2 ? bp__lower_has_data(node->operands[0]) : 1;
  return has_data < 0 ? -1 : !has_data;
}

static const BpIrNode *sink(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *condition,
                            const BpIrNode *body);

static const BpIrNode *sink_parts(BpLowering *lowering, const BpRowLoop *loop,
                                  const BpIrNode *condition, const BpIrNode *body) {
  const BpIrNode **operands =
      bp__ir_alloc(lowering->module, (size_t)body->num_operands * sizeof *operands);
  for (int32_t i = 0; operands && i < body->num_operands; i++) {
    const BpIrNode *operand = body->operands[i];
    bool is_part = i >= num_fixed(body) && operand;
    operands[i] = is_part ? sink(lowering, loop, condition, operand) : operand;
    if (is_part && !operands[i])
      return NULL;
  }
  return operands ? bp__ir_with_operands(lowering->module, body, operands) : NULL;
}

static const BpIrNode *sink(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *condition,
                            const BpIrNode *body) {
  int inside = body ? goes_inside(loop, condition, body) : -1;
  if (inside != 0)
    return inside < 0 ? NULL : sink_parts(lowering, loop, condition, body);
  int is_branch = is_condition(body);
  if (is_branch != 0) {
    condition = condition ? bp_ir_binary(lowering->module, BP_IR_AND, condition, body->operands[0])
                          : body->operands[0];
    return is_branch < 0 || !condition ? NULL : sink(lowering, loop, condition, body->operands[1]);
  }
  if (body->kind != BP_IR_ALLOCATE)
    return wrap(lowering, loop, condition, body);
  const BpIrNode *wide = widen(lowering, loop, body);
  if (!wide || wide == body)
    return wide ? wrap(lowering, loop, condition, body) : NULL;
  const BpIrNode *inner = sink(lowering, loop, condition, wide->operands[1]);
  return inner ? bp_ir_allocate(lowering->module, wide->operands[0], inner) : NULL;
}

const BpIrNode *bp__lower_sink(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *body) {
  return sink(lowering, loop, NULL, body);
}
