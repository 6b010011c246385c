/* SPDX-License-Identifier: Apache-2.0 */
/* Repeats computations of TVM with Backplane: reads the list of cases that a script wrote, and
 * makes each case a test. The list has a word and a value on each line:
 *
 *   case NAME             a new test
 *   library FILE          to be loaded
 *   device KIND           on which tensors are made
 *   machine               the library is a Relax executable, and a machine runs it
 *   model                 the library is run by the functions of backplane/graph/model.h
 *   function NAME
 *   arg VALUE             the next argument: "none", "bool 1", "int 1", "float 1.5", "str text",
 *                         "tensor FILE.npy"
 *   tolerance NUMBER      for later comparisons; 0, the default, means equal bits
 *   output FILE.npy       the next argument, a tensor that the call fills; its expected contents
 *   result VALUE          of the call; several results are the items of a tuple
 *   noted NUMBER          the sum of the arguments of backplane.test.note
 *   error KIND MESSAGE    the call fails with this error; "\n" is a newline
 *   run                   the end of a test
 *
 * The program's argument is the list of cases. Cases for missing devices are skipped. */

#include <math.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/graph/npy.h>
#include <backplane/graph/relax.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#define MAX_VALUES 32

static char *folder;
static double noted;

typedef struct Case {
  char *name;
  GPtrArray *lines;
} Case;

/* A test as it runs. */
typedef struct Run {
  char *library;
  char *function;
  BpDevice device;
  gboolean on_machine;
  gboolean as_model;
  double tolerance;
  BpValue args[MAX_VALUES];
  int32_t num_args;
  BpTensor *expected[MAX_VALUES]; /* expected contents of an output, or NULL, by argument */
  double tolerances[MAX_VALUES];
  BpValue results[MAX_VALUES];
  int32_t num_results;
  gboolean checks_noted;
  double noted;
  char *error;
} Run;

/* ---- Functions that the libraries call --------------------------------------------------- */

static int note(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  for (int32_t i = 0; i < num_args; i++) {
    BpByteArray text;
    if (args[i].type_index == BP_TYPE_INT)
      noted += (double)args[i].v_int64;
    else if (args[i].type_index == BP_TYPE_FLOAT)
      noted += args[i].v_float64;
    else if (bp_value_view_str(&args[i], &text) == 0)
      noted += (double)text.size;
    else
      return -1;
  }
  return 0;
}

static int fail(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return bp_error_raise(BP_ERROR_VALUE, "the callback says no");
}

static void register_function(const char *name, BpPackedCall call) {
  BpFunction *function = bp_function_create(call, NULL, NULL);
  g_assert_cmpint(bp_registry_set(name, function, 1), ==, 0);
  bp_object_release(function);
}

/* ---- Values ------------------------------------------------------------------------------ */

static BpTensor *read_array(const char *name) {
  char *path = g_build_filename(folder, name, NULL);
  BpTensor *tensor = bp_npy_read(path);
  if (!tensor)
    g_error("%s", bp_error_message());
  g_free(path);
  return tensor;
}

static BpTensor *copy_to(BpTensor *tensor, BpDevice device) {
  const BpTensorView *view = &tensor->view;
  BpTensor *copy = bp_tensor_create(view->shape, view->ndim, view->dtype, device, NULL);
  if (!copy || bp_tensor_copy_from_host(&copy->view, view->data, (uint64_t)bp_view_num_bytes(view)))
    g_error("%s", bp_error_message());
  return copy;
}

static BpValue parse_value(const char *text, BpDevice device) {
  char **words = g_strsplit(text, " ", 2);
  const char *rest = words[1] ? words[1] : "";
  BpValue value = {.type_index = BP_TYPE_NONE};
  if (!strcmp(words[0], "tensor")) {
    BpTensor *tensor = read_array(rest), *copy = copy_to(tensor, device);
    bp_object_release(tensor);
    value = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &copy->header};
  } else if (!strcmp(words[0], "int") || !strcmp(words[0], "bool")) {
    value = (BpValue){.type_index = *words[0] == 'i' ? BP_TYPE_INT : BP_TYPE_BOOL,
                      .v_int64 = g_ascii_strtoll(rest, NULL, 10)};
  } else if (!strcmp(words[0], "float")) {
    value = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = g_ascii_strtod(rest, NULL)};
  } else if (!strcmp(words[0], "str")) {
    g_assert_cmpint(bp_value_make_str(&value, rest, strlen(rest)), ==, 0);
  } else {
    g_assert_cmpstr(words[0], ==, "none");
  }
  g_strfreev(words);
  return value;
}

static double element(const char *data, BpDataType dtype, int64_t index) {
  if (dtype.bits == 64)
    return ((const double *)(const void *)data)[index];
  g_assert_cmpint(dtype.bits, ==, 32);
  return (double)((const float *)(const void *)data)[index];
}

