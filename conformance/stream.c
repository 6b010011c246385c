/* SPDX-License-Identifier: Apache-2.0 */
/* Section stream: queues and their order, events, timers, recordings. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/kit.h"

#define STREAMS 4  /* streams in use at the same time */
#define CHAIN   16 /* pieces of memory through which each stream copies */

/* Returns the size of a piece, computed before memory is allocated. */
static size_t piece_size(const Kit *kit) {
  static size_t size; /* computed once, at the first call */
  return size ? size : (size = bp__kit_piece(kit, STREAMS * CHAIN));
}

static void open_streams(Kit *kit) {
  bp__kit_open_device(kit);
  if (!kit->api->create_stream)
    bp__kit_skip("the device has one queue");
}

static void *make_stream(const Kit *kit) {
  void *stream = NULL;
  KIT_OK(kit->api->create_stream(kit->api->context, kit->device.device_id, &stream),
         "create_stream");
  KIT_TRUE(stream, "create_stream gave NULL, which is the default stream");
  return stream;
}

static void free_stream(const Kit *kit, void *stream) {
  KIT_OK(kit->api->free_stream(kit->api->context, kit->device.device_id, stream), "free_stream");
}

static void run_create(Kit *kit) {
  void *streams[8];
  open_streams(kit);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 8; i++)
      streams[i] = make_stream(kit);
    for (int i = 0; i < 8; i++)
      for (int k = 0; k < i; k++)
        KIT_TRUE(streams[i] != streams[k], "two streams have the handle %p", streams[i]);
    for (int i = 0; i < 8; i++)
      bp__kit_sync(kit, streams[i]);
    for (int i = 0; i < 8; i++)
      free_stream(kit, streams[i]);
  }
}

/* Waits on an idle stream, and then with much work queued. */
static void run_sync(Kit *kit) {
  enum { COUNT = 64 };
  bp__kit_open_device(kit);
  const size_t size = piece_size(kit), piece = size / COUNT;
  uint8_t *sent = g_malloc(size), *got = g_malloc(size);
  bp__kit_sync(kit, NULL);
  void *handle = bp__kit_alloc(kit, size);
  for (uint64_t round = 0; round < 8; round++) {
    bp__kit_fill(sent, size, kit->seed + round);
    memset(got, 0, size);
    for (size_t i = 0; i < COUNT; i++)
      bp__kit_upload(kit, sent + i * piece, handle, i * piece, piece, NULL);
    for (size_t i = 0; i < COUNT; i++)
      bp__kit_download(kit, handle, i * piece, got + i * piece, piece, NULL);
    bp__kit_sync(kit, NULL);
    bp__kit_expect_bytes(got, sent, size, "work that was queued before stream_sync returned");
  }
  bp__kit_sync(kit, NULL);
  bp__kit_free(kit, handle);
  g_free(sent);
  g_free(got);
}

/* ---- Order between streams --------------------------------------------------------------- */

/* Queues a long chain of copies on a stream: from the host through all handles to the last. */
static void queue_chain(const Kit *kit, const uint8_t *sent, void *const handles[CHAIN],
                        void *stream) {
  const size_t size = piece_size(kit);
  bp__kit_upload(kit, sent, handles[0], 0, size, stream);
  for (int i = 1; i < CHAIN; i++)
    bp__kit_copy(kit, handles[i - 1], 0, handles[i], 0, size, stream);
}

static void make_chain(const Kit *kit, void *handles[CHAIN]) {
  for (int i = 0; i < CHAIN; i++)
    handles[i] = bp__kit_alloc(kit, piece_size(kit));
}

static void free_chain(const Kit *kit, void *const handles[CHAIN]) {
  for (int i = 0; i < CHAIN; i++)
    bp__kit_free(kit, handles[i]);
}

