/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two devices in the order of their streams: between devices whose work the test
 * controls, between devices of this machine, under the layer validate, and with a plugin in a
 * process of its own.
 *
 * BP_TEST_DEVICES lists the devices, separated by spaces; a missing device is skipped. */

#include "tests/bare_device.h"
#include "tests/core/asserts.h"

#include <backplane/device_extensions.h>
#include <backplane/tensor.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_DEVICES "opencl:0 opencl:1 vulkan:0 simdev:0 simdev:1"
#define SIZE            ((size_t)30000)
#define PART            ((size_t)16 << 20) /* bytes of staging memory; see docs/devices.md */

static const BpDevice host = {BP_DEVICE_CPU, 0};

/* ---- Devices whose work the test controls ------------------------------------------------ */

/* A point that a device reaches; the event, the work and each wait have a reference. */
typedef struct Record {
  int references, state;
  void (*done)(void *user);
  void *user;
} Record;

struct BpDeviceEvent {
  struct Lazy *device;
  Record *latest; /* NULL: complete */
};

typedef struct Work {
  BpCopy copy; /* size 0: no copy */
  Record *reach, *wait;
  int fails;
} Work;

typedef struct Lazy {
  GQueue work;
  int has_failed, num_syncs;
  GHashTable *imports; /* imports by handle, the host address */
  const BpEventsApi *events;
  const BpExternalMemoryApi *external;
} Lazy;

static void drop(Record *record) {
  if (record && --record->references == 0)
    g_free(record);
}

static Record *keep(Record *record) {
  if (record)
    record->references++;
  return record;
}

static void complete(Record *record, int state) {
  record->state = state;
  if (record->done)
    record->done(record->user);
  record->done = NULL;
}

/* Does the work up to the first wait for a pending event. */
static void run(Lazy *lazy) {
  Work *work;
  while ((work = g_queue_peek_head(&lazy->work)) && !(work->wait && !work->wait->state)) {
    g_queue_pop_head(&lazy->work);
    lazy->has_failed |= work->fails;
    if (work->copy.size)
      memmove((char *)work->copy.to + work->copy.to_offset,
              (const char *)work->copy.from + work->copy.from_offset, work->copy.size);
    if (work->reach)
      complete(work->reach, lazy->has_failed ? BP_EVENT_FAILED : BP_EVENT_COMPLETE);
    drop(work->reach);
    drop(work->wait);
    g_free(work);
  }
}

static void queue(Lazy *lazy, Work given) {
  g_queue_push_tail(&lazy->work, g_memdup2(&given, sizeof given));
}

static int32_t lazy_copy(void *context, const BpCopy *copy, void *stream) {
  Lazy *lazy = context;
  (void)stream;
  int is_own_place = copy->from == copy->to && copy->from_offset == copy->to_offset;
  if (copy->from_device.device_type == BP_DEVICE_CPU && !is_own_place) {
    run(lazy); /* the source has been read when the call returns */
    g_assert_true(g_queue_is_empty(&lazy->work));
    memcpy((char *)copy->to + copy->to_offset, (const char *)copy->from + copy->from_offset,
           copy->size);
    return 0;
  }
  queue(lazy, (Work){.copy = *copy});
  return 0;
}

static int32_t lazy_free(void *context, int32_t device_id, void *handle) {
  Lazy *lazy = context;
  (void)device_id;
  for (const GList *at = lazy->work.head; at; at = at->next) {
    const Work *work = at->data;
    g_assert_true(!work->copy.size || (work->copy.from != handle && work->copy.to != handle));
  }
  if (!g_hash_table_remove(lazy->imports, handle))
    free(handle);
  return 0;
}

static int32_t lazy_sync(void *context, int32_t device_id, void *stream) {
  Lazy *lazy = context;
  (void)device_id;
  (void)stream;
  lazy->num_syncs++;
  run(lazy);
  g_assert_true(g_queue_is_empty(&lazy->work));
  int has_failed = lazy->has_failed;
  lazy->has_failed = 0;
  return has_failed ? bp_error_raise(BP_ERROR_DEVICE, "it failed, as it should") : 0;
}

static int32_t event_create(void *context, int32_t device_id, BpDeviceEvent **event) {
  (void)device_id;
  *event = g_new0(BpDeviceEvent, 1);
  (*event)->device = context;
  return 0;
}

static int32_t event_free(void *context, BpDeviceEvent *event) {
  (void)context;
  drop(event->latest);
  g_free(event);
  return 0;
}

