/* SPDX-License-Identifier: Apache-2.0 */
/* Running checks in child processes. Each child has a process group of its own, so that a compiler
 * started by a plugin ends with the child; processes that have left the group are ended too. A
 * child runs the checks of a section until a check fails; then another child continues. The data
 * from the child's pipe (described in child.c) is untrusted, because the plugin has the descriptor,
 * too. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <backplane/version.h>

#include "conformance/run.h"

/* The most bytes of a line from a child. */
#define MOST_LINE ((gsize)16 << 20)
/* Milliseconds between looks whether a child has ended while another process keeps its pipe
 * open. */
#define LOOK_MS 50

typedef enum ChildState {
  CHILD_STARTING, /* the first check has not begun; events count for that check */
  CHILD_RUNNING,
  CHILD_BETWEEN, /* the check has ended */
  CHILD_EXITING  /* the check passes if the process ends cleanly */
} ChildState;

typedef struct Child {
  pid_t pid;
  int fd;         /* -1: the pipe was closed */
  GString *input; /* input that is not a complete line yet */
  gint64 began;   /* start of the running check, microseconds */
  gint64 told;    /* time of the check's last report of progress, or `began` */
  int first;      /* the first check to run; -1: none, the child collects facts */
  int index;      /* index of the check that began last, or `first` */
  ChildState state;
  char *refusal;  /* the reason why nothing can be checked, or NULL */
  char *left;     /* processes and files left after a clean end, or NULL */
  GArray *others; /* processes that existed before the child */
} Child;

/* ---- Signals ----------------------------------------------------------------------------- */

static const int ending_signals[] = {SIGHUP, SIGINT, SIGTERM};
static volatile sig_atomic_t caught_signal;
static struct sigaction old_actions[G_N_ELEMENTS(ending_signals)];

static void note_signal(int number) {
  caught_signal = number;
}

void bp__signals_hold(void) {
  struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
  caught_signal = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(ending_signals); i++) {
    sigaction(ending_signals[i], NULL, &old_actions[i]);
    if (old_actions[i].sa_handler != SIG_IGN)
      sigaction(ending_signals[i], &action, NULL);
  }
}

static void restore_signals(void) {
  for (size_t i = 0; i < G_N_ELEMENTS(ending_signals); i++)
    sigaction(ending_signals[i], &old_actions[i], NULL);
}

void bp__signals_release(void) {
  restore_signals();
  if (caught_signal)
    raise(caught_signal);
}

/* ---- Events from a child ----------------------------------------------------------------- */

static void finish_check(Run *run, const Child *child, Outcome outcome, const char *text) {
  Result *result = &g_array_index(run->results, Result, child->index);
  result->outcome = outcome;
  g_free(result->text);
  result->text = text && *text ? g_strdup(text) : NULL;
  result->seconds = (double)(g_get_monotonic_time() - child->began) / 1e6;
}

static void add_fact(Run *run, const char *name, const char *value) {
  Fact fact = {g_strdup(name), g_strdelimit(g_strdup(value), "\r\n", ' ')};
  g_array_append_val(run->facts, fact);
}

/* Events of a child that collects facts. */
static gboolean take_fact(Run *run, Child *child, const char *event, const char *name,
                          const char *text) {
  if (strcmp(event, "fact") == 0)
    add_fact(run, name, text);
  else if (strcmp(event, "refused") == 0 && !child->refusal)
    child->refusal = g_strdup(text);
  else if (strcmp(event, "identity") == 0 && !run->identity)
    run->kit.identity = run->identity = g_strdup(text);
  else
    return FALSE;
  return TRUE;
}

static gboolean may_begin(const Run *run, const Child *child, guint index) {
  const Result *results = &g_array_index(run->results, Result, 0);
  if (child->state == CHILD_STARTING)
    return (int)index == child->first;
  return child->state == CHILD_BETWEEN && results[index].outcome == OUTCOME_PENDING &&
         results[index].section == results[child->first].section;
}

