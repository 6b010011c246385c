/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter for languages of the C family, and the table that describes such a language.
 *
 * A generator for C, OpenCL C, CUDA C, GLSL or another language of that kind fetches the emitter
 * from the host, takes a dialect (one of those built in, perhaps as a copy with members changed, or
 * one of its own), and gets the text of a whole IR module.
 *
 * Members of a dialect that are text are templates: `$1` to `$9` stand for the arguments that the
 * member's comment lists, `$$` for a dollar sign. An argument that is an expression is either an
 * atom or in parentheses; one that a template uses more than once is evaluated once, into a
 * variable. A NULL template means what the comment says after "NULL:". */
#ifndef BACKPLANE_EMITTER_API_H
#define BACKPLANE_EMITTER_API_H

#include <backplane/ir_api.h>
#include <backplane/module_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tables within a dialect ------------------------------------------------------------- */

/* A scalar type. One that the language can only store (a half float, say) names in `compute_bits`
 * the float type in which its arithmetic is done, and how to convert. */
typedef struct BpDialectType {
  BpDataType dtype;       /* lanes: 1 */
  int32_t compute_bits;   /* 0: arithmetic in the type itself */
  const char *name;       /* "unsigned char" */
  const char *suffix;     /* of literals: "f", "LL"; "". NULL: none, an int is cast */
  const char *infinity;   /* of floats, an expression; else NULL */
  const char *not_number; /* a quiet NaN, likewise */
  const char *widen;      /* with compute_bits: $1 to the compute type, and back */
  const char *narrow;
  const char *support; /* text put before the functions of a program that uses the type, or NULL */
} BpDialectType;

/* An intrinsic for one type of result. */
typedef struct BpDialectIntrinsic {
  const char *name; /* "exp" */
  int32_t code;     /* BP_DTYPE_* of its first argument */
  int32_t bits;     /* of that argument; 0: any */
  int32_t vectors;  /* 0: scalars only, vectors are done lane by lane; 1: vectors as well */
  const char *text; /* $1, $2, ...: the arguments */
} BpDialectIntrinsic;

/* A thread axis. */
typedef struct BpDialectAxis {
  const char *tag;  /* "blockIdx.x" */
  const char *text; /* an expression of the language's index type */
} BpDialectAxis;

/* ---- The dialect ------------------------------------------------------------------------- */

/* Flags of a dialect. */
#define BP_DIALECT_HOST          1  /* functions are packed functions; see docs/codegen.md */
#define BP_DIALECT_POINTERS      2  /* the language has pointers: ADDRESS works */
#define BP_DIALECT_VECTORS       4  /* + - * / etc. work on vectors, see `vector_type` */
#define BP_DIALECT_PARAMS_GLOBAL 8  /* a device's parameters are declared before the function */
#define BP_DIALECT_SHARED_GLOBAL 16 /* shared arrays are declared before the function */
#define BP_DIALECT_STRICT_BOOL   32 /* a bool is no number, and is a uint8 in memory */
#define BP_DIALECT_WRAPS         64 /* overflow of signed integers is defined: it wraps */
/* + - *, min, max and comparisons of float16 are done in the type itself, whatever its
 * `compute_bits`: each rounds once, to the same number as the way there and back would. So are the
 * intrinsics with a row of 16 bits, and vectors are converted by `vector_convert`. */
#define BP_DIALECT_HALVES 128
/* A device function's parameters are statements at the beginning of its body: for a language, or a
 * driver, that hands it one block of arguments. */
#define BP_DIALECT_PARAMS_LOCAL 256
/* All flags of these headers. The emitter refuses others. */
#define BP_DIALECT_KNOWN_FLAGS 511

