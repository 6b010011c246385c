/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in IR: one or more for each construct. */
#include "conformance/programs.h"

#include <math.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

/* ---- Types ------------------------------------------------------------------------------- */

const char *const bp__program_types[PROGRAM_TYPES] = {
    "bool",  "int8",   "uint8",   "int16",    "uint16",  "int32",  "uint32",
    "int64", "uint64", "float16", "bfloat16", "float32", "float64"};

BpDataType bp__program_dtype(const char *type) {
  BpDataType dtype = {0, 0, 0};
  bp_dtype_parse(type, &dtype);
  return dtype;
}

char bp__program_letter(BpDataType dtype) {
  gboolean is_float = dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
  return dtype.code == BP_DTYPE_BOOL ? 'b' : is_float ? 'f' : 'i';
}

gboolean bp__program_takes(const IntrinsicRow *row, BpDataType dtype) {
  gboolean is_int32 = dtype.code == BP_DTYPE_INT && dtype.bits == 32;
  return strcmp(row->letters, "4") == 0 ? is_int32
                                        : strchr(row->letters, bp__program_letter(dtype)) != NULL;
}

const double bp__program_floats[PROGRAM_VALUES] = {
    0,      1,   -0.0,     -1,        0.5,         3,  -2.5, 65504,
    100.25, 0.1, HUGE_VAL, -HUGE_VAL, (double)NAN, -7, 6e-8, 1e-40};

void bp__program_ints(BpDataType dtype, int64_t values[PROGRAM_VALUES]) {
  uint64_t top = UINT64_C(1) << (dtype.bits - 1);
  const uint64_t numbers[PROGRAM_VALUES] = {0,
                                            1,
                                            (uint64_t)-1,
                                            2,
                                            3,
                                            7,
                                            (uint64_t)-5,
                                            top,
                                            top - 1,
                                            top + 1,
                                            dtype.bits,
                                            100,
                                            (uint64_t)-100,
                                            dtype.bits - 1u,
                                            top / 2,
                                            85};
  memcpy(values, numbers, sizeof numbers);
}

char *bp__program_fill(const char *text, const char *const (*words)[2]) {
  char *result = g_strdup(text);
  for (; (*words)[0]; words++) {
    char **parts = g_strsplit(result, (*words)[0], -1);
    g_free(result);
    result = g_strjoinv((*words)[1], parts);
    g_strfreev(parts);
  }
  return result;
}

/* ---- Expressions ------------------------------------------------------------------------- */

const ExpressionRow bp__program_expressions[] = {
    {BP_IR_ADD, "(add @a @b)", "if", FALSE},
    {BP_IR_SUB, "(sub @a @b)", "if", FALSE},
    {BP_IR_MUL, "(mul @a @b)", "if", FALSE},
    {BP_IR_DIV, "(div @a @b)", "if", FALSE},
    {BP_IR_MOD, "(mod @a @b)", "i", FALSE},
    {BP_IR_FLOORDIV, "(floordiv @a @b)", "i", FALSE},
    {BP_IR_FLOORMOD, "(floormod @a @b)", "i", FALSE},
    {BP_IR_MIN, "(min @a @b)", "if", FALSE},
    {BP_IR_MAX, "(max @a @b)", "if", FALSE},
    {BP_IR_EQ, "(eq @a @b)", "bif", TRUE},
    {BP_IR_NE, "(ne @a @b)", "bif", TRUE},
    {BP_IR_LT, "(lt @a @b)", "if", TRUE},
    {BP_IR_LE, "(le @a @b)", "if", TRUE},
    {BP_IR_GT, "(gt @a @b)", "if", TRUE},
    {BP_IR_GE, "(ge @a @b)", "if", TRUE},
    {BP_IR_AND, "(and @a @b)", "b", TRUE},
    {BP_IR_OR, "(or @a @b)", "b", TRUE},
    {BP_IR_NOT, "(not @a)", "b", TRUE},
    {BP_IR_BIT_AND, "(bit_and @a @b)", "bi", FALSE},
    {BP_IR_BIT_OR, "(bit_or @a @b)", "bi", FALSE},
    {BP_IR_BIT_XOR, "(bit_xor @a @b)", "bi", FALSE},
    {BP_IR_SHL, "(shl @a @b)", "i", FALSE},
    {BP_IR_SHR, "(shr @a @b)", "i", FALSE},
};
const size_t bp__program_num_expressions = G_N_ELEMENTS(bp__program_expressions);

