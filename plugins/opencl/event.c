/* SPDX-License-Identifier: Apache-2.0 */
/* Events. A record is a marker in the stream's queue; a held event is a user event of OpenCL. An
 * event holds its latest record, and every waiter has a reference of its own. */
#include "../common/event.h"
#include "opencl.h"

#include <stdlib.h>

static void retain(void *event) {
  bp_cl.clRetainEvent(event);
}

static void release(void *event) {
  bp_cl.clReleaseEvent(event);
}

static const BpRecordKind records = {retain, release};

static int32_t create(void *context, int32_t device_id, BpDeviceEvent **made) {
  (void)context;
  return bp_latest_create(&bp_opencl_host, &records, bp_opencl_device(device_id), made);
}

/* Returns the latest record's event with a reference, or NULL. */
static cl_event use(BpDeviceEvent *event) {
  return bp_latest_use(event).object;
}

static void replace(BpDeviceEvent *event, cl_event latest) {
  bp_latest_replace(event, (BpRecord){latest, 0, 0});
}

static int32_t record(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  cl_event marker = NULL;
  cl_command_queue queue = bp_opencl_stream(event->device, stream)->queue;
  cl_int status = bp_cl.clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clEnqueueMarkerWithWaitList");
  replace(event, marker);
  status = bp_cl.clFlush(queue);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clFlush");
}

static int32_t wait_for(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  cl_event latest = use(event);
  if (!latest)
    return 0;
  cl_int status = bp_cl.clEnqueueBarrierWithWaitList(bp_opencl_stream(event->device, stream)->queue,
                                                     1, &latest, NULL);
  bp_cl.clReleaseEvent(latest);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueBarrierWithWaitList");
}

/* A status below zero means that the work failed; the stream raises that failure. */
static int32_t ask(void *event, int32_t *state) {
  cl_int progress = CL_COMPLETE;
  cl_int status = bp_cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(progress),
                                       &progress, NULL);
  *state = progress > CL_COMPLETE   ? BP_EVENT_PENDING
           : progress < CL_COMPLETE ? BP_EVENT_FAILED
                                    : BP_EVENT_COMPLETE;
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clGetEventInfo");
}

static int32_t query(void *context, BpDeviceEvent *event, int32_t *state) {
  (void)context;
  cl_event latest = use(event);
  *state = BP_EVENT_COMPLETE;
  if (!latest)
    return 0;
  int32_t rc = ask(latest, state);
  bp_cl.clReleaseEvent(latest);
  return rc;
}

static int32_t synchronize(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                           int32_t *state) {
  (void)context;
  int32_t rc = 0;
  cl_event latest = use(event);
  *state = BP_EVENT_COMPLETE;
  if (!latest)
    return 0;
  if (timeout_ns == BP_WAIT_FOREVER) {
    cl_int status = bp_cl.clWaitForEvents(1, &latest);
    if (status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
      *state = BP_EVENT_FAILED;
    else if (status != CL_SUCCESS)
      rc = bp_opencl_raise(status, "clWaitForEvents");
  } else {
    rc = bp_poll(ask, latest, timeout_ns, state);
  }
  bp_cl.clReleaseEvent(latest);
  return rc;
}

/* ---- Calls by the driver ----------------------------------------------------------------- */

typedef struct Listener {
  void (*done)(void *user);
  void *user;
} Listener;

static void CL_CALLBACK call_listener(cl_event event, cl_int status, void *data) {
  Listener listener = *(Listener *)data;
  (void)event;
  (void)status;
  free(data);
  listener.done(listener.user);
}

static int32_t notify(void *context, BpDeviceEvent *event, void (*done)(void *user), void *user) {
  (void)context;
  cl_event latest = use(event);
  if (!latest) {
    done(user);
    return 0;
  }
  cl_int status = CL_OUT_OF_HOST_MEMORY;
  Listener *listener = malloc(sizeof(*listener));
  if (listener) {
    *listener = (Listener){done, user};
    status = bp_cl.clSetEventCallback(latest, CL_COMPLETE, call_listener, listener);
    if (status != CL_SUCCESS)
      free(listener);
  }
  bp_cl.clReleaseEvent(latest);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clSetEventCallback");
}

/* ---- Held by the host -------------------------------------------------------------------- */

static int32_t hold(void *context, BpDeviceEvent *event) {
  (void)context;
  cl_int status = CL_SUCCESS;
  const BpOpenclDevice *device = event->device;
  cl_event held = bp_cl.clCreateUserEvent(device->context, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateUserEvent");
  replace(event, held);
  return 0;
}

static int32_t signal_event(void *context, BpDeviceEvent *event) {
  (void)context;
  cl_event held = use(event);
  cl_int status = bp_cl.clSetUserEventStatus(held, CL_COMPLETE);
  bp_cl.clReleaseEvent(held);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clSetUserEventStatus");
}

const BpEventsApi bp_opencl_events = {.struct_size = sizeof(BpEventsApi),
                                      .create = create,
                                      .free = bp_latest_free,
                                      .record = record,
                                      .wait = wait_for,
                                      .query = query,
                                      .synchronize = synchronize,
                                      .notify = notify,
                                      .hold = hold,
                                      .signal = signal_event};
