/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned host memory; exhausted memory is an error, not an abort. */
#include "core/device/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <backplane/error.h>

/* The huge page of most processors; a multiple of the page size of the others. */
#define HUGE_PAGE (UINT64_C(2) << 20)

void *bp__host_alloc(uint64_t size, uint64_t alignment) {
  void *data = NULL;
  if (alignment < sizeof(void *))
    alignment = sizeof(void *);
  if ((alignment & (alignment - 1)) != 0) {
    bp_error_raise(BP_ERROR_VALUE, "an alignment of %" PRIu64 " bytes is no power of two",
                   alignment);
    return NULL;
  }
  if (size >= HUGE_PAGE && alignment < HUGE_PAGE)
    alignment = HUGE_PAGE;
  if (size > PTRDIFF_MAX || posix_memalign(&data, alignment, size ? size : 1) != 0) {
    bp_error_raise(BP_ERROR_MEMORY, "no host memory for %" PRIu64 " bytes", size);
    return NULL;
  }
  /* Scattered small pages slow down the reading of large weights. Only whole huge pages are asked
   * for, so no memory is added. A kernel without them is no error. */
  if (size >= HUGE_PAGE)
    madvise(data, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
  return data;
}

void bp__host_free(void *data) {
  free(data);
}
