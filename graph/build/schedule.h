/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the schedule of a group. */
#ifndef BACKPLANE_GRAPH_BUILD_SCHEDULE_H
#define BACKPLANE_GRAPH_BUILD_SCHEDULE_H

#include <backplane/compiler/schedules.h>

#include "graph/build/build.h"

/* Schedules what `output`, the group's result, is computed from; `transforms` is what ConvWinograd
 * said of it, zero in other groups. */
int bp__build_schedule(const BpBuild *build, BpTe *te, const BpTransformStages *transforms,
                       BpTeTensor *output);

#endif
