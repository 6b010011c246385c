/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of another machine (BACKPLANE_REMOTE, remote:HOST), which is this one: the command that
 * reaches a machine is this program. For the machines "good" and "other", which have a plugin more
 * than this one, it starts the worker; for any other, it is itself a peer that breaks the protocol
 * in the way that the machine's name says. */
#include "tests/core/module-fixture.h"
#include "tests/core/plugin_files.h"

#include "plugins/worker/protocol.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000

static BpDevice device; /* a live fragile device */
static BpModule *module;

static void assert_ok(int rc) {
  if (rc)
    g_error("%s: %s", bp_error_kind(), bp_error_message());
}

static void assert_error(int rc, const char *kind, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  if (strcmp(bp_error_kind(), kind) || !strstr(bp_error_message(), part))
    g_error("%s: %s; expected %s: %s", bp_error_kind(), bp_error_message(), kind, part);
  bp_error_clear();
}

/* ---- Peers that break the protocol ------------------------------------------------------- */

static void send_bytes(const void *bytes, size_t size) {
  if (fwrite(bytes, 1, size, stdout) != size)
    exit(1);
  fflush(stdout);
}

static void send_frame(uint32_t type, uint32_t channel, uint64_t number, uint64_t size) {
  const BpWorkerFrame frame = {type, channel, number, size};
  send_bytes(&frame, sizeof frame);
}

/* Answers the first request, as the peer's name says. */
static void break_protocol(const char *how) {
  BpWorkerGreeting greeting = {BP_WORKER_MAGIC, BP_WORKER_VERSION + !strcmp(how, "newer")};
  const uint64_t endless = UINT64_MAX;
  BpWorkerFrame request;
  if (!strcmp(how, "chatty"))
    puts("Welcome to this machine.");
  if (!strcmp(how, "refusing"))
    exit(77);
  if (!strcmp(how, "without-worker"))
    exit(127);
  send_bytes(&greeting, sizeof greeting);
  if (fread(&request, sizeof request, 1, stdin) != 1)
    exit(0);
  if (!strcmp(how, "long-answer"))
    send_frame(BP_WORKER_FRAME_ANSWER, request.channel, 0, (uint64_t)1 << 40);
  else if (!strcmp(how, "no-channel"))
    send_frame(BP_WORKER_FRAME_ANSWER, BP_WORKER_CHANNELS, 0, 0);
  else if (!strcmp(how, "other-channel"))
    send_frame(BP_WORKER_FRAME_ANSWER, request.channel + 1, 0, 0);
  else if (!strcmp(how, "part"))
    send_frame(BP_WORKER_FRAME_PART, request.channel, 0, 16);
  else if (!strcmp(how, "done"))
    send_frame(BP_WORKER_FRAME_DONE, 0, 1, 0);
  else if (!strcmp(how, "no-frame"))
    send_frame(12345, 0, 0, 0);
  else if (!strcmp(how, "long-log"))
    send_frame(BP_WORKER_FRAME_LOG, 0, 0, BP_WORKER_TEXT_MAX);
  else if (!strcmp(how, "no-error")) {
    send_frame(BP_WORKER_FRAME_ANSWER, request.channel, 1, sizeof endless);
    send_bytes(&endless, sizeof endless);
  } else if (!strcmp(how, "no-size")) { /* a blob that would exhaust memory */
    send_frame(BP_WORKER_FRAME_ANSWER, request.channel, 0, 2 * sizeof endless);
    send_bytes(&endless, sizeof endless);
    send_bytes(&endless, sizeof endless);
  } else if (!strcmp(how, "many-plugins")) { /* the host takes the bytes that do not come for 0 */
    const uint64_t list[] = {1, 1 << 20};
    uint64_t blob;
    send_frame(BP_WORKER_FRAME_ANSWER, request.channel, 0, sizeof list);
    send_bytes(list, sizeof list);
    if (fread(&request, sizeof request, 1, stdin) == 1 && fread(&blob, sizeof blob, 1, stdin) == 1)
      send_frame(BP_WORKER_FRAME_ANSWER, request.channel, 0, 0);
  } else if (!strcmp(how, "short-answer"))
    send_frame(BP_WORKER_FRAME_ANSWER, request.channel, 0, 0);
  else if (!strcmp(how, "going"))
    exit(0);
  while (getchar() != EOF) {
  }
}

