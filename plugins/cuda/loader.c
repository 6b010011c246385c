/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda, opened when a device is first asked for, so that the plugin loads without it; and what
 * its errors mean. */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>

#define LIBRARY        "libcuda.so.1"
#define OLDEST_VERSION 12000

BpCudaLibrary bp_cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[512];
static _Atomic int is_forked;

static const struct {
  const char *name;
  void **place;
} functions[] = {
#define ENTRY_(name, parameters) {#name, (void **)&bp_cu.name},
    BP_CUDA_FUNCTIONS(ENTRY_)};

static void mark_forked(void) {
  atomic_store(&is_forked, 1);
}

int bp_cuda_is_forked(void) {
  return atomic_load_explicit(&is_forked, memory_order_relaxed);
}

const char *bp_cuda_status_name(CUresult status) {
  const char *name = NULL;
  if (bp_cu.cuGetErrorName && bp_cu.cuGetErrorName(status, &name) == CUDA_SUCCESS && name)
    return name;
  return "an unknown error";
}

static const char *status_text(CUresult status) {
  const char *text = NULL;
  if (bp_cu.cuGetErrorString && bp_cu.cuGetErrorString(status, &text) == CUDA_SUCCESS && text)
    return text;
  return "the driver has no description";
}

static int open_library(void) {
  const char *path = bp_cuda_host.runtime->get_option("BACKPLANE_CUDA_LIBRARY");
  void *library = dlopen(path ? path : LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(problem, sizeof(problem),
             "the CUDA driver cannot be opened (%s); install NVIDIA's driver, on Debian the "
             "packages nvidia-driver and libcuda1 (non-free), 525 or later",
             dlerror());
    return -1;
  }
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
    *functions[i].place = dlsym(library, functions[i].name);
    if (!*functions[i].place) {
      snprintf(problem, sizeof(problem),
               "the CUDA driver lacks %s; install NVIDIA's driver 525 or later", functions[i].name);
      return -1;
    }
  }
  return 0;
}

static void load(void) {
  int version = 0;
  if (open_library() != 0)
    return;
  CUresult status = bp_cu.cuInit(0);
  if (status == CUDA_ERROR_NO_DEVICE) {
    snprintf(problem, sizeof(problem),
             "the CUDA driver finds no GPU; `nvidia-smi` and CUDA_VISIBLE_DEVICES tell more");
    return;
  }
  if (status != CUDA_SUCCESS) {
    snprintf(problem, sizeof(problem),
             "the CUDA driver does not start: %s (%s); `nvidia-smi` tells more, and after an "
             "upgrade of the driver the machine may have to be restarted",
             bp_cuda_status_name(status), status_text(status));
    return;
  }
  pthread_atfork(NULL, NULL, mark_forked);
  if (bp_cu.cuDriverGetVersion(&version) == CUDA_SUCCESS && version < OLDEST_VERSION)
    snprintf(problem, sizeof(problem),
             "the CUDA driver is of CUDA %d.%d, and 12.0 is needed; install NVIDIA's driver 525 "
             "or later",
             version / 1000, version % 1000 / 10);
}

const char *bp_cuda_load(void) {
  pthread_once(&once, load);
  return problem[0] ? problem : NULL;
}

/* ---- Errors ------------------------------------------------------------------------------ */

/* After these no call on the context succeeds any more. */
static int is_fatal(CUresult status) {
  return status == CUDA_ERROR_ECC_UNCORRECTABLE || status == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
         status == CUDA_ERROR_ILLEGAL_ADDRESS || status == CUDA_ERROR_LAUNCH_TIMEOUT ||
         status == CUDA_ERROR_CONTEXT_IS_DESTROYED || status == CUDA_ERROR_ASSERT ||
         (status >= CUDA_ERROR_HARDWARE_STACK_ERROR && status <= CUDA_ERROR_LAUNCH_FAILED) ||
         status == CUDA_ERROR_DEVICE_UNAVAILABLE;
}

static const char *kind_of(CUresult status) {
  switch (status) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return BP_ERROR_MEMORY;
  case CUDA_ERROR_INVALID_VALUE:
  case CUDA_ERROR_INVALID_HANDLE:
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    return BP_ERROR_VALUE;
  default:
    return BP_ERROR_DEVICE;
  }
}

int32_t bp_cuda_raise(BpCudaDevice *device, CUresult status, const char *call) {
  CUresult before = 0;
  if (!is_fatal(status))
    return bp_cuda_host.error->raise(kind_of(status), "cuda:%d: %s: %s (%d): %s", device->index,
                                     call, bp_cuda_status_name(status), status,
                                     status_text(status));
  if (atomic_compare_exchange_strong(&device->lost, &before, status))
    return bp_cuda_host.error->raise(BP_ERROR_DEVICE,
                                     "cuda:%d: work that was queued failed, as %s reports: %s "
                                     "(%d): %s; this process cannot use the device any more",
                                     device->index, call, bp_cuda_status_name(status), status,
                                     status_text(status));
  return bp_cuda_host.error->raise(BP_ERROR_DEVICE_LOST,
                                   "cuda:%d: %s: the device was lost by an earlier failure, %s; "
                                   "start the process again",
                                   device->index, call, bp_cuda_status_name(before));
}
