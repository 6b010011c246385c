/* SPDX-License-Identifier: Apache-2.0 */
/* The layer validate: each finding for a wrong call, on the template's device and the host's
 * memory, and no finding for correct calls. Slots are called directly through the host's table
 * where the host's own checks would come first. */
#include "tests/core/asserts.h"
#include "tests/bare_device.h"

#include <backplane/device_extensions.h>
#include <backplane/module.h>
#include <glib.h>
#include <pthread.h>
#include <unistd.h>

#define SIZE 1024

static BpDevice device; /* simdev:0 */
static const BpDevice host = {BP_DEVICE_CPU, 0};
static const BpDeviceApi *api;
static char bytes[SIZE];
static GString *logged;

/* A finding is an error that names the caller, and a warning with the same text. */
static void assert_found(int rc, const char *kind, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part) || !strstr(bp_error_message(), "validate: ") ||
      !strstr(bp_error_message(), "(called by "))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  if (!strstr(logged->str, part))
    g_error("the log \"%s\" does not contain \"%s\"", logged->str, part);
  g_string_truncate(logged, 0);
  bp_error_clear();
}

static void log_message(void *context, int32_t level, const char *message) {
  (void)context;
  if (level >= BP_LOG_WARNING)
    g_string_append_printf(logged, "%s\n", message);
}

static void *alloc_on(BpDevice where, uint64_t size) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = size, .alignment = 64};
  void *handle;
  assert_ok(bp_device_alloc(where, &allocation, &handle));
  return handle;
}

static void *alloc(void) {
  return alloc_on(device, SIZE);
}

static void release(void *handle) {
  assert_ok(bp_device_free(device, handle));
}

static int upload(void *to, uint64_t offset, uint64_t size, void *stream) {
  const BpCopy copy = {sizeof copy, bytes, 0, host, to, offset, device, size, 0};
  return bp_device_copy(&copy, stream);
}

/* Concurrent copies have destinations of their own. */
static int download(const void *from, uint64_t offset, uint64_t size, void *stream) {
  static char got[8][SIZE];
  static int next;
  const BpCopy copy = {sizeof copy, from, offset, device, got[next++ % 8], 0, host, size, 0};
  return bp_device_copy(&copy, stream);
}

static void *make_stream(void) {
  void *stream;
  assert_ok(bp_stream_create(device, &stream));
  return stream;
}

static void end_stream(void *stream) {
  assert_ok(bp_stream_sync(device, stream));
  assert_ok(bp_stream_free(device, stream));
}

/* ---- Memory ------------------------------------------------------------------------------ */

static void test_freeing_twice_is_found(void) {
  void *handle = alloc();
  release(handle);
  assert_found(bp_device_free(device, handle), BP_ERROR_VALUE,
               "simdev:0: free_data_space: handle ");
  assert_found(bp_device_free(device, handle), BP_ERROR_VALUE, " was freed by ");
}

static void test_handle_that_nobody_gave_is_found(void) {
  assert_found(bp_device_free(device, bytes), BP_ERROR_VALUE,
               "is no handle that alloc_data_space or alloc_workspace gave");
}

static void test_memory_of_another_device_is_found(void) {
  void *handle = alloc_on((BpDevice){device.device_type, 1}, SIZE);
  assert_found(bp_device_free(device, handle), BP_ERROR_VALUE,
               "is memory of simdev:1, not of simdev:0");
  assert_ok(bp_device_free((BpDevice){device.device_type, 1}, handle));
}

static void test_freed_memory_in_a_copy_is_found(void) {
  void *handle = alloc();
  release(handle);
  assert_found(upload(handle, 0, 8, NULL), BP_ERROR_VALUE, "copy: destination ");
  assert_found(download(handle, 0, 8, NULL), BP_ERROR_VALUE, "copy: source ");
}

