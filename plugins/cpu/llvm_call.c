/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: intrinsics through LLVM's or, lane by lane, the C library's functions; C functions; packed
 * functions. */
#include "llvm_gen.h"

#include <stdio.h>
#include <string.h>

#define MOST_ARGS 32

LLVMValueRef bp_gen_intrinsic(BpGen *g, const char *name, LLVMTypeRef type, LLVMValueRef *args,
                              uint32_t count) {
  uint32_t id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef function = LLVMGetIntrinsicDeclaration(g->module, id, &type, 1);
  LLVMTypeRef function_type = LLVMGlobalGetValueType(function);
  return LLVMBuildCall2(g->builder, function_type, function, args, count, "");
}

/* ---- Intrinsics -------------------------------------------------------------------------- */

/* Intrinsics that LLVM turns into instructions, also for vectors. */
static const char *llvm_name(const char *name) {
  static const char *const names[][2] = {
      {"sqrt", "llvm.sqrt"},         {"floor", "llvm.floor"}, {"ceil", "llvm.ceil"},
      {"trunc", "llvm.trunc"},       {"round", "llvm.rint"},  {"abs", "llvm.fabs"},
      {"copysign", "llvm.copysign"}, {"fma", "llvm.fma"},
  };
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (strcmp(names[i][0], name) == 0)
      return names[i][1];
  }
  return NULL;
}

/* Intrinsics that the C library has under the same name. */
static int is_c_name(const char *name) {
  static const char *const names[] = {"exp",   "exp2", "expm1", "log",  "log2",  "log10",
                                      "log1p", "sin",  "cos",   "tan",  "asin",  "acos",
                                      "atan",  "sinh", "cosh",  "tanh", "asinh", "acosh",
                                      "atanh", "erf",  "pow",   "fmod", "atan2"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (strcmp(names[i], name) == 0)
      return 1;
  }
  return 0;
}

static LLVMValueRef call_c_scalar(BpGen *g, const char *name, BpDataType dtype, LLVMValueRef *args,
                                  uint32_t count) {
  char full[64];
  snprintf(full, sizeof(full), "%s%s", name, dtype.bits == 32 ? "f" : "");
  return bp_gen_call_c(g, full, bp_gen_type(g, dtype), args, count);
}

static LLVMValueRef call_c_lanes(BpGen *g, const char *name, BpDataType dtype, LLVMValueRef *args,
                                 uint32_t count) {
  if (dtype.lanes == 1)
    return call_c_scalar(g, name, dtype, args, count);
  BpDataType scalar = {dtype.code, dtype.bits, 1};
  LLVMValueRef result = LLVMGetPoison(bp_gen_type(g, dtype));
  for (int32_t i = 0; i < dtype.lanes; i++) {
    LLVMValueRef lanes[MOST_ARGS];
    for (uint32_t k = 0; k < count; k++)
      lanes[k] = LLVMBuildExtractElement(g->builder, args[k], bp_gen_i32(g, i), "");
    LLVMValueRef value = call_c_scalar(g, name, scalar, lanes, count);
    result = LLVMBuildInsertElement(g->builder, result, value, bp_gen_i32(g, i), "");
  }
  return result;
}

static LLVMValueRef real(BpGen *g, BpDataType dtype, double value) {
  LLVMTypeRef scalar = bp_gen_type(g, (BpDataType){dtype.code, dtype.bits, 1});
  LLVMValueRef constant = LLVMConstReal(scalar, value);
  return dtype.lanes > 1 ? bp_gen_splat(g, constant, dtype.lanes) : constant;
}

/* Calls an intrinsic for floats that are computed in their own type. NULL: there is no such
 * intrinsic. */
static LLVMValueRef float_intrinsic(BpGen *g, const char *name, BpDataType dtype,
                                    LLVMValueRef *args, uint32_t count) {
  LLVMBuilderRef b = g->builder;
  LLVMTypeRef type = bp_gen_type(g, dtype);
  const char *llvm = llvm_name(name);
  if (llvm)
    return bp_gen_intrinsic(g, llvm, type, args, count);
  if (is_c_name(name))
    return call_c_lanes(g, name, dtype, args, count);
  if (strcmp(name, "rsqrt") == 0)
    return LLVMBuildFDiv(b, real(g, dtype, 1), bp_gen_intrinsic(g, "llvm.sqrt", type, args, 1), "");
  if (strcmp(name, "sigmoid") == 0) {
    LLVMValueRef minus = LLVMBuildFNeg(b, args[0], "");
    LLVMValueRef power = call_c_lanes(g, "exp", dtype, &minus, 1);
    return LLVMBuildFDiv(b, real(g, dtype, 1), LLVMBuildFAdd(b, real(g, dtype, 1), power, ""), "");
  }
  if (strcmp(name, "isnan") == 0)
    return LLVMBuildFCmp(b, LLVMRealUNO, args[0], args[0], "");
  if (strcmp(name, "isinf") == 0) {
    LLVMValueRef magnitude = bp_gen_intrinsic(g, "llvm.fabs", type, args, 1);
    return LLVMBuildFCmp(b, LLVMRealOEQ, magnitude, real(g, dtype, __builtin_inf()), "");
  }
  return NULL;
}

