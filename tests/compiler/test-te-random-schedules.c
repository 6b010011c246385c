/* SPDX-License-Identifier: Apache-2.0 */
/* Any schedule of a computation gives the same result: random computations under random schedules
 * are compared with the default schedule, whose loops are not partitioned; the reference
 * interpreter runs both. Each computation is compiled twice: for its extents, and with most extents
 * open. */

#include <backplane/compiler/schedules.h>

#include "te-run.h"

#define SEEDS       600
#define MAX_ARGS    6
#define MAX_WORKS   24
#define MAX_EXTENTS 24

/* A computation: its arguments, and the computed tensors, producers first. */
typedef struct Work {
  BpTe *te;
  GRand *random;   /* random numbers for the shapes; the schedule has its own */
  BpDataType type; /* type of most tensors */
  BpTeTensor *args[MAX_ARGS];
  int32_t num_args;
  BpTeTensor *computed[MAX_WORKS];
  int32_t num_computed;
  bool is_output[MAX_WORKS];
  int32_t scan_axis[MAX_WORKS]; /* axis of a scan, counted from 1; 0: no scan */
  BpTeTensor *outputs[MAX_ARGS];
  int32_t num_outputs;
  int64_t numbers[8]; /* numbers in the bodies */
  BpTeTensor *inputs[4];
  GRand *opening;                     /* NULL: no extent is open */
  int64_t extents[MAX_EXTENTS];       /* the extents in use, */
  const BpIrNode *nodes[MAX_EXTENTS]; /* the expressions of the extents in use */
  int32_t num_extents;
  int64_t open[MAX_EXTENTS]; /* the values of the open extents */
  int32_t num_open;
} Work;

/* Returns an extent of this value: an open extent or a constant. The likely value of an open extent
 * is arbitrary. */
static const BpIrNode *extent(Work *work, int64_t value) {
  for (int32_t i = 0; i < work->num_extents; i++)
    if (work->extents[i] == value)
      return work->nodes[i];
  int32_t i = work->num_extents++;
  g_assert_cmpint(i, <, MAX_EXTENTS);
  work->extents[i] = value;
  if (g_rand_int_range(work->opening, 0, 4) == 0)
    return work->nodes[i] = te_int(work->te, value);
  int64_t likely = g_rand_int_range(work->opening, 0, 50);
  int64_t greatest = MAX(likely, value) + g_rand_int_range(work->opening, 0, 100);
  const BpIrNode *node = bp_te_open_extent(work->te, "n", likely, greatest);
  int64_t given = value, factor = (int64_t[]){2, 3, 4, 8}[g_rand_int_range(work->opening, 0, 4)];
  g_assert_nonnull(node);
  if (value > 2 && g_rand_int_range(work->opening, 0, 3) == 0) {
    given = value - 2;
    node = te_op(work->te, BP_IR_ADD, te_op(work->te, BP_IR_MUL, node, te_int(work->te, 1)),
                 te_int(work->te, 2));
  } else if (value > 0 && value % factor == 0 && g_rand_int_range(work->opening, 0, 2)) {
    given = value / factor;
    node = te_op(work->te, BP_IR_MUL, node, te_int(work->te, factor));
  }
  work->open[work->num_open++] = given;
  return work->nodes[i] = node;
}

static void extents_of(Work *work, const int64_t *shape, int32_t ndim, const BpIrNode **extents) {
  for (int32_t i = 0; i < ndim; i++)
    extents[i] = extent(work, shape[i]);
}

static const BpIrNode *reduce_axis(Work *work, const char *name, int64_t value) {
  return work->opening ? bp_te_reduce_axis_open(work->te, name, extent(work, value))
                       : bp_te_reduce_axis(work->te, name, value);
}

static int64_t some(Work *work, int32_t least, int32_t most) {
  return g_rand_int_range(work->random, least, most + 1);
}

static BpTeTensor *input(Work *work, const char *name, BpDataType dtype, const int64_t *shape,
                         int32_t ndim) {
  const BpIrNode *extents[BP_TE_MAX_NDIM];
  BpTeTensor *tensor;
  if (work->opening) {
    extents_of(work, shape, ndim, extents);
    tensor = bp_te_placeholder_open(work->te, name, dtype, extents, ndim);
  } else {
    tensor = bp_te_placeholder(work->te, name, dtype, shape, ndim);
  }
  g_assert_nonnull(tensor);
  work->args[work->num_args++] = tensor;
  return tensor;
}

static void add_output(Work *work, BpTeTensor *tensor) {
  work->args[work->num_args++] = tensor;
  work->outputs[work->num_outputs++] = tensor;
}

static BpTeTensor *compute(Work *work, const char *name, const int64_t *shape, int32_t ndim,
                           BpTeBody body, bool is_output) {
  const BpIrNode *extents[BP_TE_MAX_NDIM];
  BpTeTensor *tensor;
  if (work->opening) {
    extents_of(work, shape, ndim, extents);
    tensor = bp_te_compute_open(work->te, name, extents, ndim, body, work);
  } else {
    tensor = bp_te_compute(work->te, name, shape, ndim, body, work);
  }
  if (!tensor)
    g_error("%s", bp_error_message());
  work->is_output[work->num_computed] = is_output;
  work->computed[work->num_computed++] = tensor;
  if (is_output)
    add_output(work, tensor);
  return tensor;
}

/* Two tensors at once; the stage is an output if one of the tensors is. */
static void compute_two(Work *work, const char *name, const int64_t *shape, int32_t ndim,
                        BpTeTupleBody body, bool first, bool second) {
  BpTeTensor *tensors[2];
  if (bp_te_compute_tuple(work->te, name, shape, ndim, body, work, tensors, 2) != 0)
    g_error("%s", bp_error_message());
  work->is_output[work->num_computed] = first || second;
  work->computed[work->num_computed++] = tensors[0];
  if (first)
    add_output(work, tensors[0]);
  if (second)
    add_output(work, tensors[1]);
}

static BpTeTensor *last(const Work *work) {
  return work->computed[work->num_computed - 1];
}

/* Returns a constant of the type of `like`. */
static const BpIrNode *number(BpTe *te, const BpIrNode *like, int value) {
  BpDataType dtype = bp_ir_table()->dtype(like);
  return dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT
             ? bp_ir_float(bp_te_ir(te), dtype, value)
             : bp_ir_int(bp_te_ir(te), dtype, value);
}

/* Casts to the type in which reductions accumulate, as tensors may be narrower. */
static const BpIrNode *wide(const Work *work, const BpIrNode *x) {
  return bp_ir_cast(bp_te_ir(work->te), bp_te_accumulator(work->type), x);
}

static const BpIrNode *stored(const Work *work, const BpIrNode *x) {
  return bp_ir_cast(bp_te_ir(work->te), work->type, x);
}

/* ---- Computations ------------------------------------------------------------------------ */

static const BpIrNode *scale_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *x = bp_te_read(te, work->inputs[0], axes);
  return te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, x, number(te, x, 2)), number(te, x, 1));
}

static const BpIrNode *chain_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *x = bp_te_read(te, last(work), axes);
  return te_op(te, BP_IR_SUB, te_op(te, BP_IR_MAX, x, number(te, x, 0)),
               bp_te_read(te, work->inputs[0], axes));
}

static void make_chain(Work *work) {
  int64_t shape[] = {some(work, 0, 9), some(work, 1, 11), some(work, 1, 40)};
  work->inputs[0] = input(work, "x", work->type, shape, 3);
  compute(work, "scaled", shape, 3, scale_body, false);
  compute(work, "chained", shape, 3, chain_body, some(work, 0, 1));
  compute(work, "again", shape, 3, chain_body, true);
}

