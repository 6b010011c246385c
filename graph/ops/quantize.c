/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised operators, built from other operators. Differences from zero points, products and sums
 * are int32 (graph/build/byte_products.c makes faster products of them); scales are applied in
 * float32, and numbers are rounded, halves to even, before the zero point is added. */
#include <string.h>

#include "graph/ops/op.h"
#include "graph/ops/rows.h"

static int is_integer(BpDataType dtype) {
  return dtype.code == BP_DTYPE_INT || dtype.code == BP_DTYPE_UINT;
}

/* ---- Scales and zero points -------------------------------------------------------------- */

/* The single element of a value of any rank, as a scalar. */
static BpGraphValue *single(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value) {
  if (value->ndim == 0)
    return value;
  if (bp__value_num_elements(value) == 1)
    return bp__op_reshape(graph, node, value, NULL, 0);
  bp__op_bad(node, "'%s' has more than one element", value->name);
  return NULL;
}

/* The single element of a value as a scalar, or a vector along `axis` of a tensor of `ndim`
 * dimensions, with the extent `extent`. */
static BpGraphValue *along(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                           int32_t axis, int32_t ndim, int64_t extent) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  char text[64];
  if (bp__value_num_elements(value) == 1)
    return single(graph, node, value);
  if (value->ndim != 1 || value->shape[0] != extent) {
    bp__op_bad(node, "'%s' is neither one element nor a vector of %s", value->name,
               bp__extent_format(&graph->extents, extent, text, sizeof(text)));
    return NULL;
  }
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = i == axis ? extent : 1;
  return bp__op_reshape(graph, node, value, shape, ndim);
}

/* Repeats each element for `block` elements of x along `axis`; the last element covers the rest. */
static BpGraphValue *along_blocks(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                                  const BpGraphValue *x, int32_t axis, int64_t block) {
  int64_t extent = x->shape[axis];
  int fits = value->ndim == x->ndim;
  for (int32_t i = 0; fits && i < x->ndim; i++)
    fits = value->shape[i] == (i == axis ? extent / block + (extent % block != 0) : x->shape[i]);
  if (!fits) {
    char text[BP_VALUE_TEXT];
    bp__op_bad(node, "blocks of %lld along axis %d do not fit %s", (long long)block, axis,
               bp__value_format(value, text));
    return NULL;
  }
  BpGraphAttr attrs[2] = {bp__attr_int(graph, "axis", axis), bp__attr_int(graph, "repeat", block)};
  BpGraphValue *all =
      bp__op_apply(graph, "backplane", "ResizeAxis", node->name, &value, 1, attrs, 2);
  return all && all->shape[axis] != extent ? bp__op_slice(graph, node, all, axis, 0, extent) : all;
}

/* Input `index` of QuantizeLinear or DequantizeLinear, broadcast to input 0; integers of less than
 * a byte become bytes. */
static BpGraphValue *parameter(BpGraph *graph, const BpGraphNode *node, int32_t index) {
  const BpGraphValue *x = node->inputs[0];
  BpGraphValue *value = node->inputs[index];
  int64_t block = bp__node_int(node, "block_size", 0);
  int32_t axis = 0;
  if (bp__dtype_is_narrow(value->dtype) && !(value = bp__op_bytes(graph, node, value)))
    return NULL;
  if (block < 0) {
    bp__op_bad(node, "block_size is %lld", (long long)block);
    return NULL;
  }
  if (block == 0 && bp__value_num_elements(value) == 1)
    return single(graph, node, value);
  if (bp__op_axis(node, bp__node_int(node, "axis", 1), x->ndim, &axis))
    return NULL;
  if (block > 0)
    return along_blocks(graph, node, value, x, axis, block);
  return along(graph, node, value, axis, x->ndim, x->shape[axis]);
}

static int is_zero(const BpGraphValue *value) {
  for (int64_t i = 0; value->data && i < bp__value_num_elements(value); i++)
    if (bp__value_get_int(value, i) != 0)
      return 0;
  return value->data != NULL;
}

/* x minus its zero point, which may be absent, as int32. */
static BpGraphValue *centred(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x,
                             BpGraphValue *zero) {
  BpGraphValue *wide = bp__op_cast(graph, node, x, BP__INT32);
  if (!zero || is_zero(zero))
    return wide;
  return bp__op_binary(graph, node, "Sub", wide, bp__op_cast(graph, node, zero, BP__INT32));
}

/* A float32 constant. */
static BpGraphValue *constant(BpGraph *graph, double number) {
  return bp__graph_float_scalar(graph, (float)number);
}

