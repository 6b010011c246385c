/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions of the DeviceAPI: tables that BpDeviceApi::get_extension gives by name and version.
 *
 * They are of the ABI's second tier: each has a version of its own, and a table of another version
 * is another table. The rules for slots are those of device_api.h; `context` is that of the
 * BpDeviceApi, and every slot of a table is there. */
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

#ifdef __cplusplus
}
#endif

#endif
