/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor IR as a code generator reads it.
 *
 * An IR module is a set of lowered functions. Everything in it is a node, read through one set of
 * accessors: a kind, a data type, operands (nodes), and up to three scalars: an int, a float and a
 * string. The kind determines the meaning of the scalars. The module owns all nodes; they are
 * immutable while a generator sees them and borrowed until its build returns. Kind numbers are
 * permanent; a new kind raises BP_IR_LEVEL, and the host legalises a module to the level that a
 * target kind declares, or refuses it and names the construct. The reference interpreter of the
 * compiler library defines what each construct means; docs/ir.md describes it and the text form. */
#ifndef BACKPLANE_IR_API_H
#define BACKPLANE_IR_API_H

#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct BpIrNode BpIrNode;
/* A reference-counted object of type BP_TYPE_IR_MODULE. */
typedef struct BpIrModule BpIrModule;

#define BP_IR_LEVEL 1

/* X(NAME, number, text, operands and scalars).
 * Vectors: arithmetic works lane by lane, operands have equal numbers of lanes. Integer arithmetic
 * wraps. Comparisons and logic give bool (code BP_DTYPE_BOOL, 8 bits) with the operands' lanes.
 * Legalisation ensures that a generator meets no division by zero, no shift out of range and no
 * cast of a float beyond the range of its integer. */
#define BP_IR_KINDS(X)                                                                             \
  /* constants and variables */                                                                    \
  X(INT_IMM, 1, "int", "int: the value; any integer or bool type")                                 \
  X(FLOAT_IMM, 2, "float", "float: the value")                                                     \
  X(STR_IMM, 3, "str", "str: the value; type handle")                                              \
  X(VAR, 4, "var", "str: the name; identity is the node, names are for reading")                   \
  /* arithmetic on numbers */                                                                      \
  X(ADD, 10, "add", "a b")                                                                         \
  X(SUB, 11, "sub", "a b")                                                                         \
  X(MUL, 12, "mul", "a b")                                                                         \
  X(DIV, 13, "div", "a b; integers: towards zero")                                                 \
  X(MOD, 14, "mod", "a b; sign of a; integers only")                                               \
  X(FLOORDIV, 15, "floordiv", "a b; integers, towards minus infinity")                             \
  X(FLOORMOD, 16, "floormod", "a b; integers, sign of b")                                          \
  X(MIN, 17, "min", "a b; a NaN in either gives NaN")                                              \
  X(MAX, 18, "max", "a b; a NaN in either gives NaN")                                              \
  /* comparisons and logic */                                                                      \
  X(EQ, 20, "eq", "a b")                                                                           \
  X(NE, 21, "ne", "a b")                                                                           \
  X(LT, 22, "lt", "a b")                                                                           \
  X(LE, 23, "le", "a b")                                                                           \
  X(GT, 24, "gt", "a b")                                                                           \
  X(GE, 25, "ge", "a b")                                                                           \
  X(AND, 26, "and", "a b; bool; b may be skipped when a is false")                                 \
  X(OR, 27, "or", "a b; bool; b may be skipped when a is true")                                    \
  X(NOT, 28, "not", "a; bool")                                                                     \
  /* bits */                                                                                       \
  X(BIT_AND, 30, "bit_and", "a b")                                                                 \
  X(BIT_OR, 31, "bit_or", "a b")                                                                   \
  X(BIT_XOR, 32, "bit_xor", "a b")                                                                 \
  X(SHL, 33, "shl", "a b; 0 <= b < bits where a generator sees it")                                \
  X(SHR, 34, "shr", "a b; arithmetic for signed a; 0 <= b < bits where a generator sees it")       \
  /* choice and conversion; the int of a SELECT is 1 if its reads need no mask, else 0 */          \
  X(SELECT, 40, "select", "condition a b; both may be evaluated")                                  \
  X(CAST, 41, "cast", "a; float to int truncates")                                                 \
  X(REINTERPRET, 42, "reinterpret", "a; same size")                                                \
  /* memory */                                                                                     \
  X(LOAD, 50, "load",                                                                              \
    "buffer index [mask]; element index, a ramp or any vector of them for lanes; "                 \
    "a masked-off lane is not read and is zero")                                                   \
  X(ADDRESS, 51, "address", "buffer index; the address of an element; type handle")                \
  /* vectors */                                                                                    \
  X(RAMP, 60, "ramp", "base stride; base + i * stride for i < lanes; stride scalar")               \
  X(BROADCAST, 61, "broadcast", "a; scalar a in every lane")                                       \
  X(SHUFFLE, 62, "shuffle",                                                                        \
    "v... i...; int: the number of vectors v, concatenated; then one "                             \
    "INT_IMM a lane picks from them")                                                              \
  X(REDUCE, 63, "reduce", "v; str: add, mul, min or max over the lanes, in any order")             \
  /* calls */                                                                                      \
  X(CALL, 70, "call", "args...; str: the name; int: BP_IR_CALL_*")                                 \
  /* statements; type void (code handle, 0 bits) */                                                \
  X(SEQ, 100, "seq", "statements...")                                                              \
  X(FOR, 101, "for", "var min extent body; int: BP_IR_FOR_*; str: the thread axis, or \"\"")       \
  X(STORE, 102, "store", "buffer index value [mask]")                                              \
  X(LET, 103, "let", "var value body")                                                             \
  X(IF, 104, "if", "condition then [else]")                                                        \
  X(ALLOCATE, 105, "allocate", "buffer body; contents undefined at first")                         \
  X(EVALUATE, 106, "evaluate", "expression, for its effect")                                       \
  X(BARRIER, 107, "barrier",                                                                       \
    "str: the scope, \"shared\" or \"global\"; every thread of a block "                           \
    "reaches it")                                                                                  \
  X(ASSERT, 108, "assert", "condition; str: the message of the error that the function raises")    \
  X(WHILE, 109, "while", "condition body; the condition is read before each pass")                 \
  /* structure */                                                                                  \
  X(BUFFER, 120, "buffer", "extents...; str: the name; int: BP_IR_SCOPE_*; the element type")      \
  X(ATTR, 121, "attr", "values...; str: the key")                                                  \
  X(FUNCTION, 122, "function",                                                                     \
    "parameters... attrs... body; str: the name; int: the number of "                              \
    "parameters, each a VAR or a global BUFFER")

