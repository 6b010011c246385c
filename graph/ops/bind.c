/* SPDX-License-Identifier: Apache-2.0 */
/* Extents that depend on the data. A run computes extents as a vector of int64, and the node Bind
 * makes the vector's elements extents: new symbols. A negative element is an error of the run; the
 * computations of extents return -1 for an impossible shape. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

bool bp__op_is_bind(const BpGraphNode *node) {
  return node->op->infer == bp__infer_bind;
}

BP_ROW_INFER(bind) {
  (void)graph;
  return bp__op_bad(node, "passes make this operator, and models do not have it");
}

/* The maximum number of elements of a vector that a run binds (graph/relax/builtin.c). */
#define MAX_BOUND 64

/* ---- Symbols ----------------------------------------------------------------------------- */

/* The likely value of a bound extent, for which functions are scheduled. */
#define LIKELY_EXTENT 64

int64_t bp__op_new_symbol(BpGraph *graph, const BpGraphNode *node) {
  int32_t count = bp__extents_count(&graph->extents);
  for (int32_t i = count;; i++) {
    const char *key = bp__arena_printf(&graph->arena, "%s.%d", node->name, i);
    int64_t symbol =
        key ? bp__extent_make_symbol(&graph->extents, key, LIKELY_EXTENT) : BP_EXTENT_NONE;
    if (symbol == BP_EXTENT_NONE || bp__extents_count(&graph->extents) > count)
      return symbol;
  }
}

/* The given elements, with new symbols for elements that are BP_EXTENT_NONE. */
static int64_t *name_elements(BpGraph *graph, const BpGraphNode *node, const int64_t *given,
                              int64_t count) {
  int64_t *elements = bp__arena_alloc_array(&graph->arena, (size_t)count + 1, sizeof(*elements));
  for (int64_t i = 0; i < count && elements; i++) {
    elements[i] = given && given[i] != BP_EXTENT_NONE ? given[i] : bp__op_new_symbol(graph, node);
    if (elements[i] == BP_EXTENT_NONE)
      return NULL;
  }
  return elements;
}

static int check_can_bind(const BpGraph *graph, const BpGraphNode *node) {
  return graph->extents.arena
             ? 0
             : bp__op_error(node, "the shape of its output depends on the data, which needs one "
                                  "--target");
}

/* Whether a run need not check the vector. */
static bool is_settled(BpGraph *graph, const BpGraphValue *vector) {
  for (int64_t i = 0; vector->extents && i < bp__value_num_elements(vector); i++)
    if (!bp__extent_at_least(&graph->extents, vector->extents[i], 0))
      return false;
  return vector->data || vector->extents;
}

/* Whether a constant has the given elements, and no negative one. */
static bool is_as_given(const BpGraphValue *vector, const int64_t *given) {
  for (int64_t i = 0; i < bp__value_num_elements(vector); i++) {
    int64_t element = bp__value_get_int(vector, i);
    bool is_known = given && given[i] != BP_EXTENT_NONE && !bp__extent_is_open(given[i]);
    if (element < 0 || (is_known && element != given[i]))
      return false;
  }
  return true;
}

BpGraphValue *bp__op_bind(BpGraph *graph, const BpGraphNode *node, BpGraphValue *vector,
                          const int64_t *given, const char *complaint) {
  if (!vector)
    return NULL;
  if (bp__value_is_open(vector)) {
    bp__op_error(node, "how many extents depend on the data is open");
    return NULL;
  }
  if (vector->data && !is_as_given(vector, given)) {
    bp__op_bad(node, "%s", complaint);
    return NULL;
  }
  if (is_settled(graph, vector))
    return vector;
  if (check_can_bind(graph, node))
    return NULL;
  given = vector->extents ? vector->extents : given;
  int64_t *elements = name_elements(graph, node, given, bp__value_num_elements(vector));
  const char *text =
      bp__arena_printf(&graph->arena, "node '%s' (%s): %s", node->name, node->op->name, complaint);
  if (!elements || !text)
    return NULL;
  BpGraphAttr attr = {.name = "complaint", .type = BP_GRAPH_ATTR_STRING, .str = text};
  BpGraphNode *bind =
      bp__graph_node(graph, bp__op_find("backplane", "Bind"), node->name, &vector, 1, 1, &attr, 1);
  if (!bind || bp__node_set_output(graph, bind, 0, BP__INT64, vector->shape, vector->ndim))
    return NULL;
  bind->is_kept = 1;
  bind->outputs[0]->extents = elements;
  return bp__list_push(&graph->nodes, bind) ? NULL : bind->outputs[0];
}

