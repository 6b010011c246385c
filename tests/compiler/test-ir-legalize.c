/* SPDX-License-Identifier: Apache-2.0 */
/* Legalisation and its passes: their results for given texts, and that the results are equivalent.
 * The target kinds are made for this test. */

#include <math.h>

#include <backplane/compiler/kernels.h>
#include <backplane/plugins.h>
#include <backplane/target.h>

#include "tests/compiler/ir-util.h"

/* ---- Target kinds ------------------------------------------------------------------------ */

static const BpTargetAttr vector_attrs[] = {
    {BP_TARGET_VECTOR_BITS, BP_TYPE_INT, 0, "512", "width of a vector register"}};
static const BpTargetAttr plain_attrs[] = {
    {BP_TARGET_INDEX_BITS, BP_TYPE_INT, 0, "64", "width of indices"},
    {BP_TARGET_SUPPORTS_INT64, BP_TYPE_BOOL, 0, "true", "64-bit integers"}};
static const BpTargetAttr gpu_attrs[] = {
    {BP_TARGET_THREAD_AXES, BP_TYPE_BOOL, 0, "true", "kernels over thread axes"},
    {BP_TARGET_INDEX_BITS, BP_TYPE_INT, 0, "64", "width of indices"},
    {BP_TARGET_MAX_ITERATIONS, BP_TYPE_INT, 0, "0", "iterations of a thread"}};

static const BpTargetKind kinds[] = {
    {.struct_size = sizeof(BpTargetKind),
     .name = "test_plain",
     .device_type = BP_DEVICE_CPU,
     .ir_level = BP_IR_LEVEL,
     .attrs = plain_attrs,
     .attr_size = sizeof(BpTargetAttr),
     .num_attrs = G_N_ELEMENTS(plain_attrs),
     .description = "nothing special"},
    {.struct_size = sizeof(BpTargetKind),
     .name = "test_vector",
     .device_type = BP_DEVICE_CPU,
     .ir_level = BP_IR_LEVEL,
     .attrs = vector_attrs,
     .attr_size = sizeof(BpTargetAttr),
     .num_attrs = 1,
     .description = "vectors"},
    {.struct_size = sizeof(BpTargetKind),
     .name = "test_gpu",
     .device_type = BP_DEVICE_OPENCL,
     .ir_level = BP_IR_LEVEL,
     .attrs = gpu_attrs,
     .attr_size = sizeof(BpTargetAttr),
     .num_attrs = G_N_ELEMENTS(gpu_attrs),
     .description = "threads"},
    {.struct_size = sizeof(BpTargetKind),
     .name = "test_old",
     .device_type = BP_DEVICE_CPU,
     .ir_level = 0,
     .attrs = vector_attrs,
     .attr_size = sizeof(BpTargetAttr),
     .description = "knows no construct"},
};

static const BpHost *the_host;

static int never_build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "made for a test");
}

static int32_t initialize(void *context) {
  (void)context;
  const BpTargetTable *target =
      the_host->get_table(the_host, BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION);
  for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
    char *name = g_strconcat("target.build.", kinds[i].name, NULL);
    BpFunction *function = bp_function_create(never_build, NULL, NULL);
    int rc = target->register_kind(&kinds[i]) || bp_registry_set(name, function, 0);
    bp_object_release(function);
    g_free(name);
    if (rc)
      return -1;
  }
  return 0;
}

static int32_t enter(const BpHost *host, BpPlugin *plugin) {
  the_host = host;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}

static void register_kinds(void) {
  static const char descriptor[] =
      "abi=" BP_ABI_NEEDED_TEXT "\n"
      "name=test-targets\nversion=1\nlicense=Apache-2.0\ndescription=Target kinds of a test\n"
      "entry=bp_plugin_entry_test_targets\n"
      "provides=target.build.test_plain target.build.test_vector target.build.test_gpu "
      "target.build.test_old\n"
      "devices=\ntargets=test_plain test_vector test_gpu test_old\nlibraries=\n";
  assert_ok(bp_plugin_register_static(descriptor, enter));
  assert_ok(bp_plugin_activate("test-targets"));
}

/* ---- Legalising -------------------------------------------------------------------------- */

/* Returns the legalised module (transfer full), verified; NULL with an error. */
static BpIrModule *legalize(BpIrModule *module, const char *kind) {
  BpTarget *target = bp_target_parse(kind);
  BpFunction *function = NULL;
  if (!target || bp_registry_get("compiler.legalize", &function) || !function)
    g_error("%s", bp_error_message());
  BpValue args[] = {{.type_index = BP_TYPE_IR_MODULE}, {.type_index = BP_TYPE_TARGET}};
  args[0].v_ptr = module;
  args[1].v_ptr = target;
  BpValue result = {0};
  int rc = bp_function_call(function, args, 2, &result);
  bp_object_release(function);
  bp_object_release(target);
  if (rc)
    return NULL;
  g_assert_cmpint(result.type_index, ==, BP_TYPE_IR_MODULE);
  BpIrModule *legal = result.v_ptr;
  if (bp_ir_verify(legal))
    g_error("%s\n%s", bp_error_message(), bp_ir_print(legal));
  return legal;
}

/* Checks that the text is legalised to `expected`, both over a buffer A of 64 int64 and a number
 * n. */
static void assert_legal(const char *kind, const char *body, const char *expected) {
  char *text =
      g_strdup_printf("(module (function \"f\" (buffer A int64 global 64) n:int64 %s))", body);
  char *wanted = g_strdup_printf(
      "(module\n  (function \"f\"\n    (buffer A int64 global 64)\n    n:int64\n    %s))\n",
      expected);
  BpIrModule *module = parse_verified(text);
  BpIrModule *legal = legalize(module, kind);
  if (!legal)
    g_error("%s", bp_error_message());
  char *printed = bp_ir_print(legal);
  g_assert_cmpstr(printed, ==, wanted);
  bp_str_free(printed);
  bp_object_release(legal);
  bp_object_release(module);
  g_free(text);
  g_free(wanted);
}

static void assert_refused(const char *kind, const char *body, const char *error,
                           const char *message) {
  char *text =
      g_strdup_printf("(module (function \"f\" (buffer A int64 global 64) n:int64 %s))", body);
  BpIrModule *module = parse_ok(text);
  g_assert_null(legalize(module, kind));
  assert_error(error, message);
  bp_object_release(module);
  g_free(text);
}

/* ---- Simplification ---------------------------------------------------------------------- */

static void test_conditions_are_simplified(void) {
  assert_legal("test_plain", "(for i:int64 0 8 serial (if (lt i 8) (store A i 1)))",
               "(for i:int64 0 8 serial\n      (store A i 1))");
  assert_legal("test_plain", "(for i:int64 0 8 serial (if (ge i 8) (store A i 1) (store A i 2)))",
               "(for i:int64 0 8 serial\n      (store A i 2))");
  assert_legal("test_plain", "(for i:int64 0 8 serial (if (lt i 7) (store A i 1)))",
               "(for i:int64 0 8 serial\n      (if (lt i 7)\n        (store A i 1)))");
  assert_legal("test_plain",
               "(for i:int64 0 8 serial (for j:int64 0 4 serial"
               " (if (lt (add (mul i 4) j) 32) (store A (add (mul i 4) j) 1))))",
               "(for i:int64 0 8 serial\n      (for j:int64 0 4 serial\n"
               "        (store A (add (mul i 4) j) 1)))");
  assert_legal("test_plain", "(for i:int64 0 8 serial (store A i (select (lt i 9) 1 2)))",
               "(for i:int64 0 8 serial\n      (store A i 1))");
  assert_legal("test_plain", "(for i:int64 0 n serial (if (lt i 64) (store A i 1)))",
               "(for i:int64 0 n serial\n      (if (lt i 64)\n        (store A i 1)))");
}

static void test_divisions_are_simplified(void) {
  assert_legal(
      "test_plain",
      "(for i:int64 0 8 serial (for j:int64 0 4 serial"
      " (store A (floordiv (add (mul i 4) j) 4) (load A (floormod (add (mul i 4) j) 4)))))",
      "(for i:int64 0 8 serial\n      (for j:int64 0 4 serial\n"
      "        (store A i (load A j))))");
  assert_legal("test_plain", "(for i:int64 0 8 serial (store A (min i 7) (load A (max i 0))))",
               "(for i:int64 0 8 serial\n      (store A i (load A i)))");
}

/* Sums and products of loaded numbers wrap. Sums of a loop variable do not. */
static void test_wrapping(void) {
  assert_legal("test_plain",
               "(for i:int64 0 8 serial"
               " (if (lt (load A i) (add (load A i) 1)) (if (lt i (add i 1)) (store A i 1))))",
               "(for i:int64 0 8 serial\n      (if (lt (load A i) (add (load A i) 1))\n"
               "        (store A i 1)))");
  assert_legal("test_plain",
               "(for i:int64 0 8 serial (let x:int64 (max (load A i) 0)"
               " (if (le 1 (add x 1)) (store A i (floormod (mul x 3) 3)))))",
               "(for i:int64 0 8 serial\n      (let x:int64 (max (load A i) 0)\n"
               "      (if (le 1 (add x 1))\n        (store A i (floormod (mul x 3) 3)))))");
}

static void test_loops_are_simplified(void) {
  assert_legal("test_plain", "(for i:int64 5 1 serial (store A i i))", "(store A 5 5)");
  assert_legal("test_plain", "(for i:int64 0 0 serial (store A i i))", "(seq)");
  assert_legal("test_plain", "(let x:int64 3 (store A x (load A x)))", "(store A 3 (load A 3))");
  assert_legal("test_plain", "(if (lt n 3) (seq) (seq))", "(seq)");
}

