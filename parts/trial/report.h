/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a trial, written by the process that may crash. */
#ifndef BACKPLANE_PARTS_TRIAL_REPORT_H
#define BACKPLANE_PARTS_TRIAL_REPORT_H

#include <backplane/error.h>

/* Makes this process that of a trial, whose report goes to `fd`. Returns 0 if the report cannot be
 * written. */
int bp__trial_report_begin(int fd);
/* Reports that a line could not be written: without that line the report could be misleading about
 * the plugin. */
void bp__trial_report_end(void);

/* Writes one line of UTF-8 without control characters, from any text of a plugin. */
void bp__trial_report(const char *key, const char *format, ...) BP_PRINTF(2, 3);

/* Ends a process that the plugin forked and whose code returned from the plugin. Without this call
 * both processes would continue with the trial. */
void bp__trial_end_copy(void);

/* Reports that a stage begins. */
void bp__trial_report_stage(const char *stage);

#endif
