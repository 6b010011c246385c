/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parts/toolchain, the part of the core that runs compilers. */
#ifndef BACKPLANE_CORE_MODULE_TOOLCHAIN_H
#define BACKPLANE_CORE_MODULE_TOOLCHAIN_H

#include <backplane/host_api.h>
#include <backplane/module.h>

/* The part's table. */
typedef struct Toolchain {
  BpModule *(*load_from_c)(const BpByteArray *source, const char *const *flags);
  BpModule *(*load_from_object)(const BpByteArray *object);
  int32_t (*run_compiler)(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);
  int (*export_library)(BpModule *module, const char *path);
} Toolchain;

/* Slots of BpModuleTable, which load the part. */
BpModule *bp__toolchain_load_c(const BpByteArray *source, const char *const *flags);
BpModule *bp__toolchain_load_object(const BpByteArray *object);
int32_t bp__toolchain_run(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);

#endif
