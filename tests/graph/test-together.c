/* SPDX-License-Identifier: Apache-2.0 */
/* An application that uses all devices at the same time: threads launch kernels on several streams,
 * copy within and between devices, run a model on two devices and compile another, all
 * concurrently. Code that a first launch builds is built while other threads launch. Run under the
 * thread sanitizer too. */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/compiler/codegen-util.h"
#include "tests/graph/onnx_builder.h"

#include <backplane/graph/model.h>

#define COUNT            64
#define ROUNDS           8
#define THREADS_A_DEVICE 2
#define MOST_PLACES      8

/* A device, and the objects that its threads share. */
typedef struct Place {
  BpDevice device;
  BpFunction *add; /* y = x + n */
  int32_t num_launch;
  BpModel *model; /* y = tanh((x * w) squared), partly on the CPU */
} Place;

static Place places[MOST_PLACES];
static size_t num_places;
static float weights[COUNT];
static char *model_path;
static pthread_barrier_t start;

/* ---- Functions and models ---------------------------------------------------------------- */

static BpFunction *build_add(const char *target, gboolean has_threads) {
  static const char threads[] =
      "(module (function \"add\" n:int32 (buffer X float32 global 64) (buffer Y float32 global 64)"
      " (for b:int64 0 4 bound \"blockIdx.x\" (for t:int64 0 16 bound \"threadIdx.x\""
      " (store Y (add (mul b 16) t) (add (load X (add (mul b 16) t)) (cast float32 n)))))))";
  static const char loop[] =
      "(module (function \"add\" n:int32 (buffer X float32 global 64) (buffer Y float32 global 64)"
      " (for i:int64 0 64 parallel (store Y i (add (load X i) (cast float32 n))))))";
  BpIrModule *module = parse_verified(has_threads ? threads : loop);
  BpModule *built = build_ok(module, target);
  BpFunction *function = NULL;
  assert_ok(bp_module_get_function(built, "add", 1, &function));
  g_assert_nonnull(function);
  bp_object_release(built);
  bp_object_release(module);
  return function;
}

static int count_placed(void *context, const char *node, const char *target, const char *why) {
  g_test_message("%s: %s: %s", target, node, why);
  ++*(int *)context;
  return 0;
}

/* The fallback runs the nodes that the target refuses: there are some, or there are none. */
static BpModule *compile_model(const char *text, const char *fallback) {
  int num_placed = 0;
  BpTarget *other = fallback ? bp_target_parse(fallback) : NULL;
  BpTarget *target = bp_target_parse(text);
  const BpTarget *targets[] = {target};
  assert_ok(target == NULL);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = targets,
                              .num_targets = 1,
                              .fallback = other,
                              .placed = count_placed,
                              .placed_context = &num_placed};
  BpModule *module = bp_model_compile(model_path, &options);
  assert_ok(module == NULL);
  bp_object_release(target);
  g_assert_true(!other || num_placed > 0);
  bp_object_release(other);
  return module;
}

static void write_model(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "64");
  onnx_floats(builder, "w", "64");
  onnx_node(builder, "Mul", "x,w", "p", "");
  onnx_node(builder, "Cast", "p", "d", "to=11"); /* without float64 the CPU runs this node */
  onnx_node(builder, "Mul", "d,d", "q", "");
  onnx_node(builder, "Cast", "q", "f", "to=1");
  onnx_node(builder, "Tanh", "f", "y", "");
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  model_path = onnx_write(bytes);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  float *values = onnx_float_values(COUNT);
  memcpy(weights, values, sizeof(weights));
  g_free(values);
}

/* ---- Work of a thread -------------------------------------------------------------------- */

static BpTensor *create(BpDevice device) {
  const int64_t extent = COUNT;
  BpTensor *tensor = bp_tensor_create(&extent, 1, dtype_of("float32"), device, NULL);
  assert_ok(tensor == NULL);
  return tensor;
}

static void launch(const Place *place, void *stream, BpTensor *from, BpTensor *to, int by) {
  BpValue result, args[5] = {{.type_index = BP_TYPE_INT, .v_int64 = by},
                             {.type_index = BP_TYPE_TENSOR, .v_obj = &from->header},
                             {.type_index = BP_TYPE_TENSOR, .v_obj = &to->header},
                             {.type_index = BP_TYPE_INT, .v_int64 = 4},
                             {.type_index = BP_TYPE_INT, .v_int64 = 16}};
  assert_ok(bp_device_set_current(place->device, stream));
  assert_ok(bp_function_call(place->add, args, 3 + place->num_launch, &result));
}

