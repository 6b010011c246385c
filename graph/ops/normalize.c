/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations, built from other operators. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/ops/rows.h"

static const char scale_complaint[] = "its scale does not broadcast to its input";
static const char bias_complaint[] = "its bias does not broadcast to its input";

/* Reshapes a vector over the channels to broadcast over a tensor of `ndim` dimensions. */
static BpGraphValue *over_channels(BpGraph *graph, const BpGraphNode *node, BpGraphValue *vector,
                                   int32_t ndim) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  if (!vector)
    return NULL;
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = i == 1 ? bp__value_num_elements(vector) : 1;
  return bp__op_reshape(graph, node, vector, shape, ndim);
}

/* BatchNormalization is x * scale + shift with scale = gamma / sqrt(variance + epsilon) and shift =
 * beta - mean * scale. Constants fold to two vectors, which a preceding convolution can absorb
 * (graph/build/simplify.c). float16 and bfloat16 are computed in float32: a large mean would leave
 * no digits of the sum. */
BP_ROW_EXPAND(batch_normalization) {
  BpGraphValue *x = node->inputs[0], *scale, *shift, *wide[5];
  float epsilon = bp__node_float(node, "epsilon", 1e-5f);
  if (bp__node_int(node, "training_mode", 0) || !bp__node_int(node, "spatial", 1))
    return bp__op_error(node, "training_mode 1 and spatial 0 are not supported");
  if (node->num_outputs > 1)
    return bp__op_error(node, "the outputs of training are not supported");
  if (x->ndim < 2)
    return bp__op_bad(node, "its input has fewer than 2 dimensions");
  for (int32_t i = 1; i < 5; i++)
    if (node->inputs[i]->ndim != 1 || node->inputs[i]->shape[0] != x->shape[1])
      return bp__op_bad(node, "input %d is not a vector over the channels", i);
  BpDataType dtype = bp_te_accumulator(x->dtype);
  for (int32_t i = 1; i < 5; i++)
    wide[i] = bp__op_cast(graph, node, node->inputs[i], dtype);
  scale = bp__op_binary(graph, node, "Add", wide[4], bp__op_scalar(graph, node, wide[4], epsilon));
  scale = bp__op_binary(graph, node, "Div", wide[1], bp__op_unary(graph, node, "Sqrt", scale));
  shift = bp__op_binary(graph, node, "Mul", wide[3], scale);
  shift = bp__op_binary(graph, node, "Sub", wide[2], shift);
  BpGraphValue *product = bp__op_binary(graph, node, "Mul", bp__op_cast(graph, node, x, dtype),
                                        over_channels(graph, node, scale, x->ndim));
  BpGraphValue *sum =
      bp__op_binary(graph, node, "Add", product, over_channels(graph, node, shift, x->ndim));
  node->outputs[0] = bp__op_cast(graph, node, sum, x->dtype);
  return node->outputs[0] ? 0 : -1;
}

/* The mean, and the reciprocal of the deviation, in the type of stash_type. */
typedef struct Moments {
  BpGraphValue *mean, *inverse;
} Moments;

/* Reads the types of moments and, in *wide, of the numbers from which they are computed: the widest
 * of float32, the type of x and stash_type. */
static int read_stash_type(const BpGraphNode *node, const BpGraphValue *x, BpDataType *stash,
                           BpDataType *wide) {
  int64_t number = bp__node_int(node, "stash_type", 1);
  if (bp__dtype_from_onnx(number, stash) || !bp__dtype_is_float(*stash))
    return bp__op_error(node, "stash_type %lld is not supported", (long long)number);
  *wide = bp_te_accumulator(x->dtype);
  if (stash->bits > wide->bits)
    *wide = *stash;
  return 0;
}

