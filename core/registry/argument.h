/* SPDX-License-Identifier: Apache-2.0 */
/* Checking arguments of public functions: required pointers, and structures that begin with
 * `struct_size`. */
#ifndef BACKPLANE_CORE_REGISTRY_ARGUMENT_H
#define BACKPLANE_CORE_REGISTRY_ARGUMENT_H

#include "core/system/shared.h"

#include <backplane/error.h>
#include <stddef.h>

/* Returns 1 if a pointer argument of a public function is not NULL; else 0, with an error. */
#define BP_NOT_NULL(argument) ((argument) ? 1 : bp__null_argument(#argument, __func__))

static inline int bp__null_argument(const char *argument, const char *function) {
  bp_error_raise(BP_ERROR_VALUE, "%s: the argument '%s' is NULL", function, argument);
  return 0;
}

/* Copies a structure from an application to `own`, of `own_size` bytes. Members that an older
 * structure lacks are 0. A newer structure is accepted if all members unknown to this version are
 * 0, so that no member is ignored. `least` is the size of the structure's first version. -1 with an
 * error that names `type`. */
BP__SHARED int bp__sized_read(void *own, size_t own_size, size_t least, const void *given,
                              const char *type);

#endif
