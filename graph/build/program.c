/* SPDX-License-Identifier: Apache-2.0 */
/* A graph with open extents as a program of the Relax machine (graph/relax/executable.h), in the
 * form in which TVM saves one.
 *
 * The function "main" takes the inputs. "main" matches the extents of the inputs into a heap of
 * numbers, with one cell for each expression of the graph, computes the cells that depend on the
 * inputs' extents alone, and then calls the functions of the groups in order, with memory for their
 * outputs. A function takes its tensors and then the symbols that it uses. On a device a function
 * is a list of kernels (compiler/lower/split_kernels.c), which take the symbols that they use and
 * then the extents of their launch. A value is copied if a group on the other device reads it.
 * Memory is released as soon as the last reader has run, and the machine keeps it for the next
 * request of the same size. The cells of extents that depend on computed values (graph/ops/bind.c)
 * are filled after the values are computed, and so are the cells of expressions that contain them.
 *
 * Bodies are written into the same function, with jumps around them; their values have registers of
 * their own, which each iteration of a loop sets again. A register holds a tensor or a sequence.
 * Symbols that are known only in a body, or after its node, are matched there, and the cells that
 * depend on the symbols are computed there. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/io/stream.h"
#include "graph/ops/control.h"
#include "graph/relax/form.h"
#include "graph/relax/module.h"

/* A constant of the program: a type, a text or a tensor. */
typedef struct Constant {
  int32_t type_index;
  BpDataType dtype;
  const char *text;
  const BpGraphValue *tensor;
} Constant;

/* The graph that is being written: the model's graph or a body. */
typedef struct Level {
  const BpGraph *graph;
  const BpGroups *groups;
  int64_t *words; /* the argument, a register or a constant, by value id */
  int64_t *twins; /* the register of the copy at a place, by value id and place; 0: no copy */
  int32_t *last;  /* the last group that reads the value, by value id */
  BpProgramPlan plan;
  int32_t stage; /* stage up to which the graph's conditions are written; -1: none yet */
} Level;

typedef struct Program {
  const BpBuild *build;
  const BpGraph *graph; /* the model's */
  const BpGroups *groups;
  Level *level;
  GPtrArray *functions; /* names of called functions, after "main" and the names of outputs */
  GArray *constants;    /* Constant */
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
} Program;

/* ---- Words ------------------------------------------------------------------------------- */

static void put(GArray *words, int64_t word) {
  g_array_append_val(words, word);
}

static int64_t argument(BpRelaxArgKind kind, int64_t value) {
  return (int64_t)((uint64_t)kind << BP_RELAX_VALUE_BITS |
                   ((uint64_t)value & ((UINT64_C(1) << BP_RELAX_VALUE_BITS) - 1)));
}

static int64_t number(int64_t value) {
  return argument(BP_RELAX_IMMEDIATE, value);
}

static int64_t in_register(int64_t index) {
  return argument(BP_RELAX_REGISTER, index);
}

static int64_t function_index(Program *program, const char *name) {
  for (guint i = 0; i < program->functions->len; i++)
    if (!strcmp(program->functions->pdata[i], name))
      return i;
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t)name);
  return program->functions->len - 1;
}

static void begin_instruction(Program *program) {
  put(program->offsets, program->words->len);
}

static void call(Program *program, int64_t dst, const char *function, const GArray *args) {
  begin_instruction(program);
  put(program->words, BP_RELAX_CALL);
  put(program->words, dst);
  put(program->words, function_index(program, function));
  put(program->words, args->len);
  if (args->len > 0)
    g_array_append_vals(program->words, args->data, args->len);
}

/* Writes a call with a few arguments. */
static void call_with(Program *program, int64_t dst, const char *function, int64_t *args,
                      guint count) {
  GArray *list = g_array_new(FALSE, FALSE, sizeof(int64_t));
  if (count > 0)
    g_array_append_vals(list, args, count);
  call(program, dst, function, list);
  g_array_free(list, TRUE);
}
#define CALL(program, dst, function, ...)                                                          \
  call_with(program, dst, function, (int64_t[]){__VA_ARGS__},                                      \
            sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- Jumps ------------------------------------------------------------------------------- */

/* The offset of the next instruction. */
static int64_t here(const Program *program) {
  return program->offsets->len;
}

/* Writes a jump, whose target `land` sets later; if `condition` is a register, a jump that is taken
 * if the condition is false. */
static int64_t jump(Program *program, int64_t condition) {
  int64_t at = here(program);
  begin_instruction(program);
  put(program->words, condition < 0 ? BP_RELAX_GOTO : BP_RELAX_IF);
  if (condition >= 0)
    put(program->words, condition);
  put(program->words, 0);
  return at;
}

static void land(Program *program, int64_t jump, int64_t target) {
  int64_t *word =
      &g_array_index(program->words, int64_t, g_array_index(program->offsets, int64_t, jump));
  word[*word == BP_RELAX_GOTO ? 1 : 2] = target - jump;
}
#define ALWAYS (-1)

/* ---- Constants --------------------------------------------------------------------------- */

static int64_t add_constant(Program *program, const Constant *constant) {
  g_array_append_vals(program->constants, constant, 1);
  return argument(BP_RELAX_CONSTANT, program->constants->len - 1);
}

static int64_t dtype_constant(Program *program, BpDataType dtype) {
  for (guint i = 0; i < program->constants->len; i++) {
    const Constant *known = &g_array_index(program->constants, Constant, i);
    if (known->type_index == BP_TYPE_DTYPE && bp__dtype_equal(known->dtype, dtype))
      return argument(BP_RELAX_CONSTANT, i);
  }
  return add_constant(program, &(Constant){.type_index = BP_TYPE_DTYPE, .dtype = dtype});
}

static int64_t text_constant(Program *program, const char *text) {
  for (guint i = 0; i < program->constants->len; i++) {
    const Constant *known = &g_array_index(program->constants, Constant, i);
    if (known->type_index == BP_TYPE_STR && !strcmp(known->text, text))
      return argument(BP_RELAX_CONSTANT, i);
  }
  return add_constant(program, &(Constant){.type_index = BP_TYPE_STR, .text = text});
}

static int64_t tensor_constant(Program *program, const BpGraphValue *tensor) {
  for (guint i = 0; i < program->constants->len; i++) {
    const Constant *known = &g_array_index(program->constants, Constant, i);
    if (known->type_index == BP_TYPE_TENSOR && bp__value_same_data(known->tensor, tensor))
      return argument(BP_RELAX_CONSTANT, i);
  }
  return add_constant(program, &(Constant){.type_index = BP_TYPE_TENSOR, .tensor = tensor});
}

/* ---- Extents ----------------------------------------------------------------------------- */

static int64_t cell_of(int64_t extent) {
  return extent - bp__extents_at(0);
}

/* ---- Formulas ---------------------------------------------------------------------------- */

/* The number of cells after the cells of extents, for numbers that are used immediately. */
#define SCRATCH_CELLS 1

static int64_t scratch_cell(const Program *program) {
  return bp__extents_count(&program->graph->extents);
}

static GArray *begin_formula(Program *program) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(program->heap));
  return args;
}

static void put_step(GArray *args, int64_t step, int64_t operand) {
  put(args, number(step));
  put(args, number(operand));
}

/* The step of a formula for an operation of the IR, or -1. */
static int64_t step_of(int32_t kind) {
  static const struct {
    int32_t kind;
    int64_t step;
  } steps[] = {
      {BP_IR_ADD, BP_RELAX_ADD},
      {BP_IR_SUB, BP_RELAX_SUBTRACT},
      {BP_IR_MUL, BP_RELAX_MULTIPLY},
      {BP_IR_DIV, BP_RELAX_DIVIDE},
      {BP_IR_MOD, BP_RELAX_MODULO},
      {BP_IR_FLOORDIV, BP_RELAX_FLOOR_DIVIDE},
      {BP_IR_FLOORMOD, BP_RELAX_FLOOR_MODULO},
      {BP_IR_MIN, BP_RELAX_LEAST},
      {BP_IR_MAX, BP_RELAX_GREATEST},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(steps); i++)
    if (steps[i].kind == kind)
      return steps[i].step;
  return -1;
}

