/* SPDX-License-Identifier: Apache-2.0 */
/* Names for shared expressions.
 *
 * Expressions are graphs; code that writes or evaluates them as trees would repeat shared parts, in
 * the worst case exponentially often. Each expression that one statement uses more than once
 * becomes the value of a LET around the statement. Expressions whose form affects code generation
 * stay in place: ramps, broadcasts, and comparisons of vectors, which are masks. */

#include <stdlib.h>

#include "compiler/lower/passes.h"

/* The shared expressions of one statement. */
typedef struct Uses {
  BpIrMap counts;         /* node -> number of uses as an operand, stored as a pointer */
  BpIrMap effects;        /* nodes that contain an extern or packed call */
  const BpIrNode **order; /* distinct nodes, operands first */
  size_t size, capacity;
} Uses;

static int count_use(Uses *uses, const BpIrNode *node);

static int append(Uses *uses, const BpIrNode *node) {
  if (uses->size == uses->capacity) {
    size_t capacity = uses->capacity ? uses->capacity * 2 : 64;
    const BpIrNode **order = realloc(uses->order, capacity * sizeof *order);
    if (!order)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu expressions", capacity);
    uses->order = order;
    uses->capacity = capacity;
  }
  uses->order[uses->size++] = node;
  return 0;
}

static bool is_effect(const BpIrNode *node) {
  return node->kind == BP_IR_CALL && node->int_value != BP_IR_CALL_INTRINSIC;
}

static int count_operands(Uses *uses, const BpIrNode *node) {
  bool has_effect = is_effect(node);
  for (int32_t i = 0; i < node->num_operands; i++) {
    if (count_use(uses, node->operands[i]))
      return -1;
    has_effect |= bp__ir_map_get(&uses->effects, node->operands[i]) != NULL;
  }
  if (has_effect && bp__ir_map_set(&uses->effects, node, node))
    return -1;
  return append(uses, node);
}

static int count_use(Uses *uses, const BpIrNode *node) {
  if (node->num_operands == 0 || node->kind == BP_IR_BUFFER)
    return 0;
  uintptr_t count = (uintptr_t)bp__ir_map_get(&uses->counts, node);
  if (bp__ir_map_set(&uses->counts, node, (const void *)(count + 1)))
    return -1;
  return count ? 0 : count_operands(uses, node);
}

static bool is_worth_a_name(const Uses *uses, const BpIrNode *node) {
  bool is_short_index = bp__dtype_is_int(node->dtype) && node->dtype.lanes == 1 &&
                        node->depth <= BP_SHORT_INDEX_DEPTH && node->kind != BP_IR_LOAD;
  bool is_mask = node->kind >= BP_IR_EQ && node->kind <= BP_IR_GE && node->dtype.lanes > 1;
  return (uintptr_t)bp__ir_map_get(&uses->counts, node) > 1 && !is_short_index && !is_mask &&
         node->kind != BP_IR_RAMP && node->kind != BP_IR_BROADCAST && node->kind != BP_IR_ADDRESS &&
         !bp__dtype_is_void(node->dtype) && !bp__ir_map_get(&uses->effects, node);
}

static void uses_clear(Uses *uses) {
  bp__ir_map_clear(&uses->counts);
  bp__ir_map_clear(&uses->effects);
  free(uses->order);
}

/* ---- Statements -------------------------------------------------------------------------- */

/* The operands of a statement that are expressions: from *first up to *end. */
static void expressions_of(const BpIrNode *node, int32_t *first, int32_t *end) {
  *first = *end = 0;
  switch (node->kind) {
  case BP_IR_STORE:
    *first = 1;
    *end = node->num_operands;
    break;
  case BP_IR_FOR:
    *first = 1;
    *end = 3;
    break;
  case BP_IR_LET:
    *first = 1;
    *end = 2;
    break;
  case BP_IR_IF:
  case BP_IR_ASSERT:
  case BP_IR_EVALUATE:
    *end = 1;
    break;
  default:
    break;
  }
}

/* Counts the shared expressions and names them in the expression rewriter. */
static int name_expressions(BpIrRewriter *expressions, Uses *uses, const BpIrNode **vars,
                            const BpIrNode **values, size_t *count) {
  for (size_t i = 0; i < uses->size; i++) {
    const BpIrNode *node = uses->order[i];
    if (!is_worth_a_name(uses, node))
      continue;
    const BpIrNode *value = bp__ir_rewrite(expressions, node);
    const BpIrNode *var = value ? bp_ir_var(expressions->module, "t", node->dtype) : NULL;
    if (!var || bp__ir_map_set(&expressions->done, node, var))
      return -1;
    vars[*count] = var;
    values[(*count)++] = value;
  }
  return 0;
}

/* The statement with its named expressions and rewritten bodies, inside the LETs of the names. */
static const BpIrNode *rebuild(BpIrRewriter *statements, BpIrRewriter *expressions, Uses *uses,
                               const BpIrNode *node, int32_t first, int32_t end) {
  BpIrModule *module = statements->module;
  const BpIrNode **vars = bp__ir_alloc(module, 2 * uses->size * sizeof *vars);
  const BpIrNode *operands[4];
  size_t count = 0;
  if (!vars || name_expressions(expressions, uses, vars, vars + uses->size, &count))
    return NULL;
  for (int32_t i = 0; i < node->num_operands; i++) {
    bool is_statement = bp__ir_is_statement(node->operands[i]);
    if (i >= first && i < end)
      operands[i] = bp__ir_rewrite(expressions, node->operands[i]);
    else
      operands[i] =
          is_statement ? bp__ir_rewrite(statements, node->operands[i]) : node->operands[i];
  }
  const BpIrNode *result = bp__ir_with_operands(module, node, operands);
  while (result && count-- > 0)
    result = bp_ir_let(module, vars[count], vars[uses->size + count], result);
  return result;
}

static int enter(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  int32_t first, end;
  expressions_of(node, &first, &end);
  if (first == end) {
    *result = node;
    return node->kind < BP_IR_SEQ || node->kind == BP_IR_BUFFER;
  }
  Uses uses = {0};
  BpIrRewriter expressions = {.module = rewriter->module, .enter = bp__ir_skip_buffer};
  *result = NULL;
  int rc = 0;
  for (int32_t i = first; i < end && !rc; i++)
    rc = count_use(&uses, node->operands[i]);
  if (!rc)
    *result = rebuild(rewriter, &expressions, &uses, node, first, end);
  uses_clear(&uses);
  bp__ir_rewriter_clear(&expressions);
  return *result ? 1 : -1;
}

const BpIrNode *bp__pass_name_shared(BpIrModule *module, const BpIrNode *function) {
  BpIrRewriter rewriter = {.module = module, .enter = enter};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
