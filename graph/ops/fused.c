/* SPDX-License-Identifier: Apache-2.0 */
/* FusedConv and FusedGemm of com.microsoft: an operator and an activation function of its result,
 * which optimisers write for two nodes. */
#include <string.h>

#include "graph/ops/rows.h"

/* The activation functions, and the numbers that they take, by the names of their attributes. */
static const struct {
  const char *name;
  const char *numbers[2];
} functions[] = {
    {"Relu", {NULL}},
    {"Tanh", {NULL}},
    {"Sigmoid", {NULL}},
    {"Softplus", {NULL}},
    {"Softsign", {NULL}},
    {"LeakyRelu", {"alpha"}},
    {"Elu", {"alpha"}},
    {"ThresholdedRelu", {"alpha"}},
    {"Celu", {"alpha"}},
    {"HardSigmoid", {"alpha", "beta"}},
    {"Selu", {"alpha", "gamma"}},
    {"Clip", {NULL}},
};

/* Applies the activation function that the node names to a value. `numbers` are the function's
 * numbers in order; a NULL number is the default. */
static BpGraphValue *activated(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                               const float *const *numbers) {
  const char *name = bp__node_str(node, "activation", "");
  BpGraphAttr attrs[2];
  int32_t count = 0;
  size_t i = 0, end = sizeof(functions) / sizeof(functions[0]);
  if (!*name || !value)
    return value;
  while (i < end && strcmp(functions[i].name, name))
    i++;
  if (i == end) {
    bp__op_error(node, "activation '%s' is not supported", name);
    return NULL;
  }
  if (!strcmp(name, "Clip")) {
    if (!numbers[0] || !numbers[1]) {
      bp__op_bad(node, "its activation Clip has not two numbers");
      return NULL;
    }
    BpGraphValue *inputs[] = {value, bp__op_scalar(graph, node, value, *numbers[0]),
                              bp__op_scalar(graph, node, value, *numbers[1])};
    return bp__op_apply(graph, "", name, node->name, inputs, 3, NULL, 0);
  }
  for (int32_t k = 0; k < 2 && functions[i].numbers[k]; k++)
    if (numbers[k])
      attrs[count++] = (BpGraphAttr){.name = functions[i].numbers[k],
                                     .type = BP_GRAPH_ATTR_FLOAT,
                                     .count = 1,
                                     .floats = numbers[k]};
  return bp__op_apply(graph, "", name, node->name, &value, 1, attrs, count);
}

/* Applies the operator of ONNX to the node's inputs, with the attributes that do not belong to the
 * activation function. */
static BpGraphValue *apply_first(BpGraph *graph, const BpGraphNode *node, const char *op,
                                 int32_t num_inputs) {
  static const char own[] = "activation";
  BpGraphAttr *attrs =
      bp__arena_alloc_array(&graph->arena, (size_t)node->num_attrs + 1, sizeof(*attrs));
  int32_t count = 0;
  for (int32_t i = 0; attrs && i < node->num_attrs; i++)
    if (strncmp(node->attrs[i].name, own, sizeof(own) - 1))
      attrs[count++] = node->attrs[i];
  return attrs ? bp__op_apply(graph, "", op, node->name, node->inputs,
                              bp__node_input(node, 2) ? num_inputs : 2, attrs, count)
               : NULL;
}

/* The inputs are the inputs of Conv, and a value that is added before the activation function. */
BP_ROW_EXPAND(fused_conv) {
  const BpGraphAttr *given = bp__node_attr(node, "activation_params");
  const float *numbers[2] = {NULL, NULL};
  for (int32_t i = 0; given && i < 2 && i < given->count; i++)
    numbers[i] = &given->floats[i];
  BpGraphValue *out = apply_first(graph, node, "Conv", 3), *more = bp__node_input(node, 3);
  char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
  if (out && more && more->ndim != out->ndim)
    return bp__op_bad(node, "input 3 is %s, and its result %s", bp__value_format(more, a),
                      bp__value_format(out, b));
  if (out && more) {
    more = bp__op_as_shape(graph, node, more, out->shape,
                           "input 3 does not have the shape of its result");
    out = bp__op_binary(graph, node, "Add", out, more);
  }
  node->outputs[0] = activated(graph, node, out, numbers);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(fused_gemm) {
  static const char *const names[] = {"activation_alpha", "activation_beta", "activation_gamma"};
  const float *numbers[2] = {NULL, NULL};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (bp__node_attr(node, names[i]))
      numbers[i > 0] = bp__node_attr(node, names[i])->floats;
  node->outputs[0] = activated(graph, node, apply_first(graph, node, "Gemm", 3), numbers);
  return node->outputs[0] ? 0 : -1;
}
