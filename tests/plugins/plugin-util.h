/* SPDX-License-Identifier: Apache-2.0 */
/* Common code of tests of device plugins: the host's tables for a plugin, copies, kernels, and a
 * cache of the test whose files it can inspect. */
#ifndef TESTS_PLUGINS_PLUGIN_UTIL_H
#define TESTS_PLUGINS_PLUGIN_UTIL_H

#include <backplane/device.h>
#include <backplane/device_extensions.h>
#include <backplane/plugin_helpers.h>
#include <backplane/plugins.h>
#include <backplane/tensor.h>
#include <glib/gstdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/compiler/codegen-util.h"

#define CPU ((BpDevice){BP_DEVICE_CPU, 0})

/* ---- The host's tables ------------------------------------------------------------------- */

static BpPluginTables tables;

/* Registers a name, as a plugin must provide at least one. */
static inline int32_t provide(void *context) {
  (void)context;
  return bp_plugin_register(&tables, "test.host", bp_plugin_answer_context, NULL);
}

static inline int32_t keep_host(const BpHost *given, BpPlugin *plugin) {
  assert_ok(bp_plugin_fetch_tables(given, &tables));
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = provide;
  return 0;
}

/* Fetches all tables, through a plugin linked into the program. */
static inline const BpPluginTables *host_tables(void) {
  if (!tables.host) {
    assert_ok(bp_plugin_register_static("abi=" BP_ABI_NEEDED_TEXT "\nname=test-host\nversion=1\n"
                                        "license=Apache-2.0\ndescription=a test\n"
                                        "entry=bp_plugin_entry_test_host\nprovides=test.host\n",
                                        keep_host));
    assert_ok(bp_plugin_activate("test-host"));
  }
  return &tables;
}

/* ---- Devices ----------------------------------------------------------------------------- */

/* Whether there is a device of the kind; otherwise the test is skipped. */
static inline gboolean has_device_of(int32_t device_type) {
  int32_t count = 0;
  const char *why = "";
  assert_ok(bp_device_count(device_type, &count, &why));
  if (count == 0)
    g_test_skip(why);
  return count > 0;
}

static inline int try_alloc(BpDevice device, uint64_t size, uint64_t alignment, const char *scope,
                            void **handle) {
  const BpAllocation allocation = {.struct_size = sizeof allocation,
                                   .size = size,
                                   .alignment = alignment,
                                   .dtype = dtype_of("uint8"),
                                   .scope = scope};
  return bp_device_alloc(device, &allocation, handle);
}

static inline void *allocate_on(BpDevice device, uint64_t size) {
  void *handle = NULL;
  assert_ok(try_alloc(device, size, 64, NULL, &handle));
  g_assert_nonnull(handle);
  return handle;
}

/* Too much memory, and an unknown memory scope, are errors; size 0 is not. */
static inline void assert_allocations_are_checked(BpDevice device, const char *message) {
  void *handle = NULL;
  g_assert_cmpint(try_alloc(device, (uint64_t)1 << 60, 64, NULL, &handle), ==, -1);
  assert_error(BP_ERROR_MEMORY, message);
  g_assert_cmpint(try_alloc(device, 16, 64, "texture", &handle), ==, -1);
  assert_error(BP_ERROR_VALUE, "texture");
  assert_ok(bp_device_free(device, allocate_on(device, 0)));
}

/* ---- Copies ------------------------------------------------------------------------------ */

static inline int copy_bytes(const void *from, uint64_t from_offset, BpDevice from_device, void *to,
                             uint64_t to_offset, BpDevice to_device, uint64_t size) {
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = from,
                 .from_offset = from_offset,
                 .from_device = from_device,
                 .to = to,
                 .to_offset = to_offset,
                 .to_device = to_device,
                 .size = size};
  return bp_device_copy(&copy, NULL);
}

/* Copies bytes to the device, within it and back, each time at other offsets. */
static inline void assert_copies(BpDevice device) {
  char from[] = "abcdefgh", to[] = "........";
  void *a = allocate_on(device, 16), *b = allocate_on(device, 16);
  assert_ok(copy_bytes(from, 1, CPU, a, 3, device, 5));
  memset(from, 'x', sizeof(from) - 1); /* the source has been consumed */
  assert_ok(copy_bytes(a, 4, device, b, 7, device, 3));
  assert_ok(copy_bytes(b, 7, device, to, 2, CPU, 3));
  assert_ok(bp_stream_sync(device, NULL));
  g_assert_cmpstr(to, ==, "..cde...");
  assert_ok(bp_device_free(device, a));
  assert_ok(bp_device_free(device, b));
}

