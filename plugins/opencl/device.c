/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of all platforms, and their attributes. A device gets its context and default stream
 * at its first use; reading attributes needs neither. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

/* A GPU is preferred to the plugin cpu, a CPU is not: see docs/devices.md. */
#define RANK_GPU 300
#define RANK_CPU 50

/* An attribute of OpenCL 2.0; the plugin uses the headers of 1.2. */
#define IMAGE_PITCH_ALIGNMENT 0x104A

/* The least local memory for convolutions by Winograd's algorithm. */
#define WINOGRAD_SHARED (1u << 20)

static void find_devices(void);

static BpDeviceList found = {
    &bp_opencl_host, &bp_opencl_device_api, find_devices, PTHREAD_ONCE_INIT, 0, NULL};
static BpOpenclDevice devices[BP_OPENCL_MOST_DEVICES];

/* ---- Finding devices --------------------------------------------------------------------- */

static int has_compiler(cl_device_id id) {
  cl_bool is_available = CL_FALSE, has_one = CL_FALSE;
  bp_cl.clGetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof(is_available), &is_available, NULL);
  bp_cl.clGetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(has_one), &has_one, NULL);
  return is_available && has_one;
}

static void add_devices(cl_platform_id platform, cl_device_type type) {
  cl_device_id ids[BP_OPENCL_MOST_DEVICES];
  cl_uint count = 0;
  if (bp_cl.clGetDeviceIDs(platform, type, BP_OPENCL_MOST_DEVICES, ids, &count) != CL_SUCCESS)
    return;
  for (cl_uint i = 0; i < count && i < BP_OPENCL_MOST_DEVICES; i++) {
    if (found.count == BP_OPENCL_MOST_DEVICES || !has_compiler(ids[i]))
      continue;
    BpOpenclDevice *device = &devices[found.count];
    device->index = found.count++;
    device->platform = platform;
    device->id = ids[i];
    pthread_mutex_init(&device->opening.lock, NULL);
    pthread_mutex_init(&device->lock, NULL);
  }
}

/* Says why the existing drivers have no device. */
static const char *explain_none(const cl_platform_id *platforms, cl_uint count) {
  for (cl_uint i = 0; i < count; i++) {
    char name[64] = "";
    bp_cl.clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(name), name, NULL);
    if (strcmp(name, "Portable Computing Language") == 0)
      return "the OpenCL drivers that are installed have no device, and PoCL, which is one of "
             "them, "
             "has none where it cannot write its cache: set POCL_CACHE_DIR to a folder of this "
             "user's; `clinfo` tells more";
  }
  return count ? "the OpenCL drivers that are installed have no device; `clinfo` tells more"
               : "no OpenCL driver is installed; install one, such as pocl-opencl-icd";
}

static void find_devices(void) {
  static const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR,
                                         CL_DEVICE_TYPE_CPU};
  cl_platform_id platforms[BP_OPENCL_MOST_DEVICES];
  cl_uint count = 0;
  found.why = bp_opencl_load();
  if (found.why)
    return;
  bp_device_list_watch_forks();
  if (bp_cl.clGetPlatformIDs(BP_OPENCL_MOST_DEVICES, platforms, &count) != CL_SUCCESS)
    count = 0;
  if (count > BP_OPENCL_MOST_DEVICES)
    count = BP_OPENCL_MOST_DEVICES;
  for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++)
    for (cl_uint i = 0; i < count; i++)
      add_devices(platforms[i], types[k]);
  if (found.count == 0)
    found.why = explain_none(platforms, count);
}

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  return bp_device_list_count(&found, count, why);
}

/* PoCL's driver "basic" has no thread of its own: it runs work that waited for an event in the
 * thread that signals the event, with a lock that another thread's calls need. */
static int32_t can_be_held(const BpOpenclDevice *device) {
  char platform[64] = "", name[256] = "";
  bp_cl.clGetPlatformInfo(device->platform, CL_PLATFORM_NAME, sizeof(platform) - 1, platform, NULL);
  bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL);
  return strcmp(platform, "Portable Computing Language") || strncmp(name, "basic", 5);
}

