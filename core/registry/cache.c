/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache: finding its folder, its files, and removing old ones. */

#include "core/registry/cache.h"

#include "core/registry/log.h"
#include "core/system/env.h"
#include "core/system/file.h"
#include "core/system/lock.h"
#include "core/system/trust.h"

#include <backplane/cache.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REMEDY       "; set BACKPLANE_CACHE_DIR to a directory that you own"
#define DEFAULT_SIZE 1024 /* MiB */
#define MOST_SIZE    (1 << 24)
#define RECENT_S     60 /* files used so recently may be in use */
#define OLD_S        (90 * 24 * 3600)
#define DIGEST_SIZE  32
#define HASH_DIGITS  (2 * DIGEST_SIZE)

/* ---- The folder -------------------------------------------------------------------------- */

/* What bp_cache_set_folder was given, or NULL; BP__LOCK_STATE guards it. */
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

static int is_subject(const char *text) {
  return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-_")];
}

/* The same, of a root that can be used; -1 with an error. */
static int format_usable_root(char *path, size_t size) {
  int length = format_root(path, size);
  if (length < 0)
    return bp_error_raise(BP_ERROR_IO, "there is no cache directory: HOME is not set" REMEDY);
  if ((size_t)length >= size)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the path of the cache directory takes more than %zu bytes", size);
  if (*path != '/')
    return bp_error_raise(BP_ERROR_IO,
                          "the cache directory \"%s\" is relative, and what lies in it is run as "
                          "code; give BACKPLANE_CACHE_DIR an absolute path",
                          path);
  return length;
}

static int format_path(const char *subject, char *path, size_t size) {
  if (!subject || !is_subject(subject))
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
  return bp_error_raise(BP_ERROR_IO, "cannot %s the cache directory %s: %s" REMEDY, doing, path,
                        strerror(errno));
}

/* A safe path stays safe, since nobody else can change it: between creating and opening the folder,
 * its path cannot be redirected. */
static int check_path(const char *path) {
  char *problem = bp__path_problem(path);
  if (!problem)
    return 0;
  bp_error_raise(BP_ERROR_IO,
                 "the cache directory %s is not used: %s, and what lies in it is run as code; "
                 "`chmod go-w`, or set BACKPLANE_CACHE_DIR to a directory that you own",
                 path, problem);
  free(problem);
  return -1;
}

/* Creates `path` and the folders above it. */
static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
    if (slash)
      *slash = '\0';
    int failed = mkdir(path, 0700) && errno != EEXIST && access(path, F_OK);
    int rc = failed ? raise_path("make", path) : 0;
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
    return bp_error_raise(BP_ERROR_IO, "the cache directory %s belongs to another user" REMEDY,
                          cache->path);
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
  if (bp_error_is(BP_ERROR_FORMAT)) /* that file is removed now */
    bp__log(BP_LOG_WARNING, "%s", bp_error_message());
  else if (atomic_exchange(&last, now) != now)
    bp__log(BP_LOG_WARNING, "compiled code is not cached: %s", bp_error_message());
  bp_error_clear();
}

void bp__cache_try_open(BpCache *cache, const char *subject) {
  if (bp__cache_open(cache, subject))
    bp__cache_warn();
}

int32_t bp__cache_dir(const char *subject, char *path, size_t size) {
  BpCache cache;
  if (format_path(subject, path, size) || bp__cache_open(&cache, subject))
    return -1;
  bp__cache_close(&cache);
  return 0;
}

int bp__cache_path(const BpCache *cache, const char *name, char *path) {
  int length = snprintf(path, PATH_MAX, "%s/%s", cache->path, name);
  if (length > 0 && length < PATH_MAX)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "the path \"%s/%s\" is too long", cache->path, name);
}

/* ---- Removing files ---------------------------------------------------------------------- */

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

