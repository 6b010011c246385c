/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the table Hints that are in files of their own. */
#ifndef BACKPLANE_PARTS_HINTS_HINTS_H
#define BACKPLANE_PARTS_HINTS_HINTS_H

#include "core/registry/hints.h"

const char *bp__find_nearest(const char *name, const char *const *candidates, size_t count);
char *bp__find_package(const char *name);

#endif
