/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache: its folder and its files. The part parts/cache removes and counts the files. */

#include "core/registry/cache.h"

#include "core/registry/argument.h"
#include "core/registry/log.h"
#include "core/registry/part.h"
#include "core/system/env.h"
#include "core/system/file.h"
#include "core/system/lock.h"
#include "core/system/trust.h"

#include <backplane/cache.h>
#include <backplane/error.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The folder -------------------------------------------------------------------------- */

/* The folder of bp_cache_set_folder, or NULL; BP__LOCK_STATE guards it. */
static char *given_folder;

static int format_given(char *path, size_t size) {
  bp__lock(BP__LOCK_STATE);
  int length = given_folder ? snprintf(path, size, "%s", given_folder) : -1;
  bp__unlock(BP__LOCK_STATE);
  return length;
}

/* Stores the root of the cache in `path`; returns its length like snprintf, or -1 if there is
 * none. */
static int format_root(char *path, size_t size) {
  int length = format_given(path, size);
  const char *dir = bp__env_get("BACKPLANE_CACHE_DIR");
  if (length >= 0)
    return length;
  if (dir)
    return snprintf(path, size, "%s", dir);
  g_autofree char *home = bp__env_user_folder("XDG_CACHE_HOME", ".cache");
  return home ? snprintf(path, size, "%s/backplane", home) : -1;
}

int bp__cache_is_subject(const char *text) {
  return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-_")];
}

/* Stores the root of a usable cache in `path`; -1 with an error. */
static int format_usable_root(char *path, size_t size) {
  int length = format_root(path, size);
  if (length < 0)
    return bp_error_raise(BP_ERROR_IO,
                          "there is no cache directory: HOME is not set" BP_CACHE_REMEDY);
  if ((size_t)length >= size)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the path of the cache directory takes more than %zu bytes", size);
  if (*path != '/')
    return bp_error_raise(BP_ERROR_IO,
                          "the cache directory \"%s\" is relative, and its files are run as "
                          "code; give BACKPLANE_CACHE_DIR an absolute path",
                          path);
  return length;
}

static int format_path(const char *subject, char *path, size_t size) {
  if (!subject || !bp__cache_is_subject(subject))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the subject of a cache directory is letters, digits, '-' and '_'");
  int length = format_usable_root(path, size);
  if (length < 0)
    return -1;
  length += snprintf(path + length, size - (size_t)length, "/%s", subject);
  if ((size_t)length >= size)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the path of the cache directory takes more than %zu bytes", size);
  return 0;
}

static int raise_path(const char *doing, const char *path) {
  return bp_error_raise(BP_ERROR_IO, "cannot %s the cache directory %s: %s" BP_CACHE_REMEDY, doing,
                        path, strerror(errno));
}

/* A safe path stays safe, since other users cannot change it: the path cannot be redirected between
 * creating and opening the folder. */
static int check_path(const char *path) {
  char *problem = bp__path_problem(path);
  if (!problem)
    return 0;
  bp_error_raise(BP_ERROR_IO,
                 "the cache directory %s is not used: %s, and its files are run as code; "
                 "`chmod go-w`, or set BACKPLANE_CACHE_DIR to a directory that you own",
                 path, problem);
  free(problem);
  return -1;
}

/* Creates a folder unless it exists. The umask may deny the owner, too. */
static int make_folder(const char *path) {
  if (!mkdir(path, 0700))
    return chmod(path, 0700);
  int error = errno;
  int exists = error == EEXIST || !access(path, F_OK);
  errno = error;
  return exists ? 0 : -1;
}

/* Creates `path` and the folders above it. */
static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
    if (slash)
      *slash = '\0';
    int rc = make_folder(path) ? raise_path("make", path) : 0;
    if (slash)
      *slash = '/';
    if (rc || !slash)
      return rc;
  }
}

static int check_own(const BpCache *cache) {
  struct stat status;
  if (fstat(cache->fd, &status))
    return raise_path("look at", cache->path);
  if (status.st_uid != geteuid())
    return bp_error_raise(
        BP_ERROR_IO, "the cache directory %s belongs to another user" BP_CACHE_REMEDY, cache->path);
  return faccessat(cache->fd, ".", W_OK | X_OK, AT_EACCESS) ? raise_path("write to", cache->path)
                                                            : 0;
}

