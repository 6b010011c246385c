/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the part that runs compilers. */

#include "core/module/toolchain.h"

#include "core/registry/given.h"
#include "core/registry/part.h"

BpModule *bp__toolchain_load_c(const BpByteArray *source, const char *const *flags) {
  const Toolchain *toolchain = bp__part_table(BP_PART_TOOLCHAIN);
  return toolchain ? toolchain->load_from_c(source, flags) : NULL;
}

BpModule *bp__toolchain_load_object(const BpByteArray *object) {
  const Toolchain *toolchain = bp__part_table(BP_PART_TOOLCHAIN);
  return toolchain ? toolchain->load_from_object(object) : NULL;
}

int32_t bp__toolchain_run(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log) {
  const Toolchain *toolchain = bp__part_table(BP_PART_TOOLCHAIN);
  *log = (BpOwnedBytes){NULL, 0, NULL};
  for (int32_t i = 0; i < run->num_outputs; ++i)
    outputs[i] = *log;
  return toolchain ? toolchain->run_compiler(run, outputs, log) : -1;
}

int bp_module_export_library(BpModule *module, const char *path) {
  const Toolchain *toolchain = BP_GIVEN(module) ? bp__part_table(BP_PART_TOOLCHAIN) : NULL;
  return toolchain ? toolchain->export_library(module, path) : -1;
}
