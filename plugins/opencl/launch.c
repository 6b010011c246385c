/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. A program is built, and a kernel made, with the first launch on a device; the kernel is
 * locked while its arguments are set and it is queued. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the source that an error shows: lines before and after, and how much of each. */
#define LINES_AROUND 3
#define LONGEST_LINE 200

/* ---- Building ---------------------------------------------------------------------------- */

/* The first line of the source that the compiler's log names, as in "file.cl:12:3: error"; 0: none.
 */
static long line_of_error(const char *log) {
  for (const char *at = strchr(log, ':'); at; at = strchr(at + 1, ':')) {
    char *end;
    long line = strtol(at + 1, &end, 10);
    if (line > 0 && end > at + 1 && *end == ':')
      return line;
  }
  return 0;
}

/* The lines around one, each with its number (free); NULL: there is no memory. */
static char *numbered_lines(const char *source, long around) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  for (long line = 1; out && *source && line <= around + LINES_AROUND; line++) {
    int length = (int)strcspn(source, "\n");
    if (line >= around - LINES_AROUND)
      fprintf(out, "%6ld  %.*s\n", line, length < LONGEST_LINE ? length : LONGEST_LINE, source);
    source += length + (source[length] != '\0');
  }
  return out && fclose(out) == 0 ? text : NULL;
}

/* Raises the compiler's own words, with the source that they are about. */
static int32_t build_failed(const char *source, cl_program program, cl_device_id device,
                            cl_int status) {
  size_t size = 0;
  bp_cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
  char *log = calloc(1, size + 1);
  if (log)
    bp_cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
  char *lines = log ? numbered_lines(source, line_of_error(log)) : NULL;
  int32_t rc = bp_opencl_host.error->raise(
      BP_ERROR_COMPILE, "opencl: the driver rejects the code (%s): %.4000s\n%s",
      bp_opencl_status_name(status), log ? log : "", lines ? lines : "");
  free(lines);
  free(log);
  return rc;
}

static cl_program build(const BpOpenclProgram *program, const BpOpenclDevice *device) {
  cl_int status = CL_SUCCESS;
  const char *source = program->source;
  cl_program built = bp_cl.clCreateProgramWithSource(device->context, 1, &source, NULL, &status);
  if (status != CL_SUCCESS) {
    bp_opencl_raise(status, "clCreateProgramWithSource");
    return NULL;
  }
  status = bp_cl.clBuildProgram(built, 1, &device->id, "", NULL, NULL);
  if (status == CL_SUCCESS)
    return built;
  build_failed(source, built, device->id, status);
  bp_cl.clReleaseProgram(built);
  return NULL;
}

/* The kernel for the device (transfer none); called with its lock held. */
static cl_kernel get_kernel(BpOpenclKernel *kernel, const BpOpenclDevice *device,
                            int32_t device_id) {
  BpOpenclProgram *program = kernel->program;
  cl_int status = CL_SUCCESS;
  if (kernel->kernels[device_id])
    return kernel->kernels[device_id];
  pthread_mutex_lock(&program->lock);
  if (!program->built[device_id])
    program->built[device_id] = build(program, device);
  cl_program built = program->built[device_id];
  pthread_mutex_unlock(&program->lock);
  if (!built)
    return NULL;
  cl_kernel made = bp_cl.clCreateKernel(built, kernel->call.name, &status);
  if (status != CL_SUCCESS) {
    bp_opencl_raise(status, "clCreateKernel");
    bp_opencl_host.error->add_context("kernel %s", kernel->call.name);
    return NULL;
  }
  kernel->kernels[device_id] = made;
  return made;
}

/* ---- Arguments --------------------------------------------------------------------------- */

/* Parts of buffers, made for one launch. */
typedef struct Parts {
  cl_mem items[BP_KERNEL_MOST_ARGS];
  int32_t count;
} Parts;

