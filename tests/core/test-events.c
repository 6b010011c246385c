/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the application API: on every device, between devices, and on devices without events.
 *
 * BP_TEST_DEVICES lists the devices, separated by spaces; a missing device is skipped. */

#include "tests/core/asserts.h"
#include "tests/bare_device.h"

#include <backplane/device_extensions.h>
#include <glib.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_DEVICES "simdev:0 simdev:1 cpu:0 opencl:0 vulkan:0"
#define SIZE            ((size_t)40000)

static const BpDevice host = {BP_DEVICE_CPU, 0};

static BpEvent *create(BpDevice device) {
  BpEvent *event = bp_event_create(device);
  assert_ok(event == NULL);
  return event;
}

static int is_complete(BpEvent *event) {
  int32_t answer = -1;
  assert_ok(bp_event_query(event, &answer));
  return answer;
}

static int is_complete_within(BpEvent *event, uint64_t timeout_ns) {
  int32_t answer = -1;
  assert_ok(bp_event_synchronize(event, timeout_ns, &answer));
  return answer;
}

static void *make_stream(BpDevice device) {
  void *stream;
  assert_ok(bp_stream_create(device, &stream));
  return stream;
}

static void *alloc(BpDevice device) {
  void *handle;
  assert_ok(bp_device_alloc(device,
                            &(BpAllocation){.struct_size = sizeof(BpAllocation),
                                            .size = SIZE,
                                            .alignment = 64,
                                            .dtype = {BP_DTYPE_UINT, 8, 1}},
                            &handle));
  return handle;
}

/* ---- A device whose events the test completes -------------------------------------------- */

typedef struct Manual {
  gint is_complete;
  gint frees;
  void (*done)(void *user);
  void *user;
  BpEvent *asked; /* polled while it is recorded, as another thread may do */
  int32_t answer;
} Manual;

static Manual manual;

static int32_t manual_create(void *context, int32_t device_id, BpDeviceEvent **event) {
  (void)context;
  (void)device_id;
  *event = (BpDeviceEvent *)&manual;
  return 0;
}

static int32_t manual_free(void *context, BpDeviceEvent *event) {
  (void)context;
  (void)event;
  g_atomic_int_inc(&manual.frees);
  return 0;
}

static int32_t manual_record(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  (void)event;
  (void)stream;
  if (manual.asked && bp_event_query(manual.asked, &manual.answer))
    return -1;
  g_atomic_int_set(&manual.is_complete, 0);
  return 0;
}

static int32_t manual_query(void *context, BpDeviceEvent *event, int32_t *answer) {
  (void)context;
  (void)event;
  *answer = g_atomic_int_get(&manual.is_complete);
  return 0;
}

static int32_t manual_synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                                  int32_t *answer) {
  (void)context;
  (void)event;
  while (!g_atomic_int_get(&manual.is_complete) && timeout_ns == BP_WAIT_FOREVER)
    g_usleep(100);
  *answer = g_atomic_int_get(&manual.is_complete);
  return 0;
}

static int32_t manual_notify(void *context, BpDeviceEvent *event, void (*done)(void *user),
                             void *user) {
  (void)context;
  (void)event;
  manual.done = done;
  manual.user = user;
  return 0;
}

static const BpEventsApi manual_events = {.struct_size = sizeof(BpEventsApi),
                                          .create = manual_create,
                                          .free = manual_free,
                                          .record = manual_record,
                                          .wait = manual_record,
                                          .query = manual_query,
                                          .synchronize = manual_synchronize,
                                          .notify = manual_notify};
/* An extension whose table ends before notify: the host must not read beyond it. */
static const BpEventsApi older_events = {.struct_size = offsetof(BpEventsApi, notify),
                                         .create = manual_create,
                                         .free = manual_free,
                                         .record = manual_record,
                                         .wait = manual_record,
                                         .query = manual_query,
                                         .synchronize = manual_synchronize,
                                         .notify = manual_notify};
static const BpEventsApi broken_events = {.struct_size = sizeof(BpEventsApi),
                                          .create = manual_create};

static const void *give_events(void *context, const char *name, uint32_t version) {
  return !strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION ? context
                                                                                      : NULL;
}

/* ---- A device without events, which logs the calls --------------------------------------- */

static gint num_syncs, num_orders, is_failing;

static int32_t note_sync(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  (void)stream;
  g_atomic_int_inc(&num_syncs);
  if (!g_atomic_int_compare_and_exchange(&is_failing, 1, 0))
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME, "the work failed");
}

