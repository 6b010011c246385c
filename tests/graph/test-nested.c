/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs inside of nodes: the branches of If, bodies of loops, and functions of the model. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/target.h>

#include "tests/graph/compile_check.h"

#define COUNT 12

static OnnxBuilder *model_of_x(void) {
  OnnxBuilder *builder = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "3x4");
  onnx_output(builder, "y");
  return builder;
}

static OnnxBuilder *branch_of(const char *op, const char *inputs, const char *attrs) {
  OnnxBuilder *branch = onnx_builder_new();
  onnx_node(branch, op, inputs, "result", attrs);
  onnx_output(branch, "result");
  return branch;
}

static void add_if(OnnxBuilder *builder, const char *condition, const char *output,
                   OnnxBuilder *then, OnnxBuilder *otherwise) {
  Backplane__Onnx__NodeProto *node = onnx_node(builder, "If", condition, output, "");
  onnx_branch(builder, node, "then_branch", then);
  onnx_branch(builder, node, "else_branch", otherwise);
}

/* Compiles a model that must be refused, with all of the words in the message; frees the
 * builder. */
static void assert_refused(OnnxBuilder *builder, const char *kind, const char *words) {
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), **list = g_strsplit(words, "|", -1);
  const BpTarget *target = bp_target_parse("c");
  BpCompileOptions options = {.struct_size = sizeof(options), .targets = &target, .num_targets = 1};
  g_assert_null(bp_model_compile(path, &options));
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  for (char **word = list; *word; word++)
    if (!strstr(bp_error_message(), *word))
      g_error("'%s' is not in: %s", *word, bp_error_message());
  bp_error_clear();
  bp_object_release((BpTarget *)(uintptr_t)target);
  unlink(path);
  g_free(path);
  g_strfreev(list);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static void expect(float *x, float *y, float start, float factor, float negative) {
  for (int i = 0; i < COUNT; i++) {
    x[i] = start + (float)i;
    y[i] = x[i] * (x[i] < 0 ? negative : factor);
  }
}

/* ---- If ---------------------------------------------------------------------------------- */

/* The shape decides; the other branch need not work. */
static void test_known_condition(void) {
  OnnxBuilder *builder = model_of_x(), *inner = onnx_builder_new();
  float x[COUNT], y[COUNT];
  onnx_ints(builder, "rows_cols", "3,4");
  onnx_node(builder, "Shape", "x", "s", "");
  onnx_node(builder, "Equal", "s,rows_cols", "same", "");
  onnx_node(builder, "Cast", "same", "ones", "to=7");
  onnx_node(builder, "ReduceMin", "ones", "least", "keepdims=0");
  onnx_node(builder, "Cast", "least", "c", "to=9");
  onnx_node(inner, "Constant", "", "two", "value_float=2.0");
  onnx_node(inner, "Not", "c", "d", "");
  add_if(inner, "d", "result", branch_of("NoSuchOperator", "x", ""), branch_of("Mul", "x,two", ""));
  onnx_output(inner, "result");
  add_if(builder, "c", "y", inner, branch_of("NoSuchOperator", "x", ""));
  expect(x, y, -3, 2, 2);
  check_model(builder, x, y, COUNT);
}

/* The data decides: both branches are computed, and the outputs of one are selected. */
static void test_open_condition(void) {
  for (int is_up = 0; is_up < 2; is_up++) {
    OnnxBuilder *builder = model_of_x();
    float x[COUNT], y[COUNT];
    onnx_node(builder, "ReduceSum", "x", "sum", "");
    onnx_node(builder, "Constant", "", "zero", "value_float=0.0");
    onnx_node(builder, "Greater", "sum,zero", "c", "");
    add_if(builder, "c", "y", branch_of("Add", "x,x", ""), branch_of("Neg", "x", ""));
    expect(x, y, is_up ? 1 : -30, 2, -1);
    check_model(builder, x, y, COUNT);
  }
}

static void test_refused_branches(void) {
  OnnxBuilder *builder = model_of_x();
  onnx_input(builder, "c", 9, "1");
  add_if(builder, "c", "y", branch_of("Cast", "x", "to=7"), branch_of("Neg", "x", ""));
  assert_refused(builder, BP_ERROR_NOT_IMPLEMENTED,
                 "the If|depends on the data|int64 3x4 or float32 3x4");
  builder = model_of_x();
  onnx_input(builder, "c", 9, "1");
  add_if(builder, "c", "y", branch_of("NoSuchOperator", "x", ""), branch_of("Neg", "x", ""));
  assert_refused(builder, BP_ERROR_NOT_IMPLEMENTED, "both|NoSuchOperator|the If/the NoSuch");
  builder = model_of_x();
  add_if(builder, "x", "y", branch_of("Neg", "x", ""), branch_of("Neg", "x", ""));
  assert_refused(builder, BP_ERROR_FORMAT, "the If|no bool");
}

