/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the layer validate: what it knows of one kind of device, all under one lock. */
#ifndef BP_LAYERS_VALIDATE_H
#define BP_LAYERS_VALIDATE_H

#include "layers.h"

#include <pthread.h>
#include <sys/types.h>

/* ---- report.c ---------------------------------------------------------------------------- */

#define BP_VALIDATE_FRAMES 12

/* Who called: return addresses, innermost first. */
typedef struct BpValidatePlace {
  void *frames[BP_VALIDATE_FRAMES];
  int count;
} BpValidatePlace;

void bp_validate_place_here(BpValidatePlace *place);
/* "main+0x12 in prog < ..." into `text`, without the frames of this plugin. */
void bp_validate_place_format(const BpValidatePlace *place, char *text, size_t size);

/* Raises what is wrong with a call: an error of a kind BP_ERROR_*, with the slot, the text and who
 * called. `device` is the kind's table. Returns -1. */
BP_PLUGIN_PRINTF(4, 5)
int32_t bp_validate_find(const BpDeviceApi *device, const BpCall *call, const char *kind,
                         const char *format, ...);

/* ---- order.c: streams, and what has to wait for what -------------------------------------- */

/* That a stream waits for the work of another up to some piece. */
typedef struct BpValidateWait {
  uint64_t stream, piece;
} BpValidateWait;

typedef struct BpValidateWaits {
  BpValidateWait *items;
  size_t count, room;
} BpValidateWaits;

/* A stream, also a device's default one. Pieces of work are counted from 1. */
typedef struct BpValidateStream {
  BpLayersEntry entry;
  uint64_t number; /* unique in the process */
  uint64_t queued; /* pieces of work */
  uint64_t done;   /* of these, the host has waited for as many */
  int is_default;
  int is_leaving; /* bp_validate_stream_take */
  int is_recorded;
  pthread_t recorder;
  struct BpValidateAccess *recorded; /* accesses of its recording so far */
  BpValidateWaits waits;
  BpValidatePlace made;
  struct BpValidateStream *freed_before; /* in the list of those freed with work under way */
} BpValidateStream;

/* What a piece of work does with a range of bytes. A launch says not what it does with a buffer: it
 * counts as LAUNCHES, which is ordered with copies, and with other launches only where the buffer
 * held nothing before, so that the first of them must have written it. */
typedef enum BpValidateUse { USE_READS, USE_LAUNCHES, USE_WRITES } BpValidateUse;

typedef struct BpValidateAccess {
  struct BpValidateAccess *next;
  uint64_t stream, piece;
  uint64_t from, to; /* bytes */
  BpValidateUse use;
  BpSlot slot;
  /* Of a recording: whose bytes. */
  int32_t device_id;
  void *handle;
  uint64_t space; /* BpValidateSpace::number */
} BpValidateAccess;

/* Memory that is allocated. */
typedef struct BpValidateSpace {
  BpLayersEntry entry;
  uint64_t number; /* of no other, ever */
  uint64_t size;
  int is_workspace;
  int is_filled;              /* something was written to it */
  pid_t owner;                /* the thread that allocated it */
  BpValidateAccess *accesses; /* by work that the host has not waited for; the latest first */
  BpValidatePlace made;
} BpValidateSpace;

typedef struct BpValidateOrder {
  BpLayersTable streams;
  BpValidateStream *freed; /* with work under way */
  uint64_t last_number;
} BpValidateOrder;

/* The stream of a handle, NULL: the default one, which is made. NULL if there is none. */
BpValidateStream *bp_validate_stream(BpValidateOrder *order, int32_t device_id, void *handle);
/* Adds a stream that was created. NULL if there is no memory. */
BpValidateStream *bp_validate_stream_add(BpValidateOrder *order, int32_t device_id, void *handle);
/* Takes out a stream that is about to be freed, as another thread may be given its handle then. The
 * stream is kept for bp_validate_stream_left, which either forgets it or, if it was not freed, puts
 * it back. */
BpValidateStream *bp_validate_stream_take(BpValidateOrder *order, int32_t device_id, void *handle);
void bp_validate_stream_left(BpValidateOrder *order, BpValidateStream *stream, int is_freed);
/* Forgets waits for work that the host has waited for. */
void bp_validate_stream_drop_waits(const BpValidateOrder *order, BpValidateStream *stream);
/* `to` waits for what is queued on `from`. */
void bp_validate_stream_wait(BpValidateOrder *order, const BpValidateStream *from,
                             BpValidateStream *to);

/* The host has waited for all of these, and `stream` waits for them. */
void bp_validate_waits_done(BpValidateOrder *order, const BpValidateWaits *waits);
void bp_validate_waits_join(BpValidateStream *stream, const BpValidateWaits *waits);
/* What is queued on the stream, and all that the stream waits for. */
void bp_validate_waits_of(const BpValidateStream *stream, BpValidateWaits *waits);
/* What is queued on all streams. */
void bp_validate_waits_of_all(const BpValidateOrder *order, BpValidateWaits *waits);

/* The piece of work that uses these bytes and that `stream` does not wait for although the two must
 * be ordered; NULL if there is none. */
const BpValidateAccess *bp_validate_unordered(BpValidateOrder *order, BpValidateSpace *space,
                                              const BpValidateStream *stream,
                                              const BpValidateAccess *access);
/* Notes a use of bytes by the stream's latest piece of work. */
void bp_validate_note(BpValidateOrder *order, BpValidateSpace *space,
                      const BpValidateStream *stream, const BpValidateAccess *access);
void bp_validate_accesses_free(BpValidateAccess *accesses);

#endif