static Record *renew(BpDeviceEvent *event) {
  drop(event->latest);
  event->latest = g_new0(Record, 1);
  event->latest->references = 1;
  return event->latest;
}

static int32_t event_record(void *context, BpDeviceEvent *event, void *stream) {
  (void)stream;
  queue(context, (Work){.reach = keep(renew(event))});
  return 0;
}

static int32_t event_wait(void *context, BpDeviceEvent *event, void *stream) {
  (void)stream;
  if (event->latest)
    queue(context, (Work){.wait = keep(event->latest)});
  return 0;
}

static int32_t event_query(void *context, BpDeviceEvent *event, int32_t *state) {
  (void)context;
  *state = event->latest ? event->latest->state : BP_EVENT_COMPLETE;
  return 0;
}

static Lazy sender, receiver, late, plain; /* "late" has no hold; "plain" has no events */
static const Lazy *waited_for;             /* first source of a waited-for event, or NULL */
static int num_imports;

static int32_t event_synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                                 int32_t *state) {
  if (timeout_ns == BP_WAIT_FOREVER && event->latest && !event->latest->state) {
    waited_for = waited_for ? waited_for : event->device;
    run(&sender);
    run(&receiver);
    run(&sender);
    run(&late);
    g_assert_true(event->latest->state); /* a waiting caller would wait for ever */
  }
  return event_query(context, event, state);
}

static int32_t event_notify(void *context, BpDeviceEvent *event, void (*done)(void *user),
                            void *user) {
  (void)context;
  Record *record = event->latest;
  g_assert_true(!record || !record->done);
  if (!record || record->state)
    done(user);
  else
    *record = (Record){record->references, 0, done, user};
  return 0;
}

static int32_t event_hold(void *context, BpDeviceEvent *event) {
  (void)context;
  renew(event);
  return 0;
}

static int32_t event_signal(void *context, BpDeviceEvent *event) {
  (void)context;
  complete(event->latest, BP_EVENT_COMPLETE);
  return 0;
}

static const BpEventsApi held_events = {.struct_size = sizeof(BpEventsApi),
                                        .create = event_create,
                                        .free = event_free,
                                        .record = event_record,
                                        .wait = event_wait,
                                        .query = event_query,
                                        .synchronize = event_synchronize,
                                        .notify = event_notify,
                                        .hold = event_hold,
                                        .signal = event_signal};
static const BpEventsApi late_events = {.struct_size = offsetof(BpEventsApi, hold),
                                        .create = event_create,
                                        .free = event_free,
                                        .record = event_record,
                                        .wait = event_wait,
                                        .query = event_query,
                                        .synchronize = event_synchronize,
                                        .notify = event_notify};

static int32_t get_forms(void *context, int32_t device_id, uint64_t *imports, uint64_t *exports,
                         uint64_t *alignment) {
  (void)context;
  (void)device_id;
  *imports = BP_EXTERNAL_HOST_POINTER | BP_EXTERNAL_IN_TURN;
  *exports = 0;
  *alignment = 16384;
  return 0;
}

static int32_t import_memory(void *context, int32_t device_id, const BpExternalMemory *memory,
                             void **handle) {
  Lazy *lazy = context;
  (void)device_id;
  *handle = memory->address;
  num_imports++;
  g_hash_table_add(lazy->imports, *handle);
  return 0;
}

static int32_t export_memory(void *context, int32_t device_id, const BpAllocation *allocation,
                             BpExternalMemory *memory, void **handle) {
  (void)context;
  (void)device_id;
  (void)allocation;
  (void)memory;
  (void)handle;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "it exports nothing");
}

static const BpExternalMemoryApi in_turn = {.struct_size = sizeof(BpExternalMemoryApi),
                                            .get_forms = get_forms,
                                            .import_memory = import_memory,
                                            .export_memory = export_memory};

static const void *get_extension(void *context, const char *name, uint32_t version) {
  const Lazy *lazy = context;
  g_assert_cmpint(version, ==, 1);
  return !strcmp(name, BP_EXTENSION_EVENTS)            ? (const void *)lazy->events
         : !strcmp(name, BP_EXTENSION_EXTERNAL_MEMORY) ? (const void *)lazy->external
                                                       : NULL;
}

#define KIND(NAME, NUMBER)                                                                         \
  static const BpDeviceApi NAME##_api = {.struct_size = sizeof(BpDeviceApi),                       \
                                         .device_type = 61440 + (NUMBER),                          \
                                         .name = #NAME,                                            \
                                         .context = &(NAME),                                       \
                                         .get_device_count = bare_count,                           \
                                         .get_attr = bare_attr,                                    \
                                         .alloc_data_space = bare_host_alloc,                      \
                                         .free_data_space = lazy_free,                             \
                                         .copy = lazy_copy,                                        \
                                         .stream_sync = lazy_sync,                                 \
                                         .get_extension = get_extension}