/* (x - mean) / deviation over the given axes, with deviation = sqrt(variance + epsilon). */
static BpGraphValue *standardize(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x,
                                 const int64_t *axes, int32_t count, Moments *moments) {
  BpGraphValue *list = bp__graph_int_vector(graph, axes, count), *centred, *variance;
  float epsilon = bp__node_float(node, "epsilon", 1e-5f);
  BpDataType dtype = x ? x->dtype : BP__FLOAT32, stash, wide;
  *moments = (Moments){NULL, NULL};
  if (!x || read_stash_type(node, x, &stash, &wide))
    return NULL;
  x = bp__op_cast(graph, node, x, wide);
  BpGraphValue *mean = bp__op_binary(graph, node, "ReduceMean", x, list), *inverse;
  centred = bp__op_binary(graph, node, "Sub", x, mean);
  variance = bp__op_binary(graph, node, "ReduceMean",
                           bp__op_binary(graph, node, "Mul", centred, centred), list);
  variance =
      bp__op_binary(graph, node, "Add", variance, bp__op_scalar(graph, node, variance, epsilon));
  inverse = bp__op_unary(graph, node, "Reciprocal", bp__op_unary(graph, node, "Sqrt", variance));
  *moments =
      (Moments){bp__op_cast(graph, node, mean, stash), bp__op_cast(graph, node, inverse, stash)};
  return bp__op_cast(graph, node, bp__op_binary(graph, node, "Mul", centred, inverse), dtype);
}

BP_ROW_EXPAND(instance_normalization) {
  BpGraphValue *x = node->inputs[0];
  int64_t axes[BP_GRAPH_MAX_NDIM];
  Moments moments;
  if (x->ndim < 3)
    return bp__op_bad(node, "its input has fewer than 3 dimensions");
  for (int32_t i = 2; i < x->ndim; i++)
    axes[i - 2] = i;
  x = bp__op_onto(graph, node, "Mul", standardize(graph, node, x, axes, x->ndim - 2, &moments),
                  over_channels(graph, node, node->inputs[1], x->ndim), scale_complaint);
  x = bp__op_onto(graph, node, "Add", x,
                  over_channels(graph, node, node->inputs[2], node->inputs[0]->ndim),
                  bias_complaint);
  node->outputs[0] = x;
  return x ? 0 : -1;
}

BP_ROW_EXPAND(layer_normalization) {
  BpGraphValue *x = node->inputs[0];
  int64_t axes[BP_GRAPH_MAX_NDIM];
  int32_t axis, count = 0;
  Moments moments;
  if (bp__op_axis(node, bp__node_int(node, "axis", -1), x->ndim, &axis))
    return -1;
  while (axis < x->ndim)
    axes[count++] = axis++;
  x = bp__op_onto(graph, node, "Mul", standardize(graph, node, x, axes, count, &moments),
                  node->inputs[1], scale_complaint);
  if (bp__node_input(node, 2))
    x = bp__op_onto(graph, node, "Add", x, node->inputs[2], bias_complaint);
  node->outputs[0] = x;
  if (node->num_outputs > 1)
    node->outputs[1] = moments.mean;
  if (node->num_outputs > 2)
    node->outputs[2] = moments.inverse;
  return x && (node->num_outputs < 3 || node->outputs[2]) ? 0 : -1;
}

/* GroupNormalization standardises (batch, groups, rest) over the rest. From version 21 on scale and
 * bias have an element for each channel, before that for each group. */
BP_ROW_EXPAND(group_normalization) {
  BpGraphValue *x = node->inputs[0], *scale = node->inputs[1], *bias = node->inputs[2];
  int64_t groups = bp__node_int(node, "num_groups", 0), axis = 2;
  int64_t grouped[3], shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim = x->ndim;
  Moments moments;
  if (ndim > 1 && bp__extent_is_open(x->shape[1]))
    return bp__op_error(node, "the number of its channels is open, and it must be known");
  if (ndim < 3 || groups < 1 || x->shape[1] % groups != 0)
    return bp__op_bad(node, "num_groups does not divide its channels");
  memcpy(shape, x->shape, sizeof(shape));
  grouped[0] = x->shape[0];
  grouped[1] = groups;
  grouped[2] = x->shape[1] / groups;
  for (int32_t i = 2; i < ndim; i++)
    grouped[2] = bp__extent_multiply(&graph->extents, grouped[2], x->shape[i]);
  if (grouped[2] == BP_EXTENT_NONE)
    return -1;
  x = standardize(graph, node, bp__op_reshape(graph, node, x, grouped, 3), &axis, 1, &moments);
  if (node->version < 21) {
    x = bp__op_binary(graph, node, "Mul", x, over_channels(graph, node, scale, 3));
    x = bp__op_binary(graph, node, "Add", x, over_channels(graph, node, bias, 3));
    node->outputs[0] = x ? bp__op_reshape(graph, node, x, shape, ndim) : NULL;
  } else {
    x = x ? bp__op_reshape(graph, node, x, shape, ndim) : NULL;
    x = bp__op_binary(graph, node, "Mul", x, over_channels(graph, node, scale, ndim));
    node->outputs[0] = bp__op_binary(graph, node, "Add", x, over_channels(graph, node, bias, ndim));
  }
  return node->outputs[0] ? 0 : -1;
}

