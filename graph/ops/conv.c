/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and transposed convolution over any number of spatial dimensions, with groups, in the
 * plain layout (batch, channels, spatial ...). blocked.c has the channel-blocked forms. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

static int check_bias(const BpGraphNode *node, int64_t channels) {
  const BpGraphValue *bias = bp__node_input(node, 2);
  if (bias && (bias->ndim != 1 || bias->shape[0] != channels))
    return bp__op_bad(node, "its bias is not a vector of %lld elements", (long long)channels);
  return 0;
}

static int set_spatial_output(BpGraph *graph, BpGraphNode *node, int64_t channels,
                              const int64_t *spatial) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM] = {in->shape[0], channels};
  memcpy(shape + 2, spatial, (size_t)(in->ndim - 2) * sizeof(*shape));
  return bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim);
}

BP_ROW_INFER(conv) {
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1];
  int64_t groups = bp__node_int(node, "group", 1);
  BpOpWindow window;
  if (weights->ndim != in->ndim || !bp__dtype_equal(in->dtype, weights->dtype))
    return bp__op_bad(node, "its input and weights differ in type or number of dimensions");
  if (groups < 1 || weights->shape[0] % groups != 0 || in->shape[1] % groups != 0 ||
      in->shape[1] / groups != weights->shape[1])
    return bp__op_bad(node, "%lld input channels in %lld groups do not fit weights of %lld x %lld",
                      (long long)in->shape[1], (long long)groups, (long long)weights->shape[0],
                      (long long)weights->shape[1]);
  if (check_bias(node, weights->shape[0]) ||
      bp__op_infer_window(graph, node, weights->shape + 2, &window))
    return -1;
  return set_spatial_output(graph, node, weights->shape[0], window.out);
}

typedef struct ConvBody {
  const BpOpCompute *op;
  const BpOpWindow *window;
  BpTeTensor *input; /* padded */
  BpTeTensor *sums;
} ConvBody;

static int is_padded(const BpOpWindow *window) {
  for (int32_t i = 0; i < window->rank; i++)
    if (window->pad_begin[i] || window->pad_end[i])
      return 1;
  return 0;
}

static const BpIrNode *padded_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const ConvBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM] = {axes[0], axes[1]}, *inside = NULL;
  for (int32_t i = 0; i < body->window->rank; i++) {
    const BpIrNode *within;
    indices[2 + i] = axes[2 + i];
    if (!body->window->pad_begin[i] && !body->window->pad_end[i])
      continue;
    indices[2 + i] = x_sub(ir, axes[2 + i], bp__op_extent(body->op, body->window->pad_begin[i]));
    within = x_and(ir, x_ge(ir, indices[2 + i], x_index(ir, 0)),
                   x_lt(ir, indices[2 + i], bp__op_extent(body->op, body->window->in[i])));
    inside = inside ? x_and(ir, inside, within) : within;
  }
  return bp_te_read_if(te, body->op->inputs[0], indices, inside);
}

static BpTeTensor *padded_input(const ConvBody *body) {
  const BpGraphValue *in = body->op->node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM] = {in->shape[0], in->shape[1]};
  if (!is_padded(body->window))
    return body->op->inputs[0];
  for (int32_t i = 0; i < body->window->rank; i++)
    shape[2 + i] = bp__op_padded(body->op->extents, body->window, i);
  return bp__op_tensor(body->op, "padded", shape, in->ndim, padded_body, (void *)(uintptr_t)body);
}

/* The sum over the channels of the group and the window. A depthwise convolution has one channel a
 * group, and no axis for channels. */
static const BpIrNode *conv_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const ConvBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphNode *node = body->op->node;
  const BpGraphValue *weights = node->inputs[1];
  int64_t groups = bp__node_int(node, "group", 1), channels = weights->shape[1];
  const BpIrNode *in[BP_GRAPH_MAX_NDIM] = {axes[0]}, *w[BP_GRAPH_MAX_NDIM] = {axes[1]};
  const BpIrNode *reduce[BP_GRAPH_MAX_NDIM], *group;
  int32_t count = 0;
  w[1] = channels > 1 ? bp_te_reduce_axis(te, "ic", channels) : x_index(ir, 0);
  if (channels > 1)
    reduce[count++] = w[1];
  group = groups == 1
              ? x_index(ir, 0)
              : bp_ir_binary(ir, BP_IR_FLOORDIV, axes[1], x_index(ir, weights->shape[0] / groups));
  in[1] = x_add(ir, x_mul(ir, group, x_index(ir, channels)), w[1]);
  for (int32_t i = 0; i < body->window->rank; i++) {
    w[2 + i] = bp_te_reduce_axis(te, "k", weights->shape[2 + i]);
    reduce[count++] = w[2 + i];
    in[2 + i] = x_add(ir, x_mul(ir, axes[2 + i], x_index(ir, body->window->strides[i])),
                      x_mul(ir, w[2 + i], x_index(ir, body->window->dilations[i])));
  }
  return bp_te_reduce(
      te, BP_TE_SUM,
      x_mul(ir, bp_te_read(te, body->input, in), bp_te_read(te, body->op->inputs[1], w)), reduce,
      count);
}

