/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for the files of one run of a compiler. */
#ifndef BACKPLANE_CORE_MODULE_WORKDIR_H
#define BACKPLANE_CORE_MODULE_WORKDIR_H

#include "core/registry/cache.h"

#include <backplane/value.h>
#include <limits.h>

typedef struct BpWorkdir {
  char path[PATH_MAX];  /* absolute; "" when there is none */
  int fd;               /* of the directory, which is locked while its process lives */
  const BpCache *cache; /* that it lies in; NULL: it lies elsewhere */
} BpWorkdir;

/* Makes a fresh directory: in a cache, from where files can be kept, or, without one (NULL or not
 * open) or where it has no room, where temporary files go. -1 with an error. The cache stays open
 * as long as the directory is there. */
int bp__workdir_create(BpWorkdir *dir, const BpCache *cache);
/* Removes the directory and the files in it; nothing if there is none. */
void bp__workdir_remove(BpWorkdir *dir);

/* "DIR/NAME" into `path`, of PATH_MAX bytes; a path that is too long is an error. */
int bp__workdir_path(const BpWorkdir *dir, const char *name, char *path);
/* Writes a file in it. */
int bp__workdir_write(const BpWorkdir *dir, const char *name, const BpByteArray *bytes);
/* Reads at most size - 1 bytes of a file in it, as text; "" if it cannot be read. */
void bp__workdir_read(const BpWorkdir *dir, const char *name, char *text, size_t size);
/* The whole of a file in it (transfer full); `bytes` stays as it is if it cannot be read. */
void bp__workdir_take(const BpWorkdir *dir, const char *name, BpOwnedBytes *bytes);

/* Keeps the file NAME as `kept` in the cache that the directory lies in, if it does, and puts the
 * path where the file then is into `path`, of PATH_MAX bytes. A failure to keep it goes to the log.
 * -1 with an error: the path is too long. */
int bp__workdir_keep(const BpWorkdir *dir, const char *name, const char *kept, char *path);

#endif
