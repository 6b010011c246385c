/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a device: its queues, the memory types that the plugin uses, its pipeline cache on
 * disk. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

/* ---- Objects that queued work keeps alive ------------------------------------------------ */

void bp_vulkan_retain(BpVulkanShared *shared) {
  __atomic_add_fetch(&shared->references, 1, __ATOMIC_RELAXED);
}

void bp_vulkan_release(BpVulkanShared *shared) {
  if (shared && __atomic_sub_fetch(&shared->references, 1, __ATOMIC_ACQ_REL) == 0)
    shared->destroy(shared);
}

/* ---- A lost device ----------------------------------------------------------------------- */

int bp_vulkan_note(BpVulkanDevice *device, VkResult status) {
  if (status == VK_ERROR_DEVICE_LOST)
    __atomic_store_n(&device->is_lost, 1, __ATOMIC_RELEASE);
  return status == VK_ERROR_DEVICE_LOST;
}

int bp_vulkan_is_lost(BpVulkanDevice *device) {
  return __atomic_load_n(&device->is_lost, __ATOMIC_ACQUIRE);
}

/* ---- The pipeline cache ------------------------------------------------------------------ */

/* Returns everything that the driver's pipelines depend on. */
typedef struct CacheKey {
  char what[12];
  uint32_t vendor, device, driver;
  uint8_t uuid[VK_UUID_SIZE];
} CacheKey;

static CacheKey make_key(const BpVulkanInfo *info) {
  CacheKey key = {"pipelines",
                  info->properties.vendorID,
                  info->properties.deviceID,
                  info->properties.driverVersion,
                  {0}};
  memcpy(key.uuid, info->cache_uuid, sizeof(key.uuid));
  return key;
}

static VkResult open_cache(BpVulkanDevice *device) {
  const CacheKey key = make_key(device->info);
  const BpByteArray entry = {(const char *)&key, sizeof(key)};
  BpOwnedBytes bytes = {NULL, 0, NULL};
  bp_vulkan_host.runtime->cache_read("vulkan", &entry, &bytes);
  VkPipelineCacheCreateInfo create = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = bytes.size,
                                      .pInitialData = bytes.data};
  VkResult status = bp_vk.vkCreatePipelineCache(device->handle, &create, NULL, &device->cache);
  if (bytes.data)
    bytes.free_data(bytes.data);
  return status;
}

void bp_vulkan_save_cache(BpVulkanDevice *device) {
  size_t size = 0;
  if (!__atomic_exchange_n(&device->is_cache_stale, 0, __ATOMIC_ACQ_REL) ||
      bp_vk.vkGetPipelineCacheData(device->handle, device->cache, &size, NULL) != VK_SUCCESS ||
      size <= sizeof(VkPipelineCacheHeaderVersionOne))
    return;
  char *data = malloc(size);
  if (data &&
      bp_vk.vkGetPipelineCacheData(device->handle, device->cache, &size, data) == VK_SUCCESS) {
    const CacheKey key = make_key(device->info);
    const BpByteArray entry = {(const char *)&key, sizeof(key)}, bytes = {data, size};
    bp_vulkan_host.runtime->cache_write("vulkan", &entry, &bytes);
  }
  free(data);
}

/* ---- Opening ----------------------------------------------------------------------------- */

static VkResult create_device(BpVulkanDevice *device) {
  static const float priorities[BP_VULKAN_MOST_QUEUES] = {1, 1, 1, 1};
  const BpVulkanInfo *info = device->info;
  const BpVulkanFeatures *has = &info->features;
  VkPhysicalDeviceVulkan12Features v12 = {.sType =
                                              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                          .timelineSemaphore = VK_TRUE,
                                          .shaderInt8 = has->int8,
                                          .shaderFloat16 = has->float16,
                                          .storageBuffer8BitAccess = has->storage8};
  VkPhysicalDeviceVulkan11Features v11 = {.sType =
                                              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                          .pNext = &v12,
                                          .storageBuffer16BitAccess = has->storage16};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                        .pNext = &v11};
  /* Generated code may load texels whose values are not used: see emitter_api.h. */
  features.features.robustBufferAccess = VK_TRUE;
  features.features.shaderInt16 = has->int16;
  features.features.shaderInt64 = has->int64;
  features.features.shaderFloat64 = has->float64;
  VkDeviceQueueCreateInfo queues = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                    .queueFamilyIndex = info->queue_family,
                                    .queueCount = info->num_queues,
                                    .pQueuePriorities = priorities};
  VkDeviceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queues};
  const char *extensions[BP_VULKAN_MOST_EXTENSIONS];
  create.enabledExtensionCount = bp_vulkan_list_external(info, extensions);
  create.ppEnabledExtensionNames = extensions;
  return bp_vk.vkCreateDevice(info->physical, &create, NULL, &device->handle);
}

