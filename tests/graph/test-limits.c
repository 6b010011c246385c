/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of compiling a model is limited: a small file cannot demand much, and constants are
 * computed only as long as that pays. */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/graph/compile_check.h"

#define SIZE 700

/* Compiles for "c" and frees the builder; NULL with an error. */
static BpModule *compile_within(OnnxBuilder *builder, const BpCompileLimits *limits) {
  BpTarget *target = bp_target_parse("c");
  const BpTarget *targets[1] = {target};
  BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = targets, .num_targets = 1, .limits = limits};
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpModule *module = bp_model_compile(path, &options);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
  bp_object_release(target);
  return module;
}

/* x plus the product with itself of a square constant of zeros, plus one. */
static OnnxBuilder *product_model(int size) {
  OnnxBuilder *builder = onnx_builder_new();
  char *shape = g_strdup_printf("%d,%d", size, size);
  onnx_input(builder, "x", ONNX_FLOAT, "");
  onnx_ints(builder, "shape", shape);
  onnx_node(builder, "ConstantOfShape", "shape", "zeros", "");
  onnx_node(builder, "Cos", "zeros", "ones", "");
  onnx_node(builder, "MatMul", "ones,ones", "product", "");
  onnx_node(builder, "Add", "x,product", "y", "");
  onnx_output(builder, "y");
  g_free(shape);
  return builder;
}

/* Runs the model of a product (frees its module) and returns whether it computes the product in
 * each run. */
static gboolean run_product(BpModule *module, int size) {
  float x = 0.5f;
  int64_t count;
  if (!module)
    g_error("%s", bp_error_message());
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  char *json = bp_model_graph_json(model);
  gboolean computes = strstr(json, "matmul") != NULL;
  bp_str_free(json);
  float *y = run_model(model, &x, &count);
  g_assert_cmpint(count, ==, (int64_t)size * size);
  for (int64_t i = 0; i < count; i++)
    if (y[i] != (float)size + 0.5f)
      g_error("element %d is %g", (int)i, (double)y[i]);
  g_free(y);
  bp_object_release(module);
  return computes;
}

/* In the interpreter, the 343 million products of this model would take a minute. */
static void test_a_product_of_constants_is_compiled(void) {
  BpModule *module = compile_within(product_model(SIZE), NULL);
  g_assert_false(run_product(module, SIZE));
}

static void test_a_small_product_is_computed(void) {
  BpModule *module = compile_within(product_model(3), NULL);
  g_assert_false(run_product(module, 3));
}

static void test_work_beyond_the_limit_is_left_to_runs(void) {
  BpCompileLimits limits = {.struct_size = sizeof(limits), .fold_work = 10000};
  BpModule *module = compile_within(product_model(20), &limits);
  g_assert_true(run_product(module, 20));
}

static void expect_refusal(BpModule *module, const char *first, const char *second) {
  g_assert_null(module);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_VALUE);
  if (!strstr(bp_error_message(), first) || !strstr(bp_error_message(), second))
    g_error("'%s' and '%s' are not in: %s", first, second, bp_error_message());
  bp_error_clear();
}

static void test_too_many_nodes_are_refused(void) {
  BpCompileLimits limits = {.struct_size = sizeof(limits), .nodes = 3};
  expect_refusal(compile_within(product_model(3), &limits), "more than 3 nodes", "--limit nodes=N");
}

static void test_nodes_that_replace_a_node_count(void) {
  BpCompileLimits limits = {.struct_size = sizeof(limits), .nodes = 3};
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4x4");
  onnx_node(builder, "Sum", "x,x,x,x,x,x", "y", "");
  onnx_output(builder, "y");
  expect_refusal(compile_within(builder, &limits), "more than 3 nodes", "--limit nodes=N");
}

static void test_a_large_constant_is_refused(void) {
  expect_refusal(compile_within(product_model(1 << 16), NULL), "takes 17179869184 bytes",
                 "--limit constant-bytes=N");
}

static void test_constants_count_together(void) {
  BpCompileLimits limits = {.struct_size = sizeof(limits), .constant_bytes = 200000};
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "");
  onnx_ints(builder, "shape", "30000");
  onnx_node(builder, "ConstantOfShape", "shape", "a", "");
  onnx_node(builder, "ConstantOfShape", "shape", "b", "");
  onnx_node(builder, "Sum", "x,a,b", "y", "");
  onnx_output(builder, "y");
  expect_refusal(compile_within(builder, &limits), "of which 7", "takes 120000 bytes");
}

