/* SPDX-License-Identifier: Apache-2.0 */
/* Types that only store: floats of 8 and 4 bits, integers of 4 and 2. No operator computes in
 * storage-only types, and no target has them: an operator sees each element as a byte, which is the
 * code of a float or the value of an integer. In a tensor between operators, and in inputs and
 * outputs, elements of less than a byte are packed, the first element in the lowest bits. */
#include <math.h>
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* A float format of a sign bit, an exponent and `fraction` bits. */
typedef struct Format {
  uint8_t code;
  uint8_t bits;
  int32_t fraction, bias;
  int32_t largest;  /* code of the largest finite number */
  int32_t overflow; /* code of a larger number if the conversion does not saturate */
  int32_t nan;
  int has_inf, has_nan, has_minus_zero;
} Format;

static const Format formats[] = {
    {BP_DTYPE_FLOAT8_E4M3FN, 8, 3, 7, 0x7e, 0x7f, 0x7f, 0, 1, 1},
    {BP_DTYPE_FLOAT8_E4M3FNUZ, 8, 3, 8, 0x7f, 0x80, 0x80, 0, 1, 0},
    {BP_DTYPE_FLOAT8_E5M2, 8, 2, 15, 0x7b, 0x7c, 0x7e, 1, 1, 1},
    {BP_DTYPE_FLOAT8_E5M2FNUZ, 8, 2, 16, 0x7f, 0x80, 0x80, 0, 1, 0},
    {BP_DTYPE_FLOAT4_E2M1FN, 4, 1, 1, 0x7, 0x7, 0x8, 0, 0, 1},
};

static const Format *find_format(int64_t code) {
  for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
    if (formats[i].code == code)
      return &formats[i];
  return NULL;
}

int bp__dtype_is_narrow(BpDataType dtype) {
  return dtype.bits < 8 || find_format(dtype.code) != NULL;
}

/* ---- Codes of floats --------------------------------------------------------------------- */

static const BpIrNode *int_of(BpIrModule *ir, int64_t value) {
  return bp_ir_int(ir, BP__INT32, value);
}

static const BpIrNode *same_bits(BpIrModule *ir, BpDataType dtype, const BpIrNode *a) {
  return a ? bp_ir_make(ir, BP_IR_REINTERPRET, dtype, &a, 1, 0, 0, NULL) : NULL;
}

static const BpIrNode *shifted(BpIrModule *ir, const BpIrNode *a, int32_t right) {
  return bp_ir_binary(ir, BP_IR_SHR, a, int_of(ir, right));
}

static const BpIrNode *masked(BpIrModule *ir, const BpIrNode *a, int64_t mask) {
  return bp_ir_binary(ir, BP_IR_BIT_AND, a, int_of(ir, mask));
}

/* The step between subnormal numbers. */
static double step_of(const Format *f) {
  return ldexp(1, 1 - f->bias - f->fraction);
}

BP_ROW_INFER(decode_float) {
  return bp__node_set_output(graph, node, 0, BP__FLOAT32, node->inputs[0]->shape,
                             node->inputs[0]->ndim);
}

BP_ROW_SCALAR(decode_float) {
  const Format *f = find_format(bp__node_int(node, "kind", 0));
  int32_t sign = 1 << (f->bits - 1), shift = 23 - f->fraction;
  const BpIrNode *code = bp_ir_cast(ir, BP__INT32, args[0]), *rest = masked(ir, code, sign - 1);
  const BpIrNode *normal = same_bits(ir, BP__FLOAT32,
                                     x_add(ir, x_mul(ir, rest, int_of(ir, INT64_C(1) << shift)),
                                           int_of(ir, (int64_t)(127 - f->bias) << 23)));
  const BpIrNode *small =
      x_mul(ir, bp_ir_cast(ir, BP__FLOAT32, rest), x_number(ir, BP__FLOAT32, step_of(f)));
  const BpIrNode *value = x_choose(ir, x_lt(ir, rest, int_of(ir, 1 << f->fraction)), small, normal);
  if (f->has_inf)
    value = x_choose(ir, bp_ir_binary(ir, BP_IR_EQ, rest, int_of(ir, f->overflow)),
                     x_number(ir, BP__FLOAT32, HUGE_VAL), value);
  value = x_choose(ir, x_ge(ir, code, int_of(ir, sign)),
                   x_mul(ir, value, x_number(ir, BP__FLOAT32, -1)), value);
  if (!f->has_nan)
    return value;
  /* NaN has the codes above infinity, a single code, or the code of minus zero. */
  const BpIrNode *is_nan = f->has_minus_zero
                               ? x_lt(ir, int_of(ir, f->has_inf ? f->overflow : f->largest), rest)
                               : bp_ir_binary(ir, BP_IR_EQ, code, int_of(ir, f->nan));
  return x_choose(ir, is_nan, x_number(ir, BP__FLOAT32, (double)NAN), value);
}

