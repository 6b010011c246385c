/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, and the packed function around each. The packed function checks the arguments against
 * the parameters before the function's body runs. */
#include "llvm_gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define MESSAGE_SIZE 512

/* ---- Errors that generated code raises --------------------------------------------------- */

/* bp_raise(kind, text): passes an error to the host, through the host's pointer variable or the
 * function of tvm-ffi. */
static LLVMValueRef raise_function(BpGen *g) {
  LLVMValueRef function = LLVMGetNamedFunction(g->module, "bp_raise");
  if (function)
    return function;
  LLVMTypeRef types[] = {g->ptr, g->ptr};
  LLVMTypeRef type = LLVMFunctionType(g->nothing, types, 2, 0);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->builder);
  LLVMValueRef direct = LLVMAddFunction(g->module, "TVMFFIErrorSetRaisedFromCStr", type);
  LLVMSetLinkage(direct, LLVMExternalWeakLinkage);
  function = LLVMAddFunction(g->module, "bp_raise", type);
  LLVMSetLinkage(function, LLVMInternalLinkage);
  LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(g->context, function, "");
  LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(g->context, function, "call");
  LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(g->context, function, "done");
  LLVMPositionBuilderAtEnd(g->builder, entry);
  LLVMValueRef slot =
      LLVMBuildLoad2(g->builder, g->ptr, bp_gen_slot(g, "__TVMFFIErrorSetRaisedFromCStr"), "");
  LLVMValueRef is_unset = LLVMBuildIsNull(g->builder, slot, "");
  LLVMValueRef target = LLVMBuildSelect(g->builder, is_unset, direct, slot, "");
  LLVMBuildCondBr(g->builder, LLVMBuildIsNull(g->builder, target, ""), done, call);
  LLVMPositionBuilderAtEnd(g->builder, call);
  LLVMValueRef args[] = {LLVMGetParam(function, 0), LLVMGetParam(function, 1)};
  LLVMBuildCall2(g->builder, type, target, args, 2, "");
  LLVMBuildBr(g->builder, done);
  LLVMPositionBuilderAtEnd(g->builder, done);
  LLVMBuildRetVoid(g->builder);
  LLVMPositionBuilderAtEnd(g->builder, here);
  return function;
}

#define NAME_SIZE 160

/* A name as part of a format: each "%" is doubled, and a long name is cut. */
static const char *escape(const char *name, char text[NAME_SIZE]) {
  size_t size = 0;
  for (; *name && size < NAME_SIZE - 2; name++) {
    text[size++] = *name;
    if (*name == '%')
      text[size++] = *name;
  }
  text[size] = '\0';
  return text;
}

/* The text of a format without conversions. LLVM would copy the text by vectors, which the CPU may
 * lack if that is what the message says. */
static LLVMValueRef constant_message(BpGen *g, const char *format) {
  char text[MESSAGE_SIZE];
  size_t size = 0;
  for (; *format && size < MESSAGE_SIZE - 1; format += format[0] == '%' ? 2 : 1)
    text[size++] = *format;
  text[size] = '\0';
  return bp_gen_str(g, text);
}

/* The address of a message with its arguments. */
static LLVMValueRef format_message(BpGen *g, const char *format, LLVMValueRef *args,
                                   uint32_t count) {
  if (!g->message)
    g->message = bp_gen_alloca(g, LLVMArrayType(g->i8, MESSAGE_SIZE), 16);
  LLVMTypeRef fixed[] = {g->ptr, g->i64, g->ptr};
  LLVMTypeRef type = LLVMFunctionType(g->i32, fixed, 3, 1);
  LLVMValueRef print = LLVMGetNamedFunction(g->module, "snprintf");
  LLVMValueRef values[16] = {g->message, bp_gen_i64(g, MESSAGE_SIZE), bp_gen_str(g, format)};
  if (!print)
    print = LLVMAddFunction(g->module, "snprintf", type);
  for (uint32_t i = 0; i < count && i < 13; i++)
    values[3 + i] = args[i];
  LLVMBuildCall2(g->builder, type, print, values, 3 + count, "");
  return g->message;
}