/* A function may contain the arithmetic of several nodes, whose depth is limited. */
static void test_a_chain_of_deep_functions_is_cut(void) {
  OnnxBuilder *builder = onnx_builder_new();
  char in[8] = "x", out[8];
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  for (int i = 0; i < 200; i++) {
    g_snprintf(out, sizeof out, "y%d", i);
    onnx_node(builder, i % 2 ? "Mish" : "Softplus", in, out, "");
    memcpy(in, out, sizeof in);
  }
  onnx_output(builder, out);
  builder->version = 20;
  BpModule *module = compile_within(builder, NULL);
  if (!module)
    g_error("%s", bp_error_message());
  bp_object_release(module);
}

/* Adds x to itself `count` times in sequence. */
static OnnxBuilder *chain_model(int count) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  for (int i = 0; i < count; i++) {
    char *in = i ? g_strdup_printf("y%d", i) : g_strdup("x"), *out = g_strdup_printf("y%d", i + 1);
    char *pair = g_strdup_printf("%s,x", in);
    onnx_node(builder, "Add", pair, out, "");
    if (i + 1 == count)
      onnx_output(builder, out);
    g_free(in);
    g_free(out);
    g_free(pair);
  }
  return builder;
}

static void test_too_many_functions_are_refused(void) {
  BpCompileLimits limits = {.struct_size = sizeof(limits), .functions = 1};
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4x4");
  onnx_node(builder, "ReduceMax", "x", "a", "keepdims=1");
  onnx_node(builder, "ReduceMin", "a", "y", "keepdims=1");
  onnx_output(builder, "y");
  expect_refusal(compile_within(builder, &limits), "more than 1 different functions",
                 "--limit functions=N");
}

/* In one function, 20,000 additions would take minutes. */
static void test_a_long_chain_is_cut(void) {
  float x[4] = {0, 1, 2, 3};
  int64_t count;
  BpModule *module = compile_within(chain_model(20000), NULL);
  if (!module)
    g_error("%s", bp_error_message());
  float *y = run_model(bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1), x, &count);
  for (int64_t i = 0; i < count; i++)
    g_assert_cmpfloat(y[i], ==, 20001.f * x[i]);
  g_free(y);
  bp_object_release(module);
}

static void test_a_negative_limit_is_refused(void) {
  BpCompileLimits limits = {.struct_size = sizeof(limits), .nodes = -1};
  expect_refusal(compile_within(product_model(3), &limits), "negative", "limit");
}

static void test_limits_without_a_size_are_refused(void) {
  BpCompileLimits limits = {.nodes = 3};
  expect_refusal(compile_within(product_model(3), &limits), "BpCompileLimits::struct_size is 0",
                 "set it to sizeof(BpCompileLimits), here 40");
  limits.struct_size = (uint64_t)1 << 40;
  expect_refusal(compile_within(product_model(3), &limits), "BpCompileLimits::struct_size",
                 "set it to sizeof(BpCompileLimits)");
}

/* A constant of one element repeated four million times stays one element. */
static void test_repeated_elements_are_not_kept(void) {
  OnnxBuilder *builder = onnx_builder_new();
  uint64_t parameters, planned;
  onnx_input(builder, "x", ONNX_FLOAT, "");
  onnx_floats(builder, "row", "2048");
  onnx_ints(builder, "shape", "2048,2048");
  onnx_node(builder, "Expand", "row,shape", "rows", "");
  onnx_node(builder, "Add", "x,rows", "y", "");
  onnx_output(builder, "y");
  BpModule *module = compile_within(builder, NULL);
  if (!module)
    g_error("%s", bp_error_message());
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  bp_model_memory(model, &parameters, &planned);
  g_assert_cmpuint(parameters, <, 100000);
  bp_model_release(model);
  bp_object_release(module);
}

/* Two large values are alive one after the other. A small value, computed between the large ones,
 * lives until the end. */
