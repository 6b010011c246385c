/* SPDX-License-Identifier: Apache-2.0 */
/* Data space, copies, streams and timers. Queues are in order and keep what they use alive, so
 * freeing memory never waits. */
#include "opencl.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* ---- Buffers that are there -------------------------------------------------------------- */

/* A driver does not survive a handle that is none; so those given out are known. */
typedef struct Live {
  void *handle;
  int32_t device_id;
  uint64_t size;
} Live;

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static void *live; /* a tree of Live, see tsearch(3) */

static int compare_live(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const Live *)a)->handle, y = (uintptr_t)((const Live *)b)->handle;
  return (x > y) - (x < y);
}

/* 0, or -1 without an error raised: there is no memory. */
static int32_t add_live(void *handle, int32_t device_id, uint64_t size) {
  Live *buffer = malloc(sizeof(*buffer));
  if (!buffer)
    return -1;
  *buffer = (Live){handle, device_id, size};
  pthread_mutex_lock(&live_lock);
  void *found = tsearch(buffer, &live, compare_live);
  pthread_mutex_unlock(&live_lock);
  if (!found)
    free(buffer);
  return found ? 0 : -1;
}

/* Copies what is known of a handle; 0: nothing. */
static int32_t find_live(void *handle, Live *buffer) {
  const Live key = {.handle = handle};
  pthread_mutex_lock(&live_lock);
  Live **found = tfind(&key, &live, compare_live);
  if (found)
    *buffer = **found;
  pthread_mutex_unlock(&live_lock);
  return found != NULL;
}

/* Forgets a buffer of the device. */
static int32_t remove_live(void *handle, int32_t device_id) {
  const Live key = {.handle = handle};
  pthread_mutex_lock(&live_lock);
  Live **found = tfind(&key, &live, compare_live), *buffer = found ? *found : NULL;
  int32_t owner = buffer ? buffer->device_id : -1;
  if (buffer && owner == device_id) {
    tdelete(&key, &live, compare_live);
    free(buffer);
  }
  pthread_mutex_unlock(&live_lock);
  if (owner == device_id)
    return 0;
  if (owner >= 0)
    return bp_opencl_host.error->raise(
        BP_ERROR_VALUE, "opencl: a buffer of opencl:%d is freed on opencl:%d", owner, device_id);
  return bp_opencl_host.error->raise(BP_ERROR_VALUE,
                                     "opencl: what is freed is no buffer; was it freed before?");
}

/* ---- Data space -------------------------------------------------------------------------- */

int32_t bp_opencl_alloc(int32_t device_id, uint64_t size, uint64_t alignment, BpDataType hint,
                        const char *mem_scope, void **handle) {
  (void)alignment; /* a buffer of its own is aligned for every type */
  (void)hint;
  BpOpenclDevice *device = bp_opencl_device(device_id);
  cl_ulong largest = 0;
  cl_int status = CL_SUCCESS;
  if (!device)
    return -1;
  if (mem_scope && mem_scope[0] && strcmp(mem_scope, "global") != 0)
    return bp_opencl_host.error->raise(
        BP_ERROR_VALUE, "opencl: no memory scope \"%s\"; there is \"global\"", mem_scope);
  bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(largest), &largest, NULL);
  if (size > largest)
    return bp_opencl_host.error->raise(BP_ERROR_MEMORY,
                                       "opencl: %llu bytes; a buffer of this device has at most "
                                       "%llu",
                                       (unsigned long long)size, (unsigned long long)largest);
  *handle =
      bp_cl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, size ? size : 1, NULL, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateBuffer");
  if (add_live(*handle, device_id, size) == 0)
    return 0;
  bp_cl.clReleaseMemObject(*handle);
  return bp_opencl_host.error->raise(BP_ERROR_MEMORY, "opencl: no memory for a buffer");
}

int32_t bp_opencl_free(int32_t device_id, void *handle) {
  if (!handle)
    return 0;
  if (remove_live(handle, device_id) != 0)
    return -1;
  cl_int status = bp_cl.clReleaseMemObject(handle);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clReleaseMemObject");
}

/* ---- Copies ------------------------------------------------------------------------------ */

static cl_command_queue queue_of(BpOpenclDevice *device, void *stream) {
  return bp_opencl_stream(device, stream)->queue;
}

static int32_t to_device(const BpCopy *copy, void *stream) {
  BpOpenclDevice *device = bp_opencl_device(copy->to_device.device_id);
  if (!device)
    return -1;
  cl_int status = bp_cl.clEnqueueWriteBuffer(
      queue_of(device, stream), copy->to, CL_TRUE, copy->to_offset, copy->size,
      (const char *)copy->from + copy->from_offset, 0, NULL, NULL);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueWriteBuffer");
}

