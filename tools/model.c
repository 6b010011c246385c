/* SPDX-License-Identifier: Apache-2.0 */
/* Models on the command line: options, opening, inputs. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <backplane/graph/executor.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

#define SEED 20260101u

GOptionEntry *model_option_entries(ModelOptions *options, const GOptionEntry *extra) {
  const GOptionEntry common[] = {
      {"device", 'd', 0, options->has_sides ? OPTION_TEXT_ARRAY : OPTION_TEXT,
       options->has_sides ? (gpointer)&options->devices : (gpointer)&options->device,
       options->has_sides
           ? "devices in order of preference (default: $BACKPLANE_DEVICE, else auto); help "
             "explains; may be repeated"
           : "devices in order of preference (default: $BACKPLANE_DEVICE, else auto); help "
             "explains",
       "LIST"},
      {"target", 't', 0, OPTION_TEXT, &options->target,
       "target to compile an ONNX file for (default: a target that fits the device)", "TARGET"},
      ONNX_SHAPE_ENTRY(&options->onnx),
      ONNX_LIMIT_ENTRY(&options->onnx),
      ONNX_REFERENCE_ENTRY(&options->onnx),
      ONNX_COMPILER_ENTRY(&options->onnx),
      ONNX_REQUIRE_ENTRY(&options->onnx),
      ONNX_MEASURE_ENTRY(&options->onnx),
      {"input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &options->inputs,
       "an input's value: .npy, .npz, .png, .jpg or .bin, a number or a list as [1,2]; may be "
       "repeated",
       "NAME=VALUE"},
      {"library", 0, 0, G_OPTION_ARG_FILENAME, &options->library,
       "the library that belongs to a graph of TVM (default: the library beside the graph)",
       "FILE.so"},
      {"params", 0, 0, G_OPTION_ARG_FILENAME, &options->params,
       "the parameters of a graph of TVM (default: the file beside the graph; none if --library is "
       "given)",
       "FILE"},
      {"threads", 0, 0, G_OPTION_ARG_INT, &options->threads,
       "threads of the host (default: $BACKPLANE_NUM_THREADS, else one thread per core)", "N"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &options->json, "machine-readable output", NULL},
  };
  guint extras = 0;
  while (extra && extra[extras].long_name)
    extras++;
  GOptionEntry *entries = g_new0(GOptionEntry, G_N_ELEMENTS(common) + extras + 1);
  memcpy(entries, common, sizeof(common));
  if (extras)
    memcpy(entries + G_N_ELEMENTS(common), extra, extras * sizeof(*extra));
  return entries;
}

void onnx_options_clear(OnnxOptions *options) {
  g_strfreev(options->shapes);
  g_strfreev(options->limits);
  g_strfreev(options->graph_compilers);
}

void model_options_clear(ModelOptions *options) {
  g_free(options->device);
  g_strfreev(options->devices);
  g_free(options->target);
  onnx_options_clear(&options->onnx);
  g_strfreev(options->inputs);
  g_free(options->library);
  g_free(options->params);
}

gboolean explain_preferences(const char *given, int *status) {
  char *settings = given ? NULL : bp_device_preferences();
  gboolean asks = g_strcmp0(given ? given : settings, "help") == 0;
  bp_error_clear(); /* an unreadable configuration is an error where it is used */
  bp_str_free(settings);
  if (!asks)
    return FALSE;
  const char *help = bp_device_select_help();
  *status = *help ? EXIT_OK : command_fail(FALSE);
  fputs(help, command_out());
  return TRUE;
}

int preferences_check(const char *given) {
  if (!given || given[strspn(given, " ")])
    return 0;
  return command_raise_usage("--device is empty; \"auto\" is the best device of all, and \"help\" "
                             "explains the other entries");
}

gboolean path_has_extension(const char *path, const char *extension) {
  size_t length = strlen(path), tail = strlen(extension);
  return length >= tail && g_ascii_strcasecmp(path + length - tail, extension) == 0;
}

/* ---- Compiling --------------------------------------------------------------------------- */

/* Sets the limits of options NAME=NUMBER; -1 with an error. */
static int parse_limits(char *const *texts, BpCompileLimits *limits) {
  const struct {
    const char *name;
    int64_t *value;
  } known[] = {{"nodes", &limits->nodes},
               {"constant-bytes", &limits->constant_bytes},
               {"fold-work", &limits->fold_work},
               {"functions", &limits->functions}};
  for (; texts && *texts; texts++) {
    const char *equals = strchr(*texts, '=');
    size_t length = equals ? (size_t)(equals - *texts) : 0;
    gint64 number;
    int64_t *value = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
      if (strlen(known[i].name) == length && strncmp(*texts, known[i].name, length) == 0)
        value = known[i].value;
    if (!value || !g_ascii_string_to_signed(equals + 1, 10, 1, G_MAXINT64, &number, NULL))
      return command_raise_usage(
          "--limit %s: it is NAME=N, with nodes, constant-bytes, fold-work or "
          "functions for NAME and a positive number for N",
          *texts);
    *value = number;
  }
  return 0;
}

