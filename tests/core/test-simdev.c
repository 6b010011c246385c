/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel on a device with its own memory and deferred work: from bytes through the plugin's
 * loader, the module and the launch to the result. */

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/tensor.h>
#include <glib.h>
#include <pthread.h>
#include <string.h>

#include "tests/core/asserts.h"

#define COUNT 1000

static const BpModuleTable *module_table;
static const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1};

/* simdev:0, found by each thread for itself. */
static _Thread_local BpDevice device;

static void assert_error(int rc, const char *kind, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

/* ---- The module -------------------------------------------------------------------------- */

/* A plugin linked into the program, to use the host as plugins do. */
static int32_t keep_tables(const BpHost *host, BpPlugin *plugin) {
  module_table = host->get_table(host, BP_TABLE_MODULE, BP_TABLE_MODULE_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
  return -1;
}

static void fetch_tables(void) {
  assert_ok(bp_plugin_register_static("abi=" BP_ABI_NEEDED_TEXT
                                      "\nname=looker\nversion=1\nlicense=MIT\n"
                                      "description=x\nentry=bp_plugin_entry_looker\n"
                                      "provides=test.looker\n",
                                      keep_tables));
  g_assert_cmpint(bp_plugin_activate("looker"), ==, -1);
  bp_error_clear();
  g_assert_nonnull(module_table);
}

/* Kernels in the device's language; src/simdev.h of the template describes what a driver expects.
 * turn_odd reverses the blocks with odd numbers, and copies the others without a barrier. In
 * meet_apart all threads but the first wait at a barrier. */
static const char code[] =
    "typedef struct { int type; unsigned small; union { long long i; double f; void *p; } v; }\n"
    "  bp_value;\n"
    "typedef struct { long long block[3], thread[3]; void (*barrier)(void); }\n"
    "  simdev_thread;\n"
    "__attribute__((weak)) void (*__TVMFFIErrorSetRaisedFromCStr)(const char *, const char *);\n"
    "int __tvm_ffi_add_one(void *self, const bp_value *values, int count, bp_value *result) {\n"
    "  if (count == 0)\n"
    "    return 0;\n"
    "  void **args = values[0].v.p;\n"
    "  const simdev_thread *thread = values[1].v.p;\n"
    "  long long i = thread->block[0] * 64 + thread->thread[0];\n"
    "  if (i < *(long long *)args[2])\n"
    "    ((float *)args[1])[i] = ((float *)args[0])[i] + 1;\n"
    "  return 0;\n"
    "}\n"
    "int __tvm_ffi_fail(void *self, const bp_value *values, int count, bp_value *result) {\n"
    "  if (count == 0)\n"
    "    return 0;\n"
    "  __TVMFFIErrorSetRaisedFromCStr(\"RuntimeError\", \"it failed, as it should\");\n"
    "  return -1;\n"
    "}\n"
    "int __tvm_ffi_turn_odd(void *self, const bp_value *values, int count, bp_value *result) {\n"
    "  static float shared[64];\n"
    "  if (count == 0)\n"
    "    return 0;\n"
    "  void **args = values[0].v.p;\n"
    "  const simdev_thread *thread = values[1].v.p;\n"
    "  const float *in = (float *)args[0] + thread->block[0] * 64;\n"
    "  float *out = (float *)args[1] + thread->block[0] * 64;\n"
    "  long long i = thread->thread[0];\n"
    "  shared[i] = in[i];\n"
    "  if (thread->block[0] % 2 == 0) {\n"
    "    out[i] = shared[i];\n"
    "    return 0;\n"
    "  }\n"
    "  thread->barrier();\n"
    "  out[i] = shared[63 - i];\n"
    "  return 0;\n"
    "}\n"
    "int __tvm_ffi_meet_apart(void *self, const bp_value *values, int count, bp_value *result) {\n"
    "  if (count && ((const simdev_thread *)values[1].v.p)->thread[0])\n"
    "    ((const simdev_thread *)values[1].v.p)->barrier();\n"
    "  return 0;\n"
    "}\n";

/* Makes the bytes of a module with the kernels of `code` (to be cleared). */
static BpOwnedBytes encode(void) {
  static const BpDataType dtypes[] = {
      {BP_DTYPE_HANDLE, 64, 1}, {BP_DTYPE_HANDLE, 64, 1}, {BP_DTYPE_INT, 64, 1}};
  static const char *const tags[] = {"blockIdx.x", "threadIdx.x"};
  static const BpKernelInfo kernels[] = {{sizeof(BpKernelInfo), "add_one", dtypes, 3, 2, tags},
                                         {sizeof(BpKernelInfo), "fail", dtypes, 3, 2, tags},
                                         {sizeof(BpKernelInfo), "turn_odd", dtypes, 3, 2, tags},
                                         {sizeof(BpKernelInfo), "meet_apart", dtypes, 3, 2, tags}};
  static const BpByteArray text = {code, sizeof code - 1};
  BpOwnedBytes bytes;
  assert_ok(
      module_table->encode_device_code("simdev", kernels, G_N_ELEMENTS(kernels), &text, &bytes));
  return bytes;
}

static BpModule *load(void) {
  BpOwnedBytes bytes = encode();
  const BpByteArray view = {bytes.data, bytes.size};
  BpModule *module = bp_module_load_from_bytes("simdev", &view);
  bp_owned_bytes_clear(&bytes);
  if (!module)
    g_error("%s", bp_error_message());
  return module;
}

static BpFunction *find_function(const char *name) {
  BpFunction *function;
  BpModule *module = load();
  assert_ok(bp_module_get_function(module, name, 0, &function));
  bp_object_release(module);
  return function;
}

static BpValue pointer(void *data) {
  return (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = data};
}

static BpValue view_of(BpTensor *tensor) {
  return (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &tensor->view};
}

static BpValue integer(int64_t number) {
  return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = number};
}

static int launch(BpFunction *function, BpValue in, BpValue out, int64_t count) {
  BpValue result;
  BpValue args[] = {in, out, integer(count), integer((count + 63) / 64), integer(64)};
  return bp_function_call(function, args, 5, &result);
}

static BpTensor *make_tensor(int64_t count) {
  BpTensor *tensor = bp_tensor_create(&count, 1, float32, device, NULL);
  g_assert_nonnull(tensor);
  return tensor;
}

static BpTensor *make_numbers(void) {
  float numbers[COUNT];
  BpTensor *tensor = make_tensor(COUNT);
  for (int i = 0; i < COUNT; i++)
    numbers[i] = (float)i;
  assert_ok(bp_tensor_copy_from_host(&tensor->view, numbers, sizeof numbers));
  return tensor;
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void test_kernel_adds_one(void) {
  float numbers[COUNT];
  BpFunction *add_one = find_function("add_one");
  BpTensor *in = make_numbers(), *out = make_tensor(COUNT);
  assert_ok(launch(add_one, pointer(in->view.data), pointer(out->view.data), COUNT));
  assert_ok(launch(add_one, view_of(out), view_of(out), COUNT));
  bp_object_release(add_one);
  bp_object_release(in); /* queued work still uses the memory */
  assert_ok(bp_tensor_copy_to_host(&out->view, numbers, sizeof numbers));
  for (int i = 0; i < COUNT; i++)
    g_assert_true(numbers[i] == (float)(i + 2));
  bp_object_release(out);
}

static void test_kernel_on_a_view_starts_at_its_offset(void) {
  static const int64_t part = 100;
  float numbers[COUNT];
  BpFunction *add_one = find_function("add_one");
  BpTensor *all = make_numbers();
  BpTensor *view = bp_tensor_create_view(all, &part, 1, float32, 400);
  assert_ok(launch(add_one, view_of(view), view_of(view), part));
  assert_ok(bp_tensor_copy_to_host(&all->view, numbers, sizeof numbers));
  for (int i = 0; i < COUNT; i++)
    g_assert_true(numbers[i] == (float)(i >= 100 && i < 200 ? i + 1 : i));
  bp_object_release(view);
  bp_object_release(all);
  bp_object_release(add_one);
}

static void test_threads_of_a_block_meet_at_its_barriers(void) {
  enum { NUM_BLOCKS = 6, SIZE = NUM_BLOCKS * 64 };
  float numbers[COUNT];
  BpFunction *turn_odd = find_function("turn_odd");
  BpTensor *in = make_numbers(), *out = make_tensor(SIZE);
  assert_ok(launch(turn_odd, view_of(in), view_of(out), SIZE));
  assert_ok(bp_tensor_copy_to_host(&out->view, numbers, SIZE * sizeof *numbers));
  for (int i = 0; i < SIZE; i++)
    g_assert_true(numbers[i] == (float)(i / 64 % 2 ? i / 64 * 64 + 63 - i % 64 : i));
  bp_object_release(in);
  bp_object_release(out);
  bp_object_release(turn_odd);
}

static void test_barrier_that_a_thread_misses_is_an_error(void) {
  BpFunction *meet_apart = find_function("meet_apart"), *add_one = find_function("add_one");
  BpTensor *tensor = make_numbers();
  assert_ok(launch(meet_apart, view_of(tensor), view_of(tensor), COUNT));
  assert_error(bp_stream_sync(device, NULL), BP_ERROR_RUNTIME, "meet different barriers");
  assert_ok(launch(add_one, view_of(tensor), view_of(tensor), COUNT));
  assert_ok(bp_stream_sync(device, NULL));
  bp_object_release(tensor);
  bp_object_release(add_one);
  bp_object_release(meet_apart);
}

static void test_kernel_runs_on_the_current_stream(void) {
  void *stream;
  float numbers[COUNT];
  BpFunction *add_one = find_function("add_one");
  BpTensor *tensor = make_numbers();
  assert_ok(bp_stream_sync(device, NULL));
  assert_ok(bp_stream_create(device, &stream));
  assert_ok(bp_device_set_current(device, stream));
  for (int i = 0; i < 10; i++)
    assert_ok(launch(add_one, view_of(tensor), view_of(tensor), COUNT));
  assert_ok(bp_device_set_current(device, NULL));
  assert_ok(bp_stream_sync_from_to(device, stream, NULL));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, numbers, sizeof numbers));
  for (int i = 0; i < COUNT; i++)
    g_assert_true(numbers[i] == (float)(i + 10));
  assert_ok(bp_stream_free(device, stream));
  bp_object_release(tensor);
  bp_object_release(add_one);
}

