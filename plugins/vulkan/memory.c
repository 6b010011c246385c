/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory and the buffers in it. Drivers allow few allocations, and each is slow, so buffers
 * share blocks; a large buffer has a block of its own. */
#include "vulkan.h"

#include <stdlib.h>

#define BLOCK_BYTES (32 << 20)
/* The largest buffer that shares a block; a larger buffer gets its own. */
#define LARGEST_SHARED (BLOCK_BYTES / 4)
/* All pieces begin and end at multiples of this number of bytes. */
#define PIECE_ALIGNMENT 256

/* A range of a block; a block consists of its pieces, in order. */
struct BpVulkanPiece {
  BpVulkanBlock *block;
  BpVulkanPiece *before, *after;
  uint64_t begin, end;
  int is_used;
};

struct BpVulkanBlock {
  BpVulkanBlock *next;
  VkDeviceMemory memory;
  uint32_t type;
  char *mapped; /* or NULL */
  BpVulkanPiece *first;
};

/* ---- Blocks ------------------------------------------------------------------------------ */

static uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

static uint64_t block_bytes(const BpVulkanBlock *block) {
  const BpVulkanPiece *last = block->first;
  while (last->after)
    last = last->after;
  return last->end;
}

/* Whether memory of a type comes from the heap of data space. */
static int is_own_heap(const BpVulkanDevice *device, uint32_t type) {
  return device->info->memory.memoryTypes[type].heapIndex == device->info->heap;
}

static void free_block(BpVulkanDevice *device, BpVulkanBlock *block) {
  if (is_own_heap(device, block->type))
    device->allocated -= block_bytes(block);
  bp_vk.vkFreeMemory(device->handle, block->memory, NULL);
  free(block->first);
  free(block);
}

/* Allocates the memory of a new block. */
static VkResult allocate_memory(BpVulkanDevice *device, BpVulkanBlock *block, uint64_t size) {
  VkMemoryPropertyFlags flags = device->info->memory.memoryTypes[block->type].propertyFlags;
  VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .allocationSize = size,
                                   .memoryTypeIndex = block->type};
  if (is_own_heap(device, block->type) && device->allocated + size > device->info->heap_bytes)
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkResult status = bp_vk.vkAllocateMemory(device->handle, &allocate, NULL, &block->memory);
  if (status != VK_SUCCESS || !(flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT))
    return status;
  void *mapped = NULL;
  status = bp_vk.vkMapMemory(device->handle, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
  block->mapped = mapped;
  if (status != VK_SUCCESS)
    bp_vk.vkFreeMemory(device->handle, block->memory, NULL);
  return status;
}

static VkResult add_block(BpVulkanDevice *device, uint32_t type, uint64_t size) {
  BpVulkanBlock *block = calloc(1, sizeof(*block));
  BpVulkanPiece *piece = calloc(1, sizeof(*piece));
  VkResult status = VK_ERROR_OUT_OF_HOST_MEMORY;
  if (block && piece) {
    block->type = type;
    block->first = piece;
    *piece = (BpVulkanPiece){.block = block, .end = size};
    status = allocate_memory(device, block, size);
  }
  if (status != VK_SUCCESS) {
    free(block);
    free(piece);
    return status;
  }
  if (is_own_heap(device, type))
    device->allocated += size;
  block->next = device->blocks;
  device->blocks = block;
  return VK_SUCCESS;
}

/* ---- Pieces ------------------------------------------------------------------------------ */

/* Splits a free piece so that it ends at `end`; -1 if there is no memory. */
static int32_t split(BpVulkanPiece *piece, uint64_t end) {
  if (piece->end == end)
    return 0;
  BpVulkanPiece *rest = calloc(1, sizeof(*rest));
  if (!rest)
    return -1;
  *rest = (BpVulkanPiece){piece->block, piece, piece->after, end, piece->end, 0};
  if (rest->after)
    rest->after->before = rest;
  piece->after = rest;
  piece->end = end;
  return 0;
}

