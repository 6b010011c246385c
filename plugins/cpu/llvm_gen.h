/* SPDX-License-Identifier: Apache-2.0 */
/* The code generator of target kind `llvm`: its state, and the declarations that its files share.
 *
 * llvm_target.c    target.build.llvm: machine, passes, object file
 * llvm_module.c    modules of kind `llvm`
 * llvm_gen.c       types, values and the state
 * llvm_expr.c      expressions
 * llvm_half.c      conversions of float16 and bfloat16
 * llvm_call.c      intrinsics, C functions, packed functions
 * llvm_stmt.c      statements and memory
 * llvm_parallel.c  parallel loops as functions of their own
 * llvm_function.c  functions, and the packed functions around them
 *
 * An error is raised once and remembered in `failed`; afterwards values are poison, and the module
 * is dropped. */
#ifndef BP_PLUGIN_CPU_LLVM_GEN_H
#define BP_PLUGIN_CPU_LLVM_GEN_H

#include "cpu.h"

#include <backplane/pointer_map.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

typedef struct BpGen {
  const BpIrTable *ir;
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  int failed;

  LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, ptr, nothing;

  /* The function that code is generated for. */
  const BpIrNode *ir_function;
  LLVMValueRef function;
  LLVMBasicBlockRef entry; /* builder for allocas */
  LLVMBasicBlockRef leave; /* the block for failures; it returns the value of `rc` */
  LLVMValueRef rc;         /* alloca of i32 */
  LLVMValueRef message;    /* alloca for the text of an error, NULL until the first one */
  int in_parallel;
  int depth;
  const BpCpu *cpu;
  const char *extras;
  int has_halves;               /* the CPU has an instruction that converts float16 */
  const char *attributes[4][2]; /* for packed functions: name and value */

  BpPointerMap symbols; /* VAR or BUFFER to LLVMValueRef */
  BpPointerMap known;   /* expressions of the current statement to LLVMValueRef */
} BpGen;

/* ---- llvm_gen.c -------------------------------------------------------------------------- */

