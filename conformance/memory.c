/* SPDX-License-Identifier: Apache-2.0 */
/* Section memory: data space, its alignment and scopes, exhaustion, workspace. */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/kit.h"

static int32_t alloc(const Kit *kit, uint64_t size, uint64_t alignment, const char *scope,
                     void **handle) {
  return kit->api->alloc_data_space(
      kit->api->context, kit->device.device_id,
      &(BpAllocation){sizeof(BpAllocation), size, alignment, KIT_BYTE, 0, scope}, handle);
}

static void expect_distinct(void *const *handles, size_t count) {
  GHashTable *seen = g_hash_table_new(NULL, NULL);
  for (size_t i = 0; i < count; i++)
    KIT_TRUE(g_hash_table_add(seen, handles[i]), "two data spaces have the handle %p", handles[i]);
  g_hash_table_unref(seen);
}

static void run_alloc(Kit *kit) {
  static const uint64_t sizes[] = {1, 3, 64, 4097, 1u << 20};
  void *handles[G_N_ELEMENTS(sizes)];
  bp__kit_open_device(kit);
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
      handles[i] = bp__kit_alloc(kit, sizes[i]);
    expect_distinct(handles, G_N_ELEMENTS(sizes));
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
      bp__kit_free(kit, handles[i]);
  }
}

static void run_zero(Kit *kit) {
  void *handles[2];
  bp__kit_open_device(kit);
  for (int i = 0; i < 2; i++)
    handles[i] = bp__kit_alloc(kit, 0);
  expect_distinct(handles, 2);
  for (int i = 0; i < 2; i++)
    bp__kit_free(kit, handles[i]);
}

static void run_alignment(Kit *kit) {
  bp__kit_open_device(kit);
  gboolean is_address = bp__kit_int_attr(kit, BP_ATTR_HOST_ACCESSIBLE, 0) != 0;
  for (uint64_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void *handle = NULL;
    KIT_OK(alloc(kit, 100, alignment, NULL, &handle), "alloc_data_space");
    KIT_TRUE(!is_address || (uintptr_t)handle % alignment == 0,
             "the address %p was to be aligned to %" G_GUINT64_FORMAT, handle, alignment);
    bp__kit_free(kit, handle);
  }
}

static void run_scope(Kit *kit) {
  void *handle = NULL;
  bp__kit_open_device(kit);
  KIT_OK(alloc(kit, 64, 64, "global", &handle), "alloc_data_space in scope \"global\"");
  bp__kit_free(kit, handle);
  KIT_REFUSED(alloc(kit, 64, 64, "no such scope", &handle), NULL,
              "alloc_data_space in an unknown scope");
  const BpAllocation flagged = {sizeof(BpAllocation), 64, 64, KIT_BYTE, UINT32_C(1) << 31, NULL};
  KIT_REFUSED(
      kit->api->alloc_data_space(kit->api->context, kit->device.device_id, &flagged, &handle), NULL,
      "alloc_data_space with an unknown flag");
}

/* A newer host's request is longer; the bytes that this version does not know are 0. Each request
 * ends at an unmapped page. */
static void run_sized(Kit *kit) {
  static const size_t more[] = {0, 8, 64, 1024};
  bp__kit_open_device(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(more); i++) {
    const size_t size = sizeof(BpAllocation) + more[i];
    void *handle = NULL;
    BpAllocation *request = bp__kit_at_end_of_memory(size);
    *request = (BpAllocation){.struct_size = size, .size = 64, .alignment = 64, .dtype = KIT_BYTE};
    KIT_OK(kit->api->alloc_data_space(kit->api->context, kit->device.device_id, request, &handle),
           "alloc_data_space by a BpAllocation of a later version");
    bp__kit_free(kit, handle);
  }
}

static void run_hints(Kit *kit) {
  static const BpDataType hints[] = {
      {BP_DTYPE_INT, 8, 1},    {BP_DTYPE_INT, 64, 1},     {BP_DTYPE_UINT, 32, 4},
      {BP_DTYPE_FLOAT, 16, 1}, {BP_DTYPE_FLOAT, 64, 2},   {BP_DTYPE_BFLOAT, 16, 1},
      {BP_DTYPE_BOOL, 8, 1},   {BP_DTYPE_COMPLEX, 64, 1}, {BP_DTYPE_HANDLE, 64, 1}};
  bp__kit_open_device(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(hints); i++) {
    char what[80], dtype[32];
    void *handle = NULL;
    bp_dtype_format(hints[i], dtype, sizeof dtype);
    g_snprintf(what, sizeof what, "alloc_data_space with the hint %s", dtype);
    KIT_OK(kit->api->alloc_data_space(
               kit->api->context, kit->device.device_id,
               &(BpAllocation){sizeof(BpAllocation), 256, 64, hints[i], 0, NULL}, &handle),
           what);
    bp__kit_free(kit, handle);
  }
}

