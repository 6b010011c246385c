/* SPDX-License-Identifier: Apache-2.0 */
/* The module object, for the other parts of the core. */
#ifndef BACKPLANE_CORE_MODULE_MODULE_H
#define BACKPLANE_CORE_MODULE_MODULE_H

#include "core/system/shared.h"

#include <backplane/module.h>

/* Starts core/module: its table, its loaders, the variables of libraries. */
int bp__module_start(void);

/* Returns the name of the function that this thread is looking up in a module; "" outside of a
 * look-up. */
BP__SHARED const char *bp__module_looked_up(void);

/* Lists the module and all its imports, each once, depth first, the module first. The pointers are
 * borrowed from `module`; free the list with free(). NULL with an error. */
BP__SHARED BpModule **bp__module_flatten(BpModule *module, size_t *count);

/* Like bp_module_get_function, but searches only the module's imports. */
int bp__module_get_from_imports(BpModule *module, const char *name, BpFunction **function);

/* Returns the module's code loaded by the loader of a machine: "remote:me@gpubox/", or "" for this
 * machine. The code is loaded once, from the bytes of `module`, which owns the result. Any thread.
 * NULL with an error. */
BpModule *bp__module_elsewhere(BpModule *module, const char *machine);

/* Takes the value that a loader returned, and checks it: returns the module (transfer full) or
 * NULL. */
BpModule *bp__module_from_result(BpValue *result, const char *loader);

#endif
