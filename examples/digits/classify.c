/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies handwritten digits on every device that the installed plugins bring, and prints one
 * table. The program shows how an application uses the library: find devices, compile a model for
 * each, set an input, run, read the output.
 *
 *   digits-classify FOLDER      with digits.onnx, reference.json and images/ in FOLDER
 *
 * Exit status: 0 when every device gives the reference's predictions, 1 otherwise. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <glib.h>
#include <jansson.h>
#include <png.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>

#define SIDE      28
#define CLASSES   10
#define RUNS      20
#define TOLERANCE 1e-3

typedef struct Digit {
  int label;
  float pixels[SIDE * SIDE];
  float reference[CLASSES]; /* onnxruntime's logits */
} Digit;

/* The results of one device. */
typedef struct Outcome {
  GString *predictions;
  int agreeing; /* with the reference */
  double difference;
  double milliseconds; /* shortest run of one image */
} Outcome;

/* ---- Reading the example ----------------------------------------------------------------- */

static int read_png(const char *path, float *pixels) {
  png_byte bytes[SIDE * SIDE];
  png_image image = {.version = PNG_IMAGE_VERSION};
  const png_color black = {0}; /* background of transparent pixels */
  if (!png_image_begin_read_from_file(&image, path))
    return bp_error_raise(BP_ERROR_FORMAT, "%s: %s", path, image.message);
  image.format = PNG_FORMAT_GRAY;
  if (image.width != SIDE || image.height != SIDE) {
    png_image_free(&image);
    return bp_error_raise(BP_ERROR_VALUE, "%s is not %d by %d pixels", path, SIDE, SIDE);
  }
  if (!png_image_finish_read(&image, &black, bytes, 0, NULL))
    return bp_error_raise(BP_ERROR_FORMAT, "%s: %s", path, image.message);
  for (int i = 0; i < SIDE * SIDE; i++)
    pixels[i] = (float)bytes[i] / 255.0f;
  return 0;
}

static int read_digit(const char *folder, const json_t *entry, Digit *digit) {
  const char *file = json_string_value(json_object_get(entry, "file"));
  const json_t *logits = json_object_get(entry, "logits");
  if (!file)
    return bp_error_raise(BP_ERROR_FORMAT, "an image without a file");
  digit->label = (int)json_integer_value(json_object_get(entry, "label"));
  for (size_t i = 0; i < CLASSES; i++)
    digit->reference[i] = (float)json_number_value(json_array_get(logits, i));
  char *path = g_build_filename(folder, file, NULL);
  int status = read_png(path, digit->pixels);
  g_free(path);
  return status;
}

/* Reads the images, and onnxruntime's results for them (transfer full). */
static GArray *read_digits(const char *folder) {
  char *path = g_build_filename(folder, "reference.json", NULL);
  GArray *digits = g_array_new(FALSE, TRUE, sizeof(Digit));
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error);
  int status = root ? 0 : bp_error_raise(BP_ERROR_IO, "%s: %s", path, error.text);
  const json_t *images = json_object_get(root, "images");
  g_array_set_size(digits, (guint)json_array_size(images));
  for (guint i = 0; status == 0 && i < digits->len; i++)
    status = read_digit(folder, json_array_get(images, i), &g_array_index(digits, Digit, i));
  json_decref(root);
  g_free(path);
  if (status == 0)
    return digits;
  g_array_free(digits, TRUE);
  return NULL;
}

/* ---- Classifying ------------------------------------------------------------------------- */