static void compare_tensors(BpTensor *actual, BpTensor *expected, double tolerance) {
  const BpTensorView *want = &expected->view, *have = &actual->view;
  g_assert_cmpint(have->ndim, ==, want->ndim);
  g_assert_cmpmem(&have->dtype, sizeof have->dtype, &want->dtype, sizeof want->dtype);
  if (want->ndim)
    g_assert_cmpmem(have->shape, (size_t)have->ndim * 8, want->shape, (size_t)want->ndim * 8);
  int64_t bytes = bp_view_num_bytes(have), count = bp_view_num_elements(have);
  char *data = g_malloc((size_t)bytes + 1);
  if (bp_tensor_copy_to_host(have, data, (uint64_t)bytes))
    g_error("%s", bp_error_message());
  if (tolerance == 0 || want->dtype.code != BP_DTYPE_FLOAT) {
    g_assert_cmpmem(data, (size_t)bytes, want->data, (size_t)bytes);
  } else {
    for (int64_t i = 0; i < count; i++) {
      double a = element(data, want->dtype, i), b = element(want->data, want->dtype, i);
      if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        g_error("element %ld is %g, not %g", (long)i, a, b);
    }
  }
  g_free(data);
}

static void compare_values(const BpValue *actual, const BpValue *expected, double tolerance) {
  if (expected->type_index == BP_TYPE_TENSOR) {
    g_assert_cmpint(actual->type_index, ==, BP_TYPE_TENSOR);
    compare_tensors((BpTensor *)actual->v_obj, (BpTensor *)expected->v_obj, tolerance);
  } else if (expected->type_index == BP_TYPE_FLOAT) {
    g_assert_cmpfloat(actual->v_float64, ==, expected->v_float64);
  } else {
    g_assert_cmpint(actual->type_index, ==, expected->type_index);
    g_assert_cmpint(actual->v_int64, ==, expected->v_int64);
  }
}

/* ---- Running ----------------------------------------------------------------------------- */

static BpModule *load(const Run *run) {
  char *path = g_build_filename(folder, run->library, NULL);
  BpModule *module = bp_module_load(path);
  if (!module)
    g_error("%s", bp_error_message());
  g_free(path);
  if (!run->on_machine)
    return module;
  BpModule *machine = bp_relax_machine_create(module, run->device);
  if (!machine)
    g_error("%s", bp_error_message());
  bp_object_release(module);
  return machine;
}

static void check_results(const Run *run, const BpValue *result) {
  const BpArray *tuple =
      result->type_index == BP_TYPE_ARRAY ? (const BpArray *)result->v_obj : NULL;
  if (tuple)
    g_assert_cmpint(tuple->size, ==, run->num_results);
  for (int32_t i = 0; i < run->num_results; i++)
    compare_values(tuple ? &tuple->data[i] : result, &run->results[i], run->tolerance);
  for (int32_t i = 0; i < run->num_args; i++)
    if (run->expected[i])
      compare_tensors((BpTensor *)run->args[i].v_obj, run->expected[i], run->tolerances[i]);
  if (run->checks_noted)
    g_assert_cmpfloat(noted, ==, run->noted);
}

