/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for the files of one run of a compiler. */

#include "parts/toolchain/workdir.h"

#include "core/registry/log.h"
#include "core/system/env.h"
#include "core/system/file.h"
#include "core/system/trust.h"
#include "parts/file.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define ROOM (32 << 20) /* space for the compiler's output, in bytes */

/* ---- The cache --------------------------------------------------------------------------- */

void bp__cache_try_open(BpCache *cache, const char *subject) {
  if (bp__cache_open(cache, subject))
    bp__cache_warn();
}

int bp__cache_path(const BpCache *cache, const char *name, char *path) {
  int length = snprintf(path, PATH_MAX, "%s/%s", cache->path, name);
  if (length > 0 && length < PATH_MAX)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "the path \"%s/%s\" is too long", cache->path, name);
}

/* ---- Making ------------------------------------------------------------------------------ */

#define TMPDIR_REMEDY "; set TMPDIR to a directory that you may write to"

/* `remedy` ends the message of an error. */
static int create_in(BpWorkdir *dir, int parent, const char *path, const char *remedy) {
  char name[BP_TEMPORARY_SIZE];
  dir->cache = NULL;
  dir->path[0] = '\0';
  dir->fd = parent < 0 ? -1 : bp__temporary_folder(parent, name);
  if (dir->fd < 0)
    return bp_error_raise(BP_ERROR_IO,
                          "cannot make a directory for temporary files in \"%s\": %s%s", path,
                          strerror(errno), remedy);
  flock(dir->fd, LOCK_EX | LOCK_NB);
  snprintf(dir->path, sizeof dir->path, "%s/%s", path, name);
  if (strlen(path) + sizeof name < sizeof dir->path)
    return 0;
  close(dir->fd);
  unlinkat(parent, name, AT_REMOVEDIR);
  dir->path[0] = '\0';
  return bp_error_raise(BP_ERROR_IO, "the path \"%s\" is too long for temporary files", path);
}

static int write_zeros(int fd, off_t size) {
  static const char zeros[1 << 16];
  for (; size > 0; size -= (off_t)sizeof zeros)
    if (bp__write_all(fd, zeros, (size_t)MIN(size, (off_t)sizeof zeros)))
      return -1;
  return 0;
}

/* Returns 0, or the errno of a lack of space for a file. Some file systems (NFS) cannot reserve
 * space, and tell of a full quota only when bytes are written or the file is closed. Unless
 * `writes`, these are assumed to have space. */
static int find_lack(int fd, off_t size, int writes) {
  int failed = bp__reserve(fd, size), error = errno;
  int is_full = failed && (error == ENOSPC || error == EDQUOT);
  if (failed && !is_full && writes && write_zeros(fd, size)) {
    is_full = 1;
    error = errno;
  }
  if (close(fd) && !is_full)
    return errno;
  return is_full ? error : 0;
}

static int check_room(const BpWorkdir *dir, off_t size, int writes) {
  static const char name[] = "room";
  int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  int error = fd >= 0                              ? find_lack(fd, size, writes)
              : errno == ENOSPC || errno == EDQUOT ? errno
                                                   : 0;
  unlinkat(dir->fd, name, 0);
  if (!error)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot write into \"%s\": %s", dir->path, strerror(error));
}

static int create_in_cache(BpWorkdir *dir, const BpCache *cache) {
  if (create_in(dir, cache->fd, cache->path, BP_CACHE_REMEDY))
    return -1;
  if (check_room(dir, ROOM, 0)) {
    bp__workdir_remove(dir);
    return -1;
  }
  dir->cache = cache;
  return 0;
}

/* Returns the folder for temporary files. Programs that a compiler makes in the folder are run
 * later. */
static const char *temporary_place(void) {
  const char *path = bp__env_get("TMPDIR");
  char *problem = path && *path == '/' ? bp__path_problem(path) : NULL;
  if (problem)
    bp__log(BP_LOG_WARNING, "TMPDIR=%s is not used, but /tmp: %s", path, problem);
  int is_usable = path && *path == '/' && !problem;
  free(problem);
  return is_usable ? path : "/tmp";
}

/* Removes working folders of processes that were killed. */
static void tidy_temporary(int place) {
  DIR *entries = bp__open_entries(place);
  for (const struct dirent *entry; entries && (entry = readdir(entries));)
    if (bp__is_temporary(entry->d_name))
      bp__remove_abandoned(place, entry->d_name);
  if (entries)
    closedir(entries);
}

int bp__workdir_create(BpWorkdir *dir, const BpCache *cache) {
  if (cache && cache->fd >= 0) {
    if (!create_in_cache(dir, cache))
      return 0;
    bp__cache_warn();
  }
  const char *place = temporary_place();
  int parent = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int rc = create_in(dir, parent, place, TMPDIR_REMEDY);
  if (parent >= 0) {
    tidy_temporary(parent);
    close(parent);
  }
  return rc;
}

void bp__workdir_remove(BpWorkdir *dir) {
  if (!dir->path[0])
    return;
  bp__remove_files(dir->fd);
  rmdir(dir->path);
  dir->path[0] = '\0';
}

