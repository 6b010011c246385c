/* SPDX-License-Identifier: Apache-2.0 */
/* Moves loops over rows of statements into the statements. Rows are independent, so a loop over
 * rows may run inside loops and branches that are the same for all rows: a scatter then copies and
 * updates runs of neighbouring rows instead of one vector of each row at a time. */

#include "compiler/lower/nest.h"

/* Wraps one part of the statements in the loop, with a variable of its own. */
static const BpIrNode *wrap(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *part) {
  BpIrModule *module = lowering->module;
  const BpIrNode *var = bp_ir_var(module, loop->name, bp__dtype_int64());
  if (!var || bp__index_set_range(&lowering->index, var, loop->first, loop->first + loop->count - 1,
                                  false) != 0)
    return NULL;
  return bp_ir_for(module, var, bp__ir_int64(module, loop->first),
                   bp__ir_int64(module, loop->count), loop->for_kind, "",
                   bp__ir_substitute_one(module, part, loop->var, var));
}

/* The number of operands of a statement that must not depend on the row if the loop moves inside
 * it. */
static int32_t num_fixed(const BpIrNode *node) {
  bool is_serial = node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_SERIAL;
  return is_serial ? 3 : node->kind == BP_IR_LET ? 2 : node->kind == BP_IR_IF ? 1 : 0;
}

/* Returns 1 if the loop moves inside the statement, whose first operands are the same for all
 * rows. */
static int goes_inside(const BpRowLoop *loop, const BpIrNode *node) {
  int32_t count = num_fixed(node);
  int uses = 0;
  for (int32_t i = 0; i < count && uses == 0; i++)
    uses = bp__ir_uses(node->operands[i], loop->var);
  return uses < 0 ? -1 : !uses && (count > 0 || node->kind == BP_IR_SEQ);
}

const BpIrNode *bp__lower_sink(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *body) {
  int inside = body ? goes_inside(loop, body) : -1;
  if (inside <= 0)
    return inside < 0 ? NULL : wrap(lowering, loop, body);
  const BpIrNode **operands =
      bp__ir_alloc(lowering->module, (size_t)body->num_operands * sizeof *operands);
  for (int32_t i = 0; operands && i < body->num_operands; i++) {
    const BpIrNode *operand = body->operands[i];
    bool is_part = i >= num_fixed(body) && operand;
    operands[i] = is_part ? bp__lower_sink(lowering, loop, operand) : operand;
    if (is_part && !operands[i])
      return NULL;
  }
  return operands ? bp__ir_with_operands(lowering->module, body, operands) : NULL;
}