/* A language. `struct_size` is that of the headers it was made with. */
typedef struct BpDialect {
  uint64_t struct_size;
  const char *name; /* "opencl" */
  int32_t flags;    /* BP_DIALECT_* */

  /* Tables, with the size of a row in the headers that the dialect was made with. They are read
   * with bp_dialect_type and its kin: rows may be longer, or shorter. */
  int32_t num_types;
  const BpDialectType *types;
  uint64_t type_size;
  int32_t num_intrinsics;
  int32_t num_axes;
  const BpDialectIntrinsic *intrinsics;
  uint64_t intrinsic_size;
  const BpDialectAxis *axes;
  uint64_t axis_size;

  const char *prologue; /* the beginning of the text, as it stands */
  const char *support;  /* more text after it, or NULL */

  /* -- functions. Templates. */
  /* The head of a kernel: $1 name, $2 parameters, $3 threads in a block, $4 $5 $6 of them along x,
   * y and z. NULL: kernels are refused. */
  const char *kernel;
  /* The head of a function without a launch, as a host has them, and a device of whose target the
   * attribute thread_axes is false: $1 name, $2 parameters. NULL: refused. */
  const char *function;
  /* Statement at the beginning of a packed function, $1 its name. NULL: nothing */
  const char *entry;
  /* $1 element type, $2 name, $3 position, $4 `no_alias` or nothing: one parameter; the text of a
   * global declaration with BP_DIALECT_PARAMS_GLOBAL, of a statement with _PARAMS_LOCAL. */
  const char *buffer_param;
  const char *scalar_param;
  const char *no_alias; /* the word on a pointer to what no other one points to: "restrict" */
  /* $1 element type, $2 name, $3 number of elements. NULL: refused. */
  const char *local_array;
  const char *shared_array;
  const char *unroll;         /* before a loop: $1 how often. NULL: nothing */
  const char *no_unroll;      /* before a loop. NULL: nothing */
  const char *barrier_shared; /* statement. NULL: refused */
  const char *barrier_global;

  /* -- scalar expressions. Templates. */
  const char *cast;        /* $1 to type, $2 value */
  const char *reinterpret; /* $1 to type, $2 value, $3 from type. NULL: refused */

  /* -- vectors. Templates; used only with BP_DIALECT_VECTORS. Comparisons give, and `vector_select`
   * takes, integer vectors of the operands' width whose lanes are 0 or -1. */
  int32_t max_lanes;       /* powers of two up to this; others are refused */
  int32_t reserved;        /* zero */
  const char *vector_type; /* $1 scalar type, $2 lanes, $3 short name of the scalar type, "f32" */
  /* Put before the functions, once for each type used. $1 scalar type, $2 lanes, $3 name of the
   * vector type, $4 its bytes, $5 bytes of a lane. NULL: nothing */
  const char *vector_typedef;
  const char *vector_make;    /* $1 type, $2 the lanes, separated by commas */
  const char *vector_lane;    /* $1 vector, $2 number, $3 number as a hexadecimal digit */
  const char *vector_splat;   /* $1 type, $2 scalar, $3 lanes, $4 scalar type. NULL: vector_make */
  const char *vector_load;    /* $1 type, $2 pointer or array, $3 index of lane 0, $4 lanes */
  const char *vector_store;   /* the same, $5 value */
  const char *vector_select;  /* $1 type, $2 mask, $3 if set, $4 if clear, $5 type of the mask */
  const char *vector_convert; /* $1 type, $2 value, $3 from type */
  const char *vector_bits;    /* reinterpret: $1 type, $2 value */
  const char *vector_shuffle; /* $1 type, $2 and $3 vectors, $4 positions. NULL: lane by lane */
  /* Only the lanes i for which bit i of $5, an unsigned integer of 64 bits, is set; the others are
   * zero, or not stored. Operands as vector_load's, and $6 the value. NULL: lane by lane */
  const char *vector_load_bits;
  const char *vector_store_bits;
  /* A number with the $1 lowest bits set: none if $1 is negative, all 64 if it is larger. */
  const char *first_bits;

  /* -- more of functions and scalar expressions. Templates. */
  /* With BP_DIALECT_PARAMS_GLOBAL, around the scalars of a kernel: $1 all that scalar_param gave
   * for them, each at least 32 bits wide. NULL: nothing around them */
  const char *scalar_block;
  const char *remainder;  /* of signed integers, sign of $1: $1 and $2. NULL: $1 % $2 */
  const char *contract;   /* $1 * $2 + $3 of float32, rounded once or twice. NULL: as it stands */
  const char *index_type; /* what a wider index is cast to. NULL: it is left */

  /* -- non-temporal stores, to parameters with BP_IR_ATTR_STREAMED. */
  const char *vector_stream; /* as vector_store, at any address. NULL: as any store */
  /* Statement after which other threads see these stores: a fence. NULL: nothing */
  const char *stream_end;

  /* -- more of vectors. */
  /* Text put before the first vector type. NULL: nothing */
  const char *vector_support;
  /* Used instead of vector_load and vector_store where lane 0 is at a multiple of
   * `vector_alignment` bytes, or of the vector's size if that is smaller, in a buffer or array that
   * begins so, as the dialect's arrays and whoever launches the kernel see to. NULL: never */
  const char *vector_load_aligned;
  const char *vector_store_aligned;
  int32_t vector_alignment;
  int32_t reserved_end; /* zero */

  /* -- texel buffers: how a kernel has parameters of 32-bit elements that it only reads. Elements
   * are loaded as texels of one or four; a load out of bounds has to be harmless. All or none;
   * used with BP_DIALECT_PARAMS_GLOBAL. */
  const char *texel_param; /* $1 element type, $2 name, $3 position, $4 elements of a texel */
  const char *texel_type;  /* $1 element type: of a texel that was loaded */
  const char *texel_load;  /* $1 name, $2 number of the texel */
  const char *texel_lane;  /* $1 texel, $2 number of the element in it */

  /* -- more of vectors: those of a type with compute_bits in the compute type, and back. $1 to
   * type, $2 value, $3 from type, $4 lanes, $5 short name of the type with compute_bits: "f16".
   * Both or none; NULL: lane by lane */
  const char *vector_widen;
  const char *vector_narrow;

  /* A float32 of 0 whose value compilers of the language cannot see. A constant 0 is written so
   * where it multiplies or divides: NaN and infinity times 0 are NaN, which some compilers forget.
   * It is added to the 64-bit integers that others are compared with, which some narrow wrongly.
   * NULL: as any number */
  const char *hidden_zero;
} BpDialect;

