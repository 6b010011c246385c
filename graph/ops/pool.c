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
  if (bp__op_infer_window(graph, node, NULL, &window))
    return -1;
  if (!bp__dtype_is_float(in->dtype) && strcmp(node->op->name, "MaxPool"))
    return bp__op_bad(node, "its input is not of a float type");
  if (bp__node_int(node, "p", 2) < 1)
    return bp__op_bad(node, "p is %lld, below 1", (long long)bp__node_int(node, "p", 2));
  memcpy(shape, in->shape, sizeof(shape));
  memcpy(shape + 2, window.out, (size_t)window.rank * sizeof(*shape));
  if (bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim))
    return -1;
  return node->num_outputs > 1 ? bp__node_set_output(graph, node, 1, BP__INT64, shape, in->ndim)
                               : 0;
}

typedef struct PoolBody {
  const BpOpCompute *op;
  BpOpWindow window;
  enum { LARGEST, AVERAGE, NORM } kind;
  BpTeTensor *padded; /* NULL: windows read the input, with choices at its edges */
  BpTeTensor *pooled;
} PoolBody;

static const BpIrNode *power(BpIrModule *ir, const BpIrNode *value, double exponent) {
  const BpIrNode *args[] = {value, x_number(ir, x_dtype(value), exponent)};
  return value ? bp_ir_call(ir, x_dtype(value), BP_IR_CALL_INTRINSIC, "pow", args, 2) : NULL;
}

/* The term of an element in the sum of a norm: |value| to the power p. */
static const BpIrNode *norm_term(BpIrModule *ir, const BpIrNode *value, int64_t p) {
  value = x_wide(ir, value);
  if (p == 2)
    return x_mul(ir, value, value);
  return p == 1 ? x_abs(ir, value) : power(ir, x_abs(ir, value), (double)p);
}

/* Whether a window along dimension `i` may reach outside the input. */
static int reaches_out(const PoolBody *body, int32_t i) {
  const BpOpWindow *w = &body->window;
  BpExtents *e = body->op->extents;
  if (w->pad_begin[i] != 0)
    return 1;
  if (w->pad_end[i] == 0 && !w->rounds_up)
    return 0;
  int64_t start = bp__extent_multiply(e, bp__extent_add(e, w->out[i], -1), w->strides[i]);
  int64_t end = bp__extent_add(e, start, (w->kernel[i] - 1) * w->dilations[i] + 1);
  return end == BP_EXTENT_NONE || !bp__extent_at_least(e, w->in[i], end);
}

static const BpIrNode *lowest(BpIrModule *ir, BpDataType dtype) {
  if (bp__dtype_is_float(dtype))
    return bp_ir_float(ir, dtype, -HUGE_VAL);
  return bp_ir_int(ir, dtype, dtype.code == BP_DTYPE_INT ? -((int64_t)1 << (dtype.bits - 1)) : 0);
}

/* The elements of a window: reduction axes, indices into the input, and whether the indices are
 * inside the input; NULL if all are. */
typedef struct Places {
  const BpIrNode *axes[BP_GRAPH_MAX_NDIM], *in[BP_GRAPH_MAX_NDIM], *inside;
  int32_t count;
} Places;

static void walk_window(BpTe *te, const PoolBody *body, const BpIrNode *const *axes,
                        Places *places) {
  const BpOpWindow *w = &body->window;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode **in = places->in;
  memset(places, 0, sizeof(*places));
  memcpy(in, axes, 2 * sizeof(*in));
  for (int32_t i = 0; i < w->rank; i++) {
    const BpIrNode *within, *k = x_index(ir, 0);
    if (w->kernel[i] > 1 || i < 2)
      places->axes[places->count++] = k = bp_te_reduce_axis(te, "k", w->kernel[i]);
    in[2 + i] = x_add(ir, x_mul(ir, axes[2 + i], x_index(ir, w->strides[i])),
                      x_mul(ir, k, x_index(ir, w->dilations[i])));
    if (!reaches_out(body, i))
      continue;
    in[2 + i] = x_sub(ir, in[2 + i], bp__op_extent(body->op, w->pad_begin[i]));
    within = x_and(ir, x_ge(ir, in[2 + i], x_index(ir, 0)),
                   x_lt(ir, in[2 + i], bp__op_extent(body->op, w->in[i])));
    places->inside = places->inside ? x_and(ir, places->inside, within) : within;
  }
}

