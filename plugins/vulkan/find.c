/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of all drivers, and their attributes, which need no open device. */
#include "vulkan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A GPU is preferred to the plugin cpu, a CPU is not; the GPU vendor's own API is preferred to
 * Vulkan: see docs/devices.md. */
#define RANK_GPU 200
#define RANK_CPU 40

static void find_devices(void);

static BpDeviceList found = {
    &bp_vulkan_host, &bp_vulkan_device_api, find_devices, PTHREAD_ONCE_INIT, 0, NULL};
static VkInstance instance;
static BpVulkanInfo infos[BP_VULKAN_MOST_DEVICES];
static BpVulkanDevice devices[BP_VULKAN_MOST_DEVICES];

/* ---- Finding devices --------------------------------------------------------------------- */

int bp_vulkan_has_extension(VkPhysicalDevice physical, const char *name) {
  VkExtensionProperties extensions[512];
  uint32_t count = sizeof(extensions) / sizeof(extensions[0]);
  VkResult status = bp_vk.vkEnumerateDeviceExtensionProperties(physical, NULL, &count, extensions);
  if (status != VK_SUCCESS && status != VK_INCOMPLETE)
    return 0;
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(extensions[i].extensionName, name) == 0)
      return 1;
  }
  return 0;
}

/* Properties of Vulkan 1.2. */
static void read_properties(BpVulkanInfo *info) {
  VkPhysicalDeviceVulkan12Properties v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
  VkPhysicalDeviceVulkan11Properties v11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &v12};
  VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &v11};
  bp_vk.vkGetPhysicalDeviceProperties2(info->physical, &all);
  info->properties = all.properties;
  info->subgroup_size = v11.subgroupSize;
  info->largest_allocation = v11.maxMemoryAllocationSize;
  info->rounds_halves_to_even = v12.shaderRoundingModeRTEFloat16;
  snprintf(info->driver, sizeof(info->driver), "%s%s%s", v12.driverName,
           v12.driverInfo[0] ? " " : "", v12.driverInfo);
  memcpy(info->uuid, v11.deviceUUID, sizeof(info->uuid));
  memcpy(info->cache_uuid, all.properties.pipelineCacheUUID, sizeof(info->cache_uuid));
}

/* Properties of extensions, if the driver has them. */
static void read_extras(BpVulkanInfo *info) {
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
  VkPhysicalDeviceShaderCorePropertiesAMD amd = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
  VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  int has_pci = bp_vulkan_has_extension(info->physical, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
  if (has_pci) {
    pci.pNext = all.pNext;
    all.pNext = &pci;
  }
  if (bp_vulkan_has_extension(info->physical, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
    nv.pNext = all.pNext;
    all.pNext = &nv;
  }
  if (bp_vulkan_has_extension(info->physical, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
    amd.pNext = all.pNext;
    all.pNext = &amd;
  }
  bp_vk.vkGetPhysicalDeviceProperties2(info->physical, &all);
  info->num_processors = nv.shaderSMCount + amd.shaderEngineCount * amd.shaderArraysPerEngineCount *
                                                amd.computeUnitsPerShaderArray;
  if (has_pci)
    snprintf(info->pci_address, sizeof(info->pci_address), "%04x:%02x:%02x.%x", pci.pciDomain,
             pci.pciBus, pci.pciDevice, pci.pciFunction);
  info->has_memory_budget =
      bp_vulkan_has_extension(info->physical, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  bp_vulkan_read_external(info);
}

/* Whether the device has the features that this plugin needs. */
static int read_features(BpVulkanInfo *info) {
  VkPhysicalDeviceVulkan12Features v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features v11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &v12};
  VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                   .pNext = &v11};
  bp_vk.vkGetPhysicalDeviceFeatures2(info->physical, &all);
  info->features = (BpVulkanFeatures){
      .int8 = v12.shaderInt8,
      .int16 = all.features.shaderInt16,
      .int64 = all.features.shaderInt64,
      .float16 = v12.shaderFloat16,
      .float64 = all.features.shaderFloat64,
      .storage8 = v12.storageBuffer8BitAccess,
      .storage16 = v11.storageBuffer16BitAccess,
      .even16 = v12.shaderFloat16 && info->rounds_halves_to_even,
  };
  return v12.timelineSemaphore != VK_FALSE;
}

static int read_queues(BpVulkanInfo *info) {
  VkQueueFamilyProperties families[32];
  uint32_t count = sizeof(families) / sizeof(families[0]);
  bp_vk.vkGetPhysicalDeviceQueueFamilyProperties(info->physical, &count, families);
  for (uint32_t i = 0; i < count; i++) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0)
      continue;
    info->queue_family = i;
    info->timestamp_bits = families[i].timestampValidBits;
    info->num_queues = families[i].queueCount < BP_VULKAN_MOST_QUEUES ? families[i].queueCount
                                                                      : BP_VULKAN_MOST_QUEUES;
    return 1;
  }
  return 0;
}

