/* SPDX-License-Identifier: Apache-2.0 */
/* The channel-blocked layout: a tensor (batch, channels, height, width) as (batch, blocks, height,
 * width, block), so that a vector holds neighbouring channels. The last block may have spare
 * channels, whose elements are undefined and may be NaN or infinity. Operators keep channels apart,
 * or reduce over channels with bp__reduce_channels, which leaves out spare channels: so no channel
 * is ever computed from a spare one. Only graph/build/layout.c makes operators on blocked
 * tensors. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

int32_t bp__reduce_channels(BpTe *te, int64_t channels, int64_t block, const BpIrNode *axes[2],
                            const BpIrNode *at[2]) {
  BpIrModule *ir = bp_te_ir(te);
  if (channels % block == 0) {
    at[0] = axes[0] = bp_te_reduce_axis(te, "ic", channels / block);
    at[1] = axes[1] = bp_te_reduce_axis(te, "icb", block);
    return 2;
  }
  axes[0] = bp_te_reduce_axis(te, "ic", channels);
  at[0] = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[0], x_index(ir, block));
  at[1] = bp_ir_binary(ir, BP_IR_FLOORMOD, axes[0], x_index(ir, block));
  return 1;
}

/* ---- Into the layout and out of it ------------------------------------------------------- */

BP_ROW_INFER(block) {
  const int64_t *in = node->inputs[0]->shape;
  int64_t b = bp__node_int(node, "block", 1);
  int64_t shape[5] = {in[0], (in[1] + b - 1) / b, in[2], in[3], b};
  return bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, 5);
}

static const BpIrNode *block_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  int64_t channels = op->node->inputs[0]->shape[1], b = bp__node_int(op->node, "block", 1);
  const BpIrNode *channel = x_add(ir, x_mul(ir, axes[1], x_index(ir, b)), axes[4]);
  const BpIrNode *indices[4] = {axes[0], channel, axes[2], axes[3]};
  if (channels % b == 0)
    return bp_te_read(te, op->inputs[0], indices);
  return bp_te_read_if(te, op->inputs[0], indices, x_lt(ir, channel, x_index(ir, channels)));
}

BP_ROW_COMPUTE(block) {
  return bp__op_give_body(op, "block", block_body, outputs);
}

BP_ROW_INFER(unblock) {
  const int64_t *in = node->inputs[0]->shape;
  int64_t shape[4] = {in[0], bp__node_int(node, "channels", 1), in[2], in[3]};
  return bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, 4);
}

static const BpIrNode *unblock_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *b = x_index(ir, op->node->inputs[0]->shape[4]);
  const BpIrNode *indices[5] = {axes[0], bp_ir_binary(ir, BP_IR_FLOORDIV, axes[1], b), axes[2],
                                axes[3], bp_ir_binary(ir, BP_IR_FLOORMOD, axes[1], b)};
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(unblock) {
  return bp__op_give_body(op, "unblock", unblock_body, outputs);
}

/* ---- Concatenation ----------------------------------------------------------------------- */

/* Concatenates along channels that need not fill blocks, in `parts` of a block such that no input
 * begins inside a part: the output (n, blocks, h, w, block / part, part) has the memory layout of a
 * blocked tensor. Attributes: part, and the channels of the inputs. */
typedef struct Concat {
  const BpOpCompute *op;
  int64_t part, channels[BP_OP_MAX_INPUTS];
} Concat;

static int read_concat(const BpGraphNode *node, Concat *concat) {
  concat->part = bp__node_int(node, "part", 1);
  if (bp__op_ints(node, -1, "channels", concat->channels, BP_OP_MAX_INPUTS) != node->num_inputs)
    return bp__op_bad(node, "an attribute is missing");
  return 0;
}

BP_ROW_INFER(concat_blocked) {
  const int64_t *in = node->inputs[0]->shape;
  int64_t channels = 0, block = bp__node_int(node, "block", 1);
  Concat concat;
  if (read_concat(node, &concat))
    return -1;
  for (int32_t i = 0; i < node->num_inputs; i++)
    channels += concat.channels[i];
  int64_t shape[6] = {in[0],      (channels + block - 1) / block, in[2], in[3], block / concat.part,
                      concat.part};
  return bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, 6);
}