/* Returns the cell of the symbol with the variable `var`: its index in `vars`. */
static int64_t cell_of_var(const Program *program, const BpIrNode *var,
                           const BpIrNode *const *vars) {
  for (int32_t i = 0; i < bp__extents_count(&program->graph->extents); i++)
    if (vars[i] == var)
      return i;
  return -1;
}

/* Writes the steps that leave the value of an expression on the stack; a NULL expression means that
 * memory ran out. */
static void put_formula(Program *program, GArray *args, const BpIrNode *node,
                        const BpIrNode *const *vars) {
  const BpIrTable *ir = bp_ir_table();
  int32_t kind = node ? ir->kind(node) : -1;
  if (program->failed || !node) {
    program->failed = true;
  } else if (kind == BP_IR_INT_IMM) {
    put_step(args, BP_RELAX_PUSH_NUMBER, ir->int_value(node));
  } else if (kind == BP_IR_VAR && cell_of_var(program, node, vars) >= 0) {
    put_step(args, BP_RELAX_PUSH_CELL, cell_of_var(program, node, vars));
  } else if (step_of(kind) >= 0) {
    put_formula(program, args, ir->operand(node, 0), vars);
    put_formula(program, args, ir->operand(node, 1), vars);
    put_step(args, step_of(kind), 0);
  } else {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "an extent that is computed by '%s' of the IR",
                   ir->kind_name(kind));
    program->failed = true;
  }
}

/* Writes the call that computes a formula, unless it has no steps. */
static void end_formula(Program *program, GArray *args, int64_t dst) {
  if (args->len > 1)
    call(program, dst, "vm.builtin.compute", args);
  g_array_free(args, TRUE);
}

/* ---- Shapes ------------------------------------------------------------------------------ */

/* Writes the number of extents, and the source of each. */
static void put_extents(GArray *args, const BpGraphValue *value) {
  put(args, number(value->ndim));
  for (int32_t i = 0; i < value->ndim; i++) {
    bool is_open = bp__extent_is_open(value->shape[i]);
    put(args, number(is_open ? BP_RELAX_MAKE_STORED : BP_RELAX_MAKE_NUMBER));
    put(args, number(is_open ? cell_of(value->shape[i]) : value->shape[i]));
  }
}

/* Writes the shape of a value into a new register. */
static int64_t make_shape(Program *program, const BpGraphValue *value) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t shape = program->num_registers++;
  put(args, in_register(program->heap));
  put_extents(args, value);
  call(program, shape, "vm.builtin.make_shape", args);
  g_array_free(args, TRUE);
  return shape;
}

/* Writes the shape of a stack without elements: its elements' unknown extents are 0. */
static int64_t make_empty_shape(Program *program, const BpGraphValue *value) {
  BpGraphValue none = *value;
  none.shape[0] = 0;
  for (int32_t i = 1; i < none.ndim; i++)
    if (bp__extent_is_open(none.shape[i]) &&
        program->stages[cell_of(none.shape[i])] > program->stage)
      none.shape[i] = 0;
  return make_shape(program, &none);
}

/* Writes the call that matches the extents of a tensor and stores the symbols of the current
 * stage. */
static void match_extents(Program *program, const BpGraphValue *value, int64_t word, bool *stored,
                          int64_t context) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, word);
  put(args, in_register(program->heap));
  put(args, number(value->ndim));
  for (int32_t i = 0; i < value->ndim; i++) {
    int64_t extent = value->shape[i];
    bool is_open = bp__extent_is_open(extent);
    int64_t cell = is_open ? cell_of(extent) : 0;
    put(args, number(!is_open       ? BP_RELAX_MATCH_EQUAL
                     : stored[cell] ? BP_RELAX_MATCH_EQUAL_TO_STORED
                                    : BP_RELAX_MATCH_STORE));
    put(args, number(is_open ? cell : extent));
    if (is_open)
      stored[cell] = true;
  }
  put(args, context);
  call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.match_shape", args);
  g_array_free(args, TRUE);
}

/* A constant "node 'x':", the prefix of errors in a run. */
static int64_t context_constant(Program *program, const char *what, const char *name) {
  const char *text =
      bp__arena_printf((BpArena *)(uintptr_t)&program->graph->arena, "%s '%s':", what, name);
  return text_constant(program, text ? text : "");
}

/* Writes the type of a list (graph/relax/sequence.h). */
static void put_list_type(Program *program, GArray *args, const BpGraphSequence *type) {
  int32_t ndim = MAX(type->ndim, -1);
  bool is_sequence = !type->is_optional || type->has_sequences;
  put(args,
      number((type->is_optional ? BP_MODEL_OPTIONAL : 0) | (is_sequence ? BP_MODEL_SEQUENCE : 0)));
  put(args, dtype_constant(program, type->dtype));
  put(args, number(ndim));
  for (int32_t d = 0; d < ndim; d++)
    put(args, number(bp__extent_is_open(type->shape[d]) ? -1 : type->shape[d]));
}

/* Writes the check of an input that is a list. */
static void check_list(Program *program, const BpGraphValue *input, int64_t index) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(index));
  put_list_type(program, args, input->sequence);
  put(args, context_constant(program, "input", input->name));
  call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_list", args);
  g_array_free(args, TRUE);
}

/* Writes the check of an input, and stores the symbols that no earlier input has. */
static void match_input(Program *program, const BpGraphValue *input, int64_t index, bool *stored) {
  if (input->sequence) {
    check_list(program, input, index);
    return;
  }
  int64_t context = context_constant(program, "input", input->name);
  CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_tensor_info", in_register(index),
       number(input->ndim), dtype_constant(program, input->dtype), context);
  match_extents(program, input, in_register(index), stored, context);
}

/* ---- Stages ------------------------------------------------------------------------------ */

/* The cells of the heap are filled in stages. The first stage is the extents of the inputs, and the
 * extents that depend only on them. Later stages follow the order of the program: at each node that
 * binds symbols (graph/ops/bind.c), at each body, and after each node that runs bodies, the symbols
 * that are bound there. A symbol that is never bound, and so never read, has stage -1. */
typedef struct Staging {
  const BpExtents *extents;
  int32_t *stages;
  int32_t last;
} Staging;

/* Whether the expression at a place is a symbol that is bound, not computed. */
static bool is_bound(const BpExtents *extents, int64_t place) {
  return bp__extents_symbol_name(extents, (int32_t)place) &&
         bp__extents_definition(extents, (int32_t)place) == BP_EXTENT_NONE;
}

static void stage_extents(Staging *staging, const int64_t *extents, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (bp__extent_is_open(extents[i]) && is_bound(staging->extents, cell_of(extents[i])) &&
        staging->stages[cell_of(extents[i])] < 0)
      staging->stages[cell_of(extents[i])] = staging->last;
}

static void stage_values(Staging *staging, BpGraphValue *const *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    stage_extents(staging, values[i]->shape, values[i]->ndim);
}

static void stage_nodes(Staging *staging, const BpGraph *graph) {
  for (size_t n = 0; n < graph->nodes.size; n++) {
    const BpGraphNode *node = graph->nodes.items[n];
    if (bp__op_is_bind(node)) {
      staging->last++;
      stage_extents(staging, node->outputs[0]->extents, node->outputs[0]->shape[0]);
    }
    for (int32_t b = 0; b < node->num_bodies; b++) {
      const BpList *inputs = &node->bodies[b]->inputs;
      staging->last++;
      stage_values(staging, (BpGraphValue **)inputs->items, inputs->size);
      stage_nodes(staging, node->bodies[b]);
    }
    staging->last += bp__op_is_control(node);
    if (bp__op_is_control(node))
      stage_values(staging, node->outputs, (size_t)node->num_outputs);
  }
}

/* Sets the stages of the rooms of tensors (append.c), which are known as soon as the number of
 * their rows is. */
