/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only look at shapes: views of the same bytes, and values known when compiling. */
#include <float.h>
#include <math.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* ---- Views ------------------------------------------------------------------------------- */

static int set_view(BpGraph *graph, BpGraphNode *node, const int64_t *shape, int32_t ndim) {
  const BpGraphValue *in = node->inputs[0];
  BpExtents *extents = &graph->extents;
  char from[BP_VALUE_TEXT], to[BP_VALUE_TEXT];
  if (bp__node_set_output(graph, node, 0, in->dtype, shape, ndim))
    return -1;
  const BpGraphValue *out = node->outputs[0];
  if (!bp__value_is_open(in) && !bp__value_is_open(out))
    return bp__value_num_elements(in) == bp__value_num_elements(out)
               ? 0
               : bp__op_bad(node, "%s cannot take the shape of %s", bp__value_format(in, from),
                            bp__value_format(out, to));
  int64_t before = bp__extent_product(extents, in->shape, in->ndim);
  int64_t after = bp__extent_product(extents, shape, ndim);
  if (before == BP_EXTENT_NONE || after == BP_EXTENT_NONE)
    return -1;
  if (before == after)
    return 0;
  return bp__op_error(node,
                      "it makes %s elements of %s, and whether these are as many is known when "
                      "the model runs alone",
                      bp__extent_format(extents, after, to, sizeof(to)),
                      bp__extent_format(extents, before, from, sizeof(from)));
}

/* The extent that -1 stands for in a shape whose other extents are `known` elements, where the
 * input has `total`. Extents that 0 copies count in neither: they may be 0. */
static int64_t remaining_extent(BpGraph *graph, const BpGraphNode *node, int64_t total,
                                int64_t known) {
  int status = 0;
  if (known == 0)
    status = bp__op_bad(node, "its shape has an extent of 0, so any extent would do for the -1");
  else if (bp__extent_is_open(known) && !bp__extent_divides(&graph->extents, total, known))
    status = bp__op_error(node, "whether the extents of its shape divide the number of its "
                                "elements is known only when the model runs");
  return status < 0 ? BP_EXTENT_NONE : bp__extent_divide(&graph->extents, total, known);
}

/* Reshape: 0 copies the extent of the input (unless allowzero), -1 stands for the remaining
 * extent. */
BP_ROW_INFER(reshape) {
  const BpGraphValue *in = node->inputs[0];
  BpExtents *extents = &graph->extents;
  int64_t shape[BP_GRAPH_MAX_NDIM], known = 1, total = 1;
  int32_t ndim = bp__node_input(node, 1) ? bp__op_const_extents(node, 1, shape, BP_GRAPH_MAX_NDIM)
                                         : bp__op_ints(node, -1, "shape", shape, BP_GRAPH_MAX_NDIM);
  int32_t open = -1;
  if (ndim == -2)
    return bp__op_bad(node, "it has no shape");
  if (ndim < 0)
    return -1;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 0 && !bp__node_int(node, "allowzero", 0)) {
      if (i >= in->ndim)
        return bp__op_bad(node, "extent %d is 0, which copies one that the input lacks", i);
      shape[i] = in->shape[i];
      continue;
    }
    if (i < in->ndim)
      total = bp__extent_multiply(extents, total, in->shape[i]);
    if (shape[i] == -1 && open >= 0)
      return bp__op_bad(node, "its shape has more than one -1");
    if (shape[i] == -1)
      open = i;
    else if (shape[i] < 0 && !bp__extent_is_open(shape[i]))
      return bp__op_bad(node, "extent %d of its shape is %lld", i, (long long)shape[i]);
    else if ((known = bp__extent_multiply(extents, known, shape[i])) == BP_EXTENT_NONE)
      return bp_error_add_context("extent %d of the shape of node '%s'", i, node->name);
  }
  for (int32_t i = ndim; i < in->ndim; i++)
    total = bp__extent_multiply(extents, total, in->shape[i]);
  if (open >= 0)
    shape[open] = remaining_extent(graph, node, total, known);
  if (open >= 0 && shape[open] == BP_EXTENT_NONE)
    return -1;
  return set_view(graph, node, shape, ndim);
}

BP_ROW_INFER(flatten) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[2] = {1, 1}, axis = bp__node_int(node, "axis", 1);
  axis = axis < 0 ? axis + in->ndim : axis;
  if (axis < 0 || axis > in->ndim)
    return bp__op_bad(node, "axis is outside a tensor of %d dimensions", in->ndim);
  for (int32_t i = 0; i < in->ndim; i++)
    shape[i >= axis] = bp__extent_multiply(&graph->extents, shape[i >= axis], in->shape[i]);
  return set_view(graph, node, shape, 2);
}

