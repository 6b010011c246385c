/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier: a malformed module is an error that names the function and the place. */

#include "tests/compiler/ir-util.h"

static void assert_rejected(const char *body, const char *message) {
  char *text = with_buffer("float32", 8, body);
  BpIrModule *module = parse_ok(text);
  g_assert_cmpint(bp_ir_verify(module), ==, -1);
  assert_error(BP_ERROR_VALUE, message);
  g_assert_cmpint(bp_ir_interpret(module, "f", NULL, 0), ==, -1);
  bp_error_clear();
  bp_object_release(module);
  g_free(text);
}

static void test_wrong_types_are_refused(void) {
  assert_rejected("(evaluate (add 1 2:int32))", "operand 1 of add is int32, not int64");
  assert_rejected("(evaluate (add true true))", "operand 0 of add is bool, not a number");
  assert_rejected("(evaluate (mod 1:float32 2:float32))", "operand 0 of mod is float32");
  assert_rejected("(evaluate (and 1 2))", "operand 0 of and is int64, not bool");
  assert_rejected("(evaluate (not 1))", "operand 0 of not is int64, not bool");
  assert_rejected("(evaluate (select 1 2 3))", "operand 0 of select is int64");
  assert_rejected("(evaluate (select true 2 3:int8))", "choices of a select");
  assert_rejected("(evaluate (select true (ramp 0 1 4) (ramp 0 1 4)))", "lanes of the choices");
  assert_rejected("(evaluate (cast float32x4 1))", "cast changes the number of lanes");
  assert_rejected("(evaluate (reinterpret int64 1:float32))", "of one size");
  assert_rejected("(evaluate (ramp 1.5:float32 1:float32 4))", "base and stride of a ramp");
  assert_rejected("(evaluate (broadcast (ramp 0 1 4) 8))", "makes a vector of a scalar");
  assert_rejected("(evaluate (reduce add 1))", "operand 0 of reduce is int64");
  assert_rejected("(evaluate (reduce xor (ramp 0 1 4)))", "not 'xor'");
  assert_rejected("(evaluate (shuffle 1 (ramp 0 1 4) 4))", "not a constant from 0 to 3");
  assert_rejected("(evaluate (shuffle 2 1 1:int8 1))", "vectors of different types");
  assert_rejected("(if 1 (seq))", "operand 0 of if is int64, not a scalar bool");
  assert_rejected("(for i:float32 0:float32 1:float32 serial (seq))",
                  "operand 0 of for is float32");
  assert_rejected("(for i:int64 0:int32 1 serial (seq))", "operand 1 of for is int32");
  assert_rejected("(let x:int64 1:int32 (seq))", "operand 1 of let is int32");
}

static void test_wrong_accesses_are_refused(void) {
  assert_rejected("(store A 0 1)", "operand 2 of store is int64, not float32");
  assert_rejected("(store A 0:float32 1:float32)", "operand 1 of store is float32");
  assert_rejected("(store A (ramp 0 1 4) 1:float32)",
                  "operand 2 of store is float32, not float32x4");
  assert_rejected("(evaluate (load A (ramp 0 1 4) true))", "operand 2 of load is bool");
  assert_rejected("(evaluate (address A (ramp 0 1 4)))", "not a scalar");
  assert_rejected("(evaluate (load 1 2))", "operand 0 of load is not a buffer");
  assert_rejected("(allocate (buffer B float32x4 local 2) (seq))", "no scalar number type");
  assert_rejected("(allocate (buffer B int7 local 2) (seq))", "no scalar number type");
  assert_rejected("(allocate (buffer B int8 local true) (seq))", "extent 0 of buffer 'B'");
}

static void test_misplaced_operands_are_refused(void) {
  assert_rejected("(seq 1)", "operand 0 of seq is not a statement");
  assert_rejected("(evaluate (seq))", "operand 0 of evaluate is not a value");
  assert_rejected("(evaluate (add A 1))", "operand 0 of add is not a value");
  assert_rejected("(for 1 0 1 serial (seq))", "operand 0 of for is not a variable");
  assert_rejected("(seq (function \"g\" (seq)))", "operand 0 of seq is not a statement");
  assert_rejected("1", "body is no statement");
}

static void test_wrong_calls_are_refused(void) {
  assert_rejected("(evaluate (call float32 intrinsic \"exponent\" 1:float32))",
                  "no intrinsic 'exponent'");
  assert_rejected("(evaluate (call float32 intrinsic \"exp\"))", "takes 1 arguments, not 0");
  assert_rejected("(evaluate (call int64 intrinsic \"exp\" 1))", "exp takes floats, not int64");
  assert_rejected("(evaluate (call float32 intrinsic \"isnan\" 1:float32))", "isnan gives bool");
  assert_rejected("(evaluate (call float32 intrinsic \"pow\" 1:float32 1:float64))",
                  "different types");
  assert_rejected("(evaluate (call void intrinsic \"prefetch\" 1))", "prefetch takes an address");
  assert_rejected("(evaluate (call void packed \"\"))", "without a name");
  assert_rejected("(evaluate (call void packed \"f\" (ramp 0 1 4)))", "a scalar or a buffer");
  assert_rejected("(evaluate (call float32x4 packed \"f\"))", "gives a scalar or nothing");
}

