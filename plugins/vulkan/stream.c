/* SPDX-License-Identifier: Apache-2.0 */
/* Queued work. A stream records commands into a batch, each ordered after the previous ones by a
 * barrier, and submits the batch when it is full or when a caller waits. A finished batch sets the
 * stream's timeline semaphore to its number; then the objects that it used are released. */
#include "vulkan.h"

#include <stdlib.h>

/* ---- Creating and freeing ---------------------------------------------------------------- */

/* Lavapipe's queue thread still touches a semaphore after the host has seen its last value, so no
 * semaphore is destroyed while its queues exist. */
static void shelve_timeline(BpVulkanShared *shared) {
  BpVulkanTimeline *timeline = (BpVulkanTimeline *)shared;
  BpVulkanDevice *device = timeline->device;
  pthread_mutex_lock(&device->timelines_lock);
  timeline->next = device->timelines;
  device->timelines = timeline;
  pthread_mutex_unlock(&device->timelines_lock);
}

static BpVulkanTimeline *shelved_timeline(BpVulkanDevice *device) {
  pthread_mutex_lock(&device->timelines_lock);
  BpVulkanTimeline *timeline = device->timelines;
  if (timeline)
    device->timelines = timeline->next;
  pthread_mutex_unlock(&device->timelines_lock);
  if (timeline)
    bp_vulkan_retain(&timeline->shared);
  return timeline;
}

static VkResult make_timeline(BpVulkanDevice *device, BpVulkanTimeline **made) {
  BpVulkanTimeline *timeline = calloc(1, sizeof(*timeline));
  if (!timeline)
    return VK_ERROR_OUT_OF_HOST_MEMORY;
  VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                    .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  VkSemaphoreCreateInfo create = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  *timeline = (BpVulkanTimeline){.shared = {1, shelve_timeline}, .device = device};
  VkResult status = bp_vk.vkCreateSemaphore(device->handle, &create, NULL, &timeline->handle);
  if (status == VK_SUCCESS)
    *made = timeline;
  else
    free(timeline);
  return status;
}

void bp_vulkan_destroy_timelines(BpVulkanDevice *device) {
  for (BpVulkanTimeline *timeline = shelved_timeline(device); timeline;
       timeline = shelved_timeline(device)) {
    bp_vk.vkDestroySemaphore(device->handle, timeline->handle, NULL);
    free(timeline);
  }
}

VkResult bp_vulkan_timeline_open(BpVulkanDevice *device, BpVulkanTimeline **timeline) {
  *timeline = shelved_timeline(device);
  return *timeline ? VK_SUCCESS : make_timeline(device, timeline);
}

static VkResult make_batch(BpVulkanStream *stream, BpVulkanBatch *batch) {
  static const VkDescriptorPoolSize sizes[] = {
      {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, BP_VULKAN_DESCRIPTORS},
      {VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, BP_VULKAN_DESCRIPTORS},
      {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, BP_VULKAN_COMMANDS}};
  VkDevice device = stream->device->handle;
  VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                          .commandPool = stream->pool,
                                          .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                          .commandBufferCount = 1};
  VkDescriptorPoolCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = BP_VULKAN_COMMANDS,
                                       .poolSizeCount = 3,
                                       .pPoolSizes = sizes};
  VkResult status = bp_vk.vkAllocateCommandBuffers(device, &allocate, &batch->commands);
  if (status == VK_SUCCESS)
    status = bp_vk.vkCreateDescriptorPool(device, &create, NULL, &batch->descriptors);
  return status;
}

/* Destroys a stream that no other thread uses any more. */
static void destroy_stream(BpVulkanStream *stream) {
  VkDevice device = stream->device->handle;
  for (int i = 0; i < BP_VULKAN_BATCHES; i++) {
    if (stream->batches[i].descriptors)
      bp_vk.vkDestroyDescriptorPool(device, stream->batches[i].descriptors, NULL);
    free(stream->batches[i].used);
    free(stream->batches[i].deliveries);
  }
  if (stream->pool)
    bp_vk.vkDestroyCommandPool(device, stream->pool, NULL);
  if (stream->timeline)
    bp_vulkan_release(&stream->timeline->shared);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

static VkResult make_parts(BpVulkanStream *stream) {
  BpVulkanDevice *device = stream->device;
  VkCommandPoolCreateInfo create = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = device->info->queue_family};
  VkResult status = bp_vk.vkCreateCommandPool(device->handle, &create, NULL, &stream->pool);
  if (status == VK_SUCCESS)
    status = bp_vulkan_timeline_open(device, &stream->timeline);
  for (int i = 0; i < BP_VULKAN_BATCHES && status == VK_SUCCESS; i++)
    status = make_batch(stream, &stream->batches[i]);
  return status;
}

