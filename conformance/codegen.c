/* SPDX-License-Identifier: Apache-2.0 */
/* Sections codegen, types, intrinsics and random: generated code agrees with the reference
 * interpreter for every construct of the IR, every type and intrinsic, and for random programs.
 *
 * If the target's generator refuses a type other than int32 and float32 as not implemented, the
 * plugin declares that it does not support the type. */
#include <math.h>
#include <string.h>

#include "conformance/judge.h"
#include "conformance/programs.h"
#include "conformance/random.h"

#define NUM_PAIRS (PROGRAM_VALUES * PROGRAM_VALUES)

/* ---- Values ------------------------------------------------------------------------------ */

/* Floats for operations, up to both ends of float32's range. A device may replace subnormal numbers
 * by zero, so the list has none. */
static const double wide_floats[PROGRAM_VALUES] = {
    0,     1,   -0.0,     -1,        0.5,         3,  -2.5, 65504,
    1e-30, 0.1, HUGE_VAL, -HUGE_VAL, (double)NAN, -7, 2,    -4e-38};
/* Floats for functions, which may be inaccurate for large arguments. */
static const double small_floats[PROGRAM_VALUES] = {
    0, 1, -0.0, -1, 0.5, 3, -2.5, 7, 1.5, 0.1, HUGE_VAL, -HUGE_VAL, (double)NAN, -7, 2.25, -0.75};

static void make_values(const char *type, const double *floats, void *values) {
  BpDataType dtype = bp__program_dtype(type);
  int64_t ints[PROGRAM_VALUES];
  double given[PROGRAM_VALUES];
  memcpy(given, floats, sizeof given);
  bp__program_ints(dtype, ints);
  if (bp__program_letter(dtype) == 'f')
    bp__judge_convert("float64", type, given, values, PROGRAM_VALUES);
  else
    bp__judge_convert("int64", type, ints, values, PROGRAM_VALUES);
}

/* Fills A with each value many times in a row, and B with all values in turn, so that together they
 * give all pairs. */
static void make_pairs(const char *type, const double *floats, char *a, char *b) {
  size_t size = bp__program_dtype(type).bits / 8;
  char values[PROGRAM_VALUES * 8];
  make_values(type, floats, values);
  for (size_t i = 0; i < NUM_PAIRS; i++) {
    memcpy(a + i * size, values + i / PROGRAM_VALUES * size, size);
    memcpy(b + i * size, values + i % PROGRAM_VALUES * size, size);
  }
}

/* Fills A with the values, and then with points between -12 and 12; for the tangent, which has
 * poles beyond, between -1.2 and 1.2. */
static void make_points(const char *type, double largest, char *a) {
  double points[NUM_PAIRS];
  memcpy(points, small_floats, sizeof small_floats);
  for (int i = PROGRAM_VALUES; i < NUM_PAIRS; i++)
    points[i] = largest * (2.0 * (i - PROGRAM_VALUES) / (NUM_PAIRS - PROGRAM_VALUES) - 1);
  bp__judge_convert("float64", type, points, a, NUM_PAIRS);
}

/* ---- Supported types --------------------------------------------------------------------- */

static gboolean is_core_type(const char *type) {
  return strcmp(type, "int32") == 0 || strcmp(type, "float32") == 0;
}

/* Builds code and returns whether it was built; if it was refused as not implemented, the error
 * stays raised. */
static gboolean is_built(const KitCode *code, const char *what) {
  if (code->module)
    return TRUE;
  KIT_TRUE(bp_error_is(BP_ERROR_NOT_IMPLEMENTED), "%s: %s, of\n%s", bp_error_kind(),
           bp_error_message(), what);
  return FALSE;
}

/* Whether the generator accepts buffers and scalars of a type; on refusal the generator's error
 * stays raised. */
static gboolean takes_type(const Kit *kit, const char *type) {
  char *text = g_strdup_printf(
      "(module (function \"f\" (buffer A %s global 4) x:%s (store A 0 x)))", type, type);
  KitCode code = bp__kit_try_build(kit, text);
  gboolean takes = is_built(&code, text);
  KIT_TRUE(takes || !is_core_type(type), "%s cannot be declined: %s", type, bp_error_message());
  bp__kit_code_clear(&code);
  g_free(text);
  return takes;
}

static gboolean claims_type(const Kit *kit, const char *type) {
  static signed char known[PROGRAM_TYPES]; /* 1: yes, -1: no */
  for (size_t i = 0; i < PROGRAM_TYPES; i++)
    if (strcmp(bp__program_types[i], type) == 0) {
      if (!known[i])
        known[i] = takes_type(kit, type) ? 1 : -1;
      bp_error_clear();
      return known[i] > 0;
    }
  return FALSE;
}

