/* SPDX-License-Identifier: Apache-2.0 */
/* Models that one call makes ready to run: the device is the one that the list prefers, for a model
 * compiled in the call or before. */
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/backplane.h>

#include "tests/graph/compile_check.h"

static char *onnx, *library;
static const int64_t extents[] = {2, 3};
static const BpInputShape shape = {"x", extents, 2};

/* A file with an open first extent, and its artifact for the CPU. */
static void make_files(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "Nx3");
  onnx_node(builder, "Neg", "x", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  onnx = onnx_write(bytes);
  library = g_strconcat(onnx, ".so", NULL);
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  BpModule *module =
      bp_model_compile(onnx, &(BpCompileOptions){.struct_size = sizeof(BpCompileOptions),
                                                 .targets = targets,
                                                 .num_targets = 1,
                                                 .shapes = &shape,
                                                 .num_shapes = 1,
                                                 .shape_size = sizeof(BpInputShape)});
  if (!module || bp_module_export_library(module, library) < 0)
    g_error("%s", bp_error_message());
  bp_module_release(module);
  bp_target_release(target);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static BpCompileOptions with_shape(void) {
  return (BpCompileOptions){.struct_size = sizeof(BpCompileOptions),
                            .shapes = &shape,
                            .num_shapes = 1,
                            .shape_size = sizeof(BpInputShape)};
}

/* Checks that the model is on cpu:0 and negates; frees the model. */
static void assert_negates_on_cpu(BpModel *model) {
  static const float x[] = {1, -2, 3, 0.5f, -0.25f, 8};
  int64_t count;
  size_t num_devices;
  if (!model)
    g_error("%s", bp_error_message());
  const BpDevice *devices = bp_model_devices(model, &num_devices);
  g_assert_cmpuint(num_devices, ==, 1);
  g_assert_cmpint(devices[0].device_type, ==, BP_DEVICE_CPU);
  g_assert_cmpint(devices[0].device_id, ==, 0);
  float *y = run_model(model, x, &count);
  g_assert_cmpint(count, ==, G_N_ELEMENTS(x));
  for (size_t i = 0; i < G_N_ELEMENTS(x); i++)
    g_assert_cmpfloat(y[i], ==, -x[i]);
  g_free(y);
}

static void test_file_is_compiled_for_the_device_of_the_list(void) {
  BpCompileOptions options = with_shape();
  char *report;
  assert_negates_on_cpu(bp_model_load_for(onnx, "cpu", &options, NULL));
  assert_negates_on_cpu(bp_model_load_for(onnx, "opencl:99,cpu:0", &options, &report));
  g_assert_nonnull(strstr(report, "opencl:99"));
  bp_str_free(report);
}

static void test_file_is_compiled_for_the_targets_that_are_given(void) {
  BpCompileOptions options = with_shape();
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  char *report;
  options.targets = targets;
  options.num_targets = 1;
  assert_negates_on_cpu(bp_model_load_for(onnx, "opencl,cpu", &options, &report));
  g_assert_nonnull(strstr(report, "opencl: there is no code for it"));
  bp_str_free(report);
  bp_target_release(target);
}

static void test_library_chooses_among_the_devices_that_it_has_code_for(void) {
  char *report;
  assert_negates_on_cpu(bp_model_load_for(library, NULL, NULL, NULL));
  assert_negates_on_cpu(bp_model_load_for(library, "opencl,cpu", NULL, &report));
  g_assert_nonnull(strstr(report, "opencl: there is no code for it"));
  bp_str_free(report);
}

/* Nodes that the first device's code generator refuses run on the second device of the list. */
static void test_fallback_runs_on_the_second_device_of_the_list(void) {
  if (!has_device(BP_DEVICE_OPENCL)) {
    g_test_skip("no device of OpenCL");
    return;
  }
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  onnx_node(builder, "Neg", "x", "a", "");
  onnx_node(builder, "Cast", "a", "b", "to=11");
  onnx_node(builder, "Mul", "b,b", "c", "");
  onnx_node(builder, "Cast", "c", "y", "to=1");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("opencl -fp64=false"), *fallback = bp_target_parse("c");
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = targets, .num_targets = 1, .fallback = fallback};
  const float x[] = {1, -2, 3, 0.5f};
  int64_t count;
  size_t num_devices;
  g_assert_null(bp_model_load_for(path, "opencl", &options, NULL));
  g_assert_nonnull(strstr(bp_error_message(), "needs 1 device of kind cpu"));
  bp_error_clear();
  BpModel *model = bp_model_load_for(path, "opencl,cpu", &options, NULL);
  if (!model)
    g_error("%s", bp_error_message());
  const BpDevice *devices = bp_model_devices(model, &num_devices);
  g_assert_cmpuint(num_devices, ==, 2);
  g_assert_cmpint(devices[0].device_type, ==, BP_DEVICE_OPENCL);
  g_assert_cmpint(devices[1].device_type, ==, BP_DEVICE_CPU);
  float *y = run_model(model, x, &count);
  for (size_t i = 0; i < G_N_ELEMENTS(x); i++)
    g_assert_cmpfloat(y[i], ==, x[i] * x[i]);
  g_free(y);
  bp_target_release(target);
  bp_target_release(fallback);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* Options of the first version end before `fallback`; members beyond are not read. */
static void test_members_that_an_older_program_lacks_count_as_0(void) {
  BpCompileOptions options = with_shape();
  options.struct_size = offsetof(BpCompileOptions, fallback);
  options.fallback = (const BpTarget *)(const void *)&options;
  options.is_reference = -1;
  assert_negates_on_cpu(bp_model_load_for(onnx, "cpu", &options, NULL));
}

static void assert_fails(const char *path, const char *preferences, const BpCompileOptions *options,
                         const char *kind, const char *text) {
  char *report = onnx;
  g_assert_null(bp_model_load_for(path, preferences, options, &report));
  g_assert_null(report);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), text))
    g_error("\"%s\" has not \"%s\"", bp_error_message(), text);
  bp_error_clear();
}