/* Written bytes are read back. */
static void expect_usable(const Kit *kit, const char *when) {
  uint8_t sent[256], got[256] = {0};
  bp__kit_fill(sent, sizeof sent, kit->seed);
  void *handle = bp__kit_alloc(kit, sizeof sent);
  bp__kit_upload(kit, sent, handle, 0, sizeof sent, NULL);
  bp__kit_download(kit, handle, 0, got, sizeof got, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, sizeof sent, when);
  bp__kit_free(kit, handle);
}

/* Requests more memory than any machine has; a plugin that computes the size in 32 bits, or with an
 * overflow, would not notice. */
static void run_exhaustion(Kit *kit) {
  static const uint64_t sizes[] = {UINT64_C(1) << 60, UINT64_C(1) << 62, UINT64_MAX / 2,
                                   UINT64_MAX - 63, UINT64_MAX};
  bp__kit_open_device(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
    void *handle = NULL;
    char what[80];
    g_snprintf(what, sizeof what, "alloc_data_space of %" G_GUINT64_FORMAT " bytes", sizes[i]);
    KIT_REFUSED(alloc(kit, sizes[i], 64, NULL, &handle), BP_ERROR_MEMORY, what);
  }
  expect_usable(kit, "after memory was exhausted");
}

#define MOST_CHUNKS 64

/* Allocates chunks until the device refuses, and frees them. Returns their number. */
static size_t fill(const Kit *kit, uint64_t chunk) {
  void *handles[MOST_CHUNKS];
  size_t count = 0;
  while (count < MOST_CHUNKS && alloc(kit, chunk, 64, NULL, &handles[count]) == 0)
    count++;
  KIT_TRUE(count < MOST_CHUNKS, "the device gave four times the memory that it says it has");
  KIT_TRUE(bp_error_is(BP_ERROR_MEMORY), "exhaustion raised \"%s\": %s", bp_error_kind(),
           bp_error_message());
  bp_error_clear();
  KIT_TRUE(count > 0, "not even a sixteenth of the memory can be allocated");
  for (size_t i = 0; i < count; i++)
    bp__kit_free(kit, handles[i]);
  expect_usable(kit, "after memory was exhausted and freed");
  return count;
}

/* Memory allocated until the device refused can be allocated again once it is freed: at the second
 * attempt, or a little later if another program uses some memory. */
static void run_fill(Kit *kit) {
  bp__kit_open_device(kit);
  int64_t total = bp__kit_int_attr(kit, BP_ATTR_TOTAL_GLOBAL_MEMORY, 0);
  if (total == 0 || total > (int64_t)4 << 30)
    bp__kit_skip("the device has more than 4 GiB of memory, or does not say how much");
  uint64_t chunk = (uint64_t)total / 16;
  size_t first = fill(kit, chunk), again = 0;
  for (int i = 0; i < 5 && again < first; i++)
    again = fill(kit, chunk);
  KIT_TRUE(again >= first, "%zu chunks could be allocated at first, and %zu after these were freed",
           first, again);
}

/* Freed memory can be allocated again. */
static void run_free(Kit *kit) {
  bp__kit_open_device(kit);
  KitTurnover turnover = bp__kit_turnover(kit->device);
  for (int i = 0; i < turnover.rounds; i++)
    bp__kit_free(kit, bp__kit_alloc(kit, turnover.chunk));
  expect_usable(kit, "after much was allocated and freed");
}