static int32_t note_order(void *context, int32_t device_id, void *from, void *to) {
  (void)context;
  (void)device_id;
  g_assert_true(from != to);
  g_atomic_int_inc(&num_orders);
  return 0;
}

static int32_t make_any_stream(void *context, int32_t device_id, void **stream) {
  (void)context;
  (void)device_id;
  *stream = g_malloc(1);
  return 0;
}

static int32_t free_any_stream(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  g_free(stream);
  return 0;
}

#define KIND(NAME, NUMBER, EVENTS)                                                                 \
  static const BpDeviceApi NAME##_api = {.struct_size = sizeof(BpDeviceApi),                       \
                                         .device_type = 61440 + (NUMBER),                          \
                                         .name = #NAME,                                            \
                                         .context = (void *)(uintptr_t)(EVENTS),                   \
                                         .get_device_count = bare_count,                           \
                                         .get_attr = bare_attr,                                    \
                                         .alloc_data_space = bare_host_alloc,                      \
                                         .free_data_space = bare_host_free,                        \
                                         .copy = bare_host_copy,                                   \
                                         .create_stream = make_any_stream,                         \
                                         .free_stream = free_any_stream,                           \
                                         .sync_stream_from_to = note_order,                        \
                                         .stream_sync = note_sync,                                 \
                                         .get_extension = give_events}

KIND(manual, 71, &manual_events);
KIND(older, 72, &older_events);
KIND(broken, 73, &broken_events);
KIND(eventless, 74, NULL);

/* ---- On every device --------------------------------------------------------------------- */

/* Queues a path for bytes, from the host through the device to the host. */
static void queue_way(BpDevice device, void *const handles[8], const char *out, char *in,
                      void *stream) {
  const BpCopy first = {sizeof(BpCopy), out, 0, host, handles[0], 0, device, SIZE, 0};
  const BpCopy last = {sizeof(BpCopy), handles[7], 0, device, in, 0, host, SIZE, 0};
  assert_ok(bp_device_copy(&first, stream));
  for (int i = 1; i < 8; i++) {
    const BpCopy next = {sizeof(BpCopy), handles[i - 1], 0, device, handles[i], 0, device, SIZE, 0};
    assert_ok(bp_device_copy(&next, stream));
  }
  assert_ok(bp_device_copy(&last, stream));
}

static void test_complete_event_has_its_bytes(const void *data) {
  BpDevice device = device_of(data);
  void *handles[8], *stream = make_stream(device);
  g_autofree char *out = g_malloc(SIZE), *in = g_malloc(SIZE);
  BpEvent *event = create(device);
  g_assert_true(is_complete(event));
  g_assert_true(is_complete_within(event, 0));
  assert_ok(bp_stream_wait_event(device, stream, event));
  for (int i = 0; i < 8; i++)
    handles[i] = alloc(device);
  for (int round = 0; round < 6; round++) {
    memset(out, 'a' + round, SIZE);
    memset(in, 0, SIZE);
    queue_way(device, handles, out, in, round % 2 ? stream : NULL);
    assert_ok(bp_event_record(event, round % 2 ? stream : NULL));
    while (round < 3 && !is_complete(event))
      g_usleep(50);
    while (round >= 3 && !is_complete_within(event, 50000))
      continue;
    g_assert_cmpmem(in, SIZE, out, SIZE);
  }
  queue_way(device, handles, out, in, stream);
  assert_ok(bp_event_record(event, stream));
  assert_ok(bp_stream_free(device, stream)); /* the event outlives the stream */
  g_assert_true(is_complete_within(event, BP_WAIT_FOREVER));
  bp_event_free(event);
  for (int i = 0; i < 8; i++)
    assert_ok(bp_device_free(device, handles[i]));
}

static void assert_names(int rc, const char *function) {
  g_assert_true(g_str_has_prefix(bp_error_message(), function));
  assert_raises(rc, BP_ERROR_VALUE);
}

