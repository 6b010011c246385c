/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing, one axis at a time: every element of the output is a weighted sum of a few elements
 * along that axis, whose places and weights are tables made here. So each interpolation mode and
 * each rule for coordinates is a way to fill a table, and generated code knows none of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

#define MAX_TAPS 4

typedef struct Resize {
  const BpGraphNode *node;
  const char *mode;       /* nearest, linear, cubic */
  const char *coordinate; /* coordinate_transformation_mode */
  const char *nearest;    /* nearest_mode; "shrinking": ceil where an axis shrinks, else floor */
  float cubic_a;
  int exclude_outside;
} Resize;

/* ---- Coordinates ------------------------------------------------------------------------- */

static float source_coordinate(const Resize *r, int64_t i, int64_t in, int64_t out, float scale) {
  float x = (float)i;
  if (!strcmp(r->coordinate, "asymmetric"))
    return x / scale;
  if (!strcmp(r->coordinate, "align_corners"))
    return out > 1 ? x * (float)(in - 1) / (float)(out - 1) : 0.0f;
  if (!strcmp(r->coordinate, "pytorch_half_pixel") && out <= 1)
    return 0.0f;
  if (!strcmp(r->coordinate, "half_pixel_symmetric")) {
    float adjustment = (float)out / (scale * (float)in);
    return (float)in / 2.0f * (1.0f - adjustment) + (x + 0.5f) / scale - 0.5f;
  }
  return (x + 0.5f) / scale - 0.5f;
}

static float round_nearest(const Resize *r, float x, float scale) {
  int shrinking = !strcmp(r->nearest, "shrinking");
  if (!strcmp(r->nearest, "ceil") || (shrinking && scale < 1.0f))
    return ceilf(x);
  if (!strcmp(r->nearest, "floor") || shrinking)
    return floorf(x);
  if (!strcmp(r->nearest, "round_prefer_ceil"))
    return floorf(x + 0.5f);
  return ceilf(x - 0.5f);
}

static int32_t num_taps(const Resize *r) {
  return !strcmp(r->mode, "nearest") ? 1 : !strcmp(r->mode, "linear") ? 2 : 4;
}

/* Weights of the four neighbours at distance t beyond the second (Keys, 1981). */
static void cubic_weights(float a, float t, float *w) {
  w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
  w[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
}

/* Fills one row of the tables. */
static void fill_taps(const Resize *r, float x, float scale, int64_t in, int32_t *place,
                      float *weight) {
  int32_t taps = num_taps(r);
  float base = taps == 1 ? round_nearest(r, x, scale) : floorf(x), total = 0.0f;
  if (taps == 2) {
    weight[1] = x - base;
    weight[0] = 1.0f - weight[1];
  } else if (taps == 4) {
    cubic_weights(r->cubic_a, x - base, weight);
    base -= 1.0f;
  } else {
    weight[0] = 1.0f;
  }
  for (int32_t t = 0; t < taps; t++) {
    float at = base + (float)t;
    if (r->exclude_outside && (at < 0.0f || at > (float)(in - 1)))
      weight[t] = 0.0f;
    total += weight[t];
    place[t] = (int32_t)(at < 0.0f ? 0.0f : at > (float)(in - 1) ? (float)(in - 1) : at);
  }
  for (int32_t t = 0; r->exclude_outside && total != 0.0f && t < taps; t++)
    weight[t] /= total;
}

/* The factor by which a nearest table repeats each element in turn, or 0. */
static int64_t repeat_factor(const int32_t *places, int64_t in, int64_t out) {
  int64_t factor = out / in;
  if (factor < 1 || factor * in != out)
    return 0;
  for (int64_t i = 0; i < out; i++)
    if (places[i] != i / factor)
      return 0;
  return factor;
}

static BpGraphValue *resize_along(BpGraph *graph, const Resize *r, BpGraphValue *x, int32_t axis,
                                  int64_t out, float scale) {
  int64_t in = x->shape[axis], table[2] = {out, num_taps(r)}, factor;
  BpDataType int32 = {BP_DTYPE_INT, 32, 1};
  BpGraphValue *places = bp__graph_constant(graph, "places", int32, table, 2, NULL);
  BpGraphValue *weights = bp__graph_constant(graph, "weights", BP__FLOAT32, table, 2, NULL);
  BpGraphValue *inputs[3] = {x, places, weights};
  BpGraphAttr attrs[2];
  if (!places || !weights)
    return NULL;
  for (int64_t i = 0; i < out; i++)
    fill_taps(r, source_coordinate(r, i, in, out, scale), scale, in,
              (int32_t *)bp__graph_constant_data(places) + i * table[1],
              (float *)bp__graph_constant_data(weights) + i * table[1]);
  factor = table[1] == 1 ? repeat_factor(places->data, in, out) : 0;
  attrs[0] = bp__attr_int(graph, "axis", axis);
  attrs[1] = bp__attr_int(graph, "repeat", factor);
  return bp__op_apply(graph, "backplane", "ResizeAxis", r->node->name, inputs,
                      factor          ? 1
                      : table[1] == 1 ? 2
                                      : 3,
                      attrs, 2);
}

/* ---- The operators ----------------------------------------------------------------------- */

static int is_one_of(const char *word, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(word, words[i]))
      return 1;
  return 0;
}

