/* SPDX-License-Identifier: Apache-2.0 */
/* The data of tensor expressions and schedules, shared by compiler/te and compiler/lower.
 *
 * Expressions are IR nodes. Before storage flattening, expressions contain the calls:
 *
 *   te.read(buffer, i0, i1, ...)          reads an element of the tensor that `buffer` stands for
 *   te.write(buffer, value, i0, i1, ...)  in an EVALUATE: stores an element of the tensor
 *   te.sum|prod|min|max(value, axis...)   a reduction, at the top of a body only
 *   te.fold(number, value..., axis...)    a reduction of several values at once
 *   te.part(fold, i)                      result i of a te.fold, at the top of a body only
 *   te.tuple(value...)                    the body of a stage with several values
 *
 * The axes of a stage form a graph: a split consumes one axis and makes two, a fusion consumes two
 * and makes one. Axes that no relation consumes are the leaves: the stage's loops, in order. */
#ifndef BACKPLANE_COMPILER_TE_PRIVATE_H
#define BACKPLANE_COMPILER_TE_PRIVATE_H

#include "compiler/ir/ir.h"

#include <backplane/compiler/te.h>

#define BP__TE_READ  "te.read"
#define BP__TE_WRITE "te.write"
#define BP__TE_FOLD  "te.fold"
#define BP__TE_PART  "te.part"
#define BP__TE_TUPLE "te.tuple"

/* Limits on the size of a schedule: lowering uses arrays of fixed sizes. */
#define BP__TE_MAX_AXES 96

typedef enum BpTeRelationKind { BP__TE_SPLIT, BP__TE_FUSE } BpTeRelationKind;

/* SPLIT: parent -> outer, inner with parent = outer * factor + inner, up to the tail's rule. FUSE:
 * outer, inner -> parent with parent = outer * extent(inner) + inner. */
typedef struct BpTeRelation {
  BpTeRelationKind kind;
  int32_t tail; /* BP_TE_TAIL_* of a split */
  int64_t factor;
  BpTeAxis *parent, *outer, *inner;
} BpTeRelation;

struct BpTeAxis {
  BpTeStage *stage;
  const char *name;
  const BpIrNode *var;  /* variable of a root axis in the body */
  int64_t extent;       /* extent if the whole tensor is computed; likely value of an open axis */
  const BpIrNode *open; /* extent of an open axis, else NULL */
  int32_t index;        /* in stage->axes */
  int32_t dimension;    /* dimension of a root data axis, else -1 */
  int is_reduce;
  int is_scan;             /* a scan's axis or a part of one; it runs in order */
  int32_t for_kind;        /* BP_IR_FOR_* */
  int is_sunk;             /* whether the loop moves as far into statements as possible */
  const char *thread_axis; /* thread axis of a bound axis, else "" */
  BpTeRelation *made_by;   /* the relation that made the axis; NULL for a root axis */
  BpTeRelation *used_by;   /* the relation that consumes the axis; NULL for a leaf */
};

/* Prefetches the elements of `tensor` that are read `distance` iterations of `axis` later. */
typedef struct BpTePrefetch {
  BpTeTensor *tensor;
  BpTeAxis *axis;
  int64_t distance;
  struct BpTePrefetch *next;
} BpTePrefetch;

/* A reduction that combines several values: results[i] is an expression in the variables a and
 * b. */
typedef struct BpTeFold {
  int64_t number; /* number of the te.fold */
  int32_t num_values;
  const BpIrNode **identities, **a, **b;
  const BpIrNode *results; /* te.tuple */
  struct BpTeFold *next;
} BpTeFold;

/* The operator of a stage whose reduction is a fold; greater than every BP_TE_* operator. */
#define BP__TE_FOLD_OP 100

struct BpTeTensor {
  BpTe *te;
  const char *name;
  BpDataType dtype;
  int32_t ndim;
  int64_t shape[BP_TE_MAX_NDIM];        /* extents; the likely values of open extents */
  const BpIrNode *open[BP_TE_MAX_NDIM]; /* open extents; NULL for other dimensions */
  const BpIrNode *buffer;               /* the BUFFER that stands for the tensor in expressions */
  BpTeStage *stage;                     /* stage that computes it; NULL: placeholder or state */
  BpTeStage *state_of;                  /* scan of a state, else NULL */
  int32_t skipped;                      /* dimension of the scan that the state lacks, or -1 */
  BpTeTensor *next;                     /* next tensor in the order of creation */
};

