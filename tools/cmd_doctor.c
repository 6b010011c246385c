/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane doctor`: shows each plugin, stage by stage, with problems and remedies. */
#include "tools/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <backplane/object.h>
#include <backplane/plugins.h>

/* The time limit of a question that loads plugins, after each plugin has been tried out. */
#define QUESTION_SECONDS 120

static const char *const severity_names[] = {"ok", "note", "warning", "error"};

/* The device that a program gets by default. */
typedef struct Choice {
  char device[DEVICE_TEXT_MAX]; /* "" if none */
  char *report;       /* the devices that were passed over, or the reason why there is none */
  const char *remedy; /* remedy if there is none */
} Choice;

static const BpPluginReason *find_reason(const char *code) {
  const BpPluginReason *reason;
  for (size_t i = 0; (reason = bp_plugin_reason(i)) && strcmp(reason->code, code) != 0; i++) {
  }
  return reason;
}

/* Returns the advice if no device fits. */
static const char *choice_remedy(const BpPluginList *list) {
  if (bp_plugin_list_size(list) == 0)
    return "install a backend, each a package of its own as backplane-plugin-cpu, or name a folder "
           "that holds plugins in BACKPLANE_PLUGIN_PATH";
  char *preferences = bp_device_preferences();
  gboolean is_asked_for = !preferences || *preferences;
  bp_str_free(preferences);
  return is_asked_for ? find_reason("selection-failed")->remedy
                      : "follow the remedies of the plugins above";
}

/* ---- Questions to a child process -------------------------------------------------------- */

/* The child's answer, in memory that it shares with this process. */
typedef struct Answer {
  char result[DEVICE_TEXT_MAX];
  char report[(1 << 20) - 80]; /* a longer report is truncated */
  gboolean is_complete;
} Answer;

/* Fills in the result, or "", and the report. */
typedef void (*Answering)(const void *question, Answer *answer);

/* Says how the child process ended without an answer (transfer full). */
static char *describe_end(int status) {
  int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (number == SIGALRM)
    return g_strdup_printf("there was no answer in %d s: a plugin that works in its trial hangs "
                           "in a program",
                           QUESTION_SECONDS);
  return g_strdup_printf("the process that asked was ended (%s): a plugin that works in its trial "
                         "ends a program",
                         number ? g_strsignal(number) : "without a signal");
}

/* Returns the report (transfer full). */
static char *ask_process(Answering answering, const void *question, Answer *answer) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(QUESTION_SECONDS);
    answering(question, answer);
    answer->is_complete = TRUE;
    _exit(0);
  }
  if (child < 0)
    return g_strdup_printf("cannot start a process: %s", g_strerror(errno));
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (answer->is_complete)
    return g_strdup(answer->report);
  *answer->result = '\0';
  return describe_end(status);
}

/* Asks a question in a child process, because the answer loads plugins. Returns the report
 * (transfer full). */
static char *ask(Answering answering, const void *question, char result[DEVICE_TEXT_MAX]) {
  Answer *answer =
      mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  *result = '\0';
  if (answer == MAP_FAILED)
    return g_strdup_printf("there is no memory to ask: %s", g_strerror(errno));
  char *report = ask_process(answering, question, answer);
  g_strlcpy(result, answer->result, sizeof answer->result);
  munmap(answer, sizeof *answer);
  return report;
}

static void choose_device(const void *question, Answer *answer) {
  (void)question;
  BpDevice device;
  char *report = NULL;
  gboolean is_found = bp_device_select(NULL, &device, &report) == 0;
  if (is_found)
    bp_device_format(device, answer->result, sizeof answer->result);
  g_strlcpy(answer->report, is_found ? report : bp_error_message(), sizeof answer->report);
}

static void choose(Choice *choice, const BpPluginList *list) {
  choice->report = ask(choose_device, NULL, choice->device);
  if (!*choice->device)
    choice->remedy = choice_remedy(list);
}

/* ---- Code -------------------------------------------------------------------------------- */

static void check_code(const void *question, Answer *answer) {
  const BpPluginInfo *info = question;
  char **kinds = g_strsplit(info->targets, " ", -1);
  GString *done = g_string_new(NULL);
  int status = 0;
  for (char **kind = kinds; *kind && status == 0; kind++) {
    char *text = NULL;
    status = target_check(*kind, &text);
    if (status == 0)
      g_string_append_printf(done, "%s%s", done->len ? ", " : "", text);
    g_free(text);
  }
  g_strlcpy(answer->result, status == 0 ? "ok" : "", sizeof answer->result);
  g_strlcpy(answer->report, status == 0 ? done->str : bp_error_message(), sizeof answer->report);
  g_string_free(done, TRUE);
  g_strfreev(kinds);
}

/* Adds a finding that says whether a model can be compiled for the targets of a plugin. `texts`
 * owns the texts. */
static void add_code(GArray *findings, const BpPluginInfo *info, GPtrArray *texts) {
  char result[DEVICE_TEXT_MAX];
  char *text = ask(check_code, info, result);
  const BpPluginReason *reason = *result ? bp_plugin_reason(0) : find_reason("code-failed");
  BpPluginFinding finding = {
      .struct_size = sizeof finding,
      .stage = BP_STAGE_CODE,
      .severity = reason->severity,
      .plugin = info->name,
      .path = info->path,
      .code = reason->code,
      .text = text,
      .remedy = reason->remedy,
  };
  g_ptr_array_add(texts, text);
  g_array_append_val(findings, finding);
}

/* ---- Selection --------------------------------------------------------------------------- */

/* Whether the device, such as "opencl:1", is of one of the kinds. */
static gboolean has_kind(const char *kinds, const char *device) {
  char **words = g_strsplit(kinds, " ", -1);
  char *kind = g_strndup(device, (gsize)(strrchr(device, ':') ? strrchr(device, ':') - device : 0));
  gboolean found = *kind && g_strv_contains((const char *const *)words, kind);
  g_free(kind);
  g_strfreev(words);
  return found;
}

/* Adds the finding of the last stage of a plugin that has devices. */
static void add_selected(GArray *findings, const BpPluginInfo *info, const Choice *choice) {
  gboolean is_chosen = has_kind(info->devices, choice->device);
  const BpPluginReason *reason = is_chosen ? bp_plugin_reason(0) : find_reason("not-selected");
  BpPluginFinding finding = {
      .struct_size = sizeof finding,
      .stage = BP_STAGE_SELECTED,
      .severity = reason->severity,
      .plugin = info->name,
      .path = info->path,
      .code = reason->code,
      .text = is_chosen ? choice->device : reason->meaning,
      .remedy = reason->remedy,
  };
  g_array_append_val(findings, finding);
}

static const BpPluginInfo *find_plugin(const BpPluginList *list, const char *path) {
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    if (strcmp(bp_plugin_list_get(list, i)->path, path) == 0)
      return bp_plugin_list_get(list, i);
  return NULL;
}

/* Collects all findings, and adds findings for each usable plugin (transfer full). `texts` owns the
 * texts of the added findings. */
static GArray *collect(const BpPluginDiagnosis *diagnosis, const BpPluginList *list,
                       const Choice *choice, GPtrArray *texts) {
  GArray *findings = g_array_new(FALSE, FALSE, sizeof(BpPluginFinding));
  size_t size = bp_plugin_diagnosis_size(diagnosis);
  gboolean has_device = FALSE, starts = FALSE;
  for (size_t i = 0; i < size; i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    g_array_append_vals(findings, finding, 1);
    has_device |= finding->stage == BP_STAGE_DEVICES && finding->severity == BP_SEVERITY_OK;
    starts |= finding->stage == BP_STAGE_PROBE && finding->severity == BP_SEVERITY_OK;
    if (i + 1 < size && !strcmp(bp_plugin_diagnosis_get(diagnosis, i + 1)->path, finding->path))
      continue;
    const BpPluginInfo *info = find_plugin(list, finding->path);
    if (info && *info->devices && has_device)
      add_selected(findings, info, choice);
    if (info && *info->targets && starts)
      add_code(findings, info, texts);
    has_device = starts = FALSE;
  }
  return findings;
}

/* ---- The status ------------------------------------------------------------------ */

static int32_t worst_severity(const GArray *findings) {
  int32_t worst = BP_SEVERITY_OK;
  for (guint i = 0; i < findings->len; i++)
    worst = MAX(worst, g_array_index(findings, BpPluginFinding, i).severity);
  return worst;
}

static int exit_status(const GArray *findings, const Choice *choice) {
  if (!*choice->device)
    return EXIT_NO_DEVICE;
  int32_t worst = worst_severity(findings);
  return worst == BP_SEVERITY_ERROR ? EXIT_UNUSABLE
                                    : (worst == BP_SEVERITY_WARNING ? EXIT_WARNING : EXIT_OK);
}

/* ---- Text -------------------------------------------------------------------------------- */

static void print_severity(int32_t severity) {
  static const Style styles[] = {[BP_SEVERITY_OK] = STYLE_GOOD,
                                 [BP_SEVERITY_NOTE] = STYLE_HEADER,
                                 [BP_SEVERITY_WARNING] = STYLE_WARNING,
                                 [BP_SEVERITY_ERROR] = STYLE_ERROR};
  style_begin(command_out(), styles[severity]);
  fprintf(command_out(), "%-7s", severity_names[severity]);
  style_end(command_out());
}

static void print_finding(const BpPluginFinding *finding) {
  gboolean is_ok = finding->severity == BP_SEVERITY_OK;
  fprintf(command_out(), "  %-12s  ", bp_plugin_stage_name(finding->stage));
  print_severity(finding->severity);
  command_print_line(command_out(), "  %s%s%s", is_ok ? "" : finding->code, is_ok ? "" : ": ",
                     finding->text);
  if (!is_ok && *finding->remedy)
    command_print_line(command_out(), "  %-12s  %-7s  -> %s", "", "", finding->remedy);
}

static void print_choice(const Choice *choice) {
  if (*choice->device) {
    command_print_line(command_out(), "A program that asks for no device gets %s.%s%s",
                       choice->device, *choice->report ? " Passed over: " : "", choice->report);
    return;
  }
  command_print_line(command_out(), "selection-failed: %s", choice->report);
  command_print_line(command_out(), "-> %s", choice->remedy);
}

static void print_text(const GArray *findings, const Choice *choice) {
  const char *last = NULL;
  for (guint i = 0; i < findings->len; i++) {
    const BpPluginFinding *finding = &g_array_index(findings, BpPluginFinding, i);
    if (!last || strcmp(last, finding->path) != 0)
      command_print_line(command_out(), "%s", *finding->plugin ? finding->plugin : "search path");
    last = finding->path;
    print_finding(finding);
  }
  print_choice(choice);
}

static void print_codes_text(void) {
  static const char *const headers[] = {"STAGE", "CODE", "SEVERITY", "MEANING", NULL};
  Table *table = table_new(headers);
  const BpPluginReason *reason;
  for (size_t i = 0; (reason = bp_plugin_reason(i)); i++)
    table_add(table, bp_plugin_stage_name(reason->stage), reason->code,
              severity_names[reason->severity], reason->meaning);
  table_print(table);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *finding_json(const BpPluginFinding *finding) {
  json_t *object = json_object();
  json_add_str(object, "plugin", finding->plugin);
  json_add_str(object, "path", finding->path);
  json_add_str(object, "stage", bp_plugin_stage_name(finding->stage));
  json_add_str(object, "severity", severity_names[finding->severity]);
  json_add_str(object, "code", finding->code);
  json_add_str(object, "text", finding->text);
  json_add_str(object, "remedy", finding->remedy);
  return object;
}

static void print_codes_json(void) {
  json_t *root = json_object(), *codes = json_array();
  const BpPluginReason *reason;
  for (size_t i = 0; (reason = bp_plugin_reason(i)); i++) {
    json_t *code = json_object();
    json_add_str(code, "stage", bp_plugin_stage_name(reason->stage));
    json_add_str(code, "code", reason->code);
    json_add_str(code, "severity", severity_names[reason->severity]);
    json_add_str(code, "meaning", reason->meaning);
    json_add_str(code, "remedy", reason->remedy);
    json_append(codes, code);
  }
  json_add(root, "codes", codes);
  command_print_json(root);
}

static void print_json(const GArray *findings, const Choice *choice) {
  json_t *root = json_object(), *list = json_array();
  json_add_str(root, "worst", severity_names[worst_severity(findings)]);
  json_add_str(root, "device", choice->device);
  json_add_str(root, *choice->device ? "passed_over" : "reason", choice->report);
  if (!*choice->device)
    json_add_str(root, "remedy", choice->remedy);
  for (guint i = 0; i < findings->len; i++)
    json_append(list, finding_json(&g_array_index(findings, BpPluginFinding, i)));
  json_add(root, "findings", list);
  command_print_json(root);
}

/* ---- The command ------------------------------------------------------------------------- */

static int examine(gboolean json) {
  BpPluginDiagnosis *diagnosis = bp_plugin_diagnose();
  if (!diagnosis)
    return command_fail(json);
  Choice choice = {.report = NULL};
  BpPluginList *list = bp_plugin_list();
  choose(&choice, list);
  GPtrArray *texts = g_ptr_array_new_with_free_func(g_free);
  GArray *findings = collect(diagnosis, list, &choice, texts);
  if (json)
    print_json(findings, &choice);
  else
    print_text(findings, &choice);
  int status = exit_status(findings, &choice);
  g_array_unref(findings);
  g_ptr_array_unref(texts);
  bp_plugin_list_free(list);
  g_free(choice.report);
  bp_plugin_diagnosis_free(diagnosis);
  return status;
}

int cmd_doctor(int argc, char **argv) {
  gboolean json = FALSE, codes = FALSE;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {"codes", 0, 0, G_OPTION_ARG_NONE, &codes, "list all reason codes", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(
          &argc, &argv, entries, NULL,
          "Tries every plugin out in a process of its own, compiles a small model for each "
          "target, and names the remedy of each fault.",
          "Exit status: 0 no fault, 3 a warning, 4 a plugin that cannot be "
          "used, 5 no device that fits."))
    return EXIT_USAGE;
  if (argc > 1)
    return command_usage_error("doctor takes no argument, and got '%s'; `backplane inspect plugin "
                               "%s` is about one plugin",
                               argv[1], argv[1]);
  int status;
  if (!codes)
    return explain_preferences(NULL, &status) ? status : examine(json);
  if (json)
    print_codes_json();
  else
    print_codes_text();
  return EXIT_OK;
}
