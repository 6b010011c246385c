/* SPDX-License-Identifier: Apache-2.0 */
/* Extents that are open: known when a model runs, not when it is compiled.
 *
 * An integer of a shape is a number, or it stands for an expression in the table of its graph;
 * bp__extent_is_open tells which. Expressions are sums of products of symbols, quotients, minima
 * and maxima in one canonical form: equal expressions have the same integer. The lower bound of a
 * symbol is 0, or follows from bp__extent_require. If memory is exhausted or the result has no
 * canonical form, an operation returns BP_EXTENT_NONE with an error raised. An operand
 * BP_EXTENT_NONE gives BP_EXTENT_NONE. */
#ifndef BACKPLANE_GRAPH_IR_EXTENT_H
#define BACKPLANE_GRAPH_IR_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/ir/arena.h"

#define BP_EXTENT_NONE INT64_MIN
/* The integer up to which integers stand for expressions: numbers are greater, so that arithmetic
 * on numbers never gives the integer of an expression. */
#define BP_EXTENT_LAST_OPEN (INT64_MIN / 2)

/* The table of expressions that a graph and the bodies of its nodes share; a copy of a BpExtents is
 * the same table. In a graph without open extents the BpExtents is zeroed; bp__graph_can_be_open
 * makes the table. */
typedef struct BpExtents {
  BpList *expressions; /* items are in memory of `arena` */
  BpArena *arena;
} BpExtents;

static inline bool bp__extent_is_open(int64_t extent) {
  return extent <= BP_EXTENT_LAST_OPEN;
}
/* Whether any of `count` extents is open. */
bool bp__extents_any_open(const int64_t *extents, int32_t count);

/* The symbol that the model calls `name`, which is added with its likely value if it is new. */
int64_t bp__extent_symbol(BpExtents *extents, const char *name, int64_t likely);
/* The symbol of the compiler's with that key, which is added with its likely value if it is new.
 * The symbol differs from every symbol of the model. */
int64_t bp__extent_make_symbol(BpExtents *extents, const char *key, int64_t likely);
/* Returns a symbol that is defined as an expression, to keep long expressions out of the extents
 * computed from it. Equal expressions have one symbol. Numbers, symbols and products of symbols are
 * returned unchanged. */
int64_t bp__extent_define(BpExtents *extents, int64_t extent);
/* Returns a symbol for any sum of several terms that is provably not negative; other extents are
 * returned unchanged. */
int64_t bp__extent_name(BpExtents *extents, int64_t extent);
/* Makes a run fail if the extent is negative, before the run computes anything from the extent's
 * symbols. For an extent with one symbol, the symbol's lower bound is recorded. */
void bp__extent_require(BpExtents *extents, int64_t extent);

int64_t bp__extent_add(BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_subtract(BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_multiply(BpExtents *extents, int64_t a, int64_t b);
/* floor(a / b); b is not the number 0. */
int64_t bp__extent_divide(BpExtents *extents, int64_t a, int64_t b);
/* Whether a / b is an integer for all values of the symbols that do not make b 0. */
bool bp__extent_divides(const BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_min(BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_max(BpExtents *extents, int64_t a, int64_t b);
/* The product of all factors. */
int64_t bp__extent_product(BpExtents *extents, const int64_t *factors, int32_t count);

/* Whether a >= b for all values of the symbols. */
bool bp__extent_at_least(BpExtents *extents, int64_t a, int64_t b);
/* Whether two extents differ for all values of the symbols. */
bool bp__extent_differs(BpExtents *extents, int64_t a, int64_t b);

/* The number of expressions; and the name of the symbol at a place in the table, NULL if the
 * expression at the place is no symbol. A symbol's number is its place. */
int32_t bp__extents_count(const BpExtents *extents);
const char *bp__extents_symbol_name(const BpExtents *extents, int32_t index);
/* The likely value of the symbol at a place. */
int64_t bp__extents_likely(const BpExtents *extents, int32_t index);
/* The value of an extent if its symbols have their likely values. */
int64_t bp__extent_likely(const BpExtents *extents, int64_t extent);
/* The definition of the symbol at a place, which contains only symbols at lower places;
 * BP_EXTENT_NONE (no error raised) for other symbols and expressions. */
int64_t bp__extents_definition(const BpExtents *extents, int32_t index);
/* The extent whose value is the expression at a place. */
int64_t bp__extents_at(int32_t index);
/* Marks the places of the symbols without definition that an extent depends on. */
void bp__extent_mark_symbols(const BpExtents *extents, int64_t extent, bool *marked);

/* Callbacks that translate an expression bottom-up: numbers, symbols (by place), and operations on
 * two translated operands. DIVIDE rounds down. */
typedef enum BpExtentOp {
  BP_EXTENT_ADD,
  BP_EXTENT_MULTIPLY,
  BP_EXTENT_DIVIDE,
  BP_EXTENT_MIN,
  BP_EXTENT_MAX
} BpExtentOp;

typedef struct BpExtentFold {
  const void *(*number)(void *context, int64_t number);
  const void *(*symbol)(void *context, int32_t index);
  const void *(*apply)(void *context, BpExtentOp op, const void *a, const void *b);
  void *context;
} BpExtentFold;

/* Translates an extent with callbacks. */
const void *bp__extent_fold(const BpExtents *extents, int64_t extent, const BpExtentFold *fold);

/* Formats an extent as text ("2*n+1" or "7"), at most `size` bytes with the NUL. Returns `text`. */
char *bp__extent_format(const BpExtents *extents, int64_t extent, char *text, size_t size);

#endif
