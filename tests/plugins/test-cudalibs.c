/* SPDX-License-Identifier: Apache-2.0 */
/* Plugin cudalibs: models that cuBLAS and cuDNN compute, compared with generated code;
 * reasons, artifacts, damaged bytes, failures, and processes without the libraries. Unless
 * BP_TEST_GPU is set, the test uses a simulation of NVIDIA's driver and of both libraries
 * (tests/mock/fakecuda.h). With BP_TEST_GPU it uses a real GPU, without the tests that make a
 * library fail. */
#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <backplane/target.h>

#include "plugins/cudalibs/library_api.h"
#include "tests/graph/onnx_builder.h"
#include "tests/plugins/plugin-util.h"

#define CPU0          ((BpDevice){BP_DEVICE_CPU, 0})
#define GPU0          ((BpDevice){BP_DEVICE_CUDA, 0})
#define ONNX_FLOAT16  10
#define ONNX_BFLOAT16 16

static void *simulation;

static int count_of(const char *what) {
  int (*call)(const char *) = (int (*)(const char *))(uintptr_t)dlsym(simulation, "fakecuda_count");
  return call(what);
}

static void fail(const char *function, int after, int status) {
  void (*call)(const char *, int, int) =
      (void (*)(const char *, int, int))(uintptr_t)dlsym(simulation, "fakecuda_fail");
  call(function, after, status);
}

static gboolean is_simulated(void) {
  if (!simulation)
    g_test_skip("only a simulation fails when asked to, and counts");
  return simulation != NULL;
}

/* ---- Compiling --------------------------------------------------------------------------- */

static int note(void *context, const BpClaimedNode *node) {
  g_string_append_printf(context, "%s: %s %s\n", node->op, node->compiler ? node->compiler : "-",
                         node->why ? node->why : node->function);
  return 0;
}

/* Generated code to compare with runs on the CPU, or on a real GPU, whose machine may lack a C
 * compiler. */
static BpDevice other_device(void) {
  return simulation ? CPU0 : GPU0;
}

static BpTarget *target_of(int is_other) {
  if (!simulation)
    return bp_target_from_device(GPU0);
  return bp_target_parse(is_other ? "c -options=-O0" : "cuda -arch=sm_90");
}

/* Compiles for the GPU with the claims of cudalibs, which are at least this share of the nodes; if
 * `least` is negative, without them, for the other device. `report` may be NULL. NULL with an
 * error. */
static BpModule *compile(const char *path, double least, GString *report) {
  static const char *const names[] = {"cudalibs"};
  const BpTarget *target = target_of(least < 0);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = &target,
                              .num_targets = 1,
                              .num_graph_compilers = least >= 0,
                              .graph_compilers = names,
                              .least_claimed = least >= 0 ? least : 0,
                              .claimed = report ? note : NULL,
                              .claimed_context = report};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  bp_object_release((BpTarget *)(uintptr_t)target);
  return module;
}

static BpModule *compile_model(OnnxBuilder *builder, double least, GString *report) {
  char *path = onnx_save(builder);
  BpModule *module = compile(path, least, report);
  unlink(path);
  g_free(path);
  return module;
}

/* Finds the first module of kind cudalibs in a module and its imports (borrowed), or NULL. */
static BpModule *find_part(BpModule *module) {
  BpModule *part = NULL;
  if (!strcmp(bp_module_kind(module), "cudalibs"))
    return module;
  for (size_t i = 0; i < bp_module_num_imports(module) && !part; i++)
    part = find_part(bp_module_get_import(module, i));
  return part;
}

/* Compiles a model, and returns the first part that the libraries compute (transfer full). */
static BpModule *compile_part(OnnxBuilder *builder) {
  BpModule *module = compile_model(builder, 0, NULL), *part = module ? find_part(module) : NULL;
  if (!part)
    g_error("%s", module ? "there is no module of kind cudalibs" : bp_error_message());
  bp_object_retain(part);
  bp_object_release(module);
  return part;
}

/* ---- Elements ---------------------------------------------------------------------------- */

/* Stores a number that each type represents exactly, a multiple of 1/8 from -1 to 1. */
static void store(BpDataType type, char *data, int64_t index) {
  double value = (double)((index * 7 + index / 5) % 17 - 8) / 8;
  float f32 = (float)value;
  uint32_t wide;
  memcpy(&wide, &f32, 4);
  uint16_t bits = (uint16_t)(wide >> 16);
  if (type.code == BP_DTYPE_FLOAT && type.bits == 16)
    bits = value == 0 ? 0
                      : (uint16_t)((wide >> 16 & 0x8000) | (((wide >> 23 & 255) - 112) << 10) |
                                   (wide >> 13 & 1023));
  if (type.bits == 64)
    memcpy(data + index * 8, &value, 8);
  else if (type.bits == 32)
    memcpy(data + index * 4, &f32, 4);
  else
    memcpy(data + index * 2, &bits, 2);
}

static double load(BpDataType type, const char *data, int64_t index) {
  float f32;
  double f64;
  uint16_t bits;
  if (type.bits == 64) {
    memcpy(&f64, data + index * 8, 8);
    return f64;
  }
  if (type.bits == 32) {
    memcpy(&f32, data + index * 4, 4);
    return (double)f32;
  }
  memcpy(&bits, data + index * 2, 2);
  if (type.code == BP_DTYPE_BFLOAT) {
    uint32_t wide = (uint32_t)bits << 16;
    memcpy(&f32, &wide, 4);
    return (double)f32;
  }
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent ? ldexp(fraction + 1024, exponent - 25) : ldexp(fraction, -24);
  return bits & 0x8000 ? -size : size;
}

/* ---- Running ----------------------------------------------------------------------------- */

static void set_input(BpModelContext *context, const BpModelTensorInfo *info, BpDevice device) {
  BpTensor *tensor = bp_tensor_create(info->shape, info->ndim, info->dtype, device, NULL);
  char *data = g_malloc0((gsize)bp_view_num_bytes(&tensor->view) + 1);
  for (int64_t i = 0; i < bp_view_num_elements(&tensor->view); i++)
    store(info->dtype, data, i);
  if (bp_tensor_copy_from_host(&tensor->view, data, (uint64_t)bp_view_num_bytes(&tensor->view)) ||
      bp_stream_sync(device, NULL) || /* the model runs on a stream of its own */
      bp_model_set_input(context, info->name, &tensor->view))
    g_error("%s", bp_error_message());
  g_free(data);
  bp_object_release(tensor);
}

