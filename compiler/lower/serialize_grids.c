/* SPDX-License-Identifier: Apache-2.0 */
/* Turns grids of threads into loops.
 *
 * A grid (a kernel's body, or an outermost bound loop) becomes a nest of loops, one for each axis,
 * around the body of one thread; blocks run in parallel. Threads without barriers cannot observe
 * the difference. A bound loop becomes its body with a name for its variable. A buffer that a
 * block's threads share becomes a separate buffer of each thread. */

#include "compiler/lower/passes.h"

#define NUM_AXES 6

static const char *const axis_names[NUM_AXES] = {"blockIdx.z",  "blockIdx.y",  "blockIdx.x",
                                                 "threadIdx.z", "threadIdx.y", "threadIdx.x"};

typedef struct Grid {
  BpIrModule *module;
  const BpIrNode *vars[NUM_AXES];    /* variables of the loops to make; NULL for an absent axis */
  const BpIrNode *extents[NUM_AXES]; /* the largest extent of the loops on each axis */
  const char *function;
} Grid;

static int axis_of(const BpIrNode *node) {
  int axis = 0;
  while (axis < NUM_AXES && strcmp(node->str_value, axis_names[axis]))
    axis++;
  return axis < NUM_AXES ? axis : -1;
}

static bool is_bound(const BpIrNode *node) {
  return node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_BOUND;
}

/* Collects the thread axes, and fails on a barrier among threads. */
static int visit(void *context, const BpIrNode *node) {
  Grid *grid = context;
  if (node->kind == BP_IR_BARRIER)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "function '%s' has a barrier, and the target has no thread axes; build "
                          "it for a target kind that has, or schedule it without shared memory",
                          grid->function);
  int axis = is_bound(node) ? axis_of(node) : -1;
  if (axis < 0)
    return 0;
  const BpIrNode *extent = bp_ir_cast(grid->module, bp__dtype_int64(), node->operands[2]);
  if (!grid->vars[axis]) {
    grid->vars[axis] = bp_ir_var(grid->module, axis_names[axis], bp__dtype_int64());
    grid->extents[axis] = extent;
  } else if (grid->extents[axis] && extent && !bp__ir_equal(extent, grid->extents[axis])) {
    grid->extents[axis] = bp_ir_binary(grid->module, BP_IR_MAX, grid->extents[axis], extent);
  }
  return grid->vars[axis] && grid->extents[axis] ? 0 : -1;
}

/* Replaces a bound loop inside a grid by the iterations of one thread. Without barriers a shared
 * buffer is private to each thread. */
static const BpIrNode *thread_share(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Grid *grid = rewriter->context;
  BpIrModule *module = grid->module;
  if (node->kind == BP_IR_BUFFER && node->int_value == BP_IR_SCOPE_SHARED)
    return bp_ir_buffer(module, node->str_value, node->dtype, BP_IR_SCOPE_LOCAL, node->operands,
                        node->num_operands);
  if (!is_bound(node))
    return node;
  int axis = axis_of(node);
  BpDataType dtype = node->operands[0]->dtype;
  const BpIrNode *index = bp_ir_cast(module, dtype, grid->vars[axis]);
  const BpIrNode *value = bp_ir_binary(module, BP_IR_ADD, node->operands[1], index);
  const BpIrNode *body = bp_ir_let(module, node->operands[0], value, node->operands[3]);
  const BpIrNode *extent = bp_ir_cast(module, bp__dtype_int64(), node->operands[2]);
  if (extent && bp__ir_equal(extent, grid->extents[axis]))
    return body;
  return bp_ir_if(module, bp_ir_binary(module, BP_IR_LT, index, node->operands[2]), body, NULL);
}

