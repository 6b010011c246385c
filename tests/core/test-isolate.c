/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin in a process of its own (BACKPLANE_ISOLATE): devices, memory, kernels, and all ways in
 * which that process can end. The devices are those of tests/mock/fragile.c. */
#include "tests/core/plugin_files.h"
#include "tests/process_usage.h"

#include <backplane/device.h>
#include <backplane/device_extensions.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 1000

static BpDevice device; /* the latest live fragile device */
static BpModule *module;

static void assert_ok(int rc) {
  if (rc)
    g_error("%s: %s", bp_error_kind(), bp_error_message());
}

static void assert_error(int rc, const char *kind, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

/* ---- Devices ----------------------------------------------------------------------------- */

static int exists(BpDevice which) {
  BpValue value;
  assert_ok(bp_device_get_attr(which, BP_ATTR_EXIST, &value));
  return value.v_int64 != 0;
}

/* Selects the first live device; a lost worker is started again. */
static void choose_device(void) {
  int32_t count;
  const char *why;
  assert_ok(bp_device_parse("fragile", &device));
  assert_ok(bp_device_count(device.device_type, &count, &why));
  while (device.device_id < count && !exists(device))
    device.device_id++;
  g_assert_cmpint(device.device_id, <, count);
}

static pid_t find_worker(BpDevice which) {
  BpValue value;
  BpByteArray text;
  assert_ok(bp_device_get_attr(which, BP_ATTR_DRIVER_VERSION, &value));
  assert_ok(bp_value_view_str(&value, &text));
  g_autofree char *number = g_strndup(text.data, text.size);
  bp_value_clear(&value);
  return (pid_t)atoi(number);
}

/* Waits until the last thread of a process has ended. In /proc the process is a zombie as soon as
 * its first thread has ended, when the host may still find it alive. */
static void assert_ends(pid_t pid) {
  struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
  if (end.fd < 0) {
    g_assert_cmpint(errno, ==, ESRCH);
    return;
  }
  g_assert_cmpint(poll(&end, 1, 5000), ==, 1);
  close(end.fd);
}

static void *allocate(BpDevice where, uint64_t size, const char *scope) {
  const BpAllocation allocation = {
      .struct_size = sizeof allocation, .size = size, .alignment = 64, .scope = scope};
  void *handle = NULL;
  assert_ok(bp_device_alloc(where, &allocation, &handle));
  return handle;
}

static int copy_in(BpDevice to, void *handle, uint64_t offset, const void *bytes, uint64_t size) {
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = bytes,
                       .from_device = {BP_DEVICE_CPU, 0},
                       .to = handle,
                       .to_offset = offset,
                       .to_device = to,
                       .size = size};
  return bp_device_copy(&copy, NULL);
}

static int copy_out(BpDevice from, void *handle, uint64_t offset, void *bytes, uint64_t size) {
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = handle,
                       .from_offset = offset,
                       .from_device = from,
                       .to = bytes,
                       .to_device = {BP_DEVICE_CPU, 0},
                       .size = size};
  return bp_device_copy(&copy, NULL);
}

static int launch(BpDevice where, const char *name, const BpValue *args, int32_t num_args) {
  BpFunction *function = NULL;
  BpValue result;
  const BpInvocation invocation = {.struct_size = sizeof invocation, .device = where};
  assert_ok(bp_module_get_function(module, name, 0, &function));
  g_assert_nonnull(function);
  int rc = bp_function_launch(function, &invocation, args, num_args, &result);
  bp_object_release(function);
  return rc;
}

static int launch_add(BpDevice where, void *handle, int64_t count, int64_t number) {
  const BpValue args[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = handle},
                          {.type_index = BP_TYPE_INT, .v_int64 = count},
                          {.type_index = BP_TYPE_INT, .v_int64 = number}};
  return launch(where, "add", args, 3);
}

/* Checks that a device works: bytes are sent, changed by a kernel, and read back. */
static void assert_works(BpDevice where) {
  int32_t data[COUNT];
  for (int32_t i = 0; i < COUNT; i++)
    data[i] = i;
  void *handle = allocate(where, sizeof data, NULL);
  assert_ok(copy_in(where, handle, 0, data, sizeof data));
  assert_ok(launch_add(where, handle, COUNT, 5));
  memset(data, 0, sizeof data);
  assert_ok(copy_out(where, handle, 0, data, sizeof data));
  for (int32_t i = 0; i < COUNT; i++)
    g_assert_cmpint(data[i], ==, i + 5);
  assert_ok(bp_device_free(where, handle));
}

