/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin cuda: its devices, memory, streams, modules and failures. Unless BP_TEST_GPU is set,
 * the test uses a simulation of NVIDIA's driver and compiler (tests/mock/fakecuda.h), which shows
 * that the plugin uses the driver's functions as documented, but proves nothing about a GPU. With
 * BP_TEST_GPU it uses a real GPU, without the tests that make the driver fail. */

#include <dlfcn.h>
#include <stdio.h>

#include "tests/mock/fakecuda.h"
#include "tests/plugins/plugin-util.h"

#define GPU0 ((BpDevice){BP_DEVICE_CUDA, 0})
#define GPU1 ((BpDevice){BP_DEVICE_CUDA, 1})

static int32_t num_devices(void) {
  int32_t count = 0;
  assert_ok(bp_device_count(BP_DEVICE_CUDA, &count, NULL));
  return count;
}

static gboolean has_device(void) {
  return has_device_of(BP_DEVICE_CUDA);
}

/* ---- The simulation's own functions ------------------------------------------------------ */

static void *simulation;

static gboolean is_simulated(void) {
  if (!simulation)
    g_test_skip("only a simulation fails when asked to");
  return simulation != NULL;
}

static void fail(const char *function, int after, CUresult status) {
  void (*call)(const char *, int, CUresult) =
      (void (*)(const char *, int, CUresult))(uintptr_t)dlsym(simulation, "fakecuda_fail");
  call(function, after, status);
}

static void fail_kernel(CUresult status) {
  void (*call)(CUresult) = (void (*)(CUresult))(uintptr_t)dlsym(simulation, "fakecuda_fail_kernel");
  call(status);
}

static int count_of(const char *what) {
  int (*call)(const char *) = (int (*)(const char *))(uintptr_t)dlsym(simulation, "fakecuda_count");
  return call(what);
}

/* ---- Device and memory ------------------------------------------------------------------- */

static void test_attributes_have_their_values(void) {
  if (!has_device())
    return;
  static const int32_t types[] = {
      [BP_ATTR_EXIST] = BP_TYPE_BOOL,
      [BP_ATTR_MAX_THREADS_PER_BLOCK] = BP_TYPE_INT,
      [BP_ATTR_WARP_SIZE] = BP_TYPE_INT,
      [BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK] = BP_TYPE_INT,
      [BP_ATTR_MAX_CLOCK_RATE] = BP_TYPE_INT,
      [BP_ATTR_MULTI_PROCESSOR_COUNT] = BP_TYPE_INT,
      [BP_ATTR_MAX_THREAD_DIMENSIONS] = BP_TYPE_SHAPE,
      [BP_ATTR_MAX_REGISTERS_PER_BLOCK] = BP_TYPE_INT,
      [BP_ATTR_L2_CACHE_SIZE] = BP_TYPE_INT,
      [BP_ATTR_TOTAL_GLOBAL_MEMORY] = BP_TYPE_INT,
      [BP_ATTR_AVAILABLE_GLOBAL_MEMORY] = BP_TYPE_INT,
      [BP_ATTR_IMAGE_PITCH_ALIGNMENT] = BP_TYPE_INT,
      [BP_ATTR_MAX_GRID_DIMENSIONS] = BP_TYPE_SHAPE,
      [BP_ATTR_MAX_ALLOCATION] = BP_TYPE_INT,
      [BP_ATTR_DATA_ALIGNMENT] = BP_TYPE_INT,
      [BP_ATTR_HOST_ACCESSIBLE] = BP_TYPE_BOOL,
      [BP_ATTR_RANK] = BP_TYPE_INT,
  };
  static const int32_t texts[] = {BP_ATTR_COMPUTE_VERSION, BP_ATTR_DEVICE_NAME, BP_ATTR_API_VERSION,
                                  BP_ATTR_VENDOR,          BP_ATTR_UUID,        BP_ATTR_PCI_ADDRESS,
                                  BP_ATTR_TARGET};
  BpValue value;
  for (int32_t i = 0; i < (int32_t)G_N_ELEMENTS(types); i++) {
    assert_ok(bp_device_get_attr(GPU0, i, &value));
    if (types[i])
      g_assert_cmpint(value.type_index, ==, types[i]);
    if (types[i] == BP_TYPE_INT)
      g_assert_cmpint(value.v_int64, >, 0);
    bp_value_clear(&value);
  }
  for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
    BpByteArray text;
    assert_ok(bp_device_get_attr(GPU0, texts[i], &value));
    assert_ok(bp_value_view_str(&value, &text));
    g_assert_cmpuint(text.size, >, 0);
    bp_value_clear(&value);
  }
}

static void test_properties_name_memory_pools(void) {
  if (has_device())
    assert_tells(GPU0, "memory_pools");
}

static void test_target_of_a_device_has_its_architecture(void) {
  if (!has_device())
    return;
  BpTarget *target = bp_target_from_device(GPU0);
  assert_ok(target == NULL);
  g_assert_cmpstr(bp_target_kind(target), ==, "cuda");
  char *text = bp_target_format(target);
  g_assert_nonnull(strstr(text, "-arch=sm_"));
  bp_str_free(text);
  bp_object_release(target);
}

static void test_copies_are_exact(void) {
  if (!has_device())
    return;
  assert_copies(GPU0);
  assert_overlaps_are_refused(GPU0);
}

