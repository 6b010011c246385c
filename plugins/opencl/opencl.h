/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the plugin opencl share.
 *
 * loader.c   libOpenCL, opened at run time
 * device.c   devices and their attributes
 * memory.c   data space, copies, streams, timers
 * event.c    events
 * external.c memory of the host that is imported
 * module.c   modules of kind `opencl`
 * program.c  programs: built for a device, from source or from a cached binary
 * launch.c   kernels: made for a device by their first launch on it
 * target.c   target kind `opencl`
 *
 * `data` of a tensor is a number that stands for a cl_mem (memory.c). */
#ifndef BP_PLUGIN_OPENCL_H
#define BP_PLUGIN_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <backplane/device_extensions.h>
#include <backplane/kernel_module.h>
#include <stdatomic.h>

#include "../common/common.h"

/* The host's tables; set by the entry point. */
extern BpPluginTables bp_opencl_host;

/* ---- loader.c ---------------------------------------------------------------------------- */

/* The functions of OpenCL 1.2 that are used. */
#define BP_OPENCL_FUNCTIONS(X)                                                                     \
  X(clGetPlatformIDs)                                                                              \
  X(clGetPlatformInfo)                                                                             \
  X(clGetDeviceIDs)                                                                                \
  X(clGetDeviceInfo)                                                                               \
  X(clCreateContext)                                                                               \
  X(clReleaseContext)                                                                              \
  X(clCreateCommandQueue)                                                                          \
  X(clReleaseCommandQueue)                                                                         \
  X(clCreateBuffer)                                                                                \
  X(clCreateSubBuffer)                                                                             \
  X(clRetainMemObject)                                                                             \
  X(clReleaseMemObject)                                                                            \
  X(clEnqueueReadBuffer)                                                                           \
  X(clEnqueueWriteBuffer)                                                                          \
  X(clEnqueueCopyBuffer)                                                                           \
  X(clEnqueueMapBuffer)                                                                            \
  X(clEnqueueUnmapMemObject)                                                                       \
  X(clEnqueueMarkerWithWaitList)                                                                   \
  X(clEnqueueBarrierWithWaitList)                                                                  \
  X(clFlush)                                                                                       \
  X(clFinish)                                                                                      \
  X(clWaitForEvents)                                                                               \
  X(clRetainEvent)                                                                                 \
  X(clCreateUserEvent)                                                                             \
  X(clSetUserEventStatus)                                                                          \
  X(clSetEventCallback)                                                                            \
  X(clReleaseEvent)                                                                                \
  X(clGetEventInfo)                                                                                \
  X(clGetEventProfilingInfo)                                                                       \
  X(clCreateProgramWithSource)                                                                     \
  X(clCreateProgramWithBinary)                                                                     \
  X(clGetProgramInfo)                                                                              \
  X(clBuildProgram)                                                                                \
  X(clGetProgramBuildInfo)                                                                         \
  X(clReleaseProgram)                                                                              \
  X(clCreateKernel)                                                                                \
  X(clReleaseKernel)                                                                               \
  X(clGetKernelWorkGroupInfo)                                                                      \
  X(clSetKernelArg)                                                                                \
  X(clEnqueueNDRangeKernel)

#define BP_OPENCL_MEMBER(name) __typeof__(&name) name;
typedef struct BpOpenclLibrary {
  BP_OPENCL_FUNCTIONS(BP_OPENCL_MEMBER)
} BpOpenclLibrary;

/* The library's functions; set by bp_opencl_load. */
extern BpOpenclLibrary bp_cl;

/* Opens the library. Returns NULL, or the reason and what to do; static. */
const char *bp_opencl_load(void);
/* Raises the error of a call that did not return CL_SUCCESS; returns -1. */
int32_t bp_opencl_raise(cl_int status, const char *call);
/* "CL_OUT_OF_RESOURCES". */
const char *bp_opencl_status_name(cl_int status);

/* ---- device.c ---------------------------------------------------------------------------- */

/* An in-order queue of commands. */
typedef struct BpOpenclStream {
  cl_command_queue queue;
  _Atomic(cl_event) last; /* the latest launch, or NULL */
} BpOpenclStream;