BP_ROW_INFER(encode_float) {
  return bp__node_set_output(graph, node, 0, BP__UINT8, node->inputs[0]->shape,
                             node->inputs[0]->ndim);
}

/* Encodes a magnitude, given by the bits of a float32, to the nearest code, halves to even; a
 * magnitude beyond the largest number gets a code beyond the largest number's. */
static const BpIrNode *encode_magnitude(BpIrModule *ir, const Format *f, const BpIrNode *bits) {
  int32_t shift = 23 - f->fraction;
  const BpIrNode *last = masked(ir, shifted(ir, bits, shift), 1);
  const BpIrNode *rounded =
      x_add(ir, x_add(ir, bits, int_of(ir, (INT64_C(1) << (shift - 1)) - 1)), last);
  const BpIrNode *normal =
      x_sub(ir, shifted(ir, rounded, shift), int_of(ir, (int64_t)(127 - f->bias) << f->fraction));
  /* The last bit of a float32 that 2^23 steps were added to is one step, so the addition rounds to
   * steps. */
  const BpIrNode *large = x_number(ir, BP__FLOAT32, ldexp(step_of(f), 23));
  const BpIrNode *small =
      x_sub(ir, same_bits(ir, BP__INT32, x_add(ir, same_bits(ir, BP__FLOAT32, bits), large)),
            same_bits(ir, BP__INT32, large));
  return x_choose(ir, x_lt(ir, bits, int_of(ir, (int64_t)(128 - f->bias) << 23)), small, normal);
}

BP_ROW_SCALAR(encode_float) {
  const Format *f = find_format(bp__node_int(node, "kind", 0));
  int32_t over = bp__node_int(node, "saturate", 1) ? f->largest : f->overflow;
  int32_t sign = 1 << (f->bits - 1);
  const BpIrNode *bits = same_bits(ir, BP__INT32, args[0]), *rest = masked(ir, bits, INT32_MAX);
  const BpIrNode *code = encode_magnitude(ir, f, rest), *negative;
  code = x_choose(ir, x_lt(ir, int_of(ir, f->largest), code), int_of(ir, over), code);
  code = x_choose(ir, x_lt(ir, int_of(ir, 0x7f800000), rest), int_of(ir, f->nan), code);
  negative = bp_ir_binary(ir, BP_IR_BIT_OR, code, int_of(ir, sign));
  if (!f->has_minus_zero)
    negative = x_choose(ir, bp_ir_binary(ir, BP_IR_EQ, code, int_of(ir, 0)), code, negative);
  return bp_ir_cast(ir, BP__UINT8, x_choose(ir, x_lt(ir, bits, int_of(ir, 0)), negative, code));
}

/* ---- Packed elements --------------------------------------------------------------------- */

BP_ROW_INFER(view_as) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  BpDataType dtype;
  int32_t ndim = bp__op_ints(node, -1, "shape", shape, BP_GRAPH_MAX_NDIM);
  if (ndim < 0 || bp__dtype_from_onnx(bp__node_int(node, "to", 0), &dtype))
    return bp__op_bad(node, "it has no type or no shape");
  return bp__node_set_output(graph, node, 0, dtype, shape, ndim);
}

/* Unpacks bytes of elements with `bits` bits to `count` integers of a byte. */
BP_ROW_INFER(unpack) {
  int64_t count = bp__node_int(node, "count", 0);
  return bp__node_set_output(graph, node, 0,
                             bp__node_int(node, "is_signed", 0) ? BP__INT8 : BP__UINT8, &count, 1);
}

static const BpIrNode *unpack_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  int64_t bits = bp__node_int(op->node, "bits", 4), each = 8 / bits;
  BpDataType dtype = op->node->outputs[0]->dtype;
  const BpIrNode *index = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[0], x_index(ir, each)), *value;
  const BpIrNode *place = bp_ir_binary(ir, BP_IR_FLOORMOD, axes[0], x_index(ir, each));
  value = bp_te_read(te, op->inputs[0], &index);
  value = value ? bp_ir_cast(ir, BP__INT32, value) : NULL;
  place = bp_ir_cast(ir, BP__INT32, x_mul(ir, place, x_index(ir, bits)));
  value = masked(ir, bp_ir_binary(ir, BP_IR_SHR, value, place), (1 << bits) - 1);
  if (dtype.code == BP_DTYPE_INT)
    value = x_choose(ir, x_lt(ir, value, int_of(ir, 1 << (bits - 1))), value,
                     x_sub(ir, value, int_of(ir, 1 << bits)));
  return bp_ir_cast(ir, dtype, value);
}