/* ---- Conditions -------------------------------------------------------------------------- */

static bool is_required(const BpGraph *graph, int64_t extent) {
  for (size_t i = 0; i < graph->conditions.size; i++)
    if (((const BpGraphCondition *)graph->conditions.items[i])->extent == extent)
      return true;
  return false;
}

int bp__op_require(BpGraph *graph, const BpGraphNode *node, int64_t extent, const char *complaint) {
  if (extent == BP_EXTENT_NONE)
    return -1;
  if (!bp__extent_is_open(extent) && extent < 0)
    return bp__op_bad(node, "%s", complaint);
  if (bp__extent_at_least(&graph->extents, extent, 0) || is_required(graph, extent))
    return 0;
  BpGraphCondition *condition = bp__arena_alloc(&graph->arena, sizeof(*condition));
  if (!condition)
    return -1;
  condition->extent = extent;
  condition->complaint =
      bp__arena_printf(&graph->arena, "node '%s' (%s): %s", node->name, node->op->name, complaint);
  /* A body may not run at all, and a requirement made in it would hold outside it, too. */
  if (!graph->outer)
    bp__extent_require(&graph->extents, extent);
  return condition->complaint ? bp__list_push(&graph->conditions, condition) : -1;
}

/* ---- Vectors ----------------------------------------------------------------------------- */

/* The vector with `count` ones before it. */
static BpGraphValue *after_ones(BpVectorMaker m, BpGraphValue *vector, int64_t count) {
  int64_t ones[BP_GRAPH_MAX_NDIM];
  for (int64_t i = 0; i < count; i++)
    ones[i] = 1;
  if (count == 0)
    return vector;
  return v_join(m, (BpGraphValue *[]){bp__graph_int_vector(m.graph, ones, count), vector}, 2);
}

BpGraphValue *bp__vector_read(BpVectorMaker m, int32_t input, int32_t max, int64_t *count) {
  return bp__vector_read_as(m, input, max, -1, count);
}

BpGraphValue *bp__vector_read_as(BpVectorMaker m, int32_t input, int32_t max, int64_t length,
                                 int64_t *count) {
  BpGraphValue *value = bp__node_input(m.node, input);
  *count = -1;
  if (!value)
    return NULL;
  if (value->dtype.code != BP_DTYPE_INT || value->ndim > 1) {
    bp__op_bad(m.node, "input %d is no vector of integers", input);
    return NULL;
  }
  if (bp__value_is_open(value) && length >= 0 &&
      !(value = bp__op_as_shape(m.graph, m.node, value, &length,
                                "an input has another number of elements than the others ask for")))
    return NULL;
  if (bp__value_is_open(value) || bp__value_num_elements(value) > max) {
    bp__op_error(m.node, "input %d has an open length, or more than %d elements", input, max);
    return NULL;
  }
  *count = bp__value_num_elements(value);
  return bp__op_cast(m.graph, m.node, bp__op_reshape(m.graph, m.node, value, count, 1), BP__INT64);
}

bool bp__vector_is_of_data(const BpGraphNode *node, int32_t input) {
  const BpGraphValue *value = bp__node_input(node, input);
  return value && !value->data && !value->extents;
}

int bp__vector_replace(BpVectorMaker m, BpGraphNode *node, const char *op, BpGraphValue *vector,
                       const BpGraphAttr *attrs, int32_t num_attrs) {
  node->outputs[0] = bp__op_apply(m.graph, "backplane", op, node->name,
                                  (BpGraphValue *[]){node->inputs[0], vector}, 2, attrs, num_attrs);
  return node->outputs[0] ? 1 : -1;
}

/* ---- Reshape ----------------------------------------------------------------------------- */

/* The extents that 0 copies in a Reshape: the input's extents; a 0 beyond the input's dimensions
 * copies `beyond`. */
static BpGraphValue *copied_extents(BpVectorMaker m, int64_t count, int64_t beyond) {
  const BpGraphValue *in = m.node->inputs[0];
  int64_t extents[BP_GRAPH_MAX_NDIM];
  for (int64_t i = 0; i < count; i++)
    extents[i] = i < in->ndim ? in->shape[i] : beyond;
  return v_extents(m, extents, count);
}

/* The product of the elements where `is_one` is false. */
static BpGraphValue *product_without(BpVectorMaker m, BpGraphValue *is_one, BpGraphValue *vector) {
  return v_reduce(m, "ReduceProd", v_choose(m, is_one, v_number(m, 1), vector));
}