BpVulkanStream *bp_vulkan_stream_open(BpVulkanDevice *device) {
  BpVulkanStream *stream = calloc(1, sizeof(*stream));
  if (!stream) {
    bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "vulkan: no host memory for a stream");
    return NULL;
  }
  uint32_t number = (uint32_t)__atomic_fetch_add(&device->next_queue, 1, __ATOMIC_RELAXED);
  stream->device = device;
  stream->queue = &device->queues[number % device->info->num_queues];
  pthread_mutex_init(&stream->lock, NULL);
  VkResult status = make_parts(stream);
  if (status != VK_SUCCESS) {
    bp_vulkan_note(device, status);
    bp_vulkan_raise(status, "making a stream");
    destroy_stream(stream);
    return NULL;
  }
  pthread_mutex_lock(&device->streams_lock);
  stream->next = device->streams;
  device->streams = stream;
  pthread_mutex_unlock(&device->streams_lock);
  return stream;
}

BpVulkanStream *bp_vulkan_stream(BpVulkanDevice *device, void *stream) {
  return stream ? stream : device->stream;
}

/* ---- Finished batches -------------------------------------------------------------------- */

static void finish_batch(BpVulkanBatch *batch, int is_done) {
  for (int32_t i = 0; i < batch->num_deliveries && is_done; i++) {
    const BpVulkanDelivery *delivery = &batch->deliveries[i];
    __builtin_memcpy(delivery->to, delivery->from, delivery->size);
  }
  for (int32_t i = 0; i < batch->num_used; i++)
    bp_vulkan_release(batch->used[i]);
  batch->num_deliveries = batch->num_used = 0;
  batch->num_commands = batch->num_descriptors = 0;
  batch->is_open = 0;
}

/* Finishes the batches up to the timeline's `value`, with the lock held. */
static void retire(BpVulkanStream *stream, uint64_t value) {
  while (stream->in_flight > 0 && stream->batches[stream->oldest].value <= value) {
    finish_batch(&stream->batches[stream->oldest], 1);
    stream->oldest = (stream->oldest + 1) % BP_VULKAN_BATCHES;
    stream->in_flight--;
  }
}

/* Finishes the batches that the device has completed, with the lock held. */
static void collect_stream(BpVulkanStream *stream) {
  uint64_t value = 0;
  if (stream->in_flight > 0 &&
      bp_vk.vkGetSemaphoreCounterValue(stream->device->handle, stream->timeline->handle, &value) ==
          VK_SUCCESS)
    retire(stream, value);
}

void bp_vulkan_collect(BpVulkanDevice *device) {
  pthread_mutex_lock(&device->streams_lock);
  for (BpVulkanStream *stream = device->streams; stream; stream = stream->next) {
    pthread_mutex_lock(&stream->lock);
    collect_stream(stream);
    pthread_mutex_unlock(&stream->lock);
  }
  pthread_mutex_unlock(&device->streams_lock);
}

static VkResult wait_for(BpVulkanStream *stream, uint64_t value) {
  VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                              .semaphoreCount = 1,
                              .pSemaphores = &stream->timeline->handle,
                              .pValues = &value};
  VkResult status = bp_vk.vkWaitSemaphores(stream->device->handle, &wait, UINT64_MAX);
  bp_vulkan_note(stream->device, status);
  return status;
}

/* ---- Recording --------------------------------------------------------------------------- */

