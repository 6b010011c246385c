/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of control flow. Nothing is computed for them, and no pass infers their shapes. */
#include "graph/ops/control.h"

const BpOp bp__op_branch = {.name = "Branch",
                            .domain = "backplane",
                            .since = 1,
                            .min_inputs = 1,
                            .max_inputs = -1,
                            .max_outputs = -1,
                            .fusion = BP_FUSE_OPAQUE,
                            .attrs = "",
                            .open = BP_OPEN_ALL};

const BpOp bp__op_loop = {.name = "Loop",
                          .domain = "backplane",
                          .since = 1,
                          .max_inputs = -1,
                          .max_outputs = -1,
                          .fusion = BP_FUSE_OPAQUE,
                          .attrs = "carried:i condition:i counted:i backward:is",
                          .open = BP_OPEN_ALL};

int bp__graph_has_control(const BpGraph *graph) {
  for (size_t i = 0; i < graph->nodes.size; i++)
    if (bp__op_is_control(graph->nodes.items[i]))
      return 1;
  return 0;
}