static void test_bad_arguments_are_errors(const void *data) {
  BpDevice device = device_of(data);
  int32_t answer;
  int no_stream;
  BpEvent *event = create(device);
  assert_names(bp_event_record(NULL, NULL), "bp_event_record: ");
  assert_raises(bp_event_record(event, &no_stream), BP_ERROR_VALUE);
  assert_names(bp_stream_wait_event(device, NULL, NULL), "bp_stream_wait_event: ");
  assert_raises(bp_stream_wait_event(device, &no_stream, event), BP_ERROR_VALUE);
  assert_names(bp_event_query(event, NULL), "bp_event_query: ");
  assert_raises(bp_event_query(NULL, &answer), BP_ERROR_VALUE);
  assert_raises(bp_event_synchronize(event, 0, NULL), BP_ERROR_VALUE);
  assert_names(bp_event_synchronize(NULL, 0, &answer), "bp_event_synchronize: ");
  device.device_id = 999;
  assert_raises(bp_event_create(device) ? 0 : -1, BP_ERROR_NOT_FOUND);
  bp_event_free(event);
  bp_event_free(NULL);
}

static void test_after_a_fork_events_fail_at_once(const void *data) {
  BpDevice device = device_of(data);
  BpEvent *event = create(device);
  void *handle = alloc(device);
  assert_ok(bp_event_record(event, NULL));
  pid_t child = fork();
  if (child == 0) {
    int32_t answer;
    alarm(20);
    int successes = !bp_event_record(event, NULL) + !bp_stream_wait_event(device, NULL, event) +
                    !bp_event_query(event, &answer) + !bp_event_synchronize(event, 0, &answer) +
                    (bp_event_create(device) != NULL);
    bp_event_free(event);
    _exit(successes);
  }
  int status;
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_true(WIFEXITED(status));
  g_assert_cmpint(WEXITSTATUS(status), ==, 0);
  bp_event_free(event);
  assert_ok(bp_device_free(device, handle));
}

/* A stream of a device waits for another device, also if its event is recorded again and freed
 * meanwhile. */
static void expect_wait(BpDevice other, BpDevice device) {
  void *handles[8], *stream = make_stream(device), *there = make_stream(other);
  g_autofree char *out = g_malloc(SIZE), *in[4] = {NULL};
  BpEvent *event = create(other), *after = create(device);
  memset(out, 'x', SIZE);
  for (int i = 0; i < 8; i++)
    handles[i] = alloc(other);
  for (int i = 0; i < 4; i++) {
    in[i] = g_malloc0(SIZE);
    queue_way(other, handles, out, in[i], there);
    assert_ok(bp_event_record(event, there));
    assert_ok(bp_stream_wait_event(device, stream, event));
  }
  assert_ok(bp_event_record(after, stream));
  bp_event_free(event); /* the waits stay */
  g_assert_true(is_complete_within(after, BP_WAIT_FOREVER));
  for (int i = 0; i < 4; i++) {
    g_assert_cmpmem(in[i], SIZE, out, SIZE);
    g_free(in[i]);
    in[i] = NULL;
  }
  bp_event_free(after);
  assert_ok(bp_stream_free(device, stream));
  assert_ok(bp_stream_free(other, there));
  for (int i = 0; i < 8; i++)
    assert_ok(bp_device_free(other, handles[i]));
}

static void test_streams_wait_for_other_devices(const void *data) {
  expect_wait(device_of("simdev:1"), device_of(data));
  expect_wait(device_of(data), device_of("simdev:1"));
}

/* Work goes from the device to another and back before any wait. */
static void test_waits_follow_each_other(const void *data) {
  enum { HOPS = 20 };
  const BpDevice devices[2] = {device_of(data), device_of("simdev:0")};
  void *streams[2], *handles[2][8];
  BpEvent *events[2];
  g_autofree char *out = g_malloc(SIZE);
  char *in[HOPS];
  memset(out, 'x', SIZE);
  for (int i = 0; i < 2; i++) {
    streams[i] = make_stream(devices[i]);
    events[i] = create(devices[i]);
    for (int k = 0; k < 8; k++)
      handles[i][k] = alloc(devices[i]);
  }
  for (int i = 0; i < HOPS; i++) {
    assert_ok(bp_stream_wait_event(devices[i % 2], streams[i % 2], events[(i + 1) % 2]));
    in[i] = g_malloc0(SIZE);
    queue_way(devices[i % 2], handles[i % 2], out, in[i], streams[i % 2]);
    assert_ok(bp_event_record(events[i % 2], streams[i % 2]));
  }
  g_assert_true(is_complete_within(events[(HOPS - 1) % 2], BP_WAIT_FOREVER));
  for (int i = 0; i < HOPS; i++) {
    g_assert_cmpmem(in[i], SIZE, out, SIZE);
    g_free(in[i]);
  }
  for (int i = 0; i < 2; i++) {
    bp_event_free(events[i]);
    assert_ok(bp_stream_free(devices[i], streams[i]));
    for (int k = 0; k < 8; k++)
      assert_ok(bp_device_free(devices[i], handles[i][k]));
  }
}

