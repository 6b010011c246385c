/* SPDX-License-Identifier: Apache-2.0 */
/* The layer fault: each slot of the template's device fails in its second call, with the error kind
 * that the slot documents, and no object is lost: the device's memory is unchanged, and the layer
 * validate around it counts no leaked handle. */
#include <backplane/device.h>
#include <backplane/device_extensions.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

#include "tests/core/asserts.h"

#define SLOTS                                                                                      \
  "get_attr set_device alloc_data_space free_data_space alloc_workspace free_workspace copy "      \
  "create_stream free_stream sync_stream_from_to stream_sync visit_properties launch "             \
  "timer.start timer.stop timer.read timer.free recording.begin recording.end recording.replay "   \
  "recording.free events.create events.free events.record events.wait events.query "               \
  "events.synchronize events.notify events.hold events.signal external_memory.get_forms "          \
  "external_memory.import_memory external_memory.export_memory"

static BpDevice device; /* simdev:0 */
static const BpDevice host = {BP_DEVICE_CPU, 0};
static const BpDeviceApi *api;
static const BpTimerApi *timers;
static const BpRecordingApi *recordings;
static void *memory;
static char bytes[64];

/* The second call fails; the first and the third succeed. */
static void assert_fault(int rc, const char *slot, const char *kind) {
  g_autofree char *part =
      g_strdup_printf("fault: simdev: %s fails in its call 2, as BACKPLANE_FAULT asks", slot);
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

static int alloc(void **handle) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 64, .alignment = 64};
  return bp_device_alloc(device, &allocation, handle);
}

static int64_t available(void) {
  BpValue value;
  assert_ok(bp_device_get_attr(device, BP_ATTR_AVAILABLE_GLOBAL_MEMORY, &value));
  return value.v_int64;
}

static void test_attributes_fail_on_demand(void) {
  BpValue value;
  assert_ok(bp_device_get_attr(device, BP_ATTR_RANK, &value));
  assert_fault(bp_device_get_attr(device, BP_ATTR_RANK, &value), "get_attr", BP_ERROR_DEVICE);
  assert_ok(bp_device_get_attr(device, BP_ATTR_RANK, &value));
}

static int32_t visit_nothing(void *visitor, const char *name, const BpValue *value) {
  (void)visitor, (void)name, (void)value;
  return 0;
}

static void test_devices_fail_on_demand(void) {
  assert_ok(api->set_device(api->context, 0));
  assert_fault(api->set_device(api->context, 0), "set_device", BP_ERROR_DEVICE);
  assert_ok(api->set_device(api->context, 0));
  assert_ok(api->visit_properties(api->context, 0, visit_nothing, NULL));
  assert_fault(api->visit_properties(api->context, 0, visit_nothing, NULL), "visit_properties",
               BP_ERROR_DEVICE);
}

static void test_memory_calls_fail_on_demand(void) {
  const BpDataType hint = {BP_DTYPE_FLOAT, 32, 1};
  void *first, *second, *third;
  int64_t before = available();
  assert_ok(alloc(&first));
  assert_fault(alloc(&second), "alloc_data_space", BP_ERROR_MEMORY);
  assert_ok(alloc(&second));
  assert_ok(alloc(&third));
  assert_ok(bp_device_free(device, first));
  assert_fault(bp_device_free(device, second), "free_data_space", BP_ERROR_DEVICE);
  assert_ok(bp_device_free(device, third));
  assert_ok(bp_workspace_alloc(device, 64, hint, &first));
  assert_fault(bp_workspace_alloc(device, 64, hint, &second), "alloc_workspace", BP_ERROR_MEMORY);
  assert_ok(bp_workspace_alloc(device, 64, hint, &second));
  assert_ok(bp_workspace_free(device, first));
  assert_fault(bp_workspace_free(device, second), "free_workspace", BP_ERROR_DEVICE);
  g_assert_cmpint(available(), ==, before);
}

