/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a run: their times, and their facts from the graph. */
#include "tools/command.h"

#include <math.h>
#include <string.h>

#include <backplane/object.h>

static void record_clear(void *data) {
  Operator *record = data;
  g_free(record->node);
  g_free(record->function);
  g_free(record->shape);
  g_free(record->names);
  json_decref(record->shape_value);
  json_decref(record->inputs);
}

static int add_record(void *visitor, const char *node, const char *function, int64_t start_ns,
                      int64_t duration_ns) {
  GArray *records = visitor;
  Operator record = {.node = g_strdup(node),
                     .function = g_strdup(function),
                     .start_ns = start_ns,
                     .duration_ns = duration_ns,
                     .min_ns = duration_ns,
                     .place = records->len};
  g_array_append_val(records, record);
  return 0;
}

static GArray *create_records(void) {
  GArray *records = g_array_new(FALSE, FALSE, sizeof(Operator));
  g_array_set_clear_func(records, record_clear);
  return records;
}

/* ---- Measuring --------------------------------------------------------------------------- */

static int64_t total_ns(const GArray *records) {
  int64_t total = 0;
  for (guint i = 0; i < records->len; i++)
    total += g_array_index(records, Operator, i).duration_ns;
  return total;
}

/* Adds the measurements of a further run. */
static int merge(GArray *records, const GArray *run) {
  if (run->len != records->len)
    return bp_error_raise(BP_ERROR_RUNTIME, "one run of the model has %u operators, another %u",
                          records->len, run->len);
  gboolean is_faster = total_ns(run) < total_ns(records);
  for (guint i = 0; i < run->len; i++) {
    const Operator *now = &g_array_index(run, Operator, i);
    Operator *record = &g_array_index(records, Operator, i);
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

/* Runs until there are enough runs and enough time has passed; returns the number of runs, or
 * -1. */
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

/* A graph in TVM's form. An entry is an output of a node. */
typedef struct Graph {
  json_t *document;
  json_t *nodes;
  json_t *rows; /* the first entry of each node, and the number of entries */
  size_t num_nodes, num_entries;
  uint64_t *bytes; /* bytes of an entry, or 0 if unknown, by entry */
  size_t *origin;  /* by node: itself, or the node whose output it is a view of */
  uint64_t *live;  /* bytes of the values that are alive while a node runs, by node */
} Graph;

/* Returns the list of an attribute of the graph, [tag, [...]], or NULL. */
static json_t *attr_list(const json_t *document, const char *name) {
  return json_array_get(json_object_get(json_object_get(document, "attrs"), name), 1);
}

static size_t first_entry(const Graph *graph, size_t node) {
  return (size_t)json_integer_value(json_array_get(graph->rows, node));
}

/* Finds the node and entry of a node's input; FALSE: there is no such input. */
static gboolean input_of(const Graph *graph, size_t node, size_t index, size_t *from,
                         size_t *entry) {
  const json_t *inputs = json_object_get(json_array_get(graph->nodes, node), "inputs");
  const json_t *reference = json_array_get(inputs, index);
  *from = (size_t)json_integer_value(json_array_get(reference, 0));
  *entry = first_entry(graph, *from) + (size_t)json_integer_value(json_array_get(reference, 1));
  return reference && *from < graph->num_nodes && *entry < graph->num_entries;
}

static const char *function_of(const Graph *graph, size_t node) {
  const json_t *attrs = json_object_get(json_array_get(graph->nodes, node), "attrs");
  return json_string_value(json_object_get(attrs, "func_name"));
}

static const char *name_of(const Graph *graph, size_t node) {
  const char *name = json_string_value(json_object_get(json_array_get(graph->nodes, node), "name"));
  return name ? name : "";
}

/* Returns the bytes of a tensor of that shape and type; 0 if one of them is unknown. */
static uint64_t tensor_bytes(const json_t *shape, const char *dtype) {
  BpDataType type;
  double count = 1;
  if (!json_is_array(shape) || !dtype || bp_dtype_parse(dtype, &type) < 0)
    return 0;
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *extent = json_array_get(shape, i);
    count *= json_is_integer(extent) ? (double)MAX(json_integer_value(extent), 0) : 0;
  }
  double bytes = ceil(count * type.bits * type.lanes / 8);
  return bytes < 1e18 ? (uint64_t)bytes : 0;
}

static void find_bytes(Graph *graph) {
  const json_t *shapes = attr_list(graph->document, "shape");
  const json_t *types = attr_list(graph->document, "dltype");
  for (size_t e = 0; e < graph->num_entries; e++)
    graph->bytes[e] =
        tensor_bytes(json_array_get(shapes, e), json_string_value(json_array_get(types, e)));
  bp_error_clear();
}

/* A view has no memory of its own. */
static void find_origins(Graph *graph) {
  for (size_t n = 0; n < graph->num_nodes; n++) {
    size_t from, entry;
    gboolean is_view = g_strcmp0(function_of(graph, n), "__nop") == 0 &&
                       input_of(graph, n, 0, &from, &entry) && from < n;
    graph->origin[n] = is_view ? graph->origin[from] : n;
  }
}

/* Adds the bytes of a node's results to all nodes from that node to the last one that reads
 * them. */
static void add_live(const Graph *graph, size_t node, size_t last) {
  for (size_t e = first_entry(graph, node); e < first_entry(graph, node + 1); e++) {
    if (e >= graph->num_entries)
      break;
    graph->live[node] += graph->bytes[e];
    graph->live[last + 1] -= graph->bytes[e]; /* unsigned: the difference and the sum wrap around */
  }
}

/* Computes the live bytes. Results live from the node that computes them to their last reader;
 * outputs and inputs of the model live to the end. Parameters are not counted. `is_parameter` is by
 * node. */
static void find_live(const Graph *graph, const gboolean *is_parameter) {
  size_t *last = g_new0(size_t, graph->num_nodes + 1);
  for (size_t n = 0; n < graph->num_nodes; n++) {
    size_t from, entry;
    last[n] = function_of(graph, n) ? n : graph->num_nodes - 1;
    for (size_t i = 0; input_of(graph, n, i, &from, &entry); i++)
      last[graph->origin[from]] = MAX(last[graph->origin[from]], n);
  }
  const json_t *heads = json_object_get(graph->document, "heads");
  for (size_t i = 0; i < json_array_size(heads); i++) {
    size_t head = (size_t)json_integer_value(json_array_get(json_array_get(heads, i), 0));
    if (head < graph->num_nodes)
      last[graph->origin[head]] = graph->num_nodes - 1;
  }
  for (size_t n = 0; n < graph->num_nodes; n++)
    if (graph->origin[n] == n && !is_parameter[n])
      add_live(graph, n, last[n]);
  for (size_t n = 1; n < graph->num_nodes; n++)
    graph->live[n] += graph->live[n - 1];
  g_free(last);
}

static gboolean is_input(const BpModel *model, const char *name) {
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++)
    if (strcmp(bp_model_input_info(model, i)->name, name) == 0)
      return TRUE;
  return FALSE;
}

