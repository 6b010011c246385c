/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over axes: sums and similar reductions, the index of the largest element, softmax,
 * running sums. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* The operations that each reduction operator applies to an element before the reduction, and to
 * the result after it. */
typedef struct Reduction {
  const char *op;
  int32_t kind; /* BP_TE_* */
  enum { PLAIN, ABSOLUTE, SQUARE, EXPONENTIAL } before;
  enum { NOTHING, DIVIDE, ROOT, LOGARITHM } after;
} Reduction;

static const Reduction reductions[] = {
    {"ReduceSum", BP_TE_SUM, PLAIN, NOTHING},
    {"ReduceMean", BP_TE_SUM, PLAIN, DIVIDE},
    {"ReduceMax", BP_TE_MAX, PLAIN, NOTHING},
    {"ReduceMin", BP_TE_MIN, PLAIN, NOTHING},
    {"ReduceProd", BP_TE_PROD, PLAIN, NOTHING},
    {"ReduceL1", BP_TE_SUM, ABSOLUTE, NOTHING},
    {"ReduceL2", BP_TE_SUM, SQUARE, ROOT},
    {"ReduceSumSquare", BP_TE_SUM, SQUARE, NOTHING},
    {"ReduceLogSum", BP_TE_SUM, PLAIN, LOGARITHM},
    {"ReduceLogSumExp", BP_TE_SUM, EXPONENTIAL, LOGARITHM},
};

static const Reduction *find_reduction(const BpGraphNode *node) {
  for (size_t i = 0; i < sizeof(reductions) / sizeof(reductions[0]); i++)
    if (!strcmp(reductions[i].op, node->op->name))
      return &reductions[i];
  return NULL;
}

/* The axes of the input that are reduced; with keepdims they have extent 1 in the output, otherwise
 * the output lacks them. */
typedef struct Axes {
  int reduced[BP_GRAPH_MAX_NDIM];
  int keepdims;
  int64_t count;  /* number of elements reduced into one; -1: open */
  int64_t extent; /* extent of the one axis of ArgMax and ArgMin */
} Axes;

static int read_axes(const BpGraphNode *node, Axes *axes) {
  const BpGraphValue *in = node->inputs[0];
  int64_t list[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, 1, "axes", list, BP_GRAPH_MAX_NDIM);
  memset(axes, 0, sizeof(*axes));
  axes->keepdims = bp__node_int(node, "keepdims", 1) != 0;
  axes->count = 1;
  if (count == -1)
    return -1;
  if (count <= 0 && bp__node_int(node, "noop_with_empty_axes", 0))
    count = 0;
  else if (count <= 0) {
    count = in->ndim;
    for (int32_t i = 0; i < count; i++)
      list[i] = i;
  }
  for (int32_t i = 0; i < count; i++) {
    int32_t axis;
    if (bp__op_axis(node, list[i], in->ndim, &axis))
      return -1;
    if (!axes->reduced[axis])
      axes->count = axes->count < 0 || bp__extent_is_open(in->shape[axis])
                        ? -1
                        : axes->count * in->shape[axis];
    axes->reduced[axis] = 1;
  }
  return 0;
}

static int set_reduced(BpGraph *graph, BpGraphNode *node, const Axes *axes, BpDataType dtype) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim = 0;
  for (int32_t i = 0; i < in->ndim; i++)
    if (axes->keepdims || !axes->reduced[i])
      shape[ndim++] = axes->reduced[i] ? 1 : in->shape[i];
  return bp__node_set_output(graph, node, 0, dtype, shape, ndim);
}

BP_ROW_INFER(reduce) {
  const BpGraphValue *in = node->inputs[0];
  const Reduction *reduction = find_reduction(node);
  Axes axes;
  if (read_axes(node, &axes))
    return -1;
  if ((reduction->before == EXPONENTIAL || reduction->after > DIVIDE) &&
      !bp__dtype_is_float(in->dtype))
    return bp__op_error(node, "its input is not of a float type");
  if (in->dtype.code == BP_DTYPE_BOOL)
    return bp__op_error(node, "its input is bool");
  return set_reduced(graph, node, &axes, in->dtype);
}

