/* SPDX-License-Identifier: Apache-2.0 */
/* Modules made by the C compiler in this process. Source becomes an object file, and the object
 * file a library. Object files and libraries are cached, so that exporting a module that has run
 * compiles nothing. */

#include "parts/toolchain/compile.h"

#include "parts/parallel.h"
#include "parts/toolchain/cc.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define KEY_SIZE  80
#define NAME_SIZE (KEY_SIZE + 8)
#define SUBJECT   "c" /* the cache's subject */

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

/* Hashes the meaning of "native": machines with different processors may share a cache. */
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

/* Returns the name, without extension, of the compiler's output for `input` with `flags`. */
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

/* Returns the name of a file in the cache. */
static void name_file(const char *key, const char *extension, char *name) {
  snprintf(name, NAME_SIZE, "%s%s", key, extension);
}

/* Whether a complete file of this name is in the cache. Problems are logged. */
static int has_kept(const BpCache *cache, const char *name) {
  char *data;
  size_t size;
  if (bp__cache_load(cache, name, &data, &size))
    bp__cache_warn();
  int is_found = data && size;
  free(data);
  return is_found;
}

/* ---- Steps ------------------------------------------------------------------------------- */

static int no_memory(void) {
  return bp_error_raise(BP_ERROR_MEMORY, "no memory to run the C compiler");
}

/* An argument for this compiler. With -fexpensive-optimizations GCC's -O1 makes fast code; Clang
 * ignores it and needs -O3. */
static const char *for_compiler(const char *argument) {
  return !strcmp(argument, "-fexpensive-optimizations") && bp__cc_is_clang() ? "-O3" : argument;
}

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
    return no_memory();
  for (size_t i = 0; i < G_N_ELEMENTS(lists); ++i)
    for (size_t k = 0; lists[i] && lists[i][k]; ++k)
      args[count++] = for_compiler(lists[i][k]);
  args[count] = NULL;
  int rc = bp__cc_run(dir, args, purpose);
  free(args);
  return rc;
}

/* By default GCC collects garbage from 128 MiB on, and whenever its heap has doubled: GCC then
 * needs 310 MiB for 1.6 MB of source. With parameters for its garbage collector GCC needs 140 MiB
 * and 2 % more time for equal code. Clang ignores these parameters of GCC's garbage collector. */
#define LEAN "--param", "ggc-min-heapsize=65536", "--param", "ggc-min-expand=30"

/* Compiles a source in a directory. */
static int compile_in(const BpWorkdir *dir, const char *name, const char *object,
                      const BpByteArray *source, const char *const *flags) {
  char source_name[64];
  snprintf(source_name, sizeof source_name, "%.48s.c", name);
  const char *const before[] = {"-c", "-fPIC", "-O2",  "-std=gnu11", "-w",
                                LEAN, "-o",    object, source_name,  NULL};
  return bp__workdir_write(dir, source_name, source) ||
                 run(dir, before, flags, NULL, "compile a module")
             ? -1
             : 0;
}

/* ---- Parts of a source ------------------------------------------------------------------- */

/* The size of a part of a source, in bytes, and the maximum number of parts. With more than one
 * thread the number depends on the source alone, so that machines make equal objects. A single
 * thread compiles the whole source in 0.9 of the time of its parts, because the compiler merges
 * equal functions. */
#define PART_SIZE  262144
#define MOST_PARTS 32
/* The name in a directory of its own of the object of a part. */
#define PART_OBJECT "part.o"

/* The parts of one source, which threads take in turn. */
typedef struct PartJob {
  const BpWorkdir *dir;
  const char *name;
  const BpByteArray *source;
  const char *const *flags;
  int count;
  atomic_int next;
  BpWorkdir dirs[MOST_PARTS];
  BpError *errors[MOST_PARTS];
} PartJob;

/* Finds the first mark of a piece from `at` on; `end` if there is none. The emitter marks the
 * pieces of a large source (compiler/emit/emitter.c). */
static const char *find_piece(const char *at, const char *end) {
  static const char mark[] = "\n/* ---- A piece that can be compiled apart ---- */\n";
  const char *found = memmem(at, (size_t)(end - at), mark, strlen(mark));
  return found ? found + 1 : end;
}

