/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in IR: one or more for each construct, with any type that it accepts. Programs are
 * texts, so that each user supplies the expected results: the kit from the reference interpreter,
 * and the interpreter's test from independent arithmetic. */
#ifndef BACKPLANE_CONFORMANCE_PROGRAMS_H
#define BACKPLANE_CONFORMANCE_PROGRAMS_H

#include <backplane/compiler/ir.h>
#include <glib.h>

/* ---- Types ------------------------------------------------------------------------------- */

#define PROGRAM_TYPES 13

/* All types of buffers: bool, then integers, then floats. */
extern const char *const bp__program_types[PROGRAM_TYPES];

/* The letter of a group of types in rows: 'b' bool, 'i' integers, 'f' floats. */
char bp__program_letter(BpDataType dtype);
BpDataType bp__program_dtype(const char *type);

#define PROGRAM_VALUES 16

/* Special values for operations, such as the ends of ranges, converted to a type: integers wrap,
 * floats round. The first two values are 0 and 1; the last two floats are subnormal in narrow
 * types. */
void bp__program_ints(BpDataType dtype, int64_t values[PROGRAM_VALUES]);
extern const double bp__program_floats[PROGRAM_VALUES];

/* ---- Expressions ------------------------------------------------------------------------- */

/* An expression of @a and @b, which have type @T with @X lanes. */
typedef struct ExpressionRow {
  int32_t kind;
  const char *text;
  const char *letters; /* letters of the accepted types */
  gboolean gives_bool; /* whether the result is bool; otherwise it has the operands' type */
} ExpressionRow;

extern const ExpressionRow bp__program_expressions[];
extern const size_t bp__program_num_expressions;

/* X(name, letters of the accepted types, number of arguments, whether the result is bool) */
#define PROGRAM_INTRINSICS(X)                                                                      \
  X(exp, "f", 1, 0)                                                                                \
  X(exp2, "f", 1, 0)                                                                               \
  X(expm1, "f", 1, 0)                                                                              \
  X(log, "f", 1, 0)                                                                                \
  X(log2, "f", 1, 0)                                                                               \
  X(log10, "f", 1, 0)                                                                              \
  X(log1p, "f", 1, 0)                                                                              \
  X(sqrt, "f", 1, 0)                                                                               \
  X(rsqrt, "f", 1, 0)                                                                              \
  X(sin, "f", 1, 0)                                                                                \
  X(cos, "f", 1, 0)                                                                                \
  X(tan, "f", 1, 0)                                                                                \
  X(asin, "f", 1, 0)                                                                               \
  X(acos, "f", 1, 0)                                                                               \
  X(atan, "f", 1, 0)                                                                               \
  X(sinh, "f", 1, 0)                                                                               \
  X(cosh, "f", 1, 0)                                                                               \
  X(tanh, "f", 1, 0)                                                                               \
  X(asinh, "f", 1, 0)                                                                              \
  X(acosh, "f", 1, 0)                                                                              \
  X(atanh, "f", 1, 0)                                                                              \
  X(erf, "f", 1, 0)                                                                                \
  X(sigmoid, "f", 1, 0)                                                                            \
  X(floor, "f", 1, 0)                                                                              \
  X(ceil, "f", 1, 0)                                                                               \
  X(trunc, "f", 1, 0)                                                                              \
  X(round, "f", 1, 0)                                                                              \
  X(pow, "f", 2, 0)                                                                                \
  X(atan2, "f", 2, 0)                                                                              \
  X(fmod, "f", 2, 0)                                                                               \
  X(copysign, "f", 2, 0)                                                                           \
  X(fma, "f", 3, 0)                                                                                \
  X(abs, "if", 1, 0)                                                                               \
  X(isnan, "f", 1, 1)                                                                              \
  X(isinf, "f", 1, 1)                                                                              \
  X(popcount, "i", 1, 0)                                                                           \
  X(dot4_us, "4", 3, 0)                                                                            \
  X(prefetch, "", 1, 0)

typedef struct IntrinsicRow {
  const char *name;
  /* "4": int32 alone; "": the argument is an address, and programs with ADDRESS use it. */
  const char *letters;
  int num_args;
  gboolean gives_bool;
} IntrinsicRow;

extern const IntrinsicRow bp__program_intrinsics[];
extern const size_t bp__program_num_intrinsics;

/* Whether an intrinsic takes a type. */
gboolean bp__program_takes(const IntrinsicRow *row, BpDataType dtype);

/* Returns the call of an intrinsic as an expression of @a and @b (g_free); result: the type of the
 * call's result. */
char *bp__program_call(const IntrinsicRow *row, const char *result);

/* Returns a statement (g_free) that stores the expression of elements of A and B, `lanes` at a
 * time, to C from element `first` on, for `count` elements of A and B, of the type. In the
 * expression @i is the index, and @most a mask of all except the last six elements; text after the
 * expression is the mask of the store. */
char *bp__program_loop(const char *expression, const char *type, int lanes, int first, int count);
/* Returns a function (g_free) with buffers A, B of `count` elements of the type, and C of
 * `count_result` of another type. */
char *bp__program_function(const char *name, const char *type, const char *result, int count,
                           int count_result, const char *body);

/* ---- Statements, memory, calls ----------------------------------------------------------- */

#define PROGRAM_ELEMENTS 8
#define PROGRAM_BLOCK    4 /* the most threads of a block */

/* Where a statement can run. */
#define PROGRAM_ANYWHERE 0
#define PROGRAM_HOST     1 /* for functions that run on the host */
#define PROGRAM_THREADS  2 /* in a kernel of a device with thread axes, and in the interpreter */

/* Attributes and body of a function with buffers A and C, of eight elements of type @T each, and a
 * number x, which is A[5]. @1 is the constant 1. */
typedef struct StatementRow {
  int32_t kind;
  const char *body;
  const char *result;  /* by element of C: the expected element of A; '.': unchanged */
  const char *letters; /* letters of the accepted types; NULL: all */
  int where;           /* PROGRAM_* */
} StatementRow;

extern const StatementRow bp__program_statements[];
extern const size_t bp__program_num_statements;

/* Returns function `name` of the row with a type (g_free), together with the function NAME_other if
 * the function calls it. */
char *bp__program_statement(const StatementRow *row, const char *name, const char *type);
/* Registers the packed functions that rows call. -1 with an error. */
int bp__program_register(void);

/* Replaces each word by the next one in the list; a NULL word ends the list (g_free). */
char *bp__program_fill(const char *text, const char *const (*words)[2]);

#endif
