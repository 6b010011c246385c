/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin vulkan, on Mesa's lavapipe: data space as handles, copies with offsets, streams,
 * threads, timers, kernels from the IR, their binaries and bytes; and failures. Without a device,
 * only the tests that need none run. */

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "tests/plugins/plugin-util.h"

#define VK0 ((BpDevice){BP_DEVICE_VULKAN, 0})

static gboolean has_device(void) {
  return has_device_of(BP_DEVICE_VULKAN);
}

static gboolean has_compiler(void) {
  char *path = g_find_program_in_path("glslc");
  if (!path)
    g_test_skip("there is no glslc");
  g_free(path);
  return path != NULL;
}

/* ---- Device and memory ------------------------------------------------------------------- */

static void test_attributes_have_their_values(void) {
  if (!has_device())
    return;
  static const int32_t ints[] = {BP_ATTR_MAX_THREADS_PER_BLOCK,
                                 BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK,
                                 BP_ATTR_WARP_SIZE,
                                 BP_ATTR_TOTAL_GLOBAL_MEMORY,
                                 BP_ATTR_MAX_ALLOCATION,
                                 BP_ATTR_DATA_ALIGNMENT,
                                 BP_ATTR_RANK};
  static const int32_t texts[] = {BP_ATTR_DEVICE_NAME, BP_ATTR_API_VERSION, BP_ATTR_DRIVER_VERSION,
                                  BP_ATTR_COMPUTE_VERSION, BP_ATTR_UUID};
  static const int32_t shapes[] = {BP_ATTR_MAX_THREAD_DIMENSIONS, BP_ATTR_MAX_GRID_DIMENSIONS};
  BpValue value;
  BpByteArray text;
  for (size_t i = 0; i < G_N_ELEMENTS(ints); i++) {
    assert_ok(bp_device_get_attr(VK0, ints[i], &value));
    g_assert_cmpint(value.type_index, ==, BP_TYPE_INT);
    g_assert_cmpint(value.v_int64, >, 0);
  }
  for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
    assert_ok(bp_device_get_attr(VK0, texts[i], &value));
    assert_ok(bp_value_view_str(&value, &text));
    g_assert_cmpuint(text.size, >, 0);
    bp_value_clear(&value);
  }
  for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++) {
    assert_ok(bp_device_get_attr(VK0, shapes[i], &value));
    g_assert_cmpint(value.type_index, ==, BP_TYPE_SHAPE);
    g_assert_cmpint(((BpShape *)(void *)value.v_obj)->size, ==, 3);
    bp_value_clear(&value);
  }
  assert_tells(VK0, "float16_rounds_to_even");
  assert_ok(bp_device_get_attr(VK0, BP_ATTR_MAX_CLOCK_RATE, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_NONE);
  BpTarget *target = bp_target_from_device(VK0);
  assert_ok(target == NULL);
  g_assert_cmpstr(bp_target_kind(target), ==, "vulkan");
  bp_object_release(target);
}

static void *allocate(uint64_t size) {
  return allocate_on(VK0, size);
}

/* More bytes than the staging of a copy holds, and not a multiple of it. */
static void check_large_copies(void) {
  size_t size = (size_t)(35 << 20) + 12345;
  uint32_t *from = g_malloc(size + 4), *to = g_malloc0(size + 4);
  for (size_t i = 0; i < size / 4 + 1; i++)
    from[i] = (uint32_t)(i * 2654435761u);
  void *a = allocate(size), *b = allocate(size);
  assert_ok(copy_bytes(from, 0, CPU, a, 0, VK0, size));
  assert_ok(copy_bytes(a, 0, VK0, b, 0, VK0, size));
  assert_ok(bp_device_free(VK0, a)); /* the queued copy completes */
  assert_ok(copy_bytes(b, 0, VK0, to, 0, CPU, size));
  assert_ok(bp_stream_sync(VK0, NULL));
  g_assert_cmpmem(to, size, from, size);
  assert_ok(bp_device_free(VK0, b));
  g_free(from);
  g_free(to);
}

static void test_copies_are_exact(void) {
  if (!has_device())
    return;
  assert_copies(VK0);
  check_large_copies();
}

static void test_copies_are_checked(void) {
  if (!has_device())
    return;
  char bytes[32] = "";
  void *a = allocate(16);
  g_assert_cmpint(copy_bytes(bytes, 0, CPU, a, 10, VK0, 7), ==, -1);
  assert_error(BP_ERROR_VALUE, "a copy of 7 bytes at 10 in a buffer of 16");
  g_assert_cmpint(copy_bytes(a, 17, VK0, bytes, 0, CPU, 1), ==, -1);
  assert_error(BP_ERROR_VALUE, "a copy of 1 bytes at 17 in a buffer of 16");
  assert_overlaps_are_refused(VK0);
  assert_ok(bp_device_free(VK0, a));
  assert_ok(bp_device_free(VK0, NULL));
}

static void test_impossible_allocations_are_errors(void) {
  if (!has_device())
    return;
  void *held[64] = {NULL};
  BpValue largest;
  assert_allocations_are_checked(VK0, "vulkan");
  assert_ok(bp_device_get_attr(VK0, BP_ATTR_MAX_ALLOCATION, &largest));
  int count = 0;
  while (count < 64 && try_alloc(VK0, (uint64_t)largest.v_int64 / 2, 64, NULL, &held[count]) == 0)
    count++;
  g_assert_cmpint(count, <, 64);
  assert_error(BP_ERROR_MEMORY, "vulkan");
  for (int i = 0; i < count; i++)
    assert_ok(bp_device_free(VK0, held[i]));
  assert_copies(VK0); /* the device is still usable */
}

