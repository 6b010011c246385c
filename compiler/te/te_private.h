/* SPDX-License-Identifier: Apache-2.0 */
/* The data of tensor expressions and schedules, shared by compiler/te and compiler/lower.
 *
 * Expressions are IR nodes with calls of our own, which exist only before storage flattening:
 *   te.read(buffer, i0, i1, ...)  an element of the tensor that the BUFFER node stands for
 *   te.write(buffer, value, i0, i1, ...)  in an EVALUATE: stores it there
 *   te.sum|prod|min|max(value, axis...)  a reduction, at the top of a body only
 *   te.fold(number, value..., axis...)  a reduction of several values at once; te.part(fold, i) is
 * one of its results, at the top of a body only te.tuple(value...)  the body of a stage with
 * several values A stage's axes form a graph: a split consumes one axis and makes two, a fusion
 * consumes two and makes one. Axes that nothing consumed are the leaves: the loops, in order. */
#ifndef BACKPLANE_COMPILER_TE_PRIVATE_H
#define BACKPLANE_COMPILER_TE_PRIVATE_H

#include "compiler/ir/ir.h"

#include <backplane/compiler/te.h>

#define BP__TE_READ  "te.read"
#define BP__TE_WRITE "te.write"
#define BP__TE_FOLD  "te.fold"
#define BP__TE_PART  "te.part"
#define BP__TE_TUPLE "te.tuple"

/* Limits on the size of a schedule; they are the sizes of fixed arrays in lowering. */
#define BP__TE_MAX_AXES 96

typedef enum BpTeRelationKind { BP__TE_SPLIT, BP__TE_FUSE } BpTeRelationKind;

/* SPLIT: parent -> outer, inner with parent = outer * factor + inner, up to the tail's rule. FUSE:
 * outer, inner -> parent with parent = outer * extent(inner) + inner. */
typedef struct BpTeRelation {
  BpTeRelationKind kind;
  int32_t tail; /* BP_TE_TAIL_*, for a split */
  int64_t factor;
  BpTeAxis *parent, *outer, *inner;
} BpTeRelation;

struct BpTeAxis {
  BpTeStage *stage;
  const char *name;
  const BpIrNode *var;  /* for a root axis: its variable in the body */
  int64_t extent;       /* when the whole tensor is computed; for an open axis the likely value */
  const BpIrNode *open; /* the extent of an open axis, else NULL */
  int32_t index;        /* in stage->axes */
  int32_t dimension;    /* for a root data axis, else -1 */
  int is_reduce;
  int is_scan;             /* the axis of a scan, or a part of it: a data axis that runs in order */
  int32_t for_kind;        /* BP_IR_FOR_* */
  int is_sunk;             /* of statements: the loop goes inside of them as far as it can */
  const char *thread_axis; /* for a bound axis, else "" */
  BpTeRelation *made_by;   /* NULL: a root axis */
  BpTeRelation *used_by;   /* NULL: a leaf */
};

/* Prefetches the elements of `tensor` that are read `distance` iterations of `axis` later. */
typedef struct BpTePrefetch {
  BpTeTensor *tensor;
  BpTeAxis *axis;
  int64_t distance;
  struct BpTePrefetch *next;
} BpTePrefetch;

/* How a reduction combines several values: results[i], in the variables a and b. */
typedef struct BpTeFold {
  int64_t number; /* of the te.fold */
  int32_t num_values;
  const BpIrNode **identities, **a, **b;
  const BpIrNode *results; /* te.tuple */
  struct BpTeFold *next;
} BpTeFold;

/* The operator of a stage whose reduction is a fold; it is above BP_TE_SUM and the others. */
#define BP__TE_FOLD_OP 100

struct BpTeTensor {
  BpTe *te;
  const char *name;
  BpDataType dtype;
  int32_t ndim;
  int64_t shape[BP_TE_MAX_NDIM];        /* likely values for open extents */
  const BpIrNode *open[BP_TE_MAX_NDIM]; /* the open extents; NULL for others */
  const BpIrNode *buffer;               /* stands for the tensor in expressions */
  BpTeStage *stage;                     /* NULL: a placeholder, or a state */
  BpTeStage *state_of;                  /* for a state: its scan */
  int32_t skipped;                      /* the dimension of the scan that it lacks, or -1 */
  BpTeTensor *next;                     /* in the order of creation */
};

