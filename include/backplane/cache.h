/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache: compiled code, and the results of trying plugins out. The cache's folder is the
 * folder that the program chooses, else BACKPLANE_CACHE_DIR, else XDG_CACHE_HOME/backplane, else
 * HOME/.cache/backplane. A NULL where none is allowed is an error of kind BP_ERROR_VALUE. */
#ifndef BACKPLANE_CACHE_H
#define BACKPLANE_CACHE_H

#include <stdint.h>

#include <backplane/api.h>
#include <backplane/module_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the cache's folder, which need not exist (transfer full, bp_str_free); NULL with an error
 * if no folder is possible. Any thread. Since 1.0. */
BP_API char *bp_cache_folder(void);

/* Chooses the cache's folder for this process. path: an absolute path, copied; NULL or "" for the
 * default folder. The choice takes effect with the next use of the cache, which then also checks
 * the folder; a cache that cannot be used only costs time. 0, or -1 with BP_ERROR_VALUE for a
 * relative path. Any thread. Since 1.0. */
BP_API int bp_cache_set_folder(const char *path);

/* Counts the files of the cache, and their bytes; either pointer may be NULL. 0, or -1 with an
 * error if a folder of the cache cannot be used. Any thread, any number of processes. Since 1.0. */
BP_API int bp_cache_measure(uint64_t *files, uint64_t *bytes);

/* Removes the cache's files, except those that were used in the last minute: another process may be
 * about to open them. Folders, and files that the cache did not write, stay. *files, *bytes:
 * the files that were removed; either may be NULL. 0, or -1 with an error; *files and *bytes are
 * valid in both cases. Any thread, any number of processes. Since 1.0. */
BP_API int bp_cache_clear(uint64_t *files, uint64_t *bytes);

/* Read and write data that stays on disk between processes, below the folder of `subject` (letters,
 * digits, '-', '_'). `key` contains everything that the data depend on. A NULL argument is an
 * error, BP_ERROR_VALUE. Otherwise neither function fails or touches this thread's error: a cache
 * that cannot be used, or a damaged file, costs time and a warning in the log. Reading gives bytes
 * that the caller owns, ending in a NUL that the size does not count, or `data` NULL if the cache
 * has none. Writing replaces the data of the key. Any thread, any number of processes. Since 1.0.
 */
BP_API void bp_cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes);
BP_API void bp_cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes);

#ifdef __cplusplus
}
#endif

#endif