static int show_progress(void *context, const char *stage, int32_t done, int32_t total) {
  (void)context;
  fprintf(stderr, "\r\033[K%s %d/%d", stage, done, total);
  return 0;
}

/* The targets whose code runs refused nodes, and the node that was refused last. */
typedef struct Placing {
  const GPtrArray *targets, *fallbacks;
  const BpTarget *refusing; /* the first target that refused a node, or NULL */
  ClaimReport *claims;
  char *node;       /* NULL if there is no message, or after the message was printed */
  GString *reasons; /* "'vulkan' refuses it: ...; 'opencl' refuses it: ..." */
  guint taker;      /* index of the next fallback to ask */
  char *line;       /* the line that was printed last, or NULL */
} Placing;

/* Reports which fallback runs the node that was refused last. Each operator that a node became is
 * refused separately. */
static void say_placed(Placing *placing) {
  if (!placing->node)
    return;
  const BpTarget *taker = placing->fallbacks->pdata[placing->taker];
  char *line = g_strdup_printf("backplane: node '%s' runs as code for %s, because %s\n",
                               placing->node, bp_target_kind(taker), placing->reasons->str);
  if (g_strcmp0(line, placing->line) != 0)
    command_print(stderr, "%s", line);
  placing->claims->takers |= 1u << placing->taker;
  char *text = bp_target_format(taker);
  claims_set_taker(placing->claims, placing->node, text ? text : bp_target_kind(taker));
  bp_str_free(text);
  g_free(placing->line);
  placing->line = line;
  g_clear_pointer(&placing->node, g_free);
  g_string_truncate(placing->reasons, 0);
}

/* Whether a target's text is that of `target`. */
static gboolean is_text_of(const char *text, const BpTarget *target) {
  char *own = bp_target_format(target);
  gboolean is_equal = g_strcmp0(text, own) == 0;
  bp_str_free(own);
  return is_equal;
}

/* The refusals of a node follow each other: first the target refuses, then the fallbacks. */
static int show_placed(void *context, const char *node, const char *target, const char *why) {
  Placing *placing = context;
  const GPtrArray *fallbacks = placing->fallbacks;
  gboolean goes_on = g_strcmp0(node, placing->node) == 0 && placing->taker + 1 < fallbacks->len &&
                     is_text_of(target, fallbacks->pdata[placing->taker]);
  char *reason = g_strdup_printf("'%s' refuses it: %s", target, why);
  gboolean is_repeated = placing->line && strstr(placing->line, reason) != NULL;
  if (!goes_on)
    say_placed(placing);
  for (guint i = 0; i < placing->targets->len && !placing->refusing; i++)
    if (is_text_of(target, placing->targets->pdata[i]))
      placing->refusing = placing->targets->pdata[i];
  placing->taker = goes_on ? placing->taker + 1 : 0;
  g_free(placing->node);
  placing->node = g_strdup(node);
  g_string_append_printf(placing->reasons, "%s%s", goes_on ? "; " : "", reason);
  if (!is_repeated)
    claims_add_placed(placing->claims, node, target, why);
  g_free(reason);
  return 0;
}

/* The devices that a run needs together, "vulkan,cpu", "opencl:0,opencl:1" (transfer full); NULL if
 * nothing was refused. */
static char *list_placed(const Placing *placing) {
  GPtrArray *kinds = g_ptr_array_new_with_free_func(g_free);
  GString *list = g_string_new(NULL);
  if (placing->refusing)
    g_ptr_array_add(kinds, target_device_kind(placing->refusing));
  for (guint i = 0; placing->refusing && i < placing->fallbacks->len; i++)
    if (placing->claims->takers >> i & 1)
      g_ptr_array_add(kinds, target_device_kind(placing->fallbacks->pdata[i]));
  for (guint i = 0; i < kinds->len; i++) {
    int before = 0, all = 0;
    for (guint k = 0; k < kinds->len; k++) {
      gboolean is_same = g_str_equal(kinds->pdata[k], kinds->pdata[i]);
      all += is_same;
      before += is_same && k < i;
    }
    if (before && g_str_equal(kinds->pdata[i], "cpu")) /* one device */
      continue;
    g_string_append_printf(list, "%s%s", i ? "," : "", (const char *)kinds->pdata[i]);
    if (all > 1 && !g_str_equal(kinds->pdata[i], "cpu"))
      g_string_append_printf(list, ":%d", before);
  }
  g_ptr_array_unref(kinds);
  return g_string_free(list, !placing->refusing);
}

