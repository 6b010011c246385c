/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies with float16 and bfloat16: arithmetic is done in float32, and the result of a body is
 * rounded once. Machines without float16 and bfloat16 convert values only at loads and stores. */

#include "compiler/te/te_private.h"

/* The rewriter's context: a narrowed node -> the float32 node that it rounds. */
typedef struct Widening {
  BpIrMap wide;
} Widening;

static const BpIrNode *widened(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Widening *widening = rewriter->context;
  const BpIrNode *wide = bp__ir_map_get(&widening->wide, node);
  if (wide || !bp__dtype_is_half(node->dtype))
    return wide ? wide : node;
  return bp_ir_cast(rewriter->module, bp_te_accumulator(node->dtype), node);
}

static const BpIrNode *narrowed(BpIrRewriter *rewriter, BpDataType dtype, const BpIrNode *wide) {
  Widening *widening = rewriter->context;
  const BpIrNode *node = bp_ir_cast(rewriter->module, dtype, wide);
  return node && bp__ir_map_set(&widening->wide, node, wide) == 0 ? node : NULL;
}

/* A call of the same intrinsic with other operands. */
static const BpIrNode *remake_call(BpIrRewriter *rewriter, const BpIrNode *node) {
  const BpIrNode *args[8];
  if (node->num_operands > (int32_t)(sizeof args / sizeof *args))
    return node;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!(args[i] = widened(rewriter, node->operands[i])))
      return NULL;
  return bp_ir_call(rewriter->module, bp_te_accumulator(node->dtype), BP_IR_CALL_INTRINSIC,
                    node->str_value, args, node->num_operands);
}

static const BpIrNode *remake(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpIrModule *module = rewriter->module;
  const BpIrNode *const *operands = node->operands;
  if (node->kind == BP_IR_CALL)
    return remake_call(rewriter, node);
  if (node->kind == BP_IR_SELECT)
    return bp__ir_select_like(module, node, operands[0], widened(rewriter, operands[1]),
                              widened(rewriter, operands[2]));
  return bp_ir_binary(module, node->kind, widened(rewriter, operands[0]),
                      widened(rewriter, operands[1]));
}

/* Whether the node computes with float16 or bfloat16; a select among halves does not compute. */
static bool computes_with_halves(const Widening *widening, const BpIrNode *node) {
  if (node->kind == BP_IR_SELECT)
    return bp__ir_map_get(&widening->wide, node->operands[1]) ||
           bp__ir_map_get(&widening->wide, node->operands[2]);
  if (node->kind == BP_IR_CALL &&
      (node->int_value != BP_IR_CALL_INTRINSIC || bp__te_is_read(node) ||
       strcmp(node->str_value, BP__TE_WRITE) == 0 || strcmp(node->str_value, BP__TE_TUPLE) == 0))
    return false;
  bool computes = node->kind == BP_IR_CALL || (node->kind >= BP_IR_ADD && node->kind <= BP_IR_SHR);
  return computes && node->num_operands > 0 && bp__dtype_is_half(node->operands[0]->dtype);
}

static const BpIrNode *leave(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Widening *widening = rewriter->context;
  if (node->kind == BP_IR_CAST)
    return bp_ir_cast(rewriter->module, node->dtype, widened(rewriter, node->operands[0]));
  if (!computes_with_halves(widening, node))
    return node;
  const BpIrNode *wide = remake(rewriter, node);
  return wide && bp__dtype_is_half(node->dtype) ? narrowed(rewriter, node->dtype, wide) : wide;
}

const BpIrNode *bp__te_widen(BpIrModule *module, const BpIrNode *body) {
  Widening widening = {.wide = {0}};
  BpIrRewriter rewriter = {.module = module, .context = &widening, .leave = leave};
  const BpIrNode *result = body ? bp__ir_rewrite(&rewriter, body) : NULL;
  bp__ir_rewriter_clear(&rewriter);
  bp__ir_map_clear(&widening.wide);
  return result;
}
