/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter for languages of the C family, and the table that describes such a language.
 *
 * A generator for C, OpenCL C, CUDA C, GLSL or a similar language fetches the emitter from the
 * host, chooses a dialect (a built-in one, a changed copy of one, or its own), and gets the text of
 * a whole IR module.
 *
 * Members of a dialect that are text are templates: `$1` to `$9` stand for the arguments that the
 * member's comment lists, `$$` for a dollar sign. An argument that is an expression is either an
 * atom or in parentheses; an argument that a template uses more than once is evaluated once, into a
 * variable. The comment of a template says after "NULL:" what NULL means. */
#ifndef BACKPLANE_EMITTER_API_H
#define BACKPLANE_EMITTER_API_H

#include <backplane/ir_api.h>
#include <backplane/module_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tables within a dialect ------------------------------------------------------------- */

/* A scalar type. If the language can only store the type (a half float, say), `compute_bits` is the
 * size of the float type in which its arithmetic is done, and `widen` and `narrow` convert. */
typedef struct BpDialectType {
  BpDataType dtype;       /* lanes: 1 */
  int32_t compute_bits;   /* 0: arithmetic in the type itself */
  const char *name;       /* "unsigned char" */
  const char *suffix;     /* suffix of literals: "f", "LL"; "". NULL: none, an int is cast */
  const char *infinity;   /* expression for infinity; NULL if not a float type */
  const char *not_number; /* a quiet NaN of a float type; else NULL */
  const char *widen;      /* with compute_bits: converts $1 to the compute type */
  const char *narrow;     /* with compute_bits: converts $1 back */
  const char *support; /* text put before the functions of a program that uses the type, or NULL */
} BpDialectType;

