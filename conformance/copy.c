/* SPDX-License-Identifier: Apache-2.0 */
/* Section copy: copies between host and device and within the device. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/kit.h"

static void expect_roundtrip(const Kit *kit, size_t size) {
  uint8_t *sent = g_malloc(size), *got = g_malloc0(size);
  void *handle = bp__kit_alloc(kit, size);
  bp__kit_fill(sent, size, kit->seed + size);
  bp__kit_upload(kit, sent, handle, 0, size, NULL);
  bp__kit_download(kit, handle, 0, got, size, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, size, "bytes that were sent and fetched");
  bp__kit_free(kit, handle);
  g_free(sent);
  g_free(got);
}

static void run_roundtrip(Kit *kit) {
  static const size_t sizes[] = {1, 2, 3, 4, 7, 63, 64, 65, 255, 4096, 4099, 65537, (1u << 20) + 3};
  bp__kit_open_device(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
    expect_roundtrip(kit, sizes[i]);
}

#define ROOM 1024

/* A range of bytes at odd offsets, in a buffer whose other bytes must not change. */
typedef struct Window {
  size_t from, to, size;
} Window;

static const Window windows[] = {{0, 1, 1},     {1, 0, 3},     {3, 5, 64},   {64, 128, 64},
                                 {255, 257, 9}, {7, 512, 500}, {4, 8, 1016}, {1023, 0, 1}};

static void *make_filled(const Kit *kit, uint8_t bytes[ROOM], uint64_t seed) {
  void *handle = bp__kit_alloc(kit, ROOM);
  bp__kit_fill(bytes, ROOM, seed);
  bp__kit_upload(kit, bytes, handle, 0, ROOM, NULL);
  return handle;
}

static void expect_held(const Kit *kit, void *handle, const uint8_t *expected, const char *what) {
  uint8_t got[ROOM] = {0};
  bp__kit_download(kit, handle, 0, got, ROOM, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, expected, ROOM, what);
}

static void run_offsets_up(Kit *kit) {
  uint8_t held[ROOM], sent[ROOM];
  bp__kit_open_device(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(windows); i++) {
    const Window *window = &windows[i];
    void *handle = make_filled(kit, held, kit->seed);
    bp__kit_fill(sent, ROOM, kit->seed + 1);
    BpCopy copy = {.struct_size = sizeof(BpCopy),
                   .from = sent,
                   .from_offset = window->from,
                   .from_device = KIT_HOST};
    copy.to = handle;
    copy.to_offset = window->to;
    copy.to_device = kit->device;
    copy.size = window->size;
    KIT_OK(kit->api->copy(kit->api->context, &copy, NULL), "a copy from the host with offsets");
    memcpy(held + window->to, sent + window->from, window->size);
    expect_held(kit, handle, held, "a buffer into whose middle was copied");
    bp__kit_free(kit, handle);
  }
}

static void run_offsets_down(Kit *kit) {
  uint8_t held[ROOM], got[ROOM], expected[ROOM];
  bp__kit_open_device(kit);
  void *handle = make_filled(kit, held, kit->seed);
  for (size_t i = 0; i < G_N_ELEMENTS(windows); i++) {
    const Window *window = &windows[i];
    bp__kit_fill(got, ROOM, kit->seed + 2);
    memcpy(expected, got, ROOM);
    BpCopy copy = {.struct_size = sizeof(BpCopy),
                   .from = handle,
                   .from_offset = window->from,
                   .from_device = kit->device};
    copy.to = got;
    copy.to_offset = window->to;
    copy.to_device = KIT_HOST;
    copy.size = window->size;
    KIT_OK(kit->api->copy(kit->api->context, &copy, NULL), "a copy to the host with offsets");
    bp__kit_sync(kit, NULL);
    memcpy(expected + window->to, held + window->from, window->size);
    bp__kit_expect_bytes(got, expected, ROOM, "host memory into whose middle was copied");
  }
  bp__kit_free(kit, handle);
}

