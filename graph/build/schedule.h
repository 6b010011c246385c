/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the schedule of a group. */
#ifndef BACKPLANE_GRAPH_BUILD_SCHEDULE_H
#define BACKPLANE_GRAPH_BUILD_SCHEDULE_H

#include "graph/build/build.h"

/* `tensors`: the result of each node of the group. */
int bp__build_schedule(const BpBuild *build, BpTe *te, const BpGroup *group,
                       BpTeTensor *const *tensors);

#endif