/* The least norm of a row that is not zero. Processors may flush subnormal numbers of float32 to 0;
 * bfloat16 is computed in float32. */
static double least_norm(BpDataType dtype) {
  if (dtype.bits == 64)
    return DBL_MIN;
  return dtype.code == BP_DTYPE_FLOAT && dtype.bits == 16 ? 0x1p-24 : (double)FLT_MIN;
}

/* LpNormalization: rows of zeros stay zero, because the divisor is never 0. */
BP_ROW_EXPAND(lp_normalization) {
  BpGraphValue *x = node->inputs[0];
  int64_t axis = bp__node_int(node, "axis", -1), p = bp__node_int(node, "p", 2);
  BpGraphValue *norm;
  if (bp__op_check_float(node))
    return -1;
  if (p != 1 && p != 2)
    return bp__op_bad(node, "p is %lld, neither 1 nor 2", (long long)p);
  norm = bp__op_binary(graph, node, p == 1 ? "ReduceL1" : "ReduceL2", x,
                       bp__graph_int_vector(graph, &axis, 1));
  norm = bp__op_binary(graph, node, "Max", norm,
                       bp__op_number(graph, node, x->dtype, least_norm(x->dtype)));
  node->outputs[0] = bp__op_binary(graph, node, "Div", x, norm);
  return node->outputs[0] ? 0 : -1;
}

/* RMSNormalization: x / sqrt(mean of squares + epsilon) * scale, over the axes from `axis` on. All
 * but the product with the scale is computed in the widest of float32, the types of x and
 * stash_type. */
