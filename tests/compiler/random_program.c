/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs in IR. */
#include "tests/compiler/random_program.h"

#include "tests/compiler/ir-util.h"

#define LOCAL       8 /* elements of a local array */
#define BLOCKS      3
#define BOOL        0
#define INT64       7 /* the first type of 64 bits */
#define FIRST_FLOAT 9

typedef RandomProgram Program;

static const BpDataType no_type = {BP_DTYPE_HANDLE, 0, 0};

static int below(Program *program, int limit) {
  return bp__random_below(&program->random, limit);
}

static BpDataType type_with(int type, uint16_t lanes) {
  BpDataType dtype = dtype_of(bp__program_types[type]);
  dtype.lanes = lanes;
  return dtype;
}

gboolean random_program_is_float(int type) {
  return type >= FIRST_FLOAT;
}

static gboolean is_float(int type) {
  return random_program_is_float(type);
}

static gboolean is_int(int type) {
  return type != BOOL && !is_float(type);
}

static int type_of(BpDataType dtype) {
  for (int i = 0; i < PROGRAM_TYPES; i++) {
    BpDataType other = type_with(i, dtype.lanes);
    if (memcmp(&other, &dtype, sizeof dtype) == 0)
      return i;
  }
  g_assert_not_reached();
}

static const BpIrNode *number(Program *program, int64_t value) {
  return bp_ir_int(program->random.module, dtype_of("int64"), value);
}

static const BpIrNode *node(Program *program, int32_t kind, BpDataType dtype, const BpIrNode *a,
                            const BpIrNode *b) {
  const BpIrNode *operands[] = {a, b};
  return bp_ir_make(program->random.module, kind, dtype, operands, b ? 2 : 1, 0, 0, NULL);
}

static const BpIrNode *sum(Program *program, const BpIrNode *a, const BpIrNode *b) {
  return bp_ir_binary(program->random.module, BP_IR_ADD, a, b);
}

static const BpIrNode *times(Program *program, const BpIrNode *a, int64_t factor) {
  return bp_ir_binary(program->random.module, BP_IR_MUL, a, number(program, factor));
}

static const BpIrNode *expression(Program *program, int type, uint16_t lanes, int depth) {
  const BpIrNode *made = bp__random_expression(&program->random, type, lanes, depth);
  if (!made)
    g_error("seed %" G_GUINT64_FORMAT ": %s", program->seed, bp_error_message());
  return made;
}

/* ---- Indices ----------------------------------------------------------------------------- */

/* Returns any integer as int64. A type of 64 bits is excluded, because sums in indices must not
 * overflow. */
static const BpIrNode *any_int(Program *program, uint16_t lanes, int depth) {
  int type;
  do
    type = bp__random_type(&program->random);
  while (!is_int(type) || type_with(type, 1).bits == 64);
  return bp_ir_cast(program->random.module, dtype_of("int64"),
                    expression(program, type, lanes, depth));
}

static const BpIrNode *gathered(Program *program, uint16_t lanes, int64_t limit, int depth) {
  return bp_ir_binary(program->random.module, BP_IR_FLOORMOD, any_int(program, lanes, depth),
                      number(program, limit));
}

static void add_range(Program *program, const BpIrNode *value, int64_t min, int64_t max) {
  if (program->num_ranges < MAX_RANGES)
    program->ranges[program->num_ranges++] = (RandomRange){value, min, max};
}

/* Adds up values of known range, with factors. */
static RandomRange sum_of_ranges(Program *program) {
  static const int64_t factors[] = {1, 1, 1, 2, 3, 4, -1, -2};
  RandomRange all = {number(program, 0), 0, 0};
  for (int i = below(program, 3); i >= 0; i--) {
    RandomRange one = program->ranges[below(program, program->num_ranges)];
    int64_t factor = factors[below(program, G_N_ELEMENTS(factors))];
    all.value = sum(program, all.value, times(program, one.value, factor));
    all.min += factor * (factor > 0 ? one.min : one.max);
    all.max += factor * (factor > 0 ? one.max : one.min);
  }
  return all;
}

/* Returns an index 0 <= i < limit whose bounds follow from the ranges of variables. */
static const BpIrNode *ranged(Program *program, int64_t limit) {
  BpIrModule *module = program->random.module;
  RandomRange all = sum_of_ranges(program);
  if (below(program, 3) == 0) {
    int64_t divisor = 2 + below(program, 4);
    all.value = bp_ir_binary(module, BP_IR_FLOORDIV, all.value, number(program, divisor));
    all.min = (all.min - (all.min < 0 ? divisor - 1 : 0)) / divisor;
    all.max = (all.max - (all.max < 0 ? divisor - 1 : 0)) / divisor;
  }
  int64_t room = limit - (all.max - all.min);
  if (room > 0 && below(program, 4))
    return sum(program, all.value, number(program, below(program, (int)room) - all.min));
  if (below(program, 2))
    return bp_ir_binary(module, BP_IR_FLOORMOD, all.value, number(program, limit));
  const BpIrNode *index = bp_ir_binary(module, BP_IR_MAX, all.value, number(program, 0));
  return bp_ir_binary(module, BP_IR_MIN, index, number(program, limit - 1));
}

/* Returns an index of neighbours or of distant elements, forward or backward; all lanes are in
 * bounds. */
static const BpIrNode *ramp(Program *program, uint16_t lanes, int64_t limit) {
  static const int strides[] = {1, 1, 1, 2, -1, -2, 3};
  int stride = strides[below(program, G_N_ELEMENTS(strides))];
  int64_t span = (int64_t)(lanes - 1) * abs(stride) + 1;
  if (span > limit) {
    stride = 1;
    span = lanes;
  }
  const BpIrNode *first = below(program, 2)
                              ? ranged(program, limit - span + 1)
                              : number(program, below(program, (int)(limit - span + 1)));
  first = sum(program, first, number(program, stride < 0 ? span - 1 : 0));
  const BpIrNode *step = number(program, stride);
  if (below(program, 8) == 0)
    step = sum(program, program->n, number(program, stride - COUNT));
  return bp_ir_ramp(program->random.module, first, step, lanes);
}

/* Returns a mask that is true in the first or the last lanes: in all, some or none. A ramp of
 * unsigned integers may go beyond their end, and the mask be true in any lanes. */
