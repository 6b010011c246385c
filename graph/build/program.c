/* SPDX-License-Identifier: Apache-2.0 */
/* A graph with open extents as a program of the Relax machine (graph/relax/executable.h), in the
 * form in which TVM saves one.
 *
 * The function "main" takes the inputs. It matches their extents into a heap of numbers, one cell
 * for each expression of the graph, has a function compute the cells that depend on these alone,
 * and then calls the functions of the groups in order, with memory for what they give. Where
 * extents depend on what was computed (graph/ops/bind.c), their cells are filled then, and those
 * that depend on them. A function takes its tensors and then the symbols. Memory is given back as
 * soon as the last reader has run, and the machine keeps it for the next who asks for as much. */
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/io/stream.h"
#include "graph/ops/op.h"
#include "graph/relax/form.h"
#include "graph/relax/module.h"

/* One of the constants: a type, a text or a tensor. */
typedef struct Constant {
  int32_t type_index;
  BpDataType dtype;
  const char *text;
  const BpGraphValue *tensor;
} Constant;

typedef struct Program {
  const BpGraph *graph;
  const BpGroups *groups;
  GPtrArray *functions; /* names of what is called; "main" and the names of outputs come first */
  GArray *constants;    /* Constant */
  GArray *words, *offsets;
  int64_t *registers; /* by value id: -1: none */
  int32_t *last;      /* by value id: the last group that reads it */
  int64_t num_registers;
  int64_t heap, storage; /* registers */
  int64_t *symbols;      /* registers, by place of the expression; -1: no symbol, or not yet */
  int32_t *stages;       /* of the expressions */
  int32_t stage;         /* whose cells have been filled */
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

/* A call whose arguments are few. */
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

/* The shape of a value in a new register. */
static int64_t make_shape(Program *program, const BpGraphValue *value) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t shape = program->num_registers++;
  put(args, in_register(program->heap));
  put(args, number(value->ndim));
  for (int32_t i = 0; i < value->ndim; i++) {
    bool is_open = bp__extent_is_open(value->shape[i]);
    put(args, number(is_open ? BP_RELAX_MAKE_STORED : BP_RELAX_MAKE_NUMBER));
    put(args, number(is_open ? cell_of(value->shape[i]) : value->shape[i]));
  }
  call(program, shape, "vm.builtin.make_shape", args);
  g_array_free(args, TRUE);
  return shape;
}

