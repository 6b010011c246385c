/* SPDX-License-Identifier: Apache-2.0 */
/* Statements and memory. */
#include "llvm_gen.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

/* Arrays up to this many bytes are on the stack, larger ones in the host's workspace. */
#define STACK_LIMIT 16384
#define DEEPEST     1000

static void begin_statement(BpGen *g) {
  bp_pointer_map_clear(&g->known);
}

/* ---- Names ------------------------------------------------------------------------------- */

LLVMValueRef bp_gen_symbol(BpGen *g, const BpIrNode *node) {
  LLVMValueRef value = bp_pointer_map_get(&g->symbols, node);
  if (value)
    return value;
  bp_gen_fail(g, BP_ERROR_VALUE, "%s is used where it is not defined", g->ir->str_value(node));
  return g->ir->kind(node) == BP_IR_BUFFER ? LLVMGetPoison(g->ptr)
                                           : bp_gen_poison(g, g->ir->dtype(node));
}

void bp_gen_bind(BpGen *g, const BpIrNode *node, LLVMValueRef value) {
  if (bp_pointer_map_set(&g->symbols, node, value) != 0)
    bp_gen_fail(g, BP_ERROR_MEMORY, "out of memory");
}

static void unbind(BpGen *g, const BpIrNode *node) {
  if (bp_pointer_map_get(&g->symbols, node))
    bp_gen_bind(g, node, NULL);
}

/* ---- Loads and stores -------------------------------------------------------------------- */

LLVMValueRef bp_gen_address(BpGen *g, const BpIrNode *buffer, LLVMValueRef index) {
  LLVMTypeRef element = bp_gen_memory_type(g, g->ir->dtype(buffer));
  return LLVMBuildGEP2(g->builder, element, bp_gen_symbol(g, buffer), &index, 1, "");
}

static uint32_t element_bytes(BpDataType dtype) {
  return (dtype.bits + 7u) / 8;
}

/* The base of a ramp with stride 1, else NULL. */
static const BpIrNode *run_base(BpGen *g, const BpIrNode *index) {
  if (g->ir->kind(index) != BP_IR_RAMP)
    return NULL;
  const BpIrNode *stride = g->ir->operand(index, 1);
  int is_one = g->ir->kind(stride) == BP_IR_INT_IMM && g->ir->int_value(stride) == 1;
  return is_one ? g->ir->operand(index, 0) : NULL;
}

