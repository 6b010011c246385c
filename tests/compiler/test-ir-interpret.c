/* SPDX-License-Identifier: Apache-2.0 */
/* The reference interpreter: the meaning of every construct of the IR. */

#include <math.h>

#include "tests/compiler/ir-util.h"

/* ---- One expression ---------------------------------------------------------------------- */

/* Stores the expression, of type `dtype`, to A[0..lanes) and returns A as bytes. */
static int evaluate(const char *dtype, int lanes, const char *expression, void *result) {
  char *index = lanes == 1 ? g_strdup("0") : g_strdup_printf("(ramp 0 1 %d)", lanes);
  char *body = g_strdup_printf("(store A %s %s)", index, expression);
  char *text = with_buffer(dtype, lanes, body);
  int rc = run_on(text, result, dtype, lanes);
  g_free(text);
  g_free(body);
  g_free(index);
  return rc;
}

static void assert_int(const char *dtype, const char *expression, int64_t expected) {
  int64_t value = 0;
  if (evaluate(dtype, 1, expression, &value))
    g_error("%s: %s", expression, bp_error_message());
  int unused = 64 - dtype_of(dtype).bits;
  gboolean is_unsigned = *dtype == 'u' || *dtype == 'b';
  uint64_t raised = (uint64_t)value << unused;
  value = is_unsigned ? (int64_t)(raised >> unused) : (int64_t)raised >> unused;
  if (value != expected)
    g_error("%s is %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT, expression, value, expected);
}

static void assert_float(const char *expression, float expected) {
  float value = -77;
  if (evaluate("float32", 1, expression, &value))
    g_error("%s: %s", expression, bp_error_message());
  if (memcmp(&value, &expected, sizeof value) && !(isnan(value) && isnan(expected)))
    g_error("%s is %.9g, not %.9g", expression, (double)value, (double)expected);
}

static void assert_bool(const char *expression, int expected) {
  assert_int("bool", expression, expected);
}

static void assert_fails(const char *expression, const char *kind, const char *message) {
  int64_t value;
  g_assert_cmpint(evaluate("int64", 1, expression, &value), ==, -1);
  assert_error(kind, message);
}

static void test_integers_are_computed_exactly(void) {
  assert_int("int64", "(add 2 3)", 5);
  assert_int("int64", "(sub 2 3)", -1);
  assert_int("int64", "(mul -4 3)", -12);
  assert_int("int64", "(div -7 2)", -3);
  assert_int("int64", "(mod -7 2)", -1);
  assert_int("int64", "(floordiv -7 2)", -4);
  assert_int("int64", "(floordiv 7 -2)", -4);
  assert_int("int64", "(floormod -7 2)", 1);
  assert_int("int64", "(floormod 7 -2)", -1);
  assert_int("int64", "(floormod -6 2)", 0);
  assert_int("int64", "(min -7 2)", -7);
  assert_int("int64", "(max -7 2)", 2);
  assert_int("uint64", "(div 18446744073709551615:uint64 2:uint64)", INT64_MAX);
  assert_int("uint8", "(max 200:uint8 100:uint8)", 200);
}

static void test_integers_wrap(void) {
  assert_int("int8", "(add 127:int8 1:int8)", -128);
  assert_int("uint8", "(add 255:uint8 1:uint8)", 0);
  assert_int("uint8", "(sub 0:uint8 1:uint8)", 255);
  assert_int("int16", "(mul 256:int16 128:int16)", -32768);
  assert_int("int32", "(mul 65536:int32 65536:int32)", 0);
  assert_int("int32", "(div -2147483648:int32 -1:int32)", INT32_MIN);
  assert_int("int64", "(add 9223372036854775807 1)", INT64_MIN);
  assert_int("int64", "(div -9223372036854775808 -1)", INT64_MIN);
  assert_int("int64", "(mod -9223372036854775808 -1)", 0);
}

static void test_bit_operations_are_computed_exactly(void) {
  assert_int("int64", "(bit_and 12 10)", 8);
  assert_int("int64", "(bit_or 12 10)", 14);
  assert_int("int64", "(bit_xor 12 10)", 6);
  assert_int("uint8", "(shl 129:uint8 1:uint8)", 2);
  assert_int("int8", "(shr -128:int8 3:int8)", -16);
  assert_int("uint8", "(shr 128:uint8 3:uint8)", 16);
}

static void test_divisions_by_zero_are_zero(void) {
  assert_int("int64", "(div 7 (load A 0))", 0);
  assert_int("int8", "(mod -7:int8 0:int8)", 0);
  assert_int("uint32", "(floordiv 7:uint32 0:uint32)", 0);
  assert_int("int16", "(floormod -7:int16 0:int16)", 0);
}

static void test_shifts_beyond_the_width_shift_all_out(void) {
  assert_int("int8", "(shl -1:int8 8:int8)", 0);
  assert_int("int8", "(shr -1:int8 100:int8)", -1);
  assert_int("int8", "(shr 127:int8 8:int8)", 0);
  assert_int("int64", "(shr -5 -1)", -1);
  assert_int("int64", "(shl 5 -1)", 0);
  assert_int("uint64", "(shr 18446744073709551615:uint64 64:uint64)", 0);
}

static void test_casts_end_at_the_ends_of_integers(void) {
  assert_int("int8", "(cast int8 300:float32)", 127);
  assert_int("int8", "(cast int8 -inf:float32)", -128);
  assert_int("uint8", "(cast uint8 -3:float64)", 0);
  assert_int("uint16", "(cast uint16 inf:float16)", 65535);
  assert_int("int32", "(cast int32 2147483648:float32)", INT32_MAX);
  assert_int("int64", "(cast int64 1e30:float64)", INT64_MAX);
  assert_int("uint64", "(cast uint64 1e30:bfloat16)", -1);
  assert_int("int64", "(cast int64 nan:float32)", 0);
  assert_int("bool", "(cast bool nan:float32)", 1);
  assert_int("bool", "(cast bool -0:float32)", 0);
}

static void test_comparisons_give_bools(void) {
  assert_bool("(eq 2 2)", 1);
  assert_bool("(ne 2 2)", 0);
  assert_bool("(lt -1 2)", 1);
  assert_bool("(le 2 2)", 1);
  assert_bool("(gt 255:uint8 1:uint8)", 1);
  assert_bool("(ge -1:int8 1:int8)", 0);
  assert_bool("(eq nan:float32 nan:float32)", 0);
  assert_bool("(ne nan:float32 nan:float32)", 1);
  assert_bool("(lt nan:float32 1:float32)", 0);
  assert_bool("(eq -0:float32 0:float32)", 1);
  assert_bool("(and true false)", 0);
  assert_bool("(or true false)", 1);
  assert_bool("(not false)", 1);
}

static void test_floats_are_rounded_to_their_type(void) {
  assert_float("(add 0.1:float32 0.2:float32)", 0.1f + 0.2f);
  assert_float("(add 16777216:float32 1:float32)", 16777216.0f);
  assert_float("(mul 3e38:float32 10:float32)", INFINITY);
  assert_float("(div 1:float32 -0:float32)", -INFINITY);
  assert_float("(sub inf:float32 inf:float32)", NAN);
  assert_float("(min nan:float32 1:float32)", NAN);
  assert_float("(min 1:float32 nan:float32)", NAN);
  assert_float("(max nan:float32 1:float32)", NAN);
  assert_float("(max 1:float32 nan:float32)", NAN);
  assert_float("(max 1:float32 2:float32)", 2);
  assert_float("(mul -0:float32 3:float32)", -0.0f);
}

static void test_conversions_wrap_and_clip(void) {
  assert_int("int32", "(cast int32 -1.9:float32)", -1);
  assert_int("int8", "(cast int8 300)", 44);
  assert_int("uint8", "(cast uint8 -1)", 255);
  assert_int("bool", "(cast bool 7)", 1);
  assert_int("int64", "(cast int64 true)", 1);
  assert_int("uint64", "(cast uint64 1.5e19:float64)", (int64_t)15000000000000000000u);
  assert_float("(cast float32 16777217)", 16777216.0f);
  assert_float("(cast float32 18446744073709551615:uint64)", 0x1p64f);
  assert_float("(cast float32 (cast float16 1.0009765625:float32))", 1.0009765625f);
  assert_float("(cast float32 (cast float16 2049:float32))", 2048.0f);
  assert_float("(cast float32 (cast float16 65520:float32))", INFINITY);
  assert_float("(cast float32 (cast float16 6e-8:float32))", 0x1p-24f);
  assert_float("(cast float32 (cast bfloat16 1.00390625:float32))", 1.0f);
  assert_float("(cast float32 (cast bfloat16 257:float32))", 256.0f);
  assert_int("int32", "(reinterpret int32 1:float32)", 0x3f800000);
  assert_int("int64", "(reinterpret int64 (ramp 1:int32 1:int32 2))", 0x200000001);
  assert_int("int16", "(reinterpret int16 1:float16)", 0x3c00);
  assert_int("int16", "(reinterpret int16 -2:bfloat16)", (int16_t)0xc000);
}

static void test_narrow_floats_are_stored_as_bits(void) {
  uint16_t half;
  assert_ok(evaluate("float16", 1, "(add 1:float16 0.0004883:float16)", &half));
  g_assert_cmphex(half, ==, 0x3c00);
  assert_ok(evaluate("float16", 1, "nan:float16", &half));
  g_assert_cmphex(half, ==, 0x7e00);
  assert_ok(evaluate("float16", 1, "-5.96046e-08:float16", &half));
  g_assert_cmphex(half, ==, 0x8001);
  assert_ok(evaluate("bfloat16", 1, "(div 1:bfloat16 3:bfloat16)", &half));
  g_assert_cmphex(half, ==, 0x3eab);
}

static void test_select_evaluates_both_choices(void) {
  assert_int("int64", "(select (lt 1 2) 10 20)", 10);
  assert_int("int64", "(select (gt 1 2) 10 20)", 20);
  assert_fails("(select true 1 (load A 1))", BP_ERROR_INDEX,
               "element 1 of buffer 'A', which has 1");
}

static void test_vectors_work_lane_by_lane(void) {
  int64_t got[8];
  assert_ok(evaluate("int64", 4, "(ramp 5 -2 4)", got));
  int64_t ramp[] = {5, 3, 1, -1};
  g_assert_cmpmem(got, sizeof ramp, ramp, sizeof ramp);
  assert_ok(evaluate("int64", 4, "(mul (ramp 1 1 4) (broadcast 3 4))", got));
  int64_t scaled[] = {3, 6, 9, 12};
  g_assert_cmpmem(got, sizeof scaled, scaled, sizeof scaled);
  assert_ok(evaluate("int64", 3, "(shuffle 2 (ramp 0 1 4) (ramp 10 1 2) 5 0 4)", got));
  int64_t picked[] = {11, 0, 10};
  g_assert_cmpmem(got, sizeof picked, picked, sizeof picked);
  assert_ok(evaluate("int64", 4,
                     "(select (lt (ramp 0 1 4) (broadcast 2 4)) (ramp 0 1 4) (ramp 10 1 4))", got));
  int64_t chosen[] = {0, 1, 12, 13};
  g_assert_cmpmem(got, sizeof chosen, chosen, sizeof chosen);
  assert_int("int64", "(reduce add (ramp 1 1 5))", 15);
  assert_int("int64", "(reduce mul (ramp 1 1 5))", 120);
  assert_int("int64", "(reduce min (ramp 1 -1 5))", -3);
  assert_int("int64", "(reduce max (ramp 1 1 5))", 5);
  assert_int("uint8", "(reduce add (ramp 100:uint8 100:uint8 3))", 88);
}

static void test_masked_off_lanes_are_not_accessed(void) {
  int64_t got[4] = {1, 2, 3, 4};
  char *text = with_buffer("int64", 4,
                           "(store A (ramp 0 2 4) (broadcast 9 4)"
                           " (lt (ramp 0 2 4) (broadcast 4 4)))");
  assert_ok(run_on(text, got, "int64", 4));
  int64_t stored[] = {9, 2, 9, 4};
  g_assert_cmpmem(got, sizeof got, stored, sizeof stored);
  g_free(text);
  text = with_buffer("int64", 4,
                     "(store A (ramp 0 1 4) (load A (ramp 0 2 4)"
                     " (lt (ramp 0 2 4) (broadcast 4 4))))");
  assert_ok(run_on(text, got, "int64", 4));
  int64_t loaded[] = {9, 9, 0, 0};
  g_assert_cmpmem(got, sizeof got, loaded, sizeof loaded);
  g_free(text);
}

static void test_intrinsics_agree_with_the_c_library(void) {
  static const struct {
    const char *name;
    double x;
  } unary[] = {
      {"exp", 1},      {"exp2", 3.5},   {"expm1", 0.25},  {"log", 2},      {"log2", 10},
      {"log10", 5},    {"log1p", 0.25}, {"sqrt", 2},      {"rsqrt", 3},    {"sin", 1},
      {"cos", 1},      {"tan", 1},      {"asin", 0.5},    {"acos", 0.5},   {"atan", 0.5},
      {"sinh", 1},     {"cosh", 1},     {"tanh", 1},      {"asinh", 1},    {"acosh", 2},
      {"atanh", 0.5},  {"erf", 0.5},    {"sigmoid", 0.5}, {"floor", -1.5}, {"ceil", -1.5},
      {"trunc", -1.5}, {"round", 2.5},  {"abs", -3},
  };
  const double expected[] = {exp(1),
                             exp2(3.5),
                             expm1(0.25),
                             log(2),
                             log2(10),
                             log10(5),
                             log1p(0.25),
                             sqrt(2),
                             1 / sqrt(3),
                             sin(1),
                             cos(1),
                             tan(1),
                             asin(0.5),
                             acos(0.5),
                             atan(0.5),
                             sinh(1),
                             cosh(1),
                             tanh(1),
                             asinh(1),
                             acosh(2),
                             atanh(0.5),
                             erf(0.5),
                             1 / (1 + exp(-0.5)),
                             -2,
                             -1,
                             -1,
                             2,
                             3};
  for (size_t i = 0; i < G_N_ELEMENTS(unary); i++) {
    char number[32], *call;
    call = g_strdup_printf("(call float32 intrinsic \"%s\" %s:float32)", unary[i].name,
                           g_ascii_dtostr(number, sizeof number, unary[i].x));
    assert_float(call, (float)expected[i]);
    g_free(call);
  }
  assert_float("(call float32 intrinsic \"pow\" 2:float32 0.5:float32)", (float)sqrt(2));
  assert_float("(call float32 intrinsic \"atan2\" 1:float32 -1:float32)", (float)atan2(1, -1));
  assert_float("(call float32 intrinsic \"fmod\" -7:float32 3:float32)", -1);
  assert_float("(call float32 intrinsic \"copysign\" 3:float32 -0:float32)", -3);
  assert_float("(call float32 intrinsic \"fma\" 16777217:float32 1:float32 -16777216:float32)", 0);
  assert_bool("(call bool intrinsic \"isnan\" nan:float32)", 1);
  assert_bool("(call bool intrinsic \"isnan\" inf:float32)", 0);
  assert_bool("(call bool intrinsic \"isinf\" -inf:float32)", 1);
  assert_int("int64", "(call int64 intrinsic \"abs\" -5)", 5);
  assert_int("uint64", "(call uint64 intrinsic \"abs\" 18446744073709551615:uint64)", -1);
  assert_int("int8", "(call int8 intrinsic \"popcount\" -1:int8)", 8);
}

/* ---- Statements -------------------------------------------------------------------------- */

static void assert_result(const char *body, const int64_t *expected, size_t count) {
  int64_t got[64] = {0};
  char *text = with_buffer("int64", (int64_t)count, body);
  if (run_on(text, got, "int64", (int64_t)count))
    g_error("%s: %s", body, bp_error_message());
  for (size_t i = 0; i < count; i++)
    if (got[i] != expected[i])
      g_error("%s: element %zu is %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT, body, i, got[i],
              expected[i]);
  g_free(text);
}

#define ASSERT_RESULT(body, ...)                                                                   \
  do {                                                                                             \
    static const int64_t expected[] = {__VA_ARGS__};                                               \
    assert_result(body, expected, G_N_ELEMENTS(expected));                                         \
  } while (0)

static void test_loops_of_every_kind_run(void) {
  static const char *const kinds[] = {"serial", "parallel", "vectorized", "unrolled"};
  for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
    char *body = g_strdup_printf("(for i:int64 1 3 %s (store A i (mul i i)))", kinds[i]);
    ASSERT_RESULT(body, 0, 1, 4, 9);
    g_free(body);
  }
  ASSERT_RESULT(
      "(for i:int64 0 2 serial (for j:int64 i 2 serial (store A (add (mul i 2) (sub j i)) j)))", 0,
      1, 1, 2);
  ASSERT_RESULT("(for i:int64 0 0 serial (store A 9 1))", 0);
  ASSERT_RESULT("(for i:int64 0 -1 serial (store A 9 1))", 0);
  ASSERT_RESULT("(for i:int64 (load A 0) 3 serial (seq (store A 0 9) (store A (add i 1) i)))", 9, 0,
                1, 2);
}