static void test_a_small_value_takes_no_large_storage(void) {
  OnnxBuilder *builder = onnx_builder_new();
  uint64_t parameters, planned;
  onnx_input(builder, "x", ONNX_FLOAT, "1x8");
  onnx_floats(builder, "widen", "8x1000");
  onnx_floats(builder, "narrow", "1000x8");
  onnx_floats(builder, "square", "8x8");
  onnx_node(builder, "MatMul", "x,widen", "large", "");
  onnx_node(builder, "MatMul", "large,narrow", "middle", "");
  onnx_node(builder, "MatMul", "middle,square", "small", "");
  onnx_node(builder, "MatMul", "small,widen", "larger", "");
  onnx_node(builder, "MatMul", "larger,narrow", "last", "");
  onnx_node(builder, "Concat", "small,last", "y", "axis=1");
  onnx_output(builder, "y");
  BpModule *module = compile_within(builder, NULL);
  if (!module)
    g_error("%s", bp_error_message());
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  bp_model_memory(model, &parameters, &planned);
  g_assert_cmpuint(planned, <, 2 * 1000 * sizeof(float));
  bp_model_release(model);
  bp_object_release(module);
}

/* ---- The stack --------------------------------------------------------------------------- */

static void *compile_in_thread(void *unused) {
  (void)unused;
  BpModule *module = compile_within(product_model(4), NULL);
  if (!module)
    return g_strdup(bp_error_message());
  bp_object_release(module);
  return NULL;
}

static void *describe_in_thread(void *path) {
  char *text = bp_onnx_describe(path);
  bp_str_free(text);
  return text ? NULL : g_strdup(bp_error_message());
}

static char *call_on_stack(size_t size, void *(*call)(void *), char *path) {
  pthread_attr_t attributes;
  pthread_t thread;
  void *message = NULL;
  pthread_attr_init(&attributes);
  g_assert_cmpint(pthread_attr_setstacksize(&attributes, size), ==, 0);
  g_assert_cmpint(pthread_create(&thread, &attributes, call, path), ==, 0);
  pthread_attr_destroy(&attributes);
  pthread_join(thread, &message);
  return message;
}

static void expect_small_stack(void *(*call)(void *), char *path) {
  char *small = call_on_stack((size_t)64 << 10, call, path);
  char *large = call_on_stack((size_t)1 << 20, call, path);
  g_assert_nonnull(small);
  g_assert_nonnull(strstr(small, "needs a stack of at least 1 MiB"));
  g_assert_null(large);
  g_free(small);
}

/* Adds `depth` nested nodes If; the innermost doubles x. */
static void add_nested(OnnxBuilder *builder, int depth) {
  if (depth == 0) {
    onnx_node(builder, "Add", "x,x", "y", "");
  } else {
    Backplane__Onnx__NodeProto *node = onnx_node(builder, "If", "c", "y", "");
    OnnxBuilder *then = onnx_builder_new(), *other = onnx_builder_new();
    add_nested(then, depth - 1);
    add_nested(other, 0);
    onnx_branch(builder, node, "then_branch", then);
    onnx_branch(builder, node, "else_branch", other);
  }
  onnx_output(builder, "y");
}

/* A model of 30 nested nodes If: reading it takes more than 64 KiB of stack. */
static char *nested_model(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "c", ONNX_BOOL, "");
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  add_nested(builder, 30);
  return onnx_save(builder);
}

static void test_stack_that_is_too_small_is_an_error(void) {
  char *path = nested_model();
  expect_small_stack(compile_in_thread, NULL);
  expect_small_stack(describe_in_thread, path);
  unlink(path);
  g_free(path);
}

#define MANY 300

/* A model that gives the sum of MANY scalars, x000 and so on. */
static BpModel *sum_model(void) {
  OnnxBuilder *builder = onnx_builder_new();
  GString *names = g_string_new(NULL);
  for (int i = 0; i < MANY; i++) {
    char name[8];
    g_snprintf(name, sizeof name, "x%03d", i);
    onnx_input(builder, name, ONNX_FLOAT, "1");
    g_string_append_printf(names, "%s%s", i ? "," : "", name);
  }
  onnx_node(builder, "Sum", names->str, "y", "");
  onnx_output(builder, "y");
  g_string_free(names, TRUE);
  BpModule *module = compile_within(builder, NULL);
  if (!module)
    g_error("%s", bp_error_message());
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  bp_object_release(module);
  return model;
}

