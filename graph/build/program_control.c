/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that the machine executes: branches, loops and lists. */
#include <string.h>

#include "graph/build/program.h"
#include "graph/ops/control.h"

/* ---- Branches and loops ---------------------------------------------------------------------- */

static int64_t copy_of(BpProgram *program, int64_t dst, int64_t word) {
  CALL(program, dst, "vm.builtin.copy", word);
  return dst;
}

/* Writes a body. The inputs of the body are the words in `given`, then the inputs of the node from
 * `captured` on. Afterwards `level` has the words of the body's outputs: registers that the body
 * owns, or its inputs. */
static void write_body(BpProgram *program, const BpGroup *group, int32_t index,
                       const int64_t *given, size_t num_given, size_t captured,
                       BpProgramLevel *level) {
  const BpGraphNode *node = bp__group_control(group);
  const BpGraph *body = node->bodies[index];
  *level = bp__program_begin_level(program, body, &group->bodies[index]);
  for (size_t i = 0; i < body->inputs.size; i++)
    level->words[item(&body->inputs, i)->id] =
        i < num_given ? given[i]
                      : bp__program_value_word(program, node->inputs[captured + i - num_given]);
  program->level = level;
  int32_t before = program->stage;
  bp__program_begin_stage(program, (BpGraphValue **)body->inputs.items, body->inputs.size,
                          node->name);
  bp__program_run_groups(program);
  for (int32_t i = 0; i < bp__extents_count(&body->extents); i++)
    if (program->stages[i] > before)
      program->symbols[i] = -1; /* the following code may run although the body did not run */
}

/* Copies the values that a node's bodies capture, its inputs from `captured` on, to the target's
 * device. The copies come before the first jump: if a body that made them did not run, later
 * code would read an empty register. */
static void bring_captured(BpProgram *program, const BpGraphNode *node, size_t captured) {
  for (size_t i = captured; i < (size_t)node->num_inputs; i++)
    bp__program_value_word(program, node->inputs[i]);
}

/* Empties the registers of a body's outputs. */
static void forget_outputs(BpProgram *program, const BpProgramLevel *level) {
  const BpList *outputs = &level->graph->outputs;
  for (size_t i = 0; i < outputs->size; i++)
    if (item(outputs, i)->producer && !item(outputs, i)->data)
      bp__program_empty(program, level->words[item(outputs, i)->id]);
}