/* Row `index` of a dialect's tables. Members beyond the row's size are not there. */
static inline const BpDialectType *bp_dialect_type(const BpDialect *dialect, int32_t index) {
  return (const BpDialectType *)((const char *)dialect->types +
                                 dialect->type_size * (uint64_t)index);
}

static inline const BpDialectIntrinsic *bp_dialect_intrinsic(const BpDialect *dialect,
                                                             int32_t index) {
  return (const BpDialectIntrinsic *)((const char *)dialect->intrinsics +
                                      dialect->intrinsic_size * (uint64_t)index);
}

static inline const BpDialectAxis *bp_dialect_axis(const BpDialect *dialect, int32_t index) {
  return (const BpDialectAxis *)((const char *)dialect->axes +
                                 dialect->axis_size * (uint64_t)index);
}

/* ---- The emitter ------------------------------------------------------------------------- */

#define BP_TABLE_EMITTER         "emitter"
#define BP_TABLE_EMITTER_VERSION 1

/* The emitter. Its functions may be called from any thread. */
typedef struct BpEmitterTable {
  uint64_t struct_size;
  /* A built-in dialect: "c", "cuda", "glsl" or "opencl"; static. NULL, with an error, for another
   * name. */
  const BpDialect *(*get_dialect)(const char *name);
  /* The text of all functions of `module`, NUL-terminated (the size does not count the NUL). A
   * construct that the dialect cannot express raises BP_ERROR_NOT_IMPLEMENTED and names it. */
  int32_t (*emit)(const BpIrModule *module, const BpDialect *dialect, BpOwnedBytes *text);
  /* The same of function `index` alone, for languages of one function a program. */
  int32_t (*emit_function)(const BpIrModule *module, int32_t index, const BpDialect *dialect,
                           BpOwnedBytes *text);
} BpEmitterTable;

#ifdef __cplusplus
}
#endif

#endif
