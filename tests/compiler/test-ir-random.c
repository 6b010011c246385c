/* SPDX-License-Identifier: Apache-2.0 */
/* Random expressions: what the makers fold, what the text form carries and what legalisation makes
 * of them gives the same values as the expression as it was written, on numbers chosen to be
 * awkward. */

#include <math.h>
#include <stdbool.h>

#include <backplane/target.h>

#include "tests/compiler/ir-util.h"

#define NUM_VARS 3

static const char *const type_names[] = {"bool",    "int8",    "uint8",   "int16",  "uint16",
                                         "int32",   "uint32",  "int64",   "uint64", "float16",
                                         "float32", "float64", "bfloat16"};
#define NUM_TYPES   G_N_ELEMENTS(type_names)
#define FIRST_FLOAT 9

/* One expression made twice: by the folding makers, and node by node. */
typedef struct Pair {
  const BpIrNode *folded, *plain;
} Pair;

typedef struct Generator {
  GRand *random;
  BpIrModule *folded, *plain;
  Pair vars[NUM_TYPES][NUM_VARS];
} Generator;

static Pair expression(Generator *g, int type, uint16_t lanes, int depth);

static int below(Generator *g, int limit) {
  return g_rand_int_range(g->random, 0, limit);
}

static BpDataType type_with(int type, uint16_t lanes) {
  BpDataType dtype = dtype_of(type_names[type]);
  dtype.lanes = lanes;
  return dtype;
}

static bool is_float(int type) {
  return type >= FIRST_FLOAT;
}

static Pair make(Generator *g, const BpIrNode *folded, int32_t kind, BpDataType dtype,
                 const BpIrNode *a, const BpIrNode *b, const BpIrNode *c) {
  const BpIrNode *operands[] = {a, b, c};
  int32_t count = c ? 3 : b ? 2 : 1;
  Pair pair = {folded, bp_ir_make(g->plain, kind, dtype, operands, count, 0, 0, NULL)};
  if (!pair.folded || !pair.plain)
    g_error("%s", bp_error_message());
  return pair;
}

/* ---- Leaves ------------------------------------------------------------------------------ */

static Pair constant(Generator *g, int type) {
  static const double floats[] = {0, -0.0, 1, -1, 0.5, 3, 1e30, INFINITY, -INFINITY, NAN, 1e-42};
  static const int64_t ints[] = {0, 1, -1, 2, 3, 7, 100, INT64_MAX, INT64_MIN};
  BpDataType dtype = type_with(type, 1);
  double value = floats[below(g, G_N_ELEMENTS(floats))];
  int64_t number = ints[below(g, G_N_ELEMENTS(ints))];
  if (is_float(type))
    return (Pair){bp_ir_float(g->folded, dtype, value), bp_ir_float(g->plain, dtype, value)};
  return (Pair){bp_ir_int(g->folded, dtype, number), bp_ir_int(g->plain, dtype, number)};
}

static Pair widen(Generator *g, Pair scalar, uint16_t lanes) {
  BpDataType dtype = bp_ir_table()->dtype(scalar.plain);
  if (lanes == 1)
    return scalar;
  dtype.lanes = lanes;
  return make(g, bp_ir_broadcast(g->folded, scalar.folded, lanes), BP_IR_BROADCAST, dtype,
              scalar.plain, NULL, NULL);
}

static Pair ramp(Generator *g, int type, uint16_t lanes, int depth) {
  Pair base = expression(g, type, 1, depth - 1), stride = expression(g, type, 1, depth - 1);
  return make(g, bp_ir_ramp(g->folded, base.folded, stride.folded, lanes), BP_IR_RAMP,
              type_with(type, lanes), base.plain, stride.plain, NULL);
}

static Pair leaf(Generator *g, int type, uint16_t lanes) {
  Pair scalar = below(g, 2) ? g->vars[type][below(g, NUM_VARS)] : constant(g, type);
  return widen(g, scalar, lanes);
}

/* ---- Operations -------------------------------------------------------------------------- */

/* An integer that is not zero: the lowest bit is set. */
static Pair divisor(Generator *g, int type, uint16_t lanes, int depth) {
  Pair a = expression(g, type, lanes, depth);
  BpDataType dtype = type_with(type, 1);
  Pair one = {bp_ir_int(g->folded, dtype, 1), bp_ir_int(g->plain, dtype, 1)};
  one = widen(g, one, lanes);
  return make(g, bp_ir_binary(g->folded, BP_IR_BIT_OR, a.folded, one.folded), BP_IR_BIT_OR,
              type_with(type, lanes), a.plain, one.plain, NULL);
}

