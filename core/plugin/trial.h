/* SPDX-License-Identifier: Apache-2.0 */
/* First contact: a plugin that is new, or changed, is tried out in a process of its own.
 *
 * The host starts the program backplane-trial with the plugin's open file, a pipe for the report
 * and one that ends the trial when it is closed. That program runs the trial in a child of its own,
 * bp_plugin_trial() here, and ends whatever is left of it at the deadline. The report is lines of
 * `key=value`. The program's own are the first, `helper`, with the version of this protocol;
 * `impossible`, if it could not run the trial, with why; and at the end `left`, if there were
 * processes still, and `end`.
 *
 * It guards against plugins that are broken, not against hostile ones: whoever may install a plugin
 * may run code here. */
#ifndef BACKPLANE_CORE_PLUGIN_TRIAL_H
#define BACKPLANE_CORE_PLUGIN_TRIAL_H

#include "core/plugin/store.h"

#define BP_TRIAL_REPORT_MAX (256 * 1024)
#define BP_TRIAL_PROTOCOL   "1"

/* The status with which the program lets a trial end whose plugin has closed the report's
 * descriptor. */
#define BP_TRIAL_REPORT_CLOSED 113

/* What a trial found. */
typedef struct Trial {
  Reason verdict;      /* REASON_OK: it did no harm; bp__trial_fault says whether it works */
  char *text;          /* why not, for people; "" */
  GPtrArray *lines;    /* the report: char * of `key=value` */
  int is_inconclusive; /* what was found counts in this process alone: its cause may pass */
} Trial;

/* Milliseconds that a plugin has: BACKPLANE_PLUGIN_DEADLINE, in seconds; 0: none is tried out. */
int bp__trial_deadline(void);

/* The helper program: BACKPLANE_TRIAL_PROGRAM, or the one installed with this library (transfer
 * none). */
const char *bp__trial_program(void);

/* Tries out the file open as plugin->fd, whatever is known of it. -1 with an error and
 * REASON_HELPER_MISSING if the helper program is not installed, or REASON_TRIAL_IMPOSSIBLE if what
 * went wrong is not the plugin's fault: then nothing is known of it. */
int bp__trial_run(const Plugin *plugin, Trial *trial);
void bp__trial_clear(Trial *trial);

/* The values of the lines of a key, one after another: start with `from` = 0; NULL at the end. */
const char *bp__trial_next(const Trial *trial, const char *key, guint *from);

/* The orderly failure that a trial reported, with its text (borrowed); NUM_REASONS if none. */
Reason bp__trial_fault(const Trial *trial, const char **text);

/* Whether a reason is a trial's verdict, which keeps a plugin from being loaded here. */
int bp__trial_is_verdict(Reason reason);

/* 0 if the plugin, open as plugin->fd, may be loaded into this process: by what was learned before,
 * or by a trial now. -1 with an error and a reason if it may not: a verdict, an orderly failure in
 * its trial, or why there was none. Where the helper program is not installed every plugin may be
 * loaded, and the log says so, once a process. */
int bp__trial_require(const Plugin *plugin);

/* In the process of a trial: reports how far it has come. Elsewhere: nothing. */
void bp__trial_stage(const char *stage);
/* There too: names a library that the plugin is linked with and that is not there. */
void bp__trial_missing(const char *library);
int bp__trial_is_here(void);

#endif
