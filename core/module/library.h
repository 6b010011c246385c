/* SPDX-License-Identifier: Apache-2.0 */
/* Library modules: shared libraries of host code. */
#ifndef BACKPLANE_CORE_MODULE_LIBRARY_H
#define BACKPLANE_CORE_MODULE_LIBRARY_H

#include "core/system/shared.h"

#include <backplane/module.h>

/* Registers a host function for libraries that are opened later: a library's pointer variable
 * called `name` ("__TVMBackendParallelLaunch") is set to `function`. Called while the core starts.
 * Name and function must stay valid for ever. A library with an unregistered variable "__TVM..." is
 * refused. */
BP__SHARED int bp__library_add_slot(const char *name, void (*function)(void));

/* Returns the function for the variable with a name, or NULL. */
void (*bp__library_find_slot(const char *name))(void);

/* Opens a shared library (transfer full). Returns the root of the modules in its blob or, without a
 * blob, a module of its exported functions. */
BpModule *bp__library_load(const char *path);

/* Finds a function in a library's imports or the registry, for the library
 * (TVMFFIEnvModLookupFromImports): *function is borrowed from the module. */
BP__SHARED int bp__library_look_up(void *module, const char *name, void **function);

/* Refuses a tensor on a device of another machine as argument `index` of host code: 0, or -1 with
 * an error. Host code names devices by their kind's number alone, which means this machine. */
BP__SHARED int bp__library_check_machine(const BpTensorView *view, int32_t index);

#endif
