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
#include <string.h>

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>

#include "graph/build/program.h"
#include "graph/ops/control.h"

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The word of a symbol; 0 for a symbol that is not bound yet, and so not read. */
static int64_t symbol_word(const BpProgram *program, int32_t place) {
  return program->symbols[place] >= 0 ? in_register(program->symbols[place]) : number(0);
}

static void call_function(BpProgram *program, const BpGroup *group) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  for (size_t i = 0; i < group->args.size; i++)
    put(args, bp__program_word_at(program, group->args.items[i], group->place));
  for (size_t i = 0; i < group->outputs.size; i++)
    put(args, bp__program_own_word(program, group->outputs.items[i]));
  /* num_symbols is 0 for a part of a graph compiler. */
  for (int32_t i = 0; i < group->num_symbols; i++)
    put(args, symbol_word(program, group->symbols[i]));
  bp__program_call(program, BP_RELAX_VOID_REGISTER, group->function, args);
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

static Kernels begin_kernels(BpProgram *program, const BpGroup *group) {
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
    kernels.words[i] = bp__program_word_at(program, group->args.items[i], group->place);
  for (size_t i = 0; i < group->outputs.size; i++)
    kernels.words[num_args + i] = bp__program_own_word(program, group->outputs.items[i]);
  return kernels;
}

static void allocate_between(BpProgram *program, const Kernels *kernels) {
  for (int32_t i = 0; i < kernels->list->num_buffers; i++) {
    GArray *args = bp__program_begin_formula(program);
    int64_t shape = program->num_registers++, cell = bp__program_scratch_cell(program);
    bp__program_put_formula(program, args, kernels->list->buffer_elements[i], kernels->vars);
    bp__program_put_step(args, BP_RELAX_TAKE_CELL, cell);
    bp__program_end_formula(program, args, BP_RELAX_VOID_REGISTER);
    CALL(program, shape, "vm.builtin.make_shape", in_register(program->heap), number(1),
         number(BP_RELAX_MAKE_STORED), number(cell));
    kernels->between[i] = program->num_registers++;
    bp__program_allocate(program, kernels->between[i], shape, kernels->list->buffer_dtypes[i],
                         kernels->group->place);
  }
}

static void end_kernels(BpProgram *program, Kernels *kernels) {
  for (int32_t i = 0; i < kernels->list->num_buffers; i++)
    bp__program_empty(program, kernels->between[i]);
  g_free(kernels->vars);
  g_free(kernels->words);
  g_free(kernels->between);
}

static int64_t kernel_argument(const BpProgram *program, const Kernels *kernels, int32_t arg) {
  int32_t num_tensors = (int32_t)(kernels->group->args.size + kernels->group->outputs.size);
  if (arg < 0)
    return in_register(kernels->between[-1 - arg]);
  return arg < num_tensors ? kernels->words[arg]
                           : symbol_word(program, kernels->group->symbols[arg - num_tensors]);
}

/* Writes the check that the device does not end the loops of a kernel's threads too early. The
 * code generator checks a number that is known. */
static void check_iterations(BpProgram *program, const Kernels *kernels,
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
  program->failed |= !complaint;
  if (!complaint)
    return;
  GArray *formula = bp__program_begin_formula(program);
  bp__program_put_step(formula, BP_RELAX_PUSH_NUMBER, most);
  bp__program_put_formula(program, formula, kernel->iterations, kernels->vars);
  bp__program_put_step(formula, BP_RELAX_SUBTRACT, 0);
  bp__program_put_step(formula, BP_RELAX_TAKE_CELL, bp__program_scratch_cell(program));
  bp__program_end_formula(program, formula, BP_RELAX_VOID_REGISTER);
  CALL(program, BP_RELAX_VOID_REGISTER, "vm.builtin.check_extent", in_register(program->heap),
       number(bp__program_scratch_cell(program)),
       bp__program_text(program, complaint ? complaint : ""));
}