void bp_gen_raise(BpGen *g, const char *kind, const char *format, LLVMValueRef *args,
                  uint32_t count) {
  LLVMValueRef text =
      count > 0 ? format_message(g, format, args, count) : constant_message(g, format);
  LLVMValueRef function = raise_function(g);
  LLVMValueRef raised[] = {bp_gen_str(g, kind), text};
  LLVMBuildCall2(g->builder, LLVMGlobalGetValueType(function), function, raised, 2, "");
}

typedef struct NumberName {
  int32_t number;
  const char *name;
} NumberName;

/* Names of numbers that messages show and that are known only at run time. */
typedef struct NumberNames {
  const char *otherwise;
  int32_t count;
  NumberName names[10];
} NumberNames;

static const NumberNames code_names = {"type",
                                       7,
                                       {{BP_DTYPE_INT, "int"},
                                        {BP_DTYPE_UINT, "uint"},
                                        {BP_DTYPE_FLOAT, "float"},
                                        {BP_DTYPE_HANDLE, "handle"},
                                        {BP_DTYPE_BFLOAT, "bfloat"},
                                        {BP_DTYPE_COMPLEX, "complex"},
                                        {BP_DTYPE_BOOL, "bool"}}};
static const NumberNames value_names = {"another value",
                                        10,
                                        {{BP_TYPE_NONE, "None"},
                                         {BP_TYPE_INT, "int"},
                                         {BP_TYPE_BOOL, "bool"},
                                         {BP_TYPE_FLOAT, "float"},
                                         {BP_TYPE_POINTER, "pointer"},
                                         {BP_TYPE_TENSOR_VIEW, "Tensor"},
                                         {BP_TYPE_TENSOR, "Tensor"},
                                         {BP_TYPE_RAW_STR, "str"},
                                         {BP_TYPE_SMALL_STR, "str"},
                                         {BP_TYPE_STR, "str"}}};
static const NumberNames device_names = {
    "another device",
    3,
    {{BP_DEVICE_CUDA, "cuda"}, {BP_DEVICE_OPENCL, "opencl"}, {BP_DEVICE_VULKAN, "vulkan"}}};

static LLVMValueRef name_of(BpGen *g, LLVMValueRef number, const NumberNames *names) {
  LLVMValueRef result = bp_gen_str(g, names->otherwise);
  for (int32_t i = 0; i < names->count; i++) {
    LLVMValueRef is_it =
        LLVMBuildICmp(g->builder, LLVMIntEQ, number, bp_gen_i32(g, names->names[i].number), "");
    result = LLVMBuildSelect(g->builder, is_it, bp_gen_str(g, names->names[i].name), result, "");
  }
  return result;
}

/* Branches to a new failure block if `wrong` is true and positions the builder there. Returns the
 * block to continue in. */
static LLVMBasicBlockRef begin_failure(BpGen *g, LLVMValueRef wrong) {
  LLVMBasicBlockRef failed = bp_gen_block(g, "wrong");
  LLVMBasicBlockRef right = bp_gen_block(g, "");
  LLVMBuildCondBr(g->builder, wrong, failed, right);
  LLVMPositionBuilderAtEnd(g->builder, failed);
  return right;
}

static void end_failure(BpGen *g, LLVMBasicBlockRef right) {
  LLVMBuildStore(g->builder, bp_gen_i32(g, -1), g->rc);
  LLVMBuildBr(g->builder, g->leave);
  LLVMPositionBuilderAtEnd(g->builder, right);
}

/* Continues if `wrong` is false; otherwise raises an error and leaves the function. */
static void fail_if(BpGen *g, LLVMValueRef wrong, const char *kind, const char *format,
                    LLVMValueRef *args, uint32_t count) {
  LLVMBasicBlockRef right = begin_failure(g, wrong);
  bp_gen_raise(g, kind, format, args, count);
  end_failure(g, right);
}

