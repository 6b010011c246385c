/* SPDX-License-Identifier: Apache-2.0 */
/* The data of tensor expressions and schedules, shared by compiler/te and compiler/lower.
 *
 * Expressions are IR nodes with two calls of our own, which exist only before storage flattening:
 *   te.read(buffer, i0, i1, ...)  an element of the tensor that the BUFFER node stands for
 *   te.sum|prod|min|max(value, axis...)  a reduction, at the top of a body only
 * A stage's axes form a graph: a split consumes one axis and makes two, a fusion consumes two and
 * makes one. Axes that nothing consumed are the leaves: the loops, in order. */
#ifndef BACKPLANE_COMPILER_TE_PRIVATE_H
#define BACKPLANE_COMPILER_TE_PRIVATE_H

#include "compiler/ir/ir.h"

#include <backplane/compiler/te.h>

#define BP__TE_READ "te.read"

/* Bounds on what a schedule may hold; they size fixed arrays in lowering. */
#define BP__TE_MAX_AXES 96

typedef enum BpTeRelationKind { BP__TE_SPLIT, BP__TE_FUSE } BpTeRelationKind;

/* SPLIT: parent -> outer, inner with parent = outer * factor + inner, up to the tail's rule.
 * FUSE: outer, inner -> parent with parent = outer * extent(inner) + inner. */
typedef struct BpTeRelation {
  BpTeRelationKind kind;
  int32_t tail; /* BP_TE_TAIL_*, of a split */
  int64_t factor;
  BpTeAxis *parent, *outer, *inner;
} BpTeRelation;

struct BpTeAxis {
  BpTeStage *stage;
  const char *name;
  const BpIrNode *var; /* of a root axis: what the body calls it */
  int64_t extent;      /* when the whole tensor is computed */
  int32_t index;       /* in stage->axes */
  int32_t dimension;   /* of a root data axis, else -1 */
  int is_reduce;
  int32_t for_kind;        /* BP_IR_FOR_* */
  const char *thread_axis; /* of a bound one, else "" */
  BpTeRelation *made_by;   /* NULL: a root axis */
  BpTeRelation *used_by;   /* NULL: a leaf */
};

/* Prefetch `tensor` as it is read `distance` iterations of `axis` later. */
typedef struct BpTePrefetch {
  BpTeTensor *tensor;
  BpTeAxis *axis;
  int64_t distance;
  struct BpTePrefetch *next;
} BpTePrefetch;

struct BpTeTensor {
  BpTe *te;
  const char *name;
  BpDataType dtype;
  int32_t ndim;
  int64_t shape[BP_TE_MAX_NDIM];
  const BpIrNode *buffer; /* stands for the tensor in expressions */
  BpTeStage *stage;       /* NULL: a placeholder */
  BpTeTensor *next;       /* in the order of creation */
};

struct BpTeStage {
  BpTe *te;
  BpTeTensor *tensor;
  const BpIrNode *body; /* without the reduction around it */
  int32_t reduce_op;    /* BP_TE_SUM ..., or -1 */
  BpTeAxis *axes[BP__TE_MAX_AXES];
  int32_t num_axes, num_reduce_axes; /* data axes, reduction axes, then those made */
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
  struct BpTeChunk *chunks; /* all memory */
};

/* Zeroed memory that lives as long as `te`; NULL with an error. */
void *bp__te_alloc(BpTe *te, size_t size);
const char *bp__te_strdup(BpTe *te, const char *text);

/* The tensor that a BUFFER node stands for, or NULL. */
BpTeTensor *bp__te_tensor_of(const BpTe *te, const BpIrNode *buffer);
/* New variables for data axes. */
int bp__te_make_vars(BpTe *te, int32_t count, const BpIrNode **vars);
/* A tensor with a stage and data axes of these variables, whose body is still missing. */
BpTeTensor *bp__te_new_tensor(BpTe *te, const char *name, BpDataType dtype, const int64_t *shape,
                              int32_t ndim, const BpIrNode *const *vars);
/* Gives a stage its body, taking a reduction apart; its variables are data axes' and reductions'.
 */
int bp__te_set_body(BpTeStage *stage, const BpIrNode *body);
/* A new axis; `var` NULL: not a root. */
BpTeAxis *bp__te_new_axis(BpTeStage *stage, const char *name, int64_t extent, int is_reduce,
                          const BpIrNode *var);
/* Puts the axes back to what they were before any split. */
void bp__te_reset_leaves(BpTeStage *stage);

/* The body with arithmetic of float16 and bfloat16 done in float32, rounded once at its end. A NULL
 * body gives NULL. (widen.c) */
const BpIrNode *bp__te_widen(BpIrModule *module, const BpIrNode *body);

int bp__te_is_read(const BpIrNode *node);
/* "sum" ... of a reduction operator, and the BP_IR_* kind that combines two values. */
const char *bp__te_reduce_name(int32_t op);
int32_t bp__te_reduce_kind(int32_t op);
/* The value that changes nothing. */
const BpIrNode *bp__te_reduce_identity(BpIrModule *module, int32_t op, BpDataType dtype);

#endif
