/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and notifications for ONNX Runtime: streams and events of Backplane.
 *
 * ONNX Runtime keeps streams from run to run and gives each run a stream of its own. The work of a
 * run on a device is queued on that stream, in order, and the host waits where it reads a result
 * and at the end. ONNX Runtime only logs most errors of a stream; the error of OnSessionRunEnd is
 * the run's.
 */
#include <stdlib.h>

#include "bridges/onnxruntime/bridge.h"

/* ---- Notifications ----------------------------------------------------------------------- */

typedef struct Notification {
  OrtSyncNotificationImpl base;
  const Runtime *ort;
  Stream *stream;
  BpEvent *event;
} Notification;

static OrtStatus *finish(const Runtime *ort, int status) {
  return status ? bridge_status(ort) : NULL;
}

static OrtStatus *activate(OrtSyncNotificationImpl *self) {
  const Notification *notification = (const Notification *)self;
  return finish(notification->ort,
                bp_event_record(notification->event, notification->stream->handle));
}

static OrtStatus *wait_on_host(OrtSyncNotificationImpl *self) {
  const Notification *notification = (const Notification *)self;
  int32_t state;
  return finish(notification->ort,
                bp_event_synchronize(notification->event, BP_WAIT_FOREVER, &state));
}

/* A stream of another provider cannot wait for the event: the host does. */
static OrtStatus *wait_on_device(OrtSyncNotificationImpl *self, OrtSyncStream *consumer) {
  const Notification *notification = (const Notification *)self;
  const Stream *stream = stream_find(notification->ort, consumer);
  return stream ? finish(notification->ort,
                         bp_stream_wait_event(stream->device, stream->handle, notification->event))
                : wait_on_host(self);
}

static void release_notification(OrtSyncNotificationImpl *self) {
  Notification *notification = (Notification *)self;
  bp_event_free(notification->event);
  stream_release(notification->stream);
  free(notification);
}

static OrtStatus *create_notification(OrtSyncStreamImpl *self, OrtSyncNotificationImpl **result) {
  Stream *stream = (Stream *)self;
  const Runtime *ort = memories_runtime(stream->memories);
  Notification *notification = calloc(1, sizeof(*notification));
  if (!notification)
    return finish(ort, bp_error_raise(BP_ERROR_MEMORY, "no memory for a notification"));
  notification->base = (OrtSyncNotificationImpl){.version = ORT_OLDEST_VERSION,
                                                 .Release = release_notification,
                                                 .Activate = activate,
                                                 .WaitOnDevice = wait_on_device,
                                                 .WaitOnHost = wait_on_host};
  notification->ort = ort;
  notification->stream = stream_retain(stream);
  notification->event = bp_event_create(stream->device);
  if (!notification->event) {
    release_notification(&notification->base);
    return bridge_status(ort);
  }
  *result = &notification->base;
  return NULL;
}

/* ---- Streams ----------------------------------------------------------------------------- */

static void *get_handle(OrtSyncStreamImpl *self) {
  return ((Stream *)self)->handle;
}

int stream_wait(const Stream *stream) {
  return bp_stream_sync(stream->device, stream->handle) || bp_stream_sync(stream->device, NULL) ? -1
                                                                                                : 0;
}

static OrtStatus *wait_for_all(OrtSyncStreamImpl *self) {
  const Stream *stream = (const Stream *)self;
  return finish(memories_runtime(stream->memories), stream_wait(stream));
}

static void release_impl(OrtSyncStreamImpl *self) {
  stream_release((Stream *)self);
}

Stream *stream_create(Memories *memories, BpDevice device) {
  Stream *stream = calloc(1, sizeof(*stream));
  if (!stream) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a stream");
    return NULL;
  }
  if (bp_stream_create(device, &stream->handle)) {
    free(stream);
    return NULL;
  }
  stream->base = (OrtSyncStreamImpl){.version = ORT_OLDEST_VERSION,
                                     .Release = release_impl,
                                     .GetHandle = get_handle,
                                     .CreateNotification = create_notification,
                                     .Flush = wait_for_all,
                                     .OnSessionRunEnd = wait_for_all};
  stream->memories = memories_retain(memories);
  stream->device = device;
  atomic_init(&stream->references, 1);
  memories_add_stream(memories, stream);
  return stream;
}

Stream *stream_retain(Stream *stream) {
  if (stream)
    atomic_fetch_add(&stream->references, 1);
  return stream;
}

void stream_release(Stream *stream) {
  if (!stream || atomic_fetch_sub(&stream->references, 1) != 1)
    return;
  memories_remove_stream(stream->memories, stream);
  if (stream->handle && bp_stream_free(stream->device, stream->handle))
    bp_error_clear();
  memories_free(stream->memories);
  free(stream);
}

Stream *stream_find(const Runtime *ort, const OrtSyncStream *stream) {
  const OrtSyncStreamImpl *impl = stream ? ort->ep->SyncStream_GetImpl(stream) : NULL;
  return impl && impl->Release == release_impl ? (Stream *)(uintptr_t)impl : NULL;
}