BP_ROW_COMPUTE(unpack) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpCompute copy = *op;
  return bp__op_give(outputs,
                     bp_te_compute(op->te, "unpack", out->shape, out->ndim, unpack_body, &copy));
}

/* Packs the lowest bits of each byte. */
BP_ROW_INFER(pack) {
  int64_t each = 8 / bp__node_int(node, "bits", 4);
  int64_t count = (node->inputs[0]->shape[0] + each - 1) / each;
  return bp__node_set_output(graph, node, 0, BP__UINT8, &count, 1);
}

static const BpIrNode *pack_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  BpIrModule *ir = bp_te_ir(te);
  int64_t bits = bp__node_int(op->node, "bits", 4), each = 8 / bits;
  int64_t count = op->node->inputs[0]->shape[0];
  const BpIrNode *sum = NULL;
  for (int64_t i = 0; i < each; i++) {
    const BpIrNode *index = x_add(ir, x_mul(ir, axes[0], x_index(ir, each)), x_index(ir, i)), *part;
    part = count % each == 0
               ? bp_te_read(te, op->inputs[0], &index)
               : bp_te_read_if(te, op->inputs[0], &index, x_lt(ir, index, x_index(ir, count)));
    part = part ? masked(ir, bp_ir_cast(ir, BP__INT32, part), (1 << bits) - 1) : NULL;
    part = x_mul(ir, part, int_of(ir, INT64_C(1) << (bits * i)));
    sum = i ? x_add(ir, sum, part) : part;
  }
  return sum ? bp_ir_cast(ir, BP__UINT8, sum) : NULL;
}

BP_ROW_COMPUTE(pack) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpCompute copy = *op;
  return bp__op_give(outputs,
                     bp_te_compute(op->te, "pack", out->shape, out->ndim, pack_body, &copy));
}

/* ---- Between the types ------------------------------------------------------------------- */

BpGraphValue *bp__op_view_as(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             BpDataType dtype, const int64_t *shape, int32_t ndim) {
  int64_t *kept = bp__arena_alloc_array(&graph->arena, (size_t)ndim, sizeof(*kept));
  if (!value || !kept)
    return NULL;
  if (ndim > 0)
    memcpy(kept, shape, (size_t)ndim * sizeof(*shape));
  BpGraphAttr attrs[2] = {bp__attr_int(graph, "to", bp__dtype_to_onnx(dtype)),
                          bp__attr_ints("shape", kept, ndim)};
  return bp__op_apply(graph, "backplane", "ViewAs", node->name, &value, 1, attrs, 2);
}

BpGraphValue *bp__op_bytes(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value) {
  if (!value)
    return NULL;
  int64_t bytes = bp__value_num_bytes(value);
  if (value->dtype.bits == 8)
    return bp__op_view_as(graph, node, value, BP__UINT8, value->shape, value->ndim);
  BpGraphAttr attrs[3] = {
      bp__attr_int(graph, "bits", value->dtype.bits),
      bp__attr_int(graph, "is_signed", value->dtype.code == BP_DTYPE_INT),
      bp__attr_int(graph, "count", bp__value_num_elements(value)),
  };
  BpGraphValue *packed = bp__op_view_as(graph, node, value, BP__UINT8, &bytes, 1);
  packed = bp__op_apply(graph, "backplane", "Unpack", node->name, &packed, 1, attrs, 3);
  return bp__op_reshape(graph, node, packed, value->shape, value->ndim);
}

BpGraphValue *bp__op_of_bytes(BpGraph *graph, const BpGraphNode *node, BpGraphValue *bytes,
                              BpDataType dtype) {
  if (!bytes || dtype.bits == 8)
    return bytes ? bp__op_view_as(graph, node, bytes, dtype, bytes->shape, bytes->ndim) : NULL;
  int64_t count = bp__value_num_elements(bytes);
  BpGraphAttr bits = bp__attr_int(graph, "bits", dtype.bits);
  BpGraphValue *flat = bp__op_reshape(graph, node, bytes, &count, 1);
  flat = bp__op_apply(graph, "backplane", "Pack", node->name, &flat, 1, &bits, 1);
  return bp__op_view_as(graph, node, flat, dtype, bytes->shape, bytes->ndim);
}

static BpGraphValue *decode(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value) {
  BpGraphValue *bytes = bp__op_bytes(graph, node, value);
  if (!find_format(value->dtype.code))
    return bytes;
  BpGraphAttr kind = bp__attr_int(graph, "kind", value->dtype.code);
  return bp__op_apply(graph, "backplane", "DecodeFloat", node->name, &bytes, 1, &kind, 1);
}

