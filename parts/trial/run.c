/* SPDX-License-Identifier: Apache-2.0 */
/* The host's part of a trial: it starts the helper program, reads its report, and decides. */

#include "parts/trial/trial.h"

#include "core/registry/names.h"
#include "core/registry/part.h"
#include "core/system/file.h"
#include "core/system/trust.h"
#include "parts/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The helper ends by itself at the deadline. A helper that has not ended this long after the
 * deadline is woken, and then killed. */
#define REPORT_MAX    (256 * 1024)
#define WAKE_AFTER_MS 1000
#define KILL_AFTER_MS 3000

/* Waits are at most WAIT_MS long. If a wait takes GAP_MS longer than requested, this process did
 * not run: the machine or all processes of a job were stopped. The helper does not count that time
 * for its deadline, so this process does not count it either. */
#define WAIT_MS 500
#define GAP_MS  1000

static int64_t now_ms(void) {
  return g_get_monotonic_time() / 1000;
}

/* ---- Starting the helper ----------------------------------------------------------------- */

typedef struct Helper {
  pid_t pid;
  int pidfd;        /* readable once the helper has ended; -1: the kernel has no pidfds */
  int report;       /* the read end */
  int control;      /* standard input of the helper: closing it ends the trial; -1: closed */
  int64_t deadline; /* the time at which the helper ends by itself */
} Helper;

static int raise_impossible(const char *doing, int error) {
  return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE, "it cannot be tried out: cannot %s: %s", doing,
                          g_strerror(error));
}

static int raise_doing(const char *verb, const char *program, int error) {
  g_autofree char *doing = g_strdup_printf("%s %s", verb, program);
  return raise_impossible(doing, error);
}

/* A relative path would name another program in another working directory. If the file does not
 * exist, the helper is not installed; any other obstacle is an error. */
static int check_program(const char *program) {
  struct stat status;
  if (*program != '/')
    return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE,
                            "it cannot be tried out: BACKPLANE_TRIAL_PROGRAM is \"%s\"; give an "
                            "absolute path",
                            program);
  if (!stat(program, &status))
    return 0;
  if (errno == ENOENT || errno == ENOTDIR)
    return bp__reason_raise(REASON_HELPER_MISSING, "there is no %s", program);
  return raise_doing("look at", program, errno);
}

static int spawn_helper(const Plugin *plugin, const char *library, int report, int control,
                        pid_t *pid) {
  char deadline[16], host[16];
  const char *program = bp__trial_program();
  snprintf(deadline, sizeof deadline, "%d", bp__trial_deadline());
  snprintf(host, sizeof host, "%d", (int)getpid());
  char *const arguments[] = {(char *)(uintptr_t)program,
                             (char *)(uintptr_t)library,
                             plugin->path,
                             deadline,
                             host,
                             (char *)(uintptr_t)(bp__is_privileged() ? "privileged" : "user"),
                             NULL};
  char *const no_settings[] = {NULL};
  char **environment = bp__spawn_environment(no_settings);
  const BpSpawn what = {.program = program,
                        .arguments = arguments,
                        .environment = environment,
                        .input = control,
                        .output = -1,
                        .passed = {report, plugin->fd},
                        .num_passed = 2,
                        .is_leader = 1};
  int error = environment ? bp__spawn(&what, pid) : ENOMEM;
  free(environment);
  return error;
}

/* report[1] and control[0] belong to the helper. */
static int start_with(const Plugin *plugin, const int *report, const int *control, Helper *helper) {
  const char *program = bp__trial_program();
  if (check_program(program))
    return -1;
  char *library = bp__own_library();
  int error = library ? spawn_helper(plugin, library, report[1], control[0], &helper->pid) : ENOENT;
  free(library);
  if (error)
    return raise_doing("start", program, error);
  helper->report = report[0];
  helper->control = control[1];
  helper->pidfd = (int)syscall(SYS_pidfd_open, helper->pid, 0);
  helper->deadline = now_ms() + bp__trial_deadline();
  return 0;
}

