/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the emitter, and the declarations that its files share.
 *
 * text.c      strings, the arena they live in, templates
 * types.c     names of types, declared at their first use
 * expr.c      expressions: scalars, and operations that vectors share with scalars
 * vector.c    operations that only vectors have: lanes, masks, ramps, shuffles, reductions
 * texel.c     loads from read-only parameters
 * memory.c    loads, stores, allocations, and local arrays that become variables
 * call.c      intrinsics, extern and packed calls
 * stmt.c      statements
 * parallel.c  parallel loops as functions of their own
 * equal.c     such functions that are equal but for names
 * support.c   the parts of a dialect's support text that a program uses
 * function.c  functions, kernels, and the packed functions around host functions
 * dialect_*.c tables of the dialects
 *
 * An error is raised once and remembered in `failed`; the emitter continues with empty texts until
 * bp__emit checks `failed`. So an emitter of nested expressions need not check for an error at
 * every step. */
#ifndef BP_EMIT_H
#define BP_EMIT_H

#include <backplane/emitter_api.h>
#include <backplane/error_kinds.h>
#include <backplane/pointer_map.h>

/* ---- text.c ------------------------------------------------------------------------------ */

/* A growing text. `data` is NUL-terminated after the first addition. */
typedef struct BpText {
  char *data;
  size_t size;
  size_t capacity;
} BpText;

typedef struct BpArenaBlock BpArenaBlock;

/* The text of a node. For a vector of bools, `bits` is the lane width of its mask. The text of an
 * atom may occur several times in the output. */
typedef struct BpExpr {
  const char *text;
  int32_t bits;
  int32_t is_atom;
} BpExpr;

/* A variable that holds a run of elements of a local array: each accessed run has a variable. */
typedef struct BpSlot {
  int64_t first;
  BpDataType dtype;
  const char *name;
} BpSlot;

/* A variable or buffer in scope. */
typedef struct BpSymbol {
  BpExpr expr;           /* name; for a buffer, an array or a pointer to its elements */
  BpDataType dtype;      /* element type of a buffer */
  const BpIrNode *node;  /* node; NULL for a captured value */
  const BpIrNode *value; /* value of a variable that a LET binds, else NULL */
  BpSlot *slots;         /* slots of an array kept in variables, or NULL */
  int32_t num_slots;
  int32_t is_shared;
  int32_t is_streamed; /* whether non-temporal stores write the buffer, if the dialect has them */
  int32_t texel_lanes; /* elements of a texel for a texel buffer, else 0 */
} BpSymbol;

typedef struct BpTexel BpTexel;
typedef struct BpWritten BpWritten;

typedef struct BpEmitter {
  const BpIrTable *ir;
  const BpDialect *dialect;
  int32_t failed;

  BpText head;    /* text of types and helpers */
  BpText types;   /* declared names, each between two newlines, so that strstr() finds only whole
                   * names */
  BpText before;  /* functions before the current function: its parallel bodies */
  BpText opening; /* declarations at the beginning of the current function */
  BpText body;    /* body of the current function */
  BpText done;    /* finished functions */
  BpText *out;    /* destination of statements: &body, or a text of its own in a parallel loop */
  int32_t indent;

  BpWritten *written; /* the functions of parallel loops (equal.c) */
  int32_t num_written;
  const char **own; /* the names of the current function, by the number at their ends */
  int32_t own_capacity;
  int32_t num_pieces; /* pieces before the current one (emitter.c) */

  BpArenaBlock *arena; /* arena of the current function's texts */
  const BpIrNode *function;
  const char *function_name;
  int32_t next_name;    /* a number that makes names unique within a function */
  BpPointerMap symbols; /* map from BpIrNode to BpSymbol */
  BpPointerMap uses;    /* map from nodes of the current statement to their number of uses */
  BpPointerMap temps;   /* map from nodes of the current statement to BpExpr */
  BpPointerMap lets;    /* variable -> its only value, if the function has texel buffers */
  BpPointerMap places;  /* results of texel.c for the function's nodes */
  BpPointerMap stable;
  BpPointerMap same;
  BpTexel *texels; /* texels in variables of the surrounding blocks, or NULL */
  int32_t num_texels;
  int32_t index_depth; /* > 0 while an index is written, which cannot overflow */
  int32_t depth;
  int32_t in_parallel;
  int32_t streams; /* whether the function uses non-temporal stores */
  int32_t cleanup; /* number of the label to jump to on failure; 0: return at once */
} BpEmitter;