static void run_within(Kit *kit) {
  uint8_t first[ROOM], second[ROOM];
  bp__kit_open_device(kit);
  void *from = make_filled(kit, first, kit->seed);
  for (size_t i = 0; i < G_N_ELEMENTS(windows); i++) {
    const Window *window = &windows[i];
    void *to = make_filled(kit, second, kit->seed + 3 + i);
    bp__kit_copy(kit, from, window->from, to, window->to, window->size, NULL);
    memcpy(second + window->to, first + window->from, window->size);
    expect_held(kit, to, second, "the destination of a copy within the device");
    bp__kit_free(kit, to);
  }
  expect_held(kit, from, first, "the source of copies within the device");
  bp__kit_free(kit, from);
}

/* ---- Sizes ------------------------------------------------------------------------------- */

#define LINE 64 /* the usual granularity of devices */
#define SIZES                                                                                      \
  (2 * LINE + 6) /* all sizes up to two lines, and some around the device's own alignment */

/* The direction of a copy. */
typedef enum Way { UPLOAD, DOWNLOAD, WITHIN } Way;

/* Returns a range of each buffer; only some bytes of the range are copied. */
static Window window_of(size_t i, size_t unit) {
  const size_t about[] = {unit - 1, unit, unit + 1, 2 * unit - 1, 2 * unit, 2 * unit - 17};
  size_t size = i < 2 * LINE ? i + 1 : about[i - 2 * LINE];
  return (Window){13 * i % (2 * unit), (29 * i + 7) % (2 * unit), size};
}

static void copy_windows(const Kit *kit, Way way, size_t unit, const void *from, void *to) {
  BpDevice host = KIT_HOST;
  for (size_t i = 0; i < SIZES; i++) {
    Window window = window_of(i, unit);
    BpCopy copy = {.struct_size = sizeof(BpCopy),
                   .from = from,
                   .from_offset = i * 4 * unit + window.from,
                   .size = window.size};
    copy.from_device = way == UPLOAD ? host : kit->device;
    copy.to = to;
    copy.to_offset = i * 4 * unit + window.to;
    copy.to_device = way == DOWNLOAD ? host : kit->device;
    KIT_OK(kit->api->copy(kit->api->context, &copy, NULL), "a copy of some bytes");
  }
}

static void expect_windows(Way way, size_t unit, const uint8_t *got, const uint8_t *expected) {
  static const char *const ways[] = {"to the device", "to the host", "within the device"};
  for (size_t i = 0; i < SIZES; i++) {
    Window window = window_of(i, unit);
    char what[160];
    g_snprintf(what, sizeof what,
               "%zu bytes %s, from offset %zu to offset %zu: the piece that they are copied to",
               window.size, ways[way], i * 4 * unit + window.from, i * 4 * unit + window.to);
    bp__kit_expect_bytes(got + i * 4 * unit, expected + i * 4 * unit, 4 * unit, what);
  }
}

static void run_sizes(Kit *kit, Way way) {
  bp__kit_open_device(kit);
  size_t unit = (size_t)CLAMP(bp__kit_int_attr(kit, BP_ATTR_DATA_ALIGNMENT, LINE), LINE, 1024);
  size_t room = SIZES * 4 * unit;
  uint8_t *sent = g_malloc(room), *expected = g_malloc(room), *got = g_malloc(room);
  void *from = bp__kit_alloc(kit, room), *to = bp__kit_alloc(kit, room);
  bp__kit_fill(sent, room, kit->seed);
  bp__kit_fill(expected, room, kit->seed + 1);
  bp__kit_upload(kit, sent, from, 0, room, NULL);
  bp__kit_upload(kit, expected, to, 0, room, NULL);
  memcpy(got, expected, room);
  copy_windows(kit, way, unit, way == UPLOAD ? sent : from, way == DOWNLOAD ? got : to);
  if (way != DOWNLOAD)
    bp__kit_download(kit, to, 0, got, room, NULL);
  bp__kit_sync(kit, NULL);
  for (size_t i = 0; i < SIZES; i++) {
    Window window = window_of(i, unit);
    memcpy(expected + i * 4 * unit + window.to, sent + i * 4 * unit + window.from, window.size);
  }
  expect_windows(way, unit, got, expected);
  bp__kit_free(kit, from);
  bp__kit_free(kit, to);
  g_free(sent);
  g_free(expected);
  g_free(got);
}

