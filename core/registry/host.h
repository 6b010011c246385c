/* SPDX-License-Identifier: Apache-2.0 */
/* The host as plugins see it: one BpHost whose tables the rooms add, and the one-time start of the
 * core. */
#ifndef BACKPLANE_CORE_REGISTRY_HOST_H
#define BACKPLANE_CORE_REGISTRY_HOST_H

#include <backplane/host_api.h>
#include <stddef.h>

/* Whether a table that someone else built has `member`, and it is set. */
#define BP_TABLE_HAS(table, member)                                                                \
  ((table)->struct_size >= offsetof(__typeof__(*(table)), member) + sizeof((table)->member) &&     \
   (table)->member != 0)

/* The host, for ever valid; the core is started. Tables are added with bp_host_add_table(). */
const BpHost *bp__host(void);

/* Starts the core, once per process: each room adds its tables, its functions and its hooks.
 * Nothing of ours runs when the library is loaded, so whatever depends on the other rooms (a
 * registry name that is not there, the host's tables) calls this first. Calls made from within a
 * start return at once. Any thread. */
void bp__core_start(void);

/* The start of all rooms, defined in the topmost one (core/plugin/start.c), called once by
 * bp__core_start. What fails is reported to the log: the names it was to give are then missing. */
void bp__core_start_rooms(void);

/* The start of this room. */
int bp__registry_start(void);

#endif
