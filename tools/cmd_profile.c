/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane profile`: where the time of one run goes. */
#include "tools/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct Record {
  char *node;
  char *function;
  int64_t start_ns;
  int64_t duration_ns;
} Record;

static void record_clear(void *data) {
  Record *record = data;
  g_free(record->node);
  g_free(record->function);
}

static int add_record(void *visitor, const char *node, const char *function, int64_t start_ns,
                      int64_t duration_ns) {
  Record record = {g_strdup(node), g_strdup(function), start_ns, duration_ns};
  g_array_append_val((GArray *)visitor, record);
  return 0;
}

/* ---- Output ------------------------------------------------------------------------------ */

static int slower_first(const void *a, const void *b) {
  int64_t x = ((const Record *)a)->duration_ns, y = ((const Record *)b)->duration_ns;
  return (x < y) - (x > y);
}

static double total_us(const GArray *records) {
  int64_t total = 0;
  for (guint i = 0; i < records->len; i++)
    total += g_array_index(records, Record, i).duration_ns;
  return (double)total / 1e3;
}

static void print_text(const LoadedModel *loaded, GArray *records) {
  static const char *const headers[] = {"NODE", "FUNCTION", "TIME (us)", "SHARE", NULL};
  double total = total_us(records);
  g_array_sort(records, slower_first);
  model_print_report(loaded);
  Table *table = table_new(headers);
  for (guint i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    char time[32], share[32];
    double us = (double)record->duration_ns / 1e3;
    snprintf(time, sizeof(time), "%.1f", us);
    snprintf(share, sizeof(share), "%.1f %%", total > 0 ? us / total * 100 : 0);
    table_add(table, record->node, record->function, time, share);
  }
  table_print(table);
  printf("%u operators, %.1f us in all on %s\n", records->len, total, loaded->device_text);
}

static void print_json(const LoadedModel *loaded, const GArray *records) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_str(builder, "device", loaded->device_text);
  json_builder_set_member_name(builder, "operators");
  json_builder_begin_array(builder);
  for (guint i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    json_builder_begin_object(builder);
    json_add_str(builder, "node", record->node);
    json_add_str(builder, "function", record->function);
    json_add_int(builder, "start_ns", record->start_ns);
    json_add_int(builder, "duration_ns", record->duration_ns);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  json_builder_end_object(builder);
  command_print_json(builder);
}

/* The Trace Event Format that chrome://tracing and Perfetto read: complete events, microseconds. */
static int write_trace(const char *path, const GArray *records) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_builder_set_member_name(builder, "traceEvents");
  json_builder_begin_array(builder);
  for (guint i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    json_builder_begin_object(builder);
    json_add_str(builder, "name", record->function);
    json_add_str(builder, "cat", record->node);
    json_add_str(builder, "ph", "X");
    json_add_double(builder, "ts", (double)record->start_ns / 1e3);
    json_add_double(builder, "dur", (double)record->duration_ns / 1e3);
    json_add_int(builder, "pid", 1);
    json_add_int(builder, "tid", 1);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  json_builder_end_object(builder);
  JsonNode *root = json_builder_get_root(builder);
  char *text = json_to_string(root, FALSE);
  FILE *file = fopen(path, "w");
  int status = file && fputs(text, file) >= 0 ? 0 : -1;
  if ((file && fclose(file) != 0) || status < 0)
    status = bp_error_raise(BP_ERROR_IO, "%s: cannot write the trace: %s", path, g_strerror(errno));
  g_free(text);
  json_node_unref(root);
  g_object_unref(builder);
  return status;
}

/* ---- The command ------------------------------------------------------------------------- */

typedef struct ProfileOptions {
  char *trace;
  char *dump_dir;
} ProfileOptions;

static int profile(LoadedModel *loaded, const ModelOptions *options, const ProfileOptions *extra,
                   GArray *records) {
  if (model_set_inputs(loaded, options, TRUE) < 0 || bp_model_run(loaded->context) < 0)
    return -1;
  if (bp_model_profile(loaded->context, extra->dump_dir, add_record, records) < 0)
    return -1;
  return extra->trace ? write_trace(extra->trace, records) : 0;
}

static int profile_model(const char *path, const ModelOptions *options,
                         const ProfileOptions *extra) {
  LoadedModel loaded;
  if (extra->dump_dir && g_mkdir_with_parents(extra->dump_dir, 0777) < 0) {
    bp_error_raise(BP_ERROR_IO, "%s: cannot make this folder: %s", extra->dump_dir,
                   g_strerror(errno));
    return command_fail(options->json);
  }
  if (model_open(path, options, &loaded) < 0)
    return command_fail(options->json);
  GArray *records = g_array_new(FALSE, FALSE, sizeof(Record));
  g_array_set_clear_func(records, record_clear);
  int status = EXIT_OK;
  if (profile(&loaded, options, extra, records) < 0)
    status = command_fail(options->json);
  else if (options->json)
    print_json(&loaded, records);
  else
    print_text(&loaded, records);
  g_array_free(records, TRUE);
  model_close(&loaded);
  return status;
}

int cmd_profile(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  ProfileOptions extra = {NULL, NULL};
  const GOptionEntry own[] = {
      {"trace", 0, 0, G_OPTION_ARG_FILENAME, &extra.trace, "write a Chrome trace", "FILE.json"},
      {"dump-dir", 0, 0, G_OPTION_ARG_FILENAME, &extra.dump_dir,
       "write every intermediate tensor to DIR/NODE.npy", "DIR"},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  GOptionEntry *entries = model_option_entries(&options, own);
  int status = EXIT_USAGE;
  if (command_parse(&argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER",
                    "Times each operator of one run, waiting for the device after each.",
                    "Inputs that are not given are filled with seeded random numbers."))
    status = explain_preferences(options.device) ? EXIT_OK
             : argc == 2                         ? profile_model(argv[1], &options, &extra)
                                                 : command_usage_error("profile takes one model");
  g_free(entries);
  g_free(extra.trace);
  g_free(extra.dump_dir);
  model_options_clear(&options);
  return status;
}
