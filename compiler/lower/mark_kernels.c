/* SPDX-License-Identifier: Apache-2.0 */
/* Turns functions into kernels, for a target with thread axes.
 *
 * A function becomes a kernel if its work is one nest of bound loops inside shared and local
 * buffers and names only: an attribute marks the kernel and states the extent of each axis. The
 * work of a single block becomes a kernel too: statements with loops over the block's threads,
 * inside the allocations of the buffers that the threads share. In a function without any bound
 * loop the outermost parallel loop is bound to blockIdx.x. Inner parallel loops become serial. A
 * function that is already marked as a kernel is one launch for any body, and need not state its
 * extents. */

#include "compiler/lower/passes.h"

#define NUM_AXES 6

static const char *const axis_names[NUM_AXES] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                                 "threadIdx.x", "threadIdx.y", "threadIdx.z"};

static bool is_bound(const BpIrNode *node) {
  return node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_BOUND;
}

static int visit_bound(void *context, const BpIrNode *node) {
  (void)context;
  return is_bound(node);
}

static int visit_blocks(void *context, const BpIrNode *node) {
  (void)context;
  return is_bound(node) && strncmp(node->str_value, "blockIdx", 8) == 0;
}

/* Whether the function is one block whose threads share a buffer allocated outside all their loops:
 * 1, 0, or -1 with an error. */
static int is_one_block(const BpIrNode *body, const BpIrNode *work) {
  bool is_shared = false;
  for (; body != work; body = body->operands[body->num_operands - 1])
    is_shared |= body->kind == BP_IR_ALLOCATE && body->operands[0]->int_value == BP_IR_SCOPE_SHARED;
  int has_blocks = is_shared ? bp__ir_visit_once(work, visit_blocks, NULL) : 1;
  return has_blocks < 0 ? -1 : !has_blocks;
}

/* The statement that does the work of a function, inside buffers and names. */
static const BpIrNode *work_of(const BpIrNode *body) {
  while ((body->kind == BP_IR_ALLOCATE && body->operands[0]->int_value != BP_IR_SCOPE_GLOBAL) ||
         body->kind == BP_IR_LET)
    body = body->operands[body->num_operands - 1];
  return body;
}

static int refuse(const char *function, const BpIrNode *node) {
  const char *what = node->kind == BP_IR_ALLOCATE
                         ? "allocates global memory"
                         : "has statements around or between its grids of threads";
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "function '%s' %s, and is to become one kernel; lower its parts as "
                        "functions of their own",
                        function, what);
}

/* ---- Loops ------------------------------------------------------------------------------- */

typedef struct Kernel {
  BpIrModule *module;
  const BpIrNode *to_bind; /* the parallel loop to bind, or NULL */
  const BpIrNode *extents[NUM_AXES];
} Kernel;

static int enter(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  (void)rewriter;
  *result = node;
  return node->kind < BP_IR_SEQ || node->kind == BP_IR_BUFFER;
}

static int note_extent(Kernel *kernel, const BpIrNode *loop) {
  int axis = 0;
  while (axis < NUM_AXES - 1 && strcmp(loop->str_value, axis_names[axis]))
    axis++;
  const BpIrNode *extent = bp_ir_cast(kernel->module, bp__dtype_int64(), loop->operands[2]);
  const BpIrNode *known = kernel->extents[axis];
  if (known && extent && !bp__ir_equal(known, extent))
    extent = bp_ir_binary(kernel->module, BP_IR_MAX, known, extent);
  kernel->extents[axis] = extent;
  return extent ? 0 : -1;
}

