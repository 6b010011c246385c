/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a compilation: an arena, which is freed as a whole, and a growing list of pointers.
 * Allocations whose size depends on an input come from the arena, because exhausted memory must be
 * an error, not an abort. */
#ifndef BACKPLANE_GRAPH_IR_ARENA_H
#define BACKPLANE_GRAPH_IR_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include <backplane/api.h>

/* An arena; initialise it with zeros. An arena is not thread-safe. */
typedef struct BpArena {
  struct BpArenaChunk *chunks;
} BpArena;

/* Allocates zeroed memory aligned to 64 bytes, valid until the arena is freed; NULL with
 * BP_ERROR_MEMORY. */
void *bp__arena_alloc(BpArena *arena, size_t size);
/* Allocates `count` elements of `size` bytes; an overflow fails with BP_ERROR_MEMORY. */
void *bp__arena_alloc_array(BpArena *arena, size_t count, size_t size);
char *bp__arena_strdup(BpArena *arena, const char *text);
char *bp__arena_printf(BpArena *arena, const char *format, ...) BP_PRINTF(2, 3);
void bp__arena_free(BpArena *arena);

/* A list of pointers; initialise it with zeros, free it with bp__list_free. */
typedef struct BpList {
  void **items;
  size_t size;
  size_t capacity;
} BpList;

int bp__list_push(BpList *list, void *item);
/* The index of an item in the list, or -1. */
int32_t bp__list_index(const BpList *list, const void *item);
void bp__list_free(BpList *list);

#endif
