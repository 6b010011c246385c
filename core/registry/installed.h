/* SPDX-License-Identifier: Apache-2.0 */
/* The installed plugins, as the part parts/plugins lists them. */
#ifndef BACKPLANE_CORE_REGISTRY_INSTALLED_H
#define BACKPLANE_CORE_REGISTRY_INSTALLED_H

#include "core/system/shared.h"

#include "core/registry/names.h"

#include <backplane/plugins.h>

struct BpPluginList {
  size_t size;
  BpPluginInfo *infos; /* `reason` is owned */
};

/* The part's table. Any thread, called without a lock. */
typedef struct Installed {
  /* The functions of <backplane/plugins.h>. */
  BpPluginList *(*list)(void);
  int (*activate)(const char *name);
  void (*try_kinds)(const char *const *device_kinds);
  /* Adds the kinds of devices, or of targets, that plugins declare. 0, or -1 with an error. */
  int (*add_device_kinds)(BpNames *names);
  int (*add_target_kinds)(BpNames *names);
  /* bp__device_find_kind, if plugins of other machines may be known. */
  char *(*find_device_kind)(const char *name);
  /* Adds the registry names that plugins provide. 0, or -1 with an error. */
  int (*add_provided)(BpNames *names);
  /* Returns the environment variables that the active plugin with devices of a kind declares; "" if
   * there are none (transfer full, bp_str_free). */
  char *(*variables_of)(const char *device_kind);
} Installed;

/* Starts the core and returns the part's table; NULL with an error. */
BP__SHARED const Installed *bp__installed(void);

#endif