/* Marks in `chosen` the given axes of a tensor of `ndim` dimensions. */
static int choose_axes(const BpGraphNode *node, const int64_t *axes, int32_t count, int32_t ndim,
                       int *chosen) {
  memset(chosen, 0, (size_t)ndim * sizeof(*chosen));
  for (int32_t i = 0; i < count; i++) {
    int32_t axis;
    if (bp__op_axis(node, axes[i], ndim, &axis))
      return -1;
    if (chosen[axis])
      return bp__op_bad(node, "axis %d occurs twice", axis);
    chosen[axis] = 1;
  }
  return 0;
}

BP_ROW_INFER(squeeze) {
  const BpGraphValue *in = node->inputs[0];
  int64_t axes[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM];
  int chosen[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, 1, "axes", axes, BP_GRAPH_MAX_NDIM), ndim = 0;
  if (count == -1 || choose_axes(node, axes, count < 0 ? 0 : count, in->ndim, chosen))
    return -1;
  for (int32_t i = 0; i < in->ndim; i++) {
    int drop = count == -2 ? in->shape[i] == 1 : chosen[i];
    if (bp__extent_is_open(in->shape[i]) && (drop || count == -2))
      return bp__op_error(node,
                          "the extent of axis %d is open, and it must be known to be 1 or not", i);
    if (drop && in->shape[i] != 1)
      return bp__op_bad(node, "axis %d has extent %lld, not 1", i, (long long)in->shape[i]);
    if (!drop)
      shape[ndim++] = in->shape[i];
  }
  return set_view(graph, node, shape, ndim);
}

BP_ROW_INFER(unsqueeze) {
  const BpGraphValue *in = node->inputs[0];
  int64_t axes[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM];
  int chosen[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, 1, "axes", axes, BP_GRAPH_MAX_NDIM), from = 0;
  if (count == -1)
    return -1;
  if (count == -2)
    return bp__op_bad(node, "it has no axes");
  if (in->ndim + count > BP_GRAPH_MAX_NDIM)
    return bp__op_error(node, "its output has more than %d dimensions", BP_GRAPH_MAX_NDIM);
  if (choose_axes(node, axes, count, in->ndim + count, chosen))
    return -1;
  for (int32_t i = 0; i < in->ndim + count; i++)
    shape[i] = chosen[i] ? 1 : in->shape[from++];
  return set_view(graph, node, shape, in->ndim + count);
}

BP_ROW_FOLD(view) {
  (void)graph;
  node->outputs[0]->data = node->inputs[0]->data;
  return node->outputs[0]->data ? 0 : 1;
}

BP_ROW_EXPAND(identity) {
  node->outputs[0] = node->inputs[0];
  for (int32_t i = 1; i < node->num_outputs; i++)
    if (node->outputs[i])
      return bp__op_error(node, "its output %d is used", i);
  (void)graph;
  return 0;
}

/* Dropout returns its input: training mode is not supported. */
BP_ROW_EXPAND(dropout) {
  const BpGraphValue *training = bp__node_input(node, 2);
  if (training && (!training->data || bp__value_get_int(training, 0)))
    return bp__op_error(node, "its training mode is not a constant false");
  node->outputs[0] = node->inputs[0];
  if (node->num_outputs == 1)
    return 0;
  /* The mask of Dropout is all true; before version 10 it has the type of the input. */
  BpGraphValue *kept = bp__graph_float_scalar(graph, 1.0f);
  BpDataType dtype = node->version < 10 ? node->inputs[0]->dtype : BP__BOOL;
  BpGraphValue *inputs[] = {
      bp__op_cast(graph, node, kept, dtype),
      bp__op_extents(graph, node, node->inputs[0]->shape, node->inputs[0]->ndim)};
  node->outputs[1] = bp__op_apply(graph, "", "Expand", node->name, inputs, 2, NULL, 0);
  return node->outputs[1] ? 0 : -1;
}

/* ---- Shapes as values -------------------------------------------------------------------- */

static int64_t clamp_axis(int64_t axis, int32_t ndim) {
  axis = axis < 0 ? axis + ndim : axis;
  return axis < 0 ? 0 : axis > ndim ? ndim : axis;
}