/* Copies more bytes than a stage holds, and more copies than there are stages. */
static void test_large_copies_are_exact(void) {
  if (!has_device())
    return;
  const uint64_t size = (5 << 20) + 7, part = 100000;
  char *from = g_malloc(size), *to = g_malloc0(size);
  void *data = allocate_on(GPU0, size);
  for (uint64_t i = 0; i < size; i++)
    from[i] = (char)(i * 7 + (i >> 9));
  assert_ok(copy_bytes(from, 0, CPU, data, 0, GPU0, size));
  assert_ok(copy_bytes(data, 0, GPU0, to, 0, CPU, size));
  assert_ok(bp_stream_sync(GPU0, NULL));
  g_assert_cmpmem(from, size, to, size);
  char *chunk = g_malloc(part);
  for (uint64_t at = 0; at + part <= size; at += part) {
    for (uint64_t i = 0; i < part; i++)
      chunk[i] = from[at + i] = (char)(at / part + i);
    assert_ok(copy_bytes(chunk, 0, CPU, data, at, GPU0, part));
  }
  assert_ok(copy_bytes(data, 0, GPU0, to, 0, CPU, size));
  assert_ok(bp_stream_sync(GPU0, NULL));
  g_assert_cmpmem(from, size, to, size);
  assert_ok(bp_device_free(GPU0, data));
  g_free(chunk);
  g_free(from);
  g_free(to);
}

static void test_copies_between_devices(void) {
  if (!has_device())
    return;
  if (num_devices() < 2) {
    g_test_skip("there is one CUDA device");
    return;
  }
  char to[] = "........";
  void *a = allocate_on(GPU0, 8), *b = allocate_on(GPU1, 8);
  assert_ok(copy_bytes("abcdefgh", 0, CPU, a, 0, GPU0, 8));
  assert_ok(copy_bytes("01234567", 0, CPU, b, 0, GPU1, 8));
  assert_ok(copy_bytes(a, 2, GPU0, b, 1, GPU1, 3));
  assert_ok(copy_bytes(b, 0, GPU1, to, 0, CPU, 8));
  assert_ok(bp_stream_sync(GPU1, NULL));
  g_assert_cmpstr(to, ==, "0cde4567");
  g_assert_cmpint(bp_device_free(GPU0, b), ==, -1);
  assert_error(BP_ERROR_VALUE, "is memory of cuda:1");
  assert_ok(bp_device_free(GPU0, a));
  assert_ok(bp_device_free(GPU1, b));
}

static void test_impossible_allocations_are_errors(void) {
  if (!has_device())
    return;
  assert_allocations_are_checked(GPU0, "CUDA_ERROR_OUT_OF_MEMORY");
  void *handle = allocate_on(GPU0, 16);
  g_assert_cmpint(bp_device_free(GPU0, (char *)handle + 8), ==, -1);
  assert_error(BP_ERROR_VALUE, "not the beginning of memory of a GPU");
  assert_ok(bp_device_free(GPU0, handle));
  g_assert_cmpint(bp_device_free(GPU0, handle), ==, -1);
  assert_error(BP_ERROR_VALUE, "not the beginning of memory of a GPU, or was freed");
}

/* Small allocations are close together. */
static void test_small_allocations_keep_large_alignments(void) {
  if (!has_device())
    return;
  void *small[4], *aligned = NULL;
  for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
    small[i] = allocate_on(GPU0, 16);
  assert_ok(try_alloc(GPU0, 16, 1 << 16, NULL, &aligned));
  g_assert_cmpuint((uintptr_t)aligned % (1 << 16), ==, 0);
  assert_ok(bp_device_free(GPU0, aligned));
  for (size_t i = 0; i < G_N_ELEMENTS(small); i++)
    assert_ok(bp_device_free(GPU0, small[i]));
}

static void test_workspace_keeps_its_content(void) {
  if (!has_device())
    return;
  for (int32_t i = 0; i < num_devices(); i++) {
    BpDevice device = {BP_DEVICE_CUDA, i};
    char to[] = "....";
    void *a = NULL, *b = NULL;
    assert_ok(bp_workspace_alloc(device, 4, dtype_of("uint8"), &a));
    assert_ok(bp_workspace_alloc(device, 1 << 20, dtype_of("uint8"), &b));
    assert_ok(copy_bytes("abcd", 0, CPU, a, 0, device, 4));
    assert_ok(copy_bytes(a, 0, device, b, 1000, device, 4));
    assert_ok(bp_workspace_free(device, a));
    assert_ok(copy_bytes(b, 1000, device, to, 0, CPU, 4));
    assert_ok(bp_workspace_free(device, b));
    assert_ok(bp_stream_sync(device, NULL));
    g_assert_cmpstr(to, ==, "abcd");
  }
}

/* The pool's reserve is released when memory is short. */
static void test_reserve_is_given_back(void) {
  if (!has_device() || !is_simulated())
    return;
  const uint64_t most = (FAKE_MEMORY >> 2) * 3;
  void *workspace = NULL, *data = NULL;
  assert_ok(bp_workspace_alloc(GPU0, most, dtype_of("uint8"), &workspace));
  g_assert_cmpint(try_alloc(GPU0, most, 256, NULL, &data), ==, -1);
  assert_error(BP_ERROR_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
  assert_ok(bp_workspace_free(GPU0, workspace));
  assert_ok(bp_stream_sync(GPU0, NULL));
  data = allocate_on(GPU0, most);
  assert_ok(bp_device_free(GPU0, data));
}

/* ---- Kernels written by hand ------------------------------------------------------------- */

static const char source[] = "extern \"C\" __global__ void scale(float *x, float by, int add) {\n"
                             "  int i = blockIdx.x * 4 + threadIdx.x;\n"
                             "  x[i] = x[i] * by + add;\n"
                             "}\n";

/* Kernels of a buffer, a float and a scalar of some type. */
static BpModule *load_with(const char *format, const BpByteArray *code, BpDataType last) {
  const BpDataType dtypes[] = {{BP_DTYPE_HANDLE, 64, 1}, {BP_DTYPE_FLOAT, 32, 1}, last};
  static const char *const tags[] = {"blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"};
  const BpKernelInfo kernels[] = {{sizeof(BpKernelInfo), "scale", dtypes, 3, 2, tags},
                                  {sizeof(BpKernelInfo), "absent", dtypes, 3, 2, tags},
                                  {sizeof(BpKernelInfo), "shares", dtypes, 3, 3, tags}};
  BpOwnedBytes bytes;
  assert_ok(host_tables()->module->encode_device_code(format, kernels, 3, code, &bytes));
  BpByteArray view = {bytes.data, bytes.size};
  BpModule *module = bp_module_load_from_bytes("cuda", &view);
  bp_owned_bytes_clear(&bytes);
  return module;
}

static BpModule *load(const char *format, const BpByteArray *code) {
  return load_with(format, code, (BpDataType){BP_DTYPE_INT, 32, 1});
}

static BpModule *load_source(const char *text) {
  BpByteArray code = {text, strlen(text)};
  BpModule *module = load("cu", &code);
  assert_ok(module == NULL);
  return module;
}

static void scale_on(BpFunction *scale, BpDevice device, void *stream) {
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  BpValue args[5], result;
  assert_ok(bp_device_set_current(device, stream));
  BpTensor *tensor = make_tensor(device, data, 8);
  assert_ok(bp_stream_sync(device, NULL));
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  args[0] = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = tensor->view.data};
  assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_stream_sync(device, stream));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat(data[i], ==, 4.0f * (float)i + 3);
  bp_object_release(tensor);
  assert_ok(bp_device_set_current(GPU0, NULL));
}

