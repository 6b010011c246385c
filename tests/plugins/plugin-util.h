/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of device plugins share: the host's tables as a plugin gets them, copies, kernels,
 * and a cache of the test's own that can be looked into. */
#ifndef TESTS_PLUGINS_PLUGIN_UTIL_H
#define TESTS_PLUGINS_PLUGIN_UTIL_H

#include <backplane/device.h>
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

/* A plugin has to provide something. */
static inline int32_t provide(void) {
  return bp_plugin_register(&tables, "test.host", bp_plugin_answer_context, NULL);
}

static inline int32_t keep_host(const BpHost *given, BpPlugin *plugin) {
  assert_ok(bp_plugin_fetch_tables(given, &tables));
  plugin->abi_version = BP_ABI_VERSION;
  plugin->initialize = provide;
  return 0;
}

/* All of them, from a plugin of the program itself. */
static inline const BpPluginTables *host_tables(void) {
  if (!tables.host) {
    assert_ok(bp_plugin_register_static("abi=" BP_ABI_TEXT "\nname=test-host\nversion=1\n"
                                        "license=Apache-2.0\ndescription=a test\n"
                                        "entry=bp_plugin_entry_test_host\nprovides=test.host\n",
                                        keep_host));
    assert_ok(bp_plugin_activate("test-host"));
  }
  return &tables;
}

/* ---- Copies ------------------------------------------------------------------------------ */

static inline int copy_bytes(const void *from, uint64_t from_offset, BpDevice from_device, void *to,
                             uint64_t to_offset, BpDevice to_device, uint64_t size) {
  BpCopy copy = {.from = from,
                 .from_offset = from_offset,
                 .from_device = from_device,
                 .to = to,
                 .to_offset = to_offset,
                 .to_device = to_device,
                 .size = size};
  return bp_device_copy(&copy, NULL);
}

/* ---- Facts ------------------------------------------------------------------------------- */

static inline int32_t compare_name(void *context, const char *name, const BpValue *value) {
  g_assert_cmpint(value->type_index, !=, BP_TYPE_NONE);
  return strcmp(name, *(const char **)context) == 0 ? (*(const char **)context = NULL, 1) : 0;
}

/* Among what a device tells beyond its attributes is this, and no more is asked for then. */
static inline void assert_tells(BpDevice device, const char *name) {
  const BpDeviceApi *api = bp_device_api(device.device_type);
  assert_ok(api == NULL);
  assert_ok(api->visit_facts(device.device_id, compare_name, &name));
  g_assert_null(name);
}

/* ---- Faults ------------------------------------------------------------------------------ */

/* The test again in a process of its own, with a variable set. */
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

/* The kind has no device, and says so with what to do. */
static inline void assert_none(int32_t device_type, const char *reason, const char *remedy) {
  int32_t count = -1;
  const char *why = "";
  assert_ok(bp_device_count(device_type, &count, &why));
  g_assert_cmpint(count, ==, 0);
  if (!strstr(why, reason) || !strstr(why, remedy))
    g_error("\"%s\" does not say \"%s\" and \"%s\"", why, reason, remedy);
}

/* A device with an index that there is not: an error that says how many there are. */
static inline void assert_index_is_checked(int32_t device_type) {
  const BpDevice none = {device_type, 99};
  void *handle = NULL;
  BpValue value;
  g_assert_cmpint(bp_device_alloc(none, 16, 64, dtype_of("uint8"), NULL, &handle), ==, -1);
  assert_error(BP_ERROR_NOT_FOUND, ":99");
  assert_ok(bp_device_get_attr(none, BP_ATTR_EXIST, &value));
  g_assert_false(value.v_int64);
}

/* What one device gave the other does not free, and it is as it was. */
static inline void assert_freed_where_it_is_from(BpDevice one, BpDevice other) {
  char to[] = "....";
  void *handle = NULL;
  assert_ok(bp_device_alloc(one, 16, 64, dtype_of("uint8"), NULL, &handle));
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

/* In a child of this process, which has used the device, memory and launches are errors at once; in
 * the parent all goes on. */
static inline void assert_fork_is_an_error(BpDevice device, BpFunction *function,
                                           const BpValue *args, int32_t count) {
  BpValue result;
  assert_ok(bp_function_call(function, args, count, &result));
  pid_t pid = fork();
  if (pid == 0) {
    void *handle = NULL;
    alarm(60);
    int fails = bp_device_alloc(device, 16, 64, dtype_of("uint8"), NULL, &handle) == -1 &&
                bp_error_is(BP_ERROR_DEVICE) &&
                bp_function_call(function, args, count, &result) == -1 &&
                bp_error_is(BP_ERROR_DEVICE);
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

/* Of a kernel "scale", x * by + add, in two blocks of four threads. */
static inline void set_scale_args(BpValue args[5], BpTensorView *view, double by, int64_t add) {
  args[0] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW};
  args[0].v_view = view;
  args[1] = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = by};
  args[2] = int_value(add);
  args[3] = int_value(2);
  args[4] = int_value(4);
}

/* ---- The cache --------------------------------------------------------------------------- */

typedef struct TestCache {
  char *dir;
  char *saved; /* what BACKPLANE_CACHE_DIR was */
  int warnings;
} TestCache;

static inline void count_warnings(void *context, int32_t level, const char *message) {
  g_test_message("%s", message);
  ((TestCache *)context)->warnings += level == BP_LOG_WARNING;
}

/* An empty cache, and an ear for what is said of it. */
static inline void cache_begin(TestCache *cache) {
  cache->dir = g_dir_make_tmp("backplane-test-XXXXXX", NULL);
  cache->saved = g_strdup(g_getenv("BACKPLANE_CACHE_DIR"));
  cache->warnings = 0;
  g_setenv("BACKPLANE_CACHE_DIR", cache->dir, TRUE);
  bp_log_set_callback(count_warnings, cache);
}

/* Calls `visit`, or NULL, with each file that is kept for a subject; how many there are. */
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
