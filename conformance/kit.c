/* SPDX-License-Identifier: Apache-2.0 */
/* Tools for checks: the device's table, memory, copies, seeded bytes. */
#include "conformance/kit.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/random.h"

/* ---- Expectations ------------------------------------------------------------------------ */

void bp__kit_expect_ok(int ok, const char *what) {
  if (!ok)
    bp__kit_fail("%s failed: %s: %s", what, *bp_error_kind() ? bp_error_kind() : "no error raised",
                 bp_error_message());
  if (*bp_error_kind())
    bp__kit_fail("%s succeeded and left an error raised: %s", what, bp_error_message());
}

void bp__kit_expect_refused(int rc, const char *kind, const char *what) {
  KIT_TRUE(rc != 0, "%s succeeded; it is to be refused", what);
  KIT_TRUE(rc == -1, "%s returned %d; a failure is -1", what, rc);
  KIT_TRUE(*bp_error_kind(), "%s failed and raised no error", what);
  KIT_TRUE(*bp_error_message(), "%s raised a %s without a message", what, bp_error_kind());
  KIT_TRUE(!kind || bp_error_is(kind), "%s raised a %s (%s); it is to be a %s", what,
           bp_error_kind(), bp_error_message(), kind);
  bp_error_clear();
}

/* ---- The device -------------------------------------------------------------------------- */

/* Returns the plugin's own table, not the host's copy. */
static const BpDeviceApi *fetch_own_table(const char *kind) {
  BpFunction *function = NULL;
  BpValue value;
  char *name = g_strconcat("device_api.", kind, NULL);
  KIT_OK(bp_registry_get(name, &function), name);
  KIT_TRUE(function, "%s is not registered", name);
  KIT_OK(bp_function_call(function, NULL, 0, &value), name);
  KIT_TRUE(value.type_index == BP_TYPE_POINTER && value.v_ptr, "%s returns no pointer", name);
  bp_object_release(function);
  g_free(name);
  return value.v_ptr;
}

void bp__kit_open_table(Kit *kit) {
  if (!kit->own)
    kit->own = fetch_own_table(kit->kinds[0]);
}

void bp__kit_require_device(const Kit *kit) {
  BpDevice device;
  int32_t count = 0;
  const char *why = "";
  KIT_OK(bp_device_parse(kit->kinds[0], &device), "finding the kind of device");
  KIT_OK(bp_device_count(device.device_type, &count, &why), "get_device_count");
  if (count == 0)
    bp__kit_absent("no device here: %s", why);
  if (kit->device_index < 0 || kit->device_index >= count)
    bp__kit_absent("there are %d devices of the kind, and none of index %d", count,
                   kit->device_index);
}

const BpRecordingApi *bp__kit_recordings(int32_t device_type) {
  const BpRecordingApi *api =
      bp_device_extension(device_type, BP_EXTENSION_RECORDING, BP_EXTENSION_RECORDING_VERSION);
  if (!api)
    bp__kit_skip("the device does not record");
  return api;
}

void bp__kit_open_device(Kit *kit) {
  if (kit->api)
    return;
  bp__kit_open_table(kit);
  KIT_OK(bp_device_parse(kit->kinds[0], &kit->device), "finding the kind of device");
  kit->device.device_id = kit->device_index;
  kit->api = bp_device_api(kit->device.device_type);
  KIT_TRUE(kit->api, "the host refuses the table: %s", bp_error_message());
  KIT_OK(bp_device_set_current(kit->device, NULL), "set_device");
}

const char *bp__kit_device_text(const Kit *kit) {
  static char text[256];
  bp_device_format(kit->device, text, sizeof text);
  return text;
}

int64_t bp__kit_int_attr(const Kit *kit, int32_t attr, int64_t otherwise) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  KIT_OK(kit->api->get_attr(kit->api->context, kit->device.device_id, attr, &value), "get_attr");
  return value.type_index == BP_TYPE_INT || value.type_index == BP_TYPE_BOOL ? value.v_int64
                                                                             : otherwise;
}

