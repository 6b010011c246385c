/* SPDX-License-Identifier: Apache-2.0 */
/* The DeviceAPI's front inside the core. */
#ifndef BACKPLANE_CORE_DEVICE_DEVICE_H
#define BACKPLANE_CORE_DEVICE_DEVICE_H

#include <backplane/device.h>

/* The name of a device kind by its number, or NULL; and the number by name, -1 if unknown. Kinds
 * are those of sdk/device-types.txt and those of active plugins. */
const char *bp__device_type_name(int32_t device_type);
int32_t bp__device_type_by_name(const char *name, size_t size);

/* The same among tables in use alone. */
const char *bp__device_api_name(int32_t device_type);
int32_t bp__device_api_type(const char *name, size_t size);

/* The table behind a device, after its index was checked; NULL with an error. */
const BpDeviceApi *bp__device_get(BpDevice device);

/* 0, or -1 with an error in a child process that was forked after the core had used a device. */
int bp__device_check_fork(void);

/* Host memory for devices and hosts; alignment is a power of two. NULL with an error when
 * exhausted. */
void *bp__host_alloc(uint64_t size, uint64_t alignment);
void bp__host_free(void *data);

/* The start of this room. */
int bp__device_start(void);

#endif
