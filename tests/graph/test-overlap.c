/* SPDX-License-Identifier: Apache-2.0 */
/* A graph on a device and the host: what the device is given before the host waits or works, seen
 * by the order of calls. The device does its work when somebody waits for it, and not before. */
#include "tests/bare_device.h"

#include <backplane/device_extensions.h>
#include <backplane/graph/executor.h>
#include <backplane/tensor.h>
#include <glib.h>

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

/* To the device at once, after all that is queued; to the host later. */
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

/* A node of a graph: its function and inputs, and the storage of its output, which is the device's
 * or the host's. */
typedef struct Node {
  const char *function; /* NULL: the input */
  int inputs[2], num_inputs;
  int storage, is_on_host;
} Node;

static void append(GString *text, gboolean is_first, const char *format, ...) G_GNUC_PRINTF(3, 4);
static void append(GString *text, gboolean is_first, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_string_append(text, is_first ? "" : ",");
  g_string_append_vprintf(text, format, args);
  va_end(args);
}

static char *write_graph(const Node *nodes, int count, int32_t device_type) {
  g_autoptr(GString) text = g_string_new(""), rows = g_string_new("0"), types = g_string_new(""),
                     shapes = g_string_new(""), storages = g_string_new(""),
                     devices = g_string_new("");
  for (int i = 0; i < count; i++) {
    const Node *node = &nodes[i];
    g_autoptr(GString) inputs = g_string_new("");
    for (int k = 0; k < node->num_inputs; k++)
      append(inputs, k == 0, "[%d,0,0]", node->inputs[k]);
    if (node->function)
      append(
          text, i == 0,
          "{\"op\":\"tvm_op\",\"name\":\"n%d\",\"attrs\":{\"func_name\":\"%s\"},\"inputs\":[%s]}",
          i, node->function, inputs->str);
    else
      append(text, i == 0, "{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}");
    append(rows, FALSE, "%d", i + 1);
    append(types, i == 0, "\"float32\"");
    append(shapes, i == 0, "[%d]", COUNT);
    append(storages, i == 0, "%d", node->storage);
    append(devices, i == 0, "%d", node->is_on_host ? BP_DEVICE_CPU : device_type);
  }
  return g_strdup_printf("{\"nodes\":[%s],\"arg_nodes\":[0],\"heads\":[[%d,0,0]],"
                         "\"node_row_ptr\":[%s],\"attrs\":{\"dltype\":[\"list_str\",[%s]],"
                         "\"shape\":[\"list_shape\",[%s]],\"storage_id\":[\"list_int\",[%s]],"
                         "\"device_index\":[\"list_int\",[%s]]}}",
                         text->str, count - 1, rows->str, types->str, shapes->str, storages->str,
                         devices->str);
}

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

static BpModule *create(const Node *nodes, int count, int32_t device_type) {
  const BpDevice devices[] = {{device_type, 0}, {BP_DEVICE_CPU, 0}};
  BpModule *code = bp_module_create(&code_api, NULL);
  g_autofree char *json = write_graph(nodes, count, device_type);
  BpModule *module = bp_graph_executor_create(json, code, devices, 2);
  if (!module)
    g_error("%s", bp_error_message());
  bp_object_release(code);
  return module;
}

static int call(BpModule *module, const char *name, const BpValue *args, int32_t num_args,
                BpValue *result) {
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(module, name, 0, &function), ==, 0);
  int status = bp_function_call(function, args, num_args, result);
  bp_object_release(function);
  return status;
}

/* Sets the input and runs; the calls of the run are then in `order`. */
static int run(BpModule *module, float first) {
  const int64_t extent = COUNT;
  BpValue result;
  BpTensor *x =
      bp_tensor_create(&extent, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, (BpDevice){1, 0}, NULL);
  for (int i = 0; i < COUNT; i++)
    ((float *)x->view.data)[i] = first + (float)i;
  const BpValue args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"},
                          {.type_index = BP_TYPE_TENSOR, .v_obj = &x->header}};
  g_assert_cmpint(call(module, "set_input", args, 2, &result), ==, 0);
  bp_object_release(x);
  g_string_truncate(order, 0);
  return call(module, "run", NULL, 0, &result);
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
 * copy and does its half; an event behind the half sees to it that the device begins. The storage
 * that both are copied to keeps the second one back until the host has read the first. */
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

static void test_run_ends_when_its_copies_to_the_host_have(void) {
  BpModule *module = create(brought, G_N_ELEMENTS(brought), LATER);
  for (int i = 0; i < 3; i++) {
    g_assert_cmpint(run(module, (float)i), ==, 0);
    g_assert_cmpstr(order->str, ==, "dorw");
    assert_output(module, (float)i + 1, 1);
  }
  bp_object_release(module);
}

/* The host does not read what failed work was to write; the failure is raised once. */
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

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  order = g_string_new("");
  queue = g_array_new(FALSE, FALSE, sizeof(Work));
  BpDevice device;
  g_assert_cmpint(bare_register("device_api.later", &later_api), ==, 0);
  g_assert_cmpint(bare_register("device_api.other", &other_api), ==, 0);
  g_assert_cmpint(bp_device_parse("later:0", &device), ==, 0);
  g_assert_cmpint(bp_device_parse("other:0", &device), ==, 0);
  g_test_add_func("/overlap/device-has-its-half-before-the-host-waits",
                  test_device_has_its_half_before_the_host_waits);
  g_test_add_func("/overlap/device-without-events-is-synchronised-before-the-host-works",
                  test_device_without_events_is_synchronised_before_the_host_works);
  g_test_add_func("/overlap/run-ends-when-its-copies-to-the-host-have",
                  test_run_ends_when_its_copies_to_the_host_have);
  g_test_add_func("/overlap/failure-ends-the-run-before-the-host-works",
                  test_failure_ends_the_run_before_the_host_works);
  int status = g_test_run();
  g_array_unref(queue);
  g_string_free(order, TRUE);
  return status;
}