/* Writes the launch of a kernel, which is skipped if an extent of the launch is 0. */
static void launch(BpProgram *program, const Kernels *kernels, const BpKernelLaunch *kernel) {
  const BpIrTable *ir = bp_ir_table();
  int64_t skips[BP_KERNEL_MAX_LAUNCH];
  int32_t num_skips = 0;
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  for (int32_t i = 0; i < kernel->num_args; i++)
    put(args, kernel_argument(program, kernels, kernel->args[i]));
  for (int32_t i = 0; i < kernel->num_launch; i++) {
    if (ir->kind(kernel->launch[i]) == BP_IR_INT_IMM) {
      put(args, number(ir->int_value(kernel->launch[i])));
      continue;
    }
    int64_t extent = program->num_registers++;
    GArray *formula = bp__program_begin_formula(program);
    bp__program_put_formula(program, formula, kernel->launch[i], kernels->vars);
    bp__program_end_formula(program, formula, extent);
    skips[num_skips++] = bp__program_jump(program, extent);
    put(args, in_register(extent));
  }
  check_iterations(program, kernels, kernel); /* an empty launch has no iterations */
  bp__program_call(program, BP_RELAX_VOID_REGISTER, kernel->name, args);
  g_array_free(args, TRUE);
  while (num_skips > 0)
    bp__program_land(program, skips[--num_skips], bp__program_here(program));
}

