/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators: types and shapes, and the one computation of all of them, which applies a
 * row's scalar function to broadcast inputs. scalar.c has the scalar functions. */
#include <math.h>
#include <string.h>

#include <backplane/object.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

static int same_types(const BpGraphNode *node, int32_t from) {
  char a[BP_VALUE_TEXT], b[BP_VALUE_TEXT];
  for (int32_t i = from + 1; i < node->num_inputs; i++)
    if (node->inputs[i] && !bp__dtype_equal(node->inputs[i]->dtype, node->inputs[from]->dtype))
      return bp__op_bad(node, "inputs %d and %d differ in type: %s and %s", from, i,
                        bp__value_format(node->inputs[from], a),
                        bp__value_format(node->inputs[i], b));
  return 0;
}

static int broadcast_output(BpGraph *graph, BpGraphNode *node, BpDataType dtype) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t ndim;
  if (bp__op_broadcast(node, shape, &ndim))
    return -1;
  return bp__node_set_output(graph, node, 0, dtype, shape, ndim);
}

BP_ROW_INFER(elementwise) {
  return same_types(node, 0) ? -1 : broadcast_output(graph, node, node->inputs[0]->dtype);
}

BP_ROW_INFER(floats) {
  return bp__op_check_float(node) ? -1 : bp__infer_elementwise(graph, node);
}

BP_ROW_INFER(logic) {
  char text[BP_VALUE_TEXT];
  if (node->inputs[0]->dtype.code != BP_DTYPE_BOOL)
    return bp__op_bad(node, "it takes bool, not %s", bp__value_format(node->inputs[0], text));
  return bp__infer_elementwise(graph, node);
}

BP_ROW_INFER(compare) {
  return same_types(node, 0) ? -1 : broadcast_output(graph, node, BP__BOOL);
}

BP_ROW_INFER(predicate) {
  return bp__op_check_float(node) ? -1 : broadcast_output(graph, node, BP__BOOL);
}

BP_ROW_INFER(pow) {
  return broadcast_output(graph, node, node->inputs[0]->dtype);
}

BP_ROW_INFER(where) {
  if (!bp__dtype_equal(node->inputs[0]->dtype, BP__BOOL))
    return bp__op_bad(node, "its condition is not bool");
  return same_types(node, 1) ? -1 : broadcast_output(graph, node, node->inputs[1]->dtype);
}

BP_ROW_INFER(prelu) {
  if (same_types(node, 0) || broadcast_output(graph, node, node->inputs[0]->dtype))
    return -1;
  if (!bp__value_same_shape(node->outputs[0], node->inputs[0]))
    return bp__op_bad(node, "its slope has a larger shape than its input");
  return 0;
}

BP_ROW_INFER(clip) {
  for (int32_t i = 1; i < node->num_inputs; i++)
    if (node->inputs[i] && bp__value_num_elements(node->inputs[i]) != 1)
      return bp__op_bad(node, "input %d is not a scalar", i);
  if (same_types(node, 0))
    return -1;
  return bp__node_set_output(graph, node, 0, node->inputs[0]->dtype, node->inputs[0]->shape,
                             node->inputs[0]->ndim);
}

BP_ROW_INFER(bit_shift) {
  BpDataType dtype = node->inputs[0]->dtype;
  if (dtype.code != BP_DTYPE_UINT && dtype.code != BP_DTYPE_INT)
    return bp__op_bad(node, "its inputs are not integers");
  return bp__infer_elementwise(graph, node);
}

BP_ROW_INFER(cast) {
  BpDataType dtype;
  if (!bp__node_attr(node, "to"))
    return bp__op_bad(node, "attribute to is missing");
  if (bp__dtype_from_onnx(bp__node_int(node, "to", 0), &dtype))
    return bp__op_error(node, "type number %lld is not supported",
                        (long long)bp__node_int(node, "to", 0));
  return broadcast_output(graph, node, dtype);
}

/* ---- Computation ------------------------------------------------------------------------- */

