/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled files kept on disk, in a directory for each subject: "c" for what the C compiler makes,
 * others for what plugins keep.
 *
 * A file is named by the hash of all that it depends on, and ends in a trailer with the hash of its
 * own bytes, so that a damaged one is made anew; linkers and loaders do not mind the trailer. Its
 * time of change is its last use: what was not used for longest is removed when the files of a
 * subject take more than BACKPLANE_CACHE_SIZE. A cache that cannot be used costs time and a message
 * in the log, nothing else. */
#ifndef BACKPLANE_CORE_MODULE_CACHE_H
#define BACKPLANE_CORE_MODULE_CACHE_H

#include "core/module/elf_file.h"
#include "core/module/workdir.h"

#include <backplane/module_api.h>
#include <glib.h>

/* The subject of what the C compiler makes. */
#define BP_CACHE_C "c"

/* Adds a part of a key to a hash: with its length, so that parts cannot run into each other. */
void bp__cache_hash(GChecksum *hash, const char *data, size_t size);

/* A fresh working directory from which files can be moved into the cache: beside its files, or
 * where temporary files go if there is no cache or it is full. */
int bp__cache_workdir(const char *subject, BpWorkdir *dir);

/* The place of the file `name`: absolute into `path`, of PATH_MAX bytes, "" if there is no cache.
 */
void bp__cache_locate(const char *subject, const char *name, char *path);

/* Whether there is a file at a place, whole; it then stays for a minute at least, for the caller to
 * open. One that is damaged is removed. */
int bp__cache_has(const char *place);

/* Moves the file at `path` (of PATH_MAX bytes) to its place, if it has one and the working
 * directory is beside it; `path` is then where it is. */
void bp__cache_move_in(const char *place, char *path);

/* The slots of BpRuntimeTable. */
void bp__cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes);
void bp__cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes);

#endif
