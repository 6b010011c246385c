/* SPDX-License-Identifier: Apache-2.0 */
/* tvm.contrib.sort.*, which compiled code calls. tests/tvm compares results with TVM's own
 * functions; this test covers refusals, and uses that no compiler has today. */

#include <math.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#define CPU0 ((BpDevice){BP_DEVICE_CPU, 0})

static const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1}, int32 = {BP_DTYPE_INT, 32, 1};

static BpTensor *make(BpDataType dtype, int32_t ndim, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  BpTensor *tensor = bp_tensor_create(shape + 2 - ndim, ndim, dtype, CPU0, NULL);
  if (!tensor)
    g_error("%s", bp_error_message());
  memset(tensor->view.data, 0, (size_t)bp_view_num_bytes(&tensor->view));
  return tensor;
}

static BpTensor *floats(int64_t rows, int64_t columns, const float *numbers) {
  BpTensor *tensor = make(float32, 2, rows, columns);
  memcpy(tensor->view.data, numbers, (size_t)(rows * columns) * sizeof(float));
  return tensor;
}

static BpValue tensor_arg(BpTensor *tensor) {
  return (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
}

static BpValue number(int64_t value) {
  return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = value};
}

static BpValue text(const char *value) {
  return (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = value};
}

static int call(const char *name, const BpValue *args, int32_t num_args) {
  BpFunction *function;
  BpValue result;
  char *full = g_strconcat("tvm.contrib.sort.", name, NULL);
  if (bp_registry_get(full, &function) || !function)
    g_error("no function %s", full);
  int status = bp_function_call(function, args, num_args, &result);
  bp_object_release(function);
  g_free(full);
  return status;
}

