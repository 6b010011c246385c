/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of distinct names, as the public API returns them, and of words, as descriptors contain
 * them. */
#ifndef BACKPLANE_CORE_REGISTRY_NAMES_H
#define BACKPLANE_CORE_REGISTRY_NAMES_H

#include "core/system/shared.h"

#include <stddef.h>

/* Walks the words of a space-separated list: returns the next word, with its *length, or NULL at
 * the end. Start with `word` = the list and *length = 0; pass back the results. */
BP__SHARED const char *bp__words_next(const char *word, size_t *length);
/* Whether the list has the word. */
BP__SHARED int bp__words_have(const char *words, const char *word);

/* Names in sequence, each with its NUL. Initialised with zeros; freed by bp__names_finish or with
 * bp__names_clear. */
typedef struct BpNames {
  char *text;
  size_t size;
  size_t capacity;
  size_t count;
} BpNames;

/* Adds a name of `size` bytes unless it is in the list. */
BP__SHARED int bp__names_add(BpNames *names, const char *name, size_t size);
/* Adds each word of a list. */
BP__SHARED int bp__names_add_words(BpNames *names, const char *words);
/* Returns the sorted list in one allocation (transfer full, bp_names_free); empties `names`, also
 * on failure. */
BP__SHARED char **bp__names_finish(BpNames *names, size_t *count);
BP__SHARED void bp__names_clear(BpNames *names);

/* Compares two strings by pointers to them, for qsort and bsearch. */
BP__SHARED int bp__names_compare(const void *a, const void *b);

#endif