static void test_many_inputs_are_found_by_name(void) {
  BpModel *model = sum_model();
  BpModelContext *context = bp_model_context_create(model);
  BpTensorView view = {.device = {BP_DEVICE_CPU, 0},
                       .ndim = 1,
                       .dtype = {BP_DTYPE_FLOAT, 32, 1},
                       .shape = (int64_t[]){1}};
  for (int i = MANY - 1; i >= 0; i--) {
    float value = (float)i;
    char name[8];
    g_snprintf(name, sizeof name, "x%03d", i);
    view.data = &value;
    g_assert_cmpint(bp_model_set_input(context, name, &view), ==, 0);
  }
  g_assert_cmpint(bp_model_set_input(context, "x300", &view), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "no input 'x300'; it has: x000, x001, "));
  g_assert_true(g_str_has_suffix(bp_error_message(), "..."));
  g_assert_cmpint(bp_model_run(context), ==, 0);
  const BpTensor *y = bp_model_get_output(context, 0);
  g_assert_cmpfloat(*(const float *)y->view.data, ==, MANY * (MANY - 1) / 2);
  bp_model_context_free(context);
  bp_model_release(model);
}

/* The time to read names of extents is not the square of their number. */
static void test_many_names_of_extents_are_read(void) {
  enum { NUM_SYMBOLS = 20000 };
  OnnxBuilder *builder = onnx_builder_new();
  for (int i = 0; i < NUM_SYMBOLS; i++) {
    char name[16], shape[16];
    g_snprintf(name, sizeof name, "i%d", i);
    g_snprintf(shape, sizeof shape, "s%d", i);
    onnx_input(builder, name, ONNX_FLOAT, shape);
  }
  onnx_node(builder, "Relu", "i0", "y", "");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  clock_t before = clock();
  char *text = bp_onnx_describe(path);
  g_assert_cmpint(clock() - before, <, 48 * CLOCKS_PER_SEC);
  g_assert_nonnull(text);
  g_assert_nonnull(strstr(text, "s19999"));
  bp_str_free(text);
  unlink(path);
  g_free(path);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/compile/limits/a-product-of-constants-is-compiled",
                  test_a_product_of_constants_is_compiled);
  g_test_add_func("/compile/limits/a-small-product-is-computed", test_a_small_product_is_computed);
  g_test_add_func("/compile/limits/work-beyond-the-limit-is-left-to-runs",
                  test_work_beyond_the_limit_is_left_to_runs);
  g_test_add_func("/compile/limits/too-many-nodes-are-refused", test_too_many_nodes_are_refused);
  g_test_add_func("/compile/limits/nodes-that-replace-a-node-count",
                  test_nodes_that_replace_a_node_count);
  g_test_add_func("/compile/limits/a-large-constant-is-refused", test_a_large_constant_is_refused);
  g_test_add_func("/compile/limits/constants-count-together", test_constants_count_together);
  g_test_add_func("/compile/limits/too-many-functions-are-refused",
                  test_too_many_functions_are_refused);
  g_test_add_func("/compile/limits/a-long-chain-is-cut", test_a_long_chain_is_cut);
  g_test_add_func("/compile/limits/a-chain-of-deep-functions-is-cut",
                  test_a_chain_of_deep_functions_is_cut);
  g_test_add_func("/compile/limits/a-negative-limit-is-refused", test_a_negative_limit_is_refused);
  g_test_add_func("/compile/limits/without-a-size-are-refused",
                  test_limits_without_a_size_are_refused);
  g_test_add_func("/compile/limits/repeated-elements-are-not-kept",
                  test_repeated_elements_are_not_kept);
  g_test_add_func("/compile/limits/a-small-value-takes-no-large-storage",
                  test_a_small_value_takes_no_large_storage);
  g_test_add_func("/limits/stack-that-is-too-small-is-an-error",
                  test_stack_that_is_too_small_is_an_error);
  g_test_add_func("/limits/many-inputs-are-found-by-name", test_many_inputs_are_found_by_name);
  g_test_add_func("/limits/many-names-of-extents-are-read", test_many_names_of_extents_are_read);
  return g_test_run();
}
