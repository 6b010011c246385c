/* SPDX-License-Identifier: Apache-2.0 */
/* Requirements of every device: attributes, memory, copies, streams, workspace, tensors, DLPack,
 * forks.
 *
 * BP_TEST_DEVICES lists the devices, separated by spaces; a missing device is skipped, unless
 * BP_TEST_DEVICES lists it. */

#include "tests/core/asserts.h"
#include "tests/bare_device.h"

#include <backplane/device_extensions.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_DEVICES "simdev:0 simdev:1 cpu:0 opencl:0"

static const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1};
static const BpDevice host = {BP_DEVICE_CPU, 0};

static int try_alloc(BpDevice device, uint64_t size, uint64_t alignment, const char *scope,
                     void **handle) {
  const BpAllocation allocation = {.struct_size = sizeof allocation,
                                   .size = size,
                                   .alignment = alignment,
                                   .dtype = float32,
                                   .scope = scope};
  return bp_device_alloc(device, &allocation, handle);
}

static void *alloc(BpDevice device, uint64_t size) {
  void *handle = NULL;
  assert_ok(try_alloc(device, size, 64, NULL, &handle));
  g_assert_nonnull(handle);
  return handle;
}

static int upload(BpDevice device, const void *from, void *to, uint64_t offset, uint64_t size,
                  void *stream) {
  BpCopy copy = {sizeof(BpCopy), from, 0, host, to, offset, device, size, 0};
  return bp_device_copy(&copy, stream);
}

static int download(BpDevice device, const void *from, uint64_t offset, void *to, uint64_t size,
                    void *stream) {
  BpCopy copy = {sizeof(BpCopy), from, offset, device, to, 0, host, size, 0};
  return bp_device_copy(&copy, stream);
}

/* ---- A kind of the test's own, memory of the host's; its second device cannot be made current --
 */

static int32_t plain_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 2;
  *why = "";
  return 0;
}

#define VENDOR_ATTR 65536

static int32_t plain_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  (void)device_id;
  if (attr == BP_ATTR_EXIST)
    *result = (BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = 1};
  else if (attr == VENDOR_ATTR)
    *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 7};
  return attr == VENDOR_ATTR + 1 ? -1 : 0;
}

static int32_t plain_set_device(void *context, int32_t device_id) {
  (void)context;
  return device_id == 1 ? -1 : 0;
}

static int32_t plain_copy(void *context, const BpCopy *copy, void *stream) {
  g_assert_null(stream);
  return bare_host_copy(context, copy, stream);
}

static int32_t plain_sync(void *context, int32_t device_id, void *stream) {
  g_assert_null(stream);
  return bare_nothing(context, device_id, stream);
}

static const BpDeviceApi plain_api = {.struct_size = sizeof plain_api,
                                      .device_type = 61440 + 77,
                                      .name = "plain",
                                      .get_device_count = plain_count,
                                      .get_attr = plain_attr,
                                      .set_device = plain_set_device,
                                      .alloc_data_space = bare_host_alloc,
                                      .free_data_space = bare_host_free,
                                      .copy = plain_copy,
                                      .stream_sync = plain_sync};

/* ---- Attributes -------------------------------------------------------------------------- */

static const int32_t strings[] = {
    BP_ATTR_COMPUTE_VERSION, BP_ATTR_DEVICE_NAME, BP_ATTR_ARCH_NAME, BP_ATTR_API_VERSION,
    BP_ATTR_DRIVER_VERSION,  BP_ATTR_VENDOR,      BP_ATTR_UUID,      BP_ATTR_PCI_ADDRESS,
    BP_ATTR_TARGET};

static int is_string_attr(int32_t attr) {
  for (size_t i = 0; i < G_N_ELEMENTS(strings); i++)
    if (strings[i] == attr)
      return 1;
  return 0;
}

static void check_attr_type(int32_t attr, const BpValue *value) {
  BpByteArray text;
  if (value->type_index == BP_TYPE_NONE)
    return;
  if (is_string_attr(attr))
    g_assert_cmpint(bp_value_view_str(value, &text), ==, 0);
  else if (attr == BP_ATTR_MAX_THREAD_DIMENSIONS || attr == BP_ATTR_MAX_GRID_DIMENSIONS)
    g_assert_cmpint(value->type_index, ==, BP_TYPE_SHAPE);
  else if (attr == BP_ATTR_EXIST || attr == BP_ATTR_HOST_ACCESSIBLE)
    g_assert_cmpint(value->type_index, ==, BP_TYPE_BOOL);
  else
    g_assert_cmpint(value->type_index, ==, BP_TYPE_INT);
}

static void test_attributes_have_their_types(const void *data) {
  BpDevice device = device_of(data);
  for (int32_t attr = 0; bp_device_attr_name(attr); attr++) {
    BpValue value;
    assert_ok(bp_device_get_attr(device, attr, &value));
    check_attr_type(attr, &value);
    if (attr == BP_ATTR_EXIST)
      g_assert_cmpint(value.v_int64, ==, 1);
    bp_value_clear(&value);
    g_assert_cmpint(bp_device_attr_by_name(bp_device_attr_name(attr)), ==, attr);
  }
}