/* Work that has ended keeps no memory, neither the source nor the destination of a copy. */
static void run_released(Kit *kit) {
  uint8_t bytes[64] = {0};
  bp__kit_open_device(kit);
  KitTurnover turnover = bp__kit_turnover(kit->device);
  KIT_TRUE(turnover.chunk >= 2 * sizeof bytes, "the device says that it has next to no memory");
  for (int i = 0; i < turnover.rounds; i++) {
    void *handle = bp__kit_alloc(kit, turnover.chunk);
    bp__kit_upload(kit, bytes, handle, 0, sizeof bytes, NULL);
    bp__kit_copy(kit, handle, 0, handle, sizeof bytes, sizeof bytes, NULL);
    bp__kit_download(kit, handle, 0, bytes, sizeof bytes, NULL);
    bp__kit_sync(kit, NULL);
    bp__kit_free(kit, handle);
  }
  expect_usable(kit, "after much was allocated, used and freed");
}

#define MANY 512

#define PIECE 96
#define WIDE  160

static void *make_space(const Kit *kit, size_t size, size_t number) {
  uint8_t sent[WIDE];
  void *handle = bp__kit_alloc(kit, size);
  bp__kit_fill(sent, size, kit->seed + number);
  bp__kit_upload(kit, sent, handle, 0, size, NULL);
  return handle;
}

static void expect_kept(const Kit *kit, void *handle, size_t size, size_t number) {
  uint8_t sent[WIDE], got[WIDE] = {0};
  bp__kit_fill(sent, size, kit->seed + number);
  bp__kit_download(kit, handle, 0, got, size, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, size, "one of many data spaces");
}

/* Each space keeps its content while others are freed and allocated: every second space is freed,
 * and the next ones are smaller or larger than the gaps. */
static void run_many(Kit *kit) {
  void *handles[MANY];
  bp__kit_open_device(kit);
  for (size_t i = 0; i < MANY; i++)
    handles[i] = make_space(kit, PIECE, i);
  expect_distinct(handles, MANY);
  for (size_t i = 0; i < MANY; i += 2)
    bp__kit_free(kit, handles[i]);
  bp__kit_sync(kit, NULL); /* from here on no work uses the spaces */
  for (size_t i = 0; i < MANY; i += 2)
    handles[i] = make_space(kit, i % 4 ? WIDE : PIECE / 2, MANY + i);
  expect_distinct(handles, MANY);
  for (size_t i = 0; i < MANY; i++) {
    gboolean is_new = i % 2 == 0;
    size_t size = !is_new ? PIECE : i % 4 ? WIDE : PIECE / 2;
    expect_kept(kit, handles[i], size, is_new ? MANY + i : i);
    bp__kit_free(kit, handles[i]);
  }
}

static int64_t available(const Kit *kit) {
  return bp__kit_int_attr(kit, BP_ATTR_AVAILABLE_GLOBAL_MEMORY, INT64_MIN);
}

/* Other programs may use the device, so one success in several tries suffices. */
static void run_available(Kit *kit) {
  enum { ROUNDS = 4, TRIES = 10 };
  bp__kit_open_device(kit);
  if (available(kit) == INT64_MIN)
    bp__kit_skip("the device does not say how much memory is free");
  int64_t chunk = (int64_t)bp__kit_turnover(kit->device).chunk, before = 0, after = 0;
  gboolean is_kept = FALSE;
  for (int i = 0; i < TRIES && !is_kept; i++) {
    before = available(kit);
    for (int k = 0; k < ROUNDS; k++)
      bp__kit_free(kit, bp__kit_alloc(kit, (uint64_t)chunk));
    bp__kit_sync(kit, NULL);
    after = available(kit);
    is_kept = ABS(after - before) < ROUNDS / 2 * chunk;
  }
  KIT_TRUE(is_kept,
           "%" G_GINT64_FORMAT " bytes were free, and %" G_GINT64_FORMAT " when %d times"
           " %" G_GINT64_FORMAT " had been allocated and freed",
           before, after, ROUNDS, chunk);
}

/* ---- Workspace --------------------------------------------------------------------------- */

/* The workspace comes from the plugin's own pool or, if it has none, from the host's. */
static void run_workspace(Kit *kit) {
  enum { COUNT = 4 };
  void *handles[COUNT];
  uint8_t sent[1000], got[1000];
  bp__kit_open_device(kit);
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < COUNT; i++) {
      KIT_OK(bp_workspace_alloc(kit->device, sizeof sent + 100 * i, KIT_BYTE, &handles[i]),
             "alloc_workspace");
      bp__kit_fill(sent, sizeof sent, kit->seed + i);
      bp__kit_upload(kit, sent, handles[i], 0, sizeof sent, NULL);
    }
    expect_distinct(handles, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
      memset(got, 0, sizeof got);
      bp__kit_fill(sent, sizeof sent, kit->seed + i);
      bp__kit_download(kit, handles[i], 0, got, sizeof got, NULL);
      bp__kit_sync(kit, NULL);
      bp__kit_expect_bytes(got, sent, sizeof sent, "workspace");
    }
    static const size_t order[COUNT] = {1, 3, 0, 2};
    for (size_t i = 0; i < COUNT; i++)
      KIT_OK(bp_workspace_free(kit->device, handles[order[i]]), "free_workspace");
  }
}

