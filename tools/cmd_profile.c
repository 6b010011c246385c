/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane profile`: where the time of a run goes. */
#include "tools/command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* An operator: when it ran in the fastest of the runs, and the least that it took in any. Noise
 * only adds. */
typedef struct Record {
  char *node;
  char *function;
  int64_t start_ns;
  int64_t duration_ns;
  int64_t min_ns;
  guint place;         /* in the order of the run */
  char *shape;         /* of its first output, or NULL: it is not known */
  char *names;         /* of the model's nodes that it computes, with spaces between, or NULL */
  json_t *shape_value; /* the shape, or NULL */
} Record;

typedef struct ProfileOptions {
  char *trace;
  char *dump_dir;
  int runs;       /* at least */
  double seconds; /* at least */
  char *order;    /* "time", "run", or NULL: time */
} ProfileOptions;

static void record_clear(void *data) {
  Record *record = data;
  g_free(record->node);
  g_free(record->function);
  g_free(record->shape);
  g_free(record->names);
  json_decref(record->shape_value);
}

static int add_record(void *visitor, const char *node, const char *function, int64_t start_ns,
                      int64_t duration_ns) {
  GArray *records = visitor;
  Record record = {.node = g_strdup(node),
                   .function = g_strdup(function),
                   .start_ns = start_ns,
                   .duration_ns = duration_ns,
                   .min_ns = duration_ns,
                   .place = records->len};
  g_array_append_val(records, record);
  return 0;
}

static GArray *create_records(void) {
  GArray *records = g_array_new(FALSE, FALSE, sizeof(Record));
  g_array_set_clear_func(records, record_clear);
  return records;
}

/* ---- Measuring --------------------------------------------------------------------------- */

static int64_t total_ns(const GArray *records) {
  int64_t total = 0;
  for (guint i = 0; i < records->len; i++)
    total += g_array_index(records, Record, i).duration_ns;
  return total;
}

/* Adds what a further run measured. */
static int merge(GArray *records, const GArray *run) {
  if (run->len != records->len)
    return bp_error_raise(BP_ERROR_RUNTIME, "one run of the model has %u operators, another %u",
                          records->len, run->len);
  gboolean is_faster = total_ns(run) < total_ns(records);
  for (guint i = 0; i < run->len; i++) {
    const Record *now = &g_array_index(run, Record, i);
    Record *record = &g_array_index(records, Record, i);
    record->min_ns = MIN(record->min_ns, now->duration_ns);
    if (is_faster) {
      record->start_ns = now->start_ns;
      record->duration_ns = now->duration_ns;
    }
  }
  return 0;
}

static int measure_run(LoadedModel *loaded, GArray *records) {
  GArray *run = create_records();
  int status = bp_model_profile(loaded->context, NULL, add_record, run);
  if (status == 0)
    status = merge(records, run);
  g_array_free(run, TRUE);
  return status;
}

/* Runs until there are enough runs and enough time has passed; returns how many, or -1. */
static int measure(LoadedModel *loaded, const ProfileOptions *options, GArray *records) {
  gint64 start = g_get_monotonic_time();
  if (bp_model_profile(loaded->context, NULL, add_record, records) < 0)
    return -1;
  int runs = 1;
  for (; runs < options->runs || (double)(g_get_monotonic_time() - start) < options->seconds * 1e6;
       runs++)
    if (measure_run(loaded, records) < 0)
      return -1;
  return runs;
}

/* ---- The graph --------------------------------------------------------------------------- */

/* The list of an attribute of the graph, [tag, [...]], or NULL. */
static json_t *attr_list(const json_t *graph, const char *name) {
  return json_array_get(json_object_get(json_object_get(graph, "attrs"), name), 1);
}

/* The shape of the first output of the node numbered `index`, an array, or NULL. */
static json_t *node_shape(const json_t *graph, size_t index) {
  json_t *row = json_array_get(json_object_get(graph, "node_row_ptr"), index);
  return row ? json_array_get(attr_list(graph, "shape"), (size_t)json_integer_value(row)) : NULL;
}

static char *shape_text(const json_t *shape) {
  GString *text = g_string_new(json_array_size(shape) ? NULL : "scalar");
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *extent = json_array_get(shape, i);
    if (json_is_integer(extent) && json_integer_value(extent) >= 0)
      g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i ? "x" : "",
                             (gint64)json_integer_value(extent));
    else
      g_string_append_printf(text, "%s?", i ? "x" : "");
  }
  return g_string_free(text, FALSE);
}

/* Fills in what the graph says of a node. */
static void describe_record(const json_t *graph, size_t index, Record *record) {
  const char *names = json_string_value(json_array_get(attr_list(graph, "node_names"), index));
  json_t *shape = node_shape(graph, index);
  if (json_is_array(shape)) {
    record->shape = shape_text(shape);
    record->shape_value = json_incref(shape);
  }
  if (names && *names)
    record->names = g_strdup(names);
}

/* Fills in shapes and names, by the names of the nodes. What is no graph has none. */
static void describe_records(const LoadedModel *loaded, GArray *records) {
  char *text = bp_model_graph_json(loaded->model);
  json_t *graph = text ? json_loads(text, 0, NULL) : NULL, *nodes;
  GHashTable *known = g_hash_table_new(g_str_hash, g_str_equal);
  bp_error_clear();
  nodes = json_object_get(graph, "nodes");
  for (size_t i = 0; i < json_array_size(nodes); i++) {
    const char *name = json_string_value(json_object_get(json_array_get(nodes, i), "name"));
    if (name)
      g_hash_table_insert(known, (char *)name, GSIZE_TO_POINTER(i + 1));
  }
  for (guint i = 0; i < records->len; i++) {
    Record *record = &g_array_index(records, Record, i);
    size_t index = GPOINTER_TO_SIZE(g_hash_table_lookup(known, record->node));
    if (index)
      describe_record(graph, index - 1, record);
  }
  g_hash_table_destroy(known);
  json_decref(graph);
  bp_str_free(text);
}

/* ---- Output ------------------------------------------------------------------------------ */

static int slower_first(const void *a, const void *b) {
  const Record *first = a, *second = b;
  int64_t x = first->min_ns, y = second->min_ns;
  return x == y ? (first->place > second->place) - (first->place < second->place)
                : (x < y) - (x > y);
}

static double total_min_us(const GArray *records) {
  int64_t total = 0;
  for (guint i = 0; i < records->len; i++)
    total += g_array_index(records, Record, i).min_ns;
  return (double)total / 1e3;
}

static void print_text(const LoadedModel *loaded, const GArray *records, int runs) {
  static const char *const headers[] = {"NODE",  "FUNCTION", "TIME (us)", "SHARE",
                                        "SHAPE", "COMPUTES", NULL};
  double total = total_min_us(records);
  model_print_report(loaded);
  Table *table = table_new(headers);
  for (guint i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    char time[32], share[32];
    double us = (double)record->min_ns / 1e3;
    snprintf(time, sizeof(time), "%.1f", us);
    snprintf(share, sizeof(share), "%.1f %%", total > 0 ? us / total * 100 : 0);
    char *names = g_strdelimit(g_strdup(record->names ? record->names : ""), "\n", ' ');
    table_add(table, record->node, record->function, time, share,
              record->shape ? record->shape : "", names);
    g_free(names);
  }
  table_print(table);
  fprintf(command_out(),
          "%u operator%s, %.1f us in all on %s: the least that each took in %d run%s\n",
          records->len, records->len == 1 ? "" : "s", total, loaded->device_text, runs,
          runs == 1 ? "" : "s");
}

static json_t *names_json(const char *names) {
  char **list = g_strsplit(names, "\n", -1);
  json_t *array = json_array();
  for (char **name = list; *name; name++)
    json_append(array, text_json(*name));
  g_strfreev(list);
  return array;
}

static void print_json(const LoadedModel *loaded, const GArray *records, int runs) {
  json_t *root = json_object(), *operators = json_array();
  json_add_str(root, "device", loaded->device_text);
  json_add_int(root, "runs", runs);
  claims_add_json(root, &loaded->claims);
  for (guint i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
    json_t *object = json_object();
    json_add_str(object, "node", record->node);
    json_add_str(object, "function", record->function);
    json_add_int(object, "start_ns", record->start_ns);
    json_add_int(object, "duration_ns", record->duration_ns);
    json_add_int(object, "min_ns", record->min_ns);
    if (record->shape_value)
      json_add(object, "shape", json_incref(record->shape_value));
    if (record->names)
      json_add(object, "computes", names_json(record->names));
    json_append(operators, object);
  }
  json_add(root, "operators", operators);
  command_print_json(root);
}

/* The Trace Event Format that chrome://tracing and Perfetto read: complete events, microseconds. */
static int write_trace(const char *path, const GArray *records) {
  json_t *root = json_object(), *events = json_array();
  for (guint i = 0; i < records->len; i++) {
    const Record *record = &g_array_index(records, Record, i);
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
  FILE *file = fopen(path, "w");
  int status = file && fputs(text, file) >= 0 ? 0 : -1;
  if ((file && fclose(file) != 0) || status < 0)
    status = bp_error_raise(BP_ERROR_IO, "%s: cannot write the trace: %s", path, g_strerror(errno));
  g_free(text);
  return status;
}

/* ---- The command ------------------------------------------------------------------------- */

/* Returns the number of runs, or -1. The first, with what is built in it and the dump, is not
 * measured. */
static int profile(LoadedModel *loaded, const ModelOptions *options, const ProfileOptions *extra,
                   GArray *records) {
  GArray *first = create_records();
  int status = model_set_inputs(loaded, options);
  if (status == 0)
    status = bp_model_profile(loaded->context, extra->dump_dir, add_record, first);
  g_array_free(first, TRUE);
  int runs = status < 0 ? -1 : measure(loaded, extra, records);
  if (runs > 0)
    describe_records(loaded, records);
  return runs > 0 && extra->trace && write_trace(extra->trace, records) < 0 ? -1 : runs;
}

static int profile_model(const char *path, const ModelOptions *options,
                         const ProfileOptions *extra) {
  LoadedModel loaded;
  if (command_check_folder(extra->dump_dir) < 0 || model_open(path, options, &loaded) < 0)
    return command_fail(options->json);
  GArray *records = create_records();
  int status = EXIT_OK, runs = profile(&loaded, options, extra, records);
  gboolean by_time = g_strcmp0(extra->order, "run") != 0 && (extra->order || !options->json);
  if (by_time)
    g_array_sort(records, slower_first);
  if (runs < 0)
    status = command_fail(options->json);
  else if (options->json)
    print_json(&loaded, records, runs);
  else
    print_text(&loaded, records, runs);
  g_array_free(records, TRUE);
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
      {"runs", 0, 0, G_OPTION_ARG_INT, &extra.runs, "at least so many runs (3)", "N"},
      {"seconds", 0, 0, G_OPTION_ARG_DOUBLE, &extra.seconds, "for at least so long (1)", "S"},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  options.fills = TRUE;
  GOptionEntry *entries = model_option_entries(&options, own);
  int status = EXIT_USAGE;
  if (command_parse(
          &argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER",
          "Times each operator, waiting for the device after each: the least of several runs.",
          "Inputs that are not given are filled with seeded random numbers; --shape says of which "
          "shape they are, where the model does not.")) {
    if (explain_preferences(options.device))
      status = EXIT_OK;
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
