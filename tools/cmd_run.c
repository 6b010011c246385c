/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane run`: a model, inputs from files, outputs to the terminal or to files. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/graph/npy.h>
#include <backplane/object.h>

#define SHOWN_ELEMENTS 10

typedef struct Output {
  const BpModelTensorInfo *info;
  BpTensor *tensor; /* borrowed from the context */
  char dtype[32];
  char *shape;
  char *path; /* where it was written, or NULL */
  char *data; /* the elements, where it was not written */
} Output;

static void output_clear(void *output) {
  Output *self = output;
  g_free(self->shape);
  g_free(self->path);
  g_free(self->data);
  g_free(self);
}

/* ---- Elements ---------------------------------------------------------------------------- */

/* The elements in host memory (transfer full); NULL with an error. */
static char *copy_elements(const BpTensorView *view) {
  int64_t bytes = bp_view_num_bytes(view);
  char *data = bytes < 0 ? NULL : g_try_malloc((gsize)MAX(bytes, 1));
  if (!data) {
    if (bytes >= 0)
      bp_error_raise(BP_ERROR_MEMORY, "no memory for %" G_GINT64_FORMAT " bytes of output", bytes);
    return NULL;
  }
  if (bp_tensor_copy_to_host(view, data, (uint64_t)bytes) == 0)
    return data;
  g_free(data);
  return NULL;
}

/* The first elements as text, or that the type has none (transfer full). */
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

/* All elements in row-major order. */
static json_t *elements_json(const BpTensorView *view, const char *data) {
  int64_t count = bp_view_num_elements(view);
  size_t size = bp_dtype_bytes(view->dtype);
  json_t *array = json_array();
  for (int64_t i = 0; i < count; i++)
    json_append(array, element_json(data + (size_t)i * size, view->dtype));
  return array;
}

/* ---- Outputs ----------------------------------------------------------------------------- */

static int write_output(Output *output, const char *dir) {
  char *file = name_to_file_name(output->info->name);
  output->path = g_strdup_printf("%s/%s.npy", dir, file);
  g_free(file);
  return bp_npy_write(output->path, &output->tensor->view);
}

/* Writes an output to a file in `dir`, or, without one, fetches it: for `json` only if it can be
 * written as such. */
static int collect_output(const LoadedModel *loaded, int32_t index, const char *dir, gboolean json,
                          Output *output) {
  output->info = bp_model_output_info(loaded->model, index);
  output->tensor = bp_model_get_output(loaded->context, index);
  if (!output->tensor)
    return -1;
  const BpTensorView *view = &output->tensor->view;
  bp_dtype_format(view->dtype, output->dtype, sizeof output->dtype);
  output->shape = shape_to_text(view->shape, view->ndim);
  if (dir)
    return write_output(output, dir);
  if (json && !element_is_number(view->dtype))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "output '%s': elements of %s have no form in JSON", output->info->name,
                          output->dtype);
  output->data = copy_elements(view);
  return output->data ? 0 : bp_error_add_context("output '%s'", output->info->name);
}

static int collect_outputs(const LoadedModel *loaded, const char *dir, gboolean json,
                           GPtrArray *outputs) {
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++) {
    Output *output = g_new0(Output, 1);
    g_ptr_array_add(outputs, output);
    if (collect_output(loaded, i, dir, json, output) < 0)
      return -1;
  }
  return 0;
}

/* ---- Reports ----------------------------------------------------------------------------- */

static void print_text(const LoadedModel *loaded, double ms, const GPtrArray *outputs) {
  static const char *const headers[] = {"OUTPUT", "DTYPE", "SHAPE", "VALUES", NULL};
  model_print_report(loaded);
  fprintf(command_out(),
          "Ran on %s in %.3f ms, one-time setup included; `backplane bench` measures.\n",
          loaded->device_text, ms);
  Table *table = table_new(headers);
  for (guint i = 0; i < outputs->len; i++) {
    const Output *output = outputs->pdata[i];
    char *values = output->path ? NULL : first_elements(output);
    table_add(table, output->info->name, output->dtype, output->shape,
              output->path ? output->path : values);
    g_free(values);
  }
  table_print(table);
}

static void print_json(const LoadedModel *loaded, double ms, const GPtrArray *outputs) {
  json_t *root = json_object(), *list = json_array();
  json_add_str(root, "device", loaded->device_text);
  json_add_str(root, "report", loaded->report);
  json_add_double(root, "compile_ms", loaded->compile_ms);
  json_add_double(root, "load_ms", loaded->load_ms);
  json_add_double(root, "run_ms", ms);
  for (guint i = 0; i < outputs->len; i++) {
    const Output *output = outputs->pdata[i];
    const BpTensorView *view = &output->tensor->view;
    json_t *object = json_object();
    json_add_str(object, "name", output->info->name);
    json_add_str(object, "dtype", output->dtype);
    json_add(object, "shape", shape_json(view->shape, view->ndim));
    if (output->path)
      json_add_str(object, "file", output->path);
    else
      json_add(object, "values", elements_json(view, output->data));
    json_append(list, object);
  }
  json_add(root, "outputs", list);
  command_print_json(root);
}

/* ---- The command ------------------------------------------------------------------------- */

static int run_once(LoadedModel *loaded, double *ms) {
  gint64 start = g_get_monotonic_time();
  if (bp_model_run(loaded->context) < 0)
    return -1;
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++)
    if (!bp_model_get_output(loaded->context, i))
      return -1;
  *ms = (double)(g_get_monotonic_time() - start) / 1000.0;
  return 0;
}

static int run_model(const char *path, const ModelOptions *options, const char *output_dir) {
  LoadedModel loaded;
  double ms = 0;
  if (command_check_folder(output_dir) < 0 || model_open(path, options, &loaded) < 0)
    return command_fail(options->json);
  GPtrArray *outputs = g_ptr_array_new_with_free_func(output_clear);
  int status = EXIT_OK;
  if (model_set_inputs(&loaded, options) < 0 || run_once(&loaded, &ms) < 0 ||
      collect_outputs(&loaded, output_dir, options->json, outputs) < 0)
    status = command_fail(options->json);
  else if (options->json)
    print_json(&loaded, ms, outputs);
  else
    print_text(&loaded, ms, outputs);
  g_ptr_array_free(outputs, TRUE);
  model_close(&loaded);
  return status;
}

int cmd_run(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  char *output_dir = NULL;
  const GOptionEntry extra[] = {{"output-dir", 'o', 0, G_OPTION_ARG_FILENAME, &output_dir,
                                 "write each output to DIR/NAME.npy", "DIR"},
                                {NULL, 0, 0, 0, NULL, NULL, NULL}};
  GOptionEntry *entries = model_option_entries(&options, extra);
  int status = EXIT_USAGE;
  if (command_parse(&argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER",
                    "Runs a model once: an ONNX file, compiled first, or a compiled library.",
                    "A picture given as an input is read as gray or RGB values in 0..1."))
    status = explain_preferences(options.device) ? EXIT_OK
             : argc == 2                         ? run_model(argv[1], &options, output_dir)
                                                 : command_usage_error("run takes one model");
  g_free(entries);
  g_free(output_dir);
  model_options_clear(&options);
  return status;
}
