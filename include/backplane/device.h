/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, streams and host threads. Where something is to be written, a NULL is BP_ERROR_VALUE. */
#ifndef BACKPLANE_DEVICE_H
#define BACKPLANE_DEVICE_H

#include <backplane/api.h>
#include <backplane/device_api.h>
#include <backplane/device_extensions.h>
#include <backplane/host_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Names and selection ----------------------------------------------------------------- */

/* Parses "cpu", "opencl:1" and the like. The kind need not be installed if its number is known. */
BP_API int bp_device_parse(const char *text, BpDevice *device);
/* Writes "opencl:1": at most `capacity` bytes with the NUL. Returns the length of the whole text,
 * as snprintf does, so a result of `capacity` or more says that `text` was cut. */
BP_API size_t bp_device_format(BpDevice device, char *text, size_t capacity);

/* Picks a device. `preferences` is a comma-separated list of what is wanted, in order: KIND,
 * KIND:INDEX, KIND:GLOB, name:GLOB, plugin:NAME, pci:ADDRESS, uuid:UUID, remote:USER@HOST or auto,
 * the best by rank.
 * '!' before an entry excludes its devices, '+' allows no others, and =RANK after it sets their
 * rank; bp_device_select_help() explains it. NULL is BACKPLANE_DEVICE, else `select` of group
 * [device] in backplane.conf, else auto. The first entry that matches a device wins. No match is an
 * error that lists the devices and says why each was not taken. An entry that matches nothing known
 * (an unknown kind or plugin, an excluded device that is not there) is an error that names the
 * nearest match. *report, if report is not NULL: one line on what was passed over and why, or ""
 * (transfer full, freed with bp_str_free). */
BP_API int bp_device_select(const char *preferences, BpDevice *device, char **report);
/* The same among kinds of device of the `count` types alone, such as those that there is code for;
 * the plugins of other published kinds are not loaded. NULL: any. */
BP_API int bp_device_select_among(const int32_t *device_types, size_t count,
                                  const char *preferences, BpDevice *device, char **report);
/* The list that counts where none is passed: BACKPLANE_DEVICE's, else the configuration's, else ""
 * (transfer full, bp_str_free). NULL with an error: a configuration that cannot be read. */
BP_API char *bp_device_preferences(void);
/* The grammar of preferences, for people; static. "" with an error: the part of libbackplane that
 * has it cannot be loaded. The entry "help" in a list is an error that says the same. */
BP_API const char *bp_device_select_help(void);

/* What a device is a view of: "pci:0000:01:00.0", else "uuid:...", else "". The devices of two
 * plugins that have it in common are one piece of hardware; it is an entry for bp_device_select.
 * `text` and the result are as for bp_device_format. */
BP_API size_t bp_device_identity(BpDevice device, char *text, size_t capacity);

/* Frees a string that a function of this library gave; NULL is ignored. */
BP_API void bp_str_free(char *text);

/* All device kinds that installed plugins declare, without loading them. NULL-terminated, freed
 * with bp_names_free; their number too, unless `count` is NULL. */
BP_API char **bp_device_kinds(size_t *count);

/* ---- Facts ------------------------------------------------------------------------------- */

/* The table behind a device type; activates its plugin. An unknown one is an error. */
BP_API const BpDeviceApi *bp_device_api(int32_t device_type);
/* A table of backplane/device_extensions.h, whose slots are called with the context of that
 * BpDeviceApi: NULL, with no error raised, if devices of this type have no such extension. */
BP_API const void *bp_device_extension(int32_t device_type, const char *name, uint32_t version);
/* Number of devices of a type now. With 0, *why (may be NULL) says the reason, and what is set of
 * the environment variables that the plugin reads; "" else. Valid until the thread asks again. */
BP_API int bp_device_count(int32_t device_type, int32_t *count, const char **why);
/* Reads BP_ATTR_*, or a number that only the plugin knows; owned by the caller; None for what the
 * device does not have. A negative number is an error. BP_ATTR_EXIST never fails. */
BP_API int bp_device_get_attr(BpDevice device, int32_t attr, BpValue *value);
/* The name of an attribute, "max_threads_per_block", or NULL; and the reverse, -1 if unknown. The
 * attributes that this version knows are 0, 1, ... up to the first number without a name. */
BP_API const char *bp_device_attr_name(int32_t attr);
BP_API int32_t bp_device_attr_by_name(const char *name);

/* ---- Memory and streams ------------------------------------------------------------------ */

/* As the DeviceAPI slots of these names, with the host's checks. A device's handle is freed on that
 * device. A BpAllocation or BpCopy whose struct_size is not set, or in which a member is set that
 * this version does not know, is BP_ERROR_VALUE.
 *
 * bp_device_copy also goes between two kinds of device, in pieces through host memory: `stream` is
 * then one of the destination, on which the writes are queued; what the source holds once its
 * stream that is current in this thread (the default one, if another device of the kind is current)
 * has been synchronised is what is copied, and the call waits for that. */
