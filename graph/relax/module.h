/* SPDX-License-Identifier: Apache-2.0 */
/* Relax executables and machines as modules. */
#ifndef BACKPLANE_GRAPH_RELAX_MODULE_H
#define BACKPLANE_GRAPH_RELAX_MODULE_H

#include <backplane/module.h>

#include "graph/relax/executable.h"
#include "graph/relax/machine.h"

/* How functions are called that are no model's, in messages. */
#define BP_RELAX_BY_MACHINE "through a machine (bp_relax_machine_create, Python's module.machine)"

/* Registers the loader of executables, and vm.builtin.*; called once, by bp_graph_initialize. */
int bp__relax_register(void);

/* Makes the module of an executable from its bytes (transfer full). With an owner of the bytes,
 * constants that are aligned there stay there; without one (NULL) all are copied. */
BpModule *bp__relax_module_read(const BpByteArray *bytes, BpObject *owner);
/* The executable that a module holds; NULL (no error raised) for a module of another kind. */
const BpRelaxExecutable *bp__relax_module_executable(BpModule *module);
/* The machine of a module that bp_relax_machine_create made; NULL for any other. */
BpRelaxMachine *bp__relax_module_machine(BpModule *module);

#endif
