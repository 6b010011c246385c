/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for the files of one run of a compiler. */
#ifndef BACKPLANE_PARTS_TOOLCHAIN_WORKDIR_H
#define BACKPLANE_PARTS_TOOLCHAIN_WORKDIR_H

#include "core/registry/cache.h"

#include <backplane/value.h>
#include <limits.h>

/* Opens the folder of a subject, for data that can be computed again: an error is logged. */
void bp__cache_try_open(BpCache *cache, const char *subject);
/* Stores "FOLDER/NAME" in `path` of PATH_MAX bytes. -1 with an error if the path is too long. */
int bp__cache_path(const BpCache *cache, const char *name, char *path);

typedef struct BpWorkdir {
  char path[PATH_MAX];  /* absolute; "" if no directory was made */
  int fd;               /* descriptor of the directory, which is locked while its process lives */
  const BpCache *cache; /* the cache that contains it; NULL: none */
} BpWorkdir;

/* Makes a new directory: in a cache, so that files can be kept; or, without an open cache (NULL or
 * not open) or if the cache has no space, in the folder for temporary files, from which directories
 * of killed processes are then removed. -1 with an error. The cache stays open as long as the
 * directory exists. */
int bp__workdir_create(BpWorkdir *dir, const BpCache *cache);
/* After a failure in the directory: if the directory is in a cache and was removed, or has no space
 * for the compiler's output and `size` bytes, logs that and replaces the directory by a new one in
 * the folder for temporary files. Returns 1: the thread has no error any more, and the caller
 * repeats its work in the new directory. In any other case returns 0 and keeps the thread's error;
 * the directory may be gone. */
int bp__workdir_leave_cache(BpWorkdir *dir, uint64_t size);
/* Removes the directory and its files; does nothing if no directory was made. */
void bp__workdir_remove(BpWorkdir *dir);

/* Writes "DIR/NAME" to `path`, of PATH_MAX bytes; a path that is too long is an error. */
int bp__workdir_path(const BpWorkdir *dir, const char *name, char *path);
/* Writes a file in the directory. */
int bp__workdir_write(const BpWorkdir *dir, const char *name, const BpByteArray *bytes);
/* Reads at most size - 1 bytes of a file in the directory, as text; `text` is "" if the file cannot
 * be read. */
void bp__workdir_read(const BpWorkdir *dir, const char *name, char *text, size_t size);
/* Reads a whole file in the directory (transfer full); `bytes` is unchanged if it cannot be
 * read. */
void bp__workdir_take(const BpWorkdir *dir, const char *name, BpOwnedBytes *bytes);

/* Moves the file NAME into the cache that contains the directory, as `kept`, if there is a cache.
 * Stores the file's resulting path in `path`, of PATH_MAX bytes. A failure to keep the file is
 * logged. -1 with an error: the path is too long. */
int bp__workdir_keep(const BpWorkdir *dir, const char *name, const char *kept, char *path);
/* Finds the file NAME in the directory, or puts a link there to the file `kept` of the cache, so
 * that the file stays while the directory exists, whatever is removed from the cache. Stores its
 * path in `path`, as bp__workdir_keep does; on a file system without hard links, the path in the
 * cache. */
int bp__workdir_hold(const BpWorkdir *dir, const char *name, const char *kept, char *path);

#endif