static Pair binary(Generator *g, int type, uint16_t lanes, int depth) {
  static const int32_t ints[] = {BP_IR_ADD,      BP_IR_SUB,     BP_IR_MUL,    BP_IR_MIN,
                                 BP_IR_MAX,      BP_IR_DIV,     BP_IR_MOD,    BP_IR_FLOORDIV,
                                 BP_IR_FLOORMOD, BP_IR_BIT_AND, BP_IR_BIT_OR, BP_IR_BIT_XOR,
                                 BP_IR_SHL,      BP_IR_SHR};
  static const int32_t floats[] = {BP_IR_ADD, BP_IR_SUB, BP_IR_MUL,
                                   BP_IR_DIV, BP_IR_MIN, BP_IR_MAX};
  static const int32_t logic[] = {BP_IR_AND, BP_IR_OR, BP_IR_BIT_AND, BP_IR_BIT_OR, BP_IR_BIT_XOR};
  int32_t kind = type == 0        ? logic[below(g, G_N_ELEMENTS(logic))]
                 : is_float(type) ? floats[below(g, G_N_ELEMENTS(floats))]
                                  : ints[below(g, G_N_ELEMENTS(ints))];
  bool divides = !is_float(type) && kind >= BP_IR_DIV && kind <= BP_IR_FLOORMOD;
  Pair a = expression(g, type, lanes, depth - 1);
  Pair b = divides ? divisor(g, type, lanes, depth - 1) : expression(g, type, lanes, depth - 1);
  return make(g, bp_ir_binary(g->folded, kind, a.folded, b.folded), kind, type_with(type, lanes),
              a.plain, b.plain, NULL);
}

static Pair comparison(Generator *g, uint16_t lanes, int depth) {
  int32_t kind = BP_IR_EQ + below(g, 6);
  int type = below(g, NUM_TYPES);
  if (type == 0)
    kind = below(g, 2) ? BP_IR_EQ : BP_IR_NE;
  Pair a = expression(g, type, lanes, depth - 1), b = expression(g, type, lanes, depth - 1);
  return make(g, bp_ir_binary(g->folded, kind, a.folded, b.folded), kind, type_with(0, lanes),
              a.plain, b.plain, NULL);
}

static Pair negation(Generator *g, uint16_t lanes, int depth) {
  Pair a = expression(g, 0, lanes, depth - 1);
  return make(g, bp_ir_not(g->folded, a.folded), BP_IR_NOT, type_with(0, lanes), a.plain, NULL,
              NULL);
}

static Pair choice(Generator *g, int type, uint16_t lanes, int depth) {
  Pair condition = expression(g, 0, lanes, depth - 1);
  Pair a = expression(g, type, lanes, depth - 1), b = expression(g, type, lanes, depth - 1);
  return make(g, bp_ir_select(g->folded, condition.folded, a.folded, b.folded), BP_IR_SELECT,
              type_with(type, lanes), condition.plain, a.plain, b.plain);
}

static Pair cast(Generator *g, int type, uint16_t lanes, int depth) {
  Pair a = expression(g, below(g, NUM_TYPES), lanes, depth - 1);
  BpDataType dtype = type_with(type, lanes);
  return make(g, bp_ir_cast(g->folded, dtype, a.folded), BP_IR_CAST, dtype, a.plain, NULL, NULL);
}

static Pair expression(Generator *g, int type, uint16_t lanes, int depth) {
  if (depth <= 0)
    return leaf(g, type, lanes);
  switch (below(g, 8)) {
  case 0:
    return leaf(g, type, lanes);
  case 1:
    return choice(g, type, lanes, depth);
  case 2:
    return cast(g, type, lanes, depth);
  case 3:
    if (lanes > 1 && type > 0 && !is_float(type))
      return ramp(g, type, lanes, depth);
    return widen(g, expression(g, type, 1, depth - 1), lanes);
  case 4:
    if (type == 0)
      return below(g, 3) ? comparison(g, lanes, depth) : negation(g, lanes, depth);
    return binary(g, type, lanes, depth);
  default:
    return binary(g, type, lanes, depth);
  }
}

/* ---- Functions --------------------------------------------------------------------------- */