static const BpIrNode *lanes_to_an_end(Program *program, uint16_t lanes) {
  static const char *const types[] = {"int64", "int64", "int64", "int32", "uint8", "uint32"};
  BpIrModule *module = program->random.module;
  BpDataType dtype = dtype_of(types[below(program, G_N_ELEMENTS(types))]);
  int64_t step = 1 + below(program, 3), first = below(program, 9) - 4;
  int64_t limit = below(program, (int)step * (lanes + 4)) - 2;
  const BpIrNode *ramp = number(program, first), *end = number(program, limit);
  if (below(program, 2))
    end = sum(program, below(program, 2) ? program->thread : sum_of_ranges(program).value, end);
  ramp = bp_ir_cast(module, dtype, ramp);
  end = bp_ir_cast(module, dtype, end);
  if (lanes > 1) {
    ramp = bp_ir_ramp(module, ramp, bp_ir_int(module, dtype, step), lanes);
    end = bp_ir_broadcast(module, end, lanes);
  }
  return bp_ir_binary(module, below(program, 2) ? BP_IR_LT : BP_IR_GE, ramp, end);
}

/* Returns an index as at the ends of padded rows: a ramp that is reflected, clipped or continued at
 * the other end. */
static const BpIrNode *bent(Program *program, uint16_t lanes, int64_t limit) {
  BpIrModule *module = program->random.module;
  const BpIrNode *last = number(program, limit - 1);
  const BpIrNode *ramps[2], *index;
  for (int i = 0; i < 2; i++)
    ramps[i] = bp_ir_ramp(module, number(program, below(program, (int)limit + 8) - 4),
                          number(program, below(program, 7) - 3), lanes);
  index = ramps[0];
  if (below(program, 3) == 0)
    index = bp_ir_select(module, lanes_to_an_end(program, lanes), index, ramps[1]);
  else if (below(program, 2))
    index = bp_ir_binary(module, below(program, 2) ? BP_IR_MIN : BP_IR_MAX, index, ramps[1]);
  if (below(program, 4) == 0)
    index = bp_ir_binary(module, BP_IR_FLOORDIV, index, number(program, 1 + below(program, 3)));
  if (below(program, 3) == 0)
    return bp_ir_binary(module, BP_IR_FLOORMOD, index, number(program, limit));
  index = bp_ir_binary(module, BP_IR_MAX, index, number(program, 0));
  return bp_ir_binary(module, BP_IR_MIN, index, last);
}

/* An index for a store: no two lanes address the same element. */
static const BpIrNode *distinct(Program *program, uint16_t lanes, int64_t limit) {
  return lanes > 1 || below(program, 2) ? ramp(program, lanes, limit)
                                        : gathered(program, 1, limit, 1);
}

static const BpIrNode *any_index(Program *program, uint16_t lanes, int64_t limit, int depth) {
  if (lanes > 1 && below(program, 4) == 0)
    return bent(program, lanes, limit);
  return lanes > limit || (depth > 0 && below(program, 2))
             ? gathered(program, lanes, limit, depth > 0 ? depth - 1 : 0)
             : ramp(program, lanes, limit);
}

static const BpIrNode *any_mask(Program *program, uint16_t lanes, int depth) {
  if (depth <= 0 || below(program, 4))
    return NULL;
  return below(program, 2) ? lanes_to_an_end(program, lanes)
                           : expression(program, BOOL, lanes, depth - 1);
}

/* Whether an index is at least 0 and less than a limit. */
static const BpIrNode *is_below(Program *program, const BpIrNode *index, const BpIrNode *limit) {
  BpIrModule *module = program->random.module;
  return bp_ir_binary(module, BP_IR_AND, bp_ir_binary(module, BP_IR_GE, index, number(program, 0)),
                      bp_ir_binary(module, BP_IR_LT, index, limit));
}

/* Whether an index is in bounds. */
static const BpIrNode *is_inside(Program *program, const BpIrNode *index, int64_t limit) {
  return is_below(program, index, number(program, limit));
}

static const BpIrNode *own(Program *program, const BpIrNode *index) {
  return sum(program, program->first, index);
}

/* Converts some indices to another type that holds all indices of a program. */
static const BpIrNode *converted(Program *program, const BpIrNode *index) {
  static const char *const types[] = {"int16", "uint16", "int32", "uint32"};
  if (below(program, 6))
    return index;
  BpDataType dtype = dtype_of(types[below(program, G_N_ELEMENTS(types))]);
  return bp_ir_cast(program->random.module, dtype, index);
}

/* ---- Leaves ------------------------------------------------------------------------------ */

/* Computed values are not small: their products need not be exact. */
static const BpIrNode *small(Program *program, const BpIrNode *value) {
  BpIrModule *module = program->random.module;
  BpDataType dtype = bp_ir_table()->dtype(value), element = dtype;
  element.lanes = 1;
  if (!is_float(type_of(dtype)))
    return value;
  value = bp_ir_binary(module, BP_IR_MIN, value, bp_ir_float(module, element, 7));
  return bp_ir_binary(module, BP_IR_MAX, value, bp_ir_float(module, element, -7));
}

/* Returns an index that may be out of the bounds of an input. */
static const BpIrNode *loose_index(Program *program, uint16_t lanes, int depth) {
  if (lanes > 1 && below(program, 2))
    return bp_ir_ramp(program->random.module, number(program, below(program, INPUT + 16) - 12),
                      number(program, below(program, 7) - 3), lanes);
  return any_int(program, lanes, depth > 0 ? depth - 1 : 0);
}

/* Reads an input. Some indices are out of bounds and masked off. */
static const BpIrNode *load_inside(Program *program, int slot, uint16_t lanes, int depth) {
  const BpIrNode *index = loose_index(program, lanes, depth);
  return bp_ir_load(program->random.module, program->inputs[slot], index,
                    is_inside(program, index, INPUT));
}

/* Reads an input without elements: all lanes are masked off, by a number or by a parameter. */
static const BpIrNode *load_nothing(Program *program, uint16_t lanes, int depth) {
  const BpIrNode *index = loose_index(program, lanes, depth);
  const BpIrNode *limit = number(program, 0);
  if (below(program, 3))
    limit = sum(program, program->n, number(program, -COUNT));
  return bp_ir_load(program->random.module, program->nothing, index,
                    is_below(program, index, limit));
}

static const BpIrNode *load_of(Program *program, int slot, uint16_t lanes, int depth) {
  BpIrModule *module = program->random.module;
  if (below(program, 6) == 0)
    return program->types[slot] == program->types[NUM_TYPES - 1] && below(program, 3) == 0
               ? load_nothing(program, lanes, depth)
               : load_inside(program, slot, lanes, depth);
  if (program->workspace && program->types[slot] == program->types[0] && below(program, 2))
    return small(program,
                 bp_ir_load(module, program->workspace, any_index(program, lanes, INPUT, depth),
                            any_mask(program, lanes, depth)));
  if (below(program, 3))
    return bp_ir_load(module, program->inputs[slot],
                      converted(program, any_index(program, lanes, INPUT, depth)),
                      any_mask(program, lanes, depth));
  const BpIrNode *index = own(program, any_index(program, lanes, program->part, depth));
  return small(program, bp_ir_load(module, program->outputs[slot], converted(program, index),
                                   any_mask(program, lanes, depth)));
}