/* The buffer of a tensor, or the part of it that the tensor begins with. */
static int32_t get_buffer(const BpOpenclKernel *kernel, const BpOpenclDevice *device, int32_t i,
                          const BpValue *arg, Parts *parts, cl_mem *buffer) {
  cl_int status = CL_SUCCESS;
  BpKernelBuffer given = {NULL, 0, 0};
  if (bp_kernel_get_buffer(&bp_opencl_host, &kernel->call, &bp_opencl_device_api, i, arg, &given) !=
      0)
    return -1;
  *buffer = given.data;
  if (given.offset == 0)
    return 0;
  if (given.offset % device->alignment)
    return bp_opencl_host.error->raise(BP_ERROR_VALUE,
                                       "%s: argument %d: a tensor may begin at a multiple of %llu "
                                       "bytes in its buffer, not at %llu",
                                       kernel->call.name, i, (unsigned long long)device->alignment,
                                       (unsigned long long)given.offset);
  cl_buffer_region region = {given.offset, given.size ? given.size : 1};
  *buffer = bp_cl.clCreateSubBuffer(given.data, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                    &region, &status);
  if (status != CL_SUCCESS)
    return bp_opencl_raise(status, "clCreateSubBuffer");
  parts->items[parts->count++] = *buffer;
  return 0;
}

static int32_t set_arg(const BpOpenclKernel *kernel, cl_kernel made, const BpOpenclDevice *device,
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
    status = bp_cl.clSetKernelArg(made, (cl_uint)i, dtype.bits / 8, bytes);
  }
  if (status == CL_SUCCESS)
    return 0;
  bp_opencl_raise(status, "clSetKernelArg");
  return bp_opencl_host.error->add_context("%s: argument %d", kernel->call.name, i);
}

/* ---- Launching --------------------------------------------------------------------------- */

static int32_t get_sizes(const BpOpenclKernel *kernel, const BpValue *args, size_t global[3],
                         size_t local[3]) {
  uint64_t blocks[3], threads[3];
  if (bp_kernel_get_launch(&bp_opencl_host, &kernel->call, args, blocks, threads) != 0)
    return -1;
  for (int i = 0; i < 3; i++) {
    local[i] = threads[i];
    global[i] = blocks[i] * threads[i];
  }
  return 0;
}

static int32_t enqueue(BpOpenclKernel *kernel, const BpOpenclDevice *device, int32_t device_id,
                       BpOpenclStream *stream, const BpValue *args, Parts *parts) {
  size_t global[3], local[3];
  cl_event event = NULL;
  cl_kernel made = get_kernel(kernel, device, device_id);
  if (!made || get_sizes(kernel, args, global, local) != 0)
    return -1;
  for (int32_t i = 0; i < kernel->call.num_args; i++) {
    if (set_arg(kernel, made, device, i, &args[i], parts) != 0)
      return -1;
  }
  cl_int status =
      bp_cl.clEnqueueNDRangeKernel(stream->queue, made, 3, NULL, global, local, 0, NULL, &event);
  if (status != CL_SUCCESS) {
    bp_opencl_raise(status, "clEnqueueNDRangeKernel");
    return bp_opencl_host.error->add_context("kernel %s", kernel->call.name);
  }
  bp_opencl_stream_watch(stream, event);
  return 0;
}

int32_t bp_opencl_launch(BpOpenclKernel *kernel, const BpValue *args, int32_t num_args) {
  int32_t device_id = 0;
  void *handle = NULL;
  Parts parts = {.count = 0};
  if (bp_kernel_check_count(&bp_opencl_host, &kernel->call, num_args) != 0)
    return -1;
  bp_opencl_host.runtime->get_current(BP_DEVICE_OPENCL, &device_id, &handle);
  BpOpenclDevice *device = bp_opencl_device(device_id);
  if (!device)
    return -1;
  pthread_mutex_lock(&kernel->lock);
  int32_t rc = enqueue(kernel, device, device_id, bp_opencl_stream(device, handle), args, &parts);
  pthread_mutex_unlock(&kernel->lock);
  for (int32_t i = 0; i < parts.count; i++)
    bp_cl.clReleaseMemObject(parts.items[i]); /* the queued kernel holds it */
  return rc;
}