/* Raises an error that names the function, unless an error was raised already. Returns "". */
const char *bp__fail(BpEmitter *e, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends `size` bytes to a text; if memory is exhausted, `e` has failed. */
void bp__append(BpEmitter *e, BpText *text, const char *data, size_t size);
void bp__appendf(BpEmitter *e, BpText *text, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bp__text_free(BpText *text);
/* Appends one line at the current indentation to e->out. */
void bp__line(BpEmitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Allocates memory in the arena. */
void *bp__arena_alloc(BpEmitter *e, size_t size);
void bp__arena_free(BpEmitter *e);
const char *bp__format(BpEmitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the text without the parentheses that enclose the whole text. */
const char *bp__bare(BpEmitter *e, const char *text);

/* A string literal of C with the given text, in the arena. */
const char *bp__c_string(BpEmitter *e, const char *text);

/* Replaces $1, $2, ... in a template by the arguments; an argument may be NULL if the template does
 * not use it. */
const char *bp__template(BpEmitter *e, const char *text, const char *const *args, int32_t num_args);
/* The number of times that `$number` occurs in a template. */
int32_t bp__template_uses(const char *text, int32_t number);
#define bp__apply(e, text, ...)                                                                    \
  bp__template(e, text, (const char *const[]){__VA_ARGS__},                                        \
               (int32_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* ---- types.c ----------------------------------------------------------------------------- */

static inline BpDataType bp__dtype(uint8_t code, uint8_t bits, uint16_t lanes) {
  return (BpDataType){code, bits, lanes};
}
static inline BpDataType bp__scalar(BpDataType dtype) {
  return bp__dtype(dtype.code, dtype.bits, 1);
}
static inline BpDataType bp__with_lanes(BpDataType dtype, uint16_t lanes) {
  return bp__dtype(dtype.code, dtype.bits, lanes);
}
static inline int bp__same_dtype(BpDataType a, BpDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
static inline int bp__is_void(BpDataType t) {
  return t.code == BP_DTYPE_HANDLE && t.bits == 0;
}
static inline int bp__is_float(BpDataType t) {
  return t.code == BP_DTYPE_FLOAT || t.code == BP_DTYPE_BFLOAT;
}
static inline int bp__is_bool(BpDataType t) {
  return t.code == BP_DTYPE_BOOL;
}

/* "float32x16". */
const char *bp__dtype_name(BpEmitter *e, BpDataType dtype);
/* Writes `text` before the functions, once. */
void bp__declare_once(BpEmitter *e, const char *text);
/* Returns the row of a scalar type. If the dialect has no such row, returns NULL and marks `e` as
 * failed. */
const BpDialectType *bp__type_row(BpEmitter *e, BpDataType dtype);
/* The name of a type, which is declared if necessary. */
const char *bp__type(BpEmitter *e, BpDataType dtype);
/* The name of a type for elements in memory. */
const char *bp__memory_type(BpEmitter *e, BpDataType dtype);
/* The name of the type of a value; for a vector of bools, the type of its mask. */
const char *bp__value_type(BpEmitter *e, BpDataType dtype, int32_t mask_bits);
/* The float type in which arithmetic on `dtype` is computed, usually `dtype` itself. */
BpDataType bp__compute_dtype(BpEmitter *e, BpDataType dtype);
/* The short name of a scalar type: "f16", "bf16", "i32". */
const char *bp__short_name(BpEmitter *e, BpDataType dtype);
/* Whether a type is float16 and the dialect has BP_DIALECT_HALVES. */
int bp__has_halves(const BpEmitter *e, BpDataType dtype);

/* ---- expr.c ------------------------------------------------------------------------------ */

/* Writes an expression; values that the expression uses twice become variables in lines before
 * it. */
BpExpr bp__expr(BpEmitter *e, const BpIrNode *node);
/* Writes an index or a bound of a loop, which cannot overflow. */
BpExpr bp__index(BpEmitter *e, const BpIrNode *node);
/* The expression as an atom: a new variable unless the expression is an atom already. */
BpExpr bp__atom(BpEmitter *e, BpExpr expr, BpDataType dtype);
/* Begins a statement: counts the uses of its expressions and forgets the uses of the previous
 * statement. */
void bp__begin_statement(BpEmitter *e, const BpIrNode *const *roots, int32_t num_roots);
BpExpr bp__binary(BpEmitter *e, int32_t kind, BpDataType dtype, BpExpr a, BpExpr b,
                  const BpIrNode *b_node);
BpExpr bp__cast(BpEmitter *e, BpDataType to, BpDataType from, BpExpr value);
BpExpr bp__int_literal(BpEmitter *e, BpDataType dtype, int64_t value);
/* The number in every lane of a vector type, as literals of the lane's type: some languages do not
 * convert a literal that is wider than a lane. */
BpExpr bp__constant(BpEmitter *e, BpDataType dtype, int64_t value);
/* The mask of the lanes that are not zero. */
BpExpr bp__is_not_zero(BpEmitter *e, BpDataType dtype, BpExpr value);
static inline BpExpr bp__text(const char *text) {
  return (BpExpr){text, 0, 0};
}

/* ---- vector.c ---------------------------------------------------------------------------- */

BpExpr bp__lane(BpEmitter *e, BpExpr vector, BpDataType dtype, int32_t lane);
/* A vector of the given scalar expressions. */
BpExpr bp__make_vector(BpEmitter *e, BpDataType dtype, const BpExpr *lanes);
BpExpr bp__splat(BpEmitter *e, BpDataType dtype, BpExpr scalar);
/* The mask converted to lanes of `bits` bits. */
BpExpr bp__mask_to(BpEmitter *e, BpExpr mask, int32_t lanes, int32_t bits);
/* The vector converted to another type of as many lanes, neither of them bool. */
BpExpr bp__convert_vector(BpEmitter *e, BpDataType to, BpDataType from, BpExpr value);
BpExpr bp__select_vector(BpEmitter *e, BpDataType dtype, BpExpr mask, BpExpr a, BpExpr b);
BpExpr bp__expr_vector(BpEmitter *e, const BpIrNode *node);

/* ---- texel.c ----------------------------------------------------------------------------- */

/* The number of elements in a texel of a parameter; 0 if the parameter is not a texel buffer. */
int32_t bp__texel_lanes(BpEmitter *e, const BpIrNode *function, const BpIrNode *buffer);
/* An element of a texel buffer. Variables in the block keep loaded texels; a function that opens a
 * block restores num_texels when it closes the block. */
BpExpr bp__texel_element(BpEmitter *e, const BpSymbol *symbol, const BpIrNode *index);

/* ---- memory.c ---------------------------------------------------------------------------- */

BpExpr bp__load(BpEmitter *e, const BpIrNode *node);
BpExpr bp__address(BpEmitter *e, const BpIrNode *buffer, const BpIrNode *index);
void bp__store(BpEmitter *e, const BpIrNode *node);
void bp__allocate(BpEmitter *e, const BpIrNode *node);
/* The number of elements of a buffer if its shape is constant, else -1. */
int64_t bp__buffer_elements(BpEmitter *e, const BpIrNode *buffer);

/* ---- call.c ------------------------------------------------------------------------------ */

BpExpr bp__call(BpEmitter *e, const BpIrNode *node);
/* Returns the dialect's template for an intrinsic of a vector type; NULL if the dialect has
 * none. */
const char *bp__vector_intrinsic(BpEmitter *e, const char *name, BpDataType dtype);

/* ---- stmt.c ------------------------------------------------------------------------------ */

void bp__stmt(BpEmitter *e, const BpIrNode *node);
/* Writes a statement inside braces, indented. */
void bp__block(BpEmitter *e, const BpIrNode *node);
/* Declares a variable under a unique name. */
BpSymbol *bp__declare(BpEmitter *e, const BpIrNode *node, BpDataType dtype);
/* Ends the scope of a variable. */
void bp__undeclare(BpEmitter *e, const BpIrNode *node);
BpSymbol *bp__symbol(BpEmitter *e, const BpIrNode *node);
const char *bp__unique_name(BpEmitter *e, const char *base);
/* The statement that leaves the function after an error is raised. */
const char *bp__leave(BpEmitter *e);

/* ---- parallel.c -------------------------------------------------------------------------- */

void bp__parallel(BpEmitter *e, const BpIrNode *node);

/* ---- equal.c ----------------------------------------------------------------------------- */

/* Notes that the current function has a name that ends in "_NUMBER". The name is in the arena. */
void bp__note_name(BpEmitter *e, int32_t number, const char *name);
/* Writes the text of the static function `name`, which ends in "_NUMBER", to e->out, unless an
 * equal function was written. Returns the name of the function to call. */
const char *bp__write_once(BpEmitter *e, const BpText *text, const char *name, int32_t number);
void bp__written_free(BpEmitter *e);

/* ---- function.c -------------------------------------------------------------------------- */

void bp__function(BpEmitter *e, const BpIrNode *function);
void bp__packed_function(BpEmitter *e, const BpIrNode *function);
/* Orders non-temporal stores before the statements that follow, if the function has any. */
void bp__end_streams(BpEmitter *e);
int32_t bp__num_params(BpEmitter *e, const BpIrNode *function);

/* ---- support.c --------------------------------------------------------------------------- */

/* Appends a dialect's support text without the parts that the program does not use. */
void bp__append_support(BpEmitter *e, BpText *whole, const char *support);

/* ---- dialects ---------------------------------------------------------------------------- */

extern const BpDialect bp__dialect_c;
extern const BpDialect bp__dialect_glsl;
extern const BpDialect bp__dialect_opencl;
extern const BpDialect bp__dialect_cuda;

#endif
