/* SPDX-License-Identifier: Apache-2.0 */
/* The devices, and their attributes. A device's primary context, which it shares with the CUDA
 * runtime of other libraries in the process, is retained at its first use; reading attributes does
 * not need it, except for the free memory. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

/* The rank is higher than that of other drivers for the same GPU. */
#define RANK 400

static void find_devices(void);

static BpDeviceList found = {&bp_cuda_host, &bp_cuda_device_api, find_devices, PTHREAD_ONCE_INIT, 0,
                             NULL};
static BpCudaDevice devices[BP_CUDA_MOST_DEVICES];

/* ---- Finding devices --------------------------------------------------------------------- */

static int attribute(const BpCudaDevice *device, int which) {
  int value = 0;
  return bp_cu.cuDeviceGetAttribute(&value, which, device->id) == CUDA_SUCCESS ? value : -1;
}

static void read_limits(BpCudaDevice *device) {
  device->arch = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                 attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device->most_shared = attribute(device, CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_OPTIN);
  device->limits.block_threads = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; i++) {
    device->limits.threads[i] = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    device->limits.blocks[i] = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
  }
}

static void find_devices(void) {
  int count = 0;
  found.why = bp_cuda_load();
  if (found.why)
    return;
  if (bp_cu.cuDeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  for (int i = 0; i < count && i < BP_CUDA_MOST_DEVICES; i++) {
    BpCudaDevice *device = &devices[found.count];
    if (bp_cu.cuDeviceGet(&device->id, i) != CUDA_SUCCESS)
      continue;
    device->index = found.count++;
    pthread_mutex_init(&device->opening.lock, NULL);
    pthread_mutex_init(&device->lock, NULL);
    for (int k = 0; k < BP_CUDA_STAGES; k++)
      pthread_mutex_init(&device->stages[k].lock, NULL);
    read_limits(device);
  }
  if (found.count == 0)
    found.why = BP_CUDA_NO_GPU;
}

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  return bp_device_list_count(&found, count, why);
}

/* ---- Opening devices --------------------------------------------------------------------- */

/* Freed memory stays in the driver's pool for the next workspace. */
static void find_pool(BpCudaDevice *device) {
  uint64_t all = UINT64_MAX;
  if (attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 1 ||
      bp_cu.cuDeviceGetDefaultMemPool(&device->pool, device->id) != CUDA_SUCCESS ||
      bp_cu.cuMemPoolSetAttribute(device->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) !=
          CUDA_SUCCESS)
    device->pool = NULL;
}

static int32_t open_device(void *opened) {
  BpCudaDevice *device = opened;
  CUresult status = bp_cu.cuDevicePrimaryCtxRetain(&device->context, device->id);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuDevicePrimaryCtxRetain");
  status = bp_cu.cuCtxSetCurrent(device->context);
  if (status == CUDA_SUCCESS)
    status = bp_cu.cuStreamCreate(&device->stream, CU_STREAM_DEFAULT);
  if (status != CUDA_SUCCESS) {
    bp_cu.cuDevicePrimaryCtxRelease_v2(device->id);
    return bp_cuda_raise(device, status, "cuStreamCreate");
  }
  find_pool(device);
  return 0;
}

BpCudaDevice *bp_cuda_device(int32_t device_id) {
  if (bp_device_list_check(&found, device_id) != 0)
    return NULL;
  BpCudaDevice *device = &devices[device_id];
  if (bp_device_open_once(&device->opening, open_device, device) != 0)
    return NULL;
  CUresult status = bp_cu.cuCtxSetCurrent(device->context);
  if (status == CUDA_SUCCESS)
    return device;
  bp_cuda_raise(device, status, "cuCtxSetCurrent");
  return NULL;
}

BpCudaDevice *bp_cuda_device_if_open(int32_t device_id) {
  BpCudaDevice *device = &devices[device_id];
  if (bp_device_list_is_forked() || !bp_device_is_open(&device->opening) ||
      atomic_load(&device->lost))
    return NULL;
  return bp_cu.cuCtxSetCurrent(device->context) == CUDA_SUCCESS ? device : NULL;
}