static LLVMValueRef from_memory(BpGen *g, BpDataType dtype, LLVMValueRef value) {
  if (dtype.code != BP_DTYPE_BOOL)
    return value;
  return LLVMBuildICmp(g->builder, LLVMIntNE, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

static LLVMValueRef to_memory(BpGen *g, BpDataType dtype, LLVMValueRef value) {
  if (dtype.code != BP_DTYPE_BOOL)
    return value;
  return LLVMBuildZExt(g->builder, value, bp_gen_memory_type(g, dtype), "");
}

/* Generates masked and scattered accesses of vectors as LLVM's intrinsics, overloaded on value and
 * address. */
static LLVMValueRef call_vector_memory(BpGen *g, const char *name, LLVMTypeRef value,
                                       LLVMTypeRef address, LLVMValueRef *args) {
  LLVMTypeRef types[] = {value, address};
  uint32_t id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef function = LLVMGetIntrinsicDeclaration(g->module, id, types, 2);
  return LLVMBuildCall2(g->builder, LLVMGlobalGetValueType(function), function, args, 4, "");
}

static LLVMValueRef all_set(BpGen *g, int32_t lanes) {
  return LLVMConstAllOnes(LLVMVectorType(g->i1, (uint32_t)lanes));
}

/* Gives the address of an access with a constant mask a distinct name. LLVM 15 combines masked
 * loads of one address even if their numbers of lanes differ, and then uses a value of the wrong
 * type. */
static LLVMValueRef name_masked(BpGen *g, LLVMValueRef address, LLVMValueRef mask) {
  static const char name[] = "llvm.launder.invariant.group";
  if (!LLVMIsConstant(mask))
    return address;
  LLVMTypeRef type = LLVMTypeOf(address);
  uint32_t id = LLVMLookupIntrinsicID(name, sizeof name - 1);
  LLVMValueRef function = LLVMGetIntrinsicDeclaration(g->module, id, &type, 1);
  return LLVMBuildCall2(g->builder, LLVMGlobalGetValueType(function), function, &address, 1, "");
}

static LLVMValueRef load_vector(BpGen *g, const BpIrNode *buffer, const BpIrNode *index,
                                BpDataType dtype, LLVMValueRef mask) {
  LLVMTypeRef type = bp_gen_memory_type(g, dtype);
  const BpIrNode *base = run_base(g, index);
  LLVMValueRef address = bp_gen_address(g, buffer, bp_gen_expr(g, base ? base : index));
  uint32_t alignment = element_bytes(dtype);
  if (base && !mask) {
    LLVMValueRef value = LLVMBuildLoad2(g->builder, type, address, "");
    LLVMSetAlignment(value, alignment);
    return value;
  }
  if (base)
    address = name_masked(g, address, mask);
  LLVMValueRef args[] = {address, bp_gen_i32(g, alignment), mask ? mask : all_set(g, dtype.lanes),
                         LLVMConstNull(type)};
  return call_vector_memory(g, base ? "llvm.masked.load" : "llvm.masked.gather", type,
                            LLVMTypeOf(address), args);
}

static LLVMValueRef load_scalar(BpGen *g, const BpIrNode *buffer, const BpIrNode *index,
                                BpDataType dtype, LLVMValueRef mask) {
  LLVMTypeRef type = bp_gen_memory_type(g, dtype);
  LLVMValueRef address = bp_gen_address(g, buffer, bp_gen_expr(g, index));
  if (!mask)
    return LLVMBuildLoad2(g->builder, type, address, "");
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMBasicBlockRef read = bp_gen_block(g, "read");
  LLVMBasicBlockRef next = bp_gen_block(g, "");
  LLVMBuildCondBr(g->builder, mask, read, next);
  LLVMPositionBuilderAtEnd(g->builder, read);
  LLVMValueRef value = LLVMBuildLoad2(g->builder, type, address, "");
  LLVMBuildBr(g->builder, next);
  LLVMPositionBuilderAtEnd(g->builder, next);
  LLVMValueRef result = LLVMBuildPhi(g->builder, type, "");
  LLVMAddIncoming(result, (LLVMValueRef[]){value, LLVMConstNull(type)},
                  (LLVMBasicBlockRef[]){read, here}, 2);
  return result;
}

LLVMValueRef bp_gen_load_node(BpGen *g, const BpIrNode *node) {
  const BpIrNode *buffer = g->ir->operand(node, 0);
  const BpIrNode *index = g->ir->operand(node, 1);
  const BpIrNode *mask_node = g->ir->operand(node, 2);
  BpDataType dtype = g->ir->dtype(node);
  LLVMValueRef mask = mask_node ? bp_gen_expr(g, mask_node) : NULL;
  LLVMValueRef value = dtype.lanes > 1 ? load_vector(g, buffer, index, dtype, mask)
                                       : load_scalar(g, buffer, index, dtype, mask);
  return from_memory(g, dtype, value);
}

static void store_vector(BpGen *g, const BpIrNode *buffer, const BpIrNode *index, BpDataType dtype,
                         LLVMValueRef value, LLVMValueRef mask) {
  const BpIrNode *base = run_base(g, index);
  LLVMValueRef address = bp_gen_address(g, buffer, bp_gen_expr(g, base ? base : index));
  uint32_t alignment = element_bytes(dtype);
  if (base && !mask) {
    LLVMSetAlignment(LLVMBuildStore(g->builder, value, address), alignment);
    return;
  }
  if (base)
    address = name_masked(g, address, mask);
  LLVMValueRef args[] = {value, address, bp_gen_i32(g, alignment),
                         mask ? mask : all_set(g, dtype.lanes)};
  call_vector_memory(g, base ? "llvm.masked.store" : "llvm.masked.scatter", LLVMTypeOf(value),
                     LLVMTypeOf(address), args);
}

static void store_scalar(BpGen *g, const BpIrNode *buffer, const BpIrNode *index,
                         LLVMValueRef value, LLVMValueRef mask) {
  LLVMValueRef address = bp_gen_address(g, buffer, bp_gen_expr(g, index));
  if (!mask) {
    LLVMBuildStore(g->builder, value, address);
    return;
  }
  LLVMBasicBlockRef write = bp_gen_block(g, "write");
  LLVMBasicBlockRef next = bp_gen_block(g, "");
  LLVMBuildCondBr(g->builder, mask, write, next);
  LLVMPositionBuilderAtEnd(g->builder, write);
  LLVMBuildStore(g->builder, value, address);
  LLVMBuildBr(g->builder, next);
  LLVMPositionBuilderAtEnd(g->builder, next);
}

static void store(BpGen *g, const BpIrNode *node) {
  const BpIrNode *buffer = g->ir->operand(node, 0);
  const BpIrNode *index = g->ir->operand(node, 1);
  const BpIrNode *value_node = g->ir->operand(node, 2);
  const BpIrNode *mask_node = g->ir->operand(node, 3);
  BpDataType dtype = g->ir->dtype(value_node);
  begin_statement(g);
  LLVMValueRef value = to_memory(g, dtype, bp_gen_expr(g, value_node));
  LLVMValueRef mask = mask_node ? bp_gen_expr(g, mask_node) : NULL;
  if (dtype.lanes > 1)
    store_vector(g, buffer, index, dtype, value, mask);
  else
    store_scalar(g, buffer, index, value, mask);
}

/* ---- Allocations ------------------------------------------------------------------------- */

/* The size of the buffer if it is constant, else -1. */
static int64_t constant_bytes(BpGen *g, const BpIrNode *buffer) {
  int64_t bytes = element_bytes(g->ir->dtype(buffer));
  for (int32_t i = 0; i < g->ir->num_operands(buffer); i++) {
    const BpIrNode *extent = g->ir->operand(buffer, i);
    if (g->ir->kind(extent) != BP_IR_INT_IMM || g->ir->int_value(extent) < 0 ||
        __builtin_mul_overflow(bytes, g->ir->int_value(extent), &bytes))
      return -1;
  }
  return bytes;
}

static LLVMValueRef bytes_of(BpGen *g, const BpIrNode *buffer) {
  BpDataType i64 = {BP_DTYPE_INT, 64, 1};
  LLVMValueRef bytes = bp_gen_i64(g, element_bytes(g->ir->dtype(buffer)));
  for (int32_t i = 0; i < g->ir->num_operands(buffer); i++) {
    const BpIrNode *extent = g->ir->operand(buffer, i);
    LLVMValueRef value = bp_gen_cast(g, i64, g->ir->dtype(extent), bp_gen_expr(g, extent));
    bytes = LLVMBuildMul(g->builder, bytes, value, "");
  }
  return bytes;
}

/* Generates an allocation or a release: through the host's pointer variable if it is set, else by
 * the C library; each has its own arguments. */
static LLVMValueRef call_slot_or(BpGen *g, const char *slot_name, LLVMTypeRef result,
                                 LLVMValueRef *args, uint32_t count, const char *otherwise,
                                 LLVMValueRef *other_args, uint32_t other_count) {
  LLVMValueRef slot = LLVMBuildLoad2(g->builder, g->ptr, bp_gen_slot(g, slot_name), "");
  LLVMBasicBlockRef with = bp_gen_block(g, "host");
  LLVMBasicBlockRef without = bp_gen_block(g, "alone");
  LLVMBasicBlockRef next = bp_gen_block(g, "");
  LLVMBuildCondBr(g->builder, LLVMBuildIsNull(g->builder, slot, ""), without, with);
  LLVMPositionBuilderAtEnd(g->builder, with);
  LLVMValueRef first = bp_gen_call_pointer(g, slot, result, args, count);
  LLVMBuildBr(g->builder, next);
  LLVMPositionBuilderAtEnd(g->builder, without);
  LLVMTypeRef other_type = result == g->ptr ? g->ptr : g->nothing;
  LLVMValueRef second = bp_gen_call_c(g, otherwise, other_type, other_args, other_count);
  LLVMBuildBr(g->builder, next);
  LLVMPositionBuilderAtEnd(g->builder, next);
  if (result != g->ptr)
    return NULL;
  LLVMValueRef value = LLVMBuildPhi(g->builder, result, "");
  LLVMAddIncoming(value, (LLVMValueRef[]){first, second}, (LLVMBasicBlockRef[]){with, without}, 2);
  return value;
}

static LLVMValueRef workspace_alloc(BpGen *g, const BpIrNode *buffer) {
  begin_statement(g);
  LLVMValueRef bytes = bytes_of(g, buffer);
  LLVMValueRef rounded = LLVMBuildAdd(g->builder, bytes, bp_gen_i64(g, 63), "");
  rounded = LLVMBuildAnd(g->builder, rounded, bp_gen_i64(g, -64), "");
  LLVMValueRef args[] = {bp_gen_i32(g, BP_DEVICE_CPU), bp_gen_i32(g, 0), bytes, bp_gen_i32(g, 1),
                         bp_gen_i32(g, 8)};
  LLVMValueRef other[] = {bp_gen_i64(g, 64), rounded};
  LLVMValueRef data =
      call_slot_or(g, "__TVMBackendAllocWorkspace", g->ptr, args, 5, "aligned_alloc", other, 2);
  bp_gen_leave_if(g, LLVMBuildIsNull(g->builder, data, ""));
  return data;
}

static void workspace_free(BpGen *g, LLVMValueRef data) {
  LLVMValueRef args[] = {bp_gen_i32(g, BP_DEVICE_CPU), bp_gen_i32(g, 0), data};
  call_slot_or(g, "__TVMBackendFreeWorkspace", g->i32, args, 3, "free", &data, 1);
}

/* Allocates memory from the host, which is freed after the body, also if the body fails. */
static void allocate_workspace(BpGen *g, const BpIrNode *buffer, const BpIrNode *body) {
  LLVMValueRef data = workspace_alloc(g, buffer);
  LLVMBasicBlockRef outer = g->leave;
  g->leave = bp_gen_block(g, "release");
  bp_gen_bind(g, buffer, data);
  bp_gen_stmt(g, body);
  LLVMBuildBr(g->builder, g->leave);
  LLVMPositionBuilderAtEnd(g->builder, g->leave);
  workspace_free(g, data);
  LLVMBasicBlockRef next = bp_gen_block(g, "");
  LLVMValueRef rc = LLVMBuildLoad2(g->builder, g->i32, g->rc, "");
  LLVMBuildCondBr(g->builder, LLVMBuildIsNotNull(g->builder, rc, ""), outer, next);
  LLVMPositionBuilderAtEnd(g->builder, next);
  g->leave = outer;
}

static void allocate(BpGen *g, const BpIrNode *node) {
  const BpIrNode *buffer = g->ir->operand(node, 0);
  const BpIrNode *body = g->ir->operand(node, 1);
  int64_t bytes = constant_bytes(g, buffer);
  if (bytes < 0 || bytes > STACK_LIMIT) {
    allocate_workspace(g, buffer, body);
  } else {
    LLVMTypeRef element = bp_gen_memory_type(g, g->ir->dtype(buffer));
    uint32_t count = (uint32_t)(bytes / element_bytes(g->ir->dtype(buffer)));
    LLVMTypeRef array = LLVMArrayType(element, count ? count : 1);
    bp_gen_bind(g, buffer, bp_gen_alloca(g, array, 64));
    bp_gen_stmt(g, body);
  }
  unbind(g, buffer);
}

/* ---- Loops ------------------------------------------------------------------------------- */

/* A loop's metadata is identified by a node whose first operand is itself. */
static void add_loop_hint(BpGen *g, LLVMValueRef branch, const char *hint) {
  LLVMMetadataRef text = LLVMMDStringInContext2(g->context, hint, strlen(hint));
  LLVMMetadataRef stand_in = LLVMTemporaryMDNode(g->context, NULL, 0);
  LLVMMetadataRef items[] = {stand_in, LLVMMDNodeInContext2(g->context, &text, 1)};
  LLVMMetadataRef self = LLVMMDNodeInContext2(g->context, items, 2);
  LLVMMetadataReplaceAllUsesWith(stand_in, self);
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(g->context, "llvm.loop", 9),
                  LLVMMetadataAsValue(g->context, self));
}

void bp_gen_loop(BpGen *g, const BpIrNode *var, LLVMValueRef first, LLVMValueRef last,
                 const BpIrNode *body, const char *unroll) {
  LLVMTypeRef type = LLVMTypeOf(first);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
  LLVMBasicBlockRef head = bp_gen_block(g, "loop");
  LLVMBasicBlockRef inside = bp_gen_block(g, "body");
  LLVMBasicBlockRef after = bp_gen_block(g, "");
  LLVMBuildBr(g->builder, head);
  LLVMPositionBuilderAtEnd(g->builder, head);
  LLVMValueRef value = LLVMBuildPhi(g->builder, type, g->ir->str_value(var));
  LLVMValueRef goes_on = LLVMBuildICmp(g->builder, LLVMIntSLT, value, last, "");
  LLVMBuildCondBr(g->builder, goes_on, inside, after);
  LLVMPositionBuilderAtEnd(g->builder, inside);
  bp_gen_bind(g, var, value);
  bp_gen_stmt(g, body);
  unbind(g, var);
  LLVMValueRef next = LLVMBuildNSWAdd(g->builder, value, LLVMConstInt(type, 1, 0), "");
  LLVMBasicBlockRef end = LLVMGetInsertBlock(g->builder);
  LLVMValueRef back = LLVMBuildBr(g->builder, head);
  if (unroll)
    add_loop_hint(g, back, unroll);
  LLVMAddIncoming(value, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){before, end}, 2);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

static int32_t find_register_store(void *context, const BpIrNode *node) {
  BpGen *g = context;
  if (g->ir->kind(node) != BP_IR_STORE)
    return 0;
  const BpIrNode *buffer = g->ir->operand(node, 0);
  int is_vector = g->ir->dtype(g->ir->operand(node, 2)).lanes > 1;
  return is_vector && g->ir->int_value(buffer) == BP_IR_SCOPE_LOCAL ? -1 : 1;
}

static void loop(BpGen *g, const BpIrNode *node) {
  int64_t kind = g->ir->int_value(node);
  const BpIrNode *body = g->ir->operand(node, 3);
  if (kind == BP_IR_FOR_BOUND) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "a loop bound to the thread axis \"%s\"",
                g->ir->str_value(node));
    return;
  }
  if (kind == BP_IR_FOR_PARALLEL && !g->in_parallel) {
    bp_gen_parallel(g, node);
    return;
  }
  begin_statement(g);
  LLVMValueRef first = bp_gen_expr(g, g->ir->operand(node, 1));
  LLVMValueRef count = bp_gen_expr(g, g->ir->operand(node, 2));
  LLVMValueRef last = LLVMBuildAdd(g->builder, first, count, "");
  BpIrVisitor visitor = {sizeof(visitor), g, find_register_store, NULL};
  const char *unroll = NULL;
  if (kind == BP_IR_FOR_UNROLLED)
    unroll = "llvm.loop.unroll.full";
  else if (kind == BP_IR_FOR_SERIAL && g->ir->visit(body, &visitor) != 0)
    unroll = "llvm.loop.unroll.disable";
  bp_gen_loop(g, g->ir->operand(node, 0), first, last, body, unroll);
}

