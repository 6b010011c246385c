/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin opencl, on PoCL: data space as handles, copies with offsets, streams, a kernel written
 * by hand, kernels from the IR, bytes. Without a device, only the tests that need none run. */

#include "tests/plugins/plugin-util.h"

#define CL0 ((BpDevice){BP_DEVICE_OPENCL, 0})

static gboolean has_device(void) {
  return has_device_of(BP_DEVICE_OPENCL);
}

/* ---- Device and memory ------------------------------------------------------------------- */

static void test_attributes_have_their_values(void) {
  if (!has_device())
    return;
  static const int32_t ints[] = {BP_ATTR_MAX_THREADS_PER_BLOCK, BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK,
                                 BP_ATTR_MULTI_PROCESSOR_COUNT, BP_ATTR_TOTAL_GLOBAL_MEMORY,
                                 BP_ATTR_MAX_ALLOCATION,        BP_ATTR_DATA_ALIGNMENT};
  BpValue value;
  for (size_t i = 0; i < G_N_ELEMENTS(ints); i++) {
    assert_ok(bp_device_get_attr(CL0, ints[i], &value));
    g_assert_cmpint(value.type_index, ==, BP_TYPE_INT);
    g_assert_cmpint(value.v_int64, >, 0);
  }
  assert_ok(bp_device_get_attr(CL0, BP_ATTR_DEVICE_NAME, &value));
  bp_value_clear(&value);
  assert_ok(bp_device_get_attr(CL0, BP_ATTR_MAX_THREAD_DIMENSIONS, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_SHAPE);
  g_assert_cmpint(((BpShape *)(void *)value.v_obj)->size, ==, 3);
  bp_value_clear(&value);
  assert_tells(CL0, "extensions");
  assert_ok(bp_device_get_attr(CL0, BP_ATTR_WARP_SIZE, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_NONE);
  BpTarget *target = bp_target_from_device(CL0);
  assert_ok(target == NULL);
  g_assert_cmpstr(bp_target_kind(target), ==, "opencl");
  bp_object_release(target);
}

static void test_copies_are_exact(void) {
  if (has_device())
    assert_copies(CL0);
}

static void test_impossible_allocations_are_errors(void) {
  if (has_device())
    assert_allocations_are_checked(CL0, "opencl");
}

static void test_copies_are_checked(void) {
  if (!has_device())
    return;
  char bytes[64] = {0};
  void *handle = allocate_on(CL0, 64);
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = bytes,
                 .from_device = CPU,
                 .to = handle,
                 .to_device = CL0,
                 .size = 64};
  assert_ok(bp_device_copy(&copy, NULL));
  copy.to_offset = 1;
  g_assert_cmpint(bp_device_copy(&copy, NULL), ==, -1);
  assert_error(BP_ERROR_VALUE, "in a buffer of 64");
  copy = (BpCopy){.struct_size = sizeof(BpCopy),
                  .from = handle,
                  .from_device = CL0,
                  .to = bytes,
                  .to_device = CPU,
                  .size = 32};
  copy.from_offset = 33;
  g_assert_cmpint(bp_device_copy(&copy, NULL), ==, -1);
  assert_error(BP_ERROR_VALUE, "in a buffer of 64");
  assert_ok(bp_device_free(CL0, handle));
  assert_overlaps_are_refused(CL0);
}

/* ---- A kernel written by hand ------------------------------------------------------------ */

static const char source[] = "__kernel void scale(__global float *x, float by, int add) {\n"
                             "  int i = get_group_id(0) * get_local_size(0) + get_local_id(0);\n"
                             "  x[i] = x[i] * by + add;\n"
                             "}\n";

static BpModule *load_by_hand(const char *text) {
  static const BpDataType dtypes[] = {
      {BP_DTYPE_HANDLE, 64, 1}, {BP_DTYPE_FLOAT, 32, 1}, {BP_DTYPE_INT, 32, 1}};
  static const char *const tags[] = {"blockIdx.x", "threadIdx.x"};
  BpKernelInfo kernel = {sizeof(BpKernelInfo), "scale", dtypes, 3, 2, tags};
  BpByteArray code = {text, strlen(text)};
  BpOwnedBytes bytes;
  assert_ok(host_tables()->module->encode_device_code("cl", &kernel, 1, &code, &bytes));
  BpByteArray view = {bytes.data, bytes.size};
  BpModule *module = bp_module_load_from_bytes("opencl", &view);
  assert_ok(module == NULL);
  bp_owned_bytes_clear(&bytes);
  return module;
}

/* A function that keeps its module alive. */
static BpFunction *scale_by_hand(void) {
  BpModule *module = load_by_hand(source);
  BpFunction *scale = get_function(module, "scale");
  bp_object_release(module);
  return scale;
}

static void test_kernel_written_by_hand_runs(void) {
  if (!has_device())
    return;
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  BpTensor *tensor = make_tensor(CL0, data, 8);
  BpFunction *scale = scale_by_hand();
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  args[0] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = tensor->view.data};
  assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat(data[i], ==, 4.0f * (float)i + 3);
  bp_object_release(scale);
  bp_object_release(tensor);
}

