/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of the IR: printed text parses back to the same module; malformed texts are errors
 * that name line and column. */

#include <math.h>

#include "tests/compiler/ir-util.h"

static char *print_ok(const BpIrModule *module) {
  char *text = bp_ir_print(module);
  g_assert_nonnull(text);
  return text;
}

/* Checks that the text is printed unchanged, and parses back. */
static void assert_canonical(const char *text) {
  BpIrModule *module = parse_verified(text);
  char *printed = print_ok(module);
  g_assert_cmpstr(printed, ==, text);
  bp_str_free(printed);
  bp_object_release(module);
}

/* Checks that a body over the buffer A is printed unchanged. */
static void assert_body(const char *body) {
  char *text = g_strdup_printf(
      "(module\n  (function \"f\"\n    (buffer A float32 global 64)\n    %s))\n", body);
  assert_canonical(text);
  g_free(text);
}

/* An expression whose value is dropped. */
static void assert_expression(const char *expression) {
  char *body = g_strdup_printf("(evaluate %s)", expression);
  assert_body(body);
  g_free(body);
}

static void test_constants(void) {
  assert_expression("0");
  assert_expression("-9223372036854775808");
  assert_expression("18446744073709551615:uint64");
  assert_expression("-128:int8");
  assert_expression("true");
  assert_expression("false");
  assert_expression("1:float32");
  assert_expression("0.1:float32");
  assert_expression("0.1:float64");
  assert_expression("1.4013e-45:float32");
  assert_expression("3.40282347e+38:float32");
  assert_expression("-0:float32");
  assert_expression("inf:float16");
  assert_expression("-inf:float64");
  assert_expression("nan:bfloat16");
}

static void test_floats_keep_every_bit(void) {
  static const double values[] = {0x1.fffffep127, 0x1p-149, 0x1.234568p-3, 16777217.0, 1.0 / 3};
  BpIrModule *module = bp_ir_module_create();
  for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
    double single = (double)(float)values[i];
    const BpIrNode *value = bp_ir_float(module, dtype_of("float32"), single);
    BpDataType none = {BP_DTYPE_HANDLE, 0, 0};
    const BpIrNode *body = bp_ir_make(module, BP_IR_EVALUATE, none, &value, 1, 0, 0, NULL);
    char name[16];
    g_snprintf(name, sizeof name, "f%zu", i);
    assert_ok(bp_ir_module_add(module, bp_ir_function(module, name, NULL, 0, NULL, 0, body)));
  }
  char *text = print_ok(module);
  BpIrModule *parsed = parse_ok(text);
  const BpIrTable *ir = bp_ir_table();
  for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
    const BpIrNode *body = ir->operand(ir->get_function(parsed, (int32_t)i), 0);
    g_assert_cmpfloat(ir->float_value(ir->operand(body, 0)), ==, (double)(float)values[i]);
  }
  bp_str_free(text);
  bp_object_release(parsed);
  bp_object_release(module);
}

static void test_expressions(void) {
  static const char *const expressions[] = {
      "(add 1 2)",
      "(sub 1:int32 2:int32)",
      "(mul 1 2)",
      "(div 1 2)",
      "(mod 1 2)",
      "(floordiv 1 2)",
      "(floormod 1 2)",
      "(min 1:float16 2:float16)",
      "(max 1 2)",
      "(eq 1 2)",
      "(ne true false)",
      "(lt 1 2)",
      "(le 1 2)",
      "(gt 1 2)",
      "(ge 1 2)",
      "(and true false)",
      "(or true false)",
      "(not true)",
      "(bit_and 1 2)",
      "(bit_or 1 2)",
      "(bit_xor 1 2)",
      "(shl 1:uint8 2:uint8)",
      "(shr 1 2)",
      "(select (lt 1 2) 1:float32 2:float32)",
      "(select (lt 1 2) 1:float32 2:float32 unmasked)",
      "(cast float16 1)",
      "(reinterpret int32 1:float32)",
      "(load A 3)",
      "(load A (ramp 0 2 8))",
      "(load A (ramp 0 2 8) (broadcast true 8))",
      "(address A 3)",
      "(broadcast 1 4)",
      "(shuffle 1 (ramp 0 1 4) 3 2 1 0)",
      "(shuffle 2 (ramp 0 1 4) 5 4 0)",
      "(reduce max (ramp 0 1 4))",
      "(call float32 intrinsic \"exp\" 1:float32)",
      "(call float32 intrinsic \"fma\" 1:float32 2:float32 3:float32)",
      "(call bool intrinsic \"isnan\" 1:float32)",
      "(call int32 extern \"c_function\" A (address A 1) 1:float32)",
      "(call void packed \"some.function\" A \"text\" 1)",
      "(call void intrinsic \"prefetch\" (address A 1))",
  };
  for (size_t i = 0; i < G_N_ELEMENTS(expressions); i++)
    assert_expression(expressions[i]);
}

