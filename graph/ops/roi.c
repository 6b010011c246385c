/* SPDX-License-Identifier: Apache-2.0 */
/* RoiAlign and MaxRoiPool, which turn parts of pictures, regions given as data, into pictures of
 * one size. The number of positions that an element depends on varies with its region, so
 * statements go through them. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

typedef struct Roi {
  const BpOpCompute *op;
  BpIrModule *ir;
  BpIrBlock *block;
  BpDataType dtype;            /* type in which it is computed */
  const BpIrNode *const *rows; /* indices of region, channel, row and column */
  const BpIrNode *batch;
} Roi;

/* A region along one dimension of the picture: the picture's extent, the region's start, and the
 * size of the bin of an output element. */
typedef struct Side {
  const BpIrNode *extent, *start, *bin;
} Side;

static const BpIrNode *number(const Roi *roi, double value) {
  return x_number(roi->ir, roi->dtype, value);
}

static const BpIrNode *as_number(const Roi *roi, const BpIrNode *value) {
  return value ? bp_ir_cast(roi->ir, roi->dtype, value) : NULL;
}

static const BpIrNode *as_index(const Roi *roi, const BpIrNode *value) {
  return value ? bp_ir_cast(roi->ir, BP__INT64, value) : NULL;
}

static const BpIrNode *let(const Roi *roi, const char *name, const BpIrNode *value) {
  return bp_ir_block_let(roi->block, name, value);
}

/* Number `index` of the region's numbers. */
static const BpIrNode *region(const Roi *roi, int64_t index) {
  const BpIrNode *at[] = {roi->rows[0], x_index(roi->ir, index)};
  return x_wide(roi->ir, bp_te_read(roi->op->te, roi->op->inputs[1], at));
}

static const BpIrNode *picture(const Roi *roi, const BpIrNode *row, const BpIrNode *column) {
  const BpIrNode *at[] = {roi->batch, roi->rows[1], row, column};
  return x_wide(roi->ir, bp_te_read(roi->op->te, roi->op->inputs[0], at));
}

static const BpIrNode *extent_of(const Roi *roi, int32_t dimension) {
  return bp__op_extent(roi->op, roi->op->node->inputs[0]->shape[dimension]);
}

static double scale_of(const BpGraphNode *node) {
  return (double)bp__node_float(node, "spatial_scale", 1);
}

/* Stores the value of an element of the output. */
static void give(const Roi *roi, BpTeTensor *out, const BpIrNode *value) {
  value = value ? bp_ir_cast(roi->ir, bp_te_tensor_dtype(out), value) : NULL;
  bp_ir_block_add(roi->block, bp_te_write(roi->op->te, out, roi->rows, value));
}

static int check_pictures(const BpGraphNode *node, int64_t columns) {
  const BpGraphValue *in = node->inputs[0], *regions = node->inputs[1];
  char text[BP_VALUE_TEXT];
  if (in->ndim != 4 || !bp__dtype_is_float(in->dtype))
    return bp__op_bad(node, "its input is %s, not pictures of floats with channels",
                      bp__value_format(in, text));
  if (regions->ndim != 2 || regions->shape[1] != columns ||
      !bp__dtype_equal(regions->dtype, in->dtype))
    return bp__op_bad(node, "its rois are %s, not rows of %lld numbers of the type of its input",
                      bp__value_format(regions, text), (long long)columns);
  if (in->shape[0] == 0 || in->shape[2] == 0 || in->shape[3] == 0)
    return bp__op_bad(node, "its input is empty");
  return 0;
}

static int set_output(BpGraph *graph, BpGraphNode *node, int64_t height, int64_t width) {
  const BpGraphValue *in = node->inputs[0], *regions = node->inputs[1];
  int64_t shape[] = {regions->shape[0], in->shape[1], height, width};
  if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
    return bp__op_bad(node, "its output has pictures of %lldx%lld", (long long)height,
                      (long long)width);
  return bp__node_set_output(graph, node, 0, in->dtype, shape, 4);
}

static int compute(const BpOpCompute *op, BpTeStatements body, BpTeTensor **outputs) {
  const BpGraphValue *out = op->node->outputs[0];
  BpTeResult result = {out->dtype, out->shape, 4};
  Roi roi = {.op = op, .ir = bp_te_ir(op->te), .dtype = bp_te_accumulator(out->dtype)};
  return bp__op_statements(op, out->shape, 4, &result, 1, body, &roi, outputs);
}

/* ---- RoiAlign ---------------------------------------------------------------------------- */

