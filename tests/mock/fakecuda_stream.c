/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver's streams, events and graphs. Commands run as late as permitted: when a
 * caller waits for them, in an order that only events and streams determine. */
#include "tests/mock/fakecuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CUgraph_st {
  FakeCommand *first;
};

struct CUstream_st {
  CUstream next;
  int device;
  int is_blocking; /* ordered with the legacy default stream */
  int is_capturing, mode;
  pthread_t capturer;
  FakeCommand *first;
  struct CUgraph_st captured;
};

/* One record of an event. */
typedef struct FakeRecord {
  int users; /* commands that refer to the record, and its event, if the record is the latest */
  int is_done;
  CUstream stream; /* the stream may be freed once the record is done */
  double time;
} FakeRecord;

struct CUevent_st {
  int device;
  int has_time;
  FakeRecord *latest; /* NULL: none */
  int users;          /* commands that refer to the event, and its owner */
};

struct CUgraphExec_st {
  int device;
  FakeCommand *first;
};

static CUstream streams;

/* ---- Commands ---------------------------------------------------------------------------- */

static CUresult append(FakeCommand **first, const FakeCommand *command) {
  FakeCommand *copy = malloc(sizeof(*copy));
  if (!copy)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *copy = *command;
  copy->next = NULL;
  if (copy->event)
    copy->event->users++;
  if (copy->record)
    copy->record->users++;
  while (*first)
    first = &(*first)->next;
  *first = copy;
  return CUDA_SUCCESS;
}

static void unuse_record(FakeRecord *record) {
  if (record && --record->users == 0)
    free(record);
}

static void unuse_event(CUevent event) {
  if (!event || --event->users > 0)
    return;
  unuse_record(event->latest);
  free(event);
}

static void free_commands(FakeCommand *first) {
  while (first) {
    FakeCommand *next = first->next;
    unuse_event(first->event);
    unuse_record(first->record);
    free(first);
    first = next;
  }
}

int fake_is_stream(CUstream stream, int device) {
  for (CUstream known = streams; known; known = known->next) {
    if (known == stream)
      return stream->device == device;
  }
  return 0;
}

/* Runs commands until there are no more, `record` is done, or `most` have run. */
static CUresult run_stream(CUstream stream, const FakeRecord *record, size_t most) {
  for (; stream->first && most > 0 && !(record && record->is_done); most--) {
    FakeCommand *command = stream->first;
    CUresult status = fake_contexts[stream->device].dead;
    if (status == CUDA_SUCCESS)
      status = command->run(command, stream->device);
    stream->first = command->next;
    command->next = NULL;
    free_commands(command);
    if (status != CUDA_SUCCESS) {
      fake_contexts[stream->device].dead = status;
      free_commands(stream->first);
      stream->first = NULL;
      return status;
    }
  }
  return fake_contexts[stream->device].dead;
}

CUresult fake_drain(int device) {
  CUresult status = CUDA_SUCCESS;
  for (CUstream stream = streams; stream && status == CUDA_SUCCESS; stream = stream->next) {
    if (stream->device == device)
      status = run_stream(stream, NULL, SIZE_MAX);
  }
  return status;
}

/* ---- Streams ----------------------------------------------------------------------------- */

/* The legacy default stream, NULL, waits for the blocking streams, and they wait for it: the
 * commands of the default stream run at once, after those of the blocking streams. */
static CUresult run_blocking(int device) {
  CUresult status = fake_contexts[device].dead;
  for (CUstream stream = streams; stream; stream = stream->next)
    if (stream->device == device && stream->is_blocking && stream->is_capturing)
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  for (CUstream stream = streams; stream && status == CUDA_SUCCESS; stream = stream->next)
    if (stream->device == device && stream->is_blocking)
      status = run_stream(stream, NULL, SIZE_MAX);
  return status;
}

static CUresult submit_legacy(const FakeCommand *command) {
  int device = fake_current()->device;
  FakeCommand copy = *command;
  CUresult status = run_blocking(device);
  if (status != CUDA_SUCCESS)
    return status;
  return fake_contexts[device].dead = copy.run(&copy, device);
}

