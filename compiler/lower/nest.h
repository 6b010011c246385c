/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of one stage while build.c makes them, from the outside in. */
#ifndef BACKPLANE_COMPILER_LOWER_NEST_H
#define BACKPLANE_COMPILER_LOWER_NEST_H

#include "compiler/lower/lowering.h"

/* The purpose of a nest's innermost statements. */
enum {
  BP__NEST_MAIN,  /* compute */
  BP__NEST_INIT,  /* store the identities of a reduction, or the initial states of a scan */
  BP__NEST_LIMIT, /* find the number of steps of a scan */
  BP__NEST_COPY,  /* copy the states after a step to the states before the next step */
  BP__NEST_ZERO,  /* store zeros at the places of a scan that no step reaches */
  BP__NEST_LAST   /* store the states after the last step */
};

typedef struct BpNest {
  BpLowering *lowering;
  BpLowerStage *s;
  const BpTeStage *stage;
  int phase;             /* BP__NEST_* */
  bool is_around;        /* whether the loops that run in order (reduction, scan) are left out */
  bool is_serial;        /* whether every thread runs all iterations */
  const BpIrNode *steps; /* number of steps of a scan with a limit; NULL: all steps */
  bool is_masked;        /* whether some elements do not make every step */
  bool passes_limits;    /* whether lanes of a vector beyond the limits compute */
  const BpIrNode *lanes; /* the condition of the lanes below the limits; NULL: all lanes */
  /* The state of each axis, by the index of the axis: */
  int64_t extent[BP__TE_MAX_AXES];       /* extent; the greatest value for an open axis */
  const BpIrNode *open[BP__TE_MAX_AXES]; /* extent of an open axis, else NULL */
  const BpIrNode
      *limit[BP__TE_MAX_AXES]; /* upper limit of a root axis; NULL if its extent is the limit */
  const BpIrNode *value[BP__TE_MAX_AXES]; /* value of a leaf: free, loop variable or constant */
  bool is_bound[BP__TE_MAX_AXES];         /* whether the loop of a leaf exists */
  const BpIrNode *name[BP__TE_MAX_AXES];  /* variable that holds the value, or NULL */
  const BpIrNode *start[BP__TE_MAX_AXES]; /* variable that holds the start of a split axis' tile */
  bool is_checked[BP__TE_MAX_AXES];       /* whether the axis needs no guard for its bounds */
  bool is_full[BP__TE_MAX_AXES];          /* whether the piece of a split axis is all full tiles */
  int8_t piece[BP__TE_MAX_AXES];          /* the current piece of a split axis */
} BpNest;

/* Names for values, so that all values are computed before any value is stored. */
typedef struct BpNames {
  const BpIrNode *vars[3 * BP_TE_MAX_VALUES], *values[3 * BP_TE_MAX_VALUES];
  int32_t count;
} BpNames;

/* ---- build.c ----------------------------------------------------------------------------- */

/* The values of the root axes' variables in the current iteration. If `is_swept`, loops not built
 * yet have free variables, which range over their extents only. */
int bp__nest_roots(const BpNest *nest, bool is_swept, const BpIrNode **roots);
/* An expression of the stage with its root axes at `roots`; its reads access the tensors'
 * storage. */
const BpIrNode *bp__nest_rewrite(const BpNest *nest, const BpIrNode *const *roots,
                                 const BpIrNode *body);
/* A read of a tensor as a read of the tensor's current storage. */
const BpIrNode *bp__nest_relocate(const BpNest *nest, const BpIrNode *read);
/* Writes a tensor's element in the current iteration. */
const BpIrNode *bp__nest_write(const BpNest *nest, const BpLowerTensor *tensor,
                               const BpIrNode *value);
/* Names a value; and wraps the statement that uses the names in LETs of the names. */
const BpIrNode *bp__nest_name(const BpNest *nest, BpNames *names, const char *text,
                              const BpIrNode *value);
const BpIrNode *bp__nest_wrap_names(const BpNest *nest, const BpNames *names, const BpIrNode *body);
/* Makes the loops of the leaves from `position` on. */
const BpIrNode *bp__nest_loops(const BpNest *nest, int32_t position);
/* Makes everything inside the loops of the leaves before `position`. */
const BpIrNode *bp__nest_from(const BpNest *nest, int32_t position);

/* ---- prefetch.c -------------------------------------------------------------------------- */

/* The prefetches scheduled at the loop of the leaf at `position`, followed by `rest`. */
const BpIrNode *bp__nest_prefetch(const BpNest *nest, int32_t position, const BpIrNode *rest);

/* ---- sink.c ------------------------------------------------------------------------------ */

/* A serial or vectorised loop over rows of statements. */
typedef struct BpRowLoop {
  const char *name;
  const BpIrNode *var;
  int64_t first, count;
  int32_t for_kind;
} BpRowLoop;

/* Moves the row loop into the statements: the loop surrounds only parts that depend on the row. A
 * small buffer of a row becomes one for all rows, and a condition of the row moves to the parts.
 * Returns NULL for a NULL body. */
const BpIrNode *bp__lower_sink(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *body);

/* ---- scan.c ------------------------------------------------------------------------------ */

/* The position of the innermost leaf of a scan's axis; the step is known inside that leaf's
 * loop. */
int32_t bp__scan_position(const BpTeStage *stage);
/* Makes the loops of a scan, from the outermost leaf of its axis inwards: initial states, steps,
 * last states. */
const BpIrNode *bp__scan_begin(const BpNest *nest, int32_t position);
/* Records the value of the step when it is known. */
int bp__scan_enter(const BpNest *nest);
/* Makes one step, after the stages attached to it were computed. */
const BpIrNode *bp__scan_step(const BpNest *nest, int32_t position);
/* Makes the loop over the leaf at `position` of the axis of a scan with a limit. */
const BpIrNode *bp__scan_loop(const BpNest *nest, int32_t position);
/* Makes the innermost statements of a phase. */
const BpIrNode *bp__scan_innermost(const BpNest *nest);
/* Fails if a state is read at another step, or if elements are read that the loops inside the steps
 * do not cover. */
int bp__scan_check_read(const BpNest *nest, const BpLowerTensor *state, const BpIrNode *read);

#endif
