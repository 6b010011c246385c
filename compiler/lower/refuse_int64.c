/* SPDX-License-Identifier: Apache-2.0 */
/* Rejects the 64-bit integers that `narrow` leaves, for a target without them: int64 and uint64
 * values of the program, and indices that may not fit in int32. So a generator sees 64-bit integers
 * only as the number in an attribute, in an extent of a buffer, and in a shuffle. */

#include "compiler/lower/passes.h"

static bool is_long(const BpIrNode *node) {
  return bp__dtype_is_int(node->dtype) && node->dtype.bits == 64;
}

static int refuse(const BpIrNode *function, const BpIrNode *node, const char *why) {
  char text[120];
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "IR function '%s': the target has no 64-bit integers "
                        "(supports_int64=false), and %s: %s",
                        function->str_value, why, bp__ir_print_short(node, text, sizeof text));
}

/* A constant alone is not rejected: the node that uses it is int64 itself, or an access. */
static int32_t enter(void *context, const BpIrNode *node) {
  const BpIrNode *function = context;
  const BpIrNode *const *x = node->operands;
  if (node->kind == BP_IR_ATTR)
    return 1;
  if (node->kind == BP_IR_BUFFER)
    return is_long(node) ? refuse(function, node, "a buffer holds them") : 1;
  if ((node->kind == BP_IR_LOAD || node->kind == BP_IR_STORE || node->kind == BP_IR_ADDRESS) &&
      is_long(x[1]))
    return refuse(function, x[1], "an index is not known to fit 32 bits");
  if (node->kind == BP_IR_FOR && is_long(x[0]))
    return refuse(function, x[2], "the end of a loop is not known to fit 32 bits");
  if (is_long(node) && node->kind != BP_IR_INT_IMM)
    return refuse(function, node, "a value is not known to fit 32 bits");
  return 0;
}

const BpIrNode *bp__pass_refuse_int64(BpIrModule *module, const BpIrNode *function) {
  (void)module;
  const BpIrVisitor visitor = {sizeof visitor, (void *)(uintptr_t)function, enter, NULL};
  return bp_ir_table()->visit(function, &visitor) == 0 ? function : NULL;
}
