/* SPDX-License-Identifier: Apache-2.0 */
/* Imported and exported memory. Each such buffer has a VkDeviceMemory of its own. */
#include "vulkan.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A form of external memory, and Vulkan's name for it. */
typedef struct Form {
  uint64_t form;
  VkExternalMemoryHandleTypeFlagBits type;
  const char *extensions[2]; /* extensions that the form needs */
} Form;

static const Form forms[] = {
    {BP_EXTERNAL_HOST_POINTER,
     VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
     {VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME}},
    {BP_EXTERNAL_OPAQUE_FD,
     VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
     {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME}},
    {BP_EXTERNAL_DMA_BUF,
     VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT,
     {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME}},
};

#define NUM_FORMS      (sizeof(forms) / sizeof(forms[0]))
#define NUM_EXTENSIONS (sizeof(forms[0].extensions) / sizeof(forms[0].extensions[0]))

static const Form *find_form(uint64_t form) {
  for (size_t i = 0; i < NUM_FORMS; i++)
    if (forms[i].form == form)
      return &forms[i];
  return NULL;
}

/* ---- Forms that a device supports -------------------------------------------------------- */

static int has_extensions(const BpVulkanInfo *info, const Form *form) {
  for (size_t i = 0; i < NUM_EXTENSIONS; i++)
    if (form->extensions[i] && !bp_vulkan_has_extension(info->physical, form->extensions[i]))
      return 0;
  return 1;
}

static void read_form(BpVulkanInfo *info, const Form *form) {
  VkPhysicalDeviceExternalBufferInfo what = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
      .usage = BP_VULKAN_BUFFER_USAGE,
      .handleType = form->type};
  VkExternalBufferProperties has = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  if (!has_extensions(info, form))
    return;
  bp_vk.vkGetPhysicalDeviceExternalBufferProperties(info->physical, &what, &has);
  VkExternalMemoryFeatureFlags features = has.externalMemoryProperties.externalMemoryFeatures;
  if (features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)
    info->imports |= form->form;
  if (features & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT)
    info->exports |= form->form;
  if (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT)
    info->dedicated |= form->form;
}

void bp_vulkan_read_external(BpVulkanInfo *info) {
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &host};
  for (size_t i = 0; i < NUM_FORMS; i++)
    read_form(info, &forms[i]);
  info->host_alignment = 1;
  if (!(info->imports & BP_EXTERNAL_HOST_POINTER))
    return;
  bp_vk.vkGetPhysicalDeviceProperties2(info->physical, &all);
  info->host_alignment = host.minImportedHostPointerAlignment;
}

uint32_t bp_vulkan_list_external(const BpVulkanInfo *info,
                                 const char *names[BP_VULKAN_MOST_EXTENSIONS]) {
  uint32_t count = 0;
  for (size_t i = 0; i < NUM_FORMS; i++) {
    for (size_t k = 0; k < NUM_EXTENSIONS && forms[i].extensions[k]; k++) {
      int is_listed = !((info->imports | info->exports) & forms[i].form);
      for (uint32_t n = 0; n < count; n++)
        is_listed |= strcmp(names[n], forms[i].extensions[k]) == 0;
      if (!is_listed)
        names[count++] = forms[i].extensions[k];
    }
  }
  return count;
}

void bp_vulkan_load_external(BpVulkanDevice *device) {
  device->get_memory_fd =
      (PFN_vkGetMemoryFdKHR)bp_vk.vkGetDeviceProcAddr(device->handle, "vkGetMemoryFdKHR");
  device->get_fd_properties = (PFN_vkGetMemoryFdPropertiesKHR)bp_vk.vkGetDeviceProcAddr(
      device->handle, "vkGetMemoryFdPropertiesKHR");
  device->get_pointer_properties =
      (PFN_vkGetMemoryHostPointerPropertiesEXT)bp_vk.vkGetDeviceProcAddr(
          device->handle, "vkGetMemoryHostPointerPropertiesEXT");
}

static int32_t get_forms(void *context, int32_t device_id, uint64_t *imports, uint64_t *exports,
                         uint64_t *alignment) {
  (void)context;
  const BpVulkanDevice *device = bp_vulkan_device(device_id);
  if (!device)
    return -1;
  *imports = device->info->imports;
  if (*imports & BP_EXTERNAL_HOST_POINTER)
    *imports |= BP_EXTERNAL_IN_TURN;
  *exports = device->info->exports;
  *alignment = device->info->host_alignment;
  return 0;
}

static int32_t refuse_form(uint32_t form) {
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_NOT_IMPLEMENTED,
                         "vulkan: the driver does not exchange external memory of form %u", form);
}

/* ---- The memory of a buffer -------------------------------------------------------------- */

/* Chooses the memory type of an import among those that the driver allows; -1: none. The type for
 * host memory is coherent, because no driver call precedes the host's reads and writes. An opaque
 * descriptor has the type that this plugin exports. */
