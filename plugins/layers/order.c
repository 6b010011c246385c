/* SPDX-License-Identifier: Apache-2.0 */
/* The order of work on streams. Work A comes before work B in three cases: both are on one stream;
 * the host waited for A before it queued B; B's stream was made to wait for A
 * (sync_stream_from_to), directly or through further streams. In every other case A and B are
 * unordered. */
#include "validate.h"

#include <stdlib.h>

/* The most uses that are kept of one space; the oldest are forgotten. */
#define MOST_ACCESSES 64

/* ---- Streams ----------------------------------------------------------------------------- */

BpValidateStream *bp_validate_stream_add(BpValidateOrder *order, int32_t device_id, void *handle) {
  BpValidateStream *stream = calloc(1, sizeof *stream);
  if (!stream)
    return NULL;
  stream->entry.device_id = device_id;
  stream->entry.handle = handle;
  stream->number = ++order->last_number;
  stream->is_default = !handle;
  bp_validate_place_here(&stream->made);
  bp_layers_add(&order->streams, &stream->entry);
  return stream;
}

BpValidateStream *bp_validate_stream(BpValidateOrder *order, int32_t device_id, void *handle) {
  BpValidateStream *stream = bp_layers_find(&order->streams, device_id, handle);
  return stream || handle ? stream : bp_validate_stream_add(order, device_id, NULL);
}

static void destroy_stream(BpValidateStream *stream) {
  bp_validate_accesses_free(stream->recorded);
  free(stream->waits.items);
  free(stream);
}

BpValidateStream *bp_validate_stream_take(BpValidateOrder *order, int32_t device_id, void *handle) {
  BpValidateStream *stream = bp_layers_take(&order->streams, device_id, handle);
  if (!stream)
    return NULL;
  stream->is_leaving = 1;
  stream->freed_before = order->freed;
  order->freed = stream;
  return stream;
}

typedef struct Search {
  uint64_t number;
  BpValidateStream *found;
} Search;

static void match(void *record, void *context) {
  BpValidateStream *stream = record;
  Search *search = context;
  if (stream->number == search->number)
    search->found = stream;
}

/* Returns the stream with a number. NULL: the host waited for all of the stream's work, and the
 * stream was freed. */
static BpValidateStream *find_number(const BpValidateOrder *order, uint64_t number) {
  Search search = {number, NULL};
  bp_layers_each(&order->streams, match, &search);
  for (BpValidateStream *freed = order->freed; freed && !search.found; freed = freed->freed_before)
    if (freed->number == number)
      search.found = freed;
  return search.found;
}

static int is_done(const BpValidateOrder *order, uint64_t number, uint64_t piece) {
  const BpValidateStream *stream = find_number(order, number);
  return !stream || piece <= stream->done;
}

/* Forgets freed streams whose work is done. A stream with unfinished work must be remembered: other
 * streams may still have to wait for it. */
static void forget_done(BpValidateOrder *order) {
  for (BpValidateStream **link = &order->freed; *link;) {
    BpValidateStream *stream = *link;
    if (stream->is_leaving || stream->done < stream->queued) {
      link = &stream->freed_before;
    } else {
      *link = stream->freed_before;
      destroy_stream(stream);
    }
  }
}

void bp_validate_stream_left(BpValidateOrder *order, BpValidateStream *stream, int is_freed) {
  BpValidateStream **link = &order->freed;
  stream->is_leaving = 0;
  if (!is_freed) {
    while (*link != stream)
      link = &(*link)->freed_before;
    *link = stream->freed_before;
    bp_layers_add(&order->streams, &stream->entry);
  }
  forget_done(order);
}

void bp_validate_waits_done(BpValidateOrder *order, const BpValidateWaits *waits) {
  for (size_t i = 0; i < waits->count; i++) {
    BpValidateStream *other = find_number(order, waits->items[i].stream);
    if (other && other->done < waits->items[i].piece)
      other->done = waits->items[i].piece;
  }
  forget_done(order);
}

/* ---- Waiting ----------------------------------------------------------------------------- */

/* Notes a wait. If memory is short, the wait is not noted, and the layer may report a false
 * finding. */
static void add_wait(BpValidateWaits *waits, uint64_t number, uint64_t piece) {
  for (size_t i = 0; i < waits->count; i++)
    if (waits->items[i].stream == number) {
      if (waits->items[i].piece < piece)
        waits->items[i].piece = piece;
      return;
    }
  if (waits->count == waits->room) {
    size_t room = waits->room * 2 + 4;
    BpValidateWait *larger = realloc(waits->items, room * sizeof *larger);
    if (!larger)
      return;
    waits->items = larger;
    waits->room = room;
  }
  waits->items[waits->count++] = (BpValidateWait){number, piece};
}

