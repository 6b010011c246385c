/* SPDX-License-Identifier: Apache-2.0 */
/* Computations with several tensors: their results, and refused ones. */

#include <math.h>

#include "te-run.h"

typedef struct Inputs {
  BpTeTensor *x;
  int64_t extent; /* extent of the reduced axis */
} Inputs;

/* ---- Several values of one element ------------------------------------------------------- */

static int sum_and_sign_body(BpTe *te, const BpIrNode *const *axes, void *context,
                             const BpIrNode **values) {
  const BpIrNode *x = bp_te_read(te, context, axes);
  values[0] = te_op(te, BP_IR_ADD, x, te_float(te, 1));
  values[1] = te_op(te, BP_IR_LT, x, te_float(te, 0));
  return 0;
}

static void test_several_tensors_are_computed(void) {
  BpTe *te = bp_te_create();
  int64_t count = 7;
  BpTeTensor *x = bp_te_placeholder(te, "x", te_f32, &count, 1), *y[2];
  g_assert_cmpint(bp_te_compute_tuple(te, "y", &count, 1, sum_and_sign_body, x, y, 2), ==, 0);
  g_assert_true(bp_te_stage(te, y[0]) == bp_te_stage(te, y[1]));
  g_assert_true(bp_te_stage_tensor(bp_te_stage(te, y[0]), 1) == y[1]);
  g_assert_cmpint(bp_te_tensor_dtype(y[1]).code, ==, BP_DTYPE_BOOL);
  TeArray *arrays[] = {te_array_new(x), te_array_new(y[0]), te_array_new(y[1])};
  for (int i = 0; i < count; i++)
    te_floats(arrays[0])[i] = (float)(i - 3);
  te_run(te, (BpTeTensor *const[]){x, y[0], y[1]}, arrays, 3);
  for (int i = 0; i < count; i++) {
    g_assert_cmpfloat(te_floats(arrays[1])[i], ==, (float)(i - 2));
    g_assert_cmpint(((uint8_t *)arrays[2]->view.data)[i], ==, i < 3);
  }
  for (int i = 0; i < 3; i++)
    te_array_free(arrays[i]);
  bp_te_free(te);
}

/* A tensor that is never read takes neither memory nor work. */
static void test_an_unused_tensor_is_not_computed(void) {
  BpTe *te = bp_te_create();
  int64_t count = 7;
  BpTeTensor *x = bp_te_placeholder(te, "x", te_f32, &count, 1), *y[2];
  g_assert_cmpint(bp_te_compute_tuple(te, "y", &count, 1, sum_and_sign_body, x, y, 2), ==, 0);
  BpIrModule *module = bp_ir_module_create();
  g_assert_cmpint(bp_te_lower(te, "f", (BpTeTensor *const[]){x, y[1]}, 2, NULL, module), ==, 0);
  char *text = bp_ir_print(module);
  g_assert_null(strstr(text, "y.0"));
  g_assert_null(strstr(text, "allocate"));
  free(text);
  bp_object_release(module);
  bp_te_free(te);
}

/* ---- Reductions of several values -------------------------------------------------------- */

/* Combines two pairs: the pair with the larger value wins; of equal values, the one with the
 * smaller index. */
static int larger(BpTe *te, const BpIrNode *const *a, const BpIrNode *const *b, void *context,
                  const BpIrNode **results) {
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *before =
      te_op(te, BP_IR_AND, te_op(te, BP_IR_EQ, a[0], b[0]), te_op(te, BP_IR_LT, b[1], a[1]));
  const BpIrNode *takes = te_op(te, BP_IR_OR, te_op(te, BP_IR_GT, b[0], a[0]), before);
  (void)context;
  for (int i = 0; i < 2; i++)
    results[i] = bp_ir_select(ir, takes, b[i], a[i]);
  return 0;
}

static int largest_body(BpTe *te, const BpIrNode *const *axes, void *context,
                        const BpIrNode **values) {
  const Inputs *inputs = context;
  const BpIrNode *identities[] = {te_float(te, -INFINITY), te_int(te, INT64_MAX)};
  const BpTeReducer reducer = {.combine = larger, .identities = identities};
  const BpIrNode *k = bp_te_reduce_axis(te, "k", inputs->extent);
  const BpIrNode *terms[] = {te_read2(te, inputs->x, axes[0], k), k};
  return bp_te_reduce_tuple(te, &reducer, terms, 2, &k, 1, values);
}

static void run_largest(BpTe *te, BpTeTensor *x, BpTeTensor *const *y) {
  static const float data[3][5] = {{1, 5, 2, 5, 0}, {-3, -4, -3, -9, -4}, {0, 0, 0, 0, 1}};
  static const int64_t places[] = {1, 0, 4};
  TeArray *arrays[] = {te_array_new(x), te_array_new(y[0]), te_array_new(y[1])};
  memcpy(arrays[0]->view.data, data, sizeof data);
  te_run(te, (BpTeTensor *const[]){x, y[0], y[1]}, arrays, 3);
  for (int i = 0; i < 3; i++) {
    g_assert_cmpint(((int64_t *)arrays[2]->view.data)[i], ==, places[i]);
    g_assert_cmpfloat(te_floats(arrays[1])[i], ==, data[i][places[i]]);
  }
  for (int i = 0; i < 3; i++)
    te_array_free(arrays[i]);
}

