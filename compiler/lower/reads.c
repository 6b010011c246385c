/* SPDX-License-Identifier: Apache-2.0 */
/* Rejects reads that are certainly outside their tensor, before anything is scheduled around them.
 * The author of a computation must guard reads in the branches of a select and reads with loaded
 * indices. bp__lower_has_data finds the expressions that depend on data. */

#include "compiler/lower/lowering.h"

#include <inttypes.h>

typedef struct ReadCheck {
  const BpLowerStage *stage;
  BpIndexContext index; /* index context with the extents of the stage's axes */
  BpIrMap seen;
} ReadCheck;

/* A callback of bp__ir_visit_once: returns 1 if the node is not linear in the axes. */
static int visit_not_linear(void *context, const BpIrNode *node) {
  int64_t constant;
  (void)context;
  switch (node->kind) {
  case BP_IR_VAR:
  case BP_IR_INT_IMM:
  case BP_IR_ADD:
  case BP_IR_SUB:
    return 0;
  case BP_IR_MUL:
    return !bp__ir_const_int(node->operands[0], &constant) &&
           !bp__ir_const_int(node->operands[1], &constant);
  default:
    return 1;
  }
}

/* Whether an index reaches the ends of its range, rather than only values between them: 1, 0, or -1
 * with an error. The axes are independent, so a linear index reaches both ends; so do sums with a
 * linear index, and its quotients. */
static int takes_its_ends(const BpIrNode *node) {
  int64_t constant;
  for (;;) {
    int rest = bp__ir_visit_once(node, visit_not_linear, NULL);
    if (rest <= 0)
      return rest == 0 ? 1 : -1;
    bool is_sum = node->kind == BP_IR_ADD || node->kind == BP_IR_SUB || node->kind == BP_IR_MUL;
    bool is_quotient = node->kind == BP_IR_FLOORDIV;
    if (is_sum && bp__ir_const_int(node->operands[0], &constant))
      node = node->operands[1];
    else if ((is_sum || is_quotient) && bp__ir_const_int(node->operands[1], &constant) &&
             (is_sum || constant > 0))
      node = node->operands[0];
    else
      return 0;
  }
}

static int check_read(ReadCheck *check, const BpIrNode *read) {
  const BpIrNode *buffer = read->operands[0];
  for (int32_t i = 0; i + 1 < read->num_operands; i++) {
    const BpIrNode *index = read->operands[1 + i];
    int64_t extent;
    if (!bp__ir_const_int(buffer->operands[i], &extent))
      continue;
    BpRange range = bp__index_range(&check->index, index);
    if (range.min >= 0 && range.max < extent)
      continue;
    /* The end of an open axis is unknown. */
    int is_open = bp__index_has_open(&check->index, index);
    if (is_open != 0) {
      if (is_open < 0)
        return -1;
      continue;
    }
    int is_certain = range.max < 0 || range.min >= extent ? 1 : takes_its_ends(index);
    if (is_certain < 0)
      return -1;
    if (is_certain)
      return bp_error_raise(
          BP_ERROR_INDEX,
          "tensor %s reads %s out of bounds: index %d goes from %" PRId64 " to %" PRId64
          ", and the extent is %" PRId64 "; a select says where it is not to be read",
          check->stage->stage->tensor->name, buffer->str_value, i, range.min, range.max, extent);
  }
  return 0;
}

/* Checks the reads that are evaluated for each element, without the branches of a select. */
static int check_node(ReadCheck *check, const BpIrNode *node) {
  if (bp__ir_map_get(&check->seen, node))
    return 0;
  if (bp__ir_map_set(&check->seen, node, node) != 0)
    return -1;
  if (bp__te_is_read(node) && check_read(check, node) != 0)
    return -1;
  int32_t evaluated = node->kind == BP_IR_SELECT ? 1 : node->num_operands;
  for (int32_t i = 0; i < evaluated; i++)
    if (check_node(check, node->operands[i]) != 0)
      return -1;
  return 0;
}

int bp__lower_check_reads(BpLowering *lowering, const BpLowerStage *s) {
  const BpTeStage *stage = s->stage;
  ReadCheck check = {.stage = s, .index = {.module = lowering->module}};
  int status = 0;
  bool is_empty = false;
  for (int32_t i = 0; i < stage->ndim + stage->num_reduce_axes && status == 0; i++) {
    const BpTeAxis *axis = stage->axes[i];
    if (axis->open) {
      status = bp__index_set_open(&check.index, s->vars[i], BP__RANGE_MAX);
      continue;
    }
    is_empty = is_empty || axis->extent <= 0;
    status = bp__index_set_range(&check.index, s->vars[i], 0, axis->extent - 1, true);
  }
  /* Reads of statements depend on more than the rows, so the author must keep them inside their
   * tensors. */
  if (status == 0 && !is_empty && !stage->is_statements)
    status = check_node(&check, s->body) || (s->before && check_node(&check, s->before)) ? -1 : 0;
  bp__ir_map_clear(&check.seen);
  bp__index_clear(&check.index);
  return status;
}

/* ---- Data -------------------------------------------------------------------------------- */

static int visit_data(void *context, const BpIrNode *node) {
  (void)context;
  return node->kind == BP_IR_CALL || node->kind == BP_IR_LOAD;
}

int bp__lower_has_data(const BpIrNode *node) {
  return bp__ir_visit_once(node, visit_data, NULL);
}
