/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping compiled files. */

#include "core/module/cache.h"

#include "core/registry/cache_dir.h"
#include "core/system/env.h"
#include "core/registry/log.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SIZE 1024 /* MiB */
#define MOST_SIZE    (1 << 24)
#define RECENT_S     60 /* what was used so recently may be in use */
#define DIGEST_SIZE  32
#define ROOM         (32 << 20) /* of a working directory, bytes */

typedef struct Trailer {
  char magic[8];
  uint8_t digest[DIGEST_SIZE];
} Trailer;

static const char trailer_magic[8] = {'B', 'P', 'C', 'A', 'C', 'H', 'E', '1'};

void bp__cache_hash(GChecksum *hash, const char *data, size_t size) {
  const size_t most = (size_t)1 << 30; /* of one update */
  uint64_t length = size;
  g_checksum_update(hash, (const guchar *)&length, sizeof length);
  while (size) {
    size_t now = size < most ? size : most;
    g_checksum_update(hash, (const guchar *)data, (gssize)now);
    data += now;
    size -= now;
  }
}

/* Says what keeps the cache from being used, and goes on. */
static void warn(void) {
  bp__log(BP_LOG_WARNING, "compiled code is not cached: %s", bp_error_message());
  bp_error_clear();
}

/* The cache's directory, absolute, as compilers run elsewhere. */
static int find_directory(const char *subject, char *path) {
  char given[PATH_MAX];
  if (bp__cache_dir(subject, given, sizeof given))
    return -1;
  if (realpath(given, path))
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot resolve the cache directory \"%s\": %s", given,
                        strerror(errno));
}

/* Whether a compiler's files have room in a directory. File systems that cannot tell have. Beyond
 * what a file of this process may take, asking would end it. */
static int check_room(const BpWorkdir *dir) {
  char path[PATH_MAX];
  struct rlimit most;
  off_t size = getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur > ROOM ? ROOM : (off_t)most.rlim_cur;
  if (bp__workdir_path(dir, "room", path))
    return -1;
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  int is_full = (fd < 0 || fallocate(fd, 0, 0, size)) && (errno == ENOSPC || errno == EDQUOT);
  int rc = is_full ? bp_error_raise(BP_ERROR_IO, "cannot write into \"%s\": %s", dir->path,
                                    strerror(errno))
                   : 0;
  if (fd >= 0)
    close(fd);
  unlink(path);
  return rc;
}

int bp__cache_workdir(const char *subject, BpWorkdir *dir) {
  char directory[PATH_MAX];
  if (!find_directory(subject, directory) && !bp__workdir_create(dir, directory)) {
    if (!check_room(dir))
      return 0;
    bp__workdir_remove(dir);
  }
  warn();
  return bp__workdir_create(dir, NULL);
}

void bp__cache_locate(const char *subject, const char *name, char *path) {
  char directory[PATH_MAX];
  int length =
      find_directory(subject, directory) ? -1 : snprintf(path, PATH_MAX, "%s/%s", directory, name);
  if (length < 0 || length >= PATH_MAX)
    path[0] = '\0';
  bp_error_clear();
}

static void compute_digest(const char *data, size_t size, uint8_t *digest) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  gsize digest_size = DIGEST_SIZE;
  bp__cache_hash(hash, data, size);
  g_checksum_get_digest(hash, digest, &digest_size);
  g_checksum_free(hash);
}

static int is_intact(const BpMappedFile *file) {
  uint8_t digest[DIGEST_SIZE];
  Trailer trailer;
  if (file->size <= sizeof trailer)
    return 0;
  size_t size = file->size - sizeof trailer;
  memcpy(&trailer, file->data + size, sizeof trailer);
  compute_digest(file->data, size, digest);
  return !memcmp(trailer.magic, trailer_magic, sizeof trailer_magic) &&
         !memcmp(trailer.digest, digest, DIGEST_SIZE);
}

/* ---- Size -------------------------------------------------------------------------------- */

static uint64_t limit_bytes(void) {
  const char *text = bp__env_get("BACKPLANE_CACHE_SIZE");
  guint64 mebibytes = DEFAULT_SIZE;
  if (text && !g_ascii_string_to_unsigned(text, 10, 0, MOST_SIZE, &mebibytes, NULL)) {
    mebibytes = DEFAULT_SIZE;
    bp__log(BP_LOG_WARNING,
            "BACKPLANE_CACHE_SIZE is \"%s\", not a number of MiB from 0 to %d; ignored", text,
            MOST_SIZE);
  }
  return mebibytes << 20;
}

/* A file of the cache. */
typedef struct Kept {
  char *name;
  time_t used;
  uint64_t size;
} Kept;

static void free_kept(void *kept) {
  g_free(((Kept *)kept)->name);
}

static int compare_use(const void *a, const void *b) {
  const Kept *first = a, *second = b;
  return (first->used > second->used) - (first->used < second->used);
}

/* Removes what was not used for longest until the files fit. */
static void prune(int directory, GArray *files, uint64_t limit, time_t recent) {
  uint64_t size = 0;
  for (guint i = 0; i < files->len; ++i)
    size += g_array_index(files, Kept, i).size;
  g_array_sort(files, compare_use);
  for (guint i = 0; i < files->len && size > limit; ++i) {
    const Kept *file = &g_array_index(files, Kept, i);
    if (file->used >= recent)
      return;
    unlinkat(directory, file->name, 0);
    size -= file->size;
  }
}