static void test_statements_run_in_order(void) {
  ASSERT_RESULT("(seq (store A 0 1) (store A 1 (load A 0)) (store A 0 2))", 2, 1);
  ASSERT_RESULT("(for i:int64 0 3 serial (if (lt i 1) (store A i 5) (store A i 6)))", 5, 6, 6);
  ASSERT_RESULT("(for i:int64 0 3 serial (if (lt i 1) (store A i 5)))", 5, 0, 0);
  ASSERT_RESULT("(while (lt (load A 0) 7) (store A 0 (add (load A 0) 3)))", 9);
  ASSERT_RESULT("(let x:int64 (add (load A 0) 4) (seq (store A 0 x) (store A 1 x)))", 4, 4);
  ASSERT_RESULT(
      "(seq (evaluate (load A 0)) (barrier \"shared\") (assert (eq (load A 0) 0) \"zero\"))", 0);
  ASSERT_RESULT("(for i:int64 0 2 serial (let x:int64x2 (ramp i 1 2)"
                " (store A (ramp (mul i 2) 1 2) x)))",
                0, 1, 1, 2);
}

static void test_allocated_buffers_keep_their_values(void) {
  ASSERT_RESULT("(allocate (buffer B int64 local 2 2) (seq (store B 3 5) (store A 0 (load B 3))))",
                5);
  ASSERT_RESULT("(allocate (buffer B int8 global 1)"
                " (seq (store B 0 -1:int8) (store A 0 (cast int64 (load B 0)))))",
                -1);
  int64_t value[2] = {0};
  char *text = with_buffer("int64", 2, "(store A 2 1)");
  g_assert_cmpint(run_on(text, value, "int64", 2), ==, -1);
  assert_error(BP_ERROR_INDEX,
               "IR function 'f': (store A 2 1): element 2 of buffer 'A', which has 2");
  g_free(text);
  text = with_buffer("int64", 2, "(allocate (buffer B int64 local (load A 0)) (store B 0 1))");
  value[0] = -1;
  g_assert_cmpint(run_on(text, value, "int64", 2), ==, -1);
  assert_error(BP_ERROR_VALUE, "extent 0 of buffer 'B' is -1");
  value[0] = INT64_MAX / 2;
  g_assert_cmpint(run_on(text, value, "int64", 2), ==, -1);
  assert_error(BP_ERROR_VALUE, "buffer 'B' of");
  value[0] = INT64_MAX / 64;
  g_assert_cmpint(run_on(text, value, "int64", 2), ==, -1);
  assert_error(BP_ERROR_MEMORY, "no memory for buffer 'B'");
  g_free(text);
}

