/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver: its lock, devices, contexts, and failures on demand. Every call holds the
 * one lock. */
#include "tests/mock/fakecuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUctx_st fake_contexts[FAKE_DEVICES] = {{.device = 0}, {.device = 1}};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_initialized;
static _Thread_local CUcontext current;
static _Thread_local int num_restrictions;
static CUresult kernel_failure;

static struct Planned {
  char function[64];
  int after;
  CUresult status;
} planned[16];

static struct Counter {
  char name[64];
  int count;
} counters[256];

/* ---- Bookkeeping ------------------------------------------------------------------------- */

static struct Counter *counter_of(const char *name) {
  for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
    if (!counters[i].name[0])
      snprintf(counters[i].name, sizeof(counters[i].name), "%s", name);
    if (strcmp(counters[i].name, name) == 0)
      return &counters[i];
  }
  fprintf(stderr, "fakecuda: too many counters\n");
  abort();
}

void fake_add(const char *what, int difference) {
  counter_of(what)->count += difference;
}

static CUresult planned_status(const char *function) {
  for (size_t i = 0; i < sizeof(planned) / sizeof(planned[0]); i++) {
    if (planned[i].after > 0 && strcmp(planned[i].function, function) == 0 &&
        --planned[i].after == 0)
      return planned[i].status;
  }
  return CUDA_SUCCESS;
}

CUresult fake_enter(const char *function, int needs_context) {
  pthread_mutex_lock(&lock);
  fake_add(function, 1);
  CUresult status = planned_status(function);
  if (status == CUDA_SUCCESS && !is_initialized)
    status = CUDA_ERROR_NOT_INITIALIZED;
  if (status == CUDA_SUCCESS && needs_context)
    status = !current || !current->retained ? CUDA_ERROR_INVALID_CONTEXT : current->dead;
  return status;
}

CUresult fake_enter_unsafe(const char *function) {
  CUresult status = fake_enter(function, 1);
  return status == CUDA_SUCCESS && num_restrictions > 0 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                        : status;
}

void fake_restrict(int difference) {
  num_restrictions += difference;
}

CUresult fake_leave(CUresult status) {
  pthread_mutex_unlock(&lock);
  return status;
}

CUcontext fake_current(void) {
  return current;
}

CUresult fake_take_kernel_failure(void) {
  CUresult status = kernel_failure;
  kernel_failure = CUDA_SUCCESS;
  return status;
}

void fakecuda_fail(const char *function, int after, CUresult status) {
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof(planned) / sizeof(planned[0]); i++) {
    if (planned[i].after > 0)
      continue;
    snprintf(planned[i].function, sizeof(planned[i].function), "%s", function);
    planned[i].after = after;
    planned[i].status = status;
    break;
  }
  pthread_mutex_unlock(&lock);
}

void fakecuda_fail_kernel(CUresult status) {
  pthread_mutex_lock(&lock);
  kernel_failure = status;
  pthread_mutex_unlock(&lock);
}

int fakecuda_count(const char *what) {
  pthread_mutex_lock(&lock);
  int count = counter_of(what)->count;
  pthread_mutex_unlock(&lock);
  return count;
}

int fakecuda_calls(const char *function) {
  return fakecuda_count(function);
}

/* ---- The driver -------------------------------------------------------------------------- */

CUresult cuInit(unsigned flags) {
  pthread_mutex_lock(&lock);
  const char *failure = getenv("FAKECUDA_INIT_FAILS");
  CUresult status = flags != 0 ? CUDA_ERROR_INVALID_VALUE : failure ? atoi(failure) : CUDA_SUCCESS;
  is_initialized = status == CUDA_SUCCESS;
  return fake_leave(status);
}

CUresult cuDriverGetVersion(int *version) {
  const char *asked = getenv("FAKECUDA_VERSION");
  *version = asked ? atoi(asked) : 12080;
  return CUDA_SUCCESS;
}