static void while_loop(BpGen *g, const BpIrNode *node) {
  LLVMBasicBlockRef head = bp_gen_block(g, "while");
  LLVMBasicBlockRef inside = bp_gen_block(g, "body");
  LLVMBasicBlockRef after = bp_gen_block(g, "");
  LLVMBuildBr(g->builder, head);
  LLVMPositionBuilderAtEnd(g->builder, head);
  begin_statement(g);
  LLVMBuildCondBr(g->builder, bp_gen_expr(g, g->ir->operand(node, 0)), inside, after);
  LLVMPositionBuilderAtEnd(g->builder, inside);
  bp_gen_stmt(g, g->ir->operand(node, 1));
  LLVMBuildBr(g->builder, head);
  LLVMPositionBuilderAtEnd(g->builder, after);
}

/* ---- Others ------------------------------------------------------------------------------ */

static void let(BpGen *g, const BpIrNode *node) {
  const BpIrNode *var = g->ir->operand(node, 0);
  begin_statement(g);
  bp_gen_bind(g, var, bp_gen_expr(g, g->ir->operand(node, 1)));
  bp_gen_stmt(g, g->ir->operand(node, 2));
  unbind(g, var);
}

static void conditional(BpGen *g, const BpIrNode *node) {
  const BpIrNode *otherwise = g->ir->operand(node, 2);
  begin_statement(g);
  LLVMValueRef condition = bp_gen_expr(g, g->ir->operand(node, 0));
  LLVMBasicBlockRef yes = bp_gen_block(g, "then");
  LLVMBasicBlockRef no = otherwise ? bp_gen_block(g, "else") : NULL;
  LLVMBasicBlockRef after = bp_gen_block(g, "");
  LLVMBuildCondBr(g->builder, condition, yes, no ? no : after);
  LLVMPositionBuilderAtEnd(g->builder, yes);
  bp_gen_stmt(g, g->ir->operand(node, 1));
  LLVMBuildBr(g->builder, after);
  if (no) {
    LLVMPositionBuilderAtEnd(g->builder, no);
    bp_gen_stmt(g, otherwise);
    LLVMBuildBr(g->builder, after);
  }
  LLVMPositionBuilderAtEnd(g->builder, after);
}