static const BpIrNode *load_local(Program *program, int type, uint16_t lanes, int depth) {
  for (int i = 0; i < program->num_locals; i++)
    if (type_of(bp_ir_table()->dtype(program->locals[i])) == type)
      return small(program, bp_ir_load(program->random.module, program->locals[i],
                                       any_index(program, lanes, LOCAL, depth),
                                       any_mask(program, lanes, 1)));
  return NULL;
}

static const BpIrNode *loaded(Program *program, int type, uint16_t lanes, int depth) {
  const BpIrNode *local = below(program, 2) ? load_local(program, type, lanes, depth) : NULL;
  for (int i = 0; i < NUM_TYPES && !local; i++)
    if (program->types[i] == type)
      return load_of(program, i, lanes, depth);
  return local;
}

/* Reads a float for conversions to integers: a limit of a type, or a number between limits. */
static const BpIrNode *odd_float(Program *program, uint16_t lanes) {
  return bp_ir_load(program->random.module, program->odd, ramp(program, lanes, INPUT), NULL);
}

/* Makes a float by at most one operation, so that it is rounded at most once. */
static const BpIrNode *rounded_float(Program *program, uint16_t lanes) {
  const BpIrNode *x = odd_float(program, lanes);
  int to = FIRST_FLOAT + below(program, PROGRAM_TYPES - FIRST_FLOAT), from;
  switch (below(program, 6)) {
  case 0:
    return node(program, below(program, 2) ? BP_IR_MIN : BP_IR_MAX, bp_ir_table()->dtype(x), x,
                odd_float(program, lanes));
  case 1:
    return node(program, BP_IR_ADD + below(program, 3), bp_ir_table()->dtype(x), x,
                odd_float(program, lanes));
  case 2:
    return node(program, BP_IR_CAST, type_with(to, lanes), x, NULL);
  case 3:
    from = bp__random_type(&program->random);
    return is_int(from) ? node(program, BP_IR_CAST, type_with(to, lanes),
                               expression(program, from, lanes, 1), NULL)
                        : x;
  default:
    return x;
  }
}

static const BpIrNode *seen_of_float(Program *program, int type, uint16_t lanes) {
  const BpIrNode *x = rounded_float(program, lanes);
  BpDataType dtype = bp_ir_table()->dtype(x);
  BpDataType of_odd = bp_ir_table()->dtype(program->odd);
  if (type == BOOL && below(program, 2) && dtype.code == of_odd.code && dtype.bits == of_odd.bits)
    return node(program, BP_IR_EQ + below(program, 6), type_with(BOOL, lanes), x,
                odd_float(program, lanes));
  return node(program, BP_IR_CAST, type_with(type, lanes), x, NULL);
}

static gboolean is_int32(int type) {
  BpDataType dtype = type_with(type, 1);
  return dtype.code == BP_DTYPE_INT && dtype.bits == 32;
}

static const BpIrNode *called(Program *program, const char *name, BpDataType dtype,
                              const BpIrNode *const *args, int32_t count) {
  return bp_ir_call(program->random.module, dtype, BP_IR_CALL_INTRINSIC, name, args, count);
}

/* Calls dot4_us, fma on leaves, whose products are exact, or copysign. The sign comes from an
 * integer, because the sign of a float that is 0 is unknown. */
static const BpIrNode *intrinsic_of_several(Program *program, int type, uint16_t lanes) {
  const BpIrNode *args[3];
  int first = program->types[0];
  for (int i = 0; i < 3; i++)
    args[i] = expression(program, type, lanes, 0);
  if (!is_float(type) || below(program, 2))
    return called(program, is_float(type) ? "fma" : "dot4_us", type_with(type, lanes), args, 3);
  args[1] =
      node(program, BP_IR_CAST, type_with(type, lanes), expression(program, first, lanes, 1), NULL);
  return called(program, "copysign", type_with(type, lanes), args, 2);
}

static const BpIrNode *intrinsic(Program *program, int type, uint16_t lanes, int depth) {
  static const char *const of_floats[] = {"abs", "floor", "ceil", "trunc", "round"};
  static const char *const tests[] = {"isnan", "isinf"};
  int from = type;
  const char *name = "abs";
  if (type == BOOL) {
    from = bp__random_type(&program->random);
    name = tests[below(program, 2)];
    if (!is_float(from))
      return NULL;
  } else if ((is_float(type) || is_int32(type)) && depth == 1 && below(program, 2))
    return intrinsic_of_several(program, type, lanes);
  else if (is_float(type))
    name = of_floats[below(program, G_N_ELEMENTS(of_floats))];
  else if (below(program, 2))
    name = "popcount";
  const BpIrNode *x = expression(program, from, lanes, depth - 1);
  return called(program, name, type_with(type, lanes), &x, 1);
}

/* Reduces a vector. Sums of small floats are exact in any order; products are exact for two lanes.
 */
static const BpIrNode *reduced(Program *program, int type, int depth) {
  static const char *const names[] = {"min", "max", "add", "mul"};
  const char *name = names[below(program, 4)];
  uint16_t lanes = (uint16_t)(2 << below(program, 3));
  if (type == BOOL)
    return NULL;
  if (is_float(type) && !strcmp(name, "mul"))
    lanes = 2;
  const BpIrNode *vector = expression(program, type, lanes, depth - 1);
  if (is_float(type))
    vector = small(program, vector);
  return bp_ir_make(program->random.module, BP_IR_REDUCE, type_with(type, 1), &vector, 1, 0, 0,
                    name);
}

/* Picks lanes of one vector or two, of any number of lanes. */
static const BpIrNode *shuffled(Program *program, int type, uint16_t lanes, int depth) {
  const BpIrNode *operands[2 + 16];
  int vectors = 1 + below(program, 2), held = 0;
  for (int i = 0; i < vectors; i++) {
    uint16_t given = below(program, 2) && lanes > 1 ? lanes : (uint16_t)(2 << below(program, 3));
    operands[i] = expression(program, type, given, depth - 1);
    held += given;
  }
  for (int i = 0; i < lanes; i++)
    operands[vectors + i] = number(program, below(program, held));
  return bp_ir_make(program->random.module, BP_IR_SHUFFLE, type_with(type, lanes), operands,
                    vectors + lanes, vectors, 0, NULL);
}

/* Reinterprets integers that have as many bits altogether: of the other signedness, or of another
 * width. */
