/* SPDX-License-Identifier: Apache-2.0 */
/* A thread waits for work, does it, and reports its end. */

#include "graph/exec/queue_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct BpQueueThread {
  pthread_t thread;
  pid_t process; /* process that runs the thread */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  void (*work)(void *data); /* NULL: no work. The lock guards `work`, `data` and `is_ending` */
  void *data;
  int is_ending;
};

static void *serve(void *user) {
  BpQueueThread *thread = user;
  pthread_mutex_lock(&thread->lock);
  for (;;) {
    while (!thread->work && !thread->is_ending)
      pthread_cond_wait(&thread->changed, &thread->lock);
    if (thread->is_ending)
      break;
    void (*work)(void *data) = thread->work;
    void *data = thread->data;
    pthread_mutex_unlock(&thread->lock);
    work(data);
    pthread_mutex_lock(&thread->lock);
    thread->work = NULL;
    pthread_cond_broadcast(&thread->changed);
  }
  pthread_mutex_unlock(&thread->lock);
  return NULL;
}

/* Blocks all signals in the thread: the program's own threads handle them. */
static int start(BpQueueThread *thread) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = pthread_create(&thread->thread, NULL, serve, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

BpQueueThread *bp__queue_thread_start(void) {
  BpQueueThread *thread = calloc(1, sizeof *thread);
  if (!thread)
    return NULL;
  thread->process = getpid();
  pthread_mutex_init(&thread->lock, NULL);
  pthread_cond_init(&thread->changed, NULL);
  if (!start(thread))
    return thread;
  pthread_cond_destroy(&thread->changed);
  pthread_mutex_destroy(&thread->lock);
  free(thread);
  return NULL;
}

void bp__queue_thread_free(BpQueueThread *thread) {
  if (!thread)
    return;
  if (thread->process == getpid()) {
    pthread_mutex_lock(&thread->lock);
    thread->is_ending = 1;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->thread, NULL);
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->lock);
  }
  free(thread);
}

int bp__queue_thread_begin(BpQueueThread *thread, void (*work)(void *data), void *data) {
  if (thread->process != getpid())
    return -1;
  pthread_mutex_lock(&thread->lock);
  thread->work = work;
  thread->data = data;
  pthread_cond_broadcast(&thread->changed);
  pthread_mutex_unlock(&thread->lock);
  return 0;
}

void bp__queue_thread_wait(BpQueueThread *thread) {
  pthread_mutex_lock(&thread->lock);
  while (thread->work)
    pthread_cond_wait(&thread->changed, &thread->lock);
  pthread_mutex_unlock(&thread->lock);
}
