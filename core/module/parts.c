/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the parts that run compilers, and that run libraries of TVM up to 0.19. */

#include "core/module/parts.h"

#include "core/registry/argument.h"
#include "core/registry/part.h"

#include <glib.h>
#include <stdatomic.h>

BpModule *bp__toolchain_load_c(const BpByteArray *source, const char *const *flags) {
  const Toolchain *toolchain = BP_NOT_NULL(source) ? bp__part_table(BP_PART_TOOLCHAIN) : NULL;
  return toolchain ? toolchain->load_from_c(source, flags) : NULL;
}

BpModule *bp__toolchain_load_object(const BpByteArray *object) {
  const Toolchain *toolchain = BP_NOT_NULL(object) ? bp__part_table(BP_PART_TOOLCHAIN) : NULL;
  return toolchain ? toolchain->load_from_object(object) : NULL;
}

int32_t bp__toolchain_run(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log) {
  if (!BP_NOT_NULL(run) || (run->num_outputs > 0 && !BP_NOT_NULL(outputs)) || !BP_NOT_NULL(log))
    return -1;
  const Toolchain *toolchain = bp__part_table(BP_PART_TOOLCHAIN);
  *log = (BpOwnedBytes){NULL, 0, NULL};
  for (int32_t i = 0; i < run->num_outputs; ++i)
    outputs[i] = *log;
  return toolchain ? toolchain->run_compiler(run, outputs, log) : -1;
}

int bp__toolchain_encode(const char *format, const BpKernelInfo *kernels, int32_t num_kernels,
                         const BpByteArray *code, BpOwnedBytes *bytes) {
  if (!BP_NOT_NULL(format) || (num_kernels > 0 && !BP_NOT_NULL(kernels)) || !BP_NOT_NULL(code) ||
      !BP_NOT_NULL(bytes))
    return -1;
  const Toolchain *toolchain = bp__part_table(BP_PART_TOOLCHAIN);
  *bytes = (BpOwnedBytes){0};
  return toolchain ? toolchain->encode(format, kernels, num_kernels, code, bytes) : -1;
}

int bp_module_export_library(BpModule *module, const char *path) {
  const Toolchain *toolchain = BP_NOT_NULL(module) ? bp__part_table(BP_PART_TOOLCHAIN) : NULL;
  return toolchain ? toolchain->export_library(module, path) : -1;
}

const OldTvm *bp__old_tvm(void) {
  static atomic_int is_started;
  const OldTvm *tvm = bp__part_table(BP_PART_TVM);
  if (!tvm || (!atomic_load(&is_started) && tvm->start()))
    return NULL;
  atomic_store(&is_started, 1);
  return tvm;
}

int bp__old_tvm_has(const char *name) {
  static const char *const names[] = {
      "__TVMFuncCall",  "__TVMAPISetLastError", "__TVMBackendGetFuncFromEnv",
      "__gnu_h2f_ieee", "__gnu_f2h_ieee",       NULL};
  return g_strv_contains(names, name);
}
