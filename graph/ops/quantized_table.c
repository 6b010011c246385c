/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that are quantised in blocks, whose parts are dequantised (com.microsoft's
 * GatherBlockQuantized). Source: onnxruntime's docs/ContribOperators.md. */
#include <string.h>

#include "graph/ops/op.h"
#include "graph/ops/rows.h"

typedef struct QuantizedTable {
  int32_t gathered, divided; /* the axis of the indices, and the axis that has blocks */
  int64_t block;             /* elements of a block along the axis */
  bool is_packed;            /* whether a byte has two elements of the last axis */
} QuantizedTable;

static int read_table(const BpGraphNode *node, QuantizedTable *table) {
  const BpGraphValue *data = node->inputs[0];
  char text[BP_VALUE_TEXT];
  int64_t bits = bp__node_int(node, "bits", 4), gathered = bp__node_int(node, "gather_axis", 0);
  int64_t divided = bp__node_int(node, "quantize_axis", 1);
  bool is_bytes = bp__dtype_equal(data->dtype, BP__UINT8);
  *table = (QuantizedTable){.block = bp__node_int(node, "block_size", 128),
                            .is_packed = is_bytes && bits == 4};
  if (bp__op_axis(node, gathered, data->ndim, &table->gathered) ||
      bp__op_axis(node, divided, data->ndim, &table->divided))
    return -1;
  if (!is_bytes && data->dtype.bits != 4)
    return bp__op_error(node, "its data is %s; uint8, int4 and uint4 are supported",
                        bp__value_format(data, text));
  if (is_bytes && bits != 4 && bits != 8)
    return bp__op_error(node, "elements of %lld bits are not supported; 4 and 8 are",
                        (long long)bits);
  if (table->gathered == table->divided || (table->is_packed && table->divided != data->ndim - 1) ||
      table->block < 1)
    return bp__op_bad(node, "its gather_axis is %d, its quantize_axis %d, and its block_size %lld",
                      table->gathered, table->divided, (long long)table->block);
  return 0;
}

static BpGraphValue *byte(BpGraph *graph, const BpGraphNode *node, uint8_t number) {
  BpGraphValue *value = bp__graph_constant(graph, node->name, BP__UINT8, NULL, 0, NULL);
  if (value)
    memcpy(bp__graph_constant_data(value), &number, 1);
  return value;
}

/* Separates bytes of two elements each, the first one in the low bits. */
static BpGraphValue *separated(BpGraph *graph, const BpGraphNode *node, BpGraphValue *bytes) {
  int64_t shape[BP_GRAPH_MAX_NDIM] = {0};
  int32_t last = bytes->ndim - 1;
  BpGraphAttr axis = bp__attr_int(graph, "axis", last + 1);
  if (bytes->ndim == BP_GRAPH_MAX_NDIM) {
    bp__op_error(node, "%d dimensions are not supported", bytes->ndim);
    return NULL;
  }
  memcpy(shape, bytes->shape, (size_t)bytes->ndim * sizeof(*shape));
  shape[last + 1] = 1;
  bytes = bp__op_reshape(graph, node, bytes, shape, last + 2);
  BpGraphValue *halves[] = {bp__op_binary(graph, node, "BitwiseAnd", bytes, byte(graph, node, 15)),
                            bp__op_binary(graph, node, "Div", bytes, byte(graph, node, 16))};
  bytes = bp__op_apply(graph, "", "Concat", node->name, halves, 2, &axis, 1);
  shape[last] = bp__extent_multiply(&graph->extents, shape[last], 2);
  if (shape[last] == BP_EXTENT_NONE)
    return NULL;
  return bp__op_reshape(graph, node, bytes, shape, last + 1);
}

/* The indexed parts of an input, whose elements of 4 bits become bytes. */
static BpGraphValue *parts_of(BpGraph *graph, const BpGraphNode *node, const QuantizedTable *table,
                              int32_t input) {
  BpGraphAttr axis = bp__attr_int(graph, "axis", table->gathered);
  BpGraphValue *inputs[] = {node->inputs[input], node->inputs[1]};
  if (inputs[0]->dtype.bits < 8)
    inputs[0] = bp__op_bytes(graph, node, inputs[0]);
  BpGraphValue *parts = bp__op_apply(graph, "", "Gather", node->name, inputs, 2, &axis, 1);
  bool is_packed = table->is_packed && parts && bp__dtype_equal(parts->dtype, BP__UINT8);
  return is_packed ? separated(graph, node, parts) : parts;
}

/* Makes the zero points of the parts, one for each scale; NULL if all are 0. Bytes without zero
 * points have the middle of their numbers. */
static int make_zeros(BpGraph *graph, const BpGraphNode *node, const QuantizedTable *table,
                      const BpGraphValue *scales, BpGraphValue **zeros) {
  int32_t axis = scales->ndim - 1;
  *zeros = NULL;
  if (!bp__node_input(node, 3)) {
    if (!bp__dtype_equal(node->inputs[0]->dtype, BP__UINT8))
      return 0;
    *zeros = bp__op_binary(graph, node, "Expand", byte(graph, node, table->is_packed ? 8 : 128),
                           bp__op_extents(graph, node, scales->shape, scales->ndim));
    return *zeros ? 0 : -1;
  }
  if (!bp__dtype_equal(node->inputs[3]->dtype, node->inputs[0]->dtype))
    return bp__op_bad(node, "its zero points do not have the type of its data");
  *zeros = parts_of(graph, node, table, 3);
  if (table->is_packed)
    *zeros = bp__op_slice(graph, node, *zeros, axis, 0, scales->shape[axis]);
  return *zeros ? 0 : -1;
}

/* Dequantises the indexed parts of a table, whose elements have a scale and a zero point for each
 * block. The inputs are data, indices, scales and zero points. */
BP_ROW_EXPAND(gather_block_quantized) {
  QuantizedTable table;
  if (read_table(node, &table))
    return -1;
  BpGraphValue *data = parts_of(graph, node, &table, 0), *scales = parts_of(graph, node, &table, 2);
  BpGraphValue *zeros;
  if (!data || !scales || make_zeros(graph, node, &table, scales, &zeros))
    return -1;
  int64_t axis = table.divided;
  if (table.divided > table.gathered)
    axis += node->inputs[1]->ndim - 1;
  const BpGraphAttr attrs[] = {bp__attr_int(graph, "axis", axis),
                               bp__attr_int(graph, "block_size", table.block)};
  BpGraphValue *inputs[] = {data, scales, zeros};
  node->outputs[0] =
      bp__op_apply(graph, "", "DequantizeLinear", node->name, inputs, zeros ? 3 : 2, attrs, 2);
  return node->outputs[0] ? 0 : -1;
}
