/* SPDX-License-Identifier: Apache-2.0 */
/* Plugin dnnl: models that oneDNN computes, compared with generated code; processes without the
 * plugin, and damaged bytes. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/graph/onnx_builder.h"

/* ---- Compiling and running --------------------------------------------------------------- */

static int note(void *context, const BpClaimedNode *node) {
  g_string_append_printf(context, "%s: %s %s\n", node->op, node->compiler ? node->compiler : "-",
                         node->why ? node->why : node->function);
  return 0;
}

/* Compiles for the CPU. If `least` is not negative, oneDNN claims at least this share of the nodes.
 * `report` may be NULL. NULL with an error. */
static BpModule *compile_shaped(const char *path, const BpInputShape *shape, double least,
                                GString *report) {
  static const char *const names[] = {"dnnl"};
  const BpTarget *target = bp_target_parse("c -options=-O0");
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = &target,
                              .num_targets = 1,
                              .shapes = shape,
                              .num_shapes = shape != NULL,
                              .shape_size = sizeof(*shape),
                              .num_graph_compilers = least >= 0,
                              .graph_compilers = names,
                              .least_claimed = least >= 0 ? least : 0,
                              .claimed = report ? note : NULL,
                              .claimed_context = report};
  BpModule *module = target ? bp_model_compile(path, &options) : NULL;
  bp_object_release((BpTarget *)(uintptr_t)target);
  return module;
}

static BpModule *compile(const char *path, double least, GString *report) {
  return compile_shaped(path, NULL, least, report);
}

/* Returns an open extent in a run of size `n`, by dimension, so that equal names in one position
 * are equal. */
static int64_t open_extent(int64_t n, int32_t dimension) {
  return dimension == 0 ? n : 4 + n + dimension;
}

/* Returns all outputs, one after the other, of a model whose inputs are filled with the same
 * numbers. */
static GArray *run_sized(BpModule *module, int64_t n) {
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  GArray *all = g_array_new(FALSE, FALSE, sizeof(float));
  if (!context)
    g_error("%s", bp_error_message());
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    int64_t shape[6];
    for (int32_t d = 0; d < info->ndim; d++)
      shape[d] = info->shape[d] < 0 ? open_extent(n, d) : info->shape[d];
    BpTensor *tensor =
        bp_tensor_create(shape, info->ndim, info->dtype, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
    float *values = onnx_float_values(bp_view_num_elements(&tensor->view));
    if (bp_tensor_copy_from_host(&tensor->view, values,
                                 (uint64_t)bp_view_num_bytes(&tensor->view)) ||
        bp_model_set_input(context, info->name, &tensor->view))
      g_error("%s", bp_error_message());
    g_free(values);
    bp_object_release(tensor);
  }
  for (int again = 0; again < 2; again++)
    if (bp_model_run(context))
      g_error("%s", bp_error_message());
  for (int32_t i = 0; i < bp_model_num_outputs(model); i++) {
    BpTensor *output = bp_model_get_output(context, i);
    guint old = all->len;
    g_array_set_size(all, old + (guint)bp_view_num_elements(&output->view));
    if (bp_tensor_copy_to_host(&output->view, &g_array_index(all, float, old),
                               (uint64_t)bp_view_num_bytes(&output->view)))
      g_error("%s", bp_error_message());
  }
  bp_model_context_free(context);
  bp_model_release(model);
  return all;
}

static GArray *run(BpModule *module) {
  return run_sized(module, 2);
}

static void compare(const char *what, const GArray *got, const GArray *want) {
  float largest = 0;
  g_assert_cmpuint(got->len, ==, want->len);
  for (guint i = 0; i < want->len; i++)
    largest = fmaxf(largest, fabsf(g_array_index(want, float, i)));
  for (guint i = 0; i < want->len; i++) {
    float a = g_array_index(got, float, i), b = g_array_index(want, float, i);
    if (!(fabsf(a - b) <= 2e-5f * largest + 1e-6f))
      g_error("%s: element %u is %g instead of %g", what, i, (double)a, (double)b);
  }
}

/* Compares runs of these sizes, in which oneDNN takes at least this share of the nodes; frees the
 * builder. */
static void check_sizes(const char *what, OnnxBuilder *builder, double least, const int64_t *sizes,
                        int num_sizes) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpModule *plain = compile(path, -1, NULL), *claimed = plain ? compile(path, least, NULL) : NULL;
  if (!claimed)
    g_error("%s: %s", what, bp_error_message());
  for (int i = 0; i < num_sizes; i++) {
    GArray *want = run_sized(plain, sizes[i]), *got = run_sized(claimed, sizes[i]);
    compare(what, got, want);
    g_array_unref(want);
    g_array_unref(got);
  }
  bp_object_release(plain);
  bp_object_release(claimed);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static void check(const char *what, OnnxBuilder *builder, double least) {
  check_sizes(what, builder, least, (const int64_t[]){2}, 1);
}

/* ---- Single operators -------------------------------------------------------------------- */

typedef struct Layer {
  const char *op, *input, *weights, *bias, *attrs;
} Layer;

