/* SPDX-License-Identifier: Apache-2.0 */
/* The functions vm.builtin.* that bytecode calls. docs/tvm.md lists them. */
#ifndef BACKPLANE_GRAPH_RELAX_BUILTIN_H
#define BACKPLANE_GRAPH_RELAX_BUILTIN_H

#include "graph/relax/machine.h"

#define BP_RELAX_BUILTIN_PREFIX "vm.builtin."

/* NULL if there is none of that name. */
BpRelaxBuiltin bp__relax_builtin_find(const char *name);

/* Registers them as global functions, which work within a machine: compiled functions look them
 * up. */
int bp__relax_builtin_register(void);

#endif
