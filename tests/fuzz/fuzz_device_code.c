/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the bytes of a device module. Decoding ends in kernels or in an error. */

#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/module.h>

#include "tests/core/module-fixture.h"
#include "tests/fuzz/fuzz.h"

#define U64(low) low "\0\0\0\0\0\0\0"
#define TAG_X    U64("\x0a") "blockIdx.x"
#define HEAD     U64("\2") "cl" U64("\1")
#define KERNEL   U64("\3") "add" U64("\3") "add"
#define ARGS     U64("\2") "\3\100\1\0\0\40\1\0"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT(HEAD KERNEL ARGS U64("\1") TAG_X U64("\0") U64("\4") "code"),
    FUZZ_TEXT(HEAD KERNEL ARGS U64("\2") TAG_X TAG_X U64("\1") "\0\0\0\0" U64("\0")),
    FUZZ_TEXT(U64("\3") "ptx" U64("\0") U64("\4") "code"),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT(U64("\0")),
    FUZZ_TEXT(U64("\1")),
    FUZZ_TEXT("\377\377\377\377\377\377\377\377"),
    FUZZ_TEXT("\0\0\0\0\0\0\0\200"),
    FUZZ_TEXT(TAG_X),
    FUZZ_TEXT(KERNEL),
    FUZZ_TEXT(ARGS),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

/* Reads all members of a kernel. */
static int32_t touch(void *context, const BpKernelInfo *kernel) {
  size_t *sum = context;
  *sum += strlen(kernel->name);
  for (int32_t i = 0; i < kernel->num_args; ++i)
    *sum += kernel->arg_dtypes[i].bits;
  for (int32_t i = 0; i < kernel->num_launch_tags; ++i)
    *sum += strlen(kernel->launch_tags[i]);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!module_table())
    fixture_begin();
  BpByteArray bytes = {(const char *)data, size}, format, code;
  size_t sum = 0;
  if (!module_table()->decode_device_code(&bytes, &format, touch, &sum, &code)) {
    if (format.size + code.size + sum > 256 * size)
      abort();
  } else if (!*bp_error_message()) {
    abort();
  }
  bp_error_clear();
  return 0;
}
