/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling over windows of the spatial dimensions, and normalisation across channels. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

BP_ROW_INFER(pool) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  BpOpWindow window;
  if (bp__op_window(node, NULL, &window))
    return -1;
  if (!bp__dtype_is_float(in->dtype) && strcmp(node->op->name, "MaxPool"))
    return bp__op_bad(node, "its input is not of a float type");
  if (bp__node_int(node, "storage_order", 0))
    return bp__op_error(node, "storage_order 1 is not supported");
  memcpy(shape, in->shape, sizeof(shape));
  memcpy(shape + 2, window.out, (size_t)window.rank * sizeof(*shape));
  return bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim);
}

typedef struct PoolBody {
  const BpOpCompute *op;
  BpOpWindow window;
  int average;
  BpTeTensor *pooled;
} PoolBody;

/* Whether a window along dimension `i` may reach outside the input. */
static int reaches_out(const BpOpWindow *w, int32_t i) {
  int64_t end =
      (w->out[i] - 1) * w->strides[i] - w->pad_begin[i] + (w->kernel[i] - 1) * w->dilations[i] + 1;
  return w->pad_begin[i] > 0 || end > w->in[i];
}

static const BpIrNode *lowest(BpIrModule *ir, BpDataType dtype) {
  if (bp__dtype_is_float(dtype))
    return bp_ir_float(ir, dtype, -HUGE_VAL);
  return bp_ir_int(ir, dtype, dtype.code == BP_DTYPE_INT ? -((int64_t)1 << (dtype.bits - 1)) : 0);
}

static const BpIrNode *pool_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  const BpOpWindow *w = &body->window;
  BpIrModule *ir = bp_te_ir(te);
  BpDataType dtype = body->op->node->inputs[0]->dtype;
  const BpIrNode *in[BP_GRAPH_MAX_NDIM] = {axes[0], axes[1]}, *reduce[BP_GRAPH_MAX_NDIM];
  const BpIrNode *inside = NULL, *value;
  int32_t count = 0;
  for (int32_t i = 0; i < w->rank; i++) {
    const BpIrNode *within, *k = x_index(ir, 0);
    if (w->kernel[i] > 1 || i < 2)
      reduce[count++] = k = bp_te_reduce_axis(te, "k", w->kernel[i]);
    in[2 + i] = x_add(ir, x_mul(ir, axes[2 + i], x_index(ir, w->strides[i])),
                      x_mul(ir, k, x_index(ir, w->dilations[i])));
    if (!reaches_out(w, i))
      continue;
    in[2 + i] = x_sub(ir, in[2 + i], x_index(ir, w->pad_begin[i]));
    within =
        x_and(ir, x_ge(ir, in[2 + i], x_index(ir, 0)), x_lt(ir, in[2 + i], x_index(ir, w->in[i])));
    inside = inside ? x_and(ir, inside, within) : within;
  }
  value = bp_te_read(te, body->op->inputs[0], in);
  if (inside)
    value =
        bp_ir_select(ir, inside, value, body->average ? x_number(ir, dtype, 0) : lowest(ir, dtype));
  return bp_te_reduce(te, body->average ? BP_TE_SUM : BP_TE_MAX, value, reduce, count);
}

/* How many places of the window along dimension `i` count: all inside the input, or inside the
 * padded input, which ceil_mode may exceed. One at least, for the average of none is 0. */
static const BpIrNode *places(BpIrModule *ir, const PoolBody *body, int32_t i, const BpIrNode *axis,
                              int with_pads) {
  const BpOpWindow *w = &body->window;
  const BpIrNode *start =
      x_sub(ir, x_mul(ir, axis, x_index(ir, w->strides[i])), x_index(ir, w->pad_begin[i]));
  const BpIrNode *dilation = x_index(ir, w->dilations[i]), *zero = x_index(ir, 0);
  const BpIrNode *count = x_index(ir, w->kernel[i]), *room;
  room = x_sub(ir, x_index(ir, w->in[i] + (with_pads ? w->pad_end[i] : 0)), start);
  count = x_min(ir, count,
                bp_ir_binary(ir, BP_IR_FLOORDIV, x_add(ir, room, x_index(ir, w->dilations[i] - 1)),
                             dilation));
  if (!with_pads) {
    const BpIrNode *before = x_add(ir, x_sub(ir, zero, start), x_index(ir, w->dilations[i] - 1));
    count = x_sub(ir, count, x_max(ir, zero, bp_ir_binary(ir, BP_IR_FLOORDIV, before, dilation)));
  }
  return x_max(ir, count, x_index(ir, 1));
}

