/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned host memory; exhausted memory is an error, not an abort. */
#include "core/device/device.h"

#include <inttypes.h>
#include <stdlib.h>

#include <backplane/error.h>

void *bp__host_alloc(uint64_t size, uint64_t alignment) {
  void *data = NULL;
  if (alignment < sizeof(void *))
    alignment = sizeof(void *);
  if ((alignment & (alignment - 1)) != 0) {
    bp_error_raise(BP_ERROR_VALUE, "an alignment of %" PRIu64 " bytes is no power of two",
                   alignment);
    return NULL;
  }
  if (size > PTRDIFF_MAX || posix_memalign(&data, alignment, size ? size : 1) != 0) {
    bp_error_raise(BP_ERROR_MEMORY, "no host memory for %" PRIu64 " bytes", size);
    return NULL;
  }
  return data;
}

void bp__host_free(void *data) {
  free(data);
}
