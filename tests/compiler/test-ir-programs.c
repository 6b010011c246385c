/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs: statements, loops, memory of all scopes, vectors, masks and barriers, of all
 * types, give the results of the reference interpreter on every device, also after legalisation,
 * whose passes are verified one by one.
 *
 * A program has threads, each with its own part of every output, so that their order does not
 * matter. Floats are small integers, whose sums and products are exact, NaN and infinities; other
 * floats are only compared and converted to integers. So results must be equal, except for the sign
 * of zero.
 *
 *   BP_TEST_SEED=N      number of the first program [1]; later programs count up
 *   BP_TEST_SECONDS=N   duration of the test [15; 600 with BP_TEST_LONG]
 *
 * A program that fails is reduced as long as it still fails, and printed with its number. */

#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "conformance/random.h"
#include "tests/compiler/codegen-util.h"

#define NUM_TYPES   3  /* types of buffers in one program */
#define INPUT       32 /* elements of an input */
#define PART        16 /* elements of an output for one thread */
#define BLOCKS      3
#define THREADS     4 /* in a block */
#define NUM_THREADS (BLOCKS * THREADS)
#define LOCAL       8 /* elements of a local array */
#define BATCH       4 /* programs that are compiled together */
#define MAX_LOCALS  4
#define BOOL        0
#define INT64       7 /* the first type of 64 bits */
#define FIRST_FLOAT 9

/* ---- A program --------------------------------------------------------------------------- */

typedef struct Program {
  RandomExpressions random; /* first member: callbacks for leaves cast its address to the program */
  uint64_t seed;
  gboolean has_barriers;
  int types[NUM_TYPES];
  const BpIrNode *inputs[NUM_TYPES], *outputs[NUM_TYPES];
  const BpIrNode *odd;    /* floats that are not exact */
  const BpIrNode *thread; /* the number of the thread, an expression */
  const BpIrNode *place;  /* number of the thread in its block, a variable */
  const BpIrNode *locals[MAX_LOCALS];
  int num_locals;
  const BpIrNode *function;
} Program;

static int below(Program *program, int limit) {
  return bp__random_below(&program->random, limit);
}

static BpDataType type_with(int type, uint16_t lanes) {
  BpDataType dtype = dtype_of(bp__program_types[type]);
  dtype.lanes = lanes;
  return dtype;
}