static bool is_half_pixel(const BpGraphNode *node) {
  const char *otherwise = node->version < 16 ? "output_half_pixel" : "half_pixel";
  return !strcmp(bp__node_str(node, "coordinate_transformation_mode", otherwise), "half_pixel");
}

static bool is_maximum(const BpGraphNode *node) {
  return !strcmp(bp__node_str(node, "mode", "avg"), "max");
}

/* Checks that there are as many batch indices as regions; a run checks open extents. */
BP_ROW_EXPAND(roi_align) {
  BpGraphValue *places = node->inputs[2];
  if (check_pictures(node, 4))
    return -1;
  if (places->ndim != 1 || places->dtype.code != BP_DTYPE_INT)
    return bp__op_bad(node, "its batch_indices are no vector of integers");
  node->inputs[2] = bp__op_as_shape(graph, node, places, node->inputs[1]->shape,
                                    "it lacks a batch index for each of its rois");
  return node->inputs[2] ? 1 : -1;
}

BP_ROW_INFER(roi_align) {
  const char *rule = bp__node_str(node, "coordinate_transformation_mode", "half_pixel");
  const char *mode = bp__node_str(node, "mode", "avg");
  int64_t ratio = bp__node_int(node, "sampling_ratio", 0);
  if (strcmp(rule, "half_pixel") && strcmp(rule, "output_half_pixel"))
    return bp__op_bad(node,
                      "coordinate_transformation_mode '%s' is neither half_pixel nor "
                      "output_half_pixel",
                      rule);
  if (strcmp(mode, "avg") && strcmp(mode, "max"))
    return bp__op_bad(node, "mode '%s' is neither avg nor max", mode);
  if (ratio < 0 || ratio > INT16_MAX)
    return bp__op_bad(node, "its sampling_ratio is %lld", (long long)ratio);
  return set_output(graph, node, bp__node_int(node, "output_height", 1),
                    bp__node_int(node, "output_width", 1));
}

/* The number of positions that an element samples along a dimension, and the range of them that may
 * be inside the picture. If the region determines the number, positions are at most an element of
 * the picture apart. */
typedef struct Grid {
  const BpIrNode *count, *first, *end;
} Grid;

static Grid grid_of(const Roi *roi, const Side *side, const BpIrNode *from) {
  BpIrModule *ir = roi->ir;
  const BpIrNode *zero = x_index(ir, 0), *margin = x_index(ir, 2);
  int64_t ratio = bp__node_int(roi->op->node, "sampling_ratio", 0);
  if (ratio > 0)
    return (Grid){x_index(ir, ratio), zero, x_index(ir, ratio)};
  const BpIrNode *count = let(roi, "count", as_index(roi, x_call1(ir, "ceil", side->bin)));
  const BpIrNode *step = x_div(ir, side->bin, as_number(roi, x_max(ir, count, x_index(ir, 1))));
  const BpIrNode *low = x_div(ir, x_sub(ir, number(roi, -1), from), step);
  const BpIrNode *high = x_div(ir, x_sub(ir, as_number(roi, side->extent), from), step);
  const BpIrNode *least = x_max(ir, count, zero);
  low = as_index(roi, x_max(ir, low, number(roi, 0)));
  high = as_index(roi, x_max(ir, high, number(roi, 0)));
  return (Grid){count, let(roi, "first", x_min(ir, x_max(ir, x_sub(ir, low, margin), zero), least)),
                let(roi, "end", x_min(ir, x_add(ir, x_min(ir, high, least), margin), least))};
}

/* A position along a dimension: whether it is inside the picture, the elements beside it, and their
 * weights. */
typedef struct Tap {
  const BpIrNode *inside, *index[2], *weight[2];
} Tap;

static Tap tap_of(const Roi *roi, const Side *side, const Grid *grid, const BpIrNode *from,
                  const BpIrNode *place) {
  BpIrModule *ir = roi->ir;
  const BpIrNode *last = x_sub(ir, side->extent, x_index(ir, 1));
  const BpIrNode *at = x_add(ir, as_number(roi, place), number(roi, .5));
  Tap tap;
  at = x_div(ir, x_mul(ir, at, side->bin), as_number(roi, grid->count));
  at = let(roi, "at", x_add(ir, from, at));
  tap.inside = x_and(ir, x_ge(ir, at, number(roi, -1)),
                     bp_ir_binary(ir, BP_IR_LE, at, as_number(roi, side->extent)));
  tap.inside = x_and(ir, tap.inside, x_lt(ir, x_index(ir, 0), side->extent));
  at = x_max(ir, at, number(roi, 0));
  const BpIrNode *low = x_min(ir, as_index(roi, at), last);
  tap.index[0] = let(roi, "low", low);
  tap.index[1] = x_min(ir, x_add(ir, tap.index[0], x_index(ir, 1)), last);
  at = x_min(ir, at, as_number(roi, last));
  tap.weight[1] = let(roi, "weight", x_sub(ir, at, as_number(roi, tap.index[0])));
  tap.weight[0] = x_sub(ir, number(roi, 1), tap.weight[1]);
  return tap;
}