/* Work that `to` gets after the order was requested comes after the earlier work of `from`. */
static void expect_order(const Kit *kit, void *from, void *to, const char *what) {
  const size_t size = piece_size(kit);
  void *handles[CHAIN], *result = bp__kit_alloc(kit, size);
  uint8_t *sent = g_malloc(size), *got = g_malloc0(size);
  make_chain(kit, handles);
  for (uint64_t round = 0; round < 8; round++) {
    bp__kit_fill(sent, size, kit->seed + round);
    queue_chain(kit, sent, handles, from);
    KIT_OK(kit->api->sync_stream_from_to(kit->api->context, kit->device.device_id, from, to),
           "sync_stream_from_to");
    bp__kit_copy(kit, handles[CHAIN - 1], 0, result, 0, size, to);
    bp__kit_download(kit, result, 0, got, size, to);
    bp__kit_sync(kit, to);
    bp__kit_expect_bytes(got, sent, size, what);
  }
  bp__kit_sync(kit, from);
  free_chain(kit, handles);
  bp__kit_free(kit, result);
  g_free(sent);
  g_free(got);
}

static void run_order(Kit *kit) {
  open_streams(kit);
  void *first = make_stream(kit), *second = make_stream(kit);
  expect_order(kit, first, second, "a stream that was to wait for another");
  expect_order(kit, NULL, second, "a stream that was to wait for the default one");
  expect_order(kit, first, NULL, "the default stream, which was to wait for another");
  free_stream(kit, first);
  free_stream(kit, second);
}

/* Waiting for one stream waits for all of its work, whatever other streams do. */
static void run_independent(Kit *kit) {
  void *streams[STREAMS], *handles[STREAMS][CHAIN];
  open_streams(kit);
  const size_t size = piece_size(kit);
  uint8_t *sent[STREAMS], *got = g_malloc0(size);
  for (uint64_t i = 0; i < STREAMS; i++) {
    streams[i] = make_stream(kit);
    make_chain(kit, handles[i]);
    sent[i] = g_malloc(size);
    bp__kit_fill(sent[i], size, kit->seed + i);
    queue_chain(kit, sent[i], handles[i], streams[i]);
  }
  for (int i = STREAMS; i-- > 0;) {
    bp__kit_download(kit, handles[i][CHAIN - 1], 0, got, size, streams[i]);
    bp__kit_sync(kit, streams[i]);
    bp__kit_expect_bytes(got, sent[i], size, "one of several streams");
    free_chain(kit, handles[i]);
    free_stream(kit, streams[i]);
    g_free(sent[i]);
  }
  g_free(got);
}

/* Work of a freed stream still completes; the default stream sees its result. */
static void run_freed(Kit *kit) {
  void *handles[CHAIN];
  open_streams(kit);
  const size_t size = piece_size(kit);
  uint8_t *sent = g_malloc(size), *got = g_malloc0(size);
  make_chain(kit, handles);
  for (uint64_t round = 0; round < 4; round++) {
    void *stream = make_stream(kit);
    bp__kit_fill(sent, size, kit->seed + round);
    queue_chain(kit, sent, handles, stream);
    KIT_OK(kit->api->sync_stream_from_to(kit->api->context, kit->device.device_id, stream, NULL),
           "sync_stream_from_to");
    free_stream(kit, stream);
    bp__kit_download(kit, handles[CHAIN - 1], 0, got, size, NULL);
    bp__kit_sync(kit, NULL);
    bp__kit_expect_bytes(got, sent, size, "the work of a stream that was freed");
  }
  free_chain(kit, handles);
  g_free(sent);
  g_free(got);
}

/* ---- Threads ----------------------------------------------------------------------------- */

typedef struct Worker {
  const Kit *kit;
  uint64_t seed;
} Worker;

static void *work(void *context) {
  const Worker *worker = context;
  const Kit *kit = worker->kit;
  const size_t size = 40000;
  uint8_t *sent = g_malloc(size), *got = g_malloc0(size);
  void *stream = NULL;
  KIT_OK(bp_stream_create(kit->device, &stream), "create_stream in a thread");
  KIT_OK(bp_device_set_current(kit->device, stream), "set_device in a thread");
  for (uint64_t i = 0; i < 25; i++) {
    void *first = bp__kit_alloc(kit, size), *second = bp__kit_alloc(kit, size);
    bp__kit_fill(sent, size, worker->seed + i);
    bp__kit_upload(kit, sent, first, 0, size, stream);
    bp__kit_copy(kit, first, 0, second, 0, size, stream);
    bp__kit_free(kit, first);
    bp__kit_download(kit, second, 0, got, size, stream);
    bp__kit_sync(kit, stream);
    bp__kit_expect_bytes(got, sent, size, "the work of one of several threads");
    bp__kit_free(kit, second);
  }
  KIT_OK(bp_stream_free(kit->device, stream), "free_stream in a thread");
  g_free(sent);
  g_free(got);
  return NULL;
}