/* ---- A working plugin -------------------------------------------------------------------- */

static void test_plugin_runs_in_another_process(void) {
  BpValue value;
  choose_device();
  pid_t worker = find_worker(device);
  g_assert_cmpint(worker, >, 0);
  g_assert_cmpint(worker, !=, getpid());
  assert_ok(bp_device_get_attr((BpDevice){device.device_type, device.device_id + 1},
                               BP_ATTR_WARP_SIZE, &value));
  g_assert_cmpint(value.v_int64, ==, 33);
  assert_ok(bp_device_get_attr(device, BP_ATTR_MAX_THREAD_DIMENSIONS, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_SHAPE);
  g_assert_cmpint(((const BpShape *)(const void *)value.v_obj)->data[1], ==, 64);
  bp_value_clear(&value);
  assert_works(device);
}

static void test_memory_of_the_worker_is_no_memory_of_the_host(void) {
  BpValue value;
  choose_device();
  assert_ok(bp_device_get_attr(device, BP_ATTR_HOST_ACCESSIBLE, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_BOOL);
  g_assert_cmpint(value.v_int64, ==, 0);
}

static void test_shape_of_many_extents_crosses(void) {
  BpValue value;
  choose_device();
  assert_ok(bp_device_get_attr(device, 100000, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_SHAPE);
  const BpShape *shape = (const BpShape *)(const void *)value.v_obj;
  g_assert_cmpuint(shape->size, ==, 9);
  g_assert_cmpint(shape->data[8], ==, 9);
  bp_value_clear(&value);
}

static void test_worker_is_no_child_that_a_wait_sees(void) {
  choose_device();
  g_assert_cmpint(waitpid(-1, NULL, WNOHANG), ==, -1);
  g_assert_cmpint(errno, ==, ECHILD);
}

static void test_copies_of_any_size_and_offset_are_exact(void) {
  static const uint64_t sizes[] = {1,       32768,         32769,         512 << 10,
                                   1 << 20, (1 << 20) + 1, (5 << 20) + 3, (21 << 20) + 5};
  const uint64_t most = 22 << 20;
  char *source = g_malloc(most), *target = g_malloc(most);
  choose_device();
  void *handle = allocate(device, most, NULL);
  for (uint64_t i = 0; i < most; i++)
    source[i] = (char)(i * 2654435761u >> 13);
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
    for (uint64_t offset = 0; offset <= 13; offset += 13) {
      memset(target, 0, most);
      assert_ok(copy_in(device, handle, offset, source + i, sizes[i]));
      assert_ok(copy_out(device, handle, offset, target, sizes[i]));
      g_assert_cmpmem(target, sizes[i], source + i, sizes[i]);
    }
  assert_ok(bp_device_free(device, handle));
  g_free(source);
  g_free(target);
}

/* ---- Shared memory ----------------------------------------------------------------------- */

#define SHARED_SIZE ((uint64_t)24 << 20)

/* Selects a device that runs on the host's CPU and imports host memory. */
static int choose_software_device(BpDevice *found) {
  BpValue value;
  int32_t count = 0;
  if (bp_device_parse("opencl", found) || bp_device_count(found->device_type, &count, NULL) ||
      !count || bp_device_get_attr(*found, BP_ATTR_RANK, &value) || value.v_int64 >= 100) {
    bp_error_clear();
    g_test_skip("there is no software driver of OpenCL");
    return 0;
  }
  return 1;
}

/* Returns the bytes of shared memory that this process has mapped and touched. */
static int64_t count_shared_bytes(void) {
  g_autofree char *text = NULL;
  g_assert_true(g_file_get_contents("/proc/self/status", &text, NULL, NULL));
  const char *line = strstr(text, "RssShmem:");
  g_assert_nonnull(line);
  return g_ascii_strtoll(line + strlen("RssShmem:"), NULL, 10) << 10;
}

static void test_memory_of_a_software_device_is_shared_until_it_is_freed(void) {
  BpDevice where;
  if (!choose_software_device(&where))
    return;
  g_autofree char *source = g_malloc(SHARED_SIZE), *target = g_malloc0(SHARED_SIZE);
  for (uint64_t i = 0; i < SHARED_SIZE; i++)
    source[i] = (char)(i * 2654435761u >> 13);
  int64_t before = count_shared_bytes();
  void *handle = allocate(where, SHARED_SIZE, NULL);
  assert_ok(copy_in(where, handle, 0, source, SHARED_SIZE));
  g_assert_cmpint(count_shared_bytes() - before, >=, (int64_t)SHARED_SIZE);
  assert_ok(copy_out(where, handle, 0, target, SHARED_SIZE));
  assert_ok(bp_stream_sync(where, NULL));
  g_assert_cmpmem(target, SHARED_SIZE, source, SHARED_SIZE);
  assert_ok(bp_device_free(where, handle));
  assert_ok(bp_stream_sync(where, NULL));
  g_assert_cmpint(count_shared_bytes() - before, <, (int64_t)SHARED_SIZE / 4);
}

/* The free finds no memory for an event, and is tried again. */
static void test_shared_memory_is_returned_after_a_passing_lack_of_memory(void) {
  choose_device();
  const BpDevice where = {device.device_type, device.device_id | 1};
  g_autofree char *bytes = g_malloc0(SHARED_SIZE);
  int64_t before = count_shared_bytes();
  void *handle = allocate(where, SHARED_SIZE, NULL);
  assert_ok(copy_in(where, handle, 0, bytes, SHARED_SIZE));
  g_assert_cmpint(count_shared_bytes() - before, >=, (int64_t)SHARED_SIZE);
  assert_ok(launch(where, "fail-event", NULL, 0));
  assert_ok(bp_device_free(where, handle));
  assert_ok(bp_stream_sync(where, NULL));
  g_assert_cmpint(count_shared_bytes() - before, <, (int64_t)SHARED_SIZE / 4);
}

static void test_copy_past_the_end_of_shared_memory_is_refused(void) {
  BpDevice where;
  if (!choose_software_device(&where))
    return;
  g_autofree char *bytes = g_malloc0(200000);
  void *handle = allocate(where, 100001, NULL);
  assert_error(copy_in(where, handle, 1, bytes, 100001), BP_ERROR_VALUE, "100001");
  assert_error(copy_out(where, handle, 2, bytes, 100000), BP_ERROR_VALUE, "100001");
  assert_ok(copy_in(where, handle, 1, bytes, 100000));
  assert_ok(bp_device_free(where, handle));
  assert_error(copy_in(where, handle, 1, bytes, 100000), BP_ERROR_VALUE, "");
}

static void copy_on(BpDevice where, void *from, void *to, void *stream) {
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = from,
                       .from_device = where,
                       .to = to,
                       .to_device = where,
                       .size = SHARED_SIZE};
  assert_ok(bp_device_copy(&copy, stream));
}

/* A stream waits for a held event and then reads memory that was freed, and a new allocation is
 * written meanwhile. The stream, too, is freed before it reads. */
static void test_freed_memory_is_not_used_again_before_queued_work_read_it(void) {
  BpDevice where;
  void *stream;
  BpDeviceEvent *held = NULL, *read = NULL;
  int32_t state;
  if (!choose_software_device(&where))
    return;
  const BpDeviceApi *api = bp_device_api(where.device_type);
  const BpEventsApi *events =
      bp_device_extension(where.device_type, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION);
  g_autofree char *bytes = g_malloc(SHARED_SIZE), *got = g_malloc0(SHARED_SIZE);
  void *from = allocate(where, SHARED_SIZE, NULL), *to = allocate(where, SHARED_SIZE, NULL);
  assert_ok(copy_in(where, from, 0, memset(bytes, 1, SHARED_SIZE), SHARED_SIZE));
  assert_ok(copy_in(where, to, 0, memset(bytes, 2, SHARED_SIZE), SHARED_SIZE));
  assert_ok(bp_stream_create(where, &stream));
  assert_ok(events->create(api->context, where.device_id, &held));
  assert_ok(events->create(api->context, where.device_id, &read));
  assert_ok(events->hold(api->context, held));
  assert_ok(events->wait(api->context, held, stream));
  copy_on(where, from, to, stream);
  assert_ok(events->record(api->context, read, stream));
  assert_ok(bp_stream_free(where, stream));
  assert_ok(bp_device_free(where, from));
  void *other = allocate(where, SHARED_SIZE, NULL);
  assert_ok(copy_in(where, other, 0, memset(bytes, 3, SHARED_SIZE), SHARED_SIZE));
  assert_ok(events->signal(api->context, held));
  assert_ok(events->synchronize(api->context, read, BP_WAIT_FOREVER, &state));
  assert_ok(copy_out(where, to, 0, got, SHARED_SIZE));
  assert_ok(bp_stream_sync(where, NULL));
  g_assert_cmpmem(got, SHARED_SIZE, memset(bytes, 1, SHARED_SIZE), SHARED_SIZE);
  assert_ok(bp_device_free(where, other));
  assert_ok(bp_device_free(where, to));
  assert_ok(events->free(api->context, held));
  assert_ok(events->free(api->context, read));
}

static void test_copy_between_two_devices_stays_in_the_worker(void) {
  choose_device();
  const BpDevice other = {device.device_type, device.device_id + 1};
  int32_t sent = 7, got = 0;
  void *from = allocate(device, 64, NULL), *to = allocate(other, 64, NULL);
  assert_ok(copy_in(device, from, 8, &sent, sizeof sent));
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = from,
                       .from_offset = 8,
                       .from_device = device,
                       .to = to,
                       .to_offset = 16,
                       .to_device = other,
                       .size = sizeof sent};
  assert_ok(bp_device_copy(&copy, NULL));
  assert_ok(copy_out(other, to, 16, &got, sizeof got));
  g_assert_cmpint(got, ==, sent);
  assert_ok(bp_device_free(device, from));
  assert_ok(bp_device_free(other, to));
}

static void test_error_of_the_plugin_has_its_kind_and_words(void) {
  choose_device();
  assert_error(launch(device, "fail", NULL, 0), BP_ERROR_VALUE, "fragile: it fails, as it should");
  const BpAllocation huge = {.struct_size = sizeof huge, .size = UINT64_MAX / 2, .alignment = 1};
  void *handle;
  assert_error(bp_device_alloc(device, &huge, &handle), BP_ERROR_MEMORY, "fragile: no memory");
  const BpByteArray bytes = {"none", 4};
  g_assert_null(bp_module_load_from_bytes("fragile", &bytes));
  assert_error(-1, BP_ERROR_FORMAT, "these bytes are no module");
  assert_works(device);
}

static void test_argument_that_cannot_cross_is_an_error(void) {
  const BpValue text = {.type_index = BP_TYPE_RAW_STR, .v_cstr = "text"};
  choose_device();
  assert_error(launch(device, "add", &text, 1), BP_ERROR_TYPE, "does not cross");
  assert_works(device);
}

static void test_module_that_lists_no_functions_has_them(void) {
  const BpByteArray code = {"mute", 4};
  BpFunction *function = NULL;
  BpModule *listed = module;
  choose_device();
  module = bp_module_load_from_bytes("fragile", &code);
  g_assert_nonnull(module);
  assert_works(device);
  assert_ok(bp_module_get_function(module, "absent", 0, &function));
  g_assert_null(function);
  bp_object_release(module);
  module = listed;
}

static void test_module_of_many_functions_lists_them(void) {
  const BpByteArray code = {"many", 4};
  BpModule *listed = module;
  size_t count = 0;
  choose_device();
  module = bp_module_load_from_bytes("fragile", &code);
  assert_ok(module ? 0 : -1);
  char **names = bp_module_list_functions(module, &count);
  g_assert_cmpuint(count, >, 5000);
  int has_last = 0;
  for (size_t i = 0; i < count; i++)
    has_last |= !strcmp(names[i], "function_number_4999");
  g_assert_true(has_last);
  bp_names_free(names);
  assert_works(device);
  bp_object_release(module);
  module = listed;
}

/* The deadline of a call is shorter than the wait for the event. */
static void test_wait_for_an_event_may_take_longer_than_a_call(void) {
  BpDevice simdev;
  BpDeviceEvent *event = NULL;
  int32_t state = BP_EVENT_COMPLETE, count;
  assert_ok(bp_device_parse("simdev", &simdev));
  assert_ok(bp_device_count(simdev.device_type, &count, NULL));
  const BpDeviceApi *api = bp_device_api(simdev.device_type);
  const BpEventsApi *events =
      bp_device_extension(simdev.device_type, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION);
  g_assert_nonnull(events);
  assert_ok(events->create(api->context, simdev.device_id, &event));
  assert_ok(events->hold(api->context, event));
  assert_ok(events->synchronize(api->context, event, UINT64_C(1700000000), &state));
  g_assert_cmpint(state, ==, BP_EVENT_PENDING);
  assert_ok(events->signal(api->context, event));
  assert_ok(events->synchronize(api->context, event, BP_WAIT_FOREVER, &state));
  g_assert_cmpint(state, ==, BP_EVENT_COMPLETE);
  assert_ok(events->free(api->context, event));
}

static void *use_device(void *context) {
  const BpDevice where = *(const BpDevice *)context;
  for (int i = 0; i < 20; i++)
    assert_works(where);
  return NULL;
}

static void test_threads_use_two_devices_at_once(void) {
  GThread *threads[8];
  choose_device();
  BpDevice devices[] = {device, {device.device_type, device.device_id + 1}};
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    threads[i] = g_thread_new("user", use_device, &devices[i % 2]);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_thread_join(threads[i]);
}

/* ---- Loss -------------------------------------------------------------------------------- */

/* The devices of a lost worker stay lost; the next worker's devices have new indices, and modules
 * continue on them. */
static void assert_lost_and_replaced(pid_t worker) {
  const BpDevice lost = device;
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 1, .alignment = 1};
  void *handle;
  assert_ends(worker);
  g_assert_false(exists(lost));
  assert_error(bp_device_alloc(lost, &allocation, &handle), BP_ERROR_DEVICE_LOST, "fragile");
  choose_device();
  g_assert_cmpint(device.device_id, >, lost.device_id);
  g_assert_cmpint(find_worker(device), !=, worker);
  assert_works(device);
}

