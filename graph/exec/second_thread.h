/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that is kept for the runs of a graph on two devices: starting one for each run costs
 * more than a small run. It sleeps between the runs. */
#ifndef BACKPLANE_GRAPH_EXEC_SECOND_THREAD_H
#define BACKPLANE_GRAPH_EXEC_SECOND_THREAD_H

typedef struct BpSecondThread BpSecondThread;

/* Starts a thread (transfer full). NULL, with no error, if that is impossible. */
BpSecondThread *bp__second_thread_start(void);
/* Ends the thread, which has no work; NULL is ignored. In the child of a fork, which lacks the
 * thread, only frees the structure. */
void bp__second_thread_free(BpSecondThread *thread);

/* Has the thread call `work`. 0, or -1, with no error: this is the child of a fork. */
int bp__second_thread_begin(BpSecondThread *thread, void (*work)(void *data), void *data);
/* Waits until the work is done. */
void bp__second_thread_wait(BpSecondThread *thread);

#endif
