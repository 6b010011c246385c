/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling C source, and making modules of it. */
#ifndef BACKPLANE_CORE_MODULE_COMPILE_H
#define BACKPLANE_CORE_MODULE_COMPILE_H

#include "core/module/workdir.h"

#include <backplane/module.h>

/* Opens the cache of what the C compiler makes; where it cannot be used, the log says why. */
void bp__compile_open_cache(BpCache *cache);

/* Compiles C source to an object file: found in the cache that `dir` lies in, or made in `dir`
 * under `name` (without its extension) and kept there. `flags` is NULL or a NULL-terminated list.
 * `object`, of PATH_MAX bytes, receives its path. */
int bp__compile_object(const BpWorkdir *dir, const char *name, const BpByteArray *source,
                       const char *const *flags, char *object);

/* As the slots of BpModuleTable. */
BpModule *bp__compile_load_c(const BpByteArray *source, const char *const *flags);
BpModule *bp__compile_load_object(const BpByteArray *object);

#endif
