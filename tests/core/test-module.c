/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: functions, imports, C source, exported libraries, and files that are not modules. */

#include "tests/core/module-fixture.h"
#include "tests/process_usage.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <pthread.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

static int64_t call_int(BpModule *module, const char *name, int64_t a, int64_t b) {
  BpFunction *function;
  BpValue args[] = {{.type_index = BP_TYPE_INT, .v_int64 = a},
                    {.type_index = BP_TYPE_INT, .v_int64 = b}};
  BpValue result;
  g_assert_cmpint(bp_module_get_function(module, name, 1, &function), ==, 0);
  g_assert_nonnull(function);
  if (bp_function_call(function, args, 2, &result))
    g_error("%s", bp_error_message());
  bp_object_release(function);
  g_assert_cmpint(result.type_index, ==, BP_TYPE_INT);
  return result.v_int64;
}

/* ---- Objects ----------------------------------------------------------------------------- */

static void test_functions_are_found_by_name(void) {
  BpModule *module = fake_module("test_dev", "payload");
  BpFunction *function;
  g_assert_cmpstr(bp_module_kind(module), ==, "test_dev");
  g_assert_cmpint(call_int(module, "size", 0, 0), ==, 7);
  g_assert_cmpint(bp_module_get_function(module, "absent", 1, &function), ==, 0);
  g_assert_null(function);
  g_assert_cmpint(bp_module_get_function(module, "", 1, &function), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_object_release(module);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
}

#define REFUSES(call)                                                                              \
  do {                                                                                             \
    g_assert_true(call);                                                                           \
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_VALUE);                                          \
    g_assert_nonnull(strstr(bp_error_message(), "is NULL"));                                       \
    bp_error_clear();                                                                              \
  } while (0)

static int num_destroyed;

static void count_destroyed(void *context) {
  (void)context;
  num_destroyed++;
}

static void test_null_arguments_are_errors(void) {
  BpModule *module = fake_module("test_dev", "payload");
  BpFunction *function;
  BpOwnedBytes bytes;
  REFUSES(!bp_module_load_from_bytes("test_dev", NULL));
  REFUSES(!bp_module_function_create(NULL, NULL, NULL, count_destroyed));
  g_assert_cmpint(num_destroyed, ==, 1);
  REFUSES(!bp_module_kind(NULL));
  REFUSES(bp_module_get_function(NULL, "size", 0, &function));
  REFUSES(bp_module_get_function(module, "size", 0, NULL));
  REFUSES(bp_module_num_imports(NULL) == 0);
  REFUSES(!bp_module_get_import(NULL, 0));
  REFUSES(bp_module_get_property(NULL) == 0);
  REFUSES(bp_module_save_to_bytes(NULL, &bytes));
  REFUSES(bp_module_save_to_bytes(module, NULL));
  REFUSES(bp_module_get_source(NULL, NULL, &bytes));
  REFUSES(bp_module_get_source(module, NULL, NULL));
  REFUSES(!bp_module_list_functions(NULL, NULL));
  REFUSES(bp_module_import(NULL, module));
  REFUSES(bp_module_import(module, NULL));
  REFUSES(bp_module_export_library(NULL, "x.so"));
  g_assert_null(bp_module_load(NULL));
  g_assert_null(bp_module_create(NULL, NULL));
  g_assert_null(bp_module_get_context(NULL, NULL));
  bp_error_clear();
  bp_object_release(module);
}

static void test_function_keeps_its_module_alive(void) {
  BpModule *module = fake_module("test_dev", "payload");
  BpFunction *function;
  BpValue result;
  g_assert_cmpint(bp_module_get_function(module, "size", 0, &function), ==, 0);
  bp_object_release(module);
  g_assert_cmpint(fake_modules_alive(), ==, 1);
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 7);
  bp_object_release(function);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
}

static void test_imports_are_searched(void) {
  BpModule *root = fake_module("test_dev", "r"), *middle = fake_module("test_dev", "mm");
  BpModule *leaf = fake_module("test_other", "leaf");
  BpFunction *function;
  g_assert_cmpint(bp_module_import(root, middle), ==, 0);
  g_assert_cmpint(bp_module_import(middle, leaf), ==, 0);
  g_assert_cmpint(bp_module_import(root, leaf), ==, 0);
  g_assert_cmpuint(bp_module_num_imports(root), ==, 2);
  g_assert_true(bp_module_get_import(root, 1) == leaf);
  g_assert_null(bp_module_get_import(root, 2));
  g_assert_true(bp_error_is(BP_ERROR_INDEX));
  g_assert_cmpint(call_int(root, "size", 0, 0), ==, 1);
  g_assert_cmpint(call_int(root, "other_size", 0, 0), ==, 4);
  g_assert_cmpint(bp_module_get_function(root, "other_size", 0, &function), ==, 0);
  g_assert_null(function);
  bp_object_release(leaf);
  bp_object_release(middle);
  g_assert_cmpint(fake_modules_alive(), ==, 3);
  bp_object_release(root);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
}

static void test_import_cycle_is_an_error(void) {
  BpModule *a = fake_module("test_dev", "a"), *b = fake_module("test_dev", "b");
  BpModule *c = fake_module("test_dev", "c");
  g_assert_cmpint(bp_module_import(a, a), ==, -1);
  g_assert_cmpint(bp_module_import(a, b), ==, 0);
  g_assert_cmpint(bp_module_import(b, c), ==, 0);
  g_assert_cmpint(bp_module_import(c, a), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "cycle"));
  bp_object_release(a);
  bp_object_release(b);
  bp_object_release(c);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
}

/* Every module is imported twice by the one above, so there are 2^60 paths to the last module. */
static void *release_in_thread(void *module) {
  bp_object_release(module);
  return NULL;
}

static void test_a_long_chain_of_imports_is_released_on_a_small_stack(void) {
  BpModule *root = fake_module("test_dev", "0"), *last = root;
  pthread_attr_t small;
  pthread_t thread;
  for (int i = 0; i < 200000; ++i) {
    BpModule *next = fake_module("test_dev", "0");
    g_assert_cmpint(bp_module_import(last, next), ==, 0);
    bp_object_release(next);
    last = next;
  }
  pthread_attr_init(&small);
  g_assert_cmpint(pthread_attr_setstacksize(&small, 64 << 10), ==, 0);
  g_assert_cmpint(pthread_create(&thread, &small, release_in_thread, root), ==, 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&small);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
}

static void test_search_visits_each_module_once(void) {
  BpModule *levels[60];
  BpFunction *function;
  for (size_t i = 0; i < G_N_ELEMENTS(levels); ++i) {
    levels[i] = fake_module("test_dev", "x");
    for (int twice = 0; i && twice < 2; ++twice)
      g_assert_cmpint(bp_module_import(levels[i], levels[i - 1]), ==, 0);
  }
  BpModule *top = levels[G_N_ELEMENTS(levels) - 1];
  g_assert_cmpint(bp_module_get_function(top, "absent", 1, &function), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(levels); ++i)
    bp_object_release(levels[i]);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
}

static void test_bytes_make_the_module_again(void) {
  BpModule *module = fake_module("test_dev", "payload");
  BpOwnedBytes bytes;
  g_assert_cmpint(bp_module_save_to_bytes(module, &bytes), ==, 0);
  BpByteArray view = {bytes.data, bytes.size};
  BpModule *copy = bp_module_load_from_bytes("test_dev", &view);
  g_assert_nonnull(copy);
  g_assert_cmpint(call_int(copy, "size", 0, 0), ==, 7);
  bp_owned_bytes_clear(&bytes);
  bp_object_release(module);
  bp_object_release(copy);
}

