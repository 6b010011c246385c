/* SPDX-License-Identifier: Apache-2.0 */
/* Packs second operands of products in panels (graph/ops/matmul.c), the order in which tiles read
 * them. Constants are packed when compiling, other operands at run time if that costs less than it
 * saves. */
#include <string.h>

#include <backplane/compiler/schedules.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/ops/rows.h"

/* The number of rows of the result from which on packing a computed operand pays. */
#define PACKED_ROWS 64
/* The vectors of the widest panel that a product transposes. */
#define TILE_VECTORS 4
/* Rows of a matrix share a few sets of the caches if their distance in bytes is a multiple of
 * CONFLICT_BYTES. */
#define CONFLICT_BYTES 2048

static int is_product(const BpGraphNode *node) {
  return node->op->compute == bp__compute_matmul && node->inputs[0]->ndim > 1 &&
         node->inputs[1]->ndim > 1 && bp__value_num_elements(node->inputs[0]) != 0 &&
         bp__value_num_elements(node->inputs[1]) != 0;
}

/* Whether the second operand can be packed in panels. */
static int has_panels(const BpGraphNode *node) {
  return is_product(node) && bp__value_num_elements(node->inputs[1]) > 0 &&
         node->outputs[0]->ndim < BP_GRAPH_MAX_NDIM;
}

/* The number of rows of the result; an open number counts as enough. */
static int64_t rows_of(const BpGraphNode *node) {
  int64_t rows = node->inputs[0]->shape[node->inputs[0]->ndim - 2];
  return bp__extent_is_open(rows) ? PACKED_ROWS : rows;
}

/* Whether tiles miss the caches in an unpacked operand so often that a packed copy pays. */
static int pays_to_pack(const BpGraphNode *node, const BpTarget *target) {
  const BpGraphValue *b = node->inputs[1];
  int64_t row = b->shape[b->ndim - 1] * (int64_t)bp_dtype_bytes(b->dtype);
  int64_t l2 = bp_target_get_int(target, BP_TARGET_L2_BYTES, 1 << 20);
  return rows_of(node) >= PACKED_ROWS && row % CONFLICT_BYTES == 0 &&
         b->shape[b->ndim - 2] * row > l2 / 2;
}

typedef struct Packing {
  const BpTarget *target;
  BpGraphValue **packed; /* packed form of a constant, by id; NULL if it has none */
  int32_t num_values;
} Packing;

/* Packs an operand in panels, once for all products that read it. */
static BpGraphValue *packed(BpRewrite *rewrite, BpGraphValue *operand, int64_t panel) {
  Packing *packing = rewrite->context;
  BpGraphValue **known = operand->id < packing->num_values ? &packing->packed[operand->id] : NULL;
  BpGraphAttr width = bp__attr_int(rewrite->graph, "panel", panel);
  BpGraphValue *made = known ? *known : NULL;
  if (made && made->shape[made->ndim - 1] == panel)
    return made;
  made = bp__op_apply(rewrite->graph, "backplane", "Panels", operand->name, &operand, 1, &width, 1);
  if (known && operand->data)
    *known = made;
  return made;
}

/* Whether a node makes the steps of a recurrent layer and has weights to pack. */
static int has_weights_of_state(const BpGraphNode *node) {
  return node->op->compute == bp__compute_lstm_steps ||
         node->op->compute == bp__compute_gru_steps || node->op->compute == bp__compute_rnn_steps;
}

/* Packs the weights of a state in panels as wide as a vector: a tile of the state reads one panel
 * of each gate from front to back. */
static int pack_steps(BpRewrite *rewrite, BpGraphNode *node) {
  const BpTarget *target = ((Packing *)rewrite->context)->target;
  BpGraphValue *weights = node->inputs[1];
  int64_t bits = bp_te_accumulator(node->outputs[0]->dtype).bits;
  int64_t panel = bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0) / bits;
  if (!weights->data || weights->ndim != 2 || node->outputs[0]->shape[2] % panel != 0)
    return 0;
  node->inputs[1] = packed(rewrite, weights, panel);
  return node->inputs[1] ? 0 : -1;
}

