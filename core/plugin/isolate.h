/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins in a process of their own (docs/isolation.md), which BACKPLANE_ISOLATE lists, and plugins
 * of other machines (docs/remote.md), which BACKPLANE_REMOTE lists, or a preference for a device,
 * remote:HOST.
 *
 * The part parts/isolation decides which plugins are isolated, starts the program backplane-worker,
 * with a command such as ssh where it is to run on another machine, and keeps a Plugin for each
 * plugin of a machine that can be used from here. All else is done by the plugin `worker`, which
 * registers the function `runtime.isolate`: it registers the names of an isolated plugin, with
 * functions that cross to the worker.
 *
 * The path of another machine's plugin is BP_REMOTE_PREFIX, the machine, a slash and the plugin's
 * name. */
#ifndef BACKPLANE_CORE_PLUGIN_ISOLATE_H
#define BACKPLANE_CORE_PLUGIN_ISOLATE_H

#include "core/device/device.h"
#include "core/plugin/store.h"

/* The part's table: the functions below. */
typedef struct Isolation {
  int (*is_wanted)(const Plugin *plugin);
  void (*check)(const GPtrArray *plugins, void (*report)(void *context, const char *text),
                void *context);
  int (*prepare)(void);
  int (*initialize)(const Plugin *plugin);
  void (*remote_search)(void);
  int (*remote_reach)(const char *host);
  void (*remote_after_fork)(void);
} Isolation;

/* Whether the plugin is to run in a process of its own: 1 or 0; -1 with an error if it is asked
 * for and cannot be. */
BP__SHARED int bp__isolate_is_wanted(const Plugin *plugin);

/* Reports each name in BACKPLANE_ISOLATE that none of the plugins (Plugin) has. */
void bp__isolate_check(const GPtrArray *plugins, void (*report)(void *context, const char *text),
                       void *context);

/* Activates the plugin `worker`. Before an isolated plugin is claimed: while a plugin initialises,
 * no other one is activated. 0, or -1 with an error. */
int bp__isolate_prepare(void);

/* Starts the worker and registers the plugin's names, in the place of its initialize(). 0, or -1
 * with an error. */
int bp__isolate_initialize(const Plugin *plugin);

/* Asks the machines of BACKPLANE_REMOTE for their plugins, once in a process. The plugins are in
 * the store when this returns; a machine that cannot be reached is there as a rejected plugin, and
 * a warning is logged. Without the lock. Does nothing in a trial, and in a thread that initialises
 * a plugin or asks a machine. */
void bp__remote_search(void);

/* The same for one machine. 1; or, with an error, 0 if it cannot be reached, and -1 if the text is
 * no name of a machine. */
BP__SHARED int bp__remote_reach(const char *host);

/* Whether plugins of other machines may be known. */
BP__SHARED int bp__remote_is_used(void);

/* In the child of a fork. */
void bp__remote_after_fork(void);

#endif