/* ---- Functions of one module ------------------------------------------------------------- */

/* A function and its arguments. The function has one statement, or stores each of several
 * expressions for all pairs of values, first as scalars and then in vectors. */
typedef struct Function {
  char *name;
  const char *type, *result;
  const double *floats; /* the values, if the type is a float */
  double largest;       /* not 0: arguments are points up to this number, instead of pairs */
  int lanes;            /* lanes of the vectors */
  const StatementRow *row;
  GPtrArray *expressions;
} Function;

static void function_free(void *data) {
  Function *function = data;
  g_free(function->name);
  g_ptr_array_free(function->expressions, TRUE);
  g_free(function);
}

/* Makes an empty list of functions for one module (transfer full). */
static GPtrArray *functions_new(void) {
  return g_ptr_array_new_with_free_func(function_free);
}

/* Returns the number of lanes that fill the target's vectors in the host's schedules, and at least
 * four. In languages of kernels, narrow types have no more lanes than int32. */
static int count_lanes(const Kit *kit, const char *type, const char *result) {
  int64_t vector = bp_target_get_int(kit->target, BP_TARGET_VECTOR_BITS, 0);
  int widest = MAX(bp__program_dtype(type).bits, bp__program_dtype(result).bits), lanes = 4;
  widest = MAX(widest, bp__kit_has_threads(kit) ? 32 : 8);
  while (lanes < 64 && 2 * lanes * widest <= vector)
    lanes *= 2;
  return lanes;
}

static Function *add_function(const Kit *kit, GPtrArray *functions, const char *type,
                              const char *result, const double *floats) {
  Function *function = g_new0(Function, 1);
  function->name = g_strdup_printf("f%u", functions->len);
  function->type = type;
  function->result = result;
  function->floats = floats;
  function->lanes = count_lanes(kit, type, result);
  function->expressions = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(functions, function);
  return function;
}

static void add_expression(Function *function, char *text) {
  g_ptr_array_add(function->expressions, text);
}

static const char *expression_at(const Function *function, guint i) {
  return g_ptr_array_index(function->expressions, i);
}

static gboolean gives_scalar(const char *expression) {
  return g_str_has_prefix(expression, "(reduce ");
}

/* Expression i stores its results in the buffers 2 i and 2 i + 1. */
static char *text_of_expressions(const Function *function) {
  GString *body = g_string_new("(seq ");
  for (guint i = 0; i < function->expressions->len; i++)
    for (int k = 0; k < (gives_scalar(expression_at(function, i)) ? 1 : 2); k++) {
      char *loop =
          bp__program_loop(expression_at(function, i), function->type, k ? function->lanes : 1,
                           (2 * (int)i + k) * NUM_PAIRS, NUM_PAIRS);
      g_string_append(body, loop);
      g_free(loop);
    }
  g_string_append(body, ")");
  char *text = bp__program_function(function->name, function->type, function->result, NUM_PAIRS,
                                    2 * (int)function->expressions->len * NUM_PAIRS, body->str);
  g_string_free(body, TRUE);
  return text;
}

static char *text_of_functions(const GPtrArray *functions) {
  GString *text = g_string_new("(module\n");
  for (guint i = 0; i < functions->len; i++) {
    const Function *function = g_ptr_array_index(functions, i);
    char *part = function->row
                     ? bp__program_statement(function->row, function->name, function->type)
                     : text_of_expressions(function);
    g_string_append(text, part);
    g_free(part);
  }
  g_string_append(text, ")");
  return g_string_free(text, FALSE);
}

static void run_expressions(const Kit *kit, const KitCode *code, const Function *function) {
  Judged call = {.num_buffers = 0};
  char *a = bp__judge_add(&call, function->type, NUM_PAIRS);
  char *b = bp__judge_add(&call, function->type, NUM_PAIRS);
  bp__judge_add(&call, function->result, 2 * function->expressions->len * NUM_PAIRS);
  make_pairs(function->type, function->floats, a, b);
  if (function->largest > 0) {
    make_points(function->type, function->largest, a);
    call.slack = 4e-7;
  }
  int64_t k = bp__judge_run(kit, code, function->name, &call), pair = k % NUM_PAIRS;
  if (k >= 0)
    bp__kit_fail("%s of %s, in vectors of %d: a = %.17g, b = %.17g give %.17g and not %.17g",
                 expression_at(function, (guint)(k / NUM_PAIRS / 2)), function->type,
                 k / NUM_PAIRS % 2 ? function->lanes : 1, bp__judge_number(function->type, a, pair),
                 bp__judge_number(function->type, b, pair),
                 bp__judge_number(function->result, call.got[2], k),
                 bp__judge_number(function->result, call.expected[2], k));
  bp__judge_clear(&call);
}

