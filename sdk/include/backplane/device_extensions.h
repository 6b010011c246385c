/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions of the DeviceAPI: tables that BpDeviceApi::get_extension gives by name and version.
 *
 * Extensions belong to the ABI's second tier: each has a version of its own, and a table of another
 * version is a different table. The rules for slots are those of device_api.h. `context` is
 * BpDeviceApi::context. A slot that is not marked (optional) is required. */
#ifndef BACKPLANE_DEVICE_EXTENSIONS_H
#define BACKPLANE_DEVICE_EXTENSIONS_H

#include <backplane/device_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- "timer", 1 -------------------------------------------------------------------------- */
#define BP_EXTENSION_TIMER         "timer"
#define BP_EXTENSION_TIMER_VERSION 1

/* Timers on the device's clock. */
typedef struct BpTimerApi {
  uint64_t struct_size;
  /* Queues the start, and the stop, of a timer on a stream. A timer is started and stopped once.
   * The streams may be freed before the timer is read. */
  int32_t (*start)(void *context, int32_t device_id, void *stream, void **timer);
  int32_t (*stop)(void *context, void *timer, void *stream);
  /* Waits for the stop and gives the nanoseconds between start and stop. A timer that was not
   * stopped is an error. */
  int32_t (*read)(void *context, void *timer, int64_t *nanoseconds);
  /* Frees a timer in any state. */
  int32_t (*free)(void *context, void *timer);
} BpTimerApi;

/* ---- "recording", 1 ---------------------------------------------------------------------- */
#define BP_EXTENSION_RECORDING         "recording"
#define BP_EXTENSION_RECORDING_VERSION 1

/* A sequence of launches and copies, recorded once and run many times. */
typedef struct BpRecording BpRecording;

/* Between begin and end, work that this thread queues on `stream` is recorded and not run. */
typedef struct BpRecordingApi {
  uint64_t struct_size;
  int32_t (*begin)(void *context, int32_t device_id, void *stream);
  int32_t (*end)(void *context, int32_t device_id, void *stream, BpRecording **recording);
  /* Queues all work of a recording. */
  int32_t (*replay)(void *context, BpRecording *recording, void *stream);
  /* Frees a recording. Replays that are queued still complete. */
  int32_t (*free)(void *context, BpRecording *recording);
} BpRecordingApi;

/* ---- "events", 1 ------------------------------------------------------------------------- */
#define BP_EXTENSION_EVENTS         "events"
#define BP_EXTENSION_EVENTS_VERSION 1

/* A timeout that never expires. */
#define BP_WAIT_FOREVER UINT64_MAX

/* States of an event: pending; complete; complete, and the device knows that work before it failed.
 */
#define BP_EVENT_PENDING  0
#define BP_EVENT_COMPLETE 1
#define BP_EVENT_FAILED   2

/* An event of one device: a point that a stream of the device reaches. The plugin defines the type
 * of its events. */
typedef struct BpDeviceEvent BpDeviceEvent;

/* Events. An event is complete when it is created. `record` makes it pending; the event is complete
 * again when all work that was queued on the stream before the record has ended. An event may be
 * recorded any number of times, and each record replaces the one before: query, synchronize and
 * wait refer to the latest record at the time of the call. A queued wait, or a synchronize in
 * progress, still refers to that record when the event is recorded again or freed.
 *
 * An event completes whether the work before it succeeded or failed; a device that knows of a
 * failure reports BP_EVENT_FAILED. The failure belongs to the stream: stream_sync raises it, once,
 * and no slot of this table does. Work that waits for the event proceeds; a device that cannot run
 * such work after a failure ends it as failed work of its own stream. A loss of the device, and a
 * failure by which the driver loses the device, are raised by the first slot that detects them.
 *
 * Between begin and end of a recording (BpRecordingApi) of a stream, the record and wait slots on
 * that stream are not part of the recording; a device that cannot exclude them raises an error.
 *
 * All slots: any thread, several at once, also for one event. The caller does not use a freed
 * event. `event` is never NULL. In the child of a fork the host calls none of these slots, so an
 * event of the parent is not freed in the child. Slots that are not marked (optional) are
 * required. */
typedef struct BpEventsApi {
  uint64_t struct_size;

  /* Makes a complete event, which the caller owns. Errors: BP_ERROR_MEMORY. */
  int32_t (*create)(void *context, int32_t device_id, BpDeviceEvent **event);

  /* Frees an event in any state. Work that waits for the event still proceeds when the event is
   * reached, and calls promised by notify are still made. */
  int32_t (*free)(void *context, BpDeviceEvent *event);

  /* Records the event after all work that is queued now on a stream of the event's device. The work
   * is submitted to the device: the stream reaches the event without a further call. The stream may
   * be freed before it reaches the event. */
  int32_t (*record)(void *context, BpDeviceEvent *event, void *stream);

  /* Makes work that is queued later on a stream of the event's device wait for the event. The call
   * does not wait. A wait for a complete event orders nothing. */
  int32_t (*wait)(void *context, BpDeviceEvent *event, void *stream);

  /* Stores BP_EVENT_* in *state. Does not wait. If the event is complete, the bytes of earlier
   * copies to the host have arrived. */
  int32_t (*query)(void *context, BpDeviceEvent *event, int32_t *state);

  /* Waits until the event is complete, at most `timeout_ns` nanoseconds; with BP_WAIT_FOREVER,
   * without a limit. *state is as for query: BP_EVENT_PENDING if the time expired first, which is
   * no error. */
  int32_t (*synchronize)(void *context, BpDeviceEvent *event, uint64_t timeout_ns, int32_t *state);

  /* (optional: the host waits in a thread of its own) Calls `done` once with `user` when the event
   * is complete: in a thread of the driver, or in the calling thread before notify returns. `done`
   * returns soon. Of this device's slots it calls only signal and free; it may call slots of other
   * devices. After an error `done` is not called. */
  int32_t (*notify)(void *context, BpDeviceEvent *event, void (*done)(void *user), void *user);

  /* (optional, the two together: the host's calling thread waits instead) The host completes the
   * event: hold makes the event pending, instead of record, and signal makes it complete. Streams
   * wait for events of other devices by hold and signal. Only the host signals a held event, once;
   * the event is not held again. The host holds an event only on behalf of work that was already
   * submitted to its device, so the device may let other streams wait behind the held event. signal
   * does not wait, and `done` of another device's notify may call it. */
  int32_t (*hold)(void *context, BpDeviceEvent *event);
  int32_t (*signal)(void *context, BpDeviceEvent *event);
} BpEventsApi;

