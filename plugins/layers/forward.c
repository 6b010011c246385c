/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of a wrapped table: each describes its call, asks the layer, and calls the next table.
 */
#include "layers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOT_NAME(number, name) name,
static const char *const names[] = {BP_LAYERS_SLOTS(SLOT_NAME)};

const char *bp_layers_slot_name(BpSlot slot) {
  return names[slot];
}

/* A device table and the layer around it; lives for ever. */
typedef struct Wrapped {
  const BpDeviceApi *next;
  const BpLayerHooks *hooks;
  void *state;
  BpDeviceApi api;
  _Atomic(const BpTimerApi *) timers; /* timers of the next table */
  _Atomic(const BpRecordingApi *) recordings;
  _Atomic(const BpEventsApi *) events;
  _Atomic(const BpExternalMemoryApi *) external;
  BpEventsApi wrapped_events; /* events table without slots that the next one lacks */
} Wrapped;

static int32_t before(const Wrapped *wrapped, BpCall *call) {
  return wrapped->hooks->before(wrapped->state, call);
}

static int32_t after(const Wrapped *wrapped, BpCall *call, int32_t rc) {
  return wrapped->hooks->after ? wrapped->hooks->after(wrapped->state, call, rc) : rc;
}

/* Whether the layer failed a call that succeeded, so that the object made by the call must be
 * undone. */
static int is_undone(int32_t rc, int32_t result) {
  return rc == 0 && result != 0;
}

/* Forwards a call of a slot that creates no object. */
#define FORWARD(call, expression)                                                                  \
  do {                                                                                             \
    const Wrapped *wrapped = context;                                                              \
    const BpDeviceApi *next = wrapped->next;                                                       \
    if (before(wrapped, &(call)))                                                                  \
      return -1;                                                                                   \
    return after(wrapped, &(call), expression);                                                    \
  } while (0)

/* Undoes a call, keeping the thread's error. */
#define UNDO(expression)                                                                           \
  do {                                                                                             \
    BpError *error = bp_layers_host.error->take();                                                 \
    if (expression)                                                                                \
      bp_layers_host.object->release(bp_layers_host.error->take());                                \
    bp_layers_host.error->put(error);                                                              \
  } while (0)

/* ---- Devices ----------------------------------------------------------------------------- */

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  const Wrapped *wrapped = context;
  BpCall call = {.slot = SLOT_GET_DEVICE_COUNT, .device_id = -1};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = wrapped->next->get_device_count(wrapped->next->context, count, why);
  call.count = rc ? 0 : *count;
  return after(wrapped, &call, rc);
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  BpCall call = {.slot = SLOT_GET_ATTR, .device_id = device_id};
  FORWARD(call, next->get_attr(next->context, device_id, attr, result));
}

static int32_t set_device(void *context, int32_t device_id) {
  BpCall call = {.slot = SLOT_SET_DEVICE, .device_id = device_id};
  FORWARD(call, next->set_device(next->context, device_id));
}

static int32_t visit_properties(void *context, int32_t device_id,
                                int32_t (*visit)(void *visitor, const char *name,
                                                 const BpValue *value),
                                void *visitor) {
  BpCall call = {.slot = SLOT_VISIT_PROPERTIES, .device_id = device_id};
  FORWARD(call, next->visit_properties(next->context, device_id, visit, visitor));
}

/* ---- Memory ------------------------------------------------------------------------------ */

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  const Wrapped *wrapped = context;
  const BpDeviceApi *next = wrapped->next;
  BpCall call = {.slot = SLOT_ALLOC_DATA_SPACE, .device_id = device_id, .allocation = allocation};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = next->alloc_data_space(next->context, device_id, allocation, handle);
  call.handle = rc ? NULL : *handle;
  int32_t result = after(wrapped, &call, rc);
  if (is_undone(rc, result) && !call.is_kept)
    UNDO(next->free_data_space(next->context, device_id, *handle));
  return result;
}

static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  BpCall call = {.slot = SLOT_FREE_DATA_SPACE, .device_id = device_id, .handle = handle};
  FORWARD(call, next->free_data_space(next->context, device_id, handle));
}

