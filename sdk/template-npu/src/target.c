/* SPDX-License-Identifier: Apache-2.0 */
/* The target kind: the properties of the chip that the host needs to compile, also on machines
 * without the chip. There is no generator for loops: code of other targets computes the nodes that
 * the plugin does not claim. */
#include "simdev.h"

#include <backplane/ir_api.h>

const BpTargetKind simdev_target_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "simdev",
    .device_type = SIMDEV_DEVICE_TYPE,
    .ir_level = BP_IR_LEVEL, /* users read this message as the reason */
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
