/* SPDX-License-Identifier: Apache-2.0 */
/* The host services for plugins: memory, options, the directory for cached files. */

#include "tests/bare_device.h"

#include <backplane/plugins.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const BpRuntimeTable *runtime;
static char *scratch;

/* A plugin linked into the program, to use the host as plugins do. */
static int32_t keep_table(const BpHost *host, BpPlugin *plugin) {
  (void)plugin;
  g_assert_cmpuint(host->abi_version, ==, BP_ABI_VERSION);
  g_assert_null(host->get_table(host, "no such table", 1));
  g_assert_null(host->get_table(host, BP_TABLE_RUNTIME, BP_TABLE_RUNTIME_VERSION + 1));
  g_assert_null(host->get_table(host, NULL, 1));
  runtime = host->get_table(host, BP_TABLE_RUNTIME, BP_TABLE_RUNTIME_VERSION);
  return -1;
}

static void fetch_table(void) {
  g_assert_cmpint(bp_plugin_register_static("abi=" BP_ABI_NEEDED_TEXT
                                            "\nname=looker\nversion=1\nlicense=MIT\n"
                                            "description=x\nentry=bp_plugin_entry_looker\n"
                                            "provides=test.looker\n",
                                            keep_table),
                  ==, 0);
  g_assert_cmpint(bp_plugin_activate("looker"), ==, -1);
  g_assert_nonnull(runtime);
  bp_error_clear();
}

