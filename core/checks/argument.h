/* SPDX-License-Identifier: Apache-2.0 */
/* The check of pointers that public functions get. All libraries include this header, which needs
 * public functions alone. */
#ifndef BACKPLANE_CORE_CHECKS_ARGUMENT_H
#define BACKPLANE_CORE_CHECKS_ARGUMENT_H

#include <backplane/error.h>

/* Returns 1 if a pointer argument of a public function is not NULL; else 0, with an error. */
#define BP_NOT_NULL(argument) ((argument) ? 1 : bp__null_argument(#argument, __func__))

static inline int bp__null_argument(const char *argument, const char *function) {
  bp_error_raise(BP_ERROR_VALUE, "%s: the argument '%s' is NULL", function, argument);
  return 0;
}

#endif
