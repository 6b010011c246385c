/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns over paths, as descriptors have them, evaluated with a bound on the work: what a
 * descriptor says is untrusted, and glob() would walk a whole tree for "/proc/...". */
#ifndef BACKPLANE_CORE_PLUGIN_PATTERN_H
#define BACKPLANE_CORE_PLUGIN_PATTERN_H

/* How many names of directories and paths are looked at for the patterns of one plugin. */
#define BP_PATTERN_WORK 4096

/* Calls `visit` for each path that is there and fits an absolute pattern, in the order of names.
 * *work is counted down for all that is looked at; the rest is left out when it is 0. */
void bp__pattern_visit(const char *pattern, int *work,
                       void (*visit)(void *context, const char *path), void *context);

/* The same for what is in a directory; nothing if it is none. */
void bp__pattern_visit_inside(const char *directory, int *work,
                              void (*visit)(void *context, const char *path), void *context);

#endif