static int check_modes(const Resize *r) {
  static const char *const coordinates[] = {"asymmetric", "align_corners", "half_pixel",
                                            "pytorch_half_pixel", "half_pixel_symmetric"};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil", "shrinking"};
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  if (!is_one_of(r->coordinate, coordinates, sizeof(coordinates) / sizeof(coordinates[0])))
    return bp__op_error(r->node, "coordinate_transformation_mode '%s' is not supported",
                        r->coordinate);
  if (!is_one_of(r->nearest, roundings, sizeof(roundings) / sizeof(roundings[0])))
    return bp__op_error(r->node, "nearest_mode '%s' is not supported", r->nearest);
  if (!is_one_of(r->mode, modes, sizeof(modes) / sizeof(modes[0])))
    return bp__op_error(r->node, "mode '%s' is not supported", r->mode);
  if (bp__node_int(r->node, "antialias", 0))
    return bp__op_error(r->node, "antialias is not supported");
  return 0;
}

static int resize_all(BpGraph *graph, BpGraphNode *node, const Resize *r, const int64_t *sizes,
                      const float *scales) {
  BpGraphValue *x = node->inputs[0];
  if (check_modes(r))
    return -1;
  if (!bp__dtype_is_float(x->dtype) && strcmp(r->mode, "nearest"))
    return bp__op_error(node, "mode '%s' on integers is not supported", r->mode);
  for (int32_t i = 0; i < node->inputs[0]->ndim; i++) {
    if (x->shape[i] == sizes[i] && scales[i] == 1.0f)
      continue;
    if (bp__extent_is_open(x->shape[i]) || bp__extent_is_open(sizes[i]))
      return bp__op_bad(node, "axis %d, which is resized, has an open extent", i);
    if (x->shape[i] < 1 || sizes[i] < 1 || sizes[i] > INT32_MAX / MAX_TAPS)
      return bp__op_bad(node, "axis %d cannot be resized from %lld to %lld", i,
                        (long long)x->shape[i], (long long)sizes[i]);
    x = resize_along(graph, r, x, i, sizes[i], scales[i]);
    if (!x)
      return -1;
  }
  node->outputs[0] = x;
  return 0;
}

static int read_scales(const BpGraphNode *node, const BpGraphValue *given, int64_t *sizes,
                       float *scales) {
  const BpGraphValue *x = node->inputs[0];
  if (!given->data || given->dtype.code != BP_DTYPE_FLOAT)
    return bp__op_error(node, "its scales must be constant");
  for (int32_t i = 0; i < x->ndim; i++) {
    float extent;
    scales[i] = (float)bp__value_get_float(given, i);
    sizes[i] = x->shape[i];
    if (bp__extent_is_open(x->shape[i]))
      continue;
    extent = floorf((float)x->shape[i] * scales[i]); /* in float32, as ONNX infers the shape */
    if (!(scales[i] > 0.0f) || !(extent <= (float)(INT32_MAX / 2)))
      return bp__op_bad(node, "scale %d is %g", i, (double)scales[i]);
    sizes[i] = (int64_t)extent;
  }
  return 0;
}