static void test_unknown_kind_is_an_error(void) {
  BpByteArray view = {"x", 1};
  g_assert_null(bp_module_load_from_bytes("nosuchkind", &view));
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  g_assert_nonnull(strstr(bp_error_message(), "runtime.module.loadbinary_nosuchkind"));
  g_assert_null(bp_module_load_from_bytes("", &view));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
}

static void test_unsupported_services_are_errors(void) {
  BpModule *module = fake_host_module(NULL, NULL);
  BpOwnedBytes bytes;
  g_assert_cmpint(bp_module_save_to_bytes(module, &bytes), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_cmpint(bp_module_get_source(module, "cobol", &bytes), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "cobol"));
  g_assert_null(bytes.data);
  bp_object_release(module);
}

/* ---- C source ---------------------------------------------------------------------------- */

static BpModule *load_c(const char *source) {
  BpByteArray bytes = {source, strlen(source)};
  return module_table()->load_from_c(&bytes, NULL);
}

static void test_c_source_becomes_a_module(void) {
  BpModule *module = load_c(ADD_SOURCE);
  size_t count;
  if (!module)
    g_error("%s", bp_error_message());
  g_assert_cmpstr(bp_module_kind(module), ==, "library");
  g_assert_cmpint(call_int(module, "add", 40, 2), ==, 42);
  char **names = bp_module_list_functions(module, &count);
  g_assert_cmpuint(count, ==, 2);
  g_assert_cmpstr(names[0], ==, "add");
  g_assert_cmpstr(names[1], ==, "fail");
  bp_names_free(names);
  bp_object_release(module);
}

static void test_error_of_a_library_reaches_the_caller(void) {
  BpModule *module = load_c(ADD_SOURCE);
  BpFunction *function;
  BpValue result;
  g_assert_cmpint(bp_module_get_function(module, "fail", 0, &function), ==, 0);
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, -1);
  g_assert_true(bp_error_is("OddError"));
  g_assert_cmpstr(bp_error_message(), ==, "it is odd");
  bp_object_release(function);
  bp_object_release(module);
}

static void test_flags_reach_the_compiler(void) {
  static const char source[] = ADD_SOURCE "int __tvm_ffi_value(void *s, const Any *a, int n, Any "
                                          "*r) { r->type = 1; r->v = VALUE; return 0; }";
  BpByteArray bytes = {source, sizeof source - 1};
  for (int i = 5; i < 7; ++i) {
    char *flag = g_strdup_printf("-DVALUE=%d", i);
    const char *flags[] = {flag, NULL};
    BpModule *module = module_table()->load_from_c(&bytes, flags);
    g_assert_nonnull(module);
    g_assert_cmpint(call_int(module, "value", 0, 0), ==, i);
    bp_object_release(module);
    g_free(flag);
  }
}

static void test_source_that_does_not_compile_is_an_error(void) {
  g_assert_null(load_c("int f( {"));
  g_assert_true(bp_error_is(BP_ERROR_COMPILE));
  g_assert_nonnull(strstr(bp_error_message(), "error:"));
}

/* A source of `size` bytes or more in three pieces, as the emitter marks pieces. Function partI
 * returns the address of a variable that each part has of its own. */
static char *make_pieces(size_t size, const char *last) {
  g_autofree char *padding = g_strnfill(size / 3, ' ');
  GString *source = g_string_new("typedef struct { int type; unsigned pad; long long v; } Any;\n"
                                 "static int own;\n");
  for (int i = 0; i < 3; ++i)
    g_string_append_printf(source,
                           "/* ---- A piece that can be compiled apart ---- */\n"
                           "int __tvm_ffi_part%d(void *s, const Any *a, int n, Any *r) {\n"
                           "  r->type = 1;\n"
                           "  r->v = (long long)&own;\n"
                           "  return 0;\n"
                           "}%s\n%s\n",
                           i, padding, i == 2 ? last : "");
  return g_string_free(source, FALSE);
}

/* Loads a source in pieces, and asserts that its last piece is in a part with the first one, and
 * that the second piece is in the same part or not. */
static void assert_pieces(const char *source, gboolean is_one_part) {
  BpModule *module = load_c(source);
  if (!module)
    g_error("%s", bp_error_message());
  int64_t first = call_int(module, "part0", 0, 0);
  g_assert_cmpint(call_int(module, "part2", 0, 0), ==, first);
  g_assert_cmpint(call_int(module, "part1", 0, 0) == first, ==, is_one_part);
  bp_object_release(module);
}

static void test_pieces_of_a_large_source_are_compiled_apart(void) {
  g_autofree char *small = make_pieces(3000, ""), *large = make_pieces(600000, "");
  g_autofree char *wrong = make_pieces(600000, "int f( {");
  int32_t threads = bp_threads_get();
  g_assert_cmpint(bp_threads_set(2), ==, 0);
  assert_pieces(small, TRUE);
  assert_pieces(large, FALSE);
  g_assert_null(load_c(wrong));
  g_assert_true(bp_error_is(BP_ERROR_COMPILE));
  g_assert_nonnull(strstr(bp_error_message(), "error:"));
  g_assert_cmpint(bp_threads_set(threads), ==, 0);
}

static void test_library_without_functions_is_an_error(void) {
  g_assert_null(load_c("int f(void) { return 1; }"));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "__tvm_ffi_"));
}

/* Four tasks each add their number to memory that the host allocated. */
static void test_library_uses_threads_and_memory_of_the_host(void) {
  static const char source[] = ADD_SOURCE
      "__attribute__((weak)) int (*__TVMBackendParallelLaunch)(int (*)(int, void *, void *), void "
      "*, "
      "int);\n"
      "__attribute__((weak)) int (*__TVMBackendParallelBarrier)(int, void *);\n"
      "__attribute__((weak)) void *(*__TVMBackendAllocWorkspace)(int, int, unsigned long long, "
      "int, "
      "int);\n"
      "__attribute__((weak)) int (*__TVMBackendFreeWorkspace)(int, int, void *);\n"
      "static int task(int id, void *group, void *data) {\n"
      "  ((int *)data)[id] = id + 1;\n"
      "  if (__TVMBackendParallelBarrier(id, group)) return -1;\n"
      "  if (id == 0) for (int i = 0; i < 4; ++i) ((int *)data)[4] += ((int *)data)[i];\n"
      "  return 0;\n"
      "}\n"
      "int __tvm_ffi_sum(void *self, const Any *args, int n, Any *result) {\n"
      "  int *data = __TVMBackendAllocWorkspace(1, 0, 5 * sizeof(int), 0, 32);\n"
      "  if (!data) return -1;\n"
      "  data[4] = 0;\n"
      "  if (__TVMBackendParallelLaunch(task, data, 4)) return -1;\n"
      "  result->type = 1; result->v = data[4];\n"
      "  return __TVMBackendFreeWorkspace(1, 0, data);\n"
      "}\n";
  BpModule *module = load_c(source);
  if (!module || bp_threads_set(4))
    g_error("%s", bp_error_message());
  g_assert_cmpint(call_int(module, "sum", 0, 0), ==, 10);
  bp_object_release(module);
}