static void run_sizes_up(Kit *kit) {
  run_sizes(kit, UPLOAD);
}

static void run_sizes_down(Kit *kit) {
  run_sizes(kit, DOWNLOAD);
}

static void run_sizes_within(Kit *kit) {
  run_sizes(kit, WITHIN);
}

/* Source and destination in one buffer, without overlap. */
static void run_same(Kit *kit) {
  uint8_t held[ROOM];
  bp__kit_open_device(kit);
  void *handle = make_filled(kit, held, kit->seed);
  bp__kit_copy(kit, handle, 10, handle, 500, 300, NULL);
  memcpy(held + 500, held + 10, 300);
  bp__kit_copy(kit, handle, 700, handle, 0, 100, NULL);
  memcpy(held, held + 700, 100);
  expect_held(kit, handle, held, "a buffer, parts of which were copied within it");
  bp__kit_free(kit, handle);
}

#define LARGE ((size_t)1 << 20)

/* Overwrites the host's memory as soon as the copy has returned. */
static void run_overwritten(Kit *kit) {
  uint8_t *sent = g_malloc(LARGE), *work = g_malloc(LARGE), *got = g_malloc0(LARGE);
  bp__kit_open_device(kit);
  for (size_t size = 16; size <= LARGE; size *= 16) {
    void *handle = bp__kit_alloc(kit, size);
    bp__kit_fill(sent, size, kit->seed + size);
    memcpy(work, sent, size);
    bp__kit_upload(kit, work, handle, 0, size, NULL);
    memset(work, 0xa5, size);
    bp__kit_download(kit, handle, 0, got, size, NULL);
    bp__kit_sync(kit, NULL);
    bp__kit_expect_bytes(got, sent, size, "memory whose source was overwritten after the copy");
    bp__kit_free(kit, handle);
  }
  g_free(sent);
  g_free(work);
  g_free(got);
}

/* Unmaps the host's memory as soon as the copy has returned: reading it later crashes. */
static void run_unmapped(Kit *kit) {
  uint8_t *sent = g_malloc(LARGE), *got = g_malloc0(LARGE);
  bp__kit_open_device(kit);
  bp__kit_fill(sent, LARGE, kit->seed);
  void *handle = bp__kit_alloc(kit, LARGE);
  for (int i = 0; i < 4; i++) {
    void *mapped = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KIT_TRUE(mapped != MAP_FAILED, "no memory to map");
    memcpy(mapped, sent, LARGE);
    bp__kit_upload(kit, mapped, handle, 0, LARGE, NULL);
    munmap(mapped, LARGE);
  }
  bp__kit_download(kit, handle, 0, got, LARGE, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, LARGE, "memory whose source was unmapped after the copy");
  bp__kit_free(kit, handle);
  g_free(sent);
  g_free(got);
}

/* Each copy of a chain reads what the one before it wrote. */
static void run_order(Kit *kit) {
  enum { LENGTH = 32 };
  const size_t size = 65536;
  uint8_t *sent = g_malloc(size), *got = g_malloc0(size);
  void *handles[LENGTH];
  bp__kit_open_device(kit);
  for (int i = 0; i < LENGTH; i++)
    handles[i] = bp__kit_alloc(kit, size);
  for (int round = 0; round < 4; round++) {
    bp__kit_fill(sent, size, kit->seed + (uint64_t)round);
    bp__kit_upload(kit, sent, handles[0], 0, size, NULL);
    for (int i = 1; i < LENGTH; i++)
      bp__kit_copy(kit, handles[i - 1], 0, handles[i], 0, size, NULL);
  }
  bp__kit_download(kit, handles[LENGTH - 1], 0, got, size, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, size, "the end of a chain of copies in one stream");
  for (int i = 0; i < LENGTH; i++)
    bp__kit_free(kit, handles[i]);
  g_free(sent);
  g_free(got);
}

