/* SPDX-License-Identifier: Apache-2.0 */
/* Drives a fuzz target without libFuzzer: a fixed number of mutations of its seeds, the same in
 * every run. BP_TEST_LONG in the environment makes it a hundred times as many, or as many as ten
 * minutes allow. */

#include <glib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define LARGEST   65536
#define LONGEST_S 600

typedef struct Input {
  uint8_t data[LARGEST];
  size_t size;
} Input;

/* Cuts `size` bytes at `at`, and puts others there. */
static void splice(Input *input, size_t at, size_t size, const void *data, size_t added) {
  size_t rest = input->size - at - size;
  if (at + added + rest > LARGEST)
    return;
  memmove(input->data + at + added, input->data + at + size, rest);
  if (added)
    memcpy(input->data + at, data, added);
  input->size = at + added + rest;
}

static size_t below(GRand *random, size_t limit) {
  return limit ? g_rand_int(random) % limit : 0;
}

static const FuzzSeed *choose(GRand *random, const FuzzSeed *(*list)(size_t *count)) {
  size_t count;
  const FuzzSeed *all = list(&count);
  return &all[below(random, count)];
}

static void mutate(Input *input, GRand *random) {
  size_t at = below(random, input->size);
  size_t size = below(random, MIN(input->size - at, 64));
  uint8_t copy[64], byte = (uint8_t)g_rand_int(random);
  memcpy(copy, input->data + at, size);
  const FuzzSeed *piece = choose(random, fuzz_pieces), *seed = choose(random, fuzz_seeds);
  switch (below(random, 10)) {
  case 0: /* flip a bit */
    if (input->size)
      input->data[at] ^= (uint8_t)(1u << (byte & 7));
    break;
  case 1: /* another byte */
    splice(input, at, input->size ? 1 : 0, &byte, 1);
    break;
  case 2: /* cut a run */
    splice(input, at, size, NULL, 0);
    break;
  case 3: /* move a run */
    splice(input, at, size, NULL, 0);
    splice(input, below(random, input->size), 0, copy, size);
    break;
  case 4: /* repeat a run */
    splice(input, at, 0, copy, size);
    break;
  case 5: /* cut the end */
    input->size = at;
    break;
  case 6: /* a part of another seed */
    splice(input, at, 0, seed->data, below(random, seed->size));
    break;
  case 7:
  case 8: /* another number: the next digit */
    while (at < input->size && !g_ascii_isdigit((char)input->data[at]))
      at++;
    if (at < input->size)
      input->data[at] = (uint8_t)('0' + byte % 10);
    break;
  default:
    splice(input, at, size / 8, piece->data, piece->size);
    break;
  }
}

static void test_mutations(void) {
  GRand *random = g_rand_new_with_seed(1);
  Input *input = g_new0(Input, 1);
  int count = g_getenv("BP_TEST_LONG") ? 2000000 : 20000;
  gint64 end = g_get_monotonic_time() + LONGEST_S * G_USEC_PER_SEC;
  for (int i = 0; i < count && g_get_monotonic_time() < end; i++) {
    const FuzzSeed *seed = choose(random, fuzz_seeds);
    memcpy(input->data, seed->data, seed->size);
    input->size = seed->size;
    for (size_t times = below(random, 6); times > 0; times--)
      mutate(input, random);
    /* Exactly as large as it is, so that a read beyond its end is seen. */
    uint8_t *exact = g_memdup2(input->data, input->size);
    LLVMFuzzerTestOneInput(exact, input->size);
    g_free(exact);
  }
  g_free(input);
  g_rand_free(random);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/fuzz/mutations-are-survived", test_mutations);
  return g_test_run();
}