static int has_feature(const BpGen *g, const char *name) {
  return bp_cpu_has_feature(g->cpu, g->extras, name);
}

/* Calls an intrinsic that LLVM has for x86 alone. Operands are converted to its types: versions of
 * LLVM differ in the lanes of some. */
static LLVMValueRef x86_intrinsic(BpGen *g, const char *name, LLVMValueRef *args, uint32_t count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef function = LLVMGetIntrinsicDeclaration(g->module, id, NULL, 0);
  LLVMTypeRef type = LLVMGlobalGetValueType(function), types[MOST_ARGS];
  LLVMGetParamTypes(type, types);
  for (uint32_t i = 0; i < count; i++)
    args[i] = LLVMBuildBitCast(g->builder, args[i], types[i], "");
  return LLVMBuildCall2(g->builder, type, function, args, count, "");
}

/* An x86 intrinsic for vectors of a number of bits, and the features that it needs. */
typedef struct X86Row {
  int bits;
  const char *feature, *more, *name;
} X86Row;

/* Dot products of bytes, and sums of pairs of products of int16. */
static const X86Row dot_rows[] = {
    {512, "avx512vnni", NULL, "llvm.x86.avx512.vpdpbusd.512"},
    {256, "avx512vnni", "avx512vl", "llvm.x86.avx512.vpdpbusd.256"},
    {128, "avx512vnni", "avx512vl", "llvm.x86.avx512.vpdpbusd.128"},
    {256, "avxvnni", NULL, "llvm.x86.avx512.vpdpbusd.256"},
    {128, "avxvnni", NULL, "llvm.x86.avx512.vpdpbusd.128"},
    {0, NULL, NULL, NULL},
};
static const X86Row pair_rows[] = {
    {512, "avx512bw", NULL, "llvm.x86.avx512.pmaddw.d.512"},
    {256, "avx2", NULL, "llvm.x86.avx2.pmadd.wd"},
    {128, NULL, NULL, "llvm.x86.sse2.pmadd.wd"},
    {0, NULL, NULL, NULL},
};

/* NULL if the CPU lacks the instruction, or this version of LLVM the intrinsic. */
static const char *x86_name(const BpGen *g, const X86Row *rows, int bits) {
  for (int i = 0; rows[i].name && strcmp(g->cpu->arch, "x86_64") == 0; i++)
    if (rows[i].bits == bits && (!rows[i].feature || has_feature(g, rows[i].feature)) &&
        (!rows[i].more || has_feature(g, rows[i].more)) &&
        LLVMLookupIntrinsicID(rows[i].name, strlen(rows[i].name)))
      return rows[i].name;
  return NULL;
}

/* The bytes of x at even or at odd places, as int16. */
static LLVMValueRef halves(BpGen *g, BpDataType dtype, LLVMValueRef x, int is_odd, int is_signed) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef eight = bp_gen_const(g, dtype, 8);
  x = LLVMBuildBitCast(b, x, bp_gen_type(g, dtype), "");
  if (!is_odd)
    x = LLVMBuildShl(b, x, eight, "");
  return is_signed ? LLVMBuildAShr(b, x, eight, "") : LLVMBuildLShr(b, x, eight, "");
}

