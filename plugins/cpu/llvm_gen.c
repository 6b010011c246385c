/* SPDX-License-Identifier: Apache-2.0 */
/* Types, constants and small building blocks of the LLVM code generator. */
#include "llvm_gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bp_gen_fail(BpGen *g, const char *kind, const char *format, ...) {
  char message[512];
  va_list args;
  if (g->failed)
    return;
  g->failed = 1;
  va_start(args, format);
  vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  bp_plugin_raise(&bp_cpu_host, kind, "target llvm: function %s: %s",
                  g->ir_function ? g->ir->str_value(g->ir_function) : "?", message);
}

/* ---- Types ------------------------------------------------------------------------------- */

static LLVMTypeRef float_type(BpGen *g, BpDataType dtype) {
  return dtype.bits == 32 ? g->f32 : dtype.bits == 64 ? g->f64 : dtype.bits == 16 ? g->i16 : NULL;
}

/* float16 and bfloat16 have the integer type of their bits. */
static LLVMTypeRef scalar_type(BpGen *g, BpDataType dtype) {
  switch (dtype.code) {
  case BP_DTYPE_INT:
  case BP_DTYPE_UINT:
    return LLVMIntTypeInContext(g->context, dtype.bits);
  case BP_DTYPE_FLOAT:
    return float_type(g, dtype);
  case BP_DTYPE_BFLOAT:
    return dtype.bits == 16 ? g->i16 : NULL;
  case BP_DTYPE_BOOL:
    return g->i1;
  case BP_DTYPE_HANDLE:
    return dtype.bits == 0 ? g->nothing : g->ptr;
  default:
    return NULL;
  }
}

LLVMTypeRef bp_gen_type(BpGen *g, BpDataType dtype) {
  LLVMTypeRef scalar = scalar_type(g, dtype);
  if (!scalar) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "data type code %d of %d bits", dtype.code,
                dtype.bits);
    scalar = g->i32;
  }
  return dtype.lanes > 1 ? LLVMVectorType(scalar, dtype.lanes) : scalar;
}

LLVMTypeRef bp_gen_memory_type(BpGen *g, BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BOOL)
    dtype = (BpDataType){BP_DTYPE_UINT, 8, dtype.lanes};
  return bp_gen_type(g, dtype);
}

/* ---- Values ------------------------------------------------------------------------------ */

LLVMValueRef bp_gen_poison(BpGen *g, BpDataType dtype) {
  if (dtype.code == BP_DTYPE_HANDLE && dtype.bits == 0)
    return LLVMGetPoison(g->i32);
  return LLVMGetPoison(bp_gen_type(g, dtype));
}

LLVMValueRef bp_gen_i32(BpGen *g, int64_t value) {
  return LLVMConstInt(g->i32, (unsigned long long)value, 1);
}

LLVMValueRef bp_gen_i64(BpGen *g, int64_t value) {
  return LLVMConstInt(g->i64, (unsigned long long)value, 1);
}

LLVMValueRef bp_gen_str(BpGen *g, const char *text) {
  uint32_t size = (uint32_t)strlen(text);
  LLVMTypeRef type = LLVMArrayType(g->i8, size + 1);
  LLVMValueRef global = LLVMAddGlobal(g->module, type, "text");
  LLVMSetInitializer(global, LLVMConstStringInContext(g->context, text, size, 0));
  LLVMSetGlobalConstant(global, 1);
  LLVMSetLinkage(global, LLVMPrivateLinkage);
  return global;
}

LLVMValueRef bp_gen_shuffle(BpGen *g, LLVMValueRef a, LLVMValueRef b, const int32_t *lanes,
                            int32_t count) {
  LLVMValueRef mask = LLVMGetPoison(LLVMVectorType(g->i32, (uint32_t)count));
  LLVMValueRef *items = malloc(sizeof(*items) * (size_t)count);
  if (!items) {
    bp_gen_fail(g, BP_ERROR_MEMORY, "out of memory");
    return a;
  }
  for (int32_t i = 0; i < count; i++)
    items[i] = bp_gen_i32(g, lanes ? lanes[i] : 0);
  mask = LLVMConstVector(items, (uint32_t)count);
  free(items);
  return LLVMBuildShuffleVector(g->builder, a, b, mask, "");
}

LLVMValueRef bp_gen_splat(BpGen *g, LLVMValueRef scalar, int32_t lanes) {
  LLVMValueRef empty = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(scalar), (uint32_t)lanes));
  LLVMValueRef one = LLVMBuildInsertElement(g->builder, empty, scalar, bp_gen_i32(g, 0), "");
  return bp_gen_shuffle(g, one, empty, NULL, lanes);
}

