/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised operators that only com.microsoft has. Quantised operators compute in float32: integers
 * are dequantised, ONNX's operator is applied, and its result is quantised. Source: onnxruntime's
 * docs/ContribOperators.md. */
#include <string.h>

#include "graph/ops/op.h"
#include "graph/ops/rows.h"

/* The maximum number of attributes of a quantised operator. */
#define MAX_ATTRS 12

/* ---- Integers and floats ----------------------------------------------------------------- */

/* Checks that input `index` is present and, if it is a scale or a zero point, has one element. */
static int check_input(const BpGraphNode *node, int32_t index, int is_parameter) {
  const BpGraphValue *value = bp__node_input(node, index);
  if (!value)
    return bp__op_bad(node, "input %d is absent", index);
  if (is_parameter && (value->ndim > 1 || bp__value_num_elements(value) != 1))
    return bp__op_bad(node, "input %d, '%s', is not one element", index, value->name);
  return 0;
}

/* Converts a value by QuantizeLinear or DequantizeLinear, with the scale in input `scale` and the
 * zero point in the next input, which may be absent; NULL with an error. */
static BpGraphValue *convert(BpGraph *graph, const BpGraphNode *node, const char *op,
                             BpGraphValue *value, int32_t scale, const BpGraphAttr *attr) {
  BpGraphValue *zero = bp__node_input(node, scale + 1);
  if (!value || check_input(node, scale, 1) || (zero && check_input(node, scale + 1, 1)))
    return NULL;
  BpGraphValue *inputs[] = {value, node->inputs[scale], zero};
  return bp__op_apply(graph, "", op, node->name, inputs, zero ? 3 : 2, attr, attr ? 1 : 0);
}

/* Input `index`, dequantised by its scale and its zero point, the next two inputs. */
static BpGraphValue *dequantized(BpGraph *graph, const BpGraphNode *node, int32_t index) {
  if (check_input(node, index, 0))
    return NULL;
  return convert(graph, node, "DequantizeLinear", node->inputs[index], index + 1, NULL);
}

/* Quantises floats to output 0 by the scale of input `scale`; the integers have the type of
 * `like`. */
static int give_quantized(BpGraph *graph, BpGraphNode *node, BpGraphValue *value, int32_t scale,
                          const BpGraphValue *like) {
  BpGraphAttr dtype = bp__attr_int(graph, "output_dtype", bp__dtype_to_onnx(like->dtype));
  node->outputs[0] = convert(graph, node, "QuantizeLinear", value, scale, &dtype);
  return node->outputs[0] ? 0 : -1;
}

/* ---- Channels and attributes ------------------------------------------------------------- */

/* Moves the channels of x from axis 1 to the last axis, or back. */
static BpGraphValue *channels_last(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x,
                                   int is_back) {
  int64_t perm[BP_GRAPH_MAX_NDIM];
  if (!x || x->ndim < 3)
    return x;
  for (int32_t i = 0; i < x->ndim; i++)
    perm[i] = i < 2 ? i : i + (is_back ? -1 : 1);
  perm[1] = is_back ? x->ndim - 1 : 2;
  perm[x->ndim - 1] = is_back ? x->ndim - 2 : 1;
  return bp__op_transpose(graph, node, x, perm, x->ndim);
}

/* Applies ONNX's operator with the node's attributes except those that only com.microsoft has,
 * between transpositions if channels are last. */
