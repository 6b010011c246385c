/* SPDX-License-Identifier: Apache-2.0 */
/* Constant operands of products in the order in which they are read: the columns in panels as wide
 * as a tile of the result, each of them whole before the next. */
#include <string.h>

#include <backplane/compiler/schedules.h>

#include "graph/build/build.h"
#include "graph/ops/op.h"

/* A matrix (inner, columns) as (panels, inner, panel), zero beyond the columns. */
static BpGraphValue *pack_panels(BpGraph *graph, const BpGraphValue *from, int64_t panel) {
  int64_t inner = from->shape[0], columns = from->shape[1];
  int64_t shape[3] = {(columns + panel - 1) / panel, inner, panel};
  BpGraphValue *to = bp__graph_constant(graph, from->name, from->dtype, shape, 3, NULL);
  const float *source = from->data;
  float *target = to ? bp__graph_constant_data(to) : NULL;
  for (int64_t p = 0; to && p < shape[0]; p++) {
    int64_t first = p * panel, count = columns - first < panel ? columns - first : panel;
    for (int64_t k = 0; k < inner; k++, target += panel)
      memcpy(target, source + k * columns + first, (size_t)count * sizeof(*target));
  }
  return to;
}

/* A product of float32 with a constant matrix of more columns than a tile has. */
static int is_packable(const BpGraphNode *node) {
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[1];
  return !strcmp(node->op->name, "MatMul") && !node->op->domain[0] && b->data && b->ndim == 2 &&
         a->ndim > 1 && bp__dtype_equal(b->dtype, BP__FLOAT32) &&
         bp__value_num_elements(node->outputs[0]) > 0 && b->shape[0] > 0;
}

static int pack_rule(BpRewrite *rewrite, BpGraphNode *node) {
  const BpTarget *target = rewrite->context;
  if (!is_packable(node))
    return 0;
  const BpGraphValue *a = node->inputs[0], *b = node->inputs[1];
  int64_t panel =
      bp_schedule_panel_columns(target, a->shape[a->ndim - 2], b->shape[0], b->shape[1]);
  if (panel < 0)
    return -1;
  if (panel >= b->shape[1])
    return 0;
  BpGraphAttr columns = bp__attr_int(rewrite->graph, "columns", b->shape[1]);
  BpGraphValue *inputs[2] = {node->inputs[0], pack_panels(rewrite->graph, b, panel)};
  BpGraphValue *packed =
      bp__op_apply(rewrite->graph, "backplane", "MatMulPacked", node->name, inputs, 2, &columns, 1);
  return bp__rewrite_replace(rewrite, node->outputs[0], packed) ? -1 : 1;
}

int bp__build_pack(BpGraph *graph, const BpTarget *target) {
  if (bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0) < 128)
    return 0;
  return bp__graph_rewrite(graph, pack_rule, (void *)(uintptr_t)target);
}