BP_ROW_EXPAND(rms_normalization) {
  BpGraphValue *x = node->inputs[0], *wide, *square;
  float epsilon = bp__node_float(node, "epsilon", 1e-5f);
  int64_t axes[BP_GRAPH_MAX_NDIM];
  int32_t axis, count = 0;
  BpDataType stash, type;
  if (read_stash_type(node, x, &stash, &type))
    return -1;
  if (bp__op_axis(node, bp__node_int(node, "axis", -1), x->ndim, &axis))
    return -1;
  while (axis < x->ndim)
    axes[count++] = axis++;
  wide = bp__op_cast(graph, node, x, type);
  square = bp__op_binary(graph, node, "ReduceMean", bp__op_binary(graph, node, "Mul", wide, wide),
                         bp__graph_int_vector(graph, axes, count));
  square = bp__op_binary(graph, node, "Add", square, bp__op_scalar(graph, node, square, epsilon));
  BpGraphValue *inverse =
      bp__op_unary(graph, node, "Reciprocal", bp__op_unary(graph, node, "Sqrt", square));
  wide = bp__op_binary(graph, node, "Mul", wide, inverse);
  node->outputs[0] = bp__op_onto(graph, node, "Mul", bp__op_cast(graph, node, wide, x->dtype),
                                 node->inputs[1], scale_complaint);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(mean_variance_normalization) {
  BpGraphValue *x = node->inputs[0], *wide, *list, *centred, *deviation;
  int64_t axes[BP_GRAPH_MAX_NDIM] = {0, 2, 3};
  int32_t count = bp__op_ints(node, -1, "axes", axes, BP_GRAPH_MAX_NDIM);
  if (count == -1)
    return -1;
  list = bp__graph_int_vector(graph, axes, count < 0 ? 3 : count);
  wide = bp__op_cast(graph, node, x, bp_te_accumulator(x->dtype));
  centred =
      bp__op_binary(graph, node, "Sub", wide, bp__op_binary(graph, node, "ReduceMean", wide, list));
  deviation =
      bp__op_unary(graph, node, "Sqrt",
                   bp__op_binary(graph, node, "ReduceMean",
                                 bp__op_binary(graph, node, "Mul", centred, centred), list));
  deviation =
      bp__op_binary(graph, node, "Add", deviation, bp__op_scalar(graph, node, deviation, 1e-9f));
  node->outputs[0] =
      bp__op_cast(graph, node, bp__op_binary(graph, node, "Div", centred, deviation), x->dtype);
  return node->outputs[0] ? 0 : -1;
}

/* Checks that an input is a vector over the last dimension of x. */
static int check_over_last(const BpGraphNode *node, int32_t index) {
  const BpGraphValue *x = node->inputs[0], *vector = bp__node_input(node, index);
  char text_x[BP_VALUE_TEXT], text[BP_VALUE_TEXT];
  if (!vector || (vector->ndim == 1 && vector->shape[0] == x->shape[x->ndim - 1]))
    return 0;
  return bp__op_bad(node, "input %d, %s, is not a vector over the last dimension of its input %s",
                    index, bp__value_format(vector, text), bp__value_format(x, text_x));
}

/* Normalises x + skip + bias over the last dimension; output 3 is the sum. In com.microsoft,
 * SkipLayerNormalization has inputs 2 gamma, 3 beta, 4 bias; SkipSimplifiedLayerNormalization has
 * inputs 2 gamma, 3 bias. */
static int expand_skip(BpGraph *graph, BpGraphNode *node, const char *op, int32_t at_bias) {
  BpGraphValue *x = node->inputs[0], *skip = node->inputs[1], *parts[3];
  static const float least = 1e-12f;
  const BpGraphAttr *given = bp__node_attr(node, "epsilon");
  BpGraphAttr epsilon = {"epsilon", BP_GRAPH_ATTR_FLOAT, 1, .floats = &least};
  int32_t count = 2;
  char text_x[BP_VALUE_TEXT], text_skip[BP_VALUE_TEXT];
  if (x->ndim < 2)
    return bp__op_bad(node, "its input has fewer than 2 dimensions");
  for (int32_t i = 2; i <= at_bias; i++)
    if (check_over_last(node, i))
      return -1;
  parts[0] = bp__op_binary(graph, node, "Add", x, skip);
  if (parts[0] && bp__value_is_open(parts[0]) && parts[0]->ndim == x->ndim)
    parts[0] = bp__op_as_shape(graph, node, parts[0], x->shape,
                               "its skip does not broadcast to its input");
  if (parts[0] && !bp__value_same_shape(parts[0], x))
    return bp__op_bad(node, "its skip %s does not broadcast to its input %s",
                      bp__value_format(skip, text_skip), bp__value_format(x, text_x));
  if (bp__node_input(node, at_bias))
    parts[0] = bp__op_binary(graph, node, "Add", parts[0], node->inputs[at_bias]);
  parts[1] = node->inputs[2];
  if (at_bias == 4 && bp__node_input(node, 3))
    parts[count++] = node->inputs[3];
  node->outputs[0] =
      bp__op_apply(graph, "", op, node->name, parts, count, given ? given : &epsilon, 1);
  if (node->num_outputs > 3)
    node->outputs[3] = parts[0];
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(skip_layer_normalization) {
  return expand_skip(graph, node, "LayerNormalization", 4);
}

BP_ROW_EXPAND(skip_simplified_layer_normalization) {
  return expand_skip(graph, node, "RMSNormalization", 3);
}

/* Rows of an embedding, (rows, size), at the indices in an input. */
static BpGraphValue *embedded(BpGraph *graph, const BpGraphNode *node, int32_t table,
                              int32_t places) {
  BpGraphValue *inputs[] = {bp__node_input(node, table), bp__node_input(node, places)};
  if (!inputs[0] || !inputs[1] || inputs[0]->ndim != 2 || inputs[1]->ndim != 2) {
    bp__op_bad(node, "inputs %d and %d are not two matrices", table, places);
    return NULL;
  }
  return bp__op_apply(graph, "", "Gather", node->name, inputs, 2, NULL, 0);
}

/* The first rows of the position embedding, as many as a row has tokens. */
static BpGraphValue *first_positions(BpGraph *graph, const BpGraphNode *node) {
  static const char complaint[] = "it has more tokens than its position_embedding has rows";
  BpGraphValue *table = node->inputs[3];
  int64_t length = node->inputs[0]->shape[1];
  if (bp__op_at_most(graph, node, &length, &table->shape[0], 1, complaint))
    return NULL;
  return bp__op_binary(graph, node, "Gather", table, bp__op_counting(graph, node, length));
}

/* The number of elements that are 1 in each row of the mask, as int32; 0 without a mask. */
static BpGraphValue *count_mask(BpGraph *graph, const BpGraphNode *node) {
  static const int64_t one = 1, zero = 0, last = -1;
  BpGraphAttr keep = bp__attr_int(graph, "keepdims", 0);
  BpGraphValue *mask = bp__node_input(node, 7), *inputs[2];
  if (mask)
    inputs[0] = bp__op_binary(graph, node, "Equal", bp__op_cast(graph, node, mask, BP__INT64),
                              bp__graph_int_vector(graph, &one, 1));
  else
    inputs[0] =
        bp__op_binary(graph, node, "Mul", bp__op_cast(graph, node, node->inputs[0], BP__INT64),
                      bp__graph_int_vector(graph, &zero, 1));
  inputs[0] = bp__op_cast(graph, node, inputs[0], BP__INT32);
  inputs[1] = bp__graph_int_vector(graph, &last, 1);
  return bp__op_apply(graph, "", "ReduceSum", node->name, inputs, 2, &keep, 1);
}

/* The inputs are input_ids, segment_ids, word_embedding, position_embedding, segment_embedding,
 * gamma, beta, mask, position_ids. The outputs are the normalised sum of the embeddings, the number
 * of valid tokens in each row, and the sum. */
BP_ROW_EXPAND(embed_layer_normalization) {
  static const float least = 1e-12f;
  const BpGraphAttr *given = bp__node_attr(node, "epsilon");
  BpGraphAttr epsilon = {"epsilon", BP_GRAPH_ATTR_FLOAT, 1, .floats = &least};
  BpGraphValue *word = embedded(graph, node, 2, 0), *position, *parts[3], *all[3];
  if (!word || !bp__node_input(node, 3) || node->inputs[3]->ndim != 2 || !bp__node_input(node, 5) ||
      !bp__node_input(node, 6))
    return word ? bp__op_bad(node, "inputs 3, 5 and 6 are not a matrix and two vectors") : -1;
  position = bp__node_input(node, 8) ? embedded(graph, node, 3, 8) : first_positions(graph, node);
  parts[0] = bp__op_binary(graph, node, "Add", word, position);
  if (bp__node_input(node, 1))
    parts[0] = bp__op_binary(graph, node, "Add", parts[0], embedded(graph, node, 4, 1));
  else if (bp__node_input(node, 4)) /* all tokens belong to the first segment */
    parts[0] = bp__op_binary(graph, node, "Add", parts[0],
                             bp__op_slice(graph, node, node->inputs[4], 0, 0, 1));
  parts[1] = node->inputs[5];
  parts[2] = node->inputs[6];
  all[0] = bp__op_apply(graph, "", "LayerNormalization", node->name, parts, 3,
                        given ? given : &epsilon, 1);
  all[1] = all[0] && node->num_outputs > 1 ? count_mask(graph, node) : NULL;
  all[2] = parts[0];
  for (int32_t i = 0; i < node->num_outputs; i++)
    if (!(node->outputs[i] = all[i]))
      return -1;
  return 0;
}
