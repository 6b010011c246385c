/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache: compiled code, and what was learned of plugins. It is where the program says,
 * else in BACKPLANE_CACHE_DIR, else XDG_CACHE_HOME/backplane, else HOME/.cache/backplane. A NULL
 * where none is allowed is an error of kind BP_ERROR_VALUE. */
#ifndef BACKPLANE_CACHE_H
#define BACKPLANE_CACHE_H

#include <stdint.h>

#include <backplane/api.h>
#include <backplane/module_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Its folder, whether it is there or not (transfer full, bp_str_free); NULL with an error: there
 * can be none. Any thread. Since 1.0. */
BP_API char *bp_cache_folder(void);

/* Chooses the folder of this process, copied: an absolute path, or NULL or "" for where it is
 * otherwise. It counts from the next use of the cache on; whether it can be used is found out then,
 * and a cache that cannot be used costs time only. 0, or -1 with BP_ERROR_VALUE: a relative path.
 * Any thread. Since 1.0. */
BP_API int bp_cache_set_folder(const char *path);

/* How many files it has, and their bytes; either may be NULL. 0, or -1 with an error: a folder in
 * it cannot be used. Any thread, any number of processes. Since 1.0. */
BP_API int bp_cache_measure(uint64_t *files, uint64_t *bytes);

/* Removes its files, except those that were used in the last minute: another process may be about
 * to open them. Files that the cache did not write stay, and so do folders. *files, *bytes: what
 * was removed; either may be NULL. 0, or -1 with an error, and what was removed counts all the
 * same. Any thread, any number of processes. Since 1.0. */
BP_API int bp_cache_clear(uint64_t *files, uint64_t *bytes);

/* What is kept on disk between processes, below the folder of `subject` (letters, digits, '-',
 * '_'). `key` is all that the bytes depend on. Neither fails nor touches this thread's error: a
 * cache that cannot be used, or a damaged file, costs time and a warning in the log. Reading gives
 * bytes of the caller's, with a NUL behind them that the size does not count, or `data` NULL if
 * there are none; writing replaces what was kept. Any thread, any number of processes. Since 1.0.
 */
BP_API void bp_cache_read(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes);
BP_API void bp_cache_write(const char *subject, const BpByteArray *key, const BpByteArray *bytes);

#ifdef __cplusplus
}
#endif

#endif