static void test_asynchronous_failure_is_raised_once_by_who_synchronises(void) {
  BpFunction *fail = find_function("fail"), *add_one = find_function("add_one");
  BpTensor *tensor = make_numbers();
  assert_ok(launch(fail, view_of(tensor), view_of(tensor), COUNT));
  assert_error(bp_stream_sync(device, NULL), BP_ERROR_RUNTIME, "simdev:0");
  assert_ok(bp_stream_sync(device, NULL));
  assert_ok(launch(add_one, view_of(tensor), view_of(tensor), COUNT));
  assert_ok(bp_stream_sync(device, NULL));
  bp_object_release(tensor);
  bp_object_release(fail);
  bp_object_release(add_one);
}

static void test_event_after_a_failure_is_complete_and_the_stream_raises_it(void) {
  int32_t state = -1;
  BpFunction *fail = find_function("fail");
  BpTensor *tensor = make_numbers();
  BpEvent *event = bp_event_create(device);
  g_assert_nonnull(event);
  assert_ok(bp_stream_sync(device, NULL));
  assert_ok(launch(fail, view_of(tensor), view_of(tensor), COUNT));
  assert_ok(bp_event_record(event, NULL));
  assert_ok(bp_event_synchronize(event, BP_WAIT_FOREVER, &state));
  g_assert_cmpint(state, ==, BP_EVENT_FAILED);
  assert_ok(bp_event_query(event, &state));
  assert_error(bp_stream_sync(device, NULL), BP_ERROR_RUNTIME, "simdev:0");
  assert_ok(bp_event_synchronize(event, BP_WAIT_FOREVER, &state));
  assert_ok(bp_stream_sync(device, NULL));
  bp_event_free(event);
  bp_object_release(tensor);
  bp_object_release(fail);
}

