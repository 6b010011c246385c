/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins that this process knows of.
 *
 * All mutable state is one structure under one lock (bp__plugins_lock), which is never held across
 * a call into a plugin, the log callback or dlopen. A Plugin in the store lives for ever, and all
 * of it but `state`, `code`, `reason`, `fd`, `is_mapped`, `is_warned_of`, `is_tried` and `owner` is
 * constant. */
#ifndef BACKPLANE_CORE_PLUGIN_STORE_H
#define BACKPLANE_CORE_PLUGIN_STORE_H

#include "core/plugin/descriptor.h"
#include "core/plugin/reasons.h"
#include "core/registry/names.h"

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
  Reason code;
  char *reason;     /* NULL or why it cannot be used; owned */
  char *warning;    /* NULL or how others may change it; owned */
  int fd;           /* the file, open, while it is being activated and once it is mapped; else -1 */
  int is_mapped;    /* its code is in this process, for ever */
  int is_warned_of; /* `warning` was logged */
  int is_tried;     /* nothing speaks against loading it: found out in this process */
  pthread_t owner;
} Plugin;

/* The lock, and what is waited on for the end of an initialisation. */
void bp__plugins_lock(void);
void bp__plugins_unlock(void);
void bp__plugins_wait(void);
void bp__plugins_wake(void);

/* Reads the search path; the first time, or every time with `again`. Takes the lock itself. */
void bp__plugins_scan(int again);
/* The same, every time, for who reports bp__plugins_problems: they are no warnings then. */
void bp__plugins_scan_for_report(void);
/* 0, or -1 with an error if the last search lacked descriptors or memory, so that a plugin that
 * was not found may be there. Takes the lock itself. */
int bp__plugins_check_search(void);

/* With the lock held, after a scan. Plugins in search order: all; those of a name, rejected ones
 * too; those that provide a registry name, without the rejected. Borrowed until the next scan. NULL
 * when there is none. */
const GPtrArray *bp__plugins_all(void);
GPtrArray *bp__plugins_snapshot(void); /* transfer full: outlives the lock */
const GPtrArray *bp__plugins_named(const char *name);
const GPtrArray *bp__plugins_that_provide(const char *registry_name);

/* With the lock held: the plugin of the same name that is used instead of `plugin`, because it is
 * in use or because it comes first and nothing speaks against it so far. NULL if there is none. */
const Plugin *bp__plugin_rival(const Plugin *plugin);
/* What is said of one that has a rival at `path` (transfer full, g_free). */
char *bp__plugin_describe_shadow(const char *name, const char *path);

/* What was wrong with the search path itself, in the last search: a copy (transfer full). Takes the
 * lock itself. */
typedef struct SearchProblem {
  Reason reason;
  char *path;
  char *text;
} SearchProblem;
GPtrArray *bp__plugins_problems(void);

/* With the lock held: adds a plugin that no search finds (one given by path, or linked into the
 * program); ownership passes to the store. */
void bp__plugins_add(Plugin *plugin);

/* An empty record of `path`, "" for one linked into the program (transfer full). */
Plugin *bp__plugin_create(const char *path);

/* Reads the descriptor of a file (transfer full until it is in the store). A file that is no
 * plugin, cannot be read or is not one for this host, is a Plugin as well, with a state that says
 * so. `directory_problem`: what bp__path_problem says of its directory. */
Plugin *bp__plugin_read(int directory, const char *name, const char *path,
                        const char *directory_problem);
/* The same of a file that is open; `fd` passes to the plugin. */
Plugin *bp__plugin_read_open(int fd, const char *path);
void bp__plugin_free(Plugin *plugin);

/* Whether the record `plugin` is of the file that `status` describes. */
int bp__plugin_is_file(const Plugin *plugin, const struct stat *status);

/* Whether the file could not be read: nothing is known of it, and the next search reads it again.
 */
int bp__plugin_is_unread(const Plugin *plugin);
/* Whether an error of the system's ends by itself: too few descriptors, no memory. */
int bp__errno_passes(int error);

/* With the lock held: one that failed before its code came into this process may be tried again. */
void bp__plugin_forgive(Plugin *plugin);

/* Sets the state, with this thread's error, which is cleared, as the reason. */
void bp__plugin_reject(Plugin *plugin, int32_t state);

/* For the process that tries a plugin out: no search finds any other. Before first use. */
void bp__plugins_search_nothing(void);

/* Prepares the store for forks. */
void bp__plugins_watch_forks(void);

/* Loads and initialises a plugin, or waits until another thread has (activate.c). Without the lock.
 * BP_ERROR_NOT_READY in a thread that is initialising a plugin. */
int bp__plugin_activate(Plugin *plugin);

/* Adds the kinds of devices that the plugins of a list declare, but for those that are rejected or
 * shadowed. 0, or -1 with an error. */
int bp__plugin_list_add_devices(const BpPluginList *list, BpNames *names);

/* Tells the lower rooms, by core/registry/installed.h, what plugins declare. */
void bp__plugins_tell_installed(void);

/* Tries a plugin out if it is new, as its activation would first, and loads nothing. What speaks
 * against it becomes its state. Without the lock. */
void bp__plugin_try(Plugin *plugin);

/* Opens the plugin's file again, into plugin->fd, and checks that it is the one whose descriptor
 * was read; -1 with an error. */
int bp__plugin_open(Plugin *plugin);

/* Maps the file open as plugin->fd, for ever, and finds its entry point. What is mapped is that
 * file, whatever became of its path meanwhile. NULL with an error. */
BpPluginEntry bp__plugin_load(Plugin *plugin);

/* The start of this room. */
int bp__plugin_start(void);

#endif
