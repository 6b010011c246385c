/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a plugin registers while it initialises. The names become visible only after the
 * plugin has succeeded, so that no look-up finds a function of an incomplete or failed plugin. */
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
  const char *plugin;   /* the plugin's name; borrowed, valid for ever */
  const char *provides; /* registry names that the plugin may register; borrowed */
  const char *targets;  /* target kinds that the plugin may register; borrowed */
  int was_tried;        /* an earlier trial of the plugin succeeded */
  RegisteredName *names;
  size_t count;
} Registration;

/* Returns the registration of the plugin that the calling thread initialises, or NULL. */
BP__SHARED Registration *bp__registration_current(void);

/* Makes `registration`, which has no names yet, the calling thread's registration. */
BP__SHARED void bp__registration_begin(Registration *registration);
/* Ends the calling thread's registration. Names that were not published are dropped. */
BP__SHARED void bp__registration_end(Registration *registration);

/* Adds a name that is not visible yet; retains the function. It is an error if the plugin does not
 * provide the name, if another plugin or the program has registered it, or, unless `override`, if
 * the plugin has registered it before. */
int bp__registration_add(Registration *registration, const char *name, BpFunction *function,
                         int override);
BP__SHARED int bp__registration_has(const Registration *registration, const char *name);
/* Registers all names, or none with an error. */
BP__SHARED int bp__registration_publish(const Registration *registration);

#endif
