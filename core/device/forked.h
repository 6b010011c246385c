/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the table of a device in the child of a fork. */
#ifndef BACKPLANE_CORE_DEVICE_FORKED_H
#define BACKPLANE_CORE_DEVICE_FORKED_H

#include <backplane/device_api.h>

/* Raises the error for using a device after a fork. Returns -1. */
int bp__device_raise_forked(void);

/* Replaces every slot by a function that raises an error at once. */
void bp__device_api_make_forked(BpDeviceApi *api);

#endif