/* The device's own largest heap. */
static void read_heaps(BpVulkanInfo *info) {
  bp_vk.vkGetPhysicalDeviceMemoryProperties(info->physical, &info->memory);
  for (uint32_t i = 0; i < info->memory.memoryHeapCount; i++) {
    const VkMemoryHeap *heap = &info->memory.memoryHeaps[i];
    if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap->size <= info->heap_bytes)
      continue;
    info->heap = i;
    info->heap_bytes = heap->size;
  }
}

/* Whether this process may run code that it has written, as drivers for CPUs do. systemd's
 * MemoryDenyWriteExecute and SELinux can forbid it, and these drivers crash then. */
static int may_write_code(void) {
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return 1;
  page[0] = 1;
  int is_denied =
      mprotect(page, size, PROT_READ | PROT_EXEC) && (errno == EACCES || errno == EPERM);
  munmap(page, size);
  return !is_denied;
}

static void add_device(VkPhysicalDevice physical, VkPhysicalDeviceType type) {
  VkPhysicalDeviceProperties properties;
  bp_vk.vkGetPhysicalDeviceProperties(physical, &properties);
  if (properties.deviceType != type || properties.apiVersion < VK_API_VERSION_1_2 ||
      found.count == BP_VULKAN_MOST_DEVICES)
    return;
  if (type == VK_PHYSICAL_DEVICE_TYPE_CPU && !may_write_code()) {
    found.why =
        "the Vulkan driver compiles code for the CPU, and this process may not run code that "
        "it writes (systemd's MemoryDenyWriteExecute, SELinux); allow it, or use the device "
        "\"cpu\"";
    return;
  }
  BpVulkanInfo *info = &infos[found.count];
  *info = (BpVulkanInfo){.physical = physical};
  read_properties(info);
  if (!read_features(info) || !read_queues(info))
    return;
  read_extras(info);
  read_heaps(info);
  BpVulkanDevice *device = &devices[found.count];
  pthread_mutex_init(&device->opening.lock, NULL);
  device->info = info;
  device->id = found.count++;
}

static VkResult create_instance(void) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pEngineName = "Backplane",
                                   .apiVersion = VK_API_VERSION_1_2};
  VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application};
  return bp_vk.vkCreateInstance(&create, NULL, &instance);
}

