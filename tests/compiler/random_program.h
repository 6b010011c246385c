/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs in IR, from a seed: statements, loops, memory of all scopes, vectors, masks and
 * barriers, of all types. Test code: any fault ends the test program.
 *
 * A program has threads, each with its own part of every output, so that their order does not
 * matter. Floats are small integers, whose sums and products are exact, NaN and infinities; other
 * floats are only compared and converted to integers. */
#ifndef TESTS_COMPILER_RANDOM_PROGRAM_H
#define TESTS_COMPILER_RANDOM_PROGRAM_H

#include <glib.h>

#include "conformance/random.h"

#define NUM_TYPES  3  /* types of buffers in one program */
#define INPUT      32 /* elements of an input */
#define PART       16 /* elements of an output for one thread */
#define MAX_BLOCKS 5
#define THREADS    4 /* threads in a block */
#define COUNT      5 /* the value of a scalar parameter that is a number */

/* The parameters of a program, in this order: NUM_TYPES inputs, NUM_TYPES outputs, a buffer of
 * floats that are not exact, an input without elements, and NUM_SCALARS scalars of value COUNT: an
 * integer and a number of any type. */
#define NUM_BUFFERS (2 * NUM_TYPES + 2)
#define NUM_SCALARS 2

/* A value whose range is known. */
typedef struct RandomRange {
  const BpIrNode *value;
  int64_t min, max;
} RandomRange;

#define MAX_RANGES  12
#define MAX_LOCALS  4
#define MAX_VECTORS 4

typedef struct RandomProgram {
  RandomExpressions random; /* first member: callbacks for leaves cast its address to the program */
  uint64_t seed;
  gboolean has_barriers; /* threads of a block exchange values; needs a target with threads */
  gboolean is_series;    /* several loops that share memory; needs a target without threads */
  int types[NUM_TYPES];
  const BpIrNode *inputs[NUM_TYPES], *outputs[NUM_TYPES];
  const BpIrNode *odd;       /* floats that are not exact */
  const BpIrNode *nothing;   /* an input without elements, of the last type */
  const BpIrNode *count, *m; /* the scalars */
  const BpIrNode *n;         /* the first scalar as int64 */
  const BpIrNode *thread;    /* the number of the thread, an expression */
  const BpIrNode *block;     /* the number of the block, an expression */
  const BpIrNode *place;     /* number of the thread in its block, an expression */
  const BpIrNode *first;     /* the first element of the thread's part of an output */
  int part;                  /* number of elements in the thread's part of an output */
  const BpIrNode *workspace; /* global memory that an earlier loop has set, or NULL */
  const BpIrNode *locals[MAX_LOCALS];
  int num_locals;
  RandomRange ranges[MAX_RANGES];
  int num_ranges;
  const BpIrNode *vectors[MAX_VECTORS]; /* variables */
  int num_vectors;
  const BpIrNode *function;
} RandomProgram;

/* Makes a program as a function `name` in a new module, program->random.module. */
void random_program_make(RandomProgram *program, uint64_t seed, const char *name);

/* Whether a type is one of floats, by index in bp__program_types. */
gboolean random_program_is_float(int type);

#endif
