/* SPDX-License-Identifier: Apache-2.0 */
/* First contact: a new or changed plugin is tried in a process of its own.
 *
 * The host starts the program backplane-trial with the plugin's open file, a pipe for the report,
 * and a pipe that ends the trial when it is closed. backplane-trial runs the trial in a child of
 * its own, bp_plugin_trial() here, and kills all processes of the trial that are left at the
 * deadline. The report is lines of `key=value`. backplane-trial itself writes the first line,
 * `helper`, with the version of this protocol; `impossible`, with the reason, if it could not run
 * the trial; and at the end `left`, if processes were left, and `end`.
 *
 * Trials protect against broken plugins, not against hostile ones: a user who can install a plugin
 * can run code in this process in any case. */
#ifndef BACKPLANE_PARTS_PLUGINS_TRIAL_H
#define BACKPLANE_PARTS_PLUGINS_TRIAL_H

#include "core/system/shared.h"

#include "parts/plugins/store.h"
#include "core/registry/cache.h"

#define BP_TRIAL_PROTOCOL "1"

/* The program ends a trial with this status if the plugin has closed the report's descriptor. */
#define BP_TRIAL_REPORT_CLOSED 113

/* Returns the time limit of a plugin in milliseconds: BACKPLANE_PLUGIN_DEADLINE, in seconds; 0: no
 * trials. */
BP__SHARED int bp__trial_deadline(void);

/* Returns the path of the helper program: BACKPLANE_TRIAL_PROGRAM, or the one installed with this
 * library (transfer none). */
BP__SHARED const char *bp__trial_program(void);

/* Whether a reason is a verdict of a trial, which excludes the plugin from this process. */
int bp__trial_is_verdict(Reason reason);

/* Returns 0 if the plugin, open as plugin->fd, may be loaded into this process, according to a
 * stored result or a new trial. Returns -1 with an error and a reason if not: a verdict, an orderly
 * failure in its trial, or an obstacle to the trial. If the helper program is not installed, every
 * plugin may be loaded, and this is logged once per process. *was_tried: whether a stored result
 * decided. */
int bp__trial_require(const Plugin *plugin, int *was_tried);

/* In the process of a trial, reports the trial's progress; does nothing in other processes. */
void bp__trial_stage(const char *stage);
/* In the process of a trial, reports a missing library that the plugin is linked with. */
void bp__trial_missing(const char *library);
BP__SHARED int bp__trial_is_here(void);
/* Runs the trial of an open file in this process, with the report in `fd`; -1 with an error if that
 * is impossible. */
int bp__trial_here(int plugin_fd, const char *path, int fd);

/* ---- Results ----------------------------------------------------------------------------- */

/* Results of trials, kept for later processes of this user.
 *
 * Each plugin has one small file in the user's cache. The file is valid only for the key with which
 * it was written, and while the libraries of the trial are unchanged. A cache or a file that cannot
 * be used is treated as absent, with one warning per process. */

#define BP_HASH_TEXT 65 /* SHA-256 in hexadecimal and a NUL */

#define BP_RECORD_FIRST_LINE "backplane-trial 3"
#define BP_RECORD_QUARANTINE ".quarantine" /* the end of a quarantine file's name */

/* The cache file of one plugin. */
typedef struct TrialCache {
  BpCache folder;
  int lock;                /* -1: not held */
  char name[BP_HASH_TEXT]; /* name of the file; a quarantine's file has a suffix */
  char key[BP_HASH_TEXT];
  char watched[BP_HASH_TEXT]; /* key; "" if a record is only listed */
  int failures;               /* trials in a row that ended in quarantine, as read */
} TrialCache;

/* Opens the folder of all files. Never fails: without a folder no record is found or
 * kept. */
void bp__trial_cache_folder(BpCache *folder);

/* Returns 1 with *verdict and *text (transfer full, g_free) if a plugin is in quarantine, else 0.
 * For lists: the usual case, no quarantine, is fast, and the files and nodes that the descriptor
 * names are not examined. */
int bp__trial_cache_quarantine(const BpCache *folder, const Plugin *plugin, Reason *verdict,
                               char **text);

