/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that queue on a stream of the caller's: runs in a row, with no wait between them. The
 * tensors are large, so that a device would still be at work if a run did not wait in its stream.
 */
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/compile_check.h"

enum { ROWS = 16, COLUMNS = 1 << 16, COUNT = ROWS * COLUMNS, CONTEXTS = 6 };

/* Where a model runs. */
typedef struct Place {
  const char *target, *fallback;
  const char *rows; /* "16" or an open extent */
  int is_specialized;
} Place;

static void assert_ok(int status) {
  if (status)
    g_error("%s: %s", bp_error_kind(), bp_error_message());
}

static void assert_raises(int status, const char *kind, const char *words) {
  g_assert_cmpint(status, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  g_assert_nonnull(strstr(bp_error_message(), words));
  bp_error_clear();
}

/* y = 2 x + 1, of which a part is in double precision, which the fallback computes. */
static char *model_file(const Place *place) {
  const int64_t one_extent = 1;
  const double one = 1;
  g_autofree char *shape = g_strdup_printf("%sx%d", place->rows, COLUMNS);
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, shape);
  onnx_node(builder, "Add", "x,x", "a", "");
  if (place->fallback) {
    onnx_data(builder, "one", ONNX_DOUBLE, &one_extent, 1, &one, sizeof one);
    onnx_node(builder, "Cast", "a", "b", "to=11");
    onnx_node(builder, "Add", "b,one", "c", "");
    onnx_node(builder, "Cast", "c", "y", "to=1");
  } else {
    const float single = 1;
    onnx_data(builder, "one", ONNX_FLOAT, &one_extent, 1, &single, sizeof single);
    onnx_node(builder, "Add", "a,one", "y", "");
  }
  onnx_output(builder, "y");
  return onnx_save(builder);
}

static BpTarget *parse(const char *text) {
  BpTarget *target = text ? bp_target_parse(text) : NULL;
  if (text && !target)
    g_error("%s", bp_error_message());
  return target;
}

/* Compiles the model of a place; NULL and a skip if a device is missing. */
static BpModel *make_model(const Place *place) {
  BpTarget *target = parse(place->target), *fallback = parse(place->fallback);
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {
      .struct_size = sizeof options, .targets = targets, .num_targets = 1, .fallback = fallback};
  const BpDevice devices[] = {{bp_target_device_type(target), 0},
                              {fallback ? bp_target_device_type(fallback) : 0, 0}};
  g_autofree char *path = model_file(place);
  const int64_t shape[] = {ROWS, COLUMNS};
  const BpInputShape known = {"x", shape, 2};
  const BpCompileOptions special = {
      .struct_size = sizeof special, .shapes = &known, .num_shapes = 1, .shape_size = sizeof known};
  BpModel *model = NULL;
  if (has_device(devices[0].device_type) && (!fallback || has_device(devices[1].device_type))) {
    BpModule *module = bp_model_compile(path, &options);
    model = module ? bp_model_create(module, devices, fallback ? 2 : 1) : NULL;
    if (!model)
      g_error("%s", bp_error_message());
    if (place->is_specialized)
      assert_ok(bp_model_specialize(model, path, &special));
    bp_object_release(module);
  } else {
    g_test_skip("there is no such device");
  }
  unlink(path);
  bp_target_release(target);
  bp_target_release(fallback);
  return model;
}

/* Queues `count` contexts on a stream, of which each reads the output of the one before. The first
 * one reads x; the last one's output is copied to y. */
static void queue_in_a_row(BpModelContext **contexts, int count, void *stream, const float *x,
                           float *y) {
  const int64_t shape[] = {ROWS, COLUMNS};
  const BpDataType dtype = {BP_DTYPE_FLOAT, 32, 1};
  const BpTensorView from = {.data = (void *)(uintptr_t)x,
                             .device = {BP_DEVICE_CPU, 0},
                             .ndim = 2,
                             .dtype = dtype,
                             .shape = (int64_t *)(uintptr_t)shape};
  BpTensorView to = from;
  BpTensor *output = NULL;
  to.data = y;
  for (int i = 0; i < count; i++) {
    assert_ok(bp_model_set_stream(contexts[i], stream));
    assert_ok(output ? bp_model_bind_input(contexts[i], "x", output)
                     : bp_model_set_input(contexts[i], "x", &from));
    assert_ok(bp_model_run(contexts[i]));
    output = bp_model_get_queued_output(contexts[i], 0);
    g_assert_nonnull(output);
  }
  assert_ok(bp_tensor_copy(&output->view, &to, stream));
}

