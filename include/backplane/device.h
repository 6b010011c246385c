/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, streams and host threads. A NULL pointer for a result is an error, BP_ERROR_VALUE. */
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

/* Parses "cpu", "opencl:1" and similar names. The kind need not be installed if its number is
 * known. */
BP_API int bp_device_parse(const char *text, BpDevice *device);
/* Writes the name of a device, such as "opencl:1": at most `capacity` bytes with the NUL. Returns
 * the length of the whole text, as snprintf does, so a result of `capacity` or more means that
 * `text` was truncated. */
BP_API size_t bp_device_format(BpDevice device, char *text, size_t capacity);

/* Selects a device. `preferences` is a comma-separated list of entries, in order of preference:
 * KIND, KIND:INDEX, KIND:GLOB, name:GLOB, plugin:NAME, pci:ADDRESS, uuid:UUID, remote:USER@HOST, or
 * auto for the device with the highest rank. '!' before an entry excludes its devices, '+' allows
 * no others, and =RANK after it sets their rank; bp_device_select_help() explains it. NULL stands
 * for BACKPLANE_DEVICE, else `select` of group [device] in backplane.conf, else auto. The first
 * entry that matches a device wins. If no entry matches, the error lists the devices and says why
 * each was not selected. An entry that names an unknown kind or plugin, or excludes a device that
 * does not exist, is an error that names the nearest match. *report, if report is not NULL: one
 * line on the entries that were passed over and why, or "" (transfer full, freed with
 * bp_str_free). */
BP_API int bp_device_select(const char *preferences, BpDevice *device, char **report);
/* bp_device_select among devices of the `count` types alone, such as the types for which code
 * exists; plugins of other published kinds are not loaded. device_types NULL: any type. */
BP_API int bp_device_select_among(const int32_t *device_types, size_t count,
                                  const char *preferences, BpDevice *device, char **report);
/* Returns the list of preferences that applies where none is passed: BACKPLANE_DEVICE, else
 * `select` of backplane.conf, else "" (transfer full, bp_str_free). NULL with an error if the
 * configuration cannot be read. */
BP_API char *bp_device_preferences(void);
/* Returns an explanation of the grammar of preferences; static. "" with an error if the part of
 * libbackplane with the explanation cannot be loaded. The entry "help" in a list is an error with
 * the explanation of the grammar. */
BP_API const char *bp_device_select_help(void);

/* Writes the identity of the hardware behind a device: "pci:0000:01:00.0", else "uuid:...", else
 * "". Devices of two plugins with equal identities are the same hardware. An identity is an entry
 * for bp_device_select. `text` and the result are as for bp_device_format. */
BP_API size_t bp_device_identity(BpDevice device, char *text, size_t capacity);

/* Frees a string that a function of this library returned; NULL is ignored. */
BP_API void bp_str_free(char *text);

/* Returns all device kinds that installed plugins declare, without loading the plugins.
 * NULL-terminated, freed with bp_names_free. *count, unless `count` is NULL, becomes the number of
 * kinds. */
BP_API char **bp_device_kinds(size_t *count);

/* ---- Facts ------------------------------------------------------------------------------- */

/* Returns the table of a device type and activates its plugin. An unknown type is an error. */
BP_API const BpDeviceApi *bp_device_api(int32_t device_type);
/* Returns an extension's table (backplane/device_extensions.h), whose slots are called with the
 * context of that BpDeviceApi. NULL, without an error, if devices of this type do not have the
 * extension. */
BP_API const void *bp_device_extension(int32_t device_type, const char *name, uint32_t version);
/* Returns the present number of devices of a type. If the number is 0, *why (may be NULL) is the
 * reason, with the environment variables of the plugin that are set; otherwise *why is "". *why is
 * valid until the thread's next call. */
