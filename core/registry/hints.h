/* SPDX-License-Identifier: Apache-2.0 */
/* Advice in messages: the nearest name, the package to install. The part parts/hints finds the
 * advice; if that part is not installed, which is logged once, messages have no advice. */
#ifndef BACKPLANE_CORE_REGISTRY_HINTS_H
#define BACKPLANE_CORE_REGISTRY_HINTS_H

#include "core/system/shared.h"

#include <stddef.h>

/* The part's table. */
typedef struct Hints {
  const char *(*nearest)(const char *name, const char *const *candidates, size_t count);
  char *(*package_of)(const char *name);
  char *(*explain_absence)(const char *name);
} Hints;

/* Returns the candidate with the fewest edits (insertions, deletions, changes, swaps of neighbours)
 * from `name`; NULL if none is near. A candidate is not near if it takes more edits than a third of
 * the longer name's characters, or, for names of up to five characters, if the first letters differ
 * and were not swapped with the second. NULL candidates are skipped. O(candidates * length^2);
 * names beyond 63 characters are never near. */
const char *bp__nearest(const char *name, const char *const *candidates, size_t count);

/* Size of any hint. */
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