static const BpIrNode *matmul_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *k = reduce_axis(work, "k", work->numbers[0]);
  const BpIrNode *product = te_op(te, BP_IR_MUL, te_read2(te, work->inputs[0], axes[0], k),
                                  te_read2(te, work->inputs[1], k, axes[1]));
  return bp_te_reduce(te, BP_TE_SUM, product, &k, 1);
}

static const BpIrNode *bias_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *x = te_op(te, BP_IR_ADD, bp_te_read(te, last(work), axes),
                            wide(work, te_read1(te, work->inputs[2], axes[1])));
  return stored(work, te_op(te, BP_IR_MAX, x, number(te, x, 0)));
}

static void make_matmul(Work *work) {
  int64_t m = some(work, 0, 20), n = some(work, 0, 40), k = some(work, 0, 20);
  work->numbers[0] = k;
  work->inputs[0] = input(work, "a", work->type, (int64_t[]){m, k}, 2);
  work->inputs[1] = input(work, "b", work->type, (int64_t[]){k, n}, 2);
  work->inputs[2] = input(work, "bias", work->type, &n, 1);
  compute(work, "product", (int64_t[]){m, n}, 2, matmul_body, some(work, 0, 3) == 0);
  compute(work, "out", (int64_t[]){m, n}, 2, bias_body, true);
}

static const BpIrNode *turned_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  return bp_te_read(te, work->inputs[1], (const BpIrNode *[]){axes[0], axes[2], axes[1]});
}

static const BpIrNode *turned_product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *k = reduce_axis(work, "k", work->numbers[0]);
  const BpIrNode *a = bp_te_read(te, work->inputs[0], (const BpIrNode *[]){axes[0], axes[1], k});
  const BpIrNode *b = bp_te_read(te, last(work), (const BpIrNode *[]){axes[0], k, axes[2]});
  return bp_te_reduce(te, BP_TE_SUM, te_op(te, BP_IR_MUL, a, b), &k, 1);
}

static const BpIrNode *positive_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *x = bp_te_read(te, last(context), axes);
  return stored(context, te_op(te, BP_IR_MAX, x, number(te, x, 0)));
}

/* A product with a transposed operand: few or many rows, and columns of more than a tile. */
static void make_turned(Work *work) {
  int64_t b = some(work, 1, 2), m = some(work, 1, 9), n = some(work, 1, 70), k = some(work, 0, 40);
  work->numbers[0] = k;
  work->inputs[0] = input(work, "a", work->type, (int64_t[]){b, m, k}, 3);
  work->inputs[1] = input(work, "b", work->type, (int64_t[]){b, n, k}, 3);
  compute(work, "turned", (int64_t[]){b, k, n}, 3, turned_body, some(work, 0, 3) == 0);
  bool is_output = some(work, 0, 1);
  compute(work, "product", (int64_t[]){b, m, n}, 3, turned_product_body, is_output);
  if (!is_output || some(work, 0, 1))
    compute(work, "out", (int64_t[]){b, m, n}, 3, positive_body, true);
}

/* numbers: height, width, pad, stride, kernel, channels */
static const BpIrNode *pad_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const int64_t *n = work->numbers;
  const BpIrNode *index[3] = {axes[0]};
  const BpIrNode *inside = NULL;
  for (int i = 1; i < 3; i++) {
    index[i] = te_op(te, BP_IR_SUB, axes[i], te_int(te, n[2]));
    const BpIrNode *low = te_op(te, BP_IR_GE, axes[i], te_int(te, n[2]));
    const BpIrNode *high = te_op(te, BP_IR_LT, index[i], te_int(te, n[i - 1]));
    const BpIrNode *both = te_op(te, BP_IR_AND, low, high);
    inside = inside ? te_op(te, BP_IR_AND, inside, both) : both;
  }
  const BpIrNode *x = bp_te_read(te, work->inputs[0], index);
  return bp_ir_select(bp_te_ir(te), inside, x, number(te, x, (int)work->numbers[6]));
}

static const BpIrNode *conv_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const int64_t *n = work->numbers;
  const BpIrNode *r[3] = {reduce_axis(work, "c", n[5]), reduce_axis(work, "kh", n[4]),
                          reduce_axis(work, "kw", n[4])};
  const BpIrNode *at[3] = {r[0]}, *weight[4] = {axes[0], r[0], r[1], r[2]};
  for (int i = 1; i < 3; i++)
    at[i] = te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, axes[i], te_int(te, n[3])), r[i]);
  const BpIrNode *product =
      te_op(te, BP_IR_MUL, bp_te_read(te, last(work), at), bp_te_read(te, work->inputs[1], weight));
  return bp_te_reduce(te, BP_TE_SUM, product, r, 3);
}

static const BpIrNode *relu_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *x = bp_te_read(te, last(context), axes);
  return stored(context, te_op(te, BP_IR_MAX, x, number(te, x, 0)));
}

static void make_conv(Work *work) {
  int64_t *n = work->numbers;
  n[0] = some(work, 3, 9);
  n[1] = some(work, 3, 9);
  n[2] = some(work, 0, 2);
  n[3] = some(work, 1, 2);
  n[4] = some(work, 1, 3);
  n[5] = some(work, 1, 5);
  n[6] = some(work, 0, 1);
  int64_t out = some(work, 1, 5);
  int64_t padded[] = {n[5], n[0] + 2 * n[2], n[1] + 2 * n[2]};
  int64_t shape[] = {out, (padded[1] - n[4]) / n[3] + 1, (padded[2] - n[4]) / n[3] + 1};
  work->inputs[0] = input(work, "x", work->type, (int64_t[]){n[5], n[0], n[1]}, 3);
  work->inputs[1] = input(work, "w", work->type, (int64_t[]){out, n[5], n[4], n[4]}, 4);
  compute(work, "padded", padded, 3, pad_body, false);
  compute(work, "conv", shape, 3, conv_body, false);
  compute(work, "relu", shape, 3, relu_body, true);
}

static const BpIrNode *row_max_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *k = reduce_axis(work, "k", work->numbers[0]);
  return bp_te_reduce(te, BP_TE_MAX, te_read2(te, work->inputs[0], axes[0], k), &k, 1);
}

static const BpIrNode *row_sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *k = reduce_axis(work, "k", work->numbers[0]);
  const BpIrNode *x = te_op(te, BP_IR_SUB, wide(work, te_read2(te, work->inputs[0], axes[0], k)),
                            te_read1(te, work->computed[0], axes[0]));
  return bp_te_reduce(te, BP_TE_SUM, x, &k, 1);
}

static const BpIrNode *normal_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *x = te_op(te, BP_IR_SUB, wide(work, bp_te_read(te, work->inputs[0], axes)),
                            te_read1(te, work->computed[0], axes[0]));
  return stored(work, te_op(te, BP_IR_MUL, x, te_read1(te, work->computed[1], axes[0])));
}

static void make_softmax(Work *work) {
  int64_t shape[] = {some(work, 1, 12), some(work, 1, 50)};
  work->numbers[0] = shape[1];
  work->inputs[0] = input(work, "x", work->type, shape, 2);
  compute(work, "most", shape, 1, row_max_body, false);
  compute(work, "sum", shape, 1, row_sum_body, some(work, 0, 2) == 0);
  compute(work, "out", shape, 2, normal_body, true);
}

/* Flattens a tensor, joins it with itself backwards, and gathers by an index. */
static const BpIrNode *flat_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *width = te_int(te, work->numbers[0]);
  return te_read2(te, work->inputs[0], te_op(te, BP_IR_DIV, axes[0], width),
                  te_op(te, BP_IR_MOD, axes[0], width));
}

