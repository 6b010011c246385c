/* SPDX-License-Identifier: Apache-2.0 */
/* Checking required arguments of public functions. */
#ifndef BACKPLANE_CORE_REGISTRY_GIVEN_H
#define BACKPLANE_CORE_REGISTRY_GIVEN_H

#include <backplane/error.h>

/* Returns 1 if a pointer argument of a public function is not NULL; else 0, with an error. */
#define BP_GIVEN(argument) ((argument) ? 1 : bp__not_given(#argument, __func__))

static inline int bp__not_given(const char *argument, const char *function) {
  bp_error_raise(BP_ERROR_VALUE, "%s: the argument '%s' is NULL", function, argument);
  return 0;
}

#endif