/* The extent that -1 stands for. Extents that 0 copies do not matter: they may be 0. If another
 * extent is 0, the result is -1, because any extent would do. */
static BpGraphValue *remaining_extent(BpVectorMaker m, BpGraphValue *shape, int64_t count,
                                      BpGraphValue *is_copied, BpGraphValue *is_rest) {
  const BpGraphValue *in = m.node->inputs[0];
  int64_t tail = 1;
  if (count < in->ndim)
    tail = bp__extent_product(&m.graph->extents, in->shape + count, in->ndim - (int32_t)count);
  if (tail == BP_EXTENT_NONE)
    return NULL;
  BpGraphValue *elements = v_binary(
      m, "Mul", product_without(m, is_copied, copied_extents(m, count, 1)), v_extents(m, &tail, 1));
  BpGraphValue *known = product_without(m, v_binary(m, "Or", is_copied, is_rest), shape);
  return v_choose(m, v_binary(m, "Equal", known, v_number(m, 0)), v_number(m, -1),
                  v_binary(m, "Div", elements, v_greatest(m, known, v_number(m, 1))));
}

/* The elements of a vector that are known when compiling, or NULL. */
static const int64_t *known_elements(BpGraph *graph, const BpGraphValue *vector) {
  if (!vector || !vector->data)
    return vector ? vector->extents : NULL;
  int64_t count = bp__value_num_elements(vector);
  int64_t *known = bp__arena_alloc_array(&graph->arena, (size_t)count + 1, sizeof(*known));
  for (int64_t i = 0; known && i < count; i++) {
    int64_t element = bp__value_get_int(vector, i);
    known[i] = element < 0 ? BP_EXTENT_NONE : element;
  }
  return known;
}

/* The shape that a Reshape gives, or negative extents if the wanted shape is impossible; *given are
 * the known elements, or NULL. */
static BpGraphValue *reshaped(BpVectorMaker m, BpGraphValue *shape, int64_t count,
                              const int64_t **given) {
  const BpGraphValue *in = m.node->inputs[0];
  int64_t all = bp__extent_product(&m.graph->extents, in->shape, in->ndim);
  BpGraphValue *total = all == BP_EXTENT_NONE ? NULL : v_extents(m, &all, 1);
  BpGraphValue *is_copied = v_binary(m, "Equal", shape, v_number(m, 0));
  if (bp__node_int(m.node, "allowzero", 0))
    is_copied = v_binary(m, "And", is_copied, v_binary(m, "Equal", shape, v_number(m, 1)));
  BpGraphValue *is_rest = v_binary(m, "Equal", shape, v_number(m, -1));
  BpGraphValue *rest = remaining_extent(m, shape, count, is_copied, is_rest);
  shape = v_choose(m, is_copied, copied_extents(m, count, -2), shape);
  shape = v_choose(m, is_rest, rest, shape);
  *given = known_elements(m.graph, shape);
  BpGraphValue *is_one = v_binary(
      m, "Less", v_reduce(m, "ReduceSum", bp__op_cast(m.graph, m.node, is_rest, BP__INT64)),
      v_number(m, 2));
  BpGraphValue *fits = v_binary(m, "Equal", v_reduce(m, "ReduceProd", shape), total);
  return v_choose(m, v_binary(m, "And", is_one, fits), shape, v_number(m, -1));
}

static int bind_reshape(BpVectorMaker m, BpGraphNode *node) {
  const int64_t *given = NULL;
  int64_t count;
  BpGraphValue *shape = bp__vector_read(m, 1, BP_GRAPH_MAX_NDIM, &count);
  if (!shape)
    return -1;
  if (count == 0)
    return bp__op_error(node, "its shape, which depends on the data, has no elements");
  shape = reshaped(m, shape, count, &given);
  shape = bp__op_bind(m.graph, node, shape, given,
                      "the elements of its input do not have the shape that it asks for");
  return bp__vector_replace(m, node, "ViewIn", shape, NULL, 0);
}

/* A view with the shape in a vector, which the run has checked. */
BP_ROW_INFER(view_in) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim = bp__op_const_extents(node, 1, shape, BP_GRAPH_MAX_NDIM);
  return ndim < 0 ? -1 : bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, shape, ndim);
}

/* ---- Expand ------------------------------------------------------------------------------ */

