/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that core/device offers to compiled host code. */
#ifndef BACKPLANE_CORE_DEVICE_LIBRARY_SLOTS_H
#define BACKPLANE_CORE_DEVICE_LIBRARY_SLOTS_H

/* Registers them; called when this part of the core starts. */
int bp__device_add_library_slots(void);

#endif
