/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that reads the environment. */

#include "core/system/env.h"

#include "core/system/trust.h"

#include <stdlib.h>

const char *bp__env_get(const char *name) {
  const char *value = bp__is_privileged() ? NULL : secure_getenv(name);
  return value && *value ? value : NULL;
}