CUresult fake_submit(CUstream stream, const FakeCommand *command) {
  if (!stream)
    return submit_legacy(command);
  if (!fake_is_stream(stream, fake_current()->device))
    return CUDA_ERROR_INVALID_HANDLE;
  return append(stream->is_capturing ? &stream->captured.first : &stream->first, command);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  CUresult status = fake_enter("cuStreamCreate", 1);
  if (status == CUDA_SUCCESS && flags > CU_STREAM_NON_BLOCKING)
    status = CUDA_ERROR_INVALID_VALUE;
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  *stream = calloc(1, sizeof(**stream));
  (*stream)->device = fake_current()->device;
  (*stream)->is_blocking = flags == CU_STREAM_DEFAULT;
  (*stream)->next = streams;
  streams = *stream;
  fake_add("stream", 1);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  CUresult status = fake_enter("cuStreamDestroy_v2", 1);
  if (status == CUDA_SUCCESS && !fake_is_stream(stream, fake_current()->device))
    status = CUDA_ERROR_INVALID_HANDLE;
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  run_stream(stream, NULL, SIZE_MAX); /* queued work still completes */
  CUstream *place = &streams;
  while (*place != stream)
    place = &(*place)->next;
  *place = stream->next;
  free_commands(stream->captured.first);
  free(stream);
  fake_add("stream", -1);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream stream) {
  CUresult status = fake_enter("cuStreamSynchronize", 1);
  if (status == CUDA_SUCCESS &&
      (!fake_is_stream(stream, fake_current()->device) || stream->is_capturing))
    status = CUDA_ERROR_INVALID_HANDLE;
  return fake_leave(status == CUDA_SUCCESS ? run_stream(stream, NULL, SIZE_MAX) : status);
}

/* ---- Events ------------------------------------------------------------------------------ */

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  CUresult status = fake_enter("cuEventCreate", 1);
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  *event = calloc(1, sizeof(**event));
  (*event)->device = fake_current()->device;
  (*event)->has_time = !(flags & CU_EVENT_DISABLE_TIMING);
  (*event)->users = 1;
  fake_add("event", 1);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event) {
  CUresult status = fake_enter("cuEventDestroy_v2", 0);
  unuse_event(event);
  fake_add("event", -1);
  return fake_leave(status);
}

static CUresult run_record(FakeCommand *command, int device) {
  struct timespec now;
  (void)device;
  clock_gettime(CLOCK_MONOTONIC, &now);
  command->record->time = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
  command->record->is_done = 1;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  CUresult status = fake_enter("cuEventRecord", 1);
  FakeRecord *record = calloc(1, sizeof(*record));
  FakeCommand command = {.run = run_record, .event = event, .record = record};
  *record = (FakeRecord){.users = 1, .stream = stream};
  if (status == CUDA_SUCCESS && event->device != fake_current()->device)
    status = CUDA_ERROR_INVALID_HANDLE;
  if (status == CUDA_SUCCESS)
    status = fake_submit(stream, &command);
  if (status == CUDA_SUCCESS) {
    unuse_record(event->latest);
    event->latest = record;
  } else {
    unuse_record(record);
  }
  return fake_leave(status);
}

static int is_done(const FakeRecord *record) {
  return !record || record->is_done;
}

static CUresult wait_for(CUevent event, const FakeRecord *record) {
  if (is_done(record))
    return CUDA_SUCCESS;
  int is_there = fake_is_stream(record->stream, event->device);
  return is_there ? run_stream(record->stream, record, SIZE_MAX) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult run_wait(FakeCommand *command, int device) {
  (void)device;
  return wait_for(command->event, command->record);
}

/* The event may belong to another device. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  CUresult status = fake_enter("cuStreamWaitEvent", 1);
  FakeCommand command = {.run = run_wait, .event = event, .record = event->latest};
  if (status == CUDA_SUCCESS && flags != 0)
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS && !stream)
    return fake_leave(submit_legacy(&command));
  for (int i = 0; status == CUDA_SUCCESS && i < FAKE_DEVICES; i++) {
    if (fake_is_stream(stream, i)) /* work queued outside of a capture is no part of it */
      return fake_leave(stream->is_capturing ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION
                                             : append(&stream->first, &command));
  }
  return fake_leave(status == CUDA_SUCCESS ? CUDA_ERROR_INVALID_HANDLE : status);
}

