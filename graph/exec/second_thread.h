/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that is kept for the runs of a graph on two devices, because starting a thread for each
 * run costs more than a small run. The thread sleeps between runs. */
#ifndef BACKPLANE_GRAPH_EXEC_SECOND_THREAD_H
#define BACKPLANE_GRAPH_EXEC_SECOND_THREAD_H

typedef struct BpSecondThread BpSecondThread;

/* Starts a thread (transfer full); NULL without an error if that is impossible. */
BpSecondThread *bp__second_thread_start(void);
/* Ends the thread, which has no work; NULL is ignored. In the child of a fork, where the thread
 * does not exist, only frees the structure. */
void bp__second_thread_free(BpSecondThread *thread);

/* Makes the thread call `work`. Returns 0, or -1 without an error in the child of a fork. */
int bp__second_thread_begin(BpSecondThread *thread, void (*work)(void *data), void *data);
/* Waits until the thread's work is done. */
void bp__second_thread_wait(BpSecondThread *thread);

#endif
