/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing files, and finding open and mapped files in /proc. */

#include "core/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Signals while writing --------------------------------------------------------------- */

/* The kernel sends SIGXFSZ and SIGPIPE to the thread that writes. The signals are blocked during
 * the call, and discarded if the call caused them. */
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

int bp__reserve(int fd, off_t size) {
  Held held;
  hold(&held);
  int rc = fallocate(fd, 0, 0, size);
  release(&held, rc);
  return rc;
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

/* ---- /proc ------------------------------------------------------------------------------- */

#define MAPS_MAX (256u << 20)

/* In the /proc of another PID namespace this process has a different number, which only /proc/self
 * shows. */
static int find_own_number(char *number, size_t size) {
  ssize_t length = readlink("/proc/self", number, size - 1);
  if (length < 0)
    return -1;
  number[length] = '\0';
  return 0;
}

/* The bits of the path's number, "./" for 1 and "/" for 0, lead from the folder of the process to
 * that folder: path 2 is "/proc/1234//./fd/7". */
int bp__fd_path(int fd, char *path) {
  static _Atomic uint32_t paths;
  struct stat own, found;
  char process[24], bits[2 * 32 + 1], *end = bits;
  if (fstat(fd, &own) || find_own_number(process, sizeof process))
    return -1;
  for (uint32_t number = ++paths; number; number /= 2)
    end = stpcpy(end, number % 2 ? "./" : "/");
  snprintf(path, BP_FD_PATH_SIZE, "/proc/%s/%sfd/%d", process, bits, fd);
  if (stat(path, &found))
    return -1;
  if (own.st_dev == found.st_dev && own.st_ino == found.st_ino)
    return 0;
  errno = ESRCH;
  return -1;
}

/* A line of the maps: "START-END PERMISSIONS OFFSET MAJOR:MINOR INODE    PATH". */
static int read_line(const char *line, const void *address, BpMapping *mapping) {
  uintptr_t start, end;
  int at_path = 0;
  if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*x %x:%x %" SCNu64 " %n", &start, &end,
             &mapping->major, &mapping->minor, &mapping->inode, &at_path) != 5 ||
      (uintptr_t)address < start || (uintptr_t)address >= end || !mapping->inode)
    return -1;
  mapping->path = strndup(line + at_path, strcspn(line + at_path, "\n"));
  return mapping->path ? 0 : -1;
}

int bp__find_mapping(const void *address, BpMapping *mapping) {
  char *maps = bp__read_file("/proc/self/maps", MAPS_MAX, NULL);
  int rc = -1;
  if (maps)
    errno = ENOENT; /* read_line sets errno to another value if it fails */
  for (const char *line = maps; line && *line && rc;) {
    rc = read_line(line, address, mapping);
    line += strcspn(line, "\n");
    line += *line == '\n';
  }
  free(maps);
  return rc;
}
