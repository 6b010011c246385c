/* SPDX-License-Identifier: Apache-2.0 */
/* Several fallbacks: a node runs by the code of the first target of the chain that takes it, in
 * models whose shapes are known and in those with an open extent. */
#include <math.h>
#include <unistd.h>

#include "tests/graph/onnx_builder.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>
#include <glib.h>

#define COUNT 15

/* tanh((exp(x) * w)^2), the square in float64. */
static char *write_model(const char *shape) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, shape);
  onnx_floats(builder, "w", "5");
  onnx_node(builder, "Exp", "x", "e", "");
  onnx_node(builder, "Mul", "e,w", "f", "");
  onnx_node(builder, "Cast", "f", "d", "to=11");
  onnx_node(builder, "Mul", "d,d", "s", "");
  onnx_node(builder, "Cast", "s", "g", "to=1");
  onnx_node(builder, "Tanh", "g", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return path;
}

/* How often each target of the chain refused a node. */
typedef struct Refused {
  char *targets[2];
  int counts[2];
} Refused;

static int note_refused(void *context, const char *node, const char *target, const char *why) {
  Refused *refused = context;
  g_assert_nonnull(strstr(why, "fp64"));
  g_assert_true(*node != '\0');
  for (int i = 0; i < 2; i++)
    refused->counts[i] += g_strcmp0(target, refused->targets[i]) == 0;
  return 0;
}

static BpModule *compile(const char *path, const char *const texts[3], Refused *refused) {
  BpTarget *chain[3];
  for (int i = 0; i < 3; i++)
    g_assert_nonnull(chain[i] = bp_target_parse(texts[i]));
  for (int i = 0; i < 2; i++)
    refused->targets[i] = bp_target_format(chain[i]);
  const BpTarget *const *targets = (const BpTarget *const *)chain;
  const BpCompileOptions options = {.struct_size = sizeof options,
                                    .targets = targets,
                                    .num_targets = 1,
                                    .placed = note_refused,
                                    .placed_context = refused,
                                    .fallbacks = targets + 1,
                                    .num_fallbacks = 2};
  BpModule *module = bp_model_compile(path, &options);
  if (!module)
    g_error("%s", bp_error_message());
  for (int i = 0; i < 3; i++)
    bp_target_release(chain[i]);
  for (int i = 0; i < 2; i++)
    bp_str_free(refused->targets[i]);
  return module;
}

static void run(BpModel *model) {
  const int64_t shape[] = {3, 5};
  g_autofree float *x = onnx_float_values(COUNT), *w = onnx_float_values(5);
  float y[COUNT];
  const BpTensorView view = {.data = x,
                             .device = {BP_DEVICE_CPU, 0},
                             .ndim = 2,
                             .dtype = {BP_DTYPE_FLOAT, 32, 1},
                             .shape = (int64_t *)(uintptr_t)shape};
  BpModelContext *context = bp_model_context_create(model);
  g_assert_nonnull(context);
  for (int round = 0; round < 3; round++) {
    if (bp_model_set_input(context, "x", &view) || bp_model_run(context))
      g_error("%s", bp_error_message());
    BpTensor *output = bp_model_get_output(context, 0);
    g_assert_nonnull(output);
    g_assert_cmpint(bp_tensor_copy_to_host(&output->view, y, sizeof y), ==, 0);
    for (int i = 0; i < COUNT; i++) {
      double product = exp((double)x[i]) * (double)w[i % 5];
      g_assert_cmpfloat_with_epsilon((double)y[i], tanh(product * product), 1e-5);
    }
  }
  bp_model_context_free(context);
}

/* Runs the model on the devices that a list of preferences selects, and checks which devices it
 * uses. */