static void test_unknown_slot_is_refused_by_name(void) {
  g_assert_null(load_c("__attribute__((weak)) void *__TVMBrandNewService;\n" ADD_SOURCE));
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "__TVMBrandNewService"));
}

/* TVM's code calls functions that raise errors by name. Backplane exports no such names: they would
 * replace TVM's own functions in a process that has both. */
static void test_library_calls_the_host_by_name(void) {
  static const char source[] =
      "typedef struct { int type; unsigned pad; long long v; } Any;\n"
      "void TVMFFIErrorSetRaisedFromCStrParts(const char *, const char **, int);\n"
      "void *TVMBackendAllocWorkspace(int, int, unsigned long long, int, int);\n"
      "int TVMBackendFreeWorkspace(int, int, void *);\n"
      "extern void TVMUnheardOf(void) __attribute__((weak));\n"
      "int __tvm_ffi_fail(void *self, const Any *args, int n, Any *result) {\n"
      "  const char *parts[] = {\"two \", \"parts\"};\n"
      "  void *memory = TVMBackendAllocWorkspace(1, 0, 64, 0, 32);\n"
      "  if (!memory || TVMUnheardOf || TVMBackendFreeWorkspace(1, 0, memory)) return 0;\n"
      "  TVMFFIErrorSetRaisedFromCStrParts(\"OddError\", parts, 2); return -1;\n"
      "}\n";
  BpModule *module = load_c(source);
  BpFunction *function;
  BpValue result;
  if (!module || bp_module_get_function(module, "fail", 0, &function))
    g_error("%s", bp_error_message());
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, "OddError");
  g_assert_cmpstr(bp_error_message(), ==, "two parts");
  g_assert_null(dlsym(RTLD_DEFAULT, "TVMFFIErrorSetRaisedFromCStrParts"));
  bp_object_release(function);
  bp_object_release(module);
}

static void test_unknown_host_function_is_refused_by_name(void) {
  g_assert_null(load_c(ADD_SOURCE "int TVMBrandNewService(void);\n"
                                  "int __tvm_ffi_new(void) { return TVMBrandNewService(); }"));
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "TVMBrandNewService"));
}

static void test_missing_compiler_is_a_clear_error(void) {
  g_setenv("BACKPLANE_CC", "/no/such/compiler", TRUE);
  g_assert_null(load_c(ADD_SOURCE));
  g_assert_true(bp_error_is(BP_ERROR_COMPILE));
  g_assert_nonnull(strstr(bp_error_message(), "/no/such/compiler"));
  g_assert_nonnull(strstr(bp_error_message(), "BACKPLANE_CC"));
  g_setenv("BACKPLANE_CC", "'unclosed", TRUE);
  g_assert_null(load_c(ADD_SOURCE));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_unsetenv("BACKPLANE_CC");
}

/* Libraries made by host code earlier are closed and opened again from copies. */
static void test_same_source_twice_gives_independent_modules(void) {
  static const char source[] = ADD_SOURCE
      "static long count;\n"
      "int __tvm_ffi_count(void *s, const Any *a, int n, Any *r) { r->type = 1; r->v = ++count; "
      "return 0; }";
  BpModule *first = load_c(source), *second = load_c(source);
  g_assert_cmpint(call_int(first, "count", 0, 0), ==, 1);
  g_assert_cmpint(call_int(first, "count", 0, 0), ==, 2);
  g_assert_cmpint(call_int(second, "count", 0, 0), ==, 1);
  bp_object_release(first);
  g_assert_cmpint(call_int(second, "count", 0, 0), ==, 2);
  BpModule *third = load_c(source);
  g_assert_cmpint(call_int(third, "count", 0, 0), ==, 1);
  bp_object_release(second);
  bp_object_release(third);
}

/* ---- The compiler's cache ---------------------------------------------------------------- */

static int warnings;

static void count_warnings(void *context, int32_t level, const char *message) {
  (void)context;
  (void)message;
  warnings += level == BP_LOG_WARNING;
}

/* Makes a compiler that writes a line to a file for each run. */
typedef struct Cache {
  char *dir;
  char *runs;
  char *saved;
} Cache;

static void cache_begin(Cache *cache) {
  cache->dir = g_dir_make_tmp("backplane-test-XXXXXX", NULL);
  cache->runs = g_build_filename(cache->dir, "runs", NULL);
  cache->saved = g_strdup(g_getenv("BACKPLANE_CACHE_DIR"));
  char *script = g_build_filename(cache->dir, "cc.sh", NULL);
  char *text = g_strdup_printf("#!/bin/sh\necho \"$@\" >>'%s'\nexec cc \"$@\"\n", cache->runs);
  char *kept = g_build_filename(cache->dir, "cache", NULL);
  g_assert_true(g_file_set_contents(script, text, -1, NULL));
  g_assert_cmpint(g_chmod(script, 0700), ==, 0);
  g_setenv("BACKPLANE_CC", script, TRUE);
  g_setenv("BACKPLANE_CACHE_DIR", kept, TRUE);
  bp_log_set_callback(count_warnings, NULL);
  warnings = 0;
  g_free(script);
  g_free(text);
  g_free(kept);
}

static void cache_end(Cache *cache) {
  g_unsetenv("BACKPLANE_CC");
  if (cache->saved)
    g_setenv("BACKPLANE_CACHE_DIR", cache->saved, TRUE);
  else
    g_unsetenv("BACKPLANE_CACHE_DIR");
  bp_log_set_callback(NULL, NULL);
  remove_tree(cache->dir);
  g_free(cache->dir);
  g_free(cache->runs);
  g_free(cache->saved);
}

/* Counts runs that compile: the compiler's version may be queried at any time. */
static int count_runs(const Cache *cache) {
  char *text = NULL;
  int count = 0;
  if (!g_file_get_contents(cache->runs, &text, NULL, NULL))
    return 0;
  char **lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line; ++line)
    count += **line && strcmp(*line, "--version");
  g_strfreev(lines);
  g_free(text);
  return count;
}

static void load_add(void) {
  BpModule *module = load_c(ADD_SOURCE);
  if (!module)
    g_error("%s", bp_error_message());
  g_assert_cmpint(call_int(module, "add", 1, 2), ==, 3);
  bp_object_release(module);
}

static void test_second_load_does_not_compile(void) {
  Cache cache;
  cache_begin(&cache);
  load_add();
  int runs = count_runs(&cache);
  g_assert_cmpint(runs, >, 0);
  load_add();
  g_assert_cmpint(count_runs(&cache), ==, runs);
  g_assert_cmpint(warnings, ==, 0);
  cache_end(&cache);
}

static void flip_byte(const char *path, gsize at) {
  char *data;
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  data[at % size] ^= 0x40;
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
  g_free(data);
}

static void test_damaged_cache_is_made_anew(void) {
  Cache cache;
  cache_begin(&cache);
  load_add();
  int runs = count_runs(&cache);
  char *dir = g_build_filename(cache.dir, "cache", "c", NULL);
  GDir *entries = g_dir_open(dir, 0, NULL);
  g_assert_nonnull(entries);
  for (const char *name; (name = g_dir_read_name(entries));) {
    char *path = g_build_filename(dir, name, NULL);
    flip_byte(path, 1000);
    g_free(path);
  }
  g_dir_close(entries);
  g_free(dir);
  load_add();
  g_assert_cmpint(count_runs(&cache), ==, 2 * runs);
  g_assert_cmpint(warnings, ==, 2);
  load_add();
  g_assert_cmpint(count_runs(&cache), ==, 2 * runs);
  cache_end(&cache);
}

