/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a plugin registers while it initialises. */

#include "core/registry/registration.h"

#include "core/registry/names.h"
#include "core/registry/registry.h"

#include <backplane/error.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local Registration *current;

Registration *bp__registration_current(void) {
  return current;
}

void bp__registration_begin(Registration *registration) {
  current = registration;
}

void bp__registration_end(Registration *registration) {
  current = NULL;
  for (size_t i = 0; i < registration->count; i++) {
    bp_object_release(registration->names[i].function);
    free(registration->names[i].name);
  }
  free(registration->names);
  registration->names = NULL;
  registration->count = 0;
}

static RegisteredName *find(const Registration *registration, const char *name) {
  for (size_t i = 0; i < registration->count; i++)
    if (!strcmp(registration->names[i].name, name))
      return &registration->names[i];
  return NULL;
}

int bp__registration_has(const Registration *registration, const char *name) {
  return find(registration, name) != NULL;
}

/* ---- Adding ------------------------------------------------------------------------------ */

static int append(Registration *registration, const char *name, BpFunction *function) {
  size_t size = (registration->count + 1) * sizeof *registration->names;
  RegisteredName *names = realloc(registration->names, size);
  char *copy = strdup(name);
  if (names)
    registration->names = names;
  if (!names || !copy) {
    free(copy);
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to register \"%s\"", name);
  }
  RegisteredName *added = &names[registration->count++];
  added->name = copy;
  added->function = bp_object_retain(function);
  return 0;
}

static int replace(RegisteredName *known, BpFunction *function, int override) {
  if (!override)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the name \"%s\" is registered already; register it with override to "
                          "replace it",
                          known->name);
  BpFunction *before = known->function;
  known->function = bp_object_retain(function);
  bp_object_release(before);
  return 0;
}

int bp__registration_add(Registration *registration, const char *name, BpFunction *function,
                         int override) {
  if (!bp__words_have(registration->provides, name))
    return bp_error_raise(BP_ERROR_VALUE,
                          "plugin \"%s\" registers \"%s\", which its descriptor does not say that "
                          "it provides; add the name to `provides`",
                          registration->plugin, name);
  if (bp__registry_has(name))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the name \"%s\" is registered already, and not by plugin \"%s\", which "
                          "cannot replace it",
                          name, registration->plugin);
  RegisteredName *known = find(registration, name);
  return known ? replace(known, function, override) : append(registration, name, function);
}

/* ---- Publishing -------------------------------------------------------------------------- */

int bp__registration_publish(const Registration *registration) {
  const RegisteredName *names = registration->names;
  size_t done = 0;
  while (done < registration->count &&
         !bp__registry_publish(names[done].name, names[done].function))
    done++;
  if (done == registration->count)
    return 0;
  while (done--)
    bp__registry_withdraw(names[done].name, names[done].function);
  return -1;
}
