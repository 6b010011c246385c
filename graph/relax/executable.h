/* SPDX-License-Identifier: Apache-2.0 */
/* A Relax executable in memory: functions of bytecode, and the constants they use. All of it has
 * been checked: whoever runs it may rely on every index. */
#ifndef BACKPLANE_GRAPH_RELAX_EXECUTABLE_H
#define BACKPLANE_GRAPH_RELAX_EXECUTABLE_H

#include <backplane/value.h>

#define BP_RELAX_EXECUTABLE_KIND "relax.VMExecutable"

/* A function of bytecode whose parameters are named as the outputs of the model are. */
#define BP_RELAX_OUTPUT_NAMES "backplane.outputs"

/* A function of bytecode whose parameters' names say what a run needs: the bytes as an expression
 * of the open extents, the bytes if these are what is likely, and these, "n=64, m=1". */
#define BP_RELAX_STORAGE_NAMES "backplane.storage"

/* Where an argument of a call comes from. */
typedef enum BpRelaxArgKind {
  BP_RELAX_REGISTER,  /* value: its index */
  BP_RELAX_IMMEDIATE, /* value: the number */
  BP_RELAX_CONSTANT,  /* value: index into the constants */
  BP_RELAX_FUNCTION,  /* value: index into the functions */
  BP_RELAX_VOID,      /* None */
  BP_RELAX_CONTEXT    /* the machine itself */
} BpRelaxArgKind;

typedef struct BpRelaxArg {
  BpRelaxArgKind kind;
  int64_t value;
} BpRelaxArg;

typedef enum BpRelaxOp { BP_RELAX_CALL = 1, BP_RELAX_RET, BP_RELAX_GOTO, BP_RELAX_IF } BpRelaxOp;

typedef struct BpRelaxInstruction {
  BpRelaxOp op;
  uint32_t function;      /* CALL: the function */
  uint32_t num_args;      /* CALL */
  int64_t dst;            /* CALL: the register for the result, or -1 */
  int64_t target;         /* GOTO, IF when the condition is 0: index in the function's code */
  const BpRelaxArg *args; /* CALL; RET: the one that is returned; IF: the condition */
} BpRelaxInstruction;

typedef enum BpRelaxFunctionKind {
  BP_RELAX_PACKED, /* found by name in the imports or the registry */
  BP_RELAX_BYTECODE,
  BP_RELAX_COMPILED /* "__vmtir__NAME" of the imports */
} BpRelaxFunctionKind;

typedef struct BpRelaxFunction {
  BpRelaxFunctionKind kind;
  char *name;
  uint32_t num_args;
  uint32_t num_registers;
  uint32_t num_used; /* of them, while the code is read */
  uint32_t max_call_args;
  uint32_t num_instructions;
  const BpRelaxInstruction *code; /* of BYTECODE, else NULL */
  char **param_names;
  uint32_t num_params; /* names; 0, or num_args */
} BpRelaxFunction;

typedef struct BpRelaxExecutable {
  BpRelaxFunction *functions;
  uint32_t num_functions;
  BpValue *constants; /* owned; tensors on the CPU */
  size_t *data_ends;  /* by constant: where a tensor's data end in the bytes; 0: it is no tensor */
  char **scopes;      /* by constant: the memory scope, or NULL for "global" */
  uint32_t num_constants;
  BpRelaxInstruction *instructions;
  BpRelaxArg *args;
} BpRelaxExecutable;

/* Reads the bytes of a module of kind BP_RELAX_EXECUTABLE_KIND (transfer full); untrusted input.
 * `owner`: as BpStreamReader::owner. NULL with an error. */
BpRelaxExecutable *bp__relax_executable_read(const BpByteArray *bytes, BpObject *owner);
/* NULL is ignored. */
void bp__relax_executable_free(BpRelaxExecutable *executable);

/* The index of a function, or -1 (no error raised). */
int64_t bp__relax_executable_find(const BpRelaxExecutable *executable, const char *name);

#endif
