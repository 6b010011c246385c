/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name that a misspelt one was probably meant to be, for error messages. */
#ifndef BACKPLANE_CORE_REGISTRY_NEAREST_H
#define BACKPLANE_CORE_REGISTRY_NEAREST_H

#include "core/system/shared.h"

#include <stddef.h>

/* The candidate with the fewest edits (insertions, deletions, changes, swaps of neighbours) from
 * `name`; NULL if none is near. A candidate is not near if it takes more edits than a third of the
 * longer name's characters, or, for names of up to five characters, if the first letters differ and
 * were not swapped with the second. NULL candidates are skipped. O(candidates * length^2); names
 * beyond 63 characters are never near. */
const char *bp__nearest(const char *name, const char *const *candidates, size_t count);

/* Size of any hint. */
#define BP_HINT_MAX 96

/* "; did you mean \"opencl\"?" for the nearest candidate, or "", into `hint`, which is returned. */
BP__SHARED const char *bp__nearest_hint(const char *name, const char *const *candidates,
                                        size_t count, char hint[BP_HINT_MAX]);

#endif
