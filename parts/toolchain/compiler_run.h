/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins' compilers: programs that make files from files. */
#ifndef BACKPLANE_PARTS_TOOLCHAIN_COMPILER_RUN_H
#define BACKPLANE_PARTS_TOOLCHAIN_COMPILER_RUN_H

#include <backplane/host_api.h>

/* The slot run_compiler of BpModuleTable; `outputs` and `log` are empty. */
int32_t bp__compiler_run(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);

/* The slot encode_device_code of BpModuleTable; `bytes` is empty. */
int bp__device_code_encode(const char *format, const BpKernelInfo *kernels, int32_t num_kernels,
                           const BpByteArray *code, BpOwnedBytes *bytes);

#endif