static int count_parts(const BpByteArray *source) {
  size_t count = source->size / PART_SIZE;
  const char *text = source->data, *end = text + source->size;
  if (count < 2 || bp_threads_get() == 1 || find_piece(text, end) == end)
    return 1;
  return count < MOST_PARTS ? (int)count : MOST_PARTS;
}

/* Copies a part to `text`, of the size of the source: the text before all pieces, and every
 * `count`-th piece. Returns the number of bytes. */
static size_t copy_part(const PartJob *job, int part, char *text) {
  const char *at = job->source->data, *end = at + job->source->size;
  const char *next = find_piece(at, end);
  char *to = mempcpy(text, at, (size_t)(next - at));
  for (int piece = 0; (at = next) < end; ++piece) {
    next = find_piece(at, end);
    if (piece % job->count == part)
      to = mempcpy(to, at, (size_t)(next - at));
  }
  return (size_t)(to - text);
}

static void compile_part(PartJob *job, int part) {
  char *text = malloc(job->source->size);
  const BpByteArray source = {text, text ? copy_part(job, part, text) : 0};
  int rc = text ? bp__workdir_create(&job->dirs[part], job->dir->cache) : no_memory();
  if (rc || compile_in(&job->dirs[part], job->name, PART_OBJECT, &source, job->flags))
    job->errors[part] = bp_error_take();
  free(text);
}

static void take_parts(void *context, size_t worker) {
  PartJob *job = context;
  (void)worker;
  for (int part; (part = atomic_fetch_add(&job->next, 1)) < job->count;)
    compile_part(job, part);
}

/* Links the objects of the parts into one object. */
static int join_parts(const PartJob *job, const char *object) {
  char paths[MOST_PARTS][PATH_MAX];
  const char *inputs[MOST_PARTS + 1] = {NULL};
  const char *const before[] = {"-r", "-nostdlib", "-o", object, NULL};
  for (int i = 0; i < job->count; ++i) {
    if (bp__workdir_path(&job->dirs[i], PART_OBJECT, paths[i]))
      return -1;
    inputs[i] = paths[i];
  }
  return run(job->dir, before, job->flags, inputs, "link the parts of a module");
}

/* Compiles the parts of a source, as many at once as there are threads, into one object. */
static int compile_parts(const BpWorkdir *dir, const char *name, const char *object,
                         const BpByteArray *source, const char *const *flags, int count) {
  PartJob *job = calloc(1, sizeof *job);
  if (!job)
    return no_memory();
  *job = (PartJob){.dir = dir, .name = name, .source = source, .flags = flags, .count = count};
  int threads = bp_threads_get();
  bp__parallel_for_each((size_t)(threads < count ? threads : count), take_parts, job);
  BpError *first = NULL;
  for (int i = 0; i < count; ++i) {
    if (first)
      bp_object_release(job->errors[i]);
    else
      first = job->errors[i];
  }
  if (first)
    bp_error_put(first);
  int rc = first || join_parts(job, object) ? -1 : 0;
  for (int i = 0; i < count; ++i)
    bp__workdir_remove(&job->dirs[i]);
  free(job);
  return rc;
}

static int make_object(const BpWorkdir *dir, const char *name, const char *object,
                       const BpByteArray *source, const char *const *flags) {
  int count = count_parts(source);
  return count > 1 ? compile_parts(dir, name, object, source, flags, count)
                   : compile_in(dir, name, object, source, flags);
}

int bp__compile_object(const BpWorkdir *dir, const char *name, const BpByteArray *source,
                       const char *const *flags, char *object) {
  char key[KEY_SIZE], kept[NAME_SIZE], made[64];
  if (compute_key("object", source, flags, key))
    return -1;
  name_file(key, ".o", kept);
  snprintf(made, sizeof made, "%.48s.o", name);
  int is_kept = dir->cache && has_kept(dir->cache, kept);
  if (!is_kept &&
      (make_object(dir, name, made, source, flags) || bp__workdir_keep(dir, made, kept, object)))
    return -1;
  return bp__workdir_hold(dir, made, kept, object);
}

