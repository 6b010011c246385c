/* SPDX-License-Identifier: Apache-2.0 */
/* The start of the compiler library: its tables are handed to the host with the first module. */
#include <pthread.h>
#include <stdbool.h>

#include <backplane/plugins.h>

#include "compiler/emit/table.h"
#include "compiler/ir/ir.h"

static pthread_mutex_t initialize_lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized;

static int add_tables(void) {
  if (bp_host_add_table(BP_TABLE_IR, BP_TABLE_IR_VERSION, bp_ir_table()) != 0)
    return -1;
  return bp_host_add_table(BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION, bp__emitter_table());
}

int bp__compiler_initialize(void) {
  pthread_mutex_lock(&initialize_lock);
  int rc = 0;
  if (!initialized) {
    rc = add_tables();
    initialized = rc == 0;
  }
  pthread_mutex_unlock(&initialize_lock);
  return rc;
}
