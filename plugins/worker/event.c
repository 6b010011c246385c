/* SPDX-License-Identifier: Apache-2.0 */
/* Events and timers of devices in a worker. The host's handle contains the session, since the slots
 * receive no device. */
#include "worker.h"

#include <stdlib.h>

/* An event or a timer. */
typedef struct Remote {
  BpSession *session;
  uint64_t handle;
} Remote;

static Remote *create_remote(BpSession *session) {
  Remote *remote = bp_plugin_calloc(&bp_worker_host, sizeof *remote);
  if (remote)
    remote->session = session;
  return remote;
}

static int32_t free_remote(const BpRemoteKind *kind, Remote *remote, uint32_t operation) {
  int32_t rc = 0;
  if (!bp_session_check(remote->session))
    rc = BP_TELL(remote->session, operation, kind->number, remote->handle);
  free(remote);
  return rc;
}

static int32_t call_with(void *context, const Remote *remote, uint32_t operation, void *stream) {
  const BpRemoteKind *kind = context;
  return BP_TELL(remote->session, operation, kind->number, remote->handle, (uintptr_t)stream);
}

/* ---- Events ------------------------------------------------------------------------------ */

static Remote *event_of(BpDeviceEvent *event) {
  return (Remote *)(void *)event;
}

static int32_t event_create(void *context, int32_t device_id, BpDeviceEvent **event) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  Remote *remote = session ? create_remote(session) : NULL;
  if (!remote || BP_ASK(session, BP_WORKER_EVENT_CREATE, &remote->handle, kind->number, index)) {
    free(remote);
    return -1;
  }
  *event = (BpDeviceEvent *)(void *)remote;
  return 0;
}

static int32_t event_free(void *context, BpDeviceEvent *event) {
  return free_remote(context, event_of(event), BP_WORKER_EVENT_FREE);
}

static int32_t event_record(void *context, BpDeviceEvent *event, void *stream) {
  return call_with(context, event_of(event), BP_WORKER_EVENT_RECORD, stream);
}

static int32_t event_wait(void *context, BpDeviceEvent *event, void *stream) {
  return call_with(context, event_of(event), BP_WORKER_EVENT_WAIT, stream);
}

static int32_t ask_state(void *context, const Remote *remote, uint32_t operation, uint64_t timeout,
                         int32_t *state) {
  const BpRemoteKind *kind = context;
  uint64_t answer;
  if (BP_ASK(remote->session, operation, &answer, kind->number, remote->handle, timeout))
    return -1;
  *state = (int32_t)answer;
  return answer <= BP_EVENT_FAILED
             ? 0
             : bp_session_give_up(remote->session, "gave a state that no event has");
}

static int32_t event_query(void *context, BpDeviceEvent *event, int32_t *state) {
  return ask_state(context, event_of(event), BP_WORKER_EVENT_QUERY, 0, state);
}

/* Waits in slices: an event may take longer than a call to the worker may. */
static int32_t event_synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                                 int32_t *state) {
  const Remote *remote = event_of(event);
  uint64_t most = bp_session_slice(remote->session), left = timeout_ns;
  for (;;) {
    uint64_t slice = left < most ? left : most;
    if (ask_state(context, remote, BP_WORKER_EVENT_SYNC, slice, state))
      return -1;
    if (*state != BP_EVENT_PENDING || slice == left)
      return 0;
    if (timeout_ns != BP_WAIT_FOREVER)
      left -= slice;
  }
}

static int32_t event_hold(void *context, BpDeviceEvent *event) {
  return call_with(context, event_of(event), BP_WORKER_EVENT_HOLD, NULL);
}

static int32_t event_signal(void *context, BpDeviceEvent *event) {
  return call_with(context, event_of(event), BP_WORKER_EVENT_SIGNAL, NULL);
}

/* There is no notify: the host waits in a thread of its own. */
static const BpEventsApi events = {
    .struct_size = sizeof(BpEventsApi),
    .create = event_create,
    .free = event_free,
    .record = event_record,
    .wait = event_wait,
    .query = event_query,
    .synchronize = event_synchronize,
    .hold = event_hold,
    .signal = event_signal,
};

/* ---- Timers ------------------------------------------------------------------------------ */

static int32_t timer_start(void *context, int32_t device_id, void *stream, void **timer) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  Remote *remote = session ? create_remote(session) : NULL;
  if (!remote || BP_ASK(session, BP_WORKER_TIMER_START, &remote->handle, kind->number, index,
                        (uintptr_t)stream)) {
    free(remote);
    return -1;
  }
  *timer = remote;
  return 0;
}

static int32_t timer_stop(void *context, void *timer, void *stream) {
  return call_with(context, timer, BP_WORKER_TIMER_STOP, stream);
}

static int32_t timer_read(void *context, void *timer, int64_t *nanoseconds) {
  const BpRemoteKind *kind = context;
  const Remote *remote = timer;
  uint64_t answer;
  if (BP_ASK(remote->session, BP_WORKER_TIMER_READ, &answer, kind->number, remote->handle))
    return -1;
  *nanoseconds = (int64_t)answer;
  return 0;
}

static int32_t timer_free(void *context, void *timer) {
  return free_remote(context, timer, BP_WORKER_TIMER_FREE);
}

static const BpTimerApi timers = {
    .struct_size = sizeof(BpTimerApi),
    .start = timer_start,
    .stop = timer_stop,
    .read = timer_read,
    .free = timer_free,
};

/* ---- The tables -------------------------------------------------------------------------- */

void bp_remote_fill_extensions(BpRemoteKind *kind) {
  kind->events = events;
  kind->timers = timers;
  if (!(kind->has & BP_WORKER_HAS_HOLD))
    kind->events.hold = NULL, kind->events.signal = NULL;
}

const void *bp_remote_get_extension(void *context, const char *name, uint32_t version) {
  const BpRemoteKind *kind = context;
  if ((kind->has & BP_WORKER_HAS_EVENTS) && !strcmp(name, BP_EXTENSION_EVENTS) &&
      version == BP_EXTENSION_EVENTS_VERSION)
    return &kind->events;
  if ((kind->has & BP_WORKER_HAS_TIMERS) && !strcmp(name, BP_EXTENSION_TIMER) &&
      version == BP_EXTENSION_TIMER_VERSION)
    return &kind->timers;
  return NULL;
}
