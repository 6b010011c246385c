/* SPDX-License-Identifier: Apache-2.0 */
/* Exhausted memory at any point of an application: it lists plugins, selects a device, compiles a
 * model, exports it, loads it and runs it. Each step runs in a separate process, in which
 * allocations of any thread and library fail; docs/trust.md describes the policy.
 *
 * - One allocation of any size fails: the step succeeds with the right answer, or fails with an
 *   error; or GLib ends the process with its own message.
 * - All allocations of at least LARGE bytes from one on fail: the process never ends.
 *
 * Afterwards the same step succeeds in the same process, unless a plugin failed for lack of memory
 * after it was loaded, which is permanent. The check takes a sample of the allocations,
 * BP_TEST_LONG takes all. */
#include <execinfo.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include <backplane/device.h>
#include <backplane/graph/model.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

#define FAILING_SCOPE _Atomic
#include "tests/failing_memory.h"

#define DEADLINE 120 /* time limit of a process in seconds */
#define SAMPLE   6   /* allocations that fail in a short test, for each step and way */
#define LARGE    16384

enum { DONE, FAILED, WRONG };

/* The report of a process to the test, in shared memory. */
static struct Report {
  long allocations;
  char text[512];
  int has_answer;
  float answer[10]; /* answer of the model without failures */
} * report;

static char *onnx_path, *library_path, *log_path;
static BpModule *compiled;
static const int64_t image_shape[] = {1, 1, 28, 28};

/* ---- Steps: 0, or -1 with an error ------------------------------------------------------- */

static int says_memory(const char *text) {
  return strstr(text, "memory") != NULL;
}

static atomic_int log_says_memory;

static void watch_log(void *context, int32_t level, const char *message) {
  (void)context;
  (void)level;
  if (says_memory(message))
    atomic_store(&log_says_memory, 1);
}

/* A plugin that cannot be read is listed with the reason, and the log names folders that cannot be
 * searched. */
static int list_plugins(void) {
  int is_found = 0, is_explained = 0;
  atomic_store(&log_says_memory, 0);
  BpPluginList *list = bp_plugin_list();
  for (size_t i = 0; list && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    is_found |= !strcmp(info->name, "cpu") && info->state == BP_PLUGIN_FOUND;
    is_explained |= info->state == BP_PLUGIN_REJECTED && says_memory(info->reason);
  }
  bp_plugin_list_free(list);
  if (!list || is_found)
    return list ? 0 : -1;
  return is_explained || atomic_load(&log_says_memory)
             ? bp_error_raise(BP_ERROR_MEMORY, "the list of plugins is incomplete")
             : bp_error_raise(BP_ERROR_INTERNAL, "no plugin cpu is listed, without a reason");
}

static int select_device(void) {
  BpDevice device = {0, 0};
  char *text = NULL;
  int rc = bp_device_select("cpu", &device, &text);
  bp_str_free(text);
  return rc;
}

static BpModule *compile_model(void) {
  const BpInputShape shapes[] = {{"image", image_shape, 4}};
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {.struct_size = sizeof(options),
                                    .targets = targets,
                                    .num_targets = 1,
                                    .shapes = shapes,
                                    .num_shapes = 1,
                                    .shape_size = sizeof(BpInputShape)};
  BpModule *module = target ? bp_model_compile(onnx_path, &options) : NULL;
  bp_object_release(target);
  return module;
}

static int compile(void) {
  BpModule *module = compile_model();
  bp_object_release(module);
  return module ? 0 : -1;
}

static int export(void) {
  return bp_module_export_library(compiled, library_path);
}

/* The first answer is stored, and later answers are compared with it. */
static int check_output(BpModelContext *context) {
  BpTensor *output = bp_model_get_output(context, 0);
  if (!output)
    return -1;
  const float *values = output->view.data;
  for (size_t i = 0; i < G_N_ELEMENTS(report->answer); i++)
    if (!report->has_answer)
      report->answer[i] = values[i];
    else if (!(fabsf(report->answer[i] - values[i]) < 1e-5f))
      return bp_error_raise(BP_ERROR_INTERNAL, "output %zu is %g, not %g", i, (double)values[i],
                            (double)report->answer[i]);
  report->has_answer = 1;
  return 0;
}

static int run_model(BpModel *model) {
  const BpDevice host = {BP_DEVICE_CPU, 0};
  BpTensor *image =
      bp_tensor_create(image_shape, 4, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, host, NULL);
  BpModelContext *context = image ? bp_model_context_create(model) : NULL;
  for (int i = 0; image && i < 28 * 28; i++)
    ((float *)image->view.data)[i] = (float)(i % 7) / 7;
  int rc = context && !bp_model_set_input(context, "image", &image->view) && !bp_model_run(context)
               ? check_output(context)
               : -1;
  bp_model_context_free(context);
  bp_object_release(image);
  return rc;
}

static int run(void) {
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  size_t num_devices = 0;
  BpModule *module = bp_model_open(library_path);
  int rc = module ? bp_model_select_devices(module, "cpu", devices, BP_MODEL_MAX_DEVICES,
                                            &num_devices, NULL)
                  : -1;
  BpModel *model = rc ? NULL : bp_model_create(module, devices, num_devices);
  rc = model ? run_model(model) : -1;
  bp_model_release(model);
  bp_object_release(module);
  return rc;
}

/* ---- Processes --------------------------------------------------------------------------- */

typedef struct Step {
  const char *path;
  int (*prepare)(void); /* or NULL */
  int (*work)(void);
} Step;