/* Returns an output as doubles. */
static GArray *read_output(BpModelContext *context, int32_t index) {
  BpTensor *output = bp_model_get_output(context, index);
  GArray *all = g_array_new(FALSE, FALSE, sizeof(double));
  char *data = g_malloc((gsize)bp_view_num_bytes(&output->view) + 1);
  if (bp_tensor_copy_to_host(&output->view, data, (uint64_t)bp_view_num_bytes(&output->view)))
    g_error("%s", bp_error_message());
  for (int64_t k = 0; k < bp_view_num_elements(&output->view); k++) {
    double value = load(output->view.dtype, data, k);
    g_array_append_val(all, value);
  }
  g_free(data);
  return all;
}

/* Runs a model twice, and returns its outputs (arrays of doubles); NULL with an error of a run. */
static GPtrArray *run(BpModule *module, BpDevice device) {
  BpModel *model = bp_model_create(module, &device, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  GPtrArray *outputs = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
  int status = 0;
  if (!context)
    g_error("%s", bp_error_message());
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++)
    set_input(context, bp_model_input_info(model, i), device);
  for (int again = 0; again < 2 && !status; again++)
    status = bp_model_run(context);
  for (int32_t i = 0; !status && i < bp_model_num_outputs(model); i++)
    g_ptr_array_add(outputs, read_output(context, i));
  bp_model_context_free(context);
  bp_model_release(model);
  if (!status)
    return outputs;
  g_ptr_array_unref(outputs);
  return NULL;
}

static void compare_output(const char *what, guint index, const GArray *got, const GArray *want,
                           double tolerance) {
  double largest = 0;
  g_assert_cmpuint(got->len, ==, want->len);
  for (guint i = 0; i < want->len; i++)
    largest = fmax(largest, fabs(g_array_index(want, double, i)));
  for (guint i = 0; i < want->len; i++) {
    double a = g_array_index(got, double, i), b = g_array_index(want, double, i);
    if (!(fabs(a - b) <= tolerance * largest))
      g_error("%s: element %u of output %u is %g instead of %g", what, i, index, a, b);
  }
}

static void compare(const char *what, const GPtrArray *got, const GPtrArray *want,
                    double tolerance) {
  g_assert_cmpuint(got->len, ==, want->len);
  for (guint i = 0; i < want->len; i++)
    compare_output(what, i, got->pdata[i], want->pdata[i], tolerance);
}

/* Compares a run in which the libraries take at least this share of the nodes with a run of
 * generated code; frees the builder. */
static void check(const char *what, OnnxBuilder *builder, double least, double tolerance) {
  GString *report = g_string_new(NULL);
  char *path = onnx_save(builder);
  BpModule *plain = compile(path, -1, NULL), *claimed = plain ? compile(path, least, report) : NULL;
  if (!claimed)
    g_error("%s: %s: %s", what, bp_error_message(), report->str);
  GPtrArray *want = run(plain, other_device()), *got = run(claimed, GPU0);
  if (!got || !want)
    g_error("%s: %s", what, bp_error_message());
  compare(what, got, want, tolerance);
  g_ptr_array_unref(want);
  g_ptr_array_unref(got);
  bp_object_release(plain);
  bp_object_release(claimed);
  g_string_free(report, TRUE);
  unlink(path);
  g_free(path);
}

/* ---- Operators --------------------------------------------------------------------------- */

typedef struct Layer {
  const char *op, *input, *weights, *bias, *attrs;
} Layer;

/* Adds a layer with values named by its number. */
static void add_layer(OnnxBuilder *builder, const Layer *l, int number, int32_t type,
                      int is_constant) {
  const char *const shapes[] = {l->input, l->weights, l->bias};
  GString *inputs = g_string_new(NULL);
  char *output = g_strdup_printf("y%d", number);
  for (int i = 0; i < 3; i++) {
    char *name = g_strdup_printf("%c%d", "xwb"[i], number);
    if (shapes[i] && i > 0 && is_constant)
      onnx_floats(builder, name, shapes[i]);
    else if (shapes[i])
      onnx_input(builder, name, type, shapes[i]);
    if (shapes[i])
      g_string_append_printf(inputs, "%s%s", i ? "," : "", name);
    g_free(name);
  }
  onnx_node(builder, l->op, inputs->str, output, l->attrs);
  onnx_output(builder, output);
  g_string_free(inputs, TRUE);
  g_free(output);
}

static OnnxBuilder *layer_model(const Layer *l, int32_t type, int is_constant) {
  OnnxBuilder *builder = onnx_builder_new();
  add_layer(builder, l, 0, type, is_constant);
  return builder;
}

/* Each layer is an output of one model, whose number a message tells. On a real GPU the generated
 * code sums 16-bit numbers in 16 bits. */
static void check_layers(const Layer *layers, int count, int32_t type, double tolerance) {
  if (!simulation && (type == ONNX_FLOAT16 || type == ONNX_BFLOAT16))
    tolerance *= 8;
  for (int is_constant = 0; is_constant <= (type == ONNX_FLOAT); is_constant++) {
    char *what = g_strdup_printf("type %d%s", type, is_constant ? ", constant weights" : "");
    OnnxBuilder *builder = onnx_builder_new();
    for (int i = 0; i < count; i++)
      add_layer(builder, &layers[i], i, type, is_constant);
    check(what, builder, 1, tolerance);
    g_free(what);
  }
}

static const Layer products[] = {
    {"MatMul", "5x7", "7x9", NULL, ""},
    {"MatMul", "2x3x5x7", "7x9", NULL, ""},
    {"MatMul", "3x5x7", "3x7x4", NULL, ""},
    {"MatMul", "2x3x5x7", "2x3x7x4", NULL, ""},
    {"MatMul", "5x7", "3x7x4", NULL, ""},
    {"MatMul", "3x5x7", "1x7x4", NULL, ""},
    {"MatMul", "7", "7x4", NULL, ""},
    {"MatMul", "5x7", "7", NULL, ""},
    {"MatMul", "7", "7", NULL, ""},
    {"MatMul", "7", "3x7x4", NULL, ""},
    {"MatMul", "3x5x7", "7", NULL, ""},
    {"Gemm", "5x7", "7x9", "9", ""},
    {"Gemm", "5x7", "9x7", "1x9", "transB=1"},
    {"Gemm", "7x5", "7x9", NULL, "transA=1"},
    {"Gemm", "7x5", "9x7", "9", "transA=1 transB=1 alpha=0.5f beta=2.0f"},
    {"Gemm", "5x7", "7x9", "5x9", "beta=-0.5f"},
    {"Gemm", "5x7", "7x9", "5x1", "alpha=-2.0f"},
};