static BpTeTensor *make_largest(BpTe *te, BpTeTensor **y) {
  const int64_t shape[] = {3, 5};
  Inputs inputs = {bp_te_placeholder(te, "x", te_f32, shape, 2), shape[1]};
  g_assert_cmpint(bp_te_compute_tuple(te, "y", shape, 1, largest_body, &inputs, y, 2), ==, 0);
  return inputs.x;
}

static void test_a_value_and_its_place_are_reduced_together(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *y[2], *x = make_largest(te, y);
  run_largest(te, x, y);
  bp_te_free(te);
}

/* Each lane has a part of the row; all values of the reduction are split together. */
static void test_a_reduction_of_several_values_is_factored(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *y[2], *x = make_largest(te, y);
  BpTeStage *stage = bp_te_stage(te, y[0]);
  BpTeAxis *outer, *inner;
  g_assert_cmpint(
      bp_te_split(stage, bp_te_stage_reduce_axis(stage, 0), 4, BP_TE_TAIL_GUARD, &outer, &inner),
      ==, 0);
  BpTeTensor *partial = bp_te_rfactor(te, y[1], inner);
  g_assert_nonnull(partial);
  BpTeStage *parts = bp_te_stage(te, partial);
  g_assert_cmpint(bp_te_stage_num_tensors(parts), ==, 2);
  g_assert_true(bp_te_stage_tensor(parts, 1) == partial);
  g_assert_cmpint(bp_te_vectorize(parts, bp_te_stage_axis(parts, 1)), ==, 0);
  run_largest(te, x, y);
  bp_te_free(te);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static int half_of_it_body(BpTe *te, const BpIrNode *const *axes, void *context,
                           const BpIrNode **values) {
  const BpIrNode *both[2];
  if (largest_body(te, axes, context, both) != 0)
    return -1;
  values[0] = both[1];
  values[1] = both[0];
  return 0;
}

static void test_results_of_a_reduction_keep_their_order(void) {
  BpTe *te = bp_te_create();
  const int64_t shape[] = {3, 5};
  BpTeTensor *y[2];
  Inputs inputs = {bp_te_placeholder(te, "x", te_f32, shape, 2), shape[1]};
  g_assert_cmpint(bp_te_compute_tuple(te, "y", shape, 1, half_of_it_body, &inputs, y, 2), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "in order"));
  bp_error_clear();
  bp_te_free(te);
}

static int other_type(BpTe *te, const BpIrNode *const *a, const BpIrNode *const *b, void *context,
                      const BpIrNode **results) {
  (void)te;
  (void)context;
  results[0] = a[0];
  results[1] = b[0];
  return 0;
}

static void test_results_have_the_types_of_their_values(void) {
  BpTe *te = bp_te_create();
  const BpIrNode *values[] = {te_float(te, 0), te_int(te, 0)}, *results[2];
  const BpTeReducer reducer = {.combine = other_type, .identities = values};
  const BpIrNode *k = bp_te_reduce_axis(te, "k", 4);
  g_assert_cmpint(bp_te_reduce_tuple(te, &reducer, values, 2, &k, 1, results), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_TYPE));
  g_assert_nonnull(strstr(bp_error_message(), "result 1"));
  bp_error_clear();
  bp_te_free(te);
}

static void test_the_number_of_values_is_bounded(void) {
  BpTe *te = bp_te_create();
  int64_t count = 7;
  BpTeTensor *x = bp_te_placeholder(te, "x", te_f32, &count, 1), *y[2];
  g_assert_cmpint(bp_te_compute_tuple(te, "y", &count, 1, sum_and_sign_body, x, y, 0), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "1 to 16"));
  bp_error_clear();
  g_assert_cmpint(
      bp_te_compute_tuple(te, "y", &count, 1, sum_and_sign_body, x, y, BP_TE_MAX_VALUES + 1), ==,
      -1);
  bp_error_clear();
  bp_te_free(te);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/te/tuple/several-tensors-are-computed", test_several_tensors_are_computed);
  g_test_add_func("/te/tuple/an-unused-tensor-is-not-computed",
                  test_an_unused_tensor_is_not_computed);
  g_test_add_func("/te/tuple/the-number-of-values-is-bounded",
                  test_the_number_of_values_is_bounded);
  g_test_add_func("/te/reduction/a-value-and-its-place-are-reduced-together",
                  test_a_value_and_its_place_are_reduced_together);
  g_test_add_func("/te/reduction/several-values-are-factored",
                  test_a_reduction_of_several_values_is_factored);
  g_test_add_func("/te/reduction/results-keep-their-order",
                  test_results_of_a_reduction_keep_their_order);
  g_test_add_func("/te/reduction/results-have-the-types-of-their-values",
                  test_results_have_the_types_of_their_values);
  return g_test_run();
}