static gboolean is_float(int type) {
  return type >= FIRST_FLOAT;
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

static const BpIrNode *expression(Program *program, int type, uint16_t lanes, int depth) {
  const BpIrNode *made = bp__random_expression(&program->random, type, lanes, depth);
  if (!made)
    g_error("seed %" G_GUINT64_FORMAT ": %s", program->seed, bp_error_message());
  return made;
}

/* ---- Indices ----------------------------------------------------------------------------- */

/* Brings any integer into 0 <= i < limit; int64 is excluded, because sums in indices must not
 * overflow. */
static const BpIrNode *gathered(Program *program, uint16_t lanes, int64_t limit, int depth) {
  BpIrModule *module = program->random.module;
  int type;
  do
    type = bp__random_type(&program->random);
  while (!is_int(type) || type_with(type, 1).bits == 64);
  const BpIrNode *any = expression(program, type, lanes, depth);
  any = bp_ir_cast(module, dtype_of("int64"), any);
  return bp_ir_binary(module, BP_IR_FLOORMOD, any, number(program, limit));
}

/* Reads neighbours, or elements that are apart, forward or backward, with all lanes in bounds. */
static const BpIrNode *ramp(Program *program, uint16_t lanes, int64_t limit) {
  static const int strides[] = {1, 1, 1, 2, -1, -2, 3};
  int stride = strides[below(program, G_N_ELEMENTS(strides))];
  int64_t span = (int64_t)(lanes - 1) * abs(stride) + 1;
  if (span > limit) {
    stride = 1;
    span = lanes;
  }
  int64_t first = below(program, (int)(limit - span + 1)) + (stride < 0 ? span - 1 : 0);
  return bp_ir_ramp(program->random.module, number(program, first), number(program, stride), lanes);
}

/* A mask of the first or the last lanes: all, some or none. */
static const BpIrNode *lanes_to_an_end(Program *program, uint16_t lanes) {
  BpIrModule *module = program->random.module;
  int64_t step = 1 + below(program, 3), first = below(program, 9) - 4;
  int64_t limit = below(program, (int)step * (lanes + 4)) - 2;
  const BpIrNode *ramp = number(program, first), *end = number(program, limit);
  if (below(program, 2))
    end = sum(program, program->thread, end);
  if (lanes > 1) {
    ramp = bp_ir_ramp(module, ramp, number(program, step), lanes);
    end = bp_ir_broadcast(module, end, lanes);
  }
  return bp_ir_binary(module, below(program, 2) ? BP_IR_LT : BP_IR_GE, ramp, end);
}

/* Reads lanes at constant distances, as at the ends of padded rows: a ramp that is reflected,
 * clipped or continued at the other end. */
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

static const BpIrNode *own(Program *program, const BpIrNode *index) {
  const BpIrNode *first =
      bp_ir_binary(program->random.module, BP_IR_MUL, program->thread, number(program, PART));
  return sum(program, first, index);
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

static const BpIrNode *load_of(Program *program, int slot, uint16_t lanes, int depth) {
  BpIrModule *module = program->random.module;
  if (below(program, 3))
    return bp_ir_load(module, program->inputs[slot], any_index(program, lanes, INPUT, depth),
                      any_mask(program, lanes, depth));
  const BpIrNode *index = own(program, any_index(program, lanes, PART, depth));
  return small(program,
               bp_ir_load(module, program->outputs[slot], index, any_mask(program, lanes, depth)));
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

static const BpIrNode *seen_of_float(Program *program, int type, uint16_t lanes) {
  const BpIrNode *x = odd_float(program, lanes);
  if (type == BOOL && below(program, 2))
    return node(program, BP_IR_EQ + below(program, 6), type_with(BOOL, lanes), x,
                odd_float(program, lanes));
  if (below(program, 3) == 0)
    x = node(program, below(program, 2) ? BP_IR_MIN : BP_IR_MAX, bp_ir_table()->dtype(x), x,
             odd_float(program, lanes));
  return node(program, BP_IR_CAST, type_with(type, lanes), x, NULL);
}

static const BpIrNode *called(Program *program, const char *name, BpDataType dtype,
                              const BpIrNode *x) {
  return bp_ir_call(program->random.module, dtype, BP_IR_CALL_INTRINSIC, name, &x, 1);
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
  } else if (is_float(type))
    name = of_floats[below(program, G_N_ELEMENTS(of_floats))];
  else if (below(program, 2))
    name = "popcount";
  return called(program, name, type_with(type, lanes), expression(program, from, lanes, depth - 1));
}

static const BpIrNode *reduced(Program *program, int type, int depth) {
  static const char *const names[] = {"min", "max", "add", "mul"};
  uint16_t lanes = (uint16_t)(2 << below(program, 3));
  if (type == BOOL)
    return NULL;
  const BpIrNode *vector = expression(program, type, lanes, depth - 1);
  return bp_ir_make(program->random.module, BP_IR_REDUCE, type_with(type, 1), &vector, 1, 0, 0,
                    names[below(program, is_float(type) ? 2 : 4)]);
}

static const BpIrNode *shuffled(Program *program, int type, uint16_t lanes, int depth) {
  const BpIrNode *operands[2 + 16];
  int vectors = 1 + below(program, 2);
  for (int i = 0; i < vectors; i++)
    operands[i] = expression(program, type, lanes, depth - 1);
  for (int i = 0; i < lanes; i++)
    operands[vectors + i] = number(program, below(program, vectors * lanes));
  return bp_ir_make(program->random.module, BP_IR_SHUFFLE, type_with(type, lanes), operands,
                    vectors + lanes, vectors, 0, NULL);
}

/* Returns the other integer type of that width. */
static const BpIrNode *reinterpreted(Program *program, int type, uint16_t lanes, int depth) {
  int other = (type - 1) % 2 ? type - 1 : type + 1;
  return node(program, BP_IR_REINTERPRET, type_with(type, lanes),
              expression(program, other, lanes, depth - 1), NULL);
}

static const BpIrNode *leaf(RandomExpressions *random, int type, uint16_t lanes, int depth) {
  Program *program = (Program *)(void *)random;
  switch (below(program, depth > 0 ? 10 : 6)) {
  case 0:
  case 1:
  case 2:
    return loaded(program, type, lanes, depth);
  case 3:
    return is_float(type) ? NULL : seen_of_float(program, type, lanes);
  case 6:
    return intrinsic(program, type, lanes, depth);
  case 7:
    return lanes == 1 ? reduced(program, type, depth) : NULL;
  case 8:
    return lanes > 1 ? shuffled(program, type, lanes, depth) : NULL;
  case 9:
    return is_int(type) ? reinterpreted(program, type, lanes, depth) : NULL;
  default:
    return NULL;
  }
}

/* ---- Statements -------------------------------------------------------------------------- */

static const BpIrNode *statements(Program *program, int depth);

static uint16_t any_lanes(Program *program) {
  static const uint16_t lanes[] = {1, 1, 2, 4, 8, 16};
  return lanes[below(program, G_N_ELEMENTS(lanes))];
}

static const BpIrNode *store(Program *program) {
  int slot = below(program, NUM_TYPES);
  uint16_t lanes = any_lanes(program);
  const BpIrNode *index = own(program, distinct(program, lanes, PART));
  const BpIrNode *value = expression(program, program->types[slot], lanes, 3);
  return bp_ir_store(program->random.module, program->outputs[slot], index, value,
                     any_mask(program, lanes, 2));
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

static const BpIrNode *let(Program *program, int depth) {
  BpIrModule *module = program->random.module;
  int type = bp__random_type(&program->random);
  const BpIrNode *value = expression(program, type, 1, 3);
  const BpIrNode *var = bp_ir_var(module, "x", type_with(type, 1));
  return bp_ir_let(module, var, value, statements_with(program, var, depth));
}

static const BpIrNode *loop(Program *program, int depth) {
  static const int32_t kinds[] = {BP_IR_FOR_SERIAL, BP_IR_FOR_UNROLLED, BP_IR_FOR_VECTORIZED};
  BpIrModule *module = program->random.module;
  const BpIrNode *var = bp_ir_var(module, "j", dtype_of("int64")), *seen = var;
  int32_t kind = kinds[below(program, 3)];
  int type = bp__random_type(&program->random);
  const BpIrNode *extent = number(program, below(program, 5));
  if (kind == BP_IR_FOR_SERIAL && below(program, 2))
    extent = gathered(program, 1, 4, 1);
  if (is_int(type))
    seen = bp_ir_cast(module, type_with(type, 1), var);
  const BpIrNode *body = statements_with(program, seen, depth);
  return bp_ir_for(module, var, number(program, below(program, 3)), extent, kind, "", body);
}

static const BpIrNode *choice(Program *program, int depth) {
  const BpIrNode *condition = expression(program, BOOL, 1, 3);
  const BpIrNode *then = statements(program, depth);
  return bp_ir_if(program->random.module, condition, then,
                  below(program, 2) ? statements(program, depth) : NULL);
}

static const BpIrNode *pair(Program *program, const BpIrNode *a, const BpIrNode *b) {
  const BpIrNode *both[] = {a, b};
  return bp_ir_make(program->random.module, BP_IR_SEQ, (BpDataType){BP_DTYPE_HANDLE, 0, 0}, both, 2,
                    0, 0, NULL);
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
  const BpIrNode *loop =
      bp_ir_make(module, BP_IR_WHILE, (BpDataType){BP_DTYPE_HANDLE, 0, 0}, body, 2, 0, 0, NULL);
  const BpIrNode *begin = bp_ir_store(module, passes, zero, bp_ir_int(module, int32, 0), NULL);
  return bp_ir_allocate(module, passes, pair(program, begin, loop));
}

static const BpIrNode *barrier(Program *program) {
  return bp_ir_make(program->random.module, BP_IR_BARRIER, (BpDataType){BP_DTYPE_HANDLE, 0, 0},
                    NULL, 0, 0, 0, "shared");
}

/* Each thread of a block passes a value to another thread. */
static const BpIrNode *exchange(Program *program) {
  BpIrModule *module = program->random.module;
  int slot = below(program, NUM_TYPES), type = program->types[slot];
  const BpIrNode *extent = number(program, THREADS);
  const BpIrNode *shared =
      bp_ir_buffer(module, "S", type_with(type, 1), BP_IR_SCOPE_SHARED, &extent, 1);
  const BpIrNode *other =
      bp_ir_binary(module, BP_IR_FLOORMOD,
                   sum(program, program->place, number(program, below(program, THREADS))), extent);
  const BpIrNode *given =
      bp_ir_store(module, shared, program->place, expression(program, type, 1, 3), NULL);
  const BpIrNode *taken =
      bp_ir_store(module, program->outputs[slot], own(program, ramp(program, 1, PART)),
                  bp_ir_load(module, shared, other, NULL), NULL);
  return bp_ir_allocate(module, shared,
                        pair(program, pair(program, given, barrier(program)),
                             pair(program, taken, barrier(program))));
}

static const BpIrNode *statement(Program *program, int depth) {
  switch (below(program, depth > 0 ? 9 : 3)) {
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

/* ---- The whole program ------------------------------------------------------------------- */

static const BpIrNode *buffer(Program *program, const char *name, int i, int type, int64_t size) {
  const BpIrNode *extent = number(program, size);
  g_autofree char *full = i < 0 ? g_strdup(name) : g_strdup_printf("%s%d", name, i);
  return bp_ir_buffer(program->random.module, full, type_with(type, 1), BP_IR_SCOPE_GLOBAL, &extent,
                      1);
}

/* Chooses the element types and declares the buffers. The first type is an integer, for indices. */
static void choose_types(Program *program) {
  for (int i = 0; i < NUM_TYPES; i++) {
    program->types[i] = i == 0 ? 1 + below(program, INT64 - 1) : below(program, PROGRAM_TYPES);
    program->random.is_used[program->types[i]] = TRUE;
    program->inputs[i] = buffer(program, "I", i, program->types[i], INPUT);
    program->outputs[i] = buffer(program, "O", i, program->types[i], (int64_t)NUM_THREADS * PART);
  }
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
}

static const BpIrNode *body_of(Program *program) {
  const BpIrNode *list[6];
  int count = 2 + below(program, 3);
  for (int i = 0; i < count; i++)
    list[i] =
        program->has_barriers && below(program, 3) == 0 ? exchange(program) : statement(program, 2);
  return bp_ir_seq(program->random.module, list, count);
}

static void make_program(Program *program, uint64_t seed, const char *name) {
  BpIrModule *module = bp_ir_module_create();
  *program = (Program){.seed = seed, .has_barriers = seed % 4 == 3};
  program->random =
      (RandomExpressions){.module = module, .state = seed * 7919, .is_exact = TRUE, .leaf = leaf};
  choose_types(program);
  const BpIrNode *block = bp_ir_var(module, "b", dtype_of("int64"));
  program->place = bp_ir_var(module, "t", dtype_of("int64"));
  program->thread = sum(program, bp_ir_binary(module, BP_IR_MUL, block, number(program, THREADS)),
                        program->place);
  make_vars(program);
  const BpIrNode *body = body_of(program);
  const BpIrNode *zero = number(program, 0);
  body = bp_ir_for(module, program->place, zero, number(program, THREADS), BP_IR_FOR_BOUND,
                   "threadIdx.x", body);
  body =
      bp_ir_for(module, block, zero, number(program, BLOCKS), BP_IR_FOR_BOUND, "blockIdx.x", body);
  const BpIrNode *params[2 * NUM_TYPES + 1];
  memcpy(params, program->inputs, sizeof program->inputs);
  memcpy(params + NUM_TYPES, program->outputs, sizeof program->outputs);
  params[2 * (size_t)NUM_TYPES] = program->odd;
  program->function = bp_ir_function(module, name, params, 2 * NUM_TYPES + 1, NULL, 0, body);
  if (!program->function)
    g_error("seed %" G_GUINT64_FORMAT ": %s", seed, bp_error_message());
}

static char *text_of(const BpIrNode *function) {
  BpValue printed;
  BpByteArray view = {NULL, 0};
  assert_ok(bp_ir_table()->print(function, &printed) || bp_value_view_str(&printed, &view));
  char *text = g_strndup(view.data, view.size);
  bp_value_clear(&printed);
  return text;
}

/* A target of the programs. */
typedef struct Place {
  const char *text;
  gboolean has_threads; /* otherwise barriers are refused */
  gboolean has_nan;     /* exact floats may be NaN or infinite */
  gboolean is_here;
} Place;

/* ---- Arguments --------------------------------------------------------------------------- */

static void set_float(void *data, int64_t i, BpDataType dtype, double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, 4);
  if (dtype.code == BP_DTYPE_BFLOAT)
    ((uint16_t *)data)[i] = isnan(single) ? 0x7fc0 : (uint16_t)(bits >> 16);
  else if (dtype.bits == 16)
    ((uint16_t *)data)[i] = isnan(single)   ? 0x7e00
                            : isinf(single) ? (uint16_t)(0x7c00 | (bits >> 16 & 0x8000))
                                            : half_of(single);
  else if (dtype.bits == 32)
    ((float *)data)[i] = single;
  else
    ((double *)data)[i] = value;
}

/* All values are float16 as well, except the last ones. */
static const double odd_floats[] = {0.5,   -0.5, 1.5,      -2.5,      127.5, -128.5, 255.5, 256,
                                    -129,  300,  32768,    -32768,    65504, -65504, 0.25,  -0.75,
                                    65536, 1e9,  2.2e9,    -2.2e9,    5e9,   -5e9,   1e19,  2e19,
                                    -1e19, 1e30, HUGE_VAL, -HUGE_VAL, NAN};
#define NUM_HALVES 16

static double any_float(BpDataType dtype, gboolean is_exact, gboolean has_nan, uint64_t *state) {
  static const double special[] = {NAN, HUGE_VAL, -HUGE_VAL, -0.0};
  uint64_t choice = next_random(state);
  if (!is_exact && dtype.code == BP_DTYPE_FLOAT && dtype.bits == 16)
    return choice % 8 ? odd_floats[choice % NUM_HALVES] : special[choice / 8 % 4];
  if (!is_exact)
    return odd_floats[choice % G_N_ELEMENTS(odd_floats)];
  return has_nan && choice % 9 == 0 ? special[choice / 9 % 4] : (double)(choice / 9 % 15) - 7;
}

/* Fills inputs at random and outputs with 0. The odd floats are the last argument. */
static void fill_args(Args *args, const BpIrNode *function, const Place *place, uint64_t seed) {
  make_args(args, function, seed);
  for (int32_t i = 0; i < args->count; i++) {
    BpDataType dtype = args->views[i].dtype;
    gboolean is_output = i >= NUM_TYPES && i < 2 * NUM_TYPES;
    if (is_output)
      memset(args->views[i].data, 0, args->bytes[i]);
    for (int64_t k = 0; k < args->elements[i] && !is_output; k++)
      if (bp__program_letter(dtype) == 'f')
        set_float(args->views[i].data, k, dtype,
                  any_float(dtype, i < 2 * NUM_TYPES, place->has_nan, &seed));
  }
}

static gboolean is_same(const void *a, const void *b, int64_t i, BpDataType dtype) {
  size_t size = (dtype.bits + 7u) / 8;
  if (bp__program_letter(dtype) != 'f')
    return !memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size);
  double x = read_element(a, i, dtype), y = read_element(b, i, dtype);
  return isnan(y) ? isnan(x) : x == y;
}

static char *element_text(const void *data, int64_t i, BpDataType dtype) {
  int64_t value = 0;
  if (bp__program_letter(dtype) == 'f')
    return g_strdup_printf("%.9g", read_element(data, i, dtype));
  memcpy(&value, (const char *)data + (size_t)i * (dtype.bits / 8u), dtype.bits / 8u);
  return g_strdup_printf("%" G_GINT64_FORMAT, value);
}

/* Describes the first difference (g_free), or returns NULL. */
static char *difference_of(const Args *got, const Args *expected) {
  for (int32_t i = 0; i < got->count; i++)
    for (int64_t k = 0; k < got->elements[i]; k++) {
      const void *a = got->views[i].data, *b = expected->views[i].data;
      BpDataType dtype = got->views[i].dtype;
      if (is_same(a, b, k, dtype))
        continue;
      g_autofree char *x = element_text(a, k, dtype), *y = element_text(b, k, dtype);
      return g_strdup_printf("argument %d, element %d is %s, interpreted %s", (int)i, (int)k, x, y);
    }
  return NULL;
}

/* ---- Running ----------------------------------------------------------------------------- */

/* Lavapipe gets comparisons of int64 wrong (docs/plugin-vulkan.md). */
static Place places[] = {
    {"c -options=-O1", FALSE, TRUE, FALSE},
    {"opencl", TRUE, TRUE, FALSE},
    {"vulkan -supports_float64 -supports_int64=false", TRUE, TRUE, FALSE},
    {"llvm -opt=1", FALSE, TRUE, FALSE},
    {"vulkan -supports_float64 -supports_int64=false -supports_float16", TRUE, TRUE, FALSE},
    {"c -mcpu=x86-64 -options=-O1", FALSE, TRUE, FALSE},
    {"cuda", TRUE, TRUE, FALSE},
};

/* The program in progress, which is printed if the process ends. */
static char in_work[160];

static void tell_what_was_in_work(int signal_number) {
  ssize_t written = write(2, in_work, strlen(in_work));
  (void)written;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static int64_t num_run, num_refused;

/* Runs function `name` of a module, compiled and legalised; returns the difference (g_free) or
 * NULL. */
static char *run_function(const BpIrModule *module, const char *name, const Built *built,
                          const Place *place, uint64_t seed) {
  const BpIrNode *function = bp_ir_module_find(module, name);
  Args expected, got;
  BpFunction *compiled = NULL;
  char *difference = NULL;
  fill_args(&expected, function, place, seed);
  fill_args(&got, function, place, seed);
  if (bp_ir_interpret(module, name, expected.values, expected.count))
    difference = g_strdup_printf("interpreter: %s", bp_error_message());
  else if (bp_module_get_function(built->code, name, 1, &compiled) || !compiled ||
           call_built(built, name, compiled, &got))
    difference = g_strdup_printf("the call: %s", bp_error_message());
  else
    difference = difference_of(&got, &expected);
  bp_error_clear();
  num_run++;
  bp_object_release(compiled);
  free_args(&expected);
  free_args(&got);
  return difference;
}

/* Compares with the legalised module, which is interpreted. */
static char *interpret_legal(const BpIrModule *module, const BpIrModule *legal, const char *name,
                             const Place *place, uint64_t seed) {
  const BpIrNode *function = bp_ir_module_find(module, name);
  Args expected, got;
  fill_args(&expected, function, place, seed);
  fill_args(&got, function, place, seed);
  char *difference = NULL;
  if (bp_ir_interpret(module, name, expected.values, expected.count) ||
      bp_ir_interpret(legal, name, got.values, got.count))
    difference = g_strdup_printf("interpreter: %s", bp_error_message());
  else
    difference = difference_of(&got, &expected);
  bp_error_clear();
  free_args(&expected);
  free_args(&got);
  return difference;
}

static BpIrModule *try_legalize(BpIrModule *module, BpTarget *target) {
  BpFunction *legalize = NULL;
  BpValue args[2] = {{.type_index = BP_TYPE_IR_MODULE}, {.type_index = BP_TYPE_TARGET}};
  BpValue legal = {0};
  args[0].v_obj = (BpObject *)(void *)module;
  args[1].v_obj = (BpObject *)(void *)target;
  assert_ok(bp_registry_get("compiler.legalize", &legalize));
  int rc = bp_function_call(legalize, args, 2, &legal);
  bp_object_release(legalize);
  return rc ? NULL : (BpIrModule *)(void *)legal.v_obj;
}

/* Compiles a text of functions "f0".. for a place, and runs those with a given seed. Returns the
 * failure (g_free) and which function failed; a refusal is no failure. */
static char *run_text(const char *text, const Place *place, const uint64_t *seeds, int count,
                      int *which) {
  BpIrModule *module = parse_verified(text);
  BpTarget *target = bp_target_parse(place->text);
  if (!target)
    g_error("%s", bp_error_message());
  Built built = {.device = {bp_target_device_type(target), 0}};
  char *wrong = NULL;
  BpIrModule *legal = try_legalize(module, target);
  *which = -1;
  for (int i = 0; legal && i < count && !wrong; i++) {
    g_autofree char *name = g_strdup_printf("f%d", i);
    g_autofree char *found = interpret_legal(module, legal, name, place, seeds[i]);
    wrong = found ? g_strdup_printf("legalised: %s", found) : NULL;
    *which = i;
  }
  built.code = legal && !wrong ? bp_target_build(module, target) : NULL;
  if (!built.code && !wrong && !bp_error_is(BP_ERROR_NOT_IMPLEMENTED)) {
    wrong = g_strdup_printf("compiling: %s", bp_error_message());
    *which = -1;
  }
  num_refused += !built.code && !wrong ? count : 0;
  bp_error_clear();
  if (built.device.device_type != BP_DEVICE_CPU)
    built.legal = legal;
  for (int i = 0; built.code && place->is_here && i < count && !wrong; i++) {
    g_autofree char *name = g_strdup_printf("f%d", i);
    wrong = run_function(module, name, &built, place, seeds[i]);
    *which = i;
  }
  bp_object_release(built.code);
  bp_object_release(legal);
  bp_object_release(target);
  bp_object_release(module);
  return wrong;
}

/* ---- Reducing a failing program ---------------------------------------------------------- */

typedef struct Reduction {
  Program *program;
  const Place *place;
  const BpIrNode *function; /* the smallest failing function */
  char *wrong;
  gint64 until; /* g_get_monotonic_time */
} Reduction;

/* Returns the node with `part` replaced. */
static const BpIrNode *replace(BpIrModule *module, const BpIrNode *whole, const BpIrNode *part,
                               const BpIrNode *by) {
  const BpIrTable *ir = bp_ir_table();
  int32_t count = ir->num_operands(whole), kind = ir->kind(whole);
  if (whole == part)
    return by;
  if (count == 0 || kind == BP_IR_BUFFER)
    return whole;
  g_autofree const BpIrNode **operands = g_new(const BpIrNode *, (gsize)count);
  gboolean is_changed = FALSE;
  for (int32_t i = 0; i < count; i++) {
    operands[i] = replace(module, ir->operand(whole, i), part, by);
    is_changed |= operands[i] != ir->operand(whole, i);
  }
  return is_changed ? bp_ir_make(module, kind, ir->dtype(whole), operands, count,
                                 ir->int_value(whole), 0, ir->str_value(whole))
                    : whole;
}

/* Whether a function still fails; if so, it becomes the smallest. */
static gboolean accept(Reduction *reduction, const BpIrNode *function) {
  g_autofree char *inside = text_of(function), *text = g_strdup_printf("(module %s)", inside);
  BpIrModule *module = bp_ir_parse(text, strlen(text));
  gboolean is_legal = module && bp_ir_verify(module) == 0;
  Args args;
  if (is_legal) {
    fill_args(&args, bp_ir_module_find(module, "f0"), reduction->place, reduction->program->seed);
    is_legal = bp_ir_interpret(module, "f0", args.values, args.count) == 0;
    free_args(&args);
  }
  bp_object_release(module);
  bp_error_clear();
  int which;
  char *wrong =
      is_legal ? run_text(text, reduction->place, &reduction->program->seed, 1, &which) : NULL;
  if (!wrong)
    return FALSE;
  g_free(reduction->wrong);
  reduction->wrong = wrong;
  reduction->function = function;
  return TRUE;
}

static gboolean try_instead(Reduction *reduction, const BpIrNode *part, const BpIrNode *by) {
  if (!by || by == part || g_get_monotonic_time() > reduction->until)
    return FALSE;
  return accept(reduction,
                replace(reduction->program->random.module, reduction->function, part, by));
}

/* Replaces a statement by nothing or by a statement inside it. */
static gboolean shrink_statement(Reduction *reduction, const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  const BpIrNode *nothing = bp_ir_seq(reduction->program->random.module, NULL, 0);
  if (ir->kind(part) == BP_IR_BARRIER || (ir->kind(part) == BP_IR_SEQ && !ir->num_operands(part)))
    return FALSE;
  if (try_instead(reduction, part, nothing))
    return TRUE;
  for (int32_t i = 0; i < ir->num_operands(part); i++)
    if (ir->kind(ir->operand(part, i)) >= BP_IR_SEQ &&
        ir->kind(ir->operand(part, i)) < BP_IR_BUFFER &&
        try_instead(reduction, part, ir->operand(part, i)))
      return TRUE;
  return FALSE;
}

/* Replaces an expression by a constant or by an operand of its type. */
static gboolean shrink_expression(Reduction *reduction, const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  BpIrModule *module = reduction->program->random.module;
  int32_t kind = ir->kind(part);
  BpDataType dtype = ir->dtype(part);
  if (kind <= BP_IR_VAR || (kind == BP_IR_BROADCAST && ir->kind(ir->operand(part, 0)) <= BP_IR_VAR))
    return FALSE;
  for (int64_t value = 0; value < 2; value++) {
    BpDataType element = dtype;
    element.lanes = 1;
    const BpIrNode *constant = bp__program_letter(dtype) == 'f'
                                   ? bp_ir_float(module, element, (double)value)
                                   : bp_ir_int(module, element, value);
    if (try_instead(reduction, part, bp_ir_broadcast(module, constant, dtype.lanes)))
      return TRUE;
  }
  for (int32_t i = 0; i < ir->num_operands(part); i++) {
    BpDataType other = ir->dtype(ir->operand(part, i));
    if (ir->kind(ir->operand(part, i)) != BP_IR_BUFFER && !memcmp(&other, &dtype, sizeof dtype) &&
        try_instead(reduction, part, ir->operand(part, i)))
      return TRUE;
  }
  return FALSE;
}

/* Parts that must stay, so that the program has the same meaning everywhere: loops end, memory is
 * set before it is read, threads do not conflict. */
static gboolean is_whole(const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  int32_t kind = ir->kind(part);
  return kind == BP_IR_WHILE || kind == BP_IR_BARRIER || kind == BP_IR_BUFFER ||
         (kind == BP_IR_ALLOCATE && ir->int_value(ir->operand(part, 0)) == BP_IR_SCOPE_SHARED);
}

static gboolean shrink(Reduction *reduction, const BpIrNode *part) {
  const BpIrTable *ir = bp_ir_table();
  int32_t kind = ir->kind(part), first = 0;
  gboolean is_statement = kind >= BP_IR_SEQ && kind < BP_IR_BUFFER;
  if (is_statement ? shrink_statement(reduction, part)
                   : kind < BP_IR_SEQ && shrink_expression(reduction, part))
    return TRUE;
  if (is_whole(part))
    return FALSE;
  const BpIrNode *body = kind == BP_IR_ALLOCATE ? ir->operand(part, 1) : part;
  if (kind == BP_IR_ALLOCATE || kind == BP_IR_LOAD || kind == BP_IR_STORE)
    first = kind == BP_IR_ALLOCATE ? 1 : 2;
  for (int32_t i = first; i < ir->num_operands(body); i++)
    if (shrink(reduction, ir->operand(body, i)))
      return TRUE;
  return FALSE;
}

static void fail_with(Program *program, const Place *place, char *wrong) {
  Reduction reduction = {program, place, program->function, wrong,
                         g_get_monotonic_time() + 90 * G_USEC_PER_SEC};
  while (shrink(&reduction, reduction.function))
    ;
  g_autofree char *text = text_of(reduction.function);
  g_error("BP_TEST_SEED=%" G_GUINT64_FORMAT ", target %s: %s, in\n%s", program->seed, place->text,
          reduction.wrong, text);
}

/* ---- Batches ----------------------------------------------------------------------------- */

/* Runs the programs of a batch that a place supports, as one module; if it fails, each program
 * alone. */
static void run_batch(uint64_t first, const Place *place) {
  GString *text = g_string_new("(module");
  uint64_t seeds[BATCH] = {0};
  int count = 0, which;
  for (uint64_t seed = first; seed < first + BATCH; seed++) {
    g_autofree char *name = g_strdup_printf("f%d", count);
    Program program;
    make_program(&program, seed, name);
    if (!program.has_barriers || place->has_threads) {
      g_autofree char *function = text_of(program.function);
      g_string_append_printf(text, "\n%s", function);
      seeds[count++] = seed;
    }
    bp_object_release(program.random.module);
  }
  g_string_append(text, ")");
  g_snprintf(in_work, sizeof in_work, "# in work: BP_TEST_SEED=%" G_GUINT64_FORMAT ", target %s\n",
             first, place->text);
  gint64 refused_before = num_refused;
  g_autofree char *wrong = run_text(text->str, place, seeds, count, &which);
  gboolean is_refused = num_refused > refused_before;
  num_refused = refused_before;
  for (int i = 0; (wrong || is_refused) && i < count; i++) {
    Program program;
    make_program(&program, seeds[i], "f0");
    g_autofree char *alone = text_of(program.function),
                    *one = g_strdup_printf("(module %s)", alone);
    char *found = run_text(one, place, &seeds[i], 1, &which);
    if (found)
      fail_with(&program, place, found);
    bp_object_release(program.random.module);
  }
  if (wrong)
    g_error("BP_TEST_SEED=%" G_GUINT64_FORMAT ", target %s: only together: %s, in\n%s", first,
            place->text, wrong, text->str);
  g_string_free(text, TRUE);
}

static int64_t setting(const char *name, int64_t otherwise) {
  const char *value = g_getenv(name);
  return value ? g_ascii_strtoll(value, NULL, 10) : otherwise;
}

static void test_programs(void) {
  uint64_t seed = (uint64_t)setting("BP_TEST_SEED", 1);
  int64_t seconds = setting("BP_TEST_SECONDS", g_getenv("BP_TEST_LONG") ? 600 : 15);
  gint64 until = g_get_monotonic_time() + seconds * G_USEC_PER_SEC;
  signal(SIGSEGV, tell_what_was_in_work);
  signal(SIGFPE, tell_what_was_in_work);
  for (size_t i = 0; g_get_monotonic_time() < until; i++) {
    if (places[i % G_N_ELEMENTS(places)].is_here)
      run_batch(seed, &places[i % G_N_ELEMENTS(places)]);
    if ((i + 1) % G_N_ELEMENTS(places) == 0)
      seed += BATCH;
  }
  g_test_message("up to seed %" G_GUINT64_FORMAT ": %d runs, %d refused", seed, (int)num_run,
                 (int)num_refused);
  g_assert_cmpint(num_run, >, num_refused);
}

/* Whether the target's plugin was built and has a device. */
static gboolean is_place_here(const Place *place) {
  BpTarget *target = bp_target_parse(place->text);
  int32_t count = 0;
  const char *why;
  if (target)
    assert_ok(bp_device_count(bp_target_device_type(target), &count, &why));
  bp_error_clear();
  bp_object_release(target);
  return count > 0;
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(places); i++)
    places[i].is_here = is_place_here(&places[i]);
  g_test_add_func("/ir/programs/random_ones_mean_the_same_everywhere", test_programs);
  return g_test_run();
}