static const Layer windows[] = {
    {"Conv", "1x3x11x13", "8x3x3x3", NULL, "pads=1,1,1,1"},
    {"Conv", "2x16x9x9", "32x16x3x3", "32", "strides=2,2 pads=1,1,1,1"},
    {"Conv", "1x12x8x8", "12x1x3x3", "12", "group=12 pads=1,1,1,1"},
    {"Conv", "1x8x12x12", "16x4x3x3", NULL, "group=2 dilations=2,2"},
    {"Conv", "1x5x10x7", "7x5x1x1", "7", ""},
    {"Conv", "1x3x11x10", "4x3x3x3", NULL, "auto_pad=SAME_LOWER strides=2,2"},
    {"Conv", "1x3x10x10", "4x3x3x3", NULL, "strides=2,2 pads=1,1,0,0"},
    {"Conv", "2x3x20", "6x3x5", "6", "pads=2,2 strides=2,"},
    {"Conv", "1x2x5x6x7", "4x2x3x3x3", "4", "pads=1,1,1,1,1,1"},
    {"MaxPool", "1x5x11x13", NULL, NULL, "kernel_shape=3,3 strides=2,2 pads=1,1,1,1"},
    {"MaxPool", "2x3x17", NULL, NULL, "kernel_shape=4, strides=3,"},
    {"MaxPool", "1x2x6x7x8", NULL, NULL, "kernel_shape=2,3,2"},
    {"AveragePool", "1x5x11x13", NULL, NULL, "kernel_shape=3,3 strides=2,2 pads=1,1,1,1"},
    {"AveragePool", "1x5x8x8", NULL, NULL, "kernel_shape=3,3 pads=1,1,1,1 count_include_pad=1"},
    {"GlobalAveragePool", "2x7x5x6", NULL, NULL, ""},
    {"GlobalMaxPool", "2x7x5x6", NULL, NULL, ""},
    {"Softmax", "4x6x5", NULL, NULL, ""},
    {"Softmax", "4x6x5", NULL, NULL, "axis=1"},
    {"Softmax", "7", NULL, NULL, "axis=0"},
    {"LogSoftmax", "4x6x5", NULL, NULL, "axis=-2"},
};

static void test_products_agree_with_generated_code(void) {
  check_layers(products, G_N_ELEMENTS(products), ONNX_FLOAT, 2e-6);
}

static void test_products_of_other_types_agree_with_generated_code(void) {
  check_layers(products, G_N_ELEMENTS(products), ONNX_DOUBLE, 1e-12);
  check_layers(products, G_N_ELEMENTS(products), ONNX_FLOAT16, 4e-3);
  check_layers(products, G_N_ELEMENTS(products), ONNX_BFLOAT16, 3e-2);
}

static void test_windows_agree_with_generated_code(void) {
  check_layers(windows, G_N_ELEMENTS(windows), ONNX_FLOAT, 2e-5);
}

static void test_windows_of_other_types_agree_with_generated_code(void) {
  check_layers(windows, G_N_ELEMENTS(windows), ONNX_DOUBLE, 1e-12);
  check_layers(windows, G_N_ELEMENTS(windows), ONNX_FLOAT16, 4e-3);
}

/* Before operator set 13 a softmax is over all dimensions from its axis on. */
static void test_old_softmax_is_over_all_dimensions_from_its_axis_on(void) {
  for (int axis = 0; axis < 3; axis++) {
    char *attrs = g_strdup_printf("axis=%d", axis);
    OnnxBuilder *builder = layer_model(&(Layer){"Softmax", "4x3x5", NULL, NULL, attrs}, 1, 0);
    builder->version = 11;
    check(attrs, builder, 1, 2e-6);
    g_free(attrs);
  }
}

/* ---- Parts ------------------------------------------------------------------------------- */

/* A residual block: convolutions with bias, sum and relu, an added input, and a value with two
 * readers. */