/* The entry point when called like ssh: with a machine and a command. */
static int reach(const char *host, const char *command) {
  g_setenv("BACKPLANE_PLUGIN_PATH", g_getenv("TEST_PLUGINS_THERE"), TRUE);
  if (!strcmp(host, "good") || !strcmp(host, "other"))
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  break_protocol(host);
  return 0;
}

static void assert_refused(const char *host, const char *words) {
  g_autofree char *preference = g_strdup_printf("remote:%s", host);
  BpDevice chosen;
  g_test_message("%s", host);
  int rc = bp_device_select(preference, &chosen, NULL);
  g_assert_cmpint(rc, ==, -1);
  if (!strstr(bp_error_message(), words))
    g_error("%s: \"%s\" does not contain \"%s\"", host, bp_error_message(), words);
  bp_error_clear();
}

static void test_peer_of_another_version_is_refused_in_words(void) {
  assert_refused("newer", "install the same version of Backplane on both machines");
  assert_refused("chatty", "start-up files of its shell must print nothing");
  assert_refused("refusing", "ended with status 77 before a worker answered");
  assert_refused("without-worker", "install backplane-worker there");
}

static void test_peer_that_breaks_the_protocol_is_refused(void) {
  static const char *const peers[] = {"long-answer", "no-channel", "other-channel", "part",
                                      "done",        "no-frame",   "long-log",      "no-error"};
  for (size_t i = 0; i < G_N_ELEMENTS(peers); i++)
    assert_refused(peers[i], "the other machine sent a malformed frame");
  assert_refused("no-size", "gave a size that no memory has");
  assert_refused("many-plugins", "it lists 1048576 plugins, and at most 1024 are taken");
  assert_refused("short-answer", "gave an answer that is too short");
  assert_refused("going", "lost its connection");
}

static void test_text_that_is_no_machine_is_refused(void) {
  assert_refused("-oProxyCommand", "is no machine");
  assert_refused("two words", "is no machine");
  assert_refused("me@-oProxyCommand", "is no machine");
  assert_refused("me@", "is no machine");
  assert_refused("@box", "is no machine");
  assert_refused("box;true", "is no machine");
  assert_refused("$(true)", "is no machine");
  assert_refused("`true`", "is no machine");
}

/* ---- A machine that works ---------------------------------------------------------------- */

/* Selects a live device; a lost machine is connected again. */
static void choose_device(void) {
  assert_ok(bp_device_select("remote:good/fragile", &device, NULL));
}

static void *allocate(uint64_t size) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = size, .alignment = 64};
  void *handle = NULL;
  assert_ok(bp_device_alloc(device, &allocation, &handle));
  return handle;
}

static int copy_in(void *handle, uint64_t offset, const void *bytes, uint64_t size) {
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = bytes,
                       .from_device = {BP_DEVICE_CPU, 0},
                       .to = handle,
                       .to_offset = offset,
                       .to_device = device,
                       .size = size};
  return bp_device_copy(&copy, NULL);
}

static int copy_out(void *handle, uint64_t offset, void *bytes, uint64_t size) {
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = handle,
                       .from_offset = offset,
                       .from_device = device,
                       .to = bytes,
                       .to_device = {BP_DEVICE_CPU, 0},
                       .size = size};
  return bp_device_copy(&copy, NULL);
}

/* Functions that were launched, by name: a repeated launch uses the same function. */
static GHashTable *functions;

static BpFunction *find_function(const char *name) {
  BpFunction *function = g_hash_table_lookup(functions, name);
  if (function)
    return function;
  assert_ok(bp_module_get_function(module, name, 0, &function));
  g_assert_nonnull(function);
  g_hash_table_insert(functions, (char *)(uintptr_t)name, function);
  return function;
}