static const BpIrNode *concat_blocked_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Concat *concat = context;
  const BpGraphNode *node = concat->op->node;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *part = x_index(ir, concat->part), *result = NULL;
  const BpIrNode *parts = x_index(ir, node->outputs[0]->shape[4]);
  const BpIrNode *first = x_mul(ir, x_add(ir, x_mul(ir, axes[1], parts), axes[4]), part);
  int64_t start = 0;
  for (int32_t i = 0; i < node->num_inputs; i++)
    start += concat->channels[i];
  for (int32_t i = node->num_inputs - 1; i >= 0; i--) {
    const int64_t *in = node->inputs[i]->shape;
    const BpIrNode *block = x_index(ir, in[4]),
                   *at = x_sub(ir, first, x_index(ir, start -= concat->channels[i]));
    const BpIrNode *indices[5] = {axes[0], bp_ir_binary(ir, BP_IR_FLOORDIV, at, block), axes[2],
                                  axes[3],
                                  x_add(ir, bp_ir_binary(ir, BP_IR_FLOORMOD, at, block), axes[5])};
    const BpIrNode *inside =
        x_and(ir, x_ge(ir, at, x_index(ir, 0)), x_lt(ir, at, x_index(ir, in[1] * in[4])));
    /* Elements beyond the last channel, if it does not fill its block, may have any value. */
    result = result ? bp_ir_select(ir, x_ge(ir, at, x_index(ir, concat->channels[i])), result,
                                   bp_te_read(te, concat->op->inputs[i], indices))
                    : bp_te_read_if(te, concat->op->inputs[i], indices, inside);
  }
  return result;
}

BP_ROW_COMPUTE(concat_blocked) {
  const BpGraphValue *out = op->node->outputs[0];
  Concat concat = {.op = op};
  if (read_concat(op->node, &concat))
    return -1;
  return bp__op_give(outputs,
                     bp__op_tensor(op, "concat", out->shape, 6, concat_blocked_body, &concat));
}

/* ---- Convolution ------------------------------------------------------------------------- */

/* The attributes of a blocked convolution, all present: strides, pads and dilations over height and
 * width and, for dense weights, the channels of the input, which is blocked, or plain with 4
 * dimensions. Weights: dense (blocks out, blocks in, kernel height, width, block in, block out)
 * depthwise (blocks, kernel height, width, block). If is_dot is set, elements of the input and of
 * the weights are words of four bytes, and the input is padded with the word `pad`. An input of
 * bytes with weights of float32 has the zero point `zero`. */
typedef struct Blocked {
  const BpOpCompute *op;
  int64_t strides[2], pads[4], dilations[2], kernel[2];
  int is_plain; /* whether the input is plain */
  BpTeTensor *input;
  BpTeTensor *sums;
} Blocked;

static int read_blocked(const BpGraphNode *node, Blocked *conv) {
  const BpGraphValue *weights = node->inputs[1];
  conv->is_plain = node->inputs[0]->ndim == 4;
  conv->kernel[0] = weights->shape[weights->ndim == 6 ? 2 : 1];
  conv->kernel[1] = weights->shape[weights->ndim == 6 ? 3 : 2];
  if (bp__op_ints(node, -1, "strides", conv->strides, 2) != 2 ||
      bp__op_ints(node, -1, "pads", conv->pads, 4) != 4 ||
      bp__op_ints(node, -1, "dilations", conv->dilations, 2) != 2)
    return bp__op_bad(node, "an attribute is missing");
  return 0;
}

static int64_t padded_extent(BpExtents *extents, const Blocked *conv, const BpGraphNode *node,
                             int32_t i) {
  int64_t pads = bp__extent_add(extents, conv->pads[i], conv->pads[2 + i]);
  return bp__extent_add(extents, node->inputs[0]->shape[2 + i], pads);
}

BP_ROW_INFER(conv_blocked) {
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1];
  int64_t shape[5] = {in->shape[0], weights->shape[0], 0, 0, weights->shape[weights->ndim - 1]};
  Blocked conv;
  if (read_blocked(node, &conv))
    return -1;
  for (int32_t i = 0; i < 2; i++) {
    BpExtents *e = &graph->extents;
    int64_t room = bp__extent_subtract(e, padded_extent(e, &conv, node, i),
                                       (conv.kernel[i] - 1) * conv.dilations[i] + 1);
    int64_t count = bp__extent_add(e, bp__extent_divide(e, room, conv.strides[i]), 1);
    shape[2 + i] = bp__extent_define(e, count);
    if (shape[2 + i] == BP_EXTENT_NONE)
      return -1;
  }
  return bp__node_set_output(graph, node, 0, weights->dtype, shape, 5);
}

