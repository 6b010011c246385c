/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of float16 and bfloat16, which are stored as integers and computed as float32. LLVM's
 * conversions of float16 are used only if the CPU has an instruction for them: without one, LLVM
 * calls a library function for each lane. */
#include "llvm_gen.h"

static BpDataType word_of(BpDataType dtype) {
  return (BpDataType){BP_DTYPE_UINT, 32, dtype.lanes};
}

static LLVMTypeRef half_type(BpGen *g, int32_t lanes) {
  LLVMTypeRef half = LLVMHalfTypeInContext(g->context);
  return lanes > 1 ? LLVMVectorType(half, (uint32_t)lanes) : half;
}

static LLVMValueRef as_float(BpGen *g, BpDataType dtype, LLVMValueRef bits) {
  return LLVMBuildBitCast(g->builder, bits, bp_gen_type(g, bp_gen_compute_dtype(dtype)), "");
}

static LLVMValueRef as_word(BpGen *g, BpDataType dtype, LLVMValueRef value) {
  return LLVMBuildBitCast(g->builder, value, bp_gen_type(g, word_of(dtype)), "");
}

static LLVMValueRef float_const(BpGen *g, BpDataType dtype, double value) {
  LLVMValueRef constant = LLVMConstReal(g->f32, value);
  return dtype.lanes > 1 ? bp_gen_splat(g, constant, dtype.lanes) : constant;
}

/* Bit operations on words with a constant. */
static LLVMValueRef and_(BpGen *g, BpDataType dtype, LLVMValueRef a, int64_t b) {
  return LLVMBuildAnd(g->builder, a, bp_gen_const(g, word_of(dtype), b), "");
}

static LLVMValueRef or_(BpGen *g, BpDataType dtype, LLVMValueRef a, int64_t b) {
  return LLVMBuildOr(g->builder, a, bp_gen_const(g, word_of(dtype), b), "");
}

static LLVMValueRef add(BpGen *g, BpDataType dtype, LLVMValueRef a, int64_t b) {
  return LLVMBuildAdd(g->builder, a, bp_gen_const(g, word_of(dtype), b), "");
}

static LLVMValueRef shift_left(BpGen *g, BpDataType dtype, LLVMValueRef a, int64_t b) {
  return LLVMBuildShl(g->builder, a, bp_gen_const(g, word_of(dtype), b), "");
}

static LLVMValueRef shift_right(BpGen *g, BpDataType dtype, LLVMValueRef a, int64_t b) {
  return LLVMBuildLShr(g->builder, a, bp_gen_const(g, word_of(dtype), b), "");
}

static LLVMValueRef below(BpGen *g, BpDataType dtype, LLVMValueRef a, int64_t b) {
  return LLVMBuildICmp(g->builder, LLVMIntULT, a, bp_gen_const(g, word_of(dtype), b), "");
}

/* ---- Integer arithmetic ------------------------------------------------------------------ */

/* A subnormal float16 is a multiple of 2^-24. */
static LLVMValueRef widen_half(BpGen *g, BpDataType from, LLVMValueRef word) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef rest = and_(g, from, word, 0x7fff);
  LLVMValueRef sign = shift_left(g, from, and_(g, from, word, 0x8000), 16);
  LLVMValueRef normal = add(g, from, shift_left(g, from, rest, 13), 0x38000000);
  LLVMValueRef count = LLVMBuildSIToFP(b, rest, bp_gen_type(g, bp_gen_compute_dtype(from)), "");
  LLVMValueRef small = LLVMBuildFMul(b, count, float_const(g, from, 0x1p-24), "");
  LLVMValueRef finite = LLVMBuildSelect(b, below(g, from, rest, 0x7c00), normal,
                                        add(g, from, normal, 0x38000000), "");
  LLVMValueRef bits =
      LLVMBuildSelect(b, below(g, from, rest, 0x400), as_word(g, from, small), finite, "");
  return as_float(g, from, LLVMBuildOr(b, sign, bits, ""));
}

