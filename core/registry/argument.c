/* SPDX-License-Identifier: Apache-2.0 */
/* Structures that begin with `struct_size`. */
#include "core/registry/argument.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include <backplane/error.h>

/* No structure of any version is longer; a larger size means that struct_size was not set. */
#define MOST_BYTES 4096

int bp__sized_read(void *own, size_t own_size, size_t least, const void *given, const char *type) {
  uint64_t size;
  memcpy(&size, given, sizeof size);
  if (size < least || size > MOST_BYTES)
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s::struct_size is %" PRIu64 "; set it to sizeof(%s), here %zu", type,
                          size, type, own_size);
  for (size_t at = own_size; at < size; at++)
    if (((const char *)given)[at])
      return bp_error_raise(BP_ERROR_VALUE,
                            "%s of %" PRIu64 " bytes has a member set at byte %zu, which this "
                            "version of Backplane does not know: it knows %zu bytes; leave the "
                            "member 0 or install a newer version",
                            type, size, at, own_size);
  memset(own, 0, own_size);
  memcpy(own, given, size < own_size ? size : own_size);
  memcpy(own, &(uint64_t){own_size}, sizeof(uint64_t));
  return 0;
}
