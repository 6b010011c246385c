/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and outputs of models that are sequences and optionals. python/tests/test_sequences.py
 * compares their values with onnxruntime. */
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/relax.h>
#include <backplane/object.h>

#include "tests/graph/compile_check.h"

static const BpDevice cpu = {BP_DEVICE_CPU, 0};
static const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1};

/* t = s with x behind it, u = [x, x], p = o, q = r, y = -x */
static BpModule *compile_lists(void) {
  OnnxBuilder *builder = onnx_builder_new();
  BpTarget *target = bp_target_parse("c -options=-O0");
  onnx_list_input(builder, "s", BP_MODEL_SEQUENCE, ONNX_FLOAT, "nx2");
  onnx_input(builder, "x", ONNX_FLOAT, "3x2");
  onnx_list_input(builder, "o", BP_MODEL_OPTIONAL, ONNX_FLOAT, "2");
  onnx_list_input(builder, "r", BP_MODEL_OPTIONAL | BP_MODEL_SEQUENCE, ONNX_INT64, "");
  onnx_node(builder, "SequenceInsert", "s,x", "t", "");
  onnx_node(builder, "SequenceConstruct", "x,x", "u", "");
  onnx_node(builder, "Identity", "o", "p", "");
  onnx_node(builder, "Identity", "r", "q", "");
  onnx_node(builder, "Neg", "x", "y", "");
  for (const char *output = "tupqy"; *output; output++)
    onnx_output(builder, (const char[]){*output, 0});
  builder->version = 18;
  g_autofree char *path = onnx_save(builder);
  BpModule *module = compile_for(path, target);
  bp_target_release(target);
  unlink(path);
  return module;
}

static BpModel *make_lists(void) {
  BpModule *module = compile_lists();
  BpModel *model = bp_model_create(module, &cpu, 1);
  bp_object_release(module);
  g_assert_nonnull(model);
  return model;
}

static void assert_raises(gboolean has_failed, const char *kind, const char *words) {
  g_assert_true(has_failed);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), words))
    g_error("\"%s\" is not in \"%s\"", words, bp_error_message());
  bp_error_clear();
}
#define ASSERT_FAILS(call, kind, words)    assert_raises((call) == -1, kind, words)
#define ASSERT_HAS_NONE(call, kind, words) assert_raises((call) == NULL, kind, words)

static void assert_ok(int status) {
  if (status)
    g_error("%s: %s", bp_error_kind(), bp_error_message());
}

static BpTensorView view_of(void *data, int64_t *shape, int32_t ndim, BpDataType dtype) {
  return (BpTensorView){.data = data, .device = cpu, .ndim = ndim, .dtype = dtype, .shape = shape};
}

static float numbers[] = {1, 2, 3, 4, 5, 6};
static int64_t one_by_two[] = {1, 2}, three_by_two[] = {3, 2}, two[] = {2};

/* Sets the inputs: s has `count` tensors; the optionals have no value. */
static void set_inputs(BpModelContext *context, int64_t count) {
  const BpTensorView row = view_of(numbers, one_by_two, 2, float32);
  const BpTensorView rows = view_of(numbers, three_by_two, 2, float32);
  const BpTensorView *views[] = {&row, &rows};
  assert_ok(bp_model_set_input_list(context, "s", views, count));
  assert_ok(bp_model_set_input(context, "x", &rows));
  assert_ok(bp_model_set_input_list(context, "o", NULL, BP_MODEL_NO_VALUE));
  assert_ok(bp_model_set_input_list(context, "r", NULL, BP_MODEL_NO_VALUE));
}

static int64_t length_of(BpModelContext *context, int32_t index) {
  int64_t length = -2;
  assert_ok(bp_model_get_output_length(context, index, &length));
  return length;
}

static void assert_elements(BpModelContext *context, int32_t index, int64_t position, int64_t count,
                            const float *expected) {
  const BpTensor *item = bp_model_get_output_item(context, index, position);
  g_assert_nonnull(item);
  g_assert_cmpint(bp_view_num_elements(&item->view), ==, count);
  g_assert_cmpmem(item->view.data, (size_t)count * sizeof(float), expected,
                  (size_t)count * sizeof(float));
}