static void test_layers_agree_with_generated_code(void) {
  static const Layer layers[] = {
      {"Conv", "1x3x11x13", "8x3x3x3", NULL, "pads=1,1,1,1"},
      {"Conv", "2x16x9x9", "32x16x3x3", "32", "strides=2,2 pads=0,1,1,0"},
      {"Conv", "1x12x8x8", "12x1x3x3", "12", "group=12 pads=1,1,1,1"},
      {"Conv", "1x8x12x12", "16x4x3x3", NULL, "group=2 dilations=2,2"},
      {"Conv", "1x5x10x7", "7x5x1x1", "7", ""},
      {"Conv", "1x3x10x10", "4x3x3x3", NULL, "auto_pad=SAME_LOWER strides=2,2"},
      {"Conv", "1x3x10x11", "4x3x4x2", NULL, "auto_pad=SAME_UPPER strides=3,2"},
      {"Conv", "2x3x20", "6x3x5", "6", "pads=2,2 strides=2,"},
      {"Conv", "1x2x5x6x7", "4x2x3x3x3", NULL, "pads=1,1,1,1,1,1"},
      {"MatMul", "5x7", "7x9", NULL, ""},
      {"MatMul", "2x3x5x7", "7x9", NULL, ""},
      {"MatMul", "3x5x7", "3x7x4", NULL, ""},
      {"Gemm", "5x7", "7x9", "9", ""},
      {"Gemm", "5x7", "9x7", "1x9", "transB=1"},
      {"Gemm", "7x5", "7x9", NULL, "transA=1"},
      {"Gemm", "7x5", "9x7", "9", "transA=1 transB=1"},
      {"MaxPool", "1x5x11x12", NULL, NULL, "kernel_shape=3,3 strides=2,2 pads=1,1,1,1"},
      {"MaxPool", "1x5x10x10", NULL, NULL, "kernel_shape=3,3 strides=2,2 ceil_mode=1"},
      {"MaxPool", "1x3x10x9", NULL, NULL, "kernel_shape=2,3 dilations=2,2"},
      {"MaxPool", "2x3x17", NULL, NULL, "kernel_shape=4, strides=3,"},
      {"AveragePool", "1x5x11x12", NULL, NULL, "kernel_shape=3,3 strides=2,2 pads=1,1,1,1"},
      {"AveragePool", "1x5x8x8", NULL, NULL, "kernel_shape=3,3 pads=1,1,1,1 count_include_pad=1"},
      {"AveragePool", "1x5x8x9", NULL, NULL, "kernel_shape=2,2 strides=2,2 ceil_mode=1"},
      {"GlobalAveragePool", "2x7x5x6", NULL, NULL, ""},
      {"Softmax", "4x6x5", NULL, NULL, ""},
      {"Softmax", "4x6x5", NULL, NULL, "axis=1"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(layers); i++) {
    const Layer *l = &layers[i];
    for (int is_variable = 0; is_variable <= !strcmp(l->op, "MatMul"); is_variable++) {
      OnnxBuilder *builder = onnx_builder_new();
      char *what = g_strjoin(" ", l->op, l->input, l->weights ? l->weights : "", l->attrs, NULL);
      onnx_input(builder, "x", ONNX_FLOAT, l->input);
      if (l->weights && is_variable)
        onnx_input(builder, "w", ONNX_FLOAT, l->weights);
      else if (l->weights)
        onnx_floats(builder, "w", l->weights);
      if (l->bias)
        onnx_floats(builder, "b", l->bias);
      onnx_node(builder, l->op, !l->weights ? "x" : l->bias ? "x,w,b" : "x,w", "y", l->attrs);
      onnx_output(builder, "y");
      check(what, builder, 1);
      g_free(what);
    }
  }
}

/* One module computes runs of every size: repeated sizes, size 0, and more sizes than it keeps
 * primitives for. */
static const int64_t sizes[] = {1, 3, 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 1, 3};

static void test_layers_with_open_extents_agree_with_generated_code(void) {
  static const Layer layers[] = {
      {"Conv", "Nx3xHxW", "8x3x3x3", "8", "pads=1,1,1,1"},
      {"Conv", "Nx4xHxW", "6x2x3x2", NULL, "group=2 strides=2,3 pads=0,1,1,0 dilations=1,2"},
      {"Conv", "1x3xHx9", "4x3x3x3", NULL, "strides=2,2 auto_pad=VALID"},
      {"Conv", "Nx3x10x10", "4x3x3x3", NULL, "auto_pad=SAME_LOWER strides=2,2"},
      {"Conv", "Nx3xL", "6x3x5", "6", "pads=2,2 strides=2,"},
      {"MatMul", "Nx7", "7x9", NULL, ""},
      {"MatMul", "NxSx5x7", "7x9", NULL, ""},
      {"MatMul", "NxSx7", "Nx7xT", NULL, ""},
      {"Gemm", "Nx7", "9x7", "1x9", "transB=1"},
      {"Gemm", "7xM", "7x9", "9", "transA=1"},
      {"MaxPool", "Nx5xHxW", NULL, NULL, "kernel_shape=3,3 strides=2,2 pads=1,1,1,1"},
      {"MaxPool", "Nx5x10x10", NULL, NULL, "kernel_shape=3,3 strides=2,2 ceil_mode=1"},
      {"AveragePool", "Nx5xHxW", NULL, NULL, "kernel_shape=3,2 strides=2,1 pads=1,0,1,1"},
      {"AveragePool", "Nx5xHxW", NULL, NULL, "kernel_shape=3,3 pads=1,1,1,1 count_include_pad=1"},
      {"GlobalAveragePool", "Nx7xHxW", NULL, NULL, ""},
      {"Softmax", "NxMx5", NULL, NULL, ""},
      {"Softmax", "NxMx5", NULL, NULL, "axis=1"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(layers); i++) {
    const Layer *l = &layers[i];
    OnnxBuilder *builder = onnx_builder_new();
    char *what = g_strjoin(" ", l->op, l->input, l->weights ? l->weights : "", l->attrs, NULL);
    onnx_input(builder, "x", ONNX_FLOAT, l->input);
    if (l->weights && strchr(l->weights, 'N'))
      onnx_input(builder, "w", ONNX_FLOAT, l->weights);
    else if (l->weights)
      onnx_floats(builder, "w", l->weights);
    if (l->bias)
      onnx_floats(builder, "b", l->bias);
    onnx_node(builder, l->op, !l->weights ? "x" : l->bias ? "x,w,b" : "x,w", "y", l->attrs);
    onnx_output(builder, "y");
    check_sizes(what, builder, 1, sizes, G_N_ELEMENTS(sizes));
    g_free(what);
  }
}

/* ---- Parts ------------------------------------------------------------------------------- */

/* A residual block: two convolutions, the added input, and a value with two readers. */
static OnnxBuilder *residual_model_of(const char *shape) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, shape);
  onnx_floats(builder, "w0", "16x3x3x3");
  onnx_floats(builder, "b0", "16");
  onnx_floats(builder, "w1", "16x16x3x3");
  onnx_floats(builder, "w2", "16x16x3x3");
  onnx_floats(builder, "w3", "256x10");
  onnx_node(builder, "Conv", "x,w0,b0", "c0", "pads=1,1,1,1");
  onnx_node(builder, "Relu", "c0", "r0", "");
  onnx_node(builder, "MaxPool", "r0", "p0", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Conv", "p0,w1", "c1", "pads=1,1,1,1");
  onnx_node(builder, "Relu", "c1", "r1", "");
  onnx_node(builder, "Conv", "r1,w2", "c2", "pads=1,1,1,1");
  onnx_node(builder, "Add", "c2,p0", "a2", "");
  onnx_node(builder, "Relu", "a2", "r2", "");
  onnx_node(builder, "MaxPool", "r2", "p2", "kernel_shape=2,2 strides=2,2");
  onnx_node(builder, "Flatten", "p2", "f", "");
  onnx_node(builder, "MatMul", "f,w3", "m", "");
  onnx_node(builder, "Softmax", "m", "y", "");
  onnx_output(builder, "y");
  onnx_output(builder, "r2");
  return builder;
}

static OnnxBuilder *residual_model(void) {
  return residual_model_of("1x3x16x16");
}

static void test_residual_block_is_claimed_and_right(void) {
  check("residual block", residual_model(), 11.0 / 12);
}

static void test_open_residual_block_is_claimed_and_right(void) {
  check_sizes("residual block of N images", residual_model_of("Nx3x16x16"), 11.0 / 12, sizes,
              G_N_ELEMENTS(sizes));
}

/* Nodes of a part read a result that is also an output of the part: the result is in the caller's
 * memory, or also in the part's memory. */
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
  check("results inside", builder, 0.5);
}

