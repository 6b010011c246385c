/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor expressions, which define computations, and schedules, which define their order.
 *
 * The approach is that of Halide (Ragan-Kelley et al., PLDI 2013) and TVM (Chen et al., OSDI 2018).
 * A BpTe owns its tensors, axes, stages and expressions, which live as long as the BpTe.
 * Expressions are IR nodes of the module that bp_te_ir gives, built with compiler/ir.h. One BpTe
 * belongs to one thread. A function that gets a NULL operand returns NULL and keeps the error, as
 * in compiler/ir.h. */
#ifndef BACKPLANE_COMPILER_TE_H
#define BACKPLANE_COMPILER_TE_H

#include <backplane/api.h>
#include <backplane/compiler/block.h>
#include <backplane/compiler/ir.h>
#include <backplane/target.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct BpTe BpTe;
typedef struct BpTeTensor BpTeTensor; /* a placeholder or a computed tensor; immutable */
typedef struct BpTeAxis BpTeAxis;     /* an iteration axis of a stage */
typedef struct BpTeStage BpTeStage;   /* the schedule of tensors that are computed together */
typedef struct BpTeScan BpTeScan;     /* a computation in steps, under construction */

/* Makes and frees a context, which owns all objects made in it; one thread at a time uses it. */
BP_API BpTe *bp_te_create(void);
BP_API void bp_te_free(BpTe *te);
/* Returns the module that contains the context's expressions. Borrowed. */
BP_API BpIrModule *bp_te_ir(BpTe *te);

/* ---- Tensor expressions ------------------------------------------------------------------ */

#define BP_TE_MAX_NDIM   12
#define BP_TE_MAX_VALUES 16 /* most tensors of one computation */

/* Makes an input. shape: `ndim` extents, copied, 0 <= ndim <= BP_TE_MAX_NDIM. Owned by `te`. */
BP_API BpTeTensor *bp_te_placeholder(BpTe *te, const char *name, BpDataType dtype,
                                     const int64_t *shape, int32_t ndim);

/* Makes an extent that is known only when the function is called: an int64 variable, which becomes
 * an argument of the function. Schedules are made for `likely`; any extent from 0 to `greatest`, at
 * most 2^31 - 1, is computed. In this header an extent that is an expression is an int64 expression
 * of constants and open extents. A body may use open extents as well. */
BP_API const BpIrNode *bp_te_open_extent(BpTe *te, const char *name, int64_t likely,
                                         int64_t greatest);
/* bp_te_placeholder whose extents are expressions. */
BP_API BpTeTensor *bp_te_placeholder_open(BpTe *te, const char *name, BpDataType dtype,
                                          const BpIrNode *const *extents, int32_t ndim);

/* Returns the value of one element; `axes` are int64 variables, one for each dimension. */
typedef const BpIrNode *(*BpTeBody)(BpTe *te, const BpIrNode *const *axes, void *context);

/* Makes a computed tensor; `body` is called once, during the call. A reduction stands at the top of
 * the body. Arithmetic of float16 and bfloat16 in a body is done in float32: the value is rounded
 * once, where the tensor is stored or read. */
BP_API BpTeTensor *bp_te_compute(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                                 BpTeBody body, void *context);
/* bp_te_compute whose extents are expressions. */
BP_API BpTeTensor *bp_te_compute_open(BpTe *te, const char *name, const BpIrNode *const *extents,
                                      int32_t ndim, BpTeBody body, void *context);
/* Stores the values of one element of several tensors; 0, or -1 with an error. */
typedef int (*BpTeTupleBody)(BpTe *te, const BpIrNode *const *axes, void *context,
                             const BpIrNode **values);

/* Makes several tensors of one shape whose elements are computed together; `body` is called once,
 * during the call, and gives a value for each tensor. A tensor that is not an argument of the
 * function and is never read is not computed. All tensors share one stage. */