static int has_bytes(const BpGraphNode *node) {
  return !bp__dtype_equal(node->inputs[0]->dtype, node->outputs[0]->dtype);
}

/* An element of the input in the type of the weights; bytes minus their zero point. */
static const BpIrNode *centred(const BpGraphNode *node, BpIrModule *ir, const BpIrNode *value) {
  if (!value || !has_bytes(node))
    return value;
  value = bp_ir_cast(ir, node->outputs[0]->dtype, value);
  return x_sub(ir, value, x_number(ir, x_dtype(value), (double)bp__node_int(node, "zero", 0)));
}

static const BpIrNode *blocked_pad_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Blocked *conv = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[5] = {axes[0], axes[1], NULL, NULL, conv->is_plain ? NULL : axes[4]};
  const BpIrNode *inside = NULL;
  for (int32_t i = 0; i < 2; i++) {
    const BpIrNode *within;
    int64_t in = conv->op->node->inputs[0]->shape[2 + i];
    indices[2 + i] = x_sub(ir, axes[2 + i], bp__op_extent(conv->op, conv->pads[i]));
    if (conv->pads[i] == 0 && conv->pads[2 + i] == 0)
      continue;
    within = x_and(ir, x_ge(ir, indices[2 + i], x_index(ir, 0)),
                   x_lt(ir, indices[2 + i], bp__op_extent(conv->op, in)));
    inside = inside ? x_and(ir, inside, within) : within;
  }
  const BpIrNode *value = inside ? bp_te_read_if(te, conv->op->inputs[0], indices, inside)
                                 : bp_te_read(te, conv->op->inputs[0], indices);
  int64_t pad = bp__node_int(conv->op->node, "pad", 0);
  value = centred(conv->op->node, ir, value);
  return !inside || (pad == 0 && !has_bytes(conv->op->node))
             ? value
             : bp_ir_select(ir, inside, value, x_number(ir, x_dtype(value), (double)pad));
}

static int pad_input(Blocked *conv) {
  const BpGraphValue *in = conv->op->node->inputs[0];
  int64_t shape[5];
  conv->input = conv->op->inputs[0];
  if (!conv->pads[0] && !conv->pads[1] && !conv->pads[2] && !conv->pads[3] &&
      !has_bytes(conv->op->node))
    return 0;
  memcpy(shape, in->shape, sizeof(shape));
  for (int32_t i = 0; i < 2; i++)
    shape[2 + i] = padded_extent(conv->op->extents, conv, conv->op->node, i);
  conv->input = bp__op_tensor(conv->op, "padded", shape, in->ndim, blocked_pad_body, conv);
  return conv->input ? 0 : -1;
}

/* The index, in the padded input, of tap k of a window along spatial dimension `i`. */
static const BpIrNode *tap(BpTe *te, const Blocked *conv, const BpIrNode *const *axes, int32_t i,
                           const BpIrNode *k) {
  BpIrModule *ir = bp_te_ir(te);
  return x_add(ir, x_mul(ir, axes[2 + i], x_index(ir, conv->strides[i])),
               x_mul(ir, k, x_index(ir, conv->dilations[i])));
}

/* The convolution is reduced over the channel blocks and, inside each block or each channel of a
 * plain input, over the window. */
static const BpIrNode *conv_blocked_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Blocked *conv = context;
  const int64_t *extents = conv->op->node->inputs[1]->shape;
  int64_t channels = bp__node_int(conv->op->node, "channels", 1);
  const BpIrNode *reduce[4], *channel[2], *at[2], *x[5] = {axes[0]}, *w[6] = {axes[1]};
  int32_t count = bp__reduce_channels(te, channels, extents[4], channel, at);
  reduce[0] = channel[0];
  x[1] = w[1] = at[0];
  reduce[1] = w[2] = bp_te_reduce_axis(te, "kh", extents[2]);
  reduce[2] = w[3] = bp_te_reduce_axis(te, "kw", extents[3]);
  reduce[3] = channel[1];
  x[4] = w[4] = at[1];
  x[2] = tap(te, conv, axes, 0, w[2]);
  x[3] = tap(te, conv, axes, 1, w[3]);
  w[5] = axes[4];
  const BpIrNode *term = x_term(conv->op->node, bp_te_ir(te), bp_te_read(te, conv->input, x),
                                bp_te_read(te, conv->op->inputs[1], w));
  return bp_te_reduce(te, BP_TE_SUM, term, reduce, count + 2);
}

