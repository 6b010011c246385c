/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. */
#include <string.h>

#include "graph/ops/expr.h"
#include "graph/ops/rows.h"

static int infer_product(BpGraph *graph, BpGraphNode *node, const BpGraphValue *a,
                         const BpGraphValue *b) {
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

/* MatMul as in numpy: leading dimensions broadcast; a vector becomes a row or a column, which the
 * output lacks. */
BP_ROW_INFER(matmul) {
  return infer_product(graph, node, node->inputs[0], node->inputs[1]);
}

/* Computes the leading `batch` indices of an operand from the indices of the output. */
static void batch_indices(BpTe *te, const BpGraphValue *operand, int32_t batch, int32_t out_batch,
                          const BpIrNode *const *axes, const BpIrNode **indices) {
  for (int32_t i = 0; i < batch; i++)
    indices[i] = operand->shape[i] == 1 ? x_index(bp_te_ir(te), 0) : axes[out_batch - batch + i];
}

static const BpIrNode *matmul_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *a = op->node->inputs[0], *b = op->node->inputs[1];
  int32_t rows = a->ndim > 1, columns = b->ndim > 1;
  int32_t batch = op->node->outputs[0]->ndim - rows - columns;
  const BpIrNode *ia[BP_GRAPH_MAX_NDIM], *ib[BP_GRAPH_MAX_NDIM];
  const BpIrNode *k = bp__op_reduce_axis(op, "k", a->shape[a->ndim - 1]);
  batch_indices(te, a, a->ndim - 2, batch, axes, ia);
  batch_indices(te, b, b->ndim - 2, batch, axes, ib);
  if (rows)
    ia[a->ndim - 2] = axes[batch];
  ia[a->ndim - 1] = k;
  ib[columns ? b->ndim - 2 : 0] = k;
  if (columns)
    ib[b->ndim - 1] = axes[batch + rows];
  const BpIrNode *term = x_term(op->node, bp_te_ir(te), bp_te_read(te, op->inputs[0], ia),
                                bp_te_read(te, op->inputs[1], ib));
  return bp_te_reduce(te, BP_TE_SUM, term, &k, 1);
}

BP_ROW_COMPUTE(matmul) {
  return bp__op_give_body(op, "matmul", matmul_body, outputs);
}

/* ---- Of bytes ---------------------------------------------------------------------------- */

/* Words: bytes as int32, four along the last dimension in each. Only passes of
 * graph/build make operators on words. */
BP_ROW_INFER(words) {
  const BpGraphValue *in = node->inputs[0];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  memcpy(shape, in->shape, sizeof(shape));
  shape[in->ndim - 1] /= 4;
  return bp__node_set_output(graph, node, 0, BP__INT32, shape, in->ndim);
}

/* ---- With a transposed operand ----------------------------------------------------------- */

static void exchange_last(const BpGraphValue *value, int64_t *shape) {
  memcpy(shape, value->shape, sizeof(value->shape));
  shape[value->ndim - 1] = value->shape[value->ndim - 2];
  shape[value->ndim - 2] = value->shape[value->ndim - 1];
}

/* MatMulTurned: a * b', where b' has the last two dimensions of b exchanged. Only
 * graph/build/pack.c makes this operator. The body has a stage for b', so that the schedule can
 * compute it in the tiles of the product. */
BP_ROW_INFER(matmul_turned) {
  BpGraphValue turned = *node->inputs[1];
  exchange_last(node->inputs[1], turned.shape);
  return infer_product(graph, node, node->inputs[0], &turned);
}

static const BpIrNode *turned_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  int32_t ndim = op->node->inputs[1]->ndim;
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  memcpy(indices, axes, (size_t)ndim * sizeof(*indices));
  indices[ndim - 1] = axes[ndim - 2];
  indices[ndim - 2] = axes[ndim - 1];
  return bp_te_read(te, op->inputs[1], indices);
}

BP_ROW_COMPUTE(matmul_turned) {
  const BpGraphValue *b = op->node->inputs[1];
  BpOpCompute own = *op; /* the context parameter is not const */
  int64_t shape[BP_GRAPH_MAX_NDIM];
  exchange_last(b, shape);
  BpTeTensor *inputs[] = {op->inputs[0],
                          bp__op_tensor(op, "turned", shape, b->ndim, turned_body, &own)};
  if (!inputs[1])
    return -1;
  own.inputs = inputs;
  return bp__op_give_body(&own, "matmul", matmul_body, outputs);
}

