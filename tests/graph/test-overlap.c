/* SPDX-License-Identifier: Apache-2.0 */
/* A graph on a device and the host: the device gets its work before the host waits or works, which
 * the order of calls shows. The device does its work only when a caller waits for it. */
#include "tests/bare_device.h"
#include "tests/graph/call_graph.h"
#include "tests/process_usage.h"

#include <backplane/device_extensions.h>
#include <backplane/graph/executor.h>
#include <backplane/tensor.h>
#include <glib.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT 4
#define LATER (61440 + 85) /* the device types */
#define OTHER (61440 + 86)

/* ---- The device -------------------------------------------------------------------------- */

typedef struct Work {
  float *to;
  const float *from[2];
  float more;
  int fails;
} Work;

struct BpDeviceEvent {
  guint position;
};

static GString *order; /* a letter for each call */
static GArray *queue;  /* of Work */
static guint num_done;
static gboolean has_failed, shall_fail;

static void note(char what) {
  g_string_append_c(order, what);
}

static void run_until(guint position) {
  for (; num_done < position; num_done++) {
    const Work *work = &g_array_index(queue, Work, num_done);
    has_failed |= work->fails;
    for (int i = 0; i < COUNT && !has_failed; i++)
      work->to[i] = work->from[0][i] + (work->from[1] ? work->from[1][i] : 0) + work->more;
  }
}

/* Copies to the device at once, after all queued work; copies to the host later. */
static int32_t copy_later(void *context, const BpCopy *copy, void *stream) {
  (void)context;
  (void)stream;
  const Work work = {.to = copy->to, .from = {copy->from}};
  note(copy->to_device.device_type == BP_DEVICE_CPU ? 'o' : 'i');
  g_assert_cmpuint(copy->size, ==, COUNT * sizeof(float));
  g_array_append_val(queue, work);
  if (copy->to_device.device_type != BP_DEVICE_CPU)
    run_until(queue->len);
  return 0;
}

static int32_t sync_stream(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  (void)stream;
  note('s');
  run_until(queue->len);
  gboolean failed = has_failed;
  has_failed = FALSE;
  return failed ? bp_error_raise(BP_ERROR_DEVICE, "it failed, as it should") : 0;
}

static int32_t event_create(void *context, int32_t device_id, BpDeviceEvent **event) {
  (void)context;
  (void)device_id;
  *event = g_new0(BpDeviceEvent, 1);
  return 0;
}

static int32_t event_free(void *context, BpDeviceEvent *event) {
  (void)context;
  g_free(event);
  return 0;
}

static int32_t event_record(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  (void)stream;
  note('r');
  event->position = queue->len;
  return 0;
}

static int32_t event_query(void *context, BpDeviceEvent *event, int32_t *state) {
  (void)context;
  *state = num_done < event->position ? BP_EVENT_PENDING
           : has_failed               ? BP_EVENT_FAILED
                                      : BP_EVENT_COMPLETE;
  return 0;
}

static int32_t event_synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                                 int32_t *state) {
  g_assert_true(timeout_ns == BP_WAIT_FOREVER);
  note('w');
  run_until(event->position);
  return event_query(context, event, state);
}

static const BpEventsApi events = {.struct_size = sizeof(BpEventsApi),
                                   .create = event_create,
                                   .free = event_free,
                                   .record = event_record,
                                   .wait = event_record,
                                   .query = event_query,
                                   .synchronize = event_synchronize};

static const void *give_events(void *context, const char *name, uint32_t version) {
  return !strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION ? context
                                                                                      : NULL;
}

#define KIND(NAME, NUMBER, EVENTS)                                                                 \
  static const BpDeviceApi NAME##_api = {.struct_size = sizeof(BpDeviceApi),                       \
                                         .device_type = NUMBER,                                    \
                                         .name = #NAME,                                            \
                                         .context = (void *)(uintptr_t)(EVENTS),                   \
                                         .get_device_count = bare_count,                           \
                                         .get_attr = bare_attr,                                    \
                                         .alloc_data_space = bare_host_alloc,                      \
                                         .free_data_space = bare_host_free,                        \
                                         .copy = copy_later,                                       \
                                         .stream_sync = sync_stream,                               \
                                         .get_extension = give_events}
KIND(later, LATER, &events);
KIND(other, OTHER, NULL);

/* ---- Code -------------------------------------------------------------------------------- */

static int on_device(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  const Work work = {.to = args[num_args - 1].v_view->data,
                     .from = {args[0].v_view->data, num_args == 3 ? args[1].v_view->data : NULL},
                     .more = 1,
                     .fails = shall_fail};
  shall_fail = FALSE;
  note('d');
  g_array_append_val(queue, work);
  return 0;
}

