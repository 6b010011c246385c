/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins: the tables of parts/plugins, the part of the core that finds and activates them, and of
 * parts/doctor. */
#ifndef BACKPLANE_CORE_REGISTRY_INSTALLED_H
#define BACKPLANE_CORE_REGISTRY_INSTALLED_H

#include "core/system/shared.h"

#include "core/registry/names.h"

#include <backplane/plugins.h>
#include <glib.h>

struct BpPluginList {
  size_t size;
  BpPluginInfo *infos; /* `reason` is owned */
};

/* The part's table. Any thread, called without a lock. */
typedef struct Installed {
  /* Activates the plugin that provides a registry name, if there is one. 0, with or without such a
   * plugin, or -1 with an error. Called with no lock held. */
  int (*activate_provider)(const char *registry_name);
  /* The functions of <backplane/plugins.h>. */
  BpPluginList *(*list)(void);
  int (*activate)(const char *name);
  void (*try_kinds)(const char *const *device_kinds);
  int (*register_static)(const char *descriptor, BpPluginEntry entry);
  int (*try_here)(int plugin_fd, const char *path, int fd); /* -1 with an error: impossible */
  /* Asks one machine for its plugins. Returns 1; or, with an error, 0 if the machine cannot be
   * reached, and -1 if the text is not a name of a machine. */
  int (*reach_machine)(const char *host);
  /* Adds the kinds of devices, or of targets, that plugins declare. 0, or -1 with an error. */
  int (*add_device_kinds)(BpNames *names);
  int (*add_target_kinds)(BpNames *names);
  /* Does the work of bp__device_find_kind if plugins of other machines may be known. */
  char *(*find_device_kind)(const char *name);
  /* Adds the registry names that plugins provide. 0, or -1 with an error. */
  int (*add_provided)(BpNames *names);
  /* Returns the environment variables that the active plugin with devices of a kind declares; "" if
   * it declares none (transfer full, bp_str_free). */
  char *(*variables_of)(const char *device_kind);
} Installed;

/* Strings of a finding that are not static are owned by `strings`. */
struct BpPluginDiagnosis {
  GArray *findings; /* BpPluginFinding */
  GPtrArray *strings;
};

/* The table of parts/doctor, the part of the core that diagnoses plugins. */
typedef struct Doctor {
  BpPluginDiagnosis *(*diagnose)(void);
  const BpPluginReason *(*reason)(size_t index);
} Doctor;

/* Starts the core and returns the part's table; NULL with an error. */
BP__SHARED const Installed *bp__installed(void);

#endif
