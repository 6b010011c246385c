/* SPDX-License-Identifier: Apache-2.0 */
/* Running in parallel what mostly waits for other processes: trials and compilers. */
#ifndef BACKPLANE_PARTS_PARALLEL_H
#define BACKPLANE_PARTS_PARALLEL_H

#include <stddef.h>

/* The most threads that wait at the same time: far more than processors, because slow plugins
 * mostly wait. */
#define BP_WAITS_AT_ONCE 16

/* Calls `visit` once with each index below `count`, from several threads including this one, and
 * returns when all calls have returned. If some threads cannot be started, fewer are used. */
void bp__parallel_for_each(size_t count, void (*visit)(void *context, size_t index), void *context);

#endif
