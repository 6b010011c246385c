/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing whole files. Every function returns 0 or a pointer, or -1 or NULL with errno;
 * no function raises an error. A file that grows beyond this process' limit fails with EFBIG, and a
 * pipe without a reader with EPIPE: the signals SIGXFSZ and SIGPIPE do not end the program. Any
 * thread. */
#ifndef BACKPLANE_CORE_SYSTEM_FILE_H
#define BACKPLANE_CORE_SYSTEM_FILE_H

#include "core/system/shared.h"

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Opens a regular file for reading. `directory` is a descriptor or AT_FDCWD. Returns a descriptor
 * (transfer full, close). A file of another type is not opened, since opening a device can have
 * effects: -1 with errno 0. *status describes the file; it is zeroed if the file's status is
 * unknown. */
BP__SHARED int bp__file_open(int directory, const char *name, struct stat *status);

/* Writes all bytes. */
BP__SHARED int bp__write_all(int fd, const void *data, size_t size);
/* Like ftruncate. */
int bp__set_size(int fd, off_t size);
/* Whether a file system lacks space for `size` more bytes of a file; 0 if unknown. */
BP__SHARED int bp__is_full(int fd, off_t size);

/* Reads until `size` bytes or the end; returns the number of bytes. */
BP__SHARED ssize_t bp__read_up_to(int fd, void *data, size_t size);
/* Reads the rest of a file, at most `most` bytes, and adds a NUL (transfer full, free). EFBIG: the
 * file has more bytes. `size` may be NULL. */
BP__SHARED char *bp__read_all(int fd, size_t most, size_t *size);
/* Reads a file given by path, of any type, like bp__read_all; opening does not wait for a
 * writer. */
BP__SHARED char *bp__read_file(const char *path, size_t most, size_t *size);

/* Names of unfinished files and folders. */
#define BP_TEMPORARY_PREFIX ".backplane-"
#define BP_TEMPORARY_SIZE   (sizeof BP_TEMPORARY_PREFIX + 16)

/* Creates an empty file with a temporary name, stored in `name` of BP_TEMPORARY_SIZE bytes, in the
 * folder open as `folder`. Its mode is `mode` without the bits of the process' umask. Returns its
 * descriptor. */
BP__SHARED int bp__temporary_file(int folder, mode_t mode, char *name);
/* Creates a folder with a temporary name, which only this user can open. Returns its descriptor. */
BP__SHARED int bp__temporary_folder(int folder, char *name);
/* Whether a name is temporary. */
BP__SHARED int bp__is_temporary(const char *name);

/* Creates or replaces the file `name`, private to this user, atomically: the file contains all
 * parts, or is unchanged. */
int bp__replace_file(int folder, const char *name, const struct iovec *parts, int count);

/* Removes the files in a folder. */
BP__SHARED void bp__remove_files(int folder);

#endif