/* One Add reads two convolutions, or two products: only one of them includes the Add. */
static void test_sums_of_parallel_branches_are_right(void) {
  for (int is_product = 0; is_product < 2; is_product++)
    for (int has_relu = 0; has_relu < 2; has_relu++) {
      OnnxBuilder *builder = onnx_builder_new();
      const char *op = is_product ? "MatMul" : "Conv", *attrs = is_product ? "" : "pads=1,1,1,1";
      onnx_input(builder, "x", ONNX_FLOAT, is_product ? "3x8" : "1x4x7x9");
      onnx_input(builder, "h", ONNX_FLOAT, is_product ? "3x5" : "1x3x7x9");
      onnx_floats(builder, "w", is_product ? "8x6" : "8x4x3x3");
      onnx_floats(builder, "u", is_product ? "5x6" : "8x3x3x3");
      onnx_node(builder, op, "x,w", "a", attrs);
      onnx_node(builder, op, "h,u", "b", attrs);
      onnx_node(builder, "Add", "a,b", has_relu ? "s" : "y", "");
      if (has_relu)
        onnx_node(builder, "Relu", "s", "y", "");
      onnx_output(builder, "y");
      check(is_product ? "sum of two products" : "sum of two convolutions", builder, 1);
    }
}

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 16;
}