BP_ROW_EXPAND(resize) {
  BpGraphValue *x = node->inputs[0], *scale_list, *size_list;
  int64_t sizes[BP_GRAPH_MAX_NDIM];
  float scales[BP_GRAPH_MAX_NDIM];
  Resize r = {
      node,
      bp__node_str(node, "mode", "nearest"),
      bp__node_str(node, "coordinate_transformation_mode",
                   node->version < 11 ? "asymmetric" : "half_pixel"),
      bp__node_str(node, "nearest_mode", node->version < 11 ? "shrinking" : "round_prefer_floor"),
      bp__node_float(node, "cubic_coeff_a", -0.75f),
      bp__node_int(node, "exclude_outside", 0) != 0};
  scale_list = bp__node_input(node, node->version < 11 ? 1 : 2);
  size_list = bp__node_input(node, 3);
  if (bp__node_attr(node, "axes") ||
      strcmp(bp__node_str(node, "keep_aspect_ratio_policy", "stretch"), "stretch"))
    return bp__op_error(node, "axes and keep_aspect_ratio_policy are not supported");
  if (size_list) {
    if (bp__op_const_extents(node, 3, sizes, BP_GRAPH_MAX_NDIM) != x->ndim)
      return bp__op_error(node, "its sizes must be constant, one a dimension");
    for (int32_t i = 0; i < x->ndim; i++)
      scales[i] = sizes[i] == x->shape[i] ? 1.0f : (float)sizes[i] / (float)x->shape[i];
  } else if (!scale_list || bp__value_num_elements(scale_list) != x->ndim) {
    return bp__op_bad(node, "it has neither sizes nor a scale for each dimension");
  } else if (read_scales(node, scale_list, sizes, scales)) {
    return -1;
  }
  return resize_all(graph, node, &r, sizes, scales);
}

BP_ROW_EXPAND(upsample) {
  BpGraphValue *x = node->inputs[0], *list = bp__node_input(node, 1);
  const BpGraphAttr *attr = bp__node_attr(node, "scales");
  int64_t sizes[BP_GRAPH_MAX_NDIM], count;
  float scales[BP_GRAPH_MAX_NDIM];
  Resize r = {node, bp__node_str(node, "mode", "nearest"), "asymmetric", "floor", -0.75f, 0};
  if (!list && attr && attr->floats) {
    count = attr->count;
    list = bp__graph_constant(graph, node->name, BP__FLOAT32, &count, 1, attr->floats);
  }
  if (!list || bp__value_num_elements(list) != x->ndim)
    return bp__op_bad(node, "it has no scale for each dimension");
  return read_scales(node, list, sizes, scales) ? -1 : resize_all(graph, node, &r, sizes, scales);
}

/* ---- One axis ---------------------------------------------------------------------------- */

/* Inputs: x, and unless the attribute `repeat` is positive, places (extent x taps), and for more
 * than one tap, weights. */
BP_ROW_INFER(resize_axis) {
  const BpGraphValue *x = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM], repeat = bp__node_int(node, "repeat", 0);
  int32_t axis = (int32_t)bp__node_int(node, "axis", 0);
  memcpy(shape, x->shape, sizeof(shape));
  shape[axis] = repeat ? shape[axis] * repeat : node->inputs[1]->shape[0];
  return bp__node_set_output(graph, node, 0, x->dtype, shape, x->ndim);
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
      value = x_mul(ir, value, bp_ir_cast(ir, x_dtype(value), bp_te_read(te, op->inputs[2], row)));
    sum = sum ? x_add(ir, sum, value) : value;
    if (!sum)
      return NULL;
  }
  return sum;
}

BP_ROW_COMPUTE(resize_axis) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpCompute copy = *op;
  return bp__op_give(
      outputs, bp__op_tensor(op, "ResizeAxis", out->shape, out->ndim, resize_axis_body, &copy));
}