static int64_t choose_type(const BpVulkanDevice *device, uint32_t form, uint32_t allowed) {
  const VkMemoryPropertyFlags coherent =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkPhysicalDeviceMemoryProperties *memory = &device->info->memory;
  if (form != BP_EXTERNAL_HOST_POINTER && (allowed >> device->data_type & 1))
    return device->data_type;
  for (uint32_t i = 0; i < memory->memoryTypeCount && form != BP_EXTERNAL_OPAQUE_FD; i++)
    if ((allowed >> i & 1) && (form != BP_EXTERNAL_HOST_POINTER ||
                               (memory->memoryTypes[i].propertyFlags & coherent) == coherent))
      return i;
  return -1;
}

/* Allocates or imports memory, as `chain` says, and binds it to the buffer. A buffer may need a
 * dedicated allocation: drivers say so for each form. */
static VkResult give_memory(BpVulkanBuffer *buffer, const void *chain, uint32_t form, uint32_t type,
                            uint64_t size) {
  BpVulkanDevice *device = buffer->device;
  VkMemoryDedicatedAllocateInfo dedicated = {.sType =
                                                 VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                             .pNext = chain,
                                             .buffer = buffer->handle};
  VkMemoryAllocateInfo allocate = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
      .pNext = device->info->dedicated & form ? (const void *)&dedicated : chain,
      .allocationSize = size,
      .memoryTypeIndex = type};
  VkResult status = bp_vk.vkAllocateMemory(device->handle, &allocate, NULL, &buffer->own);
  if (status != VK_SUCCESS)
    return status;
  return bp_vk.vkBindBufferMemory(device->handle, buffer->handle, buffer->own, 0);
}

/* Maps the memory if the host can access data space: it can then access imported memory, too. */
static VkResult map_memory(BpVulkanBuffer *buffer, uint32_t type) {
  BpVulkanDevice *device = buffer->device;
  void *mapped = NULL;
  if (!device->is_mapped || type != device->data_type)
    return VK_SUCCESS;
  VkResult status = bp_vk.vkMapMemory(device->handle, buffer->own, 0, VK_WHOLE_SIZE, 0, &mapped);
  buffer->mapped = mapped;
  return status;
}

static VkMemoryRequirements needs_of(const BpVulkanBuffer *buffer) {
  VkMemoryRequirements needs;
  bp_vk.vkGetBufferMemoryRequirements(buffer->device->handle, buffer->handle, &needs);
  return needs;
}

/* ---- Import ------------------------------------------------------------------------------ */