/* Makes writes of earlier commands visible to later commands. */
static void order(BpVulkanBatch *batch) {
  static const VkMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                       VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
  const VkPipelineStageFlags stages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  bp_vk.vkCmdPipelineBarrier(batch->commands, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static void show_to_host(BpVulkanBatch *batch) {
  static const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                          .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT |
                                                           VK_ACCESS_TRANSFER_WRITE_BIT,
                                          .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  bp_vk.vkCmdPipelineBarrier(batch->commands,
                             VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                             VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Returns the batch being filled; NULL if all batches are in flight. */
static BpVulkanBatch *current_batch(BpVulkanStream *stream) {
  if (stream->in_flight == BP_VULKAN_BATCHES)
    return NULL;
  return &stream->batches[(stream->oldest + stream->in_flight) % BP_VULKAN_BATCHES];
}

/* Returns the batch being filled, and opens it if necessary. If all batches are in flight, waits
 * for the oldest, without the lock. NULL on failure. */
static BpVulkanBatch *open_batch(BpVulkanStream *stream, VkResult *status) {
  static const VkCommandBufferBeginInfo begin = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  *status = VK_SUCCESS;
  while (!current_batch(stream)) {
    uint64_t value = stream->batches[stream->oldest].value;
    pthread_mutex_unlock(&stream->lock);
    *status = wait_for(stream, value);
    pthread_mutex_lock(&stream->lock);
    if (*status != VK_SUCCESS)
      return NULL;
    retire(stream, value);
  }
  BpVulkanBatch *batch = current_batch(stream);
  if (batch->is_open)
    return batch;
  *status = bp_vk.vkResetDescriptorPool(stream->device->handle, batch->descriptors, 0);
  if (*status == VK_SUCCESS)
    *status = bp_vk.vkBeginCommandBuffer(batch->commands, &begin);
  batch->is_open = *status == VK_SUCCESS;
  return batch->is_open ? batch : NULL;
}

BpVulkanBatch *bp_vulkan_begin(BpVulkanStream *stream, int32_t num_descriptors) {
  VkResult status;
  BpVulkanBatch *batch = open_batch(stream, &status);
  while (batch && (batch->num_commands == BP_VULKAN_COMMANDS ||
                   batch->num_descriptors + num_descriptors > BP_VULKAN_DESCRIPTORS)) {
    bp_vulkan_flush(stream);
    collect_stream(stream);
    batch = open_batch(stream, &status);
  }
  if (!batch) {
    bp_vulkan_raise(status, "recording");
    return NULL;
  }
  order(batch);
  batch->num_commands++;
  batch->num_descriptors += num_descriptors;
  return batch;
}

int32_t bp_vulkan_use(BpVulkanBatch *batch, BpVulkanShared *shared) {
  if (batch->num_used == batch->used_capacity) {
    int32_t capacity = batch->used_capacity ? batch->used_capacity * 2 : 64;
    BpVulkanShared **grown = realloc(batch->used, (size_t)capacity * sizeof(*grown));
    if (!grown)
      return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY,
                             "vulkan: no host memory for a batch");
    batch->used = grown;
    batch->used_capacity = capacity;
  }
  bp_vulkan_retain(shared);
  batch->used[batch->num_used++] = shared;
  return 0;
}

int32_t bp_vulkan_deliver(BpVulkanBatch *batch, BpVulkanDelivery delivery) {
  size_t count = (size_t)batch->num_deliveries;
  BpVulkanDelivery *grown = realloc(batch->deliveries, (count + 1) * sizeof(*grown));
  if (!grown)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "vulkan: no host memory for a copy");
  batch->deliveries = grown;
  batch->deliveries[batch->num_deliveries++] = delivery;
  return 0;
}

/* ---- Submitting -------------------------------------------------------------------------- */

static VkResult submit(BpVulkanStream *stream, const BpVulkanBatch *batch, uint64_t value) {
  VkSemaphore semaphores[BP_VULKAN_WAITS];
  VkPipelineStageFlags stages[BP_VULKAN_WAITS];
  for (int32_t i = 0; i < stream->num_waits; i++) {
    semaphores[i] = stream->waits[i]->handle;
    stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  }
  VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                          .waitSemaphoreValueCount = (uint32_t)stream->num_waits,
                                          .pWaitSemaphoreValues = stream->wait_values,
                                          .signalSemaphoreValueCount = 1,
                                          .pSignalSemaphoreValues = &value};
  VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                       .pNext = &values,
                       .waitSemaphoreCount = (uint32_t)stream->num_waits,
                       .pWaitSemaphores = semaphores,
                       .pWaitDstStageMask = stages,
                       .commandBufferCount = 1,
                       .pCommandBuffers = &batch->commands,
                       .signalSemaphoreCount = 1,
                       .pSignalSemaphores = &stream->timeline->handle};
  pthread_mutex_lock(&stream->queue->lock);
  VkResult status = bp_vk.vkQueueSubmit(stream->queue->handle, 1, &info, VK_NULL_HANDLE);
  pthread_mutex_unlock(&stream->queue->lock);
  return status;
}

/* Moves the stream's pending waits to the batch, which keeps the timelines alive. */
static void give_waits(BpVulkanStream *stream, BpVulkanBatch *batch) {
  for (int32_t i = 0; i < stream->num_waits; i++) {
    if (batch && bp_vulkan_use(batch, &stream->waits[i]->shared) != 0)
      stream->failure = VK_ERROR_OUT_OF_HOST_MEMORY;
    bp_vulkan_release(&stream->waits[i]->shared);
  }
  stream->num_waits = 0;
}

static VkResult end_and_submit(BpVulkanStream *stream, BpVulkanBatch *batch) {
  show_to_host(batch);
  VkResult status = bp_vk.vkEndCommandBuffer(batch->commands);
  if (status == VK_SUCCESS)
    status = submit(stream, batch, stream->timeline->value + 1);
  if (status != VK_SUCCESS)
    return status;
  batch->value = ++stream->timeline->value;
  stream->in_flight++;
  return VK_SUCCESS;
}