/* The result of reducing no elements: zero for a sum, one for a product, the limit of the type for
 * an extreme; then the operation after the reduction is applied. */
static double reduced_nothing(const Reduction *reduction, BpDataType dtype) {
  int is_signed = dtype.code == BP_DTYPE_INT;
  double most = bp__dtype_is_float(dtype) ? HUGE_VAL : ldexp(1, dtype.bits - is_signed);
  if (reduction->kind == BP_TE_MAX)
    return bp__dtype_is_float(dtype) || is_signed ? -most : 0;
  if (reduction->kind == BP_TE_MIN)
    return most;
  if (reduction->after == LOGARITHM)
    return -HUGE_VAL;
  return reduction->after == DIVIDE ? (double)NAN : reduction->kind == BP_TE_PROD;
}

/* Reduces bool to its extremes, as the extremes of 0 and 1. */
static int reduce_bool(BpGraph *graph, BpGraphNode *node) {
  BpGraphValue *inputs[2] = {bp__op_cast(graph, node, node->inputs[0], BP__UINT8),
                             bp__node_input(node, 1)};
  BpGraphValue *out = bp__op_apply(graph, "", node->op->name, node->name, inputs, inputs[1] ? 2 : 1,
                                   node->attrs, node->num_attrs);
  node->outputs[0] = bp__op_cast(graph, node, out, BP__BOOL);
  return node->outputs[0] ? 0 : -1;
}

/* Sets a scalar to a number; a number beyond an integer type becomes the type's largest. */
static void put_number(BpGraphValue *scalar, double number) {
  BpDataType dtype = scalar->dtype;
  int32_t is_signed = dtype.code == BP_DTYPE_INT;
  uint64_t whole;
  if (bp__dtype_is_float(dtype)) {
    bp__value_put_float(scalar, 0, number);
    return;
  }
  whole = number >= ldexp(1, dtype.bits - is_signed) ? UINT64_MAX >> (64 - dtype.bits + is_signed)
                                                     : (uint64_t)(int64_t)number;
  memcpy(bp__graph_constant_data(scalar), &whole, (size_t)dtype.bits / 8);
}

/* Expands reductions of no elements, or of bool. */
BP_ROW_EXPAND(reduce) {
  const Reduction *reduction = find_reduction(node);
  BpGraphValue *out, *number;
  Axes axes;
  if (node->inputs[0]->dtype.code == BP_DTYPE_BOOL &&
      (reduction->kind == BP_TE_MAX || reduction->kind == BP_TE_MIN))
    return reduce_bool(graph, node);
  if (read_axes(node, &axes))
    return -1;
  if (axes.count != 0)
    return 1;
  if (bp__infer_reduce(graph, node))
    return -1;
  out = node->outputs[0];
  if (reduction->after == DIVIDE && !bp__dtype_is_float(out->dtype))
    return bp__op_error(node, "the mean of no integers is not a number");
  number = bp__graph_constant(graph, node->name, out->dtype, NULL, 0, NULL);
  if (!number)
    return -1;
  put_number(number, reduced_nothing(reduction, out->dtype));
  node->outputs[0] = bp__op_binary(graph, node, "Expand", number,
                                   bp__graph_int_vector(graph, out->shape, out->ndim));
  return node->outputs[0] ? 0 : -1;
}

typedef struct ReduceBody {
  const BpOpCompute *op;
  const Reduction *reduction;
  const Axes *axes;
  BpTeTensor *shift; /* LogSumExp: the largest element, which is subtracted first */
} ReduceBody;

/* The indices into the input: reduction axes for reduced axes, the axes of the output for
 * others. */
