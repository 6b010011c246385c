/* SPDX-License-Identifier: Apache-2.0 */
/* Running checks in child processes. A child runs the checks of a section until one does not pass;
 * then another goes on. It reports through a pipe, one line for each event:
 *
 *   fact NAME VALUE      for the report's head
 *   begin INDEX          a check starts; the deadline counts from here
 *   passed|failed|skipped|inapplicable|absent INDEX TEXT
 *   exiting INDEX        passed if the child now ends with status 0
 *
 * fields are separated by tabs, and escaped as in C. What the plugin prints goes to stderr. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <backplane/version.h>

#include "conformance/run.h"

/* ---- In the child ------------------------------------------------------------------------ */

/* The child's end of the pipe, and the check that is running: failing works from any thread. */
static int report_fd = -1;
static guint current_index;
static const Check *current_check;
static jmp_buf check_end;

static void tell(const char *event, const char *first, const char *second) {
  char *escaped = g_strescape(second, NULL);
  char *line = g_strdup_printf("%s\t%s\t%s\n", event, first, escaped);
  size_t size = strlen(line);
  for (size_t done = 0; done < size;) {
    ssize_t written = write(report_fd, line + done, size - done);
    if (written <= 0)
      _exit(1);
    done += (size_t)written;
  }
  g_free(line);
  g_free(escaped);
}

static void tell_check(const char *event, const char *text) {
  char index[16];
  g_snprintf(index, sizeof index, "%u", current_index);
  tell(event, index, text);
}

static void tell_text(const char *event, const char *format, va_list args) G_GNUC_PRINTF(2, 0);

static void tell_text(const char *event, const char *format, va_list args) {
  char *text = g_strdup_vprintf(format, args);
  tell_check(event, text);
  g_free(text);
}

void bp__kit_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  tell_text("failed", format, args);
  va_end(args);
  _exit(0);
}

void bp__kit_skip(const char *format, ...) {
  va_list args;
  va_start(args, format);
  tell_text(current_check->tags & CHECK_CORE ? "failed" : "skipped", format, args);
  va_end(args);
  if (current_check->tags & CHECK_CORE)
    _exit(0);
  longjmp(check_end, 1);
}

void bp__kit_absent(const char *format, ...) {
  va_list args;
  va_start(args, format);
  tell_text("absent", format, args);
  va_end(args);
  longjmp(check_end, 1);
}

void bp__kit_exit(void) {
  tell_check("exiting", "");
  exit(0);
}

static const BpPluginInfo *find_info(const BpPluginList *list, const char *subject) {
  char *path = strchr(subject, '/') ? realpath(subject, NULL) : NULL;
  const BpPluginInfo *found = NULL;
  for (size_t i = 0; list && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    char *other = path ? realpath(info->path, NULL) : NULL;
    gboolean is_it = path ? other && strcmp(other, path) == 0 : strcmp(info->name, subject) == 0;
    if (is_it && (!found || info->state == BP_PLUGIN_ACTIVE))
      found = info;
    free(other);
  }
  free(path);
  return found;
}

/* What is known of the plugin once it was activated, or could not be. */
static void prepare(Kit *kit) {
  if (bp_plugin_activate(kit->subject) != 0)
    kit->activation_error = g_strdup(bp_error_message());
  bp_error_clear();
  kit->plugins = bp_plugin_list();
  kit->info = find_info(kit->plugins, kit->subject);
  kit->kinds = g_strsplit(kit->info ? kit->info->devices : "", " ", -1);
  kit->targets = g_strsplit(kit->info ? kit->info->targets : "", " ", -1);
}

/* A plugin that is linked into the program has no file but the program's. */
static void tell_file(const char *path) {
  char *data = NULL;
  gsize size = 0;
  char *program = *path ? NULL : g_file_read_link("/proc/self/exe", NULL);
  path = program ? program : path;
  if (!g_file_get_contents(path, &data, &size, NULL)) {
    g_free(program);
    return;
  }
  char *sum = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)data, size);
  tell("fact", "file", path);
  tell("fact", "sha256", sum);
  g_free(sum);
  g_free(data);
  g_free(program);
}

static void tell_str_attr(BpDevice device, const char *fact, int32_t attr) {
  BpValue value;
  BpByteArray view;
  if (bp_device_get_attr(device, attr, &value) == 0) {
    if (value.type_index != BP_TYPE_NONE && bp_value_view_str(&value, &view) == 0) {
      char *text = g_strndup(view.data, view.size);
      tell("fact", fact, text);
      g_free(text);
    }
    bp_value_clear(&value);
  }
  bp_error_clear();
}