static int check_required(const OnnxOptions *onnx, char *const *names) {
  if (*names && onnx->is_reference)
    return command_raise_usage("--reference compiles each operator by itself, and --graph-compiler "
                               "parts of many; leave one out");
  if (!(onnx->required >= 0 && onnx->required <= 1))
    return command_raise_usage("--require %g: it is a share of all nodes, from 0 to 1",
                               onnx->required);
  if (onnx->measures && !*names)
    return command_raise_usage("--measure: it needs --graph-compiler NAME");
  if (onnx->measures && onnx->required > 0)
    return command_raise_usage("--measure may keep generated code alone, which --require %g "
                               "refuses; leave one out",
                               onnx->required);
  return *names || onnx->required <= 0
             ? 0
             : command_raise_usage("--require %g: it needs --graph-compiler NAME", onnx->required);
}

BpModule *model_compile(const char *path, const GPtrArray *targets, const GPtrArray *fallbacks,
                        const OnnxOptions *onnx, char *const *inputs, const char *dump_dir,
                        char **devices, ClaimReport *claims) {
  Placing placing = {
      .targets = targets, .fallbacks = fallbacks, .claims = claims, .reasons = g_string_new(NULL)};
  BpCompileLimits limits = {.struct_size = sizeof(limits)};
  *devices = NULL;
  GArray *shapes = parse_limits(onnx->limits, &limits) < 0 ? NULL : shapes_parse(onnx->shapes);
  BpModule *module = NULL;
  char **names = claims_names(onnx->graph_compilers);
  if (shapes && check_required(onnx, names) == 0 && shapes_add_inputs(shapes, path, inputs) == 0) {
    gboolean terminal = isatty(STDERR_FILENO);
    BpCompileOptions options = {
        .struct_size = sizeof(options),
        .targets = (const BpTarget *const *)targets->pdata,
        .num_targets = (int32_t)targets->len,
        .shapes = (const BpInputShape *)(const void *)shapes->data,
        .num_shapes = (int32_t)shapes->len,
        .shape_size = sizeof(BpInputShape),
        .progress = terminal ? show_progress : NULL,
        .dump_dir = dump_dir,
        .fallbacks = fallbacks ? (const BpTarget *const *)fallbacks->pdata : NULL,
        .num_fallbacks = fallbacks ? (int32_t)fallbacks->len : 0,
        .placed = show_placed,
        .placed_context = &placing,
        .limits = &limits,
        .is_reference = onnx->is_reference,
        .num_graph_compilers = (int32_t)g_strv_length(names),
        .graph_compilers = (const char *const *)names,
        .least_claimed = onnx->required,
        .claimed = claims_add,
        .claimed_context = claims,
        .measures_claims = onnx->measures,
        .measured = claims_note_times,
        .measured_context = claims,
        .num_stages = onnx->num_stages,
        .stage = onnx->stage,
    };
    module = bp_model_compile(path, &options);
    say_placed(&placing);
    if (terminal)
      fputs("\r\033[K", stderr);
    if (module)
      claims_print(claims);
  }
  g_strfreev(names);
  if (shapes)
    g_array_unref(shapes);
  *devices = list_placed(&placing);
  g_free(placing.line);
  g_string_free(placing.reasons, TRUE);
  return module;
}

gboolean model_is_refused(void) {
  return bp_error_is(BP_ERROR_NOT_IMPLEMENTED) &&
         strstr(bp_error_message(), "another target may run as the fallback");
}

/* ---- Opening ----------------------------------------------------------------------------- */

static BpTarget *choose_target(const ModelOptions *options, LoadedModel *loaded) {
  if (!options->target)
    return bp_device_select(options->device, loaded->devices, &loaded->report) < 0
               ? NULL
               : bp_target_from_device(loaded->devices[0]);
  BpTarget *target = target_parse_one("--target", options->target);
  if (!target)
    return NULL;
  int32_t type = bp_target_device_type(target);
  if (bp_device_select_among(&type, 1, options->device, loaded->devices, &loaded->report) == 0)
    return target;
  char *kind = target_device_kind(target);
  bp_error_add_context("--target %s is code for devices of kind %s", options->target, kind);
  g_free(kind);
  bp_object_release(target);
  return NULL;
}

/* Whether an entry of a list of preferences names a device: the others say which are better. */
static gboolean names_device(const char *entry) {
  return *entry && !strchr("!+", *entry) && !strchr(entry, '=') && strcmp(entry, "auto") != 0;
}

/* A list of preferences with one of its entries alone, and with all that name no device but "auto"
 * (transfer full). */
static char *list_with(char *const *entries, const char *entry) {
  GString *list = g_string_new(entry);
  for (; *entries; entries++)
    if (**entries && !names_device(*entries) && strcmp(*entries, "auto") != 0)
      g_string_append_printf(list, ",%s", *entries);
  return g_string_free(list, FALSE);
}

static gboolean has_device(const LoadedModel *loaded, BpDevice device) {
  for (size_t i = 0; i < loaded->num_devices; i++)
    if (memcmp(&loaded->devices[i], &device, sizeof device) == 0)
      return TRUE;
  return FALSE;
}