static void test_unknown_attributes_and_devices_are_errors(const void *data) {
  BpDevice device = device_of(data), absent = {device.device_type, 1000};
  BpValue value;
  void *handle;
  assert_ok(bp_device_get_attr(device, 65535, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_NONE);
  assert_raises(bp_device_get_attr(device, -1, &value), BP_ERROR_VALUE);
  g_assert_null(bp_device_attr_name(65535));
  g_assert_cmpint(bp_device_attr_by_name("max_of_nothing"), ==, -1);
  assert_raises(bp_device_get_attr(absent, BP_ATTR_DEVICE_NAME, &value), BP_ERROR_NOT_FOUND);
  assert_raises(try_alloc(absent, 4, 64, NULL, &handle), BP_ERROR_NOT_FOUND);
  assert_ok(bp_device_get_attr(absent, BP_ATTR_EXIST, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_BOOL);
  g_assert_cmpint(value.v_int64, ==, 0);
}

static void test_attributes_of_the_vendor_reach_the_plugin(void) {
  BpDevice device;
  BpValue value;
  assert_ok(bp_device_parse("plain:0", &device));
  assert_ok(bp_device_get_attr(device, VENDOR_ATTR, &value));
  g_assert_cmpint(value.type_index, ==, BP_TYPE_INT);
  g_assert_cmpint(value.v_int64, ==, 7);
  assert_raises(bp_device_get_attr(device, VENDOR_ATTR + 1, &value), BP_ERROR_DEVICE);
}

static void test_text_parses_back(const void *data) {
  char text[64];
  BpDevice device = device_of(data), again;
  bp_device_format(device, text, sizeof text);
  g_assert_cmpstr(text, ==, data);
  assert_ok(bp_device_parse(text, &again));
  g_assert_cmpint(again.device_type, ==, device.device_type);
  g_assert_cmpint(again.device_id, ==, device.device_id);
}

/* ---- Memory and copies ------------------------------------------------------------------- */

static void test_copies_reach_every_byte(const void *data) {
  BpDevice device = device_of(data);
  static const uint64_t sizes[] = {1, 3, 4, 64, 1000, 65536, 1000003};
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
    g_autofree char *out = g_malloc(sizes[i]), *in = g_malloc0(sizes[i]);
    for (uint64_t j = 0; j < sizes[i]; j++)
      out[j] = (char)(j * 31 + i);
    void *handle = alloc(device, sizes[i]);
    g_autofree char *gone = g_memdup2(out, sizes[i]);
    assert_ok(upload(device, gone, handle, 0, sizes[i], NULL));
    memset(gone, 0, sizes[i]); /* the source has been consumed */
    assert_ok(download(device, handle, 0, in, sizes[i], NULL));
    assert_ok(bp_stream_sync(device, NULL));
    g_assert_cmpmem(in, sizes[i], out, sizes[i]);
    assert_ok(bp_device_free(device, handle));
  }
}

static void test_copies_have_offsets(const void *data) {
  BpDevice device = device_of(data);
  char out[256], in[256];
  for (int i = 0; i < 256; i++)
    out[i] = (char)i;
  void *a = alloc(device, 256), *b = alloc(device, 512);
  assert_ok(upload(device, out, a, 0, 256, NULL));
  assert_ok(upload(device, out, a, 100, 7, NULL));
  BpCopy copy = {sizeof(BpCopy), a, 96, device, b, 300, device, 40, 0};
  assert_ok(bp_device_copy(&copy, NULL));
  assert_ok(download(device, b, 300, in, 40, NULL));
  assert_ok(bp_stream_sync(device, NULL));
  for (int i = 0; i < 40; i++)
    g_assert_cmpint(in[i], ==, (char)(i >= 4 && i < 11 ? i - 4 : i + 96));
  assert_ok(bp_device_free(device, a));
  assert_ok(bp_device_free(device, b));
}

static void test_empty_memory_is_memory(const void *data) {
  BpDevice device = device_of(data);
  void *handle = alloc(device, 0);
  assert_ok(upload(device, "", handle, 0, 0, NULL));
  assert_ok(bp_device_free(device, handle));
  assert_ok(bp_device_free(device, NULL));
  /* An extent of 0 makes a tensor without bytes, however large its other extents are. */
  const int64_t shape[] = {INT64_MAX, INT64_MAX, 0, INT64_MAX, 2};
  BpTensor *tensor = bp_tensor_create(shape, 5, float32, device, NULL);
  g_assert_nonnull(tensor);
  g_assert_cmpint(bp_view_num_bytes(&tensor->view), ==, 0);
  bp_object_release(tensor);
}

static void test_bad_requests_are_errors(const void *data) {
  BpDevice device = device_of(data);
  void *handle = alloc(device, 16), *none;
  assert_raises(try_alloc(device, 16, 3, NULL, &none), BP_ERROR_VALUE);
  g_assert_cmpint(try_alloc(device, 16, 64, "no such scope", &none), ==, -1);
  bp_error_clear();
  assert_raises(upload(device, NULL, handle, 0, 4, NULL), BP_ERROR_VALUE);
  assert_raises(upload(device, "1234", handle, UINT64_MAX, 4, NULL), BP_ERROR_VALUE);
  assert_ok(bp_device_free(device, handle));
}

static void test_extensions_are_found_by_name(const void *data) {
  BpDevice device = device_of(data);
  g_assert_null(bp_device_extension(device.device_type, "no such extension", 1));
  g_assert_cmpstr(bp_error_kind(), ==, "");
  assert_raises(bp_device_extension(device.device_type, NULL, 1) ? 0 : -1, BP_ERROR_VALUE);
  const BpTimerApi *timers =
      bp_device_extension(device.device_type, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  if (!timers) {
    g_test_skip("the device has no timers");
    return;
  }
  void *context = bp_device_api(device.device_type)->context, *timer = NULL;
  int64_t nanoseconds = -1;
  assert_ok(timers->start(context, device.device_id, NULL, &timer));
  assert_ok(timers->stop(context, timer, NULL));
  assert_ok(timers->read(context, timer, &nanoseconds));
  g_assert_cmpint(nanoseconds, >=, 0);
  assert_ok(timers->free(context, timer));
}

static void test_exhaustion_leaves_the_device_usable(const void *data) {
  BpDevice device = device_of(data);
  void *handle;
  assert_raises(try_alloc(device, (uint64_t)1 << 60, 64, NULL, &handle), BP_ERROR_MEMORY);
  assert_raises(try_alloc(device, UINT64_MAX, 64, NULL, &handle), BP_ERROR_MEMORY);
  test_copies_have_offsets(data);
}

/* A copy of more bytes than the host stages at once, at odd offsets. */
#define LARGE ((uint64_t)(17 << 20) + 5)

static void test_copy_between_kinds_keeps_order(const void *data) {
  BpDevice device = device_of(data), other = device_of("plain:0");
  void *first, *second, *a = alloc(device, LARGE + 3), *b = alloc(other, LARGE + 7);
  g_autofree char *out = g_malloc(LARGE), *in = g_malloc0(LARGE);
  for (uint64_t i = 0; i < LARGE; i++)
    out[i] = (char)(i * 7 + (i >> 16));
  assert_ok(bp_stream_create(device, &first));
  assert_ok(bp_stream_create(device, &second));
  assert_ok(bp_device_set_current(device, first));
  assert_ok(upload(device, out, a, 3, LARGE, first));
  const BpCopy there = {sizeof(BpCopy), a, 3, device, b, 7, other, LARGE, 0};
  assert_ok(bp_device_copy(&there, NULL));
  g_assert_true(other.device_type == BP_DEVICE_CPU || !memcmp((char *)b + 7, out, LARGE));
  for (uint64_t i = 0; i < LARGE; i++)
    ((char *)b)[7 + i] ^= 1;
  const BpCopy back = {sizeof(BpCopy), b, 7, other, a, 0, device, LARGE, 0};
  assert_ok(bp_device_copy(&back, second));
  assert_ok(download(device, a, 0, in, LARGE, second));
  assert_ok(bp_stream_sync(device, second));
  for (uint64_t i = 0; i < LARGE; i++)
    if (in[i] != (out[i] ^ 1))
      g_error("byte %" G_GUINT64_FORMAT " is %d", i, in[i]);
  assert_ok(bp_device_set_current((BpDevice){device.device_type, 0}, NULL));
  assert_ok(bp_stream_free(device, first));
  assert_ok(bp_stream_free(device, second));
  assert_ok(bp_device_free(device, a));
  assert_ok(bp_device_free(other, b));
}

static void test_copy_between_kinds_says_what_fails(const void *data) {
  BpDevice device = device_of(data), other = device_of("plain:0");
  if (device.device_type == BP_DEVICE_CPU) {
    g_test_skip("the host is one end of it");
    return;
  }
  char byte;
  void *a = alloc(device, 16);
  const BpCopy absent = {sizeof(BpCopy), a, 0, device, &byte, 0, {other.device_type, 9}, 1, 0};
  assert_raises(bp_device_copy(&absent, NULL), BP_ERROR_NOT_FOUND);
  assert_ok(bp_device_free(device, a));
}

/* ---- Nothing ----------------------------------------------------------------------------- */

#define REFUSES(call)                                                                              \
  do {                                                                                             \
    g_assert_true(call);                                                                           \
    g_assert_true(bp_error_is(BP_ERROR_VALUE));                                                    \
    bp_error_clear();                                                                              \
  } while (0)

static void test_null_is_an_error(void) {
  const BpDevice cpu = {BP_DEVICE_CPU, 0};
  const BpDataType byte = {BP_DTYPE_UINT, 8, 1};
  BpTensorView no_shape = {.ndim = 4, .dtype = byte, .device = cpu};
  BpDevice device;
  char data = 0;
  REFUSES(bp_device_parse(NULL, &device));
  REFUSES(bp_device_parse("cpu", NULL));
  REFUSES(bp_device_select("cpu", NULL, NULL));
  REFUSES(bp_device_count(BP_DEVICE_CPU, NULL, NULL));
  REFUSES(bp_device_get_attr(cpu, BP_ATTR_EXIST, NULL));
  g_assert_cmpint(bp_device_attr_by_name(NULL), ==, -1);
  REFUSES(try_alloc(cpu, 1, 0, NULL, NULL));
  REFUSES(bp_workspace_alloc(cpu, 1, byte, NULL));
  REFUSES(bp_device_copy(NULL, NULL));
  REFUSES(bp_stream_create(cpu, NULL));
  REFUSES(!bp_tensor_create_view(NULL, NULL, 0, byte, 0));
  REFUSES(!bp_tensor_wrap(NULL, NULL, NULL));
  REFUSES(!bp_tensor_wrap(&no_shape, NULL, NULL));
  REFUSES(bp_tensor_copy(NULL, NULL, NULL));
  REFUSES(bp_tensor_copy_from_host(NULL, &data, 1));
  REFUSES(bp_tensor_copy_to_host(NULL, &data, 1));
  REFUSES(!bp_tensor_to_dlpack(NULL));
  REFUSES(!bp_tensor_to_dlpack_versioned(NULL));
  REFUSES(!bp_tensor_from_dlpack(NULL));
  REFUSES(!bp_tensor_from_dlpack_versioned(NULL));
}

#define FREED_BYTES ((size_t)32 << 20) /* a copy takes milliseconds */

typedef struct Freed {
  BpDevice device;
  void *_Atomic handle;
  atomic_int is_over;
} Freed;

/* Copies to and from a buffer that another thread frees: each copy succeeds, or is an error. */
static void *copy_while_freed(void *data) {
  Freed *freed = data;
  g_autofree char *bytes = g_malloc0(FREED_BYTES);
  while (!atomic_load(&freed->is_over)) {
    void *handle = atomic_load(&freed->handle);
    if (upload(freed->device, bytes, handle, 0, FREED_BYTES, NULL) ||
        download(freed->device, handle, 0, bytes, FREED_BYTES, NULL))
      assert_raises(-1, BP_ERROR_VALUE);
    assert_ok(bp_stream_sync(freed->device, NULL));
  }
  return NULL;
}

static void test_freeing_while_another_thread_copies_is_no_crash(const void *data) {
  Freed freed = {.device = device_of(data)};
  pthread_t thread;
  void *handle;
  if (freed.device.device_type != BP_DEVICE_OPENCL &&
      freed.device.device_type != BP_DEVICE_VULKAN) {
    g_test_skip("its handles are addresses, which the caller guards");
    return;
  }
  assert_ok(try_alloc(freed.device, FREED_BYTES, 256, NULL, &handle));
  atomic_store(&freed.handle, handle);
  g_assert_cmpint(pthread_create(&thread, NULL, copy_while_freed, &freed), ==, 0);
  for (int i = 0; i < 20; i++) {
    void *next;
    assert_ok(try_alloc(freed.device, FREED_BYTES, 256, NULL, &next));
    g_usleep(5000 + 700 * (gulong)i);
    assert_ok(bp_device_free(freed.device, atomic_exchange(&freed.handle, next)));
  }
  atomic_store(&freed.is_over, 1);
  g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
  assert_ok(bp_device_free(freed.device, atomic_load(&freed.handle)));
}

/* ---- Streams ----------------------------------------------------------------------------- */

static void test_streams_are_in_order_and_can_be_ordered(const void *data) {
  BpDevice device = device_of(data);
  void *first, *second, *handle = alloc(device, 4);
  int number = 0;
  assert_ok(bp_stream_create(device, &first));
  assert_ok(bp_stream_create(device, &second));
  for (int i = 1; i <= 20; i++)
    assert_ok(upload(device, &i, handle, 0, sizeof i, first));
  assert_ok(bp_stream_sync_from_to(device, first, second));
  assert_ok(download(device, handle, 0, &number, sizeof number, second));
  assert_ok(bp_stream_sync(device, second));
  g_assert_cmpint(number, ==, 20);
  assert_ok(bp_stream_free(device, first));
  assert_ok(bp_stream_free(device, second));
  assert_ok(bp_device_free(device, handle));
}

static void test_freed_or_foreign_stream_is_an_error(const void *data) {
  BpDevice device = device_of(data), current = {device.device_type, -1};
  void *stream, *other, *handle = alloc(device, 4), *made_up = &current;
  int number = 0;
  const BpCopy copy = {sizeof(BpCopy), &number,       0, {BP_DEVICE_CPU, 0}, handle, 0,
                       device,         sizeof number, 0};
  assert_ok(bp_stream_create(device, &stream));
  if (stream) {
    assert_ok(bp_device_set_current(device, stream));
    assert_ok(bp_stream_free(device, stream));
    bp_device_get_current(device.device_type, &current.device_id, &other);
    g_assert_null(other);
    assert_raises(bp_stream_free(device, stream), BP_ERROR_VALUE);
    made_up = stream;
  }
  assert_raises(bp_stream_free(device, made_up), BP_ERROR_VALUE);
  assert_raises(bp_stream_sync(device, made_up), BP_ERROR_VALUE);
  assert_raises(bp_stream_sync_from_to(device, made_up, NULL), BP_ERROR_VALUE);
  assert_raises(bp_stream_sync_from_to(device, NULL, made_up), BP_ERROR_VALUE);
  assert_raises(bp_device_set_current(device, made_up), BP_ERROR_VALUE);
  assert_raises(bp_device_copy(&copy, made_up), BP_ERROR_VALUE);
  assert_ok(bp_device_free(device, handle));
}

/* Work queued before a free still completes. */
static void test_freeing_defers_past_queued_work(const void *data) {
  BpDevice device = device_of(data);
  int numbers[8] = {0};
  void *target = alloc(device, sizeof numbers);
  for (int i = 0; i < 8; i++) {
    void *handle = alloc(device, sizeof i);
    assert_ok(upload(device, &i, handle, 0, sizeof i, NULL));
    BpCopy copy = {sizeof(BpCopy),         handle, 0,        device, target,
                   (uint64_t)i * sizeof i, device, sizeof i, 0};
    assert_ok(bp_device_copy(&copy, NULL));
    assert_ok(bp_device_free(device, handle));
  }
  assert_ok(download(device, target, 0, numbers, sizeof numbers, NULL));
  assert_ok(bp_stream_sync(device, NULL));
  for (int i = 0; i < 8; i++)
    g_assert_cmpint(numbers[i], ==, i);
  assert_ok(bp_device_free(device, target));
}

static void *check_default_is_current(void *data) {
  BpDevice device = device_of(data);
  int32_t device_id = -1;
  void *stream = &device;
  bp_device_get_current(device.device_type, &device_id, &stream);
  g_assert_cmpint(device_id, ==, 0);
  g_assert_null(stream);
  return NULL;
}

static void test_current_stream_is_of_the_thread(const void *data) {
  BpDevice device = device_of(data);
  int32_t device_id;
  void *stream, *current;
  pthread_t thread;
  assert_ok(bp_stream_create(device, &stream));
  assert_ok(bp_device_set_current(device, stream));
  bp_device_get_current(device.device_type, &device_id, &current);
  g_assert_cmpint(device_id, ==, device.device_id);
  g_assert_true(current == stream);
  g_assert_cmpint(pthread_create(&thread, NULL, check_default_is_current, (void *)(uintptr_t)data),
                  ==, 0);
  g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
  BpDevice first = {device.device_type, 0};
  assert_ok(bp_device_set_current(first, NULL));
  assert_ok(bp_stream_free(device, stream));
}

static void test_failing_to_become_current(void) {
  BpDevice device = device_of("plain:1");
  int32_t device_id;
  void *stream;
  assert_raises(bp_device_set_current(device, NULL), BP_ERROR_DEVICE);
  bp_device_get_current(device.device_type, &device_id, &stream);
  g_assert_cmpint(device_id, ==, 0);
}

/* ---- Workspace --------------------------------------------------------------------------- */

static void test_workspace_is_freed_in_any_order(const void *data) {
  BpDevice device = device_of(data);
  for (int round = 0; round < 10; round++) {
    void *spaces[40];
    for (int i = 0; i < 40; i++) {
      assert_ok(bp_workspace_alloc(device, (uint64_t)(i * 1000 + round), float32, &spaces[i]));
      for (int j = 0; j < i; j++)
        g_assert_true(spaces[i] != spaces[j]);
    }
    for (int i = 0; i < 40; i++)
      assert_ok(bp_workspace_free(device, spaces[(i * 7 + round) % 40]));
  }
}

static void test_workspace_is_memory(const void *data) {
  BpDevice device = device_of(data);
  void *space;
  char in[5] = "";
  assert_ok(bp_workspace_alloc(device, 5, float32, &space));
  assert_ok(upload(device, "work", space, 0, 5, NULL));
  assert_ok(download(device, space, 0, in, 5, NULL));
  assert_ok(bp_stream_sync(device, NULL));
  g_assert_cmpstr(in, ==, "work");
  assert_ok(bp_workspace_free(device, space));
}

static void test_workspace_of_nobody_is_an_error(const void *data) {
  BpDevice device = device_of(data);
  void *space;
  assert_ok(bp_workspace_alloc(device, 5, float32, &space));
  assert_ok(bp_workspace_free(device, space));
  assert_raises(bp_workspace_free(device, space), BP_ERROR_VALUE);
}

/* Work that was queued on the first stream may be unfinished. */
static void test_workspace_goes_to_no_other_stream(const void *data) {
  BpDevice device = device_of(data);
  void *streams[3], *spaces[3], *again;
  const BpDeviceApi *api = bp_device_api(device.device_type);
  g_assert_nonnull(api);
  if (!api->create_stream || api->alloc_workspace) {
    g_test_skip("the device has one stream, or workspace of its own");
    return;
  }
  for (int i = 0; i < 3; i++) {
    assert_ok(bp_stream_create(device, &streams[i]));
    assert_ok(bp_device_set_current(device, streams[i]));
    assert_ok(bp_workspace_alloc(device, 12345, float32, &spaces[i]));
    assert_ok(bp_workspace_free(device, spaces[i]));
    for (int j = 0; j < i; j++)
      g_assert_true(spaces[i] != spaces[j]);
  }
  for (int i = 0; i < 3; i++) {
    assert_ok(bp_device_set_current(device, streams[i]));
    assert_ok(bp_workspace_alloc(device, 12345, float32, &again));
    g_assert_true(again == spaces[i]);
    assert_ok(bp_workspace_free(device, again));
    assert_ok(bp_stream_free(device, streams[i]));
  }
  assert_ok(bp_device_set_current((BpDevice){device.device_type, 0}, NULL));
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static void test_tensors_and_views_hold_their_values(const void *data) {
  BpDevice device = device_of(data);
  static const int64_t shape[] = {4, 8}, part[] = {2, 8};
  float out[32], in[16];
  for (int i = 0; i < 32; i++)
    out[i] = (float)i;
  BpTensor *tensor = bp_tensor_create(shape, 2, float32, device, NULL);
  g_assert_nonnull(tensor);
  assert_ok(bp_tensor_copy_from_host(&tensor->view, out, sizeof out));
  BpTensor *view = bp_tensor_create_view(tensor, part, 2, float32, 64);
  g_assert_nonnull(view);
  bp_object_release(tensor);
  assert_ok(bp_tensor_copy_to_host(&view->view, in, sizeof in));
  for (int i = 0; i < 16; i++)
    g_assert_true(in[i] == (float)(i + 16));
  g_assert_null(bp_tensor_create_view(view, part, 2, float32, 4));
  assert_raises(-1, BP_ERROR_INDEX);
  assert_raises(bp_tensor_copy_to_host(&view->view, in, sizeof in - 4), BP_ERROR_VALUE);
  bp_object_release(view);
}

static void test_views_of_one_tensor_copy_to_each_other(const void *data) {
  BpDevice device = device_of(data);
  static const int64_t shape[] = {8}, half[] = {4};
  static const float out[] = {1, 2, 3, 4, 5, 6, 7, 8};
  float in[8];
  BpTensor *tensor = bp_tensor_create(shape, 1, float32, device, NULL);
  BpTensor *low = bp_tensor_create_view(tensor, half, 1, float32, 0);
  BpTensor *high = bp_tensor_create_view(tensor, half, 1, float32, 16);
  assert_ok(bp_tensor_copy_from_host(&tensor->view, out, sizeof out));
  assert_ok(bp_tensor_copy(&high->view, &low->view, NULL));
  assert_ok(bp_tensor_copy_to_host(&tensor->view, in, sizeof in));
  for (int i = 0; i < 8; i++)
    g_assert_true(in[i] == (float)(i % 4 + 5));
  static const int64_t square[] = {2, 2}, three[] = {3};
  static const BpDataType int32 = {BP_DTYPE_INT, 32, 1};
  BpTensor *integers = bp_tensor_create_view(tensor, half, 1, int32, 0);
  BpTensor *matrix = bp_tensor_create_view(tensor, square, 2, float32, 0);
  BpTensor *shorter = bp_tensor_create_view(tensor, three, 1, float32, 0);
  assert_raises(bp_tensor_copy(&high->view, &integers->view, NULL), BP_ERROR_TYPE);
  assert_raises(bp_tensor_copy(&high->view, &matrix->view, NULL), BP_ERROR_VALUE);
  assert_raises(bp_tensor_copy(&high->view, &shorter->view, NULL), BP_ERROR_VALUE);
  assert_ok(bp_tensor_copy_to_host(&tensor->view, in, sizeof in));
  for (int i = 0; i < 8; i++)
    g_assert_true(in[i] == (float)(i % 4 + 5));
  bp_object_release(shorter);
  bp_object_release(matrix);
  bp_object_release(integers);
  bp_object_release(low);
  bp_object_release(high);
  bp_object_release(tensor);
}

static void test_packed_elements_have_their_bytes(const void *data) {
  BpDevice device = device_of(data);
  static const BpDataType nibble = {BP_DTYPE_INT, 4, 1}, byte = {BP_DTYPE_UINT, 8, 1};
  static const int64_t five = 5, three = 3;
  static const char out[] = {0x21, 0x43, 0x05};
  char in[3] = {0};
  BpTensor *tensor = bp_tensor_create(&five, 1, nibble, device, NULL);
  g_assert_cmpint(bp_view_num_bytes(&tensor->view), ==, 3);
  assert_ok(bp_tensor_copy_from_host(&tensor->view, out, sizeof out));
  BpTensor *bytes = bp_tensor_create_view(tensor, &three, 1, byte, 0);
  assert_ok(bp_tensor_copy_to_host(&bytes->view, in, sizeof in));
  g_assert_cmpmem(in, sizeof in, out, sizeof out);
  bp_object_release(bytes);
  bp_object_release(tensor);
}

static void test_impossible_tensors_are_errors(const void *data) {
  BpDevice device = device_of(data);
  static const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX, 2}, large[] = {INT64_MAX / 4};
  g_assert_null(bp_tensor_create(negative, 2, float32, device, NULL));
  assert_raises(-1, BP_ERROR_VALUE);
  g_assert_null(bp_tensor_create(huge, 2, float32, device, NULL));
  assert_raises(-1, BP_ERROR_VALUE);
  g_assert_null(bp_tensor_create(large, 1, float32, device, NULL));
  assert_raises(-1, BP_ERROR_MEMORY);
  g_assert_null(bp_tensor_create(negative, -1, float32, device, NULL));
  assert_raises(-1, BP_ERROR_VALUE);
}

static void test_dlpack_round_trip(const void *data) {
  BpDevice device = device_of(data);
  static const int64_t shape[] = {2, 3};
  static const float out[] = {1, 2, 3, 4, 5, 6};
  float in[6] = {0};
  BpTensor *tensor = bp_tensor_create(shape, 2, float32, device, NULL);
  assert_ok(bp_tensor_copy_from_host(&tensor->view, out, sizeof out));
  BpManagedTensor *legacy = bp_tensor_to_dlpack(tensor);
  BpManagedTensorVersioned *versioned = bp_tensor_to_dlpack_versioned(tensor);
  bp_object_release(tensor);
  g_assert_cmpint(versioned->version_major, ==, 1);
  g_assert_cmpint(versioned->view.device.device_type, ==, device.device_type);
  g_assert_nonnull(versioned->view.strides);
  BpTensor *first = bp_tensor_from_dlpack(legacy);
  BpTensor *second = bp_tensor_from_dlpack_versioned(versioned);
  g_assert_true(first->view.data == second->view.data);
  bp_object_release(first);
  assert_ok(bp_tensor_copy_to_host(&second->view, in, sizeof in));
  g_assert_cmpmem(in, sizeof in, out, sizeof out);
  bp_object_release(second);
}

static void test_dlpack_of_another_version_is_refused(const void *data) {
  BpDevice device = device_of(data);
  static const int64_t shape[] = {2};
  BpTensor *tensor = bp_tensor_create(shape, 1, float32, device, NULL);
  BpManagedTensorVersioned *managed = bp_tensor_to_dlpack_versioned(tensor);
  managed->version_major = 2;
  g_assert_null(bp_tensor_from_dlpack_versioned(managed));
  assert_raises(-1, BP_ERROR_VALUE);
  managed->version_major = 1;
  managed->view.device.device_type = 4000;
  g_assert_null(bp_tensor_from_dlpack_versioned(managed));
  assert_raises(-1, BP_ERROR_NOT_FOUND);
  managed->deleter(managed);
  bp_object_release(tensor);
}

static void test_dlpack_keeps_read_only(const void *data) {
  BpDevice device = device_of(data);
  static const int64_t shape[] = {2};
  BpTensor *tensor = bp_tensor_create(shape, 1, float32, device, NULL);
  BpManagedTensorVersioned *managed = bp_tensor_to_dlpack_versioned(tensor);
  g_assert_cmpuint(managed->flags, ==, 0);
  bp_object_release(tensor);
  managed->flags = BP_DLPACK_READ_ONLY;
  tensor = bp_tensor_from_dlpack_versioned(managed);
  BpTensor *view = bp_tensor_create_view(tensor, shape, 1, float32, 0);
  bp_object_release(tensor);
  g_assert_null(bp_tensor_to_dlpack(view));
  assert_raises(-1, BP_ERROR_VALUE);
  managed = bp_tensor_to_dlpack_versioned(view);
  g_assert_cmpuint(managed->flags, ==, BP_DLPACK_READ_ONLY);
  managed->deleter(managed);
  bp_object_release(view);
}

/* ---- Threads ----------------------------------------------------------------------------- */

static void *work_in_thread(void *data) {
  BpDevice device = device_of(data);
  void *stream;
  assert_ok(bp_stream_create(device, &stream));
  for (int i = 0; i < 20; i++) {
    int in = -1;
    void *handle = alloc(device, sizeof i), *space;
    assert_ok(bp_workspace_alloc(device, sizeof i, float32, &space));
    assert_ok(upload(device, &i, handle, 0, sizeof i, stream));
    BpCopy copy = {sizeof(BpCopy), handle, 0, device, space, 0, device, sizeof i, 0};
    assert_ok(bp_device_copy(&copy, stream));
    assert_ok(download(device, space, 0, &in, sizeof in, stream));
    assert_ok(bp_stream_sync(device, stream));
    g_assert_cmpint(in, ==, i);
    assert_ok(bp_workspace_free(device, space));
    assert_ok(bp_device_free(device, handle));
  }
  assert_ok(bp_stream_free(device, stream));
  return NULL;
}

static void test_threads_work_at_once(const void *data) {
  pthread_t threads[8];
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, work_in_thread, (void *)(uintptr_t)data), ==,
                    0);
  for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
    g_assert_cmpint(pthread_join(threads[i], NULL), ==, 0);
}

