/* SPDX-License-Identifier: Apache-2.0 */
/* A map from pointers to pointers, for code that walks a graph of nodes. Inline, for plugins and
 * the host; nothing in this header is part of the ABI. A map belongs to one thread. */
#ifndef BACKPLANE_POINTER_MAP_H
#define BACKPLANE_POINTER_MAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A key and its value; an empty place has a NULL key. */
typedef struct BpPointerMapEntry {
  const void *key;
  void *value;
} BpPointerMapEntry;

/* A hash table with open addressing, at most half full. A zeroed table is empty. */
typedef struct BpPointerMap {
  BpPointerMapEntry *entries;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
} BpPointerMap;

static inline BpPointerMapEntry *bp_pointer_map_place(const BpPointerMap *map, const void *key) {
  uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
  size_t place = (size_t)(hash >> 32) & (map->capacity - 1);
  while (map->entries[place].key && map->entries[place].key != key)
    place = (place + 1) & (map->capacity - 1);
  return &map->entries[place];
}

/* Frees the table's memory; the map is then empty. */
static inline void bp_pointer_map_free(BpPointerMap *map) {
  __builtin_free(map->entries);
  map->entries = NULL;
  map->capacity = 0;
  map->count = 0;
}

/* Empties the map; the memory of a small table is kept for reuse. */
static inline void bp_pointer_map_clear(BpPointerMap *map) {
  if (map->capacity > 1024) {
    bp_pointer_map_free(map);
  } else if (map->count) {
    __builtin_memset(map->entries, 0, map->capacity * sizeof(*map->entries));
    map->count = 0;
  }
}

/* Returns the value of a key, or NULL if the key is absent. */
static inline void *bp_pointer_map_get(const BpPointerMap *map, const void *key) {
  return map->capacity ? bp_pointer_map_place(map, key)->value : NULL;
}

static inline int bp_pointer_map_grow(BpPointerMap *map) {
  BpPointerMap grown = {NULL, map->capacity ? map->capacity * 2 : 64, map->count};
  grown.entries = (BpPointerMapEntry *)__builtin_calloc(grown.capacity, sizeof(*grown.entries));
  if (!grown.entries)
    return -1;
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->entries[i].key)
      *bp_pointer_map_place(&grown, map->entries[i].key) = map->entries[i];
  }
  __builtin_free(map->entries);
  *map = grown;
  return 0;
}

/* Sets the value of a key, which is not NULL. Returns -1 when memory is exhausted, without raising
 * an error. */
static inline int bp_pointer_map_set(BpPointerMap *map, const void *key, void *value) {
  if (2 * map->count >= map->capacity && bp_pointer_map_grow(map) != 0)
    return -1;
  BpPointerMapEntry *entry = bp_pointer_map_place(map, key);
  map->count += entry->key == NULL;
  entry->key = key;
  entry->value = value;
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif
