/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that are in a graph's code. */
#ifndef BACKPLANE_GRAPH_EXEC_LINKED_H
#define BACKPLANE_GRAPH_EXEC_LINKED_H

#include "graph/exec/executor.h"

/* Fills each NULL element of `params`, one for each argument of the plan's graph, whose value is
 * linked into the plan's code, with a copy on the plan's device (transfer full). */
int bp__executor_take_linked(const BpExecutorPlan *plan, BpTensor **params);

#endif
