/* SPDX-License-Identifier: Apache-2.0 */
/* What the system's package manager calls the packages with plugins, as installed files say. */
#ifndef BACKPLANE_CORE_REGISTRY_PACKAGES_H
#define BACKPLANE_CORE_REGISTRY_PACKAGES_H

#include "core/system/shared.h"

/* The package with a plugin, kind of device, target kind or layer of that name (transfer full,
 * g_free); NULL if no file names it. The files *.conf of a folder packages.d are read anew by each
 * call, as only messages need them: first the user's ($XDG_DATA_HOME/backplane-1/), then the
 * system's (beside the folder of plugins), in the order of their names. The first file that names
 * it counts. A malformed file is logged and left out. Any thread. */
BP__SHARED char *bp__package_of(const char *name);

/* "; install the package PACKAGE", or "" if no file names it (transfer full, g_free). */
BP__SHARED char *bp__package_hint(const char *name);

#endif