static const BpIrNode *bias_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const ConvBody *body = context;
  return x_add(bp_te_ir(te), bp_te_read(te, body->sums, axes),
               x_wide(bp_te_ir(te), bp_te_read(te, body->op->inputs[2], axes + 1)));
}

static BpTeTensor *with_bias(ConvBody *body) {
  const BpGraphValue *out = body->op->node->outputs[0];
  if (!body->sums || !bp__node_input(body->op->node, 2))
    return body->sums;
  return bp__op_tensor(body->op, "bias", out->shape, out->ndim, bias_body, body);
}

BP_ROW_COMPUTE(conv) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpWindow window;
  ConvBody body = {op, &window, NULL, NULL};
  if (bp__op_window(op->extents, op->node, op->node->inputs[1]->shape + 2, &window))
    return -1;
  body.input = padded_input(&body);
  if (!body.input)
    return -1;
  body.sums = bp__op_tensor(op, "conv", out->shape, out->ndim, conv_body, &body);
  return bp__op_give(outputs, with_bias(&body));
}

/* ---- Transposed -------------------------------------------------------------------------- */

#define REMOVES_TOO_MUCH "its padding removes more than its output has"

/* Reads the extents of the output: output_shape, which may begin with the batch and the channels;
 * with auto_pad, as many elements as strides. Returns 1 if the pads determine the extents. */
static int wanted_output(BpExtents *extents, const BpGraphNode *node, const BpOpWindow *window,
                         int64_t *out) {
  const char *automatic = bp__node_str(node, "auto_pad", "NOTSET");
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, -1, "output_shape", shape, BP_GRAPH_MAX_NDIM);
  if (count == -1)
    return -1;
  if (count >= 0 && count != window->rank && count != window->rank + 2)
    return bp__op_bad(node, "its output_shape has %d extents, not %d", count, window->rank);
  if (count >= 0)
    memcpy(out, shape + count - window->rank, (size_t)window->rank * sizeof(*out));
  else if (!strcmp(automatic, "NOTSET") || !strcmp(automatic, "VALID"))
    return 1;
  else
    for (int32_t i = 0; i < window->rank; i++)
      out[i] = bp__extent_multiply(extents, window->in[i], window->strides[i]);
  return 0;
}

int bp__op_transpose_window(BpExtents *e, const BpGraphNode *node, BpOpWindow *window) {
  int is_upper = !strcmp(bp__node_str(node, "auto_pad", "NOTSET"), "SAME_UPPER");
  int64_t extra[BP_GRAPH_MAX_NDIM] = {0}, wanted[BP_GRAPH_MAX_NDIM];
  int32_t given = bp__op_ints(node, -1, "output_padding", extra, BP_GRAPH_MAX_NDIM);
  if (given == -1 || bp__op_read_window(e, node, node->inputs[1]->shape + 2, window))
    return -1;
  int is_free = wanted_output(e, node, window, wanted);
  if (is_free < 0)
    return -1;
  for (int32_t i = 0; i < window->rank; i++) {
    int64_t all = bp__extent_multiply(e, bp__extent_add(e, window->in[i], -1), window->strides[i]);
    all = bp__extent_add(e, all, extra[i] + (window->kernel[i] - 1) * window->dilations[i] + 1);
    if (is_free) {
      int64_t removed = bp__extent_add(e, window->pad_begin[i], window->pad_end[i]);
      window->out[i] = bp__extent_subtract(e, all, removed);
    } else {
      int64_t removed = bp__extent_max(e, bp__extent_subtract(e, all, wanted[i]), 0);
      int64_t half = bp__extent_define(e, bp__extent_divide(e, removed, 2));
      window->out[i] = wanted[i];
      window->pad_begin[i] =
          bp__extent_define(e, is_upper ? half : bp__extent_subtract(e, removed, half));
    }
    if (window->out[i] == BP_EXTENT_NONE || window->pad_begin[i] == BP_EXTENT_NONE)
      return -1;
    if (extra[i] < 0 || (window->out[i] < 0 && !bp__extent_is_open(window->out[i])))
      return bp__op_bad(node, "%s", REMOVES_TOO_MUCH);
  }
  return 0;
}

static int require_outputs(BpGraph *graph, const BpGraphNode *node, const BpOpWindow *window) {
  for (int32_t i = 0; i < window->rank; i++)
    if (bp__op_require(graph, node, window->out[i], REMOVES_TOO_MUCH))
      return -1;
  return 0;
}

