/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a child process: it runs the checks of a section until one fails, or finds the facts
 * for the report's head. The child process reports through a pipe, one line for each event:
 *
 *   fact NAME VALUE      for the report's head
 *   identity - TEXT      the device's attributes
 *   refused - TEXT       there is no such plugin, or the options do not suit the plugin
 *   begin INDEX -        a check starts; the deadline counts from here
 *   going INDEX -        the check begins another part; the deadline counts from here
 *   passed|failed|skipped|inapplicable|absent INDEX TEXT
 *   exiting INDEX -      passed if the child now ends with status 0
 *
 * fields are separated by tabs, and the last field is escaped as in C. The plugin's output goes to
 * stderr; a check may request that the child captures the output. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conformance/run.h"

/* ---- Events ------------------------------------------------------------------------------ */

/* The child's end of the pipe, and the number of the running check: a check can fail in any
 * thread. */
static int report_fd = -1;
static const Check *current_check;
static char index_text[16]; /* index of the running check among the results */
static jmp_buf check_end;

/* Lines are written whole, from any thread. The thread that fails the check keeps the lock until
 * the process ends, so nothing follows its line. */
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

static void write_event(const char *event, const char *first, const char *text) {
  char *escaped = g_strescape(text, NULL);
  char *line = g_strdup_printf("%s\t%s\t%s\n", event, first, escaped);
  size_t size = strlen(line);
  for (size_t done = 0; done < size;) {
    ssize_t written = write(report_fd, line + done, size - done);
    if (written < 0 && errno != EINTR)
      _exit(1);
    done += written > 0 ? (size_t)written : 0;
  }
  g_free(line);
  g_free(escaped);
}

static void tell(const char *event, const char *first, const char *text) {
  pthread_mutex_lock(&report_lock);
  write_event(event, first, text);
  pthread_mutex_unlock(&report_lock);
}

static void tell_check(const char *event, const char *text) {
  tell(event, index_text, text);
}

static void tell_text(const char *event, const char *format, va_list args) G_GNUC_PRINTF(2, 0);

static void tell_text(const char *event, const char *format, va_list args) {
  char *text = g_strdup_vprintf(format, args);
  tell_check(event, text);
  g_free(text);
}

static _Noreturn void end_failed(const char *format, va_list args) G_GNUC_PRINTF(1, 0);

static _Noreturn void end_failed(const char *format, va_list args) {
  char *text = g_strdup_vprintf(format, args);
  pthread_mutex_lock(&report_lock);
  write_event("failed", index_text, text);
  _exit(0);
}

void bp__kit_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  end_failed(format, args);
}

void bp__kit_skip(const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (current_check->tags & CHECK_CORE)
    end_failed(format, args);
  tell_text("skipped", format, args);
  va_end(args);
  longjmp(check_end, 1);
}

void bp__kit_absent(const char *format, ...) {
  va_list args;
  va_start(args, format);
  tell_text("absent", format, args);
  va_end(args);
  longjmp(check_end, 1);
}

void bp__kit_go_on(void) {
  tell_check("going", "");
}

void bp__kit_exit(void) {
  tell_check("exiting", "");
  exit(0);
}

/* ---- Output ------------------------------------------------------------------------------ */

void bp__kit_capture_begin(void) {
  int fd = memfd_create("conformance-stdout", MFD_CLOEXEC);
  if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
    _exit(1);
  close(fd);
}

char *bp__kit_capture_end(void) {
  GString *text = g_string_new(NULL);
  char buffer[4096];
  ssize_t size;
  fflush(stdout);
  lseek(STDOUT_FILENO, 0, SEEK_SET);
  while ((size = read(STDOUT_FILENO, buffer, sizeof buffer)) > 0)
    g_string_append_len(text, buffer, size);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  fputs(text->str, stderr);
  return g_string_free(text, FALSE);
}

/* ---- The plugin -------------------------------------------------------------------------- */

#define REMOTE "remote:"

static gboolean is_remote(const char *subject) {
  return g_str_has_prefix(subject, REMOTE);
}