/* c plus the four products of an unsigned byte of a and the signed byte of b at its place. */
static LLVMValueRef dot4_us(BpGen *g, BpDataType dtype, LLVMValueRef *args) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef sum = args[2];
  BpDataType half = {BP_DTYPE_INT, 16, (uint16_t)(dtype.lanes * 2)};
  const char *name = x86_name(g, dot_rows, dtype.lanes * 32);
  if (name)
    return x86_intrinsic(g, name, (LLVMValueRef[]){args[2], args[0], args[1]}, 3);
  name = x86_name(g, pair_rows, dtype.lanes * 32);
  for (int i = 0; name && i < 2; i++) {
    LLVMValueRef pair[] = {halves(g, half, args[0], i, 0), halves(g, half, args[1], i, 1)};
    sum = LLVMBuildAdd(b, sum, x86_intrinsic(g, name, pair, 2), "");
  }
  for (int i = 0; !name && i < 32; i += 8) {
    LLVMValueRef left = LLVMBuildLShr(b, args[0], bp_gen_const(g, dtype, i), "");
    LLVMValueRef right = LLVMBuildShl(b, args[1], bp_gen_const(g, dtype, 24 - i), "");
    left = LLVMBuildAnd(b, left, bp_gen_const(g, dtype, 0xff), "");
    right = LLVMBuildAShr(b, right, bp_gen_const(g, dtype, 24), "");
    sum = LLVMBuildAdd(b, sum, LLVMBuildMul(b, left, right, ""), "");
  }
  return sum;
}

static LLVMValueRef int_intrinsic(BpGen *g, const char *name, BpDataType dtype,
                                  LLVMValueRef *args) {
  LLVMTypeRef type = bp_gen_type(g, dtype);
  if (strcmp(name, "dot4_us") == 0)
    return dot4_us(g, dtype, args);
  if (strcmp(name, "popcount") == 0)
    return bp_gen_intrinsic(g, "llvm.ctpop", type, args, 1);
  if (strcmp(name, "abs") != 0)
    return NULL;
  LLVMValueRef values[] = {args[0], LLVMConstInt(g->i1, 0, 0)};
  return dtype.code == BP_DTYPE_UINT ? args[0] : bp_gen_intrinsic(g, "llvm.abs", type, values, 2);
}

static LLVMValueRef prefetch(BpGen *g, LLVMValueRef address) {
  LLVMValueRef args[] = {address, bp_gen_i32(g, 0), bp_gen_i32(g, 3), bp_gen_i32(g, 1)};
  return bp_gen_intrinsic(g, "llvm.prefetch", g->ptr, args, 4);
}

static LLVMValueRef intrinsic(BpGen *g, const BpIrNode *node) {
  const char *name = g->ir->str_value(node);
  BpDataType result = g->ir->dtype(node);
  uint32_t count = (uint32_t)g->ir->num_operands(node);
  LLVMValueRef args[MOST_ARGS];
  if (count < 1 || count > 3) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "intrinsic %s", name);
    return bp_gen_poison(g, result);
  }
  BpDataType given = g->ir->dtype(g->ir->operand(node, 0));
  BpDataType compute = bp_gen_compute_dtype(given);
  for (uint32_t i = 0; i < count; i++)
    args[i] = bp_gen_cast(g, compute, given, bp_gen_expr(g, g->ir->operand(node, (int32_t)i)));
  if (strcmp(name, "prefetch") == 0)
    return prefetch(g, args[0]);
  int is_float = compute.code == BP_DTYPE_FLOAT;
  LLVMValueRef value = is_float ? float_intrinsic(g, name, compute, args, count)
                                : int_intrinsic(g, name, compute, args);
  if (!value) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "intrinsic %s", name);
    return bp_gen_poison(g, result);
  }
  return result.code == BP_DTYPE_BOOL ? value : bp_gen_cast(g, result, compute, value);
}

/* ---- C functions ------------------------------------------------------------------------- */

static LLVMValueRef extern_call(BpGen *g, const BpIrNode *node) {
  uint32_t count = (uint32_t)g->ir->num_operands(node);
  LLVMValueRef args[MOST_ARGS];
  if (count > MOST_ARGS) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "a call with more than %d arguments", MOST_ARGS);
    count = 0;
  }
  for (uint32_t i = 0; i < count; i++)
    args[i] = bp_gen_expr(g, g->ir->operand(node, (int32_t)i));
  LLVMTypeRef type = bp_gen_type(g, g->ir->dtype(node));
  LLVMValueRef value = bp_gen_call_c(g, g->ir->str_value(node), type, args, count);
  return type == g->nothing ? bp_gen_poison(g, g->ir->dtype(node)) : value;
}

/* ---- Packed functions -------------------------------------------------------------------- */

static LLVMTypeRef bytes_type(BpGen *g, uint32_t size) {
  return LLVMArrayType(g->i64, (size + 7) / 8);
}

