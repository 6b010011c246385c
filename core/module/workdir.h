/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for the files of one run of the compiler. */
#ifndef BACKPLANE_CORE_MODULE_WORKDIR_H
#define BACKPLANE_CORE_MODULE_WORKDIR_H

#include <backplane/value.h>
#include <limits.h>

#define BP_WORKDIR_PREFIX "backplane-"

typedef struct BpWorkdir {
  char path[PATH_MAX]; /* absolute; "" when there is none */
  int lock;            /* held while its process lives */
} BpWorkdir;

/* Makes a fresh directory below `parent`, or, if that is NULL, where temporary files go. */
int bp__workdir_create(BpWorkdir *dir, const char *parent);
/* Removes the directory and the files in it. */
void bp__workdir_remove(BpWorkdir *dir);
/* Removes `name` of the directory `parent` if it is such a directory of a process that has ended
 * without doing so. The caller sees to it that it is not just being made. */
void bp__workdir_remove_abandoned(int parent, const char *name);
/* "DIR/NAME" into `path`, of PATH_MAX bytes; a path that is too long is an error. */
int bp__workdir_path(const BpWorkdir *dir, const char *name, char *path);
/* Writes a file in it. */
int bp__workdir_write(const BpWorkdir *dir, const char *name, const BpByteArray *bytes);
/* Reads at most size - 1 bytes of a file in it, as text; "" if it cannot be read. */
void bp__workdir_read(const BpWorkdir *dir, const char *name, char *text, size_t size);

/* Writes all bytes to a descriptor; -1 with errno set. */
int bp__write_all(int fd, const char *data, size_t size);

#endif
