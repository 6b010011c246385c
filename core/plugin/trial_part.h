/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the core that runs trials, parts/trial. */
#ifndef BACKPLANE_CORE_PLUGIN_TRIAL_PART_H
#define BACKPLANE_CORE_PLUGIN_TRIAL_PART_H

#include "core/plugin/trial_cache.h"

/* The result of a trial. */
typedef struct Trial {
  Reason verdict;      /* REASON_OK: no harm done; find_fault says whether the plugin works */
  char *text;          /* the reason as text, or "" */
  GPtrArray *lines;    /* the report: char * of `key=value` */
  int is_inconclusive; /* the result is valid only in this process: its cause may be temporary */
} Trial;

/* The part's table. */
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
