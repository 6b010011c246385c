/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of the core, and forks.
 *
 * The enumeration lists all locks of the core, in the order in which a thread takes them. A fork
 * takes all of them first, so that in the child each lock is free and the data that it guards is
 * consistent. A lock that is not listed here could be held in the child by a thread that does not
 * exist there. Objects have no locks of their own. */
#ifndef BACKPLANE_CORE_SYSTEM_LOCK_H
#define BACKPLANE_CORE_SYSTEM_LOCK_H

#include "core/system/shared.h"

#include <pthread.h>

typedef enum BpLock {
  BP__LOCK_START,   /* held for the whole start of the core */
  BP__LOCK_PLUGINS, /* the records of plugins; held while the search path is read */
  BP__LOCK_STATE,   /* all other state, in short sections that take no other lock */
  BP__NUM_LOCKS
} BpLock;

/* While a lock is held, no code of a plugin or of the application is called, and no process is
 * forked. */
BP__SHARED void bp__lock(BpLock lock);
BP__SHARED void bp__unlock(BpLock lock);
/* Waits for a condition variable of the held lock. */
BP__SHARED void bp__lock_wait(BpLock lock, pthread_cond_t *changed);

/* Called in the child of a fork, with all locks held: drops the data of threads that do not exist
 * in the child. Static. */
typedef struct BpForkHook {
  void (*in_child)(void);
  struct BpForkHook *next;
} BpForkHook;

/* Adds a hook, unless it was added before. Called with a lock held. */
BP__SHARED void bp__fork_hook_add(BpForkHook *hook);

#endif
