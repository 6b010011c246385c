/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine keeps from one run of a program to the next, so that runs of equal shapes allocate
 * nothing: its registers, the arenas of intermediate values, and the tensors in them.
 *
 * A program that graph/build/program.c wrote numbers what it keeps: an entry for each arena,
 * tensor, view and tuple, which only one instruction makes. */
#ifndef BACKPLANE_GRAPH_RELAX_WORKSPACE_H
#define BACKPLANE_GRAPH_RELAX_WORKSPACE_H

#include <stdint.h>

#include <backplane/tensor.h>

#include "graph/relax/executable.h"

typedef struct BpRelaxWorkspace BpRelaxWorkspace;

/* Makes a workspace (transfer full) for runs of one executable, which is borrowed. One thread at a
 * time. */
BpRelaxWorkspace *bp__relax_workspace_create(const BpRelaxExecutable *executable);
/* NULL is ignored. */
void bp__relax_workspace_free(BpRelaxWorkspace *workspace);

/* The workspace of the run in this thread, or NULL. */
BpRelaxWorkspace *bp__relax_workspace_current(void);
/* Makes it another, or NULL; returns what it was. */
BpRelaxWorkspace *bp__relax_workspace_use(BpRelaxWorkspace *workspace);

/* A list of workspaces that are not in use, which the owner guards. */
BpRelaxWorkspace *bp__relax_workspace_push(BpRelaxWorkspace *list, BpRelaxWorkspace *workspace);
BpRelaxWorkspace *bp__relax_workspace_pop(BpRelaxWorkspace **list);

/* Registers of a call of bytecode, all None, and behind them room for the arguments of its calls.
 * Those of the outermost call are kept; NULL: no memory (no error raised). They go back with
 * bp__relax_workspace_leave. The workspace may be NULL: nothing is kept. */
BpValue *bp__relax_workspace_enter(BpRelaxWorkspace *workspace, const BpRelaxFunction *function);
void bp__relax_workspace_leave(BpRelaxWorkspace *workspace, const BpRelaxFunction *function,
                               BpValue *registers);

/* The tensor that the caller keeps for an output, with room for more rows than there are; NULL (no
 * error raised): none. */
BpTensor *bp__relax_workspace_memory(const BpRelaxWorkspace *workspace, int64_t output);
/* Sets those of all outputs, which are borrowed until they are set again. */
void bp__relax_workspace_set_memories(BpRelaxWorkspace *workspace, BpTensor *const *memories,
                                      uint32_t num_outputs);

/* Releases the views of tensors: of arguments of the program, and in arenas. They are made again
 * when they are needed. */
void bp__relax_workspace_forget_views(BpRelaxWorkspace *workspace);

/* An entry. Everything is owned by the workspace. */
typedef struct BpRelaxKept {
  BpObject *object;  /* a tensor, a tuple, or the storage of an arena; or NULL */
  const void *base;  /* of a tensor in an arena: its storage; of a view: the tensor */
  uint64_t *offsets; /* of an arena: where its parts begin, and the end */
  uint64_t num_parts;
  uint64_t size; /* of an arena's storage */
} BpRelaxKept;

/* The entry of a number that a program gives; NULL with an error if there is no such entry. */
BpRelaxKept *bp__relax_workspace_entry(BpRelaxWorkspace *workspace, int64_t number);
/* Releases the arena's storage, and all tensors in it. */
void bp__relax_workspace_clear_arena(BpRelaxWorkspace *workspace, BpRelaxKept *arena);
/* Releases what an entry has. */
void bp__relax_kept_clear(BpRelaxKept *kept);
/* Whether nobody but the workspace has the object of an entry. */
int bp__relax_kept_is_unshared(const BpRelaxKept *kept);
/* Says that an entry has the tuple of results, whose items the next run lets go of if nobody else
 * has it. */
void bp__relax_workspace_set_results(BpRelaxWorkspace *workspace, BpRelaxKept *results);

#endif