/* Each query runs one more command of the stream, so a caller that polls reaches the end. */
CUresult cuEventQuery(CUevent event) {
  CUresult status = fake_enter("cuEventQuery", 1);
  if (status != CUDA_SUCCESS || is_done(event->latest))
    return fake_leave(status);
  if (!fake_is_stream(event->latest->stream, event->device))
    return fake_leave(CUDA_ERROR_INVALID_HANDLE);
  status = run_stream(event->latest->stream, event->latest, 1);
  return fake_leave(status == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : status);
}

CUresult cuEventSynchronize(CUevent event) {
  CUresult status = fake_enter("cuEventSynchronize", 1);
  return fake_leave(status == CUDA_SUCCESS ? wait_for(event, event->latest) : status);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop) {
  CUresult status = fake_enter("cuEventElapsedTime", 1);
  if (status == CUDA_SUCCESS &&
      (!start->has_time || !stop->has_time || !start->latest || !stop->latest))
    status = CUDA_ERROR_INVALID_HANDLE;
  if (status == CUDA_SUCCESS && (!is_done(start->latest) || !is_done(stop->latest)))
    status = CUDA_ERROR_NOT_READY;
  if (status == CUDA_SUCCESS)
    *milliseconds = (float)(stop->latest->time - start->latest->time);
  return fake_leave(status);
}

/* ---- Graphs ------------------------------------------------------------------------------ */

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  CUresult status = fake_enter("cuStreamBeginCapture_v2", 1);
  if (status == CUDA_SUCCESS && (!fake_is_stream(stream, fake_current()->device) ||
                                 stream->is_capturing || mode < 0 || mode > 2))
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS) {
    stream->is_capturing = 1;
    stream->mode = mode;
    stream->capturer = pthread_self();
    fake_restrict(mode != CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  return fake_leave(status);
}

CUresult cuStreamIsCapturing(CUstream stream, int *capture) {
  CUresult status = fake_enter("cuStreamIsCapturing", 1);
  if (status == CUDA_SUCCESS && !stream) {
    *capture = 0;
    return fake_leave(run_blocking(fake_current()->device));
  }
  if (status == CUDA_SUCCESS && !fake_is_stream(stream, fake_current()->device))
    status = CUDA_ERROR_INVALID_HANDLE;
  *capture = status == CUDA_SUCCESS && stream->is_capturing;
  return fake_leave(status);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  CUresult status = fake_enter("cuStreamEndCapture", 1);
  int is_relaxed = stream->mode == CU_STREAM_CAPTURE_MODE_RELAXED;
  if (status == CUDA_SUCCESS && !stream->is_capturing)
    status = CUDA_ERROR_INVALID_VALUE;
  if (status == CUDA_SUCCESS && !is_relaxed && !pthread_equal(stream->capturer, pthread_self()))
    status = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  fake_restrict(is_relaxed ? 0 : -1);
  *graph = malloc(sizeof(**graph));
  **graph = stream->captured;
  stream->captured.first = NULL;
  stream->is_capturing = 0;
  fake_add("graph", 1);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  CUresult status = fake_enter("cuGraphInstantiateWithFlags", 1);
  if (status == CUDA_SUCCESS && flags != 0)
    status = CUDA_ERROR_INVALID_VALUE;
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  *exec = calloc(1, sizeof(**exec));
  (*exec)->device = fake_current()->device;
  for (FakeCommand *command = graph->first; command; command = command->next)
    append(&(*exec)->first, command);
  fake_add("graph", 1);
  return fake_leave(CUDA_SUCCESS);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CUresult status = fake_enter("cuGraphLaunch", 1);
  if (status == CUDA_SUCCESS && !fake_is_stream(stream, exec->device))
    status = CUDA_ERROR_INVALID_HANDLE;
  for (FakeCommand *command = exec->first; command && status == CUDA_SUCCESS;
       command = command->next)
    status = fake_submit(stream, command);
  return fake_leave(status);
}

CUresult cuGraphDestroy(CUgraph graph) {
  CUresult status = fake_enter("cuGraphDestroy", 0);
  free_commands(graph->first);
  free(graph);
  fake_add("graph", -1);
  return fake_leave(status);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  CUresult status = fake_enter("cuGraphExecDestroy", 0);
  free_commands(exec->first);
  free(exec);
  fake_add("graph", -1);
  return fake_leave(status);
}
