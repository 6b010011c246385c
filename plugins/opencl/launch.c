/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. The first launch on a device builds the program and makes the kernel; the kernel is
 * locked while its arguments are set and it is queued. */
#include "opencl.h"

#include <string.h>

/* Refuses a kernel that needs more local memory than the device has: not every driver reports that,
 * and none reports the size. */
static int32_t check_local_memory(const BpKernelEntry *kernel, cl_kernel made,
                                  const BpOpenclDevice *device) {
  cl_ulong used = 0, most = 0;
  if (bp_cl.clGetKernelWorkGroupInfo(made, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(used),
                                     &used, NULL) != CL_SUCCESS ||
      bp_cl.clGetDeviceInfo(device->id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(most), &most, NULL) !=
          CL_SUCCESS ||
      used <= most)
    return 0;
  return bp_plugin_raise(&bp_opencl_host, BP_ERROR_VALUE,
                         "kernel %s: %llu bytes of local memory; the device has %llu",
                         kernel->call.name, (unsigned long long)used, (unsigned long long)most);
}

static cl_kernel make_kernel(const BpKernelModule *module, const BpKernelEntry *kernel,
                             const BpOpenclDevice *device) {
  cl_int status = CL_SUCCESS;
  cl_program built = bp_opencl_program(module, device);
  if (!built)
    return NULL;
  cl_kernel made = bp_cl.clCreateKernel(built, kernel->call.name, &status);
  if (status != CL_SUCCESS) {
    bp_opencl_raise(status, "clCreateKernel");
    bp_plugin_add_context(&bp_opencl_host, "kernel %s", kernel->call.name);
    return NULL;
  }
  if (check_local_memory(kernel, made, device) != 0) {
    bp_cl.clReleaseKernel(made);
    return NULL;
  }
  return made;
}

/* Returns the kernel for the device (transfer none), made at its first use; called with its lock
 * held. */
static cl_kernel get_kernel(const BpKernelModule *module, const BpKernelEntry *kernel,
                            const BpOpenclDevice *device) {
  cl_kernel *place = &((BpOpenclKernel *)kernel->built)->made[device->index];
  if (!*place)
    *place = make_kernel(module, kernel, device);
  return *place;
}

/* ---- Arguments --------------------------------------------------------------------------- */

/* The memory objects of a launch's arguments, buffers and sub-buffers, with references. */
typedef struct Parts {
  cl_mem items[2 * BP_KERNEL_MAX_ARGS];
  int32_t count;
} Parts;

static cl_mem hold(Parts *parts, cl_mem memory) {
  return parts->items[parts->count++] = memory;
}

