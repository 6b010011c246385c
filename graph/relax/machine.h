/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that runs a Relax executable on a device. */
#ifndef BACKPLANE_GRAPH_RELAX_MACHINE_H
#define BACKPLANE_GRAPH_RELAX_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <backplane/module.h>
#include <backplane/object.h>

#include "graph/relax/executable.h"
#include "graph/relax/storage.h"
#include "graph/relax/workspace.h"

/* The devices that one machine may use, the host among them. */
#define BP_RELAX_MAX_DEVICES 8

typedef struct BpRelaxMachine BpRelaxMachine;

/* A function that the machine brings along: `args` are borrowed, *result is None and becomes the
 * caller's. */
typedef int (*BpRelaxBuiltin)(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);

/* A function of the executable at run time. */
typedef struct BpRelaxCallee {
  BpRelaxBuiltin builtin; /* or NULL */
  BpFunction *compiled;   /* BP_RELAX_COMPILED: the machine code, which takes register tables */
  BpFunction *function;   /* takes the function's own arguments */
} BpRelaxCallee;

/* Immutable once it is made, so that calls may run at once from several threads. */
struct BpRelaxMachine {
  const BpRelaxExecutable *executable;
  BpModule *code; /* the executable's module; its imports have the code */
  BpModule *self; /* the module that owns this; borrowed */
  BpDevice devices[BP_RELAX_MAX_DEVICES];
  BpRelaxPool *pools[BP_RELAX_MAX_DEVICES];
  uint32_t num_devices; /* the last one is the host */
  BpValue *constants;   /* tensors on the first device */
  BpRelaxCallee *callees;
  BpValue *functions;     /* the callees' functions as values, for compiled functions */
  BpRelaxWorkspace *idle; /* those that no run uses; guarded by bp__relax_lock */
};

/* Makes a machine (transfer full) and finds everything that the executable calls. `code` is
 * retained; `self` is borrowed: it owns the machine. The host is added to the devices. */
BpRelaxMachine *bp__relax_machine_create(const BpRelaxExecutable *executable, BpModule *code,
                                         BpModule *self, const BpDevice *devices,
                                         uint32_t num_devices);
/* NULL is ignored. */
void bp__relax_machine_free(BpRelaxMachine *machine);

/* Calls function `index` of the executable, which is not a packed one. `workspace` is the caller's,
 * which no other run uses meanwhile; NULL: one of the machine's. */
int bp__relax_machine_call(BpRelaxMachine *machine, BpRelaxWorkspace *workspace, uint32_t index,
                           const BpValue *args, int32_t num_args, BpValue *result);

/* Called after each call of bytecode to a function of the library or the registry, the device idle;
 * 1: no more, the run goes on without it; -1 with an error: the run fails. `last` is its last
 * argument if that is a tensor, where such functions leave their result, or NULL. Times in
 * nanoseconds since the run began. */
typedef int (*BpRelaxVisitor)(void *visitor, const char *function, const BpTensorView *last,
                              int64_t start_ns, int64_t duration_ns);
/* As bp__relax_machine_call, timed. */
int bp__relax_machine_profile(BpRelaxMachine *machine, BpRelaxWorkspace *workspace, uint32_t index,
                              const BpValue *args, int32_t num_args, BpRelaxVisitor visit,
                              void *visitor, BpValue *result);

/* Watches a flag in this thread, NULL for none: once it is set, code that jumps back fails. Returns
 * what was watched before. */
const atomic_bool *bp__relax_machine_watch(const atomic_bool *stops);

/* The machine that runs in this thread, or NULL. */
BpRelaxMachine *bp__relax_machine_current(void);

/* Makes a function (transfer full) that calls `function` with `args` behind those of its own; it
 * keeps the machine. */
BpFunction *bp__relax_bind_last(BpRelaxMachine *machine, BpFunction *function, const BpValue *args,
                                int32_t num_args);

/* Copies a tensor into another of the same type and shape, whose memory begins at byte 0: it waits
 * for one in host memory, and is queued else. */
int bp__relax_copy_into(const BpTensorView *from, const BpTensorView *to);
/* A copy of a tensor on a device (transfer full); on the tensor's own device it is queued. */
BpTensor *bp__relax_copy(BpTensor *tensor, BpDevice device, const char *mem_scope);
/* The same, but a tensor that is on the device already is given itself. */
BpTensor *bp__relax_to_device(BpTensor *tensor, BpDevice device, const char *mem_scope);

#endif