static void find_devices(void) {
  static const VkPhysicalDeviceType types[] = {
      VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
      VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU, VK_PHYSICAL_DEVICE_TYPE_OTHER,
      VK_PHYSICAL_DEVICE_TYPE_CPU};
  VkPhysicalDevice physical[BP_VULKAN_MOST_DEVICES];
  uint32_t count = BP_VULKAN_MOST_DEVICES;
  found.why = bp_vulkan_load();
  if (found.why)
    return;
  bp_device_list_watch_forks();
  VkResult status = create_instance();
  if (status == VK_SUCCESS)
    status = bp_vk.vkEnumeratePhysicalDevices(instance, &count, physical);
  if ((status != VK_SUCCESS && status != VK_INCOMPLETE) || count == 0) {
    found.why = "no Vulkan driver is installed that has a device; install one, such as "
                "mesa-vulkan-drivers";
    return;
  }
  for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++)
    for (uint32_t i = 0; i < count; i++)
      add_device(physical[i], types[k]);
  if (found.count == 0 && !found.why)
    found.why =
        "no Vulkan device that is there offers Vulkan 1.2 with timeline semaphores; install "
        "a newer driver";
}

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  return bp_device_list_count(&found, count, why);
}

BpVulkanDevice *bp_vulkan_device(int32_t device_id) {
  if (bp_device_list_check(&found, device_id) != 0)
    return NULL;
  BpVulkanDevice *device = &devices[device_id];
  return bp_device_open_once(&device->opening, bp_vulkan_open, device) == 0 ? device : NULL;
}

/* ---- Attributes -------------------------------------------------------------------------- */

static int32_t answer_number(BpValue *result, uint64_t value) {
  return bp_plugin_answer_int(result, BP_TYPE_INT, (int64_t)value);
}

static int32_t answer_text(BpValue *result, const char *text) {
  return text[0] ? bp_plugin_answer_str(&bp_vulkan_host, result, text) : 0;
}

static int32_t answer_version(BpValue *result, uint32_t version) {
  char text[64];
  snprintf(text, sizeof(text), "Vulkan %u.%u.%u", VK_API_VERSION_MAJOR(version),
           VK_API_VERSION_MINOR(version), VK_API_VERSION_PATCH(version));
  return answer_text(result, text);
}

static int32_t answer_dimensions(BpValue *result, const uint32_t sizes[3]) {
  int64_t extents[3] = {sizes[0], sizes[1], sizes[2]};
  return bp_plugin_answer_extents(&bp_vulkan_host, result, extents);
}

static int32_t answer_uuid(BpValue *result, const uint8_t uuid[VK_UUID_SIZE]) {
  char text[BP_UUID_TEXT];
  bp_uuid_format(uuid, text);
  return answer_text(result, text);
}

/* The newest SPIR-V that a version of Vulkan accepts. */
static const char *spirv_version(uint32_t api_version) {
  return api_version >= VK_API_VERSION_1_3 ? "SPIR-V 1.6" : "SPIR-V 1.5";
}

static const char *vendor_name(uint32_t id) {
  static const struct {
    uint32_t id;
    const char *name;
  } vendors[] = {
      {0x1002, "AMD"},      {0x1010, "Imagination"}, {0x10de, "NVIDIA"},         {0x13b5, "Arm"},
      {0x5143, "Qualcomm"}, {0x8086, "Intel"},       {VK_VENDOR_ID_MESA, "Mesa"}};
  for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++) {
    if (vendors[i].id == id)
      return vendors[i].name;
  }
  return "";
}

static int is_gpu(const BpVulkanInfo *info) {
  return info->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU;
}

static long num_cores(const BpVulkanInfo *info) {
  if (is_gpu(info))
    return info->num_processors ? (long)info->num_processors : 1;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? cores : 1;
}

/* The most buffers of a kernel; read-only ones may be texel buffers. */
static uint32_t most_buffers(const VkPhysicalDeviceLimits *limits) {
  uint32_t storage = limits->maxPerStageDescriptorStorageBuffers;
  uint32_t texels = limits->maxPerStageDescriptorStorageImages;
  uint32_t least = storage < texels ? storage : texels;
  return least < BP_KERNEL_MAX_ARGS ? least : BP_KERNEL_MAX_ARGS;
}

/* llvmpipe ends the loops of a thread after 65,535 iterations of all loops together. */
static int most_iterations(const BpVulkanInfo *info) {
  return !is_gpu(info) && strstr(info->properties.deviceName, "llvmpipe") ? 65535 : 0;
}

