/* SPDX-License-Identifier: Apache-2.0 */
/* Data space, copies, streams and timers. Queues are in order and keep the objects that they use
 * alive, so freeing memory never waits. */
#include "opencl.h"

#include <backplane/handle_table.h>
#include <stdlib.h>
#include <string.h>

/* ---- Handles ----------------------------------------------------------------------------- */

/* A driver crashes on an invalid cl_mem, so handles are numbers that index this table. */
static BpHandleTable table;                              /* of BpOpenclBuffer */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table */

void *bp_opencl_add(BpOpenclBuffer given) {
  BpOpenclBuffer *buffer = malloc(sizeof(*buffer));
  void *handle = NULL;
  if (buffer) {
    *buffer = given;
    pthread_mutex_lock(&lock);
    handle = bp_handle_add(&table, buffer);
    pthread_mutex_unlock(&lock);
  }
  if (handle)
    return handle;
  free(buffer);
  bp_cl.clReleaseMemObject(given.memory);
  bp_plugin_raise(&bp_opencl_host, BP_ERROR_MEMORY, "opencl: no memory for a buffer");
  return NULL;
}

static int32_t no_buffer(const BpOpenclDevice *device, const void *handle) {
  return bp_plugin_raise(&bp_opencl_host, BP_ERROR_VALUE,
                         "opencl: %p is no buffer of device %d; it was freed before, "
                         "or is of another device",
                         handle, device->index);
}

int32_t bp_opencl_find(const BpOpenclDevice *device, const void *handle, BpOpenclBuffer *buffer) {
  pthread_mutex_lock(&lock);
  const BpOpenclBuffer *found = bp_handle_get(&table, handle);
  int is_there = found && found->device == device;
  if (is_there) {
    *buffer = *found;
    bp_cl.clRetainMemObject(buffer->memory);
  }
  pthread_mutex_unlock(&lock);
  return is_there ? 0 : no_buffer(device, handle);
}

/* Removes a handle; the caller takes its reference to the memory. */
static int32_t remove_buffer(const BpOpenclDevice *device, void *handle, cl_mem *memory) {
  pthread_mutex_lock(&lock);
  BpOpenclBuffer *found = bp_handle_get(&table, handle);
  int is_there = found && found->device == device;
  if (is_there) {
    *memory = found->memory;
    bp_handle_remove(&table, handle);
    free(found);
  }
  pthread_mutex_unlock(&lock);
  return is_there ? 0 : no_buffer(device, handle);
}

/* ---- Data space -------------------------------------------------------------------------- */

int32_t bp_opencl_check_size(const BpOpenclDevice *device, uint64_t size) {
  cl_ulong largest = 0;
  bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(largest), &largest, NULL);
  return size <= largest
             ? 0
             : bp_plugin_raise(&bp_opencl_host, BP_ERROR_MEMORY,
                               "opencl: %llu bytes; a buffer of this device has at most %llu",
                               (unsigned long long)size, (unsigned long long)largest);
}

/* A separate buffer is aligned for every type. */
int32_t bp_opencl_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                        void **handle) {
  (void)context;
  uint64_t size = allocation->size;
  BpOpenclDevice *device = bp_opencl_device(device_id);
  cl_int status = CL_SUCCESS;
  if (!device || bp_plugin_check_allocation(&bp_opencl_host, "opencl", allocation) ||
      bp_opencl_check_size(device, size))
    return -1;
  cl_mem memory =
      bp_cl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, size ? size : 1, NULL, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateBuffer");
  *handle = bp_opencl_add((BpOpenclBuffer){device, memory, size, NULL});
  return *handle ? 0 : -1;
}

int32_t bp_opencl_free(void *context, int32_t device_id, void *handle) {
  (void)context;
  cl_mem memory = NULL;
  if (!handle)
    return 0;
  const BpOpenclDevice *device = bp_opencl_device(device_id);
  if (!device || remove_buffer(device, handle, &memory) != 0)
    return -1;
  cl_int status = bp_cl.clReleaseMemObject(memory);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clReleaseMemObject");
}

/* ---- Copies ------------------------------------------------------------------------------ */

static cl_command_queue queue_of(BpOpenclDevice *device, void *stream) {
  return bp_opencl_stream(device, stream)->queue;
}

/* The source or destination of a copy, in data space, with a reference to the memory. */
typedef struct End {
  BpOpenclDevice *device;
  cl_mem memory;
  char *host; /* as BpOpenclBuffer::host */
} End;