/* Returns the input of a transpose of the last two dimensions whose result only this product reads;
 * NULL if the second operand is not the result of such a transpose. */
static BpGraphValue *turned_operand(const BpGraphNode *node) {
  const BpGraphValue *b = node->inputs[1];
  const BpGraphNode *transpose = b->producer;
  const BpGraphAttr *perm;
  if (b->num_uses != 1 || !transpose || strcmp(transpose->op->name, "Transpose") ||
      transpose->op->domain[0] || !(perm = bp__node_attr(transpose, "perm")))
    return NULL;
  for (int32_t i = 0; i < b->ndim - 2; i++)
    if (perm->ints[i] != i)
      return NULL;
  return perm->ints[b->ndim - 1] == b->ndim - 2 ? transpose->inputs[0] : NULL;
}

/* Whether a product can transpose its second operand panel by panel: a panel of the widest tile
 * stays in the second-level cache, so that all rows read it from there. */
static int fits_turned(const BpGraphNode *node, const BpTarget *target) {
  const BpGraphValue *b = node->inputs[1];
  int64_t inner = b->shape[b->ndim - 2], columns = b->shape[b->ndim - 1];
  int64_t l2 = bp_target_get_int(target, BP_TARGET_L2_BYTES, 1 << 20);
  int64_t width = bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0) / 8 * TILE_VECTORS;
  return !bp__extent_is_open(inner) && inner <= l2 / 2 / width &&
         (bp__extent_is_open(columns) || columns >= width / (int64_t)bp_dtype_bytes(b->dtype));
}

/* Transposes an operand inside the product, which saves writing and reading a transposed copy. The
 * number of rows does not matter: few rows, as in a step of a language model, gain most, and many
 * rows share each panel. */
static int turn_rule(BpRewrite *rewrite, BpGraphNode *node) {
  const BpTarget *target = ((Packing *)rewrite->context)->target;
  BpGraphValue *operands[2] = {node->inputs[0], turned_operand(node)};
  if (!operands[1] || !fits_turned(node, target))
    return 0;
  BpGraphValue *product =
      bp__op_apply(rewrite->graph, "backplane", "MatMulTurned", node->name, operands, 2, NULL, 0);
  return bp__rewrite_replace(rewrite, node->outputs[0], product) ? -1 : 1;
}

static int pack_rule(BpRewrite *rewrite, BpGraphNode *node) {
  if (has_weights_of_state(node))
    return pack_steps(rewrite, node);
  const BpTarget *target = ((Packing *)rewrite->context)->target;
  if (is_product(node) && !node->inputs[1]->data) {
    int turned = turn_rule(rewrite, node);
    if (turned != 0)
      return turned;
  }
  if (!has_panels(node) || (!node->inputs[1]->data && !pays_to_pack(node, target)))
    return 0;
  BpGraphValue *operands[2] = {node->inputs[0], node->inputs[1]}, *product;
  const int64_t *matrix = operands[1]->shape + operands[1]->ndim - 2;
  int64_t panel =
      bp_schedule_panel_columns(target, operands[0]->dtype, rows_of(node), matrix[0], matrix[1]);
  if (panel < 0)
    return -1;
  if (panel >= matrix[1])
    return 0;
  BpGraphAttr attrs[] = {bp__attr_int(rewrite->graph, "columns", matrix[1]),
                         bp__attr_int(rewrite->graph, "is_dot", bp__node_int(node, "is_dot", 0))};
  operands[1] = packed(rewrite, operands[1], panel);
  product =
      bp__op_apply(rewrite->graph, "backplane", "MatMulPacked", node->name, operands, 2, attrs, 2);
  return bp__rewrite_replace(rewrite, node->outputs[0], product) ? -1 : 1;
}

int bp__build_pack(const BpBuild *build, BpGraph *graph) {
  const BpTarget *target = build->target;
  if (bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0) < 128 || bp__build_lock_step(target) > 1)
    return 0;
  Packing packing = {
      target,
      bp__arena_alloc_array(&graph->arena, (size_t)graph->num_values, sizeof(*packing.packed)),
      graph->num_values};
  bp__graph_count_uses(graph);
  return packing.packed ? bp__graph_rewrite(graph, pack_rule, &packing) : -1;
}
