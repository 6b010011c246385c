/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that a machine keeps from one run of a program to the next, so that runs of equal
 * shapes allocate nothing: the machine's registers, the arenas of intermediate values, and the
 * tensors in them.
 *
 * A program that graph/build/program.c wrote numbers its kept objects: it has an entry for each
 * arena, tensor, view and tuple, which only one instruction makes. */
#ifndef BACKPLANE_GRAPH_RELAX_WORKSPACE_H
#define BACKPLANE_GRAPH_RELAX_WORKSPACE_H

#include <stdint.h>

#include <backplane/tensor.h>

#include "graph/relax/executable.h"

typedef struct BpRelaxWorkspace BpRelaxWorkspace;

/* Makes a workspace (transfer full) for runs of one executable, which is borrowed. A workspace is
 * not thread-safe. */
BpRelaxWorkspace *bp__relax_workspace_create(const BpRelaxExecutable *executable);
/* Frees a workspace; NULL is ignored. */
void bp__relax_workspace_free(BpRelaxWorkspace *workspace);

/* The workspace of the run in the current thread, or NULL. */
BpRelaxWorkspace *bp__relax_workspace_current(void);
/* Sets the workspace of the current thread, which may be NULL; returns the previous one. */
BpRelaxWorkspace *bp__relax_workspace_use(BpRelaxWorkspace *workspace);

/* Add to, and take from, a list of unused workspaces, which the owner guards. */
BpRelaxWorkspace *bp__relax_workspace_push(BpRelaxWorkspace *list, BpRelaxWorkspace *workspace);
BpRelaxWorkspace *bp__relax_workspace_pop(BpRelaxWorkspace **list);

/* Allocates the registers of a call of bytecode, all None, followed by space for the arguments of
 * its calls; NULL without an error if memory is exhausted. The registers of the outermost call are
 * kept. bp__relax_workspace_leave returns the registers. `workspace` may be NULL: then no registers
 * are kept. */
BpValue *bp__relax_workspace_enter(BpRelaxWorkspace *workspace, const BpRelaxFunction *function);
void bp__relax_workspace_leave(BpRelaxWorkspace *workspace, const BpRelaxFunction *function,
                               BpValue *registers);

/* The tensor that the caller keeps for an output, with room for further rows; NULL without an error
 * if the caller keeps no tensor for the output. */
BpTensor *bp__relax_workspace_memory(const BpRelaxWorkspace *workspace, int64_t output);
/* Sets the caller's tensors for all outputs, which are borrowed until they are set again. */
void bp__relax_workspace_set_memories(BpRelaxWorkspace *workspace, BpTensor *const *memories,
                                      uint32_t num_outputs);

/* Releases the views of tensors, of arguments of the program and in arenas. A later run makes the
 * views again. */
void bp__relax_workspace_forget_views(BpRelaxWorkspace *workspace);

/* An entry of a workspace, which owns its contents. */
typedef struct BpRelaxKept {
  BpObject *object;  /* a tensor, a tuple, or the storage of an arena; or NULL */
  const void *base;  /* storage of a tensor in an arena, or tensor of a view */
  uint64_t *offsets; /* beginnings of an arena's parts, and the end */
  uint64_t num_parts;
  uint64_t size; /* size of an arena's storage */
} BpRelaxKept;

/* The entry with a number that a program gives; NULL with an error if it does not exist. */
BpRelaxKept *bp__relax_workspace_entry(BpRelaxWorkspace *workspace, int64_t number);
/* Releases the arena's storage, and all tensors in it. */
void bp__relax_workspace_clear_arena(BpRelaxWorkspace *workspace, BpRelaxKept *arena);
/* Releases the object of an entry. */
void bp__relax_kept_clear(BpRelaxKept *kept);
/* Whether only the workspace references the object of an entry. */
int bp__relax_kept_is_unshared(const BpRelaxKept *kept);
/* Records that an entry has the tuple of results, whose items the next run releases unless the
 * tuple is still referenced. */
void bp__relax_workspace_set_results(BpRelaxWorkspace *workspace, BpRelaxKept *results);

#endif