BP_ROW_INFER(shape) {
  int32_t ndim = node->inputs[0]->ndim;
  int64_t start = clamp_axis(bp__node_int(node, "start", 0), ndim);
  int64_t end = clamp_axis(bp__node_int(node, "end", ndim), ndim);
  int64_t count = end > start ? end - start : 0;
  return bp__node_set_output(graph, node, 0, BP__INT64, &count, 1);
}

BP_ROW_FOLD(shape) {
  const BpGraphValue *in = node->inputs[0];
  int64_t start = clamp_axis(bp__node_int(node, "start", 0), in->ndim);
  int64_t *data = bp__arena_alloc_array(&graph->arena, BP_GRAPH_MAX_NDIM, sizeof(*data));
  if (!data)
    return -1;
  memcpy(data, in->shape + start, (size_t)node->outputs[0]->shape[0] * sizeof(*data));
  return bp__op_give_extents(graph, node, data);
}

BP_ROW_INFER(size) {
  return bp__node_set_output(graph, node, 0, BP__INT64, NULL, 0);
}

BP_ROW_FOLD(size) {
  const BpGraphValue *in = node->inputs[0];
  int64_t *data = bp__arena_alloc(&graph->arena, sizeof(*data));
  if (!data)
    return -1;
  *data = bp__value_is_open(in) ? bp__extent_product(&graph->extents, in->shape, in->ndim)
                                : bp__value_num_elements(in);
  return *data == BP_EXTENT_NONE ? -1 : bp__op_give_extents(graph, node, data);
}

/* ---- Constants --------------------------------------------------------------------------- */

static BpGraphValue *constant_from_numbers(BpGraph *graph, BpGraphNode *node,
                                           const BpGraphAttr *attr) {
  int is_float = attr->floats != NULL;
  int32_t ndim = attr->type == BP_GRAPH_ATTR_FLOATS || attr->type == BP_GRAPH_ATTR_INTS;
  int64_t count = attr->count;
  return bp__graph_constant(graph, node->name, is_float ? BP__FLOAT32 : BP__INT64, &count, ndim,
                            is_float ? (const void *)attr->floats : attr->ints);
}

BP_ROW_EXPAND(constant) {
  const BpGraphAttr *attr = node->num_attrs == 1 ? &node->attrs[0] : NULL;
  if (!attr)
    return bp__op_bad(node, "it has %d attributes instead of one", node->num_attrs);
  node->outputs[0] = attr->tensor                 ? attr->tensor
                     : attr->ints || attr->floats ? constant_from_numbers(graph, node, attr)
                                                  : NULL;
  if (!node->outputs[0])
    return bp__op_error(node, "a constant given by attribute '%s' is not supported", attr->name);
  return 0;
}

/* ConstantOfShape broadcasts a constant of one element. */
BP_ROW_EXPAND(constant_of_shape) {
  const BpGraphAttr *attr = bp__node_attr(node, "value");
  BpGraphValue *value = attr ? attr->tensor : bp__graph_float_scalar(graph, 0.0f);
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim = bp__op_const_extents(node, 0, shape, BP_GRAPH_MAX_NDIM);
  BpGraphValue *filled;
  if (ndim < 0 || !value)
    return -1;
  if (bp__value_num_elements(value) != 1)
    return bp__op_bad(node, "its value has more than one element");
  if (bp__extents_any_open(shape, ndim) || value->dtype.bits < 8) { /* elements share bytes */
    value = bp__op_reshape(graph, node, value, NULL, 0);
    node->outputs[0] = bp__op_binary(graph, node, "Expand", value, node->inputs[0]);
    return node->outputs[0] ? 0 : -1;
  }
  filled = bp__graph_constant(graph, node->name, value->dtype, shape, ndim, NULL);
  if (!filled)
    return -1;
  for (int64_t i = 0, n = bp__value_num_elements(filled); i < n; i++) {
    size_t size = (size_t)(bp__value_num_bytes(filled) / n);
    memcpy((char *)bp__graph_constant_data(filled) + (size_t)i * size, value->data, size);
  }
  node->outputs[0] = filled;
  return 0;
}

/* The number of elements of an integer range, computed in integers, because doubles would lose
 * digits; -1 without an error for too many elements, or a step of 0. */
static int64_t int_range_count(const int64_t bounds[3]) {
  int64_t start = bounds[0], limit = bounds[1], step = bounds[2];
  uint64_t distance =
      step > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t length = step > 0 ? (uint64_t)step : -(uint64_t)step, count;
  if (step == 0)
    return -1;
  if (step > 0 ? limit <= start : limit >= start)
    return 0;
  count = (distance - 1) / length + 1;
  return count > INT32_MAX ? -1 : (int64_t)count;
}