/* Returns the cache folder in which the sources are compiled (transfer full). */
static char *cache_folder(const Cache *cache) {
  return g_build_filename(cache->dir, "cache", "c", NULL);
}

/* Puts a file of `size` bytes, last used `age` seconds ago, into the cache under a valid name: a
 * hash of a number (transfer full). */
static char *put_file(const Cache *cache, int number, gsize size, time_t age) {
  g_autofree char *folder = cache_folder(cache), *data = g_malloc0(size);
  g_autofree char *name = g_strdup_printf("%064x.so", number);
  char *path = g_build_filename(folder, name, NULL);
  struct utimbuf times = {time(NULL) - age, time(NULL) - age};
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
  g_assert_cmpint(g_utime(path, &times), ==, 0);
  return path;
}

static void age_files(const Cache *cache, time_t age) {
  g_autofree char *folder = cache_folder(cache);
  struct utimbuf times = {time(NULL) - age, time(NULL) - age};
  GDir *entries = g_dir_open(folder, 0, NULL);
  g_assert_nonnull(entries);
  for (const char *name; (name = g_dir_read_name(entries));) {
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_assert_cmpint(g_utime(path, &times), ==, 0);
  }
  g_dir_close(entries);
}

/* Compiles source that only the given number gives. */
static void load_numbered(int number) {
  g_autofree char *source = g_strdup_printf(ADD_SOURCE "int source_%d;\n", number);
  BpModule *module = load_c(source);
  if (!module)
    g_error("%s", bp_error_message());
  bp_object_release(module);
}

static void test_least_recently_used_files_go_first(void) {
  Cache cache;
  cache_begin(&cache);
  g_setenv("BACKPLANE_CACHE_SIZE", "1", TRUE);
  load_add();
  int runs = count_runs(&cache);
  age_files(&cache, 9000);
  load_add(); /* the library is loaded again, but not its object file */
  g_autofree char *oldest = put_file(&cache, 1, 600000, 8000);
  g_autofree char *old = put_file(&cache, 2, 600000, 7000);
  load_numbered(1);
  g_assert_false(g_file_test(oldest, G_FILE_TEST_EXISTS));
  g_assert_true(g_file_test(old, G_FILE_TEST_EXISTS));
  load_add();
  g_assert_cmpint(count_runs(&cache), ==, 2 * runs);
  g_assert_cmpint(warnings, ==, 0);
  g_unsetenv("BACKPLANE_CACHE_SIZE");
  cache_end(&cache);
}

static void test_files_just_used_are_left_alone(void) {
  Cache cache;
  cache_begin(&cache);
  g_setenv("BACKPLANE_CACHE_SIZE", "1", TRUE);
  load_add();
  g_autofree char *used = put_file(&cache, 3, 2000000, 5);
  load_numbered(1);
  g_assert_true(g_file_test(used, G_FILE_TEST_EXISTS));
  g_unsetenv("BACKPLANE_CACHE_SIZE");
  cache_end(&cache);
}

static void test_no_limit_and_no_number(void) {
  Cache cache;
  cache_begin(&cache);
  load_add();
  g_autofree char *old = put_file(&cache, 2, 2000000, 8000);
  g_setenv("BACKPLANE_CACHE_SIZE", "0", TRUE);
  load_numbered(1);
  g_assert_true(g_file_test(old, G_FILE_TEST_EXISTS));
  g_assert_cmpint(warnings, ==, 0);
  g_setenv("BACKPLANE_CACHE_SIZE", "plenty", TRUE);
  load_numbered(2);
  g_assert_cmpint(warnings, >, 0);
  g_unsetenv("BACKPLANE_CACHE_SIZE");
  cache_end(&cache);
}

/* Makes a working folder with a file in it; its descriptor is held as by a live process. */
static char *put_workdir(const Cache *cache, const char *name, time_t age, int *lock) {
  g_autofree char *folder = cache_folder(cache);
  char *path = g_build_filename(folder, name, NULL);
  g_autofree char *file = g_build_filename(path, "module.c", NULL);
  struct utimbuf times = {time(NULL) - age, time(NULL) - age};
  g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
  g_assert_true(g_file_set_contents(file, "int x;", -1, NULL));
  g_assert_cmpint(g_utime(path, &times), ==, 0);
  if (lock) {
    *lock = open(path, O_RDONLY | O_DIRECTORY);
    g_assert_cmpint(flock(*lock, LOCK_EX), ==, 0);
  }
  return path;
}

static void test_abandoned_working_folders_are_removed(void) {
  Cache cache;
  int lock;
  cache_begin(&cache);
  load_add();
  g_autofree char *abandoned = put_workdir(&cache, ".backplane-aaaaaaaaaaaaaaaa", 3600, NULL);
  g_autofree char *in_use = put_workdir(&cache, ".backplane-bbbbbbbbbbbbbbbb", 3600, &lock);
  g_autofree char *just_made = put_workdir(&cache, ".backplane-cccccccccccccccc", 1, NULL);
  load_numbered(1);
  g_assert_false(g_file_test(abandoned, G_FILE_TEST_EXISTS));
  g_assert_true(g_file_test(in_use, G_FILE_TEST_EXISTS));
  g_assert_true(g_file_test(just_made, G_FILE_TEST_EXISTS));
  close(lock);
  cache_end(&cache);
}

/* All processes make the same files, and remove those beyond the limit. */
static void test_processes_share_a_cache(void) {
  enum { PROCESSES = 3, ROUNDS = 3 };
  Cache cache;
  pid_t children[PROCESSES];
  cache_begin(&cache);
  g_setenv("BACKPLANE_CACHE_SIZE", "1", TRUE);
  load_add();
  g_autofree char *folder = cache_folder(&cache);
  for (int i = 0; i < PROCESSES; i++)
    if ((children[i] = fork()) == 0) {
      for (int round = 0; round < ROUNDS; round++) {
        g_free(put_file(&cache, 1 + i * ROUNDS + round, 1100000, 8000));
        load_numbered(round);
      }
      _exit(warnings ? 1 : 0);
    }
  for (int i = 0; i < PROCESSES; i++) {
    int status;
    g_assert_cmpint(waitpid(children[i], &status, 0), ==, children[i]);
    g_assert_cmpint(status, ==, 0);
  }
  GDir *entries = g_dir_open(folder, 0, NULL);
  for (const char *name; (name = g_dir_read_name(entries));)
    g_assert_false(g_str_has_prefix(name, ".backplane-"));
  g_dir_close(entries);
  g_unsetenv("BACKPLANE_CACHE_SIZE");
  cache_end(&cache);
}

/* The compiler quotes more of the source than the error shows. */
static void test_compiler_messages_are_whole_characters(void) {
  for (int shift = 0; shift < 3; shift++) {
    GString *source = g_string_new("#error ");
    for (int i = 0; i < shift; i++)
      g_string_append_c(source, 'x');
    for (int i = 0; i < 4000; i++)
      g_string_append(source, "\xe2\x82\xac");
    g_string_append(source, "\xff\n");
    g_assert_null(load_c(source->str));
    g_assert_true(bp_error_is(BP_ERROR_COMPILE));
    g_assert_true(g_utf8_validate(bp_error_message(), -1, NULL));
    bp_error_clear();
    g_string_free(source, TRUE);
  }
}

