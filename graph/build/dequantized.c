/* SPDX-License-Identifier: Apache-2.0 */
/* Products and convolutions of dequantised operands. If the input is bytes minus a zero point times
 * a scale, and the weights of each column or channel are small integers times a scale, the scales
 * move behind the operator, which becomes one of integers (byte_products.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/target.h>

#include "graph/build/build.h"
#include "graph/build/byte_products.h"
#include "graph/ops/op.h"

/* Products of bytes in the time of one of float32, from which on dot products are faster than
 * Winograd's algorithm. */
#define FASTER_THAN_WINOGRAD 3

/* ---- Operands ---------------------------------------------------------------------------- */

/* An input: integers times a scale, whose products are finite. */
typedef struct Scaled {
  BpGraphValue *integers; /* of int32 */
  float scale;
} Scaled;

static int read_scaled(const BpGraphValue *value, Scaled *scaled) {
  const BpGraphNode *mul = value->producer, *cast;
  if (!bp__op_is(mul, "Mul") || !bp__dtype_equal(value->dtype, BP__FLOAT32) ||
      !mul->inputs[1]->data || bp__value_num_elements(mul->inputs[1]) != 1 ||
      !bp__value_same_shape(value, mul->inputs[0]))
    return 0;
  cast = mul->inputs[0]->producer;
  if (!bp__op_is(cast, "Cast") || !bp__bytes_are_centred(cast->inputs[0]))
    return 0;
  *scaled = (Scaled){cast->inputs[0], (float)bp__value_get_float(mul->inputs[1], 0)};
  return isfinite(scaled->scale * UINT8_MAX);
}

/* Weights that share a scale. A weight that refuted a scale likely refutes the next one as well:
 * the first `num_refuting` weights are those. */
typedef struct Weights {
  float *numbers;
  int64_t count, num_refuting;
  float least, most; /* the range of levels */
} Weights;

static float weight(const char *weights, int64_t i) {
  float number;
  memcpy(&number, weights + i * (int64_t)sizeof(number), sizeof(number));
  return number;
}

static float largest(const Weights *w) {
  float most = 0;
  for (int64_t i = 0; i < w->count; i++)
    if (fabsf(w->numbers[i]) > most)
      most = fabsf(w->numbers[i]);
  return most;
}

/* Whether each weight is a level times the scale, rounded to float32, which NaN is not. */
static int has_scale(Weights *w, float scale) {
  for (int64_t i = 0; i < w->count; i++) {
    float number = w->numbers[i], level = rintf(number / scale);
    if (level >= w->least && level <= w->most && level * scale == number)
      continue;
    if (i >= w->num_refuting) {
      w->numbers[i] = w->numbers[w->num_refuting];
      w->numbers[w->num_refuting++] = number;
    }
    return 0;
  }
  return 1;
}

/* The maximum distance, in units of the last place, of a scale from the quotient of a weight and
 * its level: the weight and the quotient are rounded. */
#define MOST_UNITS 2

/* Finds the scale of weights; 0 if they have none. The largest weight may have any level. */
static float find_scale(Weights *w) {
  float most = largest(w);
  if (most == 0)
    return has_scale(w, 1);
  for (int level = (int)-w->least; level > 0 && isfinite(most); level--) {
    float scale = most / (float)level;
    for (int i = 0; i < MOST_UNITS; i++)
      scale = nextafterf(scale, 0);
    for (int i = -MOST_UNITS; i <= MOST_UNITS; i++, scale = nextafterf(scale, INFINITY))
      if (isnormal(scale) && has_scale(w, scale))
        return scale;
  }
  return 0;
}

/* The weights as integers, and the scale of each result: that of the weights times `scale`. */
typedef struct Levels {
  BpGraphValue *integers; /* of a convolution: int32, as the weights */
  BpByteWeights packed;   /* of a product */
  BpGraphValue *scales;
} Levels;

/* Finds the scale of `count` weights, `stride` floats apart, which the weights then are divided by.
 * Returns 0 if they have no scale, or if sums of bytes times levels may not fit in int32. */
static float read_levels(Weights *w, const char *weights, int64_t stride, int64_t *sum) {
  int64_t magnitudes = 0;
  w->num_refuting = 0;
  for (int64_t i = 0; i < w->count; i++)
    w->numbers[i] = weight(weights, i * stride);
  float scale = find_scale(w);
  *sum = 0;
  for (int64_t i = 0; i < w->count && scale > 0; i++) {
    w->numbers[i] = rintf(weight(weights, i * stride) / scale);
    magnitudes += (int64_t)fabsf(w->numbers[i]);
    *sum += (int64_t)w->numbers[i];
  }
  return magnitudes <= INT32_MAX / UINT8_MAX ? scale : 0;
}

/* Stores the levels of the weights of result `i`. */
static void store_levels(const Weights *w, const Levels *levels, int64_t i, int64_t results,
                         int64_t sum) {
  if (levels->integers) {
    int32_t *integers = bp__graph_constant_data(levels->integers);
    for (int64_t k = 0; k < w->count; k++)
      integers[i * w->count + k] = (int32_t)w->numbers[k];
    return;
  }
  int8_t *bytes = bp__graph_constant_data(levels->packed.words);
  for (int64_t k = 0; k < w->count; k++)
    bytes[(k / 4 * results + i) * 4 + k % 4] = (int8_t)w->numbers[k];
  ((int32_t *)bp__graph_constant_data(levels->packed.sums))[i] = (int32_t)sum;
}

