/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of one stage during their construction, from the outside in; see build.c. */
#ifndef BACKPLANE_COMPILER_LOWER_NEST_H
#define BACKPLANE_COMPILER_LOWER_NEST_H

#include "compiler/lower/lowering.h"

/* The purpose of a nest's innermost statements. */
enum {
  BP__NEST_MAIN,  /* compute */
  BP__NEST_INIT,  /* store the identities of a reduction, or the initial states of a scan */
  BP__NEST_LIMIT, /* find the number of steps of a scan */
  BP__NEST_COPY,  /* copy the states after a step to those before the next one */
  BP__NEST_ZERO,  /* store zeros at the places of a scan that make no step */
  BP__NEST_LAST   /* store the states after the last step */
};

typedef struct BpNest {
  BpLowering *lowering;
  BpLowerStage *s;
  const BpTeStage *stage;
  int phase;             /* BP__NEST_* */
  bool is_around;        /* without the loops that run in order: those of a reduction or scan */
  bool is_serial;        /* every thread runs all iterations */
  const BpIrNode *steps; /* for a scan with a limit: the number of steps; NULL: all */
  bool is_masked;        /* not every element makes each step */
  /* By the index of the axis: */
  int64_t extent[BP__TE_MAX_AXES];       /* for an open axis the greatest value */
  const BpIrNode *open[BP__TE_MAX_AXES]; /* the extent of an open axis, else NULL */
  const BpIrNode
      *limit[BP__TE_MAX_AXES]; /* for a root axis: an upper limit; NULL: its extent is the limit */
  const BpIrNode *value[BP__TE_MAX_AXES]; /* for a leaf: free, a loop's variable or a constant */
  bool is_bound[BP__TE_MAX_AXES];         /* for a leaf: its loop exists */
  const BpIrNode *name[BP__TE_MAX_AXES];  /* a variable that holds the value, or NULL */
  const BpIrNode *start[BP__TE_MAX_AXES]; /* for a split axis: the variable of its tile's start */
  bool is_checked[BP__TE_MAX_AXES];       /* its bounds need no guard now */
  bool is_full[BP__TE_MAX_AXES];          /* for a split axis: this piece has full tiles only */
  int8_t piece[BP__TE_MAX_AXES];          /* for a split axis: the piece that runs here */
} BpNest;

/* Names for values, so that all are computed before any of them is stored. */
typedef struct BpNames {
  const BpIrNode *vars[3 * BP_TE_MAX_VALUES], *values[3 * BP_TE_MAX_VALUES];
  int32_t count;
} BpNames;

/* ---- build.c ----------------------------------------------------------------------------- */

/* The values of the root axes' variables in this iteration; `is_swept`: with free variables for
 * loops still to come, which range over their extents only. */
int bp__nest_roots(const BpNest *nest, bool is_swept, const BpIrNode **roots);
/* An expression of the stage with its root axes at `roots`; its reads go to the tensors'
 * storage. */
const BpIrNode *bp__nest_rewrite(const BpNest *nest, const BpIrNode *const *roots,
                                 const BpIrNode *body);
/* A write of a tensor's element for this iteration. */
const BpIrNode *bp__nest_write(const BpNest *nest, const BpLowerTensor *tensor,
                               const BpIrNode *value);
/* Names a value; and wraps the statement that uses the names in their LETs. */
const BpIrNode *bp__nest_name(const BpNest *nest, BpNames *names, const char *text,
                              const BpIrNode *value);
const BpIrNode *bp__nest_wrap_names(const BpNest *nest, const BpNames *names, const BpIrNode *body);
/* The loops of the leaves from `position` on. */
const BpIrNode *bp__nest_loops(const BpNest *nest, int32_t position);
/* Everything inside the loops of the leaves before `position`. */
const BpIrNode *bp__nest_from(const BpNest *nest, int32_t position);

/* ---- sink.c ------------------------------------------------------------------------------ */

/* A serial or vectorised loop over rows of statements. */
typedef struct BpRowLoop {
  const char *name;
  const BpIrNode *var;
  int64_t first, count;
  int32_t for_kind;
} BpRowLoop;

/* The statements with the loop around each part that depends on the row. A NULL body gives NULL. */
const BpIrNode *bp__lower_sink(BpLowering *lowering, const BpRowLoop *loop, const BpIrNode *body);

/* ---- scan.c ------------------------------------------------------------------------------ */

/* The position of the innermost leaf of a scan's axis; inside of it the step is known. */
int32_t bp__scan_position(const BpTeStage *stage);
/* The loops of a scan from its outermost axis leaf on: initial states, steps, last states. */
const BpIrNode *bp__scan_begin(const BpNest *nest, int32_t position);
/* Records the value of the step once it is known. */
int bp__scan_enter(const BpNest *nest);
/* One step, after the stages attached to it were computed. */
const BpIrNode *bp__scan_step(const BpNest *nest, int32_t position);
/* The loop over the axis's leaf at `position` of a scan with a limit. */
const BpIrNode *bp__scan_loop(const BpNest *nest, int32_t position);
/* The innermost statements of a phase. */
const BpIrNode *bp__scan_innermost(const BpNest *nest);
/* Refuses a read of a state at another step, or of elements that the loops inside of the steps do
 * not cover. */
int bp__scan_check_read(const BpNest *nest, const BpLowerTensor *state, const BpIrNode *read);

#endif
