/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane compare`: a model on two devices, or two models, node by node. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <backplane/graph/npy.h>
#include <backplane/object.h>

/* A node's first output on one side. A name may occur several times: the last is the result. */
typedef struct Dumped {
  char *name; /* without the number of the node */
  char *path; /* the .npy file */
} Dumped;

/* One of the two: the model, and what its nodes gave. */
typedef struct Side {
  LoadedModel *loaded;
  char *label;   /* "digits.onnx on cpu:0" */
  char *dir;     /* of the dumped tensors, removed at the end; NULL: nothing was dumped */
  GArray *nodes; /* Dumped, in order */
} Side;

/* A row of the report. */
typedef struct Row {
  const char *name;
  char *shape;
  char *reason; /* why it was not compared, or NULL */
  char *absolute, *relative;
  Difference difference;
  json_t *json; /* the difference, or NULL */
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

/* ---- Running ----------------------------------------------------------------------------- */

/* The name behind the node's number, "12:conv1". */
static const char *plain_name(const char *node) {
  size_t digits = strspn(node, "0123456789");
  return digits && node[digits] == ':' ? node + digits + 1 : node;
}

static int add_node(void *visitor, const char *node, const char *function, int64_t start_ns,
                    int64_t duration_ns) {
  (void)function, (void)start_ns, (void)duration_ns;
  Side *side = visitor;
  char *file = g_strdelimit(g_strdup(node), "/", '_');
  Dumped dumped = {g_strdup(plain_name(node)), g_strdup_printf("%s/%s.npy", side->dir, file)};
  g_array_append_val(side->nodes, dumped);
  g_free(file);
  return 0;
}

/* Removes the files of a folder that has nothing else. */
static void empty_folder(const char *path) {
  GDir *dir = g_dir_open(path, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name(dir))) {
    char *file = g_build_filename(path, name, NULL);
    unlink(file);
    g_free(file);
  }
  if (dir)
    g_dir_close(dir);
}

static void clear_side(Side *side) {
  if (side->nodes)
    g_array_unref(side->nodes);
  if (side->dir) {
    empty_folder(side->dir);
    rmdir(side->dir);
  }
  g_free(side->dir);
  g_free(side->label);
}

/* Runs once, writing what each node gives. Elements that .npy files have no form for leave the
 * nodes out, and so does what cannot be written, as a node's name that is too long for a file's. */
static int run_side(Side *side, const ModelOptions *options) {
  GError *error = NULL;
  side->nodes = g_array_new(FALSE, FALSE, sizeof(Dumped));
  g_array_set_clear_func(side->nodes, clear_dumped);
  if (!(side->dir = g_dir_make_tmp("backplane-XXXXXX", &error))) {
    bp_error_raise(BP_ERROR_IO,
                   "cannot make a folder for the nodes' tensors: %s; TMPDIR names "
                   "another place",
                   error->message);
    g_error_free(error);
    return -1;
  }
  if (model_set_inputs(side->loaded, options) < 0)
    return -1;
  if (bp_model_profile(side->loaded->context, side->dir, add_node, side) == 0)
    return 0;
  if (!bp_error_is(BP_ERROR_TYPE) && !bp_error_is(BP_ERROR_IO))
    return -1;
  command_print(stderr, "backplane: only outputs are compared: %s\n", bp_error_message());
  bp_error_clear();
  g_array_set_size(side->nodes, 0);
  return bp_model_run(side->loaded->context);
}

/* ---- Comparing --------------------------------------------------------------------------- */

/* Fills in a row. Other shapes, as layouts for other vectors have them, are no error of a node's.
 */
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

/* The last node of that name; NULL: there is none. */
static const Dumped *find_node(const Side *side, const char *name) {
  for (guint i = side->nodes->len; i-- > 0;)
    if (strcmp(g_array_index(side->nodes, Dumped, i).name, name) == 0)
      return &g_array_index(side->nodes, Dumped, i);
  return NULL;
}

/* The row of a node that both sides have. */
static int compare_node(const Dumped *first, const Dumped *second, const Tolerance *tolerance,
                        Row *row) {
  BpTensor *expected = bp_npy_read(first->path);
  BpTensor *actual = expected ? bp_npy_read(second->path) : NULL;
  row->name = first->name;
  if (actual)
    compare_tensors(&expected->view, &actual->view, tolerance, row);
  int status = actual ? 0 : -1;
  bp_object_release(actual);
  bp_object_release(expected);
  return status;
}

/* A row for each name, in the order of the first side; those that only the second has follow. */
static int compare_nodes(const Side *sides, const Tolerance *tolerance, GArray *rows) {
  for (int s = 0; s < 2; s++)
    for (guint i = 0; i < sides[s].nodes->len; i++) {
      const Dumped *node = &g_array_index(sides[s].nodes, Dumped, i);
      const Dumped *other = find_node(&sides[1 - s], node->name);
      Row row = {.name = node->name};
      if (find_node(&sides[s], node->name) != node || (s && other))
        continue;
      if (!other)
        row.reason = g_strdup_printf("only %s has it", s ? "B" : "A");
      else if (compare_node(node, other, tolerance, &row) < 0)
        return -1;
      g_array_append_val(rows, row);
    }
  return 0;
}

/* The output of `other` that an output of `side` is compared with: that of its name, or the only
 * one where both have one. -1 with an error: there is none. */
static int32_t find_counterpart(const Side *side, const Side *other, int32_t index) {
  const BpModel *from = side->loaded->model, *to = other->loaded->model;
  const char *name = bp_model_output_info(from, index)->name;
  if (bp_model_num_outputs(from) == 1 && bp_model_num_outputs(to) == 1)
    return 0;
  for (int32_t i = 0; i < bp_model_num_outputs(to); i++)
    if (strcmp(bp_model_output_info(to, i)->name, name) == 0)
      return i;
  return bp_error_raise(BP_ERROR_NOT_FOUND, "%s has no output '%s', which %s has", other->label,
                        name, side->label);
}

/* A row for each output. One that only A or only B has is an error. */
static int compare_outputs(const Side *sides, const Tolerance *tolerance, GArray *rows) {
  BpModel *a = sides[0].loaded->model, *b = sides[1].loaded->model;
  for (int32_t i = 0; i < bp_model_num_outputs(b); i++)
    if (find_counterpart(&sides[1], &sides[0], i) < 0)
      return -1;
  for (int32_t i = 0; i < bp_model_num_outputs(a); i++) {
    int32_t index = find_counterpart(&sides[0], &sides[1], i);
    Row row = {.name = bp_model_output_info(a, i)->name};
    if (index < 0)
      return -1;
    BpTensor *expected = bp_model_get_output(sides[0].loaded->context, i);
    BpTensor *actual = expected ? bp_model_get_output(sides[1].loaded->context, index) : NULL;
    if (!actual)
      return -1;
    compare_tensors(&expected->view, &actual->view, tolerance, &row);
    g_array_append_val(rows, row);
  }
  return 0;
}

static gboolean differs(const Row *row) {
  return !row->reason && row->difference.mismatches;
}

/* The first row that differs, or NULL. */
static const Row *first_different(const GArray *rows) {
  for (guint i = 0; i < rows->len; i++)
    if (differs(&g_array_index(rows, Row, i)))
      return &g_array_index(rows, Row, i);
  return NULL;
}

/* An output that could not be compared is no match. */
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
  model_print_report(sides[0].loaded);
  model_print_report(sides[1].loaded);
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
  json_add_str(object, "model", side->loaded->path);
  json_add_str(object, "device", side->loaded->device_text);
  json_add_str(object, "label", side->label);
  json_add_str(object, "report", side->loaded->report);
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

/* The exit status, or -1 with an error. */
static int compare_sides(Side *sides, const ModelOptions *options, const Tolerance *tolerance) {
  GArray *nodes = g_array_new(FALSE, FALSE, sizeof(Row)),
         *outputs = g_array_new(FALSE, FALSE, sizeof(Row));
  g_array_set_clear_func(nodes, clear_row);
  g_array_set_clear_func(outputs, clear_row);
  int status = -1;
  if (run_side(&sides[0], options) == 0 && run_side(&sides[1], options) == 0 &&
      compare_nodes(sides, tolerance, nodes) == 0 &&
      compare_outputs(sides, tolerance, outputs) == 0) {
    (options->json ? print_json : print_text)(sides, nodes, outputs, tolerance);
    status = all_match(nodes, outputs) ? EXIT_OK : EXIT_FAIL;
  }
  g_array_unref(nodes);
  g_array_unref(outputs);
  return status;
}

/* Adds the reference to one model on one device, which is then A. */
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

static int compare_models(char *const *paths, const ModelOptions *options,
                          const Tolerance *tolerance) {
  GPtrArray *models = sides_open(paths, options);
  int status = models ? EXIT_OK : -1;
  gboolean is_single = models && models->len == 1 && path_has_extension(*paths, ".onnx") &&
                       !options->onnx.is_reference;
  if (is_single)
    status = add_reference(paths, options, models);
  if (status == 0 && models->len != 2)
    status = command_raise_usage("compare takes two, as one model with two --device or two models; "
                                 "%s",
                                 models->len == 1 ? "an ONNX file alone is compared with its "
                                                    "reference"
                                                  : "these are more");
  if (status == 0) {
    Side sides[2] = {{.loaded = models->pdata[0]}, {.loaded = models->pdata[1]}};
    for (int i = 0; i < 2; i++)
      sides[i].label =
          g_strdup_printf("%s on %s%s", sides[i].loaded->path, sides[i].loaded->device_text,
                          is_single && i == 0 ? ", as a reference" : "");
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
  const GOptionEntry extra[] = {TOLERANCE_ENTRIES(&tolerance), {NULL, 0, 0, 0, NULL, NULL, NULL}};
  options.fills = options.has_sides = TRUE;
  GOptionEntry *entries = model_option_entries(&options, extra);
  int status = EXIT_USAGE;
  if (command_parse(&argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER...",
                    "Runs a model on two devices, or two models, with the same inputs, and "
                    "compares what their nodes and\noutputs give. An ONNX file on one device is "
                    "compared with its reference.",
                    "Nodes of one name and shape are compared; with --reference all nodes are, "
                    "but the fast code is not.\nInputs that are not given are filled with seeded "
                    "random numbers. Exit status 1: something differs.")) {
    if (sides_explain_preferences(&options))
      status = EXIT_OK;
    else if (argc < 2 || argc > 3)
      command_usage_error("compare takes one model or two");
    else if (tolerance_check(&tolerance) < 0)
      status = command_fail(options.json);
    else
      status = compare_models(argv + 1, &options, &tolerance);
  }
  g_free(entries);
  model_options_clear(&options);
  return status;
}
