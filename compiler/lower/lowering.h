/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one lowering, which its passes share. docs/lowering.md explains the passes. */
#ifndef BACKPLANE_COMPILER_LOWER_LOWERING_H
#define BACKPLANE_COMPILER_LOWER_LOWERING_H

#include "compiler/ir/ir.h"
#include "compiler/lower/linear.h"
#include "compiler/te/te_private.h"

/* The call for a prefetch, which the build pass leaves to storage flattening: an EVALUATE of
 * (buffer, i0, i1, ...), whose indices need not be inside the buffer. */
#define BP__TE_PREFETCH "te.prefetch"

/* One tensor of a stage. */
typedef struct BpLowerTensor {
  const BpTeTensor *tensor;
  struct BpLowerStage *s;
  const BpIrNode *buffer; /* BUFFER that stands for the tensor in bodies */
  const BpIrNode *const
      *mins; /* first element in the tensor's storage, by dimension of the domain; NULL: 0 */
  bool is_output;
  bool is_needed;          /* whether an output, read by a stage, or part of a reduction */
  const BpIrNode *storage; /* the tensor's current storage */
} BpLowerTensor;

/* A limit of a stage's region: stages that it reads were computed for this region alone. */
typedef struct BpLowerBound {
  bool is_set;
  BpInterval region[BP_TE_MAX_NDIM];
} BpLowerBound;

/* A stage during lowering; all nodes belong to the module that receives the function. */
typedef struct BpLowerStage {
  BpTeStage *stage;
  struct BpLowerStage *attached_to; /* stage whose loops compute this one; NULL at the root */
  int32_t attach_position;          /* position of the axis among the leaves of attached_to */
  BpLowerTensor *tensors;           /* a tensor for each value of the stage */
  BpLowerTensor *states;            /* states of a scan */
  const BpIrNode *body;             /* body, including inlined stages */
  const BpIrNode *before; /* initial values and limit of a scan, including inlined stages */
  const BpIrNode *vars[BP__TE_MAX_AXES]; /* the body's variables for the root axes */
  const BpIrNode **reads;                /* the distinct reads in the bodies */
  int32_t num_reads;
  const BpIrNode *mins[BP_TE_MAX_NDIM];       /* first elements of the region of the tensors */
  const BpIrNode *state_mins[BP_TE_MAX_NDIM]; /* first elements of the region of a scan's states */
  BpInterval step_part[BP_TE_MAX_NDIM];       /* part of a scan's domain that one step covers */
  bool has_gaps[BP_TE_MAX_NDIM];              /* whether the step skips elements of step_part */
  const BpIrNode *next[BP_TE_MAX_VALUES]; /* a state's new value until the step ends; NULL if the
                                           * step overwrites the state */
  /* Temporary data of bounds inference: the region that readers want. */
  bool is_wanted;
  BpInterval region[BP_TE_MAX_NDIM];
  /* The open extent of each dimension, if a region of constant size may go beyond it; otherwise
   * NULL. */
  const BpIrNode *whole[BP_TE_MAX_NDIM];
  BpLowerBound bound;
} BpLowerStage;

/* A list of the loops over thread axes that are being built, innermost first. */
typedef struct BpThreadLoop {
  const char *axis;
  const BpIrNode *var;
  int64_t count; /* number of iterations, which start at 0 */
  const struct BpThreadLoop *outer;
} BpThreadLoop;

typedef struct BpLowering {
  BpTe *te;
  BpIrModule *module;
  const BpLowerOptions *options;
  const char *name;
  BpTeTensor *const *args;
  int32_t num_args;
  const BpIrNode **params; /* parameters of the function: buffers, then the open extents */
  int32_t num_params;
  BpLowerStage *stages; /* the stages that are needed and not inlined, producers first */
  int32_t num_stages;
  BpIrMap copied;    /* nodes of expressions -> their copies in the module */
  BpIrMap valid;     /* BUFFER with spare elements at the ends of rows -> row extent without them */
  BpIrMap of_block;  /* Maps a variable of one thread to its form for the whole block: a thread
                      * number becomes a free variable, a name becomes its value computed from free
                      * variables. */
  BpIrMap by_buffer; /* the copied BUFFER of a computed tensor -> BpLowerTensor */
  BpIndexContext index;
  const BpThreadLoop *thread_loops; /* the loops around the statement that is being built */
  bool is_in_parallel;              /* whether the statement being built is in a parallel loop */
} BpLowering;

/* Collects the stages that the outputs need, substitutes inlined stages, and checks that each stage
 * runs where its readers can see its tensors. */
int bp__lower_normalize(BpLowering *lowering);
/* Fails if a stage certainly reads outside a tensor. */
int bp__lower_check_reads(BpLowering *lowering, const BpLowerStage *s);