/* Buffers share blocks of memory, which are split and joined. */
static void test_many_buffers_do_not_overlap(void) {
  if (!has_device())
    return;
  void *handles[500];
  unsigned char bytes[500];
  uint64_t state = 7;
  for (int i = 0; i < 500; i++) {
    unsigned char value = (unsigned char)i;
    handles[i] = allocate(1 + next_random(&state) % 100000);
    assert_ok(copy_bytes(&value, 0, CPU, handles[i], 0, VK0, 1));
  }
  for (int i = 0; i < 500; i += 3) {
    unsigned char value = (unsigned char)(i + 1);
    assert_ok(bp_device_free(VK0, handles[i]));
    handles[i] = allocate(1 + next_random(&state) % 200000);
    assert_ok(copy_bytes(&value, 0, CPU, handles[i], 0, VK0, 1));
  }
  for (int i = 0; i < 500; i++)
    assert_ok(copy_bytes(handles[i], 0, VK0, bytes, (uint64_t)i, CPU, 1));
  assert_ok(bp_stream_sync(VK0, NULL));
  for (int i = 0; i < 500; i++) {
    g_assert_cmpint(bytes[i], ==, (unsigned char)(i % 3 ? i : i + 1));
    assert_ok(bp_device_free(VK0, handles[i]));
  }
}

/* ---- Kernels ----------------------------------------------------------------------------- */

#define LOOPS(blocks, threads, body)                                                               \
  " (for b:int64 0 " blocks " bound \"blockIdx.x\" (for t:int64 0 " threads                        \
  " bound \"threadIdx.x\" " body "))"
#define PLACE "(add (mul b 4) t)"

/* Nine parameters, and their sum. */
#define NINE(n)                                                                                    \
  " a" n ":int64 b" n ":float32 c" n ":int64 d" n ":int16 e" n ":int64 f" n ":float32 g" n         \
  ":int64 h" n ":bool i" n ":int64"
#define ADDED(n)   "(cast float32 " n ")"
#define PLUS(a, b) "(add " a " " b ")"
#define SUM(n)                                                                                     \
  PLUS(PLUS(PLUS(ADDED("a" n), ADDED("b" n)), PLUS(ADDED("c" n), ADDED("d" n))),                   \
       PLUS(PLUS(ADDED("e" n), ADDED("f" n)),                                                      \
            PLUS(PLUS(ADDED("g" n), ADDED("h" n)), ADDED("i" n))))

static const char kernels[] =
    "(module (function \"scale\" (buffer X float32 global 8) by:float32 n:int32" LOOPS(
        "2", "4",
        "(store X " PLACE " (add (mul (load X " PLACE
        ") by) (cast float32 n)))") ")"
                                    " (function \"scalars\" a:bool b8:uint8 c:int16 d:int64 "
                                    "e:float16 (buffer X float32 global 4)"
                                    " (for t:int64 0 1 bound \"threadIdx.x\" (seq (store X 0 (cast "
                                    "float32 a))"
                                    " (store X 1 (cast float32 (add (cast int32 b8) (cast int32 "
                                    "c))))"
                                    " (store X 2 (cast float32 d)) (store X 3 (cast float32 "
                                    "e)))))"
                                    " (function \"many\"" NINE("0") NINE("1") NINE("2") NINE("3")
                                        NINE("4") " (buffer X float32 global 512) (for t:int64 0 1 "
                                                  "bound \"threadIdx.x\""
                                                  " (store X a0 " PLUS(
                                                      PLUS(SUM("0"), PLUS(SUM("1"), SUM("2"))),
                                                      PLUS(SUM("3"), SUM("4"))) "))))";

/* A function that keeps its module alive. */
static BpFunction *build_function(const char *text, const char *name) {
  BpModule *module = build_text(text, "vulkan");
  BpFunction *function = get_function(module, name);
  bp_object_release(module);
  return function;
}

static gboolean can_run(void) {
  return has_device() && has_compiler();
}

static void test_kernel_scales_a_tensor(void) {
  if (!can_run())
    return;
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  BpTensor *tensor = make_tensor(VK0, data, 8);
  BpFunction *scale = build_function(kernels, "scale");
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
  if (!can_run())
    return;
  BpFunction *scale = build_function(kernels, "scale");
  assert_handles_are_checked(VK0, scale);
  bp_object_release(scale);
}

static void test_scalars_of_all_widths_arrive_in_full(void) {
  if (!can_run())
    return;
  float data[4] = {0};
  BpTensor *tensor = make_tensor(VK0, data, 4);
  BpFunction *scalars = build_function(kernels, "scalars");
  BpValue args[7] = {{.type_index = BP_TYPE_BOOL, .v_int64 = 1},
                     int_value(200),
                     int_value(-300),
                     int_value(-((int64_t)1 << 40)),
                     {.type_index = BP_TYPE_FLOAT, .v_float64 = 0.375}},
          result;
  args[5] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = tensor->view.data};
  args[6] = int_value(1);
  assert_ok(bp_function_call(scalars, args, 7, &result));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  g_assert_cmpfloat(data[0], ==, 1);
  g_assert_cmpfloat(data[1], ==, -100);
  g_assert_cmpfloat(data[2], ==, -0x1p40f);
  g_assert_cmpfloat(data[3], ==, 0.375f);
  bp_object_release(scalars);
  bp_object_release(tensor);
}