/* Reads tensor[axes]; the tensor has the shape of `value`, which broadcasts to `ndim` axes. */
static const BpIrNode *read_broadcast(BpTe *te, BpTeTensor *tensor, const BpGraphValue *value,
                                      const BpIrNode *const *axes, int32_t ndim) {
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  int32_t own = value->ndim;
  for (int32_t d = 0; d < own; d++)
    indices[d] = value->shape[d] == 1 ? x_index(bp_te_ir(te), 0) : axes[ndim - own + d];
  return bp_te_read(te, tensor, indices);
}

static const BpIrNode *elementwise_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpIrNode *args[BP_OP_MAX_INPUTS] = {NULL};
  for (int32_t i = 0; i < op->node->num_inputs; i++) {
    if (!op->inputs[i])
      continue;
    args[i] =
        read_broadcast(te, op->inputs[i], op->node->inputs[i], axes, op->node->outputs[0]->ndim);
    args[i] = x_wide(bp_te_ir(te), args[i]);
    if (!args[i])
      return NULL;
  }
  return op->node->op->scalar(bp_te_ir(te), op->node, args);
}

BP_ROW_COMPUTE(elementwise) {
  return bp__op_give_body(op, op->node->op->name, elementwise_body, outputs);
}

BP_ROW_COMPUTE(continuous) {
  return bp__compute_elementwise(op, outputs);
}

/* ---- Powers ------------------------------------------------------------------------------ */

static bool is_whole(const BpGraphValue *value) {
  return (value->dtype.code == BP_DTYPE_INT || value->dtype.code == BP_DTYPE_UINT) &&
         value->dtype.bits >= 8;
}

/* Whether bp__scalar_pow computes a power with the exponent by multiplications. */
static bool is_small_constant(const BpGraphValue *exponent) {
  if (!exponent->data || bp__value_num_elements(exponent) != 1)
    return false;
  double value = bp__value_get_float(exponent, 0);
  return value == 1 || value == 2 || value == 3;
}

/* Whether an exponent is, or may be, a whole number that float32 rounds: the sign of a power
 * depends on the last bit of a whole exponent. */
static bool loses_bits(const BpGraphValue *exponent) {
  BpDataType dtype = exponent->dtype;
  if (bp__dtype_is_float(dtype) ? dtype.bits < 64 : dtype.bits < 32)
    return false;
  for (int64_t i = 0; exponent->data && i < bp__value_num_elements(exponent); i++) {
    double value = bp__value_get_float(exponent, i);
    if (value == trunc(value) && (double)(float)value != value)
      return true;
  }
  return !exponent->data;
}

/* Expands a power of integers, whose product wraps as other products do, and a power of a float of
 * 32 bits or less whose exponent float32 would round. */
BP_ROW_EXPAND(pow) {
  BpGraphValue *x = node->inputs[0], *exponent = node->inputs[1];
  BpDataType wide = {BP_DTYPE_FLOAT, 64, 1};
  bool is_integer = is_whole(x) && is_whole(exponent) && !is_small_constant(exponent);
  bool is_wide = bp__dtype_is_float(x->dtype) && x->dtype.bits < 64 &&
                 (is_whole(exponent) || bp__dtype_is_float(exponent->dtype)) &&
                 loses_bits(exponent);
  if (!is_integer && !is_wide)
    return 1;
  if (is_integer) {
    if (bp__op_agree_elements(graph, node))
      return -1;
    node->outputs[0] =
        bp__op_apply(graph, "backplane", "IntegerPow", node->name, node->inputs, 2, NULL, 0);
  } else {
    BpGraphValue *power = bp__op_binary(graph, node, "Pow", bp__op_cast(graph, node, x, wide),
                                        bp__op_cast(graph, node, exponent, wide));
    node->outputs[0] = bp__op_cast(graph, node, power, x->dtype);
  }
  return node->outputs[0] ? 0 : -1;
}

/* Computes a power by squaring. The power of a negative exponent is a fraction, which is rounded
 * toward zero, unless the base is 1 or -1, for which only the exponent's last bit counts. */
