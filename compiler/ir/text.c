/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text, and tables of names. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#include "compiler/ir/text.h"

/* ---- Text -------------------------------------------------------------------------------- */

static bool reserve(BpText *text, size_t size) {
  if (text->failed)
    return false;
  if (text->capacity - text->size > size)
    return true;
  size_t capacity = text->capacity ? text->capacity : 128;
  while (capacity - text->size <= size && capacity <= SIZE_MAX / 2)
    capacity *= 2;
  char *data = capacity - text->size > size ? realloc(text->data, capacity) : NULL;
  if (!data) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

void bp__text_add_bytes(BpText *text, const char *data, size_t size) {
  if (!reserve(text, size))
    return;
  memcpy(text->data + text->size, data, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void bp__text_add(BpText *text, const char *string) {
  bp__text_add_bytes(text, string, strlen(string));
}

void bp__text_format(BpText *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (size < 0 || !reserve(text, (size_t)size)) {
    text->failed = true;
    return;
  }
  va_start(args, format);
  vsnprintf(text->data + text->size, (size_t)size + 1, format, args);
  va_end(args);
  text->size += (size_t)size;
}

void bp__text_line(BpText *text, int level) {
  bp__text_add_bytes(text, "\n", 1);
  for (int i = 0; i < level; i++)
    bp__text_add_bytes(text, "  ", 2);
}

char *bp__text_take(BpText *text) {
  bp__text_add_bytes(text, "", 0);
  char *data = text->data;
  if (text->failed) {
    free(data);
    data = NULL;
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a text of more than %zu bytes", text->size);
  }
  *text = (BpText){0};
  return data;
}

/* ---- Names ------------------------------------------------------------------------------- */

typedef struct BpName {
  char *name;
  size_t size;
  void *value; /* NULL in a free slot */
} BpName;

static size_t hash(const char *name, size_t size) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < size; i++)
    h = (h ^ (unsigned char)name[i]) * 1099511628211u;
  return (size_t)(h ^ h >> 32);
}

static BpName *find(const BpNames *names, const char *name, size_t size) {
  size_t index = hash(name, size) & (names->capacity - 1);
  for (;; index = (index + 1) & (names->capacity - 1)) {
    BpName *slot = &names->slots[index];
    if (!slot->value || (slot->size == size && !memcmp(slot->name, name, size)))
      return slot;
  }
}

void *bp__names_get(const BpNames *names, const char *name, size_t size) {
  return names->capacity ? find(names, name, size)->value : NULL;
}

static int grow(BpNames *names) {
  BpNames larger = {NULL, names->capacity ? names->capacity * 2 : 32, names->size};
  larger.slots = calloc(larger.capacity, sizeof *larger.slots);
  if (!larger.slots)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu names", larger.capacity);
  for (size_t i = 0; i < names->capacity; i++)
    if (names->slots[i].value)
      *find(&larger, names->slots[i].name, names->slots[i].size) = names->slots[i];
  free(names->slots);
  *names = larger;
  return 0;
}

int bp__names_set(BpNames *names, const char *name, size_t size, void *value, const char **kept) {
  if (2 * (names->size + 1) > names->capacity && grow(names))
    return -1;
  BpName *slot = find(names, name, size);
  if (!slot->value) {
    char *copy = malloc(size + 1);
    if (!copy)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for a name of %zu bytes", size);
    memcpy(copy, name, size);
    copy[size] = '\0';
    *slot = (BpName){copy, size, NULL};
    names->size++;
  }
  slot->value = value;
  if (kept)
    *kept = slot->name;
  return 0;
}

void bp__names_clear(BpNames *names) {
  for (size_t i = 0; i < names->capacity; i++)
    free(names->slots[i].name);
  free(names->slots);
  *names = (BpNames){0};
}
