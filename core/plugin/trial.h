/* SPDX-License-Identifier: Apache-2.0 */
/* First contact: a new or changed plugin is tried in a process of its own.
 *
 * The host starts the program backplane-trial with the plugin's open file, a pipe for the report,
 * and a pipe that ends the trial when it is closed. That program runs the trial in a child of its
 * own, bp_plugin_trial() here, and kills all processes of the trial that are left at the deadline.
 * The report is lines of `key=value`. The program itself writes the first line, `helper`, with the
 * version of this protocol; `impossible`, with the reason, if it could not run the trial; and at
 * the end `left`, if processes were left, and `end`.
 *
 * Trials protect against broken plugins, not against hostile ones: a user who can install a plugin
 * can run code in this process in any case. */
#ifndef BACKPLANE_CORE_PLUGIN_TRIAL_H
#define BACKPLANE_CORE_PLUGIN_TRIAL_H

#include "core/system/shared.h"

#include "core/plugin/store.h"

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
 * plugin may be loaded, and this is logged once per process. */
int bp__trial_require(const Plugin *plugin);

/* In the process of a trial, reports the trial's progress; does nothing in other processes. */
void bp__trial_stage(const char *stage);
/* In the process of a trial, reports a missing library that the plugin is linked with. */
void bp__trial_missing(const char *library);
BP__SHARED int bp__trial_is_here(void);

#endif
