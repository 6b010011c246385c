/* SPDX-License-Identifier: Apache-2.0 */
/* A thread waits for work, does it, and reports its end. A thread without work for some seconds
 * ends: a process ends when its last thread has ended. */

#include "graph/exec/queue_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define IDLE_SECONDS 5

struct BpQueueThread {
  pthread_t thread;
  pid_t process; /* process that runs the thread */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* The lock guards the members below. */
  void (*work)(void *data); /* NULL: no work */
  void *data;
  int is_taken; /* a run has the thread, which does not end */
  int is_ending;
};

/* Waits for work, with the lock held. Returns 0 if the thread has to end. */
static int wait_for_work(BpQueueThread *thread) {
  while (!thread->work && !thread->is_ending) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += IDLE_SECONDS;
    if (pthread_cond_timedwait(&thread->changed, &thread->lock, &end) == ETIMEDOUT &&
        !thread->work && !thread->is_taken)
      thread->is_ending = 1;
  }
  return !thread->is_ending;
}

static void *serve(void *user) {
  BpQueueThread *thread = user;
  pthread_mutex_lock(&thread->lock);
  while (wait_for_work(thread)) {
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
  pthread_condattr_t attributes;
  if (!thread)
    return NULL;
  thread->process = getpid();
  thread->is_taken = 1;
  pthread_mutex_init(&thread->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&thread->changed, &attributes);
  pthread_condattr_destroy(&attributes);
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

int bp__queue_thread_take(BpQueueThread *thread) {
  if (thread->process != getpid())
    return 1;
  pthread_mutex_lock(&thread->lock);
  int has_thread = !thread->is_ending;
  thread->is_taken = has_thread;
  pthread_mutex_unlock(&thread->lock);
  return has_thread;
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
  if (thread->process != getpid())
    return;
  pthread_mutex_lock(&thread->lock);
  while (thread->work)
    pthread_cond_wait(&thread->changed, &thread->lock);
  thread->is_taken = 0;
  pthread_mutex_unlock(&thread->lock);
}