/* Checks an input, and stores the symbols that it is the first to have. */
static void match_input(Program *program, const BpGraphValue *input, int64_t index, bool *stored) {
  const char *text =
      bp__arena_printf((BpArena *)(uintptr_t)&program->graph->arena, "input '%s':", input->name);
  int64_t context = text_constant(program, text ? text : "");
  CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_tensor_info", in_register(index),
       number(input->ndim), dtype_constant(program, input->dtype), context);
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(index));
  put(args, in_register(program->heap));
  put(args, number(input->ndim));
  for (int32_t i = 0; i < input->ndim; i++) {
    int64_t extent = input->shape[i];
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

/* Gives the symbols among some extents that have no stage yet this one. */
static void set_stage(const BpExtents *extents, const int64_t *list, int64_t count, int32_t stage,
                      int32_t *stages) {
  for (int64_t i = 0; i < count; i++)
    if (bp__extent_is_open(list[i]) &&
        bp__extents_symbol_name(extents, (int32_t)cell_of(list[i])) && stages[cell_of(list[i])] < 0)
      stages[cell_of(list[i])] = stage;
}

/* The expressions are filled in stages: first those of the inputs' extents, and then, at each node
 * that binds symbols, those that depend on these. By place of the expression (free). */
static int32_t *find_stages(const BpGraph *graph) {
  const BpExtents *extents = &graph->extents;
  int32_t count = bp__extents_count(extents), stage = 0;
  int32_t *stages = g_new(int32_t, (gsize)count + 1);
  bool *marked = g_new0(bool, (gsize)count + 1);
  memset(stages, -1, (size_t)count * sizeof(*stages));
  for (size_t i = 0; i < graph->inputs.size; i++) {
    const BpGraphValue *input = graph->inputs.items[i];
    set_stage(extents, input->shape, input->ndim, 0, stages);
  }
  for (size_t n = 0; n < graph->nodes.size; n++) {
    const BpGraphNode *node = graph->nodes.items[n];
    stage += bp__op_is_bind(node);
    if (bp__op_is_bind(node))
      set_stage(extents, node->outputs[0]->extents, node->outputs[0]->shape[0], stage, stages);
  }
  for (int32_t i = 0; i < count; i++) {
    memset(marked, 0, (size_t)count * sizeof(*marked));
    bp__extent_mark_symbols(extents, bp__extents_at(i), marked);
    for (int32_t k = 0; k < count; k++)
      if (marked[k] && stages[k] > stages[i])
        stages[i] = stages[k];
  }
  g_free(marked);
  return stages;
}

static bool has_expressions(const BpExtents *extents, const int32_t *stages, int32_t stage) {
  for (int32_t i = 0; i < bp__extents_count(extents); i++)
    if (stages[i] == stage && !bp__extents_symbol_name(extents, i))
      return true;
  return false;
}

/* The function that computes the expressions of a stage; NULL: out of memory. */
static const char *stage_function(const BpGraph *graph, int32_t stage) {
  return bp__arena_printf((BpArena *)(uintptr_t)&graph->arena, "extents_%d", stage);
}

/* Fills the cells of a stage whose symbols are in theirs, and puts these into registers. */
static void fill_stage(Program *program, int32_t stage) {
  const BpExtents *extents = &program->graph->extents;
  const char *function = stage_function(program->graph, stage);
  program->stage = stage;
  if (has_expressions(extents, program->stages, stage))
    CALL(program, BP_RELAX_VOID_REGISTER, function ? function : "", in_register(program->heap));
  for (int32_t i = 0; i < bp__extents_count(extents); i++) {
    if (program->stages[i] != stage || !bp__extents_symbol_name(extents, i))
      continue;
    program->symbols[i] = program->num_registers++;
    CALL(program, program->symbols[i], "vm.builtin.make_prim_value", in_register(program->heap),
         number(BP_RELAX_MAKE_STORED), number(i));
  }
}

static void match_inputs(Program *program) {
  int32_t count = bp__extents_count(&program->graph->extents);
  bool *stored = g_new0(bool, (gsize)count + 1);
  CALL(program, program->heap, "vm.builtin.alloc_shape_heap",
       in_register(BP_RELAX_CONTEXT_REGISTER), number(count));
  for (size_t i = 0; i < program->graph->inputs.size; i++)
    match_input(program, program->graph->inputs.items[i], (int64_t)i, stored);
  g_free(stored);
  fill_stage(program, 0);
}

/* Fills the cells of the symbols that a node binds, which checks its other elements. */
static void bind(Program *program, const BpGraphNode *node) {
  const BpGraphValue *vector = node->outputs[0];
  int64_t context = text_constant(program, bp__node_str(node, "complaint", ""));
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(program->registers[vector->id]));
  put(args, in_register(program->heap));
  put(args, number(vector->shape[0]));
  for (int64_t i = 0; i < vector->shape[0]; i++) {
    int64_t extent = vector->extents[i];
    bool is_open = bp__extent_is_open(extent);
    put(args, number(!is_open ? BP_RELAX_MATCH_EQUAL
                     : program->stages[cell_of(extent)] > program->stage
                         ? BP_RELAX_MATCH_STORE
                         : BP_RELAX_MATCH_EQUAL_TO_STORED));
    put(args, number(is_open ? cell_of(extent) : extent));
  }
  put(args, context);
  call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.match_elements", args);
  g_array_free(args, TRUE);
  fill_stage(program, program->stage + 1);
}

/* ---- Groups ------------------------------------------------------------------------------ */

static int64_t value_argument(Program *program, const BpGraphValue *value) {
  if (value->data)
    return tensor_constant(program, value);
  return in_register(program->registers[value->id]);
}

static void allocate(Program *program, const BpGraphValue *value) {
  int64_t shape = make_shape(program, value), dtype = dtype_constant(program, value->dtype);
  program->registers[value->id] = program->num_registers++;
  CALL(program, program->storage, "vm.builtin.alloc_storage",
       in_register(BP_RELAX_CONTEXT_REGISTER), in_register(shape), number(0), dtype,
       text_constant(program, "global"));
  CALL(program, program->registers[value->id], "vm.builtin.alloc_tensor",
       in_register(program->storage), number(0), in_register(shape), dtype);
}

static void call_group(Program *program, const BpGroup *group) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  for (size_t i = 0; i < group->outputs.size; i++)
    allocate(program, group->outputs.items[i]);
  for (size_t i = 0; i < group->args.size; i++)
    put(args, value_argument(program, group->args.items[i]));
  for (size_t i = 0; i < group->outputs.size; i++)
    put(args, value_argument(program, group->outputs.items[i]));
  for (int32_t i = 0; i < bp__extents_count(&program->graph->extents); i++)
    if (bp__extents_symbol_name(&program->graph->extents, i))
      put(args, program->symbols[i] >= 0 ? in_register(program->symbols[i]) : number(0));
  call(program, BP_RELAX_VOID_REGISTER, group->function, args);
  g_array_free(args, TRUE);
}

