/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that runs a Relax executable on a device. */
#ifndef BACKPLANE_GRAPH_RELAX_MACHINE_H
#define BACKPLANE_GRAPH_RELAX_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <backplane/module.h>
#include <backplane/object.h>

#include "graph/io/places.h"
#include "graph/relax/executable.h"
#include "graph/relax/storage.h"
#include "graph/relax/workspace.h"

/* The devices that one machine may use, the host among them. */
#define BP_RELAX_MAX_DEVICES (BP_PLACES_MAX + 1)

typedef struct BpRelaxMachine BpRelaxMachine;

/* A function of the machine itself: `args` are borrowed, *result is None before the call and owned
 * by the caller after it. */
typedef int (*BpRelaxBuiltin)(BpRelaxMachine *machine, const BpValue *args, int32_t num_args,
                              BpValue *result);

/* A function of the executable at run time. */
typedef struct BpRelaxCallee {
  BpRelaxBuiltin builtin; /* function of the machine, or NULL */
  BpFunction *compiled;   /* BP_RELAX_COMPILED: function of the code that takes register tables */
  BpFunction *function;   /* function that takes the function's own arguments */
} BpRelaxCallee;

/* A machine is immutable after it is made, so that several threads may run calls at once. */
struct BpRelaxMachine {
  const BpRelaxExecutable *executable;
  BpModule *code; /* module of the executable, whose imports have the code */
  BpModule *self; /* module that owns the machine; borrowed */
  BpDevice devices[BP_RELAX_MAX_DEVICES];
  BpRelaxPool *pools[BP_RELAX_MAX_DEVICES];
  uint32_t num_devices; /* number of devices; the last device is the host */
  bool is_switching;    /* two devices other than the host have one type */
  BpValue *constants;   /* tensors on the first device */
  BpRelaxCallee *callees;
  BpValue *functions;     /* functions of the callees as values, for compiled functions */
  BpRelaxWorkspace *idle; /* workspaces that no run uses; guarded by bp__relax_lock */
};

/* Makes a machine (transfer full) and finds all functions that the executable calls. `code` is
 * retained; `self`, which owns the machine, is borrowed. The host is added to the devices. */
BpRelaxMachine *bp__relax_machine_create(const BpRelaxExecutable *executable, BpModule *code,
                                         BpModule *self, const BpDevice *devices,
                                         uint32_t num_devices);
/* Frees a machine; NULL is ignored. */
void bp__relax_machine_free(BpRelaxMachine *machine);

/* Calls function `index` of the executable, which is not a packed function. No other run may use
 * `workspace` at the same time; if it is NULL, the machine provides one. */
int bp__relax_machine_call(BpRelaxMachine *machine, BpRelaxWorkspace *workspace, uint32_t index,
                           const BpValue *args, int32_t num_args, BpValue *result);

/* A visitor, called after each call of bytecode to a function of the library or the registry, when
 * the device is idle. Returns 0 to continue, 1 to get no further calls, or -1 with an error to make
 * the run fail. `last` is the call's last argument if it is a tensor, in which functions store
 * their result, or NULL. Times are nanoseconds since the run began. */
typedef int (*BpRelaxVisitor)(void *visitor, const BpRelaxInstruction *call,
                              const BpTensorView *last, int64_t start_ns, int64_t duration_ns);
/* Calls a function as bp__relax_machine_call does, and reports the times of its calls; `workspace`
 * is not NULL. */
int bp__relax_machine_profile(BpRelaxMachine *machine, BpRelaxWorkspace *workspace, uint32_t index,
                              const BpValue *args, int32_t num_args, BpRelaxVisitor visit,
                              void *visitor, BpValue *result);

/* Watches a flag in the current thread, NULL for none: once the flag is set, code that jumps back
 * fails. Returns the flag that was watched before. */
const atomic_bool *bp__relax_machine_watch(const atomic_bool *stops);

/* The machine that runs in the current thread, or NULL. */
BpRelaxMachine *bp__relax_machine_current(void);

/* Makes a function (transfer full) that calls `function` with its own arguments followed by `args`;
 * it keeps the machine alive. */
BpFunction *bp__relax_bind_last(BpRelaxMachine *machine, BpFunction *function, const BpValue *args,
                                int32_t num_args);

/* Copies a tensor into another one of the same type and shape, whose memory begins at byte 0: waits
 * for a copy into host memory, queues any other. */
int bp__relax_copy_into(const BpTensorView *from, const BpTensorView *to);
/* Copies a tensor to a device (transfer full); a copy on the tensor's own device is queued. */
BpTensor *bp__relax_copy(BpTensor *tensor, BpDevice device, const char *mem_scope);
/* Returns a tensor on a device (transfer full): a copy, or the tensor itself if it is on that
 * device already. */
BpTensor *bp__relax_to_device(BpTensor *tensor, BpDevice device, const char *mem_scope);

#endif
