/* SPDX-License-Identifier: Apache-2.0 */
/* Resizes by sizes, scales or a region that only a run knows: nodes compute the tables of positions
 * and weights that resize.c makes when compiling, from the scale of each axis and the extents
 * before and after. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/resize.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

static const BpDataType int32 = {BP_DTYPE_INT, 32, 1};

/* The numbers from which nodes compute the tables of the resized axes. */
typedef struct Plan {
  BpVectorMaker m;
  const BpResize *r;
  const int32_t *dims;
  int32_t count;
  BpDataType dtype;      /* type of scales, coordinates and weights */
  BpGraphValue *scales;  /* scale of each axis */
  BpGraphValue *numbers; /* scales and, if a region is cropped, its starts and its ends */
  BpGraphValue *extents; /* extents of each axis after, then before resizing */
  int64_t known[2 * BP_GRAPH_MAX_NDIM]; /* the extents that are known, else BP_EXTENT_NONE */
} Plan;

/* ---- Scales and extents ------------------------------------------------------------------ */

static BpGraphValue *as_floats(BpVectorMaker m, BpGraphValue *value) {
  return value ? bp__op_cast(m.graph, m.node, value, BP__FLOAT32) : NULL;
}

static BpGraphValue *as_wide(const Plan *plan, BpGraphValue *value) {
  return value ? bp__op_cast(plan->m.graph, plan->m.node, value, plan->dtype) : NULL;
}

static BpGraphValue *rounded_down(BpVectorMaker m, BpGraphValue *value) {
  BpGraphValue *most = bp__graph_float_scalar(m.graph, (float)INT32_MAX);
  value = bp__op_unary(m.graph, m.node, "Floor", v_least(m, value, most));
  return value ? bp__op_cast(m.graph, m.node, value, BP__INT64) : NULL;
}

/* Reads a vector of floats, `count` of them, from an input; NULL with an error. */
static BpGraphValue *read_floats(const Plan *plan, BpGraphValue *value, int64_t count,
                                 const char *what) {
  BpVectorMaker m = plan->m;
  if (!value || !bp__dtype_is_float(value->dtype) || bp__value_is_open(value) ||
      bp__value_num_elements(value) != count) {
    bp__op_bad(m.node, "its %s are not %d floats", what, (int)count);
    return NULL;
  }
  return as_wide(plan, bp__op_reshape(m.graph, m.node, value, &count, 1));
}

