/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, and each thread's current device and stream.
 *
 * Plugins do not check stream handles. The core keeps a set of the existing streams, so that any
 * other pointer, including the handle of a freed stream, is an error. */
#include <glib.h>

#include <backplane/error.h>

#include "core/device/device.h"
#include "core/registry/argument.h"
#include "core/system/lock.h"

/* ---- The existing streams ---------------------------------------------------------------- */

typedef struct Stream {
  BpDevice device;
  void *handle;
  uint64_t number; /* number from 1; never reused, even after bp_stream_free */
  int is_recorded; /* bp__stream_note_record */
  int is_freed;    /* bp_stream_free took the stream, and waits for its work and its users */
  int32_t users;   /* bp__stream_use */
} Stream;

/* Guarded by BP__LOCK_STATE. */
static GHashTable *streams; /* a set of Stream */
static uint64_t last_number;
static pthread_cond_t unused = PTHREAD_COND_INITIALIZER; /* a stream has no more users */

static guint hash_stream(gconstpointer key) {
  const Stream *stream = key;
  return g_direct_hash(stream->handle) ^ (guint)stream->device.device_id;
}

static gboolean is_same_stream(gconstpointer a, gconstpointer b) {
  const Stream *one = a, *other = b;
  return one->handle == other->handle && one->device.device_type == other->device.device_type &&
         one->device.device_id == other->device.device_id;
}

static void add_stream(BpDevice device, void *handle) {
  Stream *stream = g_new(Stream, 1);
  bp__lock(BP__LOCK_STATE);
  *stream = (Stream){.device = device, .handle = handle, .number = ++last_number};
  if (!streams)
    streams = g_hash_table_new_full(hash_stream, is_same_stream, g_free, NULL);
  g_hash_table_add(streams, stream);
  bp__unlock(BP__LOCK_STATE);
}

static int raise_unknown(BpDevice device, const void *handle) {
  char text[BP_DEVICE_TEXT_MAX];
  bp_device_format(device, text, sizeof text);
  return bp_error_raise(BP_ERROR_VALUE, "%p is not a stream of %s, or one that was freed", handle,
                        text);
}

/* Finds a stream; NULL if the handle is no live stream. Called with the lock held. */
static Stream *find_stream(BpDevice device, void *handle) {
  const Stream wanted = {.device = device, .handle = handle};
  Stream *stream = streams ? g_hash_table_lookup(streams, &wanted) : NULL;
  return stream && !stream->is_freed ? stream : NULL;
}

/* If two threads free a stream at once, only one of them finds the stream. */
static int take_stream(BpDevice device, void *handle, int *is_recorded) {
  bp__lock(BP__LOCK_STATE);
  Stream *stream = find_stream(device, handle);
  if (stream)
    stream->is_freed = 1;
  *is_recorded = stream && stream->is_recorded;
  bp__unlock(BP__LOCK_STATE);
  return stream ? 0 : raise_unknown(device, handle);
}

/* Removes a taken stream from the set, once it has no users. */
static void remove_stream(BpDevice device, void *handle) {
  const Stream wanted = {.device = device, .handle = handle};
  bp__lock(BP__LOCK_STATE);
  const Stream *stream = g_hash_table_lookup(streams, &wanted);
  while (stream->users)
    bp__lock_wait(BP__LOCK_STATE, &unused);
  g_hash_table_remove(streams, stream);
  bp__unlock(BP__LOCK_STATE);
}

int bp__stream_check(BpDevice device, void *handle) {
  if (!handle)
    return 0;
  bp__lock(BP__LOCK_STATE);
  int is_there = find_stream(device, handle) != NULL;
  bp__unlock(BP__LOCK_STATE);
  return is_there ? 0 : raise_unknown(device, handle);
}

int bp__stream_note_record(BpDevice device, void *handle, uint64_t *number) {
  *number = 0;
  if (!handle)
    return 0;
  bp__lock(BP__LOCK_STATE);
  Stream *stream = find_stream(device, handle);
  if (stream) {
    stream->is_recorded = 1;
    *number = stream->number;
  }
  bp__unlock(BP__LOCK_STATE);
  return stream ? 0 : raise_unknown(device, handle);
}

/* ---- Current device and stream ----------------------------------------------------------- */

#define MAX_CURRENT 16

/* The current device and stream of this thread for one device type; few kinds are ever used at
 * once. */
typedef struct Current {
  int32_t device_type;
  int32_t device_id;
  void *stream;
} Current;

static _Thread_local Current current[MAX_CURRENT];
static _Thread_local size_t num_current;

static Current *find_current(int32_t device_type) {
  for (size_t i = 0; i < num_current; i++)
    if (current[i].device_type == device_type)
      return &current[i];
  return NULL;
}