static const BpIrNode *reinterpreted_int(Program *program, int type, uint16_t lanes, int depth) {
  int other = 1 + below(program, FIRST_FLOAT - 1), bits = type_with(type, 1).bits * lanes;
  int from = bits / type_with(other, 1).bits;
  if (from == 0 || from > 16 || !program->random.is_used[other]) {
    other = (type - 1) % 2 ? type - 1 : type + 1;
    from = lanes;
  }
  return node(program, BP_IR_REINTERPRET, type_with(type, lanes),
              expression(program, other, (uint16_t)from, depth - 1), NULL);
}

/* Returns the bits of a float that is neither NaN nor a zero of unknown sign. */
static const BpIrNode *bits_of_float(Program *program, int type, uint16_t lanes, int depth) {
  for (int real = FIRST_FLOAT + below(program, 2); real < PROGRAM_TYPES; real++)
    if (type_with(real, 1).bits == type_with(type, 1).bits) {
      const BpIrNode *value = expression(program, program->types[0], lanes, depth - 1);
      value = node(program, BP_IR_CAST, type_with(real, lanes), value, NULL);
      return node(program, BP_IR_REINTERPRET, type_with(type, lanes), value, NULL);
    }
  return reinterpreted_int(program, type, lanes, depth);
}

/* Tests the float that has the bits of an integer. */
static const BpIrNode *test_of_bits(Program *program, uint16_t lanes, int depth) {
  int type = bp__random_type(&program->random);
  for (int real = FIRST_FLOAT + below(program, 2); is_int(type) && real < PROGRAM_TYPES; real++)
    if (type_with(real, 1).bits == type_with(type, 1).bits) {
      const BpIrNode *value = expression(program, type, lanes, depth - 1);
      value = node(program, BP_IR_REINTERPRET, type_with(real, lanes), value, NULL);
      return called(program, below(program, 2) ? "isnan" : "isinf", type_with(BOOL, lanes), &value,
                    1);
    }
  return NULL;
}

static const BpIrNode *reinterpreted(Program *program, int type, uint16_t lanes, int depth) {
  if (type == BOOL)
    return test_of_bits(program, lanes, depth);
  if (is_float(type))
    return NULL;
  return below(program, 3) ? reinterpreted_int(program, type, lanes, depth)
                           : bits_of_float(program, type, lanes, depth);
}

/* Uses an expression twice: expressions are graphs, not trees. */
static const BpIrNode *shared(Program *program, int type, uint16_t lanes, int depth) {
  static const int32_t kinds[] = {BP_IR_ADD, BP_IR_MIN, BP_IR_SUB, BP_IR_MAX};
  const BpIrNode *once = expression(program, type, lanes, depth - 1);
  const BpIrNode *choice[] = {expression(program, BOOL, lanes, 1), once,
                              expression(program, type, lanes, 0)};
  const BpIrNode *other = bp_ir_make(program->random.module, BP_IR_SELECT, type_with(type, lanes),
                                     choice, 3, 0, 0, NULL);
  int32_t kind = type == BOOL ? BP_IR_BIT_XOR : kinds[below(program, is_float(type) ? 2 : 4)];
  return node(program, kind, type_with(type, lanes), other, once);
}

/* Compares values whose ranges are known. */
static const BpIrNode *condition_of_ranges(Program *program) {
  RandomRange a = sum_of_ranges(program);
  const BpIrNode *b = below(program, 3)
                          ? number(program, a.min - 1 + below(program, (int)(a.max - a.min) + 3))
                          : sum_of_ranges(program).value;
  return bp_ir_binary(program->random.module, BP_IR_EQ + below(program, 6), a.value, b);
}

static const BpIrNode *vector_variable(Program *program, int type, uint16_t lanes) {
  BpDataType dtype = type_with(type, lanes);
  for (int i = program->num_vectors - 1; i >= 0; i--) {
    BpDataType other = bp_ir_table()->dtype(program->vectors[i]);
    if (!memcmp(&dtype, &other, sizeof dtype))
      return small(program, program->vectors[i]);
  }
  return NULL;
}

static const BpIrNode *simple_leaf(Program *program, int type, uint16_t lanes) {
  if (lanes > 1)
    return vector_variable(program, type, lanes);
  return type == BOOL ? condition_of_ranges(program) : NULL;
}

static const BpIrNode *leaf(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  Program *program = (Program *)(void *)random;
  switch (below(program, depth > 0 ? 11 : 6)) {
  case 0:
  case 1:
  case 2:
    return loaded(program, type, lanes, depth);
  case 3:
    return is_float(type) ? NULL : seen_of_float(program, type, lanes);
  case 4:
    return simple_leaf(program, type, lanes);
  case 6:
    return intrinsic(program, type, lanes, depth);
  case 7:
    return lanes == 1 && below(program, 3) ? reduced(program, type, depth) : NULL;
  case 8:
    return lanes > 1 || below(program, 4) == 0 ? shuffled(program, type, lanes, depth) : NULL;
  case 9:
    return reinterpreted(program, type, lanes, depth);
  case 10:
    return shared(program, type, lanes, depth);
  default:
    return NULL;
  }
}

/* ---- Statements -------------------------------------------------------------------------- */

static const BpIrNode *statements(Program *program, int depth);

static uint16_t any_lanes(Program *program) {
  static const uint16_t lanes[] = {1, 1, 2, 4, 8, 16};
  uint16_t chosen = lanes[below(program, G_N_ELEMENTS(lanes))];
  return chosen <= program->part ? chosen : 1;
}

/* Stores lanes; a mask turns off those outside of the thread's part. */
static const BpIrNode *store_inside(Program *program, int slot, uint16_t lanes) {
  BpIrModule *module = program->random.module;
  const BpIrNode *index = number(program, below(program, program->part + 8) - 8);
  index = sum(program, index, sum_of_ranges(program).value);
  if (lanes > 1)
    index = bp_ir_ramp(module, index, number(program, 1 + below(program, 3)), lanes);
  const BpIrNode *mask = is_inside(program, index, program->part);
  const BpIrNode *value = expression(program, program->types[slot], lanes, 2);
  return bp_ir_store(module, program->outputs[slot], own(program, index), value, mask);
}

static const BpIrNode *store(Program *program) {
  int slot = below(program, NUM_TYPES);
  uint16_t lanes = any_lanes(program);
  if (below(program, 5) == 0)
    return store_inside(program, slot, lanes);
  const BpIrNode *index = own(program, distinct(program, lanes, program->part));
  const BpIrNode *value = expression(program, program->types[slot], lanes, 3);
  return bp_ir_store(program->random.module, program->outputs[slot], converted(program, index),
                     value, any_mask(program, lanes, 2));
}