static OnnxBuilder *residual_model(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x3x16x16");
  onnx_floats(builder, "w0", "16x3x3x3");
  onnx_floats(builder, "b0", "16");
  onnx_floats(builder, "w1", "16x16x3x3");
  onnx_floats(builder, "w2", "16x16x3x3");
  onnx_floats(builder, "w3", "256x10");
  onnx_floats(builder, "b3", "10");
  onnx_node(builder, "Conv", "x,w0,b0", "c0", "pads=1,1,1,1");
  onnx_node(builder, "Relu", "c0", "r0", "");
  onnx_node(builder, "MaxPool", "r0", "p0", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Conv", "p0,w1", "c1", "pads=1,1,1,1");
  onnx_node(builder, "Relu", "c1", "r1", "");
  onnx_node(builder, "Conv", "r1,w2,b0", "c2", "pads=1,1,1,1");
  onnx_node(builder, "Add", "c2,p0", "a2", "");
  onnx_node(builder, "Relu", "a2", "r2", "");
  onnx_node(builder, "MaxPool", "r2", "p2", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Flatten", "p2", "f", "");
  onnx_node(builder, "MatMul", "f,w3", "m", "");
  onnx_node(builder, "Add", "m,b3", "n", "");
  onnx_node(builder, "Softmax", "n", "y", "");
  onnx_output(builder, "y");
  onnx_output(builder, "r2");
  return builder;
}

static void test_residual_block_is_claimed_and_right(void) {
  check("residual block", residual_model(), 12.0 / 13, 2e-5);
}

/* A result that is an output of a part and is also used inside: in the caller's memory and in the
 * part's own. */
static void test_outputs_that_a_part_also_reads_are_right(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x8x9x9");
  onnx_floats(builder, "w", "8x8x3x3");
  onnx_node(builder, "Conv", "x,w", "a", "pads=1,1,1,1");
  onnx_node(builder, "Conv", "a,w", "b", "pads=1,1,1,1");
  onnx_node(builder, "Add", "b,a", "c", "");
  onnx_node(builder, "Conv", "c,w", "d", "pads=1,1,1,1");
  onnx_node(builder, "Add", "x,d", "e", "");
  onnx_node(builder, "Relu", "e", "f", "");
  for (int i = 0; i < 5; i++)
    onnx_output(builder, (const char *[]){"a", "c", "d", "e", "f"}[i]);
  check("results inside", builder, 0.5, 2e-5);
}

/* One Add reads two convolutions, or the convolution that it follows twice. */
static void test_sums_of_two_convolutions_are_right(void) {
  for (int is_twice = 0; is_twice < 2; is_twice++) {
    OnnxBuilder *builder = onnx_builder_new();
    onnx_input(builder, "x", ONNX_FLOAT, "1x4x7x9");
    onnx_input(builder, "h", ONNX_FLOAT, "1x3x7x9");
    onnx_floats(builder, "w", "8x4x3x3");
    onnx_floats(builder, "u", "8x3x3x3");
    onnx_node(builder, "Conv", "x,w", "a", "pads=1,1,1,1");
    onnx_node(builder, "Conv", "h,u", "b", "pads=1,1,1,1");
    onnx_node(builder, "Add", is_twice ? "a,a" : "a,b", "s", "");
    onnx_node(builder, "Relu", "s", "y", "");
    onnx_output(builder, "y");
    if (is_twice)
      onnx_output(builder, "b");
    check("sum of branches", builder, 0.5, 2e-5);
  }
}

/* Layers of one shape that read earlier layers at random: also parts that leave an Add alone. */
static void test_random_graphs_agree_with_generated_code(void) {
  static const char *const ops[] = {"Conv", "Conv", "Relu", "Add", "MaxPool", "Neg", "Softmax"};
  for (uint32_t seed = 1; seed <= 6; seed++) {
    OnnxBuilder *builder = onnx_builder_new();
    uint64_t state = seed * 977;
    char *what = g_strdup_printf("random graph %u", seed);
    onnx_input(builder, "v0", ONNX_FLOAT, "1x4x5x6");
    onnx_floats(builder, "w", "4x4x3x3");
    for (uint32_t known = 1; known < 14; known++) {
      const char *op = ops[next_random(&state) % G_N_ELEMENTS(ops)];
      uint32_t a = known - 1 - (uint32_t)(next_random(&state) % MIN(known, 3));
      uint32_t b = (uint32_t)(next_random(&state) % known);
      char inputs[32], output[16];
      g_snprintf(output, sizeof(output), "v%u", known);
      if (!strcmp(op, "Add"))
        g_snprintf(inputs, sizeof(inputs), "v%u,v%u", a, b);
      else
        g_snprintf(inputs, sizeof(inputs), !strcmp(op, "Conv") ? "v%u,w" : "v%u", a);
      onnx_node(builder, op, inputs, output,
                !strcmp(op, "Conv")      ? "pads=1,1,1,1"
                : !strcmp(op, "MaxPool") ? "kernel_shape=3,3 pads=1,1,1,1"
                                         : "");
      if (known == 13 || next_random(&state) % 5 == 0)
        onnx_output(builder, output);
    }
    check(what, builder, 0, 1e-4);
    g_free(what);
  }
}

/* Unsupported nodes are not claimed, with the reason. */
static void test_unsupported_nodes_are_declined_with_the_reason(void) {
  static const struct {
    const char *op, *inputs, *attrs, *why;
  } cases[] = {
      {"Relu", "x", "", "only directly after a convolution or a product"},
      {"MatMul", "i,i", "", "is not of float32, float16, bfloat16 or float64"},
      {"Exp", "x", "", "does not have this operator"},
      {"MaxPool", "p", "kernel_shape=2,2 dilations=2,2", "dilations other than 1"},
      {"MaxPool", "p", "kernel_shape=2,2 strides=2,2 ceil_mode=1", "pads both ends"},
      {"AveragePool", "p",
       "kernel_shape=3,3 strides=2,2 pads=1,1,0,0 ceil_mode=1 count_include_pad=1",
       "behind the padding"},
      {"AveragePool", "p", "kernel_shape=2,2 pads=0,0,1,1", "pads both ends"},
      {"Softmax", "h", "", "bfloat16, which the plugin takes only in products"},
      {"MatMul", "l,r", "", "broadcasts only a single matrix"},
      {"Gemm", "x,w,s", "", "not a matrix, a row or a column"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    OnnxBuilder *builder = onnx_builder_new();
    GString *report = g_string_new(NULL);
    onnx_input(builder, "x", ONNX_FLOAT, "4x4");
    onnx_input(builder, "i", 6, "4x4");
    onnx_input(builder, "h", ONNX_BFLOAT16, "4x4");
    onnx_input(builder, "p", ONNX_FLOAT, "1x3x9x9");
    onnx_input(builder, "l", ONNX_FLOAT, "2x1x4x4");
    onnx_input(builder, "r", ONNX_FLOAT, "1x3x4x4");
    onnx_floats(builder, "w", "4x4");
    onnx_floats(builder, "s", "1");
    onnx_node(builder, cases[i].op, cases[i].inputs, "y", cases[i].attrs);
    onnx_output(builder, "y");
    BpModule *module = compile_model(builder, 0, report);
    if (!strstr(report->str, cases[i].why))
      g_error("%s: %s: %s", cases[i].op, report->str, module ? "" : bp_error_message());
    bp_error_clear();
    bp_object_release(module);
    g_string_free(report, TRUE);
  }
}

/* ---- Artifacts --------------------------------------------------------------------------- */

static void test_saved_part_is_loaded_and_runs(void) {
  char *linker = g_find_program_in_path("cc");
  if (!linker) {
    g_test_skip("an artifact is linked by the C compiler, and there is none");
    return;
  }
  g_free(linker);
  char *path = onnx_save(residual_model()), *library = g_strconcat(path, ".so", NULL);
  BpModule *module = compile(path, 0.9, NULL);
  if (!module || bp_module_export_library(module, library))
    g_error("%s", bp_error_message());
  BpModule *loaded = bp_model_open(library);
  if (!loaded)
    g_error("%s", bp_error_message());
  GPtrArray *want = run(module, GPU0), *got = run(loaded, GPU0);
  compare("loaded", got, want, 0);
  g_ptr_array_unref(want);
  g_ptr_array_unref(got);
  bp_object_release(loaded);
  bp_object_release(module);
  unlink(library);
  unlink(path);
  g_free(library);
  g_free(path);
}

/* Loads a module from bytes and runs its function on the tensors of the right sizes, which must
 * never read or write elsewhere. Returns 1 if the function ran. */
static int load_and_run(const char *bytes, size_t size, BpValue *args, int32_t count) {
  BpFunction *function = NULL;
  BpValue answer = {0};
  BpModule *module = bp_module_load_from_bytes("cudalibs", &(BpByteArray){bytes, size});
  int has_run = module && !bp_module_get_function(module, "part_0_cudalibs", 0, &function) &&
                function && !bp_function_call(function, args, count, &answer) &&
                !bp_stream_sync(GPU0, NULL);
  bp_object_release(function);
  bp_object_release(module);
  bp_error_clear();
  return has_run;
}

/* A small part with every kind of step. */
static OnnxBuilder *small_model(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x2x4x4");
  onnx_floats(builder, "w", "2x2x3x3");
  onnx_floats(builder, "b", "2");
  onnx_floats(builder, "m", "2x3");
  onnx_floats(builder, "r", "3");
  onnx_node(builder, "Conv", "x,w,b", "c", "pads=1,1,1,1");
  onnx_node(builder, "Add", "c,x", "a", "");
  onnx_node(builder, "Relu", "a", "d", "");
  onnx_node(builder, "MaxPool", "d", "p", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "MatMul", "p,m", "q", "");
  onnx_node(builder, "Add", "q,r", "s", "");
  onnx_node(builder, "Softmax", "s", "y", "");
  onnx_output(builder, "y");
  return builder;
}

/* For every changed byte and every least number in a saved module, and for every truncation,
 * loading it gives an error or a function that stays inside its tensors: the simulation ends a run
 * that does not. */
static void test_damaged_bytes_cause_no_access_out_of_bounds(void) {
  const int32_t least = INT32_MIN;
  BpModule *part = compile_part(small_model());
  BpOwnedBytes bytes = {0};
  BpTensor *x =
      bp_tensor_create((int64_t[]){1, 2, 4, 4}, 4, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, GPU0, NULL);
  BpTensor *y =
      bp_tensor_create((int64_t[]){1, 2, 2, 3}, 4, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, GPU0, NULL);
  BpValue args[] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &x->view},
                    {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &y->view}};
  if (bp_module_save_to_bytes(part, &bytes))
    g_error("%s", bp_error_message());
  g_assert_true(load_and_run(bytes.data, bytes.size, args, 2));
  char *copy = g_memdup2(bytes.data, bytes.size);
  for (size_t at = 0; simulation && at < bytes.size; at++)
    for (int change = 0; change < 2; change++) {
      copy[at] = (char)(copy[at] ^ (change ? 0x80 : 0x01));
      load_and_run(copy, bytes.size, args, 2);
      copy[at] = bytes.data[at];
    }
  for (size_t at = 0; simulation && at + sizeof least <= bytes.size; at++) {
    memcpy(copy + at, &least, sizeof least);
    load_and_run(copy, bytes.size, args, 2);
    memcpy(copy + at, bytes.data + at, sizeof least);
  }
  for (size_t size = 0; size < bytes.size; size += 1 + bytes.size / 500) {
    g_assert_null(bp_module_load_from_bytes("cudalibs", &(BpByteArray){copy, size}));
    bp_error_clear();
  }
  g_assert_true(load_and_run(bytes.data, bytes.size, args, 2)); /* the device is not lost */
  g_free(copy);
  bp_owned_bytes_clear(&bytes);
  bp_object_release(x);
  bp_object_release(y);
  bp_object_release(part);
}

/* Calls the function of a part directly: arguments that it would misread are errors. */
static void test_wrong_arguments_are_errors(void) {
  BpTensor *tensor =
      bp_tensor_create((int64_t[]){4, 8}, 2, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, GPU0, NULL);
  BpTensorView right = tensor->view;
  right.shape = (int64_t[]){4, 4};
  right.strides = NULL;
  BpTensorView turned = right, lanes = right, away = right, shape = right, flat = right,
               shifted = right, elsewhere = right;
  turned.strides = (int64_t[]){1, 4};
  lanes.dtype.lanes = 2;
  away.device.device_type = BP_DEVICE_CPU;
  shape.shape = (int64_t[]){4, 5};
  flat.ndim = 1;
  shifted.byte_offset += 4;
  elsewhere.data = (float[16]){0};
  const struct {
    BpTensorView *view;
    const char *message;
  } cases[] = {
      {&right, NULL},
      {&turned, "has the stride 4; expected 1"},
      {&lanes, "32 bits and 2 lanes; expected"},
      {&away, "expected cuda:0"},
      {&shape, "has the extent 5; expected 4"},
      {&flat, "has 1 dimensions; expected 2"},
      {&shifted, "not a multiple of 16 bytes"},
      {&elsewhere, "is not memory of cuda:0 in this process"},
  };
  const Layer layer = {"MatMul", "4x4", "4x4", NULL, ""};
  BpModule *part = compile_part(layer_model(&layer, ONNX_FLOAT, 1));
  BpFunction *function = NULL;
  if (bp_module_get_function(part, "part_0_cudalibs", 0, &function) || !function)
    g_error("%s", bp_error_message());
  BpTensorView result = right;
  result.byte_offset = 64;
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
    for (int which = 0; which < 2; which++) {
      BpValue answer = {0}, args[2] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &right},
                                       {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &result}};
      args[which].v_view = cases[i].message ? cases[i].view : args[which].v_view;
      int status = bp_function_call(function, args, 2, &answer);
      if (status != (cases[i].message ? -1 : 0) ||
          (status && !strstr(bp_error_message(), cases[i].message)))
        g_error("case %zu: %s", i, bp_error_message());
      bp_error_clear();
    }
  assert_ok(bp_stream_sync(GPU0, NULL));
  bp_object_release(function);
  bp_object_release(part);
  bp_object_release(tensor);
}

