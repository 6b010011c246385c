/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin simdev: what its files offer one another. */
#ifndef BACKPLANE_TESTS_SIMDEV_H
#define BACKPLANE_TESTS_SIMDEV_H

#include <backplane/plugin_helpers.h>
#include <pthread.h>

#define SIM_DEVICES     2
#define SIM_DEVICE_TYPE 61440 /* of the private range */
#define SIM_MEMORY      (64u << 20)

/* The host's tables; set by the entry point. */
extern BpPluginTables sim_host;

/* ---- simdev_memory.c: device memory, reached through handles ----------------------------- */

/* A piece of device memory. It lives until it was freed and no queued command uses it. */
typedef struct SimBuffer {
  char *memory;
  uint64_t size;
  int32_t device_id;
  int32_t uses; /* the owner and queued commands */
} SimBuffer;

int32_t sim_alloc(int32_t device_id, uint64_t size, uint64_t alignment, BpDataType dtype_hint,
                  const char *mem_scope, void **handle);
int32_t sim_free(int32_t device_id, void *handle);
/* The buffer behind a handle, used by the caller from now on; NULL with an error. */
SimBuffer *sim_use(int32_t device_id, const void *handle);
void sim_unuse(SimBuffer *buffer);
uint64_t sim_memory_in_use(int32_t device_id);

/* ---- simdev_queue.c: streams, each a thread that works through a queue ------------------- */

#define SIM_COMMAND_BUFFERS 4

/* Something queued. `run` returns NULL or the text of a failure (static). */
typedef struct SimCommand {
  struct SimCommand *next;
  const char *(*run)(struct SimCommand *command);
  void (*destroy)(struct SimCommand *command); /* or NULL */
  SimBuffer *buffers[SIM_COMMAND_BUFFERS];     /* used, NULL where there is none */
  uint64_t offsets[SIM_COMMAND_BUFFERS];
  uint64_t size;
  int64_t count;
  void *data;
} SimCommand;

/* A zeroed command; NULL with an error. */
SimCommand *sim_command_create(const char *(*run)(SimCommand *command));
void sim_command_destroy(SimCommand *command);
/* Queues a command, which passes to the queue also on failure. stream NULL: the default one. */
int32_t sim_submit(int32_t device_id, void *stream, SimCommand *command);

int32_t sim_create_stream(int32_t device_id, void **stream);
int32_t sim_free_stream(int32_t device_id, void *stream);
int32_t sim_sync_from_to(int32_t device_id, void *from, void *to);
int32_t sim_stream_sync(int32_t device_id, void *stream);

/* ---- simdev_module.c --------------------------------------------------------------------- */

/* The loader of kind simdev: device code in the common form, of format "simdev", whose code is
 * lines `function=operation`. Operations: add_one (in, out, n), which adds 1 to n floats, and fail
 * (in, out, n), which fails on the device. Launched over blockIdx.x and threadIdx.x. */
int sim_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
