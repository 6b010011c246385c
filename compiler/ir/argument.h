/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the arguments of public functions. */
#ifndef BACKPLANE_COMPILER_IR_ARGUMENT_H
#define BACKPLANE_COMPILER_IR_ARGUMENT_H

#include "core/checks/argument.h"

/* Whether an operand, which an earlier call made, is not NULL; 0 with an error if it is: the error
 * of the earlier call, if this thread has one. */
#define BP_OPERAND(argument) ((argument) ? 1 : bp__null_operand(#argument, __func__))

/* Whether an array of `count` elements can be read; 0 with an error if it cannot. */
#define BP_IS_LIST(list, count) bp__is_list(list, count, #list, __func__)

static inline int bp__null_operand(const char *argument, const char *function) {
  return *bp_error_kind() ? 0 : bp__null_argument(argument, function);
}

static inline int bp__is_list(const void *list, int32_t count, const char *name,
                              const char *function) {
  if (count < 0)
    bp_error_raise(BP_ERROR_VALUE, "%s: the argument '%s' has %d elements", function, name, count);
  return count == 0 || (count > 0 && (list || bp__null_argument(name, function)));
}

#endif
