/* SPDX-License-Identifier: Apache-2.0 */
/* A small network as TVM up to 0.19 would have compiled it. The network adds p0 to a vector x of
 * four elements, reshapes the sum to a 2x2 matrix, doubles it (output0), sums all elements
 * (output1, a scalar) and tests which elements are larger than 10 (output2, booleans). The network
 * has a view, a node that flattens its arguments, a node with two outputs, and shared storages. */
#ifndef BACKPLANE_TESTS_TVM_NETWORK_H
#define BACKPLANE_TESTS_TVM_NETWORK_H

#include "tests/tvm/artifact.h"

/* The graph. */
extern const char network_json[];
/* Returns the graph with the addition on a device of that type, and all other nodes on the CPU
 * (g_free). */
char *network_json_on_two(int device_type);

/* The name of the library's function that makes an executor. */
#define NETWORK_NAME "network"

/* The parameter p0, and a parameter that the graph does not read. */
extern const ArtifactParam network_params[2];

/* The source of functions that compute on the CPU. */
extern const char network_cpu_source[];
/* The source of functions that launch `network_kernels`, for a library with device code. */
extern const char network_device_source[];
extern const ArtifactKernel network_kernels[4];
/* Returns the kernels in the language of "opencl" or "cuda" (g_free). */
char *network_device_code(const char *kind);

/* Returns the blob of a library (g_byte_array_unref) with the graph and the parameters, and, unless
 * `kind` is NULL, a device module of that kind with `code`. */
GByteArray *network_blob(const char *graph_json, const char *kind, const char *format,
                         const char *code, size_t code_size);

#endif
