/* SPDX-License-Identifier: Apache-2.0 */
/* The host as plugins see it: one BpHost, to which the parts of the core add their tables, and the
 * one-time start of the core. */
#ifndef BACKPLANE_CORE_REGISTRY_HOST_H
#define BACKPLANE_CORE_REGISTRY_HOST_H

#include "core/system/shared.h"

#include <backplane/host_api.h>

/* Returns the host, valid for ever, after starting the core; NULL with an error. Tables are added
 * with bp_host_add_table(). */
BP__SHARED const BpHost *bp__host(void);

/* Starts the core, once per process: each part adds its tables, its functions and its hooks.
 * Loading the library runs no code, so every function that depends on the other parts (a missing
 * registry name, the host's tables) calls this first. -1 with an error if memory is exhausted; the
 * next call tries again. Calls made during a start return 0 at once. Any thread. */
int bp__core_start(void);

/* Starts all parts. Defined in core/start.c, above all parts, and called only by bp__core_start.
 * Additions of an earlier start that failed are not repeated. */
int bp__core_start_rooms(void);

/* Starts core/registry. */
int bp__registry_start(void);

#endif