static void test_bytes_that_are_no_graph(void) {
  OnnxBuilder *builder = model_of_x();
  onnx_input(builder, "c", 9, "");
  add_if(builder, "c", "y", branch_of("Neg", "x", ""), branch_of("Neg", "x", ""));
  Backplane__Onnx__NodeProto *node = g_ptr_array_index(builder->nodes, 0);
  memset(node->attribute[1]->g.data, 0xff, node->attribute[1]->g.len);
  assert_refused(builder, BP_ERROR_FORMAT, "subgraph|does not decode");
}

/* ---- Loop -------------------------------------------------------------------------------- */

/* Doubles x once, and then as long as c holds. */
static OnnxBuilder *loop_model(void) {
  OnnxBuilder *builder = model_of_x(), *body = onnx_builder_new();
  onnx_input(builder, "c", ONNX_BOOL, "");
  onnx_input(body, "i", ONNX_INT64, "");
  onnx_input(body, "go", ONNX_BOOL, "");
  onnx_input(body, "v", ONNX_FLOAT, "3x4");
  onnx_node(body, "Identity", "c", "on", "");
  onnx_node(body, "Add", "v,x", "w", "");
  onnx_output(body, "on");
  onnx_output(body, "w");
  onnx_branch(builder, onnx_node(builder, "Loop", ",,x", "y", ""), "body", body);
  return builder;
}

static void set_inputs(BpModelContext *context, float *x, bool *c) {
  const int64_t shape[] = {3, 4};
  const BpDevice cpu = {BP_DEVICE_CPU, 0};
  BpTensorView views[] = {{.data = x,
                           .device = cpu,
                           .ndim = 2,
                           .dtype = {BP_DTYPE_FLOAT, 32, 1},
                           .shape = (int64_t *)(uintptr_t)shape},
                          {.data = c, .device = cpu, .dtype = {BP_DTYPE_BOOL, 8, 1}}};
  g_assert_cmpint(bp_model_set_input(context, "x", &views[0]), ==, 0);
  g_assert_cmpint(bp_model_set_input(context, "c", &views[1]), ==, 0);
}

static gpointer cancel_soon(gpointer context) {
  g_usleep(20000);
  g_assert_cmpint(bp_model_cancel(context), ==, 0);
  return NULL;
}

static void test_cancelled_loop(void) {
  const BpDevice cpu = {BP_DEVICE_CPU, 0};
  OnnxBuilder *builder = loop_model();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes);
  BpTarget *target = bp_target_parse("c");
  BpModule *module = compile_for(path, target);
  BpModel *model = bp_model_create(module, &cpu, 1);
  BpModelContext *context = bp_model_context_create(model);
  float x[COUNT] = {1, 2, 3};
  g_assert_nonnull(context);
  set_inputs(context, x, &(bool){true});
  GThread *thread = g_thread_new("cancel", cancel_soon, context);
  g_assert_cmpint(bp_model_run(context), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_RUNTIME);
  g_assert_nonnull(strstr(bp_error_message(), "bp_model_cancel"));
  bp_error_clear();
  g_thread_join(thread);
  set_inputs(context, x, &(bool){false});
  g_assert_cmpint(bp_model_run(context), ==, 0);
  g_assert_cmpfloat(((float *)bp_model_get_output(context, 0)->view.data)[2], ==, 6);
  g_assert_cmpint(bp_model_cancel(NULL), ==, -1);
  bp_error_clear();
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

/* A loop whose body computes h = i * x in float64, on the fallback's device. Both branches of an If
 * in the body read the copy of h on the other device. */