static void test_handles_are_checked(void) {
  if (!has_device())
    return;
  BpFunction *scale = scale_by_hand();
  assert_handles_are_checked(CL0, scale);
  bp_object_release(scale);
}

static void test_views_begin_at_their_offset_on_any_stream(void) {
  if (!has_device())
    return;
  BpValue alignment, args[5], result;
  assert_ok(bp_device_get_attr(CL0, BP_ATTR_DATA_ALIGNMENT, &alignment));
  int64_t skip = alignment.v_int64 / 4, count = skip + 8, part = 8;
  float *data = g_new0(float, count);
  data[skip] = 5;
  BpTensor *whole = make_tensor(CL0, data, count);
  BpTensor *view =
      bp_tensor_create_view(whole, &part, 1, dtype_of("float32"), (uint64_t)alignment.v_int64);
  assert_ok(view == NULL);
  BpModule *module = load_by_hand(source);
  BpFunction *scale = get_function(module, "scale");
  void *stream = NULL;
  assert_ok(bp_stream_create(CL0, &stream));
  assert_ok(bp_stream_sync_from_to(CL0, NULL, stream));
  assert_ok(bp_device_set_current(CL0, stream));
  set_scale_args(args, &view->view, 3, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_stream_sync(CL0, stream));
  assert_ok(bp_device_set_current(CL0, NULL));
  assert_ok(bp_stream_free(CL0, stream));
  assert_ok(bp_tensor_copy_to_host(&whole->view, data, (uint64_t)count * 4));
  g_assert_cmpfloat(data[skip], ==, 16);
  g_assert_cmpfloat(data[0], ==, 0);
  g_assert_cmpfloat(data[count - 1], ==, 1);
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(view);
  bp_object_release(whole);
  g_free(data);
}

static void test_wrong_launches_are_errors(void) {
  if (!has_device())
    return;
  float data[8] = {0};
  BpTensor *tensor = make_tensor(CL0, data, 8);
  BpModule *module = load_by_hand(source);
  BpFunction *scale = get_function(module, "scale");
  BpValue args[5];
  assert_launches_are_checked(scale, tensor);
  set_scale_args(args, &tensor->view, 2, 1);
  args[3] = int_value(((int64_t)1 << 62) + 1); /* times 4 wraps around to 4 */
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "OpenCL cannot count so many threads");
  assert_tensors_are_in_their_buffers(scale, tensor, "in a buffer of 32");
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

static void test_rejected_source_is_quoted_with_line_numbers(void) {
  if (!has_device())
    return;
  BpModule *module = load_by_hand("/* one */\n/* two */\n"
                                  "__kernel void scale(__global float *x) { nonsense }\n");
  BpFunction *scale = get_function(module, "scale");
  float data[8] = {0};
  BpTensor *tensor = make_tensor(CL0, data, 8);
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 2, 1);
  g_assert_cmpint(bp_function_call(scale, args, 5, &result), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "     2  /* two */\n     3  __kernel"));
  assert_error(BP_ERROR_COMPILE, "nonsense");
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

