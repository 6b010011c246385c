/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that make IR: constants that they fold and float expressions that they must not
 * fold; and the table through which generators read IR. */

#include <math.h>

#include <backplane/compiler/block.h>
#include <backplane/compiler/te.h>
#include <backplane/plugins.h>

#include "tests/compiler/ir-util.h"

typedef struct Fixture {
  BpIrModule *module;
  BpDataType int64, float32;
  const BpIrNode *x, *y, *f; /* variables: int64, int64, float32 */
} Fixture;

static void set_up(Fixture *fixture, gconstpointer unused) {
  (void)unused;
  fixture->module = bp_ir_module_create();
  fixture->int64 = dtype_of("int64");
  fixture->float32 = dtype_of("float32");
  fixture->x = bp_ir_var(fixture->module, "x", fixture->int64);
  fixture->y = bp_ir_var(fixture->module, "y", fixture->int64);
  fixture->f = bp_ir_var(fixture->module, "f", fixture->float32);
}

static void tear_down(Fixture *fixture, gconstpointer unused) {
  (void)unused;
  bp_object_release(fixture->module);
}

static void assert_printed(const BpIrNode *node, const char *expected) {
  BpValue text = {0};
  BpByteArray view;
  if (!node)
    g_error("%s", bp_error_message());
  assert_ok(bp_ir_table()->print(node, &text));
  assert_ok(bp_value_view_str(&text, &view));
  char *printed = g_strndup(view.data, view.size);
  g_assert_cmpstr(printed, ==, expected);
  g_free(printed);
  bp_value_clear(&text);
}

static const BpIrNode *with_int(Fixture *t, int32_t kind, const BpIrNode *a, int64_t b) {
  return bp_ir_binary(t->module, kind, a, bp_ir_int(t->module, t->int64, b));
}

static const BpIrNode *with_float(Fixture *t, int32_t kind, const BpIrNode *a, double b) {
  return bp_ir_binary(t->module, kind, a, bp_ir_float(t->module, t->float32, b));
}

static void test_integer_identities_are_applied(Fixture *t, gconstpointer unused) {
  (void)unused;
  static const int32_t keeps_by_0[] = {BP_IR_ADD,     BP_IR_SUB, BP_IR_BIT_OR,
                                       BP_IR_BIT_XOR, BP_IR_SHL, BP_IR_SHR};
  static const int32_t keeps_by_1[] = {BP_IR_MUL, BP_IR_DIV, BP_IR_FLOORDIV};
  static const int32_t zero_by_0[] = {BP_IR_MUL, BP_IR_BIT_AND};
  static const int32_t zero_by_1[] = {BP_IR_MOD, BP_IR_FLOORMOD};
  for (size_t i = 0; i < G_N_ELEMENTS(keeps_by_0); i++)
    g_assert_true(with_int(t, keeps_by_0[i], t->x, 0) == t->x);
  for (size_t i = 0; i < G_N_ELEMENTS(keeps_by_1); i++)
    g_assert_true(with_int(t, keeps_by_1[i], t->x, 1) == t->x);
  for (size_t i = 0; i < G_N_ELEMENTS(zero_by_0); i++)
    assert_printed(with_int(t, zero_by_0[i], t->x, 0), "0");
  for (size_t i = 0; i < G_N_ELEMENTS(zero_by_1); i++)
    assert_printed(with_int(t, zero_by_1[i], t->x, 1), "0");
  assert_printed(bp_ir_binary(t->module, BP_IR_SUB, t->x, t->x), "0");
  g_assert_true(bp_ir_binary(t->module, BP_IR_MIN, t->x, t->x) == t->x);
  assert_printed(bp_ir_binary(t->module, BP_IR_LE, t->x, t->x), "true");
  assert_printed(bp_ir_binary(t->module, BP_IR_LT, t->x, t->x), "false");
}