BP_ROW_INFER(conv_transpose) {
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1];
  int64_t groups = bp__node_int(node, "group", 1);
  BpOpWindow window;
  if (weights->ndim != in->ndim || !bp__dtype_equal(in->dtype, weights->dtype))
    return bp__op_bad(node, "its input and weights differ in type or number of dimensions");
  if (groups < 1 || in->shape[1] % groups != 0 || in->shape[1] != weights->shape[0])
    return bp__op_bad(node, "%lld input channels in %lld groups do not fit its weights",
                      (long long)in->shape[1], (long long)groups);
  if (bp__op_transpose_window(&graph->extents, node, &window) ||
      check_bias(node, weights->shape[1] * groups) || require_outputs(graph, node, &window))
    return -1;
  return set_spatial_output(graph, node, weights->shape[1] * groups, window.out);
}

/* The index of the input that tap `k` adds to output `y`: (y + pad - k * dilation) / stride, if
 * that is an integer inside the input. If the kernel is as large as the stride, callers pass only
 * the tap for which the division is exact: k is the remainder. */
static const BpIrNode *tap_source(const ConvBody *body, int32_t i, const BpIrNode *y,
                                  const BpIrNode *k, const BpIrNode **inside) {
  const BpOpWindow *window = body->window;
  BpIrModule *ir = bp_te_ir(body->op->te);
  const BpIrNode *stride = x_index(ir, window->strides[i]), *zero = x_index(ir, 0), *at, *within;
  at = x_sub(ir, x_add(ir, y, bp__op_extent(body->op, window->pad_begin[i])),
             x_mul(ir, k, x_index(ir, window->dilations[i])));
  within = x_and(ir, x_ge(ir, at, zero),
                 x_lt(ir, at, x_mul(ir, bp__op_extent(body->op, window->in[i]), stride)));
  if (window->strides[i] > 1)
    within = x_and(ir, within,
                   bp_ir_binary(ir, BP_IR_EQ, bp_ir_binary(ir, BP_IR_FLOORMOD, at, stride), zero));
  *inside = *inside ? x_and(ir, *inside, within) : within;
  return bp_ir_binary(ir, BP_IR_FLOORDIV, at, stride);
}

/* Whether every output has exactly one tap along dimension `i`. */
static int is_tiling(const ConvBody *body, int32_t i) {
  const BpOpWindow *window = body->window;
  return window->kernel[i] == window->strides[i] && window->dilations[i] == 1 &&
         window->pad_begin[i] == 0 &&
         window->out[i] ==
             bp__extent_multiply(body->op->extents, window->in[i], window->strides[i]);
}

static const BpIrNode *transpose_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const ConvBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *weights = body->op->node->inputs[1];
  int64_t groups = bp__node_int(body->op->node, "group", 1), per_group = weights->shape[0] / groups;
  const BpIrNode *in[BP_GRAPH_MAX_NDIM] = {axes[0]}, *w[BP_GRAPH_MAX_NDIM], *inside = NULL, *value;
  const BpIrNode *reduce[BP_GRAPH_MAX_NDIM], *channels = x_index(ir, weights->shape[1]), *weight;
  int32_t count = 0;
  reduce[count++] = bp_te_reduce_axis(te, "ic", per_group);
  in[1] =
      x_add(ir, reduce[0],
            x_mul(ir, bp_ir_binary(ir, BP_IR_FLOORDIV, axes[1], channels), x_index(ir, per_group)));
  w[0] = in[1];
  w[1] = bp_ir_binary(ir, BP_IR_FLOORMOD, axes[1], channels);
  for (int32_t i = 0; i < body->window->rank; i++) {
    const BpIrNode *stride = x_index(ir, body->window->strides[i]);
    if (is_tiling(body, i)) {
      w[2 + i] = bp_ir_binary(ir, BP_IR_FLOORMOD, axes[2 + i], stride);
      in[2 + i] = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[2 + i], stride);
      continue;
    }
    w[2 + i] = reduce[count++] = bp_te_reduce_axis(te, "k", body->window->kernel[i]);
    in[2 + i] = tap_source(body, i, axes[2 + i], w[2 + i], &inside);
  }
  value = inside ? bp_te_read_if(te, body->op->inputs[0], in, inside)
                 : bp_te_read(te, body->op->inputs[0], in);
  /* The weight of a tap outside the input may be infinite, and 0 times it would be NaN, so it is
   * not read. */
  weight = inside ? bp_te_read_if(te, body->op->inputs[1], w, inside)
                  : bp_te_read(te, body->op->inputs[1], w);
  return bp_te_reduce(te, BP_TE_SUM, x_mul(ir, value, weight), reduce, count);
}

BP_ROW_COMPUTE(conv_transpose) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpWindow window;
  ConvBody body = {op, &window, NULL, NULL};
  if (bp__op_transpose_window(op->extents, op->node, &window))
    return -1;
  body.sums = bp__op_tensor(op, "conv_transpose", out->shape, out->ndim, transpose_body, &body);
  return bp__op_give(outputs, with_bias(&body));
}
