/* SPDX-License-Identifier: Apache-2.0 */
/* Advice in messages: the nearest name, the package to install. The part parts/hints finds the
 * advice, and keeps code whose plugin is absent; if that part is not installed, which is logged
 * once, messages have no advice. */
#ifndef BACKPLANE_CORE_REGISTRY_HINTS_H
#define BACKPLANE_CORE_REGISTRY_HINTS_H

#include "core/system/shared.h"

#include <backplane/module.h>
#include <stddef.h>

/* The part's table. */
typedef struct Hints {
  const char *(*nearest)(const char *name, const char *const *candidates, size_t count);
  char *(*package_of)(const char *name);
  char *(*explain_absence)(const char *name);
  /* bp__device_raise_unknown. */
  int (*raise_unknown_kind)(const char *name);
  /* Returns why a kind has no device: the environment variables that may be the cause, followed by
   * the plugin's reason. Variables that the reason names are left out. The text is valid until the
   * thread's next call. */
  const char *(*explain_no_device)(const char *kind, const char *reason);
  /* Makes a module that keeps the bytes of a module of the kind. Requests for functions of the
   * module fail with this thread's present error, which the module takes. NULL with an error only
   * if memory is exhausted. `owner` keeps the bytes valid. */
  BpModule *(*create_absent)(const char *kind, const BpByteArray *bytes, BpObject *owner);
} Hints;

/* Returns the part; NULL if it is not installed. The call keeps this thread's error. */
const Hints *bp__hints(void);

/* The size of the longest hint. */
#define BP_HINT_MAX 96

/* Writes "; did you mean \"opencl\"?" for the nearest candidate, or "", to `hint`, and returns
 * `hint`. */
BP__SHARED const char *bp__nearest_hint(const char *name, const char *const *candidates,
                                        size_t count, char hint[BP_HINT_MAX]);

/* Returns the package that has a plugin, kind of device, target kind or layer of that name
 * (transfer full, g_free); NULL if no file names one. Each call reads the files *.conf of the
 * folders packages.d again, since only messages need them: first the user's
 * ($XDG_DATA_HOME/backplane-1/), then the system's (beside the folder of plugins), in the order of
 * their names. The first file with the name counts. A malformed file is logged and skipped. Any
 * thread. */
BP__SHARED char *bp__package_of(const char *name);

/* Returns "; install the package PACKAGE", or "" if no file names a package (transfer full,
 * g_free). */
BP__SHARED char *bp__package_hint(const char *name);

#endif
