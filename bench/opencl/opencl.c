/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the plugin opencl adds to the driver: launches, copies and a graph of small
 * kernels, beside the same calls of the driver's own API in the same process. Plugin and driver
 * take turns; the program prints the shortest time of each and the ratio of Backplane's time to the
 * driver's.
 *
 *   bench-opencl [ROUNDS] */

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <backplane/module.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "bench/beside_driver.h"

#define FUNCTIONS(X)                                                                               \
  X(clGetPlatformIDs)                                                                              \
  X(clGetDeviceIDs)                                                                                \
  X(clCreateContext)                                                                               \
  X(clCreateCommandQueue)                                                                          \
  X(clCreateBuffer)                                                                                \
  X(clCreateProgramWithSource)                                                                     \
  X(clBuildProgram)                                                                                \
  X(clCreateKernel)                                                                                \
  X(clSetKernelArg)                                                                                \
  X(clEnqueueNDRangeKernel)                                                                        \
  X(clEnqueueWriteBuffer)                                                                          \
  X(clEnqueueReadBuffer)                                                                           \
  X(clFinish)

#define MEMBER(name) __typeof__(&name) name;
static struct { FUNCTIONS(MEMBER) } cl;

/* ---- The driver's own API ---------------------------------------------------------------- */

static struct {
  cl_context context;
  cl_command_queue queue;
  cl_kernel empty, step;
  cl_mem empty_buffer, large, values[KERNELS + 1];
} raw;

static cl_mem raw_buffer(size_t size) {
  cl_int status;
  cl_mem buffer = cl.clCreateBuffer(raw.context, CL_MEM_READ_WRITE, size, NULL, &status);
  must(status, "clCreateBuffer");
  return buffer;
}

static void open_library(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(dlerror());
#define RESOLVE(name)                                                                              \
  *(void **)&cl.name = dlsym(library, #name);                                                      \
  must(!cl.name, #name);
  FUNCTIONS(RESOLVE)
}

static void open_raw(const char *source) {
  cl_platform_id platform;
  cl_device_id id;
  cl_int status;
  must(cl.clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  must(cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL), "clGetDeviceIDs");
  raw.context = cl.clCreateContext(NULL, 1, &id, NULL, NULL, &status);
  must(status, "clCreateContext");
  raw.queue = cl.clCreateCommandQueue(raw.context, id, 0, &status);
  must(status, "clCreateCommandQueue");
  cl_program program = cl.clCreateProgramWithSource(raw.context, 1, &source, NULL, &status);
  must(status, "clCreateProgramWithSource");
  must(cl.clBuildProgram(program, 1, &id, "", NULL, NULL), "clBuildProgram");
  raw.empty = cl.clCreateKernel(program, "empty", &status);
  must(status, "clCreateKernel");
  raw.step = cl.clCreateKernel(program, "add_one", &status);
  must(status, "clCreateKernel");
  raw.large = raw_buffer(COPY_BYTES);
  raw.empty_buffer = raw_buffer(4);
  for (int i = 0; i <= KERNELS; i++)
    raw.values[i] = raw_buffer(ELEMENTS * sizeof(float));
}

static void raw_launch(cl_kernel kernel, size_t groups) {
  const size_t global[3] = {groups, 1, 1}, local[3] = {1, 1, 1};
  must(cl.clEnqueueNDRangeKernel(raw.queue, kernel, 3, NULL, global, local, 0, NULL, NULL),
       "clEnqueueNDRangeKernel");
}

/* ---- Seconds for one operation ----------------------------------------------------------- */

static double raw_launch_and_wait(void) {
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    must(cl.clSetKernelArg(raw.empty, 0, sizeof(cl_mem), &raw.empty_buffer), "clSetKernelArg");
    raw_launch(raw.empty, 1);
    must(cl.clFinish(raw.queue), "clFinish");
  }
  return (now() - began) / LAUNCHES;
}

static double raw_copy_in(void) {
  double began = now();
  must(cl.clEnqueueWriteBuffer(raw.queue, raw.large, CL_TRUE, 0, COPY_BYTES, host, 0, NULL, NULL),
       "clEnqueueWriteBuffer");
  return now() - began;
}

static double raw_copy_out(void) {
  double began = now();
  must(cl.clEnqueueReadBuffer(raw.queue, raw.large, CL_TRUE, 0, COPY_BYTES, host, 0, NULL, NULL),
       "clEnqueueReadBuffer");
  return now() - began;
}

static double raw_graph(void) {
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    for (int k = 0; k < KERNELS; k++) {
      cl.clSetKernelArg(raw.step, 0, sizeof(cl_mem), &raw.values[k]);
      cl.clSetKernelArg(raw.step, 1, sizeof(cl_mem), &raw.values[k + 1]);
      raw_launch(raw.step, 4);
    }
    must(cl.clFinish(raw.queue), "clFinish");
  }
  return (now() - began) / GRAPH_RUNS;
}

static const Driver driver = {{1.1, 0}, raw_launch_and_wait, raw_copy_in, raw_copy_out, raw_graph};

int main(int argc, char **argv) {
  BpOwnedBytes source;
  if (!open_ours("bench-opencl", BP_DEVICE_OPENCL, "(module " EMPTY_IR ADD_ONE_IR ")"))
    return 0;
  open_library();
  must(bp_module_get_source(ours.code, "cl", &source), "source");
  open_raw(source.data);
  compare_with_driver(argc > 1 ? atoi(argv[1]) : 50, &driver);
  bp_owned_bytes_clear(&source);
  close_ours();
  return 0;
}
