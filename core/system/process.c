/* SPDX-License-Identifier: Apache-2.0 */
/* Information about this process in /proc. */

#include "core/system/process.h"

#include "core/system/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int bp__fd_path(int fd, char *path) {
  struct stat own, found;
  char number[24];
  if (fstat(fd, &own) || find_own_number(number, sizeof number))
    return -1;
  snprintf(path, BP_FD_PATH_SIZE, "/proc/%s/fd/%d", number, fd);
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