static const BpIrNode *joined_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *size = te_int(te, work->numbers[1]);
  const BpIrNode *back = te_op(te, BP_IR_SUB, te_int(te, 2 * work->numbers[1] - 1), axes[0]);
  return bp_ir_select(bp_te_ir(te), te_op(te, BP_IR_LT, axes[0], size),
                      te_read1(te, work->computed[0], axes[0]),
                      te_read1(te, work->computed[0], back));
}

static const BpIrNode *picked_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *index = bp_ir_cast(bp_te_ir(te), te_i64, te_read1(te, work->inputs[1], axes[0]));
  return te_read1(te, work->computed[1], te_op(te, BP_IR_ADD, index, te_int(te, 4)));
}

static void make_pick(Work *work) {
  int64_t shape[] = {some(work, 2, 9), some(work, 4, 9)};
  int64_t count = some(work, 1, 40);
  int64_t total = shape[0] * shape[1], twice = 2 * total;
  work->numbers[0] = shape[1];
  work->numbers[1] = total;
  BpDataType narrow = {BP_DTYPE_INT, some(work, 0, 1) ? 8 : 32, 1};
  work->inputs[0] = input(work, "x", work->type, shape, 2);
  work->inputs[1] = input(work, "index", narrow, &count, 1);
  compute(work, "flat", &total, 1, flat_body, false);
  compute(work, "joined", &twice, 1, joined_body, false);
  compute(work, "picked", &count, 1, picked_body, true);
}

/* Doubles the extents by repetition, then pools with overlapping windows, with edges clamped. */
static const BpIrNode *upscaled_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *two = te_int(te, 2);
  return te_read2(te, work->inputs[0], te_op(te, BP_IR_DIV, axes[0], two),
                  te_op(te, BP_IR_DIV, axes[1], two));
}

static const BpIrNode *pooled_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *r[2] = {bp_te_reduce_axis(te, "kh", 3), bp_te_reduce_axis(te, "kw", 3)};
  const BpIrNode *at[2];
  for (int i = 0; i < 2; i++) {
    const BpIrNode *x = te_op(te, BP_IR_SUB, te_op(te, BP_IR_ADD, axes[i], r[i]), te_int(te, 1));
    x = te_op(te, BP_IR_MIN, x, te_int(te, 2 * work->numbers[i] - 1));
    at[i] = te_op(te, BP_IR_MAX, x, te_int(te, 0));
  }
  return bp_te_reduce(te, some(work, 0, 1) ? BP_TE_MAX : BP_TE_MIN, bp_te_read(te, last(work), at),
                      r, 2);
}

static void make_pool(Work *work) {
  int64_t shape[] = {some(work, 1, 8), some(work, 1, 12)};
  int64_t larger[] = {2 * shape[0], 2 * shape[1]};
  work->numbers[0] = shape[0];
  work->numbers[1] = shape[1];
  work->inputs[0] = input(work, "x", work->type, shape, 2);
  compute(work, "upscaled", larger, 2, upscaled_body, false);
  compute(work, "pooled", larger, 2, pooled_body, true);
}

/* Integers: counts matches as int32, scales the count to float64, and makes a bool of it. */
static const BpIrNode *count_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *k = reduce_axis(work, "k", work->numbers[0]);
  const BpIrNode *same = te_op(te, BP_IR_EQ, te_read2(te, work->inputs[0], axes[0], k),
                               te_read1(te, work->inputs[1], k));
  BpDataType i32 = {BP_DTYPE_INT, 32, 1};
  return bp_te_reduce(te, BP_TE_SUM, bp_ir_cast(bp_te_ir(te), i32, same), &k, 1);
}

static const BpIrNode *double_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpDataType f64 = {BP_DTYPE_FLOAT, 64, 1};
  return bp_ir_cast(bp_te_ir(te), f64, bp_te_read(te, ((Work *)context)->computed[0], axes));
}

static const BpIrNode *many_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpDataType f64 = {BP_DTYPE_FLOAT, 64, 1};
  return te_op(te, BP_IR_GT, bp_te_read(te, last(context), axes),
               bp_ir_float(bp_te_ir(te), f64, 1));
}

static void make_count(Work *work) {
  int64_t shape[] = {some(work, 1, 20), some(work, 1, 33)};
  BpDataType i8 = {BP_DTYPE_INT, 8, 1};
  work->numbers[0] = shape[1];
  work->inputs[0] = input(work, "x", i8, shape, 2);
  work->inputs[1] = input(work, "y", i8, shape + 1, 1);
  compute(work, "count", shape, 1, count_body, false);
  compute(work, "as_double", shape, 1, double_body, true);
  compute(work, "many", shape, 1, many_body, true);
}

static const BpIrNode *total_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *r[2] = {reduce_axis(work, "a", work->numbers[0]),
                          reduce_axis(work, "b", work->numbers[1])};
  (void)axes;
  return bp_te_reduce(te, BP_TE_SUM, bp_te_read(te, work->inputs[0], r), r, 2);
}

static void make_total(Work *work) {
  int64_t shape[] = {some(work, 0, 9), some(work, 1, 70)};
  work->numbers[0] = shape[0];
  work->numbers[1] = shape[1];
  work->inputs[0] = input(work, "x", work->type, shape, 2);
  compute(work, "total", NULL, 0, total_body, true);
}

/* Combines two pairs of a value and an index: the larger value wins, then the lower index. */
static int arg_combine(BpTe *te, const BpIrNode *const *a, const BpIrNode *const *b, void *context,
                       const BpIrNode **results) {
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *earlier =
      te_op(te, BP_IR_AND, te_op(te, BP_IR_EQ, a[0], b[0]), te_op(te, BP_IR_LT, b[1], a[1]));
  const BpIrNode *takes = te_op(te, BP_IR_OR, te_op(te, BP_IR_GT, b[0], a[0]), earlier);
  (void)context;
  for (int i = 0; i < 2; i++)
    results[i] = bp_ir_select(ir, takes, b[i], a[i]);
  return 0;
}

/* numbers: the reduced extent, and whether it is the first dimension */
static int arg_body(BpTe *te, const BpIrNode *const *axes, void *context, const BpIrNode **values) {
  Work *work = context;
  const BpIrNode *k = reduce_axis(work, "k", work->numbers[0]);
  const BpIrNode *x = work->numbers[1] ? te_read2(te, work->inputs[0], k, axes[0])
                                       : te_read2(te, work->inputs[0], axes[0], k);
  x = wide(work, x);
  const BpIrNode *identities[] = {number(te, x, -100), te_int(te, 1000)};
  const BpTeReducer reducer = {.combine = arg_combine, .identities = identities};
  return bp_te_reduce_tuple(te, &reducer, (const BpIrNode *[]){x, k}, 2, &k, 1, values);
}

static const BpIrNode *placed_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  BpTeStage *stage = bp_te_stage(te, work->computed[0]);
  const BpIrNode *at = te_read1(te, bp_te_stage_tensor(stage, 1), axes[0]);
  const BpIrNode *is_there = te_op(te, BP_IR_EQ, at, axes[1]);
  const BpIrNode *most = te_read1(te, work->computed[0], axes[0]);
  return bp_ir_select(bp_te_ir(te), is_there, most, number(te, most, 0));
}

static void make_arg(Work *work) {
  int64_t shape[] = {some(work, 1, 20), some(work, 1, 50)};
  bool is_first = some(work, 0, 1);
  work->numbers[0] = shape[is_first ? 0 : 1];
  work->numbers[1] = is_first;
  int64_t rows = shape[is_first ? 1 : 0];
  work->inputs[0] = input(work, "x", work->type, shape, 2);
  bool alone = some(work, 0, 1);
  compute_two(work, "arg", &rows, 1, arg_body, alone, alone || some(work, 0, 1));
  if (!alone)
    compute(work, "placed", (int64_t[]){rows, work->numbers[0]}, 2, placed_body, true);
}