/* If the result is subnormal, adding 0.5 rounds the float to a multiple of 2^-24. */
static LLVMValueRef narrow_half(BpGen *g, BpDataType to, LLVMValueRef value) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef word = as_word(g, to, value), rest = and_(g, to, word, 0x7fffffff);
  LLVMValueRef sign = and_(g, to, shift_right(g, to, word, 16), 0x8000);
  LLVMValueRef odd = and_(g, to, shift_right(g, to, rest, 13), 1);
  LLVMValueRef normal = LLVMBuildAdd(b, add(g, to, rest, (int32_t)0xc8000fff), odd, "");
  LLVMValueRef moved = LLVMBuildFAdd(b, as_float(g, to, rest), float_const(g, to, 0.5), "");
  LLVMValueRef small = add(g, to, as_word(g, to, moved), -0x3f000000);
  LLVMValueRef payload = and_(g, to, shift_right(g, to, rest, 13), 0x3ff);
  LLVMValueRef large =
      LLVMBuildSelect(b, below(g, to, rest, 0x7f800001), bp_gen_const(g, word_of(to), 0x7c00),
                      or_(g, to, payload, 0x7e00), "");
  LLVMValueRef finite =
      LLVMBuildSelect(b, below(g, to, rest, 0x38800000), small, shift_right(g, to, normal, 13), "");
  return LLVMBuildOr(b, sign, LLVMBuildSelect(b, below(g, to, rest, 0x477ff000), finite, large, ""),
                     "");
}

/* Rounds float32 to bfloat16, to nearest with ties to even; NaN stays NaN. */
static LLVMValueRef narrow_bfloat(BpGen *g, BpDataType to, LLVMValueRef value) {
  LLVMBuilderRef b = g->builder;
  LLVMValueRef word = as_word(g, to, value), high = shift_right(g, to, word, 16);
  LLVMValueRef odd = and_(g, to, high, 1);
  LLVMValueRef nearest = shift_right(g, to, LLVMBuildAdd(b, add(g, to, word, 0x7fff), odd, ""), 16);
  LLVMValueRef is_nan = LLVMBuildFCmp(b, LLVMRealUNO, value, value, "");
  return LLVMBuildSelect(b, is_nan, or_(g, to, high, 0x40), nearest, "");
}

/* ---- Both directions --------------------------------------------------------------------- */

LLVMValueRef bp_gen_widen(BpGen *g, BpDataType from, LLVMValueRef bits) {
  LLVMTypeRef type = bp_gen_type(g, bp_gen_compute_dtype(from));
  if (from.code == BP_DTYPE_FLOAT && g->has_halves) {
    LLVMValueRef half = LLVMBuildBitCast(g->builder, bits, half_type(g, from.lanes), "");
    LLVMValueRef wide = LLVMBuildFPExt(g->builder, half, type, "");
    /* Hides the value from LLVM, which would otherwise compare the float16 values, lane by lane. */
    return bp_gen_intrinsic(g, "llvm.arithmetic.fence", type, &wide, 1);
  }
  LLVMValueRef word = LLVMBuildZExt(g->builder, bits, bp_gen_type(g, word_of(from)), "");
  return from.code == BP_DTYPE_FLOAT ? widen_half(g, from, word)
                                     : as_float(g, from, shift_left(g, from, word, 16));
}

LLVMValueRef bp_gen_narrow(BpGen *g, BpDataType to, LLVMValueRef value) {
  if (to.code == BP_DTYPE_FLOAT && g->has_halves) {
    LLVMValueRef half = LLVMBuildFPTrunc(g->builder, value, half_type(g, to.lanes), "");
    return LLVMBuildBitCast(g->builder, half, bp_gen_type(g, to), "");
  }
  LLVMValueRef word =
      to.code == BP_DTYPE_FLOAT ? narrow_half(g, to, value) : narrow_bfloat(g, to, value);
  return LLVMBuildTrunc(g->builder, word, bp_gen_type(g, to), "");
}
