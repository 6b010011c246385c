/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of launches and copies. */
#include "common.h"

int32_t bp_argument_check_part(const BpPluginTables *host, const BpKernel *kernel, int32_t i,
                               const BpKernelBuffer *given, uint64_t alignment, uint64_t size) {
  if (given->offset % alignment)
    return bp_plugin_raise(
        host, BP_ERROR_VALUE,
        "%s: argument %d: a tensor may begin at a multiple of %llu bytes in its buffer, not at "
        "%llu",
        kernel->name, i, (unsigned long long)alignment, (unsigned long long)given->offset);
  if (given->offset <= size && given->size <= size - given->offset)
    return 0;
  return bp_plugin_raise(
      host, BP_ERROR_VALUE,
      "%s: argument %d: a tensor of %llu bytes from byte %llu on, in a buffer of %llu",
      kernel->name, i, (unsigned long long)given->size, (unsigned long long)given->offset,
      (unsigned long long)size);
}

int32_t bp_argument_check_overlap(const BpPluginTables *host, const BpDeviceApi *api,
                                  const BpCopy *copy) {
  uint64_t apart = copy->from_offset > copy->to_offset ? copy->from_offset - copy->to_offset
                                                       : copy->to_offset - copy->from_offset;
  if (copy->from != copy->to || apart >= copy->size)
    return 0;
  return bp_plugin_raise(
      host, BP_ERROR_VALUE,
      "%s: a copy within a buffer onto part of itself; go by way of another buffer", api->name);
}
