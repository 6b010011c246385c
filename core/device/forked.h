/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a DeviceAPI table in the child of a fork. */
#ifndef BACKPLANE_CORE_DEVICE_FORKED_H
#define BACKPLANE_CORE_DEVICE_FORKED_H

#include <backplane/device_api.h>

/* Raises the error that says so. Returns -1. */
int bp__device_raise_forked(void);

/* Replaces every slot by one that raises an error at once. */
void bp__device_api_make_forked(BpDeviceApi *api);

#endif
