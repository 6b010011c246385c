/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and expressions in IR, from a seed, for the tests of the compiler and the kit. */
#ifndef BACKPLANE_CONFORMANCE_RANDOM_H
#define BACKPLANE_CONFORMANCE_RANDOM_H

#include "conformance/programs.h"

/* Returns the next number, of 31 bits, in a sequence that the state determines; the initial state
 * is the seed. */
uint64_t bp__random_next(uint64_t *state);

#define RANDOM_VARS 3

typedef struct RandomExpressions RandomExpressions;
struct RandomExpressions {
  BpIrModule *module; /* the module of the expressions */
  uint64_t state;     /* the seed */
  /* The types in use, by index in bp__program_types; bool, the first type, is always used. */
  gboolean is_used[PROGRAM_TYPES];
  /* For each used type: scalars that may occur in expressions. */
  const BpIrNode *vars[PROGRAM_TYPES][RANDOM_VARS];
  /* Floats are small integers, whose sums and products are exact in float32. */
  gboolean is_exact;
  /* Makes a leaf other than a variable or a constant, or returns NULL; the callback may be NULL. */
  const BpIrNode *(*leaf)(RandomExpressions *random, int type, uint16_t lanes, int depth);
};

/* Returns a number below the limit. */
int bp__random_below(RandomExpressions *random, int limit);
/* Returns the index of a used type in bp__program_types. */
int bp__random_type(RandomExpressions *random);
/* Makes an expression of the type with 1 or more lanes, nested at most `depth` deep, without
 * folding. NULL with an error. */
const BpIrNode *bp__random_expression(RandomExpressions *random, int type, uint16_t lanes,
                                      int depth);

#endif