static void run_statement(const Kit *kit, const KitCode *code, const Function *function) {
  Judged call = {.num_buffers = 0};
  const char *type = function->type;
  BpDataType dtype = bp__program_dtype(type);
  char values[PROGRAM_VALUES * 8];
  make_values(type, function->floats, values);
  memcpy(bp__judge_add(&call, type, PROGRAM_ELEMENTS), values, PROGRAM_ELEMENTS * (dtype.bits / 8));
  bp__judge_add(&call, type, PROGRAM_ELEMENTS);
  double number = bp__judge_number(type, values, 5);
  call.scalar = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = (int64_t)number};
  if (bp__program_letter(dtype) == 'f')
    call.scalar = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = number};
  int64_t k = bp__judge_run(kit, code, function->name, &call);
  if (k >= 0)
    bp__kit_fail("%s of %s: C[%" G_GINT64_FORMAT "] is %.17g and not %.17g", function->row->body,
                 type, k, bp__judge_number(type, call.got[1], k),
                 bp__judge_number(type, call.expected[1], k));
  bp__judge_clear(&call);
}

/* Runs the functions as one module, and frees them. FALSE, with the error raised, if the generator
 * declares that it does not support a construct of the module. */
static gboolean run_functions(const Kit *kit, GPtrArray *functions) {
  char *text = text_of_functions(functions);
  KitCode code = bp__kit_try_build(kit, text);
  gboolean built = is_built(&code, text);
  for (guint i = 0; built && i < functions->len; i++) {
    const Function *function = g_ptr_array_index(functions, i);
    (function->row ? run_statement : run_expressions)(kit, &code, function);
  }
  bp__kit_code_clear(&code);
  g_free(text);
  g_ptr_array_free(functions, TRUE);
  return built;
}

/* ---- Types ------------------------------------------------------------------------------- */

/* Adds the conversions from one type to another. */
static void add_conversions(Function *function) {
  BpDataType from = bp__program_dtype(function->type), to = bp__program_dtype(function->result);
  add_expression(function, g_strdup_printf("(cast %s@X @a)", function->result));
  /* Bits of floats are not compared: the bits of a NaN are unspecified. */
  if (from.bits == to.bits && bp__program_letter(from) == 'i' && to.code != BP_DTYPE_BOOL)
    add_expression(function, g_strdup_printf("(reinterpret %s@X @a)", function->result));
}

/* Adds reductions of each vector. Sums of floats are omitted, because they depend on their
 * order. */
static void add_reductions(Function *function) {
  static const char *const names[] = {"min", "max", "add", "mul"};
  char letter = bp__program_letter(bp__program_dtype(function->type));
  int lanes = function->lanes;
  for (int i = 0; i < (letter == 'i' ? 4 : letter == 'f' ? 2 : 0); i++)
    add_expression(function,
                   g_strdup_printf("(reduce %s (load B (ramp (mul (floormod i %d) %d) 1 %d)))",
                                   names[i], NUM_PAIRS / lanes, lanes, lanes));
}

/* A load and a store of all elements except the last. */
static void add_masked(Function *function) {
  add_expression(function, g_strdup("(load A @i @most)"));
  add_expression(function, g_strdup("@a @most"));
}

static void add_operations(Function *function) {
  char letter = bp__program_letter(bp__program_dtype(function->type));
  for (size_t i = 0; i < bp__program_num_expressions; i++) {
    const ExpressionRow *row = &bp__program_expressions[i];
    const char *result = row->gives_bool ? "bool" : function->type;
    if (strchr(row->letters, letter) && strcmp(result, function->result) == 0)
      add_expression(function, g_strdup(row->text));
  }
  if (strcmp(function->type, function->result) != 0)
    return;
  add_expression(function, g_strdup("(select (eq @a @b) @a @b)"));
  add_reductions(function);
  add_masked(function);
}