/* The sum and the difference of two tensors, each of which is read again. */
static int both_body(BpTe *te, const BpIrNode *const *axes, void *context,
                     const BpIrNode **values) {
  Work *work = context;
  const BpIrNode *a = bp_te_read(te, work->inputs[0], axes);
  const BpIrNode *b = te_read2(te, work->inputs[1], axes[1], axes[0]);
  values[0] = te_op(te, BP_IR_ADD, a, b);
  values[1] = te_op(te, BP_IR_GT, a, b);
  return 0;
}

static const BpIrNode *chosen_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  BpTeTensor *larger = bp_te_stage_tensor(bp_te_stage(te, work->computed[0]), 1);
  const BpIrNode *sum = bp_te_read(te, work->computed[0], axes);
  return bp_ir_select(bp_te_ir(te), bp_te_read(te, larger, axes), sum, number(te, sum, 0));
}

static void make_both(Work *work) {
  int64_t shape[] = {some(work, 1, 20), some(work, 1, 40)};
  work->inputs[0] = input(work, "a", work->type, shape, 2);
  work->inputs[1] = input(work, "b", work->type, (int64_t[]){shape[1], shape[0]}, 2);
  int which = (int)some(work, 0, 3);
  compute_two(work, "both", shape, 2, both_body, which & 1, which & 2);
  if (which != 3)
    compute(work, "chosen", shape, 2, chosen_body, true);
}

/* Running sums, up to a limit for each row, backward or forward, optionally doubled afterwards. */
static const BpIrNode *row_limit_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *limit = te_read1(te, ((Work *)context)->inputs[1], axes[0]);
  return te_op(te, BP_IR_ADD, limit, te_int(te, 3));
}

static int running_body(BpTe *te, const BpIrNode *const *axes, void *context,
                        const BpIrNode **values) {
  Work *work = context;
  const BpIrNode *x = bp_te_read(te, work->inputs[0], axes);
  const BpIrNode *sum = bp_te_read(te, work->inputs[2], axes);
  values[0] = te_op(te, BP_IR_ADD, sum, x);
  values[1] = te_op(te, BP_IR_GT, sum, x);
  return 0;
}

static void end_scan(Work *work, BpTeScan *scan, BpTeTupleBody body, int32_t num_values,
                     BpTeTensor **each) {
  BpTeTensor *last[2];
  if (bp_te_scan_end(scan, body, work, num_values, each, last) != 0)
    g_error("%s", bp_error_message());
  work->is_output[work->num_computed] = true;
  work->scan_axis[work->num_computed] = 1 + (int32_t)work->numbers[0];
  work->computed[work->num_computed++] = each[0];
  add_output(work, last[0]);
}

static const BpIrNode *twice_each_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *x = bp_te_read(te, last(context), axes);
  return te_op(te, BP_IR_MUL, x, number(te, x, 2));
}

static void make_running(Work *work) {
  int64_t shape[] = {some(work, 1, 9), some(work, 1, 40)}, axis = some(work, 0, 1);
  BpTeTensor *each[2];
  bool is_bounded = some(work, 0, 1);
  work->numbers[0] = axis;
  work->inputs[0] = input(work, "x", work->type, shape, 2);
  if (is_bounded)
    work->inputs[1] = input(work, "limits", te_i64, &shape[!axis], 1);
  BpTeScan *scan =
      bp_te_scan_begin(work->te, "running", shape, 2, (int32_t)axis, (int32_t)some(work, 0, 1));
  work->inputs[2] = bp_te_scan_state(scan, "sum", work->type, NULL, NULL);
  if (is_bounded && bp_te_scan_limit(scan, row_limit_body, work) != 0)
    g_error("%s", bp_error_message());
  end_scan(work, scan, running_body, 2, each);
  if (some(work, 0, 1))
    add_output(work, each[1]);
  if (some(work, 0, 1))
    compute(work, "twice", shape, 2, twice_each_body, true);
}

/* state' = state w + x, clamped; numbers: axis, width */
static const BpIrNode *state_product_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *k = reduce_axis(work, "k", work->numbers[1]);
  const BpIrNode *state =
      bp_te_read(te, work->inputs[2], (const BpIrNode *[]){axes[0], axes[1], k});
  return bp_te_reduce(
      te, BP_TE_SUM, te_op(te, BP_IR_MUL, state, te_read2(te, work->inputs[1], k, axes[2])), &k, 1);
}

static int recurrence_body(BpTe *te, const BpIrNode *const *axes, void *context,
                           const BpIrNode **values) {
  Work *work = context;
  const BpIrNode *sum = te_op(te, BP_IR_ADD, bp_te_read(te, last(work), axes),
                              wide(work, bp_te_read(te, work->inputs[0], axes)));
  sum = te_op(te, BP_IR_MAX, sum, number(te, sum, -3));
  values[0] = stored(work, te_op(te, BP_IR_MIN, sum, number(te, sum, 3)));
  return 0;
}

static void make_recurrence(Work *work) {
  int64_t shape[] = {some(work, 1, 6), some(work, 1, 5), some(work, 1, 20)};
  BpTeTensor *each[1];
  work->numbers[1] = shape[2];
  work->inputs[0] = input(work, "x", work->type, shape, 3);
  work->inputs[1] = input(work, "w", work->type, (int64_t[]){shape[2], shape[2]}, 2);
  BpTeScan *scan = bp_te_scan_begin(work->te, "h", shape, 3, 0, (int32_t)some(work, 0, 1));
  work->inputs[2] = bp_te_scan_state(scan, "state", work->type, NULL, NULL);
  compute(work, "product", shape, 3, state_product_body, false);
  end_scan(work, scan, recurrence_body, 1, each);
  add_output(work, each[0]);
}

/* Joins three tensors along the middle axis, each read where the index is in its part.
 * numbers: where the parts end. */
static const BpIrNode *parts_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const int64_t *end = work->numbers;
  const BpIrNode *result = NULL;
  for (int i = 2; i >= 0; i--) {
    const BpIrNode *start = te_int(te, i ? end[i - 1] : 0);
    const BpIrNode *at[] = {axes[0], te_op(te, BP_IR_SUB, axes[1], start), axes[2]};
    const BpIrNode *inside = te_op(te, BP_IR_AND, te_op(te, BP_IR_GE, axes[1], start),
                                   te_op(te, BP_IR_LT, axes[1], te_int(te, end[i])));
    const BpIrNode *value = bp_te_read(te, work->inputs[i], at);
    result = result ? bp_ir_select(bp_te_ir(te), inside, value, result) : value;
  }
  return result;
}

static void make_parts(Work *work) {
  int64_t shape[] = {some(work, 1, 5), 0, some(work, 1, 19)};
  for (int i = 0; i < 3; i++) {
    int64_t part[] = {shape[0], some(work, 1, 6), shape[2]};
    work->inputs[i] = input(work, "part", te_f32, part, 3);
    work->numbers[i] = shape[1] += part[1];
  }
  compute(work, "joined", shape, 3, parts_body, some(work, 0, 1));
  compute(work, "relu", shape, 3, relu_body, true);
}

/* Reads every element of a tensor, mirrored beyond its edges. numbers: extents, pads. */
static const BpIrNode *mirror_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *at[2];
  for (int i = 0; i < 2; i++) {
    const BpIrNode *x = te_op(te, BP_IR_SUB, axes[i], te_int(te, work->numbers[2 + i]));
    x = te_op(te, BP_IR_MAX, x, te_op(te, BP_IR_SUB, te_int(te, 0), x));
    at[i] = te_op(te, BP_IR_MIN, x, te_op(te, BP_IR_SUB, te_int(te, 2 * work->numbers[i] - 2), x));
  }
  return bp_te_read(te, work->inputs[0], at);
}

