/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: chunks in a list, filled from the front. */
#include "graph/ir/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#define CHUNK_BYTES ((size_t)64 * 1024)
#define ALIGNMENT   ((size_t)64)

struct BpArenaChunk {
  struct BpArenaChunk *next;
  size_t used; /* offset of the free bytes from the start of the chunk */
  size_t size;
};

static struct BpArenaChunk *add_chunk(BpArena *arena, size_t payload) {
  size_t size = payload + ALIGNMENT > CHUNK_BYTES ? payload + ALIGNMENT : CHUNK_BYTES;
  struct BpArenaChunk *chunk = NULL;
  if (size < payload || size > SIZE_MAX - ALIGNMENT)
    return NULL;
  size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  chunk = aligned_alloc(ALIGNMENT, size);
  if (!chunk)
    return NULL;
  chunk->used = ALIGNMENT;
  chunk->size = size;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  return chunk;
}

void *bp__arena_alloc(BpArena *arena, size_t size) {
  struct BpArenaChunk *chunk = arena->chunks;
  void *memory;
  if (!chunk || chunk->size - chunk->used < size)
    chunk = add_chunk(arena, size);
  if (!chunk) {
    bp_error_raise(BP_ERROR_MEMORY, "the compiler cannot allocate %zu bytes", size);
    return NULL;
  }
  memory = (char *)chunk + chunk->used;
  memset(memory, 0, size);
  size = size % ALIGNMENT ? size + ALIGNMENT - size % ALIGNMENT : size;
  chunk->used = size > chunk->size - chunk->used ? chunk->size : chunk->used + size;
  return memory;
}

void *bp__arena_alloc_array(BpArena *arena, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes))
    bytes = SIZE_MAX;
  return bp__arena_alloc(arena, bytes);
}

char *bp__arena_strdup(BpArena *arena, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = bp__arena_alloc(arena, size);
  return copy ? memcpy(copy, text, size) : NULL;
}

char *bp__arena_printf(BpArena *arena, const char *format, ...) {
  va_list args;
  char *text;
  int size;
  va_start(args, format);
  size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  text = size < 0 ? NULL : bp__arena_alloc(arena, (size_t)size + 1);
  if (!text)
    return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)size + 1, format, args);
  va_end(args);
  return text;
}

void bp__arena_free(BpArena *arena) {
  while (arena->chunks) {
    struct BpArenaChunk *next = arena->chunks->next;
    free(arena->chunks);
    arena->chunks = next;
  }
}

int bp__list_push(BpList *list, void *item) {
  if (list->size == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    void **items = reallocarray(list->items, capacity, sizeof(*items));
    if (!items)
      return bp_error_raise(BP_ERROR_MEMORY, "the compiler cannot allocate a list of %zu",
                            capacity);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->size++] = item;
  return 0;
}

int32_t bp__list_index(const BpList *list, const void *item) {
  for (size_t i = 0; i < list->size; i++)
    if (list->items[i] == item)
      return (int32_t)i;
  return -1;
}

void bp__list_free(BpList *list) {
  free(list->items);
  *list = (BpList){0};
}