static int on_host(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  note('h');
  for (int i = 0; i < COUNT; i++)
    ((float *)args[num_args - 1].v_view->data)[i] = ((float *)args[0].v_view->data)[i] + 1;
  return 0;
}

static int get_function(void *context, const char *name, BpFunction **function) {
  BpPackedCall call = !strcmp(name, "device") ? on_device : !strcmp(name, "host") ? on_host : NULL;
  (void)context;
  *function = call ? bp_function_create(call, NULL, NULL) : NULL;
  return 0;
}

static void destroy(void *context) {
  (void)context;
}

static const BpModuleApi code_api = {.struct_size = sizeof(BpModuleApi),
                                     .kind = "test",
                                     .get_function = get_function,
                                     .destroy = destroy};

/* ---- Graphs ------------------------------------------------------------------------------ */

/* The host's half comes first, and its storages take turns. */
static const Node halves[] = {
    {NULL, {0}, 0, 0, 0},     {"device", {0}, 1, 1, 0}, {"__copy", {1}, 1, 2, 1},
    {"host", {2}, 1, 3, 1},   {"host", {3}, 1, 2, 1},   {"__copy", {4}, 1, 4, 0},
    {"device", {1}, 1, 5, 0}, {"device", {6}, 1, 6, 0}, {"__copy", {7}, 1, 2, 1},
    {"host", {8}, 1, 3, 1},   {"__copy", {9}, 1, 7, 0}, {"device", {5, 10}, 2, 8, 0},
};

/* The output is on the host. */
static const Node brought[] = {
    {NULL, {0}, 0, 0, 0}, {"device", {0}, 1, 1, 0}, {"__copy", {1}, 1, 2, 1}};

static BpModule *create_on(const Node *nodes, int count, const BpDevice *devices,
                           size_t num_devices, const BpModuleApi *api) {
  BpModule *code = bp_module_create(api, NULL);
  g_autofree char *json = write_graph(nodes, count, devices, "float32", COUNT, NULL);
  BpModule *module = bp_graph_executor_create(json, code, devices, num_devices);
  if (!module)
    g_error("%s", bp_error_message());
  bp_object_release(code);
  return module;
}

static BpModule *create(const Node *nodes, int count, int32_t device_type) {
  const BpDevice devices[] = {{device_type, 0}, {BP_DEVICE_CPU, 0}};
  return create_on(nodes, count, devices, 2, &code_api);
}

static int call(BpModule *module, const char *name, const BpValue *args, int32_t num_args,
                BpValue *result) {
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(module, name, 0, &function), ==, 0);
  int status = bp_function_call(function, args, num_args, result);
  bp_object_release(function);
  return status;
}

/* Sets the input and runs; `order` then has the calls of the run. */
static int run_steps(BpModule *module, float first, float step) {
  const int64_t extent = COUNT;
  BpValue result;
  BpTensor *x =
      bp_tensor_create(&extent, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, (BpDevice){1, 0}, NULL);
  for (int i = 0; i < COUNT; i++)
    ((float *)x->view.data)[i] = first + step * (float)i;
  const BpValue args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"},
                          {.type_index = BP_TYPE_TENSOR, .v_obj = &x->header}};
  g_assert_cmpint(call(module, "set_input", args, 2, &result), ==, 0);
  bp_object_release(x);
  g_string_truncate(order, 0);
  return call(module, "run", NULL, 0, &result);
}

static int run(BpModule *module, float first) {
  return run_steps(module, first, 1);
}

static void assert_output(BpModule *module, float first, float step) {
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  BpValue result;
  float values[COUNT];
  g_assert_cmpint(call(module, "get_output", &index, 1, &result), ==, 0);
  const BpTensorView *view = &((BpTensor *)(void *)result.v_obj)->view;
  g_assert_cmpint(bp_tensor_copy_to_host(view, values, sizeof values), ==, 0);
  for (int i = 0; i < COUNT; i++)
    g_assert_cmpfloat(values[i], ==, first + step * (float)i);
  bp_value_clear(&result);
}

/* ---- Tests ------------------------------------------------------------------------------- */

/* Both copies to the host, and the device's half, are queued before the host waits for the first
 * copy and does its half; an event after the half makes the device begin. Both copies go to the
 * same storage, so the second one waits until the host has read the first. */