static void test_integer_constants_are_combined(Fixture *t, gconstpointer unused) {
  (void)unused;
  assert_printed(with_int(t, BP_IR_ADD, with_int(t, BP_IR_ADD, t->x, 3), 4), "(add x:int64 7)");
  assert_printed(with_int(t, BP_IR_SUB, with_int(t, BP_IR_ADD, t->x, 3), 5), "(add x:int64 -2)");
  g_assert_true(with_int(t, BP_IR_SUB, with_int(t, BP_IR_ADD, t->x, 3), 3) == t->x);
  assert_printed(with_int(t, BP_IR_MUL, with_int(t, BP_IR_MUL, t->x, 3), 4), "(mul x:int64 12)");
  assert_printed(with_int(t, BP_IR_FLOORDIV, with_int(t, BP_IR_FLOORDIV, t->x, 3), 4),
                 "(floordiv x:int64 12)");
  assert_printed(with_int(t, BP_IR_FLOORDIV, with_int(t, BP_IR_FLOORDIV, t->x, INT64_MAX), 4),
                 "(floordiv (floordiv x:int64 9223372036854775807) 4)");
  assert_printed(with_int(t, BP_IR_MIN, with_int(t, BP_IR_MIN, t->x, 3), 4), "(min x:int64 3)");
  assert_printed(with_int(t, BP_IR_FLOORMOD, bp_ir_int(t->module, t->int64, -7), 4), "1");
  assert_printed(with_int(t, BP_IR_DIV, bp_ir_int(t->module, t->int64, -7), 0), "0");
  const BpIrNode *three = bp_ir_int(t->module, t->int64, 3);
  assert_printed(bp_ir_binary(t->module, BP_IR_ADD, three, t->x), "(add x:int64 3)");
  assert_printed(bp_ir_int(t->module, dtype_of("uint8"), 300), "44:uint8");
}

/* For -0, NaN or infinity a simplified expression would differ. */
static void test_floats_are_left_alone(Fixture *t, gconstpointer unused) {
  (void)unused;
  assert_printed(with_float(t, BP_IR_ADD, t->f, 0), "(add f:float32 0:float32)");
  assert_printed(with_float(t, BP_IR_SUB, t->f, -0.0), "(sub f:float32 -0:float32)");
  assert_printed(with_float(t, BP_IR_MUL, t->f, 0), "(mul f:float32 0:float32)");
  assert_printed(bp_ir_binary(t->module, BP_IR_SUB, t->f, t->f), "(sub f:float32 f)");
  assert_printed(bp_ir_binary(t->module, BP_IR_EQ, t->f, t->f), "(eq f:float32 f)");
  assert_printed(bp_ir_not(t->module, bp_ir_binary(t->module, BP_IR_LT, t->f, t->f)),
                 "(not (lt f:float32 f))");
  assert_printed(with_float(t, BP_IR_ADD, with_float(t, BP_IR_ADD, t->f, 1), 2),
                 "(add (add f:float32 1:float32) 2:float32)");
  g_assert_true(with_float(t, BP_IR_ADD, t->f, -0.0) == t->f);
  g_assert_true(with_float(t, BP_IR_SUB, t->f, 0) == t->f);
  g_assert_true(with_float(t, BP_IR_MUL, t->f, 1) == t->f);
  g_assert_true(with_float(t, BP_IR_DIV, t->f, 1) == t->f);
  const BpIrNode *nan = bp_ir_float(t->module, t->float32, NAN);
  assert_printed(with_float(t, BP_IR_MAX, nan, 1), "nan:float32");
  assert_printed(with_float(t, BP_IR_ADD, bp_ir_float(t->module, t->float32, 16777216), 1),
                 "16777216:float32");
}

static void test_logic_is_folded(Fixture *t, gconstpointer unused) {
  (void)unused;
  BpDataType bool1 = dtype_of("bool");
  const BpIrNode *yes = bp_ir_int(t->module, bool1, 1), *no = bp_ir_int(t->module, bool1, 0);
  const BpIrNode *less = bp_ir_binary(t->module, BP_IR_LT, t->x, t->y);
  g_assert_true(bp_ir_binary(t->module, BP_IR_AND, yes, less) == less);
  g_assert_true(bp_ir_binary(t->module, BP_IR_OR, less, no) == less);
  assert_printed(bp_ir_binary(t->module, BP_IR_AND, less, no), "false");
  assert_printed(bp_ir_binary(t->module, BP_IR_OR, yes, less), "true");
  assert_printed(bp_ir_not(t->module, less), "(ge x:int64 y:int64)");
  g_assert_true(bp_ir_select(t->module, yes, t->x, t->y) == t->x);
  g_assert_true(bp_ir_select(t->module, no, t->x, t->y) == t->y);
  g_assert_true(bp_ir_select(t->module, less, t->x, t->x) == t->x);
}

