/* SPDX-License-Identifier: Apache-2.0 */
/* Where the threads of devices meet: transfers between two devices each, and a lock under which one
 * thread tells the others that its half of one is queued. */
#include "graph/exec/crossing.h"

#include <pthread.h>
#include <stdlib.h>

#include <backplane/error.h>
#include <backplane/object.h>

/* One copy between two devices. */
typedef struct Crossing {
  const BpTensorView *from, *to;
  void *from_stream, *to_stream;
  uint64_t bytes;
  BpTransfer *transfer;
  BpEvent *handed_over; /* event of the destination, for which no thread waits */
  int is_sent;          /* whether the source's half is queued; guarded by the lock */
} Crossing;

struct BpCrossings {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_given_up; /* whether a thread has failed; guarded by the lock */
  uint32_t count;
  Crossing all[];
};

BpCrossings *bp__crossings_create(uint32_t count) {
  BpCrossings *crossings = calloc(1, sizeof(*crossings) + count * sizeof(Crossing));
  if (!crossings) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for %u copies between devices", count);
    return NULL;
  }
  pthread_mutex_init(&crossings->lock, NULL);
  pthread_cond_init(&crossings->changed, NULL);
  crossings->count = count;
  return crossings;
}

void bp__crossings_free(BpCrossings *crossings) {
  if (!crossings)
    return;
  for (uint32_t i = 0; i < crossings->count; i++) {
    bp_transfer_free(crossings->all[i].transfer);
    bp_event_free(crossings->all[i].handed_over);
  }
  pthread_cond_destroy(&crossings->changed);
  pthread_mutex_destroy(&crossings->lock);
  free(crossings);
}

int bp__crossing_set(BpCrossings *crossings, uint32_t index, const BpTensorView *from,
                     void *from_stream, const BpTensorView *to, void *to_stream) {
  int64_t bytes = bp_view_num_bytes(from);
  if (bytes < 0)
    return -1;
  Crossing *crossing = &crossings->all[index];
  *crossing = (Crossing){.from = from,
                         .to = to,
                         .from_stream = from_stream,
                         .to_stream = to_stream,
                         .bytes = (uint64_t)bytes,
                         .transfer = bp_transfer_create(from->device, to->device, (uint64_t)bytes),
                         .handed_over = bp_event_create(to->device)};
  return crossing->transfer && crossing->handed_over ? 0 : -1;
}

void bp__crossing_set_streams(BpCrossings *crossings, uint32_t index, void *from_stream,
                              void *to_stream) {
  crossings->all[index].from_stream = from_stream;
  crossings->all[index].to_stream = to_stream;
}

void bp__crossings_begin(BpCrossings *crossings) {
  crossings->is_given_up = 0;
  for (uint32_t i = 0; i < crossings->count; i++)
    crossings->all[i].is_sent = 0;
}

int bp__crossing_send(BpCrossings *crossings, uint32_t index) {
  Crossing *crossing = &crossings->all[index];
  const BpTensorView *from = crossing->from;
  if (bp_transfer_send(crossing->transfer, from->data, from->byte_offset, crossing->bytes,
                       crossing->from_stream) < 0)
    return -1;
  pthread_mutex_lock(&crossings->lock);
  crossing->is_sent = 1;
  pthread_cond_broadcast(&crossings->changed);
  pthread_mutex_unlock(&crossings->lock);
  return 0;
}

/* Waits until the source's half of a copy is queued; returns whether it was. */
static int wait_until_sent(BpCrossings *crossings, const Crossing *crossing) {
  pthread_mutex_lock(&crossings->lock);
  while (!crossing->is_sent && !crossings->is_given_up)
    pthread_cond_wait(&crossings->changed, &crossings->lock);
  int is_sent = crossing->is_sent;
  pthread_mutex_unlock(&crossings->lock);
  return is_sent;
}

/* A driver may hold work back until a thread waits for it, so an event makes the destination's
 * driver start its work before the thread waits. */
int bp__crossing_receive(BpCrossings *crossings, uint32_t index) {
  const Crossing *crossing = &crossings->all[index];
  const BpTensorView *to = crossing->to;
  if (bp_event_record(crossing->handed_over, crossing->to_stream) < 0 ||
      !wait_until_sent(crossings, crossing))
    return -1;
  return bp_transfer_receive(crossing->transfer, to->data, to->byte_offset, crossing->bytes,
                             crossing->to_stream);
}

void bp__crossings_give_up(BpCrossings *crossings) {
  pthread_mutex_lock(&crossings->lock);
  crossings->is_given_up = 1;
  pthread_cond_broadcast(&crossings->changed);
  pthread_mutex_unlock(&crossings->lock);
}