/* Converts numbers in units of their scale to integers of a type; `zero` may be NULL. */
static BpGraphValue *quantized(BpGraph *graph, const BpGraphNode *node, BpGraphValue *number,
                               BpGraphValue *zero, BpDataType dtype) {
  int is_signed = dtype.code == BP_DTYPE_INT;
  double limit = (double)(INT64_C(1) << (dtype.bits - is_signed));
  BpGraphValue *rounded =
      bp__op_unary(graph, node, "Round", bp__op_cast(graph, node, number, BP__FLOAT32));
  if (rounded && zero)
    rounded =
        bp__op_binary(graph, node, "Add", rounded, bp__op_cast(graph, node, zero, BP__FLOAT32));
  BpGraphValue *clip[3] = {rounded, constant(graph, is_signed ? -limit : 0),
                           constant(graph, limit - 1)};
  return bp__op_cast(graph, node, bp__op_apply(graph, "", "Clip", node->name, clip, 3, NULL, 0),
                     dtype);
}

/* ---- Between numbers and integers -------------------------------------------------------- */

/* The type that an attribute states by its number, `otherwise` if the attribute is absent or 0; -1
 * with an error. */
static int type_attr(const BpGraphNode *node, const char *name, BpDataType otherwise,
                     BpDataType *dtype) {
  int64_t number = bp__node_int(node, name, 0);
  *dtype = otherwise;
  if (number != 0 && bp__dtype_from_onnx(number, dtype))
    return bp__op_error(node, "attribute %s: type number %lld is not supported", name,
                        (long long)number);
  return 0;
}

/* Fails if a float type has a zero point other than 0. */
static int check_no_zero(const BpGraphNode *node, const BpGraphValue *zero) {
  for (int64_t i = 0; zero && zero->data && i < bp__value_num_bytes(zero); i++)
    if (((const char *)zero->data)[i])
      return bp__op_error(node, "its zero point is not 0, and its type is one of floats");
  return 0;
}

static BpGraphValue *coded(BpGraph *graph, const BpGraphNode *node, BpGraphValue *number,
                           BpDataType dtype) {
  BpGraphAttr attrs[2] = {bp__attr_int(graph, "to", bp__dtype_to_onnx(dtype)),
                          bp__attr_int(graph, "saturate", bp__node_int(node, "saturate", 1))};
  return bp__op_apply(graph, "", "Cast", node->name, &number, 1, attrs, 2);
}

BP_ROW_EXPAND(quantize_linear) {
  BpGraphValue *x = node->inputs[0], *zero = bp__node_input(node, 2), *scale;
  BpDataType dtype, precision;
  if (type_attr(node, "output_dtype", zero ? zero->dtype : BP__UINT8, &dtype) ||
      type_attr(node, "precision", node->inputs[1]->dtype, &precision))
    return -1;
  int is_code = bp__dtype_is_narrow(dtype) && !is_integer(dtype);
  if ((!is_code && (!is_integer(dtype) || dtype.bits > 16)) || !bp__dtype_is_float(precision))
    return bp__op_error(node, "its output type or its precision is not supported");
  if (zero && !bp__dtype_equal(zero->dtype, dtype))
    return bp__op_bad(node, "its zero point does not have the type of its output");
  if (is_code && check_no_zero(node, zero))
    return -1;
  scale = parameter(graph, node, 1);
  if (!scale || (zero && !is_code && !(zero = parameter(graph, node, 2))))
    return -1;
  x = bp__op_binary(graph, node, "Div", bp__op_cast(graph, node, x, precision),
                    bp__op_cast(graph, node, scale, precision));
  node->outputs[0] =
      is_code ? coded(graph, node, x, dtype) : quantized(graph, node, x, zero, dtype);
  return node->outputs[0] ? 0 : -1;
}

/* The number of neighbouring elements of x that share a scale: all for a scale of one element, or
 * those behind the only axis along which the scale has several; 0 for other scales. */
static int64_t run_of(const BpGraphValue *x, const BpGraphValue *scale) {
  int64_t run = 1, count = bp__value_num_elements(scale);
  int32_t axis = x->ndim - 1;
  if (count == 1)
    return bp__value_num_elements(x);
  while (scale->ndim == x->ndim && axis >= 0 && scale->shape[axis] == 1)
    run *= x->shape[axis--];
  return axis >= 0 && scale->ndim == x->ndim && scale->shape[axis] == count ? run : 0;
}

/* Computes the numbers of constant bytes without int32 and float32 constants between. Returns 1; 0
 * if the operands are not constant or of another form; -1 with an error. */