/* Adds the device that an entry names, if it is there and no other entry has named it, and its
 * target. */
static void add_fallback(LoadedModel *loaded, const char *list) {
  BpDevice device;
  BpTarget *target = NULL;
  if (loaded->num_devices < BP_MODEL_MAX_DEVICES && bp_device_select(list, &device, NULL) == 0 &&
      !has_device(loaded, device))
    target = bp_target_from_device(device);
  bp_error_clear();
  if (!target)
    return;
  loaded->devices[loaded->num_devices++] = device;
  g_ptr_array_add(loaded->fallbacks, target);
}

/* Each further device in the list runs the nodes that the devices before it cannot run. */
static void choose_fallbacks(const ModelOptions *options, LoadedModel *loaded) {
  char *settings = options->device ? NULL : bp_device_preferences();
  const char *list = options->device ? options->device : settings;
  char **entries = g_strsplit(list ? list : "", ",", -1);
  loaded->num_devices = 1;
  loaded->fallbacks = g_ptr_array_new_with_free_func(bp_object_release);
  for (char **entry = entries; *entry; entry++)
    g_strstrip(*entry);
  for (char **entry = entries; *entry; entry++) {
    char *own = names_device(*entry) ? list_with(entries, *entry) : NULL;
    if (own)
      add_fallback(loaded, own);
    g_free(own);
  }
  g_strfreev(entries);
  bp_str_free(settings);
  bp_error_clear();
}

/* Leaves the devices out whose fallbacks got no node: the model does not count them. */
static void drop_unused(LoadedModel *loaded) {
  size_t count = 1;
  for (size_t i = 1; i < loaded->num_devices; i++)
    if (loaded->claims.takers >> (i - 1) & 1)
      loaded->devices[count++] = loaded->devices[i];
  loaded->num_devices = count;
}

static void advise_second_device(const BpTarget *target) {
  char *kind = target_device_kind(target);
  bp_error_add_context("--device %s,cpu runs on the CPU what target %s refuses", kind,
                       bp_target_kind(target));
  g_free(kind);
}

static BpModule *compile_for_device(const char *path, const ModelOptions *options,
                                    LoadedModel *loaded) {
  BpTarget *target = choose_target(options, loaded);
  if (!target)
    return NULL;
  GPtrArray *targets = g_ptr_array_new_with_free_func(bp_object_release);
  g_ptr_array_add(targets, target);
  gint64 start = g_get_monotonic_time();
  choose_fallbacks(options, loaded);
  char *devices = NULL; /* list of the loaded model's devices */
  BpModule *module = model_compile(path, targets, loaded->fallbacks, &options->onnx,
                                   options->inputs, NULL, &devices, &loaded->claims);
  g_free(devices);
  drop_unused(loaded);
  if (!module)
    claims_clear(&loaded->claims);
  if (!module && !loaded->fallbacks->len && model_is_refused())
    advise_second_device(target);
  loaded->compile_ms = (double)(g_get_monotonic_time() - start) / 1000.0;
  g_ptr_array_free(targets, TRUE);
  return module;
}

BpModule *model_load(const char *path, const ModelOptions *options) {
  if (options->library && path_has_extension(path, ".so")) {
    command_raise_usage(
        "--library %s: it is for a graph of TVM (.json or a folder), and %s is a library "
        "itself; leave the option out",
        options->library, path);
    return NULL;
  }
  if (options->library)
    return bp_model_open_parts(path, options->library, options->params);
  if (!options->params)
    return bp_model_open(path);
  command_raise_usage("--params %s: --library names the library of these parameters",
                      options->params);
  return NULL;
}

/* A file of raw elements has no shape: --shape gives it. */
static gboolean has_raw_input(const ModelOptions *options) {
  for (char **input = options->inputs; input && *input; input++)
    if (path_has_extension(*input, ".bin"))
      return TRUE;
  return FALSE;
}

static BpModule *load_for_device(const char *path, const ModelOptions *options,
                                 LoadedModel *loaded) {
  gboolean is_shaped = options->onnx.shapes && !options->fills && !has_raw_input(options);
  if (is_shaped || options->target || options->onnx.is_reference || options->onnx.graph_compilers ||
      options->onnx.specializes) {
    command_raise_usage("%s: %s is for ONNX files; a compiled one %s", path,
                        is_shaped                       ? "--shape"
                        : options->onnx.specializes     ? "--specialize"
                        : options->target               ? "--target"
                        : options->onnx.graph_compilers ? "--graph-compiler"
                                                        : "--reference",
                        is_shaped ? "takes the values of its inputs as they are"
                                  : "has its code already");
    return NULL;
  }
  BpModule *module = model_load(path, options);
  if (!module ||
      bp_model_select_devices(module, options->device, loaded->devices, BP_MODEL_MAX_DEVICES,
                              &loaded->num_devices, &loaded->report) == 0)
    return module;
  bp_error_add_context("%s", path);
  bp_object_release(module);
  return NULL;
}