/* The format contains a conversion for a number's name and one for the number. */
static void fail_naming(BpGen *g, LLVMValueRef wrong, const char *kind, const char *format,
                        const NumberNames *names, LLVMValueRef number) {
  LLVMBasicBlockRef right = begin_failure(g, wrong);
  LLVMValueRef args[] = {name_of(g, number, names), number};
  bp_gen_raise(g, kind, format, args, 2);
  end_failure(g, right);
}

static LLVMValueRef not_equal(BpGen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(g->builder, LLVMIntNE, a, b, "");
}

/* ---- The CPU ----------------------------------------------------------------------------- */

typedef struct Needed {
  const BpCpu *cpu;
  uint64_t bits[2];
} Needed;

static int add_feature(void *context, const char *item, size_t size) {
  Needed *needed = context;
  int bit = bp_cpu_feature_bit(needed->cpu, item, size);
  if (bit >= 0)
    needed->bits[bit / 64] |= UINT64_C(1) << bit % 64;
  return 0;
}

/* libgcc stores the features of an x86-64 CPU as bits: the first 32 in __cpu_model, the others in
 * __cpu_features2. */
static LLVMValueRef x86_features(BpGen *g) {
  LLVMBuilderRef b = g->builder;
  bp_gen_call_c(g, "__cpu_indicator_init", g->i32, NULL, 0);
  LLVMValueRef model = bp_gen_external(g, "__cpu_model");
  LLVMValueRef more = bp_gen_external(g, "__cpu_features2");
  LLVMValueRef low = LLVMBuildZExt(b, bp_gen_load(g, g->i32, model, 12), g->i64, "");
  LLVMValueRef high = LLVMBuildZExt(b, bp_gen_load(g, g->i32, more, 0), g->i64, "");
  return LLVMBuildOr(b, low, LLVMBuildShl(b, high, bp_gen_i64(g, 32), ""), "");
}

/* Register eax of the instruction CPUID for leaf 7, part 1. */
static LLVMValueRef ask_leaf(BpGen *g) {
  static const char text[] = "cpuid", places[] = "={ax},={bx},={cx},={dx},0,2";
  LLVMTypeRef words[] = {g->i32, g->i32, g->i32, g->i32};
  LLVMTypeRef all = LLVMStructTypeInContext(g->context, words, 4, 0);
  LLVMTypeRef type = LLVMFunctionType(all, words, 2, 0);
  LLVMValueRef call =
      LLVMGetInlineAsm(type, (char *)(uintptr_t)text, sizeof text - 1, (char *)(uintptr_t)places,
                       sizeof places - 1, 1, 0, LLVMInlineAsmDialectATT, 0);
  LLVMValueRef args[] = {bp_gen_i32(g, 7), bp_gen_i32(g, 1)};
  LLVMValueRef result = LLVMBuildCall2(g->builder, type, call, args, 2, "");
  return LLVMBuildZExt(g->builder, LLVMBuildExtractValue(g->builder, result, 0, ""), g->i64, "");
}

/* The same, read once: virtual machines take long for the instruction. */
static LLVMValueRef x86_leaf(BpGen *g) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(b));
  LLVMBasicBlockRef ask = LLVMAppendBasicBlockInContext(g->context, function, "ask");
  LLVMBasicBlockRef known = LLVMAppendBasicBlockInContext(g->context, function, "known");
  LLVMValueRef leaf = LLVMAddGlobal(g->module, g->i64, "cpuid_leaf");
  LLVMSetInitializer(leaf, bp_gen_i64(g, -1));
  LLVMSetLinkage(leaf, LLVMInternalLinkage);
  LLVMValueRef held = LLVMBuildLoad2(b, g->i64, leaf, "");
  LLVMBuildCondBr(b, not_equal(g, held, bp_gen_i64(g, -1)), known, ask);
  LLVMPositionBuilderAtEnd(b, ask);
  LLVMBuildStore(b, ask_leaf(g), leaf);
  LLVMBuildBr(b, known);
  LLVMPositionBuilderAtEnd(b, known);
  return LLVMBuildLoad2(b, g->i64, leaf, "");
}