static void stage_rooms(Staging *staging, const BpGraph *graph) {
  int32_t rooms = staging->last + 1;
  for (size_t n = 0; n < graph->nodes.size; n++) {
    const BpGraphNode *node = graph->nodes.items[n];
    if (!node->is_append)
      continue;
    staging->last = rooms;
    stage_extents(staging, &node->outputs[0]->room, 1);
  }
}

/* The stage of each expression, by place (free with g_free). */
static int32_t *find_stages(const BpGraph *graph) {
  const BpExtents *extents = &graph->extents;
  int32_t count = bp__extents_count(extents);
  Staging staging = {.extents = extents, .stages = g_new0(int32_t, (gsize)count + 1)};
  bool *marked = g_new0(bool, (gsize)count + 1);
  memset(staging.stages, -1, (size_t)count * sizeof(*staging.stages));
  stage_values(&staging, (BpGraphValue **)graph->inputs.items, graph->inputs.size);
  stage_rooms(&staging, graph);
  stage_nodes(&staging, graph);
  for (int32_t i = 0; i < count; i++) {
    if (is_bound(extents, i))
      continue;
    memset(marked, 0, (size_t)count * sizeof(*marked));
    bp__extent_mark_symbols(extents, bp__extents_at(i), marked);
    staging.stages[i] = 0;
    for (int32_t k = 0; k < count && staging.stages[i] >= 0; k++)
      if (marked[k] && (staging.stages[k] < 0 || staging.stages[k] > staging.stages[i]))
        staging.stages[i] = staging.stages[k];
  }
  g_free(marked);
  return staging.stages;
}

/* Writes the checks of the current graph's conditions on cells that were filled since the last
 * call. */
static void check_conditions(Program *program) {
  const BpList *conditions = &program->level->graph->conditions;
  for (size_t i = 0; i < conditions->size; i++) {
    const BpGraphCondition *condition = conditions->items[i];
    int64_t cell = cell_of(condition->extent);
    if (program->stages[cell] > program->level->stage && program->stages[cell] <= program->stage)
      CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_extent", in_register(program->heap),
           number(cell), text_constant(program, condition->complaint));
  }
  program->level->stage = program->stage;
}

/* Writes the code that fills the cells of a stage whose symbols are in their cells, and puts the
 * symbols into registers. */
static void fill_stage(Program *program) {
  const BpExtents *extents = &program->graph->extents;
  GArray *args = begin_formula(program);
  for (int32_t i = 0; i < bp__extents_count(extents); i++)
    if (program->stages[i] == program->stage && !is_bound(extents, i)) {
      int64_t definition = bp__extents_definition(extents, i);
      put_formula(program, args,
                  bp__extent_node(extents, program->scratch,
                                  definition == BP_EXTENT_NONE ? bp__extents_at(i) : definition,
                                  program->vars),
                  program->vars);
      put_step(args, BP_RELAX_TAKE_CELL, i);
    }
  end_formula(program, args, BP_RELAX_VOID_REGISTER);
  check_conditions(program);
  for (int32_t i = 0; i < bp__extents_count(extents); i++) {
    if (program->stages[i] != program->stage || !bp__extents_symbol_name(extents, i))
      continue;
    program->symbols[i] = program->num_registers++;
    CALL(program, program->symbols[i], "vm.builtin.open_extent", in_register(program->heap),
         number(i));
  }
}

/* Writes the code that fills the cells of the rooms of tensors: the room of the tensor if the
 * caller keeps the memory. */
static void find_rooms(Program *program) {
  const BpGraph *graph = program->graph;
  bool *found = g_new0(bool, (gsize)bp__extents_count(&graph->extents) + 1), is_any = false;
  for (size_t n = 0; n < graph->nodes.size; n++) {
    const BpGraphNode *node = graph->nodes.items[n];
    if (!node->is_append)
      continue;
    const BpGraphValue *output = node->outputs[0];
    int32_t index = bp__list_index(&graph->outputs, output);
    int64_t room = cell_of(output->room);
    CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.find_room",
         in_register(BP_RELAX_CONTEXT_REGISTER), number(index), number(output->room_axis),
         in_register(program->heap), number(cell_of(output->shape[output->room_axis])),
         number(room), number(!found[room]),
         context_constant(program, "output", graph->output_names[index]));
    found[room] = is_any = true;
  }
  g_free(found);
  if (!is_any)
    return;
  program->stage++;
  fill_stage(program);
}

static void match_inputs(Program *program) {
  int32_t count = bp__extents_count(&program->graph->extents);
  bool *stored = g_new0(bool, (gsize)count + 1);
  CALL(program, program->heap, "vm.builtin.kept_heap", in_register(BP_RELAX_CONTEXT_REGISTER),
       number(program->num_entries++), number(count + SCRATCH_CELLS));
  for (size_t i = 0; i < program->graph->inputs.size; i++)
    match_input(program, program->graph->inputs.items[i], (int64_t)i, stored);
  g_free(stored);
  fill_stage(program);
  find_rooms(program);
}

/* Whether a shape contains symbols of the current stage. */
static bool binds(const Program *program, const BpGraphValue *value) {
  for (int32_t d = 0; d < value->ndim; d++)
    if (bp__extent_is_open(value->shape[d]) &&
        program->stages[cell_of(value->shape[d])] == program->stage)
      return true;
  return false;
}

/* Begins the next stage: the tensors of the given values bind its symbols. */
static void begin_stage(Program *program, BpGraphValue *const *values, size_t count,
                        const char *name) {
  int32_t num_cells = bp__extents_count(&program->graph->extents);
  bool *stored = g_new0(bool, (gsize)num_cells + 1);
  program->stage++;
  for (int32_t i = 0; i < num_cells; i++)
    stored[i] = program->stages[i] < program->stage;
  for (size_t i = 0; i < count; i++)
    if (binds(program, values[i]))
      match_extents(program, values[i], program->level->words[values[i]->id], stored,
                    context_constant(program, "node", name));
  g_free(stored);
  fill_stage(program);
}

/* Writes the code that fills the cells of the symbols that a node binds, and checks the node's
 * other elements. */
static void bind(Program *program, const BpGraphNode *node) {
  const BpGraphValue *vector = node->outputs[0];
  int64_t context = text_constant(program, bp__node_str(node, "complaint", ""));
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  program->stage++;
  put(args, program->level->words[vector->id]);
  put(args, in_register(program->heap));
  put(args, number(vector->shape[0]));
  for (int64_t i = 0; i < vector->shape[0]; i++) {
    int64_t extent = vector->extents[i];
    bool is_open = bp__extent_is_open(extent);
    put(args, number(!is_open ? BP_RELAX_MATCH_EQUAL
                     : program->stages[cell_of(extent)] >= program->stage
                         ? BP_RELAX_MATCH_STORE
                         : BP_RELAX_MATCH_EQUAL_TO_STORED));
    put(args, number(is_open ? cell_of(extent) : extent));
  }
  put(args, context);
  call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.match_elements", args);
  g_array_free(args, TRUE);
  fill_stage(program);
}

/* ---- Values ------------------------------------------------------------------------------ */

/* The word of a value on its own device. */
static int64_t own_word(Program *program, const BpGraphValue *value) {
  return value->data ? tensor_constant(program, value) : program->level->words[value->id];
}

/* The machine's number of a place: its first device, the host, or one that the program asks for. */
static int64_t device_of(Program *program, int32_t place) {
  int32_t type = bp_target_device_type(program->build->chain[place]);
  if (place == BP_PLACE_TARGET || type == BP_DEVICE_CPU)
    return place == BP_PLACE_TARGET ? 0 : -1;
  if (!program->numbers[place]) {
    program->devices[program->num_devices++] =
        g_strdup_printf("%d %d %d", type, bp__build_ordinal(program->build, place), place);
    program->numbers[place] = program->num_devices;
  }
  return program->numbers[place];
}

/* The register of the copy of a value at a place. */
static int64_t *twin_at(const Program *program, const BpGraphValue *value, int32_t place) {
  return &program->level->twins[value->id * program->build->num_places + place];
}