LLVMValueRef bp_gen_const(BpGen *g, BpDataType dtype, int64_t value) {
  BpDataType element = {dtype.code, dtype.bits, 1};
  LLVMValueRef constant = LLVMConstInt(bp_gen_type(g, element), (unsigned long long)value, 1);
  return dtype.lanes > 1 ? bp_gen_splat(g, constant, dtype.lanes) : constant;
}

LLVMValueRef bp_gen_alloca(BpGen *g, LLVMTypeRef type, uint32_t alignment) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMValueRef first = LLVMGetFirstInstruction(g->entry);
  if (first)
    LLVMPositionBuilderBefore(g->builder, first);
  else
    LLVMPositionBuilderAtEnd(g->builder, g->entry);
  LLVMValueRef place = LLVMBuildAlloca(g->builder, type, "");
  if (alignment)
    LLVMSetAlignment(place, alignment);
  LLVMPositionBuilderAtEnd(g->builder, here);
  return place;
}

LLVMBasicBlockRef bp_gen_block(BpGen *g, const char *name) {
  return LLVMAppendBasicBlockInContext(g->context, g->function, name);
}

LLVMValueRef bp_gen_offset(BpGen *g, LLVMValueRef base, int64_t offset) {
  LLVMValueRef index = bp_gen_i64(g, offset);
  return LLVMBuildGEP2(g->builder, g->i8, base, &index, 1, "");
}

LLVMValueRef bp_gen_load(BpGen *g, LLVMTypeRef type, LLVMValueRef base, int64_t offset) {
  return LLVMBuildLoad2(g->builder, type, bp_gen_offset(g, base, offset), "");
}

void bp_gen_store(BpGen *g, LLVMValueRef value, LLVMValueRef base, int64_t offset) {
  LLVMBuildStore(g->builder, value, bp_gen_offset(g, base, offset));
}

/* ---- Calls ------------------------------------------------------------------------------- */

static LLVMTypeRef type_of_call(BpGen *g, LLVMTypeRef result, LLVMValueRef *args, uint32_t count) {
  LLVMTypeRef types[32];
  if (count > 32) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "a call with more than 32 arguments");
    count = 32;
  }
  for (uint32_t i = 0; i < count; i++)
    types[i] = LLVMTypeOf(args[i]);
  return LLVMFunctionType(result, types, count, 0);
}

LLVMValueRef bp_gen_call_pointer(BpGen *g, LLVMValueRef function, LLVMTypeRef result,
                                 LLVMValueRef *args, uint32_t count) {
  LLVMTypeRef type = type_of_call(g, result, args, count);
  return LLVMBuildCall2(g->builder, type, function, args, count, "");
}

LLVMValueRef bp_gen_call_c(BpGen *g, const char *name, LLVMTypeRef result, LLVMValueRef *args,
                           uint32_t count) {
  LLVMTypeRef type = type_of_call(g, result, args, count);
  LLVMValueRef function = LLVMGetNamedFunction(g->module, name);
  if (!function)
    function = LLVMAddFunction(g->module, name, type);
  return LLVMBuildCall2(g->builder, type, function, args, count, "");
}

LLVMValueRef bp_gen_external(BpGen *g, const char *name) {
  LLVMValueRef variable = LLVMGetNamedGlobal(g->module, name);
  return variable ? variable : LLVMAddGlobal(g->module, g->i32, name);
}

LLVMValueRef bp_gen_slot(BpGen *g, const char *name) {
  LLVMValueRef slot = LLVMGetNamedGlobal(g->module, name);
  if (!slot) {
    slot = LLVMAddGlobal(g->module, g->ptr, name);
    LLVMSetInitializer(slot, LLVMConstNull(g->ptr));
    LLVMSetLinkage(slot, LLVMWeakAnyLinkage);
  }
  return slot;
}

void bp_gen_leave_if(BpGen *g, LLVMValueRef condition) {
  LLVMBasicBlockRef wrong = bp_gen_block(g, "failed");
  LLVMBasicBlockRef right = bp_gen_block(g, "");
  LLVMBuildCondBr(g->builder, condition, wrong, right);
  LLVMPositionBuilderAtEnd(g->builder, wrong);
  LLVMBuildStore(g->builder, bp_gen_i32(g, -1), g->rc);
  LLVMBuildBr(g->builder, g->leave);
  LLVMPositionBuilderAtEnd(g->builder, right);
}

void bp_gen_add_attributes(BpGen *g, LLVMValueRef function) {
  for (size_t i = 0; i < sizeof(g->attributes) / sizeof(g->attributes[0]); i++) {
    const char *name = g->attributes[i][0];
    const char *value = g->attributes[i][1];
    if (!name || !value)
      continue;
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(g->context, name, (uint32_t)strlen(name),
                                                           value, (uint32_t)strlen(value));
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, attribute);
  }
}