/* Compares two named values, and stores a minimum, a maximum or another choice. */
static const BpIrNode *store_choice(Program *program) {
  BpIrModule *module = program->random.module;
  int slot = below(program, NUM_TYPES), type = program->types[slot];
  uint16_t lanes = any_lanes(program);
  if (type == BOOL)
    return store(program);
  const BpIrNode *values[2], *vars[3];
  for (int i = 0; i < 2; i++) {
    values[i] = expression(program, type, lanes, 2);
    vars[i] = bp_ir_var(module, "c", type_with(type, lanes));
  }
  vars[2] = expression(program, type, lanes, 1);
  const BpIrNode *condition = node(program, below(program, 2) ? BP_IR_LT : BP_IR_GT,
                                   type_with(BOOL, lanes), vars[0], vars[1]);
  const BpIrNode *chosen =
      bp_ir_select(module, condition, vars[below(program, 3)], vars[below(program, 3)]);
  const BpIrNode *index = own(program, distinct(program, lanes, program->part));
  const BpIrNode *body = bp_ir_store(module, program->outputs[slot], index, chosen, NULL);
  return bp_ir_let(module, vars[0], values[0], bp_ir_let(module, vars[1], values[1], body));
}

static const BpIrNode *store_local(Program *program) {
  if (program->num_locals == 0)
    return store(program);
  const BpIrNode *local = program->locals[below(program, program->num_locals)];
  uint16_t lanes = (uint16_t)(1 << below(program, 4));
  const BpIrNode *value = expression(program, type_of(bp_ir_table()->dtype(local)), lanes, 3);
  return bp_ir_store(program->random.module, local, distinct(program, lanes, LOCAL), value,
                     any_mask(program, lanes, 2));
}

/* Statements read a value through one of the variables of its type. */
static const BpIrNode *statements_with(Program *program, const BpIrNode *value, int depth) {
  int type = type_of(bp_ir_table()->dtype(value));
  const BpIrNode **slot = &program->random.vars[type][below(program, RANDOM_VARS)], *before = *slot;
  gboolean was_used = program->random.is_used[type];
  if (was_used)
    *slot = small(program, value);
  const BpIrNode *body = statements(program, depth);
  *slot = before;
  return body;
}

/* Names a vector in statements. */
static const BpIrNode *let_vector(Program *program, int depth) {
  int type = bp__random_type(&program->random);
  uint16_t lanes = (uint16_t)(2 << below(program, 4));
  if (program->num_vectors == MAX_VECTORS)
    return store(program);
  const BpIrNode *value = expression(program, type, lanes, 3);
  const BpIrNode *var = bp_ir_var(program->random.module, "v", type_with(type, lanes));
  program->vectors[program->num_vectors++] = var;
  const BpIrNode *body = statements(program, depth);
  program->num_vectors--;
  return bp_ir_let(program->random.module, var, value, body);
}

static const BpIrNode *let(Program *program, int depth) {
  BpIrModule *module = program->random.module;
  int type = bp__random_type(&program->random);
  if (below(program, 3) == 0)
    return let_vector(program, depth);
  const BpIrNode *value = expression(program, type, 1, 3);
  const BpIrNode *var = bp_ir_var(module, "x", type_with(type, 1));
  return bp_ir_let(module, var, value, statements_with(program, var, depth));
}

/* Returns the extent of a serial loop, which may be negative: a constant, or computed from a
 * parameter or another value. Sets *most to the largest value. */
static const BpIrNode *any_extent(Program *program, int64_t *most) {
  *most = 4;
  switch (below(program, 4)) {
  case 0:
    return sum(program, gathered(program, 1, 6, 1), number(program, -1));
  case 1:
    return sum(program, program->n, number(program, *most - COUNT));
  case 2:
    *most = 2 + below(program, 4);
    return ranged(program, *most + 1);
  default:
    *most = below(program, 5);
    return number(program, *most);
  }
}

static const BpIrNode *loop(Program *program, int depth) {
  static const int32_t kinds[] = {BP_IR_FOR_SERIAL, BP_IR_FOR_SERIAL, BP_IR_FOR_UNROLLED,
                                  BP_IR_FOR_VECTORIZED};
  static const char *const counters[] = {"int64", "int64", "int32", "uint8", "int16"};
  BpIrModule *module = program->random.module;
  BpDataType counter = dtype_of(counters[below(program, G_N_ELEMENTS(counters))]);
  const BpIrNode *var = bp_ir_var(module, "j", counter);
  const BpIrNode *seen = bp_ir_cast(module, dtype_of("int64"), var);
  int32_t kind = kinds[below(program, 4)];
  int type = bp__random_type(&program->random);
  int64_t most = below(program, 5), first = below(program, 3);
  const BpIrNode *extent =
      kind == BP_IR_FOR_SERIAL ? any_extent(program, &most) : number(program, most);
  if (counter.code == BP_DTYPE_UINT)
    extent = bp_ir_binary(module, BP_IR_MAX, extent, number(program, 0));
  const BpIrNode *min = number(program, first);
  if (below(program, 4) == 0)
    min = sum(program, program->n, number(program, first - COUNT));
  int num_ranges = program->num_ranges;
  add_range(program, seen, first, first + MAX(most, 1) - 1);
  if (is_int(type))
    seen = bp_ir_cast(module, type_with(type, 1), var);
  const BpIrNode *body = statements_with(program, seen, depth);
  program->num_ranges = num_ranges;
  return bp_ir_for(module, var, bp_ir_cast(module, counter, min),
                   bp_ir_cast(module, counter, extent), kind, "", body);
}

/* Each parallel iteration writes its own share of the thread's part, and uses no local memory. */
static const BpIrNode *parallel_loop(Program *program, int depth) {
  BpIrModule *module = program->random.module;
  if (program->part < 8)
    return store(program);
  const BpIrNode *first = program->first;
  int part = program->part, num_locals = program->num_locals, num_ranges = program->num_ranges;
  const int iterations = 2;
  const BpIrNode *var = bp_ir_var(module, "p", dtype_of("int64"));
  program->part /= iterations;
  program->first = sum(program, program->first, times(program, var, program->part));
  program->num_locals = 0;
  add_range(program, var, 0, iterations - 1);
  const BpIrNode *body = statements(program, depth);
  program->part = part;
  program->first = first;
  program->num_locals = num_locals;
  program->num_ranges = num_ranges;
  return bp_ir_for(module, var, number(program, 0), number(program, iterations), BP_IR_FOR_PARALLEL,
                   "", body);
}

static const BpIrNode *choice(Program *program, int depth) {
  const BpIrNode *condition =
      below(program, 3) ? expression(program, BOOL, 1, 3) : condition_of_ranges(program);
  const BpIrNode *then = statements(program, depth);
  return bp_ir_if(program->random.module, condition, then,
                  below(program, 2) ? statements(program, depth) : NULL);
}

/* Names an integer that statements may use as an index, because they run only if it is in bounds.
 */
