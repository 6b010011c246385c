/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane report`: writes a page that shows where a model runs, and where its time and memory
 * go. */
#include "tools/command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <backplane/version.h>

#define FORM 1 /* version of the data, which --earlier reads */

/* The page's lines; the data replaces the line "@DATA@". */
static const char *const page[] = {
#include "tools/report-page.h"
};

typedef struct ReportOptions {
  char *output;
  char **earlier;
  double seconds;
} ReportOptions;

/* ---- The machine ------------------------------------------------------------------------- */

/* Returns the value of the first line "KEY : VALUE" of a file (transfer full); NULL: there is
 * none. */
static char *read_line_of(const char *path, const char *key) {
  char *text = NULL, *value = NULL;
  if (!g_file_get_contents(path, &text, NULL, NULL))
    return NULL;
  char **lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line && !value; line++) {
    const char *colon = g_str_has_prefix(*line, key) ? strchr(*line, ':') : NULL;
    if (colon)
      value = g_strstrip(g_strdup(colon + 1));
  }
  g_strfreev(lines);
  g_free(text);
  return value;
}

static json_t *machine_json(void) {
  json_t *machine = json_object();
  struct utsname name;
  char *processor = read_line_of("/proc/cpuinfo", "model name");
  char *memory = read_line_of("/proc/meminfo", "MemTotal");
  json_add_str(machine, "backplane", bp_version());
  if (uname(&name) == 0) {
    char *text = g_strdup_printf("%s %s %s", name.sysname, name.release, name.machine);
    json_add_str(machine, "system", text);
    g_free(text);
  }
  if (processor)
    json_add_str(machine, "processor", processor);
  json_add_int(machine, "processors", sysconf(_SC_NPROCESSORS_ONLN));
  if (memory)
    json_add_str(machine, "memory", memory);
  json_add_int(machine, "threads", bp_threads_get());
  g_free(memory);
  g_free(processor);
  return machine;
}

static char *now_text(void) {
  GDateTime *now = g_date_time_new_now_utc();
  char *text = g_date_time_format(now, "%Y-%m-%d %H:%M UTC");
  g_date_time_unref(now);
  return text;
}

/* ---- Sides ------------------------------------------------------------------------------- */

/* Describes each device that the model uses, as inspect does. NULL with an error. */
static json_t *devices_json(const LoadedModel *side) {
  json_t *devices = json_array();
  for (size_t i = 0; i < side->num_devices; i++) {
    char name[DEVICE_TEXT_MAX];
    bp_device_format(side->devices[i], name, sizeof name);
    json_t *device = inspect_device_json(name);
    if (!device) {
      json_decref(devices);
      return NULL;
    }
    json_append(devices, device);
  }
  return devices;
}

/* Returns all data of one side of the page; takes ownership of `bench`. NULL with an error. */
static json_t *side_json(LoadedModel *side, const ModelOptions *options, double seconds,
                         json_t *bench) {
  const ProfileOptions extra = {.runs = 3, .seconds = seconds};
  GArray *operators = NULL;
  json_t *root = json_object(), *devices = NULL;
  char *created = now_text();
  json_add(root, "bench", bench);
  int runs = model_set_inputs(side, options) < 0 ? -1 : operators_measure(side, &extra, &operators);
  if (runs > 0 && (devices = devices_json(side))) {
    json_add_str(root, "model", side->path);
    json_add_str(root, "device", side->device_text);
    json_add_str(root, "created", created);
    json_add_str(root, "report", side->report ? side->report : "");
    json_add(root, "inspected", inspect_model_json(side));
    json_add(root, "machine", machine_json());
    json_add(root, "devices", devices);
    json_add(root, "ceilings", ceilings_measure(side));
    claims_add_json(root, &side->claims);
    json_add_int(root, "profile_runs", runs);
    json_add(root, "operators", operators_json(operators));
  } else {
    bp_error_add_context("%s on %s", side->path, side->device_text);
    json_decref(root);
    root = NULL;
  }
  if (operators)
    g_array_unref(operators);
  g_free(created);
  return root;
}

/* Adds the sides of an earlier report. 0 or -1 with an error. */
static int add_earlier(const char *path, json_t *sides) {
  json_error_t error;
  gsize size;
  char *text = file_read(path, &size);
  if (!text)
    return -1;
  json_t *earlier = json_loadb(text, size, 0, &error), *list = json_object_get(earlier, "sides");
  gboolean is_report =
      json_integer_value(json_object_get(earlier, "report")) == FORM && json_array_size(list);
  for (size_t i = 0; is_report && i < json_array_size(list); i++)
    is_report = json_is_array(json_object_get(json_array_get(list, i), "operators")) &&
                json_is_object(json_object_get(json_array_get(list, i), "bench"));
  if (is_report)
    json_array_extend(sides, list);
  else
    bp_error_raise(BP_ERROR_VALUE,
                   "%s was not printed by `backplane report --json` of this version", path);
  json_decref(earlier);
  g_free(text);
  return is_report ? 0 : -1;
}

static int add_sides(GPtrArray *models, const ModelOptions *options, const ReportOptions *extra,
                     json_t *sides) {
  json_t *benches = bench_sides(models, options, extra->seconds);
  int status = benches ? 0 : -1;
  for (guint i = 0; i < models->len && status == 0; i++) {
    json_t *side = side_json(models->pdata[i], options, extra->seconds,
                             json_incref(json_array_get(benches, i)));
    status = side ? 0 : -1;
    if (side)
      json_append(sides, side);
  }
  json_decref(benches);
  return status;
}

/* ---- The page ---------------------------------------------------------------------------- */

/* The data is inside an element of the page, which a '<' in a name could end, so '<' is escaped. */
static void add_data(GString *out, const char *text) {
  for (; *text; text++)
    if (*text == '<')
      g_string_append(out, "\\u003c");
    else
      g_string_append_c(out, *text);
}

static int write_page(const char *path, const char *text) {
  GString *out = g_string_new(NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(page); i++)
    if (strcmp(page[i], "@DATA@\n") == 0)
      add_data(out, text);
    else
      g_string_append(out, page[i]);
  int status = command_write_file(path, "the report", out->str, out->len);
  g_string_free(out, TRUE);
  return status;
}

/* Takes ownership of the document. */
static int write_report(json_t *document, const ModelOptions *options, const ReportOptions *extra) {
  size_t count = json_array_size(json_object_get(document, "sides"));
  char *text = json_finish(document, !options->json);
  int status = extra->output ? write_page(extra->output, text) : 0;
  if (status == 0 && options->json)
    fprintf(command_out(), "%s\n", text);
  else if (status == 0)
    command_print_line(command_out(),
                       "%s: %zu measurement%s of a model on a device; open it in a browser",
                       extra->output, count, count == 1 ? "" : "s");
  g_free(text);
  return status;
}

/* ---- The command ------------------------------------------------------------------------- */

static int report_models(char *const *paths, const ModelOptions *options,
                         const ReportOptions *extra) {
  GPtrArray *models = sides_open(paths, options);
  json_t *document = json_object(), *sides = json_array();
  int status = models ? add_sides(models, options, extra, sides) : -1;
  for (char **path = extra->earlier; path && *path && status == 0; path++)
    status = add_earlier(*path, sides);
  json_add_int(document, "report", FORM);
  json_add(document, "sides", sides);
  if (status == 0)
    status = write_report(document, options, extra);
  else
    json_decref(document);
  if (models)
    g_ptr_array_unref(models);
  return status == 0 ? EXIT_OK : command_fail(options->json);
}

static int check_and_report(int argc, char **argv, const ModelOptions *options,
                            const ReportOptions *extra) {
  int status;
  if (sides_explain_preferences(options, &status))
    return status;
  if (argc < 2)
    return command_usage_error("report takes one model or several");
  if (!extra->output && !options->json)
    return command_usage_error("report needs --output FILE.html, or --json");
  if (!(extra->seconds >= 0 && isfinite(extra->seconds)))
    return command_usage_error("--seconds is at least 0");
  if (model_check_output("--output", extra->output, argv + 1, options) < 0 ||
      command_check_output("--output", extra->output, extra->earlier) < 0 ||
      command_check_kind("--output", extra->output, "<!DOCTYPE html>", "HTML page") < 0)
    return command_fail(options->json);
  return report_models(argv + 1, options, extra);
}

int cmd_report(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  ReportOptions report = {.seconds = 1.0};
  const GOptionEntry extra[] = {
      {"output", 'o', 0, G_OPTION_ARG_FILENAME, &report.output, "file to write the page to",
       "FILE.html"},
      {"earlier", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &report.earlier,
       "compare with the --json output of an earlier report; may be repeated", "FILE.json"},
      {"seconds", 0, 0, G_OPTION_ARG_DOUBLE, &report.seconds,
       "least seconds for measuring runs, and again for measuring operators (1)", "S"},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  options.fills = options.has_sides = TRUE;
  GOptionEntry *entries = model_option_entries(&options, extra);
  int status = EXIT_USAGE;
  if (command_parse(
          &argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER...",
          "Measures models on devices, and writes a page for a browser: the graph, each operator's "
          "time,\nroofline and memory, where each runs and why, and how the devices differ. "
          "--device may be repeated.",
          "The page loads nothing. Inputs without --input are filled with seeded random numbers;\n"
          "--shape fixes the shapes that the model leaves open."))
    status = check_and_report(argc, argv, &options, &report);
  g_free(entries);
  g_free(report.output);
  g_strfreev(report.earlier);
  model_options_clear(&options);
  return status;
}