static int32_t input_indices(const BpOpCompute *op, const Axes *axes,
                             const BpIrNode *const *out_axes, const BpIrNode **indices,
                             const BpIrNode **reduce_axes) {
  const BpGraphValue *in = op->node->inputs[0];
  int32_t place = 0, count = 0;
  for (int32_t i = 0; i < in->ndim; i++) {
    if (axes->reduced[i]) {
      indices[i] = bp__op_reduce_axis(op, "k", in->shape[i]);
      reduce_axes[count++] = indices[i];
      place += axes->keepdims;
    } else {
      indices[i] = out_axes[place++];
    }
  }
  return count;
}

/* The largest element, or 0 if that is infinite: infinity minus itself would be NaN. */
static const BpIrNode *read_shift(BpTe *te, BpTeTensor *shift, const BpIrNode *const *axes) {
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *largest = bp_te_read(te, shift, axes);
  const BpIrNode *infinity = x_number(ir, x_dtype(largest), HUGE_VAL);
  return x_choose(ir, x_lt(ir, x_abs(ir, largest), infinity), largest,
                  x_number(ir, x_dtype(largest), 0));
}

static const BpIrNode *reduce_body(BpTe *te, const BpIrNode *const *out_axes, void *context) {
  const ReduceBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *reduce_axes[BP_GRAPH_MAX_NDIM], *value;
  int32_t count = input_indices(body->op, body->axes, out_axes, indices, reduce_axes);
  value = x_wide(ir, bp_te_read(te, body->op->inputs[0], indices));
  if (!value)
    return NULL;
  if (body->reduction->before == ABSOLUTE)
    value = x_abs(ir, value);
  else if (body->reduction->before == SQUARE)
    value = x_mul(ir, value, value);
  else if (body->reduction->before == EXPONENTIAL)
    value = x_call1(ir, "exp", x_sub(ir, value, read_shift(te, body->shift, out_axes)));
  return bp_te_reduce(te, body->reduction->kind, value, reduce_axes, count);
}

typedef struct FinishBody {
  const ReduceBody *reduce;
  BpTeTensor *reduced;
} FinishBody;

/* The open number of elements reduced into one, in the type of a value. */
static const BpIrNode *open_count(BpTe *te, const ReduceBody *body, BpDataType dtype) {
  const BpGraphValue *in = body->op->node->inputs[0];
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *count = x_index(ir, 1);
  for (int32_t i = 0; i < in->ndim; i++)
    if (body->axes->reduced[i])
      count = x_mul(ir, count, bp__op_extent(body->op, in->shape[i]));
  return bp_ir_cast(ir, dtype, count);
}

static const BpIrNode *finish_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const FinishBody *body = context;
  const ReduceBody *reduce = body->reduce;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *value = bp_te_read(te, body->reduced, axes);
  if (!value)
    return NULL;
  if (reduce->reduction->after == DIVIDE) {
    double count = (double)reduce->axes->count;
    if (count < 0)
      return x_div(ir, value, open_count(te, reduce, x_dtype(value)));
    return x_divide(ir, value, count);
  }
  if (reduce->reduction->after == ROOT)
    return x_call1(ir, "sqrt", value);
  value = x_call1(ir, "log", value);
  return reduce->shift ? x_add(ir, value, read_shift(te, reduce->shift, axes)) : value;
}

BP_ROW_COMPUTE(reduce) {
  const BpGraphValue *out = op->node->outputs[0];
  static const Reduction largest = {"max", BP_TE_MAX, PLAIN, NOTHING};
  Axes axes;
  ReduceBody body = {op, find_reduction(op->node), &axes, NULL};
  FinishBody finish = {&body, NULL};
  if (read_axes(op->node, &axes))
    return -1;
  if (body.reduction->before == EXPONENTIAL) {
    ReduceBody max_body = {op, &largest, &axes, NULL};
    body.shift = bp__op_tensor(op, "max", out->shape, out->ndim, reduce_body, &max_body);
    if (!body.shift)
      return -1;
  }
  finish.reduced = bp__op_tensor(op, "reduce", out->shape, out->ndim, reduce_body, &body);
  if (!finish.reduced || body.reduction->after == NOTHING)
    return bp__op_give(outputs, finish.reduced);
  return bp__op_give(
      outputs, bp__op_tensor(op, op->node->op->name, out->shape, out->ndim, finish_body, &finish));
}

