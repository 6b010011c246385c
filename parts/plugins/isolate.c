/* SPDX-License-Identifier: Apache-2.0 */
/* Isolates plugins and connects to other machines through the part parts/isolation, which is loaded
 * on first use. */

#include "parts/plugins/isolate.h"

#include "core/registry/log.h"
#include "core/registry/part.h"
#include "core/system/env.h"

#include <backplane/error.h>
#include <stdatomic.h>

/* Returns the part; NULL with an error. */
static const Isolation *load(void) {
  const Isolation *isolation = bp__part_table(BP_PART_ISOLATION);
  if (!isolation)
    bp__reason_note(REASON_ISOLATION_IMPOSSIBLE);
  return isolation;
}

/* Returns the part; NULL with a warning in the log, once in a process, for callers that return no
 * error. */
static const Isolation *load_or_warn(void) {
  static atomic_flag has_warned = ATOMIC_FLAG_INIT;
  const Isolation *isolation = load();
  if (isolation)
    return isolation;
  if (!atomic_flag_test_and_set(&has_warned))
    bp__log(BP_LOG_WARNING, "plugins cannot be isolated, and other machines cannot be reached: %s",
            bp_error_message());
  bp_error_clear();
  return NULL;
}

int bp__isolate_is_wanted(const Plugin *plugin) {
  if (!plugin->host && !bp__env_get("BACKPLANE_ISOLATE"))
    return 0;
  const Isolation *isolation = load();
  return isolation ? isolation->is_wanted(plugin) : -1;
}

void bp__isolate_check(const GPtrArray *plugins, void (*report)(void *context, const char *text),
                       void *context) {
  const Isolation *isolation = bp__env_get("BACKPLANE_ISOLATE") ? load_or_warn() : NULL;
  if (isolation)
    isolation->check(plugins, report, context);
}

int bp__isolate_prepare(void) {
  const Isolation *isolation = load();
  return isolation ? isolation->prepare() : -1;
}

int bp__isolate_initialize(const Plugin *plugin) {
  const Isolation *isolation = load();
  return isolation ? isolation->initialize(plugin) : -1;
}

void bp__remote_search(void) {
  const Isolation *isolation = bp__env_get("BACKPLANE_REMOTE") ? load_or_warn() : NULL;
  if (isolation)
    isolation->remote_search();
}

int bp__remote_reach(const char *host) {
  const Isolation *isolation = load();
  return isolation ? isolation->remote_reach(host) : -1;
}

void bp__remote_after_fork(void) {
  const Isolation *isolation = bp__part_loaded(BP_PART_ISOLATION);
  if (isolation)
    isolation->remote_after_fork();
}