/* ---- Streams and threads ----------------------------------------------------------------- */

typedef struct Runner {
  BpFunction *function;
  BpTensor *in, *out;
  BpDevice device;
  int own_stream;
} Runner;

/* Runs the part many times on a stream of this thread, or on the default one, and compares. */
static gpointer run_often(gpointer data) {
  Runner *runner = data;
  float input[32], output[12], first[12];
  void *stream = NULL;
  if (runner->own_stream)
    assert_ok(bp_stream_create(runner->device, &stream));
  for (int i = 0; i < 32; i++)
    input[i] = (float)(i % 7) / 4;
  assert_ok(bp_tensor_copy_from_host(&runner->in->view, input, sizeof(input)));
  assert_ok(bp_stream_sync(runner->device, NULL));
  for (int again = 0; again < 20; again++) {
    BpValue answer = {0},
            args[2] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &runner->in->view},
                       {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &runner->out->view}};
    BpInvocation invocation = {sizeof(invocation), runner->device, stream, 0};
    assert_ok(bp_function_launch(runner->function, &invocation, args, 2, &answer));
    assert_ok(bp_stream_sync(runner->device, stream));
    assert_ok(bp_tensor_copy_to_host(&runner->out->view, output, sizeof(output)));
    if (again == 0)
      memcpy(first, output, sizeof(output));
    g_assert_cmpmem(first, sizeof(first), output, sizeof(output));
  }
  if (stream)
    assert_ok(bp_stream_free(runner->device, stream));
  return g_memdup2(first, sizeof(first));
}