/* The word of a value at a place, to which it is copied if it is at another. */
static int64_t word_at(Program *program, const BpGraphValue *value, int32_t place) {
  if ((value->data ? BP_PLACE_TARGET : value->place) == place)
    return own_word(program, value);
  int64_t *twin = twin_at(program, value, place);
  if (!*twin) {
    *twin = program->num_registers++;
    CALL(program, *twin, "vm.builtin.to_machine_device", in_register(BP_RELAX_CONTEXT_REGISTER),
         own_word(program, value), number(device_of(program, place)));
  }
  return in_register(*twin);
}

/* The argument word for a value on the target's device. */
static int64_t value_argument(Program *program, const BpGraphValue *value) {
  return word_at(program, value, BP_PLACE_TARGET);
}

/* A new register for a value. */
static int64_t new_register(Program *program, const BpGraphValue *value) {
  int64_t result = program->num_registers++;
  program->level->words[value->id] = in_register(result);
  return result;
}

/* Writes the code that empties a register. */
static void empty(Program *program, int64_t index) {
  call_with(program, index, "vm.builtin.null_value", NULL, 0);
}

static void forget(Program *program, const BpGraphValue *value, int32_t group) {
  if (program->level->last[value->id] > group)
    return;
  if (value->producer && !value->data &&
      program->level->plan.part[program->level->plan.root[value->id]] < 0)
    empty(program, program->level->words[value->id]);
  for (int32_t place = 0; place < program->build->num_places; place++)
    if (*twin_at(program, value, place))
      empty(program, *twin_at(program, value, place));
}

/* Allocates memory for a tensor with the shape in a register. */
static void allocate(Program *program, int64_t tensor, int64_t shape, BpDataType type,
                     int32_t place) {
  int64_t dtype = dtype_constant(program, type);
  CALL(program, program->storage, "vm.builtin.alloc_storage",
       in_register(BP_RELAX_CONTEXT_REGISTER), in_register(shape),
       number(device_of(program, place)), dtype, text_constant(program, "global"));
  CALL(program, tensor, "vm.builtin.alloc_tensor", in_register(program->storage), number(0),
       in_register(shape), dtype);
}

/* Writes a call whose result the machine keeps, a tensor with the type and shape of `value`. */
static void call_keeping(Program *program, const char *function, const GArray *first,
                         const BpGraphValue *value, int64_t dst) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
  put(args, number(program->num_entries++));
  g_array_append_vals(args, first->data, first->len);
  put(args, dtype_constant(program, value->dtype));
  put(args, in_register(program->heap));
  put_extents(args, value);
  call(program, dst, function, args);
  g_array_free(args, TRUE);
}

/* Writes the allocation of an arena, with the sizes that its parts have in a run. */
static void allocate_arena(Program *program, int32_t index) {
  const BpProgramPlan *plan = &program->level->plan;
  BpProgramArena *arena = &g_array_index(plan->arenas, BpProgramArena, (guint)index);
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  arena->entry = program->num_entries++;
  put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
  put(args, number(arena->entry));
  put(args, number(device_of(program, arena->place)));
  put(args, in_register(program->heap));
  put(args, number(arena->num_parts));
  for (guint i = 0; i < plan->parts->len; i++) {
    const BpProgramPart *part = &g_array_index(plan->parts, BpProgramPart, i);
    if (part->arena != index)
      continue;
    put(args, number(part->values->len));
    for (guint k = 0; k < part->values->len; k++) {
      const BpGraphValue *value = part->values->pdata[k];
      put(args, dtype_constant(program, value->dtype));
      put_extents(args, value);
    }
  }
  call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.plan_arena", args);
  g_array_free(args, TRUE);
}

/* Allocates memory for a value that a group computes, in a new register. */
static void give_memory(Program *program, const BpGraphValue *value) {
  const BpProgramPlan *plan = &program->level->plan;
  int64_t tensor = new_register(program, value);
  GArray *first = g_array_new(FALSE, FALSE, sizeof(int64_t));
  if (plan->part[value->id] >= 0) {
    const BpProgramPart *part =
        &g_array_index(plan->parts, BpProgramPart, (guint)plan->part[value->id]);
    const BpProgramArena *arena = &g_array_index(plan->arenas, BpProgramArena, (guint)part->arena);
    if (arena->entry < 0)
      allocate_arena(program, part->arena);
    put(first, number(arena->entry));
    put(first, number(part->number));
    call_keeping(program, "vm.builtin.arena_tensor", first, value, tensor);
  } else if (program->level->graph == program->graph) {
    put(first, number(device_of(program, value->place)));
    call_keeping(program, "vm.builtin.kept_tensor", first, value, tensor);
  } else {
    allocate(program, tensor, make_shape(program, value), value->dtype, value->place);
  }
  g_array_free(first, TRUE);
}

/* ---- Groups ------------------------------------------------------------------------------ */

/* The word of a symbol; 0 for a symbol that is not bound yet, and so not read. */
static int64_t symbol_word(const Program *program, int32_t place) {
  return program->symbols[place] >= 0 ? in_register(program->symbols[place]) : number(0);
}

static void call_function(Program *program, const BpGroup *group) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  for (size_t i = 0; i < group->args.size; i++)
    put(args, word_at(program, group->args.items[i], group->place));
  for (size_t i = 0; i < group->outputs.size; i++)
    put(args, own_word(program, group->outputs.items[i]));
  /* num_symbols is 0 for a part of a graph compiler. */
  for (int32_t i = 0; i < group->num_symbols; i++)
    put(args, symbol_word(program, group->symbols[i]));
  call(program, BP_RELAX_VOID_REGISTER, group->function, args);
  g_array_free(args, TRUE);
}

/* A group whose function is a list of kernels. */
typedef struct Kernels {
  const BpGroup *group;
  const BpKernelList *list;
  const BpIrNode **vars; /* variables of the list's scalars, by place of the symbol */
  int64_t *words;        /* words of the group's arguments and outputs */
  int64_t *between;      /* registers of the buffers between kernels */
} Kernels;

static Kernels begin_kernels(Program *program, const BpGroup *group) {
  const BpExtents *extents = &program->graph->extents;
  const BpKernelList *list = group->kernels;
  int32_t count = bp__extents_count(extents);
  size_t num_args = group->args.size;
  Kernels kernels = {group, list, g_new0(const BpIrNode *, (gsize)count + 1),
                     g_new0(int64_t, num_args + group->outputs.size),
                     g_new0(int64_t, (gsize)list->num_buffers + 1)};
  for (int32_t i = 0; i < group->num_symbols; i++)
    kernels.vars[group->symbols[i]] = list->scalars[i];
  for (size_t i = 0; i < num_args; i++)
    kernels.words[i] = word_at(program, group->args.items[i], group->place);
  for (size_t i = 0; i < group->outputs.size; i++)
    kernels.words[num_args + i] = own_word(program, group->outputs.items[i]);
  return kernels;
}

static void allocate_between(Program *program, const Kernels *kernels) {
  for (int32_t i = 0; i < kernels->list->num_buffers; i++) {
    GArray *args = begin_formula(program);
    int64_t shape = program->num_registers++, cell = scratch_cell(program);
    put_formula(program, args, kernels->list->buffer_elements[i], kernels->vars);
    put_step(args, BP_RELAX_TAKE_CELL, cell);
    end_formula(program, args, BP_RELAX_VOID_REGISTER);
    CALL(program, shape, "vm.builtin.make_shape", in_register(program->heap), number(1),
         number(BP_RELAX_MAKE_STORED), number(cell));
    kernels->between[i] = program->num_registers++;
    allocate(program, kernels->between[i], shape, kernels->list->buffer_dtypes[i],
             kernels->group->place);
  }
}

static void end_kernels(Program *program, Kernels *kernels) {
  for (int32_t i = 0; i < kernels->list->num_buffers; i++)
    empty(program, kernels->between[i]);
  g_free(kernels->vars);
  g_free(kernels->words);
  g_free(kernels->between);
}