/* Whether a file belongs to the cache: a hash and one of its suffixes. */
static int is_kept_name(const char *name) {
  static const char *const suffixes[] = {"", ".o", ".so", ".quarantine", ".lock"};
  if (strspn(name, "0123456789abcdef") != HASH_DIGITS)
    return 0;
  for (size_t i = 0; i < G_N_ELEMENTS(suffixes); i++)
    if (!strcmp(name + HASH_DIGITS, suffixes[i]))
      return 1;
  return 0;
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

/* Removes old files, and then the least recently used ones until the rest fits. */
static void prune(int folder, GArray *files, uint64_t limit, time_t now) {
  uint64_t size = 0;
  for (guint i = 0; i < files->len; ++i)
    size += g_array_index(files, Kept, i).size;
  g_array_sort(files, compare_use);
  for (guint i = 0; i < files->len; ++i) {
    const Kept *file = &g_array_index(files, Kept, i);
    int is_spare = size > limit && file->used < now - RECENT_S;
    if (!is_spare && file->used >= now - OLD_S)
      return;
    unlinkat(folder, file->name, 0);
    size -= file->size;
  }
}

/* Removes the working folder of a process that ended without removing it. A folder is locked while
 * its process lives. */
static void remove_abandoned(int folder, const char *name, const struct stat *status) {
  if (!S_ISDIR(status->st_mode)) {
    unlinkat(folder, name, 0);
    return;
  }
  int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB)) {
    bp__remove_files(fd);
    unlinkat(folder, name, AT_REMOVEDIR);
  }
  if (fd >= 0)
    close(fd);
}

/* Other processes do the same: each updates the time of a file before it uses it, and keeps files
 * with a recent time. */
static void tidy(const BpCache *cache) {
  const time_t now = time(NULL);
  const uint64_t limit = limit_bytes();
  int fd = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  if (!folder) {
    if (fd >= 0)
      close(fd);
    return;
  }
  GArray *files = g_array_new(FALSE, FALSE, sizeof(Kept));
  g_array_set_clear_func(files, free_kept);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    struct stat status;
    if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || status.st_uid != geteuid())
      continue;
    if (S_ISREG(status.st_mode) && is_kept_name(entry->d_name)) {
      const Kept file = {g_strdup(entry->d_name), status.st_mtime, (uint64_t)status.st_size};
      g_array_append_val(files, file);
    } else if (bp__is_temporary(entry->d_name) && status.st_mtime < now - RECENT_S) {
      remove_abandoned(fd, entry->d_name, &status);
    }
  }
  if (limit)
    prune(fd, files, limit, now);
  g_array_unref(files);
  closedir(folder);
}

/* ---- The whole --------------------------------------------------------------------------- */

typedef struct Usage {
  uint64_t files, bytes;
} Usage;

/* Adds the files of a subject's folder, or removes and adds them. Locks stay. */
static void add_files(int fd, DIR *folder, int removes, Usage *usage) {
  const time_t now = time(NULL);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    struct stat status;
    if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode) ||
        !is_kept_name(entry->d_name) || g_str_has_suffix(entry->d_name, ".lock"))
      continue;
    if (removes && (status.st_mtime >= now - RECENT_S || unlinkat(fd, entry->d_name, 0)))
      continue;
    usage->files++;
    usage->bytes += (uint64_t)status.st_size;
  }
}