/* Keeps the cache within its limit and removes what a process that crashed left there. Other
 * processes do the same: each touches what it is about to use and leaves alone what was touched
 * just now. */
static void tidy(const char *path) {
  const time_t recent = time(NULL) - RECENT_S;
  const uint64_t limit = limit_bytes();
  DIR *directory = opendir(path);
  if (!directory)
    return;
  GArray *files = g_array_new(FALSE, FALSE, sizeof(Kept));
  g_array_set_clear_func(files, free_kept);
  for (const struct dirent *entry; (entry = readdir(directory));) {
    struct stat status;
    if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
      continue;
    if (S_ISREG(status.st_mode)) {
      const Kept file = {g_strdup(entry->d_name), status.st_mtime, (uint64_t)status.st_size};
      g_array_append_val(files, file);
    } else if (S_ISDIR(status.st_mode) && status.st_mtime < recent &&
               g_str_has_prefix(entry->d_name, BP_WORKDIR_PREFIX)) {
      bp__workdir_remove_abandoned(dirfd(directory), entry->d_name);
    }
  }
  if (limit)
    prune(dirfd(directory), files, limit, recent);
  g_array_unref(files);
  closedir(directory);
}

/* ---- Files ------------------------------------------------------------------------------- */

/* The file at a place, whole (transfer full), or NULL, with no error. */
static BpMappedFile *open_file(const char *place) {
  if (!*place || utimensat(AT_FDCWD, place, NULL, 0))
    return NULL;
  BpMappedFile *file = bp__file_map(place);
  if (file && is_intact(file))
    return file;
  /* One that cannot be read may be good, and others may be able to read it. */
  if (!file && !bp_error_is(BP_ERROR_FORMAT)) {
    warn();
    return NULL;
  }
  bp_object_release(file);
  bp__log(BP_LOG_WARNING, "the cached file \"%s\" is damaged and is made anew", place);
  bp_error_clear();
  unlink(place);
  return NULL;
}

int bp__cache_has(const char *place) {
  BpMappedFile *file = open_file(place);
  bp_object_release(file);
  return file != NULL;
}

static int append_trailer(const char *path) {
  Trailer trailer;
  BpMappedFile *file = bp__file_map(path);
  if (!file)
    return -1;
  memcpy(trailer.magic, trailer_magic, sizeof trailer_magic);
  compute_digest(file->data, file->size, trailer.digest);
  bp_object_release(file);
  int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  int failed = fd < 0 || bp__write_all(fd, (const char *)&trailer, sizeof trailer);
  if (failed)
    bp_error_raise(BP_ERROR_IO, "cannot write to \"%s\": %s", path, strerror(errno));
  if (fd >= 0)
    close(fd);
  return failed ? -1 : 0;
}

/* Whether the working directory of the file at `path` is where bp__cache_workdir makes it. */
static int is_in_cache(const char *place, const char *path) {
  size_t length = (size_t)(strrchr(place, '/') + 1 - place);
  return !strncmp(place, path, length);
}

void bp__cache_move_in(const char *place, char *path) {
  if (!*place || !is_in_cache(place, path))
    return;
  if (append_trailer(path)) {
    warn();
  } else if (rename(path, place)) {
    bp_error_raise(BP_ERROR_IO, "cannot make \"%s\": %s", place, strerror(errno));
    warn();
  } else {
    char *directory = g_path_get_dirname(place);
    snprintf(path, PATH_MAX, "%s", place);
    tidy(directory);
    g_free(directory);
  }
}

/* ---- What plugins keep ------------------------------------------------------------------- */

static void locate_key(const char *subject, const BpByteArray *key, char *place) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  bp__cache_hash(hash, key->data, key->size);
  bp__cache_locate(subject, g_checksum_get_string(hash), place);
  g_checksum_free(hash);
}

static BpOwnedBytes read_place(const char *place) {
  BpMappedFile *file = open_file(place);
  size_t size = file ? file->size - sizeof(Trailer) : 0;
  char *copy = file ? malloc(size + 1) : NULL;
  if (copy) {
    memcpy(copy, file->data, size);
    copy[size] = '\0';
  }
  bp_object_release(file);
  return copy ? (BpOwnedBytes){copy, size, free} : (BpOwnedBytes){NULL, 0, NULL};
}

static void write_place(const char *subject, const char *place, const BpByteArray *bytes) {
  static const char name[] = "bytes";
  char directory[PATH_MAX], path[PATH_MAX];
  BpWorkdir dir;
  if (find_directory(subject, directory) || bp__workdir_create(&dir, directory)) {
    warn();
    return;
  }
  if (bp__workdir_path(&dir, name, path) || bp__workdir_write(&dir, name, bytes))
    warn();
  else
    bp__cache_move_in(place, path);
  bp__workdir_remove(&dir);
}

void bp__cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes) {
  char place[PATH_MAX];
  BpError *error = bp_error_take();
  locate_key(subject, key, place);
  *bytes = read_place(place);
  if (error)
    bp_error_put(error);
}

void bp__cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes) {
  char place[PATH_MAX];
  BpError *error = bp_error_take();
  locate_key(subject, key, place);
  if (bytes->size)
    write_place(subject, place, bytes);
  if (error)
    bp_error_put(error);
}
