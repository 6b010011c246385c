/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing, one axis at a time: every element of the output is a weighted sum of a few elements
 * along the axis, whose positions and weights are tables made when compiling. So each interpolation
 * mode and each coordinate rule is only a way to fill a table, and generated code does not depend
 * on modes and rules. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/resize.h"
#include "graph/ops/rows.h"

/* The sizes and scale by which one axis is resized. */
typedef struct ResizeAxis {
  int64_t in, out;
  float scale;
  bool is_ratio;    /* whether the scale is the quotient of the extents: sizes are given */
  float start, end; /* cropped part of the axis, as fractions of its length */
} ResizeAxis;

bool bp__resize_is_crop(const BpResize *r) {
  return !strcmp(r->coordinate, "tf_crop_and_resize");
}

bool bp__resize_is_wide(const BpResize *r) {
  return r->node->inputs[0]->dtype.code == BP_DTYPE_FLOAT && r->node->inputs[0]->dtype.bits == 64;
}

/* ---- Coordinates ------------------------------------------------------------------------- */

static float cropped_coordinate(const ResizeAxis *axis, float x) {
  float last = (float)(axis->in - 1), length = axis->end - axis->start;
  if (axis->out <= 1)
    return (axis->start + axis->end) / 2 * last;
  return axis->start * last + x * length * last / (float)(axis->out - 1);
}

/* Divides a position by the scale. By the extents, because a rounded scale moves positions that are
 * exactly between two elements: 4.5 / (6 / 20) is 15, but 14.999999 if 6 / 20 is rounded. */
static float unscaled(const ResizeAxis *axis, float x) {
  return axis->is_ratio ? x * (float)axis->in / (float)axis->out : x / axis->scale;
}

static float source_coordinate(const BpResize *r, const ResizeAxis *axis, int64_t i) {
  float x = (float)i, in = (float)axis->in, out = (float)axis->out;
  if (bp__resize_is_crop(r))
    return cropped_coordinate(axis, x);
  if (!strcmp(r->coordinate, "asymmetric"))
    return unscaled(axis, x);
  if (!strcmp(r->coordinate, "align_corners"))
    return axis->out > 1 ? x * (in - 1) / (out - 1) : 0.0f;
  if (!strcmp(r->coordinate, "pytorch_half_pixel") && axis->out <= 1)
    return 0.0f;
  if (!strcmp(r->coordinate, "tf_half_pixel_for_nn"))
    return unscaled(axis, x + 0.5f);
  if (!strcmp(r->coordinate, "half_pixel_symmetric") && !axis->is_ratio) {
    float adjustment = out / (axis->scale * in);
    return in / 2.0f * (1.0f - adjustment) + unscaled(axis, x + 0.5f) - 0.5f;
  }
  return unscaled(axis, x + 0.5f) - 0.5f;
}

static float round_nearest(const BpResize *r, float x, float scale) {
  int shrinking = !strcmp(r->nearest, "shrinking");
  if (!strcmp(r->nearest, "ceil") || (shrinking && scale < 1.0f))
    return ceilf(x);
  if (!strcmp(r->nearest, "floor") || shrinking)
    return floorf(x);
  if (!strcmp(r->nearest, "round_prefer_ceil"))
    return floorf(x + 0.5f);
  return ceilf(x - 0.5f);
}

/* The factor by which the distances of neighbours shrink, so that antialiasing includes more of
 * them. */
static float tap_scale(const BpResize *r, float scale) {
  return r->antialias && scale < 1.0f ? scale : 1.0f;
}

int32_t bp__resize_num_taps(const BpResize *r, float scale) {
  float reach = !strcmp(r->mode, "linear") ? 1.0f : 2.0f;
  return !strcmp(r->mode, "nearest") ? 1 : 2 * (int32_t)ceilf(reach / tap_scale(r, scale));
}