/* More scalars than push constants of 128 bytes hold; each launch has its own. */
static void test_scalars_of_any_number_arrive(void) {
  if (!can_run())
    return;
  static float data[512];
  BpTensor *tensor = make_tensor(VK0, data, 512);
  BpFunction *many = build_function(kernels, "many");
  BpValue args[47], result;
  for (int place = 0; place < 512; place++) {
    for (int i = 0; i < 45; i++)
      args[i] = i % 9 == 7 ? (BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = 1}
                : i % 9 == 1 || i % 9 == 5
                    ? (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = i + 0.5}
                    : int_value(i ? i * place : place);
    args[45] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = tensor->view.data};
    args[46] = int_value(1);
    assert_ok(bp_function_call(many, args, 47, &result));
  }
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  for (int place = 0; place < 512; place++) {
    float sum = (float)place;
    for (int i = 1; i < 45; i++)
      sum += i % 9 == 7 ? 1 : i % 9 == 1 || i % 9 == 5 ? (float)i + 0.5f : (float)(i * place);
    g_assert_cmpfloat(data[place], ==, sum);
  }
  bp_object_release(many);
  bp_object_release(tensor);
}

static void test_views_begin_at_their_offset_on_any_stream(void) {
  if (!can_run())
    return;
  BpValue alignment, args[5], result;
  assert_ok(bp_device_get_attr(VK0, BP_ATTR_DATA_ALIGNMENT, &alignment));
  int64_t skip = alignment.v_int64 / 4, count = skip + 8, part = 8;
  float *data = g_new0(float, count);
  data[skip] = 5;
  BpTensor *whole = make_tensor(VK0, data, count);
  BpTensor *view =
      bp_tensor_create_view(whole, &part, 1, dtype_of("float32"), (uint64_t)alignment.v_int64);
  assert_ok(view == NULL);
  BpFunction *scale = build_function(kernels, "scale");
  void *streams[20] = {NULL};
  set_scale_args(args, &view->view, 1, 1);
  for (int i = 0; i < 20; i++) { /* each after the one before */
    assert_ok(bp_stream_create(VK0, &streams[i]));
    assert_ok(bp_stream_sync_from_to(VK0, i ? streams[i - 1] : NULL, streams[i]));
    assert_ok(bp_device_set_current(VK0, streams[i]));
    assert_ok(bp_function_call(scale, args, 5, &result));
  }
  for (int i = 0; i < 20; i++)
    assert_ok(bp_stream_sync_from_to(VK0, streams[i], NULL));
  assert_ok(bp_device_set_current(VK0, NULL));
  assert_ok(bp_tensor_copy_to_host(&whole->view, data, (uint64_t)count * 4));
  g_assert_cmpfloat(data[skip], ==, 25);
  g_assert_cmpfloat(data[0], ==, 0);
  g_assert_cmpfloat(data[count - 1], ==, 20);
  for (int i = 0; i < 20; i++)
    assert_ok(bp_stream_free(VK0, streams[i]));
  bp_object_release(scale);
  bp_object_release(view);
  bp_object_release(whole);
  g_free(data);
}

/* Queues more launches than the batches of a stream hold, without waiting in between. */
static void test_more_launches_than_a_batch_holds_run(void) {
  if (!can_run())
    return;
  float data[8] = {0};
  BpTensor *tensor = make_tensor(VK0, data, 8);
  BpFunction *scale = build_function(kernels, "scale");
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 1, 1);
  for (int i = 0; i < 2000; i++)
    assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat(data[i], ==, 2000);
  bp_object_release(scale);
  bp_object_release(tensor);
}

static void *work_in_thread(void *scale) {
  float data[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  void *stream = NULL;
  BpValue args[5], result;
  assert_ok(bp_stream_create(VK0, &stream));
  assert_ok(bp_device_set_current(VK0, stream));
  for (int round = 0; round < 20; round++) {
    BpTensor *tensor = make_tensor(VK0, data, 8);
    /* The bytes were copied on the default stream. */
    assert_ok(bp_stream_sync_from_to(VK0, NULL, stream));
    set_scale_args(args, &tensor->view, 1, 1);
    for (int i = 0; i < 10; i++)
      assert_ok(bp_function_call(scale, args, 5, &result));
    assert_ok(bp_stream_sync(VK0, stream));
    assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
    bp_object_release(tensor);
  }
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat(data[i], ==, 201);
  assert_ok(bp_device_set_current(VK0, NULL));
  assert_ok(bp_stream_free(VK0, stream));
  return NULL;
}

static void test_threads_launch_at_once(void) {
  if (!can_run())
    return;
  pthread_t threads[4];
  BpFunction *scale = build_function(kernels, "scale");
  for (int i = 0; i < 4; i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, work_in_thread, scale), ==, 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  bp_object_release(scale);
}

static void test_staged_copies_are_exact(void) {
  if (g_test_subprocess()) {
    assert_copies(VK0);
    check_large_copies();
    if (has_compiler())
      test_threads_launch_at_once();
  } else if (has_device()) {
    run_again_with("BACKPLANE_VULKAN_STAGING", "1");
  }
}

static void test_timers_measure_queued_work(void) {
  if (!can_run())
    return;
  const BpTimerApi *api =
      bp_device_extension(BP_DEVICE_VULKAN, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  void *context = bp_device_api(BP_DEVICE_VULKAN)->context;
  float data[8] = {0};
  void *timer = NULL;
  int64_t nanoseconds = -1;
  BpTensor *tensor = make_tensor(VK0, data, 8);
  BpFunction *scale = build_function(kernels, "scale");
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 1, 1);
  assert_ok(api->start(context, 0, NULL, &timer));
  for (int i = 0; i < 100; i++)
    assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(api->stop(context, timer, NULL));
  assert_ok(api->read(context, timer, &nanoseconds));
  g_assert_cmpint(nanoseconds, >, 0);
  assert_ok(api->free(context, timer));
  assert_ok(api->start(context, 0, NULL, &timer));
  g_assert_cmpint(api->read(context, timer, &nanoseconds), ==, -1);
  assert_error(BP_ERROR_VALUE, "was not stopped");
  assert_ok(api->free(context, timer));
  bp_object_release(scale);
  bp_object_release(tensor);
}

/* ---- Refused launches -------------------------------------------------------------------- */

static void test_wrong_launches_are_errors(void) {
  if (!can_run())
    return;
  float data[8] = {0};
  BpTensor *tensor = make_tensor(VK0, data, 8);
  BpFunction *scale = build_function(kernels, "scale");
  BpValue args[5];
  assert_launches_are_checked(scale, tensor);
  set_scale_args(args, &tensor->view, 2, 1);
  args[4] = int_value(8);
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "8 threads along x; it was compiled for 4");
  args[4] = int_value(4);
  args[3] = int_value((int64_t)1 << 40);
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "blocks along x; the device takes at most");
  assert_tensors_are_in_their_buffers(scale, tensor, "in a buffer of 32");
  bp_object_release(scale);
  bp_object_release(tensor);
}

