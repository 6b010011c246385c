/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins in a process of their own (docs/isolation.md), which BACKPLANE_ISOLATE lists, and plugins
 * of other machines (docs/remote.md), which BACKPLANE_REMOTE or a device preference remote:HOST
 * names.
 *
 * The part parts/isolation decides which plugins are isolated, starts the program backplane-worker,
 * with a command such as ssh for another machine, and keeps a Plugin for each usable plugin of
 * another machine. The plugin `worker` does the rest. The plugin `worker` registers the function
 * `runtime.isolate`, which registers the names of an isolated plugin, with functions that call the
 * worker.
 *
 * The path of another machine's plugin is BP_REMOTE_PREFIX, the machine, a slash and the plugin's
 * name. */
#ifndef BACKPLANE_PARTS_PLUGINS_ISOLATE_H
#define BACKPLANE_PARTS_PLUGINS_ISOLATE_H

#include "core/device/device.h"
#include "parts/plugins/store.h"

/* The part's table, with the functions below. */
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

/* Returns whether the plugin is to run in a process of its own: 1 or 0; -1 with an error if it is
 * to but cannot. */
BP__SHARED int bp__isolate_is_wanted(const Plugin *plugin);

/* Reports each name in BACKPLANE_ISOLATE that is not the name of a plugin in the list (Plugin). */
void bp__isolate_check(const GPtrArray *plugins, void (*report)(void *context, const char *text),
                       void *context);

/* Activates the plugin `worker`. Called before an isolated plugin is claimed, because no other
 * plugin is activated while one initialises. 0, or -1 with an error. */
int bp__isolate_prepare(void);

/* Starts the worker and registers the plugin's names, instead of calling initialize(). 0, or -1
 * with an error. */
int bp__isolate_initialize(const Plugin *plugin);

/* Asks the machines of BACKPLANE_REMOTE for their plugins, once in a process, and adds the plugins
 * to the store. A machine that cannot be reached is added as a rejected plugin, and a warning is
 * logged. Called without the lock. Does nothing in a trial, and in a thread that initialises a
 * plugin or asks a machine. */
void bp__remote_search(void);

/* Asks one machine for its plugins. Returns 1; or, with an error, 0 if the machine cannot be
 * reached, and -1 if the text is not a name of a machine. */
int bp__remote_reach(const char *host);

/* Called in the child of a fork. */
void bp__remote_after_fork(void);

#endif