static int32_t set_device(void *context, int32_t device_id) {
  (void)context;
  return bp_cuda_device(device_id) ? 0 : -1;
}

/* ---- Attributes -------------------------------------------------------------------------- */

static int32_t answer_number(BpValue *result, int64_t value) {
  if (value < 0) /* the driver lacks the attribute */
    return 0;
  return bp_plugin_answer_int(result, BP_TYPE_INT, value);
}

static int32_t answer_text(BpValue *result, const char *text) {
  return bp_plugin_answer_str(&bp_cuda_host, result, text);
}

static int32_t answer_name(BpValue *result, const BpCudaDevice *device) {
  char name[256] = "";
  if (bp_cu.cuDeviceGetName(name, sizeof(name) - 1, device->id) != CUDA_SUCCESS)
    return 0;
  return answer_text(result, name);
}

/* Answers the UUID in the form of nvidia-smi. */
static int32_t answer_uuid(BpValue *result, const BpCudaDevice *device) {
  CUuuid uuid;
  char text[4 + BP_UUID_TEXT] = "GPU-";
  if (bp_cu.cuDeviceGetUuid_v2(&uuid, device->id) != CUDA_SUCCESS)
    return 0;
  bp_uuid_format((const uint8_t *)uuid.bytes, text + 4);
  return answer_text(result, text);
}

static int32_t answer_pci_address(BpValue *result, const BpCudaDevice *device) {
  char text[32] = "";
  if (bp_cu.cuDeviceGetPCIBusId(text, sizeof(text) - 1, device->id) != CUDA_SUCCESS)
    return 0;
  return answer_text(result, text);
}

static int32_t answer_versions(BpValue *result, const BpCudaDevice *device, int32_t attr) {
  char text[32];
  int version = 0;
  if (attr == BP_ATTR_COMPUTE_VERSION)
    snprintf(text, sizeof(text), "%d.%d", device->arch / 10, device->arch % 10);
  else if (bp_cu.cuDriverGetVersion(&version) == CUDA_SUCCESS)
    snprintf(text, sizeof(text), "%d.%d", version / 1000, version % 1000 / 10);
  else
    return 0;
  return answer_text(result, text);
}

/* The version of the kernel's driver, "550.54.14", is only in the driver's own file in /proc. */
static int32_t answer_driver_version(BpValue *result) {
  char line[256] = "", version[32] = "";
  FILE *file = fopen("/proc/driver/nvidia/version", "re");
  if (!file)
    return 0;
  const char *got = fgets(line, sizeof(line), file);
  fclose(file);
  for (const char *p = got; p && *p; p++) {
    size_t digits = strspn(p, "0123456789.");
    if (digits > 4 && strchr(p, '.') < p + digits && (p == line || p[-1] == ' ')) {
      snprintf(version, sizeof(version), "%.*s", (int)digits, p);
      return answer_text(result, version);
    }
  }
  return 0;
}

static int32_t answer_total_memory(BpValue *result, const BpCudaDevice *device) {
  size_t bytes = 0;
  if (bp_cu.cuDeviceTotalMem_v2(&bytes, device->id) != CUDA_SUCCESS)
    return 0;
  return answer_number(result, (int64_t)bytes);
}

static int32_t answer_free_memory(BpValue *result, int32_t device_id) {
  size_t available = 0, total = 0;
  if (!bp_cuda_device(device_id))
    return -1;
  if (bp_cu.cuMemGetInfo_v2(&available, &total) != CUDA_SUCCESS)
    return 0;
  return answer_number(result, (int64_t)available);
}

