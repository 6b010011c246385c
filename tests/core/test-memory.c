/* SPDX-License-Identifier: Apache-2.0 */
/* Exhausted memory at any point: each scenario runs repeatedly, and in run n the n-th allocation
 * fails. The scenario succeeds or raises MemoryError, and leaks nothing. */

#include "tests/core/module-fixture.h"

#include <backplane/module.h>
#include <backplane/object.h>
#include <glib/gstdio.h>

/* Sanitizers replace the allocator. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void) {
  g_print("1..0 # SKIP a sanitizer's allocator cannot be made to fail\n");
  return 0;
}
#else
#include "tests/failing_memory.h"

/* Runs a scenario for each of its allocations n, with the n-th allocation failing. */
static void run_scenario(int (*scenario)(void)) {
  g_assert_cmpint(fail_every_allocation(scenario, 0), >, 0);
  g_assert_cmpint(fake_modules_alive(), ==, 0);
}

/* ---- Scenarios: 0, or -1 with an error --------------------------------------------------- */

static int do_nothing(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return 0;
}

static int use_registry(void) {
  static const char *const names[] = {"memory.a", "ffi.Module.load_from_bytes.memory", "memory.c"};
  BpFunction *function = bp_function_create(do_nothing, NULL, NULL), *found = NULL;
  int rc = function ? 0 : -1, set = 0;
  while (!rc && set < 3 && !(rc = bp_registry_set(names[set], function, 0)))
    ++set;
  for (int i = 0; !rc && i < set; ++i) {
    rc = bp_registry_get(names[i], &found);
    bp_object_release(found);
  }
  if (!rc) {
    char **list = bp_registry_list(NULL);
    rc = list ? 0 : -1;
    bp_names_free(list);
  }
  BpError *error = bp_error_take();
  fail_at = -1;
  while (set)
    g_assert_cmpint(bp_registry_remove(names[--set]), ==, 0);
  bp_error_put(error);
  bp_object_release(function);
  return rc;
}

static int use_values(void) {
  BpValue text = {.type_index = BP_TYPE_NONE};
  int64_t extents[] = {1, 2, 3};
  BpShape *shape = bp_shape_create(extents, 3);
  int rc = shape && !bp_value_make_str(&text, "a string that takes memory", 26) ? 0 : -1;
  bp_value_clear(&text);
  bp_object_release(shape);
  return rc;
}

static int use_modules_of(BpModule *root, BpModule *middle, BpModule *leaf) {
  BpFunction *function = NULL;
  if (!root || !middle || !leaf || bp_module_import(root, middle) || bp_module_import(root, leaf) ||
      bp_module_import(middle, leaf) || bp_module_import(leaf, root) == 0)
    return -1;
  if (bp_error_is(BP_ERROR_MEMORY))
    return -1;
  int rc = bp_module_get_function(root, "other_size", 1, &function);
  bp_object_release(function);
  return rc;
}

static int use_modules(void) {
  long injected = fail_at;
  fail_at = -1;
  BpModule *root = fake_module("test_dev", "a"), *middle = fake_module("test_dev", "b");
  BpModule *leaf = fake_module("test_other", "c");
  fail_at = injected;
  int rc = use_modules_of(root, middle, leaf);
  bp_object_release(root);
  bp_object_release(middle);
  bp_object_release(leaf);
  return rc;
}

static int32_t ignore_kernel(void *context, const BpKernelInfo *kernel) {
  (void)context;
  (void)kernel;
  return 0;
}

static int use_device_code(void) {
  static const BpDataType types[] = {{BP_DTYPE_HANDLE, 64, 1}};
  static const char *const tags[] = {"blockIdx.x", "threadIdx.x"};
  const BpKernelInfo kernels[] = {{sizeof(BpKernelInfo), "add", types, 1, 2, tags},
                                  {sizeof(BpKernelInfo), "relu", types, 1, 2, tags}};
  const BpByteArray code = {"code", 4};
  BpOwnedBytes bytes;
  BpByteArray format, found;
  if (module_table()->encode_device_code("cl", kernels, 2, &code, &bytes))
    return -1;
  BpByteArray view = {bytes.data, bytes.size};
  int rc = module_table()->decode_device_code(&view, &format, ignore_kernel, NULL, &found);
  bp_owned_bytes_clear(&bytes);
  return rc;
}

static char *library_path;

static int use_library(void) {
  BpModule *module = bp_module_load(library_path);
  BpFunction *function = NULL;
  int rc = module ? bp_module_get_function(module, "call_size", 0, &function) : -1;
  char **names = rc ? NULL : bp_module_list_functions(module, NULL);
  rc = names ? 0 : -1;
  bp_names_free(names);
  bp_object_release(function);
  bp_object_release(module);
  return rc;
}

static void test_registry_survives_exhausted_memory(void) {
  run_scenario(use_registry);
}

static void test_values_survive_exhausted_memory(void) {
  run_scenario(use_values);
}

static void test_modules_survive_exhausted_memory(void) {
  run_scenario(use_modules);
}

static void test_device_code_survives_exhausted_memory(void) {
  run_scenario(use_device_code);
}

static void test_library_survives_exhausted_memory(void) {
  library_path = temporary_path("exhausted.so");
  export_small(library_path);
  long number = 0;
  /* Blocks of the loader are not counted: the C library's loader keeps some when it fails. */
  while (fail_allocation(use_library, number, 0)) {
    g_assert_cmpint(fake_modules_alive(), ==, 0);
    number++;
  }
  g_assert_cmpint(number, >, 0);
  g_remove(library_path);
  g_free(library_path);
}

static void test_error_is_raised_without_memory(void) {
  fail_at = 0;
  count = 0;
  bp_error_raise(BP_ERROR_VALUE, "a message");
  fail_at = -1;
  g_assert_true(bp_error_is(BP_ERROR_MEMORY));
  BpError *error = bp_error_take();
  g_assert_cmpmem(error->message.data, error->message.size, "memory is exhausted", 19);
  bp_object_release(error);
  bp_error_clear();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  fixture_begin();
  g_test_add_func("/memory/registry-survives-exhausted-memory",
                  test_registry_survives_exhausted_memory);
  g_test_add_func("/memory/values-survive-exhausted-memory", test_values_survive_exhausted_memory);
  g_test_add_func("/memory/modules-survive-exhausted-memory",
                  test_modules_survive_exhausted_memory);
  g_test_add_func("/memory/device-code-survives-exhausted-memory",
                  test_device_code_survives_exhausted_memory);
  g_test_add_func("/memory/library-survives-exhausted-memory",
                  test_library_survives_exhausted_memory);
  g_test_add_func("/memory/error-is-raised-without-memory", test_error_is_raised_without_memory);
  return g_test_run();
}
#endif