static char *save_loop_on_two_places(void) {
  OnnxBuilder *builder = onnx_builder_new(), *body = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "rows");
  onnx_input(builder, "n", ONNX_INT64, "");
  onnx_node(builder, "Constant", "", "one", "value_float=1.0");
  onnx_node(builder, "Constant", "", "two", "value_int=2");
  onnx_input(body, "i", ONNX_INT64, "");
  onnx_input(body, "go", ONNX_BOOL, "");
  onnx_node(body, "Cast", "i", "a", "to=11");
  onnx_node(body, "Cast", "x", "b", "to=11");
  onnx_node(body, "Mul", "a,b", "c", "");
  onnx_node(body, "Cast", "c", "h", "to=1");
  onnx_node(body, "Mod", "i,two", "rest", "");
  onnx_node(body, "Cast", "rest", "is_odd", "to=9");
  add_if(body, "is_odd", "u", branch_of("Sub", "h,one", ""), branch_of("Add", "h,one", ""));
  onnx_output(body, "go");
  onnx_output(body, "u");
  onnx_output(body, "h");
  onnx_branch(builder, onnx_node(builder, "Loop", "n,", "us,hs", ""), "body", body);
  onnx_output(builder, "us");
  onnx_output(builder, "hs");
  return onnx_save(builder);
}

#define NUM_ITERATIONS 4
#define NUM_ROWS       3

static void check_loop_on_two_places(BpModel *model) {
  const BpDevice cpu = {BP_DEVICE_CPU, 0};
  float x[NUM_ROWS] = {1, 2, 3}, found[2][NUM_ITERATIONS * NUM_ROWS];
  int64_t n = NUM_ITERATIONS, rows = NUM_ROWS;
  const BpTensorView views[] = {
      {.data = x, .device = cpu, .ndim = 1, .dtype = {BP_DTYPE_FLOAT, 32, 1}, .shape = &rows},
      {.data = &n, .device = cpu, .dtype = {BP_DTYPE_INT, 64, 1}}};
  BpModelContext *context = bp_model_context_create(model);
  g_assert_nonnull(context);
  g_assert_cmpint(bp_model_set_input(context, "x", &views[0]), ==, 0);
  g_assert_cmpint(bp_model_set_input(context, "n", &views[1]), ==, 0);
  if (bp_model_run(context))
    g_error("%s", bp_error_message());
  for (int32_t i = 0; i < 2; i++)
    g_assert_cmpint(
        bp_tensor_copy_to_host(&bp_model_get_output(context, i)->view, found[i], sizeof found[i]),
        ==, 0);
  for (int i = 0; i < NUM_ITERATIONS * NUM_ROWS; i++) {
    int iteration = i / NUM_ROWS;
    float h = x[i % NUM_ROWS] * (float)iteration;
    g_assert_cmpfloat(found[0][i], ==, iteration % 2 ? h - 1 : h + 1);
    g_assert_cmpfloat(found[1][i], ==, h);
  }
  bp_model_context_free(context);
}

static void test_loop_on_two_places(gconstpointer target_text) {
  char *path = save_loop_on_two_places();
  BpTarget *target = bp_target_parse(target_text), *fallback = bp_target_parse("c");
  const BpDevice devices[] = {{bp_target_device_type(target), 0}, {BP_DEVICE_CPU, 0}};
  const BpCompileOptions options = {.struct_size = sizeof(options),
                                    .targets = (const BpTarget *const *)&target,
                                    .num_targets = 1,
                                    .fallback = fallback};
  BpModule *module = bp_model_compile(path, &options);
  if (!module)
    g_error("%s", bp_error_message());
  if (has_device(devices[0].device_type)) {
    BpModel *model = bp_model_create(module, devices, 2);
    g_assert_nonnull(model);
    check_loop_on_two_places(model);
    bp_model_release(model);
  }
  bp_object_release(module);
  bp_object_release(target);
  bp_object_release(fallback);
  unlink(path);
  g_free(path);
}

/* r is computed before the loop, and is the view of a tensor. */
static void test_types_of_outputs_before_a_loop(void) {
  OnnxBuilder *builder = onnx_builder_new(), *body = onnx_builder_new();
  onnx_input(builder, "x", ONNX_FLOAT, "4");
  onnx_input(builder, "n", ONNX_INT64, "");
  onnx_ints(builder, "square", "2,2");
  onnx_node(builder, "Neg", "x", "a", "");
  onnx_node(builder, "Reshape", "a,square", "r", "");
  onnx_input(body, "i", ONNX_INT64, "");
  onnx_input(body, "go", ONNX_BOOL, "");
  onnx_input(body, "v", ONNX_FLOAT, "4");
  onnx_node(body, "Add", "v,x", "w", "");
  onnx_output(body, "go");
  onnx_output(body, "w");
  onnx_branch(builder, onnx_node(builder, "Loop", "n,,x", "y", ""), "body", body);
  onnx_output(builder, "r");
  onnx_output(builder, "y");
  char *path = onnx_save(builder);
  BpTarget *target = bp_target_parse("c");
  BpModule *module = compile_for(path, target);
  BpModel *model = bp_model_create(module, &(BpDevice){BP_DEVICE_CPU, 0}, 1);
  g_assert_nonnull(model);
  const BpModelTensorInfo *info = bp_model_output_info(model, 0);
  g_assert_cmpint(info->ndim, ==, 2);
  g_assert_cmpint(info->shape[1], ==, 2);
  g_assert_cmpint(info->dtype.code, ==, BP_DTYPE_FLOAT);
  bp_model_release(model);
  bp_object_release(module);
  bp_object_release(target);
  unlink(path);
  g_free(path);
}

