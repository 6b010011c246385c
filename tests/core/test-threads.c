/* SPDX-License-Identifier: Apache-2.0 */
/* The host's thread pool: launches, barriers, errors, several launchers at once, forks. */

#include "tests/process_usage.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <glib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS_MAX 4096

typedef struct Counts {
  atomic_int runs[TASKS_MAX];
  atomic_int num_task;
} Counts;

static int count_task(int index, BpParallelGroup *group, void *data) {
  Counts *counts = data;
  atomic_store(&counts->num_task, group->num_task);
  atomic_fetch_add(&counts->runs[index], 1);
  return 0;
}

static void check_each_once(Counts *counts, int num_task) {
  for (int i = 0; i < TASKS_MAX; i++)
    g_assert_cmpint(counts->runs[i], ==, i < num_task);
}

static int call_barrier(int index, BpParallelGroup *group, void *data) {
  (void)data;
  return bp_parallel_barrier(index, group);
}

static void test_every_task_runs_once(void) {
  static const int sizes[] = {1, 2, 3, 7, 64, TASKS_MAX};
  for (int threads = 1; threads <= 5; threads++) {
    g_assert_cmpint(bp_threads_set(threads), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
      g_autofree Counts *counts = g_new0(Counts, 1);
      g_assert_cmpint(bp_parallel_launch(count_task, counts, sizes[i]), ==, 0);
      check_each_once(counts, sizes[i]);
      g_assert_cmpint(counts->num_task, ==, sizes[i]);
    }
  }
}

static void test_zero_tasks_means_one_task_for_each_thread(void) {
  for (int threads = 1; threads <= 4; threads++) {
    g_autofree Counts *counts = g_new0(Counts, 1);
    g_assert_cmpint(bp_threads_set(threads), ==, 0);
    g_assert_cmpint(bp_threads_get(), ==, threads);
    g_assert_cmpint(bp_parallel_launch(count_task, counts, 0), ==, 0);
    check_each_once(counts, threads);
  }
}

static void test_threads_survive_sleeping(void) {
  g_assert_cmpint(bp_threads_set(3), ==, 0);
  for (int i = 0; i < 20; i++) {
    g_autofree Counts *counts = g_new0(Counts, 1);
    g_assert_cmpint(bp_parallel_launch(count_task, counts, 9), ==, 0);
    check_each_once(counts, 9);
    g_usleep(i % 4 * 300);
  }
}

