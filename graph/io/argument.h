/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the arguments of public functions. */
#ifndef BACKPLANE_GRAPH_IO_ARGUMENT_H
#define BACKPLANE_GRAPH_IO_ARGUMENT_H

#include <inttypes.h>
#include <stddef.h>

#include "core/checks/argument.h"

/* The maximum of struct_size in any version of a structure; a larger size was not set by the
 * caller. */
#define BP_MAX_STRUCT_SIZE 4096

/* Checks a structure `given` that begins with its size: fails with -1 if the size is less than
 * `least`, the size of the first version, or was not set; and if a member is set that this version,
 * of `known` bytes, does not have. The error names `type`. */
static inline int bp__check_sized(const char *type, const void *given, size_t least, size_t known) {
  uint64_t size = *(const uint64_t *)given;
  if (size < least || size > BP_MAX_STRUCT_SIZE)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s::struct_size is %" PRIu64 "; set it to sizeof(%s), here %zu", type,
                          size, type, known);
  for (uint64_t at = known; at < size; at++)
    if (((const char *)given)[at])
      return bp_error_raise(BP_ERROR_VALUE,
                            "%s of %" PRIu64 " bytes has a member set at byte %" PRIu64
                            ", which this version of Backplane does not know: it knows %zu bytes; "
                            "leave the member 0 or install a newer version",
                            type, size, at, known);
  return 0;
}

#endif
