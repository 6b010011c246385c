/* SPDX-License-Identifier: Apache-2.0 */
/* For the conformance kit: a run, its results, and their evaluation. */
#ifndef BACKPLANE_CONFORMANCE_RUN_H
#define BACKPLANE_CONFORMANCE_RUN_H

#include <stdio.h>

#include "conformance/kit.h"

typedef enum Outcome {
  OUTCOME_PENDING,
  OUTCOME_PASSED,
  OUTCOME_FAILED,
  OUTCOME_BLOCKED,      /* a check that this check builds on failed */
  OUTCOME_SKIPPED,      /* declared as unsupported */
  OUTCOME_INAPPLICABLE, /* the plugin lacks the feature; no other outcome follows from it */
  OUTCOME_ABSENT,       /* this machine lacks a requirement */
  OUTCOME_LEFT_OUT      /* deselected by the options */
} Outcome;

/* The result of one check. */
typedef struct Result {
  const Section *section;
  const Check *check;
  Outcome outcome;
  gboolean is_expected_to_fail;
  char *text; /* why the check did not pass, or NULL */
  double seconds;
} Result;

/* A fact for the report's head. */
typedef struct Fact {
  char *name;
  char *value;
} Fact;

typedef struct Format Format;
typedef struct Report Report;

typedef struct Run {
  Kit kit;
  int timeout;        /* seconds for one check */
  gboolean fail_fast; /* skip all checks after the first failure */
  GArray *results;    /* Result, in the order of the sections */
  GArray *facts;      /* of Fact */
  FILE *out;          /* destination of the report */
  Report *report;     /* NULL before the facts are known */
  char *identity;     /* identity of the device, like kit.identity; NULL: unknown */
} Run;

/* ---- child.c: in a child process --------------------------------------------------------- */

typedef void ChildWork(Run *run, guint first);

/* Does the work of a child, reports through the descriptor, and ends the process. */
_Noreturn void bp__child_main(Run *run, int fd, ChildWork *work, guint first);
/* Reports the facts for the report's head, and whether the options fit the plugin. */
void bp__child_identify(Run *run, guint first);
/* Runs the pending checks of a section, from its first pending check on. */
void bp__child_run_section(Run *run, guint first);

/* ---- parent.c: following children to their ends ------------------------------------------ */

/* Makes a signal that would end the process end the run instead, with an error. */
void bp__signals_hold(void);
/* Restores the effects of signals; a signal that arrived meanwhile takes effect now. */
void bp__signals_release(void);
/* Finds the facts for the report's head. If the plugin crashes meanwhile, some facts are missing.
 * -1 with an error if no process can be started, if there is no such plugin, or if the options do
 * not suit the plugin. */
int bp__run_identify(Run *run);
/* Runs all pending checks, and records how each ended. -1 with an error if no process can be
 * started. */
int bp__run_checks(Run *run);

/* ---- plan.c: which checks run, and the meaning of their results -------------------------- */

/* Makes a result for each check of every section. */
void bp__run_create(Run *run);
void bp__run_clear(Run *run);
/* Deselects checks: each pattern is a tag or a glob of names; `only` NULL selects all. The
 * prerequisites of a selected check are selected too. -1 with an error if a pattern matches no
 * check. */
int bp__run_select(Run *run, char *const *only, char *const *skip);
/* Reads names or globs of checks that are expected to fail, one a line; '#' starts a comment. A
 * core check cannot be expected to fail. */
int bp__run_expect(Run *run, const char *path);
/* Settles a pending check if its outcome follows from its prerequisites. Returns whether the check
 * was settled. */
gboolean bp__run_settle(const Run *run, Result *result);
/* Returns the name of a tag; the first is "core". NULL beyond the last tag. */
const char *bp__tag_name(unsigned index);
/* Whether a result makes the run fail: a failure, or a pass where a failure is expected. */
gboolean bp__result_is_bad(const Result *result);
/* Returns the exit status, BP_CONFORMANCE_*. */
int bp__run_status(const Run *run);

/* ---- output.c ---------------------------------------------------------------------------- */

typedef struct Output {
  FILE *file;
  char *path;    /* NULL: stdout */
  char *partial; /* path of the temporary file until the report is complete, or NULL */
} Output;

/* Opens the destination of the report; path NULL is stdout. -1 with an error; close it in any
 * case. */
int bp__output_open(Output *output, const char *path);
/* Moves a complete report to its place, and removes an incomplete one. -1 with an error if it was
 * not written in full. */
int bp__output_close(Output *output, gboolean is_complete);
/* Makes a folder for the files of children (bp__folder_remove). NULL with an error. */
char *bp__folder_create(void);
/* Removes the folder with its content, and frees the path, which may be NULL. */
void bp__folder_remove(char *path);

/* ---- report.c ---------------------------------------------------------------------------- */

/* Finds a format by its name: "text", "tap" or "junit". NULL with an error. */
const Format *bp__report_format(const char *name);
/* --json. */
const Format *bp__report_json(void);
/* Begins a report to run->out, when the run's facts are complete. */
Report *bp__report_begin(const Run *run, const Format *format);
/* Reports the results that have been settled since the last call, up to the first open result. */
void bp__report_progress(const Run *run, Report *report);
/* Ends and frees the report. */
void bp__report_finish(const Run *run, Report *report);
/* Prints --list: every check with its tags and the fact that it shows. All formats except JSON
 * print the list in one form. */
void bp__report_list(const Run *run, const Format *format, FILE *out);
/* Writes this thread's error as JSON. */
void bp__report_error(FILE *out);

#endif