static int prepare_export(void) {
  compiled = compile_model();
  return compiled ? 0 : -1;
}

static const Step list_step = {"/exhaustion/list", NULL, list_plugins};
static const Step select_step = {"/exhaustion/select", NULL, select_device};
static const Step compile_step = {"/exhaustion/compile", NULL, compile};
static const Step export_step = {"/exhaustion/export", prepare_export, export};
static const Step run_step = {"/exhaustion/run", NULL, run};

/* Writes to the log, in case the process ends in a wrong way. */
static void log_backtrace(void) {
  void *frames[24];
  backtrace_symbols_fd(frames, backtrace(frames, G_N_ELEMENTS(frames)), STDERR_FILENO);
}

static int report_error(const char *what, int status) {
  g_snprintf(report->text, sizeof report->text, "%s: %s: %s", what, bp_error_kind(),
             bp_error_message());
  return status;
}

static int is_of_memory(void) {
  return bp_error_is(BP_ERROR_MEMORY) || says_memory(bp_error_message());
}

/* Runs in a child process. */
static int do_step(const Step *step, long number, int are_large) {
  if (step->prepare && step->prepare())
    return report_error("before", WRONG);
  bp_log_set_callback(watch_log, NULL);
  log_backtrace(); /* the first allocates */
  at_failure = log_backtrace;
  count = 0;
  least_size = are_large ? LARGE : 0;
  keep_failing = are_large;
  fail_at = number;
  int rc = step->work();
  fail_at = -1;
  report->allocations = count;
  if (rc && !is_of_memory())
    return report_error("the error is not of memory", WRONG);
  if (rc)
    report_error("", FAILED);
  bp_error_clear();
  if (step->work() && !is_of_memory())
    return report_error("once there is memory again", WRONG);
  return rc ? FAILED : DONE;
}

/* Runs a step in a process: returns DONE, FAILED or WRONG, or the negative signal that ended it. */
static int do_in_process(const Step *step, long number, int are_large) {
  int status = 0;
  report->text[0] = '\0';
  pid_t child = fork();
  g_assert_cmpint(child, >=, 0);
  if (child == 0) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    alarm(DEADLINE);
    if (!freopen(log_path, "w", stderr) || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
      _exit(WRONG);
    _exit(do_step(step, number, are_large));
  }
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Whether GLib ended the process for lack of memory. */
static int is_glibs_end(int end) {
  g_autofree char *log = NULL;
  return (end == -SIGTRAP || end == -SIGABRT) && g_file_get_contents(log_path, &log, NULL, NULL) &&
         strstr(log, "failed to allocate");
}

static void check_end(const Step *step, long number, int are_large, int end, int counts[3]) {
  if (end == DONE || end == FAILED)
    counts[end]++;
  else if (!are_large && is_glibs_end(end))
    counts[2]++;
  else {
    g_autofree char *log = NULL;
    g_file_get_contents(log_path, &log, NULL, NULL);
    g_error("%s, %s allocation %ld: %s %d; %s\n%s", step->path, are_large ? "large" : "any", number,
            end < 0 ? "signal" : "status", end < 0 ? -end : end, report->text, log ? log : "");
  }
}

static void fail_allocations(const Step *step, int are_large) {
  int counts[3] = {0, 0, 0};
  g_assert_cmpint(do_in_process(step, LONG_MAX, are_large), ==, DONE);
  long allocations = report->allocations;
  long stride = g_getenv("BP_TEST_LONG") ? 1 : MAX(1, allocations / SAMPLE);
  for (long i = 0; i < allocations; i += stride) {
    long number = MIN(i + g_test_rand_int_range(0, (gint32)stride), allocations - 1);
    check_end(step, number, are_large, do_in_process(step, number, are_large), counts);
  }
  g_test_message(
      "%s: one in %ld of %ld %sallocations failed: %d times the step succeeded, %d times "
      "it ended in an error, %d times GLib ended the process",
      step->path, stride, allocations, are_large ? "large " : "", counts[DONE], counts[FAILED],
      counts[2]);
}

/* Compilation has many single allocations; they fail only in long tests. */
static void test_step(gconstpointer step) {
  if (step != &compile_step || g_getenv("BP_TEST_LONG"))
    fail_allocations(step, 0);
  fail_allocations(step, 1);
}

static void prepare(void) {
  const char *source = g_getenv("top_srcdir");
  report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true(report != MAP_FAILED);
  onnx_path = g_build_filename(source ? source : ".", "examples/digits/digits.onnx", NULL);
  library_path = g_strdup_printf("%s/backplane-exhaustion-%d.so", g_get_tmp_dir(), (int)getpid());
  log_path = g_strdup_printf("%s/backplane-exhaustion-%d.log", g_get_tmp_dir(), (int)getpid());
  /* The test runs in a child process, because the children of a process that used devices cannot
   * use the devices. */
  if (do_in_process(&export_step, LONG_MAX, 0) != DONE ||
      do_in_process(&run_step, LONG_MAX, 0) != DONE)
    g_error("%s", report->text);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  prepare();
  const Step *const steps[] = {&list_step, &select_step, &compile_step, &export_step, &run_step};
  for (size_t i = 0; i < G_N_ELEMENTS(steps); i++)
    g_test_add_data_func(steps[i]->path, steps[i], test_step);
  int rc = g_test_run();
  g_unlink(library_path);
  g_unlink(log_path);
  return rc;
}