BP_API int bp_device_count(int32_t device_type, int32_t *count, const char **why);
/* Reads an attribute: BP_ATTR_*, or a number that only the plugin knows. The caller owns the value;
 * None if the device lacks the attribute. A negative number is an error. BP_ATTR_EXIST never
 * fails. */
BP_API int bp_device_get_attr(BpDevice device, int32_t attr, BpValue *value);
/* Return the name of an attribute, such as "max_threads_per_block", or NULL; and the number of a
 * name, or -1 if unknown. Attributes have numbers from 0, without gaps: bp_device_attr_name returns
 * NULL for the first number after them. */
BP_API const char *bp_device_attr_name(int32_t attr);
BP_API int32_t bp_device_attr_by_name(const char *name);

/* ---- Memory and streams ------------------------------------------------------------------ */

/* Functions for memory and copies call the DeviceAPI slots of the same names, after the host's
 * checks. A handle is freed on the device that it belongs to. A BpAllocation or BpCopy whose
 * struct_size is not set, or that sets a member that this version does not know, is BP_ERROR_VALUE.
 *
 * bp_device_copy also goes between two kinds of device, in pieces through host memory: `stream` is
 * then a stream of the destination, on which the writes are queued. The call first synchronises the
 * source's stream that is current in this thread (the default stream, if another device of the kind
 * is current), and then copies the source's contents. */
BP_API int bp_device_alloc(BpDevice device, const BpAllocation *allocation, void **handle);
BP_API int bp_device_free(BpDevice device, void *handle);
BP_API int bp_device_copy(const BpCopy *copy, void *stream);
/* Copies between two devices, in the order of a stream of each: the copy reads the contents of the
 * source when `from_stream` reaches the copy, and work that is queued later on either stream runs
 * after the copy. `copy` is borrowed for the call. `from_stream` is a stream of the source's device
 * and `to_stream` of the destination's; the stream of the host is ignored.
 *
 * The call does not wait if both devices have events, and the destination waits for other devices
 * (`hold` and `signal` of the extension "events") and takes turns with the host in its streams
 * (BP_EXTERNAL_IN_TURN), except beyond 64 MiB: a copy that would exceed this host memory, together
 * with earlier copies and freed transfers, waits until the oldest of them is done. In all other
 * cases the call waits for the source's earlier work. A failure of earlier work is raised by
 * bp_stream_sync of its own stream, or by bp_device_copy_between if it waits. If source and
 * destination are on one device, they must not overlap.
 *
 * 0, or -1 with an error as for bp_device_copy; the destination's bytes are then undefined. Any
 * thread. Since 1.0. */
BP_API int bp_device_copy_between(const BpCopy *copy, void *from_stream, void *to_stream);

/* Copies between two devices in two halves, for callers that queue on each device in a thread of
 * its own and copy repeatedly: the staging memory is allocated once. */
typedef struct BpTransfer BpTransfer;

/* Makes a transfer between two devices; one of them may be the host. `size` is the number of bytes
 * that one send moves at most. Does not wait for work. Transfer full, bp_transfer_free; NULL with
 * an error: BP_ERROR_VALUE, BP_ERROR_MEMORY, or an error of the devices. Any thread. Since 1.0. */
BP_API BpTransfer *bp_transfer_create(BpDevice from, BpDevice to, uint64_t size);
/* Sends the `size` bytes at `offset` of `handle`, memory of the source, in the order of `stream`, a
 * stream of the source. A send waits, in the stream or in the call, for the receive before it. 0,
 * or -1 with an error: BP_ERROR_VALUE if `size` is more than the transfer's size, or an error of
 * the device. Any thread, one at a time. Since 1.0. */
BP_API int bp_transfer_send(BpTransfer *transfer, const void *handle, uint64_t offset,
                            uint64_t size, void *stream);
/* Receives the `size` bytes that were sent last. The bytes are written at `offset` of `handle`,
 * memory of the destination, in the order of `stream`, a stream of the destination. The call waits
 * for the work of the source if bp_device_copy_between would. The caller receives once after each
 * send has returned. 0, or -1 with an error as for bp_transfer_send. Any thread. Since 1.0. */
