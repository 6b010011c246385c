/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, timers and recordings. A failure of queued work belongs to the context: the driver
 * reports the failure to the next caller, so no stream needs to remember it. */
#include "cuda.h"

#include <stdlib.h>

/* ---- Streams ----------------------------------------------------------------------------- */

int32_t bp_cuda_create_stream(void *context, int32_t device_id, void **handle) {
  (void)context;
  CUstream stream = NULL;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  CUresult status = bp_cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuStreamCreate");
  *handle = stream;
  return 0;
}

int32_t bp_cuda_free_stream(void *context, int32_t device_id, void *handle) {
  (void)context;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  CUresult status = handle ? bp_cu.cuStreamDestroy_v2((CUstream)handle) : CUDA_SUCCESS;
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuStreamDestroy");
}

CUresult bp_cuda_order(const BpCudaDevice *device, CUstream from, CUstream to) {
  CUevent event = NULL;
  CUresult status = bp_cu.cuCtxSetCurrent(device->context);
  if (status == CUDA_SUCCESS)
    status = bp_cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (status != CUDA_SUCCESS)
    return status;
  status = bp_cu.cuEventRecord(event, from);
  if (status == CUDA_SUCCESS)
    status = bp_cu.cuStreamWaitEvent(to, event, 0);
  bp_cu.cuEventDestroy_v2(event); /* `from` stays alive until the wait is over */
  return status;
}

int32_t bp_cuda_sync_from_to(void *context, int32_t device_id, void *from, void *to) {
  (void)context;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  CUresult status = bp_cuda_order(device, bp_cuda_stream(device, from), bp_cuda_stream(device, to));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuStreamWaitEvent");
}

int32_t bp_cuda_stream_sync(void *context, int32_t device_id, void *handle) {
  (void)context;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  CUresult status = bp_cu.cuStreamSynchronize(bp_cuda_stream(device, handle));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuStreamSynchronize");
}

/* ---- Timers ------------------------------------------------------------------------------ */

typedef struct Timer {
  int32_t device_id;
  CUevent start;
  CUevent stop; /* NULL until the timer is stopped */
} Timer;

/* Queues an event that records the device's time; creates the event if necessary. */
static int32_t mark(int32_t device_id, void *stream, CUevent *event) {
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  CUresult status = *event ? CUDA_SUCCESS : bp_cu.cuEventCreate(event, CU_EVENT_DEFAULT);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuEventCreate");
  status = bp_cu.cuEventRecord(*event, bp_cuda_stream(device, stream));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuEventRecord");
}

static void free_timer(Timer *timer) {
  if (timer->start)
    bp_cu.cuEventDestroy_v2(timer->start);
  if (timer->stop)
    bp_cu.cuEventDestroy_v2(timer->stop);
  free(timer);
}

static int32_t timer_start(void *context, int32_t device_id, void *stream, void **handle) {
  (void)context;
  Timer *timer = calloc(1, sizeof(*timer));
  if (!timer)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_MEMORY, "cuda: no memory for a timer");
  timer->device_id = device_id;
  if (mark(device_id, stream, &timer->start) != 0) {
    free_timer(timer);
    return -1;
  }
  *handle = timer;
  return 0;
}

static int32_t timer_stop(void *context, void *handle, void *stream) {
  (void)context;
  Timer *timer = handle;
  return mark(timer->device_id, stream, &timer->stop);
}

static int32_t timer_read(void *context, void *handle, int64_t *nanoseconds) {
  (void)context;
  Timer *timer = handle;
  float milliseconds = 0;
  BpCudaDevice *device = bp_cuda_device(timer->device_id);
  if (!device)
    return -1;
  if (!timer->stop)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE, "cuda: a timer that was not stopped");
  CUresult status = bp_cu.cuEventSynchronize(timer->stop);
  if (status == CUDA_SUCCESS)
    status = bp_cu.cuEventElapsedTime(&milliseconds, timer->start, timer->stop);
  *nanoseconds = (int64_t)((double)milliseconds * 1e6);
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "reading a timer");
}

static int32_t timer_free(void *context, void *handle) {
  (void)context;
  Timer *timer = handle;
  if (bp_cuda_device_if_open(timer->device_id))
    free_timer(timer);
  else
    free(timer);
  return 0;
}

const BpTimerApi bp_cuda_timers = {.struct_size = sizeof(BpTimerApi),
                                   .start = timer_start,
                                   .stop = timer_stop,
                                   .read = timer_read,
                                   .free = timer_free};

/* ---- Recordings -------------------------------------------------------------------------- */

struct BpRecording {
  int32_t device_id;
  CUgraphExec exec;
};

/* Relaxed mode: calls between the launches, such as loading their code or allocating memory, are
 * executed at once and are no error, and another thread may end the recording. */
static int32_t record_begin(void *context, int32_t device_id, void *stream) {
  (void)context;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  CUresult status =
      bp_cu.cuStreamBeginCapture_v2(bp_cuda_stream(device, stream), CU_STREAM_CAPTURE_MODE_RELAXED);
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuStreamBeginCapture");
}

static int32_t make_recording(BpCudaDevice *device, CUgraph graph, BpRecording **recording) {
  BpRecording *made = calloc(1, sizeof(*made));
  if (!made)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_MEMORY, "cuda: no memory for a recording");
  made->device_id = device->index;
  CUresult status = bp_cu.cuGraphInstantiateWithFlags(&made->exec, graph, 0);
  if (status != CUDA_SUCCESS) {
    free(made);
    return bp_cuda_raise(device, status, "cuGraphInstantiate");
  }
  *recording = made;
  return 0;
}

static int32_t record_end(void *context, int32_t device_id, void *stream, BpRecording **recording) {
  (void)context;
  CUgraph graph = NULL;
  BpCudaDevice *device = bp_cuda_device(device_id);
  if (!device)
    return -1;
  CUresult status = bp_cu.cuStreamEndCapture(bp_cuda_stream(device, stream), &graph);
  if (status != CUDA_SUCCESS)
    return bp_cuda_raise(device, status, "cuStreamEndCapture");
  int32_t rc = make_recording(device, graph, recording);
  bp_cu.cuGraphDestroy(graph);
  return rc;
}

static int32_t record_replay(void *context, BpRecording *recording, void *stream) {
  (void)context;
  BpCudaDevice *device = bp_cuda_device(recording->device_id);
  if (!device)
    return -1;
  CUresult status = bp_cu.cuGraphLaunch(recording->exec, bp_cuda_stream(device, stream));
  return status == CUDA_SUCCESS ? 0 : bp_cuda_raise(device, status, "cuGraphLaunch");
}

static int32_t record_free(void *context, BpRecording *recording) {
  (void)context;
  if (recording && bp_cuda_device_if_open(recording->device_id))
    bp_cu.cuGraphExecDestroy(recording->exec);
  free(recording);
  return 0;
}

const BpRecordingApi bp_cuda_recordings = {.struct_size = sizeof(BpRecordingApi),
                                           .begin = record_begin,
                                           .end = record_end,
                                           .replay = record_replay,
                                           .free = record_free};
