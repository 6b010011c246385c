/* SPDX-License-Identifier: Apache-2.0 */
/* Events, on devices with the extension "events" and on those without.
 *
 * An event has a record: a plugin's event or, for a device without the extension, the stream that
 * it was recorded on. A record with other references, such as a wait between two devices in
 * progress, is never recorded again: the event then gets a new record. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <backplane/device_extensions.h>
#include <backplane/error.h>

#include "core/device/device.h"
#include "core/system/lock.h"
#include "parts/exchange/event.h"
#include "parts/exchange/exchange.h"

typedef struct Record {
  atomic_int references;
  BpDevice device;
  const BpDeviceApi *api;
  const BpEventsApi *events; /* NULL: no extension, and the members below are used */
  BpDeviceEvent *handle;
  void *stream;
  uint64_t number;    /* number of the stream: bp__stream_is_alive */
  atomic_int is_done; /* the stream was synchronised after the record */
} Record;

struct BpEvent {
  BpDevice device;
  const BpDeviceApi *api; /* NULL: the host, whose work has ended when a call returns */
  const BpEventsApi *events;
  Record *record; /* the latest record, or NULL; guarded by BP__LOCK_STATE */
};

/* ---- Records ----------------------------------------------------------------------------- */

static Record *create_record(BpDevice device, const BpDeviceApi *api, const BpEventsApi *events) {
  Record *record = calloc(1, sizeof *record);
  if (!record) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an event");
    return NULL;
  }
  atomic_init(&record->references, 1);
  record->device = device;
  record->api = api;
  record->events = events;
  if (events && events->create(api->context, device.device_id, &record->handle)) {
    bp__device_failed(device, "making an event");
    free(record);
    return NULL;
  }
  return record;
}

/* Frees a record and keeps the thread's error. In the child of a fork the plugin's event is left to
 * the parent. */
static void release_record(Record *record) {
  if (!record || atomic_fetch_sub(&record->references, 1) > 1)
    return;
  BpError *pending = bp_error_take();
  if (record->events && !bp__device_check_fork())
    record->events->free(record->api->context, record->handle);
  bp_error_clear();
  if (pending)
    bp_error_put(pending);
  free(record);
}

/* Returns the event's record with a reference; NULL: the event is complete. */
static Record *use_record(const BpEvent *event) {
  bp__lock(BP__LOCK_STATE);
  Record *record = event->record;
  if (record)
    atomic_fetch_add(&record->references, 1);
  bp__unlock(BP__LOCK_STATE);
  return record;
}

/* Returns the record for the next recording, with a reference. The event keeps its record until the
 * new one is in place, so that another thread finds the event pending, not complete. An event
 * without the extension gets a new record, since its stream must not change while others read it.
 * NULL with an error. */
static Record *take_record(BpEvent *event) {
  Record *record = NULL;
  bp__lock(BP__LOCK_STATE);
  if (event->events && event->record && atomic_load(&event->record->references) == 1) {
    record = event->record;
    atomic_fetch_add(&record->references, 1);
  }
  bp__unlock(BP__LOCK_STATE);
  return record ? record : create_record(event->device, event->api, event->events);
}

/* Makes a record the latest one; takes over the reference. */
static void put_record(BpEvent *event, Record *record) {
  bp__lock(BP__LOCK_STATE);
  Record *before = event->record;
  event->record = record;
  bp__unlock(BP__LOCK_STATE);
  release_record(before);
}

/* ---- Without the extension --------------------------------------------------------------- */

/* Keeps the record's stream from being freed until leave(). Returns 0 if the work is over: a
 * recorded stream is synchronised before it is freed. */
static int enter(const Record *record) {
  return !atomic_load(&record->is_done) && bp__stream_use(record->number, 1);
}

static void leave(const Record *record) {
  bp__stream_use(record->number, -1);
}

static int synchronize_stream(Record *record) {
  if (!enter(record))
    return 0;
  int rc = record->api->stream_sync(record->api->context, record->device.device_id, record->stream);
  leave(record);
  atomic_store(&record->is_done, 1);
  return rc ? bp__device_failed(record->device, "a stream") : 0;
}

