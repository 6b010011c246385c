/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the schedule of a group: the compiler's schedules look at the computation itself, but
 * for transforms, whose stages belong together in a way that only the operator knows. */
#include "graph/build/schedule.h"

int bp__build_schedule(const BpBuild *build, BpTe *te, const BpTransformStages *transforms,
                       BpTeTensor *output) {
  if (transforms->product)
    return bp_schedule_transformed(te, build->target, transforms, output);
  return bp_schedule_auto(te, &output, 1, build->target);
}
