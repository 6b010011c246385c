/* SPDX-License-Identifier: Apache-2.0 */
/* Writes whole files. */
#include "graph/io/write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <backplane/error.h>

/* Creates a file with a unique name in the folder of `path`; *name is its path (transfer full,
 * free). The name does not contain that of `path`, which may be as long as a name can be. */
static int create_beside(const char *path, char **name) {
  const char *slash = strrchr(path, '/');
  int length = slash ? (int)(slash + 1 - path) : 0;
  size_t size = (size_t)length + sizeof ".backplane-0123456789abcdef";
  uint64_t number;
  int fd = -1;
  if (!(*name = malloc(size)))
    return -1;
  do {
    if (getentropy(&number, sizeof number))
      break;
    snprintf(*name, size, "%.*s.backplane-%016" PRIx64, length, path, number);
    fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EEXIST);
  return fd;
}

/* Signals that are blocked during a write, so that a file larger than the process' limit, or a pipe
 * without a reader, gives an error instead of ending the program. A signal that the write raised is
 * taken before the mask is restored. */
typedef struct Held {
  sigset_t mask;    /* mask of the thread before the write */
  sigset_t pending; /* signals that were pending before */
} Held;

static void hold(Held *held) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  sigaddset(&signals, SIGPIPE);
  sigpending(&held->pending);
  pthread_sigmask(SIG_BLOCK, &signals, &held->mask);
}

/* Restores the mask; keeps errno. `error`: the errno of the call, or 0. */
static void release(const Held *held, int error) {
  const struct timespec now = {0};
  const int before = errno, number = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
  sigset_t signals;
  sigemptyset(&signals);
  if (number && !sigismember(&held->pending, number)) {
    sigaddset(&signals, number);
    sigtimedwait(&signals, NULL, &now);
  }
  pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
  errno = before;
}

static int write_all(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t written = write(fd, data, size);
    if (written < 0 && errno != EINTR)
      return -1;
    data += written < 0 ? 0 : written;
    size -= written < 0 ? 0 : (size_t)written;
  }
  return 0;
}

static int write_and_close(int fd, const char *data, size_t size) {
  Held held;
  hold(&held);
  int rc = write_all(fd, data, size), error = errno;
  release(&held, rc ? error : 0);
  if (!rc)
    return close(fd);
  close(fd);
  errno = error;
  return -1;
}

/* Whether a path is a link to an open file, as /dev/stdout. Linux before 5.6 does not tell. */
static int is_descriptor(const char *path) {
  struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
  struct stat link;
  if (lstat(path, &link) || !S_ISLNK(link.st_mode))
    return 0;
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd >= 0)
    close(fd);
  return fd < 0 && errno == ELOOP;
}

/* A device, a FIFO or an open file: a rename would put a file in its place. */
static int is_special(const char *path) {
  struct stat status;
  return !stat(path, &status) && !S_ISDIR(status.st_mode) &&
         (!S_ISREG(status.st_mode) || is_descriptor(path));
}

/* Adds to the end of an open file, which may have other contents. */
static int write_special(const char *path, const char *data, size_t size) {
  int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
  return fd < 0 ? -1 : write_and_close(fd, data, size);
}

/* The user may have made the file that is replaced private. The mode stays if it is right: some
 * file systems cannot set it. -1 with errno. */
static int restrict_mode(int fd, const char *path) {
  struct stat before, own;
  if (stat(path, &before) || !S_ISREG(before.st_mode))
    return 0;
  if (fstat(fd, &own))
    return -1;
  mode_t mode = own.st_mode & before.st_mode & 0777;
  return mode == (own.st_mode & 0777) ? 0 : fchmod(fd, mode);
}

static int replace(const char *path, const char *data, size_t size) {
  char *name;
  int fd = create_beside(path, &name);
  int rc = fd < 0 ? -1 : restrict_mode(fd, path);
  if (!rc)
    rc = write_and_close(fd, data, size) || rename(name, path) ? -1 : 0;
  else if (fd >= 0)
    close(fd);
  int error = name ? errno : ENOMEM;
  if (rc && fd >= 0)
    unlink(name);
  free(name);
  errno = error;
  return rc;
}

/* ---- Files of another kind --------------------------------------------------------------- */

static ssize_t read_begin(int fd, char *begin, size_t size) {
  ssize_t got;
  do
    got = read(fd, begin, size);
  while (got < 0 && errno == EINTR);
  return got;
}

int bp__may_replace(const char *path, const char *start) {
  struct stat status;
  char begin[16];
  size_t size = strlen(start);
  if (stat(path, &status) || !S_ISREG(status.st_mode) || !status.st_size)
    return 1;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  ssize_t got = fd < 0 ? -1 : read_begin(fd, begin, size);
  int error = errno;
  if (fd >= 0)
    close(fd);
  return got < 0 ? bp_error_raise(BP_ERROR_IO, "%s: %s", path, strerror(error))
                 : (size_t)got == size && !memcmp(begin, start, size);
}

/* ---- Writing ----------------------------------------------------------------------------- */

int bp__write_file(const char *path, const char *data, size_t size) {
  int rc = is_special(path) ? write_special(path, data, size) : replace(path, data, size);
  return rc ? bp_error_raise(errno == ENOMEM ? BP_ERROR_MEMORY : BP_ERROR_IO, "%s: %s", path,
                             strerror(errno))
            : 0;
}
