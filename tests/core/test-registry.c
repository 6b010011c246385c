/* SPDX-License-Identifier: Apache-2.0 */
/* The global registry of functions. */

#include <backplane/error.h>
#include <backplane/object.h>
#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int alive;

static void drop_number(void *context) {
  (void)context;
  atomic_fetch_sub(&alive, 1);
}

static int answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)args;
  (void)num_args;
  *result = (BpValue){.type_index = BP_TYPE_INT,
                      .v_int64 = GPOINTER_TO_INT(((BpClosure *)self)->context)};
  return 0;
}

static BpFunction *number_function(int number) {
  BpFunction *function = bp_function_create(answer, GINT_TO_POINTER(number), drop_number);
  g_assert_nonnull(function);
  atomic_fetch_add(&alive, 1);
  return function;
}

static int set_number(const char *name, int number, int override) {
  BpFunction *function = number_function(number);
  int rc = bp_registry_set(name, function, override);
  bp_object_release(function);
  return rc;
}

/* Returns the answer of the function with a name; -1 if there is none. */
static int64_t get_number(const char *name) {
  BpFunction *function;
  BpValue result;
  g_assert_cmpint(bp_registry_get(name, &function), ==, 0);
  if (!function)
    return -1;
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, 0);
  bp_object_release(function);
  return result.v_int64;
}

static void test_get_finds_what_was_set(void) {
  g_assert_cmpint(set_number("test.one", 1, 0), ==, 0);
  g_assert_cmpint(get_number("test.one"), ==, 1);
  g_assert_cmpint(bp_registry_remove("test.one"), ==, 0);
  g_assert_cmpint(alive, ==, 0);
}

static void test_missing_name_is_no_error(void) {
  BpFunction *function = (BpFunction *)&alive;
  bp_error_clear();
  g_assert_cmpint(bp_registry_get("test.missing", &function), ==, 0);
  g_assert_null(function);
  g_assert_cmpstr(bp_error_kind(), ==, "");
}

static void test_empty_name_is_an_error(void) {
  BpFunction *function;
  g_assert_cmpint(bp_registry_get("", &function), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_cmpint(set_number("", 1, 0), ==, -1);
  g_assert_cmpint(bp_registry_remove(NULL), ==, -1);
  g_assert_cmpint(alive, ==, 0);
}

static void test_taken_name_needs_override(void) {
  g_assert_cmpint(set_number("test.taken", 1, 0), ==, 0);
  g_assert_cmpint(set_number("test.taken", 2, 0), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "test.taken"));
  g_assert_cmpint(get_number("test.taken"), ==, 1);
  g_assert_cmpint(set_number("test.taken", 2, 1), ==, 0);
  g_assert_cmpint(get_number("test.taken"), ==, 2);
  g_assert_cmpint(alive, ==, 1);
  g_assert_cmpint(bp_registry_remove("test.taken"), ==, 0);
  g_assert_cmpint(alive, ==, 0);
}

static void test_removing_a_missing_name_is_an_error(void) {
  g_assert_cmpint(bp_registry_remove("test.missing"), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  g_assert_nonnull(strstr(bp_error_message(), "test.missing"));
}

static void test_only_functions_can_be_registered(void) {
  int64_t extent = 3;
  BpShape *shape = bp_shape_create(&extent, 1);
  g_assert_cmpint(bp_registry_set("test.shape", (BpFunction *)shape, 0), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_TYPE));
  g_assert_cmpint(bp_registry_set("test.null", NULL, 0), ==, -1);
  bp_object_release(shape);
}

static void test_removed_function_lives_while_it_is_held(void) {
  BpFunction *function;
  BpValue result;
  g_assert_cmpint(set_number("test.held", 7, 0), ==, 0);
  g_assert_cmpint(bp_registry_get("test.held", &function), ==, 0);
  g_assert_cmpint(bp_registry_remove("test.held"), ==, 0);
  g_assert_cmpint(get_number("test.held"), ==, -1);
  g_assert_cmpint(bp_function_call(function, NULL, 0, &result), ==, 0);
  g_assert_cmpint(result.v_int64, ==, 7);
  g_assert_cmpint(alive, ==, 1);
  bp_object_release(function);
  g_assert_cmpint(alive, ==, 0);
}

static void test_many_names_are_all_found(void) {
  char name[64];
  for (int i = 0; i < 5000; ++i) {
    g_snprintf(name, sizeof name, "test.many.%d", i);
    g_assert_cmpint(set_number(name, i, 0), ==, 0);
  }
  for (int i = 0; i < 5000; i += 2) {
    g_snprintf(name, sizeof name, "test.many.%d", i);
    g_assert_cmpint(bp_registry_remove(name), ==, 0);
  }
  for (int i = 0; i < 5000; ++i) {
    g_snprintf(name, sizeof name, "test.many.%d", i);
    g_assert_cmpint(get_number(name), ==, i % 2 ? i : -1);
  }
  for (int i = 1; i < 5000; i += 2) {
    g_snprintf(name, sizeof name, "test.many.%d", i);
    g_assert_cmpint(bp_registry_remove(name), ==, 0);
  }
  g_assert_cmpint(alive, ==, 0);
}