/* The weight of a neighbour at distance d: linear, or the cubic convolution (Keys, 1981). */
static float tap_weight(const BpResize *r, float d) {
  float a = r->cubic_a;
  d = fabsf(d);
  if (!strcmp(r->mode, "linear"))
    return d < 1 ? 1 - d : 0;
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Fills one row of the tables of positions and weights. */
static void fill_taps(const BpResize *r, float x, const ResizeAxis *axis, int32_t *place,
                      float *weight) {
  int32_t taps = bp__resize_num_taps(r, axis->scale);
  float base = taps == 1 ? round_nearest(r, x, axis->scale) : floorf(x) + 1 - (float)(taps / 2);
  float last = (float)(axis->in - 1), total = 0.0f;
  for (int32_t t = 0; t < taps; t++) {
    float at = base + (float)t;
    weight[t] = taps == 1 ? 1.0f : tap_weight(r, (x - at) * tap_scale(r, axis->scale));
    if (r->exclude_outside && (at < 0.0f || at > last))
      weight[t] = 0.0f;
    total += weight[t];
    place[t] = (int32_t)(at < 0.0f ? 0.0f : at > last ? last : at);
  }
  for (int32_t t = 0; (r->exclude_outside || r->antialias) && total != 0.0f && t < taps; t++)
    weight[t] /= total;
}

/* The factor by which a table of nearest elements repeats each element in turn, or 0. */
static int64_t repeat_factor(const int32_t *places, int64_t in, int64_t out) {
  int64_t factor = out / in;
  if (factor < 1 || factor * in != out)
    return 0;
  for (int64_t i = 0; i < out; i++)
    if (places[i] != i / factor)
      return 0;
  return factor;
}

/* The number of elements that suffices to tell which factor a rule has. */
#define SAMPLE 64

int64_t bp__resize_repeats(const BpResize *r, float scale) {
  int32_t places[16 * SAMPLE];
  float weight;
  int64_t factor = scale >= 1 && scale <= 16 ? (int64_t)scale : 0;
  ResizeAxis axis = {SAMPLE, SAMPLE * factor, scale, false, 0, 1};
  if ((float)factor != scale || strcmp(r->mode, "nearest") || bp__resize_is_crop(r) ||
      !strcmp(r->coordinate, "align_corners"))
    return 0;
  for (int64_t i = 0; i < axis.out; i++)
    fill_taps(r, source_coordinate(r, &axis, i), &axis, &places[i], &weight);
  return repeat_factor(places, axis.in, axis.out);
}

/* Replaces elements whose position is outside the input by the extrapolation value. */
static BpGraphValue *extrapolated(BpGraph *graph, const BpResize *r, BpGraphValue *x, int32_t dim,
                                  const ResizeAxis *axis) {
  int64_t shape[BP_GRAPH_MAX_NDIM] = {axis->out};
  for (int32_t i = dim + 1; x && i < x->ndim; i++)
    shape[i - dim] = 1;
  BpGraphValue *outside =
      x ? bp__graph_constant(graph, "outside", BP__BOOL, shape, x->ndim - dim, NULL) : NULL;
  if (!outside)
    return NULL;
  for (int64_t i = 0; i < axis->out; i++) {
    float at = source_coordinate(r, axis, i);
    ((uint8_t *)bp__graph_constant_data(outside))[i] = at < 0 || at > (float)(axis->in - 1);
  }
  BpGraphValue *value =
      bp__op_cast(graph, r->node, bp__graph_float_scalar(graph, r->extrapolation), x->dtype);
  return bp__op_apply(graph, "", "Where", r->node->name, (BpGraphValue *[]){outside, value, x}, 3,
                      NULL, 0);
}

static BpGraphValue *resize_along(BpGraph *graph, const BpResize *r, BpGraphValue *x, int32_t dim,
                                  const ResizeAxis *axis) {
  int64_t table[2] = {axis->out, bp__resize_num_taps(r, axis->scale)}, factor;
  BpDataType int32 = {BP_DTYPE_INT, 32, 1};
  BpGraphValue *places = bp__graph_constant(graph, "places", int32, table, 2, NULL);
  BpGraphValue *weights = bp__graph_constant(graph, "weights", BP__FLOAT32, table, 2, NULL);
  BpGraphValue *inputs[3] = {x, places, weights};
  BpGraphAttr attrs[3];
  if (!places || !weights)
    return NULL;
  for (int64_t i = 0; i < axis->out; i++)
    fill_taps(r, source_coordinate(r, axis, i), axis,
              (int32_t *)bp__graph_constant_data(places) + i * table[1],
              (float *)bp__graph_constant_data(weights) + i * table[1]);
  factor = table[1] == 1 ? repeat_factor(places->data, axis->in, axis->out) : 0;
  attrs[0] = bp__attr_int(graph, "axis", dim);
  attrs[1] = bp__attr_int(graph, "repeat", factor);
  attrs[2] = bp__attr_int(graph, "antialias", r->antialias);
  x = bp__op_apply(graph, "backplane", "ResizeAxis", r->node->name, inputs,
                   factor          ? 1
                   : table[1] == 1 ? 2
                                   : 3,
                   attrs, 3);
  return bp__resize_is_crop(r) ? extrapolated(graph, r, x, dim, axis) : x;
}

/* ---- The operators ----------------------------------------------------------------------- */

static int is_one_of(const char *word, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(word, words[i]))
      return 1;
  return 0;
}