static int make_levels(BpGraph *graph, const BpGraphValue *weights, Levels *levels) {
  int64_t rows = (weights->shape[0] + 3) / 4, columns = weights->shape[1], one = 1;
  *levels = (Levels){.integers = NULL};
  if (weights->ndim > 2) {
    levels->integers =
        bp__graph_constant(graph, weights->name, BP__INT32, weights->shape, weights->ndim, NULL);
    return levels->integers ? 0 : -1;
  }
  levels->packed.words =
      bp__graph_constant(graph, weights->name, BP__INT32, (int64_t[]){rows, columns}, 2, NULL);
  levels->packed.sums =
      bp__graph_constant(graph, weights->name, BP__INT32, (int64_t[]){one, columns}, 2, NULL);
  return levels->packed.words && levels->packed.sums ? 0 : -1;
}

/* Finds the levels of weights (out, ...) of a convolution, or (in, out) of a product: signed bytes,
 * or differences of bytes for a convolution of each channel, which is no dot product. The scales
 * broadcast to the result. Returns 1, 0 if the weights have none, -1 with an error. */
static int find_levels(BpGraph *graph, const BpGraphNode *node, float scale, Levels *levels) {
  const BpGraphValue *weights = node->inputs[1];
  int is_product = weights->ndim == 2, is_depthwise = bp__node_int(node, "group", 1) > 1;
  int32_t ndim = node->outputs[0]->ndim;
  int64_t results = weights->shape[is_product], shape[BP_GRAPH_MAX_NDIM], sum;
  Weights w = {.count = bp__value_num_elements(weights) / results,
               .least = is_depthwise ? -UINT8_MAX : INT8_MIN,
               .most = is_depthwise ? UINT8_MAX : INT8_MAX};
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = i == (is_product ? ndim - 1 : 1) ? results : 1;
  w.numbers = bp__arena_alloc_array(&graph->arena, (size_t)w.count, sizeof(*w.numbers));
  if (!w.numbers || make_levels(graph, weights, levels) ||
      !(levels->scales = bp__graph_constant(graph, weights->name, BP__FLOAT32, shape, ndim, NULL)))
    return -1;
  float *scales = bp__graph_constant_data(levels->scales);
  for (int64_t i = 0; i < results; i++) {
    int64_t first = is_product ? i : i * w.count;
    const char *from = (const char *)weights->data + first * (int64_t)sizeof(float);
    scales[i] = read_levels(&w, from, is_product ? results : 1, &sum) * scale;
    if (!isnormal(scales[i]))
      return 0;
    store_levels(&w, levels, i, results, sum);
  }
  return 1;
}

/* ---- The pass ---------------------------------------------------------------------------- */

/* Whether a node is a convolution or product that is faster with integers. */
static int pays(const BpTarget *target, const BpGraphNode *node) {
  if (!bp__op_is(node, "MatMul") && !bp__op_is(node, "Conv"))
    return 0;
  const BpGraphValue *in = node->inputs[0], *weights = node->inputs[1];
  int64_t speed = bp_target_get_int(target, BP_TARGET_BYTE_DOT, 0);
  if (speed == 0 || !weights->data || !bp__dtype_equal(weights->dtype, BP__FLOAT32) ||
      bp__value_num_elements(weights) == 0 || bp__value_num_elements(node->outputs[0]) == 0)
    return 0;
  if (bp__op_is(node, "MatMul"))
    return in->ndim > 1 && weights->ndim == 2;
  int64_t groups = bp__node_int(node, "group", 1);
  if (groups > 1)
    return in->ndim == 4 && groups == weights->shape[0] && weights->shape[1] == 1;
  return in->ndim == 4 &&
         (speed >= FASTER_THAN_WINOGRAD || weights->shape[2] * weights->shape[3] == 1);
}

static int unscale_rule(BpRewrite *rewrite, BpGraphNode *node) {
  BpGraph *graph = rewrite->graph;
  BpGraphValue *bias, *result;
  Scaled x;
  Levels levels;
  if (!pays(rewrite->context, node) || !read_scaled(node->inputs[0], &x))
    return 0;
  int found = find_levels(graph, node, x.scale, &levels);
  if (found <= 0)
    return found;
  BpGraphValue *inputs[2] = {x.integers, levels.integers};
  result = levels.integers ? bp__op_apply(graph, "", node->op->name, node->name, inputs, 2,
                                          node->attrs, node->num_attrs)
                           : bp__bytes_product(graph, node, x.integers, &levels.packed);
  result = bp__op_binary(graph, node, "Mul", bp__op_cast(graph, node, result, BP__FLOAT32),
                         levels.scales);
  bias = bp__node_input(node, 2);
  if (bias)
    result =
        bp__op_binary(graph, node, "Add", result,
                      bp__op_reshape(graph, node, bias, levels.scales->shape, levels.scales->ndim));
  return bp__rewrite_replace(rewrite, node->outputs[0], result) ? -1 : 1;
}

int bp__build_dequantized(const BpBuild *build, BpGraph *graph) {
  return bp__graph_rewrite(graph, unscale_rule, (void *)(uintptr_t)build->target);
}