static int open_folder(BpCache *cache) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  if (check_path(cache->path))
    return -1;
  cache->fd = open(cache->path, flags);
  if (cache->fd < 0 && errno == ENOENT) {
    if (make_folders(cache->path) || check_path(cache->path))
      return -1;
    cache->fd = open(cache->path, flags);
  }
  return cache->fd < 0 ? raise_path("open", cache->path) : check_own(cache);
}

int bp__cache_open(BpCache *cache, const char *subject) {
  cache->fd = -1;
  int rc = format_path(subject, cache->path, sizeof cache->path);
  if (!rc && (rc = open_folder(cache)))
    bp__cache_close(cache);
  return rc;
}

void bp__cache_close(BpCache *cache) {
  if (cache->fd >= 0)
    close(cache->fd);
  cache->fd = -1;
}

void bp__cache_warn(void) {
  static atomic_uint last; /* a hash of the last message, which is logged once */
  unsigned now = g_str_hash(bp_error_message());
  if (bp_error_is(BP_ERROR_FORMAT)) /* the damaged file is removed */
    bp__log(BP_LOG_WARNING, "%s", bp_error_message());
  else if (atomic_exchange(&last, now) != now)
    bp__log(BP_LOG_WARNING, "compiled code is not cached: %s", bp_error_message());
  bp_error_clear();
}

int32_t bp__cache_dir(const char *subject, char *path, size_t size) {
  BpCache cache;
  if (!BP_NOT_NULL(path) || format_path(subject, path, size) || bp__cache_open(&cache, subject))
    return -1;
  bp__cache_close(&cache);
  return 0;
}

/* ---- Upkeep ------------------------------------------------------------------------------ */

void bp__cache_tidy(const BpCache *cache) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  const CacheUpkeep *upkeep = bp__part_table(BP_PART_CACHE);
  if (upkeep)
    upkeep->tidy(cache);
  else {
    if (!atomic_flag_test_and_set(&is_told))
      bp__log(BP_LOG_WARNING, "no old file of the cache is removed: %s", bp_error_message());
    bp_error_clear();
  }
}

static int count(int removes, uint64_t *files, uint64_t *bytes) {
  const CacheUpkeep *upkeep = bp__part_table(BP_PART_CACHE);
  uint64_t counted[2] = {0, 0};
  int rc = upkeep ? upkeep->count(removes, &counted[0], &counted[1]) : -1;
  if (files)
    *files = counted[0];
  if (bytes)
    *bytes = counted[1];
  return rc;
}

int bp_cache_measure(uint64_t *files, uint64_t *bytes) {
  return count(0, files, bytes);
}

int bp_cache_clear(uint64_t *files, uint64_t *bytes) {
  return count(1, files, bytes);
}

/* ---- The root ---------------------------------------------------------------------------- */

int bp_cache_set_folder(const char *path) {
  char *copy = NULL;
  if (path && *path) {
    if (*path != '/')
      return bp_error_raise(BP_ERROR_VALUE,
                            "the cache directory \"%s\" is relative, and its files are run as "
                            "code; give an absolute path",
                            path);
    copy = strdup(path);
    if (!copy)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for the path of the cache");
  }
  bp__lock(BP__LOCK_STATE);
  char *before = given_folder;
  given_folder = copy;
  bp__unlock(BP__LOCK_STATE);
  free(before);
  return 0;
}

char *bp_cache_folder(void) {
  char path[PATH_MAX];
  if (format_usable_root(path, sizeof path) < 0)
    return NULL;
  char *copy = strdup(path);
  if (!copy)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the path of the cache");
  return copy;
}

/* ---- Files ------------------------------------------------------------------------------- */

static const char trailer_magic[8] = {'B', 'P', 'C', 'A', 'C', 'H', 'E', '1'};

void bp__cache_hash(GChecksum *hash, const char *data, size_t size) {
  const size_t most = (size_t)1 << 30; /* bytes of one update */
  const uint64_t length = size;
  g_checksum_update(hash, (const guchar *)&length, sizeof length);
  while (size) {
    size_t now = size < most ? size : most;
    g_checksum_update(hash, (const guchar *)data, (gssize)now);
    data += now;
    size -= now;
  }
}