static void assert_output(const float *x, const float *y, int count) {
  const float factor = (float)(1 << count);
  for (int i = 0; i < COUNT; i++)
    if (y[i] != factor * x[i] + factor - 1)
      g_error("element %d after %d contexts: %g of %g", i, count, (double)y[i], (double)x[i]);
}

/* On two streams: contexts go from one to the other while the first one is at work. */
static void test_runs_in_a_row(gconstpointer data) {
  BpModel *model = make_model(data);
  if (!model)
    return;
  size_t num_devices;
  BpDevice device = bp_model_devices(model, &num_devices)[0];
  void *streams[2];
  BpModelContext *contexts[CONTEXTS];
  float *x[2], *y[2];
  for (int i = 0; i < 2; i++) {
    assert_ok(bp_stream_create(device, &streams[i]));
    x[i] = g_new(float, COUNT);
    y[i] = g_new(float, COUNT);
  }
  for (int i = 0; i < CONTEXTS; i++)
    contexts[i] = bp_model_context_create(model);
  for (int turn = 0; turn < 3; turn++) {
    for (int i = 0; i < COUNT; i++) {
      x[0][i] = (float)((i + turn) % 1000);
      x[1][i] = (float)((i + turn + 10) % 1000);
    }
    for (int i = 0; i < 2; i++)
      queue_in_a_row(contexts, CONTEXTS - i, streams[i], x[i], y[i]);
    for (int i = 0; i < 2; i++)
      assert_ok(bp_stream_sync(device, streams[i]));
    for (int i = 0; i < 2; i++)
      assert_output(x[i], y[i], CONTEXTS - i);
  }
  /* The context's own wait is for the stream, too. */
  queue_in_a_row(contexts, 1, streams[0], x[0], y[0]);
  BpTensor *output = bp_model_get_output(contexts[0], 0);
  g_assert_nonnull(output);
  assert_ok(bp_tensor_copy_to_host(&output->view, y[1], COUNT * sizeof(float)));
  assert_output(x[0], y[1], 1);
  for (int i = 0; i < CONTEXTS; i++)
    bp_model_context_free(contexts[i]);
  for (int i = 0; i < 2; i++) {
    assert_ok(bp_stream_free(device, streams[i]));
    g_free(x[i]);
    g_free(y[i]);
  }
  bp_model_release(model);
}

static void test_wrong_streams_are_errors(gconstpointer data) {
  BpModel *model = make_model(data);
  if (!model)
    return;
  int nothing;
  BpModelContext *context = bp_model_context_create(model);
  assert_raises(bp_model_set_stream(NULL, NULL), BP_ERROR_VALUE, "context");
  assert_raises(bp_model_set_stream(context, &nothing), BP_ERROR_VALUE, "is not a stream of");
  assert_raises(bp_model_get_queued_output(context, 0) ? 0 : -1, BP_ERROR_VALUE, "not been run");
  assert_raises(bp_model_get_queued_output(context, 1) ? 0 : -1, BP_ERROR_INDEX, "output 1");
  assert_ok(bp_model_set_stream(context, NULL));
  bp_model_context_free(context);
  bp_model_release(model);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    Place place;
  } places[] = {
      {"cpu", {"llvm", NULL, "16", 0}},
      {"opencl", {"opencl", NULL, "16", 0}},
      {"opencl-open", {"opencl", NULL, "n", 0}},
      {"opencl-specialized", {"opencl", NULL, "n", 1}},
      {"opencl-beside-the-host", {"opencl -fp64=false", "c", "16", 0}},
      {"vulkan-beside-opencl", {"vulkan", "opencl", "16", 0}},
      {"vulkan", {"vulkan", NULL, "16", 0}},
      {"vulkan-open", {"vulkan", NULL, "n", 0}},
  };
  g_test_init(&argc, &argv, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
    const struct {
      const char *name;
      GTestDataFunc test;
    } tests[] = {{"runs-in-a-row-are-queued", test_runs_in_a_row},
                 {"wrong-streams-are-errors", test_wrong_streams_are_errors}};
    for (size_t k = 0; k < G_N_ELEMENTS(tests); k++) {
      g_autofree char *path = g_strdup_printf("/streams/%s/%s", tests[k].name, places[i].name);
      g_test_add_data_func(path, &places[i].place, tests[k].test);
    }
  }
  return g_test_run();
}