/* ---- Forks ------------------------------------------------------------------------------- */

/* Counts the slots of a device's table that do not fail in the child of a fork. */
static int count_successes(BpDevice device, const BpDeviceApi *api, void *handle) {
  int32_t count;
  void *out;
  BpValue value;
  BpCopy copy = {sizeof(BpCopy), handle, 0, device, handle, 0, device, 1, 0};
  int failures = try_alloc(device, 1, 64, NULL, &out) != 0;
  failures += bp_device_copy(&copy, NULL) != 0;
  failures += bp_stream_sync(device, NULL) != 0;
  /* The error must name the fork, not an invalid stream. */
  failures += bp_stream_free(device, handle) != 0 && bp_error_is(BP_ERROR_DEVICE);
  failures += bp_stream_create(device, &out) != 0;
  failures += bp_workspace_alloc(device, 1, float32, &out) != 0;
  failures += bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &value) != 0;
  failures += bp_device_count(device.device_type, &count, NULL) != 0;
  failures += bp_device_select(NULL, &device, NULL) != 0;
  failures += api->copy(api->context, &copy, NULL) != 0;
  failures += api->stream_sync(api->context, device.device_id, NULL) != 0;
  failures += api->get_device_count(api->context, &count, NULL) != 0;
  return 12 - failures;
}