/* FALSE: the model has no graph in TVM's form. */
static gboolean read_graph(const BpModel *model, Graph *graph) {
  char *text = bp_model_graph_json(model);
  *graph = (Graph){.document = text ? json_loads(text, 0, NULL) : NULL};
  bp_str_free(text);
  bp_error_clear();
  graph->nodes = json_object_get(graph->document, "nodes");
  graph->rows = json_object_get(graph->document, "node_row_ptr");
  graph->num_nodes = json_array_size(graph->nodes);
  if (!graph->num_nodes || json_array_size(graph->rows) != graph->num_nodes + 1) {
    json_decref(graph->document);
    return FALSE;
  }
  graph->num_entries = json_array_size(attr_list(graph->document, "shape"));
  graph->bytes = g_new0(uint64_t, graph->num_entries + 1);
  graph->origin = g_new0(size_t, graph->num_nodes);
  graph->live = g_new0(uint64_t, graph->num_nodes + 1);
  gboolean *is_parameter = g_new0(gboolean, graph->num_nodes);
  for (size_t n = 0; n < graph->num_nodes; n++)
    is_parameter[n] = !function_of(graph, n) && !is_input(model, name_of(graph, n));
  find_bytes(graph);
  find_origins(graph);
  find_live(graph, is_parameter);
  g_free(is_parameter);
  return TRUE;
}