static int32_t open_device(void *opened) {
  BpOpenclDevice *device = opened;
  cl_int status = CL_SUCCESS;
  cl_uint bits = 0;
  device->context = bp_cl.clCreateContext(NULL, 1, &device->id, NULL, NULL, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateContext");
  if (bp_opencl_stream_open(device, &device->stream) != 0) {
    bp_cl.clReleaseContext(device->context);
    return -1;
  }
  bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(bits), &bits, NULL);
  device->alignment = bits >= 8 ? bits / 8 : 1;
  device->can_be_held = can_be_held(device);
  return 0;
}

BpOpenclDevice *bp_opencl_device(int32_t device_id) {
  if (bp_device_list_check(&found, device_id) != 0)
    return NULL;
  BpOpenclDevice *device = &devices[device_id];
  return bp_device_open_once(&device->opening, open_device, device) == 0 ? device : NULL;
}

/* ---- Attributes -------------------------------------------------------------------------- */

static int32_t answer_text(BpValue *result, const char *text) {
  return bp_plugin_answer_str(&bp_opencl_host, result, text);
}

/* A text property of the device. */
static int32_t answer_info(BpValue *result, const BpOpenclDevice *device, cl_device_info what) {
  char text[1024];
  size_t size = 0;
  if (bp_cl.clGetDeviceInfo(device->id, what, sizeof(text) - 1, text, &size) != CL_SUCCESS)
    return 0;
  text[size < sizeof(text) ? size : sizeof(text) - 1] = '\0';
  return answer_text(result, text + strspn(text, " "));
}

static uint64_t number(const BpOpenclDevice *device, cl_device_info what, size_t size) {
  uint64_t value = 0; /* on little-endian, a narrower number fills the low bytes */
  if (bp_cl.clGetDeviceInfo(device->id, what, size, &value, NULL) != CL_SUCCESS)
    return 0;
  return value;
}

static uint64_t number32(const BpOpenclDevice *device, cl_device_info what) {
  return number(device, what, sizeof(cl_uint));
}

static uint64_t number64(const BpOpenclDevice *device, cl_device_info what) {
  return number(device, what, sizeof(cl_ulong));
}

/* A number that the driver may not know; 0 means unknown. */
static int32_t answer_number(BpValue *result, uint64_t value) {
  return value ? bp_plugin_answer_int(result, BP_TYPE_INT, (int64_t)value) : 0;
}

static uint64_t warp_size(const BpOpenclDevice *device) {
  uint64_t nvidia = number32(device, CL_DEVICE_WARP_SIZE_NV);
  return nvidia ? nvidia : number32(device, CL_DEVICE_WAVEFRONT_WIDTH_AMD);
}

static int32_t answer_uuid(BpValue *result, const BpOpenclDevice *device) {
  unsigned char uuid[CL_UUID_SIZE_KHR];
  char text[BP_UUID_TEXT];
  if (bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_UUID_KHR, sizeof(uuid), uuid, NULL) != CL_SUCCESS)
    return 0;
  bp_uuid_format(uuid, text);
  return answer_text(result, text);
}

static int32_t answer_pci_address(BpValue *result, const BpOpenclDevice *device) {
  cl_device_pci_bus_info_khr pci;
  char text[48];
  if (bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof(pci), &pci, NULL) !=
      CL_SUCCESS)
    return 0;
  snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", pci.pci_domain, pci.pci_bus, pci.pci_device,
           pci.pci_function);
  return answer_text(result, text);
}

static int32_t answer_dimensions(BpValue *result, const BpOpenclDevice *device) {
  size_t sizes[16] = {0};
  if (bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(sizes), sizes,
                            NULL) != CL_SUCCESS)
    return 0;
  int64_t extents[3] = {(int64_t)sizes[0], (int64_t)sizes[1], (int64_t)sizes[2]};
  return bp_plugin_answer_extents(&bp_opencl_host, result, extents);
}