static void test_errors(void) {
  const BpInputShape flat = {"x", extents, 1};
  BpCompileOptions options = with_shape(), unsized = with_shape(), flattened = with_shape();
  unsized.struct_size = 0;
  flattened.shapes = &flat;
  assert_fails(NULL, NULL, NULL, BP_ERROR_VALUE, "'path' is NULL");
  assert_fails(onnx, "cpu", &flattened, BP_ERROR_VALUE, "has 2 dimensions, and 1 were given");
  assert_fails(onnx, "opencl:99,cpu", &flattened, BP_ERROR_VALUE, "and 1 were given");
  assert_fails(onnx, "cpu", &unsized, BP_ERROR_VALUE, "set it to sizeof(BpCompileOptions)");
  assert_fails(onnx, "cpu:99", &options, BP_ERROR_NOT_FOUND, "cpu:99");
  assert_fails(library, "opencl", NULL, BP_ERROR_NOT_FOUND, "the code is for (cpu)");
  assert_fails("/proc/nonexistent/m.ONNX", "cpu", NULL, BP_ERROR_IO, "/proc/nonexistent/m.ONNX");
  assert_fails("/proc/nonexistent/m.so", "cpu", NULL, BP_ERROR_IO, "/proc/nonexistent/m.so");
}

/* ---- Memory ------------------------------------------------------------------------------ */

#define INNER        2048
#define WEIGHTS_SIZE ((size_t)INNER * 4096 * sizeof(float))

/* Returns the bytes of this process that are not shared with other processes or files. */
static size_t own_bytes(void) {
  char *status = NULL;
  g_assert_true(g_file_get_contents("/proc/self/status", &status, NULL, NULL));
  const char *line = strstr(status, "RssAnon:");
  size_t kibibytes = line ? (size_t)g_ascii_strtoull(line + strlen("RssAnon:"), NULL, 10) : 0;
  g_free(status);
  g_assert_cmpuint(kibibytes, >, 0);
  return kibibytes * 1024;
}

/* A library that consists mostly of weights: a product, with an extent that is open or 1. */
static char *weights_library(const char *rows) {
  OnnxBuilder *builder = onnx_builder_new();
  char *x = g_strdup_printf("%sx2048", rows);
  onnx_input(builder, "x", ONNX_FLOAT, x);
  onnx_floats(builder, "w", "2048x4096");
  onnx_node(builder, "MatMul", "x,w", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), *file = g_strconcat(path, ".so", NULL);
  BpTarget *target = bp_target_parse("c");
  BpModule *module = compile_for(path, target);
  if (!module || bp_module_export_library(module, file) < 0)
    g_error("%s", bp_error_message());
  bp_module_release(module);
  bp_target_release(target);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  unlink(path);
  g_free(path);
  g_free(x);
  return file;
}