static int add_kind(void *visitor, int32_t role, const BpModelTensorInfo *info) {
  g_string_append_printf(visitor, "%s%s:%d:%d", role == BP_TENSOR_OUTPUT ? " -" : " ", info->name,
                         info->kind, info->ndim);
  return 0;
}

static void test_kinds_are_described(void) {
  const char *kinds = " s:1:2 x:0:2 o:2:1 r:3:0 -t:1:2 -u:1:2 -p:2:1 -q:3:0 -y:0:2";
  GString *text = g_string_new(NULL);
  BpModule *module = compile_lists();
  assert_ok(bp_model_visit_tensors(module, add_kind, text));
  g_assert_cmpstr(text->str, ==, kinds);
  BpModel *model = bp_model_create(module, &cpu, 1);
  const BpModelTensorInfo *info = bp_model_input_info(model, 0);
  g_assert_cmpuint(info->struct_size, ==, sizeof(*info));
  g_assert_cmpint(info->shape[0], ==, -1);
  g_assert_cmpint(info->shape[1], ==, 2);
  g_assert_cmpmem(&info->dtype, sizeof(float32), &float32, sizeof(float32));
  bp_model_release(model);
  bp_object_release(module);
  g_string_free(text, TRUE);
}

static void test_lists_go_in_and_out(void) {
  BpModel *model = make_lists();
  BpModelContext *context = bp_model_context_create(model);
  const BpTensorView pair = view_of(numbers, two, 1, float32);
  int64_t whole[] = {7, 8};
  const BpTensorView seven = view_of(&whole[0], NULL, 0, (BpDataType){BP_DTYPE_INT, 64, 1});
  const BpTensorView eight = view_of(&whole[1], NULL, 0, (BpDataType){BP_DTYPE_INT, 64, 1});
  set_inputs(context, 2);
  assert_ok(bp_model_run(context));
  g_assert_cmpint(length_of(context, 0), ==, 3);
  g_assert_cmpint(length_of(context, 1), ==, 2);
  g_assert_cmpint(length_of(context, 2), ==, BP_MODEL_NO_VALUE);
  g_assert_cmpint(length_of(context, 3), ==, BP_MODEL_NO_VALUE);
  assert_elements(context, 0, 0, 2, numbers);
  assert_elements(context, 0, 1, 6, numbers);
  assert_elements(context, 1, 1, 6, numbers);

  assert_ok(bp_model_set_input_list(context, "s", NULL, 0));
  assert_ok(bp_model_set_input_list(context, "o", (const BpTensorView *[]){&pair}, 1));
  assert_ok(bp_model_set_input_list(context, "r", (const BpTensorView *[]){&seven, &eight}, 2));
  g_assert_cmpint(length_of(context, 0), ==, 3); /* until the next run */
  assert_ok(bp_model_run(context));
  g_assert_cmpint(length_of(context, 0), ==, 1);
  g_assert_cmpint(length_of(context, 2), ==, 1);
  g_assert_cmpint(length_of(context, 3), ==, 2);
  assert_elements(context, 2, 0, 2, numbers);
  g_assert_cmpint(*(const int64_t *)bp_model_get_output_item(context, 3, 1)->view.data, ==, 8);

  assert_ok(bp_model_set_input_list(context, "r", NULL, 0)); /* a sequence without tensors */
  assert_ok(bp_model_run(context));
  g_assert_cmpint(length_of(context, 3), ==, 0);
  bp_model_context_free(context);
  bp_model_release(model);
}

static void test_tensors_of_an_output_are_its_own(void) {
  BpModel *model = make_lists();
  BpModelContext *context = bp_model_context_create(model);
  float given[6];
  memcpy(given, numbers, sizeof given);
  const BpTensorView view = view_of(given, three_by_two, 2, float32);
  BpTensor *bound = bp_tensor_wrap(&view, NULL, NULL);
  set_inputs(context, 0);
  assert_ok(bp_model_bind_input(context, "x", bound));
  assert_ok(bp_model_run(context));
  given[0] = 99;
  assert_elements(context, 0, 0, 6, numbers);
  assert_elements(context, 1, 0, 6, numbers);
  *(float *)bp_model_get_output_item(context, 1, 0)->view.data = 98;
  assert_elements(context, 1, 1, 6, numbers);
  BpTensor *kept = bp_object_retain(bp_model_get_output_item(context, 1, 1));
  assert_ok(bp_model_run(context));
  g_assert_cmpfloat(*(const float *)kept->view.data, ==, 1);
  g_assert_cmpfloat(*(const float *)bp_model_get_output_item(context, 1, 1)->view.data, ==, 99);
  bp_object_release(kept);
  bp_object_release(bound);
  bp_model_context_free(context);
  bp_model_release(model);
}

