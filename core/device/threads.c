/* SPDX-License-Identifier: Apache-2.0 */
/* The host's threads.
 *
 * A launch takes an idle team of threads or makes one. So launches of several application threads
 * run at the same time without waiting for each other, and no lock is held while tasks run.
 *
 * Each launch of a team is a generation, published in one 64-bit word: the generation's number, the
 * number of threads that take part, the number of workers inside it now, and whether it may still
 * be entered. A worker that sees a new generation enters it by compare-and-swap, runs tasks until
 * there are no more, and leaves. The leader also runs tasks, then closes the generation, and waits
 * until no worker is inside. So a launch does not wait for an idle or late thread: other threads
 * run its tasks.
 *
 * Tasks are divided into ranges, one for each thread, and each thread runs its own range first. So
 * a task index runs on the same core in every launch, and the core has the task's data in its
 * caches. Idle workers spin for a while, then sleep on a futex of their own, and end after some
 * seconds: a process ends when its last thread has ended. The next launch replaces ended
 * workers. */

#include "core/registry/log.h"
#include "core/system/env.h"
#include "core/system/lock.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/host_api.h>
#include <backplane/object.h>
#include <errno.h>
#include <glib.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 1024

/* ---- Denormal floats --------------------------------------------------------------------- */

/* Arithmetic on denormals is up to 150 times slower: they are flushed to zero, as results and as
 * operands, in the calling thread. flush_begin returns the state that flush_end restores.
 */
static uint64_t flush_begin(void) {
#if defined(__x86_64__)
  uint32_t before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040); /* FTZ, DAZ */
  return before;
#elif defined(__aarch64__)
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" ::"r"(before | 1u << 24)); /* FZ */
  return before;
#else
  return 0;
#endif
}

static void flush_end(uint64_t before) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((uint32_t)before);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"(before));
#else
  (void)before;
#endif
}

/* ---- Waiting: a bounded spin, then the kernel's futex ------------------------------------ */

/* Sleeps while *word is `value`; may return early without a wake-up. `limit`: NULL, or the longest
 * time. Returns 0 if that time has passed. */
static int futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *limit) {
  return !syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit, NULL, 0) || errno != ETIMEDOUT;
}

/* Wakes all threads that sleep on `word`. */
static void futex_wake_all(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Tells the CPU that this is a spin loop. */
static void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield" ::: "memory");
#else
  __asm__ volatile("" ::: "memory");
#endif
}

/* A bounded spin: `while (!condition && spin_on(&spin)) {}`. `limit_ns` 0 does not spin. */
typedef struct Spin {
  int64_t limit_ns;
  int64_t end_ns; /* 0 before the clock is first read */
  unsigned turns;
} Spin;

static int spin_on(Spin *spin) {
  enum { TURNS_PER_LOOK = 32 }; /* reading the clock costs as much as a few turns */
  if (!spin->limit_ns)
    return 0;
  cpu_relax();
  if (++spin->turns % TURNS_PER_LOOK)
    return 1;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  if (!spin->end_ns)
    spin->end_ns = now_ns + spin->limit_ns;
  return now_ns < spin->end_ns;
}

/* ---- Teams ------------------------------------------------------------------------------- */

/* How long a thread spins before it sleeps. The time between consecutive launches of one model is
 * shorter. */
#define SPIN_NS 50000

/* How long a worker sleeps before its thread ends. */
#define IDLE_SECONDS 5

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

typedef struct Team Team;

/* States of a worker. */
enum { AWAKE, ASLEEP, ENDED };

typedef struct Worker {
  _Alignas(64) _Atomic uint32_t state; /* a futex */
  Team *team;
  int index;      /* index of the thread, from 1; the leader is 0 */
  int has_thread; /* `thread` has to be joined */
  pthread_t thread;
} Worker;

struct Team {
  _Alignas(64) _Atomic uint64_t word;
  _Alignas(64) _Atomic uint32_t leader_is_asleep; /* a futex */
  int wanted;                                     /* the requested number of threads */
  int threads;                                    /* the existing threads, including the leader */
  int64_t spin_ns;
  atomic_int stops;
  atomic_int is_taken; /* a launch has the team: its workers do not end */
  Group *group;
  Range *ranges;
  Worker *workers; /* [0] is unused */
};