/* A copy onto a part of itself is refused; a copy next to itself is not. */
static inline void assert_overlaps_are_refused(BpDevice device) {
  void *a = allocate_on(device, 64);
  g_assert_cmpint(copy_bytes(a, 0, device, a, 31, device, 32), ==, -1);
  assert_error(BP_ERROR_VALUE, "onto part of itself");
  g_assert_cmpint(copy_bytes(a, 31, device, a, 0, device, 32), ==, -1);
  assert_error(BP_ERROR_VALUE, "onto part of itself");
  assert_ok(copy_bytes(a, 0, device, a, 32, device, 32));
  assert_ok(bp_stream_sync(device, NULL));
  assert_ok(bp_device_free(device, a));
}

static inline void assert_copies_between(BpDevice one, BpDevice other) {
  char to[] = "....";
  void *a = allocate_on(one, 16), *b = allocate_on(other, 16);
  assert_ok(copy_bytes("abcd", 0, CPU, a, 4, one, 4));
  assert_ok(copy_bytes(a, 4, one, b, 8, other, 4));
  assert_ok(copy_bytes(b, 8, other, to, 0, CPU, 4));
  assert_ok(bp_stream_sync(other, NULL));
  g_assert_cmpstr(to, ==, "abcd");
  assert_ok(bp_device_free(one, a));
  assert_ok(bp_device_free(other, b));
}

/* ---- Facts ------------------------------------------------------------------------------- */

static inline int32_t compare_name(void *context, const char *name, const BpValue *value) {
  g_assert_cmpint(value->type_index, !=, BP_TYPE_NONE);
  return strcmp(name, *(const char **)context) == 0 ? (*(const char **)context = NULL, 1) : 0;
}

/* Checks that the device's properties include this one, and that the visit then ends. */
static inline void assert_tells(BpDevice device, const char *name) {
  const BpDeviceApi *api = bp_device_api(device.device_type);
  assert_ok(api == NULL);
  assert_ok(api->visit_properties(api->context, device.device_id, compare_name, &name));
  g_assert_null(name);
}

/* ---- Faults ------------------------------------------------------------------------------ */

/* Runs the test again in a separate process, with a variable set. */
static inline void run_again_with(const char *variable, const char *value) {
  char *before = g_strdup(g_getenv(variable));
  g_setenv(variable, value, TRUE);
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  if (before)
    g_setenv(variable, before, TRUE);
  else
    g_unsetenv(variable);
  g_free(before);
  g_test_trap_assert_passed();
}

/* Checks that the kind has no device, and that its reason contains the remedy. */
static inline void assert_none(int32_t device_type, const char *reason, const char *remedy) {
  int32_t count = -1;
  const char *why = "";
  assert_ok(bp_device_count(device_type, &count, &why));
  g_assert_cmpint(count, ==, 0);
  if (!strstr(why, reason) || !strstr(why, remedy))
    g_error("\"%s\" does not say \"%s\" and \"%s\"", why, reason, remedy);
}

/* An index without a device is an error that states the number of devices. */
static inline void assert_index_is_checked(int32_t device_type) {
  const BpDevice none = {device_type, 99};
  void *handle = NULL;
  BpValue value;
  g_assert_cmpint(try_alloc(none, 16, 64, NULL, &handle), ==, -1);
  assert_error(BP_ERROR_NOT_FOUND, ":99");
  assert_ok(bp_device_get_attr(none, BP_ATTR_EXIST, &value));
  g_assert_false(value.v_int64);
}