/* Fails unless the machine has the features for which the code is compiled. */
static void check_cpu(BpGen *g) {
  char text[MESSAGE_SIZE], function[NAME_SIZE];
  Needed needed = {g->cpu, {0, 0}};
  int is_x86 = strcmp(g->cpu->arch, "x86_64") == 0;
  bp_cpu_each(g->cpu->features, ',', add_feature, &needed);
  bp_cpu_each(g->extras, ',', add_feature, &needed);
  snprintf(text, sizeof(text),
           "%s: compiled for the CPU %s%s%s, and this one lacks some of its features; build it for "
           "another mcpu",
           escape(g->ir->str_value(g->ir_function), function), g->cpu->name,
           g->extras[0] ? " with " : "", g->extras);
  for (int i = 0; i < 2; i++) {
    LLVMValueRef type = bp_gen_i64(g, i == 0 ? AT_HWCAP : AT_HWCAP2);
    LLVMValueRef mask = bp_gen_i64(g, (int64_t)needed.bits[i]);
    if (needed.bits[i] == 0)
      continue;
    LLVMValueRef have = !is_x86  ? bp_gen_call_c(g, "getauxval", g->i64, &type, 1)
                        : i == 0 ? x86_features(g)
                                 : x86_leaf(g);
    fail_if(g, not_equal(g, LLVMBuildAnd(g->builder, have, mask, ""), mask), BP_ERROR_DEVICE, text,
            NULL, 0);
  }
}

/* ---- Arguments --------------------------------------------------------------------------- */

/* Builds a format: "f: argument 1 (A): ", then `rest`. */
static const char *about(BpGen *g, int32_t i, const char *rest, char text[MESSAGE_SIZE]) {
  char function[NAME_SIZE], param[NAME_SIZE];
  snprintf(text, MESSAGE_SIZE, "%s: argument %d (%s): %s",
           escape(g->ir->str_value(g->ir_function), function), i,
           escape(g->ir->str_value(g->ir->operand(g->ir_function, i)), param), rest);
  return text;
}

static const char *dtype_text(BpDataType dtype, char text[40]) {
  static const char *const names[] = {"int",    "uint",    "float", "handle",
                                      "bfloat", "complex", "bool"};
  const char *name = dtype.code < 7 ? names[dtype.code] : "type";
  if (dtype.code == BP_DTYPE_BOOL)
    snprintf(text, 40, "bool");
  else
    snprintf(text, 40, "%s%d", name, dtype.bits);
  if (dtype.lanes != 1)
    snprintf(text + strlen(text), 40 - strlen(text), "x%d", dtype.lanes);
  return text;
}

static LLVMValueRef is_type(BpGen *g, LLVMValueRef type, int32_t number) {
  return LLVMBuildICmp(g->builder, LLVMIntEQ, type, bp_gen_i32(g, number), "");
}

/* The value of a scalar argument, converted to the parameter's type. */
static LLVMValueRef scalar_argument(BpGen *g, int32_t i, LLVMValueRef arg) {
  LLVMBuilderRef b = g->builder;
  char text[MESSAGE_SIZE], rest[128], name[40];
  BpDataType dtype = g->ir->dtype(g->ir->operand(g->ir_function, i));
  LLVMValueRef type = bp_gen_load(g, g->i32, arg, 0);
  LLVMValueRef fits =
      LLVMBuildOr(b, is_type(g, type, BP_TYPE_INT), is_type(g, type, BP_TYPE_BOOL), "");
  int is_float = dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT;
  if (is_float)
    fits = LLVMBuildOr(b, fits, is_type(g, type, BP_TYPE_FLOAT), "");
  if (dtype.code == BP_DTYPE_HANDLE)
    fits = LLVMBuildOr(b, is_type(g, type, BP_TYPE_POINTER), is_type(g, type, BP_TYPE_NONE), "");
  snprintf(rest, sizeof(rest), "expected %s, got %%s (type %%d)", dtype_text(dtype, name));
  fail_naming(g, LLVMBuildNot(b, fits, ""), BP_ERROR_TYPE, about(g, i, rest, text), &value_names,
              type);
  if (dtype.code == BP_DTYPE_HANDLE)
    return bp_gen_load(g, g->ptr, arg, 8);
  BpDataType i64 = {BP_DTYPE_INT, 64, 1};
  BpDataType f64 = {BP_DTYPE_FLOAT, 64, 1};
  LLVMValueRef integer = bp_gen_load(g, g->i64, arg, 8);
  if (is_float) {
    LLVMValueRef number =
        LLVMBuildSelect(b, is_type(g, type, BP_TYPE_FLOAT), bp_gen_load(g, g->f64, arg, 8),
                        bp_gen_cast(g, f64, i64, integer), "");
    return bp_gen_cast(g, dtype, f64, number);
  }
  LLVMValueRef value = bp_gen_cast(g, dtype, i64, integer);
  if (dtype.code != BP_DTYPE_BOOL && dtype.bits < 64) {
    snprintf(rest, sizeof(rest), "expected %s, got %%lld, which is out of its range", name);
    fail_if(g, not_equal(g, bp_gen_cast(g, i64, dtype, value), integer), BP_ERROR_VALUE,
            about(g, i, rest, text), &integer, 1);
  }
  return value;
}