static const BpIrNode *loop_nest(const Grid *grid, const BpIrNode *body) {
  const BpIrNode *zero = bp__ir_int64(grid->module, 0);
  for (int axis = NUM_AXES - 1; axis >= 0; axis--) {
    if (!grid->vars[axis])
      continue;
    bool is_outermost = true;
    for (int outer = 0; outer < axis; outer++)
      is_outermost &= !grid->vars[outer];
    int32_t kind = is_outermost && axis < 3 ? BP_IR_FOR_PARALLEL : BP_IR_FOR_SERIAL;
    body = bp_ir_for(grid->module, grid->vars[axis], zero, grid->extents[axis], kind, "", body);
  }
  return body;
}

static const BpIrNode *serialize(BpIrModule *module, const BpIrNode *body, const char *function) {
  Grid grid = {.module = module, .function = function};
  if (bp__ir_visit_once(body, visit, &grid))
    return NULL;
  BpIrRewriter rewriter = {.module = module, .context = &grid, .leave = thread_share};
  const BpIrNode *result = loop_nest(&grid, bp__ir_rewrite(&rewriter, body));
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

static bool allocates_shared(const BpIrNode *node) {
  return node->kind == BP_IR_ALLOCATE && node->operands[0]->int_value == BP_IR_SCOPE_SHARED;
}

static int visit_blocks(void *context, const BpIrNode *node) {
  (void)context;
  return is_bound(node) && strncmp(node->str_value, "blockIdx", 8) == 0;
}

/* Whether the allocation of a block's shared buffer surrounds more than the loops of one launch: 1,
 * 0, or -1 with an error. */
static int holds_launches(const BpIrNode *node) {
  while (node->kind == BP_IR_ALLOCATE || node->kind == BP_IR_LET)
    node = node->operands[node->num_operands - 1];
  return is_bound(node) ? 0 : bp__ir_visit_once(node, visit_blocks, NULL);
}

/* Converts each outermost bound loop, with the buffers that its blocks share, in a function that is
 * not a kernel. */
static int enter_launch(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  if (!is_bound(node) && !allocates_shared(node)) {
    *result = node;
    return node->kind < BP_IR_SEQ;
  }
  int holds_several = holds_launches(node);
  if (holds_several > 0)
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "function '%s' allocates a shared buffer around several grids of threads; "
                   "allocate it in each, or in global memory",
                   (const char *)rewriter->context);
  *result = holds_several ? NULL : serialize(rewriter->module, node, rewriter->context);
  return *result ? 1 : -1;
}

/* Removes a barrier outside a launch, which does nothing. */
static const BpIrNode *drop_barrier(BpIrRewriter *rewriter, const BpIrNode *node) {
  return node->kind == BP_IR_BARRIER ? bp_ir_seq(rewriter->module, NULL, 0) : node;
}

/* ---- Functions --------------------------------------------------------------------------- */

static bool is_launch_attr(const BpIrNode *node) {
  return node->kind == BP_IR_ATTR && (!strcmp(node->str_value, BP_IR_ATTR_KERNEL) ||
                                      !strcmp(node->str_value, BP_IR_ATTR_LAUNCH));
}

static const BpIrNode *serialize_kernel(BpIrModule *module, const BpIrNode *function) {
  int32_t num_params = bp__ir_function_num_params(function), num_attrs = 0;
  const BpIrNode **attrs = bp__ir_alloc(module, (size_t)function->num_operands * sizeof *attrs);
  if (!attrs)
    return NULL;
  for (int32_t i = num_params; i < function->num_operands - 1; i++)
    if (!is_launch_attr(function->operands[i]))
      attrs[num_attrs++] = function->operands[i];
  const BpIrNode *body = serialize(module, bp__ir_function_body(function), function->str_value);
  return bp_ir_function(module, function->str_value, function->operands, num_params, attrs,
                        num_attrs, body);
}

const BpIrNode *bp__pass_serialize_grids(BpIrModule *module, const BpIrNode *function) {
  if (bp__ir_attr_int(function, BP_IR_ATTR_KERNEL, 0))
    return serialize_kernel(module, function);
  BpIrRewriter rewriter = {.module = module,
                           .context = (void *)function->str_value,
                           .enter = enter_launch,
                           .leave = drop_barrier};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, function);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