static const BpIrNode *guarded(Program *program, int depth) {
  BpIrModule *module = program->random.module;
  const BpIrNode *var = bp_ir_var(module, "i", dtype_of("int64"));
  const BpIrNode *value = any_int(program, 1, 2);
  int64_t limit = 1 + below(program, INPUT);
  int num_ranges = program->num_ranges;
  add_range(program, var, 0, limit - 1);
  const BpIrNode *then = statements(program, depth);
  program->num_ranges = num_ranges;
  const BpIrNode *otherwise = below(program, 2) ? statements(program, depth) : NULL;
  return bp_ir_let(module, var, value,
                   bp_ir_if(module, is_inside(program, var, limit), then, otherwise));
}

static const BpIrNode *pair(Program *program, const BpIrNode *a, const BpIrNode *b) {
  const BpIrNode *both[] = {a, b};
  return bp_ir_make(program->random.module, BP_IR_SEQ, no_type, both, 2, 0, 0, NULL);
}

/* Declares a local array and sets every element first. */
static const BpIrNode *allocate(Program *program, int depth) {
  BpIrModule *module = program->random.module;
  int type = program->types[below(program, NUM_TYPES)];
  const BpIrNode *extent = number(program, LOCAL), *var = bp_ir_var(module, "k", dtype_of("int64"));
  const BpIrNode *local =
      bp_ir_buffer(module, "L", type_with(type, 1), BP_IR_SCOPE_LOCAL, &extent, 1);
  const BpIrNode *fill =
      bp_ir_for(module, var, number(program, 0), extent, BP_IR_FOR_SERIAL, "",
                bp_ir_store(module, local, var, expression(program, type, 1, 2), NULL));
  if (program->num_locals == MAX_LOCALS)
    return store_local(program);
  program->locals[program->num_locals++] = local;
  const BpIrNode *body = pair(program, fill, statements(program, depth));
  program->num_locals--;
  return bp_ir_allocate(module, local, body);
}

/* A loop of at most three passes, counted in local memory. */
static const BpIrNode *loop_while(Program *program, int depth) {
  BpIrModule *module = program->random.module;
  const BpIrNode *one = number(program, 1), *zero = number(program, 0);
  BpDataType int32 = dtype_of("int32");
  const BpIrNode *passes = bp_ir_buffer(module, "passes", int32, BP_IR_SCOPE_LOCAL, &one, 1);
  const BpIrNode *count = bp_ir_load(module, passes, zero, NULL);
  const BpIrNode *more = bp_ir_binary(module, BP_IR_LT, count, bp_ir_int(module, int32, 3));
  if (below(program, 2))
    more = bp_ir_binary(module, BP_IR_AND, more, expression(program, BOOL, 1, 2));
  const BpIrNode *next =
      bp_ir_store(module, passes, zero, sum(program, count, bp_ir_int(module, int32, 1)), NULL);
  const BpIrNode *body[] = {more, pair(program, next, statements(program, depth))};
  const BpIrNode *loop = bp_ir_make(module, BP_IR_WHILE, no_type, body, 2, 0, 0, NULL);
  const BpIrNode *begin = bp_ir_store(module, passes, zero, bp_ir_int(module, int32, 0), NULL);
  return bp_ir_allocate(module, passes, pair(program, begin, loop));
}

/* Prefetches an element, which may be outside the buffer. */
static const BpIrNode *prefetch(Program *program) {
  BpDataType handle = {BP_DTYPE_HANDLE, 64, 1};
  const BpIrNode *index = sum(program, any_int(program, 1, 1), program->thread);
  const BpIrNode *address =
      node(program, BP_IR_ADDRESS, handle, program->inputs[below(program, NUM_TYPES)], index);
  return node(program, BP_IR_EVALUATE, no_type, called(program, "prefetch", no_type, &address, 1),
              NULL);
}

static const BpIrNode *statement(Program *program, int depth) {
  switch (below(program, depth > 0 ? 12 : 3)) {
  case 3:
    return let(program, depth - 1);
  case 4:
  case 5:
    return loop(program, depth - 1);
  case 6:
    return choice(program, depth - 1);
  case 7:
    return allocate(program, depth - 1);
  case 8:
    return loop_while(program, depth - 1);
  case 9:
    return guarded(program, depth - 1);
  case 10:
    return parallel_loop(program, depth - 1);
  case 11:
    return below(program, 2) ? prefetch(program) : store_choice(program);
  default:
    return below(program, 2) ? store_local(program) : store(program);
  }
}

static const BpIrNode *statements(Program *program, int depth) {
  const BpIrNode *list[4];
  int count = 1 + below(program, 3);
  for (int i = 0; i < count; i++)
    list[i] = statement(program, depth);
  return bp_ir_seq(program->random.module, list, count);
}

/* ---- Exchanges among the threads of a block ------------------------------------------------ */

static const BpIrNode *barrier(Program *program, const char *scope) {
  return bp_ir_make(program->random.module, BP_IR_BARRIER, no_type, NULL, 0, 0, 0, scope);
}

/* The place of any thread of the block. */
static const BpIrNode *other_place(Program *program) {
  return bp_ir_binary(program->random.module, BP_IR_FLOORMOD,
                      sum(program, program->place, number(program, below(program, THREADS))),
                      number(program, THREADS));
}

/* Each thread of a block passes a value to another thread. */
static const BpIrNode *exchange(Program *program) {
  BpIrModule *module = program->random.module;
  int slot = below(program, NUM_TYPES), type = program->types[slot];
  const BpIrNode *extent = number(program, THREADS);
  const BpIrNode *shared =
      bp_ir_buffer(module, "S", type_with(type, 1), BP_IR_SCOPE_SHARED, &extent, 1);
  const BpIrNode *given =
      bp_ir_store(module, shared, program->place, expression(program, type, 1, 3), NULL);
  const BpIrNode *taken =
      bp_ir_store(module, program->outputs[slot], own(program, ramp(program, 1, program->part)),
                  bp_ir_load(module, shared, other_place(program), NULL), NULL);
  return bp_ir_allocate(module, shared,
                        pair(program, pair(program, given, barrier(program, "shared")),
                             pair(program, taken, barrier(program, "shared"))));
}

/* Each thread of a block reads an element of another thread's part of an output. */
static const BpIrNode *exchange_output(Program *program) {
  BpIrModule *module = program->random.module;
  int slot = below(program, NUM_TYPES);
  const BpIrNode *other =
      sum(program, times(program, program->block, THREADS), other_place(program));
  const BpIrNode *index = sum(program, times(program, other, PART), ramp(program, 1, PART));
  const BpIrNode *var = bp_ir_var(module, "y", type_with(program->types[slot], 1));
  const BpIrNode *value = bp_ir_load(module, program->outputs[slot], index, NULL);
  const BpIrNode *next =
      pair(program, barrier(program, "global"), statements_with(program, var, 0));
  return pair(program, barrier(program, "global"), bp_ir_let(module, var, value, next));
}