static void test_a_function_for_another_kind_names_the_right_one(void) {
  BpModel *model = make_lists();
  BpModelContext *context = bp_model_context_create(model);
  const BpTensorView rows = view_of(numbers, three_by_two, 2, float32);
  const BpTensorView *views[] = {&rows};
  BpTensor *tensor = bp_tensor_wrap(&rows, NULL, NULL);
  int64_t length;
  ASSERT_FAILS(bp_model_set_input(context, "s", &rows), BP_ERROR_VALUE,
               "input 's' is a sequence; set it with bp_model_set_input_list");
  ASSERT_FAILS(bp_model_bind_input(context, "o", tensor), BP_ERROR_VALUE,
               "input 'o' is an optional; set it with bp_model_set_input_list");
  ASSERT_FAILS(bp_model_set_input_list(context, "x", views, 1), BP_ERROR_VALUE,
               "input 'x' is a tensor; set it with bp_model_set_input");
  ASSERT_FAILS(bp_model_bind_cache(context, "s", "t", tensor, 1), BP_ERROR_VALUE, "'s'");
  set_inputs(context, 1);
  assert_ok(bp_model_run(context));
  ASSERT_HAS_NONE(bp_model_get_output(context, 0), BP_ERROR_VALUE,
                  "output 't' is a sequence; get it with bp_model_get_output_item");
  ASSERT_HAS_NONE(bp_model_get_queued_output(context, 3), BP_ERROR_VALUE,
                  "output 'q' is an optional; get it with bp_model_get_output_item");
  ASSERT_FAILS(bp_model_get_output_length(context, 4, &length), BP_ERROR_VALUE,
               "output 'y' is a tensor; get it with bp_model_get_output");
  ASSERT_HAS_NONE(bp_model_get_output_item(context, 4, 0), BP_ERROR_VALUE, "is a tensor");
  bp_object_release(tensor);
  bp_model_context_free(context);
  bp_model_release(model);
}

static void test_wrong_lists_are_errors(void) {
  BpModel *model = make_lists();
  BpModelContext *context = bp_model_context_create(model);
  const BpTensorView rows = view_of(numbers, three_by_two, 2, float32);
  const BpTensorView flat = view_of(numbers, two, 1, float32);
  const BpTensorView ints = view_of(numbers, one_by_two, 2, (BpDataType){BP_DTYPE_INT, 32, 1});
  const BpTensorView *some[] = {&rows, &flat, NULL}, *typed[] = {&ints}, *pairs[] = {&flat, &flat};
  ASSERT_FAILS(bp_model_set_input_list(context, "none", some, 1), BP_ERROR_NOT_FOUND, "'none'");
  ASSERT_FAILS(bp_model_set_input_list(context, "s", some, 2), BP_ERROR_VALUE,
               "tensor 1: input 's' is float32 of 2 dimensions");
  ASSERT_FAILS(bp_model_set_input_list(context, "s", some + 2, 1), BP_ERROR_VALUE, "tensor 0");
  ASSERT_FAILS(bp_model_set_input_list(context, "s", typed, 1), BP_ERROR_VALUE, "int32");
  ASSERT_FAILS(bp_model_set_input_list(context, "s", NULL, 1), BP_ERROR_VALUE, "values");
  ASSERT_FAILS(bp_model_set_input_list(context, "s", NULL, BP_MODEL_NO_VALUE), BP_ERROR_VALUE,
               "input 's' is a sequence, which may be empty, but not without a value");
  ASSERT_FAILS(bp_model_set_input_list(context, "r", NULL, -2), BP_ERROR_VALUE, "-2");
  ASSERT_FAILS(bp_model_set_input_list(context, "o", pairs, 2), BP_ERROR_VALUE,
               "input 'o' is an optional tensor");
  ASSERT_FAILS(bp_model_set_input_list(context, "o", NULL, 0), BP_ERROR_VALUE, "optional tensor");
  ASSERT_FAILS(bp_model_run(context), BP_ERROR_VALUE, "input 's' has not been set");
  bp_model_context_free(context);
  bp_model_release(model);
}

