/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of a trial: starting the helper program, reading its report, and the verdict. */

#include "core/plugin/trial.h"

#include "core/plugin/trial_cache.h"
#include "core/system/env.h"
#include "core/registry/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_DEFAULT 20.0
#define DEADLINE_MAX     3600.0

/* The helper's descriptors. */
#define REPORT_FD 3
#define PLUGIN_FD 4

/* The helper ends by itself at the deadline; when it has not after these, it is woken, then killed.
 */
#define WAKE_AFTER_MS 1000
#define KILL_AFTER_MS 3000

int bp__trial_deadline(void) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  const char *text = bp__env_get("BACKPLANE_PLUGIN_DEADLINE");
  char *end = NULL;
  double seconds = text ? g_ascii_strtod(text, &end) : DEADLINE_DEFAULT;
  if (text && (*end || !(seconds >= 0) || seconds > DEADLINE_MAX)) {
    if (!atomic_flag_test_and_set(&is_told))
      bp__log(BP_LOG_WARNING,
              "BACKPLANE_PLUGIN_DEADLINE is \"%.40s\", not a number of seconds from 0 to %.0f; "
              "%.0f is used",
              text, DEADLINE_MAX, DEADLINE_DEFAULT);
    seconds = DEADLINE_DEFAULT;
  }
  return (int)(seconds * 1000 + 0.999); /* up: 0 would be no trial */
}

/* ---- Starting the helper ----------------------------------------------------------------- */

typedef struct Helper {
  pid_t pid;
  int report; /* the end that is read */
} Helper;

static void add_actions(posix_spawn_file_actions_t *actions, int report, int plugin) {
  for (int fd = 0; fd <= 2; fd++)
    posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(actions, report, REPORT_FD);
  posix_spawn_file_actions_adddup2(actions, plugin, PLUGIN_FD);
}

/* A group of its own, and no signal blocked, ignored or handled as in this program. */
static void set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
  posix_spawnattr_setflags(attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn_helper(const char *program, char *const *arguments, int report, int plugin,
                        pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  add_actions(&actions, report, plugin);
  set_attributes(&attributes);
  int error = posix_spawn(pid, program, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

static int raise_impossible(const char *doing, int error) {
  return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE, "cannot %s: %s", doing, g_strerror(error));
}

/* A copy of a descriptor above those that the helper's are put on. */
static int copy_above(int fd) {
  return fcntl(fd, F_DUPFD_CLOEXEC, PLUGIN_FD + 1);
}

static int start_with(const Plugin *plugin, int write_end, Helper *helper) {
  Dl_info self;
  char deadline[16], host[16];
  const char *program = bp__env_get("BACKPLANE_TRIAL_PROGRAM");
  if (!dladdr(__extension__(const void *) bp__trial_run, &self) || !self.dli_fname)
    return raise_impossible("find this library's file", ENOENT);
  snprintf(deadline, sizeof deadline, "%d", bp__trial_deadline());
  snprintf(host, sizeof host, "%d", (int)getpid());
  if (!program)
    program = BP_TRIAL_PROGRAM;
  char *arguments[] = {(char *)(uintptr_t)program,
                       (char *)(uintptr_t)self.dli_fname,
                       plugin->path,
                       deadline,
                       host,
                       NULL};
  int report = copy_above(write_end), file = copy_above(plugin->fd);
  int error = report < 0 || file < 0 ? EMFILE
                                     : spawn_helper(program, arguments, report, file, &helper->pid);
  if (report >= 0)
    close(report);
  if (file >= 0)
    close(file);
  return error ? bp__reason_raise(REASON_TRIAL_IMPOSSIBLE, "cannot start %s: %s", program,
                                  g_strerror(error))
               : 0;
}

static int start_helper(const Plugin *plugin, Helper *helper) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC))
    return raise_impossible("make a pipe", errno);
  int rc = start_with(plugin, ends[1], helper);
  close(ends[1]);
  helper->report = ends[0];
  if (rc)
    close(ends[0]);
  return rc;
}

/* ---- Its report -------------------------------------------------------------------------- */

static int64_t now_ms(void) {
  return g_get_monotonic_time() / 1000;
}

/* Waits until there is something to read: 1; 0 when the helper had to be killed. */
static int wait_readable(const Helper *helper, int64_t deadline) {
  struct pollfd poll_fd = {.fd = helper->report, .events = POLLIN};
  int is_woken = 0;
  for (;;) {
    int64_t until = deadline + (is_woken ? KILL_AFTER_MS : WAKE_AFTER_MS) - now_ms();
    int got = poll(&poll_fd, 1, (int)CLAMP(until, 0, G_MAXINT));
    if (got > 0)
      return 1;
    if (until > 0)
      continue;
    if (is_woken)
      break;
    kill(helper->pid, SIGCONT); /* the plugin may have stopped it */
    is_woken = 1;
  }
  kill(helper->pid, SIGKILL); /* the kernel then kills its child, which asked for that */
  return 0;
}

/* Reads up to the end of the report or of what is allowed. */
static GString *read_report(const Helper *helper, int64_t deadline) {
  GString *text = g_string_new(NULL);
  char part[4096];
  while (text->len < BP_TRIAL_REPORT_MAX && wait_readable(helper, deadline)) {
    ssize_t got = read(helper->report, part, sizeof part);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    g_string_append_len(text, part, got);
    if (g_str_has_suffix(text->str, "\n") && strstr(text->str, "\nend="))
      break;
  }
  if (text->len >= BP_TRIAL_REPORT_MAX)
    kill(helper->pid, SIGKILL);
  return text;
}

