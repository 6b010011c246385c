/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules over an analysis that is already there, and pieces that several use. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_PARTS_H
#define BACKPLANE_COMPILER_SCHEDULES_PARTS_H

#include "compiler/schedules/analysis.h"

int bp__schedule_elementwise(const BpStageInfo *info, const BpMachine *machine);
/* Vectorises one axis in `lanes`, after giving `cores` each a share of it. */
int bp__schedule_run(BpTeStage *stage, BpTeAxis *run, int64_t lanes, int64_t cores);

#endif
