/* SPDX-License-Identifier: Apache-2.0 */
/* A small network as TVM up to 0.19 would have compiled it. Of a vector x of four it adds p0, takes
 * that as a 2x2 matrix, doubles it (output0), sums all elements up (output1, a scalar) and says
 * which are larger than 10 (output2, booleans). Among its nodes are a view, one that flattens its
 * arguments, one with two outputs, and storages that take turns. */
#ifndef BACKPLANE_TESTS_TVM_NETWORK_H
#define BACKPLANE_TESTS_TVM_NETWORK_H

#include "tests/tvm/artifact.h"

/* The graph; the same with all on the CPU but for the addition, which is on a device of that type
 * (g_free). */
extern const char network_json[];
char *network_json_on_two(int device_type);

/* What the library calls the function that makes an executor. */
#define NETWORK_NAME "network"

/* p0, and a parameter that the graph has not. */
extern const ArtifactParam network_params[2];

/* The functions for the CPU; those that launch kernels, behind which lies device code. */
extern const char network_cpu_source[], network_device_source[];
extern const ArtifactKernel network_kernels[4];
/* The kernels in the language of "opencl" or "cuda" (g_free). */
char *network_device_code(const char *kind);

/* Blobs (g_byte_array_unref). kind: NULL, or that of the device module, whose code is given. */
GByteArray *network_blob(const char *graph_json, const char *kind, const char *format,
                         const char *code, size_t code_size);

#endif