KIND(sender, 91);
KIND(receiver, 92);
KIND(late, 93);
KIND(plain, 94);

static void add_kinds(void) {
  static Lazy *const all[] = {&sender, &receiver, &late, &plain};
  sender.events = receiver.events = &held_events;
  sender.external = receiver.external = late.external = &in_turn;
  late.events = &late_events;
  for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
    all[i]->imports = g_hash_table_new(NULL, NULL);
  assert_ok(bare_register("device_api.sender", &sender_api));
  assert_ok(bare_register("device_api.receiver", &receiver_api));
  assert_ok(bare_register("device_api.late", &late_api));
  assert_ok(bare_register("device_api.plain", &plain_api));
}

/* ---- Helpers ----------------------------------------------------------------------------- */

static char *alloc(BpDevice device, size_t size) {
  void *handle;
  const BpAllocation allocation = {.struct_size = sizeof allocation,
                                   .size = size,
                                   .alignment = 64,
                                   .dtype = {BP_DTYPE_UINT, 8, 1}};
  assert_ok(bp_device_alloc(device, &allocation, &handle));
  return handle;
}

static BpCopy copy_of(BpDevice from_device, const void *from, BpDevice to_device, void *to,
                      size_t size) {
  return (BpCopy){sizeof(BpCopy), from, 0, from_device, to, 0, to_device, size, 0};
}

static void copy_between(BpDevice from_device, const void *from, void *from_stream,
                         BpDevice to_device, void *to, void *to_stream, size_t size) {
  const BpCopy copy = copy_of(from_device, from, to_device, to, size);
  assert_ok(bp_device_copy_between(&copy, from_stream, to_stream));
}

/* Copies within a device, or between it and the host. */
static void copy_on(BpDevice from_device, const void *from, BpDevice to_device, void *to,
                    void *stream, size_t size) {
  const BpCopy copy = copy_of(from_device, from, to_device, to, size);
  assert_ok(bp_device_copy(&copy, stream));
}

/* ---- Devices of the test ----------------------------------------------------------------- */

/* Work queued before and after a copy, on both sides, runs in order with the copy, and the call
 * does no work. */
static void test_copy_keeps_the_order_of_both_streams(void) {
  BpDevice one = device_of("sender:0"), other = device_of("receiver:0");
  char *old = alloc(one, SIZE), *from = alloc(one, SIZE), *new = alloc(one, SIZE);
  char *to = alloc(other, SIZE), *before = alloc(other, SIZE), *after = alloc(other, SIZE);
  memset(old, 'o', SIZE);
  memset(from, 'x', SIZE);
  memset(new, 'n', SIZE);
  memset(to, 't', SIZE);
  memset(before, 'x', SIZE);
  memset(after, 'x', SIZE);
  copy_on(one, old, one, from, NULL, SIZE);
  copy_on(other, to, other, before, NULL, SIZE);
  copy_between(one, from, NULL, other, to, NULL, SIZE);
  copy_on(one, new, one, from, NULL, SIZE);
  copy_on(other, to, other, after, NULL, SIZE);
  g_assert_cmpint(from[0], ==, 'x');
  g_assert_cmpint(to[0], ==, 't');
  run(&receiver);
  g_assert_cmpint(before[SIZE - 1], ==, 't');
  g_assert_cmpint(to[0], ==, 't'); /* the sender has done no work */
  run(&sender);
  g_assert_cmpint(from[SIZE - 1], ==, 'n');
  g_assert_cmpint(to[0], ==, 't');
  run(&receiver);
  g_assert_cmpint(to[SIZE - 1], ==, 'o');
  g_assert_cmpint(after[0], ==, 'o');
  g_assert_true(g_queue_is_empty(&sender.work) && g_queue_is_empty(&receiver.work));
  g_assert_cmpint(sender.num_syncs + receiver.num_syncs, ==, 0);
  char *const of_one[] = {old, from, new}, *const of_other[] = {to, before, after};
  for (int i = 0; i < 3; i++) {
    assert_ok(bp_device_free(one, of_one[i]));
    assert_ok(bp_device_free(other, of_other[i]));
  }
}

/* lazy_free asserts that no queued work uses the freed memory; memory.c's allocations are freed so
 * that ASan can check. */
