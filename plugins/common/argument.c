/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of launches, where a handle is no address. */
#include "common.h"

int32_t bp_argument_check_part(const BpPluginTables *host, const BpKernel *kernel, int32_t i,
                               const BpKernelBuffer *given, uint64_t alignment, uint64_t size) {
  if (given->offset % alignment)
    return host->error->raise(
        BP_ERROR_VALUE,
        "%s: argument %d: a tensor may begin at a multiple of %llu bytes in its buffer, not at "
        "%llu",
        kernel->name, i, (unsigned long long)alignment, (unsigned long long)given->offset);
  if (given->offset <= size && given->size <= size - given->offset)
    return 0;
  return host->error->raise(
      BP_ERROR_VALUE,
      "%s: argument %d: a tensor of %llu bytes from byte %llu on, in a buffer of %llu",
      kernel->name, i, (unsigned long long)given->size, (unsigned long long)given->offset,
      (unsigned long long)size);
}
