/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin worker: plugins that run in a process of their own.
 *
 * An Isolated is one plugin that runs in a process of its own. The BpSession of an Isolated is a
 * worker process; a new session replaces a lost one. A device index is never reused for another
 * session, so the device of a handle determines the session of the handle. */
#ifndef BP_WORKER_H
#define BP_WORKER_H

#include "protocol.h"

#include <backplane/device_extensions.h>
#include <backplane/ir_api.h>
#include <backplane/plugin_helpers.h>

#include <pthread.h>

extern BpPluginTables bp_worker_host;

typedef struct BpSession BpSession;
typedef struct BpIsolated BpIsolated;

/* ---- session.c: a worker process --------------------------------------------------------- */

/* Starts a worker with `starter`, a function of the core. `label`, which lives for ever, names the
 * worker's owner in messages: "plugin opencl". The session is never freed, since devices refer to
 * it; its memory and descriptors are freed when it is lost. NULL with an error. */
BpSession *bp_session_start(const char *label, BpFunction *starter);
/* Assigns a session to a plugin; `label` is the plugin's. */
void bp_session_use(BpSession *session, const char *label);

/* Returns 0; or -1 without an error if the worker has ended or was killed, or this process is a
 * fork. */
int32_t bp_session_check(const BpSession *session);
/* Like bp_session_check, but notices the end of a worker even without a call to the worker. */
int32_t bp_session_look(BpSession *session);
/* Like bp_session_check, but raises an error. */
int32_t bp_session_require(const BpSession *session);
/* Returns 0; or -1 with an error if this process is a fork of one that had a worker. Takes no lock,
 * since another thread may have held one when the process forked. */
int32_t bp_session_require_no_fork(void);

/* Kills a worker that sent a malformed answer: its devices are lost. Returns -1 with an error. */
int32_t bp_session_give_up(BpSession *session, const char *why);

/* A call to the worker. From begin to finish, this thread owns a channel of the session. */
typedef struct BpCall {
  BpSession *session;
  BpWorkerChannel *channel;
  uint32_t index;
  uint32_t number;
  uint32_t operation;
  uint32_t first_chunk; /* the worker's chunk counter at the start of this call */
  BpWire in;            /* arguments, written before bp_call_send */
  BpWire out;           /* results, read after bp_call_wait; private to this process */
  char *results;        /* the memory that `out` reads: `room`, or allocated */
  char room[256];
} BpCall;

/* Takes a channel. 0, or -1 with an error, and then bp_call_finish is not called. */
int32_t bp_call_begin(BpSession *session, uint32_t operation, BpCall *call);
/* Sends the arguments. -1 with an error: they are too long. */
int32_t bp_call_send(BpCall *call);
/* Waits until the worker has filled or emptied `chunks` chunks, or has answered. -1 with an
 * error: the worker is lost. */
int32_t bp_call_wait_chunks(BpCall *call, uint32_t chunks);
int32_t bp_call_has_answer(const BpCall *call);
int32_t bp_call_has_chunks(const BpCall *call, uint32_t chunks);
/* Tells the worker that `chunks` chunks were filled or emptied. */
void bp_call_tell_chunks(BpCall *call, uint32_t chunks);
/* Waits for the answer. -1 with the worker's error, or with the error that the worker is lost. */
int32_t bp_call_wait(BpCall *call);
/* Checks that the results could be read. -1 with an error. */
int32_t bp_call_check(BpCall *call);
/* Starts one more call on the channel of a call that was answered. */
void bp_call_again(uint32_t operation, BpCall *call);
void bp_call_finish(BpCall *call);

/* Makes a whole call whose arguments and results are numbers: a BP_TELL has no result, a BP_ASK has
 * one. */
int32_t bp_call_numbers(BpSession *session, uint32_t operation, const uint64_t *arguments,
                        size_t num_arguments, uint64_t *results, size_t num_results);
#define BP_NUMBERS_(...)                                                                           \
  (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)
#define BP_TELL(session, operation, ...)                                                           \
  bp_call_numbers(session, operation, BP_NUMBERS_(__VA_ARGS__), NULL, 0)
#define BP_ASK(session, operation, result, ...)                                                    \
  bp_call_numbers(session, operation, BP_NUMBERS_(__VA_ARGS__), result, 1)

/* Moves bytes to or from the chunks of a call that was sent, until all bytes are moved or the
 * worker has answered. -1 with an error: the worker is lost. */
int32_t bp_call_fill(BpCall *call, const char *bytes, uint64_t size);
int32_t bp_call_empty(BpCall *call, char *bytes, uint64_t size);

/* Sends bytes that the worker keeps as a numbered blob, and gets a blob back. */
int32_t bp_blob_put(BpSession *session, const void *bytes, uint64_t size, uint64_t *blob);
int32_t bp_blob_get(BpSession *session, uint64_t blob, uint64_t size, BpOwnedBytes *bytes);
/* Sends a call whose results are a blob and its size, waits for the answer, finishes the call and
 * gets the blob. -1 with an error. */
int32_t bp_call_get_blob(BpCall *call, BpOwnedBytes *bytes);

/* The longest time in nanoseconds that one call waits for an event that may take any time; the
 * caller repeats the call. */
uint64_t bp_session_slice(const BpSession *session);

/* ---- share.c: device memory in the arena ------------------------------------------------- */

/* A part of the arena that is a device's memory. */
typedef struct BpShare {
  uint64_t handle; /* the worker's handle of the memory */
  uint64_t from;   /* offset of the part in the arena */
  uint64_t size;
} BpShare;

