/* SPDX-License-Identifier: Apache-2.0 */
/* The errors of the CUDA driver, and the functions that the plugins cuda and cudalibs both call,
 * declared from the published reference manual: NVIDIA's own headers are not in Debian main, and
 * few declarations are needed. The names of declarations are the library's symbols. Every function
 * exists since CUDA 11.0. tests/plugins/cuda-headers.cpp compares this file with NVIDIA's headers
 * where they are installed. */
#ifndef BP_PLUGINS_COMMON_CUDA_API_H
#define BP_PLUGINS_COMMON_CUDA_API_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

#define CUDA_SUCCESS                           0
#define CUDA_ERROR_INVALID_VALUE               1
#define CUDA_ERROR_OUT_OF_MEMORY               2
#define CUDA_ERROR_NOT_INITIALIZED             3
#define CUDA_ERROR_DEINITIALIZED               4
#define CUDA_ERROR_NO_DEVICE                   100
#define CUDA_ERROR_INVALID_DEVICE              101
#define CUDA_ERROR_INVALID_IMAGE               200
#define CUDA_ERROR_INVALID_CONTEXT             201
#define CUDA_ERROR_NO_BINARY_FOR_GPU           209
#define CUDA_ERROR_ECC_UNCORRECTABLE           214
#define CUDA_ERROR_INVALID_PTX                 218
#define CUDA_ERROR_NVLINK_UNCORRECTABLE        220
#define CUDA_ERROR_UNSUPPORTED_PTX_VERSION     222
#define CUDA_ERROR_CONTAINED                   226
#define CUDA_ERROR_INVALID_HANDLE              400
#define CUDA_ERROR_NOT_FOUND                   500
#define CUDA_ERROR_NOT_READY                   600
#define CUDA_ERROR_ILLEGAL_ADDRESS             700
#define CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES     701
#define CUDA_ERROR_LAUNCH_TIMEOUT              702
#define CUDA_ERROR_CONTEXT_IS_DESTROYED        709
#define CUDA_ERROR_ASSERT                      710
#define CUDA_ERROR_HARDWARE_STACK_ERROR        714
#define CUDA_ERROR_LAUNCH_FAILED               719
#define CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  900
#define CUDA_ERROR_STREAM_CAPTURE_ISOLATION    905
#define CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD 908
#define CUDA_ERROR_UNKNOWN                     999

#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL 9
#define CU_EVENT_DISABLE_TIMING             2

/* X(symbol, parameters): functions of libcuda.so.1, all returning CUresult. */
#define BP_CUDA_COMMON_FUNCTIONS(X)                                                                \
  X(cuInit, (unsigned flags))                                                                      \
  X(cuGetErrorName, (CUresult status, const char **name))                                          \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                                 \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                              \
  X(cuCtxSetCurrent, (CUcontext context))                                                          \
  X(cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr data))                         \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))        \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                           \
  X(cuStreamIsCapturing, (CUstream stream, int *status))                                           \
  X(cuEventCreate, (CUevent * event, unsigned flags))                                              \
  X(cuEventRecord, (CUevent event, CUstream stream))                                               \
  X(cuEventDestroy_v2, (CUevent event))

/* Whether no call on the context succeeds after this error. */
static inline int bp_cuda_is_lost(CUresult status) {
  return status == CUDA_ERROR_ECC_UNCORRECTABLE || status == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
         status == CUDA_ERROR_ILLEGAL_ADDRESS || status == CUDA_ERROR_LAUNCH_TIMEOUT ||
         status == CUDA_ERROR_CONTEXT_IS_DESTROYED || status == CUDA_ERROR_ASSERT ||
         (status >= CUDA_ERROR_HARDWARE_STACK_ERROR && status <= CUDA_ERROR_LAUNCH_FAILED) ||
         status == CUDA_ERROR_CONTAINED;
}

#endif
