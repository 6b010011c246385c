/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as numbers and tensors as text. The texts are those of numpy 1.26. */
#include "tests/core/asserts.h"

#include <math.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

static const BpDataType f32 = {BP_DTYPE_FLOAT, 32, 1}, i64 = {BP_DTYPE_INT, 64, 1};

static BpTensorView make_view(void *data, BpDataType dtype, int32_t ndim, int64_t *shape) {
  return (BpTensorView){data, {BP_DEVICE_CPU, 0}, ndim, dtype, shape, NULL, 0};
}

static void expect_type_error(const char *message) {
  g_assert_true(bp_error_is(BP_ERROR_TYPE));
  g_assert_cmpstr(bp_error_message(), ==, message);
  bp_error_clear();
}

static void expect_text(const BpTensorView *view, const char *expected) {
  char *text = bp_tensor_format(view, 0);
  g_assert_cmpstr(text, ==, expected);
  bp_str_free(text);
}

static void expect_floats(const char *expected, int64_t count, float *data) {
  BpTensorView view = make_view(data, f32, 1, &count);
  expect_text(&view, expected);
}

#define FLOATS(expected, ...)                                                                      \
  expect_floats(expected, sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})

static void test_floats_are_aligned_at_the_point(void) {
  FLOATS("[1.   2.5  3.25]", 1, 2.5f, 3.25f);
  FLOATS("[0.1        0.33333334]", 0.1f, 1 / 3.f);
  FLOATS("[  1.  nan -inf]", 1, NAN, -INFINITY);
  FLOATS("[-0.  0.]", -0.f, 0);
}

static void test_floats_of_unlike_size_have_exponents(void) {
  FLOATS("[1.e-05 1.e+00]", 1e-5f, 1);
  FLOATS("[1.e+08]", 1e8f);
  FLOATS("[1.5e+00 3.0e+03     inf]", 1.5f, 3000, INFINITY);
}

static void test_rows_are_wrapped_and_shortened(void) {
  float data[1200];
  int64_t row = 20, square[] = {40, 30};
  for (int i = 0; i < 1200; i++)
    data[i] = (float)i;
  BpTensorView view = make_view(data, f32, 1, &row);
  expect_text(&view, "[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
                     " 18. 19.]");
  view = make_view(data, f32, 2, square);
  expect_text(&view, "[[0.000e+00 1.000e+00 2.000e+00 ... 2.700e+01 2.800e+01 2.900e+01]\n"
                     " [3.000e+01 3.100e+01 3.200e+01 ... 5.700e+01 5.800e+01 5.900e+01]\n"
                     " [6.000e+01 6.100e+01 6.200e+01 ... 8.700e+01 8.800e+01 8.900e+01]\n"
                     " ...\n"
                     " [1.110e+03 1.111e+03 1.112e+03 ... 1.137e+03 1.138e+03 1.139e+03]\n"
                     " [1.140e+03 1.141e+03 1.142e+03 ... 1.167e+03 1.168e+03 1.169e+03]\n"
                     " [1.170e+03 1.171e+03 1.172e+03 ... 1.197e+03 1.198e+03 1.199e+03]]");
  char *text = bp_tensor_format(&view, 2000);
  g_assert_null(strstr(text, "..."));
  bp_str_free(text);
}

static void test_dimensions_nest(void) {
  int64_t data[] = {1, -2, 3, 40, 5, 6, 7, 8}, shape[] = {2, 2, 2}, transposed[] = {1, 2, 4};
  BpTensorView view = make_view(data, i64, 3, shape);
  expect_text(&view, "[[[ 1 -2]\n  [ 3 40]]\n\n [[ 5  6]\n  [ 7  8]]]");
  view.strides = transposed;
  expect_text(&view, "[[[ 1  5]\n  [ 3  7]]\n\n [[-2  6]\n  [40  8]]]");
  shape[1] = 0;
  expect_text(&view, "[]");
}

static void test_strides_may_be_negative(void) {
  float data[] = {1, 2, 3};
  uint8_t packed[] = {0x21, 0x43}; /* 1 to 4 */
  int64_t extent = 3, back = -1;
  BpTensorView view = make_view(data + 2, f32, 1, &extent);
  view.strides = &back;
  expect_text(&view, "[3. 2. 1.]");
  view = make_view(packed + 1, (BpDataType){BP_DTYPE_UINT, 4, 1}, 1, &extent);
  view.strides = &back;
  expect_text(&view, "[3 2 1]");
}

static void test_scalars_stand_alone(void) {
  float number = 1;
  uint8_t truth = 1;
  BpTensorView view = make_view(&number, f32, 0, NULL);
  expect_text(&view, "1.0");
  number = 1e-5f;
  expect_text(&view, "1e-05");
  view = make_view(&truth, (BpDataType){BP_DTYPE_BOOL, 8, 1}, 0, NULL);
  expect_text(&view, "True");
}

