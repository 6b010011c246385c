/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor expressions and schedules: what is computed, and in which order.
 *
 * The approach is that of Halide (Ragan-Kelley et al., PLDI 2013) and TVM (Chen et al., OSDI 2018).
 * A BpTe owns its tensors, axes, stages and expressions, which live as long as it. Expressions are
 * IR nodes of the module that bp_te_ir gives, built with compiler/ir.h. One BpTe belongs to one
 * thread. Makers given NULL return NULL and leave the error, as in compiler/ir.h. */
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
typedef struct BpTeScan BpTeScan;     /* a computation in steps, while it is being made */

/* Makes and frees a context, which owns all that is made in it; one thread at a time uses it. */
BP_API BpTe *bp_te_create(void);
BP_API void bp_te_free(BpTe *te);
/* Where its expressions are made. Borrowed. */
BP_API BpIrModule *bp_te_ir(BpTe *te);

/* ---- Tensor expressions ------------------------------------------------------------------ */

#define BP_TE_MAX_NDIM   12
#define BP_TE_MAX_VALUES 16 /* that one computation gives */

/* Makes an input. shape: `ndim` extents, copied, 0 <= ndim <= BP_TE_MAX_NDIM. Owned by `te`. */
BP_API BpTeTensor *bp_te_placeholder(BpTe *te, const char *name, BpDataType dtype,
                                     const int64_t *shape, int32_t ndim);

/* An extent that is known when the function is called, as one of its arguments: an int64 variable.
 * Schedules are made for `likely`; any extent from 0 to `greatest`, at most 2^31 - 1, is computed.
 * Extents below that are expressions are int64 ones of constants and these variables, which a body
 * may use as well. */
BP_API const BpIrNode *bp_te_open_extent(BpTe *te, const char *name, int64_t likely,
                                         int64_t greatest);
/* bp_te_placeholder with extents that are expressions. */
BP_API BpTeTensor *bp_te_placeholder_open(BpTe *te, const char *name, BpDataType dtype,
                                          const BpIrNode *const *extents, int32_t ndim);

/* Gives the value of one element; `axes` are int64 variables, one a dimension. */
typedef const BpIrNode *(*BpTeBody)(BpTe *te, const BpIrNode *const *axes, void *context);

/* A computed tensor; `body` is called once, now. A reduction stands at the top of the body.
 * Arithmetic of float16 and bfloat16 in a body is done in float32: the value is rounded once, where
 * the tensor is stored or read. */
BP_API BpTeTensor *bp_te_compute(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                                 BpTeBody body, void *context);
/* The same with extents that are expressions. */
BP_API BpTeTensor *bp_te_compute_open(BpTe *te, const char *name, const BpIrNode *const *extents,
                                      int32_t ndim, BpTeBody body, void *context);
/* Fills in the values of one element of several tensors; 0, or -1 with an error. */
typedef int (*BpTeTupleBody)(BpTe *te, const BpIrNode *const *axes, void *context,
                             const BpIrNode **values);

/* Several tensors of one shape whose elements are computed together; `body` is called once, now,
 * and gives a value for each. A tensor that is no argument of the function and that nobody reads is
 * not computed. The stage of one of them is the stage of all. */
BP_API int bp_te_compute_tuple(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                               BpTeTupleBody body, void *context, BpTeTensor **tensors,
                               int32_t num_tensors);
/* tensor[indices]; as many integer expressions as it has dimensions. In a branch of a select it may
 * be out of bounds where the select chooses the other branch: so is padding written. */
BP_API const BpIrNode *bp_te_read(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices);
/* The same where `condition` holds, else zero; the indices may be outside the tensor where it does
 * not. So it is with every read in a branch of a select: it happens where the branch is chosen. */
BP_API const BpIrNode *bp_te_read_if(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices,
                                     const BpIrNode *condition);
/* A reduction axis 0 <= v < extent. */
BP_API const BpIrNode *bp_te_reduce_axis(BpTe *te, const char *name, int64_t extent);
/* The same with an extent that is an expression. */
BP_API const BpIrNode *bp_te_reduce_axis_open(BpTe *te, const char *name, const BpIrNode *extent);

#define BP_TE_SUM  0
#define BP_TE_PROD 1
#define BP_TE_MIN  2
#define BP_TE_MAX  3
/* The type in which values of a type are accumulated: float32 for float16 and bfloat16, for any
 * other the type itself. Integers wrap, so a wider accumulator would give the same. Never fails. */