/* Samples the picture at a position: the sum, or the largest, of the weighted elements around
 * it. */
static const BpIrNode *sample(const Roi *roi, const Tap *row, const Tap *column, int32_t op) {
  BpIrModule *ir = roi->ir;
  const BpIrNode *result = NULL;
  for (int32_t i = 0; i < 2; i++)
    for (int32_t k = 0; k < 2; k++) {
      const BpIrNode *term = x_mul(ir, x_mul(ir, row->weight[i], column->weight[k]),
                                   picture(roi, row->index[i], column->index[k]));
      result = result ? bp_ir_binary(ir, op, result, term) : term;
    }
  return result;
}

static Side align_side(const Roi *roi, int32_t dimension, int64_t count) {
  BpIrModule *ir = roi->ir;
  const BpGraphNode *node = roi->op->node;
  int64_t first = dimension == 2 ? 1 : 0;
  const BpIrNode *scale = number(roi, scale_of(node));
  const BpIrNode *offset = number(roi, is_half_pixel(node) ? .5 : 0);
  const BpIrNode *start = x_sub(ir, x_mul(ir, region(roi, first), scale), offset);
  const BpIrNode *end = x_sub(ir, x_mul(ir, region(roi, first + 2), scale), offset);
  const BpIrNode *size = x_sub(ir, end, start);
  if (!is_half_pixel(node))
    size = x_max(ir, size, number(roi, 1));
  return (Side){extent_of(roi, dimension), let(roi, "start", start),
                let(roi, "bin", x_div(ir, size, number(roi, (double)count)))};
}

static int align_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                      BpTeTensor *const *tensors, void *context) {
  Roi *roi = context;
  BpIrModule *ir = roi->ir;
  const BpGraphNode *node = roi->op->node;
  const BpIrNode *zero = number(roi, 0), *from[2];
  int32_t op = is_maximum(node) ? BP_IR_MAX : BP_IR_ADD;
  Side sides[2];
  Grid grids[2];
  roi->block = block;
  roi->rows = rows;
  roi->batch =
      let(roi, "batch", x_inside(ir, bp_te_read(te, roi->op->inputs[2], rows), extent_of(roi, 0)));
  for (int32_t i = 0; i < 2; i++) {
    sides[i] = align_side(roi, 2 + i, node->outputs[0]->shape[2 + i]);
    from[i] = let(roi, "from",
                  x_add(ir, sides[i].start, x_mul(ir, as_number(roi, rows[2 + i]), sides[i].bin)));
    grids[i] = grid_of(roi, &sides[i], from[i]);
  }
  const BpIrNode *sum = bp_ir_block_variable(block, "sum", zero);
  const BpIrNode *is_first = bp_ir_block_variable(block, "is_first", x_index(ir, 1));
  Tap taps[2];
  for (int32_t i = 0; i < 2; i++) {
    const BpIrNode *place =
        bp_ir_block_for(block, "place", grids[i].first, x_sub(ir, grids[i].end, grids[i].first));
    taps[i] = tap_of(roi, &sides[i], &grids[i], from[i], place);
  }
  const BpIrNode *value = bp_ir_block_variable(block, "value", zero);
  bp_ir_block_if(block, x_and(ir, x_and(ir, taps[0].inside, taps[1].inside),
                              x_lt(ir, x_index(ir, 0), extent_of(roi, 0))));
  bp_ir_block_assign(block, value, sample(roi, &taps[0], &taps[1], op));
  bp_ir_block_close(block);
  const BpIrNode *here = bp_ir_block_value(block, value);
  const BpIrNode *other = bp_ir_binary(ir, op, bp_ir_block_value(block, sum), here);
  const BpIrNode *is_new =
      bp_ir_binary(ir, BP_IR_EQ, bp_ir_block_value(block, is_first), x_index(ir, 1));
  bp_ir_block_assign(block, sum, bp_ir_select(ir, is_new, here, other));
  bp_ir_block_assign(block, is_first, x_index(ir, 0));
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  const BpIrNode *all = x_mul(ir, grids[0].count, grids[1].count), *result;
  result = bp_ir_block_value(block, sum);
  if (op == BP_IR_ADD) {
    result = x_div(ir, result, as_number(roi, x_max(ir, all, x_index(ir, 1))));
  } else { /* positions outside the picture count as zero */
    const BpIrNode *taken =
        x_mul(ir, x_sub(ir, grids[0].end, grids[0].first), x_sub(ir, grids[1].end, grids[1].first));
    result = bp_ir_select(ir, x_lt(ir, taken, all), x_max(ir, result, zero), result);
  }
  give(roi, tensors[0], result);
  return 0;
}