BP_API int bp_device_alloc(BpDevice device, const BpAllocation *allocation, void **handle);
BP_API int bp_device_free(BpDevice device, void *handle);
BP_API int bp_device_copy(const BpCopy *copy, void *stream);
/* Copies between two devices, in the order of a stream of each: the copy reads what the source
 * holds when `from_stream` gets there, and what is queued later on either stream sees the copy
 * done. `copy` is borrowed for the call. Each stream is one of its end's device; that of the host's
 * end is ignored.
 *
 * The call does not wait if both devices have events, and the destination waits for other devices
 * (`hold` and `signal` of the extension "events") and takes turns with the host in its streams
 * (BP_EXTERNAL_IN_TURN), except beyond 64 MiB: a copy that would need more host memory, with that
 * of earlier copies and freed transfers, waits until the oldest of them is done. Otherwise the call
 * waits for the work of the source that was queued before. A failure of earlier work is raised by
 * bp_stream_sync of its own stream, or by this call if it waits. If the two ends are on one device,
 * they must not overlap.
 *
 * 0, or -1 with an error as of bp_device_copy; the destination's bytes are then undefined. Any
 * thread. Since 1.0. */
BP_API int bp_device_copy_between(const BpCopy *copy, void *from_stream, void *to_stream);

/* The same copy in two halves, for callers that queue on each device in a thread of its own, and
 * that copy again and again: the staging memory is allocated once. */
typedef struct BpTransfer BpTransfer;

/* Makes a transfer between two devices, neither of which is the host. `size` is the number of bytes
 * that one send moves at most. Does not wait for work. Transfer full, bp_transfer_free; NULL with
 * an error: BP_ERROR_VALUE, BP_ERROR_MEMORY, or of the devices. Any thread. Since 1.0. */
BP_API BpTransfer *bp_transfer_create(BpDevice from, BpDevice to, uint64_t size);
/* Sends the `size` bytes at `offset` of `handle`, memory of the source, in the order of `stream`, a
 * stream of the source. A send waits, in the stream or in the call, for the receive before it. 0,
 * or -1 with an error: BP_ERROR_VALUE if `size` is more than the transfer's, or of the device. Any
 * thread, one at a time. Since 1.0. */
BP_API int bp_transfer_send(BpTransfer *transfer, const void *handle, uint64_t offset,
                            uint64_t size, void *stream);
/* Receives the `size` bytes that were sent last at `offset` of `handle`, memory of the destination,
 * in the order of `stream`, a stream of the destination. The call waits for the work of the source
 * if bp_device_copy_between would. The caller calls it once after each send has returned. 0, or -1
 * with an error as of bp_transfer_send. Any thread. Since 1.0. */
BP_API int bp_transfer_receive(BpTransfer *transfer, void *handle, uint64_t offset, uint64_t size,
                               void *stream);
/* Frees a transfer in any state. Does not wait: queued halves still complete, and the staging
 * memory is kept until then. NULL is ignored. Any thread; nothing else uses the transfer.
 * Since 1.0. */
BP_API void bp_transfer_free(BpTransfer *transfer);

/* Memory that is shared with another device, API or process, as the extension "external_memory" of
 * device_extensions.h says, with the host's checks. A device without the extension has no forms.
 * The host's own device has none either: the host's memory needs no handle, bp_tensor_wrap takes
 * its address. A form that the device lacks is BP_ERROR_NOT_IMPLEMENTED, and the message names
 * those that it has.
 *
 * bp_device_memory_forms gives the forms, BP_EXTERNAL_* joined by `|`, and the alignment of an
 * address that is imported; each pointer may be NULL. bp_device_import_memory makes data space of
 * existing memory, which outlives the handle and the work that uses it. bp_device_export_memory
 * allocates memory and gives its file descriptor (memory->fd, which the caller closes) and its size
 * for the import. bp_device_free frees both handles. Any thread. Since 1.0. */
BP_API int bp_device_memory_forms(BpDevice device, uint64_t *imports, uint64_t *exports,
                                  uint64_t *alignment);
BP_API int bp_device_import_memory(BpDevice device, const BpExternalMemory *memory, void **handle);
BP_API int bp_device_export_memory(BpDevice device, const BpAllocation *allocation,
                                   BpExternalMemory *memory, void **handle);
/* Short-lived memory from a pool of the calling thread; freed by the same thread, in any order. It
 * belongs to the device's stream that is current in the thread: work on that stream may use it, and
 * may be unfinished when it is freed. */
BP_API int bp_workspace_alloc(BpDevice device, uint64_t size, BpDataType hint, void **handle);
BP_API int bp_workspace_free(BpDevice device, void *handle);

/* A device with one queue returns NULL, its default stream. A stream argument that bp_stream_create
 * did not make on that device, or that was freed, is BP_ERROR_VALUE; a copy between two devices of
 * one kind takes a stream of the source. A freed stream is no longer current in this thread; it
 * must not be current in others. The default stream, NULL, is not ordered with the others, which
 * are not ordered with each other: bp_stream_sync_from_to and events order them. Several threads
 * may queue on one stream. */