/* The sum of the outputs of a run with ones. */
static double run_ones(BpModel *model) {
  float x[INNER];
  double sum = 0;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  BpTensorView view = {.data = x,
                       .device = {BP_DEVICE_CPU, 0},
                       .ndim = 2,
                       .dtype = {BP_DTYPE_FLOAT, 32, 1},
                       .shape = (int64_t[]){1, INNER}};
  for (int i = 0; i < INNER; i++)
    x[i] = 1;
  if (!context || bp_model_set_input(context, "x", &view) || bp_model_run(context))
    g_error("%s", bp_error_message());
  const BpTensorView *y = &bp_model_get_output(context, 0)->view;
  for (int64_t i = 0; i < bp_view_num_elements(y); i++)
    sum += ((const float *)y->data)[i];
  bp_model_context_free(context);
  return sum;
}

/* The weights in memory are pages of the library's file, which processes share. */
static void test_mapping(gconstpointer rows) {
  char *file = weights_library(rows);
  BpModel *first = bp_model_load_for(file, "cpu", NULL, NULL); /* loads the libraries, which stay */
  double expected = run_ones(first);
  bp_model_release(first);
  malloc_trim(0);
  size_t before = own_bytes();
  BpModel *model = bp_model_load_for(file, "cpu", NULL, NULL);
  g_assert_cmpfloat(run_ones(model), ==, expected);
  size_t after = own_bytes();
  g_assert_cmpuint(after > before ? after - before : 0, <, WEIGHTS_SIZE / 10);
  bp_model_release(model);
  unlink(file);
  g_free(file);
}

/* Runs the model with equal numbers; the output (transfer full) outlives the context and, since the
 * model is freed, the model. */
static BpTensor *take_output(BpModel *model, float number) {
  float x[] = {number, number, number, number, number, number};
  const BpTensorView view = {
      x, {BP_DEVICE_CPU, 0}, 2, {BP_DTYPE_FLOAT, 32, 1}, (int64_t *)extents, NULL, 0};
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context || bp_model_set_input(context, "x", &view) || bp_model_run(context))
    g_error("%s", bp_error_message());
  BpTensor *output = bp_object_retain(bp_model_get_output(context, 0));
  bp_model_context_free(context);
  bp_model_release(model);
  return output;
}

static void test_outputs_outlive_their_context(void) {
  BpCompileOptions options = with_shape();
  const BpCompileOptions *const each[] = {&options, NULL}; /* NULL: an open extent */
  for (size_t i = 0; i < G_N_ELEMENTS(each); i++) {
    BpTensor *first = take_output(bp_model_load_for(onnx, "cpu", each[i], NULL), 1);
    BpTensor *second = take_output(bp_model_load_for(onnx, "cpu", each[i], NULL), 2);
    for (int k = 0; k < 6; k++) {
      g_assert_cmpfloat(((const float *)first->view.data)[k], ==, -1);
      g_assert_cmpfloat(((const float *)second->view.data)[k], ==, -2);
    }
    bp_tensor_release(first);
    bp_tensor_release(second);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  make_files();
#define ADD(name, function) g_test_add_func("/load/" name, function)
  ADD("file-is-compiled-for-the-device-of-the-list",
      test_file_is_compiled_for_the_device_of_the_list);
  ADD("file-is-compiled-for-the-targets-that-are-given",
      test_file_is_compiled_for_the_targets_that_are_given);
  ADD("library-chooses-among-the-devices-that-it-has-code-for",
      test_library_chooses_among_the_devices_that_it_has_code_for);
  ADD("fallback-runs-on-the-second-device-of-the-list",
      test_fallback_runs_on_the_second_device_of_the_list);
  ADD("members-that-an-older-program-lacks-count-as-0",
      test_members_that_an_older_program_lacks_count_as_0);
  ADD("errors-name-the-cause-and-leave-no-report", test_errors);
  ADD("outputs-outlive-their-context", test_outputs_outlive_their_context);
  g_test_add_data_func("/load/parameters-stay-in-the-file-of-the-library/graph", "1", test_mapping);
  g_test_add_data_func("/load/parameters-stay-in-the-file-of-the-library/program", "n",
                       test_mapping);
  int status = g_test_run();
  unlink(onnx);
  unlink(library);
  g_free(onnx);
  g_free(library);
  return status;
}