/* The tensor view of an argument. */
static LLVMValueRef view_argument(BpGen *g, int32_t i, LLVMValueRef arg) {
  LLVMBuilderRef b = g->builder;
  char text[MESSAGE_SIZE];
  LLVMValueRef type = bp_gen_load(g, g->i32, arg, 0);
  LLVMValueRef is_tensor = is_type(g, type, BP_TYPE_TENSOR);
  LLVMValueRef fits = LLVMBuildOr(b, is_tensor, is_type(g, type, BP_TYPE_TENSOR_VIEW), "");
  fail_naming(g, LLVMBuildNot(b, fits, ""), BP_ERROR_TYPE,
              about(g, i, "expected a tensor, got %s (type %d)", text), &value_names, type);
  LLVMValueRef pointer = bp_gen_load(g, g->ptr, arg, 8);
  fail_if(g, LLVMBuildIsNull(b, pointer, ""), BP_ERROR_TYPE,
          about(g, i, "expected a tensor, got NULL", text), NULL, 0);
  LLVMValueRef inside = bp_gen_offset(g, pointer, offsetof(BpTensor, view));
  return LLVMBuildSelect(b, is_tensor, inside, pointer, "");
}

static void check_dtype(BpGen *g, int32_t i, LLVMValueRef view) {
  LLVMBuilderRef b = g->builder;
  char text[MESSAGE_SIZE], rest[128], name[40];
  BpDataType dtype = g->ir->dtype(g->ir->operand(g->ir_function, i));
  int64_t expected = dtype.code | dtype.bits << 8 | (int64_t)dtype.lanes << 16;
  LLVMValueRef packed = bp_gen_load(g, g->i32, view, offsetof(BpTensorView, dtype));
  LLVMValueRef code = LLVMBuildAnd(b, packed, bp_gen_i32(g, 255), "");
  LLVMValueRef bits = LLVMBuildLShr(b, packed, bp_gen_i32(g, 8), "");
  LLVMValueRef args[] = {name_of(g, code, &code_names),
                         LLVMBuildAnd(b, bits, bp_gen_i32(g, 255), ""),
                         LLVMBuildLShr(b, packed, bp_gen_i32(g, 16), "")};
  snprintf(rest, sizeof(rest), "expected a tensor of %s, got %%s%%d (%%d lanes)",
           dtype_text(dtype, name));
  fail_if(g, not_equal(g, packed, bp_gen_i32(g, expected)), BP_ERROR_TYPE, about(g, i, rest, text),
          args, 3);
}

static void check_place(BpGen *g, int32_t i, LLVMValueRef view) {
  char text[MESSAGE_SIZE], rest[128];
  int32_t ndim = g->ir->num_operands(g->ir->operand(g->ir_function, i));
  LLVMValueRef device = bp_gen_load(g, g->i32, view, offsetof(BpTensorView, device));
  LLVMValueRef is_host = LLVMBuildOr(g->builder, is_type(g, device, BP_DEVICE_CPU),
                                     is_type(g, device, BP_DEVICE_CUDA_HOST), "");
  fail_naming(g, LLVMBuildNot(g->builder, is_host, ""), BP_ERROR_VALUE,
              about(g, i, "expected a tensor in host memory, got one of %s (device type %d)", text),
              &device_names, device);
  LLVMValueRef got = bp_gen_load(g, g->i32, view, offsetof(BpTensorView, ndim));
  snprintf(rest, sizeof(rest), "expected %d dimensions, got %%d", ndim);
  fail_if(g, not_equal(g, got, bp_gen_i32(g, ndim)), BP_ERROR_VALUE, about(g, i, rest, text), &got,
          1);
}