static int bind_expand(BpVectorMaker m, BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0];
  int64_t count, own[BP_GRAPH_MAX_NDIM], known[BP_GRAPH_MAX_NDIM];
  BpGraphValue *shape = bp__vector_read(m, 1, BP_GRAPH_MAX_NDIM, &count);
  if (!shape)
    return -1;
  int32_t ndim = count > in->ndim ? (int32_t)count : in->ndim, added = ndim - in->ndim;
  for (int32_t i = 0; i < ndim; i++) {
    own[i] = i < added ? 1 : in->shape[i - added];
    known[i] = own[i] == 1 || bp__extent_is_open(own[i]) ? BP_EXTENT_NONE : own[i];
  }
  BpGraphValue *from = v_extents(m, own, ndim), *one = v_number(m, 1);
  shape = after_ones(m, shape, ndim - count);
  BpGraphValue *is_one = v_binary(m, "Equal", from, one);
  BpGraphValue *fits =
      v_binary(m, "Or", v_binary(m, "Equal", shape, one), v_binary(m, "Equal", from, shape));
  shape = v_choose(m, is_one, shape, v_choose(m, fits, from, v_number(m, -1)));
  shape = bp__op_bind(m.graph, node, shape, known, "its input does not expand to the shape given");
  return bp__vector_replace(m, node, "ExpandIn", shape, NULL, 0);
}

/* An open extent is 1 or the wanted extent, which the run has checked: an index times a comparison
 * is the index or 0. */
static const BpIrNode *expand_in_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphValue *in = op->node->inputs[0], *out = op->node->outputs[0];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  int32_t added = out->ndim - in->ndim;
  for (int32_t i = 0; i < in->ndim; i++) {
    const BpIrNode *moves = x_lt(ir, x_index(ir, 1), bp__op_extent(op, in->shape[i]));
    indices[i] = axes[added + i];
    if (in->shape[i] != out->shape[added + i])
      indices[i] = x_mul(ir, indices[i], bp_ir_cast(ir, BP__INT64, moves));
  }
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(expand_in) {
  return bp__op_give_body(op, "Expand", expand_in_body, outputs);
}

/* ---- Slice ------------------------------------------------------------------------------- */

/* The sliced axes, or all axes if the sliced ones depend on the data; and for each axis its extent,
 * bounds and step. */
typedef struct Slicing {
  int64_t count, axes[BP_GRAPH_MAX_NDIM], extents[BP_GRAPH_MAX_NDIM];
  BpGraphValue *starts, *ends, *steps;
  BpGraphValue *is_valid; /* whether each axis is valid, or NULL if all are */
} Slicing;

/* The number of sliced axes, from the first of starts, ends, axes and steps whose length is known;
 * else -1. */
static int64_t num_sliced(const BpGraphNode *node) {
  for (int32_t i = 1; i < node->num_inputs; i++)
    if (node->inputs[i] && !bp__value_is_open(node->inputs[i]))
      return bp__value_num_elements(node->inputs[i]);
  return -1;
}

static int read_slicing(BpVectorMaker m, Slicing *slicing) {
  int64_t count, num_steps = -1, length = num_sliced(m.node);
  slicing->starts = bp__vector_read_as(m, 1, BP_GRAPH_MAX_NDIM, length, &slicing->count);
  slicing->ends =
      slicing->starts ? bp__vector_read_as(m, 2, BP_GRAPH_MAX_NDIM, length, &count) : NULL;
  if (!slicing->ends)
    return -1;
  slicing->steps = bp__vector_read_as(m, 4, BP_GRAPH_MAX_NDIM, length, &num_steps);
  if (!slicing->steps && num_steps < 0 && bp__node_input(m.node, 4))
    return -1;
  if (!slicing->steps)
    slicing->steps = v_number(m, 1);
  if (count != slicing->count || (num_steps >= 0 && num_steps != count) ||
      count > m.node->inputs[0]->ndim)
    return bp__op_bad(m.node, "its starts, ends and steps differ in number, or are too many");
  return slicing->steps ? 0 : -1;
}

/* Reads the axes of a slice that are known. */
static int read_axes(const BpGraphNode *node, Slicing *slicing) {
  int32_t count = bp__op_ints(node, 3, NULL, slicing->axes, BP_GRAPH_MAX_NDIM);
  if (count == -1)
    return -1;
  if (count >= 0 && count != slicing->count)
    return bp__op_bad(node, "its starts and its axes differ in number");
  for (int32_t i = 0; i < slicing->count; i++) {
    int32_t axis;
    if (bp__op_axis(node, count >= 0 ? slicing->axes[i] : i, node->inputs[0]->ndim, &axis))
      return -1;
    for (int32_t k = 0; k < i; k++)
      if (slicing->axes[k] == axis)
        return bp__op_bad(node, "axis %d occurs twice", axis);
    slicing->axes[i] = axis;
  }
  return 0;
}

