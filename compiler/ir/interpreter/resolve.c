/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves a function: makes an Op with a slot in the frame for every node. */

#include <backplane/object.h>

#include "compiler/ir/interpreter/state.h"

typedef struct Resolver {
  BpProgram *program;
  BpLaunch *launch; /* the launch that is being resolved, or NULL */
} Resolver;

static BpOp *resolve(Resolver *resolver, const BpIrNode *node);

static int32_t axis_number(const char *name) {
  int32_t group = !strncmp(name, "threadIdx.", 10) ? 3 : 0;
  return group + (name[strlen(name) - 1] - 'x');
}

static int add_loop(Resolver *resolver, BpOp *op) {
  BpLaunch *launch = resolver->launch;
  if (launch->num_loops == launch->capacity) {
    int32_t capacity = launch->capacity ? launch->capacity * 2 : 8;
    BpOp **loops = bp__ir_alloc(resolver->program->memory, (size_t)capacity * sizeof *loops);
    if (!loops)
      return -1;
    if (launch->num_loops)
      memcpy(loops, launch->loops, (size_t)launch->num_loops * sizeof *loops);
    launch->loops = loops;
    launch->capacity = capacity;
  }
  launch->loops[launch->num_loops++] = op;
  return 0;
}

static BpLaunch *make_launch(Resolver *resolver) {
  BpLaunch *launch = bp__ir_alloc(resolver->program->memory, sizeof *launch);
  if (launch)
    *launch = (BpLaunch){0};
  return launch;
}

/* Resolves a bound loop: it opens a launch unless a launch is open around it. */
static int resolve_bound(Resolver *resolver, BpOp *op) {
  op->axis = axis_number(op->node->str_value);
  if (!resolver->launch) {
    op->launch = make_launch(resolver);
    if (!op->launch)
      return -1;
    op->launch->body = op;
    resolver->launch = op->launch;
  }
  return add_loop(resolver, op);
}

/* Checks that an extent of a launch can be evaluated before the launch starts. */
static int check_extent(const Resolver *resolver, const BpOp *extent, const BpOp *loop) {
  if (extent->kind == BP_IR_VAR && extent->bound_in == resolver->launch)
    return bp_error_raise(BP_ERROR_VALUE, "the extent of %s depends on '%s', which the launch sets",
                          loop->node->str_value, extent->node->str_value);
  for (int32_t i = 0; i < extent->num_operands; i++)
    if (check_extent(resolver, extent->operands[i], loop))
      return -1;
  return 0;
}

static int resolve_operands(Resolver *resolver, BpOp *op) {
  const BpIrNode *node = op->node;
  op->operands =
      bp__ir_alloc(resolver->program->memory, (size_t)node->num_operands * sizeof *op->operands);
  if (!op->operands)
    return -1;
  for (int32_t i = 0; i < node->num_operands; i++) {
    BpOp *operand = resolve(resolver, node->operands[i]);
    if (!operand)
      return -1;
    op->operands[i] = operand;
    operand->num_uses++;
    op->has_effects |= operand->has_effects;
    if (operand->num_uses > 1 && !operand->memo && operand->num_operands && !operand->has_effects)
      operand->memo = ++resolver->program->num_memos;
    if (i == 0 && (node->kind == BP_IR_FOR || node->kind == BP_IR_LET))
      operand->bound_in = resolver->launch;
  }
  return 0;
}

static BpOp *make_op(Resolver *resolver, const BpIrNode *node) {
  BpProgram *program = resolver->program;
  BpOp *op = bp__ir_alloc(program->memory, sizeof *op);
  if (!op)
    return NULL;
  *op = (BpOp){.kind = node->kind,
               .num_operands = node->num_operands,
               .dtype = node->dtype,
               .lanes = node->dtype.lanes,
               .node = node};
  if (node->kind < BP_IR_SEQ) {
    op->slot = program->frame_size;
    program->frame_size += node->dtype.lanes;
  }
  if (node->kind == BP_IR_BUFFER)
    op->buffer = program->num_buffers++;
  if (node->kind == BP_IR_CALL) {
    op->intrinsic = bp__intrinsic_find(node->str_value);
    op->has_effects = node->int_value != BP_IR_CALL_INTRINSIC;
  }
  return op;
}

static BpOp *resolve(Resolver *resolver, const BpIrNode *node) {
  BpProgram *program = resolver->program;
  BpOp *op = (BpOp *)bp__ir_map_get(&program->ops, node);
  if (op)
    return op;
  BpLaunch *outer = resolver->launch;
  op = make_op(resolver, node);
  if (!op)
    return NULL;
  if (node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_BOUND && resolve_bound(resolver, op))
    return NULL;
  if (resolve_operands(resolver, op))
    return NULL;
  if (outer && resolver->launch && op->kind == BP_IR_FOR &&
      op->node->int_value == BP_IR_FOR_BOUND && check_extent(resolver, op->operands[2], op))
    return NULL;
  resolver->launch = outer;
  return bp__ir_map_set(&program->ops, node, op) ? NULL : op;
}

static int resolve_params(Resolver *resolver) {
  BpProgram *program = resolver->program;
  int32_t num_params = bp__ir_function_num_params(program->function);
  program->params = bp__ir_alloc(program->memory, (size_t)num_params * sizeof *program->params);
  if (!program->params)
    return -1;
  for (int32_t i = 0; i < num_params; i++)
    if (!(program->params[i] = resolve(resolver, program->function->operands[i])))
      return -1;
  return 0;
}

int bp__interpreter_resolve(BpProgram *program) {
  program->memory = bp_ir_module_create();
  if (!program->memory)
    return -1;
  Resolver resolver = {.program = program};
  if (resolve_params(&resolver))
    return -1;
  if (bp__ir_attr_int(program->function, BP_IR_ATTR_KERNEL, 0)) {
    program->kernel = resolver.launch = make_launch(&resolver);
    if (!program->kernel)
      return -1;
  }
  program->body = resolve(&resolver, bp__ir_function_body(program->function));
  if (program->kernel)
    program->kernel->body = program->body;
  return program->body ? 0 : -1;
}

void bp__interpreter_program_clear(BpProgram *program) {
  bp_object_release(program->memory);
  bp__ir_map_clear(&program->ops);
}
