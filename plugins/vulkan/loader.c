/* SPDX-License-Identifier: Apache-2.0 */
/* libvulkan, opened when a device is first asked for, so that the plugin loads without it. */
#include "vulkan.h"

#include <dlfcn.h>
#include <stdio.h>

#define LIBRARY "libvulkan.so.1"

BpVulkanLibrary bp_vk;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[512];

static const struct {
  const char *name;
  void **place;
} functions[] = {
#define ENTRY_(name) {#name, (void **)&bp_vk.name},
    BP_VULKAN_FUNCTIONS(ENTRY_)};

static void load(void) {
  const char *path = bp_vulkan_host.runtime->get_option("BACKPLANE_VULKAN_LIBRARY");
  void *library = dlopen(path ? path : LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(problem, sizeof(problem),
             "the Vulkan loader cannot be opened (%s); install libvulkan1 and a driver, such as "
             "mesa-vulkan-drivers",
             dlerror());
    return;
  }
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
    *functions[i].place = dlsym(library, functions[i].name);
    if (!*functions[i].place) {
      snprintf(problem, sizeof(problem),
               "the Vulkan loader lacks %s: one of Vulkan 1.2 or later is needed",
               functions[i].name);
      return;
    }
  }
}

const char *bp_vulkan_load(void) {
  pthread_once(&once, load);
  return problem[0] ? problem : NULL;
}

static const char *status_name(VkResult status) {
  static const struct {
    VkResult status;
    const char *name;
  } names[] = {
#define STATUS(name) {name, #name}
      STATUS(VK_ERROR_OUT_OF_HOST_MEMORY),
      STATUS(VK_ERROR_OUT_OF_DEVICE_MEMORY),
      STATUS(VK_ERROR_INITIALIZATION_FAILED),
      STATUS(VK_ERROR_DEVICE_LOST),
      STATUS(VK_ERROR_MEMORY_MAP_FAILED),
      STATUS(VK_ERROR_LAYER_NOT_PRESENT),
      STATUS(VK_ERROR_EXTENSION_NOT_PRESENT),
      STATUS(VK_ERROR_FEATURE_NOT_PRESENT),
      STATUS(VK_ERROR_INCOMPATIBLE_DRIVER),
      STATUS(VK_ERROR_TOO_MANY_OBJECTS),
      STATUS(VK_ERROR_FRAGMENTED_POOL),
      STATUS(VK_ERROR_OUT_OF_POOL_MEMORY),
      STATUS(VK_ERROR_INVALID_SHADER_NV),
      STATUS(VK_TIMEOUT),
      STATUS(VK_NOT_READY),
  };
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (names[i].status == status)
      return names[i].name;
  }
  return "an error";
}

int32_t bp_vulkan_raise(VkResult status, const char *call) {
  const char *kind = BP_ERROR_DEVICE;
  if (status == VK_ERROR_OUT_OF_HOST_MEMORY || status == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
      status == VK_ERROR_TOO_MANY_OBJECTS)
    kind = BP_ERROR_MEMORY;
  else if (status == VK_ERROR_DEVICE_LOST)
    kind = BP_ERROR_DEVICE_LOST;
  return bp_vulkan_host.error->raise(kind, "vulkan: %s: %s (%d)", call, status_name(status),
                                     (int)status);
}