void bp_vulkan_flush(BpVulkanStream *stream) {
  VkResult status = VK_SUCCESS;
  BpVulkanBatch *batch = current_batch(stream);
  if (!batch || !batch->is_open) {
    if (stream->num_waits == 0)
      return;
    batch = open_batch(stream, &status);
  }
  if (batch)
    status = end_and_submit(stream, batch);
  give_waits(stream, status == VK_SUCCESS ? batch : NULL);
  if (status == VK_SUCCESS)
    return;
  bp_vulkan_note(stream->device, status);
  stream->failure = status;
  if (batch)
    finish_batch(batch, 0);
}

int32_t bp_vulkan_wait(BpVulkanStream *stream) {
  pthread_mutex_lock(&stream->lock);
  bp_vulkan_flush(stream);
  uint64_t value = stream->timeline->value;
  int is_idle = stream->in_flight == 0;
  pthread_mutex_unlock(&stream->lock);
  VkResult status = is_idle ? VK_SUCCESS : wait_for(stream, value);
  pthread_mutex_lock(&stream->lock);
  if (status == VK_SUCCESS)
    retire(stream, value);
  if (stream->failure != VK_SUCCESS)
    status = stream->failure;
  stream->failure = VK_SUCCESS;
  pthread_mutex_unlock(&stream->lock);
  if (status == VK_SUCCESS && bp_vulkan_is_lost(stream->device))
    status = VK_ERROR_DEVICE_LOST;
  return status == VK_SUCCESS ? 0 : bp_vulkan_raise(status, "work that was queued before");
}

/* ---- The device's table ------------------------------------------------------------------ */

int32_t bp_vulkan_create_stream(void *context, int32_t device_id, void **stream) {
  (void)context;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  *stream = device ? bp_vulkan_stream_open(device) : NULL;
  return *stream ? 0 : -1;
}

int32_t bp_vulkan_free_stream(void *context, int32_t device_id, void *handle) {
  (void)context;
  (void)device_id;
  BpVulkanStream *stream = handle;
  if (!stream)
    return 0;
  BpVulkanDevice *device = stream->device;
  int32_t rc = bp_vulkan_wait(stream);
  pthread_mutex_lock(&device->streams_lock);
  BpVulkanStream **place = &device->streams;
  while (*place != stream)
    place = &(*place)->next;
  *place = stream->next;
  pthread_mutex_unlock(&device->streams_lock);
  if (!bp_vulkan_is_lost(device)) /* work of a lost device may still use the stream's objects */
    destroy_stream(stream);
  return rc;
}

/* Adds a wait to a stream, with its lock held, after a flush. If the stream has too many waits, the
 * earlier ones are submitted first. */
static void add_wait(BpVulkanStream *to, BpVulkanTimeline *timeline, uint64_t value) {
  for (int32_t i = 0; i < to->num_waits; i++) {
    if (to->waits[i] != timeline)
      continue;
    if (to->wait_values[i] < value)
      to->wait_values[i] = value;
    return;
  }
  while (to->num_waits == BP_VULKAN_WAITS)
    bp_vulkan_flush(to);
  bp_vulkan_retain(&timeline->shared);
  to->waits[to->num_waits] = timeline;
  to->wait_values[to->num_waits++] = value;
}

void bp_vulkan_stream_wait(BpVulkanStream *stream, BpVulkanTimeline *timeline, uint64_t value) {
  if (timeline == stream->timeline) /* a stream is in order: it need not wait for itself */
    return;
  pthread_mutex_lock(&stream->lock);
  const BpVulkanBatch *batch = current_batch(stream);
  if (batch && batch->is_open) /* work queued earlier must not wait */
    bp_vulkan_flush(stream);
  add_wait(stream, timeline, value);
  pthread_mutex_unlock(&stream->lock);
}

int32_t bp_vulkan_sync_from_to(void *context, int32_t device_id, void *from_handle,
                               void *to_handle) {
  (void)context;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  if (!device)
    return -1;
  BpVulkanStream *from = bp_vulkan_stream(device, from_handle);
  BpVulkanStream *to = bp_vulkan_stream(device, to_handle);
  if (from == to)
    return 0;
  pthread_mutex_lock(&from->lock);
  bp_vulkan_flush(from);
  uint64_t value = from->timeline->value;
  pthread_mutex_unlock(&from->lock);
  bp_vulkan_stream_wait(to, from->timeline, value);
  return 0;
}

int32_t bp_vulkan_stream_sync(void *context, int32_t device_id, void *handle) {
  (void)context;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  if (!device)
    return -1;
  int32_t rc = bp_vulkan_wait(bp_vulkan_stream(device, handle));
  bp_vulkan_save_cache(device);
  return rc;
}