static void test_freed_transfer_is_kept_until_its_work_has_ended(void) {
  BpDevice one = device_of("sender:0"), other = device_of("receiver:0");
  char *from = alloc(one, SIZE), *to = alloc(other, SIZE);
  BpTransfer *transfer = bp_transfer_create(one, other, SIZE);
  assert_ok(!transfer);
  for (int round = 0; round < 3; round++) {
    memset(from, 'a' + round, SIZE);
    assert_ok(bp_transfer_send(transfer, from, 0, SIZE, NULL));
    run(&sender);
    assert_ok(bp_transfer_receive(transfer, to, 0, SIZE, NULL));
  }
  /* The second and third filling waited for the previous reading. */
  run(&receiver);
  g_assert_cmpint(to[0], ==, 'a');
  guint imports = g_hash_table_size(receiver.imports);
  bp_transfer_free(transfer);
  g_assert_cmpint(g_hash_table_size(receiver.imports), ==, imports);
  for (int i = 0; i < 3; i++) {
    run(&sender);
    run(&receiver);
  }
  g_assert_cmpint(to[SIZE - 1], ==, 'c');
  g_assert_true(g_queue_is_empty(&sender.work) && g_queue_is_empty(&receiver.work));
  transfer = bp_transfer_create(one, other, SIZE);
  assert_ok(!transfer);
  imports = g_hash_table_size(receiver.imports);
  bp_transfer_free(transfer); /* nothing is queued */
  g_assert_cmpint(g_hash_table_size(receiver.imports), ==, imports - 1);
  bp_transfer_free(NULL);
  assert_ok(bp_device_free(one, from));
  assert_ok(bp_device_free(other, to));
}

/* A thread that sends queues the filling alone; the host's bytes may change after each half. */
static void test_transfer_goes_to_the_host_and_back(void) {
  BpDevice one = device_of("sender:0");
  char *there = alloc(one, SIZE);
  g_autofree char *here = g_malloc(SIZE), *back = g_malloc0(SIZE);
  BpTransfer *to = bp_transfer_create(host, one, SIZE), *from = bp_transfer_create(one, host, SIZE);
  assert_ok(!to || !from);
  for (int round = 0; round < 3; round++) {
    memset(here, 'a' + round, SIZE);
    assert_ok(bp_transfer_send(to, here, 0, SIZE, NULL));
    memset(here, '-', SIZE);
    assert_ok(bp_transfer_receive(to, there, 0, SIZE, NULL));
    assert_ok(bp_transfer_send(from, there, 0, SIZE, NULL));
    memset(back, '-', SIZE);
    assert_ok(bp_transfer_receive(from, back, 0, SIZE, NULL));
    g_assert_cmpint(back[0], ==, 'a' + round);
    g_assert_cmpint(back[SIZE - 1], ==, 'a' + round);
  }
  bp_transfer_free(to);
  bp_transfer_free(from);
  assert_ok(bp_stream_sync(one, NULL));
  assert_ok(bp_device_free(one, there));
}

/* At most 64 MiB of staging memory are under way: the copy that needs more waits for the first. */
static void test_copies_wait_for_the_oldest_of_64_mib(void) {
  const size_t size = 4 * PART - 12345;
  BpDevice one = device_of("sender:0"), other = device_of("receiver:0");
  char *from = alloc(one, size), *to = alloc(other, size), *more = alloc(other, SIZE);
  for (size_t i = 0; i < size; i += 4096)
    memset(from + i, (int)(i / 4096 % 251), MIN(size - i, (size_t)4096));
  memset(to, 255, size);
  assert_ok(bp_stream_sync(one, NULL));
  copy_between(one, from, NULL, other, to, NULL, size);
  g_assert_cmpint((unsigned char)to[0], ==, 255);
  copy_between(one, from, NULL, other, more, NULL, SIZE);
  g_assert_cmpint(memcmp(to, from, size), ==, 0);
  run(&sender);
  run(&receiver);
  g_assert_cmpint(memcmp(more, from, SIZE), ==, 0);
  assert_ok(bp_device_free(one, from));
  assert_ok(bp_device_free(other, to));
  assert_ok(bp_device_free(other, more));
}

/* A copy beyond the limit waits for the oldest copy, although other copies requested its memory
 * since, and uses that memory. */