static void test_narrow_elements_are_decoded(void) {
  static const struct {
    BpDataType dtype;
    uint8_t bytes[2];
    double value; /* value of element 1 for a type below a byte, else of element 0 */
  } cases[] = {
      {{BP_DTYPE_FLOAT, 16, 1}, {0x00, 0xc2}, -3},
      {{BP_DTYPE_FLOAT, 16, 1}, {0x01, 0x00}, 0x1p-24},
      {{BP_DTYPE_BFLOAT, 16, 1}, {0x80, 0x3f}, 1},
      {{BP_DTYPE_FLOAT8_E4M3FN, 8, 1}, {0x7e}, 448},
      {{BP_DTYPE_FLOAT8_E5M2, 8, 1}, {0x7b}, 57344},
      {{BP_DTYPE_FLOAT8_E5M2, 8, 1}, {0xfc}, -INFINITY},
      {{BP_DTYPE_FLOAT8_E4M3FNUZ, 8, 1}, {0x7f}, 240},
      {{BP_DTYPE_FLOAT8_E5M2FNUZ, 8, 1}, {0x7f}, 57344},
      {{BP_DTYPE_FLOAT8_E8M0FNU, 8, 1}, {0x80}, 2},
      {{BP_DTYPE_FLOAT4_E2M1FN, 4, 1}, {0x70}, 6},
      {{BP_DTYPE_FLOAT6_E2M3FN, 6, 1}, {0xc0, 0x07}, 7.5},
      {{BP_DTYPE_INT, 4, 1}, {0xf0}, -1},
      {{BP_DTYPE_UINT, 2, 1}, {0x0c}, 3},
      {{BP_DTYPE_BOOL, 8, 1}, {0x01}, 1},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    double value = 0;
    assert_ok(bp_dtype_decode(cases[i].dtype, cases[i].bytes, cases[i].dtype.bits < 8, &value));
    g_assert_cmpfloat(value, ==, cases[i].value);
  }
}

static void test_wide_floats_are_decoded(void) {
  static const float singles[] = {-3, 0x1p-149f, -INFINITY};
  static const double doubles[] = {-3, 0x1p-1074, INFINITY};
  static const float not_a_number = -NAN;
  double value = 0;
  for (uint64_t i = 0; i < 3; i++) {
    assert_ok(bp_dtype_decode(f32, singles, i, &value));
    g_assert_cmpfloat(value, ==, (double)singles[i]);
    assert_ok(bp_dtype_decode((BpDataType){BP_DTYPE_FLOAT, 64, 1}, doubles, i, &value));
    g_assert_cmpfloat(value, ==, doubles[i]);
  }
  assert_ok(bp_dtype_decode(f32, &not_a_number, 0, &value));
  g_assert_true(isnan(value) && !signbit(value));
}

static void test_not_a_number_is_decoded(void) {
  double value = 0;
  const uint8_t negative_zero = 0x80, ones = 0x7f, all = 0xff;
  assert_ok(
      bp_dtype_decode((BpDataType){BP_DTYPE_FLOAT8_E5M2FNUZ, 8, 1}, &negative_zero, 0, &value));
  g_assert_true(isnan(value));
  assert_ok(bp_dtype_decode((BpDataType){BP_DTYPE_FLOAT8_E4M3FN, 8, 1}, &ones, 0, &value));
  g_assert_true(isnan(value));
  assert_ok(bp_dtype_decode((BpDataType){BP_DTYPE_FLOAT8_E8M0FNU, 8, 1}, &all, 0, &value));
  g_assert_true(isnan(value));
}

static void test_elements_that_are_no_number_are_refused(void) {
  double value;
  int64_t shape[] = {1};
  float data[4] = {0};
  BpTensorView view = make_view(data, (BpDataType){BP_DTYPE_COMPLEX, 64, 1}, 1, shape);
  g_assert_cmpint(bp_dtype_decode(view.dtype, data, 0, &value), ==, -1);
  expect_type_error("an element of complex64 is not one real number");
  g_assert_null(bp_tensor_format(&view, 0));
  expect_type_error("an element of complex64 is not one real number");
  g_assert_cmpint(bp_dtype_decode((BpDataType){BP_DTYPE_FLOAT, 32, 4}, data, 0, &value), ==, -1);
  expect_type_error("an element of float32x4 is not one real number");
}

static void test_elements_without_memory_are_refused(void) {
  int64_t shape[] = {2};
  BpTensorView view = make_view(NULL, i64, 1, shape);
  g_assert_null(bp_tensor_format(&view, 0));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), "2 elements without memory"));
  bp_error_clear();
}

static void test_text_is_printed_to_a_file(void) {
  int64_t shape[] = {2}, data[] = {1, 2};
  BpTensorView view = make_view(data, i64, 1, shape);
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  assert_ok(bp_tensor_print(&view, file));
  fclose(file);
  g_assert_cmpstr(text, ==, "[1 2]\n");
  free(text);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/format/floats-are-aligned-at-the-point", test_floats_are_aligned_at_the_point);
  g_test_add_func("/format/floats-of-unlike-size-have-exponents",
                  test_floats_of_unlike_size_have_exponents);
  g_test_add_func("/format/rows-are-wrapped-and-shortened", test_rows_are_wrapped_and_shortened);
  g_test_add_func("/format/dimensions-nest", test_dimensions_nest);
  g_test_add_func("/format/strides-may-be-negative", test_strides_may_be_negative);
  g_test_add_func("/format/scalars-stand-alone", test_scalars_stand_alone);
  g_test_add_func("/format/narrow-elements-are-decoded", test_narrow_elements_are_decoded);
  g_test_add_func("/format/wide-floats-are-decoded", test_wide_floats_are_decoded);
  g_test_add_func("/format/not-a-number-is-decoded", test_not_a_number_is_decoded);
  g_test_add_func("/format/elements-that-are-no-number-are-refused",
                  test_elements_that_are_no_number_are_refused);
  g_test_add_func("/format/elements-without-memory-are-refused",
                  test_elements_without_memory_are_refused);
  g_test_add_func("/format/text-is-printed-to-a-file", test_text_is_printed_to_a_file);
  return g_test_run();
}
