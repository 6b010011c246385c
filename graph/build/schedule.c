/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the schedule of a group: the compiler's schedules look at the computation itself. */
#include "graph/build/schedule.h"

#include <backplane/compiler/schedules.h>

int bp__build_schedule(const BpBuild *build, BpTe *te, const BpGroup *group,
                       BpTeTensor *const *tensors) {
  return bp_schedule_auto(te, tensors[group->nodes.size - 1], build->target);
}