static int largest(const float *values) {
  int best = 0;
  for (int i = 1; i < CLASSES; i++)
    if (values[i] > values[best])
      best = i;
  return best;
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int classify(BpModelContext *context, const Digit *digit, float *logits, double *ms) {
  int64_t shape[] = {1, 1, SIDE, SIDE};
  const BpTensorView image = {.data = (void *)(uintptr_t)digit->pixels,
                              .device = {BP_DEVICE_CPU, 0},
                              .ndim = 4,
                              .dtype = {BP_DTYPE_FLOAT, 32, 1},
                              .shape = shape};
  *ms = INFINITY;
  for (int run = 0; run < RUNS; run++) {
    double start = now_ms();
    if (bp_model_set_input(context, "image", &image) < 0 || bp_model_run(context) < 0)
      return -1;
    BpTensor *output = bp_model_get_output(context, 0);
    if (!output || bp_tensor_copy_to_host(&output->view, logits, CLASSES * sizeof(*logits)) < 0)
      return -1;
    *ms = fmin(*ms, now_ms() - start);
  }
  return 0;
}

static int classify_all(BpModel *model, const GArray *digits, Outcome *outcome) {
  BpModelContext *context = bp_model_context_create(model);
  int status = context ? 0 : -1;
  outcome->milliseconds = INFINITY;
  for (guint i = 0; status == 0 && i < digits->len; i++) {
    const Digit *digit = &g_array_index(digits, Digit, i);
    float logits[CLASSES];
    double ms;
    status = classify(context, digit, logits, &ms);
    if (status < 0)
      break;
    outcome->milliseconds = fmin(outcome->milliseconds, ms);
    g_string_append_printf(outcome->predictions, "%d", largest(logits));
    outcome->agreeing += largest(logits) == largest(digit->reference);
    for (int k = 0; k < CLASSES; k++)
      outcome->difference =
          fmax(outcome->difference, fabs((double)logits[k] - (double)digit->reference[k]));
  }
  bp_model_context_free(context);
  return status;
}

static BpModel *compile_for(const char *onnx, const BpTarget *target, BpDevice device) {
  const int64_t shape[] = {1, 1, SIDE, SIDE};
  const BpInputShape input = {"image", shape, 4};
  const BpCompileOptions options = {.struct_size = sizeof(options),
                                    .targets = &target,
                                    .num_targets = 1,
                                    .shapes = &input,
                                    .num_shapes = 1,
                                    .shape_size = sizeof(BpInputShape)};
  BpModule *module = bp_model_compile(onnx, &options);
  BpModel *model = module ? bp_model_create(module, &device, 1) : NULL;
  bp_object_release(module);
  return model;
}

/* ---- The table --------------------------------------------------------------------------- */

/* The plugin whose descriptor lists `word` among its devices or targets (transfer full). */
static char *plugin_of(const char *word, gboolean is_target) {
  BpPluginList *plugins = bp_plugin_list();
  char *found = NULL;
  for (size_t i = 0; plugins && !found && i < bp_plugin_list_size(plugins); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(plugins, i);
    char **words = g_strsplit(is_target ? info->targets : info->devices, " ", -1);
    if (info->state <= BP_PLUGIN_ACTIVE && g_strv_contains((const char *const *)words, word))
      found = g_strdup(info->name);
    g_strfreev(words);
  }
  bp_plugin_list_free(plugins);
  return found ? found : g_strdup("-");
}

static void print_row(const char *device, const char *plugin, const char *target,
                      const char *predictions, const char *rest) {
  printf("%-10s %-12s %-8s %-14s %s\n", device, plugin, target, predictions, rest);
}

/* Prints one row: the digits on `device`, compiled for `target`. Returns whether all results are
 * right. */
static gboolean show_row(const char *onnx, const GArray *digits, BpDevice device,
                         const BpTarget *target) {
  char name[64], rest[512];
  Outcome outcome = {g_string_new(NULL), 0, 0, 0};
  BpModel *model = compile_for(onnx, target, device);
  gboolean good = model && classify_all(model, digits, &outcome) == 0;
  bp_model_release(model);
  bp_device_format(device, name, sizeof name);
  char *plugin = plugin_of(bp_target_kind(target), TRUE);
  if (good) {
    snprintf(rest, sizeof(rest), "%-12.1e %.3f ms", outcome.difference, outcome.milliseconds);
    good = outcome.agreeing == (int)digits->len && outcome.difference <= TOLERANCE;
  } else {
    snprintf(rest, sizeof(rest), "%s: %s", bp_error_kind(), bp_error_message());
    bp_error_clear();
  }
  print_row(name, plugin, bp_target_kind(target), outcome.predictions->str, rest);
  g_string_free(outcome.predictions, TRUE);
  g_free(plugin);
  return good;
}

/* The device with each target kind that is for its type of device. */
static gboolean show_device(const char *onnx, const GArray *digits, BpDevice device) {
  gboolean good = TRUE;
  char **kinds = bp_target_kinds(NULL);
  for (char **kind = kinds; kind && *kind; kind++) {
    BpTarget *target = bp_target_parse(*kind);
    if (!target) {
      printf("target %s: %s\n", *kind, bp_error_message());
      bp_error_clear();
      good = FALSE;
    } else if (bp_target_device_type(target) == device.device_type) {
      good &= show_row(onnx, digits, device, target);
    }
    bp_object_release(target);
  }
  bp_names_free(kinds);
  return good;
}

static gboolean show_kind(const char *onnx, const GArray *digits, const char *kind, int *shown) {
  BpDevice device;
  int32_t count = 0;
  const char *why = "";
  gboolean good = TRUE;
  if (bp_device_parse(kind, &device) < 0 || bp_device_count(device.device_type, &count, &why) < 0) {
    printf("%s: %s\n", kind, bp_error_message());
    bp_error_clear();
    return FALSE;
  }
  if (count == 0)
    printf("%s: no device: %s\n", kind, why);
  for (device.device_id = 0; device.device_id < count; device.device_id++, (*shown)++)
    good &= show_device(onnx, digits, device);
  return good;
}

static gboolean show_table(const char *folder, const GArray *digits) {
  char *onnx = g_build_filename(folder, "digits.onnx", NULL);
  GString *labels = g_string_new(NULL);
  gboolean good = TRUE;
  int shown = 0;
  for (guint i = 0; i < digits->len; i++)
    g_string_append_printf(labels, "%d", g_array_index(digits, Digit, i).label);
  print_row("DEVICE", "PLUGIN", "TARGET", "PREDICTIONS", "LARGEST DIFF LATENCY");
  print_row("(labels)", "", "", labels->str, "");
  char **kinds = bp_device_kinds(NULL);
  for (char **kind = kinds; kind && *kind; kind++)
    good &= show_kind(onnx, digits, *kind, &shown);
  bp_names_free(kinds);
  if (shown == 0)
    puts("No plugin brings a device; `backplane list` shows what is installed.");
  g_string_free(labels, TRUE);
  g_free(onnx);
  return good && shown > 0;
}

static void print_log(void *context, int32_t level, const char *message) {
  (void)context;
  if (level >= BP_LOG_WARNING)
    fprintf(stderr, "warning: %s\n", message);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  bp_log_set_callback(print_log, NULL);
  GArray *digits = read_digits(argv[1]);
  if (!digits) {
    fprintf(stderr, "%s: %s\n", argv[0], bp_error_message());
    return 1;
  }
  gboolean good = show_table(argv[1], digits);
  g_array_free(digits, TRUE);
  return good ? 0 : 1;
}