static int64_t float_range_count(const double bounds[3]) {
  double count = ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (!isfinite(count) || count > (double)INT32_MAX)
    return -1;
  return count > 0 ? (int64_t)count : 0;
}

static void fill_int_range(BpGraphValue *range, int64_t start, int64_t step, int64_t count) {
  char *data = bp__graph_constant_data(range);
  size_t size = bp_dtype_bytes(range->dtype);
  for (int64_t i = 0; i < count; i++) {
    uint64_t value = (uint64_t)start + (uint64_t)i * (uint64_t)step;
    int32_t narrow = (int32_t)value;
    int16_t narrower = (int16_t)value;
    memcpy(data + (size_t)i * size,
           size == 8   ? (const void *)&value
           : size == 4 ? (const void *)&narrow
                       : &narrower,
           size);
  }
}

static void fill_float_range(BpGraphValue *range, double start, double step, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    bp__value_put_float(range, i, start + step * (double)i);
}

/* ---- A range whose bounds only a run knows ------------------------------------------------ */

/* Start, limit and step as vectors of one element, of the type in which the range is computed. */
typedef struct Bounds {
  BpGraph *graph;
  const BpGraphNode *node;
  BpDataType dtype;
  BpGraphValue *start, *limit, *step;
} Bounds;

static BpGraphValue *bound_of(const Bounds *b, int32_t input) {
  int64_t one = 1;
  BpGraphValue *value = bp__op_reshape(b->graph, b->node, b->node->inputs[input], &one, 1);
  return bp__op_cast(b->graph, b->node, value, b->dtype);
}

static BpGraphValue *combine(const Bounds *b, const char *op, BpGraphValue *x, BpGraphValue *y) {
  return bp__op_binary(b->graph, b->node, op, x, y);
}

static BpGraphValue *pick(const Bounds *b, BpGraphValue *condition, BpGraphValue *x,
                          BpGraphValue *y) {
  return bp__op_apply(b->graph, "", "Where", b->node->name, (BpGraphValue *[]){condition, x, y}, 3,
                      NULL, 0);
}

static BpGraphValue *integer(const Bounds *b, int64_t value) {
  return bp__graph_int_vector(b->graph, &value, 1);
}

static BpGraphValue *real(const Bounds *b, double value) {
  int64_t one = 1;
  BpGraphValue *constant = bp__graph_constant(b->graph, b->node->name, b->dtype, &one, 1, NULL);
  if (constant)
    bp__value_put_float(constant, 0, value);
  return constant;
}

/* The number of integers in the range; -1 for a step of 0, or a distance beyond int64. */
static BpGraphValue *count_of_integers(const Bounds *b) {
  BpGraphValue *zero = integer(b, 0), *distance = combine(b, "Sub", b->limit, b->start);
  BpGraphValue *rises = combine(b, "Greater", b->step, zero);
  BpGraphValue *is_more = combine(b, "Greater", b->limit, b->start);
  BpGraphValue *is_less = combine(b, "Less", b->limit, b->start);
  BpGraphValue *steps = combine(b, "Div", distance, b->step);
  BpGraphValue *rest = combine(b, "Sub", distance, combine(b, "Mul", steps, b->step));
  BpGraphValue *count =
      combine(b, "Add", steps, pick(b, combine(b, "Equal", rest, zero), zero, integer(b, 1)));
  count = pick(b, pick(b, rises, is_more, is_less), count, zero);
  BpGraphValue *wraps = combine(b, "Xor", is_more, combine(b, "Greater", distance, zero));
  BpGraphValue *is_none = combine(b, "Or", wraps, combine(b, "Equal", b->step, zero));
  return pick(b, is_none, integer(b, -1), count);
}

/* The number of floats in the range; -1 if the quotient is NaN. */
static BpGraphValue *count_of_numbers(const Bounds *b) {
  BpGraphValue *count = combine(b, "Div", combine(b, "Sub", b->limit, b->start), b->step);
  count = bp__op_unary(b->graph, b->node, "Ceil", count);
  BpGraphValue *is_some = combine(b, "And", combine(b, "LessOrEqual", count, real(b, INT32_MAX)),
                                  combine(b, "GreaterOrEqual", count, real(b, -DBL_MAX)));
  count = combine(b, "Max", pick(b, is_some, count, real(b, 0)), real(b, 0));
  return pick(b, is_some, bp__op_cast(b->graph, b->node, count, BP__INT64), integer(b, -1));
}