static void test_copy_out_of_bounds_is_found(void) {
  void *handle = alloc();
  assert_ok(upload(handle, SIZE - 8, 8, NULL));
  assert_found(upload(handle, SIZE - 7, 8, NULL), BP_ERROR_INDEX,
               "destination: 8 bytes from byte 1017 on do not lie in the 1024 bytes of ");
  assert_found(download(handle, SIZE + 1, 1, NULL), BP_ERROR_INDEX, "source: 1 bytes from");
  release(handle);
}

static void test_alignment_and_scope_are_checked(void) {
  BpAllocation allocation = {.struct_size = sizeof allocation, .size = 8, .alignment = 24};
  void *handle;
  assert_found(api->alloc_data_space(api->context, 0, &allocation, &handle), BP_ERROR_VALUE,
               "an alignment of 24 bytes");
  allocation.alignment = 8192;
  assert_found(api->alloc_data_space(api->context, 0, &allocation, &handle), BP_ERROR_VALUE,
               "an alignment of 8192 bytes");
  allocation.alignment = 64;
  allocation.scope = "";
  assert_found(api->alloc_data_space(api->context, 0, &allocation, &handle), BP_ERROR_VALUE,
               "a scope without a name");
  allocation.struct_size = 8;
  assert_found(api->alloc_data_space(api->context, 0, &allocation, &handle), BP_ERROR_VALUE,
               "struct_size is 8");
}

static void test_device_that_is_not_there_is_found(void) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  assert_found(api->get_attr(api->context, 2, BP_ATTR_EXIST, &value), BP_ERROR_INDEX,
               "simdev:2: get_attr: there is no device 2: there are 2");
}

static void test_handle_as_an_address_of_the_host_is_found(void) {
  void *handle = alloc(), *other = alloc();
  const BpCopy copy = {sizeof copy, handle, 0, host, other, 0, device, 8, 0};
  assert_found(bp_device_copy(&copy, NULL), BP_ERROR_VALUE,
               "is given as an address of the host, but it is a handle of memory of simdev:0");
  release(handle);
  release(other);
}

static void test_workspace_is_freed_as_workspace(void) {
  void *handle, *space = alloc();
  assert_ok(bp_workspace_alloc(device, 64, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, &handle));
  assert_found(bp_device_free(device, handle), BP_ERROR_VALUE,
               "is workspace, which free_workspace frees");
  assert_found(bp_workspace_free(device, space), BP_ERROR_VALUE,
               "is data space, which free_data_space frees");
  assert_ok(bp_workspace_free(device, handle));
  release(space);
}

static void *free_workspace(void *handle) {
  assert_found(bp_workspace_free(device, handle), BP_ERROR_VALUE, "is workspace of another thread");
  return NULL;
}

static void test_workspace_is_freed_by_its_thread(void) {
  pthread_t thread;
  void *handle;
  assert_ok(bp_workspace_alloc(device, 64, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, &handle));
  g_assert_cmpint(pthread_create(&thread, NULL, free_workspace, handle), ==, 0);
  pthread_join(thread, NULL);
  assert_ok(bp_workspace_free(device, handle));
}

/* A log callback that uses the device. */
static void print_message(void *context, int32_t level, const char *message) {
  (void)context;
  if (level < BP_LOG_WARNING)
    return;
  g_printerr("%s\n", message);
  release(alloc());
}

/* ---- Streams ----------------------------------------------------------------------------- */

static void test_handle_that_is_no_stream_is_found(void) {
  void *handle = alloc(), *stream = make_stream();
  end_stream(stream);
  assert_found(api->stream_sync(api->context, 0, bytes), BP_ERROR_VALUE,
               "is no stream of simdev:0");
  assert_found(api->free_stream(api->context, 0, stream), BP_ERROR_VALUE, "or one that was freed");
  stream = make_stream();
  assert_found(api->stream_sync(api->context, 1, stream), BP_ERROR_VALUE,
               "is a stream of simdev:0, not of simdev:1");
  assert_found(api->sync_stream_from_to(api->context, 0, stream, bytes), BP_ERROR_VALUE,
               "is no stream of simdev:0");
  const BpCopy copy = {sizeof copy, bytes, 0, host, handle, 0, device, 8, 0};
  assert_found(api->copy(api->context, &copy, bytes), BP_ERROR_VALUE, "is no stream of simdev:0");
  end_stream(stream);
  release(handle);
}