static const BpPluginInfo *find_path(const BpPluginList *list, const char *path) {
  for (size_t i = 0; list && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (strcmp(info->path, path) == 0)
      return info;
  }
  return NULL;
}

static const BpPluginInfo *find_info(const BpPluginList *list, const char *subject) {
  if (is_remote(subject))
    return find_path(list, subject);
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

/* Says why there is no plugin REMOTE HOST/NAME: the machine cannot be reached, or its plugins have
 * other names. */
static int raise_no_remote(const BpPluginList *list, const char *subject, const char *host) {
  char *machine = g_strconcat(REMOTE, host, NULL), *prefix = g_strconcat(machine, "/", NULL);
  GString *names = g_string_new(NULL);
  const BpPluginInfo *unreachable = find_path(list, machine);
  for (size_t i = 0; list && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (g_str_has_prefix(info->path, prefix))
      g_string_append_printf(names, "%s%s", names->len ? ", " : "", info->path);
  }
  if (unreachable)
    bp_error_raise(BP_ERROR_DEVICE, "%s: %s cannot be used: %s", subject, machine,
                   unreachable->reason);
  else
    bp_error_raise(BP_ERROR_VALUE, "%s: %s has no plugin of this name that can be isolated; %s%s",
                   subject, host, names->len ? "it has " : "it has none", names->str);
  g_string_free(names, TRUE);
  g_free(prefix);
  g_free(machine);
  return -1;
}

/* Activates a plugin of another machine through its first kind of device. */
static int activate_remote(const char *subject) {
  const char *name = strrchr(subject, '/');
  if (!name || !name[1] || name == subject + strlen(REMOTE))
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s: a plugin of another machine is written remote:HOST/PLUGIN; "
                          "`BACKPLANE_REMOTE=HOST backplane list` lists them",
                          subject);
  char *host = g_strndup(subject + strlen(REMOTE), (size_t)(name - subject) - strlen(REMOTE));
  BpDevice device;
  int32_t count;
  g_setenv("BACKPLANE_REMOTE", host, TRUE);
  BpPluginList *list = bp_plugin_list();
  const BpPluginInfo *info = find_path(list, subject);
  int rc = info ? 0 : raise_no_remote(list, subject, host);
  char **kinds = g_strsplit(info ? info->devices : "", " ", -1);
  if (kinds[0])
    rc = bp_device_parse(kinds[0], &device) || bp_device_count(device.device_type, &count, NULL)
             ? -1
             : 0;
  g_strfreev(kinds);
  bp_plugin_list_free(list);
  g_free(host);
  return rc;
}

/* Collects information about the plugin after its activation, or the failure of the activation. */
static void prepare(Kit *kit) {
  bp__kit_capture_begin();
  if (is_remote(kit->subject) ? activate_remote(kit->subject) : bp_plugin_activate(kit->subject))
    kit->activation_error = g_strdup(bp_error_message());
  kit->activation_output = bp__kit_capture_end();
  bp_error_clear();
  kit->plugins = bp_plugin_list();
  kit->info = find_info(kit->plugins, kit->subject);
  kit->kinds = g_strsplit(kit->info ? kit->info->devices : "", " ", -1);
  kit->targets = g_strsplit(kit->info ? kit->info->targets : "", " ", -1);
}

/* Reports the SHA-256 of the plugin's file. A plugin linked into the program has only the program's
 * file. A file that is not regular may have no end. */