/* ---- Kernels from the IR ----------------------------------------------------------------- */

static void run_add_one(BpModule *module) {
  float data[64] = {0};
  assert_ok(call_add_one(module, CL0, data));
  for (int i = 0; i < 64; i++)
    g_assert_cmpfloat(data[i], ==, 7);
}

static void test_kernel_from_ir_runs(void) {
  if (!has_device())
    return;
  BpModule *module = build_text(ADD_ONE, "opencl");
  run_add_one(module);
  bp_object_release(module);
}

#define SUM_OF_HALVES                                                                              \
  "(module (function \"f\" (buffer A float16 global 64) (for i:int64 0 8 serial"                   \
  " (store A (ramp (mul i 8) 1 8) (add (load A (ramp (mul i 8) 1 8))"                              \
  " (mul (load A (ramp (mul i 8) 1 8)) (broadcast 7:float16 8)))))))"

static gboolean has_halves_in(const char *target) {
  BpIrModule *module = parse_verified(SUM_OF_HALVES);
  BpModule *built = build_ok(module, target);
  BpOwnedBytes code;
  assert_ok(bp_module_get_source(built, "", &code));
  gboolean has = strstr(code.data, "cl_khr_fp16") && strstr(code.data, "half8");
  bp_owned_bytes_clear(&code);
  bp_object_release(built);
  bp_object_release(module);
  return has;
}

static void test_halves_are_a_type_where_the_target_has_them(void) {
  g_assert_false(has_halves_in("opencl"));
  g_assert_true(has_halves_in("opencl -supports_float16"));
  if (!has_device())
    return;
  BpTarget *target = bp_target_from_device(CL0);
  BpValue has;
  assert_ok(bp_target_get_attr(target, "supports_float16", &has));
  assert_text_agrees(SUM_OF_HALVES, has.v_int64 ? "opencl -supports_float16" : "opencl");
  bp_object_release(target);
}

static void test_vectors_that_the_language_lacks_are_refused(void) {
  bp_object_release(bp_target_parse("opencl -vector_bits=512"));
  g_assert_null(bp_target_parse("opencl -vector_bits=1024"));
  assert_error(BP_ERROR_VALUE, "target opencl: -vector_bits=1024: it is from 0 to 512");
}

