/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the program backplane-worker. The program runs one plugin for a host, through the protocol
 * of plugins/worker/protocol.h, or passes the host's requests on to a worker on another machine.
 * The program trusts the host, because it runs as the host's user. */
#ifndef BACKPLANE_TOOLS_WORKER_H
#define BACKPLANE_TOOLS_WORKER_H

#include "plugins/worker/protocol.h"

#include <backplane/backplane.h>
#include <backplane/device_extensions.h>
#include <backplane/plugins.h>

/* One request. */
typedef struct Job {
  BpWorkerChannel *channel; /* NULL: the request came through a stream */
  uint32_t index;           /* index of the channel */
  uint32_t operation;
  uint32_t first_chunk; /* the worker's counter before this request */
  uint32_t num_chunks;  /* number of chunks that were taken or given */
  char *room;           /* memory for a part that goes to a stream, allocated when it is needed */
  BpWire in;
  BpWire out;
} Job;

/* A handler: 0, or -1 with an error raised. */
#define DECLARE_HANDLER(upper, lower) int worker_##lower(Job *job);
BP_WORKER_OPERATIONS(DECLARE_HANDLER)
#undef DECLARE_HANDLER

/* ---- serve.c ----------------------------------------------------------------------------- */

/* Starts a thread that serves a channel. `handle` answers the requests: 0, or -1 with an error. */
void worker_serve(BpWorkerChannel *channel, uint32_t index, int (*handle)(Job *job));

/* Answers a request by calling the plugin. */
int worker_handle(Job *job);
/* Calls `handle` and returns the status of the answer. job->out writes to `results`, BP_WORKER_AREA
 * bytes, which then contain the results or the error. */
int32_t worker_answer(Job *job, int (*handle)(Job *job), char *results);

/* The next part of the `left` bytes that come with a request, until worker_took_part. *size: one
 * chunk or some, or the rest. NULL with an error. */
const char *worker_take_part(Job *job, uint64_t left, uint64_t *size);
void worker_took_part(Job *job, uint64_t size);
/* Room for the next part of the `left` bytes that go before an answer, then that part. *size is set
 * as by worker_take_part. NULL with an error. */
char *worker_room_for_part(Job *job, uint64_t left, uint64_t *size);
void worker_give_part(Job *job, uint64_t size);

/* Bytes that the host sent or will get; their address identifies them. */
typedef struct Blob {
  uint64_t size;
  char data[];
} Blob;
/* Copies bytes to a new blob. NULL with an error. */
Blob *worker_blob_create(const void *data, uint64_t size);

/* ---- main.c ------------------------------------------------------------------------------ */

/* The name of the plugin, or of the machine that a relay reaches. */
extern const char *worker_name;

/* Sends a message to the host's log. */
void worker_send_log(void *context, int32_t level, const char *message);
/* Records why this process ends, unless a reason was recorded before. */
void worker_note_end(uint32_t end);

/* ---- relay.c ----------------------------------------------------------------------------- */

/* Starts the command, "ssh" and its arguments, which starts the worker on another machine; and
 * starts a thread that reads the command's stream. */
void worker_relay_start(char **command);
/* Passes a request on to the other machine. */
int worker_relay_handle(Job *job);

/* ---- stream.c ---------------------------------------------------------------------------- */

/* Serves the stream at the descriptors 0 and 1 until its end. */
_Noreturn void worker_stream_serve(void);
/* Sends a part of a request's bytes to the other machine. */
void worker_stream_send_part(const Job *job, uint64_t size);
/* Reports why this process ends; called in a signal handler. */
void worker_stream_note_end(uint32_t end);

/* Reads or writes all bytes of a socket or a pipe: 0, or -1 at the end of the stream. */
int worker_read_all(int fd, void *bytes, size_t size);
int worker_write_all(int fd, const void *bytes, size_t size);

/* ---- device.c ---------------------------------------------------------------------------- */

#define WORKER_MAX_KINDS 8

/* A device kind of the plugin, and its extensions, or NULL. */
typedef struct Kind {
  const BpDeviceApi *api;
  const BpEventsApi *events;
  const BpTimerApi *timers;
  const BpExternalMemoryApi *external;
} Kind;

/* Returns the kind that the next argument names; NULL with an error. */
const Kind *worker_get_kind(Job *job);
/* Reads the device that the next two arguments name. */
const Kind *worker_get_place(Job *job, int32_t *device_id);
void *worker_get_pointer(Job *job);
void worker_put_pointer(Job *job, const void *pointer);
void worker_put_value(Job *job, const BpValue *value);

/* ---- share.c ----------------------------------------------------------------------------- */

/* Sets the memory for shared allocations; called once, before the first request. */
void worker_set_arena(char *memory, uint64_t size);
int worker_has_arena(void);
/* Tells of a stream that was made, and of one that will be freed. -1 with an error: memory freed
 * later would not wait for the stream. */
int worker_note_stream(const Kind *kind, int32_t device_id, void *stream);
void worker_forget_stream(const Kind *kind, int32_t device_id, void *stream);
/* Returns the memory of freed allocations that no work uses any more. */
void worker_return_parts(void);

/* ---- target.c ---------------------------------------------------------------------------- */

int worker_describe_targets(Job *job, BpByteArray names);
/* Answers with a built module. The module's reference passes to the host unless the function
 * fails. */
int worker_answer_build(Job *job, BpModule *module);

/* ---- module.c ---------------------------------------------------------------------------- */

int worker_describe_module(Job *job, BpModule *module);

/* ---- confine.c --------------------------------------------------------------------------- */

/* Drops the rights that drivers do not need (docs/isolation.md). The right to send signals to other
 * processes is dropped only if `may_signal` is 0. */
void worker_confine(int may_signal);

#endif