static const BpIrNode *rewrite_loop(BpIrRewriter *rewriter, const BpIrNode *node) {
  Kernel *kernel = rewriter->context;
  if (node->kind != BP_IR_FOR)
    return node;
  const BpIrNode *const *x = node->operands;
  if (node->int_value == BP_IR_FOR_PARALLEL) {
    bool binds = kernel->to_bind && kernel->to_bind->operands[0] == x[0];
    node = bp_ir_for(rewriter->module, x[0], x[1], x[2], binds ? BP_IR_FOR_BOUND : BP_IR_FOR_SERIAL,
                     binds ? axis_names[0] : "", x[3]);
  }
  return node && is_bound(node) && note_extent(kernel, node) ? NULL : node;
}

/* ---- The function ------------------------------------------------------------------------ */

static const BpIrNode *launch_attr(BpIrModule *module, const char *tag, const BpIrNode *extent) {
  const BpIrNode *values[] = {bp__ir_str(module, tag), extent};
  return bp__ir_attr(module, BP_IR_ATTR_LAUNCH, values, 2);
}

/* Replaces the names around the work of a function by their values: an attribute is outside of
 * them. */
static int open_names(Kernel *kernel, const BpIrNode *body, const BpIrNode *work) {
  if (body == work)
    return 0;
  if (open_names(kernel, body->operands[body->num_operands - 1], work) != 0)
    return -1;
  for (int axis = 0; axis < NUM_AXES && body->kind == BP_IR_LET; axis++) {
    const BpIrNode **extent = &kernel->extents[axis];
    if (*extent && !(*extent = bp__ir_substitute_one(kernel->module, *extent, body->operands[0],
                                                     body->operands[1])))
      return -1;
  }
  return 0;
}

static const BpIrNode *with_attrs(const Kernel *kernel, const BpIrNode *function,
                                  const BpIrNode *body) {
  BpIrModule *module = kernel->module;
  int32_t num_params = bp__ir_function_num_params(function);
  int32_t num_attrs = function->num_operands - num_params - 1;
  const BpIrNode **attrs = bp__ir_alloc(module, ((size_t)num_attrs + NUM_AXES + 1) * sizeof *attrs);
  if (!attrs)
    return NULL;
  memcpy(attrs, function->operands + num_params, (size_t)num_attrs * sizeof *attrs);
  const BpIrNode *one = bp__ir_int64(module, 1);
  if (!bp__ir_find_attr(function, BP_IR_ATTR_KERNEL))
    attrs[num_attrs++] = bp__ir_attr(module, BP_IR_ATTR_KERNEL, &one, 1);
  for (int axis = 0; axis < NUM_AXES; axis++)
    if (kernel->extents[axis])
      attrs[num_attrs++] = launch_attr(module, axis_names[axis], kernel->extents[axis]);
  return bp_ir_function(module, function->str_value, function->operands, num_params, attrs,
                        num_attrs, body);
}

const BpIrNode *bp__pass_mark_kernels(BpIrModule *module, const BpIrNode *function) {
  bool is_kernel = bp__ir_attr_int(function, BP_IR_ATTR_KERNEL, 0) != 0;
  if (is_kernel && bp__ir_find_attr(function, BP_IR_ATTR_LAUNCH))
    return function;
  const BpIrNode *body = bp__ir_function_body(function), *work = work_of(body);
  int has_bound = bp__ir_visit_once(body, visit_bound, NULL);
  int is_block = is_one_block(body, work);
  if (has_bound < 0 || is_block < 0)
    return NULL;
  bool is_launch = is_kernel || !has_bound || is_bound(work) || is_block;
  if (!is_launch || work->kind == BP_IR_ALLOCATE) {
    refuse(function->str_value, work);
    return NULL;
  }
  Kernel kernel = {.module = module};
  if (!is_kernel && work->kind == BP_IR_FOR && work->int_value == BP_IR_FOR_PARALLEL)
    kernel.to_bind = work;
  BpIrRewriter rewriter = {
      .module = module, .context = &kernel, .enter = enter, .leave = rewrite_loop};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  if (!result || open_names(&kernel, body, work) != 0)
    return NULL;
  return with_attrs(&kernel, function, result);
}
