/* SPDX-License-Identifier: Apache-2.0 */
/* The DeviceAPI's front inside the core. */
#ifndef BACKPLANE_CORE_DEVICE_DEVICE_H
#define BACKPLANE_CORE_DEVICE_DEVICE_H

#include "core/registry/names.h"

#include <backplane/device.h>
#include <backplane/host_api.h>

/* The name of a device type, or NULL when it is neither published in sdk/device-types.txt nor in
 * use; and the number of a name, -1 with an error. A name that is not published activates the
 * plugin that declares it. */
const char *bp__device_type_name(int32_t device_type);
int32_t bp__device_type_by_name(const char *name);
/* The number that sdk/device-types.txt gives a name, or 0. */
int32_t bp__device_type_published(const char *name);

/* The table of a kind by its name; activates its plugin. NULL with an error that says which kinds
 * there are, and why a plugin that should have had it cannot be used. */
const BpDeviceApi *bp__device_api_by_name(const char *name);

/* Adds the kinds whose plugins are in use. 0, or -1 with an error. */
int bp__device_add_kinds(BpNames *names);

/* Raises that no plugin has devices of a kind, with the nearest that there is. Returns -1. */
int bp__device_raise_unknown(const char *name);

/* The table of a device, after its index was checked; NULL with an error. As in all tables that the
 * host hands out, optional slots that the plugin lacks are NULL, whatever its struct_size. */
const BpDeviceApi *bp__device_get(BpDevice device);

/* Completes the error that a slot raised with the device and what was done. Returns -1. */
int bp__device_failed(BpDevice device, const char *doing);

/* 0, or -1 with an error in the child of a process that had used a device when it forked. */
int bp__device_check_fork(void);

/* Whether it is cpu:0, whose memory the core itself has. */
int bp__device_is_host(BpDevice device);

/* 0 for a stream that bp_stream_create made on the device and for NULL, else -1 with an error. */
int bp__stream_check(BpDevice device, void *stream);

/* The number of the device's stream that is current in this thread, which no other stream ever
 * has; 0 for the default stream. The stream of a number was not freed: 0 is always alive. */
uint64_t bp__stream_current_number(BpDevice device);
int bp__stream_is_alive(uint64_t number);

/* Notes that an event stands for what is queued on the stream, on a device without events: the
 * stream is synchronised before it is freed. Returns its number, 0 for the default stream. */
uint64_t bp__stream_note_record(BpDevice device, void *stream);

/* Host memory for devices and hosts; alignment is a power of two. NULL with an error when
 * exhausted. */
void *bp__host_alloc(uint64_t size, uint64_t alignment);
void bp__host_free(void *data);

/* The start of this room. */
int bp__device_start(void);

#endif