/* Work queued between start and stop took time, on either of two streams at once. */
static void test_timers_measure_queued_work(void) {
  if (!has_device())
    return;
  const BpTimerApi *api =
      bp_device_extension(BP_DEVICE_OPENCL, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  void *context = bp_device_api(BP_DEVICE_OPENCL)->context;
  BpModule *module = build_text(ADD_ONE, "opencl");
  void *streams[2], *timers[2];
  for (int i = 0; i < 2; i++) {
    assert_ok(bp_stream_create(CL0, &streams[i]));
    assert_ok(api->start(context, 0, streams[i], &timers[i]));
  }
  run_add_one(module);
  for (int i = 0; i < 2; i++) {
    int64_t nanoseconds = -1;
    assert_ok(api->stop(context, timers[i], streams[i]));
    assert_ok(api->read(context, timers[i], &nanoseconds));
    assert_ok(api->free(context, timers[i]));
    g_assert_cmpint(nanoseconds, >, 0);
    assert_ok(bp_stream_free(CL0, streams[i]));
  }
  bp_object_release(module);
}

static void test_saved_module_is_loaded_and_runs(void) {
  BpModule *module = build_text(ADD_ONE, "opencl");
  BpModule *loaded = through_bytes(module, "opencl");
  bp_object_release(module);
  if (has_device())
    run_add_one(loaded);
  bp_object_release(loaded);
}

/* ---- Binaries on disk -------------------------------------------------------------------- */

static void run_scale(void) {
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  BpTensor *tensor = make_tensor(CL0, data, 8);
  BpModule *module = load_by_hand(source);
  BpFunction *scale = get_function(module, "scale");
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat(data[i], ==, 2.0f * (float)i + 1);
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

/* Replaces the cached data by other bytes with a valid trailer: more than the header of a binary,
 * which PoCL reads without checking the size. */
static void replace_file(const char *path) {
  static const guint8 other[4096] = "no binary of any driver";
  const uint64_t size = sizeof(other);
  guint8 digest[32];
  gsize digest_size = sizeof(digest);
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  g_checksum_update(hash, (const guchar *)&size, sizeof(size));
  g_checksum_update(hash, other, (gssize)size);
  g_checksum_get_digest(hash, digest, &digest_size);
  g_checksum_free(hash);
  GByteArray *bytes = g_byte_array_new();
  g_byte_array_append(bytes, other, (guint)size);
  g_byte_array_append(bytes, (const guint8 *)"BPCACHE1", 8);
  g_byte_array_append(bytes, digest, sizeof(digest));
  g_assert_true(g_file_set_contents(path, (const char *)bytes->data, bytes->len, NULL));
  g_byte_array_unref(bytes);
}

/* A program's binary is cached; a damaged binary, or one that the driver refuses, is replaced. */
static void keep_binaries(void) {
  static void (*const spoil[])(const char *) = {NULL, damage_file, replace_file};
  TestCache cache;
  cache_begin(&cache);
  run_scale();
  g_assert_cmpint(visit_cache(&cache, "opencl", NULL), ==, 1);
  for (size_t i = 0; i < G_N_ELEMENTS(spoil); i++) {
    visit_cache(&cache, "opencl", spoil[i]);
    run_scale();
    g_assert_cmpint(cache.warnings, ==, (int)i);
    g_assert_cmpint(visit_cache(&cache, "opencl", NULL), ==, 1);
  }
  run_scale();
  g_assert_cmpint(cache.warnings, ==, 2);
  cache_end(&cache, "opencl");
}

static void test_binaries_are_kept(void) {
  if (g_test_subprocess())
    keep_binaries();
  else if (has_device())
    run_again_with("BACKPLANE_OPENCL_BINARIES", "1");
}

/* PoCL gets no request for a binary unless the option is on. */
static void test_binaries_may_be_left_alone(void) {
  if (!g_test_subprocess()) {
    if (has_device())
      run_again_with("BACKPLANE_OPENCL_BINARIES", "0");
    return;
  }
  TestCache cache;
  cache_begin(&cache);
  run_scale();
  g_assert_cmpint(visit_cache(&cache, "opencl", NULL), ==, 0);
  cache_end(&cache, "opencl");
}

static void test_unknown_choice_of_binaries_is_told(void) {
  if (!g_test_subprocess()) {
    if (has_device())
      run_again_with("BACKPLANE_OPENCL_BINARIES", "yes");
    return;
  }
  TestCache cache;
  cache_begin(&cache);
  run_scale();
  g_assert_cmpint(cache.warnings, ==, 1);
  cache_end(&cache, "opencl");
}

static void test_unusable_cache_is_a_warning(void) {
  if (!g_test_subprocess()) {
    if (has_device())
      run_again_with("BACKPLANE_OPENCL_BINARIES", "1");
    return;
  }
  TestCache cache;
  cache_begin(&cache);
  g_setenv("BACKPLANE_CACHE_DIR", "/proc/nothing", TRUE);
  run_scale();
  g_assert_cmpint(cache.warnings, >, 0);
  cache_end(&cache, "opencl");
}

static void test_module_has_its_source(void) {
  BpModule *module = build_text(ADD_ONE, "opencl");
  BpOwnedBytes text;
  assert_ok(bp_module_get_source(module, "cl", &text));
  g_assert_nonnull(strstr(text.data, "__kernel"));
  bp_owned_bytes_clear(&text);
  bp_object_release(module);
}

/* ---- With and without the driver --------------------------------------------------------- */

static void test_missing_library_is_named(void) {
  if (!g_test_subprocess()) {
    run_again_with("BACKPLANE_OPENCL_LIBRARY", "/no/such/libOpenCL.so");
    return;
  }
  assert_none(BP_DEVICE_OPENCL, "library that BACKPLANE_OPENCL_LIBRARY=/no/such/libOpenCL.so names",
              "correct or unset");
  BpModule *module = build_text(ADD_ONE, "opencl"); /* needs no device */
  bp_object_release(module);
}

static void test_missing_driver_is_named_with_the_remedy(void) {
  if (g_test_subprocess())
    assert_none(BP_DEVICE_OPENCL, "OCL_ICD_VENDORS=/no/such/folder",
                "are set, which may be why: no OpenCL driver is installed; install");
  else if (has_device())
    run_again_with("OCL_ICD_VENDORS", "/no/such/folder");
}

static void test_driver_without_device_is_named(void) {
  if (g_test_subprocess())
    assert_none(BP_DEVICE_OPENCL, "POCL_DEVICES=none", "clinfo");
  else if (has_device())
    run_again_with("POCL_DEVICES", "none");
}

static void test_missing_cache_folder_of_pocl_is_named(void) {
  if (g_test_subprocess())
    assert_none(BP_DEVICE_OPENCL, "PoCL", "set POCL_CACHE_DIR");
  else if (has_device())
    run_again_with("POCL_CACHE_DIR", "/dev/null/none");
}

static void test_child_of_a_fork_gets_errors(void) {
  if (!g_test_subprocess()) {
    if (has_device()) {
      g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
      g_test_trap_assert_passed();
    }
    return;
  }
  float data[8] = {0};
  BpTensor *tensor = make_tensor(CL0, data, 8);
  BpModule *module = load_by_hand(source);
  BpFunction *scale = get_function(module, "scale");
  bp_object_release(module);
  BpValue args[5];
  set_scale_args(args, &tensor->view, 2, 1);
  assert_fork_is_an_error(CL0, scale, args, 5);
  bp_object_release(scale);
  bp_object_release(tensor);
}

/* ---- Several devices, and their limits --------------------------------------------------- */

static void test_each_of_two_devices_has_its_own_memory(void) {
  const BpDevice other = {BP_DEVICE_OPENCL, 1};
  int32_t count = 0;
  assert_ok(bp_device_count(BP_DEVICE_OPENCL, &count, NULL));
  if (count < 2) {
    g_test_skip("there is one device at most");
    return;
  }
  assert_copies_between(CL0, other);
  assert_freed_where_it_is_from(CL0, other);
  assert_freed_where_it_is_from(other, CL0);
  void *handle = allocate_on(other, 32);
  BpFunction *scale = scale_by_hand();
  assert_handle_is_refused(CL0, handle, scale);
  bp_object_release(scale);
  assert_ok(bp_device_free(other, handle));
}

static void test_index_is_checked(void) {
  assert_index_is_checked(BP_DEVICE_OPENCL);
}

static void test_launches_beyond_the_limits_are_refused(void) {
  if (!has_device())
    return;
  float data[8] = {0};
  void *handle = NULL;
  BpTensor *tensor = make_tensor(CL0, data, 8);
  BpModule *module = load_by_hand(source);
  BpFunction *scale = get_function(module, "scale");
  BpValue args[5], result, most;
  set_scale_args(args, &tensor->view, 2, 1);
  args[4] = int_value(1 << 20);
  g_assert_cmpint(bp_function_call(scale, args, 5, &result), ==, -1);
  assert_error(BP_ERROR_VALUE, "scale: 1048576 x 1 x 1 threads a block; the device takes at most");
  assert_ok(bp_device_get_attr(CL0, BP_ATTR_MAX_ALLOCATION, &most));
  g_assert_cmpint(try_alloc(CL0, (uint64_t)most.v_int64 + 1, 64, NULL, &handle), ==, -1);
  assert_error(BP_ERROR_MEMORY, "opencl");
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result)); /* the device still works */
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

static void test_too_much_shared_memory_is_refused(void) {
  if (!has_device())
    return;
  float data[8] = {0};
  BpTensor *tensor = make_tensor(CL0, data, 8);
  BpModule *module = load_by_hand("__kernel void scale(__global float *x, float by, int add) {\n"
                                  "  __local float all[1 << 26];\n"
                                  "  all[get_local_id(0)] = x[get_local_id(0)];\n"
                                  "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                                  "  x[get_local_id(0)] = all[3 - get_local_id(0)] * by + add;\n"
                                  "}\n");
  BpFunction *scale = get_function(module, "scale");
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 2, 1);
  g_assert_cmpint(bp_function_call(scale, args, 5, &result), ==, -1);
  assert_error(BP_ERROR_VALUE, "bytes of local memory");
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

int main(int argc, char **argv) {
  g_setenv("POCL_DEVICES", "pthread basic", FALSE); /* two devices */
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/opencl/missing-library-is-named", test_missing_library_is_named);
  g_test_add_func("/opencl/missing-driver-is-named-with-the-remedy",
                  test_missing_driver_is_named_with_the_remedy);
  g_test_add_func("/opencl/driver-without-device-is-named", test_driver_without_device_is_named);
  g_test_add_func("/opencl/missing-cache-folder-of-pocl-is-named",
                  test_missing_cache_folder_of_pocl_is_named);
  g_test_add_func("/opencl/child-of-a-fork-gets-errors", test_child_of_a_fork_gets_errors);
  g_test_add_func("/opencl/each-of-two-devices-has-its-own-memory",
                  test_each_of_two_devices_has_its_own_memory);
  g_test_add_func("/opencl/index-is-checked", test_index_is_checked);
  g_test_add_func("/opencl/launches-beyond-the-limits-are-refused",
                  test_launches_beyond_the_limits_are_refused);
  g_test_add_func("/opencl/too-much-shared-memory-is-refused",
                  test_too_much_shared_memory_is_refused);
  g_test_add_func("/opencl/attributes-have-their-values", test_attributes_have_their_values);
  g_test_add_func("/opencl/copies-are-exact", test_copies_are_exact);
  g_test_add_func("/opencl/impossible-allocations-are-errors",
                  test_impossible_allocations_are_errors);
  g_test_add_func("/opencl/copies-are-checked", test_copies_are_checked);
  g_test_add_func("/opencl/handles-are-checked", test_handles_are_checked);
  g_test_add_func("/opencl/kernel-written-by-hand-runs", test_kernel_written_by_hand_runs);
  g_test_add_func("/opencl/views-begin-at-their-offset-on-any-stream",
                  test_views_begin_at_their_offset_on_any_stream);
  g_test_add_func("/opencl/timers-measure-queued-work", test_timers_measure_queued_work);
  g_test_add_func("/opencl/wrong-launches-are-errors", test_wrong_launches_are_errors);
  g_test_add_func("/opencl/rejected-source-is-quoted-with-line-numbers",
                  test_rejected_source_is_quoted_with_line_numbers);
  g_test_add_func("/opencl/halves-are-a-type-where-the-target-has-them",
                  test_halves_are_a_type_where_the_target_has_them);
  g_test_add_func("/opencl/vectors-that-the-language-lacks-are-refused",
                  test_vectors_that_the_language_lacks_are_refused);
  g_test_add_func("/opencl/kernel-from-ir-runs", test_kernel_from_ir_runs);
  g_test_add_func("/opencl/saved-module-is-loaded-and-runs", test_saved_module_is_loaded_and_runs);
  g_test_add_func("/opencl/module-has-its-source", test_module_has_its_source);
  g_test_add_func("/opencl/binaries-are-kept", test_binaries_are_kept);
  g_test_add_func("/opencl/binaries-may-be-left-alone", test_binaries_may_be_left_alone);
  g_test_add_func("/opencl/unknown-choice-of-binaries-is-told",
                  test_unknown_choice_of_binaries_is_told);
  g_test_add_func("/opencl/unusable-cache-is-a-warning", test_unusable_cache_is_a_warning);
  return g_test_run();
}
