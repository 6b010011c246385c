/* SPDX-License-Identifier: Apache-2.0 */
/* Adding, removing and counting the files of the user's cache. */

#include "core/registry/cache.h"
#include "core/registry/log.h"
#include "core/registry/part.h"
#include "core/system/env.h"
#include "parts/file.h"

#include <backplane/cache.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SIZE 1024 /* MiB */
#define MOST_SIZE    (1 << 24)
#define OLD_S        (90 * 24 * 3600)

/* ---- Removing files ---------------------------------------------------------------------- */

/* Returns the limit of a folder's size. */
static uint64_t limit_bytes(void) {
  const char *text = bp__env_get("BACKPLANE_CACHE_SIZE");
  guint64 mebibytes = DEFAULT_SIZE;
  if (text && !g_ascii_string_to_unsigned(text, 10, 0, MOST_SIZE, &mebibytes, NULL)) {
    mebibytes = DEFAULT_SIZE;
    bp__log(BP_LOG_WARNING,
            "BACKPLANE_CACHE_SIZE is \"%s\", not a number of MiB from 0 to %d; ignored", text,
            MOST_SIZE);
  }
  return mebibytes ? mebibytes << 20 : UINT64_MAX;
}

/* Whether a file belongs to the cache: its name is a hash and one of the cache's suffixes. */
static int is_kept_name(const char *name) {
  static const char *const suffixes[] = {"", ".o", ".so", ".quarantine", ".lock"};
  if (strspn(name, "0123456789abcdef") != BP_CACHE_HASH_DIGITS)
    return 0;
  for (size_t i = 0; i < G_N_ELEMENTS(suffixes); i++)
    if (!strcmp(name + BP_CACHE_HASH_DIGITS, suffixes[i]))
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
    int is_spare = size > limit && !bp__is_recent(file->used, now);
    if (!is_spare && file->used >= now - OLD_S)
      return;
    unlinkat(folder, file->name, 0);
    size -= file->size;
  }
}

/* Removes a file or working folder with a temporary name that no process uses any more. */
static void remove_temporary(int folder, const char *name, const struct stat *status) {
  if (S_ISDIR(status->st_mode))
    bp__remove_abandoned(folder, name);
  else if (!bp__is_recent(status->st_mtime, time(NULL)))
    unlinkat(folder, name, 0);
}

/* Adds a file of the cache to `files`. A file whose time is in the future would never become old:
 * it gets the present time. */
static void add_kept(GArray *files, int folder, const char *name, const struct stat *status,
                     time_t now) {
  Kept file = {g_strdup(name), status->st_mtime, (uint64_t)status->st_size};
  if (file.used > now && !bp__is_recent(file.used, now)) {
    utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW);
    file.used = now;
  }
  g_array_append_val(files, file);
}

/* Removes old files of the cache. Every process updates the time of a file before it uses the file,
 * and no process removes a file with a recent time. */
static void tidy(const BpCache *cache) {
  const time_t now = time(NULL);
  const uint64_t limit = limit_bytes();
  DIR *folder = bp__open_entries(cache->fd);
  if (!folder)
    return;
  GArray *files = g_array_new(FALSE, FALSE, sizeof(Kept));
  g_array_set_clear_func(files, free_kept);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    struct stat status;
    if (fstatat(cache->fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
        status.st_uid != geteuid())
      continue;
    if (S_ISREG(status.st_mode) && is_kept_name(entry->d_name))
      add_kept(files, cache->fd, entry->d_name, &status, now);
    else if (bp__is_temporary(entry->d_name))
      remove_temporary(cache->fd, entry->d_name, &status);
  }
  prune(cache->fd, files, limit, now);
  g_array_unref(files);
  closedir(folder);
}

/* ---- Counting all files ------------------------------------------------------------------ */

typedef struct Usage {
  uint64_t files, bytes;
} Usage;

static int raise_read(const char *path) {
  return bp_error_raise(BP_ERROR_IO, "cannot read the cache directory %s: %s" BP_CACHE_REMEDY, path,
                        g_strerror(errno));
}

/* Counts the files of a subject's folder. With `removes`, removes the files, except recent ones,
 * and counts the removed files; files and folders of killed processes go too. Lock files are
 * kept. */
static void add_files(int fd, DIR *folder, int removes, Usage *usage) {
  const time_t now = time(NULL);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    struct stat status;
    if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
      continue;
    if (removes && bp__is_temporary(entry->d_name) && status.st_uid == geteuid())
      remove_temporary(fd, entry->d_name, &status);
    if (!S_ISREG(status.st_mode) || !is_kept_name(entry->d_name) ||
        g_str_has_suffix(entry->d_name, ".lock"))
      continue;
    if (removes && (bp__is_recent(status.st_mtime, now) || unlinkat(fd, entry->d_name, 0)))
      continue;
    usage->files++;
    usage->bytes += (uint64_t)status.st_size;
  }
}

static int add_subject(const char *subject, int removes, Usage *usage) {
  BpCache cache;
  if (bp__cache_open(&cache, subject))
    return -1;
  DIR *folder = bp__open_entries(cache.fd);
  int status = folder ? 0 : raise_read(cache.path);
  if (folder) {
    add_files(cache.fd, folder, removes, usage);
    closedir(folder);
  }
  bp__cache_close(&cache);
  return status;
}

/* Counts all subjects. Other files in the folder are ignored. */
static int visit_all(int removes, Usage *usage) {
  char *path = bp_cache_folder();
  DIR *root = path ? opendir(path) : NULL;
  int status = path ? 0 : -1;
  if (path && !root && errno != ENOENT)
    status = raise_read(path);
  for (const struct dirent *entry; root && status == 0 && (entry = readdir(root));) {
    struct stat about;
    if (bp__cache_is_subject(entry->d_name) &&
        !fstatat(dirfd(root), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) && S_ISDIR(about.st_mode))
      status = add_subject(entry->d_name, removes, usage);
  }
  if (root)
    closedir(root);
  bp_str_free(path);
  return status;
}

static int count(int removes, uint64_t *files, uint64_t *bytes) {
  Usage usage = {0, 0};
  int status = visit_all(removes, &usage);
  *files = usage.files;
  *bytes = usage.bytes;
  return status;
}

/* ---- Adding a file ----------------------------------------------------------------------- */

static int store(const BpCache *cache, const char *name, const char *data, size_t size) {
  BpCacheTrailer trailer;
  bp__cache_trailer(data, size, &trailer);
  const struct iovec parts[] = {{(void *)(uintptr_t)data, size}, {&trailer, sizeof trailer}};
  if (bp__replace_file(cache->fd, name, parts, 2))
    return bp_error_raise(BP_ERROR_IO, "cannot write \"%s/%s\": %s", cache->path, name,
                          strerror(errno));
  tidy(cache);
  return 0;
}

static const CacheUpkeep upkeep = {.store = store, .tidy = tidy, .count = count};

BP__PART(BP_PART_CACHE, upkeep);
