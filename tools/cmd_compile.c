/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane compile`: an ONNX model in, a shared library out. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <backplane/object.h>

typedef struct CompileOptions {
  char **targets; /* each of them comma-separated */
  char *fallback;
  char *output;
  char *dump_dir;
  OnnxOptions onnx;
  gboolean json;
} CompileOptions;

static void print_json(const char *targets, const char *devices, const CompileOptions *options,
                       gint64 bytes, double seconds) {
  json_t *root = json_object();
  json_add_str(root, "output", options->output);
  json_add_int(root, "bytes", bytes);
  json_add_str(root, "target", targets);
  if (devices) {
    json_add_str(root, "fallback", options->fallback);
    json_add_str(root, "devices", devices);
  }
  json_add_double(root, "seconds", seconds);
  command_print_json(root);
}

/* `devices`: those that a run needs together, or NULL. */
static void print_text(const char *targets, const char *devices, const CompileOptions *options,
                       gint64 bytes, double seconds) {
  char *size = size_to_text((uint64_t)bytes);
  command_print(command_out(), "%s: %s for %s%s%s, in %.1f s\n", options->output, size, targets,
                devices ? " with " : "", devices ? options->fallback : "", seconds);
  if (devices)
    command_print(command_out(), "On %.*s it takes a second device, as in --device %s\n",
                  (int)strcspn(devices, ","), devices, devices);
  g_free(size);
}

static int compile_to(const char *path, const char *targets, const CompileOptions *options) {
  gint64 start = g_get_monotonic_time();
  char *devices;
  BpModule *module =
      model_compile(path, targets, options->fallback, &options->onnx, options->dump_dir, &devices);
  int status = module ? bp_module_export_library(module, options->output) : -1;
  bp_object_release(module);
  double seconds = (double)(g_get_monotonic_time() - start) / 1e6;
  struct stat file = {.st_size = 0};
  stat(options->output, &file);
  if (status < 0)
    status = command_fail(options->json);
  else
    (options->json ? print_json : print_text)(targets, devices, options, file.st_size, seconds);
  g_free(devices);
  return status;
}

/* The folder of a dump is there; `path` is not written over. */
static int prepare(const char *path, const CompileOptions *options) {
  struct stat input, output;
  if (stat(path, &input) == 0 && stat(options->output, &output) == 0 &&
      input.st_dev == output.st_dev && input.st_ino == output.st_ino)
    return command_usage_error("--output is the model itself: %s", path);
  return command_check_folder(options->dump_dir) < 0 ? command_fail(options->json) : EXIT_OK;
}

static int check_and_compile(int argc, char **argv, const CompileOptions *options) {
  if (argc != 2)
    return command_usage_error("compile takes one ONNX file");
  if (!options->targets)
    return command_usage_error("compile needs --target; `backplane targets` lists the kinds");
  if (!options->output)
    return command_usage_error("compile needs --output FILE.so");
  if (!g_str_has_suffix(options->output, ".so"))
    return command_usage_error("--output must end in .so, by which it is known when it is loaded");
  int status = prepare(argv[1], options);
  if (status != EXIT_OK)
    return status;
  char *targets = g_strjoinv(",", options->targets);
  status = compile_to(argv[1], targets, options);
  g_free(targets);
  return status;
}

int cmd_compile(int argc, char **argv) {
  CompileOptions options = {0};
  const GOptionEntry entries[] = {
      {"target", 't', 0, OPTION_TEXT_ARRAY, &options.targets,
       "targets to generate code for, comma-separated; may be repeated", "TARGET[,TARGET...]"},
      {"fallback", 0, 0, OPTION_TEXT, &options.fallback,
       "target whose code runs what the others refuse, each node of which is reported", "TARGET"},
      {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "the library to write", "FILE.so"},
      ONNX_SHAPE_ENTRY(&options.onnx),
      ONNX_LIMIT_ENTRY(&options.onnx),
      ONNX_REFERENCE_ENTRY(&options.onnx),
      {"dump", 0, 0, G_OPTION_ARG_FILENAME, &options.dump_dir,
       "write graphs, IR after each pass and sources to a folder that is there", "DIR"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &options.json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(&argc, &argv, entries, "MODEL.onnx",
                     "Compiles an ONNX model into one shared library that holds its graph, "
                     "parameters and code.",
                     NULL))
    return EXIT_USAGE;
  int status = check_and_compile(argc, argv, &options);
  g_strfreev(options.targets);
  g_free(options.fallback);
  g_free(options.output);
  g_free(options.dump_dir);
  onnx_options_clear(&options.onnx);
  return status;
}