static void test_outputs_that_are_not_there_are_errors(void) {
  BpModel *model = make_lists();
  BpModelContext *context = bp_model_context_create(model);
  int64_t length = 5;
  set_inputs(context, 1);
  ASSERT_FAILS(bp_model_get_output_length(context, 0, &length), BP_ERROR_VALUE,
               "the model has not been run");
  assert_ok(bp_model_run(context));
  ASSERT_FAILS(bp_model_get_output_length(context, 5, &length), BP_ERROR_INDEX, "output 5");
  ASSERT_FAILS(bp_model_get_output_length(context, 0, NULL), BP_ERROR_VALUE, "length");
  ASSERT_HAS_NONE(bp_model_get_output_item(context, 0, 2), BP_ERROR_INDEX,
                  "tensor 2 of output 't', which has 2");
  ASSERT_HAS_NONE(bp_model_get_output_item(context, 0, -1), BP_ERROR_INDEX, "tensor -1");
  ASSERT_HAS_NONE(bp_model_get_output_item(context, 2, 0), BP_ERROR_INDEX, "which has 0");
  bp_model_context_free(context);
  bp_model_release(model);
}

/* Calls "main" of the program itself, which checks its arguments. */
static void call_main(BpFunction *function, BpValue list, const char *words) {
  const BpTensorView rows = view_of(numbers, three_by_two, 2, float32);
  BpTensor *x = bp_tensor_wrap(&rows, NULL, NULL);
  BpArray *none = bp_array_create(NULL, 0);
  BpValue result = {0}, empty = {.type_index = BP_TYPE_ARRAY, .v_obj = &none->header};
  const BpValue args[] = {list, {.type_index = BP_TYPE_TENSOR, .v_obj = &x->header}, empty, empty};
  int status = bp_function_call(function, args, 4, &result);
  if (words)
    assert_raises(status == -1, bp_error_kind(), words);
  else
    assert_ok(status);
  bp_value_clear(&result);
  bp_object_release(none);
  bp_object_release(x);
}

static void test_the_program_checks_its_lists(void) {
  BpModule *module = compile_lists();
  BpModule *machine = bp_relax_machine_create(module, cpu);
  BpFunction *function = NULL;
  assert_ok(bp_module_get_function(machine, "main", 0, &function));
  g_assert_nonnull(function);
  int64_t shapes[][2] = {{1, 2}, {2, 3}};
  const BpTensorView views[] = {view_of(numbers, shapes[0], 2, float32),
                                view_of(numbers, shapes[1], 2, float32),
                                view_of(numbers, shapes[0], 2, (BpDataType){BP_DTYPE_INT, 32, 1}),
                                view_of(numbers, shapes[0], 1, float32)};
  const char *words[] = {NULL, "extent 1 of tensor 0 to be 2", "tensor 0 is int32", "float32 of 1"};
  for (size_t i = 0; i < G_N_ELEMENTS(views); i++) {
    BpTensor *tensor = bp_tensor_wrap(&views[i], NULL, NULL);
    const BpValue item = {.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
    BpArray *list = bp_array_create(&item, 1);
    call_main(function, (BpValue){.type_index = BP_TYPE_ARRAY, .v_obj = &list->header}, words[i]);
    call_main(function, item, "input 's':");
    bp_object_release(list);
    bp_object_release(tensor);
  }
  bp_object_release(function);
  bp_object_release(machine);
  bp_object_release(module);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/graph/lists/kinds-are-described", test_kinds_are_described);
  g_test_add_func("/graph/lists/go-in-and-out", test_lists_go_in_and_out);
  g_test_add_func("/graph/lists/tensors-of-an-output-are-its-own",
                  test_tensors_of_an_output_are_its_own);
  g_test_add_func("/graph/lists/function-for-another-kind-names-the-right-one",
                  test_a_function_for_another_kind_names_the_right_one);
  g_test_add_func("/graph/lists/wrong-lists-are-errors", test_wrong_lists_are_errors);
  g_test_add_func("/graph/lists/missing-outputs-are-errors",
                  test_outputs_that_are_not_there_are_errors);
  g_test_add_func("/graph/lists/program-checks-its-lists", test_the_program_checks_its_lists);
  return g_test_run();
}
