/* SPDX-License-Identifier: Apache-2.0 */
/* What a mistyped name was probably meant to be, for error messages. */
#ifndef BACKPLANE_CORE_REGISTRY_NEAREST_H
#define BACKPLANE_CORE_REGISTRY_NEAREST_H

#include <stddef.h>

/* The candidate that takes the fewest edits (insertions, deletions, changes, swaps of neighbours)
 * to get to from `name`; NULL when none is near: more than a third of the longer name's characters,
 * or, of names of up to five, another first letter that is not the second by a swap. NULL
 * candidates are skipped. O(candidates * length^2); names beyond 63 characters are never near.
 */
const char *bp__nearest(const char *name, const char *const *candidates, size_t count);

/* Room for any hint. */
#define BP_HINT_MAX 96

/* "; did you mean \"opencl\"?" for the nearest candidate, or "", into `hint`, which is returned. */
const char *bp__nearest_hint(const char *name, const char *const *candidates, size_t count,
                             char hint[BP_HINT_MAX]);

#endif