/* Layers of one shape that read earlier layers at random; oneDNN does not support some of them. */
static void test_random_graphs_agree_with_generated_code(void) {
  static const char *const ops[] = {"Conv", "Conv", "Relu", "Add", "MaxPool", "Neg", "Softmax"};
  for (uint32_t seed = 1; seed <= 10; seed++) {
    OnnxBuilder *builder = onnx_builder_new();
    uint32_t state = seed * 977;
    char *what = g_strdup_printf("random graph %u", seed);
    onnx_input(builder, "v0", ONNX_FLOAT, "1x8x6x7");
    onnx_floats(builder, "w", "8x8x3x3");
    for (uint32_t known = 1; known < 14; known++) {
      const char *op = ops[next_random(&state) % G_N_ELEMENTS(ops)];
      uint32_t a = known - 1 - next_random(&state) % MIN(known, 3), b = next_random(&state) % known;
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
    check(what, builder, 0);
    g_free(what);
  }
}

static void test_digits_agree_with_generated_code(void) {
  char *path = g_build_filename(g_getenv("top_srcdir"), "examples/digits/digits.onnx", NULL);
  GString *report = g_string_new(NULL);
  const BpInputShape shape = {"image", (const int64_t[]){2, 1, 28, 28}, 4};
  BpModule *plain = compile_shaped(path, &shape, -1, NULL);
  BpModule *claimed = compile_shaped(path, &shape, 0.5, report);
  if (!plain || !claimed)
    g_error("%s", bp_error_message());
  GArray *want = run(plain), *got = run(claimed);
  compare("digits", got, want);
  g_assert_nonnull(strstr(report->str, "Conv: dnnl part_0_dnnl"));
  g_array_unref(want);
  g_array_unref(got);
  g_string_free(report, TRUE);
  bp_object_release(plain);
  bp_object_release(claimed);
  g_free(path);
}

/* Unsupported nodes are not claimed, with the reason. */
static void test_unsupported_nodes_are_declined_with_the_reason(void) {
  static const struct {
    const char *op, *inputs, *attrs, *why;
  } cases[] = {
      {"Relu", "x", "", "only directly after a convolution or a product"},
      {"Gemm", "x,w", "alpha=2.0", "alpha or beta is not 1"},
      {"MatMul", "h,h", "", "takes only float32"},
      {"Exp", "x", "", "does not have this operator"},
      {"MaxPool", "p", "kernel_shape=2,2 auto_pad=SAME_UPPER", "SAME_LOWER along an open extent"},
      {"MaxPool", "p", "kernel_shape=2,2 ceil_mode=1", "ceil_mode along an open extent"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    OnnxBuilder *builder = onnx_builder_new();
    GString *report = g_string_new(NULL);
    onnx_input(builder, "x", ONNX_FLOAT, "4x4");
    onnx_input(builder, "h", 11, "4x4");
    onnx_input(builder, "p", ONNX_FLOAT, "1x3xHxW");
    onnx_floats(builder, "w", "4x4");
    onnx_node(builder, cases[i].op, cases[i].inputs, "y", cases[i].attrs);
    onnx_output(builder, "y");
    GByteArray *bytes = onnx_bytes(builder);
    char *path = onnx_write(bytes);
    BpModule *module = compile(path, 0, report);
    if (!module || !strstr(report->str, cases[i].why))
      g_error("%s: %s: %s", cases[i].op, report->str, module ? "" : bp_error_message());
    bp_object_release(module);
    unlink(path);
    g_free(path);
    g_byte_array_unref(bytes);
    g_string_free(report, TRUE);
    onnx_builder_free(builder);
  }
}

/* ---- Artifacts --------------------------------------------------------------------------- */

static void test_saved_part_is_loaded_and_runs(void) {
  OnnxBuilder *builder = residual_model();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), *library = g_strconcat(path, ".so", NULL);
  BpModule *module = compile(path, 0.9, NULL);
  if (!module || bp_module_export_library(module, library))
    g_error("%s", bp_error_message());
  BpModule *loaded = bp_model_open(library);
  if (!loaded)
    g_error("%s", bp_error_message());
  GArray *want = run(module), *got = run(loaded);
  compare("loaded", got, want);
  g_array_unref(want);
  g_array_unref(got);
  bp_object_release(loaded);
  bp_object_release(module);
  unlink(library);
  unlink(path);
  g_free(library);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* Finds the first module of kind dnnl in a module and its imports (borrowed), or NULL. */
static BpModule *find_part(BpModule *module) {
  BpModule *part = NULL;
  if (!strcmp(bp_module_kind(module), "dnnl"))
    return module;
  for (size_t i = 0; i < bp_module_num_imports(module) && !part; i++)
    part = find_part(bp_module_get_import(module, i));
  return part;
}

/* Compiles a model, and returns the first part that oneDNN computes (transfer full). Frees the
 * builder. */
static BpModule *compile_part(OnnxBuilder *builder) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpModule *module = compile(path, 0, NULL), *part = module ? find_part(module) : NULL;
  if (!part)
    g_error("%s", module ? "there is no module of kind dnnl" : bp_error_message());
  bp_object_retain(part);
  bp_object_release(module);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return part;
}

/* Calls the function of a part directly: arguments that it would misread are errors. */
static void test_wrong_arguments_are_errors(void) {
  const BpTensorView right = {.device = {BP_DEVICE_CPU, 0},
                              .ndim = 2,
                              .dtype = {BP_DTYPE_FLOAT, 32, 1},
                              .data = (float[32]){0},
                              .shape = (int64_t[]){4, 4}};
  BpTensorView turned = right, compact = right, lanes = right, away = right, bits = right,
               shape = right, flat = right;
  turned.strides = (int64_t[]){1, 4};
  compact.strides = (int64_t[]){4, 1};
  lanes.dtype.lanes = 2;
  away.device.device_type = BP_DEVICE_CUDA;
  bits.dtype.bits = 16;
  shape.shape = (int64_t[]){4, 5};
  flat.ndim = 1;
  const struct {
    BpTensorView *view;
    const char *kind, *message;
  } cases[] = {
      {&compact, NULL, NULL},
      {&turned, BP_ERROR_VALUE, "has the stride 4; expected 1"},
      {&lanes, BP_ERROR_TYPE, "32 bits and 2 lanes; expected float32"},
      {&bits, BP_ERROR_TYPE, "16 bits and 1 lanes; expected float32"},
      {&away, BP_ERROR_VALUE, "expected the CPU"},
      {&shape, BP_ERROR_VALUE, "has the extent 5; expected 4"},
      {&flat, BP_ERROR_VALUE, "has 1 dimensions; expected 2"},
  };
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4x4");
  onnx_floats(builder, "w", "4x4");
  onnx_node(builder, "MatMul", "x,w", "y", "");
  onnx_output(builder, "y");
  BpModule *part = compile_part(builder);
  BpFunction *function = NULL;
  if (bp_module_get_function(part, "part_0_dnnl", 0, &function) || !function)
    g_error("%s", bp_error_message());
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
    for (int which = 0; which < 2; which++) {
      float result[32];
      BpTensorView output = right;
      output.data = result;
      BpValue args[2] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = (void *)(uintptr_t)&right},
                         {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &output}};
      BpValue answer = {0};
      BpTensorView wrong = *cases[i].view;
      wrong.data = which ? result : right.data;
      args[which].v_view = &wrong;
      int status = bp_function_call(function, args, 2, &answer);
      g_assert_cmpint(status, ==, cases[i].message ? -1 : 0);
      if (status && (g_strcmp0(bp_error_kind(), cases[i].kind) ||
                     !strstr(bp_error_message(), cases[i].message)))
        g_error("case %zu: %s", i, bp_error_message());
      bp_error_clear();
    }
  bp_object_release(function);
  bp_object_release(part);
}

