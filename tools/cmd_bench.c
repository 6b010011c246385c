/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane bench`: the latency of a model on this machine. */
#include "tools/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_MS 1e6

typedef struct BenchOptions {
  int runs;       /* at least */
  double seconds; /* at least */
  int warmup;
} BenchOptions;

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* One run with its results there, in milliseconds. */
static int timed_run(LoadedModel *loaded, double *ms) {
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  if (bp_model_run(loaded->context) < 0)
    return -1;
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++)
    if (!bp_model_get_output(loaded->context, i))
      return -1;
  clock_gettime(CLOCK_MONOTONIC, &end);
  *ms =
      (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / NS_PER_MS;
  return 0;
}

/* Runs until there are enough runs and enough time has passed; sorted times in milliseconds. */
static int measure(LoadedModel *loaded, const BenchOptions *options, GArray *times) {
  double ms, total = 0;
  for (int i = 0; i < options->warmup; i++)
    if (timed_run(loaded, &ms) < 0)
      return -1;
  while ((int)times->len < options->runs || total < options->seconds * 1e3) {
    if (timed_run(loaded, &ms) < 0)
      return -1;
    g_array_append_val(times, ms);
    total += ms;
  }
  g_array_sort(times, compare_doubles);
  return 0;
}

static double percentile(const GArray *sorted, double fraction) {
  return g_array_index(sorted, double, (guint)((sorted->len - 1) * fraction + 0.5));
}

static void print_result(const char *path, const LoadedModel *loaded, const GArray *times,
                         gboolean json) {
  uint64_t parameters, planned;
  bp_model_memory(loaded->model, &parameters, &planned);
  if (!json) {
    model_print_report(loaded);
    command_print(command_out(),
                  "%s on %s with %d threads: min %.4f ms, median %.4f ms, p90 %.4f ms (%u runs)\n",
                  path, loaded->device_text, bp_threads_get(), percentile(times, 0),
                  percentile(times, 0.5), percentile(times, 0.9), times->len);
    return;
  }
  json_t *root = json_object();
  json_add_str(root, "model", path);
  json_add_str(root, "device", loaded->device_text);
  json_add_str(root, "report", loaded->report);
  json_add_int(root, "threads", bp_threads_get());
  json_add_int(root, "runs", times->len);
  json_add_double(root, "min_ms", percentile(times, 0));
  json_add_double(root, "median_ms", percentile(times, 0.5));
  json_add_double(root, "p90_ms", percentile(times, 0.9));
  json_add_double(root, "compile_ms", loaded->compile_ms);
  json_add_double(root, "load_ms", loaded->load_ms);
  json_add_int(root, "parameter_bytes", (gint64)parameters);
  json_add_int(root, "planned_bytes", (gint64)planned);
  command_print_json(root);
}

static int bench_model(const char *path, const ModelOptions *options, const BenchOptions *bench) {
  LoadedModel loaded;
  if (model_open(path, options, &loaded) < 0)
    return command_fail(options->json);
  GArray *times = g_array_new(FALSE, FALSE, sizeof(double));
  int status = EXIT_OK;
  if (model_set_inputs(&loaded, options) < 0 || measure(&loaded, bench, times) < 0)
    status = command_fail(options->json);
  else
    print_result(path, &loaded, times, options->json);
  g_array_free(times, TRUE);
  model_close(&loaded);
  return status;
}

int cmd_bench(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  BenchOptions bench = {.runs = 20, .seconds = 1.0, .warmup = 3};
  const GOptionEntry extra[] = {
      {"runs", 0, 0, G_OPTION_ARG_INT, &bench.runs, "at least so many runs (20)", "N"},
      {"seconds", 0, 0, G_OPTION_ARG_DOUBLE, &bench.seconds, "for at least so long (1)", "S"},
      {"warmup", 0, 0, G_OPTION_ARG_INT, &bench.warmup, "runs before that (3)", "N"},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  options.fills = TRUE;
  GOptionEntry *entries = model_option_entries(&options, extra);
  int status = EXIT_USAGE;
  if (command_parse(
          &argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER",
          "Measures the latency of a model: min, median and 90th percentile in "
          "milliseconds.",
          "Inputs that are not given are filled with seeded random numbers; --shape says of which "
          "shape they are, where the model does not.")) {
    if (explain_preferences(options.device))
      status = EXIT_OK;
    else if (argc != 2)
      command_usage_error("bench takes one model");
    else if (bench.runs < 1 || bench.warmup < 0 || !(bench.seconds >= 0 && isfinite(bench.seconds)))
      command_usage_error("--runs is at least 1, --warmup and --seconds at least 0");
    else
      status = bench_model(argv[1], &options, &bench);
  }
  g_free(entries);
  model_options_clear(&options);
  return status;
}
