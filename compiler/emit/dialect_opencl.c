/* SPDX-License-Identifier: Apache-2.0 */
/* Dialect "opencl": OpenCL C 1.2 with its vectors. float16 is stored, through built-in functions
 * that need no extension, and computed as float; doubles need cl_khr_fp64. The float16 intrinsics
 * are for a dialect whose float16 is a type of the language (cl_khr_fp16). Only intrinsics that
 * round to the nearest have float16 rows; the float32 functions are more accurate for the
 * others. */
#include "compiler/emit/dialect.h"

static const char half_support[] =
    "typedef ushort bp_half;\n"
    "float bp_half_to_float(ushort h) { return vload_half(0, (const half *)&h); }\n"
    "ushort bp_float_to_half(float f) {\n"
    "  ushort h;\n"
    "  vstore_half_rte(f, 0, (half *)&h);\n"
    "  return h;\n"
    "}\n"
    "#define BP_HALVES(N) \\\n"
    "  float##N bp_f16_widen_##N(ushort##N h) { \\\n"
    "    return vload_half##N(0, (const half *)&h); \\\n"
    "  } \\\n"
    "  ushort##N bp_f16_narrow_##N(float##N f) { \\\n"
    "    ushort##N h; \\\n"
    "    vstore_half##N##_rte(f, 0, (half *)&h); \\\n"
    "    return h; \\\n"
    "  }\n"
    "BP_HALVES(2) BP_HALVES(4) BP_HALVES(8) BP_HALVES(16)\n";

static const char bfloat_support[] =
    "typedef ushort bp_bfloat;\n"
    "float bp_bfloat_to_float(ushort h) { return as_float((uint)h << 16); }\n"
    "ushort bp_float_to_bfloat(float f) {\n"
    "  uint bits = as_uint(f);\n"
    "  if ((bits & 0x7fffffffu) > 0x7f800000u)\n"
    "    return (ushort)(bits >> 16 | 0x40u);\n"
    "  return (ushort)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);\n"
    "}\n"
    "#define BP_BFLOATS(N) \\\n"
    "  float##N bp_bf16_widen_##N(ushort##N h) { \\\n"
    "    return as_float##N(convert_uint##N(h) << 16); \\\n"
    "  } \\\n"
    "  ushort##N bp_bf16_narrow_##N(float##N f) { \\\n"
    "    uint##N bits = as_uint##N(f); \\\n"
    "    uint##N near = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40u; \\\n"
    "    return convert_ushort##N(select(near, quiet, f != f)); \\\n"
    "  }\n"
    "BP_BFLOATS(2) BP_BFLOATS(4) BP_BFLOATS(8) BP_BFLOATS(16)\n";

static const BpDialectType types[] = {
    BP__INTEGER(BP_DTYPE_INT, 8, "char", ""),
    BP__INTEGER(BP_DTYPE_INT, 16, "short", ""),
    BP__INTEGER(BP_DTYPE_INT, 32, "int", ""),
    BP__INTEGER(BP_DTYPE_INT, 64, "long", "L"),
    BP__INTEGER(BP_DTYPE_UINT, 8, "uchar", ""),
    BP__INTEGER(BP_DTYPE_UINT, 16, "ushort", ""),
    BP__INTEGER(BP_DTYPE_UINT, 32, "uint", "u"),
    BP__INTEGER(BP_DTYPE_UINT, 64, "ulong", "UL"),
    BP__INTEGER(BP_DTYPE_BOOL, 8, "uchar", ""),
    {{BP_DTYPE_FLOAT, 32, 1}, 0, "float", "f", "INFINITY", "NAN", 0, 0, 0},
    {{BP_DTYPE_FLOAT, 64, 1},
     0,
     "double",
     "",
     "((double)INFINITY)",
     "((double)NAN)",
     0,
     0,
     "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"},
    {{BP_DTYPE_FLOAT, 16, 1},
     32,
     "ushort",
     "",
     0,
     0,
     "bp_half_to_float($1)",
     "bp_float_to_half($1)",
     half_support},
    {{BP_DTYPE_BFLOAT, 16, 1},
     32,
     "ushort",
     "",
     0,
     0,
     "bp_bfloat_to_float($1)",
     "bp_float_to_bfloat($1)",
     bfloat_support},
};

#define UNARY(name)      BP__FLOAT_ROW(name, 0, 1, #name "($1)")
#define BINARY(name)     BP__FLOAT_ROW(name, 0, 1, #name "($1, $2)")
#define HALF_UNARY(name) BP__FLOAT_ROW(name, 16, 1, #name "($1)")