static void test_copies_reuse_the_oldest(void) {
  BpDevice one = device_of("sender:0"), other = device_of("receiver:0");
  char *from = alloc(one, PART), *to = alloc(other, PART);
  char *back = alloc(one, PART), *fro = alloc(other, PART);
  memset(from, 'x', PART);
  memset(fro, 'y', PART);
  waited_for = NULL;
  copy_between(one, from, NULL, other, to, NULL, PART);
  copy_between(other, fro, NULL, one, back, NULL, PART);
  copy_between(one, from, NULL, other, to, NULL, PART);
  copy_between(one, from, NULL, other, to, NULL, PART);
  g_assert_null(waited_for);
  num_imports = 0;
  copy_between(one, from, NULL, other, to, NULL, PART);
  g_assert_true(waited_for == &sender);
  g_assert_cmpint(num_imports, ==, 0);
  for (int i = 0; i < 2; i++) {
    run(&sender);
    run(&receiver);
  }
  g_assert_true(g_queue_is_empty(&sender.work) && g_queue_is_empty(&receiver.work));
  g_assert_cmpint(memcmp(to, from, PART), ==, 0);
  g_assert_cmpint(memcmp(back, fro, PART), ==, 0);
  assert_ok(bp_device_free(one, from));
  assert_ok(bp_device_free(one, back));
  assert_ok(bp_device_free(other, to));
  assert_ok(bp_device_free(other, fro));
}

/* Freeing a transfer does not wait: not if more than 64 MiB are retired, and not for a source that
 * has no events. */
static void test_freeing_does_not_wait(void) {
  BpDevice one = device_of("sender:0"), other = device_of("receiver:0");
  BpDevice unasked = device_of("plain:0");
  char *from = alloc(one, SIZE), *to = alloc(other, SIZE), *source = alloc(unasked, SIZE);
  BpTransfer *large = bp_transfer_create(one, other, 5 * PART);
  BpTransfer *half = bp_transfer_create(unasked, other, SIZE);
  assert_ok(!large || !half);
  memset(from, 'x', SIZE);
  waited_for = NULL;
  assert_ok(bp_transfer_send(large, from, 0, SIZE, NULL));
  assert_ok(bp_transfer_receive(large, to, 0, SIZE, NULL));
  bp_transfer_free(large);
  g_assert_null(waited_for);
  g_assert_false(g_queue_is_empty(&receiver.work));
  int num_syncs = plain.num_syncs;
  assert_ok(bp_transfer_send(half, source, 0, SIZE, NULL));
  bp_transfer_free(half);
  g_assert_cmpint(plain.num_syncs, ==, num_syncs);
  g_assert_false(g_queue_is_empty(&plain.work));
  assert_ok(bp_stream_sync(unasked, NULL));
  run(&sender);
  run(&receiver);
  g_assert_cmpint(memcmp(to, from, SIZE), ==, 0);
  /* The next freed transfer frees idle ones, down to 64 MiB. */
  guint imports = g_hash_table_size(receiver.imports);
  BpTransfer *next = bp_transfer_create(one, other, SIZE);
  assert_ok(!next);
  bp_transfer_free(next);
  g_assert_cmpint(g_hash_table_size(receiver.imports), <, imports);
  assert_ok(bp_device_free(one, from));
  assert_ok(bp_device_free(other, to));
  assert_ok(bp_device_free(unasked, source));
}

/* Copies through the host: the call waits, and raises the failure of the source's work. */
static void expect_emulation(const char *from_kind, Lazy *from_lazy, const char *to_kind) {
  BpDevice one = device_of(from_kind), other = device_of(to_kind);
  char *from = alloc(one, SIZE), *to = alloc(other, SIZE), *new = alloc(one, SIZE);
  memset(from, 'x', SIZE);
  memset(new, 'n', SIZE);
  copy_on(one, new, one, from, NULL, SIZE);
  copy_between(one, from, NULL, other, to, NULL, SIZE);
  g_assert_cmpint(to[SIZE - 1], ==, 'n');
  queue(from_lazy, (Work){.fails = 1});
  const BpCopy copy = copy_of(one, from, other, to, SIZE);
  assert_raises(bp_device_copy_between(&copy, NULL, NULL), BP_ERROR_DEVICE);
  copy_between(one, from, NULL, other, to, NULL, SIZE);
  assert_ok(bp_device_free(one, from));
  assert_ok(bp_device_free(one, new));
  assert_ok(bp_device_free(other, to));
}

static void test_caller_waits_for_what_a_device_cannot(void) {
  expect_emulation("sender:0", &sender, "late:0");
  expect_emulation("sender:0", &sender, "plain:0");
  expect_emulation("plain:0", &plain, "receiver:0");
  expect_emulation("plain:0", &plain, "late:0");
}

