/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane profile`: shows where the time of a run goes. */
#include "tools/command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <backplane/graph/npy.h>

/* ---- Output ------------------------------------------------------------------------------ */

static int slower_first(const void *a, const void *b) {
  const Operator *first = a, *second = b;
  int64_t x = first->min_ns, y = second->min_ns;
  return x == y ? (first->place > second->place) - (first->place < second->place)
                : (x < y) - (x > y);
}

static double total_min_us(const GArray *records) {
  int64_t total = 0;
  for (guint i = 0; i < records->len; i++)
    total += g_array_index(records, Operator, i).min_ns;
  return (double)total / 1e3;
}

/* Formats a number with three significant digits, "-" for 0 (transfer full). */
static char *rate_text(double rate) {
  return rate > 0 ? g_strdup_printf("%.*f",
                                    rate >= 100  ? 0
                                    : rate >= 10 ? 1
                                                 : 2,
                                    rate)
                  : g_strdup("-");
}

static void print_text(const LoadedModel *loaded, const GArray *records, int runs) {
  static const char *const headers[] = {"NODE", "FUNCTION", "TIME (us)", "SHARE", "GFLOP/s",
                                        "GB/s", "SHAPE",    "COMPUTES",  NULL};
  double total = total_min_us(records);
  model_print_report(loaded);
  Table *table = table_new(headers);
  for (guint i = 0; i < records->len; i++) {
    const Operator *record = &g_array_index(records, Operator, i);
    char time[32], share[32], *gflops = rate_text(operator_gflops(record)),
                              *gbps = rate_text(operator_gbps(record));
    double us = (double)record->min_ns / 1e3;
    snprintf(time, sizeof(time), "%.1f", us);
    snprintf(share, sizeof(share), "%.1f %%", total > 0 ? us / total * 100 : 0);
    char *names = g_strdelimit(g_strdup(record->names ? record->names : ""), "\n", ' ');
    table_add(table, record->node, record->function, time, share, gflops, gbps,
              record->shape ? record->shape : "", names);
    g_free(names);
    g_free(gbps);
    g_free(gflops);
  }
  table_print(table);
  fprintf(command_out(),
          "%u operator%s, %.1f us in all on %s: the least that each took in %d run%s. GFLOP/s: two "
          "for each step "
          "of the loops.\n",
          records->len, records->len == 1 ? "" : "s", total, loaded->device_text, runs,
          runs == 1 ? "" : "s");
}

static void print_json(const LoadedModel *loaded, const GArray *records, int runs) {
  json_t *root = json_object();
  json_add_str(root, "device", loaded->device_text);
  json_add_int(root, "runs", runs);
  claims_add_json(root, &loaded->claims);
  json_add(root, "operators", operators_json(records));
  command_print_json(root);
}

/* The Trace Event Format that chrome://tracing and Perfetto read: complete events, microseconds. */
static int write_trace(const char *path, const GArray *records) {
  json_t *root = json_object(), *events = json_array();
  for (guint i = 0; i < records->len; i++) {
    const Operator *record = &g_array_index(records, Operator, i);
    json_t *event = json_object();
    json_add_str(event, "name", record->function);
    json_add_str(event, "cat", record->node);
    json_add_str(event, "ph", "X");
    json_add_double(event, "ts", (double)record->start_ns / 1e3);
    json_add_double(event, "dur", (double)record->duration_ns / 1e3);
    json_add_int(event, "pid", 1);
    json_add_int(event, "tid", 1);
    json_append(events, event);
  }
  json_add(root, "traceEvents", events);
  char *text = json_finish(root, TRUE);
  int status = command_write_file(path, "the trace", text, strlen(text));
  g_free(text);
  return status;
}

/* ---- The command ------------------------------------------------------------------------- */

static int add_name(void *names, const char *node, const char *function, int64_t start_ns,
                    int64_t duration_ns) {
  (void)function, (void)start_ns, (void)duration_ns;
  g_ptr_array_add(names, g_strdup(node));
  return 0;
}

/* Checks that the files of a node's outputs (NAME.npy, NAME.1.npy and so on) are not in `reads`. */
static int check_node(const char *dir, const char *node, char *const *reads) {
  gboolean exists = TRUE;
  int status = 0;
  for (uint32_t i = 0; exists && status == 0; i++) {
    char *file = bp_npy_file_name(node, i);
    if (!file)
      return -1;
    char *path = g_build_filename(dir, file, NULL);
    exists = g_file_test(path, G_FILE_TEST_EXISTS);
    status = command_check_output("--dump-dir", path, reads);
    g_free(path);
    bp_str_free(file);
  }
  return status;
}

/* Checks that a dump replaces no file that the command reads. A run without a dump gives the names
 * of the nodes. */
static int check_dump(const LoadedModel *loaded, const ModelOptions *options, const char *dir) {
  if (!dir)
    return 0;
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  char *const *beside = model_files_beside(loaded->path);
  int status = bp_model_profile(loaded->context, NULL, add_name, names);
  for (guint i = 0; i < names->len && status == 0; i++)
    if (check_node(dir, names->pdata[i], options->inputs) < 0 ||
        check_node(dir, names->pdata[i], beside) < 0)
      status = -1;
  g_ptr_array_unref(names);
  return status;
}

/* Returns the number of runs, or -1. The first run is not measured: it builds code and writes the
 * dump. */
static int profile(LoadedModel *loaded, const ModelOptions *options, const ProfileOptions *extra,
                   GArray **records) {
  int runs =
      model_set_inputs(loaded, options) < 0 || check_dump(loaded, options, extra->dump_dir) < 0
          ? -1
          : operators_measure(loaded, extra, records);
  return runs > 0 && extra->trace && write_trace(extra->trace, *records) < 0 ? -1 : runs;
}

static int profile_model(char *path, const ModelOptions *options, const ProfileOptions *extra) {
  LoadedModel loaded;
  if (command_check_folder(extra->dump_dir) < 0 ||
      model_check_output("--trace", extra->trace, (char *[]){path, NULL}, options) < 0 ||
      command_check_kind("--trace", extra->trace, "{", "JSON") < 0 ||
      model_open(path, options, &loaded) < 0)
    return command_fail(options->json);
  GArray *records = NULL;
  int status = EXIT_OK, runs = profile(&loaded, options, extra, &records);
  gboolean by_time = g_strcmp0(extra->order, "run") != 0 && (extra->order || !options->json);
  if (by_time && runs > 0)
    g_array_sort(records, slower_first);
  if (runs < 0)
    status = command_fail(options->json);
  else if (options->json)
    print_json(&loaded, records, runs);
  else
    print_text(&loaded, records, runs);
  if (records)
    g_array_unref(records);
  model_close(&loaded);
  return status;
}

int cmd_profile(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  ProfileOptions extra = {.runs = 3, .seconds = 1.0};
  const GOptionEntry own[] = {
      {"trace", 0, 0, G_OPTION_ARG_FILENAME, &extra.trace, "write a Chrome trace", "FILE.json"},
      {"dump-dir", 0, 0, G_OPTION_ARG_FILENAME, &extra.dump_dir,
       "write every intermediate tensor to DIR/NODE.npy", "DIR"},
      {"order", 0, 0, OPTION_TEXT, &extra.order,
       "order of the rows: time, the slowest first (default), or run (default of --json)",
       "time|run"},
      {"runs", 0, 0, G_OPTION_ARG_INT, &extra.runs, "least number of measured runs (3)", "N"},
      {"seconds", 0, 0, G_OPTION_ARG_DOUBLE, &extra.seconds, "least seconds of measured runs (1)",
       "S"},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  options.fills = TRUE;
  GOptionEntry *entries = model_option_entries(&options, own);
  int status = EXIT_USAGE;
  if (command_parse(
          &argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER",
          "Times each operator, waiting for the device after each: the least of several runs.",
          "Inputs without --input are filled with seeded random numbers; --shape fixes the shapes "
          "that the model leaves open.")) {
    int explained;
    if (explain_preferences(options.device, &explained))
      status = explained;
    else if (argc != 2)
      command_usage_error("profile takes one model");
    else if (extra.order && strcmp(extra.order, "time") != 0 && strcmp(extra.order, "run") != 0)
      command_usage_error("--order %s: it is time or run", extra.order);
    else if (extra.runs < 1 || !(extra.seconds >= 0 && isfinite(extra.seconds)))
      command_usage_error("--runs is at least 1, --seconds at least 0");
    else
      status = profile_model(argv[1], &options, &extra);
  }
  g_free(entries);
  g_free(extra.trace);
  g_free(extra.dump_dir);
  g_free(extra.order);
  model_options_clear(&options);
  return status;
}