static void call_view(Program *program, const BpGroup *group) {
  const BpGraphValue *output = group->outputs.items[0];
  int64_t shape = make_shape(program, output);
  program->registers[output->id] = program->num_registers++;
  CALL(program, program->registers[output->id], "vm.builtin.reshape",
       value_argument(program, group->view_of), in_register(shape),
       dtype_constant(program, output->dtype));
  if (bp__op_is_bind(output->producer))
    bind(program, output->producer);
}

static void forget(Program *program, const BpGraphValue *value, int32_t group) {
  if (!value->producer || value->data || program->last[value->id] > group)
    return;
  call_with(program, program->registers[value->id], "vm.builtin.null_value", NULL, 0);
}

/* The last readers of values; outputs of the graph are read in the end. */
static void find_lifetimes(Program *program) {
  const BpList *groups = &program->groups->groups;
  for (size_t g = 0; g < groups->size; g++) {
    const BpGroup *group = groups->items[g];
    for (size_t i = 0; i < group->args.size; i++)
      program->last[((const BpGraphValue *)group->args.items[i])->id] = (int32_t)g;
    if (group->view_of)
      program->last[group->view_of->id] = (int32_t)g;
  }
  for (size_t i = 0; i < program->graph->outputs.size; i++)
    program->last[((const BpGraphValue *)program->graph->outputs.items[i])->id] = INT32_MAX;
}

static void run_groups(Program *program) {
  const BpList *groups = &program->groups->groups;
  for (size_t g = 0; g < groups->size; g++) {
    const BpGroup *group = groups->items[g];
    if (group->view_of)
      call_view(program, group);
    else
      call_group(program, group);
    for (size_t i = 0; i < group->args.size; i++)
      forget(program, group->args.items[i], (int32_t)g);
    for (size_t i = 0; i < group->outputs.size; i++)
      forget(program, group->outputs.items[i], (int32_t)g);
  }
}

static void give_outputs(Program *program) {
  const BpList *outputs = &program->graph->outputs;
  int64_t result = program->registers[((const BpGraphValue *)outputs->items[0])->id];
  if (outputs->size > 1) {
    GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
    for (size_t i = 0; i < outputs->size; i++)
      put(args, value_argument(program, outputs->items[i]));
    result = program->num_registers++;
    call(program, result, "vm.builtin.make_tuple", args);
    g_array_free(args, TRUE);
  }
  begin_instruction(program);
  put(program->words, BP_RELAX_RET);
  put(program->words, result);
}

/* The function that has the names of the outputs: as those of its parameters. */
static void name_outputs(Program *program) {
  begin_instruction(program);
  put(program->words, BP_RELAX_RET);
  put(program->words, 0);
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

static void write_functions(const Program *program, BpStreamWriter *writer) {
  const BpGraph *graph = program->graph;
  uint64_t count = program->offsets->len;
  const char **inputs = g_new0(const char *, graph->inputs.size + 1);
  for (size_t i = 0; i < graph->inputs.size; i++)
    inputs[i] = ((const BpGraphValue *)graph->inputs.items[i])->name;
  bp__stream_write_u64(writer, program->functions->len);
  write_bytecode(writer, "main", 0, count - 1, program->num_registers, graph->inputs.size, inputs);
  write_bytecode(writer, BP_RELAX_OUTPUT_NAMES, count - 1, count, (int64_t)graph->outputs.size,
                 graph->outputs.size, graph->output_names);
  for (guint i = 2; i < program->functions->len; i++)
    write_packed(writer, program->functions->pdata[i]);
  g_free(inputs);
}

static void write_constant(const Constant *constant, BpStreamWriter *writer) {
  bp__stream_write(writer, &constant->type_index, sizeof(constant->type_index));
  if (constant->type_index == BP_TYPE_DTYPE)
    bp__stream_write(writer, &constant->dtype, sizeof(constant->dtype));
  else if (constant->type_index == BP_TYPE_STR)
    bp__stream_write_str(writer, constant->text);
  else
    bp__stream_write_tensor(
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

static void write_program(const Program *program, BpStreamWriter *writer) {
  bp__stream_write_u64(writer, BP_RELAX_MAGIC);
  bp__stream_write_str(writer, BP_RELAX_VERSION);
  write_functions(program, writer);
  bp__stream_write_u64(writer, 0); /* memory scopes */
  bp__stream_write_u64(writer, program->constants->len);
  for (guint i = 0; i < program->constants->len; i++)
    write_constant(&g_array_index(program->constants, Constant, i), writer);
  write_words(program->offsets, writer);
  write_words(program->words, writer);
}

/* A module of the program (transfer full), as its loader makes it. */
static BpModule *load_program(const Program *program) {
  BpStreamWriter counter = {NULL, 0}, writer = {NULL, 0};
  write_program(program, &counter);
  writer.data = malloc(counter.size + 1);
  if (!writer.data) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a program of %zu bytes", counter.size);
    return NULL;
  }
  write_program(program, &writer);
  BpModule *module = bp__relax_module_read(&(BpByteArray){writer.data, writer.size});
  free(writer.data);
  return module;
}

static void begin_program(Program *program) {
  size_t values = (size_t)program->graph->num_values + 1;
  program->functions = g_ptr_array_new();
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t) "main");
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t)BP_RELAX_OUTPUT_NAMES);
  program->constants = g_array_new(FALSE, FALSE, sizeof(Constant));
  program->words = g_array_new(FALSE, FALSE, sizeof(int64_t));
  program->offsets = g_array_new(FALSE, FALSE, sizeof(int64_t));
  program->registers = g_new0(int64_t, values);
  program->last = g_new0(int32_t, values);
  program->symbols = g_new0(int64_t, (gsize)bp__extents_count(&program->graph->extents) + 1);
  memset(program->symbols, -1,
         (size_t)bp__extents_count(&program->graph->extents) * sizeof(*program->symbols));
  program->stages = find_stages(program->graph);
  memset(program->last, -1, values * sizeof(*program->last));
  for (size_t i = 0; i < program->graph->inputs.size; i++)
    program->registers[((const BpGraphValue *)program->graph->inputs.items[i])->id] = (int64_t)i;
  program->num_registers = (int64_t)program->graph->inputs.size;
  program->heap = program->num_registers++;
  program->storage = program->num_registers++;
}