/* The first free piece that is large enough, or NULL. */
static BpVulkanPiece *take_piece(BpVulkanDevice *device, uint32_t type, uint64_t size,
                                 uint64_t alignment) {
  for (BpVulkanBlock *block = device->blocks; block; block = block->next) {
    for (BpVulkanPiece *piece = block->first; piece && block->type == type; piece = piece->after) {
      uint64_t begin = round_up(piece->begin, alignment);
      if (piece->is_used || begin > piece->end || piece->end - begin < size)
        continue;
      if (split(piece, begin + size) != 0)
        return NULL;
      piece->is_used = 1;
      return piece;
    }
  }
  return NULL;
}

/* Joins a free piece with the next one if that is free, too. */
static void join(BpVulkanPiece *piece) {
  BpVulkanPiece *after = piece->after;
  if (!after || after->is_used || piece->is_used)
    return;
  piece->end = after->end;
  piece->after = after->after;
  if (piece->after)
    piece->after->before = piece;
  free(after);
}

/* Frees an empty block, except one block that is kept for later buffers. */
static void drop_block(BpVulkanDevice *device, BpVulkanBlock *empty) {
  int is_shared = block_bytes(empty) == BLOCK_BYTES, others = 0;
  for (BpVulkanBlock *block = device->blocks; block; block = block->next)
    others += block != empty && block->type == empty->type && !block->first->is_used &&
              !block->first->after;
  if (is_shared && others == 0)
    return;
  BpVulkanBlock **place = &device->blocks;
  while (*place != empty)
    place = &(*place)->next;
  *place = empty->next;
  free_block(device, empty);
}

static void give_piece(BpVulkanDevice *device, BpVulkanPiece *piece) {
  BpVulkanBlock *block = piece->block;
  piece->is_used = 0;
  join(piece);
  if (piece->before)
    join(piece->before);
  if (!block->first->is_used && !block->first->after)
    drop_block(device, block);
}

static BpVulkanPiece *get_piece(BpVulkanDevice *device, uint32_t type, uint64_t size,
                                uint64_t alignment, VkResult *status) {
  *status = VK_SUCCESS;
  pthread_mutex_lock(&device->memory_lock);
  BpVulkanPiece *piece = take_piece(device, type, size, alignment);
  if (!piece)
    *status = add_block(device, type, size > LARGEST_SHARED ? size : BLOCK_BYTES);
  if (!piece && *status == VK_SUCCESS)
    piece = take_piece(device, type, size, alignment);
  pthread_mutex_unlock(&device->memory_lock);
  if (!piece && *status == VK_SUCCESS)
    *status = VK_ERROR_OUT_OF_HOST_MEMORY;
  return piece;
}

/* ---- Buffers ----------------------------------------------------------------------------- */

static void destroy_buffer(BpVulkanShared *shared) {
  BpVulkanBuffer *buffer = (BpVulkanBuffer *)shared;
  BpVulkanDevice *device = buffer->device;
  for (BpVulkanView *view = buffer->views, *next; view; view = next) {
    next = view->next;
    bp_vk.vkDestroyBufferView(device->handle, view->handle, NULL);
    free(view);
  }
  if (buffer->handle)
    bp_vk.vkDestroyBuffer(device->handle, buffer->handle, NULL);
  if (buffer->piece) {
    pthread_mutex_lock(&device->memory_lock);
    give_piece(device, buffer->piece);
    pthread_mutex_unlock(&device->memory_lock);
  }
  if (buffer->own)
    bp_vk.vkFreeMemory(device->handle, buffer->own, NULL);
  free(buffer);
}

/* Allocates memory for a buffer. Before an allocation fails, the memory of finished work is
 * released. */
static VkResult bind(BpVulkanBuffer *buffer, uint32_t type) {
  BpVulkanDevice *device = buffer->device;
  VkMemoryRequirements needs;
  VkResult status;
  bp_vk.vkGetBufferMemoryRequirements(device->handle, buffer->handle, &needs);
  uint64_t size = round_up(needs.size, PIECE_ALIGNMENT);
  uint64_t alignment = needs.alignment > PIECE_ALIGNMENT ? needs.alignment : PIECE_ALIGNMENT;
  buffer->piece = get_piece(device, type, size, alignment, &status);
  if (!buffer->piece && status == VK_ERROR_OUT_OF_DEVICE_MEMORY) {
    bp_vulkan_collect(device);
    buffer->piece = get_piece(device, type, size, alignment, &status);
  }
  if (!buffer->piece)
    return status;
  const BpVulkanBlock *block = buffer->piece->block;
  uint64_t begin = round_up(buffer->piece->begin, alignment);
  buffer->mapped = block->mapped ? block->mapped + begin : NULL;
  return bp_vk.vkBindBufferMemory(device->handle, buffer->handle, block->memory, begin);
}

