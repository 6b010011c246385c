/* SPDX-License-Identifier: Apache-2.0 */
/* The host as plugins see it: one BpHost whose tables the rooms add, and the one-time start of the
 * core. */
#ifndef BACKPLANE_CORE_REGISTRY_HOST_H
#define BACKPLANE_CORE_REGISTRY_HOST_H

#include <backplane/host_api.h>

/* The host, valid for ever, with the core started; NULL with an error. Tables are added with
 * bp_host_add_table(). */
const BpHost *bp__host(void);

/* Starts the core, once per process: each room adds its tables, its functions and its hooks.
 * Nothing of ours runs when the library is loaded, so whatever depends on the other rooms (a
 * registry name that is not there, the host's tables) calls this first. -1 with an error: there is
 * no memory; the next call tries again. Calls made from within a start return 0 at once. Any
 * thread. */
int bp__core_start(void);

/* The start of all rooms, above which it is defined (core/start.c); called by bp__core_start alone.
 * What an earlier start that failed has added is added no second time. */
int bp__core_start_rooms(void);

/* The start of this room. */
int bp__registry_start(void);

#endif