static void end_program(Program *program) {
  g_ptr_array_free(program->functions, TRUE);
  g_array_free(program->constants, TRUE);
  g_array_free(program->words, TRUE);
  g_array_free(program->offsets, TRUE);
  g_free(program->registers);
  g_free(program->last);
  g_free(program->symbols);
  g_free(program->stages);
}

BpModule *bp__build_program(const BpGraph *graph, const BpGroups *groups, BpModule *code) {
  Program program = {.graph = graph, .groups = groups};
  begin_program(&program);
  find_lifetimes(&program);
  match_inputs(&program);
  run_groups(&program);
  give_outputs(&program);
  name_outputs(&program);
  BpModule *module = load_program(&program);
  end_program(&program);
  if (module && bp_module_import(module, code) != 0) {
    bp_object_release(module);
    return NULL;
  }
  return module;
}

/* ---- The functions that compute extents ---------------------------------------------------- */

static const BpIrNode *index_node(BpIrModule *ir, int64_t value) {
  return bp_ir_int(ir, BP__INT64, value);
}

/* Adds the function that fills the cells of a stage. */
static int build_stage(const BpGraph *graph, BpIrModule *ir, const int32_t *stages, int32_t stage) {
  const BpExtents *extents = &graph->extents;
  int32_t count = bp__extents_count(extents), num_stores = 0;
  const char *name = stage_function(graph, stage);
  const BpIrNode **symbols = g_new0(const BpIrNode *, (gsize)count);
  const BpIrNode **stores = g_new0(const BpIrNode *, (gsize)count);
  const BpIrNode *size = index_node(ir, count);
  const BpIrNode *heap = bp_ir_buffer(ir, "heap", BP__INT64, BP_IR_SCOPE_GLOBAL, &size, 1);
  for (int32_t i = 0; i < count; i++)
    symbols[i] = bp_ir_load(ir, heap, index_node(ir, i), NULL);
  for (int32_t i = 0; i < count; i++)
    if (stages[i] == stage && !bp__extents_symbol_name(extents, i))
      stores[num_stores++] =
          bp_ir_store(ir, heap, index_node(ir, i),
                      bp__extent_node(extents, ir, bp__extents_at(i), symbols), NULL);
  const BpIrNode *body = bp_ir_seq(ir, stores, num_stores);
  const BpIrNode *function =
      body && name ? bp_ir_function(ir, name, &heap, 1, NULL, 0, body) : NULL;
  g_free(symbols);
  g_free(stores);
  return function ? bp_ir_module_add(ir, function) : -1;
}

int bp__build_extents(const BpGraph *graph, BpIrModule *ir) {
  int32_t *stages = find_stages(graph), last = 0, status = 0;
  for (int32_t i = 0; i < bp__extents_count(&graph->extents); i++)
    last = stages[i] > last ? stages[i] : last;
  for (int32_t stage = 0; stage <= last && status == 0; stage++)
    if (has_expressions(&graph->extents, stages, stage))
      status = build_stage(graph, ir, stages, stage);
  g_free(stages);
  return status;
}