/* Copies work queued on a stream to another device, on a stream of that device if it is of another
 * kind and not the host, and compares the bytes. */
static void copy_and_compare(BpDevice device, void *stream, const BpTensor *from, BpDevice other,
                             const float expected[COUNT]) {
  float y[COUNT];
  void *there = NULL;
  BpTensor *to = create(other);
  int is_there = device.device_type != other.device_type && other.device_type != BP_DEVICE_CPU;
  assert_ok(bp_stream_create(other, &there));
  assert_ok(bp_tensor_copy(&from->view, &to->view, is_there ? there : stream));
  assert_ok(bp_stream_sync(device, stream));
  assert_ok(bp_stream_sync(other, is_there ? there : NULL));
  assert_ok(bp_tensor_copy_to_host(&to->view, y, sizeof(y)));
  g_assert_cmpmem(y, sizeof(y), expected, sizeof(y));
  assert_ok(bp_stream_free(other, there));
  bp_object_release(to);
}

/* Adds on a stream of the thread's own and then on another stream; the intermediate buffer is freed
 * while both are queued. The result is copied to another device. */
static void launch_and_copy(const Place *place, const Place *other, int seed) {
  float x[COUNT], expected[COUNT];
  void *streams[2] = {NULL, NULL};
  BpTensor *from = create(place->device), *between = create(place->device),
           *to = create(place->device);
  for (int i = 0; i < COUNT; i++) {
    x[i] = (float)(seed + i);
    expected[i] = x[i] + 2 * (float)seed;
  }
  for (int i = 0; i < 2; i++)
    assert_ok(bp_stream_create(place->device, &streams[i]));
  assert_ok(bp_tensor_copy_from_host(&from->view, x, sizeof(x)));
  assert_ok(bp_stream_sync_from_to(place->device, NULL, streams[0]));
  launch(place, streams[0], from, between, seed);
  assert_ok(bp_stream_sync_from_to(place->device, streams[0], streams[1]));
  launch(place, streams[1], between, to, seed);
  bp_object_release(between);
  copy_and_compare(place->device, streams[1], to, other->device, expected);
  assert_ok(bp_device_set_current(place->device, NULL));
  for (int i = 0; i < 2; i++)
    assert_ok(bp_stream_free(place->device, streams[i]));
  bp_object_release(from);
  bp_object_release(to);
}

static void run_model(BpModelContext *context, int seed) {
  float x[COUNT], y[COUNT];
  int64_t extent = COUNT;
  BpTensorView view = {.data = x,
                       .device = {BP_DEVICE_CPU, 0},
                       .ndim = 1,
                       .dtype = dtype_of("float32"),
                       .shape = &extent};
  for (int i = 0; i < COUNT; i++)
    x[i] = (float)(seed - i) / COUNT;
  assert_ok(bp_model_set_input(context, "x", &view));
  assert_ok(bp_model_run(context));
  BpTensor *output = bp_model_get_output(context, 0);
  assert_ok(output == NULL);
  assert_ok(bp_tensor_copy_to_host(&output->view, y, sizeof(y)));
  for (int i = 0; i < COUNT; i++)
    g_assert_cmpfloat_with_epsilon(y[i], tanhf(x[i] * weights[i] * x[i] * weights[i]), 1e-5f);
}

static void read_attributes(BpDevice device) {
  BpValue value;
  for (int32_t attr = 0; bp_device_attr_name(attr); attr++) {
    assert_ok(bp_device_get_attr(device, attr, &value));
    bp_value_clear(&value);
  }
}

static void *use_device(void *argument) {
  const Place *place = argument;
  size_t index = (size_t)(place - places);
  pthread_barrier_wait(&start);
  BpModelContext *context = bp_model_context_create(place->model);
  assert_ok(context == NULL);
  for (int round = 0; round < ROUNDS; round++) {
    launch_and_copy(place, &places[(index + (size_t)round) % num_places], round);
    run_model(context, round);
    read_attributes(place->device);
  }
  bp_model_context_free(context);
  return NULL;
}

/* Compiles the model for one kind after the other, and runs it, while the other threads work. */
static void *compile_beside(void *argument) {
  (void)argument;
  pthread_barrier_wait(&start);
  for (size_t i = 0; i < num_places; i++) {
    BpTarget *target = bp_target_from_device(places[i].device);
    assert_ok(target == NULL);
    char *text = bp_target_format(target);
    BpModule *module = compile_model(text, NULL);
    BpModel *model = bp_model_create(module, &places[i].device, 1);
    BpModelContext *context = model ? bp_model_context_create(model) : NULL;
    assert_ok(context == NULL);
    run_model(context, (int)i);
    bp_model_context_free(context);
    bp_model_release(model);
    bp_object_release(module);
    bp_str_free(text);
    bp_object_release(target);
  }
  return NULL;
}