/* This thread runs a task of a group with several tasks. */
static _Thread_local int in_task;

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
  futex_wake_all(&group->bell);
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
  /* A task that passed the barrier may have ended since. */
  return atomic_load(&group->phase) != phase ? 1 : -1;
}

static int wait_at_barrier(Group *group, uint32_t phase) {
  Spin spin = {.limit_ns = group->spin_ns};
  int state;
  while (!(state = look_at_barrier(group, phase)) && spin_on(&spin)) {
  }
  if (!state) {
    atomic_fetch_add(&group->sleepers, 1);
    for (;;) {
      uint32_t bell = atomic_load(&group->bell);
      state = look_at_barrier(group, phase);
      if (state)
        break;
      futex_wait(&group->bell, bell, NULL);
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

/* Ends a sleeping worker, unless a launch has the team; returns whether the thread has to end. A
 * launch first takes the team and then looks for ended workers, so at least one of them sees the
 * other. */
static int retire(Worker *worker) {
  uint32_t state = ASLEEP;
  if (!atomic_compare_exchange_strong(&worker->state, &state, ENDED))
    return 0;
  if (!atomic_load(&worker->team->is_taken))
    return 1;
  state = ENDED;
  return !atomic_compare_exchange_strong(&worker->state, &state, ASLEEP);
}

/* Waits for a generation other than *seen, which becomes *seen. Returns 0 if the thread has to
 * end. */
static int wait_for_generation(Worker *worker, uint32_t *seen) {
  static const struct timespec idle_time = {IDLE_SECONDS, 0};
  Team *team = worker->team;
  Spin spin = {.limit_ns = team->spin_ns};
  uint32_t now;
  while ((now = GENERATION(atomic_load(&team->word))) == *seen && spin_on(&spin)) {
  }
  while (now == *seen) {
    atomic_store(&worker->state, ASLEEP);
    now = GENERATION(atomic_load(&team->word));
    if (now == *seen && !futex_wait(&worker->state, ASLEEP, &idle_time) && retire(worker))
      return 0;
  }
  atomic_store(&worker->state, AWAKE);
  *seen = now;
  return 1;
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
  futex_wake_all(&team->leader_is_asleep);
}

static void *run_worker(void *argument) {
  Worker *worker = argument;
  Team *team = worker->team;
  flush_begin();
  for (uint32_t generation = 0;;) {
    if (!wait_for_generation(worker, &generation) || atomic_load(&team->stops))
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
  worker->has_thread = !error;
  if (error)
    return error;
  snprintf(name, sizeof name, "backplane-%d", index);
  pthread_setname_np(worker->thread, name);
  return 0;
}

/* Makes a team of `threads` (2..THREADS_MAX) including the leader; `spins` says whether its threads
 * spin while they wait (transfer full). If the system refuses to create threads, the team has
 * fewer, which is logged. NULL with an error: no memory. */
static Team *create_team(int threads, int spins) {
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
  team->is_taken = 1;
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
    uint32_t state = ASLEEP;
    if (atomic_load(&worker->state) == ASLEEP &&
        atomic_compare_exchange_strong(&worker->state, &state, AWAKE))
      futex_wake_all(&worker->state);
  }
}

static uint32_t next_generation(const Team *team) {
  return GENERATION(atomic_load_explicit(&team->word, memory_order_relaxed)) + 1;
}

/* Ends the workers of an idle team and frees the team. */
static void destroy_team(Team *team) {
  atomic_store(&team->stops, 1);
  atomic_store(&team->word, (uint64_t)next_generation(team) << 32);
  wake_workers(team, team->threads);
  for (int i = 1; i < team->threads; i++)
    if (team->workers[i].has_thread)
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
  while (INSIDE(atomic_load(&team->word)) && spin_on(&spin)) {
  }
  while (INSIDE(atomic_load(&team->word))) {
    atomic_store(&team->leader_is_asleep, 1);
    if (INSIDE(atomic_load(&team->word)))
      futex_wait(&team->leader_is_asleep, 1, NULL);
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
 * launch a group. */
static void run_here(Group *group) {
  int before = in_task;
  in_task = before || group->view.num_task > 1;
  for (int i = 0; i < group->view.num_task; i++)
    run_task(group, i);
  in_task = before;
}

/* Runs task(0..num_task-1) on this thread and the team's, and waits; num_task 0 means one task for
 * each thread. If `team` is NULL, this thread runs all tasks in order. Fails with the error of the
 * first task that fails; tasks that have not begun before the failure are skipped. */
static int run_group(Team *team, BpParallelTask task, void *data, int num_task) {
  int threads = team ? team->threads : 1;
  Group group = {.task = task, .data = data, .spin_ns = team ? team->spin_ns : 0};
  group.view = (BpParallelGroup){&group, num_task ? num_task : threads};
  group.is_concurrent = group.view.num_task <= threads;
  uint64_t flush = flush_begin();
  if (threads == 1 || group.view.num_task == 1)
    run_here(&group);
  else
    run_on_team(team, &group);
  flush_end(flush);
  BpError *error = atomic_load(&group.error);
  if (!error)
    return atomic_load(&group.has_failed) ? -1 : 0;
  bp_error_put(error);
  return -1;
}

/* ---- The pool ---------------------------------------------------------------------------- */

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
  if (fields != 2 || quota <= 0 || period <= 0 || quota / period >= THREADS_MAX)
    return INT32_MAX;
  return (int32_t)((quota + period - 1) / period);
}

static int32_t usable_cores(void) {
  cpu_set_t cores;
  int32_t count = sched_getaffinity(0, sizeof cores, &cores) ? 1 : CPU_COUNT(&cores);
  int32_t limit = cgroup_limit();
  return CLAMP(MIN(count, limit), 1, THREADS_MAX);
}

static int32_t initial_count(void) {
  const char *text = bp__env_get("BACKPLANE_NUM_THREADS");
  guint64 count;
  if (!text)
    return usable_cores();
  if (g_ascii_string_to_unsigned(text, 10, 1, THREADS_MAX, &count, NULL))
    return (int32_t)count;
  bp__log(BP_LOG_WARNING, "BACKPLANE_NUM_THREADS is \"%s\", not a number from 1 to %d; ignored",
          text, THREADS_MAX);
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

/* ---- Idle teams -------------------------------------------------------------------------------
 */

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

/* Takes an idle team for a launch, with a new thread for each ended worker. Returns 0 if a thread
 * could not be started. */
static int restart(Team *team) {
  atomic_store(&team->is_taken, 1);
  for (int i = 1; i < team->threads; i++) {
    Worker *worker = &team->workers[i];
    uint32_t state = ENDED;
    if (atomic_load(&worker->state) != ENDED ||
        !atomic_compare_exchange_strong(&worker->state, &state, AWAKE))
      continue;
    pthread_join(worker->thread, NULL);
    if (start_worker(team, i))
      return 0;
  }
  return 1;
}

static Team *take_team(int threads) {
  for (Team *team; (team = pop_idle());) {
    if (team->wanted == threads && restart(team))
      return team;
    destroy_team(team);
  }
  watch_forks();
  return create_team(threads, threads <= usable_cores());
}

static void give_back_team(Team *team) {
  Team *none = NULL;
  atomic_store(&team->is_taken, 0);
  if (atomic_compare_exchange_strong(&ready, &none, team))
    return;
  bp__lock(BP__LOCK_STATE);
  if (!idle)
    idle = g_ptr_array_new();
  g_ptr_array_add(idle, team);
  bp__unlock(BP__LOCK_STATE);
}

int bp_threads_set(int32_t count) {
  if (count < 1 || count > THREADS_MAX)
    return bp_error_raise(BP_ERROR_VALUE, "%d threads; 1 to %d are possible", count, THREADS_MAX);
  atomic_store(&num_threads, count);
  for (Team *team; !atomic_load(&is_lost) && (team = pop_idle());)
    destroy_team(team);
  return 0;
}

int bp_parallel_launch(BpParallelTask task, void *data, int32_t num_task) {
  if (!task || num_task < 0)
    return bp_error_raise(BP_ERROR_VALUE,
                          "a parallel launch needs a task and a number of tasks that is not "
                          "negative");
  int threads = bp_threads_get();
  if (in_task || threads == 1 || num_task == 1)
    return run_group(NULL, task, data, num_task);
  if (atomic_load_explicit(&is_lost, memory_order_relaxed))
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "the host's threads stayed behind in the process that forked this one; "
                          "fork before the first use, or start a new program instead");
  Team *team = take_team(threads);
  if (!team)
    return -1;
  int rc = run_group(team, task, data, num_task);
  give_back_team(team);
  return rc;
}