static void test_after_a_fork_every_entry_fails_at_once(const void *data) {
  BpDevice device = device_of(data);
  const BpDeviceApi *api = bp_device_api(device.device_type);
  void *handle = alloc(device, 16);
  g_assert_nonnull(api);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(count_successes(device, api, handle));
  }
  int status;
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_true(WIFEXITED(status));
  g_assert_cmpint(WEXITSTATUS(status), ==, 0);
  test_copies_have_offsets(data);
  assert_ok(bp_device_free(device, handle));
}

/* ---- The list of tests ------------------------------------------------------------------- */

static const struct {
  const char *path;
  GTestDataFunc test;
} tests[] = {
    {"attributes/have-their-types", test_attributes_have_their_types},
    {"attributes/unknown-ones-are-errors", test_unknown_attributes_and_devices_are_errors},
    {"text-parses-back", test_text_parses_back},
    {"copy/reaches-every-byte", test_copies_reach_every_byte},
    {"copy/has-offsets", test_copies_have_offsets},
    {"copy/between-kinds-keeps-order", test_copy_between_kinds_keeps_order},
    {"copy/between-kinds-says-what-fails", test_copy_between_kinds_says_what_fails},
    {"extensions/are-found-by-name", test_extensions_are_found_by_name},
    {"memory/empty-is-memory", test_empty_memory_is_memory},
    {"memory/bad-requests-are-errors", test_bad_requests_are_errors},
    {"memory/exhaustion-leaves-the-device-usable", test_exhaustion_leaves_the_device_usable},
    {"memory/freeing-while-another-thread-copies-is-no-crash",
     test_freeing_while_another_thread_copies_is_no_crash},
    {"stream/in-order-and-can-be-ordered", test_streams_are_in_order_and_can_be_ordered},
    {"stream/freed-or-foreign-is-an-error", test_freed_or_foreign_stream_is_an_error},
    {"stream/freeing-defers-past-queued-work", test_freeing_defers_past_queued_work},
    {"stream/current-one-is-of-the-thread", test_current_stream_is_of_the_thread},
    {"workspace/is-freed-in-any-order", test_workspace_is_freed_in_any_order},
    {"workspace/is-memory", test_workspace_is_memory},
    {"workspace/of-nobody-is-an-error", test_workspace_of_nobody_is_an_error},
    {"workspace/goes-to-no-other-stream", test_workspace_goes_to_no_other_stream},
    {"tensor/and-views-hold-their-values", test_tensors_and_views_hold_their_values},
    {"tensor/views-of-one-copy-to-each-other", test_views_of_one_tensor_copy_to_each_other},
    {"tensor/packed-elements-have-their-bytes", test_packed_elements_have_their_bytes},
    {"tensor/impossible-ones-are-errors", test_impossible_tensors_are_errors},
    {"dlpack/round-trip", test_dlpack_round_trip},
    {"dlpack/of-another-version-is-refused", test_dlpack_of_another_version_is_refused},
    {"dlpack/keeps-read-only", test_dlpack_keeps_read_only},
    {"threads-work-at-once", test_threads_work_at_once},
    {"after-a-fork-every-entry-fails-at-once", test_after_a_fork_every_entry_fails_at_once},
};

