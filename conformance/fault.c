/* SPDX-License-Identifier: Apache-2.0 */
/* Section fault: the process runs out of a resource, or ends. */
#include <sys/resource.h>
#include <unistd.h>

#include "conformance/kit.h"

/* A copy is refused only if there is no memory for it. */
static void upload_or_refuse(const Kit *kit, const void *data, void *handle, size_t size) {
  BpCopy copy = {
      .struct_size = sizeof(BpCopy), .from = data, .from_device = KIT_HOST, .to = handle};
  copy.to_device = kit->device;
  copy.size = size;
  int rc = kit->api->copy(kit->api->context, &copy, NULL);
  if (rc != 0)
    KIT_REFUSED(rc, BP_ERROR_MEMORY, "a copy for which there is no room");
}

/* The process gets no more memory: a call that needs memory raises a MemoryError, and the device
 * works again once memory is available. */
static void run_host_memory(Kit *kit) {
  const size_t size = (size_t)128 << 20;
  uint8_t sent[64] = {1, 2, 3}, got[64] = {0};
  bp__kit_open_device(kit);
  uint64_t total = (uint64_t)bp__kit_int_attr(kit, BP_ATTR_TOTAL_GLOBAL_MEMORY, 0);
  uint64_t largest = (uint64_t)bp__kit_int_attr(kit, BP_ATTR_MAX_ALLOCATION, (int64_t)total);
  if (total / 2 < size || largest < size)
    bp__kit_skip("the device does not say that it has 256 MiB, half of them at once");
  void *handle = bp__kit_alloc(kit, size);
  uint8_t *data = g_malloc0(size);
  bp__kit_upload(kit, sent, handle, 0, sizeof sent, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_limit_memory((size_t)16 << 20);
  void *other = NULL;
  int rc = kit->api->alloc_data_space(
      kit->api->context, kit->device.device_id,
      &(BpAllocation){sizeof(BpAllocation), size, 64, KIT_BYTE, 0, NULL}, &other);
  if (rc != 0)
    KIT_REFUSED(rc, BP_ERROR_MEMORY, "alloc_data_space in a process that is short of memory");
  upload_or_refuse(kit, data, handle, size);
  bp__kit_unlimit_memory();
  bp__kit_sync(kit, NULL);
  if (rc == 0)
    bp__kit_free(kit, other);
  bp__kit_upload(kit, sent, handle, 100, sizeof sent, NULL);
  bp__kit_download(kit, handle, 100, got, sizeof got, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, sizeof sent,
                       "bytes that were copied when there was memory again");
  bp__kit_free(kit, handle);
  g_free(data);
}

/* The process gets no more file descriptors, which drivers need for many objects. */
static void run_descriptors(Kit *kit) {
  struct rlimit old, none;
  uint8_t sent[64] = {4, 5, 6}, got[64] = {0};
  bp__kit_open_device(kit);
  bp__kit_free(kit, bp__kit_alloc(kit, 4096));
  KIT_TRUE(getrlimit(RLIMIT_NOFILE, &old) == 0, "the process cannot limit its descriptors");
  none = old;
  none.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &none);
  void *handle = NULL, *stream = NULL;
  int rc = kit->api->alloc_data_space(
      kit->api->context, kit->device.device_id,
      &(BpAllocation){sizeof(BpAllocation), 4096, 64, KIT_BYTE, 0, NULL}, &handle);
  if (rc != 0)
    KIT_REFUSED(rc, NULL, "alloc_data_space in a process that can open no file");
  int stream_rc = -1;
  if (kit->api->create_stream) {
    stream_rc = kit->api->create_stream(kit->api->context, kit->device.device_id, &stream);
    if (stream_rc != 0)
      KIT_REFUSED(stream_rc, NULL, "create_stream in a process that can open no file");
  }
  setrlimit(RLIMIT_NOFILE, &old);
  if (rc == 0)
    bp__kit_free(kit, handle);
  if (stream_rc == 0)
    KIT_OK(kit->api->free_stream(kit->api->context, kit->device.device_id, stream), "free_stream");
  handle = bp__kit_alloc(kit, sizeof sent);
  bp__kit_upload(kit, sent, handle, 0, sizeof sent, NULL);
  bp__kit_download(kit, handle, 0, got, sizeof got, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, sizeof sent,
                       "bytes that were copied when files could be opened again");
  bp__kit_free(kit, handle);
}

/* An earlier failure does not make later calls fail. */
static void run_error_state(Kit *kit) {
  void *handle = NULL;
  bp__kit_open_device(kit);
  KIT_REFUSED(kit->api->alloc_data_space(
                  kit->api->context, kit->device.device_id,
                  &(BpAllocation){sizeof(BpAllocation), UINT64_C(1) << 60, 64, KIT_BYTE, 0, NULL},
                  &handle),
              BP_ERROR_MEMORY, "alloc_data_space of far too much");
  bp__kit_sync(kit, NULL);
  bp__kit_free(kit, bp__kit_alloc(kit, 64));
  bp__kit_sync(kit, NULL);
}

static void run_exit(Kit *kit) {
  char bytes[64] = {0};
  bp__kit_open_device(kit);
  void *handle = bp__kit_alloc(kit, sizeof bytes);
  bp__kit_upload(kit, bytes, handle, 0, sizeof bytes, NULL);
  bp__kit_exit();
}

static const Check checks[] = {
    {"fault.error-state", "a raised error is not raised again by later calls",
     "memory.exhaustion stream.sync", CHECK_CORE | CHECK_FAULT, run_error_state},
    {"fault.host-memory", "without host memory there is a MemoryError, and the device stays usable",
     "memory.exhaustion copy.large copy.offsets.download",
     CHECK_OPTIONAL | CHECK_FAULT | CHECK_STRESS, run_host_memory},
    {"fault.descriptors", "without file descriptors there is an error, and the device stays usable",
     "copy.roundtrip", CHECK_OPTIONAL | CHECK_FAULT, run_descriptors},
    {"fault.exit",
     "a process that used the device and freed nothing ends, and leaves no other process",
     "copy.roundtrip", CHECK_CORE | CHECK_FAULT, run_exit},
};

const Section bp__kit_fault_section = {"fault", NEEDS_DEVICE, checks, G_N_ELEMENTS(checks)};