/* Loads a module from bytes and asks for its function, which makes the primitives. Returns 1 if
 * there is one, else 0; the error is cleared. */
static int ask_for_function(const char *bytes, size_t size) {
  BpFunction *function = NULL;
  BpModule *module = bp_module_load_from_bytes("dnnl", &(BpByteArray){bytes, size});
  if (module && bp_module_get_function(module, "part_0_dnnl", 0, &function) == 0 && function) {
    bp_object_release(function);
    bp_object_release(module);
    return 1;
  }
  bp_object_release(module);
  bp_error_clear();
  return 0;
}

/* Invalid sizes of a window are errors, for each of the numbers and each extreme. The module's one
 * step is found by its kernel and strides, which no other bytes repeat. */
static void test_windows_out_of_range_are_errors(void) {
  static const int64_t extremes[] = {INT64_MIN, INT64_MAX, INT32_MIN, (int64_t)INT32_MAX + 1, 7};
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "1x4x17x19");
  onnx_floats(builder, "w", "4x4x3x2");
  onnx_node(builder, "Conv", "x,w", "y", "strides=4,5");
  onnx_output(builder, "y");
  BpModule *part = compile_part(builder);
  BpOwnedBytes bytes = {0};
  if (bp_module_save_to_bytes(part, &bytes))
    g_error("%s", bp_error_message());
  const int64_t window[15] = {3, 2, 0, 4, 5, 0, 1, 1, 0};
  char *copy = g_memdup2(bytes.data, bytes.size);
  char *at = memmem(copy, bytes.size, window, 9 * sizeof(*window));
  g_assert_nonnull(at);
  g_assert_cmpint(ask_for_function(copy, bytes.size), ==, 1);
  for (int i = 0; i < 15; i++)
    for (size_t k = 0; i % 3 < 2 && k < G_N_ELEMENTS(extremes); k++) {
      int64_t old;
      memcpy(&old, at + i * 8, 8);
      memcpy(at + i * 8, &extremes[k], 8);
      if (ask_for_function(copy, bytes.size))
        g_error("number %d of a window may be %" G_GINT64_FORMAT, i, extremes[k]);
      memcpy(at + i * 8, &old, 8);
    }
  g_free(copy);
  bp_owned_bytes_clear(&bytes);
  bp_object_release(part);
}