static void test_device_has_its_half_before_the_host_waits(void) {
  BpModule *module = create(halves, G_N_ELEMENTS(halves), LATER);
  for (int i = 0; i < 3; i++) {
    g_assert_cmpint(run(module, (float)i), ==, 0);
    g_assert_cmpstr(order->str, ==, "dorddrwhhiorwhid");
    assert_output(module, 2 * (float)i + 8, 2);
  }
  bp_object_release(module);
}

static void test_device_without_events_is_synchronised_before_the_host_works(void) {
  BpModule *module = create(halves, G_N_ELEMENTS(halves), OTHER);
  for (int i = 0; i < 3; i++) {
    g_assert_cmpint(run(module, (float)i), ==, 0);
    g_assert_cmpstr(order->str, ==, "doddshhioshid");
    assert_output(module, 2 * (float)i + 8, 2);
  }
  bp_object_release(module);
}

static void test_run_ends_when_its_copies_to_the_host_have_ended(void) {
  BpModule *module = create(brought, G_N_ELEMENTS(brought), LATER);
  for (int i = 0; i < 3; i++) {
    g_assert_cmpint(run(module, (float)i), ==, 0);
    g_assert_cmpstr(order->str, ==, "dorw");
    assert_output(module, (float)i + 1, 1);
  }
  bp_object_release(module);
}

/* The host does not read the result of failed work; the failure is raised once. */
static void test_failure_ends_the_run_before_the_host_works(void) {
  BpModule *module = create(halves, G_N_ELEMENTS(halves), LATER);
  shall_fail = TRUE;
  g_assert_cmpint(run(module, 1), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_DEVICE);
  g_assert_nonnull(strstr(bp_error_message(), "it failed, as it should"));
  bp_error_clear();
  g_assert_null(strchr(order->str, 'h'));
  g_assert_cmpint(run(module, 1), ==, 0);
  assert_output(module, 10, 2);
  bp_object_release(module);
}

/* ---- Two devices that queue work --------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int calls_ahead;     /* calls to the device `ahead` in this run */
static int awaited;         /* number of calls after which the event is complete */
static gboolean was_late;   /* a caller waited for the event in vain */
static gboolean copy_fails; /* copies of `behind` fail */

static int32_t copy_now(void *context, const BpCopy *copy, void *stream) {
  (void)stream;
  if (context && copy_fails)
    return bp_error_raise(BP_ERROR_DEVICE, "no copy, as asked for");
  memcpy((char *)copy->to + copy->to_offset, (const char *)copy->from + copy->from_offset,
         copy->size);
  return 0;
}

static int32_t nothing_recorded(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  (void)event;
  (void)stream;
  return 0;
}

static int32_t wait_for_calls(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                              int32_t *state) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 60;
  (void)context;
  (void)event;
  (void)timeout_ns;
  pthread_mutex_lock(&lock);
  while (calls_ahead < awaited && !was_late)
    was_late = pthread_cond_timedwait(&changed, &lock, &end) != 0;
  pthread_mutex_unlock(&lock);
  *state = BP_EVENT_COMPLETE;
  return 0;
}

static int32_t is_over(void *context, BpDeviceEvent *event, int32_t *state) {
  (void)context;
  (void)event;
  *state = BP_EVENT_COMPLETE;
  return 0;
}

static const BpEventsApi ahead_events = {.struct_size = sizeof(BpEventsApi),
                                         .create = event_create,
                                         .free = event_free,
                                         .record = nothing_recorded,
                                         .wait = nothing_recorded,
                                         .query = is_over,
                                         .synchronize = wait_for_calls};

static const void *give_ahead_events(void *context, const char *name, uint32_t version) {
  (void)context;
  return !strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION
             ? &ahead_events
             : NULL;
}

static int32_t three_devices(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 3;
  *why = "";
  return 0;
}

#define AHEAD  (61440 + 87)
#define BEHIND (61440 + 88)
#define QUEUE(NAME, NUMBER, CONTEXT, EXTENSIONS)                                                   \
  static const BpDeviceApi NAME##_api = {.struct_size = sizeof(BpDeviceApi),                       \
                                         .device_type = NUMBER,                                    \
                                         .name = #NAME,                                            \
                                         .context = CONTEXT,                                       \
                                         .get_device_count = three_devices,                        \
                                         .get_attr = bare_attr,                                    \
                                         .alloc_data_space = bare_host_alloc,                      \
                                         .free_data_space = bare_host_free,                        \
                                         .copy = copy_now,                                         \
                                         .stream_sync = bare_nothing,                              \
                                         .get_extension = EXTENSIONS}
QUEUE(ahead, AHEAD, NULL, give_ahead_events);
QUEUE(behind, BEHIND, &copy_fails, NULL);