/* Events of a child that runs checks. */
static gboolean take_progress(Run *run, Child *child, const char *event, guint index,
                              const char *text) {
  static const struct {
    const char *event;
    Outcome outcome;
  } ends[] = {{"passed", OUTCOME_PASSED},
              {"failed", OUTCOME_FAILED},
              {"skipped", OUTCOME_SKIPPED},
              {"inapplicable", OUTCOME_INAPPLICABLE},
              {"absent", OUTCOME_ABSENT}};
  if (strcmp(event, "begin") == 0 && may_begin(run, child, index)) {
    child->index = (int)index;
    child->state = CHILD_RUNNING;
    child->began = child->told = g_get_monotonic_time();
    bp__report_progress(run, run->report);
    return TRUE;
  }
  if (child->state != CHILD_RUNNING || (int)index != child->index)
    return FALSE;
  if (strcmp(event, "going") == 0) {
    child->told = g_get_monotonic_time();
    return TRUE;
  }
  if (strcmp(event, "exiting") == 0) {
    child->state = CHILD_EXITING;
    return TRUE;
  }
  for (size_t i = 0; i < G_N_ELEMENTS(ends); i++)
    if (strcmp(event, ends[i].event) == 0) {
      finish_check(run, child, ends[i].outcome, text);
      child->state = CHILD_BETWEEN;
      return TRUE;
    }
  return FALSE;
}

/* Whether the last character is not a backslash, as g_strcompress requires. */
static gboolean is_escaped(const char *text) {
  for (; *text; text++)
    if (*text == '\\' && !*++text)
      return FALSE;
  return TRUE;
}

/* Whether the line is an event that is valid now. */
static gboolean take_line(Run *run, Child *child, const char *line) {
  char **fields = g_strsplit(line, "\t", 3);
  gboolean is_taken = FALSE;
  guint64 index;
  if (g_strv_length(fields) == 3 && is_escaped(fields[2])) {
    char *text = g_strcompress(fields[2]);
    if (child->first < 0)
      is_taken = take_fact(run, child, fields[0], fields[1], text);
    else if (g_ascii_string_to_unsigned(fields[1], 10, 0, run->results->len - 1, &index, NULL))
      is_taken = take_progress(run, child, fields[0], (guint)index, text);
    g_free(text);
  }
  g_strfreev(fields);
  return is_taken;
}

/* Takes complete lines. FALSE: a line is not a valid event, and stays in the input. */
static gboolean take_input(Run *run, Child *child) {
  char *end;
  while ((end = memchr(child->input->str, '\n', child->input->len))) {
    gsize length = (gsize)(end - child->input->str);
    *end = '\0';
    if (strlen(child->input->str) != length || !take_line(run, child, child->input->str))
      return FALSE;
    g_string_erase(child->input, 0, (gssize)length + 1);
  }
  return child->input->len <= MOST_LINE;
}

/* ---- Following a child ------------------------------------------------------------------- */

