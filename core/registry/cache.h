/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache: a folder for each subject, in BACKPLANE_CACHE_DIR, else
 * XDG_CACHE_HOME/backplane, else HOME/.cache/backplane.
 *
 * What lies in it is loaded as code or believed, so a folder that anybody but this user and root
 * may change, or lead elsewhere, is not used; nor is one that depends on the current directory.
 *
 * A file is named by a hash of what it depends on (64 hexadecimal digits, and a suffix of
 * cache.c's), replaced as a whole, and ends in a trailer with the hash of its own bytes; linkers
 * and loaders do not mind it. Its time of change is its last use. Whoever adds a file removes
 * those that nobody used for 90 days, and those unused for longest while the subject takes more
 * than BACKPLANE_CACHE_SIZE. Nothing else in the folder is touched. Any thread, any number of
 * processes. */
#ifndef BACKPLANE_CORE_REGISTRY_CACHE_H
#define BACKPLANE_CORE_REGISTRY_CACHE_H

#include <backplane/module_api.h>
#include <glib.h>
#include <limits.h>

typedef struct BpCache {
  int fd; /* of the folder; -1: there is none, so nothing is found and nothing kept */
  char path[PATH_MAX];
} BpCache;

/* Opens the folder of a subject (letters, digits, '-', '_'), made if need be. -1 with an error, and
 * cache->fd is -1. */
int bp__cache_open(BpCache *cache, const char *subject);
/* The same for what can be made anew: an error goes to the log. */
void bp__cache_try_open(BpCache *cache, const char *subject);
void bp__cache_close(BpCache *cache);

/* Logs this thread's error, of a damaged file or as the reason why compiled code is not kept, and
 * clears it. A reason that was the last one logged is not repeated. */
void bp__cache_warn(void);

/* "FOLDER/NAME" into `path` of PATH_MAX bytes. -1 with an error if that is too long. */
int bp__cache_path(const BpCache *cache, const char *name, char *path);

/* The bytes of a file (transfer full, free), NUL-terminated, or NULL if it is not there. -1 with an
 * error if it cannot be used; BP_ERROR_FORMAT: it was damaged, and is removed. */
int bp__cache_load(const BpCache *cache, const char *name, char **data, size_t *size);
/* Keeps bytes as a file. -1 with an error. */
int bp__cache_store(const BpCache *cache, const char *name, const char *data, size_t size);

/* Whether there is a file, whole; it then stays for a minute at least, for the caller to open by
 * its path. One that is not whole is removed. What is wrong goes to the log. */
int bp__cache_has(const BpCache *cache, const char *name);
/* Moves `file` of the folder open as `from`, on the same file system, into the cache as `name`. -1
 * with an error, and the file is where it was. */
int bp__cache_adopt(const BpCache *cache, int from, const char *file, const char *name);

/* Adds a part of a key to a hash: with its length, so that parts cannot run into each other. */
void bp__cache_hash(GChecksum *hash, const char *data, size_t size);

/* The slots of BpRuntimeTable. */
int32_t bp__cache_dir(const char *subject, char *path, size_t size);
void bp__cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes);
void bp__cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes);

/* The folder where programs by custom keep this user's caches, XDG_CACHE_HOME or HOME/.cache, if
 * that is neither there to be written nor to be made (transfer full); NULL otherwise. */
char *bp__cache_home_unwritable(void);

#endif