static void test_launches_beyond_the_limits_are_refused(void) {
  if (!can_run())
    return;
  BpFunction *wide =
      build_function("(module (function \"wide\" (buffer X float32 global 1048576)"
                     " (for t:int64 0 1024 bound \"threadIdx.x\" (for u:int64 0 1024 bound "
                     "\"threadIdx.y\" (store X (add (mul u 1024) t) 0:float32)))))",
                     "wide");
  BpFunction *shared = build_function(
      "(module (function \"shared\" (buffer X float32 global 4) (allocate (buffer S float32 "
      "shared 4000000)" LOOPS("1", "4",
                              "(seq (store S t (load X t)) (barrier \"shared\")"
                              " (store X t (load S (sub 3 t))))") ")))",
      "shared");
  float data[4] = {0};
  BpTensor *tensor = make_tensor(VK0, data, 4);
  BpValue args[3] = {{.type_index = BP_TYPE_POINTER, .v_ptr = tensor->view.data},
                     int_value(1024),
                     int_value(1024)};
  launch_fails(wide, args, 3, BP_ERROR_VALUE, "kernel wide: threads of a block");
  args[1] = int_value(1);
  args[2] = int_value(4);
  launch_fails(shared, args, 3, BP_ERROR_VALUE, "bytes of shared memory: 16000000; the device has");
  bp_object_release(wide);
  bp_object_release(shared);
  bp_object_release(tensor);
}

/* ---- Modules ----------------------------------------------------------------------------- */

static void test_saved_module_is_loaded_and_runs(void) {
  if (!has_compiler())
    return;
  BpModule *built = build_text(kernels, "vulkan");
  BpModule *module = through_bytes(built, "vulkan");
  bp_object_release(built);
  if (has_device()) {
    float data[8] = {1};
    BpTensor *tensor = make_tensor(VK0, data, 8);
    BpFunction *scale = get_function(module, "scale");
    BpValue args[5], result;
    set_scale_args(args, &tensor->view, 3, 4);
    assert_ok(bp_function_call(scale, args, 5, &result));
    assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
    g_assert_cmpfloat(data[0], ==, 7);
    bp_object_release(scale);
    bp_object_release(tensor);
  }
  bp_object_release(module);
}

/* Bytes with one changed bit are read or refused. */
static void test_damaged_bytes_are_read_or_refused(void) {
  if (!has_compiler())
    return;
  BpModule *module = build_text(kernels, "vulkan");
  BpOwnedBytes bytes;
  assert_ok(bp_module_save_to_bytes(module, &bytes));
  bp_object_release(module);
  BpByteArray view = {bytes.data, bytes.size};
  for (size_t i = 0; i < bytes.size; i++) {
    bytes.data[i] ^= (char)(1 << i % 8);
    module = bp_module_load_from_bytes("vulkan", &view);
    if (module)
      bp_object_release(module);
    else
      bp_error_clear();
    bytes.data[i] ^= (char)(1 << i % 8);
  }
  bp_owned_bytes_clear(&bytes);
}

/* ---- Several devices --------------------------------------------------------------------- */

/* Writes manifests of one driver, twice: the loader then has its devices twice (transfer full).
 * NULL if lavapipe is missing. */
static char *two_drivers(void) {
  const char *folder = "/usr/share/vulkan/icd.d";
  GDir *directory = g_dir_open(folder, 0, NULL);
  char *list = NULL, *text = NULL, *copy = NULL;
  for (const char *name; directory && !list && (name = g_dir_read_name(directory));) {
    char *path = g_build_filename(folder, name, NULL);
    if (g_str_has_prefix(name, "lvp_icd") && g_file_get_contents(path, &text, NULL, NULL)) {
      close(g_file_open_tmp("backplane-XXXXXX.json", &copy, NULL));
      g_assert_true(g_file_set_contents(copy, text, -1, NULL));
      list = g_strdup_printf("%s:%s", path, copy);
    }
    g_free(path);
  }
  if (directory)
    g_dir_close(directory);
  g_free(text);
  g_free(copy);
  return list;
}

