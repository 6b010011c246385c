/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing whole files. Every function returns 0 or a pointer, or -1 or NULL with errno;
 * no function raises an error. A file that grows beyond this process' limit fails with EFBIG, and a
 * pipe without a reader with EPIPE: the signals SIGXFSZ and SIGPIPE do not end the program. Any
 * thread. */
#ifndef BACKPLANE_CORE_SYSTEM_FILE_H
#define BACKPLANE_CORE_SYSTEM_FILE_H

#include "core/system/shared.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Opens a regular file for reading. `directory` is a descriptor or AT_FDCWD. Returns a descriptor
 * (transfer full, close). A file of another type is not opened, since opening a device can have
 * effects: -1 with errno 0. *status describes the file; it is zeroed if the file's status is
 * unknown. */
BP__SHARED int bp__file_open(int directory, const char *name, struct stat *status);

/* Writes all bytes. */
BP__SHARED int bp__write_all(int fd, const void *data, size_t size);
/* Like ftruncate. */
int bp__set_size(int fd, off_t size);
/* Like fallocate. */
BP__SHARED int bp__reserve(int fd, off_t size);

/* Reads until `size` bytes or the end; returns the number of bytes. */
BP__SHARED ssize_t bp__read_up_to(int fd, void *data, size_t size);
/* Reads the rest of a file, at most `most` bytes, and adds a NUL (transfer full, free). EFBIG: the
 * file has more bytes. `size` may be NULL. */
BP__SHARED char *bp__read_all(int fd, size_t most, size_t *size);
/* Reads a file given by path, of any type, like bp__read_all; opening does not wait for a
 * writer. */
BP__SHARED char *bp__read_file(const char *path, size_t most, size_t *size);

#define BP_FD_PATH_SIZE 128

/* Stores in `path`, of BP_FD_PATH_SIZE bytes, a path to the file open as `fd` that no earlier call
 * stored: the loader identifies libraries by name, and a library may stay mapped after its
 * descriptor is closed. The path is valid as long as the descriptor is open, also in other
 * processes (a debugger). -1 with errno: /proc is not mounted, or is not that of this process. */
BP__SHARED int bp__fd_path(int fd, char *path);

/* A mapped file, as shown in /proc/self/maps: on some file systems its device and inode differ from
 * fstat's. */
typedef struct BpMapping {
  unsigned major, minor;
  uint64_t inode;
  char *path; /* the path when the file was mapped; free */
} BpMapping;

/* Finds the file mapped at an address; the caller frees `mapping->path`. -1 with errno: ENOENT if
 * no file is mapped there. */
BP__SHARED int bp__find_mapping(const void *address, BpMapping *mapping);

#endif