BP__SHARED void bp__trial_cache_open(TrialCache *cache, const Plugin *plugin);
BP__SHARED void bp__trial_cache_close(TrialCache *cache);

/* Raises the verdict of a valid stored result: 0, or -1 with an error. *is_known: whether there is
 * a valid result. */
BP__SHARED int bp__trial_recall(TrialCache *cache, int *is_known);

/* Logs this thread's error, once per process, and clears it; the process continues without the
 * cache. */
BP__SHARED void bp__trial_cache_warn(void);

/* Computes the key: a hash of everything that is known before a trial and may change its result,
 * except the files and nodes that the descriptor names (trial_identity.c). */
void bp__plugin_key(const Plugin *plugin, char key[BP_HASH_TEXT]);
/* Computes a hash of the files and nodes that the descriptor names: they are patterns, which take
 * time to evaluate. */
void bp__plugin_watched(const Plugin *plugin, char hash[BP_HASH_TEXT]);

/* Appends a description that changes when the file at a path changes, and a newline. */
void bp__identity_append(GString *text, const char *path);
/* Returns the hash of a path's description. */
BP__SHARED void bp__identity_hash(const char *path, char hash[BP_HASH_TEXT]);

/* Shell patterns of descriptors over paths, evaluated with a limit on the work: a descriptor is
 * untrusted, and glob() would walk a whole tree for "/proc/...". */

/* The most names of directories and paths that are examined for the patterns of one plugin. */
#define BP_PATTERN_WORK 4096

/* Calls `visit` for each existing path that matches an absolute pattern, in the order of names.
 * *work is decreased for every examined name; at 0 further names are skipped. */
BP__SHARED void bp__pattern_visit(const char *pattern, int *work,
                                  void (*visit)(void *context, const char *path), void *context);

/* ---- Lines of "key=value" ---------------------------------------------------------------- */

/* Returns the next line of a text, whose end becomes a NUL. NULL at the end. Start with `rest` at
 * the text. */
BP__SHARED char *bp__line_next(char **rest);

/* Returns the value of a line, borrowed from the line; NULL if the line has another key. */
BP__SHARED const char *bp__line_value(const char *line, const char *key);

/* ---- The part ---------------------------------------------------------------------------- */

/* The result of a trial. */
typedef struct Trial {
  Reason verdict;      /* REASON_OK: no harm done; find_fault says whether the plugin works */
  char *text;          /* the reason as text, or "" */
  GPtrArray *lines;    /* the report: char * of `key=value` */
  int is_inconclusive; /* the result is valid only in this process: its cause may be temporary */
} Trial;

/* The table of parts/trial, the part of the core that runs trials. */
typedef struct TrialPart {
  /* Tries an unknown plugin, stores the result, and returns like bp__trial_require. */
  int (*learn)(const Plugin *plugin, TrialCache *cache);
  /* Tries the file open as plugin->fd, regardless of earlier results. -1 with an error and
   * REASON_HELPER_MISSING if the helper program is not installed, or REASON_TRIAL_IMPOSSIBLE if the
   * failure is not the plugin's fault: then there is no result. */
  int (*run)(const Plugin *plugin, Trial *trial);
  /* Stores a trial's verdict, if it is conclusive. */
  void (*store)(const Plugin *plugin, const Trial *trial);
  /* Returns the values of the lines with a key, one after another: start with `from` = 0; NULL at
   * the end. */
  const char *(*next)(const Trial *trial, const char *key, guint *from);
  /* Returns the orderly failure that a trial reported, with its text (borrowed); NUM_REASONS if
   * none. */
  Reason (*find_fault)(const Trial *trial, const char **text);
  void (*clear)(Trial *trial);

  /* In the process of a trial: runs the trial of an open file, with the report in `fd`; begins the
   * next stage; writes a line of the report. */
  void (*try_here)(int plugin_fd, const char *path, int fd);
  void (*report_stage)(const char *stage);
  void (*report)(const char *key, const char *format, ...) BP_PRINTF(2, 3);
} TrialPart;

/* Returns the part; NULL with an error and REASON_TRIAL_IMPOSSIBLE. */
BP__SHARED const TrialPart *bp__trial_part(void);

#endif