static const BpDialectIntrinsic intrinsics[] = {
    HALF_UNARY(sqrt),
    HALF_UNARY(floor),
    HALF_UNARY(ceil),
    HALF_UNARY(trunc),
    HALF_UNARY(isnan),
    HALF_UNARY(isinf),
    {"abs", BP_DTYPE_FLOAT, 16, 1, "fabs($1)"},
    {"round", BP_DTYPE_FLOAT, 16, 1, "rint($1)"},
    {"copysign", BP_DTYPE_FLOAT, 16, 1, "copysign($1, $2)"},
    {"fma", BP_DTYPE_FLOAT, 16, 1, "fma($1, $2, $3)"},
    /* PoCL 3.1 is inaccurate if one lane is large or infinite: sines of small lanes are off by
     * 0.008. */
    {"sin", BP_DTYPE_FLOAT, 0, 0, "sin($1)"},
    {"cos", BP_DTYPE_FLOAT, 0, 0, "cos($1)"},
    {"tan", BP_DTYPE_FLOAT, 0, 0, "tan($1)"},
    BP__EACH_UNARY(UNARY),
    UNARY(rsqrt),
    /* PoCL 3.1 computes fmod and pow wrongly for vectors of double. */
    {"fmod", BP_DTYPE_FLOAT, 64, 0, "fmod($1, $2)"},
    {"pow", BP_DTYPE_FLOAT, 64, 0, "pow($1, $2)"},
    BP__EACH_BINARY(BINARY),
    {"pow", BP_DTYPE_FLOAT, 32, 1, "pow($1, $2)"},
    {"round", BP_DTYPE_FLOAT, 0, 1, "rint($1)"},
    {"sigmoid", BP_DTYPE_FLOAT, 32, 1, "(1.0f / (1.0f + exp(-$1)))"},
    {"sigmoid", BP_DTYPE_FLOAT, 64, 1, "(1.0 / (1.0 + exp(-$1)))"},
    {"abs", BP_DTYPE_FLOAT, 0, 1, "fabs($1)"},
    {"abs", BP_DTYPE_INT, 8, 0, "((char)abs($1))"},
    {"abs", BP_DTYPE_INT, 16, 0, "((short)abs($1))"},
    {"abs", BP_DTYPE_INT, 32, 0, "((int)abs($1))"},
    {"abs", BP_DTYPE_INT, 64, 0, "((long)abs($1))"},
    {"abs", BP_DTYPE_UINT, 0, 1, "$1"},
    {"fma", BP_DTYPE_FLOAT, 0, 1, "fma($1, $2, $3)"},
    {"isnan", BP_DTYPE_FLOAT, 0, 1, "isnan($1)"},
    {"isinf", BP_DTYPE_FLOAT, 0, 1, "isinf($1)"},
    {"popcount", BP_DTYPE_INT, 0, 1, "popcount($1)"},
    {"popcount", BP_DTYPE_UINT, 0, 1, "popcount($1)"},
    {"prefetch", BP_DTYPE_HANDLE, 0, 0, "prefetch($1, 1)"},
};

static const BpDialectAxis axes[] = {
    {"blockIdx.x", "get_group_id(0)"},  {"blockIdx.y", "get_group_id(1)"},
    {"blockIdx.z", "get_group_id(2)"},  {"threadIdx.x", "get_local_id(0)"},
    {"threadIdx.y", "get_local_id(1)"}, {"threadIdx.z", "get_local_id(2)"},
};

const BpDialect bp__dialect_opencl = {
    .struct_size = sizeof(BpDialect),
    .name = "opencl",
    .flags = BP_DIALECT_POINTERS | BP_DIALECT_VECTORS,
    .num_types = BP__COUNT(types),
    .types = types,
    .type_size = sizeof(BpDialectType),
    .num_intrinsics = BP__COUNT(intrinsics),
    .num_axes = BP__COUNT(axes),
    .intrinsics = intrinsics,
    .intrinsic_size = sizeof(BpDialectIntrinsic),
    .axes = axes,
    .axis_size = sizeof(BpDialectAxis),
    .prologue = "/* Generated by Backplane. */\n",
    .kernel = "__kernel __attribute__((reqd_work_group_size($4, $5, $6))) void $1($2)",
    .buffer_param = "__global $1 *$4 $2",
    .scalar_param = "const $1 $2",
    .no_alias = "restrict",
    .local_array = "$1 $2[$3]",
    .shared_array = "__local $1 $2[$3]",
    .unroll = "#pragma unroll $1",
    .barrier_shared = "barrier(CLK_LOCAL_MEM_FENCE);",
    .barrier_global = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    .cast = "(($1)$2)",
    .reinterpret = "as_$1(($3)($2))",
    .max_lanes = 16,
    .vector_type = "$1$2",
    .vector_make = "(($1)($2))",
    .vector_lane = "$1.s$3",
    .vector_splat = "(($1)($2))",
    .vector_load = "vload$4(0, $2 + $3)",
    .vector_store = "vstore$4($5, 0, $2 + $3)",
    .vector_select = "select($4, $3, $2)",
    .vector_convert = "convert_$1($2)",
    .vector_bits = "as_$1($2)",
    .vector_widen = "bp_$5_widen_$4($2)",
    .vector_narrow = "bp_$5_narrow_$4($2)",
};
