/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that is kept for the runs of a graph on several devices, and queues the work of one of
 * them: starting a thread for each run costs more than a small run. The thread sleeps between the
 * runs, and ends after some seconds. */
#ifndef BACKPLANE_GRAPH_EXEC_QUEUE_THREAD_H
#define BACKPLANE_GRAPH_EXEC_QUEUE_THREAD_H

typedef struct BpQueueThread BpQueueThread;

/* Starts a thread (transfer full). NULL, with no error, if no thread can be started. */
BpQueueThread *bp__queue_thread_start(void);
/* Ends the thread, which has no work; NULL is ignored. In the child of a fork, which lacks the
 * thread, only frees the structure. */
void bp__queue_thread_free(BpQueueThread *thread);

/* Takes the thread for a run, until bp__queue_thread_wait. Returns 0 if the thread has ended, since
 * no run took it for some seconds; the caller frees it and starts another one. A started thread is
 * taken. */
int bp__queue_thread_take(BpQueueThread *thread);
/* Has the thread, which is taken, call `work`. 0, or -1, with no error: this is the child of a
 * fork. */
int bp__queue_thread_begin(BpQueueThread *thread, void (*work)(void *data), void *data);
/* Waits until the work is done, if there is any, and gives the thread back. Does nothing in the
 * child of a fork. */
void bp__queue_thread_wait(BpQueueThread *thread);

#endif