static void run_type(Kit *kit, const char *type) {
  GPtrArray *functions = functions_new();
  bp__kit_open_target(kit);
  if (!claims_type(kit, type)) {
    takes_type(kit, type);
    bp__kit_skip("%s", bp_error_message());
  }
  for (size_t i = 0; i < PROGRAM_TYPES; i++) {
    if (!claims_type(kit, bp__program_types[i]))
      continue;
    Function *function = add_function(kit, functions, type, bp__program_types[i], wide_floats);
    add_conversions(function);
    add_operations(function);
  }
  KIT_TRUE(run_functions(kit, functions), "%s is supported, and not all of its operations: %s",
           type, bp_error_message());
}

/* ---- Constructs -------------------------------------------------------------------------- */

static const char *const core_types[] = {"int32", "float32"};

static gboolean is_possible(const Kit *kit, const StatementRow *row, const char *type) {
  if (row->letters && !strchr(row->letters, bp__program_letter(bp__program_dtype(type))))
    return FALSE;
  if (strstr(row->body, "threadIdx") && bp__kit_block(kit, PROGRAM_BLOCK) < PROGRAM_BLOCK)
    return FALSE;
  return row->where == PROGRAM_ANYWHERE ||
         (row->where == PROGRAM_HOST ? bp__kit_runs_on_host(kit) : bp__kit_has_threads(kit));
}

/* Adds the statements of a construct that the target supports. Returns the construct's total number
 * of statements. */
static int add_statements(const Kit *kit, int32_t kind, GPtrArray *functions) {
  int found = 0;
  for (size_t i = 0; i < bp__program_num_statements; i++)
    for (size_t t = 0; t < G_N_ELEMENTS(core_types); t++) {
      const StatementRow *row = &bp__program_statements[i];
      if (row->kind != kind)
        continue;
      found++;
      if (is_possible(kit, row, core_types[t]))
        add_function(kit, functions, core_types[t], core_types[t], wide_floats)->row = row;
    }
  return found;
}

/* Returns an expression in a form that every device supports: int32 or float32, with a result other
 * than bool. */
static char *core_text(const ExpressionRow *row) {
  const char *const words[][2] = {
      {"@a", "(lt @p @q)"}, {"@b", "(le @q @p)"}, {"@p", "@a"}, {"@q", "@b"}, {NULL, NULL}};
  gboolean takes_bool = strcmp(row->letters, "b") == 0;
  char *text = takes_bool ? bp__program_fill(row->text, words) : g_strdup(row->text);
  if (!row->gives_bool)
    return text;
  char *number = g_strdup_printf("(cast int32@X %s)", text);
  g_free(text);
  return number;
}

static void add_expressions(const Kit *kit, int32_t kind, GPtrArray *functions) {
  for (size_t i = 0; i < bp__program_num_expressions; i++)
    for (size_t t = 0; t < G_N_ELEMENTS(core_types); t++) {
      const ExpressionRow *row = &bp__program_expressions[i];
      gboolean takes_type = strcmp(row->letters, "b") == 0 || strchr(row->letters, *core_types[t]);
      if (row->kind == kind && takes_type)
        add_expression(add_function(kit, functions, core_types[t],
                                    row->gives_bool ? "int32" : core_types[t], wide_floats),
                       core_text(row));
    }
}