static void make_mirror(Work *work) {
  int64_t shape[] = {some(work, 4, 8), some(work, 4, 30)}, larger[2];
  for (int i = 0; i < 2; i++) {
    work->numbers[i] = shape[i];
    work->numbers[2 + i] = some(work, 0, 3);
    larger[i] = shape[i] + 2 * work->numbers[2 + i];
  }
  work->inputs[0] = input(work, "x", te_f32, shape, 2);
  compute(work, "mirrored", larger, 2, mirror_body, true);
}

/* The largest of the elements of a window that are in bounds, and whether an index in memory is in
 * the first third. numbers: extents, kernel, pad. */
static const BpIrNode *largest_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const int64_t *n = work->numbers;
  const BpIrNode *r[2] = {reduce_axis(work, "kh", n[2]), reduce_axis(work, "kw", n[2])};
  const BpIrNode *at[2], *inside = NULL;
  for (int i = 0; i < 2; i++) {
    at[i] = te_op(te, BP_IR_SUB, te_op(te, BP_IR_ADD, axes[i], r[i]), te_int(te, n[3]));
    const BpIrNode *low = te_op(te, BP_IR_GE, at[i], te_int(te, 0));
    const BpIrNode *high = te_op(te, BP_IR_LT, at[i], te_int(te, n[i]));
    inside = inside ? te_op(te, BP_IR_AND, inside, low) : low;
    inside = te_op(te, BP_IR_AND, inside, high);
  }
  const BpIrNode *x =
      bp_ir_select(bp_te_ir(te), inside, bp_te_read(te, work->inputs[0], at), te_float(te, -100));
  return bp_te_reduce(te, BP_TE_MAX, x, r, 2);
}

static const BpIrNode *third_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  Work *work = context;
  const BpIrNode *place =
      te_op(te, BP_IR_ADD, te_op(te, BP_IR_MUL, axes[0], te_int(te, work->numbers[4])), axes[1]);
  const BpIrNode *is_first = te_op(te, BP_IR_LT, te_op(te, BP_IR_FLOORDIV, place, te_int(te, 3)),
                                   te_int(te, work->numbers[5]));
  return bp_ir_select(bp_te_ir(te), is_first, bp_te_read(te, last(work), axes), te_float(te, 1));
}

static void make_largest(Work *work) {
  int64_t shape[] = {some(work, 3, 9), some(work, 3, 20)}, pooled[2];
  int64_t kernel = some(work, 1, 3), pad = some(work, 0, kernel);
  for (int i = 0; i < 2; i++) {
    work->numbers[i] = shape[i];
    pooled[i] = shape[i] + 2 * pad - kernel + 1;
  }
  work->numbers[2] = kernel;
  work->numbers[3] = pad;
  work->numbers[4] = pooled[1];
  work->numbers[5] = pooled[0] * pooled[1] / 9;
  work->inputs[0] = input(work, "x", te_f32, shape, 2);
  compute(work, "largest", pooled, 2, largest_body, false);
  compute(work, "third", pooled, 2, third_body, true);
}

/* A product with enough rows and columns for a tile in each block of threads, or almost enough. */
static void make_blocks(Work *work) {
  int64_t m = some(work, 58, 70), n = some(work, 58, 70), k = some(work, 1, 20);
  work->numbers[0] = k;
  work->inputs[0] = input(work, "a", work->type, (int64_t[]){m, k}, 2);
  work->inputs[1] = input(work, "b", work->type, (int64_t[]){k, n}, 2);
  work->inputs[2] = input(work, "bias", work->type, &n, 1);
  bool is_output = some(work, 0, 1);
  compute(work, "product", (int64_t[]){m, n}, 2, matmul_body, is_output);
  if (!is_output || some(work, 0, 1))
    compute(work, "out", (int64_t[]){m, n}, 2, bias_body, true);
}

typedef struct Computation {
  const char *name;
  void (*make)(Work *work);
} Computation;

static const Computation blocks = {"blocks", make_blocks};

static const Computation computations[] = {
    {"chain", make_chain},     {"matmul", make_matmul},   {"conv", make_conv},
    {"softmax", make_softmax}, {"pick", make_pick},       {"pool", make_pool},
    {"count", make_count},     {"total", make_total},     {"arg", make_arg},
    {"both", make_both},       {"running", make_running}, {"recurrence", make_recurrence},
    {"parts", make_parts},     {"mirror", make_mirror},   {"largest", make_largest},
    {"turned", make_turned},
};

/* ---- Random schedules -------------------------------------------------------------------- */

typedef struct Leaves {
  BpTeAxis *axes[40];
  bool is_reduce[40]; /* axis of a reduction or a scan */
  bool is_scan[40];
  int32_t count;
} Leaves;

static bool chance(GRand *random, int percent) {
  return g_rand_int_range(random, 0, 100) < percent;
}

static void must(int rc) {
  if (rc != 0)
    g_error("a schedule primitive failed: %s", bp_error_message());
}

static void collect_leaves(BpTeStage *stage, int32_t ndim, int32_t scan_axis, Leaves *leaves) {
  leaves->count = 0;
  for (int32_t i = 0; i < ndim; i++) {
    leaves->is_reduce[leaves->count] = leaves->is_scan[leaves->count] = i == scan_axis - 1;
    leaves->axes[leaves->count++] = bp_te_stage_axis(stage, i);
  }
  for (int32_t i = 0;; i++) {
    BpTeAxis *axis = bp_te_stage_reduce_axis(stage, i);
    if (!axis)
      break;
    leaves->is_reduce[leaves->count] = true;
    leaves->axes[leaves->count++] = axis;
  }
  bp_error_clear();
}

static void split_some(GRand *random, BpTeStage *stage, Leaves *leaves) {
  static const int factors[] = {1, 2, 3, 4, 5, 7, 8, 16};
  int times = g_rand_int_range(random, 0, 4);
  for (int n = 0; n < times && leaves->count > 0; n++) {
    int at = g_rand_int_range(random, 0, leaves->count);
    int64_t factor = factors[g_rand_int_range(random, 0, G_N_ELEMENTS(factors))];
    int tail = g_rand_int_range(random, 0, 4);
    if (tail == BP_TE_TAIL_OVERLAP &&
        (leaves->is_reduce[at] || bp_te_axis_extent(leaves->axes[at]) < factor))
      tail = BP_TE_TAIL_GUARD;
    BpTeAxis *outer, *inner;
    must(bp_te_split(stage, leaves->axes[at], factor, tail, &outer, &inner));
    for (int i = leaves->count++; i > at + 1; i--) {
      leaves->axes[i] = leaves->axes[i - 1];
      leaves->is_reduce[i] = leaves->is_reduce[i - 1];
      leaves->is_scan[i] = leaves->is_scan[i - 1];
    }
    leaves->axes[at] = outer;
    leaves->axes[at + 1] = inner;
    leaves->is_reduce[at + 1] = leaves->is_reduce[at];
    leaves->is_scan[at + 1] = leaves->is_scan[at];
  }
}

static void shuffle(GRand *random, BpTeStage *stage, Leaves *leaves) {
  for (int i = leaves->count - 1; i > 0; i--) {
    int j = g_rand_int_range(random, 0, i + 1);
    BpTeAxis *axis = leaves->axes[i];
    bool is_reduce = leaves->is_reduce[i], is_scan = leaves->is_scan[i];
    leaves->axes[i] = leaves->axes[j];
    leaves->is_reduce[i] = leaves->is_reduce[j];
    leaves->is_scan[i] = leaves->is_scan[j];
    leaves->axes[j] = axis;
    leaves->is_reduce[j] = is_reduce;
    leaves->is_scan[j] = is_scan;
  }
  must(bp_te_reorder(stage, leaves->axes, leaves->count));
}

