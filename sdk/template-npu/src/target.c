/* SPDX-License-Identifier: Apache-2.0 */
/* The target kind: what the host knows of the chip while it compiles, on machines without one too.
 * There is no generator for loops: what the plugin does not claim other targets' code computes. */
#include "simdev.h"

#include <backplane/ir_api.h>

const BpTargetKind simdev_target_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "simdev",
    .device_type = SIMDEV_DEVICE_TYPE,
    .ir_level = BP_IR_LEVEL, /* the generator's own words are the reason that users read */
    .attr_size = sizeof(BpTargetAttr),
    .description = "parts of quantised models for the simulated accelerator of the plugin simdev",
};

int simdev_build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED,
                         "simdev runs no generated code; it runs what its graph compiler claims "
                         "(--graph-compiler simdev), and another target the rest (--fallback c)");
}