void bp_validate_stream_drop_waits(const BpValidateOrder *order, BpValidateStream *stream) {
  BpValidateWaits *waits = &stream->waits;
  size_t kept = 0;
  for (size_t i = 0; i < waits->count; i++)
    if (!is_done(order, waits->items[i].stream, waits->items[i].piece))
      waits->items[kept++] = waits->items[i];
  waits->count = kept;
}

void bp_validate_waits_of(const BpValidateStream *stream, BpValidateWaits *waits) {
  waits->count = 0;
  add_wait(waits, stream->number, stream->queued);
  for (size_t i = 0; i < stream->waits.count; i++)
    add_wait(waits, stream->waits.items[i].stream, stream->waits.items[i].piece);
}

static void add_stream(void *record, void *context) {
  const BpValidateStream *stream = record;
  add_wait(context, stream->number, stream->queued);
}

void bp_validate_waits_of_all(const BpValidateOrder *order, BpValidateWaits *waits) {
  waits->count = 0;
  bp_layers_each(&order->streams, add_stream, waits);
  for (BpValidateStream *freed = order->freed; freed; freed = freed->freed_before)
    add_stream(freed, waits);
}

void bp_validate_waits_join(BpValidateStream *stream, const BpValidateWaits *waits) {
  for (size_t i = 0; i < waits->count; i++)
    if (waits->items[i].stream != stream->number)
      add_wait(&stream->waits, waits->items[i].stream, waits->items[i].piece);
}

void bp_validate_stream_wait(BpValidateOrder *order, const BpValidateStream *from,
                             BpValidateStream *to) {
  BpValidateWaits waits = {0};
  bp_validate_stream_drop_waits(order, to);
  bp_validate_waits_of(from, &waits);
  bp_validate_waits_join(to, &waits);
  free(waits.items);
}

static int waits_for(const BpValidateStream *stream, const BpValidateAccess *access) {
  if (stream->number == access->stream)
    return 1;
  for (size_t i = 0; i < stream->waits.count; i++)
    if (stream->waits.items[i].stream == access->stream)
      return access->piece <= stream->waits.items[i].piece;
  return 0;
}

/* ---- Uses of memory ---------------------------------------------------------------------- */

void bp_validate_accesses_free(BpValidateAccess *accesses) {
  while (accesses) {
    BpValidateAccess *next = accesses->next;
    free(accesses);
    accesses = next;
  }
}

static int overlap(const BpValidateAccess *a, const BpValidateAccess *b) {
  return a->from < b->to && b->from < a->to;
}

static int must_be_ordered(BpValidateUse a, BpValidateUse b) {
  if (a == USE_WRITES || b == USE_WRITES)
    return 1;
  return a != b; /* a launch and a reading copy */
}

static void drop_done(const BpValidateOrder *order, BpValidateSpace *space) {
  int count = 0;
  for (BpValidateAccess **link = &space->accesses; *link;) {
    BpValidateAccess *access = *link;
    if (++count <= MOST_ACCESSES && !is_done(order, access->stream, access->piece)) {
      link = &access->next;
    } else {
      *link = access->next;
      free(access);
    }
  }
}

const BpValidateAccess *bp_validate_unordered(BpValidateOrder *order, BpValidateSpace *space,
                                              const BpValidateStream *stream,
                                              const BpValidateAccess *access) {
  drop_done(order, space);
  for (const BpValidateAccess *other = space->accesses; other; other = other->next)
    if (overlap(access, other) && must_be_ordered(access->use, other->use) &&
        !waits_for(stream, other))
      return other;
  return NULL;
}

/* Whether a later use replaces an earlier one: the same stream uses the same bytes in the same
 * way. */
static int stands_for(const BpValidateAccess *later, const BpValidateAccess *earlier) {
  return later->stream == earlier->stream && later->use == earlier->use &&
         later->from <= earlier->from && earlier->to <= later->to;
}

void bp_validate_note(BpValidateOrder *order, BpValidateSpace *space,
                      const BpValidateStream *stream, const BpValidateAccess *access) {
  BpValidateAccess *note = malloc(sizeof *note);
  if (!note)
    return;
  *note = *access;
  note->stream = stream->number;
  note->piece = stream->queued;
  if (note->use == USE_LAUNCHES && !space->is_filled)
    note->use = USE_WRITES;
  if (note->use == USE_WRITES)
    space->is_filled = 1;
  drop_done(order, space);
  for (BpValidateAccess **link = &space->accesses; *link;) {
    BpValidateAccess *earlier = *link;
    if (stands_for(note, earlier)) {
      *link = earlier->next;
      free(earlier);
    } else {
      link = &earlier->next;
    }
  }
  note->next = space->accesses;
  space->accesses = note;
}