static void close_pipe(int *ends, int first, int second) {
  if (first)
    close(ends[0]);
  if (second)
    close(ends[1]);
}

/* After unshare(CLONE_NEWPID) the next process is the first of a new PID namespace, and no other
 * process can be started after its end. */
static int check_namespace(void) {
  char link[64];
  if (readlink("/proc/thread-self/ns/pid", link, sizeof link) < 0 ||
      readlink("/proc/thread-self/ns/pid_for_children", link, sizeof link) >= 0 || errno != ENOENT)
    return 0;
  return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE,
                          "it cannot be tried out: its trial would be the first process of this "
                          "program's new PID namespace, which ends with it; start another process "
                          "first, or use the plugin before unshare()");
}

static int start_helper(const Plugin *plugin, Helper *helper) {
  int report[2], control[2];
  if (check_namespace())
    return -1;
  if (pipe2(report, O_CLOEXEC))
    return raise_impossible("make a pipe", errno);
  if (pipe2(control, O_CLOEXEC)) {
    raise_impossible("make a pipe", errno);
    close_pipe(report, 1, 1);
    return -1;
  }
  int rc = start_with(plugin, report, control, helper);
  close_pipe(report, rc, 1);
  close_pipe(control, 1, rc);
  return rc;
}

/* Signals the helper through its pidfd: its process number may belong to another process once a
 * thread of this process has waited for it. */
static void signal_helper(const Helper *helper, int number) {
  if (helper->pidfd < 0)
    kill(helper->pid, number);
  else
    syscall(SYS_pidfd_send_signal, helper->pidfd, number, NULL, 0);
}

/* Writes a byte and closes the pipe: closing alone is not enough, because a forked copy of this
 * process may hold the other end. */
static void end_trial(Helper *helper) {
  if (helper->control < 0)
    return;
  bp__write_all(helper->control, "", 1);
  close(helper->control);
  helper->control = -1;
}

/* Other code in this program may have waited for the helper already. */
static void finish_helper(Helper *helper) {
  end_trial(helper);
  close(helper->report);
  if (helper->pidfd >= 0)
    close(helper->pidfd);
  while (waitpid(helper->pid, NULL, 0) < 0 && errno == EINTR) {
  }
}

/* ---- Reading the report ------------------------------------------------------------------ */

/* Waits for input or the helper's end for at most `milliseconds`. Moves the deadline if this
 * process did not run meanwhile. Returns poll's result. */
static int wait_some(Helper *helper, int milliseconds, short *revents) {
  struct pollfd fds[] = {{.fd = helper->report, .events = POLLIN},
                         {.fd = helper->pidfd, .events = POLLIN}};
  int64_t until = now_ms() + milliseconds;
  int got = poll(fds, G_N_ELEMENTS(fds), milliseconds);
  int64_t late = now_ms() - until;
  if (late >= GAP_MS)
    helper->deadline += late;
  *revents = fds[0].revents;
  return got;
}

/* Waits for input. Returns 1; 0 if the helper has ended; -1 if it had to be killed, also if it
 * writes without an end. */
static int wait_readable(Helper *helper) {
  int is_woken = 0;
  for (;;) {
    int64_t until = helper->deadline + (is_woken ? KILL_AFTER_MS : WAKE_AFTER_MS) - now_ms();
    short revents;
    int got = wait_some(helper, (int)CLAMP(until, 0, WAIT_MS), &revents);
    if (until > 0 && got > 0)
      return revents ? 1 : 0;
    if (until > 0)
      continue;
    if (is_woken)
      break;
    end_trial(helper);              /* the helper may have moved its own deadline further */
    signal_helper(helper, SIGCONT); /* the plugin may have stopped the helper */
    is_woken = 1;
  }
  signal_helper(helper, SIGKILL); /* the kernel then kills the helper's child as well */
  return -1;
}

/* If a trial's report grows beyond the limit, the helper ends the trial, because only the helper
 * finds every process that the plugin started. Only the end of the remaining report is kept. */