/* Memory is freed while copies from and to it are queued, and allocated again at once. */
static void run_freed(Kit *kit) {
  bp__kit_open_device(kit);
  const size_t size = bp__kit_piece(kit, 32);
  uint8_t *sent = g_malloc(size), *other = g_malloc(size), *got = g_malloc0(size);
  bp__kit_fill(sent, size, kit->seed);
  memset(other, 0x5a, size);
  void *last = bp__kit_alloc(kit, size);
  for (int i = 0; i < 8; i++) {
    void *first = bp__kit_alloc(kit, size), *second = bp__kit_alloc(kit, size);
    bp__kit_upload(kit, sent, first, 0, size, NULL);
    bp__kit_copy(kit, first, 0, second, 0, size, NULL);
    bp__kit_copy(kit, second, 0, last, 0, size, NULL);
    bp__kit_free(kit, first);
    bp__kit_free(kit, second);
    void *taken = bp__kit_alloc(kit, size);
    bp__kit_upload(kit, other, taken, 0, size, NULL);
    bp__kit_free(kit, taken);
  }
  bp__kit_download(kit, last, 0, got, size, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, size, "a copy of memory that was freed while copies were queued");
  bp__kit_free(kit, last);
  g_free(sent);
  g_free(other);
  g_free(got);
}

static void run_large(Kit *kit) {
  bp__kit_open_device(kit);
  const uint64_t wanted = ((uint64_t)33 << 20) + 1;
  uint64_t available =
      (uint64_t)bp__kit_int_attr(kit, BP_ATTR_AVAILABLE_GLOBAL_MEMORY, (int64_t)1 << 30);
  uint64_t most = (uint64_t)bp__kit_int_attr(kit, BP_ATTR_MAX_ALLOCATION, (int64_t)1 << 30);
  expect_roundtrip(kit, MIN(MIN(available / 4, most), wanted));
}

/* Queues many copies before the first wait. */
static void run_many(Kit *kit) {
  enum { COUNT = 2000, PIECE = 24 };
  uint8_t sent[PIECE], *expected = g_malloc(COUNT * PIECE), *got = g_malloc0(COUNT * PIECE);
  bp__kit_open_device(kit);
  void *handle = bp__kit_alloc(kit, COUNT * PIECE);
  for (size_t i = 0; i < COUNT; i++) {
    bp__kit_fill(sent, PIECE, kit->seed + i);
    memcpy(expected + i * PIECE, sent, PIECE);
    bp__kit_upload(kit, sent, handle, i * PIECE, PIECE, NULL);
  }
  for (size_t i = 0; i < COUNT; i++)
    bp__kit_download(kit, handle, i * PIECE, got + i * PIECE, PIECE, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, expected, COUNT * PIECE, "many small copies");
  bp__kit_free(kit, handle);
  g_free(expected);
  g_free(got);
}

/* Copies between two devices of the kind. */
static void run_devices(Kit *kit) {
  int32_t count = 0;
  const char *why = "";
  uint8_t sent[ROOM], got[ROOM] = {0};
  bp__kit_open_device(kit);
  KIT_OK(kit->api->get_device_count(kit->api->context, &count, &why), "get_device_count");
  if (count < 2)
    bp__kit_absent("there is no second device");
  Kit second = *kit;
  second.device.device_id = kit->device.device_id == 0 ? 1 : 0;
  void *here = make_filled(kit, sent, kit->seed), *there = bp__kit_alloc(&second, ROOM);
  BpCopy copy = {sizeof(BpCopy), here, 0, kit->device, there, 0, second.device, ROOM, 0};
  KIT_OK(kit->api->copy(kit->api->context, &copy, NULL), "a copy to another device");
  bp__kit_sync(kit, NULL);
  bp__kit_download(&second, there, 0, got, ROOM, NULL);
  bp__kit_sync(&second, NULL);
  bp__kit_expect_bytes(got, sent, ROOM, "bytes that were copied to another device");
  bp__kit_free(kit, here);
  bp__kit_free(&second, there);
}

