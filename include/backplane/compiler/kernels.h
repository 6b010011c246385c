/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a function into kernels, which a device with thread axes runs one after the other. */
#ifndef BACKPLANE_COMPILER_KERNELS_H
#define BACKPLANE_COMPILER_KERNELS_H

#include <backplane/api.h>
#include <backplane/compiler/ir.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BP_KERNEL_MAX_LAUNCH 6 /* blockIdx.x, .y, .z, threadIdx.x, .y, .z */

/* A kernel and its launch. An argument is the number of a parameter of the function, or -1 - b for
 * buffer b of the list. Buffers come first: the buffers that the kernel reads, then the
 * `num_outputs` buffers that it writes. The last `num_scalars` arguments are scalars. */
typedef struct BpKernelLaunch {
  const char *name; /* name of the kernel's function */
  const int32_t *args;
  int32_t num_args;
  int32_t num_outputs; /* at least 1 */
  int32_t num_scalars;
  int32_t num_launch;
  /* One extent for each launch tag of the function: an integer constant, or an expression of the
   * list's scalars. A kernel with an extent of 0 is not launched. */
  const BpIrNode *launch[BP_KERNEL_MAX_LAUNCH];
  /* An upper bound of the iterations of all loops of a thread, an expression like an extent of the
   * launch; never NULL. INT32_MAX stands for more, and for the iterations of a BP_IR_WHILE without
   * a known end and of a loop whose extent is data. The launcher compares it with the target's
   * BP_TARGET_MAX_ITERATIONS. */
  const BpIrNode *iterations;
} BpKernelLaunch;

/* The kernels of a function in the order of their launches, and the buffers between the kernels,
 * which the launcher provides. */
typedef struct BpKernelList {
  uint64_t struct_size;          /* size in the library's version: members beyond it do not exist */
  const BpKernelLaunch *kernels; /* read with bp_kernel_list_get: rows may be longer */
  uint64_t kernel_size;          /* sizeof(BpKernelLaunch) of the library's version */
  int32_t num_kernels;
  int32_t num_buffers;
  const BpDataType *buffer_dtypes;
  const BpIrNode *const *buffer_elements; /* constants, or expressions of the scalars */
  /* The parameters of the function that are scalars (variables), by their names in the
   * expressions. */
  const BpIrNode *const *scalars;
  int32_t num_scalars;
} BpKernelList;

/* Returns kernel `index` of a list. Members beyond list->kernel_size do not exist. */
static inline const BpKernelLaunch *bp_kernel_list_get(const BpKernelList *list, int32_t index) {
  return (const BpKernelLaunch *)((const char *)list->kernels +
                                  list->kernel_size * (uint64_t)index);
}

/* Splits a function of `from` into kernels. The results are the last `num_results` buffer
 * parameters of the function; scalars follow the buffers. Buffers that are computed together at the
 * function's top level, whether parameters or in global memory, get a kernel of their own, which is
 * added to `module`. Each result is an output of one kernel, even if it has no elements; in a
 * function with scalars, several kernels may each write a part of a result. The last kernel has the
 * function's name, earlier ones have that name with a number. Assertions at the top level are
 * dropped: the launcher checks that open extents are in their range (bp_te_open_extent). The list
 * is borrowed from `module`; NULL with an error. A function with another top level is refused with
 * BP_ERROR_NOT_IMPLEMENTED: a launch that is not an expression of the scalars or, without scalars,
 * a buffer that is written again after another buffer. */
BP_API const BpKernelList *bp_ir_split_kernels(const BpIrModule *from, const char *function,
                                               int32_t num_results, BpIrModule *module);

#ifdef __cplusplus
}
#endif

#endif
