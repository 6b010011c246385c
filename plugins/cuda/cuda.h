/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the plugin cuda share.
 *
 * driver_api.h  declarations of the driver API and NVRTC
 * loader.c      libcuda, opened at run time; errors of its calls
 * device.c      devices and their attributes
 * memory.c      data space, workspace, copies
 * stream.c      streams, timers, recordings
 * event.c       events
 * compile.c     NVRTC, opened at run time, and its results on disk
 * module.c      modules of kind `cuda`
 * launch.c      kernels: loaded on a device by their first launch on it
 * target.c      target kind `cuda`
 *
 * `data` of a tensor is a CUdeviceptr, an address of the device; a stream is a CUstream. */
#ifndef BP_PLUGIN_CUDA_H
#define BP_PLUGIN_CUDA_H

#include <backplane/device_extensions.h>
#include <backplane/kernel_module.h>
#include <stdatomic.h>

#include "../common/common.h"
#include "driver_api.h"

#define BP_CUDA_MOST_DEVICES 16
/* Alignment of a buffer's beginning in bytes, which is the size of a thread's widest access. A
 * misaligned access would make the device unusable for the process, so it is checked before a
 * launch. */
#define BP_CUDA_ALIGNMENT 16
/* Bytes of shared memory that a block may declare without a request at each launch, on every
 * GPU. */
#define BP_CUDA_STATIC_SHARED 49152

/* The host's tables; set by the entry point. */
extern BpPluginTables bp_cuda_host;

/* ---- loader.c ---------------------------------------------------------------------------- */

#define BP_CUDA_MEMBER(name, parameters) CUresult(*name) parameters;
typedef struct BpCudaLibrary {
  BP_CUDA_FUNCTIONS(BP_CUDA_MEMBER)
} BpCudaLibrary;

/* The library's functions; set by bp_cuda_load. */
extern BpCudaLibrary bp_cu;

#define BP_CUDA_NO_GPU                                                                             \
  "the CUDA driver finds no GPU; `nvidia-smi` and CUDA_VISIBLE_DEVICES tell more"

/* Opens and initialises the driver. Returns NULL, or the reason and what to do; static. */
const char *bp_cuda_load(void);

typedef struct BpCudaDevice BpCudaDevice;

/* Raises the error of a call that did not return CUDA_SUCCESS; returns -1. A failure that the
 * driver cannot recover from is a DeviceError once, and a DeviceLostError from then on. */
int32_t bp_cuda_raise(BpCudaDevice *device, CUresult status, const char *call);

/* "CUDA_ERROR_OUT_OF_MEMORY". */
const char *bp_cuda_status_name(CUresult status);

/* ---- device.c ---------------------------------------------------------------------------- */

/* Pinned memory for small copies to the device. */
typedef struct BpCudaStage {
  pthread_mutex_t lock;
  void *data;     /* NULL before the first use of the stage */
  CUevent copied; /* recorded after the latest copy from `data` */
} BpCudaStage;

#define BP_CUDA_STAGES      8
#define BP_CUDA_STAGE_BYTES (1 << 20)

/* A workspace that has not been freed. */
typedef struct BpCudaWorkspace {
  struct BpCudaWorkspace *next;
  CUdeviceptr data;
} BpCudaWorkspace;

struct BpCudaDevice {
  int32_t index;
  CUdevice id;
  BpDeviceOpening opening; /* opening the device sets the members below */
  CUcontext context;       /* the primary context */
  CUstream stream;         /* the default stream */
  CUmemoryPool pool;       /* pool for stream-ordered allocation; NULL: the device has none */
  int arch;                /* 90 for compute capability 9.0 */
  BpKernelLimits limits;   /* limits of a kernel launch */
  int most_shared;         /* bytes of shared memory that a block may request */
  _Atomic CUresult lost;   /* the error by which the device was lost, or 0 */
  pthread_mutex_t lock;    /* guards the list of workspaces */
  BpCudaWorkspace *workspaces;
  _Atomic unsigned next_stage;
  BpCudaStage stages[BP_CUDA_STAGES];
};