static void skip(const void *why) {
  g_test_skip(why);
}

static int is_there(const char *text, int is_wanted) {
  BpDevice device;
  BpValue value = {.type_index = BP_TYPE_NONE};
  if (bp_device_parse(text, &device) || bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &value)) {
    if (is_wanted)
      g_error("%s: %s", text, bp_error_message());
    g_autofree char *path = g_strdup_printf("/device/%s", text);
    g_test_add_data_func_full(path, g_strdup(bp_error_message()), skip, g_free);
    bp_error_clear();
    return 0;
  }
  bp_value_clear(&value);
  return 1;
}

static void add_tests(const char *device, int is_wanted) {
  if (!is_there(device, is_wanted))
    return;
  for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
    g_autofree char *path = g_strdup_printf("/device/%s/%s", device, tests[i].path);
    g_test_add_data_func_full(path, g_strdup(device), tests[i].test, g_free);
  }
}

#define LONG_WORD "a0123456789b0123456789c0123456789d0123456789"
#define LONG_KIND LONG_WORD LONG_WORD LONG_WORD

/* A name as long as `remote:` with the name of a machine, which errors once cut off. */
static void test_long_kind_is_shown_whole(void) {
  static BpDeviceApi api;
  BpDevice device;
  api = plain_api;
  api.device_type++;
  api.name = LONG_KIND;
  assert_ok(bare_register("device_api." LONG_KIND, &api));
  assert_ok(bp_device_parse(LONG_KIND, &device));
  g_assert_null(bp_target_from_device(device));
  g_assert_nonnull(strstr(bp_error_message(), LONG_KIND ":0 does not say"));
  bp_error_clear();
}