static void test_kernel_written_by_hand_runs(void) {
  if (!has_device())
    return;
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale");
  bp_object_release(module); /* the function keeps the module */
  for (int32_t i = 0; i < num_devices(); i++)
    scale_on(scale, (BpDevice){BP_DEVICE_CUDA, i}, NULL);
  void *stream = NULL;
  assert_ok(bp_stream_create(GPU0, &stream));
  scale_on(scale, GPU0, stream);
  assert_ok(bp_stream_free(GPU0, stream));
  bp_object_release(scale);
}

static gpointer scale_in_thread(gpointer scale) {
  void *stream = NULL;
  assert_ok(bp_stream_create(GPU0, &stream));
  for (int i = 0; i < 20; i++)
    scale_on(scale, GPU0, stream);
  assert_ok(bp_stream_free(GPU0, stream));
  return NULL;
}

/* The first launch compiles and loads the code, for all threads. */
static void test_threads_launch_at_once(void) {
  if (!has_device())
    return;
  GThread *threads[4];
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale");
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    threads[i] = g_thread_new("scale", scale_in_thread, scale);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_thread_join(threads[i]);
  bp_object_release(scale);
  bp_object_release(module);
}

/* Each stream reads the previous stream's writes to a tensor; only events order them. */
static void test_work_follows_the_order_of_streams(void) {
  if (!has_device())
    return;
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  void *streams[3] = {NULL, NULL, NULL};
  BpValue args[5], result;
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale");
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  for (int i = 0; i < 3; i++) {
    assert_ok(bp_stream_create(GPU0, &streams[i]));
    assert_ok(bp_stream_sync_from_to(GPU0, i ? streams[i - 1] : NULL, streams[i]));
    assert_ok(bp_device_set_current(GPU0, streams[i]));
    set_scale_args(args, &tensor->view, i + 2, 1);
    assert_ok(bp_function_call(scale, args, 5, &result));
  }
  assert_ok(bp_stream_sync_from_to(GPU0, streams[2], NULL));
  assert_ok(bp_device_set_current(GPU0, NULL));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat(data[i], ==, ((float)i * 2 + 1) * 12 + 5);
  for (int i = 0; i < 3; i++)
    assert_ok(bp_stream_free(GPU0, streams[i]));
  bp_object_release(tensor);
  bp_object_release(scale);
  bp_object_release(module);
}

