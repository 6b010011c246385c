/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc shows of this process. Any thread. */
#ifndef BACKPLANE_CORE_SYSTEM_PROCESS_H
#define BACKPLANE_CORE_SYSTEM_PROCESS_H

#include <stdint.h>

#define BP_FD_PATH_SIZE 64

/* A path that leads to the file open as `fd` for as long as it is open, in other processes (a
 * debugger's) too; into `path` of BP_FD_PATH_SIZE bytes. -1 with errno: /proc is not mounted, or is
 * not that of this process. */
int bp__fd_path(int fd, char *path);

/* A file that is mapped, as /proc/self/maps shows it: on some file systems its device and inode are
 * not fstat's. */
typedef struct BpMapping {
  unsigned major, minor;
  uint64_t inode;
  char *path; /* as it was when it was mapped; free */
} BpMapping;

/* The file mapped at an address; `mapping->path` is the caller's. -1 with errno: ENOENT if there is
 * none. */
int bp__find_mapping(const void *address, BpMapping *mapping);

#endif
