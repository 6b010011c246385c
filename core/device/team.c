/* SPDX-License-Identifier: Apache-2.0 */
/* A team of host threads.
 *
 * Each launch is a generation, published in one 64-bit word: the generation's number, the number of
 * threads that take part, the number of workers inside it now, and whether it may still be entered.
 * A worker that sees a new generation enters it by compare-and-swap, runs tasks until there are no
 * more, and leaves. The leader does the same, closes the generation, and waits until no worker is
 * inside. So a launch does not wait for an idle or late thread: other threads run its tasks.
 *
 * Tasks are divided into ranges, one for each thread, and each thread runs its own range first. So
 * a task index runs on the same core in every launch, which has the task's data in its caches. Idle
 * workers spin for a while and then sleep on a futex of their own. */

#include "core/device/team.h"

#include "core/device/flush.h"
#include "core/device/futex.h"
#include "core/registry/log.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long a thread spins before it sleeps. The time between consecutive launches of one model is
 * shorter. */
#define SPIN_NS 50000

/* The parts of a generation's word. */
#define OPEN               1ull
#define INSIDE_ONE         2ull
#define INSIDE(word)       ((unsigned)((word) >> 1) & 0x7fff)
#define PARTICIPANTS(word) ((int)((word) >> 16 & 0xffff))
#define GENERATION(word)   ((uint32_t)((word) >> 32))

/* The data that the tasks of one launch share, on the leader's stack. */
typedef struct Group {
  BpParallelGroup view; /* passed to the tasks; its sync_handle points here */
  BpParallelTask task;
  void *data;
  int64_t spin_ns;
  int is_concurrent; /* every task runs in a thread of its own */
  _Atomic(BpError *) error;
  atomic_int has_failed;
  /* The barrier. */
  _Atomic uint32_t arrived;
  _Atomic uint32_t phase;    /* number of times that all tasks have arrived */
  _Atomic uint32_t ended;    /* tasks that have returned */
  _Atomic uint32_t sleepers; /* tasks that sleep at the barrier */
  _Atomic uint32_t bell;     /* the futex on which tasks sleep */
} Group;

/* Tasks [next, end) of one thread, in a cache line of its own. */
typedef struct Range {
  _Alignas(64) _Atomic int64_t next;
  int64_t end;
} Range;

typedef struct Worker {
  _Alignas(64) _Atomic uint32_t is_asleep; /* a futex */
  Team *team;
  int index; /* index of the thread, from 1; the leader is 0 */
  pthread_t thread;
} Worker;

struct Team {
  _Alignas(64) _Atomic uint64_t word;
  _Alignas(64) _Atomic uint32_t leader_is_asleep; /* a futex */
  int wanted;                                     /* the requested number of threads */
  int threads;                                    /* the existing threads, including the leader */
  int64_t spin_ns;
  atomic_int stops;
  Group *group;
  Range *ranges;
  Worker *workers; /* [0] is unused */
};

static _Thread_local int in_task;

int bp__team_in_task(void) {
  return in_task;
}

int bp__team_threads(const Team *team) {
  return team->wanted;
}

/* ---- Tasks ------------------------------------------------------------------------------- */

static void keep_error(Group *group, int index) {
  if (!*bp_error_kind())
    bp_error_raise(BP_ERROR_RUNTIME, "task %d of a parallel launch failed without saying why",
                   index);
  BpError *none = NULL, *error = bp_error_take();
  if (!atomic_compare_exchange_strong(&group->error, &none, error))
    bp_object_release(error);
  atomic_store(&group->has_failed, 1);
}

static void ring_bell(Group *group) {
  if (!atomic_load(&group->sleepers))
    return;
  atomic_fetch_add(&group->bell, 1);
  bp__futex_wake_all(&group->bell);
}

static void run_task(Group *group, int index) {
  if (!atomic_load_explicit(&group->has_failed, memory_order_relaxed) &&
      group->task(index, &group->view, group->data))
    keep_error(group, index);
  if (group->view.num_task > 1) {
    atomic_fetch_add(&group->ended, 1);
    ring_bell(group);
  }
}

/* Takes the next task of a range; -1 if it is empty. */
static int64_t claim(Range *range) {
  if (atomic_load_explicit(&range->next, memory_order_relaxed) >= range->end)
    return -1;
  int64_t index = atomic_fetch_add_explicit(&range->next, 1, memory_order_relaxed);
  return index < range->end ? index : -1;
}