static int64_t kernel_argument(const Program *program, const Kernels *kernels, int32_t arg) {
  int32_t num_tensors = (int32_t)(kernels->group->args.size + kernels->group->outputs.size);
  if (arg < 0)
    return in_register(kernels->between[-1 - arg]);
  return arg < num_tensors ? kernels->words[arg]
                           : symbol_word(program, kernels->group->symbols[arg - num_tensors]);
}

/* Writes the check that the device does not end the loops of a kernel's threads too early. The
 * code generator checks a number that is known. */
static void check_iterations(Program *program, const Kernels *kernels,
                             const BpKernelLaunch *kernel) {
  const BpTarget *target = program->build->chain[kernels->group->place];
  int64_t most = bp_target_get_int(target, BP_TARGET_MAX_ITERATIONS, 0);
  if (most == 0 || bp_ir_table()->kind(kernel->iterations) == BP_IR_INT_IMM)
    return;
  const char *complaint = bp__arena_printf(
      (BpArena *)(uintptr_t)&program->graph->arena,
      "kernel '%s': inputs of these extents need more than %" PRId64
      " iterations of a thread's loops, after which the device ends them (attribute "
      "max_iterations); use smaller inputs or another device",
      kernel->name, most);
  GArray *formula = begin_formula(program);
  put_step(formula, BP_RELAX_PUSH_NUMBER, most);
  put_formula(program, formula, kernel->iterations, kernels->vars);
  put_step(formula, BP_RELAX_SUBTRACT, 0);
  put_step(formula, BP_RELAX_TAKE_CELL, scratch_cell(program));
  end_formula(program, formula, BP_RELAX_VOID_REGISTER);
  CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_extent", in_register(program->heap),
       number(scratch_cell(program)), text_constant(program, complaint ? complaint : ""));
}

/* Writes the launch of a kernel, which is skipped if an extent of the launch is 0. */
static void launch(Program *program, const Kernels *kernels, const BpKernelLaunch *kernel) {
  const BpIrTable *ir = bp_ir_table();
  int64_t skips[BP_KERNEL_MAX_LAUNCH];
  int32_t num_skips = 0;
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  check_iterations(program, kernels, kernel);
  for (int32_t i = 0; i < kernel->num_args; i++)
    put(args, kernel_argument(program, kernels, kernel->args[i]));
  for (int32_t i = 0; i < kernel->num_launch; i++) {
    if (ir->kind(kernel->launch[i]) == BP_IR_INT_IMM) {
      put(args, number(ir->int_value(kernel->launch[i])));
      continue;
    }
    int64_t extent = program->num_registers++;
    GArray *formula = begin_formula(program);
    put_formula(program, formula, kernel->launch[i], kernels->vars);
    end_formula(program, formula, extent);
    skips[num_skips++] = jump(program, extent);
    put(args, in_register(extent));
  }
  call(program, BP_RELAX_VOID_REGISTER, kernel->name, args);
  g_array_free(args, TRUE);
  while (num_skips > 0)
    land(program, skips[--num_skips], here(program));
}

static void call_group(Program *program, const BpGroup *group) {
  for (size_t i = 0; i < group->outputs.size; i++) {
    BpGraphValue *output = group->outputs.items[i];
    output->place = group->place;
    give_memory(program, output);
  }
  if (!group->kernels) {
    call_function(program, group);
    return;
  }
  Kernels kernels = begin_kernels(program, group);
  allocate_between(program, &kernels);
  for (int32_t i = 0; i < kernels.list->num_kernels; i++)
    launch(program, &kernels, bp_kernel_list_get(kernels.list, i));
  end_kernels(program, &kernels);
}

/* Whether the tensor of a value is the same object in all runs with equal shapes: it is in an
 * arena, a constant, or an input. */
static bool keeps_view(const Program *program, const BpGraphValue *value) {
  const BpProgramPlan *plan = &program->level->plan;
  return value->data || plan->part[plan->root[value->id]] >= 0 ||
         (program->level->graph == program->graph &&
          bp__list_index(&program->graph->inputs, value) >= 0);
}

static void call_view(Program *program, const BpGroup *group) {
  BpGraphValue *output = group->outputs.items[0];
  output->place = group->view_of->data ? BP_PLACE_TARGET : group->view_of->place;
  if (keeps_view(program, group->view_of)) {
    GArray *base = g_array_new(FALSE, FALSE, sizeof(int64_t));
    put(base, own_word(program, group->view_of));
    call_keeping(program, "vm.builtin.kept_view", base, output, new_register(program, output));
    g_array_free(base, TRUE);
  } else {
    int64_t shape = make_shape(program, output);
    CALL(program, new_register(program, output), "vm.builtin.reshape",
         own_word(program, group->view_of), in_register(shape),
         dtype_constant(program, output->dtype));
  }
  if (bp__op_is_bind(output->producer))
    bind(program, output->producer);
}

/* Finds the last readers of values; outputs of the graph are read at the end. */
static void find_lifetimes(Level *level) {
  const BpList *groups = &level->groups->groups;
  memset(level->last, -1, (size_t)level->graph->num_values * sizeof(*level->last));
  for (size_t g = 0; g < groups->size; g++) {
    const BpGroup *group = groups->items[g];
    for (size_t i = 0; i < group->args.size; i++)
      level->last[((const BpGraphValue *)group->args.items[i])->id] = (int32_t)g;
    if (group->view_of)
      level->last[group->view_of->id] = (int32_t)g;
  }
  for (size_t i = 0; i < level->graph->outputs.size; i++)
    level->last[((const BpGraphValue *)level->graph->outputs.items[i])->id] = INT32_MAX;
}

/* Writes the call that appends the second input of a node to the first. */
static void call_append(Program *program, const BpGraphNode *node) {
  const BpGraphValue *output = node->outputs[0];
  node->outputs[0]->place = BP_PLACE_TARGET;
  GArray *first = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(first, number(bp__list_index(&program->graph->outputs, output)));
  put(first, value_argument(program, node->inputs[0]));
  put(first, value_argument(program, node->inputs[1]));
  put(first, number(output->room_axis));
  call_keeping(program, "vm.builtin.append", first, output, new_register(program, output));
  g_array_free(first, TRUE);
}

static void call_control(Program *program, const BpGroup *group);

static void run_groups(Program *program) {
  const BpList *groups = &program->level->groups->groups;
  for (size_t g = 0; g < groups->size; g++) {
    const BpGroup *group = groups->items[g];
    if (group->bodies)
      call_control(program, group);
    else if (group->view_of)
      call_view(program, group);
    else if (bp__group_append(group))
      call_append(program, bp__group_append(group));
    else
      call_group(program, group);
    for (size_t i = 0; i < group->args.size; i++)
      forget(program, group->args.items[i], (int32_t)g);
    for (size_t i = 0; i < group->outputs.size; i++)
      forget(program, group->outputs.items[i], (int32_t)g);
  }
}

static Level begin_level(Program *program, const BpGraph *graph, const BpGroups *groups) {
  size_t count = (size_t)graph->num_values + 1;
  Level level = {.graph = graph,
                 .groups = groups,
                 .words = g_new0(int64_t, count),
                 .twins = g_new0(int64_t, count * (size_t)program->build->num_places),
                 .last = g_new0(int32_t, count),
                 .stage = -1};
  find_lifetimes(&level);
  bp__build_plan_program(graph, groups, program->stages, &level.plan);
  for (guint i = 0; i < level.plan.parts->len; i++)
    g_ptr_array_add(program->parts,
                    g_ptr_array_ref(g_array_index(level.plan.parts, BpProgramPart, i).values));
  return level;
}

static void end_level(Level *level) {
  bp__program_plan_clear(&level->plan);
  g_free(level->words);
  g_free(level->twins);
  g_free(level->last);
}

/* ---- Control flow ------------------------------------------------------------------------ */

static int64_t copy_of(Program *program, int64_t dst, int64_t word) {
  CALL(program, dst, "vm.builtin.copy", word);
  return dst;
}

