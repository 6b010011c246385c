/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables: all reads go through here. */
#ifndef BACKPLANE_CORE_SYSTEM_ENV_H
#define BACKPLANE_CORE_SYSTEM_ENV_H

#include "core/system/shared.h"

/* Returns the value of an environment variable (transfer none, valid until the program changes it);
 * NULL if it is unset or empty, or if the process has more rights than its user (setuid). */
BP__SHARED const char *bp__env_get(const char *name);

/* Returns a folder of the user (transfer full, g_free): the variable `name` if it is an absolute
 * path, else `below_home` in HOME; NULL if neither is set. */
BP__SHARED char *bp__env_user_folder(const char *name, const char *below_home);

#endif