static void test_unwritten_memory_is_nan(void) {
  char *text =
      with_buffer("float32", 1, "(allocate (buffer B float32 local 1) (store A 0 (load B 0)))");
  float value = 0;
  assert_ok(run_on(text, &value, "float32", 1));
  g_assert_true(isnan(value));
  g_free(text);
}

static void test_a_failed_assertion_is_the_error(void) {
  char *text = with_buffer("int64", 1, "(assert (eq (load A 0) 1) \"A[0] must be 1\")");
  int64_t value = 2;
  g_assert_cmpint(run_on(text, &value, "int64", 1), ==, -1);
  assert_error(BP_ERROR_VALUE, "A[0] must be 1");
  g_free(text);
}

/* ---- Grids ------------------------------------------------------------------------------- */

static void test_bound_loops_are_a_grid(void) {
  ASSERT_RESULT("(for b:int64 0 2 bound \"blockIdx.x\" (for t:int64 0 3 bound \"threadIdx.x\""
                " (store A (add (mul b 3) t) (add (mul b 10) t))))",
                0, 1, 2, 10, 11, 12);
  ASSERT_RESULT(
      "(for z:int64 0 2 bound \"threadIdx.z\" (for y:int64 0 2 bound \"threadIdx.y\""
      " (for x:int64 0 2 bound \"threadIdx.x\""
      " (store A (add (add (mul z 4) (mul y 2)) x) (add (add (mul z 100) (mul y 10)) x)))))",
      0, 1, 10, 11, 100, 101, 110, 111);
  ASSERT_RESULT("(for b:int64 0 0 bound \"blockIdx.x\" (store A 9 9))", 0);
}