static void assert_error(int rc, const char *kind, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not contain \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

static void test_host_memory_is_aligned(void) {
  for (uint64_t alignment = 1; alignment <= 65536; alignment *= 2)
    for (uint64_t size = 0; size < 100; size += 33) {
      void *data = runtime->host_alloc(size, alignment);
      g_assert_nonnull(data);
      g_assert_cmpuint((uintptr_t)data % alignment, ==, 0);
      memset(data, 1, size);
      runtime->host_free(data);
    }
  runtime->host_free(NULL);
}

static void test_impossible_memory_is_an_error(void) {
  g_assert_null(runtime->host_alloc(UINT64_MAX, 64));
  assert_error(-1, BP_ERROR_MEMORY, "bytes");
  g_assert_null(runtime->host_alloc(16, 48));
  assert_error(-1, BP_ERROR_VALUE, "no power of two");
}

static void test_options_are_ours_alone(void) {
  g_setenv("BACKPLANE_TEST", "yes", TRUE);
  g_assert_cmpstr(runtime->get_option("BACKPLANE_TEST"), ==, "yes");
  g_assert_null(runtime->get_option("BACKPLANE_TEST_ABSENT"));
  g_assert_null(runtime->get_option("PATH"));
  g_assert_null(runtime->get_option(NULL));
}

/* ---- The cache --------------------------------------------------------------------------- */

static void set_cache(const char *name) {
  g_autofree char *path = g_build_filename(scratch, name, NULL);
  g_setenv("BACKPLANE_CACHE_DIR", path, TRUE);
}

static void test_cache_directory_is_made_and_private(void) {
  char path[512];
  struct stat status;
  set_cache("deep/down");
  for (int i = 0; i < 2; i++)
    g_assert_cmpint(runtime->get_cache_dir("sub-ject_1", path, sizeof path), ==, 0);
  g_assert_true(g_str_has_suffix(path, "/deep/down/sub-ject_1"));
  g_assert_cmpint(stat(path, &status), ==, 0);
  g_assert_true(S_ISDIR(status.st_mode));
  g_assert_cmpuint(status.st_mode & 0777, ==, 0700);
}

static void test_cache_directory_that_others_may_write_is_refused(void) {
  char path[512];
  set_cache("open");
  g_assert_cmpint(runtime->get_cache_dir("x", path, sizeof path), ==, 0);
  g_assert_cmpint(chmod(path, 0777), ==, 0);
  assert_error(runtime->get_cache_dir("x", path, sizeof path), BP_ERROR_IO, "chmod go-w");
}

static void test_cache_directory_that_cannot_be_made_is_an_error(void) {
  char path[512];
  g_autofree char *file = g_build_filename(scratch, "file", NULL);
  g_assert_true(g_file_set_contents(file, "", 0, NULL));
  set_cache("file");
  assert_error(runtime->get_cache_dir("x", path, sizeof path), BP_ERROR_IO, "BACKPLANE_CACHE_DIR");
  g_setenv("BACKPLANE_CACHE_DIR", "/proc/nothing", TRUE);
  assert_error(runtime->get_cache_dir("x", path, sizeof path), BP_ERROR_IO, "/proc/nothing");
}

static void test_bad_requests_for_a_cache_are_errors(void) {
  char path[512];
  set_cache("bad");
  assert_error(runtime->get_cache_dir("../x", path, sizeof path), BP_ERROR_VALUE, "subject");
  assert_error(runtime->get_cache_dir("", path, sizeof path), BP_ERROR_VALUE, "subject");
  assert_error(runtime->get_cache_dir(NULL, path, sizeof path), BP_ERROR_VALUE, "subject");
  assert_error(runtime->get_cache_dir("x", path, 8), BP_ERROR_VALUE, "more than 8 bytes");
}

static void test_cache_lies_in_the_users_own_by_default(void) {
  char path[512];
  g_unsetenv("BACKPLANE_CACHE_DIR");
  g_setenv("XDG_CACHE_HOME", scratch, TRUE);
  g_assert_cmpint(runtime->get_cache_dir("x", path, sizeof path), ==, 0);
  g_autofree char *expected = g_build_filename(scratch, "backplane/x", NULL);
  g_assert_cmpstr(path, ==, expected);
  g_setenv("XDG_CACHE_HOME", "relative", TRUE);
  g_setenv("HOME", scratch, TRUE);
  g_assert_cmpint(runtime->get_cache_dir("x", path, sizeof path), ==, 0);
  g_assert_true(g_str_has_suffix(path, "/.cache/backplane/x"));
  g_unsetenv("HOME");
  assert_error(runtime->get_cache_dir("x", path, sizeof path), BP_ERROR_IO, "HOME is not set");
}

static int warnings;

static void count_warnings(void *context, int32_t level, const char *message) {
  (void)context;
  g_test_message("%s", message);
  warnings += level == BP_LOG_WARNING;
}

static BpByteArray bytes_of(const char *text) {
  return (BpByteArray){text, strlen(text)};
}

static void keep(const char *subject, const char *key, const char *text) {
  const BpByteArray entry = bytes_of(key), bytes = bytes_of(text);
  runtime->cache_write(subject, &entry, &bytes);
}

static void assert_kept(const char *subject, const char *key, const char *expected) {
  const BpByteArray entry = bytes_of(key);
  BpOwnedBytes bytes;
  runtime->cache_read(subject, &entry, &bytes);
  g_assert_cmpstr(bytes.data, ==, expected);
  g_assert_cmpuint(bytes.size, ==, expected ? strlen(expected) : 0);
  if (bytes.data)
    bytes.free_data(bytes.data);
}

static void test_bytes_are_kept_by_subject_and_key(void) {
  set_cache("bytes");
  assert_kept("one", "k", NULL);
  keep("one", "k", "program");
  keep("two", "k", "another");
  assert_kept("one", "k", "program");
  assert_kept("two", "k", "another");
  assert_kept("one", "kk", NULL);
  keep("one", "k", "a later one");
  assert_kept("one", "k", "a later one");
}

/* Changes, truncates or replaces the only file of subject "x". */
static void spoil(int how) {
  g_autofree char *folder = g_build_filename(g_getenv("BACKPLANE_CACHE_DIR"), "x", NULL);
  g_autoptr(GDir) directory = g_dir_open(folder, 0, NULL);
  g_autofree char *path = g_build_filename(folder, g_dir_read_name(directory), NULL), *data = NULL;
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  data[0] ^= how == 0;
  g_assert_true(
      g_file_set_contents(path, how == 2 ? "" : data, how == 2 ? 0 : (gssize)size - how, NULL));
}

static void test_damaged_bytes_are_none(void) {
  set_cache("damaged");
  bp_log_set_callback(count_warnings, NULL);
  for (int how = 0; how < 3; how++) {
    warnings = 0;
    keep("x", "k", "program");
    spoil(how);
    assert_kept("x", "k", NULL);
    g_assert_cmpint(warnings, ==, 1);
    assert_kept("x", "k", NULL);
    g_assert_cmpint(warnings, ==, 1);
  }
  bp_log_set_callback(NULL, NULL);
}

/* No file can be opened: that does not make the file invalid, and it is valid again later. */
static void test_bytes_that_cannot_be_read_now_stay(void) {
  struct rlimit before, none;
  set_cache("unreadable");
  keep("x", "k", "program");
  bp_log_set_callback(count_warnings, NULL);
  warnings = 0;
  g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
  g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
  assert_kept("x", "k", NULL);
  g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
  g_assert_cmpint(warnings, ==, 1);
  assert_kept("x", "k", "program");
  bp_log_set_callback(NULL, NULL);
}

/* An unusable cache is reported to the log; an earlier error of the thread is unchanged. */
static void test_without_a_cache_nothing_is_kept(void) {
  set_cache("bad");
  bp_log_set_callback(count_warnings, NULL);
  warnings = 0;
  bp_error_raise(BP_ERROR_VALUE, "another matter");
  keep("../x", "k", "program");
  g_setenv("BACKPLANE_CACHE_DIR", "/proc/nothing", TRUE);
  keep("x", "k", "program");
  assert_kept("x", "k", NULL);
  g_assert_cmpint(warnings, ==, 2);
  assert_error(-1, BP_ERROR_VALUE, "another matter");
  bp_log_set_callback(NULL, NULL);
}

static void remove_tree(const char *path) {
  GDir *directory = g_dir_open(path, 0, NULL);
  for (const char *name; directory && (name = g_dir_read_name(directory));) {
    g_autofree char *child = g_build_filename(path, name, NULL);
    if (g_unlink(child))
      remove_tree(child);
  }
  if (directory)
    g_dir_close(directory);
  g_rmdir(path);
}

/* ---- Current device ---------------------------------------------------------------------- */

static int32_t two_devices(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 2;
  *why = "";
  return 0;
}

/* A plugin with a second CPU device besides the host's, which is cpu:0. */
static void register_two_cpus(void) {
  static const BpDeviceApi api = {.struct_size = sizeof api,
                                  .device_type = BP_DEVICE_CPU,
                                  .name = "cpu",
                                  .get_device_count = two_devices,
                                  .get_attr = bare_attr,
                                  BARE_MEMORY};
  g_assert_cmpint(bare_register("device_api.cpu", &api), ==, 0);
}

static void test_current_device_is_the_last_one_set(void) {
  register_two_cpus();
  for (int32_t i = 0; i < 40; i++) {
    int32_t wanted = i % 2 == 0, device_id = -1;
    void *stream;
    g_assert_cmpint(bp_device_set_current((BpDevice){BP_DEVICE_CPU, wanted}, NULL), ==, 0);
    bp_device_get_current(BP_DEVICE_CPU, &device_id, &stream);
    g_assert_cmpint(device_id, ==, wanted);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  scratch = g_dir_make_tmp("backplane-runtime-XXXXXX", NULL);
  fetch_table();
#define ADD(path, test) g_test_add_func("/runtime/" path, test)
  ADD("memory/is-aligned", test_host_memory_is_aligned);
  ADD("memory/impossible-is-an-error", test_impossible_memory_is_an_error);
  ADD("options-are-ours-alone", test_options_are_ours_alone);
  ADD("cache/is-made-and-private", test_cache_directory_is_made_and_private);
  ADD("cache/that-others-may-write-is-refused",
      test_cache_directory_that_others_may_write_is_refused);
  ADD("cache/that-cannot-be-made-is-an-error",
      test_cache_directory_that_cannot_be_made_is_an_error);
  ADD("cache/bad-requests-are-errors", test_bad_requests_for_a_cache_are_errors);
  ADD("cache/bytes-are-kept-by-subject-and-key", test_bytes_are_kept_by_subject_and_key);
  ADD("cache/damaged-bytes-are-none", test_damaged_bytes_are_none);
  ADD("cache/bytes-that-cannot-be-read-now-stay", test_bytes_that_cannot_be_read_now_stay);
  ADD("cache/nothing-is-kept-without-one", test_without_a_cache_nothing_is_kept);
  ADD("current-device/is-the-last-one-set", test_current_device_is_the_last_one_set);
  ADD("cache/lies-in-the-users-own-by-default", test_cache_lies_in_the_users_own_by_default);
  int rc = g_test_run();
  remove_tree(scratch);
  g_free(scratch);
  return rc;
}