static void run_threads(Kit *kit) {
  enum { THREADS = 6 };
  pthread_t threads[THREADS];
  Worker workers[THREADS];
  bp__kit_open_device(kit);
  for (uint64_t i = 0; i < THREADS; i++) {
    workers[i] = (Worker){kit, kit->seed + 1000 * i};
    KIT_TRUE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "no thread");
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* ---- Events ------------------------------------------------------------------------------ */

static const BpEventsApi *open_events(Kit *kit) {
  bp__kit_open_device(kit);
  const BpEventsApi *api = bp_device_extension(kit->device.device_type, BP_EXTENSION_EVENTS,
                                               BP_EXTENSION_EVENTS_VERSION);
  if (!api)
    bp__kit_skip("the device has no events");
  return api;
}

static BpDeviceEvent *make_event(const Kit *kit, const BpEventsApi *api) {
  BpDeviceEvent *event = NULL;
  KIT_OK(api->create(kit->api->context, kit->device.device_id, &event), "create of an event");
  KIT_TRUE(event, "create of an event gave NULL");
  return event;
}

static int is_complete(const Kit *kit, const BpEventsApi *api, BpDeviceEvent *event) {
  int32_t answer = -1;
  KIT_OK(api->query(kit->api->context, event, &answer), "query of an event");
  KIT_TRUE(answer == 0 || answer == 1, "query of an event answers %d", answer);
  return answer;
}

/* Whether an event is complete within a time. */
static int wait_for_event(const Kit *kit, const BpEventsApi *api, BpDeviceEvent *event,
                          uint64_t timeout_ns) {
  int32_t answer = -1;
  KIT_OK(api->synchronize(kit->api->context, event, timeout_ns, &answer),
         "synchronize of an event");
  KIT_TRUE(answer == 0 || answer == 1, "synchronize of an event answers %d", answer);
  return answer;
}

static void run_event(Kit *kit) {
  void *handles[CHAIN];
  const BpEventsApi *api = open_events(kit);
  const size_t size = piece_size(kit);
  uint8_t *sent = g_malloc(size), *got = g_malloc(size);
  BpDeviceEvent *event = make_event(kit, api);
  KIT_TRUE(is_complete(kit, api, event), "an event that was never recorded is not complete");
  KIT_TRUE(wait_for_event(kit, api, event, 0), "an event that was never recorded is waited for");
  KIT_OK(api->wait(kit->api->context, event, NULL), "wait for an event that was never recorded");
  make_chain(kit, handles);
  for (uint64_t round = 0; round < 9; round++) {
    bp__kit_fill(sent, size, kit->seed + round);
    memset(got, 0, size);
    queue_chain(kit, sent, handles, NULL);
    bp__kit_download(kit, handles[CHAIN - 1], 0, got, size, NULL);
    KIT_OK(api->record(kit->api->context, event, NULL), "record of an event");
    while (round % 3 == 0 && !is_complete(kit, api, event))
      g_usleep(100);
    while (round % 3 == 1 && !wait_for_event(kit, api, event, 100000))
      continue;
    KIT_TRUE(round % 3 != 2 || wait_for_event(kit, api, event, BP_WAIT_FOREVER),
             "synchronize without a timeout returned while the event was pending");
    bp__kit_expect_bytes(got, sent, size, "work that was queued before an event that is complete");
    KIT_TRUE(is_complete(kit, api, event), "an event that was complete is pending");
  }
  bp__kit_sync(kit, NULL);
  KIT_OK(api->free(kit->api->context, event), "free of an event");
  free_chain(kit, handles);
  g_free(sent);
  g_free(got);
}

/* Work that is queued on `to` after it waits for an event of `from` must run after the work of
 * `from` before that event. With `idle`, the event is recorded on the stream `idle` and freed
 * before `to` can proceed. */
static void expect_event_order(const Kit *kit, const BpEventsApi *api, void *from, void *to,
                               void *idle, const char *what) {
  const size_t size = piece_size(kit);
  void *handles[CHAIN], *result = bp__kit_alloc(kit, size);
  uint8_t *sent = g_malloc(size), *got = g_malloc0(size);
  make_chain(kit, handles);
  BpDeviceEvent *event = make_event(kit, api);
  for (uint64_t round = 0; round < 6; round++) {
    bp__kit_fill(sent, size, kit->seed + round);
    queue_chain(kit, sent, handles, from);
    KIT_OK(api->record(kit->api->context, event, from), "record of an event");
    KIT_OK(api->wait(kit->api->context, event, to), "wait for an event");
    if (idle) {
      KIT_OK(api->record(kit->api->context, event, idle), "another record of an event");
      KIT_TRUE(wait_for_event(kit, api, event, BP_WAIT_FOREVER),
               "synchronize without a timeout returned while the event was pending");
      KIT_OK(api->free(kit->api->context, event), "free of an event that a stream waits for");
      event = make_event(kit, api);
    }
    bp__kit_copy(kit, handles[CHAIN - 1], 0, result, 0, size, to);
    bp__kit_download(kit, result, 0, got, size, to);
    bp__kit_sync(kit, to);
    bp__kit_expect_bytes(got, sent, size, what);
  }
  bp__kit_sync(kit, from);
  KIT_OK(api->free(kit->api->context, event), "free of an event");
  free_chain(kit, handles);
  bp__kit_free(kit, result);
  g_free(sent);
  g_free(got);
}

static void run_event_order(Kit *kit) {
  const BpEventsApi *api = open_events(kit);
  open_streams(kit);
  void *first = make_stream(kit), *second = make_stream(kit);
  expect_event_order(kit, api, first, second, NULL, "a stream that was to wait for an event");
  expect_event_order(kit, api, NULL, second, NULL,
                     "a stream that was to wait for an event of the default one");
  expect_event_order(kit, api, first, NULL, NULL,
                     "the default stream, which was to wait for an event");
  free_stream(kit, first);
  free_stream(kit, second);
}

static void run_event_again(Kit *kit) {
  const BpEventsApi *api = open_events(kit);
  open_streams(kit);
  void *streams[3];
  for (int i = 0; i < 3; i++)
    streams[i] = make_stream(kit);
  expect_event_order(kit, api, streams[0], streams[1], streams[2],
                     "a stream that was to wait for an event, which was then recorded elsewhere");
  for (int i = 0; i < 3; i++)
    free_stream(kit, streams[i]);
}

static void count_call(void *user) {
  g_atomic_int_inc((gint *)user);
}

/* A held event keeps a stream waiting until it is signalled; waits for its earlier record are not
 * affected. */
static void run_event_hold(Kit *kit) {
  gint calls = 0, earlier = 0;
  const BpEventsApi *api = open_events(kit);
  if (!BP_TABLE_HAS(api, hold))
    bp__kit_skip("the host cannot complete the device's events");
  open_streams(kit);
  const int has_notify = BP_TABLE_HAS(api, notify);
  void *stream = make_stream(kit), *other = make_stream(kit);
  BpDeviceEvent *event = make_event(kit, api);
  KIT_OK(api->record(kit->api->context, event, stream), "record of an event");
  KIT_OK(api->wait(kit->api->context, event, other), "wait for an event");
  if (has_notify)
    KIT_OK(api->notify(kit->api->context, event, count_call, &earlier), "notify of an event");
  KIT_OK(api->hold(kit->api->context, event), "hold of an event");
  bp__kit_sync(kit, other); /* waits for the record before the hold */
  KIT_TRUE(!is_complete(kit, api, event), "an event that is held is complete");
  KIT_TRUE(!wait_for_event(kit, api, event, 1000000), "an event that is held is complete");
  KIT_OK(api->wait(kit->api->context, event, stream), "wait for an event that is held");
  if (has_notify)
    KIT_OK(api->notify(kit->api->context, event, count_call, &calls), "notify of an event");
  KIT_TRUE(g_atomic_int_get(&calls) == 0, "notify called although the event is held");
  KIT_OK(api->signal(kit->api->context, event), "signal of an event");
  KIT_TRUE(wait_for_event(kit, api, event, BP_WAIT_FOREVER), "a signalled event is pending");
  bp__kit_sync(kit, stream);
  while (has_notify && (g_atomic_int_get(&calls) == 0 || g_atomic_int_get(&earlier) == 0))
    g_usleep(100);
  KIT_TRUE(g_atomic_int_get(&calls) == has_notify && g_atomic_int_get(&earlier) == has_notify,
           "notify called more than once");
  KIT_OK(api->free(kit->api->context, event), "free of an event");
  free_stream(kit, stream);
  free_stream(kit, other);
}

/* A wait for a pending event lasts as long as requested, and ends when the event completes. */
static void run_event_deadline(Kit *kit) {
  const BpEventsApi *api = open_events(kit);
  if (!BP_TABLE_HAS(api, hold))
    bp__kit_skip("the host cannot keep an event pending");
  BpDeviceEvent *event = make_event(kit, api);
  KIT_OK(api->hold(kit->api->context, event), "hold of an event");
  for (int64_t wanted = 1000; wanted <= 64000; wanted *= 4) {
    gint64 before = g_get_monotonic_time();
    KIT_TRUE(!wait_for_event(kit, api, event, (uint64_t)wanted * 1000),
             "an event that is held is complete");
    gint64 elapsed = g_get_monotonic_time() - before;
    KIT_TRUE(elapsed + 1 >= wanted,
             "synchronize of a pending event with a timeout of %" G_GINT64_FORMAT
             " us returned after %" G_GINT64_FORMAT " us",
             wanted, elapsed);
  }
  KIT_TRUE(!wait_for_event(kit, api, event, 0), "an event that is held is complete");
  KIT_OK(api->signal(kit->api->context, event), "signal of an event");
  KIT_TRUE(wait_for_event(kit, api, event, 0), "an event that was signalled is pending");
  KIT_OK(api->free(kit->api->context, event), "free of an event");
}

/* ---- Memory in turn ---------------------------------------------------------------------- */

/* Returns the external memory extension; skips the check unless the device takes turns with
 * imported memory in its streams. */
static const BpExternalMemoryApi *open_turns(const Kit *kit, uint64_t *alignment) {
  uint64_t imports = 0, exports = 0;
  const BpExternalMemoryApi *api = bp_device_extension(
      kit->device.device_type, BP_EXTENSION_EXTERNAL_MEMORY, BP_EXTENSION_EXTERNAL_MEMORY_VERSION);
  if (!api)
    bp__kit_skip("the device neither imports nor exports memory");
  KIT_OK(api->get_forms(kit->api->context, kit->device.device_id, &imports, &exports, alignment),
         "get_forms");
  if (!(imports & BP_EXTERNAL_IN_TURN))
    bp__kit_skip("taking turns with imported memory is no work of the device's streams");
  KIT_TRUE(imports & BP_EXTERNAL_HOST_POINTER,
           "get_forms gives BP_EXTERNAL_IN_TURN without BP_EXTERNAL_HOST_POINTER");
  return api;
}

/* A stream, an event that it waits for, and memory of the host that the device imported. */
typedef struct Turns {
  const BpEventsApi *events;
  BpDeviceEvent *event;
  void *stream, *handle, *other; /* `other` is the device's own memory */
  uint8_t *bytes, *sent, *got;
  size_t size;
} Turns;

static void hold_stream(const Kit *kit, const Turns *turns) {
  KIT_OK(turns->events->hold(kit->api->context, turns->event), "hold of an event");
  KIT_OK(turns->events->wait(kit->api->context, turns->event, turns->stream),
         "wait for an event that is held");
}

static void let_stream_go(const Kit *kit, const Turns *turns) {
  KIT_OK(turns->events->signal(kit->api->context, turns->event), "signal of an event");
  bp__kit_sync(kit, turns->stream);
}

/* Queues the stream's turns while it waits, and then writes the bytes as another device would. */
static void take_turns(const Kit *kit, const Turns *turns, uint64_t round) {
  const size_t size = turns->size;
  bp__kit_fill(turns->bytes, size, kit->seed + round);
  hold_stream(kit, turns);
  bp__kit_upload(kit, turns->bytes, turns->handle, 0, size, turns->stream);
  bp__kit_copy(kit, turns->handle, 0, turns->other, 0, size, turns->stream);
  bp__kit_fill(turns->sent, size, kit->seed + 100 + round);
  memcpy(turns->bytes, turns->sent, size);
  let_stream_go(kit, turns);
  bp__kit_download(kit, turns->other, 0, turns->got, size, turns->stream);
  bp__kit_sync(kit, turns->stream);
  bp__kit_expect_bytes(turns->got, turns->sent, size,
                       "imported memory that was written until the stream got there");
  hold_stream(kit, turns);
  bp__kit_copy(kit, turns->other, 0, turns->handle, 0, size, turns->stream);
  bp__kit_download(kit, turns->handle, 0, turns->bytes, size, turns->stream);
  memset(turns->bytes, (int)round, size);
  let_stream_go(kit, turns);
  bp__kit_expect_bytes(turns->bytes, turns->sent, size,
                       "imported memory that the stream wrote when it got there");
}

/* A slot that waits for the stream would never return here, since the stream waits for the host. */
static void run_memory_in_turn(Kit *kit) {
  enum { SIZE = 3 * 4096 };
  uint64_t alignment = 0;
  const BpEventsApi *events = open_events(kit);
  const BpExternalMemoryApi *api = open_turns(kit, &alignment);
  if (!BP_TABLE_HAS(events, hold))
    bp__kit_skip("the host cannot keep a stream of the device waiting");
  const size_t multiple = alignment > 4096 ? (size_t)alignment : 4096;
  Turns turns = {.events = events,
                 .event = make_event(kit, events),
                 .stream = kit->api->create_stream ? make_stream(kit) : NULL,
                 .other = bp__kit_alloc(kit, SIZE),
                 .bytes = aligned_alloc(multiple, (SIZE + multiple - 1) / multiple * multiple),
                 .sent = g_malloc(SIZE),
                 .got = g_malloc0(SIZE),
                 .size = SIZE};
  const BpExternalMemory memory = {.struct_size = sizeof memory,
                                   .size = SIZE,
                                   .address = turns.bytes,
                                   .fd = -1,
                                   .form = BP_EXTERNAL_HOST_POINTER};
  KIT_TRUE(turns.bytes, "no memory of the host");
  KIT_OK(api->import_memory(kit->api->context, kit->device.device_id, &memory, &turns.handle),
         "import_memory");
  for (uint64_t round = 0; round < 4; round++)
    take_turns(kit, &turns, round);
  bp__kit_free(kit, turns.handle);
  bp__kit_free(kit, turns.other);
  bp__kit_sync(kit, turns.stream);
  if (turns.stream)
    free_stream(kit, turns.stream);
  KIT_OK(events->free(kit->api->context, turns.event), "free of an event");
  free(turns.bytes);
  g_free(turns.sent);
  g_free(turns.got);
}

/* ---- Listeners --------------------------------------------------------------------------- */

/* The data and the results of the callback `done`. */
typedef struct Seen {
  const uint8_t *got, *sent;
  size_t size;
  gint calls, early;
} Seen;

static void look(void *user) {
  Seen *seen = user;
  if (memcmp(seen->got, seen->sent, seen->size))
    g_atomic_int_inc(&seen->early);
  g_atomic_int_inc(&seen->calls);
}

static void expect_calls(const Seen *seen, gint calls) {
  const gint64 end = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;
  while (g_atomic_int_get(&seen->calls) < calls && g_get_monotonic_time() < end)
    g_usleep(100);
  KIT_TRUE(g_atomic_int_get(&seen->calls) == calls, "notify made %d calls in 10 s; expected %d",
           g_atomic_int_get(&seen->calls), calls);
  KIT_TRUE(g_atomic_int_get(&seen->early) == 0,
           "notify called before the work was done that was queued before the event");
}

static void run_event_notify(Kit *kit) {
  void *handles[CHAIN];
  const BpEventsApi *api = open_events(kit);
  if (!BP_TABLE_HAS(api, notify))
    bp__kit_skip("the host waits in a thread of its own");
  const size_t size = piece_size(kit);
  uint8_t *sent = g_malloc(size), *got = g_malloc0(size);
  Seen seen = {got, sent, size, 0, 0};
  make_chain(kit, handles);
  for (int32_t round = 0; round < 6; round++) {
    BpDeviceEvent *event = make_event(kit, api);
    bp__kit_fill(sent, size, kit->seed + (uint64_t)round);
    queue_chain(kit, sent, handles, NULL);
    bp__kit_download(kit, handles[CHAIN - 1], 0, got, size, NULL);
    KIT_OK(api->record(kit->api->context, event, NULL), "record of an event");
    KIT_OK(api->notify(kit->api->context, event, look, &seen), "notify of an event");
    KIT_OK(api->notify(kit->api->context, event, look, &seen), "a second notify of an event");
    if (round % 2) { /* a promised call is made although the event is freed */
      KIT_OK(api->free(kit->api->context, event), "free of an event");
      expect_calls(&seen, 5 * (round / 2) + 5);
      continue;
    }
    expect_calls(&seen, 5 * (round / 2) + 2);
    KIT_OK(api->notify(kit->api->context, event, look, &seen), "notify of a complete event");
    expect_calls(&seen, 5 * (round / 2) + 3);
    KIT_OK(api->free(kit->api->context, event), "free of an event");
  }
  bp__kit_sync(kit, NULL);
  KIT_TRUE(g_atomic_int_get(&seen.calls) == 15, "notify made %d calls of 15", seen.calls);
  free_chain(kit, handles);
  g_free(sent);
  g_free(got);
}

/* ---- Timers ------------------------------------------------------------------------------ */

/* The device's clock runs about as fast as the host's: the measured time is not longer than the
 * host's time from before the start until after the end. */
static void run_timer(Kit *kit) {
  void *handles[CHAIN];
  bp__kit_open_device(kit);
  const BpTimerApi *api =
      bp_device_extension(kit->device.device_type, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  if (!api)
    bp__kit_skip("the device has no timers");
  uint8_t *sent = g_malloc0(piece_size(kit));
  make_chain(kit, handles);
  for (int round = 0; round < 4; round++) {
    void *timer = NULL;
    int64_t measured = -1;
    gint64 before = g_get_monotonic_time();
    KIT_OK(api->start(kit->api->context, kit->device.device_id, NULL, &timer), "start of a timer");
    queue_chain(kit, sent, handles, NULL);
    KIT_OK(api->stop(kit->api->context, timer, NULL), "stop of a timer");
    KIT_OK(api->read(kit->api->context, timer, &measured), "read of a timer");
    gint64 elapsed = (g_get_monotonic_time() - before) * 1000;
    KIT_TRUE(measured > 0, "%d copies took %" G_GINT64_FORMAT " ns by the device's clock", CHAIN,
             measured);
    KIT_TRUE(measured <= elapsed + elapsed / 5 + 1000000,
             "the device measured %" G_GINT64_FORMAT " ns of what took %" G_GINT64_FORMAT
             " ns altogether",
             measured, elapsed);
    KIT_OK(api->read(kit->api->context, timer, &elapsed), "a second read of a timer");
    KIT_TRUE(elapsed == measured, "a timer is read as %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
             measured, elapsed);
    KIT_OK(api->free(kit->api->context, timer), "free of a timer");
  }
  free_chain(kit, handles);
  g_free(sent);
}

/* ---- Recordings -------------------------------------------------------------------------- */

/* Recorded work does not run at once; it runs at each replay, with the data present then. */
static void run_recording(Kit *kit) {
  BpRecording *recording = NULL;
  bp__kit_open_device(kit);
  const size_t size = piece_size(kit);
  uint8_t *old = g_malloc(size), *sent = g_malloc(size), *got = g_malloc0(size);
  const BpRecordingApi *api = bp__kit_recordings(kit->device.device_type);
  void *stream = kit->api->create_stream ? make_stream(kit) : NULL;
  void *from = bp__kit_alloc(kit, size), *to = bp__kit_alloc(kit, size);
  bp__kit_fill(old, size, kit->seed);
  bp__kit_upload(kit, old, to, 0, size, stream);
  bp__kit_upload(kit, old, from, 0, size, stream);
  bp__kit_sync(kit, stream);
  KIT_OK(api->begin(kit->api->context, kit->device.device_id, stream), "begin of a recording");
  bp__kit_copy(kit, from, 0, to, 0, size, stream);
  KIT_OK(api->end(kit->api->context, kit->device.device_id, stream, &recording),
         "end of a recording");
  KIT_TRUE(recording, "the end of a recording gave NULL");
  for (uint64_t round = 1; round < 4; round++) {
    bp__kit_fill(sent, size, kit->seed + round);
    bp__kit_upload(kit, sent, from, 0, size, stream);
    bp__kit_download(kit, to, 0, got, size, stream);
    bp__kit_sync(kit, stream);
    bp__kit_expect_bytes(got, old, size, "the destination of a recorded copy before a replay");
    KIT_OK(api->replay(kit->api->context, recording, stream), "replay of a recording");
    bp__kit_download(kit, to, 0, got, size, stream);
    bp__kit_sync(kit, stream);
    bp__kit_expect_bytes(got, sent, size, "the destination of a recorded copy after a replay");
    memcpy(old, sent, size);
  }
  KIT_OK(api->free(kit->api->context, recording), "free of a recording");
  bp__kit_free(kit, from);
  bp__kit_free(kit, to);
  if (stream)
    free_stream(kit, stream);
  g_free(old);
  g_free(sent);
  g_free(got);
}

static const Check checks[] = {
    {"stream.sync", "stream_sync waits for all queued work", "copy.offsets.upload", CHECK_CORE,
     run_sync},
    {"stream.create", "streams have distinct handles, and are freed", "stream.sync", CHECK_OPTIONAL,
     run_create},
    {"stream.independent", "several streams at once, each waited for by itself",
     "stream.create copy.order", CHECK_OPTIONAL, run_independent},
    {"stream.order", "work queued after sync_stream_from_to waits for the other stream",
     "stream.create copy.order", CHECK_OPTIONAL, run_order},
    {"stream.freed", "a freed stream completes its queued work", "stream.order", CHECK_OPTIONAL,
     run_freed},
    {"stream.threads", "several threads at once, each with a stream of its own", "copy.freed",
     CHECK_CORE | CHECK_STRESS, run_threads},
    {"stream.event", "an event is complete when the work that was queued before is done",
     "stream.sync", CHECK_OPTIONAL, run_event},
    {"stream.event-order", "work that is queued after a wait runs after the event", "stream.event",
     CHECK_OPTIONAL, run_event_order},
    {"stream.event-again",
     "a wait stays when its event is recorded elsewhere, and when it is freed",
     "stream.event-order", CHECK_OPTIONAL, run_event_again},
    {"stream.event-notify", "a complete event calls each listener once, also one that is freed",
     "stream.event", CHECK_OPTIONAL, run_event_notify},
    {"stream.event-hold", "a held event is pending until the host signals it", "stream.event-order",
     CHECK_OPTIONAL, run_event_hold},
    {"stream.event-deadline", "a wait for a pending event ends when its time has passed",
     "stream.event-hold", CHECK_OPTIONAL, run_event_deadline},
    {"stream.memory-in-turn",
     "imported memory is read and written when the stream gets there, without waiting",
     "memory.import stream.event-hold", CHECK_OPTIONAL, run_memory_in_turn},
    {"stream.timer", "a timer measures at least 0 and at most the whole time", "stream.sync",
     CHECK_OPTIONAL, run_timer},
    {"stream.recording", "recorded work runs at each replay, and not before", "copy.device",
     CHECK_OPTIONAL, run_recording},
};

const Section bp__kit_stream_section = {"stream", NEEDS_DEVICE, checks, G_N_ELEMENTS(checks)};