static void check_error(const Run *run) {
  char *kind = g_strdup(run->error), *space = strchr(kind, ' ');
  *space = '\0';
  char *message = g_strcompress(space + 1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  g_assert_cmpstr(bp_error_message(), ==, message);
  bp_error_clear();
  g_free(message);
  g_free(kind);
}

static void call(Run *run) {
  BpModule *module = load(run);
  BpFunction *function;
  BpValue result;
  noted = 0;
  g_assert_cmpint(bp_module_get_function(module, run->function, 1, &function), ==, 0);
  g_assert_nonnull(function);
  /* Calls a second time, with the state of the first call: looked-up functions, pooled memory. */
  for (int times = 0; times < (run->checks_noted ? 1 : 2); times++) {
    int status = bp_function_call(function, run->args, run->num_args, &result);
    if (run->error) {
      g_assert_cmpint(status, ==, -1);
      check_error(run);
      continue;
    }
    if (status)
      g_error("%s", bp_error_message());
    check_results(run, &result);
    bp_value_clear(&result);
  }
  bp_object_release(function);
  bp_object_release(module);
}

/* Arguments are the inputs in order, and results the outputs. */
static void run_model(const Run *run) {
  char *path = g_build_filename(folder, run->library, NULL);
  BpModel *model = bp_model_load(path, &run->device, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context)
    g_error("%s", bp_error_message());
  g_assert_cmpint(bp_model_num_inputs(model), ==, run->num_args);
  g_assert_cmpint(bp_model_num_outputs(model), ==, run->num_results);
  for (int times = 0; times < 2; times++) {
    for (int32_t i = 0; i < run->num_args; i++) {
      const BpModelTensorInfo *info = bp_model_input_info(model, i);
      BpTensor *value = (BpTensor *)run->args[i].v_obj;
      if (!info || (times ? bp_model_bind_input(context, info->name, value)
                          : bp_model_set_input(context, info->name, &value->view)))
        g_error("%s", bp_error_message());
    }
    if (bp_model_run(context))
      g_error("%s", bp_error_message());
    for (int32_t i = 0; i < run->num_results; i++) {
      BpTensor *output = bp_model_get_output(context, i);
      g_assert_nonnull(output);
      compare_tensors(output, (BpTensor *)run->results[i].v_obj, run->tolerance);
    }
  }
  bp_model_context_free(context);
  bp_model_release(model);
  g_free(path);
}

static void take_line(Run *run, const char *word, const char *rest) {
  if (!strcmp(word, "library")) {
    run->library = g_strdup(rest);
  } else if (!strcmp(word, "device")) {
    g_assert_cmpint(bp_device_parse(rest, &run->device), ==, 0);
  } else if (!strcmp(word, "machine")) {
    run->on_machine = TRUE;
  } else if (!strcmp(word, "model")) {
    run->as_model = TRUE;
  } else if (!strcmp(word, "function")) {
    run->function = g_strdup(rest);
  } else if (!strcmp(word, "tolerance")) {
    run->tolerance = g_ascii_strtod(rest, NULL);
  } else if (!strcmp(word, "arg")) {
    run->args[run->num_args++] = parse_value(rest, run->device);
  } else if (!strcmp(word, "output")) {
    BpTensor *expected = read_array(rest);
    BpTensor *tensor = bp_tensor_create(expected->view.shape, expected->view.ndim,
                                        expected->view.dtype, run->device, NULL);
    g_assert_nonnull(tensor);
    run->tolerances[run->num_args] = run->tolerance;
    run->expected[run->num_args] = expected;
    run->args[run->num_args++] = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
  } else if (!strcmp(word, "result")) {
    run->results[run->num_results++] = parse_value(rest, (BpDevice){BP_DEVICE_CPU, 0});
  } else if (!strcmp(word, "noted")) {
    run->checks_noted = TRUE;
    run->noted = g_ascii_strtod(rest, NULL);
  } else {
    g_assert_cmpstr(word, ==, "error");
    run->error = g_strdup(rest);
  }
  g_assert_cmpint(run->num_args, <, MAX_VALUES);
  g_assert_cmpint(run->num_results, <, MAX_VALUES);
}

static void clear_run(Run *run) {
  for (int32_t i = 0; i < run->num_args; i++) {
    bp_value_clear(&run->args[i]);
    bp_object_release(run->expected[i]);
  }
  for (int32_t i = 0; i < run->num_results; i++)
    bp_value_clear(&run->results[i]);
  g_free(run->library);
  g_free(run->function);
  g_free(run->error);
}

static gboolean device_is_there(const Case *self) {
  for (guint i = 0; i < self->lines->len; i++) {
    const char *line = self->lines->pdata[i];
    BpDevice device;
    int32_t count;
    if (!g_str_has_prefix(line, "device "))
      continue;
    if (bp_device_parse(line + strlen("device "), &device) == 0 &&
        bp_device_count(device.device_type, &count, NULL) == 0 && count > 0)
      continue;
    bp_error_clear();
    return FALSE;
  }
  return TRUE;
}

static void run_case(gconstpointer data) {
  const Case *self = data;
  Run run = {.device = {BP_DEVICE_CPU, 0}};
  if (!device_is_there(self)) {
    g_test_skip("there is no such device");
    return;
  }
  for (guint i = 0; i < self->lines->len; i++) {
    char **words = g_strsplit(self->lines->pdata[i], " ", 2);
    take_line(&run, words[0], words[1] ? words[1] : "");
    g_strfreev(words);
  }
  if (run.as_model)
    run_model(&run);
  else
    call(&run);
  clear_run(&run);
}

/* ---- The list ---------------------------------------------------------------------------- */

static void free_case(void *data) {
  Case *self = data;
  g_ptr_array_free(self->lines, TRUE);
  g_free(self->name);
  g_free(self);
}

static GPtrArray *read_list(const char *path) {
  GPtrArray *cases = g_ptr_array_new_with_free_func(free_case);
  char *text;
  g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
  char **lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line; line++) {
    if (g_str_has_prefix(*line, "case ")) {
      Case *self = g_new0(Case, 1);
      self->name = g_strconcat("/tvm/", *line + strlen("case "), NULL);
      self->lines = g_ptr_array_new_with_free_func(g_free);
      g_ptr_array_add(cases, self);
    } else if (cases->len && **line && strcmp(*line, "run") != 0) {
      g_ptr_array_add(((Case *)cases->pdata[cases->len - 1])->lines, g_strdup(*line));
    }
  }
  g_strfreev(lines);
  g_free(text);
  return cases;
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_assert_cmpint(argc, ==, 2);
  g_assert_cmpint(bp_graph_initialize(), ==, 0);
  register_function("backplane.test.note", note);
  register_function("backplane.test.fail", fail);
  folder = g_path_get_dirname(argv[1]);
  GPtrArray *cases = read_list(argv[1]);
  for (guint i = 0; i < cases->len; i++)
    g_test_add_data_func(((Case *)cases->pdata[i])->name, cases->pdata[i], run_case);
  int status = g_test_run();
  g_ptr_array_free(cases, TRUE);
  g_free(folder);
  return status;
}
