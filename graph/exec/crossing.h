/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two devices: each device has a thread that queues its work, and a copy is where
 * two threads meet. One thread queues the half of its device, then the other thread queues its own.
 * If both devices can order the halves themselves, neither thread waits for a device in between. */
#ifndef BACKPLANE_GRAPH_EXEC_CROSSING_H
#define BACKPLANE_GRAPH_EXEC_CROSSING_H

#include <backplane/device.h>
#include <backplane/tensor.h>

/* All crossings of one graph. */
typedef struct BpCrossings BpCrossings;

/* Allocates memory for `count` crossings, which are not set yet (transfer full); NULL with an
 * error. */
BpCrossings *bp__crossings_create(uint32_t count);
/* Frees crossings; copies that are queued still complete. NULL is ignored. */
void bp__crossings_free(BpCrossings *crossings);

/* Sets one crossing. The views of a crossing live as long as the crossings, and may point elsewhere
 * in each run. Returns -1 with an error on failure. */
int bp__crossing_set(BpCrossings *crossings, uint32_t index, const BpTensorView *from,
                     void *from_stream, const BpTensorView *to, void *to_stream);
/* Changes the streams of a crossing, between two runs. */
void bp__crossing_set_streams(BpCrossings *crossings, uint32_t index, void *from_stream,
                              void *to_stream);

/* Prepares the crossings for a run, while no other thread uses them. */
void bp__crossings_begin(BpCrossings *crossings);
/* Queue the two halves of a copy. Each of both functions is called once in a run: send in the
 * thread of the source's device, receive in that of the destination's device. Return -1 with an
 * error, or without an error if another thread has given up. */
int bp__crossing_send(BpCrossings *crossings, uint32_t index);
int bp__crossing_receive(BpCrossings *crossings, uint32_t index);
/* Ends all waits of other threads after a failure of one thread. */
void bp__crossings_give_up(BpCrossings *crossings);

#endif