/* Global pooling is a reduction over all axes but the first two. */
BP_ROW_EXPAND(global_pool) {
  const char *op = !strcmp(node->op->name, "GlobalMaxPool") ? "ReduceMax" : "ReduceMean";
  int64_t axes[BP_GRAPH_MAX_NDIM];
  BpGraphValue *inputs[2] = {node->inputs[0], NULL};
  if (node->inputs[0]->ndim < 3)
    return bp__op_bad(node, "its input has fewer than 3 dimensions");
  for (int32_t i = 2; i < node->inputs[0]->ndim; i++)
    axes[i - 2] = i;
  inputs[1] = bp__graph_int_vector(graph, axes, node->inputs[0]->ndim - 2);
  node->outputs[0] = bp__op_apply(graph, "", op, node->name, inputs, 2, NULL, 0);
  return node->outputs[0] ? 0 : -1;
}

/* GlobalLpPool is the p-norm over all axes but the first two. */
BP_ROW_EXPAND(global_lp_pool) {
  int64_t axes[BP_GRAPH_MAX_NDIM], p = bp__node_int(node, "p", 2);
  BpGraphValue *x = node->inputs[0], *list;
  if (bp__op_check_float(node))
    return -1;
  if (x->ndim < 3 || p < 1)
    return bp__op_bad(node, "its input has fewer than 3 dimensions, or p, %lld, is below 1",
                      (long long)p);
  for (int32_t i = 2; i < x->ndim; i++)
    axes[i - 2] = i;
  list = bp__graph_int_vector(graph, axes, x->ndim - 2);
  if (p <= 2) {
    node->outputs[0] = bp__op_binary(graph, node, p == 1 ? "ReduceL1" : "ReduceL2", x, list);
  } else {
    x = bp__op_cast(graph, node, x, bp_te_accumulator(x->dtype));
    x = bp__op_binary(graph, node, "Pow", bp__op_unary(graph, node, "Abs", x),
                      bp__op_number(graph, node, x->dtype, (double)p));
    x = bp__op_binary(graph, node, "ReduceSum", x, list);
    x = bp__op_binary(graph, node, "Pow", x, bp__op_number(graph, node, x->dtype, 1.0 / (double)p));
    node->outputs[0] = bp__op_cast(graph, node, x, node->inputs[0]->dtype);
  }
  return node->outputs[0] ? 0 : -1;
}

/* ---- ArgMax and ArgMin ------------------------------------------------------------------- */

static int arg_axes(const BpGraphNode *node, Axes *axes) {
  int32_t axis;
  memset(axes, 0, sizeof(*axes));
  if (bp__op_axis(node, bp__node_int(node, "axis", 0), node->inputs[0]->ndim, &axis))
    return -1;
  axes->reduced[axis] = 1;
  axes->keepdims = bp__node_int(node, "keepdims", 1) != 0;
  axes->count = node->inputs[0]->shape[axis];
  axes->extent = axes->count;
  if (bp__extent_is_open(axes->count))
    axes->count = -1;
  return 0;
}

BP_ROW_INFER(arg_reduce) {
  Axes axes;
  if (arg_axes(node, &axes) ||
      bp__op_require(graph, node, bp__extent_add(&graph->extents, axes.extent, -1),
                     "it reduces no elements"))
    return -1;
  return set_reduced(graph, node, &axes, BP__INT64);
}