static void assertion(BpGen *g, const BpIrNode *node) {
  begin_statement(g);
  LLVMValueRef condition = bp_gen_expr(g, g->ir->operand(node, 0));
  LLVMBasicBlockRef wrong = bp_gen_block(g, "wrong");
  LLVMBasicBlockRef right = bp_gen_block(g, "");
  LLVMBuildCondBr(g->builder, condition, right, wrong);
  LLVMPositionBuilderAtEnd(g->builder, wrong);
  LLVMValueRef message = bp_gen_str(g, g->ir->str_value(node));
  bp_gen_raise(g, BP_ERROR_VALUE, "%s", &message, 1);
  LLVMBuildStore(g->builder, bp_gen_i32(g, -1), g->rc);
  LLVMBuildBr(g->builder, g->leave);
  LLVMPositionBuilderAtEnd(g->builder, right);
}

static void statement(BpGen *g, const BpIrNode *node) {
  int32_t kind = g->ir->kind(node);
  switch (kind) {
  case BP_IR_SEQ:
    for (int32_t i = 0; i < g->ir->num_operands(node); i++)
      bp_gen_stmt(g, g->ir->operand(node, i));
    return;
  case BP_IR_FOR:
    loop(g, node);
    return;
  case BP_IR_STORE:
    store(g, node);
    return;
  case BP_IR_LET:
    let(g, node);
    return;
  case BP_IR_IF:
    conditional(g, node);
    return;
  case BP_IR_ALLOCATE:
    allocate(g, node);
    return;
  case BP_IR_EVALUATE:
    begin_statement(g);
    bp_gen_expr(g, g->ir->operand(node, 0));
    return;
  case BP_IR_BARRIER: /* a host function is a block of one thread */
    return;
  case BP_IR_ASSERT:
    assertion(g, node);
    return;
  case BP_IR_WHILE:
    while_loop(g, node);
    return;
  default:
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "construct %s (kind %d) as a statement",
                g->ir->kind_name(kind) ? g->ir->kind_name(kind) : "unknown", kind);
  }
}

void bp_gen_stmt(BpGen *g, const BpIrNode *node) {
  if (g->failed)
    return;
  if (g->depth > DEEPEST) {
    bp_gen_fail(g, BP_ERROR_VALUE, "statements are nested deeper than %d", DEEPEST);
    return;
  }
  g->depth++;
  statement(g, node);
  g->depth--;
}
