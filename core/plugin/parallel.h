/* SPDX-License-Identifier: Apache-2.0 */
/* Trials side by side. */
#ifndef BACKPLANE_CORE_PLUGIN_PARALLEL_H
#define BACKPLANE_CORE_PLUGIN_PARALLEL_H

#include <stddef.h>

/* How many trials may run at once. Far more than processors: what takes long are the plugins that
 * wait for something. */
#define BP_TRIALS_AT_ONCE 16

/* Calls `visit` with each index below `count`, once, from several threads, this one among them, and
 * returns when all calls have. Threads that cannot be started are done without. */
void bp__parallel_for_each(size_t count, void (*visit)(void *context, size_t index), void *context);

#endif