/* Puts numbers that are given for some axes into the order of all axes; the other axes get
 * `otherwise`. `is_at` has a row for each axis of the input. */
static BpGraphValue *spread(BpVectorMaker m, BpGraphValue *is_at, BpGraphValue *given,
                            int64_t otherwise) {
  BpGraphValue *axis = v_number(m, 1);
  BpGraphAttr keepdims = bp__attr_int(m.graph, "keepdims", 0);
  BpGraphValue *inputs[] = {v_choose(m, is_at, given, v_number(m, 0)), axis};
  BpGraphValue *sum = bp__op_apply(m.graph, "", "ReduceSum", m.node->name, inputs, 2, &keepdims, 1);
  inputs[0] = v_choose(m, is_at, v_number(m, 1), v_number(m, 0));
  BpGraphValue *times =
      bp__op_apply(m.graph, "", "ReduceSum", m.node->name, inputs, 2, &keepdims, 1);
  return v_choose(m, v_binary(m, "Equal", times, v_number(m, 0)), v_number(m, otherwise), sum);
}

/* Makes the slicing one along all axes, from axes that a run knows: each must be in range, and none
 * may occur twice. */
static int spread_axes(BpVectorMaker m, Slicing *slicing) {
  const BpGraphValue *in = m.node->inputs[0];
  int64_t count, column[] = {in->ndim, 1};
  BpGraphValue *axes = bp__vector_read_as(m, 3, BP_GRAPH_MAX_NDIM, slicing->count, &count),
               *ndim = v_number(m, in->ndim);
  if (!axes)
    return -1;
  if (count != slicing->count)
    return bp__op_bad(m.node, "its starts and its axes differ in number");
  for (int32_t i = 0; i < in->ndim; i++)
    slicing->axes[i] = i;
  axes =
      v_choose(m, v_binary(m, "Less", axes, v_number(m, 0)), v_binary(m, "Add", axes, ndim), axes);
  BpGraphValue *all = bp__graph_int_vector(m.graph, slicing->axes, in->ndim);
  BpGraphValue *is_at = v_binary(m, "Equal", bp__op_reshape(m.graph, m.node, all, column, 2), axes);
  BpGraphValue *times = spread(m, is_at, v_number(m, 1), 0);
  BpGraphValue *found = v_reduce(m, "ReduceSum", v_least(m, times, v_number(m, 1)));
  slicing->is_valid = v_binary(m, "Equal", found, v_number(m, count));
  slicing->starts = spread(m, is_at, slicing->starts, 0);
  slicing->ends = spread(m, is_at, slicing->ends, INT64_MAX);
  slicing->steps = spread(m, is_at, slicing->steps, 1);
  slicing->count = in->ndim;
  return slicing->steps ? 0 : -1;
}

/* A bound of the slice: counted from the end if it is negative, and clamped to the range from
 * `least` to the last place that the step can begin at. `least` is 0 for a start. For an end
 * `least` is the place before the first element if the step is negative, else 0. */
static BpGraphValue *bound(BpVectorMaker m, BpGraphValue *given, BpGraphValue *least,
                           BpGraphValue *extent, BpGraphValue *back) {
  given = v_choose(m, v_binary(m, "Less", given, v_number(m, 0)), v_binary(m, "Add", given, extent),
                   given);
  return v_least(m, v_greatest(m, given, least), v_binary(m, "Sub", extent, back));
}

/* For each axis: the start of the slice, then its number of elements, its step upward and its step
 * downward. Either the step upward or the step downward is 0. */
