/* SPDX-License-Identifier: Apache-2.0 */
/* Simplification by the ranges of loop variables.
 *
 * Each scope is visited once: the range of a loop's variable is recorded when the loop begins, and
 * then the loop's body is rewritten. */

#include "compiler/lower/linear.h"
#include "compiler/lower/lowering.h"
#include "compiler/lower/passes.h"

typedef struct Simplifier {
  BpIrRewriter rewriter; /* first member, because callbacks cast the rewriter to a Simplifier */
  BpIndexContext index;
} Simplifier;

/* ---- Names ------------------------------------------------------------------------------- */

static int forget(BpIrRewriter *rewriter) {
  bp__ir_map_clear(&rewriter->done);
  return 0;
}

/* Whether the variable has the range already. Results that were found while it had another range
 * are invalid. */
static bool has_range(Simplifier *simplifier, const BpIrNode *var, BpRange range) {
  const BpVarRange *known = bp__ir_map_get(&simplifier->index.vars, var);
  if (known && known->range.min == range.min && known->range.max == range.max)
    return true;
  if (known)
    forget(&simplifier->rewriter);
  return false;
}

static int set_range(Simplifier *simplifier, const BpIrNode *var, BpRange range) {
  return has_range(simplifier, var, range)
             ? 0
             : bp__index_set_range(&simplifier->index, var, range.min, range.max, false);
}

static int set_name(Simplifier *simplifier, const BpIrNode *var, const BpIrNode *value) {
  bool is_known = bp__ir_map_get(&simplifier->index.vars, var) != NULL;
  int status = bp__index_set_name(&simplifier->index, var, value);
  if (status > 0 && is_known)
    forget(&simplifier->rewriter);
  return status < 0 ? -1 : 0;
}

static bool is_index(const BpIrNode *node) {
  return node->dtype.code == BP_DTYPE_INT && node->dtype.bits == 64 && node->dtype.lanes == 1;
}

/* ---- Indices ----------------------------------------------------------------------------- */

/* Returns the original node if the canonical form is no better, so that shared nodes stay
 * shared. */
static const BpIrNode *simplify_index(Simplifier *simplifier, const BpIrNode *node) {
  if (node->kind == BP_IR_RAMP) {
    const BpIrNode *operands[] = {simplify_index(simplifier, node->operands[0]), node->operands[1]};
    return bp__ir_with_operands(simplifier->rewriter.module, node, operands);
  }
  if (!is_index(node) || node->num_operands == 0)
    return node;
  const BpIrNode *simple = bp__index_simplify(&simplifier->index, node);
  return simple && bp__ir_equal(simple, node) ? node : simple;
}

static const BpIrNode *with_operand(Simplifier *simplifier, const BpIrNode *node, int32_t position,
                                    const BpIrNode *operand) {
  const BpIrNode *operands[4];
  for (int32_t i = 0; i < node->num_operands; i++)
    operands[i] = i == position ? operand : node->operands[i];
  return bp__ir_with_operands(simplifier->rewriter.module, node, operands);
}

/* ---- Conditions -------------------------------------------------------------------------- */

/* Lane `lane` of a RAMP or BROADCAST; NULL for other nodes. */
static const BpIrNode *lane_of(BpIrModule *module, const BpIrNode *vector, int64_t lane) {
  if (vector->kind == BP_IR_BROADCAST)
    return vector->operands[0];
  if (vector->kind != BP_IR_RAMP)
    return NULL;
  BpDataType dtype = vector->operands[0]->dtype;
  return bp_ir_binary(
      module, BP_IR_ADD, vector->operands[0],
      bp_ir_binary(module, BP_IR_MUL, vector->operands[1], bp_ir_int(module, dtype, lane)));
}

/* Decides a comparison of ramps: it is true in all lanes if it is true in the first and the
 * last. */
