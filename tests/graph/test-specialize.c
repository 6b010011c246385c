/* SPDX-License-Identifier: Apache-2.0 */
/* Models with open extents that get specialised code for the extents of a run. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/compile_check.h"

#define WIDTH 24

static const BpDevice cpu = {BP_DEVICE_CPU, 0};

/* The input and the output have equal shapes, so that an output can become the input. */
static char *product_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsx24");
  onnx_floats(builder, "w", "24x48");
  onnx_floats(builder, "v", "48x24");
  onnx_node(builder, "MatMul", "x,w", "product", "");
  onnx_node(builder, "Tanh", "product", "t", "");
  onnx_node(builder, "MatMul", "t,v", "again", "");
  onnx_node(builder, "Sub", "again,x", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* An extent that depends on data stays open in the specialised code. */
static char *picked_file(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsx24");
  onnx_floats(builder, "w", "24x24");
  onnx_ints(builder, "flat", "-1,");
  onnx_node(builder, "MatMul", "x,w", "product", "");
  onnx_node(builder, "Reshape", "product,flat", "row", "");
  onnx_node(builder, "NonZero", "row", "places", "");
  onnx_node(builder, "Cast", "places", "numbers", "to=1");
  onnx_node(builder, "Sub", "row,numbers", "y", "");
  onnx_output(builder, "y");
  return onnx_save(builder);
}

/* Random numbers from -1 to 1. */
static BpTensor *numbers_on(BpDevice device, int64_t rows, int64_t seed) {
  int64_t shape[] = {rows, WIDTH};
  float *data = g_new(float, (gsize)(rows * WIDTH) + 1);
  for (int64_t i = 0; i < rows * WIDTH; i++)
    data[i] = (float)((i * 37 + seed) % 101) / 50.0F - 1.0F;
  BpTensor *tensor = bp_tensor_create(shape, 2, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, device, NULL);
  g_assert_nonnull(tensor);
  g_assert_cmpint(
      bp_tensor_copy_from_host(&tensor->view, data, (uint64_t)bp_view_num_bytes(&tensor->view)), ==,
      0);
  g_free(data);
  return tensor;
}

static BpTensor *numbers(int64_t rows, int64_t seed) {
  return numbers_on(cpu, rows, seed);
}

static BpModel *load(const char *path, const char *device) {
  BpModel *model = bp_model_load_for(path, device, NULL, NULL);
  if (!model)
    g_error("%s", bp_error_message());
  return model;
}

static int specialize(BpModel *model, const char *path, int64_t rows) {
  BpInputShape shape = {"x", (const int64_t[]){rows, WIDTH}, 2};
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .shapes = &shape,
                              .num_shapes = 1,
                              .shape_size = sizeof(shape)};
  return bp_model_specialize(model, path, &options);
}

static void must_specialize(BpModel *model, const char *path, int64_t rows) {
  if (specialize(model, path, rows) < 0)
    g_error("%s", bp_error_message());
}

/* The sums over all specialised codes that the visitor collects. */
typedef struct Seen {
  int count;
  uint64_t runs, parameters, shared;
  int64_t rows[BP_MODEL_MAX_SPECIALIZED];
} Seen;

static int see(void *visitor, const BpSpecializedModel *specialized) {
  Seen *seen = visitor;
  g_assert_cmpint(specialized->num_inputs, ==, 1);
  seen->rows[seen->count++] = specialized->inputs[0].shape[0];
  seen->runs += specialized->runs;
  seen->parameters += specialized->parameter_bytes;
  seen->shared += specialized->shared_bytes;
  return 0;
}

static Seen look(const BpModel *model) {
  Seen seen = {0};
  g_assert_cmpint(bp_model_visit_specialized(model, see, &seen), ==, 0);
  return seen;
}