/* Links an object file into a library, named `kept` in the cache, or in `dir`, and opens the
 * library. */
static BpModule *link_and_load(const BpWorkdir *dir, const char *object, const char *const *flags,
                               const char *kept) {
  static const char output[] = "module.so";
  char path[PATH_MAX];
  const char *const before[] = {"-shared", "-Wl,-Bsymbolic", "-o", output, object, NULL};
  const char *const after[] = {"-lm", NULL};
  if (run(dir, before, flags, after, "link a module") || bp__workdir_keep(dir, output, kept, path))
    return NULL;
  return bp_module_load(path);
}

/* Opens the module `kept` in the cache; NULL, without an error, if it is not in the cache. */
static BpModule *load_cached(const BpCache *cache, const char *kept) {
  char path[PATH_MAX];
  BpModule *module = NULL;
  if (has_kept(cache, kept) && !bp__cache_path(cache, kept, path))
    module = bp_module_load(path);
  if (!module)
    bp_error_clear();
  return module;
}

/* Makes the object file of a library in `dir`; stores its path in `object`, of PATH_MAX bytes. */
typedef int (*MakeObject)(const BpWorkdir *dir, const BpByteArray *input, const char *const *flags,
                          char *object);

static int compile_input(const BpWorkdir *dir, const BpByteArray *input, const char *const *flags,
                         char *object) {
  return bp__compile_object(dir, "module", input, flags, object);
}

static int write_input(const BpWorkdir *dir, const BpByteArray *input, const char *const *flags,
                       char *object) {
  static const char name[] = "module.o";
  (void)flags;
  return bp__workdir_write(dir, name, input) ? -1 : bp__workdir_path(dir, name, object);
}

static BpModule *make_module_in(const BpWorkdir *dir, MakeObject make, const BpByteArray *input,
                                const char *const *flags, const char *kept) {
  char object[PATH_MAX];
  return make(dir, input, flags, object) ? NULL : link_and_load(dir, object, flags, kept);
}

static BpModule *make_module(const BpCache *cache, MakeObject make, const BpByteArray *input,
                             const char *const *flags, const char *kept) {
  BpWorkdir dir;
  if (bp__workdir_create(&dir, cache))
    return NULL;
  BpModule *module = make_module_in(&dir, make, input, flags, kept);
  if (!module && bp__workdir_leave_cache(&dir, 0))
    module = make_module_in(&dir, make, input, flags, kept);
  bp__workdir_remove(&dir);
  return module;
}

/* Opens the cache of libraries unless its file system is mounted so that none can be loaded. */
static void open_libraries(BpCache *cache) {
  struct statvfs status;
  bp__cache_try_open(cache, SUBJECT);
  if (cache->fd < 0 || fstatvfs(cache->fd, &status) || !(status.f_flag & ST_NOEXEC))
    return;
  bp__cache_close(cache);
  bp_error_raise(BP_ERROR_IO,
                 "the file system of the cache directory %s is mounted noexec" BP_CACHE_REMEDY,
                 cache->path);
  bp__cache_warn();
}

/* The module that the compiler makes of `input`, from the cache or made now. */
static BpModule *get_module(const char *purpose, MakeObject make, const BpByteArray *input,
                            const char *const *flags) {
  char key[KEY_SIZE], kept[NAME_SIZE];
  BpCache cache;
  if (compute_key(purpose, input, flags, key))
    return NULL;
  name_file(key, ".so", kept);
  open_libraries(&cache);
  BpModule *module = load_cached(&cache, kept);
  if (!module)
    module = make_module(&cache, make, input, flags, kept);
  bp__cache_close(&cache);
  return module;
}

BpModule *bp__compile_load_c(const BpByteArray *source, const char *const *flags) {
  return get_module("library of source", compile_input, source, flags);
}

BpModule *bp__compile_load_object(const BpByteArray *object) {
  return get_module("library of object", write_input, object, NULL);
}

void bp__compile_open_cache(BpCache *cache) {
  bp__cache_try_open(cache, SUBJECT);
}