static BpGraphValue *places(BpVectorMaker m, const Slicing *slicing) {
  BpGraphValue *zero = v_number(m, 0), *one = v_number(m, 1);
  BpGraphValue *extent = v_extents(m, slicing->extents, slicing->count);
  BpGraphValue *steps =
      v_binary(m, "Add", slicing->steps, v_binary(m, "Mul", slicing->starts, zero));
  /* A step longer than INT32_MAX takes only the first element, as a step of INT32_MAX does. */
  steps = v_least(m, v_greatest(m, steps, v_number(m, -INT32_MAX)), v_number(m, INT32_MAX));
  BpGraphValue *ups = v_greatest(m, steps, zero);
  BpGraphValue *downs = v_greatest(m, v_binary(m, "Sub", zero, steps), zero);
  BpGraphValue *length = v_binary(m, "Add", ups, downs);
  BpGraphValue *back = v_least(m, downs, one);
  BpGraphValue *starts = bound(m, slicing->starts, zero, extent, back);
  BpGraphValue *ends = bound(m, slicing->ends, v_binary(m, "Sub", zero, back), extent, back);
  BpGraphValue *distance = v_binary(m, "Sub", ends, starts);
  distance =
      v_choose(m, v_binary(m, "Greater", back, zero), v_binary(m, "Sub", zero, distance), distance);
  BpGraphValue *counts = v_binary(m, "Div", v_binary(m, "Sub", v_greatest(m, distance, zero), one),
                                  v_greatest(m, length, one));
  counts =
      v_choose(m, v_binary(m, "Greater", distance, zero), v_binary(m, "Add", counts, one), zero);
  BpGraphValue *is_valid = v_binary(m, "Greater", length, zero);
  is_valid = slicing->is_valid ? v_binary(m, "And", is_valid, slicing->is_valid) : is_valid;
  counts = v_choose(m, is_valid, counts, v_number(m, -1));
  BpGraphAttr axis = bp__attr_int(m.graph, "axis", 0);
  BpGraphValue *parts[] = {v_greatest(m, starts, zero), counts, ups, downs};
  return bp__op_apply(m.graph, "", "Concat", m.node->name, parts, 4, &axis, 1);
}

static int bind_slice(BpVectorMaker m, BpGraphNode *node) {
  Slicing *slicing = bp__arena_alloc(&m.graph->arena, sizeof(*slicing));
  int64_t known[4 * BP_GRAPH_MAX_NDIM];
  if (!slicing || read_slicing(m, slicing) ||
      (bp__vector_is_of_data(node, 3) ? spread_axes(m, slicing) : read_axes(node, slicing)))
    return -1;
  int64_t count = slicing->count;
  for (int64_t i = 0; i < count; i++)
    slicing->extents[i] = node->inputs[0]->shape[slicing->axes[i]];
  for (int64_t i = 0; i < 4 * count; i++) {
    int64_t step =
        slicing->steps->data
            ? bp__value_get_int(slicing->steps,
                                bp__value_num_elements(slicing->steps) == 1 ? 0 : i % count)
            : 0;
    bool is_down = i >= 3 * count;
    known[i] = i < 2 * count || !step || step < -INT32_MAX || step > INT32_MAX ? BP_EXTENT_NONE
               : is_down == (step < 0) ? (step < 0 ? -step : step)
                                       : 0;
  }
  BpGraphValue *vector =
      bp__op_bind(m.graph, node, places(m, slicing), known,
                  "it has a step of 0, or axes that are out of range or repeated");
  BpGraphAttr axes = bp__attr_ints("axes", slicing->axes, (int32_t)count);
  return bp__vector_replace(m, node, "SliceIn", vector, &axes, 1);
}

BP_ROW_INFER(slice_in) {
  const BpGraphValue *in = node->inputs[0];
  const BpGraphAttr *axes = bp__node_attr(node, "axes");
  int64_t shape[BP_GRAPH_MAX_NDIM], places[4 * BP_GRAPH_MAX_NDIM];
  if (bp__op_const_extents(node, 1, places, 4 * BP_GRAPH_MAX_NDIM) < 0)
    return -1;
  memcpy(shape, in->shape, sizeof(shape));
  for (int32_t i = 0; i < axes->count; i++)
    shape[axes->ints[i]] = places[axes->count + i];
  return bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim);
}

static const BpIrNode *slice_in_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphAttr *sliced = bp__node_attr(op->node, "axes");
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  int64_t places[4 * BP_GRAPH_MAX_NDIM];
  if (bp__op_const_extents(op->node, 1, places, 4 * BP_GRAPH_MAX_NDIM) < 0)
    return NULL;
  memcpy(indices, axes, (size_t)op->node->inputs[0]->ndim * sizeof(*indices));
  for (int32_t i = 0; i < sliced->count; i++) {
    const BpIrNode **index = &indices[sliced->ints[i]];
    const int64_t *place = &places[i];
    const BpIrNode *step = x_sub(ir, bp__op_extent(op, place[2 * sliced->count]),
                                 bp__op_extent(op, place[3 * sliced->count]));
    *index = x_add(ir, x_mul(ir, *index, step), bp__op_extent(op, *place));
  }
  return bp_te_read(te, op->inputs[0], indices);
}

BP_ROW_COMPUTE(slice_in) {
  return bp__op_give_body(op, "Slice", slice_in_body, outputs);
}

/* ---- Split ------------------------------------------------------------------------------- */