static void test_missing_wait_between_copies_is_found(void) {
  void *handle = alloc(), *one = make_stream(), *two = make_stream();
  assert_ok(upload(handle, 0, 64, one));
  assert_found(download(handle, 32, 64, two), BP_ERROR_RUNTIME, "bytes 0 to 64 of ");
  assert_found(upload(handle, 0, 1, NULL), BP_ERROR_RUNTIME,
               "call stream_sync or sync_stream_from_to in between");
  assert_ok(download(handle, 64, 64, two)); /* other bytes */
  assert_ok(download(handle, 0, 64, one));  /* the same stream */
  assert_ok(bp_stream_sync_from_to(device, one, two));
  assert_ok(download(handle, 0, 64, two));
  assert_found(upload(handle, 0, 64, one), BP_ERROR_RUNTIME, "used by a copy");
  assert_ok(bp_stream_sync(device, two));
  assert_ok(upload(handle, 0, 64, one));
  end_stream(two);
  end_stream(one);
  release(handle);
}

static void test_reads_on_two_streams_need_no_order(void) {
  void *handle = alloc(), *one = make_stream(), *two = make_stream();
  assert_ok(upload(handle, 0, SIZE, NULL));
  assert_ok(bp_stream_sync(device, NULL));
  assert_ok(download(handle, 0, 64, one));
  assert_ok(download(handle, 0, 64, two));
  end_stream(one);
  end_stream(two);
  release(handle);
}

/* Waits through a third stream, and through a stream that is freed meanwhile. */
static void test_waits_reach_through_other_streams(void) {
  void *handle = alloc(), *one = make_stream(), *two = make_stream(), *three = make_stream();
  assert_ok(upload(handle, 0, 64, one));
  assert_ok(bp_stream_sync_from_to(device, one, two));
  assert_ok(bp_stream_free(device, one));
  assert_ok(bp_stream_sync_from_to(device, two, three));
  assert_ok(download(handle, 0, 64, three));
  assert_found(upload(handle, 0, 64, NULL), BP_ERROR_RUNTIME, "queued on another stream");
  assert_ok(bp_stream_sync(device, three));
  assert_ok(upload(handle, 0, 64, NULL));
  assert_ok(bp_stream_sync(device, NULL));
  end_stream(two);
  end_stream(three);
  release(handle);
}

/* ---- Launches ---------------------------------------------------------------------------- */

static int32_t launch_nothing(void *context, const BpInvocation *invocation, const BpValue *args,
                              int32_t num_args) {
  (void)context, (void)invocation, (void)args, (void)num_args;
  return 0;
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  (void)name;
  *function = bp_module_kernel_create(*(BpModule **)context, device.device_type, launch_nothing,
                                      NULL, NULL);
  return *function ? 0 : -1;
}

static void destroy_nothing(void *context) {
  (void)context;
}

static BpFunction *make_kernel(void) {
  static const BpModuleApi module_api = {.struct_size = sizeof module_api,
                                         .kind = "validated",
                                         .get_function = get_function,
                                         .destroy = destroy_nothing};
  static BpModule *module;
  BpFunction *function;
  module = bp_module_create(&module_api, &module);
  assert_ok(bp_module_get_function(module, "relu", 0, &function));
  bp_module_release(module);
  return function;
}

static int launch_on(BpFunction *kernel, BpValue arg, void *stream) {
  const BpInvocation there = {sizeof there, device, stream, 0};
  BpValue result;
  return bp_function_launch(kernel, &there, &arg, 1, &result);
}

