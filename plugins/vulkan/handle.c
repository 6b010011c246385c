/* SPDX-License-Identifier: Apache-2.0 */
/* Data space. A handle is no address but a number: the place of the buffer in a table, and how
 * often that place was used before. So a buffer freed twice, one of another device, or a number
 * that never was a handle is an error and not a crash. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

typedef struct Place {
  BpVulkanBuffer *buffer; /* NULL: free */
  uint32_t uses;
  uint32_t next_free; /* index + 1; 0: none */
} Place;

static struct {
  pthread_mutex_t lock;
  Place *places;
  uint32_t count, capacity;
  uint32_t free; /* index + 1 of the first free place; 0: none */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *make_handle(uint32_t index) {
  uint64_t number = (uint64_t)table.places[index].uses << 32 | (index + 1);
  return (void *)(uintptr_t)number;
}

/* The place of a live buffer, NULL: there is none. With the lock. */
static Place *place_of(const void *handle) {
  uint64_t number = (uintptr_t)handle;
  uint32_t index = (uint32_t)number - 1;
  if ((uint32_t)number == 0 || index >= table.count)
    return NULL;
  Place *place = &table.places[index];
  return place->buffer && place->uses == number >> 32 ? place : NULL;
}

/* The index of a place that is free now; -1 without memory. With the lock. */
static int64_t free_place(void) {
  if (table.free) {
    uint32_t index = table.free - 1;
    table.free = table.places[index].next_free;
    return index;
  }
  if (table.count == table.capacity) {
    uint32_t capacity = table.capacity ? table.capacity * 2 : 256;
    Place *grown = realloc(table.places, capacity * sizeof(*grown));
    if (!grown)
      return -1;
    memset(grown + table.count, 0, (capacity - table.count) * sizeof(*grown));
    table.places = grown;
    table.capacity = capacity;
  }
  return table.count++;
}

/* Takes the buffer over; NULL with an error. */
static void *add_buffer(BpVulkanBuffer *buffer) {
  pthread_mutex_lock(&table.lock);
  int64_t index = free_place();
  void *handle = NULL;
  if (index >= 0) {
    table.places[index].buffer = buffer;
    handle = make_handle((uint32_t)index);
  }
  pthread_mutex_unlock(&table.lock);
  if (handle)
    return handle;
  bp_vulkan_release(&buffer->shared);
  bp_vulkan_host.error->raise(BP_ERROR_MEMORY, "vulkan: no host memory for a handle");
  return NULL;
}

static int32_t no_buffer(const BpVulkanDevice *device, const void *handle) {
  return bp_vulkan_host.error->raise(
      BP_ERROR_VALUE, "vulkan: %p is no buffer of device %d; it was freed, or is of another device",
      handle, device->id);
}

BpVulkanBuffer *bp_vulkan_find(const BpVulkanDevice *device, const void *handle) {
  pthread_mutex_lock(&table.lock);
  const Place *place = place_of(handle);
  BpVulkanBuffer *buffer = place && place->buffer->device == device ? place->buffer : NULL;
  pthread_mutex_unlock(&table.lock);
  if (!buffer)
    no_buffer(device, handle);
  return buffer;
}

int32_t bp_vulkan_alloc(int32_t device_id, uint64_t size, uint64_t alignment, BpDataType hint,
                        const char *mem_scope, void **handle) {
  (void)alignment; /* a buffer of its own is aligned for every type */
  (void)hint;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  if (!device)
    return -1;
  if (mem_scope && mem_scope[0] && strcmp(mem_scope, "global") != 0)
    return bp_vulkan_host.error->raise(
        BP_ERROR_VALUE, "vulkan: no memory scope \"%s\"; there is \"global\"", mem_scope);
  uint64_t largest = bp_vulkan_largest_buffer(device->info);
  if (size > largest)
    return bp_vulkan_host.error->raise(
        BP_ERROR_MEMORY, "vulkan: %llu bytes; a buffer of this device has at most %llu",
        (unsigned long long)size, (unsigned long long)largest);
  BpVulkanBuffer *buffer = bp_vulkan_buffer_create(device, size, 0);
  *handle = buffer ? add_buffer(buffer) : NULL;
  return *handle ? 0 : -1;
}

int32_t bp_vulkan_free(int32_t device_id, void *handle) {
  BpVulkanDevice *device = handle ? bp_vulkan_device(device_id) : NULL;
  if (!handle)
    return 0;
  if (!device)
    return -1;
  BpVulkanBuffer *buffer = NULL;
  pthread_mutex_lock(&table.lock);
  Place *place = place_of(handle);
  if (place && place->buffer->device == device) {
    buffer = place->buffer;
    place->buffer = NULL;
    place->uses++;
    place->next_free = table.free;
    table.free = (uint32_t)(place - table.places) + 1;
  }
  pthread_mutex_unlock(&table.lock);
  if (!buffer)
    return no_buffer(device, handle);
  bp_vulkan_release(&buffer->shared); /* queued work that uses it has references of its own */
  return 0;
}
