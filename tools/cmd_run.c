/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane run`: runs a model with inputs from files and outputs to the terminal or to files. */
#include "tools/command.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <backplane/graph/npy.h>
#include <backplane/object.h>

#define SHOWN_ELEMENTS 10
#define SHOWN_ROWS     10 /* most rows whose greatest elements are shown */

typedef struct RunOptions {
  ModelOptions model;
  char *output;  /* a folder, FILE.npz, or NULL */
  char **expect; /* FILE or NAME=FILE */
  Tolerance tolerance;
  int top;
  char *labels;
} RunOptions;

/* An output, or a tensor of an output that is a list. */
typedef struct Output {
  char *name;       /* of a tensor of a list: NAME.0, NAME.1, ... */
  BpTensor *tensor; /* borrowed from the context */
  char dtype[32];
  char *shape;
  char *path;           /* the file that it was written to, or NULL */
  char *data;           /* the elements, in host memory */
  const char *expected; /* the file of the expected value, or NULL */
  Difference difference;
} Output;

static void output_clear(void *output) {
  Output *self = output;
  g_free(self->name);
  g_free(self->shape);
  g_free(self->path);
  g_free(self->data);
  g_free(self);
}

/* ---- Elements ---------------------------------------------------------------------------- */

/* Formats the first elements as text (transfer full), or says that the type has no text form. */
static char *first_elements(const Output *output) {
  const BpTensorView *view = &output->tensor->view;
  if (!element_is_number(view->dtype))
    return g_strdup_printf("elements of %s are not shown", output->dtype);
  int64_t count = bp_view_num_elements(view);
  size_t size = bp_dtype_bytes(view->dtype);
  GString *text = g_string_new(NULL);
  for (int64_t i = 0; i < MIN(count, SHOWN_ELEMENTS); i++) {
    g_string_append(text, i ? ", " : "");
    element_append(text, output->data + (size_t)i * size, view->dtype);
  }
  if (count > SHOWN_ELEMENTS)
    g_string_append(text, ", ...");
  return g_string_free(text, FALSE);
}

/* Returns all elements in row-major order, as JSON. */
static json_t *elements_json(const BpTensorView *view, const char *data) {
  int64_t count = bp_view_num_elements(view);
  size_t size = bp_dtype_bytes(view->dtype);
  json_t *array = json_array();
  for (int64_t i = 0; i < count; i++)
    json_append(array, element_json(data + (size_t)i * size, view->dtype));
  return array;
}

/* ---- Best elements ----------------------------------------------------------------------- */

typedef struct Element {
  int64_t index;
  double value;
} Element;

/* Orders by value, the largest first, NaN last, equal values by index. */
static int larger_first(const void *a, const void *b) {
  const Element *x = a, *y = b;
  int x_nan = isnan(x->value), y_nan = isnan(y->value);
  if (x_nan || y_nan || x->value == y->value)
    return x_nan != y_nan ? x_nan - y_nan : (x->index > y->index) - (x->index < y->index);
  return x->value < y->value ? 1 : -1;
}

static int64_t last_extent(const BpTensorView *view) {
  return view->ndim ? view->shape[view->ndim - 1] : 1;
}

/* Returns the `count` best elements of a row along the last axis (transfer full, g_array_unref). */
static GArray *best_elements(const Output *output, int64_t row, int count) {
  const BpTensorView *view = &output->tensor->view;
  int64_t extent = last_extent(view);
  size_t size = bp_dtype_bytes(view->dtype);
  GArray *elements = g_array_new(FALSE, FALSE, sizeof(Element));
  for (int64_t i = 0; i < extent; i++) {
    Element element = {
        i, element_number(output->data + (size_t)(row * extent + i) * size, view->dtype)};
    g_array_append_val(elements, element);
  }
  g_array_sort(elements, larger_first);
  g_array_set_size(elements, MIN(elements->len, (guint)count));
  return elements;
}

static int64_t num_rows(const Output *output) {
  const BpTensorView *view = &output->tensor->view;
  int64_t extent = last_extent(view);
  return extent ? bp_view_num_elements(view) / extent : 0;
}

/* Formats an element in its own type (transfer full): a double cannot hold all integers. */
static char *best_text(const Output *output, int64_t row, int64_t index) {
  const BpTensorView *view = &output->tensor->view;
  GString *text = g_string_new(NULL);
  int64_t at = row * last_extent(view) + index;
  element_append(text, output->data + (size_t)at * bp_dtype_bytes(view->dtype), view->dtype);
  return g_string_free(text, FALSE);
}

/* Returns the label of an element of the last axis, or "". */
static const char *label_of(char *const *labels, const Output *output, int64_t index) {
  int64_t extent = last_extent(&output->tensor->view);
  return labels && (int64_t)g_strv_length((char **)labels) == extent ? labels[index] : "";
}

static void add_row(Table *table, const Output *output, int64_t row, int top, char *const *labels) {
  const BpTensorView *view = &output->tensor->view;
  GArray *elements = best_elements(output, row, top);
  char *at = index_to_text(row, view->shape, MAX(view->ndim - 1, 0));
  for (guint i = 0; i < elements->len; i++) {
    int64_t index = g_array_index(elements, Element, i).index;
    char *number = g_strdup_printf("%" G_GINT64_FORMAT, index);
    char *value = best_text(output, row, index);
    table_add(table, output->name, at, number, value, label_of(labels, output, index));
    g_free(number);
    g_free(value);
  }
  g_free(at);
  g_array_unref(elements);
}

static void print_best(const GPtrArray *outputs, int top, char *const *labels) {
  static const char *const headers[] = {"OUTPUT", "ROW", "INDEX", "VALUE", "LABEL", NULL};
  static const char *const unlabelled[] = {"OUTPUT", "ROW", "INDEX", "VALUE", NULL};
  Table *table = table_new(labels ? headers : unlabelled);
  int64_t hidden = 0;
  for (guint i = 0; i < outputs->len; i++) {
    const Output *output = outputs->pdata[i];
    int64_t rows = element_is_number(output->tensor->view.dtype) ? num_rows(output) : 0;
    for (int64_t row = 0; row < MIN(rows, SHOWN_ROWS); row++)
      add_row(table, output, row, top, labels);
    hidden += MAX(rows - SHOWN_ROWS, 0);
  }
  fputc('\n', command_out());
  table_print(table);
  if (hidden)
    fprintf(command_out(), "... and %" G_GINT64_FORMAT " rows more, which --json has\n", hidden);
}

/* Returns, for each row along the last axis, a list of its best elements. */
static json_t *best_json(const Output *output, int top, char *const *labels) {
  const BpTensorView *view = &output->tensor->view;
  json_t *rows = json_array();
  size_t size = bp_dtype_bytes(view->dtype);
  for (int64_t row = 0; row < num_rows(output); row++) {
    GArray *elements = best_elements(output, row, top);
    json_t *list = json_array();
    for (guint i = 0; i < elements->len; i++) {
      int64_t index = g_array_index(elements, Element, i).index;
      const char *label = label_of(labels, output, index);
      const char *data = output->data + (size_t)(row * last_extent(view) + index) * size;
      json_t *object = json_object();
      json_add_int(object, "index", index);
      json_add(object, "value", element_json(data, view->dtype));
      if (*label)
        json_add_str(object, "label", label);
      json_append(list, object);
    }
    json_append(rows, list);
    g_array_unref(elements);
  }
  return rows;
}

/* Returns the lines of the file of labels (transfer full, g_strfreev); NULL with an error. */
static char **read_labels(const char *path) {
  gsize size;
  char *text = file_read(path, &size);
  if (!text) {
    bp_error_add_context("--labels");
    return NULL;
  }
  char **lines = g_strsplit(text, "\n", -1);
  guint count = g_strv_length(lines);
  if (count && !*lines[count - 1]) { /* empty text after the last newline */
    g_free(lines[count - 1]);
    lines[count - 1] = NULL;
  }
  for (char **line = lines; *line; line++)
    g_strchomp(*line);
  g_free(text);
  return lines;
}

/* Checks that the number of labels matches an output. */
static int check_labels(const RunOptions *options, char *const *labels, const GPtrArray *outputs) {
  guint count = g_strv_length((char **)labels);
  GPtrArray *extents = g_ptr_array_new_with_free_func(g_free);
  gboolean fits = FALSE;
  for (guint i = 0; i < outputs->len; i++) {
    const Output *output = outputs->pdata[i];
    int64_t extent = last_extent(&output->tensor->view);
    fits |= (int64_t)count == extent;
    g_ptr_array_add(extents, g_strdup_printf("%" G_GINT64_FORMAT " of '%s'", extent, output->name));
  }
  char *list = names_join(extents);
  if (!fits)
    bp_error_raise(BP_ERROR_VALUE,
                   "%s has %u lines; expected one for each element of an output's last axis: %s",
                   options->labels, count, list);
  g_free(list);
  g_ptr_array_unref(extents);
  return fits ? 0 : -1;
}

/* ---- Expected values --------------------------------------------------------------------- */

static GPtrArray *output_names(const GPtrArray *outputs) {
  GPtrArray *names = g_ptr_array_new();
  for (guint i = 0; i < outputs->len; i++)
    g_ptr_array_add(names, (char *)((const Output *)outputs->pdata[i])->name);
  return names;
}

static int raise_no_output(const char *what, const char *name, const GPtrArray *names) {
  char *list = names_join(names);
  bp_error_raise(BP_ERROR_NOT_FOUND, "--expect %s: the model has no output '%s'; it has: %s", what,
                 name, list);
  g_free(list);
  return -1;
}

/* Compares an output with the array, and releases the array; NULL: an error was raised. */
static int compare_output(Output *output, const char *path, BpTensor *expected,
                          const Tolerance *tolerance) {
  if (!expected)
    return -1;
  output->expected = path;
  int status =
      difference_find(&output->tensor->view, &expected->view, tolerance, &output->difference);
  bp_object_release(expected);
  return status < 0 ? bp_error_add_context("output '%s' against %s", output->name, path) : 0;
}

/* Compares each array of an archive with the output of the same name. */
static int compare_archive(const char *path, const GPtrArray *outputs, const GPtrArray *names,
                           const Tolerance *tolerance) {
  Npz *npz = npz_open(path);
  int status = npz ? 0 : -1;
  for (guint i = 0; status == 0 && i < npz_size(npz); i++) {
    guint index;
    if (g_ptr_array_find_with_equal_func((GPtrArray *)names, npz_name(npz, i), g_str_equal, &index))
      status = compare_output(outputs->pdata[index], path, npz_get(npz, i), tolerance);
    else
      status = raise_no_output(path, npz_name(npz, i), names);
  }
  npz_close(npz);
  return status;
}

static int compare_with(const char *expect, const GPtrArray *outputs, const GPtrArray *names,
                        const Tolerance *tolerance) {
  int32_t found = name_find(expect, names);
  if (found >= 0) {
    const char *name = names->pdata[found], *path = expect + strlen(name) + 1;
    return compare_output(outputs->pdata[found], path, array_read(path, name), tolerance);
  }
  gboolean is_file = !strchr(expect, '=') || g_file_test(expect, G_FILE_TEST_EXISTS);
  if (path_has_extension(expect, ".npz") && is_file)
    return compare_archive(expect, outputs, names, tolerance);
  if (!is_file) {
    char *name = g_strndup(expect, strcspn(expect, "="));
    raise_no_output(expect, name, names);
    g_free(name);
    return -1;
  }
  if (outputs->len != 1)
    return command_raise_usage("--expect %s: the model has %u outputs; say which, as --expect "
                               "%s=%s",
                               expect, outputs->len,
                               outputs->len ? (const char *)names->pdata[0] : "NAME", expect);
  return compare_output(outputs->pdata[0], expect, array_read(expect, names->pdata[0]), tolerance);
}

static int compare_outputs(const RunOptions *options, const GPtrArray *outputs) {
  GPtrArray *names = output_names(outputs);
  int status = 0;
  for (char **expect = options->expect; status == 0 && expect && *expect; expect++)
    status = compare_with(*expect, outputs, names, &options->tolerance);
  g_ptr_array_unref(names);
  return status;
}

/* Raises an error for the first mismatch; 0: there is none. */
static int raise_mismatch(const RunOptions *options, const GPtrArray *outputs) {
  for (guint i = 0; i < outputs->len; i++) {
    const Output *output = outputs->pdata[i];
    if (!output->expected || output->difference.mismatches == 0)
      continue;
    difference_raise(&output->difference, &output->tensor->view, &options->tolerance);
    return bp_error_add_context("output '%s' differs from %s", output->name, output->expected);
  }
  return 0;
}

static void print_differences(const RunOptions *options, const GPtrArray *outputs) {
  static const char *const headers[] = {
      "OUTPUT", "EXPECTED", "LARGEST ABSOLUTE DIFFERENCE", "LARGEST RELATIVE", "MISMATCHES", NULL};
  Table *table = table_new(headers);
  for (guint i = 0; i < outputs->len; i++) {
    const Output *output = outputs->pdata[i];
    if (!output->expected)
      continue;
    const BpTensorView *view = &output->tensor->view;
    const Difference *difference = &output->difference;
    char *absolute = difference_absolute_text(difference, view);
    char *relative = difference_relative_text(difference, view);
    char *mismatches = g_strdup_printf("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
                                       difference->mismatches, difference->elements);
    table_add(table, output->name, output->expected, absolute, relative, mismatches);
    g_free(mismatches);
    g_free(relative);
    g_free(absolute);
  }
  fputc('\n', command_out());
  table_print(table);
  fprintf(command_out(), "An element matches within atol %g + rtol %g * |expected|.\n",
          options->tolerance.absolute, options->tolerance.relative);
}

/* ---- Outputs ----------------------------------------------------------------------------- */

/* Whether an earlier output was written to the path: two names may give one file name, and two file
 * names are one file on a file system that ignores case. */
static gboolean is_written(const GPtrArray *outputs, const Output *output, const char *path) {
  for (guint i = 0; i < outputs->len && outputs->pdata[i] != output; i++) {
    const char *earlier = ((const Output *)outputs->pdata[i])->path;
    if (strcmp(earlier, path) == 0 || command_is_one_file(earlier, path))
      return TRUE;
  }
  return FALSE;
}

/* Names the file for an output: NAME.npy, or NAME.1.npy if an earlier output has that name. */
static int name_file(const GPtrArray *outputs, Output *output, const char *dir) {
  for (uint32_t index = 0; !output->path; index++) {
    char *file = bp_npy_file_name(output->name, index);
    if (!file)
      return -1;
    char *path = g_build_filename(dir, file, NULL);
    bp_str_free(file);
    if (is_written(outputs, output, path))
      g_free(path);
    else
      output->path = path;
  }
  return 0;
}

/* Checks that a file for outputs is neither one that the command reads nor one of another kind. */
static int check_file(const RunOptions *options, const char *model, const char *file) {
  char *const paths[] = {(char *)model, NULL}, *const labels[] = {options->labels, NULL};
  gboolean is_zip = path_has_extension(file, ".npz");
  return model_check_output("--output", file, paths, &options->model) < 0 ||
                 command_check_output("--output", file, options->expect) < 0 ||
                 command_check_output("--output", file, labels) < 0 ||
                 command_check_kind("--output", file, is_zip ? "PK" : "\x93NUMPY",
                                    is_zip ? ".npz file" : ".npy file") < 0
             ? -1
             : 0;
}

static int write_output(const char *model, const RunOptions *options, const GPtrArray *outputs,
                        Output *output) {
  return name_file(outputs, output, options->output) < 0 ||
                 check_file(options, model, output->path) < 0
             ? -1
             : command_write_npy(output->path, &output->tensor->view);
}

/* Writes all outputs into one archive. */
static int write_archive(const char *path, const GPtrArray *outputs) {
  const char **names = g_new0(const char *, outputs->len + 1);
  const BpTensorView **views = g_new0(const BpTensorView *, outputs->len + 1);
  for (guint i = 0; i < outputs->len; i++) {
    Output *output = outputs->pdata[i];
    names[i] = output->name;
    views[i] = &output->tensor->view;
    output->path = g_strdup(path);
  }
  int status = npz_write(path, names, views, outputs->len);
  g_free(views);
  g_free(names);
  return status;
}

static gboolean is_archive(const char *output) {
  return output && path_has_extension(output, ".npz");
}

static int write_outputs(const char *model, const RunOptions *options, const GPtrArray *outputs) {
  if (is_archive(options->output))
    return write_archive(options->output, outputs);
  for (guint i = 0; options->output && i < outputs->len; i++)
    if (write_output(model, options, outputs, outputs->pdata[i]) < 0)
      return -1;
  return 0;
}

/* Fetches a tensor's elements, and takes the name. JSON gets an output only if JSON can represent
 * its elements, or if they are in a file. */
static int collect_tensor(const RunOptions *options, GPtrArray *outputs, char *name,
                          BpTensor *tensor) {
  Output *output = g_new0(Output, 1);
  g_ptr_array_add(outputs, output);
  output->name = name;
  output->tensor = tensor;
  if (!tensor)
    return -1;
  const BpTensorView *view = &output->tensor->view;
  bp_dtype_format(view->dtype, output->dtype, sizeof output->dtype);
  output->shape = shape_to_text(view->shape, view->ndim);
  if (!options->output && options->model.json && !element_is_number(view->dtype))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "output '%s': elements of %s have no form in JSON", output->name,
                          output->dtype);
  output->data = elements_copy(view);
  return output->data ? 0 : bp_error_add_context("output '%s'", output->name);
}

/* Fetches the tensors of an output that is a list. */
static int collect_list(const LoadedModel *loaded, int32_t index, const RunOptions *options,
                        GPtrArray *outputs) {
  const char *name = bp_model_output_info(loaded->model, index)->name;
  int64_t length;
  int status = bp_model_get_output_length(loaded->context, index, &length);
  for (int64_t i = 0; status == 0 && i < length; i++)
    status = collect_tensor(options, outputs, g_strdup_printf("%s.%" G_GINT64_FORMAT, name, i),
                            bp_model_get_output_item(loaded->context, index, i));
  return status;
}

/* Fetches the outputs, compares them with the expected values, and writes them. */
static int collect_outputs(const LoadedModel *loaded, const RunOptions *options,
                           GPtrArray *outputs) {
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++) {
    const BpModelTensorInfo *info = bp_model_output_info(loaded->model, i);
    if ((info->kind ? collect_list(loaded, i, options, outputs)
                    : collect_tensor(options, outputs, g_strdup(info->name),
                                     bp_model_get_output(loaded->context, i))) < 0)
      return -1;
  }
  return compare_outputs(options, outputs) < 0 ? -1 : write_outputs(loaded->path, options, outputs);
}

/* ---- Reports ----------------------------------------------------------------------------- */

/* Prints the lengths of the outputs that are lists. */
static void print_lists(const LoadedModel *loaded) {
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++) {
    const BpModelTensorInfo *info = bp_model_output_info(loaded->model, i);
    int64_t length;
    if (!info->kind || bp_model_get_output_length(loaded->context, i, &length) < 0)
      continue;
    char *text = length == BP_MODEL_NO_VALUE ? g_strdup("without a value")
                                             : g_strdup_printf("of %" G_GINT64_FORMAT " tensor%s",
                                                               length, length == 1 ? "" : "s");
    command_print(command_out(), "Output '%s': %s %s.\n", info->name, kind_to_text(info->kind),
                  text);
    g_free(text);
  }
}

/* Returns the lengths of the outputs that are lists, by name; null for no value. */
static json_t *lists_json(const LoadedModel *loaded) {
  json_t *lists = json_object();
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++) {
    const BpModelTensorInfo *info = bp_model_output_info(loaded->model, i);
    int64_t length;
    if (info->kind && bp_model_get_output_length(loaded->context, i, &length) == 0)
      json_add(lists, info->name,
               length == BP_MODEL_NO_VALUE ? json_null() : json_integer((json_int_t)length));
  }
  return lists;
}

static void print_text(const LoadedModel *loaded, const RunOptions *options, double ms,
                       char *const *labels, const GPtrArray *outputs) {
  static const char *const headers[] = {"OUTPUT", "DTYPE", "SHAPE", "VALUES", NULL};
  char *place = model_place_text(loaded);
  model_print_report(loaded);
  fprintf(command_out(),
          "Ran on %s in %.3f ms, one-time setup included; `backplane bench` measures.\n", place,
          ms);
  g_free(place);
  Table *table = table_new(headers);
  for (guint i = 0; i < outputs->len; i++) {
    const Output *output = outputs->pdata[i];
    char *values = output->path ? NULL : first_elements(output);
    table_add(table, output->name, output->dtype, output->shape,
              output->path ? output->path : values);
    g_free(values);
  }
  table_print(table);
  print_lists(loaded);
  if (options->top)
    print_best(outputs, options->top, labels);
  if (options->expect)
    print_differences(options, outputs);
}

static json_t *output_json(const Output *output, int top, char *const *labels) {
  const BpTensorView *view = &output->tensor->view;
  json_t *object = json_object();
  json_add_str(object, "name", output->name);
  json_add_str(object, "dtype", output->dtype);
  json_add(object, "shape", shape_json(view->shape, view->ndim));
  if (output->path)
    json_add_str(object, "file", output->path);
  else
    json_add(object, "values", elements_json(view, output->data));
  if (top && element_is_number(view->dtype))
    json_add(object, "top", best_json(output, top, labels));
  if (output->expected) {
    json_t *difference = json_object();
    json_add_str(difference, "file", output->expected);
    difference_add_json(difference, &output->difference, view);
    json_add(object, "difference", difference);
  }
  return object;
}

static void print_json(const LoadedModel *loaded, const RunOptions *options, double ms,
                       char *const *labels, const GPtrArray *outputs) {
  json_t *root = json_object(), *list = json_array();
  json_add_str(root, "device", loaded->device_text);
  json_add_str(root, "report", loaded->report);
  json_add_double(root, "compile_ms", loaded->compile_ms);
  json_add_double(root, "load_ms", loaded->load_ms);
  json_add_double(root, "run_ms", ms);
  for (guint i = 0; i < outputs->len; i++)
    json_append(list, output_json(outputs->pdata[i], options->top, labels));
  json_add(root, "outputs", list);
  json_t *lists = lists_json(loaded);
  if (json_object_size(lists))
    json_add(root, "lists", json_incref(lists));
  json_decref(lists);
  model_add_specialized(root, loaded);
  command_print_json(root);
}

/* ---- The command ------------------------------------------------------------------------- */

static int run_once(LoadedModel *loaded, double *ms) {
  gint64 start = g_get_monotonic_time();
  if (bp_model_run(loaded->context) < 0 || model_wait(loaded) < 0)
    return -1;
  *ms = (double)(g_get_monotonic_time() - start) / 1000.0;
  return 0;
}

/* Runs the model, fetches and prints the outputs. A mismatch is raised after the results are
 * printed. */
static int run_and_print(LoadedModel *loaded, const RunOptions *options, GPtrArray *outputs,
                         gboolean *printed) {
  double ms = 0;
  char **labels = options->labels ? read_labels(options->labels) : NULL;
  int status = options->labels && !labels ? -1 : 0;
  if (status < 0 || model_set_inputs(loaded, &options->model) < 0 || run_once(loaded, &ms) < 0 ||
      collect_outputs(loaded, options, outputs) < 0 ||
      (labels && check_labels(options, labels, outputs) < 0))
    status = -1;
  if (status == 0) {
    (options->model.json ? print_json : print_text)(loaded, options, ms, labels, outputs);
    *printed = TRUE;
    status = raise_mismatch(options, outputs);
  }
  g_strfreev(labels);
  return status;
}

static int run_model(const char *path, const RunOptions *options) {
  LoadedModel loaded;
  gboolean printed = FALSE;
  if ((is_archive(options->output) ? check_file(options, path, options->output)
                                   : command_check_folder(options->output)) < 0 ||
      model_open(path, &options->model, &loaded) < 0)
    return command_fail(options->model.json);
  GPtrArray *outputs = g_ptr_array_new_with_free_func(output_clear);
  int status = run_and_print(&loaded, options, outputs, &printed) < 0
                   ? command_fail(options->model.json && !printed) /* one document */
                   : EXIT_OK;
  g_ptr_array_free(outputs, TRUE);
  model_close(&loaded);
  return status;
}

static int check_and_run(int argc, char **argv, const RunOptions *options) {
  int status;
  if (explain_preferences(options->model.device, &status))
    return status;
  if (argc != 2)
    return command_usage_error("run takes one model");
  if (options->top < 0)
    return command_usage_error("--top %d: it is a number of at least 1", options->top);
  if (options->labels && !options->top)
    return command_usage_error("--labels %s: it is for --top N", options->labels);
  if (tolerance_check(&options->tolerance) < 0)
    return command_fail(options->model.json);
  return run_model(argv[1], options);
}

int cmd_run(int argc, char **argv) {
  RunOptions options = {.model = MODEL_OPTIONS_INIT, .tolerance = TOLERANCE_INIT};
  const GOptionEntry extra[] = {
      {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
       "write each output to DIR/NAME.npy, or all into one archive", "DIR|FILE.npz"},
      {"output-dir", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &options.output, NULL, "DIR"},
      {"expect", 'e', 0, OPTION_TEXT_ARRAY, &options.expect,
       "compare an output with a .npy or .npz file; exit status 1 if they differ; may be repeated",
       "[NAME=]FILE"},
      TOLERANCE_ENTRIES(&options.tolerance),
      ONNX_SPECIALIZE_ENTRY(&options.model.onnx),
      {"top", 0, 0, G_OPTION_ARG_INT, &options.top,
       "show the N largest elements along each output's last axis", "N"},
      {"labels", 0, 0, G_OPTION_ARG_FILENAME, &options.labels,
       "names of the last axis's elements, one a line, in order", "FILE"},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  GOptionEntry *entries = model_option_entries(&options.model, extra);
  int status = EXIT_USAGE;
  if (command_parse(&argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER",
                    "Runs a model once: an ONNX file, compiled first, or a compiled library.",
                    "A picture given as an input is read as gray or RGB values in 0..1. A .bin "
                    "file has the elements alone, little-endian, of the input's type and shape. A "
                    "sequence takes --input once for each of its tensors, in order; NAME= is an "
                    "empty sequence, or an optional without a value. The tensors of an output that "
                    "is a sequence or an optional are outputs NAME.0, NAME.1, ..."))
    status = check_and_run(argc, argv, &options);
  g_free(entries);
  g_free(options.output);
  g_strfreev(options.expect);
  g_free(options.labels);
  model_options_clear(&options.model);
  return status;
}