static int32_t from_device(const BpCopy *copy, void *stream, cl_bool is_blocking) {
  BpOpenclDevice *device = bp_opencl_device(copy->from_device.device_id);
  if (!device)
    return -1;
  cl_int status = bp_cl.clEnqueueReadBuffer(queue_of(device, stream), (cl_mem)(uintptr_t)copy->from,
                                            is_blocking, copy->from_offset, copy->size,
                                            (char *)copy->to + copy->to_offset, 0, NULL, NULL);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueReadBuffer");
}

static int32_t within_device(const BpCopy *copy, void *stream) {
  BpOpenclDevice *device = bp_opencl_device(copy->to_device.device_id);
  if (!device)
    return -1;
  cl_int status =
      bp_cl.clEnqueueCopyBuffer(queue_of(device, stream), (cl_mem)(uintptr_t)copy->from, copy->to,
                                copy->from_offset, copy->to_offset, copy->size, 0, NULL, NULL);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueCopyBuffer");
}

/* Between two devices, which share no context: through host memory. The stream is the source's. */
static int32_t between_devices(const BpCopy *copy, void *stream) {
  void *staged = bp_opencl_host.runtime->host_alloc(copy->size, 64);
  if (!staged)
    return -1;
  BpCopy half = *copy;
  half.to = staged;
  half.to_offset = 0;
  int32_t rc = from_device(&half, stream, CL_TRUE);
  half = *copy;
  half.from = staged;
  half.from_offset = 0;
  if (rc == 0)
    rc = to_device(&half, NULL);
  bp_opencl_host.runtime->host_free(staged);
  return rc;
}

/* A copy stays inside of the buffers that are known. */
static int32_t check_range(const void *handle, uint64_t offset, uint64_t size) {
  Live buffer;
  if (!find_live((void *)(uintptr_t)handle, &buffer) ||
      (offset <= buffer.size && size <= buffer.size - offset))
    return 0;
  return bp_opencl_host.error->raise(
      BP_ERROR_VALUE, "opencl: a copy of %llu bytes from byte %llu on, in a buffer of %llu",
      (unsigned long long)size, (unsigned long long)offset, (unsigned long long)buffer.size);
}

int32_t bp_opencl_copy(const BpCopy *copy, void *stream) {
  if (copy->size == 0)
    return 0;
  int from_here = copy->from_device.device_type == BP_DEVICE_OPENCL;
  int to_here = copy->to_device.device_type == BP_DEVICE_OPENCL;
  if ((from_here && check_range(copy->from, copy->from_offset, copy->size) != 0) ||
      (to_here && check_range(copy->to, copy->to_offset, copy->size) != 0))
    return -1;
  if (!from_here)
    return to_device(copy, stream);
  if (!to_here)
    return from_device(copy, stream, CL_FALSE);
  return copy->from_device.device_id == copy->to_device.device_id ? within_device(copy, stream)
                                                                  : between_devices(copy, stream);
}

/* ---- Streams ----------------------------------------------------------------------------- */