static int launch(const char *name, const BpValue *args, int32_t num_args) {
  BpValue result;
  const BpInvocation invocation = {.struct_size = sizeof invocation, .device = device};
  return bp_function_launch(find_function(name), &invocation, args, num_args, &result);
}

static int launch_add(void *handle, int64_t number) {
  const BpValue args[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = handle},
                          {.type_index = BP_TYPE_INT, .v_int64 = COUNT},
                          {.type_index = BP_TYPE_INT, .v_int64 = number}};
  return launch("add", args, 3);
}

/* Later launches are similar to the first, so they are queued. */
static void assert_works(void) {
  int32_t data[COUNT];
  for (int32_t i = 0; i < COUNT; i++)
    data[i] = i;
  void *handle = allocate(sizeof data);
  assert_ok(copy_in(handle, 0, data, sizeof data));
  for (int i = 0; i < 4; i++)
    assert_ok(launch_add(handle, 5));
  memset(data, 0, sizeof data);
  assert_ok(copy_out(handle, 0, data, sizeof data));
  assert_ok(bp_stream_sync(device, NULL));
  for (int32_t i = 0; i < COUNT; i++)
    g_assert_cmpint(data[i], ==, i + 20);
  assert_ok(bp_device_free(device, handle));
}

static void test_devices_of_the_machine_are_chosen_by_its_name(void) {
  BpDevice chosen;
  char text[64];
  assert_ok(bp_device_select("remote:good/fragile:1", &chosen, NULL));
  bp_device_format(chosen, text, sizeof text);
  g_assert_cmpstr(text, ==, "remote:good/fragile:1");
  assert_ok(bp_device_parse(text, &device));
  g_assert_cmpmem(&device, sizeof device, &chosen, sizeof chosen);
  assert_error(bp_device_select("remote:good/absent", &chosen, NULL), BP_ERROR_NOT_FOUND,
               "good has no devices of kind \"absent\"");
  char *report = NULL;
  assert_ok(bp_device_select("remote:good/absent,fragile:1", &chosen, &report));
  g_assert_nonnull(strstr(report, "good has no devices of kind \"absent\""));
  bp_str_free(report);
  assert_error(bp_device_select("remote:good/fragile:7", &chosen, NULL), BP_ERROR_NOT_FOUND,
               "there is no device remote:good/fragile:7");
  choose_device();
  assert_works();
}

static void test_plugins_of_the_machine_are_listed_beside_those_of_this_machine(void) {
  BpPluginList *list = bp_plugin_list();
  int num_remote = 0, num_here = 0;
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (strcmp(info->name, "fragile"))
      continue;
    num_remote += !strcmp(info->path, "remote:good/fragile") && info->state == BP_PLUGIN_ACTIVE;
    num_here += *info->path == '/' && info->state == BP_PLUGIN_ACTIVE;
  }
  bp_plugin_list_free(list);
  g_assert_cmpint(num_remote, ==, 1);
  g_assert_cmpint(num_here, ==, 1);
}

/* ---- Several machines -------------------------------------------------------------------- */

/* Adds `number` to COUNT numbers on the device, copies them to the next device of the list, and so
 * on. */
static void assert_passes_on(const char *const *names, size_t count) {
  void *handles[4];
  BpDevice devices[4];
  int32_t data[COUNT] = {0};
  for (size_t i = 0; i < count; i++) {
    assert_ok(bp_device_parse(names[i], &devices[i]));
    device = devices[i];
    handles[i] = allocate(sizeof data);
    const BpCopy copy = {.struct_size = sizeof copy,
                         .from = i ? handles[i - 1] : data,
                         .from_device = i ? devices[i - 1] : (BpDevice){BP_DEVICE_CPU, 0},
                         .to = handles[i],
                         .to_device = device,
                         .size = sizeof data};
    assert_ok(bp_device_copy(&copy, NULL));
    assert_ok(launch_add(handles[i], (int64_t)i + 1));
    assert_ok(bp_stream_sync(device, NULL));
  }
  assert_ok(copy_out(handles[count - 1], 0, data, sizeof data));
  assert_ok(bp_stream_sync(device, NULL));
  for (int32_t i = 0; i < COUNT; i++)
    g_assert_cmpint(data[i], ==, (int32_t)(count * (count + 1) / 2));
  for (size_t i = 0; i < count; i++)
    assert_ok(bp_device_free(devices[i], handles[i]));
}