static void test_views_begin_at_their_offset(void) {
  if (!has_device())
    return;
  float data[16] = {0};
  int64_t part = 8;
  BpValue args[5], result;
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale");
  BpTensor *whole = make_tensor(GPU0, data, 16);
  BpTensor *view = bp_tensor_create_view(whole, &part, 1, dtype_of("float32"), 16);
  assert_ok(view == NULL);
  set_scale_args(args, &view->view, 3, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  assert_ok(bp_tensor_copy_to_host(&whole->view, data, sizeof(data)));
  for (int i = 0; i < 16; i++)
    g_assert_cmpfloat(data[i], ==, i >= 4 && i < 12 ? 1 : 0);
  bp_object_release(view);
  bp_object_release(whole);
  bp_object_release(scale);
  bp_object_release(module);
}

static void test_timers_measure_queued_work(void) {
  if (!has_device())
    return;
  const BpTimerApi *api =
      bp_device_extension(BP_DEVICE_CUDA, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  void *context = bp_device_api(BP_DEVICE_CUDA)->context;
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale");
  void *timer = NULL;
  int64_t nanoseconds = -1;
  assert_ok(api->start(context, 0, NULL, &timer));
  scale_on(scale, GPU0, NULL);
  assert_ok(api->stop(context, timer, NULL));
  assert_ok(api->read(context, timer, &nanoseconds));
  g_assert_cmpint(nanoseconds, >=, 0);
  assert_ok(api->free(context, timer));
  assert_ok(api->start(context, 0, NULL, &timer));
  g_assert_cmpint(api->read(context, timer, &nanoseconds), ==, -1);
  assert_error(BP_ERROR_VALUE, "not stopped");
  assert_ok(api->free(context, timer));
  bp_object_release(scale);
  bp_object_release(module);
}

static void test_recordings_are_replayed(void) {
  if (!has_device())
    return;
  const BpRecordingApi *api =
      bp_device_extension(BP_DEVICE_CUDA, BP_EXTENSION_RECORDING, BP_EXTENSION_RECORDING_VERSION);
  void *context = bp_device_api(BP_DEVICE_CUDA)->context;
  float data[8] = {0};
  BpValue args[5], result;
  BpRecording *recording = NULL;
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale");
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  set_scale_args(args, &tensor->view, 1, 1);
  assert_ok(api->begin(context, 0, NULL));
  assert_ok(bp_function_call(scale, args, 5, &result)); /* loads the code */
  void *beside = allocate_on(GPU0, 16);                 /* outside of the recording */
  assert_ok(bp_device_free(GPU0, beside));
  assert_ok(bp_function_call(scale, args, 5, &result));
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = data,
                 .from_device = CPU,
                 .to = tensor->view.data,
                 .to_device = GPU0};
  copy.size = 4;
  g_assert_cmpint(bp_device_copy(&copy, NULL), ==, -1);
  assert_error(BP_ERROR_NOT_IMPLEMENTED, "cannot be recorded");
  assert_ok(api->end(context, 0, NULL, &recording));
  for (int i = 0; i < 3; i++)
    assert_ok(api->replay(context, recording, NULL));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  g_assert_cmpfloat(data[0], ==, 6);
  assert_ok(api->free(context, recording));
  bp_object_release(tensor);
  bp_object_release(scale);
  bp_object_release(module);
}

/* An event stands for recorded work; events on a stream that is being recorded are refused. */
static void test_events_stand_for_recorded_work(void) {
  if (!has_device())
    return;
  const BpRecordingApi *recordings =
      bp_device_extension(BP_DEVICE_CUDA, BP_EXTENSION_RECORDING, BP_EXTENSION_RECORDING_VERSION);
  void *context = bp_device_api(BP_DEVICE_CUDA)->context, *streams[2];
  float data[8] = {1}, got[8] = {0};
  int32_t state = BP_EVENT_PENDING;
  BpRecording *recording = NULL;
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale");
  BpEvent *event = bp_event_create(GPU0);
  assert_ok(event == NULL);
  for (int i = 0; i < 2; i++)
    assert_ok(bp_stream_create(GPU0, &streams[i]));
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  BpValue args[5], result;
  BpInvocation invocation = {
      .struct_size = sizeof(invocation), .device = GPU0, .stream = streams[0]};
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_stream_sync(GPU0, NULL));
  assert_ok(bp_function_launch(scale, &invocation, args, 5, &result));
  assert_ok(bp_event_record(event, streams[0]));
  assert_ok(bp_stream_wait_event(GPU0, streams[1], event));
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = tensor->view.data,
                 .from_device = GPU0,
                 .to = got,
                 .to_device = CPU,
                 .size = sizeof(got)};
  assert_ok(bp_device_copy(&copy, streams[1]));
  assert_ok(bp_event_record(event, streams[1]));
  while (state == BP_EVENT_PENDING)
    assert_ok(bp_event_query(event, &state));
  g_assert_cmpfloat(got[0], ==, 3);
  assert_ok(recordings->begin(context, 0, streams[0]));
  g_assert_cmpint(bp_event_record(event, streams[0]), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "being recorded");
  g_assert_cmpint(bp_stream_wait_event(GPU0, streams[0], event), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "being recorded");
  assert_ok(recordings->end(context, 0, streams[0], &recording));
  assert_ok(recordings->free(context, recording));
  for (int i = 0; i < 2; i++)
    assert_ok(bp_stream_free(GPU0, streams[i]));
  bp_event_free(event);
  bp_object_release(tensor);
  bp_object_release(scale);
  bp_object_release(module);
}

static void test_wrong_launches_are_errors(void) {
  if (!has_device())
    return;
  float data[8] = {0};
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  BpModule *module = load_source(source);
  BpFunction *scale = get_function(module, "scale"), *absent = get_function(module, "absent");
  BpValue args[5];
  assert_launches_are_checked(scale, tensor);
  set_scale_args(args, &tensor->view, 2, 1);
  args[4] = int_value(1 << 20);
  launch_fails(scale, args, 5, BP_ERROR_VALUE,
               "2 blocks of 1048576 threads along x; the device takes at most");
  args[4] = int_value(4);
  args[3] = int_value((int64_t)1 << 40);
  launch_fails(scale, args, 5, BP_ERROR_VALUE,
               "1099511627776 blocks of 4 threads along x; the device");
  args[3] = int_value(2);
  launch_fails(absent, args, 5, BP_ERROR_DEVICE, "CUDA_ERROR_NOT_FOUND");
  bp_object_release(absent);
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

/* A bool in TVM's declaration. */
static void test_scalars_of_one_bit_are_passed(void) {
  if (!has_device())
    return;
  static const char text[] = "extern \"C\" __global__ void scale(float *x, float by, bool add) {\n"
                             "  int i = blockIdx.x * 4 + threadIdx.x;\n"
                             "  x[i] = x[i] * by + (add ? 3 : 0);\n"
                             "}\n";
  const BpByteArray code = {text, strlen(text)};
  float data[8] = {1};
  BpValue args[5], result;
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  BpModule *module = load_with("cu", &code, (BpDataType){BP_DTYPE_UINT, 1, 1});
  assert_ok(module == NULL);
  BpFunction *scale = get_function(module, "scale");
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  set_scale_args(args, &tensor->view, 2, 0);
  assert_ok(bp_function_call(scale, args, 5, &result));
  set_scale_args(args, &tensor->view, 2, 2);
  launch_fails(scale, args, 5, BP_ERROR_VALUE, "2 is no integer of 1 bits");
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  g_assert_cmpfloat(data[0], ==, 10);
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

/* 64 KiB of shared memory, which a launch must request from the driver */
static void test_requested_shared_memory_can_be_used(void) {
  if (!has_device())
    return;
  static const char text[] = "extern \"C\" __global__ void shares(float *x, float by, int last) {\n"
                             "  extern __shared__ float room[];\n"
                             "  room[last] = by;\n"
                             "  x[threadIdx.x] = room[last];\n"
                             "}\n";
  float data[8] = {0};
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  BpModule *module = load_source(text);
  BpFunction *shares = get_function(module, "shares");
  BpValue args[6], result;
  set_scale_args(args, &tensor->view, 5, (65536 / 4) - 1);
  args[3].v_int64 = args[4].v_int64 = 1;
  args[5] = int_value(65536);
  if (is_simulated()) {
    fail("cuFuncGetAttribute", 1, CUDA_ERROR_OUT_OF_MEMORY);
    launch_fails(shares, args, 6, BP_ERROR_MEMORY, "cuFuncGetAttribute of the shared memory");
  }
  assert_ok(bp_function_call(shares, args, 6, &result));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, data, sizeof(data)));
  g_assert_cmpfloat(data[0], ==, 5);
  args[5] = int_value(1 << 24);
  launch_fails(shares, args, 6, BP_ERROR_VALUE, "16777216 bytes of shared memory; a block of");
  bp_object_release(shares);
  bp_object_release(module);
  bp_object_release(tensor);
}