static int order_streams(const Record *record, void *stream) {
  const BpDeviceApi *api = record->api;
  if (record->stream == stream || !api->sync_stream_from_to || !enter(record))
    return 0;
  int rc = api->sync_stream_from_to(api->context, record->device.device_id, record->stream, stream);
  leave(record);
  return rc ? bp__device_failed(record->device, "ordering two streams") : 0;
}

/* ---- Any record -------------------------------------------------------------------------- */

static int query(Record *record, int32_t *state) {
  *state = BP_EVENT_COMPLETE;
  if (!record->events)
    return synchronize_stream(record);
  return record->events->query(record->api->context, record->handle, state)
             ? bp__device_failed(record->device, "asking for an event")
             : 0;
}

static int synchronize(Record *record, uint64_t timeout_ns, int32_t *state) {
  *state = BP_EVENT_COMPLETE;
  if (!record->events)
    return synchronize_stream(record);
  return record->events->synchronize(record->api->context, record->handle, timeout_ns, state)
             ? bp__device_failed(record->device, "waiting for an event")
             : 0;
}

/* ---- Between two devices ----------------------------------------------------------------- */

/* A wait for an event of another device: when `from` is complete the host signals `gate`, which the
 * stream waits for. */
typedef struct Crossing {
  Record *from, *gate;
} Crossing;

/* The failure of a device is raised when that device is synchronised, so passing an event on raises
 * no failure. */
static void cross(void *user) {
  Crossing *crossing = user;
  const Record *gate = crossing->gate;
  BpError *pending = bp_error_take();
  gate->events->signal(gate->api->context, gate->handle);
  bp_error_clear();
  if (pending)
    bp_error_put(pending);
  release_record(crossing->gate);
  release_record(crossing->from);
  free(crossing);
}

static void *wait_and_cross(void *user) {
  int32_t state;
  if (synchronize(((Crossing *)user)->from, BP_WAIT_FOREVER, &state))
    bp_error_clear();
  cross(user);
  return NULL;
}

/* Each wait has a thread of its own: waits that one thread handled in turn could wait for each
 * other. */
static int start_thread(Crossing *crossing) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  if (pthread_attr_init(&attributes))
    return -1;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int rc = pthread_create(&thread, &attributes, wait_and_cross, crossing);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return rc ? -1 : 0;
}

/* Starts the wait that signals `gate`: in the driver, else in a thread. If no thread can be
 * created, the calling thread waits. */
static void begin_crossing(Crossing *crossing) {
  const Record *from = crossing->from;
  if (BP_TABLE_HAS(from->events, notify)) {
    if (!from->events->notify(from->api->context, from->handle, cross, crossing))
      return;
    bp_error_clear();
  }
  if (start_thread(crossing))
    wait_and_cross(crossing);
}

/* Makes a held event of the waiting device. NULL with an error. */
static Record *create_gate(BpDevice device, const BpDeviceApi *api, const BpEventsApi *events) {
  Record *gate = create_record(device, api, events);
  if (!gate || !events->hold(api->context, gate->handle))
    return gate;
  bp__device_failed(device, "holding an event");
  release_record(gate);
  return NULL;
}

static int wait_at_gate(Record *from, Record *gate, void *stream) {
  const BpDeviceApi *api = gate->api;
  Crossing *crossing = malloc(sizeof *crossing);
  int rc = crossing ? 0 : bp_error_raise(BP_ERROR_MEMORY, "no memory for a wait between devices");
  if (!rc && gate->events->wait(api->context, gate->handle, stream))
    rc = bp__device_failed(gate->device, "waiting for an event");
  if (rc) {
    free(crossing);
    return rc;
  }
  atomic_fetch_add(&from->references, 1);
  atomic_fetch_add(&gate->references, 1);
  *crossing = (Crossing){from, gate};
  begin_crossing(crossing);
  return 0;
}

