/* SPDX-License-Identifier: Apache-2.0 */
/* Files that replace others as a whole, and temporary names. */

#include "parts/file.h"

#include "core/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ---- Temporary names --------------------------------------------------------------------- */

int bp__temporary_name(char *name) {
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
  if (bp__temporary_name(name))
    return -1;
  return openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
}

int bp__temporary_folder(int folder, char *name) {
  if (bp__temporary_name(name) || mkdirat(folder, name, 0700))
    return -1;
  fchmodat(folder, name, 0700, 0); /* the umask may deny the owner, too */
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

DIR *bp__open_entries(int folder) {
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  int error = errno;
  if (!entries && fd >= 0)
    close(fd);
  errno = error;
  return entries;
}

void bp__remove_files(int folder) {
  DIR *entries = fdopendir(folder);
  for (const struct dirent *entry; entries && (entry = readdir(entries));)
    unlinkat(folder, entry->d_name, 0);
  if (entries)
    closedir(entries);
  else
    close(folder);
}

int bp__is_recent(time_t changed, time_t now) {
  return changed >= now - BP_RECENT_S && changed <= now + BP_RECENT_S;
}

void bp__remove_abandoned(int folder, const char *name) {
  struct stat status;
  int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return;
  if (!fstat(fd, &status) && status.st_uid == geteuid() &&
      !bp__is_recent(status.st_mtime, time(NULL)) && !flock(fd, LOCK_EX | LOCK_NB)) {
    bp__remove_files(fd);
    unlinkat(folder, name, AT_REMOVEDIR);
  } else {
    close(fd);
  }
}