static void test_compiler_speaks_plainly(void) {
  Cache cache;
  cache_begin(&cache);
  g_setenv("LC_ALL", "C.UTF-8", TRUE);
  g_assert_null(load_c("int f(void) { return undeclared; }"));
  for (const char *c = bp_error_message(); *c; c++)
    g_assert_cmpint((unsigned char)*c, <, 128);
  g_unsetenv("LC_ALL");
  cache_end(&cache);
}

/* GNU ld ignores some writes that fail on a full file system. */
static void test_truncated_library_is_not_exported(void) {
  Cache cache;
  cache_begin(&cache);
  const char *script = g_getenv("BACKPLANE_CC");
  g_autofree char *text = g_strdup("#!/bin/sh\ncc \"$@\" || exit\ncase \"$*\" in\n"
                                   "*library.so*) truncate -s 9000 library.so ;;\nesac\n");
  g_autofree char *path = g_build_filename(cache.dir, "exported.so", NULL);
  g_assert_true(g_file_set_contents(script, text, -1, NULL));
  g_assert_cmpint(g_chmod(script, 0700), ==, 0);
  BpModule *module = fake_host_module(ADD_SOURCE, NULL);
  g_assert_cmpint(bp_module_export_library(module, path), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "damaged library"));
  bp_error_clear();
  g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
  bp_object_release(module);
  cache_end(&cache);
}

/* Replaces the C library's function: closing a file in this folder fails, as if a server had not
 * stored its bytes. */
static const char *failing_folder;

BP_API int close(int fd) {
  g_autofree char *entry = failing_folder ? g_strdup_printf("/proc/self/fd/%d", fd) : NULL;
  g_autofree char *path = entry ? g_file_read_link(entry, NULL) : NULL;
  int fails = path && g_str_has_prefix(path, failing_folder);
  int rc = (int)syscall(SYS_close, fd);
  if (!fails)
    return rc;
  errno = EIO;
  return -1;
}

static void test_library_that_is_not_stored_gets_no_name(void) {
  g_autofree char *folder = g_dir_make_tmp("backplane-test-XXXXXX", NULL);
  g_autofree char *path = g_build_filename(folder, "exported.so", NULL);
  BpModule *module = fake_host_module(ADD_SOURCE, NULL);
  failing_folder = folder;
  g_assert_cmpint(bp_module_export_library(module, path), ==, -1);
  failing_folder = NULL;
  g_assert_nonnull(strstr(bp_error_message(), g_strerror(EIO)));
  bp_error_clear();
  g_assert_cmpint(g_rmdir(folder), ==, 0); /* the folder is empty */
  bp_object_release(module);
}

static void test_unusable_cache_is_a_warning(void) {
  Cache cache;
  cache_begin(&cache);
  g_setenv("BACKPLANE_CACHE_DIR", "/dev/null/cache", TRUE);
  load_add();
  g_assert_cmpint(warnings, >, 0);
  cache_end(&cache);
}

/* Replaces the C library's function: the cache's file system is full. */
static int is_full;

BP_API int fallocate(int fd, int mode, off_t offset, off_t size) {
  if (!is_full)
    return (int)syscall(SYS_fallocate, fd, mode, offset, size);
  errno = ENOSPC;
  return -1;
}

static void test_full_cache_is_a_warning(void) {
  Cache cache;
  cache_begin(&cache);
  is_full = 1;
  load_add();
  is_full = 0;
  g_assert_cmpint(warnings, ==, 1);
  char *folder = g_build_filename(cache.dir, "cache", "c", NULL);
  GDir *kept = g_dir_open(folder, 0, NULL);
  g_assert_null(g_dir_read_name(kept));
  g_dir_close(kept);
  g_free(folder);
  cache_end(&cache);
}

/* A process whose file size limit is below the cache's request for space is not killed by it. */
static void test_limit_on_files_is_kept(void) {
  struct rlimit before, less;
  Cache cache;
  g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
  less = before;
  less.rlim_cur = 8 << 20;
  cache_begin(&cache);
  g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &less), ==, 0);
  load_add();
  g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
  g_assert_cmpint(warnings, ==, 0);
  cache_end(&cache);
}

/* Runs a plugin's compiler, a shell that first writes a line for the run. Returns the file that it
 * made (g_free), or NULL. */
static char *run_compiler(const Cache *cache, const char *commands, char **said) {
  char *script = g_strdup_printf("echo run >>'%s'; %s", cache->runs, commands);
  const char *const command[] = {"sh", "-c", script, NULL};
  const char *const inputs[] = {"in.txt"}, *const outputs[] = {"out.txt"};
  const BpByteArray input = {"given", 5};
  const BpCompilerRun run = {.struct_size = sizeof run,
                             .subject = "test",
                             .command = command,
                             .input_names = inputs,
                             .inputs = &input,
                             .output_names = outputs,
                             .num_inputs = 1,
                             .num_outputs = 1};
  BpOwnedBytes made, log;
  if (module_table()->run_compiler(&run, &made, &log))
    g_error("%s", bp_error_message());
  char *text = g_strdup(made.data);
  if (said)
    *said = g_strdup(log.data);
  bp_owned_bytes_clear(&made);
  bp_owned_bytes_clear(&log);
  g_free(script);
  return text;
}

static void test_what_a_compiler_made_is_kept(void) {
  Cache cache;
  cache_begin(&cache);
  for (int i = 0; i < 2; ++i) {
    char *made = run_compiler(&cache, "cat in.txt >out.txt", NULL);
    g_assert_cmpstr(made, ==, "given");
    g_free(made);
  }
  g_assert_cmpint(count_runs(&cache), ==, 1);
  cache_end(&cache);
}

static void test_what_a_compiler_that_failed_made_is_not_kept(void) {
  static const char *const commands[] = {"echo half >out.txt; echo why >&2; exit 1",
                                         "echo half >out.txt; kill -KILL $$", "echo why >&2"};
  for (size_t i = 0; i < G_N_ELEMENTS(commands); ++i) {
    Cache cache;
    cache_begin(&cache);
    for (int k = 1; k <= 2; ++k) {
      char *said, *made = run_compiler(&cache, commands[i], &said);
      g_assert_cmpstr(made, ==, strstr(commands[i], "exit 1") ? "half\n" : NULL);
      g_assert_cmpstr(said, ==, strstr(commands[i], "why") ? "why\n" : "");
      g_assert_cmpint(count_runs(&cache), ==, k);
      g_free(made);
      g_free(said);
    }
    cache_end(&cache);
  }
}

static void test_cache_that_others_may_write_is_not_used(void) {
  Cache cache;
  cache_begin(&cache);
  load_add();
  int runs = count_runs(&cache);
  char *dir = g_build_filename(cache.dir, "cache", "c", NULL);
  g_assert_cmpint(g_chmod(dir, 0777), ==, 0);
  load_add();
  g_assert_cmpint(count_runs(&cache), ==, 2 * runs);
  g_assert_cmpint(warnings, >, 0);
  g_free(dir);
  cache_end(&cache);
}

/* ---- Exported libraries ------------------------------------------------------------------ */