/* Numbers stay small enough to be exact. */
static float wrap(float value) {
  return value < 1024 ? value : value - 1024;
}

static int add_now(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  const float *second = num_args == 3 ? args[1].v_view->data : NULL;
  float *to = args[num_args - 1].v_view->data;
  BpDevice device = args[0].v_view->device;
  int32_t current;
  void *stream;
  bp_device_get_current(device.device_type, &current, &stream);
  g_assert_cmpint(current, ==, device.device_id);
  for (int i = 0; i < COUNT; i++)
    to[i] = wrap(((const float *)args[0].v_view->data)[i] + (second ? second[i] : 0) + 1);
  pthread_mutex_lock(&lock);
  calls_ahead += args[0].v_view->device.device_type == AHEAD;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
}

static int get_add(void *context, const char *name, BpFunction **function) {
  (void)context;
  *function = strcmp(name, "add") ? NULL : bp_function_create(add_now, NULL, NULL);
  return 0;
}

static const BpModuleApi add_api = {.struct_size = sizeof(BpModuleApi),
                                    .kind = "test",
                                    .get_function = get_add,
                                    .destroy = destroy};

/* The value is copied before `ahead` gets the rest of its half, and comes back for the end. */
static const Node crossing[] = {
    {NULL, {0}, 0, 0, 0},     {"add", {0}, 1, 1, 0},    {"__copy", {1}, 1, 2, 1},
    {"add", {2}, 1, 3, 1},    {"add", {1}, 1, 4, 0},    {"add", {4}, 1, 5, 0},
    {"__copy", {3}, 1, 6, 0}, {"add", {5, 6}, 2, 7, 0},
};

static BpModule *create_crossing(void) {
  const BpDevice devices[] = {{AHEAD, 0}, {BEHIND, 0}};
  return create_on(crossing, G_N_ELEMENTS(crossing), devices, 2, &add_api);
}

static int run_crossing(BpModule *module, float first) {
  calls_ahead = 0;
  return run(module, first);
}

/* The event after the copy is complete once the device got the rest of the half: a thread that
 * waited for it earlier would wait for ever. */
static void test_device_has_its_half_while_a_value_crosses_to_another(void) {
  BpModule *module = create_crossing();
  awaited = 3;
  for (int i = 0; i < 20; i++) {
    g_assert_cmpint(run_crossing(module, (float)i), ==, 0);
    g_assert_false(was_late);
    assert_output(module, 2 * (float)i + 6, 2);
  }
  bp_object_release(module);
}

/* The second thread exists between runs; there is one for any number of runs, and it ends with the
 * graph. The kernel lists a joined thread a little longer. */
static void test_second_thread_is_kept_until_the_graph_ends(void) {
  int before = count_threads();
  BpModule *module = create_crossing();
  awaited = 3;
  for (int i = 0; i < 5; i++) {
    g_assert_cmpint(run_crossing(module, (float)i), ==, 0);
    g_assert_cmpuint(count_threads(), ==, before + 1);
  }
  bp_object_release(module);
  for (int i = 0; i < 500 && count_threads() > before; i++)
    g_usleep(10000);
  g_assert_cmpuint(count_threads(), ==, before);
}

static void *run_in_thread(void *module) {
  for (int i = 0; i < 20; i++)
    g_assert_cmpint(run_crossing(module, (float)i), ==, 0);
  return NULL;
}

static void *release_in_thread(void *module) {
  bp_object_release(module);
  return NULL;
}

/* The second thread belongs to the graph, not to the thread that started it. */
static void test_threads_run_and_release_in_turn(void) {
  BpModule *module = create_crossing();
  awaited = 3;
  for (int i = 0; i < 4; i++)
    g_thread_join(g_thread_new("run", run_in_thread, module));
  g_thread_join(g_thread_new("release", release_in_thread, module));
}

/* The child of a fork lacks the second thread and the devices: a run fails there, and the graph can
 * be released. The parent's next run works. */
static void test_child_of_a_fork_lacks_the_second_thread(void) {
  BpModule *module = create_crossing();
  awaited = 3;
  g_assert_cmpint(run_crossing(module, 1), ==, 0);
  pid_t child = fork();
  if (!child) {
    alarm(20);
    BpValue result;
    int is_refused = call(module, "run", NULL, 0, &result) < 0 && bp_error_is(BP_ERROR_DEVICE);
    bp_object_release(module);
    _exit(is_refused ? 0 : 1);
  }
  int status = -1;
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_cmpint(status, ==, 0);
  g_assert_cmpint(run_crossing(module, 3), ==, 0);
  bp_object_release(module);
}

