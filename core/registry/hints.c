/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the part that finds advice for messages. */

#include "core/registry/hints.h"

#include "core/registry/argument.h"
#include "core/registry/log.h"
#include "core/registry/part.h"

#include <backplane/error.h>
#include <backplane/plugins.h>
#include <glib.h>
#include <stdatomic.h>
#include <stdio.h>

const Hints *bp__hints(void) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  const Hints *hints = bp__part_loaded(BP_PART_HINTS);
  if (hints)
    return hints;
  BpError *error = bp_error_take();
  hints = bp__part_table(BP_PART_HINTS);
  if (!hints && !atomic_flag_test_and_set(&is_told))
    bp__log(BP_LOG_WARNING, "messages have no advice: %s", bp_error_message());
  bp_error_clear();
  if (error)
    bp_error_put(error);
  return hints;
}

static const char *find_nearest(const char *name, const char *const *candidates, size_t count) {
  const Hints *hints = bp__hints();
  return hints ? hints->nearest(name, candidates, count) : NULL;
}

const char *bp__nearest_hint(const char *name, const char *const *candidates, size_t count,
                             char hint[BP_HINT_MAX]) {
  const char *nearest = find_nearest(name, candidates, count);
  if (nearest)
    snprintf(hint, BP_HINT_MAX, "; did you mean \"%s\"?", nearest);
  else
    hint[0] = '\0';
  return hint;
}

char *bp__package_of(const char *name) {
  const Hints *hints = bp__hints();
  return hints ? hints->package_of(name) : NULL;
}

char *bp__package_hint(const char *name) {
  g_autofree char *package = bp__package_of(name);
  return package ? g_strconcat("; install the package ", package, NULL) : g_strdup("");
}

char *bp_plugin_explain_absence(const char *name) {
  const Hints *hints = BP_NOT_NULL(name) ? bp__hints() : NULL;
  return hints ? hints->explain_absence(name) : g_strdup("");
}