/* ---- Bytes ------------------------------------------------------------------------------- */

void *bp__kit_at_end_of_memory(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE))
    bp__kit_absent("there are no two pages of host memory");
  return pages + page - size;
}

void bp__kit_fill(void *data, size_t size, uint64_t seed) {
  uint8_t *bytes = data;
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (size_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)bp__random_next(&state);
}

void bp__kit_expect_bytes(const void *got, const void *expected, size_t size, const char *what) {
  const uint8_t *a = got, *b = expected;
  for (size_t i = 0; i < size; i++)
    if (a[i] != b[i])
      bp__kit_fail("%s: byte %zu of %zu is %d and not %d", what, i, size, a[i], b[i]);
}

/* ---- Memory and copies ------------------------------------------------------------------- */

void *bp__kit_alloc(const Kit *kit, uint64_t size) {
  void *handle = NULL;
  char what[64];
  g_snprintf(what, sizeof what, "alloc_data_space of %" G_GUINT64_FORMAT " bytes", size);
  KIT_OK(kit->api->alloc_data_space(
             kit->api->context, kit->device.device_id,
             &(BpAllocation){sizeof(BpAllocation), size, 256, KIT_BYTE, 0, NULL}, &handle),
         what);
  KIT_TRUE(handle, "%s gave NULL", what);
  return handle;
}

void bp__kit_free(const Kit *kit, void *handle) {
  KIT_OK(kit->api->free_data_space(kit->api->context, kit->device.device_id, handle),
         "free_data_space");
}

size_t bp__kit_piece(const Kit *kit, int count) {
  int64_t free_bytes = bp__kit_int_attr(kit, BP_ATTR_AVAILABLE_GLOBAL_MEMORY, INT64_MAX);
  size_t piece = (size_t)256 << 10;
  while (piece > 1024 && (int64_t)piece > free_bytes / 2 / count)
    piece /= 2;
  return piece;
}

#define MOST_ROUNDS 257
#define FEW_ROUNDS  8

KitTurnover bp__kit_turnover(BpDevice device) {
  const uint64_t most = (uint64_t)64 << 20;
  BpValue value = {.type_index = BP_TYPE_NONE};
  KIT_OK(bp_device_get_attr(device, BP_ATTR_TOTAL_GLOBAL_MEMORY, &value), "get_attr");
  uint64_t total = value.type_index == BP_TYPE_INT ? (uint64_t)value.v_int64 : most;
  uint64_t chunk = CLAMP(total / 8, 1, most);
  uint64_t rounds = total * 2 / chunk + 1;
  return (KitTurnover){chunk, rounds <= MOST_ROUNDS ? (int)rounds : FEW_ROUNDS};
}

void bp__kit_upload(const Kit *kit, const void *from, void *to, uint64_t offset, uint64_t size,
                    void *stream) {
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = from,
                 .from_device = KIT_HOST,
                 .to = to,
                 .to_offset = offset};
  copy.to_device = kit->device;
  copy.size = size;
  KIT_OK(kit->api->copy(kit->api->context, &copy, stream), "a copy from the host to the device");
}

void bp__kit_download(const Kit *kit, const void *from, uint64_t offset, void *to, uint64_t size,
                      void *stream) {
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = from,
                 .from_offset = offset,
                 .from_device = kit->device,
                 .to = to};
  copy.to_device = KIT_HOST;
  copy.size = size;
  KIT_OK(kit->api->copy(kit->api->context, &copy, stream), "a copy from the device to the host");
}

void bp__kit_copy(const Kit *kit, const void *from, uint64_t from_offset, void *to,
                  uint64_t to_offset, uint64_t size, void *stream) {
  BpCopy copy = {sizeof(BpCopy), from, from_offset, kit->device, to, to_offset, kit->device,
                 size,           0};
  KIT_OK(kit->api->copy(kit->api->context, &copy, stream), "a copy within the device");
}

void bp__kit_sync(const Kit *kit, void *stream) {
  KIT_OK(kit->api->stream_sync(kit->api->context, kit->device.device_id, stream), "stream_sync");
}