static void tell_devices(const Kit *kit) {
  BpDevice device;
  int32_t count = 0;
  for (char **kind = kit->kinds; *kind; kind++) {
    if (kit->activation_error || !**kind || bp_device_parse(*kind, &device) != 0 ||
        bp_device_count(device.device_type, &count, NULL) != 0)
      continue;
    for (device.device_id = 0; device.device_id < count; device.device_id++) {
      char name[64];
      bp_device_format(device, name);
      tell_str_attr(device, name, BP_ATTR_DEVICE_NAME);
      tell_str_attr(device, "driver", BP_ATTR_DRIVER_VERSION);
    }
  }
  bp_error_clear();
}

static void tell_facts(Run *run, guint first) {
  const Kit *kit = &run->kit;
  (void)first;
  char seed[32];
  g_snprintf(seed, sizeof seed, "%" G_GUINT64_FORMAT, kit->seed);
  tell("fact", "host", bp_version());
  tell("fact", "seed", seed);
  if (!kit->info)
    return;
  tell("fact", "plugin", kit->info->name);
  tell("fact", "version", kit->info->version);
  tell("fact", "abi", kit->info->abi);
  tell_file(kit->info->path);
  tell_devices(kit);
}

static const char *reason_to_skip(const Kit *kit, const Section *section) {
  if ((section->needs & NEEDS_DEVICE) && kit->info && !kit->kinds[0])
    return "the plugin provides no device";
  if ((section->needs & NEEDS_TARGET) && kit->info && !kit->targets[0])
    return "the plugin provides no target";
  return NULL;
}

static void run_check(Run *run, guint index) {
  Result *result = &g_array_index(run->results, Result, index);
  const char *inapplicable = reason_to_skip(&run->kit, result->section);
  current_index = index;
  current_check = result->check;
  tell_check("begin", "");
  if (inapplicable) {
    tell_check("inapplicable", inapplicable);
    result->outcome = OUTCOME_INAPPLICABLE;
    return;
  }
  bp_error_clear(); /* what a check was refused that was then skipped is not this one's */
  if (setjmp(check_end) == 0) {
    result->check->run(&run->kit);
    tell_check("passed", "");
    result->outcome = OUTCOME_PASSED;
  } else {
    result->outcome = OUTCOME_ABSENT; /* for those that build on it, which wait for the parent */
  }
}

static void begin_child(Run *run) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a check that hangs ends with the kit, too */
  dup2(STDERR_FILENO, STDOUT_FILENO);
  prepare(&run->kit);
}

/* The pending checks of a section, from the first of them on. */
static void run_section(Run *run, guint first) {
  const Section *section = g_array_index(run->results, Result, first).section;
  for (guint i = first; i < run->results->len; i++) {
    Result *result = &g_array_index(run->results, Result, i);
    if (result->section != section)
      break;
    if (result->outcome == OUTCOME_PENDING && !bp__run_settle(run, result))
      run_check(run, i);
  }
}

/* ---- In the parent ----------------------------------------------------------------------- */

typedef struct Child {
  pid_t pid;
  int fd;
  GString *input;      /* what was read and is no whole line yet */
  gint64 began;        /* the check that runs, microseconds */
  int index;           /* of the check that began last; -1: none did */
  gboolean is_running; /* it has not ended */
  gboolean is_exiting;
} Child;

static void finish_check(Run *run, const Child *child, Outcome outcome, const char *text) {
  Result *result = &g_array_index(run->results, Result, child->index);
  result->outcome = outcome;
  g_free(result->text);
  result->text = text && *text ? g_strdup(text) : NULL;
  result->seconds = (double)(g_get_monotonic_time() - child->began) / 1e6;
}

static void add_fact(Run *run, const char *name, const char *value) {
  Fact fact = {g_strdup(name), g_strdup(value)};
  g_array_append_val(run->facts, fact);
}

static void take_event(Run *run, Child *child, char *const *fields, const char *text) {
  static const struct {
    const char *event;
    Outcome outcome;
  } ends[] = {{"passed", OUTCOME_PASSED},
              {"failed", OUTCOME_FAILED},
              {"skipped", OUTCOME_SKIPPED},
              {"inapplicable", OUTCOME_INAPPLICABLE},
              {"absent", OUTCOME_ABSENT}};
  if (strcmp(fields[0], "fact") == 0) {
    add_fact(run, fields[1], text);
  } else if (strcmp(fields[0], "begin") == 0) {
    child->index = atoi(fields[1]);
    child->is_running = TRUE;
    child->began = g_get_monotonic_time();
    bp__report_progress(run, run->report);
  } else if (strcmp(fields[0], "exiting") == 0) {
    child->is_exiting = TRUE;
  }
  for (size_t i = 0; i < G_N_ELEMENTS(ends); i++)
    if (strcmp(fields[0], ends[i].event) == 0) {
      finish_check(run, child, ends[i].outcome, text);
      child->is_running = FALSE;
    }
}