/* Raises an error that names the function, unless the generator has already raised one. */
void bp_gen_fail(BpGen *g, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The LLVM type of a value, and the type of its elements in memory; void for void. */
LLVMTypeRef bp_gen_type(BpGen *g, BpDataType dtype);
LLVMTypeRef bp_gen_memory_type(BpGen *g, BpDataType dtype);
LLVMValueRef bp_gen_poison(BpGen *g, BpDataType dtype);
LLVMValueRef bp_gen_i32(BpGen *g, int64_t value);
LLVMValueRef bp_gen_i64(BpGen *g, int64_t value);
/* An integer constant of any type, equal in all lanes. */
LLVMValueRef bp_gen_const(BpGen *g, BpDataType dtype, int64_t value);
/* Makes a constant string; returns its address. */
LLVMValueRef bp_gen_str(BpGen *g, const char *text);
LLVMValueRef bp_gen_splat(BpGen *g, LLVMValueRef scalar, int32_t lanes);
LLVMValueRef bp_gen_shuffle(BpGen *g, LLVMValueRef a, LLVMValueRef b, const int32_t *lanes,
                            int32_t count);
/* Makes an alloca in the entry block. */
LLVMValueRef bp_gen_alloca(BpGen *g, LLVMTypeRef type, uint32_t alignment);
LLVMBasicBlockRef bp_gen_block(BpGen *g, const char *name);
/* The address `offset` bytes from `base`. */
LLVMValueRef bp_gen_offset(BpGen *g, LLVMValueRef base, int64_t offset);
LLVMValueRef bp_gen_load(BpGen *g, LLVMTypeRef type, LLVMValueRef base, int64_t offset);
void bp_gen_store(BpGen *g, LLVMValueRef value, LLVMValueRef base, int64_t offset);
/* Calls a C function by its name, declared from the call's types. */
LLVMValueRef bp_gen_call_c(BpGen *g, const char *name, LLVMTypeRef result, LLVMValueRef *args,
                           uint32_t count);
/* The address of a variable that is defined elsewhere. */
LLVMValueRef bp_gen_external(BpGen *g, const char *name);
/* Returns the address of a pointer variable that the host sets; and calls through a function
 * pointer. */
LLVMValueRef bp_gen_slot(BpGen *g, const char *name);
LLVMValueRef bp_gen_call_pointer(BpGen *g, LLVMValueRef function, LLVMTypeRef result,
                                 LLVMValueRef *args, uint32_t count);
/* Generates a branch: continues if `condition`, an i1, is false; otherwise sets rc to -1 and
 * returns. */
void bp_gen_leave_if(BpGen *g, LLVMValueRef condition);
void bp_gen_add_attributes(BpGen *g, LLVMValueRef function);

/* ---- llvm_expr.c ------------------------------------------------------------------------- */

LLVMValueRef bp_gen_expr(BpGen *g, const BpIrNode *node);
LLVMValueRef bp_gen_cast(BpGen *g, BpDataType to, BpDataType from, LLVMValueRef value);
/* The float type in which arithmetic on `dtype` is computed. */
BpDataType bp_gen_compute_dtype(BpDataType dtype);

/* ---- llvm_half.c ------------------------------------------------------------------------- */

/* Converts the bits of float16 or bfloat16, with any number of lanes, to float32; and float32 to
 * the nearest bits. */
LLVMValueRef bp_gen_widen(BpGen *g, BpDataType from, LLVMValueRef bits);
LLVMValueRef bp_gen_narrow(BpGen *g, BpDataType to, LLVMValueRef value);

/* ---- llvm_call.c ------------------------------------------------------------------------- */

LLVMValueRef bp_gen_call(BpGen *g, const BpIrNode *node);
/* Declares an overloaded intrinsic of LLVM for `type`. */
LLVMValueRef bp_gen_intrinsic(BpGen *g, const char *name, LLVMTypeRef type, LLVMValueRef *args,
                              uint32_t count);

/* ---- llvm_stmt.c ------------------------------------------------------------------------- */

void bp_gen_stmt(BpGen *g, const BpIrNode *node);
LLVMValueRef bp_gen_load_node(BpGen *g, const BpIrNode *node);
/* Generates a loop over [first, last); calls `body` with the loop variable set. */
void bp_gen_loop(BpGen *g, const BpIrNode *var, LLVMValueRef first, LLVMValueRef last,
                 const BpIrNode *body, const char *unroll);
LLVMValueRef bp_gen_symbol(BpGen *g, const BpIrNode *node);
void bp_gen_bind(BpGen *g, const BpIrNode *node, LLVMValueRef value);
LLVMValueRef bp_gen_address(BpGen *g, const BpIrNode *buffer, LLVMValueRef index);

/* ---- llvm_parallel.c --------------------------------------------------------------------- */

void bp_gen_parallel(BpGen *g, const BpIrNode *node);

/* ---- llvm_function.c --------------------------------------------------------------------- */

void bp_gen_function(BpGen *g, const BpIrNode *function);
/* Generates code that raises an error: its kind, a printf format and arguments. */
void bp_gen_raise(BpGen *g, const char *kind, const char *format, LLVMValueRef *args,
                  uint32_t count);

/* ---- llvm_target.c, llvm_module.c -------------------------------------------------------- */

extern const BpTargetKind bp_cpu_llvm_kind;
int bp_cpu_build_llvm(void *self, const BpValue *args, int32_t num_args, BpValue *result);
int bp_cpu_loadbinary_llvm(void *self, const BpValue *args, int32_t num_args, BpValue *result);

/* The parts of a module of kind `llvm`; copied. */
typedef struct BpLlvmCode {
  const char *cpu;       /* a name in the table of CPUs */
  const char *extras;    /* features beyond that CPU's, comma-separated */
  const char *functions; /* names of functions, one a line */
  BpByteArray ir;        /* LLVM's IR, as text; may be empty */
  BpByteArray object;    /* a relocatable object file */
} BpLlvmCode;

/* Makes the module (transfer full). */
BpModule *bp_cpu_llvm_module_create(const BpLlvmCode *code);

#endif
