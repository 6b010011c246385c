/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the blob of a library. A library is made once; each input replaces its blob, and
 * loading ends in a module or in an error. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>

#include "tests/core/module-fixture.h"
#include "tests/fuzz/fuzz.h"

#define U64(low) low "\0\0\0\0\0\0\0"
#define LIB      U64("\4") "_lib"
#define DEV      U64("\x08") "test_dev" U64("\3") "abc"
#define OTHER    U64("\x0a") "test_other" U64("\1") "x"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT(U64("\3") U64("\0") U64("\1") U64("\1") U64("\1") U64("\1") LIB DEV),
    FUZZ_TEXT(U64("\4") U64("\0") U64("\2") U64("\3") U64("\3") U64("\3") U64("\1") U64("\2")
                  U64("\2") DEV LIB OTHER),
    FUZZ_TEXT(U64("\2") U64("\0") U64("\0") U64("\0") OTHER),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT(U64("\0")), FUZZ_TEXT(U64("\1")),
    FUZZ_TEXT(U64("\2")), FUZZ_TEXT("\377\377\377\377\377\377\377\377"),
    FUZZ_TEXT(LIB),       FUZZ_TEXT(DEV),
    FUZZ_TEXT(OTHER),     FUZZ_TEXT("\0\0\0\0\0\0\0\40"),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

/* The library, and the offset in its file of the blob's length. */
static struct {
  char *path;
  int fd;
  off_t blob_at;
} library;

static void remove_library(void) {
  unlink(library.path);
}

static void make_library(void) {
  char *data;
  gsize size;
  fixture_begin();
  library.path = temporary_path("fuzz.so");
  export_with_imports(library.path);
  atexit(remove_library);
  library.fd = open(library.path, O_WRONLY | O_CLOEXEC);
  g_assert_true(g_file_get_contents(library.path, &data, &size, NULL));
  const char *kind = memmem(data, size, LIB, sizeof LIB - 1);
  g_assert_nonnull(kind);
  /* Before the modules: the length; four row starts and two imports, each with their count. */
  library.blob_at = kind - data - 8 - 8 * (1 + 4) - 8 * (1 + 2);
  g_free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!library.path)
    make_library();
  uint64_t length = size;
  if (size > 65536 || pwrite(library.fd, &length, 8, library.blob_at) != 8 ||
      pwrite(library.fd, data, size, library.blob_at + 8) != (ssize_t)size)
    return 0;
  BpModule *module = bp_module_load(library.path);
  if (!module && !*bp_error_message())
    abort();
  bp_object_release(module);
  if (fake_modules_alive())
    abort();
  bp_error_clear();
  return 0;
}
