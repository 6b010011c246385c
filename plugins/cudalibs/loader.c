/* SPDX-License-Identifier: Apache-2.0 */
/* libcublas, libcudnn and libcuda, each opened when it is first needed, and their errors. */
#include "cudalibs.h"

BpCudalibsLibraries bp_cl;

#define SYMBOL(name, parameters) {#name, (void **)&bp_cl.name},

static const BpLibrarySymbol cublas_symbols[] = {BP_CUDALIBS_CUBLAS_FUNCTIONS(SYMBOL)
                                                     BP_CUDALIBS_CUBLAS_TEXTS(SYMBOL)};
static const BpLibrarySymbol cudnn_symbols[] = {BP_CUDALIBS_CUDNN_FUNCTIONS(SYMBOL)
                                                    BP_CUDALIBS_CUDNN_TEXTS(SYMBOL)};
static const BpLibrarySymbol driver_symbols[] = {BP_CUDA_COMMON_FUNCTIONS(SYMBOL)};

#define SYMBOLS(list) .symbols = list, .num_symbols = sizeof(list) / sizeof((list)[0])

static BpLibrary libraries[] = {
    [BP_CUDALIBS_CUBLAS] = {.option = "BACKPLANE_CUBLAS_LIBRARY",
                            .names = {"libcublas.so.12", "libcublas.so.13"},
                            .what = "cuBLAS",
                            .install = "install cuBLAS of CUDA 12 or 13, on Debian the package "
                                       "libcublas12 (non-free)",
                            .upgrade = "cuBLAS of CUDA 12 or 13 is needed",
                            SYMBOLS(cublas_symbols)},
    [BP_CUDALIBS_CUDNN] = {.option = "BACKPLANE_CUDNN_LIBRARY",
                           .names = {"libcudnn.so.9"},
                           .what = "cuDNN",
                           .install =
                               "install cuDNN 9, NVIDIA's package libcudnn9-cuda-12 or -13, or "
                               "PyPI's nvidia-cudnn-cu12",
                           .upgrade = "cuDNN 9 is needed",
                           SYMBOLS(cudnn_symbols)},
    [BP_CUDALIBS_DRIVER] = {.option = "BACKPLANE_CUDA_LIBRARY",
                            .names = {"libcuda.so.1"},
                            .what = "the CUDA driver",
                            .install = "install NVIDIA's driver, on Debian the packages "
                                       "nvidia-driver and libcuda1 (non-free)",
                            .upgrade = "install NVIDIA's driver 525 or later",
                            SYMBOLS(driver_symbols)},
};

static const char *problems[BP_CUDALIBS_NUM_LIBRARIES];

static void open_library(BpCudalibsLibrary library) {
  problems[library] = bp_library_open(&bp_cudalibs_host, &libraries[library]);
}

static void open_cublas(void) {
  open_library(BP_CUDALIBS_CUBLAS);
}

static void open_cudnn(void) {
  open_library(BP_CUDALIBS_CUDNN);
}

static void open_driver(void) {
  open_library(BP_CUDALIBS_DRIVER);
  int status = problems[BP_CUDALIBS_DRIVER] ? 0 : bp_cl.cuInit(0);
  if (status)
    problems[BP_CUDALIBS_DRIVER] = bp_library_refuse(
        &libraries[BP_CUDALIBS_DRIVER],
        "the CUDA driver does not start (%d); `nvidia-smi` and `backplane doctor` tell more",
        status);
}

const char *bp_cudalibs_load(BpCudalibsLibrary library) {
  static pthread_once_t once[BP_CUDALIBS_NUM_LIBRARIES] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                                           PTHREAD_ONCE_INIT};
  static void (*const open[])(void) = {open_cublas, open_cudnn, open_driver};
  pthread_once(&once[library], open[library]);
  return problems[library];
}

/* ---- Errors ------------------------------------------------------------------------------ */

static const char *text_of(BpCudalibsLibrary library, int status) {
  const char *text = NULL;
  if (library == BP_CUDALIBS_CUBLAS)
    text = bp_cl.cublasGetStatusString(status);
  else if (library == BP_CUDALIBS_CUDNN)
    text = bp_cl.cudnnGetErrorString(status);
  else if (bp_cl.cuGetErrorName(status, &text) != CUDA_SUCCESS)
    text = NULL;
  return text ? text : "an unknown error";
}

static int is_out_of_memory(BpCudalibsLibrary library, int status) {
  switch (library) {
  case BP_CUDALIBS_CUBLAS:
    return status == CUBLAS_STATUS_ALLOC_FAILED;
  case BP_CUDALIBS_CUDNN:
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  default:
    return status == CUDA_ERROR_OUT_OF_MEMORY;
  }
}

int32_t bp_cudalibs_raise(BpCudalibsLibrary library, int status, const char *call) {
  if (library == BP_CUDALIBS_DRIVER && bp_cuda_is_lost(status))
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_DEVICE_LOST,
                           "cudalibs: %s: the device was lost by an earlier failure, %s (%d); "
                           "start the process again",
                           call, text_of(library, status), status);
  return bp_plugin_raise(&bp_cudalibs_host,
                         is_out_of_memory(library, status) ? BP_ERROR_MEMORY : BP_ERROR_DEVICE,
                         "cudalibs: %s: %s (%d)", call, text_of(library, status), status);
}
