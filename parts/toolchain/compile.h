/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling C source to object files and modules. */
#ifndef BACKPLANE_PARTS_TOOLCHAIN_COMPILE_H
#define BACKPLANE_PARTS_TOOLCHAIN_COMPILE_H

#include "parts/toolchain/workdir.h"

#include <backplane/module.h>

/* Opens the cache of the C compiler's output; if the cache cannot be used, the log says why. */
void bp__compile_open_cache(BpCache *cache);

/* Compiles C source to an object file. The file comes from the cache of `dir`, or is made in `dir`
 * under `name` (without its extension) and kept in the cache. `flags` is NULL or a NULL-terminated
 * list. `object`, of PATH_MAX bytes, receives its path. */
int bp__compile_object(const BpWorkdir *dir, const char *name, const BpByteArray *source,
                       const char *const *flags, char *object);

/* Slots of BpModuleTable. */
BpModule *bp__compile_load_c(const BpByteArray *source, const char *const *flags);
BpModule *bp__compile_load_object(const BpByteArray *object);

#endif
