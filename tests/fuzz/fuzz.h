/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a fuzz target: libFuzzer's entry point, and seeds for the driver. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Tries one input; a defect ends the process. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct FuzzSeed {
  const void *data;
  size_t size;
} FuzzSeed;

/* Inputs to start from, and pieces of inputs worth inserting; static. */
const FuzzSeed *fuzz_seeds(size_t *count);
const FuzzSeed *fuzz_pieces(size_t *count);

#define FUZZ_TEXT(text)                                                                            \
  { text, sizeof(text) - 1 }

#endif