static void test_devices_of_a_kind_on_three_machines_work_side_by_side(void) {
  static const char *const there_and_back[] = {"fragile:0", "remote:good/fragile",
                                               "remote:other/fragile", "fragile:1"};
  assert_passes_on(there_and_back, G_N_ELEMENTS(there_and_back));
}

static void assert_refuses_tensor_of(BpDevice owner, int32_t *data) {
  int64_t shape = COUNT;
  BpTensorView view = {
      .data = data, .device = owner, .ndim = 1, .dtype = {BP_DTYPE_INT, 32, 1}, .shape = &shape};
  const BpValue args[] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &view},
                          {.type_index = BP_TYPE_INT, .v_int64 = COUNT},
                          {.type_index = BP_TYPE_INT, .v_int64 = 1}};
  assert_error(launch("add", args, 3), BP_ERROR_VALUE,
               "add: argument 0: expected a tensor on the device of the launch");
}

static void test_tensor_of_a_different_machine_is_refused_by_a_kernel(void) {
  static const char *const names[] = {"fragile:0", "remote:other/fragile", "cpu:0"};
  int32_t data[COUNT] = {0};
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
    BpDevice owner;
    assert_ok(bp_device_parse(names[i], &owner));
    choose_device();
    assert_refuses_tensor_of(owner, data);
  }
  assert_works();
}

/* A library whose host code takes any tensor, with code for the devices. */
static BpModule *load_host_code(void) {
  BpModule *host = fake_host_module("int __tvm_ffi_touch(void *self, const void *args, int n,"
                                    " void *result) { return 0; }\n",
                                    NULL);
  g_autofree char *path = g_strconcat(plugin_directory, "-touch.so", NULL);
  assert_ok(bp_module_import(host, module));
  assert_ok(bp_module_export_library(host, path));
  BpModule *library = bp_module_load(path);
  if (!library)
    g_error("%s", bp_error_message());
  bp_object_release(host);
  g_unlink(path);
  return library;
}

static int touch(BpFunction *function, const char *name) {
  int64_t shape = 1;
  BpTensorView view = {.ndim = 1, .dtype = {BP_DTYPE_INT, 32, 1}, .shape = &shape};
  BpValue args[] = {{.type_index = BP_TYPE_INT, .v_int64 = 1},
                    {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &view}};
  BpValue result;
  assert_ok(bp_device_parse(name, &view.device));
  return bp_function_call(function, args, 2, &result);
}

static void test_host_code_of_a_library_refuses_tensors_of_another_machine(void) {
  BpModule *library = load_host_code();
  BpFunction *function;
  assert_ok(bp_module_get_function(library, "touch", 0, &function));
  assert_ok(touch(function, "fragile:1"));
  assert_ok(touch(function, "cpu:0"));
  assert_error(touch(function, "remote:good/fragile"), BP_ERROR_VALUE,
               "argument 1 is on a device of another machine");
  bp_object_release(function);
  bp_object_release(library);
}

static void test_kind_without_a_machine_is_of_this_machine_or_of_the_only_other_machine(void) {
  BpDevice chosen;
  char text[64];
  assert_ok(bp_device_parse("fragile:1", &chosen));
  bp_device_format(chosen, text, sizeof text);
  g_assert_cmpstr(text, ==, "fragile:1");
  assert_ok(bp_device_select("fragile:1", &chosen, NULL));
  bp_device_format(chosen, text, sizeof text);
  g_assert_cmpstr(text, ==, "fragile:1");
  assert_error(bp_device_select("simdev:0", &chosen, NULL), BP_ERROR_VALUE,
               "write remote:good/simdev or remote:other/simdev");
  assert_error(bp_device_parse("remote:no-frame/simdev:0", &chosen), BP_ERROR_DEVICE,
               "a malformed frame");
  assert_error(bp_device_parse("remote:simdev", &chosen), BP_ERROR_VALUE, "is no device");
  assert_error(bp_device_parse("simdev:0", &chosen), BP_ERROR_VALUE,
               "several machines have devices of kind \"simdev\"");
  assert_ok(bp_device_select("simdev", &chosen, NULL));
  assert_ok(bp_device_select("!fragile,fragile,simdev", &chosen, NULL));
  bp_device_format(chosen, text, sizeof text);
  g_assert_nonnull(strstr(text, "/simdev:0"));
}