/* An intrinsic for one type of its first argument. */
typedef struct BpDialectIntrinsic {
  const char *name; /* "exp" */
  int32_t code;     /* BP_DTYPE_* of the function's first argument */
  int32_t bits;     /* bits of that argument's type; 0: any */
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
#define BP_DIALECT_PARAMS_GLOBAL 8  /* parameters are declared before the kernel */
#define BP_DIALECT_SHARED_GLOBAL 16 /* shared arrays are declared before the function */
#define BP_DIALECT_STRICT_BOOL   32 /* a bool is not a number, and is a uint8 in memory */
#define BP_DIALECT_WRAPS         64 /* overflow of signed integers is defined: it wraps */
/* + - *, min, max and comparisons of float16 are done in float16, whatever its `compute_bits`: each
 * rounds once, to the same number as converting to the compute type and back would. Intrinsics that
 * have a row of 16 bits are computed in float16, too. `vector_convert` converts vectors. */
#define BP_DIALECT_HALVES 128
/* A device function's parameters are statements at the beginning of its body: for a language or
 * driver that passes the function one block of arguments. */
#define BP_DIALECT_PARAMS_LOCAL 256
/* All flags of these headers. The emitter refuses other flags. */
#define BP_DIALECT_KNOWN_FLAGS 511

/* A language. `struct_size` is the size of the structure in the headers with which the dialect was
 * made. */
typedef struct BpDialect {
  uint64_t struct_size;
  const char *name; /* "opencl" */
  int32_t flags;    /* BP_DIALECT_* */

  /* Tables, each with the size of a row in the headers that the dialect was made with.
   * bp_dialect_type and similar functions read them: rows may be longer, or shorter. */
  int32_t num_types;
  const BpDialectType *types;
  uint64_t type_size;
  int32_t num_intrinsics;
  int32_t num_axes;
  const BpDialectIntrinsic *intrinsics;
  uint64_t intrinsic_size;
  const BpDialectAxis *axes;
  uint64_t axis_size;

  const char *prologue; /* the beginning of the generated text, unchanged */
  /* Text after `prologue`, or NULL. A line that is the C comment " part NAME " begins a part, which
   * ends before the next line of this form. A part is written, without that line, only if the
   * generated functions or a later written part contain NAME as a word. */
  const char *support;

  /* -- functions. Templates. */
  /* The head of a kernel: $1 name, $2 parameters, $3 threads in a block, $4 $5 $6 threads of the
   * block along x, y and z. NULL: kernels are refused. */
  const char *kernel;
  /* The head of a function without a launch: a host has such functions, and so has a device whose
   * target has thread_axes false. $1 name, $2 parameters. NULL: refused. */
  const char *function;
  /* Statement at the beginning of a packed function, $1 its name. NULL: nothing */
  const char *entry;
  /* One parameter: $1 element type, $2 name, $3 position, $4 `no_alias` or nothing. The text is a
   * global declaration with BP_DIALECT_PARAMS_GLOBAL, and a statement with
   * BP_DIALECT_PARAMS_LOCAL. */
  const char *buffer_param;
  const char *scalar_param;
  const char *no_alias; /* the qualifier of a pointer that no other pointer aliases: "restrict" */
  /* The declaration of an array: $1 element type, $2 name, $3 number of elements. NULL: refused. */
  const char *local_array;
  const char *shared_array;
  const char *unroll;         /* text before an unrolled loop: $1 iterations. NULL: none */
  const char *no_unroll;      /* text before a loop that must not be unrolled. NULL: none */
  const char *barrier_shared; /* statement. NULL: refused */
  const char *barrier_global;

  /* -- scalar expressions. Templates. */
  const char *cast;        /* $1 to type, $2 value */
  const char *reinterpret; /* $1 to type, $2 value, $3 from type. NULL: refused */

  /* -- vectors. Templates; used only with BP_DIALECT_VECTORS. A comparison gives an integer vector
   * of the operands' width whose lanes are 0 or -1; `vector_select` takes that integer vector. */
  int32_t max_lanes;       /* lanes are powers of two up to this; other vectors are refused */
  int32_t reserved;        /* zero */
  const char *vector_type; /* $1 scalar type, $2 lanes, $3 short name of the scalar type, "f32" */
  /* The definition of a vector type, put before the functions once for each type used. $1 scalar
   * type, $2 lanes, $3 name of the vector type, $4 its bytes, $5 bytes of a lane. NULL: nothing */
  const char *vector_typedef;
  const char *vector_make;    /* $1 type, $2 the lanes, separated by commas */
  const char *vector_lane;    /* $1 vector, $2 number, $3 number as a hexadecimal digit */
  const char *vector_splat;   /* $1 type, $2 scalar, $3 lanes, $4 scalar type. NULL: vector_make */
  const char *vector_load;    /* $1 type, $2 pointer or array, $3 index of lane 0, $4 lanes */
  const char *vector_store;   /* arguments of vector_load, and $5 value */
  const char *vector_select;  /* $1 type, $2 mask, $3 if set, $4 if clear, $5 type of the mask */
  const char *vector_convert; /* $1 type, $2 value, $3 from type */
  const char *vector_bits;    /* reinterpret: $1 type, $2 value */
  const char *vector_shuffle; /* $1 type, $2 and $3 vectors, $4 positions. NULL: lane by lane */
  /* Load and store only the lanes i for which bit i of $5, an unsigned integer of 64 bits, is set;
   * the other lanes are zero, or not stored. $1 to $4 are as in vector_load, $6 is the value. NULL:
   * lane by lane */
  const char *vector_load_bits;
  const char *vector_store_bits;
  /* An integer with the $1 lowest bits set: none if $1 is negative, all 64 if $1 is larger. */
  const char *first_bits;

  /* -- more of functions and scalar expressions. Templates. */
  /* With BP_DIALECT_PARAMS_GLOBAL, the declaration around the scalars of a kernel: $1 is the text
   * of scalar_param for all scalars, each at least 32 bits wide. NULL: nothing around them */
  const char *scalar_block;
  const char *remainder;  /* of signed integers $1 and $2, with the sign of $1. NULL: $1 % $2 */
  const char *contract;   /* $1 * $2 + $3 of float32, rounded once or twice. NULL: operators */
  const char *index_type; /* the type that a wider index is cast to. NULL: no cast */

  /* -- non-temporal stores, to parameters with BP_IR_ATTR_STREAMED. */
  const char *vector_stream; /* as vector_store, at any address. NULL: vector_store */
  /* A statement after which other threads see non-temporal stores: a fence. NULL: nothing */
  const char *stream_end;

  /* -- more of vectors. */
  /* Text put before the first vector type. NULL: nothing */
  const char *vector_support;
  /* Used instead of vector_load and vector_store where lane 0 is at a multiple of
   * `vector_alignment` bytes, or of the vector's size if that is smaller. The buffer or array must
   * be aligned as well: the dialect's arrays are, and the launcher of the kernel ensures it for
   * buffers. NULL: never used */
  const char *vector_load_aligned;
  const char *vector_store_aligned;
  int32_t vector_alignment;
  int32_t reserved_end; /* zero */

  /* -- texel buffers: read-only parameters of 32-bit elements. Elements are loaded as texels of one
   * or four elements; a load out of bounds must be harmless. A dialect sets all four templates or
   * none; they are used with BP_DIALECT_PARAMS_GLOBAL. */
  const char *texel_param; /* $1 element type, $2 name, $3 position, $4 elements of a texel */
  const char *texel_type;  /* the type of a loaded texel: $1 element type */
  const char *texel_load;  /* $1 name, $2 number of the texel */
  const char *texel_lane;  /* $1 texel, $2 number of the element in it */

  /* -- more of vectors: conversions from a type with compute_bits to its compute type, and back. $1
   * to type, $2 value, $3 from type, $4 lanes, $5 short name of the type with compute_bits: "f16".
   * A dialect sets both or none; NULL: lane by lane */
  const char *vector_widen;
  const char *vector_narrow;

  /* A float32 of value 0 that compilers of the language cannot see through. The expression replaces
   * a constant 0 that multiplies or divides: NaN and infinity times 0 are NaN, which some compilers
   * ignore. The emitter also adds the expression to 64-bit integers in comparisons, which some
   * compilers narrow wrongly. NULL: a plain 0 */
  const char *hidden_zero;
} BpDialect;

/* Return row `index` of a dialect's tables. Members beyond the row's size do not exist. */
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

/* The emitter, whose functions may be called from any thread. */
typedef struct BpEmitterTable {
  uint64_t struct_size;
  /* Returns a built-in dialect: "c", "cuda", "glsl" or "opencl"; static. NULL, with an error, for
   * another name. */
  const BpDialect *(*get_dialect)(const char *name);
  /* Emits the text of all functions of `module`, NUL-terminated (the size does not count the NUL).
   * A construct that the dialect cannot express raises BP_ERROR_NOT_IMPLEMENTED and names it. */
  int32_t (*emit)(const BpIrModule *module, const BpDialect *dialect, BpOwnedBytes *text);
  /* Emits the text of function `index` alone, for languages with one function per program. */
  int32_t (*emit_function)(const BpIrModule *module, int32_t index, const BpDialect *dialect,
                           BpOwnedBytes *text);
} BpEmitterTable;

#ifdef __cplusplus
}
#endif

#endif
