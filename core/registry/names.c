/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of distinct names and of words, searched linearly,
 * because most have only dozens of entries. */
#include "core/registry/names.h"

#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

const char *bp__words_next(const char *word, size_t *length) {
  word += *length;
  word += strspn(word, " ");
  *length = strcspn(word, " ");
  return *length ? word : NULL;
}

int bp__words_have(const char *words, const char *word) {
  size_t length = 0, wanted = strlen(word);
  for (const char *at = words; (at = bp__words_next(at, &length));)
    if (length == wanted && memcmp(at, word, wanted) == 0)
      return 1;
  return 0;
}

static int has_name(const BpNames *names, const char *name, size_t size) {
  size_t length;
  for (size_t at = 0; at < names->size; at += length + 1) {
    length = strlen(names->text + at);
    if (length == size && memcmp(names->text + at, name, size) == 0)
      return 1;
  }
  return 0;
}

int bp__names_add(BpNames *names, const char *name, size_t size) {
  if (has_name(names, name, size))
    return 0;
  if (names->size + size + 1 > names->capacity) {
    size_t capacity = 2 * names->capacity + size + 64;
    char *text = realloc(names->text, capacity);
    if (!text)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for a list of names");
    names->text = text;
    names->capacity = capacity;
  }
  memcpy(names->text + names->size, name, size);
  names->text[names->size + size] = '\0';
  names->size += size + 1;
  names->count++;
  return 0;
}

int bp__names_add_words(BpNames *names, const char *words) {
  size_t length = 0;
  for (const char *word = words; (word = bp__words_next(word, &length));)
    if (bp__names_add(names, word, length) < 0)
      return -1;
  return 0;
}

int bp__names_compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

char **bp__names_finish(BpNames *names, size_t *count) {
  char **list = malloc((names->count + 1) * sizeof(*list) + names->size);
  if (list) {
    char *text = (char *)(list + names->count + 1);
    if (names->size)
      memcpy(text, names->text, names->size);
    for (size_t i = 0; i < names->count; i++, text += strlen(text) + 1)
      list[i] = text;
    list[names->count] = NULL;
    qsort(list, names->count, sizeof(*list), bp__names_compare);
    if (count)
      *count = names->count;
  } else {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a list of names");
  }
  bp__names_clear(names);
  return list;
}

void bp__names_clear(BpNames *names) {
  free(names->text);
  *names = (BpNames){.text = NULL};
}

void bp_str_free(char *text) {
  free(text);
}

void bp_names_free(char **names) {
  free(names);
}