static const struct {
  CUresult status;
  const char *name;
  const char *text;
} statuses[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

static CUresult describe(CUresult status, const char **text, int is_name) {
  for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
    if (statuses[i].status != status)
      continue;
    *text = is_name ? statuses[i].name : statuses[i].text;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult status, const char **name) {
  return describe(status, name, 1);
}

CUresult cuGetErrorString(CUresult status, const char **text) {
  return describe(status, text, 0);
}

/* ---- Devices ----------------------------------------------------------------------------- */

CUresult cuDeviceGetCount(int *count) {
  CUresult status = fake_enter("cuDeviceGetCount", 0);
  *count = FAKE_DEVICES;
  return fake_leave(status);
}

static CUresult check_device(const char *function, CUdevice device) {
  CUresult status = fake_enter(function, 0);
  if (status == CUDA_SUCCESS && (device < 0 || device >= FAKE_DEVICES))
    status = CUDA_ERROR_INVALID_DEVICE;
  return status;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  CUresult status = check_device("cuDeviceGet", ordinal);
  *device = ordinal;
  return fake_leave(status);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  CUresult status = check_device("cuDeviceGetName", device);
  snprintf(name, (size_t)size, "Simulated GPU %d", device);
  return fake_leave(status);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  CUresult status = check_device("cuDeviceGetUuid_v2", device);
  for (int i = 0; i < 16; i++)
    uuid->bytes[i] = (char)(i * 16 + device);
  return fake_leave(status);
}

CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device) {
  CUresult status = check_device("cuDeviceGetPCIBusId", device);
  snprintf(text, (size_t)size, "0000:%02x:00.0", device + 1);
  return fake_leave(status);
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  static const struct {
    int attribute, value;
  } values[] = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, FAKE_THREADS},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
      {CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_OPTIN, FAKE_OPTIN},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1500000},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 22},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
  };
  CUresult status = check_device("cuDeviceGetAttribute", device);
  int is_known = 1;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) {
    *value = 9 - device;
  } else if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) {
    *value = device == 0; /* the second device lacks a memory pool */
  } else {
    is_known = 0;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
      if (values[i].attribute == attribute) {
        *value = values[i].value;
        is_known = 1;
      }
    }
  }
  return fake_leave(status != CUDA_SUCCESS ? status : is_known ? 0 : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  CUresult status = check_device("cuDeviceTotalMem_v2", device);
  *bytes = FAKE_MEMORY;
  return fake_leave(status);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  CUresult status = check_device("cuDeviceGetDefaultMemPool", device);
  *pool = (CUmemoryPool)(void *)&fake_contexts[status == CUDA_SUCCESS ? device : 0];
  return fake_leave(status == CUDA_SUCCESS && device != 0 ? CUDA_ERROR_INVALID_VALUE : status);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  CUresult status = fake_enter("cuMemPoolSetAttribute", 0);
  CUcontext context = (CUcontext)(void *)pool;
  if (status == CUDA_SUCCESS &&
      (context != &fake_contexts[0] || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS)
    context->has_limit = *(uint64_t *)value > 0;
  return fake_leave(status);
}

/* ---- Contexts ---------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  CUresult status = check_device("cuDevicePrimaryCtxRetain", device);
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  *context = &fake_contexts[device];
  (*context)->retained++;
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CUresult status = check_device("cuDevicePrimaryCtxRelease_v2", device);
  if (status == CUDA_SUCCESS)
    status = fake_contexts[device].retained-- > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  return fake_leave(status);
}

CUresult cuCtxSetCurrent(CUcontext context) {
  CUresult status = fake_enter("cuCtxSetCurrent", 0);
  if (status == CUDA_SUCCESS && context && !context->retained)
    status = CUDA_ERROR_INVALID_CONTEXT;
  if (status == CUDA_SUCCESS)
    current = context;
  return fake_leave(status);
}