/* Threads share a part, on streams of their own and on the default stream, on every device. */
static void test_threads_share_a_part(void) {
  int32_t num_devices = 0;
  assert_ok(bp_device_count(BP_DEVICE_CUDA, &num_devices, NULL));
  BpModule *part = compile_part(small_model());
  const BpDataType type = {BP_DTYPE_FLOAT, 32, 1};
  Runner runners[6] = {0};
  GThread *threads[6];
  float *results[6];
  for (int i = 0; i < 6; i++) {
    BpDevice device = {BP_DEVICE_CUDA, i % MIN(num_devices, 2)};
    runners[i] = (Runner){.in = bp_tensor_create((int64_t[]){1, 2, 4, 4}, 4, type, device, NULL),
                          .out = bp_tensor_create((int64_t[]){1, 2, 2, 3}, 4, type, device, NULL),
                          .device = device,
                          .own_stream = i < 4};
    if (bp_module_get_function(part, "part_0_cudalibs", 0, &runners[i].function))
      g_error("%s", bp_error_message());
  }
  for (int i = 0; i < 6; i++)
    threads[i] = g_thread_new("runner", run_often, &runners[i]);
  for (int i = 0; i < 6; i++)
    results[i] = g_thread_join(threads[i]);
  for (int i = 0; i < 6; i++) {
    for (int k = 0; k < 12; k++)
      g_assert_cmpfloat_with_epsilon(results[i][k], results[0][k], 1e-5f);
    bp_object_release(runners[i].in);
    bp_object_release(runners[i].out);
    bp_object_release(runners[i].function);
  }
  for (int i = 0; i < 6; i++)
    g_free(results[i]);
  bp_object_release(part);
}

/* ---- Failures ---------------------------------------------------------------------------- */

static void expect_failure(BpModule *module, const char *kind, const char *text) {
  GPtrArray *result = run(module, GPU0);
  if (result || !bp_error_is(kind) || !strstr(bp_error_message(), text))
    g_error("expected %s, %s: %s", kind, text, result ? "success" : bp_error_message());
  bp_error_clear();
}

/* Each call of a library may fail: the run ends with an error that names the node or the size, and
 * the next run succeeds. Nothing is left when the module is freed, except the engines. */
static void test_every_call_may_fail(void) {
  static const struct {
    const char *call;
    int status;
    const char *kind, *text;
  } cases[] = {
      /* The first four calls make an engine, which later runs use. */
      {"cublasCreate_v2", CUBLAS_STATUS_ALLOC_FAILED, BP_ERROR_MEMORY, "cublasCreate_v2"},
      {"cublasSetMathMode", 7, BP_ERROR_DEVICE, "cublasSetMathMode"},
      {"cudnnCreate", 1001, BP_ERROR_DEVICE, "CUDNN_STATUS_NOT_INITIALIZED"},
      {"cudnnCreate", 4004, BP_ERROR_MEMORY, "cudnnCreate"},
      {"cudnnGetConvolutionForwardAlgorithm_v7", 5000, BP_ERROR_DEVICE, "node '"},
      {"cudnnCreateTensorDescriptor", 4003, BP_ERROR_MEMORY, "node '"},
      {"cudnnCreatePoolingDescriptor", 4003, BP_ERROR_MEMORY, "node '"},
      {"cublasSetStream_v2", 7, BP_ERROR_DEVICE, "cublasSetStream_v2"},
      {"cudnnSetStream", 2000, BP_ERROR_DEVICE, "cudnnSetStream"},
      {"cudnnConvolutionBiasActivationForward", 5000, BP_ERROR_DEVICE, "node '"},
      {"cudnnPoolingForward", 5000, BP_ERROR_DEVICE, "node '"},
      {"cublasGemmStridedBatchedEx", 13, BP_ERROR_DEVICE, "node '"},
      {"cudnnSoftmaxForward", 3000, BP_ERROR_DEVICE, "node '"},
  };
  if (!is_simulated())
    return;
  if (!g_test_subprocess()) { /* the first engine is made in a new process */
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_passed();
    return;
  }
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpModule *module = compile_model(small_model(), 1, NULL);
    if (!module)
      g_error("%s", bp_error_message());
    fail(cases[i].call, 1, cases[i].status);
    expect_failure(module, cases[i].kind, cases[i].text);
    GPtrArray *result = i < 3 ? NULL : run(module, GPU0);
    if (i >= 3 && !result)
      g_error("after %s: %s", cases[i].call, bp_error_message());
    g_clear_pointer(&result, g_ptr_array_unref);
    bp_object_release(module);
    g_assert_cmpint(count_of("descriptor"), ==, 0);
  }
}

/* Memory runs out at each allocation of the first run in turn: each error names the purpose, and
 * the run succeeds once there is memory. */
static void test_exhausted_memory_is_an_error_that_passes(void) {
  if (!is_simulated())
    return;
  if (!g_test_subprocess()) {
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_passed();
    return;
  }
  GString *messages = g_string_new(NULL);
  BpDevice device = GPU0;
  BpModule *module = compile_model(small_model(), 1, NULL);
  BpModel *model = module ? bp_model_create(module, &device, 1) : NULL;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context)
    g_error("%s", bp_error_message());
  set_input(context, bp_model_input_info(model, 0), GPU0);
  for (int n = 1; n < 10; n++) {
    fail("cuMemAlloc_v2", n, CUDA_ERROR_OUT_OF_MEMORY);
    fail("cuMemAlloc_v2", n, CUDA_ERROR_OUT_OF_MEMORY); /* the second attempt, after the release of
                                                           the reserve, fails too */
    if (bp_model_run(context) == 0)
      break;
    g_assert_true(bp_error_is(BP_ERROR_MEMORY));
    g_string_append_printf(messages, "%s\n", bp_error_message());
    bp_error_clear();
  }
  if (!strstr(messages->str, "constants of a part") ||
      !strstr(messages->str, "working memory for a part"))
    g_error("%s", messages->str);
  g_string_free(messages, TRUE);
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(module);
  g_assert_cmpint(count_of("descriptor"), ==, 0);
}

