/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda, opened when a device is first asked for, so that the plugin loads without it; and the
 * meaning of its errors. */
#include "cuda.h"

#define OLDEST_VERSION 12000

BpCudaLibrary bp_cu;

static const BpLibrarySymbol symbols[] = {
#define SYMBOL(name, parameters) {#name, (void **)&bp_cu.name},
    BP_CUDA_FUNCTIONS(SYMBOL)};

static BpLibrary library = {
    .option = "BACKPLANE_CUDA_LIBRARY",
    .names = {"libcuda.so.1"},
    .what = "the CUDA driver",
    .install = "install NVIDIA's driver, on Debian the packages nvidia-driver and libcuda1 "
               "(non-free), 525 or later",
    .upgrade = "install NVIDIA's driver 525 or later",
    .symbols = symbols,
    .num_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

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

const char *bp_cuda_load(void) {
  int version = 0;
  if (bp_library_open(&bp_cuda_host, &library))
    return library.problem;
  CUresult status = bp_cu.cuInit(0);
  if (status == CUDA_ERROR_NO_DEVICE)
    return BP_CUDA_NO_GPU;
  if (status != CUDA_SUCCESS)
    return bp_library_refuse(
        &library,
        "the CUDA driver does not start: %s (%s); `nvidia-smi` tells more, and after an upgrade of "
        "the driver the machine may have to be restarted",
        bp_cuda_status_name(status), status_text(status));
  bp_device_list_watch_forks();
  if (bp_cu.cuDriverGetVersion(&version) == CUDA_SUCCESS && version < OLDEST_VERSION)
    return bp_library_refuse(&library, "the CUDA driver is of CUDA %d.%d, and 12.0 is needed; %s",
                             version / 1000, version % 1000 / 10, library.upgrade);
  return NULL;
}

/* ---- Errors ------------------------------------------------------------------------------ */

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
  if (!bp_cuda_is_lost(status))
    return bp_plugin_raise(&bp_cuda_host, kind_of(status), "cuda:%d: %s: %s (%d): %s",
                           device->index, call, bp_cuda_status_name(status), status,
                           status_text(status));
  if (atomic_compare_exchange_strong(&device->lost, &before, status))
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_DEVICE,
                           "cuda:%d: work that was queued failed, as %s reports: %s "
                           "(%d): %s; this process cannot use the device any more",
                           device->index, call, bp_cuda_status_name(status), status,
                           status_text(status));
  return bp_plugin_raise(&bp_cuda_host, BP_ERROR_DEVICE_LOST,
                         "cuda:%d: %s: the device was lost by an earlier failure, %s; "
                         "start the process again",
                         device->index, call, bp_cuda_status_name(before));
}
