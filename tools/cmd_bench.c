/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane bench`: latency and throughput of models on devices of this machine. */
#include "tools/command.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MS_PER_S  1e3
#define NS_PER_MS 1e6
/* The measured time is divided into this number of turns of all models, so that a change of the
 * machine's load affects all models. */
#define TURNS        10
#define MAX_CONTEXTS 1024

typedef struct BenchOptions {
  int runs;       /* least number of runs */
  double seconds; /* least time */
  int warmup;
  int contexts; /* at once */
} BenchOptions;

/* A context of a model, run by a thread of its own, and its measurements of one turn. */
typedef struct Lane {
  LoadedModel loaded; /* the side's model, with a context of its own */
  GArray *times;      /* times of runs, in milliseconds */
  double turn_ms;     /* least time of a turn */
  int turn_runs;      /* least number of runs in a turn */
  char *error_kind;   /* or NULL */
  char *error;
} Lane;

/* A model on a device, and all its measurements. */
typedef struct Bench {
  const LoadedModel *side;
  GArray *lanes;   /* Lane */
  GArray *times;   /* sorted at the end */
  double total_ms; /* time that its turns took */
} Bench;

/* ---- Measuring --------------------------------------------------------------------------- */

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * MS_PER_S + (double)now.tv_nsec / NS_PER_MS;
}

/* Measures one run until its outputs are complete, in milliseconds. */
static int timed_run(LoadedModel *loaded, double *ms) {
  double start = now_ms();
  if (bp_model_run(loaded->context) < 0 || model_wait(loaded) < 0)
    return -1;
  *ms = now_ms() - start;
  return 0;
}

/* Runs one turn of a context. An error belongs to the thread, so its text is kept. */
static void *run_lane(void *data) {
  Lane *lane = data;
  double ms, start = now_ms();
  for (int i = 0; i < lane->turn_runs || now_ms() - start < lane->turn_ms; i++) {
    if (timed_run(&lane->loaded, &ms) < 0) {
      lane->error_kind = g_strdup(bp_error_kind());
      lane->error = g_strdup(bp_error_message());
      bp_error_clear();
      break;
    }
    g_array_append_val(lane->times, ms);
  }
  return NULL;
}

/* Takes over a context's measurements, or raises its error. */
static int collect_lane(Bench *bench, Lane *lane) {
  g_array_append_vals(bench->times, lane->times->data, lane->times->len);
  g_array_set_size(lane->times, 0);
  return lane->error ? bp_error_raise(lane->error_kind, "%s", lane->error) : 0;
}

/* Runs one turn: all contexts at once, the first in this thread. */
static int take_turn(Bench *bench) {
  guint count = bench->lanes->len, started = 1;
  pthread_t *threads = g_new0(pthread_t, count);
  double start = now_ms();
  int status = 0;
  for (; started < count; started++)
    if (pthread_create(&threads[started], NULL, run_lane,
                       &g_array_index(bench->lanes, Lane, started)))
      break;
  if (started == count)
    run_lane(&g_array_index(bench->lanes, Lane, 0));
  for (guint i = 1; i < started; i++)
    pthread_join(threads[i], NULL);
  bench->total_ms += now_ms() - start;
  if (started < count)
    status =
        bp_error_raise(BP_ERROR_RUNTIME, "cannot start a thread for each of %u contexts", count);
  for (guint i = 0; i < count && status == 0; i++)
    status = collect_lane(bench, &g_array_index(bench->lanes, Lane, i));
  g_free(threads);
  return status;
}

static gboolean is_done(const Bench *bench, const BenchOptions *options) {
  return (int)bench->times->len >= options->runs && bench->total_ms >= options->seconds * MS_PER_S;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Runs turns of all models until each model has enough runs and time. */
static int measure(GArray *benches, const BenchOptions *options) {
  for (gboolean goes_on = TRUE; goes_on;) {
    goes_on = FALSE;
    for (guint i = 0; i < benches->len; i++) {
      Bench *bench = &g_array_index(benches, Bench, i);
      if (is_done(bench, options))
        continue;
      if (take_turn(bench) < 0)
        return bp_error_add_context("%s on %s", bench->side->path, bench->side->device_text);
      goes_on |= !is_done(bench, options);
    }
  }
  for (guint i = 0; i < benches->len; i++)
    g_array_sort(g_array_index(benches, Bench, i).times, compare_doubles);
  return 0;
}

/* ---- Preparing --------------------------------------------------------------------------- */

static void clear_lane(void *data) {
  Lane *lane = data;
  bp_model_context_free(lane->loaded.context);
  g_array_unref(lane->times);
  g_free(lane->error_kind);
  g_free(lane->error);
}

static void clear_bench(void *data) {
  Bench *bench = data;
  g_array_unref(bench->lanes);
  g_array_unref(bench->times);
}

/* Adds a context, sets its inputs and warms it up. */
static int add_lane(Bench *bench, const ModelOptions *options, const BenchOptions *extra) {
  int share = (extra->runs - 1) / (TURNS * extra->contexts) + 1;
  Lane lane = {*bench->side,
               g_array_new(FALSE, FALSE, sizeof(double)),
               extra->seconds * MS_PER_S / TURNS,
               share,
               NULL,
               NULL};
  double ms;
  int status = model_set_inputs(&lane.loaded, options);
  g_array_append_val(bench->lanes, lane);
  for (int i = 0; status == 0 && i < extra->warmup; i++)
    status = timed_run(&g_array_index(bench->lanes, Lane, bench->lanes->len - 1).loaded, &ms);
  return status;
}

static int prepare(const LoadedModel *side, const ModelOptions *options, const BenchOptions *extra,
                   GArray *benches) {
  Bench bench = {side, g_array_new(FALSE, FALSE, sizeof(Lane)),
                 g_array_new(FALSE, FALSE, sizeof(double)), 0};
  g_array_set_clear_func(bench.lanes, clear_lane);
  g_array_append_val(benches, bench);
  for (int i = 0; i < extra->contexts; i++)
    if (add_lane(&bench, options, extra) < 0)
      return bp_error_add_context("%s on %s", side->path, side->device_text);
  return 0;
}

/* ---- Reports ----------------------------------------------------------------------------- */

/* The statistics of a row of the report. */
typedef struct Statistics {
  double min, median, mean, deviation, p90, p99; /* milliseconds */
  double throughput;                             /* runs of all contexts per second */
  uint64_t parameters, planned;                  /* bytes; `planned` of all contexts */
} Statistics;

static double percentile(const GArray *sorted, double fraction) {
  return g_array_index(sorted, double, (guint)((sorted->len - 1) * fraction + 0.5));
}

static Statistics summarize(const Bench *bench) {
  const GArray *times = bench->times;
  Statistics all = {.min = percentile(times, 0),
                    .median = percentile(times, 0.5),
                    .p90 = percentile(times, 0.9),
                    .p99 = percentile(times, 0.99)};
  for (guint i = 0; i < times->len; i++)
    all.mean += g_array_index(times, double, i) / times->len;
  for (guint i = 0; i < times->len && times->len > 1; i++) {
    double distance = g_array_index(times, double, i) - all.mean;
    all.deviation += distance * distance / (times->len - 1);
  }
  all.deviation = sqrt(all.deviation);
  all.throughput = bench->total_ms > 0 ? times->len / bench->total_ms * MS_PER_S : 0;
  bp_model_memory(bench->side->model, &all.parameters, &all.planned);
  all.planned *= bench->lanes->len;
  return all;
}

/* Formats milliseconds with four significant digits (transfer full). */
static char *ms_to_text(double ms) {
  int decimals = ms >= 1000 ? 0 : ms >= 100 ? 1 : ms >= 10 ? 2 : ms >= 1 ? 3 : 4;
  return g_strdup_printf("%.*f", decimals, ms);
}

static void add_times(Table *table, const Bench *bench, const Statistics *all) {
  const double ms[] = {all->min, all->median, all->mean, all->deviation, all->p90, all->p99};
  char *texts[G_N_ELEMENTS(ms)];
  char *throughput = g_strdup_printf("%.4g", all->throughput);
  if (all->throughput >= 1000)
    g_free(throughput), throughput = g_strdup_printf("%.0f", all->throughput);
  for (size_t i = 0; i < G_N_ELEMENTS(ms); i++)
    texts[i] = ms_to_text(ms[i]);
  table_add(table, bench->side->path, bench->side->device_text, texts[0], texts[1], texts[2],
            texts[3], texts[4], texts[5], throughput);
  for (size_t i = 0; i < G_N_ELEMENTS(ms); i++)
    g_free(texts[i]);
  g_free(throughput);
}

static void add_costs(Table *table, const Bench *bench, const Statistics *all) {
  const LoadedModel *side = bench->side;
  char *runs = g_strdup_printf("%u", bench->times->len);
  char *compile = side->compile_ms > 0 ? ms_to_text(side->compile_ms) : g_strdup("-");
  char *load = side->load_ms > 0 ? ms_to_text(side->load_ms) : g_strdup("-");
  char *parameters = size_to_text(all->parameters),
       *planned = all->planned ? size_to_text(all->planned) : g_strdup("-");
  table_add(table, side->path, side->device_text, runs, compile, load, parameters, planned);
  g_free(planned);
  g_free(parameters);
  g_free(load);
  g_free(compile);
  g_free(runs);
}

static void print_text(const GArray *benches, const BenchOptions *options) {
  static const char *const times[] = {"MODEL",  "DEVICE", "MIN (ms)", "MEDIAN", "MEAN",
                                      "STDDEV", "P90",    "P99",      "RUNS/s", NULL};
  static const char *const costs[] = {"MODEL",     "DEVICE",     "RUNS",    "COMPILE (ms)",
                                      "LOAD (ms)", "PARAMETERS", "STORAGE", NULL};
  Table *first = table_new(times), *second = table_new(costs);
  for (guint i = 0; i < benches->len; i++) {
    const Bench *bench = &g_array_index(benches, Bench, i);
    Statistics all = summarize(bench);
    model_print_report(bench->side);
    add_times(first, bench, &all);
    add_costs(second, bench, &all);
  }
  table_print(first);
  fputc('\n', command_out());
  table_print(second);
  fprintf(command_out(), "Measured with %d threads of the host and %d context%s at once%s.\n",
          bp_threads_get(), options->contexts, options->contexts == 1 ? "" : "s",
          benches->len > 1 ? ", in turns" : "");
}

static json_t *bench_json(const Bench *bench) {
  Statistics all = summarize(bench);
  json_t *root = json_object();
  json_add_str(root, "model", bench->side->path);
  json_add_str(root, "device", bench->side->device_text);
  json_add_str(root, "report", bench->side->report);
  json_add_int(root, "threads", bp_threads_get());
  json_add_int(root, "contexts", bench->lanes->len);
  json_add_int(root, "runs", bench->times->len);
  json_add_double(root, "min_ms", all.min);
  json_add_double(root, "median_ms", all.median);
  json_add_double(root, "mean_ms", all.mean);
  json_add_double(root, "stddev_ms", all.deviation);
  json_add_double(root, "p90_ms", all.p90);
  json_add_double(root, "p99_ms", all.p99);
  json_add_double(root, "runs_per_second", all.throughput);
  json_add_double(root, "compile_ms", bench->side->compile_ms);
  json_add_double(root, "load_ms", bench->side->load_ms);
  json_add_int(root, "parameter_bytes", (gint64)all.parameters);
  json_add_int(root, "planned_bytes", (gint64)all.planned);
  const char *likely, *expression = bp_model_planned_expression(bench->side->model, &likely);
  if (expression) {
    json_add_str(root, "planned_for", likely);
    json_add_str(root, "planned", expression);
  }
  model_add_specialized(root, bench->side);
  return root;
}

/* A single result is the document itself. */
static void print_json(const GArray *benches) {
  json_t *root = json_object(), *results = json_array();
  if (benches->len == 1) {
    json_decref(root);
    json_decref(results);
    command_print_json(bench_json(&g_array_index(benches, Bench, 0)));
    return;
  }
  for (guint i = 0; i < benches->len; i++)
    json_append(results, bench_json(&g_array_index(benches, Bench, i)));
  json_add(root, "results", results);
  command_print_json(root);
}

/* ---- The command ------------------------------------------------------------------------- */

/* Measures each side (transfer full, of Bench); NULL with an error. */
static GArray *measure_sides(GPtrArray *sides, const ModelOptions *options,
                             const BenchOptions *extra) {
  GArray *benches = g_array_new(FALSE, FALSE, sizeof(Bench));
  g_array_set_clear_func(benches, clear_bench);
  int status = 0;
  for (guint i = 0; i < sides->len && status == 0; i++)
    status = prepare(sides->pdata[i], options, extra, benches);
  if (status == 0 && measure(benches, extra) == 0)
    return benches;
  g_array_unref(benches);
  return NULL;
}

json_t *bench_sides(GPtrArray *sides, const ModelOptions *options, double seconds) {
  const BenchOptions extra = {.runs = 20, .seconds = seconds, .warmup = 3, .contexts = 1};
  GArray *benches = measure_sides(sides, options, &extra);
  json_t *results = benches ? json_array() : NULL;
  for (guint i = 0; benches && i < benches->len; i++)
    json_append(results, bench_json(&g_array_index(benches, Bench, i)));
  if (benches)
    g_array_unref(benches);
  return results;
}

static int bench_models(char *const *paths, const ModelOptions *options,
                        const BenchOptions *extra) {
  GPtrArray *sides = sides_open(paths, options);
  if (!sides)
    return command_fail(options->json);
  GArray *benches = measure_sides(sides, options, extra);
  int status = EXIT_OK;
  if (!benches)
    status = command_fail(options->json);
  else if (options->json)
    print_json(benches);
  else
    print_text(benches, extra);
  if (benches)
    g_array_unref(benches);
  g_ptr_array_unref(sides);
  return status;
}

static int check_and_bench(int argc, char **argv, const ModelOptions *options,
                           const BenchOptions *extra) {
  int status;
  if (sides_explain_preferences(options, &status))
    return status;
  if (argc < 2)
    return command_usage_error("bench takes one model or several");
  if (extra->runs < 1 || extra->warmup < 0 || !(extra->seconds >= 0 && isfinite(extra->seconds)))
    return command_usage_error("--runs is at least 1, --warmup and --seconds at least 0");
  if (extra->contexts < 1 || extra->contexts > MAX_CONTEXTS)
    return command_usage_error("--contexts %d: it is 1 to %d", extra->contexts, MAX_CONTEXTS);
  return bench_models(argv + 1, options, extra);
}

int cmd_bench(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  BenchOptions bench = {.runs = 20, .seconds = 1.0, .warmup = 3, .contexts = 1};
  const GOptionEntry extra[] = {
      {"runs", 0, 0, G_OPTION_ARG_INT, &bench.runs,
       "least number of measured runs for each model and device (20)", "N"},
      {"seconds", 0, 0, G_OPTION_ARG_DOUBLE, &bench.seconds,
       "least seconds of measured runs for each model and device (1)", "S"},
      {"warmup", 0, 0, G_OPTION_ARG_INT, &bench.warmup, "runs before the measurement (3)", "N"},
      {"contexts", 0, 0, G_OPTION_ARG_INT, &bench.contexts,
       "contexts that run at once, each in a thread of its own (1)", "N"},
      ONNX_SPECIALIZE_ENTRY(&options.onnx),
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  options.fills = options.has_sides = TRUE;
  GOptionEntry *entries = model_option_entries(&options, extra);
  int status = EXIT_USAGE;
  if (command_parse(
          &argc, &argv, entries, "MODEL.onnx|FILE.so|GRAPH.json|FOLDER...",
          "Measures latency and throughput of models on devices, in turns; --device may be "
          "repeated.",
          "Inputs without --input are filled with seeded random numbers; --shape fixes the shapes "
          "that the model leaves open."))
    status = check_and_bench(argc, argv, &options, &bench);
  g_free(entries);
  model_options_clear(&options);
  return status;
}