/* The number of tiles of an open extent: ceil(extent / factor). */
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
  BpTeScan *outer; /* the scan that was open when the scan began */
  int32_t depth;   /* depth of the scan's nesting */
  int32_t axis;    /* the dimension */
  int is_reverse;
  int32_t num_states;
  BpTeTensor *states[BP_TE_MAX_VALUES];
  const BpIrNode *initial[BP_TE_MAX_VALUES], *limit; /* a NULL limit updates all places */
  const BpIrNode *before; /* te.tuple of the initial values and of the limit, if there is a limit */
};

struct BpTeStage {
  BpTe *te;
  BpTeTensor *tensor;              /* first tensor of the stage; all its tensors have one shape */
  BpTeTensor **tensors;            /* by value */
  int32_t num_tensors, num_values; /* the tensors of a scan's last states follow its values */
  int32_t ndim;                    /* data axes */
  const BpIrNode *body; /* value without the reduction around it, or te.tuple of several values */
  int32_t reduce_op;    /* BP_TE_SUM ..., BP__TE_FOLD_OP; -1 without a reduction */
  int32_t num_products; /* number of products, if the body is a sum of products; otherwise 0 */
  const BpTeFold *fold; /* of BP__TE_FOLD_OP */
  int is_statements;    /* whether the body is a statement, run for each row of the axes */
  BpTeScan *scan;       /* the scan that the stage is, or NULL */
  BpTeStage *inside;    /* the scan in whose steps the stage runs, or NULL */
  BpTeAxis *axes[BP__TE_MAX_AXES];
  int32_t num_axes, num_reduce_axes; /* data axes, reduction axes, axes derived from either */
  BpTeAxis *leaves[BP__TE_MAX_AXES];
  int32_t num_leaves;
  int is_inlined;
  int is_streamed;
  int starts_with_first; /* the first iteration of a reduction stores, the others accumulate */
  int32_t scope;         /* BP_IR_SCOPE_*; -1 for the default */
  BpTeStage *attach_stage;
  BpTeAxis *attach_axis;
  BpTePrefetch *prefetches;
  BpTeStage *next; /* next stage in the order of creation */
};

struct BpTe {
  BpIrModule *ir;
  BpTeTensor *tensors, *last_tensor;
  struct BpTeReduceAxis *reduce_axes;
  BpTeOpenExtent *open_extents, *last_open_extent; /* open extents in the order of creation */
  BpTeFold *folds;
  BpTeScan *open_scan;      /* the last scan that has begun and not ended */
  struct BpTeChunk *chunks; /* all memory */
};

/* Zeroed memory with the lifetime of `te`; NULL with an error. */
void *bp__te_alloc(BpTe *te, size_t size);
const char *bp__te_strdup(BpTe *te, const char *text);

/* Converts the indices of an access to int64; fails for types other than integers. */
int bp__te_convert_indices(BpTe *te, const BpTeTensor *tensor, const BpIrNode *const *indices,
                           const BpIrNode **converted);
/* The tensor that a BUFFER node stands for, or NULL. */
BpTeTensor *bp__te_tensor_of(const BpTe *te, const BpIrNode *buffer);
/* Makes new variables for data axes. */
int bp__te_make_vars(BpTe *te, int32_t count, const BpIrNode **vars);
/* Fails if a shape is invalid. */
int bp__te_check_shape(const char *name, const int64_t *shape, int32_t ndim);
/* Fails if `count` is not a valid number of values. */
int bp__te_check_count(const char *what, int32_t count);
/* A shape as an argument: likely values and open extents. A NULL `open` means that no extent is
 * open. */
typedef struct BpTeShape {
  const int64_t *extents;
  const BpIrNode *const *open;
  int32_t ndim;
} BpTeShape;
/* Sets likely[i] to the likely value of an extent, and open[i] to the extent if it is open, else to
 * NULL. bp__te_check_shape rejects more than BP_TE_MAX_NDIM dimensions. */
int bp__te_read_extents(BpTe *te, const char *name, const BpIrNode *const *extents, int32_t ndim,
                        int64_t *likely, const BpIrNode **open);
