/* SPDX-License-Identifier: Apache-2.0 */
/* The start of the core: every folder but system adds its tables, functions and hooks, the lowest
 * first. */

#include "core/device/device.h"
#include "core/module/bytes.h"
#include "core/module/module.h"
#include "core/module/parts.h"
#include "core/registry/host.h"
#include "core/target/target.h"

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/plugins.h>

/* core/start.c makes the module table, not core/module, since kernels belong to core/device. */
static const BpModuleTable module_table = {
    .struct_size = sizeof module_table,
    .create = bp_module_create,
    .get_context = bp_module_get_context,
    .function_create = bp_module_function_create,
    .kernel_create = bp_module_kernel_create,
    .import = bp_module_import,
    .encode_device_code = bp__toolchain_encode,
    .decode_device_code = bp__device_code_decode,
    .load_from_c = bp__toolchain_load_c,
    .load_from_object = bp__toolchain_load_object,
    .get_function = bp_module_get_function,
    .run_compiler = bp__toolchain_run,
};

static int add_module_table(void) {
  return bp_host_add_table(BP_TABLE_MODULE, BP_TABLE_MODULE_VERSION, &module_table);
}

typedef int (*StartRoom)(void);

int bp__core_start_rooms(void) {
  static const StartRoom rooms[] = {
      bp__registry_start, bp__module_start, add_module_table, bp__device_start, bp__target_start,
  };
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; ++i)
    if (rooms[i]())
      return bp_error_add_context("the core cannot start");
  return 0;
}
