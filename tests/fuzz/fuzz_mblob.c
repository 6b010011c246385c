/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the blob of a library of TVM up to 0.19. A library is made once; each input replaces
 * its blob, and loading ends in an error or in a module, whose graph may make a model. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/module.h>
#include <backplane/object.h>

#include "tests/fuzz/fuzz.h"
#include "tests/tvm/network.h"

#define ROOM 16384

static GByteArray *blobs[3];
static FuzzSeed seeds[3];

/* The library, and the offset in its file of the blob's length. */
static struct {
  char *folder;
  char *path;
  int fd;
  off_t blob_at;
} library;

const FuzzSeed *fuzz_seeds(size_t *count) {
  char *code = network_device_code("opencl");
  if (!blobs[0]) {
    blobs[0] = network_blob(network_json, NULL, NULL, "", 0);
    blobs[1] = network_blob(network_json, "opencl", "cl", code, strlen(code));
    blobs[2] = network_blob(NULL, "opencl", "cl", code, strlen(code));
  }
  g_free(code);
  for (size_t i = 0; i < G_N_ELEMENTS(blobs); i++)
    seeds[i] = (FuzzSeed){(const char *)blobs[i]->data, blobs[i]->len};
  *count = G_N_ELEMENTS(blobs);
  return seeds;
}

#define U64(low) low "\0\0\0\0\0\0\0"

static const FuzzSeed pieces[] = {
    FUZZ_TEXT(U64("\0")),
    FUZZ_TEXT(U64("\1")),
    FUZZ_TEXT(U64("\2")),
    FUZZ_TEXT("\377\377\377\377\377\377\377\377"),
    FUZZ_TEXT("\0\0\0\0\0\0\0\40"),
    FUZZ_TEXT(U64("\4") "_lib"),
    FUZZ_TEXT(U64("\x0c") "_import_tree" U64("\2") U64("\0") U64("\1") U64("\1") U64("\0")),
    FUZZ_TEXT(U64("\x0c") "const_loader" U64("\0") U64("\0") U64("\0") U64("\0")),
    FUZZ_TEXT(U64("\6") "opencl" U64("\2") "cl" U64("\0") U64("\0")),
};

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

static void remove_library(void) {
  close(library.fd);
  remove_artifact_folder(library.folder);
  g_free(library.path);
  for (size_t i = 0; i < G_N_ELEMENTS(blobs); i++)
    if (blobs[i])
      g_byte_array_unref(blobs[i]);
}

static void make_library(void) {
  char *data;
  gsize size;
  GByteArray *room = g_byte_array_new();
  g_byte_array_set_size(room, ROOM);
  memset(room->data, 'r', ROOM);
  library.folder = artifact_folder();
  library.path = g_build_filename(library.folder, "fuzz.so", NULL);
  build_artifact(library.path, artifact_llvm_header, network_cpu_source, room);
  atexit(remove_library);
  library.fd = open(library.path, O_WRONLY | O_CLOEXEC);
  if (bp_graph_initialize() || !g_file_get_contents(library.path, &data, &size, NULL))
    abort();
  const char *at = memmem(data, size, room->data, ROOM);
  if (!at)
    abort();
  library.blob_at = at - data - 8;
  g_free(data);
  g_byte_array_unref(room);
}

static void use(BpModule *module) {
  const BpDevice device = {1, 0};
  BpModel *model = bp_model_create(module, &device, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context && !*bp_error_message())
    abort();
  bp_model_context_free(context);
  bp_model_release(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!library.path)
    make_library();
  uint64_t length = size;
  if (size > ROOM || pwrite(library.fd, &length, 8, library.blob_at) != 8 ||
      pwrite(library.fd, data, size, library.blob_at + 8) != (ssize_t)size)
    return 0;
  BpModule *module = bp_module_load(library.path);
  if (!module && !*bp_error_message())
    abort();
  if (module)
    use(module);
  bp_object_release(module);
  bp_error_clear();
  return 0;
}
