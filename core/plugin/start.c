/* SPDX-License-Identifier: Apache-2.0 */
/* The start of the core: every room adds its tables, functions and hooks, lowest first. */

#include "core/device/device.h"
#include "core/plugin/store.h"
#include "core/module/module.h"
#include "core/registry/host.h"
#include "core/target/target.h"

#include <backplane/error.h>

typedef int (*StartRoom)(void);

int bp__core_start_rooms(void) {
  static const StartRoom rooms[] = {
      bp__registry_start, bp__module_start, bp__device_start, bp__target_start, bp__plugin_start,
  };
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; ++i)
    if (rooms[i]())
      return bp_error_add_context("the core cannot start");
  return 0;
}
