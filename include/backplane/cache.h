/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache: compiled code, and what was learned of plugins. It is in BACKPLANE_CACHE_DIR,
 * else XDG_CACHE_HOME/backplane, else HOME/.cache/backplane. A NULL where none is allowed is an
 * error of kind BP_ERROR_VALUE. */
#ifndef BACKPLANE_CACHE_H
#define BACKPLANE_CACHE_H

#include <stdint.h>

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Its folder, whether it is there or not (transfer full, bp_str_free); NULL with an error: there
 * can be none. Any thread. Since 0.6. */
BP_API char *bp_cache_folder(void);

/* How many files it has, and their bytes; either may be NULL. 0, or -1 with an error: a folder in
 * it cannot be used. Any thread, any number of processes. Since 0.6. */
BP_API int bp_cache_measure(uint64_t *files, uint64_t *bytes);

/* Removes its files, except those that were used in the last minute: another process may be about
 * to open them. Files that the cache did not write stay, and so do folders. *files, *bytes: what
 * was removed; either may be NULL. 0, or -1 with an error, and what was removed counts all the
 * same. Any thread, any number of processes. Since 0.6. */
BP_API int bp_cache_clear(uint64_t *files, uint64_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
