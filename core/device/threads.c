/* SPDX-License-Identifier: Apache-2.0 */
/* The host's thread pool: the number of threads, and the team that runs a launch.
 *
 * A launch takes an idle team or makes one. So launches of several application threads run at the
 * same time without waiting for each other, and no lock is held while tasks run. */

#include "core/device/team.h"
#include "core/system/env.h"
#include "core/system/lock.h"
#include "core/registry/log.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <glib.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Idle teams: one is taken by an atomic exchange, the others are in a list that BP__LOCK_STATE
 * guards. */
static _Atomic(Team *) ready;
static GPtrArray *idle;

static atomic_int num_threads; /* 0 until first needed */
static atomic_int is_lost;     /* the threads belong to the parent process */

/* ---- Number of threads ------------------------------------------------------------------- */

/* Returns the CPU time that the control group may use, in CPUs; INT32_MAX without a limit. */
static int32_t cgroup_limit(void) {
  int64_t quota = 0, period = 0;
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!file)
    return INT32_MAX;
  int fields = fscanf(file, "%" G_GINT64_FORMAT " %" G_GINT64_FORMAT, &quota, &period);
  fclose(file);
  if (fields != 2 || quota <= 0 || period <= 0 || quota / period >= BP_THREADS_MAX)
    return INT32_MAX;
  return (int32_t)((quota + period - 1) / period);
}

static int32_t usable_cores(void) {
  cpu_set_t cores;
  int32_t count = sched_getaffinity(0, sizeof cores, &cores) ? 1 : CPU_COUNT(&cores);
  int32_t limit = cgroup_limit();
  return CLAMP(MIN(count, limit), 1, BP_THREADS_MAX);
}

static int32_t initial_count(void) {
  const char *text = bp__env_get("BACKPLANE_NUM_THREADS");
  guint64 count;
  if (!text)
    return usable_cores();
  if (g_ascii_string_to_unsigned(text, 10, 1, BP_THREADS_MAX, &count, NULL))
    return (int32_t)count;
  bp__log(BP_LOG_WARNING, "BACKPLANE_NUM_THREADS is \"%s\", not a number from 1 to %d; ignored",
          text, BP_THREADS_MAX);
  return usable_cores();
}

int32_t bp_threads_get(void) {
  int count = atomic_load_explicit(&num_threads, memory_order_relaxed);
  if (count)
    return count;
  int none = 0;
  atomic_compare_exchange_strong(&num_threads, &none, initial_count());
  return atomic_load(&num_threads);
}

/* ---- Forks ------------------------------------------------------------------------------- */

static void lose_threads(void) {
  atomic_store(&is_lost, 1);
}

/* Called before the first team is made. */
static void watch_forks(void) {
  static BpForkHook hook = {lose_threads, NULL};
  bp__lock(BP__LOCK_STATE);
  bp__fork_hook_add(&hook);
  bp__unlock(BP__LOCK_STATE);
}

/* ---- Teams ------------------------------------------------------------------------------- */

static Team *pop_idle(void) {
  Team *team = atomic_exchange(&ready, NULL);
  if (team)
    return team;
  bp__lock(BP__LOCK_STATE);
  if (idle && idle->len)
    team = g_ptr_array_remove_index_fast(idle, idle->len - 1);
  bp__unlock(BP__LOCK_STATE);
  return team;
}

static Team *take_team(int threads) {
  for (Team *team; (team = pop_idle());) {
    if (bp__team_threads(team) == threads)
      return team;
    bp__team_destroy(team);
  }
  watch_forks();
  return bp__team_create(threads, threads <= usable_cores());
}

static void give_back_team(Team *team) {
  Team *none = NULL;
  if (atomic_compare_exchange_strong(&ready, &none, team))
    return;
  bp__lock(BP__LOCK_STATE);
  if (!idle)
    idle = g_ptr_array_new();
  g_ptr_array_add(idle, team);
  bp__unlock(BP__LOCK_STATE);
}

int bp_threads_set(int32_t count) {
  if (count < 1 || count > BP_THREADS_MAX)
    return bp_error_raise(BP_ERROR_VALUE, "%d threads; 1 to %d are possible", count,
                          BP_THREADS_MAX);
  atomic_store(&num_threads, count);
  for (Team *team; !atomic_load(&is_lost) && (team = pop_idle());)
    bp__team_destroy(team);
  return 0;
}

int bp_parallel_launch(BpParallelTask task, void *data, int32_t num_task) {
  if (!task || num_task < 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "a parallel launch needs a task and a number of tasks that is not "
                          "negative");
  int threads = bp_threads_get();
  if (bp__team_in_task() || threads == 1 || num_task == 1)
    return bp__team_run(NULL, task, data, num_task);
  if (atomic_load_explicit(&is_lost, memory_order_relaxed))
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "the host's threads stayed behind in the process that forked this one; "
                          "fork before the first use, or start a new program instead");
  Team *team = take_team(threads);
  if (!team)
    return -1;
  int rc = bp__team_run(team, task, data, num_task);
  give_back_team(team);
  return rc;
}
