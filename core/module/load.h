/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the loader of a module. */
#ifndef BACKPLANE_CORE_MODULE_LOAD_H
#define BACKPLANE_CORE_MODULE_LOAD_H

#include "core/system/shared.h"

#include <backplane/module.h>

/* Whether bp_module_load treats the file as a shared library: "x.so", "x.so.1". */
BP__SHARED int bp__module_is_library_path(const char *path);

/* Like bp_module_load_from_bytes, with the loader of a machine: "remote:me@gpubox/", or "". */
BpModule *bp__module_load_on(const char *machine, const char *kind, const BpByteArray *bytes);

/* Returns 1 if modules of a kind can be loaded; 0, perhaps with an error, if not. */
BP__SHARED int bp__module_has_loader(const char *kind);

/* Like bp_module_load_from_bytes, for a module inside a library. `owner` keeps the bytes valid:
 * `owner` is the loader's second argument, and the loader may retain it and use the bytes in place.
 * An import without a loader causes no error until the import is used
 * (parts/hints/absent_module.c). */
BP__SHARED BpModule *bp__module_load_part(const char *kind, const BpByteArray *bytes,
                                          BpObject *owner, int is_import);

#endif