static void test_vectors_are_folded(Fixture *t, gconstpointer unused) {
  (void)unused;
  const BpIrNode *one = bp_ir_int(t->module, t->int64, 1);
  const BpIrNode *ramp = bp_ir_ramp(t->module, t->x, one, 4);
  assert_printed(bp_ir_binary(t->module, BP_IR_ADD, ramp, t->y),
                 "(ramp (add x:int64 y:int64) 1 4)");
  assert_printed(bp_ir_binary(t->module, BP_IR_MUL, bp_ir_int(t->module, t->int64, 3), ramp),
                 "(ramp (mul x:int64 3) 3 4)");
  assert_printed(bp_ir_binary(t->module, BP_IR_SUB, ramp, ramp), "(broadcast 0 4)");
  assert_printed(bp_ir_ramp(t->module, t->x, bp_ir_int(t->module, t->int64, 0), 4),
                 "(broadcast x:int64 4)");
  assert_printed(bp_ir_cast(t->module, t->float32, bp_ir_broadcast(t->module, one, 4)),
                 "(broadcast 1:float32 4)");
  const BpIrNode *f4 = bp_ir_broadcast(t->module, t->f, 4);
  assert_printed(bp_ir_binary(t->module, BP_IR_MUL, f4, f4), "(broadcast (mul f:float32 f) 4)");
}

static void test_statements_are_printed_folded(Fixture *t, gconstpointer unused) {
  (void)unused;
  const BpIrNode *eight = bp_ir_int(t->module, t->int64, 8),
                 *zero = bp_ir_int(t->module, t->int64, 0);
  const BpIrNode *buffer = bp_ir_buffer(t->module, "A", t->int64, BP_IR_SCOPE_GLOBAL, &eight, 1);
  const BpIrNode *store = bp_ir_store(t->module, buffer, zero, eight, NULL);
  const BpIrNode *pair[] = {store, store};
  const BpIrNode *two = bp_ir_seq(t->module, pair, 2);
  const BpIrNode *nested[] = {two, store, bp_ir_seq(t->module, NULL, 0)};
  assert_printed(bp_ir_seq(t->module, nested, 3),
                 "(seq\n  (store A 0 8)\n  (store A 0 8)\n  (store A 0 8))");
  g_assert_true(bp_ir_seq(t->module, &store, 1) == store);
  assert_printed(bp_ir_for(t->module, t->x, zero, zero, BP_IR_FOR_SERIAL, "", store), "(seq)");
  const BpIrNode *no = bp_ir_int(t->module, dtype_of("bool"), 0);
  assert_printed(bp_ir_if(t->module, no, store, NULL), "(seq)");
  g_assert_true(bp_ir_if(t->module, no, two, store) == store);
}

/* Masks of other types stay, so that the verifier refuses them. */
static void test_constant_masks(Fixture *t, gconstpointer unused) {
  (void)unused;
  BpDataType boolean = dtype_of("bool");
  const BpIrNode *eight = bp_ir_int(t->module, t->int64, 8);
  const BpIrNode *A = bp_ir_buffer(t->module, "A", t->int64, BP_IR_SCOPE_GLOBAL, &eight, 1);
  const BpIrNode *yes = bp_ir_int(t->module, boolean, 1), *no = bp_ir_int(t->module, boolean, 0);
  const BpIrNode *one = bp_ir_int(t->module, t->int64, 1);
  const BpIrNode *wide = bp_ir_broadcast(t->module, yes, 4);
  assert_printed(bp_ir_load(t->module, A, eight, no), "0");
  assert_printed(bp_ir_load(t->module, A, one, yes), "(load A 1)");
  assert_printed(bp_ir_store(t->module, A, one, eight, yes), "(store A 1 8)");
  assert_printed(bp_ir_load(t->module, A, one, one), "(load A 1 1)");
  assert_printed(bp_ir_store(t->module, A, one, eight, one), "(store A 1 8 1)");
  assert_printed(bp_ir_load(t->module, A, one, wide), "(load A 1 (broadcast true 4))");
  assert_printed(bp_ir_store(t->module, A, one, eight, wide), "(store A 1 8 (broadcast true 4))");
}

