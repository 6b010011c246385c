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

/* What becomes of a convolution's output: `op` with a constant, and then a sum with `shift`, which
 * may be NULL. */
typedef struct Change {
  char op;
  const BpGraphValue *constant, *shift;
} Change;

static int is_scale(const Change *change) {
  return change->op == '*' || change->op == '/';
}

static double changed_weight(const Change *change, double a, int64_t channel) {
  double b = channel_value(change->constant, channel);
  return change->op == '*' ? a * b : change->op == '/' ? a / b : a;
}

static double changed_bias(const Change *change, double a, int64_t channel) {
  double b = channel_value(change->constant, channel);
  double result = change->op == '+'   ? a + b
                  : change->op == '-' ? a - b
                                      : changed_weight(change, a, channel);
  return change->shift ? result + channel_value(change->shift, channel) : result;
}

/* Makes a convolution whose output is the changed output of `conv`, as that of the node `name`. The
 * new node is called `name`, because `backplane compare` finds nodes by name. */
static BpGraphValue *fold(BpGraph *graph, const BpGraphNode *conv, const Change *change,
                          const char *name) {
  int64_t channels = conv->outputs[0]->shape[1];
  BpDataType dtype = conv->outputs[0]->dtype;
  BpGraphValue *weights = copy_constant(graph, conv->inputs[1], conv->inputs[1]->name, dtype, 0);
  BpGraphValue *bias = copy_constant(graph, bp__node_input(conv, 2), conv->name, dtype, channels);
  BpGraphValue *result;
  if (!weights || !bias)
    return NULL;
  for (int64_t i = 0, n = bp__value_num_elements(weights); i < n && is_scale(change); i++)
    bp__value_put_float(
        weights, i,
        changed_weight(change, bp__value_get_float(weights, i), weight_channel(conv, i)));
  for (int64_t c = 0; c < channels; c++)
    bp__value_put_float(bias, c, changed_bias(change, bp__value_get_float(bias, c), c));
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

/* The least magnitude that keeps the digits of a number: that of the least number of the type with
 * all digits. A number below it has fewer digits in float16, and counts as 0 in other types. */
static double least(BpDataType dtype, double number) {
  double normal = dtype.bits == 64 ? DBL_MIN : (double)FLT_MIN;
  if (dtype.code == BP_DTYPE_FLOAT && dtype.bits == 16)
    return fmin(number, 0x1p-14);
  return number < normal ? 0 : normal;
}

/* Whether finite numbers stay finite in their type. */
static int stays_finite(BpDataType dtype, double before, double after) {
  return !isfinite(before) || fabs(after) <= largest(dtype);
}

/* Whether each finite weight stays finite when it is changed, since an infinite weight times a zero
 * input is NaN, and whether the largest weight of each channel keeps its digits. */
static int keep_weights(const BpGraphNode *conv, const Change *change) {
  const BpGraphValue *weights = conv->inputs[1];
  int64_t channels = conv->outputs[0]->shape[1];
  double *most = calloc((size_t)channels * 2 + 1, sizeof(*most)), *before = most + channels;
  int keep = most != NULL;
  for (int64_t i = 0, n = bp__value_num_elements(weights); keep && i < n; i++) {
    int64_t channel = weight_channel(conv, i);
    double weight = bp__value_get_float(weights, i);
    double after = changed_weight(change, weight, channel);
    keep = stays_finite(weights->dtype, weight, after);
    before[channel] = fmax(before[channel], fabs(weight));
    most[channel] = fmax(most[channel], fabs(after));
  }
  for (int64_t c = 0; keep && c < channels; c++)
    keep = most[c] >= least(weights->dtype, before[c]);
  free(most);
  return keep;
}

/* Whether each finite bias stays finite when a finite number is added to it. */
static int keep_bias(const BpGraphNode *conv, const Change *change) {
  const BpGraphValue *bias = bp__node_input(conv, 2);
  for (int64_t c = 0; c < conv->outputs[0]->shape[1]; c++) {
    double before = bias ? bp__value_get_float(bias, c) : 0;
    double after = changed_bias(change, before, c);
    if (isfinite(after) && !stays_finite(conv->outputs[0]->dtype, before, after))
      return 0;
  }
  return 1;
}

/* Whether a change of a convolution's output, which gives the value `to`, can be folded. Not
 * folded: an inexact factor before a step, since 9 ninths of 1 are less than 1 in float32. */
static int can_fold(const BpRewrite *rewrite, const BpGraphValue *conv, const Change *change,
                    const BpGraphValue *to) {
  const char *is_exact = rewrite->context;
  if (!is_foldable_conv(conv) || !keep_bias(conv->producer, change))
    return 0;
  return !is_scale(change) || ((!is_exact[to->id] || is_exact_factor(change->constant)) &&
                               keep_weights(conv->producer, change));
}

/* Replaces a node, whose output is the changed output of `conv`. */
static int fold_node(BpRewrite *rewrite, const BpGraphNode *node, const BpGraphValue *conv,
                     const Change *change) {
  BpGraphValue *folded = fold(rewrite->graph, conv->producer, change, node->name);
  if (!folded || bp__rewrite_replace(rewrite, node->outputs[0], folded))
    return -1;
  folded->num_uses = node->outputs[0]->num_uses;
  return 1;
}

/* The node that computes the first input of `node`, if it is an `op` and nothing else reads the
 * input. */
static const BpGraphNode *inner(const BpGraphNode *node, const char *op) {
  const BpGraphNode *before = node && node->num_inputs ? node->inputs[0]->producer : NULL;
  return before && !before->op->domain[0] && !strcmp(before->op->name, op) &&
                 node->inputs[0]->num_uses == 1
             ? before
             : NULL;
}

/* A batch normalisation that is computed in a wider type than its input and output: Cast(Add(Mul(
 * Cast(conv), scale), shift)). */
static int fold_wide(BpRewrite *rewrite, const BpGraphNode *node) {
  const BpGraphNode *sum = inner(node, "Add"), *product = inner(sum, "Mul");
  const BpGraphNode *widened = inner(product, "Cast");
  if (!widened || !bp__dtype_equal(widened->inputs[0]->dtype, node->outputs[0]->dtype) ||
      !is_per_channel(product->inputs[1], product->outputs[0]) ||
      !is_per_channel(sum->inputs[1], sum->outputs[0]))
    return 0;
  Change change = {'*', product->inputs[1], sum->inputs[1]};
  const BpGraphValue *conv = widened->inputs[0];
  return can_fold(rewrite, conv, &change, node->outputs[0])
             ? fold_node(rewrite, node, conv, &change)
             : 0;
}

static int fold_rule(BpRewrite *rewrite, BpGraphNode *node) {
  static const struct {
    const char *op;
    char sign;
    int commutes;
  } rules[] = {{"Mul", '*', 1}, {"Div", '/', 0}, {"Add", '+', 1}, {"Sub", '-', 0}};
  if (node->op->domain[0])
    return 0;
  if (!strcmp(node->op->name, "Cast"))
    return fold_wide(rewrite, node);
  for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
    if (strcmp(rules[i].op, node->op->name))
      continue;
    for (int32_t k = 0; k <= rules[i].commutes; k++) {
      const BpGraphValue *conv = node->inputs[k];
      Change change = {rules[i].sign, node->inputs[1 - k], NULL};
      if (is_per_channel(change.constant, conv) &&
          can_fold(rewrite, conv, &change, node->outputs[0]))
        return fold_node(rewrite, node, conv, &change);
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