static int tell_device(BpDevice device) {
  const BpDeviceApi *api = bp__device_is_host(device) ? NULL : bp__device_get(device);
  if (!api)
    return bp__device_is_host(device) ? 0 : -1;
  return api->set_device && api->set_device(api->context, device.device_id)
             ? bp__device_failed(device, "making it the thread's current device")
             : 0;
}

int bp_device_set_current(BpDevice device, void *stream) {
  if (bp__device_check_fork() || bp__stream_check(device, stream))
    return -1;
  Current *entry = find_current(device.device_type);
  if (!entry && num_current == MAX_CURRENT)
    return bp_error_raise(BP_ERROR_RUNTIME, "more than %d kinds of device in one thread",
                          MAX_CURRENT);
  if ((!entry || entry->device_id != device.device_id) && tell_device(device))
    return -1;
  if (!entry)
    entry = &current[num_current++];
  *entry = (Current){device.device_type, device.device_id, stream};
  return 0;
}

static void leave_stream(BpDevice device, const void *stream) {
  Current *entry = find_current(device.device_type);
  if (entry && entry->device_id == device.device_id && entry->stream == stream)
    entry->stream = NULL;
}

void bp_device_get_current(int32_t device_type, int32_t *device_id, void **stream) {
  if (!BP_NOT_NULL(device_id) || !BP_NOT_NULL(stream))
    return;
  const Current *entry = find_current(device_type);
  *device_id = entry ? entry->device_id : 0;
  *stream = entry ? entry->stream : NULL;
}

uint64_t bp__stream_current_number(BpDevice device) {
  const Current *entry = find_current(device.device_type);
  if (!entry || !entry->stream || entry->device_id != device.device_id)
    return 0;
  bp__lock(BP__LOCK_STATE);
  const Stream *stream = find_stream(device, entry->stream);
  uint64_t number = stream ? stream->number : 0;
  bp__unlock(BP__LOCK_STATE);
  return number;
}

static gboolean has_number(gpointer key, gpointer value, gpointer number) {
  (void)value;
  return ((const Stream *)key)->number == *(const uint64_t *)number;
}

int bp__stream_is_alive(uint64_t number) {
  return bp__stream_use(number, 0);
}

int bp__stream_use(uint64_t number, int32_t users) {
  if (!number)
    return 1;
  bp__lock(BP__LOCK_STATE);
  /* A stream that is being freed still exists. */
  Stream *stream = streams ? g_hash_table_find(streams, has_number, &number) : NULL;
  if (stream) {
    stream->users += users;
    if (users < 0 && !stream->users)
      pthread_cond_broadcast(&unused);
  }
  bp__unlock(BP__LOCK_STATE);
  return stream != NULL;
}

/* ---- Creating, freeing, waiting ---------------------------------------------------------- */

int bp_stream_create(BpDevice device, void **stream) {
  if (!BP_NOT_NULL(stream))
    return -1;
  *stream = NULL;
  if (bp__device_is_host(device))
    return bp__device_check_fork();
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (!api->create_stream)
    return 0;
  if (api->create_stream(api->context, device.device_id, stream))
    return bp__device_failed(device, "making a stream");
  if (*stream)
    add_stream(device, *stream);
  return 0;
}

/* An event counts as complete when its stream is freed, so the stream's work is completed first. A
 * failure of the work is lost, like that of any stream that is freed before it is synchronised. */
static void end_work(const BpDeviceApi *api, BpDevice device, void *stream) {
  BpError *pending = bp_error_take();
  if (api->stream_sync(api->context, device.device_id, stream))
    bp_error_clear();
  if (pending)
    bp_error_put(pending);
}

int bp_stream_free(BpDevice device, void *stream) {
  if (bp__device_check_fork())
    return -1;
  if (!stream)
    return 0;
  int is_recorded;
  const BpDeviceApi *api = bp__device_get(device);
  if (!api || take_stream(device, stream, &is_recorded))
    return -1;
  if (is_recorded)
    end_work(api, device, stream);
  remove_stream(device, stream);
  leave_stream(device, stream);
  return api->free_stream(api->context, device.device_id, stream)
             ? bp__device_failed(device, "freeing a stream")
             : 0;
}

int bp_stream_sync(BpDevice device, void *stream) {
  if (bp__device_check_fork() || bp__stream_check(device, stream))
    return -1;
  if (bp__device_is_host(device))
    return 0;
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  return api->stream_sync(api->context, device.device_id, stream)
             ? bp__device_failed(device, "a stream")
             : 0;
}

int bp_stream_sync_from_to(BpDevice device, void *from, void *to) {
  if (bp__device_check_fork() || bp__stream_check(device, from) || bp__stream_check(device, to))
    return -1;
  if (bp__device_is_host(device))
    return 0;
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (from == to || !api->sync_stream_from_to)
    return 0;
  return api->sync_stream_from_to(api->context, device.device_id, from, to)
             ? bp__device_failed(device, "ordering two streams")
             : 0;
}
