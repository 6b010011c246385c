/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two devices, neither of which is the host: each device has a thread that queues
 * its work, and a copy is where the threads meet. One queues the half of its device, then the other
 * queues its own. Neither waits for the other device in between, if both can do without. */
#ifndef BACKPLANE_GRAPH_EXEC_CROSSING_H
#define BACKPLANE_GRAPH_EXEC_CROSSING_H

#include <backplane/device.h>
#include <backplane/tensor.h>

/* All crossings of one graph. */
typedef struct BpCrossings BpCrossings;

/* Memory for `count` crossings, none of which is set (transfer full); NULL with an error. */
BpCrossings *bp__crossings_create(uint32_t count);
/* Copies that are queued still complete. NULL is ignored. */
void bp__crossings_free(BpCrossings *crossings);

/* Sets one: the views live as long as the crossings, and may point elsewhere for each run. -1 with
 * an error. */
int bp__crossing_set(BpCrossings *crossings, uint32_t index, const BpTensorView *from,
                     void *from_stream, const BpTensorView *to, void *to_stream);

/* Before a run, while no other thread uses them. */
void bp__crossings_begin(BpCrossings *crossings);
/* The two halves of a copy, each called once in a run, in the thread of the source's and of the
 * destination's device. -1 with an error; without one if the other thread has given up. */
int bp__crossing_send(BpCrossings *crossings, uint32_t index);
int bp__crossing_receive(BpCrossings *crossings, uint32_t index);
/* After a failure of one thread: the other waits for nothing more. */
void bp__crossings_give_up(BpCrossings *crossings);

#endif
