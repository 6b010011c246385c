/* SPDX-License-Identifier: Apache-2.0 */
/* Copies. If the host can access data space, it copies by itself after the queued work that uses
 * the buffer; otherwise the bytes go through staging buffers, a few MiB at a time, so that host and
 * device work at the same time. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

#define STAGING_BYTES (8 << 20)

/* The source or destination of a copy in data space, with a reference to the buffer. */
typedef struct End {
  BpVulkanDevice *device;
  BpVulkanBuffer *buffer;
  uint64_t offset;
} End;

static void release_end(End *end) {
  if (end->buffer)
    bp_vulkan_release(&end->buffer->shared);
}

/* Sets the source or destination of a copy. The caller releases the end, also after an error. */
static int32_t find_end(BpDevice device, const void *handle, uint64_t offset, uint64_t size,
                        End *end) {
  end->device = bp_vulkan_device(device.device_id);
  end->buffer = end->device ? bp_vulkan_find(end->device, handle) : NULL;
  end->offset = offset;
  if (!end->buffer)
    return -1;
  if (offset <= end->buffer->size && size <= end->buffer->size - offset)
    return 0;
  return bp_plugin_raise(
      &bp_vulkan_host, BP_ERROR_VALUE, "vulkan: a copy of %llu bytes at %llu in a buffer of %llu",
      (unsigned long long)size, (unsigned long long)offset, (unsigned long long)end->buffer->size);
}

/* Waits for the stream's queued work if that may use the buffer: the buffer then has more
 * references than those of the handle and this copy. */
static int32_t wait_for_use(BpVulkanStream *stream, const BpVulkanBuffer *buffer) {
  bp_vulkan_collect(stream->device);
  int is_used = __atomic_load_n(&buffer->shared.references, __ATOMIC_ACQUIRE) > 2;
  pthread_mutex_lock(&stream->lock);
  is_used |= stream->num_waits > 0;
  pthread_mutex_unlock(&stream->lock);
  return is_used ? bp_vulkan_wait(stream) : 0;
}

/* Records a copy between buffers. If `to_host` is not NULL, the bytes of `to` are then copied to
 * `to_host`. */
static int32_t record(BpVulkanStream *stream, BpVulkanBuffer *from, BpVulkanBuffer *to,
                      VkBufferCopy region, void *to_host) {
  pthread_mutex_lock(&stream->lock);
  BpVulkanBatch *batch = bp_vulkan_begin(stream, 0);
  int32_t rc =
      batch && bp_vulkan_use(batch, &from->shared) == 0 && bp_vulkan_use(batch, &to->shared) == 0
          ? 0
          : -1;
  if (rc == 0 && to_host)
    rc = bp_vulkan_deliver(batch, (BpVulkanDelivery){to_host, to->mapped, region.size});
  if (rc == 0)
    bp_vk.vkCmdCopyBuffer(batch->commands, from->handle, to->handle, 1, &region);
  pthread_mutex_unlock(&stream->lock);
  return rc;
}

static void submit(BpVulkanStream *stream) {
  pthread_mutex_lock(&stream->lock);
  bp_vulkan_flush(stream);
  pthread_mutex_unlock(&stream->lock);
}

/* Whether a copy is between memory that was imported from the host and its own place. Imported
 * memory is coherent, and each batch makes its writes visible to the host when it ends. */
static int is_own_place(const End *end, const char *address) {
  return end->buffer->mapped && end->buffer->mapped + end->offset == address;
}

/* Makes writes of the host visible to commands that are queued later. */
static int32_t take_from_host(const End *end, BpVulkanStream *stream) {
  static const VkMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_HOST_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                       VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
  pthread_mutex_lock(&stream->lock);
  BpVulkanBatch *batch = bp_vulkan_begin(stream, 0);
  int32_t rc = batch && bp_vulkan_use(batch, &end->buffer->shared) == 0 ? 0 : -1;
  if (rc == 0)
    bp_vk.vkCmdPipelineBarrier(batch->commands, VK_PIPELINE_STAGE_HOST_BIT,
                               VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                   VK_PIPELINE_STAGE_TRANSFER_BIT,
                               0, 1, &barrier, 0, NULL, 0, NULL);
  pthread_mutex_unlock(&stream->lock);
  return rc;
}

/* ---- Host to device ---------------------------------------------------------------------- */

static int32_t stage_to_device(const End *end, const char *from, uint64_t size,
                               BpVulkanStream *stream) {
  int32_t rc = 0;
  for (uint64_t done = 0; rc == 0 && done < size; done += STAGING_BYTES) {
    uint64_t part = size - done < STAGING_BYTES ? size - done : STAGING_BYTES;
    BpVulkanBuffer *staging = bp_vulkan_buffer_create(end->device, part, 1);
    if (!staging)
      return -1;
    memcpy(staging->mapped, from + done, part);
    rc = record(stream, staging, end->buffer, (VkBufferCopy){0, end->offset + done, part}, NULL);
    if (size > STAGING_BYTES)
      submit(stream);
    bp_vulkan_release(&staging->shared);
  }
  return rc;
}