static int range_of_data(BpGraph *graph, BpGraphNode *node, int is_int) {
  Bounds b = {graph, node, is_int ? BP__INT64 : BP__FLOAT64, 0, 0, 0};
  b.start = bound_of(&b, 0);
  b.limit = bound_of(&b, 1);
  b.step = bound_of(&b, 2);
  BpGraphValue *count = is_int ? count_of_integers(&b) : count_of_numbers(&b);
  count = pick(&b, combine(&b, "Greater", count, integer(&b, INT32_MAX)), integer(&b, -1), count);
  count = bp__op_bind(graph, node, count, NULL,
                      "its step is 0, or it has more elements than an int32 counts");
  if (!count)
    return -1;
  int64_t extent = count->extents ? count->extents[0] : bp__value_get_int(count, 0);
  BpGraphValue *places = bp__op_cast(graph, node, bp__op_counting(graph, node, extent), b.dtype);
  node->outputs[0] =
      bp__op_cast(graph, node, combine(&b, "Add", b.start, combine(&b, "Mul", places, b.step)),
                  node->inputs[0]->dtype);
  return node->outputs[0] ? 0 : -1;
}

/* An int64 range whose end is open. */
static int open_range(BpGraph *graph, BpGraphNode *node) {
  BpExtents *extents = &graph->extents;
  int64_t bounds[3];
  for (int32_t i = 0; i < 3; i++)
    if (bp__op_const_extents(node, i, &bounds[i], 1) != 1)
      return -1;
  if (bp__extent_is_open(bounds[2]) || bounds[2] < 1)
    return range_of_data(graph, node, 1);
  int64_t distance = bp__extent_subtract(extents, bounds[1], bounds[0]);
  distance = bp__extent_max(extents, distance, 0);
  BpGraphAttr attrs[] = {
      bp__attr_int(graph, "start", bounds[0]), bp__attr_int(graph, "step", bounds[2]),
      bp__attr_int(
          graph, "count",
          bp__extent_divide(extents, bp__extent_add(extents, distance, bounds[2] - 1), bounds[2]))};
  node->outputs[0] = bp__op_apply(graph, "backplane", "Counting", node->name, NULL, 0, attrs, 3);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_INFER(counting) {
  int64_t count = bp__node_int(node, "count", 0);
  return bp__node_set_output(graph, node, 0, BP__INT64, &count, 1);
}

static const BpIrNode *counting_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  return x_add(ir, bp__op_extent(op, bp__node_int(op->node, "start", 0)),
               x_mul(ir, axes[0], x_index(ir, bp__node_int(op->node, "step", 1))));
}

BP_ROW_COMPUTE(counting) {
  return bp__op_give_body(op, "counting", counting_body, outputs);
}

static bool is_range_of_data(const BpGraphNode *node) {
  bool is_any = false;
  for (int32_t i = 0; i < 3; i++)
    is_any |= !node->inputs[i]->data && !node->inputs[i]->extents;
  return is_any;
}

BP_ROW_EXPAND(range) {
  BpDataType dtype = node->inputs[0]->dtype;
  int is_int = dtype.code == BP_DTYPE_INT && dtype.bits >= 16;
  int64_t ints[3], count;
  double floats[3];
  for (int32_t i = 0; i < 3; i++) {
    if (bp__value_num_elements(node->inputs[i]) != 1)
      return bp__op_bad(node, "input %d is no scalar", i);
    if (!bp__dtype_equal(node->inputs[i]->dtype, dtype))
      return bp__op_bad(node, "inputs 0 and %d differ in type", i);
  }
  if (!is_int && !bp__dtype_is_float(dtype))
    return bp__op_error(node, "a range of this type is not supported");
  if (is_range_of_data(node))
    return range_of_data(graph, node, is_int);
  for (int32_t i = 0; i < 3; i++) {
    if (node->inputs[i]->extents)
      return open_range(graph, node);
    floats[i] = bp__value_get_float(node->inputs[i], 0);
    ints[i] = is_int ? bp__value_get_int(node->inputs[i], 0) : 0;
  }
  count = is_int ? int_range_count(ints) : float_range_count(floats);
  if (count < 0)
    return bp__op_bad(node, "from %g to %g by %g is no range", floats[0], floats[1], floats[2]);
  node->outputs[0] = bp__graph_constant(graph, node->name, dtype, &count, 1, NULL);
  if (!node->outputs[0])
    return -1;
  if (is_int)
    fill_int_range(node->outputs[0], ints[0], ints[2], count);
  else
    fill_float_range(node->outputs[0], floats[0], floats[2], count);
  return 0;
}