/* Checks that dimension k has a compact stride, or extent 1. `strides` may be NULL. */
static void check_stride(BpGen *g, int32_t i, int32_t k, LLVMValueRef strides, LLVMValueRef extent,
                         LLVMValueRef expected) {
  LLVMBuilderRef b = g->builder;
  char text[MESSAGE_SIZE], rest[160];
  LLVMBasicBlockRef look = bp_gen_block(g, "strides");
  LLVMBasicBlockRef next = bp_gen_block(g, "");
  LLVMBuildCondBr(b, LLVMBuildIsNull(b, strides, ""), next, look);
  LLVMPositionBuilderAtEnd(b, look);
  LLVMValueRef stride = bp_gen_load(g, g->i64, strides, k * 8);
  LLVMValueRef wrong =
      LLVMBuildAnd(b, not_equal(g, stride, expected), not_equal(g, extent, bp_gen_i64(g, 1)), "");
  LLVMValueRef args[] = {stride, expected};
  snprintf(rest, sizeof(rest),
           "expected compact strides, got %%lld instead of %%lld in dimension %d", k);
  fail_if(g, wrong, BP_ERROR_VALUE, about(g, i, rest, text), args, 2);
  LLVMBuildBr(b, next);
  LLVMPositionBuilderAtEnd(b, next);
}

/* Checks the shape against the parameter's; returns whether the tensor is empty, as an i1. */
static LLVMValueRef check_shape(BpGen *g, int32_t i, LLVMValueRef view) {
  char text[MESSAGE_SIZE], rest[128];
  const BpIrNode *param = g->ir->operand(g->ir_function, i);
  BpDataType i64 = {BP_DTYPE_INT, 64, 1};
  LLVMValueRef shape = bp_gen_load(g, g->ptr, view, offsetof(BpTensorView, shape));
  LLVMValueRef is_empty = LLVMConstInt(g->i1, 0, 0);
  for (int32_t k = 0; k < g->ir->num_operands(param); k++) {
    const BpIrNode *extent = g->ir->operand(param, k);
    LLVMValueRef expected = bp_gen_cast(g, i64, g->ir->dtype(extent), bp_gen_expr(g, extent));
    LLVMValueRef args[] = {expected, bp_gen_load(g, g->i64, shape, k * 8)};
    snprintf(rest, sizeof(rest), "dimension %d: expected extent %%lld, got %%lld", k);
    fail_if(g, not_equal(g, args[1], expected), BP_ERROR_VALUE, about(g, i, rest, text), args, 2);
    LLVMValueRef is_zero = LLVMBuildIsNull(g->builder, expected, "");
    is_empty = LLVMBuildOr(g->builder, is_empty, is_zero, "");
  }
  return is_empty;
}

static int64_t alignment_of(BpGen *g, BpDataType dtype) {
  const BpIrNode *attr = g->ir->find_attr(g->ir_function, BP_IR_ATTR_ALIGNMENT);
  int64_t natural = (dtype.bits + 7) / 8;
  int64_t asked = attr ? g->ir->int_value(g->ir->operand(attr, 0)) : 0;
  return asked > natural ? asked : natural;
}