static void tell_file(const char *path) {
  char *data = NULL;
  gsize size = 0;
  char *program = *path ? NULL : g_file_read_link("/proc/self/exe", NULL);
  path = program ? program : path;
  if (!g_file_test(path, G_FILE_TEST_IS_REGULAR) ||
      !g_file_get_contents(path, &data, &size, NULL)) {
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

/* Reports where the plugin runs, and the plugins of this name that are not checked. */
static void tell_place(const Kit *kit) {
  const BpPluginInfo *info = kit->info;
  GString *place = g_string_new(NULL);
  if (is_remote(info->path))
    g_string_append_printf(place, "on another machine, %s", info->path);
  else
    g_string_append(place, info->is_isolated ? "in a process of its own (BACKPLANE_ISOLATE)"
                                             : "in the program");
  for (size_t i = 0; i < bp_plugin_list_size(kit->plugins); i++) {
    const BpPluginInfo *other = bp_plugin_list_get(kit->plugins, i);
    if (is_remote(other->path) && strcmp(other->name, info->name) == 0 &&
        strcmp(other->path, info->path) != 0)
      g_string_append_printf(place, "; %s is not checked", other->path);
  }
  const char *layers = g_getenv("BACKPLANE_LAYERS");
  tell("fact", "runs", place->str);
  tell("fact", "layers", layers && *layers ? layers : "none");
  g_string_free(place, TRUE);
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
      char name[256];
      bp_device_format(device, name, sizeof name);
      tell_str_attr(device, name, BP_ATTR_DEVICE_NAME);
      tell_str_attr(device, "driver", BP_ATTR_DRIVER_VERSION);
    }
  }
  bp_error_clear();
}

/* Whether --target names a target that concerns the plugin: one of its own, or another generator's
 * target for its device. */
static gboolean fits_target(const Kit *kit, const BpTarget *target) {
  BpDevice device;
  return g_strv_contains((const char *const *)kit->targets, bp_target_kind(target)) ||
         (kit->kinds[0] && bp_device_parse(kit->kinds[0], &device) == 0 &&
          BP_DEVICE_TYPE_OF_CODE(device.device_type) == bp_target_device_type(target));
}

static const char *or_none(const char *names) {
  return *names ? names : "none";
}

static void check_target_option(const Kit *kit) {
  if (!kit->target_option || !kit->info || kit->activation_error)
    return;
  BpTarget *target = bp_target_parse(kit->target_option);
  char *reason = NULL;
  if (!target)
    reason = g_strdup_printf("--target %s: %s", kit->target_option, bp_error_message());
  else if (!fits_target(kit, target))
    reason = g_strdup_printf(
        "--target %s: it is not one of the plugin's targets (%s), and its code "
        "runs on none of the plugin's devices (%s)",
        kit->target_option, or_none(kit->info->targets), or_none(kit->info->devices));
  if (reason)
    tell("refused", "-", reason);
  g_free(reason);
  bp_object_release(target);
  bp_error_clear();
}

/* Reports the device's identity, for checks that run in other processes. */
static void tell_identity(const Kit *kit) {
  BpDevice device;
  int32_t count = 0;
  if (kit->activation_error || !kit->kinds[0] || bp_device_parse(kit->kinds[0], &device) != 0 ||
      bp_device_count(device.device_type, &count, NULL) != 0 || kit->device_index >= count)
    return;
  device.device_id = kit->device_index;
  char *text = bp__kit_describe(device);
  if (text)
    tell("identity", "-", text);
  g_free(text);
}

/* Whether the plugin's file has no descriptor that can be checked. */
static gboolean is_no_plugin(const BpPluginInfo *info) {
  static const char *const codes[] = {"file-not-elf",   "file-not-shared",    "file-malformed",
                                      "file-truncated", "descriptor-missing", NULL};
  return info->state == BP_PLUGIN_REJECTED && g_strv_contains(codes, info->code);
}

static void refuse_file(const BpPluginInfo *info) {
  char *reason =
      g_strdup_printf("%s %s; give a plugin, by its name or its file", info->path, info->reason);
  tell("refused", "-", reason);
  g_free(reason);
}

void bp__child_identify(Run *run, guint first) {
  const Kit *kit = &run->kit;
  (void)first;
  if (!kit->info) {
    tell("refused", "-", kit->activation_error ? kit->activation_error : kit->subject);
    return;
  }
  if (is_no_plugin(kit->info)) {
    refuse_file(kit->info);
    return;
  }
  tell("fact", "plugin", kit->info->name);
  tell("fact", "version", kit->info->version);
  tell("fact", "abi", kit->info->abi);
  tell_file(kit->info->path);
  tell_place(kit);
  tell_devices(kit);
  tell_identity(kit);
  bp_error_clear();
  check_target_option(kit);
}

/* ---- Checks ------------------------------------------------------------------------------ */