static int upload(void *stream) {
  const BpCopy copy = {sizeof copy, bytes, 0, host, memory, 0, device, sizeof bytes, 0};
  return bp_device_copy(&copy, stream);
}

static void test_stream_calls_fail_on_demand(void) {
  void *one, *two;
  assert_ok(alloc(&memory));
  assert_ok(bp_stream_create(device, &one));
  assert_fault(bp_stream_create(device, &two), "create_stream", BP_ERROR_DEVICE);
  assert_ok(bp_stream_create(device, &two));
  assert_ok(upload(one));
  assert_fault(upload(one), "copy", BP_ERROR_DEVICE);
  assert_ok(upload(one));
  assert_ok(bp_stream_sync_from_to(device, one, two));
  assert_fault(bp_stream_sync_from_to(device, one, two), "sync_stream_from_to", BP_ERROR_DEVICE);
  assert_ok(bp_stream_sync(device, one));
  assert_fault(bp_stream_sync(device, two), "stream_sync", BP_ERROR_DEVICE);
  assert_ok(bp_stream_free(device, one));
  assert_fault(bp_stream_free(device, two), "free_stream", BP_ERROR_DEVICE);
  assert_ok(bp_device_free(device, memory));
}

/* ---- Launches ---------------------------------------------------------------------------- */

static int launched;

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  (void)context, (void)invocation, (void)args, (void)num_args;
  launched++;
  return 0;
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  (void)context, (void)name;
  *function = NULL;
  return 0;
}

static void destroy_nothing(void *context) {
  (void)context;
}

static void test_launches_fail_on_demand(void) {
  static const BpModuleApi module_api = {.struct_size = sizeof module_api,
                                         .kind = "faulty",
                                         .get_function = get_function,
                                         .destroy = destroy_nothing};
  BpModule *module = bp_module_create(&module_api, NULL);
  BpFunction *kernel = bp_module_kernel_create(module, device.device_type, launch, NULL, NULL);
  const BpInvocation there = {sizeof there, device, NULL, 0};
  BpValue result;
  assert_ok(bp_function_launch(kernel, &there, NULL, 0, &result));
  assert_fault(bp_function_call(kernel, NULL, 0, &result), "launch", BP_ERROR_DEVICE);
  assert_ok(bp_function_launch(kernel, &there, NULL, 0, &result));
  g_assert_cmpint(launched, ==, 2);
  bp_object_release(kernel);
  bp_module_release(module);
}

/* ---- Extensions -------------------------------------------------------------------------- */

static void test_timers_fail_on_demand(void) {
  int64_t nanoseconds;
  void *one, *two;
  assert_ok(timers->start(api->context, 0, NULL, &one));
  assert_fault(timers->start(api->context, 0, NULL, &two), "timer.start", BP_ERROR_DEVICE);
  assert_ok(timers->start(api->context, 0, NULL, &two));
  assert_ok(timers->stop(api->context, one, NULL));
  assert_fault(timers->stop(api->context, two, NULL), "timer.stop", BP_ERROR_DEVICE);
  assert_ok(timers->stop(api->context, two, NULL));
  assert_ok(timers->read(api->context, one, &nanoseconds));
  assert_fault(timers->read(api->context, one, &nanoseconds), "timer.read", BP_ERROR_DEVICE);
  assert_ok(timers->free(api->context, one));
  assert_fault(timers->free(api->context, two), "timer.free", BP_ERROR_DEVICE);
}

static BpRecording *record(void) {
  BpRecording *recording;
  assert_ok(recordings->begin(api->context, 0, NULL));
  assert_ok(recordings->end(api->context, 0, NULL, &recording));
  return recording;
}