/* ---- All at once ------------------------------------------------------------------------- */

/* Opens the existing devices of a kind, with code for all of them. */
static void add_places(const char *target, int32_t device_type, int32_t num_launch) {
  int32_t count = 0;
  const char *why = "";
  const BpDevice host = {BP_DEVICE_CPU, 0};
  assert_ok(bp_device_count(device_type, &count, &why));
  if (count == 0) {
    g_test_message("%s: %s", target, why);
    return;
  }
  BpFunction *add = build_add(target, num_launch > 0);
  BpModule *module = compile_model(target, num_launch > 0 ? "c" : NULL);
  for (int32_t i = 0; i < count && num_places < MOST_PLACES; i++) {
    const BpDevice devices[] = {{device_type, i}, host};
    BpModel *model = bp_model_create(module, devices, num_launch > 0 ? 2 : 1);
    assert_ok(model == NULL);
    places[num_places++] = (Place){devices[0], bp_object_retain(add), num_launch, model};
  }
  bp_object_release(module);
  bp_object_release(add);
}

static void find_places(void) {
  add_places("c", BP_DEVICE_CPU, 0);
  add_places("opencl -fp64=false", BP_DEVICE_OPENCL, 2);
  add_places("vulkan", BP_DEVICE_VULKAN, 2);
}

static void test_all_devices_at_once(void) {
  pthread_t threads[MOST_PLACES * THREADS_A_DEVICE + 1];
  size_t count = 0;
  write_model();
  find_places();
  g_test_message("%zu devices", num_places);
  assert_ok(pthread_barrier_init(&start, NULL, (unsigned)num_places * THREADS_A_DEVICE + 1));
  for (size_t i = 0; i < num_places; i++)
    for (int k = 0; k < THREADS_A_DEVICE; k++)
      assert_ok(pthread_create(&threads[count++], NULL, use_device, &places[i]));
  assert_ok(pthread_create(&threads[count++], NULL, compile_beside, NULL));
  for (size_t i = 0; i < count; i++)
    assert_ok(pthread_join(threads[i], NULL));
  pthread_barrier_destroy(&start);
  for (size_t i = 0; i < num_places; i++) {
    bp_object_release(places[i].add);
    bp_model_release(places[i].model);
  }
  unlink(model_path);
  g_free(model_path);
}

/* ---- In any order ------------------------------------------------------------------------ */

#define TEXT                                                                                       \
  "(module (function \"f\" (buffer A float32 global 64)"                                           \
  " (for i:int64 0 64 parallel (store A i (add (load A i) 1:float32)))))"

/* Target kind llvm, PoCL and lavapipe share libLLVM in one process, whichever is first. */
static void test_llvm_of_three(gconstpointer order) {
  static const char *const targets[] = {"llvm", "opencl", "vulkan"};
  if (!g_test_subprocess()) {
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_passed();
    return;
  }
  for (int round = 0; round < 2; round++)
    for (const char *at = order; *at; at++) {
      const char *target = targets[*at - '0'];
      if (bp_target_kind_info(target))
        assert_text_agrees(TEXT, target);
      else
        bp_error_clear();
    }
}

int main(int argc, char **argv) {
  /* Two devices of one kind. PoCL's driver "pthread" supports threads; "basic" deadlocks. */
  g_setenv("POCL_DEVICES", "pthread pthread", FALSE);
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/together/all-devices-at-once-from-several-threads", test_all_devices_at_once);
  g_test_add_data_func("/together/llvm/cpu-opencl-vulkan", "012", test_llvm_of_three);
  g_test_add_data_func("/together/llvm/cpu-vulkan-opencl", "021", test_llvm_of_three);
  g_test_add_data_func("/together/llvm/opencl-cpu-vulkan", "102", test_llvm_of_three);
  g_test_add_data_func("/together/llvm/opencl-vulkan-cpu", "120", test_llvm_of_three);
  g_test_add_data_func("/together/llvm/vulkan-cpu-opencl", "201", test_llvm_of_three);
  g_test_add_data_func("/together/llvm/vulkan-opencl-cpu", "210", test_llvm_of_three);
  return g_test_run();
}