static void test_each_of_two_devices_has_its_own_memory(void) {
  if (g_test_subprocess()) {
    const BpDevice other = {BP_DEVICE_VULKAN, 1};
    int32_t count = 0;
    assert_ok(bp_device_count(BP_DEVICE_VULKAN, &count, NULL));
    g_assert_cmpint(count, ==, 2);
    assert_copies_between(VK0, other);
    assert_freed_where_it_is_from(VK0, other);
    assert_freed_where_it_is_from(other, VK0);
    if (has_compiler()) {
      void *handle = allocate_on(other, 32);
      BpFunction *scale = build_function(kernels, "scale");
      assert_handle_is_refused(VK0, handle, scale);
      bp_object_release(scale);
      assert_ok(bp_device_free(other, handle));
    }
    return;
  }
  char *drivers = has_device() ? two_drivers() : NULL;
  if (!drivers) {
    g_test_skip("lavapipe is not there");
    return;
  }
  run_again_with("VK_DRIVER_FILES", drivers);
  unlink(strrchr(drivers, ':') + 1);
  g_free(drivers);
}

static void test_index_is_checked(void) {
  assert_index_is_checked(BP_DEVICE_VULKAN);
}

/* ---- Binaries and pipelines on disk ------------------------------------------------------ */

static void run_scale(int warnings) {
  TestCache heard = {.warnings = 0};
  float data[8] = {0};
  bp_log_set_callback(count_warnings, &heard);
  BpTensor *tensor = make_tensor(VK0, data, 8);
  BpFunction *scale = build_function(kernels, "scale");
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_stream_sync(VK0, NULL));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  g_assert_cmpfloat(data[7], ==, 1);
  g_assert_cmpint(heard.warnings, ==, warnings);
  bp_log_set_callback(NULL, NULL);
  bp_object_release(scale);
  bp_object_release(tensor);
}

/* A device reads its cache when it is opened, so each round is a separate process. */
static void test_binaries_are_kept(void) {
  if (g_test_subprocess()) {
    run_scale(atoi(g_getenv("BP_TEST_WARNINGS")));
    return;
  }
  if (!can_run())
    return;
  TestCache cache;
  cache_begin(&cache);
  run_again_with("BP_TEST_WARNINGS", "0");
  int kept = visit_cache(&cache, "vulkan", damage_file);
  g_assert_cmpint(kept, >, 0);
  char *warnings = g_strdup_printf("%d", kept);
  run_again_with("BP_TEST_WARNINGS", warnings);
  run_again_with("BP_TEST_WARNINGS", "0");
  g_assert_cmpint(visit_cache(&cache, "vulkan", NULL), ==, kept);
  g_free(warnings);
  cache_end(&cache, "vulkan");
}

static void test_unusable_cache_is_a_warning(void) {
  if (!g_test_subprocess()) {
    if (can_run())
      run_again_with("BACKPLANE_CACHE_DIR", "/proc/nothing");
    return;
  }
  TestCache heard = {.warnings = 0};
  bp_log_set_callback(count_warnings, &heard);
  bp_object_release(build_text(kernels, "vulkan"));
  g_assert_cmpint(heard.warnings, >, 0);
  bp_log_set_callback(NULL, NULL);
}

static void test_module_has_its_source(void) {
  if (!has_compiler())
    return;
  BpModule *module = build_text(kernels, "vulkan");
  BpOwnedBytes text;
  assert_ok(bp_module_get_source(module, "glsl", &text));
  g_assert_nonnull(strstr(text.data, "#version"));
  bp_owned_bytes_clear(&text);
  g_assert_cmpint(bp_module_get_source(module, "spv:nothing", &text), ==, -1);
  bp_error_clear();
  bp_object_release(module);
}

static void test_binaries_are_valid(void) {
  char *validator = g_find_program_in_path("spirv-val");
  if (!validator || !has_compiler()) {
    if (!validator)
      g_test_skip("there is no spirv-val");
    g_free(validator);
    return;
  }
  static const char *const names[] = {"scale", "scalars", "many"};
  BpModule *module = build_text(kernels, "vulkan");
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
    BpOwnedBytes binary;
    char *format = g_strdup_printf("spv:%s", names[i]), *path = NULL, *words = NULL;
    int status = -1, file = g_file_open_tmp("backplane-XXXXXX.spv", &path, NULL);
    assert_ok(bp_module_get_source(module, format, &binary));
    g_assert_cmpint(write(file, binary.data, binary.size), ==, (gssize)binary.size);
    close(file);
    const char *arguments[] = {validator, "--target-env", "vulkan1.2", path, NULL};
    g_assert_true(g_spawn_sync(NULL, (char **)(uintptr_t)arguments, NULL, 0, NULL, NULL, NULL,
                               &words, &status, NULL));
    g_assert_cmpstr(words, ==, "");
    g_assert_cmpint(status, ==, 0);
    bp_owned_bytes_clear(&binary);
    unlink(path);
    g_free(words);
    g_free(path);
    g_free(format);
  }
  bp_object_release(module);
  g_free(validator);
}

/* ---- Missing requirements ---------------------------------------------------------------- */

static void test_missing_library_is_named(void) {
  if (g_test_subprocess())
    assert_none(BP_DEVICE_VULKAN,
                "loader that BACKPLANE_VULKAN_LIBRARY=/no/such/libvulkan.so names cannot be opened",
                "correct or unset");
  else
    run_again_with("BACKPLANE_VULKAN_LIBRARY", "/no/such/libvulkan.so");
}

/* A driver without its hardware, such as Mesa's driver for AMD GPUs. */
static void test_driver_without_device_is_named(void) {
  static const char manifest[] = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";
  if (g_test_subprocess())
    assert_none(BP_DEVICE_VULKAN, "that has a device", "install");
  else if (g_access("/dev/dri", F_OK) == 0 || g_access(manifest, R_OK) != 0)
    g_test_skip("there is no driver whose hardware is missing");
  else
    run_again_with("VK_DRIVER_FILES", manifest);
}