static int check_modes(const BpResize *r) {
  static const char *const coordinates[] = {
      "asymmetric",           "align_corners",        "half_pixel",        "pytorch_half_pixel",
      "half_pixel_symmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil", "shrinking"};
  static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
  const char *policy = bp__node_str(r->node, "keep_aspect_ratio_policy", "stretch");
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  if (!is_one_of(r->coordinate, coordinates, sizeof(coordinates) / sizeof(coordinates[0])))
    return bp__op_error(r->node, "coordinate_transformation_mode '%s' is not supported",
                        r->coordinate);
  if (!is_one_of(r->nearest, roundings, sizeof(roundings) / sizeof(roundings[0])))
    return bp__op_error(r->node, "nearest_mode '%s' is not supported", r->nearest);
  if (!is_one_of(r->mode, modes, sizeof(modes) / sizeof(modes[0])))
    return bp__op_error(r->node, "mode '%s' is not supported", r->mode);
  if (!is_one_of(policy, policies, sizeof(policies) / sizeof(policies[0])))
    return bp__op_bad(r->node, "keep_aspect_ratio_policy '%s' is unknown", policy);
  return 0;
}

/* Resizes all axes except those with equal extents, a scale of 1 and no cropping. */
static int resize_all(BpGraph *graph, BpGraphNode *node, const BpResize *r,
                      const ResizeAxis *axes) {
  BpGraphValue *x = node->inputs[0];
  for (int32_t i = 0; i < node->inputs[0]->ndim; i++) {
    const ResizeAxis *axis = &axes[i];
    if (axis->in == axis->out && axis->scale == 1.0f && axis->start == 0 && axis->end == 1)
      continue;
    if (axis->out < 0 || (axis->in < 1 && axis->out > 0) ||
        axis->out > INT32_MAX / BP__RESIZE_MOST_TAPS)
      return bp__op_bad(node, "axis %d cannot be resized from %lld to %lld", i, (long long)axis->in,
                        (long long)axis->out);
    if (axis->out > 0 && tap_scale(r, axis->scale) < BP__RESIZE_LEAST_SCALE)
      return bp__op_error(node, "antialias with a scale of %g along axis %d is not supported",
                          (double)axis->scale, i);
    x = axis->out > 0 ? resize_along(graph, r, x, i, axis) : bp__op_slice(graph, node, x, i, 0, 0);
    if (!x)
      return -1;
  }
  node->outputs[0] = x;
  return 0;
}

static int read_scale(const BpGraphNode *node, double given, ResizeAxis *axis) {
  axis->scale = (float)given;
  if (bp__extent_is_open(axis->in) && axis->scale == 1.0f)
    return 0;
  float extent = floorf((float)axis->in * axis->scale); /* float32, as ONNX infers shapes */
  if (!(axis->scale > 0.0f) || !(extent <= (float)(INT32_MAX / 2)))
    return bp__op_bad(node, "a scale is %g", given);
  axis->out = (int64_t)extent;
  return 0;
}