static void refuse(const char *name, const BpValue *args, int32_t num_args, const char *kind,
                   const char *part) {
  g_assert_cmpint(call(name, args, num_args), ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  if (!strstr(bp_error_message(), part))
    g_error("\"%s\" does not say \"%s\"", bp_error_message(), part);
  bp_error_clear();
}

/* ---- Results ----------------------------------------------------------------------------- */

static void test_no_number_is_the_largest(void) {
  const float numbers[] = {3, NAN, -INFINITY, -1, INFINITY, 0};
  const int32_t up[] = {2, 3, 5, 0, 4, 1}, down[] = {1, 4, 0, 5, 3, 2};
  BpTensor *in = floats(1, 6, numbers), *out = make(int32, 2, 1, 6);
  BpValue args[] = {tensor_arg(in), tensor_arg(out), number(-1), number(1)};
  g_assert_cmpint(call("argsort", args, 4), ==, 0);
  g_assert_cmpmem(out->view.data, sizeof up, up, sizeof up);
  args[3] = number(0);
  g_assert_cmpint(call("argsort", args, 4), ==, 0);
  g_assert_cmpmem(out->view.data, sizeof down, down, sizeof down);
  bp_object_release(in);
  bp_object_release(out);
}

static void test_only_the_beginning_of_a_row_is_sorted(void) {
  const float numbers[] = {3, 1, 2, 0, 3, 1, 2, 0, 3, 1, 2, 0};
  const int32_t lengths[] = {3, 9, -1}, sorted[] = {1, 2, 0, 3, 3, 1, 2, 0, 0, 1, 2, 3};
  BpTensor *in = floats(3, 4, numbers), *out = make(int32, 2, 3, 4), *most = make(int32, 1, 1, 3);
  memcpy(most->view.data, lengths, sizeof lengths);
  BpValue args[] = {tensor_arg(in), tensor_arg(most), tensor_arg(out), number(1), number(1)};
  g_assert_cmpint(call("argsort_nms", args, 5), ==, 0);
  g_assert_cmpmem(out->view.data, sizeof sorted, sorted, sizeof sorted);
  bp_object_release(in);
  bp_object_release(out);
  bp_object_release(most);
}

static void test_values_take_the_place_of_the_input(void) {
  const float numbers[] = {9, 1, 8, 3, 7, 2}, rows[] = {1, 8, 9, 2, 3, 7};
  const float columns[] = {3, 1, 2, 9, 7, 8}, largest[] = {9, 8, 7, 3};
  for (int64_t axis = 0; axis < 2; axis++) {
    BpTensor *both = floats(2, 3, numbers);
    BpValue args[] = {tensor_arg(both), tensor_arg(both), number(axis), number(1)};
    g_assert_cmpint(call("sort", args, 4), ==, 0);
    g_assert_cmpmem(both->view.data, sizeof rows, axis ? rows : columns, sizeof rows);
    bp_object_release(both);
  }
  BpTensor *both = floats(2, 3, numbers);
  BpTensorView first = both->view;
  int64_t shape[] = {2, 2};
  first.shape = shape;
  first.strides = NULL;
  BpValue view = {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &first};
  BpValue args[] = {tensor_arg(both), view, number(2), number(1), text("values"), number(0)};
  g_assert_cmpint(call("topk", args, 6), ==, 0);
  g_assert_cmpmem(both->view.data, sizeof largest, largest, sizeof largest);
  first.byte_offset = sizeof(float);
  refuse("topk", args, 6, BP_ERROR_VALUE, "an output overlaps the input");
  BpValue same[] = {tensor_arg(both), tensor_arg(both), number(1), number(1)};
  refuse("argsort", same, 4, BP_ERROR_VALUE, "an output overlaps the input");
  bp_object_release(both);
}

/* A view that begins inside its memory; indices as floats, TVM's default. */
static void test_views_begin_at_their_offset(void) {
  const float numbers[] = {9, 9, 3, 1, 2}, sorted[] = {0, 2};
  const int64_t shape[] = {1, 3};
  BpTensor *in = floats(1, 5, numbers), *out = make(float32, 2, 1, 2);
  BpTensorView part = in->view;
  part.shape = (int64_t *)(uintptr_t)shape;
  part.byte_offset = 2 * sizeof(float);
  BpValue args[] = {{.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &part},
                    tensor_arg(out),
                    number(2),
                    number(1),
                    text("indices"),
                    number(0)};
  g_assert_cmpint(call("topk", args, 6), ==, 0);
  g_assert_cmpmem(out->view.data, sizeof sorted, sorted, sizeof sorted);
  bp_object_release(in);
  bp_object_release(out);
}

/* A view whose extents may be arbitrarily large. */
static void test_nothing_is_sorted(void) {
  BpTensor *in = make(float32, 2, 0, INT64_MAX), *out = make(float32, 2, 0, INT64_MAX);
  BpValue args[] = {tensor_arg(in), tensor_arg(out), number(1), number(1)};
  g_assert_cmpint(call("sort", args, 4), ==, 0);
  args[2] = number(0);
  g_assert_cmpint(call("sort", args, 4), ==, 0);
  bp_object_release(in);
  bp_object_release(out);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static void test_wrong_arguments_are_errors(void) {
  BpTensor *in = make(float32, 2, 2, 3), *out = make(float32, 2, 2, 3),
           *wide = make(float32, 2, 2, 4), *flat = make(float32, 1, 0, 6),
           *ints = make(int32, 2, 2, 3), *lengths = make(int32, 1, 0, 3),
           *vectors = make((BpDataType){BP_DTYPE_FLOAT, 32, 4}, 2, 2, 3),
           *small = make((BpDataType){BP_DTYPE_FLOAT, 16, 1}, 2, 2, 3);
  BpValue good[] = {tensor_arg(in), tensor_arg(out), number(1), number(1)};
  g_assert_cmpint(call("sort", good, 4), ==, 0);
  const struct {
    int at;
    BpValue value;
    const char *kind, *part;
  } wrong[] = {
      {0, number(1), BP_ERROR_TYPE, "no tensor"},
      {0, tensor_arg(vectors), BP_ERROR_VALUE, "no order"},
      {1, tensor_arg(wide), BP_ERROR_VALUE, "shape"},
      {1, tensor_arg(flat), BP_ERROR_VALUE, "dimensions"},
      {1, tensor_arg(ints), BP_ERROR_VALUE, "type of the input"},
      {2, number(2), BP_ERROR_VALUE, "no such axis"},
      {2, number(-3), BP_ERROR_VALUE, "no such axis"},
      {2, number(INT64_MIN), BP_ERROR_VALUE, "no such axis"},
      {3, text("up"), BP_ERROR_TYPE, "takes a number"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
    BpValue args[4];
    memcpy(args, good, sizeof args);
    args[wrong[i].at] = wrong[i].value;
    refuse("sort", args, 4, wrong[i].kind, wrong[i].part);
  }
  refuse("sort", good, 3, BP_ERROR_TYPE, "takes 4 to 4 arguments");
  BpValue half[] = {tensor_arg(in), tensor_arg(small), number(1), number(1)};
  refuse("argsort", half, 4, BP_ERROR_VALUE, "neither integers nor floats");
  BpValue nms[] = {tensor_arg(in), tensor_arg(lengths), tensor_arg(ints), number(1), number(1)};
  refuse("argsort_nms", nms, 5, BP_ERROR_VALUE, "one length");
  BpValue topk[] = {tensor_arg(in), tensor_arg(out), number(4),
                    number(1),      text("values"),  number(1)};
  refuse("topk", topk, 6, BP_ERROR_VALUE, "more elements");
  topk[4] = text("both");
  refuse("topk", topk, 6, BP_ERROR_VALUE, "outputs");
  BpTensorView strided = in->view;
  const int64_t strides[] = {1, 2};
  strided.strides = (int64_t *)(uintptr_t)strides;
  good[0] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &strided};
  refuse("sort", good, 4, BP_ERROR_VALUE, "strides");
  strided.strides = NULL;
  strided.device = (BpDevice){BP_DEVICE_OPENCL, 0};
  refuse("sort", good, 4, BP_ERROR_VALUE, "a tensor is on opencl:0, and only the CPU sorts");
  BpTensor *all[] = {in, out, wide, flat, ints, lengths, vectors, small};
  for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
    bp_object_release(all[i]);
}

/* ---- Which of equal elements comes first ------------------------------------------------- */

static int mine(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return bp_error_raise(BP_ERROR_VALUE, "this one is mine");
}

/* The test runs in a child process, because registered functions stay. */
static void test_a_function_of_the_application_stays(void) {
  if (g_test_subprocess()) {
    BpFunction *function = bp_function_create(mine, NULL, NULL);
    g_assert_cmpint(bp_registry_set("tvm.contrib.sort.sort", function, 0), ==, 0);
    bp_object_release(function);
    g_assert_cmpint(bp_graph_initialize(), ==, 0);
    refuse("sort", NULL, 0, BP_ERROR_VALUE, "this one is mine");
    return;
  }
  g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  if (!g_test_subprocess() && bp_graph_initialize())
    g_error("%s", bp_error_message());
  g_test_add_func("/sort/no-number-is-the-largest", test_no_number_is_the_largest);
  g_test_add_func("/sort/only-the-beginning-of-a-row-is-sorted",
                  test_only_the_beginning_of_a_row_is_sorted);
  g_test_add_func("/sort/values-take-the-place-of-the-input",
                  test_values_take_the_place_of_the_input);
  g_test_add_func("/sort/views-begin-at-their-offset", test_views_begin_at_their_offset);
  g_test_add_func("/sort/nothing-is-sorted", test_nothing_is_sorted);
  g_test_add_func("/sort/wrong-arguments-are-errors", test_wrong_arguments_are_errors);
  g_test_add_func("/sort/a-function-of-the-application-stays",
                  test_a_function_of_the_application_stays);
  return g_test_run();
}