/* For every changed byte of a saved module, and for every truncation, loading it and asking for its
 * function gives an error or a function. */
static void test_damaged_bytes_are_no_crash(void) {
  BpModule *part = compile_part(residual_model());
  BpOwnedBytes bytes = {0};
  if (bp_module_save_to_bytes(part, &bytes))
    g_error("%s", bp_error_message());
  char *copy = g_memdup2(bytes.data, bytes.size);
  for (size_t at = 0; at < MIN(bytes.size, 3000); at++) {
    copy[at] = (char)(copy[at] ^ (at % 2 ? 0x80 : 0x7f));
    ask_for_function(copy, bytes.size);
    copy[at] = bytes.data[at];
  }
  for (size_t size = 0; size < bytes.size; size += 1 + bytes.size / 500) {
    g_assert_null(bp_module_load_from_bytes("dnnl", &(BpByteArray){copy, size}));
    bp_error_clear();
  }
  g_free(copy);
  bp_owned_bytes_clear(&bytes);
  bp_object_release(part);
}

/* ---- Single operators, called directly --------------------------------------------------- */

/* Makes a tensor on the host with the numbers of a constant of its size. */
static BpTensor *make_tensor(const int64_t *shape, int32_t ndim) {
  const BpDataType type = {BP_DTYPE_FLOAT, 32, 1};
  BpTensor *tensor = bp_tensor_create(shape, ndim, type, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  float *values = onnx_float_values(bp_view_num_elements(&tensor->view));
  memcpy(tensor->view.data, values, (size_t)bp_view_num_bytes(&tensor->view));
  g_free(values);
  return tensor;
}

/* Reads "2x3x4". */
static BpTensor *tensor_of_text(const char *text) {
  int64_t shape[6];
  int32_t ndim = 0;
  for (char *at = (char *)(uintptr_t)text; *at; at += *at == 'x')
    shape[ndim++] = g_ascii_strtoll(at, &at, 10);
  return make_tensor(shape, ndim);
}

static BpValue tensor_value(BpTensor *tensor) {
  return (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &tensor->view};
}

static BpValue int_value(int64_t number) {
  return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = number};
}

static BpValue text_value(const char *text) {
  return (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = text};
}

/* Arguments of an operator's function, which own their tensors and shapes. */
typedef struct Arguments {
  BpValue values[24];
  int32_t count;
  GPtrArray *objects;
} Arguments;

static void add_argument(Arguments *arguments, BpValue value, void *object) {
  arguments->values[arguments->count++] = value;
  if (object)
    g_ptr_array_add(arguments->objects, object);
}

/* Adds attributes: "strides=2,2 group=2 mode=x alpha=0.5". */
static void add_attributes(Arguments *arguments, const char *text) {
  char **words = g_strsplit(text, " ", -1);
  for (char **word = words; *word && **word; word++) {
    char *value = strchr(*word, '=');
    *value++ = '\0';
    add_argument(arguments, text_value(g_intern_string(*word)), NULL);
    if (strchr(value, ',')) {
      int64_t numbers[8];
      size_t count = 0;
      for (char *at = value; *at; at += *at == ',')
        numbers[count++] = g_ascii_strtoll(at, &at, 10);
      BpShape *shape = bp_shape_create(numbers, count);
      add_argument(arguments, (BpValue){.type_index = BP_TYPE_SHAPE, .v_obj = &shape->header},
                   shape);
    } else if (g_ascii_isdigit(*value) || *value == '-') {
      add_argument(arguments, int_value(g_ascii_strtoll(value, NULL, 10)), NULL);
    } else {
      add_argument(arguments, text_value(g_intern_string(value)), NULL);
    }
  }
  g_strfreev(words);
}

static Arguments make_arguments(const Layer *layer, BpTensor *output) {
  const char *const shapes[] = {layer->input, layer->weights, layer->bias};
  Arguments arguments = {.objects = g_ptr_array_new_with_free_func(bp_object_release)};
  add_argument(&arguments, int_value(13), NULL);
  add_argument(&arguments, int_value(3), NULL);
  for (int i = 0; i < 3; i++) {
    BpTensor *tensor = shapes[i] ? tensor_of_text(shapes[i]) : NULL;
    add_argument(&arguments, tensor ? tensor_value(tensor) : (BpValue){0}, tensor);
  }
  add_argument(&arguments, int_value(1), NULL);
  add_argument(&arguments, tensor_value(output), NULL);
  add_attributes(&arguments, layer->attrs);
  return arguments;
}

static BpFunction *find_operator(const char *op) {
  char *name = g_strconcat("operator.dnnl.", op, NULL);
  BpFunction *function = NULL;
  if (bp_registry_get(name, &function) || !function)
    g_error("%s: %s", name, bp_error_message());
  g_free(name);
  return function;
}