static void test_statements(void) {
  static const char *const bodies[] = {
      "(seq)",
      "(seq\n      (store A 1 2:float32)\n      (barrier \"shared\"))",
      "(for i:int64 0 64 serial\n      (store A i 0:float32))",
      "(for i:int64 0 64 parallel\n      (store A i 0:float32))",
      "(for i:int64 0 64 vectorized\n      (store A i 0:float32))",
      "(for i:int64 0 64 unrolled\n      (store A i 0:float32))",
      "(for i:int64 0 64 bound \"threadIdx.x\"\n      (store A i 0:float32))",
      "(store A (ramp 0 1 4) (broadcast 0:float32 4) (lt (ramp 0 1 4) (broadcast 3 4)))",
      "(let x:float32x4 (load A (ramp 0 1 4))\n    (store A (ramp 4 1 4) x))",
      "(if (lt 1 2)\n      (store A 0 0:float32))",
      "(if (lt 1 2)\n      (store A 0 0:float32)\n      (store A 1 0:float32))",
      "(allocate (buffer B int32 local 4 8)\n    (store B 31 7:int32))",
      "(allocate (buffer B int32 shared 4)\n    (store B 3 7:int32))",
      "(assert (lt 1 2) \"one is not below two\")",
      "(while (lt (load A 0) 3:float32)\n      (store A 0 (add (load A 0) 1:float32)))",
  };
  for (size_t i = 0; i < G_N_ELEMENTS(bodies); i++)
    assert_body(bodies[i]);
}

static void test_functions(void) {
  assert_canonical("(module)\n");
  assert_canonical("(module\n"
                   "  (function \"a b\\\"c\\\\\\n\\x01\"\n"
                   "    (buffer A float32 global (mul n:int64 2))\n"
                   "    n:int64\n"
                   "    x:float32\n"
                   "    p:handle\n"
                   "    (attr \"kernel\" 1)\n"
                   "    (attr \"launch\" \"blockIdx.x\" (add n 1))\n"
                   "    (store A 0 x))\n"
                   "  (function \"g\"\n"
                   "    (seq)))\n");
}

static void test_comments_and_space_are_skipped(void) {
  BpIrModule *module = parse_ok("; first\n(module;second\n\t(function \"f\"\r\n(seq)));last");
  char *text = print_ok(module);
  g_assert_cmpstr(text, ==, "(module\n  (function \"f\"\n    (seq)))\n");
  bp_str_free(text);
  bp_object_release(module);
}

/* Two variables of one name, and names that are not words, stay distinct. */
static void test_names_are_made_unique(void) {
  BpIrModule *module = bp_ir_module_create();
  BpDataType int64 = dtype_of("int64");
  static const char *const names[] = {"i", "i", "i.1", "a b", "", "true", "9"};
  const BpIrNode *vars[G_N_ELEMENTS(names)];
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
    vars[i] = bp_ir_var(module, names[i], int64);
  const BpIrNode *body = bp_ir_seq(module, NULL, 0);
  assert_ok(bp_ir_module_add(
      module, bp_ir_function(module, "f", vars, G_N_ELEMENTS(names), NULL, 0, body)));
  char *text = print_ok(module);
  g_assert_cmpstr(text, ==,
                  "(module\n  (function \"f\"\n    i:int64\n    i.1:int64\n    i.1.1:int64\n"
                  "    a_b:int64\n    v:int64\n    true_:int64\n    _9:int64\n    (seq)))\n");
  BpIrModule *parsed = parse_verified(text);
  bp_str_free(text);
  bp_object_release(parsed);
  bp_object_release(module);
}