static int32_t answer_target(BpValue *result, const BpVulkanInfo *info) {
  const VkPhysicalDeviceLimits *limits = &info->properties.limits;
  const BpVulkanFeatures *has = &info->features;
  char text[512];
  int is_cpu = !is_gpu(info);
  snprintf(text, sizeof(text),
           "vulkan -max_num_threads=%u -thread_warp_size=%u -max_shared_memory_per_block=%u "
           "-serial_warps=%d -num_cores=%ld -texel_buffers=%d -supports_int8=%d "
           "-supports_int16=%d -supports_int64=%d -supports_float64=%d "
           "-supports_float16=%d -winograd=%d -max_buffer_bytes=%u -max_buffers=%u "
           "-max_iterations=%d",
           limits->maxComputeWorkGroupInvocations, info->subgroup_size,
           limits->maxComputeSharedMemorySize, is_cpu, num_cores(info), is_cpu,
           has->int8 && has->storage8, has->int16 && has->storage16, (int)has->int64,
           (int)has->float64, has->even16 && has->int16 && has->storage16, is_cpu,
           limits->maxStorageBufferRange, most_buffers(limits), most_iterations(info));
  return answer_text(result, text);
}

static uint64_t available_memory(const BpVulkanInfo *info) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 all = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
  bp_vk.vkGetPhysicalDeviceMemoryProperties2(info->physical, &all);
  uint64_t total = budget.heapBudget[info->heap], used = budget.heapUsage[info->heap];
  return total > used ? total - used : 0;
}

uint64_t bp_vulkan_alignment(const BpVulkanInfo *info) {
  const VkPhysicalDeviceLimits *limits = &info->properties.limits;
  uint64_t storage = limits->minStorageBufferOffsetAlignment;
  uint64_t texels = limits->minTexelBufferOffsetAlignment;
  uint64_t larger = storage > texels ? storage : texels;
  return larger > 16 ? larger : 16;
}

uint64_t bp_vulkan_largest_buffer(const BpVulkanInfo *info) {
  return info->largest_allocation < info->heap_bytes ? info->largest_allocation : info->heap_bytes;
}

static int32_t get_limit(const BpVulkanInfo *info, int32_t attr, BpValue *result) {
  const VkPhysicalDeviceLimits *limits = &info->properties.limits;
  switch (attr) {
  case BP_ATTR_MAX_THREADS_PER_BLOCK:
    return answer_number(result, limits->maxComputeWorkGroupInvocations);
  case BP_ATTR_WARP_SIZE:
    return answer_number(result, info->subgroup_size);
  case BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK:
    return answer_number(result, limits->maxComputeSharedMemorySize);
  case BP_ATTR_MULTI_PROCESSOR_COUNT:
    return info->num_processors ? answer_number(result, info->num_processors) : 0;
  case BP_ATTR_MAX_THREAD_DIMENSIONS:
    return answer_dimensions(result, limits->maxComputeWorkGroupSize);
  case BP_ATTR_MAX_GRID_DIMENSIONS:
    return answer_dimensions(result, limits->maxComputeWorkGroupCount);
  case BP_ATTR_TOTAL_GLOBAL_MEMORY:
    return answer_number(result, info->heap_bytes);
  case BP_ATTR_AVAILABLE_GLOBAL_MEMORY:
    return info->has_memory_budget ? answer_number(result, available_memory(info)) : 0;
  case BP_ATTR_MAX_ALLOCATION:
    return answer_number(result, bp_vulkan_largest_buffer(info));
  case BP_ATTR_DATA_ALIGNMENT:
    return answer_number(result, bp_vulkan_alignment(info));
  case BP_ATTR_RANK:
    return answer_number(result, is_gpu(info) ? RANK_GPU : RANK_CPU);
  default:
    return 0;
  }
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  const BpVulkanInfo *info = &infos[device_id];
  switch (attr) {
  case BP_ATTR_EXIST:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 1);
  case BP_ATTR_HOST_ACCESSIBLE:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 0);
  case BP_ATTR_DEVICE_NAME:
    return answer_text(result, info->properties.deviceName);
  case BP_ATTR_VENDOR:
    return answer_text(result, vendor_name(info->properties.vendorID));
  case BP_ATTR_COMPUTE_VERSION:
    return answer_text(result, spirv_version(info->properties.apiVersion));
  case BP_ATTR_API_VERSION:
    return answer_version(result, info->properties.apiVersion);
  case BP_ATTR_DRIVER_VERSION:
    return answer_text(result, info->driver);
  case BP_ATTR_UUID:
    return answer_uuid(result, info->uuid);
  case BP_ATTR_PCI_ADDRESS:
    return answer_text(result, info->pci_address);
  case BP_ATTR_TARGET:
    return answer_target(result, info);
  default:
    return get_limit(info, attr, result);
  }
}