/* Without elements the positions have no meaning; the node that reads them has no elements. */
BP_ROW_INFER(arg_reduce_or_nothing) {
  Axes axes;
  return arg_axes(node, &axes) ? -1 : set_reduced(graph, node, &axes, BP__INT64);
}

/* The index of the first (or last) element that equals the extreme in `shift`. NaN counts as the
 * extreme. */
static const BpIrNode *arg_body(BpTe *te, const BpIrNode *const *out_axes, void *context) {
  const ReduceBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  int last = bp__node_int(body->op->node, "select_last_index", 0) != 0;
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *axis[1], *value, *equal;
  input_indices(body->op, body->axes, out_axes, indices, axis);
  value = x_wide(ir, bp_te_read(te, body->op->inputs[0], indices));
  equal = bp_ir_binary(ir, BP_IR_EQ, value, bp_te_read(te, body->shift, out_axes));
  if (bp__dtype_is_float(x_dtype(value)))
    equal = bp_ir_binary(ir, BP_IR_OR, equal, bp_ir_binary(ir, BP_IR_NE, value, value));
  return bp_te_reduce(
      te, last ? BP_TE_MAX : BP_TE_MIN,
      bp_ir_select(ir, equal, axis[0],
                   last ? x_index(ir, 0)
                        : x_sub(ir, bp__op_extent(body->op, body->axes->extent), x_index(ir, 1))),
      axis, 1);
}

BP_ROW_COMPUTE(arg_reduce) {
  const BpGraphValue *out = op->node->outputs[0];
  Reduction extreme = {"extreme", BP_TE_MAX, PLAIN, NOTHING};
  Axes axes;
  ReduceBody body = {op, &extreme, &axes, NULL};
  if (arg_axes(op->node, &axes))
    return -1;
  if (!strcmp(op->node->op->name, "ArgMin"))
    extreme.kind = BP_TE_MIN;
  body.shift = bp__op_tensor(op, "extreme", out->shape, out->ndim, reduce_body, &body);
  if (!body.shift)
    return -1;
  return bp__op_give(outputs,
                     bp__op_tensor(op, op->node->op->name, out->shape, out->ndim, arg_body, &body));
}

/* ---- Softmax ----------------------------------------------------------------------------- */

/* The axes of a Softmax: before version 13 it works on all axes from `axis` on as one axis. */
static int softmax_axes(const BpGraphNode *node, Axes *axes) {
  int32_t axis, ndim = node->inputs[0]->ndim;
  memset(axes, 0, sizeof(*axes));
  if (bp__op_axis(node, bp__node_int(node, "axis", node->version < 13 ? 1 : -1), ndim, &axis))
    return -1;
  for (int32_t i = axis; i < (node->version < 13 ? ndim : axis + 1); i++)
    axes->reduced[i] = 1;
  axes->keepdims = 1;
  return 0;
}

BP_ROW_INFER(softmax) {
  const BpGraphValue *in = node->inputs[0];
  Axes axes;
  if (softmax_axes(node, &axes))
    return -1;
  if (!bp__dtype_is_float(in->dtype))
    return bp__op_bad(node, "its input is not of a float type");
  return bp__node_set_output(graph, node, 0, in->dtype, in->shape, in->ndim);
}

typedef struct SoftmaxBody {
  ReduceBody reduce;
  BpTeTensor *shifted; /* x - max, or the exponential of x - max */
  BpTeTensor *sum;
} SoftmaxBody;

/* Reads the element of a reduced tensor that belongs to the output's element. */
static const BpIrNode *read_reduced(BpTe *te, const SoftmaxBody *body, BpTeTensor *tensor,
                                    const BpIrNode *const *axes) {
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  for (int32_t i = 0; i < body->reduce.op->node->inputs[0]->ndim; i++)
    indices[i] = body->reduce.axes->reduced[i] ? x_index(bp_te_ir(te), 0) : axes[i];
  return bp_te_read(te, tensor, indices);
}

