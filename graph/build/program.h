/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a graph as a program of the Relax machine (program.c). */
#ifndef BACKPLANE_GRAPH_BUILD_PROGRAM_H
#define BACKPLANE_GRAPH_BUILD_PROGRAM_H

#include <string.h>

#include <glib.h>

#include "graph/build/build.h"
#include "graph/relax/executable.h"
#include "graph/relax/form.h"

/* A constant of the program: a type, a text or a tensor. */
typedef struct BpProgramConstant {
  int32_t type_index;
  BpDataType dtype;
  const char *text;
  const BpGraphValue *tensor;
} BpProgramConstant;

/* The graph that is being written: the model's graph or a body. */
typedef struct BpProgramLevel {
  const BpGraph *graph;
  const BpGroups *groups;
  int64_t *words; /* the argument, a register or a constant, by value id */
  int64_t *twins; /* the register of the copy at a place, by value id and place; 0: no copy */
  int32_t *last;  /* the last group that reads the value, by value id */
  BpProgramPlan plan;
  int32_t stage; /* stage up to which the graph's conditions are written; -1: none yet */
} BpProgramLevel;

typedef struct BpProgram {
  const BpBuild *build;
  const BpGraph *graph; /* the model's */
  const BpGroups *groups;
  BpProgramLevel *level;
  GPtrArray *functions; /* names of called functions, after "main" and the names of outputs */
  GPtrArray *nodes;     /* names of the nodes of calls, other than those of the machine itself */
  const char *node;     /* name of the node that is being written */
  GArray *constants;    /* BpProgramConstant */
  GArray *words, *offsets;
  int64_t num_registers;
  int64_t num_entries;   /* number of entries that a run keeps (graph/relax/workspace.h) */
  int64_t heap, storage; /* registers */
  GPtrArray *parts;      /* parts of all arenas: lists of the values that take turns */
  const char *memory[3]; /* the value of BP_RELAX_STORAGE_NAMES */
  int64_t
      numbers[BP_BUILD_MAX_PLACES]; /* numbers of devices beside the target's, by place; 0: none */
  const char *devices[BP_BUILD_MAX_PLACES]; /* the value of BP_RELAX_DEVICE_NAMES */
  int64_t num_devices;
  int64_t *symbols;      /* registers, by place of the expression; -1: no symbol, or not yet */
  int32_t *stages;       /* stage in which an expression is known, by place */
  int32_t stage;         /* stage of the expressions whose cells have been filled */
  BpIrModule *scratch;   /* for expressions */
  const BpIrNode **vars; /* the variable of each symbol, by place */
  bool failed;           /* with an error raised */
} BpProgram;

/* ---- Code (program_code.c) ------------------------------------------------------------------- */

static inline void put(GArray *words, int64_t word) {
  g_array_append_val(words, word);
}

static inline int64_t argument(BpRelaxArgKind kind, int64_t value) {
  return (int64_t)((uint64_t)kind << BP_RELAX_VALUE_BITS |
                   ((uint64_t)value & ((UINT64_C(1) << BP_RELAX_VALUE_BITS) - 1)));
}

static inline int64_t number(int64_t value) {
  return argument(BP_RELAX_IMMEDIATE, value);
}

static inline int64_t in_register(int64_t index) {
  return argument(BP_RELAX_REGISTER, index);
}

