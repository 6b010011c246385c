/* SPDX-License-Identifier: Apache-2.0 */
/* Records by device and handle. */
#include "layers.h"

static size_t bucket_of(int32_t device_id, const void *handle) {
  uint64_t mixed = ((uint64_t)(uintptr_t)handle ^ ((uint64_t)device_id << 56)) * 0x9e3779b97f4a7c15;
  return (size_t)(mixed >> 32) % BP_LAYERS_BUCKETS;
}

void bp_layers_add(BpLayersTable *table, BpLayersEntry *entry) {
  BpLayersEntry **bucket = &table->buckets[bucket_of(entry->device_id, entry->handle)];
  entry->next = *bucket;
  *bucket = entry;
}

/* Returns the link that points to the record; it is NULL if there is no record. */
static BpLayersEntry *const *find_link(const BpLayersTable *table, int32_t device_id,
                                       const void *handle) {
  BpLayersEntry *const *link = &table->buckets[bucket_of(device_id, handle)];
  while (*link && ((*link)->handle != handle || (*link)->device_id != device_id))
    link = &(*link)->next;
  return link;
}

void *bp_layers_find(const BpLayersTable *table, int32_t device_id, const void *handle) {
  return *find_link(table, device_id, handle);
}

void *bp_layers_take(BpLayersTable *table, int32_t device_id, const void *handle) {
  BpLayersEntry **link = (BpLayersEntry **)(uintptr_t)find_link(table, device_id, handle);
  BpLayersEntry *entry = *link;
  if (entry)
    *link = entry->next;
  return entry;
}

void bp_layers_each(const BpLayersTable *table, void (*visit)(void *record, void *context),
                    void *context) {
  for (size_t i = 0; i < BP_LAYERS_BUCKETS; i++)
    for (BpLayersEntry *entry = table->buckets[i], *next; entry; entry = next) {
      next = entry->next;
      visit(entry, context);
    }
}
