/* SPDX-License-Identifier: Apache-2.0 */
/* Data space. A handle is not an address but a number in a table. So a buffer that is freed twice,
 * a buffer of another device, or a number that never was a handle is an error and not a crash. */
#include "vulkan.h"

#include <backplane/handle_table.h>
#include <string.h>

static BpHandleTable table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table */

void *bp_vulkan_add(BpVulkanBuffer *buffer) {
  pthread_mutex_lock(&lock);
  void *handle = bp_handle_add(&table, buffer);
  pthread_mutex_unlock(&lock);
  if (handle)
    return handle;
  bp_vulkan_release(&buffer->shared);
  bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "vulkan: no host memory for a handle");
  return NULL;
}

static int32_t no_buffer(const BpVulkanDevice *device, const void *handle) {
  return bp_plugin_raise(
      &bp_vulkan_host, BP_ERROR_VALUE,
      "vulkan: %p is no buffer of device %d; it was freed, or is of another device", handle,
      device->id);
}

/* Returns the buffer of a handle, with the lock held; NULL if the device has no such buffer. */
static BpVulkanBuffer *find(const BpVulkanDevice *device, const void *handle) {
  BpVulkanBuffer *buffer = bp_handle_get(&table, handle);
  return buffer && buffer->device == device ? buffer : NULL;
}

BpVulkanBuffer *bp_vulkan_find(const BpVulkanDevice *device, const void *handle) {
  pthread_mutex_lock(&lock);
  BpVulkanBuffer *buffer = find(device, handle);
  if (buffer)
    bp_vulkan_retain(&buffer->shared);
  pthread_mutex_unlock(&lock);
  if (!buffer)
    no_buffer(device, handle);
  return buffer;
}

int32_t bp_vulkan_check_size(const BpVulkanDevice *device, uint64_t size) {
  uint64_t largest = bp_vulkan_largest_buffer(device->info);
  return size <= largest
             ? 0
             : bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY,
                               "vulkan: %llu bytes; a buffer of this device has at most %llu",
                               (unsigned long long)size, (unsigned long long)largest);
}

/* A separate buffer is aligned for every type. */
int32_t bp_vulkan_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                        void **handle) {
  (void)context;
  uint64_t size = allocation->size;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  if (!device || bp_plugin_check_allocation(&bp_vulkan_host, "vulkan", allocation))
    return -1;
  if (bp_vulkan_check_size(device, size) != 0)
    return -1;
  BpVulkanBuffer *buffer = bp_vulkan_buffer_create(device, size, 0);
  *handle = buffer ? bp_vulkan_add(buffer) : NULL;
  return *handle ? 0 : -1;
}

int32_t bp_vulkan_free(void *context, int32_t device_id, void *handle) {
  (void)context;
  BpVulkanDevice *device = handle ? bp_vulkan_device(device_id) : NULL;
  if (!handle)
    return 0;
  if (!device)
    return -1;
  pthread_mutex_lock(&lock);
  BpVulkanBuffer *buffer = find(device, handle);
  if (buffer)
    bp_handle_remove(&table, handle);
  pthread_mutex_unlock(&lock);
  if (!buffer)
    return no_buffer(device, handle);
  bp_vulkan_release(&buffer->shared); /* queued work has its own references to the buffer */
  return 0;
}
