/* SPDX-License-Identifier: Apache-2.0 */
/* The extents of a program: the heap of numbers, its cells, and when they are filled. */
#include <string.h>

#include <backplane/error.h>

#include "graph/build/program.h"
#include "graph/ops/control.h"

/* ---- Formulas -------------------------------------------------------------------------------- */

/* The number of cells after the cells of extents, for numbers that are used immediately. */
#define SCRATCH_CELLS 1

int64_t bp__program_scratch_cell(const BpProgram *program) {
  return bp__extents_count(&program->graph->extents);
}

GArray *bp__program_begin_formula(BpProgram *program) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(program->heap));
  return args;
}

void bp__program_put_step(GArray *args, int64_t step, int64_t operand) {
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
static int64_t cell_of_var(const BpProgram *program, const BpIrNode *var,
                           const BpIrNode *const *vars) {
  for (int32_t i = 0; i < bp__extents_count(&program->graph->extents); i++)
    if (vars[i] == var)
      return i;
  return -1;
}

/* Pushes a number. An argument's greatest number stands for greater ones, as the end of a slice: it
 * is right in a minimum or maximum, and sums with it are no extents. */
static void put_number(GArray *args, int64_t value) {
  const int64_t most = (INT64_C(1) << (BP_RELAX_VALUE_BITS - 1)) - 1;
  bp__program_put_step(args, BP_RELAX_PUSH_NUMBER, CLAMP(value, -most, most));
}

void bp__program_put_formula(BpProgram *program, GArray *args, const BpIrNode *node,
                             const BpIrNode *const *vars) {
  const BpIrTable *ir = bp_ir_table();
  int32_t kind = node ? ir->kind(node) : -1;
  if (program->failed || !node) {
    program->failed = true;
  } else if (kind == BP_IR_INT_IMM) {
    put_number(args, ir->int_value(node));
  } else if (kind == BP_IR_VAR && cell_of_var(program, node, vars) >= 0) {
    bp__program_put_step(args, BP_RELAX_PUSH_CELL, cell_of_var(program, node, vars));
  } else if (step_of(kind) >= 0) {
    bp__program_put_formula(program, args, ir->operand(node, 0), vars);
    bp__program_put_formula(program, args, ir->operand(node, 1), vars);
    bp__program_put_step(args, step_of(kind), 0);
  } else {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "an extent that is computed by '%s' of the IR",
                   ir->kind_name(kind));
    program->failed = true;
  }
}

void bp__program_end_formula(BpProgram *program, GArray *args, int64_t dst) {
  if (args->len > 1)
    bp__program_call(program, dst, "vm.builtin.compute", args);
  g_array_free(args, TRUE);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

void bp__program_put_extents(GArray *args, const BpGraphValue *value) {
  put(args, number(value->ndim));
  for (int32_t i = 0; i < value->ndim; i++) {
    bool is_open = bp__extent_is_open(value->shape[i]);
    put(args, number(is_open ? BP_RELAX_MAKE_STORED : BP_RELAX_MAKE_NUMBER));
    put(args, number(is_open ? cell_of(value->shape[i]) : value->shape[i]));
  }
}

int64_t bp__program_make_shape(BpProgram *program, const BpGraphValue *value) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t shape = program->num_registers++;
  put(args, in_register(program->heap));
  bp__program_put_extents(args, value);
  bp__program_call(program, shape, "vm.builtin.make_shape", args);
  g_array_free(args, TRUE);
  return shape;
}

int64_t bp__program_make_empty_shape(BpProgram *program, const BpGraphValue *value) {
  BpGraphValue none = *value;
  none.shape[0] = 0;
  for (int32_t i = 1; i < none.ndim; i++)
    if (bp__extent_is_open(none.shape[i]) &&
        program->stages[cell_of(none.shape[i])] > program->stage)
      none.shape[i] = 0;
  return bp__program_make_shape(program, &none);
}

/* Writes the call that matches the extents of a tensor and stores the symbols of the current
 * stage. */
static void match_extents(BpProgram *program, const BpGraphValue *value, int64_t word, bool *stored,
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
  bp__program_call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.match_shape", args);
  g_array_free(args, TRUE);
}

