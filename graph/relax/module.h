/* SPDX-License-Identifier: Apache-2.0 */
/* Relax executables and machines as modules. */
#ifndef BACKPLANE_GRAPH_RELAX_MODULE_H
#define BACKPLANE_GRAPH_RELAX_MODULE_H

#include <backplane/module.h>

#include "graph/relax/executable.h"
#include "graph/relax/machine.h"

/* The part of a message that tells how to call functions that are not a model's. */
#define BP_RELAX_BY_MACHINE "through a machine (bp_relax_machine_create, Python's module.machine)"

/* Registers the loader of executables, and vm.builtin.*; bp_graph_initialize calls it once. */
int bp__relax_register(void);

/* Makes the module of an executable from its bytes (transfer full). If the bytes have an owner,
 * aligned constants stay in them; if `owner` is NULL, all constants are copied. */
BpModule *bp__relax_module_read(const BpByteArray *bytes, BpObject *owner);
/* Makes the module of an executable from a tensor of bytes (transfer full). The tensor has room for
 * BP_RELAX_HEAD bytes before the executable. The module keeps the tensor, and saving the module
 * copies nothing. */
#define BP_RELAX_HEAD 64
BpModule *bp__relax_module_take(BpTensor *whole);
/* The executable of a module; NULL without an error for a module of another kind. */
const BpRelaxExecutable *bp__relax_module_executable(BpModule *module);
/* As bp_relax_machine_create, of a module that holds an executable, on several devices: those of
 * the program's numbers from 0 on. */
BpModule *bp__relax_machine_module_create(BpModule *executable, const BpDevice *devices,
                                          uint32_t num_devices);
/* The machine of a module that bp_relax_machine_create made; NULL for any other. */
BpRelaxMachine *bp__relax_module_machine(BpModule *module);

#endif
