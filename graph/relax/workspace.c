/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces: the objects that a machine keeps from run to run. */
#include "graph/relax/workspace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

struct BpRelaxWorkspace {
  BpRelaxWorkspace *next;          /* next in a list of unused workspaces */
  const BpRelaxFunction *function; /* function whose registers are kept */
  BpValue *registers;
  int is_entered;
  BpRelaxKept *results;      /* entry of the tuple of results, or NULL */
  BpTensor *const *memories; /* caller's memory for each output, or NULL */
  uint32_t num_memories;
  uint64_t num_entries;
  BpRelaxKept entries[];
};

BpRelaxWorkspace *bp__relax_workspace_create(const BpRelaxExecutable *executable) {
  uint64_t count = 0; /* an instruction of its own makes each entry */
  for (uint32_t i = 0; i < executable->num_functions; i++)
    count += executable->functions[i].num_instructions;
  BpRelaxWorkspace *workspace =
      calloc(1, sizeof(*workspace) + (size_t)count * sizeof(*workspace->entries));
  if (!workspace) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a run of the model");
    return NULL;
  }
  workspace->num_entries = count;
  return workspace;
}

void bp__relax_workspace_free(BpRelaxWorkspace *workspace) {
  for (uint64_t i = 0; workspace && i < workspace->num_entries; i++) {
    bp__relax_kept_clear(&workspace->entries[i]);
    free(workspace->entries[i].offsets);
  }
  if (workspace)
    free(workspace->registers);
  free(workspace);
}

static _Thread_local BpRelaxWorkspace *current;

BpRelaxWorkspace *bp__relax_workspace_current(void) {
  return current;
}

BpRelaxWorkspace *bp__relax_workspace_use(BpRelaxWorkspace *workspace) {
  BpRelaxWorkspace *before = current;
  current = workspace;
  return before;
}

BpRelaxWorkspace *bp__relax_workspace_push(BpRelaxWorkspace *list, BpRelaxWorkspace *workspace) {
  workspace->next = list;
  return workspace;
}

BpRelaxWorkspace *bp__relax_workspace_pop(BpRelaxWorkspace **list) {
  BpRelaxWorkspace *workspace = *list;
  if (workspace)
    *list = workspace->next;
  return workspace;
}

/* ---- Registers --------------------------------------------------------------------------- */

static BpValue *create_registers(const BpRelaxFunction *function) {
  return calloc((size_t)function->num_registers + function->max_call_args + 1, sizeof(BpValue));
}

/* Releases the results of the last run, so that the next run can use their memory. */
static void forget_results(BpRelaxWorkspace *workspace) {
  if (!workspace->results || !bp__relax_kept_is_unshared(workspace->results))
    return;
  BpArray *array = (BpArray *)workspace->results->object;
  for (int64_t i = 0; i < array->size; i++)
    bp_value_clear(&array->data[i]);
}

BpValue *bp__relax_workspace_enter(BpRelaxWorkspace *workspace, const BpRelaxFunction *function) {
  if (!workspace || workspace->is_entered)
    return create_registers(function);
  if (workspace->function != function) {
    free(workspace->registers);
    workspace->function = NULL;
    workspace->registers = create_registers(function);
    if (!workspace->registers)
      return NULL;
    workspace->function = function;
  }
  workspace->is_entered = 1;
  forget_results(workspace);
  return workspace->registers;
}

void bp__relax_workspace_leave(BpRelaxWorkspace *workspace, const BpRelaxFunction *function,
                               BpValue *registers) {
  for (uint32_t i = 0; i < function->num_registers; i++)
    bp_value_clear(&registers[i]);
  if (workspace && workspace->registers == registers)
    workspace->is_entered = 0;
  else
    free(registers);
}

/* ---- Entries ----------------------------------------------------------------------------- */

BpRelaxKept *bp__relax_workspace_entry(BpRelaxWorkspace *workspace, int64_t number) {
  if (workspace && number >= 0 && (uint64_t)number < workspace->num_entries)
    return &workspace->entries[number];
  bp_error_raise(BP_ERROR_INDEX, "entry %" PRId64 " of a workspace that has %" PRIu64, number,
                 workspace ? workspace->num_entries : 0);
  return NULL;
}

void bp__relax_kept_clear(BpRelaxKept *kept) {
  BpObject *object = kept->object;
  kept->object = NULL;
  kept->base = NULL;
  kept->size = 0;
  bp_object_release(object);
}

void bp__relax_workspace_clear_arena(BpRelaxWorkspace *workspace, BpRelaxKept *arena) {
  for (uint64_t i = 0; arena->object && i < workspace->num_entries; i++)
    if (workspace->entries[i].base == arena->object)
      bp__relax_kept_clear(&workspace->entries[i]);
  bp__relax_workspace_forget_views(workspace);
  bp__relax_kept_clear(arena);
}

void bp__relax_workspace_forget_views(BpRelaxWorkspace *workspace) {
  for (uint64_t i = 0; i < workspace->num_entries; i++) {
    const BpObject *base = workspace->entries[i].base;
    if (base && base->type_index == BP_TYPE_TENSOR)
      bp__relax_kept_clear(&workspace->entries[i]);
  }
}

int bp__relax_kept_is_unshared(const BpRelaxKept *kept) {
  return kept->object &&
         (uint32_t)__atomic_load_n(&kept->object->combined_count, __ATOMIC_ACQUIRE) == 1;
}

void bp__relax_workspace_set_results(BpRelaxWorkspace *workspace, BpRelaxKept *results) {
  workspace->results = results;
}

BpTensor *bp__relax_workspace_memory(const BpRelaxWorkspace *workspace, int64_t output) {
  return workspace && output >= 0 && output < workspace->num_memories ? workspace->memories[output]
                                                                      : NULL;
}

void bp__relax_workspace_set_memories(BpRelaxWorkspace *workspace, BpTensor *const *memories,
                                      uint32_t num_outputs) {
  workspace->memories = memories;
  workspace->num_memories = num_outputs;
}