/* Each thread stores its number in shared memory and reads its neighbour's number. */
static void test_barriers_and_shared_memory(void) {
  ASSERT_RESULT("(for b:int64 0 2 bound \"blockIdx.x\""
                " (allocate (buffer S int64 shared 4)"
                "  (for t:int64 0 4 bound \"threadIdx.x\""
                "   (seq (store S t (add (mul b 10) t))"
                "    (barrier \"shared\")"
                "    (store A (add (mul b 4) t) (load S (floormod (add t 1) 4)))))))",
                1, 2, 3, 0, 11, 12, 13, 10);
}

/* A tree reduction: a loop around the barrier. */
static void test_barriers_in_loops(void) {
  ASSERT_RESULT("(allocate (buffer S int64 shared 8)"
                " (for t:int64 0 8 bound \"threadIdx.x\""
                "  (allocate (buffer step int64 local 1)"
                "   (seq (store S t (add t 1)) (store step 0 4)"
                "    (while (gt (load step 0) 0)"
                "     (seq (barrier \"shared\")"
                "      (if (lt t (load step 0))"
                "       (store S t (add (load S t) (load S (add t (load step 0))))))"
                "      (store step 0 (shr (load step 0) 1))))"
                "    (if (eq t 0) (store A 0 (load S 0)))))))",
                36);
}

