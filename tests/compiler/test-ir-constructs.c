/* SPDX-License-Identifier: Apache-2.0 */
/* Every construct of the IR, with every type that it takes, means in the reference interpreter what
 * is computed here by other means. The constructs are those of ir_api.h, the types those that the
 * verifier takes, the intrinsics those of the library: one that is added without a row here makes
 * the test fail. */

#include <math.h>
#include <stdbool.h>

#include "tests/compiler/ir-util.h"

__extension__ typedef __int128 Wide;

/* ---- Types and their values -------------------------------------------------------------- */

static const char *const types[] = {"bool",     "int8",    "uint8",  "int16",  "uint16",
                                    "int32",    "uint32",  "int64",  "uint64", "float16",
                                    "bfloat16", "float32", "float64"};
#define NUM_TYPES G_N_ELEMENTS(types)

/* One value of any type: an integer or bool is in `i`, a float in `f`. */
typedef struct Number {
  Wide i;
  double f;
} Number;

static bool is_float(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
}

/* The letter by which rows name a group of types. */
static char letter_of(BpDataType dtype) {
  return dtype.code == BP_DTYPE_BOOL ? 'b' : is_float(dtype) ? 'f' : 'i';
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

/* The nearest of all values of a 16-bit float, the even one of two: found by search. */
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
  /* Infinity counts as the number that would follow the largest. */
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

#define NUM_VALUES 16

/* Values at which operations have their ends; the first are 0 and 1. */
static void awkward_values(BpDataType dtype, Number *values) {
  static const double floats[NUM_VALUES] = {
      0, 1, -0.0, -1, 0.5, 3, -2.5, 65504, 6e-8, 1e-40, 100.25, 0.1, INFINITY, -INFINITY, NAN, -7};
  Wide top = (Wide)1 << (dtype.bits - 1);
  const Wide ints[NUM_VALUES] = {0,       1,       -1,      2,          3,   7,    -5,
                                 top,     top - 1, top + 1, dtype.bits, 100, -100, dtype.bits - 1,
                                 top / 2, 85};
  for (int i = 0; i < NUM_VALUES; i++) {
    char bytes[8];
    encode(dtype, (Number){ints[i], floats[i]}, bytes);
    values[i] = decode(dtype, bytes);
  }
}

/* ---- Expressions ------------------------------------------------------------------------- */

typedef Number (*Meaning)(int32_t kind, BpDataType dtype, Number a, Number b);

/* An expression over @a and @b, which are of type @T with @X lanes. */
typedef struct Expression {
  int32_t kind;
  const char *text;
  const char *letters; /* of the types that it takes */
  Meaning meaning;     /* what it gives: a value of the type, or a bool */
  bool gives_bool;
} Expression;

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

/* Row of a construct over numbers a and b, by the text of its kind. */
static const Expression expressions[] = {
    {BP_IR_ADD, "(add @a @b)", "if", arithmetic, false},
    {BP_IR_SUB, "(sub @a @b)", "if", arithmetic, false},
    {BP_IR_MUL, "(mul @a @b)", "if", arithmetic, false},
    {BP_IR_DIV, "(div @a @b)", "if", arithmetic, false},
    {BP_IR_MOD, "(mod @a @b)", "i", arithmetic, false},
    {BP_IR_FLOORDIV, "(floordiv @a @b)", "i", arithmetic, false},
    {BP_IR_FLOORMOD, "(floormod @a @b)", "i", arithmetic, false},
    {BP_IR_MIN, "(min @a @b)", "if", arithmetic, false},
    {BP_IR_MAX, "(max @a @b)", "if", arithmetic, false},
    {BP_IR_EQ, "(eq @a @b)", "bif", compare, true},
    {BP_IR_NE, "(ne @a @b)", "bif", compare, true},
    {BP_IR_LT, "(lt @a @b)", "if", compare, true},
    {BP_IR_LE, "(le @a @b)", "if", compare, true},
    {BP_IR_GT, "(gt @a @b)", "if", compare, true},
    {BP_IR_GE, "(ge @a @b)", "if", compare, true},
    {BP_IR_AND, "(and @a @b)", "b", logic, true},
    {BP_IR_OR, "(or @a @b)", "b", logic, true},
    {BP_IR_NOT, "(not @a)", "b", logic, true},
    {BP_IR_BIT_AND, "(bit_and @a @b)", "bi", arithmetic, false},
    {BP_IR_BIT_OR, "(bit_or @a @b)", "bi", arithmetic, false},
    {BP_IR_BIT_XOR, "(bit_xor @a @b)", "bi", arithmetic, false},
    {BP_IR_SHL, "(shl @a @b)", "i", arithmetic, false},
    {BP_IR_SHR, "(shr @a @b)", "i", arithmetic, false},
};

/* Replaces each @word. */
static char *fill_in(const char *text, const char *const (*words)[2]) {
  char *result = g_strdup(text);
  for (; (*words)[0]; words++) {
    char **parts = g_strsplit(result, (*words)[0], -1);
    g_free(result);
    result = g_strjoinv((*words)[1], parts);
    g_strfreev(parts);
  }
  return result;
}

#define NUM_PAIRS (NUM_VALUES * NUM_VALUES)

/* A module whose f(A, B, C) stores the expression of A and B to C, `lanes` at a time. */
static char *program_of(const char *expression, const char *type, const char *result, int lanes) {
  char *last = g_strdup_printf("%d", NUM_PAIRS / lanes);
  char *index = lanes > 1 ? g_strdup_printf("(ramp (mul i %d) 1 %d)", lanes, lanes) : g_strdup("i");
  char *suffix = lanes > 1 ? g_strdup_printf("x%d", lanes) : g_strdup("");
  char *pairs = g_strdup_printf("%d", NUM_PAIRS);
  const char *const words[][2] = {{"@E", expression}, {"@a", "(load A @i)"}, {"@b", "(load B @i)"},
                                  {"@i", index},      {"@X", suffix},        {"@T", type},
                                  {"@R", result},     {"@N", pairs},         {"@count", last},
                                  {NULL, NULL}};
  char *text = fill_in("(module (function \"f\" (buffer A @T global @N) (buffer B @T global @N)"
                       " (buffer C @R global @N) (for i:int64 0 @count serial (store C @i @E))))",
                       words);
  g_free(last);
  g_free(index);
  g_free(suffix);
  g_free(pairs);
  return text;
}

/* A is each value for long, B all of them in turn. */
static void make_pairs(BpDataType dtype, char *a, char *b) {
  Number values[NUM_VALUES];
  size_t size = dtype.bits / 8;
  awkward_values(dtype, values);
  for (size_t i = 0; i < NUM_PAIRS; i++) {
    encode(dtype, values[i / NUM_VALUES], a + i * size);
    encode(dtype, values[i % NUM_VALUES], b + i * size);
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

/* What C shall be, of one pair. */
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
  const Expression *row;
  BpDataType dtype;
} ExpressionCase;

static void expected_of_row(const void *context, const void *a, const void *b, void *c) {
  const ExpressionCase *tried = context;
  const Expression *row = tried->row;
  Number x = decode(tried->dtype, a), y = decode(tried->dtype, b);
  encode(row->gives_bool ? dtype_of("bool") : tried->dtype,
         row->meaning(row->kind, tried->dtype, x, y), c);
}

/* The row, with each type that it takes; the verifier refuses it with the others. */
static void check_expression(const Expression *row) {
  for (size_t t = 0; t < NUM_TYPES; t++) {
    const char *result = row->gives_bool ? "bool" : types[t];
    ExpressionCase tried = {row, dtype_of(types[t])};
    if (!strchr(row->letters, letter_of(tried.dtype))) {
      char *text = program_of(row->text, types[t], result, 1);
      if (!is_refused(text))
        g_error("the verifier takes %s of %s, which has no test", row->text, types[t]);
      g_free(text);
      continue;
    }
    bool zeros_equal = row->kind == BP_IR_MIN || row->kind == BP_IR_MAX;
    check_pairs(row->text, types[t], result, 1, expected_of_row, &tried, zeros_equal);
    check_pairs(row->text, types[t], result, 4, expected_of_row, &tried, zeros_equal);
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
  for (size_t from = 0; from < NUM_TYPES; from++)
    for (size_t to = 0; to < NUM_TYPES; to++) {
      Conversion conversion = {dtype_of(types[from]), dtype_of(types[to])};
      char *text = g_strdup_printf("(cast %s@X @a)", types[to]);
      check_pairs(text, types[from], types[to], 1, expected_cast, &conversion, false);
      check_pairs(text, types[from], types[to], 4, expected_cast, &conversion, false);
      g_free(text);
    }
}

static void expected_bits(const void *context, const void *a, const void *b, void *c) {
  (void)b;
  memcpy(c, a, ((const Conversion *)context)->from.bits / 8);
}

/* Between types of one size; from and to bool, and to another size, it is refused. */
static void check_reinterprets(void) {
  for (size_t from = 0; from < NUM_TYPES; from++)
    for (size_t to = 0; to < NUM_TYPES; to++) {
      Conversion conversion = {dtype_of(types[from]), dtype_of(types[to])};
      char *text = g_strdup_printf("(reinterpret %s@X @a)", types[to]);
      char *program = program_of(text, types[from], types[to], 1);
      bool fits = conversion.from.bits == conversion.to.bits && from > 0 && to > 0;
      g_assert_cmpint(is_refused(program), ==, !fits);
      if (fits)
        check_pairs(text, types[from], types[to], 1, expected_bits, &conversion, false);
      if (fits)
        check_pairs(text, types[from], types[to], 4, expected_bits, &conversion, false);
      g_free(program);
      g_free(text);
    }
}

/* ---- Reductions -------------------------------------------------------------------------- */

static const struct {
  const char *name;
  int32_t kind;
} reductions[] = {{"add", BP_IR_ADD}, {"mul", BP_IR_MUL}, {"min", BP_IR_MIN}, {"max", BP_IR_MAX}};

/* Of each four of B, in every lane. */
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
  Number values[NUM_VALUES];
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
    for (size_t t = 1; t < NUM_TYPES; t++)
      check_reduction(reductions[r].name, reductions[r].kind, types[t]);
  g_assert_true(is_refused("(module (function \"f\" (buffer A bool global 4)"
                           " (store A 0 (reduce max (load A (ramp 0 1 4))))))"));
  g_assert_true(is_refused("(module (function \"f\" (buffer A int8 global 4)"
                           " (store A 0 (reduce bit_and (load A (ramp 0 1 4))))))"));
}

/* ---- Intrinsics -------------------------------------------------------------------------- */

typedef struct Intrinsic {
  const char *name;
  const char *letters;
  int num_args;
  double (*unary)(double);
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
    {"exp", "f", 1, exp, NULL},
    {"exp2", "f", 1, exp2, NULL},
    {"expm1", "f", 1, expm1, NULL},
    {"log", "f", 1, log, NULL},
    {"log2", "f", 1, log2, NULL},
    {"log10", "f", 1, log10, NULL},
    {"log1p", "f", 1, log1p, NULL},
    {"sqrt", "f", 1, sqrt, NULL},
    {"rsqrt", "f", 1, reciprocal_root, NULL},
    {"sin", "f", 1, sin, NULL},
    {"cos", "f", 1, cos, NULL},
    {"tan", "f", 1, tan, NULL},
    {"asin", "f", 1, asin, NULL},
    {"acos", "f", 1, acos, NULL},
    {"atan", "f", 1, atan, NULL},
    {"sinh", "f", 1, sinh, NULL},
    {"cosh", "f", 1, cosh, NULL},
    {"tanh", "f", 1, tanh, NULL},
    {"asinh", "f", 1, asinh, NULL},
    {"acosh", "f", 1, acosh, NULL},
    {"atanh", "f", 1, atanh, NULL},
    {"erf", "f", 1, erf, NULL},
    {"sigmoid", "f", 1, sigmoid, NULL},
    {"floor", "f", 1, floor, NULL},
    {"ceil", "f", 1, ceil, NULL},
    {"trunc", "f", 1, trunc, NULL},
    {"round", "f", 1, to_even, NULL},
    {"pow", "f", 2, NULL, pow},
    {"atan2", "f", 2, NULL, atan2},
    {"fmod", "f", 2, NULL, fmod},
    {"copysign", "f", 2, NULL, copysign},
    {"fma", "f", 3, NULL, NULL},
    {"abs", "if", 1, fabs, NULL},
    {"isnan", "f", 1, is_nan, NULL},
    {"isinf", "f", 1, is_infinite, NULL},
    {"popcount", "i", 1, NULL, NULL},
    {"prefetch", "", 1, NULL, NULL},
};

typedef struct IntrinsicCase {
  const Intrinsic *row;
  BpDataType dtype;
} IntrinsicCase;

static Wide ones_of(BpDataType dtype, Wide value) {
  Wide count = 0;
  for (int bit = 0; bit < dtype.bits; bit++)
    count += value >> bit & 1;
  return count;
}

static void expected_intrinsic(const void *context, const void *a, const void *b, void *c) {
  const IntrinsicCase *tried = context;
  const Intrinsic *row = tried->row;
  Number x = decode(tried->dtype, a), y = decode(tried->dtype, b), z = {0, 0};
  if (!is_float(tried->dtype))
    z.i = row->unary ? (x.i < 0 ? -x.i : x.i) : ones_of(tried->dtype, x.i);
  else if (row->num_args == 3)
    z.f = fma(x.f, y.f, x.f);
  else
    z.f = row->unary ? row->unary(x.f) : row->binary(x.f, y.f);
  if (!strncmp(row->name, "is", 2)) {
    z.i = z.f != 0;
    encode(dtype_of("bool"), z, c);
    return;
  }
  encode(tried->dtype, z, c);
}

static void check_intrinsic(const Intrinsic *row) {
  bool is_test = !strncmp(row->name, "is", 2);
  static const char *const args[] = {"", "@a", "@a @b", "@a @b @a"};
  for (size_t t = 0; t < NUM_TYPES; t++) {
    IntrinsicCase tried = {row, dtype_of(types[t])};
    const char *result = is_test ? "bool" : types[t];
    char *text =
        g_strdup_printf("(call %s@X intrinsic \"%s\" %s)", result, row->name, args[row->num_args]);
    char *program = program_of(text, types[t], result, 1);
    bool fits = strchr(row->letters, letter_of(tried.dtype)) != NULL;
    g_assert_cmpint(is_refused(program), ==, !fits);
    if (fits)
      check_pairs(text, types[t], result, 1, expected_intrinsic, &tried, false);
    if (fits)
      check_pairs(text, types[t], result, 4, expected_intrinsic, &tried, false);
    g_free(program);
    g_free(text);
  }
}

static const Intrinsic *find_intrinsic(const char *name) {
  for (size_t i = 0; i < G_N_ELEMENTS(intrinsics); i++)
    if (!strcmp(intrinsics[i].name, name))
      return &intrinsics[i];
  return NULL;
}

static void test_intrinsics(void) {
  size_t count = 0;
  for (const char *name; (name = bp_ir_intrinsic_name((int32_t)count)) != NULL; count++) {
    const Intrinsic *row = find_intrinsic(name);
    if (!row)
      g_error("intrinsic %s has no row here", name);
    check_intrinsic(row);
  }
  g_assert_cmpuint(count, ==, G_N_ELEMENTS(intrinsics));
}

/* ---- Statements, memory and calls -------------------------------------------------------- */

/* A body of a function of A and C, of eight of type @T each, and of a number x, which is A[5]; @1
 * is the constant 1. */
typedef struct Statement {
  int32_t kind;
  const char *body;
  /* By element of C: the element of A that it then holds; '.' as before */
  const char *result;
  const char *letters; /* NULL: all types */
} Statement;

#define REVERSED(kind) "(for i:int64 2 4 " kind " (store C i (load A (sub 7 i))))", "..5432.."

#define BOUND(axis)                                                                                \
  {                                                                                                \
    BP_IR_FOR, "(for i:int64 1 3 bound \"" axis "\" (store C i (load A (add i 4))))", ".567....",  \
        NULL                                                                                       \
  }

#define ALLOCATED(scope)                                                                           \
  {                                                                                                \
    BP_IR_ALLOCATE,                                                                                \
        "(allocate (buffer D @T " scope " 2 4) (seq (store D 7 (load A 3)) (store D 6 (load A 2))" \
        " (store C 0 (load D 7)) (store C 1 (load D 6))))",                                        \
        "32......", NULL                                                                           \
  }

static const Statement statements[] = {
    {BP_IR_INT_IMM, "(store C 0 @1)", "1.......", "bi"},
    {BP_IR_FLOAT_IMM, "(store C 0 @1)", "1.......", "f"},
    {BP_IR_STR_IMM,
     "(if (call bool packed \"test.constructs.is_text\" \"a \\\"text\\\"\")"
     " (store C 0 (load A 2)))",
     "2.......", NULL},
    {BP_IR_VAR, "(store C 3 x)", "...5....", NULL},
    {BP_IR_SELECT,
     "(for i:int64 0 8 serial (store C i (select (lt i 3) (load A i) (load A (sub 7 i)))))",
     "01243210", NULL},
    {BP_IR_SELECT,
     "(store C (ramp 0 1 4) (select (eq (ramp 0 1 4) (broadcast 2 4)) (load A (ramp 4 1 4))"
     " (broadcast x 4)))",
     "5565....", NULL},
    {BP_IR_LOAD, "(store C 1 (load A 6))", ".6......", NULL},
    {BP_IR_LOAD, "(store C (ramp 0 1 4) (load A (ramp 7 -2 4)))", "7531....", NULL},
    {BP_IR_LOAD, "(store C (ramp 0 1 4) (load A (ramp 6 1 4) (lt (ramp 6 1 4) (broadcast 8 4))))",
     "6700....", NULL},
    {BP_IR_ADDRESS,
     "(evaluate (call void packed \"test.constructs.copy\" (address C 2) (address A 4) @bytes))",
     "..4.....", NULL},
    {BP_IR_RAMP, "(store C (ramp 1 2 4) (load A (ramp 0 1 4)))", ".0.1.2.3", NULL},
    {BP_IR_BROADCAST, "(store C (ramp 2 1 4) (broadcast x 4))", "..5555..", NULL},
    {BP_IR_SHUFFLE,
     "(store C (ramp 0 1 4) (shuffle 2 (load A (ramp 0 1 4)) (load A (ramp 4 1 2)) 5 0 4 0))",
     "5040....", NULL},
    {BP_IR_SHUFFLE, "(store C 0 (shuffle 2 x (load A (ramp 6 1 2)) 2))", "7.......", NULL},
    {BP_IR_CALL, "(evaluate (call void packed \"g\" A C x))", "...4....", NULL},
    {BP_IR_CALL, "(store C 0 (call @T packed \"test.constructs.same\" x))", "5.......", NULL},
    {BP_IR_SEQ, "(seq (store C 0 x) (store C 1 (load C 0)) (store C 0 @1) (seq))", "15......",
     NULL},
    {BP_IR_FOR, REVERSED("serial"), NULL},
    {BP_IR_FOR, REVERSED("parallel"), NULL},
    {BP_IR_FOR, REVERSED("vectorized"), NULL},
    {BP_IR_FOR, REVERSED("unrolled"), NULL},
    {BP_IR_FOR, "(for i:uint8 250:uint8 0:uint8 serial (store C 0 x))", "........", NULL},
    /* two loops of one axis: the threads beyond the shorter one skip it */
    {BP_IR_FOR,
     "(for b:int64 0 1 bound \"blockIdx.x\" (seq (for t:int64 0 4 bound \"threadIdx.x\" (store C t "
     "x))"
     " (for u:int64 0 2 bound \"threadIdx.x\" (store C (add u 4) x))))",
     "555555..", NULL},
    BOUND("blockIdx.x"),
    BOUND("blockIdx.y"),
    BOUND("blockIdx.z"),
    BOUND("threadIdx.x"),
    BOUND("threadIdx.y"),
    BOUND("threadIdx.z"),
    {BP_IR_STORE, "(store C (ramp 7 -1 3) (load A (ramp 1 1 3)))", ".....321", NULL},
    {BP_IR_STORE, "(store C (ramp 6 1 4) (load A (ramp 0 1 4)) (lt (ramp 6 1 4) (broadcast 8 4)))",
     "......01", NULL},
    {BP_IR_STORE, "(store C (shuffle 1 (ramp 0 1 3) 1 1) (load A (ramp 3 1 2)))", ".4......", NULL},
    {BP_IR_LET, "(let y:@T (load A 4) (seq (store C 0 y) (store C 1 y)))", "44......", NULL},
    {BP_IR_LET, "(let y:@Tx4 (load A (ramp 0 1 4)) (store C (ramp 4 1 4) y))", "....0123", NULL},
    {BP_IR_IF, "(for i:int64 0 4 serial (if (lt i 1) (store C i x) (store C i @1)))", "5111....",
     NULL},
    {BP_IR_IF, "(for i:int64 0 4 serial (if (lt i 1) (store C i x)))", "5.......", NULL},
    ALLOCATED("global"),
    ALLOCATED("local"),
    ALLOCATED("shared"),
    {BP_IR_EVALUATE, "(seq (evaluate (load A 0)) (evaluate (call void packed \"g\" A C x)))",
     "...4....", NULL},
    /* each thread of a block sees what its neighbour wrote */
    {BP_IR_BARRIER,
     "(for b:int64 0 2 bound \"blockIdx.x\" (allocate (buffer S @T shared 4)"
     " (for t:int64 0 4 bound \"threadIdx.x\" (seq (store S t (load A (add (mul b 4) t)))"
     " (barrier \"shared\") (store C (add (mul b 4) t) (load S (sub 3 t)))))))",
     "32107654", NULL},
    {BP_IR_BARRIER,
     "(for t:int64 0 4 bound \"threadIdx.x\" (seq (store C t (load A t)) (barrier \"global\")"
     " (let y:@T (load C (sub 3 t)) (seq (barrier \"global\") (store C t y)))))",
     "3210....", NULL},
    {BP_IR_ASSERT, "(seq (store C 0 x) (assert (eq 1 1) \"not this\") (store C 1 x))", "55......",
     NULL},
    {BP_IR_WHILE,
     "(allocate (buffer n int64 local 1) (seq (store n 0 0) (while (lt (load n 0) 3) (seq"
     " (store C (load n 0) x) (store n 0 (add (load n 0) 1))))))",
     "555.....", NULL},
    {BP_IR_BUFFER, "(allocate (buffer D @T local) (seq (store D 0 x) (store C 7 (load D 0))))",
     ".......5", NULL},
};

/* The same, of whole functions. */
static const Statement functions[] = {
    {BP_IR_ATTR, "(attr \"noalias\" 1) (attr \"unknown\" \"text\" 1.5:float64) (store C 0 x)",
     "5.......", NULL},
    /* one launch, whose threads run what is outside of the loops over them, too */
    {BP_IR_ATTR,
     "(attr \"kernel\" 1) (seq (store C 7 x) (for t:int64 0 3 bound \"threadIdx.x\""
     " (store C t (load A t))))",
     "012....5", NULL},
    {BP_IR_FUNCTION, "(seq)", "........", NULL},
};

static int is_text(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray text;
  (void)self;
  g_assert_cmpint(num_args, ==, 1);
  assert_ok(bp_value_view_str(&args[0], &text));
  *result = (BpValue){.type_index = BP_TYPE_BOOL};
  result->v_int64 = text.size == 8 && !memcmp(text.data, "a \"text\"", 8);
  return 0;
}

static int copy_bytes(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  g_assert_cmpint(num_args, ==, 3);
  g_assert_cmpint(args[0].type_index, ==, BP_TYPE_POINTER);
  memcpy(args[0].v_ptr, args[1].v_ptr, (size_t)args[2].v_int64);
  return 0;
}

static int give_same(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  g_assert_cmpint(num_args, ==, 1);
  *result = args[0];
  return 0;
}

static void register_function(const char *name, BpPackedCall call) {
  BpFunction *function = bp_function_create(call, NULL, NULL);
  assert_ok(bp_registry_set(name, function, 0));
  bp_object_release(function);
}

static char *program_of_statement(const Statement *row, const char *type) {
  char *bytes = g_strdup_printf("%d", dtype_of(type).bits / 8);
  char *one = !strcmp(type, "bool") ? g_strdup("true") : g_strdup_printf("1:%s", type);
  const char *const words[][2] = {
      {"@body", row->body}, {"@bytes", bytes}, {"@1", one}, {"@T", type}, {NULL, NULL}};
  char *text = fill_in("(module (function \"f\" (buffer A @T global 8) (buffer C @T global 8) x:@T"
                       " @body)"
                       " (function \"g\" (buffer B @T global 8) (buffer D @T global 8) y:@T"
                       " (if (eq y (load B 5)) (store D 3 (load B 4)) (store D 3 (load B 4)))))",
                       words);
  g_free(bytes);
  g_free(one);
  return text;
}

static BpValue number_value(BpDataType dtype, Number number) {
  BpValue value = {.type_index = is_float(dtype) ? BP_TYPE_FLOAT : BP_TYPE_INT};
  if (is_float(dtype))
    value.v_float64 = number.f;
  else
    value.v_int64 = (int64_t)number.i;
  return value;
}

static void check_statement(const Statement *row, const char *type) {
  BpDataType dtype = dtype_of(type);
  size_t size = dtype.bits / 8;
  char a[64], c[64], wanted[64];
  Number values[NUM_VALUES];
  Array arrays[2];
  awkward_values(dtype, values);
  for (size_t i = 0; i < 8; i++)
    encode(dtype, values[i], a + i * size);
  memset(c, 0x55, sizeof c);
  memset(wanted, 0x55, sizeof wanted);
  for (size_t i = 0; i < 8; i++)
    if (row->result[i] != '.')
      memcpy(wanted + i * size, a + (size_t)(row->result[i] - '0') * size, size);
  char *text = program_of_statement(row, type);
  BpIrModule *module = parse_verified(text);
  BpValue args[] = {array_value(&arrays[0], a, dtype, 8), array_value(&arrays[1], c, dtype, 8),
                    number_value(dtype, values[5])};
  if (bp_ir_interpret(module, "f", args, 3))
    g_error("%s of %s: %s", row->body, type, bp_error_message());
  for (size_t i = 0; i < 8; i++)
    if (memcmp(c + i * size, wanted + i * size, size))
      g_error("%s of %s: element %zu differs", row->body, type, i);
  bp_object_release(module);
  g_free(text);
}

static void check_statement_of_all_types(const Statement *row) {
  for (size_t t = 0; t < NUM_TYPES; t++)
    if (!row->letters || strchr(row->letters, letter_of(dtype_of(types[t]))))
      check_statement(row, types[t]);
}

/* ---- Every construct --------------------------------------------------------------------- */

static int check_rows(const Statement *rows, size_t count, int32_t kind) {
  int found = 0;
  for (size_t i = 0; i < count; i++)
    if (rows[i].kind == kind) {
      check_statement_of_all_types(&rows[i]);
      found++;
    }
  return found;
}

static void test_construct(gconstpointer context) {
  int32_t kind = GPOINTER_TO_INT(context);
  int found = check_rows(statements, G_N_ELEMENTS(statements), kind) +
              check_rows(functions, G_N_ELEMENTS(functions), kind);
  for (size_t i = 0; i < G_N_ELEMENTS(expressions); i++)
    if (expressions[i].kind == kind) {
      check_expression(&expressions[i]);
      found++;
    }
  if (kind == BP_IR_CAST || kind == BP_IR_REINTERPRET || kind == BP_IR_REDUCE) {
    (kind == BP_IR_CAST     ? check_casts
     : kind == BP_IR_REDUCE ? check_reductions
                            : check_reinterprets)();
    found++;
  }
  if (!found)
    g_error("construct %s has no row here", bp_ir_table()->kind_name(kind));
}

/* The types of buffers that the verifier takes are those of the list. */
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
        for (; t < NUM_TYPES; t++)
          if (known = dtype_of(types[t]), known.code == code && known.bits == bits)
            break;
        g_assert_cmpuint(t, <, NUM_TYPES);
        found++;
      }
      bp_error_clear();
      bp_object_release(module);
    }
  g_assert_cmpuint(found, ==, NUM_TYPES);
}

/* Forms that a number tells apart: one more than those that have rows is refused. */
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
  register_function("test.constructs.is_text", is_text);
  register_function("test.constructs.copy", copy_bytes);
  register_function("test.constructs.same", give_same);
  g_test_add_func("/ir/constructs/types-are-all-there", test_types_are_all_there);
  g_test_add_func("/ir/constructs/forms-are-all-there", test_forms_are_all_there);
  for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
    char *path = g_strdup_printf("/ir/constructs/%s", kinds[i].name);
    g_test_add_data_func(path, GINT_TO_POINTER(kinds[i].kind), test_construct);
    g_free(path);
  }
  g_test_add_func("/ir/constructs/intrinsics", test_intrinsics);
  return g_test_run();
}
