/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane demo`: classifies the digits in the package on every device. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/object.h>
#include <backplane/plugins.h>

#define MODEL_NAME "digits.onnx"
#define SHAPE      "image=1x1x28x28"
#define CLASSES    10

typedef struct Demo {
  char *model;       /* the path of the ONNX file */
  GPtrArray *images; /* paths; each name begins with the digit in the picture */
  char **devices;    /* devices to run on: "opencl:0", or lists of preferences */
} Demo;

/* The result of a device. */
typedef struct Result {
  char *device;
  char *name;          /* name of the hardware, or NULL */
  char *error;         /* or NULL */
  GArray *predictions; /* int, one for each image */
  guint right;
  double compile_ms, least_ms;
} Result;

static void clear_result(void *data) {
  Result *result = data;
  g_free(result->device);
  g_free(result->name);
  g_free(result->error);
  g_array_unref(result->predictions);
}

static void clear_demo(Demo *demo) {
  g_free(demo->model);
  g_ptr_array_unref(demo->images);
  g_strfreev(demo->devices);
}

/* ---- The model, and the devices -------------------------------------------------------------- */

static int compare_paths(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int find_images(const char *folder, GPtrArray *images) {
  char *path = g_build_filename(folder, "images", NULL);
  GDir *dir = g_dir_open(path, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name(dir)))
    if (g_ascii_isdigit(*name) && path_has_extension(name, ".png"))
      g_ptr_array_add(images, g_build_filename(path, name, NULL));
  g_ptr_array_sort(images, compare_paths);
  if (dir)
    g_dir_close(dir);
  g_free(path);
  if (images->len)
    return 0;
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "%s has no images/DIGIT*.png; the digits belong to the package "
                        "backplane-tools, and lie in examples/digits of the sources",
                        folder);
}

/* Returns all devices of all kinds (transfer full, g_strfreev); NULL with an error. */
static char **list_devices(void) {
  char **kinds = bp_device_kinds(NULL);
  GPtrArray *devices = g_ptr_array_new();
  char text[DEVICE_TEXT_MAX];
  if (kinds)
    bp_plugin_try((const char *const *)kinds);
  for (char **kind = kinds; kind && *kind; kind++) {
    BpDevice device;
    int32_t count = 0;
    if (bp_device_parse(*kind, &device) < 0 ||
        bp_device_count(device.device_type, &count, NULL) < 0)
      count = 0;
    bp_error_clear(); /* `list --probe` shows the reasons */
    for (device.device_id = 0; device.device_id < count; device.device_id++) {
      bp_device_format(device, text, sizeof text);
      g_ptr_array_add(devices, g_strdup(text));
    }
  }
  bp_names_free(kinds);
  if (kinds && devices->len == 0)
    bp_error_raise(BP_ERROR_NOT_FOUND,
                   "no installed plugin has a device; install one, as the package "
                   "backplane-plugin-cpu, and `backplane doctor` explains the rest");
  gboolean has_some = devices->len > 0;
  g_ptr_array_add(devices, NULL);
  char **list = (char **)g_ptr_array_free(devices, FALSE);
  if (has_some)
    return list;
  g_strfreev(list);
  return NULL;
}

static int prepare(const char *folder, char **devices, Demo *demo) {
  *demo = (Demo){.model = g_build_filename(folder, MODEL_NAME, NULL),
                 .images = g_ptr_array_new_with_free_func(g_free)};
  if (find_images(folder, demo->images) < 0)
    return -1;
  demo->devices = devices ? g_strdupv(devices) : list_devices();
  return demo->devices ? 0 : -1;
}

/* ---- Running ----------------------------------------------------------------------------- */

/* Returns the index of the largest element of the output; -1 with an error. */
static int read_prediction(const LoadedModel *loaded) {
  BpTensor *output = bp_model_get_output(loaded->context, 0);
  if (!output)
    return -1;
  const BpDataType dtype = output->view.dtype;
  if (dtype.code != BP_DTYPE_FLOAT || dtype.bits != 32 || dtype.lanes != 1 ||
      bp_view_num_elements(&output->view) != CLASSES)
    return bp_error_raise(BP_ERROR_VALUE, "the model's output is not float32, an element for each "
                                          "of the ten digits");
  float *values = (float *)(void *)elements_copy(&output->view);
  int best = values ? 0 : -1;
  for (int i = 1; values && i < CLASSES; i++)
    best = values[i] > values[best] ? i : best;
  g_free(values);
  return best;
}

static int classify(LoadedModel *loaded, const char *image, Result *result) {
  char *input = g_strconcat("image=", image, NULL);
  ModelOptions options = MODEL_OPTIONS_INIT;
  options.inputs = (char *[]){input, NULL};
  bp_model_context_free(loaded->context);
  int status = model_set_inputs(loaded, &options);
  g_free(input);
  gint64 start = g_get_monotonic_time();
  if (status < 0 || bp_model_run(loaded->context) < 0)
    return -1;
  int digit = read_prediction(loaded);
  double ms = (double)(g_get_monotonic_time() - start) / 1000.0;
  if (digit < 0)
    return -1;
  char *name = g_path_get_basename(image);
  result->right += digit == *name - '0';
  result->least_ms = result->predictions->len ? MIN(ms, result->least_ms) : ms;
  g_array_append_val(result->predictions, digit);
  g_free(name);
  return 0;
}

/* Returns the name of the device's hardware (transfer full), or NULL. */
static char *hardware_name(BpDevice device) {
  BpValue name = {.type_index = BP_TYPE_NONE};
  char *text =
      bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &name) == 0 ? value_to_text(&name) : NULL;
  bp_error_clear();
  bp_value_clear(&name);
  return text;
}

static Result run_on(const Demo *demo, char *device) {
  Result result = {.device = g_strdup(device),
                   .predictions = g_array_new(FALSE, FALSE, sizeof(int))};
  ModelOptions options = MODEL_OPTIONS_INIT;
  LoadedModel loaded;
  options.device = device;
  options.onnx.shapes = (char *[]){(char *)SHAPE, NULL};
  int status = model_open(demo->model, &options, &loaded);
  if (status == 0) {
    g_free(result.device);
    result.device = g_strdup(loaded.device_text);
    result.name = hardware_name(loaded.devices[0]);
    result.compile_ms = loaded.compile_ms;
  }
  for (guint i = 0; status == 0 && i < demo->images->len; i++)
    status = classify(&loaded, demo->images->pdata[i], &result);
  if (status < 0) {
    result.error = g_strdup(bp_error_message());
    bp_error_clear();
  }
  model_close(&loaded);
  return result;
}

/* ---- Reports ----------------------------------------------------------------------------- */

static void print_text(const Demo *demo, const GArray *results) {
  static const char *const headers[] = {"DEVICE",       "RIGHT", "LEAST (ms)",
                                        "COMPILE (ms)", "NAME",  NULL};
  command_print_line(command_out(), "%u handwritten digits, classified by %s:", demo->images->len,
                     demo->model);
  Table *table = table_new(headers);
  for (guint i = 0; i < results->len; i++) {
    const Result *result = &g_array_index(results, Result, i);
    char *right = result->error ? g_strdup("-")
                                : g_strdup_printf("%u of %u", result->right, demo->images->len);
    char *least = result->error ? g_strdup("-") : g_strdup_printf("%.3f", result->least_ms);
    char *compile = result->error ? g_strdup("-") : g_strdup_printf("%.0f", result->compile_ms);
    table_add(table, result->device, right, least, compile,
              result->error  ? result->error
              : result->name ? result->name
                             : "");
    g_free(compile);
    g_free(least);
    g_free(right);
  }
  table_print(table);
}

static json_t *result_json(const Demo *demo, const Result *result) {
  json_t *object = json_object(), *predictions = json_array();
  json_add_str(object, "device", result->device);
  if (result->name)
    json_add_str(object, "name", result->name);
  if (result->error)
    json_add_str(object, "error", result->error);
  for (guint i = 0; i < result->predictions->len; i++) {
    json_t *prediction = json_object();
    json_add_str(prediction, "image", demo->images->pdata[i]);
    json_add_int(prediction, "digit", g_array_index(result->predictions, int, i));
    json_append(predictions, prediction);
  }
  json_add_int(object, "right", result->right);
  json_add_double(object, "least_ms", result->least_ms);
  json_add_double(object, "compile_ms", result->compile_ms);
  json_add(object, "predictions", predictions);
  return object;
}

static void print_json(const Demo *demo, const GArray *results) {
  json_t *root = json_object(), *list = json_array();
  json_add_str(root, "model", demo->model);
  json_add_int(root, "images", demo->images->len);
  for (guint i = 0; i < results->len; i++)
    json_append(list, result_json(demo, &g_array_index(results, Result, i)));
  json_add(root, "results", list);
  command_print_json(root);
}

/* ---- The command ------------------------------------------------------------------------- */

/* Returns 1 if a device gave a wrong digit, or if no device gave all digits; a device may lack its
 * compiler. */
static int exit_status(const Demo *demo, const GArray *results) {
  gboolean is_wrong = FALSE, has_all = FALSE;
  for (guint i = 0; i < results->len; i++) {
    const Result *result = &g_array_index(results, Result, i);
    is_wrong |= result->right < result->predictions->len;
    has_all |= result->right == demo->images->len;
  }
  return has_all && !is_wrong ? EXIT_OK : EXIT_FAIL;
}

static int show(const char *folder, char **devices, gboolean json) {
  Demo demo;
  int status;
  if (prepare(folder, devices, &demo) < 0) {
    status = command_fail(json);
  } else {
    GArray *results = g_array_new(FALSE, FALSE, sizeof(Result));
    g_array_set_clear_func(results, clear_result);
    for (char **device = demo.devices; *device; device++) {
      Result result = run_on(&demo, *device);
      g_array_append_val(results, result);
    }
    (json ? print_json : print_text)(&demo, results);
    status = exit_status(&demo, results);
    g_array_unref(results);
  }
  clear_demo(&demo);
  return status;
}

int cmd_demo(int argc, char **argv) {
  gboolean json = FALSE;
  char **devices = NULL;
  const GOptionEntry entries[] = {
      {"device", 'd', 0, OPTION_TEXT_ARRAY, &devices,
       "a device, or a list of preferences (default: every device); may be repeated", "LIST"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  int status = EXIT_USAGE;
  if (command_parse(&argc, &argv, entries, "[FOLDER]",
                    "Classifies handwritten digits on every device, as a test of the installation.",
                    "FOLDER has digits.onnx and images/DIGIT*.png (default: those installed). Exit "
                    "status 1: a device\ngives a wrong result, or no device works."))
    status = argc > 2 ? command_usage_error("demo takes one folder, and got '%s' too", argv[2])
                      : show(argc > 1 ? argv[1] : BP_DIGITS_DIR, devices, json);
  g_strfreev(devices);
  return status;
}