static void test_rejected_source_is_quoted(void) {
  if (!has_device())
    return;
  BpModule *module =
      load_source("extern \"C\" __global__ void scale(float *x) {\n  nonsense;\n}\n");
  BpFunction *scale = get_function(module, "scale");
  float data[8] = {0};
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 2, 1);
  g_assert_cmpint(bp_function_call(scale, args, 5, &result), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_COMPILE));
  g_assert_nonnull(strstr(bp_error_message(), "error"));
  g_assert_nonnull(strstr(bp_error_message(), "    2    nonsense;"));
  bp_error_clear();
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
}

/* ---- Kernels from the IR ----------------------------------------------------------------- */

/* Saves and loads a module, which then gives the same results. */
static void check_bytes(BpModule *module) {
  float data[64] = {0};
  BpModule *loaded = through_bytes(module, "cuda");
  if (num_devices() > 0) {
    assert_ok(call_add_one(loaded, GPU0, data));
    g_assert_cmpfloat(data[63], ==, 7);
  }
  bp_object_release(loaded);
}

static gboolean has_source(BpModule *module, const char *format, const char *part) {
  BpOwnedBytes text;
  if (bp_module_get_source(module, format, &text) != 0) {
    bp_error_clear();
    return FALSE;
  }
  gboolean found = text.data && strstr(text.data, part);
  bp_owned_bytes_clear(&text);
  return found;
}

/* Returns "-arch=sm_90" for the first device, or "-arch=compute_90". */
static char *target_for_device(const char *prefix) {
  BpValue value;
  BpByteArray version;
  assert_ok(bp_device_get_attr(GPU0, BP_ATTR_COMPUTE_VERSION, &value));
  assert_ok(bp_value_view_str(&value, &version));
  char **parts = g_strsplit(version.data, ".", 2);
  char *text = g_strdup_printf("cuda -arch=%s_%s%s", prefix, parts[0], parts[1]);
  g_strfreev(parts);
  bp_value_clear(&value);
  return text;
}

static void test_source_is_compiled_where_it_runs(void) {
  BpModule *module = build_text(ADD_ONE, "cuda");
  g_assert_true(has_source(module, "", "__global__"));
  g_assert_true(has_source(module, "cu", "__launch_bounds__(16)"));
  g_assert_false(has_source(module, "ptx", ""));
  check_bytes(module);
  bp_object_release(module);
}

static void test_module_of_a_cubin_runs(void) {
  if (!has_device())
    return;
  char *target = target_for_device("sm");
  BpModule *module = build_text(ADD_ONE, target);
  g_assert_true(has_source(module, "", "__global__"));
  g_assert_true(has_source(module, "cubin", ""));
  check_bytes(module);
  bp_object_release(module);
  g_free(target);
}

static void test_module_of_ptx_runs(void) {
  if (!has_device())
    return;
  char *target = target_for_device("compute");
  BpModule *module = build_text(ADD_ONE, target);
  g_assert_true(has_source(module, "ptx", "//"));
  check_bytes(module);
  bp_object_release(module);
  g_free(target);
}

/* Below sm_53, float16 is computed as float32, with the same results. */
static void test_halves_have_equal_results_on_old_and_new_architectures(void) {
  static const char text[] =
      "(module (function \"f\" (buffer A float16 global 64) (buffer B float16 global 64)"
      " (buffer C bool global 64) (for i:int64 0 8 serial (seq"
      " (store C (ramp (mul i 8) 1 8) (lt (load A (ramp (mul i 8) 1 8))"
      " (load B (ramp (mul i 8) 1 8))))"
      " (store A (ramp (mul i 8) 1 8) (mul (load A (ramp (mul i 8) 1 8))"
      " (sub (load A (ramp (mul i 8) 1 8)) (max (load B (ramp (mul i 8) 1 8))"
      " (broadcast 0:float16 8)))))"
      " (store B i (call float16 intrinsic \"fma\" (load B i) (load B i) 7:float16))))))";
  if (!has_device() || !is_simulated())
    return;
  assert_text_agrees(text, "cuda -arch=compute_52");
  assert_text_agrees(text, "cuda -arch=compute_53");
}

static void test_code_of_another_gpu_is_refused(void) {
  if (!has_device())
    return;
  float data[64] = {0};
  char *own = target_for_device("sm");
  BpModule *module = build_text(ADD_ONE, strcmp(own, "cuda -arch=sm_75") ? "cuda -arch=sm_75"
                                                                         : "cuda -arch=sm_80");
  g_assert_cmpint(call_add_one(module, GPU0, data), ==, -1);
  assert_error(BP_ERROR_COMPILE, "so compile with -arch=sm_");
  bp_object_release(module);
  g_free(own);
}

static void test_targets_are_checked(void) {
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"cuda -arch=ampere", "no architecture \"ampere\""},
      {"cuda -arch=sm_", "no architecture \"sm_\""},
      {"cuda -arch=sm_90x", "no architecture"},
      {"cuda -options=-DX", "-options without -arch"},
      {"cuda -max_shared_memory_per_block=65536", "at most 49152 bytes"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_assert_null(bp_target_parse(bad[i].text));
    assert_error(BP_ERROR_VALUE, bad[i].message);
  }
  BpTarget *target = bp_target_parse("cuda -arch=sm_90a -options=\"-DA=1 --use_fast_math\"");
  assert_ok(target == NULL);
  bp_object_release(target);
}

