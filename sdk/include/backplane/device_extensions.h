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

#ifdef __cplusplus
}
#endif

#endif
