/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: the arguments of a launch, with an invocation and from the state of the thread. The
 * device is the template's. */

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <glib.h>
#include <string.h>

#include "tests/core/asserts.h"

static BpDevice device;   /* simdev:1 */
static BpInvocation seen; /* the invocation that the kernel got */
static void *context_seen;

static void assert_error(int rc, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_VALUE);
  g_assert_nonnull(strstr(bp_error_message(), part));
  bp_error_clear();
}

static int32_t note(void *context, const BpInvocation *invocation, const BpValue *args,
                    int32_t num_args) {
  (void)args;
  context_seen = context;
  seen = *invocation;
  return num_args ? bp_error_raise(BP_ERROR_TYPE, "it takes nothing") : 0;
}

/* A function that is not a kernel. */
static int note_current(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self, (void)args, (void)result;
  seen.device.device_type = device.device_type;
  bp_device_get_current(device.device_type, &seen.device.device_id, &seen.stream);
  return num_args ? bp_error_raise(BP_ERROR_TYPE, "it takes nothing") : 0;
}

/* ---- A module with one kernel ------------------------------------------------------------ */

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  (void)context, (void)name;
  *function = NULL;
  return 0;
}

static void destroy(void *context) {
  ++*(int *)context;
}

static const BpModuleApi api = {
    .struct_size = sizeof api, .kind = "noting", .get_function = get_function, .destroy = destroy};

static int modules_gone, kernels_gone;

static BpFunction *make_kernel(void) {
  modules_gone = kernels_gone = 0;
  BpModule *module = bp_module_create(&api, &modules_gone);
  BpFunction *kernel =
      bp_module_kernel_create(module, device.device_type, note, &kernels_gone, destroy);
  assert_ok(!kernel);
  bp_module_release(module);
  g_assert_cmpint(modules_gone, ==, 0);
  return kernel;
}

static void release_kernel(BpFunction *kernel) {
  bp_object_release(kernel);
  g_assert_cmpint(kernels_gone, ==, 1);
  g_assert_cmpint(modules_gone, ==, 1);
}

static void assert_seen(int32_t device_id, const void *stream) {
  g_assert_cmpint(seen.device.device_type, ==, device.device_type);
  g_assert_cmpint(seen.device.device_id, ==, device_id);
  g_assert_true(seen.stream == stream);
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void test_kernel_is_launched_where_its_invocation_says(void) {
  BpFunction *kernel = make_kernel();
  BpInvocation there = {sizeof there, device, NULL, 0};
  BpValue result = {.type_index = BP_TYPE_INT};
  assert_ok(bp_stream_create(device, &there.stream));
  assert_ok(bp_function_launch(kernel, &there, NULL, 0, &result));
  assert_seen(1, there.stream);
  g_assert_cmpuint(seen.struct_size, ==, sizeof seen);
  g_assert_true(context_seen == &kernels_gone);
  g_assert_cmpint(result.type_index, ==, BP_TYPE_NONE);
  assert_ok(bp_stream_free(device, there.stream));
  release_kernel(kernel);
}

static void test_kernel_that_is_called_runs_on_the_current_device(void) {
  BpFunction *kernel = make_kernel();
  BpValue result;
  void *stream;
  assert_ok(bp_function_call(kernel, NULL, 0, &result));
  assert_seen(0, NULL);
  assert_ok(bp_stream_create(device, &stream));
  assert_ok(bp_device_set_current(device, stream));
  assert_ok(bp_function_call(kernel, NULL, 0, &result));
  assert_seen(1, stream);
  assert_ok(bp_device_set_current((BpDevice){device.device_type, 0}, NULL));
  assert_ok(bp_stream_free(device, stream));
  release_kernel(kernel);
}

static void test_other_functions_find_the_invocation_current(void) {
  BpFunction *function = bp_function_create(note_current, NULL, NULL);
  BpInvocation there = {sizeof there, device, NULL, 0};
  BpValue result, arg = {.type_index = BP_TYPE_INT};
  assert_ok(bp_stream_create(device, &there.stream));
  for (int32_t fails = 0; fails < 2; fails++) {
    g_assert_cmpint(bp_function_launch(function, &there, &arg, fails, &result), ==, -fails);
    g_assert_cmpstr(bp_error_kind(), ==, fails ? BP_ERROR_TYPE : "");
    assert_seen(1, there.stream);
    bp_error_clear();
    assert_ok(bp_function_call(function, NULL, 0, &result));
    assert_seen(0, NULL);
  }
  assert_ok(bp_stream_free(device, there.stream));
  bp_object_release(function);
}

static void test_impossible_invocation_is_refused(void) {
  struct {
    BpInvocation known;
    uint64_t later;
  } longer = {{sizeof longer, device, NULL, 0}, 1};
  BpInvocation unsized = {0, device, NULL, 0}, flagged = {sizeof flagged, device, NULL, 1};
  BpInvocation foreign = {sizeof foreign, device, &longer, 0};
  BpInvocation host = {sizeof host, {BP_DEVICE_CPU, 0}, NULL, 0};
  BpInvocation absent = {sizeof absent, {device.device_type, 99}, NULL, 0};
  BpFunction *kernel = make_kernel();
  BpValue result;
  context_seen = NULL;
  assert_error(bp_function_launch(kernel, &longer.known, NULL, 0, &result), "a member set at byte");
  assert_error(bp_function_launch(kernel, &unsized, NULL, 0, &result), "struct_size is 0");
  assert_error(bp_function_launch(kernel, &flagged, NULL, 0, &result), "flags is 0x1");
  assert_error(bp_function_launch(kernel, &foreign, NULL, 0, &result), "stream");
  assert_error(bp_function_launch(kernel, &host, NULL, 0, &result), "device type 1");
  g_assert_cmpint(bp_function_launch(kernel, &absent, NULL, 0, &result), ==, -1);
  bp_error_clear();
  g_assert_null(context_seen);
  longer.later = 0;
  assert_ok(bp_function_launch(kernel, &longer.known, NULL, 0, &result));
  release_kernel(kernel);
}

static void test_kernel_without_a_launch_is_refused_and_its_context_destroyed(void) {
  modules_gone = kernels_gone = 0;
  BpModule *module = bp_module_create(&api, &modules_gone);
  g_assert_null(bp_module_kernel_create(module, device.device_type, NULL, &kernels_gone, destroy));
  assert_error(-1, "a function that launches it");
  g_assert_cmpint(kernels_gone, ==, 1);
  g_assert_null(bp_module_kernel_create(module, device.device_type, NULL, NULL, NULL));
  assert_error(-1, "a function that launches it");
  bp_module_release(module);
  g_assert_cmpint(modules_gone, ==, 1);
}

int main(int argc, char **argv) {
  g_autofree char *path = g_build_filename(g_getenv("top_builddir"), "tests/mock/.libs", NULL);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_test_init(&argc, &argv, NULL);
  assert_ok(bp_device_parse("simdev:1", &device));
#define ADD(path, test) g_test_add_func("/launch/" path, test)
  ADD("kernel-is-launched-where-its-invocation-says",
      test_kernel_is_launched_where_its_invocation_says);
  ADD("kernel-that-is-called-runs-on-the-current-device",
      test_kernel_that_is_called_runs_on_the_current_device);
  ADD("other-functions-find-the-invocation-current",
      test_other_functions_find_the_invocation_current);
  ADD("impossible-invocation-is-refused", test_impossible_invocation_is_refused);
  ADD("kernel-without-a-launch-is-refused-and-its-context-destroyed",
      test_kernel_without_a_launch_is_refused_and_its_context_destroyed);
  return g_test_run();
}