static const BpIrNode *depthwise_blocked_body(BpTe *te, const BpIrNode *const *axes,
                                              void *context) {
  const Blocked *conv = context;
  const BpIrNode *k[2] = {bp_te_reduce_axis(te, "kh", conv->kernel[0]),
                          bp_te_reduce_axis(te, "kw", conv->kernel[1])};
  const BpIrNode *x[5] = {axes[0], axes[1], NULL, NULL, axes[4]};
  const BpIrNode *w[4] = {axes[1], k[0], k[1], axes[4]};
  x[2] = tap(te, conv, axes, 0, k[0]);
  x[3] = tap(te, conv, axes, 1, k[1]);
  return bp_te_reduce(
      te, BP_TE_SUM,
      x_mul(bp_te_ir(te), bp_te_read(te, conv->input, x), bp_te_read(te, conv->op->inputs[1], w)),
      k, 2);
}

static const BpIrNode *blocked_bias_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Blocked *conv = context;
  const BpIrNode *indices[2] = {axes[1], axes[4]};
  return x_add(bp_te_ir(te), bp_te_read(te, conv->sums, axes),
               x_wide(bp_te_ir(te), bp_te_read(te, conv->op->inputs[2], indices)));
}

BP_ROW_COMPUTE(conv_blocked) {
  const BpGraphValue *out = op->node->outputs[0];
  int is_dense = op->node->inputs[1]->ndim == 6;
  Blocked conv = {.op = op};
  if (read_blocked(op->node, &conv) || pad_input(&conv))
    return -1;
  conv.sums = bp__op_tensor(op, "conv", out->shape, 5,
                            is_dense ? conv_blocked_body : depthwise_blocked_body, &conv);
  if (!conv.sums || !op->inputs[2])
    return bp__op_give(outputs, conv.sums);
  return bp__op_give(outputs, bp__op_tensor(op, "bias", out->shape, 5, blocked_bias_body, &conv));
}

/* ---- Convolution and depth to space ------------------------------------------------------ */

/* A pointwise convolution whose channels become k x k neighbouring pixels, such as a transposed
 * convolution without overlap. Attribute: the channels of the input. Weights (k, k, blocks out,
 * blocks in, block in, block out), bias (k, k, blocks out, block out). The output (n, blocks, h, k,
 * w, k, block) has the memory layout of a blocked tensor of k * h by k * w pixels. */
BP_ROW_INFER(conv_to_space) {
  const int64_t *in = node->inputs[0]->shape, *weights = node->inputs[1]->shape;
  int64_t shape[7] = {in[0], weights[2], in[2], weights[0], in[3], weights[1], weights[5]};
  return bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, 7);
}

static const BpIrNode *to_space_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Blocked *conv = context;
  const int64_t *extents = conv->op->node->inputs[1]->shape;
  int64_t channels = bp__node_int(conv->op->node, "channels", 1);
  const BpIrNode *reduce[2], *at[2];
  int32_t count = bp__reduce_channels(te, channels, extents[4], reduce, at);
  const BpIrNode *x[5] = {axes[0], at[0], axes[2], axes[4], at[1]};
  const BpIrNode *w[6] = {axes[3], axes[5], axes[1], at[0], at[1], axes[6]};
  return bp_te_reduce(te, BP_TE_SUM,
                      x_mul(bp_te_ir(te), bp_te_read(te, conv->op->inputs[0], x),
                            bp_te_read(te, conv->op->inputs[1], w)),
                      reduce, count);
}

static const BpIrNode *to_space_bias_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Blocked *conv = context;
  const BpIrNode *indices[4] = {axes[3], axes[5], axes[1], axes[6]};
  return x_add(bp_te_ir(te), bp_te_read(te, conv->sums, axes),
               x_wide(bp_te_ir(te), bp_te_read(te, conv->op->inputs[2], indices)));
}

BP_ROW_COMPUTE(conv_to_space) {
  const BpGraphValue *out = op->node->outputs[0];
  Blocked conv = {.op = op};
  conv.sums = bp__op_tensor(op, "conv", out->shape, 7, to_space_body, &conv);
  if (!conv.sums || !op->inputs[2])
    return bp__op_give(outputs, conv.sums);
  return bp__op_give(outputs, bp__op_tensor(op, "bias", out->shape, 7, to_space_bias_body, &conv));
}