/* Checks of strides and address, which only tensors with elements need. */
static void check_layout(BpGen *g, int32_t i, LLVMValueRef view, LLVMValueRef data) {
  LLVMBuilderRef b = g->builder;
  char text[MESSAGE_SIZE], rest[128];
  const BpIrNode *param = g->ir->operand(g->ir_function, i);
  LLVMValueRef shape = bp_gen_load(g, g->ptr, view, offsetof(BpTensorView, shape));
  LLVMValueRef strides = bp_gen_load(g, g->ptr, view, offsetof(BpTensorView, strides));
  LLVMValueRef expected = bp_gen_i64(g, 1);
  for (int32_t k = g->ir->num_operands(param) - 1; k >= 0; k--) {
    LLVMValueRef extent = bp_gen_load(g, g->i64, shape, k * 8);
    check_stride(g, i, k, strides, extent, expected);
    expected = LLVMBuildMul(b, expected, extent, "");
  }
  LLVMValueRef base = bp_gen_load(g, g->ptr, view, offsetof(BpTensorView, data));
  fail_if(g, LLVMBuildIsNull(b, base, ""), BP_ERROR_VALUE,
          about(g, i, "expected data, got NULL", text), NULL, 0);
  int64_t alignment = alignment_of(g, g->ir->dtype(param));
  LLVMValueRef address = LLVMBuildPtrToInt(b, data, g->i64, "");
  LLVMValueRef odd = LLVMBuildURem(b, address, bp_gen_i64(g, alignment), "");
  snprintf(rest, sizeof(rest), "expected an address that is a multiple of %lld, got %%p",
           (long long)alignment);
  fail_if(g, LLVMBuildIsNotNull(b, odd, ""), BP_ERROR_VALUE, about(g, i, rest, text), &data, 1);
}

/* The address of the elements of a tensor argument. */
static LLVMValueRef tensor_argument(BpGen *g, int32_t i, LLVMValueRef arg) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef view = view_argument(g, i, arg);
  check_dtype(g, i, view);
  check_place(g, i, view);
  LLVMValueRef is_empty = check_shape(g, i, view);
  LLVMValueRef base = bp_gen_load(g, g->ptr, view, offsetof(BpTensorView, data));
  LLVMValueRef offset = bp_gen_load(g, g->i64, view, offsetof(BpTensorView, byte_offset));
  LLVMValueRef data = LLVMBuildGEP2(b, g->i8, base, &offset, 1, "");
  LLVMBasicBlockRef look = bp_gen_block(g, "layout");
  LLVMBasicBlockRef next = bp_gen_block(g, "");
  LLVMBuildCondBr(b, is_empty, next, look);
  LLVMPositionBuilderAtEnd(b, look);
  check_layout(g, i, view, data);
  LLVMBuildBr(b, next);
  LLVMPositionBuilderAtEnd(b, next);
  return data;
}

/* ---- Functions --------------------------------------------------------------------------- */

static int is_buffer(BpGen *g, int32_t i) {
  return g->ir->kind(g->ir->operand(g->ir_function, i)) == BP_IR_BUFFER;
}

/* Creates a function with three blocks: the entry block has the allocas and `rc`, one block
 * returns, and one is for the body. */
static void open_function(BpGen *g, const char *name, LLVMTypeRef type, LLVMLinkage linkage) {
  g->function = LLVMAddFunction(g->module, name, type);
  LLVMSetLinkage(g->function, linkage);
  bp_gen_add_attributes(g, g->function);
  g->message = NULL;
  g->entry = bp_gen_block(g, "entry");
  LLVMBasicBlockRef start = bp_gen_block(g, "start");
  g->leave = bp_gen_block(g, "leave");
  LLVMPositionBuilderAtEnd(g->builder, g->entry);
  g->rc = LLVMBuildAlloca(g->builder, g->i32, "rc");
  LLVMPositionBuilderAtEnd(g->builder, start);
}

static void close_function(BpGen *g) {
  LLVMBuilderRef b = g->builder;
  LLVMBuildBr(b, g->leave);
  LLVMPositionBuilderAtEnd(b, g->leave);
  LLVMBuildRet(b, LLVMBuildLoad2(b, g->i32, g->rc, ""));
  LLVMPositionBuilderAtEnd(b, g->entry);
  LLVMBuildStore(b, bp_gen_i32(g, 0), g->rc);
  LLVMBuildBr(b, LLVMGetNextBasicBlock(g->entry));
  bp_pointer_map_clear(&g->symbols);
  bp_pointer_map_clear(&g->known);
}

