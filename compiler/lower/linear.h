/* SPDX-License-Identifier: Apache-2.0 */
/* Integer index arithmetic: linear forms, the ranges of expressions, and the intervals over which
 * they range while some loops run.
 *
 * Every int64 scalar is a linear form: a constant and integer multiples of atoms. Atoms are
 * variables and nonlinear expressions (loads, divisions that leave a remainder, ...). */
#ifndef BACKPLANE_COMPILER_LOWER_LINEAR_H
#define BACKPLANE_COMPILER_LOWER_LINEAR_H

#include "compiler/ir/ir.h"

/* Stand for unbounded; far from overflow. */
#define BP__RANGE_MIN (INT64_MIN / 8)
#define BP__RANGE_MAX (INT64_MAX / 8)

/* The range of an integer: min <= value <= max. */
typedef struct BpRange {
  int64_t min, max;
} BpRange;

/* The range of a variable. A free variable takes all values of its range in bp__index_interval; for
 * one that is also open the end is unknown. */
typedef struct BpVarRange {
  BpRange range;
  bool is_free, is_open;
} BpVarRange;

/* Stored results for deep expressions, which are graphs, so that each of their nodes is examined
 * once. Cleared when more becomes known about a variable. */
#define BP__INDEX_FORM      0
#define BP__INDEX_RANGE     1
#define BP__INDEX_DECISION  2
#define BP__INDEX_INTERVAL  3
#define BP__INDEX_NUM_FACTS 4

/* The most assumptions at a time; further ones are ignored. */
#define BP__INDEX_MAX_ASSUMED 32

typedef struct BpIndexContext {
  BpIrModule *module;
  const BpIrNode *assumed[BP__INDEX_MAX_ASSUMED]; /* integers that are at least 0 */
  int32_t num_assumed;
  BpIrMap vars; /* VAR -> BpVarRange, in the module's memory */
  BpIrMap facts[BP__INDEX_NUM_FACTS];
} BpIndexContext;

void bp__index_clear(BpIndexContext *context);
/* Sets the range of a variable from now on. */
int bp__index_set_range(BpIndexContext *context, const BpIrNode *var, int64_t min, int64_t max,
                        bool is_free);
/* The same for a free variable that goes from 0 to an open extent, which is at most `max` + 1. */
int bp__index_set_open(BpIndexContext *context, const BpIrNode *var, int64_t max);

/* Assumes that an integer is at least 0 if the ranges of variables do not show it: a loop stays
 * below its open extent. The assumption holds until the number of assumptions is reset. */
void bp__index_assume(BpIndexContext *context, const BpIrNode *node);
void bp__index_reset(BpIndexContext *context, int32_t num_assumed);

/* The expression in canonical form: large multiples first, the constant last, divisions resolved if
 * the ranges allow it, floor division and modulus replaced by DIV and MOD if nothing is negative.
 * Anything except an int64 scalar is returned unchanged. */
const BpIrNode *bp__index_simplify(BpIndexContext *context, const BpIrNode *node);
/* The possible values of an integer, or of any lane of a vector of integers. */
BpRange bp__index_range(BpIndexContext *context, const BpIrNode *node);
/* Whether a condition is known: 1 true, 0 false, -1 unknown. */
int bp__index_decide(BpIndexContext *context, const BpIrNode *condition);
/* a - b if that is a constant. */
bool bp__index_difference(BpIndexContext *context, const BpIrNode *a, const BpIrNode *b,
                          int64_t *difference);

/* Whether a variable that is free, or also open, occurs in an expression: 1, 0 or -1. */
int bp__index_has_free(BpIndexContext *context, const BpIrNode *node);
int bp__index_has_open(BpIndexContext *context, const BpIrNode *node);

/* The smallest value and the number of values of an expression when its free variables take every
 * value of their ranges; min does not depend on them. If it is not bounded, for example because a
 * variable is open, extent and min are not set. */
typedef struct BpInterval {
  const BpIrNode *min;
  int64_t extent;
  const BpIrNode *open; /* for a region as large as an open extent: that extent, of which `extent`
                           is the greatest value; else NULL */
} BpInterval;
static inline BpInterval bp__interval(const BpIrNode *min, int64_t extent) {
  return (BpInterval){min, extent, NULL};
}
int bp__index_interval(BpIndexContext *context, const BpIrNode *node, BpInterval *interval,
                       bool *is_bounded);

/* The greatest common divisor; 0 of 0 and 0. */
int64_t bp__greatest_divisor(int64_t a, int64_t b);

/* Splits node = multiple * var + rest, where the rest does not depend on var. False if that is
 * impossible. */
bool bp__index_split(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                     int64_t *multiple, const BpIrNode **rest);

/* Sets node = moving + rest, where the rest does not depend on var and is as large as possible. */
int bp__index_apart(BpIndexContext *context, const BpIrNode *node, const BpIrNode *var,
                    const BpIrNode **moving, const BpIrNode **rest);

/* An expression that is negative exactly where `node` is, without quotients that depend on `var` as
 * far as they can be multiplied out: floor(x / c) - 5 is negative where x - 5 * c is. `node` itself
 * if there are none; NULL with an error. */
const BpIrNode *bp__index_sign_form(BpIndexContext *context, const BpIrNode *node,
                                    const BpIrNode *var);

#endif
