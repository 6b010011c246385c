/* SPDX-License-Identifier: Apache-2.0 */
/* Integer index arithmetic: linear forms, the ranges of expressions, and the intervals of
 * expressions while some loops run.
 *
 * Every int64 scalar is a linear form: a constant and integer multiples of atoms. Atoms are
 * variables and nonlinear expressions (loads, divisions that leave a remainder, ...). A linear form
 * is equal to its expression even if both wrap. Quotients, extremes and comparisons of numbers that
 * wrap are different: there a sum or product of data that may wrap is an atom. */
#ifndef BACKPLANE_COMPILER_LOWER_LINEAR_H
#define BACKPLANE_COMPILER_LOWER_LINEAR_H

#include "compiler/ir/ir.h"

/* The limits that stand for "unbounded"; they are far from overflow. */
#define BP__RANGE_MIN (INT64_MIN / 8)
#define BP__RANGE_MAX (INT64_MAX / 8)

/* The range of an integer: min <= value <= max. */
typedef struct BpRange {
  int64_t min, max;
} BpRange;

/* The range of a variable. In bp__index_interval a free variable takes all values of its range. The
 * end of an open variable is unknown. A variable of data is the name of a number of a tensor. */
typedef struct BpVarRange {
  BpRange range;
  bool is_free, is_open, is_data;
} BpVarRange;

/* Kinds of results stored for deep expressions, which are graphs, so that each node is examined
 * once. A new fact about a variable clears the results. */
#define BP__INDEX_FORM      0
#define BP__INDEX_RANGE     1
#define BP__INDEX_DECISION  2
#define BP__INDEX_INTERVAL  3
#define BP__INDEX_ORIGIN    4
#define BP__INDEX_NUM_FACTS 5

/* The maximum number of assumptions; further assumptions are ignored. */
#define BP__INDEX_MAX_ASSUMED 32

typedef struct BpIndexContext {
  BpIrModule *module;
  const BpIrNode *assumed[BP__INDEX_MAX_ASSUMED]; /* integers that are assumed to be at least 0 */
  int32_t num_assumed;
  bool wraps;   /* sums and products of data may exceed int64, and wrap; those in an index never do,
                 * because the index is inside a tensor */
  BpIrMap vars; /* VAR -> BpVarRange in the module's memory */
  BpIrMap facts[2][BP__INDEX_NUM_FACTS]; /* without and with `wraps` */
} BpIndexContext;

void bp__index_clear(BpIndexContext *context);
/* Sets the range of a variable until it is set again. */
int bp__index_set_range(BpIndexContext *context, const BpIrNode *var, int64_t min, int64_t max,
                        bool is_free);
/* Gives the name of an integer the integer's range, and states whether the integer is data. A
 * variable without a range counts as data. Returns 1; 0 if the name had the same range and origin
 * already; -1 with an error. */
int bp__index_set_name(BpIndexContext *context, const BpIrNode *var, const BpIrNode *value);
/* States that the int64 parameters of a function are indices of unknown range. */
int bp__index_set_params(BpIndexContext *context, const BpIrNode *function);
/* Narrows the range of a variable to values that a range has as well. */
int bp__index_limit(BpIndexContext *context, const BpIrNode *var, BpRange range);
/* Gives a variable the range and the origin of another one, if that has a range. */
int bp__index_set_like(BpIndexContext *context, const BpIrNode *var, const BpIrNode *other);
/* Sets the range of a free variable that goes from 0 to an open extent, which is at most `max` +
 * 1. */
int bp__index_set_open(BpIndexContext *context, const BpIrNode *var, int64_t max);

/* Assumes that an integer is at least 0, unless the ranges of variables prove it; for example that
 * a loop variable is below its open extent. The assumption holds until the number of assumptions is
 * reset. */
void bp__index_assume(BpIndexContext *context, const BpIrNode *node);
void bp__index_reset(BpIndexContext *context, int32_t num_assumed);

/* The canonical form of an expression: large multiples first, the constant last, divisions resolved
 * if the ranges allow it, floor division and modulus replaced by DIV and MOD if no operand is
 * negative. Anything except an int64 scalar is returned unchanged. */
const BpIrNode *bp__index_simplify(BpIndexContext *context, const BpIrNode *node);
/* The range of an integer, or of all lanes of a vector of integers. The range of data is correct
 * only if the context states that data wraps. */
BpRange bp__index_range(BpIndexContext *context, const BpIrNode *node);
/* Whether a condition, which may compare data, is true in all iterations: 1 true, 0 false, -1
 * unknown. */
int bp__index_decide(BpIndexContext *context, const BpIrNode *condition);
/* Sets *difference to a - b if that is a constant; otherwise returns false. */
bool bp__index_difference(BpIndexContext *context, const BpIrNode *a, const BpIrNode *b,
                          int64_t *difference);

/* Whether an expression contains a free variable, or an open variable: 1, 0, or -1 with an
 * error. */
int bp__index_has_free(BpIndexContext *context, const BpIrNode *node);
int bp__index_has_open(BpIndexContext *context, const BpIrNode *node);

/* The least value and the number of values of an expression when its free variables take every
 * value of their ranges. min does not depend on free variables. If the expression is not bounded,
 * for example because a variable is open, extent and min are not set. */
typedef struct BpInterval {
  const BpIrNode *min;
  int64_t extent;
  const BpIrNode *open; /* the open extent that the region is as large as, with `extent` its
                         * greatest value; else NULL */
} BpInterval;
static inline BpInterval bp__interval(const BpIrNode *min, int64_t extent) {
  return (BpInterval){min, extent, NULL};
}
int bp__index_interval(BpIndexContext *context, const BpIrNode *node, BpInterval *interval,
                       bool *is_bounded);

/* The greatest common divisor; 0 if both numbers are 0. */
int64_t bp__greatest_divisor(int64_t a, int64_t b);

/* Splits node = multiple * var + rest, where the rest does not depend on var; false if that is
 * impossible. */
bool bp__index_split(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                     int64_t *multiple, const BpIrNode **rest);
/* Splits a - b = multiple * var + rest, with a positive difference exactly where a > b; false if
 * that is impossible, for example because a number of a tensor may make the difference wrap. */
bool bp__index_split_difference(BpIndexContext *context, const BpIrNode *a, const BpIrNode *b,
                                const BpIrNode *var, int64_t *multiple, const BpIrNode **rest);

/* Splits node = moving + rest, where the rest does not depend on var and is as large as
 * possible. */
int bp__index_apart(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                    const BpIrNode **moving, const BpIrNode **rest);

/* An expression that is negative exactly where `node` is negative, with as few quotients that
 * depend on `var` as possible: x - 5 * c for floor(x / c) - 5. Returns `node` itself if it has no
 * quotient that depends on `var`, NULL with an error. */
const BpIrNode *bp__index_sign_form(BpIndexContext *context, const BpIrNode *node,
                                    const BpIrNode *var);

#endif
