/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the CUDA driver API and of NVRTC that this plugin calls, declared from the
 * published reference manuals ("CUDA Driver API", "NVRTC"): NVIDIA's own headers are not in Debian
 * main, and few declarations are needed. The names are the libraries' symbols. */
#ifndef BP_PLUGIN_CUDA_DRIVER_API_H
#define BP_PLUGIN_CUDA_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

#include "../common/cuda_api.h"

/* ---- The driver's types and numbers ------------------------------------------------------ */

typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;

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

#define CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES             1
#define CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES 8
#define CU_STREAM_DEFAULT                               0
#define CU_STREAM_NON_BLOCKING                          1
#define CU_STREAM_CAPTURE_MODE_RELAXED                  2
#define CU_EVENT_DEFAULT                                0
#define CU_MEMPOOL_ATTR_RELEASE_THRESHOLD               4
#define CU_JIT_INFO_LOG_BUFFER                          3
#define CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES               4
#define CU_JIT_ERROR_LOG_BUFFER                         5
#define CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES              6

/* X(symbol, parameters): functions of libcuda.so.1, all returning CUresult; CUDA 12.0 has them. */
#define BP_CUDA_FUNCTIONS(X)                                                                       \
  BP_CUDA_COMMON_FUNCTIONS(X)                                                                      \
  X(cuDriverGetVersion, (int *version))                                                            \
  X(cuGetErrorString, (CUresult status, const char **text))                                        \
  X(cuDeviceGetCount, (int *count))                                                                \
  X(cuDeviceGetName, (char *name, int size, CUdevice device))                                      \
  X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                          \
  X(cuDeviceGetPCIBusId, (char *text, int size, CUdevice device))                                  \
  X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                            \
  X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                        \
  X(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device))                             \
  X(cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value))                        \
  X(cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes_to_keep))                                    \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                               \
  X(cuMemGetInfo_v2, (size_t * available, size_t * total))                                         \
  X(cuMemAlloc_v2, (CUdeviceptr * data, size_t size))                                              \
  X(cuMemFree_v2, (CUdeviceptr data))                                                              \
  X(cuMemAllocAsync, (CUdeviceptr * data, size_t size, CUstream stream))                           \
  X(cuMemFreeAsync, (CUdeviceptr data, CUstream stream))                                           \
  X(cuMemHostAlloc, (void **data, size_t size, unsigned flags))                                    \
  X(cuMemFreeHost, (void *data))                                                                   \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream))        \
  X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream))              \
  X(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,                    \
                        CUcontext from_context, size_t size, CUstream stream))                     \
  X(cuStreamCreate, (CUstream * stream, unsigned flags))                                           \
  X(cuStreamDestroy_v2, (CUstream stream))                                                         \
  X(cuStreamSynchronize, (CUstream stream))                                                        \
  X(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                          \
  X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                        \
  X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))    \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                            \
  X(cuGraphDestroy, (CUgraph graph))                                                               \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                                        \
  X(cuEventQuery, (CUevent event))                                                                 \
  X(cuEventSynchronize, (CUevent event))                                                           \
  X(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent stop))                        \
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
