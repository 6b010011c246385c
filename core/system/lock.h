/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of the core, and forks.
 *
 * These are all its locks, in the order in which a thread takes them. A fork takes all of them
 * first, so that in the child each is free and what it guards is whole. A lock that is not here
 * could be held in the child by a thread that is not there. Objects have no locks of their own. */
#ifndef BACKPLANE_CORE_SYSTEM_LOCK_H
#define BACKPLANE_CORE_SYSTEM_LOCK_H

#include <pthread.h>

typedef enum BpLock {
  BP__LOCK_START,   /* the start of the core, for as long as it takes */
  BP__LOCK_PLUGINS, /* the records of plugins; held while the search path is read */
  BP__LOCK_STATE,   /* everything else: for short sections that take no other lock */
  BP__NUM_LOCKS
} BpLock;

/* Within a section no code of a plugin or of the application is called, and nobody forks. */
void bp__lock(BpLock lock);
void bp__unlock(BpLock lock);
/* Waits for a condition variable, which belongs to the lock that is held. */
void bp__lock_wait(BpLock lock, pthread_cond_t *changed);

/* What a room does in the child of a fork, with all locks held: it drops what belongs to threads
 * that are not there. Static. */
typedef struct BpForkHook {
  void (*in_child)(void);
  struct BpForkHook *next;
} BpForkHook;

/* Adds a hook, unless it was added before. With a lock held. */
void bp__fork_hook_add(BpForkHook *hook);

#endif
