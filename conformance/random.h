/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and expressions in IR, from a seed: what the tests of the compiler and the kit
 * have in common. */
#ifndef BACKPLANE_CONFORMANCE_RANDOM_H
#define BACKPLANE_CONFORMANCE_RANDOM_H

#include "conformance/programs.h"

/* The next number, of 31 bits, of a sequence that the state determines, which begins as the seed.
 */
uint64_t bp__random_next(uint64_t *state);

#define RANDOM_VARS 3

typedef struct RandomExpressions RandomExpressions;
struct RandomExpressions {
  BpIrModule *module; /* of which the expressions are */
  uint64_t state;     /* the seed */
  /* By type of bp__program_types; bool, which is the first, is always there. */
  gboolean is_used[PROGRAM_TYPES];
  /* Of each type that is used: scalars that may occur. */
  const BpIrNode *vars[PROGRAM_TYPES][RANDOM_VARS];
  /* Floats are small integers, of which sums and products are exact in float32. */
  gboolean is_exact;
  /* Or NULL: another leaf than a variable or a constant; NULL from it: none. */
  const BpIrNode *(*leaf)(RandomExpressions *random, int type, uint16_t lanes, int depth);
};

/* A number below the limit. */
int bp__random_below(RandomExpressions *random, int limit);
/* The number of a type that is used, among bp__program_types. */
int bp__random_type(RandomExpressions *random);
/* An expression of the type with 1 or more lanes, nested at most so deep. None of it is folded.
 * NULL with an error. */
const BpIrNode *bp__random_expression(RandomExpressions *random, int type, uint16_t lanes,
                                      int depth);

#endif