static int dequantize_bytes(BpGraph *graph, const BpGraphValue *x, const BpGraphValue *scale,
                            const BpGraphValue *zero, BpGraphValue **numbers) {
  int64_t count = x->data ? bp__value_num_elements(x) : 0;
  int64_t run = count > 0 && scale->data ? run_of(x, scale) : 0;
  if (run == 0 || (zero && (!zero->data || !bp__value_same_shape(zero, scale))) ||
      !is_integer(x->dtype) || x->dtype.bits != 8 || !bp__dtype_equal(scale->dtype, BP__FLOAT32) ||
      !bp__graph_has_bytes(graph, count * (int64_t)sizeof(float)))
    return 0;
  *numbers = bp__graph_constant(graph, x->name, BP__FLOAT32, x->shape, x->ndim, NULL);
  if (!*numbers)
    return -1;
  float factor, *to = bp__graph_constant_data(*numbers);
  const int8_t *from = x->data;
  for (int64_t first = 0; first < count; first += run) {
    int64_t at = first / run % bp__value_num_elements(scale);
    int32_t offset = zero ? (int32_t)bp__value_get_int(zero, at) : 0;
    memcpy(&factor, (const char *)scale->data + at * (int64_t)sizeof(factor), sizeof(factor));
    for (int64_t i = first; i < first + run; i++)
      to[i] =
          (float)((x->dtype.code == BP_DTYPE_INT ? from[i] : (uint8_t)from[i]) - offset) * factor;
  }
  return 1;
}

BP_ROW_EXPAND(dequantize_linear) {
  BpGraphValue *x = node->inputs[0], *zero = bp__node_input(node, 2), *scale;
  BpDataType dtype;
  if (type_attr(node, "output_dtype", node->inputs[1]->dtype, &dtype))
    return -1;
  int is_code = bp__dtype_is_narrow(x->dtype) && !is_integer(x->dtype);
  if ((!is_code && (!is_integer(x->dtype) || x->dtype.bits > 32)) || !bp__dtype_is_float(dtype))
    return bp__op_error(node, "the type of its input or its output is not supported");
  if (zero && !bp__dtype_equal(zero->dtype, x->dtype))
    return bp__op_bad(node, "its zero point does not have the type of its input");
  if (is_code && check_no_zero(node, zero))
    return -1;
  scale = parameter(graph, node, 1);
  if (!scale || (zero && !is_code && !(zero = parameter(graph, node, 2))))
    return -1;
  if (bp__dtype_equal(dtype, BP__FLOAT32)) {
    int made = dequantize_bytes(graph, x, scale, zero, &node->outputs[0]);
    if (made != 0)
      return made < 0 ? -1 : 0;
  }
  x = bp__op_cast(graph, node, is_code ? x : centred(graph, node, x, zero), BP__FLOAT32);
  x = bp__op_binary(graph, node, "Mul", x, bp__op_cast(graph, node, scale, BP__FLOAT32));
  node->outputs[0] = bp__op_cast(graph, node, x, dtype);
  return node->outputs[0] ? 0 : -1;
}

/* The least or the largest of the elements of x along the axes, or of all elements, and zero. */
static BpGraphValue *extreme(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x,
                             const int64_t *axes, int32_t num_axes, const char *reduction,
                             const char *op) {
  BpGraphAttr attrs[2] = {bp__attr_int(graph, "keepdims", num_axes > 0),
                          bp__attr_ints("axes", axes, num_axes)};
  BpGraphValue *value =
      bp__op_apply(graph, "", reduction, node->name, &x, 1, attrs, num_axes > 0 ? 2 : 1);
  return bp__op_binary(graph, node, op, value, constant(graph, 0));
}

int bp__op_quantize(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x, const int64_t *axes,
                    int32_t num_axes, BpGraphValue **results) {
  BpGraphValue *range, *scale, *zero;
  BpGraphValue *least = extreme(graph, node, x, axes, num_axes, "ReduceMin", "Min");
  BpGraphValue *most = extreme(graph, node, x, axes, num_axes, "ReduceMax", "Max");
  range = bp__op_binary(graph, node, "Sub", most, least);
  scale = bp__op_binary(graph, node, "Div", range, constant(graph, UINT8_MAX));
  /* If all elements are zero, any scale is correct. */
  scale = bp__op_apply(
      graph, "", "Where", node->name,
      (BpGraphValue *[]){bp__op_binary(graph, node, "Equal", range, constant(graph, 0)),
                         constant(graph, 1), scale},
      3, NULL, 0);
  least = bp__op_binary(graph, node, "Div", least, scale);
  zero = quantized(graph, node, bp__op_unary(graph, node, "Neg", least), NULL, BP__UINT8);
  x = bp__op_binary(graph, node, "Div", x, scale);
  results[0] = zero ? quantized(graph, node, x, zero, BP__UINT8) : NULL;
  results[1] = scale;
  results[2] = zero;
  return results[0] ? 0 : -1;
}

