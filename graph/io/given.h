/* SPDX-License-Identifier: Apache-2.0 */
/* What public functions cannot do without. It repeats core/registry/given.h, for libraries see of
 * one another only what is public. */
#ifndef BACKPLANE_GRAPH_IO_GIVEN_H
#define BACKPLANE_GRAPH_IO_GIVEN_H

#include <backplane/error.h>

/* Whether a pointer that a public function was given is not NULL: 1; or 0, with an error. */
#define BP_GIVEN(argument) ((argument) ? 1 : bp__not_given(#argument, __func__))

static inline int bp__not_given(const char *argument, const char *function) {
  bp_error_raise(BP_ERROR_VALUE, "%s: the argument '%s' is NULL", function, argument);
  return 0;
}

#endif