static void remove_folder(const char *folder) {
  GDir *dir = g_dir_open(folder, 0, NULL);
  for (const char *name; (name = g_dir_read_name(dir));) {
    char *path = g_build_filename(folder, name, NULL);
    unlink(path);
    g_free(path);
  }
  g_dir_close(dir);
  g_assert_cmpint(rmdir(folder), ==, 0);
}

/* Returns the matching file in a folder of dumps (transfer full). */
static char *read_dump(const char *folder, const char *pattern) {
  GDir *dir = g_dir_open(folder, 0, NULL);
  char *text = NULL;
  for (const char *name; (name = g_dir_read_name(dir));) {
    if (!g_pattern_match_simple(pattern, name))
      continue;
    char *file = g_build_filename(folder, name, NULL);
    g_assert_true(!text && g_file_get_contents(file, &text, NULL, NULL));
    g_free(file);
  }
  g_dir_close(dir);
  g_assert_nonnull(text);
  return text;
}

static void test_dumped_body(void) {
  OnnxBuilder *builder = loop_model();
  GByteArray *bytes = onnx_bytes(builder);
  char *path = onnx_write(bytes), *folder = g_dir_make_tmp("nested-XXXXXX", NULL);
  const BpTarget *target = bp_target_parse("c");
  BpCompileOptions options = {
      .struct_size = sizeof(options), .targets = &target, .num_targets = 1, .dump_dir = folder};
  BpModule *module = bp_model_compile(path, &options);
  g_assert_nonnull(module);
  char *text = read_dump(folder, "0-c-optimized.txt");
  char *first = read_dump(folder, "0-c-graph.*-claim.txt");
  char *imported = read_dump(folder, "0-c-imported.txt");
  char *last = read_dump(folder, "0-c-graph.*-place.txt");
  g_assert_cmpstr(first, ==, imported); /* without graph compilers no node is claimed */
  g_assert_cmpstr(last, ==, text);
  g_assert_cmpstr(first, !=, last);
  const char *body = strstr(text, "\nbody 0:\n  v0: int64 scalar = input");
  g_assert_nonnull(body);
  g_assert_nonnull(strstr(body, "= Add (v"));
  g_assert_nonnull(strstr(body, "\n  output v"));
  remove_folder(folder);
  bp_object_release(module);
  bp_object_release((BpTarget *)(uintptr_t)target);
  unlink(path);
  g_free(path);
  g_free(folder);
  g_free(first);
  g_free(imported);
  g_free(last);
  g_free(text);
  g_byte_array_unref(bytes);
  onnx_builder_free(builder);
}

static void refuse_loop(const char *inputs, const char *kind, const char *words) {
  OnnxBuilder *builder = model_of_x(), *body = onnx_builder_new();
  onnx_input(builder, "c", ONNX_BOOL, "");
  onnx_input(body, "i", ONNX_INT64, "");
  onnx_input(body, "go", ONNX_BOOL, "");
  onnx_input(body, "v", ONNX_FLOAT, "3x4");
  onnx_node(body, "Cast", "v", "w", "to=7");
  onnx_output(body, "go");
  onnx_output(body, "w");
  onnx_branch(builder, onnx_node(builder, "Loop", inputs, "y", ""), "body", body);
  assert_refused(builder, kind, words);
}

static void test_refused_loops(void) {
  refuse_loop(",,x", BP_ERROR_NOT_IMPLEMENTED, "the Loop|float32 3x4 at first|int64 3x4");
  refuse_loop("c,,x", BP_ERROR_FORMAT, "the Loop|number of iterations");
  refuse_loop(",x,x", BP_ERROR_FORMAT, "the Loop|condition");
  refuse_loop(",,", BP_ERROR_FORMAT, "the Loop|carried value 0 is missing");
  refuse_loop(",", BP_ERROR_FORMAT, "the Loop|3 inputs|carries 0");
}