/* The parts of a session's arena. */
typedef struct BpShares {
  pthread_mutex_t lock;
  char *memory; /* NULL: there is no arena, or the session is lost */
  uint64_t size;
  BpShare *items; /* the parts, in the order of their handles */
  size_t count, capacity;
} BpShares;

BpShares *bp_session_shares(BpSession *session);
/* Adds a part. Returns 0; 1 if the part is not in the arena, or the handle is known; or -1 with an
 * error. */
int32_t bp_shares_add(BpShares *shares, BpShare share);
/* Returns 1 and the part of a handle, or 0. */
int32_t bp_shares_find(BpShares *shares, uint64_t handle, BpShare *share);
int32_t bp_shares_remove(BpShares *shares, uint64_t handle, BpShare *share);
/* Forgets the parts and the arena. */
void bp_shares_clear(BpShares *shares);

/* ---- device.c ---------------------------------------------------------------------------- */

#define BP_WORKER_MAX_DEVICES 256
#define BP_WORKER_MAX_KINDS   8

/* A device: its session, and its index in the session. */
typedef struct BpRemoteDevice {
  BpSession *session;
  uint64_t index;
} BpRemoteDevice;

/* A kind of device of an isolated plugin; lives for ever. */
typedef struct BpRemoteKind {
  BpDeviceApi api; /* its context is this structure */
  BpEventsApi events;
  BpTimerApi timers;
  BpIsolated *plugin;
  uint64_t number;        /* number of the kind in the worker */
  const char *plain_name; /* the kind's name in the worker */
  int32_t plain_type;     /* the kind's device type in the worker */
  uint64_t has;           /* BP_WORKER_HAS_* */
  char why[512];          /* why the kind has no device */
  _Atomic int32_t num_devices;
  BpRemoteDevice devices[BP_WORKER_MAX_DEVICES];
} BpRemoteKind;

/* The device types of another machine are above those of this machine: the machine's number is in
 * the bits above the plain type. */
#define BP_WORKER_MACHINE_SHIFT 16

/* An isolated plugin; lives for ever. */
struct BpIsolated {
  char *name;
  char *label;     /* label of the plugin's sessions */
  char *where;     /* the path that the worker activates, or the plugin's name on another machine */
  char *host;      /* the other machine, or "" */
  char *prefix;    /* prefix of its kinds' names here: "remote:me@gpubox/", or "" */
  int32_t machine; /* the number of the other machine, or 0 */
  BpFunction *starter;
  char *device_names, *target_names; /* names of the plugin's kinds in the worker */
  char **names;                      /* names that the plugin provides; NULL at the end */
  pthread_mutex_t lock;              /* guards `session` and the adding of devices */
  BpSession *session;                /* the latest session */
  BpRemoteKind *kinds[BP_WORKER_MAX_KINDS];
  int32_t num_kinds;
  char **loaders; /* kinds of module that the plugin loads; NULL at the end */
};

/* Returns the session of a device. NULL with an error: there is no such device, or the device is
 * lost. */
BpSession *bp_remote_session(const BpRemoteKind *kind, int32_t device_id, uint64_t *index);

/* Returns the session for calls that need no device, and starts a new one if it was lost. NULL with
 * an error. */
BpSession *bp_isolated_session(BpIsolated *plugin);

/* Reads the device kinds from the results of OPEN, and makes them if there are none yet. */
int32_t bp_remote_read_kinds(BpIsolated *plugin, BpCall *call);

/* ---- event.c ----------------------------------------------------------------------------- */

/* Fills the tables of a kind's extensions. */
void bp_remote_fill_extensions(BpRemoteKind *kind);
/* BpDeviceApi::get_extension. */
const void *bp_remote_get_extension(void *context, const char *name, uint32_t version);

/* ---- module.c ---------------------------------------------------------------------------- */

/* Registers runtime.module.loadbinary_KIND. */
int32_t bp_remote_register_loader(BpIsolated *plugin, const char *registry_name, const char *kind);

/* Makes a module from the results of BUILD in `call`: kind, bytes and description. NULL with an
 * error. */
BpModule *bp_remote_module_of_build(BpIsolated *plugin, BpSession *session, BpCall *call);

/* ---- plugin.c ---------------------------------------------------------------------------- */

/* Takes the session that listed the plugins of another machine, once; NULL: there is none. */
BpSession *bp_take_spare(const char *host);

/* ---- target.c ---------------------------------------------------------------------------- */

/* A growing buffer of bytes; freed with free(text.data). */
typedef struct BpText {
  char *data;
  size_t size, capacity;
  int32_t is_full; /* memory was exhausted */
} BpText;

void bp_text_add(BpText *text, const char *bytes, size_t size);
/* Writes a target with all its attributes as JSON. 0, or -1 with an error. */
int32_t bp_remote_describe_target(const BpTarget *target, BpText *text);
/* Reads the target kinds from the results of OPEN, and registers them. */
int32_t bp_remote_read_targets(BpIsolated *plugin, BpCall *call);
/* Registers target.build.KIND. */
int32_t bp_remote_register_build(BpIsolated *plugin, const char *registry_name, const char *kind);

/* ---- graph.c ----------------------------------------------------------------------------- */

/* Registers graph_compiler.NAME; `name` lives for ever. */
int32_t bp_remote_register_graph_compiler(BpIsolated *plugin, const char *registry_name,
                                          const char *name);

#endif