static void fuse_some(GRand *random, BpTeStage *stage, Leaves *leaves) {
  if (leaves->count < 2)
    return;
  int at = g_rand_int_range(random, 0, leaves->count - 1);
  if (leaves->is_reduce[at] != leaves->is_reduce[at + 1] ||
      leaves->is_scan[at] != leaves->is_scan[at + 1])
    return;
  must(bp_te_fuse(stage, leaves->axes[at], leaves->axes[at + 1], &leaves->axes[at]));
  leaves->count--;
  for (int i = at + 1; i < leaves->count; i++) {
    leaves->axes[i] = leaves->axes[i + 1];
    leaves->is_reduce[i] = leaves->is_reduce[i + 1];
    leaves->is_scan[i] = leaves->is_scan[i + 1];
  }
}

static void annotate_some(GRand *random, BpTeStage *stage, const Leaves *leaves) {
  int vector =
      leaves->count && chance(random, 60) ? g_rand_int_range(random, 0, leaves->count) : -1;
  for (int i = 0; i < leaves->count; i++) {
    if (i == vector && !leaves->is_scan[i])
      must(bp_te_vectorize(stage, leaves->axes[i]));
    else if (bp_te_axis_extent(leaves->axes[i]) <= 5 && chance(random, 40))
      must(bp_te_unroll(stage, leaves->axes[i]));
    else if (!leaves->is_reduce[i] && chance(random, 15))
      must(bp_te_parallel(stage, leaves->axes[i]));
  }
}

static void schedule_loops(GRand *random, BpTeStage *stage, Leaves *leaves) {
  split_some(random, stage, leaves);
  if (chance(random, 60))
    shuffle(random, stage, leaves);
  while (chance(random, 30))
    fuse_some(random, stage, leaves);
  if (chance(random, 20))
    split_some(random, stage, leaves);
  annotate_some(random, stage, leaves);
}

/* Splits a reduction axis and computes partial results over one part. */
static BpTeTensor *factor_some(GRand *random, BpTe *te, BpTeTensor *tensor) {
  BpTeStage *stage = bp_te_stage(te, tensor);
  BpTeAxis *axis = bp_te_stage_reduce_axis(stage, 0), *outer, *inner;
  if (!axis) {
    bp_error_clear();
    return NULL;
  }
  must(bp_te_split(stage, axis, g_rand_int_range(random, 1, 9), g_rand_int_range(random, 0, 2) * 2,
                   &outer, &inner));
  BpTeTensor *partial = bp_te_rfactor(te, tensor, chance(random, 50) ? outer : inner);
  if (!partial)
    g_error("%s", bp_error_message());
  return partial;
}

/* Lets an inner loop prefetch an input, and makes the outermost loop parallel: lowering may jam
 * iterations of the outermost loop. */
static void prefetch_some(GRand *random, const Work *work, BpTeStage *stage, const Leaves *leaves) {
  if (!work->inputs[0] || leaves->count < 2 || leaves->is_reduce[0] || leaves->is_scan[0] ||
      !chance(random, 50))
    return;
  int32_t at = leaves->count - 1 - g_rand_int_range(random, 0, MIN(leaves->count - 1, 2));
  if (bp_te_parallel(stage, leaves->axes[0]) != 0)
    bp_error_clear(); /* is unrolled or vectorized, or parallel already */
  must(bp_te_prefetch(stage, work->inputs[0], leaves->axes[at], g_rand_int_range(random, 1, 20)));
}

/* Schedules every stage, consumers first, so that producers find the loops to attach to. */
static void schedule_randomly(GRand *random, Work *work, bool attach) {
  BpTeStage *done[MAX_WORKS * 3];
  Leaves leaves[MAX_WORKS * 3];
  int32_t num_done = 0;
  BpTeTensor *todo[MAX_WORKS * 3];
  bool is_output[MAX_WORKS * 3];
  int32_t scan_axis[MAX_WORKS * 3] = {0};
  int32_t count = work->num_computed;
  for (int32_t i = 0; i < count; i++) {
    todo[i] = work->computed[i];
    is_output[i] = work->is_output[i];
    scan_axis[i] = work->scan_axis[i];
  }
  while (count > 0) {
    BpTeTensor *tensor = todo[--count];
    bool output = is_output[count];
    BpTeStage *stage = bp_te_stage(work->te, tensor);
    if (!output && chance(random, 20)) {
      if (bp_te_compute_inline(stage) == 0)
        continue;
      bp_error_clear();
    }
    BpTeTensor *more = NULL;
    int32_t axis = scan_axis[count];
    if (chance(random, 20) && !axis)
      more = factor_some(random, work->te, tensor);
    else if (chance(random, 20) && !axis)
      more = bp_te_cache_write(work->te, tensor,
                               chance(random, 50) ? BP_IR_SCOPE_LOCAL : BP_IR_SCOPE_GLOBAL);
    else if (work->inputs[0] && chance(random, 15))
      more = bp_te_cache_read(work->te, work->inputs[0], BP_IR_SCOPE_LOCAL, &tensor, 1);
    if (more) {
      is_output[count] = false;
      scan_axis[count] = 0;
      todo[count++] = more;
    }
    if (chance(random, 30) && bp_te_store_first(stage) != 0)
      bp_error_clear();
    memset(&leaves[num_done], 0, sizeof leaves[num_done]);
    collect_leaves(stage, bp_te_tensor_ndim(tensor), axis, &leaves[num_done]);
    schedule_loops(random, stage, &leaves[num_done]);
    prefetch_some(random, work, stage, &leaves[num_done]);
    if (attach && !output && num_done > 0 && chance(random, 60)) {
      int at = chance(random, 70) ? num_done - 1 : g_rand_int_range(random, 0, num_done);
      if (leaves[at].count > 0)
        must(bp_te_compute_at(stage, done[at],
                              leaves[at].axes[g_rand_int_range(random, 0, leaves[at].count)]));
    }
    done[num_done++] = stage;
  }
}

/* ---- Comparing --------------------------------------------------------------------------- */

static const BpDataType types[] = {
    {BP_DTYPE_FLOAT, 32, 1}, {BP_DTYPE_FLOAT, 16, 1},  {BP_DTYPE_INT, 8, 1},
    {BP_DTYPE_FLOAT, 64, 1}, {BP_DTYPE_BFLOAT, 16, 1}, {BP_DTYPE_INT, 32, 1},
    {BP_DTYPE_FLOAT, 32, 1}, {BP_DTYPE_INT, 16, 1},    {BP_DTYPE_INT, 64, 1},
};

static const Computation *computation_of(uint32_t seed) {
  return &computations[seed % G_N_ELEMENTS(computations)];
}

static void make_work(Work *work, const Computation *computation, uint32_t seed, bool is_open) {
  bool can_be_open = computation->make != make_recurrence; /* steps of a scan cannot be open */
  memset(work, 0, sizeof *work);
  work->te = bp_te_create();
  work->random = g_rand_new_with_seed(seed);
  work->opening = is_open && can_be_open ? g_rand_new_with_seed(seed ^ 0x09e4) : NULL;
  work->type = types[seed / G_N_ELEMENTS(computations) % G_N_ELEMENTS(types)];
  computation->make(work);
}

static void free_work(Work *work) {
  bp_te_free(work->te);
  g_rand_free(work->random);
  if (work->opening)
    g_rand_free(work->opening);
}