/* ---- With a packed operand --------------------------------------------------------------- */

/* Panels: matrices as (..., panels, inner, panel). Columns are in panels as wide as a tile of the
 * result, with zeros after the last column; a product reads each panel from front to back. Only
 * graph/build/pack.c makes operators on panels. */
BP_ROW_INFER(panels) {
  const BpGraphValue *in = node->inputs[0];
  int64_t panel = bp__node_int(node, "panel", 1), shape[BP_GRAPH_MAX_NDIM + 1];
  memcpy(shape, in->shape, (size_t)in->ndim * sizeof(*shape));
  shape[in->ndim - 2] = (in->shape[in->ndim - 1] + panel - 1) / panel;
  shape[in->ndim - 1] = in->shape[in->ndim - 2];
  shape[in->ndim] = panel;
  return bp__node_set_output(graph, node, 0, in->dtype, shape, in->ndim + 1);
}

static const BpIrNode *panels_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *in = op->node->inputs[0], *out = op->node->outputs[0];
  BpIrModule *ir = bp_te_ir(te);
  int64_t columns = in->shape[in->ndim - 1], panel = out->shape[in->ndim];
  const BpIrNode *indices[BP_GRAPH_MAX_NDIM];
  memcpy(indices, axes, (size_t)in->ndim * sizeof(*indices));
  indices[in->ndim - 2] = axes[in->ndim - 1];
  indices[in->ndim - 1] =
      x_add(ir, x_mul(ir, axes[in->ndim - 2], x_index(ir, panel)), axes[in->ndim]);
  if (columns % panel == 0)
    return bp_te_read(te, op->inputs[0], indices);
  return bp_te_read_if(te, op->inputs[0], indices,
                       x_lt(ir, indices[in->ndim - 1], x_index(ir, columns)));
}

BP_ROW_COMPUTE(panels) {
  return bp__op_give_body(op, "panels", panels_body, outputs);
}

BP_ROW_FOLD(panels) {
  const BpGraphValue *in = node->inputs[0], *out = node->outputs[0];
  int64_t inner = in->shape[in->ndim - 2], columns = in->shape[in->ndim - 1];
  int64_t panels = out->shape[in->ndim - 2], panel = out->shape[in->ndim];
  size_t element = (size_t)in->dtype.bits / 8;
  if (!in->data)
    return 1;
  char *target = bp__graph_new_data(graph, out);
  const char *source = in->data, *end = source + bp__value_num_bytes(in);
  if (!target)
    return -1;
  node->outputs[0]->data = target;
  for (; source < end; source += (size_t)(inner * columns) * element)
    for (int64_t p = 0; p < panels; p++) {
      int64_t count = columns - p * panel < panel ? columns - p * panel : panel;
      for (int64_t k = 0; k < inner; k++, target += (size_t)panel * element)
        memcpy(target, source + (size_t)(k * columns + p * panel) * element,
               (size_t)count * element);
    }
  return 0;
}

/* The product with a second operand in panels, whose batch dimensions broadcast with those of the
 * first operand. */
BP_ROW_INFER(matmul_packed) {
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[1];
  int64_t shape[BP_GRAPH_MAX_NDIM];
  int32_t batch_a = a->ndim - 2, batch_b = b->ndim - 3;
  int32_t batch = batch_a > batch_b ? batch_a : batch_b;
  for (int32_t i = 0; i < batch; i++) {
    int64_t ea = i < batch - batch_a ? 1 : a->shape[i - (batch - batch_a)];
    int64_t eb = i < batch - batch_b ? 1 : b->shape[i - (batch - batch_b)];
    shape[i] = ea == 1 ? eb : ea;
  }
  shape[batch] = a->shape[batch_a];
  shape[batch + 1] = bp__node_int(node, "columns", 1);
  return bp__node_set_output(graph, node, 0, a->dtype, shape, batch + 2);
}

