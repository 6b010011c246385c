/* SPDX-License-Identifier: Apache-2.0 */
/* The functions vm.builtin.* that bytecode calls. docs/tvm.md lists them. */
#ifndef BACKPLANE_GRAPH_RELAX_BUILTIN_H
#define BACKPLANE_GRAPH_RELAX_BUILTIN_H

#include "graph/relax/machine.h"

#define BP_RELAX_BUILTIN_PREFIX "vm.builtin."

/* The function vm.builtin.NAME; NULL if it does not exist. */
BpRelaxBuiltin bp__relax_builtin_find(const char *name);

/* Registers the builtins as global functions, which compiled functions look up; they work only
 * while a machine runs. */
int bp__relax_builtin_register(void);

#endif