static void assert_alike(const BpTensor *got, const BpTensor *expected) {
  if (!got || !expected)
    g_error("%s", bp_error_message());
  g_assert_cmpint(bp_view_num_elements(&got->view), ==, bp_view_num_elements(&expected->view));
  size_t size = (size_t)bp_view_num_bytes(&got->view);
  float *a = g_malloc(size + 1), *b = g_malloc(size + 1);
  g_assert_cmpint(bp_tensor_copy_to_host(&got->view, a, size), ==, 0);
  g_assert_cmpint(bp_tensor_copy_to_host(&expected->view, b, size), ==, 0);
  for (size_t i = 0; i < size / sizeof(float); i++)
    g_assert_cmpfloat_with_epsilon(a[i], b[i], 1e-4F);
  g_free(a);
  g_free(b);
}

static BpTensor *run(BpModelContext *context, const BpTensor *value) {
  if (bp_model_set_input(context, "x", &value->view) || bp_model_run(context))
    return NULL;
  return bp_model_get_output(context, 0);
}

/* Two contexts of models of one file; the first model is specialised. */
typedef struct Pair {
  char *path;
  BpModel *model, *general;
  BpModelContext *context, *reference;
} Pair;

static Pair open_pair(char *path, const char *device) {
  Pair pair = {.path = path, .model = load(path, device), .general = load(path, device)};
  pair.context = bp_model_context_create(pair.model);
  pair.reference = bp_model_context_create(pair.general);
  g_assert_nonnull(pair.context);
  g_assert_nonnull(pair.reference);
  return pair;
}

static void close_pair(Pair *pair) {
  bp_model_context_free(pair->context);
  bp_model_context_free(pair->reference);
  bp_model_release(pair->model);
  bp_model_release(pair->general);
  unlink(pair->path);
  g_free(pair->path);
}

static void assert_equal_runs(Pair *pair, int64_t rows, int64_t seed) {
  BpTensor *x = numbers(rows, seed);
  assert_alike(run(pair->context, x), run(pair->reference, x));
  bp_object_release(x);
}

static void check_file(char *path, const char *device) {
  Pair pair = open_pair(path, device);
  assert_equal_runs(&pair, 5, 1);
  must_specialize(pair.model, path, 5);
  must_specialize(pair.model, path, 7);
  g_assert_cmpuint(look(pair.model).runs, ==, 0);
  for (int64_t i = 0; i < 12; i++)
    assert_equal_runs(&pair, (const int64_t[]){5, 6, 7, 5, 5, 12}[i % 6], i);
  Seen seen = look(pair.model);
  g_assert_cmpint(seen.count, ==, 2);
  g_assert_cmpint(seen.rows[1], ==, 7);
  g_assert_cmpuint(seen.runs, ==, 8);
  close_pair(&pair);
}

static void test_runs(gconstpointer device) {
  BpDevice parsed;
  g_assert_cmpint(bp_device_parse(device, &parsed), ==, 0);
  if (!has_device(parsed.device_type)) {
    g_test_skip("there is no such device");
    return;
  }
  check_file(product_file(), device);
  check_file(picked_file(), device);
}

static void test_shared(void) {
  Pair pair = open_pair(product_file(), "cpu");
  uint64_t parameters, planned;
  must_specialize(pair.model, pair.path, 5);
  must_specialize(pair.model, pair.path, 9);
  bp_model_memory(pair.model, &parameters, &planned);
  Seen seen = look(pair.model);
  /* Weights that the processor's schedules pack differently for some numbers of rows are not
   * shared. */
  g_assert_cmpuint(seen.shared, >=, parameters);
  g_assert_cmpuint(seen.shared, <=, seen.parameters);
  assert_equal_runs(&pair, 9, 3);
  close_pair(&pair);
}

/* Binds the output of a run as the input of the next run, whose code writes that output. */
static void test_feedback(gconstpointer device) {
  Pair pair = open_pair(product_file(), device);
  BpTensor *x = numbers(5, 1);
  must_specialize(pair.model, pair.path, 5);
  BpTensor *a = run(pair.context, x), *b = run(pair.reference, x);
  for (int i = 0; i < 4; i++) {
    assert_alike(a, b);
    g_assert_cmpint(bp_model_bind_input(pair.context, "x", a), ==, 0);
    g_assert_cmpint(bp_model_bind_input(pair.reference, "x", b), ==, 0);
    g_assert_cmpint(bp_model_run(pair.context), ==, 0);
    g_assert_cmpint(bp_model_run(pair.reference), ==, 0);
    a = bp_model_get_output(pair.context, 0);
    b = bp_model_get_output(pair.reference, 0);
  }
  assert_alike(a, b);
  g_assert_cmpuint(look(pair.model).runs, >=, 1);
  bp_object_release(x);
  close_pair(&pair);
}