static void add_noalias(BpGen *g, LLVMValueRef function, int32_t i) {
  uint32_t kind = LLVMGetEnumAttributeKindForName("noalias", 7);
  LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)i + 1,
                          LLVMCreateEnumAttribute(g->context, kind, 0));
}

static LLVMValueRef body_function(BpGen *g, int32_t count) {
  LLVMTypeRef *types = calloc((size_t)count + 1, sizeof(*types));
  char name[256];
  if (!types) {
    bp_gen_fail(g, BP_ERROR_MEMORY, "out of memory");
    return NULL;
  }
  for (int32_t i = 0; i < count; i++)
    types[i] =
        is_buffer(g, i) ? g->ptr : bp_gen_type(g, g->ir->dtype(g->ir->operand(g->ir_function, i)));
  snprintf(name, sizeof(name), "body_%s", g->ir->str_value(g->ir_function));
  open_function(g, name, LLVMFunctionType(g->i32, types, (uint32_t)count, 0), LLVMInternalLinkage);
  free(types);
  int is_noalias = g->ir->find_attr(g->ir_function, BP_IR_ATTR_NOALIAS) != NULL;
  for (int32_t i = 0; i < count; i++) {
    bp_gen_bind(g, g->ir->operand(g->ir_function, i), LLVMGetParam(g->function, (uint32_t)i));
    if (is_noalias && is_buffer(g, i))
      add_noalias(g, g->function, i);
  }
  LLVMValueRef body = g->function;
  bp_gen_stmt(g, g->ir->operand(g->ir_function, g->ir->num_operands(g->ir_function) - 1));
  close_function(g);
  return body;
}

static void packed_function(BpGen *g, int32_t count, LLVMValueRef body) {
  LLVMTypeRef types[] = {g->ptr, g->ptr, g->i32, g->ptr};
  char name[256], text[MESSAGE_SIZE], shown[NAME_SIZE];
  const char *ir_name = g->ir->str_value(g->ir_function);
  LLVMValueRef *values = calloc((size_t)count + 1, sizeof(*values));
  if (!values) {
    bp_gen_fail(g, BP_ERROR_MEMORY, "out of memory");
    return;
  }
  snprintf(name, sizeof(name), "__tvm_ffi_%s", ir_name);
  open_function(g, name, LLVMFunctionType(g->i32, types, 4, 0), LLVMExternalLinkage);
  check_cpu(g);
  LLVMValueRef args = LLVMGetParam(g->function, 1);
  LLVMValueRef got = LLVMGetParam(g->function, 2);
  snprintf(text, sizeof(text), "%s: expected %d arguments, got %%d", escape(ir_name, shown), count);
  fail_if(g, not_equal(g, got, bp_gen_i32(g, count)), BP_ERROR_TYPE, text, &got, 1);
  /* Scalars are read first: the extents of tensors may depend on them. */
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < count; i++) {
      LLVMValueRef arg = bp_gen_offset(g, args, i * (int64_t)sizeof(BpValue));
      if (is_buffer(g, i) != pass)
        continue;
      values[i] = pass ? tensor_argument(g, i, arg) : scalar_argument(g, i, arg);
      if (!pass)
        bp_gen_bind(g, g->ir->operand(g->ir_function, i), values[i]);
    }
  }
  LLVMValueRef rc =
      LLVMBuildCall2(g->builder, LLVMGlobalGetValueType(body), body, values, (uint32_t)count, "");
  LLVMBuildStore(g->builder, rc, g->rc);
  free(values);
  close_function(g);
}

void bp_gen_function(BpGen *g, const BpIrNode *function) {
  int32_t count = (int32_t)g->ir->int_value(function);
  g->ir_function = function;
  g->depth = 0;
  if (g->ir->find_attr(function, BP_IR_ATTR_KERNEL)) {
    bp_gen_fail(g, BP_ERROR_NOT_IMPLEMENTED, "a kernel");
    return;
  }
  LLVMValueRef body = body_function(g, count);
  if (body && !g->failed)
    packed_function(g, count, body);
}