static int32_t alloc_workspace(void *context, int32_t device_id, uint64_t size,
                               BpDataType dtype_hint, void **handle) {
  const Wrapped *wrapped = context;
  const BpDeviceApi *next = wrapped->next;
  BpCall call = {.slot = SLOT_ALLOC_WORKSPACE, .device_id = device_id, .size = size};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = next->alloc_workspace(next->context, device_id, size, dtype_hint, handle);
  call.handle = rc ? NULL : *handle;
  int32_t result = after(wrapped, &call, rc);
  if (is_undone(rc, result) && !call.is_kept)
    UNDO(next->free_workspace(next->context, device_id, *handle));
  return result;
}

static int32_t free_workspace(void *context, int32_t device_id, void *handle) {
  BpCall call = {.slot = SLOT_FREE_WORKSPACE, .device_id = device_id, .handle = handle};
  FORWARD(call, next->free_workspace(next->context, device_id, handle));
}

static int32_t copy(void *context, const BpCopy *what, void *stream) {
  BpCall call = {.slot = SLOT_COPY,
                 .device_id = bp_layers_copy_device(what).device_id,
                 .copy = what,
                 .stream = stream};
  FORWARD(call, next->copy(next->context, what, stream));
}

/* ---- Streams ----------------------------------------------------------------------------- */

static int32_t create_stream(void *context, int32_t device_id, void **stream) {
  const Wrapped *wrapped = context;
  const BpDeviceApi *next = wrapped->next;
  BpCall call = {.slot = SLOT_CREATE_STREAM, .device_id = device_id};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = next->create_stream(next->context, device_id, stream);
  call.handle = rc ? NULL : *stream;
  int32_t result = after(wrapped, &call, rc);
  if (is_undone(rc, result))
    UNDO(next->free_stream(next->context, device_id, *stream));
  return result;
}

static int32_t free_stream(void *context, int32_t device_id, void *stream) {
  BpCall call = {.slot = SLOT_FREE_STREAM, .device_id = device_id, .handle = stream};
  FORWARD(call, next->free_stream(next->context, device_id, stream));
}

static int32_t sync_stream_from_to(void *context, int32_t device_id, void *from, void *to) {
  BpCall call = {
      .slot = SLOT_SYNC_STREAM_FROM_TO, .device_id = device_id, .stream = from, .to = to};
  FORWARD(call, next->sync_stream_from_to(next->context, device_id, from, to));
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  BpCall call = {.slot = SLOT_STREAM_SYNC, .device_id = device_id, .stream = stream};
  FORWARD(call, next->stream_sync(next->context, device_id, stream));
}

/* ---- Launches ---------------------------------------------------------------------------- */

static int32_t launch(void *context, const BpLaunch *what) {
  const Wrapped *wrapped = context;
  BpCall call = {.slot = SLOT_LAUNCH,
                 .device_id = what->invocation->device.device_id,
                 .launch = what,
                 .stream = what->invocation->stream};
  if (before(wrapped, &call))
    return -1;
  return after(wrapped, &call, what->proceed(what));
}

/* ---- Timers ------------------------------------------------------------------------------ */

static int32_t timer_start(void *context, int32_t device_id, void *stream, void **timer) {
  Wrapped *wrapped = context;
  const BpTimerApi *timers = wrapped->timers;
  BpCall call = {.slot = SLOT_TIMER_START, .device_id = device_id, .stream = stream};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = timers->start(wrapped->next->context, device_id, stream, timer);
  call.handle = rc ? NULL : *timer;
  int32_t result = after(wrapped, &call, rc);
  if (is_undone(rc, result))
    UNDO(timers->free(wrapped->next->context, *timer));
  return result;
}

static int32_t timer_stop(void *context, void *timer, void *stream) {
  BpCall call = {.slot = SLOT_TIMER_STOP, .device_id = -1, .handle = timer, .stream = stream};
  FORWARD(call, wrapped->timers->stop(next->context, timer, stream));
}

static int32_t timer_read(void *context, void *timer, int64_t *nanoseconds) {
  BpCall call = {.slot = SLOT_TIMER_READ, .device_id = -1, .handle = timer};
  FORWARD(call, wrapped->timers->read(next->context, timer, nanoseconds));
}

static int32_t timer_free(void *context, void *timer) {
  BpCall call = {.slot = SLOT_TIMER_FREE, .device_id = -1, .handle = timer};
  FORWARD(call, wrapped->timers->free(next->context, timer));
}

