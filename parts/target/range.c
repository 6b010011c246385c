/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges of numbers that the host's compiler reads; each number has the same meaning in every
 * kind. */
#include "parts/target/target.h"

#include <inttypes.h>
#include <string.h>

#include <backplane/error.h>

typedef struct Range {
  char name[28];
  int64_t least, most;
  enum { ANY_NUMBER, POWER_OF_TWO, POWER_OF_TWO_OR_0 } form;
} Range;

/* Keep these ranges and the comments in target_api.h and ir_api.h equal. */
static const Range ranges[] = {
    {BP_TARGET_VECTOR_BITS, 32, 65536, POWER_OF_TWO_OR_0},
    {BP_TARGET_VECTOR_REGISTERS, 1, 1024, ANY_NUMBER},
    {BP_TARGET_INDEX_BITS, 32, 64, POWER_OF_TWO},
    {BP_TARGET_NUM_CORES, 1, 65536, ANY_NUMBER},
    {BP_TARGET_L1_BYTES, 1024, INT64_C(1) << 40, ANY_NUMBER},
    {BP_TARGET_L2_BYTES, 1024, INT64_C(1) << 40, ANY_NUMBER},
    {BP_TARGET_MAX_NUM_THREADS, 1, INT32_MAX, ANY_NUMBER},
    {BP_TARGET_THREAD_WARP_SIZE, 1, 1024, POWER_OF_TWO},
    {BP_TARGET_MAX_SHARED_MEMORY, 0, INT64_C(1) << 40, ANY_NUMBER},
    {BP_TARGET_MAX_BUFFER_BYTES, 1024, INT64_C(1) << 40, ANY_NUMBER},
    {BP_TARGET_MAX_BUFFERS, 4, 64, ANY_NUMBER},
    {BP_TARGET_BYTE_DOT, 0, 64, ANY_NUMBER},
    {BP_TARGET_MAX_ITERATIONS, 0, INT64_C(1) << 40, ANY_NUMBER},
};

static int is_in(const Range *range, int64_t value) {
  if (value == 0 && range->form == POWER_OF_TWO_OR_0)
    return 1;
  return value >= range->least && value <= range->most &&
         (range->form == ANY_NUMBER || (value & (value - 1)) == 0);
}

int bp__target_check_range(const BpTargetKind *kind, const char *name, int64_t value) {
  static const char forms[][24] = {"", "a power of two ", "0 or a power of two "};
  for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
    const Range *range = &ranges[i];
    if (strcmp(range->name, name) == 0 && !is_in(range, value))
      return bp_error_raise(BP_ERROR_VALUE,
                            "target %s: -%s=%" PRId64 ": it is %sfrom %" PRId64 " to %" PRId64,
                            kind->name, name, value, forms[range->form], range->least, range->most);
  }
  return 0;
}
