/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the CUDA driver API and of NVRTC that this plugin calls, declared from the
 * published reference manuals ("CUDA Driver API", "NVRTC"): NVIDIA's own headers are not in Debian
 * main, and these declarations are few. The names are the libraries' symbols. */
#ifndef BP_PLUGIN_CUDA_DRIVER_API_H
#define BP_PLUGIN_CUDA_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

/* ---- The driver's types and numbers ------------------------------------------------------ */

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;

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

#define CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK       1
#define CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X             2
#define CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y             3
#define CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z             4
#define CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X              5
#define CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y              6
#define CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z              7
#define CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK 8
#define CU_DEVICE_ATTRIBUTE_WARP_SIZE                   10
#define CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK     12
#define CU_DEVICE_ATTRIBUTE_CLOCK_RATE                  13
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT        16
#define CU_DEVICE_ATTRIBUTE_INTEGRATED                  18
#define CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE           36
#define CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH     37
#define CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE               38
#define CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT     51
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR    75
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR    76
#define CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_OPTIN         97
#define CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED      115

#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL             9
#define CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES             1
#define CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES 8
#define CU_STREAM_DEFAULT                               0
#define CU_STREAM_NON_BLOCKING                          1
#define CU_STREAM_CAPTURE_MODE_RELAXED                  2
#define CU_EVENT_DEFAULT                                0
#define CU_EVENT_DISABLE_TIMING                         2
#define CU_MEMPOOL_ATTR_RELEASE_THRESHOLD               4
#define CU_JIT_INFO_LOG_BUFFER                          3
#define CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES               4
#define CU_JIT_ERROR_LOG_BUFFER                         5
#define CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES              6

/* X(symbol, parameters): functions of libcuda.so.1, all returning CUresult; CUDA 12.0 has them. */
#define BP_CUDA_FUNCTIONS(X)                                                                       \
  X(cuInit, (unsigned flags))                                                                      \
  X(cuDriverGetVersion, (int *version))                                                            \
  X(cuGetErrorName, (CUresult status, const char **name))                                          \
  X(cuGetErrorString, (CUresult status, const char **text))                                        \
  X(cuDeviceGetCount, (int *count))                                                                \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                                 \
  X(cuDeviceGetName, (char *name, int size, CUdevice device))                                      \
  X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                          \
  X(cuDeviceGetPCIBusId, (char *text, int size, CUdevice device))                                  \
  X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                            \
  X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                        \
  X(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device))                             \
  X(cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value))                        \
  X(cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes_to_keep))                                    \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                              \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                               \
  X(cuCtxSetCurrent, (CUcontext context))                                                          \
  X(cuMemGetInfo_v2, (size_t * available, size_t * total))                                         \
  X(cuMemAlloc_v2, (CUdeviceptr * data, size_t size))                                              \
  X(cuMemFree_v2, (CUdeviceptr data))                                                              \
  X(cuMemAllocAsync, (CUdeviceptr * data, size_t size, CUstream stream))                           \
  X(cuMemFreeAsync, (CUdeviceptr data, CUstream stream))                                           \
  X(cuMemHostAlloc, (void **data, size_t size, unsigned flags))                                    \
  X(cuMemFreeHost, (void *data))                                                                   \
  X(cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr data))                         \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream))        \
  X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream))              \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))        \
  X(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,                    \
                        CUcontext from_context, size_t size, CUstream stream))                     \
  X(cuStreamCreate, (CUstream * stream, unsigned flags))                                           \
  X(cuStreamDestroy_v2, (CUstream stream))                                                         \
  X(cuStreamSynchronize, (CUstream stream))                                                        \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                           \
  X(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                          \
  X(cuStreamIsCapturing, (CUstream stream, int *status))                                           \
  X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                        \
  X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))    \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                            \
  X(cuGraphDestroy, (CUgraph graph))                                                               \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                                        \
  X(cuEventCreate, (CUevent * event, unsigned flags))                                              \
  X(cuEventRecord, (CUevent event, CUstream stream))                                               \
  X(cuEventQuery, (CUevent event))                                                                 \
  X(cuEventSynchronize, (CUevent event))                                                           \
  X(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent stop))                        \
  X(cuEventDestroy_v2, (CUevent event))                                                            \
  X(cuModuleLoadDataEx,                                                                            \
    (CUmodule * module, const void *image, unsigned num_options, int *options, void **values))     \
  X(cuModuleUnload, (CUmodule module))                                                             \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))               \
  X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                           \
  X(cuFuncGetAttribute, (int *value, int attribute, CUfunction function))                          \
  X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,       \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,  \
                     CUstream stream, void **parameters, void **extra))

/* ---- NVRTC ------------------------------------------------------------------------------- */

typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

#define NVRTC_SUCCESS           0
#define NVRTC_ERROR_COMPILATION 6

/* X(symbol, parameters): functions of libnvrtc, all returning nvrtcResult. */
#define BP_NVRTC_FUNCTIONS(X)                                                                      \
  X(nvrtcVersion, (int *major, int *minor))                                                        \
  X(nvrtcCreateProgram, (nvrtcProgram * program, const char *source, const char *name,             \
                         int num_headers, const char *const *headers, const char *const *names))   \
  X(nvrtcDestroyProgram, (nvrtcProgram * program))                                                 \
  X(nvrtcCompileProgram, (nvrtcProgram program, int num_options, const char *const *options))      \
  X(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * size))                                 \
  X(nvrtcGetProgramLog, (nvrtcProgram program, char *log))                                         \
  X(nvrtcGetPTXSize, (nvrtcProgram program, size_t * size))                                        \
  X(nvrtcGetPTX, (nvrtcProgram program, char *ptx))                                                \
  X(nvrtcGetCUBINSize, (nvrtcProgram program, size_t * size))                                      \
  X(nvrtcGetCUBIN, (nvrtcProgram program, char *cubin))

#endif
