/* SPDX-License-Identifier: Apache-2.0 */
/* Every construct of the IR, with every type that it accepts, gives in the reference interpreter
 * the results that this test computes by other means. The programs come from the conformance kit,
 * the constructs from ir_api.h, the types from the verifier, the intrinsics from the library: a
 * construct that is added without a program makes the test fail. */

#include <math.h>
#include <stdbool.h>

#include "conformance/programs.h"
#include "tests/compiler/ir-util.h"

__extension__ typedef __int128 Wide;

/* ---- Types and their values -------------------------------------------------------------- */

/* One value of any type: an integer or bool is in `i`, a float in `f`. */
typedef struct Number {
  Wide i;
  double f;
} Number;

static bool is_float(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
}

static double double_of_16(BpDataType dtype, uint16_t bits) {
  bool is_half = dtype.code == BP_DTYPE_FLOAT;
  int fraction_bits = is_half ? 10 : 7, bias = is_half ? 15 : 127;
  int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  double size = ldexp(fraction + (exponent ? 1 << fraction_bits : 0),
                      (exponent ? exponent : 1) - bias - fraction_bits);
  if (exponent == 2 * bias + 1)
    size = fraction ? (double)NAN : (double)INFINITY;
  return bits & 0x8000 ? -size : size;
}

/* Finds the nearest value of a 16-bit float, the even one of two, by search. */
static uint16_t nearest_16(BpDataType dtype, double value) {
  uint16_t infinity = dtype.code == BP_DTYPE_FLOAT ? 0x7c00 : 0x7f80;
  uint16_t sign = signbit(value) ? 0x8000 : 0, low = 0, high = infinity;
  double size = fabs(value);
  if (isnan(value))
    return dtype.code == BP_DTYPE_FLOAT ? 0x7e00 : 0x7fc0;
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (double_of_16(dtype, middle) <= size)
      low = middle;
    else
      high = middle;
  }
  double below = double_of_16(dtype, low);
  /* Infinity counts as the number that would follow the largest value. */
  double above = high == infinity ? 2 * below - double_of_16(dtype, (uint16_t)(low - 1))
                                  : double_of_16(dtype, high);
  bool up = size - below > above - size || (size - below == above - size && (low & 1));
  return sign | (isinf(size) || up ? high : low);
}

static Number decode(BpDataType dtype, const void *from) {
  uint64_t bits = 0;
  float single;
  Number number = {0, 0};
  memcpy(&bits, from, dtype.bits / 8);
  if (is_float(dtype) && dtype.bits == 16)
    number.f = double_of_16(dtype, (uint16_t)bits);
  else if (is_float(dtype) && dtype.bits == 32)
    memcpy(&single, from, sizeof single), number.f = (double)single;
  else if (is_float(dtype))
    memcpy(&number.f, from, sizeof number.f);
  else
    number.i = (Wide)bits;
  if (dtype.code == BP_DTYPE_INT && bits >> (dtype.bits - 1))
    number.i -= (Wide)1 << dtype.bits;
  return number;
}

static void encode(BpDataType dtype, Number number, void *to) {
  uint64_t bits = (uint64_t)number.i;
  float single = (float)number.f;
  if (dtype.code == BP_DTYPE_BOOL)
    bits = number.i != 0;
  if (is_float(dtype) && dtype.bits == 16)
    bits = nearest_16(dtype, number.f);
  else if (is_float(dtype) && dtype.bits == 32)
    memcpy(&bits, &single, sizeof single);
  else if (is_float(dtype))
    memcpy(&bits, &number.f, sizeof bits);
  memcpy(to, &bits, dtype.bits / 8);
}

/* Values at which operations have edge cases. */
static void awkward_values(BpDataType dtype, Number *values) {
  int64_t ints[PROGRAM_VALUES];
  bp__program_ints(dtype, ints);
  for (int i = 0; i < PROGRAM_VALUES; i++) {
    char bytes[8];
    encode(dtype, (Number){ints[i], bp__program_floats[i]}, bytes);
    values[i] = decode(dtype, bytes);
  }
}

