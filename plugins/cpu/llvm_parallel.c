/* SPDX-License-Identifier: Apache-2.0 */
/* A parallel loop becomes a function that runs one task's share. Values from outside that the
 * loop's body uses are passed in a structure. */
#include "llvm_gen.h"

#define MOST_CAPTURES 256

typedef struct Captures {
  BpGen *g;
  const BpIrNode *nodes[MOST_CAPTURES];
  LLVMValueRef values[MOST_CAPTURES];
  LLVMTypeRef types[MOST_CAPTURES + 2]; /* plus the loop's first iteration and count */
  uint32_t count;
} Captures;

static int32_t capture(void *context, const BpIrNode *node) {
  Captures *captures = context;
  BpGen *g = captures->g;
  LLVMValueRef value = bp_pointer_map_get(&g->symbols, node);
  if (!value)
    return 0;
  for (uint32_t i = 0; i < captures->count; i++) {
    if (captures->nodes[i] == node)
      return 0;
  }
  if (captures->count == MOST_CAPTURES) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "a parallel loop that uses more than %d variables",
                MOST_CAPTURES);
    return -1;
  }
  captures->nodes[captures->count] = node;
  captures->values[captures->count] = value;
  captures->types[captures->count++] = LLVMTypeOf(value);
  return 0;
}

static LLVMValueRef field(BpGen *g, LLVMTypeRef type, LLVMValueRef context, uint32_t i) {
  LLVMValueRef place = LLVMBuildStructGEP2(g->builder, type, context, i, "");
  return LLVMBuildLoad2(g->builder, LLVMStructGetTypeAtIndex(type, i), place, "");
}

/* Returns first + count * index / tasks, in the type of `first`. */
static LLVMValueRef share(BpGen *g, LLVMValueRef first, LLVMValueRef count, LLVMValueRef index,
                          LLVMValueRef tasks) {
  LLVMBuilderRef b = g->builder;
  LLVMTypeRef type = LLVMTypeOf(first);
  LLVMValueRef wide = LLVMBuildSExtOrBitCast(b, count, g->i64, "");
  LLVMValueRef part = LLVMBuildSDiv(b, LLVMBuildMul(b, wide, index, ""), tasks, "");
  return LLVMBuildAdd(b, first, LLVMBuildTruncOrBitCast(b, part, type, ""), "");
}

/* Generates the task's body in the function that is being generated. */
static void build_task(BpGen *g, const BpIrNode *node, const Captures *captures, LLVMTypeRef type) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef group = LLVMGetParam(g->function, 1);
  LLVMValueRef context = LLVMGetParam(g->function, 2);
  LLVMBasicBlockRef start = bp_gen_block(g, "start");
  LLVMPositionBuilderAtEnd(b, start);
  for (uint32_t i = 0; i < captures->count; i++)
    bp_gen_bind(g, captures->nodes[i], field(g, type, context, i));
  LLVMValueRef first = field(g, type, context, captures->count);
  LLVMValueRef count = field(g, type, context, captures->count + 1);
  LLVMValueRef task = LLVMBuildSExt(b, LLVMGetParam(g->function, 0), g->i64, "");
  LLVMValueRef after = LLVMBuildAdd(b, task, bp_gen_i64(g, 1), "");
  LLVMValueRef tasks = bp_gen_load(g, g->i32, group, offsetof(BpParallelGroup, num_task));
  tasks = LLVMBuildSExt(b, tasks, g->i64, "");
  bp_gen_loop(g, g->ir->operand(node, 0), share(g, first, count, task, tasks),
              share(g, first, count, after, tasks), g->ir->operand(node, 3), NULL);
  LLVMBuildBr(b, g->leave);
  LLVMPositionBuilderAtEnd(b, g->leave);
  LLVMBuildRet(b, LLVMBuildLoad2(b, g->i32, g->rc, ""));
  LLVMPositionBuilderAtEnd(b, g->entry);
  LLVMBuildStore(b, bp_gen_i32(g, 0), g->rc);
  LLVMBuildBr(b, start);
}

/* Makes the task a function of its own; the state of the function being generated is saved
 * meanwhile. */