static void assert_kernel_loses_device(const char *kernel, const char *words) {
  choose_device();
  pid_t worker = find_worker(device);
  void *handle = allocate(device, 64, NULL);
  assert_error(launch(device, kernel, NULL, 0), BP_ERROR_DEVICE_LOST, words);
  assert_ok(bp_device_free(device, handle));
  assert_lost_and_replaced(worker);
}

static void test_kernel_that_crashes_loses_the_device(void) {
  assert_kernel_loses_device("segv", "crashed (segmentation fault) in a call of launch");
  assert_kernel_loses_device("abort", "aborted in a call of launch");
}

static void test_kernel_that_exits_loses_the_device(void) {
  assert_kernel_loses_device("exit", "ended itself in a call of launch");
  assert_kernel_loses_device("kill", "was killed in a call of launch");
}

static void test_kernel_that_hangs_loses_the_device(void) {
  assert_kernel_loses_device("hang", "did not answer before BACKPLANE_WORKER_DEADLINE");
  assert_kernel_loses_device("stop", "did not answer before BACKPLANE_WORKER_DEADLINE");
}

/* A child stops this process during a kernel, for longer than the deadline, as a batch system
 * does. */
static void test_pause_of_the_host_loses_no_device(void) {
  choose_device();
  pid_t host = getpid(), child = fork();
  if (!child) {
    g_usleep(300000);
    kill(host, SIGSTOP);
    g_usleep(2500000);
    kill(host, SIGCONT);
    _exit(0);
  }
  assert_ok(launch(device, "nap", NULL, 0));
  g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
}

