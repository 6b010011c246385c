/* SPDX-License-Identifier: Apache-2.0 */
/* Integer index arithmetic: linear forms, the ranges of expressions, and the intervals that they
 * sweep when some loops run.
 *
 * Every int64 scalar is a linear form: a constant and integer multiples of atoms, which are
 * variables and whatever is not linear (loads, divisions that do not come out even, ...). */
#ifndef BACKPLANE_COMPILER_LOWER_LINEAR_H
#define BACKPLANE_COMPILER_LOWER_LINEAR_H

#include "compiler/ir/ir.h"

/* Stand for unbounded; far from overflow. */
#define BP__RANGE_MIN (INT64_MIN / 8)
#define BP__RANGE_MAX (INT64_MAX / 8)

/* What is known of an integer: min <= it <= max. */
typedef struct BpRange {
  int64_t min, max;
} BpRange;

/* What is known of a variable. A free one sweeps its whole range in bp__index_interval; of one that
 * is open as well, nobody knows how far that goes. */
typedef struct BpVarRange {
  BpRange range;
  bool is_free, is_open;
} BpVarRange;

/* What was found out of deep expressions, which are graphs: so that each of their nodes is looked
 * at once. Void as soon as more is known of a variable. */
#define BP__INDEX_FORM      0
#define BP__INDEX_RANGE     1
#define BP__INDEX_DECISION  2
#define BP__INDEX_INTERVAL  3
#define BP__INDEX_NUM_FACTS 4

/* Most that can be assumed at once; what is beyond is not made use of. */
#define BP__INDEX_MAX_ASSUMED 32

typedef struct BpIndexContext {
  BpIrModule *module;
  const BpIrNode *assumed[BP__INDEX_MAX_ASSUMED]; /* integers that are at least 0 */
  int32_t num_assumed;
  BpIrMap vars; /* VAR -> BpVarRange of the module's memory */
  BpIrMap facts[BP__INDEX_NUM_FACTS];
} BpIndexContext;

void bp__index_clear(BpIndexContext *context);
/* States what is known of a variable from now on. */
int bp__index_set_range(BpIndexContext *context, const BpIrNode *var, int64_t min, int64_t max,
                        bool is_free);
/* The same of a free one that goes from 0 to an open extent, which is `max` + 1 at most. */
int bp__index_set_open(BpIndexContext *context, const BpIrNode *var, int64_t max);

/* States that an integer is at least 0, where ranges of variables do not say it: a loop stays below
 * its open extent. It holds until the assumptions are reset to as many as there were before. */
void bp__index_assume(BpIndexContext *context, const BpIrNode *node);
void bp__index_reset(BpIndexContext *context, int32_t num_assumed);

/* The expression in canonical form: large multiples first, the constant last, divisions resolved
 * where the ranges allow it, floor division and modulus by DIV and MOD where nothing is negative.
 * Anything but an int64 scalar comes back as it is. */
const BpIrNode *bp__index_simplify(BpIndexContext *context, const BpIrNode *node);
/* The values that an integer, or any lane of a vector of integers, can take. */
BpRange bp__index_range(BpIndexContext *context, const BpIrNode *node);
/* Whether a condition is known: 1 true, 0 false, -1 unknown. */
int bp__index_decide(BpIndexContext *context, const BpIrNode *condition);
/* a - b if that is a constant. */
bool bp__index_difference(BpIndexContext *context, const BpIrNode *a, const BpIrNode *b,
                          int64_t *difference);

/* Whether a free variable, or one that is open as well, occurs in an expression: 1, 0 or -1. */
int bp__index_has_free(BpIndexContext *context, const BpIrNode *node);
int bp__index_has_open(BpIndexContext *context, const BpIrNode *node);

/* The smallest value and the number of values of an expression when its free variables take every
 * value of their ranges; min is free of them. Not bounded, where one of them is open for example:
 * extent and min are not set. */
typedef struct BpInterval {
  const BpIrNode *min;
  int64_t extent;
  const BpIrNode *open; /* of a region that is as large as an open extent: that, and `extent` is the
                           most that it can be; else NULL */
} BpInterval;
static inline BpInterval bp__interval(const BpIrNode *min, int64_t extent) {
  return (BpInterval){min, extent, NULL};
}
int bp__index_interval(BpIndexContext *context, const BpIrNode *node, BpInterval *interval,
                       bool *is_bounded);

/* The greatest common divisor; 0 of 0 and 0. */
int64_t bp__greatest_divisor(int64_t a, int64_t b);

/* Splits node = multiple * var + rest, where the rest is free of var. False if it is not so. */
bool bp__index_split(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                     int64_t *multiple, const BpIrNode **rest);

/* Sets node = moving + rest, where the rest is free of var, and as much as can be is in it. */
int bp__index_apart(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                    const BpIrNode **moving, const BpIrNode **rest);

/* An expression that is negative exactly where `node` is, without quotients that depend on `var` as
 * far as they can be multiplied out: floor(x / c) - 5 is negative where x - 5 * c is. `node` itself
 * if there are none; NULL with an error. */
const BpIrNode *bp__index_sign_form(BpIndexContext *context, const BpIrNode *node,
                                    const BpIrNode *var);

#endif
