/* SPDX-License-Identifier: Apache-2.0 */
/* Where cached files lie. */
#ifndef BACKPLANE_CORE_REGISTRY_CACHE_DIR_H
#define BACKPLANE_CORE_REGISTRY_CACHE_DIR_H

#include <stddef.h>
#include <stdint.h>

/* The directory for cached files of `subject` (letters, digits, '-', '_'), made if need be, as a
 * NUL-terminated string into `path` of `size` bytes. It lies in BACKPLANE_CACHE_DIR, else in
 * XDG_CACHE_HOME/backplane, else in HOME/.cache/backplane. Cached files are loaded as code, so a
 * directory that another user owns or may write to is refused. -1 with an error. Any thread. */
int32_t bp__cache_dir(const char *subject, char *path, size_t size);

/* The folder where programs by custom keep this user's caches, XDG_CACHE_HOME or HOME/.cache, if
 * that is neither there to be written nor to be made (transfer full); NULL otherwise. Any thread.
 */
char *bp__cache_home_unwritable(void);

#endif