static void test_answer_that_is_garbled_loses_the_device(void) {
  assert_kernel_loses_device("garble-size", "gave an answer that is too long");
  assert_kernel_loses_device("garble-error", "gave an answer that cannot be read");
  assert_kernel_loses_device("garble-chunks", "counted chunks that it did not move");
}

static int32_t use_lost_device(void) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 1, .alignment = 1};
  void *handle;
  return bp_device_alloc(device, &allocation, &handle);
}

static void note_and_use(void *context, int32_t level, const char *message) {
  int *num_losses = context;
  (void)level;
  if (!strstr(message, "crashed"))
    return;
  assert_error(use_lost_device(), BP_ERROR_DEVICE_LOST, "crashed");
  ++*num_losses;
}

static void test_log_callback_may_use_the_lost_device(void) {
  static int num_losses;
  bp_log_set_callback(note_and_use, &num_losses);
  assert_kernel_loses_device("segv", "crashed (segmentation fault) in a call of launch");
  bp_log_set_callback(NULL, NULL);
  g_assert_cmpint(num_losses, ==, 1);
}

static void test_worker_that_was_killed_is_found_by_the_next_call(void) {
  choose_device();
  pid_t worker = find_worker(device);
  g_assert_cmpint(kill(worker, SIGKILL), ==, 0);
  assert_error(launch(device, "fail", NULL, 0), BP_ERROR_DEVICE_LOST, "was killed");
  assert_lost_and_replaced(worker);
}