/* f(out, a variable of each type...): out[0..lanes) = value. */
static void add_function(BpIrModule *module, Generator *g, bool folded, int type, uint16_t lanes,
                         Pair value) {
  const BpIrNode *params[1 + NUM_TYPES * NUM_VARS];
  BpDataType int64 = dtype_of("int64");
  const BpIrNode *extent = bp_ir_int(module, int64, lanes);
  const BpIrNode *zero = bp_ir_int(module, int64, 0), *one = bp_ir_int(module, int64, 1);
  int32_t count = 0;
  params[count++] = bp_ir_buffer(module, "out", type_with(type, 1), BP_IR_SCOPE_GLOBAL, &extent, 1);
  for (size_t i = 0; i < NUM_TYPES; i++)
    for (int k = 0; k < NUM_VARS; k++)
      params[count++] = folded ? g->vars[i][k].folded : g->vars[i][k].plain;
  const BpIrNode *index = bp_ir_ramp(module, zero, one, lanes);
  const BpIrNode *body =
      bp_ir_store(module, params[0], index, folded ? value.folded : value.plain, NULL);
  assert_ok(bp_ir_module_add(module, bp_ir_function(module, "f", params, count, NULL, 0, body)));
  assert_ok(bp_ir_verify(module));
}

static BpValue awkward_value(Generator *g, size_t type) {
  static const double floats[] = {0, -0.0, 1, -2.5, 65504, 1e300, INFINITY, -INFINITY, NAN};
  static const int64_t ints[] = {0,   1,     -1,        5,         -128,     127,
                                 255, 32768, INT32_MIN, INT64_MAX, INT64_MIN};
  BpValue value = {.type_index = is_float((int)type) ? BP_TYPE_FLOAT : BP_TYPE_INT};
  if (is_float((int)type))
    value.v_float64 = floats[below(g, G_N_ELEMENTS(floats))];
  else
    value.v_int64 = ints[below(g, G_N_ELEMENTS(ints))];
  return value;
}

static void run(const BpIrModule *module, BpValue *args, int type, uint16_t lanes, void *out) {
  Array array;
  args[0] = array_value(&array, out, type_with(type, 1), lanes);
  assert_ok(bp_ir_interpret(module, "f", args, 1 + NUM_TYPES * NUM_VARS));
}

/* Whether one element holds a NaN. */
static bool holds_nan(int type, const void *data, int lane) {
  const uint16_t *halves = data;
  switch (type) {
  case FIRST_FLOAT:
    return (halves[lane] & 0x7fff) > 0x7c00;
  case FIRST_FLOAT + 1:
    return isnan(((const float *)data)[lane]);
  case FIRST_FLOAT + 2:
    return isnan(((const double *)data)[lane]);
  default:
    return type > FIRST_FLOAT && (halves[lane] & 0x7fff) > 0x7f80;
  }
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

static void try_one(GRand *random, BpFunction *function, BpTarget *target) {
  Generator g = {.random = random};
  g.folded = bp_ir_module_create();
  g.plain = bp_ir_module_create();
  for (size_t i = 0; i < NUM_TYPES; i++)
    for (int k = 0; k < NUM_VARS; k++)
      g.vars[i][k] = (Pair){bp_ir_var(g.folded, "x", type_with((int)i, 1)),
                            bp_ir_var(g.plain, "x", type_with((int)i, 1))};
  int type = below(&g, NUM_TYPES);
  uint16_t lanes = below(&g, 2) ? 4 : 1;
  Pair value = expression(&g, type, lanes, 5);
  add_function(g.folded, &g, true, type, lanes, value);
  add_function(g.plain, &g, false, type, lanes, value);
  BpIrModule *others[] = {g.folded, reparse(g.plain), legalize(g.plain, function, target)};
  static const char *const what[] = {"folding", "printing and parsing", "legalising"};
  for (int trial = 0; trial < 4; trial++) {
    BpValue args[1 + NUM_TYPES * NUM_VARS];
    int64_t expected[4] = {0};
    for (size_t i = 0; i < NUM_TYPES * NUM_VARS; i++)
      args[1 + i] = awkward_value(&g, i / NUM_VARS);
    run(g.plain, args, type, lanes, expected);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
      int64_t got[4] = {0};
      run(others[i], args, type, lanes, got);
      assert_same(g.plain, others[i], what[i], type, lanes, expected, got);
    }
  }
  for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
    bp_object_release(others[i]);
  bp_object_release(g.plain);
}

static void test_random_expressions(void) {
  GRand *random = g_rand_new_with_seed(7);
  BpTarget *target = bp_target_parse("c");
  BpIrModule *first = bp_ir_module_create();
  BpFunction *function = NULL;
  if (!target || bp_registry_get("compiler.legalize", &function) || !function)
    g_error("%s", bp_error_message());
  int count = g_getenv("BP_TEST_LONG") ? 100000 : 1500;
  for (int i = 0; i < count; i++)
    try_one(random, function, target);
  bp_object_release(function);
  bp_object_release(first);
  bp_object_release(target);
  g_rand_free(random);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/ir/random/values-stay-the-same", test_random_expressions);
  return g_test_run();
}