#define INTRINSIC(name, letters, num_args, gives_bool) {#name, letters, num_args, gives_bool},
const IntrinsicRow bp__program_intrinsics[] = {PROGRAM_INTRINSICS(INTRINSIC)};
const size_t bp__program_num_intrinsics = G_N_ELEMENTS(bp__program_intrinsics);

char *bp__program_call(const IntrinsicRow *row, const char *result) {
  static const char *const args[] = {"", "@a", "@a @b", "@a @b @a"};
  return g_strdup_printf("(call %s@X intrinsic \"%s\" %s)", result, row->name, args[row->num_args]);
}

char *bp__program_loop(const char *expression, const char *type, int lanes, int first, int count) {
  char *last = g_strdup_printf("%d", count / lanes);
  char *from = g_strdup_printf("%d", first);
  char *width = g_strdup_printf("%d", lanes);
  char *suffix = lanes > 1 ? g_strdup_printf("x%d", lanes) : g_strdup("");
  const char *index = lanes > 1 ? "(ramp (mul i @lanes) 1 @lanes)" : "i";
  const char *place = lanes > 1 ? "(ramp (add (mul i @lanes) @first) 1 @lanes)" : "(add i @first)";
  const char *most = lanes > 1
                         ? "(lt (ramp 0 1 @lanes) (broadcast (sub @but (mul i @lanes)) @lanes))"
                         : "(lt i @but)";
  char *but = g_strdup_printf("%d", count - 6);
  const char *const words[][2] = {{"@E", expression}, {"@a", "(load A @i)"}, {"@b", "(load B @i)"},
                                  {"@i", index},      {"@most", most},       {"@place", place},
                                  {"@lanes", width},  {"@but", but},         {"@first", from},
                                  {"@last", last},    {"@X", suffix},        {"@T", type},
                                  {NULL, NULL}};
  char *text = bp__program_fill("(for i:int64 0 @last serial (store C @place @E))", words);
  g_free(last);
  g_free(but);
  g_free(from);
  g_free(width);
  g_free(suffix);
  return text;
}

char *bp__program_function(const char *name, const char *type, const char *result, int count,
                           int count_result, const char *body) {
  return g_strdup_printf("(function \"%s\" (buffer A %s global %d) (buffer B %s global %d)"
                         " (buffer C %s global %d) %s)\n",
                         name, type, count, type, count, result, count_result, body);
}

/* ---- Statements, memory, calls ----------------------------------------------------------- */

#define REVERSED(kind) "(for i:int64 2 4 " kind " (store C i (load A (sub 7 i))))", "..5432.."

#define BOUND(axis)                                                                                \
  {                                                                                                \
    BP_IR_FOR, "(for i:int64 1 3 bound \"" axis "\" (store C i (load A (add i 4))))", ".567....",  \
        NULL, PROGRAM_ANYWHERE                                                                     \
  }

#define ALLOCATED(scope, where)                                                                    \
  {                                                                                                \
    BP_IR_ALLOCATE,                                                                                \
        "(allocate (buffer D @T " scope " 2 4) (seq (store D 7 (load A 3)) (store D 6 (load A 2))" \
        " (store C 0 (load D 7)) (store C 1 (load D 6))))",                                        \
        "32......", NULL, where                                                                    \
  }