/* A failure belongs to the stream whose work failed; the destination's work continues. */
static void test_failure_stays_with_its_stream(void) {
  BpDevice one = device_of("sender:0"), other = device_of("receiver:0");
  char *from = alloc(one, SIZE), *to = alloc(other, SIZE);
  queue(&sender, (Work){.fails = 1});
  copy_between(one, from, NULL, other, to, NULL, SIZE);
  assert_raises(bp_stream_sync(one, NULL), BP_ERROR_DEVICE);
  assert_ok(bp_stream_sync(other, NULL));
  assert_ok(bp_device_free(one, from));
  assert_ok(bp_device_free(other, to));
}

static void test_bad_arguments_are_errors(void) {
  BpDevice one = device_of("sender:0"), other = device_of("receiver:0");
  char bytes[16];
  int no_stream;
  BpCopy copy = copy_of(one, bytes, other, bytes, sizeof bytes);
  assert_raises(bp_device_copy_between(NULL, NULL, NULL), BP_ERROR_VALUE);
  assert_raises(bp_device_copy_between(&copy, &no_stream, NULL), BP_ERROR_VALUE);
  assert_raises(bp_device_copy_between(&copy, NULL, &no_stream), BP_ERROR_VALUE);
  copy.flags = 1;
  assert_raises(bp_device_copy_between(&copy, NULL, NULL), BP_ERROR_VALUE);
  copy = copy_of(one, NULL, other, NULL, 0);
  assert_ok(bp_device_copy_between(&copy, NULL, NULL));
  g_assert_null(bp_transfer_create(one, other, UINT64_MAX));
  g_assert_nonnull(strstr(bp_error_message(), "18446744073709551615 bytes"));
  assert_raises(-1, BP_ERROR_VALUE);
  one.device_id = 9;
  assert_raises(bp_transfer_create(one, other, 1) ? 0 : -1, BP_ERROR_NOT_FOUND);
  one.device_id = 0;
  BpTransfer *transfer = bp_transfer_create(one, other, 16);
  assert_ok(!transfer);
  assert_raises(bp_transfer_send(NULL, bytes, 0, 16, NULL), BP_ERROR_VALUE);
  assert_raises(bp_transfer_receive(NULL, bytes, 0, 16, NULL), BP_ERROR_VALUE);
  assert_raises(bp_transfer_send(transfer, bytes, 0, (uint64_t)1 << 20, NULL), BP_ERROR_VALUE);
  assert_raises(bp_transfer_receive(transfer, bytes, 0, (uint64_t)1 << 20, NULL), BP_ERROR_VALUE);
  bp_transfer_free(transfer);
}

/* ---- Devices of this machine ------------------------------------------------------------- */

typedef struct Pair {
  BpDevice devices[2];
} Pair;

static void *make_stream(BpDevice device) {
  void *stream;
  assert_ok(bp_stream_create(device, &stream));
  return stream;
}

/* Bytes are copied back and forth, with the memory changed after each copy, before any wait. */
static void test_bytes_go_to_and_fro(gconstpointer data) {
  enum { HOPS = 12 };
  const Pair *pair = data;
  g_autofree char *out = g_malloc(SIZE), *in = g_malloc0(SIZE), *noise = g_malloc(SIZE);
  void *streams[2], *handles[2][3];
  for (size_t i = 0; i < SIZE; i++)
    out[i] = (char)(i * 7 + i / 251);
  memset(noise, 'n', SIZE);
  for (int i = 0; i < 2; i++) {
    streams[i] = make_stream(pair->devices[i]);
    for (int k = 0; k < 3; k++)
      handles[i][k] = alloc(pair->devices[i], SIZE);
    copy_on(host, noise, pair->devices[i], handles[i][2], streams[i], SIZE);
  }
  copy_on(host, out, pair->devices[0], handles[0][0], streams[0], SIZE);
  for (int i = 0; i < HOPS; i++) {
    int at = i % 2, to = !at;
    BpDevice device = pair->devices[at];
    copy_between(device, handles[at][0], streams[at], pair->devices[to], handles[to][1],
                 streams[to], SIZE);
    copy_on(device, handles[at][2], device, handles[at][0], streams[at], SIZE);
    copy_on(pair->devices[to], handles[to][1], pair->devices[to], handles[to][0], streams[to],
            SIZE);
  }
  copy_between(pair->devices[0], handles[0][0], streams[0], host, in, NULL, SIZE);
  assert_ok(bp_stream_sync(pair->devices[0], streams[0]));
  g_assert_cmpmem(in, SIZE, out, SIZE);
  for (int i = 0; i < 2; i++) {
    assert_ok(bp_stream_sync(pair->devices[i], streams[i]));
    assert_ok(bp_stream_free(pair->devices[i], streams[i]));
    for (int k = 0; k < 3; k++)
      assert_ok(bp_device_free(pair->devices[i], handles[i][k]));
  }
}