static void test_missing_driver_is_named_with_the_remedy(void) {
  if (g_test_subprocess()) {
    assert_none(BP_DEVICE_VULKAN, "no Vulkan driver", "install");
    assert_none(BP_DEVICE_VULKAN, "VK_DRIVER_FILES=/no/such/icd.json, VK_ICD_FILENAMES=",
                " are set, which may be why: ");
    return;
  }
  if (!has_device()) /* if there is no loader, the reason differs */
    return;
  g_setenv("VK_ICD_FILENAMES", "/no/such/icd.json", TRUE);
  run_again_with("VK_DRIVER_FILES", "/no/such/icd.json");
  g_unsetenv("VK_ICD_FILENAMES");
}

/* As systemd's MemoryDenyWriteExecute does; PR_SET_MDWE of Linux 6.3. */
static void test_denied_written_code_is_named(void) {
  if (g_test_subprocess()) {
    g_assert_cmpint(prctl(65, 1UL, 0UL, 0UL, 0UL), ==, 0);
    assert_none(BP_DEVICE_VULKAN, "MemoryDenyWriteExecute", "or use the device \"cpu\"");
    return;
  }
  BpValue name;
  BpByteArray text;
  if (!has_device())
    return;
  assert_ok(bp_device_get_attr(VK0, BP_ATTR_DEVICE_NAME, &name));
  assert_ok(bp_value_view_str(&name, &text));
  gboolean can_deny = prctl(66, 0UL, 0UL, 0UL, 0UL) >= 0; /* PR_GET_MDWE */
  if (can_deny && strstr(text.data, "llvmpipe"))
    run_again_with("BACKPLANE_PLUGIN_DEADLINE", "0");
  else
    g_test_skip(can_deny ? "the first device is no CPU" : "this Linux is older than 6.3");
  bp_value_clear(&name);
}

static void build_fails(const char *kind, const char *message) {
  BpIrModule *module = parse_verified(kernels);
  BpTarget *target = bp_target_parse("vulkan");
  g_assert_null(bp_target_build(module, target));
  assert_error(kind, message);
  bp_object_release(target);
  bp_object_release(module);
}

static void test_missing_compiler_is_an_error_with_the_remedy(void) {
  if (g_test_subprocess())
    build_fails(BP_ERROR_COMPILE, "install it, or name it in BACKPLANE_GLSLC");
  else
    run_again_with("BACKPLANE_GLSLC", "/no/such/glslc");
}

/* An error shows the source with its lines. */
static void test_failed_compiler_is_an_error_with_the_source(void) {
  if (g_test_subprocess())
    build_fails(BP_ERROR_COMPILE, "    1  #version");
  else
    run_again_with("BACKPLANE_GLSLC", "false");
}

/* float16 is added directly if the target has it, and as float32 otherwise. */
static void test_float16_is_added_with_and_without_the_type(void) {
  static const char text[] =
      "(module (function \"f\" (buffer X float16 global 4)"
      " (for t:int64 0 4 bound \"threadIdx.x\" (store X t (add (load X t) (load X t))))))";
  static const struct {
    const char *target;
    gboolean has_halves;
  } cases[] = {{"vulkan -supports_float16", TRUE}, {"vulkan", FALSE}};
  for (size_t i = 0; has_compiler() && i < G_N_ELEMENTS(cases); i++) {
    BpIrModule *module = parse_verified(text);
    BpModule *built = build_ok(module, cases[i].target);
    BpOwnedBytes glsl;
    assert_ok(bp_module_get_source(built, "glsl", &glsl));
    const char *body = strstr(glsl.data, "void main()");
    g_assert_nonnull(body);
    g_assert_cmpint(strstr(glsl.data, "float16_t X_0[]") != NULL, ==, cases[i].has_halves);
    g_assert_cmpint(strstr(body, "float(") == NULL && strstr(body, "to_float(") == NULL, ==,
                    cases[i].has_halves);
    bp_owned_bytes_clear(&glsl);
    bp_object_release(built);
    bp_object_release(module);
  }
}

static void test_types_that_the_target_lacks_are_refused(void) {
  BpIrModule *module = parse_verified("(module (function \"f\" (buffer X float64 global 4)"
                                      " (store X 0 (add (load X 1) 1:float64))))");
  BpTarget *target = bp_target_parse("vulkan -supports_float64=false");
  g_assert_null(bp_target_build(module, target));
  assert_error(BP_ERROR_NOT_IMPLEMENTED, "no type float64");
  bp_object_release(target);
  bp_object_release(module);
}

/* For a device without 64-bit integers, kernels use 32-bit indices. */
static void test_indices_without_int64(void) {
  static const char text[] =
      "(module (function \"f\" (buffer X float32 global 8 33) (buffer P int32 global 8)"
      " (for b:int64 0 8 bound \"blockIdx.x\" (for t:int64 0 33 bound \"threadIdx.x\""
      " (store X (add (mul b 33) t) (add (cast float32 (mul t 70000)) (cast float32 (load P"
      " (max 0 (min 7 (cast int64 (load P b))))))))))))";
  static const char target[] = "vulkan -supports_int64=false";
  BpIrModule *module = parse_verified(text);
  BpOwnedBytes glsl;
  if (!has_compiler())
    return;
  BpModule *built = build_ok(module, target);
  assert_ok(bp_module_get_source(built, "glsl", &glsl));
  g_assert_null(strstr(strstr(glsl.data, "void main()"), "int64"));
  bp_owned_bytes_clear(&glsl);
  bp_object_release(built);
  bp_object_release(module);
  if (can_run())
    assert_text_agrees(text, target);
}

static void test_targets_that_contradict_themselves_are_refused(void) {
  static const char *const texts[] = {
      "vulkan -supports_int16=false -supports_float16=true",
      "{\"kind\":\"vulkan\",\"supports_float16\":true,\"supports_int16\":false}"};
  for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_assert_null(bp_target_parse(texts[i]));
    assert_error(BP_ERROR_VALUE, "-supports_float16=true needs -supports_int16=true");
  }
}