static void limit_report(Helper *helper, GString *text) {
  if (text->len <= REPORT_MAX)
    return;
  end_trial(helper);
  helper->deadline = MIN(helper->deadline, now_ms());
  g_string_truncate(text, REPORT_MAX + 1);
}

static int has_end(const Helper *helper, const GString *text) {
  return helper->pidfd < 0 && g_str_has_suffix(text->str, "\n") && strstr(text->str, "\nend=");
}

/* Reads to the end of the report. Returns 0, or -1 if the helper had to be killed. */
static int read_report(Helper *helper, GString *text) {
  char part[4096];
  int rc;
  while ((rc = wait_readable(helper)) > 0) {
    ssize_t got = read(helper->report, part, sizeof part);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return 0;
    g_string_append_len(text, part, got);
    limit_report(helper, text);
    if (has_end(helper, text))
      return 0;
  }
  return rc;
}

/* Splits an untrusted report into its lines of valid UTF-8; control characters stay. The lines
 * replace the text. */
static GPtrArray *split_report(char *text) {
  GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
  for (const char *line; (line = bp__line_next(&text));)
    if (*line && g_utf8_validate(line, -1, NULL))
      g_ptr_array_add(lines, g_strdup(line));
  return lines;
}

/* ---- The verdict ------------------------------------------------------------------------- */

static const char *last_of(const Trial *trial, const char *key) {
  const char *last = NULL;
  guint from = 0;
  for (const char *value; (value = bp__trial_next(trial, key, &from));)
    last = value;
  return last;
}

/* Describes the stage that the plugin was in. */
static const char *describe_stage(const char *stage) {
  static const char *const stages[][2] = {
      {"load", "while it was loaded"},
      {"entry", "in its entry point"},
      {"initialize", "while it initialised"},
      {"devices", "while it listed its devices"},
      {"libraries", "while its vendor's libraries were opened"},
      {"exit", "while the program ended"},
  };
  for (size_t i = 0; stage && i < G_N_ELEMENTS(stages); i++)
    if (!strcmp(stages[i][0], stage))
      return stages[i][1];
  return "before it was loaded";
}

static void judge(Trial *trial, Reason verdict, const char *format, ...) G_GNUC_PRINTF(3, 4);
static void judge(Trial *trial, Reason verdict, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  trial->verdict = verdict;
  g_free(trial->text);
  const char *words = last_of(trial, "words");
  trial->text = g_strdup_printf("it %s %s%s%s%s", text, describe_stage(last_of(trial, "stage")),
                                words ? "; the last that it printed: \"" : "", words ? words : "",
                                words ? "\"" : "");
}

/* Whether users, service managers or the kernel send a signal to all processes of a job. The sender
 * is unknown, so an end by such a signal is no verdict: memory may have run out, or a service may
 * have been stopped. */
static int may_come_from_outside(int number) {
  return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP ||
         number == SIGQUIT;
}

/* `end` is the value of the helper's line `end`: "exit N", "signal N", "stop N" or "timeout". */
static void judge_end(Trial *trial, const char *end) {
  int number = 0, is_done = last_of(trial, "done") != NULL;
  if (!strcmp(end, "timeout"))
    judge(trial, REASON_TIMED_OUT, "was not done after %.3g s", bp__trial_deadline() / 1000.0);
  else if (sscanf(end, "signal %d", &number) == 1 && number == SIGXCPU)
    judge(trial, REASON_TIMED_OUT, "used up the processor time that it had");
  else if (sscanf(end, "signal %d", &number) == 1) {
    judge(trial, REASON_CRASHED, "crashed (signal %d, %s)", number, g_strsignal(number));
    trial->is_inconclusive = may_come_from_outside(number);
  } else if (sscanf(end, "stop %d", &number) == 1)
    judge(trial, REASON_STOPPED, "stopped the process (signal %d, %s)", number,
          g_strsignal(number));
  else if (sscanf(end, "exit %d", &number) == 1 && number == BP_TRIAL_REPORT_CLOSED)
    judge(trial, REASON_TRIAL_GARBLED,
          "closed a descriptor that is not its own, the one of its trial's report,");
  else if (last_of(trial, "forked"))
    judge(trial, REASON_LEAVES_PROCESSES,
          "let a process that it forked return into the program, at the latest");
  else if (!is_done || strcmp(end, "exit 0"))
    judge(trial, REASON_EXITED, "ended the process (%s)", end);
  else if (last_of(trial, "left"))
    judge(trial, REASON_LEAVES_PROCESSES, "left processes behind that it started, at the latest");
}