static gboolean has_ended(const Child *child) {
  siginfo_t info = {.si_pid = 0};
  return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* FALSE: the input is not a valid event. */
static gboolean read_some(Run *run, Child *child) {
  char buffer[4096];
  ssize_t size = read(child->fd, buffer, sizeof buffer);
  if (size > 0) {
    g_string_append_len(child->input, buffer, size);
    return take_input(run, child);
  }
  if (size == 0 || errno != EINTR) {
    close(child->fd);
    child->fd = -1;
  }
  return TRUE;
}

typedef enum Ending { ENDING_OWN, ENDING_LATE, ENDING_GARBLED, ENDING_INTERRUPTED } Ending;

/* Follows the child until it ends or must be ended. Whether the child has ended is checked before
 * its pipe is found empty, so no event is missed. */
static Ending follow(Run *run, Child *child) {
  int pause = 1; /* after the pipe was closed: the child is about to end, or the plugin closed our
                    descriptor */
  for (;;) {
    gboolean is_over = has_ended(child);
    gint64 left = child->told + (gint64)run->timeout * G_USEC_PER_SEC - g_get_monotonic_time();
    if (caught_signal)
      return ENDING_INTERRUPTED;
    if (left <= 0)
      return ENDING_LATE;
    struct pollfd ready = {child->fd, POLLIN, 0};
    if (child->fd < 0)
      pause = MIN(2 * pause, LOOK_MS);
    int wait = is_over ? 0 : (int)MIN(left / 1000 + 1, child->fd < 0 ? pause : LOOK_MS);
    int rc = poll(&ready, 1, wait);
    if (rc > 0 && !read_some(run, child))
      return ENDING_GARBLED;
    if (rc == 0 && is_over)
      return ENDING_OWN;
  }
}

/* Kills the rest of the child's group, and the child even if it has left the group. Waits for the
 * child at the end, because the child's number identifies the group until then. Returns the child's
 * status. */
static int reap(const Child *child) {
  int status = 0;
  kill(-child->pid, SIGKILL);
  kill(child->pid, SIGKILL);
  while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
    continue;
  return status;
}

/* ---- Left-over processes ----------------------------------------------------------------- */

/* How long a process that a child started may run on after the child's end. */
#define GRACE (2 * G_USEC_PER_SEC)

/* Adds the processes whose parent is a thread of this process. */
static void add_children(const char *thread, GArray *pids) {
  char *path = g_strdup_printf("/proc/self/task/%s/children", thread), *text = NULL;
  if (g_file_get_contents(path, &text, NULL, NULL)) {
    char **words = g_strsplit_set(text, " \n", -1);
    for (char **word = words; *word; word++) {
      pid_t pid = (pid_t)g_ascii_strtoll(*word, NULL, 10);
      if (pid > 0)
        g_array_append_val(pids, pid);
    }
    g_strfreev(words);
  }
  g_free(text);
  g_free(path);
}

/* Returns the children of this process, as pid_t (transfer full); empty if the system does not
 * report them. */
static GArray *list_children(void) {
  GArray *pids = g_array_new(FALSE, FALSE, sizeof(pid_t));
  GDir *threads = g_dir_open("/proc/self/task", 0, NULL);
  const char *thread;
  while (threads && (thread = g_dir_read_name(threads)))
    add_children(thread, pids);
  if (threads)
    g_dir_close(threads);
  return pids;
}

static gboolean has_pid(const GArray *pids, pid_t pid) {
  for (guint i = 0; i < pids->len; i++)
    if (g_array_index(pids, pid_t, i) == pid)
      return TRUE;
  return FALSE;
}

/* Returns the descendants of an ended child. Processes whose parents have ended become children of
 * this process; those that existed before the child are not its descendants. Waits for the
 * descendants that have ended. */
static GArray *list_strays(const Child *child) {
  GArray *pids = list_children();
  for (guint i = pids->len; i-- > 0;) {
    pid_t pid = g_array_index(pids, pid_t, i);
    if (pid == child->pid || has_pid(child->others, pid) || waitpid(pid, NULL, WNOHANG) != 0)
      g_array_remove_index(pids, i);
  }
  return pids;
}

/* Describes processes that a child leaves behind for longer than GRACE: numbers and names, or NULL
 * (g_free). */
static char *describe_strays(const Child *child) {
  gint64 deadline = g_get_monotonic_time() + GRACE;
  GArray *pids = list_strays(child);
  while (pids->len && g_get_monotonic_time() < deadline) {
    g_array_unref(pids);
    g_usleep(5000);
    pids = list_strays(child);
  }
  GString *text = g_string_new(NULL);
  for (guint i = 0; i < pids->len; i++) {
    int pid = (int)g_array_index(pids, pid_t, i);
    char *path = g_strdup_printf("/proc/%d/comm", pid), *name = NULL;
    g_file_get_contents(path, &name, NULL, NULL);
    g_string_append_printf(text, "%s%d (%s)", i ? ", " : "", pid, name ? g_strchomp(name) : "?");
    g_free(name);
    g_free(path);
  }
  g_array_unref(pids);
  return g_string_free(text, text->len == 0);
}

static void end_strays(const Child *child) {
  GArray *pids = list_strays(child);
  for (guint i = 0; i < pids->len; i++) {
    pid_t pid = g_array_index(pids, pid_t, i);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  g_array_unref(pids);
}

/* ---- The meaning of a child's end -------------------------------------------------------- */

static char *describe_garbled(const GString *input) {
  char *begin = g_strndup(input->str, 100), *escaped = g_strescape(begin, NULL);
  char *text = g_strdup_printf(
      "something else than the kit wrote to the descriptor that is the kit's own: \"%s\"", escaped);
  g_free(begin);
  g_free(escaped);
  return text;
}

static char *describe_end(const Run *run, const Child *child, Ending ending, int status) {
  const char *when = child->state == CHILD_EXITING   ? ", at the process's end"
                     : child->state == CHILD_BETWEEN ? ", after the check had ended"
                                                     : "";
  if (ending == ENDING_LATE)
    return g_strdup_printf("no answer within %d seconds%s", run->timeout, when);
  if (ending == ENDING_GARBLED)
    return describe_garbled(child->input);
  if (WIFSIGNALED(status))
    return g_strdup_printf("the process was ended by signal %d (%s)%s", WTERMSIG(status),
                           g_strsignal(WTERMSIG(status)), when);
  return g_strdup_printf("the process ended with status %d%s", WEXITSTATUS(status), when);
}

/* Fails the check that was running when the process crashed or hung; between two checks, that is
 * the earlier one. */
static void judge_end(Run *run, const Child *child, Ending ending, int status) {
  gboolean is_clean = ending == ENDING_OWN && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const Result *result = &g_array_index(run->results, Result, child->index);
  if (child->state == CHILD_BETWEEN && (is_clean || result->outcome == OUTCOME_FAILED))
    return;
  if (is_clean && child->state == CHILD_EXITING && !child->left) {
    finish_check(run, child, OUTCOME_PASSED, NULL);
    return;
  }
  char *text = child->left
                   ? g_strdup_printf("the process has ended, and left others: %s; the processes "
                                     "that a plugin starts must end with its process",
                                     child->left)
                   : describe_end(run, child, ending, status);
  finish_check(run, child, OUTCOME_FAILED, text);
  g_free(text);
}

/* ---- Children ---------------------------------------------------------------------------- */

/* Forks a child that does the work. -1 with an error. */
static int start(Run *run, Child *child, ChildWork *work) {
  int ends[2];
  /* If the pipe were inherited, a compiler that outlives the child would keep the pipe open. */
  if (pipe2(ends, O_CLOEXEC) != 0)
    return bp_error_raise(BP_ERROR_IO, "no pipe to a child: %s", g_strerror(errno));
  fflush(NULL); /* a child that ends by exit() would write inherited buffers again */
  child->began = child->told = g_get_monotonic_time();
  child->pid = fork();
  if (child->pid == 0) {
    setpgid(0, 0);
    restore_signals();
    close(ends[0]);
    bp__child_main(run, ends[1], work, (guint)child->first);
  }
  close(ends[1]);
  child->fd = ends[0];
  if (child->pid > 0) {
    setpgid(child->pid, child->pid); /* in both processes, because either may come first */
    return 0;
  }
  close(child->fd);
  return bp_error_raise(BP_ERROR_IO, "no child process: %s", g_strerror(errno));
}

/* Runs `work` in a child, and follows it to its end. first: the first check to run. */
static int run_child(Run *run, ChildWork *work, int first) {
  Child child = {.first = first, .index = first, .others = list_children()};
  if (start(run, &child, work)) {
    g_array_unref(child.others);
    return -1;
  }
  child.input = g_string_new(NULL);
  Ending ending = follow(run, &child);
  if (ending == ENDING_OWN && child.state == CHILD_EXITING)
    child.left = describe_strays(&child);
  int status = reap(&child), rc = 0;
  end_strays(&child);
  if (child.fd >= 0)
    close(child.fd);
  if (ending == ENDING_INTERRUPTED)
    rc = bp_error_raise(BP_ERROR_RUNTIME, "the run was ended: %s", g_strsignal(caught_signal));
  else if (child.refusal)
    rc = bp_error_raise(BP_ERROR_VALUE, "%s", child.refusal);
  else if (first >= 0)
    judge_end(run, &child, ending, status);
  g_string_free(child.input, TRUE);
  g_array_unref(child.others);
  g_free(child.refusal);
  g_free(child.left);
  return rc;
}

int bp__run_identify(Run *run) {
  char seed[32];
  g_snprintf(seed, sizeof seed, "%" G_GUINT64_FORMAT, run->kit.seed);
  add_fact(run, "host", bp_version());
  add_fact(run, "seed", seed);
  return run_child(run, bp__child_identify, -1);
}

static gboolean is_failure(const Result *result) {
  return result->outcome == OUTCOME_FAILED && !result->is_expected_to_fail;
}

static int run_all(Run *run) {
  gboolean has_failed = FALSE;
  for (guint i = 0; i < run->results->len; i++) {
    Result *result = &g_array_index(run->results, Result, i);
    if (has_failed && run->fail_fast)
      result->outcome = OUTCOME_LEFT_OUT;
    while (result->outcome == OUTCOME_PENDING && !bp__run_settle(run, result))
      if (run_child(run, bp__child_run_section, (int)i))
        return -1;
    has_failed |= is_failure(result);
    bp__report_progress(run, run->report);
  }
  return 0;
}

int bp__run_checks(Run *run) {
  int was_reaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &was_reaper);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int rc = run_all(run);
  prctl(PR_SET_CHILD_SUBREAPER, was_reaper);
  return rc;
}
