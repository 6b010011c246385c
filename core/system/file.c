/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files that others made. */

#include "core/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int bp__file_open(int directory, const char *name, struct stat *status) {
  if (fstatat(directory, name, status, 0)) {
    *status = (struct stat){0};
    return -1;
  }
  errno = 0;
  if (!S_ISREG(status->st_mode))
    return -1;
  /* O_NONBLOCK: it may have become a FIFO meanwhile. */
  int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || (!fstat(fd, status) && S_ISREG(status->st_mode)))
    return fd;
  int error = S_ISREG(status->st_mode) ? errno : 0;
  close(fd);
  errno = error;
  return -1;
}