static void test_recordings_fail_on_demand(void) {
  BpRecording *one = record(), *two;
  assert_fault(recordings->begin(api->context, 0, NULL), "recording.begin", BP_ERROR_DEVICE);
  assert_ok(recordings->begin(api->context, 0, NULL));
  assert_fault(recordings->end(api->context, 0, NULL, &two), "recording.end", BP_ERROR_DEVICE);
  assert_ok(recordings->replay(api->context, one, NULL));
  assert_fault(recordings->replay(api->context, one, NULL), "recording.replay", BP_ERROR_DEVICE);
  assert_ok(recordings->free(api->context, one));
  assert_fault(recordings->free(api->context, record()), "recording.free", BP_ERROR_DEVICE);
  assert_ok(api->stream_sync(api->context, 0, NULL));
}

static void count_done(void *user) {
  ++*(int *)user;
}

static void test_events_fail_on_demand(void) {
  const BpEventsApi *events =
      bp_device_extension(device.device_type, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION);
  void *context = api->context;
  BpDeviceEvent *one, *two, *held;
  int32_t answer;
  int done = 0;
  assert_ok(events->create(context, 0, &one));
  assert_fault(events->create(context, 0, &two), "events.create", BP_ERROR_MEMORY);
  assert_ok(events->create(context, 0, &two));
  assert_ok(events->create(context, 0, &held));
  assert_ok(events->record(context, one, NULL));
  assert_fault(events->record(context, one, NULL), "events.record", BP_ERROR_DEVICE);
  assert_ok(events->wait(context, one, NULL));
  assert_fault(events->wait(context, one, NULL), "events.wait", BP_ERROR_DEVICE);
  assert_ok(events->query(context, one, &answer));
  assert_fault(events->query(context, one, &answer), "events.query", BP_ERROR_DEVICE);
  assert_ok(events->synchronize(context, one, BP_WAIT_FOREVER, &answer));
  assert_fault(events->synchronize(context, one, BP_WAIT_FOREVER, &answer), "events.synchronize",
               BP_ERROR_DEVICE);
  assert_ok(events->notify(context, one, count_done, &done));
  assert_fault(events->notify(context, one, count_done, &done), "events.notify", BP_ERROR_DEVICE);
  g_assert_cmpint(done, ==, 1);
  assert_ok(events->hold(context, two));
  assert_fault(events->hold(context, held), "events.hold", BP_ERROR_DEVICE);
  assert_ok(events->hold(context, held));
  assert_ok(events->signal(context, two));
  assert_fault(events->signal(context, held), "events.signal", BP_ERROR_DEVICE);
  assert_ok(events->synchronize(context, held, BP_WAIT_FOREVER, &answer));
  assert_ok(events->free(context, one));
  assert_fault(events->free(context, two), "events.free", BP_ERROR_DEVICE);
  assert_ok(events->free(context, held));
}

static void test_external_memory_fails_on_demand(void) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 64, .alignment = 64};
  BpExternalMemory shared = {.struct_size = sizeof shared, .form = BP_EXTERNAL_OPAQUE_FD, .fd = -1};
  void *handles[4];
  const int64_t before = available();
  assert_ok(bp_device_memory_forms(device, NULL, NULL, NULL));
  assert_fault(bp_device_memory_forms(device, NULL, NULL, NULL), "external_memory.get_forms",
               BP_ERROR_DEVICE);
  assert_ok(bp_device_export_memory(device, &allocation, &shared, &handles[0]));
  const int64_t between = available();
  BpExternalMemory other = shared;
  assert_fault(bp_device_export_memory(device, &allocation, &other, &handles[1]),
               "external_memory.export_memory", BP_ERROR_MEMORY);
  g_assert_cmpint(available(), ==, between);
  assert_ok(bp_device_import_memory(device, &shared, &handles[1]));
  assert_fault(bp_device_import_memory(device, &shared, &handles[2]),
               "external_memory.import_memory", BP_ERROR_MEMORY);
  assert_ok(bp_device_free(device, handles[0]));
  assert_ok(bp_device_free(device, handles[1]));
  g_assert_cmpint(close(shared.fd), ==, 0);
  g_assert_cmpint(available(), ==, before);
}

/* ---- The list of faults ------------------------------------------------------------------ */