static void test_masks_are_simplified(void) {
  assert_legal("test_plain",
               "(for i:int64 0 8 serial (store A (ramp (mul i 8) 1 8) (broadcast 1 8)"
               " (lt (ramp (mul i 8) 1 8) (broadcast 64 8))))",
               "(for i:int64 0 8 serial\n"
               "      (store A (ramp (mul i 8) 1 8) (broadcast 1 8)))");
  assert_legal("test_plain",
               "(for i:int64 0 8 serial (store A i (reduce add (load A (ramp 64 1 4)"
               " (lt (ramp 64 1 4) (broadcast 64 4))))))",
               "(for i:int64 0 8 serial\n      (store A i (reduce add (broadcast 0 4))))");
  assert_legal("test_plain",
               "(for i:int64 0 9 serial (store A (ramp (mul i 8) 1 8) (broadcast 1 8)"
               " (lt (ramp (mul i 8) 1 8) (broadcast 64 8))))",
               "(for i:int64 0 9 serial\n      (store A (ramp (mul i 8) 1 8) (broadcast 1 8)"
               " (lt (ramp (mul i 8) 1 8) (broadcast 64 8))))");
}

/* ---- Loads of lanes that are not neighbours ----------------------------------------------- */

/* Checks what a vector target loads for 4 lanes at `index`, stored at the beginning of A. */
static void assert_loads(const char *index, const char *expected) {
  g_autofree char *body =
      g_strdup_printf("(for i:int64 0 4 serial (store A (ramp 0 1 4) (load A %s)))", index);
  g_autofree char *wanted = g_strdup_printf("(for i:int64 0 4 serial\n      %s)", expected);
  assert_legal("test_vector", body, wanted);
}

static void test_a_load_of_distant_lanes_becomes_two_loads(void) {
  /* backward */
  assert_loads("(ramp (add i 9) -1 4)", "(store A (ramp 0 1 4) (shuffle 1 (load A (ramp (add i 6) "
                                        "1 4)) 3:int32 2:int32 1:int32 0:int32))");
  assert_loads("(ramp i 2 4)", "(store A (ramp 0 1 4) (shuffle 2 (load A (ramp i 1 4)) "
                               "(load A (ramp (add i 3) 1 4)) 0:int32 2:int32 5:int32 7:int32))");
  /* lanes 1 0 1 2: no load goes beyond the elements of the lanes */
  assert_loads("(add (broadcast i 4) (max (ramp -1 1 4) (ramp 1 -1 4)))",
               "(store A (ramp 0 1 4) (shuffle 2 (load A (ramp i 1 2)) "
               "(load A (ramp (add i 1) 1 2)) 1:int32 0:int32 1:int32 3:int32))");
  /* lanes 7 0 1 2 */
  assert_loads("(add (broadcast i 4) (floormod (ramp -1 1 4) (broadcast 8 4)))",
               "(store A (ramp 0 1 4) (shuffle 2 (load A (ramp i 1 4)) "
               "(load A (ramp (add i 4) 1 4)) 7:int32 0:int32 1:int32 2:int32))");
  assert_loads("(add (broadcast i 4) (select (lt (ramp 0 1 4) (broadcast 1 4)) (ramp 7 1 4) "
               "(ramp -1 1 4)))",
               "(store A (ramp 0 1 4) (shuffle 2 (load A (ramp i 1 4)) "
               "(load A (ramp (add i 4) 1 4)) 7:int32 0:int32 1:int32 2:int32))");
  assert_loads("(mul (broadcast i 4) (broadcast 3 4))",
               "(store A (ramp 0 1 4) (broadcast (load A (mul i 3)) 4))");
}

static void test_a_load_of_few_lanes_in_a_mask_stays_inside_the_mask(void) {
  assert_loads("(ramp (add i 9) -1 4) (lt (ramp 0 1 4) (broadcast 2 4))",
               "(store A (ramp 0 1 4) (select (lt (ramp 0 1 4) (broadcast 2 4)) "
               "(shuffle 1 (load A (ramp (add i 8) 1 2)) 1:int32 0:int32 1:int32 1:int32) "
               "(broadcast 0 4)))");
  assert_loads("(ramp (add i 9) -1 4) (lt (ramp 0 1 4) (broadcast i 4))",
               "(store A (ramp 0 1 4) (load A (ramp (add i 9) -1 4) "
               "(lt (ramp 0 1 4) (broadcast i 4))))");
}

static void test_lanes_far_apart_are_loaded_one_by_one(void) {
  assert_loads("(ramp i 5 4)", "(store A (ramp 0 1 4) (load A (ramp i 5 4)))");
  assert_loads("(add (broadcast i 4) (min (ramp 0 5 4) (broadcast 11 4)))",
               "(store A (ramp 0 1 4) (shuffle 4 (load A i) (load A (add i 5)) "
               "(load A (add i 10)) (load A (add i 11)) 0:int32 1:int32 2:int32 3:int32))");
}

/* One variable with two ranges: facts from one loop do not apply to the other. */
static void test_ranges_end_with_their_loop(void) {
  assert_legal("test_plain",
               "(seq (for i:int64 0 4 serial (store A (floordiv i 4) 1))"
               " (for i:int64 0 8 serial (store A (floordiv i 4) 1)))",
               "(seq\n      (for i:int64 0 4 serial\n        (store A 0 1))\n"
               "      (for i:int64 0 8 serial\n        (store A (div i 4) 1)))");
}

/* ---- Operations that machines do not define ---------------------------------------------- */

/* Whether legalisation guards an operation on x, a number of that type, with a select. */
static void assert_guarded(const char *type, const char *expression, gboolean expected) {
  char *text = g_strdup_printf("(module (function \"f\" (buffer A int64 global 64) n:int64 x:%s"
                               " (store A 0 (cast int64 %s))))",
                               type, expression);
  BpIrModule *module = parse_verified(text);
  BpIrModule *legal = legalize(module, "test_plain");
  char *printed = bp_ir_print(legal);
  if ((strstr(printed, "(select") != NULL) != expected)
    g_error("%s became %s", expression, printed);
  bp_str_free(printed);
  bp_object_release(legal);
  bp_object_release(module);
  g_free(text);
}

static void test_only_what_may_be_undefined_is_guarded(void) {
  assert_guarded("int64", "(div n x)", TRUE);
  assert_guarded("int64", "(floormod n (max x 0))", TRUE);
  assert_guarded("int64", "(div n 7)", FALSE);
  assert_guarded("int64", "(mod n (max x 1))", FALSE);
  assert_guarded("int64", "(floordiv n (bit_or x 1))", FALSE);
  assert_guarded("int64", "(shl n x)", TRUE);
  assert_guarded("int64", "(shr n x)", TRUE);
  assert_guarded("int64", "(shr n 63)", FALSE);
  assert_guarded("int64", "(shl n (bit_and x 63))", FALSE);
  assert_guarded("int64", "(shl n (bit_and x 64))", TRUE);
  assert_guarded("float32", "(cast int8 x)", TRUE);
  assert_guarded("float32", "(cast int8 (min (max x -128:float32) 127:float32))", TRUE); /* NaN */
  assert_guarded("int8", "(cast int32 (cast float32 x))", FALSE);
  assert_guarded("int8", "(cast uint32 (cast float32 x))", TRUE);
  assert_guarded("uint8", "(cast uint8 (cast float32 x))", FALSE);
  assert_guarded("int32", "(cast int32 (cast float64 x))", FALSE);
  assert_guarded("int32", "(cast int32 (cast float32 x))",
                 TRUE); /* the largest int32 rounds up to 2^31 */
  assert_guarded("int32", "(cast int32 (cast float32 (min (cast float64 x) 2147483646:float64)))",
                 TRUE);
  assert_guarded("int8",
                 "(cast uint8 (call float32 intrinsic \"round\""
                 " (max (mul 0.5:float32 (cast float32 x)) 0:float32)))",
                 TRUE);
}

/* A float that becomes int32 by way of a narrower type is converted once. */
static void test_two_casts_of_a_float_are_one(void) {
  assert_legal("test_plain",
               "(store A 0 (cast int64 (cast int32 (cast uint8"
               " (min (max (cast float32 n) 0:float32) 255:float32)))))",
               "(store A 0 (cast int64 (cast int32 (min (max (cast float32 n) 0:float32) "
               "255:float32))))");
  assert_legal("test_plain",
               "(store A 0 (cast int64 (cast uint32 (cast uint8"
               " (min (max (cast float32 n) 0:float32) 255:float32)))))",
               "(store A 0 (cast int64 (cast uint32 (cast uint8 (min (max (cast float32 n) "
               "0:float32) 255:float32)))))");
  assert_guarded("float32", "(cast int32 (cast uint8 x))", TRUE);
}

/* ---- Shared expressions ------------------------------------------------------------------ */

