/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a plugin registers while it initialises. They become visible only after it has
 * succeeded, so that nobody finds a function of a plugin that is incomplete or fails. */
#ifndef BACKPLANE_CORE_REGISTRY_REGISTRATION_H
#define BACKPLANE_CORE_REGISTRY_REGISTRATION_H

#include "core/system/shared.h"

#include <backplane/value.h>
#include <stddef.h>

typedef struct RegisteredName {
  char *name;
  BpFunction *function;
} RegisteredName;

typedef struct Registration {
  const char *plugin;   /* its name; borrowed, valid for ever */
  const char *provides; /* the registry names that it may register; borrowed */
  const char *targets;  /* the target kinds that it may register; borrowed */
  RegisteredName *names;
  size_t count;
} Registration;

/* The registration of the plugin that the calling thread initialises, or NULL. */
BP__SHARED Registration *bp__registration_current(void);

/* Makes `registration`, without names, the calling thread's. */
void bp__registration_begin(Registration *registration);
/* The thread no longer initialises a plugin. Names that were not published are dropped. */
void bp__registration_end(Registration *registration);

/* Adds a name that is not visible yet; retains the function. It is an error if the plugin does not
 * provide the name, if somebody else has registered it, or if the plugin has registered it itself,
 * unless `override`. */
int bp__registration_add(Registration *registration, const char *name, BpFunction *function,
                         int override);
int bp__registration_has(const Registration *registration, const char *name);
/* Registers all names, or none with an error. */
int bp__registration_publish(const Registration *registration);

#endif