static int is_gpu(const BpOpenclDevice *device) {
  return (number64(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) == 0;
}

/* Whether the device has float16 as the IR defines it: rounding to even, with NaN and
 * infinities. */
static int has_halves(const BpOpenclDevice *device) {
  const uint64_t needed = CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN;
  return (number64(device, CL_DEVICE_HALF_FP_CONFIG) & needed) == needed;
}

/* A device whose compiler prefers vectors of floats has vector registers, like a CPU; one that
 * prefers scalars runs threads in lock-step. No query returns the number of registers: machines
 * with vectors of 512 bits have 32. For single threads local memory is workspace, whatever kind of
 * memory it is; threads in lock-step gain by it only if it is faster than ordinary memory. */
static int32_t answer_target(BpValue *result, const BpOpenclDevice *device) {
  char text[256];
  unsigned long long threads =
      (unsigned long long)number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
  unsigned long long shared = number64(device, CL_DEVICE_LOCAL_MEM_SIZE);
  unsigned lanes = (unsigned)number32(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
  const char *doubles = number64(device, CL_DEVICE_DOUBLE_FP_CONFIG) ? "" : " -fp64=false";
  const char *halves = has_halves(device) ? " -supports_float16=true" : "";
  if (lanes >= 4)
    snprintf(text, sizeof(text),
             "opencl -max_num_threads=%llu -max_shared_memory_per_block=%llu%s%s -vector_bits=%u "
             "-vector_registers=%d -num_cores=%u%s",
             threads, shared, doubles, halves, lanes * 32, lanes >= 16 ? 32 : 16,
             (unsigned)number32(device, CL_DEVICE_MAX_COMPUTE_UNITS),
             shared >= WINOGRAD_SHARED ? " -winograd=true" : "");
  else
    snprintf(text, sizeof(text),
             "opencl -max_num_threads=%llu -max_shared_memory_per_block=%llu%s%s -vector_bits=0 "
             "-thread_warp_size=32",
             threads, number32(device, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL ? shared : 0ULL,
             doubles, halves);
  return answer_text(result, text);
}

/* The attributes that a driver query answers; some have another unit. */
static const struct {
  int32_t attr;
  cl_device_info what;
  size_t size;
  uint32_t times, per;
} attr_numbers[] = {
    {BP_ATTR_MAX_THREADS_PER_BLOCK, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t), 1, 1},
    {BP_ATTR_MAX_REGISTERS_PER_BLOCK, CL_DEVICE_REGISTERS_PER_BLOCK_NV, sizeof(cl_uint), 1, 1},
    {BP_ATTR_IMAGE_PITCH_ALIGNMENT, IMAGE_PITCH_ALIGNMENT, sizeof(cl_uint), 1, 1},
    {BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong), 1, 1},
    {BP_ATTR_MAX_CLOCK_RATE, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof(cl_uint), 1000, 1},
    {BP_ATTR_MULTI_PROCESSOR_COUNT, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint), 1, 1},
    {BP_ATTR_L2_CACHE_SIZE, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof(cl_ulong), 1, 1},
    {BP_ATTR_TOTAL_GLOBAL_MEMORY, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong), 1, 1},
    {BP_ATTR_MAX_ALLOCATION, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong), 1, 1},
    {BP_ATTR_DATA_ALIGNMENT, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(cl_uint), 1, 8},
};

static const struct {
  int32_t attr;
  cl_device_info what;
} attr_texts[] = {
    {BP_ATTR_DEVICE_NAME, CL_DEVICE_NAME},
    {BP_ATTR_VENDOR, CL_DEVICE_VENDOR},
    {BP_ATTR_COMPUTE_VERSION, CL_DEVICE_OPENCL_C_VERSION},
    {BP_ATTR_API_VERSION, CL_DEVICE_VERSION},
    {BP_ATTR_DRIVER_VERSION, CL_DRIVER_VERSION},
};