static void test_shared_expressions_get_names(void) {
  BpIrModule *module = bp_ir_module_create();
  BpDataType float32 = dtype_of("float32");
  const BpIrNode *one = bp_ir_int(module, dtype_of("int64"), 1);
  const BpIrNode *zero = bp_ir_int(module, dtype_of("int64"), 0);
  const BpIrNode *buffer = bp_ir_buffer(module, "A", float32, BP_IR_SCOPE_GLOBAL, &one, 1);
  const BpIrNode *sum = bp_ir_load(module, buffer, zero, NULL);
  for (int i = 0; i < 100; i++)
    sum = bp_ir_binary(module, BP_IR_MUL, bp_ir_binary(module, BP_IR_ADD, sum, sum),
                       bp_ir_float(module, float32, 0.5));
  const BpIrNode *body = bp_ir_store(module, buffer, zero, sum, NULL);
  assert_ok(bp_ir_module_add(module, bp_ir_function(module, "f", &buffer, 1, NULL, 0, body)));
  BpIrModule *legal = legalize(module, "test_plain");
  char *text = bp_ir_print(legal);
  g_assert_cmpint(strlen(text), <, 20000);
  bp_str_free(text);
  float value = 3;
  Array array;
  BpValue arg = array_value(&array, &value, float32, 1);
  assert_ok(bp_ir_interpret(legal, "f", &arg, 1));
  g_assert_cmpfloat(value, ==, 3);
  assert_ok(bp_ir_interpret(module, "f", &arg, 1));
  g_assert_cmpfloat(value, ==, 3);
  bp_object_release(legal);
  bp_object_release(module);
}

/* ---- Grids ------------------------------------------------------------------------------- */

/* Runs f(A, n) of both modules on the same numbers and compares the results. */
static void assert_same_meaning(BpIrModule *before, BpIrModule *after, int64_t n) {
  int64_t a[64], b[64];
  Array first, second;
  for (int i = 0; i < 64; i++)
    a[i] = b[i] = i * i - 7;
  BpValue number = {.type_index = BP_TYPE_INT};
  number.v_int64 = n;
  BpValue to_a[] = {array_value(&first, a, dtype_of("int64"), 64), number};
  BpValue to_b[] = {array_value(&second, b, dtype_of("int64"), 64), number};
  assert_ok(bp_ir_interpret(before, "f", to_a, 2));
  assert_ok(bp_ir_interpret(after, "f", to_b, 2));
  g_assert_cmpmem(a, sizeof a, b, sizeof b);
}

static const char *const grids[] = {
    "(for b:int64 0 4 bound \"blockIdx.x\" (for t:int64 0 16 bound \"threadIdx.x\""
    " (store A (add (mul b 16) t) (add b t))))",
    "(for b:int64 0 n bound \"blockIdx.x\" (allocate (buffer L int64 local 1) (seq (store L 0 b)"
    " (for t:int64 0 4 bound \"threadIdx.x\" (seq (store L 0 (add (load L 0) t))"
    " (store A (add (mul b 4) t) (load L 0)))))))",
    "(for y:int64 0 2 bound \"blockIdx.y\" (for x:int64 1 3 bound \"blockIdx.x\""
    " (for z:int64 0 2 bound \"threadIdx.z\""
    " (store A (add (add (mul y 8) (mul x 2)) z) (add (mul y 100) (add (mul x 10) z))))))",
    "(allocate (buffer S int64 shared 4) (for b:int64 0 4 bound \"blockIdx.x\""
    " (for t:int64 0 4 bound \"threadIdx.x\" (seq (store S t (add b t))"
    " (store A (add (mul b 4) t) (load S t))))))",
    "(seq (for b:int64 0 4 bound \"blockIdx.x\" (store A b b))"
    " (for b:int64 0 4 bound \"blockIdx.x\" (store A b (add (load A b) (load A 3)))))",
};
#define TWO_GRIDS grids[G_N_ELEMENTS(grids) - 1]

static void test_grids_become_loops(void) {
  for (size_t i = 0; i < G_N_ELEMENTS(grids) - 1; i++) {
    char *text = g_strdup_printf("(module (function \"f\" (buffer A int64 global 64) n:int64 %s))",
                                 grids[i]);
    BpIrModule *module = parse_verified(text);
    BpIrModule *legal = legalize(module, "test_plain");
    char *printed = bp_ir_print(legal);
    g_assert_null(strstr(printed, "bound"));
    g_assert_null(strstr(printed, "shared"));
    g_assert_nonnull(strstr(printed, "parallel"));
    assert_same_meaning(module, legal, 5);
    bp_str_free(printed);
    bp_object_release(legal);
    bp_object_release(module);
    g_free(text);
  }
}

static void test_two_loops_of_one_axis_share_its_threads(void) {
  assert_legal("test_plain",
               "(for b:int64 0 2 bound \"blockIdx.x\" (seq"
               " (for t:int64 0 4 bound \"threadIdx.x\" (store A (add (mul b 4) t) 1))"
               " (for u:int64 0 3 bound \"threadIdx.x\" (store A (add (mul b 4) u) 2))))",
               "(for blockIdx.x:int64 0 2 parallel\n"
               "      (for threadIdx.x:int64 0 4 serial\n"
               "        (seq\n"
               "          (store A (add (mul blockIdx.x 4) threadIdx.x) 1)\n"
               "          (if (lt threadIdx.x 3)\n"
               "            (store A (add (mul blockIdx.x 4) threadIdx.x) 2)))))");
}

static void test_outside_of_a_launch_barriers_go(void) {
  assert_legal("test_plain",
               "(seq (barrier \"shared\") (store A 0 1) (barrier \"global\") (store A 1 n))",
               "(seq\n"
               "      (store A 0 1)\n"
               "      (store A 1 n))");
}

static void test_a_kernel_loses_its_launch(void) {
  BpIrModule *module = parse_verified(
      "(module (function \"f\" (buffer A int64 global 64) n:int64 (attr \"kernel\" 1)"
      " (attr \"launch\" \"threadIdx.x\" 8) (attr \"noalias\" 1)"
      " (for t:int64 0 8 bound \"threadIdx.x\" (store A t n))))");
  BpIrModule *legal = legalize(module, "test_plain");
  char *text = bp_ir_print(legal);
  g_assert_null(strstr(text, "launch"));
  g_assert_null(strstr(text, "kernel"));
  g_assert_nonnull(strstr(text, "noalias"));
  assert_same_meaning(module, legal, 9);
  bp_str_free(text);
  bp_object_release(legal);
  bp_object_release(module);
}

/* The text of a module after legalisation for a GPU, which must keep the meaning (transfer full,
 * bp_str_free). */
static char *legal_text(const char *text) {
  BpIrModule *module = parse_verified(text), *legal = legalize(module, "test_gpu");
  if (!legal)
    g_error("%s", bp_error_message());
  assert_same_meaning(module, legal, 5);
  char *printed = bp_ir_print(legal);
  bp_object_release(legal);
  bp_object_release(module);
  return printed;
}

/* The extent of a loop over blocks stays an expression of parameters, which the launch computes. */
static void test_indices_of_several_statements_get_names(void) {
  char *text =
      legal_text("(module (function \"f\" (buffer A int64 global 64) n:int64"
                 " (for b:int64 0 (min (mul (add n 1) (add n 2)) 8) bound \"blockIdx.x\" (seq"
                 " (store A b (mul (add n 1) (add n 2)))"
                 " (if (lt b 3) (store A (add b 8) (add (mul (add n 1) (add n 2)) 3)))"
                 " (store A (add b 16) (div b (mul (add n 1) (add n 2))))))))");
  g_assert_cmpint(count_parts(text, "(mul (add n 1) (add n 2))"), ==, 3);
  g_assert_nonnull(strstr(text, "(attr \"launch\" \"blockIdx.x\" (min (mul (add n 1)"));
  bp_str_free(text);
}

static void test_indices_of_names_bound_twice_stay(void) {
  char *text = legal_text("(module (function \"f\" (buffer A int64 global 64) n:int64"
                          " (for b:int64 0 4 bound \"blockIdx.x\" (seq"
                          " (let x:int64 (add b n) (store A b (mul (add x 1) (add x 2))))"
                          " (let x (add b 1) (store A (add b 8) (mul (add x 1) (add x 2))))))))");
  g_assert_cmpint(count_parts(text, "(mul (add x 1) (add x 2))"), ==, 2);
  bp_str_free(text);
}

static void test_kernels_state_their_launch(void) {
  BpIrModule *module = parse_verified(
      "(module (function \"f\" (buffer A int64 global 64) n:int64"
      " (for b:int64 0 n bound \"blockIdx.x\" (allocate (buffer S int64 shared 4)"
      " (for t:int64 0 4 bound \"threadIdx.x\" (seq (store S t b) (barrier \"shared\")"
      " (for i:int64 0 1 parallel (store A (add (mul b 4) t) (load S (sub 3 t)))))))))"
      "(function \"g\" (buffer A int64 global 64)"
      " (for i:int64 0 64 parallel (store A i i)))"
      "(function \"h\" (buffer A int64 global 64) n:int64 (let m:int64 (mul n 2)"
      " (let k:int64 (add m 1) (for b:int64 0 k bound \"blockIdx.x\" (store A b m))))))");
  BpIrModule *legal = legalize(module, "test_gpu");
  char *text = bp_ir_print(legal);
  g_assert_nonnull(strstr(text, "(attr \"launch\" \"blockIdx.x\" (add (mul n 2) 1))"));
  g_assert_nonnull(strstr(text, "(attr \"kernel\" 1)\n    (attr \"launch\" \"blockIdx.x\" n)\n"
                                "    (attr \"launch\" \"threadIdx.x\" 4)\n"));
  g_assert_nonnull(strstr(text, "(attr \"launch\" \"blockIdx.x\" 64)\n"
                                "    (for i:int64 0 64 bound \"blockIdx.x\""));
  g_assert_null(strstr(text, "parallel"));
  assert_same_meaning(module, legal, 5);
  bp_str_free(text);
  bp_object_release(legal);
  bp_object_release(module);
}