BP_API int bp_te_compute_tuple(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                               BpTeTupleBody body, void *context, BpTeTensor **tensors,
                               int32_t num_tensors);
/* Reads tensor[indices], with one integer expression for each dimension. In a branch of a select
 * the indices may be out of bounds where the select chooses the other branch: this is how to write
 * padding. */
BP_API const BpIrNode *bp_te_read(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices);
/* Reads tensor[indices] where `condition` holds, else zero; where it does not hold, the indices may
 * be out of bounds. Every read in a branch of a select likewise happens only where that branch is
 * chosen. */
BP_API const BpIrNode *bp_te_read_if(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices,
                                     const BpIrNode *condition);
/* Makes a reduction axis 0 <= v < extent. */
BP_API const BpIrNode *bp_te_reduce_axis(BpTe *te, const char *name, int64_t extent);
/* Makes a reduction axis whose extent is an expression. */
BP_API const BpIrNode *bp_te_reduce_axis_open(BpTe *te, const char *name, const BpIrNode *extent);

#define BP_TE_SUM  0
#define BP_TE_PROD 1
#define BP_TE_MIN  2
#define BP_TE_MAX  3
/* Returns the type in which values of a type are accumulated: float32 for float16 and bfloat16,
 * otherwise the type itself. Integers wrap, so a wider accumulator would give the same result.
 * Never fails. */
BP_API BpDataType bp_te_accumulator(BpDataType dtype);
/* Reduces `value` over axes made by bp_te_reduce_axis. The result has the accumulator's type: a
 * reader casts it back. */
BP_API const BpIrNode *bp_te_reduce(BpTe *te, int32_t op, const BpIrNode *value,
                                    const BpIrNode *const *axes, int32_t num_axes);

/* Combines two partial results `a` and `b` of a reduction of several values into one; 0, or -1 with
 * an error. The combination is associative and commutative. */
typedef int (*BpTeCombine)(BpTe *te, const BpIrNode *const *a, const BpIrNode *const *b,
                           void *context, const BpIrNode **results);

/* A reduction of several values at once, such as a maximum and its index. */
typedef struct BpTeReducer {
  BpTeCombine combine; /* called once, with variables for its operands */
  void *context;
  const BpIrNode *const *identities; /* one constant for each value: combined with x it gives x */
} BpTeReducer;

/* Reduces `num_values` values together. results[i], identity i and the operands of `combine` have
 * the type in which values[i] is accumulated. A computation of several tensors returns all results,
 * in this order, as its values. */
BP_API int bp_te_reduce_tuple(BpTe *te, const BpTeReducer *reducer, const BpIrNode *const *values,
                              int32_t num_values, const BpIrNode *const *axes, int32_t num_axes,
                              const BpIrNode **results);

/* ---- Scans ------------------------------------------------------------------------------- */

/* A scan computes several tensors over one shape. One dimension, the axis, runs in order: each step
 * uses the states that the step before it computed.
 *
 *   BpTeScan *scan = bp_te_scan_begin(te, "sums", shape, 2, 0, 0);
 *   BpTeTensor *sum = bp_te_scan_state(scan, "sum", f32, NULL, NULL);
 *   bp_te_scan_end(scan, body, context, 1, each, last);     (body: sum + x)
 *
 * Tensors between begin and end may be computed from the states, also by reductions: such tensors
 * belong to the scan's steps, are computed inside the steps, and are read only by the scan. A scan
 * that begins before another scan ends belongs to the other scan's steps. */

/* Begins a scan over `shape`. With `is_reverse`, steps go from the last place of the axis to the
 * first. The scan is owned by `te`. */
BP_API BpTeScan *bp_te_scan_begin(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                                  int32_t axis, int32_t is_reverse);
/* Begins a scan whose extents are expressions. If the axis is open and an element reads the states
 * of other elements along it, lowering the function fails with BP_ERROR_NOT_IMPLEMENTED. */