/* ---- Functions --------------------------------------------------------------------------- */

static void call(OnnxBuilder *builder, const char *name, const char *inputs, const char *outputs,
                 const char *attrs) {
  static char domain[] = "own";
  onnx_node(builder, name, inputs, outputs, attrs)->domain = domain;
}

/* A function calls another, whose attribute has a default; a name has a different value in each. */
static void test_functions(void) {
  OnnxBuilder *builder = model_of_x(), *leaky = onnx_builder_new(), *twice = onnx_builder_new();
  float x[COUNT], y[COUNT];
  onnx_node(leaky, "LeakyRelu", "y", "z", "alpha=@slope");
  onnx_function(builder, "Leaky", "y,unused", "z", "slope=0.5f", leaky);
  call(twice, "Leaky", "x", "y", "slope=@first");
  call(twice, "Leaky", "y,", "z", "");
  onnx_function(builder, "Twice", "x", "z", "first", twice);
  call(builder, "Twice", "x", "y", "first=0.25f");
  expect(x, y, -6, 1, 0.125f);
  check_model(builder, x, y, COUNT);
}

/* An attribute that a call omits, without a default, is absent from the nodes as well. */
static void test_absent_attribute(void) {
  OnnxBuilder *builder = model_of_x(), *leaky = onnx_builder_new();
  float x[COUNT], y[COUNT];
  onnx_node(leaky, "LeakyRelu", "a", "b", "alpha=@slope");
  onnx_function(builder, "Leaky", "a", "b", "slope", leaky);
  call(builder, "Leaky", "x", "y", "");
  expect(x, y, -6, 1, 0.01f);
  check_model(builder, x, y, COUNT);
}

static void test_recursion(void) {
  OnnxBuilder *builder = model_of_x(), *body = onnx_builder_new();
  call(body, "Again", "a", "b", "");
  onnx_function(builder, "Again", "a", "b", "", body);
  call(builder, "Again", "x", "y", "");
  assert_refused(builder, BP_ERROR_FORMAT, "the Again/the Again|may not call itself");
}

/* Each function calls the next one twice: a small file that would make 2^28 nodes. */
static void test_many_calls(void) {
  OnnxBuilder *builder = model_of_x();
  for (int i = 0; i < 28; i++) {
    OnnxBuilder *body = onnx_builder_new();
    char *name = g_strdup_printf("F%d", i), *next = g_strdup_printf("F%d", i + 1);
    for (int k = 0; k < 2; k++) {
      if (i < 27)
        call(body, next, "a", k ? "b" : "c", "");
      else
        onnx_node(body, "Relu", "a", k ? "b" : "c", "");
    }
    onnx_function(builder, name, "a", "b", "", body);
    g_free(name);
    g_free(next);
  }
  call(builder, "F0", "x", "y", "");
  assert_refused(builder, BP_ERROR_VALUE, "--limit nodes=N");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/nested/if/known_condition_takes_its_branch_alone", test_known_condition);
  g_test_add_func("/nested/if/open_condition_selects_outputs", test_open_condition);
  g_test_add_func("/nested/if/branches_that_do_not_fit_are_refused", test_refused_branches);
  g_test_add_func("/nested/if/bytes_that_are_no_graph_are_an_error", test_bytes_that_are_no_graph);
  g_test_add_func("/nested/loop/endless_run_can_be_cancelled", test_cancelled_loop);
  g_test_add_data_func("/nested/loop/branches_read_the_copy_of_their_iteration/opencl",
                       "opencl -fp64=false", test_loop_on_two_places);
  g_test_add_data_func("/nested/loop/branches_read_the_copy_of_their_iteration/vulkan",
                       "vulkan -supports_float64=false", test_loop_on_two_places);
  g_test_add_func("/nested/loop/outputs_before_a_loop_have_types",
                  test_types_of_outputs_before_a_loop);
  g_test_add_func("/nested/loop/dump_has_the_nodes_of_the_body", test_dumped_body);
  g_test_add_func("/nested/loop/bodies_that_do_not_fit_are_refused", test_refused_loops);
  g_test_add_func("/nested/functions/calls_become_their_nodes", test_functions);
  g_test_add_func("/nested/functions/absent_attribute_stays_absent", test_absent_attribute);
  g_test_add_func("/nested/functions/recursion_is_an_error", test_recursion);
  g_test_add_func("/nested/functions/calls_count_as_nodes", test_many_calls);
  return g_test_run();
}
