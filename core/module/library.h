/* SPDX-License-Identifier: Apache-2.0 */
/* Library modules: shared libraries of host code. */
#ifndef BACKPLANE_CORE_MODULE_LIBRARY_H
#define BACKPLANE_CORE_MODULE_LIBRARY_H

#include <backplane/module.h>

/* Gives libraries that are opened from now on a function of the host: those that define a pointer
 * variable called `name` ("__TVMBackendParallelLaunch") find it filled with `function`. Rooms call
 * it while the core starts. Name and function live for ever. A library with a variable "__TVM..."
 * that nobody registered here is refused. */
int bp__library_add_slot(const char *name, void (*function)(void));

/* The function for a variable of that name, or NULL. */
void (*bp__library_find_slot(const char *name))(void);

/* Opens a shared library (transfer full): the root of the modules that its blob holds, or a module
 * of its exported functions if it has none. */
BpModule *bp__library_load(const char *path);

/* The slots that this room provides. */
int bp__library_add_own_slots(void);

/* What a library calls to find a function in its imports or the registry
 * (TVMFFIEnvModLookupFromImports): *function is borrowed from the module. */
int bp__library_look_up(void *module, const char *name, void **function);

#endif