static const BpIrNode *neutral(BpIrModule *ir, const PoolBody *body, BpDataType dtype) {
  return body->kind == LARGEST ? lowest(ir, dtype) : x_number(ir, dtype, 0);
}

static const BpIrNode *padded_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM] = {axes[0], axes[1]}, *inside = NULL;
  for (int32_t i = 0; i < body->window.rank; i++) {
    indices[2 + i] = x_sub(ir, axes[2 + i], bp__op_extent(body->op, body->window.pad_begin[i]));
    const BpIrNode *within =
        x_and(ir, x_ge(ir, indices[2 + i], x_index(ir, 0)),
              x_lt(ir, indices[2 + i], bp__op_extent(body->op, body->window.in[i])));
    inside = inside ? x_and(ir, inside, within) : within;
  }
  const BpIrNode *value = bp_te_read(te, body->op->inputs[0], indices);
  return bp_ir_select(ir, inside, value, neutral(ir, body, x_dtype(value)));
}

/* Sets the padded input of a window with open extents: lowering cannot divide tiles that move back
 * at the edges. */
static int pad_open(PoolBody *body) {
  const BpOpWindow *w = &body->window;
  const BpGraphValue *in = body->op->node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM] = {in->shape[0], in->shape[1]};
  bool is_padded = false;
  for (int32_t i = 0; i < w->rank; i++) {
    shape[2 + i] = bp__op_padded(body->op->extents, w, i);
    is_padded |= w->pad_begin[i] != 0 || w->pad_end[i] != 0;
  }
  if (bp__op_window_is_closed(w) || w->rounds_up || !is_padded)
    return 0;
  body->padded = bp__op_tensor(body->op, "padded", shape, in->ndim, padded_body, body);
  return body->padded ? 0 : -1;
}

static const BpIrNode *pool_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  Places places;
  walk_window(te, body, axes, &places);
  for (int32_t i = 0; body->padded && i < body->window.rank; i++)
    if (reaches_out(body, i))
      places.in[2 + i] =
          x_add(ir, places.in[2 + i], bp__op_extent(body->op, body->window.pad_begin[i]));
  BpTeTensor *input = body->padded ? body->padded : body->op->inputs[0];
  const BpIrNode *value = bp_te_read(te, input, places.in);
  if (body->kind == NORM)
    value = norm_term(ir, value, bp__node_int(body->op->node, "p", 2));
  if (places.inside && !body->padded)
    value = bp_ir_select(ir, places.inside, value, neutral(ir, body, x_dtype(value)));
  return bp_te_reduce(te, body->kind == LARGEST ? BP_TE_MAX : BP_TE_SUM, value, places.axes,
                      places.count);
}

/* The index of the first element, in memory order, that is largest; NaN is the largest. */
static const BpIrNode *place_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  const BpGraphValue *in = body->op->node->inputs[0];
  BpIrModule *ir = bp_te_ir(te);
  Places places;
  walk_window(te, body, axes, &places);
  const BpIrNode *value = x_wide(ir, bp_te_read(te, body->op->inputs[0], places.in)), *place;
  const BpIrNode *is_it =
      bp_ir_binary(ir, BP_IR_EQ, value, x_wide(ir, bp_te_read(te, body->pooled, axes)));
  if (bp__dtype_is_float(in->dtype))
    is_it = bp_ir_binary(ir, BP_IR_OR, is_it, bp_ir_binary(ir, BP_IR_NE, value, value));
  place = places.in[0];
  for (int32_t i = 1; i < in->ndim; i++)
    place = x_add(ir, x_mul(ir, place, bp__op_extent(body->op, in->shape[i])), places.in[i]);
  int64_t count = bp__extent_product(body->op->extents, in->shape, in->ndim);
  const BpIrNode *last = x_sub(ir, bp__op_extent(body->op, count), x_index(ir, 1));
  place = bp_ir_select(ir, is_it, place, last);
  if (places.inside)
    place = bp_ir_select(ir, places.inside, place, last);
  return bp_te_reduce(te, BP_TE_MIN, place, places.axes, places.count);
}

typedef struct Turned {
  const BpOpCompute *op;
  BpTeTensor *places;
} Turned;