/* A BpTensorView of a buffer, in the function's frame. */
static LLVMValueRef view_of(BpGen *g, const BpIrNode *buffer) {
  int32_t ndim = g->ir->num_operands(buffer);
  BpDataType dtype = g->ir->dtype(buffer);
  LLVMValueRef view = bp_gen_alloca(g, bytes_type(g, sizeof(BpTensorView)), 8);
  LLVMValueRef shape = bp_gen_alloca(g, bytes_type(g, (uint32_t)ndim * 8 + 8), 8);
  BpDataType i64 = {BP_DTYPE_INT, 64, 1};
  for (int32_t i = 0; i < ndim; i++) {
    const BpIrNode *extent = g->ir->operand(buffer, i);
    bp_gen_store(g, bp_gen_cast(g, i64, g->ir->dtype(extent), bp_gen_expr(g, extent)), shape,
                 i * 8);
  }
  int64_t type = dtype.code | dtype.bits << 8 | (int64_t)dtype.lanes << 16;
  bp_gen_store(g, bp_gen_symbol(g, buffer), view, offsetof(BpTensorView, data));
  bp_gen_store(g, bp_gen_i64(g, BP_DEVICE_CPU), view, offsetof(BpTensorView, device));
  bp_gen_store(g, bp_gen_i32(g, ndim), view, offsetof(BpTensorView, ndim));
  bp_gen_store(g, bp_gen_i32(g, type), view, offsetof(BpTensorView, dtype));
  bp_gen_store(g, shape, view, offsetof(BpTensorView, shape));
  bp_gen_store(g, LLVMConstNull(g->ptr), view, offsetof(BpTensorView, strides));
  bp_gen_store(g, bp_gen_i64(g, 0), view, offsetof(BpTensorView, byte_offset));
  return view;
}

/* Stores an operand in the BpValue at args[i]. */
static void store_value(BpGen *g, LLVMValueRef args, int32_t i, const BpIrNode *operand) {
  BpDataType dtype = g->ir->dtype(operand);
  int32_t kind = g->ir->kind(operand);
  int32_t type = BP_TYPE_INT;
  LLVMValueRef value;
  if (kind == BP_IR_BUFFER) {
    type = BP_TYPE_TENSOR_VIEW;
    value = view_of(g, operand);
  } else if (dtype.code == BP_DTYPE_HANDLE) {
    type = kind == BP_IR_STR_IMM ? BP_TYPE_RAW_STR : BP_TYPE_POINTER;
    value = bp_gen_expr(g, operand);
  } else if (dtype.lanes > 1) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "a vector as argument of a packed call");
    return;
  } else if (dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT) {
    type = BP_TYPE_FLOAT;
    value = bp_gen_cast(g, (BpDataType){BP_DTYPE_FLOAT, 64, 1}, dtype, bp_gen_expr(g, operand));
  } else {
    type = dtype.code == BP_DTYPE_BOOL ? BP_TYPE_BOOL : BP_TYPE_INT;
    value = bp_gen_cast(g, (BpDataType){BP_DTYPE_INT, 64, 1}, dtype, bp_gen_expr(g, operand));
  }
  bp_gen_store(g, bp_gen_i64(g, type), args, i * 16);
  bp_gen_store(g, value, args, i * 16 + 8);
}