static const BpIrNode *average_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  BpDataType dtype = bp_te_tensor_dtype(body->pooled);
  int with_pads = bp__node_int(body->op->node, "count_include_pad", 0) != 0;
  const BpIrNode *count = NULL, *value = bp_te_read(te, body->pooled, axes);
  double fixed = 1;
  for (int32_t i = 0; i < body->window.rank; i++) {
    const BpIrNode *along;
    if (!reaches_out(&body->window, i)) {
      fixed *= (double)body->window.kernel[i];
      continue;
    }
    along = places(ir, body, i, axes[2 + i], with_pads);
    count = count ? x_mul(ir, count, along) : along;
  }
  value = x_mul(ir, value, x_number(ir, dtype, 1.0 / fixed));
  return count ? x_div(ir, value, bp_ir_cast(ir, dtype, count)) : value;
}

BP_ROW_COMPUTE(pool) {
  const BpGraphValue *out = op->node->outputs[0];
  PoolBody body = {.op = op, .average = !strcmp(op->node->op->name, "AveragePool")};
  if (bp__op_window(op->node, NULL, &body.window))
    return -1;
  body.pooled = bp_te_compute(op->te, "pool", out->shape, out->ndim, pool_body, &body);
  if (!body.pooled || !body.average)
    return bp__op_give(outputs, body.pooled);
  return bp__op_give(outputs,
                     bp_te_compute(op->te, "average", out->shape, out->ndim, average_body, &body));
}

/* ---- Local response normalisation -------------------------------------------------------- */

BP_ROW_INFER(lrn) {
  const BpGraphValue *in = node->inputs[0];
  if (in->ndim < 3 || !bp__dtype_is_float(in->dtype) || bp__node_int(node, "size", 0) < 1)
    return bp__op_bad(node, "it takes a float tensor of at least 3 dimensions and a size");
  return bp__node_set_output(graph, node, 0, in->dtype, in->shape, in->ndim);
}

static const BpIrNode *square_sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *in = body->op->node->inputs[0];
  int64_t size = bp__node_int(body->op->node, "size", 1);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *k = bp_te_reduce_axis(te, "k", size), *value;
  memcpy(indices, axes, (size_t)in->ndim * sizeof(*indices));
  indices[1] = x_sub(ir, x_add(ir, axes[1], k), x_index(ir, (size - 1) / 2));
  value = bp_te_read_if(te, body->op->inputs[0], indices,
                        x_and(ir, x_ge(ir, indices[1], x_index(ir, 0)),
                              x_lt(ir, indices[1], x_index(ir, in->shape[1]))));
  return bp_te_reduce(te, BP_TE_SUM, x_mul(ir, value, value), &k, 1);
}

static const BpIrNode *lrn_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  const BpGraphNode *node = body->op->node;
  BpIrModule *ir = bp_te_ir(te);
  BpDataType dtype = bp_te_tensor_dtype(body->pooled);
  double alpha = (double)bp__node_float(node, "alpha", 1e-4f);
  double size = (double)bp__node_int(node, "size", 1);
  const BpIrNode *power[2], *square = bp_te_read(te, body->pooled, axes);
  power[0] = x_add(ir, x_number(ir, dtype, (double)bp__node_float(node, "bias", 1.0f)),
                   x_mul(ir, square, x_number(ir, dtype, alpha / size)));
  power[1] = x_number(ir, dtype, (double)bp__node_float(node, "beta", 0.75f));
  if (!power[0] || !power[1])
    return NULL;
  return x_div(ir, x_wide(ir, bp_te_read(te, body->op->inputs[0], axes)),
               bp_ir_call(ir, dtype, BP_IR_CALL_INTRINSIC, "pow", power, 2));
}

BP_ROW_COMPUTE(lrn) {
  const BpGraphValue *out = op->node->outputs[0];
  PoolBody body = {.op = op};
  body.pooled = bp_te_compute(op->te, "squares", out->shape, out->ndim, square_sum_body, &body);
  if (!body.pooled)
    return -1;
  return bp__op_give(outputs, bp_te_compute(op->te, "lrn", out->shape, out->ndim, lrn_body, &body));
}