static int integer_pow_body(BpTe *te, BpIrBlock *block, const BpIrNode *const *rows,
                            BpTeTensor *const *tensors, void *context) {
  const BpOpCompute *op = context;
  const BpGraphNode *node = op->node;
  BpIrModule *ir = bp_te_ir(te);
  BpDataType dtype = node->outputs[0]->dtype, bits = {BP_DTYPE_UINT, 64, 1};
  int32_t ndim = node->outputs[0]->ndim;
  bool has_sign = node->inputs[1]->dtype.code == BP_DTYPE_INT;
  const BpIrNode *x =
      bp_ir_block_let(block, "x", read_broadcast(te, op->inputs[0], node->inputs[0], rows, ndim));
  const BpIrNode *exponent = bp_ir_block_let(
      block, "exponent", read_broadcast(te, op->inputs[1], node->inputs[1], rows, ndim));
  const BpIrNode *one = bp_ir_int(ir, bits, 1), *zero = bp_ir_int(ir, bits, 0);
  const BpIrNode *is_negative = has_sign ? x_lt(ir, exponent, x_number(ir, x_dtype(exponent), 0))
                                         : bp_ir_int(ir, BP__BOOL, 0);
  const BpIrNode *all = exponent ? bp_ir_cast(ir, bits, exponent) : NULL;
  const BpIrNode *last = bp_ir_binary(ir, BP_IR_BIT_AND, all, one);
  const BpIrNode *rest =
      bp_ir_block_variable(block, "rest", bp_ir_select(ir, is_negative, last, all));
  const BpIrNode *factor = bp_ir_block_variable(block, "factor", x);
  const BpIrNode *power = bp_ir_block_variable(block, "power", bp_ir_int(ir, dtype, 1));
  const BpIrNode *left = bp_ir_block_value(block, rest);
  bp_ir_block_while(block, bp_ir_binary(ir, BP_IR_NE, left, zero));
  const BpIrNode *square = bp_ir_block_let(block, "square", bp_ir_block_value(block, factor));
  const BpIrNode *now = bp_ir_block_let(block, "now", bp_ir_block_value(block, rest));
  bp_ir_block_if(block,
                 bp_ir_binary(ir, BP_IR_NE, bp_ir_binary(ir, BP_IR_BIT_AND, now, one), zero));
  bp_ir_block_assign(block, power, x_mul(ir, bp_ir_block_value(block, power), square));
  bp_ir_block_close(block);
  bp_ir_block_assign(block, factor, x_mul(ir, square, square));
  bp_ir_block_assign(block, rest, bp_ir_binary(ir, BP_IR_SHR, now, one));
  bp_ir_block_close(block);
  const BpIrNode *is_unit = bp_ir_binary(ir, BP_IR_EQ, x, bp_ir_int(ir, dtype, 1));
  if (dtype.code == BP_DTYPE_INT)
    is_unit = bp_ir_binary(ir, BP_IR_OR, is_unit,
                           bp_ir_binary(ir, BP_IR_EQ, x, bp_ir_int(ir, dtype, -1)));
  const BpIrNode *is_fraction = x_and(ir, is_negative, bp_ir_not(ir, is_unit));
  const BpIrNode *value =
      bp_ir_select(ir, is_fraction, bp_ir_int(ir, dtype, 0), bp_ir_block_value(block, power));
  bp_ir_block_add(block, bp_te_write(te, tensors[0], rows, value));
  return 0;
}

BP_ROW_COMPUTE(integer_pow) {
  const BpGraphValue *out = op->node->outputs[0];
  BpTeResult result = {out->dtype, out->shape, out->ndim};
  BpOpCompute copy = *op;
  return bp__op_statements(op, out->shape, out->ndim, &result, 1, integer_pow_body, &copy, outputs);
}

/* ---- Folding and expansion --------------------------------------------------------------- */

/* Folding Cast converts large float16 weights to float32, without the interpreter.
 * 64-bit integers are left out, because they would be rounded twice. */
BP_ROW_FOLD(cast) {
  const BpGraphValue *in = node->inputs[0];
  BpGraphValue *out = node->outputs[0];
  int64_t count = bp__value_num_elements(in);
  float *data;
  if (!in->data || !bp__dtype_equal(out->dtype, BP__FLOAT32) ||
      (in->dtype.bits == 64 && !bp__dtype_is_float(in->dtype)))
    return 1;
  data = bp__graph_new_data(graph, out);
  if (!data)
    return -1;
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)bp__value_get_float(in, i);
  out->data = data;
  return 0;
}

