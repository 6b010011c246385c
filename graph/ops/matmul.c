/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

/* numpy's matmul: leading dimensions broadcast, a vector becomes a row or a column which the output
 * lacks. */
BP_ROW_INFER(matmul) {
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[1];
  int64_t shape[BP_GRAPH_MAX_NDIM + 2];
  int32_t batch_a = a->ndim > 2 ? a->ndim - 2 : 0, batch_b = b->ndim > 2 ? b->ndim - 2 : 0;
  int32_t ndim = batch_a > batch_b ? batch_a : batch_b;
  char text_a[BP_VALUE_TEXT], text_b[BP_VALUE_TEXT];
  int fits = a->ndim > 0 && b->ndim > 0 && bp__dtype_equal(a->dtype, b->dtype) &&
             a->shape[a->ndim - 1] == b->shape[b->ndim > 1 ? b->ndim - 2 : 0];
  for (int32_t i = 0; i < ndim && fits; i++) {
    int64_t ea = i < ndim - batch_a ? 1 : a->shape[i - (ndim - batch_a)];
    int64_t eb = i < ndim - batch_b ? 1 : b->shape[i - (ndim - batch_b)];
    fits = ea == eb || ea == 1 || eb == 1;
    shape[i] = ea == 1 ? eb : ea;
  }
  if (!fits)
    return bp__op_bad(node, "%s and %s do not multiply", bp__value_format(a, text_a),
                      bp__value_format(b, text_b));
  if (a->ndim > 1)
    shape[ndim++] = a->shape[a->ndim - 2];
  if (b->ndim > 1)
    shape[ndim++] = b->shape[b->ndim - 1];
  return bp__node_set_output(graph, node, 0, a->dtype, shape, ndim);
}

/* The leading indices of an operand from those of the output. */
static void batch_indices(BpTe *te, const BpGraphValue *operand, int32_t out_batch,
                          const BpIrNode *const *axes, const BpIrNode **indices) {
  for (int32_t i = 0; i < operand->ndim - 2; i++)
    indices[i] = operand->shape[i] == 1 ? x_index(bp_te_ir(te), 0)
                                        : axes[out_batch - (operand->ndim - 2) + i];
}

static const BpIrNode *matmul_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *a = op->node->inputs[0], *b = op->node->inputs[1];
  int32_t rows = a->ndim > 1, columns = b->ndim > 1;
  int32_t batch = op->node->outputs[0]->ndim - rows - columns;
  const BpIrNode *ia[BP_GRAPH_MAX_NDIM], *ib[BP_GRAPH_MAX_NDIM];
  const BpIrNode *k = bp_te_reduce_axis(te, "k", a->shape[a->ndim - 1]);
  batch_indices(te, a, batch, axes, ia);
  batch_indices(te, b, batch, axes, ib);
  if (rows)
    ia[a->ndim - 2] = axes[batch];
  ia[a->ndim - 1] = k;
  ib[columns ? b->ndim - 2 : 0] = k;
  if (columns)
    ib[b->ndim - 1] = axes[batch + rows];
  return bp_te_reduce(
      te, BP_TE_SUM,
      x_mul(bp_te_ir(te), bp_te_read(te, op->inputs[0], ia), bp_te_read(te, op->inputs[1], ib)), &k,
      1);
}

BP_ROW_COMPUTE(matmul) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpCompute copy = *op;
  return bp_te_compute(op->te, "matmul", out->shape, out->ndim, matmul_body, &copy);
}

/* ---- With a packed operand ------------------------------------------------------------------ */

/* The second operand (inner, columns) as (panels, inner, panel), made by graph/build/pack.c. */
BP_ROW_INFER(matmul_packed) {
  const BpGraphValue *a = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  memcpy(shape, a->shape, (size_t)a->ndim * sizeof(*shape));
  shape[a->ndim - 1] = bp__node_int(node, "columns", 1);
  return bp__node_set_output(graph, node, 0, a->dtype, shape, a->ndim);
}

static const BpIrNode *matmul_packed_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *a = op->node->inputs[0], *b = op->node->inputs[1];
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *k = bp_te_reduce_axis(te, "k", b->shape[1]), *column = axes[a->ndim - 1];
  const BpIrNode *panel = x_index(ir, b->shape[2]), *ia[BP_GRAPH_MAX_NDIM];
  const BpIrNode *ib[3] = {bp_ir_binary(ir, BP_IR_FLOORDIV, column, panel), k,
                           bp_ir_binary(ir, BP_IR_FLOORMOD, column, panel)};
  memcpy(ia, axes, (size_t)a->ndim * sizeof(*ia));
  ia[a->ndim - 1] = k;
  return bp_te_reduce(
      te, BP_TE_SUM,
      x_mul(ir, bp_te_read(te, op->inputs[0], ia), bp_te_read(te, op->inputs[1], ib)), &k, 1);
}

BP_ROW_COMPUTE(matmul_packed) {
  const BpGraphValue *out = op->node->outputs[0];
  BpOpCompute copy = *op;
  return bp_te_compute(op->te, "matmul", out->shape, out->ndim, matmul_packed_body, &copy);
}

/* ---- Gemm ----------------------------------------------------------------------------------- */

/* alpha * A' * B' + beta * C. */
static BpGraphValue *gemm_operand(BpGraph *graph, BpGraphNode *node, int32_t index,
                                  const char *flag) {
  BpGraphValue *value = node->inputs[index];
  if (value->ndim != 2) {
    bp__op_bad(node, "input %d has %d dimensions instead of 2", index, value->ndim);
    return NULL;
  }
  if (!bp__node_int(node, flag, 0))
    return value;
  return bp__op_apply(graph, "", "Transpose", node->name, &value, 1, NULL, 0);
}

static BpGraphValue *scaled(BpGraph *graph, BpGraphNode *node, BpGraphValue *value,
                            const char *name) {
  float factor = bp__node_float(node, name, 1.0f);
  BpGraphValue *pair[2] = {value, NULL};
  if (factor == 1.0f || !value)
    return value;
  pair[1] = bp__graph_float_scalar(graph, factor);
  return bp__op_apply(graph, "", "Mul", node->name, pair, 2, NULL, 0);
}

BP_ROW_EXPAND(gemm) {
  BpGraphValue *pair[2] = {gemm_operand(graph, node, 0, "transA"), NULL}, *sum;
  pair[1] = pair[0] ? gemm_operand(graph, node, 1, "transB") : NULL;
  sum = bp__op_apply(graph, "", "MatMul", node->name, pair, 2, NULL, 0);
  sum = scaled(graph, node, sum, "alpha");
  if (sum && bp__node_input(node, 2)) {
    BpGraphValue *addends[2] = {sum, scaled(graph, node, node->inputs[2], "beta")};
    sum = bp__op_apply(graph, "", "Add", node->name, addends, 2, NULL, 0);
  }
  node->outputs[0] = sum;
  return sum ? 0 : -1;
}