/* ceil(extent / factor) for an open extent. */
const BpIrNode *bp__te_num_tiles(BpIrModule *module, const BpIrNode *extent, int64_t factor);

/* An extent that is an argument of the function. */
typedef struct BpTeOpenExtent {
  const BpIrNode *var;
  int64_t likely, greatest;
  struct BpTeOpenExtent *next;
} BpTeOpenExtent;

struct BpTeScan {
  BpTeStage *stage;
  const char *name;
  BpTeScan *outer; /* the scan that was open when this one began */
  int32_t depth;   /* of this nesting */
  int32_t axis;    /* the dimension */
  int is_reverse;
  int32_t num_states;
  BpTeTensor *states[BP_TE_MAX_VALUES];
  const BpIrNode *initial[BP_TE_MAX_VALUES], *limit; /* NULL: all places */
  const BpIrNode *before; /* te.tuple of the initial values and the limit, if there is one */
};

struct BpTeStage {
  BpTe *te;
  BpTeTensor *tensor;              /* the first of its tensors; all have its shape */
  BpTeTensor **tensors;            /* by value */
  int32_t num_tensors, num_values; /* for a scan, the tensors after the values are last states */
  int32_t ndim;                    /* data axes */
  const BpIrNode *body; /* the value, without the reduction around it; or te.tuple of the values */
  int32_t reduce_op;    /* BP_TE_SUM ..., BP__TE_FOLD_OP; -1: no reduction */
  const BpTeFold *fold; /* of BP__TE_FOLD_OP */
  int is_statements;    /* its body is a statement, run for each row of its axes */
  BpTeScan *scan;       /* of a scan */
  BpTeStage *inside;    /* the scan to whose steps it belongs, or NULL */
  BpTeAxis *axes[BP__TE_MAX_AXES];
  int32_t num_axes, num_reduce_axes; /* data axes, reduction axes, then derived ones */
  BpTeAxis *leaves[BP__TE_MAX_AXES];
  int32_t num_leaves;
  int is_inlined;
  int is_streamed;
  int starts_with_first; /* the first iteration of a reduction stores, the others accumulate */
  int32_t scope;         /* BP_IR_SCOPE_*, or -1: the default */
  BpTeStage *attach_stage;
  BpTeAxis *attach_axis;
  BpTePrefetch *prefetches;
  BpTeStage *next; /* in the order of creation */
};

struct BpTe {
  BpIrModule *ir;
  BpTeTensor *tensors, *last_tensor;
  struct BpTeReduceAxis *reduce_axes;
  BpTeOpenExtent *open_extents, *last_open_extent; /* in the order of creation */
  BpTeFold *folds;
  BpTeScan *open_scan;      /* the last scan begun that has not ended */
  struct BpTeChunk *chunks; /* all memory */
};

/* Zeroed memory with the lifetime of `te`; NULL with an error. */
void *bp__te_alloc(BpTe *te, size_t size);
const char *bp__te_strdup(BpTe *te, const char *text);

/* The indices of an access, as int64; refuses other types than integers. */
int bp__te_convert_indices(BpTe *te, const BpTeTensor *tensor, const BpIrNode *const *indices,
                           const BpIrNode **converted);
/* The tensor that a BUFFER node stands for, or NULL. */
BpTeTensor *bp__te_tensor_of(const BpTe *te, const BpIrNode *buffer);
/* New variables for data axes. */
int bp__te_make_vars(BpTe *te, int32_t count, const BpIrNode **vars);
/* Refuses an invalid shape. */
int bp__te_check_shape(const char *name, const int64_t *shape, int32_t ndim);
/* Refuses an invalid number of values. */
int bp__te_check_count(const char *what, int32_t count);
/* A shape as an argument of the functions below: likely values and open extents; `open` NULL: none
 * is open. */