/* Threads record, wait for and query one event, each with streams of its own. */
typedef struct Crowd {
  BpDevice device;
  BpEvent *event;
} Crowd;

static void *join_crowd(void *data) {
  const Crowd *crowd = data;
  for (int i = 0; i < 40; i++) {
    int32_t state;
    void *first = make_stream(crowd->device), *second = make_stream(crowd->device);
    assert_ok(bp_event_record(crowd->event, first));
    assert_ok(bp_stream_wait_event(crowd->device, second, crowd->event));
    assert_ok(bp_stream_free(crowd->device, first));
    assert_ok(bp_event_query(crowd->event, &state));
    assert_ok(bp_stream_wait_event(host, NULL, crowd->event));
    assert_ok(bp_event_record(crowd->event, second));
    assert_ok(bp_event_synchronize(crowd->event, i % 2 ? 1000 : BP_WAIT_FOREVER, &state));
    assert_ok(bp_stream_free(crowd->device, second));
  }
  return NULL;
}

static void test_threads_share_an_event(const void *data) {
  BpDevice device = device_of(data);
  Crowd crowd = {device, create(device)};
  pthread_t threads[4];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, join_crowd, &crowd), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    pthread_join(threads[i], NULL);
  bp_event_free(crowd.event);
}

/* ---- Between devices --------------------------------------------------------------------- */

/* The caller continues while another device's event is pending, and the stream waits. */
static void expect_no_blocking(const char *kind, int calls_back) {
  BpDevice device = device_of("simdev:0"), other = device_of(kind);
  manual = (Manual){.is_complete = 0};
  void *stream = make_stream(device);
  BpEvent *event = create(other), *after = create(device);
  assert_ok(bp_event_record(event, NULL));
  assert_ok(bp_stream_wait_event(device, stream, event));
  assert_ok(bp_event_record(after, stream));
  g_assert_false(is_complete(after));
  g_assert_false(is_complete_within(after, 5000000));
  g_assert_true((manual.done != NULL) == calls_back);
  bp_event_free(event); /* the plugin's event is not freed yet, because it is waited for */
  g_assert_cmpint(g_atomic_int_get(&manual.frees), ==, 0);
  g_atomic_int_set(&manual.is_complete, 1);
  if (calls_back)
    manual.done(manual.user);
  g_assert_true(is_complete_within(after, BP_WAIT_FOREVER));
  while (g_atomic_int_get(&manual.frees) == 0)
    g_usleep(100);
  g_assert_cmpint(manual.frees, ==, 1);
  bp_event_free(after);
  assert_ok(bp_stream_free(device, stream));
}

static void test_driver_calls_back_and_nobody_blocks(void) {
  expect_no_blocking("manual:0", 1);
}

static void test_thread_waits_and_the_caller_does_not(void) {
  expect_no_blocking("older:0", 0);
}

static void *complete_later(void *data) {
  (void)data;
  g_usleep(20000);
  g_atomic_int_set(&manual.is_complete, 1);
  return NULL;
}

/* The host's device, and a device that the host cannot signal, wait during the call. */
static void test_caller_waits_where_the_device_cannot(void) {
  const char *const waiting[] = {"cpu:0", "older:0", "eventless:0"};
  BpDevice other = device_of("manual:0");
  for (size_t i = 0; i < G_N_ELEMENTS(waiting); i++) {
    pthread_t thread;
    BpDevice device = device_of(waiting[i]);
    BpEvent *event = create(other);
    manual = (Manual){.is_complete = 0};
    assert_ok(bp_event_record(event, NULL));
    g_assert_cmpint(pthread_create(&thread, NULL, complete_later, NULL), ==, 0);
    assert_ok(bp_stream_wait_event(device, NULL, event));
    g_assert_true(g_atomic_int_get(&manual.is_complete));
    pthread_join(thread, NULL);
    bp_event_free(event);
  }
}

/* The work of its first recording has not ended. */
static void test_pending_event_is_pending_while_it_is_recorded_again(void) {
  BpEvent *event = create(device_of("manual:0"));
  manual = (Manual){.is_complete = 0};
  assert_ok(bp_event_record(event, NULL));
  manual.asked = event;
  manual.answer = -1;
  assert_ok(bp_event_record(event, NULL));
  g_assert_cmpint(manual.answer, ==, BP_EVENT_PENDING);
  manual.asked = NULL;
  bp_event_free(event);
}

