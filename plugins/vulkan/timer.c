/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: two timestamps that the device writes. For a queue without timestamps, the host's clock
 * is read when the queue is idle. */
#include "vulkan.h"

#include <stdlib.h>
#include <time.h>

typedef struct Timer {
  BpVulkanShared shared;
  BpVulkanDevice *device;
  VkQueryPool queries;        /* the timestamps, or VK_NULL_HANDLE */
  int64_t start, stop;        /* readings of the host's clock */
  BpVulkanTimeline *timeline; /* timeline of the stream that stopped the timer, or NULL */
  uint64_t value;             /* the timeline's value once both timestamps are written */
} Timer;

static void destroy(BpVulkanShared *shared) {
  Timer *timer = (Timer *)shared;
  if (timer->queries)
    bp_vk.vkDestroyQueryPool(timer->device->handle, timer->queries, NULL);
  if (timer->timeline)
    bp_vulkan_release(&timer->timeline->shared);
  free(timer);
}

static int64_t host_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Writes timestamp `query` after all queued work. */
static int32_t write_timestamp(Timer *timer, BpVulkanStream *stream, uint32_t query) {
  BpVulkanBatch *batch = bp_vulkan_begin(stream, 0);
  if (!batch || bp_vulkan_use(batch, &timer->shared) != 0)
    return -1;
  bp_vk.vkCmdResetQueryPool(batch->commands, timer->queries, query, 1);
  bp_vk.vkCmdWriteTimestamp(batch->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timer->queries,
                            query);
  return 0;
}

static int32_t mark(Timer *timer, BpVulkanStream *stream, uint32_t query) {
  int32_t rc = timer->queries ? 0 : bp_vulkan_wait(stream);
  *(query ? &timer->stop : &timer->start) = host_clock();
  pthread_mutex_lock(&stream->lock);
  if (timer->queries)
    rc = write_timestamp(timer, stream, query);
  if (query == 1 && !timer->timeline) {
    bp_vulkan_flush(stream);
    bp_vulkan_retain(&stream->timeline->shared);
    timer->timeline = stream->timeline;
    timer->value = stream->timeline->value;
  }
  pthread_mutex_unlock(&stream->lock);
  return rc;
}

static int32_t timer_start(void *context, int32_t device_id, void *stream, void **handle) {
  (void)context;
  VkQueryPoolCreateInfo create = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = 2};
  VkResult status = VK_SUCCESS;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  Timer *timer = device ? calloc(1, sizeof(*timer)) : NULL;
  if (!timer)
    return device
               ? bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "vulkan: no memory for a timer")
               : -1;
  timer->shared = (BpVulkanShared){1, destroy};
  timer->device = device;
  if (device->info->timestamp_bits)
    status = bp_vk.vkCreateQueryPool(device->handle, &create, NULL, &timer->queries);
  int32_t rc = status == VK_SUCCESS ? mark(timer, bp_vulkan_stream(device, stream), 0)
                                    : bp_vulkan_raise(status, "vkCreateQueryPool");
  if (rc != 0) {
    bp_vulkan_release(&timer->shared);
    return -1;
  }
  *handle = timer;
  return 0;
}

static int32_t timer_stop(void *context, void *handle, void *stream) {
  (void)context;
  Timer *timer = handle;
  return mark(timer, bp_vulkan_stream(timer->device, stream), 1);
}

static VkResult read_queries(const Timer *timer, int64_t *nanoseconds) {
  uint64_t ticks[2] = {0, 0};
  const BpVulkanInfo *info = timer->device->info;
  uint32_t bits = info->timestamp_bits;
  uint64_t mask = bits >= 64 ? ~(uint64_t)0 : (UINT64_C(1) << bits) - 1;
  VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                              .semaphoreCount = 1,
                              .pSemaphores = &timer->timeline->handle,
                              .pValues = &timer->value};
  VkResult status = bp_vk.vkWaitSemaphores(timer->device->handle, &wait, UINT64_MAX);
  if (status == VK_SUCCESS)
    status = bp_vk.vkGetQueryPoolResults(timer->device->handle, timer->queries, 0, 2, sizeof(ticks),
                                         ticks, sizeof(ticks[0]), VK_QUERY_RESULT_64_BIT);
  double period = (double)info->properties.limits.timestampPeriod;
  *nanoseconds = (int64_t)((double)((ticks[1] - ticks[0]) & mask) * period);
  return status;
}

static int32_t timer_read(void *context, void *handle, int64_t *nanoseconds) {
  (void)context;
  Timer *timer = handle;
  int32_t rc = 0;
  *nanoseconds = timer->stop - timer->start;
  if (!timer->timeline) {
    rc = bp_plugin_raise(&bp_vulkan_host, BP_ERROR_VALUE, "vulkan: the timer was not stopped");
  } else if (timer->queries) {
    VkResult status = read_queries(timer, nanoseconds);
    rc = status == VK_SUCCESS ? 0 : bp_vulkan_raise(status, "reading a timer");
  }
  return rc;
}

static int32_t timer_free(void *context, void *handle) {
  (void)context;
  bp_vulkan_release(&((Timer *)handle)->shared);
  return 0;
}

const BpTimerApi bp_vulkan_timers = {.struct_size = sizeof(BpTimerApi),
                                     .start = timer_start,
                                     .stop = timer_stop,
                                     .read = timer_read,
                                     .free = timer_free};
