/* SPDX-License-Identifier: Apache-2.0 */
/* The kit's command line. */
#include <string.h>
#include <sys/stat.h>

#include <backplane/conformance/conformance.h>
#include <backplane/plugins.h>

#include "conformance/run.h"

typedef struct Options {
  gboolean list;
  char **only, **skip;
  char *expect_fail;
  gint64 seed;
  int device;
  char *target;
  char *format;
  gboolean json;
  char *output;
  int timeout;
  gboolean fail_fast;
  char **plugins;
} Options;

static void clear_options(Options *options) {
  g_strfreev(options->only);
  g_strfreev(options->skip);
  g_strfreev(options->plugins);
  g_free(options->expect_fail);
  g_free(options->target);
  g_free(options->format);
  g_free(options->output);
}

static const char details[] =
    "PLUGIN is a plugin's name or, with a '/' or a '.', its file. The checks run in processes of\n"
    "their own. A failed check blocks the checks that build on it: look at the first failure.\n"
    "--list says what each check shows.\n\n"
    "WHAT is a check's name or a glob of names, a section (copy) or a tag (core, optional,\n"
    "stress, fault, performance).\n\n"
    "Exit status: 0 the plugin conforms; 1 a check failed, or passed against expectation; 2 the\n"
    "command line is wrong, there is no such plugin, or the report cannot be written; 3 nothing\n"
    "failed, but core checks were left out or lack a device.";