static void test_functions_split_into_kernels(void) {
  BpIrModule *module = parse_verified(
      "(module (function \"f\" (buffer A float32 global 4 8) (buffer B float32 global 8)"
      " (buffer C float32 global 8)"
      " (allocate (buffer S float32 global 8) (let k:int64 4 (seq"
      " (for i:int64 0 8 parallel (store S i (load A i)))"
      " (for b:int64 0 2 bound \"blockIdx.x\" (for t:int64 0 4 bound \"threadIdx.x\""
      "  (store C (add (mul b k) t) (add (load S (add (mul b k) t)) (load B t)))))))))"
      " (function \"empty\" (buffer A float32 global 0) (seq)))");
  BpIrModule *kernels = bp_ir_module_create();
  const BpKernelList *list;
  list = bp_ir_split_kernels(module, "f", 1, kernels);
  assert_ok(list == NULL);
  assert_ok(bp_ir_verify(kernels));
  g_assert_cmpint(list->num_kernels, ==, 2);
  g_assert_cmpint(list->num_buffers, ==, 1);
  g_assert_cmpint(bp_ir_table()->int_value(list->buffer_elements[0]), ==, 8);
  g_assert_cmpint(list->buffer_dtypes[0].code, ==, BP_DTYPE_FLOAT);
  const BpKernelLaunch *first = bp_kernel_list_get(list, 0), *second = bp_kernel_list_get(list, 1);
  g_assert_cmpstr(first->name, ==, "f_part0");
  g_assert_cmpint(first->num_args, ==, 2);
  g_assert_cmpint(first->args[0], ==, 0);
  g_assert_cmpint(first->args[1], ==, -1);
  g_assert_cmpint(first->num_launch, ==, 1);
  g_assert_cmpint(bp_ir_table()->int_value(first->launch[0]), ==, 8);
  g_assert_cmpstr(second->name, ==, "f");
  g_assert_cmpint(second->num_args, ==, 3);
  g_assert_cmpint(second->args[0], ==, 1);
  g_assert_cmpint(second->args[1], ==, -1);
  g_assert_cmpint(second->args[2], ==, 2);
  g_assert_cmpint(second->num_launch, ==, 2);
  g_assert_cmpint(bp_ir_table()->int_value(second->launch[0]), ==, 2);
  g_assert_cmpint(bp_ir_table()->int_value(second->launch[1]), ==, 4);
  list = bp_ir_split_kernels(module, "empty", 1, kernels);
  assert_ok(list == NULL);
  g_assert_cmpint(list->num_kernels, ==, 1);
  g_assert_cmpint(bp_kernel_list_get(list, 0)->num_args, ==, 1);
  g_assert_null(bp_ir_split_kernels(module, "g", 1, kernels));
  assert_error(BP_ERROR_NOT_FOUND, "no function 'g'");
  bp_object_release(kernels);
  bp_object_release(module);
}

/* Loops of a thread, and the number of their iterations if the scalar n is 0 and 100. */
static const struct {
  const char *loops;
  int64_t for_none, for_hundred;
} iteration_cases[] = {
    {"(store A t t)", 0, 0},
    {"(for i:int64 0 n serial (store A t i))", 0, 100},
    {"(for i:int64 3 (sub n 3) serial (store A t i))", 0, 97},
    {"(for i:int64 0 n unrolled (for k:int64 0 5 serial (store A t k)))", 0, 600},
    {"(seq (for i:int64 0 n serial (store A t i)) (for i:int64 0 7 serial (store A t i)))", 7, 107},
    {"(if (lt t n) (for i:int64 0 n serial (store A t i)) (for i:int64 0 7 serial (store A t "
     "i)))",
     7, 100},
    /* extents that depend on other loops, and on names */
    {"(for i:int64 0 (div (add n 31) 32) serial (for k:int64 0 (min 32 (sub n (mul i 32))) serial"
     " (store A t k)))",
     0, 4 * 33},
    {"(for i:int64 0 n serial (for k:int64 0 i serial (store A t k)))", 0, 100 * 100},
    {"(for i:int64 0 10 serial (for k:int64 0 (select (lt i 5) i (mul n 2)) serial"
     " (store A t k)))",
     10 * 10, 10 * 201},
    {"(let m:int64 (max n 4) (for i:int64 0 m serial (store A t m)))", 4, 100},
    {"(for i:int64 0 (floormod n 7) serial (store A t i))", 0, 2},
    {"(for i:int64 0 (floormod t 3) serial (store A t i))", 3, 3},
    {"(for i:int64 0 (add 9 (mul t -2)) serial (store A t i))", 9, 9},
    {"(for i:int64 0 (sub 10 (mul n -2)) serial (store A t i))", 10, 210},
    {"(for i:int64 0 (add t 1) serial (store A t i))", 8, 8},
    /* no overflow, and numbers that only data limit */
    {"(for i:int64 0 (mul n 100000) serial (for j:int64 0 (mul n 100000) serial"
     " (for k:int64 0 (mul n 100000) serial (store A t k))))",
     0, INT32_MAX},
    {"(for i:int64 0 (mul n 1099511627776) serial (store A t i))", 0, INT32_MAX},
    {"(for i:int64 0 (cast int64 (cast uint8 (load A t))) serial (store A t i))", 255, 255},
    {"(for i:int32 0:int32 (select (eq (load A t) 0) 4:int32 7:int32) serial (store A t 1))", 7, 7},
    {"(for i:int64 0 (cast int64 (min 9:int32 (cast int32 (load A t)))) serial (store A t i))", 9,
     9},
    {"(for i:int64 0 (load A t) serial (for k:int64 0 3 serial (store A t k)))", INT32_MAX,
     INT32_MAX},
    {"(while (lt (load A t) (load A 0)) (for i:int64 0 3 serial (store A t i)))", INT32_MAX,
     INT32_MAX},
    /* a variable that grows to an end */
    {"(while (lt (load A t) n) (for i:int64 0 3 serial (store A t (add (load A t) 1))))", 0, 400},
    {"(while (lt (load A t) n) (store A t (add (mul (load A t) 2) 1)))", 0, 7},
    {"(for i:int64 0 n serial (while (lt (load A t) (sub n i)) (store A t (add (mul (load A t) 2)"
     " 1))))",
     0, 100 * 8},
    /* a heap: both branches store, a name is not less than the variable */
    {"(while (lt (load A t) n) (let c:int64 (load A t) (let d:int64 (min (add c 1) (add n -1))"
     " (if (lt c 5) (store A t (add (mul (select (lt c d) c d) 2) 1)) (store A t n)))))",
     0, 7},
    {"(while (lt (load A t) n) (let c:int64 (load A t) (seq (store A t n)"
     " (if (lt c 5) (store A t (add c 1))))))",
     0, 100},
    /* a way through the body that stores nothing, or another number, and a store that is not
     * known to be the variable's */
    {"(while (lt (load A t) n) (if (lt t 5) (store A t (add (mul (load A t) 2) 1))))", INT32_MAX,
     INT32_MAX},
    {"(while (lt (load A t) n) (seq (store A t (add (mul (load A t) 2) 1))"
     " (if (lt t 5) (store A t 0))))",
     INT32_MAX, INT32_MAX},
    {"(while (lt (load A t) n) (store A t (load A t)))", INT32_MAX, INT32_MAX},
    {"(allocate (buffer v int8 local 1) (seq (store A t t) (while (lt (load v 0) 100:int8)"
     " (store v 0 (add (load v 0) 27:int8)))))",
     100, 100},
    {"(allocate (buffer v int8 local 1) (seq (store A t t) (while (lt (load v 0) 100:int8)"
     " (store v 0 (add (load v 0) 28:int8)))))",
     INT32_MAX, INT32_MAX},
    {"(while (lt (load A t) n) (store A t (mul (load A t) 2)))", INT32_MAX, INT32_MAX},
    {"(while (lt (load A t) n) (store A t (add (mul t 2) 1)))", INT32_MAX, INT32_MAX},
    {"(while (lt (load A t) n) (seq (store A t (add (load A t) 1)) (store A 0 t)))", INT32_MAX,
     INT32_MAX},
    {"(let c:int64 (load A t) (while (lt (load A t) n) (store A t (add c 1))))", INT32_MAX,
     INT32_MAX},
};

static void test_iterations_of_threads_are_counted(void) {
  for (size_t i = 0; i < G_N_ELEMENTS(iteration_cases); i++) {
    char *text = g_strdup_printf("(module (function \"f\" (buffer A int64 global 8) n:int64"
                                 " (for t:int64 0 8 bound \"threadIdx.x\" %s)))",
                                 iteration_cases[i].loops);
    BpIrModule *module = parse_ok(text), *kernels = bp_ir_module_create();
    const BpKernelList *list = bp_ir_split_kernels(module, "f", 1, kernels);
    assert_ok(list == NULL);
    const BpIrNode *iterations = bp_kernel_list_get(list, 0)->iterations;
    g_test_message("%s", iteration_cases[i].loops);
    g_assert_cmpint(value_of_extent(iterations, 0), ==, iteration_cases[i].for_none);
    g_assert_cmpint(value_of_extent(iterations, 100), ==, iteration_cases[i].for_hundred);
    bp_object_release(kernels);
    bp_object_release(module);
    g_free(text);
  }
}

static void test_a_launch_has_six_axes(void) {
  GString *text = g_string_new("(module (function \"f\" (buffer A int64 global 4)"
                               " (attr \"kernel\" 1)");
  for (int i = 0; i < 7; i++)
    g_string_append(text, " (attr \"launch\" \"threadIdx.x\" 4)");
  g_string_append(text, " (for t:int64 0 4 bound \"threadIdx.x\" (store A t t))))");
  BpIrModule *module = parse_ok(text->str), *kernels = bp_ir_module_create();
  g_assert_null(bp_ir_split_kernels(module, "f", 1, kernels));
  assert_error(BP_ERROR_NOT_IMPLEMENTED, "more extents of a launch than there are axes");
  bp_object_release(kernels);
  bp_object_release(module);
  g_string_free(text, TRUE);
}

