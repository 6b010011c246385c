/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a trial, in the process that may crash. */
#ifndef BACKPLANE_PARTS_TRIAL_REPORT_H
#define BACKPLANE_PARTS_TRIAL_REPORT_H

#include <backplane/error.h>

/* Makes this the process of a trial, whose report goes to `fd`. 0 if it cannot be written. */
int bp__trial_report_begin(int fd);
/* Reports that a line could not be written: a report without it could be misleading about the
 * plugin. */
void bp__trial_report_end(void);

/* Writes one line of UTF-8 without control characters, for any text of a plugin. */
void bp__trial_report(const char *key, const char *format, ...) BP_PRINTF(2, 3);

/* Ends a process that the plugin forked and that returned from the plugin. Otherwise both processes
 * would continue with the trial. */
void bp__trial_end_copy(void);

/* Reports that a stage begins. */
void bp__trial_report_stage(const char *stage);

#endif