/* See may_come_from_outside. */
static void judge_killed(Trial *trial) {
  judge(trial, REASON_TRIAL_GARBLED,
        "was not tried to the end: the helper program was killed, by the plugin or from outside,");
  trial->is_inconclusive = 1;
}

/* Failures that are not caused by the plugin: a program that is not the helper, a helper that could
 * not start the trial, or one that ended before the plugin was loaded. A failure that the plugin
 * did not cause is no verdict on the plugin. */
static int check_helper(const Trial *trial) {
  const char *why = last_of(trial, "impossible"), *program = bp__trial_program();
  if (why)
    return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE, "it cannot be tried out: %s %s", program, why);
  if (g_strcmp0(last_of(trial, "helper"), BP_TRIAL_PROTOCOL))
    return bp__reason_raise(
        REASON_TRIAL_IMPOSSIBLE,
        "it cannot be tried out: %s is not a helper program of this version, or "
        "was ended; install the two together",
        program);
  if (last_of(trial, "stage"))
    return 0;
  const char *end = last_of(trial, "end");
  return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE,
                          "it cannot be tried out: its trial ended before it was loaded (%s); are "
                          "memory, stack or time limited?",
                          end ? end : "the helper program was killed");
}

/* `is_stuck`: the helper had to be killed. Changes `report`. */
static int read_trial(Trial *trial, int is_stuck, GString *report) {
  int is_flooded = report->len > REPORT_MAX;
  *trial = (Trial){.verdict = REASON_OK, .text = g_strdup(""), .lines = split_report(report->str)};
  if (is_flooded && last_of(trial, "helper"))
    judge(trial, REASON_TRIAL_GARBLED, "wrote more than %d KiB into the report of its trial",
          REPORT_MAX / 1024);
  else if (is_stuck && last_of(trial, "stage"))
    judge_end(trial, "timeout");
  else if (check_helper(trial))
    return -1;
  else if (last_of(trial, "end"))
    judge_end(trial, last_of(trial, "end"));
  else
    judge_killed(trial);
  const char *text;
  Reason fault = bp__trial_fault(trial, &text);
  trial->is_inconclusive |= fault != NUM_REASONS && fault != REASON_DEVICES_FAILED;
  return 0;
}

/* If the file was overwritten during a failed trial, the failure is no verdict on the plugin: code
 * and data changed while the trial used them. If the file's state cannot be read, the file may have
 * been overwritten, so the failure is not remembered. */
static void excuse_overwritten(const Plugin *plugin, Trial *trial) {
  int is_unwritten = trial->verdict == REASON_OK ? 1 : bp__plugin_is_unwritten(plugin);
  if (is_unwritten > 0)
    return;
  trial->is_inconclusive = 1;
  if (is_unwritten < 0)
    return;
  g_free(trial->text);
  trial->verdict = REASON_FILE_CHANGED;
  trial->text = g_strdup("the file was overwritten while it was tried out; replace plugins by "
                         "renaming, as packages do, and try again");
}

int bp__trial_try(const Plugin *plugin, Trial *trial) {
  Helper helper;
  if (start_helper(plugin, &helper))
    return -1;
  g_autoptr(GString) report = g_string_new(NULL);
  int is_stuck = read_report(&helper, report) < 0;
  finish_helper(&helper);
  int rc = read_trial(trial, is_stuck, report);
  if (rc)
    bp__trial_clear(trial);
  else
    excuse_overwritten(plugin, trial);
  return rc;
}
