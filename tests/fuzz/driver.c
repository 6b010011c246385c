/* SPDX-License-Identifier: Apache-2.0 */
/* Drives a fuzz target without libFuzzer: with the inputs in tests/fuzz/corpus/TARGET, each of
 * which covered a new path in libFuzzer, and with a fixed number of mutations of the seeds, the
 * same in every run. BP_TEST_LONG in the environment multiplies their number by a hundred, or as
 * far as ten minutes allow. With `--write FOLDER` the driver writes the seeds and, as FOLDER.dict,
 * the pieces for libFuzzer. */

#include <glib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define LARGEST   65536
#define LONGEST_S 600

typedef struct Input {
  uint8_t data[LARGEST];
  size_t size;
} Input;

/* Replaces `size` bytes at `at` by other bytes. */
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
  case 0: /* flip a bit of the input */
    if (input->size)
      input->data[at] ^= (uint8_t)(1u << (byte & 7));
    break;
  case 1: /* another byte */
    splice(input, at, input->size ? 1 : 0, &byte, 1);
    break;
  case 2: /* cut a run of bytes */
    splice(input, at, size, NULL, 0);
    break;
  case 3: /* move a run of bytes */
    splice(input, at, size, NULL, 0);
    splice(input, below(random, input->size), 0, copy, size);
    break;
  case 4: /* repeat a run of bytes */
    splice(input, at, 0, copy, size);
    break;
  case 5: /* cut the end of the input */
    input->size = at;
    break;
  case 6: /* insert a part of another seed */
    splice(input, at, 0, seed->data, below(random, seed->size));
    break;
  case 7:
  case 8: /* replace the next digit */
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

/* Copies the input to memory of its exact size, so that overreading is detected. */
static void try_exactly(const void *data, size_t size) {
  uint8_t *exact = g_memdup2(data, size);
  LLVMFuzzerTestOneInput(exact, size);
  g_free(exact);
}

static void test_mutations(void) {
  GRand *random = g_rand_new_with_seed(1);
  Input *input = g_new0(Input, 1);
  int count = g_getenv("BP_TEST_LONG") ? 2000000 : 10000;
  gint64 end = g_get_monotonic_time() + LONGEST_S * G_USEC_PER_SEC;
  for (int i = 0; i < count && g_get_monotonic_time() < end; i++) {
    const FuzzSeed *seed = choose(random, fuzz_seeds);
    memcpy(input->data, seed->data, seed->size);
    input->size = seed->size;
    for (size_t times = below(random, 6); times > 0; times--)
      mutate(input, random);
    try_exactly(input->data, input->size);
  }
  g_free(input);
  g_rand_free(random);
}

/* ---- Inputs in files --------------------------------------------------------------------- */

static void try_file(const char *path) {
  g_autofree char *data = NULL;
  gsize size;
  if (!g_file_get_contents(path, &data, &size, NULL))
    g_error("cannot read %s", path);
  try_exactly(data, size);
}

/* test-ir-text has its inputs in corpus/ir_text. */
static void test_corpus(const void *program) {
  g_autofree char *name = g_path_get_basename(program);
  const char *target = g_strdelimit(strstr(name, "test-") + strlen("test-"), "-", '_');
  g_autofree char *folder =
      g_build_filename(g_getenv("top_srcdir"), "tests/fuzz/corpus", target, NULL);
  g_autoptr(GDir) files = g_dir_open(folder, 0, NULL);
  if (!files)
    g_error("%s is not there", folder);
  for (const char *file; (file = g_dir_read_name(files));) {
    g_autofree char *path = g_build_filename(folder, file, NULL);
    try_file(path);
  }
}

static void write_seeds(const char *folder) {
  size_t count;
  const FuzzSeed *seeds = fuzz_seeds(&count);
  for (size_t i = 0; i < count; i++) {
    g_autofree char *path = g_strdup_printf("%s/seed-%zu", folder, i);
    if (!g_file_set_contents(path, seeds[i].data, (gssize)seeds[i].size, NULL))
      g_error("cannot write %s", path);
  }
}

static void write_dictionary(const char *folder) {
  g_autofree char *path = g_strdup_printf("%s.dict", folder);
  g_autoptr(GString) text = g_string_new(NULL);
  size_t count;
  const FuzzSeed *pieces = fuzz_pieces(&count);
  for (size_t i = 0; i < count; i++) {
    g_string_append_c(text, '"');
    for (size_t k = 0; k < pieces[i].size; k++)
      g_string_append_printf(text, "\\x%02x", ((const uint8_t *)pieces[i].data)[k]);
    g_string_append(text, "\"\n");
  }
  if (!g_file_set_contents(path, text->str, (gssize)text->len, NULL))
    g_error("cannot write %s", path);
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "--write")) {
    write_seeds(argv[2]);
    write_dictionary(argv[2]);
    return 0;
  }
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/fuzz/corpus-is-survived", argv[0], test_corpus);
  g_test_add_func("/fuzz/mutations-are-survived", test_mutations);
  return g_test_run();
}