BP_API BpDataType bp_te_accumulator(BpDataType dtype);
/* Reduces `value` over axes made by bp_te_reduce_axis. The result has the accumulator's type: a
 * cast in a reader brings it back. */
BP_API const BpIrNode *bp_te_reduce(BpTe *te, int32_t op, const BpIrNode *value,
                                    const BpIrNode *const *axes, int32_t num_axes);

/* Combines two partial results `a` and `b` of a reduction of several values into one; 0, or -1 with
 * an error. It is associative and commutative. */
typedef int (*BpTeCombine)(BpTe *te, const BpIrNode *const *a, const BpIrNode *const *b,
                           void *context, const BpIrNode **results);

/* A reduction of several values at once: a value and where it is, for example. */
typedef struct BpTeReducer {
  BpTeCombine combine; /* called once, with variables */
  void *context;
  const BpIrNode *const *identities; /* constants of the values: combined with x they give x */
} BpTeReducer;

/* Reduces `num_values` values together; results[i], like identity i and what is combined, is of the
 * type in which values[i] is accumulated. A computation of several tensors gives all of them, in
 * this order, as its values. */
BP_API int bp_te_reduce_tuple(BpTe *te, const BpTeReducer *reducer, const BpIrNode *const *values,
                              int32_t num_values, const BpIrNode *const *axes, int32_t num_axes,
                              const BpIrNode **results);

/* ---- Scans ------------------------------------------------------------------------------- */

/* A scan computes several tensors over one shape, of which one dimension, its axis, runs in order:
 * a step after the other, each from the states that the one before it left.
 *
 *   BpTeScan *scan = bp_te_scan_begin(te, "sums", shape, 2, 0, 0);
 *   BpTeTensor *sum = bp_te_scan_state(scan, "sum", f32, NULL, NULL);
 *   bp_te_scan_end(scan, body, context, 1, each, last);     (body: sum + x)
 *
 * Tensors between begin and end may be computed from the states, with reductions too: those that
 * are belong to the scan's steps, run inside of them, and are read by the scan alone. A scan that
 * is begun before another one ends belongs to the other's steps. */

/* Begins a scan over `shape`. With `is_reverse` steps go from the last place of the axis to the
 * first. Owned by `te`. */
BP_API BpTeScan *bp_te_scan_begin(BpTe *te, const char *name, const int64_t *shape, int32_t ndim,
                                  int32_t axis, int32_t is_reverse);
/* The same with extents that are expressions. An axis that is open and along which an element reads
 * the states of others is an error of kind BP_ERROR_NOT_IMPLEMENTED when the function is lowered.
 */
BP_API BpTeScan *bp_te_scan_begin_open(BpTe *te, const char *name, const BpIrNode *const *extents,
                                       int32_t ndim, int32_t axis, int32_t is_reverse);
/* A state: a tensor of the scan's shape whose element at place t of the axis is what the state is
 * before the step at t. A step reads its own place only. `initial` gives it before the first step,
 * from the variables of the other dimensions; NULL: zero. */
BP_API BpTeTensor *bp_te_scan_state(BpTeScan *scan, const char *name, BpDataType dtype,
                                    BpTeBody initial, void *context);
/* Bounds the steps: `limit` gives, from the variables of the other dimensions, how many places of
 * the axis are run, from the first on; integers below 0 and beyond the extent count as these. At
 * the places beyond it the states stay and the values of the steps are zero. */
BP_API int bp_te_scan_limit(BpTeScan *scan, BpTeBody limit, void *context);
/* Ends it. `body` gives what each state is after the step, in the order of the states, and then
 * further values of the step, `num_values` in all. each[i] is value i at all places; last[i], which
 * lacks the axis, is state i after the last step. */
BP_API int bp_te_scan_end(BpTeScan *scan, BpTeTupleBody body, void *context, int32_t num_values,
                          BpTeTensor **each, BpTeTensor **last);

/* ---- Statements -------------------------------------------------------------------------- */

/* One tensor that statements compute; the shape is copied. */
typedef struct BpTeResult {
  BpDataType dtype;
  const int64_t *shape;
  int32_t ndim;
} BpTeResult;

/* Writes the statements of one row into `block`; 0, or -1 with an error. They read tensors with
 * bp_te_read, their own too, and write their own with bp_te_write. */
typedef int (*BpTeStatements)(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                              BpTeTensor *const *tensors, void *context);

/* Tensors computed by statements, which run once for each of the rows, a domain of `num_rows`
 * dimensions (0: once). Rows may run at once and in any order: each reads what it wrote itself, and
 * no two write one element. Between them they write every element; the tensors' shapes need not be
 * those of the rows. A result that nobody reads is memory for the statements to use. */
