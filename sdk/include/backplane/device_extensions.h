/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions of the DeviceAPI: tables that BpDeviceApi::get_extension gives by name and version.
 *
 * They are of the ABI's second tier: each has a version of its own, and a table of another version
 * is another table. The rules for slots are those of device_api.h; `context` is that of the
 * BpDeviceApi, and a slot that is not marked (optional) is required. */
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
  /* Queues the start, and the stop, on a stream; one timer is started and stopped once. The streams
   * may be freed before the timer is read. */
  int32_t (*start)(void *context, int32_t device_id, void *stream, void **timer);
  int32_t (*stop)(void *context, void *timer, void *stream);
  /* Waits for the stop and gives the nanoseconds between the two. A timer that was not stopped is
   * an error. */
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
  /* Queues all of it. */
  int32_t (*replay)(void *context, BpRecording *recording, void *stream);
  /* Replays that are queued still complete. */
  int32_t (*free)(void *context, BpRecording *recording);
} BpRecordingApi;

/* ---- "events", 1 ------------------------------------------------------------------------- */
#define BP_EXTENSION_EVENTS         "events"
#define BP_EXTENSION_EVENTS_VERSION 1

/* A timeout that never passes. */
#define BP_WAIT_FOREVER UINT64_MAX

/* States of an event: pending; complete; complete, and the device knows that work before it failed.
 */
#define BP_EVENT_PENDING  0
#define BP_EVENT_COMPLETE 1
#define BP_EVENT_FAILED   2

/* An event of one device: a point that a stream of the device reaches. The type is the plugin's. */
typedef struct BpDeviceEvent BpDeviceEvent;

/* Events. An event is complete when it is created. `record` makes it pending; it is complete again
 * when all the work has ended that was queued on the stream before. An event may be recorded any
 * number of times, and each record replaces the one before: query, synchronize and wait mean the
 * record that is the latest when they are called, and a wait that is queued, or a synchronize that
 * is under way, keeps its meaning when the event is recorded again or freed.
 *
 * An event is complete whether the work before it succeeded or failed; a device that knows says
 * BP_EVENT_FAILED. The failure is the stream's: stream_sync raises it, once, and no slot of this
 * table does. What waits for the event goes on; a device that cannot run it after a failure ends it
 * as failed work of its own stream. A loss of the device, and a failure by which the driver loses
 * the device, are raised by whichever slot meets them first.
 *
 * Between begin and end of a recording (BpRecordingApi) of a stream, record and wait on it are not
 * part of the recording; a device that cannot exclude them raises an error.
 *
 * All slots: any thread, several at once, also for one event. The caller does not use a freed
 * event. `event` is never NULL. In the child of a fork the host calls none of them, so an event
 * that the parent has made is not freed there. Slots that are not marked (optional) are there. */
typedef struct BpEventsApi {
  uint64_t struct_size;

  /* Makes an event, complete, which the caller owns. Errors: BP_ERROR_MEMORY. */
  int32_t (*create)(void *context, int32_t device_id, BpDeviceEvent **event);

  /* Frees an event in any state. What waits for it, or was promised a call, still gets it. */
  int32_t (*free)(void *context, BpDeviceEvent *event);

  /* Records the event at the end of what is queued now on a stream of the event's device. The work
   * is handed to the device: the stream reaches the event without a further call. The stream may be
   * freed before. */
  int32_t (*record)(void *context, BpDeviceEvent *event, void *stream);

  /* Makes work that is queued later on a stream of the event's device wait for the event; does not
   * wait itself. A complete event orders nothing. */
  int32_t (*wait)(void *context, BpDeviceEvent *event, void *stream);

  /* Gives BP_EVENT_* in *state. Does not wait. If the event is complete, bytes that copies before
   * it brought to the host are there. */
  int32_t (*query)(void *context, BpDeviceEvent *event, int32_t *state);

  /* Waits until the event is complete, at most `timeout_ns` nanoseconds; BP_WAIT_FOREVER: as long
   * as it takes. *state is as for query: BP_EVENT_PENDING, which is no error, if the time passed
   * before. */
  int32_t (*synchronize)(void *context, BpDeviceEvent *event, uint64_t timeout_ns, int32_t *state);

  /* (optional: the host waits in a thread of its own) Calls `done` once with `user` when the event
   * is complete: in a thread of the driver, or in this one before notify returns. `done` returns
   * soon, calls no slot of the device but signal and free, and may call those of other devices
   * that it may. After an error `done` is not called. */
  int32_t (*notify)(void *context, BpDeviceEvent *event, void (*done)(void *user), void *user);

  /* (optional, the two together: the host's calling thread waits instead) The host completes the
   * event: hold makes it pending, in the place of record, and signal makes it complete. By this
   * streams wait for events of other devices. A held event is signalled once and by the host
   * alone; it is not held again. The host holds an event only on behalf of work that was handed to
   * its device before, so the device may let other streams wait behind it. signal does not wait,
   * and `done` of another device's notify may call it. */
  int32_t (*hold)(void *context, BpDeviceEvent *event);
  int32_t (*signal)(void *context, BpDeviceEvent *event);
} BpEventsApi;