static BpValue pointer(void *data) {
  return (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = data};
}

static void test_arguments_of_launches_are_checked(void) {
  BpFunction *kernel = make_kernel();
  void *handle = alloc(), *freed = alloc();
  int64_t shape[] = {4, 64}, strides[] = {65, 1};
  BpTensorView view = {.data = handle,
                       .device = device,
                       .ndim = 2,
                       .dtype = {BP_DTYPE_FLOAT, 32, 1},
                       .shape = shape};
  const BpValue arg = {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &view};
  release(freed);
  assert_ok(launch_on(kernel, pointer(handle), NULL));
  assert_found(launch_on(kernel, pointer(freed), NULL), BP_ERROR_VALUE, "launch: relu, argument 0");
  assert_ok(launch_on(kernel, arg, NULL));
  view.strides = strides;
  assert_found(launch_on(kernel, arg, NULL), BP_ERROR_INDEX,
               "1036 bytes from byte 0 on do not lie in the 1024 bytes of ");
  view.strides = NULL;
  view.byte_offset = 256;
  assert_found(launch_on(kernel, arg, NULL), BP_ERROR_INDEX, "1024 bytes from byte 256 on");
  shape[0] = 3;
  view.byte_offset = 4;
  assert_ok(launch_on(kernel, arg, NULL));
  view.byte_offset = 6;
  assert_found(launch_on(kernel, arg, NULL), BP_ERROR_VALUE, "within an element of 4 bytes");
  view.byte_offset = 0;
  view.device.device_id = 1;
  assert_found(launch_on(kernel, arg, NULL), BP_ERROR_VALUE, "and the kernel runs on simdev:0");
  shape[0] = 0;
  assert_ok(launch_on(kernel, arg, NULL));
  assert_ok(bp_stream_sync(device, NULL));
  bp_object_release(kernel);
  release(handle);
}

static void test_missing_wait_after_a_launch_is_found(void) {
  BpFunction *kernel = make_kernel();
  void *handle = alloc(), *one = make_stream(), *two = make_stream();
  assert_ok(launch_on(kernel, pointer(handle), one));
  assert_found(download(handle, 0, 8, two), BP_ERROR_RUNTIME, "are used by a launch");
  /* The buffer was empty before, so the launch wrote it, and another launch must be ordered after
   * it. */
  assert_found(launch_on(kernel, pointer(handle), two), BP_ERROR_RUNTIME, "are used by a launch");
  assert_ok(bp_stream_sync(device, one));
  /* Weights: kernels on several streams may use written memory. */
  assert_ok(launch_on(kernel, pointer(handle), one));
  assert_ok(launch_on(kernel, pointer(handle), two));
  assert_found(upload(handle, 0, 8, NULL), BP_ERROR_RUNTIME, "are used by a launch");
  end_stream(one);
  end_stream(two);
  bp_object_release(kernel);
  release(handle);
}

/* ---- Extensions -------------------------------------------------------------------------- */