/* Whether the plugin provides a name that begins with `prefix`. */
static gboolean provides(const Kit *kit, const char *prefix) {
  char **names = g_strsplit(kit->info->provides, " ", -1);
  gboolean has = FALSE;
  for (char **name = names; *name; name++)
    has |= g_str_has_prefix(*name, prefix);
  g_strfreev(names);
  return has;
}

static gboolean has_graph_compiler(const Kit *kit) {
  return provides(kit, "graph_compiler.");
}

/* Whether the plugin's generator refuses the smallest function as not implemented: the plugin then
 * has a graph compiler instead of a generator. A target with thread axes is for generated code. */
static gboolean refuses_code(const Kit *kit) {
  static const char text[] =
      "(module (function \"f\" (buffer A int32 global 4) (store A 0 0:int32)))";
  static int known; /* 1: yes, -1: no */
  if (!known) {
    BpTarget *target = bp_target_parse(kit->target_option ? kit->target_option : kit->targets[0]);
    int is_plain = target && !bp_target_get_int(target, BP_TARGET_THREAD_AXES, 0);
    BpIrModule *ir = is_plain ? bp_ir_parse(text, strlen(text)) : NULL;
    BpModule *module = ir ? bp_target_build(ir, target) : NULL;
    known = ir && !module && bp_error_is(BP_ERROR_NOT_IMPLEMENTED) ? 1 : -1;
    bp_error_clear();
    bp_object_release(module);
    bp_object_release(ir);
    bp_object_release(target);
  }
  return known > 0;
}

static const char *reason_to_skip(const Kit *kit, const Section *section) {
  if ((section->needs & NEEDS_DEVICE) && kit->info && !kit->kinds[0])
    return "the plugin provides no device";
  if ((section->needs & NEEDS_TARGET) && kit->info && !kit->targets[0] && !kit->target_option)
    return "the plugin provides no target";
  if (!kit->info || kit->activation_error)
    return NULL;
  if ((section->needs & NEEDS_GRAPH_COMPILER) && !has_graph_compiler(kit))
    return "the plugin provides no graph compiler";
  if ((section->needs & NEEDS_OPERATORS) && !provides(kit, "operator."))
    return "the plugin provides no single operators";
  if ((section->needs & NEEDS_TARGET) && has_graph_compiler(kit) && refuses_code(kit))
    return "the plugin generates no code: it has a graph compiler, and its target refuses "
           "functions";
  return NULL;
}

static void run_check(Run *run, guint index) {
  Result *result = &g_array_index(run->results, Result, index);
  const char *inapplicable = reason_to_skip(&run->kit, result->section);
  g_snprintf(index_text, sizeof index_text, "%u", index);
  current_check = result->check;
  tell_check("begin", "");
  if (inapplicable) {
    tell_check("inapplicable", inapplicable);
    result->outcome = OUTCOME_INAPPLICABLE;
    return;
  }
  bp_error_clear(); /* an earlier, skipped check may have left its refusal */
  if (setjmp(check_end) == 0) {
    result->check->run(&run->kit);
    tell_check("passed", "");
    result->outcome = OUTCOME_PASSED;
  } else {
    result->outcome =
        OUTCOME_ABSENT; /* for checks that build on it and run before the parent has the result */
  }
}

void bp__child_run_section(Run *run, guint first) {
  const Section *section = g_array_index(run->results, Result, first).section;
  for (guint i = first; i < run->results->len; i++) {
    Result *result = &g_array_index(run->results, Result, i);
    if (result->section != section)
      break;
    if (result->outcome == OUTCOME_PENDING && !bp__run_settle(run, result))
      run_check(run, i);
  }
}

/* ---- The process ------------------------------------------------------------------------- */

void bp__child_main(Run *run, int fd, ChildWork *work, guint first) {
  const struct rlimit none = {0, 0};
  report_fd = fd;
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a check that hangs also ends when the kit ends */
  dup2(STDERR_FILENO, STDOUT_FILENO);
  dup2(STDERR_FILENO, fileno(run->out));
  g_setenv("TMPDIR", run->kit.folder, TRUE); /* a killed process leaves files only in this folder */
  prepare(&run->kit);
  work(run, first);
  _exit(0);
}
