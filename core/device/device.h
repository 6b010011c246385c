/* SPDX-License-Identifier: Apache-2.0 */
/* The DeviceAPI's internal interface within the core. */
#ifndef BACKPLANE_CORE_DEVICE_DEVICE_H
#define BACKPLANE_CORE_DEVICE_DEVICE_H

#include "core/system/shared.h"

#include "core/registry/names.h"

#include <backplane/device.h>
#include <backplane/host_api.h>

/* The name of a kind of devices of another machine is this prefix, the machine, a slash and the
 * kind's name on that machine: remote:me@gpubox/opencl. */
#define BP_REMOTE_PREFIX "remote:"
/* The longest name of a kind, with its NUL. */
#define BP_DEVICE_KIND_MAX 256
/* Bytes for the text of bp_device_format: a kind, a colon, an index and a NUL. */
#define BP_DEVICE_TEXT_MAX (BP_DEVICE_KIND_MAX + 12)

/* Returns the name that a kind has on its own machine: `kind` without the prefix and the machine.
 * Code for the kind's devices uses this name. */
BP__SHARED const char *bp__device_plain_kind(const char *kind);

/* Whether plugins of other machines may be known. */
BP__SHARED int bp__remote_is_used(void);

/* Returns the name of a device type, or NULL if it is neither published in sdk/device-types.txt nor
 * in use. */
BP__SHARED const char *bp__device_type_name(int32_t device_type);
/* Returns the number that sdk/device-types.txt gives a name, or 0. */
BP__SHARED int32_t bp__device_type_published(const char *name);
/* Returns a published name by index; NULL: no more. */
BP__SHARED const char *bp__device_type_published_at(size_t index);

/* Returns the kind that a name stands for (transfer full, g_free): the name itself, or, if no
 * plugin of this machine has that kind, the kind of the only other machine that has it. If the name
 * contains a machine, the call connects to it. NULL with an error: several machines have the kind,
 * or the machine cannot be reached.
 */
BP__SHARED char *bp__device_find_kind(const char *name);

/* Returns the table of a kind, found by name; activates its plugin. NULL with an error that lists
 * the kinds and says why a plugin that declares this kind cannot be used. */
BP__SHARED const BpDeviceApi *bp__device_api_by_name(const char *name);

/* Adds the kinds whose plugins are in use. 0, or -1 with an error. */
BP__SHARED int bp__device_add_kinds(BpNames *names);

/* Raises the error that no plugin has devices of a kind, with the nearest known name. Returns
 * -1. */
BP__SHARED int bp__device_raise_unknown(const char *name);

/* Returns the table of a device, after checking its index; NULL with an error. As in all tables
 * that the host returns, optional slots that the plugin lacks are NULL, whatever its
 * struct_size. */
BP__SHARED const BpDeviceApi *bp__device_get(BpDevice device);

/* Reads an application's BpAllocation, and checks its alignment and flags. 0, or -1 with an
 * error. */
BP__SHARED int bp__allocation_read(const BpAllocation *given, BpAllocation *own);
/* Reads an application's BpCopy, and checks its devices and flags. 0, or -1 with an error, also in
 * the child of a fork. */
int bp__copy_read(const BpCopy *given, BpCopy *own);

/* Adds the device and the operation to the error that a slot raised. Returns -1. */
BP__SHARED int bp__device_failed(BpDevice device, const char *doing);

/* Returns 0, or -1 with an error in the child of a process that had used a device when it
 * forked. */
BP__SHARED int bp__device_check_fork(void);

/* Whether this process is the child of a process that had used a device; raises no error. */
BP__SHARED int bp__device_is_forked(void);

/* Copies a kind's table to a table of the host, and checks it: optional slots that are absent are
 * NULL. The copy's `name` is the given table's. 0, or -1 with an error. */
BP__SHARED int bp__device_api_take(const char *name, const BpDeviceApi *given, BpDeviceApi *own);

/* Returns the layers around a table that the host handed out; NULL: none. */
BP__SHARED const struct BpLayering *bp__device_layering(const BpDeviceApi *api);

/* Whether the device is cpu:0, whose memory belongs to the core itself. */
BP__SHARED int bp__device_is_host(BpDevice device);

/* Returns 0 if `stream` is NULL or was created on the device by bp_stream_create, else -1 with an
 * error. */
BP__SHARED int bp__stream_check(BpDevice device, void *stream);

/* Returns the number of this thread's current stream on the device, or 0 for the default stream.
 * Numbers of streams are never reused. bp__stream_is_alive returns whether the stream with a number
 * still exists, as the default stream always does. */
uint64_t bp__stream_current_number(BpDevice device);
int bp__stream_is_alive(uint64_t number);
/* Adds 1 or -1 to the number of a stream's users, and returns whether the stream exists.
 * bp_stream_free waits until the stream has no users. */
BP__SHARED int bp__stream_use(uint64_t number, int32_t users);

/* Notes that an event stands for all work queued on the stream, on a device without events: the
 * stream is synchronised before it is freed. Returns the stream's number, 0 for the default stream.
 * -1 with an error: the stream was freed. */
BP__SHARED int bp__stream_note_record(BpDevice device, void *stream, uint64_t *number);

/* Allocates host memory; alignment is a power of two. NULL with an error if memory is exhausted. */
BP__SHARED void *bp__host_alloc(uint64_t size, uint64_t alignment);
BP__SHARED void bp__host_free(void *data);

/* Starts core/device, the part of the core for devices and tensors. */
int bp__device_start(void);

#endif