/* The flags of the mapping that contains the address, as the kernel lists them (transfer full). */
static char *read_mapping_flags(const void *address) {
  g_autofree char *text = NULL;
  guint64 first = 0, end = 0, wanted = (uintptr_t)address;
  g_assert_true(g_file_get_contents("/proc/self/smaps", &text, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line; line++) {
    if (sscanf(*line, "%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x ", &first, &end) == 2)
      continue;
    if (g_str_has_prefix(*line, "VmFlags:") && first <= wanted && wanted < end)
      return g_strconcat(*line, " ", NULL);
  }
  return g_strdup("");
}

static void test_large_host_memory_asks_for_huge_pages(void) {
  if (!g_file_test("/sys/kernel/mm/transparent_hugepage/enabled", G_FILE_TEST_EXISTS)) {
    g_test_skip("this kernel has no transparent huge pages");
    return;
  }
  void *large = alloc(host, 8 << 20);
  g_autofree char *flags = read_mapping_flags(large);
  g_assert_nonnull(strstr(flags, " hg "));
  g_assert_cmpuint((uintptr_t)large % (2 << 20), ==, 0);
  assert_ok(bp_device_free(host, large));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_auto(GStrv) devices = bare_list_devices(DEFAULT_DEVICES);
  assert_ok(bare_register("device_api.plain", &plain_api));
  for (char **device = devices; *device; device++)
    add_tests(*device, g_getenv("BP_TEST_DEVICES") != NULL);
  g_test_add_func("/device/null-is-an-error", test_null_is_an_error);
  g_test_add_func("/device/attributes-of-the-vendor-reach-the-plugin",
                  test_attributes_of_the_vendor_reach_the_plugin);
  g_test_add_func("/device/failing-to-become-current-is-an-error", test_failing_to_become_current);
  g_test_add_func("/device/long-kind-is-shown-whole", test_long_kind_is_shown_whole);
  g_test_add_func("/device/large-host-memory-asks-for-huge-pages",
                  test_large_host_memory_asks_for_huge_pages);
  return g_test_run();
}
