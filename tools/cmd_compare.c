/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane compare`: compares a model on two devices, or two models, node by node. */
#include "tools/command.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <backplane/graph/npy.h>
#include <backplane/object.h>

/* The first output of a node on one side. Several nodes may have one name: the last gives the
 * result. */
typedef struct Dumped {
  char *name;       /* name without the node's number */
  char *path;       /* the .npy file */
  int64_t channels; /* channels without padding, if in the channel-blocked layout; else 0 */
} Dumped;

typedef struct Output {
  char *name;
  BpTensor *tensor; /* NULL: .npy files do not support the type */
} Output;

/* One of the two sides: the model, and the outputs of its nodes. */
typedef struct Side {
  const char *path;
  LoadedModel *loaded; /* NULL: the side is onnxruntime */
  char *label;         /* "digits.onnx on cpu:0" */
  char *version;       /* version of onnxruntime, or NULL */
  GArray *outputs;     /* Output; NULL before the run */
  char *dir;           /* folder of dumped tensors, removed at the end; NULL: none dumped */
  GArray *nodes;       /* Dumped, in order */
  json_t *channels;    /* channels by node name, as text; NULL: unknown */
} Side;

/* A row of the report. */
typedef struct Row {
  const char *name;
  char *shape;
  char *reason; /* why the row was not compared, or NULL */
  char *absolute, *relative;
  Difference difference;
  json_t *json; /* the difference as JSON, or NULL */
} Row;

static void clear_dumped(void *data) {
  Dumped *dumped = data;
  g_free(dumped->name);
  g_free(dumped->path);
}

static void clear_row(void *data) {
  Row *row = data;
  g_free(row->shape);
  g_free(row->reason);
  g_free(row->absolute);
  g_free(row->relative);
  json_decref(row->json);
}

static void clear_output(void *data) {
  Output *output = data;
  g_free(output->name);
  bp_object_release(output->tensor);
}

/* ---- Running ----------------------------------------------------------------------------- */

/* Returns the channels of the nodes whose outputs are in the channel-blocked layout (transfer
 * full). */
static json_t *read_channels(const BpModel *model) {
  char *text = bp_model_graph_json(model);
  json_t *graph = text ? json_loads(text, 0, NULL) : NULL, *found = json_object(), *node;
  const json_t *attrs = json_object_get(graph, "attrs");
  const json_t *channels = json_array_get(json_object_get(attrs, "channels"), 1);
  size_t index;
  json_array_foreach(json_object_get(graph, "nodes"), index, node) {
    const char *name = json_string_value(json_object_get(node, "name"));
    json_t *count = json_array_get(channels, index);
    if (name && json_string_length(count))
      json_add(found, name, json_incref(count));
  }
  bp_error_clear();
  bp_str_free(text);
  json_decref(graph);
  return found;
}

/* Returns the name after the node's number, as in "12:conv1". */
static const char *plain_name(const char *node) {
  size_t digits = strspn(node, "0123456789");
  return digits && node[digits] == ':' ? node + digits + 1 : node;
}

static int add_node(void *visitor, const char *node, const char *function, int64_t start_ns,
                    int64_t duration_ns) {
  (void)function, (void)start_ns, (void)duration_ns;
  Side *side = visitor;
  char *file = bp_npy_file_name(node, 0);
  if (!file)
    return -1;
  const char *channels = json_string_value(json_object_get(side->channels, node));
  Dumped dumped = {g_strdup(plain_name(node)), g_build_filename(side->dir, file, NULL),
                   channels ? g_ascii_strtoll(channels, NULL, 10) : 0};
  g_array_append_val(side->nodes, dumped);
  bp_str_free(file);
  return 0;
}

static void clear_side(Side *side) {
  if (side->nodes)
    g_array_unref(side->nodes);
  if (side->outputs)
    g_array_unref(side->outputs);
  g_free(side->version);
  if (side->dir)
    temporary_remove(side->dir);
  json_decref(side->channels);
  g_free(side->dir);
  g_free(side->label);
}

static int make_folder(Side *side) {
  GError *error = NULL;
  side->nodes = g_array_new(FALSE, FALSE, sizeof(Dumped));
  g_array_set_clear_func(side->nodes, clear_dumped);
  side->outputs = g_array_new(FALSE, FALSE, sizeof(Output));
  g_array_set_clear_func(side->outputs, clear_output);
  if ((side->dir = g_dir_make_tmp("backplane-XXXXXX", &error))) {
    temporary_add(side->dir);
    g_chmod(side->dir, 0700); /* the umask may deny the owner, too */
    return 0;
  }
  bp_error_raise(BP_ERROR_IO,
                 "cannot make a folder for the nodes' tensors: %s; TMPDIR names another place",
                 error->message);
  g_error_free(error);
  return -1;
}

static int keep_outputs(Side *side) {
  for (int32_t i = 0; i < bp_model_num_outputs(side->loaded->model); i++) {
    BpTensor *tensor = bp_model_get_output(side->loaded->context, i);
    if (!tensor)
      return -1;
    Output output = {g_strdup(bp_model_output_info(side->loaded->model, i)->name),
                     bp_object_retain(tensor)};
    g_array_append_val(side->outputs, output);
  }
  return 0;
}

/* Runs the model once and writes each node's output. A node is omitted if .npy files do not support
 * its type or if its file cannot be written, for example because its name is too long. */
static int run_side(Side *side, const ModelOptions *options) {
  if (model_check_tensors(side->loaded->model) < 0 || model_set_inputs(side->loaded, options) < 0)
    return -1;
  side->channels = read_channels(side->loaded->model);
  int status = bp_model_profile(side->loaded->context, side->dir, add_node, side);
  if (status < 0 && (bp_error_is(BP_ERROR_TYPE) || bp_error_is(BP_ERROR_IO))) {
    command_print(stderr, "backplane: only outputs are compared: %s\n", bp_error_message());
    bp_error_clear();
    g_array_set_size(side->nodes, 0);
    status = bp_model_run(side->loaded->context);
  }
  return status < 0 ? -1 : keep_outputs(side);
}

/* ---- onnxruntime ------------------------------------------------------------------------- */

/* Returns the names and files of the inputs, in turn, NULL-terminated (transfer full,
 * g_strfreev). */
static char **list_inputs(const BpModel *model, const char *folder) {
  GPtrArray *list = g_ptr_array_new();
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    g_ptr_array_add(list, g_strdup(bp_model_input_info(model, i)->name));
    g_ptr_array_add(list, g_strdup_printf("%s/%d.npy", folder, i));
  }
  g_ptr_array_add(list, NULL);
  return (char **)g_ptr_array_free(list, FALSE);
}

static void add_peers_nodes(Side *side, const json_t *nodes) {
  size_t index;
  const json_t *node;
  json_array_foreach(nodes, index, node) {
    Dumped dumped = {g_strdup(json_string_value(json_object_get(node, "name"))),
                     g_strdup(json_string_value(json_object_get(node, "file"))), 0};
    g_array_append_val(side->nodes, dumped);
  }
}

static int add_peers_outputs(Side *side, const json_t *outputs) {
  size_t index;
  const json_t *value;
  json_array_foreach(outputs, index, value) {
    const char *file = json_string_value(json_object_get(value, "file"));
    Output output = {g_strdup(json_string_value(json_object_get(value, "name"))),
                     file ? bp_npy_read(file) : NULL};
    g_array_append_val(side->outputs, output);
    if (file && !output.tensor)
      return -1;
  }
  return 0;
}

/* Runs onnxruntime on the model of `other`, whose inputs are set and written to the folder. */
static int run_onnxruntime(Side *side, const Side *other) {
  char **inputs = list_inputs(other->loaded->model, side->dir);
  json_t *values = onnxruntime_run(side->path, side->dir, (const char *const *)inputs);
  int status = -1;
  if (values) {
    side->version =
        g_strdup_printf("onnxruntime %s", json_string_value(json_object_get(values, "version")));
    side->label = g_strdup_printf("%s in %s", side->path, side->version);
    add_peers_nodes(side, json_object_get(values, "nodes"));
    status = add_peers_outputs(side, json_object_get(values, "outputs"));
  }
  json_decref(values);
  g_strfreev(inputs);
  return status;
}

/* Runs both sides; onnxruntime gets the inputs of the other side. */
static int run_sides(Side *sides, const ModelOptions *options) {
  ModelOptions own = *options;
  if (make_folder(&sides[0]) < 0 || make_folder(&sides[1]) < 0)
    return -1;
  if (sides[0].loaded)
    return run_side(&sides[0], options) < 0 ? -1 : run_side(&sides[1], options);
  own.input_folder = sides[0].dir;
  return run_side(&sides[1], &own) < 0 ? -1 : run_onnxruntime(&sides[0], &sides[1]);
}

/* ---- Comparing --------------------------------------------------------------------------- */

/* Copies (n, c / b, h, w, b) of compact elements to (n, c, h, w). */
static void copy_plain(const BpTensorView *from, const BpTensorView *to, size_t bytes) {
  const int64_t *f = from->shape, *t = to->shape;
  int64_t pixels = t[2] * t[3];
  for (int64_t n = 0; n < t[0]; n++)
    for (int64_t c = 0; c < t[1]; c++)
      for (int64_t p = 0; p < pixels; p++) {
        int64_t at = ((n * f[1] + c / f[4]) * pixels + p) * f[4] + c % f[4];
        memcpy((char *)to->data + (size_t)((n * t[1] + c) * pixels + p) * bytes,
               (const char *)from->data + (size_t)at * bytes, bytes);
      }
}

/* Reads a node's output, in the plain layout (transfer full); NULL with an error. */
static BpTensor *read_plain(const Dumped *dumped) {
  BpTensor *read = bp_npy_read(dumped->path);
  const BpTensorView *view = read ? &read->view : NULL;
  gboolean is_blocked = read && dumped->channels > 0 && view->ndim == 5 &&
                        view->dtype.bits % 8 == 0 && view->shape[4] > 0 &&
                        (dumped->channels - 1) / view->shape[4] < view->shape[1];
  if (!is_blocked)
    return read;
  const int64_t shape[] = {view->shape[0], dumped->channels, view->shape[2], view->shape[3]};
  BpTensor *plain = bp_tensor_create(shape, 4, view->dtype, view->device, NULL);
  if (plain)
    copy_plain(view, &plain->view, bp_dtype_bytes(view->dtype));
  bp_object_release(read);
  return plain;
}

/* Fills in a row. A difference of shapes is no error for nodes: a tensor may be in Winograd's
 * transformed form. */
static void compare_tensors(const BpTensorView *expected, const BpTensorView *actual,
                            const Tolerance *tolerance, Row *row) {
  char *other = shape_to_text(actual->shape, actual->ndim);
  row->shape = shape_to_text(expected->shape, expected->ndim);
  if (strcmp(row->shape, other) != 0)
    row->reason = g_strdup_printf("its shape in B is %s", other);
  else if (difference_find(actual, expected, tolerance, &row->difference) < 0)
    row->reason = g_strdup(bp_error_message());
  bp_error_clear();
  g_free(other);
  if (row->reason)
    return;
  row->absolute = difference_absolute_text(&row->difference, expected);
  row->relative = difference_relative_text(&row->difference, expected);
  row->json = json_object();
  difference_add_json(row->json, &row->difference, expected);
}

/* Returns the last node with a name; NULL: there is none. */
static const Dumped *find_node(const Side *side, const char *name) {
  for (guint i = side->nodes->len; i-- > 0;)
    if (strcmp(g_array_index(side->nodes, Dumped, i).name, name) == 0)
      return &g_array_index(side->nodes, Dumped, i);
  return NULL;
}

/* Makes the row of a node that both sides have. */
static int compare_node(const Dumped *first, const Dumped *second, const Tolerance *tolerance,
                        Row *row) {
  BpTensor *expected = read_plain(first);
  BpTensor *actual = expected ? read_plain(second) : NULL;
  row->name = first->name;
  if (actual)
    compare_tensors(&expected->view, &actual->view, tolerance, row);
  int status = actual ? 0 : -1;
  bp_object_release(actual);
  bp_object_release(expected);
  return status;
}

/* Makes a row for each name, in the order of the first side, and then for names that only the
 * second side has. onnxruntime has all nodes of the model, so nodes that the other side fused or
 * folded are omitted. */
static int compare_nodes(const Side *sides, const Tolerance *tolerance, GArray *rows) {
  for (int s = 0; s < 2; s++)
    for (guint i = 0; i < sides[s].nodes->len; i++) {
      const Dumped *node = &g_array_index(sides[s].nodes, Dumped, i);
      const Dumped *other = find_node(&sides[1 - s], node->name);
      Row row = {.name = node->name};
      if (find_node(&sides[s], node->name) != node || (s && other) || (!other && !sides[s].loaded))
        continue;
      if (!other)
        row.reason = g_strdup_printf("only %s has it", s ? "B" : "A");
      else if (compare_node(node, other, tolerance, &row) < 0)
        return -1;
      g_array_append_val(rows, row);
    }
  return 0;
}

/* Returns the output of `other` to compare with an output of `side`: the output of the same name,
 * or the only output if both sides have one. NULL with an error if `other` lacks the output. */
static const Output *find_counterpart(const Side *side, const Side *other, guint index) {
  const char *name = g_array_index(side->outputs, Output, index).name;
  if (side->outputs->len == 1 && other->outputs->len == 1)
    return &g_array_index(other->outputs, Output, 0);
  for (guint i = 0; i < other->outputs->len; i++)
    if (strcmp(g_array_index(other->outputs, Output, i).name, name) == 0)
      return &g_array_index(other->outputs, Output, i);
  bp_error_raise(BP_ERROR_NOT_FOUND, "%s has no output '%s', which %s has", other->label, name,
                 side->label);
  return NULL;
}

/* Makes a row for each output. An output that only one side has is an error. */
static int compare_outputs(const Side *sides, const Tolerance *tolerance, GArray *rows) {
  for (guint i = 0; i < sides[1].outputs->len; i++)
    if (!find_counterpart(&sides[1], &sides[0], i))
      return -1;
  for (guint i = 0; i < sides[0].outputs->len; i++) {
    const Output *expected = &g_array_index(sides[0].outputs, Output, i);
    const Output *actual = find_counterpart(&sides[0], &sides[1], i);
    Row row = {.name = expected->name};
    if (!actual)
      return -1;
    if (expected->tensor)
      compare_tensors(&expected->tensor->view, &actual->tensor->view, tolerance, &row);
    else
      row.reason = g_strdup("onnxruntime's value has no form in .npy files");
    g_array_append_val(rows, row);
  }
  return 0;
}

static gboolean differs(const Row *row) {
  return !row->reason && row->difference.mismatches;
}

/* Returns the first row that differs, or NULL. */
static const Row *first_different(const GArray *rows) {
  for (guint i = 0; i < rows->len; i++)
    if (differs(&g_array_index(rows, Row, i)))
      return &g_array_index(rows, Row, i);
  return NULL;
}

/* An output that could not be compared counts as different. */
static gboolean all_match(const GArray *nodes, const GArray *outputs) {
  for (guint i = 0; i < outputs->len; i++)
    if (g_array_index(outputs, Row, i).reason)
      return FALSE;
  return !first_different(nodes) && !first_different(outputs);
}

/* ---- Reports ----------------------------------------------------------------------------- */

static void print_rows(const char *heading, const GArray *rows) {
  const char *const headers[] = {
      heading, "SHAPE", "LARGEST ABSOLUTE DIFFERENCE", "LARGEST RELATIVE", "MISMATCHES", NULL};
  Table *table = table_new(headers);
  for (guint i = 0; i < rows->len; i++) {
    const Row *row = &g_array_index(rows, Row, i);
    char *mismatches = row->reason
                           ? g_strdup_printf("not compared: %s", row->reason)
                           : g_strdup_printf("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
                                             row->difference.mismatches, row->difference.elements);
    table_add(table, row->name, row->shape ? row->shape : "-", row->absolute ? row->absolute : "-",
              row->relative ? row->relative : "-", mismatches);
    g_free(mismatches);
  }
  table_print(table);
}

static void print_text(const Side *sides, const GArray *nodes, const GArray *outputs,
                       const Tolerance *tolerance) {
  const Row *first = first_different(nodes);
  for (int i = 0; i < 2; i++)
    if (sides[i].loaded)
      model_print_report(sides[i].loaded);
  command_print_line(command_out(), "A: %s", sides[0].label);
  command_print_line(command_out(), "B: %s", sides[1].label);
  if (first)
    command_print_line(command_out(), "The first node that differs: %s, by %s", first->name,
                       first->absolute);
  else
    command_print_line(command_out(), "No node that both have differs.");
  fputc('\n', command_out());
  if (nodes->len) {
    print_rows("NODE", nodes);
    fputc('\n', command_out());
  }
  print_rows("OUTPUT", outputs);
  fprintf(command_out(), "An element matches within atol %g + rtol %g * |that of A|.\n",
          tolerance->absolute, tolerance->relative);
}

static json_t *rows_json(const GArray *rows) {
  json_t *array = json_array();
  for (guint i = 0; i < rows->len; i++) {
    const Row *row = &g_array_index(rows, Row, i);
    json_t *object = json_object();
    json_add_str(object, "name", row->name);
    if (row->shape)
      json_add_str(object, "shape", row->shape);
    if (row->reason)
      json_add_str(object, "reason", row->reason);
    if (row->json)
      json_add(object, "difference", json_incref(row->json));
    json_append(array, object);
  }
  return array;
}

static json_t *side_json(const Side *side) {
  json_t *object = json_object();
  json_add_str(object, "model", side->path);
  json_add_str(object, "device", side->loaded ? side->loaded->device_text : side->version);
  json_add_str(object, "label", side->label);
  json_add_str(object, "report", side->loaded ? side->loaded->report : "");
  return object;
}

static void print_json(const Side *sides, const GArray *nodes, const GArray *outputs,
                       const Tolerance *tolerance) {
  const Row *first = first_different(nodes);
  json_t *root = json_object();
  json_add(root, "a", side_json(&sides[0]));
  json_add(root, "b", side_json(&sides[1]));
  json_add_double(root, "rtol", tolerance->relative);
  json_add_double(root, "atol", tolerance->absolute);
  json_add(root, "matches", json_boolean(all_match(nodes, outputs)));
  json_add(root, "first_difference", first ? text_json(first->name) : json_null());
  json_add(root, "nodes", rows_json(nodes));
  json_add(root, "outputs", rows_json(outputs));
  command_print_json(root);
}

/* ---- The command ------------------------------------------------------------------------- */

/* Returns the exit status, or -1 with an error. */
static int compare_sides(Side *sides, const ModelOptions *options, const Tolerance *tolerance) {
  GArray *nodes = g_array_new(FALSE, FALSE, sizeof(Row)),
         *outputs = g_array_new(FALSE, FALSE, sizeof(Row));
  g_array_set_clear_func(nodes, clear_row);
  g_array_set_clear_func(outputs, clear_row);
  int status = -1;
  if (run_sides(sides, options) == 0 && compare_nodes(sides, tolerance, nodes) == 0 &&
      compare_outputs(sides, tolerance, outputs) == 0) {
    (options->json ? print_json : print_text)(sides, nodes, outputs, tolerance);
    status = all_match(nodes, outputs) ? EXIT_OK : EXIT_FAIL;
  }
  g_array_unref(nodes);
  g_array_unref(outputs);
  return status;
}

/* Adds the model's reference code as side A; the compiled model becomes side B. */
static int add_reference(char *const *paths, const ModelOptions *options, GPtrArray *sides) {
  ModelOptions reference = *options;
  reference.onnx.is_reference = TRUE;
  if (sides_add(paths, &reference, sides) < 0)
    return -1;
  gpointer compiled = sides->pdata[0];
  sides->pdata[0] = sides->pdata[1];
  sides->pdata[1] = compiled;
  return 0;
}

/* Names the sides: two of `models`, or onnxruntime and the only model. */
static void name_sides(Side *sides, const GPtrArray *models, gboolean is_reference) {
  int first = models->len == 1;
  sides[0] = sides[1] = (Side){.path = ((const LoadedModel *)models->pdata[0])->path};
  for (int i = first; i < 2; i++) {
    LoadedModel *loaded = models->pdata[i - first];
    sides[i].path = loaded->path;
    sides[i].loaded = loaded;
    sides[i].label = g_strdup_printf("%s on %s%s", loaded->path, loaded->device_text,
                                     is_reference && i == 0 ? ", as a reference" : "");
  }
}

/* `with_onnxruntime`: onnxruntime then runs the model as the other side. */
static int compare_models(char *const *paths, const ModelOptions *options,
                          gboolean with_onnxruntime, const Tolerance *tolerance) {
  GPtrArray *models = sides_open(paths, options);
  int status = models ? EXIT_OK : -1;
  guint wanted = with_onnxruntime ? 1 : 2;
  gboolean is_single = models && models->len == 1 && path_has_extension(*paths, ".onnx");
  gboolean is_reference = is_single && !with_onnxruntime && !options->onnx.is_reference;
  if (is_reference)
    status = add_reference(paths, options, models);
  if (status == 0 && with_onnxruntime && !is_single)
    status = command_raise_usage("--onnxruntime runs an ONNX file beside it on one device");
  if (status == 0 && models->len != wanted)
    status = command_raise_usage("compare takes two, as one model with two --device or two models; "
                                 "%s",
                                 models->len == 1 ? "an ONNX file alone is compared with its "
                                                    "reference"
                                                  : "these are more");
  if (status == 0) {
    Side sides[2];
    name_sides(sides, models, is_reference);
    status = compare_sides(sides, options, tolerance);
    for (int i = 0; i < 2; i++)
      clear_side(&sides[i]);
  }
  if (models)
    g_ptr_array_unref(models);
  return status < 0 ? command_fail(options->json) : status;
}

int cmd_compare(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  Tolerance tolerance = TOLERANCE_INIT;
  gboolean with_onnxruntime = FALSE;
  const GOptionEntry extra[] = {
      {"onnxruntime", 0, 0, G_OPTION_ARG_NONE, &with_onnxruntime,
       "compare an ONNX file with onnxruntime, which $BACKPLANE_PYTHON or python3 runs", NULL},
      TOLERANCE_ENTRIES(&tolerance),
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  options.fills = options.has_sides = TRUE;
  GOptionEntry *entries = model_option_entries(&options, extra);
  int status = EXIT_USAGE;
  if (command_parse(&argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER...",
                    "Runs a model on two devices, or two models, with the same inputs, and "
                    "compares their nodes and\noutputs. An ONNX file on one device is "
                    "compared with its reference.",
                    "Nodes of one name and shape are compared, whatever their layouts; with "
                    "--reference all nodes are, "
                    "but the fast code is not.\nInputs that are not given are filled with seeded "
                    "random numbers. Exit status 1: something differs.")) {
    int explained;
    if (sides_explain_preferences(&options, &explained))
      status = explained;
    else if (argc < 2 || argc > 3)
      command_usage_error("compare takes one model or two");
    else if (tolerance_check(&tolerance) < 0)
      status = command_fail(options.json);
    else
      status = compare_models(argv + 1, &options, with_onnxruntime, &tolerance);
  }
  g_free(entries);
  model_options_clear(&options);
  return status;
}
