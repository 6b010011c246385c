/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the layer validate: its state for one kind of device, under one lock. */
#ifndef BP_LAYERS_VALIDATE_H
#define BP_LAYERS_VALIDATE_H

#include "layers.h"

#include <pthread.h>
#include <sys/types.h>

/* ---- report.c ---------------------------------------------------------------------------- */

#define BP_VALIDATE_FRAMES 12

/* The caller of a slot: return addresses, innermost first. */
typedef struct BpValidatePlace {
  void *frames[BP_VALIDATE_FRAMES];
  int count;
} BpValidatePlace;

void bp_validate_place_here(BpValidatePlace *place);
/* Writes "main+0x12 in prog < ..." to `text`, without the frames of this plugin. */
void bp_validate_place_format(const BpValidatePlace *place, char *text, size_t size);

/* Raises a finding: an error of kind `kind`, BP_ERROR_*, with the slot, the text and the caller.
 * `device` is the kind's table. Returns -1. */
BP_PLUGIN_PRINTF(4, 5)
int32_t bp_validate_find(const BpDeviceApi *device, const BpCall *call, const char *kind,
                         const char *format, ...);

/* ---- order.c: streams, and the order of their work ---------------------------------------- */

/* A wait of a stream: for the work of another stream up to a piece. */
typedef struct BpValidateWait {
  uint64_t stream, piece;
} BpValidateWait;

typedef struct BpValidateWaits {
  BpValidateWait *items;
  size_t count, room;
} BpValidateWaits;

/* A created stream or a device's default stream. Pieces of work are counted from 1. */
typedef struct BpValidateStream {
  BpLayersEntry entry;
  uint64_t number; /* unique in the process */
  uint64_t queued; /* number of queued pieces of work */
  uint64_t done;   /* number of pieces that the host has waited for */
  int is_default;
  int is_leaving; /* bp_validate_stream_take was called */
  int is_recorded;
  pthread_t recorder;
  struct BpValidateAccess *recorded; /* accesses of the stream's current recording */
  BpValidateWaits waits;
  BpValidatePlace made;
  struct BpValidateStream *freed_before; /* next of the freed streams with unfinished work */
} BpValidateStream;

/* How a piece of work uses a range of bytes. Launches do not say how they use a buffer. LAUNCHES is
 * ordered with copies; it is ordered with other launches only if the buffer was empty before,
 * because the first launch must then have written it. */
typedef enum BpValidateUse { USE_READS, USE_LAUNCHES, USE_WRITES } BpValidateUse;

typedef struct BpValidateAccess {
  struct BpValidateAccess *next;
  uint64_t stream, piece;
  uint64_t from, to; /* bytes */
  BpValidateUse use;
  BpSlot slot;
  /* In a recording: the memory that is used. */
  int32_t device_id;
  void *handle;
  uint64_t space; /* BpValidateSpace::number */
} BpValidateAccess;

/* An allocation of memory. */
typedef struct BpValidateSpace {
  BpLayersEntry entry;
  uint64_t number; /* unique for ever */
  uint64_t size;
  int is_workspace;
  int is_filled;              /* the memory was written */
  pid_t owner;                /* the allocating thread */
  BpValidateAccess *accesses; /* accesses by unfinished work, most recent first */
  BpValidatePlace made;
} BpValidateSpace;

typedef struct BpValidateOrder {
  BpLayersTable streams;
  BpValidateStream *freed; /* freed streams with unfinished work */
  uint64_t last_number;
} BpValidateOrder;

/* Returns the stream of a handle; NULL is the default stream, whose record is made if necessary.
 * Returns NULL if there is no such stream. */
BpValidateStream *bp_validate_stream(BpValidateOrder *order, int32_t device_id, void *handle);
/* Adds a new stream. NULL if there is no memory. */
BpValidateStream *bp_validate_stream_add(BpValidateOrder *order, int32_t device_id, void *handle);
/* Removes a stream that is about to be freed, since another thread may then get the same handle.
 * bp_validate_stream_left later drops the stream or, if it was not freed, puts it back. */
BpValidateStream *bp_validate_stream_take(BpValidateOrder *order, int32_t device_id, void *handle);
void bp_validate_stream_left(BpValidateOrder *order, BpValidateStream *stream, int is_freed);
/* Forgets waits for work that the host has waited for. */
void bp_validate_stream_drop_waits(const BpValidateOrder *order, BpValidateStream *stream);
/* Makes `to` wait for all work queued on `from`. */
void bp_validate_stream_wait(BpValidateOrder *order, const BpValidateStream *from,
                             BpValidateStream *to);

/* Notes that the host has waited for `waits`; and that `stream` waits for them. */
void bp_validate_waits_done(BpValidateOrder *order, const BpValidateWaits *waits);
void bp_validate_waits_join(BpValidateStream *stream, const BpValidateWaits *waits);
/* Adds to `waits` all work queued on the stream, and all work that the stream waits for. */
void bp_validate_waits_of(const BpValidateStream *stream, BpValidateWaits *waits);
/* Adds to `waits` all work queued on all streams. */
void bp_validate_waits_of_all(const BpValidateOrder *order, BpValidateWaits *waits);

/* Finds work that uses the bytes of `access`, that must be ordered with it, and that `stream` does
 * not wait for; NULL if all work is ordered. */
const BpValidateAccess *bp_validate_unordered(BpValidateOrder *order, BpValidateSpace *space,
                                              const BpValidateStream *stream,
                                              const BpValidateAccess *access);
/* Notes a use of bytes by the stream's latest piece of work. */
void bp_validate_note(BpValidateOrder *order, BpValidateSpace *space,
                      const BpValidateStream *stream, const BpValidateAccess *access);
void bp_validate_accesses_free(BpValidateAccess *accesses);

#endif