/* Buffers that one statement writes are outputs of one kernel. A result without elements, which no
 * statement writes, is an output, too. */
static void test_a_kernel_has_several_outputs(void) {
  BpIrModule *module = parse_verified(
      "(module (function \"f\" (buffer A float32 global 8) (buffer B float32 global 8)"
      " (buffer C float32 global 8) (buffer D float32 global 0)"
      " (allocate (buffer S float32 global 8)"
      " (for b:int64 0 8 bound \"blockIdx.x\" (seq"
      "  (store S b (load A b)) (store C b (load S b)) (store B b (load A b)))))))");
  BpIrModule *kernels = bp_ir_module_create();
  static const int32_t args[] = {0, 1, 2, 3, -1};
  const BpKernelList *list;
  list = bp_ir_split_kernels(module, "f", 3, kernels);
  assert_ok(list == NULL);
  assert_ok(bp_ir_verify(kernels));
  g_assert_cmpint(list->num_kernels, ==, 1);
  g_assert_cmpint(bp_kernel_list_get(list, 0)->num_args, ==, 5);
  g_assert_cmpint(bp_kernel_list_get(list, 0)->num_outputs, ==, 4);
  g_assert_cmpmem(bp_kernel_list_get(list, 0)->args, sizeof args, args, sizeof args);
  bp_object_release(kernels);
  bp_object_release(module);
}

/* A function that declares itself a kernel is one launch, whatever surrounds its loops. */
static void test_a_kernel_need_not_state_its_launch(void) {
  BpIrModule *module = parse_verified(
      "(module (function \"f\" (buffer A int64 global 64) n:int64 (attr \"kernel\" 1)"
      " (seq (store A 7 n) (for t:int64 0 3 bound \"threadIdx.x\" (store A t t))"
      " (for u:int64 0 5 bound \"threadIdx.x\" (store A (add u 20) u)))))");
  BpIrModule *legal = legalize(module, "test_gpu");
  char *text = bp_ir_print(legal);
  g_assert_nonnull(strstr(text, "(attr \"kernel\" 1)\n    (attr \"launch\" \"threadIdx.x\" 5)\n"));
  assert_same_meaning(module, legal, 9);
  bp_str_free(text);
  bp_object_release(legal);
  bp_object_release(module);
}

static void test_vectors_become_scalars(void) {
  static const char *const bodies[] = {
      "(store A (ramp 3 2 8) (add (load A (ramp 0 1 8)) (broadcast n 8)))",
      /* the stored value was read before */
      "(store A (ramp 0 1 8) (shuffle 2 (load A (ramp 8 1 4)) (load A (ramp 0 1 4)) 7 0 6 1 5 2 4 "
      "3))",
      "(store A (ramp 60 1 16) (load A (ramp 0 1 16)) (lt (ramp 60 1 16) (broadcast 64 16)))",
      "(store A (ramp 0 1 16) (load A (ramp 56 1 16) (lt (ramp 56 1 16) (broadcast 64 16))))",
      "(let x:int64x4 (load A (ramp 4 1 4)) (seq (store A (ramp 0 1 4) x)"
      " (store A (ramp 8 1 4) (select (lt x (broadcast n 4)) x (mul x (broadcast 2 4))))))",
      "(store A 0 (reduce add (load A (ramp 0 1 16))))",
      "(store A 1 (add (reduce min (load A (ramp 8 3 8))) (reduce max (load A (ramp 1 1 2)))))",
      "(store A (ramp 0 1 4) (cast int64x4 (mul (cast float32x4 (load A (ramp 0 1 4)))"
      " (broadcast 0.5:float32 4))))",
      /* lanes of other sizes */
      "(store A (ramp 0 1 2) (reinterpret int64x2 (mul (reinterpret int16x8 (load A (ramp 4 1 2)))"
      " (broadcast 3:int16 8))))",
      "(store A 0 (reinterpret int64 (cast uint8x8 (load A (ramp 8 1 8)))))",
  };
  for (size_t i = 0; i < G_N_ELEMENTS(bodies); i++) {
    char *text = g_strdup_printf("(module (function \"f\" (buffer A int64 global 64) n:int64 %s))",
                                 bodies[i]);
    BpIrModule *module = parse_verified(text);
    BpIrModule *legal = legalize(module, "test_gpu");
    g_assert_nonnull(legal);
    char *printed = bp_ir_print(legal);
    g_assert_null(strstr(printed, "ramp"));
    g_assert_null(strstr(printed, "int64x"));
    assert_same_meaning(module, legal, 5);
    bp_str_free(printed);
    bp_object_release(legal);
    bp_object_release(module);
    g_free(text);
  }
}

static void test_indices_become_narrow(void) {
  static const char kind[] = "test_plain -index_bits=32";
  assert_legal(kind, "(for i:int64 0 8 serial (store A (add (mul i 4) 3) i))",
               "(for i:int32 0:int32 8:int32 serial\n"
               "      (store A (add (mul i 4:int32) 3:int32) (cast int64 i)))");
  assert_legal(kind, "(for i:int64 0 8 serial (if (lt (sub 5 i) 2) (store A i n)))",
               "(for i:int32 0:int32 8:int32 serial\n"
               "      (if (lt (add (mul i -1:int32) 5:int32) 2:int32)\n"
               "        (store A i n)))");
  /* the values of these variables are unknown */
  assert_legal(kind, "(for i:int64 0 n serial (store A (mod i 64) i))",
               "(for i:int64 0 n serial\n"
               "      (store A (cast int32 (mod i 64)) i))");
  /* each value of this variable fits, but the extent may be below the least int32 */
  assert_legal(kind,
               "(for i:int64 0 (add (cast int64 (cast int32 n)) -1) serial (store A (mod i 64) i))",
               "(for i:int64 0 (add (cast int64 (cast int32 n)) -1) serial\n"
               "      (store A (mod (cast int32 i) 64:int32) i))");
  assert_legal(kind, "(for i:int64 0 8 serial (store A i (mul i 4294967296)))",
               "(for i:int32 0:int32 8:int32 serial\n"
               "      (store A i (mul (cast int64 i) 4294967296)))");
}