/* Reads the axes that are resized, by default all. Returns the number of axes, or -1 with an
 * error. */
static int32_t read_axes(const BpGraphNode *node, ResizeAxis *axes, int32_t *dims) {
  const BpGraphValue *x = node->inputs[0];
  int64_t given[BP_GRAPH_MAX_NDIM];
  int32_t count = bp__op_ints(node, -1, "axes", given, BP_GRAPH_MAX_NDIM), used = 0;
  for (int32_t i = 0; i < x->ndim; i++) {
    axes[i] = (ResizeAxis){x->shape[i], x->shape[i], 1, false, 0, 1};
    dims[i] = i;
  }
  for (int32_t i = 0; i < count; i++) {
    if (bp__op_axis(node, given[i], x->ndim, &dims[i]))
      return -1;
    if (used >> dims[i] & 1)
      return bp__op_bad(node, "axis %d stands twice in its axes", dims[i]);
    used |= 1 << dims[i];
  }
  return count == -2 ? x->ndim : count;
}

/* Changes the sizes so that they keep the picture's proportions, and are at most, or at least, the
 * given sizes. */
static void keep_ratio(ResizeAxis *axes, const int32_t *dims, int32_t count, int is_within) {
  float scale = axes[dims[0]].scale;
  for (int32_t i = 1; i < count; i++)
    scale = is_within ? fminf(scale, axes[dims[i]].scale) : fmaxf(scale, axes[dims[i]].scale);
  for (int32_t i = 0; i < count; i++) {
    ResizeAxis *axis = &axes[dims[i]];
    axis->scale = scale;
    axis->is_ratio = false;
    axis->out = (int64_t)floorf(scale * (float)axis->in + 0.5f);
  }
}

static int read_sizes(const BpGraphNode *node, ResizeAxis *axes, const int32_t *dims,
                      int32_t count) {
  const char *policy = bp__node_str(node, "keep_aspect_ratio_policy", "stretch");
  int64_t sizes[BP_GRAPH_MAX_NDIM];
  if (bp__op_const_extents(node, 3, sizes, BP_GRAPH_MAX_NDIM) != count)
    return bp__op_error(node, "its sizes must be constant, one for each axis");
  for (int32_t i = 0; i < count; i++) {
    ResizeAxis *axis = &axes[dims[i]];
    axis->out = sizes[i];
    axis->scale = sizes[i] == axis->in ? 1.0f : (float)sizes[i] / (float)axis->in;
    axis->is_ratio = true;
  }
  if (count > 0 && strcmp(policy, "stretch"))
    keep_ratio(axes, dims, count, !strcmp(policy, "not_larger"));
  return 0;
}

/* Reads the region that is cropped: starts, then ends. */
static int read_region(const BpGraphNode *node, ResizeAxis *axes, const int32_t *dims,
                       int32_t count) {
  const BpGraphValue *region = bp__node_input(node, 1);
  if (!region || !region->data || !bp__dtype_is_float(region->dtype) ||
      bp__value_num_elements(region) != 2 * count)
    return bp__op_error(node, "its roi must be constant, a start and an end for each axis");
  for (int32_t i = 0; i < count; i++) {
    axes[dims[i]].start = (float)bp__value_get_float(region, i);
    axes[dims[i]].end = (float)bp__value_get_float(region, count + i);
    if (!(fabsf(axes[dims[i]].start) < 1e6f) || !(fabsf(axes[dims[i]].end) < 1e6f))
      return bp__op_bad(node, "its roi is not a part of its input");
  }
  return 0;
}

static int read_extents(const BpResize *r, ResizeAxis *axes, const int32_t *dims, int32_t count) {
  const BpGraphValue *scales = r->scales;
  if (r->sizes)
    return read_sizes(r->node, axes, dims, count);
  if (!scales || bp__value_num_elements(scales) != count)
    return bp__op_bad(r->node, "it has neither sizes nor a scale for each axis");
  if (!bp__dtype_is_float(scales->dtype))
    return bp__op_bad(r->node, "its scales are no floats");
  for (int32_t i = 0; i < count; i++)
    if (read_scale(r->node, bp__value_get_float(scales, i), &axes[dims[i]]))
      return -1;
  return 0;
}