typedef struct BpOpenclDevice {
  int32_t index; /* the device's device_id */
  cl_platform_id platform;
  cl_device_id id;
  BpDeviceOpening opening; /* opening the device sets the members below */
  cl_context context;
  BpOpenclStream stream;   /* the default stream */
  uint64_t alignment;      /* bytes; alignment of a sub-buffer */
  int32_t can_be_held;     /* queued work can wait for an event that the host signals later */
  pthread_mutex_t lock;    /* guards `timing` */
  cl_command_queue timing; /* the queue of timers, or NULL */
} BpOpenclDevice;

extern const BpDeviceApi bp_opencl_device_api;

/* The device with its context and default stream; NULL with an error. */
BpOpenclDevice *bp_opencl_device(int32_t device_id);

/* ---- memory.c ---------------------------------------------------------------------------- */

int32_t bp_opencl_stream_open(BpOpenclDevice *device, BpOpenclStream *stream);
/* A stream's queue; NULL is the device's default stream. */
BpOpenclStream *bp_opencl_stream(BpOpenclDevice *device, void *stream);
/* Keeps the event of a launch, so that the stream can raise the launch's failure; takes the
 * reference. */
void bp_opencl_stream_watch(BpOpenclStream *stream, cl_event event);

/* The buffer that a handle of data space stands for. */
typedef struct BpOpenclBuffer {
  const BpOpenclDevice *device;
  cl_mem memory;
  uint64_t size; /* size as requested */
  char *host;    /* the host memory that the buffer was imported from, or NULL */
} BpOpenclBuffer;

/* Makes a handle of a buffer and takes over the buffer's reference; NULL with an error. */
void *bp_opencl_add(BpOpenclBuffer buffer);
/* Checks a buffer's size. 0, or -1 with an error: the device has no buffers of that size. */
int32_t bp_opencl_check_size(const BpOpenclDevice *device, uint64_t size);

/* Copies the buffer of a handle, with a reference to the memory, so that another thread may free
 * the handle meanwhile; an error if the handle is no buffer of the device. */
int32_t bp_opencl_find(const BpOpenclDevice *device, const void *handle, BpOpenclBuffer *buffer);

int32_t bp_opencl_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                        void **handle);
int32_t bp_opencl_free(void *context, int32_t device_id, void *handle);
int32_t bp_opencl_copy(void *context, const BpCopy *copy, void *stream);
int32_t bp_opencl_create_stream(void *context, int32_t device_id, void **stream);
int32_t bp_opencl_free_stream(void *context, int32_t device_id, void *stream);
int32_t bp_opencl_sync_from_to(void *context, int32_t device_id, void *from, void *to);
int32_t bp_opencl_stream_sync(void *context, int32_t device_id, void *stream);
extern const BpTimerApi bp_opencl_timers;

/* ---- external.c -------------------------------------------------------------------------- */

extern const BpExternalMemoryApi bp_opencl_external;

/* ---- event.c ----------------------------------------------------------------------------- */

extern const BpEventsApi bp_opencl_events;

/* ---- program.c --------------------------------------------------------------------------- */

#define BP_OPENCL_MOST_DEVICES 16

/* A kernel's objects, one for each device. */
typedef struct BpOpenclKernel {
  pthread_mutex_t lock;
  cl_kernel made[BP_OPENCL_MOST_DEVICES]; /* guarded by the program's lock, like their arguments */
} BpOpenclKernel;

/* A module's program as built for each device; it is the `built` of the module and contains the
 * `built` of each kernel. */
typedef struct BpOpenclProgram {
  pthread_mutex_t lock;
  cl_program built[BP_OPENCL_MOST_DEVICES]; /* guarded by lock */
  BpOpenclKernel kernels[];
} BpOpenclProgram;

/* The program for a device (transfer none), built if necessary; NULL with an error. */
cl_program bp_opencl_program(const BpKernelModule *module, const BpOpenclDevice *device);

/* ---- launch.c, module.c, target.c -------------------------------------------------------- */

/* Launches a kernel on the current stream. The arguments are followed by one int for each launch
 * tag. */
int32_t bp_opencl_launch(BpKernelModule *module, BpKernelEntry *kernel,
                         const BpInvocation *invocation, const BpValue *args, int32_t num_args);
extern const BpKernelModuleKind bp_opencl_module_kind;
extern const BpTargetKind bp_opencl_kind;
int bp_opencl_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