/* Threads of a block exchange values in a loop or a choice that is the same for all of them. */
static const BpIrNode *exchanges(Program *program, int depth) {
  BpIrModule *module = program->random.module;
  switch (below(program, depth > 0 ? 6 : 4)) {
  case 4: {
    const BpIrNode *var = bp_ir_var(module, "u", dtype_of("int64"));
    const BpIrNode *extent = sum(program, program->n, number(program, 2 - COUNT));
    add_range(program, var, 0, 1);
    const BpIrNode *body = pair(program, statement(program, 1), exchanges(program, depth - 1));
    program->num_ranges--;
    return bp_ir_for(module, var, number(program, 0), extent, BP_IR_FOR_SERIAL, "", body);
  }
  case 5: {
    const BpIrNode *limit = number(program, below(program, MAX_BLOCKS));
    return bp_ir_if(module, bp_ir_binary(module, BP_IR_LE, program->block, limit),
                    exchanges(program, depth - 1),
                    below(program, 2) ? exchanges(program, depth - 1) : NULL);
  }
  default:
    return below(program, 3) ? exchange(program) : exchange_output(program);
  }
}

/* ---- The whole program ------------------------------------------------------------------- */

static const BpIrNode *buffer(Program *program, const char *name, int i, int type, int64_t size) {
  const BpIrNode *extent = number(program, size);
  g_autofree char *full = i < 0 ? g_strdup(name) : g_strdup_printf("%s%d", name, i);
  return bp_ir_buffer(program->random.module, full, type_with(type, 1), BP_IR_SCOPE_GLOBAL, &extent,
                      1);
}

/* Outputs have one row for each block; their number of rows may be a parameter. */
static const BpIrNode *output(Program *program, int i) {
  const BpIrNode *extents[] = {number(program, MAX_BLOCKS), number(program, THREADS * PART)};
  if (below(program, 2))
    extents[0] = program->count;
  g_autofree char *name = g_strdup_printf("O%d", i);
  return bp_ir_buffer(program->random.module, name, type_with(program->types[i], 1),
                      BP_IR_SCOPE_GLOBAL, extents, 2);
}

/* An input without elements; it may have rows, whose number is a parameter. */
static const BpIrNode *nothing(Program *program) {
  const BpIrNode *extents[] = {program->count, number(program, 0)};
  int32_t first = below(program, 2);
  return bp_ir_buffer(program->random.module, "N", type_with(program->types[NUM_TYPES - 1], 1),
                      BP_IR_SCOPE_GLOBAL, extents + first, 2 - first);
}

/* Chooses the element types and declares the parameters. The first type is an integer, for indices.
 * Devices take no scalars of less than 32 bits. */
static void choose_types(Program *program) {
  program->count =
      bp_ir_var(program->random.module, "n", dtype_of(program->is_series ? "int64" : "int32"));
  program->n = bp_ir_cast(program->random.module, dtype_of("int64"), program->count);
  if (!program->is_series && below(program, 8)) { /* so that 32 bits hold sums with `n` */
    program->n = bp_ir_binary(program->random.module, BP_IR_MAX, program->n, number(program, 0));
    program->n = bp_ir_binary(program->random.module, BP_IR_MIN, program->n, number(program, 15));
  }
  for (int i = 0; i < NUM_TYPES; i++) {
    program->types[i] = i == 0 ? 1 + below(program, INT64 - 1) : below(program, PROGRAM_TYPES);
    program->random.is_used[program->types[i]] = TRUE;
    program->inputs[i] = buffer(program, "I", i, program->types[i], INPUT);
    program->outputs[i] = output(program, i);
  }
  program->nothing = nothing(program);
  int type = program->types[below(program, NUM_TYPES)];
  BpDataType scalar = type_with(type, 1);
  if (!program->is_series && scalar.bits < 32)
    scalar = dtype_of(is_float(type) ? "float32" : "int32");
  program->m = bp_ir_var(program->random.module, "m", scalar);
  static const int odd[] = {9, 10, 11, 11, 12};
  program->odd = buffer(program, "F", -1, odd[below(program, G_N_ELEMENTS(odd))], INPUT);
}

/* Reads elements of the inputs. A type without an input uses the thread's number; bool uses
 * comparisons of it. */
static void make_vars(Program *program) {
  BpIrModule *module = program->random.module;
  for (int type = 0; type < PROGRAM_TYPES; type++)
    for (int k = 0; k < RANDOM_VARS; k++)
      program->random.vars[type][k] = bp_ir_cast(module, type_with(type, 1), program->thread);
  for (int i = 0; i < NUM_TYPES; i++)
    for (int k = 0; k < RANDOM_VARS; k++) {
      const BpIrNode *index = sum(program, program->thread, number(program, (i + k) * 3));
      program->random.vars[program->types[i]][k] =
          bp_ir_load(module, program->inputs[i], index, NULL);
    }
  for (int k = 0; k < RANDOM_VARS; k++)
    program->random.vars[BOOL][k] = bp_ir_binary(
        module, BP_IR_LT, program->thread, number(program, (int64_t)k * 5 + below(program, 4)));
  program->random.vars[type_of(bp_ir_table()->dtype(program->m))][1] = program->m;
}

/* Begins the statements of a thread. */
static void enter_thread(Program *program, const BpIrNode *block, const BpIrNode *place) {
  program->block = block;
  program->place = place;
  program->thread = sum(program, times(program, block, THREADS), place);
  program->first = times(program, program->thread, PART);
  program->part = PART;
  program->num_ranges = 0;
  add_range(program, program->thread, 0, MAX_BLOCKS * THREADS - 1);
  add_range(program, place, 0, THREADS - 1);
  add_range(program, program->n, COUNT, COUNT);
  make_vars(program);
}

static const BpIrNode *body_of(Program *program) {
  const BpIrNode *list[6];
  int count = 2 + below(program, 3);
  for (int i = 0; i < count; i++)
    list[i] = program->has_barriers && below(program, 3) == 0 ? exchanges(program, 2)
                                                              : statement(program, 2);
  return bp_ir_seq(program->random.module, list, count);
}

/* A variable of a bound loop, as int64. */
typedef struct Axis {
  const BpIrNode *var, *index;
} Axis;

static Axis new_axis(Program *program) {
  BpIrModule *module = program->random.module;
  const BpIrNode *var = bp_ir_var(module, "t", dtype_of(below(program, 8) ? "int64" : "int32"));
  return (Axis){var, bp_ir_cast(module, dtype_of("int64"), var)};
}