/* TVM's name for the source format differs from Backplane's. */
static void test_source_in_the_format_of_tvm_is_loaded(void) {
  const char text[] = "extern \"C\" __global__ void scale() {}";
  const BpByteArray code = {text, strlen(text)};
  BpModule *module = load("cuda", &code);
  assert_ok(module == NULL);
  g_assert_true(has_source(module, "cu", "scale"));
  bp_object_release(module);
}

static void test_damaged_bytes_are_errors(void) {
  BpByteArray empty = {"", 0}, text = {"int x\0;", 7}, good = {"//", 2};
  g_assert_null(load("cu", &empty));
  assert_error(BP_ERROR_FORMAT, "its code is empty");
  g_assert_null(load("ptx", &text));
  assert_error(BP_ERROR_FORMAT, "a NUL in it");
  g_assert_null(load("cl", &good));
  assert_error(BP_ERROR_FORMAT, "format \"cl\"");
}

/* A second module of the same source is not compiled again; a damaged cache file causes a new
 * compilation. */
static void test_results_are_kept_on_disk(void) {
  if (!has_device() || !is_simulated())
    return;
  static void (*const spoil[])(const char *) = {NULL, damage_file, NULL};
  float data[64] = {0};
  TestCache cache;
  cache_begin(&cache);
  for (int round = 0; round < 4; round++) {
    BpModule *module = build_text(ADD_ONE, "cuda");
    assert_ok(call_add_one(module, GPU0, data));
    g_assert_cmpfloat(data[0], ==, 7.0f * (float)(round + 1));
    bp_object_release(module);
    g_assert_cmpint(visit_cache(&cache, "cuda", round < 3 ? spoil[round] : NULL), ==, 1);
    g_assert_cmpint(cache.warnings, ==, round < 2 ? 0 : 1);
  }
  cache_end(&cache, "cuda");
}

/* ---- Failures of the driver -------------------------------------------------------------- */

/* Uses many functions of the device; -1 at the first error. */
static int use_device(void) {
  float data[64] = {0};
  void *stream = NULL, *workspace = NULL;
  BpModule *module = build_text(ADD_ONE, "cuda");
  int rc = bp_stream_create(GPU0, &stream);
  rc = rc ? rc : bp_workspace_alloc(GPU0, 100, dtype_of("uint8"), &workspace);
  rc = rc ? rc : bp_stream_sync_from_to(GPU0, stream, NULL);
  if (workspace)
    rc = bp_workspace_free(GPU0, workspace) || rc ? -1 : 0;
  if (stream)
    rc = bp_stream_free(GPU0, stream) || rc ? -1 : 0;
  if (rc == 0) {
    int64_t count = 64;
    BpTensor *tensor = bp_tensor_create(&count, 1, dtype_of("float32"), GPU0, NULL);
    rc = tensor ? bp_tensor_copy_from_host(&tensor->view, data, sizeof(data)) : -1;
    bp_object_release(tensor);
  }
  if (rc == 0)
    rc = call_add_one(module, GPU0, data);
  bp_object_release(module);
  return rc;
}

/* A GPU that another process uses exclusively may be usable later. */
static void test_device_in_use_is_an_error_that_passes(void) {
  if (g_test_subprocess()) {
    void *handle = NULL;
    fail("cuDevicePrimaryCtxRetain", 1, 46); /* CUDA_ERROR_DEVICE_UNAVAILABLE */
    g_assert_cmpint(try_alloc(GPU0, 16, 64, NULL, &handle), ==, -1);
    assert_error(BP_ERROR_DEVICE, "cuDevicePrimaryCtxRetain");
    assert_ok(bp_device_free(GPU0, allocate_on(GPU0, 16)));
    return;
  }
  if (!has_device() || !is_simulated())
    return;
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed();
}

/* Each called function fails once: each failure is an error, and the next use works. */
static void test_every_call_may_fail(void) {
  if (!has_device() || !is_simulated())
    return;
  static const char *const functions[] = {
      "cuCtxSetCurrent",      "cuStreamCreate",     "cuMemAllocAsync",      "cuEventCreate",
      "cuEventRecord",        "cuStreamWaitEvent",  "cuMemAlloc_v2",        "cuStreamIsCapturing",
      "cuEventSynchronize",   "cuModuleLoadDataEx", "cuMemcpyHtoDAsync_v2", "cuModuleGetFunction",
      "cuMemcpyDtoHAsync_v2", "cuLaunchKernel",     "cuStreamSynchronize",
  };
  assert_ok(use_device());
  int memory = count_of("memory"), modules = count_of("module"), events = count_of("event"),
      streams = count_of("stream");
  for (size_t i = 0; i < G_N_ELEMENTS(functions); i++) {
    fail(functions[i], 1, CUDA_ERROR_UNKNOWN);
    if (use_device() == 0)
      g_error("%s failed and nothing came of it", functions[i]);
    g_assert_true(bp_error_is(BP_ERROR_DEVICE));
    bp_error_clear();
    assert_ok(use_device());
    g_assert_cmpint(count_of("module"), ==, modules);
    g_assert_cmpint(count_of("event"), ==, events);
  }
  g_assert_cmpint(count_of("stream"), <=, streams + 1);
  g_assert_cmpint(count_of("memory"), <=, memory + 1);
}

static void test_exhausted_memory_at_a_launch_is_an_error(void) {
  if (!has_device() || !is_simulated())
    return;
  float data[64] = {0};
  BpModule *module = build_text(ADD_ONE, "cuda");
  fail("cuLaunchKernel", 1, CUDA_ERROR_OUT_OF_MEMORY);
  BpTensor *tensor = make_tensor(GPU0, data, 64);
  bp_object_release(tensor);
  g_assert_cmpint(call_add_one(module, GPU0, data), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_MEMORY));
  bp_error_clear();
  assert_ok(call_add_one(module, GPU0, data));
  bp_object_release(module);
}