#define BP_IR_KIND_CONSTANT_(name, number, text, meaning) BP_IR_##name = number,
/* The kinds as constants: BP_IR_ADD and so on. */
enum { BP_IR_KINDS(BP_IR_KIND_CONSTANT_) BP_IR_NONE = 0 };

/* How a loop runs. A bound loop is one axis of the launch: `str` names it. */
#define BP_IR_FOR_SERIAL     0
#define BP_IR_FOR_PARALLEL   1
#define BP_IR_FOR_VECTORIZED 2
#define BP_IR_FOR_UNROLLED   3
#define BP_IR_FOR_BOUND      4

#define BP_IR_SCOPE_GLOBAL 0 /* the device's memory: parameters, and buffers in the workspace */
#define BP_IR_SCOPE_SHARED 1 /* memory of a block of threads */
#define BP_IR_SCOPE_LOCAL  2 /* memory of a thread: stack or registers */

/* Calls. A pure intrinsic is one of the names in docs/ir.md (exp, log, sqrt, rsqrt, pow, tanh, erf,
 * sigmoid, sin, cos, floor, ceil, round, trunc, abs, fma, isnan, isinf, popcount, prefetch...). */
#define BP_IR_CALL_INTRINSIC 0
#define BP_IR_CALL_EXTERN    1 /* a C function by name; buffers as addresses */
#define BP_IR_CALL_PACKED    2 /* a packed function by name; buffers as tensor views */

/* An attribute of target kinds, int: the number of products of bytes that the intrinsic dot4_us
 * does in the time of one product of float32, rounded down, at most 64; 0: the generator lacks
 * dot4_us, and its functions do not call it [0]. */
#define BP_TARGET_BYTE_DOT "byte_dot"

/* Keys of function attributes. */
#define BP_IR_ATTR_KERNEL    "kernel"    /* int 1: a device kernel, launched over its bound loops */
#define BP_IR_ATTR_LAUNCH    "launch"    /* str launch tag, int extent (or an expression of VARs) */
#define BP_IR_ATTR_NOALIAS   "noalias"   /* int 1: no two buffers overlap */
#define BP_IR_ATTR_ALIGNMENT "alignment" /* int bytes: alignment of every parameter buffer */
/* ints: positions of parameters that are written once and not read soon; a generator may use
 * non-temporal stores for them */
#define BP_IR_ATTR_STREAMED "streamed"

#define BP_TABLE_IR         "ir"
#define BP_TABLE_IR_VERSION 1

/* Visits a node before (enter) and after (leave) its operands. enter: 0 goes on into the operands,
 * 1 skips them, -1 stops the visit. */
typedef struct BpIrVisitor {
  uint64_t struct_size;
  void *context;
  int32_t (*enter)(void *context, const BpIrNode *node);
  int32_t (*leave)(void *context, const BpIrNode *node); /* after the operands; or NULL; -1 stops */
} BpIrVisitor;

/* All functions only read. They may be called from any thread, and raise no error unless stated. A
 * NULL node has the kind BP_IR_NONE, no operands and no scalars; a NULL module has no functions. */
typedef struct BpIrTable {
  uint64_t struct_size;
  int32_t (*num_functions)(const BpIrModule *module);
  const BpIrNode *(*get_function)(const BpIrModule *module, int32_t index);
  int32_t (*kind)(const BpIrNode *node);
  const char *(*kind_name)(int32_t kind); /* NULL for an unknown kind */
  BpDataType (*dtype)(const BpIrNode *node);
  int32_t (*num_operands)(const BpIrNode *node);
  const BpIrNode *(*operand)(const BpIrNode *node, int32_t index); /* NULL out of range */
  int64_t (*int_value)(const BpIrNode *node);
  double (*float_value)(const BpIrNode *node);
  const char *(*str_value)(const BpIrNode *node); /* "" if the node has none */
  /* Returns the ATTR of a FUNCTION with a key, or NULL. */
  const BpIrNode *(*find_attr)(const BpIrNode *function, const char *key);
  /* Visits a node and its operands. Returns 0, or -1 if the visitor stopped. Errors: BP_ERROR_VALUE
   * if an argument or `enter` is NULL. */
  int32_t (*visit)(const BpIrNode *node, const BpIrVisitor *visitor);
  /* Makes the text form of a node, for messages and dumps; -1 with BP_ERROR_MEMORY, or with
   * BP_ERROR_VALUE for a NULL. Released with BpObjectTable::release of the object in it. */
  int32_t (*print)(const BpIrNode *node, BpValue *text);
} BpIrTable;

#ifdef __cplusplus
}
#endif

#endif
