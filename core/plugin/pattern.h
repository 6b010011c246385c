/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns of descriptors over paths, evaluated with a limit on the work: a descriptor is
 * untrusted, and glob() would walk a whole tree for "/proc/...". */
#ifndef BACKPLANE_CORE_PLUGIN_PATTERN_H
#define BACKPLANE_CORE_PLUGIN_PATTERN_H

#include "core/system/shared.h"

/* The most names of directories and paths that are examined for the patterns of one plugin. */
#define BP_PATTERN_WORK 4096

/* Calls `visit` for each existing path that matches an absolute pattern, in the order of names.
 * *work is decreased for every examined name; at 0 further names are skipped. */
BP__SHARED void bp__pattern_visit(const char *pattern, int *work,
                                  void (*visit)(void *context, const char *path), void *context);

/* Calls `visit` for the names in a directory that match; does nothing if the path is not a
 * directory. */
void bp__pattern_visit_inside(const char *directory, int *work,
                              void (*visit)(void *context, const char *path), void *context);

#endif
