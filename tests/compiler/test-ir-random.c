/* SPDX-License-Identifier: Apache-2.0 */
/* Random expressions: folding, the text form and legalisation keep the values of the original
 * expression, on numbers chosen as edge cases. */

#include <math.h>
#include <stdbool.h>

#include <backplane/target.h>

#include "conformance/random.h"
#include "tests/compiler/ir-util.h"

#define NUM_VARS RANDOM_VARS

/* The first float type in the list. */
#define FIRST_FLOAT 9

static BpDataType type_with(int type, uint16_t lanes) {
  BpDataType dtype = dtype_of(bp__program_types[type]);
  dtype.lanes = lanes;
  return dtype;
}

static bool is_float(int type) {
  return type >= FIRST_FLOAT;
}

/* ---- Folding ----------------------------------------------------------------------------- */

/* The same variables in two modules. */
typedef struct Folding {
  BpIrModule *module;
  const RandomExpressions *random;
  const BpIrNode *vars[PROGRAM_TYPES][NUM_VARS];
} Folding;

static const BpIrNode *folded_var(const Folding *folding, const BpIrNode *var) {
  for (size_t i = 0; i < PROGRAM_TYPES; i++)
    for (int k = 0; k < NUM_VARS; k++)
      if (folding->random->vars[i][k] == var)
        return folding->vars[i][k];
  g_assert_not_reached();
}

/* Builds the expression again with the functions that fold. */
static const BpIrNode *fold(const Folding *folding, const BpIrNode *node) {
  const BpIrTable *ir = bp_ir_table();
  BpIrModule *module = folding->module;
  const BpIrNode *x[3] = {NULL, NULL, NULL};
  for (int32_t i = 0; i < ir->num_operands(node); i++)
    x[i] = fold(folding, ir->operand(node, i));
  BpDataType dtype = ir->dtype(node);
  switch (ir->kind(node)) {
  case BP_IR_VAR:
    return folded_var(folding, node);
  case BP_IR_INT_IMM:
    return bp_ir_int(module, dtype, ir->int_value(node));
  case BP_IR_FLOAT_IMM:
    return bp_ir_float(module, dtype, ir->float_value(node));
  case BP_IR_NOT:
    return bp_ir_not(module, x[0]);
  case BP_IR_SELECT:
    return bp_ir_select(module, x[0], x[1], x[2]);
  case BP_IR_CAST:
    return bp_ir_cast(module, dtype, x[0]);
  case BP_IR_RAMP:
    return bp_ir_ramp(module, x[0], x[1], dtype.lanes);
  case BP_IR_BROADCAST:
    return bp_ir_broadcast(module, x[0], dtype.lanes);
  default:
    return bp_ir_binary(module, ir->kind(node), x[0], x[1]);
  }
}

/* ---- Functions --------------------------------------------------------------------------- */

/* Makes f(out, a variable of each type...): out[0..lanes) = value. */
static void add_function(BpIrModule *module, const BpIrNode *const (*vars)[NUM_VARS], int type,
                         uint16_t lanes, const BpIrNode *value) {
  const BpIrNode *params[1 + PROGRAM_TYPES * NUM_VARS];
  BpDataType int64 = dtype_of("int64");
  const BpIrNode *extent = bp_ir_int(module, int64, lanes);
  const BpIrNode *zero = bp_ir_int(module, int64, 0), *one = bp_ir_int(module, int64, 1);
  int32_t count = 0;
  params[count++] = bp_ir_buffer(module, "out", type_with(type, 1), BP_IR_SCOPE_GLOBAL, &extent, 1);
  for (size_t i = 0; i < PROGRAM_TYPES; i++)
    for (int k = 0; k < NUM_VARS; k++)
      params[count++] = vars[i][k];
  const BpIrNode *index = bp_ir_ramp(module, zero, one, lanes);
  const BpIrNode *body = bp_ir_store(module, params[0], index, value, NULL);
  assert_ok(bp_ir_module_add(module, bp_ir_function(module, "f", params, count, NULL, 0, body)));
  assert_ok(bp_ir_verify(module));
}

static BpValue awkward_value(RandomExpressions *random, size_t type) {
  static const double floats[] = {0, -0.0, 1, -2.5, 65504, 1e300, INFINITY, -INFINITY, NAN};
  static const int64_t ints[] = {0,   1,     -1,        5,         -128,     127,
                                 255, 32768, INT32_MIN, INT64_MAX, INT64_MIN};
  BpValue value = {.type_index = is_float((int)type) ? BP_TYPE_FLOAT : BP_TYPE_INT};
  if (is_float((int)type))
    value.v_float64 = floats[bp__random_below(random, G_N_ELEMENTS(floats))];
  else
    value.v_int64 = ints[bp__random_below(random, G_N_ELEMENTS(ints))];
  return value;
}

