/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a module and its imports as one shared library. */
#ifndef BACKPLANE_PARTS_TOOLCHAIN_EXPORT_H
#define BACKPLANE_PARTS_TOOLCHAIN_EXPORT_H

#include <backplane/module.h>

/* Implements bp_module_export_library for a module that is not NULL. */
int bp__export_library(BpModule *module, const char *path);

#endif