/* Operations on vectors whose operands become broadcasts are guarded like other operations. */
static void test_operations_on_broadcasts_are_guarded(void) {
  static const struct {
    const char *body, *guard;
  } cases[] = {
      {"(store A (ramp 0 1 4) (div (cast int64x4 (broadcast 3:float64 4)) (broadcast n 4)))",
       "(eq n 0)"},
      {"(store A (ramp 0 1 4) (shl (cast int64x4 (broadcast 3:float64 4)) (broadcast n 4)))",
       "(lt n 64)"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *text = g_strdup_printf("(module (function \"f\" (buffer A int64 global 64) n:int64 %s))",
                                 cases[i].body);
    BpIrModule *module = parse_verified(text), *legal = legalize(module, "test_plain");
    char *printed = bp_ir_print(legal);
    if (!strstr(printed, cases[i].guard))
      g_error("%s is not in %s", cases[i].guard, printed);
    bp_str_free(printed);
    bp_object_release(legal);
    bp_object_release(module);
    g_free(text);
  }
}

/* A conversion to a narrower type wraps, whatever the range of the operand. */
static void test_ranges_of_conversions_are_their_types(void) {
  static const char *const bodies[] = {
      "(for i:int64 0 64 serial (if (lt (cast int64 (cast int8 (mul i 5))) 0) (store A i n)))",
      "(for i:int64 0 64 serial (store A i (floordiv (cast int64 (cast uint8 (sub i 9))) 8)))",
      "(for i:int64 0 64 serial (if (gt (cast int64 (cast uint32 (sub i 9))) 60) (store A i n)))",
      "(for i:int64 0 64 serial (if (le (cast int64 (cast bool i)) 1) (store A i n)))",
      ("(for i:int64 0 64 serial (store A i"
       " (cast int64 (floordiv (cast uint64 (sub i 9)) 4294967296:uint64))))"),
  };
  static const char *const targets[] = {"test_plain", "test_plain -index_bits=32"};
  for (size_t i = 0; i < G_N_ELEMENTS(bodies); i++)
    for (size_t t = 0; t < G_N_ELEMENTS(targets); t++) {
      char *text = g_strdup_printf(
          "(module (function \"f\" (buffer A int64 global 64) n:int64 %s))", bodies[i]);
      BpIrModule *module = parse_verified(text), *legal = legalize(module, targets[t]);
      assert_same_meaning(module, legal, 5);
      bp_object_release(legal);
      bp_object_release(module);
      g_free(text);
    }
}

/* ---- Targets without int64 --------------------------------------------------------------- */

/* A function over 64 numbers. */
static BpIrModule *with_floats(const char *body) {
  char *text = g_strdup_printf("(module (function \"f\" (buffer A float32 global 64)"
                               " (buffer I int32 global 64) m:int32 %s))",
                               body);
  BpIrModule *module = parse_verified(text);
  g_free(text);
  return module;
}

static void run_floats(BpIrModule *module, float *result) {
  int32_t places[64];
  Array floats, ints;
  for (int i = 0; i < 64; i++) {
    result[i] = (float)i / 2;
    places[i] = i * 37 % 61;
  }
  BpValue args[] = {array_value(&floats, result, dtype_of("float32"), 64),
                    array_value(&ints, places, dtype_of("int32"), 64),
                    {.type_index = BP_TYPE_INT}};
  args[2].v_int64 = 12;
  assert_ok(bp_ir_interpret(module, "f", args, 3));
}

static void test_without_int64_indices_are_int32(void) {
  static const char *const bodies[] = {
      "(for i:int64 0 16 serial (store A (add (mul i 4) 3) (cast float32 (mul i 9))))",
      "(for i:int64 0 8 serial (store A (ramp (mul i 8) 1 8) (load A (ramp (sub 63 i) -2 8))))",
      "(for i:int64 0 9 serial (store A (ramp (mul i 7) 1 8) (load A (ramp (mul i 7) 1 8)"
      " (lt (add (ramp 0 1 8) (broadcast (mul i 7) 8)) (broadcast 61 8)))"
      " (lt (ramp (mul i 7) 1 8) (broadcast 62 8))))",
      "(let k:int64x4 (max (cast int64x4 (load I (ramp 8 1 4))) (broadcast 3 4))"
      " (store A (ramp 0 1 4) (load A (min k (broadcast 63 4)))))",
      "(store A (shuffle 2 (cast int64x4 (ramp 8:int32 1:int32 4)) (ramp 0 2 2) 5 0 3)"
      " (load A (shuffle 1 (ramp 40 1 4) 3 1 2)))",
      "(for i:int64 0 (cast int64 m) serial (store A (cast int64 (load I i))"
      " (select (eq (floormod i 3) 1) 1:float32 (cast float32 (cast int8 (mul (mod i 32) 50))))))",
  };
  for (size_t i = 0; i < G_N_ELEMENTS(bodies); i++) {
    BpIrModule *module = with_floats(bodies[i]);
    BpIrModule *legal = legalize(module, "test_plain -supports_int64=false");
    if (!legal)
      g_error("%s: %s", bodies[i], bp_error_message());
    float before[64], after[64];
    char *printed = bp_ir_print(legal);
    g_assert_null(strstr(printed, "int64"));
    run_floats(module, before);
    run_floats(legal, after);
    g_assert_cmpmem(before, sizeof before, after, sizeof after);
    bp_str_free(printed);
    bp_object_release(legal);
    bp_object_release(module);
  }
}

static void test_int64_values_are_refused_without_int64(void) {
  static const struct {
    const char *body, *message;
  } cases[] = {
      {"(store A 0 (cast float32 (mul (cast int64 (load I 0)) (cast int64 (load I 1)))))",
       "a value is not known to fit 32 bits: (mul (cast int64 (load I"},
      {"(store A 0 (cast float32 (cast uint64 (load I 0))))", "a value is not known to fit"},
      {"(allocate (buffer L int64 local 1) (seq (store L 0 1) (store A (load L 0) 1:float32)))",
       "a buffer holds them: L"},
      {"(store A 0 (load A (add (cast int64 m) 2147483647)))", "an index is not known to fit"},
      {"(for i:int64 0 (mul (cast int64 m) 2) serial (store A 0 1:float32))",
       "the end of a loop is not known to fit 32 bits: (mul (cast int64 m"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    BpIrModule *module = with_floats(cases[i].body);
    g_assert_null(legalize(module, "test_plain -supports_int64=false"));
    g_assert_nonnull(strstr(bp_error_message(), "function 'f': the target has no 64-bit integers"));
    assert_error(BP_ERROR_NOT_IMPLEMENTED, cases[i].message);
    bp_object_release(module);
  }
  BpIrModule *large = parse_verified("(module (function \"f\" (buffer A int8 global 4294967296)"
                                     " (for i:int64 0 4294967296 parallel (store A i 1:int8))))");
  g_assert_null(legalize(large, "test_plain -supports_int64=false"));
  assert_error(BP_ERROR_NOT_IMPLEMENTED, "the end of a loop is not known to fit");
  bp_object_release(large);
}

static void test_what_is_no_kernel_is_refused(void) {
  static const struct {
    const char *body, *says;
  } cases[] = {
      {"(for i:int64 0 4 serial (assert (lt i 4) \"so\"))", "writes nothing"},
      {"(seq (for i:int64 0 4 serial (store A i 1:int32)) (for i:int64 0 4 serial (store B i "
       "1:int32))"
       " (for i:int64 0 2 serial (store A i 2:int32)))",
       "the first again"},
      {"(let x:int32 (load A 0) (seq (for i:int64 0 4 serial (store A i 1:int32))"
       " (for i:int64 0 4 serial (store B i x))))",
       "a name at its top level reads a buffer that it writes"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    char *text = g_strdup_printf("(module (function \"f\" (buffer A int32 global 4)"
                                 " (buffer B int32 global 4) %s))",
                                 cases[i].body);
    BpIrModule *module = parse_verified(text), *kernels = bp_ir_module_create();
    g_assert_null(bp_ir_split_kernels(module, "f", 1, kernels));
    assert_error(BP_ERROR_NOT_IMPLEMENTED, cases[i].says);
    bp_object_release(kernels);
    bp_object_release(module);
    g_free(text);
  }
}

static void test_what_cannot_be_is_refused(void) {
  assert_refused("test_plain",
                 "(for t:int64 0 8 bound \"threadIdx.x\" (seq (barrier \"shared\") (store A t t)))",
                 BP_ERROR_NOT_IMPLEMENTED, "function 'f' has a barrier");
  assert_refused("test_gpu", TWO_GRIDS, BP_ERROR_NOT_IMPLEMENTED,
                 "function 'f' has statements around or between its grids");
  char *around = g_strdup_printf("(allocate (buffer S int64 shared 4) %s)", TWO_GRIDS);
  assert_refused("test_plain", around, BP_ERROR_NOT_IMPLEMENTED,
                 "function 'f' allocates a shared buffer around several grids");
  g_free(around);
  assert_refused("test_gpu",
                 "(allocate (buffer G int64 global 8)"
                 " (for i:int64 0 8 parallel (store A i (load G i))))",
                 BP_ERROR_NOT_IMPLEMENTED, "function 'f' allocates global memory");
  assert_refused("test_old", "(store A 0 1)", BP_ERROR_NOT_IMPLEMENTED,
                 "target kind 'test_old' accepts level 0");
  assert_refused("test_plain", "(store A 0 1:int8)", BP_ERROR_VALUE, "operand 2 of store is int8");
}

/* A device ends a loop after max_iterations, so longer loops are refused. Loops over threads do not
 * count as iterations of a thread. */
static void test_endless_threads_are_refused(void) {
  static const char loops[] = "(for t:int64 0 64 bound \"threadIdx.x\" (for i:int64 0 10 serial "
                              "(for k:int64 0 9 serial (store A t (add i k)))))";
  assert_refused(
      "test_gpu -max_iterations=99", loops, BP_ERROR_NOT_IMPLEMENTED,
      "'f': the loops of a thread have 100 iterations, and the device ends them after 99");
  assert_refused("test_gpu -max_iterations=89 -index_bits=32",
                 "(for i:int64 0 9 serial (for k:int64 i (sub 9 i) serial (store A i k)))",
                 BP_ERROR_NOT_IMPLEMENTED, "have 90 iterations, and the device ends them after 89");
  static const char data[] = "iterations that depends on data or is large";
  assert_refused("test_gpu -max_iterations=65535",
                 "(for i:int64 0 (load A 0) serial (store A i i))", BP_ERROR_NOT_IMPLEMENTED, data);
  assert_refused("test_gpu -max_iterations=65535",
                 "(while (lt (load A 0) (load A 1)) (store A 0 (add (load A 0) 1)))",
                 BP_ERROR_NOT_IMPLEMENTED, data);
  assert_refused("test_gpu -max_iterations=63",
                 "(allocate (buffer V uint64 local 1) (seq (store V 0 (cast uint64 (load A 0)))"
                 " (while (ne (load V 0) 0:uint64) (seq (store A 0 1)"
                 " (store V 0 (shr (load V 0) 1:uint64))))))",
                 BP_ERROR_NOT_IMPLEMENTED, "have 64 iterations, and the device ends them after 63");
  for (int i = 0; i < 2; i++) {
    char *text =
        g_strdup_printf("(module (function \"f\" (buffer A int64 global 64) n:int64 %s))", loops);
    BpIrModule *module = parse_ok(text);
    BpIrModule *legal =
        legalize(module, i ? "test_gpu -max_iterations=100" : "test_gpu -max_iterations=0");
    if (!legal)
      g_error("%s", bp_error_message());
    bp_object_release(legal);
    bp_object_release(module);
    g_free(text);
  }
}

/* ---- Intrinsics -------------------------------------------------------------------------- */

#define CHUNK 4096

/* The error in units of the last place of float32, of a result `got` whose exact value is
 * `wanted`. */
static double ulps(float got, double wanted) {
  float rounded = (float)wanted;
  if (isnan(wanted))
    return isnan(got) ? 0 : INFINITY;
  if (isinf(rounded) || isinf(got))
    return got == rounded ? 0 : INFINITY;
  int exponent;
  frexp(wanted, &exponent);
  return fabs((double)got - wanted) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Runs the module's f on the chunk and compares the results with the C library in double
 * precision. */
static double largest_error(BpIrModule *module, const float *x, double (*exact)(double)) {
  float y[CHUNK];
  Array array;
  double largest = 0;
  memcpy(y, x, sizeof y);
  BpValue arg = array_value(&array, y, dtype_of("float32"), CHUNK);
  assert_ok(bp_ir_interpret(module, "f", &arg, 1));
  for (int i = 0; i < CHUNK; i++)
    largest = fmax(largest, ulps(y[i], exact((double)x[i])));
  return largest;
}

/* Tests numbers of every exponent and sign, and numbers from -20 to 20 densely. */
static void assert_accurate(const char *name, double (*exact)(double), double bound) {
  char *text = g_strdup_printf(
      "(module (function \"f\" (buffer A float32 global 4096) (for i:int64 0 512 serial"
      " (store A (ramp (mul i 8) 1 8) (call float32x8 intrinsic \"%s\""
      " (load A (ramp (mul i 8) 1 8)))))))",
      name);
  BpIrModule *module = parse_verified(text);
  BpIrModule *legal = legalize(module, "test_vector");
  char *printed = bp_ir_print(legal);
  g_assert_null(strstr(printed, "call"));
  float x[CHUNK];
  double largest = 0;
  for (uint32_t chunk = 0; chunk < 32; chunk++) {
    for (uint32_t i = 0; i < CHUNK; i++)
      x[i] = float_of_bits((chunk * CHUNK + i) * 32771u + chunk);
    largest = fmax(largest, largest_error(legal, x, exact));
    for (uint32_t i = 0; i < CHUNK; i++)
      x[i] = (float)(chunk * CHUNK + i) * (40.0f / (32 * CHUNK)) - 20.0f;
    largest = fmax(largest, largest_error(legal, x, exact));
  }
  g_test_message("%s: %.3f ulp", name, largest);
  if (!(largest <= bound))
    g_error("%s is off by %.3f ulp", name, largest);
  bp_str_free(printed);
  bp_object_release(legal);
  bp_object_release(module);
  g_free(text);
}

static double exact_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static void test_expansions_are_accurate(void) {
  assert_accurate("exp", exp, 1);
  assert_accurate("log", log, 1);
  assert_accurate("sigmoid", exact_sigmoid, 3);
  assert_accurate("tanh", tanh, 6);
  assert_accurate("erf", erf, 8);
  assert_accurate("sin", sin, 0.51);
  assert_accurate("cos", cos, 0.51);
}

/* Returns the value of a scalar intrinsic after expansion. */
static float expanded(const char *name, float x) {
  char *text = g_strdup_printf("(module (function \"f\" (buffer A float32 global 1)"
                               " (store A 0 (call float32 intrinsic \"%s\" (load A 0)))))",
                               name);
  BpIrModule *module = parse_verified(text);
  BpIrModule *legal = legalize(module, "test_vector");
  Array array;
  BpValue arg = array_value(&array, &x, dtype_of("float32"), 1);
  assert_ok(bp_ir_interpret(legal, "f", &arg, 1));
  bp_object_release(legal);
  bp_object_release(module);
  g_free(text);
  return x;
}

/* Checks an expansion: the result is equal in every bit; any NaN equals any NaN. */
static void assert_expanded(const char *name, float x, float wanted) {
  float got = expanded(name, x);
  if (memcmp(&got, &wanted, sizeof got) && !(isnan(got) && isnan(wanted)))
    g_error("%s(%.9g) is %.9g, not %.9g", name, (double)x, (double)got, (double)wanted);
}

static void test_expansions_at_the_ends(void) {
  assert_expanded("exp", INFINITY, INFINITY);
  assert_expanded("exp", -INFINITY, 0);
  assert_expanded("exp", NAN, NAN);
  assert_expanded("exp", 0, 1);
  assert_expanded("exp", -0.0f, 1);
  assert_expanded("exp", 88.73f, INFINITY);
  assert_expanded("exp", -104, 0);
  assert_expanded("exp", -103.2789f, 0x1p-149f);
  assert_expanded("log", 0, -INFINITY);
  assert_expanded("log", -0.0f, -INFINITY);
  assert_expanded("log", -1, NAN);
  assert_expanded("log", -INFINITY, NAN);
  assert_expanded("log", INFINITY, INFINITY);
  assert_expanded("log", NAN, NAN);
  assert_expanded("log", 1, 0);
  assert_expanded("sigmoid", INFINITY, 1);
  assert_expanded("sigmoid", -INFINITY, 0);
  assert_expanded("sigmoid", NAN, NAN);
  assert_expanded("sigmoid", 0, 0.5f);
  assert_expanded("sigmoid", -104, 0);
  assert_expanded("sigmoid", -103.2789f, 0x1p-149f);
  assert_expanded("tanh", INFINITY, 1);
  assert_expanded("tanh", -INFINITY, -1);
  assert_expanded("tanh", NAN, NAN);
  assert_expanded("tanh", -0.0f, -0.0f);
  assert_expanded("tanh", 0x1p-149f, 0x1p-149f);
  assert_expanded("erf", INFINITY, 1);
  assert_expanded("erf", -INFINITY, -1);
  assert_expanded("erf", NAN, NAN);
  assert_expanded("erf", -0.0f, -0.0f);
  assert_expanded("sin", INFINITY, NAN);
  assert_expanded("sin", NAN, NAN);
  assert_expanded("sin", -0.0f, -0.0f);
  assert_expanded("sin", 0x1p-149f, 0x1p-149f);
  assert_expanded("sin", -0x1.8p-140f, -0x1.8p-140f);
  assert_expanded("cos", -INFINITY, NAN);
  assert_expanded("cos", NAN, NAN);
  assert_expanded("cos", -0.0f, 1);
  /* errors of the float32 nearest to a multiple of pi / 2, and of the largest float32 */
  assert_expanded("cos", 0x1.4661a4p+42f, (float)cos(0x1.4661a4p+42));
  assert_expanded("sin", 0x1.fffffep127f, (float)sin(0x1.fffffep127));
}

/* pow with a constant exponent, or with one in memory. */
static float power(float x, float y, gboolean is_constant) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  char *exponent =
      is_constant ? g_strdup_printf("%s:float32",
                                    isnan(y)   ? "nan"
                                    : isinf(y) ? (y < 0 ? "-inf" : "inf")
                                               : g_ascii_dtostr(number, sizeof number, (double)y))
                  : g_strdup("(load A 1)");
  char *text = g_strdup_printf("(module (function \"f\" (buffer A float32 global 2)"
                               " (store A 0 (call float32 intrinsic \"pow\" (load A 0) %s))))",
                               exponent);
  BpIrModule *module = parse_verified(text);
  BpIrModule *legal = legalize(module, "test_vector");
  Array array;
  float data[] = {x, y};
  BpValue arg = array_value(&array, data, dtype_of("float32"), 2);
  assert_ok(bp_ir_interpret(legal, "f", &arg, 1));
  char *printed = bp_ir_print(legal);
  g_assert_null(strstr(printed, "\"pow\""));
  bp_str_free(printed);
  bp_object_release(legal);
  bp_object_release(module);
  g_free(text);
  g_free(exponent);
  return data[0];
}

static void assert_power(float x, float y, gboolean is_constant, double bound) {
  double wanted = pow((double)x, (double)y);
  float got = power(x, y, is_constant);
  if (!(ulps(got, wanted) <= bound) || (wanted == 0 && !signbit(got) != !signbit(wanted)))
    g_error("pow(%g, %g) is %.9g, not %.9g", (double)x, (double)y, (double)got, wanted);
}

static void test_powers_are_expanded(void) {
  static const float bases[] = {0,        -0.0f,     1,   -1,     1.5f, -1.5f,
                                INFINITY, -INFINITY, NAN, 1e-40f, -2,   0x1.fffffep127f};
  static const float exponents[] = {0,        -0.0f,     1,     2,       3,       4,
                                    -1,       0.5f,      0.75f, 2.5f,    -3,      -2,
                                    INFINITY, -INFINITY, NAN,   0x1p30f, 16777215};
  for (size_t i = 0; i < G_N_ELEMENTS(bases); i++)
    for (size_t j = 0; j < G_N_ELEMENTS(exponents); j++) {
      if (j >= 2 && j < 10)
        assert_power(bases[i], exponents[j], TRUE, 2);
      assert_power(bases[i], exponents[j], FALSE, 0.55);
    }
  for (uint32_t i = 1; i <= 1000; i++) {
    float x = float_of_bits(i * 2147001u % 0x7f800000u);
    assert_power(x, (float)((int)(i % 41) - 20) * 0.37f, FALSE, 0.55);
    assert_power(1 + (float)((int)(i % 101) - 50) * 0x1p-20f, (float)i * 4099, FALSE, 0.55);
  }
}

/* Narrow floats are widened; float64 uses the C library. */
static void test_other_widths_are_widened_or_left(void) {
  BpIrModule *module = parse_verified("(module (function \"f\" (buffer A float16 global 1)"
                                      " (store A 0 (call float16 intrinsic \"exp\" (load A 0))))"
                                      "(function \"g\" (buffer A float64 global 1)"
                                      " (store A 0 (call float64 intrinsic \"exp\" (load A 0)))))");
  BpIrModule *legal = legalize(module, "test_vector");
  char *text = bp_ir_print(legal);
  g_assert_nonnull(strstr(text, "(call float64 intrinsic \"exp\""));
  g_assert_null(strstr(text, "(call float16"));
  uint16_t one = 0x3c00;
  Array array;
  BpValue arg = array_value(&array, &one, dtype_of("float16"), 1);
  assert_ok(bp_ir_interpret(legal, "f", &arg, 1));
  g_assert_cmphex(one, ==, 0x4170);
  bp_str_free(text);
  bp_object_release(legal);
  bp_object_release(module);
}

/* ---- Graphs with more paths than can be walked ------------------------------------------- */

#define CHAIN 60

static const BpIrNode *number(BpIrModule *module, const char *dtype, int64_t value) {
  return bp_ir_int(module, dtype_of(dtype), value);
}

static const BpIrNode *op(BpIrModule *module, int32_t kind, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(module, kind, a, b);
}

/* x = x % 7 + min(x / 3, 11 - x), repeatedly. */
static const BpIrNode *index_chain(BpIrModule *module, const BpIrNode *x) {
  for (int i = 0; i < CHAIN; i++) {
    const BpIrNode *rest = op(module, BP_IR_FLOORMOD, x, number(module, "int64", 7));
    const BpIrNode *third = op(module, BP_IR_FLOORDIV, x, number(module, "int64", 3));
    const BpIrNode *other = op(module, BP_IR_SUB, number(module, "int64", 11), x);
    x = op(module, BP_IR_ADD, rest, op(module, BP_IR_MIN, third, other));
  }
  return x;
}

/* c = (c or x < i) and (c or x > -i) */
static const BpIrNode *condition_chain(BpIrModule *module, const BpIrNode *x) {
  const BpIrNode *c = op(module, BP_IR_EQ, x, number(module, "int64", 3));
  for (int i = 0; i < CHAIN; i++) {
    const BpIrNode *low = op(module, BP_IR_LT, x, number(module, "int64", i));
    const BpIrNode *high = op(module, BP_IR_GT, x, number(module, "int64", -i));
    c = op(module, BP_IR_AND, op(module, BP_IR_OR, c, low), op(module, BP_IR_OR, c, high));
  }
  return c;
}

/* f = max(f, min(f, i)); a cast to an integer needs its range. */
static const BpIrNode *float_chain(BpIrModule *module, const BpIrNode *x) {
  const BpIrNode *f = bp_ir_cast(module, dtype_of("float32"), x);
  for (int i = 0; i < CHAIN; i++)
    f = op(module, BP_IR_MAX, f,
           op(module, BP_IR_MIN, f, bp_ir_float(module, dtype_of("float32"), i)));
  return bp_ir_cast(module, dtype_of("int64"), f);
}

/* Makes a function that stores the sum of all chains in A[index], for some i, and divides by a
 * number that is never zero. */
static BpIrModule *chains(void) {
  BpIrModule *module = bp_ir_module_create();
  const BpIrNode *i = bp_ir_var(module, "i", dtype_of("int64"));
  const BpIrNode *extent = number(module, "int64", 16);
  const BpIrNode *A = bp_ir_buffer(module, "A", dtype_of("int64"), BP_IR_SCOPE_GLOBAL, &extent, 1);
  const BpIrNode *x = index_chain(module, i), *divisor = number(module, "int64", 5);
  const BpIrNode *condition = condition_chain(module, i);
  for (int k = 0; k < CHAIN; k++)
    divisor = bp_ir_select(module, op(module, BP_IR_LT, i, number(module, "int64", k)), divisor,
                           op(module, BP_IR_BIT_OR, divisor, divisor));
  x = op(module, BP_IR_ADD, x, float_chain(module, i));
  x = bp_ir_select(module, condition, x, op(module, BP_IR_DIV, x, divisor));
  const BpIrNode *at = op(module, BP_IR_FLOORMOD, index_chain(module, i), extent);
  const BpIrNode *sum = op(module, BP_IR_ADD, bp_ir_load(module, A, at, NULL), x);
  const BpIrNode *loop =
      bp_ir_for(module, i, number(module, "int64", 0), number(module, "int64", 9), BP_IR_FOR_SERIAL,
                NULL, bp_ir_store(module, A, at, sum, NULL));
  assert_ok(bp_ir_module_add(module, bp_ir_function(module, "f", &A, 1, NULL, 0, loop)));
  return module;
}

static void run_chains(const BpIrModule *module, int64_t *values) {
  Array array;
  BpValue arg = array_value(&array, values, dtype_of("int64"), 16);
  assert_ok(bp_ir_interpret(module, "f", &arg, 1));
}

static void test_graphs_are_walked_once(void) {
  static const char *const targets[] = {"test_plain", "test_plain -index_bits=32", "test_vector"};
  BpIrModule *module = chains();
  int64_t expected[16] = {0};
  assert_ok(bp_ir_verify(module));
  run_chains(module, expected);
  for (size_t t = 0; t < G_N_ELEMENTS(targets); t++) {
    int64_t found[16] = {0};
    BpIrModule *legal = legalize(module, targets[t]);
    run_chains(legal, found);
    g_assert_cmpmem(found, sizeof found, expected, sizeof expected);
    bp_object_release(legal);
  }
  bp_object_release(module);
}

/* Two graphs of one form are equal; two graphs that differ at their end are not. */
static void test_graphs_are_compared_once(void) {
  BpIrModule *module = bp_ir_module_create();
  const BpIrNode *i = bp_ir_var(module, "i", dtype_of("int64"));
  const BpIrNode *k = bp_ir_var(module, "k", dtype_of("int64"));
  const BpIrNode *same = op(module, BP_IR_EQ, index_chain(module, i), index_chain(module, i));
  const BpIrNode *other = op(module, BP_IR_EQ, index_chain(module, i), index_chain(module, k));
  g_assert_cmpint(bp_ir_table()->kind(same), ==, BP_IR_INT_IMM);
  g_assert_cmpint(bp_ir_table()->int_value(same), ==, 1);
  g_assert_cmpint(bp_ir_table()->kind(other), ==, BP_IR_EQ);
  bp_object_release(module);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  register_kinds();
  g_test_add_func("/ir/simplify/conditions-are-simplified", test_conditions_are_simplified);
  g_test_add_func("/ir/simplify/divisions-are-simplified", test_divisions_are_simplified);
  g_test_add_func("/ir/simplify/data-wraps", test_wrapping);
  g_test_add_func("/ir/simplify/loops-are-simplified", test_loops_are_simplified);
  g_test_add_func("/ir/simplify/masks-are-simplified", test_masks_are_simplified);
  g_test_add_func("/ir/legalize/a_load_of_distant_lanes_becomes_two_loads",
                  test_a_load_of_distant_lanes_becomes_two_loads);
  g_test_add_func("/ir/legalize/a_load_of_few_lanes_in_a_mask_stays_inside_the_mask",
                  test_a_load_of_few_lanes_in_a_mask_stays_inside_the_mask);
  g_test_add_func("/ir/legalize/lanes_far_apart_are_loaded_one_by_one",
                  test_lanes_far_apart_are_loaded_one_by_one);
  g_test_add_func("/ir/simplify/ranges-end-with-their-loop", test_ranges_end_with_their_loop);
  g_test_add_func("/ir/legalize/only-what-may-be-undefined-is-guarded",
                  test_only_what_may_be_undefined_is_guarded);
  g_test_add_func("/ir/legalize/two-casts-of-a-float-are-one", test_two_casts_of_a_float_are_one);
  g_test_add_func("/ir/legalize/shared-expressions-get-names", test_shared_expressions_get_names);
  g_test_add_func("/ir/legalize/indices_of_several_statements_get_names",
                  test_indices_of_several_statements_get_names);
  g_test_add_func("/ir/legalize/indices_of_names_bound_twice_stay",
                  test_indices_of_names_bound_twice_stay);
  g_test_add_func("/ir/legalize/grids-become-loops", test_grids_become_loops);
  g_test_add_func("/ir/legalize/outside-of-a-launch-barriers-go",
                  test_outside_of_a_launch_barriers_go);
  g_test_add_func("/ir/legalize/two-loops-of-one-axis-share-its-threads",
                  test_two_loops_of_one_axis_share_its_threads);
  g_test_add_func("/ir/legalize/a-kernel-loses-its-launch", test_a_kernel_loses_its_launch);
  g_test_add_func("/ir/legalize/kernels-state-their-launch", test_kernels_state_their_launch);
  g_test_add_func("/ir/legalize/a-launch-has-six-axes", test_a_launch_has_six_axes);
  g_test_add_func("/ir/legalize/iterations-of-threads-are-counted",
                  test_iterations_of_threads_are_counted);
  g_test_add_func("/ir/legalize/a-kernel-need-not-state-its-launch",
                  test_a_kernel_need_not_state_its_launch);
  g_test_add_func("/ir/legalize/vectors-become-scalars", test_vectors_become_scalars);
  g_test_add_func("/ir/legalize/indices-become-narrow", test_indices_become_narrow);
  g_test_add_func("/ir/legalize/operations_on_broadcasts_are_guarded",
                  test_operations_on_broadcasts_are_guarded);
  g_test_add_func("/ir/legalize/ranges_of_conversions_are_their_types",
                  test_ranges_of_conversions_are_their_types);
  g_test_add_func("/ir/legalize/without_int64_indices_are_int32",
                  test_without_int64_indices_are_int32);
  g_test_add_func("/ir/legalize/int64_values_are_refused_without_int64",
                  test_int64_values_are_refused_without_int64);
  g_test_add_func("/ir/kernels/functions-split-into-kernels", test_functions_split_into_kernels);
  g_test_add_func("/ir/kernels/a-kernel-has-several-outputs", test_a_kernel_has_several_outputs);
  g_test_add_func("/ir/kernels/what-is-none-is-refused", test_what_is_no_kernel_is_refused);
  g_test_add_func("/ir/legalize/what-a-device-would-end-is-refused",
                  test_endless_threads_are_refused);
  g_test_add_func("/ir/legalize/what-cannot-be-is-refused", test_what_cannot_be_is_refused);
  g_test_add_func("/ir/graphs/are-walked-once", test_graphs_are_walked_once);
  g_test_add_func("/ir/graphs/are-compared-once", test_graphs_are_compared_once);
  g_test_add_func("/ir/expand/expansions-are-accurate", test_expansions_are_accurate);
  g_test_add_func("/ir/expand/expansions-are-right-at-the-ends-of-the-range",
                  test_expansions_at_the_ends);
  g_test_add_func("/ir/expand/powers-are-expanded", test_powers_are_expanded);
  g_test_add_func("/ir/expand/other-widths-are-widened-or-left",
                  test_other_widths_are_widened_or_left);
  return g_test_run();
}