BP_API int bp_transfer_receive(BpTransfer *transfer, void *handle, uint64_t offset, uint64_t size,
                               void *stream);
/* Frees a transfer in any state. Does not wait: queued halves still complete, and the staging
 * memory is kept until then. NULL is ignored. Any thread, if no other thread uses the transfer.
 * Since 1.0. */
BP_API void bp_transfer_free(BpTransfer *transfer);

/* Memory that is shared with another device, API or process, through the extension
 * "external_memory" of device_extensions.h, after the host's checks. A device without the extension
 * has no forms. The host's own device has no forms, because the host's memory needs no handle:
 * bp_tensor_wrap takes its address. A form that the device lacks is BP_ERROR_NOT_IMPLEMENTED, and
 * the message names the supported forms.
 *
 * bp_device_memory_forms gives the forms, BP_EXTERNAL_* joined by `|`, and the alignment of
 * imported addresses; each pointer may be NULL. bp_device_import_memory makes data space of
 * existing memory, which must outlive the handle and the work that uses the handle.
 * bp_device_export_memory allocates memory and gives its file descriptor (memory->fd, which the
 * caller closes) and its size for the import. bp_device_free frees both handles. Any thread. Since
 * 1.0. */
BP_API int bp_device_memory_forms(BpDevice device, uint64_t *imports, uint64_t *exports,
                                  uint64_t *alignment);
BP_API int bp_device_import_memory(BpDevice device, const BpExternalMemory *memory, void **handle);
BP_API int bp_device_export_memory(BpDevice device, const BpAllocation *allocation,
                                   BpExternalMemory *memory, void **handle);
/* Short-lived memory from a pool of the calling thread; the same thread frees it, in any order. The
 * memory belongs to the device's stream that is current in the thread: work on that stream may use
 * the memory, and may be unfinished when the memory is freed. */
BP_API int bp_workspace_alloc(BpDevice device, uint64_t size, BpDataType hint, void **handle);
BP_API int bp_workspace_free(BpDevice device, void *handle);

/* Streams. A device with one queue returns NULL, its default stream. A stream argument that
 * bp_stream_create did not make on that device, or that was freed, is BP_ERROR_VALUE; a copy
 * between two devices of one kind takes a stream of the source. A freed stream is no longer current
 * in this thread; it must not be current in other threads. No two streams are ordered with each
 * other, including the default stream, NULL: bp_stream_sync_from_to and events order them. Several
 * threads may queue on one stream. */
BP_API int bp_stream_create(BpDevice device, void **stream);
BP_API int bp_stream_free(BpDevice device, void *stream);
BP_API int bp_stream_sync(BpDevice device, void *stream);
BP_API int bp_stream_sync_from_to(BpDevice device, void *from, void *to);

/* ---- Events ------------------------------------------------------------------------------ */

/* A point that a stream of one device reaches. An event that was never recorded is complete. Each
 * record replaces the previous record; queued waits still refer to the record that they were queued
 * for. An event is complete whether the work before it succeeded or failed: bp_stream_sync raises
 * the failure, once.
 *
 * On a device without the extension "events" (device_extensions.h) the host replaces events: a
 * query and a synchronize wait for all work queued on the stream so far, regardless of the timeout,
 * and raise its failure instead of bp_stream_sync; a wait orders the streams by
 * bp_stream_sync_from_to. On the host's own device an event is always complete: work there has
 * ended when the call returns.
 *
 * Any thread may call these functions at any time, except that no other thread may use the event
 * during bp_event_free. A NULL, and a stream that the device does not have, are BP_ERROR_VALUE.
 * Since 1.0. */
typedef struct BpEvent BpEvent;