static void test_timers_are_checked(void) {
  const BpTimerApi *timers =
      bp_device_extension(device.device_type, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  int64_t nanoseconds;
  void *timer;
  assert_ok(timers->start(api->context, 0, NULL, &timer));
  assert_found(timers->read(api->context, timer, &nanoseconds), BP_ERROR_RUNTIME,
               "is read before it was stopped");
  assert_ok(timers->stop(api->context, timer, NULL));
  assert_found(timers->stop(api->context, timer, NULL), BP_ERROR_RUNTIME, "is stopped twice");
  assert_ok(timers->read(api->context, timer, &nanoseconds));
  assert_ok(timers->free(api->context, timer));
  assert_found(timers->read(api->context, timer, &nanoseconds), BP_ERROR_VALUE, "is no timer");
  assert_found(timers->free(api->context, timer), BP_ERROR_VALUE, "or one that was freed");
}

static void test_recordings_are_checked(void) {
  const BpRecordingApi *recordings = bp_device_extension(device.device_type, BP_EXTENSION_RECORDING,
                                                         BP_EXTENSION_RECORDING_VERSION);
  void *handle = alloc(), *stream = make_stream(), *other = make_stream();
  BpRecording *recording;
  assert_found(recordings->end(api->context, 0, stream, &recording), BP_ERROR_RUNTIME,
               "this thread does not record stream");
  assert_ok(recordings->begin(api->context, 0, stream));
  assert_found(recordings->begin(api->context, 0, stream), BP_ERROR_RUNTIME, "is recorded already");
  assert_ok(upload(handle, 0, 8, stream));
  assert_ok(recordings->end(api->context, 0, stream, &recording));
  assert_ok(download(handle, 0, 8, other)); /* no work was queued yet */
  assert_found(recordings->replay(api->context, recording, stream), BP_ERROR_RUNTIME,
               "the recording: bytes 0 to 8 of");
  assert_ok(bp_stream_sync(device, other));
  assert_ok(recordings->replay(api->context, recording, stream));
  assert_found(download(handle, 0, 8, other), BP_ERROR_RUNTIME, "queued on another stream");
  assert_ok(bp_stream_sync(device, stream));
  release(handle);
  assert_found(recordings->replay(api->context, recording, stream), BP_ERROR_VALUE,
               "which was freed since");
  assert_ok(recordings->free(api->context, recording));
  assert_found(recordings->replay(api->context, recording, stream), BP_ERROR_VALUE,
               "is no recording, or one that was freed");
  end_stream(stream);
  end_stream(other);
}

static void test_events_are_checked_and_order_work(void) {
  const BpEventsApi *events =
      bp_device_extension(device.device_type, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION);
  void *handle = alloc(), *one = make_stream(), *two = make_stream();
  BpEvent *event = bp_event_create(device);
  BpDeviceEvent *own;
  int is_complete;
  int32_t answer;
  assert_ok(upload(handle, 0, 8, one));
  assert_ok(bp_event_record(event, one));
  assert_ok(upload(handle, 8, 8, one));
  assert_ok(bp_stream_wait_event(device, two, event));
  assert_ok(download(handle, 0, 8, two));
  assert_found(download(handle, 8, 8, two), BP_ERROR_RUNTIME, "used by a copy");
  assert_ok(bp_event_record(event, one));
  assert_ok(bp_event_synchronize(event, BP_WAIT_FOREVER, &is_complete));
  assert_ok(download(handle, 8, 8, two));
  bp_event_free(event);
  assert_ok(events->create(api->context, 0, &own));
  assert_found(events->record(api->context, own, bytes), BP_ERROR_VALUE,
               "is no stream of simdev:0");
  assert_ok(events->free(api->context, own));
  assert_found(events->query(api->context, own, &answer), BP_ERROR_VALUE,
               "is no event, or one that was freed");
  assert_found(events->free(api->context, own), BP_ERROR_VALUE, "is no event");
  end_stream(two);
  end_stream(one);
  release(handle);
}

/* Streams wait for one another through a stream of another device. */
static void test_events_order_work_across_devices(void) {
  const BpDevice other = {device.device_type, 1};
  void *handle = alloc(), *one = make_stream(), *two = make_stream(), *beside;
  BpEvent *first = bp_event_create(device), *second = bp_event_create(other);
  assert_ok(bp_stream_create(other, &beside));
  assert_ok(upload(handle, 0, 8, one));
  assert_ok(bp_event_record(first, one));
  assert_ok(bp_stream_wait_event(other, beside, first));
  assert_ok(bp_event_record(second, beside));
  assert_ok(bp_stream_wait_event(device, two, second));
  assert_ok(download(handle, 0, 8, two));
  assert_ok(bp_stream_sync(device, two));
  assert_ok(bp_stream_sync(other, beside));
  assert_ok(bp_stream_free(other, beside));
  bp_event_free(first);
  bp_event_free(second);
  end_stream(two);
  end_stream(one);
  release(handle);
}

/* ---- The host's memory ------------------------------------------------------------------- */

static void test_memory_of_the_host_is_checked(void) {
  char *data = alloc_on(host, SIZE);
  BpCopy copy = {sizeof copy, bytes, 0, host, data, 0, host, SIZE, 0};
  assert_ok(bp_device_copy(&copy, NULL));
  copy.to = data + 8;
  assert_found(bp_device_copy(&copy, NULL), BP_ERROR_INDEX,
               "cpu:0: copy: destination: 1024 bytes from byte 8 on");
  assert_ok(bp_device_free(host, data));
  assert_found(bp_device_free(host, data), BP_ERROR_VALUE, "cpu:0: free_data_space");
  assert_found(bp_device_free(host, bytes), BP_ERROR_VALUE, "is no handle");
  assert_ok(bp_device_free(host, NULL));
}

/* ---- The end ----------------------------------------------------------------------------- */

static void test_what_is_left_at_the_end_is_said(void) {
  if (g_test_subprocess()) {
    alarm(60);
    alloc();
    make_stream();
    return;
  }
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed();
  g_test_trap_assert_stderr("*validate: simdev:0: 0x*, data space of 1024 bytes, was never freed; "
                            "allocated by *\n"
                            "*validate: simdev: at the end there are still 1 allocations of 1024 "
                            "bytes, 1 streams, 0 timers, 0 recordings and 0 events\n");
}

/* ---- A plugin with a defect -------------------------------------------------------------- */

static char block[64];

static int32_t alloc_same(void *context, int32_t device_id, const BpAllocation *allocation,
                          void **handle) {
  (void)context, (void)device_id, (void)allocation;
  *handle = block;
  return 0;
}

static void test_plugin_that_gives_a_handle_twice_is_found(void) {
  static const BpDeviceApi same = {.struct_size = sizeof same,
                                   .device_type = BP_DEVICE_PRIVATE_FIRST + 900,
                                   .name = "same",
                                   .get_device_count = bare_count,
                                   .get_attr = bare_attr,
                                   .alloc_data_space = alloc_same,
                                   .free_data_space = bare_nothing,
                                   .copy = bare_copy,
                                   .stream_sync = bare_nothing};
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 8, .alignment = 1};
  BpDevice there;
  void *handle;
  assert_ok(bare_register("device_api.same", &same));
  assert_ok(bp_device_parse("same:0", &there));
  assert_ok(bp_device_alloc(there, &allocation, &handle));
  assert_found(bp_device_alloc(there, &allocation, &handle), BP_ERROR_PLUGIN,
               "which is in use; this is a defect of the plugin");
  assert_ok(bp_device_free(there, handle));
}