/* One device does not free a handle of another, and the memory is unchanged. */
static inline void assert_freed_where_it_is_from(BpDevice one, BpDevice other) {
  char to[] = "....";
  void *handle = allocate_on(one, 16);
  assert_ok(copy_bytes("abcd", 0, CPU, handle, 0, one, 4));
  g_assert_cmpint(bp_device_free(other, handle), ==, -1);
  assert_error(BP_ERROR_VALUE, "");
  assert_ok(copy_bytes(handle, 0, one, to, 0, CPU, 4));
  assert_ok(bp_stream_sync(one, NULL));
  g_assert_cmpstr(to, ==, "abcd");
  assert_ok(bp_device_free(one, handle));
  g_assert_cmpint(bp_device_free(one, handle), ==, -1);
  assert_error(BP_ERROR_VALUE, "");
}

/* In a child of this process, which has used the device, memory and launches are errors at once,
 * and a module can be freed with its last function, this one; the parent continues. */
static inline void assert_fork_is_an_error(BpDevice device, BpFunction *function,
                                           const BpValue *args, int32_t count) {
  BpValue result;
  assert_ok(bp_function_call(function, args, count, &result));
  pid_t pid = fork();
  if (pid == 0) {
    void *handle = NULL;
    alarm(60);
    int fails = try_alloc(device, 16, 64, NULL, &handle) == -1 && bp_error_is(BP_ERROR_DEVICE) &&
                bp_function_call(function, args, count, &result) == -1 &&
                bp_error_is(BP_ERROR_DEVICE);
    bp_object_release(function);
    _exit(fails ? 0 : 1);
  }
  int status = -1;
  g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
  g_assert_cmpint(status, ==, 0);
  assert_ok(bp_function_call(function, args, count, &result));
  assert_ok(bp_stream_sync(device, NULL));
}

/* ---- Kernels ----------------------------------------------------------------------------- */

static inline BpFunction *get_function(BpModule *module, const char *name) {
  BpFunction *function = NULL;
  assert_ok(bp_module_get_function(module, name, 1, &function));
  g_assert_nonnull(function);
  return function;
}

static inline BpTensor *make_tensor(BpDevice device, const float *data, int64_t count) {
  BpTensor *tensor = bp_tensor_create(&count, 1, dtype_of("float32"), device, NULL);
  assert_ok(tensor == NULL);
  assert_ok(bp_tensor_copy_from_host(&tensor->view, data, (uint64_t)count * 4));
  return tensor;
}

static inline BpValue int_value(int64_t value) {
  return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = value};
}

/* Calls a kernel "scale", x * by + add, in two blocks of four threads. */
static inline void set_scale_args(BpValue args[5], BpTensorView *view, double by, int64_t add) {
  args[0] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW};
  args[0].v_view = view;
  args[1] = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = by};
  args[2] = int_value(add);
  args[3] = int_value(2);
  args[4] = int_value(4);
}

static inline void launch_fails(BpFunction *function, const BpValue *args, int32_t count,
                                const char *kind, const char *message) {
  BpValue result;
  g_assert_cmpint(bp_function_call(function, args, count, &result), ==, -1);
  assert_error(kind, message);
}

/* A handle that is not a buffer of the device cannot be freed, copied or launched with. */
static inline void assert_handle_is_refused(BpDevice device, void *handle, BpFunction *scale) {
  char bytes[32] = "";
  int64_t count = 8;
  void *good = allocate_on(device, 32);
  BpTensorView view = {
      .data = handle, .device = device, .ndim = 1, .dtype = dtype_of("float32"), .shape = &count};
  BpValue args[5];
  g_assert_cmpint(copy_bytes(bytes, 0, CPU, handle, 0, device, 4), ==, -1);
  assert_error(BP_ERROR_VALUE, "no buffer");
  g_assert_cmpint(copy_bytes(handle, 0, device, bytes, 0, CPU, 4), ==, -1);
  assert_error(BP_ERROR_VALUE, "no buffer");
  g_assert_cmpint(copy_bytes(handle, 0, device, good, 0, device, 4), ==, -1);
  assert_error(BP_ERROR_VALUE, "no buffer");
  g_assert_cmpint(copy_bytes(good, 0, device, handle, 0, device, 4), ==, -1);
  assert_error(BP_ERROR_VALUE, "no buffer");
  set_scale_args(args, &view, 2, 1);
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "no buffer");
  args[0] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = handle};
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "scale: argument 0");
  g_assert_cmpint(bp_device_free(device, handle), ==, -1);
  assert_error(BP_ERROR_VALUE, "no buffer");
  assert_ok(bp_device_free(device, good));
}

