/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the loop iterations of a thread: some drivers end a thread's loops without an error after
 * a number of iterations, which gives wrong results. */

#include "compiler/lower/passes.h"

/* Iterations of the loops in a statement; a WHILE, and a loop whose extent is an argument, count as
 * one iteration. */
static double iterations_of(const BpIrNode *node) {
  double inside = 0;
  int64_t extent = 1;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (bp__ir_is_statement(node->operands[i]))
      inside += iterations_of(node->operands[i]);
  if (node->kind == BP_IR_WHILE)
    return 1 + inside;
  if (node->kind != BP_IR_FOR || node->int_value == BP_IR_FOR_BOUND)
    return inside;
  bp__ir_const_int(node->operands[2], &extent);
  return (double)extent * (1 + inside);
}

int bp__check_iterations(const BpIrNode *function, const BpTarget *target) {
  double most = (double)bp_target_get_int(target, BP_TARGET_MAX_ITERATIONS, 0);
  double count = most > 0 ? iterations_of(function->operands[function->num_operands - 1]) : 0;
  if (count <= most)
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "kernel '%s': the loops of a thread have %.0f iterations, and the device "
                        "ends them after %.0f (attribute max_iterations)",
                        function->str_value, count, most);
}