/* Compiles an ONNX file; a target "c,dnnl" also names a graph compiler. */
static BpModule *compile_onnx(const char *path, const ModelOptions *options, LoadedModel *loaded) {
  ModelOptions own = *options;
  own.target = g_strdup(options->target);
  own.onnx.graph_compilers = g_strdupv(options->onnx.graph_compilers);
  if (options->onnx.specializes) { /* the shapes are those of the inputs only */
    own.onnx.shapes = NULL;
    own.inputs = NULL;
  }
  claims_take_names(&own.target, &own.onnx);
  if (options->onnx.specializes && own.onnx.measures) {
    command_raise_usage("--specialize leaves the shapes of inputs open, and measuring takes them; "
                        "leave out --measure, or name graph compilers with --graph-compiler");
    g_strfreev(own.onnx.graph_compilers);
    g_free(own.target);
    return NULL;
  }
  BpModule *module = compile_for_device(path, &own, loaded);
  g_strfreev(own.onnx.graph_compilers);
  g_free(own.target);
  return module;
}

char *model_place_text(const LoadedModel *loaded) {
  size_t count;
  const BpDevice *devices = bp_model_devices(loaded->model, &count);
  GString *text = g_string_new(NULL);
  char device[DEVICE_TEXT_MAX];
  for (size_t i = 0; i < count; i++) {
    bp_device_format(devices[i], device, sizeof device);
    g_string_append_printf(text, "%s%s", i ? " and " : "", device);
  }
  return g_string_free(text, FALSE);
}

/* Whether the command line or the configuration names devices. */
static gboolean has_preferences(const ModelOptions *options) {
  char *settings = options->device ? NULL : bp_device_preferences();
  gboolean has = options->device || (settings && *settings);
  bp_error_clear(); /* an unreadable configuration is an error where it is used */
  bp_str_free(settings);
  return has;
}

static int set_threads(int count) {
  if (count == THREADS_DEFAULT || bp_threads_set(count) == 0)
    return 0;
  return command_raise_usage("--threads: %s", bp_error_message());
}

int model_open(const char *path, const ModelOptions *options, LoadedModel *loaded) {
  *loaded = (LoadedModel){.is_chosen_by_list = has_preferences(options)};
  if (preferences_check(options->device) < 0 || set_threads(options->threads) < 0)
    return -1;
  gint64 start = g_get_monotonic_time();
  BpModule *module = path_has_extension(path, ".onnx") ? compile_onnx(path, options, loaded)
                                                       : load_for_device(path, options, loaded);
  if (module)
    loaded->model = bp_model_create(module, loaded->devices, loaded->num_devices);
  bp_object_release(module);
  if (!path_has_extension(path, ".onnx"))
    loaded->load_ms = (double)(g_get_monotonic_time() - start) / 1000.0;
  if (!loaded->model) {
    model_close(loaded);
    return -1;
  }
  bp_model_devices(loaded->model, &loaded->num_devices);
  char *devices = model_place_text(loaded);
  g_strlcpy(loaded->device_text, devices, sizeof loaded->device_text);
  g_free(devices);
  loaded->path = path;
  return 0;
}

static char **read_files_beside(const char *path) {
  GPtrArray *files = g_ptr_array_new();
  char *text = path_has_extension(path, ".onnx") ? bp_onnx_describe(path) : NULL;
  json_t *document = text ? json_loads(text, 0, NULL) : NULL, *file;
  char *folder = g_path_get_dirname(path);
  size_t i;
  json_array_foreach(json_object_get(document, "files"), i, file)
      g_ptr_array_add(files, g_build_filename(folder, json_string_value(file), NULL));
  g_ptr_array_add(files, NULL);
  g_free(folder);
  json_decref(document);
  bp_str_free(text);
  bp_error_clear();
  return (char **)g_ptr_array_free(files, FALSE);
}

/* Reading a large model may take a second, and `run` asks for each of its outputs: the last answer
 * is kept. */
char *const *model_files_beside(const char *path) {
  static char *known, **files;
  if (g_strcmp0(known, path) != 0) {
    g_free(known);
    g_strfreev(files);
    files = read_files_beside(path);
    known = g_strdup(path);
  }
  return files;
}

/* The models are read only if `output` exists: a new file replaces none. */
static int check_files_beside(const char *option, const char *output, char *const *paths) {
  int status = 0;
  if (!output || !g_file_test(output, G_FILE_TEST_IS_REGULAR))
    return 0;
  for (; *paths && status == 0; paths++)
    status = command_check_output(option, output, model_files_beside(*paths));
  return status;
}

int model_check_output(const char *option, const char *output, char *const *paths,
                       const ModelOptions *options) {
  char *const parts[] = {options->library ? options->library : options->params, options->params,
                         NULL};
  return command_check_output(option, output, paths) < 0 ||
                 command_check_output(option, output, parts) < 0 ||
                 command_check_output(option, output, options->inputs) < 0
             ? -1
             : check_files_beside(option, output, paths);
}

