/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: parameter files. Reading a file ends in whole tensors or in an error. */

#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>

#include "tests/fuzz/fuzz.h"

#define U64(low) low "\0\0\0\0\0\0\0"
#define HEAD     "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7" U64("\0")
#define ARRAY    "\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd" U64("\0") "\1\0\0\0\0\0\0\0"
#define FLOATS   ARRAY "\1\0\0\0\2\x20\1\0" U64("\2") U64("\x08") "abcdefgh"
#define BOOLEAN  ARRAY "\0\0\0\0\1\1\1\0" U64("\1") "\1"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT(HEAD U64("\2") U64("\2") "p0" U64("\3") "p.1" U64("\2") FLOATS BOOLEAN),
    FUZZ_TEXT(HEAD U64("\0") U64("\0")),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT(U64("\0")), FUZZ_TEXT(U64("\1")),      FUZZ_TEXT("\377\377\377\377\377\377\377\377"),
    FUZZ_TEXT(FLOATS),    FUZZ_TEXT(BOOLEAN),        FUZZ_TEXT("\0\0\0\0\0\0\0\40"),
    FUZZ_TEXT(ARRAY),     FUZZ_TEXT(U64("\2") "p0"),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

/* Reads all bytes that a tensor claims to have. */
static int visit(void *context, const char *name, BpTensor *tensor) {
  uint64_t *sum = context;
  int64_t bytes = bp_view_num_bytes(&tensor->view);
  *sum += strlen(name);
  for (int64_t i = 0; i < bytes; i++)
    *sum += ((const uint8_t *)tensor->view.data)[i];
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const BpByteArray bytes = {(const char *)data, size};
  uint64_t sum = 0;
  if (bp_params_decode(&bytes, visit, &sum) && !*bp_error_message())
    abort();
  bp_error_clear();
  return 0;
}