static void test_errors_pass_through(Fixture *t, gconstpointer unused) {
  (void)unused;
  const BpIrNode *bad = bp_ir_binary(t->module, BP_IR_ADD, t->x, t->f);
  g_assert_null(bad);
  bad = bp_ir_binary(t->module, BP_IR_MUL, bad, t->x);
  bad = bp_ir_not(t->module, bp_ir_select(t->module, bad, bad, bad));
  bad = bp_ir_cast(t->module, t->int64, bp_ir_broadcast(t->module, bad, 4));
  g_assert_null(bp_ir_function(t->module, "f", NULL, 0, NULL, 0, bad));
  g_assert_cmpint(bp_ir_module_add(t->module, NULL), ==, -1);
  assert_error(BP_ERROR_TYPE, "operands of add have different types: int64 and float32; cast one");
  g_assert_cmpint(bp_ir_module_add(t->module, t->x), ==, -1);
  assert_error(BP_ERROR_VALUE, "a var was added to an IR module");
}

/* Nodes that the verifier would refuse are refused when they are made. */
static void test_types_are_checked(Fixture *t, gconstpointer unused) {
  (void)unused;
  const BpIrNode *x = t->x, *f = t->f, *yes = bp_ir_int(t->module, dtype_of("bool"), 1);
  const BpDataType float32 = dtype_of("float32");
  const BpIrNode *half = bp_ir_float(t->module, float32, 0.5);
  g_assert_null(bp_ir_binary(t->module, BP_IR_FLOORDIV, half, half));
  assert_error(BP_ERROR_TYPE, "floordiv takes an integer, not float32");
  g_assert_null(bp_ir_binary(t->module, BP_IR_BIT_AND, f, f));
  assert_error(BP_ERROR_TYPE, "bit_and takes an integer, not float32");
  g_assert_null(bp_ir_binary(t->module, BP_IR_ADD, yes, yes));
  assert_error(BP_ERROR_TYPE, "add takes a number, not bool");
  g_assert_null(bp_ir_binary(t->module, BP_IR_OR, x, x));
  assert_error(BP_ERROR_TYPE, "or takes bool, not int64");
  g_assert_null(bp_ir_not(t->module, x));
  assert_error(BP_ERROR_TYPE, "not takes bool, not int64");
  g_assert_null(bp_ir_select(t->module, x, f, f));
  assert_error(BP_ERROR_TYPE, "select takes a condition of bool, not int64");
  g_assert_null(bp_ir_select(t->module, yes, f, x));
  assert_error(BP_ERROR_TYPE, "operands of select have different types: float32 and int64");
  g_assert_null(bp_ir_cast(t->module, dtype_of("complex64"), x));
  assert_error(BP_ERROR_TYPE, "cast takes and gives numbers, not complex64");
  g_assert_null(bp_ir_call(t->module, t->int64, BP_IR_CALL_INTRINSIC, "exp", &x, 1));
  assert_error(BP_ERROR_TYPE, "intrinsic exp takes floats, not int64");
  g_assert_null(bp_ir_call(t->module, float32, BP_IR_CALL_INTRINSIC, "pow", &f, 1));
  assert_error(BP_ERROR_TYPE, "intrinsic pow takes 2 arguments, not 1");
  g_assert_null(bp_ir_int(t->module, float32, 1));
  assert_error(BP_ERROR_TYPE, "an integer type or bool, not float32");
  g_assert_null(bp_ir_float(t->module, t->int64, 1));
  assert_error(BP_ERROR_TYPE, "a float type, not int64");
}

static void test_functions_by_name(Fixture *t, gconstpointer unused) {
  (void)unused;
  const BpIrNode *body = bp_ir_seq(t->module, NULL, 0);
  for (int i = 0; i < 100; i++) {
    char name[16];
    g_snprintf(name, sizeof name, "f%d", i);
    assert_ok(bp_ir_module_add(t->module, bp_ir_function(t->module, name, NULL, 0, NULL, 0, body)));
  }
  const BpIrTable *ir = bp_ir_table();
  g_assert_cmpint(ir->num_functions(t->module), ==, 100);
  g_assert_cmpstr(ir->str_value(bp_ir_module_find(t->module, "f77")), ==, "f77");
  g_assert_null(bp_ir_module_find(t->module, "f100"));
  g_assert_null(ir->get_function(t->module, 100));
  g_assert_null(ir->get_function(t->module, -1));
  const BpIrNode *again = bp_ir_function(t->module, "f3", NULL, 0, NULL, 0, body);
  g_assert_cmpint(bp_ir_module_add(t->module, again), ==, -1);
  assert_error(BP_ERROR_VALUE, "has a function 'f3' already");
}

/* ---- The table --------------------------------------------------------------------------- */

static const BpIrTable *fetched;