/* Somebody else in this program may have waited for it already. */
static void reap(pid_t pid) {
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
}

/* Untrusted: those lines that are UTF-8; control characters stay. */
static GPtrArray *split_report(const GString *text) {
  GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
  g_auto(GStrv) all = g_strsplit(text->str, "\n", -1);
  for (char **line = all; *line; line++)
    if (**line && g_utf8_validate(*line, -1, NULL))
      g_ptr_array_add(lines, g_strdup(*line));
  return lines;
}

const char *bp__trial_next(const Trial *trial, const char *key, guint *from) {
  size_t length = strlen(key);
  while (*from < trial->lines->len) {
    const char *line = g_ptr_array_index(trial->lines, (*from)++);
    if (!strncmp(line, key, length) && line[length] == '=')
      return line + length + 1;
  }
  return NULL;
}

static const char *last_of(const Trial *trial, const char *key) {
  const char *last = NULL;
  guint from = 0;
  for (const char *value; (value = bp__trial_next(trial, key, &from));)
    last = value;
  return last;
}

/* ---- The verdict ------------------------------------------------------------------------- */

int bp__trial_is_verdict(Reason reason) {
  return reason == REASON_CRASHED || reason == REASON_TIMED_OUT || reason == REASON_EXITED ||
         reason == REASON_STOPPED || reason == REASON_LEAVES_PROCESSES ||
         reason == REASON_TRIAL_GARBLED;
}

/* What the plugin was doing. */
static const char *describe_stage(const char *stage) {
  static const char *const stages[][2] = {
      {"load", "while it was loaded"},
      {"entry", "in its entry point"},
      {"initialize", "while it initialised"},
      {"devices", "while it listed its devices"},
      {"libraries", "while its vendor's libraries were opened"},
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
  trial->text = g_strdup_printf("it %s %s", text, describe_stage(last_of(trial, "stage")));
}

/* `end` is the helper's: "exit N", "signal N", "stop N", "timeout" or NULL when it did not say. */
static void judge_end(Trial *trial, const char *end) {
  int number = 0;
  if (!end)
    judge(trial, REASON_TRIAL_GARBLED,
          "left no report of its trial that can be read, having ended");
  else if (!strcmp(end, "timeout"))
    judge(trial, REASON_TIMED_OUT, "was not done after %.3g s", bp__trial_deadline() / 1000.0);
  else if (sscanf(end, "signal %d", &number) == 1 && number == SIGXCPU)
    judge(trial, REASON_TIMED_OUT, "used up the processor time that it had");
  else if (sscanf(end, "signal %d", &number) == 1)
    judge(trial, REASON_CRASHED, "crashed (signal %d, %s)", number, g_strsignal(number));
  else if (sscanf(end, "stop %d", &number) == 1)
    judge(trial, REASON_STOPPED, "stopped the process (signal %d, %s)", number,
          g_strsignal(number));
  else if (!last_of(trial, "done"))
    judge(trial, REASON_EXITED, "ended the process (%s)", end);
  else if (last_of(trial, "left"))
    judge(trial, REASON_LEAVES_PROCESSES, "left processes behind that it started, at the latest");
}

static void read_trial(const Helper *helper, Trial *trial) {
  int64_t deadline = now_ms() + bp__trial_deadline();
  g_autoptr(GString) report = g_string_append_c(read_report(helper, deadline), '\0');
  *trial = (Trial){.verdict = REASON_OK, .text = g_strdup(""), .lines = split_report(report)};
  judge_end(trial, last_of(trial, "end"));
}

int bp__trial_run(const Plugin *plugin, Trial *trial) {
  Helper helper;
  if (start_helper(plugin, &helper))
    return -1;
  read_trial(&helper, trial);
  close(helper.report);
  reap(helper.pid);
  if (trial->lines->len > 1 || g_strcmp0(last_of(trial, "end"), "exit 127"))
    return 0;
  bp__trial_clear(trial);
  return bp__reason_raise(REASON_TRIAL_IMPOSSIBLE,
                          "the helper program cannot load this library; install them together");
}

void bp__trial_clear(Trial *trial) {
  g_free(trial->text);
  g_ptr_array_unref(trial->lines);
}

/* ---- What is required of a plugin -------------------------------------------------------- */

static int raise_verdict(Reason verdict, const char *text) {
  return verdict == REASON_OK ? 0 : bp__reason_raise(verdict, "%s", text);
}

static int raise_cached(TrialCache *cache, int *is_known) {
  Reason verdict;
  char *text;
  *is_known = bp__trial_cache_read(cache, &verdict, &text);
  if (!*is_known)
    return 0;
  int rc = raise_verdict(verdict, text ? text : "");
  free(text);
  return rc;
}

/* Without the helper program plugins are used as they are. */
static int go_on_without(void) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&is_told))
    bp__log(BP_LOG_WARNING, "plugins are used without having been tried out: %s",
            bp_error_message());
  bp_error_clear();
  bp__reason_take(REASON_OK);
  return 0;
}

static int try_and_learn(const Plugin *plugin, TrialCache *cache) {
  Trial trial;
  int is_known;
  bp__trial_cache_lock(cache, bp__trial_deadline());
  int rc = raise_cached(cache, &is_known); /* another process may have been first */
  if (is_known)
    return rc;
  if (bp__trial_run(plugin, &trial))
    return go_on_without();
  bp__trial_cache_write(cache, &trial);
  rc = raise_verdict(trial.verdict, trial.text);
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