/* Computes a layer by generated code, and its shape. */
static GArray *expected_of(const Layer *l, BpTensor **output) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, l->input);
  if (l->weights)
    onnx_floats(builder, "w", l->weights);
  if (l->bias)
    onnx_floats(builder, "b", l->bias);
  onnx_node(builder, l->op, !l->weights ? "x" : l->bias ? "x,w,b" : "x,w", "y", l->attrs);
  onnx_output(builder, "y");
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpModule *module = compile(path, -1, NULL);
  if (!module)
    g_error("%s", bp_error_message());
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  const BpModelTensorInfo *info = bp_model_output_info(model, 0);
  *output = make_tensor(info->shape, info->ndim);
  GArray *want = run(module);
  bp_model_release(model);
  bp_object_release(module);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  return want;
}

static void test_operators_agree_with_generated_code(void) {
  static const Layer layers[] = {
      {"Conv", "2x16x9x9", "32x16x3x3", "32", "strides=2,2 pads=0,1,1,0"},
      {"Conv", "1x8x12x12", "16x4x3x3", NULL, "group=2 dilations=2,2"},
      {"Conv", "1x3x10x10", "4x3x3x3", NULL, "auto_pad=SAME_LOWER strides=2,2"},
      {"MatMul", "3x5x7", "7x9", NULL, ""},
      {"Gemm", "5x7", "9x7", "1x9", "transB=1"},
      {"MaxPool", "1x5x11x12", NULL, NULL, "kernel_shape=3,3 strides=2,2 pads=1,1,1,1"},
      {"GlobalAveragePool", "2x7x5x6", NULL, NULL, ""},
      {"Softmax", "4x6x5", NULL, NULL, "axis=1"},
      {"Relu", "4x5", NULL, NULL, ""},
      {"Add", "4x5", "4x5", NULL, ""},
  };
  for (int again = 0; again < 2; again++)
    for (size_t i = 0; i < G_N_ELEMENTS(layers); i++) {
      BpTensor *output;
      GArray *want = expected_of(&layers[i], &output);
      BpFunction *function = find_operator(layers[i].op);
      Arguments arguments = make_arguments(&layers[i], output);
      BpValue result = {0};
      if (bp_function_call(function, arguments.values, arguments.count, &result))
        g_error("%s: %s", layers[i].op, bp_error_message());
      GArray *got = g_array_new(FALSE, FALSE, sizeof(float));
      g_array_append_vals(got, output->view.data, (guint)bp_view_num_elements(&output->view));
      compare(layers[i].op, got, want);
      g_array_unref(got);
      g_array_unref(want);
      g_ptr_array_unref(arguments.objects);
      bp_object_release(output);
      bp_object_release(function);
    }
}