static int32_t fetch(const BpHost *host, BpPlugin *plugin) {
  fetched = host->get_table(host, BP_TABLE_IR, BP_TABLE_IR_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
  return -1;
}

/* A plugin finds the table once the application has made a module. */
static void test_plugins_get_the_table(Fixture *t, gconstpointer unused) {
  (void)t;
  (void)unused;
  static const char descriptor[] =
      "abi=" BP_ABI_NEEDED_TEXT "\nname=test-ir-table\nversion=1\n"
      "license=Apache-2.0\ndescription=Fetches a table\n"
      "entry=bp_plugin_entry_test_ir_table\nprovides=test.ir.table\ndevices=\n"
      "targets=\nlibraries=\n";
  assert_ok(bp_plugin_register_static(descriptor, fetch));
  g_assert_cmpint(bp_plugin_activate("test-ir-table"), ==, -1);
  bp_error_clear();
  g_assert_true(fetched == bp_ir_table());
  g_assert_cmpuint(fetched->struct_size, ==, sizeof(BpIrTable));
}

typedef struct Visit {
  GString *trace;
  int32_t skip, stop;
} Visit;

static int32_t enter(void *context, const BpIrNode *node) {
  Visit *visit = context;
  int32_t kind = bp_ir_table()->kind(node);
  g_string_append_printf(visit->trace, "<%s", bp_ir_table()->kind_name(kind));
  return kind == visit->stop ? -1 : kind == visit->skip;
}

static int32_t leave(void *context, const BpIrNode *node) {
  (void)node;
  g_string_append_c(((Visit *)context)->trace, '>');
  return 0;
}

static void assert_visited(const BpIrNode *node, int32_t skip, int32_t stop, int rc,
                           const char *expected) {
  Visit visit = {g_string_new(""), skip, stop};
  BpIrVisitor visitor = {sizeof visitor, &visit, enter, leave};
  g_assert_cmpint(bp_ir_table()->visit(node, &visitor), ==, rc);
  g_assert_cmpstr(visit.trace->str, ==, expected);
  g_string_free(visit.trace, TRUE);
}

static void test_visits_reach_each_operand(Fixture *t, gconstpointer unused) {
  (void)unused;
  const BpIrNode *product = bp_ir_binary(t->module, BP_IR_MUL, t->x, t->y);
  const BpIrNode *sum = with_int(t, BP_IR_ADD, product, 3);
  assert_visited(sum, -1, -1, 0, "<add<mul<var><var>><int>>");
  assert_visited(sum, BP_IR_MUL, -1, 0, "<add<mul><int>>");
  assert_visited(sum, -1, BP_IR_VAR, -1, "<add<mul<var");
}

static void test_accessors_read_nodes(Fixture *t, gconstpointer unused) {
  (void)unused;
  const BpIrTable *ir = bp_ir_table();
  const BpIrNode *sum = with_int(t, BP_IR_ADD, t->x, 3);
  g_assert_cmpint(ir->kind(sum), ==, BP_IR_ADD);
  g_assert_cmpint(ir->num_operands(sum), ==, 2);
  g_assert_cmpint(ir->int_value(ir->operand(sum, 1)), ==, 3);
  g_assert_null(ir->operand(sum, 2));
  g_assert_null(ir->operand(sum, -1));
  g_assert_cmpstr(ir->str_value(sum), ==, "");
  g_assert_cmpint(ir->dtype(sum).bits, ==, 64);
  g_assert_null(ir->kind_name(9999));
  BpIrModule *module = parse_ok("(module (function \"f\" (attr \"kernel\" 1) (seq)))");
  const BpIrNode *function = ir->get_function(module, 0);
  g_assert_cmpint(ir->int_value(ir->operand(ir->find_attr(function, "kernel"), 0)), ==, 1);
  g_assert_null(ir->find_attr(function, "launch"));
  bp_object_release(module);
}

static void expect_null(const char *argument) {
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), argument));
  g_assert_nonnull(strstr(bp_error_message(), "is NULL"));
  bp_error_clear();
}

