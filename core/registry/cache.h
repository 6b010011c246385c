/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache: a folder for each subject, in the folder of bp_cache_set_folder(), else
 * BACKPLANE_CACHE_DIR, else XDG_CACHE_HOME/backplane, else HOME/.cache/backplane.
 *
 * The cache's content is loaded as code or trusted, so a folder is not used if users other than
 * this user and root may change it or redirect its path, or if its path depends on the current
 * directory.
 *
 * A file is named by a hash of everything that it depends on (64 hexadecimal digits, and a suffix
 * that parts/cache knows), replaced as a whole, and ends in a trailer with the hash of its own
 * bytes, which linkers and loaders ignore. The file's modification time is the time of its last
 * use, and a file used within the last minute is not removed. When a file is added, files that were
 * not used for 90 days are removed, and then the least recently used files while the subject takes
 * more than BACKPLANE_CACHE_SIZE. Other files in the folder are not changed. Any thread may use the
 * cache, and any number of processes at once. */
#ifndef BACKPLANE_CORE_REGISTRY_CACHE_H
#define BACKPLANE_CORE_REGISTRY_CACHE_H

#include "core/system/shared.h"

#include <backplane/module_api.h>
#include <glib.h>
#include <limits.h>

#define BP_CACHE_REMEDY      "; set BACKPLANE_CACHE_DIR to a directory that you own"
#define BP_CACHE_DIGEST_SIZE 32
#define BP_CACHE_HASH_DIGITS (2 * BP_CACHE_DIGEST_SIZE)

typedef struct BpCache {
  int fd; /* the folder; -1: no cache, so no file is found or kept */
  char path[PATH_MAX];
} BpCache;

/* Whether a text is a subject: letters, digits, '-' and '_'. */
BP__SHARED int bp__cache_is_subject(const char *text);
/* Opens the folder of a subject, and creates it if necessary. -1 with an error, and cache->fd
 * is -1. */
BP__SHARED int bp__cache_open(BpCache *cache, const char *subject);
BP__SHARED void bp__cache_close(BpCache *cache);

/* Logs this thread's error, about a damaged file or as the reason why compiled code is not kept,
 * and clears it. The reason that was logged last is not repeated. */
BP__SHARED void bp__cache_warn(void);

/* Reads the bytes of a file (transfer full, free), NUL-terminated, or NULL if it does not exist. -1
 * with an error if the file cannot be used; BP_ERROR_FORMAT: it was damaged, and is removed. */
BP__SHARED int bp__cache_load(const BpCache *cache, const char *name, char **data, size_t *size);
/* Stores bytes as a file. -1 with an error. */
BP__SHARED int bp__cache_store(const BpCache *cache, const char *name, const char *data,
                               size_t size);

/* The trailer at the end of a file. */
typedef struct BpCacheTrailer {
  char magic[8];
  uint8_t digest[BP_CACHE_DIGEST_SIZE];
} BpCacheTrailer;

BP__SHARED void bp__cache_trailer(const char *data, size_t size, BpCacheTrailer *trailer);

/* Removes old files, after a file was added. */
BP__SHARED void bp__cache_tidy(const BpCache *cache);

/* Adds a part of a key to a hash, with its length, so that two parts cannot be confused with
 * one. */
BP__SHARED void bp__cache_hash(GChecksum *hash, const char *data, size_t size);

/* A slot of BpRuntimeTable. */
int32_t bp__cache_dir(const char *subject, char *path, size_t size);

/* The table of the part parts/cache. */
typedef struct CacheUpkeep {
  /* bp__cache_store. */
  int (*store)(const BpCache *cache, const char *name, const char *data, size_t size);
  /* Removes old files from an open folder, and the least recently used files beyond the limit. */
  void (*tidy)(const BpCache *cache);
  /* Counts the files of all subjects, or removes and counts them. -1 with an error. */
  int (*count)(int removes, uint64_t *files, uint64_t *bytes);
} CacheUpkeep;

#endif