static void test_wrong_arguments_are_errors(void) {
  BpValue result;
  BpFunction *add_one = find_function("add_one");
  BpTensor *small = make_tensor(4);
  char here[16];
  assert_error(bp_function_call(add_one, NULL, 0, &result), BP_ERROR_TYPE,
               "3 arguments and 2 launch");
  assert_error(launch(add_one, integer(1), view_of(small), 4), BP_ERROR_TYPE, "expected a buffer");
  assert_error(launch(add_one, pointer(here), view_of(small), 4), BP_ERROR_VALUE, "no handle");
  small->view.byte_offset = 4;
  assert_error(launch(add_one, view_of(small), view_of(small), 4), BP_ERROR_INDEX, "do not lie");
  int64_t wraps[] = {(int64_t)1 << 62, 4}; /* its size is 2^66 bytes */
  BpTensorView wide = small->view;
  wide.byte_offset = 0;
  wide.ndim = 2;
  wide.shape = wraps;
  wide.strides = NULL;
  BpValue huge = {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &wide};
  assert_error(launch(add_one, huge, view_of(small), 4), BP_ERROR_INDEX, "do not lie");
  bp_object_release(small);
  bp_object_release(add_one);
}

static void test_missing_function_is_none(void) {
  g_assert_null(find_function("subtract_one"));
}