static bool is_of_data(const BpGraphValue *value) {
  return value && !value->data && !value->extents;
}

/* Whether any resized axis has an open extent. */
static bool resizes_open(const BpResize *r, const int32_t *dims, int32_t count) {
  int64_t sizes[BP_GRAPH_MAX_NDIM];
  bool has_sizes = r->sizes && bp__op_const_extents(r->node, 3, sizes, BP_GRAPH_MAX_NDIM) == count;
  bool keeps_ratio =
      strcmp(bp__node_str(r->node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0;
  for (int32_t i = 0; i < count; i++) {
    int64_t in = r->node->inputs[0]->shape[dims[i]];
    bool is_open = bp__extent_is_open(in) || (has_sizes && bp__extent_is_open(sizes[i]));
    bool is_same = has_sizes
                       ? sizes[i] == in && !keeps_ratio
                       : r->scales && r->scales->data && i < bp__value_num_elements(r->scales) &&
                             bp__value_get_float(r->scales, i) == 1;
    if (is_open && (!is_same || bp__resize_is_crop(r)))
      return true;
  }
  return false;
}

static int resize_elements(BpGraph *graph, BpGraphNode *node, const BpResize *r) {
  ResizeAxis axes[BP_GRAPH_MAX_NDIM];
  int32_t dims[BP_GRAPH_MAX_NDIM], count = read_axes(node, axes, dims);
  if (count < 0 || check_modes(r))
    return -1;
  if (is_of_data(r->sizes) || is_of_data(r->scales) ||
      (bp__resize_is_crop(r) && is_of_data(r->region)) || resizes_open(r, dims, count) ||
      bp__resize_is_wide(r))
    return bp__resize_in(graph, node, r, dims, count);
  if (read_extents(r, axes, dims, count) ||
      (bp__resize_is_crop(r) && read_region(node, axes, dims, count)))
    return -1;
  return resize_all(graph, node, r, axes);
}

/* Weighted sums of integers are computed in float64, rounded and saturated, as by ONNX's reference.
 */
static int resize(BpGraph *graph, BpGraphNode *node, const BpResize *r) {
  const BpDataType dtype = node->inputs[0]->dtype, wide = {BP_DTYPE_FLOAT, 64, 1};
  if (bp__dtype_is_float(dtype) || !strcmp(r->mode, "nearest"))
    return resize_elements(graph, node, r);
  if (dtype.code != BP_DTYPE_INT && dtype.code != BP_DTYPE_UINT)
    return bp__op_error(node, "mode '%s' on elements that are no numbers is not supported",
                        r->mode);
  int is_signed = dtype.code == BP_DTYPE_INT;
  double limit = ldexp(1, dtype.bits - is_signed);
  node->inputs[0] = bp__op_cast(graph, node, node->inputs[0], wide);
  if (!node->inputs[0] || resize_elements(graph, node, r))
    return -1;
  BpGraphValue *clip[] = {bp__op_unary(graph, node, "Round", node->outputs[0]),
                          bp__op_number(graph, node, wide, is_signed ? -limit : 0),
                          bp__op_number(graph, node, wide, limit - 1)};
  node->outputs[0] = bp__op_cast(
      graph, node, bp__op_apply(graph, "", "Clip", node->name, clip, 3, NULL, 0), dtype);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(resize) {
  bool is_old = node->version < 11; /* before version 11 the second and last input is the scales */
  BpResize r = {.node = node,
                .mode = bp__node_str(node, "mode", "nearest"),
                .coordinate = bp__node_str(node, "coordinate_transformation_mode",
                                           is_old ? "asymmetric" : "half_pixel"),
                .nearest =
                    bp__node_str(node, "nearest_mode", is_old ? "shrinking" : "round_prefer_floor"),
                .cubic_a = bp__node_float(node, "cubic_coeff_a", -0.75f),
                .exclude_outside = bp__node_int(node, "exclude_outside", 0) != 0,
                .antialias = bp__node_int(node, "antialias", 0) != 0,
                .extrapolation = bp__node_float(node, "extrapolation_value", 0),
                .scales = bp__node_input(node, is_old ? 1 : 2),
                .sizes = bp__node_input(node, 3),
                .region = is_old ? NULL : bp__node_input(node, 1)};
  return resize(graph, node, &r);
}

BP_ROW_EXPAND(upsample) {
  const BpGraphAttr *attr = bp__node_attr(node, "scales");
  BpResize r = {.node = node,
                .mode = bp__node_str(node, "mode", "nearest"),
                .coordinate = "asymmetric",
                .nearest = "floor",
                .cubic_a = -0.75f,
                .scales = bp__node_input(node, 1)};
  if (!r.scales && attr && attr->floats) {
    int64_t num_scales = attr->count;
    r.scales = bp__graph_constant(graph, node->name, BP__FLOAT32, &num_scales, 1, attr->floats);
  }
  return resize(graph, node, &r);
}

/* ---- One axis ---------------------------------------------------------------------------- */

/* The inputs of ResizeAxis are x and, unless the attribute `repeat` is positive, positions (extent
 * x taps) and, for more than one tap, weights. */
BP_ROW_INFER(resize_axis) {
  const BpGraphValue *x = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM], repeat = bp__node_int(node, "repeat", 0);
  int32_t axis = (int32_t)bp__node_int(node, "axis", 0);
  memcpy(shape, x->shape, sizeof(shape));
  shape[axis] = repeat ? bp__extent_multiply(&graph->extents, shape[axis], repeat)
                       : node->inputs[1]->shape[0];
  if (shape[axis] == BP_EXTENT_NONE)
    return -1;
  return bp__node_set_output(graph, node, 0, x->dtype, shape, x->ndim);
}

/* With `antialias` the tables have more neighbours than onnxruntime adds. The additional neighbours
 * have weight 0. They are left out: 0 times infinity is NaN. */
const BpIrNode *bp__resize_weighted(const BpOpCompute *op, const BpIrNode *value,
                                    const BpIrNode *const *row) {
  BpIrModule *ir = bp_te_ir(op->te);
  const BpIrNode *weight =
      value ? bp_ir_cast(ir, x_dtype(value), bp_te_read(op->te, op->inputs[2], row)) : NULL;
  const BpIrNode *product = x_mul(ir, value, weight);
  if (!weight || !bp__node_int(op->node, "antialias", 0))
    return product;
  const BpIrNode *zero = x_number(ir, x_dtype(value), 0);
  return bp_ir_select(ir, bp_ir_binary(ir, BP_IR_EQ, weight, zero), zero, product);
}

static const BpIrNode *resize_axis_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  const BpGraphNode *node = op->node;
  int32_t axis = (int32_t)bp__node_int(node, "axis", 0), ndim = node->inputs[0]->ndim;
  int64_t repeat = bp__node_int(node, "repeat", 0);
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM], *sum = NULL;
  memcpy(indices, axes, (size_t)ndim * sizeof(*indices));
  if (repeat) {
    indices[axis] = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[axis], x_index(ir, repeat));
    return bp_te_read(te, op->inputs[0], indices);
  }
  for (int64_t t = 0; t < node->inputs[1]->shape[1]; t++) {
    const BpIrNode *row[2] = {axes[axis], x_index(ir, t)}, *place, *value;
    place = bp_te_read(te, op->inputs[1], row);
    indices[axis] = place ? bp_ir_cast(ir, BP__INT64, place) : NULL;
    value = x_wide(ir, bp_te_read(te, op->inputs[0], indices));
    if (value && bp__node_input(node, 2))
      value = bp__resize_weighted(op, value, row);
    sum = sum ? x_add(ir, sum, value) : value;
    if (!sum)
      return NULL;
  }
  return sum;
}

BP_ROW_COMPUTE(resize_axis) {
  return bp__op_give_body(op, "ResizeAxis", resize_axis_body, outputs);
}
