/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample, which interpolates each element of the output at a position of the input that a grid
 * gives. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

typedef enum Padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } Padding;

typedef struct Sampling {
  const BpOpCompute *op;
  BpIrModule *ir;
  BpDataType dtype; /* type in which it is computed */
  int32_t rank;     /* number of spatial dimensions */
  int32_t taps;     /* number of taps along each dimension: 1, 2 or 4 */
  int is_aligned; /* whether -1 and 1 are the centres of the outer elements, instead of their edges
                   */
  Padding padding;
} Sampling;

#define GRID_DIFFERS "its grid does not have a place in %d dimensions for each element"

static int read_sampling(const BpGraphNode *node, Sampling *sampling) {
  static const struct {
    const char *name;
    int32_t taps;
  } modes[] = {{"nearest", 1}, {"bilinear", 2}, {"linear", 2}, {"bicubic", 4}, {"cubic", 4}};
  static const char *const paddings[] = {"zeros", "border", "reflection"};
  const char *mode = bp__node_str(node, "mode", "linear");
  const char *padding = bp__node_str(node, "padding_mode", "zeros");
  memset(sampling, 0, sizeof(*sampling));
  sampling->rank = node->inputs[0]->ndim - 2;
  sampling->dtype = bp_te_accumulator(node->inputs[0]->dtype);
  sampling->is_aligned = bp__node_int(node, "align_corners", 0) != 0;
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
    if (!strcmp(mode, modes[i].name))
      sampling->taps = modes[i].taps;
  while (sampling->padding <= PAD_REFLECTION && strcmp(padding, paddings[sampling->padding]))
    sampling->padding++;
  if (!sampling->taps || sampling->padding > PAD_REFLECTION)
    return bp__op_bad(node, "mode '%s' or padding_mode '%s' is unknown", mode, padding);
  return 0;
}

/* Checks that the grid has the batches of the input. */
BP_ROW_EXPAND(grid_sample) {
  const BpGraphValue *in = node->inputs[0], *grid = node->inputs[1];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  Sampling sampling;
  if (read_sampling(node, &sampling))
    return -1;
  if (sampling.rank < 1 || grid->ndim != in->ndim || grid->shape[grid->ndim - 1] != sampling.rank)
    return bp__op_bad(node, GRID_DIFFERS, sampling.rank);
  memcpy(shape, grid->shape, sizeof(shape));
  shape[0] = in->shape[0];
  node->inputs[1] = bp__op_as_shape(graph, node, node->inputs[1], shape,
                                    "its grid and its input differ in the number of items");
  return node->inputs[1] ? 1 : -1;
}

BP_ROW_INFER(grid_sample) {
  const BpGraphValue *in = node->inputs[0], *grid = node->inputs[1];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  Sampling sampling;
  if (read_sampling(node, &sampling))
    return -1;
  if (!bp__dtype_is_float(in->dtype) || !bp__dtype_is_float(grid->dtype))
    return bp__op_error(node, "its inputs are not of float types");
  for (int32_t i = 0; i < in->ndim; i++) {
    shape[i] = i < 2 ? in->shape[i] : grid->shape[i - 1];
    if (i >= 2 && in->shape[i] == 0)
      return bp__op_bad(node, "its input is empty");
  }
  return bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim);
}

static const BpIrNode *number(const Sampling *s, double value) {
  return x_number(s->ir, s->dtype, value);
}

/* `times` the extent of a spatial dimension plus `plus`, as a number and as an index. */
static const BpIrNode *extent_index(const Sampling *s, int32_t dimension, int64_t times,
                                    int64_t plus) {
  const BpIrNode *extent = bp__op_extent(s->op, s->op->node->inputs[0]->shape[2 + dimension]);
  return x_add(s->ir, x_mul(s->ir, extent, x_index(s->ir, times)), x_index(s->ir, plus));
}

static const BpIrNode *extent_number(const Sampling *s, int32_t dimension, int64_t times,
                                     int64_t plus) {
  int64_t extent = s->op->node->inputs[0]->shape[2 + dimension];
  if (!bp__extent_is_open(extent))
    return number(s, (double)(times * extent + plus));
  const BpIrNode *index = extent_index(s, dimension, times, plus);
  return index ? bp_ir_cast(s->ir, s->dtype, index) : NULL;
}

/* Converts a coordinate between -1 and 1 to elements. */
static const BpIrNode *in_elements(const Sampling *s, const BpIrNode *at, int32_t dimension) {
  BpIrModule *ir = s->ir;
  at = x_add(ir, at, number(s, 1));
  if (s->is_aligned)
    return x_mul(ir, x_mul(ir, at, number(s, 0.5)), extent_number(s, dimension, 1, -1));
  return x_mul(ir, x_sub(ir, x_mul(ir, at, extent_number(s, dimension, 1, 0)), number(s, 1)),
               number(s, 0.5));
}

/* Reflects or clamps a coordinate outside the borders to a coordinate inside. */
static const BpIrNode *brought_back(const Sampling *s, const BpIrNode *at, int32_t dimension) {
  BpIrModule *ir = s->ir;
  const BpIrNode *edge = number(s, s->is_aligned ? 0 : -0.5), *zero = number(s, 0);
  const BpIrNode *last = extent_number(s, dimension, 1, -1), *outside, *inner;
  const BpIrNode *range = s->is_aligned ? last : extent_number(s, dimension, 1, 0);
  outside = bp_ir_binary(ir, BP_IR_OR, x_lt(ir, at, edge), x_lt(ir, x_add(ir, edge, range), at));
  if (s->padding == PAD_ZEROS)
    return at;
  if (s->padding == PAD_BORDER) {
    inner = x_min(ir, x_max(ir, at, zero), last);
  } else {
    const BpIrNode *whole = x_mul(ir, number(s, 2), range);
    inner = x_call1(ir, "abs", x_sub(ir, at, edge));
    inner = x_sub(ir, inner, x_mul(ir, x_call1(ir, "floor", x_div(ir, inner, whole)), whole));
    inner = x_add(ir, edge, x_min(ir, inner, x_sub(ir, whole, inner)));
    inner = bp_ir_select(ir, bp_ir_binary(ir, BP_IR_EQ, range, zero), zero, inner);
  }
  return bp_ir_select(ir, outside, inner, at);
}