/* Computes the value of each node for an input of zeros. */
static void compute(const Random *graph, float *values) {
  values[0] = 0;
  for (int i = 1; i < graph->count; i++) {
    const Node *node = &graph->nodes[i];
    values[i] = is_copy(node) ? 0 : 1;
    for (int k = 0; k < node->num_inputs; k++)
      values[i] = wrap(values[i] + values[node->inputs[k]]);
  }
}

static const BpDevice all_devices[] = {{AHEAD, 0},  {BEHIND, 0}, {BP_DEVICE_CPU, 0},
                                       {BEHIND, 1}, {AHEAD, 1},  {BEHIND, 2}};

/* A random graph gives the values of its nodes one after the other, in whatever order the devices
 * work. */
static void test_random_graphs_compute_the_values_of_their_nodes(void) {
  static const char *const functions[] = {"add", "add", "add", "add", "add", "add"};
  GRand *rand = g_rand_new_with_seed(19);
  awaited = 0;
  for (int i = 0; i < 600; i++) {
    Random graph;
    float values[MOST_NODES];
    int num_places = g_rand_int_range(rand, 2, G_N_ELEMENTS(all_devices) + 1);
    make_random(rand, &graph, g_rand_int_range(rand, 3, MOST_NODES), num_places, functions);
    compute(&graph, values);
    BpModule *module =
        create_on(graph.nodes, graph.count, all_devices, (size_t)num_places, &add_api);
    for (int round = 0; round < 2; round++) {
      g_assert_cmpint(run_steps(module, 0, 0), ==, 0);
      assert_output(module, values[graph.count - 1], 0);
    }
    bp_object_release(module);
  }
  g_rand_free(rand);
}

static void test_failure_of_one_device_ends_the_run_of_both_devices(void) {
  BpModule *module = create_crossing();
  awaited = 0;
  copy_fails = TRUE;
  g_assert_cmpint(run_crossing(module, 1), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "no copy, as asked for"));
  g_assert_nonnull(strstr(bp_error_message(), "copy 'n"));
  bp_error_clear();
  copy_fails = FALSE;
  g_assert_cmpint(run_crossing(module, 1), ==, 0);
  assert_output(module, 8, 2);
  bp_object_release(module);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  order = g_string_new("");
  queue = g_array_new(FALSE, FALSE, sizeof(Work));
  BpDevice device;
  g_assert_cmpint(bare_register("device_api.later", &later_api), ==, 0);
  g_assert_cmpint(bare_register("device_api.other", &other_api), ==, 0);
  g_assert_cmpint(bp_device_parse("later:0", &device), ==, 0);
  g_assert_cmpint(bp_device_parse("other:0", &device), ==, 0);
  g_assert_cmpint(bare_register("device_api.ahead", &ahead_api), ==, 0);
  g_assert_cmpint(bare_register("device_api.behind", &behind_api), ==, 0);
  g_assert_cmpint(bp_device_parse("ahead:0", &device), ==, 0);
  g_assert_cmpint(bp_device_parse("behind:0", &device), ==, 0);
  g_test_add_func("/overlap/device-has-its-half-while-a-value-crosses-to-another",
                  test_device_has_its_half_while_a_value_crosses_to_another);
  g_test_add_func("/overlap/second-thread-is-kept-until-the-graph-ends",
                  test_second_thread_is_kept_until_the_graph_ends);
  g_test_add_func("/overlap/threads-run-and-release-in-turn", test_threads_run_and_release_in_turn);
  g_test_add_func("/overlap/child-of-a-fork-lacks-the-second-thread",
                  test_child_of_a_fork_lacks_the_second_thread);
  g_test_add_func("/overlap/random-graphs-compute-the-values-of-their-nodes",
                  test_random_graphs_compute_the_values_of_their_nodes);
  g_test_add_func("/overlap/failure-of-one-device-ends-the-run-of-both-devices",
                  test_failure_of_one_device_ends_the_run_of_both_devices);
  g_test_add_func("/overlap/device-has-its-half-before-the-host-waits",
                  test_device_has_its_half_before_the_host_waits);
  g_test_add_func("/overlap/device-without-events-is-synchronised-before-the-host-works",
                  test_device_without_events_is_synchronised_before_the_host_works);
  g_test_add_func("/overlap/run-ends-when-its-copies-to-the-host-have-ended",
                  test_run_ends_when_its_copies_to_the_host_have_ended);
  g_test_add_func("/overlap/failure-ends-the-run-before-the-host-works",
                  test_failure_ends_the_run_before_the_host_works);
  int status = g_test_run();
  g_array_unref(queue);
  g_string_free(order, TRUE);
  return status;
}
