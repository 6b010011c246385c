/* SPDX-License-Identifier: Apache-2.0 */
/* The hook through which lower folders of the core ask core/plugin about installed plugins. */

#include "core/registry/installed.h"

#include "core/registry/host.h"

static const Installed *installed;

void bp__installed_set(const Installed *source) {
  installed = source;
}

const Installed *bp__installed(void) {
  return bp__core_start() ? NULL : installed;
}
