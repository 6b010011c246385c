/* SPDX-License-Identifier: Apache-2.0 */
/* The start of the compiler library: it registers its tables and functions with the host when the
 * first module is created. */
#include <stdatomic.h>

#include <backplane/object.h>
#include <backplane/plugins.h>

#include "compiler/emit/table.h"
#include "compiler/ir/ir.h"
#include "compiler/lower/passes.h"

static int add_tables(void) {
  if (bp_host_add_table(BP_TABLE_IR, BP_TABLE_IR_VERSION, bp_ir_table()) != 0)
    return -1;
  return bp_host_add_table(BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION, bp__emitter_table());
}

static int add_functions(void) {
  BpFunction *legalize = bp_function_create(bp__legalize_packed, NULL, NULL);
  int rc = legalize ? bp_registry_set("compiler.legalize", legalize, 1) : -1;
  bp_object_release(legalize);
  return rc;
}

/* Two threads may register at the same time: a second registration changes nothing. */
int bp__compiler_initialize(void) {
  static atomic_bool is_done;
  if (atomic_load(&is_done))
    return 0;
  int rc = add_tables() || add_functions() ? -1 : 0;
  atomic_store(&is_done, rc == 0);
  return rc;
}