/* The lengths of the parts of a Split: the given lengths, or equal lengths with a shorter last
 * part; `given` are the known lengths, else BP_EXTENT_NONE. */
static BpGraphValue *split_lengths(BpVectorMaker m, int64_t extent, int64_t *given) {
  BpExtents *extents = &m.graph->extents;
  const BpGraphAttr *attr = bp__node_attr(m.node, "split");
  int32_t parts = m.node->num_outputs;
  int64_t count = attr ? attr->count : parts;
  if (bp__node_input(m.node, 1)) {
    BpGraphValue *lengths = bp__vector_read(m, 1, INT32_MAX, &count);
    if (lengths && count != parts)
      bp__op_bad(m.node, "it names %d lengths for %d outputs", (int)count, parts);
    for (int32_t i = 0; i < parts && lengths && count == parts; i++)
      given[i] = lengths->data ? bp__value_get_int(lengths, i) : BP_EXTENT_NONE;
    return count == parts ? lengths : NULL;
  }
  if (count != parts) {
    bp__op_bad(m.node, "it names %d lengths for %d outputs", (int)count, parts);
    return NULL;
  }
  int64_t chunk = bp__extent_divide(extents, bp__extent_add(extents, extent, parts - 1), parts);
  int64_t last =
      bp__extent_subtract(extents, extent, bp__extent_multiply(extents, chunk, parts - 1));
  for (int32_t i = 0; i < parts; i++)
    given[i] = attr ? attr->ints[i] : i < parts - 1 ? chunk : last;
  return last == BP_EXTENT_NONE ? NULL : v_extents(m, given, parts);
}

/* Binds the lengths in pieces of at most MAX_BOUND, and sets `given` to the bound extents. */
static int bind_lengths(BpVectorMaker m, BpGraphValue *lengths, int64_t *given) {
  int64_t count = lengths ? m.node->num_outputs : 0;
  for (int64_t i = 0; i < count; i += MAX_BOUND) {
    int64_t end = count - i < MAX_BOUND ? count : i + MAX_BOUND;
    BpGraphValue *piece =
        count > MAX_BOUND ? bp__op_slice(m.graph, m.node, lengths, 0, i, end) : lengths;
    piece = bp__op_bind(m.graph, m.node, piece, given + i,
                        "its parts do not add up to the axis that it splits, or are not equal");
    if (!piece)
      return -1;
    for (int64_t k = i; k < end; k++)
      given[k] = v_extent(piece, k - i);
  }
  return lengths ? 0 : -1;
}

int bp__bind_split(BpVectorMaker m, BpGraphNode *node) {
  int32_t axis, parts = node->num_outputs;
  int64_t *given = bp__arena_alloc_array(&m.graph->arena, (size_t)parts, sizeof(*given)), start = 0;
  if (!given || bp__op_axis(node, bp__node_int(node, "axis", 0), node->inputs[0]->ndim, &axis))
    return -1;
  int64_t extent = node->inputs[0]->shape[axis];
  BpGraphValue *lengths = split_lengths(m, extent, given);
  if (!lengths)
    return -1;
  BpGraphValue *fits =
      v_binary(m, "Equal", v_reduce(m, "ReduceSum", lengths), v_extents(m, &extent, 1));
  if (!bp__node_input(node, 1) && !bp__node_attr(node, "split") && node->version < 18)
    fits =
        v_binary(m, "And", fits,
                 v_binary(m, "Equal", v_extents(m, given, 1), v_extents(m, &given[parts - 1], 1)));
  if (bind_lengths(m, v_choose(m, fits, lengths, v_number(m, -1)), given))
    return -1;
  int64_t *axes = bp__arena_alloc(&m.graph->arena, sizeof(*axes));
  if (!axes)
    return -1;
  *axes = axis;
  BpGraphAttr attr = bp__attr_ints("axes", axes, 1);
  for (int32_t i = 0; i < parts; i++) {
    int64_t places[] = {start, given[i], 1, 0};
    node->outputs[i] = bp__op_apply(
        m.graph, "backplane", "SliceIn", node->name,
        (BpGraphValue *[]){node->inputs[0], bp__graph_int_vector(m.graph, places, 4)}, 2, &attr, 1);
    start = bp__extent_add(&m.graph->extents, start, given[i]);
    if (!node->outputs[i] || start == BP_EXTENT_NONE)
      return -1;
  }
  return 1;
}

/* ---- Others ------------------------------------------------------------------------------ */