/* ---- A plugin whose streams and recordings fail ------------------------------------------ */

static char handles_of_streams[8];
static int num_streams, is_refusing;
static BpDevice odd;
static void *waits_for; /* a sync learns that its stream now waits for this one */

static int32_t odd_create_stream(void *context, int32_t device_id, void **stream) {
  (void)context, (void)device_id;
  *stream = &handles_of_streams[num_streams++];
  return 0;
}

static int32_t odd_free_stream(void *context, int32_t device_id, void *stream) {
  (void)context, (void)device_id, (void)stream;
  return is_refusing ? bp_error_raise(BP_ERROR_DEVICE, "no") : 0;
}

static int32_t odd_stream_sync(void *context, int32_t device_id, void *stream) {
  (void)context, (void)device_id;
  if (!waits_for)
    return 0;
  void *from = waits_for;
  waits_for = NULL;
  return bp_stream_sync_from_to(odd, from, stream);
}

static int32_t odd_order(void *context, int32_t device_id, void *from, void *to) {
  (void)context, (void)device_id, (void)from, (void)to;
  return 0;
}

static int32_t odd_begin(void *context, int32_t device_id, void *stream) {
  (void)context, (void)device_id, (void)stream;
  return 0;
}

static int32_t odd_end(void *context, int32_t device_id, void *stream, BpRecording **recording) {
  (void)context, (void)device_id, (void)stream, (void)recording;
  return bp_error_raise(BP_ERROR_DEVICE, "no");
}