static int parse(Options *options, int *argc, char ***argv) {
  const GOptionEntry entries[] = {
      {"list", 0, 0, G_OPTION_ARG_NONE, &options->list, "list the checks and run none", NULL},
      {"only", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->only,
       "run these checks, and the checks that they build on; may be repeated", "WHAT"},
      {"skip", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->skip, "leave these out", "WHAT"},
      {"expect-fail", 0, 0, G_OPTION_ARG_FILENAME, &options->expect_fail,
       "names of checks that are known to fail, one a line", "FILE"},
      {"seed", 0, 0, G_OPTION_ARG_INT64, &options->seed, "of everything random (1)", "NUMBER"},
      {"device", 0, 0, G_OPTION_ARG_INT, &options->device, "the device to check (0)", "INDEX"},
      {"target", 0, 0, G_OPTION_ARG_STRING, &options->target,
       "generate code for this target, not for the device's own", "TARGET"},
      {"format", 0, 0, G_OPTION_ARG_STRING, &options->format, "text (the default), tap or junit",
       "FORMAT"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &options->json, "machine-readable output", NULL},
      {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output, "write the report there", "FILE"},
      {"timeout", 0, 0, G_OPTION_ARG_INT, &options->timeout,
       "seconds that a check, or a program of one, may take (300)", "SECONDS"},
      {"fail-fast", 0, 0, G_OPTION_ARG_NONE, &options->fail_fast, "stop at the first failure",
       NULL},
      {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->plugins, NULL, NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  GOptionContext *context = g_option_context_new("PLUGIN");
  GError *error = NULL;
  g_option_context_set_summary(context, "Checks that a plugin conforms to the ABI.");
  g_option_context_set_description(context, details);
  g_option_context_add_main_entries(context, entries, NULL);
  gboolean ok = g_option_context_parse(context, argc, argv, &error);
  if (!ok) {
    bp_error_raise(BP_ERROR_VALUE, "%s; `%s --help` explains the options", error->message,
                   g_get_prgname());
    g_error_free(error);
  }
  g_option_context_free(context);
  return ok ? 0 : -1;
}

static int check_options(const Options *options) {
  if (options->timeout < 1)
    return bp_error_raise(BP_ERROR_VALUE, "a check takes at least a second, not %d",
                          options->timeout);
  if (options->json && options->format)
    return bp_error_raise(BP_ERROR_VALUE, "--json and --format %s: a report has one form",
                          options->format);
  if (options->device < 0)
    return bp_error_raise(BP_ERROR_VALUE, "there is no device %d: devices are counted from 0",
                          options->device);
  if (options->list)
    return 0;
  if (!options->plugins || !options->plugins[0] || options->plugins[1])
    return bp_error_raise(BP_ERROR_VALUE, "one plugin is checked: its name or its file");
  return 0;
}

static int check_output(const char *output, const char *file) {
  struct stat own, other;
  if (!output || !file || stat(output, &own) || stat(file, &other) || !S_ISREG(own.st_mode) ||
      own.st_dev != other.st_dev || own.st_ino != other.st_ino)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "--output %s would replace a file that is read: %s", output,
                        file);
}

/* Compares the output with the files of the plugins of a name. */
static int check_output_of_name(const char *output, const char *name) {
  BpPluginList *list = output && name ? bp_plugin_list() : NULL;
  int rc = output && name && !list ? -1 : 0;
  for (size_t i = 0; i < bp_plugin_list_size(list) && rc == 0; i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (strcmp(info->name, name) == 0)
      rc = check_output(output, info->path);
  }
  bp_plugin_list_free(list);
  return rc;
}

/* A file is recognised by the '/' in its path, so a bare FILE.so gets one. */
static char *make_subject(const char *plugin) {
  gboolean is_bare_file = !strchr(plugin, '/') && strchr(plugin, '.');
  return is_bare_file ? g_strconcat("./", plugin, NULL) : g_strdup(plugin);
}

static int run_reported(Run *run, const Format *format) {
  if (bp__run_identify(run))
    return -1;
  run->report = bp__report_begin(run, format);
  int rc = bp__run_checks(run);
  bp__report_finish(run, run->report);
  return rc;
}

static int run_checks(Run *run, const Options *options, const Format *format) {
  char *folder = bp__folder_create();
  if (!folder)
    return -1;
  char *subject = make_subject(options->plugins[0]);
  run->kit = (Kit){.subject = subject,
                   .seed = (uint64_t)options->seed,
                   .device_index = options->device,
                   .target_option = options->target,
                   .folder = folder};
  run->timeout = options->timeout;
  run->fail_fast = options->fail_fast;
  int rc = run_reported(run, format);
  g_free(subject);
  bp__folder_remove(folder);
  return rc;
}

/* All options are checked before any output is written. */
static int run_options(Run *run, const Options *options) {
  Output output;
  const char *plugin = options->plugins ? options->plugins[0] : NULL;
  const Format *format = options->json     ? bp__report_json()
                         : options->format ? bp__report_format(options->format)
                                           : bp__report_format("text");
  if (!format || check_options(options) || bp__run_select(run, options->only, options->skip) ||
      check_output(options->output, plugin) || check_output_of_name(options->output, plugin) ||
      check_output(options->output, options->expect_fail) ||
      (options->expect_fail && bp__run_expect(run, options->expect_fail)))
    return -1;
  int rc = bp__output_open(&output, options->output);
  run->out = output.file;
  if (rc == 0 && options->list)
    bp__report_list(run, format, run->out);
  else if (rc == 0)
    rc = run_checks(run, options, format);
  return bp__output_close(&output, rc == 0) || rc ? -1 : 0;
}

int bp_conformance_main(int argc, char **argv) {
  Options options = {.seed = 1, .timeout = 300};
  Run run = {0};
  bp__run_create(&run);
  bp__signals_hold();
  int rc = parse(&options, &argc, &argv) || run_options(&run, &options) ? -1 : 0;
  int status = rc || options.list ? BP_CONFORMANCE_OK : bp__run_status(&run);
  if (rc) {
    if (options.json && !run.report)
      bp__report_error(stdout);
    fprintf(stderr, "%s: %s\n", g_get_prgname(), bp_error_message());
    bp_error_clear();
    status = BP_CONFORMANCE_USAGE;
  }
  bp__run_clear(&run);
  clear_options(&options);
  bp__signals_release();
  return status;
}