static void test_table_without_a_slot_is_an_error(void) {
  assert_raises(bp_event_create(device_of("broken:0")) ? 0 : -1, BP_ERROR_PLUGIN);
}

/* ---- Without events ---------------------------------------------------------------------- */

static void test_device_without_events_orders_streams(void) {
  BpDevice device = device_of("eventless:0");
  void *first = make_stream(device), *second = make_stream(device);
  BpEvent *event = create(device);
  num_syncs = num_orders = 0;
  assert_ok(bp_event_record(event, first));
  assert_ok(bp_stream_wait_event(device, second, event));
  assert_ok(bp_stream_wait_event(device, first, event));
  g_assert_cmpint(num_orders, ==, 1);
  g_assert_cmpint(num_syncs, ==, 0);
  g_assert_true(is_complete(event));
  g_assert_cmpint(num_syncs, ==, 1);
  g_assert_true(is_complete_within(event, 0)); /* known */
  assert_ok(bp_stream_wait_event(device, second, event));
  g_assert_cmpint(num_syncs, ==, 1);
  g_assert_cmpint(num_orders, ==, 1);
  assert_ok(bp_event_record(event, second));
  is_failing = 1;
  assert_raises(bp_event_synchronize(event, 0, &(int32_t){0}), BP_ERROR_RUNTIME);
  assert_ok(bp_event_synchronize(event, 0, &(int32_t){0}));
  assert_ok(bp_event_record(event, second));
  num_syncs = 0;
  assert_ok(bp_stream_free(device, second)); /* waits for all work that the event stands for */
  g_assert_cmpint(num_syncs, ==, 1);
  g_assert_true(is_complete(event));
  g_assert_cmpint(num_syncs, ==, 1);
  assert_ok(bp_stream_free(device, first));
  bp_event_free(event);
}

/* ---- The list of tests ------------------------------------------------------------------- */

static const struct {
  const char *path;
  GTestDataFunc test;
} tests[] = {
    {"complete-event-has-its-bytes", test_complete_event_has_its_bytes},
    {"bad-arguments-are-errors", test_bad_arguments_are_errors},
    {"streams-wait-for-other-devices", test_streams_wait_for_other_devices},
    {"waits-follow-each-other", test_waits_follow_each_other},
    {"threads-share-an-event", test_threads_share_an_event},
    {"after-a-fork-events-fail-at-once", test_after_a_fork_events_fail_at_once},
};

static void add_tests(const char *text) {
  BpDevice device;
  BpValue value = {.type_index = BP_TYPE_NONE};
  if (bp_device_parse(text, &device) || bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &value)) {
    g_test_message("%s: %s", text, bp_error_message());
    bp_error_clear();
    return;
  }
  bp_value_clear(&value);
  for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
    g_autofree char *path = g_strdup_printf("/events/%s/%s", text, tests[i].path);
    g_test_add_data_func_full(path, g_strdup(text), tests[i].test, g_free);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_auto(GStrv) devices = bare_list_devices(DEFAULT_DEVICES);
  assert_ok(bare_register("device_api.manual", &manual_api));
  assert_ok(bare_register("device_api.older", &older_api));
  assert_ok(bare_register("device_api.broken", &broken_api));
  assert_ok(bare_register("device_api.eventless", &eventless_api));
  for (char **device = devices; *device; device++)
    add_tests(*device);
  g_test_add_data_func("/events/eventless:0/threads-share-an-event", "eventless:0",
                       test_threads_share_an_event);
  g_test_add_func("/events/driver-calls-back-and-nobody-blocks",
                  test_driver_calls_back_and_nobody_blocks);
  g_test_add_func("/events/thread-waits-and-the-caller-does-not",
                  test_thread_waits_and_the_caller_does_not);
  g_test_add_func("/events/caller-waits-where-the-device-cannot",
                  test_caller_waits_where_the_device_cannot);
  g_test_add_func("/events/pending-event-is-pending-while-it-is-recorded-again",
                  test_pending_event_is_pending_while_it_is_recorded_again);
  g_test_add_func("/events/table-without-a-slot-is-an-error",
                  test_table_without_a_slot_is_an_error);
  g_test_add_func("/events/device-without-events-orders-streams",
                  test_device_without_events_orders_streams);
  return g_test_run();
}
