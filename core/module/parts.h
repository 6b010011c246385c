/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the parts that modules use: parts/toolchain, which runs compilers, and parts/tvm,
 * for libraries of TVM up to 0.19. */
#ifndef BACKPLANE_CORE_MODULE_PARTS_H
#define BACKPLANE_CORE_MODULE_PARTS_H

#include "core/module/blob.h"

#include <backplane/host_api.h>
#include <backplane/module.h>

typedef struct Toolchain {
  BpModule *(*load_from_c)(const BpByteArray *source, const char *const *flags);
  BpModule *(*load_from_object)(const BpByteArray *object);
  int32_t (*run_compiler)(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);
  int (*encode)(const char *format, const BpKernelInfo *kernels, int32_t num_kernels,
                const BpByteArray *code, BpOwnedBytes *bytes);
  int (*export_library)(BpModule *module, const char *path);
} Toolchain;

/* Slots of BpModuleTable, which load the part. */
int bp__toolchain_encode(const char *format, const BpKernelInfo *kernels, int32_t num_kernels,
                         const BpByteArray *code, BpOwnedBytes *bytes);
BpModule *bp__toolchain_load_c(const BpByteArray *source, const char *const *flags);
BpModule *bp__toolchain_load_object(const BpByteArray *object);
int32_t bp__toolchain_run(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);

typedef struct OldTvm {
  /* Adds the host functions for libraries of TVM up to 0.19, and the loaders of their embedded
   * modules. Repeated calls are allowed. */
  int (*start)(void);
  /* Like bp__blob_parse. */
  int (*parse_blob)(BpBlob *blob, const BpByteArray *stream, const char *what);
  /* Makes a function of a library of TVM up to 0.19 (transfer full), which keeps `module`, its
   * library, mapped. */
  BpFunction *(*create_function)(BpModule *module, void *symbol);
} OldTvm;

/* Returns the started part; NULL with an error. Any thread. */
const OldTvm *bp__old_tvm(void);

/* Whether a pointer variable called `name` is for a function of the part. */
int bp__old_tvm_has(const char *name);

#endif