BP_API int bp_te_statements(BpTe *te, const char *name, const int64_t *rows, int32_t num_rows,
                            const BpTeResult *results, int32_t num_results, BpTeStatements body,
                            void *context, BpTeTensor **tensors);

/* One tensor that statements compute, with extents that are expressions. */
typedef struct BpTeOpenResult {
  BpDataType dtype;
  const BpIrNode *const *extents;
  int32_t ndim;
} BpTeOpenResult;

/* The same with extents that are expressions. Statements may read open extents. */
BP_API int bp_te_statements_open(BpTe *te, const char *name, const BpIrNode *const *rows,
                                 int32_t num_rows, const BpTeOpenResult *results,
                                 int32_t num_results, BpTeStatements body, void *context,
                                 BpTeTensor **tensors);

/* The statement tensor[indices] = value, of the tensor's type. */
BP_API const BpIrNode *bp_te_write(BpTe *te, BpTeTensor *tensor, const BpIrNode *const *indices,
                                   const BpIrNode *value);

/* How often the bodies of all tensors run where each is computed once. Infinite if statements
 * compute one of them, of which nobody knows. Never fails. */
BP_API double bp_te_work(const BpTe *te);

/* What a tensor is like; the shape, in which open extents are what is likely, is borrowed. Never
 * fail. */
BP_API int32_t bp_te_tensor_ndim(const BpTeTensor *tensor);
BP_API const int64_t *bp_te_tensor_shape(const BpTeTensor *tensor);
BP_API BpDataType bp_te_tensor_dtype(const BpTeTensor *tensor);
/* One extent, a constant or an expression of open ones; NULL and an error out of range. */
BP_API const BpIrNode *bp_te_tensor_extent(const BpTeTensor *tensor, int32_t dimension);

/* ---- Schedules --------------------------------------------------------------------------- */

/* The stage of a computed tensor; its axes are the rows where statements compute it. By default it
 * runs at the root, its axes serial, in order: data axes, then reduction axes. In the steps of a
 * scan it runs where the scan's axis is known by default. The axis of a scan keeps its order: it is
 * not fused with others, and its iterations run one after the other. */
BP_API BpTeStage *bp_te_stage(BpTe *te, BpTeTensor *tensor);
/* The tensors of a stage, in the order in which its computation gives them; NULL and an error out
 * of range. */
BP_API int32_t bp_te_stage_num_tensors(const BpTeStage *stage);
BP_API BpTeTensor *bp_te_stage_tensor(BpTeStage *stage, int32_t index);
/* The axes a stage began with: its dimensions, then its reduction axes; NULL and an error out of
 * range. */
BP_API BpTeAxis *bp_te_stage_axis(BpTeStage *stage, int32_t index);
BP_API BpTeAxis *bp_te_stage_reduce_axis(BpTeStage *stage, int32_t index);
BP_API int32_t bp_te_stage_num_reduce_axes(const BpTeStage *stage);
/* How far an axis runs; of an open one what is likely. Never fails. */
BP_API int64_t bp_te_axis_extent(const BpTeAxis *axis);

/* How a split treats an extent that the factor does not divide. PEEL and BALANCE make a version of
 * the code for each size of tile, where the outer axis lies outside of the inner one; elsewhere
 * they guard. In a stage that reduces or scans, whose tiles accumulate, OVERLAP is done as PEEL. */
#define BP_TE_TAIL_GUARD   0 /* iterations beyond are skipped by a condition */
#define BP_TE_TAIL_OVERLAP 1 /* the last tile is moved back and repeats work of its neighbour */
#define BP_TE_TAIL_PEEL    2 /* full tiles, then a loop for the rest */
#define BP_TE_TAIL_BALANCE 3 /* tiles of two sizes that differ by one: 40 by 14 is 14, 13, 13 */

/* Splits into ceil(extent / factor) outer and `factor` inner iterations. OVERLAP: only data axes,
 * and the extent is at least the factor. */
BP_API int bp_te_split(BpTeStage *stage, BpTeAxis *axis, int64_t factor, int32_t tail,
                       BpTeAxis **outer, BpTeAxis **inner);
/* Makes one axis of two neighbours, `outer` directly around `inner`. */
BP_API int bp_te_fuse(BpTeStage *stage, BpTeAxis *outer, BpTeAxis *inner, BpTeAxis **fused);
/* Puts the axes given into that order, in the places that they take up now. */
BP_API int bp_te_reorder(BpTeStage *stage, BpTeAxis *const *axes, int32_t num_axes);
/* The four below say how an axis runs: a leaf of the stage that is still serial; it can then no
 * longer be split, fused or reordered. */