/* Converts the index to storage_order 1, where the spatial dimensions are stored last to first. */
static const BpIrNode *turned_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Turned *turned = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *in = turned->op->node->inputs[0];
  const BpIrNode *rest = bp_te_read(te, turned->places, axes), *sum = NULL;
  int64_t all = bp__extent_product(turned->op->extents, in->shape + 2, in->ndim - 2);
  const BpIrNode *step = bp__op_extent(turned->op, all);
  sum = x_mul(ir, bp_ir_binary(ir, BP_IR_FLOORDIV, rest, step), step);
  for (int32_t i = in->ndim - 1; i >= 2; i--) {
    const BpIrNode *extent = bp__op_extent(turned->op, in->shape[i]);
    int64_t before = bp__extent_product(turned->op->extents, in->shape + 2, i - 2);
    sum = x_add(ir, sum,
                x_mul(ir, bp_ir_binary(ir, BP_IR_FLOORMOD, rest, extent),
                      bp__op_extent(turned->op, before)));
    rest = bp_ir_binary(ir, BP_IR_FLOORDIV, rest, extent);
  }
  return sum;
}

static int compute_places(const BpOpCompute *op, PoolBody *body, BpTeTensor **outputs) {
  const BpGraphValue *out = op->node->outputs[1];
  Turned turned = {op, NULL};
  turned.places = bp__op_tensor(op, "places", out->shape, out->ndim, place_body, body);
  if (!turned.places || !bp__node_int(op->node, "storage_order", 0))
    return bp__op_give(outputs + 1, turned.places);
  return bp__op_give(outputs + 1,
                     bp__op_tensor(op, "turned", out->shape, out->ndim, turned_body, &turned));
}

/* The number of counted elements of the window along dimension `i`: those inside the input, or
 * inside the padded input, which ceil_mode may exceed. The number is at least 1, because the
 * average of no element is 0. */
static const BpIrNode *places(BpIrModule *ir, const PoolBody *body, int32_t i, const BpIrNode *axis,
                              int with_pads) {
  const BpOpWindow *w = &body->window;
  int64_t end = with_pads ? bp__extent_add(body->op->extents, w->in[i], w->pad_end[i]) : w->in[i];
  const BpIrNode *start = x_sub(ir, x_mul(ir, axis, x_index(ir, w->strides[i])),
                                bp__op_extent(body->op, w->pad_begin[i]));
  const BpIrNode *dilation = x_index(ir, w->dilations[i]), *zero = x_index(ir, 0);
  const BpIrNode *count = x_index(ir, w->kernel[i]), *room;
  room = x_sub(ir, bp__op_extent(body->op, end), start);
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
    if (!reaches_out(body, i)) {
      fixed *= (double)body->window.kernel[i];
      continue;
    }
    along = places(ir, body, i, axes[2 + i], with_pads);
    count = count ? x_mul(ir, count, along) : along;
  }
  value = x_divide(ir, value, fixed);
  return count ? x_div(ir, value, bp_ir_cast(ir, dtype, count)) : value;
}

static const BpIrNode *root_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const PoolBody *body = context;
  int64_t p = bp__node_int(body->op->node, "p", 2);
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *value = bp_te_read(te, body->pooled, axes);
  return p == 2 ? x_call1(ir, "sqrt", value) : power(ir, value, 1.0 / (double)p);
}

BP_ROW_COMPUTE(pool) {
  const BpGraphValue *out = op->node->outputs[0];
  const char *name = op->node->op->name;
  PoolBody body = {.op = op,
                   .kind = !strcmp(name, "AveragePool") ? AVERAGE
                           : !strcmp(name, "LpPool")    ? NORM
                                                        : LARGEST};
  if (bp__op_window(op->extents, op->node, NULL, &body.window) || pad_open(&body))
    return -1;
  body.pooled = bp__op_tensor(op, "pool", out->shape, out->ndim, pool_body, &body);
  if (!body.pooled || body.kind == LARGEST ||
      (body.kind == NORM && bp__node_int(op->node, "p", 2) == 1)) {
    outputs[0] = body.pooled;
    return body.pooled && op->node->num_outputs < 2 ? 0
           : body.pooled                            ? compute_places(op, &body, outputs)
                                                    : -1;
  }
  return bp__op_give(outputs,
                     bp__op_tensor(op, name, out->shape, out->ndim,
                                   body.kind == AVERAGE ? average_body : root_body, &body));
}

/* ---- MaxUnpool --------------------------------------------------------------------------- */