/* A lowering pass; it returns the new body, or NULL with an error. */
const BpIrNode *bp__lower_build(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_partition(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_flatten(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_vectorize(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_turn(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_unroll(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_jam(BpLowering *lowering, const BpIrNode *body);
const BpIrNode *bp__lower_tidy(BpLowering *lowering, const BpIrNode *body);

/* Returns the body of a loop for one value of the loop's variable, with buffers of its own; if
 * `renames`, with names of its own, too. */
const BpIrNode *bp__lower_iteration(BpLowering *lowering, const BpIrNode *loop,
                                    const BpIrNode *value, bool renames);

/* The number of cores of a CPU whose target does not state it: the maximum number of cores that end
 * at about the same time when they share work. */
#define BP__MOST_CORES 64

/* Returns how many neighbouring iterations of a parallel loop over tiles bp__lower_jam merges; 1:
 * none. The result divides `divisor`. `iterations` divides the extent of the loop; `accumulators`
 * is the number of vectors of one tile. */
int64_t bp__lower_count_streams(int64_t iterations, int64_t divisor, int64_t accumulators,
                                int64_t cores);

/* Sets `region` of `producer` to the part that the stages inside `consumer` still have to read if
 * the root axes of `consumer` have the values `roots`, with free variables for loops not built
 * yet. */
int bp__lower_region(BpLowering *lowering, BpLowerStage *producer, BpLowerStage *consumer,
                     const BpIrNode *const *roots);

/* Limits a region to the whole extent, which begins at 0; no element beyond it is read, even if the
 * indices allow it. */
int bp__lower_clamp(BpLowering *lowering, BpInterval *interval, const BpInterval *whole);
/* After bp__lower_region: bounds the stages inside `consumer` that read the producer, by themselves
 * or through others, by the regions that it found for them. Returns the earlier bounds of all
 * stages, for bp__lower_unbind; NULL with an error. */
const BpLowerBound *bp__lower_bind(BpLowering *lowering, const BpLowerStage *producer,
                                   const BpLowerStage *consumer);
void bp__lower_unbind(BpLowering *lowering, const BpLowerBound *before);

/* A whole extent as a region that begins at 0: `extent`, or the open extent if `open` is not
 * NULL. */
int bp__lower_whole(BpLowering *lowering, int64_t extent, const BpIrNode *open,
                    BpInterval *interval);
/* States that a variable takes all values of an interval that begins with 0. */
int bp__lower_set_free(BpLowering *lowering, const BpIrNode *var, const BpInterval *swept);
/* The number of values of an interval. */
static inline const BpIrNode *bp__lower_extent_node(const BpLowering *lowering,
                                                    const BpInterval *interval) {
  return interval->open ? interval->open : bp__ir_int64(lowering->module, interval->extent);
}

/* An index of a read as an interval; the reader's root axes have the values `roots`. */
int bp__lower_index_interval(BpLowering *lowering, const BpLowerStage *reader,
                             const BpIrNode *const *roots, const BpIrNode *index,
                             BpInterval *interval, bool *is_bounded);

/* The computed tensor or state that a BUFFER in an expression stands for; NULL for a
 * placeholder. */
static inline BpLowerTensor *bp__lower_tensor_of(const BpLowering *lowering,
                                                 const BpIrNode *buffer) {
  return (BpLowerTensor *)bp__ir_map_get(&lowering->by_buffer, buffer);
}
/* Whether a read is inside of its buffer for all values of the variables (flatten.c). */
bool bp__lower_is_inside(BpLowering *lowering, const BpIrNode *read);
/* A read that is made only in lanes in which a condition holds, if it may be outside of its buffer
 * in the others; the read itself if the condition is NULL (flatten.c). */
const BpIrNode *bp__lower_in_lanes(BpLowering *lowering, const BpIrNode *lanes,
                                   const BpIrNode *read);
/* The length of a local buffer's rows: a multiple of the vectors that store them, so that the last
 * vector, whose lanes are rounded up to a power of two, needs no mask (region.c). */
int64_t bp__lower_row_extent(const BpTeStage *stage, int32_t scope, int64_t extent);
/* The stage that computes the tensor of a BUFFER; NULL for a placeholder or a state. */
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

/* Whether an expression reads memory or calls a function: 1, 0, or -1 with an error. */
int bp__lower_has_data(const BpIrNode *node);
/* Whether a statement evaluates a call of an intrinsic. */
static inline bool bp__lower_evaluates(const BpIrNode *node, const char *name) {
  return node->kind == BP_IR_EVALUATE && node->operands[0]->kind == BP_IR_CALL &&
         strcmp(node->operands[0]->str_value, name) == 0;
}

#endif