/* Checks that the directory exists and has space for `size` bytes. -1 with an error. */
static int check_sound(const BpWorkdir *dir, off_t size) {
  struct stat own, found;
  return fstat(dir->fd, &own) || stat(dir->path, &found) || own.st_dev != found.st_dev ||
                 own.st_ino != found.st_ino
             ? bp_error_raise(BP_ERROR_IO, "\"%s\" was removed while it was in use", dir->path)
             : check_room(dir, size, 1);
}

int bp__workdir_leave_cache(BpWorkdir *dir, uint64_t size) {
  const uint64_t most = (uint64_t)INT64_MAX - ROOM;
  BpError *error = bp_error_take();
  int is_unsound = dir->cache && check_sound(dir, (off_t)(ROOM + MIN(size, most)));
  if (is_unsound) {
    bp__cache_warn();
    bp__workdir_remove(dir);
  }
  int is_moved = is_unsound && !bp__workdir_create(dir, NULL);
  bp_error_clear();
  if (is_moved)
    bp_object_release(error);
  else if (error)
    bp_error_put(error);
  return is_moved;
}

/* ---- Files in the directory -------------------------------------------------------------- */

int bp__workdir_path(const BpWorkdir *dir, const char *name, char *path) {
  int length = snprintf(path, PATH_MAX, "%s/%s", dir->path, name);
  if (length > 0 && length < PATH_MAX)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "the path \"%s/%s\" is too long", dir->path, name);
}

int bp__workdir_write(const BpWorkdir *dir, const char *name, const BpByteArray *bytes) {
  int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int failed = fd < 0 || bp__write_all(fd, bytes->data, bytes->size);
  int reason = errno;
  if (fd >= 0 && close(fd) && !failed) {
    failed = 1;
    reason = errno;
  }
  if (!failed)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot write \"%s/%s\": %s", dir->path, name,
                        strerror(reason));
}

void bp__workdir_read(const BpWorkdir *dir, const char *name, char *text, size_t size) {
  int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : bp__read_up_to(fd, text, size - 1);
  if (fd >= 0)
    close(fd);
  text[length < 0 ? 0 : length] = '\0';
}

void bp__workdir_take(const BpWorkdir *dir, const char *name, BpOwnedBytes *bytes) {
  size_t size;
  int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  char *data = fd < 0 ? NULL : bp__read_all(fd, SIZE_MAX / 4, &size);
  if (fd >= 0)
    close(fd);
  if (data)
    *bytes = (BpOwnedBytes){data, size, free};
}

/* Appends the trailer of a cached file, and removes write access for other users, which a umask may
 * have left. */
static int complete_file(int fd) {
  struct stat status;
  BpCacheTrailer trailer;
  size_t size;
  if (fstat(fd, &status) || fchmod(fd, status.st_mode & 0755))
    return -1;
  char *data = bp__read_all(fd, SIZE_MAX / 4, &size);
  if (!data)
    return -1;
  bp__cache_trailer(data, size, &trailer);
  free(data);
  return bp__write_all(fd, &trailer, sizeof trailer);
}

/* Puts a file into the cache, atomically. The directory keeps a hard link to it if the file system
 * has hard links. */
static int share_file(const BpWorkdir *dir, const char *name, const char *kept) {
  static const char link[] = "link";
  const char *from = linkat(dir->fd, name, dir->fd, link, 0) ? name : link;
  return renameat(dir->fd, from, dir->cache->fd, kept);
}

/* Moves a file into the cache. -1 with an error, and the file stays where it was. */
static int adopt_file(const BpWorkdir *dir, const char *name, const char *kept) {
  int fd = openat(dir->fd, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  int failed = fd < 0 || complete_file(fd), error = errno;
  if (fd >= 0 && close(fd) && !failed) {
    failed = 1;
    error = errno;
  }
  if (!failed && share_file(dir, name, kept)) {
    failed = 1;
    error = errno;
  }
  if (failed)
    return bp_error_raise(BP_ERROR_IO, "cannot make \"%s/%s\": %s", dir->cache->path, kept,
                          strerror(error));
  bp__cache_tidy(dir->cache);
  return 0;
}

int bp__workdir_keep(const BpWorkdir *dir, const char *name, const char *kept, char *path) {
  if (!dir->cache)
    return bp__workdir_path(dir, name, path);
  if (adopt_file(dir, name, kept))
    bp__cache_warn();
  return faccessat(dir->cache->fd, kept, F_OK, 0) ? bp__workdir_path(dir, name, path)
                                                  : bp__cache_path(dir->cache, kept, path);
}

int bp__workdir_hold(const BpWorkdir *dir, const char *name, const char *kept, char *path) {
  int is_here = !faccessat(dir->fd, name, F_OK, 0) ||
                (dir->cache && !linkat(dir->cache->fd, kept, dir->fd, name, 0));
  return is_here || !dir->cache ? bp__workdir_path(dir, name, path)
                                : bp__cache_path(dir->cache, kept, path);
}