void model_print_report(const LoadedModel *loaded) {
  if (loaded->is_chosen_by_list && *loaded->report)
    command_print(stderr, "backplane: passed over: %s\n", loaded->report);
}

int model_wait(const LoadedModel *loaded) {
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++) {
    int64_t length;
    if (bp_model_output_info(loaded->model, i)->kind
            ? bp_model_get_output_length(loaded->context, i, &length) < 0
            : !bp_model_get_output(loaded->context, i))
      return -1;
  }
  return 0;
}

const char *kind_to_text(int32_t kind) {
  return kind == BP_MODEL_TENSOR     ? "tensor"
         : kind == BP_MODEL_SEQUENCE ? "sequence"
         : kind == BP_MODEL_OPTIONAL ? "optional"
                                     : "optional sequence";
}

/* Fails if an input or output is not a tensor. */
static int check_tensor(const char *role, const BpModelTensorInfo *info) {
  return info->kind ? bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                                     "%s '%s' of the model is of kind %s; this command is for "
                                     "models whose inputs and outputs are tensors",
                                     role, info->name, kind_to_text(info->kind))
                    : 0;
}

int model_check_tensors(const BpModel *model) {
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++)
    if (check_tensor("input", bp_model_input_info(model, i)) < 0)
      return -1;
  for (int32_t i = 0; i < bp_model_num_outputs(model); i++)
    if (check_tensor("output", bp_model_output_info(model, i)) < 0)
      return -1;
  return 0;
}

void model_close(LoadedModel *loaded) {
  bp_model_context_free(loaded->context);
  bp_model_release(loaded->model);
  bp_str_free(loaded->report);
  claims_clear(&loaded->claims);
  g_clear_pointer(&loaded->fallbacks, g_ptr_array_unref);
  *loaded = (LoadedModel){.report = NULL};
}

/* ---- Specialised code -------------------------------------------------------------------- */

/* Formats the shapes of the inputs of a specialised code, "x=1x128, y=1x3" (transfer full). */
static char *specialized_text(const BpSpecializedModel *specialized) {
  GString *text = g_string_new(NULL);
  for (int32_t i = 0; i < specialized->num_inputs; i++) {
    const BpModelTensorInfo *info = &specialized->inputs[i];
    char *shape = shape_to_text(info->shape, info->ndim);
    g_string_append_printf(text, "%s%s=%s", i ? ", " : "", info->name, shape);
    g_free(shape);
  }
  return g_string_free(text, FALSE);
}

static int add_specialized(void *visitor, const BpSpecializedModel *specialized) {
  json_t *object = json_object();
  char *text = specialized_text(specialized);
  json_add_str(object, "inputs", text);
  json_add_int(object, "runs", (gint64)specialized->runs);
  json_add_int(object, "parameter_bytes", (gint64)specialized->parameter_bytes);
  json_add_int(object, "shared_bytes", (gint64)specialized->shared_bytes);
  json_append(visitor, object);
  g_free(text);
  return 0;
}

void model_add_specialized(json_t *root, const LoadedModel *loaded) {
  json_t *list = json_array();
  bp_model_visit_specialized(loaded->model, add_specialized, list);
  if (json_array_size(list))
    json_add(root, "specialized", list);
  else
    json_decref(list);
}

/* `visitor` points to the milliseconds that compiling took. */
static int print_specialized(void *visitor, const BpSpecializedModel *specialized) {
  char *text = specialized_text(specialized);
  char *all = size_to_text(specialized->parameter_bytes);
  char *shared = size_to_text(specialized->shared_bytes);
  command_print(
      stderr,
      "backplane: specialised for %s in %.0f ms; of its %s of parameters it shares %s with "
      "the general code\n",
      text, *(const double *)visitor, all, shared);
  g_free(shared);
  g_free(all);
  g_free(text);
  return 0;
}

/* Compiles code for the shapes of the inputs that were set. */
static int specialize(const LoadedModel *loaded, const ModelOptions *options) {
  const GArray *shapes = loaded->shapes;
  BpCompileLimits limits = {.struct_size = sizeof(limits)};
  char **names = claims_names(options->onnx.graph_compilers);
  BpTarget *target = options->target ? target_parse_one("--target", options->target) : NULL;
  BpCompileOptions compile = {
      .struct_size = sizeof(compile),
      .targets = (const BpTarget *const *)&target,
      .num_targets = target ? 1 : 0,
      .shapes = (const BpInputShape *)(const void *)shapes->data,
      .num_shapes = (int32_t)shapes->len,
      .shape_size = sizeof(BpInputShape),
      .fallbacks = (const BpTarget *const *)loaded->fallbacks->pdata,
      .num_fallbacks = (int32_t)loaded->fallbacks->len,
      .limits = &limits,
      .is_reference = options->onnx.is_reference,
      .num_graph_compilers = (int32_t)g_strv_length(names),
      .graph_compilers = (const char *const *)names,
      .least_claimed = options->onnx.required,
  };
  gint64 start = g_get_monotonic_time();
  int status = (options->target && !target) || parse_limits(options->onnx.limits, &limits) < 0
                   ? -1
                   : bp_model_specialize(loaded->model, loaded->path, &compile);
  double ms = (double)(g_get_monotonic_time() - start) / 1000.0;
  if (status == 0 && !options->json)
    bp_model_visit_specialized(loaded->model, print_specialized, &ms);
  bp_object_release(target);
  g_strfreev(names);
  return status < 0 ? bp_error_add_context("--specialize") : 0;
}

