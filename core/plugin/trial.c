/* SPDX-License-Identifier: Apache-2.0 */
/* The results of trials of plugins. The part parts/trial runs the trials. */

#include "core/plugin/trial.h"

#include "core/plugin/trial_cache.h"
#include "core/plugin/trial_part.h"
#include "core/plugin/trial_report.h"
#include "core/registry/lines.h"
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

const char *bp__trial_next(const Trial *trial, const char *key, guint *from) {
  const char *value = NULL;
  while (!value && *from < trial->lines->len)
    value = bp__line_value(g_ptr_array_index(trial->lines, (*from)++), key);
  return value;
}

Reason bp__trial_fault(const Trial *trial, const char **text) {
  guint from = 0;
  const char *line = bp__trial_next(trial, "fault", &from);
  const char *tab = line ? strchr(line, '\t') : NULL;
  if (!tab)
    return NUM_REASONS;
  g_autofree char *code = g_strndup(line, (gsize)(tab - line));
  *text = tab + 1;
  return bp__reason_by_code(code);
}

int bp__trial_is_verdict(Reason reason) {
  return reason == REASON_CRASHED || reason == REASON_TIMED_OUT || reason == REASON_EXITED ||
         reason == REASON_STOPPED || reason == REASON_LEAVES_PROCESSES ||
         reason == REASON_TRIAL_GARBLED;
}

int bp__trial_run(const Plugin *plugin, Trial *trial) {
  const TrialPart *part = bp__part_table(BP_PART_TRIAL);
  if (part)
    return part->run(plugin, trial);
  g_autofree char *why = g_strdup(bp_error_message());
  return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE, "it cannot be tried out: %s", why);
}

void bp_plugin_trial(int plugin_fd, const char *path, int fd) {
  if (bp__trial_report_begin(fd)) {
    const TrialPart *part = bp__part_table(BP_PART_TRIAL);
    if (part)
      part->try_here(plugin_fd, path);
    else
      bp__trial_report("impossible", "%s", bp_error_message());
  }
  bp__trial_report_end();
}

void bp__trial_clear(Trial *trial) {
  g_free(trial->text);
  g_ptr_array_unref(trial->lines);
}

/* ---- Requiring a trial ------------------------------------------------------------------- */

static int raise_verdict(Reason verdict, const char *text) {
  return verdict == REASON_OK ? 0 : bp__reason_raise(verdict, "%s", text);
}

static int raise_cached(TrialCache *cache, int *is_known) {
  Reason verdict;
  char *text;
  *is_known = bp__trial_cache_read(cache, &verdict, &text);
  if (!*is_known)
    return 0;
  int rc = raise_verdict(verdict, text);
  g_free(text);
  return rc;
}

/* If the helper program is not installed, plugins are used without a trial; after any other failure
 * of the trial, a plugin is not loaded. */
static int go_on_without(void) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  Reason reason = bp__reason_take(REASON_TRIAL_IMPOSSIBLE);
  bp__reason_note(reason);
  if (reason != REASON_HELPER_MISSING)
    return -1;
  if (!atomic_flag_test_and_set(&is_told))
    bp__log(BP_LOG_WARNING, "plugins are used without having been tried out: %s",
            bp_error_message());
  bp_error_clear();
  bp__reason_take(REASON_OK);
  return 0;
}

/* A plugin that failed in an orderly way is not loaded here, because its behaviour after the
 * failure was not tried. Nothing is stored about it, so that the reason is always up to date. */
static int raise_fault(const Trial *trial) {
  const char *text;
  Reason fault = bp__trial_fault(trial, &text);
  return fault == NUM_REASONS || fault == REASON_DEVICES_FAILED ? 0 : raise_verdict(fault, text);
}

static int try_and_learn(const Plugin *plugin, TrialCache *cache) {
  Trial trial;
  int is_known;
  bp__trial_cache_lock(cache, bp__trial_deadline());
  int rc = raise_cached(cache, &is_known); /* another process may have tried it meanwhile */
  if (is_known)
    return rc;
  if (bp__trial_run(plugin, &trial))
    return go_on_without();
  bp__trial_cache_write(cache, &trial);
  rc = raise_verdict(trial.verdict, trial.text) || raise_fault(&trial) ? -1 : 0;
  bp__trial_clear(&trial);
  return rc;
}

int bp__trial_require(const Plugin *plugin) {
  if (bp__trial_is_here() || !bp__trial_deadline())
    return 0;
  TrialCache cache;
  int is_known;
  bp__trial_cache_open(&cache, plugin);
  int rc = raise_cached(&cache, &is_known);
  if (!is_known)
    rc = try_and_learn(plugin, &cache);
  bp__trial_cache_close(&cache);
  return rc;
}
