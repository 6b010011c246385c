/* SPDX-License-Identifier: Apache-2.0 */
/* A device opened: its queues, the memory types that are used, its pipeline cache on disk. */
#include "vulkan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What queued work keeps alive -------------------------------------------------------- */

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

#define MOST_CACHE_BYTES (256 << 20)

/* The file for this device and driver; -1: there is no directory for it. */
static int cache_path(const BpVulkanInfo *info, char *path, size_t size) {
  char directory[3072];
  if (bp_vulkan_host.runtime->get_cache_dir("vulkan", directory, sizeof(directory)) != 0) {
    BpError *error = bp_vulkan_host.error->take(); /* no cache is no failure */
    bp_vulkan_host.object->release(error);
    return -1;
  }
  int used = snprintf(path, size, "%s/pipelines-", directory);
  for (size_t i = 0; i < VK_UUID_SIZE && used > 0 && (size_t)used < size; i++)
    used += snprintf(path + used, size - (size_t)used, "%02x", info->cache_uuid[i]);
  return used > 0 && (size_t)used < size ? 0 : -1;
}

/* Whether bytes begin as a cache of this very driver and device does. */
static int is_cache_of(const BpVulkanInfo *info, const char *bytes, size_t size) {
  VkPipelineCacheHeaderVersionOne header;
  if (size < sizeof(header))
    return 0;
  memcpy(&header, bytes, sizeof(header));
  return header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         header.vendorID == info->properties.vendorID &&
         header.deviceID == info->properties.deviceID &&
         memcmp(header.pipelineCacheUUID, info->cache_uuid, VK_UUID_SIZE) == 0;
}

/* The bytes of a file (transfer full), NULL if there are none of use. */
static char *read_cache(const BpVulkanInfo *info, size_t *size) {
  char path[4096];
  struct stat status;
  char *bytes = NULL;
  int file = cache_path(info, path, sizeof(path)) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  *size = 0;
  if (file >= 0 && fstat(file, &status) == 0 && status.st_size > 0 &&
      status.st_size <= MOST_CACHE_BYTES)
    bytes = malloc((size_t)status.st_size);
  if (bytes && read(file, bytes, (size_t)status.st_size) == status.st_size &&
      is_cache_of(info, bytes, (size_t)status.st_size))
    *size = (size_t)status.st_size;
  if (file >= 0)
    close(file);
  if (*size)
    return bytes;
  free(bytes);
  return NULL;
}

static VkResult open_cache(BpVulkanDevice *device) {
  size_t size = 0;
  char *bytes = read_cache(device->info, &size);
  VkPipelineCacheCreateInfo create = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = size,
                                      .pInitialData = bytes};
  VkResult status = bp_vk.vkCreatePipelineCache(device->handle, &create, NULL, &device->cache);
  free(bytes);
  return status;
}

/* In one step, so that a reader never sees half a file. */
static void write_cache(const char *path, const char *bytes, size_t size) {
  char temporary[4200];
  snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
  int file = mkstemp(temporary);
  if (file < 0)
    return;
  int is_whole = write(file, bytes, size) == (ssize_t)size;
  close(file);
  if (!is_whole || rename(temporary, path) != 0)
    unlink(temporary);
}

void bp_vulkan_save_cache(BpVulkanDevice *device) {
  char path[4096];
  size_t size = 0;
  if (!__atomic_exchange_n(&device->is_cache_stale, 0, __ATOMIC_ACQ_REL) ||
      bp_vk.vkGetPipelineCacheData(device->handle, device->cache, &size, NULL) != VK_SUCCESS ||
      size <= sizeof(VkPipelineCacheHeaderVersionOne) || size > MOST_CACHE_BYTES ||
      cache_path(device->info, path, sizeof(path)) != 0)
    return;
  char *bytes = malloc(size);
  if (bytes &&
      bp_vk.vkGetPipelineCacheData(device->handle, device->cache, &size, bytes) == VK_SUCCESS)
    write_cache(path, bytes, size);
  free(bytes);
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
  return bp_vk.vkCreateDevice(info->physical, &create, NULL, &device->handle);
}

/* The memory types that buffers of ours can have. */
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

/* The first type with all the flags, which drivers list best first; -1: none. */
static int find_type(const BpVulkanInfo *info, uint32_t usable, VkMemoryPropertyFlags flags) {
  for (uint32_t i = 0; i < info->memory.memoryTypeCount; i++) {
    if ((usable >> i & 1) && (info->memory.memoryTypes[i].propertyFlags & flags) == flags)
      return (int)i;
  }
  return -1;
}

/* Data space is what is fastest for the device. The host works in it directly if it can read it
 * fast, too, which it can where memory is one; otherwise it copies by way of staging buffers. */
static int32_t choose_types(BpVulkanDevice *device, uint32_t usable) {
  const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  const VkMemoryPropertyFlags visible =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkMemoryPropertyFlags cached = visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  const char *option = bp_vulkan_host.runtime->get_option("BACKPLANE_VULKAN_STAGING");
  int staged = option && strcmp(option, "1") == 0;
  int data = staged ? -1 : find_type(device->info, usable, local | cached);
  device->is_mapped = data >= 0;
  if (data < 0)
    data = find_type(device->info, usable, local);
  int staging = find_type(device->info, usable, cached);
  if (staging < 0)
    staging = find_type(device->info, usable, visible);
  if (data < 0 || staging < 0)
    return bp_vulkan_host.error->raise(BP_ERROR_DEVICE,
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
  for (uint32_t i = 0; i < device->info->num_queues; i++) {
    pthread_mutex_init(&device->queues[i].lock, NULL);
    bp_vk.vkGetDeviceQueue(device->handle, device->info->queue_family, i,
                           &device->queues[i].handle);
  }
  pthread_mutex_init(&device->memory_lock, NULL);
  pthread_mutex_init(&device->streams_lock, NULL);
  device->stream = bp_vulkan_stream_open(device);
  return device->stream ? 0 : -1;
}

int32_t bp_vulkan_open(BpVulkanDevice *device) {
  VkResult status = create_device(device);
  if (status != VK_SUCCESS) {
    bp_vulkan_raise(status, "vkCreateDevice");
    return bp_vulkan_host.error->add_context("%s", device->info->properties.deviceName);
  }
  if (open_parts(device) == 0)
    return 0;
  if (device->cache)
    bp_vk.vkDestroyPipelineCache(device->handle, device->cache, NULL);
  bp_vk.vkDestroyDevice(device->handle, NULL);
  device->cache = VK_NULL_HANDLE;
  return -1;
}
