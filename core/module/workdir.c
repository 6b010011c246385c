/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary directories and the files in them. */

#include "core/module/workdir.h"

#include "core/system/env.h"

#include <backplane/error.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

int bp__write_all(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t written = write(fd, data, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return -1;
    data += written;
    size -= (size_t)written;
  }
  return 0;
}

int bp__workdir_create(BpWorkdir *dir, const char *parent) {
  const char *temporary = bp__env_get("TMPDIR");
  const char *where = parent ? parent : temporary && *temporary == '/' ? temporary : "/tmp";
  int length = snprintf(dir->path, sizeof dir->path, "%s/" BP_WORKDIR_PREFIX "XXXXXX", where);
  if (length > 0 && (size_t)length < sizeof dir->path && mkdtemp(dir->path)) {
    dir->lock = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->lock >= 0)
      flock(dir->lock, LOCK_EX | LOCK_NB);
    return 0;
  }
  dir->path[0] = '\0';
  return bp_error_raise(BP_ERROR_IO, "cannot make a directory for temporary files in \"%s\": %s",
                        where, strerror(errno));
}

/* Of the directory behind a descriptor, which is closed. */
static void remove_files(int fd) {
  DIR *entries = fdopendir(fd);
  if (!entries) {
    close(fd);
    return;
  }
  for (struct dirent *entry; (entry = readdir(entries));)
    unlinkat(dirfd(entries), entry->d_name, 0);
  closedir(entries);
}

void bp__workdir_remove(BpWorkdir *dir) {
  if (!dir->path[0])
    return;
  int fd = dir->lock >= 0 ? dir->lock : open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0)
    remove_files(fd);
  rmdir(dir->path);
  dir->path[0] = '\0';
}

void bp__workdir_remove_abandoned(int parent, const char *name) {
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return;
  if (flock(fd, LOCK_EX | LOCK_NB)) {
    close(fd);
    return;
  }
  remove_files(fd);
  unlinkat(parent, name, AT_REMOVEDIR);
}

int bp__workdir_path(const BpWorkdir *dir, const char *name, char *path) {
  int length = snprintf(path, PATH_MAX, "%s/%s", dir->path, name);
  if (length > 0 && length < PATH_MAX)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "the path \"%s/%s\" is too long", dir->path, name);
}

int bp__workdir_write(const BpWorkdir *dir, const char *name, const BpByteArray *bytes) {
  char path[PATH_MAX];
  if (bp__workdir_path(dir, name, path))
    return -1;
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int failed = fd < 0 || bp__write_all(fd, bytes->data, bytes->size);
  int reason = errno;
  if (fd >= 0 && close(fd) && !failed) {
    failed = 1;
    reason = errno;
  }
  if (!failed)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot write \"%s\": %s", path, strerror(reason));
}

void bp__workdir_read(const BpWorkdir *dir, const char *name, char *text, size_t size) {
  char path[PATH_MAX];
  size_t length = 0;
  int fd = bp__workdir_path(dir, name, path) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && length < size - 1) {
    ssize_t got = read(fd, text + length, size - 1 - length);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    length += (size_t)got;
  }
  if (fd >= 0)
    close(fd);
  text[length] = '\0';
}