static void release_end(End *end) {
  if (end->memory)
    bp_cl.clReleaseMemObject(end->memory);
}

/* Sets the source or destination of a copy of `size` bytes, and checks that it is inside of its
 * buffer. The caller releases the end, also after an error. */
static int32_t find_end(BpDevice device, const void *handle, uint64_t offset, uint64_t size,
                        End *end) {
  BpOpenclBuffer buffer;
  end->memory = NULL;
  end->device = bp_opencl_device(device.device_id);
  if (!end->device || bp_opencl_find(end->device, handle, &buffer) != 0)
    return -1;
  end->memory = buffer.memory;
  end->host = buffer.host;
  if (offset <= buffer.size && size <= buffer.size - offset)
    return 0;
  return bp_plugin_raise(&bp_opencl_host, BP_ERROR_VALUE,
                         "opencl: a copy of %llu bytes from byte %llu on, in a buffer of %llu",
                         (unsigned long long)size, (unsigned long long)offset,
                         (unsigned long long)buffer.size);
}

static int32_t find_from(const BpCopy *copy, End *from) {
  return find_end(copy->from_device, copy->from, copy->from_offset, copy->size, from);
}

static int32_t find_to(const BpCopy *copy, End *to) {
  return find_end(copy->to_device, copy->to, copy->to_offset, copy->size, to);
}

/* Writes bytes to imported memory on the host when the queue gets there: from then on the memory is
 * the device's. */
static int32_t write_to(const End *to, uint64_t offset, const void *bytes, uint64_t size,
                        void *stream) {
  cl_bool is_blocking = !to->host || (const char *)bytes != to->host + offset;
  cl_int status = bp_cl.clEnqueueWriteBuffer(queue_of(to->device, stream), to->memory, is_blocking,
                                             offset, size, bytes, 0, NULL, NULL);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueWriteBuffer");
}

static int32_t read_from(const End *from, uint64_t offset, void *bytes, uint64_t size,
                         cl_bool is_blocking, void *stream) {
  cl_int status = bp_cl.clEnqueueReadBuffer(queue_of(from->device, stream), from->memory,
                                            is_blocking, offset, size, bytes, 0, NULL, NULL);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueReadBuffer");
}

/* Copies imported memory to its own address on the host: the driver moves the bytes only if it
 * keeps them elsewhere. Mapping shows the host the bytes that the device wrote. */
static int32_t map_for_host(const End *from, uint64_t offset, uint64_t size, void *stream) {
  cl_int status = CL_SUCCESS;
  cl_command_queue queue = queue_of(from->device, stream);
  void *mapped = bp_cl.clEnqueueMapBuffer(queue, from->memory, CL_FALSE, CL_MAP_READ, offset, size,
                                          0, NULL, NULL, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clEnqueueMapBuffer");
  status = bp_cl.clEnqueueUnmapMemObject(queue, from->memory, mapped, 0, NULL, NULL);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueUnmapMemObject");
}

static int32_t to_device(const BpCopy *copy, void *stream) {
  End to;
  int32_t rc = find_to(copy, &to);
  if (rc == 0)
    rc = write_to(&to, copy->to_offset, (const char *)copy->from + copy->from_offset, copy->size,
                  stream);
  release_end(&to);
  return rc;
}

static int32_t from_device(const BpCopy *copy, void *stream) {
  End from;
  int32_t rc = find_from(copy, &from);
  char *to = (char *)copy->to + copy->to_offset;
  if (rc == 0 && from.host && to == from.host + copy->from_offset)
    rc = map_for_host(&from, copy->from_offset, copy->size, stream);
  else if (rc == 0)
    rc = read_from(&from, copy->from_offset, to, copy->size, CL_FALSE, stream);
  release_end(&from);
  return rc;
}

/* Copies between two devices through host memory, because they share no context. `stream` belongs
 * to the source. */
static int32_t through_host(const BpCopy *copy, const End *from, const End *to, void *stream) {
  void *staged = bp_opencl_host.runtime->host_alloc(copy->size, 64);
  if (!staged)
    return -1;
  int32_t rc = read_from(from, copy->from_offset, staged, copy->size, CL_TRUE, stream);
  if (rc == 0)
    rc = write_to(to, copy->to_offset, staged, copy->size, NULL);
  bp_opencl_host.runtime->host_free(staged);
  return rc;
}

static int32_t copy_ends(const BpCopy *copy, const End *from, const End *to, void *stream) {
  if (from->device != to->device)
    return through_host(copy, from, to, stream);
  if (bp_argument_check_overlap(&bp_opencl_host, &bp_opencl_device_api, copy) != 0)
    return -1;
  cl_int status =
      bp_cl.clEnqueueCopyBuffer(queue_of(to->device, stream), from->memory, to->memory,
                                copy->from_offset, copy->to_offset, copy->size, 0, NULL, NULL);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "clEnqueueCopyBuffer");
}