BP_API BpTeScan *bp_te_scan_begin_open(BpTe *te, const char *name, const BpIrNode *const *extents,
                                       int32_t ndim, int32_t axis, int32_t is_reverse);
/* Makes a state: a tensor of the scan's shape. The tensor's element at place t of the axis is the
 * state before step t. A step reads a state only at the step's own place. `initial` gives the state
 * before the first step, from the variables of the other dimensions; NULL: zero. */
BP_API BpTeTensor *bp_te_scan_state(BpTeScan *scan, const char *name, BpDataType dtype,
                                    BpTeBody initial, void *context);
/* Bounds the steps: `limit` returns, from the variables of the other dimensions, how many places of
 * the axis run, from the first place on; a value below 0 counts as 0, and one beyond the extent as
 * the extent. At later places the states do not change, and the values of the steps are zero. */
BP_API int bp_te_scan_limit(BpTeScan *scan, BpTeBody limit, void *context);
/* Ends a scan. `body` gives the states after the step, in the order of the states, and then further
 * values of the step, `num_values` in all. each[i] is value i at all places; last[i], which lacks
 * the axis, is state i after the last step. */
BP_API int bp_te_scan_end(BpTeScan *scan, BpTeTupleBody body, void *context, int32_t num_values,
                          BpTeTensor **each, BpTeTensor **last);

/* ---- Statements -------------------------------------------------------------------------- */

/* A tensor that statements compute; the shape is copied. */
typedef struct BpTeResult {
  BpDataType dtype;
  const int64_t *shape;
  int32_t ndim;
} BpTeResult;

/* Writes the statements of one row into `block`; 0, or -1 with an error. The statements read
 * tensors, also their own, with bp_te_read, and write their own with bp_te_write. */
typedef int (*BpTeStatements)(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                              BpTeTensor *const *tensors, void *context);

/* Makes tensors computed by statements, which run once for each row of a domain of `num_rows`
 * dimensions (0: once). Rows may run at once and in any order: a row reads only elements that it
 * wrote itself, and no two rows write one element. Together the rows write every element; the
 * tensors' shapes may differ from the domain. A result that is never read is working memory for the
 * statements. */
BP_API int bp_te_statements(BpTe *te, const char *name, const int64_t *rows, int32_t num_rows,
                            const BpTeResult *results, int32_t num_results, BpTeStatements body,
                            void *context, BpTeTensor **tensors);

/* A tensor that statements compute, with extents that are expressions. */
typedef struct BpTeOpenResult {
  BpDataType dtype;
  const BpIrNode *const *extents;
  int32_t ndim;
} BpTeOpenResult;

/* bp_te_statements whose extents are expressions. Statements may read open extents. */
BP_API int bp_te_statements_open(BpTe *te, const char *name, const BpIrNode *const *rows,
                                 int32_t num_rows, const BpTeOpenResult *results,
                                 int32_t num_results, BpTeStatements body, void *context,
                                 BpTeTensor **tensors);

/* Makes the statement tensor[indices] = value; the value has the tensor's type. */
BP_API const BpIrNode *bp_te_write(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices,
                                   const BpIrNode *value);

/* Returns how often the bodies of all tensors run if each tensor is computed once. Infinite if
 * statements compute a tensor, because their work is unknown. Never fails. */
BP_API double bp_te_work(const BpTe *te);

/* Return a tensor's properties. The shape is borrowed; an open extent in it is the likely one. The
 * functions never fail. */
BP_API int32_t bp_te_tensor_ndim(const BpTeTensor *tensor);
BP_API const int64_t *bp_te_tensor_shape(const BpTeTensor *tensor);
BP_API BpDataType bp_te_tensor_dtype(const BpTeTensor *tensor);
/* Returns an extent, which is a constant or an expression of open extents; NULL with an error if
 * out of range. */
BP_API const BpIrNode *bp_te_tensor_extent(const BpTeTensor *tensor, int32_t dimension);