BP_ROW_EXPAND(dynamic_quantize_linear) {
  BpGraphValue *all[3];
  if (!bp__dtype_equal(node->inputs[0]->dtype, BP__FLOAT32))
    return bp__op_bad(node, "its input is not float32");
  if (bp__op_quantize(graph, node, node->inputs[0], NULL, 0, all))
    return -1;
  for (int32_t i = 0; i < node->num_outputs; i++)
    node->outputs[i] = all[i];
  return 0;
}

/* ---- Products ---------------------------------------------------------------------------- */

static int check_bytes(const BpGraphNode *node, int32_t index) {
  const BpGraphValue *value = node->inputs[index];
  if (!is_integer(value->dtype) || value->dtype.bits != 8)
    return bp__op_error(node, "input %d is neither int8 nor uint8", index);
  return 0;
}

/* A scale or a zero point for the rows of a matrix: a vector becomes a column. */
static BpGraphValue *of_rows(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             const BpGraphValue *matrix) {
  if (!value || (value->ndim != 1 && bp__value_num_elements(value) != 1))
    return value;
  return matrix->ndim < 2 ? single(graph, node, value)
                          : along(graph, node, value, 0, 2, matrix->shape[matrix->ndim - 2]);
}

/* A scale or a zero point for the columns of a matrix, to which a vector broadcasts. */
static BpGraphValue *of_columns(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                                const BpGraphValue *matrix) {
  if (!value || (value->ndim != 1 && bp__value_num_elements(value) != 1))
    return value;
  return matrix->ndim < 2 ? single(graph, node, value)
                          : along(graph, node, value, 0, 1, matrix->shape[matrix->ndim - 1]);
}

/* A matrix with as many columns as `b` has rows, if that number is not open. */
static BpGraphValue *with_columns(BpGraph *graph, const BpGraphNode *node, BpGraphValue *a,
                                  const BpGraphValue *b) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  if (a->ndim < 2 || b->ndim < 2 || bp__extent_is_open(b->shape[b->ndim - 2]))
    return a;
  memcpy(shape, a->shape, sizeof(shape));
  shape[a->ndim - 1] = b->shape[b->ndim - 2];
  return bp__op_as_shape(graph, node, a, shape, "its operands do not have as many columns as rows");
}

/* Checks that an operand is of bytes, and its zero point, which may be NULL, of the same type. */
static int check_operand(const BpGraphNode *node, int32_t index, const BpGraphValue *zero) {
  if (check_bytes(node, index))
    return -1;
  if (zero && !bp__dtype_equal(zero->dtype, node->inputs[index]->dtype))
    return bp__op_bad(node, "the zero point of input %d does not have its type", index);
  return 0;
}

/* The product of inputs `a` and `b` minus their zero points, the optional inputs `za` and `zb`. */
static BpGraphValue *product(BpGraph *graph, const BpGraphNode *node, int32_t a, int32_t b,
                             int32_t za, int32_t zb) {
  BpGraphValue *zero_a = bp__node_input(node, za), *zero_b = bp__node_input(node, zb);
  BpGraphValue *rows, *columns;
  if (check_operand(node, a, zero_a) || check_operand(node, b, zero_b))
    return NULL;
  rows = of_rows(graph, node, zero_a, node->inputs[a]);
  columns = of_columns(graph, node, zero_b, node->inputs[b]);
  if ((zero_a && !rows) || (zero_b && !columns))
    return NULL;
  BpGraphValue *left = with_columns(graph, node, node->inputs[a], node->inputs[b]);
  return bp__op_binary(graph, node, "MatMul", left ? centred(graph, node, left, rows) : NULL,
                       centred(graph, node, node->inputs[b], columns));
}

BP_ROW_EXPAND(matmul_integer) {
  node->outputs[0] = product(graph, node, 0, 1, 2, 3);
  return node->outputs[0] ? 0 : -1;
}

/* MatMulIntegerToFloat: sums * (scale of A * scale of B) + bias. */
BP_ROW_EXPAND(matmul_integer_to_float) {
  BpGraphValue *sums = product(graph, node, 0, 1, 4, 5), *bias = bp__node_input(node, 6), *scale;
  if (!sums)
    return -1;
  scale = bp__op_binary(graph, node, "Mul", single(graph, node, node->inputs[2]),
                        of_columns(graph, node, node->inputs[3], node->inputs[1]));
  sums = scale ? bp__op_cast(graph, node, sums, scale->dtype) : NULL;
  sums = bp__op_onto(graph, node, "Mul", sums, scale, "its scales do not broadcast to the product");
  if (bias)
    sums = bp__op_onto(graph, node, "Add", sums, of_columns(graph, node, bias, node->inputs[1]),
                       "its bias does not broadcast to the product");
  node->outputs[0] = sums;
  return sums ? 0 : -1;
}

