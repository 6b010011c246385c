/* SPDX-License-Identifier: Apache-2.0 */
/* A Relax executable in memory: functions of bytecode, and the constants that they use. The
 * executable has been checked: code that runs an executable may rely on every index. */
#ifndef BACKPLANE_GRAPH_RELAX_EXECUTABLE_H
#define BACKPLANE_GRAPH_RELAX_EXECUTABLE_H

#include <backplane/value.h>

#define BP_RELAX_EXECUTABLE_KIND "relax.VMExecutable"

/* The name of a bytecode function whose parameters have the names of the model's outputs. */
#define BP_RELAX_OUTPUT_NAMES "backplane.outputs"

/* The name of a bytecode function whose parameters' names describe the memory that a run needs: the
 * bytes as an expression of the open extents, the bytes for likely extents, and the likely extents,
 * "n=64, m=1". */
#define BP_RELAX_STORAGE_NAMES "backplane.storage"
/* The name of a function whose parameters' names describe the devices of a program other than the
 * first device and the host, in order from the machine's number 1: "TYPE ORDINAL FALLBACK". Type
 * and ordinal are those of the places of graphs (graph/io/places.h). By the fallback's number, from
 * 1, specialised code finds the device of its fallback. */
#define BP_RELAX_DEVICE_NAMES "backplane.devices"

/* The name of a function whose parameters have the names of the nodes that the calls of "main"
 * compute, in the order of the code, without calls of the machine's own functions. */
#define BP_RELAX_NODE_NAMES "backplane.nodes"

/* The sources of a call's argument. */
typedef enum BpRelaxArgKind {
  BP_RELAX_REGISTER,  /* value: index of the register */
  BP_RELAX_IMMEDIATE, /* value: the number itself */
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
  uint32_t function;      /* CALL: index of the function */
  uint32_t num_args;      /* CALL */
  int64_t dst;            /* CALL: register for the result, or -1 */
  int64_t target;         /* GOTO, and IF for a condition 0: index in the function's code */
  const BpRelaxArg *args; /* CALL: arguments; RET: the result; IF: the condition */
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
  uint32_t num_used; /* number of used registers, while the code is read */
  uint32_t max_call_args;
  uint32_t num_instructions;
  const BpRelaxInstruction *code; /* code of a BYTECODE function, else NULL */
  char **param_names;
  uint32_t num_params; /* number of names; 0, or num_args */
} BpRelaxFunction;

typedef struct BpRelaxExecutable {
  BpRelaxFunction *functions;
  uint32_t num_functions;
  BpValue *constants; /* owned; tensors are on the CPU */
  size_t *data_ends;  /* end of a constant tensor's data in the bytes, by constant; 0 for others */
  char **scopes;      /* memory scope of each constant, or NULL for "global" */
  uint32_t num_constants;
  BpRelaxInstruction *instructions;
  BpRelaxArg *args;
} BpRelaxExecutable;

/* Reads the bytes of a module of kind BP_RELAX_EXECUTABLE_KIND (transfer full), which are
 * untrusted; NULL with an error. `owner` has the meaning of BpStreamReader::owner. */
BpRelaxExecutable *bp__relax_executable_read(const BpByteArray *bytes, BpObject *owner);
/* Frees an executable; NULL is ignored. */
void bp__relax_executable_free(BpRelaxExecutable *executable);

/* The index of a function by its name, or -1 without an error. */
int64_t bp__relax_executable_find(const BpRelaxExecutable *executable, const char *name);

#endif