static bool keeps_ratio(const Plan *plan) {
  return strcmp(bp__node_str(plan->m.node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0;
}

/* Computes the extents from the scales, in float32 as ONNX infers shapes; *fits tells which extents
 * are valid. */
static BpGraphValue *extents_by_scales(Plan *plan, BpGraphValue *own, BpGraphValue **fits) {
  BpVectorMaker m = plan->m;
  plan->scales = read_floats(plan, plan->r->scales, plan->count, "scales");
  BpGraphValue *scales = as_floats(m, plan->scales);
  *fits = v_binary(m, "Greater", scales, bp__graph_float_scalar(m.graph, 0));
  return rounded_down(m, v_binary(m, "Mul", as_floats(m, own), scales));
}

/* Computes the extents from the sizes, which may only be bounds. */
static BpGraphValue *extents_by_sizes(Plan *plan, BpGraphValue *own, BpGraphValue **fits) {
  BpVectorMaker m = plan->m;
  int64_t count;
  BpGraphValue *sizes = bp__vector_read_as(m, 3, BP_GRAPH_MAX_NDIM, plan->count, &count);
  if (sizes && count != plan->count) {
    bp__op_bad(m.node, "it has %d sizes for %d axes", (int)count, (int)plan->count);
    return NULL;
  }
  BpGraphValue *wide = as_wide(plan, own), *floats = as_floats(m, own);
  plan->scales = v_binary(m, "Div", as_wide(plan, sizes), wide);
  *fits = v_binary(m, "GreaterOrEqual", sizes, v_number(m, 0));
  if (!keeps_ratio(plan) || plan->count == 0)
    return sizes;
  bool is_within = !strcmp(bp__node_str(m.node, "keep_aspect_ratio_policy", ""), "not_larger");
  BpGraphValue *kept = v_reduce(m, is_within ? "ReduceMin" : "ReduceMax", plan->scales);
  BpGraphValue *one = v_binary(m, "Div", wide, wide);
  plan->scales = v_binary(m, "Mul", kept, one);
  return rounded_down(m, v_binary(m, "Add", v_binary(m, "Mul", as_floats(m, plan->scales), floats),
                                  bp__graph_float_scalar(m.graph, 0.5f)));
}

/* The extent that a known scale gives; for an open extent the scale must be a factor that floats
 * multiply exactly. */
static int64_t scaled_extent(BpExtents *extents, int64_t in, float scale) {
  if (!bp__extent_is_open(in)) {
    float out = floorf((float)in * scale);
    return out >= 0 && out <= (float)(INT32_MAX / 2) ? (int64_t)out : BP_EXTENT_NONE;
  }
  float inverse = 1 / scale;
  if (scale >= 1 && scale <= 65536 && scale == floorf(scale))
    return bp__extent_multiply(extents, in, (int64_t)scale);
  if (inverse >= 1 && inverse <= 65536 && bp__is_power_of_two(inverse))
    return bp__extent_divide(extents, in, (int64_t)inverse);
  return BP_EXTENT_NONE;
}

static void know_extents(Plan *plan) {
  const BpGraphValue *in = plan->m.node->inputs[0], *scales = plan->r->scales;
  const BpGraphValue *sizes = plan->r->sizes;
  int64_t given[BP_GRAPH_MAX_NDIM];
  bool has_sizes = sizes && (sizes->data || sizes->extents) && !keeps_ratio(plan) &&
                   bp__op_const_extents(plan->m.node, 3, given, BP_GRAPH_MAX_NDIM) == plan->count;
  for (int32_t i = 0; i < plan->count; i++) {
    int64_t own = in->shape[plan->dims[i]];
    plan->known[i] = has_sizes ? given[i] : BP_EXTENT_NONE;
    if (!sizes && scales && scales->data)
      plan->known[i] =
          scaled_extent(&plan->m.graph->extents, own, (float)bp__value_get_float(scales, i));
    plan->known[plan->count + i] = own;
  }
}

static int make_plan(Plan *plan) {
  BpVectorMaker m = plan->m;
  const BpGraphValue *in = m.node->inputs[0];
  int64_t extents[BP_GRAPH_MAX_NDIM];
  for (int32_t i = 0; i < plan->count; i++)
    extents[i] = in->shape[plan->dims[i]];
  BpGraphValue *own = v_extents(m, extents, plan->count), *fits = NULL;
  BpGraphValue *out =
      plan->r->sizes ? extents_by_sizes(plan, own, &fits) : extents_by_scales(plan, own, &fits);
  BpGraphValue *one = v_number(m, 1), *zero = v_number(m, 0);
  if (!out)
    return -1;
  BpGraphValue *is_some = v_binary(m, "GreaterOrEqual", v_least(m, out, own), one);
  BpGraphValue *is_none = v_binary(m, "Equal", out, zero);
  BpGraphValue *is_small = v_binary(m, "LessOrEqual", out, v_number(m, INT32_MAX / 2));
  fits =
      v_binary(m, "And", v_binary(m, "And", fits, is_small), v_binary(m, "Or", is_some, is_none));
  if (plan->r->antialias)
    fits = v_binary(m, "And", fits,
                    v_binary(m, "GreaterOrEqual", as_floats(m, plan->scales),
                             bp__graph_float_scalar(m.graph, BP__RESIZE_LEAST_SCALE)));
  know_extents(plan);
  BpGraphValue *parts[] = {v_choose(m, fits, out, v_number(m, -1)), own};
  plan->extents = bp__op_bind(m.graph, m.node, v_join(m, parts, 2), plan->known,
                              "its sizes are negative, its scales not positive, or one is too "
                              "large, or its input has no elements to resize, or antialias by too "
                              "small a scale");
  plan->numbers = plan->scales;
  if (bp__resize_is_crop(plan->r))
    plan->numbers =
        v_join(m,
               (BpGraphValue *[]){plan->scales, read_floats(plan, plan->r->region,
                                                            2 * (int64_t)plan->count, "roi")},
               2);
  return plan->extents && plan->numbers ? 0 : -1;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

static BpGraphAttr text_attr(const char *name, const char *text) {
  return (BpGraphAttr){.name = name, .type = BP_GRAPH_ATTR_STRING, .str = text};
}

static BpGraphValue *make_table(const Plan *plan, int32_t axis, int32_t taps, const char *gives) {
  BpGraph *graph = plan->m.graph;
  const BpResize *r = plan->r;
  float *cubic_a = bp__arena_alloc(&graph->arena, sizeof(*cubic_a));
  if (!cubic_a)
    return NULL;
  *cubic_a = r->cubic_a;
  BpGraphAttr attrs[] = {
      text_attr("gives", gives),
      bp__attr_int(graph, "axis", axis),
      bp__attr_int(graph, "count", plan->count),
      bp__attr_int(graph, "taps", taps),
      bp__attr_int(graph, "rest", plan->m.node->inputs[0]->ndim - plan->dims[axis] - 1),
      text_attr("mode", r->mode),
      text_attr("coordinate", r->coordinate),
      text_attr("nearest", r->nearest),
      bp__attr_int(graph, "is_ratio", r->sizes && !keeps_ratio(plan)),
      {.name = "cubic_a", .type = BP_GRAPH_ATTR_FLOAT, .floats = cubic_a, .count = 1},
      bp__attr_int(graph, "exclude_outside", r->exclude_outside),
      bp__attr_int(graph, "antialias", r->antialias)};
  return bp__op_apply(graph, "backplane", "ResizeTable", plan->m.node->name,
                      (BpGraphValue *[]){plan->numbers, plan->extents}, 2, attrs,
                      (int32_t)(sizeof(attrs) / sizeof(attrs[0])));
}

/* Makes the weights of each sum. If `exclude_outside` or `antialias` is set, the weights are
 * divided by their sum. */
static BpGraphValue *make_weights(const Plan *plan, int32_t axis, int32_t taps) {
  BpVectorMaker m = plan->m;
  BpGraphValue *weights = make_table(plan, axis, taps, "weights");
  if (!weights || (!plan->r->exclude_outside && !plan->r->antialias))
    return weights;
  BpGraphValue *inputs[] = {weights, v_number(m, 1)};
  BpGraphValue *total = bp__op_apply(m.graph, "", "ReduceSum", m.node->name, inputs, 2, NULL, 0);
  BpGraphValue *is_none =
      v_binary(m, "Equal", total, as_wide(plan, bp__graph_float_scalar(m.graph, 0)));
  BpGraphValue *one = as_wide(plan, bp__graph_float_scalar(m.graph, 1));
  return v_binary(m, "Div", weights, v_choose(m, is_none, one, total));
}

/* The known scale of an axis, else 0. */
static float known_scale(const Plan *plan, int32_t axis) {
  const BpGraphValue *scales = plan->r->scales;
  int64_t out = plan->known[axis], in = plan->known[plan->count + axis];
  if (plan->r->sizes && (out == in || out < 1 || in < 1))
    return out == in ? 1.0f : 0.0f;
  if (plan->r->sizes)
    return (float)out / (float)in;
  return scales->data ? (float)bp__value_get_float(scales, axis) : 0.0f;
}

static BpGraphValue *resize_along(const Plan *plan, BpGraphValue *x, int32_t axis) {
  BpVectorMaker m = plan->m;
  const BpResize *r = plan->r;
  float scale = known_scale(plan, axis);
  bool is_known = scale > 0 || !r->antialias;
  int32_t taps = is_known ? bp__resize_num_taps(r, scale > 0 ? scale : 1) : BP__RESIZE_MOST_TAPS;
  int64_t repeat = bp__resize_repeats(r, scale);
  BpGraphAttr attrs[] = {bp__attr_int(m.graph, "axis", plan->dims[axis]),
                         bp__attr_int(m.graph, "antialias", r->antialias),
                         bp__attr_int(m.graph, "repeat", repeat)};
  if (taps > BP__RESIZE_MOST_TAPS) {
    bp__op_error(m.node, "antialias with a scale of %g is not supported", (double)scale);
    return NULL;
  }
  BpGraphValue *inputs[] = {x, NULL, NULL};
  if (!repeat && !(inputs[1] = make_table(plan, axis, taps, "places")))
    return NULL;
  if (!repeat && taps > 1 && !(inputs[2] = make_weights(plan, axis, taps)))
    return NULL;
  if (taps > 1)
    x = bp__op_apply(m.graph, "backplane", "ResizeIn", m.node->name, inputs, 3, attrs, 2);
  else
    x = bp__op_apply(m.graph, "backplane", "ResizeAxis", m.node->name, inputs, repeat ? 1 : 2,
                     attrs, 3);
  if (!x || !bp__resize_is_crop(r))
    return x;
  BpGraphValue *value =
      bp__op_cast(m.graph, m.node, bp__graph_float_scalar(m.graph, r->extrapolation), x->dtype);
  return v_choose(m, make_table(plan, axis, taps, "outside"), value, x);
}

int bp__resize_in(BpGraph *graph, BpGraphNode *node, const BpResize *r, const int32_t *dims,
                  int32_t count) {
  BpGraphValue *x = node->inputs[0];
  Plan plan = {.m = {graph, node}, .r = r, .dims = dims, .count = count, .dtype = BP__FLOAT32};
  if (bp__resize_is_wide(r))
    plan.dtype = x->dtype;
  if (!r->sizes && (!r->scales || bp__value_num_elements(r->scales) != count))
    return bp__op_bad(node, "it has neither sizes nor a scale for each axis");
  if (make_plan(&plan))
    return -1;
  for (int32_t i = 0; i < count && x; i++)
    if (bp__resize_is_crop(r) || known_scale(&plan, i) != 1.0f)
      x = resize_along(&plan, x, i);
  node->outputs[0] = x;
  return x ? 0 : -1;
}

/* ---- One axis ---------------------------------------------------------------------------- */

/* The sum over the taps. */
static const BpIrNode *resize_in_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphNode *node = op->node;
  int64_t axis = bp__node_int(node, "axis", 0);
  const BpIrNode *tap = bp__op_reduce_axis(op, "tap", node->inputs[1]->shape[1]);
  const BpIrNode *row[2] = {axes[axis], tap}, *indices[BP_GRAPH_MAX_NDIM];
  const BpIrNode *place = bp_te_read(te, op->inputs[1], row);
  memcpy(indices, axes, (size_t)node->inputs[0]->ndim * sizeof(*indices));
  indices[axis] = place ? bp_ir_cast(ir, BP__INT64, place) : NULL;
  const BpIrNode *value = x_wide(ir, bp_te_read(te, op->inputs[0], indices));
  return bp_te_reduce(te, BP_TE_SUM, bp__resize_weighted(op, value, row), &tap, 1);
}

BP_ROW_COMPUTE(resize_in) {
  return bp__op_give_body(op, "Resize", resize_in_body, outputs);
}

/* ---- Tables ------------------------------------------------------------------------------ */

/* The inputs of ResizeTable are scales, and starts and ends; then extents after and before. The
 * output is positions (int32, extent x taps), weights (of the scales' type, extent x taps) or, for
 * each position, whether it is outside (bool, extent x 1 x 1 ...). */
BP_ROW_INFER(resize_table) {
  int64_t extents[2 * BP_GRAPH_MAX_NDIM];
  int64_t shape[BP_GRAPH_MAX_NDIM] = {0, bp__node_int(node, "taps", 1)};
  const char *gives = bp__node_str(node, "gives", "");
  int32_t ndim = 2;
  if (bp__op_const_extents(node, 1, extents, 2 * BP_GRAPH_MAX_NDIM) < 0)
    return -1;
  shape[0] = extents[bp__node_int(node, "axis", 0)];
  if (!strcmp(gives, "outside")) {
    ndim = 1 + (int32_t)bp__node_int(node, "rest", 0);
    for (int32_t i = 1; i < ndim; i++)
      shape[i] = 1;
    return bp__node_set_output(graph, node, 0, BP__BOOL, shape, ndim);
  }
  return bp__node_set_output(graph, node, 0,
                             strcmp(gives, "places") ? node->inputs[0]->dtype : int32, shape, ndim);
}

/* An element of a table. */
typedef struct Element {
  BpTe *te;
  BpIrModule *ir;
  const BpOpCompute *op;
  const BpIrNode *place, *in, *out, *scale; /* position along the axis, extents, scale, as floats */
} Element;

static const BpIrNode *number(const Element *e, double value) {
  return x_number(e->ir, x_dtype(e->place), value);
}

static const BpIrNode *load_number(const Element *e, int64_t part) {
  int64_t count = bp__node_int(e->op->node, "count", 0),
          axis = bp__node_int(e->op->node, "axis", 0);
  const BpIrNode *index = x_index(e->ir, part * count + axis);
  return bp_te_read(e->te, e->op->inputs[0], &index);
}

static const BpIrNode *is_at_most_one(const Element *e, const BpIrNode *value) {
  return bp_ir_binary(e->ir, BP_IR_LE, value, number(e, 1));
}

static const BpIrNode *cropped_coordinate(const Element *e) {
  BpIrModule *ir = e->ir;
  const BpIrNode *start = load_number(e, 1), *end = load_number(e, 2);
  const BpIrNode *last = x_sub(ir, e->in, number(e, 1)), *length = x_sub(ir, end, start);
  const BpIrNode *middle = x_mul(ir, x_div(ir, x_add(ir, start, end), number(e, 2)), last);
  const BpIrNode *steps = x_max(ir, x_sub(ir, e->out, number(e, 1)), number(e, 1));
  const BpIrNode *apart = x_div(ir, x_mul(ir, x_mul(ir, e->place, length), last), steps);
  return bp_ir_select(ir, is_at_most_one(e, e->out), middle,
                      x_add(ir, x_mul(ir, start, last), apart));
}

/* Divides a position by the scale as unscaled of resize.c does. */
static const BpIrNode *unscaled(const Element *e, const BpIrNode *x) {
  return bp__node_int(e->op->node, "is_ratio", 0) ? x_div(e->ir, x_mul(e->ir, x, e->in), e->out)
                                                  : x_div(e->ir, x, e->scale);
}

/* Computes the coordinate as source_coordinate of resize.c does. */
static const BpIrNode *coordinate(const Element *e) {
  BpIrModule *ir = e->ir;
  const char *how = bp__node_str(e->op->node, "coordinate", "");
  const BpIrNode *half = number(e, 0.5), *one = number(e, 1);
  if (!strcmp(how, "tf_crop_and_resize"))
    return cropped_coordinate(e);
  if (!strcmp(how, "asymmetric"))
    return unscaled(e, e->place);
  if (!strcmp(how, "align_corners"))
    return x_div(ir, x_mul(ir, e->place, x_sub(ir, e->in, one)),
                 x_max(ir, x_sub(ir, e->out, one), one));
  const BpIrNode *centre = unscaled(e, x_add(ir, e->place, half));
  if (!strcmp(how, "tf_half_pixel_for_nn"))
    return centre;
  const BpIrNode *x = x_sub(ir, centre, half);
  if (!strcmp(how, "pytorch_half_pixel"))
    return bp_ir_select(ir, is_at_most_one(e, e->out), number(e, 0), x);
  if (!strcmp(how, "half_pixel_symmetric") && !bp__node_int(e->op->node, "is_ratio", 0)) {
    const BpIrNode *adjustment = x_div(ir, e->out, x_mul(ir, e->scale, e->in));
    const BpIrNode *offset = x_mul(ir, x_div(ir, e->in, number(e, 2)), x_sub(ir, one, adjustment));
    return x_sub(ir, x_add(ir, offset, centre), half);
  }
  return x;
}

static const BpIrNode *rounded(const Element *e, const BpIrNode *x) {
  BpIrModule *ir = e->ir;
  const char *how = bp__node_str(e->op->node, "nearest", "");
  const BpIrNode *half = number(e, 0.5), *down = x_call1(ir, "floor", x);
  if (!strcmp(how, "ceil"))
    return x_call1(ir, "ceil", x);
  if (!strcmp(how, "floor"))
    return down;
  if (!strcmp(how, "shrinking"))
    return bp_ir_select(ir, x_lt(ir, e->scale, number(e, 1)), x_call1(ir, "ceil", x), down);
  return strcmp(how, "round_prefer_ceil") ? x_call1(ir, "ceil", x_sub(ir, x, half))
                                          : x_call1(ir, "floor", x_add(ir, x, half));
}

/* Computes the weight as tap_weight of resize.c does. */
static const BpIrNode *tap_weight(const Element *e, const BpIrNode *distance) {
  BpIrModule *ir = e->ir;
  const BpIrNode *d = x_abs(ir, distance), *one = number(e, 1), *zero = number(e, 0);
  double a = (double)bp__node_float(e->op->node, "cubic_a", -0.75f);
  if (!strcmp(bp__node_str(e->op->node, "mode", ""), "linear"))
    return x_max(ir, x_sub(ir, one, d), zero);
  const BpIrNode *near = x_sub(ir, x_mul(ir, number(e, a + 2), d), number(e, a + 3));
  near = x_add(ir, x_mul(ir, x_mul(ir, near, d), d), one);
  const BpIrNode *far = x_sub(ir, x_mul(ir, number(e, a), d), number(e, 5 * a));
  far = x_add(ir, x_mul(ir, far, d), number(e, 8 * a));
  far = x_sub(ir, x_mul(ir, far, d), number(e, 4 * a));
  return bp_ir_select(ir, is_at_most_one(e, d), near,
                      bp_ir_select(ir, x_lt(ir, d, number(e, 2)), far, zero));
}

static const BpIrNode *is_outside(const Element *e, const BpIrNode *at) {
  const BpIrNode *last = x_sub(e->ir, e->in, number(e, 1));
  return bp_ir_binary(e->ir, BP_IR_OR, x_lt(e->ir, at, number(e, 0)), x_lt(e->ir, last, at));
}

static const BpIrNode *weight_at(const Element *e, const BpIrNode *x, const BpIrNode *at) {
  BpIrModule *ir = e->ir;
  const BpIrNode *distance = x_sub(ir, x, at);
  if (bp__node_int(e->op->node, "antialias", 0))
    distance = x_mul(ir, distance, x_min(ir, e->scale, number(e, 1)));
  const BpIrNode *weight = tap_weight(e, distance);
  return bp__node_int(e->op->node, "exclude_outside", 0)
             ? bp_ir_select(ir, is_outside(e, at), number(e, 0), weight)
             : weight;
}

static const BpIrNode *resize_table_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const char *gives = bp__node_str(op->node, "gives", "");
  int64_t extents[2 * BP_GRAPH_MAX_NDIM], axis = bp__node_int(op->node, "axis", 0);
  int64_t taps = bp__node_int(op->node, "taps", 1), count = bp__node_int(op->node, "count", 0);
  const BpDataType dtype = op->node->inputs[0]->dtype;
  if (bp__op_const_extents(op->node, 1, extents, 2 * BP_GRAPH_MAX_NDIM) < 0)
    return NULL;
  Element e = {te,
               ir,
               op,
               bp_ir_cast(ir, dtype, axes[0]),
               bp_ir_cast(ir, dtype, bp__op_extent(op, extents[count + axis])),
               bp_ir_cast(ir, dtype, bp__op_extent(op, extents[axis])),
               NULL};
  e.scale = load_number(&e, 0);
  const BpIrNode *x = coordinate(&e), *zero = number(&e, 0);
  if (!strcmp(gives, "outside"))
    return is_outside(&e, x);
  const BpIrNode *first = x_add(ir, x_call1(ir, "floor", x), number(&e, 1 - (double)(taps / 2)));
  const BpIrNode *at =
      taps == 1 ? rounded(&e, x) : x_add(ir, first, bp_ir_cast(ir, dtype, axes[1]));
  if (!strcmp(gives, "weights"))
    return weight_at(&e, x, at);
  const BpIrNode *last = x_max(ir, x_sub(ir, e.in, number(&e, 1)), zero);
  return bp_ir_cast(ir, int32, x_max(ir, x_min(ir, at, last), zero));
}

BP_ROW_COMPUTE(resize_table) {
  return bp__op_give_body(op, "ResizeTable", resize_table_body, outputs);
}
