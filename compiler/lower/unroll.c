/* SPDX-License-Identifier: Apache-2.0 */
/* Unrolling: an unrolled loop becomes its iterations in sequence, from the inside out, and every
 * index is brought into canonical form. A loop stays a loop if its unrolled code would exceed a
 * limit. */

#include "compiler/lower/lowering.h"

/* The maximum number of statements that one unrolled loop may become. */
#define MAX_UNROLLED 4096

typedef struct Renaming {
  BpLowering *lowering;
  BpIrMap fresh; /* the BUFFERs allocated in a body, and names if they are renamed -> new ones */
  bool renames;
} Renaming;

static int rename_binding(void *context, const BpIrNode *node) {
  Renaming *renaming = context;
  if (node->kind != BP_IR_ALLOCATE && !(renaming->renames && node->kind == BP_IR_LET))
    return 0;
  BpIrModule *module = renaming->lowering->module;
  const BpIrNode *old = node->operands[0];
  const BpIrNode *copy = node->kind == BP_IR_LET ? bp_ir_var(module, old->str_value, old->dtype)
                                                 : bp_ir_buffer(module, old->str_value, old->dtype,
                                                                (int32_t)old->int_value,
                                                                old->operands, old->num_operands);
  if (!copy ||
      (node->kind == BP_IR_LET && bp__index_set_like(&renaming->lowering->index, copy, old) != 0))
    return -1;
  return bp__ir_map_set(&renaming->fresh, old, copy);
}

static int count_stores(void *context, const BpIrNode *node) {
  *(int64_t *)context += node->kind == BP_IR_STORE || node->kind == BP_IR_EVALUATE;
  return 0;
}

const BpIrNode *bp__lower_iteration(BpLowering *lowering, const BpIrNode *loop,
                                    const BpIrNode *value, bool renames) {
  Renaming renaming = {.lowering = lowering, .renames = renames};
  const BpIrNode *body = NULL;
  if (value && bp__ir_visit_once(loop->operands[3], rename_binding, &renaming) == 0 &&
      bp__ir_map_set(&renaming.fresh, loop->operands[0], value) == 0)
    body = bp__ir_substitute(lowering->module, loop->operands[3], &renaming.fresh);
  bp__ir_map_clear(&renaming.fresh);
  return body;
}

static const BpIrNode *unroll_loop(BpLowering *lowering, const BpIrNode *loop) {
  BpIrModule *module = lowering->module;
  int64_t extent = loop->operands[2]->int_value, first = 0, stores = 0;
  if (bp__ir_visit_once(loop->operands[3], count_stores, &stores) != 0)
    return NULL;
  if (!bp__ir_const_int(loop->operands[1], &first) ||
      extent > MAX_UNROLLED / (stores > 0 ? stores : 1))
    return bp_ir_for(module, loop->operands[0], loop->operands[1], loop->operands[2],
                     BP_IR_FOR_SERIAL, "", loop->operands[3]);
  const BpIrNode **parts = bp__ir_alloc(module, (size_t)(extent + 1) * sizeof *parts);
  if (!parts)
    return NULL;
  for (int64_t i = 0; i < extent; i++)
    if (!(parts[i] = bp__lower_iteration(lowering, loop, bp__ir_int64(module, first + i), false)))
      return NULL;
  return bp_ir_seq(module, parts, (int32_t)extent);
}

static const BpIrNode *unroll_node(BpIrRewriter *rewriter, const BpIrNode *node) {
  if (node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_UNROLLED)
    return unroll_loop(rewriter->context, node);
  return node;
}