void bp__program_put_list_type(BpProgram *program, GArray *args, const BpGraphSequence *type) {
  int32_t ndim = MAX(type->ndim, -1);
  bool is_sequence = !type->is_optional || type->has_sequences;
  put(args,
      number((type->is_optional ? BP_MODEL_OPTIONAL : 0) | (is_sequence ? BP_MODEL_SEQUENCE : 0)));
  put(args, bp__program_dtype(program, type->dtype));
  put(args, number(ndim));
  for (int32_t d = 0; d < ndim; d++)
    put(args, number(bp__extent_is_open(type->shape[d]) ? -1 : type->shape[d]));
}

/* Writes the check of an input that is a list. */
static void check_list(BpProgram *program, const BpGraphValue *input, int64_t index) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(index));
  bp__program_put_list_type(program, args, input->sequence);
  put(args, bp__program_context(program, "input", input->name));
  bp__program_call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_list", args);
  g_array_free(args, TRUE);
}

/* Writes the check of an input, and stores the symbols that no earlier input has. */
static void match_input(BpProgram *program, const BpGraphValue *input, int64_t index,
                        bool *stored) {
  if (input->sequence) {
    check_list(program, input, index);
    return;
  }
  int64_t context = bp__program_context(program, "input", input->name);
  CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_tensor_info", in_register(index),
       number(input->ndim), bp__program_dtype(program, input->dtype), context);
  match_extents(program, input, in_register(index), stored, context);
}

/* ---- Stages ---------------------------------------------------------------------------------- */

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

int32_t *bp__program_find_stages(const BpGraph *graph) {
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
static void check_conditions(BpProgram *program) {
  const BpList *conditions = &program->level->graph->conditions;
  for (size_t i = 0; i < conditions->size; i++) {
    const BpGraphCondition *condition = conditions->items[i];
    int64_t cell = cell_of(condition->extent);
    if (program->stages[cell] > program->level->stage && program->stages[cell] <= program->stage)
      CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_extent", in_register(program->heap),
           number(cell), bp__program_text(program, condition->complaint));
  }
  program->level->stage = program->stage;
}

/* Writes the code that fills the cells of a stage whose symbols are in their cells, and puts the
 * symbols into registers. */
static void fill_stage(BpProgram *program) {
  const BpExtents *extents = &program->graph->extents;
  GArray *args = bp__program_begin_formula(program);
  for (int32_t i = 0; i < bp__extents_count(extents); i++)
    if (program->stages[i] == program->stage && !is_bound(extents, i)) {
      int64_t definition = bp__extents_definition(extents, i);
      bp__program_put_formula(
          program, args,
          bp__extent_node(extents, program->scratch,
                          definition == BP_EXTENT_NONE ? bp__extents_at(i) : definition,
                          program->vars),
          program->vars);
      bp__program_put_step(args, BP_RELAX_TAKE_CELL, i);
    }
  bp__program_end_formula(program, args, BP_RELAX_VOID_REGISTER);
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
static void find_rooms(BpProgram *program) {
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
         bp__program_context(program, "output", graph->output_names[index]));
    found[room] = is_any = true;
  }
  g_free(found);
  if (!is_any)
    return;
  program->stage++;
  fill_stage(program);
}

void bp__program_match_inputs(BpProgram *program) {
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
static bool binds(const BpProgram *program, const BpGraphValue *value) {
  for (int32_t d = 0; d < value->ndim; d++)
    if (bp__extent_is_open(value->shape[d]) &&
        program->stages[cell_of(value->shape[d])] == program->stage)
      return true;
  return false;
}

void bp__program_begin_stage(BpProgram *program, BpGraphValue *const *values, size_t count,
                             const char *name) {
  int32_t num_cells = bp__extents_count(&program->graph->extents);
  bool *stored = g_new0(bool, (gsize)num_cells + 1);
  program->stage++;
  for (int32_t i = 0; i < num_cells; i++)
    stored[i] = program->stages[i] < program->stage;
  for (size_t i = 0; i < count; i++)
    if (binds(program, values[i]))
      match_extents(program, values[i], program->level->words[values[i]->id], stored,
                    bp__program_context(program, "node", name));
  g_free(stored);
  fill_stage(program);
}

void bp__program_bind(BpProgram *program, const BpGraphNode *node) {
  const BpGraphValue *vector = node->outputs[0];
  int64_t context = bp__program_text(program, bp__node_str(node, "complaint", ""));
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
  bp__program_call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.match_elements", args);
  g_array_free(args, TRUE);
  fill_stage(program);
}
