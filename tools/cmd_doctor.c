/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane doctor`: each plugin, stage by stage, with what to do about what is the matter. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/object.h>
#include <backplane/plugins.h>

static const char *const severity_names[] = {"ok", "note", "warning", "error"};

/* Which device a program would get that asks for none. */
typedef struct Choice {
  char device[64]; /* "" if none */
  char *report;    /* what was passed over; or why there is none */
} Choice;

static void choose(Choice *choice) {
  BpDevice device;
  char *report = NULL;
  *choice->device = '\0';
  if (bp_device_select(NULL, &device, &report) == 0) {
    bp_device_format(device, choice->device);
    choice->report = g_strdup(report);
    bp_str_free(report);
    return;
  }
  choice->report = g_strdup(bp_error_message());
  bp_error_clear();
}

static const BpPluginReason *find_reason(const char *code) {
  const BpPluginReason *reason;
  for (size_t i = 0; (reason = bp_plugin_reason(i)) && strcmp(reason->code, code) != 0; i++) {
  }
  return reason;
}

/* ---- What the status is ------------------------------------------------------------------------
 */

static int32_t worst_severity(const BpPluginDiagnosis *diagnosis) {
  int32_t worst = BP_SEVERITY_OK;
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++)
    worst = MAX(worst, bp_plugin_diagnosis_get(diagnosis, i)->severity);
  return worst;
}

static int exit_status(const BpPluginDiagnosis *diagnosis, const Choice *choice) {
  if (!*choice->device)
    return EXIT_NO_DEVICE;
  int32_t worst = worst_severity(diagnosis);
  return worst == BP_SEVERITY_ERROR ? EXIT_UNUSABLE
                                    : (worst == BP_SEVERITY_WARNING ? EXIT_WARNING : EXIT_OK);
}

/* ---- Text --------------------------------------------------------------------------------------
 */

static void print_finding(const BpPluginFinding *finding) {
  printf("  %-12s  %-7s  ", bp_plugin_stage_name(finding->stage),
         severity_names[finding->severity]);
  if (finding->severity == BP_SEVERITY_OK) {
    printf("%s\n", finding->text);
    return;
  }
  printf("%s: %s\n", finding->code, finding->text);
  if (*finding->remedy)
    printf("  %-12s  %-7s  -> %s\n", "", "", finding->remedy);
}

static void print_choice(const Choice *choice) {
  const BpPluginReason *failed = find_reason("selection-failed");
  if (*choice->device)
    printf("A program that asks for no device gets %s.%s%s\n", choice->device,
           *choice->report ? " Passed over: " : "", choice->report);
  else
    printf("%s: %s\n-> %s\n", failed->code, choice->report, failed->remedy);
}

static void print_text(const BpPluginDiagnosis *diagnosis, const Choice *choice) {
  const char *last = NULL;
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    if (!last || strcmp(last, finding->path) != 0)
      printf("%s\n", *finding->plugin ? finding->plugin : "search path");
    last = finding->path;
    print_finding(finding);
  }
  if (!last)
    puts("No plugins are installed. Each backend is a package of its own, as "
         "backplane-plugin-cpu.");
  print_choice(choice);
}

static void print_codes(void) {
  static const char *const headers[] = {"STAGE", "CODE", "SEVERITY", "MEANING", NULL};
  Table *table = table_new(headers);
  const BpPluginReason *reason;
  for (size_t i = 0; (reason = bp_plugin_reason(i)); i++)
    table_add(table, bp_plugin_stage_name(reason->stage), reason->code,
              severity_names[reason->severity], reason->meaning);
  table_print(table);
}

/* ---- JSON --------------------------------------------------------------------------------------
 */

static void add_finding_json(JsonBuilder *builder, const BpPluginFinding *finding) {
  json_builder_begin_object(builder);
  json_add_str(builder, "plugin", finding->plugin);
  json_add_str(builder, "path", finding->path);
  json_add_str(builder, "stage", bp_plugin_stage_name(finding->stage));
  json_add_str(builder, "severity", severity_names[finding->severity]);
  json_add_str(builder, "code", finding->code);
  json_add_str(builder, "text", finding->text);
  json_add_str(builder, "remedy", finding->remedy);
  json_builder_end_object(builder);
}

static void print_json(const BpPluginDiagnosis *diagnosis, const Choice *choice) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_str(builder, "worst", severity_names[worst_severity(diagnosis)]);
  json_add_str(builder, "device", choice->device);
  json_add_str(builder, *choice->device ? "passed_over" : "reason", choice->report);
  json_builder_set_member_name(builder, "findings");
  json_builder_begin_array(builder);
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++)
    add_finding_json(builder, bp_plugin_diagnosis_get(diagnosis, i));
  json_builder_end_array(builder);
  json_builder_end_object(builder);
  command_print_json(builder);
}

/* ---- The command -------------------------------------------------------------------------------
 */

static int examine(gboolean json) {
  BpPluginDiagnosis *diagnosis = bp_plugin_diagnose();
  if (!diagnosis)
    return command_fail(json);
  Choice choice;
  choose(&choice);
  if (json)
    print_json(diagnosis, &choice);
  else
    print_text(diagnosis, &choice);
  int status = exit_status(diagnosis, &choice);
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
  if (!command_parse(&argc, &argv, entries, NULL,
                     "Tries every plugin out in a process of its own and says what to do about "
                     "what is the matter.",
                     "Exit status: 0 nothing to be done, 3 a warning, 4 a plugin that cannot be "
                     "used, 5 no device that fits."))
    return EXIT_USAGE;
  if (argc > 1)
    return command_usage_error("doctor takes no argument, and got '%s'", argv[1]);
  if (!codes)
    return examine(json);
  print_codes();
  return EXIT_OK;
}