const BpIrNode *bp__lower_unroll(BpLowering *lowering, const BpIrNode *body) {
  BpIrRewriter rewriter = {.module = lowering->module, .context = lowering, .leave = unroll_node};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

/* ---- Canonical indices ------------------------------------------------------------------- */

static const BpIrNode *tidy_index(BpLowering *lowering, const BpIrNode *node, int32_t position) {
  const BpIrNode *operands[4];
  for (int32_t i = 0; i < node->num_operands; i++)
    operands[i] = node->operands[i];
  operands[position] = bp__index_simplify(&lowering->index, operands[position]);
  return bp__ir_with_operands(lowering->module, node, operands);
}

/* Drops a name that no index needs any more. */
static const BpIrNode *tidy_let(BpLowering *lowering, const BpIrNode *node) {
  int is_needed = bp__lower_has_data(node->operands[1]);
  if (is_needed == 0)
    is_needed = bp__ir_uses(node->operands[2], node->operands[0]);
  if (is_needed <= 0)
    return is_needed < 0 ? NULL : node->operands[2];
  return tidy_index(lowering, node, 1);
}

/* ---- Memory of open sizes ---------------------------------------------------------------- */

#define MAX_LIFTED 16

/* Buffers that are allocated around a loop instead of in each iteration. */
typedef struct Lifted {
  const BpLowering *lowering;
  const BpIrNode *buffers[MAX_LIFTED];
  int32_t count;
} Lifted;

/* A search for the variables of a buffer's size. */
typedef struct Size {
  const BpLowering *lowering;
  int32_t num_vars;
} Size;

/* Counts a variable; 1 if it is no open extent of the function. */
static int visit_size(void *context, const BpIrNode *node) {
  Size *size = context;
  const BpTeOpenExtent *open = size->lowering->te->open_extents;
  if (node->kind != BP_IR_VAR)
    return 0;
  while (open && bp__ir_map_get(&size->lowering->copied, open->var) != node)
    open = open->next;
  size->num_vars++;
  return !open;
}

static bool is_lifted(const Lifted *lifted, const BpIrNode *buffer) {
  for (int32_t i = 0; i < lifted->count; i++)
    if (lifted->buffers[i] == buffer)
      return true;
  return false;
}

/* Adds a buffer whose size is an expression of open extents. Returns whether the buffer is one of
 * the lifted buffers. */
static bool lift(Lifted *lifted, const BpIrNode *buffer) {
  Size size = {lifted->lowering, 0};
  if (is_lifted(lifted, buffer))
    return true;
  for (int32_t i = 0; i < buffer->num_operands; i++)
    if (bp__ir_visit_once(buffer->operands[i], visit_size, &size) != 0)
      return false;
  if (size.num_vars == 0 || lifted->count == MAX_LIFTED)
    return false;
  lifted->buffers[lifted->count++] = buffer;
  return true;
}

/* A part of an iteration, without its allocations that are lifted. */
static const BpIrNode *without_lifted(Lifted *lifted, const BpIrNode *node) {
  BpIrModule *module = lifted->lowering->module;
  bool is_let = node->kind == BP_IR_LET, is_allocate = node->kind == BP_IR_ALLOCATE;
  if (!is_let && !is_allocate && node->kind != BP_IR_SEQ)
    return node;
  if (is_allocate && lift(lifted, node->operands[0]))
    return without_lifted(lifted, node->operands[1]);
  const BpIrNode **operands = bp__ir_alloc(module, (size_t)node->num_operands * sizeof *operands);
  for (int32_t i = 0; operands && i < node->num_operands; i++) {
    bool is_part = i >= (is_let ? 2 : is_allocate ? 1 : 0);
    operands[i] = is_part ? without_lifted(lifted, node->operands[i]) : node->operands[i];
    if (!operands[i])
      return NULL;
  }
  return operands ? bp__ir_with_operands(module, node, operands) : NULL;
}

static int visit_lifted(void *context, const BpIrNode *node) {
  return node->kind == BP_IR_ALLOCATE && is_lifted(context, node->operands[0]);
}

/* Allocates memory of open sizes, which the host provides, once for all iterations of a loop. A
 * buffer that a branch allocates as well stays in the loop. */
static const BpIrNode *lift_storage(BpLowering *lowering, const BpIrNode *loop) {
  Lifted lifted = {.lowering = lowering};
  const BpIrNode *operands[4];
  if (loop->int_value != BP_IR_FOR_SERIAL)
    return loop;
  memcpy(operands, loop->operands, sizeof operands);
  operands[3] = without_lifted(&lifted, loop->operands[3]);
  if (!operands[3] || lifted.count == 0)
    return operands[3] ? loop : NULL;
  int stays = bp__ir_visit_once(operands[3], visit_lifted, &lifted);
  if (stays != 0)
    return stays < 0 ? NULL : loop;
  const BpIrNode *result = bp__ir_with_operands(lowering->module, loop, operands);
  for (int32_t i = lifted.count - 1; result && i >= 0; i--)
    result = bp_ir_allocate(lowering->module, lifted.buffers[i], result);
  return result;
}

static const BpIrNode *tidy_node(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpLowering *lowering = rewriter->context;
  if (node->kind == BP_IR_FOR)
    return lift_storage(lowering, node);
  if (node->kind == BP_IR_LOAD || node->kind == BP_IR_STORE)
    return tidy_index(lowering, node, 1);
  if (node->kind == BP_IR_LET)
    return tidy_let(lowering, node);
  if (node->kind == BP_IR_RAMP)
    return tidy_index(lowering, node, 0);
  if (bp__dtype_is_bool(node->dtype) && node->dtype.lanes == 1) {
    int known = bp__index_decide(&lowering->index, node);
    if (known >= 0)
      return bp__ir_bool(lowering->module, known);
  }
  return node;
}

/* Folds the parts of indices and conditions that unrolling made constant, drops names that nothing
 * uses, and allocates memory of open sizes outside of loops. */
const BpIrNode *bp__lower_tidy(BpLowering *lowering, const BpIrNode *body) {
  BpIrRewriter rewriter = {.module = lowering->module, .context = lowering, .leave = tidy_node};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