BP_ROW_COMPUTE(roi_align) {
  return compute(op, align_body, outputs);
}

/* ---- MaxRoiPool -------------------------------------------------------------------------- */

BP_ROW_INFER(max_roi_pool) {
  int64_t shape[2];
  int32_t count = bp__op_ints(node, -1, "pooled_shape", shape, 2);
  if (count == -1 || check_pictures(node, 5))
    return -1;
  if (count != 2)
    return bp__op_bad(node, "its pooled_shape is not two numbers");
  return set_output(graph, node, shape[0], shape[1]);
}

/* The nearest integer; halves are rounded away from zero. */
static const BpIrNode *nearest(const Roi *roi, const BpIrNode *value) {
  BpIrModule *ir = roi->ir;
  const BpIrNode *size = x_call1(ir, "abs", value), *whole = x_call1(ir, "floor", size);
  const BpIrNode *is_up = x_ge(ir, x_sub(ir, size, whole), number(roi, .5));
  whole = bp_ir_select(ir, is_up, x_add(ir, whole, number(roi, 1)), whole);
  return as_index(roi, bp_ir_select(ir, x_lt(ir, value, number(roi, 0)),
                                    x_sub(ir, number(roi, 0), whole), whole));
}

/* The row or column of the picture at which an element, or the next element, begins. */
static const BpIrNode *edge(const Roi *roi, const Side *side, const BpIrNode *place,
                            const char *rounding) {
  BpIrModule *ir = roi->ir;
  const BpIrNode *at = x_call1(ir, rounding, x_mul(ir, as_number(roi, place), side->bin));
  at = x_add(ir, as_index(roi, at), side->start);
  return x_min(ir, x_max(ir, at, x_index(ir, 0)), side->extent);
}

static Side pool_side(const Roi *roi, int32_t dimension, int64_t count) {
  BpIrModule *ir = roi->ir;
  int64_t first = dimension == 2 ? 2 : 1;
  const BpIrNode *scale = number(roi, scale_of(roi->op->node)), *one = x_index(ir, 1);
  const BpIrNode *start = let(roi, "start", nearest(roi, x_mul(ir, region(roi, first), scale)));
  const BpIrNode *end = nearest(roi, x_mul(ir, region(roi, first + 2), scale));
  const BpIrNode *size = x_max(ir, x_add(ir, x_sub(ir, end, start), one), one);
  return (Side){extent_of(roi, dimension), start,
                let(roi, "bin", x_div(ir, as_number(roi, size), number(roi, (double)count)))};
}

static int pool_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                     BpTeTensor *const *tensors, void *context) {
  Roi *roi = context;
  BpIrModule *ir = roi->ir;
  const BpIrNode *first[2], *count[2], *at[2];
  (void)te;
  roi->block = block;
  roi->rows = rows;
  roi->batch = let(roi, "batch", x_inside(ir, region(roi, 0), extent_of(roi, 0)));
  for (int32_t i = 0; i < 2; i++) {
    Side side = pool_side(roi, 2 + i, roi->op->node->outputs[0]->shape[2 + i]);
    const BpIrNode *next = x_add(ir, rows[2 + i], x_index(ir, 1));
    first[i] = let(roi, "first", edge(roi, &side, rows[2 + i], "floor"));
    count[i] = let(roi, "count", x_sub(ir, edge(roi, &side, next, "ceil"), first[i]));
  }
  const BpIrNode *best = bp_ir_block_variable(block, "best", number(roi, 0));
  bp_ir_block_if(block, x_and(ir, x_lt(ir, x_index(ir, 0), x_min(ir, count[0], count[1])),
                              x_lt(ir, x_index(ir, 0), extent_of(roi, 0))));
  bp_ir_block_assign(block, best, picture(roi, first[0], first[1]));
  for (int32_t i = 0; i < 2; i++)
    at[i] = bp_ir_block_for(block, "at", first[i], count[i]);
  bp_ir_block_assign(block, best,
                     x_max(ir, bp_ir_block_value(block, best), picture(roi, at[0], at[1])));
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  bp_ir_block_close(block);
  give(roi, tensors[0], bp_ir_block_value(block, best));
  return 0;
}

BP_ROW_COMPUTE(max_roi_pool) {
  return compute(op, pool_body, outputs);
}