static void test_worker_that_died_idle_is_replaced_by_the_next_count(void) {
  int32_t before = 0, after = 0;
  choose_device();
  const BpDevice lost = device;
  assert_ok(bp_device_count(lost.device_type, &before, NULL));
  pid_t worker = find_worker(device);
  g_assert_cmpint(kill(worker, SIGKILL), ==, 0);
  assert_ends(worker);
  assert_ok(bp_device_count(lost.device_type, &after, NULL));
  g_assert_cmpint(after, >, before);
  assert_lost_and_replaced(worker);
}

static void *kill_soon(void *context) {
  g_usleep(100000);
  kill(*(const pid_t *)context, SIGKILL);
  return NULL;
}

static void test_worker_that_is_killed_ends_a_call_under_way(void) {
  choose_device();
  pid_t worker = find_worker(device);
  GThread *thread = g_thread_new("killer", kill_soon, &worker);
  assert_error(launch(device, "hang", NULL, 0), BP_ERROR_DEVICE_LOST, "was killed");
  g_thread_join(thread);
  assert_lost_and_replaced(worker);
}

static void *hang_on(void *context) {
  assert_error(launch(*(const BpDevice *)context, "hang", NULL, 0), BP_ERROR_DEVICE_LOST,
               "crashed");
  return NULL;
}