static void test_kind_that_one_other_machine_has_is_found_without_its_name(void) {
  BpDevice chosen;
  char text[64];
  assert_ok(bp_device_select("simdev:0", &chosen, NULL));
  bp_device_format(chosen, text, sizeof text);
  g_assert_cmpstr(text, ==, "remote:good/simdev:0");
  assert_ok(bp_device_parse("simdev", &chosen));
  bp_device_format(chosen, text, sizeof text);
  g_assert_cmpstr(text, ==, "remote:good/simdev:0");
}

static void test_copies_of_any_size_and_offset_are_exact(void) {
  static const uint64_t sizes[] = {
      1, 32768, 32769, 1 << 20, (1 << 20) + 1, (5 << 20) + 3, (1 << 20) + 40000};
  const uint64_t most = 7 << 20;
  char *source = g_malloc(most), *target = g_malloc(most);
  choose_device();
  void *handle = allocate(most);
  for (uint64_t i = 0; i < most; i++)
    source[i] = (char)(i * 2654435761u >> 13);
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
    for (uint64_t offset = 0; offset <= 13; offset += 13) {
      memset(target, 0, most);
      assert_ok(copy_in(handle, offset, source + i, sizes[i]));
      assert_ok(copy_out(handle, offset, target, sizes[i]));
      g_assert_cmpmem(target, sizes[i], source + i, sizes[i]);
    }
  assert_ok(bp_device_free(device, handle));
  g_free(source);
  g_free(target);
}

/* The call waits for the first failing launch; the next copy reports a failure of a queued
 * launch. */
static void test_failure_of_a_queued_launch_is_raised_once_when_its_stream_is_synchronised(void) {
  int32_t number = 0;
  choose_device();
  void *handle = allocate(64);
  assert_error(launch("fail", NULL, 0), BP_ERROR_VALUE, "it fails, as it should");
  assert_ok(launch("tire", NULL, 0));
  assert_ok(launch("tire", NULL, 0));
  assert_error(copy_out(handle, 0, &number, sizeof number), BP_ERROR_VALUE, "it is tired");
  assert_ok(copy_out(handle, 0, &number, sizeof number));
  assert_ok(launch("tire", NULL, 0));
  assert_error(bp_stream_sync(device, NULL), BP_ERROR_VALUE, "it is tired");
  assert_ok(bp_stream_sync(device, NULL));
  assert_ok(bp_device_free(device, handle));
}

static void *use_device(void *nothing) {
  for (int i = 0; i < 20; i++)
    assert_works();
  return nothing;
}

static void test_threads_use_the_device_at_once(void) {
  GThread *threads[8];
  choose_device();
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    threads[i] = g_thread_new("user", use_device, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_thread_join(threads[i]);
}

/* The next selection starts a worker on the machine again. */
static void assert_kernel_loses_device(const char *kernel, const char *words) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 1, .alignment = 1};
  void *handle;
  choose_device();
  const BpDevice lost = device;
  assert_error(launch(kernel, NULL, 0), BP_ERROR_DEVICE_LOST, words);
  assert_error(bp_device_alloc(lost, &allocation, &handle), BP_ERROR_DEVICE_LOST,
               "fragile on good");
  choose_device();
  g_assert_cmpint(device.device_id, >, lost.device_id);
  assert_works();
}