static int32_t odd_replay(void *context, BpRecording *recording, void *stream) {
  (void)context, (void)recording, (void)stream;
  return 0;
}

static int32_t odd_free(void *context, BpRecording *recording) {
  (void)context, (void)recording;
  return 0;
}

static const void *odd_extension(void *context, const char *name, uint32_t version) {
  static const BpRecordingApi recordings = {sizeof recordings, odd_begin, odd_end, odd_replay,
                                            odd_free};
  (void)context;
  return !strcmp(name, BP_EXTENSION_RECORDING) && version == BP_EXTENSION_RECORDING_VERSION
             ? &recordings
             : NULL;
}

static const BpDeviceApi *find_odd(void) {
  static const BpDeviceApi table = {.struct_size = sizeof table,
                                    .device_type = BP_DEVICE_PRIVATE_FIRST + 901,
                                    .name = "odd",
                                    .get_device_count = bare_count,
                                    .get_attr = bare_attr,
                                    .alloc_data_space = bare_host_alloc,
                                    .free_data_space = bare_host_free,
                                    .copy = bare_host_copy,
                                    .create_stream = odd_create_stream,
                                    .free_stream = odd_free_stream,
                                    .sync_stream_from_to = odd_order,
                                    .stream_sync = odd_stream_sync,
                                    .get_extension = odd_extension};
  if (!odd.device_type) {
    assert_ok(bare_register("device_api.odd", &table));
    assert_ok(bp_device_parse("odd:0", &odd));
    assert_ok(bp_device_count(odd.device_type, &(int32_t){0}, NULL));
  }
  return bp_device_api(odd.device_type);
}

static void test_stream_that_could_not_be_freed_is_a_stream(void) {
  const BpDeviceApi *table = find_odd();
  void *stream;
  assert_ok(table->create_stream(table->context, 0, &stream));
  is_refusing = 1;
  g_assert_cmpint(table->free_stream(table->context, 0, stream), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_DEVICE);
  is_refusing = 0;
  assert_ok(table->stream_sync(table->context, 0, stream));
  assert_ok(table->free_stream(table->context, 0, stream));
  assert_found(table->stream_sync(table->context, 0, stream), BP_ERROR_VALUE, "is no stream");
}

/* A stream made to wait while the host waits for it: the new work is not done when the host's wait
 * ends. */
static void test_wait_that_is_added_during_a_sync_is_not_over(void) {
  find_odd();
  void *one, *two, *handle = alloc_on(odd, SIZE);
  assert_ok(bp_stream_create(odd, &one));
  assert_ok(bp_stream_create(odd, &two));
  const BpCopy first = {sizeof first, bytes, 0, host, handle, 0, odd, 8, 0};
  assert_ok(bp_device_copy(&first, one));
  waits_for = one;
  assert_ok(bp_stream_sync(odd, two));
  assert_found(bp_device_copy(&first, NULL), BP_ERROR_RUNTIME, "used by a copy");
  assert_ok(bp_device_copy(&first, two)); /* the copy waits */
  assert_ok(bp_stream_sync(odd, two));
  assert_ok(bp_device_copy(&first, NULL));
  assert_ok(bp_stream_sync(odd, NULL));
  assert_ok(bp_stream_free(odd, one));
  assert_ok(bp_stream_free(odd, two));
  assert_ok(bp_device_free(odd, handle));
}

