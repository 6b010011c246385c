/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a program: their registers, their copies on other devices, and their memory. */
#include "graph/build/program.h"

int64_t bp__program_own_word(BpProgram *program, const BpGraphValue *value) {
  return value->data ? bp__program_tensor(program, value) : program->level->words[value->id];
}

/* The machine's number of a place: its first device, the host, or one that the program asks for. */
static int64_t device_of(BpProgram *program, int32_t place) {
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
static int64_t *twin_at(const BpProgram *program, const BpGraphValue *value, int32_t place) {
  return &program->level->twins[value->id * program->build->num_places + place];
}

int64_t bp__program_word_at(BpProgram *program, const BpGraphValue *value, int32_t place) {
  if ((value->data ? BP_PLACE_TARGET : value->place) == place)
    return bp__program_own_word(program, value);
  int64_t *twin = twin_at(program, value, place);
  if (!*twin) {
    *twin = program->num_registers++;
    CALL(program, *twin, "vm.builtin.to_machine_device", in_register(BP_RELAX_CONTEXT_REGISTER),
         bp__program_own_word(program, value), number(device_of(program, place)));
  }
  return in_register(*twin);
}

int64_t bp__program_value_word(BpProgram *program, const BpGraphValue *value) {
  return bp__program_word_at(program, value, BP_PLACE_TARGET);
}

int64_t bp__program_new_register(BpProgram *program, const BpGraphValue *value) {
  int64_t result = program->num_registers++;
  program->level->words[value->id] = in_register(result);
  return result;
}

void bp__program_empty(BpProgram *program, int64_t index) {
  bp__program_call_with(program, index, "vm.builtin.null_value", NULL, 0);
}

void bp__program_forget(BpProgram *program, const BpGraphValue *value, int32_t group) {
  if (program->level->last[value->id] > group)
    return;
  if (value->producer && !value->data &&
      program->level->plan.part[program->level->plan.root[value->id]] < 0)
    bp__program_empty(program, program->level->words[value->id]);
  for (int32_t place = 0; place < program->build->num_places; place++)
    if (*twin_at(program, value, place))
      bp__program_empty(program, *twin_at(program, value, place));
}

void bp__program_allocate(BpProgram *program, int64_t tensor, int64_t shape, BpDataType type,
                          int32_t place) {
  int64_t dtype = bp__program_dtype(program, type);
  CALL(program, program->storage, "vm.builtin.alloc_storage",
       in_register(BP_RELAX_CONTEXT_REGISTER), in_register(shape),
       number(device_of(program, place)), dtype, bp__program_text(program, "global"));
  CALL(program, tensor, "vm.builtin.alloc_tensor", in_register(program->storage), number(0),
       in_register(shape), dtype);
}

void bp__program_call_keeping(BpProgram *program, const char *function, const GArray *first,
                              const BpGraphValue *value, int64_t dst) {
  GArray *args = g_array_new(FALSE, FALSE, sizeof(int64_t));
  put(args, in_register(BP_RELAX_CONTEXT_REGISTER));
  put(args, number(program->num_entries++));
  g_array_append_vals(args, first->data, first->len);
  put(args, bp__program_dtype(program, value->dtype));
  put(args, in_register(program->heap));
  bp__program_put_extents(args, value);
  bp__program_call(program, dst, function, args);
  g_array_free(args, TRUE);
}

/* Writes the allocation of an arena, with the sizes that its parts have in a run. */
static void allocate_arena(BpProgram *program, int32_t index) {
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
      put(args, bp__program_dtype(program, value->dtype));
      bp__program_put_extents(args, value);
    }
  }
  bp__program_call(program, BP_RELAX_VOID_REGISTER, "vm.builtin.plan_arena", args);
  g_array_free(args, TRUE);
}

void bp__program_give_memory(BpProgram *program, const BpGraphValue *value) {
  const BpProgramPlan *plan = &program->level->plan;
  int64_t tensor = bp__program_new_register(program, value);
  GArray *first = g_array_new(FALSE, FALSE, sizeof(int64_t));
  if (plan->part[value->id] >= 0) {
    const BpProgramPart *part =
        &g_array_index(plan->parts, BpProgramPart, (guint)plan->part[value->id]);
    const BpProgramArena *arena = &g_array_index(plan->arenas, BpProgramArena, (guint)part->arena);
    if (arena->entry < 0)
      allocate_arena(program, part->arena);
    put(first, number(arena->entry));
    put(first, number(part->number));
    bp__program_call_keeping(program, "vm.builtin.arena_tensor", first, value, tensor);
  } else if (program->level->graph == program->graph) {
    put(first, number(device_of(program, value->place)));
    bp__program_call_keeping(program, "vm.builtin.kept_tensor", first, value, tensor);
  } else {
    bp__program_allocate(program, tensor, bp__program_make_shape(program, value), value->dtype,
                         value->place);
  }
  g_array_free(first, TRUE);
}