static int32_t write_end(const End *end, const char *from, uint64_t size, BpVulkanStream *stream) {
  if (!end->buffer->mapped)
    return stage_to_device(end, from, size, stream);
  if (is_own_place(end, from))
    return take_from_host(end, stream);
  if (wait_for_use(stream, end->buffer) != 0)
    return -1;
  memcpy(end->buffer->mapped + end->offset, from, size);
  return 0;
}

static int32_t to_device(const BpCopy *copy, void *stream) {
  End end;
  int32_t rc = find_end(copy->to_device, copy->to, copy->to_offset, copy->size, &end);
  if (rc == 0)
    rc = write_end(&end, (const char *)copy->from + copy->from_offset, copy->size,
                   bp_vulkan_stream(end.device, stream));
  release_end(&end);
  return rc;
}

/* ---- Device to host ---------------------------------------------------------------------- */

static int32_t stage_from_device(const End *end, char *to, uint64_t size, BpVulkanStream *stream) {
  int32_t rc = 0;
  for (uint64_t done = 0; rc == 0 && done < size; done += STAGING_BYTES) {
    uint64_t part = size - done < STAGING_BYTES ? size - done : STAGING_BYTES;
    BpVulkanBuffer *staging = bp_vulkan_buffer_create(end->device, part, 1);
    if (!staging)
      return -1;
    rc = record(stream, end->buffer, staging, (VkBufferCopy){end->offset + done, 0, part},
                to + done);
    submit(stream);
    bp_vulkan_release(&staging->shared);
  }
  return rc;
}

static int32_t read_end(const End *end, char *to, uint64_t size, BpVulkanStream *stream) {
  if (!end->buffer->mapped)
    return stage_from_device(end, to, size, stream);
  if (is_own_place(end, to))
    return 0;
  if (wait_for_use(stream, end->buffer) != 0)
    return -1;
  memcpy(to, end->buffer->mapped + end->offset, size);
  return 0;
}

static int32_t from_device(const BpCopy *copy, void *stream) {
  End end;
  int32_t rc = find_end(copy->from_device, copy->from, copy->from_offset, copy->size, &end);
  if (rc == 0)
    rc = read_end(&end, (char *)copy->to + copy->to_offset, copy->size,
                  bp_vulkan_stream(end.device, stream));
  release_end(&end);
  return rc;
}

/* ---- Between buffers --------------------------------------------------------------------- */

static int32_t within_device(const BpCopy *copy, void *stream) {
  End from, to = {NULL, NULL, 0};
  int32_t rc = find_end(copy->from_device, copy->from, copy->from_offset, copy->size, &from);
  if (rc == 0)
    rc = find_end(copy->to_device, copy->to, copy->to_offset, copy->size, &to);
  if (rc == 0)
    rc = bp_argument_check_overlap(&bp_vulkan_host, &bp_vulkan_device_api, copy);
  if (rc == 0)
    rc = record(bp_vulkan_stream(to.device, stream), from.buffer, to.buffer,
                (VkBufferCopy){from.offset, to.offset, copy->size}, NULL);
  release_end(&from);
  release_end(&to);
  return rc;
}

/* Copies between two devices through host memory. `stream` belongs to the source; the copy is
 * complete on return. */
static int32_t between_devices(void *context, const BpCopy *copy, void *stream) {
  const BpDevice host = {BP_DEVICE_CPU, 0};
  void *staged = bp_vulkan_host.runtime->host_alloc(copy->size, 64);
  if (!staged)
    return -1;
  BpCopy half = *copy;
  half.to = staged;
  half.to_offset = 0;
  half.to_device = host;
  int32_t rc = from_device(&half, stream);
  if (rc == 0)
    rc = bp_vulkan_stream_sync(context, copy->from_device.device_id, stream);
  half = *copy;
  half.from = staged;
  half.from_offset = 0;
  half.from_device = host;
  if (rc == 0)
    rc = to_device(&half, NULL);
  bp_vulkan_host.runtime->host_free(staged);
  return rc;
}

int32_t bp_vulkan_copy(void *context, const BpCopy *copy, void *stream) {
  if (bp_plugin_check_flags(&bp_vulkan_host, "vulkan", "copy", copy->flags) != 0)
    return -1;
  if (copy->size == 0)
    return 0;
  if (copy->from_device.device_type != BP_DEVICE_VULKAN)
    return to_device(copy, stream);
  if (copy->to_device.device_type != BP_DEVICE_VULKAN)
    return from_device(copy, stream);
  return copy->from_device.device_id == copy->to_device.device_id
             ? within_device(copy, stream)
             : between_devices(context, copy, stream);
}
