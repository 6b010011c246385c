/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables: all code of the host reads them through bp__env_get. Drivers read
 * variables directly. */
#ifndef BACKPLANE_CORE_SYSTEM_ENV_H
#define BACKPLANE_CORE_SYSTEM_ENV_H

#include "core/system/shared.h"

/* Returns the value of an environment variable (transfer none, valid until the program changes it);
 * NULL if it is unset or empty, or if the process has more rights than its user (setuid). */
BP__SHARED const char *bp__env_get(const char *name);

/* Returns a folder of the user (transfer full, g_free): the variable `name` if it is an absolute
 * path, else `below_home` in HOME; NULL if neither is set. */
BP__SHARED char *bp__env_user_folder(const char *name, const char *below_home);

/* Before code of a plugin is loaded: in a process with more rights than its user, replaces the
 * environment by one with PATH and HOME alone, once. HOME is the folder of the effective user, or
 * /dev/null, in which no file can be made, if others may write to that folder. Any thread. */
BP__SHARED void bp__env_protect(void);

#endif