static void test_malformed_texts_name_the_place(void) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "line 1, column 1: expected '(module', found the end"},
      {"(modul)", "line 1, column 2: expected 'module', found 'modul'"},
      {"(module", "line 1, column 8: expected ')', found the end"},
      {"(module) x", "line 1, column 10: expected nothing more, found 'x'"},
      {"(module\n  (seq))", "line 2, column 3: a module holds functions only"},
      {"(module (function f (seq)))", "column 19: expected a string, found 'f'"},
      {"(module (function \"f\"))", "the function has no body"},
      {"(module (function \"f\" (seq)) (function \"f\" (seq)))",
       "column 30: a second function 'f'"},
      {"(module (function \"f\" (sequence)))", "column 24: unknown construct 'sequence'"},
      {"(module (function \"f\" (evaluate i)))", "column 33: unknown name 'i'"},
      {"(module (function \"f\" i:int64 i:int32 (seq)))", "'i' is known with another type"},
      {"(module (function \"f\" i:integer (seq)))", "column 25: expected a data type"},
      {"(module (function \"f\" (evaluate 1.5)))", "'1.5' is no integer"},
      {"(module (function \"f\" (evaluate 9223372036854775808)))", "out of the range"},
      {"(module (function \"f\" (evaluate 300:int8)))", "300 is out of the range"},
      {"(module (function \"f\" (evaluate -1:uint8)))", "-1 is out of the range"},
      {"(module (function \"f\" (evaluate 1:handle)))", "a constant's type"},
      {"(module (function \"f\" (evaluate 1:float32x4)))", "a constant's type"},
      {"(module (function \"f\" (evaluate 1x:float32)))", "'1x' is no number"},
      {"(module (function \"f\" (evaluate inf)))", "'inf' is no integer"},
      {"(module (function \"f\" (evaluate (add 1))))", "expected a name, a number or a list"},
      {"(module (function \"f\" (evaluate (add 1 2 3))))", "column 42: expected ')', found '3'"},
      {"(module (function \"f\" (evaluate (broadcast 1 70000))))", "from 2 to 65535"},
      {"(module (function \"f\" (evaluate (shuffle 2 1 2))))", "lanes to pick"},
      {"(module (function \"f\" (for i:int64 0 1 sideways (seq))))", "expected serial, parallel"},
      {"(module (function \"f\" (for i:int64 0 1 bound (seq))))", "expected a string"},
      {"(module (function \"f\" (allocate (buffer B int8 far 1) (seq))))", "expected global"},
      {"(module (function \"f\" (allocate (buffer 9 int8 local 1) (seq))))", "a buffer's name"},
      {"(module (function \"f\" B:int8 (allocate (buffer B int8 local 1) (seq))))",
       "the name is known as something else"},
      {"(module (function \"f", "column 19: a string without its closing quote"},
      {"(module (function \"\\q\" (seq)))", "a string may hold"},
      {"(module (function \"\\x00\" (seq)))", "a string may hold"},
      {"(module #)", "column 9: unexpected character 0x23"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_assert_null(bp_ir_parse(cases[i].text, strlen(cases[i].text)));
    assert_error(BP_ERROR_FORMAT, cases[i].message);
  }
}

static void test_every_truncation_is_an_error(void) {
  const char *text = "(module (function \"f\" (buffer A float32 global n:int64) n:int64 "
                     "(for i:int64 0 n serial (store A i (add (load A i) -1.5e3:float32)))))";
  for (size_t size = 0; size < strlen(text); size++) {
    g_assert_null(bp_ir_parse(text, size));
    g_assert_cmpstr(bp_error_kind(), ==, BP_ERROR_FORMAT);
  }
  bp_error_clear();
  bp_object_release(parse_verified(text));
}

/* Makes a text: `open` repeated, then `inner`, then as many ')'. */
static char *nest(const char *open, int count, const char *inner) {
  GString *text = g_string_new("(module (function \"f\" ");
  for (int i = 0; i < count; i++)
    g_string_append(text, open);
  g_string_append(text, inner);
  for (int i = 0; i < count; i++)
    g_string_append_c(text, ')');
  g_string_append(text, "))");
  return g_string_free(text, FALSE);
}

static void test_deep_nesting_is_an_error(void) {
  char *deep = nest("(if true ", 1000000, "(seq)");
  g_assert_null(bp_ir_parse(deep, strlen(deep)));
  assert_error(BP_ERROR_FORMAT, "nested deeper than 4096");
  g_free(deep);
  char *fits = nest("(if true ", 4000, "(seq)");
  BpIrModule *module = parse_verified(fits);
  assert_ok(bp_ir_interpret(module, "f", NULL, 0));
  char *text = print_ok(module);
  bp_str_free(text);
  bp_object_release(module);
  g_free(fits);
}

static void test_deep_expressions_are_an_error(void) {
  BpIrModule *module = bp_ir_module_create();
  const BpIrNode *x = bp_ir_var(module, "x", dtype_of("float32"));
  const BpIrNode *sum = x;
  for (int i = 0; sum && i < 5000; i++)
    sum = bp_ir_binary(module, BP_IR_ADD, sum, x);
  g_assert_null(sum);
  assert_error(BP_ERROR_VALUE, "nested deeper than 4096");
  bp_object_release(module);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/ir/text/constants-round-trip", test_constants);
  g_test_add_func("/ir/text/floats-keep-every-bit", test_floats_keep_every_bit);
  g_test_add_func("/ir/text/expressions-round-trip", test_expressions);
  g_test_add_func("/ir/text/statements-round-trip", test_statements);
  g_test_add_func("/ir/text/functions-round-trip", test_functions);
  g_test_add_func("/ir/text/comments-and-space-are-skipped", test_comments_and_space_are_skipped);
  g_test_add_func("/ir/text/names-are-made-unique", test_names_are_made_unique);
  g_test_add_func("/ir/text/malformed-texts-name-the-place", test_malformed_texts_name_the_place);
  g_test_add_func("/ir/text/every-truncation-is-an-error", test_every_truncation_is_an_error);
  g_test_add_func("/ir/text/deep-nesting-is-an-error", test_deep_nesting_is_an_error);
  g_test_add_func("/ir/text/deep-expressions-are-an-error", test_deep_expressions_are_an_error);
  return g_test_run();
}