static int is_mapped(const char *path) {
  char *maps;
  g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
  int found = strstr(maps, path) != NULL;
  g_free(maps);
  return found;
}

static BpModule *load(const char *path) {
  BpModule *module = bp_module_load(path);
  if (!module)
    g_error("%s", bp_error_message());
  return module;
}

static void test_exported_host_code_runs(void) {
  char *path = temporary_path("host.so");
  BpModule *module = fake_host_module(ADD_SOURCE, "-DUNUSED=1\n-O1\n");
  if (bp_module_export_library(module, path))
    g_error("%s", bp_error_message());
  bp_object_release(module);
  module = load(path);
  g_assert_true(is_mapped(path));
  g_assert_cmpint(call_int(module, "add", 2, 3), ==, 5);
  bp_object_release(module);
  g_assert_false(is_mapped(path));
  g_remove(path);
  g_free(path);
}

/* The linker writes the variable LD_RUN_PATH into libraries. */
static void test_exported_library_has_no_search_path(void) {
  static const char folder[] = "/no/such/run/path";
  char *path = temporary_path("host.so"), *bytes;
  gsize size;
  g_setenv("LD_RUN_PATH", folder, TRUE);
  BpModule *module = fake_host_module(ADD_SOURCE, "-O1\n");
  if (bp_module_export_library(module, path))
    g_error("%s", bp_error_message());
  g_unsetenv("LD_RUN_PATH");
  bp_object_release(module);
  g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
  g_assert_null(memmem(bytes, size, folder, strlen(folder)));
  g_free(bytes);
  g_remove(path);
  g_free(path);
}

static void test_exported_library_carries_its_imports(void) {
  char *path = temporary_path("imports.so");
  export_with_imports(path);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
  BpModule *module = load(path);
  g_assert_cmpstr(bp_module_kind(module), ==, "library");
  g_assert_cmpuint(bp_module_num_imports(module), ==, 2);
  g_assert_cmpstr(bp_module_kind(bp_module_get_import(module, 0)), ==, "test_dev");
  g_assert_cmpint(call_int(module, "size", 0, 0), ==, 100003);
  g_assert_cmpint(call_int(module, "call_size", 0, 0), ==, 100003);
  g_assert_cmpint(call_int(module, "call_size", 0, 0), ==, 100003);
  g_assert_true(fake_bytes_are_in_place());
  bp_object_release(module);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
  g_assert_false(is_mapped(path));
  g_remove(path);
  g_free(path);
}

static void test_library_is_read_without_being_run(void) {
  char *path = temporary_path("read.so");
  BpFunction *function = NULL;
  BpModule *module =
      fake_host_module(ADD_SOURCE "int setenv(const char *, const char *, int);\n"
                                  "__attribute__((constructor)) static void run(void) {\n"
                                  "  setenv(\"BP_TEST_CODE_RAN\", \"1\", 1);\n"
                                  "}\n",
                       NULL);
  g_assert_cmpint(bp_module_export_library(module, path), ==, 0);
  bp_object_release(module);
  module = bp_module_read(path);
  g_assert_nonnull(module);
  char **names = bp_module_list_functions(module, NULL);
  g_assert_cmpstr(names[0], ==, "add");
  g_assert_cmpstr(names[1], ==, "fail");
  bp_names_free(names);
  g_assert_cmpint(bp_module_get_function(module, "add", 0, &function), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "was read, not loaded"));
  bp_object_release(module);
  g_assert_null(g_getenv("BP_TEST_CODE_RAN"));
  bp_object_release(load(path));
  g_assert_cmpstr(g_getenv("BP_TEST_CODE_RAN"), ==, "1");
  g_assert_null(bp_module_read(NULL));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_null(bp_module_read("/no/such/file.so"));
  g_assert_true(bp_error_is(BP_ERROR_IO));
  g_remove(path);
  g_free(path);
}

static void test_library_that_is_read_carries_its_imports(void) {
  char *path = temporary_path("read-imports.so");
  export_with_imports(path);
  BpModule *module = bp_module_read(path);
  g_assert_cmpstr(bp_module_kind(module), ==, "library");
  g_assert_cmpuint(bp_module_num_imports(module), ==, 2);
  g_assert_cmpstr(bp_module_kind(bp_module_get_import(module, 0)), ==, "test_dev");
  bp_object_release(module);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
  g_remove(path);
  g_free(path);
}

static void test_function_keeps_its_library_mapped(void) {
  char *path = temporary_path("kept.so");
  BpFunction *function;
  BpValue result;
  export_with_imports(path);
  BpModule *module = load(path);
  g_assert_cmpint(bp_module_get_function(module, "call_size", 0, &function), ==, 0);
  bp_object_release(module);
  g_assert_true(is_mapped(path));
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 100003);
  bp_object_release(function);
  g_assert_false(is_mapped(path));
  g_remove(path);
  g_free(path);
}

static void test_handle_that_waits_for_itself_is_an_error(void) {
  static const char source[] =
      "typedef struct { int type; unsigned pad; long long v; } Any;\n"
      "__attribute__((weak)) int (*__TVMFFIHandleInitOnce)(void **, int (*)(void **));\n"
      "static void *handle;\n"
      "static int init(void **result) { return __TVMFFIHandleInitOnce(&handle, init); }\n"
      "int __tvm_ffi_ask(void *self, const Any *args, int n, Any *result) {\n"
      "  return __TVMFFIHandleInitOnce(&handle, init);\n"
      "}\n";
  BpModule *module = load_c(source);
  BpFunction *function;
  BpValue result;
  g_assert_nonnull(module);
  g_assert_cmpint(bp_module_get_function(module, "ask", 0, &function), ==, 0);
  for (int i = 0; i < 2; ++i) { /* the first export leaves no files behind */
    g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, -1);
    g_assert_nonnull(strstr(bp_error_message(), "initialises"));
  }
  bp_object_release(function);
  bp_object_release(module);
}

static void test_library_calls_the_registry_after_its_imports(void) {
  BpModule *module = load_c(CALL_SOURCE);
  BpFunction *function;
  BpValue result;
  g_assert_nonnull(module);
  g_assert_cmpint(bp_module_get_function(module, "call_size", 0, &function), ==, 0);
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  g_assert_nonnull(strstr(bp_error_message(), "\"size\""));
  register_size(9);
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 9);
  g_assert_cmpint(bp_registry_remove("size"), ==, 0);
  bp_object_release(function);
  bp_object_release(module);
}

static void test_export_that_cannot_be_is_an_error(void) {
  BpModule *module = fake_host_module(ADD_SOURCE, NULL);
  g_assert_cmpint(bp_module_export_library(module, "/no/such/dir/x.so"), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_IO));
  g_assert_nonnull(strstr(bp_error_message(), "/no/such/dir"));
  g_assert_cmpint(bp_module_export_library(module, ""), ==, -1);
  char *text = temporary_path("x.txt");
  g_assert_cmpint(bp_module_export_library(module, text), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "does not end in .so"));
  g_assert_false(g_file_test(text, G_FILE_TEST_EXISTS));
  g_free(text);
  bp_object_release(module);

  char *path = temporary_path("none.so");
  module = load_c(ADD_SOURCE);
  g_assert_cmpint(bp_module_export_library(module, path), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_IMPLEMENTED));
  g_assert_nonnull(strstr(bp_error_message(), "library"));
  bp_object_release(module);

  module = fake_host_module("int broken( {", NULL);
  g_assert_cmpint(bp_module_export_library(module, path), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_COMPILE));
  g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
  bp_object_release(module);
  g_free(path);
}