static void test_bad_arguments_are_errors(void) {
  g_assert_cmpint(bp_parallel_launch(NULL, NULL, 1), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_cmpint(bp_parallel_launch(count_task, NULL, -1), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_cmpint(bp_threads_set(0), ==, -1);
  g_assert_cmpint(bp_threads_set(1025), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
}

/* ---- Errors ------------------------------------------------------------------------------ */

static int fail_one(int index, BpParallelGroup *group, void *data) {
  (void)group;
  if (index == GPOINTER_TO_INT(data))
    return bp_error_raise(BP_ERROR_INDEX, "task %d is the one", index);
  return 0;
}

static int fail_silently(int index, BpParallelGroup *group, void *data) {
  (void)group;
  (void)data;
  return index == 1 ? -1 : 0;
}

static void test_error_of_a_task_reaches_the_caller(void) {
  for (int threads = 1; threads <= 4; threads++) {
    g_assert_cmpint(bp_threads_set(threads), ==, 0);
    for (int failing = 0; failing < 6; failing++) {
      g_assert_cmpint(bp_parallel_launch(fail_one, GINT_TO_POINTER(failing), 6), ==, -1);
      g_assert_true(bp_error_is(BP_ERROR_INDEX));
      g_autofree char *expected = g_strdup_printf("task %d is the one", failing);
      g_assert_cmpstr(bp_error_message(), ==, expected);
      bp_error_clear();
    }
    g_assert_cmpint(bp_parallel_launch(fail_one, GINT_TO_POINTER(-1), 6), ==, 0);
  }
}

static void test_failure_without_an_error_has_one(void) {
  g_assert_cmpint(bp_threads_set(2), ==, 0);
  g_assert_cmpint(bp_parallel_launch(fail_silently, NULL, 2), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "task 1"));
  bp_error_clear();
}

/* ---- Nesting ----------------------------------------------------------------------------- */

static int launch_within(int index, BpParallelGroup *group, void *data) {
  Counts *counts = data;
  (void)index;
  (void)group;
  return bp_parallel_launch(count_task, counts, 10);
}

static void test_launch_within_a_task_runs_inline(void) {
  g_autofree Counts *counts = g_new0(Counts, 1);
  g_assert_cmpint(bp_threads_set(3), ==, 0);
  g_assert_cmpint(bp_parallel_launch(launch_within, counts, 3), ==, 0);
  for (int i = 0; i < 10; i++)
    g_assert_cmpint(counts->runs[i], ==, 3);
}

/* Whether each task of a group has a thread of its own. */
static int launch_group(int index, BpParallelGroup *group, void *data) {
  (void)index;
  (void)group;
  return bp_parallel_launch(data ? launch_group : call_barrier, NULL, data ? 1 : 3);
}

static void test_a_single_task_may_launch_a_group(void) {
  g_assert_cmpint(bp_threads_set(3), ==, 0);
  for (int i = 0; i < 20; i++)
    g_assert_cmpint(bp_parallel_launch(launch_group, &i, 1), ==, 0);
}

/* ---- Barriers ---------------------------------------------------------------------------- */

#define ROUNDS 200

typedef struct Rounds {
  atomic_int arrived[ROUNDS];
  int delay_us;
} Rounds;

static int meet(int index, BpParallelGroup *group, void *data) {
  Rounds *rounds = data;
  for (int i = 0; i < ROUNDS; i++) {
    if (rounds->delay_us && index == i % group->num_task && i % 50 == 0)
      g_usleep((gulong)rounds->delay_us);
    atomic_fetch_add(&rounds->arrived[i], 1);
    if (bp_parallel_barrier(index, group))
      return -1;
    if (rounds->arrived[i] != group->num_task)
      return bp_error_raise(BP_ERROR_RUNTIME, "round %d: %d of %d are there", i, rounds->arrived[i],
                            group->num_task);
  }
  return 0;
}

static void test_barrier_waits_for_all(void) {
  for (int threads = 1; threads <= 4; threads++)
    for (int delay_us = 0; delay_us <= 200; delay_us += 200) {
      g_autofree Rounds *rounds = g_new0(Rounds, 1);
      rounds->delay_us = delay_us;
      g_assert_cmpint(bp_threads_set(threads), ==, 0);
      int rc = bp_parallel_launch(meet, rounds, 0);
      g_assert_cmpstr(bp_error_message(), ==, "");
      g_assert_cmpint(rc, ==, 0);
    }
}

static int launch_barrier_within(int index, BpParallelGroup *group, void *data) {
  (void)index;
  (void)group;
  return bp_parallel_launch(call_barrier, data, 2);
}

static void test_barrier_without_a_thread_for_each_task_is_an_error(void) {
  g_assert_cmpint(bp_threads_set(2), ==, 0);
  g_assert_cmpint(bp_parallel_launch(call_barrier, NULL, 3), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "do not all run at the same time"));
  g_assert_cmpint(bp_parallel_launch(launch_barrier_within, NULL, 2), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "do not all run at the same time"));
  g_assert_cmpint(bp_threads_set(1), ==, 0);
  g_assert_cmpint(bp_parallel_launch(call_barrier, NULL, 2), ==, -1);
  g_assert_cmpint(bp_parallel_barrier(0, NULL), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
}

static int miss_barrier(int index, BpParallelGroup *group, void *data) {
  if (index == 1 && data)
    return bp_error_raise(BP_ERROR_INDEX, "task 1 gives up");
  return index == 1 ? 0 : bp_parallel_barrier(index, group);
}

static void test_barrier_that_a_task_never_reaches_is_an_error(void) {
  for (int i = 0; i < 50; i++) {
    g_assert_cmpint(bp_threads_set(3), ==, 0);
    g_assert_cmpint(bp_parallel_launch(miss_barrier, NULL, 3), ==, -1);
    g_assert_nonnull(strstr(bp_error_message(), "never reached"));
    g_assert_cmpint(bp_parallel_launch(miss_barrier, &i, 3), ==, -1);
    g_assert_cmpstr(bp_error_message(), ==, "task 1 gives up");
    bp_error_clear();
  }
}

/* ---- Several launchers ------------------------------------------------------------------- */

static void *launch_often(void *data) {
  (void)data;
  for (int i = 0; i < 300; i++) {
    g_autofree Counts *counts = g_new0(Counts, 1);
    g_assert_cmpint(bp_parallel_launch(count_task, counts, 5), ==, 0);
    check_each_once(counts, 5);
  }
  return NULL;
}

static void test_several_threads_launch_at_once(void) {
  pthread_t launchers[6];
  g_assert_cmpint(bp_threads_set(2), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(launchers); i++)
    g_assert_cmpint(pthread_create(&launchers[i], NULL, launch_often, NULL), ==, 0);
  for (int i = 0; i < 50; i++)
    g_assert_cmpint(bp_threads_set(2 + i % 2), ==, 0);
  for (size_t i = 0; i < G_N_ELEMENTS(launchers); i++)
    g_assert_cmpint(pthread_join(launchers[i], NULL), ==, 0);
}

/* ---- Floating point ---------------------------------------------------------------------- */

static int halve(int index, BpParallelGroup *group, void *data) {
  volatile float *values = data;
  (void)group;
  values[index] *= 0.5f;
  return 0;
}

static void test_tasks_flush_denormals_and_the_caller_does_not(void) {
#if defined(__x86_64__) || defined(__aarch64__)
  for (int threads = 1; threads <= 3; threads++) {
    volatile float values[3] = {1.2e-38f, 1.2e-38f, 1.2e-38f};
    g_assert_cmpint(bp_threads_set(threads), ==, 0);
    g_assert_cmpint(bp_parallel_launch(halve, (void *)(uintptr_t)values, 3), ==, 0);
    for (int i = 0; i < 3; i++)
      g_assert_true(values[i] == 0);
    values[0] = 1.2e-38f;
    values[0] *= 0.5f;
    g_assert_true(values[0] != 0);
  }
#else
  g_test_skip("this CPU is not told to flush denormals");
#endif
}

/* ---- Idle threads ------------------------------------------------------------------------ */

/* ---- Forks ------------------------------------------------------------------------------- */

/* Launches in a child process; returns its exit status: 1 if the launch failed, else 0. */
static int launch_in_child(void) {
  pid_t child = fork();
  if (child == 0)
    _exit(bp_parallel_launch(fail_one, GINT_TO_POINTER(-1), 4) ? 1 : 0);
  int status;
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void test_child_of_a_fork_gets_an_error_and_no_hang(void) {
  if (g_test_subprocess()) {
    g_assert_cmpint(bp_threads_set(2), ==, 0);
    g_assert_cmpint(launch_in_child(), ==, 0);
    g_assert_cmpint(bp_parallel_launch(fail_one, GINT_TO_POINTER(-1), 4), ==, 0);
    g_assert_cmpint(launch_in_child(), ==, 1);
    g_assert_cmpint(bp_parallel_launch(fail_one, GINT_TO_POINTER(-1), 4), ==, 0);
    return;
  }
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed();
}

/* A child whose main thread ends after a launch must end, too, with or without a signal. Its end of
 * the pipe is closed when the main thread is about to end. */
#ifndef __SANITIZE_THREAD__
static void end_main_thread(int is_terminated) {
  int ends[2], status = 0;
  char none;
  g_assert_cmpint(pipe(ends), ==, 0);
  pid_t child = fork(), ended = 0;
  if (child == 0) {
    bp_parallel_launch(fail_one, GINT_TO_POINTER(-1), 4);
    sigset_t terminate; /* the main thread does not take the signal */
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &terminate, NULL);
    close(ends[0]);
    close(ends[1]);
    pthread_exit(NULL);
  }
  close(ends[1]);
  g_assert_cmpint(read(ends[0], &none, 1), ==, 0);
  close(ends[0]);
  if (is_terminated)
    kill(child, SIGTERM);
  gint64 end = g_get_monotonic_time() + 60 * G_TIME_SPAN_SECOND;
  while (!(ended = waitpid(child, &status, WNOHANG)) && g_get_monotonic_time() < end)
    g_usleep(10000);
  if (!ended)
    kill(child, SIGKILL);
  g_assert_cmpint(ended, ==, child);
  g_assert_true(WIFEXITED(status));
}
#endif

/* Idle threads end, and the next launch replaces them. */
static void test_idle_threads_keep_no_process(void) {
  if (g_test_subprocess()) {
    g_assert_cmpint(bp_threads_set(3), ==, 0);
#ifndef __SANITIZE_THREAD__ /* it has a thread of its own, which does not end */
    end_main_thread(0);
    end_main_thread(1);
#endif
    int most = 0; /* with those of a sanitizer */
    for (int i = 0; i < 2; i++) {
      g_autofree Rounds *rounds = g_new0(Rounds, 1);
      g_assert_cmpint(bp_parallel_launch(meet, rounds, 0), ==, 0);
      most = i == 0 ? count_threads() : most;
      g_assert_cmpint(most, >=, 3);
      g_assert_cmpint(count_threads(), ==, most);
      for (int tenths = 0; count_threads() > most - 2 && tenths < 600; tenths++)
        g_usleep(100000);
      g_assert_cmpint(count_threads(), ==, most - 2);
    }
    return;
  }
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed();
}

static void test_number_of_threads_is_read_from_the_environment(void) {
  if (g_test_subprocess()) {
    g_setenv("BACKPLANE_NUM_THREADS", "3", TRUE);
    g_assert_cmpint(bp_threads_get(), ==, 3);
    return;
  }
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/threads/launch/every-task-runs-once", test_every_task_runs_once);
  g_test_add_func("/threads/launch/zero-tasks-means-one-task-for-each-thread",
                  test_zero_tasks_means_one_task_for_each_thread);
  g_test_add_func("/threads/launch/threads-survive-sleeping", test_threads_survive_sleeping);
  g_test_add_func("/threads/launch/bad-arguments-are-errors", test_bad_arguments_are_errors);
  g_test_add_func("/threads/error/of-a-task-reaches-the-caller",
                  test_error_of_a_task_reaches_the_caller);
  g_test_add_func("/threads/error/failure-of-a-task-without-an-error-is-an-error",
                  test_failure_without_an_error_has_one);
  g_test_add_func("/threads/nesting/launch-within-a-task-runs-inline",
                  test_launch_within_a_task_runs_inline);
  g_test_add_func("/threads/nesting/a-single-task-may-launch-a-group",
                  test_a_single_task_may_launch_a_group);
  g_test_add_func("/threads/barrier/waits-for-all", test_barrier_waits_for_all);
  g_test_add_func("/threads/barrier/without-a-thread-for-each-task-is-an-error",
                  test_barrier_without_a_thread_for_each_task_is_an_error);
  g_test_add_func("/threads/barrier/that-a-task-never-reaches-is-an-error",
                  test_barrier_that_a_task_never_reaches_is_an_error);
  g_test_add_func("/threads/several-threads-launch-at-once", test_several_threads_launch_at_once);
  g_test_add_func("/threads/tasks-flush-denormals-and-the-caller-does-not",
                  test_tasks_flush_denormals_and_the_caller_does_not);
  g_test_add_func("/threads/fork/child-gets-an-error-and-no-hang",
                  test_child_of_a_fork_gets_an_error_and_no_hang);
  g_test_add_func("/threads/idle-threads-keep-no-process", test_idle_threads_keep_no_process);
  g_test_add_func("/threads/number-is-read-from-the-environment",
                  test_number_of_threads_is_read_from_the_environment);
  return g_test_run();
}