static void test_recording_that_could_not_end_is_over(void) {
  const BpDeviceApi *table = find_odd();
  const BpRecordingApi *recordings =
      bp_device_extension(odd.device_type, BP_EXTENSION_RECORDING, BP_EXTENSION_RECORDING_VERSION);
  BpRecording *recording;
  void *stream;
  assert_ok(bp_stream_create(odd, &stream));
  for (int i = 0; i < 2; i++) {
    assert_ok(recordings->begin(table->context, 0, stream));
    g_assert_cmpint(recordings->end(table->context, 0, stream, &recording), ==, -1);
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_DEVICE);
  }
  assert_ok(bp_stream_free(odd, stream));
}

int main(int argc, char **argv) {
  g_autofree char *path = g_strdup_printf("%s/tests/mock/.libs:%s", g_getenv("top_builddir"),
                                          g_getenv("BACKPLANE_PLUGIN_PATH"));
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_setenv("BACKPLANE_LAYERS", "validate", TRUE);
  g_test_init(&argc, &argv, NULL);
  logged = g_string_new(NULL);
  bp_log_set_callback(g_test_subprocess() ? print_message : log_message, NULL);
  int32_t count;
  assert_ok(bp_device_parse("simdev:0", &device));
  assert_ok(bp_device_count(device.device_type, &count, NULL));
  api = bp_device_api(device.device_type);
#define ADD(path, test) g_test_add_func("/validate/" path, test)
  ADD("freeing-twice-is-found", test_freeing_twice_is_found);
  ADD("handle-that-nobody-gave-is-found", test_handle_that_nobody_gave_is_found);
  ADD("memory-of-another-device-is-found", test_memory_of_another_device_is_found);
  ADD("freed-memory-in-a-copy-is-found", test_freed_memory_in_a_copy_is_found);
  ADD("copy-out-of-bounds-is-found", test_copy_out_of_bounds_is_found);
  ADD("alignment-and-scope-are-checked", test_alignment_and_scope_are_checked);
  ADD("device-that-is-not-there-is-found", test_device_that_is_not_there_is_found);
  ADD("handle-as-an-address-of-the-host-is-found", test_handle_as_an_address_of_the_host_is_found);
  ADD("workspace-is-freed-as-workspace", test_workspace_is_freed_as_workspace);
  ADD("workspace-is-freed-by-its-thread", test_workspace_is_freed_by_its_thread);
  ADD("handle-that-is-no-stream-is-found", test_handle_that_is_no_stream_is_found);
  ADD("missing-wait-between-copies-is-found", test_missing_wait_between_copies_is_found);
  ADD("reads-on-two-streams-need-no-order", test_reads_on_two_streams_need_no_order);
  ADD("waits-reach-through-other-streams", test_waits_reach_through_other_streams);
  ADD("arguments-of-launches-are-checked", test_arguments_of_launches_are_checked);
  ADD("missing-wait-after-a-launch-is-found", test_missing_wait_after_a_launch_is_found);
  ADD("timers-are-checked", test_timers_are_checked);
  ADD("recordings-are-checked", test_recordings_are_checked);
  ADD("events-are-checked-and-order-work", test_events_are_checked_and_order_work);
  ADD("events-order-work-across-devices", test_events_order_work_across_devices);
  ADD("memory-of-the-host-is-checked", test_memory_of_the_host_is_checked);
  ADD("what-is-left-at-the-end-is-said", test_what_is_left_at_the_end_is_said);
  ADD("plugin-that-gives-a-handle-twice-is-found", test_plugin_that_gives_a_handle_twice_is_found);
  ADD("stream-that-could-not-be-freed-is-a-stream",
      test_stream_that_could_not_be_freed_is_a_stream);
  ADD("wait-that-is-added-during-a-sync-is-not-over",
      test_wait_that_is_added_during_a_sync_is_not_over);
  ADD("recording-that-could-not-end-is-over", test_recording_that_could_not_end_is_over);
  return g_test_run();
}