/* Computes the shape of the tensor that MaxPool pooled. */
static int unpooled_shape(BpGraph *graph, const BpGraphNode *node, int64_t *shape) {
  BpOpWindow window;
  if (bp__op_read_window(&graph->extents, node, NULL, &window))
    return -1;
  memcpy(shape, node->inputs[0]->shape, 2 * sizeof(*shape));
  for (int32_t i = 0; i < window.rank; i++) {
    BpExtents *extents = &graph->extents;
    int64_t more = window.kernel[i] - window.strides[i] - window.pad_begin[i] - window.pad_end[i];
    shape[2 + i] = bp__extent_add(
        extents, bp__extent_multiply(extents, window.in[i], window.strides[i]), more);
    if (shape[2 + i] == BP_EXTENT_NONE)
      return -1;
    if (!bp__extent_is_open(shape[2 + i]) && shape[2 + i] < 1)
      return bp__op_bad(node, "its output would have extent %lld along axis %d",
                        (long long)shape[2 + i], 2 + i);
    if (bp__op_require(graph, node, bp__extent_subtract(extents, shape[2 + i], 1),
                       "its output would be empty"))
      return -1;
  }
  return 0;
}

/* Computes the shape of the output, and as pads the number of zeros by which it exceeds the shape
 * that MaxPool pooled. */
static int zeros_after(BpGraph *graph, const BpGraphNode *node, const int64_t *shape,
                       int64_t *wanted, int64_t *pads) {
  int32_t ndim = node->inputs[0]->ndim;
  memcpy(wanted, shape, BP_GRAPH_MAX_NDIM * sizeof(*wanted));
  if (bp__node_input(node, 2) && bp__op_const_extents(node, 2, wanted, BP_GRAPH_MAX_NDIM) != ndim)
    return bp__op_error(node, "its output_shape must be a constant, one extent a dimension");
  for (int32_t i = 0; i < ndim; i++) {
    pads[ndim + i] = bp__extent_subtract(&graph->extents, wanted[i], shape[i]);
    if (pads[ndim + i] == BP_EXTENT_NONE)
      return -1;
    if (!bp__extent_is_open(pads[ndim + i]) && pads[ndim + i] < 0)
      return bp__op_error(node, "its output_shape has extent %lld along axis %d, below %lld",
                          (long long)wanted[i], i, (long long)shape[i]);
    if (bp__op_require(graph, node, pads[ndim + i], "its output_shape is too small"))
      return -1;
  }
  return 0;
}

/* MaxUnpool: puts each element at its index among zeros. If output_shape is larger, zeros
 * follow. */
BP_ROW_EXPAND(max_unpool) {
  static const char misfit[] = "its indices are not an integer for each element";
  BpGraphValue *x = node->inputs[0], *places = node->inputs[1], *parts[3];
  int64_t shape[BP_GRAPH_MAX_NDIM], wanted[BP_GRAPH_MAX_NDIM], pads[2 * BP_GRAPH_MAX_NDIM] = {0};
  BpGraphAttr axis = bp__attr_int(graph, "axis", 0);
  if (unpooled_shape(graph, node, shape))
    return -1;
  if (x->ndim != places->ndim || places->dtype.code != BP_DTYPE_INT)
    return bp__op_bad(node, "%s", misfit);
  places = bp__op_as_shape(graph, node, places, x->shape, misfit);
  int64_t count = bp__extent_product(&graph->extents, x->shape, x->ndim);
  int64_t all = bp__extent_product(&graph->extents, shape, x->ndim);
  if (!places || count == BP_EXTENT_NONE || all == BP_EXTENT_NONE ||
      zeros_after(graph, node, shape, wanted, pads))
    return -1;
  parts[0] = bp__op_unary(graph, node, "ConstantOfShape", bp__op_extents(graph, node, &all, 1));
  parts[0] = parts[0] ? bp__op_cast(graph, node, parts[0], x->dtype) : NULL;
  parts[1] = bp__op_reshape(graph, node, places, &count, 1);
  parts[2] = bp__op_reshape(graph, node, x, &count, 1);
  BpGraphValue *flat = bp__op_apply(graph, "", "ScatterElements", node->name, parts, 3, &axis, 1);
  flat = bp__op_reshape(graph, node, flat, shape, x->ndim);
  flat = bp__op_binary(graph, node, "Pad", flat, bp__graph_int_vector(graph, pads, 2 * x->ndim));
  node->outputs[0] = bp__op_as_shape(graph, node, flat, wanted, "its output has another shape");
  return node->outputs[0] ? 0 : -1;
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
                              x_lt(ir, indices[1], bp__op_extent(body->op, in->shape[1]))));
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
  body.pooled = bp__op_tensor(op, "squares", out->shape, out->ndim, square_sum_body, &body);
  if (!body.pooled)
    return -1;
  return bp__op_give(outputs, bp__op_tensor(op, "lrn", out->shape, out->ndim, lrn_body, &body));
}