static void test_end_of_the_other_process_loses_the_device(void) {
  assert_kernel_loses_device("segv", "crashed (segmentation fault) in a call of launch");
  assert_kernel_loses_device("exit", "ended itself in a call of launch");
  assert_kernel_loses_device("kill", "lost its connection in a call of launch");
}

static void test_end_of_a_machine_leaves_the_devices_of_others_working(void) {
  const char *const rest[] = {"fragile", "remote:other/fragile"};
  BpDevice here;
  assert_ok(bp_device_select("fragile:0", &here, NULL));
  choose_device();
  assert_error(launch("kill", NULL, 0), BP_ERROR_DEVICE_LOST, "fragile on good");
  device = here;
  assert_works();
  assert_passes_on(rest, G_N_ELEMENTS(rest));
}

static void test_kernel_that_hangs_loses_the_device(void) {
  assert_kernel_loses_device("hang", "did not answer before BACKPLANE_WORKER_DEADLINE");
}

/* ---- A machine with two devices ---------------------------------------------------------- */

static int exists(BpDevice which) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  assert_ok(bp_device_get_attr(which, BP_ATTR_EXIST, &value));
  return value.v_int64 != 0;
}

static int copy_across(BpDevice from_device, void *from, BpDevice to_device, void *to) {
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = from,
                       .from_device = from_device,
                       .to = to,
                       .to_device = to_device,
                       .size = COUNT * sizeof(int32_t)};
  return bp_device_copy(&copy, NULL);
}

/* Objects that a program may hold of a device. */
typedef struct Held {
  BpDevice device;
  void *memory, *stream;
  BpEvent *event;
} Held;

static Held hold(BpDevice which) {
  Held held = {.device = which};
  device = which;
  held.memory = allocate(COUNT * sizeof(int32_t));
  assert_ok(bp_stream_create(which, &held.stream));
  held.event = bp_event_create(which);
  g_assert_nonnull(held.event);
  assert_ok(bp_event_record(held.event, held.stream));
  return held;
}

static void assert_lost(const Held *held) {
  const char *const words = "the worker of plugin fragile on good lost its connection";
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 1, .alignment = 1};
  int32_t number = 0;
  void *handle;
  device = held->device;
  g_assert_false(exists(device));
  assert_error(bp_device_alloc(device, &allocation, &handle), BP_ERROR_DEVICE_LOST, words);
  assert_error(copy_in(held->memory, 0, &number, sizeof number), BP_ERROR_DEVICE_LOST, words);
  assert_error(copy_out(held->memory, 0, &number, sizeof number), BP_ERROR_DEVICE_LOST, words);
  assert_error(launch_add(held->memory, 1), BP_ERROR_DEVICE_LOST, words);
  assert_error(bp_stream_sync(device, NULL), BP_ERROR_DEVICE_LOST, words);
  assert_error(bp_stream_sync(device, held->stream), BP_ERROR_DEVICE_LOST, words);
}

static void let_go(const Held *held) {
  bp_event_free(held->event);
  assert_ok(bp_stream_free(held->device, held->stream));
  assert_ok(bp_device_free(held->device, held->memory));
}