/* ---- "external_memory", 1 ---------------------------------------------------------------- */
#define BP_EXTENSION_EXTERNAL_MEMORY         "external_memory"
#define BP_EXTENSION_EXTERNAL_MEMORY_VERSION 1

/* Forms in which one device, API or process shares memory with another. Each form is one bit. */
#define BP_EXTERNAL_HOST_POINTER 1 /* an address of this process */
#define BP_EXTERNAL_OPAQUE_FD    2 /* a file descriptor that the same driver understands */
#define BP_EXTERNAL_DMA_BUF      4 /* a file descriptor of Linux's dma-buf */

/* In the mask of imports, together with BP_EXTERNAL_HOST_POINTER: taking turns is work of the
 * stream. The two copies that hand the bytes over (BpExternalMemoryApi) do not wait. The bytes
 * copied are the contents of the host's memory when the stream reaches the copy: another device may
 * write the memory until an event for which the stream waits. */
#define BP_EXTERNAL_IN_TURN 0x100

/* Memory that a device shares with another device, API or process. */
typedef struct BpExternalMemory {
  uint64_t struct_size; /* sizeof(BpExternalMemory) of the filling side's headers */
  uint64_t size;        /* bytes */
  void *address;        /* address, with BP_EXTERNAL_HOST_POINTER; otherwise ignored */
  int32_t fd;           /* file descriptor, with the other forms; otherwise ignored */
  uint32_t form;        /* one of BP_EXTERNAL_* */
  uint64_t flags;       /* as BpCopy::flags */
} BpExternalMemory;

/* Memory that is shared without a copy. A handle of these slots is data space like any other: every
 * slot of the DeviceAPI and every kernel takes it, and free_data_space frees it.
 *
 * Order. The extension orders nothing. Users of the same bytes wait for each other, by
 * stream_sync or events.
 *
 * Host pointers. The device and the host use the same bytes at different times. Two copies hand the
 * bytes over, each within the same range. After the host wrote, it copies from the host's address
 * to the handle at the same offset. Before the host reads bytes that the device wrote, it copies
 * from the handle to the host's address, and reads after stream_sync. A device that works in the
 * host's memory moves nothing for these copies. No other copy has one side in the handle and the
 * other in its host memory.
 *
 * Threads: any thread may call the slots, also several at once. Since: ABI 1.0, version 1. */
typedef struct BpExternalMemoryApi {
  uint64_t struct_size;

  /* Tells the forms of memory that the device can exchange.
   * *imports, *exports: the forms, BP_EXTERNAL_* joined by `|`; 0 for none. *imports also has
   * BP_EXTERNAL_IN_TURN if taking turns is work of the stream. *alignment: a power of two; an
   * imported address must be a multiple of it. */
  int32_t (*get_forms)(void *context, int32_t device_id, uint64_t *imports, uint64_t *exports,
                       uint64_t *alignment);

  /* Makes data space of existing memory.
   * memory: its form is one of get_forms; its size is not 0, and for a file descriptor is the size
   * of the export. The memory of a host pointer stays valid until the handle is freed and the
   * streams that used the handle have been synchronised. The caller keeps a file descriptor: the
   * device makes a duplicate. *handle: never NULL; the caller frees it with free_data_space, which
   * leaves the memory to its owner.
   * Errors: BP_ERROR_NOT_IMPLEMENTED for a form that the device does not import and for an unknown
   * flag; BP_ERROR_VALUE for an address that is not aligned, a size of 0, and a file descriptor
   * that is not memory of this form; BP_ERROR_MEMORY. */
  int32_t (*import_memory)(void *context, int32_t device_id, const BpExternalMemory *memory,
                           void **handle);

  /* Allocates memory that other devices, APIs or processes can import.
   * memory: the caller sets struct_size, form and flags; the slot sets `fd`, which the caller
   * closes, and `size`, which may be larger than the size of the allocation. Devices with the same
   * BP_ATTR_UUID as this device can import an opaque file descriptor, in this process and in
   * others. *handle: as for alloc_data_space. The memory lives until each handle of it is freed and
   * each file descriptor is closed.
   * Errors: as import_memory and alloc_data_space. */
  int32_t (*export_memory)(void *context, int32_t device_id, const BpAllocation *allocation,
                           BpExternalMemory *memory, void **handle);
} BpExternalMemoryApi;

#ifdef __cplusplus
}
#endif

#endif