/* ---- Functions of float64 ------------------------------------------------------------------ */

/* Arguments of a function: x, and y for functions of two arguments. */
#define NUM_ARGUMENTS 4096

typedef struct DoubleFunction {
  const char *name;
  double (*one)(double x), (*two)(double x, double y);
  double largest; /* largest random argument */
} DoubleFunction;

static const DoubleFunction double_functions[] = {
    {"exp", exp, NULL, 750},     {"exp2", exp2, NULL, 1080},    {"expm1", expm1, NULL, 720},
    {"log", log, NULL, 1e300},   {"log2", log2, NULL, 1e300},   {"log10", log10, NULL, 1e300},
    {"log1p", log1p, NULL, 10},  {"tanh", tanh, NULL, 25},      {"sinh", sinh, NULL, 712},
    {"cosh", cosh, NULL, 712},   {"asinh", asinh, NULL, 1e300}, {"acosh", acosh, NULL, 1e300},
    {"atanh", atanh, NULL, 1.1}, {"pow", NULL, pow, 40},        {"fmod", NULL, fmod, 1e20},
};

static const double special_doubles[] = {0.0,
                                         -0.0,
                                         1,
                                         -1,
                                         0.5,
                                         2,
                                         -2,
                                         3,
                                         -3,
                                         10,
                                         1000,
                                         -1000,
                                         INFINITY,
                                         -INFINITY,
                                         NAN,
                                         DBL_MIN,
                                         -DBL_MIN,
                                         DBL_MIN / 3,
                                         0x1p-1074,
                                         -0x1p-1074,
                                         DBL_MAX,
                                         -DBL_MAX,
                                         1 + DBL_EPSILON,
                                         1 - DBL_EPSILON / 2,
                                         709.782712893384,
                                         709.782712893385,
                                         -745.133219101941,
                                         -745.2,
                                         -708.5,
                                         0x1p53 - 1,
                                         0x1p60 + 0x1p20,
                                         1e-300};

/* Every pair of special values, then numbers of both signs, small numbers as often as large
 * ones. */
static void fill_arguments(double largest, double x[NUM_ARGUMENTS], double y[NUM_ARGUMENTS]) {
  size_t count = G_N_ELEMENTS(special_doubles);
  uint64_t state = 11;
  for (size_t i = 0; i < NUM_ARGUMENTS; i++) {
    double part = (double)(next_random(&state) >> 11) * 0x1p-53;
    double other = (double)(next_random(&state) >> 11) * 0x1p-53;
    int by = (int)(next_random(&state) % 4), sign = (int)(next_random(&state) % 2);
    x[i] = (sign ? -largest : largest) * part * (by ? pow(0x1p-12, by - 1) : 1e-30);
    y[i] = (other - 0.5) * (by ? 30 : 1200);
    if (by == 2)
      y[i] = trunc(y[i]);
    if (i < count * count) {
      x[i] = special_doubles[i / count];
      y[i] = special_doubles[i % count];
    }
  }
}

/* Returns the distance in units of the last place; infinite results, zeros and NaN must be
 * equal. */
static double distance_of(double got, double wanted) {
  if (isnan(wanted) || isinf(wanted) || wanted == 0)
    return (isnan(wanted) ? isnan(got) : got == wanted && !signbit(got) == !signbit(wanted))
               ? 0
               : INFINITY;
  double unit = fabs(nextafter(wanted, INFINITY) - wanted);
  return fabs(got - wanted) / (isinf(unit) ? 0x1p971 : unit);
}

static void run_doubles(const DoubleFunction *function, double *x, double *y, double *got) {
  const double *data[] = {x, y, got};
  int64_t count = NUM_ARGUMENTS;
  char *text = g_strdup_printf(
      "(module (function \"f\" (buffer X float64 global 4096) (buffer Y float64 global 4096)"
      " (buffer Z float64 global 4096) (for b:int64 0 64 bound \"blockIdx.x\""
      " (for t:int64 0 64 bound \"threadIdx.x\" (store Z (add (mul b 64) t)"
      " (call float64 intrinsic \"%s\" (load X (add (mul b 64) t))%s))))))",
      function->name, function->two ? " (load Y (add (mul b 64) t))" : "");
  BpModule *module = build_text(text, "vulkan -supports_float64");
  BpFunction *f = get_function(module, "f");
  BpTensor *tensors[3];
  BpValue args[5], result;
  for (int i = 0; i < 3; i++) {
    tensors[i] = bp_tensor_create(&count, 1, dtype_of("float64"), VK0, NULL);
    assert_ok(tensors[i] == NULL);
    assert_ok(bp_tensor_copy_from_host(&tensors[i]->view, data[i], NUM_ARGUMENTS * sizeof(*x)));
    args[i] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = tensors[i]->view.data};
  }
  args[3] = args[4] = int_value(64);
  assert_ok(bp_function_call(f, args, 5, &result));
  assert_ok(bp_tensor_copy_to_host(&tensors[2]->view, got, NUM_ARGUMENTS * sizeof(*got)));
  for (int i = 0; i < 3; i++)
    bp_object_release(tensors[i]);
  bp_object_release(f);
  bp_object_release(module);
  g_free(text);
}