/* ---- "external_memory", 1 ---------------------------------------------------------------- */
#define BP_EXTENSION_EXTERNAL_MEMORY         "external_memory"
#define BP_EXTENSION_EXTERNAL_MEMORY_VERSION 1

/* Forms in which memory goes from one device, API or process to another. Each is one bit. */
#define BP_EXTERNAL_HOST_POINTER 1 /* an address of this process */
#define BP_EXTERNAL_OPAQUE_FD    2 /* a file descriptor that the same driver understands */
#define BP_EXTERNAL_DMA_BUF      4 /* a file descriptor of Linux's dma-buf */

/* In the mask of imports, beside BP_EXTERNAL_HOST_POINTER: taking turns is work of the stream. The
 * two copies that hand bytes over (BpExternalMemoryApi) do not wait, and the bytes are those that
 * the host's memory holds when the stream gets there: another device may write them until an event
 * for which the stream waits. */
#define BP_EXTERNAL_IN_TURN 0x100

/* Memory that a device did not allocate for itself alone. */
typedef struct BpExternalMemory {
  uint64_t struct_size; /* sizeof(BpExternalMemory) of the filling side's headers */
  uint64_t size;        /* bytes */
  void *address;        /* of BP_EXTERNAL_HOST_POINTER; else ignored */
  int32_t fd;           /* of the other forms; else ignored */
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
 * bytes over. They copy a range to its own place: from the host's address to the handle at the same
 * offset, after the host wrote; from the handle to the host's address, before the host reads what
 * the device wrote, which it does after stream_sync. A device that works in the host's memory moves
 * nothing for them. No other copy has one end in the handle and the other in its host memory.
 *
 * Threads: any thread may call the slots, also several at once. Since: ABI 1.0, version 1. */
typedef struct BpExternalMemoryApi {
  uint64_t struct_size;

  /* Tells what the device can exchange.
   * *imports, *exports: the forms, BP_EXTERNAL_* joined by `|`; 0 for none. *imports has
   * BP_EXTERNAL_IN_TURN, too, if that holds. *alignment: a power of two of which an address that is
   * imported is a multiple. */
  int32_t (*get_forms)(void *context, int32_t device_id, uint64_t *imports, uint64_t *exports,
                       uint64_t *alignment);

  /* Makes data space of existing memory.
   * memory: its form is one of get_forms; its size is not 0, and that of the export for a file
   * descriptor. Of a host pointer the memory stays valid until the handle is freed and the streams
   * that used it were synchronised since. A file descriptor stays the caller's: the device keeps a
   * duplicate. *handle: never NULL; the caller frees it with free_data_space, which leaves the
   * memory to its owner.
   * Errors: BP_ERROR_NOT_IMPLEMENTED for a form that the device does not import and for an unknown
   * flag; BP_ERROR_VALUE for an address that is not aligned, a size of 0, and a file descriptor
   * that is no such memory; BP_ERROR_MEMORY. */
  int32_t (*import_memory)(void *context, int32_t device_id, const BpExternalMemory *memory,
                           void **handle);

  /* Allocates memory that others can import.
   * memory: the caller sets struct_size, form and flags; the slot sets `fd`, which the caller
   * closes, and `size`, which may be larger than that of the allocation. Devices with the
   * BP_ATTR_UUID of this one import an opaque file descriptor, in this process and in others.
   * *handle: as of alloc_data_space. The memory lives until each handle of it is freed and each
   * file descriptor is closed.
   * Errors: as import_memory and alloc_data_space. */
  int32_t (*export_memory)(void *context, int32_t device_id, const BpAllocation *allocation,
                           BpExternalMemory *memory, void **handle);
} BpExternalMemoryApi;

#ifdef __cplusplus
}
#endif

#endif
