/* SPDX-License-Identifier: Apache-2.0 */
/* The registry's interface for the other parts of the core. */
#ifndef BACKPLANE_CORE_REGISTRY_REGISTRY_H
#define BACKPLANE_CORE_REGISTRY_REGISTRY_H

#include "core/system/shared.h"

#include <backplane/object.h>

/* Like bp_registry_get, but never activates a plugin. */
int bp__registry_find(const char *name, BpFunction **function);

/* Whether a function is registered under the name. */
BP__SHARED int bp__registry_has(const char *name);

/* Like bp_registry_set, for plugins: BP_ERROR_RUNTIME unless this thread initialises a plugin. */
int bp__registry_set_of_plugin(const char *name, BpFunction *function, int32_t override);

/* Registers a name for a plugin that has succeeded. */
int bp__registry_publish(const char *name, BpFunction *function);
/* Removes a name if it is still registered for this function. */
void bp__registry_withdraw(const char *name, const BpFunction *function);

/* Prepares the counters of readers for forks. */
void bp__registry_watch_forks(void);

/* Registers `call` under `name` while the core starts. */
BP__SHARED int bp__registry_set_call(const char *name, BpPackedCall call);

#endif
