/* SPDX-License-Identifier: Apache-2.0 */
/* Writes whole files. */
#include "graph/io/write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <backplane/error.h>

/* Creates a file with a unique name in the folder of `path`; *name is the name (transfer full,
 * free). */
static int create_beside(const char *path, char **name) {
  size_t size = strlen(path) + sizeof ".01234567.tmp";
  uint32_t number;
  int fd = -1;
  if (!(*name = malloc(size)))
    return -1;
  do {
    if (getentropy(&number, sizeof number))
      break;
    snprintf(*name, size, "%s.%08" PRIx32 ".tmp", path, number);
    fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EEXIST);
  return fd;
}

/* Signals blocked during a write, so that a file larger than the process' limit, or a pipe without
 * a reader, gives an error instead of ending the program. A signal that the write caused is
 * removed. */
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

/* Restores the signal mask and keeps errno. */
static void release(const Held *held) {
  const struct timespec now = {0};
  const int error = errno, number = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
  sigset_t signals;
  sigemptyset(&signals);
  if (number && !sigismember(&held->pending, number)) {
    sigaddset(&signals, number);
    sigtimedwait(&signals, NULL, &now);
  }
  pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
  errno = error;
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

int bp__write_file(const char *path, const char *data, size_t size) {
  char *name;
  Held held;
  int fd = create_beside(path, &name);
  hold(&held);
  int rc = fd < 0 || write_all(fd, data, size);
  release(&held);
  rc = (fd >= 0 && close(fd)) || rc || rename(name, path);
  if (rc) {
    bp_error_raise(name ? BP_ERROR_IO : BP_ERROR_MEMORY, "%s: %s", path, strerror(errno));
    if (fd >= 0)
      unlink(name);
  }
  free(name);
  return rc ? -1 : 0;
}