/* Binds elements of an input that are extents, or factors of extents. */
static int bind_plainly(BpVectorMaker m, BpGraphNode *node, int32_t input, const char *complaint) {
  int64_t count;
  BpGraphValue *vector = bp__vector_read(m, input, 2 * BP_GRAPH_MAX_NDIM, &count);
  node->inputs[input] = vector ? bp__op_bind(m.graph, node, vector, NULL, complaint) : NULL;
  return node->inputs[input] ? 0 : -1;
}

static int bind_constant_of_shape(BpVectorMaker m, BpGraphNode *node) {
  return bind_plainly(m, node, 0, "the shape asked for has a negative extent");
}

static int bind_tile(BpVectorMaker m, BpGraphNode *node) {
  return bind_plainly(m, node, 1, "one of its repeats is negative");
}

static int bind_topk(BpVectorMaker m, BpGraphNode *node) {
  const BpGraphValue *in = node->inputs[0];
  int64_t count;
  int32_t axis;
  BpGraphValue *k = bp__vector_read(m, 1, 1, &count);
  if (!k || bp__op_axis(node, bp__node_int(node, "axis", -1), in->ndim, &axis))
    return -1;
  BpGraphValue *is_more = v_binary(m, "Greater", k, v_extents(m, &in->shape[axis], 1));
  k = v_choose(m, is_more, v_number(m, -1), k);
  node->inputs[1] =
      bp__op_bind(m.graph, node, k, NULL, "its k is negative, or more than the number of elements");
  return node->inputs[1] ? 0 : -1;
}

static int bind_max_unpool(BpVectorMaker m, BpGraphNode *node) {
  return bind_plainly(m, node, 2, "its output_shape has a negative extent");
}

/* The operators with inputs that steer inference. */
static const struct {
  const char *op;      /* name, or the common prefix of several names */
  int32_t first, last; /* range of the inputs that may depend on the data */
  int (*bind)(BpVectorMaker m, BpGraphNode *node);
  bool is_constant; /* the row takes constants alone, and no expressions of extents */
} binders[] = {
    {"Reshape", 1, 1, bind_reshape, false},
    {"Expand", 1, 1, bind_expand, false},
    {"Slice", 1, 4, bind_slice, false},
    {"ConstantOfShape", 0, 0, bind_constant_of_shape, false},
    {"Tile", 1, 1, bind_tile, false},
    {"TopK", 1, 1, bind_topk, false},
    {"Split", 1, 1, bp__bind_split, false},
    {"Pad", 1, 3, bp__bind_pad, false},
    {"Squeeze", 1, 1, bp__bind_squeeze, true},
    {"Unsqueeze", 1, 1, bp__bind_unsqueeze, true},
    {"CumSum", 1, 1, bp__bind_running, true},
    {"CumProd", 1, 1, bp__bind_running, true},
    {"Trilu", 1, 1, bp__bind_trilu, true},
    {"Reduce", 1, 1, bp__bind_reduce, true},
    {"Col2Im", 1, 2, bp__bind_col2im, false},
    {"MaxUnpool", 2, 2, bind_max_unpool, false},
    {"DFT", 1, 2, bp__bind_dft, false},
    {"STFT", 1, 3, bp__bind_stft, false},
};

static bool is_for(const char *name, const char *op) {
  return strcmp(name, "Reduce") ? !strcmp(name, op) : !strncmp(name, op, strlen(name));
}

static bool is_expression(const BpGraphNode *node, int32_t input) {
  return bp__node_input(node, input) && bp__node_input(node, input)->extents;
}

int bp__op_bind_inputs(BpGraph *graph, BpGraphNode *node) {
  for (size_t i = 0; i < sizeof(binders) / sizeof(binders[0]); i++)
    if (!*node->op->domain && is_for(binders[i].op, node->op->name))
      for (int32_t k = binders[i].first; k <= binders[i].last; k++)
        if (bp__vector_is_of_data(node, k) || (binders[i].is_constant && is_expression(node, k)))
          return check_can_bind(graph, node) ? -1
                                             : binders[i].bind((BpVectorMaker){graph, node}, node);
  return 0;
}

int bp__op_bind_shape(BpGraph *graph, BpGraphNode *node) {
  BpVectorMaker m = {graph, node};
  if (!bp__node_input(node, 1))
    return 0;
  if (!strcmp(node->op->name, "Reshape"))
    return bind_reshape(m, node);
  if (!strcmp(node->op->name, "Slice"))
    return bp__node_input(node, 2) ? bind_slice(m, node) : 0;
  return strcmp(node->op->name, "Expand") ? 0 : bind_expand(m, node);
}