/* Writes a call; `args` are argument words. */
void bp__program_call(BpProgram *program, int64_t dst, const char *function, const GArray *args);
/* Writes a call with a few arguments: CALL(program, register of the result, function, words...). */
#define CALL(program, dst, function, ...)                                                          \
  bp__program_call_with(program, dst, function, (int64_t[]){__VA_ARGS__},                          \
                        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
void bp__program_call_with(BpProgram *program, int64_t dst, const char *function, int64_t *args,
                           guint count);
/* Begins an instruction: the caller puts its words. */
void bp__program_begin_instruction(BpProgram *program);
/* The offset of the next instruction. */
int64_t bp__program_here(const BpProgram *program);
/* Writes a jump, whose target bp__program_land sets later; if `condition` is a register, a jump
 * that is taken if the condition is false. */
int64_t bp__program_jump(BpProgram *program, int64_t condition);
#define ALWAYS (-1)
void bp__program_land(BpProgram *program, int64_t jump, int64_t target);
/* The words of constants; the text of a constant is borrowed. */
int64_t bp__program_dtype(BpProgram *program, BpDataType dtype);
int64_t bp__program_text(BpProgram *program, const char *text);
int64_t bp__program_tensor(BpProgram *program, const BpGraphValue *tensor);
/* A constant "node 'x':", the prefix of errors in a run. */
int64_t bp__program_context(BpProgram *program, const char *what, const char *name);
/* Ends the code, and makes a module of the program (transfer full) as its loader does. The
 * program's constants stay in the bytes, a tensor, that the program is written to, and no longer
 * exist in the graph. */
BpModule *bp__program_load(BpProgram *program, BpGraph *graph);

/* ---- Extents (program_extents.c) ------------------------------------------------------------- */

/* The cell of the heap that has an open extent. */
static inline int64_t cell_of(int64_t extent) {
  return extent - bp__extents_at(0);
}

/* A formula: begin_formula, steps, end_formula. */
GArray *bp__program_begin_formula(BpProgram *program);
void bp__program_put_step(GArray *args, int64_t step, int64_t operand);
/* Writes the steps that leave the value of an expression on the stack; a NULL expression means that
 * memory ran out. */
void bp__program_put_formula(BpProgram *program, GArray *args, const BpIrNode *node,
                             const BpIrNode *const *vars);
/* Writes the call that computes a formula, unless it has no steps. */
void bp__program_end_formula(BpProgram *program, GArray *args, int64_t dst);
/* The cell for a number that is used immediately. */
int64_t bp__program_scratch_cell(const BpProgram *program);

/* Writes the number of extents, and the source of each. */
void bp__program_put_extents(GArray *args, const BpGraphValue *value);
/* Writes the shape of a value into a new register. */
int64_t bp__program_make_shape(BpProgram *program, const BpGraphValue *value);
/* Writes the shape of a stack without elements: its elements' unknown extents are 0. */
int64_t bp__program_make_empty_shape(BpProgram *program, const BpGraphValue *value);
/* Writes the type of a list (graph/relax/sequence.h). */
void bp__program_put_list_type(BpProgram *program, GArray *args, const BpGraphSequence *type);

/* The stage of each expression, by place (free with g_free). */
int32_t *bp__program_find_stages(const BpGraph *graph);
/* Writes the checks of the inputs, and the first stages. */
void bp__program_match_inputs(BpProgram *program);
/* Begins the next stage: the tensors of the given values bind its symbols. */
void bp__program_begin_stage(BpProgram *program, BpGraphValue *const *values, size_t count,
                             const char *name);
/* Writes the code that fills the cells of the symbols that a node binds, and checks the node's
 * other elements. */
void bp__program_bind(BpProgram *program, const BpGraphNode *node);

/* ---- Values (program_values.c) --------------------------------------------------------------- */

static inline const BpGraphValue *item(const BpList *values, size_t index) {
  return values->items[index];
}

/* The word of a value on its own device. */
int64_t bp__program_own_word(BpProgram *program, const BpGraphValue *value);
/* The word of a value at a place, to which it is copied if it is at another. */
int64_t bp__program_word_at(BpProgram *program, const BpGraphValue *value, int32_t place);
/* The argument word for a value on the target's device. */
int64_t bp__program_value_word(BpProgram *program, const BpGraphValue *value);
/* A new register for a value. */
int64_t bp__program_new_register(BpProgram *program, const BpGraphValue *value);
/* Writes the code that empties a register. */
void bp__program_empty(BpProgram *program, int64_t index);
/* Empties the registers of a value that no group after `group` reads. */
void bp__program_forget(BpProgram *program, const BpGraphValue *value, int32_t group);
/* Allocates memory for a tensor with the shape in a register. */
void bp__program_allocate(BpProgram *program, int64_t tensor, int64_t shape, BpDataType type,
                          int32_t place);
/* Writes a call whose result the machine keeps, a tensor with the type and shape of `value`. */
void bp__program_call_keeping(BpProgram *program, const char *function, const GArray *first,
                              const BpGraphValue *value, int64_t dst);
/* Allocates memory for a value that a group computes, in a new register. */
void bp__program_give_memory(BpProgram *program, const BpGraphValue *value);

/* ---- Groups (program.c) and control flow (program_control.c) --------------------------------- */

/* Begins a graph or body: finds the last readers of its values, and plans its memory. */
BpProgramLevel bp__program_begin_level(BpProgram *program, const BpGraph *graph,
                                       const BpGroups *groups);
void bp__program_end_level(BpProgramLevel *level);
/* Writes the groups of the current level. */
void bp__program_run_groups(BpProgram *program);
/* Writes a node that the machine executes, and the extents that are known after it. */
void bp__program_call_control(BpProgram *program, const BpGroup *group);

#endif
