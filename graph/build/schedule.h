/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the schedule of a group. */
#ifndef BACKPLANE_GRAPH_BUILD_SCHEDULE_H
#define BACKPLANE_GRAPH_BUILD_SCHEDULE_H

#include <backplane/compiler/schedules.h>

#include "graph/build/build.h"

/* Schedules what a group's outputs are computed from; `transforms` is what ConvWinograd said of it,
 * zero in other groups. */
int bp__build_schedule(const BpBuild *build, BpTe *te, const BpTransformStages *transforms,
                       BpTeTensor *const *outputs, int32_t num_outputs);

#endif