extern const BpDeviceApi bp_cuda_device_api;

/* Opens the device and makes its primary context current in this thread. NULL with an error. */
BpCudaDevice *bp_cuda_device(int32_t device_id);
/* Like bp_cuda_device, for a device that is open and still usable; otherwise NULL without an
 * error. */
BpCudaDevice *bp_cuda_device_if_open(int32_t device_id);

/* ---- memory.c ---------------------------------------------------------------------------- */

int32_t bp_cuda_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                      void **handle);
int32_t bp_cuda_free(void *context, int32_t device_id, void *handle);
int32_t bp_cuda_alloc_workspace(void *context, int32_t device_id, uint64_t size, BpDataType hint,
                                void **handle);
int32_t bp_cuda_free_workspace(void *context, int32_t device_id, void *handle);
int32_t bp_cuda_copy(void *context, const BpCopy *copy, void *stream);

/* ---- stream.c ---------------------------------------------------------------------------- */

/* The driver's stream behind a handle. */
static inline CUstream bp_cuda_stream(const BpCudaDevice *device, void *stream) {
  return stream ? (CUstream)stream : device->stream;
}

/* Makes `to` wait for the work queued so far on `from`, a stream of `device`, and makes the
 * device's context current. */
CUresult bp_cuda_order(const BpCudaDevice *device, CUstream from, CUstream to);

int32_t bp_cuda_create_stream(void *context, int32_t device_id, void **stream);
int32_t bp_cuda_free_stream(void *context, int32_t device_id, void *stream);
int32_t bp_cuda_sync_from_to(void *context, int32_t device_id, void *from, void *to);
int32_t bp_cuda_stream_sync(void *context, int32_t device_id, void *stream);
extern const BpTimerApi bp_cuda_timers;
extern const BpRecordingApi bp_cuda_recordings;

/* ---- event.c ----------------------------------------------------------------------------- */

extern const BpEventsApi bp_cuda_events;

/* ---- compile.c --------------------------------------------------------------------------- */

/* Compiles CUDA C++ for an architecture: "sm_90" to a cubin, "compute_90" to PTX. `options` are
 * further options, separated by spaces, or NULL. The compiled code is kept on disk, keyed by
 * everything that the code depends on. The caller owns the code; -1 with the compiler's log and the
 * numbered source. */
int32_t bp_cuda_compile(const char *source, const char *arch, const char *options,
                        BpOwnedBytes *code);
/* Returns 0 if bp_cuda_compile accepts `arch`; -1 with an error. */
int32_t bp_cuda_check_arch(const char *arch);

/* ---- launch.c, module.c, target.c -------------------------------------------------------- */

/* The formats of code. */
#define BP_CUDA_SOURCE "cu"
#define BP_CUDA_PTX    "ptx"
#define BP_CUDA_CUBIN  "cubin"

/* A kernel's function on each device. */
typedef struct BpCudaKernel {
  _Atomic(CUfunction) functions[BP_CUDA_MOST_DEVICES];
} BpCudaKernel;

/* A module's code as loaded on each device; it is the `built` of the module and contains the
 * `built` of each kernel. */
typedef struct BpCudaProgram {
  pthread_mutex_t lock;
  CUmodule loaded[BP_CUDA_MOST_DEVICES]; /* guarded by lock */
  BpCudaKernel kernels[];
} BpCudaProgram;

/* Launches a kernel on the current stream. The arguments are followed by one int for each launch
 * tag. */
int32_t bp_cuda_launch(BpKernelModule *module, BpKernelEntry *kernel,
                       const BpInvocation *invocation, const BpValue *args, int32_t num_args);
extern const BpKernelModuleKind bp_cuda_module_kind;
extern const BpTargetKind bp_cuda_kind;
int bp_cuda_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