/* ---- Schedules --------------------------------------------------------------------------- */

/* Returns the stage of a computed tensor; if statements compute the tensor, the stage's axes are
 * the rows. By default a stage runs at the root, its axes serial, in order: data axes, then
 * reduction axes. A stage in the steps of a scan runs by default inside the scan's axis. The axis
 * of a scan keeps its order: it is not fused with others, and its iterations run one after the
 * other. */
BP_API BpTeStage *bp_te_stage(BpTe *te, BpTeTensor *tensor);
/* Returns the tensors of a stage, in the order in which its computation gives them; NULL with an
 * error if out of range. */
BP_API int32_t bp_te_stage_num_tensors(const BpTeStage *stage);
BP_API BpTeTensor *bp_te_stage_tensor(BpTeStage *stage, int32_t index);
/* Returns the original axes of a stage: its dimensions, then its reduction axes; NULL with an error
 * if out of range. */
BP_API BpTeAxis *bp_te_stage_axis(BpTeStage *stage, int32_t index);
BP_API BpTeAxis *bp_te_stage_reduce_axis(BpTeStage *stage, int32_t index);
BP_API int32_t bp_te_stage_num_reduce_axes(const BpTeStage *stage);
/* Returns the extent of an axis; for an open extent, the likely one. Never fails. */
BP_API int64_t bp_te_axis_extent(const BpTeAxis *axis);

/* How a split treats an extent that the factor does not divide. PEEL and BALANCE make a version of
 * the code for each size of tile if the outer axis is outside the inner one; otherwise they guard.
 * If the extent is open, BALANCE is treated as OVERLAP. OVERLAP is treated as PEEL in a stage that
 * reduces or scans, where tiles accumulate, and for an open extent if the inner axis does not run
 * in order. */
#define BP_TE_TAIL_GUARD   0 /* a condition skips iterations beyond the extent */
#define BP_TE_TAIL_OVERLAP 1 /* the last tile is moved back and repeats work of its neighbour */
#define BP_TE_TAIL_PEEL    2 /* full tiles, then a loop for the rest */
#define BP_TE_TAIL_BALANCE 3 /* tile sizes differ by at most one: 40 by 14 gives 14, 13, 13 */

/* Splits an axis into ceil(extent / factor) outer and `factor` inner iterations. OVERLAP is for
 * data axes only, and needs an extent of at least the factor. */
BP_API int bp_te_split(BpTeStage *stage, BpTeAxis *axis, int64_t factor, int32_t tail,
                       BpTeAxis **outer, BpTeAxis **inner);
/* Fuses two neighbouring axes into one, `outer` directly around `inner`. */
BP_API int bp_te_fuse(BpTeStage *stage, BpTeAxis *outer, BpTeAxis *inner, BpTeAxis **fused);
/* Puts the given axes into the given order, in the places that they occupy now. */
BP_API int bp_te_reorder(BpTeStage *stage, BpTeAxis *const *axes, int32_t num_axes);
/* The four functions below set how an axis runs. The axis must be a leaf of the stage that is still
 * serial; afterwards it can no longer be split, fused or reordered. */

/* Makes the iterations of an axis the tasks of one parallel launch. A reduction axis, or the axis
 * of a scan, is an error. */
BP_API int bp_te_parallel(BpTeStage *stage, BpTeAxis *axis);
/* Makes the iterations of an axis the lanes of vectors. More than 64 iterations, or a body that
 * vectors cannot express, stay a serial loop. */
BP_API int bp_te_vectorize(BpTeStage *stage, BpTeAxis *axis);
/* Unrolls the iterations of an axis; if that gives more than 4096 statements, the loop stays. */
BP_API int bp_te_unroll(BpTeStage *stage, BpTeAxis *axis);
/* Binds an axis to "blockIdx.x|y|z" or "threadIdx.x|y|z". */
BP_API int bp_te_bind(BpTeStage *stage, BpTeAxis *axis, const char *thread_axis);
/* Computes this stage inside `axis` of `consumer`, only the part that is needed there; not for
 * statements. */