/* ---- Inputs ------------------------------------------------------------------------------ */

/* Returns the names of the inputs (transfer full). */
static GPtrArray *list_inputs(const BpModel *model) {
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++)
    g_ptr_array_add(names, g_strdup(bp_model_input_info(model, i)->name));
  return names;
}

static int32_t find_input(const BpModel *model, const char *option) {
  GPtrArray *names = list_inputs(model);
  int32_t found = input_find(option, names);
  g_ptr_array_unref(names);
  return found;
}

/* Describes an input as the model does, with the shape that --shape gives it. */
static BpModelTensorInfo describe_input(const BpModel *model, int32_t index, const GArray *shapes) {
  BpModelTensorInfo info = *bp_model_input_info(model, index);
  const BpInputShape *given = shapes_find(shapes, info.name);
  if (given) {
    info.shape = given->shape;
    info.ndim = given->ndim;
  }
  return info;
}

/* Sets an input, and writes its value to a file if the command keeps values of inputs. */
static int set_value(LoadedModel *loaded, const ModelOptions *options, int32_t index,
                     const BpTensorView *value) {
  int status =
      bp_model_set_input(loaded->context, bp_model_input_info(loaded->model, index)->name, value);
  if (status == 0 && options->onnx.specializes) {
    const BpInputShape shape = {g_strdup(bp_model_input_info(loaded->model, index)->name),
                                g_memdup2(value->shape, (gsize)value->ndim * sizeof *value->shape),
                                value->ndim};
    g_array_append_val(loaded->shapes, shape);
  }
  if (status == 0 && options->input_folder) {
    char *path = g_strdup_printf("%s/%d.npy", options->input_folder, index);
    status = bp_npy_write(path, value);
    g_free(path);
  }
  return status;
}

/* Adds a value to those of an input that is a list; an empty text is a list without values. */
static int add_item(const char *option, const char *text, const BpModelTensorInfo *info,
                    GPtrArray **items) {
  if (*items && (!*text || !(*items)->len))
    return command_raise_usage("--input %s: input '%s' is given without a value, and once more",
                               option, info->name);
  if (!*items)
    *items = g_ptr_array_new_with_free_func(bp_object_release);
  BpTensor *value = *text ? input_read(text, info) : NULL;
  if (value)
    g_ptr_array_add(*items, value);
  return value || !*text ? 0 : -1;
}

/* Sets the inputs that are lists to their values. */
static int set_lists(const LoadedModel *loaded, GPtrArray *const *lists) {
  int status = 0;
  for (int32_t i = 0; i < bp_model_num_inputs(loaded->model) && status == 0; i++) {
    const BpModelTensorInfo *info = bp_model_input_info(loaded->model, i);
    guint count = lists[i] ? lists[i]->len : 0;
    const BpTensorView **views = g_new0(const BpTensorView *, count + 1);
    for (guint k = 0; k < count; k++)
      views[k] = &((const BpTensor *)lists[i]->pdata[k])->view;
    if (lists[i])
      status = bp_model_set_input_list(
          loaded->context, info->name, views,
          !count && (info->kind & BP_MODEL_OPTIONAL) ? BP_MODEL_NO_VALUE : (int64_t)count);
    g_free(views);
  }
  return status;
}

static int set_given(LoadedModel *loaded, const char *option, const ModelOptions *options,
                     const GArray *shapes, gboolean *given, GPtrArray **lists) {
  int32_t index = find_input(loaded->model, option);
  if (index < 0)
    return -1;
  const BpModelTensorInfo info = describe_input(loaded->model, index, shapes);
  const char *text = option + strlen(info.name) + 1;
  if (info.kind) {
    given[index] = TRUE;
    return add_item(option, text, &info, &lists[index]);
  }
  if (given[index])
    return command_raise_usage("--input %s: input '%s' has a value already", option, info.name);
  BpTensor *value = input_read(text, &info);
  if (!value)
    return -1;
  int status = set_value(loaded, options, index, &value->view);
  bp_object_release(value);
  given[index] = TRUE;
  return status < 0 ? bp_error_add_context("%.200s", text) : 0;
}

/* Fills floats from 0 to 1, and small whole numbers otherwise; packed sub-byte elements get
 * arbitrary values. */
