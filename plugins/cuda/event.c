/* SPDX-License-Identifier: Apache-2.0 */
/* Events. Waits of the driver keep the record that was current when they were queued. The driver
 * has no synchronisation with a timeout, so this file polls. While a call polls a driver's event,
 * that event is not recorded again; a new record takes another driver's event. */
#include "cuda.h"

#include <stdlib.h>

/* An event of the driver. */
typedef struct Mark {
  int32_t users; /* the BpDeviceEvent, and calls that poll the mark */
  CUevent handle;
} Mark;

/* The mark that a call polls, and its device. */
typedef struct Question {
  BpCudaDevice *device;
  const Mark *mark;
} Question;

struct BpDeviceEvent {
  int32_t device_id;
  Mark *latest;
};

/* Guards all events and marks; never held across a call of the driver. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Makes a mark. The device's context is current. */
static CUresult make_mark(Mark **made) {
  Mark *mark = calloc(1, sizeof(*mark));
  if (!mark)
    return CUDA_ERROR_OUT_OF_MEMORY;
  mark->users = 1;
  CUresult status = bp_cu.cuEventCreate(&mark->handle, CU_EVENT_DISABLE_TIMING);
  if (status == CUDA_SUCCESS)
    *made = mark;
  else
    free(mark);
  return status;
}

static Mark *use(BpDeviceEvent *event) {
  pthread_mutex_lock(&lock);
  Mark *mark = event->latest;
  mark->users++;
  pthread_mutex_unlock(&lock);
  return mark;
}

static void unuse(int32_t device_id, Mark *mark) {
  pthread_mutex_lock(&lock);
  int is_last = --mark->users == 0;
  pthread_mutex_unlock(&lock);
  if (!is_last)
    return;
  if (bp_cuda_device_if_open(device_id))
    bp_cu.cuEventDestroy_v2(mark->handle);
  free(mark);
}

static int32_t create(void *context, int32_t device_id, BpDeviceEvent **made) {
  (void)context;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  BpDeviceEvent *event = calloc(1, sizeof(*event));
  CUresult status = event ? make_mark(&event->latest) : CUDA_ERROR_OUT_OF_MEMORY;
  if (status != CUDA_SUCCESS) {
    free(event);
    return bp_cuda_raise(device, status, "cuEventCreate");
  }
  event->device_id = device_id;
  *made = event;
  return 0;
}

static int32_t free_event(void *context, BpDeviceEvent *event) {
  (void)context;
  unuse(event->device_id, event->latest);
  free(event);
  return 0;
}

/* Returns the mark to record next: the latest, or a new one while a call polls the latest. */
static CUresult next_mark(BpDeviceEvent *event, Mark **mark) {
  *mark = use(event);
  pthread_mutex_lock(&lock);
  int is_free = (*mark)->users == 2;
  pthread_mutex_unlock(&lock);
  if (is_free)
    return CUDA_SUCCESS;
  unuse(event->device_id, *mark);
  return make_mark(mark);
}

/* Takes the reference. */
static void replace(BpDeviceEvent *event, Mark *mark) {
  pthread_mutex_lock(&lock);
  Mark *before = event->latest;
  event->latest = mark;
  pthread_mutex_unlock(&lock);
  unuse(event->device_id, before);
}

/* Sets *stream to the driver's handle. Fails on a stream that is being recorded: an event would
 * become part of the recording. */
static int32_t stream_of(BpCudaDevice *device, void *handle, CUstream *stream) {
  int is_capturing = 0;
  *stream = bp_cuda_stream(device, handle);
  CUresult status = bp_cu.cuStreamIsCapturing(*stream, &is_capturing);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuStreamIsCapturing");
  return is_capturing ? bp_plugin_raise(&bp_cuda_host, BP_ERROR_RUNTIME,
                                        "cuda: an event on a stream that is being recorded; end "
                                        "the recording first")
                      : 0;
}

static int32_t record(void *context, BpDeviceEvent *event, void *handle) {
  (void)context;
  CUstream stream = NULL;
  Mark *mark = NULL;
  BpCudaDevice *device = bp_cuda_device(event->device_id);
  if (!device || stream_of(device, handle, &stream) != 0)
    return -1;
  CUresult status = next_mark(event, &mark);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuEventCreate");
  status = bp_cu.cuEventRecord(mark->handle, stream);
  if (status != CUDA_SUCCESS) {
    unuse(event->device_id, mark);
    return bp_cuda_raise(device, status, "cuEventRecord");
  }
  replace(event, mark);
  return 0;
}

static int32_t wait_for(void *context, BpDeviceEvent *event, void *handle) {
  (void)context;
  CUstream stream = NULL;
  BpCudaDevice *device = bp_cuda_device(event->device_id);
  if (!device || stream_of(device, handle, &stream) != 0)
    return -1;
  Mark *mark = use(event);
  CUresult status = bp_cu.cuStreamWaitEvent(stream, mark->handle, 0);
  unuse(event->device_id, mark);
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuStreamWaitEvent");
}

static int32_t ask(void *data, int32_t *state) {
  const Question *question = data;
  CUresult status = bp_cu.cuEventQuery(question->mark->handle);
  *state = status == CUDA_SUCCESS ? BP_EVENT_COMPLETE : BP_EVENT_PENDING;
  return status == CUDA_SUCCESS || status == CUDA_ERROR_NOT_READY
             ? 0
             : bp_cuda_raise(question->device, status, "cuEventQuery");
}

static int32_t synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                           int32_t *state) {
  (void)context;
  int32_t rc = 0;
  BpCudaDevice *device = bp_cuda_device(event->device_id);
  if (!device)
    return -1;
  Mark *mark = use(event);
  if (timeout_ns == BP_WAIT_FOREVER) {
    CUresult status = bp_cu.cuEventSynchronize(mark->handle);
    *state = BP_EVENT_COMPLETE;
    rc = status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuEventSynchronize");
  } else {
    rc = bp_poll(ask, &(Question){device, mark}, timeout_ns, state);
  }
  unuse(event->device_id, mark);
  return rc;
}

static int32_t query(void *context, BpDeviceEvent *event, int32_t *state) {
  return synchronize(context, event, 0, state);
}

const BpEventsApi bp_cuda_events = {.struct_size = sizeof(BpEventsApi),
                                    .create = create,
                                    .free = free_event,
                                    .record = record,
                                    .wait = wait_for,
                                    .query = query,
                                    .synchronize = synchronize};