typedef struct BpTeShape {
  const int64_t *extents;
  const BpIrNode *const *open;
  int32_t ndim;
} BpTeShape;
/* Sets likely[i] to the likely value of an extent, and open[i] to the extent if it is open, else to
 * NULL. bp__te_check_shape refuses dimensions beyond BP_TE_MAX_NDIM. */
int bp__te_read_extents(BpTe *te, const char *name, const BpIrNode *const *extents, int32_t ndim,
                        int64_t *likely, const BpIrNode **open);
/* The open extent that the variable stands for, or NULL. */
const BpTeOpenExtent *bp__te_find_open_extent(const BpTe *te, const BpIrNode *var);
/* A tensor that no stage computes. */
BpTeTensor *bp__te_add_tensor(BpTe *te, const char *name, BpDataType dtype, BpTeShape shape);
/* A stage with these axes and space for tensors, but without any; and the function that adds
 * one. */
BpTeStage *bp__te_new_bare_stage(BpTe *te, int32_t num_tensors, BpTeShape shape,
                                 const BpIrNode *const *vars);
int bp__te_add_output(BpTeStage *stage, int32_t index, const char *name, BpDataType dtype,
                      BpTeShape shape);
/* A stage with data axes of these variables and a tensor of each type, without a body. Several
 * tensors are called NAME.0, NAME.1, ... */
BpTeStage *bp__te_new_stage(BpTe *te, const char *name, const BpDataType *dtypes,
                            int32_t num_tensors, BpTeShape shape, const BpIrNode *const *vars);
/* Sets the body of a stage and splits off its reduction; its variables are those of data axes and
 * reductions. */
int bp__te_set_body(BpTeStage *stage, const BpIrNode *body);
/* A new axis; `var` NULL: not a root. */
BpTeAxis *bp__te_new_axis(BpTeStage *stage, const char *name, int64_t extent, int is_reduce,
                          const BpIrNode *var);
/* Resets the axes to their state before any split. */
void bp__te_reset_leaves(BpTeStage *stage);

/* The body with arithmetic of float16 and bfloat16 in float32, rounded once at its end. A NULL body
 * gives NULL. (widen.c) */
const BpIrNode *bp__te_widen(BpIrModule *module, const BpIrNode *body);

int bp__te_is_read(const BpIrNode *node);
/* Replaces reads of `tensor` that are cast to the type of `copy`, a tensor of its shape, by reads
 * of `copy`. (cache.c) */
int bp__te_read_copy(BpTeStage *reader, const BpTeTensor *tensor, const BpTeTensor *copy);
/* Whether a node reads a tensor of this stage. */
bool bp__te_reads_stage(const BpIrNode *node, const BpTeStage *stage);
/* Whether a tensor represents its stage, which has a body: exactly one of the tensors of a stage
 * does. */
static inline bool bp__te_is_first(const BpTeTensor *tensor) {
  return tensor->stage && tensor->stage->body && tensor->stage->tensor == tensor;
}
/* The number of times that the body of a stage runs if it is computed once. */
double bp__te_iterations(const BpTeStage *stage);
/* Whether a stage computes each element by an expression: no reduction, no scan, no statements. */
static inline bool bp__te_is_pointwise(const BpTeStage *stage) {
  return stage->reduce_op < 0 && !stage->scan && !stage->is_statements;
}
/* Value `index` of a stage's body, or of a rewritten body. */
static inline const BpIrNode *bp__te_value(const BpTeStage *stage, const BpIrNode *body,
                                           int32_t index) {
  return stage->num_values == 1 ? body : body->operands[index];
}
/* The values as one body; NULL if one of them is NULL. */
const BpIrNode *bp__te_tuple(BpIrModule *module, const BpIrNode *const *values, int32_t count);
/* "sum" ... for a reduction operator, and the BP_IR_* kind that combines two values. */
const char *bp__te_reduce_name(int32_t op);
int32_t bp__te_reduce_kind(int32_t op);
/* The identity: combining it with a value does not change the value. */
const BpIrNode *bp__te_reduce_identity(BpIrModule *module, int32_t op, BpDataType dtype);
/* The same for value `index` of a reduction stage, in its own module. */
const BpIrNode *bp__te_stage_identity(const BpTeStage *stage, int32_t index);

#endif