int32_t bp_opencl_stream_open(BpOpenclDevice *device, BpOpenclStream *stream) {
  cl_int status = CL_SUCCESS;
  stream->queue = bp_cl.clCreateCommandQueue(device->context, device->id, 0, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateCommandQueue");
  atomic_init(&stream->last, NULL);
  return 0;
}

BpOpenclStream *bp_opencl_stream(BpOpenclDevice *device, void *stream) {
  return stream ? stream : &device->stream;
}

void bp_opencl_stream_watch(BpOpenclStream *stream, cl_event event) {
  cl_event before = atomic_exchange(&stream->last, event);
  if (before)
    bp_cl.clReleaseEvent(before);
}

int32_t bp_opencl_create_stream(int32_t device_id, void **handle) {
  BpOpenclDevice *device = bp_opencl_device(device_id);
  if (!device)
    return -1;
  BpOpenclStream *stream = calloc(1, sizeof(*stream));
  if (!stream)
    return bp_opencl_host.error->raise(BP_ERROR_MEMORY, "opencl: no memory for a stream");
  if (bp_opencl_stream_open(device, stream) != 0) {
    free(stream);
    return -1;
  }
  *handle = stream;
  return 0;
}

int32_t bp_opencl_free_stream(int32_t device_id, void *handle) {
  (void)device_id;
  BpOpenclStream *stream = handle;
  if (!stream)
    return 0;
  bp_opencl_stream_watch(stream, NULL);
  bp_cl.clReleaseCommandQueue(stream->queue);
  free(stream);
  return 0;
}

int32_t bp_opencl_sync_from_to(int32_t device_id, void *from, void *to) {
  BpOpenclDevice *device = bp_opencl_device(device_id);
  cl_event event = NULL;
  if (!device)
    return -1;
  cl_int status = bp_cl.clEnqueueMarkerWithWaitList(queue_of(device, from), 0, NULL, &event);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clEnqueueMarkerWithWaitList");
  bp_cl.clFlush(queue_of(device, from));
  status = bp_cl.clEnqueueBarrierWithWaitList(queue_of(device, to), 1, &event, NULL);
  bp_cl.clReleaseEvent(event);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueBarrierWithWaitList");
}

int32_t bp_opencl_stream_sync(int32_t device_id, void *handle) {
  BpOpenclDevice *device = bp_opencl_device(device_id);
  cl_int outcome = CL_COMPLETE;
  if (!device)
    return -1;
  BpOpenclStream *stream = bp_opencl_stream(device, handle);
  cl_int status = bp_cl.clFinish(stream->queue);
  cl_event last = atomic_exchange(&stream->last, NULL);
  if (last) {
    bp_cl.clGetEventInfo(last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(outcome), &outcome, NULL);
    bp_cl.clReleaseEvent(last);
  }
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clFinish");
  return outcome >= 0 ? 0 : bp_opencl_raise(outcome, "a kernel that was launched before");
}

/* ---- Timers ------------------------------------------------------------------------------ */

typedef struct Timer {
  int32_t device_id;
  cl_event start;
  cl_event stop;
} Timer;

/* Profiling costs every command of a queue 0.2 us on PoCL, so streams have none. A queue of its own
 * has it, in which markers wait for those of the stream; out of order where the device can, so that
 * one stream's do not wait for another's. */
static int32_t timing_queue(BpOpenclDevice *device, cl_command_queue *queue) {
  cl_int status = CL_SUCCESS;
  pthread_mutex_lock(&device->lock);
  if (!device->timing)
    device->timing = bp_cl.clCreateCommandQueue(
        device->context, device->id,
        CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
  if (!device->timing)
    device->timing =
        bp_cl.clCreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &status);
  *queue = device->timing;
  pthread_mutex_unlock(&device->lock);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clCreateCommandQueue");
}

static int32_t mark(int32_t device_id, void *stream, cl_event *event) {
  BpOpenclDevice *device = bp_opencl_device(device_id);
  cl_command_queue timing = NULL;
  cl_event reached = NULL;
  if (!device || timing_queue(device, &timing) != 0)
    return -1;
  cl_int status = bp_cl.clEnqueueMarkerWithWaitList(queue_of(device, stream), 0, NULL, &reached);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clEnqueueMarkerWithWaitList");
  bp_cl.clFlush(queue_of(device, stream));
  status = bp_cl.clEnqueueMarkerWithWaitList(timing, 1, &reached, event);
  bp_cl.clReleaseEvent(reached);
  bp_cl.clFlush(timing);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueMarkerWithWaitList");
}

int32_t bp_opencl_timer_start(int32_t device_id, void *stream, void **handle) {
  Timer *timer = calloc(1, sizeof(*timer));
  if (!timer)
    return bp_opencl_host.error->raise(BP_ERROR_MEMORY, "opencl: no memory for a timer");
  timer->device_id = device_id;
  if (mark(device_id, stream, &timer->start) != 0) {
    free(timer);
    return -1;
  }
  *handle = timer;
  return 0;
}

int32_t bp_opencl_timer_stop(void *handle, void *stream) {
  Timer *timer = handle;
  return mark(timer->device_id, stream, &timer->stop);
}

int32_t bp_opencl_timer_read(void *handle, int64_t *nanoseconds) {
  Timer *timer = handle;
  cl_ulong begin = 0, end = 0;
  cl_int status = timer->stop ? bp_cl.clWaitForEvents(1, &timer->stop) : CL_INVALID_VALUE;
  if (status == CL_SUCCESS)
    status = bp_cl.clGetEventProfilingInfo(timer->start, CL_PROFILING_COMMAND_END, sizeof(begin),
                                           &begin, NULL);
  if (status == CL_SUCCESS)
    status = bp_cl.clGetEventProfilingInfo(timer->stop, CL_PROFILING_COMMAND_END, sizeof(end), &end,
                                           NULL);
  *nanoseconds = (int64_t)(end - begin);
  bp_cl.clReleaseEvent(timer->start);
  if (timer->stop)
    bp_cl.clReleaseEvent(timer->stop);
  free(timer);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "reading a timer");
}