/* The memory types that buffers of this plugin can use. */
static VkResult usable_types(const BpVulkanDevice *device, uint32_t *types) {
  VkBuffer probe;
  VkBufferCreateInfo create = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 256, .usage = BP_VULKAN_BUFFER_USAGE};
  VkMemoryRequirements requirements;
  VkResult status = bp_vk.vkCreateBuffer(device->handle, &create, NULL, &probe);
  if (status != VK_SUCCESS)
    return status;
  bp_vk.vkGetBufferMemoryRequirements(device->handle, probe, &requirements);
  bp_vk.vkDestroyBuffer(device->handle, probe, NULL);
  *types = requirements.memoryTypeBits;
  return VK_SUCCESS;
}

/* Returns the first memory type with all the flags, since drivers list the best first; -1: none. */
static int find_type(const BpVulkanInfo *info, uint32_t usable, VkMemoryPropertyFlags flags) {
  for (uint32_t i = 0; i < info->memory.memoryTypeCount; i++) {
    if ((usable >> i & 1) && (info->memory.memoryTypes[i].propertyFlags & flags) == flags)
      return (int)i;
  }
  return -1;
}

/* Data space uses the fastest memory of the device. The host accesses data space directly if the
 * host can also read this memory fast, as on devices that share the host's memory; otherwise copies
 * use staging buffers. */
static int32_t choose_types(BpVulkanDevice *device, uint32_t usable) {
  const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  const VkMemoryPropertyFlags visible =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkMemoryPropertyFlags cached = visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  int staged = bp_option_is_on(&bp_vulkan_host, "BACKPLANE_VULKAN_STAGING", 0);
  int data = staged ? -1 : find_type(device->info, usable, local | cached);
  device->is_mapped = data >= 0;
  if (data < 0)
    data = find_type(device->info, usable, local);
  int staging = find_type(device->info, usable, cached);
  if (staging < 0)
    staging = find_type(device->info, usable, visible);
  if (data < 0 || staging < 0)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_DEVICE,
                           "vulkan: %s has no memory that its buffers can have",
                           device->info->properties.deviceName);
  device->data_type = (uint32_t)data;
  device->staging_type = (uint32_t)staging;
  return 0;
}

static int32_t open_parts(BpVulkanDevice *device) {
  uint32_t usable = 0;
  VkResult status = usable_types(device, &usable);
  if (status == VK_SUCCESS)
    status = open_cache(device);
  if (status != VK_SUCCESS)
    return bp_vulkan_raise(status, "opening the device");
  if (choose_types(device, usable) != 0)
    return -1;
  bp_vulkan_load_external(device);
  for (uint32_t i = 0; i < device->info->num_queues; i++) {
    pthread_mutex_init(&device->queues[i].lock, NULL);
    bp_vk.vkGetDeviceQueue(device->handle, device->info->queue_family, i,
                           &device->queues[i].handle);
  }
  pthread_mutex_init(&device->memory_lock, NULL);
  pthread_mutex_init(&device->streams_lock, NULL);
  pthread_mutex_init(&device->timelines_lock, NULL);
  device->stream = bp_vulkan_stream_open(device);
  if (!device->stream)
    bp_vulkan_destroy_timelines(device);
  return device->stream ? 0 : -1;
}

int32_t bp_vulkan_open(void *opened) {
  BpVulkanDevice *device = opened;
  VkResult status = create_device(device);
  if (status != VK_SUCCESS) {
    bp_vulkan_raise(status, "vkCreateDevice");
    return bp_plugin_add_context(&bp_vulkan_host, "%s", device->info->properties.deviceName);
  }
  if (open_parts(device) == 0)
    return 0;
  if (device->cache)
    bp_vk.vkDestroyPipelineCache(device->handle, device->cache, NULL);
  bp_vk.vkDestroyDevice(device->handle, NULL);
  device->cache = VK_NULL_HANDLE;
  return -1;
}
