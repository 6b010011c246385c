/* SPDX-License-Identifier: Apache-2.0 */
/* Teams of host threads, and the launch of one group of tasks on a team. */
#ifndef BACKPLANE_CORE_DEVICE_TEAM_H
#define BACKPLANE_CORE_DEVICE_TEAM_H

#include <backplane/host_api.h>

#define BP_THREADS_MAX 1024

/* A team: a leader, which is the launching thread, and workers. One launch at a time. */
typedef struct Team Team;

/* Makes a team of `threads` (2..BP_THREADS_MAX) including the leader; `spins` says whether its
 * threads spin while they wait (transfer full). If the system refuses to create threads, the team
 * has fewer, which is logged. NULL with an error: no memory. */
Team *bp__team_create(int threads, int spins);
/* Ends the workers of an idle team and frees the team. */
void bp__team_destroy(Team *team);
/* Returns the number of threads requested at the team's creation. */
int bp__team_threads(const Team *team);

/* Runs task(0..num_task-1) on this thread and the team's, and waits; num_task 0: one task for each
 * thread. `team` NULL: on this thread alone, in order. Fails with the error of the first task that
 * fails; tasks that have not begun before the failure are skipped. */
int bp__team_run(Team *team, BpParallelTask task, void *data, int num_task);

/* Whether this thread is running a task of a group with several tasks. */
int bp__team_in_task(void);

#endif