/* A call that fails on the device loses the device; the next run says so. */
static void test_lost_device_is_an_error(void) {
  if (!is_simulated())
    return;
  if (!g_test_subprocess()) {
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_passed();
    return;
  }
  void (*fail_kernel)(int) = (void (*)(int))(uintptr_t)dlsym(simulation, "fakecuda_fail_kernel");
  BpDevice device = GPU0;
  BpModule *module = compile_model(small_model(), 1, NULL);
  BpModel *model = module ? bp_model_create(module, &device, 1) : NULL;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  if (!context)
    g_error("%s", bp_error_message());
  set_input(context, bp_model_input_info(model, 0), GPU0);
  assert_ok(bp_model_run(context));
  fail_kernel(700); /* an address that is not the device's */
  g_assert_true(bp_model_run(context) || !bp_model_get_output(context, 0));
  assert_error(BP_ERROR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
  g_assert_cmpint(bp_model_run(context), ==, -1);
  assert_error(BP_ERROR_DEVICE_LOST, "lost by an earlier failure");
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(module);
  bp_error_clear();
}

/* A convolution that cuDNN does not have in one call is computed in several, and asked for once. */
static void test_unsupported_call_is_replaced_by_several(void) {
  if (!is_simulated())
    return;
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x8x9x9");
  onnx_floats(builder, "w", "8x4x3x3");
  onnx_floats(builder, "b", "8");
  onnx_node(builder, "Conv", "x,w,b", "c", "pads=1,1,1,1 group=2");
  onnx_node(builder, "Add", "x,c", "a", "");
  onnx_node(builder, "Relu", "a", "y", "");
  onnx_output(builder, "y");
  int before = count_of("cudnnConvolutionBiasActivationForward");
  check("grouped convolution with bias, sum and relu", builder, 1, 2e-5);
  g_assert_cmpint(count_of("cudnnConvolutionBiasActivationForward") - before, ==, 1);
}

/* TF32 is permitted only on demand. */
static void test_tf32_is_used_only_on_demand(void) {
  if (!is_simulated())
    return;
  if (!g_test_subprocess()) {
    int before = count_of("tf32");
    check("residual block", residual_model(), 0.9, 2e-5);
    g_assert_cmpint(count_of("tf32"), ==, before);
    run_again_with("BACKPLANE_CUDALIBS_TF32", "1");
    return;
  }
  check("residual block", residual_model(), 0.9, 2e-5);
  g_assert_cmpint(count_of("tf32"), ==, 2 * (3 + 1 + 1)); /* two runs; an addend is a product */
}

/* A recording refuses a part in words, and stays usable. */
static void test_recording_is_refused(void) {
  const BpRecordingApi *api =
      bp_device_extension(BP_DEVICE_CUDA, BP_EXTENSION_RECORDING, BP_EXTENSION_RECORDING_VERSION);
  void *stream = NULL, *context = bp_device_api(BP_DEVICE_CUDA)->context;
  BpRecording *recording = NULL;
  const BpDataType type = {BP_DTYPE_FLOAT, 32, 1};
  BpModule *part = compile_part(small_model());
  BpFunction *function = NULL;
  BpTensor *in = bp_tensor_create((int64_t[]){1, 2, 4, 4}, 4, type, GPU0, NULL);
  BpTensor *out = bp_tensor_create((int64_t[]){1, 2, 2, 3}, 4, type, GPU0, NULL);
  BpValue answer = {0}, args[2] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &in->view},
                                   {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &out->view}};
  assert_ok(bp_stream_create(GPU0, &stream));
  assert_ok(bp_module_get_function(part, "part_0_cudalibs", 0, &function));
  assert_ok(api->begin(context, 0, stream));
  BpInvocation invocation = {sizeof(invocation), GPU0, stream, 0};
  g_assert_cmpint(bp_function_launch(function, &invocation, args, 2, &answer), ==, -1);
  assert_error(BP_ERROR_NOT_IMPLEMENTED, "cannot be recorded");
  assert_ok(api->end(context, 0, stream, &recording));
  assert_ok(api->free(context, recording));
  assert_ok(bp_stream_free(GPU0, stream));
  bp_object_release(in);
  bp_object_release(out);
  bp_object_release(function);
  bp_object_release(part);
}

/* ---- Libraries --------------------------------------------------------------------------- */

/* Without a library its nodes are declined with the reason, and a saved part is an error. */
static void assert_declined(const Layer *layer, const char *reason) {
  GString *report = g_string_new(NULL);
  BpModule *module = compile_model(layer_model(layer, ONNX_FLOAT, 1), 0, report);
  if (!strstr(report->str, reason))
    g_error("%s: %s", report->str, module ? "" : bp_error_message());
  bp_object_release(module);
  bp_error_clear();
  g_string_free(report, TRUE);
}

static void test_missing_cudnn_is_a_reason(void) {
  if (!g_test_subprocess()) {
    run_again_with("BACKPLANE_CUDNN_LIBRARY", "/no/such/libcudnn.so.9");
    return;
  }
  assert_declined(&windows[0],
                  "cuDNN that BACKPLANE_CUDNN_LIBRARY=/no/such/libcudnn.so.9 names cannot be");
  if (simulation)
    check_layers(products, 2, ONNX_FLOAT, 2e-6); /* cuBLAS is still used */
}

static void test_missing_cublas_is_a_reason(void) {
  if (!g_test_subprocess())
    run_again_with("BACKPLANE_CUBLAS_LIBRARY", "/no/such/libcublas.so.12");
  else
    assert_declined(
        &products[0],
        "cuBLAS that BACKPLANE_CUBLAS_LIBRARY=/no/such/libcublas.so.12 names cannot be");
}

static void test_another_library_is_refused(void) {
  if (!g_test_subprocess())
    run_again_with("BACKPLANE_CUBLAS_LIBRARY", "libm.so.6");
  else
    assert_declined(&products[0], "lacks cublas");
}

/* An artifact is opened where cuBLAS is missing: the error names the library. */
static void test_artifact_without_its_library_is_an_error(void) {
  const char *file = g_getenv("CUDALIBS_TEST_ARTIFACT");
  if (!g_test_subprocess()) {
    BpModule *part = compile_part(layer_model(&products[0], ONNX_FLOAT, 1));
    BpOwnedBytes bytes = {0};
    char *path = g_build_filename(g_get_tmp_dir(), "cudalibs-part-XXXXXX", NULL);
    int fd = g_mkstemp(path);
    assert_ok(bp_module_save_to_bytes(part, &bytes));
    if (fd < 0 || !g_file_set_contents(path, bytes.data, (gssize)bytes.size, NULL))
      g_error("%s cannot be written", path);
    close(fd);
    g_setenv("CUDALIBS_TEST_ARTIFACT", path, TRUE);
    run_again_with("BACKPLANE_CUBLAS_LIBRARY", "/no/such/libcublas.so.12");
    unlink(path);
    g_free(path);
    bp_owned_bytes_clear(&bytes);
    bp_object_release(part);
    return;
  }
  char *data;
  gsize size;
  BpFunction *function = NULL;
  if (!g_file_get_contents(file, &data, &size, NULL))
    g_error("%s cannot be read", file);
  BpModule *part = bp_module_load_from_bytes("cudalibs", &(BpByteArray){data, size});
  if (!part)
    g_error("%s", bp_error_message());
  g_assert_cmpint(bp_module_get_function(part, "part_0_cudalibs", 0, &function), ==, -1);
  assert_error(BP_ERROR_PLUGIN, "/no/such/libcublas.so.12");
  bp_object_release(part);
  g_free(data);
}