/* A loop with fewer iterations than its axis has threads: the other threads skip it. */
static void test_loops_of_one_axis_share_its_threads(void) {
  ASSERT_RESULT(
      "(for b:int64 0 1 bound \"blockIdx.x\" (seq"
      " (for t:int64 0 4 bound \"threadIdx.x\" (store A t 1))"
      " (barrier \"shared\")"
      " (for u:int64 0 2 bound \"threadIdx.x\" (store A u (add (load A u) (load A 3))))))",
      2, 2, 1, 1);
}

static void test_a_kernel_is_one_launch(void) {
  BpIrModule *module =
      parse_verified("(module (function \"f\" (buffer A int64 global 4) (attr \"kernel\" 1)"
                     " (seq (store A 3 (add (load A 3) 1)) (for t:int64 0 3 bound \"threadIdx.x\" "
                     "(store A t t)))))");
  int64_t got[4] = {0};
  Array array;
  BpValue arg = array_value(&array, got, dtype_of("int64"), 4);
  assert_ok(bp_ir_interpret(module, "f", &arg, 1));
  int64_t expected[] = {0, 1, 2, 3};
  g_assert_cmpmem(got, sizeof got, expected, sizeof expected);
  bp_object_release(module);
}

/* The other threads of the block run only the other loop over the axis. */
static void test_a_loop_without_threads_is_skipped(void) {
  int64_t got[4] = {0};
  assert_ok(run_on("(module (function \"f\" (buffer A int64 global 4) (for b:int64 0 1 bound"
                   " \"blockIdx.x\" (seq (for t:int64 0 2 bound \"threadIdx.x\" (store A t 1))"
                   " (for t:int64 0 0 bound \"threadIdx.x\" (store A 3 1))))))",
                   got, "int64", 4));
  int64_t expected[] = {1, 1, 0, 0};
  g_assert_cmpmem(got, sizeof got, expected, sizeof expected);
}