static const BpTimerApi wrapped_timers = {.struct_size = sizeof(BpTimerApi),
                                          .start = timer_start,
                                          .stop = timer_stop,
                                          .read = timer_read,
                                          .free = timer_free};

/* ---- Recordings -------------------------------------------------------------------------- */

static int32_t recording_begin(void *context, int32_t device_id, void *stream) {
  BpCall call = {.slot = SLOT_RECORDING_BEGIN, .device_id = device_id, .stream = stream};
  FORWARD(call, wrapped->recordings->begin(next->context, device_id, stream));
}

static int32_t recording_end(void *context, int32_t device_id, void *stream,
                             BpRecording **recording) {
  Wrapped *wrapped = context;
  const BpRecordingApi *recordings = wrapped->recordings;
  BpCall call = {.slot = SLOT_RECORDING_END, .device_id = device_id, .stream = stream};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = recordings->end(wrapped->next->context, device_id, stream, recording);
  call.handle = rc ? NULL : *recording;
  int32_t result = after(wrapped, &call, rc);
  if (is_undone(rc, result))
    UNDO(recordings->free(wrapped->next->context, *recording));
  return result;
}

static int32_t recording_replay(void *context, BpRecording *recording, void *stream) {
  BpCall call = {
      .slot = SLOT_RECORDING_REPLAY, .device_id = -1, .handle = recording, .stream = stream};
  FORWARD(call, wrapped->recordings->replay(next->context, recording, stream));
}

static int32_t recording_free(void *context, BpRecording *recording) {
  BpCall call = {.slot = SLOT_RECORDING_FREE, .device_id = -1, .handle = recording};
  FORWARD(call, wrapped->recordings->free(next->context, recording));
}

static const BpRecordingApi wrapped_recordings = {.struct_size = sizeof(BpRecordingApi),
                                                  .begin = recording_begin,
                                                  .end = recording_end,
                                                  .replay = recording_replay,
                                                  .free = recording_free};

/* ---- Events ------------------------------------------------------------------------------ */

static int32_t events_create(void *context, int32_t device_id, BpDeviceEvent **event) {
  Wrapped *wrapped = context;
  const BpEventsApi *events = wrapped->events;
  BpCall call = {.slot = SLOT_EVENTS_CREATE, .device_id = device_id};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = events->create(wrapped->next->context, device_id, event);
  call.handle = rc ? NULL : *event;
  int32_t result = after(wrapped, &call, rc);
  if (is_undone(rc, result))
    UNDO(events->free(wrapped->next->context, *event));
  return result;
}

static int32_t events_free(void *context, BpDeviceEvent *event) {
  BpCall call = {.slot = SLOT_EVENTS_FREE, .device_id = -1, .handle = event};
  FORWARD(call, wrapped->events->free(next->context, event));
}

static int32_t events_record(void *context, BpDeviceEvent *event, void *stream) {
  BpCall call = {.slot = SLOT_EVENTS_RECORD, .device_id = -1, .handle = event, .stream = stream};
  FORWARD(call, wrapped->events->record(next->context, event, stream));
}

static int32_t events_wait(void *context, BpDeviceEvent *event, void *stream) {
  BpCall call = {.slot = SLOT_EVENTS_WAIT, .device_id = -1, .handle = event, .stream = stream};
  FORWARD(call, wrapped->events->wait(next->context, event, stream));
}

static int32_t events_query(void *context, BpDeviceEvent *event, int32_t *state) {
  const Wrapped *wrapped = context;
  const BpEventsApi *events = wrapped->events;
  BpCall call = {.slot = SLOT_EVENTS_QUERY, .device_id = -1, .handle = event};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = events->query(wrapped->next->context, event, state);
  call.count = rc ? 0 : *state;
  return after(wrapped, &call, rc);
}

static int32_t events_synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                                  int32_t *state) {
  const Wrapped *wrapped = context;
  const BpEventsApi *events = wrapped->events;
  BpCall call = {.slot = SLOT_EVENTS_SYNCHRONIZE, .device_id = -1, .handle = event};
  if (before(wrapped, &call))
    return -1;
  int32_t rc = events->synchronize(wrapped->next->context, event, timeout_ns, state);
  call.count = rc ? 0 : *state;
  return after(wrapped, &call, rc);
}

