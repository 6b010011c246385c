/* SPDX-License-Identifier: Apache-2.0 */
/* Events and timers. */

#include "worker.h"

/* The event or timer that the next arguments name. */
typedef struct Target {
  const Kind *kind;
  void *handle;
  void *context;
} Target;

static int get_target(Job *job, Target *target) {
  target->kind = worker_get_kind(job);
  target->handle = worker_get_pointer(job);
  target->context = target->kind ? target->kind->api->context : NULL;
  return target->kind ? 0 : -1;
}

static BpDeviceEvent *event_of(const Target *target) {
  return target->handle;
}

int worker_event_create(Job *job) {
  int32_t device_id;
  BpDeviceEvent *event = NULL;
  const Kind *kind = worker_get_place(job, &device_id);
  if (!kind || kind->events->create(kind->api->context, device_id, &event))
    return -1;
  worker_put_pointer(job, event);
  return 0;
}

int worker_event_free(Job *job) {
  Target target;
  return get_target(job, &target) ? -1
                                  : target.kind->events->free(target.context, event_of(&target));
}

int worker_event_record(Job *job) {
  Target target;
  if (get_target(job, &target))
    return -1;
  return target.kind->events->record(target.context, event_of(&target), worker_get_pointer(job));
}

int worker_event_wait(Job *job) {
  Target target;
  if (get_target(job, &target))
    return -1;
  return target.kind->events->wait(target.context, event_of(&target), worker_get_pointer(job));
}

int worker_event_query(Job *job) {
  Target target;
  int32_t state = BP_EVENT_COMPLETE;
  if (get_target(job, &target) ||
      target.kind->events->query(target.context, event_of(&target), &state))
    return -1;
  bp_wire_put(&job->out, (uint32_t)state);
  return 0;
}

int worker_event_sync(Job *job) {
  Target target;
  int32_t state = BP_EVENT_COMPLETE;
  if (get_target(job, &target) ||
      target.kind->events->synchronize(target.context, event_of(&target), bp_wire_get(&job->in),
                                       &state))
    return -1;
  bp_wire_put(&job->out, (uint32_t)state);
  return 0;
}

int worker_event_hold(Job *job) {
  Target target;
  return get_target(job, &target) ? -1
                                  : target.kind->events->hold(target.context, event_of(&target));
}

int worker_event_signal(Job *job) {
  Target target;
  return get_target(job, &target) ? -1
                                  : target.kind->events->signal(target.context, event_of(&target));
}

/* ---- Timers ------------------------------------------------------------------------------ */

int worker_timer_start(Job *job) {
  int32_t device_id;
  void *timer = NULL;
  const Kind *kind = worker_get_place(job, &device_id);
  void *stream = worker_get_pointer(job);
  if (!kind || kind->timers->start(kind->api->context, device_id, stream, &timer))
    return -1;
  worker_put_pointer(job, timer);
  return 0;
}

int worker_timer_stop(Job *job) {
  Target target;
  if (get_target(job, &target))
    return -1;
  return target.kind->timers->stop(target.context, target.handle, worker_get_pointer(job));
}

int worker_timer_read(Job *job) {
  Target target;
  int64_t nanoseconds = 0;
  if (get_target(job, &target) ||
      target.kind->timers->read(target.context, target.handle, &nanoseconds))
    return -1;
  bp_wire_put(&job->out, (uint64_t)nanoseconds);
  return 0;
}

int worker_timer_free(Job *job) {
  Target target;
  return get_target(job, &target) ? -1 : target.kind->timers->free(target.context, target.handle);
}