static void assert_grid_fails(const char *body, const char *kind, const char *message) {
  int64_t got[8] = {0};
  char *text = with_buffer("int64", 8, body);
  g_assert_cmpint(run_on(text, got, "int64", 8), ==, -1);
  assert_error(kind, message);
  g_free(text);
}

static void test_bad_grids_are_errors(void) {
  assert_grid_fails("(for t:int64 0 4 bound \"threadIdx.x\" (if (lt t 2) (barrier \"shared\")))",
                    BP_ERROR_RUNTIME, "2 of 4 threads of a block stand at a barrier");
  assert_grid_fails("(for t:int64 0 4 bound \"threadIdx.x\""
                    " (if (lt t 2) (barrier \"shared\") (barrier \"shared\")))",
                    BP_ERROR_RUNTIME, "a barrier that not all reach");
  assert_grid_fails("(for t:int64 0 5000 bound \"threadIdx.x\" (seq (store A 0 1)))",
                    BP_ERROR_VALUE, "a block of 5000 threads");
  assert_grid_fails("(for b:int64 0 2 bound \"blockIdx.x\""
                    " (for t:int64 0 b bound \"threadIdx.x\" (store A 0 1)))",
                    BP_ERROR_VALUE, "the extent of threadIdx.x depends on 'b'");
  assert_grid_fails("(for b:int64 0 2 bound \"blockIdx.x\""
                    " (allocate (buffer G int64 global 2) (store G 0 1)))",
                    BP_ERROR_VALUE, "a kernel allocates global buffer 'G'");
}

/* ---- Arguments and calls ----------------------------------------------------------------- */

static const char scale_text[] =
    "(module (function \"scale\" (buffer A float32 global n:int64) n"
    " x:float32 (for i:int64 0 n serial (store A i (mul (load A i) x))))"
    " (function \"twice\" (buffer B float32 global 3)"
    "  (evaluate (call void packed \"scale\" B 3 2:float32))))";

static BpValue float_value(double value) {
  BpValue result = {.type_index = BP_TYPE_FLOAT};
  result.v_float64 = value;
  return result;
}

static BpValue int_value(int64_t value) {
  BpValue result = {.type_index = BP_TYPE_INT};
  result.v_int64 = value;
  return result;
}

static void test_arguments_reach_their_parameters(void) {
  BpIrModule *module = parse_verified(scale_text);
  float data[] = {1, 2, 3};
  Array array;
  BpValue args[] = {array_value(&array, data, dtype_of("float32"), 3), int_value(3),
                    float_value(2.5)};
  assert_ok(bp_ir_interpret(module, "scale", args, 3));
  g_assert_cmpfloat(data[2], ==, 7.5f);
  assert_ok(bp_ir_interpret(module, "twice", args, 1));
  g_assert_cmpfloat(data[2], ==, 15.0f);
  bp_object_release(module);
}

