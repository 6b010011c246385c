/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the bytes of a device module (core/module/device_code.c reads them). */

#include "parts/toolchain/compiler_run.h"

#include "core/module/bytes.h"
#include "core/registry/argument.h"

#include <backplane/error.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static void write_cstr(BpWriter *writer, const char *text) {
  bp__write_string(writer, text, strlen(text));
}

static void write_kernel(BpWriter *writer, const BpKernelInfo *kernel) {
  write_cstr(writer, kernel->name);
  write_cstr(writer, kernel->name);
  bp__write_u64(writer, (uint64_t)kernel->num_args);
  bp__write_raw(writer, kernel->arg_dtypes, (size_t)kernel->num_args * sizeof(BpDataType));
  bp__write_u64(writer, (uint64_t)kernel->num_launch_tags);
  for (int32_t i = 0; i < kernel->num_launch_tags; ++i)
    write_cstr(writer, kernel->launch_tags[i]);
  bp__write_u64(writer, 0);
}

/* The size of BpKernelInfo in the first version that has a size. */
#define LEAST_INFO (offsetof(BpKernelInfo, launch_tags) + sizeof(const char *const *))

/* Returns entry i of a table; the size of the table's rows may differ from this version's. */
static const BpKernelInfo *kernel_at(const BpKernelInfo *kernels, int32_t i) {
  return (const BpKernelInfo *)((const char *)kernels + kernels->struct_size * (uint64_t)i);
}

static int check_kernels(const BpKernelInfo *kernels, int32_t num_kernels) {
  BpKernelInfo known;
  for (int32_t i = 0; i < num_kernels; ++i) {
    const BpKernelInfo *kernel = kernel_at(kernels, i);
    if (kernel->struct_size != kernels->struct_size)
      return bp_error_raise(BP_ERROR_VALUE,
                            "BpKernelInfo::struct_size of kernel %d is %" PRIu64
                            " and of kernel 0 %" PRIu64 "; set each to sizeof(BpKernelInfo)",
                            i, kernel->struct_size, kernels->struct_size);
    if (bp__sized_read(&known, sizeof known, LEAST_INFO, kernel, "BpKernelInfo"))
      return -1;
  }
  return 0;
}

int bp__device_code_encode(const char *format, const BpKernelInfo *kernels, int32_t num_kernels,
                           const BpByteArray *code, BpOwnedBytes *bytes) {
  BpWriter writer = {0};
  if (num_kernels < 0)
    return bp_error_raise(BP_ERROR_VALUE, "a function table cannot have %d kernels", num_kernels);
  if (check_kernels(kernels, num_kernels))
    return -1;
  write_cstr(&writer, format);
  bp__write_u64(&writer, (uint64_t)num_kernels);
  for (int32_t i = 0; i < num_kernels; ++i)
    write_kernel(&writer, kernel_at(kernels, i));
  bp__write_string(&writer, code->data, code->size);
  return bp__write_finish(&writer, bytes);
}