static void *open_first(const char *const *names) {
  static const char *const folders[] = {
      "", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib64/stubs/", "/usr/lib/x86_64-linux-gnu/"};
  void *opened = NULL;
  for (; *names; names++)
    for (size_t i = 0; i < G_N_ELEMENTS(folders) && !opened; i++) {
      char *path = g_strconcat(folders[i], *names, NULL);
      opened = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
      g_free(path);
    }
  return opened;
}

/* The functions that the plugin declares exist in the libraries of this machine. */
static void test_symbols_exist(void) {
#define NAME(name, parameters) #name,
  static const char *const cublas[] = {BP_CUDALIBS_CUBLAS_FUNCTIONS(NAME)
                                           BP_CUDALIBS_CUBLAS_TEXTS(NAME) NULL};
  static const char *const cudnn[] = {BP_CUDALIBS_CUDNN_FUNCTIONS(NAME)
                                          BP_CUDALIBS_CUDNN_TEXTS(NAME) NULL};
  static const char *const driver[] = {BP_CUDA_COMMON_FUNCTIONS(NAME) NULL};
#undef NAME
  static const struct {
    const char *const *functions;
    const char *names[4];
  } libraries[] = {{cublas, {"libcublas.so.12", "libcublas.so.13"}},
                   {cudnn, {"libcudnn.so.9"}},
                   {driver, {"libcuda.so.1", "libcuda.so"}}};
  int num_libraries = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(libraries); i++) {
    void *opened = open_first(libraries[i].names);
    for (const char *const *name = libraries[i].functions; opened && *name; name++)
      if (!dlsym(opened, *name))
        g_error("%s lacks %s", libraries[i].names[0], *name);
    num_libraries += opened != NULL;
    g_test_message("%s: %s", libraries[i].names[0], opened ? "all functions" : "not here");
  }
  if (!num_libraries)
    g_test_skip("neither cuBLAS nor cuDNN nor the driver is installed here");
}

/* ---- All --------------------------------------------------------------------------------- */

static void use_simulation(void) {
  static const char *const options[] = {"BACKPLANE_CUDA_LIBRARY", "BACKPLANE_CUBLAS_LIBRARY",
                                        "BACKPLANE_CUDNN_LIBRARY"};
  char *driver = g_build_filename(g_getenv("top_builddir"), "tests/mock/.libs/fakecuda.so", NULL);
  char *compiler =
      g_build_filename(g_getenv("top_builddir"), "tests/mock/.libs/fakenvrtc.so", NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(options); i++)
    g_setenv(options[i], driver, FALSE);
  g_setenv("BACKPLANE_NVRTC_LIBRARY", compiler, FALSE);
  simulation = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
  if (!simulation)
    g_error("%s", dlerror());
  g_free(driver);
  g_free(compiler);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  if (!g_getenv("BP_TEST_GPU"))
    use_simulation();
  g_test_add_func("/cudalibs/symbols-exist", test_symbols_exist);
  g_test_add_func("/cudalibs/missing-cudnn-is-a-reason", test_missing_cudnn_is_a_reason);
  g_test_add_func("/cudalibs/missing-cublas-is-a-reason", test_missing_cublas_is_a_reason);
  g_test_add_func("/cudalibs/another-library-is-refused", test_another_library_is_refused);
  g_test_add_func("/cudalibs/artifact-without-its-library-is-an-error",
                  test_artifact_without_its_library_is_an_error);
  g_test_add_func("/cudalibs/products-agree-with-generated-code",
                  test_products_agree_with_generated_code);
  g_test_add_func("/cudalibs/products-of-other-types-agree-with-generated-code",
                  test_products_of_other_types_agree_with_generated_code);
  g_test_add_func("/cudalibs/windows-agree-with-generated-code",
                  test_windows_agree_with_generated_code);
  g_test_add_func("/cudalibs/windows-of-other-types-agree-with-generated-code",
                  test_windows_of_other_types_agree_with_generated_code);
  g_test_add_func("/cudalibs/old-softmax-is-over-all-dimensions-from-its-axis-on",
                  test_old_softmax_is_over_all_dimensions_from_its_axis_on);
  g_test_add_func("/cudalibs/residual-block-is-claimed-and-right",
                  test_residual_block_is_claimed_and_right);
  g_test_add_func("/cudalibs/outputs-that-a-part-also-reads-are-right",
                  test_outputs_that_a_part_also_reads_are_right);
  g_test_add_func("/cudalibs/sums-of-two-convolutions-are-right",
                  test_sums_of_two_convolutions_are_right);
  g_test_add_func("/cudalibs/random-graphs-agree-with-generated-code",
                  test_random_graphs_agree_with_generated_code);
  g_test_add_func("/cudalibs/unsupported-nodes-are-declined-with-the-reason",
                  test_unsupported_nodes_are_declined_with_the_reason);
  g_test_add_func("/cudalibs/saved-part-is-loaded-and-runs", test_saved_part_is_loaded_and_runs);
  g_test_add_func("/cudalibs/wrong-arguments-are-errors", test_wrong_arguments_are_errors);
  g_test_add_func("/cudalibs/damaged-bytes-cause-no-access-out-of-bounds",
                  test_damaged_bytes_cause_no_access_out_of_bounds);
  g_test_add_func("/cudalibs/every-call-may-fail", test_every_call_may_fail);
  g_test_add_func("/cudalibs/exhausted-memory-is-an-error-that-passes",
                  test_exhausted_memory_is_an_error_that_passes);
  g_test_add_func("/cudalibs/lost-device-is-an-error", test_lost_device_is_an_error);
  g_test_add_func("/cudalibs/unsupported-call-is-replaced-by-several",
                  test_unsupported_call_is_replaced_by_several);
  g_test_add_func("/cudalibs/tf32-is-used-only-on-demand", test_tf32_is_used_only_on_demand);
  g_test_add_func("/cudalibs/recording-is-refused", test_recording_is_refused);
  g_test_add_func("/cudalibs/threads-share-a-part", test_threads_share_a_part);
  return g_test_run();
}