/* A handle that never existed or was freed is detected, also if its place was reused; the device
 * continues to work. */
static inline void assert_handles_are_checked(BpDevice device, BpFunction *scale) {
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  BpValue args[5], result;
  void *freed = allocate_on(device, 32);
  assert_ok(bp_device_free(device, freed));
  assert_handle_is_refused(device, freed, scale);
  BpTensor *tensor = make_tensor(device, data, 8); /* reuses the place of the freed memory */
  assert_handle_is_refused(device, freed, scale);
  assert_handle_is_refused(device, data, scale);
  set_scale_args(args, &tensor->view, 2, 1);
  args[0] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = NULL};
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "no buffer");
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat(data[i], ==, 2.0f * (float)i + 1);
  bp_object_release(tensor);
}

/* A tensor that claims to be larger than its buffer, or to begin after its end, is refused. */
static inline void assert_tensors_are_in_their_buffers(BpFunction *scale, BpTensor *tensor,
                                                       const char *message) {
  int64_t many = 9, none = 0;
  BpTensorView odd = tensor->view;
  BpValue args[5], result;
  set_scale_args(args, &odd, 2, 1);
  odd.shape = &many;
  launch_fails(scale, args, 5, BP_ERROR_VALUE, message);
  odd = tensor->view;
  odd.byte_offset = 1 << 20;
  launch_fails(scale, args, 5, BP_ERROR_VALUE, message);
  odd.shape = &none;
  launch_fails(scale, args, 5, BP_ERROR_VALUE, message);
  odd = tensor->view;
  assert_ok(bp_function_call(scale, args, 5, &result));
}

/* Launches of "scale" that every plugin refuses, with its tensor on a device; the device works
 * afterwards. */
static inline void assert_launches_are_checked(BpFunction *scale, BpTensor *tensor) {
  static const char *const kinds[] = {
      [BP_DEVICE_CUDA] = "cuda", [BP_DEVICE_OPENCL] = "opencl", [BP_DEVICE_VULKAN] = "vulkan"};
  const BpDevice device = tensor->view.device;
  int64_t every_other[] = {2};
  BpTensorView odd = tensor->view;
  BpValue args[5], result;
  char *expected =
      g_strdup_printf("scale: argument 0: expected a tensor on %s:0", kinds[device.device_type]);
  set_scale_args(args, &odd, 2, 1);
  launch_fails(scale, args, 4, BP_ERROR_TYPE,
               "scale: expected 3 arguments and 2 launch sizes, got 4");
  args[1] = args[0];
  launch_fails(scale, args, 5, BP_ERROR_TYPE, "scale: argument 1: expected a number");
  set_scale_args(args, &odd, 2, 1);
  args[2] = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = 1};
  launch_fails(scale, args, 5, BP_ERROR_TYPE, "scale: argument 2: expected an integer");
  args[2] = int_value((int64_t)1 << 31);
  launch_fails(scale, args, 5, BP_ERROR_VALUE,
               "scale: argument 2: 2147483648 is no integer of 32 bits");
  set_scale_args(args, &odd, 2, 1);
  args[0] = int_value(1);
  launch_fails(scale, args, 5, BP_ERROR_TYPE, "scale: argument 0: expected a buffer");
  set_scale_args(args, &odd, 2, 1);
  args[4] = int_value(-1);
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "scale: launch size 1 (threadIdx.x)");
  set_scale_args(args, &odd, 2, 1);
  odd.byte_offset = 4;
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "may begin at a multiple");
  odd = tensor->view;
  odd.strides = every_other;
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "argument 0: a kernel takes compact tensors");
  odd = tensor->view;
  odd.device = CPU;
  launch_fails(scale, args, 5, BP_ERROR_VALUE, expected);
  odd.device = (BpDevice){device.device_type, 1};
  launch_fails(scale, args, 5, BP_ERROR_VALUE, expected);
  odd = tensor->view;
  assert_ok(bp_function_call(scale, args, 5, &result));
  g_free(expected);
}

/* A kernel that adds a number to 64 others, in four blocks. */
#define ADD_ONE                                                                                    \
  "(module (function \"add_one\" n:int32 (buffer A float32 global 64)"                             \
  " (for b:int64 0 4 bound \"blockIdx.x\" (for t:int64 0 16 bound \"threadIdx.x\""                 \
  " (store A (add (mul b 16) t) (add (load A (add (mul b 16) t)) (cast float32 n)))))))"