static void test_list_is_sorted_and_complete(void) {
  size_t before, count;
  bp_names_free(bp_registry_list(&before));
  g_assert_cmpint(set_number("test.b", 1, 0), ==, 0);
  g_assert_cmpint(set_number("test.a", 1, 0), ==, 0);
  char **names = bp_registry_list(&count);
  g_assert_cmpuint(count, ==, before + 2);
  g_assert_null(names[count]);
  for (size_t i = 1; i < count; ++i)
    g_assert_cmpstr(names[i - 1], <, names[i]);
  g_assert_true(g_strv_contains((const char *const *)names, "test.a"));
  g_assert_true(g_strv_contains((const char *const *)names, "test.b"));
  bp_names_free(names);
  bp_registry_remove("test.a");
  bp_registry_remove("test.b");
}

static void test_loaders_are_found_by_the_names_that_tvm_gives_them(void) {
  g_assert_cmpint(set_number("ffi.Module.load_from_bytes.odd", 5, 0), ==, 0);
  g_assert_cmpint(get_number("runtime.module.loadbinary_odd"), ==, 5);
  g_assert_cmpint(get_number("ffi.Module.load_from_bytes.odd"), ==, 5);
  g_assert_cmpint(set_number("runtime.module.loadbinary_odd", 6, 0), ==, -1);
  g_assert_cmpint(bp_registry_remove("runtime.module.loadbinary_odd"), ==, 0);
  g_assert_cmpint(set_number("runtime.module.loadfile_odd", 6, 0), ==, 0);
  g_assert_cmpint(get_number("ffi.Module.load_from_file.odd"), ==, 6);
  g_assert_cmpint(bp_registry_remove("ffi.Module.load_from_file.odd"), ==, 0);
}

static atomic_int stop_readers;

/* Values of "test.shared" only grow; a reader that gets a smaller one has read freed or stale
 * memory. */
static void *read_shared(void *unused) {
  (void)unused;
  int64_t last = 0;
  while (!atomic_load(&stop_readers)) {
    int64_t number = get_number("test.shared");
    if (number >= 0) {
      g_assert_cmpint(number, >=, last);
      last = number;
    }
    g_assert_cmpint(get_number("test.stable"), ==, 1);
  }
  return NULL;
}

static void test_readers_and_writers_may_run_at_once(void) {
  pthread_t threads[4];
  char name[64];
  g_assert_cmpint(set_number("test.stable", 1, 0), ==, 0);
  atomic_store(&stop_readers, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); ++i)
    g_assert_cmpint(pthread_create(&threads[i], NULL, read_shared, NULL), ==, 0);
  for (int i = 1; i < 3000; ++i) {
    g_assert_cmpint(set_number("test.shared", i, 1), ==, 0);
    g_snprintf(name, sizeof name, "test.grow.%d", i);
    g_assert_cmpint(set_number(name, i, 0), ==, 0);
    if (i % 3 == 0)
      g_assert_cmpint(bp_registry_remove("test.shared"), ==, 0);
  }
  atomic_store(&stop_readers, 1);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); ++i)
    pthread_join(threads[i], NULL);
  for (int i = 1; i < 3000; ++i) {
    g_snprintf(name, sizeof name, "test.grow.%d", i);
    g_assert_cmpint(bp_registry_remove(name), ==, 0);
  }
  g_assert_cmpint(bp_registry_remove("test.stable"), ==, 0);
  g_assert_cmpint(bp_registry_remove("test.shared"), ==, 0);
  g_assert_cmpint(alive, ==, 0);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/registry/get-finds-what-was-set", test_get_finds_what_was_set);
  g_test_add_func("/registry/missing-name-is-no-error", test_missing_name_is_no_error);
  g_test_add_func("/registry/empty-name-is-an-error", test_empty_name_is_an_error);
  g_test_add_func("/registry/taken-name-needs-override", test_taken_name_needs_override);
  g_test_add_func("/registry/removing-a-missing-name-is-an-error",
                  test_removing_a_missing_name_is_an_error);
  g_test_add_func("/registry/only-functions-can-be-registered",
                  test_only_functions_can_be_registered);
  g_test_add_func("/registry/removed-function-lives-while-it-is-held",
                  test_removed_function_lives_while_it_is_held);
  g_test_add_func("/registry/many-names-are-all-found", test_many_names_are_all_found);
  g_test_add_func("/registry/list-is-sorted-and-complete", test_list_is_sorted_and_complete);
  g_test_add_func("/registry/loaders-are-found-by-the-names-that-tvm-gives-them",
                  test_loaders_are_found_by_the_names_that_tvm_gives_them);
  g_test_add_func("/registry/readers-and-writers-may-run-at-once",
                  test_readers_and_writers_may_run_at_once);
  return g_test_run();
}