/* The open extent that a variable stands for, or NULL. */
const BpTeOpenExtent *bp__te_find_open_extent(const BpTe *te, const BpIrNode *var);
/* A tensor that no stage computes. */
BpTeTensor *bp__te_add_tensor(BpTe *te, const char *name, BpDataType dtype, BpTeShape shape);
/* Makes a stage with data axes of the given extents, with space for tensors but without tensors;
 * and adds a tensor to a stage. */
BpTeStage *bp__te_new_bare_stage(BpTe *te, int32_t num_tensors, BpTeShape shape,
                                 const BpIrNode *const *vars);
int bp__te_add_output(BpTeStage *stage, int32_t index, const char *name, BpDataType dtype,
                      BpTeShape shape);
/* Makes a stage without a body, with data axes of the given variables and a tensor of each type.
 * Several tensors are called NAME.0, NAME.1, ... */
BpTeStage *bp__te_new_stage(BpTe *te, const char *name, const BpDataType *dtypes,
                            int32_t num_tensors, BpTeShape shape, const BpIrNode *const *vars);
/* Sets the body of a stage and separates the body's reduction. The body's variables are the
 * variables of data axes and reduction axes. */
int bp__te_set_body(BpTeStage *stage, const BpIrNode *body);
/* A new axis; a NULL `var` makes an axis that is not a root axis. */
BpTeAxis *bp__te_new_axis(BpTeStage *stage, const char *name, int64_t extent, int is_reduce,
                          const BpIrNode *var);
/* Resets the leaf axes of a stage to their state before any split. */
void bp__te_reset_leaves(BpTeStage *stage);

/* The body with float16 and bfloat16 arithmetic done in float32 and rounded once at the end
 * (widen.c). Returns NULL for a NULL body. */
const BpIrNode *bp__te_widen(BpIrModule *module, const BpIrNode *body);

int bp__te_is_read(const BpIrNode *node);
/* Replaces reads of `tensor` that are cast to the type of `copy` by reads of `copy`, a tensor of
 * the same shape (cache.c). */
int bp__te_read_copy(BpTeStage *reader, const BpTeTensor *tensor, const BpTeTensor *copy);
/* Makes `reader` compute the values of a pointwise stage itself, instead of reading them, unless a
 * condition of open extents holds (cache.c). */
int bp__te_inline_unless(BpTeStage *reader, const BpTeStage *producer, const BpIrNode *condition);
/* Whether a node reads a tensor of the stage. */
bool bp__te_reads_stage(const BpIrNode *node, const BpTeStage *stage);
/* Whether a tensor is the first tensor of a stage with a body; each stage with a body has exactly
 * one first tensor. */
static inline bool bp__te_is_first(const BpTeTensor *tensor) {
  return tensor->stage && tensor->stage->body && tensor->stage->tensor == tensor;
}
/* The number of times that the body of a stage runs to compute its tensors once. */
double bp__te_iterations(const BpTeStage *stage);
/* Whether a stage computes each element by an expression: no reduction, no scan, no statements. */
static inline bool bp__te_is_pointwise(const BpTeStage *stage) {
  return stage->reduce_op < 0 && !stage->scan && !stage->is_statements;
}
/* Value `index` of a stage's body or of a rewritten body. */
static inline const BpIrNode *bp__te_value(const BpTeStage *stage, const BpIrNode *body,
                                           int32_t index) {
  return stage->num_values == 1 ? body : body->operands[index];
}
/* Several values as one body; NULL if a value is NULL. */
const BpIrNode *bp__te_tuple(BpIrModule *module, const BpIrNode *const *values, int32_t count);
/* The name of a reduction operator ("sum"), and the BP_IR_* kind that combines two of its
 * values. */
const char *bp__te_reduce_name(int32_t op);
int32_t bp__te_reduce_kind(int32_t op);
/* The identity of a reduction operator: combined with a value it gives the value. */
const BpIrNode *bp__te_reduce_identity(BpIrModule *module, int32_t op, BpDataType dtype);
/* The identity of value `index` of a reduction stage, made in the stage's module. */
const BpIrNode *bp__te_stage_identity(const BpTeStage *stage, int32_t index);

#endif