static void make_arrays(const Work *work, TeArray **arrays, uint32_t seed) {
  GRand *random = g_rand_new_with_seed(seed);
  for (int32_t i = 0; i < work->num_args; i++) {
    arrays[i] = te_array_new(work->args[i]);
    te_fill(arrays[i], random);
  }
  g_rand_free(random);
}

/* Lowers, without a pass if one is named, and runs. 0: done; 1: the schedule is invalid, for the
 * given reason. */
static int run_work(Work *work, TeArray **arrays, const char *without) {
  BpLowerOptions options = {.struct_size = sizeof options, .without = without};
  BpIrModule *module = bp_ir_module_create();
  if (bp_te_lower(work->te, "f", work->args, work->num_args, &options, module) == 0) {
    te_run_open(module, arrays, work->num_args, work->open, work->num_open);
    bp_object_release(module);
    return 0;
  }
  const char *message = bp_error_message();
  bool is_expected = strstr(message, "computed inside") || strstr(message, "in their order") ||
                     strstr(message, "not among those") || strstr(message, "another step");
  if (!bp_error_is(BP_ERROR_VALUE) || !is_expected)
    g_error("lowering failed: %s", message);
  bp_error_clear();
  bp_object_release(module);
  return 1;
}

static int run_scheduled(Work *work, TeArray **arrays, uint32_t seed, bool attach, bool is_open) {
  GRand *random = g_rand_new_with_seed(seed ^ 0x5eed);
  make_work(work, computation_of(seed), seed, is_open);
  schedule_randomly(random, work, attach);
  g_rand_free(random);
  return run_work(work, arrays, NULL);
}

/* Whether two values are equal as numbers: 0 + -0 is 0, but a sum that starts with its first term
 * has -0. */
/* Zeros of either sign are equal: min and max may give either. */
static bool are_equal(const TeArray *a, const TeArray *b) {
  BpDataType dtype = a->view.dtype;
  bool is_float = dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
  if (!is_float)
    return memcmp(a->view.data, b->view.data, (gsize)a->size * bp_dtype_bytes(dtype)) == 0;
  for (int64_t i = 0; i < a->size; i++) {
    uint64_t x = te_bits(a, i), y = te_bits(b, i), sign = UINT64_C(1) << (dtype.bits - 1);
    if (x != y && ((x | y) & ~sign) != 0)
      return false;
  }
  return true;
}

static char *lowered_text(Work *work) {
  BpIrModule *module = bp_ir_module_create();
  g_assert_cmpint(bp_te_lower(work->te, "f", work->args, work->num_args, NULL, module), ==, 0);
  return bp_ir_print(module);
}

static void compare(Work *plain, Work *scheduled, TeArray **expected, TeArray **found,
                    const Computation *computation, uint32_t seed) {
  for (int32_t i = 0; i < plain->num_args; i++) {
    if (!are_equal(expected[i], found[i]))
      g_error("seed %u: %s: argument %d differs\n%s", seed, computation->name, i,
              lowered_text(scheduled));
    te_array_free(expected[i]);
    te_array_free(found[i]);
  }
  free_work(plain);
  free_work(scheduled);
}

/* Applies the schedule that the compiler chooses for a machine. */
static void check_chosen(const Computation *computation, uint32_t seed, bool is_open,
                         const char *target_text) {
  Work plain, scheduled;
  TeArray *expected[MAX_ARGS], *found[MAX_ARGS];
  make_work(&plain, computation, seed, false);
  make_work(&scheduled, computation, seed, is_open);
  make_arrays(&plain, expected, seed);
  make_arrays(&plain, found, seed);
  g_assert_cmpint(run_work(&plain, expected, "partition"), ==, 0);
  BpTarget *target = bp_target_parse(target_text);
  if (!target)
    g_error("%s", bp_error_message());
  if (bp_schedule_auto(scheduled.te, scheduled.outputs, scheduled.num_outputs, target) != 0)
    g_error("seed %u: %s: %s", seed, computation->name, bp_error_message());
  bp_object_release(target);
  g_assert_cmpint(run_work(&scheduled, found, NULL), ==, 0);
  compare(&plain, &scheduled, expected, found, computation, seed);
}

static void check_auto(uint32_t seed, bool is_open) {
  static const char *const targets[] = {
      "c -mcpu=x86-64-v4 -vector_bits=512 -vector_registers=32 -num_cores=2",
      "c -mcpu=x86-64-v3 -vector_bits=256 -vector_registers=16 -num_cores=1",
      "c -mcpu=x86-64-v2 -vector_bits=128 -vector_registers=16",
      "cuda",
      "opencl -vector_bits=256 -thread_warp_size=1",
  };
  /* Kernels do not support open extents yet. */
  uint32_t num_targets = G_N_ELEMENTS(targets) - (is_open ? 2 : 0);
  check_chosen(computation_of(seed), seed, is_open, targets[seed % num_targets]);
}

/* Whether the schedule of this seed was valid with its attachments. */
static bool check_seed(uint32_t seed, bool is_open) {
  Work plain, scheduled;
  TeArray *expected[MAX_ARGS], *found[MAX_ARGS];
  make_work(&plain, computation_of(seed), seed, false);
  make_arrays(&plain, expected, seed);
  make_arrays(&plain, found, seed);
  g_assert_cmpint(run_work(&plain, expected, "partition"), ==, 0);
  bool attached = run_scheduled(&scheduled, found, seed, true, is_open) == 0;
  if (!attached) {
    free_work(&scheduled);
    /* The order of a scan's loops may be invalid, whatever is attached to them. */
    if (run_scheduled(&scheduled, found, seed, false, is_open) != 0) {
      g_assert_cmpint(plain.scan_axis[0] + plain.scan_axis[1], !=, 0);
      free_work(&scheduled);
      make_work(&scheduled, computation_of(seed), seed, is_open);
      g_assert_cmpint(run_work(&scheduled, found, NULL), ==, 0);
    }
  }
  compare(&plain, &scheduled, expected, found, computation_of(seed), seed);
  return attached;
}

static uint32_t first_seed, end_seed = SEEDS;

static void test_all_schedules_agree(void) {
  uint32_t attached = 0;
  for (uint32_t seed = first_seed; seed < end_seed; seed++)
    attached += check_seed(seed, false);
  g_assert_cmpuint(attached, >=, (end_seed - first_seed) / 2);
}

static void test_chosen_schedules_agree(void) {
  for (uint32_t seed = first_seed; seed < end_seed; seed++)
    check_auto(seed, false);
}

static void test_blocks_of_threads_agree(void) {
  for (uint32_t seed = first_seed; seed < first_seed + 8; seed++)
    check_chosen(&blocks, seed, false, seed % 4 ? "cuda" : "opencl -thread_warp_size=8");
}

/* Seeds that found faults: a region of i / 4 beyond the elements that an outer loop computed, and a
 * comparison of a name that is constant. */
static void test_schedules_that_disagreed_once_agree(void) {
  check_seed(34233, false);
  check_seed(41556, true);
}

static void test_all_schedules_agree_on_open_extents(void) {
  for (uint32_t seed = first_seed; seed < end_seed; seed++)
    check_seed(seed, true);
}

static void test_chosen_schedules_agree_on_open_extents(void) {
  for (uint32_t seed = first_seed; seed < end_seed; seed++)
    check_auto(seed, true);
}

/* Reads element [i / 4]. */
static const BpIrNode *quarter_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_read1(te, context, te_op(te, BP_IR_FLOORDIV, axes[0], te_int(te, 4)));
}

static const BpIrNode *twice_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_op(te, BP_IR_MUL, te_read1(te, context, axes[0]), te_float(te, 2));
}

