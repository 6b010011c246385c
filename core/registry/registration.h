/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin registers while it initialises. Its names are kept back until it has succeeded, so
 * that nobody ever finds a function of a plugin that is not whole or that fails. */
#ifndef BACKPLANE_CORE_REGISTRY_REGISTRATION_H
#define BACKPLANE_CORE_REGISTRY_REGISTRATION_H

#include <backplane/value.h>
#include <stddef.h>

typedef struct RegisteredName {
  char *name;
  BpFunction *function;
} RegisteredName;

typedef struct Registration {
  const char *plugin;   /* its name; borrowed, for ever */
  const char *provides; /* the registry names that it may register; borrowed */
  const char *targets;  /* the target kinds that it may register; borrowed */
  RegisteredName *names;
  size_t count;
} Registration;

/* The plugin that the calling thread initialises; NULL if it initialises none. */
Registration *bp__registration_current(void);

/* Makes `registration`, without names, the calling thread's. */
void bp__registration_begin(Registration *registration);
/* The thread initialises no plugin any more. What was not published is dropped. */
void bp__registration_end(Registration *registration);

/* Keeps a name back; retains the function. An error for a name that the plugin does not provide,
 * that somebody else has registered, or that it has registered itself, unless `override`. */
int bp__registration_add(Registration *registration, const char *name, BpFunction *function,
                         int override);
int bp__registration_has(const Registration *registration, const char *name);
/* Registers all names, or none with an error. */
int bp__registration_publish(const Registration *registration);

#endif
