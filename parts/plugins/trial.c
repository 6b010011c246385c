/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a plugin may be loaded, by the result of an earlier trial. The part parts/trial
 * runs trials. */

#include "parts/plugins/trial.h"

#include "core/registry/log.h"
#include "core/registry/part.h"
#include "core/system/env.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define DEADLINE_DEFAULT 20.0
#define DEADLINE_MAX     3600.0

int bp__trial_deadline(void) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  const char *text = bp__env_get("BACKPLANE_PLUGIN_DEADLINE");
  char *end = NULL;
  errno = 0;
  double seconds = text ? g_ascii_strtod(text, &end) : DEADLINE_DEFAULT;
  if (text && (errno || *end || !(seconds >= 0) || seconds > DEADLINE_MAX)) {
    if (!atomic_flag_test_and_set(&is_told))
      bp__log(BP_LOG_WARNING,
              "BACKPLANE_PLUGIN_DEADLINE is \"%.40s\", not a number of seconds from 0 to %.0f; "
              "%.0f is used",
              text, DEADLINE_MAX, DEADLINE_DEFAULT);
    seconds = DEADLINE_DEFAULT;
  }
  return (int)(seconds * 1000 + 0.999); /* rounded up, because 0 means no trial */
}

const char *bp__trial_program(void) {
  const char *program = bp__env_get("BACKPLANE_TRIAL_PROGRAM");
  return program ? program : BP_TRIAL_PROGRAM;
}

int bp__trial_is_verdict(Reason reason) {
  return reason == REASON_CRASHED || reason == REASON_TIMED_OUT || reason == REASON_EXITED ||
         reason == REASON_STOPPED || reason == REASON_LEAVES_PROCESSES ||
         reason == REASON_TRIAL_GARBLED;
}

const TrialPart *bp__trial_part(void) {
  const TrialPart *part = bp__part_table(BP_PART_TRIAL);
  if (part)
    return part;
  g_autofree char *why = g_strdup(bp_error_message());
  bp__reason_raise(REASON_TRIAL_IMPOSSIBLE, "it cannot be tried out: %s", why);
  return NULL;
}

/* ---- In the process of a trial ----------------------------------------------------------- */

static int is_here;

int bp__trial_is_here(void) {
  return is_here;
}

int bp__trial_here(int plugin_fd, const char *path, int fd) {
  is_here = 1;
  const TrialPart *part = bp__part_table(BP_PART_TRIAL);
  if (part)
    part->try_here(plugin_fd, path, fd);
  return part ? 0 : -1;
}

void bp__trial_stage(const char *stage) {
  const TrialPart *part = is_here ? bp__part_loaded(BP_PART_TRIAL) : NULL;
  if (part)
    part->report_stage(stage);
}

void bp__trial_missing(const char *library) {
  const TrialPart *part = is_here ? bp__part_loaded(BP_PART_TRIAL) : NULL;
  if (part)
    part->report("missing", "%s", library);
}

/* ---- Requiring a trial ------------------------------------------------------------------- */

int bp__trial_require(const Plugin *plugin, int *was_tried) {
  *was_tried = 0;
  if (bp__trial_is_here() || !bp__trial_deadline())
    return 0;
  TrialCache cache;
  bp__trial_cache_open(&cache, plugin);
  int rc = bp__trial_recall(&cache, was_tried);
  const TrialPart *part = *was_tried ? NULL : bp__trial_part();
  if (!*was_tried)
    rc = part ? part->learn(plugin, &cache) : -1;
  bp__trial_cache_close(&cache);
  return rc;
}
