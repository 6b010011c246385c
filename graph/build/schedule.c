/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the schedule of a group: the compiler's schedules look at the computation itself, but
 * for transforms, whose stages belong together in a way that only the operator knows. */
#include "graph/build/schedule.h"

int bp__build_schedule(const BpBuild *build, BpTe *te, const BpTransformStages *transforms,
                       BpTeTensor *const *outputs, int32_t num_outputs) {
  if (build->is_reference)
    return 0;
  if (transforms->product)
    return bp_schedule_transformed(te, build->target, transforms, outputs[0]);
  return bp_schedule_auto(te, outputs, num_outputs, build->target);
}
