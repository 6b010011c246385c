/* SPDX-License-Identifier: Apache-2.0 */
/* The common byte form of device modules; see docs/artifacts.md. */
#ifndef BACKPLANE_CORE_MODULE_DEVICE_CODE_H
#define BACKPLANE_CORE_MODULE_DEVICE_CODE_H

#include <backplane/module_api.h>

/* Slots of BpModuleTable. */
int bp__device_code_encode(const char *format, const BpKernelInfo *kernels, int32_t num_kernels,
                           const BpByteArray *code, BpOwnedBytes *bytes);
int bp__device_code_decode(const BpByteArray *bytes, BpByteArray *format,
                           int32_t (*visit)(void *context, const BpKernelInfo *kernel),
                           void *context, BpByteArray *code);

#endif