static void test_kept(void) {
  Pair pair = open_pair(product_file(), "cpu");
  BpTensor *x = numbers(5, 1);
  must_specialize(pair.model, pair.path, 5);
  BpTensor *kept = bp_object_retain(run(pair.context, x));
  assert_equal_runs(&pair, 5, 7);
  assert_equal_runs(&pair, 6, 2);
  assert_alike(kept, run(pair.reference, x));
  g_assert_cmpuint(look(pair.model).runs, ==, 2);
  bp_object_release(kept);
  bp_object_release(x);
  close_pair(&pair);
}

static void count_release(void *context) {
  ++*(int *)context;
}

static void test_bound(void) {
  Pair pair = open_pair(product_file(), "cpu");
  BpTensor *x = numbers(5, 1), *other = numbers(6, 1);
  int released = 0;
  must_specialize(pair.model, pair.path, 5);
  BpTensor *wrapped = bp_tensor_wrap(&x->view, count_release, &released);
  g_assert_cmpint(bp_model_bind_input(pair.context, "x", wrapped), ==, 0);
  bp_object_release(wrapped);
  g_assert_cmpint(bp_model_run(pair.context), ==, 0);
  assert_alike(bp_model_get_output(pair.context, 0), run(pair.reference, x));
  ((float *)x->view.data)[3] = 0.25F;
  g_assert_cmpint(bp_model_run(pair.context), ==, 0);
  assert_alike(bp_model_get_output(pair.context, 0), run(pair.reference, x));
  g_assert_cmpuint(look(pair.model).runs, ==, 2);
  g_assert_cmpint(released, ==, 0);
  g_assert_cmpint(bp_model_set_input(pair.context, "x", &other->view), ==, 0);
  g_assert_cmpint(released, ==, 1);
  bp_object_release(x);
  bp_object_release(other);
  close_pair(&pair);
}

static void assert_error(int status, const char *kind, const char *words) {
  g_assert_cmpint(status, ==, -1);
  if (!bp_error_is(kind) || !strstr(bp_error_message(), words))
    g_error("%s: %s", bp_error_kind(), bp_error_message());
  bp_error_clear();
}

static void test_bound_on_number(void) {
  Pair pair = open_pair(product_file(), "cpu");
  for (int64_t i = 0; i < BP_MODEL_MAX_SPECIALIZED; i++)
    must_specialize(pair.model, pair.path, i + 1);
  assert_error(specialize(pair.model, pair.path, 40), BP_ERROR_VALUE, "8 shapes already");
  must_specialize(pair.model, pair.path, 3); /* is there */
  g_assert_cmpint(look(pair.model).count, ==, BP_MODEL_MAX_SPECIALIZED);
  assert_equal_runs(&pair, 40, 1);
  assert_equal_runs(&pair, 8, 1);
  g_assert_cmpuint(look(pair.model).runs, ==, 1);
  close_pair(&pair);
}