static inline BpModule *build_text(const char *text, const char *target) {
  BpIrModule *module = parse_verified(text);
  BpModule *built = build_ok(module, target);
  bp_object_release(module);
  return built;
}

/* Adds 7. */
static inline int call_add_one(BpModule *module, BpDevice device, float data[64]) {
  BpTensor *tensor = make_tensor(device, data, 64);
  BpFunction *function = get_function(module, "add_one");
  BpValue args[4] = {int_value(7),
                     {.type_index = BP_TYPE_POINTER, .v_ptr = tensor->view.data},
                     int_value(4),
                     int_value(16)},
          result;
  int rc = bp_function_call(function, args, 4, &result);
  if (rc == 0)
    rc = bp_tensor_copy_to_host(&tensor->view, data, 64 * sizeof(float));
  bp_object_release(function);
  bp_object_release(tensor);
  return rc;
}

/* Loads the module from its bytes (transfer full); no truncation of the bytes is a module. */
static inline BpModule *through_bytes(BpModule *module, const char *kind) {
  BpOwnedBytes bytes;
  assert_ok(bp_module_save_to_bytes(module, &bytes));
  BpByteArray view = {bytes.data, bytes.size};
  BpModule *loaded = bp_module_load_from_bytes(kind, &view);
  assert_ok(loaded == NULL);
  g_assert_cmpint(bp_module_get_property(loaded), ==,
                  BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE);
  for (view.size = 0; view.size < bytes.size; view.size += 1 + view.size / 200) {
    g_assert_null(bp_module_load_from_bytes(kind, &view));
    g_assert_true(bp_error_is(BP_ERROR_FORMAT));
    bp_error_clear();
  }
  bp_owned_bytes_clear(&bytes);
  return loaded;
}

/* ---- The cache --------------------------------------------------------------------------- */

typedef struct TestCache {
  char *dir;
  char *saved; /* the earlier value of BACKPLANE_CACHE_DIR */
  int warnings;
} TestCache;

static inline void count_warnings(void *context, int32_t level, const char *message) {
  g_test_message("%s", message);
  ((TestCache *)context)->warnings += level == BP_LOG_WARNING;
}

/* Begins with an empty cache, and counts the log messages about it. */
static inline void cache_begin(TestCache *cache) {
  cache->dir = g_dir_make_tmp("backplane-test-XXXXXX", NULL);
  cache->saved = g_strdup(g_getenv("BACKPLANE_CACHE_DIR"));
  cache->warnings = 0;
  g_setenv("BACKPLANE_CACHE_DIR", cache->dir, TRUE);
  bp_log_set_callback(count_warnings, cache);
}

/* Calls `visit`, or NULL, with each cached file of a subject; returns their number. */
static inline int visit_cache(const TestCache *cache, const char *subject,
                              void (*visit)(const char *path)) {
  char *folder = g_build_filename(cache->dir, subject, NULL);
  GDir *directory = g_dir_open(folder, 0, NULL);
  int count = 0;
  for (const char *name; directory && (name = g_dir_read_name(directory)); count++) {
    char *path = g_build_filename(folder, name, NULL);
    if (visit)
      visit(path);
    g_free(path);
  }
  if (directory)
    g_dir_close(directory);
  g_free(folder);
  return count;
}

static inline void remove_file(const char *path) {
  g_unlink(path);
}

static inline void damage_file(const char *path) {
  char *data;
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  data[size / 2] ^= 0x40;
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
  g_free(data);
}

static inline void cache_end(TestCache *cache, const char *subject) {
  char *folder = g_build_filename(cache->dir, subject, NULL);
  bp_log_set_callback(NULL, NULL);
  visit_cache(cache, subject, remove_file);
  g_rmdir(folder);
  g_rmdir(cache->dir);
  if (cache->saved)
    g_setenv("BACKPLANE_CACHE_DIR", cache->saved, TRUE);
  else
    g_unsetenv("BACKPLANE_CACHE_DIR");
  g_free(folder);
  g_free(cache->dir);
  g_free(cache->saved);
}

#endif