static void run_on(BpModule *module, const char *list, const BpDevice *wanted, size_t num_wanted) {
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  size_t count, num_used;
  if (bp_model_select_devices(module, list, devices, BP_MODEL_MAX_DEVICES, &count, NULL) < 0)
    g_error("%s", bp_error_message());
  BpModel *model = bp_model_create(module, devices, count);
  if (!model)
    g_error("%s", bp_error_message());
  const BpDevice *used = bp_model_devices(model, &num_used);
  g_assert_cmpmem(used, num_used * sizeof *used, wanted, num_wanted * sizeof *wanted);
  run(model);
  bp_model_release(model);
}

static void test_node_goes_to_the_first_that_takes_it(gconstpointer shape) {
  static const char *const chain[] = {"opencl -fp64=false",
                                      "opencl -fp64=false -thread_warp_size=8", "c"};
  g_autofree char *path = write_model(shape);
  Refused refused = {{NULL, NULL}, {0, 0}};
  BpModule *module = compile(path, chain, &refused);
  g_assert_cmpint(refused.counts[0], >, 0);
  g_assert_cmpint(refused.counts[1], ==, refused.counts[0]);
  const BpDevice wanted[] = {{BP_DEVICE_OPENCL, 0}, {BP_DEVICE_CPU, 0}};
  run_on(module, "opencl:0,cpu", wanted, *(const char *)shape == 'n' ? 1 : 2);
  bp_module_release(module);
  unlink(path);
}

static void test_two_targets_of_a_kind_run_on_two_devices(gconstpointer shape) {
  static const char *const chain[] = {"opencl -fp64=false", "opencl", "c"};
  g_autofree char *path = write_model(shape);
  Refused refused = {{NULL, NULL}, {0, 0}};
  BpModule *module = compile(path, chain, &refused);
  g_assert_cmpint(refused.counts[0], >, 0);
  g_assert_cmpint(refused.counts[1], ==, 0);
  const BpDevice wanted[] = {{BP_DEVICE_OPENCL, 1}, {BP_DEVICE_OPENCL, 0}};
  run_on(module, "opencl:1,opencl:0", wanted, 2);
  g_assert_null(bp_model_create(module, wanted, 1));
  g_assert_nonnull(strstr(bp_error_message(), "2 devices of kind opencl"));
  g_assert_nonnull(strstr(bp_error_message(), "\"opencl:0,opencl:1\""));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  const BpDevice again[] = {wanted[0], wanted[0]};
  g_assert_null(bp_model_create(module, again, 2));
  bp_error_clear();
  bp_module_release(module);
  unlink(path);
}

/* x^2, in float64, and the sum of the squared extents, in int8; the one that is named comes first.
 * Of a known shape the sum is a constant. */
