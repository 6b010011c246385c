/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin simdev: what its files offer one another.
 *
 * The device is simulated, and as unlike the host's processor as hardware is: its memory is reached
 * through handles, its work is done later by streams, and its programs are in a language of its
 * own. To drive another device replace, from the bottom up, memory.c, queue.c and launch.c by calls
 * of its driver, and the dialect in target.c by its language. */
#ifndef SIMDEV_H
#define SIMDEV_H

#include <backplane/kernel_module.h>
#include <pthread.h>

/* A number of the private range, for experiments: two vendors may have the same. Before anything
 * is published ask for one of your own; device-types.txt of the SDK says how. */
#define SIMDEV_DEVICE_TYPE 61440

/* What there is. */
#define SIMDEV_DEVICES       2
#define SIMDEV_MEMORY        (256u << 20)
#define SIMDEV_ALIGNMENT     256
#define SIMDEV_MOST_BLOCKS   65535
#define SIMDEV_MOST_THREADS  64
#define SIMDEV_SHARED_MEMORY 32768

/* The host's tables, set by the entry point, and the table that the host gets. */
extern BpPluginTables simdev_host;
extern const BpDeviceApi simdev_device_api;

/* ---- memory.c ---------------------------------------------------------------------------- */

/* A piece of device memory. It lives until it was freed and no command uses it any more. */
typedef struct SimdevBuffer {
  char *memory; /* for commands that run; never given to the host */
  uint64_t size;
  int32_t device_id;
  int32_t uses; /* the owner and commands */
} SimdevBuffer;

int32_t simdev_alloc(int32_t device_id, uint64_t size, uint64_t alignment, BpDataType dtype_hint,
                     const char *mem_scope, void **handle);
int32_t simdev_free(int32_t device_id, void *handle);
/* The buffer behind a handle, to be given back with simdev_unuse(); NULL with an error, also if
 * `size` bytes from `offset` on do not lie within it. */
SimdevBuffer *simdev_use(int32_t device_id, const void *handle, uint64_t offset, uint64_t size);
void simdev_unuse(SimdevBuffer *buffer); /* NULL is let pass */
uint64_t simdev_memory_in_use(int32_t device_id);

/* ---- queue.c ----------------------------------------------------------------------------- */

/* Something to be done by a stream; the beginning of a larger structure. */
typedef struct SimdevCommand {
  struct SimdevCommand *next;
  /* Does it, in the stream's thread: 0, or -1 with an error raised there. */
  int32_t (*run)(struct SimdevCommand *command);
  /* Frees it, whether or not it ran. */
  void (*destroy)(struct SimdevCommand *command);
} SimdevCommand;

/* A zeroed command of `size` bytes; NULL with an error. */
void *simdev_command_create(size_t size, int32_t (*run)(SimdevCommand *command),
                            void (*destroy)(SimdevCommand *command));
/* Queues a command, or records it. It passes to the queue also on failure. */
int32_t simdev_submit(int32_t device_id, void *stream, SimdevCommand *command);

int32_t simdev_create_stream(int32_t device_id, void **stream);
int32_t simdev_free_stream(int32_t device_id, void *stream);
int32_t simdev_sync_from_to(int32_t device_id, void *from, void *to);
int32_t simdev_stream_sync(int32_t device_id, void *stream);

int32_t simdev_timer_start(int32_t device_id, void *stream, void **timer);
int32_t simdev_timer_stop(void *timer, void *stream);
int32_t simdev_timer_read(void *timer, int64_t *nanoseconds);

int32_t simdev_record_begin(int32_t device_id, void *stream);
int32_t simdev_record_end(int32_t device_id, void *stream, BpRecording **recording);
int32_t simdev_record_replay(BpRecording *recording, void *stream);
int32_t simdev_record_free(BpRecording *recording);

/* ---- launch.c ---------------------------------------------------------------------------- */

/* What a thread of a kernel is given; programs begin with the same text. For each kernel there is a
 * packed function of two values: the addresses of the arguments, each a buffer's first byte or a
 * scalar, and this. */
#define SIMDEV_THREAD                                                                              \
  typedef struct {                                                                                 \
    long long block[3], thread[3];                                                                 \
    void (*barrier)(void *team);                                                                   \
    void *team;                                                                                    \
  } simdev_thread;
SIMDEV_THREAD

/* Modules of this plugin: the text of a program and the table of its kernels. */
extern const BpKernelModuleKind simdev_module_kind;

/* ---- target.c ---------------------------------------------------------------------------- */

extern const BpTargetKind simdev_target_kind;
/* target.build.simdev */
int simdev_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