/* A loop that never ends, and one that calls for ever. */
static void test_statements_are_limited(void) {
  BpIrModule *module =
      parse_verified("(module (function \"endless\" (buffer A int64 global 1) (while (ge (load A "
                     "0) 0) (store A 0 1)))"
                     " (function \"calls\" (buffer B int64 global 1)"
                     "  (seq (store B 0 2) (evaluate (call void packed \"endless\" B)))))");
  int64_t data[] = {0}, steps = 1000;
  Array array;
  BpValue arg = array_value(&array, data, dtype_of("int64"), 1);
  g_assert_cmpint(bp_ir_interpret_steps(module, "calls", &arg, 1, &steps), ==, -1);
  assert_error(BP_ERROR_RUNTIME, "more statements than were allowed");
  g_assert_cmpint(steps, ==, 0);
  g_assert_cmpint(data[0], ==, 1);
  data[0] = -1;
  steps = 10;
  assert_ok(bp_ir_interpret_steps(module, "endless", &arg, 1, &steps));
  g_assert_cmpint(steps, >, 0);
  g_assert_cmpint(steps, <, 10);
  bp_object_release(module);
}

static void test_wrong_arguments_are_errors(void) {
  BpIrModule *module = parse_verified(scale_text);
  float data[] = {1, 2, 3};
  Array array;
  BpValue args[] = {array_value(&array, data, dtype_of("float32"), 3), int_value(3),
                    float_value(2)};
  g_assert_cmpint(bp_ir_interpret(module, "scales", args, 3), ==, -1);
  assert_error(BP_ERROR_NOT_FOUND, "no function 'scales'");
  g_assert_cmpint(bp_ir_interpret(module, "scale", args, 2), ==, -1);
  assert_error(BP_ERROR_TYPE, "takes 3 arguments, not 2");
  args[1] = int_value(4);
  g_assert_cmpint(bp_ir_interpret(module, "scale", args, 3), ==, -1);
  assert_error(BP_ERROR_VALUE, "has 3 elements, not 4");
  args[1] = float_value(3);
  g_assert_cmpint(bp_ir_interpret(module, "scale", args, 3), ==, -1);
  assert_error(BP_ERROR_TYPE, "the argument for 'n' has type float");
  args[1] = args[0];
  args[0] = int_value(3);
  g_assert_cmpint(bp_ir_interpret(module, "twice", args, 1), ==, -1);
  assert_error(BP_ERROR_TYPE, "the argument for 'B' is int, not a tensor");
  args[0] = args[1];
  array.view.dtype = dtype_of("int32");
  g_assert_cmpint(bp_ir_interpret(module, "twice", args, 1), ==, -1);
  assert_error(BP_ERROR_TYPE, "the tensor for 'B' holds int32, not float32");
  array.view.dtype = dtype_of("float32");
  array.view.device.device_type = BP_DEVICE_CUDA;
  g_assert_cmpint(bp_ir_interpret(module, "twice", args, 1), ==, -1);
  assert_error(BP_ERROR_VALUE, "not in host memory");
  array.view.device.device_type = BP_DEVICE_CPU;
  int64_t strides[] = {2};
  array.view.strides = strides;
  g_assert_cmpint(bp_ir_interpret(module, "twice", args, 1), ==, -1);
  assert_error(BP_ERROR_VALUE, "is not compact");
  bp_object_release(module);
}

static void test_byte_offsets_are_kept(void) {
  BpIrModule *module = parse_verified(scale_text);
  float data[] = {1, 2, 3, 4};
  Array array;
  BpValue arg = array_value(&array, data, dtype_of("float32"), 3);
  array.view.byte_offset = 4;
  assert_ok(bp_ir_interpret(module, "twice", &arg, 1));
  g_assert_cmpfloat(data[0], ==, 1);
  g_assert_cmpfloat(data[3], ==, 8);
  bp_object_release(module);
}

/* Checks its arguments and returns the sum of its tensor and its number. */
static int sum_up(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  g_assert_cmpint(num_args, ==, 4);
  g_assert_cmpint(args[0].type_index, ==, BP_TYPE_TENSOR_VIEW);
  g_assert_cmpint(args[0].v_view->ndim, ==, 2);
  g_assert_cmpint(args[0].v_view->shape[1], ==, 2);
  g_assert_cmpint(args[1].type_index, ==, BP_TYPE_INT);
  g_assert_cmpint(args[2].type_index, ==, BP_TYPE_RAW_STR);
  g_assert_cmpstr(args[2].v_cstr, ==, "text");
  g_assert_cmpint(args[3].type_index, ==, BP_TYPE_BOOL);
  if (args[3].v_int64)
    return bp_error_raise(BP_ERROR_VALUE, "asked to fail");
  const int64_t *data = args[0].v_view->data;
  *result = int_value(data[0] + data[1] + data[2] + data[3] + args[1].v_int64);
  return 0;
}