static char *write_sized_model(const char *first) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "nx5");
  for (int i = 0; i < 2; i++)
    if (!strcmp(first, "float64") == (i == 0)) {
      onnx_node(builder, "Cast", "x", "d", "to=11");
      onnx_node(builder, "Mul", "d,d", "product", "");
      onnx_node(builder, "Cast", "product", "s", "to=1");
    } else {
      onnx_node(builder, "Shape", "x", "shape", "");
      onnx_node(builder, "Cast", "shape", "narrow", "to=3");
      onnx_node(builder, "Mul", "narrow,narrow", "squares", "");
      onnx_node(builder, "Cast", "squares", "wide", "to=1");
      onnx_node(builder, "ReduceSum", "wide", "sum", "keepdims=0");
    }
  onnx_node(builder, "Add", "s,sum", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Runs a model, of vulkan:0, opencl:0 and opencl:1, for 3 rows. */
static void run_sized(BpModel *model) {
  const int64_t extents[] = {3, 5};
  g_autofree float *x = onnx_float_values(COUNT);
  const BpTensorView view = {.data = x,
                             .device = {BP_DEVICE_CPU, 0},
                             .ndim = 2,
                             .dtype = {BP_DTYPE_FLOAT, 32, 1},
                             .shape = (int64_t *)(uintptr_t)extents};
  float y[COUNT];
  BpModelContext *context = bp_model_context_create(model);
  if (!context || bp_model_set_input(context, "x", &view) || bp_model_run(context))
    g_error("%s", bp_error_message());
  BpTensor *output = bp_model_get_output(context, 0);
  g_assert_nonnull(output);
  g_assert_cmpint(bp_tensor_copy_to_host(&output->view, y, sizeof y), ==, 0);
  for (int i = 0; i < COUNT; i++)
    g_assert_cmpfloat_with_epsilon((double)y[i], (double)x[i] * (double)x[i] + 34, 1e-4);
  bp_model_context_free(context);
}

static void run_specialised(const char *path) {
  static const char *const texts[] = {"vulkan -supports_int8=false -supports_float64=false",
                                      "opencl -fp64=false", "opencl"};
  const BpDevice devices[] = {{BP_DEVICE_VULKAN, 0}, {BP_DEVICE_OPENCL, 0}, {BP_DEVICE_OPENCL, 1}};
  const BpInputShape shape = {"x", (const int64_t[]){3, 5}, 2};
  BpTarget *chain[3];
  for (int i = 0; i < 3; i++)
    g_assert_nonnull(chain[i] = bp_target_parse(texts[i]));
  const BpTarget *const *targets = (const BpTarget *const *)chain;
  BpCompileOptions options = {.struct_size = sizeof options,
                              .targets = targets,
                              .num_targets = 1,
                              .fallbacks = targets + 1,
                              .num_fallbacks = 2};
  BpModule *module = bp_model_compile(path, &options);
  BpModel *model = module ? bp_model_create(module, devices, 3) : NULL;
  size_t num_used;
  const BpDevice *used = model ? bp_model_devices(model, &num_used) : NULL;
  if (!used)
    g_error("%s", bp_error_message());
  for (size_t i = 0; i < num_used; i++)
    g_printerr("U %d:%d\n", used[i].device_type, used[i].device_id);
  g_assert_cmpmem(used, num_used * sizeof *used, devices, sizeof devices);
  options.shapes = &shape;
  options.num_shapes = 1;
  options.shape_size = sizeof shape;
  if (!model || bp_model_specialize(model, path, &options) < 0)
    g_error("%s", bp_error_message());
  run_sized(model);
  bp_model_release(model);
  bp_module_release(module);
  for (int i = 0; i < 3; i++)
    bp_target_release(chain[i]);
}

/* How many launches a trace has on an OpenCL device. */
static int count_launches(const char *trace, int device) {
  g_autofree char *wanted = g_strdup_printf("{\"kind\":\"opencl\",\"device\":%d", device);
  g_auto(GStrv) lines = g_strsplit(trace, "\n", -1);
  int count = 0;
  for (char **line = lines; *line; line++)
    count += strstr(*line, "\"cat\":\"launch\"") && strstr(*line, wanted);
  return count;
}

/* The specialised code uses one OpenCL target less than the general code. */
static void test_specialised_code_keeps_the_devices_of_its_fallbacks(gconstpointer first) {
  if (g_test_subprocess()) {
    run_specialised(g_getenv("BP_TEST_MODEL"));
    return;
  }
  g_autofree char *path = write_sized_model(first), *trace = g_strdup_printf("%s.trace", path);
  g_autofree char *text = NULL;
  g_setenv("BP_TEST_MODEL", path, TRUE);
  g_setenv("BACKPLANE_LAYERS", "trace:opencl", TRUE);
  g_setenv("BACKPLANE_TRACE_FILE", trace, TRUE);
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed();
  g_unsetenv("BACKPLANE_LAYERS");
  g_assert_true(g_file_get_contents(trace, &text, NULL, NULL));
  g_assert_cmpint(count_launches(text, 0), ==, 0);
  g_assert_cmpint(count_launches(text, 1), >, 0);
  unlink(trace);
  unlink(path);
}

static void test_wrong_fallbacks_are_refused(void) {
  g_autofree char *path = write_model("3x5");
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[] = {target, NULL};
  BpCompileOptions options = {.struct_size = sizeof options,
                              .targets = targets,
                              .num_targets = 1,
                              .fallback = target,
                              .fallbacks = targets,
                              .num_fallbacks = 1};
  g_assert_null(bp_model_compile(path, &options));
  g_assert_nonnull(strstr(bp_error_message(), "fallback and fallbacks are both set"));
  options.fallback = NULL;
  options.num_fallbacks = 2;
  g_assert_null(bp_model_compile(path, &options));
  g_assert_nonnull(strstr(bp_error_message(), "fallback 1 of 2 is NULL"));
  options.num_fallbacks = BP_MODEL_MAX_DEVICES;
  g_assert_null(bp_model_compile(path, &options));
  g_assert_nonnull(strstr(bp_error_message(), "at most 7 are possible"));
  bp_error_clear();
  bp_target_release(target);
  unlink(path);
}

static void test_specialising_refuses_wrong_fallbacks(void) {
  g_autofree char *path = write_model("nx5");
  const int64_t extents[] = {3, 5};
  const BpInputShape shape = {"x", extents, 2};
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[BP_MODEL_MAX_DEVICES] = {target};
  BpCompileOptions options = {.struct_size = sizeof options, .targets = targets, .num_targets = 1};
  BpModule *module = bp_model_compile(path, &options);
  const BpDevice cpu = {BP_DEVICE_CPU, 0};
  BpModel *model = module ? bp_model_create(module, &cpu, 1) : NULL;
  if (!model)
    g_error("%s", bp_error_message());
  options.shapes = &shape;
  options.num_shapes = 1;
  options.shape_size = sizeof shape;
  options.fallbacks = targets;
  options.num_fallbacks = 2;
  g_assert_cmpint(bp_model_specialize(model, path, &options), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "fallback 1 of 2 is NULL"));
  for (int i = 0; i < BP_MODEL_MAX_DEVICES; i++)
    targets[i] = target;
  options.num_fallbacks = BP_MODEL_MAX_DEVICES;
  g_assert_cmpint(bp_model_specialize(model, path, &options), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "at most 7 are possible"));
  bp_error_clear();
  bp_model_release(model);
  bp_module_release(module);
  bp_target_release(target);
  unlink(path);
}