/* Constructs with two types or with a vector. */
static void add_others(const Kit *kit, int32_t kind, GPtrArray *functions) {
  static const struct {
    int32_t kind;
    const char *type, *result, *text;
  } rows[] = {
      {BP_IR_CAST, "int32", "float32", "(cast float32@X @a)"},
      {BP_IR_CAST, "float32", "int32", "(cast int32@X @a)"},
      {BP_IR_REINTERPRET, "int32", "float32", "(reinterpret float32@X @a)"},
      {BP_IR_LOAD, "int32", "int32", "(load A @i (lt @a @b))"},
      {BP_IR_LOAD, "float32", "float32", "(load A @i @most)"},
      {BP_IR_STORE, "int32", "int32", "@a (lt @a @b)"},
      {BP_IR_STORE, "float32", "float32", "@a @most"},
      {BP_IR_REDUCE, "int32", "int32", "(reduce add (load A (ramp (mul (floormod i 64) 4) 1 4)))"},
      {BP_IR_REDUCE, "int32", "int32", "(reduce mul (load A (ramp (mul (floormod i 64) 4) 1 4)))"},
      {BP_IR_REDUCE, "int32", "int32", "(reduce min (load B (ramp (mul (floormod i 64) 4) 1 4)))"},
      {BP_IR_REDUCE, "float32", "float32",
       "(reduce max (load B (ramp (mul (floormod i 64) 4) 1 4)))"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
    if (rows[i].kind == kind)
      add_expression(add_function(kit, functions, rows[i].type, rows[i].result, wide_floats),
                     g_strdup(rows[i].text));
}

/* Runs every program of a construct, with the types that every device has. */
static void run_construct(Kit *kit, int32_t kind) {
  GPtrArray *functions = functions_new();
  bp__kit_open_target(kit);
  KIT_OK(bp__program_register(), "registering the functions that programs call");
  int found = add_statements(kit, kind, functions);
  add_expressions(kit, kind, functions);
  add_others(kit, kind, functions);
  KIT_TRUE(found > 0 || functions->len > 0, "the kit has no program for it");
  if (functions->len == 0)
    bp__kit_skip("only functions of the host can have it");
  KIT_TRUE(run_functions(kit, functions), "it cannot be declined: %s", bp_error_message());
}

/* ---- Intrinsics -------------------------------------------------------------------------- */

static void add_intrinsic(const Kit *kit, GPtrArray *functions, const IntrinsicRow *row,
                          const char *type) {
  char *call = bp__program_call(row, row->gives_bool ? "bool" : type);
  Function *function =
      add_function(kit, functions, type, row->gives_bool ? "int32" : type, small_floats);
  if (row->num_args == 1 && bp__program_letter(bp__program_dtype(type)) == 'f')
    function->largest = strcmp(row->name, "tan") == 0 ? 1.2 : 12;
  add_expression(function,
                 row->gives_bool ? g_strdup_printf("(cast int32@X %s)", call) : g_strdup(call));
  g_free(call);
}

static gboolean takes_intrinsic(const Kit *kit, const IntrinsicRow *row, const char *type) {
  return bp__program_takes(row, bp__program_dtype(type)) && claims_type(kit, type);
}

/* Runs an intrinsic for every supported type. A type is omitted if the generator declines the
 * intrinsic for it; if the type has 32 bits, the check is skipped. */
static void run_intrinsic_of_all(Kit *kit, const IntrinsicRow *row) {
  GPtrArray *all = functions_new();
  for (size_t i = 0; i < PROGRAM_TYPES; i++)
    if (takes_intrinsic(kit, row, bp__program_types[i]))
      add_intrinsic(kit, all, row, bp__program_types[i]);
  if (run_functions(kit, all))
    return;
  for (size_t i = 0; i < PROGRAM_TYPES; i++) {
    if (!takes_intrinsic(kit, row, bp__program_types[i]))
      continue;
    GPtrArray *one = functions_new();
    add_intrinsic(kit, one, row, bp__program_types[i]);
    if (!run_functions(kit, one) && is_core_type(bp__program_types[i]))
      bp__kit_skip("%s", bp_error_message());
    bp_error_clear();
  }
}

/* Ends the process now and then: a driver may limit the number of kernels in one process. */
static void run_intrinsic(Kit *kit, const IntrinsicRow *row) {
  static int num_done;
  bp__kit_open_target(kit);
  if (*row->letters)
    run_intrinsic_of_all(kit, row);
  else
    run_construct(kit, BP_IR_ADDRESS);
  if (++num_done == 8)
    bp__kit_exit();
}

/* ---- Random programs --------------------------------------------------------------------- */

#define RANDOM_TYPES  3
#define RANDOM_LOOPS  16
#define RANDOM_DEPTH  5
#define RANDOM_EXTENT (RANDOM_LOOPS * RANDOM_VARS)

/* A random program: out[i] of 16, in 1 or 4 lanes, is an expression of numbers of three types. */
typedef struct RandomProgram {
  uint64_t seed; /* seeds of the program and of its data */
  RandomExpressions random;
  int inputs[RANDOM_TYPES];
  const BpIrNode *buffers[RANDOM_TYPES];
  const BpIrNode *var, *value;
  uint16_t lanes;
} RandomProgram;

static gboolean may_be_random(const Kit *kit, int type) {
  BpDataType dtype = bp__program_dtype(bp__program_types[type]);
  gboolean is_narrow_float = bp__program_letter(dtype) == 'f' && dtype.bits == 16;
  return dtype.code != BP_DTYPE_BOOL && !is_narrow_float &&
         claims_type(kit, bp__program_types[type]);
}

static BpDataType int64_type(void) {
  return bp__program_dtype("int64");
}

static void choose_inputs(const Kit *kit, RandomProgram *program) {
  RandomExpressions *random = &program->random;
  for (int i = 0; i < RANDOM_TYPES; i++) {
    do
      program->inputs[i] = bp__random_below(random, PROGRAM_TYPES);
    while (!may_be_random(kit, program->inputs[i]));
    random->is_used[program->inputs[i]] = TRUE;
  }
}

/* Makes three elements of each buffer; for bool, comparisons of such elements. */
static void make_vars(RandomProgram *program) {
  static const char *const names[RANDOM_TYPES] = {"A", "B", "C"};
  RandomExpressions *random = &program->random;
  BpIrModule *module = random->module;
  const BpIrNode *extent = bp_ir_int(module, int64_type(), RANDOM_EXTENT);
  program->var = bp_ir_var(module, "i", int64_type());
  for (int i = 0; i < RANDOM_TYPES; i++) {
    int type = program->inputs[i];
    program->buffers[i] = bp_ir_buffer(module, names[i], bp__program_dtype(bp__program_types[type]),
                                       BP_IR_SCOPE_GLOBAL, &extent, 1);
    for (int k = 0; k < RANDOM_VARS; k++) {
      const BpIrNode *start = bp_ir_int(module, int64_type(), k * RANDOM_LOOPS);
      const BpIrNode *index = bp_ir_binary(module, BP_IR_ADD, program->var, start);
      random->vars[type][k] = bp_ir_load(module, program->buffers[i], index, NULL);
    }
  }
  for (int k = 0; k < RANDOM_VARS; k++)
    random->vars[0][k] = bp_ir_binary(module, BP_IR_LT, random->vars[program->inputs[0]][k],
                                      random->vars[program->inputs[0]][(k + 1) % RANDOM_VARS]);
}

/* A bool is converted before it is stored: a device need not have buffers of bool. */
static const BpIrNode *storable(RandomProgram *program, const BpIrNode *value) {
  BpDataType dtype = bp_ir_table()->dtype(value);
  BpDataType int32 = {BP_DTYPE_INT, 32, dtype.lanes};
  return dtype.code == BP_DTYPE_BOOL ? bp_ir_cast(program->random.module, int32, value) : value;
}

/* Returns the text of a function that stores `value`, a part of the program's expression
 * (g_free). */
static char *random_function(RandomProgram *program, const BpIrNode *value, const char *name) {
  BpIrModule *module = program->random.module;
  value = storable(program, value);
  BpDataType dtype = bp_ir_table()->dtype(value);
  int64_t lanes = dtype.lanes;
  const BpIrNode *extent = bp_ir_int(module, int64_type(), RANDOM_LOOPS * lanes);
  dtype.lanes = 1;
  const BpIrNode *out = bp_ir_buffer(module, "out", dtype, BP_IR_SCOPE_GLOBAL, &extent, 1);
  const BpIrNode *first =
      bp_ir_binary(module, BP_IR_MUL, program->var, bp_ir_int(module, int64_type(), lanes));
  const BpIrNode *index =
      bp_ir_ramp(module, first, bp_ir_int(module, int64_type(), 1), (uint16_t)lanes);
  const BpIrNode *body =
      bp_ir_for(module, program->var, bp_ir_int(module, int64_type(), 0),
                bp_ir_int(module, int64_type(), RANDOM_LOOPS), BP_IR_FOR_PARALLEL, "",
                bp_ir_store(module, out, index, value, NULL));
  const BpIrNode *params[RANDOM_TYPES + 1] = {program->buffers[0], program->buffers[1],
                                              program->buffers[2], out};
  const BpIrNode *function = bp_ir_function(module, name, params, RANDOM_TYPES + 1, NULL, 0, body);
  BpValue printed;
  BpByteArray view = {NULL, 0};
  KIT_TRUE(function && bp_ir_table()->print(function, &printed) == 0 &&
               bp_value_view_str(&printed, &view) == 0,
           "a random program: %s", bp_error_message());
  char *text = g_strndup(view.data, view.size);
  bp_value_clear(&printed);
  return text;
}

static void fill_random(RandomProgram *program, const char *type, void *data) {
  int64_t ints[PROGRAM_VALUES];
  BpDataType dtype = bp__program_dtype(type);
  char values[PROGRAM_VALUES * 8];
  size_t size = dtype.bits / 8;
  bp__program_ints(dtype, ints);
  for (int i = 0; i < PROGRAM_VALUES && bp__program_letter(dtype) == 'f'; i++)
    ints[i] = i - 7;
  bp__judge_convert("int64", type, ints, values, PROGRAM_VALUES);
  for (size_t i = 0; i < RANDOM_EXTENT; i++)
    memcpy((char *)data + i * size,
           values + (size_t)bp__random_below(&program->random, PROGRAM_VALUES) * size, size);
}

/* Returns the difference between device and interpreter for a function that stores `value`; NULL if
 * both agree (g_free). */
static char *difference_in(const Kit *kit, const KitCode *code, const char *name,
                           RandomProgram *program, const BpIrNode *value) {
  uint64_t state = program->random.state;
  Judged call = {.num_buffers = 0};
  program->random.state = program->seed; /* the same data for each part of the program */
  for (int i = 0; i < RANDOM_TYPES; i++) {
    const char *type = bp__program_types[program->inputs[i]];
    fill_random(program, type, bp__judge_add(&call, type, RANDOM_EXTENT));
  }
  program->random.state = state;
  BpDataType dtype = bp_ir_table()->dtype(storable(program, value));
  int64_t extent = (int64_t)dtype.lanes * RANDOM_LOOPS;
  dtype.lanes = 1;
  char type[32], *difference = NULL;
  bp_dtype_format(dtype, type, sizeof type);
  bp__judge_add(&call, type, extent);
  int64_t k = bp__judge_run(kit, code, name, &call);
  if (k >= 0) {
    char *text = random_function(program, value, name);
    difference = g_strdup_printf("element %" G_GINT64_FORMAT " is %.17g and not %.17g, in\n%s", k,
                                 bp__judge_number(type, call.got[RANDOM_TYPES], k),
                                 bp__judge_number(type, call.expected[RANDOM_TYPES], k), text);
    g_free(text);
  }
  bp__judge_clear(&call);
  return difference;
}

/* Compares a module that contains only one function. */
static char *difference_of(const Kit *kit, RandomProgram *program, const BpIrNode *value) {
  char *function = random_function(program, value, "f");
  char *text = g_strdup_printf("(module %s)", function);
  KitCode code = bp__kit_build(kit, text);
  char *difference = difference_in(kit, &code, "f", program, value);
  bp__kit_code_clear(&code);
  g_free(text);
  g_free(function);
  return difference;
}

/* Replaces the program by one of its operands as long as the operand alone fails, too. */
static void fail_random(const Kit *kit, RandomProgram *program, char *difference) {
  const BpIrTable *ir = bp_ir_table();
  const BpIrNode *value = program->value;
  for (int32_t i = 0; i < ir->num_operands(value); i++) {
    const BpIrNode *operand = ir->operand(value, i);
    char *smaller = ir->kind(operand) == BP_IR_BUFFER ? NULL : difference_of(kit, program, operand);
    if (!smaller)
      continue;
    g_free(difference);
    difference = smaller;
    value = operand;
    i = -1;
  }
  bp__kit_fail("--seed %" G_GUINT64_FORMAT ": %s", program->seed, difference);
}

static void make_random(const Kit *kit, RandomProgram *program, uint64_t seed) {
  *program = (RandomProgram){.seed = seed, .random = {.state = seed, .is_exact = TRUE}};
  program->random.module = bp_ir_module_create();
  KIT_TRUE(program->random.module, "a random program: %s", bp_error_message());
  choose_inputs(kit, program);
  make_vars(program);
  program->lanes = bp__random_below(&program->random, 2) ? 4 : 1;
  program->value = bp__random_expression(&program->random, bp__random_type(&program->random),
                                         program->lanes, RANDOM_DEPTH);
  KIT_TRUE(program->value, "a random program: %s", bp_error_message());
}

#define RANDOM_TOGETHER                                                                            \
  20 /* programs in one module, because starting a compiler takes most of the time */

static KitCode build_together(const Kit *kit, RandomProgram *programs) {
  GString *text = g_string_new("(module");
  for (int i = 0; i < RANDOM_TOGETHER; i++) {
    char name[16];
    g_snprintf(name, sizeof name, "f%d", i);
    char *function = random_function(&programs[i], programs[i].value, name);
    g_string_append_printf(text, "\n%s", function);
    g_free(function);
  }
  g_string_append(text, ")");
  KitCode code = bp__kit_try_build(kit, text->str);
  bp__kit_go_on();
  g_string_free(text, TRUE);
  return code;
}

/* If a module with all programs is refused, or a program fails, each program is tried by itself. */
static void run_together(const Kit *kit, uint64_t first) {
  RandomProgram programs[RANDOM_TOGETHER];
  for (int i = 0; i < RANDOM_TOGETHER; i++)
    make_random(kit, &programs[i], first + (uint64_t)i);
  KitCode code = build_together(kit, programs);
  for (int i = 0; i < RANDOM_TOGETHER; i++) {
    RandomProgram *program = &programs[i];
    char name[16];
    g_snprintf(name, sizeof name, "f%d", i);
    char *difference = code.module ? difference_in(kit, &code, name, program, program->value)
                                   : difference_of(kit, program, program->value);
    if (difference)
      fail_random(kit, program, difference);
    bp_object_release(program->random.module);
  }
  bp_error_clear();
  bp__kit_code_clear(&code);
}

static void run_random_programs(Kit *kit, uint64_t first, uint64_t count) {
  bp__kit_open_target(kit);
  for (uint64_t i = 0; i < count; i += RANDOM_TOGETHER)
    run_together(kit, kit->seed + first + i);
}

static void run_random(Kit *kit) {
  run_random_programs(kit, 0, RANDOM_TOGETHER);
}

static void run_more_random(Kit *kit) {
  run_random_programs(kit, RANDOM_TOGETHER, 60);
}

/* ---- Checks ------------------------------------------------------------------------------ */

#define RUN_KIND(name, number, text, meaning)                                                      \
  static void run_kind_##name(Kit *kit) {                                                          \
    run_construct(kit, number);                                                                    \
  }
BP_IR_KINDS(RUN_KIND)

#define RUN_INTRINSIC(name, letters, num_args, gives_bool)                                         \
  static void run_intrinsic_##name(Kit *kit) {                                                     \
    run_intrinsic(kit, &(const IntrinsicRow){#name, letters, num_args, gives_bool});               \
  }
PROGRAM_INTRINSICS(RUN_INTRINSIC)

/* X(name, tags) */
#define TYPES(X)                                                                                   \
  X(int32, CHECK_CORE)                                                                             \
  X(float32, CHECK_CORE)                                                                           \
  X(bool, CHECK_OPTIONAL)                                                                          \
  X(int8, CHECK_OPTIONAL)                                                                          \
  X(uint8, CHECK_OPTIONAL)                                                                         \
  X(int16, CHECK_OPTIONAL)                                                                         \
  X(uint16, CHECK_OPTIONAL)                                                                        \
  X(uint32, CHECK_OPTIONAL)                                                                        \
  X(int64, CHECK_OPTIONAL)                                                                         \
  X(uint64, CHECK_OPTIONAL)                                                                        \
  X(float16, CHECK_OPTIONAL)                                                                       \
  X(bfloat16, CHECK_OPTIONAL)                                                                      \
  X(float64, CHECK_OPTIONAL)

#define RUN_TYPE(name, tags)                                                                       \
  static void run_type_##name(Kit *kit) {                                                          \
    run_type(kit, #name);                                                                          \
  }
TYPES(RUN_TYPE)

/* Only functions on the host have strings and assertions. */
#define KIND_TAGS(number)                                                                          \
  ((number) == BP_IR_STR_IMM || (number) == BP_IR_ASSERT ? CHECK_OPTIONAL : CHECK_CORE)
#define KIND_CHECK(name, number, text, meaning)                                                    \
  {"codegen." text, "the construct " text " agrees with the interpreter", "module.call",           \
   KIND_TAGS(number), run_kind_##name},
#define INTRINSIC_CHECK(name, letters, num_args, gives_bool)                                       \
  {"intrinsics." #name, "the intrinsic " #name ", of each type that is supported", "codegen.call", \
   CHECK_OPTIONAL, run_intrinsic_##name},
#define TYPE_CHECK(name, tags)                                                                     \
  {"types." #name, "all operations on " #name " and its conversions",                              \
   "codegen.load codegen.store codegen.for", tags, run_type_##name},

static const Check kind_checks[] = {BP_IR_KINDS(KIND_CHECK)};
static const Check type_checks[] = {TYPES(TYPE_CHECK)};
static const Check intrinsic_checks[] = {PROGRAM_INTRINSICS(INTRINSIC_CHECK)};
static const Check random_checks[] = {
    {"random.programs", "random programs agree with the interpreter", "types.int32 types.float32",
     CHECK_CORE, run_random},
    {"random.more", "more random programs", "random.programs", CHECK_CORE | CHECK_STRESS,
     run_more_random},
};

const Section bp__kit_codegen_section = {"codegen", NEEDS_TARGET, kind_checks,
                                         G_N_ELEMENTS(kind_checks)};
const Section bp__kit_types_section = {"types", NEEDS_TARGET, type_checks,
                                       G_N_ELEMENTS(type_checks)};
const Section bp__kit_intrinsics_section = {"intrinsics", NEEDS_TARGET, intrinsic_checks,
                                            G_N_ELEMENTS(intrinsic_checks)};
const Section bp__kit_random_section = {"random", NEEDS_TARGET, random_checks,
                                        G_N_ELEMENTS(random_checks)};