static int32_t events_notify(void *context, BpDeviceEvent *event, void (*done)(void *user),
                             void *user) {
  BpCall call = {.slot = SLOT_EVENTS_NOTIFY, .device_id = -1, .handle = event};
  FORWARD(call, wrapped->events->notify(next->context, event, done, user));
}

static int32_t events_hold(void *context, BpDeviceEvent *event) {
  BpCall call = {.slot = SLOT_EVENTS_HOLD, .device_id = -1, .handle = event};
  FORWARD(call, wrapped->events->hold(next->context, event));
}

static int32_t events_signal(void *context, BpDeviceEvent *event) {
  BpCall call = {.slot = SLOT_EVENTS_SIGNAL, .device_id = -1, .handle = event};
  FORWARD(call, wrapped->events->signal(next->context, event));
}

/* ---- External memory --------------------------------------------------------------------- */

static int32_t external_get_forms(void *context, int32_t device_id, uint64_t *imports,
                                  uint64_t *exports, uint64_t *alignment) {
  BpCall call = {.slot = SLOT_EXTERNAL_MEMORY_GET_FORMS, .device_id = device_id};
  FORWARD(call,
          wrapped->external->get_forms(next->context, device_id, imports, exports, alignment));
}

/* Calls the layer's `after` for memory that was allocated or imported. */
static int32_t after_memory(const Wrapped *wrapped, BpCall *call, int32_t rc, void *const *handle) {
  const BpDeviceApi *next = wrapped->next;
  call->handle = rc ? NULL : *handle;
  int32_t result = after(wrapped, call, rc);
  if (is_undone(rc, result) && !call->is_kept)
    UNDO(next->free_data_space(next->context, call->device_id, *handle));
  return result;
}

static int32_t external_import(void *context, int32_t device_id, const BpExternalMemory *memory,
                               void **handle) {
  const Wrapped *wrapped = context;
  const BpExternalMemoryApi *external = wrapped->external;
  BpCall call = {
      .slot = SLOT_EXTERNAL_MEMORY_IMPORT_MEMORY, .device_id = device_id, .size = memory->size};
  if (before(wrapped, &call))
    return -1;
  return after_memory(wrapped, &call,
                      external->import_memory(wrapped->next->context, device_id, memory, handle),
                      handle);
}

static int32_t external_export(void *context, int32_t device_id, const BpAllocation *allocation,
                               BpExternalMemory *memory, void **handle) {
  const Wrapped *wrapped = context;
  const BpExternalMemoryApi *external = wrapped->external;
  BpCall call = {
      .slot = SLOT_EXTERNAL_MEMORY_EXPORT_MEMORY, .device_id = device_id, .allocation = allocation};
  if (before(wrapped, &call))
    return -1;
  int32_t rc =
      external->export_memory(wrapped->next->context, device_id, allocation, memory, handle);
  int32_t result = after_memory(wrapped, &call, rc, handle);
  if (is_undone(rc, result))
    close(memory->fd);
  return result;
}

static const BpExternalMemoryApi wrapped_external = {.struct_size = sizeof(BpExternalMemoryApi),
                                                     .get_forms = external_get_forms,
                                                     .import_memory = external_import,
                                                     .export_memory = external_export};

/* ---- Extensions -------------------------------------------------------------------------- */

/* Wraps the events table. Optional slots may be NULL, or lie beyond the size of the next table. The
 * first thread fills the table in, once. */
static const BpEventsApi *wrap_events(Wrapped *wrapped, const BpEventsApi *events) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (!BP_TABLE_HAS(events, synchronize))
    return events; /* the host rejects an events table without synchronize */
  pthread_mutex_lock(&lock);
  if (wrapped->events != events) {
    wrapped->events = events;
    wrapped->wrapped_events =
        (BpEventsApi){.struct_size = sizeof(BpEventsApi),
                      .create = events_create,
                      .free = events_free,
                      .record = events_record,
                      .wait = events_wait,
                      .query = events_query,
                      .synchronize = events_synchronize,
                      .notify = BP_TABLE_HAS(events, notify) ? events_notify : NULL,
                      .hold = BP_TABLE_HAS(events, hold) ? events_hold : NULL,
                      .signal = BP_TABLE_HAS(events, signal) ? events_signal : NULL};
  }
  pthread_mutex_unlock(&lock);
  return &wrapped->wrapped_events;
}