static void test_wrong_loops_are_refused(void) {
  assert_rejected("(for i:int64 0 1 bound \"gridIdx.x\" (seq))", "not 'gridIdx.x'");
  assert_rejected("(for i:int64 0 2 bound \"threadIdx.x\" "
                  "(for j:int64 0 2 bound \"threadIdx.x\" (seq)))",
                  "'threadIdx.x' is bound by a loop around");
  assert_rejected("(for n:int64 0 2 serial (for i:int64 0 n unrolled (seq)))",
                  "unrolled loop has a constant extent");
  assert_rejected("(barrier \"local\")", "a barrier's scope");
}

static void test_names_outside_their_scope_are_refused(void) {
  assert_rejected("(evaluate x:int64)", "variable 'x' is used but nothing defines it");
  assert_rejected("(seq (for i:int64 0 1 serial (seq)) (evaluate i))",
                  "variable 'i' is used outside its scope");
  assert_rejected("(for i:int64 0 i serial (seq))", "variable 'i' is used but nothing defines it");
  assert_rejected("(seq (allocate (buffer B int8 local 1) (seq)) (store B 0 1:int8))",
                  "buffer 'B' is used outside its scope");
  assert_rejected("(for i:int64 0 1 serial (let i 1 (seq)))", "defined within its own scope");
}

static void test_a_name_may_be_bound_again_beside(void) {
  char *text = with_buffer("float32", 8,
                           "(seq (for i:int64 0 8 serial (store A i 1:float32))"
                           " (for i:int64 0 8 serial (store A i 2:float32)))");
  bp_object_release(parse_verified(text));
  g_free(text);
}

static void test_places_are_named(void) {
  assert_rejected("(for i:int64 0 8 serial (if (lt i 3) (store A i (add i 1))))",
                  "IR function 'f', for i, if, store A: operand 2 of store is int64, not float32, "
                  "in (store A i:int64 (add i 1))");
}

static void test_wrong_parameters_are_refused(void) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"(module (function \"f\" 1 (seq)))", "parameter 0 is neither"},
      {"(module (function \"f\" (attr \"a\") x:int64 (seq)))", "operand 1 of the function"},
      {"(module (function \"f\" x:int64x2 (seq)))", "parameter 'x' is no scalar"},
      {"(module (function \"f\" (buffer B int8 local 4) (seq)))", "is not a global buffer"},
      {"(module (function \"f\" (buffer B int8 global n:int64) (seq)))", "variable 'n' is used"},
      {"(module (function \"f\" (buffer B int8 global 1) (buffer B int8 global 1) (seq)))",
       "defined within its own scope"},
      {"(module (function \"\" (seq)))", "has no name"},
      {"(module (function \"f\" (attr \"\" 1) (seq)))", "an attribute has no key"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpIrModule *module = parse_ok(cases[i].text);
    g_assert_cmpint(bp_ir_verify(module), ==, -1);
    assert_error(BP_ERROR_VALUE, cases[i].message);
    bp_object_release(module);
  }
}

/* Faults that no text can express. */
static void test_wrong_nodes_are_refused(void) {
  BpIrModule *module = bp_ir_module_create();
  BpDataType none = {BP_DTYPE_HANDLE, 0, 0}, int8 = dtype_of("int8");
  static const char *const names[] = {"a", "b", "c", "d"};
  const BpIrNode *bad[] = {
      bp_ir_make(module, 99, none, NULL, 0, 0, 0, NULL),
      bp_ir_make(module, BP_IR_INT_IMM, int8, NULL, 0, 300, 0, NULL),
      bp_ir_make(module, BP_IR_ADD, int8, NULL, 0, 0, 0, NULL),
      bp_ir_make(module, BP_IR_FLOAT_IMM, dtype_of("float32"), NULL, 0, 0, 0.1, NULL),
  };
  static const char *const messages[] = {"unknown construct 99", "not representable",
                                         "add lacks operand 0", "not representable"};
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    BpIrModule *one = bp_ir_module_create();
    const BpIrNode *body = bp_ir_make(module, BP_IR_EVALUATE, none, &bad[i], 1, 0, 0, NULL);
    assert_ok(bp_ir_module_add(one, bp_ir_function(module, names[i], NULL, 0, NULL, 0, body)));
    g_assert_cmpint(bp_ir_verify(one), ==, -1);
    assert_error(BP_ERROR_VALUE, messages[i]);
    bp_object_release(one);
  }
  bp_object_release(module);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/ir/verify/wrong-types-are-refused", test_wrong_types_are_refused);
  g_test_add_func("/ir/verify/wrong-accesses-are-refused", test_wrong_accesses_are_refused);
  g_test_add_func("/ir/verify/misplaced-operands-are-refused", test_misplaced_operands_are_refused);
  g_test_add_func("/ir/verify/wrong-calls-are-refused", test_wrong_calls_are_refused);
  g_test_add_func("/ir/verify/wrong-loops-are-refused", test_wrong_loops_are_refused);
  g_test_add_func("/ir/verify/names-outside-their-scope-are-refused",
                  test_names_outside_their_scope_are_refused);
  g_test_add_func("/ir/verify/a-name-may-be-bound-again-beside",
                  test_a_name_may_be_bound_again_beside);
  g_test_add_func("/ir/verify/places-are-named", test_places_are_named);
  g_test_add_func("/ir/verify/wrong-parameters-are-refused", test_wrong_parameters_are_refused);
  g_test_add_func("/ir/verify/wrong-nodes-are-refused", test_wrong_nodes_are_refused);
  return g_test_run();
}