/* The element that replaces an element outside the input. If the period is 0, element 0 replaces
 * it. */
static const BpIrNode *element_at(const Sampling *s, const BpIrNode *index, int32_t dimension) {
  BpIrModule *ir = s->ir;
  if (s->padding == PAD_REFLECTION) {
    const BpIrNode *period = extent_index(s, dimension, 2, s->is_aligned ? -2 : 0);
    index = bp_ir_binary(ir, BP_IR_FLOORMOD, index, period);
    index = x_min(ir, index, x_sub(ir, x_sub(ir, period, x_index(ir, !s->is_aligned)), index));
  }
  return s->padding == PAD_ZEROS
             ? index
             : x_min(ir, x_max(ir, index, x_index(ir, 0)), extent_index(s, dimension, 1, -1));
}

/* The weight of an element at a distance: linear, or the cubic convolution with a = -0.75. */
static const BpIrNode *weight_at(const Sampling *s, const BpIrNode *distance) {
  BpIrModule *ir = s->ir;
  const BpIrNode *d = x_call1(ir, "abs", distance), *one = number(s, 1), *near, *far;
  if (s->taps == 2)
    return x_sub(ir, one, d);
  near = x_sub(ir, x_mul(ir, number(s, 1.25), d), number(s, 2.25));
  near = x_add(ir, x_mul(ir, x_mul(ir, near, d), d), one);
  far = x_add(ir, x_mul(ir, number(s, -0.75), d), number(s, 3.75));
  far = x_sub(ir, x_mul(ir, far, d), number(s, 6));
  far = x_add(ir, x_mul(ir, far, d), number(s, 3));
  return bp_ir_select(ir, bp_ir_binary(ir, BP_IR_LE, d, one), near, far);
}

/* The coordinate of dimension `i`. The grid stores the last dimension first. */
static const BpIrNode *coordinate(BpTe *te, const Sampling *s, const BpIrNode *const *axes,
                                  int32_t i) {
  const BpIrNode *place[BP_GRAPH_MAX_NDIM] = {axes[0]};
  memcpy(place + 1, axes + 2, (size_t)s->rank * sizeof(*place));
  place[1 + s->rank] = x_index(s->ir, s->rank - 1 - i);
  const BpIrNode *at = x_wide(s->ir, bp_te_read(te, s->op->inputs[1], place));
  at = at ? in_elements(s, bp_ir_cast(s->ir, s->dtype, at), i) : NULL;
  if (s->taps == 1)
    at = bp__scalar_round(s->ir, s->op->node, &at);
  return brought_back(s, at, i);
}

static const BpIrNode *grid_sample_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Sampling *s = context;
  BpIrModule *ir = s->ir;
  const BpGraphValue *in = s->op->node->inputs[0];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM] = {axes[0], axes[1]}, *taps[BP_GRAPH_MAX_NDIM];
  const BpIrNode *inside = NULL, *weight = NULL, *value;
  for (int32_t i = 0; i < s->rank; i++) {
    const BpIrNode *at = coordinate(te, s, axes, i), *low = x_call1(ir, "floor", at), *index;
    index = low ? bp_ir_cast(ir, BP__INT64, low) : NULL;
    if (s->taps > 1) {
      taps[i] = bp_te_reduce_axis(te, "tap", s->taps);
      const BpIrNode *step = x_sub(ir, taps[i], x_index(ir, s->taps / 2 - 1)), *along;
      index = x_add(ir, index, step);
      along = weight_at(s, x_sub(ir, x_sub(ir, at, low), bp_ir_cast(ir, s->dtype, step)));
      weight = weight ? x_mul(ir, weight, along) : along;
    }
    indices[2 + i] = element_at(s, index, i);
    const BpIrNode *extent = extent_index(s, i, 1, 0), *within = NULL;
    if (s->padding == PAD_ZEROS)
      within = x_and(ir, x_ge(ir, index, x_index(ir, 0)), x_lt(ir, index, extent));
    else if (bp__extent_is_open(in->shape[2 + i])) /* an open extent may be 0 in a run */
      within = x_lt(ir, x_index(ir, 0), extent);
    if (within)
      inside = inside ? x_and(ir, inside, within) : within;
  }
  value = inside ? bp_te_read_if(te, s->op->inputs[0], indices, inside)
                 : bp_te_read(te, s->op->inputs[0], indices);
  value = x_wide(ir, value);
  return s->taps > 1 ? bp_te_reduce(te, BP_TE_SUM, x_mul(ir, value, weight), taps, s->rank) : value;
}

BP_ROW_COMPUTE(grid_sample) {
  const BpGraphValue *out = op->node->outputs[0];
  Sampling sampling;
  if (read_sampling(op->node, &sampling))
    return -1;
  sampling.op = op;
  sampling.ir = bp_te_ir(op->te);
  return bp__op_give(
      outputs, bp__op_tensor(op, "GridSample", out->shape, out->ndim, grid_sample_body, &sampling));
}
