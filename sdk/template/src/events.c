/* SPDX-License-Identifier: Apache-2.0 */
/* Events. Each record of an event has a mark of its own. Work in a stream completes the mark, and
 * waits refer to the mark: recording the event again, or freeing it, does not affect them. */
#include "simdev.h"

#include <stdlib.h>
#include <time.h>

/* A callback for the completion of a mark. */
typedef struct Listener {
  struct Listener *next;
  void (*done)(void *user);
  void *user;
} Listener;

typedef struct Mark {
  int32_t uses;  /* references: the event, the work that completes the mark, waits */
  int32_t state; /* BP_EVENT_* */
  int32_t has_run;
  Listener *listeners;
} Mark;

struct BpDeviceEvent {
  int32_t device_id;
  Mark *mark; /* mark of the latest record; NULL: never recorded */
};

/* Guards all events and marks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* ---- Marks ------------------------------------------------------------------------------- */

static void unuse(Mark *mark) {
  pthread_mutex_lock(&lock);
  int is_last = mark && --mark->uses == 0;
  pthread_mutex_unlock(&lock);
  if (is_last)
    free(mark);
}

static Mark *use(const BpDeviceEvent *event) {
  pthread_mutex_lock(&lock);
  Mark *mark = event->mark;
  if (mark)
    mark->uses++;
  pthread_mutex_unlock(&lock);
  return mark;
}

/* Listeners are called without the lock: they may free events. */
static void complete(Mark *mark, int32_t state) {
  pthread_mutex_lock(&lock);
  Listener *listeners = mark->listeners;
  mark->listeners = NULL;
  mark->state = state;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  for (Listener *each = listeners, *next; each; each = next) {
    next = each->next;
    each->done(each->user);
    free(each);
  }
  unuse(mark);
}

/* Gives the event a new pending mark, with a reference for one more user; NULL with an error. */
static Mark *renew(BpDeviceEvent *event) {
  Mark *mark = bp_plugin_calloc(&simdev_host, sizeof *mark);
  if (!mark)
    return NULL;
  mark->uses = 2;
  pthread_mutex_lock(&lock);
  Mark *before = event->mark;
  event->mark = mark;
  pthread_mutex_unlock(&lock);
  unuse(before);
  return mark;
}

/* ---- Work of streams --------------------------------------------------------------------- */

static int32_t run_record(void *mark) {
  ((Mark *)mark)->has_run = 1;
  return 0;
}

/* After a failure, later work is not run, but it is still destroyed. */
static void end_record(void *data) {
  Mark *mark = data;
  complete(mark, mark->has_run ? BP_EVENT_COMPLETE : BP_EVENT_FAILED);
}

static int32_t wait_for_mark(void *data) {
  const Mark *mark = data;
  pthread_mutex_lock(&lock);
  while (!mark->state)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return 0;
}

static void end_wait(void *mark) {
  unuse(mark);
}

/* ---- The table --------------------------------------------------------------------------- */

static int32_t event_create(void *context, int32_t device_id, BpDeviceEvent **event) {
  (void)context;
  *event = bp_plugin_calloc(&simdev_host, sizeof **event);
  if (*event)
    (*event)->device_id = device_id;
  return *event ? 0 : -1;
}

static int32_t event_free(void *context, BpDeviceEvent *event) {
  (void)context;
  unuse(event->mark);
  free(event);
  return 0;
}

static int32_t event_record(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  Mark *mark = renew(event);
  if (!mark)
    return -1;
  return simdev_submit(event->device_id, stream, (SimdevWork){run_record, end_record, mark, 1});
}

static int32_t event_wait(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  Mark *mark = use(event);
  if (!mark)
    return 0;
  return simdev_submit(event->device_id, stream, (SimdevWork){wait_for_mark, end_wait, mark, 1});
}

static int32_t event_query(void *context, BpDeviceEvent *event, int32_t *state) {
  (void)context;
  pthread_mutex_lock(&lock);
  *state = event->mark ? event->mark->state : BP_EVENT_COMPLETE;
  pthread_mutex_unlock(&lock);
  return 0;
}

/* Waits for a mark, with the lock held. */
static int32_t wait_until(const Mark *mark, uint64_t timeout_ns) {
  struct timespec end;
  int passed = 0;
  clock_gettime(CLOCK_MONOTONIC, &end);
  uint64_t nanoseconds = (uint64_t)end.tv_nsec + timeout_ns % 1000000000;
  end.tv_sec += (time_t)(timeout_ns / 1000000000 + nanoseconds / 1000000000);
  end.tv_nsec = (long)(nanoseconds % 1000000000);
  while (!mark->state && !passed)
    passed = timeout_ns == BP_WAIT_FOREVER
                 ? pthread_cond_wait(&changed, &lock)
                 : pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &end);
  return mark->state;
}

static int32_t event_synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                                 int32_t *state) {
  (void)context;
  Mark *mark = use(event);
  *state = BP_EVENT_COMPLETE;
  if (!mark)
    return 0;
  pthread_mutex_lock(&lock);
  *state = wait_until(mark, timeout_ns);
  pthread_mutex_unlock(&lock);
  unuse(mark);
  return 0;
}

static int32_t event_notify(void *context, BpDeviceEvent *event, void (*done)(void *user),
                            void *user) {
  (void)context;
  Listener *listener = bp_plugin_calloc(&simdev_host, sizeof *listener);
  if (!listener)
    return -1;
  pthread_mutex_lock(&lock);
  Mark *mark = event->mark;
  int is_pending = mark && !mark->state;
  if (is_pending) {
    *listener = (Listener){mark->listeners, done, user};
    mark->listeners = listener;
  }
  pthread_mutex_unlock(&lock);
  if (is_pending)
    return 0;
  free(listener);
  done(user);
  return 0;
}

static int32_t event_hold(void *context, BpDeviceEvent *event) {
  (void)context;
  return renew(event) ? 0 : -1;
}

static int32_t event_signal(void *context, BpDeviceEvent *event) {
  (void)context;
  complete(event->mark, BP_EVENT_COMPLETE);
  return 0;
}

const BpEventsApi simdev_events = {.struct_size = sizeof(BpEventsApi),
                                   .create = event_create,
                                   .free = event_free,
                                   .record = event_record,
                                   .wait = event_wait,
                                   .query = event_query,
                                   .synchronize = event_synchronize,
                                   .notify = event_notify,
                                   .hold = event_hold,
                                   .signal = event_signal};