static void test_crash_in_one_thread_ends_the_calls_of_all_threads(void) {
  GThread *threads[4];
  choose_device();
  pid_t worker = find_worker(device);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    threads[i] = g_thread_new("hanging", hang_on, &device);
  g_usleep(100000);
  assert_error(launch(device, "segv", NULL, 0), BP_ERROR_DEVICE_LOST, "crashed");
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_thread_join(threads[i]);
  assert_lost_and_replaced(worker);
}

static void test_worker_that_ends_within_a_copy_loses_the_device(void) {
  const uint64_t size = 8 << 20;
  char *bytes = g_malloc0(size);
  for (int is_out = 0; is_out < 2; is_out++) {
    choose_device();
    pid_t worker = find_worker(device);
    void *handle = allocate(device, size, "brittle");
    assert_error(is_out ? copy_out(device, handle, 0, bytes, size)
                        : copy_in(device, handle, 0, bytes, size),
                 BP_ERROR_DEVICE_LOST, "was killed in a call of copy_");
    assert_lost_and_replaced(worker);
  }
  g_free(bytes);
}

static void test_worker_without_memory_gives_errors(void) {
  const BpAllocation allocation = {
      .struct_size = sizeof allocation, .size = 64 << 20, .alignment = 1};
  void *handle;
  choose_device();
  pid_t worker = find_worker(device);
  assert_ok(launch(device, "starve", NULL, 0));
  assert_error(bp_device_alloc(device, &allocation, &handle), BP_ERROR_MEMORY,
               "fragile: no memory");
  g_assert_cmpint(find_worker(device), ==, worker);
  kill(worker, SIGKILL);
  assert_error(launch(device, "fail", NULL, 0), BP_ERROR_DEVICE_LOST, "was killed");
  assert_lost_and_replaced(worker);
}

static void test_lost_workers_leave_no_descriptors(void) {
  choose_device();
  assert_kernel_loses_device("segv", "crashed");
  int before = count_descriptors();
  for (int i = 0; i < 5; i++)
    assert_kernel_loses_device("segv", "crashed");
  g_assert_cmpint(count_descriptors(), ==, before);
}

/* A new worker starts while the program has a pipe that programs inherit. */
static void test_worker_keeps_no_descriptor_of_the_program(void) {
  int ends[2];
  g_assert_cmpint(pipe(ends), ==, 0);
  choose_device();
  assert_kernel_loses_device("segv", "crashed");
  choose_device();
  close(ends[1]);
  struct pollfd reader = {.fd = ends[0], .events = POLLIN};
  g_assert_cmpint(poll(&reader, 1, 5000), ==, 1);
  close(ends[0]);
}

static void ignore_signal(int number) {
  (void)number;
}

/* A profiler interrupts the program's waits thousands of times a second. */
static void test_worker_starts_while_signals_interrupt_the_program(void) {
  const struct sigaction action = {.sa_handler = ignore_signal};
  const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  struct sigaction before;
  choose_device();
  assert_ok(sigaction(SIGALRM, &action, &before));
  assert_ok(setitimer(ITIMER_REAL, &often, NULL));
  for (int i = 0; i < 3; i++) {
    kill(find_worker(device), SIGKILL);
    assert_error(launch(device, "fail", NULL, 0), BP_ERROR_DEVICE_LOST, "was killed");
    choose_device();
  }
  assert_ok(setitimer(ITIMER_REAL, &never, NULL));
  assert_ok(sigaction(SIGALRM, &before, NULL));
  assert_works(device);
}

/* ---- The worker's rights ----------------------------------------------------------------- */