static const BpIrNode *bound(Program *program, Axis axis, const BpIrNode *extent, const char *name,
                             const BpIrNode *body) {
  BpIrModule *module = program->random.module;
  BpDataType dtype = bp_ir_table()->dtype(axis.var);
  return bp_ir_for(module, axis.var, bp_ir_int(module, dtype, 0), bp_ir_cast(module, dtype, extent),
                   BP_IR_FOR_BOUND, name, body);
}

/* The statements of a block's threads, on one axis. Devices take blocks of constant size. */
static const BpIrNode *threads(Program *program, const BpIrNode *block) {
  Axis x = new_axis(program);
  const BpIrNode *extent = number(program, THREADS);
  enter_thread(program, block, x.index);
  if (program->is_series && below(program, 3) == 0)
    extent = sum(program, program->n, number(program, THREADS - COUNT));
  return bound(program, x, extent, "threadIdx.x", body_of(program));
}

static const BpIrNode *threads_on_two_axes(Program *program, const BpIrNode *block) {
  Axis x = new_axis(program), y = new_axis(program);
  const BpIrNode *extent = number(program, THREADS / 2);
  enter_thread(program, block, sum(program, times(program, y.index, 2), x.index));
  const BpIrNode *body = bound(program, x, extent, "threadIdx.x", body_of(program));
  return bound(program, y, extent, "threadIdx.y", body);
}

/* Statements of the first threads of a block only. */
static const BpIrNode *first_threads(Program *program, const BpIrNode *block) {
  Axis x = new_axis(program);
  const BpIrNode *extent = number(program, below(program, THREADS + 1));
  if (program->is_series && below(program, 2))
    extent = sum(program, program->n, sum(program, extent, number(program, -COUNT)));
  enter_thread(program, block, x.index);
  return bound(program, x, extent, "threadIdx.x", statements(program, 1));
}

static const BpIrNode *grid(Program *program) {
  static const char *const names[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};
  Axis axis = new_axis(program);
  gboolean has_two = below(program, 4) == 0;
  const BpIrNode *body =
      has_two ? threads_on_two_axes(program, axis.index) : threads(program, axis.index);
  if (!has_two && !program->has_barriers && below(program, 3) == 0)
    body = pair(program, body, first_threads(program, axis.index));
  const BpIrNode *extent = below(program, 2) ? program->n : number(program, BLOCKS);
  if (below(program, 12) == 0)
    extent = sum(program, program->n, number(program, -COUNT)); /* no blocks */
  return bound(program, axis, extent, names[below(program, 3)], body);
}

/* A loop over all threads, which may run in any order. */
static const BpIrNode *loop_over_threads(Program *program) {
  BpIrModule *module = program->random.module;
  const BpIrNode *var = bp_ir_var(module, "t", dtype_of("int64"));
  const BpIrNode *extent = number(program, BLOCKS * THREADS);
  if (below(program, 2))
    extent = times(program, program->n, THREADS);
  enter_thread(program, bp_ir_binary(module, BP_IR_FLOORDIV, var, number(program, THREADS)),
               bp_ir_binary(module, BP_IR_FLOORMOD, var, number(program, THREADS)));
  program->thread = var;
  program->first = times(program, var, PART);
  program->ranges[0].value = var;
  return bp_ir_for(module, var, number(program, 0), extent, BP_IR_FOR_PARALLEL, "",
                   body_of(program));
}

/* Loops over all threads; the first sets global memory that the others read. */
static const BpIrNode *series(Program *program) {
  BpIrModule *module = program->random.module;
  const BpIrNode *var = bp_ir_var(module, "w", dtype_of("int64"));
  const BpIrNode *workspace = buffer(program, "W", -1, program->types[0], INPUT);
  enter_thread(program, number(program, 0), number(program, 0));
  add_range(program, var, 0, INPUT - 1);
  const BpIrNode *fill =
      bp_ir_store(module, workspace, var, expression(program, program->types[0], 1, 3), NULL);
  fill = bp_ir_for(module, var, number(program, 0), number(program, INPUT), BP_IR_FOR_PARALLEL, "",
                   fill);
  program->workspace = workspace;
  const BpIrNode *body = pair(program, fill, loop_over_threads(program));
  body = pair(program, body, below(program, 2) ? loop_over_threads(program) : grid(program));
  program->workspace = NULL;
  return bp_ir_allocate(module, workspace, body);
}

static const BpIrNode *attribute(Program *program, const char *key, int64_t value) {
  const BpIrNode *operand = number(program, value);
  return bp_ir_make(program->random.module, BP_IR_ATTR, no_type, &operand, 1, 0, 0, key);
}

/* States properties of the arguments, which are true for the arguments of the tests. */
static int32_t choose_attributes(Program *program, const BpIrNode **attrs) {
  int32_t count = 0;
  if (below(program, 2))
    attrs[count++] = attribute(program, BP_IR_ATTR_NOALIAS, 1);
  if (below(program, 4) == 0)
    attrs[count++] = attribute(program, BP_IR_ATTR_ALIGNMENT, 64);
  if (below(program, 4) == 0)
    attrs[count++] = attribute(program, BP_IR_ATTR_STREAMED, NUM_TYPES + below(program, NUM_TYPES));
  return count;
}

static const BpIrNode *body_by_shape(Program *program) {
  if (program->is_series)
    return series(program);
  if (program->has_barriers || below(program, 3))
    return grid(program);
  return loop_over_threads(program);
}

void random_program_make(RandomProgram *program, uint64_t seed, const char *name) {
  BpIrModule *module = bp_ir_module_create();
  *program = (Program){.seed = seed, .has_barriers = seed % 4 == 3, .is_series = seed % 8 == 2};
  program->random =
      (RandomExpressions){.module = module, .state = seed * 7919, .is_exact = TRUE, .leaf = leaf};
  choose_types(program);
  const BpIrNode *body = body_by_shape(program);
  const BpIrNode *params[NUM_BUFFERS + NUM_SCALARS], *attrs[4];
  memcpy(params, program->inputs, sizeof program->inputs);
  memcpy(params + NUM_TYPES, program->outputs, sizeof program->outputs);
  params[2 * (size_t)NUM_TYPES] = program->odd;
  params[2 * (size_t)NUM_TYPES + 1] = program->nothing;
  params[NUM_BUFFERS] = program->count;
  params[NUM_BUFFERS + 1] = program->m;
  int32_t num_attrs = choose_attributes(program, attrs);
  program->function =
      bp_ir_function(module, name, params, NUM_BUFFERS + NUM_SCALARS, attrs, num_attrs, body);
  if (!program->function)
    g_error("seed %" G_GUINT64_FORMAT ": %s", seed, bp_error_message());
}
