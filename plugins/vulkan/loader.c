/* SPDX-License-Identifier: Apache-2.0 */
/* libvulkan, opened when a device is first asked for, so that the plugin loads without it. */
#include "vulkan.h"

BpVulkanLibrary bp_vk;

static const BpLibrarySymbol symbols[] = {
#define SYMBOL(name) {#name, (void **)&bp_vk.name},
    BP_VULKAN_FUNCTIONS(SYMBOL)};

static BpLibrary library = {
    .option = "BACKPLANE_VULKAN_LIBRARY",
    .names = {"libvulkan.so.1"},
    .what = "the Vulkan loader",
    .install = "install libvulkan1 and a driver, such as mesa-vulkan-drivers",
    .upgrade = "one of Vulkan 1.2 or later is needed",
    .symbols = symbols,
    .num_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

const char *bp_vulkan_load(void) {
  return bp_library_open(&bp_vulkan_host, &library);
}

#define NAME_OF(status)                                                                            \
  case status:                                                                                     \
    return #status

static const char *status_name(VkResult status) {
  switch (status) {
    NAME_OF(VK_ERROR_OUT_OF_HOST_MEMORY);
    NAME_OF(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    NAME_OF(VK_ERROR_INITIALIZATION_FAILED);
    NAME_OF(VK_ERROR_DEVICE_LOST);
    NAME_OF(VK_ERROR_MEMORY_MAP_FAILED);
    NAME_OF(VK_ERROR_LAYER_NOT_PRESENT);
    NAME_OF(VK_ERROR_EXTENSION_NOT_PRESENT);
    NAME_OF(VK_ERROR_FEATURE_NOT_PRESENT);
    NAME_OF(VK_ERROR_INCOMPATIBLE_DRIVER);
    NAME_OF(VK_ERROR_TOO_MANY_OBJECTS);
    NAME_OF(VK_ERROR_FRAGMENTED_POOL);
    NAME_OF(VK_ERROR_OUT_OF_POOL_MEMORY);
    NAME_OF(VK_ERROR_INVALID_SHADER_NV);
    NAME_OF(VK_TIMEOUT);
    NAME_OF(VK_NOT_READY);
  default:
    return "an error";
  }
}

int32_t bp_vulkan_raise(VkResult status, const char *call) {
  const char *kind = BP_ERROR_DEVICE;
  if (status == VK_ERROR_OUT_OF_HOST_MEMORY || status == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
      status == VK_ERROR_TOO_MANY_OBJECTS)
    kind = BP_ERROR_MEMORY;
  else if (status == VK_ERROR_DEVICE_LOST)
    kind = BP_ERROR_DEVICE_LOST;
  return bp_plugin_raise(&bp_vulkan_host, kind, "vulkan: %s: %s (%d)", call, status_name(status),
                         (int)status);
}