/* Its iterations are tasks of one parallel launch. A reduction axis or that of a scan is an error.
 */
BP_API int bp_te_parallel(BpTeStage *stage, BpTeAxis *axis);
/* Its iterations are the lanes of vectors. More than 64 of them, or a body that vectors cannot
 * express, stay a serial loop. */
BP_API int bp_te_vectorize(BpTeStage *stage, BpTeAxis *axis);
/* Its iterations are written out one after the other; where that were more than 4096 statements,
 * the loop stays. */
BP_API int bp_te_unroll(BpTeStage *stage, BpTeAxis *axis);
/* Binds to "blockIdx.x|y|z" or "threadIdx.x|y|z". */
BP_API int bp_te_bind(BpTeStage *stage, BpTeAxis *axis, const char *thread_axis);
/* Computes this stage where `axis` of `consumer` runs, just the part that is needed there; not for
 * statements. */
BP_API int bp_te_compute_at(BpTeStage *stage, BpTeStage *consumer, BpTeAxis *axis);
/* Substitutes this stage's expression in its readers; not for reductions, scans, statements and
 * outputs. */
BP_API int bp_te_compute_inline(BpTeStage *stage);
/* BP_IR_SCOPE_*; the default is GLOBAL at the root and LOCAL inside another stage. Of a scan it is
 * the scope of its states: by default LOCAL, or where threads share what a step computes, GLOBAL.
 */
BP_API int bp_te_set_scope(BpTeStage *stage, int32_t scope);
/* A copy of `tensor` in `scope` that the given readers use instead; and a stage that computes into
 * `scope` first, of which `tensor` becomes the copy. Both return the new tensor. cache_write is of
 * all tensors of the stage; the stage of the new one has the others. */
BP_API BpTeTensor *bp_te_cache_read(BpTe *te, BpTeTensor *tensor, int32_t scope,
                                    BpTeTensor *const *readers, int32_t num_readers);
BP_API BpTeTensor *bp_te_cache_write(BpTe *te, BpTeTensor *tensor, int32_t scope);
/* Takes a reduction apart for parallel or vector accumulators: a new tensor, with the reduction
 * leaf `axis` as a last data dimension, accumulates over the other reduction leaves; `tensor` is
 * then the reduction of it over that dimension, its one reduction axis. The data axes of `tensor`
 * are not yet split or fused. Returns the new tensor; of a reduction of several values all are
 * taken apart, and the stage of the new tensor has the others. Floating-point sums change their
 * order. */
BP_API BpTeTensor *bp_te_rfactor(BpTe *te, BpTeTensor *tensor, BpTeAxis *axis);
/* In a reduction: the first iteration stores and the others accumulate, where otherwise a loop of
 * its own stores the identity before. For reductions over blocks, whose steps are whole tiles. */
BP_API int bp_te_store_first(BpTeStage *stage);
/* Asks for the data `distance` iterations of `axis` ahead to be prefetched from `tensor`. */
BP_API int bp_te_prefetch(BpTeStage *stage, BpTeTensor *tensor, BpTeAxis *axis, int64_t distance);

/* Says that nobody reads what the stage writes before much else has gone through the caches: stores
 * may go around them. Of outputs only; others are not affected. */
BP_API int bp_te_stream(BpTeStage *stage);

/* ---- Lowering ---------------------------------------------------------------------------- */

/* Receives the IR after each pass, by the pass's name; the text is borrowed. */
typedef void (*BpLowerDump)(void *context, const char *pass, const char *text);

/* How to lower; zero is the default of every member. */
typedef struct BpLowerOptions {
  uint64_t struct_size;
  const BpTarget *target; /* NULL: none of its attributes are used */
  BpLowerDump dump;       /* or NULL */
  void *dump_context;
  /* NULL, or a pass to leave out, to tell whether it is at fault: "partition", "vectorize",
   * "unroll" or "tidy"; any other is an error of kind BP_ERROR_VALUE. */
  const char *without;
} BpLowerOptions;

/* Lowers the schedule to a function `name` of `module`; its parameters are `args` in that order,
 * placeholders and outputs, each a compact buffer, and then the open extents of `te` in the order
 * in which they were made, int64. docs/lowering.md lists the passes. */
BP_API int bp_te_lower(BpTe *te, const char *name, BpTeTensor *const *args, int32_t num_args,
                       const BpLowerOptions *options, BpIrModule *module);

#ifdef __cplusplus
}
#endif

#endif