static void fill_random(GRand *random, const BpTensorView *view, int64_t count) {
  size_t bytes = bp_dtype_bytes(view->dtype);
  char *out = view->data;
  if (view->dtype.bits % 8) {
    for (int64_t i = 0, size = bp_view_num_bytes(view); i < size; i++)
      out[i] = (char)g_rand_int(random);
    return;
  }
  for (int64_t i = 0; i < count; i++, out += bytes) {
    double value = g_rand_double(random);
    if (!element_write_float(out, view->dtype, value))
      memset(out, 0, bytes), out[0] = (char)(value * 2);
  }
}

static int set_random(LoadedModel *loaded, const ModelOptions *options, int32_t index,
                      const BpModelTensorInfo *info, GRand *random) {
  BpTensor *tensor =
      bp_tensor_create(info->shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!tensor)
    return -1;
  fill_random(random, &tensor->view, bp_view_num_elements(&tensor->view));
  int status = set_value(loaded, options, index, &tensor->view);
  bp_object_release(tensor);
  return status;
}

static gboolean has_known_type(const BpModelTensorInfo *info) {
  for (int32_t i = 0; i < info->ndim; i++)
    if (info->shape[i] < 0)
      return FALSE;
  return info->ndim >= 0 && info->dtype.bits > 0;
}

/* Checks that each of the shapes belongs to an input of the model. */
static int check_shapes(const BpModel *model, const ModelOptions *options, const GArray *shapes) {
  GPtrArray *names = list_inputs(model);
  int status = 0;
  for (guint i = 0; i < shapes->len && status == 0; i++)
    if (!g_ptr_array_find_with_equal_func(names, g_array_index(shapes, BpInputShape, i).name,
                                          g_str_equal, NULL))
      status = input_raise_unknown(options->onnx.shapes[i], names);
  g_ptr_array_unref(names);
  return status;
}

/* Fills an input without a file with random numbers, if the options allow that and the input's
 * shape is known; otherwise adds the input's name to `missing`. */
static int complete_input(LoadedModel *loaded, const ModelOptions *options, int32_t index,
                          const GArray *shapes, GRand *random, GString *missing) {
  const BpModelTensorInfo info = describe_input(loaded->model, index, shapes);
  if (random && !info.kind && has_known_type(&info))
    return set_random(loaded, options, index, &info, random);
  char *shape = shape_to_text(info.shape, info.ndim);
  g_string_append_printf(missing, "%s%s (%s)", missing->len ? ", " : "", info.name,
                         info.kind ? kind_to_text(info.kind) : shape);
  g_free(shape);
  return 0;
}

/* Sets the inputs without files, or raises an error that names them all, including those whose
 * extents are known only in a run. */
static int complete_inputs(LoadedModel *loaded, const ModelOptions *options, const GArray *shapes,
                           const gboolean *given) {
  GRand *random = options->fills ? g_rand_new_with_seed(SEED) : NULL;
  GString *missing = g_string_new(NULL);
  int status = check_shapes(loaded->model, options, shapes);
  for (int32_t i = 0; status == 0 && i < bp_model_num_inputs(loaded->model); i++) {
    if (!given[i])
      status = complete_input(loaded, options, i, shapes, random, missing);
  }
  if (status == 0 && missing->len)
    status = bp_error_raise(BP_ERROR_VALUE,
                            "no value for %s; give each with --input NAME=FILE, "
                            "a .npy or .png (or .npz, .jpg, .bin), or NAME=[1,2,3]%s",
                            missing->str, random ? ", or its shape with --shape" : "");
  g_string_free(missing, TRUE);
  if (random)
    g_rand_free(random);
  return status;
}

int model_set_inputs(LoadedModel *loaded, const ModelOptions *options) {
  loaded->context = bp_model_context_create(loaded->model);
  if (!loaded->context)
    return -1;
  GArray *shapes = shapes_parse(options->onnx.shapes);
  char **inputs = shapes ? inputs_expand(options->inputs) : NULL;
  int32_t count = bp_model_num_inputs(loaded->model);
  gboolean *given = g_new0(gboolean, count + 1);
  GPtrArray **lists = g_new0(GPtrArray *, count + 1);
  loaded->shapes = shapes_parse(NULL);
  int status = inputs ? 0 : -1;
  for (char **input = inputs; status == 0 && *input; input++)
    status = set_given(loaded, *input, options, shapes, given, lists);
  if (status == 0)
    status = set_lists(loaded, lists);
  if (status == 0)
    status = complete_inputs(loaded, options, shapes, given);
  if (status == 0 && options->onnx.specializes)
    status = specialize(loaded, options);
  g_clear_pointer(&loaded->shapes, g_array_unref);
  for (int32_t i = 0; i < count; i++)
    g_clear_pointer(&lists[i], g_ptr_array_unref);
  g_free(lists);
  g_free(given);
  g_strfreev(inputs);
  if (shapes)
    g_array_unref(shapes);
  return status;
}