/* ---- External memory --------------------------------------------------------------------- */

/* The external memory extension, and the forms that the device supports. */
typedef struct External {
  const BpExternalMemoryApi *api;
  uint64_t imports, exports, alignment;
} External;

static External open_external(Kit *kit) {
  External external = {.alignment = 0};
  bp__kit_open_device(kit);
  external.api = bp_device_extension(kit->device.device_type, BP_EXTENSION_EXTERNAL_MEMORY,
                                     BP_EXTENSION_EXTERNAL_MEMORY_VERSION);
  if (!external.api)
    bp__kit_skip("the device neither imports nor exports memory");
  external.imports = external.exports = UINT64_MAX;
  KIT_OK(external.api->get_forms(kit->api->context, kit->device.device_id, &external.imports,
                                 &external.exports, &external.alignment),
         "get_forms");
  KIT_TRUE(external.imports != UINT64_MAX && external.exports != UINT64_MAX,
           "get_forms does not say what the device imports and exports");
  KIT_TRUE(external.alignment && !(external.alignment & (external.alignment - 1)),
           "get_forms gives the alignment %" G_GUINT64_FORMAT ", no power of two",
           external.alignment);
  return external;
}

static void *import(const Kit *kit, const External *external, const BpExternalMemory *memory) {
  void *handle = NULL;
  KIT_OK(external->api->import_memory(kit->api->context, kit->device.device_id, memory, &handle),
         "import_memory");
  KIT_TRUE(handle, "import_memory gave NULL");
  return handle;
}

/* The device reads bytes that the host wrote, and the host reads bytes that the device wrote, in
 * the same place; neighbouring bytes do not change. After the handle is freed, only the host uses
 * the memory. */
static void run_import(Kit *kit) {
  enum { SIZE = 3 * 4096 - 100, FROM = 1000, PART = 5000, BESIDE = 4096 };
  const External external = open_external(kit);
  if (!(external.imports & BP_EXTERNAL_HOST_POINTER))
    bp__kit_skip("the device does not import memory of the host");
  const size_t before = (size_t)external.alignment, all = before + SIZE + BESIDE;
  uint8_t *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KIT_TRUE(base != MAP_FAILED, "no memory of the host");
  /* The address has exactly the alignment that the device requires, and no larger one. */
  uint8_t *bytes = base + before, *got = g_malloc0(SIZE), *sent = g_malloc(SIZE);
  uint8_t *beside = g_memdup2(base, all); /* zeros */
  void *other = bp__kit_alloc(kit, SIZE);
  for (uint64_t round = 0; round < 3; round++) {
    const BpExternalMemory memory = {.struct_size = sizeof memory,
                                     .size = SIZE,
                                     .address = bytes,
                                     .fd = -1,
                                     .form = BP_EXTERNAL_HOST_POINTER};
    bp__kit_fill(bytes, SIZE, kit->seed + round);
    void *handle = import(kit, &external, &memory);
    bp__kit_fill(sent, SIZE, kit->seed + 10 + round);
    memcpy(bytes, sent, SIZE); /* the host writes after the import, and then hands the bytes over */
    bp__kit_upload(kit, bytes, handle, 0, SIZE, NULL);
    bp__kit_copy(kit, handle, 0, other, 0, SIZE, NULL);
    bp__kit_download(kit, other, 0, got, SIZE, NULL);
    bp__kit_sync(kit, NULL);
    bp__kit_expect_bytes(got, sent, SIZE, "imported memory, read by the device");
    bp__kit_copy(kit, other, 0, handle, FROM, PART, NULL);
    bp__kit_download(kit, handle, 0, bytes, SIZE, NULL);
    bp__kit_sync(kit, NULL);
    memcpy(sent + FROM, got, PART);
    bp__kit_expect_bytes(bytes, sent, SIZE, "imported memory, written by the device");
    bp__kit_expect_bytes(base, beside, before, "memory before the imported bytes");
    bp__kit_expect_bytes(bytes + SIZE, beside, BESIDE, "memory behind the imported bytes");
    bp__kit_free(kit, handle);
    bp__kit_sync(kit, NULL);
    memset(bytes, (int)round, SIZE);
    KIT_TRUE(bytes[SIZE - 1] == round, "imported memory is not the host's any more");
  }
  bp__kit_free(kit, other);
  KIT_TRUE(munmap(base, all) == 0, "munmap failed");
  g_free(beside);
  g_free(got);
  g_free(sent);
}