static int32_t between_buffers(const BpCopy *copy, void *stream) {
  End from, to = {NULL, NULL, NULL};
  int32_t rc = find_from(copy, &from);
  if (rc == 0)
    rc = find_to(copy, &to);
  if (rc == 0)
    rc = copy_ends(copy, &from, &to, stream);
  release_end(&from);
  release_end(&to);
  return rc;
}

int32_t bp_opencl_copy(void *context, const BpCopy *copy, void *stream) {
  (void)context;
  if (bp_plugin_check_flags(&bp_opencl_host, "opencl", "copy", copy->flags) != 0)
    return -1;
  if (copy->size == 0)
    return 0;
  if (copy->from_device.device_type != BP_DEVICE_OPENCL)
    return to_device(copy, stream);
  return copy->to_device.device_type == BP_DEVICE_OPENCL ? between_buffers(copy, stream)
                                                         : from_device(copy, stream);
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

int32_t bp_opencl_create_stream(void *context, int32_t device_id, void **handle) {
  (void)context;
  BpOpenclDevice *device = bp_opencl_device(device_id);
  if (!device)
    return -1;
  BpOpenclStream *stream = calloc(1, sizeof(*stream));
  if (!stream)
    return bp_plugin_raise(&bp_opencl_host, BP_ERROR_MEMORY, "opencl: no memory for a stream");
  if (bp_opencl_stream_open(device, stream) != 0) {
    free(stream);
    return -1;
  }
  *handle = stream;
  return 0;
}

int32_t bp_opencl_free_stream(void *context, int32_t device_id, void *handle) {
  (void)context;
  (void)device_id;
  BpOpenclStream *stream = handle;
  if (!stream)
    return 0;
  bp_opencl_stream_watch(stream, NULL);
  bp_cl.clReleaseCommandQueue(stream->queue);
  free(stream);
  return 0;
}

int32_t bp_opencl_sync_from_to(void *context, int32_t device_id, void *from, void *to) {
  (void)context;
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

int32_t bp_opencl_stream_sync(void *context, int32_t device_id, void *handle) {
  (void)context;
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

/* Returns the queue for timers. On PoCL, profiling costs 0.2 us for every command of a queue, so
 * streams are not profiled. The separate queue is profiled, and its markers wait for markers in the
 * stream. The queue is out of order if the device supports that, so that markers of one stream do
 * not wait for those of another. */
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

static int32_t timer_start(void *context, int32_t device_id, void *stream, void **handle) {
  (void)context;
  Timer *timer = calloc(1, sizeof(*timer));
  if (!timer)
    return bp_plugin_raise(&bp_opencl_host, BP_ERROR_MEMORY, "opencl: no memory for a timer");
  timer->device_id = device_id;
  if (mark(device_id, stream, &timer->start) != 0) {
    free(timer);
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
  cl_ulong begin = 0, end = 0;
  cl_int status = timer->stop ? bp_cl.clWaitForEvents(1, &timer->stop) : CL_INVALID_VALUE;
  if (status == CL_SUCCESS)
    status = bp_cl.clGetEventProfilingInfo(timer->start, CL_PROFILING_COMMAND_END, sizeof(begin),
                                           &begin, NULL);
  if (status == CL_SUCCESS)
    status = bp_cl.clGetEventProfilingInfo(timer->stop, CL_PROFILING_COMMAND_END, sizeof(end), &end,
                                           NULL);
  *nanoseconds = (int64_t)(end - begin);
  return status == CL_SUCCESS ? 0 : bp_opencl_raise(status, "reading a timer");
}

static int32_t timer_free(void *context, void *handle) {
  (void)context;
  Timer *timer = handle;
  if (!bp_device_list_is_forked()) {
    bp_cl.clReleaseEvent(timer->start);
    if (timer->stop)
      bp_cl.clReleaseEvent(timer->stop);
  }
  free(timer);
  return 0;
}

const BpTimerApi bp_opencl_timers = {.struct_size = sizeof(BpTimerApi),
                                     .start = timer_start,
                                     .stop = timer_stop,
                                     .read = timer_read,
                                     .free = timer_free};
