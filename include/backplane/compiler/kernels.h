/* SPDX-License-Identifier: Apache-2.0 */
/* A function as the kernels that a device with thread axes runs one after the other. */
#ifndef BACKPLANE_COMPILER_KERNELS_H
#define BACKPLANE_COMPILER_KERNELS_H

#include <backplane/api.h>
#include <backplane/compiler/ir.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BP_KERNEL_MAX_LAUNCH 6 /* blockIdx.x, .y, .z, threadIdx.x, .y, .z */

/* One kernel and how it is launched. An argument is the number of a parameter of the function, or
 * -1 - b for buffer b of the list. The last `num_outputs` arguments are the buffers that the kernel
 * writes; it reads the others. */
typedef struct BpKernelLaunch {
  const char *name; /* of its function */
  const int32_t *args;
  int32_t num_args;
  int32_t num_outputs; /* at least 1 */
  int32_t num_launch;
  int64_t launch[BP_KERNEL_MAX_LAUNCH]; /* one extent for each launch tag of the function */
} BpKernelLaunch;

/* The kernels of a function in the order of their launches, and the buffers between them, which
 * whoever launches provides. */
typedef struct BpKernelList {
  const BpKernelLaunch *kernels;
  int32_t num_kernels;
  int32_t num_buffers;
  const BpDataType *buffer_dtypes;
  const int64_t *buffer_elements;
} BpKernelList;

/* Takes a function of `from` apart, whose last `num_results` parameters are its results. Buffers
 * that are computed together at its top level, be they parameters or in global memory, get a kernel
 * of their own, which is added to `module`. Each result is an output of one kernel, even if it has
 * no elements. The last kernel has the function's name, those before it that name with a number.
 * What `list` gets lives as long as `module`. A function whose top level is something else (an
 * assertion, a launch that is no constant, a buffer that is written again after another) is refused
 * with BP_ERROR_NOT_IMPLEMENTED. */
BP_API int bp_ir_split_kernels(const BpIrModule *from, const char *function, int32_t num_results,
                               BpIrModule *module, BpKernelList *list);

#ifdef __cplusplus
}
#endif

#endif
