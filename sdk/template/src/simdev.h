/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin simdev: declarations that its files share.
 *
 * The device is simulated, but differs from the host's processor as hardware does: memory has
 * handles, streams do work later, and programs are in a language of its own. To drive another
 * device, replace memory.c, queue.c and launch.c by calls of its driver, from the bottom up, and
 * the dialect in target.c by its language. */
#ifndef SIMDEV_H
#define SIMDEV_H

#include <backplane/device_extensions.h>
#include <backplane/kernel_module.h>
#include <pthread.h>

/* A number of the private range, for experiments: two vendors may use the same number. Before you
 * publish a plugin, request a number of your own; device-types.txt of the SDK says how. */
#define SIMDEV_DEVICE_TYPE 61440

/* The resources of the simulated devices. */
#define SIMDEV_DEVICES       2
#define SIMDEV_MEMORY        (256u << 20)
#define SIMDEV_ALIGNMENT     256
#define SIMDEV_MOST_THREADS  64
#define SIMDEV_SHARED_MEMORY 32768

/* The host's tables, set by the entry point; the plugin's device table; the largest launch. */
extern BpPluginTables simdev_host;
extern const BpDeviceApi simdev_device_api;
extern const BpKernelLimits simdev_limits;

/* ---- memory.c ---------------------------------------------------------------------------- */

/* A piece of device memory. The memory lives until it is freed and no work uses it. */
typedef struct SimdevBuffer SimdevBuffer;

int32_t simdev_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                     void **handle);
int32_t simdev_free(void *context, int32_t device_id, void *handle);
/* Makes a handle for existing memory. `counted` bytes of the memory count as memory of the device.
 * give_back, unless NULL, frees the memory when it is no longer used, or at once on failure. NULL
 * with an error. */
void *simdev_add(int32_t device_id, void *memory, uint64_t size, uint64_t counted,
                 void (*give_back)(void *memory, uint64_t size));
/* Returns the address of `size` bytes from `offset` on, for running work. `data` is an address of
 * host memory or the handle of a buffer. The host never sees the address of a buffer. The caller
 * drops *buffer with simdev_unuse(), which ignores NULL. NULL with an error if there is no such
 * buffer, or the bytes exceed it. */
char *simdev_use(BpDevice device, const void *data, uint64_t offset, uint64_t size,
                 SimdevBuffer **buffer);
void simdev_unuse(SimdevBuffer *buffer);
uint64_t simdev_memory_in_use(int32_t device_id);

/* ---- external.c -------------------------------------------------------------------------- */

extern const BpExternalMemoryApi simdev_external_memory;

/* ---- queue.c ----------------------------------------------------------------------------- */

/* A piece of work for a stream. */
typedef struct SimdevWork {
  int32_t (*run)(void *data);  /* runs in the stream's thread: 0, or -1 with an error raised */
  void (*destroy)(void *data); /* frees `data`, whether or not `run` was called */
  void *data;
  int32_t is_never_recorded;
} SimdevWork;

/* Queues work, or records it for each replay. Takes the work over, also on failure. */
int32_t simdev_submit(int32_t device_id, void *stream, SimdevWork work);

int32_t simdev_create_stream(void *context, int32_t device_id, void **stream);
int32_t simdev_free_stream(void *context, int32_t device_id, void *stream);
int32_t simdev_sync_from_to(void *context, int32_t device_id, void *from, void *to);
int32_t simdev_stream_sync(void *context, int32_t device_id, void *stream);

extern const BpTimerApi simdev_timers;
extern const BpRecordingApi simdev_recordings;

/* ---- events.c ---------------------------------------------------------------------------- */

extern const BpEventsApi simdev_events;

/* ---- launch.c ---------------------------------------------------------------------------- */

/* The structure that each thread of a kernel gets; programs begin with its text. Each kernel has a
 * packed function of two arguments: the addresses of the kernel's arguments (a buffer's first byte
 * or a scalar), and this structure. */
#define SIMDEV_THREAD                                                                              \
  typedef struct {                                                                                 \
    long long block[3], thread[3];                                                                 \
    void (*barrier)(void);                                                                         \
  } simdev_thread;
SIMDEV_THREAD

/* Modules of this plugin: the text of a program and the table of its kernels. */
extern const BpKernelModuleKind simdev_module_kind;

/* ---- target.c ---------------------------------------------------------------------------- */

extern const BpTargetKind simdev_target_kind;
/* target.build.simdev */
int simdev_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
