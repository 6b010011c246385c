/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane compile`: compiles an ONNX model to a shared library. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <backplane/object.h>

typedef struct CompileOptions {
  char **targets; /* each is a comma-separated list */
  char **devices; /* lists of preferences; each selects one device */
  gboolean is_portable;
  char *fallback;
  char *output;
  char *dump_dir;
  char **inputs;
  OnnxOptions onnx;
  gboolean json;
} CompileOptions;

/* A target that the artifact has code for. */
typedef struct Code {
  GPtrArray *targets; /* BpTarget */
  GPtrArray *devices; /* for each target, the device that it is tuned for, "opencl:0", or "" */
  char *text;         /* all targets as text, as requested */
} Code;

static void code_clear(Code *code) {
  g_ptr_array_unref(code->targets);
  g_ptr_array_unref(code->devices);
  g_free(code->text);
}

/* ---- Choosing targets -------------------------------------------------------------------- */

/* Adds the target of the device that `preferences` select; NULL selects as `run` does. */
static int add_device(const char *preferences, Code *code) {
  BpDevice device;
  char text[DEVICE_TEXT_MAX];
  if (preferences_check(preferences) < 0)
    return -1;
  BpTarget *target =
      bp_device_select(preferences, &device, NULL) < 0 ? NULL : bp_target_from_device(device);
  if (!target)
    return -1;
  bp_device_format(device, text, sizeof text);
  g_ptr_array_add(code->targets, target);
  g_ptr_array_add(code->devices, g_strdup(text));
  return 0;
}

/* Replaces each target by the target of its kind that runs on every device. */
static int make_portable(Code *code) {
  for (guint i = 0; i < code->targets->len; i++) {
    BpTarget *target = code->targets->pdata[i];
    if (!*(const char *)code->devices->pdata[i] && !target_is_default(target)) {
      char *text = bp_target_format(target);
      if (text)
        command_raise_usage("--portable takes the kind of a target alone; \"%s\" has attributes",
                            text);
      bp_str_free(text);
      return -1;
    }
    BpTarget *portable = target_make_portable(bp_target_kind(target));
    if (!portable)
      return -1;
    bp_object_release(target);
    code->targets->pdata[i] = portable;
    g_free(code->devices->pdata[i]);
    code->devices->pdata[i] = g_strdup("");
  }
  return 0;
}

static char *join_kinds(const GPtrArray *targets) {
  GString *text = g_string_new(NULL);
  for (guint i = 0; i < targets->len; i++)
    g_string_append_printf(text, "%s%s", i ? "," : "", bp_target_kind(targets->pdata[i]));
  return g_string_free(text, FALSE);
}

static int choose_targets(const CompileOptions *options, Code *code) {
  *code = (Code){g_ptr_array_new_with_free_func(bp_object_release),
                 g_ptr_array_new_with_free_func(g_free), NULL};
  for (char **text = options->targets; text && *text; text++)
    if (targets_parse(*text, code->targets) < 0)
      return -1;
  while (code->devices->len < code->targets->len)
    g_ptr_array_add(code->devices, g_strdup(""));
  for (char **list = options->devices; list && *list; list++)
    if (add_device(*list, code) < 0)
      return -1;
  if (code->targets->len == 0 && add_device(NULL, code) < 0)
    return -1;
  if (options->is_portable && make_portable(code) < 0)
    return -1;
  code->text = options->targets && !options->devices ? g_strjoinv(",", options->targets)
                                                     : join_kinds(code->targets);
  return 0;
}

/* ---- Reports ----------------------------------------------------------------------------- */

static json_t *code_json(const Code *code, gboolean is_portable) {
  json_t *array = json_array();
  for (guint i = 0; i < code->targets->len; i++) {
    const BpTarget *target = code->targets->pdata[i];
    const char *device = code->devices->pdata[i];
    char *text = bp_target_format(target);
    json_t *object = json_object();
    json_add_str(object, "kind", bp_target_kind(target));
    json_add_str(object, "target", text ? text : "");
    if (*device)
      json_add_str(object, "device", device);
    json_add(object, "portable", json_boolean(is_portable));
    json_append(array, object);
    bp_str_free(text);
  }
  return array;
}

static void print_json(const Code *code, const char *devices, const CompileOptions *options,
                       const ClaimReport *claims, gint64 bytes, double seconds) {
  json_t *root = json_object();
  json_add_str(root, "output", options->output);
  json_add_int(root, "bytes", bytes);
  json_add(root, "targets", code_json(code, options->is_portable));
  if (devices) {
    json_add_str(root, "fallback", options->fallback);
    json_add_str(root, "devices", devices);
  }
  claims_add_json(root, claims);
  json_add_double(root, "seconds", seconds);
  command_print_json(root);
}

/* Formats one line that says which devices the code of a target is for. */
static void print_code(const BpTarget *target, const char *device, gboolean is_portable) {
  char *devices = target_device_kind(target);
  gboolean is_cpu = bp_target_device_type(target) == BP_DEVICE_CPU;
  char *text;
  if (*device)
    text = g_strdup_printf("for %s%s (--portable: for every %s device)", device,
                           g_str_has_prefix(device, "remote:") ? "" : " of this machine", devices);
  else if (is_portable && is_cpu)
    text = g_strdup("for every cpu of this architecture");
  else if (is_portable)
    text = g_strdup_printf("for every %s device", devices);
  else if (!target_is_default(target))
    text = g_strdup_printf("for %s devices as the target describes them", devices);
  else if (is_cpu)
    text = g_strdup("for the cpu of this machine (--portable: for every cpu)");
  else
    text =
        g_strdup_printf("for every %s device (--device %s: for the device of this machine, faster)",
                        devices, devices);
  command_print_line(command_out(), "  %s: %s", bp_target_kind(target), text);
  g_free(text);
  g_free(devices);
}

/* `devices`: the devices that a run needs together, or NULL. */
static void print_text(const Code *code, const char *devices, const CompileOptions *options,
                       gint64 bytes, double seconds) {
  char *size = size_to_text((uint64_t)bytes);
  command_print(command_out(), "%s: %s for %s%s%s, in %.1f s\n", options->output, size, code->text,
                devices ? " with " : "", devices ? options->fallback : "", seconds);
  for (guint i = 0; i < code->targets->len; i++)
    print_code(code->targets->pdata[i], code->devices->pdata[i], options->is_portable);
  if (devices)
    command_print(command_out(), "On %.*s it takes other devices too, as in --device %s\n",
                  (int)strcspn(devices, ":,"), devices, devices);
  g_free(size);
}

/* ---- Compiling --------------------------------------------------------------------------- */

static BpModule *compile_code(const char *path, const Code *code, const CompileOptions *options,
                              char **devices, ClaimReport *claims) {
  GPtrArray *fallbacks = g_ptr_array_new_with_free_func(bp_object_release);
  BpModule *module = NULL;
  if (!options->fallback || targets_parse(options->fallback, fallbacks) == 0)
    module = model_compile(path, code->targets, fallbacks, &options->onnx, options->inputs,
                           options->dump_dir, devices, claims);
  if (!module && !fallbacks->len && model_is_refused())
    bp_error_add_context("--fallback c runs on the CPU what a target refuses");
  g_ptr_array_unref(fallbacks);
  return module;
}

static int compile_to(const char *path, const CompileOptions *options) {
  gint64 start = g_get_monotonic_time();
  char *devices = NULL;
  ClaimReport claims = {.rows = NULL};
  Code code;
  BpModule *module = choose_targets(options, &code) < 0
                         ? NULL
                         : compile_code(path, &code, options, &devices, &claims);
  int status = module ? bp_module_export_library(module, options->output) : -1;
  bp_object_release(module);
  double seconds = (double)(g_get_monotonic_time() - start) / 1e6;
  struct stat file = {.st_size = 0};
  stat(options->output, &file);
  if (status < 0)
    status = command_fail(options->json);
  else if (options->json)
    print_json(&code, devices, options, &claims, file.st_size, seconds);
  else
    print_text(&code, devices, options, file.st_size, seconds);
  claims_clear(&claims);
  g_free(devices);
  code_clear(&code);
  return status;
}

/* Whether a file has a name that a dump gives its files, as "0-c-imported.txt", and is in the
 * folder of the dump. */
static gboolean may_be_dumped(const char *path, const char *dump) {
  g_autofree char *folder = g_path_get_dirname(path), *name = g_path_get_basename(path);
  size_t digits = strspn(name, "0123456789");
  return digits && name[digits] == '-' && command_is_one_file(folder, dump);
}

/* Checks that a dump replaces none of the files, which are FILE or NAME=FILE. */
static int check_dump(const char *dir, char *const *files) {
  for (; dir && files && *files; files++) {
    const char *value = strchr(*files, '=');
    if (may_be_dumped(*files, dir) || (value && may_be_dumped(value + 1, dir)))
      return command_raise_usage("--dump %s may replace a file that the command reads: %s; choose "
                                 "another folder",
                                 dir, *files);
  }
  return 0;
}

/* Checks that the folder of a dump exists, and that no file that is read is overwritten. */
static int prepare(char *path, const CompileOptions *options) {
  char *const model[] = {path, NULL};
  const ModelOptions inputs = {.inputs = options->inputs};
  return model_check_output("--output", options->output, model, &inputs) < 0 ||
                 command_check_kind("--output", options->output, "\177ELF", "library") < 0 ||
                 command_check_folder(options->dump_dir) < 0 ||
                 check_dump(options->dump_dir, model) < 0 ||
                 check_dump(options->dump_dir, options->inputs) < 0 ||
                 check_dump(options->dump_dir,
                            options->dump_dir ? model_files_beside(path) : NULL) < 0
             ? command_fail(options->json)
             : EXIT_OK;
}

static int check_and_compile(int argc, char **argv, const CompileOptions *options) {
  if (argc != 2)
    return command_usage_error("compile takes one ONNX file");
  if (!options->output)
    return command_usage_error("compile needs --output FILE.so");
  if (!g_str_has_suffix(options->output, ".so"))
    return command_usage_error("--output %s: the name of a library ends in .so", options->output);
  int status = prepare(argv[1], options);
  return status == EXIT_OK ? compile_to(argv[1], options) : status;
}

int cmd_compile(int argc, char **argv) {
  CompileOptions options = {0};
  const GOptionEntry entries[] = {
      {"device", 'd', 0, OPTION_TEXT_ARRAY, &options.devices,
       "generate code for the device that this list of preferences chooses (default, without "
       "--target: as run chooses); repeat it for code for several",
       "LIST"},
      {"target", 't', 0, OPTION_TEXT_ARRAY, &options.targets,
       "generate code for targets as they are written, whatever devices are here; comma-separated, "
       "may be repeated; \"c,dnnl\" measures whether the graph compiler dnnl is faster",
       "TARGET[,TARGET...]"},
      {"portable", 'p', 0, G_OPTION_ARG_NONE, &options.is_portable,
       "generate code for every device of the kind, slower than code for one device", NULL},
      {"fallback", 0, 0, OPTION_TEXT, &options.fallback,
       "targets for the nodes that the targets before them refuse: the first that accepts a node "
       "gets it, and the node is reported",
       "TARGET[,TARGET...]"},
      {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "the library to write", "FILE.so"},
      ONNX_SHAPE_ENTRY(&options.onnx),
      {"input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &options.inputs,
       "fixes an input's shape as its file (.npy, .npz, .png or .jpg) has it; may be repeated",
       "NAME=FILE"},
      ONNX_LIMIT_ENTRY(&options.onnx),
      ONNX_REFERENCE_ENTRY(&options.onnx),
      ONNX_COMPILER_ENTRY(&options.onnx),
      ONNX_REQUIRE_ENTRY(&options.onnx),
      ONNX_MEASURE_ENTRY(&options.onnx),
      {"dump", 0, 0, G_OPTION_ARG_FILENAME, &options.dump_dir,
       "write graphs, IR after each pass and sources to an existing folder", "DIR"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &options.json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(&argc, &argv, entries, "MODEL.onnx",
                     "Compiles an ONNX model into one shared library that holds its graph, "
                     "parameters and code.",
                     NULL))
    return EXIT_USAGE;
  for (char **target = options.targets; target && *target; target++)
    claims_take_names(target, &options.onnx);
  int status = check_and_compile(argc, argv, &options);
  g_strfreev(options.targets);
  g_strfreev(options.devices);
  g_strfreev(options.inputs);
  g_free(options.fallback);
  g_free(options.output);
  g_free(options.dump_dir);
  onnx_options_clear(&options.onnx);
  return status;
}