static int32_t answer_query(const BpOpenclDevice *device, int32_t attr, BpValue *result) {
  for (size_t i = 0; i < sizeof(attr_texts) / sizeof(attr_texts[0]); i++) {
    if (attr_texts[i].attr == attr)
      return answer_info(result, device, attr_texts[i].what);
  }
  for (size_t i = 0; i < sizeof(attr_numbers) / sizeof(attr_numbers[0]); i++) {
    if (attr_numbers[i].attr == attr)
      return answer_number(result, number(device, attr_numbers[i].what, attr_numbers[i].size) *
                                       attr_numbers[i].times / attr_numbers[i].per);
  }
  return 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  const BpOpenclDevice *device = &devices[device_id];
  switch (attr) {
  case BP_ATTR_EXIST:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 1);
  case BP_ATTR_HOST_ACCESSIBLE:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 0);
  case BP_ATTR_UUID:
    return answer_uuid(result, device);
  case BP_ATTR_PCI_ADDRESS:
    return answer_pci_address(result, device);
  case BP_ATTR_MAX_THREAD_DIMENSIONS:
    return answer_dimensions(result, device);
  case BP_ATTR_WARP_SIZE:
    return answer_number(result, warp_size(device));
  case BP_ATTR_RANK:
    return answer_number(result, is_gpu(device) ? RANK_GPU : RANK_CPU);
  case BP_ATTR_TARGET:
    return answer_target(result, device);
  default:
    return answer_query(device, attr, result);
  }
}

/* Visits the properties that are not attributes. */
static int32_t visit_properties(void *context, int32_t device_id,
                                int32_t (*visit)(void *context, const char *name,
                                                 const BpValue *value),
                                void *visitor) {
  (void)context;
  static const struct {
    const char *name;
    cl_device_info what;
  } numbers[] = {
      {"native_vector_width_float", CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT},
      {"native_vector_width_half", CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF},
      {"native_vector_width_double", CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE},
      {"cache_line_bytes", CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE},
  };
  static const struct {
    const char *name;
    cl_device_info what;
  } texts[] = {{"profile", CL_DEVICE_PROFILE}, {"extensions", CL_DEVICE_EXTENSIONS}};
  const BpOpenclDevice *device = &devices[device_id];
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    BpValue value = {.type_index = BP_TYPE_INT};
    value.v_int64 = (int64_t)number32(device, numbers[i].what);
    if (visit(visitor, numbers[i].name, &value) != 0)
      return 0;
  }
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    char text[8192] = "";
    if (bp_cl.clGetDeviceInfo(device->id, texts[i].what, sizeof(text) - 1, text, NULL) !=
        CL_SUCCESS)
      continue;
    BpValue value = {.type_index = BP_TYPE_RAW_STR, .v_cstr = text};
    if (visit(visitor, texts[i].name, &value) != 0)
      return 0;
  }
  return 0;
}

static const void *get_extension(void *context, const char *name, uint32_t version) {
  (void)context;
  if (!strcmp(name, BP_EXTENSION_TIMER) && version == BP_EXTENSION_TIMER_VERSION)
    return &bp_opencl_timers;
  if (!strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION)
    return &bp_opencl_events;
  if (!strcmp(name, BP_EXTENSION_EXTERNAL_MEMORY) &&
      version == BP_EXTENSION_EXTERNAL_MEMORY_VERSION)
    return &bp_opencl_external;
  return NULL;
}

const BpDeviceApi bp_opencl_device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = BP_DEVICE_OPENCL,
    .name = "opencl",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = bp_opencl_alloc,
    .free_data_space = bp_opencl_free,
    .copy = bp_opencl_copy,
    .create_stream = bp_opencl_create_stream,
    .free_stream = bp_opencl_free_stream,
    .sync_stream_from_to = bp_opencl_sync_from_to,
    .stream_sync = bp_opencl_stream_sync,
    .visit_properties = visit_properties,
    .get_extension = get_extension,
};
