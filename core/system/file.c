/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing whole files. */

#include "core/system/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Signals while writing --------------------------------------------------------------- */

/* The kernel sends these signals to the thread that writes. They are blocked during the
 * call, and discarded if the call caused them. */
typedef struct Held {
  sigset_t mask;    /* the thread's mask before */
  sigset_t pending; /* signals that were pending before */
} Held;

static void fill(sigset_t *signals) {
  sigemptyset(signals);
  sigaddset(signals, SIGXFSZ);
  sigaddset(signals, SIGPIPE);
}

static void hold(Held *held) {
  sigset_t signals;
  fill(&signals);
  sigpending(&held->pending);
  pthread_sigmask(SIG_BLOCK, &signals, &held->mask);
}

/* Restores the mask; keeps errno, which says why the call failed if it did. */
static void release(const Held *held, int failed) {
  const struct timespec now = {0};
  const int error = errno, number = !failed          ? 0
                                    : error == EPIPE ? SIGPIPE
                                    : error == EFBIG ? SIGXFSZ
                                                     : 0;
  sigset_t signals;
  sigemptyset(&signals);
  if (number && !sigismember(&held->pending, number)) {
    sigaddset(&signals, number);
    sigtimedwait(&signals, NULL, &now);
  }
  pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
  errno = error;
}

/* ---- Writing ----------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t size) {
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

int bp__write_all(int fd, const void *data, size_t size) {
  Held held;
  hold(&held);
  int rc = write_all(fd, data, size);
  release(&held, rc);
  return rc;
}

int bp__set_size(int fd, off_t size) {
  Held held;
  hold(&held);
  int rc = ftruncate(fd, size);
  release(&held, rc);
  return rc;
}

int bp__is_full(int fd, off_t size) {
  Held held;
  hold(&held);
  int failed = fallocate(fd, 0, 0, size);
  release(&held, failed);
  return failed && (errno == ENOSPC || errno == EDQUOT);
}

/* ---- Reading ----------------------------------------------------------------------------- */

int bp__file_open(int directory, const char *name, struct stat *status) {
  if (fstatat(directory, name, status, 0)) {
    *status = (struct stat){0};
    return -1;
  }
  errno = 0;
  if (!S_ISREG(status->st_mode))
    return -1;
  /* O_NONBLOCK: the file may have become a FIFO meanwhile. */
  int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || (!fstat(fd, status) && S_ISREG(status->st_mode)))
    return fd;
  int error = S_ISREG(status->st_mode) ? errno : 0;
  close(fd);
  errno = error;
  return -1;
}

ssize_t bp__read_up_to(int fd, void *data, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = read(fd, (char *)data + done, size - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return -1;
    if (!got)
      break;
    done += (size_t)got;
  }
  return (ssize_t)done;
}

/* Returns the expected size of a file: files in /proc report 0. */
static size_t expect_size(int fd) {
  struct stat status;
  return fstat(fd, &status) || status.st_size <= 0 ? 4096 : (size_t)status.st_size;
}

char *bp__read_all(int fd, size_t most, size_t *size) {
  size_t room = expect_size(fd), used = 0;
  char *data = NULL;
  for (;;) {
    room = room < most ? room : most;
    char *grown = realloc(data, room + 2); /* one byte more, to detect the end, and a NUL */
    ssize_t got = grown ? bp__read_up_to(fd, grown + used, room + 1 - used) : -1;
    data = grown ? grown : data;
    used += got > 0 ? (size_t)got : 0;
    if (got >= 0 && used <= room)
      break;
    if (got < 0 || room == most) {
      errno = got < 0 ? errno : EFBIG;
      free(data);
      return NULL;
    }
    room *= 2;
  }
  data[used] = '\0';
  if (size)
    *size = used;
  return data;
}

char *bp__read_file(const char *path, size_t most, size_t *size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return NULL;
  char *data = bp__read_all(fd, most, size);
  int error = errno;
  close(fd);
  errno = error;
  return data;
}

/* ---- Temporary names --------------------------------------------------------------------- */

static int make_name(char *name) {
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    return -1;
  snprintf(name, BP_TEMPORARY_SIZE, BP_TEMPORARY_PREFIX "%016llx", (unsigned long long)number);
  return 0;
}

int bp__is_temporary(const char *name) {
  size_t prefix = strlen(BP_TEMPORARY_PREFIX);
  return !strncmp(name, BP_TEMPORARY_PREFIX, prefix) &&
         strspn(name + prefix, "0123456789abcdef") == 16 && !name[prefix + 16];
}

int bp__temporary_file(int folder, mode_t mode, char *name) {
  if (make_name(name))
    return -1;
  return openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
}

int bp__temporary_folder(int folder, char *name) {
  if (make_name(name) || mkdirat(folder, name, 0700))
    return -1;
  int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  int error = errno;
  if (fd < 0)
    unlinkat(folder, name, AT_REMOVEDIR);
  errno = error;
  return fd;
}

/* ---- Whole files ------------------------------------------------------------------------- */

int bp__replace_file(int folder, const char *name, const struct iovec *parts, int count) {
  char temporary[BP_TEMPORARY_SIZE];
  int fd = bp__temporary_file(folder, 0600, temporary), failed = 0;
  if (fd < 0)
    return -1;
  for (int i = 0; i < count && !failed; i++)
    failed = bp__write_all(fd, parts[i].iov_base, parts[i].iov_len);
  int error = errno;
  if (close(fd) && !failed) {
    failed = 1;
    error = errno;
  }
  if (!failed && !renameat(folder, temporary, folder, name))
    return 0;
  error = failed ? error : errno;
  unlinkat(folder, temporary, 0);
  errno = error;
  return -1;
}

void bp__remove_files(int folder) {
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (!entries && fd >= 0)
    close(fd);
  for (const struct dirent *entry; entries && (entry = readdir(entries));)
    unlinkat(fd, entry->d_name, 0);
  if (entries)
    closedir(entries);
}