static void test_errors(void) {
  Pair pair = open_pair(product_file(), "cpu");
  BpInputShape shape = {"x", (const int64_t[]){5, WIDTH + 1}, 2};
  BpCompileOptions options = {.struct_size = sizeof(options), .shape_size = sizeof(shape)};
  assert_error(bp_model_specialize(pair.model, pair.path, &options), BP_ERROR_VALUE,
               "at least one input");
  options.shapes = &shape;
  options.num_shapes = 1;
  assert_error(bp_model_specialize(pair.model, pair.path, &options), BP_ERROR_VALUE,
               "dimension 1 of input 'x' cannot be 25");
  shape = (BpInputShape){"x", (const int64_t[]){5}, 1};
  assert_error(bp_model_specialize(pair.model, pair.path, &options), BP_ERROR_VALUE,
               "2 dimensions");
  shape = (BpInputShape){"z", (const int64_t[]){5, WIDTH}, 2};
  assert_error(bp_model_specialize(pair.model, pair.path, &options), BP_ERROR_VALUE,
               "no input 'z'");
  assert_error(specialize(pair.model, pair.path, -3), BP_ERROR_VALUE, "negative");
  assert_error(specialize(pair.model, "/nowhere.onnx", 5), BP_ERROR_IO, "/nowhere.onnx");
  char *other = picked_file();
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rowsx24");
  onnx_node(builder, "Relu", "x", "z", "");
  onnx_output(builder, "z");
  char *renamed = onnx_save(builder);
  assert_error(specialize(pair.model, renamed, 5), BP_ERROR_VALUE, "not the file");
  g_assert_cmpint(look(pair.model).count, ==, 0);
  assert_equal_runs(&pair, 5, 1);
  unlink(other);
  unlink(renamed);
  g_free(other);
  g_free(renamed);
  close_pair(&pair);
}

static void test_closed(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "5x24");
  onnx_node(builder, "Relu", "x", "y", "");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpModel *model = load(path, "cpu");
  assert_error(specialize(model, path, 5), BP_ERROR_VALUE, "all shapes of the model were known");
  g_assert_cmpint(look(model).count, ==, 0);
  bp_model_release(model);
  unlink(path);
  g_free(path);
}

/* A thread that runs the model while other threads specialise it. */
typedef struct Runner {
  BpModel *model;
  atomic_bool *ends;
  BpTensor *expected[8];
} Runner;

static void *keep_running(void *data) {
  Runner *runner = data;
  BpModelContext *context = bp_model_context_create(runner->model);
  for (int64_t i = 0; !atomic_load(runner->ends) || i < 64; i++) {
    BpTensor *x = numbers(i % 8 + 1, 1);
    assert_alike(run(context, x), runner->expected[i % 8]);
    bp_object_release(x);
  }
  bp_model_context_free(context);
  return NULL;
}

static void test_race(void) {
  Pair pair = open_pair(product_file(), "cpu");
  pthread_t threads[2];
  atomic_bool ends = false;
  Runner runner = {.model = pair.model, .ends = &ends};
  for (int64_t i = 0; i < 8; i++) {
    BpTensor *x = numbers(i + 1, 1);
    BpTensor *y = run(pair.reference, x);
    runner.expected[i] = numbers(i + 1, 1);
    g_assert_cmpint(bp_tensor_copy(&y->view, &runner.expected[i]->view, NULL), ==, 0);
    bp_object_release(x);
  }
  for (int i = 0; i < 2; i++)
    g_assert_cmpint(pthread_create(&threads[i], NULL, keep_running, &runner), ==, 0);
  for (int64_t i = 0; i < 4; i++)
    must_specialize(pair.model, pair.path, i * 2 + 1);
  atomic_store(&ends, true);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  g_assert_cmpuint(look(pair.model).runs, >, 0);
  for (int i = 0; i < 8; i++)
    bp_object_release(runner.expected[i]);
  close_pair(&pair);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/specialize/runs_use_the_code_for_their_extents/cpu", "cpu", test_runs);
  g_test_add_data_func("/specialize/runs_use_the_code_for_their_extents/opencl", "opencl",
                       test_runs);
  g_test_add_func("/specialize/parameters_are_in_memory_once", test_shared);
  g_test_add_data_func("/specialize/an_output_becomes_the_next_input", "cpu", test_feedback);
  g_test_add_func("/specialize/an_output_that_is_kept_stays", test_kept);
  g_test_add_func("/specialize/a_bound_input_is_released_when_it_is_set_again", test_bound);
  g_test_add_func("/specialize/a_model_has_at_most_eight", test_bound_on_number);
  g_test_add_func("/specialize/shapes_and_files_that_do_not_fit_are_errors", test_errors);
  g_test_add_func("/specialize/a_model_of_known_shapes_has_its_code", test_closed);
  g_test_add_func("/specialize/runs_go_on_while_code_is_added", test_race);
  return g_test_run();
}
