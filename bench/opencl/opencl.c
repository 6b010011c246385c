/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin opencl adds to the driver: launches, copies and a graph of small kernels, beside
 * the same calls of the driver's own API in the same process. The two take turns; printed are the
 * least time of each and the ratio of the two, ours first.
 *
 *   bench-opencl [ROUNDS] */

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/chain.h"

#define LAUNCHES   100 /* in a batch */
#define GRAPH_RUNS 10  /* in a batch */
#define KERNELS    50  /* of the graph */
#define ELEMENTS   256 /* of each of its tensors */
#define COPY_BYTES ((size_t)64 << 20)

static const BpDevice device = {BP_DEVICE_OPENCL, 0};

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

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "bench-opencl: %s: %s\n", what, bp_error_message());
  exit(1);
}

static void must(int failed, const char *what) {
  if (failed)
    fail(what);
}

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

/* ---- Ours -------------------------------------------------------------------------------- */

static const char ir_text[] =
    "(module (function \"empty\" (buffer A float32 global 1) (seq))"
    " (function \"add_one\" (buffer A float32 global 256) (buffer B float32 global 256)"
    "  (for i:int64 0 4 parallel (for j:int64 0 4 serial (store B (ramp (add (mul i 64) (mul j 16))"
    "  1 16) (add (load A (ramp (add (mul i 64) (mul j 16)) 1 16)) (broadcast 1:float32 16)))))))";

static struct {
  BpModule *code, *graph;
  BpFunction *empty, *run, *get_output;
  BpTensor *large, *small;
} ours;

static char *host; /* COPY_BYTES of the host's memory */

static BpTensor *our_tensor(int64_t floats) {
  BpTensor *tensor =
      bp_tensor_create(&floats, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, device, NULL);
  must(!tensor, "tensor");
  return tensor;
}

static void open_graph(void) {
  char *json = chain_json(KERNELS, ELEMENTS);
  BpFunction *set_input;
  must(!json, "memory");
  BpTensor *input = our_tensor(ELEMENTS);
  BpValue result,
      args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"}, {.type_index = BP_TYPE_TENSOR}};
  args[1].v_obj = (BpObject *)(void *)input;
  must(bp_tensor_copy_from_host(&input->view, host, ELEMENTS * sizeof(float)), "input");
  ours.graph = bp_graph_executor_create(json, ours.code, device);
  must(!ours.graph, "graph");
  must(bp_module_get_function(ours.graph, "set_input", 0, &set_input) || !set_input ||
           bp_function_call(set_input, args, 2, &result),
       "set_input");
  must(bp_module_get_function(ours.graph, "run", 0, &ours.run) || !ours.run, "run");
  must(bp_module_get_function(ours.graph, "get_output", 0, &ours.get_output) || !ours.get_output,
       "get_output");
  bp_object_release(set_input);
  bp_object_release(input);
  free(json);
}

static void open_ours(void) {
  BpTarget *target = bp_target_from_device(device);
  BpIrModule *ir = bp_ir_parse(ir_text, strlen(ir_text));
  ours.code = target && ir ? bp_target_build(ir, target) : NULL;
  must(!ours.code, "code");
  must(bp_module_get_function(ours.code, "empty", 0, &ours.empty) || !ours.empty, "kernel");
  ours.large = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
  ours.small = our_tensor(1);
  bp_object_release(ir);
  bp_object_release(target);
}

/* ---- What is compared: seconds for one operation ----------------------------------------- */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double our_launch(void) {
  BpValue result, arg = {.type_index = BP_TYPE_TENSOR};
  arg.v_obj = (BpObject *)(void *)ours.small;
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    result.type_index = BP_TYPE_NONE;
    must(bp_function_call(ours.empty, &arg, 1, &result), "launch");
    must(bp_stream_sync(device, NULL), "sync");
  }
  return (now() - began) / LAUNCHES;
}

static double raw_launch_and_wait(void) {
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    must(cl.clSetKernelArg(raw.empty, 0, sizeof(cl_mem), &raw.empty_buffer), "clSetKernelArg");
    raw_launch(raw.empty, 1);
    must(cl.clFinish(raw.queue), "clFinish");
  }
  return (now() - began) / LAUNCHES;
}

static double our_copy_in(void) {
  double began = now();
  must(bp_tensor_copy_from_host(&ours.large->view, host, COPY_BYTES), "copy");
  must(bp_stream_sync(device, NULL), "sync");
  return now() - began;
}

static double raw_copy_in(void) {
  double began = now();
  must(cl.clEnqueueWriteBuffer(raw.queue, raw.large, CL_TRUE, 0, COPY_BYTES, host, 0, NULL, NULL),
       "clEnqueueWriteBuffer");
  return now() - began;
}

static double our_copy_out(void) {
  double began = now();
  must(bp_tensor_copy_to_host(&ours.large->view, host, COPY_BYTES), "copy");
  return now() - began;
}

static double raw_copy_out(void) {
  double began = now();
  must(cl.clEnqueueReadBuffer(raw.queue, raw.large, CL_TRUE, 0, COPY_BYTES, host, 0, NULL, NULL),
       "clEnqueueReadBuffer");
  return now() - began;
}

static double our_graph(void) {
  const BpValue index = {.type_index = BP_TYPE_INT};
  BpValue result;
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    result.type_index = BP_TYPE_NONE;
    must(bp_function_call(ours.run, NULL, 0, &result), "run");
    must(bp_function_call(ours.get_output, &index, 1, &result), "get_output"); /* waits */
    bp_value_clear(&result);
  }
  return (now() - began) / GRAPH_RUNS;
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

static void compare(const char *what, int rounds, double bar, double (*our)(void),
                    double (*their)(void)) {
  double our_least = 1e9, their_least = 1e9;
  our(), their(); /* the driver compiles with the first launch */
  for (int i = 0; i < rounds; i++) {
    double took = our();
    our_least = took < our_least ? took : our_least;
    took = their();
    their_least = took < their_least ? took : their_least;
  }
  printf("%-28s %10.2f us  driver %10.2f us  ratio %.2f  at most %.2f\n", what, our_least * 1e6,
         their_least * 1e6, our_least / their_least, bar);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 50;
  int32_t count = 0;
  const char *why = "";
  BpOwnedBytes source;
  if (bp_device_count(BP_DEVICE_OPENCL, &count, &why) || count == 0) {
    printf("skipped: %s\n", why);
    return 0;
  }
  host = malloc(COPY_BYTES);
  must(!host, "memory");
  memset(host, 1, COPY_BYTES);
  open_library();
  open_ours();
  open_graph();
  must(bp_module_get_source(ours.code, "cl", &source), "source");
  open_raw(source.data);
  compare("empty kernel and wait", rounds, 1.1, our_launch, raw_launch_and_wait);
  compare("64 MiB to the device", rounds / 5 + 1, 1.05, our_copy_in, raw_copy_in);
  compare("64 MiB from the device", rounds / 5 + 1, 1.05, our_copy_out, raw_copy_out);
  compare("graph of 50 small kernels", rounds, 1.15, our_graph, raw_graph);
  bp_owned_bytes_clear(&source);
  bp_object_release(ours.get_output);
  bp_object_release(ours.run);
  bp_object_release(ours.graph);
  bp_object_release(ours.empty);
  bp_object_release(ours.large);
  bp_object_release(ours.small);
  bp_object_release(ours.code);
  free(host);
  return 0;
}
