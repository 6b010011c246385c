/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that reads the environment. */

#include "core/system/env.h"

#include "core/system/trust.h"

#include <glib.h>
#include <stdlib.h>

const char *bp__env_get(const char *name) {
  const char *value = bp__is_privileged() ? NULL : secure_getenv(name);
  return value && *value ? value : NULL;
}

char *bp__env_user_folder(const char *name, const char *below_home) {
  const char *folder = bp__env_get(name), *home = bp__env_get("HOME");
  if (folder && *folder == '/')
    return g_strdup(folder);
  return home && *home == '/' ? g_strconcat(home, "/", below_home, NULL) : NULL;
}
