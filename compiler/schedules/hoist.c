/* SPDX-License-Identifier: Apache-2.0 */
/* Makes stages of the operands that a product computes from its inputs, such as numbers of few
 * bits. A product with many rows computes a panel of such an operand once for all of them (tile.c);
 * computed where it is read, it would be computed again for each tile of rows. */

#include "compiler/lower/passes.h"
#include "compiler/schedules/parts.h"

#include <stdio.h>
#include <string.h>

/* The least number of operations for which an operand is stored: a conversion, which is one or two,
 * takes no longer than a load and a store. */
#define DEAR_OPERATIONS 4
#define MAX_OPERANDS    8

/* The operands of a reduction that do not depend on its rows. */
typedef struct Operands {
  BpTeStage *reader;
  const BpTeAxis *axes[BP__TE_MAX_AXES]; /* axes of the operands; that of vectors is last */
  int32_t num_axes;
  const BpIrNode *values[MAX_OPERANDS];
  int32_t count;
  BpIrMap seen; /* terms and factors: one that occurs again is looked at once */
} Operands;

/* ---- Finding operands -------------------------------------------------------------------- */

/* Adds the operations of an expression to a count, up to DEAR_OPERATIONS, without those of its
 * indices. */
static int32_t count_operations(const BpIrNode *node, int32_t count) {
  if (bp__te_is_read(node))
    return count;
  count += node->num_operands > 0;
  for (int32_t i = 0; i < node->num_operands && count < DEAR_OPERATIONS; i++)
    count = count_operations(node->operands[i], count);
  return count;
}

static const BpTeAxis *vector_axis_of(const BpTeStage *stage) {
  for (int32_t i = stage->ndim - 1; i >= 0; i--)
    if (stage->axes[i]->open || stage->axes[i]->extent > 1)
      return stage->axes[i];
  return NULL;
}

/* Sets the axes on which an operand depends: 1 if the operand depends on the axis of the vectors,
 * but not on all axes, and none is open; 0 otherwise; -1 with an error. */
static int find_axes(const BpTeStage *reader, const BpIrNode *value, const BpTeAxis **axes,
                     int32_t *count) {
  const BpTeAxis *vector = vector_axis_of(reader);
  bool has_rows = false, has_vector = false, is_open = false;
  *count = 0;
  for (int32_t i = 0; i < reader->ndim + reader->num_reduce_axes; i++) {
    const BpTeAxis *axis = reader->axes[i];
    int uses = bp__ir_uses(value, axis->var);
    if (uses < 0)
      return -1;
    has_rows |= !uses && i < reader->ndim && (axis->open || axis->extent > 1);
    has_vector |= uses && axis == vector;
    is_open |= uses && axis->open;
    if (uses && axis != vector)
      axes[(*count)++] = axis;
  }
  axes[(*count)++] = vector;
  return has_rows && has_vector && !is_open && *count <= BP_TE_MAX_NDIM;
}

/* Adds an expression to the operands if it is an operand and has the axes of the other operands: 1,
 * 0, or -1 with an error. */
static int add_operand(Operands *operands, const BpIrNode *node) {
  const BpTeAxis *axes[BP__TE_MAX_AXES];
  int32_t num_axes;
  if (operands->count == MAX_OPERANDS || !bp__dtype_is_float(node->dtype) ||
      count_operations(node, 0) < DEAR_OPERATIONS)
    return 0;
  int found = find_axes(operands->reader, node, axes, &num_axes);
  if (found <= 0)
    return found;
  size_t size = (size_t)num_axes * sizeof *axes;
  if (operands->count > 0 &&
      (num_axes != operands->num_axes || memcmp(axes, operands->axes, size) != 0))
    return 0;
  memcpy(operands->axes, axes, size);
  operands->num_axes = num_axes;
  operands->values[operands->count++] = node;
  return 1;
}