static int is_log(const SoftmaxBody *body) {
  return !strcmp(body->reduce.op->node->op->name, "LogSoftmax");
}

static const BpIrNode *shifted_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const SoftmaxBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *value = x_sub(ir, x_wide(ir, bp_te_read(te, body->reduce.op->inputs[0], axes)),
                                read_reduced(te, body, body->reduce.shift, axes));
  return is_log(body) ? value : x_call1(ir, "exp", value);
}

static const BpIrNode *softmax_sum_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const SoftmaxBody *body = context;
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *reduce_axes[BP_GRAPH_MAX_NDIM];
  int32_t count = input_indices(body->reduce.op, body->reduce.axes, axes, indices, reduce_axes);
  const BpIrNode *value = bp_te_read(te, body->shifted, indices);
  if (is_log(body))
    value = x_call1(bp_te_ir(te), "exp", value);
  return bp_te_reduce(te, BP_TE_SUM, value, reduce_axes, count);
}

static const BpIrNode *softmax_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const SoftmaxBody *body = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *value = bp_te_read(te, body->shifted, axes);
  const BpIrNode *sum = read_reduced(te, body, body->sum, axes);
  if (is_log(body))
    return x_sub(ir, value, x_call1(ir, "log", sum));
  return x_mul(ir, value, x_div(ir, x_number(ir, x_dtype(sum), 1), sum)); /* one division per row */
}

BP_ROW_COMPUTE(softmax) {
  const BpGraphValue *out = op->node->outputs[0];
  static const Reduction largest = {"max", BP_TE_MAX, PLAIN, NOTHING};
  int64_t reduced[BP_GRAPH_MAX_NDIM];
  Axes axes;
  SoftmaxBody body = {{op, &largest, &axes, NULL}, NULL, NULL};
  if (softmax_axes(op->node, &axes))
    return -1;
  for (int32_t i = 0; i < out->ndim; i++)
    reduced[i] = axes.reduced[i] ? 1 : out->shape[i];
  body.reduce.shift = bp__op_tensor(op, "max", reduced, out->ndim, reduce_body, &body.reduce);
  if (!body.reduce.shift)
    return -1;
  body.shifted = bp__op_tensor(op, "exp", out->shape, out->ndim, shifted_body, &body);
  if (!body.shifted)
    return -1;
  body.sum = bp__op_tensor(op, "sum", reduced, out->ndim, softmax_sum_body, &body);
  if (!body.sum)
    return -1;
  return bp__op_give(
      outputs, bp__op_tensor(op, op->node->op->name, out->shape, out->ndim, softmax_body, &body));
}

/* ---- CumSum and CumProd ------------------------------------------------------------------- */

static int running_axis(const BpGraphNode *node, int32_t *axis) {
  int64_t value;
  if (bp__op_const_ints(node, 1, &value, 1) != 1)
    return bp__op_error(node, "its axis must be a constant scalar");
  return bp__op_axis(node, value, node->inputs[0]->ndim, axis);
}

BP_ROW_INFER(running) {
  const BpGraphValue *in = node->inputs[0];
  int32_t axis;
  if (running_axis(node, &axis))
    return -1;
  return bp__node_set_output(graph, node, 0, in->dtype, in->shape, in->ndim);
}

typedef struct Running {
  const BpOpCompute *op;
  BpTeTensor *result; /* result of the elements before, in the accumulator's type */
  int is_product;
} Running;

/* The running result before the first element. */
static const BpIrNode *running_initial(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Running *running = context;
  (void)axes;
  return x_number(bp_te_ir(te), bp_te_accumulator(running->op->node->outputs[0]->dtype),
                  running->is_product);
}

/* Computes the result that includes the element, and the output: the new result or, if exclusive,
 * the previous one. */