static void test_module_is_saved_and_loaded_again(void) {
  BpOwnedBytes first = encode(), second;
  BpModule *module = load();
  assert_ok(bp_module_save_to_bytes(module, &second));
  g_assert_cmpmem(first.data, first.size, second.data, second.size);
  bp_owned_bytes_clear(&first);
  bp_owned_bytes_clear(&second);
  bp_object_release(module);
}

static void test_damaged_bytes_are_errors(void) {
  BpOwnedBytes bytes = encode();
  for (size_t size = 0; size < bytes.size; size++) {
    g_autofree char *part = g_memdup2(bytes.data, size); /* exact size, to detect overreading */
    const BpByteArray view = {part, size};
    g_assert_null(bp_module_load_from_bytes("simdev", &view));
    bp_error_clear();
  }
  for (size_t i = 0; i < bytes.size; i++) {
    g_autofree char *copy = g_memdup2(bytes.data, bytes.size);
    const BpByteArray view = {copy, bytes.size};
    copy[i] = (char)~copy[i];
    bp_object_release(bp_module_load_from_bytes("simdev", &view));
    bp_error_clear();
  }
  bp_owned_bytes_clear(&bytes);
}

/* ---- First use by many threads ----------------------------------------------------------- */

static void *use_device(void *data) {
  float numbers[COUNT];
  assert_ok(bp_device_parse("simdev:0", &device));
  BpFunction *add_one = find_function("add_one");
  BpTensor *tensor = make_numbers();
  assert_ok(launch(add_one, view_of(tensor), view_of(tensor), COUNT));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, numbers, sizeof numbers));
  for (int i = 0; i < COUNT; i++)
    g_assert_true(numbers[i] == (float)(i + 1));
  bp_object_release(tensor);
  bp_object_release(add_one);
  return data;
}

static int count_active(const char *name) {
  BpPluginList *list = bp_plugin_list();
  int count = 0;
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    count += !strcmp(info->name, name) && info->state == BP_PLUGIN_ACTIVE;
  }
  bp_plugin_list_free(list);
  return count;
}

static void test_first_use_by_many_threads(void) {
  pthread_t threads[32];
  g_assert_cmpint(count_active("simdev"), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, use_device, NULL), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_join(threads[i], NULL), ==, 0);
  g_assert_cmpint(count_active("simdev"), ==, 1);
  assert_ok(bp_device_parse("simdev:0", &device));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  const char *build = g_getenv("top_builddir");
  g_autofree char *path = g_strdup_printf("%s/tests/mock/.libs", build ? build : ".");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  fetch_tables();
  g_test_add_func("/simdev/first-use-by-many-threads", test_first_use_by_many_threads);
  g_test_add_func("/simdev/kernel-adds-one", test_kernel_adds_one);
  g_test_add_func("/simdev/kernel-on-a-view-starts-at-its-offset",
                  test_kernel_on_a_view_starts_at_its_offset);
  g_test_add_func("/simdev/threads-of-a-block-meet-at-its-barriers",
                  test_threads_of_a_block_meet_at_its_barriers);
  g_test_add_func("/simdev/barrier-that-a-thread-misses-is-an-error",
                  test_barrier_that_a_thread_misses_is_an_error);
  g_test_add_func("/simdev/kernel-runs-on-the-current-stream",
                  test_kernel_runs_on_the_current_stream);
  g_test_add_func("/simdev/asynchronous-failure-is-raised-once-by-who-synchronises",
                  test_asynchronous_failure_is_raised_once_by_who_synchronises);
  g_test_add_func("/simdev/event-after-a-failure-is-complete-and-the-stream-raises-it",
                  test_event_after_a_failure_is_complete_and_the_stream_raises_it);
  g_test_add_func("/simdev/wrong-arguments-are-errors", test_wrong_arguments_are_errors);
  g_test_add_func("/simdev/missing-function-is-none", test_missing_function_is_none);
  g_test_add_func("/simdev/module-is-saved-and-loaded-again",
                  test_module_is_saved_and_loaded_again);
  g_test_add_func("/simdev/damaged-bytes-are-errors", test_damaged_bytes_are_errors);
  return g_test_run();
}
