/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that reads the environment. */

#include "core/system/env.h"

#include <stdlib.h>

const char *bp__env_get(const char *name) {
  const char *value = secure_getenv(name);
  return value && *value ? value : NULL;
}