/* Runs this thread's range, then the remaining tasks of others. */
static void run_tasks(Team *team, int self, int participants) {
  in_task = 1;
  for (int i = 0; i < participants; i++) {
    Range *range = &team->ranges[(self + i) % participants];
    for (int64_t index; (index = claim(range)) >= 0;)
      run_task(team->group, (int)index);
  }
  in_task = 0;
}

/* ---- The barrier ------------------------------------------------------------------------- */

/* Returns 1 if all tasks have arrived; -1 if a task ended and will not arrive; 0 otherwise. */
static int look_at_barrier(Group *group, uint32_t phase) {
  if (atomic_load(&group->phase) != phase)
    return 1;
  if (!atomic_load(&group->ended))
    return 0;
  /* A task that passed this barrier may have ended since. */
  return atomic_load(&group->phase) != phase ? 1 : -1;
}

static int wait_at_barrier(Group *group, uint32_t phase) {
  Spin spin = {.limit_ns = group->spin_ns};
  int state;
  while (!(state = look_at_barrier(group, phase)) && bp__spin_on(&spin)) {
  }
  if (!state) {
    atomic_fetch_add(&group->sleepers, 1);
    for (;;) {
      uint32_t bell = atomic_load(&group->bell);
      state = look_at_barrier(group, phase);
      if (state)
        break;
      bp__futex_wait(&group->bell, bell);
    }
    atomic_fetch_sub(&group->sleepers, 1);
  }
  return state;
}

int bp_parallel_barrier(int32_t task_id, BpParallelGroup *view) {
  if (!view || !view->sync_handle)
    return bp_error_raise(BP_ERROR_VALUE, "a barrier was called outside of a parallel launch");
  Group *group = view->sync_handle;
  uint32_t num_task = (uint32_t)group->view.num_task;
  if (num_task == 1)
    return 0;
  if (!group->is_concurrent)
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "task %d of %u calls a barrier, but the tasks do not all run at the same "
                          "time; launch at most num_threads() tasks, and not from within a task",
                          task_id, num_task);
  uint32_t phase = atomic_load(&group->phase);
  if (atomic_fetch_add(&group->arrived, 1) + 1 == num_task) {
    atomic_store(&group->arrived, 0);
    atomic_fetch_add(&group->phase, 1);
    ring_bell(group);
    return 0;
  }
  if (wait_at_barrier(group, phase) > 0)
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME,
                        "task %d waits at a barrier that another of the %u tasks never reached",
                        task_id, num_task);
}

/* ---- Workers ----------------------------------------------------------------------------- */

/* Waits for a generation other than `seen`. */
static uint32_t wait_for_generation(Worker *worker, uint32_t seen) {
  Team *team = worker->team;
  Spin spin = {.limit_ns = team->spin_ns};
  uint32_t now;
  while ((now = GENERATION(atomic_load(&team->word))) == seen && bp__spin_on(&spin)) {
  }
  while (now == seen) {
    atomic_store(&worker->is_asleep, 1);
    now = GENERATION(atomic_load(&team->word));
    if (now == seen)
      bp__futex_wait(&worker->is_asleep, 1);
  }
  atomic_store(&worker->is_asleep, 0);
  return now;
}

/* Returns whether the worker could enter `generation`. */
static int enter(Team *team, int index, uint32_t generation) {
  uint64_t word = atomic_load(&team->word);
  while (GENERATION(word) == generation && (word & OPEN) && index < PARTICIPANTS(word))
    if (atomic_compare_exchange_weak(&team->word, &word, word + INSIDE_ONE))
      return 1;
  return 0;
}

static void leave(Team *team) {
  uint64_t before = atomic_fetch_sub(&team->word, INSIDE_ONE);
  if ((before & OPEN) || INSIDE(before) != 1 || !atomic_load(&team->leader_is_asleep))
    return;
  atomic_store(&team->leader_is_asleep, 0);
  bp__futex_wake_all(&team->leader_is_asleep);
}

static void *run_worker(void *argument) {
  Worker *worker = argument;
  Team *team = worker->team;
  bp__flush_begin();
  for (uint32_t generation = 0;;) {
    generation = wait_for_generation(worker, generation);
    if (atomic_load(&team->stops))
      return NULL;
    if (!enter(team, worker->index, generation))
      continue;
    run_tasks(team, worker->index, PARTICIPANTS(atomic_load(&team->word)));
    leave(team);
  }
}

/* Signals are for the application's threads: workers block all of them. */
static int start_worker(Team *team, int index) {
  Worker *worker = &team->workers[index];
  sigset_t all, before;
  char name[16];
  worker->team = team;
  worker->index = index;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&worker->thread, NULL, run_worker, worker);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error)
    return error;
  snprintf(name, sizeof name, "backplane-%d", index);
  pthread_setname_np(worker->thread, name);
  return 0;
}

