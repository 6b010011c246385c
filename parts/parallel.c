/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that mostly wait; the thread pool is for threads that compute. */

#include "parts/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

typedef struct Queue {
  atomic_size_t next;
  size_t count;
  void (*visit)(void *context, size_t index);
  void *context;
} Queue;

static void *work_off(void *data) {
  Queue *queue = data;
  for (size_t i; (i = atomic_fetch_add(&queue->next, 1)) < queue->count;)
    queue->visit(queue->context, i);
  return NULL;
}

void bp__parallel_for_each(size_t count, void (*visit)(void *context, size_t index),
                           void *context) {
  Queue queue = {.count = count, .visit = visit, .context = context};
  pthread_t threads[BP_WAITS_AT_ONCE - 1];
  size_t started = 0;
  sigset_t all, before;
  sigfillset(&all); /* signals are for the program's threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (started + 1 < count && started < BP_WAITS_AT_ONCE - 1 &&
         !pthread_create(&threads[started], NULL, work_off, &queue))
    started++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  work_off(&queue);
  for (size_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
}