BP_API int bp_stream_create(BpDevice device, void **stream);
BP_API int bp_stream_free(BpDevice device, void *stream);
BP_API int bp_stream_sync(BpDevice device, void *stream);
BP_API int bp_stream_sync_from_to(BpDevice device, void *from, void *to);

/* ---- Events ------------------------------------------------------------------------------ */

/* A point that a stream of one device reaches. An event that was never recorded is complete. Each
 * record replaces the one before; waits that are queued keep their meaning. An event is complete
 * whether the work before it succeeded or failed: bp_stream_sync raises the failure, once.
 *
 * On a device without the extension "events" (device_extensions.h) the host does what it can: a
 * query and a synchronize wait for all that is queued on the stream by then, whatever the timeout,
 * and raise its failure in the place of bp_stream_sync; a wait orders the streams by
 * bp_stream_sync_from_to. On the host's own device an event is always complete: work there has
 * ended when the call returns.
 *
 * Any thread may call these at any time; bp_event_free alone needs the event for itself. A NULL,
 * and a stream that the device does not have, is BP_ERROR_VALUE. Since 1.0. */
typedef struct BpEvent BpEvent;

/* An event of a device (transfer full, bp_event_free); NULL with an error. */
BP_API BpEvent *bp_event_create(BpDevice device);
/* Frees an event in any state; waits for it stay queued. NULL is ignored. */
BP_API void bp_event_free(BpEvent *event);
/* Records the event at the end of what is queued now on a stream of its device, which may be freed
 * before it gets there. */
BP_API int bp_event_record(BpEvent *event, void *stream);
/* Makes work that is queued later on a stream of `device` wait for the event as it was recorded
 * last. Within one device the call does not block. The event of another device, of any plugin, is
 * waited for by its driver or by a thread of the host, and the call does not block, if the waiting
 * device's extension has `hold` and `signal`; otherwise, and on the host's own device, the call
 * returns when the event is complete. */
BP_API int bp_stream_wait_event(BpDevice device, void *stream, BpEvent *event);
/* Gives the event's state now: BP_EVENT_PENDING (0); BP_EVENT_COMPLETE, then what copies before it
 * brought to the host is there; or BP_EVENT_FAILED: it is complete, and the device knows that work
 * before it failed, which bp_stream_sync raises or has raised. */
BP_API int bp_event_query(BpEvent *event, int32_t *state);
/* Waits for the event, at most `timeout_ns` nanoseconds (BP_WAIT_FOREVER: as long as it takes).
 * *state is BP_EVENT_PENDING, which is no error, if the time passed before. */
BP_API int bp_event_synchronize(BpEvent *event, uint64_t timeout_ns, int32_t *state);

/* ---- What is current --------------------------------------------------------------------- */

/* The device and stream on which functions called by this thread launch; default: index 0, NULL. */
BP_API int bp_device_set_current(BpDevice device, void *stream);
BP_API void bp_device_get_current(int32_t device_type, int32_t *device_id, void **stream);

/* Calls a function on a device and stream, which need not be current in the thread: a kernel is
 * queued on that stream. Any other function is called with both current, and those that were
 * current before are so again when it returns. `invocation` and `args` are borrowed for the call;
 * the caller owns *result. -1 with an error: of the function, or BP_ERROR_VALUE for a device of
 * another kind than the kernel's, a stream of another device, or a flag. Any thread. */
BP_API int bp_function_launch(BpFunction *function, const BpInvocation *invocation,
                              const BpValue *args, int32_t num_args, BpValue *result);

/* ---- Host threads ------------------------------------------------------------------------ */

/* Threads of a launch; BACKPLANE_NUM_THREADS or the usable cores at first. Setting it, 1 to 1024,
 * counts from the next launch on. See docs/devices.md for how launches share threads. */
BP_API int32_t bp_threads_get(void);
BP_API int bp_threads_set(int32_t count);
/* As the slots of BpRuntimeTable. */
BP_API int bp_parallel_launch(BpParallelTask task, void *data, int32_t num_task);
BP_API int bp_parallel_barrier(int32_t task_id, BpParallelGroup *group);

#ifdef __cplusplus
}
#endif

/* ---- Other machines ---------------------------------------------------------------------- */

/* A device of another machine is written remote:me@gpubox/opencl:1. bp_device_parse takes a kind
 * without a machine as that of this machine; if this one has no plugin for it, as that of the only
 * other known machine that has one; if several have one, that is BP_ERROR_VALUE.
 *
 * BP_DEVICE_TYPE_OF_CODE gives the number that code for devices of a type has. The devices of
 * another machine have numbers above BP_DEVICE_PRIVATE_LAST, whose low 16 bits are the number of
 * their kind. The host gives these numbers for the life of a process; no plugin and no artifact has
 * one. Since 1.0. */
#define BP_DEVICE_TYPE_OF_CODE(device_type) ((int32_t)((device_type)&0xffff))

#endif