/* The source's stream waits for a device of the test, which has not begun; the streams are freed
 * while they wait. */
static void test_call_does_not_wait(gconstpointer data) {
  const Pair *pair = data;
  BpDevice one = pair->devices[0], other = pair->devices[1], gate = device_of("sender:0");
  int32_t state;
  g_autofree char *out = g_malloc(SIZE), *in = g_malloc0(SIZE);
  memset(out, 'x', SIZE);
  void *from_stream = make_stream(one), *to_stream = make_stream(other);
  void *from = alloc(one, SIZE), *to = alloc(other, SIZE);
  BpEvent *opened = bp_event_create(gate), *done = bp_event_create(other);
  copy_on(host, out, one, from, from_stream, SIZE);
  assert_ok(bp_event_record(opened, NULL));
  assert_ok(bp_stream_wait_event(one, from_stream, opened));
  for (int i = 0; i < 4; i++)
    copy_between(one, from, from_stream, other, to, to_stream, SIZE);
  assert_ok(bp_event_record(done, to_stream));
  assert_ok(bp_event_query(done, &state));
  g_assert_cmpint(state, ==, BP_EVENT_PENDING);
  run(&sender);
  assert_ok(bp_stream_free(one, from_stream));
  assert_ok(bp_event_synchronize(done, BP_WAIT_FOREVER, &state));
  copy_on(other, to, host, in, to_stream, SIZE);
  assert_ok(bp_stream_sync(other, to_stream));
  g_assert_cmpmem(in, SIZE, out, SIZE);
  assert_ok(bp_stream_free(other, to_stream));
  bp_event_free(opened);
  bp_event_free(done);
  assert_ok(bp_device_free(one, from));
  assert_ok(bp_device_free(other, to));
}

static void test_two_streams_of_one_device(gconstpointer data) {
  BpDevice device = device_of(data);
  g_autofree char *out = g_malloc(SIZE), *in = g_malloc0(SIZE);
  memset(out, 'x', SIZE);
  void *first = make_stream(device), *second = make_stream(device);
  void *from = alloc(device, SIZE), *to = alloc(device, SIZE);
  copy_on(host, out, device, from, first, SIZE);
  copy_between(device, from, first, device, to, second, SIZE);
  copy_between(device, to, second, host, in, NULL, SIZE);
  assert_ok(bp_stream_sync(device, second));
  g_assert_cmpmem(in, SIZE, out, SIZE);
  assert_ok(bp_stream_sync(device, first));
  assert_ok(bp_stream_free(device, first));
  assert_ok(bp_stream_free(device, second));
  assert_ok(bp_device_free(device, from));
  assert_ok(bp_device_free(device, to));
}

static void test_stream_of_the_hosts_end_is_ignored(gconstpointer data) {
  BpDevice device = device_of(data);
  char out[16] = "to and fro", in[16] = "";
  void *stream = make_stream(device), *memory = alloc(device, sizeof out);
  copy_between(host, out, stream, device, memory, stream, sizeof out);
  copy_between(device, memory, stream, host, in, stream, sizeof in);
  assert_ok(bp_stream_sync(device, stream));
  g_assert_cmpstr(in, ==, out);
  assert_ok(bp_stream_free(device, stream));
  assert_ok(bp_device_free(device, memory));
}

/* Threads copy between the same devices at once. */
static gpointer copy_in_thread(gpointer data) {
  for (int i = 0; i < 5; i++)
    test_bytes_go_to_and_fro(data);
  return NULL;
}

static void test_threads_copy_at_once(gconstpointer data) {
  GThread *threads[3];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    threads[i] = g_thread_new(NULL, copy_in_thread, (gpointer)(uintptr_t)data);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_thread_join(threads[i]);
}

/* ---- Under validate, and isolated -------------------------------------------------------- */

static const char *program;

/* Runs the tests of this machine's devices in a separate process, which must not warn. */
static void test_again_with(gconstpointer data) {
  g_autofree char *errors = NULL, *output = NULL;
  char *arguments[] = {(char *)(uintptr_t)program, (char *)"-r", (char *)"/transfer/devices", NULL};
  g_auto(GStrv) setting = g_strsplit(data, "=", 2);
  g_auto(GStrv) environment = g_environ_setenv(g_get_environ(), setting[0], setting[1], TRUE);
  int status;
  g_assert_true(g_spawn_sync(NULL, arguments, environment, G_SPAWN_SEARCH_PATH, NULL, NULL, &output,
                             &errors, &status, NULL));
  if (status != 0 || !strstr(output, "\nok 1 ") || strstr(errors, "validate"))
    g_error("with %s it ended with %d:\n%s\n%s", (const char *)data, status, output, errors);
}