static const BpGraphValue *item(const BpList *values, size_t index) {
  return values->items[index];
}

/* Writes a body. The inputs of the body are the words in `given`, then the inputs of the node from
 * `captured` on. Afterwards `level` has the words of the body's outputs: registers that the body
 * owns, or its inputs. */
static void write_body(Program *program, const BpGroup *group, int32_t index, const int64_t *given,
                       size_t num_given, size_t captured, Level *level) {
  const BpGraphNode *node = bp__group_control(group);
  const BpGraph *body = node->bodies[index];
  *level = begin_level(program, body, &group->bodies[index]);
  for (size_t i = 0; i < body->inputs.size; i++)
    level->words[item(&body->inputs, i)->id] =
        i < num_given ? given[i] : value_argument(program, node->inputs[captured + i - num_given]);
  program->level = level;
  int32_t before = program->stage;
  begin_stage(program, (BpGraphValue **)body->inputs.items, body->inputs.size, node->name);
  run_groups(program);
  for (int32_t i = 0; i < bp__extents_count(&body->extents); i++)
    if (program->stages[i] > before)
      program->symbols[i] = -1; /* the following code may run although the body did not run */
}

/* Copies the values that a node's bodies capture, its inputs from `captured` on, to the target's
 * device. The copies come before the first jump: if a body that made them did not run, later
 * code would read an empty register. */
static void bring_captured(Program *program, const BpGraphNode *node, size_t captured) {
  for (size_t i = captured; i < (size_t)node->num_inputs; i++)
    value_argument(program, node->inputs[i]);
}

/* Empties the registers of a body's outputs. */
static void forget_outputs(Program *program, const Level *level) {
  const BpList *outputs = &level->graph->outputs;
  for (size_t i = 0; i < outputs->size; i++)
    if (item(outputs, i)->producer && !item(outputs, i)->data)
      empty(program, level->words[item(outputs, i)->id]);
}

static void call_branch(Program *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  Level *outer = program->level;
  size_t captured = 1;
  int64_t holds = program->num_registers++, jumps[2];
  bring_captured(program, node, captured);
  CALL(program, holds, "vm.builtin.read_if_cond", value_argument(program, node->inputs[0]));
  for (int32_t i = 0; i < node->num_outputs; i++)
    new_register(program, node->outputs[i]);
  for (int32_t b = 0; b < 2; b++) {
    Level level;
    jumps[b] = b == 0 ? jump(program, holds) : jumps[1];
    write_body(program, group, b, NULL, 0, captured, &level);
    for (int32_t i = 0; i < node->num_outputs; i++)
      copy_of(program, outer->words[node->outputs[i]->id],
              value_argument(program, item(&level.graph->outputs, (size_t)i)));
    forget_outputs(program, &level);
    program->level = outer;
    end_level(&level);
    captured += node->bodies[b]->inputs.size;
    if (b == 0) {
      jumps[1] = jump(program, ALWAYS);
      land(program, jumps[0], here(program));
    }
  }
  land(program, jumps[1], here(program));
}

/* The registers of a loop. */
typedef struct Loop {
  const BpGraphNode *node;
  const BpGraph *body;
  size_t num_carried, num_stacks;
  int64_t counter, condition, holds; /* condition: register of the condition, or -1 */
  int64_t trip;                      /* argument word of the number of iterations */
  int64_t *carried;                  /* registers of the carried values, then of the stacks */
} Loop;

static Loop begin_loop(Program *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  const BpGraphValue *trip = bp__node_input(node, 0), *condition = bp__node_input(node, 1);
  Loop loop = {.node = node, .body = node->bodies[0]};
  loop.num_carried = (size_t)bp__node_int(node, "carried", 0);
  loop.num_stacks = (size_t)node->num_outputs - loop.num_carried;
  loop.carried = g_new0(int64_t, (gsize)node->num_outputs + 1);
  loop.trip = trip ? value_argument(program, trip) : in_register(BP_RELAX_VOID_REGISTER);
  loop.holds = program->num_registers++;
  loop.counter = copy_of(program, program->num_registers++, number(0));
  loop.condition = -1;
  if (bp__node_int(node, "condition", 0))
    loop.condition = copy_of(program, program->num_registers++,
                             condition ? value_argument(program, condition) : number(1));
  for (size_t i = 0; i < loop.num_carried; i++)
    loop.carried[i] =
        copy_of(program, program->num_registers++, value_argument(program, node->inputs[2 + i]));
  for (size_t i = loop.num_carried; i < (size_t)node->num_outputs; i++)
    empty(program, loop.carried[i] = program->num_registers++);
  bring_captured(program, node, loop.num_carried + 2);
  return loop;
}

/* Writes the code that pushes the outputs of an iteration onto the stacks. */
static void push_elements(Program *program, const Loop *loop) {
  const BpGraphAttr *backward = bp__node_attr(loop->node, "backward");
  int is_counted = bp__node_int(loop->node, "counted", 0) != 0;
  for (size_t i = 0; i < loop->num_stacks; i++) {
    int64_t stack = loop->carried[loop->num_carried + i];
    CALL(program, stack, "vm.builtin.push_element", in_register(BP_RELAX_CONTEXT_REGISTER),
         in_register(stack),
         value_argument(program, item(&loop->body->outputs, loop->num_carried + i)),
         in_register(loop->counter), is_counted ? loop->trip : in_register(BP_RELAX_VOID_REGISTER),
         number(backward->ints[i]), context_constant(program, "node", loop->node->name));
  }
}

/* Makes the outputs of the body the carried values of the next iteration. Values that the body
 * passes on are copied before the first carried value is replaced. */
static void carry(Program *program, const Loop *loop) {
  const BpList *outputs = &loop->body->outputs;
  int64_t *words = g_new0(int64_t, loop->num_carried + 1);
  for (size_t i = 0; i < loop->num_carried; i++) {
    const BpGraphValue *next = item(outputs, i);
    words[i] = value_argument(program, next);
    if (!next->data && !next->producer && words[i] != loop->carried[i])
      words[i] = copy_of(program, program->num_registers++, words[i]);
  }
  if (loop->condition >= 0)
    copy_of(program, loop->condition, value_argument(program, item(outputs, outputs->size - 1)));
  for (size_t i = 0; i < loop->num_carried; i++)
    if (words[i] != loop->carried[i])
      copy_of(program, loop->carried[i], words[i]);
  for (size_t i = 0; i < loop->num_carried; i++) {
    const BpGraphValue *next = item(outputs, i);
    if (!next->data && !next->producer && words[i] != loop->carried[i])
      empty(program, words[i]);
  }
  g_free(words);
}

static void iterate(Program *program, const BpGroup *group, const Loop *loop) {
  Level *outer = program->level, level;
  int64_t *given = g_new0(int64_t, loop->num_carried + 1);
  if (item(&loop->body->inputs, 0)->num_uses > 0) {
    given[0] = in_register(program->num_registers++);
    CALL(program, given[0], "vm.builtin.int_tensor", in_register(BP_RELAX_CONTEXT_REGISTER),
         in_register(loop->counter));
  }
  for (size_t i = 0; i < loop->num_carried; i++)
    given[1 + i] = in_register(loop->carried[i]);
  write_body(program, group, 0, given, loop->num_carried + 1, loop->num_carried + 2, &level);
  push_elements(program, loop);
  carry(program, loop);
  forget_outputs(program, &level);
  program->level = outer;
  end_level(&level);
  g_free(given);
}

/* Sets the node's outputs to the values after the last iteration. */
static void end_loop(Program *program, Loop *loop) {
  for (size_t i = 0; i < loop->num_carried; i++)
    program->level->words[loop->node->outputs[i]->id] = in_register(loop->carried[i]);
  for (size_t i = loop->num_carried; i < loop->num_carried + loop->num_stacks; i++) {
    const BpGraphValue *output = loop->node->outputs[i];
    int64_t none = make_empty_shape(program, output);
    CALL(program, new_register(program, output), "vm.builtin.take_elements",
         in_register(BP_RELAX_CONTEXT_REGISTER), in_register(loop->carried[i]),
         in_register(loop->counter), in_register(none), dtype_constant(program, output->dtype));
    empty(program, loop->carried[i]);
  }
  if (loop->condition >= 0)
    empty(program, loop->condition);
  g_free(loop->carried);
}