/* Malformed calls are errors that name the fault, and unsupported operators are NotImplemented. */
static void test_operators_refuse_wrong_calls(void) {
  const int64_t shape[] = {5, 9};
  BpTensor *output = make_tensor(shape, 2), *other = make_tensor((int64_t[]){5, 8}, 2);
  BpTensor *a = make_tensor((int64_t[]){5, 7}, 2), *b = make_tensor((int64_t[]){7, 9}, 2);
  BpFunction *function = find_operator("MatMul");
  BpValue right[] = {int_value(13), int_value(2),         tensor_value(a), tensor_value(b),
                     int_value(1),  tensor_value(output), text_value("x"), int_value(1)};
  BpTensorView wide = a->view;
  wide.dtype.bits = 16;
  const struct {
    int32_t count, at;
    BpValue value;
    const char *kind, *text;
  } cases[] = {
      {6, 0, int_value(13), NULL, NULL},
      {8, 0, int_value(13), BP_ERROR_NOT_IMPLEMENTED, "knows no attribute x"},
      {0, 0, int_value(13), BP_ERROR_TYPE, "argument 0 of operator MatMul is not the version"},
      {1, 0, int_value(13), BP_ERROR_TYPE, "argument 1 of operator MatMul is not a number"},
      {6, 1, int_value(9), BP_ERROR_TYPE, "argument 1 of operator MatMul is not a number"},
      {6, 2, int_value(9), BP_ERROR_TYPE, "argument 2 of operator MatMul is no tensor"},
      {7, 0, int_value(13), BP_ERROR_TYPE, "the last attribute of operator MatMul has no value"},
      {6, 3, (BpValue){0}, BP_ERROR_NOT_IMPLEMENTED, "operator.dnnl.MatMul: a required input"},
      {6, 2, (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &wide},
       BP_ERROR_NOT_IMPLEMENTED, "takes only float32"},
      {6, 5, tensor_value(other), NULL, "dnnl"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpValue arguments[8], result = {0};
    memcpy(arguments, right, sizeof(right));
    arguments[cases[i].at] = cases[i].value;
    int status = bp_function_call(function, arguments, cases[i].count, &result);
    g_assert_cmpint(status, ==, cases[i].text ? -1 : 0);
    if (cases[i].text && ((cases[i].kind && g_strcmp0(bp_error_kind(), cases[i].kind)) ||
                          !strstr(bp_error_message(), cases[i].text)))
      g_error("case %zu: %s: %s", i, bp_error_kind(), bp_error_message());
    bp_error_clear();
  }
  BpTensor *const all[] = {output, other, a, b};
  for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
    bp_object_release(all[i]);
  bp_object_release(function);
}

/* An ignored attribute, or invented padding, would make the result wrong. */
static void test_operators_refuse_unknown_attributes(void) {
  static const struct {
    Layer layer;
    const char *output, *kind, *text;
  } cases[] = {
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, ""}, "1x4x6x6", NULL, NULL},
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, ""}, "1x4x8x8", BP_ERROR_VALUE, "spatial extent"},
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, ""}, "1x4x6x7", BP_ERROR_VALUE, "spatial extent"},
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, "auto_pad=VALID"}, "1x4x6x6", NULL, NULL},
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, "auto_pad=SAME_UPPER"},
       "1x4x6x6",
       BP_ERROR_VALUE,
       "spatial extent"},
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, "auto_pad=SOME"}, "1x4x6x6", BP_ERROR_VALUE, "NOTSET"},
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, "strides=2"}, "1x4x6x6", BP_ERROR_TYPE, "is a shape"},
      {{"Conv", "1x4x8x8", "4x4x3x3", NULL, "kernel_shape=2,3"},
       "1x4x6x6",
       BP_ERROR_VALUE,
       "kernel_shape"},
      {{"MaxPool", "1x4x8x8", NULL, NULL, "kernel_shape=3,3 strides=2,2 ceil_mode=1"},
       "1x4x4x4",
       NULL,
       NULL},
      {{"MaxPool", "1x4x8x8", NULL, NULL, "kernel_shape=3,3 strides=2,2"},
       "1x4x4x4",
       BP_ERROR_VALUE,
       "spatial extent"},
      {{"MaxPool", "1x4x5x5", NULL, NULL, "kernel_shape=2,2 strides=3,3 ceil_mode=1"},
       "1x4x2x2",
       NULL,
       NULL},
      {{"Gemm", "5x7", "7x7", NULL, "alpha=2"}, "5x7", BP_ERROR_TYPE, "alpha is a float"},
      {{"Gemm", "5x7", "7x7", NULL, "transB=yes"}, "5x7", BP_ERROR_TYPE, "transB is an int"},
      {{"MatMul", "5x7", "7x7", NULL, "transB=1"},
       "5x7",
       BP_ERROR_NOT_IMPLEMENTED,
       "knows no attribute transB"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpTensor *output = tensor_of_text(cases[i].output);
    BpFunction *function = find_operator(cases[i].layer.op);
    Arguments arguments = make_arguments(&cases[i].layer, output);
    BpValue result = {0};
    int status = bp_function_call(function, arguments.values, arguments.count, &result);
    if (status != (cases[i].text ? -1 : 0) ||
        (cases[i].text && (g_strcmp0(bp_error_kind(), cases[i].kind) != 0 ||
                           !strstr(bp_error_message(), cases[i].text))))
      g_error("case %zu: %s: %s", i, bp_error_kind(), bp_error_message());
    bp_error_clear();
    g_ptr_array_unref(arguments.objects);
    bp_object_release(output);
    bp_object_release(function);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/dnnl/layers-agree-with-generated-code", test_layers_agree_with_generated_code);
  g_test_add_func("/dnnl/layers-with-open-extents-agree-with-generated-code",
                  test_layers_with_open_extents_agree_with_generated_code);
  g_test_add_func("/dnnl/residual-block-is-claimed-and-right",
                  test_residual_block_is_claimed_and_right);
  g_test_add_func("/dnnl/open-residual-block-is-claimed-and-right",
                  test_open_residual_block_is_claimed_and_right);
  g_test_add_func("/dnnl/outputs-that-a-part-also-reads-are-right",
                  test_outputs_that_a_part_also_reads_are_right);
  g_test_add_func("/dnnl/sums-of-parallel-branches-are-right",
                  test_sums_of_parallel_branches_are_right);
  g_test_add_func("/dnnl/random-graphs-agree-with-generated-code",
                  test_random_graphs_agree_with_generated_code);
  g_test_add_func("/dnnl/digits-agree-with-generated-code", test_digits_agree_with_generated_code);
  g_test_add_func("/dnnl/unsupported-nodes-are-declined-with-the-reason",
                  test_unsupported_nodes_are_declined_with_the_reason);
  g_test_add_func("/dnnl/saved-part-is-loaded-and-runs", test_saved_part_is_loaded_and_runs);
  g_test_add_func("/dnnl/wrong-arguments-are-errors", test_wrong_arguments_are_errors);
  g_test_add_func("/dnnl/windows-out-of-range-are-errors", test_windows_out_of_range_are_errors);
  g_test_add_func("/dnnl/damaged-bytes-are-no-crash", test_damaged_bytes_are_no_crash);
  g_test_add_func("/dnnl/operators-agree-with-generated-code",
                  test_operators_agree_with_generated_code);
  g_test_add_func("/dnnl/operators-refuse-wrong-calls", test_operators_refuse_wrong_calls);
  g_test_add_func("/dnnl/operators-refuse-unknown-attributes",
                  test_operators_refuse_unknown_attributes);
  return g_test_run();
}
