/* SPDX-License-Identifier: Apache-2.0 */
/* Folds a constant factor or addend of each channel after a convolution (a batch normalisation, a
 * bias written as an addition) into the convolution's weights and bias. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build/build.h"
#include "graph/ops/op.h"

/* The channel of the output to which a weight contributes. */
static int64_t weight_channel(const BpGraphNode *conv, int64_t index) {
  const BpGraphValue *weights = conv->inputs[1];
  int64_t spatial = 1;
  for (int32_t i = 2; i < weights->ndim; i++)
    spatial *= weights->shape[i];
  if (!strcmp(conv->op->name, "Conv"))
    return index / (spatial * weights->shape[1]);
  return index / spatial % weights->shape[1];
}

/* Whether a value is the output of a convolution with constant weights, and only the current node
 * reads it. */
static int is_foldable_conv(const BpGraphValue *value) {
  const BpGraphNode *node = value->producer;
  if (!node || value->num_uses != 1 || node->op->domain[0] || !bp__dtype_is_float(value->dtype))
    return 0;
  if (strcmp(node->op->name, "Conv") &&
      (strcmp(node->op->name, "ConvTranspose") || bp__node_int(node, "group", 1) != 1))
    return 0;
  return node->inputs[1]->data && (!bp__node_input(node, 2) || node->inputs[2]->data);
}

/* Whether a constant has one element, or one for each channel of `like`. */
static int is_per_channel(const BpGraphValue *constant, const BpGraphValue *like) {
  if (!constant->data || !bp__dtype_equal(constant->dtype, like->dtype) ||
      constant->ndim > like->ndim)
    return 0;
  for (int32_t i = 0; i < constant->ndim; i++) {
    int32_t axis = like->ndim - constant->ndim + i;
    if (constant->shape[i] != 1 && (axis != 1 || constant->shape[i] != like->shape[1]))
      return 0;
  }
  return 1;
}

/* Whether products with a constant only change exponents. */
static int is_exact_factor(const BpGraphValue *constant) {
  for (int64_t i = 0, n = bp__value_num_elements(constant); i < n; i++)
    if (!bp__is_power_of_two(bp__value_get_float(constant, i)))
      return 0;
  return 1;
}

static double channel_value(const BpGraphValue *constant, int64_t channel) {
  return bp__value_get_float(constant, bp__value_num_elements(constant) == 1 ? 0 : channel);
}

/* Copies a constant; NULL gives `channels` zeros. */
static BpGraphValue *copy_constant(BpGraph *graph, const BpGraphValue *from, const char *name,
                                   BpDataType dtype, int64_t channels) {
  BpGraphValue *copy =
      from ? bp__graph_constant(graph, name, from->dtype, from->shape, from->ndim, NULL)
           : bp__graph_constant(graph, name, dtype, &channels, 1, NULL);
  if (copy && from)
    memcpy(bp__graph_constant_data(copy), from->data, (size_t)bp__value_num_bytes(from));
  return copy;
}

static double folded(char op, double a, double b) {
  return op == '*' ? a * b : op == '/' ? a / b : op == '+' ? a + b : a - b;
}

/* Makes a convolution whose output is the output of `conv` after `op`, the operation of the node
 * `name`. The new node is called `name`, because `backplane compare` finds nodes by name. */
static BpGraphValue *fold(BpGraph *graph, const BpGraphNode *conv, char op, const char *name,
                          const BpGraphValue *constant) {
  int64_t channels = conv->outputs[0]->shape[1];
  BpDataType dtype = conv->outputs[0]->dtype;
  BpGraphValue *weights = copy_constant(graph, conv->inputs[1], conv->inputs[1]->name, dtype, 0);
  BpGraphValue *bias = copy_constant(graph, bp__node_input(conv, 2), conv->name, dtype, channels);
  BpGraphValue *result;
  if (!weights || !bias)
    return NULL;
  for (int64_t i = 0, n = bp__value_num_elements(weights); i < n && (op == '*' || op == '/'); i++)
    bp__value_put_float(weights, i,
                        folded(op, bp__value_get_float(weights, i),
                               channel_value(constant, weight_channel(conv, i))));
  for (int64_t c = 0; c < channels; c++)
    bp__value_put_float(bias, c,
                        folded(op, bp__value_get_float(bias, c), channel_value(constant, c)));
  result = bp__op_apply(graph, "", conv->op->name, name,
                        (BpGraphValue *[]){conv->inputs[0], weights, bias}, 3, conv->attrs,
                        conv->num_attrs);
  return result;
}

/* The largest finite number of a type. */
static double largest(BpDataType dtype) {
  if (dtype.bits == 16)
    return dtype.code == BP_DTYPE_FLOAT ? 65504 : 0x1.FEp127; /* or bfloat16 */
  return dtype.bits == 64 ? DBL_MAX : (double)FLT_MAX;
}

/* Whether the finite weights stay finite after a product or quotient with a constant: an infinite
 * weight times a zero input is NaN. */
static int stay_finite(const BpGraphNode *conv, char op, const BpGraphValue *constant) {
  const BpGraphValue *weights = conv->inputs[1];
  double most = largest(weights->dtype);
  for (int64_t i = 0, n = bp__value_num_elements(weights); i < n; i++) {
    double weight = bp__value_get_float(weights, i);
    double other = channel_value(constant, weight_channel(conv, i));
    if (isfinite(weight) && !(fabs(folded(op, weight, other)) <= most))
      return 0;
  }
  return 1;
}

/* Folds nodes into convolutions, except an inexact factor before a step: 9 ninths of 1 are less
 * than 1 in float32. */
static int fold_rule(BpRewrite *rewrite, BpGraphNode *node) {
  static const struct {
    const char *op;
    char sign;
    int commutes, is_scale;
  } rules[] = {{"Mul", '*', 1, 1}, {"Div", '/', 0, 1}, {"Add", '+', 1, 0}, {"Sub", '-', 0, 0}};
  const char *is_exact = rewrite->context;
  for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
    if (strcmp(rules[i].op, node->op->name) || node->op->domain[0])
      continue;
    for (int32_t k = 0; k <= rules[i].commutes; k++) {
      BpGraphValue *conv = node->inputs[k], *constant = node->inputs[1 - k], *folded;
      if (!is_foldable_conv(conv) || !is_per_channel(constant, conv) ||
          (rules[i].is_scale && ((is_exact[node->outputs[0]->id] && !is_exact_factor(constant)) ||
                                 !stay_finite(conv->producer, rules[i].sign, constant))))
        continue;
      folded = fold(rewrite->graph, conv->producer, rules[i].sign, node->name, constant);
      if (!folded || bp__rewrite_replace(rewrite, node->outputs[0], folded))
        return -1;
      folded->num_uses = node->outputs[0]->num_uses;
      return 1;
    }
  }
  return 0;
}

int bp__build_fold_scales(const BpBuild *build, BpGraph *graph) {
  (void)build;
  char *is_exact = bp__build_mark_exact(graph);
  bp__graph_count_uses(graph);
  int status = is_exact ? bp__graph_rewrite(graph, fold_rule, is_exact) : -1;
  free(is_exact);
  return status;
}
