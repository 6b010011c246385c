/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one lowering, passed through its passes. docs/lowering.md explains the passes. */
#ifndef BACKPLANE_COMPILER_LOWER_LOWERING_H
#define BACKPLANE_COMPILER_LOWER_LOWERING_H

#include "compiler/ir/ir.h"
#include "compiler/lower/linear.h"
#include "compiler/te/te_private.h"

/* Besides accesses, the build pass leaves this call to storage flattening: an EVALUATE of (buffer,
 * i0, i1, ...), which need not be inside the buffer. */
#define BP__TE_PREFETCH "te.prefetch"

/* One tensor of a stage. */
typedef struct BpLowerTensor {
  const BpTeTensor *tensor;
  struct BpLowerStage *s;
  const BpIrNode *buffer; /* stands for it in bodies */
  const BpIrNode *const
      *mins; /* by dimension of the domain: the element that is first in its storage (NULL: 0) */
  bool is_output;
  bool is_needed;          /* an output, or read by another stage, or part of a reduction */
  const BpIrNode *storage; /* its present storage */
} BpLowerTensor;

/* A stage during lowering; all nodes belong to the module that receives the function. */
typedef struct BpLowerStage {
  BpTeStage *stage;
  struct BpLowerStage *attached_to; /* NULL: at the root */
  int32_t attach_position;          /* position of the axis among the leaves of attached_to */
  BpLowerTensor *tensors;           /* one for each value of the stage */
  BpLowerTensor *states;            /* of a scan */
  const BpIrNode *body;             /* including inlined stages */
  const BpIrNode
      *before; /* for a scan: its initial values and its limit, including inlined stages */
  const BpIrNode *vars[BP__TE_MAX_AXES]; /* the body's variables for the root axes */
  const BpIrNode **reads;                /* the distinct reads in the bodies */
  int32_t num_reads;
  const BpIrNode *mins[BP_TE_MAX_NDIM];       /* the first elements of the region of its tensors */
  const BpIrNode *state_mins[BP_TE_MAX_NDIM]; /* the same for its states */
  BpInterval
      step_part[BP_TE_MAX_NDIM]; /* for a scan: the part of the domain that one step covers, */
  bool has_gaps[BP_TE_MAX_NDIM]; /* and whether the step skips elements of that part */
  const BpIrNode *next[BP_TE_MAX_VALUES]; /* by state: the new state until the step ends; NULL: the
                                             step overwrites the state */
  /* Temporary data of bounds inference: the wanted region. */
  bool is_wanted;
  BpInterval region[BP_TE_MAX_NDIM];
  /* By dimension: the open extent of the whole, if a region of constant size may go beyond it;
   * NULL: it does not. */
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
  BpLowerStage *stages; /* the stages that are needed and not inlined, producers first */
  int32_t num_stages;
  BpIrMap copied; /* nodes of the expressions -> their copies in the module */
  BpIrMap
      valid; /* a BUFFER with spare elements at the ends of its rows -> the extent without them */
  BpIrMap of_block; /* Maps a per-thread variable to its block-wide form: thread numbers become free
                       variables, names the values computed from those. */
  BpIrMap by_buffer; /* the copied BUFFER of a computed tensor -> BpLowerTensor */
  BpIndexContext index;
  const BpThreadLoop *thread_loops; /* while building: the surrounding loops */
  bool is_in_parallel;              /* while building: inside a parallel loop */
} BpLowering;

/* Collects the stages that the outputs need, substitutes inlined ones, and checks that each stage
 * runs where its readers can see it. */
int bp__lower_normalize(BpLowering *lowering);
/* Refuses a stage that certainly reads outside of a tensor. */
int bp__lower_check_reads(BpLowering *lowering, const BpLowerStage *s);

/* The passes. Each returns the new body, or NULL with an error. */
const BpIrNode *bp__lower_build(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_partition(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_flatten(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_vectorize(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_unroll(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_tidy(BpLowering *lowering, const BpIrNode *body);

/* Sets `region` of `producer` to the part that the stages inside `consumer` read from here on, if
 * the root axes of `consumer` have the values `roots` (with free variables for loops still to
 * come). */
int bp__lower_region(BpLowering *lowering, BpLowerStage *producer, BpLowerStage *consumer,
                     const BpIrNode *const *roots);

/* Limits a region to the whole, which begins at 0; nothing beyond is read, even if the indices
 * allow it. */
int bp__lower_clamp(BpLowering *lowering, BpInterval *interval, const BpInterval *whole);

/* A whole extent as a region from 0 on: `extent` or, if it is not NULL, the open extent. */
int bp__lower_whole(BpLowering *lowering, int64_t extent, const BpIrNode *open,
                    BpInterval *interval);
/* States that a variable takes all values of an interval that begins with 0. */
int bp__lower_set_free(BpLowering *lowering, const BpIrNode *var, const BpInterval *swept);
/* The number of values of an interval. */
static inline const BpIrNode *bp__lower_extent_node(const BpLowering *lowering,
                                                    const BpInterval *interval) {
  return interval->open ? interval->open : bp__ir_int64(lowering->module, interval->extent);
}

/* An index of a read as an interval, with the reader's root axes at `roots`. */
int bp__lower_index_interval(BpLowering *lowering, const BpLowerStage *reader,
                             const BpIrNode *const *roots, const BpIrNode *index,
                             BpInterval *interval, bool *is_bounded);

/* The computed tensor or state of a BUFFER in an expression; NULL: a placeholder. */
static inline BpLowerTensor *bp__lower_tensor_of(const BpLowering *lowering,
                                                 const BpIrNode *buffer) {
  return (BpLowerTensor *)bp__ir_map_get(&lowering->by_buffer, buffer);
}
/* The stage that computes it; NULL: a placeholder or a state. */
static inline BpLowerStage *bp__lower_stage_of(const BpLowering *lowering, const BpIrNode *buffer) {
  const BpLowerTensor *tensor = bp__lower_tensor_of(lowering, buffer);
  return tensor && !tensor->tensor->state_of ? tensor->s : NULL;
}
/* The dimension of the stage's domain that corresponds to dimension `index` of the tensor. */
static inline int32_t bp__lower_domain_dimension(const BpTeTensor *tensor, int32_t index) {
  return index + (tensor->skipped >= 0 && index >= tensor->skipped);
}
/* Whether the iterations of an axis must run in order: it belongs to a reduction or a scan. */
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