/* A kernel that stores to an invalid address. */
static void store_nowhere(void) {
  static const char text[] = "extern \"C\" __global__ void scale(float *x, float by, int add) {\n"
                             "  x[((long long)1 << 44) + threadIdx.x] = by + add;\n"
                             "}\n";
  float data[8] = {0};
  BpTensor *tensor = make_tensor(GPU0, data, 8);
  BpModule *module = load_source(text);
  BpFunction *scale = get_function(module, "scale");
  BpValue args[5], result;
  set_scale_args(args, &tensor->view, 2, 1);
  assert_ok(bp_function_call(scale, args, 5, &result));
  g_assert_cmpint(bp_stream_sync(GPU0, NULL), ==, -1);
  assert_error(BP_ERROR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
  bp_object_release(scale);
  bp_object_release(module);
  bp_object_release(tensor);
  bp_error_clear(); /* the memory is lost, too */
}

/* A failing kernel loses the device: one error of the first kind, and another kind from then on. */
static void test_lost_device_is_an_error(void) {
  if (g_test_subprocess()) {
    float data[64] = {0};
    BpValue value;
    BpModule *module = build_text(ADD_ONE, "cuda");
    assert_ok(call_add_one(module, GPU0, data));
    if (simulation) {
      fail_kernel(CUDA_ERROR_ILLEGAL_ADDRESS);
      g_assert_cmpint(call_add_one(module, GPU0, data), ==, -1);
      assert_error(BP_ERROR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    } else {
      store_nowhere();
    }
    g_assert_cmpint(bp_stream_sync(GPU0, NULL), ==, -1);
    assert_error(BP_ERROR_DEVICE_LOST, "lost by an earlier failure, CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_ok(bp_device_get_attr(GPU0, BP_ATTR_EXIST, &value));
    g_assert_cmpint(value.v_int64, ==, 0);
    bp_object_release(module);
    if (num_devices() > 1) {
      module = load_source(source);
      BpFunction *scale = get_function(module, "scale");
      scale_on(scale, GPU1, NULL); /* the other device still works */
      bp_object_release(scale);
      bp_object_release(module);
    }
    return;
  }
  if (!has_device())
    return;
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed();
}

static void test_child_of_a_fork_gets_errors(void) {
  if (!g_test_subprocess()) {
    if (has_device()) {
      g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
      g_test_trap_assert_passed();
    }
    return;
  }
  float data[64] = {0};
  const int64_t count = 64;
  BpTensor *tensor = make_tensor(GPU0, data, count);
  BpModule *module = build_text(ADD_ONE, "cuda");
  BpFunction *function = get_function(module, "add_one");
  bp_object_release(module);
  BpValue args[4] = {int_value(7),
                     {.type_index = BP_TYPE_POINTER, .v_ptr = tensor->view.data},
                     int_value(4),
                     int_value(16)};
  assert_fork_is_an_error(GPU0, function, args, 4);
  bp_object_release(function);
  bp_object_release(tensor);
}

static void test_index_is_checked(void) {
  assert_index_is_checked(BP_DEVICE_CUDA);
}

static void test_freeing_is_checked(void) {
  if (num_devices() < 2) {
    g_test_skip("there are not two devices");
    return;
  }
  assert_freed_where_it_is_from(GPU0, GPU1);
  assert_freed_where_it_is_from(GPU1, GPU0);
}

/* ---- Missing libraries -------------------------------------------------------------------- */

static void assert_no_device(const char *reason) {
  assert_none(BP_DEVICE_CUDA, reason, "");
  BpModule *module = build_text(ADD_ONE, "cuda"); /* needs no device */
  bp_object_release(module);
}

/* Whether the loader finds the library without a variable of the environment. The library
 * stays mapped, because NVRTC leaks memory when it is closed. */
static int is_installed(const char *library) {
  void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (opened)
    dlclose(opened);
  return opened != NULL;
}

static void test_missing_driver_is_named_with_the_remedy(void) {
  if (g_test_subprocess())
    assert_no_device("install NVIDIA's driver, on Debian the packages nvidia-driver and libcuda1");
  else if (is_installed("libcuda.so.1"))
    g_test_skip("the system has a driver");
  else
    run_again_with("BACKPLANE_CUDA_LIBRARY", "");
}

static void test_missing_library_is_named(void) {
  if (g_test_subprocess())
    assert_no_device("driver that BACKPLANE_CUDA_LIBRARY=/no/such/libcuda.so.1 names cannot be");
  else
    run_again_with("BACKPLANE_CUDA_LIBRARY", "/no/such/libcuda.so.1");
}

static void test_another_library_is_refused(void) {
  if (g_test_subprocess())
    assert_no_device("lacks cu");
  else
    run_again_with("BACKPLANE_CUDA_LIBRARY", "libm.so.6");
}

static void test_old_driver_is_refused(void) {
  if (g_test_subprocess())
    assert_no_device("CUDA 11.4, and 12.0 is needed");
  else if (is_simulated())
    run_again_with("FAKECUDA_VERSION", "11040");
}

static void test_missing_gpu_is_a_reason(void) {
  if (g_test_subprocess())
    assert_no_device("finds no GPU");
  else if (is_simulated())
    run_again_with("FAKECUDA_INIT_FAILS", "100");
}

static void test_driver_that_does_not_start_is_a_reason(void) {
  if (g_test_subprocess())
    assert_no_device("does not start");
  else if (is_simulated())
    run_again_with("FAKECUDA_INIT_FAILS", "999");
}

static void assert_no_compiler(const char *reason) {
  BpIrModule *module = parse_verified(ADD_ONE);
  BpTarget *target = bp_target_parse("cuda -arch=sm_90");
  g_assert_null(bp_target_build(module, target));
  assert_error(BP_ERROR_COMPILE, reason);
  bp_object_release(target);
  bp_object_release(module);
}

static void test_missing_compiler_is_an_error_with_the_remedy(void) {
  if (g_test_subprocess())
    assert_no_compiler("on Debian the package libnvrtc12");
  else if (is_installed("libnvrtc.so.12") || is_installed("libnvrtc.so.13"))
    g_test_skip("the system has NVRTC");
  else
    run_again_with("BACKPLANE_NVRTC_LIBRARY", "");
}

static void test_missing_compiler_library_is_named(void) {
  if (g_test_subprocess())
    assert_no_compiler("that BACKPLANE_NVRTC_LIBRARY=/no/such/libnvrtc.so.12 names cannot be");
  else
    run_again_with("BACKPLANE_NVRTC_LIBRARY", "/no/such/libnvrtc.so.12");
}

static void test_compiler_that_is_too_new_is_refused(void) {
  if (g_test_subprocess())
    assert_no_compiler("of CUDA 13.1; versions from 12.0 to 13.0 are used");
  else if (is_simulated())
    run_again_with("FAKENVRTC_VERSION", "13.1");
}

/* ---- All --------------------------------------------------------------------------------- */

static void use_simulation(void) {
  char *driver = g_build_filename(g_getenv("top_builddir"), "tests/mock/.libs/fakecuda.so", NULL);
  char *compiler =
      g_build_filename(g_getenv("top_builddir"), "tests/mock/.libs/fakenvrtc.so", NULL);
  g_setenv("BACKPLANE_CUDA_LIBRARY", driver, FALSE);
  g_setenv("BACKPLANE_NVRTC_LIBRARY", compiler, FALSE);
  simulation = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
  if (!simulation)
    g_error("%s", dlerror());
  g_free(driver);
  g_free(compiler);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    GTestFunc function;
  } tests[] = {
      {"missing-driver-is-named-with-the-remedy", test_missing_driver_is_named_with_the_remedy},
      {"missing-library-is-named", test_missing_library_is_named},
      {"another-library-is-refused", test_another_library_is_refused},
      {"old-driver-is-refused", test_old_driver_is_refused},
      {"missing-gpu-is-a-reason", test_missing_gpu_is_a_reason},
      {"driver-that-does-not-start-is-a-reason", test_driver_that_does_not_start_is_a_reason},
      {"missing-compiler-is-an-error-with-the-remedy",
       test_missing_compiler_is_an_error_with_the_remedy},
      {"missing-compiler-library-is-named", test_missing_compiler_library_is_named},
      {"compiler-that-is-too-new-is-refused", test_compiler_that_is_too_new_is_refused},
      {"targets-are-checked", test_targets_are_checked},
      {"damaged-bytes-are-errors", test_damaged_bytes_are_errors},
      {"attributes-have-their-values", test_attributes_have_their_values},
      {"properties-name-memory-pools", test_properties_name_memory_pools},
      {"target-of-a-device-has-its-architecture", test_target_of_a_device_has_its_architecture},
      {"copies-are-exact", test_copies_are_exact},
      {"large-copies-are-exact", test_large_copies_are_exact},
      {"copies-between-devices", test_copies_between_devices},
      {"impossible-allocations-are-errors", test_impossible_allocations_are_errors},
      {"small-allocations-keep-large-alignments", test_small_allocations_keep_large_alignments},
      {"workspace-keeps-its-content", test_workspace_keeps_its_content},
      {"reserve-is-given-back", test_reserve_is_given_back},
      {"kernel-written-by-hand-runs", test_kernel_written_by_hand_runs},
      {"threads-launch-at-once", test_threads_launch_at_once},
      {"work-follows-the-order-of-streams", test_work_follows_the_order_of_streams},
      {"views-begin-at-their-offset", test_views_begin_at_their_offset},
      {"timers-measure-queued-work", test_timers_measure_queued_work},
      {"recordings-are-replayed", test_recordings_are_replayed},
      {"events-stand-for-recorded-work", test_events_stand_for_recorded_work},
      {"wrong-launches-are-errors", test_wrong_launches_are_errors},
      {"scalars-of-one-bit-are-passed", test_scalars_of_one_bit_are_passed},
      {"requested-shared-memory-can-be-used", test_requested_shared_memory_can_be_used},
      {"rejected-source-is-quoted", test_rejected_source_is_quoted},
      {"source-is-compiled-where-it-runs", test_source_is_compiled_where_it_runs},
      {"module-of-a-cubin-runs", test_module_of_a_cubin_runs},
      {"source-in-the-format-of-tvm-is-loaded", test_source_in_the_format_of_tvm_is_loaded},
      {"module-of-ptx-runs", test_module_of_ptx_runs},
      {"halves-have-equal-results-on-old-and-new-architectures",
       test_halves_have_equal_results_on_old_and_new_architectures},
      {"code-of-another-gpu-is-refused", test_code_of_another_gpu_is_refused},
      {"results-are-kept-on-disk", test_results_are_kept_on_disk},
      {"device-in-use-is-an-error-that-passes", test_device_in_use_is_an_error_that_passes},
      {"every-call-may-fail", test_every_call_may_fail},
      {"exhausted-memory-at-a-launch-is-an-error", test_exhausted_memory_at_a_launch_is_an_error},
      {"lost-device-is-an-error", test_lost_device_is_an_error},
      {"child-of-a-fork-gets-errors", test_child_of_a_fork_gets_errors},
      {"index-is-checked", test_index_is_checked},
      {"freeing-is-checked", test_freeing_is_checked},
  };
  g_test_init(&argc, &argv, NULL);
  if (!g_getenv("BP_TEST_GPU")) {
    char *compiler = g_find_program_in_path("c++");
    if (!compiler) {
      puts("1..0 # SKIP the simulation needs a C++ compiler");
      return 0;
    }
    g_free(compiler);
    use_simulation();
  }
  for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
    char *path = g_strdup_printf("/cuda/%s", tests[i].name);
    g_test_add_func(path, tests[i].function);
    g_free(path);
  }
  return g_test_run();
}