static void take_input(Run *run, Child *child) {
  char *end;
  while ((end = strchr(child->input->str, '\n'))) {
    *end = '\0';
    char **fields = g_strsplit(child->input->str, "\t", 3);
    char *text = g_strcompress(fields[2]);
    take_event(run, child, fields, text);
    g_free(text);
    g_strfreev(fields);
    g_string_erase(child->input, 0, end + 1 - child->input->str);
  }
}

/* Reads until the child closes the pipe. Whether it did so in time. */
static gboolean read_child(Run *run, Child *child) {
  char buffer[4096];
  for (;;) {
    gint64 left = child->began + (gint64)run->timeout * G_USEC_PER_SEC - g_get_monotonic_time();
    struct pollfd ready = {child->fd, POLLIN, 0};
    int rc = left > 0 ? poll(&ready, 1, (int)(left / 1000) + 1) : 0;
    if (rc < 0 && errno == EINTR)
      continue;
    if (rc <= 0)
      return FALSE;
    ssize_t size = read(child->fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      return TRUE;
    g_string_append_len(child->input, buffer, size);
    take_input(run, child);
  }
}

/* Waits for a child that has said all that it will. Whether it ended in time. */
static gboolean await_child(const Run *run, const Child *child, int *status) {
  gint64 end = child->began + (gint64)run->timeout * G_USEC_PER_SEC;
  for (;;) {
    if (waitpid(child->pid, status, WNOHANG) == child->pid)
      return TRUE;
    if (g_get_monotonic_time() > end)
      return FALSE;
    g_usleep(1000);
  }
}

static char *describe_end(const Run *run, const Child *child, gboolean is_in_time, int status) {
  const char *when = child->is_exiting   ? ", at the process's end"
                     : child->is_running ? ""
                                         : ", after the check had passed";
  if (!is_in_time)
    return g_strdup_printf("no answer within %d seconds%s", run->timeout, when);
  if (WIFSIGNALED(status))
    return g_strdup_printf("the process was ended by signal %d (%s)%s", WTERMSIG(status),
                           g_strsignal(WTERMSIG(status)), when);
  return g_strdup_printf("the process ended with status %d%s", WEXITSTATUS(status), when);
}

/* A check fails in whose time the process crashes or hangs; between two, that is the earlier. */
static void judge_end(Run *run, const Child *child, gboolean is_in_time, int status) {
  gboolean is_clean = is_in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (child->index < 0 || (is_clean && !child->is_running))
    return;
  if (is_clean && child->is_exiting) {
    finish_check(run, child, OUTCOME_PASSED, NULL);
    return;
  }
  char *text = describe_end(run, child, is_in_time, status);
  finish_check(run, child, OUTCOME_FAILED, text);
  g_free(text);
}

/* Runs `work` in a child, and follows it to its end. index: the check that it starts with. */
static int run_child(Run *run, void (*work)(Run *run, guint first), int index) {
  int ends[2], status = 0;
  /* A compiler that the plugin runs, and that outlives the child, would keep the pipe open. */
  if (pipe2(ends, O_CLOEXEC) != 0)
    return bp_error_raise(BP_ERROR_IO, "no pipe to a child: %s", g_strerror(errno));
  Child child = {.index = index, .is_running = TRUE, .began = g_get_monotonic_time()};
  fflush(NULL); /* a child that ends by exit() writes out what it inherits */
  child.pid = fork();
  if (child.pid == 0) {
    close(ends[0]);
    report_fd = ends[1];
    begin_child(run);
    work(run, (guint)index);
    _exit(0);
  }
  close(ends[1]);
  child.fd = ends[0];
  child.input = g_string_new(NULL);
  gboolean is_in_time =
      child.pid > 0 && read_child(run, &child) && await_child(run, &child, &status);
  if (child.pid > 0 && !is_in_time) {
    kill(child.pid, SIGKILL);
    waitpid(child.pid, &status, 0);
  }
  g_string_free(child.input, TRUE);
  close(child.fd);
  if (child.pid < 0)
    return bp_error_raise(BP_ERROR_IO, "no child process: %s", g_strerror(errno));
  judge_end(run, &child, is_in_time, status);
  return 0;
}

int bp__run_identify(Run *run) {
  return run_child(run, tell_facts, -1);
}

static gboolean is_failure(const Result *result) {
  return result->outcome == OUTCOME_FAILED && !result->is_expected_to_fail;
}

int bp__run_checks(Run *run) {
  gboolean has_failed = FALSE;
  for (guint i = 0; i < run->results->len; i++) {
    Result *result = &g_array_index(run->results, Result, i);
    if (has_failed && run->fail_fast)
      result->outcome = OUTCOME_LEFT_OUT;
    while (result->outcome == OUTCOME_PENDING && !bp__run_settle(run, result))
      if (run_child(run, run_section, (int)i))
        return -1;
    has_failed |= is_failure(result);
    bp__report_progress(run, run->report);
  }
  return 0;
}