/* Tiles of four, the last of which is cut off at the end: each tile needs one element of the stage
 * that is computed in it, also where the loop over the tiles is fused with another and split
 * again. */
static void test_a_tile_that_is_cut_off_needs_no_more(void) {
  BpTe *te = bp_te_create();
  BpTeTensor *a = bp_te_placeholder(te, "A", te_f32, (const int64_t[]){5}, 1);
  BpTeTensor *b = bp_te_compute(te, "B", (const int64_t[]){5}, 1, twice_body, a);
  BpTeTensor *c = bp_te_compute(te, "C", (const int64_t[]){18, 3}, 2, quarter_body, b);
  BpTeStage *stage = bp_te_stage(te, c);
  BpTeAxis *tile, *inside, *fused, *block, *thread;
  BpTeAxis *column = bp_te_stage_axis(stage, 1);
  if (bp_te_split(stage, bp_te_stage_axis(stage, 0), 4, BP_TE_TAIL_GUARD, &tile, &inside) ||
      bp_te_reorder(stage, (BpTeAxis *const[]){tile, column, inside}, 3) ||
      bp_te_fuse(stage, tile, column, &fused) ||
      bp_te_split(stage, fused, 8, BP_TE_TAIL_GUARD, &block, &thread) ||
      bp_te_compute_at(bp_te_stage(te, b), stage, thread))
    g_error("%s", bp_error_message());
  BpIrModule *module = bp_ir_module_create();
  if (bp_te_lower(te, "f", (BpTeTensor *const[]){a, c}, 2, NULL, module))
    g_error("%s", bp_error_message());
  char *text = bp_ir_print(module);
  if (!strstr(text, "(buffer B float32 local 1)"))
    g_error("more than one element is computed for a tile:\n%s", text);
  free(text);
  bp_object_release(module);
  bp_te_free(te);
}

/* Sums of the rows of one tensor, added to another. */
static const BpIrNode *sum_of_row_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpIrNode *k = bp_te_reduce_axis(te, "k", 16);
  return bp_te_reduce(te, BP_TE_SUM, te_read2(te, context, axes[0], k), &k, 1);
}

static const BpIrNode *twice_row_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  return te_op(te, BP_IR_MUL, te_read2(te, context, axes[0], axes[1]), te_float(te, 2));
}

static const BpIrNode *sum_and_row_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  BpTeTensor *const *read = context;
  return te_op(te, BP_IR_ADD, te_read1(te, read[0], axes[0]),
               te_read2(te, read[1], axes[0], axes[1]));
}

static void share_at(BpTe *te, BpTeTensor *tensor, BpTeStage *consumer) {
  BpTeStage *stage = bp_te_stage(te, tensor);
  if (bp_te_compute_at(stage, consumer, bp_te_stage_axis(consumer, 0)) ||
      bp_te_set_scope(stage, BP_IR_SCOPE_SHARED))
    g_error("%s", bp_error_message());
}

/* Shared memory is complete before it is read, also where the next stage shares its barriers with
 * another stage: sum reads row, and needs no barrier before other. */
static void test_what_is_shared_is_complete(void) {
  const int64_t shape[] = {8, 16};
  BpTe *te = bp_te_create();
  BpTeTensor *a = bp_te_placeholder(te, "a", te_f32, shape, 2);
  BpTeTensor *row = bp_te_compute(te, "row", shape, 2, twice_row_body, a);
  BpTeTensor *sum = bp_te_compute(te, "sum", shape, 1, sum_of_row_body, row);
  BpTeTensor *other = bp_te_compute(te, "other", shape, 2, twice_row_body, a);
  BpTeTensor *read[] = {sum, other};
  BpTeTensor *both = bp_te_compute(te, "both", shape, 2, sum_and_row_body, read);
  BpTeStage *stage = bp_te_stage(te, both);
  share_at(te, row, stage);
  share_at(te, sum, stage);
  share_at(te, other, stage);
  BpIrModule *module = bp_ir_module_create();
  if (bp_te_bind(stage, bp_te_stage_axis(stage, 1), "threadIdx.x") ||
      bp_te_lower(te, "f", (BpTeTensor *const[]){a, both}, 2, NULL, module))
    g_error("%s", bp_error_message());
  char *text = bp_ir_print(module);
  const char *store = strstr(text, "(store row"), *load = strstr(text, "(load row");
  g_assert_true(store && load && store < load);
  const char *barrier = strstr(store, "(barrier");
  if (!barrier || barrier > load)
    g_error("what another thread computed is read without waiting for it:\n%s", text);
  free(text);
  bp_object_release(module);
  bp_te_free(te);
}

/* Returns the IR of a computation of a million elements, scheduled by the compiler (free()). */
static char *text_of_large_work(const char *target_text) {
  BpTarget *target = bp_target_parse(target_text);
  BpTe *te = bp_te_create();
  const int64_t size = 1 << 20;
  BpTeTensor *a = bp_te_placeholder(te, "a", te_f32, &size, 1);
  BpTeTensor *twice = bp_te_compute(te, "twice", &size, 1, twice_body, a);
  BpIrModule *module = bp_ir_module_create();
  if (!target || bp_schedule_auto(te, &twice, 1, target) ||
      bp_te_lower(te, "f", (BpTeTensor *const[]){a, twice}, 2, NULL, module))
    g_error("%s", bp_error_message());
  char *text = bp_ir_print(module);
  bp_object_release(module);
  bp_object_release(target);
  bp_te_free(te);
  return text;
}

/* Whether loops are parallel depends on the work, not on the cores of the compiling machine. */
static void test_work_is_parallel_on_every_cpu(void) {
  static const char *const targets[] = {"c", "c -mcpu=x86-64-v2", "c -mcpu=cortex-a72"};
  BpTarget *native = bp_target_parse("c");
  g_assert_cmpint(bp_target_get_int(native, BP_TARGET_NUM_CORES, -1), ==, -1);
  bp_object_release(native);
  for (size_t i = 0; i < G_N_ELEMENTS(targets); i++) {
    char *text = text_of_large_work(targets[i]);
    if (!strstr(text, "parallel"))
      g_error("target %s: no loop is parallel:\n%s", targets[i], text);
    free(text);
  }
  char *text = text_of_large_work("c -num_cores=1");
  g_assert_null(strstr(text, "parallel"));
  free(text);
}

/* Arguments: the first seed, and the seed after the last (without it: only the first seed). */
int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  if (argc > 1) {
    first_seed = (uint32_t)strtoul(argv[1], NULL, 10);
    end_seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : first_seed + 1;
  }
  g_test_add_func("/te/schedule/random-schedules-agree-with-the-default", test_all_schedules_agree);
  g_test_add_func("/te/schedule/chosen-schedules-agree-with-the-default",
                  test_chosen_schedules_agree);
  g_test_add_func("/te/schedule/blocks-of-threads-agree-with-the-default",
                  test_blocks_of_threads_agree);
  g_test_add_func("/te/schedule/schedules-that-disagreed-once-agree",
                  test_schedules_that_disagreed_once_agree);
  g_test_add_func("/te/open/random-schedules-agree-with-the-default",
                  test_all_schedules_agree_on_open_extents);
  g_test_add_func("/te/open/chosen-schedules-agree-with-the-default",
                  test_chosen_schedules_agree_on_open_extents);
  g_test_add_func("/te/schedule/work-is-parallel-on-every-cpu", test_work_is_parallel_on_every_cpu);
  g_test_add_func("/te/region/a-tile-that-is-cut-off-needs-no-more",
                  test_a_tile_that_is_cut_off_needs_no_more);
  g_test_add_func("/te/barrier/what-is-shared-is-complete", test_what_is_shared_is_complete);
  return g_test_run();
}
