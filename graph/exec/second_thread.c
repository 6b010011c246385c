/* SPDX-License-Identifier: Apache-2.0 */
/* The second thread of a graph on two devices: it waits for work, executes it, and reports its
 * end. */

#include "graph/exec/second_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct BpSecondThread {
  pthread_t thread;
  pid_t process; /* process that runs the thread */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  void (*work)(void *data); /* NULL: no work. The lock guards `work`, `data` and `is_ending` */
  void *data;
  int is_ending;
};

static void *serve(void *user) {
  BpSecondThread *thread = user;
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
static int start(BpSecondThread *thread) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = pthread_create(&thread->thread, NULL, serve, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

BpSecondThread *bp__second_thread_start(void) {
  BpSecondThread *thread = calloc(1, sizeof *thread);
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

void bp__second_thread_free(BpSecondThread *thread) {
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

int bp__second_thread_begin(BpSecondThread *thread, void (*work)(void *data), void *data) {
  if (thread->process != getpid())
    return -1;
  pthread_mutex_lock(&thread->lock);
  thread->work = work;
  thread->data = data;
  pthread_cond_broadcast(&thread->changed);
  pthread_mutex_unlock(&thread->lock);
  return 0;
}

void bp__second_thread_wait(BpSecondThread *thread) {
  pthread_mutex_lock(&thread->lock);
  while (thread->work)
    pthread_cond_wait(&thread->changed, &thread->lock);
  pthread_mutex_unlock(&thread->lock);
}