const StatementRow bp__program_statements[] = {
    {BP_IR_INT_IMM, "(store C 0 @1)", "1.......", "bi", PROGRAM_ANYWHERE},
    {BP_IR_FLOAT_IMM, "(store C 0 @1)", "1.......", "f", PROGRAM_ANYWHERE},
    {BP_IR_STR_IMM,
     "(if (call bool packed \"backplane.program.is_text\" \"a \\\"text\\\"\")"
     " (store C 0 (load A 2)))",
     "2.......", NULL, PROGRAM_HOST},
    {BP_IR_VAR, "(store C 3 x)", "...5....", NULL, PROGRAM_ANYWHERE},
    {BP_IR_SELECT,
     "(for i:int64 0 8 serial (store C i (select (lt i 3) (load A i) (load A (sub 7 i)))))",
     "01243210", NULL, PROGRAM_ANYWHERE},
    {BP_IR_SELECT,
     "(store C (ramp 0 1 4) (select (eq (ramp 0 1 4) (broadcast 2 4)) (load A (ramp 4 1 4))"
     " (broadcast x 4)))",
     "5565....", NULL, PROGRAM_ANYWHERE},
    {BP_IR_LOAD, "(store C 1 (load A 6))", ".6......", NULL, PROGRAM_ANYWHERE},
    {BP_IR_LOAD, "(store C (ramp 0 1 4) (load A (ramp 7 -2 4)))", "7531....", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_LOAD, "(store C (ramp 0 1 4) (load A (ramp 6 1 4) (lt (ramp 6 1 4) (broadcast 8 4))))",
     "6700....", NULL, PROGRAM_ANYWHERE},
    {BP_IR_ADDRESS,
     "(evaluate (call void packed \"backplane.program.copy\" (address C 2) (address A 4) @bytes))",
     "..4.....", NULL, PROGRAM_HOST},
    {BP_IR_ADDRESS,
     "(seq (evaluate (call void intrinsic \"prefetch\" (address A 8))) (store C 0 x))", "5.......",
     NULL, PROGRAM_ANYWHERE},
    {BP_IR_RAMP, "(store C (ramp 1 2 4) (load A (ramp 0 1 4)))", ".0.1.2.3", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_BROADCAST, "(store C (ramp 2 1 4) (broadcast x 4))", "..5555..", NULL, PROGRAM_ANYWHERE},
    {BP_IR_SHUFFLE,
     "(store C (ramp 0 1 4) (shuffle 2 (load A (ramp 0 1 4)) (load A (ramp 4 1 2)) 5 0 4 0))",
     "5040....", NULL, PROGRAM_ANYWHERE},
    {BP_IR_SHUFFLE, "(store C 0 (shuffle 2 x (load A (ramp 6 1 2)) 2))", "7.......", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_CALL,
     "(store C (cast int64 (cast int32 (call float32 intrinsic \"floor\" 3.5:float32))) (load A "
     "1))",
     "...1....", NULL, PROGRAM_ANYWHERE},
    {BP_IR_CALL, "(evaluate (call void packed \"@other\" A C x))", "...4....", NULL, PROGRAM_HOST},
    {BP_IR_CALL, "(store C 0 (call @T packed \"backplane.program.same\" x))", "5.......", NULL,
     PROGRAM_HOST},
    {BP_IR_SEQ, "(seq (store C 0 x) (store C 1 (load C 0)) (store C 0 @1) (seq))", "15......", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_FOR, REVERSED("serial"), NULL, PROGRAM_ANYWHERE},
    {BP_IR_FOR, REVERSED("parallel"), NULL, PROGRAM_ANYWHERE},
    {BP_IR_FOR, REVERSED("vectorized"), NULL, PROGRAM_ANYWHERE},
    {BP_IR_FOR, REVERSED("unrolled"), NULL, PROGRAM_ANYWHERE},
    {BP_IR_FOR, "(for i:int32 250:int32 0:int32 serial (store C 0 x))", "........", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_FOR,
     "(seq (store C 0 (load A 4))"
     " (for i:int32 0:int32 (select (eq (load C 0) (load A 4)) 4:int32 7:int32) serial"
     " (seq (store C 0 (load A 7)) (store C (add i 1:int32) x))))",
     "75555...", "i", PROGRAM_ANYWHERE},
    /* two loops on one axis: threads beyond the shorter loop skip it */
    {BP_IR_FOR,
     "(for b:int64 0 1 bound \"blockIdx.x\" (seq (for t:int64 0 4 bound \"threadIdx.x\" (store C t "
     "x))"
     " (for u:int64 0 2 bound \"threadIdx.x\" (store C (add u 4) x))))",
     "555555..", NULL, PROGRAM_ANYWHERE},
    BOUND("blockIdx.x"),
    BOUND("blockIdx.y"),
    BOUND("blockIdx.z"),
    BOUND("threadIdx.x"),
    BOUND("threadIdx.y"),
    BOUND("threadIdx.z"),
    {BP_IR_STORE, "(store C (ramp 7 -1 2) (load A (ramp 1 1 2)))", "......21", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_STORE, "(store C (ramp 6 1 4) (load A (ramp 0 1 4)) (lt (ramp 6 1 4) (broadcast 8 4)))",
     "......01", NULL, PROGRAM_ANYWHERE},
    {BP_IR_STORE, "(store C (shuffle 1 (ramp 0 1 4) 1 1) (load A (ramp 3 1 2)))", ".4......", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_LET, "(let y:@T (load A 4) (seq (store C 0 y) (store C 1 y)))", "44......", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_LET, "(let y:@Tx4 (load A (ramp 0 1 4)) (store C (ramp 4 1 4) y))", "....0123", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_IF, "(for i:int64 0 4 serial (if (lt i 1) (store C i x) (store C i @1)))", "5111....",
     NULL, PROGRAM_ANYWHERE},
    {BP_IR_IF, "(for i:int64 0 4 serial (if (lt i 1) (store C i x)))", "5.......", NULL,
     PROGRAM_ANYWHERE},
    ALLOCATED("global", PROGRAM_HOST),
    ALLOCATED("local", PROGRAM_ANYWHERE),
    ALLOCATED("shared", PROGRAM_ANYWHERE),
    /* each thread of a block has its own array, also across a barrier */
    {BP_IR_ALLOCATE,
     "(for b:int64 0 2 bound \"blockIdx.x\" (for t:int64 0 4 bound \"threadIdx.x\""
     " (allocate (buffer D @T local 2) (seq (store D (floormod t 2) (load A (add (mul b 4) t)))"
     " (barrier \"shared\") (store C (add (mul b 4) t) (load D (floormod t 2)))))))",
     "01234567", NULL, PROGRAM_THREADS},
    {BP_IR_EVALUATE, "(seq (evaluate (load A 0)) (store C 4 x))", "....5...", NULL,
     PROGRAM_ANYWHERE},
    {BP_IR_EVALUATE, "(seq (evaluate (load A 0)) (evaluate (call void packed \"@other\" A C x)))",
     "...4....", NULL, PROGRAM_HOST},
    {BP_IR_BARRIER, "(seq (barrier \"shared\") (store C 0 x) (barrier \"global\"))", "5.......",
     NULL, PROGRAM_ANYWHERE},
    /* each thread of a block reads its neighbour's write */
    {BP_IR_BARRIER,
     "(for b:int64 0 2 bound \"blockIdx.x\" (allocate (buffer S @T shared 4)"
     " (for t:int64 0 4 bound \"threadIdx.x\" (seq (store S t (load A (add (mul b 4) t)))"
     " (barrier \"shared\") (store C (add (mul b 4) t) (load S (sub 3 t)))))))",
     "32107654", NULL, PROGRAM_THREADS},
    {BP_IR_BARRIER,
     "(for t:int64 0 4 bound \"threadIdx.x\" (seq (store C t (load A t)) (barrier \"global\")"
     " (let y:@T (load C (sub 3 t)) (seq (barrier \"global\") (store C t y)))))",
     "3210....", NULL, PROGRAM_THREADS},
    {BP_IR_ASSERT, "(seq (store C 0 x) (assert (eq 1 1) \"not this\") (store C 1 x))", "55......",
     NULL, PROGRAM_HOST},
    {BP_IR_WHILE,
     "(allocate (buffer n int32 local 1) (seq (store n 0 0:int32) (while (lt (load n 0) 3:int32)"
     " (seq (store C (cast int64 (load n 0)) x) (store n 0 (add (load n 0) 1:int32))))))",
     "555.....", NULL, PROGRAM_ANYWHERE},
    {BP_IR_BUFFER, "(allocate (buffer D @T local) (seq (store D 0 x) (store C 7 (load D 0))))",
     ".......5", NULL, PROGRAM_ANYWHERE},
    {BP_IR_ATTR, "(attr \"noalias\" 1) (attr \"unknown\" \"text\" 1.5:float64) (store C 0 x)",
     "5.......", NULL, PROGRAM_ANYWHERE},
    /* one launch, whose threads also run the statements outside of the loops over them */
    {BP_IR_ATTR,
     "(attr \"kernel\" 1) (seq (store C 7 x) (for t:int64 0 3 bound \"threadIdx.x\""
     " (store C t (load A t))))",
     "012....5", NULL, PROGRAM_ANYWHERE},
    {BP_IR_FUNCTION, "(seq)", "........", NULL, PROGRAM_ANYWHERE},
};
const size_t bp__program_num_statements = G_N_ELEMENTS(bp__program_statements);