Team *bp__team_create(int threads, int spins) {
  Team *team = aligned_alloc(_Alignof(Team), sizeof *team);
  Range *ranges = aligned_alloc(_Alignof(Range), (size_t)threads * sizeof *ranges);
  Worker *workers = aligned_alloc(_Alignof(Worker), (size_t)threads * sizeof *workers);
  if (!team || !ranges || !workers) {
    free(team);
    free(ranges);
    free(workers);
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a pool of %d threads", threads);
    return NULL;
  }
  memset(team, 0, sizeof *team);
  memset(ranges, 0, (size_t)threads * sizeof *ranges);
  memset(workers, 0, (size_t)threads * sizeof *workers);
  team->wanted = threads;
  team->spin_ns = spins ? SPIN_NS : 0;
  team->ranges = ranges;
  team->workers = workers;
  for (team->threads = 1; team->threads < threads; team->threads++) {
    int error = start_worker(team, team->threads);
    if (!error)
      continue;
    bp__log(BP_LOG_WARNING, "only %d of %d threads could be started: %s", team->threads, threads,
            strerror(error));
    break;
  }
  return team;
}

static void wake_workers(Team *team, int participants) {
  for (int i = 1; i < participants; i++) {
    Worker *worker = &team->workers[i];
    if (!atomic_load(&worker->is_asleep))
      continue;
    atomic_store(&worker->is_asleep, 0);
    bp__futex_wake_all(&worker->is_asleep);
  }
}

static uint32_t next_generation(const Team *team) {
  return GENERATION(atomic_load_explicit(&team->word, memory_order_relaxed)) + 1;
}

void bp__team_destroy(Team *team) {
  atomic_store(&team->stops, 1);
  atomic_store(&team->word, (uint64_t)next_generation(team) << 32);
  wake_workers(team, team->threads);
  for (int i = 1; i < team->threads; i++)
    pthread_join(team->workers[i].thread, NULL);
  free(team->ranges);
  free(team->workers);
  free(team);
}

/* ---- Launches ---------------------------------------------------------------------------- */

static void deal_tasks(Team *team, int participants) {
  int64_t num_task = team->group->view.num_task;
  for (int i = 0; i < participants; i++) {
    Range *range = &team->ranges[i];
    atomic_store_explicit(&range->next, num_task * i / participants, memory_order_relaxed);
    range->end = num_task * (i + 1) / participants;
  }
}

static void wait_for_workers(Team *team) {
  Spin spin = {.limit_ns = team->spin_ns};
  while (INSIDE(atomic_load(&team->word)) && bp__spin_on(&spin)) {
  }
  while (INSIDE(atomic_load(&team->word))) {
    atomic_store(&team->leader_is_asleep, 1);
    if (INSIDE(atomic_load(&team->word)))
      bp__futex_wait(&team->leader_is_asleep, 1);
  }
  atomic_store_explicit(&team->leader_is_asleep, 0, memory_order_relaxed);
}

static void run_on_team(Team *team, Group *group) {
  int participants = group->view.num_task < team->threads ? group->view.num_task : team->threads;
  team->group = group;
  deal_tasks(team, participants);
  atomic_store(&team->word, (uint64_t)next_generation(team) << 32 |
                                (uint64_t)(unsigned)participants << 16 | OPEN);
  wake_workers(team, participants);
  run_tasks(team, 0, participants);
  atomic_fetch_and(&team->word, ~OPEN);
  wait_for_workers(team);
}

/* Within a task of a larger group the thread's state stays; the single task of a group may itself
 * launch one. */
static void run_here(Group *group) {
  int before = in_task;
  in_task = before || group->view.num_task > 1;
  for (int i = 0; i < group->view.num_task; i++)
    run_task(group, i);
  in_task = before;
}

int bp__team_run(Team *team, BpParallelTask task, void *data, int num_task) {
  int threads = team ? team->threads : 1;
  Group group = {.task = task, .data = data, .spin_ns = team ? team->spin_ns : 0};
  group.view = (BpParallelGroup){&group, num_task ? num_task : threads};
  group.is_concurrent = group.view.num_task <= threads;
  uint64_t flush = bp__flush_begin();
  if (threads == 1 || group.view.num_task == 1)
    run_here(&group);
  else
    run_on_team(team, &group);
  bp__flush_end(flush);
  BpError *error = atomic_load(&group.error);
  if (!error)
    return atomic_load(&group.has_failed) ? -1 : 0;
  bp_error_put(error);
  return -1;
}
