/* SPDX-License-Identifier: Apache-2.0 */
/* Who may change a file, by its owner and mode. */

#include "core/system/trust.h"

#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int bp__others_may_write(const struct stat *status) {
  int is_own = !status->st_uid || status->st_uid == geteuid();
  int is_shared_group = status->st_mode & S_IWGRP && status->st_gid != status->st_uid;
  return !is_own || status->st_mode & S_IWOTH || is_shared_group;
}

int bp__others_may_replace(const char *path) {
  char directory[PATH_MAX];
  struct stat status;
  const char *slash = strrchr(path, '/');
  size_t length = slash ? (size_t)(slash - path) + 1 : 0;
  if (length + 2 > sizeof directory)
    return 1;
  memcpy(directory, path, length);
  memcpy(directory + length, ".", 2);
  return stat(directory, &status) || (bp__others_may_write(&status) && !(status.st_mode & S_ISVTX));
}

int bp__is_privileged(void) {
  return getauxval(AT_SECURE) != 0;
}
