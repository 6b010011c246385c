/* SPDX-License-Identifier: Apache-2.0 */
/* Modules made by the C compiler in this process. Source becomes an object file, and that a
 * library; both are cached, the object so that a module that was run is exported without compiling
 * again. */

#include "core/module/compile.h"

#include "core/module/cache.h"
#include "core/module/cc.h"
#include "core/module/library.h"

#include <backplane/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY_SIZE 80

/* ---- Keys -------------------------------------------------------------------------------- */

static int is_cpu_fact(const char *line) {
  static const char *const facts[] = {"vendor_id",       "cpu family", "model",
                                      "stepping",        "flags",      "Features",
                                      "CPU implementer", "CPU part",   "isa"};
  for (size_t i = 0; i < G_N_ELEMENTS(facts); ++i)
    if (!strncmp(line, facts[i], strlen(facts[i])))
      return 1;
  return 0;
}

/* What "native" means here: a cache may be shared by machines with other processors. */
static void hash_processor(GChecksum *hash) {
  char line[8192];
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file && fgets(line, sizeof line, file) && *line != '\n')
    if (is_cpu_fact(line))
      bp__cache_hash(hash, line, strlen(line));
  if (file)
    fclose(file);
}

static void hash_flags(GChecksum *hash, const char *const *flags) {
  int native = 0;
  for (; flags && *flags; ++flags) {
    bp__cache_hash(hash, *flags, strlen(*flags));
    native |= strstr(*flags, "native") != NULL;
  }
  if (native)
    hash_processor(hash);
}

/* The name, without extension, of what the compiler makes of `input` with `flags`. */
static int compute_key(const char *purpose, const BpByteArray *input, const char *const *flags,
                       char *key) {
  char *identity = bp__cc_identity();
  if (!identity)
    return -1;
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  bp__cache_hash(hash, identity, strlen(identity));
  bp__cache_hash(hash, purpose, strlen(purpose));
  bp__cache_hash(hash, input->data, input->size);
  hash_flags(hash, flags);
  snprintf(key, KEY_SIZE, "%s", g_checksum_get_string(hash));
  g_checksum_free(hash);
  free(identity);
  return 0;
}

static void locate(const char *key, const char *extension, char *place) {
  char name[KEY_SIZE + 8];
  snprintf(name, sizeof name, "%s%s", key, extension);
  bp__cache_locate(BP_CACHE_C, name, place);
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Runs the compiler with three lists of arguments, one after the other. */
static int run(const BpWorkdir *dir, const char *const *before, const char *const *flags,
               const char *const *after, const char *purpose) {
  const char *const *const lists[] = {before, flags, after};
  size_t count = 0, size = 1;
  for (size_t i = 0; i < G_N_ELEMENTS(lists); ++i)
    for (size_t k = 0; lists[i] && lists[i][k]; ++k)
      ++size;
  const char **args = malloc(size * sizeof *args);
  if (!args)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to run the C compiler");
  for (size_t i = 0; i < G_N_ELEMENTS(lists); ++i)
    for (size_t k = 0; lists[i] && lists[i][k]; ++k)
      args[count++] = lists[i][k];
  args[count] = NULL;
  int rc = bp__cc_run(dir, args, purpose);
  free(args);
  return rc;
}

static int make_object(const BpWorkdir *dir, const char *name, const BpByteArray *source,
                       const char *const *flags, char *object) {
  char source_name[64], object_name[64];
  snprintf(source_name, sizeof source_name, "%.48s.c", name);
  snprintf(object_name, sizeof object_name, "%.48s.o", name);
  const char *const before[] = {"-c", "-fPIC",     "-O2",       "-std=gnu11", "-w",
                                "-o", object_name, source_name, NULL};
  return bp__workdir_path(dir, object_name, object) ||
                 bp__workdir_write(dir, source_name, source) ||
                 run(dir, before, flags, NULL, "compile a module")
             ? -1
             : 0;
}

int bp__compile_object(const BpWorkdir *dir, const char *name, const BpByteArray *source,
                       const char *const *flags, char *object) {
  char key[KEY_SIZE], place[PATH_MAX];
  if (compute_key("object", source, flags, key))
    return -1;
  locate(key, ".o", place);
  if (bp__cache_has(place)) {
    snprintf(object, PATH_MAX, "%s", place);
    return 0;
  }
  if (make_object(dir, name, source, flags, object))
    return -1;
  bp__cache_move_in(place, object);
  return 0;
}

/* Links an object into the library at `place` in the cache, or in `dir`, and opens it. */
static BpModule *link_and_load(const BpWorkdir *dir, const char *object, const char *const *flags,
                               const char *place) {
  static const char output[] = "module.so";
  char path[PATH_MAX];
  const char *const before[] = {"-shared", "-Wl,-Bsymbolic", "-o", output, object, NULL};
  const char *const after[] = {"-lm", NULL};
  if (bp__workdir_path(dir, output, path) || run(dir, before, flags, after, "link a module"))
    return NULL;
  bp__cache_move_in(place, path);
  return bp__library_load(path);
}

/* The module at `place` in the cache; NULL, with no error raised, if it has to be made. */
static BpModule *load_cached(const char *place) {
  BpModule *module = bp__cache_has(place) ? bp__library_load(place) : NULL;
  if (!module)
    bp_error_clear();
  return module;
}

BpModule *bp__compile_load_c(const BpByteArray *source, const char *const *flags) {
  char key[KEY_SIZE], place[PATH_MAX], object[PATH_MAX];
  if (compute_key("library of source", source, flags, key))
    return NULL;
  locate(key, ".so", place);
  BpModule *module = load_cached(place);
  BpWorkdir dir;
  if (module || bp__cache_workdir(BP_CACHE_C, &dir))
    return module;
  if (!bp__compile_object(&dir, "module", source, flags, object))
    module = link_and_load(&dir, object, flags, place);
  bp__workdir_remove(&dir);
  return module;
}

BpModule *bp__compile_load_object(const BpByteArray *object) {
  char key[KEY_SIZE], place[PATH_MAX];
  if (compute_key("library of object", object, NULL, key))
    return NULL;
  locate(key, ".so", place);
  BpModule *module = load_cached(place);
  BpWorkdir dir;
  if (module || bp__cache_workdir(BP_CACHE_C, &dir))
    return module;
  if (!bp__workdir_write(&dir, "module.o", object))
    module = link_and_load(&dir, "module.o", NULL, place);
  bp__workdir_remove(&dir);
  return module;
}