int main(int argc, char **argv) {
  int32_t count = 0, others = 0;
  /* Two devices of one kind. Of PoCL's drivers "pthread" bears threads; "basic" locks up. */
  g_setenv("POCL_DEVICES", "pthread pthread", FALSE);
  g_test_init(&argc, &argv, NULL);
  if (bp_device_count(BP_DEVICE_OPENCL, &count, NULL) ||
      bp_device_count(BP_DEVICE_VULKAN, &others, NULL))
    bp_error_clear();
  g_test_add_func("/chain/wrong-fallbacks-are-refused", test_wrong_fallbacks_are_refused);
  g_test_add_func("/chain/specialising-refuses-wrong-fallbacks",
                  test_specialising_refuses_wrong_fallbacks);
  if (count >= 2 && others >= 1) {
    g_test_add_data_func("/chain/specialised-code-keeps-the-devices-of-its-fallbacks/int8", "int8",
                         test_specialised_code_keeps_the_devices_of_its_fallbacks);
    g_test_add_data_func("/chain/specialised-code-keeps-the-devices-of-its-fallbacks/float64",
                         "float64", test_specialised_code_keeps_the_devices_of_its_fallbacks);
  }
  if (count >= 2) {
    g_test_add_data_func("/chain/node-goes-to-the-first-that-takes-it/known", "3x5",
                         test_node_goes_to_the_first_that_takes_it);
    g_test_add_data_func("/chain/node-goes-to-the-first-that-takes-it/open", "nx5",
                         test_node_goes_to_the_first_that_takes_it);
    g_test_add_data_func("/chain/two-targets-of-a-kind-run-on-two-devices/known", "3x5",
                         test_two_targets_of_a_kind_run_on_two_devices);
    g_test_add_data_func("/chain/two-targets-of-a-kind-run-on-two-devices/open", "nx5",
                         test_two_targets_of_a_kind_run_on_two_devices);
  }
  return g_test_run();
}
