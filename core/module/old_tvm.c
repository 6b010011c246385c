/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the part for libraries of TVM up to 0.19. */

#include "core/module/old_tvm.h"

#include "core/registry/part.h"

#include <glib.h>
#include <stdatomic.h>

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
