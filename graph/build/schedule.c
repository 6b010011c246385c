/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the schedule of a group: what is element-wise or injective inside it is computed where
 * it is read. */
#include "graph/build/schedule.h"

#include "graph/ops/op.h"

int bp__build_schedule(const BpBuild *build, BpTe *te, const BpGroup *group,
                       BpTeTensor *const *tensors) {
  (void)build;
  for (size_t i = 0; i + 1 < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    if (node->op->fusion <= BP_FUSE_INJECTIVE && bp_te_compute_inline(bp_te_stage(te, tensors[i])))
      return -1;
  }
  return 0;
}
