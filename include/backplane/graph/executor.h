/* SPDX-License-Identifier: Apache-2.0 */
/* The graph executor as a module: a graph in TVM's JSON form, with code and parameters that come
 * separately. Applications that run compiled models use graph/model.h instead.
 *
 * The module's kind is "graph_executor"; its functions, all packed, one thread at a time. A tensor
 * that the executor returns keeps its memory alive.
 *
 * - set_input(name or index, tensor) copies
 * - set_input_zero_copy(name or index, tensor object on the executor's device) uses it in place
 * - get_input(name or index) -> tensor
 * - get_num_inputs() -> int; parameters count as inputs
 * - run() queues the graph
 * - get_output(index) -> tensor waits; valid until the next run
 * - get_output(index, tensor) waits and copies
 * - get_num_outputs() -> int
 * - load_params(bytes) takes a parameter file's bytes
 * - share_params(executor, bytes) uses the other executor's memory for the parameters named in
 *   bytes
 *
 * A module of kind "graph_executor_debug" has two more functions:
 *
 * - profile() runs the graph, waiting after each operator -> JSON text, a list of {name, function,
 *   start_ns, duration_ns}
 * - debug_get_output(name or index of a node, tensor) runs the graph as far as that node and copies
 *   its first output
 *
 * The global functions `graph_executor.create(graph JSON, module, devices...)` and
 * `graph_executor_debug.create` exist once bp_graph_initialize was called. A NULL where none
 * is allowed is an error of kind BP_ERROR_VALUE. */
#ifndef BACKPLANE_GRAPH_EXECUTOR_H
#define BACKPLANE_GRAPH_EXECUTOR_H

#include <backplane/api.h>
#include <backplane/module.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers this library's global functions and module loaders; calling it again does nothing. Any
 * thread. The functions of graph/model.h call bp_graph_initialize themselves. */
BP_API int bp_graph_initialize(void);

/* Makes an executor (transfer full) of a graph whose functions are found in `code`. Nodes without a
 * kind of device run on the first device. The graph takes as many devices of each kind as it names,
 * in the order of the list. */
BP_API BpModule *bp_graph_executor_create(const char *graph_json, BpModule *code,
                                          const BpDevice *devices, size_t num_devices);

/* Encodes named CPU tensors as a parameter file in TVM's form (bytes freed with
 * bp_owned_bytes_clear). */
BP_API int bp_params_encode(const char *const *names, BpTensor *const *tensors, size_t count,
                            BpOwnedBytes *bytes);
/* Decodes a parameter file: calls `visit` with each name and tensor, borrowed, until it returns
 * non-zero, which is then returned. The file is untrusted: a malformed file is an error before the
 * first visit. */
BP_API int bp_params_decode(const BpByteArray *bytes,
                            int (*visit)(void *context, const char *name, BpTensor *tensor),
                            void *context);

#ifdef __cplusplus
}
#endif

#endif
