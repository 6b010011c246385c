/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of the core, and forks. */

#include "core/system/lock.h"

#include <stdatomic.h>

static pthread_mutex_t locks[BP__NUM_LOCKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                               PTHREAD_MUTEX_INITIALIZER};
static _Atomic(BpForkHook *) hooks;

/* ---- Forks ------------------------------------------------------------------------------- */

static void before_fork(void) {
  for (int i = 0; i < BP__NUM_LOCKS; ++i)
    pthread_mutex_lock(&locks[i]);
}

static void after_fork_in_parent(void) {
  for (int i = BP__NUM_LOCKS; i-- > 0;)
    pthread_mutex_unlock(&locks[i]);
}

static void after_fork_in_child(void) {
  for (BpForkHook *hook = atomic_load(&hooks); hook; hook = hook->next)
    hook->in_child();
  after_fork_in_parent();
}

/* Fails only if memory is exhausted; glibc allocates memory from the 49th library that installs
 * fork handlers on. */
static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void bp__fork_hook_add(BpForkHook *hook) {
  for (const BpForkHook *known = atomic_load(&hooks); known; known = known->next)
    if (known == hook)
      return;
  hook->next = atomic_load(&hooks);
  while (!atomic_compare_exchange_weak(&hooks, &hook->next, hook)) {
  }
}

/* ---- Locks ------------------------------------------------------------------------------- */

/* Fork handlers are installed before a lock is first held. */
void bp__lock(BpLock lock) {
  static pthread_once_t watched = PTHREAD_ONCE_INIT;
  pthread_once(&watched, watch_forks);
  pthread_mutex_lock(&locks[lock]);
}

void bp__unlock(BpLock lock) {
  pthread_mutex_unlock(&locks[lock]);
}

/* A thread that was cancelled while it waits would end with the lock held. */
void bp__lock_wait(BpLock lock, pthread_cond_t *changed) {
  int cancel;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  pthread_cond_wait(changed, &locks[lock]);
  pthread_setcancelstate(cancel, NULL);
}