static LLVMValueRef make_task(BpGen *g, const BpIrNode *node, const Captures *captures,
                              LLVMTypeRef type) {
  BpGen outer = *g;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMTypeRef params[] = {g->i32, g->ptr, g->ptr};
  g->function = LLVMAddFunction(g->module, "task", LLVMFunctionType(g->i32, params, 3, 0));
  LLVMSetLinkage(g->function, LLVMInternalLinkage);
  bp_gen_add_attributes(g, g->function);
  LLVMValueRef task = g->function;
  g->entry = bp_gen_block(g, "entry");
  LLVMPositionBuilderAtEnd(g->builder, g->entry);
  g->rc = LLVMBuildAlloca(g->builder, g->i32, "rc");
  g->leave = bp_gen_block(g, "leave");
  g->message = NULL;
  g->in_parallel = 1;
  build_task(g, node, captures, type);
  g->function = outer.function;
  g->entry = outer.entry;
  g->rc = outer.rc;
  g->leave = outer.leave;
  g->message = outer.message;
  g->in_parallel = 0;
  LLVMPositionBuilderAtEnd(g->builder, here);
  for (uint32_t i = 0; i < captures->count; i++)
    bp_gen_bind(g, captures->nodes[i], captures->values[i]);
  return task;
}

/* Runs the tasks on the host's threads, or as one task if there are none. */
static void launch(BpGen *g, LLVMValueRef task, LLVMValueRef context) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef slot = LLVMBuildLoad2(b, g->ptr, bp_gen_slot(g, "__TVMBackendParallelLaunch"), "");
  LLVMBasicBlockRef with = bp_gen_block(g, "host");
  LLVMBasicBlockRef without = bp_gen_block(g, "alone");
  LLVMBasicBlockRef next = bp_gen_block(g, "");
  LLVMBuildCondBr(b, LLVMBuildIsNull(b, slot, ""), without, with);
  LLVMPositionBuilderAtEnd(b, with);
  LLVMValueRef args[] = {task, context, bp_gen_i32(g, 0)};
  LLVMValueRef first = bp_gen_call_pointer(g, slot, g->i32, args, 3);
  LLVMBuildBr(b, next);
  LLVMPositionBuilderAtEnd(b, without);
  LLVMValueRef group = bp_gen_alloca(g, LLVMArrayType(g->i64, 2), 8);
  bp_gen_store(g, LLVMConstNull(g->ptr), group, 0);
  bp_gen_store(g, bp_gen_i32(g, 1), group, offsetof(BpParallelGroup, num_task));
  LLVMValueRef alone[] = {bp_gen_i32(g, 0), group, context};
  LLVMValueRef second = bp_gen_call_pointer(g, task, g->i32, alone, 3);
  LLVMBuildBr(b, next);
  LLVMPositionBuilderAtEnd(b, next);
  LLVMValueRef rc = LLVMBuildPhi(b, g->i32, "");
  LLVMAddIncoming(rc, (LLVMValueRef[]){first, second}, (LLVMBasicBlockRef[]){with, without}, 2);
  bp_gen_leave_if(g, LLVMBuildIsNotNull(b, rc, ""));
}

void bp_gen_parallel(BpGen *g, const BpIrNode *node) {
  Captures captures = {.g = g};
  BpIrVisitor visitor = {sizeof(visitor), &captures, capture, NULL};
  g->ir->visit(g->ir->operand(node, 3), &visitor);
  bp_pointer_map_clear(&g->known);
  LLVMValueRef first = bp_gen_expr(g, g->ir->operand(node, 1));
  LLVMValueRef count = bp_gen_expr(g, g->ir->operand(node, 2));
  captures.types[captures.count] = LLVMTypeOf(first);
  captures.types[captures.count + 1] = LLVMTypeOf(count);
  LLVMTypeRef type = LLVMStructTypeInContext(g->context, captures.types, captures.count + 2, 0);
  LLVMValueRef context = bp_gen_alloca(g, type, 64);
  for (uint32_t i = 0; i < captures.count + 2; i++) {
    LLVMValueRef value = i < captures.count    ? captures.values[i]
                         : i == captures.count ? first
                                               : count;
    LLVMBuildStore(g->builder, value, LLVMBuildStructGEP2(g->builder, type, context, i, ""));
  }
  if (!g->failed)
    launch(g, make_task(g, node, &captures, type), context);
}