static const BpIrNode *matmul_packed_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpOpCompute *op = context;
  const BpGraphValue *a = op->node->inputs[0], *b = op->node->inputs[1];
  int32_t batch = op->node->outputs[0]->ndim - 2, batch_a = a->ndim - 2, batch_b = b->ndim - 3;
  BpIrModule *ir = bp_te_ir(te);
  const BpIrNode *k = bp__op_reduce_axis(op, "k", a->shape[a->ndim - 1]);
  const BpIrNode *panel = x_index(ir, b->shape[batch_b + 2]);
  const BpIrNode *ia[BP_GRAPH_MAX_NDIM], *ib[BP_GRAPH_MAX_NDIM];
  batch_indices(te, a, batch_a, batch, axes, ia);
  batch_indices(te, b, batch_b, batch, axes, ib);
  ia[batch_a] = axes[batch];
  ia[batch_a + 1] = ib[batch_b + 1] = k;
  ib[batch_b] = bp_ir_binary(ir, BP_IR_FLOORDIV, axes[batch + 1], panel);
  ib[batch_b + 2] = bp_ir_binary(ir, BP_IR_FLOORMOD, axes[batch + 1], panel);
  const BpIrNode *term =
      x_term(op->node, ir, bp_te_read(te, op->inputs[0], ia), bp_te_read(te, op->inputs[1], ib));
  return bp_te_reduce(te, BP_TE_SUM, term, &k, 1);
}

BP_ROW_COMPUTE(matmul_packed) {
  return bp__op_give_body(op, "matmul", matmul_packed_body, outputs);
}

/* ---- Gemm -------------------------------------------------------------------------------- */

/* Gemm: alpha * A' * B' + beta * C. */
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
  if (factor == 1.0f || !value)
    return value;
  if (!bp__dtype_is_float(value->dtype)) {
    bp__op_error(node, "its %s is %g, and integers take 1 alone", name, (double)factor);
    return NULL;
  }
  return bp__op_binary(graph, node, "Mul", value, bp__op_scalar(graph, node, value, factor));
}

BP_ROW_EXPAND(gemm) {
  BpGraphValue *pair[2] = {gemm_operand(graph, node, 0, "transA"), NULL}, *sum;
  pair[1] = pair[0] ? gemm_operand(graph, node, 1, "transB") : NULL;
  sum = bp__op_apply(graph, "", "MatMul", node->name, pair, 2, NULL, 0);
  sum = scaled(graph, node, sum, "alpha");
  if (sum && bp__node_input(node, 2))
    sum = bp__op_onto(graph, node, "Add", sum, scaled(graph, node, node->inputs[2], "beta"),
                      "its input C does not broadcast to the product");
  node->outputs[0] = sum;
  return sum ? 0 : -1;
}

/* FusedMatMul: alpha * A' * B' with leading dimensions. If an operand's transBatch flag is set, its
 * first dimension moves before its last; if its trans flag is set, its last two dimensions are
 * exchanged. A vector is unchanged. */
static BpGraphValue *fused_operand(BpGraph *graph, BpGraphNode *node, int32_t index,
                                   const char *flag, const char *batch_flag) {
  BpGraphValue *value = node->inputs[index];
  int64_t perm[BP_GRAPH_MAX_NDIM];
  int32_t last = value->ndim - 1;
  int32_t is_turned = bp__node_int(node, batch_flag, 0) != 0;
  if (last < 1 || (!is_turned && !bp__node_int(node, flag, 0)))
    return value;
  for (int32_t i = 0; i <= last; i++)
    perm[i] = i < last && is_turned ? i + 1 : i;
  if (is_turned)
    perm[last - 1] = 0;
  if (bp__node_int(node, flag, 0)) {
    perm[last] = perm[last - 1];
    perm[last - 1] = last;
  }
  return bp__op_transpose(graph, node, value, perm, value->ndim);
}

BP_ROW_EXPAND(fused_matmul) {
  BpGraphValue *a, *b;
  if ((bp__node_int(node, "transBatchA", 0) || bp__node_int(node, "transBatchB", 0)) &&
      (node->inputs[0]->ndim < 3 || node->inputs[0]->ndim != node->inputs[1]->ndim))
    return bp__op_bad(node,
                      "transBatchA and transBatchB take operands of one number of dimensions, 3 or "
                      "more; they have %d and %d",
                      node->inputs[0]->ndim, node->inputs[1]->ndim);
  a = fused_operand(graph, node, 0, "transA", "transBatchA");
  b = fused_operand(graph, node, 1, "transB", "transBatchB");
  node->outputs[0] = scaled(graph, node, bp__op_binary(graph, node, "MatMul", a, b), "alpha");
  return node->outputs[0] ? 0 : -1;
}
