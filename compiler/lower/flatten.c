/* SPDX-License-Identifier: Apache-2.0 */
/* Storage flattening: reads and writes of tensors by coordinates become loads and stores by element
 * index. A branch of a select is read only if it is chosen: a read in the branch that is not
 * provably inside its buffer is masked by the select's condition, unless the select says that both
 * branches are defined. */

#include "compiler/lower/lowering.h"

typedef struct Flatten {
  BpLowering *lowering;
  const BpIrNode *path; /* the condition under which the expression is evaluated; NULL if always */
  BpIrMap *names;       /* a variable of a LET -> its value without such variables */
} Flatten;

static const BpIrNode *flatten_under(const Flatten *outer, const BpIrNode *path,
                                     const BpIrNode *node);

static int visit_division(void *context, const BpIrNode *node) {
  (void)context;
  return bp__ir_is_division(node);
}

/* Whether a node is a product of extents of a buffer. */
static bool is_product_of_extents(const BpIrNode *buffer, const BpIrNode *node) {
  for (int32_t i = 0; i < buffer->num_operands; i++)
    if (bp__ir_equal(buffer->operands[i], node))
      return true;
  return node->kind == BP_IR_MUL && is_product_of_extents(buffer, node->operands[0]) &&
         is_product_of_extents(buffer, node->operands[1]);
}

/* max(extent, 1), by which the index of a fused axis is divided, is the extent: no element of a
 * buffer without elements is accessed. */
static const BpIrNode *rewrite_guard(BpIrRewriter *rewriter, const BpIrNode *node) {
  bool is_guard = node->kind == BP_IR_MAX && bp__ir_is_int_value(node->operands[1], 1) &&
                  is_product_of_extents(rewriter->context, node->operands[0]);
  return is_guard ? node->operands[0] : node;
}

static const BpIrNode *without_guards(BpIrModule *module, const BpIrNode *buffer,
                                      const BpIrNode *index) {
  BpIrRewriter rewriter = {.module = module,
                           .enter = bp__ir_skip_buffer,
                           .leave = rewrite_guard,
                           .context = (void *)(uintptr_t)buffer};
  index = index ? bp__ir_rewrite(&rewriter, index) : NULL;
  bp__ir_rewriter_clear(&rewriter);
  return index;
}

/* The index without names if the quotients and remainders of a fused axis, which have names, then
 * become the axis again; else the index itself, whose divisors are not 0. */
static const BpIrNode *without_names(const Flatten *flatten, const BpIrNode *buffer,
                                     const BpIrNode *index) {
  BpIrModule *module = flatten->lowering->module;
  if (!index)
    return NULL;
  const BpIrNode *open = bp__ir_substitute(module, index, flatten->names);
  open = without_guards(module, buffer, open);
  if (!open || open == index)
    return open;
  open = bp__index_simplify(&flatten->lowering->index, open);
  int divides = open ? bp__ir_visit_once(open, visit_division, NULL) : -1;
  return divides < 0 ? NULL : divides ? index : open;
}

/* Records the value of a LET for without_names, unless the value is data. */
static int keep_name(const Flatten *flatten, const BpIrNode *let) {
  const BpIrNode *const *x = let->operands;
  int is_data = bp__lower_has_data(x[1]);
  if (is_data != 0)
    return is_data < 0 ? -1 : 0;
  const BpIrNode *value = bp__ir_substitute(flatten->lowering->module, x[1], flatten->names);
  return value ? bp__ir_map_set(flatten->names, x[0], value) : -1;
}

static const BpIrNode *flat_index(const Flatten *flatten, const BpIrNode *buffer,
                                  const BpIrNode *const *indices) {
  BpIrModule *module = flatten->lowering->module;
  const BpIrNode *flat = bp__ir_int64(module, 0), *stride = bp__ir_int64(module, 1);
  for (int32_t i = buffer->num_operands - 1; i >= 0; i--) {
    const BpIrNode *part = bp_ir_binary(module, BP_IR_MUL, indices[i], stride);
    flat = bp_ir_binary(module, BP_IR_ADD, flat, part);
    stride = bp_ir_binary(module, BP_IR_MUL, stride, buffer->operands[i]);
  }
  return without_names(flatten, buffer, bp__index_simplify(&flatten->lowering->index, flat));
}

bool bp__lower_is_inside(BpLowering *lowering, const BpIrNode *read) {
  const BpIrNode *buffer = read->operands[0];
  for (int32_t i = 0; i < buffer->num_operands; i++) {
    BpRange range = bp__index_range(&lowering->index, read->operands[1 + i]);
    BpRange extent = bp__index_range(&lowering->index, buffer->operands[i]);
    if (range.min < 0 || range.max >= extent.min)
      return false;
  }
  return true;
}

static int visit_lane(void *context, const BpIrNode *node) {
  return node->kind == BP_IR_VAR ? bp__ir_uses(context, node) : 0;
}

