/* SPDX-License-Identifier: Apache-2.0 */
/* The module object, for the rooms of the core. */
#ifndef BACKPLANE_CORE_MODULE_MODULE_H
#define BACKPLANE_CORE_MODULE_MODULE_H

#include <backplane/module.h>

/* The start of this room: its table, its loaders, the slots of libraries. */
int bp__module_start(void);

/* The module and all that it imports, each once, depth first, itself first. The pointers are
 * borrowed from `module`; the list (NULL on failure, with an error) is freed with free(). */
BpModule **bp__module_flatten(BpModule *module, size_t *count);

/* As bp_module_get_function in the module's imports alone, not in itself. */
int bp__module_get_from_imports(BpModule *module, const char *name, BpFunction **function);

/* Checks a value that a loader returned, and takes it: the module (transfer full) or NULL. */
BpModule *bp__module_from_result(BpValue *result, const char *loader);

#endif