static int running_body(BpTe *te, const BpIrNode *const *axes, void *context,
                        const BpIrNode **values) {
  const Running *running = context;
  const BpGraphNode *node = running->op->node;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *before = bp_te_read(te, running->result, axes);
  const BpIrNode *element = bp_te_read(te, running->op->inputs[0], axes);
  values[0] =
      bp_ir_binary(ir, running->is_product ? BP_IR_MUL : BP_IR_ADD, before, x_wide(ir, element));
  values[1] = bp_ir_cast(ir, node->outputs[0]->dtype,
                         bp__node_int(node, "exclusive", 0) ? before : values[0]);
  return values[1] ? 0 : -1;
}

/* With open extents, statements compute a row at a time, along the whole axis. */
typedef struct RunningRows {
  const BpOpCompute *op;
  int32_t axis;
} RunningRows;

static int running_rows_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                             BpTeTensor *const *tensors, void *context) {
  const RunningRows *running = context;
  const BpGraphNode *node = running->op->node;
  const BpGraphValue *out = node->outputs[0];
  BpIrModule *ir = bp_te_ir(te);
  int is_product = !strcmp(node->op->name, "CumProd");
  const BpIrNode *at[BP_GRAPH_MAX_NDIM],
      *extent = bp__op_extent(running->op, out->shape[running->axis]);
  const BpIrNode *result = bp_ir_block_variable(
      block, "result", x_number(ir, bp_te_accumulator(out->dtype), is_product));
  const BpIrNode *step = bp_ir_block_for(block, "k", x_index(ir, 0), extent);
  for (int32_t i = 0, row = 0; i < out->ndim; i++)
    at[i] = i != running->axis                 ? rows[row++]
            : bp__node_int(node, "reverse", 0) ? x_sub(ir, x_sub(ir, extent, x_index(ir, 1)), step)
                                               : step;
  const BpIrNode *before = bp_ir_block_let(block, "before", bp_ir_block_value(block, result));
  const BpIrNode *element = x_wide(ir, bp_te_read(te, running->op->inputs[0], at));
  const BpIrNode *after = bp_ir_block_let(
      block, "after", bp_ir_binary(ir, is_product ? BP_IR_MUL : BP_IR_ADD, before, element));
  bp_ir_block_assign(block, result, after);
  const BpIrNode *value = bp__node_int(node, "exclusive", 0) ? before : after;
  bp_ir_block_add(block, bp_te_write(te, tensors[0], at, bp_ir_cast(ir, out->dtype, value)));
  bp_ir_block_close(block);
  return 0;
}

static int compute_running_rows(const BpOpCompute *op, int32_t axis, BpTeTensor **outputs) {
  const BpGraphValue *out = op->node->outputs[0];
  BpTeResult result = {out->dtype, out->shape, out->ndim};
  int64_t rows[BP_GRAPH_MAX_NDIM];
  int32_t num_rows = 0;
  RunningRows running = {op, axis};
  for (int32_t i = 0; i < out->ndim; i++)
    if (i != axis)
      rows[num_rows++] = out->shape[i];
  return bp__op_statements(op, rows, num_rows, &result, 1, running_rows_body, &running, outputs);
}

BP_ROW_COMPUTE(running) {
  const BpGraphValue *out = op->node->outputs[0];
  Running running = {op, NULL, !strcmp(op->node->op->name, "CumProd")};
  BpTeTensor *each[2], *last[1];
  int32_t axis;
  if (running_axis(op->node, &axis))
    return -1;
  if (bp__value_is_open(out))
    return compute_running_rows(op, axis, outputs);
  BpTeScan *scan =
      bp__op_scan(op, out->shape, out->ndim, axis, bp__node_int(op->node, "reverse", 0) != 0);
  running.result = bp_te_scan_state(scan, "result", bp_te_accumulator(out->dtype),
                                    running.is_product ? running_initial : NULL, &running);
  if (!running.result || bp_te_scan_end(scan, running_body, &running, 2, each, last))
    return -1;
  return bp__op_give(outputs, each[1]);
}
