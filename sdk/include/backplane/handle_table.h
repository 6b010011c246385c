/* SPDX-License-Identifier: Apache-2.0 */
/* A table of handles: numbers that a plugin gives out in place of pointers to its objects. The
 * table detects a handle that was removed, belongs to another table, or never existed, also if its
 * place has been reused. No handle is an address that a processor accepts. Inline, for plugins;
 * nothing here is part of the ABI. A plugin that shares a table between threads locks it. */
#ifndef BACKPLANE_HANDLE_TABLE_H
#define BACKPLANE_HANDLE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A place of the table, which holds an item or is free. */
typedef struct BpHandlePlace_ {
  void *item;         /* NULL: free */
  uint32_t count;     /* how many items the place had before */
  uint32_t next_free; /* index + 1; 0: none */
} BpHandlePlace_;

/* A table. A zeroed table is empty. The table must not move in memory. bp_handle_table_free frees
 * the table's memory, but not the items. */
typedef struct BpHandleTable {
  BpHandlePlace_ *places;
  uint32_t num_places, capacity;
  uint32_t first_free; /* index + 1; 0: none */
} BpHandleTable;

static inline void bp_handle_table_free(BpHandleTable *table) {
  __builtin_free(table->places);
  __builtin_memset(table, 0, sizeof(*table));
}

/* Makes the handle of a place. From the top: 01, with which no address begins; 30 bits of the
 * count, mixed with the table's address; index + 1. */
static inline void *bp_handle_of_(const BpHandleTable *table, uint32_t index) {
  uint64_t where = (uint64_t)(uintptr_t)table * UINT64_C(0x9E3779B97F4A7C15) >> 34;
  uint64_t count = (table->places[index].count ^ where) & 0x3fffffff;
  return (void *)(uintptr_t)(UINT64_C(1) << 62 | count << 32 | (index + 1));
}

/* Returns the place of a handle; NULL if the handle is invalid. */
static inline BpHandlePlace_ *bp_handle_place_(const BpHandleTable *table, const void *handle) {
  uint32_t index = (uint32_t)(uintptr_t)handle - 1;
  if (index >= table->num_places || !table->places[index].item ||
      bp_handle_of_(table, index) != handle)
    return NULL;
  return &table->places[index];
}

static inline int bp_handle_grow_(BpHandleTable *table) {
  uint32_t capacity = table->capacity ? table->capacity * 2 : 64;
  BpHandlePlace_ *grown =
      capacity > table->capacity
          ? (BpHandlePlace_ *)__builtin_realloc(table->places, capacity * sizeof(*grown))
          : NULL;
  if (!grown)
    return -1;
  __builtin_memset(grown + table->capacity, 0, (capacity - table->capacity) * sizeof(*grown));
  table->places = grown;
  table->capacity = capacity;
  return 0;
}

/* Returns a handle for `item`, which is not NULL. Returns NULL when memory is exhausted, without
 * raising an error. */
static inline void *bp_handle_add(BpHandleTable *table, void *item) {
  uint32_t index = table->first_free ? table->first_free - 1 : table->num_places;
  if (index == table->capacity && bp_handle_grow_(table) != 0)
    return NULL;
  BpHandlePlace_ *place = &table->places[index];
  if (index == table->num_places)
    table->num_places++;
  else
    table->first_free = place->next_free;
  place->item = item;
  return bp_handle_of_(table, index);
}

/* Returns the item of a handle; NULL if the handle is invalid or was removed. */
static inline void *bp_handle_get(const BpHandleTable *table, const void *handle) {
  const BpHandlePlace_ *place = bp_handle_place_(table, handle);
  return place ? place->item : NULL;
}

/* Removes a handle and returns its item; NULL if the handle is invalid. */
static inline void *bp_handle_remove(BpHandleTable *table, const void *handle) {
  BpHandlePlace_ *place = bp_handle_place_(table, handle);
  if (!place)
    return NULL;
  void *item = place->item;
  place->item = NULL;
  place->count++;
  place->next_free = table->first_free;
  table->first_free = (uint32_t)(place - table->places) + 1;
  return item;
}

#ifdef __cplusplus
}
#endif

#endif