/* Finds the operands of a sum of products. */
static int find_operands(Operands *operands, const BpIrNode *node) {
  if (bp__ir_map_get(&operands->seen, node))
    return 0;
  int found = bp__ir_map_set(&operands->seen, node, node) ? -1 : add_operand(operands, node);
  if (found != 0 || (node->kind != BP_IR_ADD && node->kind != BP_IR_MUL))
    return found < 0 ? -1 : 0;
  return find_operands(operands, node->operands[0]) != 0 ||
                 find_operands(operands, node->operands[1]) != 0
             ? -1
             : 0;
}

/* ---- Storing them ------------------------------------------------------------------------ */

static int operand_values(BpTe *te, const BpIrNode *const *axes, void *context,
                          const BpIrNode **values) {
  const Operands *operands = context;
  BpIrMap map = {0};
  int failed = 0;
  for (int32_t i = 0; i < operands->num_axes && !failed; i++)
    failed = bp__ir_map_set(&map, operands->axes[i]->var, axes[i]);
  for (int32_t i = 0; i < operands->count && !failed; i++)
    failed = !(values[i] = bp__ir_substitute(bp_te_ir(te), operands->values[i], &map));
  bp__ir_map_clear(&map);
  return failed ? -1 : 0;
}

static int store_operands(BpTe *te, Operands *operands) {
  BpTeTensor *tensors[MAX_OPERANDS];
  const BpIrNode *indices[BP_TE_MAX_NDIM];
  int64_t shape[BP_TE_MAX_NDIM];
  char name[128];
  BpIrMap map = {0};
  for (int32_t i = 0; i < operands->num_axes; i++) {
    shape[i] = operands->axes[i]->extent;
    indices[i] = operands->axes[i]->var;
  }
  snprintf(name, sizeof name, "%.100s_panel", operands->reader->tensor->name);
  int failed = bp_te_compute_tuple(te, name, shape, operands->num_axes, operand_values, operands,
                                   tensors, operands->count);
  for (int32_t i = 0; i < operands->count && !failed; i++) {
    const BpIrNode *read = bp_te_read(te, tensors[i], indices);
    failed = read ? bp__ir_map_set(&map, operands->values[i], read) : -1;
  }
  const BpIrNode *body =
      failed ? NULL : bp__ir_substitute(bp_te_ir(te), operands->reader->body, &map);
  bp__ir_map_clear(&map);
  operands->reader->body = body ? body : operands->reader->body;
  return body ? 0 : -1;
}

/* The likely number of elements of the result for which an operand is computed once. */
static double rows_of(const Operands *operands) {
  double rows = 1;
  for (int32_t i = 0; i < operands->reader->ndim; i++) {
    const BpTeAxis *axis = operands->reader->axes[i];
    bool is_own = false;
    for (int32_t j = 0; j < operands->num_axes; j++)
      is_own |= operands->axes[j] == axis;
    if (!is_own && axis->open)
      return 1e300;
    rows *= is_own ? 1 : (double)axis->extent;
  }
  return rows;
}

static int hoist_from(BpTe *te, BpTeStage *stage) {
  Operands operands = {.reader = stage};
  int rc = find_operands(&operands, stage->body);
  bp__ir_map_clear(&operands.seen);
  if (rc == 0 && operands.count > 0 && rows_of(&operands) > BP__FEW_ROWS)
    rc = store_operands(te, &operands);
  return rc;
}

int bp__hoist_operands(BpTe *te) {
  const BpTeTensor *last = te->last_tensor;
  for (BpTeTensor *tensor = te->tensors; tensor; tensor = tensor->next) {
    BpTeStage *stage = tensor->stage;
    bool is_sum = bp__te_is_first(tensor) && stage->reduce_op == BP_TE_SUM;
    if (is_sum && !stage->scan && !stage->inside && !bp__stage_is_scheduled(stage) &&
        hoist_from(te, stage) != 0)
      return -1;
    if (tensor == last)
      break;
  }
  return 0;
}