/* Returns the extension of a device kind, or NULL. -1 with an error: the table lacks a slot. */
static int find_events(const BpDeviceApi *api, const BpEventsApi **found) {
  const BpEventsApi *events = *found =
      api->get_extension
          ? api->get_extension(api->context, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION)
          : NULL;
  if (!events || (BP_TABLE_HAS(events, create) && BP_TABLE_HAS(events, free) &&
                  BP_TABLE_HAS(events, record) && BP_TABLE_HAS(events, wait) &&
                  BP_TABLE_HAS(events, query) && BP_TABLE_HAS(events, synchronize)))
    return 0;
  return bp_error_raise(BP_ERROR_PLUGIN,
                        "the extension \"events\" of %s lacks a slot that is not optional; this is "
                        "a defect of the plugin",
                        api->name);
}

int bp__event_table(BpDevice device, const BpEventsApi **events) {
  *events = NULL;
  if (bp__device_is_host(device))
    return 0;
  const BpDeviceApi *api = bp__device_get(device);
  return api ? find_events(api, events) : -1;
}

int bp__event_can_hold(const BpEventsApi *events) {
  return events && BP_TABLE_HAS(events, hold) && BP_TABLE_HAS(events, signal);
}

static int wait_for_other(Record *from, BpDevice device, void *stream) {
  int32_t state;
  const BpEventsApi *events = NULL;
  const BpDeviceApi *api = bp__device_is_host(device) ? NULL : bp__device_get(device);
  if ((!api && !bp__device_is_host(device)) || (api && find_events(api, &events)) ||
      query(from, &state))
    return -1;
  if (state != BP_EVENT_PENDING)
    return 0;
  if (!bp__event_can_hold(events))
    return synchronize(from, BP_WAIT_FOREVER, &state);
  Record *gate = create_gate(device, api, events);
  int rc = gate ? wait_at_gate(from, gate, stream) : -1;
  release_record(gate);
  return rc;
}

/* ---- The API ----------------------------------------------------------------------------- */

BpEvent *bp__event_create(BpDevice device) {
  if (bp__device_check_fork())
    return NULL;
  const BpDeviceApi *api = bp__device_is_host(device) ? NULL : bp__device_get(device);
  const BpEventsApi *events = NULL;
  if ((!api && !bp__device_is_host(device)) || (api && find_events(api, &events)))
    return NULL;
  BpEvent *event = calloc(1, sizeof *event);
  if (event)
    *event = (BpEvent){device, api, events, NULL};
  else
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an event");
  return event;
}

void bp__event_free(BpEvent *event) {
  if (!event)
    return;
  release_record(event->record);
  free(event);
}

int bp__event_record(BpEvent *event, void *stream) {
  if (bp__device_check_fork() || bp__stream_check(event->device, stream))
    return -1;
  if (!event->api)
    return 0;
  Record *record = take_record(event);
  if (!record)
    return -1;
  int rc = 0;
  if (!record->events) {
    record->stream = stream;
    rc = bp__stream_note_record(event->device, stream, &record->number);
  } else if (record->events->record(record->api->context, record->handle, stream)) {
    rc = bp__device_failed(event->device, "recording an event");
  }
  if (rc)
    release_record(record);
  else
    put_record(event, record);
  return rc;
}

int bp__event_wait(BpDevice device, void *stream, BpEvent *event) {
  if (bp__device_check_fork() || bp__stream_check(device, stream))
    return -1;
  Record *record = use_record(event);
  int rc = 0;
  if (!record)
    return 0;
  if (device.device_type != record->device.device_type ||
      device.device_id != record->device.device_id)
    rc = wait_for_other(record, device, stream);
  else if (!record->events)
    rc = order_streams(record, stream);
  else if (record->events->wait(record->api->context, record->handle, stream))
    rc = bp__device_failed(device, "waiting for an event");
  release_record(record);
  return rc;
}

int bp__event_query(BpEvent *event, int32_t *state) {
  if (bp__device_check_fork())
    return -1;
  *state = BP_EVENT_COMPLETE;
  Record *record = use_record(event);
  int rc = record ? query(record, state) : 0;
  release_record(record);
  return rc;
}

int bp__event_synchronize(BpEvent *event, uint64_t timeout_ns, int32_t *state) {
  if (bp__device_check_fork())
    return -1;
  *state = BP_EVENT_COMPLETE;
  Record *record = use_record(event);
  int rc = record ? synchronize(record, timeout_ns, state) : 0;
  release_record(record);
  return rc;
}