/* Expands a variadic operator to a chain of a two-operand operator. */
static BpGraphValue *chain(BpGraph *graph, BpGraphNode *node, const char *op) {
  if (bp__op_agree_elements(graph, node))
    return NULL;
  BpGraphValue *result = node->inputs[0];
  for (int32_t i = 1; i < node->num_inputs; i++) {
    BpGraphValue *pair[2] = {result, node->inputs[i]};
    if (!pair[1]) {
      bp__op_bad(node, "input %d is missing", i);
      return NULL;
    }
    result = bp__op_apply(graph, "", op, node->name, pair, 2, NULL, 0);
    if (!result)
      return NULL;
  }
  return result;
}

BP_ROW_EXPAND(sum) {
  node->outputs[0] = chain(graph, node, "Add");
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(extreme) {
  if (node->num_inputs == 2)
    return 1;
  node->outputs[0] = chain(graph, node, node->op->name);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(mean) {
  BpGraphValue *sum = chain(graph, node, "Add");
  node->outputs[0] = bp__op_binary(graph, node, "Div", sum,
                                   bp__op_scalar(graph, node, sum, (float)node->num_inputs));
  return node->outputs[0] ? 0 : -1;
}

/* SwiGLU: a * sigmoid(alpha * a) * b, with operands of equal shapes. */
BP_ROW_EXPAND(swiglu) {
  BpGraphValue *gate = node->inputs[0];
  if (!bp__value_same_shape(gate, node->inputs[1]))
    return bp__op_bad(node, "its inputs have different shapes");
  gate = bp__op_apply(graph, "", "Swish", node->name, &gate, 1, node->attrs, node->num_attrs);
  node->outputs[0] = bp__op_binary(graph, node, "Mul", gate, node->inputs[1]);
  return node->outputs[0] ? 0 : -1;
}

/* ---- Of com.microsoft --------------------------------------------------------------------- */

/* x plus the optional input 1, a vector over the last dimension of x. */
static BpGraphValue *with_bias(BpGraph *graph, const BpGraphNode *node) {
  BpGraphValue *x = node->inputs[0], *bias = bp__node_input(node, 1);
  char text_x[BP_VALUE_TEXT], text_bias[BP_VALUE_TEXT];
  if (!bias)
    return x;
  if (x->ndim < 1 || bias->ndim != 1 || bias->shape[0] != x->shape[x->ndim - 1]) {
    bp__op_bad(node, "its bias %s is not a vector over the last dimension of its input %s",
               bp__value_format(bias, text_bias), bp__value_format(x, text_x));
    return NULL;
  }
  return bp__op_binary(graph, node, "Add", x, bias);
}

static int expand_gelu(BpGraph *graph, BpGraphNode *node, const char *approximate) {
  BpGraphAttr attr = {.name = "approximate", .type = BP_GRAPH_ATTR_STRING, .str = approximate};
  BpGraphValue *x = with_bias(graph, node);
  node->outputs[0] = bp__op_apply(graph, "", "Gelu", node->name, &x, 1, &attr, 1);
  return node->outputs[0] ? 0 : -1;
}

/* BiasGelu; and Gelu, whose bias is absent. */
BP_ROW_EXPAND(bias_gelu) {
  return expand_gelu(graph, node, "none");
}

BP_ROW_EXPAND(fast_gelu) {
  return expand_gelu(graph, node, "tanh");
}

/* QuickGelu: x * sigmoid(alpha * x). */
BP_ROW_EXPAND(quick_gelu) {
  BpGraphValue *x = node->inputs[0], *alpha, *gate;
  alpha = bp__op_scalar(graph, node, x, bp__node_float(node, "alpha", 1.702f));
  gate = bp__op_unary(graph, node, "Sigmoid", bp__op_binary(graph, node, "Mul", x, alpha));
  node->outputs[0] = bp__op_binary(graph, node, "Mul", x, gate);
  return node->outputs[0] ? 0 : -1;
}