static void run_flags(Kit *kit) {
  uint8_t held[ROOM], sent[ROOM] = {0};
  bp__kit_open_device(kit);
  void *handle = make_filled(kit, held, kit->seed);
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = sent,
                 .from_device = KIT_HOST,
                 .to = handle,
                 .to_device = kit->device,
                 .size = ROOM,
                 .flags = UINT64_C(1) << 63};
  KIT_REFUSED(kit->api->copy(kit->api->context, &copy, NULL), NULL, "a copy with an unknown flag");
  expect_held(kit, handle, held, "a buffer after a copy to it that was refused");
  bp__kit_free(kit, handle);
}

static void run_sized(Kit *kit) {
  static const size_t more[] = {0, 8, 64, 1024};
  uint8_t held[ROOM], sent[ROOM];
  bp__kit_open_device(kit);
  void *handle = make_filled(kit, held, kit->seed);
  for (size_t i = 0; i < G_N_ELEMENTS(more); i++) {
    BpCopy *copy = bp__kit_at_end_of_memory(sizeof(BpCopy) + more[i]);
    bp__kit_fill(sent, ROOM, kit->seed + i + 1);
    *copy = (BpCopy){.struct_size = sizeof(BpCopy) + more[i],
                     .from = sent,
                     .from_device = KIT_HOST,
                     .to = handle,
                     .to_device = kit->device,
                     .size = ROOM};
    KIT_OK(kit->api->copy(kit->api->context, copy, NULL), "a copy by a BpCopy of a later version");
    expect_held(kit, handle, sent, "bytes that were copied by a BpCopy of a later version");
  }
  bp__kit_free(kit, handle);
}

static const Check checks[] = {
    {"copy.roundtrip", "bytes copied to the device and back are the same, for any size",
     "memory.alloc", CHECK_CORE, run_roundtrip},
    {"copy.source-overwritten", "the source has been consumed when the copy returns",
     "copy.roundtrip", CHECK_CORE, run_overwritten},
    {"copy.source-unmapped", "the source is not read after the copy has returned",
     "copy.source-overwritten", CHECK_CORE, run_unmapped},
    {"copy.flags", "an unknown flag is an error, and nothing is copied", "copy.roundtrip",
     CHECK_CORE, run_flags},
    {"copy.sized", "a copy of a later version is done if its new members are 0", "copy.roundtrip",
     CHECK_CORE, run_sized},
    {"copy.offsets.upload", "to the device, both offsets count in bytes, and only that is written",
     "copy.roundtrip", CHECK_CORE, run_offsets_up},
    {"copy.offsets.download", "to the host, both offsets count in bytes, and only that is written",
     "copy.offsets.upload", CHECK_CORE, run_offsets_down},
    {"copy.device", "copies within the device, with offsets", "copy.offsets.upload", CHECK_CORE,
     run_within},
    {"copy.sizes.upload", "to the device, any number of bytes at any offset", "copy.offsets.upload",
     CHECK_CORE, run_sizes_up},
    {"copy.sizes.download", "to the host, any number of bytes at any offset",
     "copy.offsets.download", CHECK_CORE, run_sizes_down},
    {"copy.sizes.device", "within the device, any number of bytes at any offset", "copy.device",
     CHECK_CORE, run_sizes_within},
    {"copy.same-buffer", "copies from one part of a buffer to another", "copy.device", CHECK_CORE,
     run_same},
    {"copy.order", "copies queued on one stream are done in order", "copy.device", CHECK_CORE,
     run_order},
    {"copy.freed", "queued copies complete although their memory is freed", "copy.order",
     CHECK_CORE, run_freed},
    {"copy.large", "33 MiB in one copy, or as much as fits", "copy.roundtrip",
     CHECK_CORE | CHECK_STRESS, run_large},
    {"copy.many", "thousands of copies are queued before the first wait", "copy.offsets.upload",
     CHECK_CORE | CHECK_STRESS, run_many},
    {"copy.devices", "from one device of the kind to another", "copy.device", CHECK_OPTIONAL,
     run_devices},
};

const Section bp__kit_copy_section = {"copy", NEEDS_DEVICE, checks, G_N_ELEMENTS(checks)};
