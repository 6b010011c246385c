/* SPDX-License-Identifier: Apache-2.0 */
/* Masked loads of lanes that are not neighbours. Processors and compilers load each lane by itself,
 * and a condition for each lane costs as much as the load. The pass makes lanes outside of the mask
 * load element 0, and then replaces their values by 0. */

#include "compiler/lower/passes.h"

/* Whether a buffer certainly has an element. */
static bool has_element(const BpIrNode *buffer) {
  for (int32_t i = 0; i < buffer->num_operands; i++) {
    int64_t extent;
    if (!bp__ir_const_int(buffer->operands[i], &extent) || extent < 1)
      return false;
  }
  return true;
}

static const BpIrNode *leave(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpIrModule *module = rewriter->module;
  if (node->kind != BP_IR_LOAD || node->num_operands < 3)
    return node;
  const BpIrNode *buffer = node->operands[0], *index = node->operands[1], *mask = node->operands[2];
  if (index->dtype.lanes == 1 || index->kind == BP_IR_RAMP || !has_element(buffer))
    return node;
  const BpIrNode *first = bp_ir_int(module, index->dtype, 0);
  const BpIrNode *load = bp_ir_load(module, buffer, bp_ir_select(module, mask, index, first), NULL);
  const BpIrNode *zero = bp__dtype_is_float(node->dtype) ? bp_ir_float(module, node->dtype, 0)
                                                         : bp_ir_int(module, node->dtype, 0);
  return bp_ir_select(module, mask, load, zero);
}

const BpIrNode *bp__pass_gather(BpIrModule *module, const BpIrNode *function) {
  BpIrRewriter rewriter = {.module = module, .leave = leave};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
