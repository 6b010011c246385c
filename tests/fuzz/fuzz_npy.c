/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: arrays in .npy files. Reading an array ends in an error or in an array that is
 * unchanged after it is written and read again. */

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>

#include "tests/fuzz/fuzz.h"

#define V1(size, header) "\x93NUMPY\1\0" size "\0" header "\n"
#define FLOATS           V1("\x3d", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }  ")
#define SCALAR           V1("\x38", "{'descr': '|b1', 'fortran_order': False, 'shape': (), }")
#define V2               "\x93NUMPY\2\0\x3a\0\0\0{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT(FLOATS "abcdefgh"),
    FUZZ_TEXT(SCALAR "\1"),
    FUZZ_TEXT(V2 "abcdefghijklmnopqrstuvwx"),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT("'descr': "), FUZZ_TEXT("'shape': "), FUZZ_TEXT("True"),
    FUZZ_TEXT("'>f8'"),     FUZZ_TEXT("'<c16'"),    FUZZ_TEXT("'<f2'"),
    FUZZ_TEXT("'|u1'"),     FUZZ_TEXT("(0,"),       FUZZ_TEXT("-1"),
    FUZZ_TEXT("1,"),        FUZZ_TEXT("{"),         FUZZ_TEXT("}"),
    FUZZ_TEXT("\xff\xff"),  FUZZ_TEXT("\3\0"),      FUZZ_TEXT("4611686018427387904"),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

static char *path;

static int is_same(const BpTensorView *a, const BpTensorView *b) {
  int64_t size = bp_view_num_bytes(a);
  if (a->ndim != b->ndim || memcmp(&a->dtype, &b->dtype, sizeof a->dtype) ||
      bp_view_num_bytes(b) != size)
    return 0;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i])
      return 0;
  return !size || !memcmp(a->data, b->data, (size_t)size);
}

static void write_and_read(const BpTensor *tensor) {
  BpTensor *again = bp_npy_write(path, &tensor->view) ? NULL : bp_npy_read(path);
  if (!again || !is_same(&tensor->view, &again->view)) {
    fprintf(stderr, "not the same again: %s\n", bp_error_message());
    abort();
  }
  bp_object_release(again);
}

static void remove_file(void) {
  unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!path) {
    path = g_build_filename(g_get_tmp_dir(), "backplane-fuzz-XXXXXX", NULL);
    close(g_mkstemp(path));
    atexit(remove_file);
  }
  if (!g_file_set_contents_full(path, (const char *)data, (gssize)size, G_FILE_SET_CONTENTS_NONE,
                                0600, NULL))
    abort();
  BpTensor *tensor = bp_npy_read(path);
  if (tensor)
    write_and_read(tensor);
  else if (!*bp_error_message())
    abort();
  bp_object_release(tensor);
  bp_error_clear();
  return 0;
}
