/* SPDX-License-Identifier: Apache-2.0 */
/* Extents that are open: known when a model runs, not when it is compiled.
 *
 * An integer of a shape is a number, or it stands for an expression in the table of its graph; the
 * two are told apart by bp__extent_is_open. Expressions are sums of products of symbols, quotients,
 * minima and maxima in one canonical form: equal ones are the same integer. Symbols are at least 0,
 * or what bp__extent_require says.
 * Where an operation has no memory, or no form for the result, it gives BP_EXTENT_NONE with an
 * error raised, and of that operand itself again. */
#ifndef BACKPLANE_GRAPH_IR_EXTENT_H
#define BACKPLANE_GRAPH_IR_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/ir/arena.h"

#define BP_EXTENT_NONE INT64_MIN
/* Numbers lie above this, so that no arithmetic on numbers gives what stands for an expression. */
#define BP_EXTENT_LAST_OPEN (INT64_MIN / 2)

/* The table of expressions that a graph and the bodies of its nodes share: a copy of this is the
 * same table. Zeroed where no extent may be open; bp__graph_can_be_open makes the table. */
typedef struct BpExtents {
  BpList *expressions; /* of memory of the arena */
  BpArena *arena;
} BpExtents;

static inline bool bp__extent_is_open(int64_t extent) {
  return extent <= BP_EXTENT_LAST_OPEN;
}
/* Whether any of `count` is. */
bool bp__extents_any_open(const int64_t *extents, int32_t count);

/* The symbol of that name, made where there is none yet, with what it is likely to be. */
int64_t bp__extent_symbol(BpExtents *extents, const char *name, int64_t likely);
/* A symbol that is defined as an expression, to keep long expressions out of the extents computed
 * from it. Equal expressions have one symbol. Sums of numbers and products of symbols are returned
 * as they are. */
int64_t bp__extent_define(BpExtents *extents, int64_t extent);
/* The same for any sum of several terms that is surely not negative; other extents are returned as
 * they are. */
int64_t bp__extent_name(BpExtents *extents, int64_t extent);
/* Says that a run fails where the extent is negative, before it computes anything with the
 * extent's symbols. Of an extent with one symbol, what follows for the symbol is remembered. */
void bp__extent_require(BpExtents *extents, int64_t extent);

int64_t bp__extent_add(BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_subtract(BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_multiply(BpExtents *extents, int64_t a, int64_t b);
/* floor(a / b); b is not the number 0. */
int64_t bp__extent_divide(BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_min(BpExtents *extents, int64_t a, int64_t b);
int64_t bp__extent_max(BpExtents *extents, int64_t a, int64_t b);
/* The product of all. */
int64_t bp__extent_product(BpExtents *extents, const int64_t *factors, int32_t count);

/* Whether a is surely at least b. */
bool bp__extent_at_least(BpExtents *extents, int64_t a, int64_t b);
/* Whether two extents are surely different. */
bool bp__extent_differs(BpExtents *extents, int64_t a, int64_t b);

/* Symbols are numbered by the place of their expression. The number of all expressions; and the
 * name of the symbol at one, NULL where another expression is. */
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
/* Marks the places of the symbols that an extent is made of, those without a definition. */
void bp__extent_mark_symbols(const BpExtents *extents, int64_t extent, bool *marked);

/* Callbacks that translate an expression from its parts up: numbers, symbols (by place), and
 * operations on two translated parts. DIVIDE rounds down. */
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

/* The translation of the extent. */
const void *bp__extent_fold(const BpExtents *extents, int64_t extent, const BpExtentFold *fold);

/* As text, "2*n+1" or "7", at most `size` bytes with the end. Returns `text`. */
char *bp__extent_format(const BpExtents *extents, int64_t extent, char *text, size_t size);

#endif