static void call_branch(BpProgram *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  BpProgramLevel *outer = program->level;
  size_t captured = 1;
  int64_t holds = program->num_registers++, jumps[2];
  bring_captured(program, node, captured);
  CALL(program, holds, "vm.builtin.read_if_cond", bp__program_value_word(program, node->inputs[0]));
  for (int32_t i = 0; i < node->num_outputs; i++)
    bp__program_new_register(program, node->outputs[i]);
  for (int32_t b = 0; b < 2; b++) {
    BpProgramLevel level;
    jumps[b] = b == 0 ? bp__program_jump(program, holds) : jumps[1];
    write_body(program, group, b, NULL, 0, captured, &level);
    for (int32_t i = 0; i < node->num_outputs; i++)
      copy_of(program, outer->words[node->outputs[i]->id],
              bp__program_value_word(program, item(&level.graph->outputs, (size_t)i)));
    forget_outputs(program, &level);
    program->level = outer;
    bp__program_end_level(&level);
    captured += node->bodies[b]->inputs.size;
    if (b == 0) {
      jumps[1] = bp__program_jump(program, ALWAYS);
      bp__program_land(program, jumps[0], bp__program_here(program));
    }
  }
  bp__program_land(program, jumps[1], bp__program_here(program));
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

static Loop begin_loop(BpProgram *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  const BpGraphValue *trip = bp__node_input(node, 0), *condition = bp__node_input(node, 1);
  Loop loop = {.node = node, .body = node->bodies[0]};
  loop.num_carried = (size_t)bp__node_int(node, "carried", 0);
  loop.num_stacks = (size_t)node->num_outputs - loop.num_carried;
  loop.carried = g_new0(int64_t, (gsize)node->num_outputs + 1);
  loop.trip = trip ? bp__program_value_word(program, trip) : in_register(BP_RELAX_VOID_REGISTER);
  loop.holds = program->num_registers++;
  loop.counter = copy_of(program, program->num_registers++, number(0));
  loop.condition = -1;
  if (bp__node_int(node, "condition", 0))
    loop.condition = copy_of(program, program->num_registers++,
                             condition ? bp__program_value_word(program, condition) : number(1));
  for (size_t i = 0; i < loop.num_carried; i++)
    loop.carried[i] = copy_of(program, program->num_registers++,
                              bp__program_value_word(program, node->inputs[2 + i]));
  for (size_t i = loop.num_carried; i < (size_t)node->num_outputs; i++)
    bp__program_empty(program, loop.carried[i] = program->num_registers++);
  bring_captured(program, node, loop.num_carried + 2);
  return loop;
}

/* Writes the code that pushes the outputs of an iteration onto the stacks. */
static void push_elements(BpProgram *program, const Loop *loop) {
  const BpGraphAttr *backward = bp__node_attr(loop->node, "backward");
  int is_counted = bp__node_int(loop->node, "counted", 0) != 0;
  for (size_t i = 0; i < loop->num_stacks; i++) {
    int64_t stack = loop->carried[loop->num_carried + i];
    CALL(program, stack, "vm.builtin.push_element", in_register(BP_RELAX_CONTEXT_REGISTER),
         in_register(stack),
         bp__program_value_word(program, item(&loop->body->outputs, loop->num_carried + i)),
         in_register(loop->counter), is_counted ? loop->trip : in_register(BP_RELAX_VOID_REGISTER),
         number(backward->ints[i]), bp__program_context(program, "node", loop->node->name));
  }
}

/* Makes the outputs of the body the carried values of the next iteration. Values that the body
 * passes on are copied before the first carried value is replaced. */
static void carry(BpProgram *program, const Loop *loop) {
  const BpList *outputs = &loop->body->outputs;
  int64_t *words = g_new0(int64_t, loop->num_carried + 1);
  for (size_t i = 0; i < loop->num_carried; i++) {
    const BpGraphValue *next = item(outputs, i);
    words[i] = bp__program_value_word(program, next);
    if (!next->data && !next->producer && words[i] != loop->carried[i])
      words[i] = copy_of(program, program->num_registers++, words[i]);
  }
  if (loop->condition >= 0)
    copy_of(program, loop->condition,
            bp__program_value_word(program, item(outputs, outputs->size - 1)));
  for (size_t i = 0; i < loop->num_carried; i++)
    if (words[i] != loop->carried[i])
      copy_of(program, loop->carried[i], words[i]);
  for (size_t i = 0; i < loop->num_carried; i++) {
    const BpGraphValue *next = item(outputs, i);
    if (!next->data && !next->producer && words[i] != loop->carried[i])
      bp__program_empty(program, words[i]);
  }
  g_free(words);
}

static void iterate(BpProgram *program, const BpGroup *group, const Loop *loop) {
  BpProgramLevel *outer = program->level, level;
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
  bp__program_end_level(&level);
  g_free(given);
}

/* Sets the node's outputs to the values after the last iteration. */
static void end_loop(BpProgram *program, Loop *loop) {
  for (size_t i = 0; i < loop->num_carried; i++)
    program->level->words[loop->node->outputs[i]->id] = in_register(loop->carried[i]);
  for (size_t i = loop->num_carried; i < loop->num_carried + loop->num_stacks; i++) {
    const BpGraphValue *output = loop->node->outputs[i];
    int64_t none = bp__program_make_empty_shape(program, output);
    CALL(program, bp__program_new_register(program, output), "vm.builtin.take_elements",
         in_register(BP_RELAX_CONTEXT_REGISTER), in_register(loop->carried[i]),
         in_register(loop->counter), in_register(none), bp__program_dtype(program, output->dtype));
    bp__program_empty(program, loop->carried[i]);
  }
  if (loop->condition >= 0)
    bp__program_empty(program, loop->condition);
  g_free(loop->carried);
}

static void call_loop(BpProgram *program, const BpGroup *group) {
  Loop loop = begin_loop(program, group);
  int64_t head = bp__program_here(program), exit, back;
  CALL(program, loop.holds, "vm.builtin.loop_holds", in_register(BP_RELAX_CONTEXT_REGISTER),
       in_register(loop.counter), loop.trip,
       in_register(loop.condition < 0 ? BP_RELAX_VOID_REGISTER : loop.condition));
  exit = bp__program_jump(program, loop.holds);
  iterate(program, group, &loop);
  CALL(program, loop.counter, "vm.builtin.next_number", in_register(loop.counter));
  back = bp__program_jump(program, ALWAYS);
  bp__program_land(program, back, head);
  bp__program_land(program, exit, bp__program_here(program));
  end_loop(program, &loop);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

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

static void call_sequence(BpProgram *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  int32_t index = bp__op_sequence(node), count = sequence_calls[index].num_inputs;
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  if (sequence_calls[index].takes_machine)
    put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
  for (int32_t i = 0; i < (count ? count : node->num_inputs); i++) {
    const BpGraphValue *input = bp__node_input(node, i);
    put(args, input ? bp__program_value_word(program, input) : in_register(BP_RELAX_VOID_REGISTER));
  }
  for (size_t i = 0; i < 2 && sequence_calls[index].attrs[i]; i++)
    put(args, number(bp__node_int(node, sequence_calls[index].attrs[i], 0)));
  if (sequence_calls[index].takes_context)
    put(args, bp__program_context(program, "node", node->name));
  if (index == BP_SEQUENCE_FAIL)
    put(args, bp__program_text(program, bp__node_str(node, "error", "")));
  bp__program_call(program, bp__program_new_register(program, node->outputs[0]),
                   sequence_calls[index].function, args);
  g_array_free(args, TRUE);
}

void bp__program_call_control(BpProgram *program, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  if (bp__op_sequence(node) >= 0)
    call_sequence(program, group);
  else if (node->op == &bp__op_branch)
    call_branch(program, group);
  else
    call_loop(program, group);
  bp__program_begin_stage(program, node->outputs, (size_t)node->num_outputs, node->name);
}