const BpIrNode *bp__lower_in_lanes(BpLowering *lowering, const BpIrNode *lanes,
                                   const BpIrNode *read) {
  if (!read || !lanes || bp__lower_is_inside(lowering, read))
    return read;
  for (int32_t i = 1; i < read->num_operands; i++) {
    int differs = bp__ir_visit_once(read->operands[i], visit_lane, (void *)(uintptr_t)lanes);
    if (differs != 0)
      return differs < 0 ? NULL
                         : bp_ir_select(lowering->module, lanes, read,
                                        bp__ir_number(lowering->module, read->dtype, 0));
  }
  return read;
}

static int visit_outside_read(void *context, const BpIrNode *node) {
  return bp__te_is_read(node) && !bp__lower_is_inside(context, node);
}

/* select(c, load masked by c, 0) is the masked load alone. */
static const BpIrNode *make_select(BpIrModule *module, const BpIrNode *condition, const BpIrNode *a,
                                   const BpIrNode *b) {
  if (!condition || !a || !b)
    return NULL;
  bool is_zero = bp__ir_is_int_value(b, 0) || (b->kind == BP_IR_FLOAT_IMM && b->float_value == 0);
  if (is_zero && a->kind == BP_IR_LOAD && a->num_operands == 3 &&
      bp__ir_equal(a->operands[2], condition))
    return a;
  return bp_ir_select(module, condition, a, b);
}

static const BpIrNode *both(BpIrModule *module, const BpIrNode *a, const BpIrNode *b) {
  return a ? bp_ir_binary(module, BP_IR_AND, a, b) : b;
}

/* Splits a select whose reads need a mask; other nodes are rewritten as usual. */
static int enter_node(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  const Flatten *flatten = rewriter->context;
  BpLowering *lowering = flatten->lowering;
  if (node->kind == BP_IR_LET)
    return keep_name(flatten, node);
  if (node->kind != BP_IR_SELECT || node->int_value || node->operands[0]->dtype.lanes != 1)
    return 0;
  int outside = bp__ir_visit_once(node, visit_outside_read, lowering);
  if (outside <= 0)
    return outside;
  const BpIrNode *condition = bp__ir_rewrite(rewriter, node->operands[0]);
  if (!condition)
    return -1;
  const BpIrNode *other = bp_ir_not(lowering->module, condition);
  const BpIrNode *a =
      flatten_under(flatten, both(lowering->module, flatten->path, condition), node->operands[1]);
  const BpIrNode *b =
      flatten_under(flatten, both(lowering->module, flatten->path, other), node->operands[2]);
  *result = make_select(lowering->module, condition, a, b);
  return *result ? 1 : -1;
}

static const BpIrNode *flatten_read(const Flatten *flatten, const BpIrNode *read) {
  BpLowering *lowering = flatten->lowering;
  const BpIrNode *index = flat_index(flatten, read->operands[0], read->operands + 1);
  const BpIrNode *mask = bp__lower_is_inside(lowering, read) ? NULL : flatten->path;
  return index ? bp_ir_load(lowering->module, read->operands[0], index, mask) : NULL;
}

static const BpIrNode *flatten_prefetch(const Flatten *flatten, const BpIrNode *call) {
  BpIrModule *module = flatten->lowering->module;
  const BpIrNode *index = flat_index(flatten, call->operands[0], call->operands + 1);
  const BpIrNode *address =
      bp__ir_node2(module, BP_IR_ADDRESS, bp__dtype_handle(), call->operands[0], index);
  return bp__ir_evaluate(
      module, bp_ir_call(module, bp__dtype_void(), BP_IR_CALL_INTRINSIC, "prefetch", &address, 1));
}

static const BpIrNode *leave_node(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Flatten *flatten = rewriter->context;
  if (bp__te_is_read(node))
    return flatten_read(flatten, node);
  if (bp__lower_evaluates(node, BP__TE_PREFETCH))
    return flatten_prefetch(flatten, node->operands[0]);
  if (!bp__lower_evaluates(node, BP__TE_WRITE))
    return node;
  const BpIrNode *const *operands = node->operands[0]->operands;
  const BpIrNode *index = flat_index(flatten, operands[0], operands + 2);
  return index ? bp_ir_store(rewriter->module, operands[0], index, operands[1], NULL) : NULL;
}

static const BpIrNode *flatten_under(const Flatten *outer, const BpIrNode *path,
                                     const BpIrNode *node) {
  Flatten flatten = {outer->lowering, path, outer->names};
  BpIrRewriter rewriter = {.module = outer->lowering->module,
                           .context = &flatten,
                           .enter = enter_node,
                           .leave = leave_node};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, node);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

const BpIrNode *bp__lower_flatten(BpLowering *lowering, const BpIrNode *body) {
  BpIrMap names = {0};
  const BpIrNode *result = flatten_under(&(Flatten){lowering, NULL, &names}, NULL, body);
  bp__ir_map_clear(&names);
  return result;
}
