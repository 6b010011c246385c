/* SPDX-License-Identifier: Apache-2.0 */
/* Events. A record is the value that the stream's timeline has when it gets there; a held event is
 * a timeline of its own, which the host sets. */
#include "vulkan.h"

#include <stdlib.h>

/* A value that a timeline comes to. */
typedef struct Point {
  BpVulkanTimeline *timeline; /* NULL: reached */
  uint64_t value;
  int is_failed; /* the stream had failed before */
} Point;

struct BpDeviceEvent {
  BpVulkanDevice *device;
  pthread_mutex_t lock;
  Point latest; /* guarded by lock */
};

static void unuse(Point point) {
  if (point.timeline)
    bp_vulkan_release(&point.timeline->shared);
}

/* The latest, with a reference. */
static Point use(BpDeviceEvent *event) {
  pthread_mutex_lock(&event->lock);
  Point latest = event->latest;
  if (latest.timeline)
    bp_vulkan_retain(&latest.timeline->shared);
  pthread_mutex_unlock(&event->lock);
  return latest;
}

/* Takes the reference. */
static void replace(BpDeviceEvent *event, Point latest) {
  pthread_mutex_lock(&event->lock);
  Point before = event->latest;
  event->latest = latest;
  pthread_mutex_unlock(&event->lock);
  unuse(before);
}

static int32_t create(void *context, int32_t device_id, BpDeviceEvent **made) {
  (void)context;
  BpVulkanDevice *device = bp_vulkan_device(device_id);
  if (!device)
    return -1;
  BpDeviceEvent *event = calloc(1, sizeof(*event));
  if (!event)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "vulkan: no memory for an event");
  event->device = device;
  pthread_mutex_init(&event->lock, NULL);
  *made = event;
  return 0;
}

static int32_t free_event(void *context, BpDeviceEvent *event) {
  (void)context;
  unuse(event->latest);
  pthread_mutex_destroy(&event->lock);
  free(event);
  return 0;
}

/* A failure to submit is the stream's; the event then stands for what was submitted before. */
static int32_t record(void *context, BpDeviceEvent *event, void *handle) {
  (void)context;
  BpVulkanStream *stream = bp_vulkan_stream(event->device, handle);
  pthread_mutex_lock(&stream->lock);
  bp_vulkan_flush(stream);
  Point point = {stream->timeline, stream->timeline->value, stream->failure != VK_SUCCESS};
  bp_vulkan_retain(&point.timeline->shared);
  pthread_mutex_unlock(&stream->lock);
  replace(event, point);
  return 0;
}

static int32_t wait_for(void *context, BpDeviceEvent *event, void *handle) {
  (void)context;
  Point point = use(event);
  if (point.timeline)
    bp_vulkan_stream_wait(bp_vulkan_stream(event->device, handle), point.timeline, point.value);
  unuse(point);
  return 0;
}

/* Of a stream that is there still, bytes for the host are delivered when it is asked. */
static int32_t reach(BpDeviceEvent *event, Point point, uint64_t timeout_ns, int32_t *state) {
  VkResult status = VK_SUCCESS;
  if (point.timeline) {
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &point.timeline->handle,
                                .pValues = &point.value};
    status = bp_vk.vkWaitSemaphores(event->device->handle, &wait, timeout_ns);
  }
  bp_vulkan_note(event->device, status);
  *state = status != VK_SUCCESS ? BP_EVENT_PENDING
           : point.is_failed    ? BP_EVENT_FAILED
                                : BP_EVENT_COMPLETE;
  if (status == VK_SUCCESS && point.timeline)
    bp_vulkan_collect(event->device);
  return status == VK_SUCCESS || status == VK_TIMEOUT
             ? 0
             : bp_vulkan_raise(status, "waiting for an event");
}

static int32_t synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                           int32_t *state) {
  (void)context;
  Point point = use(event);
  int32_t rc = reach(event, point, timeout_ns, state);
  unuse(point);
  return rc;
}

static int32_t query(void *context, BpDeviceEvent *event, int32_t *state) {
  return synchronize(context, event, 0, state);
}

static int32_t hold(void *context, BpDeviceEvent *event) {
  (void)context;
  BpVulkanTimeline *timeline = NULL;
  VkResult status = bp_vulkan_timeline_open(event->device, &timeline);
  if (status != VK_SUCCESS) {
    bp_vulkan_note(event->device, status);
    return bp_vulkan_raise(status, "vkCreateSemaphore");
  }
  replace(event, (Point){timeline, ++timeline->value, 0});
  return 0;
}

static int32_t signal_event(void *context, BpDeviceEvent *event) {
  (void)context;
  Point point = use(event);
  VkSemaphoreSignalInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                  .semaphore = point.timeline->handle,
                                  .value = point.value};
  VkResult status = bp_vk.vkSignalSemaphore(event->device->handle, &signal);
  unuse(point);
  bp_vulkan_note(event->device, status);
  return status == VK_SUCCESS ? 0 : bp_vulkan_raise(status, "vkSignalSemaphore");
}

const BpEventsApi bp_vulkan_events = {.struct_size = sizeof(BpEventsApi),
                                      .create = create,
                                      .free = free_event,
                                      .record = record,
                                      .wait = wait_for,
                                      .query = query,
                                      .synchronize = synchronize,
                                      .hold = hold,
                                      .signal = signal_event};