void bp__cache_trailer(const char *data, size_t size, BpCacheTrailer *trailer) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  gsize length = BP_CACHE_DIGEST_SIZE;
  bp__cache_hash(hash, data, size);
  memcpy(trailer->magic, trailer_magic, sizeof trailer_magic);
  g_checksum_get_digest(hash, trailer->digest, &length);
  g_checksum_free(hash);
}

static int raise_file(const BpCache *cache, const char *doing, const char *name) {
  return bp_error_raise(BP_ERROR_IO, "cannot %s \"%s/%s\": %s", doing, cache->path, name,
                        strerror(errno));
}

static int raise_damaged(const BpCache *cache, const char *name) {
  unlinkat(cache->fd, name, 0);
  return bp_error_raise(BP_ERROR_FORMAT,
                        "the cached file \"%s/%s\" is damaged and will be made again", cache->path,
                        name);
}

/* Opens a file for use and updates its time of use; *fd is -1 if the file does not exist. */
static int open_file(const BpCache *cache, const char *name, int *fd, size_t *size) {
  struct stat status;
  *fd = cache->fd < 0
            ? -1
            : openat(cache->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (*fd < 0)
    return cache->fd < 0 || errno == ENOENT ? 0 : raise_file(cache, "open", name);
  if (fstat(*fd, &status) || !S_ISREG(status.st_mode) || bp__others_may_write(NULL, *fd, &status)) {
    close(*fd);
    return bp_error_raise(BP_ERROR_IO,
                          "\"%s/%s\" is not used: it is not a file that this user alone may write",
                          cache->path, name);
  }
  futimens(*fd, NULL);
  *size = (size_t)status.st_size;
  return 0;
}

int bp__cache_load(const BpCache *cache, const char *name, char **data, size_t *size) {
  BpCacheTrailer expected, found;
  size_t length;
  int fd;
  *data = NULL;
  if (open_file(cache, name, &fd, &length))
    return -1;
  if (fd < 0)
    return 0;
  *data = bp__read_all(fd, length, &length);
  int error = errno;
  close(fd);
  if (!*data) {
    errno = error;
    return raise_file(cache, "read", name);
  }
  *size = length < sizeof found ? 0 : length - sizeof found;
  memcpy(&found, *data + *size, length < sizeof found ? length : sizeof found);
  bp__cache_trailer(*data, *size, &expected);
  (*data)[*size] = '\0';
  if (length >= sizeof found && !memcmp(&expected, &found, sizeof found))
    return 0;
  free(*data);
  *data = NULL;
  return raise_damaged(cache, name);
}

int bp__cache_store(const BpCache *cache, const char *name, const char *data, size_t size) {
  const CacheUpkeep *upkeep = cache->fd < 0 ? NULL : bp__part_table(BP_PART_CACHE);
  return upkeep ? upkeep->store(cache, name, data, size) : cache->fd < 0 ? 0 : -1;
}

/* ---- Plugins' cached data ---------------------------------------------------------------- */

static char *hash_key(const BpByteArray *key) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  bp__cache_hash(hash, key->data, key->size);
  char *name = g_strdup(g_checksum_get_string(hash));
  g_checksum_free(hash);
  return name;
}

void bp_cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes) {
  BpCache cache;
  char *data = NULL;
  size_t size = 0;
  if (!BP_NOT_NULL(bytes))
    return;
  *bytes = (BpOwnedBytes){NULL, 0, NULL};
  if (!BP_NOT_NULL(subject) || !BP_NOT_NULL(key))
    return;
  BpError *error = bp_error_take();
  char *name = hash_key(key);
  if (bp__cache_open(&cache, subject) || bp__cache_load(&cache, name, &data, &size))
    bp__cache_warn();
  if (data)
    *bytes = (BpOwnedBytes){data, size, free};
  bp__cache_close(&cache);
  g_free(name);
  if (error)
    bp_error_put(error);
}

void bp_cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes) {
  BpCache cache;
  if (!BP_NOT_NULL(subject) || !BP_NOT_NULL(key) || !BP_NOT_NULL(bytes))
    return;
  BpError *error = bp_error_take();
  char *name = hash_key(key);
  if (bytes->size) {
    if (bp__cache_open(&cache, subject) || bp__cache_store(&cache, name, bytes->data, bytes->size))
      bp__cache_warn();
    bp__cache_close(&cache);
  }
  g_free(name);
  if (error)
    bp_error_put(error);
}