static const char other_text[] =
    "(function \"@other\" (buffer B @T global 8) (buffer D @T global 8) y:@T"
    " (if (eq y (load B 5)) (store D 3 (load B 4)) (store D 3 (load B 0))))\n";

char *bp__program_statement(const StatementRow *row, const char *name, const char *type) {
  char *bytes = g_strdup_printf("%d", bp__program_dtype(type).bits / 8);
  char *one = strcmp(type, "bool") ? g_strdup_printf("1:%s", type) : g_strdup("true");
  char *other = g_strconcat(name, "_other", NULL);
  const char *const words[][2] = {{"@rest", strstr(row->body, "@other") ? other_text : ""},
                                  {"@body", row->body},
                                  {"@name", name},
                                  {"@other", other},
                                  {"@bytes", bytes},
                                  {"@1", one},
                                  {"@T", type},
                                  {NULL, NULL}};
  char *text = bp__program_fill("(function \"@name\" (buffer A @T global 8) (buffer C @T global 8)"
                                " x:@T @body)\n@rest",
                                words);
  g_free(bytes);
  g_free(one);
  g_free(other);
  return text;
}

/* Whether the argument is the expected text. */
static int is_text(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray text;
  (void)self;
  if (num_args != 1 || bp_value_view_str(&args[0], &text) != 0)
    return bp_error_raise(BP_ERROR_TYPE, "backplane.program.is_text takes a string");
  *result = (BpValue){.type_index = BP_TYPE_BOOL};
  result->v_int64 = text.size == 8 && !memcmp(text.data, "a \"text\"", 8);
  return 0;
}