void bp_vulkan_buffer_fail(BpVulkanBuffer *buffer, VkResult status) {
  bp_vulkan_note(buffer->device, status);
  bp_vulkan_raise(status, "allocating memory");
  bp_plugin_add_context(&bp_vulkan_host, "%llu bytes", (unsigned long long)buffer->size);
  bp_vulkan_release(&buffer->shared);
}

BpVulkanBuffer *bp_vulkan_buffer_begin(BpVulkanDevice *device, uint64_t size,
                                       VkExternalMemoryHandleTypeFlags external) {
  BpVulkanBuffer *buffer = calloc(1, sizeof(*buffer));
  if (!buffer) {
    bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "vulkan: no host memory for a buffer");
    return NULL;
  }
  buffer->shared = (BpVulkanShared){1, destroy_buffer};
  buffer->device = device;
  buffer->size = size;
  VkExternalMemoryBufferCreateInfo shared = {
      .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = external};
  VkBufferCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .pNext = external ? &shared : NULL,
                               .size = round_up(size ? size : 1, 16),
                               .usage = BP_VULKAN_BUFFER_USAGE};
  VkResult status = bp_vk.vkCreateBuffer(device->handle, &create, NULL, &buffer->handle);
  if (status == VK_SUCCESS)
    return buffer;
  bp_vulkan_buffer_fail(buffer, status);
  return NULL;
}

BpVulkanBuffer *bp_vulkan_buffer_create(BpVulkanDevice *device, uint64_t size, int is_staging) {
  BpVulkanBuffer *buffer = bp_vulkan_buffer_begin(device, size, 0);
  if (!buffer)
    return NULL;
  VkResult status = bind(buffer, is_staging ? device->staging_type : device->data_type);
  if (status != VK_SUCCESS) {
    bp_vulkan_buffer_fail(buffer, status);
    return NULL;
  }
  if (!is_staging && !device->is_mapped)
    buffer->mapped = NULL;
  return buffer;
}

/* ---- Texels ------------------------------------------------------------------------------ */

static VkBufferView find_view(const BpVulkanBuffer *buffer, VkFormat format, uint64_t offset,
                              uint64_t size) {
  for (const BpVulkanView *view = buffer->views; view; view = view->next) {
    if (view->format == format && view->offset == offset && view->size == size)
      return view->handle;
  }
  return VK_NULL_HANDLE;
}

static VkResult add_view(BpVulkanBuffer *buffer, VkFormat format, uint64_t offset, uint64_t size,
                         VkBufferView *handle) {
  BpVulkanView *view = calloc(1, sizeof(*view));
  if (!view)
    return VK_ERROR_OUT_OF_HOST_MEMORY;
  VkBufferViewCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                   .buffer = buffer->handle,
                                   .format = format,
                                   .offset = offset,
                                   .range = size};
  VkResult status = bp_vk.vkCreateBufferView(buffer->device->handle, &create, NULL, handle);
  if (status != VK_SUCCESS) {
    free(view);
    return status;
  }
  *view = (BpVulkanView){buffer->views, format, offset, size, *handle};
  buffer->views = view;
  return VK_SUCCESS;
}

VkBufferView bp_vulkan_buffer_view(BpVulkanBuffer *buffer, VkFormat format, uint64_t offset,
                                   uint64_t size) {
  VkResult status = VK_SUCCESS;
  pthread_mutex_lock(&buffer->device->memory_lock);
  VkBufferView handle = find_view(buffer, format, offset, size);
  if (!handle)
    status = add_view(buffer, format, offset, size, &handle);
  pthread_mutex_unlock(&buffer->device->memory_lock);
  if (status != VK_SUCCESS)
    bp_vulkan_raise(status, "vkCreateBufferView");
  return status == VK_SUCCESS ? handle : VK_NULL_HANDLE;
}