static int decide_lanes(Simplifier *simplifier, const BpIrNode *node) {
  BpIrModule *module = simplifier->rewriter.module;
  int64_t last = node->dtype.lanes - 1;
  int found = -1;
  for (int64_t lane = 0; lane <= last; lane += last) {
    const BpIrNode *a = lane_of(module, node->operands[0], lane);
    const BpIrNode *b = lane_of(module, node->operands[1], lane);
    const BpIrNode *one = a && b ? bp__ir_node2(module, node->kind, bp__dtype_bool(1), a, b) : NULL;
    int known = one ? bp__index_decide(&simplifier->index, one) : -1;
    if (known < 0 || (lane && known != found))
      return -1;
    found = known;
  }
  return found;
}

static const BpIrNode *simplify_condition(Simplifier *simplifier, const BpIrNode *node) {
  int known = -1;
  if (node->num_operands == 0)
    return node;
  if (node->kind >= BP_IR_EQ && node->kind <= BP_IR_GE) {
    const BpIrNode *operands[] = {simplify_index(simplifier, node->operands[0]),
                                  simplify_index(simplifier, node->operands[1])};
    node = bp__ir_with_operands(simplifier->rewriter.module, node, operands);
    if (!node || node->num_operands == 0)
      return node;
  }
  if (node->dtype.lanes == 1)
    known = bp__index_decide(&simplifier->index, node);
  else if (node->kind >= BP_IR_LT && node->kind <= BP_IR_GE)
    known = decide_lanes(simplifier, node);
  return known < 0 ? node : bp_ir_int(simplifier->rewriter.module, node->dtype, known);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static const BpIrNode *simplify_access(Simplifier *simplifier, const BpIrNode *node) {
  BpIrModule *module = simplifier->rewriter.module;
  node = with_operand(simplifier, node, 1, simplify_index(simplifier, node->operands[1]));
  int32_t mask = node && node->kind == BP_IR_STORE ? 3 : 2;
  int64_t known;
  if (!node || node->num_operands <= mask || !bp__ir_const_int(node->operands[mask], &known))
    return node;
  if (node->kind == BP_IR_STORE)
    return known
               ? bp_ir_store(module, node->operands[0], node->operands[1], node->operands[2], NULL)
               : bp__ir_nothing(module);
  return known ? bp_ir_load(module, node->operands[0], node->operands[1], NULL)
               : bp__ir_number(module, node->dtype, 0);
}

/* ---- Walking ----------------------------------------------------------------------------- */

/* The only iteration of a loop. A start that is data is read once, before the body changes it. */
static const BpIrNode *simplify_one(BpIrRewriter *rewriter, const BpIrNode *var,
                                    const BpIrNode *start, const BpIrNode *body) {
  int is_data = bp__lower_has_data(start);
  if (is_data < 0)
    return NULL;
  return bp__ir_rewrite(rewriter, is_data
                                      ? bp_ir_let(rewriter->module, var, start, body)
                                      : bp__ir_substitute_one(rewriter->module, body, var, start));
}

static const BpIrNode *simplify_for(Simplifier *simplifier, const BpIrNode *node) {
  BpIrRewriter *rewriter = &simplifier->rewriter;
  const BpIrNode *var = node->operands[0], *body = node->operands[3];
  const BpIrNode *min = bp__ir_rewrite(rewriter, node->operands[1]);
  const BpIrNode *extent = min ? bp__ir_rewrite(rewriter, node->operands[2]) : NULL;
  if (!extent || !(min = simplify_index(simplifier, min)) ||
      !(extent = simplify_index(simplifier, extent)))
    return NULL;
  bool is_bound = node->int_value == BP_IR_FOR_BOUND;
  if (!is_bound && bp__ir_is_int_value(extent, 1))
    return simplify_one(rewriter, var, min, body);
  if (is_index(var)) {
    BpRange start = bp__index_range(&simplifier->index, min);
    BpRange count = bp__index_range(&simplifier->index, extent);
    if (count.max <= 0 && !is_bound)
      return bp__ir_nothing(rewriter->module);
    int64_t last = count.max == BP__RANGE_MAX || start.max == BP__RANGE_MAX ||
                           start.max > BP__RANGE_MAX - count.max
                       ? BP__RANGE_MAX
                       : start.max + count.max - 1;
    if (set_range(simplifier, var, (BpRange){start.min, last}))
      return NULL;
  }
  const BpIrNode *operands[] = {var, min, extent, bp__ir_rewrite(rewriter, body)};
  return bp__ir_with_operands(rewriter->module, node, operands);
}

static const BpIrNode *simplify_let(Simplifier *simplifier, const BpIrNode *node) {
  BpIrRewriter *rewriter = &simplifier->rewriter;
  const BpIrNode *var = node->operands[0];
  const BpIrNode *value = bp__ir_rewrite(rewriter, node->operands[1]);
  if (!value || !(value = simplify_index(simplifier, value)))
    return NULL;
  if (value->kind == BP_IR_INT_IMM || value->kind == BP_IR_FLOAT_IMM || value->kind == BP_IR_VAR)
    return bp__ir_rewrite(rewriter,
                          bp__ir_substitute_one(rewriter->module, node->operands[2], var, value));
  if (is_index(var) && set_name(simplifier, var, value))
    return NULL;
  const BpIrNode *operands[] = {var, value, bp__ir_rewrite(rewriter, node->operands[2])};
  return bp__ir_with_operands(rewriter->module, node, operands);
}

/* Simplifies an IF; branches that cannot be reached are not visited. */
static const BpIrNode *simplify_if(Simplifier *simplifier, const BpIrNode *node) {
  BpIrRewriter *rewriter = &simplifier->rewriter;
  const BpIrNode *condition = bp__ir_rewrite(rewriter, node->operands[0]);
  const BpIrNode *otherwise = node->num_operands > 2 ? node->operands[2] : NULL;
  int64_t known;
  if (!condition)
    return NULL;
  if (bp__ir_const_int(condition, &known)) {
    const BpIrNode *taken = known ? node->operands[1] : otherwise;
    return taken ? bp__ir_rewrite(rewriter, taken) : bp__ir_nothing(rewriter->module);
  }
  const BpIrNode *then_body = bp__ir_rewrite(rewriter, node->operands[1]);
  const BpIrNode *else_body = otherwise ? bp__ir_rewrite(rewriter, otherwise) : NULL;
  if (otherwise && !else_body)
    return NULL;
  if (then_body && bp__ir_is_nothing(then_body) && (!else_body || bp__ir_is_nothing(else_body)))
    return bp__ir_nothing(rewriter->module);
  const BpIrNode *operands[] = {condition, then_body, else_body};
  return bp__ir_with_operands(rewriter->module, node, operands);
}

static int enter(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  Simplifier *simplifier = (Simplifier *)rewriter;
  switch (node->kind) {
  case BP_IR_FOR:
    *result = simplify_for(simplifier, node);
    break;
  case BP_IR_LET:
    *result = simplify_let(simplifier, node);
    break;
  case BP_IR_IF:
    *result = simplify_if(simplifier, node);
    break;
  case BP_IR_BUFFER: /* a buffer has identity and is not replaced */
    *result = node;
    break;
  default:
    return 0;
  }
  return *result ? 1 : -1;
}

static const BpIrNode *leave(BpIrRewriter *rewriter, const BpIrNode *node) {
  Simplifier *simplifier = (Simplifier *)rewriter;
  if (node->kind == BP_IR_LOAD || node->kind == BP_IR_STORE || node->kind == BP_IR_ADDRESS)
    return simplify_access(simplifier, node);
  if (bp__dtype_is_bool(node->dtype) && node->kind < BP_IR_SEQ)
    return simplify_condition(simplifier, node);
  return node;
}

const BpIrNode *bp__pass_simplify(BpIrModule *module, const BpIrNode *function) {
  Simplifier simplifier = {.rewriter = {.module = module, .enter = enter, .leave = leave},
                           .index = {.module = module}};
  const BpIrNode *result = bp__index_set_params(&simplifier.index, function) == 0
                               ? bp__ir_rewrite(&simplifier.rewriter, function)
                               : NULL;
  bp__ir_rewriter_clear(&simplifier.rewriter);
  bp__index_clear(&simplifier.index);
  return result;
}