static int is_in_turn(BpDevice device) {
  uint64_t imports;
  assert_ok(bp_device_memory_forms(device, &imports, NULL, NULL));
  return (imports & BP_EXTERNAL_IN_TURN) != 0;
}

static void add_pair(const char *one, const char *other) {
  const Pair pair = {{device_of(one), device_of(other)}};
  const struct {
    const char *name;
    void (*test)(gconstpointer pair);
  } tests[] = {{"bytes-go-to-and-fro", test_bytes_go_to_and_fro},
               {"threads-copy-at-once", test_threads_copy_at_once},
               {"call-does-not-wait", test_call_does_not_wait}}; /* the last run: both in turn */
  size_t count =
      G_N_ELEMENTS(tests) - !(is_in_turn(pair.devices[0]) && is_in_turn(pair.devices[1]));
  for (size_t i = 0; i < count; i++) {
    g_autofree char *path =
        g_strdup_printf("/transfer/devices/%s to %s/%s", one, other, tests[i].name);
    g_test_add_data_func_full(path, g_memdup2(&pair, sizeof pair), tests[i].test, g_free);
  }
}

static int is_there(const char *text) {
  BpDevice device;
  void *handle = NULL;
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 1, .alignment = 1};
  int rc = bp_device_parse(text, &device) || bp_device_alloc(device, &allocation, &handle) ||
           bp_device_free(device, handle);
  bp_error_clear();
  return !rc;
}

static void add_devices(void) {
  g_auto(GStrv) devices = bare_list_devices(DEFAULT_DEVICES);
  for (size_t i = 0; devices[i]; i++) {
    if (!is_there(devices[i]))
      continue;
    g_autofree char *path = g_strdup_printf("/transfer/devices/%s/two-streams", devices[i]);
    g_test_add_data_func_full(path, g_strdup(devices[i]), test_two_streams_of_one_device, g_free);
    g_autofree char *ignored =
        g_strdup_printf("/transfer/devices/%s/stream-of-the-hosts-end-is-ignored", devices[i]);
    g_test_add_data_func_full(ignored, g_strdup(devices[i]),
                              test_stream_of_the_hosts_end_is_ignored, g_free);
    for (size_t k = 0; devices[k]; k++)
      if (k != i && is_there(devices[k]))
        add_pair(devices[i], devices[k]);
  }
}

static void show_log(void *context, int32_t level, const char *message) {
  (void)context;
  (void)level;
  fprintf(stderr, "%s\n", message);
}

int main(int argc, char **argv) {
  program = argv[0];
  bp_log_set_callback(show_log, NULL);
  g_setenv("POCL_DEVICES", "pthread pthread", FALSE);
  g_test_init(&argc, &argv, NULL);
  add_kinds();
  g_test_add_func("/transfer/copy-keeps-the-order-of-both-streams",
                  test_copy_keeps_the_order_of_both_streams);
  g_test_add_func("/transfer/transfer-goes-to-the-host-and-back",
                  test_transfer_goes_to_the_host_and_back);
  g_test_add_func("/transfer/freed-transfer-is-kept-until-its-work-has-ended",
                  test_freed_transfer_is_kept_until_its_work_has_ended);
  g_test_add_func("/transfer/copies-wait-for-the-oldest-of-64-mib",
                  test_copies_wait_for_the_oldest_of_64_mib);
  g_test_add_func("/transfer/copies-reuse-the-oldest", test_copies_reuse_the_oldest);
  g_test_add_func("/transfer/freeing-does-not-wait", test_freeing_does_not_wait);
  g_test_add_func("/transfer/caller-waits-for-what-a-device-cannot",
                  test_caller_waits_for_what_a_device_cannot);
  g_test_add_func("/transfer/failure-stays-with-its-stream", test_failure_stays_with_its_stream);
  g_test_add_func("/transfer/bad-arguments-are-errors", test_bad_arguments_are_errors);
  add_devices();
  g_test_add_data_func("/transfer/under-validate", "BACKPLANE_LAYERS=validate", test_again_with);
  g_test_add_data_func("/transfer/isolated", "BACKPLANE_ISOLATE=opencl", test_again_with);
  return g_test_run();
}
