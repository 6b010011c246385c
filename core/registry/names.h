/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of distinct names, as the public API returns them. */
#ifndef BACKPLANE_CORE_REGISTRY_NAMES_H
#define BACKPLANE_CORE_REGISTRY_NAMES_H

#include <stddef.h>

/* Names one after another, each with its NUL. Begins as zeros; freed by bp__names_finish or with
 * bp__names_clear. */
typedef struct BpNames {
  char *text;
  size_t size;
  size_t capacity;
  size_t count;
} BpNames;

/* Adds the `size` bytes of a name unless it is there. */
int bp__names_add(BpNames *names, const char *name, size_t size);
/* Adds each of the space-separated words. */
int bp__names_add_words(BpNames *names, const char *words);
/* The sorted list in one allocation (transfer full, bp_names_free); empties `names`, also on
 * failure. */
char **bp__names_finish(BpNames *names, size_t *count);
void bp__names_clear(BpNames *names);

#endif