static void clear_graph(Graph *graph) {
  json_decref(graph->document);
  g_free(graph->bytes);
  g_free(graph->origin);
  g_free(graph->live);
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

/* Sets the shape of the first output, and the device of the kind that the graph assigns it. */
static void describe_output(const LoadedModel *loaded, const Graph *graph, size_t index,
                            Operator *record) {
  size_t entry = first_entry(graph, index);
  json_t *shape = json_array_get(attr_list(graph->document, "shape"), entry);
  const json_t *type = json_array_get(attr_list(graph->document, "device_index"), entry);
  if (json_is_array(shape)) {
    record->shape = shape_text(shape);
    record->shape_value = json_incref(shape);
  }
  for (size_t i = 0; type && i < loaded->num_devices; i++)
    if (BP_DEVICE_TYPE_OF_CODE(loaded->devices[i].device_type) == json_integer_value(type))
      record->device = loaded->devices[i];
}

/* Sets the bytes that a node reads and writes, and the nodes whose results it reads. */
static void describe_traffic(const Graph *graph, size_t index, Operator *record) {
  size_t from, entry;
  gboolean is_known = TRUE;
  record->inputs = json_array();
  for (size_t i = 0; input_of(graph, index, i, &from, &entry); i++) {
    record->bytes += graph->bytes[entry];
    is_known &= graph->bytes[entry] > 0;
    json_append(record->inputs, text_json(name_of(graph, graph->origin[from])));
  }
  for (size_t e = first_entry(graph, index); e < first_entry(graph, index + 1); e++) {
    record->bytes += e < graph->num_entries ? graph->bytes[e] : 0;
    is_known &= e < graph->num_entries && graph->bytes[e] > 0;
  }
  record->live_bytes = graph->live[index];
  if (!is_known)
    record->bytes = 0;
}

/* Fills in the graph's facts about a node. */
static void describe_record(const LoadedModel *loaded, const Graph *graph, size_t index,
                            Operator *record) {
  const char *names =
      json_string_value(json_array_get(attr_list(graph->document, "node_names"), index));
  const char *work = json_string_value(json_array_get(attr_list(graph->document, "work"), index));
  describe_output(loaded, graph, index, record);
  describe_traffic(graph, index, record);
  if (work)
    record->steps = g_ascii_strtod(work, NULL);
  if (names && *names)
    record->names = g_strdup(names);
}

/* Fills in the graph's facts by the names of the nodes. A model without a graph has no such
 * facts. */
static void describe_records(const LoadedModel *loaded, GArray *records) {
  Graph graph;
  if (!read_graph(loaded->model, &graph))
    return;
  GHashTable *known = g_hash_table_new(g_str_hash, g_str_equal);
  for (size_t i = 0; i < graph.num_nodes; i++)
    g_hash_table_insert(known, (char *)name_of(&graph, i), GSIZE_TO_POINTER(i + 1));
  for (guint i = 0; i < records->len; i++) {
    Operator *record = &g_array_index(records, Operator, i);
    size_t index = GPOINTER_TO_SIZE(g_hash_table_lookup(known, record->node));
    if (index)
      describe_record(loaded, &graph, index - 1, record);
  }
  g_hash_table_destroy(known);
  clear_graph(&graph);
}

/* ---- Measuring --------------------------------------------------------------------------- */

int operators_measure(LoadedModel *loaded, const ProfileOptions *options, GArray **records) {
  GArray *first = create_records();
  *records = create_records();
  int status = bp_model_profile(loaded->context, options->dump_dir, add_record, first);
  g_array_free(first, TRUE);
  int runs = status < 0 ? -1 : measure(loaded, options, *records);
  for (guint i = 0; i < (*records)->len; i++)
    g_array_index(*records, Operator, i).device = loaded->devices[0];
  if (runs > 0)
    describe_records(loaded, *records);
  return runs;
}

double operator_gflops(const Operator *record) {
  return record->min_ns > 0 ? 2 * record->steps / (double)record->min_ns : 0;
}

double operator_gbps(const Operator *record) {
  return record->min_ns > 0 ? (double)record->bytes / (double)record->min_ns : 0;
}

static json_t *names_json(const char *names) {
  char **list = g_strsplit(names, "\n", -1);
  json_t *array = json_array();
  for (char **name = list; *name; name++)
    json_append(array, text_json(*name));
  g_strfreev(list);
  return array;
}

static json_t *operator_json(const Operator *record) {
  json_t *object = json_object();
  char device[DEVICE_TEXT_MAX];
  bp_device_format(record->device, device, sizeof device);
  json_add_str(object, "node", record->node);
  json_add_str(object, "function", record->function);
  json_add_str(object, "device", device);
  json_add_int(object, "start_ns", record->start_ns);
  json_add_int(object, "duration_ns", record->duration_ns);
  json_add_int(object, "min_ns", record->min_ns);
  if (record->shape_value)
    json_add(object, "shape", json_incref(record->shape_value));
  if (record->names)
    json_add(object, "computes", names_json(record->names));
  if (record->inputs) {
    json_add(object, "inputs", json_incref(record->inputs));
    json_add_int(object, "live_bytes", (gint64)record->live_bytes);
  }
  if (record->bytes)
    json_add_int(object, "bytes", (gint64)record->bytes);
  if (record->steps > 0)
    json_add_int(object, "steps", (gint64)record->steps);
  return object;
}

json_t *operators_json(const GArray *records) {
  json_t *operators = json_array();
  for (guint i = 0; i < records->len; i++)
    json_append(operators, operator_json(&g_array_index(records, Operator, i)));
  return operators;
}