/* Visits the properties that are not attributes. */
static int32_t visit_properties(void *context, int32_t device_id,
                                int32_t (*visit)(void *context, const char *name,
                                                 const BpValue *value),
                                void *visitor) {
  (void)context;
  const BpVulkanInfo *info = &infos[device_id];
  const VkPhysicalDeviceLimits *limits = &info->properties.limits;
  const struct {
    const char *name;
    int32_t type;
    uint64_t number;
  } facts[] = {
      {"int8", BP_TYPE_BOOL, info->features.int8 && info->features.storage8},
      {"int16", BP_TYPE_BOOL, info->features.int16 && info->features.storage16},
      {"int64", BP_TYPE_BOOL, info->features.int64},
      {"float16", BP_TYPE_BOOL, info->features.float16},
      {"float16_rounds_to_even", BP_TYPE_BOOL, info->features.even16},
      {"float64", BP_TYPE_BOOL, info->features.float64},
      {"max_push_constant_bytes", BP_TYPE_INT, limits->maxPushConstantsSize},
      {"max_storage_buffer_bytes", BP_TYPE_INT, limits->maxStorageBufferRange},
      {"max_texel_buffer_elements", BP_TYPE_INT, limits->maxTexelBufferElements},
      {"max_storage_buffers", BP_TYPE_INT, limits->maxPerStageDescriptorStorageBuffers},
      {"compute_queues", BP_TYPE_INT, info->num_queues},
      {"timestamp_bits", BP_TYPE_INT, info->timestamp_bits},
  };
  for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
    BpValue value = {.type_index = facts[i].type, .v_int64 = (int64_t)facts[i].number};
    if (visit(visitor, facts[i].name, &value) != 0)
      break;
  }
  return 0;
}

static const void *get_extension(void *context, const char *name, uint32_t version) {
  (void)context;
  if (!strcmp(name, BP_EXTENSION_TIMER) && version == BP_EXTENSION_TIMER_VERSION)
    return &bp_vulkan_timers;
  if (!strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION)
    return &bp_vulkan_events;
  if (!strcmp(name, BP_EXTENSION_EXTERNAL_MEMORY) &&
      version == BP_EXTENSION_EXTERNAL_MEMORY_VERSION)
    return &bp_vulkan_external;
  return NULL;
}

const BpDeviceApi bp_vulkan_device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = BP_DEVICE_VULKAN,
    .name = "vulkan",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = bp_vulkan_alloc,
    .free_data_space = bp_vulkan_free,
    .copy = bp_vulkan_copy,
    .create_stream = bp_vulkan_create_stream,
    .free_stream = bp_vulkan_free_stream,
    .sync_stream_from_to = bp_vulkan_sync_from_to,
    .stream_sync = bp_vulkan_stream_sync,
    .visit_properties = visit_properties,
    .get_extension = get_extension,
};