static int add_subject(const char *subject, int removes, Usage *usage) {
  BpCache cache;
  if (bp__cache_open(&cache, subject))
    return -1;
  int fd = openat(cache.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  int status = folder ? 0 : raise_path("read", cache.path);
  if (folder) {
    add_files(fd, folder, removes, usage);
    closedir(folder);
  } else if (fd >= 0) {
    close(fd);
  }
  bp__cache_close(&cache);
  return status;
}

/* All subjects. Other files in the folder are ignored. */
static int visit_all(int removes, Usage *usage) {
  char *path = bp_cache_folder();
  DIR *root = path ? opendir(path) : NULL;
  int status = path ? 0 : -1;
  if (path && !root && errno != ENOENT)
    status = raise_path("read", path);
  for (const struct dirent *entry; root && status == 0 && (entry = readdir(root));) {
    struct stat about;
    if (is_subject(entry->d_name) &&
        !fstatat(dirfd(root), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) && S_ISDIR(about.st_mode))
      status = add_subject(entry->d_name, removes, usage);
  }
  if (root)
    closedir(root);
  bp_str_free(path);
  return status;
}

static int report(int removes, uint64_t *files, uint64_t *bytes) {
  Usage usage = {0, 0};
  int status = visit_all(removes, &usage);
  if (files)
    *files = usage.files;
  if (bytes)
    *bytes = usage.bytes;
  return status;
}

int bp_cache_set_folder(const char *path) {
  char *copy = NULL;
  if (path && *path) {
    if (*path != '/')
      return bp_error_raise(BP_ERROR_VALUE,
                            "the cache directory \"%s\" is relative, and what lies in it is run as "
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

int bp_cache_measure(uint64_t *files, uint64_t *bytes) {
  return report(0, files, bytes);
}

int bp_cache_clear(uint64_t *files, uint64_t *bytes) {
  return report(1, files, bytes);
}

/* ---- Files ------------------------------------------------------------------------------- */

typedef struct Trailer {
  char magic[8];
  uint8_t digest[DIGEST_SIZE];
} Trailer;

static const char trailer_magic[8] = {'B', 'P', 'C', 'A', 'C', 'H', 'E', '1'};

static void begin_hash(GChecksum *hash, uint64_t size) {
  g_checksum_update(hash, (const guchar *)&size, sizeof size);
}

void bp__cache_hash(GChecksum *hash, const char *data, size_t size) {
  const size_t most = (size_t)1 << 30; /* bytes of one update */
  begin_hash(hash, size);
  while (size) {
    size_t now = size < most ? size : most;
    g_checksum_update(hash, (const guchar *)data, (gssize)now);
    data += now;
    size -= now;
  }
}

/* Frees the hash. */
static void finish_trailer(GChecksum *hash, Trailer *trailer) {
  gsize size = DIGEST_SIZE;
  memcpy(trailer->magic, trailer_magic, sizeof trailer_magic);
  g_checksum_get_digest(hash, trailer->digest, &size);
  g_checksum_free(hash);
}

static void compute_trailer(const char *data, size_t size, Trailer *trailer) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  bp__cache_hash(hash, data, size);
  finish_trailer(hash, trailer);
}

/* The trailer of the next `size` bytes of a file; -1 with errno. */
static int read_trailer_of(int fd, uint64_t size, Trailer *trailer) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  char part[65536];
  ssize_t got = 0;
  begin_hash(hash, size);
  for (uint64_t left = size; left; left -= (uint64_t)got) {
    got = bp__read_up_to(fd, part, left < sizeof part ? (size_t)left : sizeof part);
    if (got <= 0)
      break;
    g_checksum_update(hash, (const guchar *)part, got);
  }
  finish_trailer(hash, trailer);
  return got < 0 ? -1 : 0;
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

/* Opens a file for use: *fd is -1 if it does not exist. It counts as used now. */
static int open_file(const BpCache *cache, const char *name, int *fd, size_t *size) {
  struct stat status;
  *fd = cache->fd < 0
            ? -1
            : openat(cache->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (*fd < 0)
    return cache->fd < 0 || errno == ENOENT ? 0 : raise_file(cache, "open", name);
  if (fstat(*fd, &status) || !S_ISREG(status.st_mode) || bp__others_may_write(&status)) {
    close(*fd);
    return bp_error_raise(BP_ERROR_IO,
                          "\"%s/%s\" is not used: it is not a file that this user alone may write",
                          cache->path, name);
  }
  futimens(*fd, NULL);
  *size = (size_t)status.st_size;
  return 0;
}

static int is_same(const Trailer *a, const Trailer *b) {
  return !memcmp(a, b, sizeof *a);
}

int bp__cache_load(const BpCache *cache, const char *name, char **data, size_t *size) {
  Trailer expected, found;
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
  compute_trailer(*data, *size, &expected);
  (*data)[*size] = '\0';
  if (length >= sizeof found && is_same(&expected, &found))
    return 0;
  free(*data);
  *data = NULL;
  return raise_damaged(cache, name);
}

/* 1: it is there and complete; 0: it is not there; -1 with an error. */
static int check_file(const BpCache *cache, const char *name) {
  Trailer expected, found = {.magic = ""};
  size_t size;
  int fd;
  if (open_file(cache, name, &fd, &size))
    return -1;
  if (fd < 0)
    return 0;
  int failed = size <= sizeof found || read_trailer_of(fd, size - sizeof found, &expected) ||
               bp__read_up_to(fd, &found, sizeof found) < 0;
  int error = errno;
  close(fd);
  if (failed && size > sizeof found) {
    errno = error;
    return raise_file(cache, "read", name);
  }
  return !failed && is_same(&expected, &found) ? 1 : raise_damaged(cache, name);
}

int bp__cache_has(const BpCache *cache, const char *name) {
  int found = check_file(cache, name);
  if (found < 0)
    bp__cache_warn();
  return found > 0;
}

int bp__cache_store(const BpCache *cache, const char *name, const char *data, size_t size) {
  Trailer trailer;
  if (cache->fd < 0)
    return 0;
  compute_trailer(data, size, &trailer);
  const struct iovec parts[] = {{(void *)(uintptr_t)data, size}, {&trailer, sizeof trailer}};
  if (bp__replace_file(cache->fd, name, parts, 2))
    return raise_file(cache, "write", name);
  tidy(cache);
  return 0;
}

/* Appends the trailer, and removes the right to write that a umask may have left to others. */
static int complete_file(int fd) {
  struct stat status;
  Trailer trailer;
  return fd < 0 || fstat(fd, &status) || fchmod(fd, status.st_mode & 0755) ||
                 read_trailer_of(fd, (uint64_t)status.st_size, &trailer) ||
                 bp__write_all(fd, &trailer, sizeof trailer)
             ? -1
             : 0;
}

int bp__cache_adopt(const BpCache *cache, int from, const char *file, const char *name) {
  int fd = openat(from, file, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  int failed = complete_file(fd), error = errno;
  if (fd >= 0 && close(fd) && !failed) {
    failed = -1;
    error = errno;
  }
  if (!failed && renameat(from, file, cache->fd, name)) {
    failed = -1;
    error = errno;
  }
  errno = error;
  if (failed)
    return raise_file(cache, "make", name);
  tidy(cache);
  return 0;
}

/* ---- Plugins' cached data ---------------------------------------------------------------- */

static char *hash_key(const BpByteArray *key) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  bp__cache_hash(hash, key->data, key->size);
  char *name = g_strdup(g_checksum_get_string(hash));
  g_checksum_free(hash);
  return name;
}

void bp__cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes) {
  BpCache cache;
  char *data = NULL;
  size_t size = 0;
  BpError *error = bp_error_take();
  char *name = hash_key(key);
  if (bp__cache_open(&cache, subject) || bp__cache_load(&cache, name, &data, &size))
    bp__cache_warn();
  *bytes = data ? (BpOwnedBytes){data, size, free} : (BpOwnedBytes){NULL, 0, NULL};
  bp__cache_close(&cache);
  g_free(name);
  if (error)
    bp_error_put(error);
}

void bp__cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes) {
  BpCache cache;
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

void bp_cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes) {
  bp__cache_read(subject, key, bytes);
}

void bp_cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes) {
  bp__cache_write(subject, key, bytes);
}

/* ---- Drivers' caches --------------------------------------------------------------------- */

char *bp__cache_home_unwritable(void) {
  char *path = bp__env_user_folder("XDG_CACHE_HOME", ".cache");
  struct stat status = {0};
  if (!path)
    return NULL;
  g_autofree char *above = g_strdup(path); /* the nearest existing folder of its path */
  while (stat(above, &status) && strcmp(above, "/")) {
    char *slash = strrchr(above, '/');
    slash[slash == above] = '\0';
  }
  if (!S_ISDIR(status.st_mode) || access(above, W_OK | X_OK))
    return path;
  g_free(path);
  return NULL;
}
