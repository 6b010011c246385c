/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the table Hints that are in files of their own. */
#ifndef BACKPLANE_PARTS_HINTS_HINTS_H
#define BACKPLANE_PARTS_HINTS_HINTS_H

#include "core/registry/hints.h"

/* Returns the candidate with the fewest edits (insertions, deletions, changes, swaps of neighbours)
 * from `name`; NULL if none is near. A candidate is not near if it takes more edits than a third of
 * the longer name's characters, or, for names of up to five characters, if the first letters differ
 * and were not swapped with the second. NULL candidates are skipped. O(candidates * length^2);
 * names beyond 63 characters are never near. */
const char *bp__find_nearest(const char *name, const char *const *candidates, size_t count);
char *bp__find_package(const char *name);
char *bp__explain_absence(const char *name);

int bp__raise_unknown_kind(const char *name);
const char *bp__explain_no_device(const char *kind, const char *reason);
BpModule *bp__create_absent(const char *kind, const BpByteArray *bytes, BpObject *owner);

#endif
