/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one lowering, passed through its passes. docs/lowering.md tells the whole story. */
#ifndef BACKPLANE_COMPILER_LOWER_LOWERING_H
#define BACKPLANE_COMPILER_LOWER_LOWERING_H

#include "compiler/ir/ir.h"
#include "compiler/lower/linear.h"
#include "compiler/te/te_private.h"

/* What the build pass leaves to storage flattening besides accesses: EVALUATE of this call of
 * (buffer, i0, i1, ...), which need not be inside the buffer. */
#define BP__TE_PREFETCH "te.prefetch"

/* One tensor of a stage. */
typedef struct BpLowerTensor {
  const BpTeTensor *tensor;
  struct BpLowerStage *s;
  const BpIrNode *buffer;      /* that stands for it in bodies */
  const BpIrNode *const *mins; /* by dimension of the domain: which element the first one of its
                                  storage is (NULL: 0) */
  bool is_output;
  bool is_needed;          /* an output, or read by another stage, or part of a reduction */
  const BpIrNode *storage; /* where it is stored now */
} BpLowerTensor;

/* A stage as lowering sees it; all nodes belong to the module lowered into. */
typedef struct BpLowerStage {
  BpTeStage *stage;
  struct BpLowerStage *attached_to;      /* NULL: at the root */
  int32_t attach_position;               /* of the axis among the leaves of attached_to */
  BpLowerTensor *tensors;                /* by value, as many as the stage has */
  BpLowerTensor *states;                 /* of a scan */
  const BpIrNode *body;                  /* with inlined stages in it */
  const BpIrNode *before;                /* of a scan: its initial values and its limit, likewise */
  const BpIrNode *vars[BP__TE_MAX_AXES]; /* of the root axes, as the body names them */
  const BpIrNode **reads;                /* the distinct reads in the bodies */
  int32_t num_reads;
  const BpIrNode *mins[BP_TE_MAX_NDIM];       /* of its tensors */
  const BpIrNode *state_mins[BP_TE_MAX_NDIM]; /* of its states */
  BpInterval step_part[BP_TE_MAX_NDIM];       /* of a scan: what a step goes through, */
  bool has_gaps[BP_TE_MAX_NDIM];              /* and whether it leaves out some of that */
  const BpIrNode *next[BP_TE_MAX_VALUES]; /* by state: where it is kept until the step ends; NULL:
                                             the step writes the state itself */
  /* Scratch of bounds inference: the region wanted. */
  bool is_wanted;
  BpInterval region[BP_TE_MAX_NDIM];
  /* By dimension: the open extent of the whole, where a region of constant size may go beyond it;
     NULL: it does not. */
  const BpIrNode *whole[BP_TE_MAX_NDIM];
} BpLowerStage;

/* A loop over a thread axis that is being built, innermost first. */
typedef struct BpThreadLoop {
  const char *axis;
  const BpIrNode *var;
  int64_t count; /* from 0 on */
  const struct BpThreadLoop *outer;
} BpThreadLoop;

typedef struct BpLowering {
  BpTe *te;
  BpIrModule *module;
  const BpLowerOptions *options;
  const char *name;
  BpTeTensor *const *args;
  int32_t num_args;
  const BpIrNode **params; /* of the function: buffers, and then the open extents */
  int32_t num_params;
  BpLowerStage *stages; /* those reached and not inlined, producers first */
  int32_t num_stages;
  BpIrMap copied;   /* nodes of the expressions -> their copies in module */
  BpIrMap valid;    /* a BUFFER with spare elements at the ends of its rows -> the extent without */
  BpIrMap of_block; /* a variable that differs among the threads of a block -> what all have of it:
                       a free variable for a thread's number, a name's value in such ones */
  BpIrMap by_buffer; /* the copied BUFFER of a computed tensor -> BpLowerTensor */
  BpIndexContext index;
  const BpThreadLoop *thread_loops; /* while building: those around */
  bool is_in_parallel;              /* while building: inside a parallel loop */
} BpLowering;

/* Collects the stages that the outputs need, with inlined ones substituted, and checks that each
 * runs where its readers can see it. */
int bp__lower_normalize(BpLowering *lowering);
/* Refuses a stage that reads outside a tensor whatever happens. */
int bp__lower_check_reads(BpLowering *lowering, const BpLowerStage *s);

/* The passes. Each gives the new body, or NULL with an error. */
const BpIrNode *bp__lower_build(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_partition(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_flatten(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_vectorize(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_unroll(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_tidy(BpLowering *lowering, const BpIrNode *body);

/* Sets `region` of `producer`: what the stages inside `consumer` from here on read of it, where the
 * root axes of `consumer` have the values `roots` (with free variables for loops still to come). */
int bp__lower_region(BpLowering *lowering, BpLowerStage *producer, BpLowerStage *consumer,
                     const BpIrNode *const *roots);

/* Keeps a region inside 0 <= i < whole; beyond it nothing is read, whatever the indices say. */
int bp__lower_clamp(BpLowering *lowering, BpInterval *interval, int64_t whole);

/* How far an extent of the stages goes, `extent` or, if it is not NULL, the open one: as a region
 * from 0 on. */
int bp__lower_whole(BpLowering *lowering, int64_t extent, const BpIrNode *open,
                    BpInterval *interval);
/* States that a variable sweeps an interval that begins with 0. */
int bp__lower_set_free(BpLowering *lowering, const BpIrNode *var, const BpInterval *swept);
/* The number of values of an interval. */
static inline const BpIrNode *bp__lower_extent_node(const BpLowering *lowering,
                                                    const BpInterval *interval) {
  return interval->open ? interval->open : bp__ir_int64(lowering->module, interval->extent);
}

/* An index of a read, with the reader's root axes at `roots`, as an interval. */
int bp__lower_index_interval(BpLowering *lowering, const BpLowerStage *reader,
                             const BpIrNode *const *roots, const BpIrNode *index,
                             BpInterval *interval, bool *is_bounded);

/* The computed tensor or state that a BUFFER of an expression stands for; NULL: a placeholder. */
static inline BpLowerTensor *bp__lower_tensor_of(const BpLowering *lowering,
                                                 const BpIrNode *buffer) {
  return (BpLowerTensor *)bp__ir_map_get(&lowering->by_buffer, buffer);
}
/* The stage that computes it; NULL: a placeholder or a state. */
static inline BpLowerStage *bp__lower_stage_of(const BpLowering *lowering, const BpIrNode *buffer) {
  const BpLowerTensor *tensor = bp__lower_tensor_of(lowering, buffer);
  return tensor && !tensor->tensor->state_of ? tensor->s : NULL;
}
/* The dimension of the domain of a tensor's stage that dimension `index` of the tensor is. */
static inline int32_t bp__lower_domain_dimension(const BpTeTensor *tensor, int32_t index) {
  return index + (tensor->skipped >= 0 && index >= tensor->skipped);
}
/* Whether the iterations of an axis run in order: it is of a reduction, or of a scan. */
static inline bool bp__lower_is_in_order(const BpTeAxis *axis) {
  return axis->is_reduce || axis->is_scan;
}
/* Whether a tensor of the stage is an argument of the function. */
static inline bool bp__lower_is_output(const BpLowerStage *s) {
  for (int32_t i = 0; i < s->stage->num_tensors; i++)
    if (s->tensors[i].is_output)
      return true;
  return false;
}

#endif