/* ---- Files that are not modules ---------------------------------------------------------- */

static void expect_no_module(const char *path, const char *kind) {
  g_assert_null(bp_module_load(path));
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  g_assert_cmpstr(bp_error_message(), !=, "");
}

static void test_files_that_are_no_library_are_errors(void) {
  char *path = temporary_path("odd.so");
  expect_no_module("/no/such/file.so", BP_ERROR_IO);
  expect_no_module("", BP_ERROR_VALUE);
  expect_no_module("/tmp/noextension", BP_ERROR_VALUE);
  expect_no_module("/tmp/file.unknownext", BP_ERROR_NOT_FOUND);
  g_assert_true(g_file_set_contents(path, "", 0, NULL));
  expect_no_module(path, BP_ERROR_FORMAT);
  g_assert_true(g_file_set_contents(path, "this is text, no library", -1, NULL));
  expect_no_module(path, BP_ERROR_FORMAT);
  g_remove(path);
  g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
  expect_no_module(path, BP_ERROR_FORMAT);
  g_rmdir(path);
  g_free(path);
}

static void test_library_that_others_may_write_is_a_warning(void) {
  char *path = temporary_path("open.so");
  export_small(path);
  g_assert_cmpint(g_chmod(path, 0777), ==, 0);
  bp_log_set_callback(count_warnings, NULL);
  warnings = 0;
  bp_object_release(load(path));
  bp_log_set_callback(NULL, NULL);
  g_assert_cmpint(warnings, ==, 1);
  g_remove(path);
  g_free(path);
}

static void test_library_of_another_machine_is_an_error(void) {
  char *path = temporary_path("machine.so");
  export_with_imports(path);
  char *data;
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  data[18] = (char)0xf3; /* e_machine */
  data[19] = 0x7f;
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
  expect_no_module(path, BP_ERROR_FORMAT);
  g_assert_nonnull(strstr(bp_error_message(), "another machine"));
  g_free(data);
  g_remove(path);
  g_free(path);
}

static void test_truncated_library_is_an_error(void) {
  char *path = temporary_path("whole.so");
  char *data;
  gsize size;
  export_with_imports(path);
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  for (gsize length = 0; length < size; length += 509) {
    g_assert_true(g_file_set_contents(path, data, (gssize)length, NULL));
    expect_no_module(path, BP_ERROR_FORMAT);
  }
  g_free(data);
  g_remove(path);
  g_free(path);
}

/* The file of a library with a small blob, and the offset of the blob. */
typedef struct SmallLibrary {
  char *path;
  char *data;
  gsize size;
  gsize blob_at;
  guint64 blob_size;
} SmallLibrary;

static void small_library_begin(SmallLibrary *library) {
  library->path = temporary_path("small.so");
  export_small(library->path);
  g_assert_true(g_file_get_contents(library->path, &library->data, &library->size, NULL));
  char *kind = memmem(library->data, library->size, "\4\0\0\0\0\0\0\0_lib", 12);
  g_assert_nonnull(kind);
  /* Before the first module: the length, a row count of two more than the modules, one import. */
  library->blob_at = (gsize)(kind - library->data) - 8 - (8 + 3 * 8) - (8 + 8);
  memcpy(&library->blob_size, library->data + library->blob_at, 8);
  g_assert_cmpuint(library->blob_size, <, 1000);
}

static void small_library_write(const SmallLibrary *library) {
  g_assert_true(g_file_set_contents(library->path, library->data, (gssize)library->size, NULL));
}

static void small_library_end(SmallLibrary *library) {
  g_remove(library->path);
  g_free(library->path);
  g_free(library->data);
}

static void test_truncated_blob_is_an_error(void) {
  SmallLibrary library;
  small_library_begin(&library);
  for (guint64 length = 0; length <= library.blob_size + 8; ++length) {
    if (length == library.blob_size)
      continue;
    memcpy(library.data + library.blob_at, &length, 8);
    small_library_write(&library);
    expect_no_module(library.path, BP_ERROR_FORMAT);
  }
  guint64 huge = G_MAXUINT64 - 3;
  memcpy(library.data + library.blob_at, &huge, 8);
  small_library_write(&library);
  expect_no_module(library.path, BP_ERROR_FORMAT);
  small_library_end(&library);
}

static void test_flipped_bits_in_a_blob_do_not_crash(void) {
  SmallLibrary library;
  small_library_begin(&library);
  int refused = 0;
  for (gsize bit = 0; bit < (library.blob_size + 8) * 8; ++bit) {
    char *byte = library.data + library.blob_at + bit / 8;
    *byte ^= (char)(1 << bit % 8);
    small_library_write(&library);
    BpModule *module = bp_module_load(library.path);
    *byte ^= (char)(1 << bit % 8);
    refused += !module;
    if (!module)
      g_assert_cmpstr(bp_error_message(), !=, "");
    bp_error_clear();
    bp_object_release(module);
  }
  g_assert_cmpint(refused, >, 100);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
  small_library_end(&library);
}

/* The dynamic loader would follow the file's damaged tables. */
static void test_changed_bytes_of_a_library_that_is_read_do_not_crash(void) {
  SmallLibrary library;
  small_library_begin(&library);
  int refused = 0;
  for (gsize at = 0; at < library.size; at += 13) {
    library.data[at] ^= (char)0x55;
    small_library_write(&library);
    BpModule *module = bp_module_read(library.path);
    library.data[at] ^= (char)0x55;
    refused += !module;
    bp_error_clear();
    bp_object_release(module);
  }
  g_assert_cmpint(refused, >, 10);
  small_library_end(&library);
}

static void add_object_tests(void) {
  g_test_add_func("/module/functions-are-found-by-name", test_functions_are_found_by_name);
  g_test_add_func("/module/null-arguments-are-errors", test_null_arguments_are_errors);
  g_test_add_func("/module/function-keeps-its-module-alive", test_function_keeps_its_module_alive);
  g_test_add_func("/module/imports-are-searched", test_imports_are_searched);
  g_test_add_func("/module/import-cycle-is-an-error", test_import_cycle_is_an_error);
  g_test_add_func("/module/a-long-chain-of-imports-is-released-on-a-small-stack",
                  test_a_long_chain_of_imports_is_released_on_a_small_stack);
  g_test_add_func("/module/search-visits-each-module-once", test_search_visits_each_module_once);
  g_test_add_func("/module/bytes-make-the-module-again", test_bytes_make_the_module_again);
  g_test_add_func("/module/unknown-kind-is-an-error", test_unknown_kind_is_an_error);
  g_test_add_func("/module/unsupported-services-are-errors", test_unsupported_services_are_errors);
  g_test_add_func("/module/library-is-read-without-being-run",
                  test_library_is_read_without_being_run);
  g_test_add_func("/module/library-that-is-read-carries-its-imports",
                  test_library_that_is_read_carries_its_imports);
  g_test_add_func("/module/changed-bytes-of-a-library-that-is-read-do-not-crash",
                  test_changed_bytes_of_a_library_that_is_read_do_not_crash);
}