static void test_packed_calls(void) {
  BpFunction *function = bp_function_create(sum_up, NULL, NULL);
  assert_ok(bp_registry_set("test.ir.sum_up", function, 0));
  bp_object_release(function);
  ASSERT_RESULT("(allocate (buffer B int64 local 2 2) (seq"
                " (for i:int64 0 4 serial (store B i i))"
                " (store A 0 (call int64 packed \"test.ir.sum_up\" B 100 \"text\" false))))",
                106);
  assert_grid_fails("(allocate (buffer B int64 local 2 2)"
                    " (evaluate (call void packed \"test.ir.sum_up\" B 100 \"text\" true)))",
                    BP_ERROR_VALUE, "asked to fail");
  assert_ok(bp_registry_remove("test.ir.sum_up"));
  assert_grid_fails("(evaluate (call void packed \"test.ir.sum_up\"))", BP_ERROR_NOT_FOUND,
                    "has a function 'test.ir.sum_up'");
  assert_grid_fails("(evaluate (call void extern \"puts\"))", BP_ERROR_NOT_IMPLEMENTED,
                    "cannot call the C function 'puts'");
  assert_grid_fails("(evaluate (call void packed \"f\" A))", BP_ERROR_VALUE,
                    "calls are nested deeper");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/ir/interpret/integers-are-computed-exactly",
                  test_integers_are_computed_exactly);
  g_test_add_func("/ir/interpret/integers-wrap", test_integers_wrap);
  g_test_add_func("/ir/interpret/bit-operations-are-computed-exactly",
                  test_bit_operations_are_computed_exactly);
  g_test_add_func("/ir/interpret/divisions-by-zero-are-zero", test_divisions_by_zero_are_zero);
  g_test_add_func("/ir/interpret/shifts-beyond-the-width-shift-all-out",
                  test_shifts_beyond_the_width_shift_all_out);
  g_test_add_func("/ir/interpret/casts-end-at-the-ends-of-integers",
                  test_casts_end_at_the_ends_of_integers);
  g_test_add_func("/ir/interpret/comparisons-give-bools", test_comparisons_give_bools);
  g_test_add_func("/ir/interpret/floats-are-rounded-to-their-type",
                  test_floats_are_rounded_to_their_type);
  g_test_add_func("/ir/interpret/conversions-wrap-and-clip", test_conversions_wrap_and_clip);
  g_test_add_func("/ir/interpret/narrow-floats-are-stored-as-bits",
                  test_narrow_floats_are_stored_as_bits);
  g_test_add_func("/ir/interpret/select-evaluates-both-choices",
                  test_select_evaluates_both_choices);
  g_test_add_func("/ir/interpret/vectors-work-lane-by-lane", test_vectors_work_lane_by_lane);
  g_test_add_func("/ir/interpret/masked-off-lanes-are-not-accessed",
                  test_masked_off_lanes_are_not_accessed);
  g_test_add_func("/ir/interpret/intrinsics-agree-with-the-c-library",
                  test_intrinsics_agree_with_the_c_library);
  g_test_add_func("/ir/interpret/loops-of-every-kind-run", test_loops_of_every_kind_run);
  g_test_add_func("/ir/interpret/statements-run-in-order", test_statements_run_in_order);
  g_test_add_func("/ir/interpret/allocated-buffers-keep-their-values",
                  test_allocated_buffers_keep_their_values);
  g_test_add_func("/ir/interpret/unwritten-memory-is-nan", test_unwritten_memory_is_nan);
  g_test_add_func("/ir/interpret/a-failed-assertion-is-the-error",
                  test_a_failed_assertion_is_the_error);
  g_test_add_func("/ir/interpret/bound-loops-are-a-grid", test_bound_loops_are_a_grid);
  g_test_add_func("/ir/interpret/barriers-and-shared-memory", test_barriers_and_shared_memory);
  g_test_add_func("/ir/interpret/barriers-in-loops", test_barriers_in_loops);
  g_test_add_func("/ir/interpret/loops-of-one-axis-share-its-threads",
                  test_loops_of_one_axis_share_its_threads);
  g_test_add_func("/ir/interpret/a-kernel-is-one-launch", test_a_kernel_is_one_launch);
  g_test_add_func("/ir/interpret/a-loop-without-threads-is-skipped",
                  test_a_loop_without_threads_is_skipped);
  g_test_add_func("/ir/interpret/bad-grids-are-errors", test_bad_grids_are_errors);
  g_test_add_func("/ir/interpret/arguments-reach-their-parameters",
                  test_arguments_reach_their_parameters);
  g_test_add_func("/ir/interpret/statements-are-limited", test_statements_are_limited);
  g_test_add_func("/ir/interpret/wrong-arguments-are-errors", test_wrong_arguments_are_errors);
  g_test_add_func("/ir/interpret/byte-offsets-are-kept", test_byte_offsets_are_kept);
  g_test_add_func("/ir/interpret/packed-calls", test_packed_calls);
  return g_test_run();
}
