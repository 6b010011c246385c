/* SPDX-License-Identifier: Apache-2.0 */
/* What this room offers to compiled host code. */
#ifndef BACKPLANE_CORE_DEVICE_LIBRARY_SLOTS_H
#define BACKPLANE_CORE_DEVICE_LIBRARY_SLOTS_H

/* Registers it; part of the start of this room. */
int bp__device_add_library_slots(void);

#endif