static void run_export(Kit *kit) {
  const External external = open_external(kit);
  const uint64_t both = external.imports & external.exports & ~(uint64_t)BP_EXTERNAL_HOST_POINTER;
  const uint32_t form = (uint32_t)(both & -both);
  const BpAllocation allocation = {sizeof(BpAllocation), 20000, 256, KIT_BYTE, 0, NULL};
  uint8_t sent[20000], got[20000];
  void *handle = NULL;
  if (!form)
    bp__kit_skip("the device does not import what it exports");
  BpExternalMemory memory = {.struct_size = sizeof memory, .fd = -1, .form = form};
  KIT_OK(external.api->export_memory(kit->api->context, kit->device.device_id, &allocation, &memory,
                                     &handle),
         "export_memory");
  KIT_TRUE(handle && memory.fd >= 0 && memory.size >= sizeof sent,
           "export_memory of %zu bytes gave the handle %p, the descriptor %d and %" G_GUINT64_FORMAT
           " bytes",
           sizeof sent, handle, memory.fd, memory.size);
  void *twin = import(kit, &external, &memory), *spare;
  KIT_TRUE(fcntl(memory.fd, F_GETFD) >= 0, "import_memory closed the caller's descriptor");
  spare = import(kit, &external, &memory);
  close(memory.fd);
  bp__kit_free(kit, spare);
  for (int round = 0; round < 4; round++) { /* rounds alternate the direction */
    bp__kit_fill(sent, sizeof sent, kit->seed + (uint64_t)round);
    bp__kit_upload(kit, sent, round % 2 ? twin : handle, 0, sizeof sent, NULL);
    bp__kit_sync(kit, NULL);
    bp__kit_download(kit, round % 2 ? handle : twin, 0, got, sizeof got, NULL);
    bp__kit_sync(kit, NULL);
    bp__kit_expect_bytes(got, sent, sizeof sent, "memory that was exported and imported");
  }
  bp__kit_free(kit, handle); /* the remaining handle keeps the memory */
  bp__kit_download(kit, twin, 0, got, sizeof got, NULL);
  bp__kit_sync(kit, NULL);
  bp__kit_expect_bytes(got, sent, sizeof sent, "imported memory whose exporter freed it");
  bp__kit_free(kit, twin);
}

/* Refuses descriptors that are not memory. A driver that reads from a pipe or an eventfd would wait
 * for ever. */
static void refuse_descriptors(Kit *kit, const External *external, uint32_t form) {
  int pipes[2], event = eventfd(0, EFD_CLOEXEC);
  KIT_TRUE(pipe(pipes) == 0 && event >= 0, "no pipe and no eventfd");
  for (int i = 0; i < 2; i++) {
    void *handle = NULL;
    const BpExternalMemory memory = {
        .struct_size = sizeof memory, .size = 4096, .fd = i ? event : pipes[0], .form = form};
    KIT_REFUSED(
        external->api->import_memory(kit->api->context, kit->device.device_id, &memory, &handle),
        BP_ERROR_VALUE, i ? "import_memory of an eventfd" : "import_memory of a pipe");
  }
  close(pipes[0]);
  close(pipes[1]);
  close(event);
}

/* Every form is either supported or refused by name, and a descriptor that is not memory of the
 * form is refused. */
