/* SPDX-License-Identifier: Apache-2.0 */
/* The hook through which lower rooms ask core/plugin what is installed. */

#include "core/registry/installed.h"

#include "core/registry/host.h"

static const Installed *installed;

void bp__installed_set(const Installed *source) {
  installed = source;
}

const Installed *bp__installed(void) {
  return bp__core_start() ? NULL : installed;
}