/* Kind cpu reads the list when it is first used; after an error it reads the list again. */
static void test_list_that_is_wrong_is_an_error(void) {
  static const struct {
    const char *list, *part;
  } wrong[] = {
      {NULL, "BACKPLANE_FAULT is not set"},
      {"alloc", "\"alloc\" is no fault"},
      {"copy:", "\"copy:\" is no fault"},
      {"copy:0", "\"copy:0\" is no fault"},
      {"copy:1:always", "\"copy:1:always\" is no fault"},
      {"copy:2,launches:1", "no slot is called \"launches\"; there are: get_device_count"}};
  BpDevice cpu;
  g_autofree char *before = g_strdup(g_getenv("BACKPLANE_FAULT"));
  for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
    if (wrong[i].list)
      g_setenv("BACKPLANE_FAULT", wrong[i].list, TRUE);
    else
      g_unsetenv("BACKPLANE_FAULT");
    BpValue value;
    assert_ok(bp_device_parse("cpu:0", &cpu));
    g_assert_cmpint(bp_device_get_attr(cpu, BP_ATTR_RANK, &value), ==, -1);
    if (!strstr(bp_error_message(), wrong[i].part))
      g_error("\"%s\" does not contain \"%s\"", bp_error_message(), wrong[i].part);
    bp_error_clear();
  }
  g_setenv("BACKPLANE_FAULT", "get_attr:2:every", TRUE);
  for (int i = 1; i <= 6; i++) {
    BpValue value;
    g_assert_cmpint(bp_device_get_attr(cpu, BP_ATTR_RANK, &value), ==, i % 2 ? 0 : -1);
    bp_error_clear();
  }
  g_setenv("BACKPLANE_FAULT", before, TRUE);
}

/* ---- The end ----------------------------------------------------------------------------- */

/* Checks the counts of validate when the process ends; the test fails by its exit status. */
static void fail_at_end(void *context, int32_t level, const char *message) {
  (void)context;
  if (level >= BP_LOG_WARNING && strstr(message, "at the end there are still"))
    g_error("%s", message);
}

int main(int argc, char **argv) {
  g_autofree char *path = g_strdup_printf("%s/tests/mock/.libs:%s", g_getenv("top_builddir"),
                                          g_getenv("BACKPLANE_PLUGIN_PATH"));
  g_auto(GStrv) slots = g_strsplit(SLOTS, " ", -1);
  g_autofree char *joined = g_strjoinv(":2,", slots), *list = g_strconcat(joined, ":2", NULL);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_setenv("BACKPLANE_LAYERS", "fault:simdev,validate:simdev,fault:cpu", TRUE);
  g_setenv("BACKPLANE_FAULT", list, TRUE);
  g_test_init(&argc, &argv, NULL);
  bp_log_set_callback(fail_at_end, NULL);
  assert_ok(bp_device_parse("simdev:0", &device));
  api = bp_device_api(device.device_type);
  timers = bp_device_extension(device.device_type, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  recordings = bp_device_extension(device.device_type, BP_EXTENSION_RECORDING,
                                   BP_EXTENSION_RECORDING_VERSION);
#define ADD(path, test) g_test_add_func("/fault/" path, test)
  ADD("list-that-is-wrong-is-an-error", test_list_that_is_wrong_is_an_error);
  ADD("attributes-fail-on-demand", test_attributes_fail_on_demand);
  ADD("devices-fail-on-demand", test_devices_fail_on_demand);
  ADD("memory-calls-fail-on-demand", test_memory_calls_fail_on_demand);
  ADD("stream-calls-fail-on-demand", test_stream_calls_fail_on_demand);
  ADD("launches-fail-on-demand", test_launches_fail_on_demand);
  ADD("timers-fail-on-demand", test_timers_fail_on_demand);
  ADD("recordings-fail-on-demand", test_recordings_fail_on_demand);
  ADD("events-fail-on-demand", test_events_fail_on_demand);
  ADD("external-memory-fails-on-demand", test_external_memory_fails_on_demand);
  return g_test_run();
}
