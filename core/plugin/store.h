/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins that this process knows of.
 *
 * All mutable state is one structure under one lock (bp__plugins_lock), which is never held across
 * a call into a plugin, the log callback or dlopen. A Plugin in the store lives for ever, and all
 * of it but `state`, `reason` and `owner` is constant. */
#ifndef BACKPLANE_CORE_PLUGIN_STORE_H
#define BACKPLANE_CORE_PLUGIN_STORE_H

#include "core/plugin/descriptor.h"

#include <backplane/plugins.h>
#include <glib.h>
#include <pthread.h>
#include <sys/stat.h>

/* Beside the public BP_PLUGIN_*: being initialised by `owner`. */
#define BP_PLUGIN_INITIALISING 100

typedef struct Plugin {
  char *path; /* "" when linked into the program */
  struct stat status;
  Descriptor descriptor;
  BpPluginEntry entry; /* when linked into the program, else NULL */
  int32_t state;
  char *reason; /* NULL or why it cannot be used; owned */
  pthread_t owner;
} Plugin;

/* The lock, and what is waited on for the end of an initialisation. */
void bp__plugins_lock(void);
void bp__plugins_unlock(void);
void bp__plugins_wait(void);
void bp__plugins_wake(void);

/* Reads the search path; the first time, or every time with `again`. Takes the lock itself. */
void bp__plugins_scan(int again);

/* With the lock held, after a scan. Plugins in search order; whichever provides a registry name;
 * one by its name. NULL when there is none. */
const GPtrArray *bp__plugins_all(void);
Plugin *bp__plugins_by_provided(const char *registry_name);
Plugin *bp__plugins_by_name(const char *name);

/* With the lock held: adds a plugin that no search finds (one given by path, or linked into the
 * program); ownership passes to the store. */
void bp__plugins_add(Plugin *plugin);

/* Reads the descriptor of a file (transfer full until it is in the store). A file that is no
 * plugin, or not one for this host, is a Plugin as well, with a state that says so. NULL with an
 * error: there is no such file, or no memory. */
Plugin *bp__plugin_read(int directory, const char *name, const char *path);
void bp__plugin_free(Plugin *plugin);

/* Whether the record `plugin` is of the file that `status` describes. */
int bp__plugin_is_file(const Plugin *plugin, const struct stat *status);

/* Sets the state, with this thread's error, which is cleared, as the reason. */
void bp__plugin_reject(Plugin *plugin, int32_t state);

/* Prepares the store for forks. */
int bp__plugins_start(void);

/* Loads and initialises a plugin, or waits until another thread has (activate.c). Without the lock.
 * BP_ERROR_NOT_READY in a thread that is initialising a plugin. */
int bp__plugin_activate(Plugin *plugin);

/* The start of this room. */
int bp__plugin_start(void);

#endif