static void test_loss_of_a_machine_loses_and_replaces_each_of_its_devices(void) {
  choose_device();
  const BpDevice first = device, second = {device.device_type, device.device_id + 1};
  const Held held[] = {hold(first), hold(second)};
  assert_ok(copy_across(first, held[0].memory, second, held[1].memory));
  device = second;
  assert_works();
  assert_ok(launch_add(held[1].memory, 1)); /* queued, and not waited for */
  device = first;
  assert_error(launch("kill", NULL, 0), BP_ERROR_DEVICE_LOST, "lost its connection");
  for (size_t i = 0; i < G_N_ELEMENTS(held); i++)
    assert_lost(&held[i]);
  choose_device();
  g_assert_cmpint(device.device_id, ==, second.device_id + 1);
  const Held next = hold(device);
  assert_error(copy_across(second, held[1].memory, next.device, next.memory), BP_ERROR_DEVICE_LOST,
               "lost its connection");
  for (size_t i = 0; i < G_N_ELEMENTS(held); i++) {
    device = (BpDevice){next.device.device_type, next.device.device_id + (int32_t)i};
    g_assert_true(exists(device));
    assert_works();
    let_go(&held[i]);
  }
  let_go(&next);
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "reach"))
    return reach(argv[2], argv[3]);
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  copy_plugin("fragile", "fragile.so", NULL, NULL);
  copy_plugin("fragile", "there/fragile.so", NULL, NULL);
  copy_plugin("simdev", "there/simdev.so", NULL, NULL);
  g_autofree char *there = plugin_file_path("there");
  g_autofree char *path =
      g_strdup_printf("%s:%s", plugin_directory, g_getenv("BACKPLANE_PLUGIN_PATH"));
  g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
  g_autofree char *quoted = g_shell_quote(program);
  g_autofree char *shell = g_strdup_printf("%s reach", quoted);
  g_setenv("TEST_PLUGINS_THERE", there, TRUE);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_setenv("BACKPLANE_REMOTE_SHELL", shell, TRUE);
  g_setenv("BACKPLANE_REMOTE_PROGRAM", g_getenv("BACKPLANE_WORKER_PROGRAM"), TRUE);
  g_setenv("BACKPLANE_REMOTE", "good", TRUE);
  g_setenv("BACKPLANE_WORKER_DEADLINE", "3", TRUE);
  functions = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, bp_object_release);
  const BpByteArray code = {"code", 4};
  module = bp_module_load_from_bytes("fragile", &code);
  if (!module)
    g_error("%s", bp_error_message());
#define TEST(name, function) g_test_add_func("/remote/" name, function)
  TEST("devices-of-the-machine-are-chosen-by-its-name",
       test_devices_of_the_machine_are_chosen_by_its_name);
  TEST("plugins-of-the-machine-are-listed-beside-those-of-this-machine",
       test_plugins_of_the_machine_are_listed_beside_those_of_this_machine);
  TEST("kind-that-one-other-machine-has-is-found-without-its-name",
       test_kind_that_one_other_machine_has_is_found_without_its_name);
  TEST("devices-of-a-kind-on-three-machines-work-side-by-side",
       test_devices_of_a_kind_on_three_machines_work_side_by_side);
  TEST("tensor-of-a-different-machine-is-refused-by-a-kernel",
       test_tensor_of_a_different_machine_is_refused_by_a_kernel);
  TEST("host-code-of-a-library-refuses-tensors-of-another-machine",
       test_host_code_of_a_library_refuses_tensors_of_another_machine);
  TEST("kind-without-a-machine-is-of-this-machine-or-of-the-only-other-machine",
       test_kind_without_a_machine_is_of_this_machine_or_of_the_only_other_machine);
  TEST("copies-of-any-size-and-offset-are-exact", test_copies_of_any_size_and_offset_are_exact);
  TEST("failure-of-a-queued-launch-is-raised-once-when-its-stream-is-synchronised",
       test_failure_of_a_queued_launch_is_raised_once_when_its_stream_is_synchronised);
  TEST("threads-use-the-device-at-once", test_threads_use_the_device_at_once);
  TEST("end-of-the-other-process-loses-the-device", test_end_of_the_other_process_loses_the_device);
  TEST("end-of-a-machine-leaves-the-devices-of-others-working",
       test_end_of_a_machine_leaves_the_devices_of_others_working);
  TEST("kernel-that-hangs-loses-the-device", test_kernel_that_hangs_loses_the_device);
  TEST("loss-of-a-machine-loses-and-replaces-each-of-its-devices",
       test_loss_of_a_machine_loses_and_replaces_each_of_its_devices);
  TEST("peer-of-another-version-is-refused-in-words",
       test_peer_of_another_version_is_refused_in_words);
  TEST("peer-that-breaks-the-protocol-is-refused", test_peer_that_breaks_the_protocol_is_refused);
  TEST("text-that-is-no-machine-is-refused", test_text_that_is_no_machine_is_refused);
  int rc = g_test_run();
  g_hash_table_unref(functions);
  bp_object_release(module);
  remove_plugin_directory();
  return rc;
}