static void run_external_refused(Kit *kit) {
  const External external = open_external(kit);
  const uint64_t imports = external.imports & ~(uint64_t)BP_EXTERNAL_IN_TURN;
  const BpAllocation allocation = {sizeof(BpAllocation), 4096, 64, KIT_BYTE, 0, NULL};
  void *page = bp__kit_at_end_of_memory(4096), *handle = NULL;
  for (uint64_t form = 1; form < UINT64_C(1) << 32; form *= 2) {
    BpExternalMemory memory = {.struct_size = sizeof memory,
                               .size = 4096,
                               .address = page,
                               .fd = -1,
                               .form = (uint32_t)form};
    if (!(imports & form))
      KIT_REFUSED(
          external.api->import_memory(kit->api->context, kit->device.device_id, &memory, &handle),
          BP_ERROR_NOT_IMPLEMENTED, "import_memory of an unknown form");
    else if (form != BP_EXTERNAL_HOST_POINTER)
      refuse_descriptors(kit, &external, memory.form);
    if (!(external.exports & form))
      KIT_REFUSED(external.api->export_memory(kit->api->context, kit->device.device_id, &allocation,
                                              &memory, &handle),
                  BP_ERROR_NOT_IMPLEMENTED, "export_memory of an unknown form");
    memory.flags = UINT64_C(1) << 63;
    if (imports & form)
      KIT_REFUSED(
          external.api->import_memory(kit->api->context, kit->device.device_id, &memory, &handle),
          BP_ERROR_NOT_IMPLEMENTED, "import_memory with an unknown flag");
    if (external.exports & form)
      KIT_REFUSED(external.api->export_memory(kit->api->context, kit->device.device_id, &allocation,
                                              &memory, &handle),
                  BP_ERROR_NOT_IMPLEMENTED, "export_memory with an unknown flag");
  }
  expect_usable(kit, "after memory was refused");
}

static const Check checks[] = {
    {"memory.alloc", "data space of various sizes is allocated, with distinct handles, and freed",
     "device.present", CHECK_CORE, run_alloc},
    {"memory.zero", "data space of no bytes has a valid handle of its own", "memory.alloc",
     CHECK_CORE, run_zero},
    {"memory.alignment",
     "any alignment up to a page is accepted, and kept where that can be checked", "memory.alloc",
     CHECK_CORE, run_alignment},
    {"memory.scope", "the scope \"global\" exists; an unknown scope or flag is an error",
     "memory.alloc", CHECK_CORE, run_scope},
    {"memory.sized", "a request of a later version is accepted if its new members are 0",
     "memory.alloc", CHECK_CORE, run_sized},
    {"memory.hints", "a hint of any element type is accepted", "memory.alloc", CHECK_CORE,
     run_hints},
};

static const Check used_checks[] = {
    {"memory.exhaustion", "allocating too much is a MemoryError, and the device stays usable",
     "memory.alloc copy.roundtrip", CHECK_CORE | CHECK_FAULT, run_exhaustion},
    {"memory.free", "freed memory can be allocated again", "memory.alloc copy.roundtrip",
     CHECK_CORE, run_free},
    {"memory.released", "memory that queued copies used can be allocated again", "memory.free",
     CHECK_CORE, run_released},
    {"memory.fill",
     "if memory is used up, that is a MemoryError; once freed, all of it can be allocated again",
     "memory.exhaustion memory.free", CHECK_OPTIONAL | CHECK_FAULT | CHECK_STRESS, run_fill},
    {"memory.many", "many data spaces at once do not overlap", "memory.alloc copy.roundtrip",
     CHECK_CORE | CHECK_STRESS, run_many},
    {"memory.available", "the available memory is the same after everything allocated is freed",
     "memory.free", CHECK_OPTIONAL, run_available},
    {"memory.import",
     "imported memory of the host is read and written in its place, and stays the host's",
     "memory.alloc copy.device", CHECK_OPTIONAL, run_import},
    {"memory.export", "exported memory and its imports are the same bytes",
     "memory.alloc copy.roundtrip", CHECK_OPTIONAL, run_export},
    {"memory.external-refused",
     "a form of external memory that the device lacks, and an unknown flag, is an error",
     "memory.alloc copy.roundtrip", CHECK_OPTIONAL | CHECK_FAULT, run_external_refused},
    {"memory.workspace", "workspace keeps its content, and is freed in any order",
     "memory.alloc copy.roundtrip", CHECK_CORE, run_workspace},
};

const Section bp__kit_memory_section = {"memory", NEEDS_DEVICE, checks, G_N_ELEMENTS(checks)};
const Section bp__kit_used_memory_section = {"memory", NEEDS_DEVICE, used_checks,
                                             G_N_ELEMENTS(used_checks)};