static int32_t answer_target(BpValue *result, const BpCudaDevice *device) {
  char text[256];
  int shared = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  snprintf(text, sizeof(text),
           "cuda -arch=sm_%d -max_num_threads=%d -max_shared_memory_per_block=%d -num_cores=%d",
           device->arch, (int)device->limits.block_threads,
           shared < BP_CUDA_STATIC_SHARED ? shared : BP_CUDA_STATIC_SHARED,
           attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  return answer_text(result, text);
}

static const struct {
  int32_t attr;
  int which;
} numbers[] = {
    {BP_ATTR_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {BP_ATTR_WARP_SIZE, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {BP_ATTR_MAX_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {BP_ATTR_MULTI_PROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {BP_ATTR_MAX_REGISTERS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {BP_ATTR_L2_CACHE_SIZE, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {BP_ATTR_IMAGE_PITCH_ALIGNMENT, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
};

static int32_t get_number_attr(const BpCudaDevice *device, int32_t attr, BpValue *result) {
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    if (numbers[i].attr == attr)
      return answer_number(result, attribute(device, numbers[i].which));
  }
  return 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  const BpCudaDevice *device = &devices[device_id];
  switch (attr) {
  case BP_ATTR_EXIST:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, atomic_load(&device->lost) == CUDA_SUCCESS);
  case BP_ATTR_HOST_ACCESSIBLE:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 0);
  case BP_ATTR_DEVICE_NAME:
    return answer_name(result, device);
  case BP_ATTR_VENDOR:
    return answer_text(result, "NVIDIA");
  case BP_ATTR_UUID:
    return answer_uuid(result, device);
  case BP_ATTR_PCI_ADDRESS:
    return answer_pci_address(result, device);
  case BP_ATTR_COMPUTE_VERSION:
  case BP_ATTR_API_VERSION:
    return answer_versions(result, device, attr);
  case BP_ATTR_DRIVER_VERSION:
    return answer_driver_version(result);
  case BP_ATTR_MAX_THREAD_DIMENSIONS:
    return bp_plugin_answer_extents(&bp_cuda_host, result, device->limits.threads);
  case BP_ATTR_MAX_GRID_DIMENSIONS:
    return bp_plugin_answer_extents(&bp_cuda_host, result, device->limits.blocks);
  case BP_ATTR_TARGET:
    return answer_target(result, device);
  case BP_ATTR_TOTAL_GLOBAL_MEMORY:
  case BP_ATTR_MAX_ALLOCATION: /* total memory is the only limit */
    return answer_total_memory(result, device);
  case BP_ATTR_AVAILABLE_GLOBAL_MEMORY:
    return answer_free_memory(result, device_id);
  case BP_ATTR_DATA_ALIGNMENT:
    return answer_number(result, BP_CUDA_ALIGNMENT);
  case BP_ATTR_RANK:
    return answer_number(result, RANK);
  default:
    return get_number_attr(device, attr, result);
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
    int which;
  } facts[] = {
      {"max_shared_memory_per_block_optin", CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_OPTIN},
      {"memory_clock_rate_khz", CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
      {"memory_bus_width_bits", CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
      {"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED},
      {"memory_pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
  };
  for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
    BpValue value = {.type_index = BP_TYPE_INT};
    value.v_int64 = attribute(&devices[device_id], facts[i].which);
    if (value.v_int64 >= 0 && visit(visitor, facts[i].name, &value) != 0)
      break;
  }
  return 0;
}

static const void *get_extension(void *context, const char *name, uint32_t version) {
  (void)context;
  if (!strcmp(name, BP_EXTENSION_TIMER) && version == BP_EXTENSION_TIMER_VERSION)
    return &bp_cuda_timers;
  if (!strcmp(name, BP_EXTENSION_RECORDING) && version == BP_EXTENSION_RECORDING_VERSION)
    return &bp_cuda_recordings;
  if (!strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION)
    return &bp_cuda_events;
  return NULL;
}

const BpDeviceApi bp_cuda_device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = BP_DEVICE_CUDA,
    .name = "cuda",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .set_device = set_device,
    .alloc_data_space = bp_cuda_alloc,
    .free_data_space = bp_cuda_free,
    .alloc_workspace = bp_cuda_alloc_workspace,
    .free_workspace = bp_cuda_free_workspace,
    .copy = bp_cuda_copy,
    .create_stream = bp_cuda_create_stream,
    .free_stream = bp_cuda_free_stream,
    .sync_stream_from_to = bp_cuda_sync_from_to,
    .stream_sync = bp_cuda_stream_sync,
    .visit_properties = visit_properties,
    .get_extension = get_extension,
};
