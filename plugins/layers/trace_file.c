/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a trace: a JSON document that is complete after each write. One write adds an event
 * and the end of the document, over the previous end. A process that ends early, by whatever
 * signal, therefore leaves a complete document with all events up to then. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE "BACKPLANE_TRACE_FILE"

static const char head[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
static const char tail[] = "\n]}\n";

static struct {
  pthread_mutex_t lock;
  int fd;       /* -1: not open, or closed after a failure */
  off_t end;    /* the offset of the tail */
  int is_first; /* no event was written yet */
  pid_t owner;
  char path[4096];
} file = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Why the trace ended; NULL once that is logged. */
static _Atomic(const char *) why_ended;

/* ---- Opening ----------------------------------------------------------------------------- */

/* Builds the path: `%p` becomes the process number. -1: the path is too long. */
static int find_path(void) {
  const char *given = bp_layers_host.runtime->get_option(VARIABLE);
  const char *pattern = given ? given : "backplane-trace-%p.json";
  size_t used = 0;
  for (; *pattern && used + 16 < sizeof file.path; pattern++) {
    int is_number = pattern[0] == '%' && pattern[1] == 'p';
    used += (size_t)snprintf(file.path + used, sizeof file.path - used, is_number ? "%d" : "%c",
                             is_number ? (int)getpid() : *pattern);
    pattern += is_number;
  }
  return *pattern ? -1 : 0;
}

static int32_t raise_unusable(const char *why) {
  return bp_plugin_raise(&bp_layers_host, BP_ERROR_IO,
                         "trace: cannot write %s: %s; name another file in " VARIABLE, file.path,
                         why);
}

/* Why the file is not replaced, NULL if it is empty or begins as a trace does. */
static const char *look_into(int fd) {
  char start[sizeof head];
  ssize_t size = pread(fd, start, sizeof head - 1, 0);
  if (size < 0)
    return strerror(errno);
  int is_trace = size == sizeof head - 1 && !memcmp(start, head, sizeof head - 1);
  return size == 0 || is_trace ? NULL : "it exists and is no trace";
}

/* An existing file is replaced only if it is a trace, this user owns it, it has no other name, and
 * no other process writes it. */
static const char *look_at(int fd) {
  struct stat status;
  if (fstat(fd, &status))
    return strerror(errno);
  if (!S_ISREG(status.st_mode))
    return "it is no regular file";
  if (status.st_uid != geteuid())
    return "it belongs to another user";
  if (status.st_nlink != 1)
    return "it has another name, too";
  const char *why = look_into(fd);
  if (why)
    return why;
  if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
    return "another process writes it (%p stands for the process number)";
  return ftruncate(fd, 0) ? strerror(errno) : NULL;
}

/* A write beyond the process's file size limit would end the process by a signal. */
static int fits(off_t end) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
         (rlim_t)end <= limit.rlim_cur;
}

/* Opens the file, with the lock held. O_NONBLOCK: the path may be a FIFO. */
static int32_t open_file(void) {
  if (find_path())
    return raise_unusable("its name is too long");
  if (!fits(sizeof head + sizeof tail))
    return raise_unusable("the limit of file sizes is lower than a trace");
  int fd = open(file.path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  if (fd < 0)
    return raise_unusable(errno == ELOOP ? "it is a symbolic link" : strerror(errno));
  const char *why = look_at(fd);
  if (!why && pwrite(fd, head, sizeof head - 1, 0) != (ssize_t)sizeof head - 1)
    why = strerror(errno);
  file.end = sizeof head - 1;
  if (!why && pwrite(fd, tail, sizeof tail - 1, file.end) != (ssize_t)sizeof tail - 1)
    why = strerror(errno);
  if (why) {
    close(fd);
    return raise_unusable(why);
  }
  file.fd = fd;
  file.is_first = 1;
  file.owner = getpid();
  return 0;
}

int32_t bp_layers_trace_open(void) {
  static int32_t is_open;
  pthread_mutex_lock(&file.lock);
  int32_t was_open = is_open, rc = is_open ? 0 : open_file();
  is_open |= !rc;
  pthread_mutex_unlock(&file.lock);
  if (!rc && !was_open)
    bp_plugin_log(&bp_layers_host, BP_LOG_INFO, "trace: device calls go to %s", file.path);
  return rc;
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* Restores the document without the last event, with the lock held. Returns why the document
 * ends. */
static const char *give_up(const char *why) {
  if (pwrite(file.fd, tail, sizeof tail - 1, file.end) < 0 ||
      ftruncate(file.fd, file.end + (off_t)sizeof tail - 1))
    why = "its end cannot be written, either";
  close(file.fd);
  file.fd = -1;
  return why;
}

/* Writes an event, with the lock held. `text` has room for the tail after its `size` bytes. Returns
 * NULL, or why the document ends. */
static const char *write_text(char *text, size_t size) {
  memcpy(text + size, tail, sizeof tail - 1);
  size_t whole = size + sizeof tail - 1;
  if (!fits(file.end + (off_t)whole))
    return give_up("the limit of file sizes is reached");
  ssize_t written = pwrite(file.fd, text, whole, file.end);
  if (written != (ssize_t)whole)
    return give_up(written < 0 ? strerror(errno) : "there is no more space");
  file.end += (off_t)size;
  file.is_first = 0;
  return NULL;
}

void bp_layers_trace_write(const char *event) {
  size_t length = strlen(event);
  char *text = malloc(length + 2 + sizeof tail);
  pthread_mutex_lock(&file.lock);
  /* The child of a fork must not write into its parent's document. */
  if (text && file.fd >= 0 && file.owner == getpid()) {
    memcpy(text, file.is_first ? " \n" : ",\n", 2);
    memcpy(text + 2, event, length);
    const char *why = write_text(text, length + 2);
    if (why)
      atomic_store(&why_ended, why);
  }
  pthread_mutex_unlock(&file.lock);
  free(text);
}

void bp_layers_trace_log(void) {
  const char *why = atomic_exchange(&why_ended, NULL);
  if (why)
    bp_plugin_log(&bp_layers_host, BP_LOG_WARNING, "trace: %s ends here: %s", file.path, why);
}