static void test_null_is_an_error(Fixture *t, gconstpointer unused) {
  (void)unused;
  g_assert_null(bp_ir_var(NULL, "x", t->int64));
  expect_null("'module'");
  g_assert_null(bp_ir_binary(NULL, BP_IR_ADD, t->x, t->y));
  expect_null("'module'");
  g_assert_null(bp_ir_seq(t->module, NULL, 2));
  expect_null("'statements'");
  g_assert_null(bp_ir_function(t->module, "f", NULL, 1, NULL, 0, bp_ir_seq(t->module, NULL, 0)));
  expect_null("'params'");
  g_assert_null(bp_ir_make(t->module, BP_IR_SEQ, t->int64, NULL, -1, 0, 0, NULL));
  g_assert_nonnull(strstr(bp_error_message(), "'operands' has -1 elements"));
  bp_error_clear();
  g_assert_null(bp_ir_module_find(t->module, NULL));
  expect_null("'name'");
  g_assert_null(bp_ir_print(NULL));
  expect_null("'module'");
  g_assert_null(bp_ir_parse(NULL, 0));
  expect_null("'text'");
  g_assert_cmpint(bp_ir_verify(NULL), ==, -1);
  expect_null("'module'");
  g_assert_cmpint(bp_ir_interpret(t->module, NULL, NULL, 0), ==, -1);
  expect_null("'function'");
}

/* The error of the block that could not begin stays. */
static void test_block_that_did_not_begin_does_nothing(Fixture *t, gconstpointer unused) {
  (void)unused;
  BpIrBlock *block = bp_ir_block_begin(NULL);
  g_assert_null(bp_ir_block_for(block, "i", t->x, t->y));
  bp_ir_block_while(block, t->x);
  bp_ir_block_if(block, t->x);
  bp_ir_block_else(block);
  g_assert_null(bp_ir_block_let(block, "v", t->x));
  g_assert_null(bp_ir_block_array(block, "a", t->int64, t->x));
  g_assert_null(bp_ir_block_variable(block, "v", t->x));
  g_assert_null(bp_ir_block_value(block, t->x));
  bp_ir_block_assign(block, t->x, t->y);
  bp_ir_block_add(block, t->x);
  bp_ir_block_close(block);
  g_assert_null(bp_ir_block_end(block));
  expect_null("'module'");
}

static void test_null_in_tensor_expressions_is_an_error(Fixture *t, gconstpointer unused) {
  (void)unused;
  BpTe *te = bp_te_create();
  const int64_t shape[] = {4};
  BpTeTensor *tensor = bp_te_placeholder(te, "x", t->float32, shape, 1);
  g_assert_null(bp_te_ir(NULL));
  expect_null("'te'");
  g_assert_null(bp_te_placeholder(te, NULL, t->float32, shape, 1));
  expect_null("'name'");
  g_assert_null(bp_te_compute(te, "c", NULL, 1, NULL, NULL));
  expect_null("'body'");
  g_assert_null(bp_te_read(te, tensor, NULL));
  expect_null("'indices'");
  g_assert_null(bp_te_reduce(te, BP_TE_SUM, t->f, NULL, 1));
  expect_null("'axes'");
  g_assert_cmpint(bp_te_lower(te, "f", NULL, 1, NULL, t->module), ==, -1);
  expect_null("'args'");
  g_assert_cmpint(bp_te_tensor_ndim(NULL), ==, 0);
  g_assert_cmpfloat(bp_te_work(NULL), ==, 0);
  bp_te_free(te);
}

#define ADD(path, test) g_test_add(path, Fixture, NULL, set_up, test, tear_down)

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  ADD("/ir/build/integer-identities-are-applied", test_integer_identities_are_applied);
  ADD("/ir/build/integer-constants-are-combined", test_integer_constants_are_combined);
  ADD("/ir/build/floats-are-left-alone", test_floats_are_left_alone);
  ADD("/ir/build/logic-is-folded", test_logic_is_folded);
  ADD("/ir/build/vectors-are-folded", test_vectors_are_folded);
  ADD("/ir/build/statements-are-printed-folded", test_statements_are_printed_folded);
  ADD("/ir/build/constant-masks-are-applied", test_constant_masks);
  ADD("/ir/build/errors-pass-through", test_errors_pass_through);
  ADD("/ir/build/types-are-checked", test_types_are_checked);
  ADD("/ir/build/functions-by-name", test_functions_by_name);
  ADD("/ir/build/null-is-an-error", test_null_is_an_error);
  ADD("/ir/build/block-that-did-not-begin-does-nothing",
      test_block_that_did_not_begin_does_nothing);
  ADD("/te/null-is-an-error", test_null_in_tensor_expressions_is_an_error);
  ADD("/ir/table/plugins-get-the-table", test_plugins_get_the_table);
  ADD("/ir/table/visits-reach-each-operand", test_visits_reach_each_operand);
  ADD("/ir/table/accessors-read-nodes", test_accessors_read_nodes);
  return g_test_run();
}
