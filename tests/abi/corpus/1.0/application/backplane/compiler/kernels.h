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
 * -1 - b for buffer b of the list. Buffers come first: those that the kernel reads, then the
 * `num_outputs` that it writes. The last `num_scalars` arguments are scalars. */
typedef struct BpKernelLaunch {
  const char *name; /* of its function */
  const int32_t *args;
  int32_t num_args;
  int32_t num_outputs; /* at least 1 */
  int32_t num_scalars;
  int32_t num_launch;
  /* One extent for each launch tag of the function: an integer constant, or an expression of the
   * list's scalars. A kernel of which one is 0 is not launched. */
  const BpIrNode *launch[BP_KERNEL_MAX_LAUNCH];
} BpKernelLaunch;

/* The kernels of a function in the order of their launches, and the buffers between them, which
 * whoever launches provides. */
typedef struct BpKernelList {
  uint64_t struct_size;          /* of the library's version: members beyond it are not there */
  const BpKernelLaunch *kernels; /* read with bp_kernel_list_get: rows may be longer */
  uint64_t kernel_size;          /* sizeof(BpKernelLaunch) of the library's version */
  int32_t num_kernels;
  int32_t num_buffers;
  const BpDataType *buffer_dtypes;
  const BpIrNode *const *buffer_elements; /* constants, or expressions of the scalars */
  /* The function's parameters that are no buffers (variables), as the expressions name them. */
  const BpIrNode *const *scalars;
  int32_t num_scalars;
} BpKernelList;

/* Kernel `index` of a list. Members beyond list->kernel_size are not there. */
static inline const BpKernelLaunch *bp_kernel_list_get(const BpKernelList *list, int32_t index) {
  return (const BpKernelLaunch *)((const char *)list->kernels +
                                  list->kernel_size * (uint64_t)index);
}

/* Takes a function of `from` apart, whose last `num_results` parameters that are buffers are its
 * results; scalars stand behind the buffers. Buffers that are computed together at its top level,
 * be they parameters or in global memory, get a kernel of their own, which is added to `module`.
 * Each result is an output of one kernel, even if it has no elements; of a function with scalars,
 * several kernels may each write a part of it. The last kernel has the function's name, those
 * before it that name with a number. Assertions at the top level are left out: whoever launches
 * sees that open extents are in their range (bp_te_open_extent). The list is borrowed from
 * `module`; NULL with an error. A function whose top level is something else (a launch that is no
 * expression of the scalars, or, without scalars, a buffer that is written again after another) is
 * refused with BP_ERROR_NOT_IMPLEMENTED. */
BP_API const BpKernelList *bp_ir_split_kernels(const BpIrModule *from, const char *function,
                                               int32_t num_results, BpIrModule *module);

#ifdef __cplusplus
}
#endif

#endif
