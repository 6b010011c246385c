/* SPDX-License-Identifier: Apache-2.0 */
/* A library that imports code for a device whose plugin is not installed. */
#include <backplane/error.h>
#include <backplane/object.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "tests/core/module-fixture.h"
#include "tests/core/package_names.h"

#define KIND "test_departed"

static int32_t find_nothing(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static int32_t say_serialisable(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

/* Makes bytes: with `context`, in the form of device code; without it, in another form. */
static int32_t save(void *context, BpOwnedBytes *bytes) {
  static const BpDataType types[] = {{BP_DTYPE_HANDLE, 64, 1}};
  static const char *const tags[] = {"threadIdx.x"};
  const BpKernelInfo kernel = {sizeof(BpKernelInfo), "departed_kernel", types, 1, 1, tags};
  const BpByteArray code = {"code", 4};
  if (context)
    return module_table()->encode_device_code("bin", &kernel, 1, &code, bytes);
  *bytes = (BpOwnedBytes){g_strdup("of its own"), 10, g_free};
  return 0;
}

static void destroy(void *context) {
  (void)context;
}

static const BpModuleApi api = {.struct_size = sizeof api,
                                .kind = KIND,
                                .get_function = find_nothing,
                                .get_property = say_serialisable,
                                .save_to_bytes = save,
                                .destroy = destroy};

/* Loads a library of host code that imports a module of a kind without a loader. */
static BpModule *load_library(int is_device_code) {
  BpModule *host = fake_host_module("int __tvm_ffi_here(void *self, const void *args, int n,"
                                    " void *result) { return 0; }\n",
                                    NULL);
  BpModule *departed = bp_module_create(&api, is_device_code ? (void *)(uintptr_t)&api : NULL);
  char *path = temporary_path("departed.so");
  g_assert_cmpint(bp_module_import(host, departed), ==, 0);
  g_assert_cmpint(bp_module_export_library(host, path), ==, 0);
  BpModule *library = bp_module_load(path);
  if (!library)
    g_error("%s", bp_error_message());
  bp_object_release(host);
  bp_object_release(departed);
  g_remove(path);
  g_free(path);
  return library;
}

static void test_the_rest_of_the_library_works(void) {
  BpModule *library = load_library(1);
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(library, "here", 1, &function), ==, 0);
  g_assert_nonnull(function);
  bp_object_release(function);
  g_assert_cmpint(bp_module_get_function(library, "elsewhere", 1, &function), ==, 0);
  g_assert_null(function);
  bp_object_release(library);
}

static void test_function_is_an_error_that_names_plugin_and_package(void) {
  BpModule *library = load_library(1);
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(library, "departed_kernel", 1, &function), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_NOT_FOUND));
  g_assert_nonnull(strstr(bp_error_message(), "departed_kernel"));
  g_assert_nonnull(strstr(bp_error_message(), "runtime.module.loadbinary_" KIND));
  g_assert_nonnull(strstr(bp_error_message(), "; install the package deb-departed"));
  const BpByteArray bytes = {"", 0};
  g_assert_null(bp_module_load_from_bytes("relax.VMExecutable", &bytes));
  g_assert_nonnull(strstr(bp_error_message(), "bp_graph_initialize() of libbackplane-graph"));
  bp_object_release(library);
}

static void test_shows_the_kind_and_functions(void) {
  BpModule *library = load_library(1);
  BpModule *departed = bp_module_get_import(library, 0);
  size_t count;
  char **names = bp_module_list_functions(departed, &count);
  g_assert_cmpstr(bp_module_kind(departed), ==, KIND);
  g_assert_cmpuint(count, ==, 1);
  g_assert_cmpstr(names[0], ==, "departed_kernel");
  bp_names_free(names);
  bp_object_release(library);
}

static void assert_bytes_are_kept(int is_device_code) {
  BpModule *library = load_library(is_device_code);
  BpOwnedBytes before, after;
  g_assert_cmpint(save(is_device_code ? library : NULL, &before), ==, 0);
  g_assert_cmpint(bp_module_save_to_bytes(bp_module_get_import(library, 0), &after), ==, 0);
  g_assert_cmpmem(before.data, before.size, after.data, after.size);
  bp_owned_bytes_clear(&before);
  bp_owned_bytes_clear(&after);
  bp_object_release(library);
}

static void test_its_bytes_are_kept(void) {
  assert_bytes_are_kept(1);
  assert_bytes_are_kept(0);
}

static void test_bytes_of_another_form_hold_no_functions(void) {
  BpModule *library = load_library(0);
  BpFunction *function;
  size_t count;
  char **names = bp_module_list_functions(bp_module_get_import(library, 0), &count);
  g_assert_nonnull(names);
  g_assert_cmpuint(count, ==, 0);
  bp_names_free(names);
  g_assert_cmpint(bp_module_get_function(library, "departed_kernel", 1, &function), ==, 0);
  g_assert_null(function);
  bp_object_release(library);
}

static int32_t fail_to_load(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self, (void)args, (void)num_args, (void)result;
  return bp_error_raise(BP_ERROR_MEMORY, "the device is full");
}

/* The loader is registered after the library was loaded, like the loader of a plugin on another
 * machine. */
static void test_error_of_a_later_loader(void) {
  BpModule *library = load_library(1);
  BpFunction *function = bp_function_create(fail_to_load, NULL, NULL);
  g_assert_cmpint(bp_registry_set("runtime.module.loadbinary_" KIND, function, 0), ==, 0);
  bp_object_release(function);
  g_assert_cmpint(bp_module_get_function(library, "departed_kernel", 1, &function), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_MEMORY));
  g_assert_nonnull(strstr(bp_error_message(), "departed_kernel"));
  g_assert_nonnull(strstr(bp_error_message(), "the device is full"));
  g_assert_cmpint(bp_module_get_function(library, "here", 1, &function), ==, 0);
  bp_object_release(function);
  g_assert_cmpint(bp_module_get_function(library, "elsewhere", 1, &function), ==, 0);
  g_assert_cmpstr(bp_error_kind(), ==, "");
  bp_object_release(library);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  fixture_begin();
  write_package_file("names.conf", "[packages]\n" KIND "=deb-departed\n");
  g_test_add_func("/absent-module/the-rest-of-the-library-works",
                  test_the_rest_of_the_library_works);
  g_test_add_func("/absent-module/function-is-an-error-that-names-plugin-and-package",
                  test_function_is_an_error_that_names_plugin_and_package);
  g_test_add_func("/absent-module/shows-the-kind-and-functions", test_shows_the_kind_and_functions);
  g_test_add_func("/absent-module/its-bytes-are-kept", test_its_bytes_are_kept);
  g_test_add_func("/absent-module/bytes-of-another-form-hold-no-functions",
                  test_bytes_of_another_form_hold_no_functions);
  g_test_add_func("/absent-module/error-of-a-later-loader-is-raised", test_error_of_a_later_loader);
  int rc = g_test_run();
  remove_package_file("names.conf");
  return rc;
}