/* The last page may extend past the imported memory: the rest of the page is unused. */
static VkResult import_pointer(BpVulkanBuffer *buffer, const BpExternalMemory *memory) {
  BpVulkanDevice *device = buffer->device;
  uint64_t page = device->info->host_alignment;
  uint64_t size = (memory->size + page - 1) / page * page;
  VkMemoryHostPointerPropertiesEXT has = {.sType =
                                              VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  const VkImportMemoryHostPointerInfoEXT chain = {
      .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
      .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
      .pHostPointer = memory->address};
  VkMemoryRequirements needs = needs_of(buffer);
  VkResult status =
      device->get_pointer_properties(device->handle, chain.handleType, memory->address, &has);
  if (status != VK_SUCCESS)
    return status;
  int64_t type = choose_type(device, memory->form, has.memoryTypeBits & needs.memoryTypeBits);
  if (type < 0 || needs.size > size)
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  buffer->mapped = memory->address;
  return give_memory(buffer, &chain, memory->form, (uint32_t)type, size);
}

/* Whether a descriptor may be memory. A driver that reads from a pipe, a terminal or an eventfd
 * waits for ever. An eventfd is a file without a type, like a dma-buf, but has no size. */
static int may_be_memory(int fd) {
  struct stat about;
  if (fstat(fd, &about) != 0)
    return 0;
  switch (about.st_mode & S_IFMT) {
  case S_IFIFO:
  case S_IFSOCK:
  case S_IFDIR:
    return 0;
  case S_IFCHR:
    return !isatty(fd);
  case 0:
    return lseek(fd, 0, SEEK_END) > 0;
  default:
    return 1;
  }
}

/* Duplicates a descriptor that may be memory; -1 if it cannot be memory. */
static int take_fd(int fd) {
  return may_be_memory(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

/* The driver owns the descriptor that it is given, if it succeeds. */
static VkResult import_fd(BpVulkanBuffer *buffer, const BpExternalMemory *memory,
                          VkExternalMemoryHandleTypeFlagBits handle_type) {
  BpVulkanDevice *device = buffer->device;
  VkMemoryFdPropertiesKHR has = {.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR,
                                 .memoryTypeBits = UINT32_MAX};
  VkMemoryRequirements needs = needs_of(buffer);
  VkImportMemoryFdInfoKHR chain = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                   .handleType = handle_type,
                                   .fd = take_fd(memory->fd)};
  VkResult status = chain.fd < 0 ? VK_ERROR_INVALID_EXTERNAL_HANDLE : VK_SUCCESS;
  if (status == VK_SUCCESS && memory->form == BP_EXTERNAL_DMA_BUF)
    status = device->get_fd_properties(device->handle, handle_type, chain.fd, &has);
  int64_t type = choose_type(device, memory->form, has.memoryTypeBits & needs.memoryTypeBits);
  if (status == VK_SUCCESS && (type < 0 || needs.size > memory->size))
    status = VK_ERROR_INVALID_EXTERNAL_HANDLE;
  if (status == VK_SUCCESS)
    status = give_memory(buffer, &chain, memory->form, (uint32_t)type, memory->size);
  if (!buffer->own && chain.fd >= 0)
    close(chain.fd);
  return status == VK_SUCCESS ? map_memory(buffer, (uint32_t)type) : status;
}

static int32_t check_pointer(const BpVulkanDevice *device, const BpExternalMemory *memory) {
  uint64_t page = device->info->host_alignment;
  if (memory->form != BP_EXTERNAL_HOST_POINTER ||
      (memory->address && (uintptr_t)memory->address % page == 0))
    return 0;
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_VALUE,
                         "vulkan: the address %p is no multiple of %llu", memory->address,
                         (unsigned long long)page);
}

/* Adds the buffer to the table of handles if `status` is VK_SUCCESS; otherwise raises the error and
 * releases the buffer. */
static int32_t finish(BpVulkanBuffer *buffer, VkResult status, void **handle) {
  if (status == VK_SUCCESS) {
    *handle = bp_vulkan_add(buffer);
    return *handle ? 0 : -1;
  }
  if (status != VK_ERROR_INVALID_EXTERNAL_HANDLE) {
    bp_vulkan_buffer_fail(buffer, status);
    return -1;
  }
  bp_vulkan_release(&buffer->shared);
  return bp_plugin_raise(
      &bp_vulkan_host, BP_ERROR_VALUE,
      "vulkan: the driver cannot import this as memory of a buffer of this size; "
      "a file descriptor is one that the same driver exported, with the size of "
      "the export");
}

static int32_t import_memory(void *context, int32_t device_id, const BpExternalMemory *memory,
                             void **handle) {
  (void)context;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  const Form *form = find_form(memory->form);
  if (!device || bp_plugin_check_flags(&bp_vulkan_host, "vulkan", "memory import", memory->flags))
    return -1;
  if (!form || !(device->info->imports & memory->form))
    return refuse_form(memory->form);
  if (memory->size == 0)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_VALUE, "vulkan: an import of 0 bytes");
  if (check_pointer(device, memory) != 0 || bp_vulkan_check_size(device, memory->size) != 0)
    return -1;
  BpVulkanBuffer *buffer = bp_vulkan_buffer_begin(device, memory->size, form->type);
  if (!buffer)
    return -1;
  return finish(buffer,
                memory->form == BP_EXTERNAL_HOST_POINTER ? import_pointer(buffer, memory)
                                                         : import_fd(buffer, memory, form->type),
                handle);
}

/* ---- Export ------------------------------------------------------------------------------ */

static VkResult make_exported(BpVulkanBuffer *buffer, const Form *form, BpExternalMemory *memory) {
  BpVulkanDevice *device = buffer->device;
  const VkExportMemoryAllocateInfo chain = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                            .handleTypes = form->type};
  VkMemoryRequirements needs = needs_of(buffer);
  VkResult status = needs.memoryTypeBits >> device->data_type & 1
                        ? give_memory(buffer, &chain, memory->form, device->data_type, needs.size)
                        : VK_ERROR_FEATURE_NOT_PRESENT;
  if (status != VK_SUCCESS)
    return status;
  const VkMemoryGetFdInfoKHR get = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                    .memory = buffer->own,
                                    .handleType = form->type};
  memory->size = needs.size;
  status = map_memory(buffer, device->data_type);
  return status == VK_SUCCESS ? device->get_memory_fd(device->handle, &get, &memory->fd) : status;
}

static int32_t export_memory(void *context, int32_t device_id, const BpAllocation *allocation,
                             BpExternalMemory *memory, void **handle) {
  (void)context;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  const Form *form = find_form(memory->form);
  if (!device || bp_plugin_check_allocation(&bp_vulkan_host, "vulkan", allocation) ||
      bp_plugin_check_flags(&bp_vulkan_host, "vulkan", "memory export", memory->flags))
    return -1;
  if (!form || !(device->info->exports & memory->form))
    return refuse_form(memory->form);
  if (bp_vulkan_check_size(device, allocation->size) != 0)
    return -1;
  BpVulkanBuffer *buffer = bp_vulkan_buffer_begin(device, allocation->size, form->type);
  if (!buffer)
    return -1;
  memory->fd = -1;
  int32_t rc = finish(buffer, make_exported(buffer, form, memory), handle);
  if (rc != 0 && memory->fd >= 0)
    close(memory->fd);
  return rc;
}

const BpExternalMemoryApi bp_vulkan_external = {.struct_size = sizeof(BpExternalMemoryApi),
                                                .get_forms = get_forms,
                                                .import_memory = import_memory,
                                                .export_memory = export_memory};