/* Returns the packed function `name`; generated code looks it up at the first call. */
static LLVMValueRef packed_function(BpGen *g, const char *name) {
  LLVMValueRef cache = LLVMAddGlobal(g->module, g->ptr, "packed");
  LLVMSetInitializer(cache, LLVMConstNull(g->ptr));
  LLVMSetLinkage(cache, LLVMInternalLinkage);
  LLVMValueRef found = LLVMBuildLoad2(g->builder, g->ptr, cache, "");
  LLVMSetOrdering(found, LLVMAtomicOrderingAcquire);
  LLVMSetAlignment(found, 8);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMBasicBlockRef search = bp_gen_block(g, "search");
  LLVMBasicBlockRef next = bp_gen_block(g, "found");
  LLVMBuildCondBr(g->builder, LLVMBuildIsNull(g->builder, found, ""), search, next);
  LLVMPositionBuilderAtEnd(g->builder, search);
  LLVMValueRef place = bp_gen_alloca(g, g->ptr, 8);
  LLVMBuildStore(g->builder, LLVMConstNull(g->ptr), place);
  LLVMValueRef slot = bp_gen_slot(g, "__TVMFFIEnvModLookupFromImports");
  LLVMValueRef look_up = LLVMBuildLoad2(g->builder, g->ptr, slot, "");
  LLVMValueRef library = bp_gen_slot(g, "__tvm_ffi__library_ctx");
  LLVMValueRef args[] = {LLVMBuildLoad2(g->builder, g->ptr, library, ""), bp_gen_str(g, name),
                         place};
  bp_gen_leave_if(g, LLVMBuildIsNull(g->builder, look_up, ""));
  LLVMValueRef rc = bp_gen_call_pointer(g, look_up, g->i32, args, 3);
  bp_gen_leave_if(g, LLVMBuildIsNotNull(g->builder, rc, ""));
  LLVMValueRef fresh = LLVMBuildLoad2(g->builder, g->ptr, place, "");
  LLVMValueRef stored = LLVMBuildStore(g->builder, fresh, cache);
  LLVMSetOrdering(stored, LLVMAtomicOrderingRelease);
  LLVMSetAlignment(stored, 8);
  LLVMBasicBlockRef end = LLVMGetInsertBlock(g->builder);
  LLVMBuildBr(g->builder, next);
  LLVMPositionBuilderAtEnd(g->builder, next);
  LLVMValueRef result = LLVMBuildPhi(g->builder, g->ptr, "");
  LLVMAddIncoming(result, (LLVMValueRef[]){found, fresh}, (LLVMBasicBlockRef[]){here, end}, 2);
  return result;
}

static LLVMValueRef packed_result(BpGen *g, BpDataType dtype, LLVMValueRef result) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef type = bp_gen_load(g, g->i32, result, 0);
  LLVMValueRef is_object = LLVMBuildICmp(b, LLVMIntSGE, type, bp_gen_i32(g, BP_TYPE_OBJECT), "");
  bp_gen_leave_if(g, is_object);
  if (dtype.code == BP_DTYPE_HANDLE)
    return dtype.bits == 0 ? bp_gen_poison(g, dtype) : bp_gen_load(g, g->ptr, result, 8);
  LLVMValueRef is_float = LLVMBuildICmp(b, LLVMIntEQ, type, bp_gen_i32(g, BP_TYPE_FLOAT), "");
  LLVMValueRef number = bp_gen_load(g, g->f64, result, 8);
  LLVMValueRef integer = bp_gen_load(g, g->i64, result, 8);
  BpDataType f64 = {BP_DTYPE_FLOAT, 64, 1};
  BpDataType i64 = {BP_DTYPE_INT, 64, 1};
  LLVMValueRef as_float = bp_gen_cast(g, dtype, f64, number);
  return LLVMBuildSelect(b, is_float, as_float, bp_gen_cast(g, dtype, i64, integer), "");
}

static LLVMValueRef packed_call(BpGen *g, const BpIrNode *node) {
  int32_t count = g->ir->num_operands(node);
  LLVMValueRef args = bp_gen_alloca(g, bytes_type(g, (uint32_t)count * 16 + 16), 8);
  LLVMValueRef result = bp_gen_alloca(g, bytes_type(g, 16), 8);
  for (int32_t i = 0; i < count; i++)
    store_value(g, args, i, g->ir->operand(node, i));
  bp_gen_store(g, bp_gen_i64(g, 0), result, 0);
  bp_gen_store(g, bp_gen_i64(g, 0), result, 8);
  LLVMValueRef function = packed_function(g, g->ir->str_value(node));
  LLVMValueRef call =
      LLVMBuildLoad2(g->builder, g->ptr, bp_gen_slot(g, "__TVMFFIFunctionCall"), "");
  LLVMValueRef values[] = {function, args, bp_gen_i32(g, count), result};
  LLVMValueRef rc = bp_gen_call_pointer(g, call, g->i32, values, 4);
  bp_gen_leave_if(g, LLVMBuildIsNotNull(g->builder, rc, ""));
  return packed_result(g, g->ir->dtype(node), result);
}

LLVMValueRef bp_gen_call(BpGen *g, const BpIrNode *node) {
  switch (g->ir->int_value(node)) {
  case BP_IR_CALL_INTRINSIC:
    return intrinsic(g, node);
  case BP_IR_CALL_EXTERN:
    return extern_call(g, node);
  case BP_IR_CALL_PACKED:
    return packed_call(g, node);
  default:
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "call kind %lld", (long long)g->ir->int_value(node));
    return bp_gen_poison(g, g->ir->dtype(node));
  }
}