static void test_worker_makes_no_file_outside_of_caches(void) {
  const char *path = g_getenv("BACKPLANE_FRAGILE_FILE");
  if (syscall(444, NULL, 0, 1) < 1) {
    g_test_skip("the kernel has no Landlock");
    return;
  }
  choose_device();
  assert_error(launch(device, "make-file", NULL, 0), BP_ERROR_IO, "Permission denied");
  g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
}

static void test_worker_sends_no_signal_to_its_host(void) {
  if (syscall(444, NULL, 0, 1) < 6) {
    g_test_skip("the kernel's Landlock does not know signals");
    return;
  }
  choose_device();
  assert_error(launch(device, "signal-host", NULL, 0), BP_ERROR_IO, "Operation not permitted");
}

/* ---- Forks and the end ------------------------------------------------------------------- */

/* Returns 0 if every call in the child of a fork fails at once. */
static int try_in_child(void *handle) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 1, .alignment = 1};
  const BpByteArray code = {"code", 4};
  int32_t byte = 0;
  void *made;
  alarm(20);
  int descriptors = count_descriptors();
  if (bp_module_load_from_bytes("fragile", &code) || !bp_error_is(BP_ERROR_DEVICE) ||
      count_descriptors() != descriptors)
    return 2; /* the child started a worker of its own */
  if (!bp_device_alloc(device, &allocation, &made) || !copy_in(device, handle, 0, &byte, 4) ||
      !launch(device, "fail", NULL, 0) || !bp_error_is(BP_ERROR_DEVICE))
    return 1;
  bp_object_release(module);
  return 0;
}

static void test_child_of_a_fork_gets_errors_and_the_parent_goes_on(void) {
  int status;
  choose_device();
  void *handle = allocate(device, 64, NULL);
  pid_t child = fork();
  if (!child)
    _exit(try_in_child(handle));
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_cmpint(status, ==, 0);
  assert_ok(bp_device_free(device, handle));
  assert_works(device);
}

static void test_worker_ends_with_its_host(void) {
  if (g_test_subprocess()) {
    choose_device();
    g_print("worker %d\n", (int)find_worker(device));
    kill(getpid(), SIGKILL);
  }
  g_autoptr(GError) error = NULL;
  g_autofree char *output = NULL;
  char *command[] = {(char *)(uintptr_t) "/proc/self/exe", (char *)(uintptr_t) "--GTestSubprocess",
                     (char *)(uintptr_t) "-p",
                     (char *)(uintptr_t) "/isolate/worker-ends-with-its-host", NULL};
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  g_assert_cmpint(length, >, 0);
  path[length] = '\0';
  command[0] = path;
  g_assert_true(g_spawn_sync(NULL, command, NULL, G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &output,
                             NULL, NULL, &error));
  const char *found = strstr(output, "worker ");
  g_assert_nonnull(found);
  assert_ends((pid_t)atoi(found + strlen("worker ")));
}

/* ---- Plugins that cannot be isolated ----------------------------------------------------- */

static void test_plugin_whose_devices_are_this_process_is_refused_by_name(void) {
  assert_error(bp_plugin_activate("cpu"), BP_ERROR_PLUGIN, "the memory of this process");
}

