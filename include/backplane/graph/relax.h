/* SPDX-License-Identifier: Apache-2.0 */
/* Models that Apache TVM compiled (`tvm.compile` of a Relax module, `export_library`).
 *
 * bp_module_load gives a module of kind "relax.VMExecutable" once bp_graph_initialize was called. A
 * machine runs the executable on a device. A machine's functions are found with
 * bp_module_get_function, and take and return tensors on its device. Several threads may call them
 * at once. Work is queued on the device's default stream.
 *
 * A machine is a module of kind "relax.VirtualMachine". Besides the model's functions it has TVM's
 * functions for calling them in steps, for one thread at a time:
 *
 * - set_input(function, arguments...) keeps the arguments; tensors of another device are copied
 * - invoke_stateful(function) calls the function with the kept arguments
 * - get_output(function, index...) gives the result, or an item of a result that is a tuple
 * - get_output_arity(function, index...) -> number of items, -1 for a result that is no tuple
 * - get_function_arity(function), get_function_param_name(function, index)
 *
 * TVM's own interface also makes a machine: `vm_load_executable()` of the executable, then
 * `vm_initialization(device type, device index, allocator, ...)`, whose allocator is ignored. A
 * NULL where none is allowed is an error of kind BP_ERROR_VALUE. */
#ifndef BACKPLANE_GRAPH_RELAX_H
#define BACKPLANE_GRAPH_RELAX_H

#include <backplane/api.h>
#include <backplane/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a machine (transfer full) that runs a module of kind "relax.VMExecutable" on a device, and
 * copies the model's constants there. If a function that the model calls does not exist, the error
 * names it. */
BP_API BpModule *bp_relax_machine_create(BpModule *executable, BpDevice device);

#ifdef __cplusplus
}
#endif

#endif
