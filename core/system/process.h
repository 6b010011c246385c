/* SPDX-License-Identifier: Apache-2.0 */
/* Information about this process in /proc. Any thread. */
#ifndef BACKPLANE_CORE_SYSTEM_PROCESS_H
#define BACKPLANE_CORE_SYSTEM_PROCESS_H

#include <stdint.h>

#define BP_FD_PATH_SIZE 64

/* Stores in `path`, of BP_FD_PATH_SIZE bytes, a path to the file open as `fd`. The path is valid as
 * long as the descriptor is open, also in other processes (a debugger). -1 with errno: /proc is not
 * mounted, or is not that of this process. */
int bp__fd_path(int fd, char *path);

/* A mapped file, as shown in /proc/self/maps: on some file systems its device and inode differ from
 * fstat's. */
typedef struct BpMapping {
  unsigned major, minor;
  uint64_t inode;
  char *path; /* the path when the file was mapped; free */
} BpMapping;

/* Finds the file mapped at an address; the caller frees `mapping->path`. -1 with errno: ENOENT if
 * there is none. */
int bp__find_mapping(const void *address, BpMapping *mapping);

#endif