BP_API int bp_te_compute_at(BpTeStage *stage, BpTeStage *consumer, BpTeAxis *axis);
/* Substitutes this stage's expression into its readers; not for reductions, scans, statements and
 * outputs. */
BP_API int bp_te_compute_inline(BpTeStage *stage);
/* Sets the scope of a stage, BP_IR_SCOPE_*; the default is GLOBAL at the root and LOCAL inside
 * another stage. For a scan it is the scope of the states: by default LOCAL, or GLOBAL if threads
 * share values of a step. */
BP_API int bp_te_set_scope(BpTeStage *stage, int32_t scope);
/* cache_read makes a copy of `tensor` in `scope` that the given readers use instead. cache_write
 * makes a stage that computes into `scope` first; `tensor` becomes a copy of its result. Both
 * functions return the new tensor. cache_write applies to all tensors of the stage of `tensor`; the
 * new stage has a tensor for each. */
BP_API BpTeTensor *bp_te_cache_read(BpTe *te, BpTeTensor *tensor, int32_t scope,
                                    BpTeTensor *const *readers, int32_t num_readers);
BP_API BpTeTensor *bp_te_cache_write(BpTe *te, BpTeTensor *tensor, int32_t scope);
/* Splits a reduction into two for parallel or vector accumulators. A new tensor, with the reduction
 * leaf `axis` as its last data dimension, accumulates over the other reduction leaves; `tensor`
 * then reduces the new tensor over that dimension, its only reduction axis. The data axes of
 * `tensor` must not be split or fused yet. Returns the new tensor. A reduction of several values is
 * split for all of them, and the stage of the new tensor has the others. Floating-point sums change
 * their order. */
BP_API BpTeTensor *bp_te_rfactor(BpTe *te, BpTeTensor *tensor, BpTeAxis *axis);
/* Makes the first iteration of a reduction store and the others accumulate; by default a separate
 * loop stores the identity first. Storing first suits reductions over blocks, whose steps are whole
 * tiles. */
BP_API int bp_te_store_first(BpTeStage *stage);
/* Requests that data of `tensor` be prefetched, `distance` iterations of `axis` ahead. Lowering may
 * instead merge iterations of a parallel loop around the axis, which then read their data side by
 * side (the pass "jam"). */
BP_API int bp_te_prefetch(BpTeStage *stage, BpTeTensor *tensor, BpTeAxis *axis, int64_t distance);

/* Says that the stage's result is not read before much other data has gone through the caches:
 * stores may be non-temporal. The call affects only outputs. */
BP_API int bp_te_stream(BpTeStage *stage);

/* ---- Lowering ---------------------------------------------------------------------------- */

/* Receives the IR after each pass, with the pass's name; the text is borrowed. */
typedef void (*BpLowerDump)(void *context, const char *pass, const char *text);

/* Options of lowering; zero is the default of every member. */
typedef struct BpLowerOptions {
  uint64_t struct_size;
  const BpTarget *target; /* NULL: no attributes are used */
  BpLowerDump dump;       /* or NULL */
  void *dump_context;
  /* NULL, or a pass to skip, to test whether the pass is at fault: "partition", "vectorize",
   * "turn", "unroll", "jam" or "tidy"; any other name is an error of kind BP_ERROR_VALUE. */
  const char *without;
} BpLowerOptions;

/* Lowers the schedule to a function `name` of `module`. The function's parameters are `args` in
 * their order, placeholders and outputs, each a compact buffer, and then the open extents of `te`,
 * int64, in the order in which they were made. docs/lowering.md lists the passes. */
BP_API int bp_te_lower(BpTe *te, const char *name, BpTeTensor *const *args, int32_t num_args,
                       const BpLowerOptions *options, BpIrModule *module);

#ifdef __cplusplus
}
#endif

#endif