/* ---- The table --------------------------------------------------------------------------- */

/* The tables of extensions whose slots go through the layer. */
static const void *wrap_extension(Wrapped *wrapped, const char *name, uint32_t version,
                                  const void *table) {
  if (!strcmp(name, BP_EXTENSION_TIMER) && version == BP_EXTENSION_TIMER_VERSION) {
    wrapped->timers = table;
    return &wrapped_timers;
  }
  if (!strcmp(name, BP_EXTENSION_RECORDING) && version == BP_EXTENSION_RECORDING_VERSION) {
    wrapped->recordings = table;
    return &wrapped_recordings;
  }
  if (!strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION)
    return wrap_events(wrapped, table);
  if (!strcmp(name, BP_EXTENSION_EXTERNAL_MEMORY) &&
      version == BP_EXTENSION_EXTERNAL_MEMORY_VERSION) {
    wrapped->external = table;
    return &wrapped_external;
  }
  bp_plugin_log(&bp_layers_host, BP_LOG_INFO,
                "layers: the extension \"%s\" version %u of %s is not there under these layers, "
                "which do not know it",
                name, version, wrapped->next->name);
  return NULL;
}

/* Returns NULL without an error if the device has no such extension. */
static const void *get_extension(void *context, const char *name, uint32_t version) {
  Wrapped *wrapped = context;
  const BpDeviceApi *next = wrapped->next;
  BpCall call = {.slot = SLOT_GET_EXTENSION, .device_id = -1, .name = name};
  int32_t rc = before(wrapped, &call);
  const void *table = rc ? NULL : next->get_extension(next->context, name, version);
  if (!rc)
    rc = after(wrapped, &call, 0);
  if (rc)
    bp_layers_host.object->release(bp_layers_host.error->take());
  return rc || !table ? NULL : wrap_extension(wrapped, name, version, table);
}

static const BpDeviceApi forwarding = {.get_device_count = get_device_count,
                                       .get_attr = get_attr,
                                       .set_device = set_device,
                                       .alloc_data_space = alloc_data_space,
                                       .free_data_space = free_data_space,
                                       .alloc_workspace = alloc_workspace,
                                       .free_workspace = free_workspace,
                                       .copy = copy,
                                       .create_stream = create_stream,
                                       .free_stream = free_stream,
                                       .sync_stream_from_to = sync_stream_from_to,
                                       .stream_sync = stream_sync,
                                       .visit_properties = visit_properties,
                                       .get_extension = get_extension};

/* Fills the wrapped table. Optional slots that the next table lacks stay NULL. */
static void fill_table(Wrapped *wrapped) {
  const BpDeviceApi *next = wrapped->next;
  BpDeviceApi *api = &wrapped->api;
  *api = forwarding;
  api->struct_size = sizeof *api;
  api->device_type = next->device_type;
  api->name = next->name;
  api->context = wrapped;
  if (!next->set_device)
    api->set_device = NULL;
  if (!next->alloc_workspace)
    api->alloc_workspace = NULL, api->free_workspace = NULL;
  if (!next->create_stream)
    api->create_stream = NULL, api->free_stream = NULL, api->sync_stream_from_to = NULL;
  if (!next->visit_properties)
    api->visit_properties = NULL;
  if (!next->get_extension)
    api->get_extension = NULL;
}

static void finish(void *context) {
  const Wrapped *wrapped = context;
  if (wrapped->hooks->finish)
    wrapped->hooks->finish(wrapped->state);
}

int32_t bp_layers_wrap(void *context, const BpDeviceApi *next, BpLayered *layered) {
  const BpLayerHooks *hooks = context;
  Wrapped *wrapped = bp_plugin_calloc(&bp_layers_host, sizeof *wrapped);
  if (!wrapped)
    return -1;
  wrapped->next = next;
  wrapped->hooks = hooks;
  wrapped->state = hooks->create(next);
  if (!wrapped->state) {
    free(wrapped);
    return -1;
  }
  fill_table(wrapped);
  layered->api = &wrapped->api;
  layered->context = wrapped;
  layered->launch = launch;
  layered->finish = finish;
  return 0;
}