/* ---- Expressions ------------------------------------------------------------------------- */

static Number float_arithmetic(int32_t kind, BpDataType dtype, double a, double b) {
  float x = (float)a, y = (float)b;
  bool is_single = dtype.bits == 32;
  switch (kind) {
  case BP_IR_ADD:
    return (Number){0, is_single ? (double)(x + y) : a + b};
  case BP_IR_SUB:
    return (Number){0, is_single ? (double)(x - y) : a - b};
  case BP_IR_MUL:
    return (Number){0, is_single ? (double)(x * y) : a * b};
  case BP_IR_DIV:
    return (Number){0, is_single ? (double)(x / y) : a / b};
  case BP_IR_MIN:
    return (Number){0, isnan(a) || isnan(b) ? (double)NAN : fmin(a, b)};
  default:
    return (Number){0, isnan(a) || isnan(b) ? (double)NAN : fmax(a, b)};
  }
}

static Wide floor_quotient(Wide a, Wide b) {
  Wide quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static Wide divide(int32_t kind, Wide a, Wide b) {
  if (b == 0)
    return 0;
  switch (kind) {
  case BP_IR_DIV:
    return a / b;
  case BP_IR_MOD:
    return a % b;
  case BP_IR_FLOORDIV:
    return floor_quotient(a, b);
  default:
    return a - floor_quotient(a, b) * b;
  }
}

static Wide shift(int32_t kind, BpDataType dtype, Wide a, Wide b) {
  Wide factor = 1;
  if (b < 0 || b >= dtype.bits)
    return kind == BP_IR_SHR && a < 0 ? -1 : 0;
  for (Wide i = 0; i < b; i++)
    factor *= 2;
  return kind == BP_IR_SHL ? (Wide)((unsigned __int128)a * (unsigned __int128)factor)
                           : floor_quotient(a, factor);
}

static Number arithmetic(int32_t kind, BpDataType dtype, Number a, Number b) {
  if (is_float(dtype))
    return float_arithmetic(kind, dtype, a.f, b.f);
  switch (kind) {
  case BP_IR_ADD:
    return (Number){a.i + b.i, 0};
  case BP_IR_SUB:
    return (Number){a.i - b.i, 0};
  case BP_IR_MUL:
    return (Number){(Wide)((unsigned __int128)a.i * (unsigned __int128)b.i), 0};
  case BP_IR_MIN:
    return (Number){a.i < b.i ? a.i : b.i, 0};
  case BP_IR_MAX:
    return (Number){a.i < b.i ? b.i : a.i, 0};
  case BP_IR_BIT_AND:
    return (Number){a.i & b.i, 0};
  case BP_IR_BIT_OR:
    return (Number){a.i | b.i, 0};
  case BP_IR_BIT_XOR:
    return (Number){a.i ^ b.i, 0};
  case BP_IR_SHL:
  case BP_IR_SHR:
    return (Number){shift(kind, dtype, a.i, b.i), 0};
  default:
    return (Number){divide(kind, a.i, b.i), 0};
  }
}

static Number compare(int32_t kind, BpDataType dtype, Number a, Number b) {
  bool equal = is_float(dtype) ? a.f == b.f : a.i == b.i;
  bool less = is_float(dtype) ? a.f < b.f : a.i < b.i;
  bool greater = is_float(dtype) ? a.f > b.f : a.i > b.i;
  switch (kind) {
  case BP_IR_EQ:
    return (Number){equal, 0};
  case BP_IR_NE:
    return (Number){!equal, 0};
  case BP_IR_LT:
    return (Number){less, 0};
  case BP_IR_LE:
    return (Number){less || equal, 0};
  case BP_IR_GT:
    return (Number){greater, 0};
  default:
    return (Number){greater || equal, 0};
  }
}

static Number logic(int32_t kind, BpDataType dtype, Number a, Number b) {
  (void)dtype;
  return (Number){kind == BP_IR_AND ? a.i && b.i : kind == BP_IR_OR ? a.i || b.i : !a.i, 0};
}

#define NUM_PAIRS (PROGRAM_VALUES * PROGRAM_VALUES)

/* Makes a module whose f(A, B, C) stores the expression of A and B to C, `lanes` at a time. */
static char *program_of(const char *expression, const char *type, const char *result, int lanes) {
  char *loop = bp__program_loop(expression, type, lanes, 0, NUM_PAIRS);
  char *function = bp__program_function("f", type, result, NUM_PAIRS, NUM_PAIRS, loop);
  char *text = g_strdup_printf("(module %s)", function);
  g_free(loop);
  g_free(function);
  return text;
}

/* Fills A with each value many times, and B with all values in turn. */
static void make_pairs(BpDataType dtype, char *a, char *b) {
  Number values[PROGRAM_VALUES];
  size_t size = dtype.bits / 8;
  awkward_values(dtype, values);
  for (size_t i = 0; i < NUM_PAIRS; i++) {
    encode(dtype, values[i / PROGRAM_VALUES], a + i * size);
    encode(dtype, values[i % PROGRAM_VALUES], b + i * size);
  }
}

static bool is_same(BpDataType dtype, const void *a, const void *b, bool zeros_equal) {
  Number x = decode(dtype, a), y = decode(dtype, b);
  if (is_float(dtype) && isnan(y.f))
    return isnan(x.f);
  if (is_float(dtype) && zeros_equal && y.f == 0)
    return x.f == 0;
  return !memcmp(a, b, dtype.bits / 8);
}

/* Computes the expected element of C for one pair. */
typedef void (*Expected)(const void *context, const void *a, const void *b, void *c);

static void check_pairs(const char *expression, const char *type, const char *result, int lanes,
                        Expected expected, const void *context, bool zeros_equal) {
  char a[NUM_PAIRS * 8], b[NUM_PAIRS * 8], c[NUM_PAIRS * 8], wanted[8];
  BpDataType from = dtype_of(type), to = dtype_of(result);
  Array arrays[3];
  char *text = program_of(expression, type, result, lanes);
  BpIrModule *module = parse_verified(text);
  make_pairs(from, a, b);
  BpValue args[] = {array_value(&arrays[0], a, from, NUM_PAIRS),
                    array_value(&arrays[1], b, from, NUM_PAIRS),
                    array_value(&arrays[2], c, to, NUM_PAIRS)};
  assert_ok(bp_ir_interpret(module, "f", args, 3));
  for (size_t i = 0; i < NUM_PAIRS; i++) {
    size_t in = i * (from.bits / 8), out = i * (to.bits / 8);
    expected(context, a + in, b + in, wanted);
    if (is_same(to, c + out, wanted, zeros_equal))
      continue;
    Number x = decode(from, a + in), y = decode(from, b + in), z = decode(to, c + out);
    Number w = decode(to, wanted);
    g_error("%s of %s x%d: a = %lld %.17g, b = %lld %.17g: %lld %.17g, not %lld %.17g", expression,
            type, lanes, (long long)x.i, x.f, (long long)y.i, y.f, (long long)z.i, z.f,
            (long long)w.i, w.f);
  }
  bp_object_release(module);
  g_free(text);
}

static bool is_refused(const char *text) {
  BpIrModule *module = parse_ok(text);
  bool refused = bp_ir_verify(module) != 0;
  bp_error_clear();
  bp_object_release(module);
  return refused;
}

typedef struct ExpressionCase {
  const ExpressionRow *row;
  BpDataType dtype;
} ExpressionCase;

static void expected_of_row(const void *context, const void *a, const void *b, void *c) {
  const ExpressionCase *tried = context;
  const ExpressionRow *row = tried->row;
  Number x = decode(tried->dtype, a), y = decode(tried->dtype, b);
  bool is_comparison = row->kind >= BP_IR_EQ && row->kind <= BP_IR_GE;
  Number (*meaning)(int32_t, BpDataType, Number, Number) = is_comparison     ? compare
                                                           : row->gives_bool ? logic
                                                                             : arithmetic;
  encode(row->gives_bool ? dtype_of("bool") : tried->dtype, meaning(row->kind, tried->dtype, x, y),
         c);
}

/* Runs the row with each type that it accepts; the verifier refuses it with the other types. */
static void check_expression(const ExpressionRow *row) {
  for (size_t t = 0; t < PROGRAM_TYPES; t++) {
    const char *type = bp__program_types[t], *result = row->gives_bool ? "bool" : type;
    ExpressionCase tried = {row, dtype_of(type)};
    if (!strchr(row->letters, bp__program_letter(tried.dtype))) {
      char *text = program_of(row->text, type, result, 1);
      if (!is_refused(text))
        g_error("the verifier takes %s of %s, which has no program", row->text, type);
      g_free(text);
      continue;
    }
    bool zeros_equal = row->kind == BP_IR_MIN || row->kind == BP_IR_MAX;
    check_pairs(row->text, type, result, 1, expected_of_row, &tried, zeros_equal);
    check_pairs(row->text, type, result, 4, expected_of_row, &tried, zeros_equal);
  }
}

/* ---- Conversions ------------------------------------------------------------------------- */

typedef struct Conversion {
  BpDataType from, to;
} Conversion;

static Wide clamped_integer(BpDataType to, double value) {
  bool is_signed = to.code == BP_DTYPE_INT;
  Wide end = (Wide)1 << (is_signed ? to.bits - 1 : to.bits);
  long double whole = truncl((long double)value);
  if (isnan(value))
    return 0;
  if (whole >= (long double)end)
    return end - 1;
  if (whole < (is_signed ? -(long double)end : 0))
    return is_signed ? -end : 0;
  return (Wide)whole;
}

static void expected_cast(const void *context, const void *a, const void *b, void *c) {
  const Conversion *conversion = context;
  BpDataType to = conversion->to;
  Number x = decode(conversion->from, a), y = {0, 0};
  (void)b;
  if (is_float(to)) {
    long double exact = is_float(conversion->from) ? (long double)x.f : (long double)x.i;
    y.f = to.bits == 64 ? (double)exact : (double)(float)exact;
  } else if (to.code == BP_DTYPE_BOOL) {
    y.i = is_float(conversion->from) ? x.f != 0 : x.i != 0;
  } else {
    y.i = is_float(conversion->from) ? clamped_integer(to, x.f) : x.i;
  }
  encode(to, y, c);
}

static void check_casts(void) {
  for (size_t from = 0; from < PROGRAM_TYPES; from++)
    for (size_t to = 0; to < PROGRAM_TYPES; to++) {
      Conversion conversion = {dtype_of(bp__program_types[from]), dtype_of(bp__program_types[to])};
      char *text = g_strdup_printf("(cast %s@X @a)", bp__program_types[to]);
      check_pairs(text, bp__program_types[from], bp__program_types[to], 1, expected_cast,
                  &conversion, false);
      check_pairs(text, bp__program_types[from], bp__program_types[to], 4, expected_cast,
                  &conversion, false);
      g_free(text);
    }
}

static void expected_bits(const void *context, const void *a, const void *b, void *c) {
  (void)b;
  memcpy(c, a, ((const Conversion *)context)->from.bits / 8);
}

/* Reinterpretation works between types of one size; from and to bool, and to another size, it is
 * refused. */
static void check_reinterprets(void) {
  for (size_t from = 0; from < PROGRAM_TYPES; from++)
    for (size_t to = 0; to < PROGRAM_TYPES; to++) {
      Conversion conversion = {dtype_of(bp__program_types[from]), dtype_of(bp__program_types[to])};
      char *text = g_strdup_printf("(reinterpret %s@X @a)", bp__program_types[to]);
      char *program = program_of(text, bp__program_types[from], bp__program_types[to], 1);
      bool fits = conversion.from.bits == conversion.to.bits && from > 0 && to > 0;
      g_assert_cmpint(is_refused(program), ==, !fits);
      if (fits)
        check_pairs(text, bp__program_types[from], bp__program_types[to], 1, expected_bits,
                    &conversion, false);
      if (fits)
        check_pairs(text, bp__program_types[from], bp__program_types[to], 4, expected_bits,
                    &conversion, false);
      g_free(program);
      g_free(text);
    }
}

/* ---- Reductions -------------------------------------------------------------------------- */

static const struct {
  const char *name;
  int32_t kind;
} reductions[] = {{"add", BP_IR_ADD}, {"mul", BP_IR_MUL}, {"min", BP_IR_MIN}, {"max", BP_IR_MAX}};

/* Reduces each four elements of B, in every lane. */
static void check_reduction(const char *name, int32_t kind, const char *type) {
  BpDataType dtype = dtype_of(type);
  size_t size = dtype.bits / 8;
  char *body =
      g_strdup_printf("(for i:int64 0 4 serial (store C i (reduce %s (load A (ramp (mul i 4)"
                      " 1 4)))))",
                      name);
  char *text = g_strdup_printf("(module (function \"f\" (buffer A %s global 16)"
                               " (buffer C %s global 4) %s))",
                               type, type, body);
  char a[16 * 8], c[4 * 8], wanted[8];
  Number values[PROGRAM_VALUES];
  Array arrays[2];
  awkward_values(dtype, values);
  for (size_t i = 0; i < 16; i++)
    encode(dtype, values[i], a + i * size);
  BpIrModule *module = parse_verified(text);
  BpValue args[] = {array_value(&arrays[0], a, dtype, 16), array_value(&arrays[1], c, dtype, 4)};
  assert_ok(bp_ir_interpret(module, "f", args, 2));
  for (size_t i = 0; i < 4; i++) {
    memcpy(wanted, a + 4 * i * size, size);
    for (size_t k = 1; k < 4; k++)
      encode(dtype, arithmetic(kind, dtype, decode(dtype, wanted), values[4 * i + k]), wanted);
    if (!is_same(dtype, c + i * size, wanted, true))
      g_error("reduce %s of %s, number %zu", name, type, i);
  }
  bp_object_release(module);
  g_free(text);
  g_free(body);
}

static void check_reductions(void) {
  for (size_t r = 0; r < G_N_ELEMENTS(reductions); r++)
    for (size_t t = 1; t < PROGRAM_TYPES; t++)
      check_reduction(reductions[r].name, reductions[r].kind, bp__program_types[t]);
  g_assert_true(is_refused("(module (function \"f\" (buffer A bool global 4)"
                           " (store A 0 (reduce max (load A (ramp 0 1 4))))))"));
  g_assert_true(is_refused("(module (function \"f\" (buffer A int8 global 4)"
                           " (store A 0 (reduce bit_and (load A (ramp 0 1 4))))))"));
}

/* ---- Intrinsics -------------------------------------------------------------------------- */

typedef struct Intrinsic {
  const char *name;
  double (*unary)(double); /* result of the intrinsic on floats */
  double (*binary)(double, double);
} Intrinsic;

static double reciprocal_root(double a) {
  return 1 / sqrt(a);
}
static double sigmoid(double a) {
  return 1 / (1 + exp(-a));
}
static double to_even(double a) {
  double low = floor(a);
  return a - low > 0.5 || (a - low == 0.5 && fmod(low, 2) != 0) ? copysign(low + 1, a)
                                                                : copysign(low, a);
}
static double is_nan(double a) {
  return isnan(a) != 0;
}
static double is_infinite(double a) {
  return isinf(a) != 0;
}

static const Intrinsic intrinsics[] = {
    {"exp", exp, NULL},           {"exp2", exp2, NULL},         {"expm1", expm1, NULL},
    {"log", log, NULL},           {"log2", log2, NULL},         {"log10", log10, NULL},
    {"log1p", log1p, NULL},       {"sqrt", sqrt, NULL},         {"rsqrt", reciprocal_root, NULL},
    {"sin", sin, NULL},           {"cos", cos, NULL},           {"tan", tan, NULL},
    {"asin", asin, NULL},         {"acos", acos, NULL},         {"atan", atan, NULL},
    {"sinh", sinh, NULL},         {"cosh", cosh, NULL},         {"tanh", tanh, NULL},
    {"asinh", asinh, NULL},       {"acosh", acosh, NULL},       {"atanh", atanh, NULL},
    {"erf", erf, NULL},           {"sigmoid", sigmoid, NULL},   {"floor", floor, NULL},
    {"ceil", ceil, NULL},         {"trunc", trunc, NULL},       {"round", to_even, NULL},
    {"pow", NULL, pow},           {"atan2", NULL, atan2},       {"fmod", NULL, fmod},
    {"copysign", NULL, copysign}, {"fma", NULL, NULL},          {"abs", fabs, NULL},
    {"isnan", is_nan, NULL},      {"isinf", is_infinite, NULL}, {"popcount", NULL, NULL},
    {"dot4_us", NULL, NULL},      {"prefetch", NULL, NULL},
};

/* Finds the expected results of a row in this file; NULL: the row has a function of its own. */
static const Intrinsic *find_intrinsic(const char *name) {
  for (size_t i = 0; i < G_N_ELEMENTS(intrinsics); i++)
    if (!strcmp(intrinsics[i].name, name))
      return &intrinsics[i];
  return NULL;
}

typedef struct IntrinsicCase {
  const IntrinsicRow *row;
  const Intrinsic *meaning;
  BpDataType dtype;
} IntrinsicCase;

static Wide ones_of(BpDataType dtype, Wide value) {
  Wide count = 0;
  for (int bit = 0; bit < dtype.bits; bit++)
    count += value >> bit & 1;
  return count;
}

/* The products of the unsigned bytes of a and the signed bytes of b. */
static Wide dot_of_bytes(Wide a, Wide b) {
  uint8_t left[4];
  int8_t right[4];
  int32_t words[2] = {(int32_t)a, (int32_t)b};
  memcpy(left, &words[0], 4);
  memcpy(right, &words[1], 4);
  return left[0] * right[0] + left[1] * right[1] + left[2] * right[2] + left[3] * right[3];
}

static void expected_intrinsic(const void *context, const void *a, const void *b, void *c) {
  const IntrinsicCase *tried = context;
  const Intrinsic *meaning = tried->meaning;
  Number x = decode(tried->dtype, a), y = decode(tried->dtype, b), z = {0, 0};
  if (!is_float(tried->dtype) && tried->row->num_args == 3)
    z.i = x.i + dot_of_bytes(x.i, y.i);
  else if (!is_float(tried->dtype))
    z.i = meaning->unary ? (x.i < 0 ? -x.i : x.i) : ones_of(tried->dtype, x.i);
  else if (tried->row->num_args == 3)
    z.f = fma(x.f, y.f, x.f);
  else
    z.f = meaning->unary ? meaning->unary(x.f) : meaning->binary(x.f, y.f);
  if (tried->row->gives_bool)
    z.i = z.f != 0;
  encode(tried->row->gives_bool ? dtype_of("bool") : tried->dtype, z, c);
}

static void check_intrinsic(const IntrinsicRow *row) {
  const Intrinsic *meaning = find_intrinsic(row->name);
  if (!meaning)
    g_error("intrinsic %s has no meaning here", row->name);
  for (size_t t = 0; t < PROGRAM_TYPES; t++) {
    const char *type = bp__program_types[t], *result = row->gives_bool ? "bool" : type;
    IntrinsicCase tried = {row, meaning, dtype_of(type)};
    char *text = bp__program_call(row, result);
    char *program = program_of(text, type, result, 1);
    bool fits = bp__program_takes(row, tried.dtype);
    g_assert_cmpint(is_refused(program), ==, !fits);
    if (fits)
      check_pairs(text, type, result, 1, expected_intrinsic, &tried, false);
    if (fits)
      check_pairs(text, type, result, 4, expected_intrinsic, &tried, false);
    g_free(program);
    g_free(text);
  }
}

static void test_intrinsics_agree_with_the_c_library(void) {
  size_t count = 0;
  for (const char *name; (name = bp_ir_intrinsic_name((int32_t)count)) != NULL; count++) {
    size_t row = 0;
    while (row < bp__program_num_intrinsics && strcmp(bp__program_intrinsics[row].name, name) != 0)
      row++;
    if (row == bp__program_num_intrinsics)
      g_error("intrinsic %s has no program", name);
    check_intrinsic(&bp__program_intrinsics[row]);
  }
  g_assert_cmpuint(count, ==, bp__program_num_intrinsics);
}

/* ---- Statements, memory and calls -------------------------------------------------------- */

static BpValue number_value(BpDataType dtype, Number number) {
  BpValue value = {.type_index = is_float(dtype) ? BP_TYPE_FLOAT : BP_TYPE_INT};
  if (is_float(dtype))
    value.v_float64 = number.f;
  else
    value.v_int64 = (int64_t)number.i;
  return value;
}

static void check_statement(const StatementRow *row, const char *type) {
  BpDataType dtype = dtype_of(type);
  size_t size = dtype.bits / 8;
  char a[64], c[64], wanted[64];
  Number values[PROGRAM_VALUES];
  Array arrays[2];
  awkward_values(dtype, values);
  for (size_t i = 0; i < PROGRAM_ELEMENTS; i++)
    encode(dtype, values[i], a + i * size);
  memset(c, 0x55, sizeof c);
  memset(wanted, 0x55, sizeof wanted);
  for (size_t i = 0; i < PROGRAM_ELEMENTS; i++)
    if (row->result[i] != '.')
      memcpy(wanted + i * size, a + (size_t)(row->result[i] - '0') * size, size);
  char *functions = bp__program_statement(row, "f", type);
  char *text = g_strdup_printf("(module %s)", functions);
  BpIrModule *module = parse_verified(text);
  BpValue args[] = {array_value(&arrays[0], a, dtype, PROGRAM_ELEMENTS),
                    array_value(&arrays[1], c, dtype, PROGRAM_ELEMENTS),
                    number_value(dtype, values[5])};
  if (bp_ir_interpret(module, "f", args, 3))
    g_error("%s of %s: %s", row->body, type, bp_error_message());
  for (size_t i = 0; i < PROGRAM_ELEMENTS; i++)
    if (memcmp(c + i * size, wanted + i * size, size))
      g_error("%s of %s: element %zu differs", row->body, type, i);
  bp_object_release(module);
  g_free(text);
  g_free(functions);
}

static void check_statement_of_all_types(const StatementRow *row) {
  for (size_t t = 0; t < PROGRAM_TYPES; t++)
    if (!row->letters || strchr(row->letters, bp__program_letter(dtype_of(bp__program_types[t]))))
      check_statement(row, bp__program_types[t]);
}

/* ---- Every construct --------------------------------------------------------------------- */

static void test_construct(gconstpointer context) {
  int32_t kind = GPOINTER_TO_INT(context);
  int found = 0;
  for (size_t i = 0; i < bp__program_num_statements; i++)
    if (bp__program_statements[i].kind == kind) {
      check_statement_of_all_types(&bp__program_statements[i]);
      found++;
    }
  for (size_t i = 0; i < bp__program_num_expressions; i++)
    if (bp__program_expressions[i].kind == kind) {
      check_expression(&bp__program_expressions[i]);
      found++;
    }
  if (kind == BP_IR_CAST)
    check_casts();
  else if (kind == BP_IR_REINTERPRET)
    check_reinterprets();
  else if (kind == BP_IR_REDUCE)
    check_reductions();
  else if (!found)
    g_error("construct %s has no program", bp_ir_table()->kind_name(kind));
}

/* The verifier accepts exactly the buffer types of the list. */
static void test_types_are_all_there(void) {
  size_t found = 0;
  for (int code = 0; code < 32; code++)
    for (int bits = 0; bits < 256; bits++) {
      BpIrModule *module = bp_ir_module_create();
      BpDataType dtype = {(uint8_t)code, (uint8_t)bits, 1};
      const BpIrNode *buffer = bp_ir_buffer(module, "A", dtype, BP_IR_SCOPE_GLOBAL, NULL, 0);
      const BpIrNode *body = bp_ir_seq(module, NULL, 0);
      assert_ok(bp_ir_module_add(module, bp_ir_function(module, "f", &buffer, 1, NULL, 0, body)));
      if (!bp_ir_verify(module)) {
        size_t t = 0;
        BpDataType known;
        for (; t < PROGRAM_TYPES; t++)
          if (known = dtype_of(bp__program_types[t]), known.code == code && known.bits == bits)
            break;
        g_assert_cmpuint(t, <, PROGRAM_TYPES);
        found++;
      }
      bp_error_clear();
      bp_object_release(module);
    }
  g_assert_cmpuint(found, ==, PROGRAM_TYPES);
}

/* Kinds whose forms have numbers: a number beyond the forms with rows is refused. */
static void test_forms_are_all_there(void) {
  static const struct {
    int32_t kind;
    int64_t beyond;
  } forms[] = {{BP_IR_FOR, BP_IR_FOR_BOUND + 1},
               {BP_IR_BUFFER, BP_IR_SCOPE_LOCAL + 1},
               {BP_IR_CALL, BP_IR_CALL_PACKED + 1}};
  for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
    BpIrModule *module = bp_ir_module_create();
    BpDataType int64 = dtype_of("int64");
    const BpIrNode *var = bp_ir_var(module, "i", int64), *one = bp_ir_int(module, int64, 1);
    bool is_for = forms[i].kind == BP_IR_FOR, is_buffer = forms[i].kind == BP_IR_BUFFER;
    BpDataType nothing = {BP_DTYPE_HANDLE, 0, 0};
    const BpIrNode *body = bp_ir_make(module, BP_IR_EVALUATE, nothing, &one, 1, 0, 0, NULL);
    int32_t form = (int32_t)forms[i].beyond;
    if (is_for)
      body = bp_ir_for(module, var, one, one, form, "", body);
    else if (is_buffer)
      body = bp_ir_allocate(module, bp_ir_buffer(module, "B", int64, form, &one, 1), body);
    else
      body = bp_ir_let(module, var, bp_ir_call(module, int64, form, "abs", &one, 1), body);
    assert_ok(bp_ir_module_add(module, bp_ir_function(module, "f", NULL, 0, NULL, 0, body)));
    g_assert_cmpint(bp_ir_verify(module), ==, -1);
    assert_error(BP_ERROR_VALUE, "unknown");
    bp_object_release(module);
  }
}

static const struct {
  int32_t kind;
  const char *name;
} kinds[] = {
#define KIND(name, number, text, meaning) {number, text},
    BP_IR_KINDS(KIND)
#undef KIND
};

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  assert_ok(bp__program_register());
  g_test_add_func("/ir/constructs/types-are-all-there", test_types_are_all_there);
  g_test_add_func("/ir/constructs/forms-are-all-there", test_forms_are_all_there);
  for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
    char *path = g_strdup_printf("/ir/constructs/%s", kinds[i].name);
    g_test_add_data_func(path, GINT_TO_POINTER(kinds[i].kind), test_construct);
    g_free(path);
  }
  g_test_add_func("/ir/constructs/intrinsics-agree-with-the-c-library",
                  test_intrinsics_agree_with_the_c_library);
  return g_test_run();
}