/* Encodes a value; integers lose the bits that do not fit. */
static BpGraphValue *encode(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                            BpDataType dtype) {
  if (find_format(dtype.code)) {
    BpGraphAttr attrs[2] = {bp__attr_int(graph, "kind", dtype.code),
                            bp__attr_int(graph, "saturate", bp__node_int(node, "saturate", 1))};
    value = bp__op_cast(graph, node, value, BP__FLOAT32);
    value = bp__op_apply(graph, "backplane", "EncodeFloat", node->name, &value, 1, attrs, 2);
  } else {
    value = bp__op_cast(graph, node, bp__op_cast(graph, node, value, BP__INT32), BP__UINT8);
  }
  return bp__op_of_bytes(graph, node, value, dtype);
}

/* Converts a value from or to a storage-only type. */
static BpGraphValue *recoded(BpGraph *graph, const BpGraphNode *node, BpGraphValue *value,
                             BpDataType dtype) {
  if (bp__dtype_is_narrow(value->dtype))
    value = decode(graph, node, value);
  if (!value)
    return NULL;
  return bp__dtype_is_narrow(dtype) ? encode(graph, node, value, dtype)
                                    : bp__op_cast(graph, node, value, dtype);
}

BP_ROW_EXPAND(cast) {
  BpGraphValue *x = node->inputs[0];
  BpDataType dtype;
  if (bp__dtype_from_onnx(bp__node_int(node, "to", 0), &dtype) ||
      (!bp__dtype_is_narrow(x->dtype) && !bp__dtype_is_narrow(dtype)))
    return 1;
  node->outputs[0] = recoded(graph, node, x, dtype);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(cast_like) {
  BpGraphValue *x = node->inputs[0];
  BpDataType dtype = node->inputs[1]->dtype;
  node->outputs[0] = bp__dtype_is_narrow(x->dtype) || bp__dtype_is_narrow(dtype)
                         ? recoded(graph, node, x, dtype)
                         : bp__op_cast(graph, node, x, dtype);
  return node->outputs[0] ? 0 : -1;
}

BP_ROW_EXPAND(bit_cast) {
  BpGraphValue *x = node->inputs[0];
  BpDataType dtype;
  if (bp__dtype_from_onnx(bp__node_int(node, "to", 0), &dtype))
    return bp__op_error(node, "type number %lld is not supported",
                        (long long)bp__node_int(node, "to", 0));
  if (dtype.bits != x->dtype.bits)
    return bp__op_bad(node, "its input has elements of %d bits and its output of %d", x->dtype.bits,
                      dtype.bits);
  if (dtype.code == BP_DTYPE_BOOL && x->dtype.code != BP_DTYPE_BOOL)
    return bp__op_error(node, "its output is bool, which has two values only");
  node->outputs[0] = bp__op_view_as(graph, node, x, dtype, x->shape, x->ndim);
  return node->outputs[0] ? 0 : -1;
}

/* ---- Operators of bytes ------------------------------------------------------------------ */

/* Whether the node only moves elements, so that their type does not matter. */
static int moves(const BpGraphNode *node) {
  const char *name = node->op->name;
  if (!strcmp(name, "Pad") && bp__node_attr(node, "value"))
    return 0;
  return !node->op->domain[0] && (node->op->fusion == BP_FUSE_INJECTIVE ||
                                  !strcmp(name, "Concat") || !strcmp(name, "Where"));
}

static int needs_no_elements(const BpOp *op) {
  return op->fusion == BP_FUSE_VIEW || !strcmp(op->name, "Shape") || !strcmp(op->name, "Size");
}

static const BpGraphValue *first_narrow(const BpGraphNode *node) {
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i] && bp__dtype_is_narrow(node->inputs[i]->dtype))
      return node->inputs[i];
  return NULL;
}

int bp__op_by_bytes(BpGraph *graph, BpGraphNode *node) {
  const BpGraphValue *first = first_narrow(node);
  char text[BP_VALUE_TEXT];
  if (!first || needs_no_elements(node->op))
    return 1;
  if (!moves(node))
    return bp__op_error(node, "it does not take elements as of %s; cast them to float32 or int8",
                        bp__value_format(first, text));
  BpDataType dtype = first->dtype;
  BpGraphNode *mover = bp__graph_node(graph, node->op, node->name, node->inputs, node->num_inputs,
                                      1, node->attrs, node->num_attrs);
  if (!mover)
    return -1;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    BpGraphValue *value = node->inputs[i];
    if (!value || !bp__dtype_is_narrow(value->dtype))
      continue;
    if (!bp__dtype_equal(value->dtype, dtype))
      return bp__op_bad(node, "its inputs differ in type");
    mover->inputs[i] = bp__op_bytes(graph, node, value);
    if (!mover->inputs[i])
      return -1;
  }
  if (bp__op_append(graph, mover))
    return -1;
  node->outputs[0] = bp__op_of_bytes(graph, node, mover->outputs[0], dtype);
  return node->outputs[0] ? 0 : -1;
}