static void test_plugin_with_names_that_do_not_cross_is_refused(void) {
  assert_error(bp_plugin_activate("layers"), BP_ERROR_PLUGIN, "it has no device");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  copy_plugin("fragile", "fragile.so", NULL, NULL);
  copy_plugin("simdev", "simdev.so", NULL, NULL);
  g_autofree char *path =
      g_strdup_printf("%s:%s", plugin_directory, g_getenv("BACKPLANE_PLUGIN_PATH"));
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_setenv("BACKPLANE_ISOLATE", "frag*, simdev, opencl*, cpu,layers", TRUE);
  g_setenv("BACKPLANE_WORKER_DEADLINE", "1.5", TRUE);
  g_autofree char *file = g_build_filename(g_get_home_dir(), ".backplane-fragile-file", NULL);
  g_setenv("BACKPLANE_FRAGILE_FILE", file, TRUE);
  g_autofree char *host = g_strdup_printf("%d", (int)getpid());
  g_setenv("BACKPLANE_FRAGILE_HOST", host, TRUE);
  const BpByteArray code = {"code", 4};
  module = bp_module_load_from_bytes("fragile", &code);
  if (!module)
    g_error("%s", bp_error_message());
#define TEST(name, function) g_test_add_func("/isolate/" name, function)
  TEST("plugin-runs-in-another-process", test_plugin_runs_in_another_process);
  TEST("memory-of-the-worker-is-no-memory-of-the-host",
       test_memory_of_the_worker_is_no_memory_of_the_host);
  TEST("shape-of-many-extents-crosses", test_shape_of_many_extents_crosses);
  TEST("worker-is-no-child-that-a-wait-sees", test_worker_is_no_child_that_a_wait_sees);
  TEST("copies-of-any-size-and-offset-are-exact", test_copies_of_any_size_and_offset_are_exact);
  TEST("memory-of-a-software-device-is-shared-until-it-is-freed",
       test_memory_of_a_software_device_is_shared_until_it_is_freed);
  TEST("shared-memory-is-returned-after-a-passing-lack-of-memory",
       test_shared_memory_is_returned_after_a_passing_lack_of_memory);
  TEST("copy-past-the-end-of-shared-memory-is-refused",
       test_copy_past_the_end_of_shared_memory_is_refused);
  TEST("freed-memory-is-not-used-again-before-queued-work-read-it",
       test_freed_memory_is_not_used_again_before_queued_work_read_it);
  TEST("copy-between-two-devices-stays-in-the-worker",
       test_copy_between_two_devices_stays_in_the_worker);
  TEST("error-of-the-plugin-has-its-kind-and-words",
       test_error_of_the_plugin_has_its_kind_and_words);
  TEST("argument-that-cannot-cross-is-an-error", test_argument_that_cannot_cross_is_an_error);
  TEST("module-that-lists-no-functions-has-them", test_module_that_lists_no_functions_has_them);
  TEST("module-of-many-functions-lists-them", test_module_of_many_functions_lists_them);
  TEST("wait-for-an-event-may-take-longer-than-a-call",
       test_wait_for_an_event_may_take_longer_than_a_call);
  TEST("threads-use-two-devices-at-once", test_threads_use_two_devices_at_once);
  TEST("kernel-that-crashes-loses-the-device", test_kernel_that_crashes_loses_the_device);
  TEST("kernel-that-exits-loses-the-device", test_kernel_that_exits_loses_the_device);
  TEST("kernel-that-hangs-loses-the-device", test_kernel_that_hangs_loses_the_device);
  TEST("pause-of-the-host-loses-no-device", test_pause_of_the_host_loses_no_device);
  TEST("answer-that-is-garbled-loses-the-device", test_answer_that_is_garbled_loses_the_device);
  TEST("log-callback-may-use-the-lost-device", test_log_callback_may_use_the_lost_device);
  TEST("worker-that-was-killed-is-found-by-the-next-call",
       test_worker_that_was_killed_is_found_by_the_next_call);
  TEST("worker-that-died-idle-is-replaced-by-the-next-count",
       test_worker_that_died_idle_is_replaced_by_the_next_count);
  TEST("worker-that-is-killed-ends-a-call-under-way",
       test_worker_that_is_killed_ends_a_call_under_way);
  TEST("crash-in-one-thread-ends-the-calls-of-all-threads",
       test_crash_in_one_thread_ends_the_calls_of_all_threads);
  TEST("worker-that-ends-within-a-copy-loses-the-device",
       test_worker_that_ends_within_a_copy_loses_the_device);
  TEST("worker-without-memory-gives-errors", test_worker_without_memory_gives_errors);
  TEST("worker-makes-no-file-outside-of-caches", test_worker_makes_no_file_outside_of_caches);
  TEST("worker-sends-no-signal-to-its-host", test_worker_sends_no_signal_to_its_host);
  TEST("lost-workers-leave-no-descriptors", test_lost_workers_leave_no_descriptors);
  TEST("worker-starts-while-signals-interrupt-the-program",
       test_worker_starts_while_signals_interrupt_the_program);
  TEST("worker-keeps-no-descriptor-of-the-program", test_worker_keeps_no_descriptor_of_the_program);
  TEST("child-of-a-fork-gets-errors-and-the-parent-goes-on",
       test_child_of_a_fork_gets_errors_and_the_parent_goes_on);
  TEST("worker-ends-with-its-host", test_worker_ends_with_its_host);
  TEST("plugin-whose-devices-are-this-process-is-refused-by-name",
       test_plugin_whose_devices_are_this_process_is_refused_by_name);
  TEST("plugin-with-names-that-do-not-cross-is-refused",
       test_plugin_with_names_that_do_not_cross_is_refused);
  int rc = g_test_run();
  bp_object_release(module);
  remove_plugin_directory();
  return rc;
}