/* The buffer of a tensor, or the sub-buffer that begins at the tensor's offset. */
static int32_t get_buffer(const BpKernelEntry *kernel, const BpOpenclDevice *device, int32_t i,
                          const BpValue *arg, Parts *parts, cl_mem *memory) {
  cl_int status = CL_SUCCESS;
  BpKernelBuffer given = {NULL, 0, 0};
  BpOpenclBuffer buffer;
  BpKernelPlace place = {&bp_opencl_device_api, device->index};
  if (bp_kernel_get_buffer(&bp_opencl_host, &kernel->call, place, i, arg, &given) != 0)
    return -1;
  if (bp_opencl_find(device, given.data, &buffer) != 0)
    return bp_plugin_add_context(&bp_opencl_host, "%s: argument %d", kernel->call.name, i);
  *memory = hold(parts, buffer.memory);
  if (bp_argument_check_part(&bp_opencl_host, &kernel->call, i, &given, device->alignment,
                             buffer.size) != 0)
    return -1;
  if (given.offset == 0 || given.size == 0)
    return 0;
  cl_buffer_region region = {given.offset, given.size};
  cl_mem part = bp_cl.clCreateSubBuffer(buffer.memory, CL_MEM_READ_WRITE,
                                        CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateSubBuffer");
  *memory = hold(parts, part);
  return 0;
}

static int32_t set_arg(const BpKernelEntry *kernel, cl_kernel made, const BpOpenclDevice *device,
                       int32_t i, const BpValue *arg, Parts *parts) {
  BpDataType dtype = kernel->call.arg_dtypes[i];
  cl_int status;
  if (dtype.code == BP_DTYPE_HANDLE) {
    cl_mem buffer = NULL;
    if (get_buffer(kernel, device, i, arg, parts, &buffer) != 0)
      return -1;
    status = bp_cl.clSetKernelArg(made, (cl_uint)i, sizeof(buffer), &buffer);
  } else {
    char bytes[8];
    if (bp_kernel_get_scalar(&bp_opencl_host, &kernel->call, i, arg, dtype, bytes) != 0)
      return -1;
    status = bp_cl.clSetKernelArg(made, (cl_uint)i, (dtype.bits + 7u) / 8, bytes);
  }
  if (status == CL_SUCCESS)
    return 0;
  bp_opencl_raise(status, "clSetKernelArg");
  return bp_plugin_add_context(&bp_opencl_host, "%s: argument %d", kernel->call.name, i);
}

/* ---- Launching --------------------------------------------------------------------------- */

static int32_t get_sizes(const BpKernelEntry *kernel, const BpValue *args, size_t global[3],
                         size_t local[3]) {
  uint64_t blocks[3], threads[3];
  if (bp_kernel_get_launch(&bp_opencl_host, &kernel->call, args, blocks, threads) != 0)
    return -1;
  for (int i = 0; i < 3; i++) {
    local[i] = threads[i];
    if (__builtin_mul_overflow(blocks[i], threads[i], &global[i]))
      return bp_plugin_raise(
          &bp_opencl_host, BP_ERROR_VALUE,
          "kernel %s: %llu blocks of %llu threads along %c; OpenCL cannot count so many threads",
          kernel->call.name, (unsigned long long)blocks[i], (unsigned long long)threads[i],
          'x' + i);
  }
  return 0;
}

/* Raises the reason why the driver refuses a launch. */
static int32_t launch_failed(const BpKernelEntry *kernel, cl_kernel made,
                             const BpOpenclDevice *device, const size_t local[3], cl_int status) {
  size_t most = 0, built[3] = {0};
  if (status != CL_INVALID_WORK_GROUP_SIZE && status != CL_INVALID_WORK_ITEM_SIZE) {
    bp_opencl_raise(status, "clEnqueueNDRangeKernel");
    return bp_plugin_add_context(&bp_opencl_host, "kernel %s", kernel->call.name);
  }
  bp_cl.clGetKernelWorkGroupInfo(made, device->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof(built),
                                 built, NULL);
  if (built[0] && memcmp(built, local, sizeof(built)) != 0)
    return bp_plugin_raise(
        &bp_opencl_host, BP_ERROR_VALUE,
        "kernel %s: %zu x %zu x %zu threads a block; it was compiled for %zu x %zu "
        "x %zu",
        kernel->call.name, local[0], local[1], local[2], built[0], built[1], built[2]);
  bp_cl.clGetKernelWorkGroupInfo(made, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof(most), &most,
                                 NULL);
  return bp_plugin_raise(
      &bp_opencl_host, BP_ERROR_VALUE,
      "kernel %s: %zu x %zu x %zu threads a block; the device takes at most %zu of "
      "this kernel",
      kernel->call.name, local[0], local[1], local[2], most);
}

static int32_t enqueue(const BpKernelEntry *kernel, cl_kernel made, const BpOpenclDevice *device,
                       BpOpenclStream *stream, const BpValue *args, Parts *parts) {
  size_t global[3], local[3];
  cl_event event = NULL;
  if (get_sizes(kernel, args, global, local) != 0)
    return -1;
  for (int32_t i = 0; i < kernel->call.num_args; i++) {
    if (set_arg(kernel, made, device, i, &args[i], parts) != 0)
      return -1;
  }
  cl_int status =
      bp_cl.clEnqueueNDRangeKernel(stream->queue, made, 3, NULL, global, local, 0, NULL, &event);
  if (status != CL_SUCCESS)
    return launch_failed(kernel, made, device, local, status);
  bp_opencl_stream_watch(stream, event);
  return 0;
}

int32_t bp_opencl_launch(BpKernelModule *module, BpKernelEntry *kernel,
                         const BpInvocation *invocation, const BpValue *args, int32_t num_args) {
  int32_t rc = -1;
  Parts parts = {.count = 0};
  BpOpenclKernel *built = kernel->built;
  if (bp_kernel_check_count(&bp_opencl_host, &kernel->call, num_args) != 0)
    return -1;
  BpOpenclDevice *device = bp_opencl_device(invocation->device.device_id);
  if (!device)
    return -1;
  pthread_mutex_lock(&built->lock);
  cl_kernel made = get_kernel(module, kernel, device);
  if (made)
    rc = enqueue(kernel, made, device, bp_opencl_stream(device, invocation->stream), args, &parts);
  pthread_mutex_unlock(&built->lock);
  for (int32_t i = 0; i < parts.count; i++)
    bp_cl.clReleaseMemObject(parts.items[i]); /* the queued kernel keeps the memory alive */
  return rc;
}