static void add_source_tests(void) {
  g_test_add_func("/module/c/source-becomes-a-module", test_c_source_becomes_a_module);
  g_test_add_func("/module/c/error-of-a-library-reaches-the-caller",
                  test_error_of_a_library_reaches_the_caller);
  g_test_add_func("/module/c/flags-reach-the-compiler", test_flags_reach_the_compiler);
  g_test_add_func("/module/c/source-that-does-not-compile-is-an-error",
                  test_source_that_does_not_compile_is_an_error);
  g_test_add_func("/module/c/pieces-of-a-large-source-are-compiled-apart",
                  test_pieces_of_a_large_source_are_compiled_apart);
  g_test_add_func("/module/c/library-without-functions-is-an-error",
                  test_library_without_functions_is_an_error);
  g_test_add_func("/module/c/library-uses-threads-and-memory-of-the-host",
                  test_library_uses_threads_and_memory_of_the_host);
  g_test_add_func("/module/c/unknown-slot-is-refused-by-name",
                  test_unknown_slot_is_refused_by_name);
  g_test_add_func("/module/c/library-calls-the-host-by-name", test_library_calls_the_host_by_name);
  g_test_add_func("/module/c/unknown-host-function-is-refused-by-name",
                  test_unknown_host_function_is_refused_by_name);
  g_test_add_func("/module/c/missing-compiler-is-a-clear-error",
                  test_missing_compiler_is_a_clear_error);
  g_test_add_func("/module/c/same-source-twice-gives-independent-modules",
                  test_same_source_twice_gives_independent_modules);
  g_test_add_func("/module/cache/second-load-does-not-compile", test_second_load_does_not_compile);
  g_test_add_func("/module/cache/damaged-file-is-made-anew", test_damaged_cache_is_made_anew);
  g_test_add_func("/module/cache/unusable-is-a-warning", test_unusable_cache_is_a_warning);
  g_test_add_func("/module/cache/full-is-a-warning", test_full_cache_is_a_warning);
  g_test_add_func("/module/cache/limit-on-files-is-kept", test_limit_on_files_is_kept);
  g_test_add_func("/module/cache/least-recently-used-files-go-first",
                  test_least_recently_used_files_go_first);
  g_test_add_func("/module/cache/files-just-used-are-left-alone",
                  test_files_just_used_are_left_alone);
  g_test_add_func("/module/cache/no-limit-and-no-number", test_no_limit_and_no_number);
  g_test_add_func("/module/cache/abandoned-working-folders-are-removed",
                  test_abandoned_working_folders_are_removed);
  g_test_add_func("/module/cache/shared-by-processes", test_processes_share_a_cache);
  g_test_add_func("/module/compiler/messages-are-whole-characters",
                  test_compiler_messages_are_whole_characters);
  g_test_add_func("/module/compiler/compiler-writes-messages-in-ascii",
                  test_compiler_speaks_plainly);
  g_test_add_func("/module/export/truncated-library-is-not-exported",
                  test_truncated_library_is_not_exported);
  g_test_add_func("/module/export/library-that-is-not-stored-gets-no-name",
                  test_library_that_is_not_stored_gets_no_name);
  g_test_add_func("/module/compiler/output-of-a-compiler-is-kept",
                  test_what_a_compiler_made_is_kept);
  g_test_add_func("/module/compiler/output-of-a-failed-compiler-is-not-kept",
                  test_what_a_compiler_that_failed_made_is_not_kept);
  g_test_add_func("/module/cache/not-used-if-others-may-write",
                  test_cache_that_others_may_write_is_not_used);
}

static char *export_adder(const char *name, const char *flags) {
  char *path = temporary_path(name);
  BpModule *module = fake_host_module(ADD_SOURCE, flags);
  g_assert_cmpint(bp_module_export_library(module, path), ==, 0);
  bp_object_release(module);
  return path;
}

/* The loader never unmaps such a library. */
static void test_library_that_stays_mapped_is_loaded_again(void) {
  char *path = export_adder("kept.so", "-Wl,-z,nodelete\n");
  int descriptors = count_descriptors();
  for (int round = 0; round < 40; round++) {
    BpModule *first = bp_module_load(path), *second = bp_module_load(path);
    g_assert_cmpstr(bp_error_message(), ==, "");
    g_assert_cmpint(call_int(first, "add", 1, 2), ==, 3);
    g_assert_cmpint(call_int(second, "add", 3, 4), ==, 7);
    bp_object_release(first);
    bp_object_release(second);
    g_assert_cmpint(count_descriptors(), ==, descriptors);
  }
  unlink(path);
  g_free(path);
}

#define AT_ONCE 10

static void *load_again_and_again(void *path) {
  BpModule *modules[AT_ONCE];
  for (int round = 0; round < 6; round++) {
    for (int i = 0; i < AT_ONCE; i++)
      if (!(modules[i] = bp_module_load(path)))
        return g_strdup(bp_error_message());
    for (int i = 0; i < AT_ONCE; i++)
      bp_object_release(modules[i]);
  }
  return NULL;
}

/* More threads than malloc has arenas, so that the loader soon uses the memory of a released
 * library for another one. */
static void test_threads_load_and_release_one_library(void) {
  char *path = export_adder("shared.so", NULL);
  pthread_t threads[60];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, load_again_and_again, path), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++) {
    void *message;
    g_assert_cmpint(pthread_join(threads[i], &message), ==, 0);
    g_assert_cmpstr(message, ==, NULL);
  }
  unlink(path);
  g_free(path);
}

static void add_library_tests(void) {
  g_test_add_func("/module/export/host-code-runs", test_exported_host_code_runs);
  g_test_add_func("/module/export/library-has-no-search-path",
                  test_exported_library_has_no_search_path);
  g_test_add_func("/module/export/library-carries-its-imports",
                  test_exported_library_carries_its_imports);
  g_test_add_func("/module/export/what-cannot-be-is-an-error",
                  test_export_that_cannot_be_is_an_error);
  g_test_add_func("/module/load/function-keeps-its-library-mapped",
                  test_function_keeps_its_library_mapped);
  g_test_add_func("/module/load/library-that-stays-mapped-is-loaded-again",
                  test_library_that_stays_mapped_is_loaded_again);
  g_test_add_func("/module/load/threads-load-and-release-one-library",
                  test_threads_load_and_release_one_library);
  g_test_add_func("/module/load/handle-that-waits-for-itself-is-an-error",
                  test_handle_that_waits_for_itself_is_an_error);
  g_test_add_func("/module/load/library-calls-the-registry-after-its-imports",
                  test_library_calls_the_registry_after_its_imports);
  g_test_add_func("/module/load/files-that-are-no-library-are-errors",
                  test_files_that_are_no_library_are_errors);
  g_test_add_func("/module/load/library-that-others-may-write-is-a-warning",
                  test_library_that_others_may_write_is_a_warning);
  g_test_add_func("/module/load/library-of-another-machine-is-an-error",
                  test_library_of_another_machine_is_an_error);
  g_test_add_func("/module/load/truncated-library-is-an-error", test_truncated_library_is_an_error);
  g_test_add_func("/module/load/truncated-blob-is-an-error", test_truncated_blob_is_an_error);
  g_test_add_func("/module/load/flipped-bits-in-a-blob-do-not-crash",
                  test_flipped_bits_in_a_blob_do_not_crash);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  fixture_begin();
  add_object_tests();
  add_source_tests();
  add_library_tests();
  return g_test_run();
}
