/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin whose source is kept in sdk/abi. It works in this host when built against the headers
 * that it was written for ("then"), against the current headers ("now") and, if it states that it
 * needs no newer ABI, against later headers ("newer"). Without that statement ("newest") it is
 * refused. */

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <glib.h>
#include <string.h>

static void assert_ok(int status) {
  if (status)
    g_error("%s", bp_error_message());
}

static BpDevice device_of(const char *name) {
  BpDevice device;
  assert_ok(bp_device_parse(name, &device) < 0);
  return device;
}

static void assert_answers(BpModule *module, const char *wanted) {
  BpFunction *answer;
  BpValue result;
  BpByteArray text;
  assert_ok(bp_module_get_function(module, "answer", 0, &answer));
  assert_ok(bp_function_call(answer, NULL, 0, &result));
  assert_ok(bp_value_view_str(&result, &text));
  g_assert_cmpmem(text.data, text.size, wanted, strlen(wanted));
  bp_value_clear(&result);
  bp_object_release(answer);
}

static void test_plugin_is_listed(gconstpointer name) {
  BpPluginList *list = bp_plugin_list();
  gboolean found = FALSE;
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (strcmp(info->name, name) != 0)
      continue;
    found = TRUE;
    g_assert_cmpstr(info->abi, ==, BP_ABI_TEXT);
    g_assert_cmpstr(info->reason, ==, "");
  }
  g_assert_true(found);
  bp_plugin_list_free(list);
}

static void test_device_copies_tensors(gconstpointer name) {
  const float values[4] = {1, 2, 3, 4};
  float back[4] = {0};
  int64_t shape[1] = {4};
  BpDevice device = device_of(name);
  BpDataType dtype = {BP_DTYPE_FLOAT, 32, 1};
  BpTensor *tensor = bp_tensor_create(shape, 1, dtype, device, "global");
  assert_ok(!tensor);
  assert_ok(bp_tensor_copy_from_host(&tensor->view, values, sizeof values));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, back, sizeof back));
  g_assert_cmpmem(back, sizeof back, values, sizeof values);
  bp_object_release(tensor);
  g_assert_null(bp_tensor_create(shape, 1, dtype, device, "attic"));
  g_assert_nonnull(strstr(bp_error_message(), "attic"));
  bp_error_clear();
}

static void test_attributes_are_read(gconstpointer name) {
  BpDevice device = device_of(name);
  BpValue value;
  BpByteArray text;
  assert_ok(bp_device_get_attr(device, BP_ATTR_WARP_SIZE, &value));
  g_assert_cmpint(value.v_int64, ==, 8);
  assert_ok(bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &value));
  assert_ok(bp_value_view_str(&value, &text));
  g_assert_cmpmem(text.data, text.size, "A frozen device", 15);
  bp_value_clear(&value);
  assert_ok(bp_device_get_attr(device, BP_ATTR_MAX_CLOCK_RATE, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_NONE);
}

static void test_function_is_called(gconstpointer name) {
  g_autofree char *function_name = g_strconcat(name, ".sum", NULL);
  BpValue args[2] = {{.type_index = BP_TYPE_INT, .v_int64 = 40},
                     {.type_index = BP_TYPE_INT, .v_int64 = 2}};
  BpFunction *sum;
  BpValue result;
  assert_ok(bp_registry_get(function_name, &sum));
  assert_ok(bp_function_call(sum, args, 2, &result));
  g_assert_cmpint(result.v_int64, ==, 42);
  g_assert_cmpint(bp_function_call(sum, args, 1, &result), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_TYPE);
  bp_error_clear();
  bp_object_release(sum);
}

static void test_module_is_loaded_and_saved(gconstpointer name) {
  BpByteArray bytes = {"ice", 3};
  BpOwnedBytes saved = {0};
  BpModule *module = bp_module_load_from_bytes(name, &bytes);
  assert_ok(!module);
  assert_answers(module, "ice");
  assert_ok(bp_module_save_to_bytes(module, &saved));
  g_assert_cmpmem(saved.data, saved.size, "ice", 3);
  bp_owned_bytes_clear(&saved);
  bp_object_release(module);
}

static void test_target_has_its_attributes(gconstpointer name) {
  g_autofree char *text = g_strconcat(name, " -word=snow", NULL);
  BpTarget *target = bp_target_parse(text);
  BpValue length;
  assert_ok(!target);
  assert_ok(bp_target_get_attr(target, "length", &length));
  g_assert_cmpint(length.v_int64, ==, 4);
  g_assert_cmpint(bp_target_device_type(target), ==, device_of(name).device_type);
  bp_object_release(target);
}

static void test_generator_builds_a_module(gconstpointer name) {
  g_autofree char *text = g_strconcat(name, " -word=snow", NULL);
  g_autofree char *function_name = g_strconcat("target.build.", name, NULL);
  BpValue args[2] = {{.type_index = BP_TYPE_NONE}, {.type_index = BP_TYPE_TARGET}}, result;
  BpFunction *build;
  args[1].v_ptr = bp_target_parse(text);
  assert_ok(!args[1].v_ptr);
  assert_ok(bp_registry_get(function_name, &build));
  assert_ok(bp_function_call(build, args, 2, &result));
  assert_answers(result.v_ptr, "snow");
  bp_value_clear(&result);
  bp_object_release(build);
  bp_object_release(args[1].v_ptr);
}

static void test_plugin_that_needs_a_newer_abi_is_refused(void) {
  BpDevice device;
  g_assert_cmpint(bp_device_parse("frozen-newest", &device), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "it needs plugin ABI "));
  bp_error_clear();
}

static void add_tests(const char *name) {
  static const struct {
    const char *path;
    GTestDataFunc run;
  } tests[] = {{"plugin-is-listed", test_plugin_is_listed},
               {"device-copies-tensors", test_device_copies_tensors},
               {"attributes-are-read", test_attributes_are_read},
               {"function-is-called", test_function_is_called},
               {"module-is-loaded-and-saved", test_module_is_loaded_and_saved},
               {"target-has-its-attributes", test_target_has_its_attributes},
               {"generator-builds-a-module", test_generator_builds_a_module}};
  for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
    g_autofree char *path = g_strdup_printf("/abi/%s/%s", name, tests[i].path);
    g_test_add_data_func(path, name, tests[i].run);
  }
}

int main(int argc, char **argv) {
  g_autofree char *folder = g_build_filename(g_getenv("top_builddir"), "tests/abi/.libs", NULL);
  g_setenv("BACKPLANE_PLUGIN_PATH", folder, TRUE);
  g_test_init(&argc, &argv, NULL);
  add_tests("frozen-then");
  add_tests("frozen-now");
  add_tests("frozen-newer");
  g_test_add_func("/abi/frozen-newest/plugin-that-needs-a-newer-abi-is-refused",
                  test_plugin_that_needs_a_newer_abi_is_refused);
  return g_test_run();
}
