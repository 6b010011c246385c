/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of this device beyond the ABI (the conformance kit checks the ABI): handles are not
 * addresses and end with their buffer; work is done later; and the effects of freeing a stream. */
#include "testing.h"

/* Host memory, a buffer of another device, and a freed buffer are refused by name. */
static void test_only_its_handles_are_taken(BpDevice device) {
  const BpDevice other = {device.device_type, 1 - device.device_id};
  char here[16] = "";
  void *mine = alloc(device, 16), *others = alloc(other, 16);
  void *const wrong[] = {here, others, (char *)mine + 1};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK(upload(device, here, wrong[i], 0, 16) == -1);
    CHECK(!strcmp(bp_error_kind(), BP_ERROR_VALUE));
  }
  CHECK(bp_device_free(device, mine) == 0);
  void *next = alloc(device, 16);
  CHECK(upload(device, here, mine, 0, 16) == -1);
  CHECK(bp_device_free(device, mine) == -1);
  CHECK(bp_device_free(device, next) == 0);
  CHECK(bp_device_free(other, others) == 0);
  bp_error_clear();
}

/* Reading without synchronising gives the old contents. A thousand copies come first, so that even
 * a delayed test reads before the last copy is done. */
static void test_work_is_done_later(BpDevice device) {
  volatile char text[6] = "early";
  void *handle = alloc(device, 6);
  for (int i = 0; i < 1000; i++)
    CHECK(upload(device, "later", handle, 0, 6) == 0);
  CHECK(download(device, handle, (void *)(uintptr_t)text, 6) == 0);
  CHECK(text[0] == 'e');
  CHECK(bp_stream_sync(device, NULL) == 0);
  CHECK(text[0] == 'l');
  CHECK(bp_device_free(device, handle) == 0);
}

static void test_memory_beyond_a_buffer_is_refused(BpDevice device) {
  char here[32] = "";
  void *handle = alloc(device, 16);
  CHECK(upload(device, here, handle, 0, 17) == -1);
  CHECK(!strcmp(bp_error_kind(), BP_ERROR_INDEX));
  CHECK(bp_device_free(device, handle) == 0);
  bp_error_clear();
}

/* A timer can be read after the stream that it was queued on is freed. */
static void test_timer_outlives_its_stream(BpDevice device) {
  void *stream, *timer;
  int64_t nanoseconds = -1;
  CHECK(bp_stream_create(device, &stream) == 0);
  CHECK(simdev_timers.start(NULL, device.device_id, stream, &timer) == 0);
  CHECK(simdev_timers.stop(NULL, timer, stream) == 0);
  CHECK(bp_stream_free(device, stream) == 0);
  CHECK(simdev_timers.read(NULL, timer, &nanoseconds) == 0);
  CHECK(nanoseconds > 0);
  CHECK(simdev_timers.free(NULL, timer) == 0);
}

/* A recording on a freed stream does not keep its memory. */
static void test_open_recording_ends_with_its_stream(BpDevice device) {
  void *stream, *handle = alloc(device, 16);
  char here[16] = "";
  const BpCopy copy = {sizeof(BpCopy), here, 0, host, handle, 0, device, sizeof here, 0};
  CHECK(bp_stream_create(device, &stream) == 0);
  CHECK(simdev_recordings.begin(NULL, device.device_id, stream) == 0);
  CHECK(bp_device_copy(&copy, stream) == 0);
  CHECK(bp_device_free(device, handle) == 0);
  CHECK(simdev_memory_in_use(device.device_id) == sizeof here);
  CHECK(bp_stream_free(device, stream) == 0);
  CHECK(simdev_memory_in_use(device.device_id) == 0);
}

int main(void) {
  BpDevice device = open_device();
  test_only_its_handles_are_taken(device);
  test_work_is_done_later(device);
  test_memory_beyond_a_buffer_is_refused(device);
  test_timer_outlives_its_stream(device);
  test_open_recording_ends_with_its_stream(device);
  return 0;
}