static void call_loop(Program *program, const BpGroup *group) {
  Loop loop = begin_loop(program, group);
  int64_t head = here(program), exit, back;
  CALL(program, loop.holds, "vm.builtin.loop_holds", in_register(BP_RELAX_CONTEXT_REGISTER),
       in_register(loop.counter), loop.trip,
       in_register(loop.condition < 0 ? BP_RELAX_VOID_REGISTER : loop.condition));
  exit = jump(program, loop.holds);
  iterate(program, group, &loop);
  CALL(program, loop.counter, "vm.builtin.next_number", in_register(loop.counter));
  back = jump(program, ALWAYS);
  land(program, back, head);
  land(program, exit, here(program));
  end_loop(program, &loop);
}

/* ---- Sequences --------------------------------------------------------------------------- */

/* The functions of graph/relax/sequence.h. */
static const struct {
  const char *function;
  bool takes_machine, takes_context;
  int32_t num_inputs; /* number of inputs, None for absent ones; 0: as many as the node has */
  const char *attrs[2];
} sequence_calls[BP_NUM_SEQUENCE_OPS] = {
    [BP_SEQUENCE_CONSTRUCT] = {"vm.builtin.make_tuple", false, false, 0, {0}},
    [BP_SEQUENCE_INSERT] = {"vm.builtin.sequence_insert", false, true, 3, {0}},
    [BP_SEQUENCE_ERASE] = {"vm.builtin.sequence_erase", false, true, 2, {0}},
    [BP_SEQUENCE_AT] = {"vm.builtin.sequence_at", false, true, 2, {0}},
    [BP_SEQUENCE_LENGTH] = {"vm.builtin.sequence_length", true, false, 1, {0}},
    [BP_SEQUENCE_CONCAT] = {"vm.builtin.sequence_concat", true, true, 1, {"axis", "new_axis"}},
    [BP_SEQUENCE_SPLIT] = {"vm.builtin.sequence_split", true, true, 2, {"axis", "keepdims"}},
    [BP_SEQUENCE_FAIL] = {"vm.builtin.fail", false, false, 0, {0}},
};

static void call_sequence(Program *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  int32_t index = bp__op_sequence(node), count = sequence_calls[index].num_inputs;
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  if (sequence_calls[index].takes_machine)
    put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
  for (int32_t i = 0; i < (count ? count : node->num_inputs); i++) {
    const BpGraphValue *input = bp__node_input(node, i);
    put(args, input ? value_argument(program, input) : in_register(BP_RELAX_VOID_REGISTER));
  }
  for (size_t i = 0; i < 2 && sequence_calls[index].attrs[i]; i++)
    put(args, number(bp__node_int(node, sequence_calls[index].attrs[i], 0)));
  if (sequence_calls[index].takes_context)
    put(args, context_constant(program, "node", node->name));
  if (index == BP_SEQUENCE_FAIL)
    put(args, text_constant(program, bp__node_str(node, "error", "")));
  call(program, new_register(program, node->outputs[0]), sequence_calls[index].function, args);
  g_array_free(args, TRUE);
}

/* Writes a node that the machine executes, and the extents that are known after it. */
static void call_control(Program *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  if (bp__op_sequence(node) >= 0)
    call_sequence(program, group);
  else if (node->op == &bp__op_branch)
    call_branch(program, group);
  else
    call_loop(program, group);
  begin_stage(program, node->outputs, (size_t)node->num_outputs, node->name);
}

/* ---- Results ----------------------------------------------------------------------------- */

/* Writes the copy of an output that is a list. */
static int64_t copy_list(Program *program, const BpGraphValue *output) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t copy = program->num_registers++;
  put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
  put(args, value_argument(program, output));
  put_list_type(program, args, output->sequence);
  call(program, copy, "vm.builtin.copy_list", args);
  g_array_free(args, TRUE);
  return in_register(copy);
}

/* Returns the word of an output: of a copy of a list, and of a view of a tensor's rows if the
 * tensor has room. */
static int64_t output_word(Program *program, const BpGraphValue *output) {
  if (output->sequence)
    return copy_list(program, output);
  int64_t word = value_argument(program, output);
  if (!output->room)
    return word;
  GArray *first = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t rows = program->num_registers++;
  put(first, word);
  call_keeping(program, "vm.builtin.without_room", first, output, rows);
  g_array_free(first, TRUE);
  return in_register(rows);
}

static void give_outputs(Program *program) {
  const BpList *outputs = &program->graph->outputs;
  int64_t result, *words = g_new0(int64_t, outputs->size);
  for (size_t i = 0; i < outputs->size; i++)
    words[i] = output_word(program, outputs->items[i]);
  result = words[0];
  if (outputs->size > 1 || item(outputs, 0)->sequence) { /* a list alone would look like a tuple */
    GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
    put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
    put(args, number(program->num_entries++));
    for (size_t i = 0; i < outputs->size; i++)
      put(args, words[i]);
    result = program->num_registers++;
    call(program, result, "vm.builtin.kept_tuple", args);
    g_array_free(args, TRUE);
  }
  begin_instruction(program);
  put(program->words, BP_RELAX_RET);
  put(program->words, result);
  g_free(words);
}

/* Writes a function that only has names, as the names of its parameters. */
static void name_things(Program *program) {
  begin_instruction(program);
  put(program->words, BP_RELAX_RET);
  put(program->words, 0);
}

/* ---- Requirements of a run --------------------------------------------------------------- */

#define MAX_FORMULA 512

/* Describes the memory that a run needs. The description adds expressions to the graph, so the code
 * must be complete. */
static void describe_memory(Program *program) {
  BpExtents extents = program->graph->extents;
  BpArena *arena = (BpArena *)(uintptr_t)&program->graph->arena;
  char text[MAX_FORMULA];
  int64_t total = bp__program_bytes(program->graph, program->parts, &extents);
  if (total == BP_EXTENT_NONE) {
    bp_error_clear();
    return;
  }
  bp__extent_format(&extents, total, text, sizeof(text));
  if (strlen(text) == sizeof(text) - 1)
    memcpy(text + sizeof(text) - 5, " ...", 4);
  program->memory[0] = bp__arena_printf(arena, "%s", text);
  program->memory[1] =
      bp__arena_printf(arena, "%" G_GINT64_FORMAT, bp__extent_likely(&extents, total));
  bp__write_likely(&extents, total, text, sizeof(text));
  program->memory[2] = bp__arena_printf(arena, "%s", text);
  for (size_t i = 0; i < G_N_ELEMENTS(program->memory); i++)
    if (!program->memory[i])
      program->failed = true;
}

/* ---- The document ------------------------------------------------------------------------ */

static void write_bytecode(BpStreamWriter *writer, const char *name, uint64_t first, uint64_t end,
                           int64_t num_registers, uint64_t num_params, const char *const *params) {
  int32_t kind = BP_RELAX_BYTECODE;
  bp__stream_write(writer, &kind, sizeof(kind));
  bp__stream_write_str(writer, name);
  bp__stream_write_u64(writer, first);
  bp__stream_write_u64(writer, end);
  bp__stream_write_u64(writer, num_params);
  bp__stream_write_u64(writer, (uint64_t)num_registers);
  bp__stream_write_u64(writer, num_params);
  for (uint64_t i = 0; i < num_params; i++)
    bp__stream_write_str(writer, params[i]);
}

static void write_packed(BpStreamWriter *writer, const char *name) {
  int32_t kind = BP_RELAX_PACKED;
  int64_t numbers[] = {0, 0, -2, 0};
  bp__stream_write(writer, &kind, sizeof(kind));
  bp__stream_write_str(writer, name);
  bp__stream_write(writer, numbers, sizeof(numbers));
  bp__stream_write_u64(writer, 0);
}