/* Makes an event of a device (transfer full, bp_event_free); NULL with an error. */
BP_API BpEvent *bp_event_create(BpDevice device);
/* Frees an event in any state; queued waits for the event stay queued. NULL is ignored. */
BP_API void bp_event_free(BpEvent *event);
/* Records the event after all work that is queued now on a stream of its device. The stream may be
 * freed before it reaches the event. */
BP_API int bp_event_record(BpEvent *event, void *stream);
/* Makes work that is queued later on a stream of `device` wait for the event's latest record.
 * Within one device the call does not block. For an event of another device, of any plugin, that
 * device's driver or a thread of the host waits, and the call does not block, if the waiting
 * device's extension has `hold` and `signal`; otherwise, and on the host's own device, the call
 * returns when the event is complete. */
BP_API int bp_stream_wait_event(BpDevice device, void *stream, BpEvent *event);
/* Returns the event's present state: BP_EVENT_PENDING (0); BP_EVENT_COMPLETE, and then the bytes of
 * earlier copies to the host have arrived; or BP_EVENT_FAILED: the event is complete, and the
 * device knows that work before it failed. bp_stream_sync raises that failure, or has raised it. */
BP_API int bp_event_query(BpEvent *event, int32_t *state);
/* Waits for the event, at most `timeout_ns` nanoseconds (BP_WAIT_FOREVER: without a limit). *state
 * is BP_EVENT_PENDING, which is no error, if the time expired first. */
BP_API int bp_event_synchronize(BpEvent *event, uint64_t timeout_ns, int32_t *state);

/* ---- Current device and stream ----------------------------------------------------------- */

/* The device and stream on which functions called by this thread launch; by default index 0 and
 * NULL. */
BP_API int bp_device_set_current(BpDevice device, void *stream);
BP_API void bp_device_get_current(int32_t device_type, int32_t *device_id, void **stream);

/* Calls a function on a device and stream, which need not be current in the thread. A kernel is
 * queued on that stream. A function that is no kernel is called with the device and stream current;
 * the previous device and stream are current again when it returns. `invocation` and `args` are
 * borrowed for the call; the caller owns *result. -1 with an error of the function, or with
 * BP_ERROR_VALUE for a device of another kind than the kernel's, a stream of another device, or an
 * unknown flag. Any thread. */
BP_API int bp_function_launch(BpFunction *function, const BpInvocation *invocation,
                              const BpValue *args, int32_t num_args, BpValue *result);

/* ---- Host threads ------------------------------------------------------------------------ */

/* The number of threads of a launch; at first BACKPLANE_NUM_THREADS or the number of usable cores.
 * A new number, 1 to 1024, applies from the next launch on. docs/devices.md explains how launches
 * share threads. */
BP_API int32_t bp_threads_get(void);
BP_API int bp_threads_set(int32_t count);
/* The functions for parallel launches call slots of BpRuntimeTable. */
BP_API int bp_parallel_launch(BpParallelTask task, void *data, int32_t num_task);
BP_API int bp_parallel_barrier(int32_t task_id, BpParallelGroup *group);

#ifdef __cplusplus
}
#endif

/* ---- Other machines ---------------------------------------------------------------------- */

/* A device of another machine is written remote:me@gpubox/opencl:1. In bp_device_parse, a kind
 * without a machine is a kind of this machine. If this machine has no plugin for the kind, the kind
 * of the only other known machine that has a plugin for it is meant; if several machines have one,
 * the result is BP_ERROR_VALUE.
 *
 * BP_DEVICE_TYPE_OF_CODE gives the device type of code for devices of a type. The device types of
 * another machine are above BP_DEVICE_PRIVATE_LAST; their low 16 bits are the number of the kind.
 * The host assigns these device types for the life of a process; plugins and artifacts never
 * contain them. Since 1.0. */
#define BP_DEVICE_TYPE_OF_CODE(device_type) ((int32_t)((device_type)&0xffff))

#endif