static void test_functions_of_float64(void) {
  if (!can_run())
    return;
  double *x = g_new0(double, NUM_ARGUMENTS), *y = g_new0(double, NUM_ARGUMENTS);
  double *got = g_new0(double, NUM_ARGUMENTS);
  for (size_t i = 0; i < G_N_ELEMENTS(double_functions); i++) {
    const DoubleFunction *function = &double_functions[i];
    double worst = 0;
    fill_arguments(function->largest, x, y);
    run_doubles(function, x, y, got);
    for (int k = 0; k < NUM_ARGUMENTS; k++) {
      double wanted = function->one ? function->one(x[k]) : function->two(x[k], y[k]);
      double distance = distance_of(got[k], wanted);
      if (!(distance <= 4))
        g_test_message("%s(%a, %a) is %a, not %a", function->name, x[k], y[k], got[k], wanted);
      worst = distance > worst ? distance : worst;
    }
    g_test_message("%s: at most %.2f units of the last place", function->name, worst);
    g_assert_cmpfloat(worst, <=, 4);
  }
  g_free(x);
  g_free(y);
  g_free(got);
}

/* ---- Together with other APIs ------------------------------------------------------------ */

static void test_child_of_a_fork_gets_errors(void) {
  if (g_test_subprocess()) {
    assert_copies(VK0);
    BpFunction *scale = build_function(kernels, "scale");
    float data[8] = {0};
    BpTensor *tensor = make_tensor(VK0, data, 8);
    BpValue args[5];
    set_scale_args(args, &tensor->view, 1, 1);
    assert_fork_is_an_error(VK0, scale, args, 5);
    bp_object_release(tensor);
    bp_object_release(scale);
  } else if (can_run()) {
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_passed();
  }
}

static void add_device_tests(void) {
  g_test_add_func("/vulkan/attributes-have-their-values", test_attributes_have_their_values);
  g_test_add_func("/vulkan/copies-are-exact", test_copies_are_exact);
  g_test_add_func("/vulkan/copies-are-checked", test_copies_are_checked);
  g_test_add_func("/vulkan/handles-are-checked", test_handles_are_checked);
  g_test_add_func("/vulkan/impossible-allocations-are-errors",
                  test_impossible_allocations_are_errors);
  g_test_add_func("/vulkan/many-buffers-do-not-overlap", test_many_buffers_do_not_overlap);
  g_test_add_func("/vulkan/kernel-scales-a-tensor", test_kernel_scales_a_tensor);
  g_test_add_func("/vulkan/scalars-of-all-widths-arrive-in-full",
                  test_scalars_of_all_widths_arrive_in_full);
  g_test_add_func("/vulkan/scalars_of_any_number_arrive", test_scalars_of_any_number_arrive);
  g_test_add_func("/vulkan/views-begin-at-their-offset-on-any-stream",
                  test_views_begin_at_their_offset_on_any_stream);
  g_test_add_func("/vulkan/more-launches-than-a-batch-holds-run",
                  test_more_launches_than_a_batch_holds_run);
  g_test_add_func("/vulkan/functions_of_float64_are_exact_to_4_units", test_functions_of_float64);
  g_test_add_func("/vulkan/threads-launch-at-once", test_threads_launch_at_once);
  g_test_add_func("/vulkan/timers-measure-queued-work", test_timers_measure_queued_work);
  g_test_add_func("/vulkan/wrong-launches-are-errors", test_wrong_launches_are_errors);
  g_test_add_func("/vulkan/launches-beyond-the-limits-are-refused",
                  test_launches_beyond_the_limits_are_refused);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/vulkan/missing-library-is-named", test_missing_library_is_named);
  g_test_add_func("/vulkan/missing-driver-is-named-with-the-remedy",
                  test_missing_driver_is_named_with_the_remedy);
  g_test_add_func("/vulkan/denied-written-code-is-named", test_denied_written_code_is_named);
  g_test_add_func("/vulkan/missing-compiler-is-an-error-with-the-remedy",
                  test_missing_compiler_is_an_error_with_the_remedy);
  g_test_add_func("/vulkan/failed-compiler-is-an-error-with-the-source",
                  test_failed_compiler_is_an_error_with_the_source);
  g_test_add_func("/vulkan/types-that-the-target-lacks-are-refused",
                  test_types_that_the_target_lacks_are_refused);
  g_test_add_func("/vulkan/targets-that-contradict-themselves-are-refused",
                  test_targets_that_contradict_themselves_are_refused);
  g_test_add_func("/vulkan/indices_without_int64_are_int32", test_indices_without_int64);
  g_test_add_func("/vulkan/float16-is-added-with-and-without-the-type",
                  test_float16_is_added_with_and_without_the_type);
  g_test_add_func("/vulkan/child-of-a-fork-gets-errors", test_child_of_a_fork_gets_errors);
  g_test_add_func("/vulkan/staged-copies-are-exact", test_staged_copies_are_exact);
  add_device_tests();
  g_test_add_func("/vulkan/saved-module-is-loaded-and-runs", test_saved_module_is_loaded_and_runs);
  g_test_add_func("/vulkan/damaged-bytes-are-read-or-refused",
                  test_damaged_bytes_are_read_or_refused);
  g_test_add_func("/vulkan/module-has-its-source", test_module_has_its_source);
  g_test_add_func("/vulkan/each-of-two-devices-has-its-own-memory",
                  test_each_of_two_devices_has_its_own_memory);
  g_test_add_func("/vulkan/index-is-checked", test_index_is_checked);
  g_test_add_func("/vulkan/driver-without-device-is-named", test_driver_without_device_is_named);
  g_test_add_func("/vulkan/binaries-are-kept", test_binaries_are_kept);
  g_test_add_func("/vulkan/unusable-cache-is-a-warning", test_unusable_cache_is_a_warning);
  g_test_add_func("/vulkan/binaries-are-valid", test_binaries_are_valid);
  return g_test_run();
}
