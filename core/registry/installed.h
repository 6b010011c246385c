/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds that installed plugins declare, for the parts of the core below core/plugin. */
#ifndef BACKPLANE_CORE_REGISTRY_INSTALLED_H
#define BACKPLANE_CORE_REGISTRY_INSTALLED_H

#include "core/system/shared.h"

#include "core/registry/names.h"

/* Functions of core/plugin. Any thread, called without a lock. */
typedef struct Installed {
  /* Adds the kinds of devices, or of targets, that plugins declare. 0, or -1 with an error. */
  int (*add_device_kinds)(BpNames *names);
  int (*add_target_kinds)(BpNames *names);
  /* bp__device_find_kind. */
  char *(*find_device_kind)(const char *name);
  /* Adds the registry names that plugins provide. 0, or -1 with an error. */
  int (*add_provided)(BpNames *names);
  /* Returns the environment variables that the active plugin with devices of a kind declares; "" if
   * there are none (transfer full, bp_str_free). */
  char *(*variables_of)(const char *device_kind);
} Installed;

/* Sets these functions, once, while the core starts; the structure must stay valid for ever. */
void bp__installed_set(const Installed *source);

/* Starts the core and returns these functions; NULL with an error. */
BP__SHARED const Installed *bp__installed(void);

#endif