static BpGraphValue *apply(BpGraph *graph, const BpGraphNode *node, const char *op,
                           BpGraphValue *const *inputs, int32_t num_inputs, int is_last) {
  BpGraphValue *first = is_last ? channels_last(graph, node, inputs[0], 1) : inputs[0], *result;
  BpGraphAttr attrs[MAX_ATTRS];
  int32_t count = 0;
  for (int32_t i = 0; i < node->num_attrs && count < MAX_ATTRS; i++)
    if (strcmp(node->attrs[i].name, "channels_last") != 0 &&
        strcmp(node->attrs[i].name, "opset") != 0)
      attrs[count++] = node->attrs[i];
  BpGraphValue *all[] = {first, num_inputs > 1 ? inputs[1] : NULL};
  result = bp__op_apply(graph, "", op, node->name, all, num_inputs, attrs, count);
  return is_last ? channels_last(graph, node, result, 0) : result;
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* The name of ONNX's operator for QLinearX: X. */
static const char *plain_name(const BpGraphNode *node) {
  return node->op->name + strlen("QLinear");
}

BP_ROW_EXPAND(qlinear_unary) {
  /* With ceil_mode and count_include_pad, onnxruntime divides by the size of the whole window, ONNX
   * by the part inside the padded input. */
  if (bp__node_int(node, "ceil_mode", 0) && bp__node_int(node, "count_include_pad", 0))
    return bp__op_error(node, "ceil_mode with count_include_pad is not supported");
  BpGraphValue *x = dequantized(graph, node, 0);
  if (!x)
    return -1;
  x = apply(graph, node, plain_name(node), &x, 1, bp__node_int(node, "channels_last", 0) != 0);
  return give_quantized(graph, node, x, 3, node->inputs[0]);
}

/* Before operator set 13 all axes from `axis` on count as one axis. */
BP_ROW_EXPAND(qlinear_softmax) {
  const BpGraphValue *x = bp__node_input(node, 0);
  int64_t axis = bp__node_int(node, "axis", -1), opset = bp__node_int(node, "opset", 13);
  if (x && opset < 13 && axis != -1 && axis != x->ndim - 1)
    return bp__op_error(node, "operator set %lld with axis %lld, not the last, is not supported",
                        (long long)opset, (long long)axis);
  return bp__expand_qlinear_unary(graph, node);
}

BP_ROW_EXPAND(qlinear_binary) {
  BpGraphValue *pair[2] = {dequantized(graph, node, 0), NULL};
  pair[1] = pair[0] ? dequantized(graph, node, 3) : NULL;
  if (!pair[1])
    return -1;
  return give_quantized(graph, node, apply(graph, node, plain_name(node), pair, 2, 0), 6,
                        node->inputs[0]);
}

BP_ROW_EXPAND(qlinear_where) {
  BpGraphValue *inputs[3] = {bp__node_input(node, 0), dequantized(graph, node, 1), NULL};
  inputs[2] = inputs[1] ? dequantized(graph, node, 4) : NULL;
  if (!inputs[2] || check_input(node, 0, 0))
    return -1;
  return give_quantized(graph, node,
                        bp__op_apply(graph, "", "Where", node->name, inputs, 3, NULL, 0), 7,
                        node->inputs[1]);
}

/* The inputs are the scale and the zero point of the output, then three inputs for each part. */
BP_ROW_EXPAND(qlinear_concat) {
  int32_t count = (node->num_inputs - 2) / 3;
  BpGraphValue **parts;
  if (node->num_inputs != 2 + 3 * count)
    return bp__op_bad(node, "it has %d inputs, not 2 and 3 for each part", node->num_inputs);
  parts = bp__arena_alloc_array(&graph->arena, (size_t)count, sizeof(BpGraphValue *));
  if (!parts)
    return -1;
  for (int32_t i = 0; i < count; i++)
    if (!(parts[i] = dequantized(graph, node, 2 + 3 * i)))
      return -1;
  return give_quantized(
      graph, node,
      bp__op_apply(graph, "", "Concat", node->name, parts, count, node->attrs, node->num_attrs), 0,
      node->inputs[2]);
}

/* The product of integers is exact: the sums, which include the bias, are multiplied by alpha *
 * scale of A * scale of B. Without a scale of the output the result is float. */
BP_ROW_EXPAND(qgemm) {
  BpGraphValue *inputs[4], *sums, *scale;
  static const int32_t places[] = {0, 3, 2, 5};
  BpGraphAttr attrs[2] = {bp__attr_int(graph, "transA", bp__node_int(node, "transA", 0)),
                          bp__attr_int(graph, "transB", bp__node_int(node, "transB", 0))};
  for (int32_t i = 0; i < 4; i++)
    if (check_input(node, places[i], 0))
      return -1;
    else
      inputs[i] = node->inputs[places[i]];
  if (!bp__node_input(node, 7) != !bp__node_input(node, 8))
    return bp__op_bad(node, "its y_scale and y_zero_point go together");
  if (check_input(node, 1, 1) || check_input(node, 2, 1) || check_input(node, 4, 0))
    return -1;
  for (int32_t i = 0; i < 2; i++) {
    static const int64_t turn[] = {1, 0};
    if (inputs[i]->ndim != 2)
      return bp__op_bad(node, "input %d is not a matrix", places[i]);
    if (attrs[i].ints[0] != 0)
      inputs[i] = bp__op_transpose(graph, node, inputs[i], turn, 2);
  }
  sums = inputs[0] && inputs[1]
             ? bp__op_apply(graph, "", "MatMulInteger", node->name, inputs, 4, NULL, 0)
             : NULL;
  if (bp__node_input(node, 6))
    sums = bp__op_onto(graph, node, "Add", sums, node->inputs[6],
                       "its input C does not broadcast to the product");
  scale = bp__op_binary(graph, node, "Mul", node->inputs[1], node->inputs[4]);
  scale = bp__op_binary(graph, node, "Mul", scale,
                        bp__op_scalar(graph, node, scale, bp__node_float(node, "alpha", 1)));
  sums = bp__op_binary(graph, node, "Mul", bp__op_cast(graph, node, sums, BP__FLOAT32), scale);
  if (bp__node_input(node, 7))
    return give_quantized(graph, node, sums, 7, node->inputs[0]);
  node->outputs[0] = sums;
  return sums ? 0 : -1;
}

/* A is quantised in the run; the other inputs are inputs of MatMulIntegerToFloat. */
BP_ROW_EXPAND(dynamic_quantize_matmul) {
  if (check_input(node, 0, 0) || check_input(node, 1, 0) || check_input(node, 2, 0))
    return -1;
  BpGraphNode *quantize = bp__graph_node(graph, bp__op_find("", "DynamicQuantizeLinear"),
                                         node->name, node->inputs, 1, 3, NULL, 0);
  if (!quantize || bp__op_append(graph, quantize))
    return -1;
  BpGraphValue *inputs[] = {quantize->outputs[0],   node->inputs[1],      quantize->outputs[1],
                            node->inputs[2],        quantize->outputs[2], bp__node_input(node, 3),
                            bp__node_input(node, 4)};
  node->outputs[0] = bp__op_byte_product(graph, node, inputs);
  return node->outputs[0] ? 0 : -1;
}

/* MaxPool with the channels as the last axis. */
BP_ROW_EXPAND(nhwc_max_pool) {
  if (check_input(node, 0, 0))
    return -1;
  node->outputs[0] = apply(graph, node, "MaxPool", node->inputs, 1, 1);
  return node->outputs[0] ? 0 : -1;
}