static void run(const BpIrModule *module, BpValue *args, int type, uint16_t lanes, void *out) {
  Array array;
  args[0] = array_value(&array, out, type_with(type, 1), lanes);
  assert_ok(bp_ir_interpret(module, "f", args, 1 + PROGRAM_TYPES * NUM_VARS));
}

/* Whether one element holds a NaN. */
static bool holds_nan(int type, const void *data, int lane) {
  BpDataType dtype = type_with(type, 1);
  const uint16_t *halves = data;
  if (!is_float(type))
    return false;
  if (dtype.bits == 16)
    return (halves[lane] & 0x7fff) > (dtype.code == BP_DTYPE_BFLOAT ? 0x7f80 : 0x7c00);
  return dtype.bits == 32 ? isnan(((const float *)data)[lane])
                          : isnan(((const double *)data)[lane]);
}

static void assert_same(const BpIrModule *plain, const BpIrModule *other, const char *what,
                        int type, uint16_t lanes, const void *a, const void *b) {
  size_t size = bp_dtype_bytes(type_with(type, 1));
  for (int lane = 0; lane < lanes; lane++) {
    size_t at = (size_t)lane * size;
    if (!memcmp((const char *)a + at, (const char *)b + at, size) ||
        (holds_nan(type, a, lane) && holds_nan(type, b, lane)))
      continue;
    g_error("%s changed lane %d:\n%s\n%s", what, lane, bp_ir_print(plain), bp_ir_print(other));
  }
}

static BpIrModule *reparse(const BpIrModule *module) {
  char *text = bp_ir_print(module);
  BpIrModule *parsed = parse_verified(text);
  char *again = bp_ir_print(parsed);
  g_assert_cmpstr(text, ==, again);
  bp_str_free(again);
  bp_str_free(text);
  return parsed;
}

static BpIrModule *legalize(BpIrModule *module, BpFunction *function, BpTarget *target) {
  BpValue args[] = {{.type_index = BP_TYPE_IR_MODULE}, {.type_index = BP_TYPE_TARGET}};
  args[0].v_ptr = module;
  args[1].v_ptr = target;
  BpValue result = {0};
  assert_ok(bp_function_call(function, args, 2, &result));
  return result.v_ptr;
}

static void make_vars(RandomExpressions *random, Folding *folding) {
  for (size_t i = 0; i < PROGRAM_TYPES; i++)
    for (int k = 0; k < NUM_VARS; k++) {
      random->is_used[i] = TRUE;
      random->vars[i][k] = bp_ir_var(random->module, "x", type_with((int)i, 1));
      folding->vars[i][k] = bp_ir_var(folding->module, "x", type_with((int)i, 1));
    }
}

static void try_one(uint64_t seed, BpFunction *function, BpTarget *target) {
  RandomExpressions generator = {.module = bp_ir_module_create(), .state = seed};
  RandomExpressions *random = &generator;
  Folding folding = {.module = bp_ir_module_create(), .random = random};
  make_vars(random, &folding);
  int type = bp__random_type(random);
  uint16_t lanes = bp__random_below(random, 2) ? 4 : 1;
  const BpIrNode *value = bp__random_expression(random, type, lanes, 5);
  if (!value)
    g_error("%s", bp_error_message());
  add_function(random->module, random->vars, type, lanes, value);
  add_function(folding.module, folding.vars, type, lanes, fold(&folding, value));
  BpIrModule *others[] = {folding.module, reparse(random->module),
                          legalize(random->module, function, target)};
  static const char *const what[] = {"folding", "printing and parsing", "legalising"};
  for (int trial = 0; trial < 4; trial++) {
    BpValue args[1 + PROGRAM_TYPES * NUM_VARS];
    int64_t expected[4] = {0};
    for (size_t i = 0; i < PROGRAM_TYPES * NUM_VARS; i++)
      args[1 + i] = awkward_value(random, i / NUM_VARS);
    run(random->module, args, type, lanes, expected);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
      int64_t got[4] = {0};
      run(others[i], args, type, lanes, got);
      assert_same(random->module, others[i], what[i], type, lanes, expected, got);
    }
  }
  for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
    bp_object_release(others[i]);
  bp_object_release(random->module);
}

static void test_random_expressions(void) {
  BpTarget *target = bp_target_parse("c");
  BpIrModule *first = bp_ir_module_create();
  BpFunction *function = NULL;
  if (!target || bp_registry_get("compiler.legalize", &function) || !function)
    g_error("%s", bp_error_message());
  int count = g_getenv("BP_TEST_LONG") ? 100000 : 1500;
  for (int i = 0; i < count; i++)
    try_one((uint64_t)i, function, target);
  bp_object_release(function);
  bp_object_release(first);
  bp_object_release(target);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/ir/random/values-stay-the-same", test_random_expressions);
  return g_test_run();
}