static void call_group(BpProgram *program, const BpGroup *group) {
  for (size_t i = 0; i < group->outputs.size; i++) {
    BpGraphValue *output = group->outputs.items[i];
    output->place = group->place;
    bp__program_give_memory(program, output);
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
static bool keeps_view(const BpProgram *program, const BpGraphValue *value) {
  const BpProgramPlan *plan = &program->level->plan;
  return value->data || plan->part[plan->root[value->id]] >= 0 ||
         (program->level->graph == program->graph &&
          bp__list_index(&program->graph->inputs, value) >= 0);
}

static void call_view(BpProgram *program, const BpGroup *group) {
  BpGraphValue *output = group->outputs.items[0];
  output->place = group->view_of->data ? BP_PLACE_TARGET : group->view_of->place;
  if (keeps_view(program, group->view_of)) {
    GArray *base = g_array_new(FALSE, FALSE, sizeof(int64_t));
    put(base, bp__program_own_word(program, group->view_of));
    bp__program_call_keeping(program, "vm.builtin.kept_view", base, output,
                             bp__program_new_register(program, output));
    g_array_free(base, TRUE);
  } else {
    int64_t shape = bp__program_make_shape(program, output);
    CALL(program, bp__program_new_register(program, output), "vm.builtin.reshape",
         bp__program_own_word(program, group->view_of), in_register(shape),
         bp__program_dtype(program, output->dtype));
  }
  if (bp__op_is_bind(output->producer))
    bp__program_bind(program, output->producer);
}

/* Finds the last readers of values; outputs of the graph are read at the end. */
static void find_lifetimes(BpProgramLevel *level) {
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
static void call_append(BpProgram *program, const BpGraphNode *node) {
  const BpGraphValue *output = node->outputs[0];
  node->outputs[0]->place = BP_PLACE_TARGET;
  GArray *first = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(first, number(bp__list_index(&program->graph->outputs, output)));
  put(first, bp__program_value_word(program, node->inputs[0]));
  put(first, bp__program_value_word(program, node->inputs[1]));
  put(first, number(output->room_axis));
  bp__program_call_keeping(program, "vm.builtin.append", first, output,
                           bp__program_new_register(program, output));
  g_array_free(first, TRUE);
}

void bp__program_run_groups(BpProgram *program) {
  const BpList *groups = &program->level->groups->groups;
  for (size_t g = 0; g < groups->size; g++) {
    const BpGroup *group = groups->items[g];
    program->node = item(&group->outputs, 0)->name;
    if (group->bodies)
      bp__program_call_control(program, group);
    else if (group->view_of)
      call_view(program, group);
    else if (bp__group_append(group))
      call_append(program, bp__group_append(group));
    else
      call_group(program, group);
    for (size_t i = 0; i < group->args.size; i++)
      bp__program_forget(program, group->args.items[i], (int32_t)g);
    for (size_t i = 0; i < group->outputs.size; i++)
      bp__program_forget(program, group->outputs.items[i], (int32_t)g);
  }
}

BpProgramLevel bp__program_begin_level(BpProgram *program, const BpGraph *graph,
                                       const BpGroups *groups) {
  size_t count = (size_t)graph->num_values + 1;
  BpProgramLevel level = {.graph = graph,
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

void bp__program_end_level(BpProgramLevel *level) {
  bp__program_plan_clear(&level->plan);
  g_free(level->words);
  g_free(level->twins);
  g_free(level->last);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Writes the copy of an output that is a list. */
static int64_t copy_list(BpProgram *program, const BpGraphValue *output) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t copy = program->num_registers++;
  put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
  put(args, bp__program_value_word(program, output));
  bp__program_put_list_type(program, args, output->sequence);
  bp__program_call(program, copy, "vm.builtin.copy_list", args);
  g_array_free(args, TRUE);
  return in_register(copy);
}

/* Returns the word of an output: of a copy of a list, and of a view of a tensor's rows if the
 * tensor has room. */
static int64_t output_word(BpProgram *program, const BpGraphValue *output) {
  if (output->sequence)
    return copy_list(program, output);
  int64_t word = bp__program_value_word(program, output);
  if (!output->room)
    return word;
  GArray *first = g_array_new(FALSE, FALSE, sizeof(int64_t));
  int64_t rows = program->num_registers++;
  put(first, word);
  bp__program_call_keeping(program, "vm.builtin.without_room", first, output, rows);
  g_array_free(first, TRUE);
  return in_register(rows);
}

static void give_outputs(BpProgram *program) {
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
    bp__program_call(program, result, "vm.builtin.kept_tuple", args);
    g_array_free(args, TRUE);
  }
  bp__program_begin_instruction(program);
  put(program->words, BP_RELAX_RET);
  put(program->words, result);
  g_free(words);
}

/* ---- Requirements of a run ------------------------------------------------------------------- */

#define MAX_FORMULA 512

/* Describes the memory that a run needs. The description adds expressions to the graph, so the code
 * must be complete. */
static void describe_memory(BpProgram *program) {
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

/* ---- The program ----------------------------------------------------------------------------- */

static void begin_program(BpProgram *program) {
  size_t count = (size_t)bp__extents_count(&program->graph->extents);
  program->functions = g_ptr_array_new();
  program->nodes = g_ptr_array_new();
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t) "main");
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t)BP_RELAX_OUTPUT_NAMES);
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t)BP_RELAX_STORAGE_NAMES);
  program->parts = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
  for (size_t i = 0; i < G_N_ELEMENTS(program->memory); i++)
    program->memory[i] = "";
  program->constants = g_array_new(FALSE, FALSE, sizeof(BpProgramConstant));
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
  program->stages = bp__program_find_stages(program->graph);
  *program->level = bp__program_begin_level(program, program->graph, program->groups);
  for (size_t i = 0; i < program->graph->inputs.size; i++)
    program->level->words[item(&program->graph->inputs, i)->id] = in_register((int64_t)i);
  program->num_registers = (int64_t)program->graph->inputs.size;
  program->heap = program->num_registers++;
  program->storage = program->num_registers++;
}

static void end_program(BpProgram *program) {
  g_ptr_array_free(program->parts, TRUE);
  g_ptr_array_free(program->functions, TRUE);
  g_ptr_array_free(program->nodes, TRUE);
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
  BpProgramLevel level;
  BpProgram program = {.build = build, .graph = graph, .groups = groups, .level = &level};
  begin_program(&program);
  bp__program_match_inputs(&program);
  bp__program_run_groups(&program);
  give_outputs(&program);
  describe_memory(&program);
  BpModule *module = program.failed ? NULL : bp__program_load(&program, graph);
  end_program(&program);
  bp__program_end_level(&level);
  if (module && bp_module_import(module, code) != 0) {
    bp_object_release(module);
    return NULL;
  }
  return module;
}