/* Copies bytes from one pointer to another. */
static int copy_bytes(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  if (num_args != 3 || args[0].type_index != BP_TYPE_POINTER ||
      args[1].type_index != BP_TYPE_POINTER || args[2].type_index != BP_TYPE_INT)
    return bp_error_raise(BP_ERROR_TYPE, "backplane.program.copy takes two pointers and a size");
  memcpy(args[0].v_ptr, args[1].v_ptr, (size_t)args[2].v_int64);
  return 0;
}

/* Returns its argument, a number. */
static int give_same(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  if (num_args != 1 || args[0].type_index >= BP_TYPE_OBJECT)
    return bp_error_raise(BP_ERROR_TYPE, "backplane.program.same takes a number");
  *result = args[0];
  return 0;
}

int bp__program_register(void) {
  static const struct {
    const char *name;
    BpPackedCall call;
  } functions[] = {{"backplane.program.is_text", is_text},
                   {"backplane.program.copy", copy_bytes},
                   {"backplane.program.same", give_same}};
  int rc = 0;
  for (size_t i = 0; !rc && i < G_N_ELEMENTS(functions); i++) {
    BpFunction *function = bp_function_create(functions[i].call, NULL, NULL);
    rc = !function || bp_registry_set(functions[i].name, function, 1) ? -1 : 0;
    bp_object_release(function);
  }
  return rc;
}
