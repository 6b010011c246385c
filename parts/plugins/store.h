/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins that this process knows.
 *
 * All mutable state is one structure under one lock (bp__plugins_lock), which is never held across
 * a call into a plugin, the log callback or dlopen. A Plugin in the store is never freed, and
 * constant except for `state`, `code`, `reason`, `fd`, `is_mapped`, `is_warned_of`, `is_tried`,
 * `was_tried` and `owner`. */
#ifndef BACKPLANE_PARTS_PLUGINS_STORE_H
#define BACKPLANE_PARTS_PLUGINS_STORE_H

#include "core/system/shared.h"

#include "parts/plugins/descriptor.h"
#include "parts/plugins/reasons.h"

#include <glib.h>
#include <pthread.h>
#include <sys/stat.h>

/* An additional state besides the public BP_PLUGIN_*: `owner` is initialising the plugin. */
#define BP_PLUGIN_INITIALISING 100

typedef struct Plugin {
  char *path; /* "" if linked into the program; remote:HOST/NAME on another machine */
  struct stat status;
  Descriptor descriptor;
  BpPluginEntry entry; /* the entry point if linked into the program, else NULL */
  const char *host;    /* the machine of the plugin; NULL: this machine */
  int32_t state;
  Reason code;
  char *reason;     /* why the plugin cannot be used, or NULL; owned */
  char *warning;    /* how other users may change the file, or NULL; owned */
  int fd;           /* the open file, during activation and while mapped; else -1 */
  int is_mapped;    /* the plugin's code is in this process, for ever */
  int is_warned_of; /* `warning` was logged */
  int is_tried;     /* the checks before loading passed in this process */
  int was_tried;    /* an earlier trial, whose result was stored, succeeded */
  pthread_t owner;  /* the thread that initialises the plugin */
  int owner_cancel; /* whether that thread can be cancelled afterwards */
} Plugin;

/* The lock, and the condition for the end of an initialisation. */
BP__SHARED void bp__plugins_lock(void);
BP__SHARED void bp__plugins_unlock(void);
BP__SHARED void bp__plugins_wait(void);
BP__SHARED void bp__plugins_wake(void);

/* Searches the path the first time; with `again`, every time. Takes the lock. */
BP__SHARED void bp__plugins_scan(int again);
/* Searches the path every time, and logs problems as information instead of warnings, for callers
 * that report bp__plugins_problems themselves. */
BP__SHARED void bp__plugins_scan_for_report(void);
/* Returns 0, or -1 with an error if the last search lacked descriptors or memory, so that it may
 * have missed a plugin. Takes the lock. */
int bp__plugins_check_search(void);

/* Return plugins in search order: all plugins; the plugins of a name, including rejected ones; the
 * plugins that provide a registry name, without rejected ones. Borrowed until the next search. NULL
 * if no plugin fits. Called with the lock held, after a search. */
BP__SHARED GPtrArray *bp__plugins_all(void);
GPtrArray *bp__plugins_named(const char *name);
GPtrArray *bp__plugins_that_provide(const char *registry_name);

/* Returns the plugin of the same name and machine that is used instead of `plugin`, because it is
 * in use, or because it comes first and has not failed so far. Returns NULL if no other plugin is
 * used instead. Called with the lock held. */
const Plugin *bp__plugin_rival(const Plugin *plugin);
/* Returns the text about a plugin that is shadowed by the plugin at `path` (transfer full,
 * g_free). */
BP__SHARED char *bp__plugin_describe_shadow(const char *name, const char *path);

/* Returns a copy of the problems that the last search had with the search path itself (transfer
 * full). Takes the lock. */
typedef struct SearchProblem {
  Reason reason;
  char *path;
  char *text;
} SearchProblem;
BP__SHARED GPtrArray *bp__plugins_problems(void);

/* Adds a plugin that no search finds (given by path, linked into the program, or on another
 * machine); the store takes ownership. Called with the lock held. */
BP__SHARED void bp__plugins_add(Plugin *plugin);

/* Makes an empty record for `path`, which is "" for a plugin linked into the program (transfer
 * full). */
BP__SHARED Plugin *bp__plugin_create(const char *path);

/* Reads the descriptor of a file (transfer full until it is in the store). A file that is not a
 * plugin, cannot be read, or is not for this host, also gives a Plugin, with the matching state.
 * `directory_problem`: the text of bp__path_problem for its directory. */
BP__SHARED Plugin *bp__plugin_read(int directory, const char *name, const char *path,
                                   const char *directory_problem);
/* Reads the descriptor of an open file; the plugin takes over `fd`. */
BP__SHARED Plugin *bp__plugin_read_open(int fd, const char *path);
BP__SHARED void bp__plugin_free(Plugin *plugin);

/* Whether the record `plugin` is for the file that `status` describes. */
int bp__plugin_is_file(const Plugin *plugin, const struct stat *status);

/* Whether the file could not be read: its contents are unknown, and the next search reads it
 * again. */
int bp__plugin_is_unread(const Plugin *plugin);
/* Whether a system error is temporary: too few descriptors, no memory. */
int bp__errno_passes(int error);

/* Permits trying a plugin again that failed before its code was loaded into this process. Called
 * with the lock held. */
void bp__plugin_forgive(Plugin *plugin);

/* Sets the state, with this thread's error as the reason; clears the error. */
BP__SHARED void bp__plugin_reject(Plugin *plugin, int32_t state);

/* Makes searches find no plugins, in the process of a trial. Called before the first search. */
BP__SHARED void bp__plugins_search_nothing(void);

/* Loads and initialises a plugin, or waits until another thread has done so (activate.c). Called
 * without the lock. BP_ERROR_NOT_READY in a thread that is initialising a plugin. */
BP__SHARED int bp__plugin_activate(Plugin *plugin);

/* Activates the first candidate that can be used, by bp__plugin_activate or a function like it. 1:
 * a candidate is active. 0: no candidate can be tried. -1 with the reasons of all candidates. */
int bp__plugins_activate_first(const GPtrArray *candidates, int (*activate)(Plugin *));

/* Tries a plugin if it is new, as the first step of its activation would, but does not load it. A
 * failure is stored in the plugin's state. Called without the lock. */
void bp__plugin_try(Plugin *plugin);

/* Opens the plugin's file again, into plugin->fd, and checks that it is the file whose descriptor
 * was read; -1 with an error. */
BP__SHARED int bp__plugin_open(Plugin *plugin);

/* Whether the open file was not written since its descriptor was read; -1 with errno if the file's
 * state cannot be read. The time of status change is no test: replacing the file changes that time
 * too, and the open file continues to exist. */
BP__SHARED int bp__plugin_is_unwritten(const Plugin *plugin);

/* Maps the file open as plugin->fd, for ever, and finds its entry point. The open file is mapped
 * even if its path now leads elsewhere. NULL with an error. */
BpPluginEntry bp__plugin_load(Plugin *plugin);

#endif