/* The number of the program's own functions, which come before the functions that it calls. */
#define NUM_OWN_FUNCTIONS 3
#define NUM_NAMES         3 /* number of BP_RELAX_STORAGE_NAMES */

static void write_functions(const Program *program, BpStreamWriter *writer) {
  const BpGraph *graph = program->graph;
  uint64_t names = program->num_devices ? 3 : 2, count = program->offsets->len + 2 - names;
  const char **inputs = g_new0(const char *, graph->inputs.size + 1);
  for (size_t i = 0; i < graph->inputs.size; i++)
    inputs[i] = ((const BpGraphValue *)graph->inputs.items[i])->name;
  bp__stream_write_u64(writer, program->functions->len + names - 2);
  write_bytecode(writer, "main", 0, count - 2, program->num_registers, graph->inputs.size, inputs);
  write_bytecode(writer, BP_RELAX_OUTPUT_NAMES, count - 2, count - 1, (int64_t)graph->outputs.size,
                 graph->outputs.size, graph->output_names);
  write_bytecode(writer, BP_RELAX_STORAGE_NAMES, count - 1, count, NUM_NAMES, NUM_NAMES,
                 program->memory);
  for (guint i = NUM_OWN_FUNCTIONS; i < program->functions->len; i++)
    write_packed(writer, program->functions->pdata[i]);
  if (program->num_devices)
    write_bytecode(writer, BP_RELAX_DEVICE_NAMES, count, count + 1, program->num_devices,
                   (uint64_t)program->num_devices, program->devices);
  g_free(inputs);
}

static void write_constant(const Constant *constant, BpStreamWriter *writer) {
  bp__stream_write(writer, &constant->type_index, sizeof(constant->type_index));
  if (constant->type_index == BP_TYPE_DTYPE)
    bp__stream_write(writer, &constant->dtype, sizeof(constant->dtype));
  else if (constant->type_index == BP_TYPE_STR)
    bp__stream_write_str(writer, constant->text);
  else
    bp__stream_write_aligned_tensor(
        writer, &(BpTensorView){.data = (void *)(uintptr_t)constant->tensor->data,
                                .device = {BP_DEVICE_CPU, 0},
                                .ndim = constant->tensor->ndim,
                                .dtype = constant->tensor->dtype,
                                .shape = (int64_t *)(uintptr_t)constant->tensor->shape});
}

static void write_words(const GArray *words, BpStreamWriter *writer) {
  bp__stream_write_u64(writer, words->len);
  bp__stream_write(writer, words->data, words->len * sizeof(int64_t));
}

/* Releases the memory of large constants other than those from index `first` on. Lack of memory for
 * the list of constants only delays the release. */
static void release_before(const Program *program, guint first, BpGraph *graph) {
  BpList live = {0};
  int status = 0;
  for (guint i = first; i < program->constants->len && !status; i++)
    status = bp__live_add(&live, g_array_index(program->constants, Constant, i).tensor);
  bp__live_sort(&live);
  if (!status)
    bp__build_release_others(program->build, graph, &live);
  else
    bp_error_clear();
  bp__list_free(&live);
}

/* Writes the constants; if `spent` is not NULL, releases the large constants of that graph once
 * they are written. */
static void write_constants(const Program *program, BpStreamWriter *writer, BpGraph *spent) {
  bp__stream_write_u64(writer, program->constants->len);
  for (guint i = 0; i < program->constants->len; i++) {
    const Constant *constant = &g_array_index(program->constants, Constant, i);
    write_constant(constant, writer);
    if (spent && constant->tensor && bp__value_num_bytes(constant->tensor) >= BP_GRAPH_LARGE)
      release_before(program, i + 1, spent);
  }
}

static void write_program(const Program *program, BpStreamWriter *writer, BpGraph *spent) {
  bp__stream_write_u64(writer, BP_RELAX_MAGIC);
  bp__stream_write_str(writer, BP_RELAX_VERSION);
  write_functions(program, writer);
  bp__stream_write_u64(writer, 0); /* number of memory scopes */
  write_constants(program, writer, spent);
  write_words(program->offsets, writer);
  write_words(program->words, writer);
}

/* Makes a module of the program (transfer full) as its loader does. The program's constants stay in
 * the bytes, a tensor, that the program is written to, and no longer exist in the graph. */
static BpModule *load_program(const Program *program, BpGraph *graph) {
  BpStreamWriter counter = {NULL, 0};
  write_program(program, &counter, NULL);
  int64_t size = BP_RELAX_HEAD + (int64_t)counter.size;
  BpTensor *bytes = bp_tensor_create(&size, 1, (BpDataType){BP_DTYPE_UINT, 8, 1},
                                     (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!bytes) {
    bp_error_add_context("memory for a program of %zu bytes", counter.size);
    return NULL;
  }
  BpStreamWriter writer = {(char *)bytes->view.data + BP_RELAX_HEAD, 0};
  write_program(program, &writer, graph);
  BpModule *module = bp__relax_module_take(bytes);
  bp_tensor_release(bytes);
  return module;
}

static void begin_program(Program *program) {
  size_t count = (size_t)bp__extents_count(&program->graph->extents);
  program->functions = g_ptr_array_new();
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t) "main");
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t)BP_RELAX_OUTPUT_NAMES);
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t)BP_RELAX_STORAGE_NAMES);
  program->parts = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
  for (size_t i = 0; i < G_N_ELEMENTS(program->memory); i++)
    program->memory[i] = "";
  program->constants = g_array_new(FALSE, FALSE, sizeof(Constant));
  program->words = g_array_new(FALSE, FALSE, sizeof(int64_t));
  program->offsets = g_array_new(FALSE, FALSE, sizeof(int64_t));
  program->scratch = bp_ir_module_create();
  program->vars = g_new0(const BpIrNode *, count + 1);
  for (int32_t i = 0; program->scratch && i < (int32_t)count; i++)
    if (bp__extents_symbol_name(&program->graph->extents, i))
      program->vars[i] = bp_ir_var(program->scratch,
                                   bp__extents_symbol_name(&program->graph->extents, i), BP__INT64);
  program->symbols = g_new0(int64_t, count + 1);
  memset(program->symbols, -1, count * sizeof(*program->symbols));
  program->stages = find_stages(program->graph);
  *program->level = begin_level(program, program->graph, program->groups);
  for (size_t i = 0; i < program->graph->inputs.size; i++)
    program->level->words[item(&program->graph->inputs, i)->id] = in_register((int64_t)i);
  program->num_registers = (int64_t)program->graph->inputs.size;
  program->heap = program->num_registers++;
  program->storage = program->num_registers++;
}

static void end_program(Program *program) {
  g_ptr_array_free(program->parts, TRUE);
  g_ptr_array_free(program->functions, TRUE);
  g_array_free(program->constants, TRUE);
  g_array_free(program->words, TRUE);
  g_array_free(program->offsets, TRUE);
  g_free(program->symbols);
  g_free(program->stages);
  g_free(program->vars);
  bp_object_release(program->scratch);
  for (int64_t i = 0; i < program->num_devices; i++)
    g_free((gpointer)(uintptr_t)program->devices[i]);
}

BpModule *bp__build_program(const BpBuild *build, BpGraph *graph, const BpGroups *groups,
                            BpModule *code) {
  Level level;
  Program program = {.build = build, .graph = graph, .groups = groups, .level = &level};
  begin_program(&program);
  match_inputs(&program);
  run_groups(&program);
  give_outputs(&program);
  name_things(&program); /* the outputs */
  name_things(&program); /* the memory of a run */
  if (program.num_devices)
    name_things(&program); /* devices */
  describe_memory(&program);
  BpModule *module = program.failed ? NULL : load_program(&program, graph);
  end_program(&program);
  end_level(&level);
  if (module && bp_module_import(module, code) != 0) {
    bp_object_release(module);
    return NULL;
  }
  return module;
}