BpGraphValue *bp__op_byte_product(BpGraph *graph, const BpGraphNode *node,
                                  BpGraphValue *const *inputs) {
  BpGraphNode *product = bp__graph_node(graph, bp__op_find("com.microsoft", "MatMulIntegerToFloat"),
                                        node->name, inputs, 7, 1, NULL, 0);
  return product && !bp__op_append(graph, product) ? product->outputs[0] : NULL;
}

/* Converts integers of the scale a * b to integers of the scale y; the three scales have one float
 * type, in which they are multiplied. */
static BpGraphValue *rescaled(BpGraph *graph, const BpGraphNode *node, BpGraphValue *sums,
                              BpGraphValue *a, BpGraphValue *b, BpGraphValue *y,
                              BpGraphValue *zero) {
  if (!sums || !a || !b || !y || !zero)
    return NULL;
  if (!is_integer(zero->dtype) || zero->dtype.bits != 8) {
    bp__op_error(node, "its output is neither int8 nor uint8");
    return NULL;
  }
  BpGraphValue *scale =
      bp__op_binary(graph, node, "Div", bp__op_binary(graph, node, "Mul", a, b), y);
  BpGraphValue *number =
      bp__op_binary(graph, node, "Mul", bp__op_cast(graph, node, sums, BP__FLOAT32),
                    bp__op_cast(graph, node, scale, BP__FLOAT32));
  return quantized(graph, node, number, zero, zero->dtype);
}

BP_ROW_EXPAND(qlinear_matmul) {
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[3];
  node->outputs[0] = rescaled(
      graph, node, product(graph, node, 0, 3, 2, 5), of_rows(graph, node, node->inputs[1], a),
      of_columns(graph, node, node->inputs[4], b), of_rows(graph, node, node->inputs[6], a),
      of_rows(graph, node, node->inputs[7], a));
  return node->outputs[0] ? 0 : -1;
}

/* ---- Convolutions ------------------------------------------------------------------------ */

/* A scale or a zero point of output channels, along `axis` of a tensor of the input's rank. */
static BpGraphValue *of_channels(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                                 const BpGraphValue *weights, int32_t axis) {
  return along(graph, node, value, axis, weights->ndim, weights->ndim > 0 ? weights->shape[0] : 1);
}

/* The convolution of inputs 0 and `w` minus their zero points, the optional inputs `zx` and `zw`;
 * `bias` may be NULL. The input minus its zero point is padded with zeros. */
static BpGraphValue *convolution(BpGraph *graph, const BpGraphNode *node, int32_t w, int32_t zx,
                                 int32_t zw, BpGraphValue *bias) {
  BpGraphValue *weights = node->inputs[w];
  BpGraphValue *zero_x = bp__node_input(node, zx), *zero_w = bp__node_input(node, zw);
  if (check_bytes(node, 0) || check_bytes(node, w))
    return NULL;
  if ((zero_x && !(zero_x = single(graph, node, zero_x))) ||
      (zero_w && !(zero_w = of_channels(graph, node, zero_w, weights, 0))))
    return NULL;
  BpGraphValue *inputs[3] = {centred(graph, node, node->inputs[0], zero_x),
                             centred(graph, node, weights, zero_w), bias};
  if (bias && !bp__dtype_equal(bias->dtype, BP__INT32)) {
    bp__op_bad(node, "its bias is not int32");
    return NULL;
  }
  return bp__op_apply(graph, "", "Conv", node->name, inputs, bias ? 3 : 2, node->attrs,
                      node->num_attrs);
}

BP_ROW_EXPAND(conv_integer) {
  node->outputs[0] = convolution(graph, node, 1, 2, 3, NULL);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(qlinear_conv) {
  BpGraphValue *sums = convolution(graph, node, 3, 2, 5, bp__node_input(node, 8));
  BpGraphValue *x = single(graph, node, node->inputs[1]);
  BpGraphValue *y = single(graph, node, node->inputs[6]);
  BpGraphValue *zero = single(graph, node, node->inputs[7]);
  node->outputs[0] = rescaled(
      graph, node, sums, x, of_channels(graph, node, node->inputs[4], node->inputs[3], 1), y, zero);
  return node->outputs[0] ? 0 : -1;
}
