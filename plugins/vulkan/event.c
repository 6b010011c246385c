/* SPDX-License-Identifier: Apache-2.0 */
/* Events. A record is the value that the stream's timeline has when the stream reaches it; a held
 * event is a timeline of its own, which the host sets. */
#include "../common/event.h"
#include "vulkan.h"

/* A record is a value that a timeline reaches. */
static void retain(void *timeline) {
  bp_vulkan_retain(&((BpVulkanTimeline *)timeline)->shared);
}

static void release(void *timeline) {
  bp_vulkan_release(&((BpVulkanTimeline *)timeline)->shared);
}

static const BpRecordKind records = {retain, release};

static int32_t create(void *context, int32_t device_id, BpDeviceEvent **made) {
  (void)context;
  return bp_latest_create(&bp_vulkan_host, &records, bp_vulkan_device(device_id), made);
}

/* Records an event. A failure to submit belongs to the stream; the event then stands for the work
 * submitted before. */
static int32_t record(void *context, BpDeviceEvent *event, void *handle) {
  (void)context;
  BpVulkanStream *stream = bp_vulkan_stream(event->device, handle);
  pthread_mutex_lock(&stream->lock);
  bp_vulkan_flush(stream);
  BpRecord point = {stream->timeline, stream->timeline->value, stream->failure != VK_SUCCESS};
  retain(point.object);
  pthread_mutex_unlock(&stream->lock);
  bp_latest_replace(event, point);
  return 0;
}

static int32_t wait_for(void *context, BpDeviceEvent *event, void *handle) {
  (void)context;
  BpRecord point = bp_latest_use(event);
  if (point.object)
    bp_vulkan_stream_wait(bp_vulkan_stream(event->device, handle), point.object, point.value);
  bp_latest_release(event, point);
  return 0;
}

/* Asks for a point of a timeline. If the timeline's stream still exists, bytes for the host are
 * delivered, too. */
static int32_t reach(BpVulkanDevice *device, BpRecord point, uint64_t timeout_ns, int32_t *state) {
  VkResult status = VK_SUCCESS;
  const BpVulkanTimeline *timeline = point.object;
  if (timeline) {
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &timeline->handle,
                                .pValues = &point.value};
    status = bp_vk.vkWaitSemaphores(device->handle, &wait, timeout_ns);
  }
  bp_vulkan_note(device, status);
  *state = status != VK_SUCCESS ? BP_EVENT_PENDING
           : point.is_failed    ? BP_EVENT_FAILED
                                : BP_EVENT_COMPLETE;
  if (status == VK_SUCCESS && timeline)
    bp_vulkan_collect(device);
  return status == VK_SUCCESS || status == VK_TIMEOUT
             ? 0
             : bp_vulkan_raise(status, "waiting for an event");
}

static int32_t synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                           int32_t *state) {
  (void)context;
  BpRecord point = bp_latest_use(event);
  int32_t rc = reach(event->device, point, timeout_ns, state);
  bp_latest_release(event, point);
  return rc;
}

static int32_t query(void *context, BpDeviceEvent *event, int32_t *state) {
  return synchronize(context, event, 0, state);
}

static int32_t hold(void *context, BpDeviceEvent *event) {
  (void)context;
  BpVulkanDevice *device = event->device;
  BpVulkanTimeline *timeline = NULL;
  VkResult status = bp_vulkan_timeline_open(device, &timeline);
  if (status != VK_SUCCESS) {
    bp_vulkan_note(device, status);
    return bp_vulkan_raise(status, "vkCreateSemaphore");
  }
  bp_latest_replace(event, (BpRecord){timeline, ++timeline->value, 0});
  return 0;
}

static int32_t signal_event(void *context, BpDeviceEvent *event) {
  (void)context;
  BpVulkanDevice *device = event->device;
  BpRecord point = bp_latest_use(event);
  const BpVulkanTimeline *timeline = point.object;
  VkSemaphoreSignalInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                  .semaphore = timeline->handle,
                                  .value = point.value};
  VkResult status = bp_vk.vkSignalSemaphore(device->handle, &signal);
  bp_latest_release(event, point);
  bp_vulkan_note(device, status);
  return status == VK_SUCCESS ? 0 : bp_vulkan_raise(status, "vkSignalSemaphore");
}

const BpEventsApi bp_vulkan_events = {.struct_size = sizeof(BpEventsApi),
                                      .create = create,
                                      .free = bp_latest_free,
                                      .record = record,
                                      .wait = wait_for,
                                      .query = query,
                                      .synchronize = synchronize,
                                      .hold = hold,
                                      .signal = signal_event};
